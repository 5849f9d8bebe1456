//! What an object's attributes mean, in types: the view that the compiler of forwarding state, the
//! prober and the drain clock work from. Contradictions that only a state file can hold are
//! settled here.

use std::time::Duration;

use super::attributes::AttributeSet;
use super::health_check::{HealthCheck, HealthCheckSettings};
use super::registry as attribute;
pub use crate::datapath::forwarding::{Failover, ResetGuards, UnknownFlow};

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
    /// R-9 is on.
    pub reset_both_ends: bool,
    /// R-10 is on.
    pub reset_proactive: bool,
    /// what holds resets back.
    pub reset_guards: ResetGuards,
    /// how long a target may return nothing of what it is sent before it is checked out of turn;
    /// `None` if it is not watched.
    pub inband_silence: Option<Duration>,
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
    /// Resets in answer to packets of no live flow in a second at most; 0: any number.
    pub no_flow_resets_per_second: u32,
    /// M-3 is on.
    pub mss_clamp: bool,
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
            reset_both_ends: attributes.flag(&attribute::RESET_BOTH_ENDS),
            reset_proactive: attributes.flag(&attribute::RESET_PROACTIVE),
            reset_guards: ResetGuards {
                hold_ms: small(attributes, &attribute::RESET_HOLD_MS),
                min_healthy_percent: small(attributes, &attribute::RESET_MIN_HEALTHY_PERCENT),
                max_per_second: small(attributes, &attribute::RESET_MAX_PER_SECOND),
            },
            inband_silence: match attributes.number(&attribute::INBAND_SILENCE_MS) {
                0 => None,
                ms => Some(Duration::from_millis(ms)),
            },
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
                "adopt" => UnknownFlow::Adopt,
                "reset" => UnknownFlow::Reset,
                _ => UnknownFlow::Drop,
            },
            no_flow_resets_per_second: small(attributes, &attribute::NO_FLOW_RESETS),
            syn_reselect: attributes.flag(&attribute::SYN_RESELECT),
            mss_clamp: attributes.flag(&attribute::MSS_CLAMP),
            tcp_closed_timeout: seconds(attributes, &attribute::CLOSED_TIMEOUT),
            tcp_half_open_timeout: seconds(attributes, &attribute::HALF_OPEN_TIMEOUT),
            udp_idle_timeout: seconds(attributes, &attribute::UDP_IDLE_TIMEOUT),
        }
    }

    /// Whether a TCP packet without SYN that belongs to no flow is answered with a reset, be it by
    /// A-6 or by F-8.
    #[must_use]
    pub fn resets_unknown_flows(&self) -> bool {
        match self.unknown_flow {
            UnknownFlow::Adopt => false,
            UnknownFlow::Drop => self.reset_on_idle_timeout,
            UnknownFlow::Reset => true,
        }
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

/// A number of an attribute whose range fits 32 bits.
fn small(attributes: &AttributeSet, attribute: &'static attribute::Attribute) -> u32 {
    u32::try_from(attributes.number(attribute)).unwrap_or(u32::MAX)
}

fn seconds(attributes: &AttributeSet, attribute: &'static attribute::Attribute) -> Duration {
    Duration::from_secs(attributes.number(attribute))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::pairs;
    use super::super::registry::ObjectKind;
    use super::*;

    fn set(kind: ObjectKind, given: &[(&str, &str)]) -> AttributeSet {
        AttributeSet::stored(kind, &pairs(given)).expect("known keys and values")
    }

    fn group(given: &[(&str, &str)]) -> TargetGroupSettings {
        TargetGroupSettings::read(&set(ObjectKind::TargetGroup, given), &HealthCheck::default())
    }

    fn listener(given: &[(&str, &str)], group: &[(&str, &str)]) -> ListenerSettings {
        let group = set(ObjectKind::TargetGroup, group);
        ListenerSettings::read(&set(ObjectKind::Listener, given), &group)
    }

    #[test]
    fn a1_to_a10_where_nothing_was_given_the_defaults_hold() {
        let group = group(&[]);
        assert_eq!(group.deregistration_delay, Duration::from_secs(300));
        assert_eq!(group.stickiness, Stickiness::FiveTuple);
        assert_eq!(group.failover, Failover::NoRebalance);
        assert!(!group.reset_on_unhealthy && !group.reset_on_deregistration);
        assert!(!group.reset_both_ends && !group.reset_proactive);
        assert_eq!(group.reset_guards, ResetGuards::default());
        assert_eq!(group.inband_silence, None);
        let listener = listener(&[], &[]);
        assert!(!listener.mss_clamp);
        assert_eq!(listener.tcp_idle_timeout, Duration::from_secs(350));
        assert_eq!(listener.udp_idle_timeout, Duration::from_secs(120));
        assert_eq!(listener.tcp_closed_timeout, Duration::from_secs(10));
        assert_eq!(listener.tcp_half_open_timeout, Duration::from_secs(60));
        assert!(!listener.reset_on_idle_timeout && !listener.resets_unknown_flows());
        assert!(listener.syn_reselect, "F-14 is on by default");
        let balancer = LoadBalancerSettings::read(&set(ObjectKind::LoadBalancer, &[]));
        assert!(!balancer.cross_zone && !balancer.deletion_protection);
    }

    //
    #[test]
    fn every_key_reaches_the_setting_that_bears_its_name() {
        let set_group = group(&[
            ("deregistration_delay.timeout_seconds", "0"),
            ("send_tcp_reset.on_unhealthy.enabled", "true"),
        ]);
        assert_eq!(set_group.deregistration_delay, Duration::ZERO);
        assert!(set_group.reset_on_unhealthy && !set_group.reset_on_deregistration);
        assert!(group(&[("send_tcp_reset.on_deregistration.enabled", "true")]).reset_on_deregistration);
        assert!(group(&[("flowgate.reset.both_ends", "true")]).reset_both_ends);
        assert!(group(&[("flowgate.reset.proactive", "true")]).reset_proactive);
        let guarded = group(&[
            ("flowgate.reset.hold_ms", "65"),
            ("flowgate.reset.min_healthy_percent", "66"),
            ("flowgate.reset.max_per_second", "67"),
            ("flowgate.inband.silence_ms", "68"),
        ]);
        let guards = ResetGuards { hold_ms: 65, min_healthy_percent: 66, max_per_second: 67 };
        assert_eq!(guarded.reset_guards, guards);
        assert_eq!(guarded.inband_silence, Some(Duration::from_millis(68)));
        assert!(listener(&[("flowgate.tcp.mss_clamp", "true")], &[]).mss_clamp);
        let set_listener = listener(
            &[
                ("tcp.idle_timeout.seconds", "61"),
                ("udp.idle_timeout.seconds", "62"),
                ("flowgate.tcp.closed_timeout_seconds", "63"),
                ("flowgate.tcp.half_open_timeout_seconds", "64"),
                ("flowgate.tcp.syn_reselect", "false"),
                ("flowgate.reset.no_flow_max_per_second", "69"),
            ],
            &[],
        );
        assert_eq!(set_listener.tcp_idle_timeout, Duration::from_secs(61));
        assert_eq!(set_listener.udp_idle_timeout, Duration::from_secs(62));
        assert_eq!(set_listener.tcp_closed_timeout, Duration::from_secs(63));
        assert_eq!(set_listener.tcp_half_open_timeout, Duration::from_secs(64));
        assert!(!set_listener.syn_reselect);
        assert_eq!(set_listener.no_flow_resets_per_second, 69);
        let both = [("load_balancing.cross_zone.enabled", "true"), ("deletion_protection.enabled", "true")];
        for (position, one) in both.into_iter().enumerate() {
            let balancer = LoadBalancerSettings::read(&set(ObjectKind::LoadBalancer, &[one]));
            assert_eq!(balancer.cross_zone, position == 0);
            assert_eq!(balancer.deletion_protection, position == 1);
        }
    }

    #[test]
    fn a2_a3_the_type_of_stickiness_counts_only_while_it_is_enabled() {
        let kinds = [
            ("source_ip_dest_ip_proto", Stickiness::ThreeTuple),
            ("source_ip_dest_ip", Stickiness::TwoTuple),
        ];
        for (word, expected) in kinds {
            let off = [("stickiness.type", word)];
            assert_eq!(group(&off).stickiness, Stickiness::FiveTuple);
            let on = [("stickiness.enabled", "true"), ("stickiness.type", word)];
            assert_eq!(group(&on).stickiness, expected);
        }
    }

    #[test]
    fn a5_where_a_stored_group_holds_both_rebalance_and_stickiness_win_over_the_resets() {
        let rivals = [
            &[
                ("target_failover.on_unhealthy", "rebalance"),
                ("target_failover.on_deregistration", "rebalance"),
            ][..],
            &[("stickiness.enabled", "true")],
        ];
        let resets = [
            ("send_tcp_reset.on_unhealthy.enabled", "true"),
            ("send_tcp_reset.on_deregistration.enabled", "true"),
        ];
        for rival in rivals {
            let group = group(&[rival, &resets[..]].concat());
            assert!(!group.reset_on_unhealthy && !group.reset_on_deregistration, "{rival:?}");
        }
    }

    #[test]
    fn a6_and_f8_either_of_two_keys_resets_unknown_flows() {
        assert!(listener(&[("send_tcp_reset.on_idle_timeout.enabled", "true")], &[]).resets_unknown_flows());
        let unknown_alone = listener(&[("flowgate.tcp.unknown_flow", "reset")], &[]);
        assert!(unknown_alone.resets_unknown_flows());
        assert!(!unknown_alone.reset_on_idle_timeout, "an expired flow is not an unknown one");
        let adopting =
            [("flowgate.tcp.unknown_flow", "adopt"), ("send_tcp_reset.on_idle_timeout.enabled", "true")];
        assert!(!listener(&adopting, &[]).resets_unknown_flows(), "what is adopted is not reset");
    }

    #[test]
    fn a7_sticky_flows_idle_out_after_350_s_whatever_was_set_before() {
        let longer = [("tcp.idle_timeout.seconds", "600")];
        assert_eq!(listener(&longer, &[]).tcp_idle_timeout, Duration::from_secs(600));
        for word in ["source_ip_dest_ip_proto", "source_ip_dest_ip"] {
            let sticky = [("stickiness.enabled", "true"), ("stickiness.type", word)];
            assert_eq!(listener(&longer, &sticky).tcp_idle_timeout, Duration::from_secs(350));
        }
    }
}
