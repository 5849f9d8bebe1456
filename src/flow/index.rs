//! The table's index: from a hash to entry numbers that may be the one.
//!
//! Buckets of one cache line with ten slots, a 16-bit tag and an entry number each. A hash has a home
//! bucket and one other, which follows from home and tag alone, so that a slot can be moved between its
//! two without looking at the entry (partial-key cuckoo hashing; Fan, Andersen, Kaminsky: "MemC3", NSDI
//! 2013). A slot goes home while home has room; a bucket counts its slots that had to go elsewhere, so that
//! a look-up reads the other bucket only where there is something to find, and a miss costs one line.
//!
//! The index never has more than half of its slots in use. Then one slot in 200 is away, and a look-up
//! need not have the other bucket on the way before it knows: at 0.8, one in twenty was, and each cost two
//! lines one after the other. The number of buckets follows the capacity exactly, as a bucket is picked
//! by a multiplication and not by a mask: 12.8 bytes of index a flow at any capacity.
#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, compiler_fence};

use arrayvec::ArrayVec;

use super::memory::{Lanes, Mapped, Numbers, View, equal_lanes, equal_numbers, scale};

/// Slots in a bucket: as many 6-byte slots as a line holds beside four bytes of count and marks.
pub(super) const SLOTS: usize = 10;

/// Entries for each bucket of a full table.
const LOAD: u32 = 5;

/// Full buckets whose slots an insertion tries to move, at most: it looks at no more than ten times as
/// many others, and moves no more slots than this.
const MAX_FULL: usize = 6;

/// Twelve 16-bit lanes that are compared at once (0–9 tags, 10 how many slots whose home this is are
/// away, 11 which slots here are away from home), then ten entry numbers. A tag of 0 is an empty slot.
#[repr(C, align(64))]
pub(super) struct Bucket {
    lanes: Lanes,
    entries: Numbers,
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// The bits of [`Slots`] that stand for slots: all but those of lanes 10 and 11.
const ALL_SLOTS: u32 = (1 << SLOTS) - 1;

/// Slots of a bucket, one bit each.
#[derive(Clone, Copy)]
struct Slots(u32);

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

impl Bucket {
    /// Slots with this tag; with 0, empty slots.
    #[inline]
    fn matching(&self, tag: u16) -> Slots {
        Slots(equal_lanes(&self.lanes, tag) & ALL_SLOTS)
    }

    /// The slot that names this entry.
    #[inline(always)]
    fn naming(&self, entry: u32) -> Option<usize> {
        // An empty slot has the number that it had.
        Slots(equal_numbers(&self.entries, entry) & ALL_SLOTS).find(|slot| self.lane(*slot) != 0)
    }

    /// The entry of the first slot with this tag, or [`NO_ENTRY`]: a load and a conditional move, as a branch
    /// would be a coin toss where half of the packets are of new flows.
    #[inline(always)]
    fn first(&self, tag: u16) -> u32 {
        let Slots(matching) = self.matching(tag);
        let slot = (matching | 1 << (SLOTS - 1)).trailing_zeros() as usize;
        let entry = self.entry(slot);
        if matching == 0 { NO_ENTRY } else { entry }
    }

    #[inline]
    fn lane(&self, lane: usize) -> u16 {
        self.lanes.get(lane).copied().unwrap_or(0)
    }

    #[inline]
    fn set_lane(&mut self, lane: usize, value: u16) {
        if let Some(place) = self.lanes.get_mut(lane) {
            *place = value;
        }
    }

    #[inline]
    fn entry(&self, slot: usize) -> u32 {
        self.entries.get(slot).copied().unwrap_or(NO_ENTRY)
    }

    #[inline]
    fn has_strays(&self) -> bool {
        self.lane(COUNT_LANE) != 0
    }

    #[inline]
    fn is_away(&self, slot: usize) -> bool {
        self.lane(AWAY_LANE) >> slot & 1 == 1
    }

    fn free_slot(&self) -> Option<usize> {
        self.matching(0).next()
    }

    /// Fills an empty slot, which is not marked.
    #[inline]
    fn fill(&mut self, slot: usize, tag: u16, entry: u32, away: bool) {
        self.set_lane(slot, tag);
        if let Some(place) = self.entries.get_mut(slot) {
            *place = entry;
        }
        if away {
            self.set_lane(AWAY_LANE, self.lane(AWAY_LANE) | 1 << slot);
        }
    }

    /// Empties a slot; returns whether it was away from home.
    #[inline]
    fn clear(&mut self, slot: usize) -> bool {
        let away = self.is_away(slot);
        self.set_lane(slot, 0);
        if away {
            self.set_lane(AWAY_LANE, self.lane(AWAY_LANE) & !(1 << slot));
        }
        away
    }

    /// At 65,535 the count is no longer kept but stays, which costs look-ups a line and no correctness.
    fn stray_left(&mut self) {
        self.set_lane(COUNT_LANE, self.lane(COUNT_LANE).saturating_add(1));
    }

    fn stray_gone(&mut self) {
        let count = self.lane(COUNT_LANE);
        if count != u16::MAX {
            self.set_lane(COUNT_LANE, count.saturating_sub(1));
        }
    }
}

const COUNT_LANE: usize = 10;
const AWAY_LANE: usize = 11;

/// An empty slot that was found for a hash.
#[derive(Clone, Copy)]
pub(super) struct Vacancy {
    bucket: u32,
    slot: usize,
    tag: u16,
    away: bool,
}

impl Vacancy {
    /// Where it is.
    #[inline(always)]
    pub(super) fn whereabouts(&self) -> u32 {
        self.bucket | u32::from(self.away) << AWAY_BIT
    }
}

/// The bit of a slot's whereabouts, which are otherwise its bucket's number, that says that it is away from home.
const AWAY_BIT: u32 = 31;

/// What a hash's home bucket says of it.
pub(super) struct Home {
    bucket: u32,
    tag: u16,
    empty: Slots,
    /// Whether the flow may be in the table: here, as a slot has its tag, or away, as some slot is.
    pub(super) may_have: bool,
}

/// Beyond every entry's number.
pub(super) const NO_ENTRY: u32 = u32::MAX;

/// The buckets, each as some hashes' home.
#[derive(Clone, Copy)]
pub(super) struct Homes<'a>(View<'a, Bucket>);

impl Homes<'_> {
    /// Asks for the hash's home bucket.
    #[inline(always)]
    pub(super) fn prefetch(self, hash: u64) {
        self.0.prefetch_scaled(cut32(hash));
    }

    /// The first entry that has the tag in the home bucket, or [`NO_ENTRY`]. If the flow may be away, `may_be_away` is
    /// called.
    #[inline(always)]
    pub(super) fn guess(self, hash: u64, may_be_away: impl FnOnce()) -> u32 {
        let bucket = self.0.at_scaled(cut32(hash));
        if bucket.has_strays() {
            may_be_away();
        }
        bucket.first(tag(hash))
    }
}

/// See the module.
pub(super) struct Index {
    buckets: Mapped<Bucket>,
}

impl Index {
    /// How many buckets serve so many entries: an even number.
    pub(super) fn buckets_for(capacity: u32) -> u32 {
        capacity.div_ceil(2 * LOAD).max(1) * 2
    }

    /// An index in `buckets`, as many as [`buckets_for`](Index::buckets_for) says.
    pub(super) fn new(buckets: Mapped<Bucket>) -> Index {
        Index { buckets }
    }

    /// What the first stages of look-ups read.
    #[inline(always)]
    pub(super) fn homes(&self) -> Homes<'_> {
        Homes(self.buckets.view())
    }

    /// Asks for the hash's home bucket.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        self.homes().prefetch(hash);
    }

    /// The first entry that has the tag in the other bucket, where the flow would be if it were away, or [`NO_ENTRY`].
    #[inline]
    pub(super) fn guess_away(&self, hash: u64) -> u32 {
        let tag = tag(hash);
        self.buckets.at(self.other(self.home(hash), tag)).first(tag)
    }

    /// Asks for the bucket where the hash's flow would be if it were away. One bucket in forty has a stray.
    #[cold]
    #[inline(never)]
    pub(super) fn prefetch_other(&self, hash: u64) {
        self.buckets.prefetch(self.other(self.home(hash), tag(hash)));
    }

    /// Reads the hash's home bucket for an insertion.
    #[inline(always)]
    pub(super) fn home_of(&self, hash: u64) -> Home {
        let (bucket, tag) = (self.home(hash), tag(hash));
        let at = self.buckets.at(bucket);
        let may_have = at.matching(tag).0 != 0 || at.has_strays();
        Home { bucket, tag, empty: at.matching(0), may_have }
    }

    /// Whether one of the hash's two buckets names the entry, whatever they count.
    pub(super) fn names(&self, hash: u64, entry: u32) -> bool {
        let (home, tag) = (self.home(hash), tag(hash));
        let named_in = |bucket: u32| {
            let bucket = self.buckets.at(bucket);
            bucket.matching(tag).any(|slot| bucket.entry(slot) == entry)
        };
        named_in(home) || named_in(self.other(home, tag))
    }

    /// Forgets every entry.
    pub(super) fn clear(&mut self) {
        for number in 0..self.buckets.len() {
            *self.buckets.at_mut(number) = Bucket { lanes: Lanes::default(), entries: Numbers::default() };
        }
    }

    /// The number of the entry that `is_it` says is the one.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place(hash, is_it).map(|(bucket, slot)| self.buckets.at(bucket).entry(slot))
    }

    #[inline]
    fn place(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<(u32, usize)> {
        let (home, tag) = (self.home(hash), tag(hash));
        let bucket = self.buckets.at(home);
        if let Some(slot) = bucket.matching(tag).find(|slot| is_it(bucket.entry(*slot))) {
            return Some((home, slot));
        }
        if !bucket.has_strays() {
            return None;
        }
        let other = self.other(home, tag);
        let bucket = self.buckets.at(other);
        bucket.matching(tag).find(|slot| is_it(bucket.entry(*slot))).map(|slot| (other, slot))
    }

    /// Where the slot of a flow is, nearly always: at home.
    #[inline]
    pub(super) fn whereabouts(&self, hash: u64) -> u32 {
        self.home(hash)
    }

    /// Asks for what [`remove_at`](Index::remove_at) will change there: the slot's bucket and, if it is another, its
    /// home, which takes its hash.
    #[inline(always)]
    pub(super) fn prefetch_at(&self, whereabouts: u32, hash: impl FnOnce() -> u64) {
        self.buckets.prefetch(whereabouts & !(1 << AWAY_BIT));
        if whereabouts >> AWAY_BIT != 0 {
            self.prefetch_home(hash);
        }
    }

    #[cold]
    #[inline(never)]
    fn prefetch_home(&self, hash: impl FnOnce() -> u64) {
        self.prefetch(hash());
    }

    /// Takes the slot that names `entry` out of the bucket there, without its hash; false if it has none.
    #[inline(always)]
    pub(super) fn remove_at(&mut self, whereabouts: u32, entry: u32) -> bool {
        let bucket = whereabouts & !(1 << AWAY_BIT);
        let at = self.buckets.at_mut(bucket);
        let Some(slot) = at.naming(entry) else { return false };
        let tag = at.lane(slot);
        if at.clear(slot) {
            self.stray_gone(bucket, tag);
        }
        true
    }

    /// A slot that was away in this bucket is not any more.
    #[cold]
    #[inline(never)]
    fn stray_gone(&mut self, bucket: u32, tag: u16) {
        self.buckets.at_mut(self.other(bucket, tag)).stray_gone();
    }

    /// Takes out the slot of this hash that names `entry`.
    #[inline(always)]
    pub(super) fn remove(&mut self, hash: u64, entry: u32) {
        let Some((at, slot)) = self.place(hash, |number| number == entry) else { return };
        if self.buckets.at_mut(at).clear(slot) {
            self.buckets.at_mut(self.home(hash)).stray_gone();
        }
    }

    /// Finds an empty slot for the hash that this is the home bucket of, moving others if need be. `None` if the
    /// sixty buckets next to its two hold none: where one bucket in thirty is full, that takes a defeated hash to
    /// bring about.
    #[inline(always)]
    pub(super) fn vacancy(&mut self, mut home: Home) -> Option<Vacancy> {
        match home.empty.next() {
            Some(slot) => Some(Vacancy { bucket: home.bucket, slot, tag: home.tag, away: false }),
            None => self.vacancy_away(home.bucket, home.tag),
        }
    }

    #[cold]
    fn vacancy_away(&mut self, home: u32, tag: u16) -> Option<Vacancy> {
        let other = self.other(home, tag);
        if let Some(slot) = self.buckets.at(other).free_slot() {
            return Some(Vacancy { bucket: other, slot, tag, away: true });
        }
        let (bucket, slot) = self.displace(home, other)?;
        Some(Vacancy { bucket, slot, tag, away: bucket != home })
    }

    /// Puts `entry` into the slot that was found for it. Nothing may have been filled between.
    #[inline(always)]
    pub(super) fn fill(&mut self, vacancy: &Vacancy, entry: u32) {
        let &Vacancy { bucket, slot, tag, away } = vacancy;
        self.buckets.at_mut(bucket).fill(slot, tag, entry, away);
        if away {
            self.buckets.at_mut(self.other(bucket, tag)).stray_left();
        }
    }

    /// Breadth first over the buckets that slots of `home` and `other` could move to, then over those
    /// that theirs could, until one has an empty slot; then moves slots along the way back, each to its
    /// own other bucket, and returns the slot that this empties in one of the first two.
    #[cold]
    fn displace(&mut self, home: u32, other: u32) -> Option<(u32, usize)> {
        /// A full bucket, and which slot of which earlier one could move into it.
        struct Step {
            bucket: u32,
            from: Option<(usize, usize)>,
        }
        let mut steps = ArrayVec::<Step, MAX_FULL>::new();
        for bucket in [home, other] {
            steps.push(Step { bucket, from: None });
        }
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            let full = step.bucket;
            let tags: [u16; SLOTS] = std::array::from_fn(|slot| self.buckets.at(full).lane(slot));
            for tag in tags {
                self.buckets.prefetch(self.other(full, tag));
            }
            for (slot, tag) in tags.into_iter().enumerate() {
                let next = self.other(full, tag);
                if let Some(empty) = self.buckets.at(next).free_slot() {
                    let (mut bucket, mut slot, mut step) = (full, slot, at);
                    self.move_slot((bucket, slot), (next, empty));
                    while let Some((from, from_slot)) = steps.get(step).and_then(|s| s.from) {
                        let origin = steps.get(from)?.bucket;
                        self.move_slot((origin, from_slot), (bucket, slot));
                        (bucket, slot, step) = (origin, from_slot, from);
                    }
                    return Some((bucket, slot));
                }
                // No bucket twice, or a slot could be moved twice along one way.
                if !steps.is_full() && steps.iter().all(|s| s.bucket != next) {
                    steps.push(Step { bucket: next, from: Some((at, slot)) });
                }
            }
            at += 1;
        }
        None
    }

    /// Moves a slot to its other bucket, whose slot `to` is empty.
    fn move_slot(&mut self, from: (u32, usize), to: (u32, usize)) {
        let bucket = self.buckets.at(from.0);
        let (tag, entry, was_away) = (bucket.lane(from.1), bucket.entry(from.1), bucket.is_away(from.1));
        // The entry is named at any moment, for whoever takes over from a writer that died here.
        let bucket = self.buckets.at_mut(to.0);
        bucket.fill(to.1, tag, entry, !was_away);
        if was_away {
            bucket.stray_gone();
        }
        compiler_fence(Ordering::SeqCst);
        let bucket = self.buckets.at_mut(from.0);
        bucket.clear(from.1);
        if !was_away {
            bucket.stray_left();
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> u32 {
        scale(cut32(hash), self.buckets.len())
    }

    /// A slot's other bucket: from home the one away, and back again, as the two numbers' sum is the tag's
    /// modulo the number of buckets. Never the same one: that number is even, and the sum is odd.
    #[inline]
    fn other(&self, bucket: u32, tag: u16) -> u32 {
        let buckets = self.buckets.len();
        let sum = scale(u32::from(tag).wrapping_mul(0x9e37_79b9), buckets / 2) * 2 + 1;
        let (other, below) = sum.overflowing_sub(bucket);
        if below { other.wrapping_add(buckets) } else { other }
    }
}

/// Bits 33–47 of the hash, and a bit that an empty slot does not have.
#[inline(always)]
fn tag(hash: u64) -> u16 {
    cut16(hash >> 32) | 1
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
fn cut16(x: u64) -> u16 {
    x as u16
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
fn cut32(x: u64) -> u32 {
    x as u32
}

#[cfg(test)]
impl Index {
    /// The bucket that names the entry.
    pub(super) fn bucket_of(&self, hash: u64, entry: u32) -> Option<u32> {
        self.place(hash, |number| number == entry).map(|(bucket, _)| bucket)
    }

    /// Checks that counts and marks agree with the slots, and returns how many slots are in use. That every
    /// slot names the right entry is for the table to check.
    pub(super) fn audit(&self) -> u32 {
        let mut named = std::collections::HashSet::new();
        let mut strays = vec![0; self.buckets.len() as usize];
        for number in 0..self.buckets.len() {
            let bucket = self.buckets.at(number);
            for slot in 0..SLOTS {
                let tag = bucket.lane(slot);
                if tag == 0 {
                    assert!(!bucket.is_away(slot), "an empty slot is not marked");
                    continue;
                }
                assert!(named.insert(bucket.entry(slot)), "an entry is named once");
                if bucket.is_away(slot) {
                    strays[self.other(number, tag) as usize] += 1;
                }
            }
        }
        for (number, strays) in (0..).zip(strays) {
            assert_eq!(self.buckets.at(number).lane(COUNT_LANE), strays);
        }
        u32::try_from(named.len()).unwrap()
    }
}

#[cfg(test)]
mod tests;
