//! What an object's attributes mean, in types: the view that the compiler of forwarding state, the
//! prober and the drain clock work from. Contradictions that only a state file can hold are
//! settled here.

use std::time::Duration;

use super::attributes::AttributeSet;
use super::health_check::{HealthCheck, HealthCheckSettings};
use super::registry as attribute;

/// What a target is chosen by (F-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stickiness {
    /// No stickiness: addresses, protocol and ports.
    FiveTuple,
    /// Addresses and protocol.
    ThreeTuple,
    /// Addresses alone.
    TwoTuple,
}

/// What becomes of flows whose target failed or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// They stay.
    NoRebalance,
    /// They move to a healthy target with their next packet.
    Rebalance,
}

/// What a TCP packet without SYN that belongs to no flow meets (F-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFlow {
    /// It is dropped and counted.
    Drop,
    /// It is answered with a reset.
    Reset,
}

/// A target group's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroupSettings {
    /// How long a deregistered target drains.
    pub deregistration_delay: Duration,
    /// What a target is chosen by.
    pub stickiness: Stickiness,
    /// What becomes of the flows of a failed or departed target.
    pub failover: Failover,
    /// R-1 is on. Never with stickiness or `Rebalance`.
    pub reset_on_unhealthy: bool,
    /// R-2 is on. Never with stickiness or `Rebalance`.
    pub reset_on_deregistration: bool,
    /// How targets are checked (H-1, H-2).
    pub health_check: HealthCheckSettings,
}

/// A listener's settings, as they hold with the target group that it forwards to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Idle timeout of established TCP flows: 350 s if the group is sticky, whatever was
    /// set before it became so.
    pub tcp_idle_timeout: Duration,
    /// R-3 is on, for expired flows and for unknown ones.
    pub reset_on_idle_timeout: bool,
    /// What was asked for unknown flows alone (F-8). `resets_unknown_flows` has the sum.
    pub unknown_flow: UnknownFlow,
    /// F-14 is on.
    pub syn_reselect: bool,
    /// How long a closed TCP flow is kept (F-9).
    pub tcp_closed_timeout: Duration,
    /// Idle timeout of half-open TCP flows (F-9).
    pub tcp_half_open_timeout: Duration,
    /// Idle timeout of every flow that is not TCP.
    pub udp_idle_timeout: Duration,
}

/// A load balancer's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBalancerSettings {
    /// Targets of every zone are in scope.
    pub cross_zone: bool,
    /// The load balancer cannot be deleted.
    pub deletion_protection: bool,
}

impl TargetGroupSettings {
    pub(super) fn read(attributes: &AttributeSet, health_check: &HealthCheck) -> Self {
        let stickiness = stickiness(attributes);
        let failover = match attributes.word(&attribute::FAILOVER_ON_UNHEALTHY) {
            "rebalance" => Failover::Rebalance,
            _ => Failover::NoRebalance,
        };
        // where a state file holds both, stickiness and `rebalance` win.
        let may_reset = stickiness == Stickiness::FiveTuple && failover == Failover::NoRebalance;
        TargetGroupSettings {
            deregistration_delay: seconds(attributes, &attribute::DEREGISTRATION_DELAY),
            stickiness,
            failover,
            reset_on_unhealthy: may_reset && attributes.flag(&attribute::RESET_ON_UNHEALTHY),
            reset_on_deregistration: may_reset && attributes.flag(&attribute::RESET_ON_DEREGISTRATION),
            health_check: health_check.settings(attributes),
        }
    }
}

impl ListenerSettings {
    /// `target_group` are the attributes of the group that the listener forwards to.
    pub(super) fn read(attributes: &AttributeSet, target_group: &AttributeSet) -> Self {
        let tcp_idle_timeout = match stickiness(target_group) {
            Stickiness::FiveTuple => seconds(attributes, &attribute::TCP_IDLE_TIMEOUT),
            Stickiness::ThreeTuple | Stickiness::TwoTuple => STICKY_TCP_IDLE_TIMEOUT,
        };
        ListenerSettings {
            tcp_idle_timeout,
            reset_on_idle_timeout: attributes.flag(&attribute::RESET_ON_IDLE_TIMEOUT),
            unknown_flow: match attributes.word(&attribute::UNKNOWN_FLOW) {
                "reset" => UnknownFlow::Reset,
                _ => UnknownFlow::Drop,
            },
            syn_reselect: attributes.flag(&attribute::SYN_RESELECT),
            tcp_closed_timeout: seconds(attributes, &attribute::CLOSED_TIMEOUT),
            tcp_half_open_timeout: seconds(attributes, &attribute::HALF_OPEN_TIMEOUT),
            udp_idle_timeout: seconds(attributes, &attribute::UDP_IDLE_TIMEOUT),
        }
    }

    /// Whether a TCP packet without SYN that belongs to no flow is answered with a reset, be it by
    /// A-6 or by F-8.
    #[must_use]
    pub fn resets_unknown_flows(&self) -> bool {
        self.reset_on_idle_timeout || self.unknown_flow == UnknownFlow::Reset
    }
}

impl LoadBalancerSettings {
    pub(super) fn read(attributes: &AttributeSet) -> Self {
        LoadBalancerSettings {
            cross_zone: attributes.flag(&attribute::CROSS_ZONE),
            deletion_protection: attributes.flag(&attribute::DELETION_PROTECTION),
        }
    }
}

/// what 2-tuple and 3-tuple flows idle out after.
const STICKY_TCP_IDLE_TIMEOUT: Duration = Duration::from_secs(350);

pub(super) fn stickiness(target_group: &AttributeSet) -> Stickiness {
    if !target_group.flag(&attribute::STICKINESS_ENABLED) {
        return Stickiness::FiveTuple;
    }
    match target_group.word(&attribute::STICKINESS_TYPE) {
        "source_ip_dest_ip" => Stickiness::TwoTuple,
        _ => Stickiness::ThreeTuple,
    }
}

fn seconds(attributes: &AttributeSet, attribute: &'static attribute::Attribute) -> Duration {
    Duration::from_secs(attributes.number(attribute))
}
