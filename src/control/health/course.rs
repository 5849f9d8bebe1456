//! How a target's checks came to a decision: the last good one, and the failures in a row since. Pure; kept by
//! the record of each target, and told with the event of the decision.

use super::state::LastCheck;

/// Failures that are kept: the first of the row. No threshold is higher (H-1).
const KEPT: usize = 10;

/// The last good check, and what has failed since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// The last check that succeeded.
    pub last_good: Option<LastCheck>,
    /// The failures since, the first [`KEPT`] of them, in order. Checks that this node could not make are not among
    /// them.
    pub failures: Vec<LastCheck>,
}

impl Course {
    /// A check has succeeded.
    pub(super) fn succeeded(&mut self, check: LastCheck) {
        self.last_good = Some(check);
        self.failures.clear();
    }

    /// A check has failed.
    pub(super) fn failed(&mut self, check: LastCheck) {
        if self.failures.len() < KEPT {
            self.failures.push(check);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::health::state::{Moment, ReasonCode, StateReason};

    fn check(ms: u64, failure: Option<ReasonCode>) -> LastCheck {
        LastCheck {
            started: Moment::now(),
            latency: Duration::from_millis(ms),
            delay: Duration::ZERO,
            failure: failure.map(StateReason::plain),
        }
    }

    // H-5
    #[test]
    fn a_good_check_begins_the_row_anew_and_the_row_is_bounded() {
        let mut course = Course::default();
        course.failed(check(1, Some(ReasonCode::Timeout)));
        course.succeeded(check(2, None));
        assert_eq!(
            (course.last_good.as_ref().map(|good| good.latency.as_millis()), course.failures.len()),
            (Some(2), 0)
        );
        for ms in 3..30 {
            course.failed(check(ms, Some(ReasonCode::FailedHealthChecks)));
        }
        let kept: Vec<u128> = course.failures.iter().map(|failed| failed.latency.as_millis()).collect();
        assert_eq!(kept, (3..13).collect::<Vec<u128>>(), "the first of them, which led to the decision");
        assert_eq!(course.last_good.as_ref().map(|good| good.latency.as_millis()), Some(2));
    }
}
