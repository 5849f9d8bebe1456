//! What is handed on to whoever takes over: the numbers that flow entries and counters carry, before any worker hears
//! of them, and what is known of the targets' health, some milliseconds after it is.

use std::time::{Duration, Instant};

use super::Inner;
use crate::control::resume::{self, Resume, SETTLED, SharedKeeper};

/// Handing on may take a twentieth of the control core's time, where many targets change at once.
const PART: u32 = 20;

/// What could not be written is tried again after so long.
const AGAIN: Duration = Duration::from_secs(1);

/// What the control core keeps of it.
pub(super) struct HandOn {
    keeper: SharedKeeper,
    /// Something is known that the keeper does not know.
    is_due: bool,
    /// Not before.
    next: Instant,
    /// It could not be written the last time.
    failed: bool,
    /// Nor could the time.
    time_failed: bool,
    /// When this control core began.
    began: Instant,
    /// It was noted that the daemon goes on well with its tables.
    settled: bool,
}

impl HandOn {
    pub(super) fn new(keeper: SharedKeeper) -> HandOn {
        let began = Instant::now();
        HandOn {
            keeper,
            is_due: false,
            next: began,
            failed: false,
            time_failed: false,
            began,
            settled: false,
        }
    }

    /// Notes what came of handing on, which took so long.
    fn handed_on(&mut self, written: &std::io::Result<()>, took: Duration) {
        self.tell(written);
        self.failed = written.is_err();
        self.is_due = self.failed;
        let wait = took.max(Duration::from_micros(50)) * PART;
        self.next = Instant::now() + if self.failed { wait.max(AGAIN) } else { wait };
    }

    /// The same of the time, which is handed on every second anyway.
    fn handed_on_time(&mut self, written: &std::io::Result<()>) {
        self.tell(written);
        self.time_failed = written.is_err();
    }

    /// Tells it once if what must be known after a restart cannot be written.
    fn tell(&self, written: &std::io::Result<()>) {
        if let Err(error) = written
            && !(self.failed || self.time_failed)
        {
            tracing::error!(
                name: "not_handed_on", %error,
                "what a restarted daemon must know could not be written: flows may be lost by a restart"
            );
        }
    }

    /// Whether it is to be noted that nothing in the tables brings the daemon down.
    fn settles(&self, forwards: bool, now: Instant) -> bool {
        !self.settled && forwards && now.saturating_duration_since(self.began) >= SETTLED
    }

    fn is_due(&self, now: Instant) -> bool {
        self.is_due && now >= self.next
    }

    /// A target's health is another.
    pub(super) fn health_changed(&mut self) {
        self.is_due = true;
    }
}

impl Inner {
    /// Notes what time it is for the workers, so that it goes on for whoever takes over.
    pub(super) fn hand_on_time(&mut self) {
        let clock = self.workers.clock();
        let ahead = u32::try_from(self.ahead.as_millis()).unwrap_or(u32::MAX);
        let (now, rate) = (clock.now().plus(ahead), clock.cycles_per_second());
        let written = resume::lock(&self.hand_on.keeper).keep_time(now, rate);
        self.hand_on.handed_on_time(&written);
        if self.hand_on.settles(self.workers.first_forwarding().is_some(), Instant::now()) {
            self.hand_on.settled = resume::lock(&self.hand_on.keeper).note_settled().is_ok();
        }
    }

    /// Hands on what has changed, if anything has, and what could not be handed on.
    pub(super) fn hand_on_health(&mut self) {
        if self.hand_on.is_due(Instant::now()) {
            self.hand_on();
        }
    }

    /// Hands on how things are.
    pub(super) fn hand_on(&mut self) {
        let began = Instant::now();
        let (mut slots, free) = self.slots.records();
        for holder in slots.iter_mut().filter_map(|slot| slot.holder.as_mut()) {
            holder.health = self.health.known(&holder.key());
        }
        let kept = Resume { slots, free, gateways: self.compiler.numbered().to_vec() };
        let written = resume::lock(&self.hand_on.keeper).keep(kept);
        self.hand_on.handed_on(&written, began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::control::resume::Keeper;

    #[test]
    fn what_could_not_be_handed_on_is_tried_again() {
        let mut hand_on = HandOn::new(Keeper::shared());
        let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
        let soon = || Instant::now() + AGAIN;
        assert!(!hand_on.is_due(soon()));
        hand_on.handed_on(&full(), Duration::ZERO);
        assert!(!hand_on.is_due(Instant::now()), "not in every round");
        hand_on.handed_on_time(&Ok(()));
        assert!(hand_on.failed && hand_on.is_due(soon()), "whatever came of the time");
        hand_on.handed_on(&Ok(()), Duration::ZERO);
        assert!(!hand_on.failed && !hand_on.is_due(soon()));
        hand_on.health_changed();
        assert!(hand_on.is_due(soon()));
    }

    #[test]
    fn a_daemon_settles_once_it_has_forwarded_and_its_control_core_has_lived_for_long_enough() {
        let mut hand_on = HandOn::new(Keeper::shared());
        let then = hand_on.began + SETTLED;
        assert!(hand_on.settles(true, then) && !hand_on.settles(false, then));
        assert!(!hand_on.settles(true, then - Duration::from_millis(1)));
        hand_on.settled = true;
        assert!(!hand_on.settles(true, then));
    }
}
