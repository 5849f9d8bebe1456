//! Taking over a table that another process has left, wherever in its work it died.
//!
//! Entries are what there is to take over, and nothing else is believed: index, queues, free ring and counts are
//! made anew of them. An entry is whole if it says nothing impossible and the old index names it by the hash of its
//! key: its key was written last of all (`Entry::begin`), and any other number in it is written at once. What is not
//! is dropped alone. Of the old rings only the order is taken, as far as it makes sense: who rested longest is given
//! out first, who waited longest goes first.
//!
//! While the index is made anew the header says so, and whoever takes over from a process that died in the midst of
//! that goes by the entries alone, which were looked at before.
//!
//! A million flows take 33 to 56 ms; see docs/restart.md.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use super::header::Changing;
use super::{Beat, EntryId, Table};
use crate::flow::entry::{Entry, FlowState, STATES};
use crate::flow::free;
use crate::flow::key::FlowKey;
use crate::flow::queue::{self, GAP, Queue};
use crate::id::Millis;

/// What is to become of an entry that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It stays as it is.
    Yes,
    /// What it refers to is nowhere any more.
    No,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Entries that live on, those that are remembered among them.
    pub kept: u32,
    /// Entries that were not whole.
    pub torn: u32,
    /// Entries that were whole and refer to what there is no more.
    pub refused: u32,
}

/// Entries whose buckets are asked for at once.
const BLOCK: u32 = 32;

impl Table {
    /// When its worker was last at work.
    #[must_use]
    pub fn beat(&self) -> Beat {
        self.header.at(0).changing.beat
    }

    /// Notes that its worker is at work, and whether it has packets: once a round.
    #[inline(always)]
    pub fn note_round(&mut self, now: Millis, has_packets: bool) {
        let beat = &mut self.header.at_mut(0).changing.beat;
        beat.round = now;
        if has_packets {
            beat.packet = now;
        }
    }

    /// Notes that its worker was stopped for so long, before the round that follows.
    pub fn note_pause(&mut self, ms: u32) {
        let beat = &mut self.header.at_mut(0).changing.beat;
        beat.paused = beat.paused.wrapping_add(ms);
    }

    /// Notes when a flow was turned away last.
    pub fn note_overflow(&mut self, at: Option<Millis>) {
        let beat = &mut self.header.at_mut(0).changing.beat;
        beat.overflowed = u32::from(at.is_some());
        beat.overflow = at.unwrap_or_default();
    }

    /// When a flow was turned away last, if that was noted.
    #[must_use]
    pub fn overflow(&self) -> Option<Millis> {
        let beat = self.beat();
        (beat.overflowed != 0).then_some(beat.overflow)
    }

    /// Makes a table of what a file has: drops entries that are torn or that `keep` says no to, and makes everything
    /// else anew.
    pub fn take_over(&mut self, mut keep: impl FnMut(&Entry) -> Keep) -> TakenOver {
        let before = self.header.at(0).changing;
        let indexed = self.header.at(0).rebuilding == 0;
        let mut came = TakenOver::default();
        self.look_at_each(indexed, &mut keep, &mut came);
        let rested = self.free.in_order(before.free);
        let half_open = self.half_open.in_order(before.half_open);
        let ended = self.ended.in_order(before.ended);

        self.header.at_mut(0).rebuilding = 1;
        compiler_fence(Ordering::SeqCst);
        self.begin_anew(&before);
        self.index_each(&mut came);
        self.queue_each(&half_open, &ended);
        self.free_each(&rested);
        compiler_fence(Ordering::SeqCst);
        self.header.at_mut(0).rebuilding = 0;
        came
    }

    /// First pass: every entry that is not to live on is free after it.
    fn look_at_each(&mut self, indexed: bool, keep: &mut impl FnMut(&Entry) -> Keep, came: &mut TakenOver) {
        let capacity = self.capacity();
        for block in (0..capacity).step_by(BLOCK as usize) {
            let block = block..capacity.min(block + BLOCK);
            self.ask_for_buckets(block.clone());
            for number in block {
                let entry = self.entries.at(number);
                let empty = *entry.key() == FlowKey::NONE || entry.key().words() == &[0; 5];
                if entry.is_in(FlowState::Free) && empty {
                    continue;
                }
                let generation = self.cookies.cut_generation(entry.cookie_generation);
                let whole = entry.says_nothing_impossible()
                    && entry.cookie_generation == generation
                    && (!indexed || self.index.names(self.seed.flow(entry.key()), number));
                if whole && keep(entry) == Keep::Yes {
                    continue;
                }
                // One that was free already loses nothing: it was being given or taken.
                if !entry.is_in(FlowState::Free) {
                    *(if whole { &mut came.refused } else { &mut came.torn }) += 1;
                }
                self.entries.at_mut(number).free_torn(generation);
            }
        }
    }

    /// Asks for the buckets of these entries' keys, all at once.
    fn ask_for_buckets(&self, block: Range<u32>) {
        for number in block {
            let entry = self.entries.at(number);
            if entry.state() != FlowState::Free {
                self.index.prefetch(self.seed.flow(entry.key()));
            }
        }
    }

    fn begin_anew(&mut self, before: &Changing) {
        let capacity = self.capacity();
        self.index.clear();
        let last = (0..capacity).rev().find(|number| self.entries.at(*number).state() != FlowState::Free);
        let used = last.map_or(0, |last| last + 1);
        self.header.at_mut(0).changing = Changing {
            free: free::Ends::default(),
            half_open: queue::Ends::default(),
            ended: queue::Ends::default(),
            fresh: before.fresh.min(capacity).max(used),
            hand: if before.hand < capacity { before.hand } else { 0 },
            counts: [0; STATES],
            beat: before.beat,
        };
    }

    /// Second pass: every flow into the index.
    fn index_each(&mut self, came: &mut TakenOver) {
        let fresh = self.header.at(0).changing.fresh;
        for block in (0..fresh).step_by(BLOCK as usize) {
            let block = block..fresh.min(block + BLOCK);
            self.ask_for_buckets(block.clone());
            for number in block {
                let entry = self.entries.at(number);
                if entry.state() == FlowState::Free {
                    continue;
                }
                let (key, generation) = (*entry.key(), entry.cookie_generation);
                let hash = self.seed.flow(&key);
                let home = self.index.home_of(hash);
                let double = home.may_have && self.elsewhere(hash, &key).is_some();
                match self.index.vacancy(home).filter(|_| !double) {
                    Some(vacancy) => {
                        self.index.fill(&vacancy, number);
                        came.kept += 1;
                    }
                    None => {
                        came.torn += 1;
                        self.entries.at_mut(number).free_torn(generation);
                    }
                }
            }
        }
    }

    /// The queues, in their old order.
    fn queue_each(&mut self, half_open: &[u32], ended: &[u32]) {
        let fresh = self.header.at(0).changing.fresh;
        let mut placed = Marks::new(fresh);
        let of_queue = |state| match state {
            FlowState::HalfOpen => 1,
            FlowState::Closed | FlowState::Expired | FlowState::Owing => 2,
            FlowState::Free | FlowState::Established | FlowState::Other => 0,
        };
        for (which, order) in [(1, half_open), (2, ended)] {
            for number in order.iter().copied().chain(0..fresh) {
                if number < fresh
                    && of_queue(self.entries.at(number).state()) == which
                    && !placed.mark(number)
                {
                    let state = self.entries.at(number).state();
                    let place = self.enter_queue(number, state);
                    let whereabouts = self.whereabouts(number);
                    self.entries.at_mut(number).queued_again(place, whereabouts);
                }
            }
        }
    }

    /// The free ones, those first that rested longest; and how many there are in each state.
    fn free_each(&mut self, rested: &[u32]) {
        let (capacity, fresh) = (self.capacity(), self.header.at(0).changing.fresh);
        let mut placed = Marks::new(fresh);
        let mut counts = [0; STATES];
        for number in 0..fresh {
            counts[self.entries.at(number).state().index()] += 1;
        }
        counts[FlowState::Free.index()] += capacity - fresh;
        for number in rested.iter().copied().chain(0..fresh) {
            if number < fresh && self.entries.at(number).state() == FlowState::Free && !placed.mark(number) {
                self.free.give(&mut self.header.at_mut(0).changing.free, number);
            }
        }
        self.header.at_mut(0).changing.counts = counts;
    }

    /// Shows every entry that holds a flow.
    pub fn each(&self, mut show: impl FnMut(EntryId, &Entry)) {
        self.scan(0, self.capacity(), &mut show);
    }
}

/// One bit for each number.
struct Marks(Vec<u64>);

impl Marks {
    fn new(numbers: u32) -> Marks {
        Marks(vec![0; numbers as usize / 64 + 1])
    }

    /// Marks a number; true if it was marked before.
    fn mark(&mut self, number: u32) -> bool {
        let bit = 1 << (number % 64);
        let Some(word) = self.0.get_mut(number as usize / 64) else { return true };
        let before = *word & bit != 0;
        *word |= bit;
        before
    }
}

impl Queue {
    /// The entries in it, oldest first, as far as it makes sense.
    fn in_order(&self, ends: queue::Ends) -> Vec<u32> {
        self.numbers(ends).filter(|number| *number < GAP).collect()
    }
}
