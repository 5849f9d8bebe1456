//! What was sent to each target and came back from it, and is not in the [counters](super::counters) yet.
//!
//! A packet is added up by one addition, to a word that no other thread reads, with the packets in its upper bits and the
//! bytes in the others; a thousand targets' words lie in a first-level cache, where their counters do not. It is added up
//! when it is queued for its port, and taken off again if that does not take it. The words are
//! [posted](Unposted::post) to the counters target by target, a bounded number at a time: at once after a round
//! that left room for more, every [`ROUNDS`] rounds under full load. So of few targets all is counted within
//! tens of microseconds, and of as many as there can be within some 20 milliseconds.

use super::counters::{MAX_TARGETS, WorkerCounters};
use super::outbound::Note;
use crate::id::TargetId;

/// Targets posted at a time at most.
const TARGETS: usize = 32;

/// How many rounds under full load have one posting.
const ROUNDS: u32 = 32;

/// A sum is packets, from this bit on, above more bytes than a worker handles between two postings of a target, by far.
const PACKETS: u32 = 40;
const BYTES: u64 = (1 << PACKETS) - 1;

/// One packet in a sum.
#[inline(always)]
fn one(bytes: u32) -> u64 {
    1 << PACKETS | u64::from(bytes)
}

/// Packets and bytes of a sum, if there are any; none are left in it.
#[inline(always)]
fn take(sum: &mut u64) -> Option<(u64, u64)> {
    let sum = std::mem::take(sum);
    (sum > 0).then_some((sum >> PACKETS, sum & BYTES))
}

/// As many numbers as a [`TargetId`] has values, so that none has to be looked at before it is an index. What is above
/// [`MAX_TARGETS`], of which no id is given out, stays untouched and takes no memory.
type PerId = Box<[u64; 1 << u16::BITS]>;

/// Packets and bytes by target, since they were last posted.
pub struct Unposted {
    out: PerId,
    back: PerId,
    /// When the last of these came, in cycles of the workers' clock.
    last_back: PerId,
    /// The target that is posted next.
    next: usize,
    /// Targets that are to be looked at until all are posted.
    left: usize,
    /// No target has a number from this one on.
    end: usize,
    rounds: u32,
}

impl Default for Unposted {
    fn default() -> Unposted {
        /// On the heap from the start, as it is too large for a stack, and by an allocation of zeros.
        fn zeros() -> PerId {
            let all: Box<[u64]> = vec![0; 1 << u16::BITS].into();
            all.try_into().unwrap_or_else(|_| unreachable!("as many were made"))
        }
        Unposted { out: zeros(), back: zeros(), last_back: zeros(), next: 0, left: 0, end: 0, rounds: 0 }
    }
}

impl Unposted {
    /// A packet goes to `target`.
    #[inline(always)]
    pub fn sent(&mut self, target: TargetId, bytes: u32) {
        if !cfg!(without = "counters") {
            let sum = &mut self.out[target.index()];
            *sum = sum.wrapping_add(one(bytes));
        }
    }

    /// The same of some packets, as each has a note.
    #[inline(always)]
    pub fn sent_all(&mut self, notes: &[Note]) {
        // Four at a time, as the loop is so short that going round takes a third of it.
        let (fours, rest) = notes.as_chunks::<4>();
        fours.iter().for_each(|four| four.iter().for_each(|note| self.sent(note.target, note.bytes)));
        rest.iter().for_each(|note| self.sent(note.target, note.bytes));
    }

    /// It does not: the port did not take it. Called in the round in which it was counted, and so before it was posted.
    #[cold]
    pub fn not_sent(&mut self, target: TargetId, bytes: u32) {
        let sum = &mut self.out[target.index()];
        *sum = sum.wrapping_sub(one(bytes));
    }

    /// One that came back from `target` leaves.
    #[inline(always)]
    pub fn came_back(&mut self, target: TargetId, bytes: u32, at_cycles: u64) {
        if !cfg!(without = "counters") {
            let sum = &mut self.back[target.index()];
            *sum = sum.wrapping_add(one(bytes));
            self.last_back[target.index()] = at_cycles;
        }
    }

    /// It does not, as in [`Unposted::not_sent`]. It came back all the same.
    #[cold]
    pub fn not_delivered(&mut self, target: TargetId, bytes: u32) {
        let sum = &mut self.back[target.index()];
        *sum = sum.wrapping_sub(one(bytes));
    }

    /// A round is over, in which packets left (`sent`) while there were targets below `end`; `is_busy`: it was one of full
    /// load.
    #[inline]
    pub fn end_round(&mut self, sent: bool, is_busy: bool, end: usize, counters: &WorkerCounters) {
        if cfg!(without = "counters") {
            return;
        }
        if sent {
            self.end = self.end.max(end.min(MAX_TARGETS));
            self.left = self.end;
            self.rounds = self.rounds.wrapping_add(1);
        }
        if self.left > 0 && (!is_busy || self.rounds.is_multiple_of(ROUNDS)) {
            self.post(self.left.min(TARGETS), counters);
        }
    }

    /// Whether there may be something to be posted.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.left > 0
    }

    /// Posts all.
    pub fn post_all(&mut self, counters: &WorkerCounters) {
        self.post(self.left, counters);
    }

    #[inline(never)]
    fn post(&mut self, count: usize, counters: &WorkerCounters) {
        let targets = counters.targets();
        for _ in 0..count {
            #[expect(clippy::cast_possible_truncation, reason = "below MAX_TARGETS")]
            let target = targets.of(TargetId(self.next as u16));
            let place = self.next % MAX_TARGETS;
            if let Some((packets, bytes)) = take(&mut self.out[place]) {
                target.packets_out.add(packets);
                target.bytes_out.add(bytes);
            }
            if let Some((packets, bytes)) = take(&mut self.back[place]) {
                target.packets_back.add(packets);
                target.bytes_back.add(bytes);
                target.last_back.set(self.last_back[place]);
            }
            self.next = if self.next + 1 < self.end { self.next + 1 } else { 0 };
        }
        self.left -= count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(counters: &WorkerCounters, target: u16) -> [u64; 5] {
        let of = counters.target(TargetId(target));
        [&of.packets_out, &of.bytes_out, &of.packets_back, &of.bytes_back, &of.last_back].map(|one| one.get())
    }

    // C-1
    #[test]
    fn after_a_round_that_left_room_few_targets_are_counted_at_once() {
        let (mut unposted, counters) = (Unposted::default(), WorkerCounters::default());
        for target in 0..32 {
            (0..=target).for_each(|n| unposted.sent(TargetId(target), 60 + u32::from(n)));
        }
        unposted.came_back(TargetId(7), 9_000, 11);
        unposted.came_back(TargetId(7), 100, 22);
        unposted.end_round(true, false, 32, &counters);
        assert!(!unposted.is_any());
        for target in 0..32 {
            let packets = u64::from(target) + 1;
            let back = if target == 7 { [2, 9_100, 22] } else { [0; 3] };
            let bytes = packets * 60 + packets * (packets - 1) / 2;
            assert_eq!(counted(&counters, target), [packets, bytes, back[0], back[1], back[2]]);
        }
        unposted.sent(TargetId(3), 40);
        unposted.end_round(true, false, 32, &counters);
        assert_eq!(counted(&counters, 3)[..2], [5, 4 * 60 + 6 + 40]);
        assert_eq!(counted(&counters, 7)[4], 22, "nothing came back since");
    }

    // C-1
    #[test]
    fn under_full_load_and_after_it_every_target_is_counted_within_some_rounds_and_nothing_twice() {
        let (mut unposted, counters) = (Unposted::default(), WorkerCounters::default());
        let all = || (0..u16::try_from(MAX_TARGETS).unwrap()).map(TargetId);
        // It may begin anywhere.
        (0..100).for_each(|_| unposted.end_round(true, true, MAX_TARGETS, &counters));
        all().for_each(|target| unposted.sent(target, 1_000));
        let mut rounds = 0;
        while all().any(|target| counted(&counters, target.0)[0] == 0) {
            unposted.end_round(true, true, MAX_TARGETS, &counters);
            rounds += 1;
            assert!(rounds <= MAX_TARGETS / TARGETS * ROUNDS as usize, "{rounds}");
        }
        // The load ends in the midst.
        all().for_each(|target| unposted.sent(target, 1_000));
        unposted.end_round(true, true, MAX_TARGETS, &counters);
        let mut rounds = 0;
        while unposted.is_any() {
            unposted.end_round(false, false, MAX_TARGETS, &counters);
            rounds += 1;
            assert!(rounds <= MAX_TARGETS / TARGETS, "{rounds}");
        }
        assert!(all().all(|target| counted(&counters, target.0)[..2] == [2, 2_000]));
    }

    // C-1
    #[test]
    fn a_worker_that_stops_counts_all_and_a_target_that_is_gone_is_counted_too() {
        let (mut unposted, counters) = (Unposted::default(), WorkerCounters::default());
        unposted.sent(TargetId(900), 70);
        unposted.end_round(true, true, 1_000, &counters);
        // A forwarding state with fewer targets.
        unposted.sent(TargetId(2), 50);
        unposted.end_round(true, true, 3, &counters);
        unposted.post_all(&counters);
        assert!(!unposted.is_any());
        assert_eq!((counted(&counters, 900)[1], counted(&counters, 2)[1]), (70, 50));
    }

    #[test]
    fn millions_of_the_largest_packets_fit_beside_as_many_of_the_smallest() {
        let (mut unposted, counters) = (Unposted::default(), WorkerCounters::default());
        (0..2_000_000).for_each(|_| unposted.sent(TargetId(3), 65_535));
        (0..2_000_000).for_each(|_| unposted.sent(TargetId(3), 46));
        unposted.end_round(true, false, 4, &counters);
        assert_eq!(counted(&counters, 3)[..2], [4_000_000, 2_000_000 * (65_535 + 46)]);
    }
}
