//! Whether the process ran: it may have been stopped, or its machine, and a check that failed meanwhile had no chance.
//!
//! The control core beats some hundred times a second. What passes between two beats, or since the last, is a pause if it
//! is long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// So much without a beat is a pause: a hundred times what it should be.
const PAUSE: Duration = Duration::from_millis(250);

/// The beats. Times are in nanoseconds since it was made; 0 is never.
#[derive(Debug)]
pub(super) struct Pulse {
    origin: Instant,
    last: AtomicU64,
    /// When the last pause ended.
    paused_until: AtomicU64,
    discarded: AtomicU64,
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Pulse {
        let never = || AtomicU64::new(0);
        Pulse { origin: now, last: never(), paused_until: never(), discarded: never() }
    }

    fn at(&self, moment: Instant) -> u64 {
        let passed = moment.saturating_duration_since(self.origin);
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    fn is_pause(from: u64, to: u64) -> bool {
        from != 0 && u128::from(to.saturating_sub(from)) >= PAUSE.as_nanos()
    }

    /// It runs.
    pub(super) fn beat(&self, now: Instant) {
        let now = self.at(now);
        if Pulse::is_pause(self.last.swap(now, Ordering::Relaxed), now) {
            self.paused_until.store(now, Ordering::Relaxed);
        }
    }

    /// Whether there was a pause after `began`.
    pub(super) fn paused_since(&self, began: Instant, now: Instant) -> bool {
        // Whoever asks may be the first to run after it.
        Pulse::is_pause(self.last.load(Ordering::Relaxed), self.at(now))
            || self.paused_until.load(Ordering::Relaxed) > self.at(began)
    }

    /// A check that had no chance is not counted.
    pub(super) fn discard(&self) {
        self.discarded.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were not.
    pub(super) fn discarded(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_seen_by_whoever_runs_first_after_it_and_held_for_what_had_begun_before() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let pulse = Pulse::new(start);
        assert!(!pulse.paused_since(start, at(60_000)), "nobody beats: nothing is known");
        for ms in (2..=1000).step_by(2) {
            pulse.beat(at(ms));
        }
        assert!(!pulse.paused_since(at(1), at(1002)));
        assert!(pulse.paused_since(at(990), at(6000)), "before the first beat after it");
        pulse.beat(at(6000));
        pulse.beat(at(6002));
        assert!(pulse.paused_since(at(990), at(6003)));
        assert!(!pulse.paused_since(at(6001), at(6003)), "it had begun after it");
    }
}
