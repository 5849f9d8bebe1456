//! What is told of one failover, and kept: the shapes are those of the socket's JSON and of the file alike.
//!
//! Times are [`Mark`]s: the time of day, and how far that was from the decision by a clock that never jumps.
//! What is counted is exact unless its own comment says otherwise.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::events::Timestamp;
use crate::control::health::ReasonCode;

/// What became of the flows of a target that turned unhealthy or was deregistered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Failover {
    /// Its number; later ones have higher numbers, also after a restart.
    pub id: u64,
    /// What made the target's flows lose it.
    pub cause: Cause,
    /// The load balancer that used the group; none if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<String>,
    /// The target group's name.
    pub target_group: String,
    /// The target's address.
    pub target: Ipv4Addr,
    /// What its group did about it, by the settings at the decision.
    pub policy: Policy,
    /// The group's targets just after the decision.
    pub group: Standing,
    /// When it was decided: the verdict of the checks, or the change that deregistered the target.
    pub decided: Timestamp,
    /// Why the checks found it unhealthy (H-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonCode>,
    /// What they saw.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The last check that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_good_check: Option<CheckSeen>,
    /// The failed ones since, which led to the decision: the first ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_checks: Vec<CheckSeen>,
    /// The last packet that the target returned and that was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_returned: Option<Mark>,
    /// When each worker went by it: by the verdict or, of a drain, by the end of its delay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<AppliedBy>,
    /// Of a deregistration: the drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainSeen>,
    /// The target's flows.
    pub flows: FlowsTouched,
    /// The resets that its flows' ends were sent.
    pub resets: ResetsSent,
    /// Packets whose reset was held back, by the guard that did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suppressed: BTreeMap<String, u64>,
    /// Clients whose connection was reset, and which connected anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsBack>,
    /// Messages of the workers that were lost meanwhile, of any kind: if there are any, the first and the last
    /// reset and the clients are of what was not lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages_lost: u64,
    /// How long each phase took.
    #[serde(rename = "DurationsMicroseconds")]
    pub durations: Durations,
    /// When no flow was left on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied: Option<Mark>,
    /// When the target was healthy again, or registered again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<Mark>,
    /// When the numbers were read last.
    pub as_of: Mark,
    /// When the record ended, and why; none while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ending>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What made flows lose their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Its checks failed.
    Unhealthy,
    /// It was deregistered.
    Deregistration,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Unhealthy => "unhealthy",
            Cause::Deregistration => "deregistration",
        })
    }
}

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Mark {
    /// The time of day.
    pub at: Timestamp,
    /// How long after the decision, by a clock that does not jump; negative: before it.
    pub after_decision_microseconds: i64,
}

/// What a group does about the flows of a lost target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Policy {
    /// `no_rebalance` or `rebalance`.
    pub failover: String,
    /// Whether TCP flows are reset for this cause.
    pub reset: bool,
    ///
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub both_ends: bool,
    ///
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proactive: bool,
    /// no reset before the target has been unhealthy for so long.
    #[serde(default, skip_serializing_if = "is_none_or_zero")]
    pub hold_ms: u32,
    /// no reset while fewer of a hundred targets are healthy.
    #[serde(default, skip_serializing_if = "is_none_or_zero")]
    pub min_healthy_percent: u32,
    /// so many resets a second at most.
    #[serde(default, skip_serializing_if = "is_none_or_zero")]
    pub max_per_second: u32,
    /// Interval × unhealthy threshold (H-7).
    pub detection_time_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none_or_zero(number: &u32) -> bool {
    *number == 0
}

/// How many targets a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Standing {
    /// Registered.
    pub registered: u64,
    /// Of these, healthy.
    pub healthy: u64,
}

/// A health check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CheckSeen {
    /// When it began.
    pub began: Mark,
    /// How long it took to its result.
    pub took_microseconds: u64,
    /// Why it failed; none if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonCode>,
    /// What was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// When a worker went by a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AppliedBy {
    /// The worker.
    pub worker: u8,
    /// When.
    pub at: Mark,
}

/// The drain of a deregistered target (T-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct DrainSeen {
    /// When its delay would be over.
    pub ends: Timestamp,
    /// When it was over: by the delay, as the target came back, or as its group went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Mark>,
    /// The flows that were left on the target then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows_then: Option<u64>,
}

/// The flows of the target. Of those at the decision and those begun since, `Moved`, `Reset`, `Ended` and `Left`
/// are all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowsTouched {
    /// Live flows at the decision.
    pub at_decision: u64,
    /// Of these, TCP.
    pub tcp_at_decision: u64,
    /// Flows that began on the target since: in the moment before the workers went by the decision, or as no
    /// other target was healthy (F-6).
    pub begun: u64,
    /// Given to another target (`rebalance`).
    pub moved: u64,
    /// Ended by a reset, however many of their ends were told.
    pub reset: u64,
    /// Ended otherwise: by themselves, by their idle timeout, or by their client's new SYN (F-14).
    pub ended: u64,
    /// Still on the target.
    pub left: u64,
}

/// Resets that were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ResetsSent {
    /// All of them. More than flows where both ends are told.
    pub total: u64,
    /// By what made the gateway send them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_trigger: BTreeMap<String, u64>,
    /// The first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Mark>,
    /// The last one so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Mark>,
}

/// Connections that were reset, and whose client connected anew: opened a connection from the same address to the same
/// address and port, after the reset. A sample: the first 4,096 of them, and for at most 30 seconds after the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ClientsBack {
    /// Connections whose clients were looked out for.
    pub watched: u64,
    /// Those whose client came back.
    pub came_back: u64,
    /// How many went to which target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_target: BTreeMap<Ipv4Addr, u64>,
    /// The shortest time from a reset to the new connection's first packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fastest_microseconds: Option<u64>,
    /// The longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_microseconds: Option<u64>,
}

/// How long each phase took, in microseconds; none where one of its ends is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Durations {
    /// From the begin of the first failed check to the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure_to_decision: Option<u64>,
    /// From the decision to the last worker that went by it (H-7). Of a drain: from the end of its delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_to_applied: Option<u64>,
    /// From the decision to the first reset. Of a drain: from the end of its delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_to_first_reset: Option<u64>,
    /// From the begin of the first failed check to the first reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure_to_first_reset: Option<u64>,
    /// From the last packet that the target returned to the first reset: for so long some client had no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_returned_to_first_reset: Option<u64>,
    /// From the first reset to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_to_last_reset: Option<u64>,
    /// From the decision until the target was healthy again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_to_recovery: Option<u64>,
}

/// The end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Ending {
    /// When.
    pub at: Mark,
    /// Why.
    pub why: EndReason,
}

/// Why a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The target was healthy again.
    Recovered,
    /// It was unhealthy again, so soon after it had recovered that the next record took this one's place.
    FailedAgain,
    /// The unhealthy target was deregistered: the record of its drain goes on.
    Deregistered,
    /// The deregistered target was registered again (T-7).
    RegisteredAgain,
    /// The target, or its group, is given no traffic here any more.
    NotInUse,
    /// The target is gone, and so is its last flow.
    Gone,
    /// The target is gone, and some of its flows went on for as long as this was watched.
    FlowsLeft,
    /// The daemon ended. The numbers are those that were stored last.
    Interrupted,
}

impl EndReason {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::Recovered => "recovered",
            EndReason::FailedAgain => "failed-again",
            EndReason::Deregistered => "deregistered",
            EndReason::RegisteredAgain => "registered-again",
            EndReason::NotInUse => "not-in-use",
            EndReason::Gone => "gone",
            EndReason::FlowsLeft => "flows-left",
            EndReason::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndReason::Recovered => "the target recovered",
            EndReason::FailedAgain => "the target failed again",
            EndReason::Deregistered => "the target was deregistered",
            EndReason::RegisteredAgain => "the target was registered again",
            EndReason::NotInUse => "the target is not in use any more",
            EndReason::Gone => "the target is gone, and has no flow left",
            EndReason::FlowsLeft => "the target is gone, and some of its flows go on",
            EndReason::Interrupted => "the daemon ended",
        })
    }
}

impl Durations {
    /// The phases by name, as they follow each other.
    pub fn named(&self) -> [(&'static str, Option<u64>); 7] {
        [
            ("first_failure_to_decision", self.first_failure_to_decision),
            ("decision_to_applied", self.decision_to_applied),
            ("decision_to_first_reset", self.decision_to_first_reset),
            ("first_failure_to_first_reset", self.first_failure_to_first_reset),
            ("last_returned_to_first_reset", self.last_returned_to_first_reset),
            ("first_to_last_reset", self.first_to_last_reset),
            ("decision_to_recovery", self.decision_to_recovery),
        ]
    }
}

impl Failover {
    /// Works out the phases of what is known.
    pub(super) fn measure(&mut self) {
        let since = |earlier: Option<i64>, later: Option<i64>| {
            later.zip(earlier).and_then(|(later, earlier)| u64::try_from(later - earlier).ok())
        };
        let at = |mark: Option<Mark>| mark.map(|mark| mark.after_decision_microseconds);
        let first_failure = at(self.failed_checks.first().map(|check| check.began));
        let (first_reset, last_reset) = (at(self.resets.first), at(self.resets.last));
        // Of a drain, what is decided is decided when its delay is over.
        let decided = match &self.drain {
            Some(drain) => at(drain.ended),
            None => Some(0),
        };
        let applied = self.applied.iter().map(|worker| worker.at.after_decision_microseconds).max();
        self.durations = Durations {
            first_failure_to_decision: since(first_failure, Some(0)),
            decision_to_applied: since(decided, applied),
            decision_to_first_reset: since(decided, first_reset),
            first_failure_to_first_reset: since(first_failure, first_reset),
            last_returned_to_first_reset: since(at(self.last_returned), first_reset),
            first_to_last_reset: since(first_reset, last_reset),
            decision_to_recovery: at(self.recovered).and_then(|at| u64::try_from(at).ok()),
        };
    }
}
