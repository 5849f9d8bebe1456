//! How targets are registered, deregistered and, once drained, removed (O-3, T-3, T-7): the part of
//! `State::apply` that has to do with targets. `change` calls it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::change::{Outcome, TargetDescription, entry};
use super::difference::target_change;
use super::error::{ErrorCode, ModelError};
use super::name::Name;
use super::objects::{Registration, State, Target, TargetGroup};
use crate::datapath::counters;

/// The most targets, registered and draining, that a group holds. O-3 asks for 1,000.
pub const MAX_TARGETS_PER_GROUP: usize = 4096;
/// The most targets that all groups hold together: half of the slots that a node has, so that targets
/// whose last flows outlive their registration have slots too (T-4).
pub const MAX_TARGETS: usize = counters::MAX_TARGETS / 2;

impl State {
    pub(super) fn register(
        &mut self,
        reference: &str,
        targets: &[TargetDescription],
    ) -> Result<Outcome, ModelError> {
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

    pub(super) fn deregister(
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

    pub(super) fn finish_draining(
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
    let change = |address: &Ipv4Addr| target_change(before.targets.get(address), after.targets.get(address));
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

fn at_least_one<T>(targets: &[T]) -> Result<(), ModelError> {
    if targets.is_empty() {
        return Err(ModelError::invalid("At least one target must be given").under("targets"));
    }
    Ok(())
}
