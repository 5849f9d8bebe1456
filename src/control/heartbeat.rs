//! Whether a worker lives, by the rounds that it counts.
//!
//! The control core looks at every worker's count some hundred times a second. Only time in which it looked counts: a
//! process that was stopped, or a control core that was busy, is no fault of a worker's.

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// A worker that went no round for so long is stuck: rounds take microseconds, and a worker at rest sleeps less than a
/// millisecond. It is half of the second within which that has to be seen.
pub const STUCK_AFTER: Duration = Duration::from_millis(500);

/// What passes between two looks counts for so much at most: ten times what it should be.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// It has gone no round for so long, and is stuck.
    Stuck(Duration),
    /// It was stuck for so long, and goes round again.
    WentOn(Duration),
    /// It has ended by a panic, and goes no round any more.
    Panicked,
}

/// One worker's.
#[derive(Debug)]
pub struct Heartbeat {
    rounds: u64,
    silent: Duration,
    looked: Instant,
    stuck: bool,
    panicked: bool,
    stalls: u64,
}

impl Heartbeat {
    /// A worker's that begins now.
    pub fn new(now: Instant) -> Heartbeat {
        Heartbeat { rounds: 0, silent: Duration::ZERO, looked: now, stuck: false, panicked: false, stalls: 0 }
    }

    /// Looks: it has gone so many rounds so far, and has ended by a panic or not. What is news.
    pub fn look(&mut self, rounds: u64, panicked: bool, now: Instant) -> Option<Beat> {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now));
        if panicked {
            self.silent += passed.min(LONGEST_LOOK);
            return (!std::mem::replace(&mut self.panicked, true)).then_some(Beat::Panicked);
        }
        if rounds != self.rounds {
            self.rounds = rounds;
            let silent = std::mem::take(&mut self.silent);
            return std::mem::take(&mut self.stuck).then_some(Beat::WentOn(silent));
        }
        self.silent += passed.min(LONGEST_LOOK);
        if self.silent < STUCK_AFTER || self.stuck {
            return None;
        }
        self.stuck = true;
        self.stalls += 1;
        Some(Beat::Stuck(self.silent))
    }

    /// For how long it has gone no round, if it has gone so many by now.
    pub fn silent_for(&self, rounds: u64) -> Duration {
        // What the last look did not see yet: whoever looks may have been busy himself.
        if rounds != self.rounds { Duration::ZERO } else { self.silent }
    }

    /// Whether it goes round.
    pub fn is_alive(&self) -> bool {
        !self.stuck && !self.panicked
    }

    /// Whether it has ended by a panic.
    pub fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// How often it was stuck so far.
    pub fn stalls(&self) -> u64 {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(2);

    struct Watched {
        heart: Heartbeat,
        now: Instant,
    }

    impl Watched {
        fn new() -> Watched {
            let now = Instant::now();
            Watched { heart: Heartbeat::new(now), now }
        }

        /// Looks every two milliseconds for so long; the first news, and when it came.
        fn for_ms(&mut self, ms: u64, rounds: u64) -> Option<(Beat, Duration)> {
            let began = self.now;
            while self.now < began + Duration::from_millis(ms) {
                self.now += LOOK;
                if let Some(beat) = self.heart.look(rounds, false, self.now) {
                    return Some((beat, self.now - began));
                }
            }
            None
        }
    }

    #[test]
    fn a_worker_that_stands_still_is_seen_within_a_second_and_told_once() {
        let mut watched = Watched::new();
        assert_eq!(watched.for_ms(2, 1), None);
        let (beat, after) = watched.for_ms(1000, 1).expect("it is seen");
        assert_eq!((beat, after), (Beat::Stuck(STUCK_AFTER), STUCK_AFTER));
        assert!(!watched.heart.is_alive());
        assert_eq!(watched.for_ms(1000, 1), None, "it was told");
        let (beat, after) = watched.for_ms(10, 2).expect("it goes on");
        assert_eq!((beat, after), (Beat::WentOn(Duration::from_millis(1500)), LOOK));
        assert!(watched.heart.is_alive() && watched.heart.silent_for(2).is_zero());
        assert_eq!(watched.heart.stalls(), 1);
    }

    #[test]
    fn what_passed_while_nobody_looked_is_not_held_against_a_worker() {
        let mut watched = Watched::new();
        for _ in 0..5 {
            // As after a SIGCONT that the control core's thread hears first.
            watched.now += Duration::from_secs(60);
            assert_eq!(watched.heart.look(0, false, watched.now), None);
        }
        assert!(watched.heart.is_alive());
        assert_eq!(watched.heart.silent_for(0), 5 * LONGEST_LOOK);
        assert_eq!(watched.heart.silent_for(1), Duration::ZERO);
    }

    #[test]
    fn a_panic_is_seen_at_the_next_look_and_told_once() {
        let mut watched = Watched::new();
        assert_eq!(watched.heart.look(7, true, watched.now), Some(Beat::Panicked));
        watched.now += LOOK;
        assert_eq!(watched.heart.look(7, true, watched.now), None);
        assert!(!watched.heart.is_alive() && watched.heart.has_panicked());
    }
}
