//! The whole node at a moment: what the live view on a terminal and the web page draw from.
//!
//! Counts only grow, so that two overviews some time apart make rates, and no reader disturbs another. A
//! group's traffic goes on from that of targets that are gone. Everything here is also told by other methods;
//! here it is of one moment, and needs one question.

#![forbid(unsafe_code)]

use super::{NextHopView, PortView, ReadinessOverview, Trouble, WorkerView};
use crate::control::events::{ResetTrigger, Timestamp};
use crate::control::health::{HealthState, ReasonCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::AddAssign;

/// The node at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Overview {
    /// That moment.
    pub at: Timestamp,
    /// The node itself.
    pub node: NodeOverview,
    /// Whether it is to be given traffic.
    #[serde(default)]
    pub readiness: ReadinessOverview,
    /// What is wrong, the worst first (docs/troubles.md).
    #[serde(default)]
    pub troubles: Vec<Trouble>,
    /// Its load balancers, by name.
    pub load_balancers: Vec<LoadBalancerOverview>,
    /// Its target groups, by name, with their targets.
    pub target_groups: Vec<TargetGroupOverview>,
    /// Its endpoints, in the order of the configuration.
    pub endpoints: Vec<EndpointOverview>,
    /// Its ports, in the order of the configuration.
    pub ports: Vec<PortView>,
    /// Its workers, by number.
    pub workers: Vec<WorkerView>,
    /// Sums over all of it.
    pub totals: Totals,
}

/// What runs, and since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct NodeOverview {
    /// The program.
    pub product: String,
    /// Its version.
    pub version: String,
    /// The configuration's number.
    pub generation: u64,
    /// Milliseconds since it started, when every count was 0.
    pub uptime_ms: u64,
    /// Another build is installed than the one that runs, which goes on until it is restarted.
    #[serde(default)]
    pub is_replaced: bool,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancerOverview {
    /// Its name.
    pub name: String,
    /// The group that its listener forwards to; none: it has no listener, and its traffic is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group: Option<String>,
    /// Live flows of its group.
    pub flows: u64,
    /// Flows that were refused, as no target was registered (F-7).
    pub rejected_flows: u64,
    /// Flows that were given to a target though none was healthy (F-6).
    pub fail_open_flows: u64,
    /// Packets that were forwarded without state, as the flow table was full (F-12).
    pub stateless_packets: u64,
    /// TCP resets sent.
    pub resets: ResetCounts,
    /// Resets that were due and held back.
    pub held_resets: HeldResets,
}

/// TCP resets by what made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ResetCounts {
    /// the flow's target is unhealthy.
    pub unhealthy: u64,
    /// the flow's target was deregistered and its delay is over.
    pub deregistration: u64,
    /// the flow had idled out.
    pub idle_timeout: u64,
    /// the packet was of no flow.
    pub no_flow: u64,
    /// the other end was told before.
    pub both_ends: u64,
    /// the ends were told unasked.
    pub proactive: u64,
}

impl ResetCounts {
    /// The count of each trigger, in a fixed order.
    pub fn by_trigger(&self) -> [(ResetTrigger, u64); 6] {
        [
            (ResetTrigger::Unhealthy, self.unhealthy),
            (ResetTrigger::Deregistration, self.deregistration),
            (ResetTrigger::IdleTimeout, self.idle_timeout),
            (ResetTrigger::NoFlow, self.no_flow),
            (ResetTrigger::BothEnds, self.both_ends),
            (ResetTrigger::Proactive, self.proactive),
        ]
    }

    /// `self` and `other`, trigger by trigger, as `with` makes one of the two.
    #[must_use]
    pub fn combined(self, other: ResetCounts, with: fn(u64, u64) -> u64) -> ResetCounts {
        ResetCounts {
            unhealthy: with(self.unhealthy, other.unhealthy),
            deregistration: with(self.deregistration, other.deregistration),
            idle_timeout: with(self.idle_timeout, other.idle_timeout),
            no_flow: with(self.no_flow, other.no_flow),
            both_ends: with(self.both_ends, other.both_ends),
            proactive: with(self.proactive, other.proactive),
        }
    }

    /// All of them: `TCP_ELB_Reset_Count`.
    pub fn all(&self) -> u64 {
        self.by_trigger().iter().fold(0, |sum, (_, count)| sum.wrapping_add(*count))
    }
}

/// Resets that were held back, by what held them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HeldResets {
    /// The target was not unhealthy for long enough.
    pub hold: u64,
    /// Too few targets were healthy.
    pub min_healthy: u64,
    /// As many resets of flows as may be were sent lately.
    pub rate: u64,
    /// As many as may be in answer to packets of no live flow were sent lately.
    #[serde(default)]
    pub no_flow_rate: u64,
}

impl HeldResets {
    /// All of them.
    pub fn all(&self) -> u64 {
        [self.min_healthy, self.rate, self.no_flow_rate].into_iter().fold(self.hold, u64::wrapping_add)
    }
}

/// What went through a target, or through the targets of a group. Bytes are those of inner packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Traffic {
    /// Flows that were given to it.
    pub new_flows: u64,
    /// Flows that were moved away from it (`rebalance`).
    pub moved_flows: u64,
    /// Packets sent to it.
    pub packets_to_target: u64,
    /// Bytes sent to it.
    pub bytes_to_target: u64,
    /// Packets that it returned.
    pub packets_from_target: u64,
    /// Bytes that it returned.
    pub bytes_from_target: u64,
    /// Flows that were ended by a reset, however many of their ends were told.
    pub reset_flows: u64,
    /// TCP resets sent for its flows: packets, of which a flow may take two.
    pub resets: ResetCounts,
}

impl Traffic {
    /// `self` and `other`, member by member, as `with` makes one of the two.
    fn combined(self, other: Traffic, with: fn(u64, u64) -> u64) -> Traffic {
        Traffic {
            new_flows: with(self.new_flows, other.new_flows),
            moved_flows: with(self.moved_flows, other.moved_flows),
            packets_to_target: with(self.packets_to_target, other.packets_to_target),
            bytes_to_target: with(self.bytes_to_target, other.bytes_to_target),
            packets_from_target: with(self.packets_from_target, other.packets_from_target),
            bytes_from_target: with(self.bytes_from_target, other.bytes_from_target),
            reset_flows: with(self.reset_flows, other.reset_flows),
            resets: self.resets.combined(other.resets, with),
        }
    }

    /// What came since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Traffic) -> Traffic {
        self.combined(earlier, u64::wrapping_sub)
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Traffic) {
        *self = self.combined(other, u64::wrapping_add);
    }
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetGroupOverview {
    /// Its name.
    pub name: String,
    /// The load balancer that uses it; none: its targets are not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<String>,
    /// What its health check asks, such as `HTTP 8080 /up`.
    pub health_check: String,
    /// Milliseconds between two checks of a target.
    pub health_check_interval_ms: u64,
    /// Failures in a row that make a target unhealthy.
    pub unhealthy_threshold_count: u32,
    /// Interval × unhealthy threshold, in milliseconds (H-7).
    pub detection_time_ms: u64,
    /// The same and a check's timeout: within what time a death is seen at worst, in milliseconds.
    pub worst_detection_time_ms: u64,
    /// How long a deregistered target drains, in milliseconds.
    pub deregistration_delay_ms: u64,
    /// Whether flows of a target that fails or leaves move to others.
    pub rebalances: bool,
    /// Whether flows of an unhealthy target are reset.
    pub resets_on_unhealthy: bool,
    /// Whether flows of a deregistered target are reset when its delay is over.
    pub resets_on_deregistration: bool,
    /// Live flows of its targets.
    pub flows: u64,
    /// What went through its targets, those that are gone too.
    pub traffic: Traffic,
    /// Its targets by address: those registered, those draining, and those that are gone and have flows left (T-4).
    pub targets: Vec<TargetOverview>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetOverview {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its zone; none: it serves every zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its share of new flows relative to the other targets.
    pub weight: u16,
    /// Its state (H-4).
    pub state: HealthState,
    /// Why (H-5); none for `healthy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonCode>,
    /// What was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Since when it is in this state; none for a target that is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// While it drains: since when and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainOverview>,
    /// Its checks; none for a target that is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<ChecksOverview>,
    /// Whom its packets are handed to.
    pub neighbour: NextHopView,
    /// Its live flows.
    pub flows: u64,
    /// Of these, how many its sudden death would end.
    pub would_die: u64,
    /// For how long it has been sent packets and has returned none, in milliseconds; 0: it has not.
    pub silent_for_ms: u64,
    /// What went through it.
    pub traffic: Traffic,
    /// Its flows that were ended by a reset in the last minute.
    pub reset_flows_last_minute: u64,
    /// The number of its failover record that is open, which `flowgate report` takes; none: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_failover: Option<u64>,
}

/// A drain under way (T-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DrainOverview {
    /// When the target was deregistered.
    pub started: Timestamp,
    /// When the delay is over.
    pub ends: Timestamp,
}

/// The checks of a target that have ended, since this node first knew it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChecksOverview {
    /// All of them.
    pub made: u64,
    /// Of these, how many failed.
    pub failed: u64,
    /// Of these, how many were made out of turn, as the target was silent.
    pub out_of_turn: u64,
    /// Successes in a row, up to now.
    pub successes_in_row: u32,
    /// Failures in a row, up to now.
    pub failures_in_row: u32,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCheckOverview>,
}

/// A check that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LastCheckOverview {
    /// When it began.
    pub at: Timestamp,
    /// From its begin to its result, in milliseconds.
    pub latency_ms: f64,
    /// What was seen; none: it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// An endpoint (O-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct EndpointOverview {
    /// Its name in the node's configuration.
    pub name: String,
    /// `wire` or `routed`.
    pub kind: String,
    /// The names of its ports.
    pub ports: Vec<String>,
    /// The load balancer that it leads to; none: its traffic is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<String>,
    /// Its live flows.
    pub flows: u64,
}

/// Sums over the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Totals {
    /// Live flows.
    pub flows: u64,
    /// Packets received from all ports.
    pub received: u64,
    /// Packets sent to targets.
    pub forwarded: u64,
    /// Packets that came back from targets and left by their endpoint.
    pub delivered: u64,
    /// Packets answered by the gateway itself.
    pub answered: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// The same by reason, where there were any.
    pub drops: BTreeMap<String, u64>,
    /// TCP resets sent, those of load balancers that are gone too.
    pub resets: ResetCounts,
    /// Events that the workers could not tell, as nobody took them fast enough.
    pub lost_events: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every member another number.
    fn traffic(base: u64) -> Traffic {
        Traffic {
            new_flows: base,
            moved_flows: base + 1,
            packets_to_target: base + 2,
            bytes_to_target: base + 3,
            packets_from_target: base + 4,
            bytes_from_target: base + 5,
            reset_flows: base + 12,
            resets: ResetCounts {
                unhealthy: base + 6,
                deregistration: base + 7,
                idle_timeout: base + 8,
                no_flow: base + 9,
                both_ends: base + 10,
                proactive: base + 11,
            },
        }
    }

    //
    #[test]
    fn traffic_is_summed_and_told_apart_member_by_member() {
        let mut sum = traffic(100);
        sum += traffic(1000);
        let members = |traffic: &Traffic| -> Vec<u64> {
            let json = serde_json::to_value(traffic).unwrap();
            let json = json.as_object().unwrap().clone();
            let flat = |(_, value): (_, serde_json::Value)| match value.as_object() {
                Some(inner) => inner.values().map(|value| value.as_u64().unwrap()).collect(),
                None => vec![value.as_u64().unwrap()],
            };
            json.into_iter().flat_map(flat).collect()
        };
        let mut seen = members(&sum);
        seen.sort_unstable();
        assert_eq!(seen, (0..13).map(|member| 1100 + 2 * member).collect::<Vec<_>>());
        assert_eq!(sum.since(traffic(1000)), traffic(100));
        assert_eq!(traffic(0).resets.all(), (6..12).sum::<u64>());
        // A count that wrapped between the two.
        assert_eq!(
            Traffic { new_flows: 2, ..traffic(0) }
                .since(Traffic { new_flows: u64::MAX, ..traffic(0) })
                .new_flows,
            3
        );
    }
}
