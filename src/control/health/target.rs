//! What the engine keeps of one target: its duty, its counts, its last check, and how these are
//! told. No clock of its own and no socket; the engine's `update` and the target's task call it.

use std::time::Duration;

use super::check::{CheckResult, Outcome};
use super::course::Course;
use super::damping::{Damping, Observation, Thresholds, Transition, Verdict};
use super::engine::Duty;
use super::latency::Answers;
use super::state::{
    CheckTotals, HealthEvent, HealthState, LastCheck, Moment, ReasonCode, StateReason, TargetHealthView,
    TargetKey,
};
use crate::control::resume::KnownHealth;

/// Why a check was begun when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was due, and began so much later.
    Regular {
        /// How much.
        delay: Duration,
    },
    /// It was asked for out of turn.
    Asked,
}

/// One target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    key: TargetKey,
    duty: Duty,
    damping: Damping,
    since: Moment,
    /// Whether its first check has started.
    begun: bool,
    /// The last failure of the target's own, and the last one of ours.
    failure: Option<StateReason>,
    internal: Option<StateReason>,
    /// When the first failed check of the present row began.
    row_began: Option<Moment>,
    course: Course,
    last: Option<LastCheck>,
    checks: CheckTotals,
    answers: Answers,
}

impl Target {
    /// A target that was not known before, and its event.
    pub(super) fn register(
        key: TargetKey,
        duty: Duty,
        thresholds: Thresholds,
        now: Moment,
    ) -> (Self, Option<HealthEvent>) {
        let target = Self::unknown(key, duty, thresholds, now);
        let event = target.event(HealthState::Unused, now, 0);
        (target, event)
    }

    /// A target of which something was decided before the daemon, or its control core, started anew (H-9). It goes on,
    /// so that there is no event.
    pub(super) fn resumed(
        key: TargetKey,
        thresholds: Thresholds,
        (verdict, failure): (Verdict, Option<StateReason>),
        since: Moment,
    ) -> Self {
        let damping = Damping::resumed(thresholds, verdict);
        Self { damping, failure, ..Self::unknown(key, Duty::Check, thresholds, since) }
    }

    fn unknown(key: TargetKey, duty: Duty, thresholds: Thresholds, now: Moment) -> Self {
        Self {
            key,
            duty,
            damping: Damping::new(thresholds),
            since: now,
            begun: false,
            failure: None,
            internal: None,
            row_began: None,
            course: Course::default(),
            last: None,
            checks: CheckTotals::default(),
            answers: Answers::default(),
        }
    }

    /// The event of its removal, which is its last.
    pub(super) fn deregistered(&self, now: Moment) -> Option<HealthEvent> {
        let from = self.state();
        (from != HealthState::Unused).then(|| HealthEvent {
            key: self.key.clone(),
            from,
            to: HealthState::Unused,
            reason: Some(StateReason::plain(ReasonCode::NotRegistered)),
            at: now,
            first_failure_at: None,
            checks_in_row: 0,
            course: None,
        })
    }

    /// Its duty is another one from now on. Back to being checked, it begins anew (T-7); sent to
    /// drain, what is known of it is kept for its flows.
    pub(super) fn assign(&mut self, duty: Duty, thresholds: Thresholds, now: Moment) -> Option<HealthEvent> {
        let from = self.state();
        if duty == Duty::Check {
            let (since, checks) = (self.since, self.checks);
            *self = Self { since, checks, ..Self::unknown(self.key.clone(), duty, thresholds, now) };
        }
        self.duty = duty;
        self.changed(from, now, 0)
    }

    /// Other thresholds, held against the counts as they stand (H-9).
    pub(super) fn set_thresholds(&mut self, thresholds: Thresholds, now: Moment) -> Option<HealthEvent> {
        let (damping, transition) = self.damping.with_thresholds(thresholds);
        self.settle(damping, transition, now)
    }

    /// Another question is asked: the verdict stays, the counts begin anew.
    pub(super) fn restart_counts(&mut self, now: Moment) -> Option<HealthEvent> {
        self.answers = Answers::default();
        let (damping, transition) = self.damping.restarted();
        self.row_began = None;
        self.course.failures.clear();
        self.settle(damping, transition, now)
    }

    /// A check has started.
    pub(super) fn begin_check(&mut self) {
        self.begun = true;
    }

    /// A check has ended that began in its `turn`.
    pub(super) fn end_check(&mut self, result: CheckResult, turn: Turn, now: Moment) -> Option<HealthEvent> {
        self.checks.count(&result.outcome, turn == Turn::Asked);
        let (seen, failure) = match result.outcome {
            Outcome::Success => (Observation::Success, None),
            Outcome::Failure(reason) if reason.code == ReasonCode::InternalError => {
                self.internal = Some(reason.clone());
                (Observation::Inconclusive, Some(reason))
            }
            Outcome::Failure(reason) => {
                self.failure = Some(reason.clone());
                (Observation::Failure, Some(reason))
            }
        };
        let delay = match turn {
            Turn::Regular { delay } => delay,
            Turn::Asked => Duration::ZERO,
        };
        let check = LastCheck { started: result.started, latency: result.latency, delay, failure };
        match seen {
            Observation::Success => {
                self.row_began = None;
                self.course.succeeded(check.clone());
                self.answers.note(result.latency, now.monotonic);
            }
            Observation::Failure => {
                self.row_began = self.row_began.or(Some(result.started));
                self.course.failed(check.clone());
            }
            Observation::Inconclusive => {}
        }
        self.last = Some(check);
        let (damping, transition) = self.damping.observe(seen);
        self.settle(damping, transition, now)
    }

    /// How it stands.
    pub(super) fn view(&self) -> TargetHealthView {
        TargetHealthView {
            state: self.state(),
            reason: self.reason(),
            verdict: self.damping.verdict(),
            since: self.since,
            last_check: self.last.clone(),
            successes: self.damping.successes(),
            failures: self.damping.failures(),
            checks: self.checks,
            answers: self.answers.times(),
        }
    }

    /// What checks decided.
    pub(super) fn verdict(&self) -> Verdict {
        self.damping.verdict()
    }

    /// What checks decided, for whoever takes over; none if they have not.
    pub(super) fn known(&self) -> Option<KnownHealth> {
        /// Longest description that is handed on.
        const LONGEST: usize = 200;
        let healthy = match self.damping.verdict() {
            Verdict::Initial => return None,
            Verdict::Healthy => true,
            Verdict::Unhealthy => false,
        };
        let seen = |reason: &StateReason| (reason.code, reason.description.chars().take(LONGEST).collect());
        let reason = self.failure.as_ref().filter(|_| !healthy).map(seen);
        Some(KnownHealth::since(healthy, self.since.monotonic, reason))
    }

    /// How it is shown.
    pub(super) fn state(&self) -> HealthState {
        match self.duty {
            Duty::Check => self.damping.state(),
            Duty::Unused(_) => HealthState::Unused,
            Duty::Drain => HealthState::Draining,
        }
    }

    fn reason(&self) -> Option<StateReason> {
        let plain = |code| Some(StateReason::plain(code));
        match (self.state(), self.duty) {
            (HealthState::Healthy, _) => None,
            (HealthState::Initial, _) if self.begun => plain(ReasonCode::InitialHealthChecking),
            (HealthState::Initial, _) => plain(ReasonCode::RegistrationInProgress),
            (HealthState::Unhealthy, _) => self.failure.clone(),
            (HealthState::Unavailable, _) => self.internal.clone(),
            (HealthState::Unused, Duty::Unused(why)) => Some(why.reason()),
            (HealthState::Unused, _) => plain(ReasonCode::NotRegistered),
            (HealthState::Draining, _) => plain(ReasonCode::DeregistrationInProgress),
        }
    }

    fn settle(
        &mut self,
        damping: Damping,
        transition: Option<Transition>,
        now: Moment,
    ) -> Option<HealthEvent> {
        let from = self.state();
        self.damping = damping;
        self.changed(from, now, transition.map_or(0, |transition| transition.in_row))
    }

    fn changed(&mut self, from: HealthState, now: Moment, checks_in_row: u32) -> Option<HealthEvent> {
        let event = self.event(from, now, checks_in_row);
        if event.is_some() {
            self.since = now;
        }
        event
    }

    fn event(&self, from: HealthState, at: Moment, checks_in_row: u32) -> Option<HealthEvent> {
        let to = self.state();
        (from != to).then(|| HealthEvent {
            key: self.key.clone(),
            from,
            to,
            reason: self.reason(),
            at,
            first_failure_at: self.row_began.filter(|_| to == HealthState::Unhealthy),
            checks_in_row,
            course: (to == HealthState::Unhealthy).then(|| Box::new(self.course.clone())),
        })
    }
}
