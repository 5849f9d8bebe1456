//! What is handed on to whoever takes over: the numbers that flow entries and counters carry, before any worker hears
//! of them, and what is known of the targets' health, some milliseconds after it is.

use std::time::{Duration, Instant};

use super::Inner;
use crate::control::resume::{self, Resume, SharedKeeper};

/// Handing on may take a twentieth of the control core's time, where many targets change at once.
const PART: u32 = 20;

/// What the control core keeps of it.
pub(super) struct HandOn {
    keeper: SharedKeeper,
    /// Something is known that the keeper does not know.
    is_due: bool,
    /// Not before.
    next: Instant,
    /// It could not be written the last time.
    failed: bool,
}

impl HandOn {
    pub(super) fn new(keeper: SharedKeeper) -> HandOn {
        HandOn { keeper, is_due: false, next: Instant::now(), failed: false }
    }

    /// Tells it once if what must be known after a restart cannot be written.
    fn told(&mut self, written: &std::io::Result<()>) {
        if let Err(error) = written
            && !self.failed
        {
            tracing::error!(
                name: "not_handed_on", %error,
                "what a restarted daemon must know could not be written: flows may be lost by a restart"
            );
        }
        self.failed = written.is_err();
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
        self.hand_on.told(&written);
    }

    /// Hands on what has changed, if anything has.
    pub(super) fn hand_on_health(&mut self) {
        if self.hand_on.is_due && Instant::now() >= self.hand_on.next {
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
        let took = began.elapsed().max(Duration::from_micros(50));
        self.hand_on.told(&written);
        self.hand_on.is_due = false;
        self.hand_on.next = Instant::now() + took * PART;
    }
}
