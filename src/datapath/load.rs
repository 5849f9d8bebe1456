//! How a worker spends its time, in figures to tune by: how full its bursts are and how long its rounds take.
//!
//! Written once a burst or once a round, never for a packet, so that they can always be on; read by the
//! control core whenever somebody asks. Nothing is reset by reading: a reader takes two readings and
//! goes by the difference, and of the longest rounds by the seconds that it asks for.

use std::ops::RangeInclusive;

use super::counters::Counter;
use crate::flow::FlowState;
use crate::id::Millis;
use crate::io::BURST;

/// Classes of bursts by size: 1, 2–3, 4–7, and so on, and full.
pub const BURST_CLASSES: usize = BURST.ilog2() as usize + 1;

/// The least packets in a burst of each class.
pub const BURST_CLASS_FROM: [u32; BURST_CLASSES] = {
    let mut from = [1; BURST_CLASSES];
    let mut class = 1;
    while class < BURST_CLASSES {
        from[class] = from[class - 1] * 2;
        class += 1;
    }
    from
};

/// Bursts that ports gave, by how many packets were in them. An empty one is none.
#[derive(Debug, Default)]
pub struct BurstSizes([Counter; BURST_CLASSES]);

impl BurstSizes {
    /// Counts a burst of so many packets.
    #[inline]
    pub fn count(&self, packets: usize) {
        let class = packets.checked_ilog2().and_then(|log2| self.0.get(log2 as usize));
        if let Some(class) = class {
            class.add(1);
        }
    }

    /// How many there were of each class, smallest first.
    pub fn by_class(&self) -> [u64; BURST_CLASSES] {
        std::array::from_fn(|class| self.0[class].get())
    }

    /// How many there were.
    pub fn all(&self) -> u64 {
        self.by_class().iter().sum()
    }

    /// How many were as large as a burst can be: more may have waited.
    pub fn full(&self) -> u64 {
        self.0[BURST_CLASSES - 1].get()
    }
}

/// The size that bursts of late had: seen once a millisecond from what is counted anyhow, so that no burst costs more.
#[derive(Debug, Default)]
pub struct LargestBursts {
    /// How many there were of each class when this was last looked at. The owning worker's alone.
    before: [u64; BURST_CLASSES],
}

impl LargestBursts {
    /// Looks at what was counted since this was last done.
    pub fn look(&mut self, now: Millis, sizes: &BurstSizes, largest: &Highest) {
        let counts = sizes.by_class();
        let grown = counts.iter().zip(&self.before).rposition(|(now, before)| now != before);
        if let Some(from) = grown.and_then(|class| BURST_CLASS_FROM.get(class)) {
            largest.note(now, u64::from(*from));
            self.before = counts;
        }
    }
}

/// The rings by which packets come to a worker or leave it, other than its ports'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketRing {
    /// From the other workers. There is one from each; what is told is of the fullest.
    HandedIn,
    /// To the host's network stack.
    ToHost,
    /// From the host's network stack.
    FromHost,
}

impl PacketRing {
    /// All of them.
    pub const ALL: [PacketRing; 3] = [PacketRing::HandedIn, PacketRing::ToHost, PacketRing::FromHost];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            PacketRing::HandedIn => "handed_in",
            PacketRing::ToHost => "to_host",
            PacketRing::FromHost => "from_host",
        }
    }
}

/// How full a ring is. Noted by the worker once a millisecond.
#[derive(Debug, Default)]
pub struct RingFill {
    /// Packets that fit; 0: there is no such ring.
    pub capacity: Counter,
    /// Packets that waited when it was last looked at.
    pub waiting: Counter,
    /// The most that waited.
    pub most: Highest,
}

impl RingFill {
    /// So many packets wait now, and so many did at most since this was last noted.
    pub fn note(&self, now: Millis, waiting: usize, most: usize) {
        self.waiting.set(waiting as u64);
        self.most.note(now, waiting.max(most) as u64);
    }
}

/// The states in which an entry of the flow table is in use.
pub const STATES: [FlowState; 6] = [
    FlowState::HalfOpen,
    FlowState::Established,
    FlowState::Other,
    FlowState::Closed,
    FlowState::Expired,
    FlowState::Owing,
];

/// A time slot of the longest rounds is 2¹⁰ milliseconds: a second, found without a division.
const SLOT_MS_LOG2: u32 = 10;

/// Slots kept: a bit more than a minute.
const SLOTS: usize = 64;

/// The longest round of the last minute, second by second, and ever.
#[derive(Debug)]
pub struct LongestRounds {
    ever: Longest,
    slots: [Slot; SLOTS],
}

#[derive(Debug, Default)]
struct Longest {
    /// How long it took, in cycles.
    cycles: Counter,
    /// When it ended, on the workers' clock in cycles.
    ended: Counter,
}

#[derive(Debug, Default)]
struct Slot {
    /// One more than the number of the second whose longest round this is; 0: none's yet.
    stamp: Counter,
    longest: Longest,
}

/// A round that was the longest of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Round {
    /// How long it took, in cycles; 0: there was none.
    pub cycles: u64,
    /// When it ended, on the workers' clock in cycles.
    pub ended: u64,
}

impl Default for LongestRounds {
    fn default() -> LongestRounds {
        LongestRounds { ever: Longest::default(), slots: std::array::from_fn(|_| Slot::default()) }
    }
}

impl LongestRounds {
    /// Notes a round that took so many cycles until `ended`. Only the owning worker calls this.
    #[inline]
    pub fn note(&self, now: Millis, cycles: u64, ended: u64) {
        let second = now.0 >> SLOT_MS_LOG2;
        let stamp = u64::from(second) + 1;
        let Some(slot) = self.slots.get(second as usize % SLOTS) else { return };
        if slot.stamp.get() != stamp {
            slot.longest.set(cycles, ended);
            slot.stamp.set(stamp);
        } else if cycles > slot.longest.cycles.get() {
            slot.longest.set(cycles, ended);
        }
        if cycles > self.ever.cycles.get() {
            self.ever.set(cycles, ended);
        }
    }

    /// The longest round since the start.
    pub fn ever(&self) -> Round {
        self.ever.get()
    }

    /// The longest of the last so many milliseconds, to a second; at most of the last minute.
    pub fn within(&self, now: Millis, ms: u32) -> Round {
        let recent = recent(now, ms);
        let slots = self.slots.iter().filter(|slot| recent.contains(&slot.stamp.get()));
        slots.map(|slot| slot.longest.get()).max().unwrap_or_default()
    }
}

/// The highest of some number in the last minute, second by second.
#[derive(Debug)]
pub struct Highest([HighestOf; SLOTS]);

#[derive(Debug, Default)]
struct HighestOf {
    /// As of [`Slot`].
    stamp: Counter,
    number: Counter,
}

impl Default for Highest {
    fn default() -> Highest {
        Highest(std::array::from_fn(|_| HighestOf::default()))
    }
}

impl Highest {
    /// It is `number` now. Only the owning worker calls this.
    pub fn note(&self, now: Millis, number: u64) {
        let second = now.0 >> SLOT_MS_LOG2;
        let stamp = u64::from(second) + 1;
        let Some(slot) = self.0.get(second as usize % SLOTS) else { return };
        if slot.stamp.get() != stamp {
            slot.number.set(number);
            slot.stamp.set(stamp);
        } else {
            slot.number.raise(number);
        }
    }

    /// The highest of the last so many milliseconds, to a second; at most of the last minute. 0: there was none.
    pub fn within(&self, now: Millis, ms: u32) -> u64 {
        let recent = recent(now, ms);
        let numbers = self.0.iter().filter(|slot| recent.contains(&slot.stamp.get()));
        numbers.map(|slot| slot.number.get()).max().unwrap_or(0)
    }
}

/// The stamps of the last so many milliseconds' slots.
fn recent(now: Millis, ms: u32) -> RangeInclusive<u64> {
    let second = u64::from(now.0 >> SLOT_MS_LOG2) + 1;
    let seconds = u64::from(ms >> SLOT_MS_LOG2).min(SLOTS as u64 - 1);
    second.saturating_sub(seconds)..=second
}

impl Longest {
    #[inline]
    fn set(&self, cycles: u64, ended: u64) {
        self.cycles.set(cycles);
        self.ended.set(ended);
    }

    fn get(&self) -> Round {
        Round { cycles: self.cycles.get(), ended: self.ended.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_by_the_class_of_their_size() {
        let sizes = BurstSizes::default();
        (0..=BURST).for_each(|packets| sizes.count(packets));
        assert_eq!(sizes.by_class(), [1, 2, 4, 8, 16, 32, 1]);
        assert_eq!((sizes.all(), sizes.full()), (64, 1));
        for (class, from) in BURST_CLASS_FROM.into_iter().enumerate() {
            let sizes = BurstSizes::default();
            sizes.count(from as usize);
            sizes.count(from as usize - 1);
            assert_eq!(sizes.by_class()[class], 1, "{from}");
        }
    }

    #[test]
    fn the_longest_round_is_that_of_the_seconds_asked_for() {
        let longest = LongestRounds::default();
        assert_eq!(longest.within(Millis(0), 60_000), Round::default());
        let round = |cycles, ended| Round { cycles, ended };
        longest.note(Millis(1_000), 700, 1);
        longest.note(Millis(5_200), 300, 2);
        longest.note(Millis(5_300), 500, 3);
        longest.note(Millis(5_400), 400, 4);
        let now = Millis(6_000);
        assert_eq!(longest.within(now, 2_048), round(500, 3));
        assert_eq!(longest.within(now, 60_000), round(700, 1));
        // A minute later the slots are other seconds'.
        let later = Millis(5_300 + 64 * 1024);
        assert_eq!(longest.within(later, 10_000), Round::default());
        longest.note(later, 20, 5);
        assert_eq!(longest.within(later, u32::MAX), round(20, 5));
        assert_eq!(longest.ever(), round(700, 1));
    }

    #[test]
    fn the_highest_number_holds_for_a_minute() {
        let highest = Highest::default();
        assert_eq!(highest.within(Millis(0), 60_000), 0);
        highest.note(Millis(1_000), 7);
        highest.note(Millis(5_200), 3);
        highest.note(Millis(5_300), 5);
        highest.note(Millis(5_400), 4);
        assert_eq!(highest.within(Millis(6_000), 2_048), 5);
        assert_eq!(highest.within(Millis(6_000), 60_000), 7);
        let later = Millis(5_300 + 64 * 1024);
        assert_eq!(highest.within(later, 60_000), 0);
        highest.note(later, 2);
        assert_eq!(highest.within(later, 60_000), 2);
    }

    #[test]
    fn the_largest_burst_is_of_what_was_counted_since_the_last_look() {
        let (sizes, highest, mut largest) =
            (BurstSizes::default(), Highest::default(), LargestBursts::default());
        largest.look(Millis(0), &sizes, &highest);
        assert_eq!(highest.within(Millis(0), 60_000), 0);
        [1, 40, 3].into_iter().for_each(|packets| sizes.count(packets));
        largest.look(Millis(1), &sizes, &highest);
        assert_eq!(highest.within(Millis(1), 60_000), 32);
        // A minute later there are none as large any more, and once there is a full one.
        let later = Millis(70_000);
        sizes.count(3);
        largest.look(later, &sizes, &highest);
        assert_eq!(highest.within(later, 60_000), 2);
        sizes.count(BURST);
        largest.look(later, &sizes, &highest);
        assert_eq!(highest.within(later, 60_000), BURST as u64);
    }

    #[test]
    fn the_clocks_wrap_hides_no_round_for_longer_than_a_second() {
        let longest = LongestRounds::default();
        longest.note(Millis(u32::MAX), 9, 1);
        longest.note(Millis(3), 8, 2);
        assert_eq!(longest.within(Millis(5), 10_000).cycles, 8);
    }
}
