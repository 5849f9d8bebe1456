//! From single results to a verdict: results count in a row, and enough of one kind decide (H-4,
//! H-9). Pure numbers, no clock and no socket; called by the record of each target.
//!
//! Three rules beyond counting. Changed thresholds are held against the counts as they stand, and
//! may decide at once. A check that asks something else restarts the counts but keeps the verdict.
//! A check that this node could not make (`Inconclusive`) is no result: it neither counts nor clears
//! a count; the unhealthy threshold of them in a row shows as `unavailable` over a kept verdict.

use std::num::NonZeroU8;

use super::state::HealthState;
use crate::control::model::HealthCheckSettings;

/// How many equal results in a row decide: never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    healthy: NonZeroU8,
    unhealthy: NonZeroU8,
}

impl Thresholds {
    /// Healthy after `healthy` successes, unhealthy after `unhealthy` failures. The model refuses a
    /// threshold of 0; here it is 1, as no result at all cannot decide.
    pub fn new(healthy: u8, unhealthy: u8) -> Self {
        let at_least_one = |count| NonZeroU8::new(count).unwrap_or(NonZeroU8::MIN);
        Self { healthy: at_least_one(healthy), unhealthy: at_least_one(unhealthy) }
    }

    /// Those of a group's settings.
    pub fn of(settings: &HealthCheckSettings) -> Self {
        Self::new(settings.healthy_threshold, settings.unhealthy_threshold)
    }

    fn healthy(self) -> u32 {
        u32::from(self.healthy.get())
    }

    fn unhealthy(self) -> u32 {
        u32::from(self.unhealthy.get())
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

    /// This was decided before the counting began.
    pub fn resumed(thresholds: Thresholds, verdict: Verdict) -> Self {
        Self { verdict, ..Self::new(thresholds) }
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
        if self.inconclusive >= self.thresholds.unhealthy() {
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
        if counted.successes >= counted.thresholds.healthy() {
            counted.verdict = Verdict::Healthy;
        } else if counted.failures >= counted.thresholds.unhealthy() {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Observation::{Failure, Inconclusive, Success};
    use super::*;

    /// The counts after the results of `letters`: `s`uccess, `f`ailure, `i`nconclusive.
    fn after(thresholds: Thresholds, letters: &str) -> (Damping, Option<Transition>) {
        letters.chars().fold((Damping::new(thresholds), None), |(damping, _), letter| {
            damping.observe(match letter {
                's' => Success,
                'f' => Failure,
                _ => Inconclusive,
            })
        })
    }

    #[test]
    fn results_in_a_row_decide_h4_h9() {
        use HealthState::{Healthy, Initial, Unavailable, Unhealthy};
        // Healthy after 3, unhealthy after 2. The transition is that of the last result.
        for (letters, state, transition) in [
            ("", Initial, None),
            ("ss", Initial, None),
            ("sss", Healthy, Some((Initial, 3))),
            ("ssss", Healthy, None),
            ("f", Initial, None),
            ("ff", Unhealthy, Some((Initial, 2))),
            ("fff", Unhealthy, None),
            // One success clears the failures, one failure the successes.
            ("fsf", Initial, None),
            ("ssfss", Initial, None),
            ("ssfsss", Healthy, Some((Initial, 3))),
            ("sssfsf", Healthy, None),
            ("sssff", Unhealthy, Some((Healthy, 2))),
            ("ffssfss", Unhealthy, None),
            ("ffsss", Healthy, Some((Unhealthy, 3))),
            // What this node could not ask neither counts nor clears.
            ("fif", Unhealthy, Some((Initial, 2))),
            ("ssis", Healthy, Some((Initial, 3))),
            ("sssi", Healthy, None),
            ("sssii", Unavailable, Some((Healthy, 2))),
            ("sssiis", Healthy, Some((Unavailable, 4))),
            ("sssiif", Healthy, Some((Unavailable, 1))),
            ("sssiiff", Unhealthy, Some((Healthy, 2))),
            ("ii", Unavailable, Some((Initial, 2))),
            ("sssisi", Healthy, None),
        ] {
            let (damping, seen) = after(Thresholds::new(3, 2), letters);
            assert_eq!(damping.state(), state, "{letters}");
            let seen = seen.map(|transition| {
                assert_eq!(transition.to, state, "{letters}");
                (transition.from, transition.in_row)
            });
            assert_eq!(seen, transition, "{letters}");
        }
    }

    #[test]
    fn one_result_decides_under_a_threshold_of_one_h2() {
        let (damping, transition) = after(Thresholds::new(1, 1), "s");
        assert_eq!((damping.state(), transition.unwrap().in_row), (HealthState::Healthy, 1));
        let (damping, transition) = after(Thresholds::new(1, 1), "sf");
        assert_eq!((damping.state(), transition.unwrap().in_row), (HealthState::Unhealthy, 1));
    }

    #[test]
    fn changed_thresholds_are_held_against_the_counts_as_they_stand_h9() {
        use HealthState::{Healthy, Initial, Unhealthy};
        let wide = Thresholds::new(5, 5);
        for (letters, narrow, state, transition) in [
            ("sss", (3, 5), Healthy, Some((Initial, 3))),
            ("sss", (4, 5), Initial, None),
            ("ssss", (3, 5), Healthy, Some((Initial, 4))),
            ("sssssfff", (5, 2), Unhealthy, Some((Healthy, 3))),
            ("sssssf", (5, 2), Healthy, None),
            ("fffffss", (2, 5), Healthy, Some((Unhealthy, 2))),
            // A verdict is not taken back by thresholds that ask for more.
            ("sssss", (10, 10), Healthy, None),
            ("fffff", (10, 10), Unhealthy, None),
        ] {
            let (damping, _) = after(wide, letters);
            let (damping, seen) = damping.with_thresholds(Thresholds::new(narrow.0, narrow.1));
            assert_eq!(damping.state(), state, "{letters} {narrow:?}");
            assert_eq!(seen.map(|seen| (seen.from, seen.in_row)), transition, "{letters} {narrow:?}");
        }
    }

    #[test]
    fn another_question_restarts_the_counts_and_keeps_the_verdict_h9() {
        let (damping, _) = after(Thresholds::new(3, 2), "sssf");
        let (damping, transition) = damping.restarted();
        assert_eq!((damping.state(), transition), (HealthState::Healthy, None));
        let (damping, transition) = damping.observe(Failure);
        assert_eq!((damping.state(), transition), (HealthState::Healthy, None));
        assert_eq!(damping.observe(Failure).0.state(), HealthState::Unhealthy);
    }

    // H-9
    #[test]
    fn counts_do_not_wrap() {
        let mut damping = Damping::new(Thresholds::new(1, 1));
        damping.failures = u32::MAX;
        let (damping, _) = damping.observe(Failure);
        assert_eq!((damping.failures(), damping.verdict()), (u32::MAX, Verdict::Unhealthy));
    }

    /// The verdict as H-4 words it, by looking for the last row in the whole history that was long
    /// enough.
    fn verdict_of(history: &[Observation], healthy: usize, unhealthy: usize) -> Verdict {
        let told: Vec<_> = history.iter().filter(|&&seen| seen != Inconclusive).collect();
        for end in (1..=told.len()).rev() {
            let row = |length: usize, kind| {
                end >= length && told[end - length..end].iter().all(|&&seen| seen == kind)
            };
            if row(healthy, Success) {
                return Verdict::Healthy;
            }
            if row(unhealthy, Failure) {
                return Verdict::Unhealthy;
            }
        }
        Verdict::Initial
    }

    fn observations() -> impl Strategy<Value = Vec<Observation>> {
        let one = prop_oneof![4 => Just(Success), 4 => Just(Failure), 1 => Just(Inconclusive)];
        prop::collection::vec(one, 0..60)
    }

    proptest! {
        #[test]
        fn the_verdict_is_that_of_the_last_row_that_was_long_enough_h4_h9(
            history in observations(), healthy in 1_u8..=10, unhealthy in 1_u8..=10,
        ) {
            let mut damping = Damping::new(Thresholds::new(healthy, unhealthy));
            for (index, &seen) in history.iter().enumerate() {
                let before = damping;
                let transition;
                (damping, transition) = before.observe(seen);
                let expected = verdict_of(&history[..=index], healthy.into(), unhealthy.into());
                prop_assert_eq!(damping.verdict(), expected);
                // A transition is told if and only if the state is another one, and as it was.
                let told = transition.map(|transition| (transition.from, transition.to));
                let changed = (before.state() != damping.state()).then(|| (before.state(), damping.state()));
                prop_assert_eq!(told, changed);
                prop_assert!(damping.successes() == 0 || damping.failures() == 0);
            }
        }

        #[test]
        fn no_change_of_thresholds_or_question_leads_back_to_initial_h9(
            history in observations(), healthy in 1_u8..=10, unhealthy in 1_u8..=10,
            later in (1_u8..=10, 1_u8..=10),
        ) {
            let mut damping = Damping::new(Thresholds::new(healthy, unhealthy));
            for seen in history {
                damping = damping.observe(seen).0;
            }
            let known = damping.verdict() != Verdict::Initial;
            let (narrowed, _) = damping.with_thresholds(Thresholds::new(later.0, later.1));
            prop_assert!(!known || narrowed.verdict() != Verdict::Initial);
            prop_assert_eq!(damping.restarted().0.verdict(), damping.verdict());
        }
    }
}
