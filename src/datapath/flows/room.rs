//! Who makes room for others besides those who wait in the table's own queues for it (F-12).
//!
//! **Of entries:** where all are of live flows, a TCP flow goes of which packets of one side alone were ever seen, and none for
//! [`UNANSWERED_MS`]. That is what a forger leaves behind who sends a SYN and one more packet from an address that is
//! not theirs. A true connection whose answers take another way (F-9 allows it) is such a flow, too, where it is silent: its
//! next packet begins it anew, as after any overflow. Linux's connection tracking does the same with what it has not seen
//! answered (`early_drop`).
//!
//! **Of headers:** where flows hold all there is room for, one of the oldest half-open flows goes that alone holds one. Others
//! would go for nothing.

use super::{Flows, note_evicted, settle};
use crate::datapath::counters::WorkerCounters;
use crate::datapath::flow_log::Why;
use crate::flow::{Entry, EntryId, FlowKey, FlowState, LinkId, NotInserted, Seat};
use crate::id::{Millis, PortId};

/// Longer than a connection in use is silent, and than one that was opened waits for what it was opened for.
const UNANSWERED_MS: u32 = 30_000;

/// Entries that are looked at for each flow that finds no room: they lie side by side, and the hand is round a table of a
/// million in 131,072 packets.
const UNANSWERED_STEPS: u32 = 8;

/// The oldest half-open flows that are looked at for one that alone holds its header.
const FLOWS_FOR_A_HEADER: u32 = 32;

/// The walk for such flows. One round the table that finds none tells when there can be one at the earliest, and until then
/// a flood that finds no room costs no look at any entry.
#[derive(Clone, Copy, Default)]
pub(super) struct Walk {
    /// The entry that is looked at next.
    from: u32,
    /// Entries looked at since one was found, or since it rested.
    seen: u32,
    /// When the first one of those may go. One that is not seen because it began since may go later.
    first: Option<Millis>,
    rests_until: Option<Millis>,
}

impl Walk {
    /// No time stays behind, lest it seem to lie ahead some weeks later.
    pub(super) fn age(&mut self, now: Millis) {
        self.first = self.first.map(|at| if at.since(now) > 0 { at } else { now });
        self.rests_until = self.rests_until.filter(|until| until.since(now) > 0);
    }

    #[inline]
    fn rests(&self, now: Millis) -> bool {
        self.rests_until.is_some_and(|until| until.since(now) > 0)
    }
}

impl Flows {
    /// Finds the place for the flow of a first packet. The table takes note if there was none.
    #[inline(always)]
    pub(in crate::datapath) fn seat(
        &mut self,
        hash: u64,
        key: &FlowKey,
        now: Millis,
        counters: &WorkerCounters,
    ) -> Result<Seat, NotInserted> {
        match self.table.seat(hash, key) {
            Err(NotInserted::Full) => self.seat_in_full(hash, key, now, counters),
            seat => seat,
        }
    }

    #[cold]
    #[inline(never)]
    fn seat_in_full(
        &mut self,
        hash: u64,
        key: &FlowKey,
        now: Millis,
        counters: &WorkerCounters,
    ) -> Result<Seat, NotInserted> {
        self.last_overflow = Some(now);
        self.table.note_overflow(self.last_overflow);
        if self.unanswered.rests(now) {
            return Err(NotInserted::Full);
        }
        let (found, walk) = self.look_for_unanswered(now);
        self.unanswered = walk;
        let Some(id) = found else { return Err(NotInserted::Full) };
        self.evict(id, now, counters);
        self.table.seat(hash, key)
    }

    /// Whether a flow that finds no room would be given some.
    pub(in crate::datapath) fn would_make_room(&self, now: Millis) -> bool {
        self.look_for_unanswered(now).0.is_some()
    }

    /// The next flow that goes, if there is one among the next few entries, and how far the walk is after that.
    fn look_for_unanswered(&self, now: Millis) -> (Option<EntryId>, Walk) {
        let Walk { from, seen, first, .. } = self.unanswered;
        // If there is room, the index has none: another entry does not help.
        if self.unanswered.rests(now) || self.table.has_room() {
            return (None, self.unanswered);
        }
        let (mut found, mut first) = (None, first.unwrap_or(now.plus(UNANSWERED_MS)));
        let mut look = |id, entry: &Entry| {
            if let Some(at) = self.may_go_at(entry).filter(|_| found.is_none()) {
                if at.since(now) == 0 {
                    found = Some(id);
                } else if first.since(at) > 0 {
                    first = at;
                }
            }
        };
        let capacity = self.table.capacity();
        let next = self.table.scan(from, UNANSWERED_STEPS, &mut look).unwrap_or_else(|| {
            // Round to the first entries, for the steps that are left.
            let left = (from + UNANSWERED_STEPS).saturating_sub(capacity);
            self.table.scan(0, left.min(from), &mut look).unwrap_or(0)
        });
        let seen = seen + UNANSWERED_STEPS;
        let walk = match found {
            Some(id) => Walk { from: id.number() + 1, ..Walk::default() },
            None if seen < capacity => Walk { from: next, seen, first: Some(first), rests_until: None },
            None => Walk { from: next, rests_until: Some(first), ..Walk::default() },
        };
        (found, walk)
    }

    /// When a flow may go because only one side of its TCP connection was seen, unless a packet comes before. What came in by
    /// one end of a wire is of one side, whatever its addresses say. Of routed endpoints' flows nothing is known of that.
    #[inline]
    fn may_go_at(&self, entry: &Entry) -> Option<Millis> {
        if !entry.is_in(FlowState::Established) {
            return None;
        }
        let port = |link| self.links.get(link).map(|(port, _)| port);
        let is_unanswered = match entry.link {
            [LinkId::NONE, LinkId::NONE] => false,
            [LinkId::NONE, _] | [_, LinkId::NONE] => true,
            [low, high] => port(low) == port(high),
        };
        is_unanswered.then_some(entry.last_seen.plus(UNANSWERED_MS))
    }

    /// Ends a flow to make room.
    pub(super) fn evict(&mut self, id: EntryId, now: Millis, counters: &WorkerCounters) {
        let Flows { table, links, log, last_eviction, .. } = self;
        let entry = table.entry(id);
        note_evicted(last_eviction, entry, now, counters);
        settle((links, log), (id, entry), (None, Why::Evicted), counters);
        self.table.remove(id);
        counters.flow_entries.set(u64::from(self.table.len()));
    }

    /// The number of a link-layer header. `None`: there is no room for it, and none of the oldest half-open flows, `but` aside,
    /// has any to give.
    #[inline]
    pub(super) fn intern(
        &mut self,
        (port, header): (PortId, &[u8]),
        but: Option<EntryId>,
        now: Millis,
        counters: &WorkerCounters,
    ) -> Option<LinkId> {
        self.links.intern(port, header).or_else(|| self.intern_in_full((port, header), but, now, counters))
    }

    #[cold]
    #[inline(never)]
    fn intern_in_full(
        &mut self,
        (port, header): (PortId, &[u8]),
        but: Option<EntryId>,
        now: Millis,
        counters: &WorkerCounters,
    ) -> Option<LinkId> {
        // It may be another reason that it has no number.
        if !self.links.is_full() {
            return None;
        }
        let mut found = None;
        self.table.oldest_half_open(FLOWS_FOR_A_HEADER, |id, entry| {
            let gives = entry.link.into_iter().any(|link| self.links.is_held_once(link));
            if found.is_none() && gives && Some(id) != but {
                found = Some(id);
            }
        });
        self.evict(found?, now, counters);
        self.links.intern(port, header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::links::LinkTable;
    use crate::flow::{FlowFlags, HashSeed, NewEntry, Pages, Table, TableConfig};
    use crate::id::{EndpointId, TargetId, WorkerId};

    const FLOWS: u32 = 64;

    fn key(n: u16) -> FlowKey {
        FlowKey::new(EndpointId(0), 4, 6, 0xc000_0201, 0xc633_6401, n, 443).0
    }

    /// A table full of established flows, the first of which was never answered.
    fn full() -> Flows {
        let seed = HashSeed::from_secret(b"a secret for the tests");
        let config = TableConfig {
            capacity: FLOWS,
            worker: WorkerId(0),
            workers: 1,
            pages: Pages::Small,
            seed: seed.clone(),
        };
        let mut flows = Flows::new(Table::new(config).unwrap(), LinkTable::new(8, seed));
        let headers = [0, 1].map(|port| flows.links.intern(PortId(port), &[2; 14]).expect("there is room"));
        for n in 0..FLOWS {
            let key = key(n.try_into().unwrap());
            let new = NewEntry {
                state: FlowState::Established,
                flags: FlowFlags::empty(),
                target: TargetId(0),
                target_generation: 0,
                link: if n == 0 { [headers[0], LinkId::NONE] } else { headers },
                now: Millis(1_000),
            };
            flows.table.insert(flows.table.hash(&key), &key, new).unwrap();
        }
        flows
    }

    // F-12
    #[test]
    fn once_round_the_table_in_vain_no_entry_is_looked_at_until_one_may_go() {
        let (mut flows, counters) = (full(), WorkerCounters::default());
        let stranger = key(1_000);
        let hash = flows.table.hash(&stranger);
        let mut turned_away = |at| flows.seat(hash, &stranger, Millis(at), &counters).is_err();
        let steps = FLOWS / UNANSWERED_STEPS;
        assert!((0..steps).all(|_| turned_away(2_000)));
        assert!((0..3).all(|_| turned_away(30_999)), "half a minute is not over");
        let rested = flows.unanswered;
        assert_eq!((rested.from, rested.seen, rested.rests_until), (0, 0, Some(Millis(31_000))));
        // Now it may go, and goes, by the walk that is begun again.
        let seats = (0..steps).filter(|_| flows.seat(hash, &stranger, Millis(31_000), &counters).is_ok());
        assert!(seats.count() > 0);
        assert_eq!(
            flows.table.find(flows.table.hash(&key(0)), &key(0)),
            None,
            "the one that was never answered"
        );
    }
}
