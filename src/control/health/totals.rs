//! What the checks of a target group came to, also of targets that are no more: results and latencies. Kept by the
//! engine for as long as there is the group.

use std::time::Duration;

use super::check::Outcome;
use super::state::{CheckTotals, ReasonCode};
use crate::control::histogram::{CHECK_BOUNDS, Histogram};

/// A group's checks that have ended.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupChecks {
    /// How many, by result.
    pub totals: CheckTotals,
    /// From the begin of each to its result, whatever that was.
    pub latency: Histogram,
    /// How much later than its schedule each began; those out of turn have none (H-8).
    pub delay: Histogram,
}

impl Default for GroupChecks {
    fn default() -> Self {
        let latency = Histogram::new(CHECK_BOUNDS);
        GroupChecks { totals: CheckTotals::default(), delay: latency.clone(), latency }
    }
}

impl GroupChecks {
    /// Counts a check that took `latency` and began `delay` late, if it was not out of turn.
    pub(super) fn count(&mut self, outcome: &Outcome, latency: Duration, delay: Option<Duration>) {
        self.totals.count(outcome, delay.is_none());
        self.latency.observe(latency);
        if let Some(delay) = delay {
            self.delay.observe(delay);
        }
    }
}

impl CheckTotals {
    /// Counts a check.
    pub(super) fn count(&mut self, outcome: &Outcome, out_of_turn: bool) {
        self.made += 1;
        self.out_of_turn += u64::from(out_of_turn);
        let Outcome::Failure(reason) = outcome else { return };
        match reason.code {
            ReasonCode::Timeout => self.timeouts += 1,
            ReasonCode::ResponseCodeMismatch => self.mismatches += 1,
            ReasonCode::InternalError => self.internal_errors += 1,
            _ => self.failures += 1,
        }
    }

    /// Those that succeeded.
    pub fn successes(&self) -> u64 {
        self.made - self.timeouts - self.mismatches - self.failures - self.internal_errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::health::StateReason;

    // H-5
    #[test]
    fn checks_are_counted_by_their_result_and_timed_whatever_it_was() {
        let failed = |code| Outcome::Failure(StateReason::plain(code));
        let mut checks = GroupChecks::default();
        let ms = Duration::from_millis;
        for (outcome, latency, delay) in [
            (Outcome::Success, 3, Some(ms(1))),
            (failed(ReasonCode::Timeout), 100, Some(ms(0))),
            (failed(ReasonCode::ResponseCodeMismatch), 4, None),
            (failed(ReasonCode::FailedHealthChecks), 5, None),
            (failed(ReasonCode::InternalError), 0, None),
        ] {
            checks.count(&outcome, ms(latency), delay);
        }
        let expected = CheckTotals {
            made: 5,
            out_of_turn: 3,
            timeouts: 1,
            mismatches: 1,
            failures: 1,
            internal_errors: 1,
        };
        assert_eq!(checks.totals, expected);
        assert_eq!(checks.totals.successes(), 1);
        assert_eq!((checks.latency.count(), checks.latency.sum()), (5, ms(112)));
        assert_eq!((checks.delay.count(), checks.delay.sum()), (2, ms(1)));
    }
}
