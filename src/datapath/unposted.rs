//! What was sent to each target and came back from it, and is not in the [counters](super::counters) yet.
//!
//! A packet is added up by one addition, to a word that no other thread reads, with the packets in its upper bits and the
//! bytes in the others; a thousand targets' words lie in a first-level cache, where their counters do not. They are
//! [posted](Unposted::post) to the counters target by target, a bounded number at a time: at once after a round
//! that left room for more, every [`ROUNDS`] rounds under full load. So of few targets all is counted within
//! tens of microseconds, and of as many as there can be within some 20 milliseconds.

use super::counters::{MAX_TARGETS, WorkerCounters};
use crate::id::TargetId;

/// Targets posted at a time at most.
const TARGETS: usize = 32;

/// How many rounds under full load have one posting.
const ROUNDS: u32 = 32;

/// Where the packets begin: above more bytes than a worker handles between two postings of a target, by far.
const PACKETS: u32 = 40;
const BYTES: u64 = (1 << PACKETS) - 1;

/// Packets and bytes.
#[derive(Clone, Copy, Default)]
struct Sum(u64);

impl Sum {
    #[inline(always)]
    fn add(&mut self, bytes: u32) {
        self.0 = self.0.wrapping_add(1 << PACKETS | u64::from(bytes));
    }

    /// Both, if there are any; none are left.
    #[inline(always)]
    fn take(&mut self) -> Option<(u64, u64)> {
        let Sum(sum) = std::mem::take(self);
        (sum > 0).then_some((sum >> PACKETS, sum & BYTES))
    }
}

/// What came back from a target.
#[derive(Clone, Copy, Default)]
struct Back {
    sum: Sum,
    /// When the last of it did, in cycles of the workers' clock.
    last: u64,
}

/// Packets and bytes by target, since they were last posted.
pub struct Unposted {
    out: Box<[Sum; MAX_TARGETS]>,
    back: Box<[Back; MAX_TARGETS]>,
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
        /// On the heap from the start, as it is too large for a stack.
        fn zeros<T: Copy + Default>() -> Box<[T; MAX_TARGETS]> {
            let all: Box<[T]> = vec![T::default(); MAX_TARGETS].into();
            all.try_into().unwrap_or_else(|_| unreachable!("as many were made"))
        }
        Unposted { out: zeros(), back: zeros(), next: 0, left: 0, end: 0, rounds: 0 }
    }
}

impl Unposted {
    /// A packet was sent to `target`. (An id beyond the last, of which none is given out, shares another's.)
    #[inline(always)]
    pub fn sent(&mut self, target: TargetId, bytes: u32) {
        self.out[target.index() % MAX_TARGETS].add(bytes);
    }

    /// One that came back from `target` has left.
    #[inline(always)]
    pub fn came_back(&mut self, target: TargetId, bytes: u32, at_cycles: u64) {
        let back = &mut self.back[target.index() % MAX_TARGETS];
        back.sum.add(bytes);
        back.last = at_cycles;
    }

    /// A round is over that handled `handled` packets while there were targets below `end`; `is_busy`: it was one of
    /// full load.
    #[inline]
    pub fn end_round(&mut self, handled: bool, is_busy: bool, end: usize, counters: &WorkerCounters) {
        if handled {
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
            if let Some((packets, bytes)) = self.out[self.next % MAX_TARGETS].take() {
                target.packets_out.add(packets);
                target.bytes_out.add(bytes);
            }
            let back = &mut self.back[self.next % MAX_TARGETS];
            if let Some((packets, bytes)) = back.sum.take() {
                target.packets_back.add(packets);
                target.bytes_back.add(bytes);
                target.last_back.set(back.last);
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
