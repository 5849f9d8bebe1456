//! How old flows are, and for how long they have been silent: from a walk over the flow table that looks at a few entries
//! a millisecond, as no entry has room for the time of its begin, and no packet should pay for it.
//!
//! The first [`SAMPLE`] entries of the table are walked, in some sixteen seconds. Entries are given out in the order
//! in which they became free, so that these are as good a sample of the flows as any; of a table that never held more
//! they are all. A flow's begin is known to a walk. It costs no more than four entries looked at a millisecond,
//! 0.1 % of a core where nothing of it is in a cache, and half a megabyte a worker.

use super::counters::{Counter, WorkerCounters};
use super::flows::is_live;
use crate::flow::Table;
use crate::id::Millis;

/// Entries that are walked.
pub const SAMPLE: u32 = 1 << 16;

/// Entries looked at for each millisecond that has passed.
const STEPS_A_MS: u32 = 4;

/// Entries looked at in one round at most, however long the one before took.
const STEPS_A_ROUND: u32 = 32;

/// The least age of each class, in milliseconds: a moment, a request, a session, a day's work, and more.
pub const AGES_FROM_MS: [u32; 8] = [0, 10_000, 60_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000];

/// The least silence of each class, in milliseconds: about the idle timeouts that there are.
pub const IDLE_FROM_MS: [u32; 7] = [0, 10_000, 60_000, 120_000, 300_000, 900_000, 3_600_000];

/// An age that none exceeds here: older flows are taken for as old, lest the clock's wrap make them young.
const OLDEST_MS: u32 = 20 * 24 * 3_600_000;

/// A cookie that no flow of the sample has: its entry's number is beyond it.
const NO_COOKIE: u32 = u32::MAX;

/// Live flows of the sample by age and by silence, as the last walk found them.
#[derive(Debug, Default)]
pub struct FlowAges {
    /// By age, in the classes of [`AGES_FROM_MS`].
    pub ages: [Counter; AGES_FROM_MS.len()],
    /// By silence, in the classes of [`IDLE_FROM_MS`].
    pub idle: [Counter; IDLE_FROM_MS.len()],
}

/// The walk of one worker.
pub struct Ages {
    /// The cookie of each entry's flow, and when that began.
    born: Box<[(u32, Millis)]>,
    next: u32,
    ages: [u32; AGES_FROM_MS.len()],
    idle: [u32; IDLE_FROM_MS.len()],
}

impl Ages {
    /// A walk over a table of so many entries.
    pub fn new(capacity: u32) -> Ages {
        let born = (0..capacity.min(SAMPLE)).map(|_| (NO_COOKIE, Millis(0))).collect();
        Ages { born, next: 0, ages: [0; AGES_FROM_MS.len()], idle: [0; IDLE_FROM_MS.len()] }
    }

    /// Goes on, `elapsed` milliseconds after it last did.
    pub fn walk(&mut self, table: &Table, now: Millis, elapsed: u32, counters: &WorkerCounters) {
        let Ages { born, next, ages, idle } = self;
        let sample = u32::try_from(born.len()).unwrap_or(SAMPLE);
        let steps = elapsed.saturating_mul(STEPS_A_MS).min(STEPS_A_ROUND).min(sample - *next);
        let mut at = *next;
        let end = table.scan(*next, steps, |id, entry| {
            let Some((known, began)) = born.get_mut(id.number() as usize) else { return };
            if !is_live(entry) {
                return;
            }
            let cookie = table.cookie(id).0;
            if *known != cookie {
                (*known, *began) = (cookie, entry.last_seen);
            }
            let age = now.since(*began);
            if age > OLDEST_MS {
                *began = Millis(now.0.wrapping_sub(OLDEST_MS));
            }
            count(ages, &AGES_FROM_MS, age);
            count(idle, &IDLE_FROM_MS, now.since(entry.last_seen));
        });
        at = end.unwrap_or(sample).max(at);
        if at < sample {
            *next = at;
            return;
        }
        for (shown, found) in counters.flow_ages.ages.iter().zip(ages.iter_mut()) {
            shown.set(u64::from(std::mem::take(found)));
        }
        for (shown, found) in counters.flow_ages.idle.iter().zip(idle.iter_mut()) {
            shown.set(u64::from(std::mem::take(found)));
        }
        *next = 0;
    }
}

/// Counts one of so many milliseconds in its class.
#[inline]
fn count<const N: usize>(counts: &mut [u32; N], from: &[u32; N], ms: u32) {
    let class = from.iter().filter(|from| ms >= **from).count().saturating_sub(1);
    if let Some(count) = counts.get_mut(class) {
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{FlowFlags, FlowKey, FlowState, HashSeed, LinkId, NewEntry, Pages, TableConfig};
    use crate::id::{EndpointId, TargetId, WorkerId};

    fn table(capacity: u32) -> Table {
        Table::new(TableConfig {
            capacity,
            worker: WorkerId(0),
            workers: 1,
            pages: Pages::Small,
            seed: HashSeed::from_secret(b"the tests' own secret"),
        })
        .unwrap()
    }

    fn add(table: &mut Table, client: u128, now: Millis) -> crate::flow::EntryId {
        let (key, _) = FlowKey::new(EndpointId(0), 4, 6, client, 2, 1, 80);
        let new = NewEntry {
            state: FlowState::Established,
            target: TargetId(0),
            target_generation: 0,
            link: [LinkId::NONE; 2],
            flags: FlowFlags::empty(),
            now,
        };
        table.insert(table.hash(&key), &key, new).unwrap().id
    }

    /// Walks until the walk has been through.
    fn walk_through(ages: &mut Ages, table: &Table, now: Millis) -> WorkerCounters {
        let counters = WorkerCounters::default();
        loop {
            ages.walk(table, now, 8, &counters);
            if ages.next == 0 {
                return counters;
            }
        }
    }

    fn figures<const N: usize>(counters: &[Counter; N]) -> [u64; N] {
        counters.each_ref().map(Counter::get)
    }

    #[test]
    fn flows_are_counted_by_age_and_by_silence() {
        let mut table = table(1024);
        let mut ages = Ages::new(1024);
        let old = add(&mut table, 1, Millis(1_000));
        walk_through(&mut ages, &table, Millis(2_000));
        add(&mut table, 2, Millis(400_000));
        let first = walk_through(&mut ages, &table, Millis(401_000));
        assert_eq!(figures(&first.flow_ages.ages), [1, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(figures(&first.flow_ages.idle), [1, 0, 0, 0, 1, 0, 0]);
        // The old one speaks: it is as old as it was, and not silent any more.
        table.entry_mut(old).last_seen = Millis(401_000);
        let second = walk_through(&mut ages, &table, Millis(402_000));
        assert_eq!(figures(&second.flow_ages.ages), [1, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(figures(&second.flow_ages.idle), [2, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_flow_in_the_place_of_one_that_ended_is_young() {
        let mut table = table(16);
        let mut ages = Ages::new(16);
        for client in 0..16 {
            add(&mut table, client, Millis(1_000));
        }
        walk_through(&mut ages, &table, Millis(2_000));
        for client in 0..8 {
            let (key, _) = FlowKey::new(EndpointId(0), 4, 6, client, 2, 1, 80);
            let id = table.find(table.hash(&key), &key).unwrap();
            table.remove(id);
        }
        for client in 100..108 {
            add(&mut table, client, Millis(999_000));
        }
        let counted = walk_through(&mut ages, &table, Millis(1_000_000));
        assert_eq!(figures(&counted.flow_ages.ages), [8, 0, 0, 0, 8, 0, 0, 0]);
    }

    #[test]
    fn a_flow_of_weeks_does_not_grow_young_when_the_clock_wraps() {
        let mut table = table(16);
        let mut ages = Ages::new(16);
        let id = add(&mut table, 1, Millis(1_000));
        for day in 0..60_u32 {
            let now = Millis(day.wrapping_mul(86_400_000).wrapping_add(2_000));
            table.entry_mut(id).last_seen = now;
            let counted = walk_through(&mut ages, &table, now);
            let oldest = figures(&counted.flow_ages.ages)[AGES_FROM_MS.len() - 1];
            assert_eq!(oldest, u64::from(day > 0), "day {day}");
        }
    }

    // F-13
    #[test]
    fn a_walk_looks_at_few_entries_a_round_however_long_the_last_one_took() {
        let mut table = table(1 << 17);
        let mut ages = Ages::new(1 << 17);
        for n in 0..70_000 {
            add(&mut table, n, Millis(0));
        }
        let counters = WorkerCounters::default();
        ages.walk(&table, Millis(10), 1_000_000, &counters);
        assert_eq!(ages.next, STEPS_A_ROUND);
        let counted = walk_through(&mut ages, &table, Millis(10));
        assert_eq!(figures(&counted.flow_ages.ages)[0], u64::from(SAMPLE), "the sample and no more");
    }
}
