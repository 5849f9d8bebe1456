//! The flows that may make room for others, oldest first: a ring of entry numbers, and in each entry its place
//! in the ring. The next ones to go are read from front to back, so that their entries and buckets can be
//! asked for long before; a list threaded through the entries would take no room, but each step along it waits for
//! an entry that has been silent for long and is in no cache.
//!
//! A flow mostly leaves from somewhere within: a handshake goes on, a closed flow's time is over. It leaves a gap.
//! Gaps side by side are one, whose length is in its first place and in its last, so that the queue is
//! walked past any gap in one step and never begins or ends with one. Where gaps take up too much of the ring,
//! which they only do behind a flow that stays for long at the front, what is behind them is moved up: by
//! some steps with each flow that joins, and always so that the queue is whole between two calls.
//!
//! Room: of `n` flows there can be, no more than `n` are in the queue, so that moving up takes so many steps and one
//! for each flow that joins meanwhile. With [`STEPS`] = 16 + 1 for each, it is done after n/16 have joined, and leaves
//! no more than n + n/16 places in use: what it passed had no gaps. It begins at n + n/8, and so the queue is
//! never longer than n + 3n/16; the ring has n + n/4. The eight more are for small numbers.
#![forbid(unsafe_code)]

use super::entry::Entry;
use super::memory::Mapped;

/// Where a queue is in its ring; all zero: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Ends {
    first: u32,
    /// Places from the first flow to the last one, gaps among them.
    len: u32,
    /// If what is behind gaps is being moved up: one more than the places from the first on that have no gap, or
    /// that had none when they were passed.
    moved_up: u32,
}

/// Marks a gap; what is below it is the gap's length, at either end of it.
pub(super) const GAP: u32 = 1 << 31;

/// Steps of moving up for each flow that joins.
const STEPS: u32 = 17;

/// Places that are spare whatever the capacity.
const SPARE: u32 = 8;

/// See the module.
pub(super) struct Queue {
    places: Mapped<u32>,
    /// A queue that is longer has too many gaps.
    long: u32,
}

impl Queue {
    /// How many places a ring for so many flows has.
    pub(super) fn places_for(capacity: u32) -> u32 {
        capacity + capacity / 4 + SPARE
    }

    /// A queue of at most `capacity` flows in memory of its own, of [`places_for`](Queue::places_for) so many.
    pub(super) fn new(places: Mapped<u32>, capacity: u32) -> Queue {
        Queue { places, long: capacity + capacity / 8 + SPARE / 2 }
    }

    /// What is in its places, gaps among them, from the oldest on; anything, if it was left half written.
    pub(super) fn numbers(&self, ends: Ends) -> impl Iterator<Item = u32> {
        let size = self.places.len();
        let whole = ends.first < size && ends.len <= size;
        let len = if whole { ends.len } else { 0 };
        (0..len).map(move |ahead| *self.places.at(self.after(ends.first, ahead)))
    }

    /// The oldest flow's entry.
    #[inline(always)]
    pub(super) fn first(&self, ends: Ends) -> Option<u32> {
        // It is no gap.
        (ends.len > 0).then(|| *self.places.at(ends.first))
    }

    /// Shows the entries in `count` places from the one on that is `ahead` behind the first one's: of flows that go
    /// after `ahead` others, or fewer, as there may be gaps.
    #[inline(always)]
    pub(super) fn show(&self, ends: Ends, ahead: u32, count: u32, mut show: impl FnMut(u32)) {
        if ends.len <= ahead {
            return;
        }
        let mut place = self.after(ends.first, ahead);
        for _ in 0..count.min(ends.len - ahead) {
            let number = *self.places.at(place);
            if number < GAP {
                show(number);
            }
            place = self.after(place, 1);
        }
    }

    /// Shows the entries of so many flows, the oldest first. A gap is one step.
    pub(super) fn show_oldest(&self, ends: Ends, flows: u32, mut show: impl FnMut(u32)) {
        let (mut ahead, mut shown) = (0, 0);
        while ahead < ends.len && shown < flows {
            let number = *self.places.at(self.after(ends.first, ahead));
            if number < GAP {
                show(number);
                (ahead, shown) = (ahead + 1, shown + 1);
            } else {
                ahead += (number & !GAP).max(1);
            }
        }
    }

    /// Asks for the place that is so many behind the first one's.
    #[inline(always)]
    pub(super) fn prefetch(&self, ends: Ends, ahead: u32) {
        self.places.prefetch(self.after(ends.first, ahead));
    }

    /// Adds the flow of an entry, which is in no queue, as the newest; returns its place.
    #[inline(always)]
    pub(super) fn push(&mut self, ends: &mut Ends, entries: &mut Mapped<Entry>, number: u32) -> u32 {
        if ends.len > self.long || ends.moved_up != 0 {
            self.move_up(ends, entries);
        }
        let place = self.after(ends.first, ends.len);
        *self.places.at_mut(place) = number;
        ends.len += 1;
        place
    }

    /// Takes out the oldest flow.
    #[inline(always)]
    pub(super) fn pop(&mut self, ends: &mut Ends) {
        if ends.len > 0 {
            let gap = if ends.len > 1 { self.gap(self.after(ends.first, 1)) } else { 0 };
            self.advance(ends, 1 + gap);
        }
    }

    /// Takes out the flow in this place.
    #[inline]
    pub(super) fn remove(&mut self, ends: &mut Ends, place: u32) {
        let from_first = self.from(ends.first, place);
        if from_first == 0 {
            return self.pop(ends);
        }
        if from_first >= ends.len {
            return;
        }
        let before = self.gap(self.before(place, 1));
        if from_first + 1 == ends.len {
            // The first is no gap, so that this is not all of it.
            ends.len -= 1 + before;
            return;
        }
        let after = self.gap(self.after(place, 1));
        // Within a longer gap its own mark stays, and says that it is one.
        *self.places.at_mut(place) = GAP;
        let (start, gap) = (from_first - before, before + 1 + after);
        self.mark(self.before(place, before), gap);
        if (start + 1..start + gap).contains(&(ends.moved_up.wrapping_sub(1))) {
            ends.moved_up = start + 1;
        }
    }

    #[inline(always)]
    fn advance(&self, ends: &mut Ends, places: u32) {
        ends.first = self.after(ends.first, places);
        ends.len -= places;
        if ends.moved_up != 0 {
            ends.moved_up = ends.moved_up.saturating_sub(places).max(1);
        }
    }

    /// Some steps of moving up what is behind gaps.
    #[cold]
    #[inline(never)]
    fn move_up(&mut self, ends: &mut Ends, entries: &mut Mapped<Entry>) {
        let mut done = ends.moved_up.saturating_sub(1);
        for _ in 0..STEPS {
            if done >= ends.len {
                ends.moved_up = 0;
                return;
            }
            let place = self.after(ends.first, done);
            let gap = self.gap(place);
            if gap > 0 {
                // The last place is no gap, so that there is one behind it.
                let from = self.after(place, gap);
                let number = *self.places.at(from);
                *self.places.at_mut(place) = number;
                entries.at_mut(number).set_place(place);
                *self.places.at_mut(from) = GAP;
                if done + gap + 1 == ends.len {
                    ends.len = done + 1;
                } else {
                    let next = self.gap(self.after(from, 1));
                    self.mark(self.after(place, 1), gap + next);
                }
            }
            done += 1;
        }
        ends.moved_up = done + 1;
    }

    /// Makes one gap of so many places.
    #[inline]
    fn mark(&mut self, place: u32, gap: u32) {
        let last = self.after(place, gap - 1);
        *self.places.at_mut(place) = GAP | gap;
        *self.places.at_mut(last) = GAP | gap;
    }

    /// The length of the gap that begins or ends here; 0 if there is a flow.
    #[inline(always)]
    fn gap(&self, place: u32) -> u32 {
        let value = *self.places.at(place);
        value.saturating_sub(GAP)
    }

    /// `by` is at most the ring's size, which is below 2^28.
    #[inline(always)]
    fn after(&self, place: u32, by: u32) -> u32 {
        let (place, size) = (place + by, self.places.len());
        if place < size { place } else { place - size }
    }

    #[inline]
    fn before(&self, place: u32, by: u32) -> u32 {
        if place >= by { place - by } else { place + self.places.len() - by }
    }

    /// How far it is from one place on to another.
    #[inline]
    fn from(&self, first: u32, place: u32) -> u32 {
        self.before(place, first)
    }
}

#[cfg(test)]
impl Ends {
    /// Any numbers.
    pub(super) fn torn(first: u32, len: u32) -> Ends {
        Ends { first, len, moved_up: 7 }
    }
}

#[cfg(test)]
impl Queue {
    /// Has every place say the same.
    pub(super) fn spoil(&mut self, number: u32) {
        (0..self.places.len()).for_each(|place| *self.places.at_mut(place) = number);
    }

    /// How many flows it has, walked, with every place and gap checked.
    pub(super) fn audit(&self, ends: Ends, entries: &Mapped<Entry>) -> u32 {
        assert!(ends.len <= self.places.len());
        let (mut at, mut count, mut after_gap) = (0, 0, true);
        while at < ends.len {
            let place = self.after(ends.first, at);
            match self.gap(place) {
                0 => {
                    assert_eq!(entries.at(*self.places.at(place)).place(), place);
                    (at, count, after_gap) = (at + 1, count + 1, false);
                }
                gap => {
                    assert!(!after_gap, "nor does it begin with a gap, nor are two side by side");
                    assert_eq!(self.gap(self.after(place, gap - 1)), gap);
                    (at, after_gap) = (at + gap, true);
                }
            }
        }
        assert!(at == ends.len && (at == 0 || !after_gap), "nor does it end with a gap");
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::memory::Carver;
    use super::super::pages::Pages;
    use super::*;

    struct Tested {
        entries: Mapped<Entry>,
        queue: Queue,
        ends: Ends,
        model: VecDeque<u32>,
        longest: u32,
    }

    impl Tested {
        fn new(capacity: u32) -> Tested {
            let places = Queue::places_for(capacity);
            let mut carver = Carver::map((64 * capacity + 4 * places) as usize, Pages::Small).unwrap();
            let entries = carver.carve(capacity).unwrap();
            let queue = Queue::new(carver.carve(places).unwrap(), capacity);
            Tested { entries, queue, ends: Ends::default(), model: VecDeque::new(), longest: 0 }
        }

        fn push(&mut self, number: u32) {
            let place = self.queue.push(&mut self.ends, &mut self.entries, number);
            self.entries.at_mut(number).set_place(place);
            self.model.push_back(number);
            self.longest = self.longest.max(self.ends.len);
        }

        fn remove(&mut self, number: u32) {
            self.queue.remove(&mut self.ends, self.entries.at(number).place());
            self.model.retain(|n| *n != number);
        }

        fn pop(&mut self) {
            self.queue.pop(&mut self.ends);
            self.model.pop_front();
        }

        fn check(&self) {
            assert_eq!(self.queue.audit(self.ends, &self.entries) as usize, self.model.len());
            assert_eq!(self.queue.first(self.ends), self.model.front().copied());
        }

        /// All that are in it come out in order.
        fn drain(mut self) {
            while let Some(first) = self.queue.first(self.ends) {
                assert_eq!(self.model.front(), Some(&first));
                self.pop();
                self.check();
            }
            assert!(self.model.is_empty());
            assert_eq!(self.ends.len, 0);
        }
    }

    proptest! {
        // F-12
        #[test]
        fn behaves_as_a_queue_with_removal_from_the_middle(
            capacity in 1..40_u32,
            ops in proptest::collection::vec((0..40_u32, any::<bool>()), 0..2000),
        ) {
            let mut tested = Tested::new(capacity);
            for (number, pop) in ops {
                let number = number % capacity;
                if tested.model.contains(&number) {
                    tested.remove(number);
                } else if pop && tested.model.len() * 2 > capacity as usize {
                    tested.pop();
                } else {
                    tested.push(number);
                }
                tested.check();
            }
            for (ahead, count) in [(0, 50), (0, 3), (2, 4), (60, 1)] {
                let mut seen = Vec::new();
                tested.queue.show(tested.ends, ahead, count, |number| seen.push(number));
                let places = (0..tested.ends.len).map(|n| tested.queue.after(tested.ends.first, n));
                let numbers = places.map(|place| *tested.queue.places.at(place));
                let expected: Vec<_> = numbers.skip(ahead as usize).take(count as usize).filter(|n| *n < GAP).collect();
                prop_assert_eq!(seen, expected);
            }
            let mut all = Vec::new();
            tested.queue.show(tested.ends, 0, u32::MAX, |number| all.push(number));
            prop_assert_eq!(all, Vec::from(tested.model.clone()));
            tested.drain();
        }
    }

    // F-12, F-13
    #[test]
    fn a_flow_that_stays_at_the_front_does_not_fill_the_ring() {
        for capacity in [4, 5, 17, 1000] {
            for stay in [1, 2, capacity / 2, capacity - 1] {
                let mut tested = Tested::new(capacity);
                (0..stay).for_each(|number| tested.push(number));
                for n in 0..20 * capacity {
                    let passing = stay + n % (capacity - stay);
                    if tested.model.contains(&passing) {
                        tested.remove(passing);
                    }
                    tested.push(passing);
                }
                tested.check();
                // The only one behind them leaves no gap.
                assert!(tested.longest > capacity || stay + 1 == capacity, "it was moved up at all");
                assert!(tested.longest < tested.queue.places.len(), "{stay} of {capacity}");
                tested.drain();
            }
        }
    }

    // F-13
    #[test]
    fn gaps_that_are_made_while_it_is_moved_up_find_room_too() {
        let capacity = 64;
        let mut tested = Tested::new(capacity);
        (0..capacity).for_each(|number| tested.push(number));
        for round in 0..1000 {
            // Every other one leaves and comes back, from the front on, then the others do.
            for number in (0..capacity).filter(|number| (number + round) % 2 == 0) {
                tested.remove(number);
                tested.push(number);
                tested.check();
            }
        }
        assert!(tested.longest < tested.queue.places.len());
        tested.drain();
    }

    #[test]
    fn a_place_that_is_not_in_it_changes_nothing() {
        let mut tested = Tested::new(8);
        tested.pop();
        (0..4).for_each(|number| tested.push(number));
        let before = tested.ends;
        tested.queue.remove(&mut tested.ends, 4);
        tested.queue.remove(&mut tested.ends, 15);
        assert_eq!(tested.ends, before);
        tested.drain();
    }
}
