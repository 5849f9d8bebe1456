//! In-band evidence: is a target that is sent traffic returning any? Pure: counts and times go
//! in, for how long a target has been silent and whether that calls for a check come out. The control
//! core feeds it with what the workers count and carries the checks out (`core/inband.rs`).
//!
//! A target is silent from the first packet that it was sent and has returned nothing after, and until
//! it returns anything; one that is sent nothing is not silent. Times are those of the looks, so that
//! a silence is told late by at most the time between two of them. Evidence only brings a check forward:
//! whether the target is healthy is for the check to say, as an appliance may well drop what it is sent.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// Packets between the gateway and a target since the counters began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Sent to the target.
    pub to: u64,
    /// Returned by it.
    pub from: u64,
}

/// What is known of one target's silence.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    passed: Passed,
    /// Since when it returns nothing of what it is sent.
    silent_since: Option<Instant>,
    /// From when on the silence counts towards a check: that of before was answered by one.
    counts_from: Option<Instant>,
    asked: Option<Asked>,
}

/// A check that was called for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    /// What had been sent by then.
    to: u64,
}

impl Silence {
    /// Of a target with these counts, which says nothing of before.
    pub fn new(passed: Passed) -> Silence {
        Silence { passed, silent_since: None, counts_from: None, asked: None }
    }

    /// Takes the counts of `now`. Of packets sent and returned between two looks those returned are
    /// taken for the later ones: the next packet sent begins a silence, if there is one.
    pub fn note(&mut self, passed: Passed, now: Instant) {
        if passed.from != self.passed.from {
            *self = Silence::new(passed);
        } else if passed.to != self.passed.to {
            self.silent_since.get_or_insert(now);
            self.counts_from.get_or_insert(now);
            self.passed = passed;
        }
    }

    /// For how long the target has been silent at `now`.
    pub fn lasted(&self, now: Instant) -> Duration {
        self.silent_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// The counts noted last.
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// Whether the target is to be checked now: its silence has lasted for `limit`, and so long is it
    /// since a check was called for. After that one more is called for every `limit` while packets are
    /// still sent to it, or while `failing` says that the last check has failed; else the matter rests
    /// until it is sent more.
    pub fn calls_for_check(&mut self, limit: Duration, failing: impl FnOnce() -> bool, now: Instant) -> bool {
        let Some(since) = self.counts_from else { return false };
        let begins = self.asked.map_or(since, |asked| asked.at);
        if now.saturating_duration_since(begins) < limit {
            return false;
        }
        if self.asked.is_some_and(|asked| asked.to == self.passed.to) && !failing() {
            (self.counts_from, self.asked) = (None, None);
            return false;
        }
        self.asked = Some(Asked { at: now, to: self.passed.to });
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    /// A target under a watch that looks every 2 ms.
    struct Watched {
        silence: Silence,
        passed: Passed,
        began: Instant,
        ms: u64,
    }

    impl Watched {
        fn new() -> Watched {
            let passed = Passed { to: 7, from: 5 };
            Watched { silence: Silence::new(passed), passed, began: Instant::now(), ms: 0 }
        }

        fn now(&self) -> Instant {
            self.began + Duration::from_millis(self.ms)
        }

        /// The look at `ms`, after so many packets each way: whether it calls for a check.
        fn look(&mut self, ms: u64, to: u64, from: u64, failing: bool) -> bool {
            self.ms = ms;
            self.passed = Passed { to: self.passed.to + to, from: self.passed.from + from };
            self.silence.note(self.passed, self.now());
            self.silence.calls_for_check(LIMIT, || failing, self.now())
        }

        fn lasted(&self) -> u128 {
            self.silence.lasted(self.now()).as_millis()
        }
    }

    //
    #[test]
    fn a_target_that_is_sent_traffic_and_returns_none_is_checked_when_the_time_is_over() {
        let mut target = Watched::new();
        assert!(!target.look(0, 1, 0, false));
        for ms in (2..100).step_by(2) {
            assert!(!target.look(ms, 1, 0, false), "{ms} ms");
        }
        assert!(target.look(100, 1, 0, false));
        assert_eq!(target.lasted(), 100);
    }

    //
    #[test]
    fn one_answer_ends_a_silence_and_a_target_that_is_sent_nothing_has_none() {
        let mut target = Watched::new();
        assert!(!target.look(0, 1, 0, false));
        assert!(!target.look(98, 0, 0, false));
        assert!(!target.look(99, 0, 1, false), "it answers in time");
        for ms in [100, 200, 10_000] {
            assert!(!target.look(ms, 0, 0, false));
            assert_eq!(target.lasted(), 0);
        }
        // The next silence has its own whole time.
        assert!(!target.look(10_002, 1, 0, false));
        assert!(!target.look(10_100, 1, 0, false));
        assert!(target.look(10_102, 0, 0, false));
    }

    //
    #[test]
    fn it_is_checked_once_a_period_and_no_more_while_it_is_sent_traffic() {
        let mut target = Watched::new();
        let checks: Vec<u64> = (0..1000).step_by(2).filter(|&ms| target.look(ms, 1, 0, false)).collect();
        assert_eq!(checks, [100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(target.lasted(), 998, "the silence is one all along");
    }

    //
    #[test]
    fn one_packet_without_an_answer_is_one_check_unless_that_fails() {
        let mut target = Watched::new();
        let checks = |target: &mut Watched, failing| -> Vec<u64> {
            (2..1000).step_by(2).filter(|&ms| target.look(ms, 0, 0, failing)).collect()
        };
        target.look(0, 1, 0, false);
        assert_eq!(checks(&mut target, false), [100]);
        assert_eq!(target.lasted(), 998);
        // Another packet, later: it has its own time to be answered in.
        assert!(!target.look(2000, 1, 0, false));
        assert!(!target.look(2098, 0, 0, false));
        assert!(target.look(2100, 0, 0, false));

        let mut target = Watched::new();
        target.look(0, 1, 0, false);
        assert_eq!(checks(&mut target, true), [100, 200, 300, 400, 500, 600, 700, 800, 900]);
    }

    proptest! {
        //
        #[test]
        fn a_check_is_called_for_only_by_a_silence_as_long_as_the_limit_and_never_sooner_than_that_again(
            looks in prop::collection::vec((1_u64..60, 0_u64..3, prop_oneof![9 => Just(0_u64), 1 => Just(1)], any::<bool>()), 1..200),
        ) {
            let mut target = Watched::new();
            let (mut at, mut last_check) = (0, None::<u64>);
            // The plainest way to say it: when was it last heard of, and when was it first sent a packet after.
            let mut first_unanswered = None::<u64>;
            for (later, to, from, failing) in looks {
                at += later;
                let check = target.look(at, to, from, failing);
                if from > 0 {
                    first_unanswered = None;
                    last_check = None;
                } else if to > 0 {
                    first_unanswered.get_or_insert(at);
                }
                prop_assert_eq!(target.lasted(), u128::from(first_unanswered.map_or(0, |first| at - first)));
                if check {
                    prop_assert!(first_unanswered.is_some_and(|first| at - first >= 100));
                    prop_assert!(last_check.is_none_or(|last| at - last >= 100));
                    last_check = Some(at);
                }
            }
        }
    }
}
