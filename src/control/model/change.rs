//! What can be done to the objects, each as one function from a state to the next: all of a change
//! is applied, or none of it and the refusal says why.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::attributes::AttributeSet;
use super::difference::{Difference, Differs, target_change};
use super::error::ModelError;
use super::health_check::HealthCheckChange;
use super::name::{ForeignId, Name, Zone};
use super::objects::{IpAddressType, State, Weight};
use super::placement::Placement;
use super::registry::{self, ObjectKind, Value};
use super::settings::{self, Stickiness};

/// One change. Objects are named by name or ARN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Creates a load balancer, without a listener.
    CreateLoadBalancer {
        /// Its name.
        name: Name,
        /// What may travel inside.
        ip_address_type: IpAddressType,
        /// The zones that it serves, and the subnets that it is given.
        placement: Placement,
        /// Its tags.
        tags: Vec<(String, String)>,
        /// The present, in milliseconds since 1970.
        now_unix_ms: u64,
    },
    /// Deletes a load balancer with its listener, unless it is protected.
    DeleteLoadBalancer {
        /// Its name or ARN.
        load_balancer: String,
    },
    /// Has a load balancer serve other zones.
    SetSubnets {
        /// Its name or ARN.
        load_balancer: String,
        /// In place of those that it had.
        placement: Placement,
        /// What may travel inside, if that is to be another.
        ip_address_type: Option<IpAddressType>,
    },
    /// Lets IPv6 travel inside, or no longer.
    SetIpAddressType {
        /// The load balancer's name or ARN.
        load_balancer: String,
        /// What may travel inside.
        ip_address_type: IpAddressType,
    },
    /// Gives a load balancer its listener.
    CreateListener {
        /// The load balancer's name or ARN.
        load_balancer: String,
        /// The name or ARN of the group that it forwards to.
        target_group: String,
        /// Its tags.
        tags: Vec<(String, String)>,
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
        /// The VPC that whoever asks has it in.
        vpc_id: Option<ForeignId>,
        /// Its tags.
        tags: Vec<(String, String)>,
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
    /// Tags objects; a tag that is there already has another value from then on.
    AddTags {
        /// ARNs, or names of load balancers and target groups; at least one.
        resources: Vec<String>,
        /// Keys and values; at least one.
        tags: Vec<(String, String)>,
    },
    /// Takes tags away; one that is not there is no error.
    RemoveTags {
        /// ARNs, or names of load balancers and target groups; at least one.
        resources: Vec<String>,
        /// At least one.
        keys: Vec<String>,
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
    /// Makes the objects those of an objects document, whatever they are now. Targets that it does not
    /// register are drained.
    ApplyDocument {
        /// The document, as JSON.
        document: serde_json::Value,
        /// The present, in milliseconds since 1970: when drains start.
        now_unix_ms: u64,
    },
    /// Makes the objects those of a state that they were in before, whatever they are now. Targets that
    /// were not registered then are drained.
    Restore {
        /// The state.
        state: Box<State>,
        /// The present, in milliseconds since 1970: when drains start.
        now_unix_ms: u64,
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
    /// Tags came, went, or have other values.
    Tags {
        /// The ARNs of the objects whose tags are others now.
        changed: Vec<String>,
    },
    /// Targets came or went.
    Targets {
        /// The group's name.
        target_group: Name,
        /// What became of whom; a target that is as it was is not listed.
        changed: Vec<(Ipv4Addr, TargetChange)>,
    },
    /// Everything is as a document, or an earlier state, has it.
    Whole {
        /// What is other than it was.
        differences: Vec<Difference>,
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
            Outcome::Tags { changed } => !changed.is_empty(),
            Outcome::Targets { changed, .. } => !changed.is_empty(),
            Outcome::Whole { differences } => !differences.is_empty(),
        }
    }

    /// What became of targets: the group's name, the address and the change.
    pub fn targets(&self) -> impl Iterator<Item = (&Name, Ipv4Addr, TargetChange)> {
        let (of_group, of_all) = match self {
            Outcome::Targets { target_group, changed } => (Some((target_group, changed)), None),
            Outcome::Whole { differences } => (None, Some(differences)),
            Outcome::Object { .. } | Outcome::Attributes { .. } | Outcome::Tags { .. } => (None, None),
        };
        let of_group = of_group.into_iter().flat_map(|(group, changed)| {
            changed.iter().map(move |(address, change)| (group, *address, *change))
        });
        let of_all = of_all.into_iter().flatten().filter_map(|difference| match &difference.what {
            Differs::Target { address, was, is } => {
                Some((&difference.name, *address, target_change(was.as_ref(), is.as_ref())?))
            }
            _ => None,
        });
        of_group.chain(of_all)
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
            Change::CreateLoadBalancer { name, ip_address_type, placement, tags, now_unix_ms } => {
                next.create_load_balancer(name, *ip_address_type, placement, tags, *now_unix_ms)?
            }
            Change::DeleteLoadBalancer { load_balancer } => next.delete_load_balancer(load_balancer)?,
            Change::SetSubnets { load_balancer, placement, ip_address_type } => {
                next.set_subnets(load_balancer, placement, *ip_address_type)?
            }
            Change::SetIpAddressType { load_balancer, ip_address_type } => {
                next.set_ip_address_type(load_balancer, *ip_address_type)?
            }
            Change::CreateListener { load_balancer, target_group, tags } => {
                next.create_listener(load_balancer, target_group, tags)?
            }
            Change::ModifyListener { listener, target_group } => {
                next.modify_default_action(listener, target_group)?
            }
            Change::DeleteListener { listener } => next.delete_listener(listener)?,
            Change::CreateTargetGroup { name, health_check, vpc_id, tags } => {
                next.create_target_group(name, health_check, vpc_id.as_ref(), tags)?
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
            Change::AddTags { resources, tags } => next.add_tags(resources, tags)?,
            Change::RemoveTags { resources, keys } => next.remove_tags(resources, keys)?,
            Change::RegisterTargets { target_group, targets } => next.register(target_group, targets)?,
            Change::DeregisterTargets { target_group, targets, now_unix_ms } => {
                next.deregister(target_group, targets, *now_unix_ms)?
            }
            Change::FinishDraining { target_group, address, since_unix_ms } => {
                next.finish_draining(target_group, *address, *since_unix_ms)?
            }
            Change::ApplyDocument { document, now_unix_ms } => next.apply_document(document, *now_unix_ms)?,
            Change::Restore { state, now_unix_ms } => next.become_as(state, *now_unix_ms)?,
        };
        if !outcome.is_change() {
            // An attribute may have been given the value that it has by default: no generation names two states.
            return Ok((self.clone(), outcome));
        }
        next.generation += 1;
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
