//! What the main thread tells the generator's while it runs.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use clap::ValueEnum;

use super::attack::Kind;

/// What the generator is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Targets answer health checks, and nothing is sent.
    Wait = 0,
    /// Flows open.
    Open = 1,
    /// Data flows, flows come and go.
    Run = 2,
    /// Nothing new is sent; what is on its way arrives.
    Drain = 3,
    /// Flows close.
    Close = 4,
    /// The thread ends.
    Stop = 5,
}

/// A target's health.
#[derive(Debug, Default)]
struct Life {
    dead: AtomicBool,
    ever_died: AtomicBool,
}

/// Orders, given at any time.
#[derive(Debug)]
pub struct Orders {
    phase: AtomicU8,
    /// Data packets a second, both ways together; `u64::MAX`: as many as the gateway takes.
    rate: AtomicU64,
    /// The place of the attack that goes on among all, and 1; 0: none.
    attack: AtomicU8,
    lives: Box<[Life]>,
}

impl Orders {
    pub fn new(rate: u64, targets: usize) -> Orders {
        Orders {
            phase: AtomicU8::new(Phase::Wait as u8),
            rate: AtomicU64::new(rate),
            attack: AtomicU8::new(0),
            lives: (0..targets).map(|_| Life::default()).collect(),
        }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Wait,
            1 => Phase::Open,
            2 => Phase::Run,
            3 => Phase::Drain,
            4 => Phase::Close,
            _ => Phase::Stop,
        }
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    pub fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// The attack that goes on.
    pub fn attack(&self) -> Option<Kind> {
        let place = usize::from(self.attack.load(Ordering::Relaxed)).checked_sub(1)?;
        Kind::value_variants().get(place).copied()
    }

    pub fn set_attack(&self, attack: Option<Kind>) {
        let place = attack.and_then(|kind| Kind::value_variants().iter().position(|other| *other == kind));
        let place = place.map_or(0, |place| place + 1);
        // There are fewer than 255.
        self.attack.store(u8::try_from(place).unwrap_or(0), Ordering::Relaxed);
    }

    /// Lets a target die, or live again.
    pub fn set_dead(&self, target: usize, dead: bool) {
        if let Some(life) = self.lives.get(target) {
            life.ever_died.fetch_or(dead, Ordering::Relaxed);
            life.dead.store(dead, Ordering::Relaxed);
        }
    }

    pub fn is_dead(&self, target: usize) -> bool {
        self.lives.get(target).is_some_and(|life| life.dead.load(Ordering::Relaxed))
    }

    pub fn ever_died(&self, target: usize) -> bool {
        self.lives.get(target).is_some_and(|life| life.ever_died.load(Ordering::Relaxed))
    }
}
