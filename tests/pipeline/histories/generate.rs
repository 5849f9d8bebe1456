//! Random histories. Each is a function of its number alone, so that one can be had again.

use std::collections::BTreeSet;

use crate::harness::{ACK, FIN, PSH, RST, SYN};
use crate::histories::model::{Attributes, Health, Name, Side, Stickiness, Unknown};
use crate::histories::packets::{KINDS, crowd};
use crate::histories::script::{History, Step};

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// One of the numbers below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    /// Yes, so many times of a hundred.
    fn percent(&mut self, yes: usize) -> bool {
        self.below(100) < yes
    }
}

/// History number `number`.
pub fn history(number: u64) -> History {
    let mut random = Random::new(number);
    let workers = random.of(&[1, 1, 1, 1, 1, 2, 2, 4]);
    // A table for all there is, or one that is too small; then it is mostly TCP that crowds into it.
    let crowded = random.percent(35);
    let capacity = if crowded { random.of(&[1, 2, 3, 4, 6, 8]) } else { 64 };
    let targets = random.of(&[3, 3, 3, 2, 1, 4]);
    let mut writer = Writer {
        conversations: if crowded { crowd().collect() } else { Vec::new() },
        last: KINDS[0].1,
        open: BTreeSet::new(),
        registered: vec![true; usize::from(targets)],
        attributes: Attributes::default(),
        workers: usize::from(workers),
        targets: usize::from(targets),
        random,
    };
    // Some conversations often, so that much happens to them, and now and then any.
    let (often, seldom) = if crowded { (2, 3) } else { (3, 11) };
    for _ in 0..often {
        let kinds = if writer.random.percent(50) { &KINDS[..2] } else { &KINDS[..] };
        let flow = writer.random.of(kinds).1;
        writer.conversations.extend([flow; 6]);
    }
    writer.conversations.extend(KINDS.iter().take(seldom).map(|(_, flow)| *flow));
    let mut steps = Vec::new();
    if writer.random.percent(90) {
        steps.push(writer.set());
    }
    for _ in 0..=writer.random.below(120) {
        steps.push(writer.step());
    }
    History { workers, capacity, targets, steps }
}

struct Writer {
    random: Random,
    conversations: Vec<Name>,
    last: Name,
    /// Conversations that were opened and are perhaps still alive.
    open: BTreeSet<Name>,
    registered: Vec<bool>,
    attributes: Attributes,
    workers: usize,
    targets: usize,
}

impl Writer {
    fn step(&mut self) -> Step {
        match self.random.below(100) {
            0..62 => self.packet(),
            62..74 => self.returned(),
            74..76 => self.forged(),
            76..91 => self.target(),
            91..94 => self.set(),
            _ => self.wait(),
        }
    }

    /// Often the one before, so that what has happened to it matters.
    fn flow(&mut self) -> Name {
        if self.random.percent(55) {
            return self.last;
        }
        let place = self.random.below(self.conversations.len());
        self.last = self.conversations[place];
        self.last
    }

    fn side(&mut self) -> Side {
        self.random.of(&[Side::Client, Side::Client, Side::Server])
    }

    fn flags(&mut self) -> u8 {
        let usual =
            [SYN, SYN, SYN | ACK, ACK, ACK, ACK, PSH | ACK, PSH | ACK, PSH | ACK, FIN | ACK, FIN | ACK, RST];
        if self.random.percent(8) { self.random.below(256) as u8 } else { self.random.of(&usual) }
    }

    fn packet(&mut self) -> Step {
        let (flow, mut from, mut flags) = (self.flow(), self.side(), self.flags());
        // Mostly what makes sense, or little more than drops would be seen.
        if !self.open.contains(&flow) && self.random.percent(85) {
            (from, flags) = (Side::Client, SYN);
        }
        if flags & RST != 0 {
            self.open.remove(&flow);
        } else {
            self.open.insert(flow);
        }
        let at = self.random.below(self.workers);
        Step::Packet { flow, from, flags, at, spoiled: self.random.percent(2) }
    }

    fn returned(&mut self) -> Step {
        let own = self.random.percent(40).then(|| (self.side(), self.flags()));
        let (flow, before) = (self.flow(), self.before());
        Step::Return { flow, before, own, at: self.random.below(self.workers) }
    }

    fn forged(&mut self) -> Step {
        // Any other cookie, or one that is nearly right.
        let any = self.random.next() as u32 | 1;
        let near = 1 << self.random.below(32);
        let bits = self.random.of(&[any, near]);
        let (flow, before) = (self.flow(), self.before());
        Step::Forge { flow, before, bits, at: self.random.below(self.workers) }
    }

    /// Mostly the last, or nearly.
    fn before(&mut self) -> usize {
        self.random.of(&[0, 0, 0, 1, 2, 5])
    }

    fn target(&mut self) -> Step {
        let target = self.random.below(self.targets);
        let mut health = self.random.of(&[
            Health::Initial,
            Health::Healthy,
            Health::Healthy,
            Health::Healthy,
            Health::Healthy,
            Health::Unhealthy,
            Health::Unhealthy,
            Health::Unhealthy,
            Health::Draining,
            Health::Removed,
            Health::Removed,
        ]);
        // Nobody registered is a rare case, and a dull one.
        self.registered[target] = health.registered();
        if !self.registered.contains(&true) && self.random.percent(80) {
            (health, self.registered[target]) = (Health::Unhealthy, true);
        }
        Step::Target { target, health }
    }

    fn set(&mut self) -> Step {
        let random = &mut self.random;
        // Resets or moves, mostly; and now and then both, as no operator can have it.
        let (resets, moves) = random.of(&[(90, 0), (90, 0), (90, 0), (0, 90), (0, 90), (50, 50)]);
        self.attributes = Attributes {
            stickiness: random.of(&[Stickiness::Five, Stickiness::Five, Stickiness::Three, Stickiness::Two]),
            rebalance: random.percent(moves),
            reset_unhealthy: random.percent(resets),
            reset_deregistered: random.percent(resets),
            reset_idle: random.percent(30),
            unknown: random.of(&[
                Unknown::Drop,
                Unknown::Drop,
                Unknown::Drop,
                Unknown::Drop,
                Unknown::Adopt,
                Unknown::Reset,
            ]),
            syn_reselect: random.percent(60),
            established: random.of(&[350_000, 350_000, 60_000]),
            half_open: random.of(&[60_000, 60_000, 5_000]),
            closed: random.of(&[10_000, 10_000, 1_000]),
            other: random.of(&[120_000, 120_000, 30_000]),
            both_ends: random.percent(40),
            proactive: random.percent(25),
            hold: if random.percent(12) { 400 } else { 0 },
            min_healthy_percent: if random.percent(12) { random.of(&[34, 60]) } else { 0 },
        };
        Step::Set(self.attributes)
    }

    /// Each timer, and a millisecond less.
    fn wait(&mut self) -> Step {
        let Attributes { established, half_open, closed, other, hold, .. } = self.attributes;
        let edge = self.random.of(&[established, half_open, closed, other, hold.max(1)]);
        if self.random.percent(50) {
            self.open.clear();
        }
        let ms = self.random.of(&[1, 500, edge, edge, edge - 1]);
        Step::Wait { ms, hand: self.random.percent(70) }
    }
}
