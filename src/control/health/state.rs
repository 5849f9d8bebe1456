//! The words in which health is told: states, reason codes, and the two shapes that leave the
//! engine, [`HealthEvent`] (a state changed) and [`TargetHealthView`] (how a target stands now).
//! The strings are those of the AWS API, so that its scripts read ours.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::course::Course;
use super::damping::Verdict;
use super::latency::AnswerTimes;
use crate::control::wall;

/// What a target is known by: its group and its address (O-3: an address is in a group once).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    /// The target group's id or name; the caller chooses which and keeps to it.
    pub group: Arc<str>,
    /// The target's address.
    pub address: Ipv4Addr,
}

impl TargetKey {
    /// The target `address` of `group`.
    pub fn new(group: impl Into<Arc<str>>, address: Ipv4Addr) -> Self {
        Self { group: group.into(), address }
    }
}

impl fmt::Display for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.address)
    }
}

/// The state of a target (H-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    /// Registered; too few checks in a row to tell.
    Initial,
    /// Answers its checks.
    Healthy,
    /// Fails its checks.
    Unhealthy,
    /// Not checked, because it is given no traffic here (H-6), or not registered.
    Unused,
    /// Deregistered; its delay has not elapsed. Not checked.
    Draining,
    /// This node cannot make its checks. The data path goes on with what was known before.
    Unavailable,
}

impl HealthState {
    /// Every state, in the order of H-4.
    pub const ALL: [HealthState; 6] =
        [Self::Initial, Self::Healthy, Self::Unhealthy, Self::Unused, Self::Draining, Self::Unavailable];

    /// Its place in [`HealthState::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Unused => "unused",
            Self::Draining => "draining",
            Self::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a target is in its state (H-5). `Elb.*` originate at this node, `Target.*` at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReasonCode {
    /// Registered; its first check has not started.
    #[serde(rename = "Elb.RegistrationInProgress")]
    RegistrationInProgress,
    /// Its first checks are running.
    #[serde(rename = "Elb.InitialHealthChecking")]
    InitialHealthChecking,
    /// The check's timeout passed before an answer.
    #[serde(rename = "Target.Timeout")]
    Timeout,
    /// HTTP: a code came that the matcher does not have.
    #[serde(rename = "Target.ResponseCodeMismatch")]
    ResponseCodeMismatch,
    /// No connection, a connection that broke, or an answer that is not HTTP.
    #[serde(rename = "Target.FailedHealthChecks")]
    FailedHealthChecks,
    /// Not a target of the group.
    #[serde(rename = "Target.NotRegistered")]
    NotRegistered,
    /// Its group or its zone is given no traffic here (H-6).
    #[serde(rename = "Target.NotInUse")]
    NotInUse,
    /// Deregistered, and its delay has not elapsed.
    #[serde(rename = "Target.DeregistrationInProgress")]
    DeregistrationInProgress,
    /// Its address cannot be a target's.
    #[serde(rename = "Target.IpUnusable")]
    IpUnusable,
    /// This node could not make the check.
    #[serde(rename = "Elb.InternalError")]
    InternalError,
}

impl ReasonCode {
    /// Every code, in the order of H-5.
    pub const ALL: [ReasonCode; 10] = [
        Self::RegistrationInProgress,
        Self::InitialHealthChecking,
        Self::Timeout,
        Self::ResponseCodeMismatch,
        Self::FailedHealthChecks,
        Self::NotRegistered,
        Self::NotInUse,
        Self::DeregistrationInProgress,
        Self::IpUnusable,
        Self::InternalError,
    ];

    /// The code in the AWS API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RegistrationInProgress => "Elb.RegistrationInProgress",
            Self::InitialHealthChecking => "Elb.InitialHealthChecking",
            Self::Timeout => "Target.Timeout",
            Self::ResponseCodeMismatch => "Target.ResponseCodeMismatch",
            Self::FailedHealthChecks => "Target.FailedHealthChecks",
            Self::NotRegistered => "Target.NotRegistered",
            Self::NotInUse => "Target.NotInUse",
            Self::DeregistrationInProgress => "Target.DeregistrationInProgress",
            Self::IpUnusable => "Target.IpUnusable",
            Self::InternalError => "Elb.InternalError",
        }
    }

    /// The sentence that AWS gives with the code. Where a check saw something, what it saw follows
    /// after a colon.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::RegistrationInProgress => "Target registration is in progress",
            Self::InitialHealthChecking => "Initial health checks in progress",
            Self::Timeout => "Request timed out",
            Self::ResponseCodeMismatch => "Health checks failed with these codes",
            Self::FailedHealthChecks => "Health checks failed",
            Self::NotRegistered => "Target is not registered to the target group",
            Self::NotInUse => "Target group is not configured to receive traffic from the load balancer",
            Self::DeregistrationInProgress => "Target deregistration is in progress",
            Self::IpUnusable => {
                "The IP address cannot be used as a target, as it is in use by a load balancer"
            }
            Self::InternalError => "Health checks failed due to an internal error",
        }
    }
}

impl fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason code and the sentence that goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateReason {
    /// For programs.
    pub code: ReasonCode,
    /// For people: what was seen.
    pub description: String,
}

impl StateReason {
    /// The code with its own sentence, where there is nothing more to say.
    pub fn plain(code: ReasonCode) -> Self {
        Self { code, description: code.sentence().to_owned() }
    }

    /// The code's sentence, and after it what a check saw.
    pub fn seen(code: ReasonCode, what: impl fmt::Display) -> Self {
        Self { code, description: format!("{}: {what}", code.sentence()) }
    }
}

/// A point in time by both clocks: the wall's to show and to store, the monotonic one to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// May jump.
    pub wall: SystemTime,
    /// Never goes back.
    pub monotonic: Instant,
}

impl Moment {
    /// Now. The monotonic half is the runtime's clock, which a test can move.
    pub fn now() -> Self {
        Self { wall: wall::now(), monotonic: tokio::time::Instant::now().into_std() }
    }

    /// So long before, or as long as the clocks can tell.
    pub(super) fn ago(self, ago: Duration) -> Self {
        match (self.wall.checked_sub(ago), self.monotonic.checked_sub(ago)) {
            (Some(wall), Some(monotonic)) => Self { wall, monotonic },
            _ => self,
        }
    }
}

/// A target changed its state. Sent for every change: by checks, and by [`update`] (registered is
/// `unused` to `initial`, removed is anything to `unused` with [`ReasonCode::NotRegistered`]).
///
/// [`update`]: super::HealthEngine::update
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthEvent {
    /// Which target.
    pub key: TargetKey,
    /// The state before.
    pub from: HealthState,
    /// The state now; never equal to `from`.
    pub to: HealthState,
    /// Why; `None` for [`HealthState::Healthy`] only.
    pub reason: Option<StateReason>,
    /// When it was decided.
    pub at: Moment,
    /// To [`HealthState::Unhealthy`]: when the first failed check of the row began.
    pub first_failure_at: Option<Moment>,
    /// How many equal results in a row decided it; 0 where no check did.
    pub checks_in_row: u32,
    /// To [`HealthState::Unhealthy`]: the checks that led to it.
    pub course: Option<Box<Course>>,
}

/// The checks of one target that have ended, since this node first knew it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckTotals {
    /// All that were begun and have ended.
    pub made: u64,
    /// Of these, those that were asked for out of turn.
    pub out_of_turn: u64,
    /// Failed by [`ReasonCode::Timeout`].
    pub timeouts: u64,
    /// Failed by [`ReasonCode::ResponseCodeMismatch`].
    pub mismatches: u64,
    /// Failed by [`ReasonCode::FailedHealthChecks`].
    pub failures: u64,
    /// Those that this node could not make.
    pub internal_errors: u64,
}

/// How a target stands, for `describe-target-health`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetHealthView {
    /// The state.
    pub state: HealthState,
    /// Why; `None` for [`HealthState::Healthy`] only. While unhealthy: the last failure seen.
    pub reason: Option<StateReason>,
    /// What checks last decided, which the data path goes by; differs from `state` while that is
    /// [`HealthState::Unavailable`]. [`Verdict::Initial`] where nothing was decided.
    pub verdict: Verdict,
    /// Since when it is in this state.
    pub since: Moment,
    /// The last check that ended.
    pub last_check: Option<LastCheck>,
    /// Successes in a row, up to now.
    pub successes: u32,
    /// Failures in a row, up to now.
    pub failures: u32,
    /// Every check that has ended.
    pub checks: CheckTotals,
    /// How fast it answers.
    pub answers: AnswerTimes,
}

/// A check that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCheck {
    /// When it began.
    pub started: Moment,
    /// From its begin to its result.
    pub latency: Duration,
    /// How much later than its schedule it began (H-8); 0 for one made out of turn.
    pub delay: Duration,
    /// What was seen, unless it succeeded.
    pub failure: Option<StateReason>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_rule_h5() {
        let names: Vec<_> = ReasonCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(
            names.join(" "),
            "Elb.RegistrationInProgress Elb.InitialHealthChecking Target.Timeout \
             Target.ResponseCodeMismatch Target.FailedHealthChecks Target.NotRegistered Target.NotInUse \
             Target.DeregistrationInProgress Target.IpUnusable Elb.InternalError"
        );
    }

    // H-4, H-5
    #[test]
    fn json_has_the_words_of_the_api() {
        for (place, state) in HealthState::ALL.into_iter().enumerate() {
            assert_eq!(state.index(), place);
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for reason in ReasonCode::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }

    #[test]
    fn what_was_seen_follows_the_sentence_h5() {
        let reason = StateReason::seen(ReasonCode::ResponseCodeMismatch, "[503]");
        assert_eq!(reason.description, "Health checks failed with these codes: [503]");
    }
}
