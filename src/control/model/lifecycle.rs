//! How load balancers, listeners and target groups come, change as a whole and go (O-1, O-2, A-9): the
//! part of `State::apply` that creates and deletes. `change` calls it.
//!
//! Creation is idempotent as in AWS: what is there already with the settings asked for is no change, and
//! with others a refusal. So is deletion by ARN: an object that is gone is where the caller wants it to
//! be. A name that nobody has is refused all the same, as it is more likely a slip than a wish.

use std::sync::Arc;

use super::attributes::AttributeSet;
use super::change::{ObjectChange, Outcome, entry};
use super::error::{ErrorCode, ModelError};
use super::health_check::{HealthCheck, HealthCheckChange};
use super::name::{ForeignId, Name, ObjectId};
use super::objects::{IpAddressType, Listener, LoadBalancer, State, TargetGroup};
use super::placement::Placement;
use super::registry::ObjectKind;
use super::tags::Tags;
use crate::datapath::counters;

/// The most load balancers of a node: so many can workers count by.
pub const MAX_LOAD_BALANCERS: usize = counters::MAX_GATEWAYS;
/// The most target groups of a node, as AWS has it for a region.
pub const MAX_TARGET_GROUPS: usize = 3000;
/// What AWS keeps the names of load balancers from beginning with.
const RESERVED: &str = "internal-";

impl State {
    pub(super) fn create_load_balancer(
        &mut self,
        name: &Name,
        ip_address_type: IpAddressType,
        placement: &Placement,
        tags: &[(String, String)],
        now_unix_ms: u64,
    ) -> Result<Outcome, ModelError> {
        let tags = Tags::default().with(tags)?;
        check_new_name(ObjectKind::LoadBalancer, name)?;
        if let Some(known) = self.load_balancers.get(name) {
            let same_places = known.ip_address_type == ip_address_type && known.placement == *placement;
            return if same_places && known.tags == tags {
                Ok(outcome(ObjectKind::LoadBalancer, name, ObjectChange::Unchanged))
            } else {
                Err(duplicate(ErrorCode::DuplicateLoadBalancerName, "load balancer", name))
            };
        }
        let balancer = LoadBalancer {
            name: name.clone(),
            id: self.new_id("loadbalancer", name),
            ip_address_type,
            placement: placement.clone(),
            created_unix_ms: Some(now_unix_ms),
            tags,
            attributes: AttributeSet::new(ObjectKind::LoadBalancer),
            listener: None,
        };
        self.load_balancers.insert(name.clone(), Arc::new(balancer));
        self.check_load_balancer_count()?;
        Ok(outcome(ObjectKind::LoadBalancer, name, ObjectChange::Created))
    }

    /// What AWS names after subnets: the zones that it serves, others in place of those that it had.
    pub(super) fn set_subnets(
        &mut self,
        reference: &str,
        placement: &Placement,
        ip_address_type: Option<IpAddressType>,
    ) -> Result<Outcome, ModelError> {
        self.modify_balancer(reference, |balancer| {
            balancer.placement = placement.clone();
            balancer.ip_address_type = ip_address_type.unwrap_or(balancer.ip_address_type);
        })
    }

    pub(super) fn set_ip_address_type(
        &mut self,
        reference: &str,
        ip_address_type: IpAddressType,
    ) -> Result<Outcome, ModelError> {
        self.modify_balancer(reference, |balancer| balancer.ip_address_type = ip_address_type)
    }

    fn modify_balancer(
        &mut self,
        reference: &str,
        change: impl FnOnce(&mut LoadBalancer),
    ) -> Result<Outcome, ModelError> {
        let name = self.load_balancer(reference)?.name.clone();
        let before = Arc::clone(&self.load_balancers[&name]);
        let balancer = entry(&mut self.load_balancers, &name);
        change(balancer);
        let change = if *before == *balancer { ObjectChange::Unchanged } else { ObjectChange::Modified };
        Ok(outcome(ObjectKind::LoadBalancer, &name, change))
    }

    /// not while it is protected. Its listener goes with it.
    pub(super) fn delete_load_balancer(&mut self, reference: &str) -> Result<Outcome, ModelError> {
        let name = match self.load_balancer(reference) {
            Ok(balancer) if balancer.settings().deletion_protection => {
                let message = format!(
                    "Load balancer '{}' cannot be deleted because deletion protection is enabled",
                    balancer.arn()
                );
                return Err(ModelError::new(ErrorCode::OperationNotPermitted, message));
            }
            Ok(balancer) => balancer.name.clone(),
            Err(error) => return gone_already(error, reference, ObjectKind::LoadBalancer),
        };
        self.load_balancers.remove(&name);
        Ok(outcome(ObjectKind::LoadBalancer, &name, ObjectChange::Deleted))
    }

    /// O-1: exactly one listener, to one target group.
    pub(super) fn create_listener(
        &mut self,
        load_balancer: &str,
        target_group: &str,
        tags: &[(String, String)],
    ) -> Result<Outcome, ModelError> {
        let tags = Tags::default().with(tags)?;
        let name = self.load_balancer(load_balancer)?.name.clone();
        let group =
            self.target_group(target_group).map_err(|error| error.under("target_group"))?.name.clone();
        if let Some(listener) = &self.load_balancers[&name].listener {
            if listener.target_group == group && listener.tags == tags {
                return Ok(outcome(ObjectKind::Listener, &name, ObjectChange::Unchanged));
            }
            let message = format!("Load balancer '{name}' has a listener already; it can have 1");
            return Err(ModelError::new(ErrorCode::TooManyListeners, message));
        }
        self.check_unused(&group, &name)?;
        let id = self.new_id("listener", &name);
        let attributes = AttributeSet::new(ObjectKind::Listener);
        entry(&mut self.load_balancers, &name).listener =
            Some(Listener { id, target_group: group, tags, attributes });
        Ok(outcome(ObjectKind::Listener, &name, ObjectChange::Created))
    }

    /// Forwards to another target group from now on.
    pub(super) fn modify_default_action(
        &mut self,
        listener: &str,
        target_group: &str,
    ) -> Result<Outcome, ModelError> {
        let (balancer, known) = self.load_balancer_of_listener(listener)?;
        let name = balancer.name.clone();
        let group =
            self.target_group(target_group).map_err(|error| error.under("target_group"))?.name.clone();
        if known.target_group == group {
            return Ok(outcome(ObjectKind::Listener, &name, ObjectChange::Unchanged));
        }
        self.check_unused(&group, &name)?;
        if let Some(listener) = &mut entry(&mut self.load_balancers, &name).listener {
            listener.target_group = group;
        }
        Ok(outcome(ObjectKind::Listener, &name, ObjectChange::Modified))
    }

    pub(super) fn delete_listener(&mut self, reference: &str) -> Result<Outcome, ModelError> {
        let name = self.load_balancer_of_listener(reference)?.0.name.clone();
        entry(&mut self.load_balancers, &name).listener = None;
        Ok(outcome(ObjectKind::Listener, &name, ObjectChange::Deleted))
    }

    pub(super) fn create_target_group(
        &mut self,
        name: &Name,
        health_check: &HealthCheckChange,
        vpc_id: Option<&ForeignId>,
        tags: &[(String, String)],
    ) -> Result<Outcome, ModelError> {
        let tags = Tags::default().with(tags)?;
        check_new_name(ObjectKind::TargetGroup, name)?;
        let under = |error: ModelError| error.under("health_check");
        let health_check = HealthCheck::default().modified(health_check.clone()).map_err(under)?;
        if let Some(known) = self.target_groups.get(name) {
            let same_check = known.health_check == health_check;
            return if same_check && known.vpc_id.as_ref() == vpc_id && known.tags == tags {
                Ok(outcome(ObjectKind::TargetGroup, name, ObjectChange::Unchanged))
            } else {
                Err(duplicate(ErrorCode::DuplicateTargetGroupName, "target group", name))
            };
        }
        let attributes = AttributeSet::new(ObjectKind::TargetGroup);
        health_check.agrees_with(&attributes)?;
        let group = TargetGroup {
            name: name.clone(),
            id: self.new_id("targetgroup", name),
            vpc_id: vpc_id.cloned(),
            tags,
            health_check,
            attributes,
            targets: Default::default(),
        };
        self.target_groups.insert(name.clone(), Arc::new(group));
        self.check_target_group_count()?;
        Ok(outcome(ObjectKind::TargetGroup, name, ObjectChange::Created))
    }

    /// How its targets are checked from now on; what the change leaves out stays.
    pub(super) fn modify_health_check(
        &mut self,
        reference: &str,
        change: &HealthCheckChange,
    ) -> Result<Outcome, ModelError> {
        let name = self.target_group(reference)?.name.clone();
        let group = entry(&mut self.target_groups, &name);
        let after =
            group.health_check.modified(change.clone()).map_err(|error| error.under("health_check"))?;
        after.agrees_with(&group.attributes)?;
        let same = group.health_check == after;
        group.health_check = after;
        let change = if same { ObjectChange::Unchanged } else { ObjectChange::Modified };
        Ok(outcome(ObjectKind::TargetGroup, &name, change))
    }

    /// Not while a listener forwards to it. Its targets go with it, without a drain.
    pub(super) fn delete_target_group(&mut self, reference: &str) -> Result<Outcome, ModelError> {
        let group = match self.target_group(reference) {
            Ok(group) => group,
            Err(error) => return gone_already(error, reference, ObjectKind::TargetGroup),
        };
        if self.load_balancer_using(&group.name).is_some() {
            let message =
                format!("Target group '{}' is currently in use by a listener or a rule", group.arn());
            return Err(ModelError::new(ErrorCode::ResourceInUse, message));
        }
        let name = group.name.clone();
        self.target_groups.remove(&name);
        Ok(outcome(ObjectKind::TargetGroup, &name, ObjectChange::Deleted))
    }

    pub(super) fn check_load_balancer_count(&self) -> Result<(), ModelError> {
        if self.load_balancers.len() <= MAX_LOAD_BALANCERS {
            return Ok(());
        }
        let message =
            format!("This node has {MAX_LOAD_BALANCERS} load balancers already, and can have no more");
        Err(ModelError::new(ErrorCode::TooManyLoadBalancers, message))
    }

    pub(super) fn check_target_group_count(&self) -> Result<(), ModelError> {
        if self.target_groups.len() <= MAX_TARGET_GROUPS {
            return Ok(());
        }
        let message =
            format!("This node has {MAX_TARGET_GROUPS} target groups already, and can have no more");
        Err(ModelError::new(ErrorCode::TooManyTargetGroups, message))
    }

    /// O-2: that no load balancer but `user` uses `group`.
    fn check_unused(&self, group: &Name, user: &Name) -> Result<(), ModelError> {
        match self.load_balancer_using(group) {
            Some(other) if other.name != *user => {
                let message = format!(
                    "the target group '{group}' is used by the load balancer '{}' already",
                    other.name
                );
                Err(ModelError::new(ErrorCode::TargetGroupAssociationLimit, message).under("target_group"))
            }
            _ => Ok(()),
        }
    }

    /// An id that no object of this name had before (O-5).
    fn new_id(&self, kind: &str, name: &Name) -> ObjectId {
        ObjectId::derive(kind, name, self.generation + 1)
    }
}

/// What AWS asks of a name besides O-2. It is asked of new ones only: what an older version stored stays.
pub(super) fn check_new_name(kind: ObjectKind, name: &Name) -> Result<(), ModelError> {
    let what = kind.noun();
    let refused =
        |fault: &str| Err(ModelError::invalid(format!("{what} name '{name}' cannot {fault}")).under("name"));
    if name.as_str().starts_with('-') || name.as_str().ends_with('-') {
        return refused("begin or end with a hyphen");
    }
    if kind == ObjectKind::LoadBalancer && name.as_str().starts_with(RESERVED) {
        return refused(&format!("begin with '{RESERVED}'"));
    }
    Ok(())
}

fn outcome(kind: ObjectKind, name: &Name, change: ObjectChange) -> Outcome {
    Outcome::Object { kind, name: Some(name.clone()), change }
}

fn duplicate(code: ErrorCode, what: &str, name: &Name) -> ModelError {
    let message = format!("A {what} with the same name '{name}' exists, but with different settings");
    ModelError::new(code, message).under("name")
}

/// An ARN of an object that is gone is no failure of its deletion; a name of none is.
fn gone_already(error: ModelError, reference: &str, kind: ObjectKind) -> Result<Outcome, ModelError> {
    if reference.starts_with("arn:") {
        return Ok(Outcome::Object { kind, name: None, change: ObjectChange::Unchanged });
    }
    Err(error)
}

#[cfg(test)]
mod tests;
