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

    /// A target's health is another.
    pub(super) fn health_changed(&mut self) {
        self.is_due = true;
    }
}

impl Inner {
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
        if let Err(error) = &written
            && !self.hand_on.failed
        {
            tracing::error!(
                name: "not_handed_on", %error,
                "what a restarted daemon must know of targets could not be written: flows may be lost by a restart"
            );
        }
        let took = began.elapsed().max(Duration::from_micros(50));
        self.hand_on.failed = written.is_err();
        self.hand_on.is_due = false;
        self.hand_on.next = Instant::now() + took * PART;
    }
}
