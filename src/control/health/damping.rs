//! From single results to a verdict: results count in a row, and enough of one kind decide (H-4,
//! H-9). Pure numbers, no clock and no socket; called by the record of each target.
//!
//! Three rules beyond counting. Changed thresholds are held against the counts as they stand, and
//! may decide at once. A check that asks something else restarts the counts but keeps the verdict.
//! A check that this node could not make (`Inconclusive`) is no result: it neither counts nor clears
//! a count; the unhealthy threshold of them in a row shows as `unavailable` over a kept verdict.

use std::num::NonZeroU32;

use super::state::HealthState;

/// How many equal results in a row decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Successes until healthy.
    pub healthy: NonZeroU32,
    /// Failures until unhealthy.
    pub unhealthy: NonZeroU32,
}

impl Thresholds {
    /// `None` if either is 0.
    pub fn new(healthy: u32, unhealthy: u32) -> Option<Self> {
        Some(Self { healthy: NonZeroU32::new(healthy)?, unhealthy: NonZeroU32::new(unhealthy)? })
    }
}

impl Default for Thresholds {
    /// 5 and 2 (H-1).
    fn default() -> Self {
        Self { healthy: NonZeroU32::MIN.saturating_add(4), unhealthy: NonZeroU32::MIN.saturating_add(1) }
    }
}

/// What checks have decided of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing yet.
    Initial,
    /// Enough successes in a row.
    Healthy,
    /// Enough failures in a row.
    Unhealthy,
}

/// What one check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// The target answered as it should.
    Success,
    /// It did not.
    Failure,
    /// This node could not ask it.
    Inconclusive,
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: HealthState,
    /// The state now; another one.
    pub to: HealthState,
    /// How many equal results in a row decided it; 0 where none did (the counts were restarted).
    pub in_row: u32,
}

/// The counts of one target. Each method gives the counts after, and the change of state if there
/// is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damping {
    thresholds: Thresholds,
    verdict: Verdict,
    // At most one of these two is above 0.
    successes: u32,
    failures: u32,
    inconclusive: u32,
}

impl Damping {
    /// Nothing known.
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, verdict: Verdict::Initial, successes: 0, failures: 0, inconclusive: 0 }
    }

    /// Counts one more result.
    #[must_use]
    pub fn observe(self, seen: Observation) -> (Self, Option<Transition>) {
        let counted = match seen {
            Observation::Success => {
                Self { successes: self.successes.saturating_add(1), failures: 0, inconclusive: 0, ..self }
            }
            Observation::Failure => {
                Self { successes: 0, failures: self.failures.saturating_add(1), inconclusive: 0, ..self }
            }
            Observation::Inconclusive => Self { inconclusive: self.inconclusive.saturating_add(1), ..self },
        };
        self.decided(counted)
    }

    /// Holds the counts as they stand against other thresholds.
    #[must_use]
    pub fn with_thresholds(self, thresholds: Thresholds) -> (Self, Option<Transition>) {
        self.decided(Self { thresholds, ..self })
    }

    /// Forgets the counts and keeps the verdict: another question is asked from now on.
    #[must_use]
    pub fn restarted(self) -> (Self, Option<Transition>) {
        self.decided(Self { successes: 0, failures: 0, inconclusive: 0, ..self })
    }

    /// What checks decided; the data path goes by it.
    pub fn verdict(self) -> Verdict {
        self.verdict
    }

    /// What is shown: the verdict, or that this node cannot see.
    pub fn state(self) -> HealthState {
        if self.inconclusive >= self.thresholds.unhealthy.get() {
            return HealthState::Unavailable;
        }
        match self.verdict {
            Verdict::Initial => HealthState::Initial,
            Verdict::Healthy => HealthState::Healthy,
            Verdict::Unhealthy => HealthState::Unhealthy,
        }
    }

    /// Successes in a row, up to now.
    pub fn successes(self) -> u32 {
        self.successes
    }

    /// Failures in a row, up to now.
    pub fn failures(self) -> u32 {
        self.failures
    }

    fn decided(self, mut counted: Self) -> (Self, Option<Transition>) {
        if counted.successes >= counted.thresholds.healthy.get() {
            counted.verdict = Verdict::Healthy;
        } else if counted.failures >= counted.thresholds.unhealthy.get() {
            counted.verdict = Verdict::Unhealthy;
        }
        let (from, to) = (self.state(), counted.state());
        let in_row = match to {
            HealthState::Unavailable => counted.inconclusive,
            _ => counted.successes.max(counted.failures),
        };
        (counted, (from != to).then_some(Transition { from, to, in_row }))
    }
}
