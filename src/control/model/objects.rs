//! The objects themselves, and the state that holds them all (O-1, O-2, O-3).
//!
//! A `State` is always whole: its fields can only be reached through `State::from_document`,
//! `State::from_stored` and `State::apply`, each of which yields a state that satisfies every rule
//! or none at all.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attributes::AttributeSet;
use super::error::{ErrorCode, ModelError};
use super::health_check::HealthCheck;
use super::name::{self, ForeignId, Name, ObjectId, Zone};
use super::placement::Placement;
use super::settings::{ListenerSettings, LoadBalancerSettings, TargetGroupSettings};
use super::tags::Tags;
use crate::control::duration::milliseconds;

/// Every object of this node, at one generation. Cheap to clone: groups that a change does not
/// touch are shared.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct State {
    pub(super) generation: u64,
    pub(super) load_balancers: BTreeMap<Name, Arc<LoadBalancer>>,
    pub(super) target_groups: BTreeMap<Name, Arc<TargetGroup>>,
}

/// A load balancer (gateway) with at most one listener (O-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBalancer {
    /// Its name, the only one of that name among load balancers.
    pub name: Name,
    /// The last part of its ARN.
    pub id: ObjectId,
    /// What may travel inside.
    pub ip_address_type: IpAddressType,
    /// The zones that it serves, and the subnets that it was given.
    pub placement: Placement,
    /// When it was created, in milliseconds since 1970; not known of one that a seed describes.
    pub created_unix_ms: Option<u64>,
    /// What its operator notes on it.
    pub tags: Tags,
    /// What it was given of.
    pub attributes: AttributeSet,
    /// Where its flows go; without one they are dropped.
    pub listener: Option<Listener>,
}

/// A load balancer's listener: no port, no protocol, one target group (O-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The last part of its ARN.
    pub id: ObjectId,
    /// The group that it forwards to.
    pub target_group: Name,
    /// What its operator notes on it.
    pub tags: Tags,
    /// What it was given of and of `flowgate.tcp.*`.
    pub attributes: AttributeSet,
}

/// A target group: GENEVE on port 6081 (O-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroup {
    /// Its name, the only one of that name among target groups.
    pub name: Name,
    /// The last part of its ARN.
    pub id: ObjectId,
    /// The VPC that it was created in, by whoever has such things.
    pub vpc_id: Option<ForeignId>,
    /// What its operator notes on it.
    pub tags: Tags,
    /// How its targets are checked.
    pub health_check: HealthCheck,
    /// What it was given of and of `flowgate.health_check.*`.
    pub attributes: AttributeSet,
    /// Its targets, registered and draining, by address.
    pub targets: BTreeMap<Ipv4Addr, Target>,
}

/// A target's part in its group; its address is the key (O-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The zone that it is in; `None` if it serves every zone.
    pub zone: Option<Zone>,
    /// Its share of new flows relative to the other targets.
    pub weight: Weight,
    /// Whether it is to be given new flows.
    pub registration: Registration,
}

/// Whether a target is registered, or on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// It is registered.
    Registered,
    /// It was deregistered, and its flows go on until the delay has elapsed (T-3).
    Draining {
        /// When it was deregistered, in milliseconds since 1970.
        since_unix_ms: u64,
    },
}

/// What travels inside GENEVE; the outer header is IPv4 either way (O-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IpAddressType {
    /// IPv4 alone.
    #[default]
    Ipv4,
    /// IPv4 and IPv6.
    Dualstack,
}

/// A target's weight: 1–1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u16", into = "u16")]
#[schemars(extend("minimum" = 1, "maximum" = 1000))]
pub struct Weight(u16);

/// A drain under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain<'a> {
    /// The group that the target leaves.
    pub target_group: &'a TargetGroup,
    /// The target.
    pub address: Ipv4Addr,
    /// When the drain started, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// How long it lasts, by the group's present settings.
    pub delay: Duration,
}

impl State {
    /// Counts the changes that made this state; 0 is the seed.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The same objects as the next state after both this one and that of `generation`, if they are not
    /// later already: a generation names one state.
    #[must_use]
    pub fn with_generation_above(mut self, generation: u64) -> State {
        self.generation = self.generation.max(generation + 1);
        self
    }

    /// Every load balancer, by name.
    pub fn load_balancers(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.load_balancers.values().map(AsRef::as_ref)
    }

    /// Every target group, by name.
    pub fn target_groups(&self) -> impl Iterator<Item = &TargetGroup> {
        self.target_groups.values().map(AsRef::as_ref)
    }

    /// The load balancer of this name or ARN.
    ///
    /// # Errors
    /// `LoadBalancerNotFound`.
    pub fn load_balancer(&self, name_or_arn: &str) -> Result<&LoadBalancer, ModelError> {
        find(&self.load_balancers, name_or_arn, LoadBalancer::arn).ok_or_else(|| {
            let message = format!("Load balancer '{name_or_arn}' not found");
            ModelError::new(ErrorCode::LoadBalancerNotFound, message)
        })
    }

    /// The target group of this name or ARN.
    ///
    /// # Errors
    /// `TargetGroupNotFound`.
    pub fn target_group(&self, name_or_arn: &str) -> Result<&TargetGroup, ModelError> {
        find(&self.target_groups, name_or_arn, TargetGroup::arn).ok_or_else(|| {
            let message = format!("Target group '{name_or_arn}' not found");
            ModelError::new(ErrorCode::TargetGroupNotFound, message)
        })
    }

    /// The load balancer whose listener this is: by the listener's ARN or, as there is only one,
    /// by the load balancer's name or ARN.
    ///
    /// # Errors
    /// `ListenerNotFound`.
    pub fn load_balancer_of_listener(
        &self,
        reference: &str,
    ) -> Result<(&LoadBalancer, &Listener), ModelError> {
        self.named_in(reference, 2)
            .filter(|balancer| balancer.listener_arn().as_deref() == Some(reference))
            .or_else(|| self.load_balancer(reference).ok())
            .and_then(|balancer| Some((balancer, balancer.listener.as_ref()?)))
            .ok_or_else(|| {
                let message = format!("Listener '{reference}' not found");
                ModelError::new(ErrorCode::ListenerNotFound, message)
            })
    }

    /// The load balancer whose listener's rule has this ARN.
    ///
    /// # Errors
    /// `RuleNotFound`.
    pub fn load_balancer_of_rule(&self, arn: &str) -> Result<&LoadBalancer, ModelError> {
        self.named_in(arn, 3)
            .filter(|balancer| balancer.rule_arn().as_deref() == Some(arn))
            .ok_or_else(|| ModelError::new(ErrorCode::RuleNotFound, format!("Rule '{arn}' not found")))
    }

    /// The load balancer whose name is the part of `arn` with so many parts behind it.
    fn named_in(&self, arn: &str, behind: usize) -> Option<&LoadBalancer> {
        self.load_balancers.get(arn.rsplit('/').nth(behind)?).map(AsRef::as_ref)
    }

    /// The group that a load balancer of this state forwards to; none where it has no listener.
    ///
    /// # Panics
    /// If `load_balancer` is of another state.
    #[must_use]
    pub fn target_group_of(&self, load_balancer: &LoadBalancer) -> Option<&TargetGroup> {
        let listener = load_balancer.listener.as_ref()?;
        Some(&self.target_groups[&listener.target_group])
    }

    /// The load balancer that uses `target_group`, if any does (O-2: there is at most one).
    #[must_use]
    pub fn load_balancer_using(&self, target_group: &Name) -> Option<&LoadBalancer> {
        let uses = |listener: &Listener| listener.target_group == *target_group;
        self.load_balancers().find(|balancer| balancer.listener.as_ref().is_some_and(uses))
    }

    /// What holds for the listener of a load balancer of this state, if it has one.
    ///
    /// # Panics
    /// If `load_balancer` is of another state.
    #[must_use]
    pub fn listener_settings(&self, load_balancer: &LoadBalancer) -> Option<ListenerSettings> {
        let group = self.target_group_of(load_balancer)?;
        let listener = load_balancer.listener.as_ref()?;
        Some(ListenerSettings::read(&listener.attributes, &group.attributes))
    }

    /// Every drain under way. The drain clock ends each with `Change::FinishDraining` once its
    /// delay has elapsed.
    pub fn drains(&self) -> impl Iterator<Item = Drain<'_>> {
        self.target_groups().flat_map(|group| {
            let delay = group.settings().deregistration_delay;
            group.targets.iter().filter_map(move |(address, target)| match target.registration {
                Registration::Registered => None,
                Registration::Draining { since_unix_ms } => {
                    Some(Drain { target_group: group, address: *address, since_unix_ms, delay })
                }
            })
        })
    }
}

impl TargetGroup {
    /// The drain of the target at `address`, if it drains.
    #[must_use]
    pub fn drain_of(&self, address: Ipv4Addr) -> Option<Drain<'_>> {
        match self.targets.get(&address)?.registration {
            Registration::Registered => None,
            Registration::Draining { since_unix_ms } => Some(Drain {
                target_group: self,
                address,
                since_unix_ms,
                delay: self.settings().deregistration_delay,
            }),
        }
    }
}

impl Drain<'_> {
    /// When the drain ends, in milliseconds since 1970.
    #[must_use]
    pub fn ends_unix_ms(&self) -> u64 {
        let delay = milliseconds(self.delay);
        self.since_unix_ms.saturating_add(delay)
    }
}

impl LoadBalancer {
    /// Its ARN (O-5).
    #[must_use]
    pub fn arn(&self) -> String {
        name::load_balancer_arn(&self.name, self.id)
    }

    /// Its listener's ARN (O-5), if it has one.
    #[must_use]
    pub fn listener_arn(&self) -> Option<String> {
        Some(name::listener_arn(&self.name, self.id, self.listener.as_ref()?.id))
    }

    /// The ARN of its listener's one rule, if it has a listener.
    #[must_use]
    pub fn rule_arn(&self) -> Option<String> {
        Some(name::rule_arn(&self.name, self.id, self.listener.as_ref()?.id))
    }

    /// What its attributes mean.
    #[must_use]
    pub fn settings(&self) -> LoadBalancerSettings {
        LoadBalancerSettings::read(&self.attributes)
    }
}

impl TargetGroup {
    /// Its ARN (O-5).
    #[must_use]
    pub fn arn(&self) -> String {
        name::target_group_arn(&self.name, self.id)
    }

    /// What its attributes and its health check mean.
    #[must_use]
    pub fn settings(&self) -> TargetGroupSettings {
        TargetGroupSettings::read(&self.attributes, &self.health_check)
    }
}

impl Target {
    /// Whether it is to be given new flows, as far as its registration goes.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.registration == Registration::Registered
    }
}

impl Weight {
    /// The weight as a number.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Weight {
        Weight(1)
    }
}

impl TryFrom<u16> for Weight {
    type Error = String;

    fn try_from(weight: u16) -> Result<Weight, String> {
        if (1..=1000).contains(&weight) {
            Ok(Weight(weight))
        } else {
            Err(format!("the weight {weight} must be between 1 and 1000"))
        }
    }
}

impl From<Weight> for u16 {
    fn from(weight: Weight) -> u16 {
        weight.0
    }
}

/// An object by its name or ARN. A name cannot hold the `:` of an ARN, so there is no doubt which
/// of the two was meant.
fn find<'a, T>(
    objects: &'a BTreeMap<Name, Arc<T>>,
    name_or_arn: &str,
    arn: impl Fn(&T) -> String,
) -> Option<&'a T> {
    if name_or_arn.contains(':') {
        // An ARN ends in the name and the id: no need to look at every object.
        let name = name_or_arn.rsplit('/').nth(1)?;
        objects.get(name).map(AsRef::as_ref).filter(|object| arn(object) == name_or_arn)
    } else {
        objects.get(name_or_arn).map(AsRef::as_ref)
    }
}
