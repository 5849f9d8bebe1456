//! What can be done to the objects, each as one function from a state to the next: all of a change
//! is applied, or none of it and the refusal says why.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::attributes::AttributeSet;
use super::error::{ErrorCode, ModelError};
use super::health_check::HealthCheckChange;
use super::name::{Name, Zone};
use super::objects::{IpAddressType, Registration, State, Target, TargetGroup, Weight};
use super::registry::{self, ObjectKind, Value};
use super::settings::{self, Stickiness};
use crate::datapath::counters;

/// The most targets, registered and draining, that a group holds. O-3 asks for 1,000.
pub const MAX_TARGETS_PER_GROUP: usize = 4096;
/// The most targets that all groups hold together: half of the slots that a node has, so that targets
/// whose last flows outlive their registration have slots too (T-4).
pub const MAX_TARGETS: usize = counters::MAX_TARGETS / 2;

/// One change. Objects are named by name or ARN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a load balancer, without a listener.
    CreateLoadBalancer {
        /// Its name.
        name: Name,
        /// What may travel inside.
        ip_address_type: IpAddressType,
        /// The zones that it serves; empty for every zone.
        zones: BTreeSet<Zone>,
    },
    /// Deletes a load balancer with its listener, unless it is protected.
    DeleteLoadBalancer {
        /// Its name or ARN.
        load_balancer: String,
    },
    /// Gives a load balancer its listener.
    CreateListener {
        /// The load balancer's name or ARN.
        load_balancer: String,
        /// The name or ARN of the group that it forwards to.
        target_group: String,
    },
    /// Has a listener forward to another group.
    ModifyListener {
        /// Its ARN, or the name or ARN of its load balancer.
        listener: String,
        /// The name or ARN of the group that it forwards to.
        target_group: String,
    },
    /// Takes a load balancer's listener away.
    DeleteListener {
        /// Its ARN, or the name or ARN of its load balancer.
        listener: String,
    },
    /// Creates a target group, without targets.
    CreateTargetGroup {
        /// Its name.
        name: Name,
        /// How its targets are checked, where not by the defaults.
        health_check: HealthCheckChange,
    },
    /// Changes how the targets of a group are checked.
    ModifyTargetGroup {
        /// Its name or ARN.
        target_group: String,
        /// What is to be another.
        health_check: HealthCheckChange,
    },
    /// Deletes a target group that no listener uses, with its targets.
    DeleteTargetGroup {
        /// Its name or ARN.
        target_group: String,
    },
    /// Sets attributes of a load balancer.
    ModifyLoadBalancerAttributes {
        /// Its name or ARN.
        load_balancer: String,
        /// Keys and values.
        attributes: Vec<(String, String)>,
    },
    /// Sets attributes of a listener.
    ModifyListenerAttributes {
        /// Its ARN, or the name or ARN of its load balancer.
        listener: String,
        /// Keys and values.
        attributes: Vec<(String, String)>,
    },
    /// Sets attributes of a target group.
    ModifyTargetGroupAttributes {
        /// Its name or ARN.
        target_group: String,
        /// Keys and values.
        attributes: Vec<(String, String)>,
    },
    /// Registers targets, or changes the zone or weight of registered ones.
    RegisterTargets {
        /// The group's name or ARN.
        target_group: String,
        /// At least one.
        targets: Vec<TargetDescription>,
    },
    /// Starts the drain of targets.
    DeregisterTargets {
        /// The group's name or ARN.
        target_group: String,
        /// At least one.
        targets: Vec<Ipv4Addr>,
        /// The present, in milliseconds since 1970: when the drain starts.
        now_unix_ms: u64,
    },
    /// Ends the drain that started at that time; nothing if the target has been registered again
    /// or has been removed since.
    FinishDraining {
        /// The group's name or ARN.
        target_group: String,
        /// The target.
        address: Ipv4Addr,
        /// When its drain started, in milliseconds since 1970.
        since_unix_ms: u64,
    },
}

/// A target to be registered. What is not given keeps its value if the target is there already,
/// and has its default if not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetDescription {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its zone: `Some(None)` for every zone, which is also the default.
    pub zone: Option<Option<Zone>>,
    /// Its weight; 1 by default.
    pub weight: Option<Weight>,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An object came, went, or is another as a whole.
    Object {
        /// What kind of object.
        kind: ObjectKind,
        /// Its name (a listener's: its load balancer's); none for one that was gone already.
        name: Option<Name>,
        /// What became of it.
        change: ObjectChange,
    },
    /// Attributes were set.
    Attributes {
        /// Of what kind of object.
        kind: ObjectKind,
        /// The object's name (a listener's: its load balancer's).
        name: Name,
        /// Those whose value is now another, with the new value.
        changed: Vec<(&'static str, Value)>,
    },
    /// Targets came or went.
    Targets {
        /// The group's name.
        target_group: Name,
        /// What became of whom; a target that is as it was is not listed.
        changed: Vec<(Ipv4Addr, TargetChange)>,
    },
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// It is new.
    Created,
    /// It is another than it was.
    Modified,
    /// It is gone.
    Deleted,
    /// It is as was asked for already.
    Unchanged,
}

/// What became of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetChange {
    /// It is new in its group.
    Registered,
    /// It was registered and still is, with another zone or weight.
    Updated,
    /// It was draining and is registered again: back to `initial`, its flows untouched (T-7).
    Reregistered,
    /// It was registered and is draining now.
    Draining,
    /// Its drain has ended, and it is no longer of the group.
    Removed,
}

impl Outcome {
    /// Whether anything is other than it was.
    #[must_use]
    pub fn is_change(&self) -> bool {
        match self {
            Outcome::Object { change, .. } => *change != ObjectChange::Unchanged,
            Outcome::Attributes { changed, .. } => !changed.is_empty(),
            Outcome::Targets { changed, .. } => !changed.is_empty(),
        }
    }
}

impl State {
    /// The state after `change`. The generation counts only what makes a difference: a change that
    /// asks for what already is leaves it alone, and need not be stored.
    ///
    /// # Errors
    /// The refusal; `self` stays as it was in any case.
    pub fn apply(&self, change: &Change) -> Result<(State, Outcome), ModelError> {
        let mut next = self.clone();
        let outcome = match change {
            Change::CreateLoadBalancer { name, ip_address_type, zones } => {
                next.create_load_balancer(name, *ip_address_type, zones)?
            }
            Change::DeleteLoadBalancer { load_balancer } => next.delete_load_balancer(load_balancer)?,
            Change::CreateListener { load_balancer, target_group } => {
                next.create_listener(load_balancer, target_group)?
            }
            Change::ModifyListener { listener, target_group } => {
                next.modify_default_action(listener, target_group)?
            }
            Change::DeleteListener { listener } => next.delete_listener(listener)?,
            Change::CreateTargetGroup { name, health_check } => {
                next.create_target_group(name, health_check)?
            }
            Change::ModifyTargetGroup { target_group, health_check } => {
                next.modify_health_check(target_group, health_check)?
            }
            Change::DeleteTargetGroup { target_group } => next.delete_target_group(target_group)?,
            Change::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                next.modify_load_balancer(load_balancer, attributes)?
            }
            Change::ModifyListenerAttributes { listener, attributes } => {
                next.modify_listener(listener, attributes)?
            }
            Change::ModifyTargetGroupAttributes { target_group, attributes } => {
                next.modify_target_group(target_group, attributes)?
            }
            Change::RegisterTargets { target_group, targets } => next.register(target_group, targets)?,
            Change::DeregisterTargets { target_group, targets, now_unix_ms } => {
                next.deregister(target_group, targets, *now_unix_ms)?
            }
            Change::FinishDraining { target_group, address, since_unix_ms } => {
                next.finish_draining(target_group, *address, *since_unix_ms)?
            }
        };
        if outcome.is_change() {
            next.generation += 1;
        }
        Ok((next, outcome))
    }

    fn modify_load_balancer(
        &mut self,
        reference: &str,
        changes: &[(String, String)],
    ) -> Result<Outcome, ModelError> {
        let name = self.load_balancer(reference)?.name.clone();
        let balancer = entry(&mut self.load_balancers, &name);
        let before = balancer.attributes.clone();
        balancer.attributes = modified(&before, changes)?;
        Ok(attribute_outcome(ObjectKind::LoadBalancer, name, &before, &balancer.attributes))
    }

    fn modify_listener(
        &mut self,
        reference: &str,
        changes: &[(String, String)],
    ) -> Result<Outcome, ModelError> {
        let (balancer, listener) = self.load_balancer_of_listener(reference)?;
        let name = balancer.name.clone();
        let before = listener.attributes.clone();
        let after = modified(&before, changes)?;
        let sticky = settings::stickiness(&self.target_groups[&listener.target_group].attributes);
        check_idle_timeout(&before, &after, sticky)?;
        let outcome = attribute_outcome(ObjectKind::Listener, name.clone(), &before, &after);
        if let Some(listener) = &mut entry(&mut self.load_balancers, &name).listener {
            listener.attributes = after;
        }
        Ok(outcome)
    }

    fn modify_target_group(
        &mut self,
        reference: &str,
        changes: &[(String, String)],
    ) -> Result<Outcome, ModelError> {
        let name = self.target_group(reference)?.name.clone();
        let group = entry(&mut self.target_groups, &name);
        let before = group.attributes.clone();
        group.attributes = modified(&before, changes)?;
        group.health_check.agrees_with(&group.attributes)?;
        Ok(attribute_outcome(ObjectKind::TargetGroup, name, &before, &group.attributes))
    }

    fn register(&mut self, reference: &str, targets: &[TargetDescription]) -> Result<Outcome, ModelError> {
        let before = self.group_to_change(reference)?;
        at_least_one(targets)?;
        let group = entry(&mut self.target_groups, &before.name);
        for (position, description) in targets.iter().enumerate() {
            check_address(description.address)
                .map_err(|error| error.under(&format!("targets[{position}]")))?;
            let known = group.targets.get(&description.address);
            let target = registered(known, description);
            group.targets.insert(description.address, target);
        }
        let outcome = target_outcome(&before, group, targets.iter().map(|target| target.address));
        self.check_target_counts(&before.name)?;
        Ok(outcome)
    }

    fn deregister(
        &mut self,
        reference: &str,
        targets: &[Ipv4Addr],
        now_unix_ms: u64,
    ) -> Result<Outcome, ModelError> {
        let before = self.group_to_change(reference)?;
        at_least_one(targets)?;
        let group = entry(&mut self.target_groups, &before.name);
        for address in targets {
            // A target that is draining already keeps its clock, and one that is not there is
            // where the caller wants it to be (O-3).
            if let Some(target) = group.targets.get_mut(address).filter(|t| t.is_registered()) {
                target.registration = Registration::Draining { since_unix_ms: now_unix_ms };
            }
        }
        Ok(target_outcome(&before, group, targets.iter().copied()))
    }

    fn finish_draining(
        &mut self,
        reference: &str,
        address: Ipv4Addr,
        since_unix_ms: u64,
    ) -> Result<Outcome, ModelError> {
        let before = self.group_to_change(reference)?;
        let group = entry(&mut self.target_groups, &before.name);
        let that_drain = Registration::Draining { since_unix_ms };
        if group.targets.get(&address).is_some_and(|target| target.registration == that_drain) {
            group.targets.remove(&address);
        }
        Ok(target_outcome(&before, group, [address]))
    }

    /// A group as it is before a change, shared with whatever state it is also part of.
    fn group_to_change(&self, reference: &str) -> Result<Arc<TargetGroup>, ModelError> {
        let name = &self.target_group(reference)?.name;
        Ok(Arc::clone(&self.target_groups[name]))
    }

    /// That `group`, and all groups together, hold no more targets than they may.
    pub(super) fn check_target_counts(&self, group: &Name) -> Result<(), ModelError> {
        let too_many = |holder: String, count: usize, limit: usize| {
            let message = format!("{holder} would have {count} targets; it can have {limit}");
            Err(ModelError::new(ErrorCode::TooManyTargets, message))
        };
        let of_group = self.target_groups[group].targets.len();
        if of_group > MAX_TARGETS_PER_GROUP {
            return too_many(format!("Target group '{group}'"), of_group, MAX_TARGETS_PER_GROUP);
        }
        let of_all = self.target_groups().map(|group| group.targets.len()).sum();
        if of_all > MAX_TARGETS {
            return too_many("This node".to_owned(), of_all, MAX_TARGETS);
        }
        Ok(())
    }
}

/// A target as it is registered: what the description leaves out is as it was known, if it was.
fn registered(known: Option<&Target>, description: &TargetDescription) -> Target {
    let zone = match &description.zone {
        Some(zone) => zone.clone(),
        None => known.and_then(|target| target.zone.clone()),
    };
    let weight = description.weight.or(known.map(|target| target.weight)).unwrap_or_default();
    Target { zone, weight, registration: Registration::Registered }
}

/// What became of the targets that a change named, however often it named them.
fn target_outcome(
    before: &TargetGroup,
    after: &TargetGroup,
    named: impl IntoIterator<Item = Ipv4Addr>,
) -> Outcome {
    let named: BTreeSet<Ipv4Addr> = named.into_iter().collect();
    let change = |address: &Ipv4Addr| match (before.targets.get(address), after.targets.get(address)) {
        (None, None) => None,
        (None, Some(_)) => Some(TargetChange::Registered),
        (Some(_), None) => Some(TargetChange::Removed),
        (Some(was), Some(is)) => match (was.is_registered(), is.is_registered()) {
            (true, false) => Some(TargetChange::Draining),
            (false, true) => Some(TargetChange::Reregistered),
            _ => (was != is).then_some(TargetChange::Updated),
        },
    };
    let changed =
        named.into_iter().filter_map(|address| change(&address).map(|change| (address, change))).collect();
    Outcome::Targets { target_group: after.name.clone(), changed }
}

/// An address that a GENEVE packet can be sent to.
pub(super) fn check_address(address: Ipv4Addr) -> Result<(), ModelError> {
    let why = if address.is_unspecified() {
        "is not set"
    } else if address.is_loopback() {
        "is a loopback address"
    } else if address.is_multicast() {
        "is a multicast address"
    } else if address.is_broadcast() {
        "is the broadcast address"
    } else {
        return Ok(());
    };
    let message = format!("The address '{address}' {why} and cannot be a target");
    Err(ModelError::new(ErrorCode::InvalidTarget, message).under("address"))
}

/// the idle timeout is changed only where 5-tuples choose the target.
pub(super) fn check_idle_timeout(
    before: &AttributeSet,
    after: &AttributeSet,
    stickiness: Stickiness,
) -> Result<(), ModelError> {
    let key = &registry::TCP_IDLE_TIMEOUT;
    if stickiness == Stickiness::FiveTuple || before.get(key) == after.get(key) {
        return Ok(());
    }
    let message = format!(
        "Listener attribute '{}' cannot be changed to '{}' while 'stickiness.enabled' is 'true' for its \
         target group; sticky flows use '{}'",
        key.key,
        after.get(key),
        key.default
    );
    Err(ModelError::invalid(message).under("attributes"))
}

fn modified(before: &AttributeSet, changes: &[(String, String)]) -> Result<AttributeSet, ModelError> {
    if changes.is_empty() {
        return Err(ModelError::invalid("At least one attribute must be given").under("attributes"));
    }
    before.modified(changes)
}

fn at_least_one<T>(targets: &[T]) -> Result<(), ModelError> {
    if targets.is_empty() {
        return Err(ModelError::invalid("At least one target must be given").under("targets"));
    }
    Ok(())
}

fn attribute_outcome(kind: ObjectKind, name: Name, before: &AttributeSet, after: &AttributeSet) -> Outcome {
    let changed = after
        .describe()
        .filter(|(attribute, value)| before.get(attribute) != *value)
        .map(|(attribute, value)| (attribute.key, value))
        .collect();
    Outcome::Attributes { kind, name, changed }
}

/// An object that was just found, to be changed; the old state keeps its own copy.
pub(super) fn entry<'a, T: Clone>(objects: &'a mut BTreeMap<Name, Arc<T>>, name: &Name) -> &'a mut T {
    Arc::make_mut(objects.get_mut(name).expect("the name was taken from this map"))
}
