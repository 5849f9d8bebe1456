//! The flow table of one worker.
//!
//! # Layout
//!
//! ```text
//! header (4 lines)   identity; queue ends, counts, ageing hand, last round     (table/header.rs)
//! index              buckets of 64 bytes: ten 16-bit tags, ten 32-bit entry numbers    (index.rs)
//! slab               entries of 64 bytes, by number, and one that is no flow's         (entry.rs)
//! rings              32-bit numbers of the free entries, in order                      (free.rs)
//!                    and of those that may go, two, each a quarter longer              (queue.rs)
//! headers            link-layer headers that entries refer to, of a table in a file    (kept_links.rs)
//! ```
//!
//! All of it is one mapping (memory.rs) of a size fixed by the capacity: 64 bytes of entry, 12.8 of index and 14
//! of rings a flow, 90.8 in all; 2^20 flows take 91 MiB, 2^23 take 727. Everything refers by number, nothing
//! by address, and the header says what it is, so that the same bytes can be a file that a restarted
//! daemon takes over (table/takeover.rs). For its sake an entry's key is written last and its name in the index
//! first: an entry that the index names by its key's own hash is whole, wherever its writer died.
//!
//! # Cost
//!
//! A hit by hash reads two lines that depend on each other, bucket and entry; one hit in 200 at full load
//! reads a second bucket. A miss reads one bucket. A burst's lines are asked for stage by stage
//! ([`start`](Table::start), [`guess`](Table::guess), [`confirm`](Table::confirm);
//! [`find_burst`](Table::find_burst) is the three in a row), so that their waits overlap; no stage has a
//! branch that a hit takes the other way. A hit by cookie reads the entry's line alone. An insertion fills
//! a slot of the bucket that the look-up before it has already fetched, and takes an entry that was asked
//! for eight insertions before; if both of its buckets are full it looks at 60 more at most. A removal
//! changes bucket and entry. Nothing is ever resized, rehashed or scanned at once (F-13): the ageing hand
//! looks at as many entries as it is told, and asks for the buckets of those that are over before it ends
//! them.
//!
//! # When it is full
//!
//! There are two queues: half-open flows, and those that have ended (closed, expired, or
//! reset and owing), each oldest first. A new flow takes a free entry; if there is none, the oldest that
//! has ended makes room, then the oldest half-open one (F-12), in constant time, and the caller is told
//! which. Who goes is known long before, and so is asked for in time ([`look_ahead`](Table::look_ahead)): the place in
//! the queue first, then the entry, then the bucket that names the entry. Which one that is the entry notes, so that
//! nothing is hashed, and a flow that is away from home is found at once. Established flows and live flows of other
//! protocols are in no queue and are never pushed out, however many SYNs arrive. If every entry holds such a flow the
//! answer is [`NotInserted::Full`], and the caller has another make room that it knows more of, or forwards without state. Entries are given out in the order in which
//! they became free, so that an entry rests as long as it can before its cookie's generation moves on (F-11).
//!
//! # Why not another
//!
//! What was measured beside it is in docs/performance.md; in short, at a million flows:
//!
//! - DPDK's `rte_hash` also reads two lines a hit, prefetched in a bulk call. It takes twice as long on the
//!   same keys, which lie in slots that may straddle lines, and three times as long to delete and insert, of
//!   which it has no bulk form; what is known of the flow would be a third line.
//! - `hashbrown` cannot ask for a line before it needs it: a look-up waits for memory twice, five times as
//!   long as here. It doubles in one step when it grows, and its entries move.
//! - Entries in place of the buckets' slots, with open addressing, need one line for a hit if the first is
//!   the right one. At 96 bytes a flow, two of three in use, runs are so long that a hit takes twice as
//!   long as here and a miss, each packet of a SYN flood, four times; as cookies and queues name entries by
//!   number, none can move to close a gap, and after as many removals as there are flows a miss takes ten
//!   times as long.
//! - A bucket more heavily loaded (8 of 10 slots, as this table had) saves 4.8 bytes a flow and sends one
//!   flow in twenty away from home: look-ups take a quarter longer, or need a stage more.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{Ordering, compiler_fence};

use super::cookie::{CookieLayout, OwnCookies};
use super::entry::{Entry, FlowState};
use super::free::FreeRing;
use super::hash::HashSeed;
use super::index::{Index, Vacancy};
use super::kept_links::KeptLinks;
use super::key::FlowKey;
use super::memory::Mapped;
use super::pages::PageKind;
use super::queue::Queue;

mod config;
mod hand;
mod header;
mod look_up;
mod made;
mod takeover;

pub use config::{Inserted, NewEntry, NotInserted, TableConfig, TableError};
pub(super) use header::Header;
pub use header::{Beat, LAYOUT, NotThisTable};
pub use look_up::{Guess, Probe, StaleCookie, Starts};
pub use made::{InFile, NotFound, file_bytes};
pub use takeover::{Keep, TakenOver};

/// An entry of one table. Good until its flow is removed; after that it may be another flow's, which the
/// key tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId(u32);

impl EntryId {
    /// The entry's number, below the table's capacity.
    #[inline]
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// What one worker with one generation of four bits leaves for entry numbers.
const MAX_CAPACITY: u32 = 1 << 27;

/// See the module.
pub struct Table {
    header: Mapped<Header>,
    index: Index,
    /// One more than there can be flows: the last holds none and has no flow's key, and any number that is
    /// no entry's leads to it.
    entries: Mapped<Entry>,
    free: FreeRing,
    half_open: Queue,
    ended: Queue,
    seed: HashSeed,
    cookies: CookieLayout,
    own_cookies: OwnCookies,
    /// Until they are asked for.
    kept_links: Option<KeptLinks>,
    pages: PageKind,
    bytes: usize,
}

impl Table {
    /// Makes an entry for a flow that has none, if need be in the place of one that may go (F-12).
    ///
    /// # Errors
    /// [`NotInserted`]; no flow was lost.
    pub fn insert(&mut self, hash: u64, key: &FlowKey, new: NewEntry) -> Result<Inserted, NotInserted> {
        let mut evicted = None;
        let seat = self.seat(hash, key)?;
        let (id, _) = self.take(seat, key, new, |_, gone| evicted = Some(gone.copy()));
        self.look_ahead(1);
        Ok(Inserted { id, evicted })
    }

    /// Finds the place for a flow that has no entry: the first half of [`insert`](Table::insert), after which nothing
    /// has changed.
    ///
    /// # Errors
    /// [`NotInserted`].
    #[inline(always)]
    pub fn seat(&mut self, hash: u64, key: &FlowKey) -> Result<Seat, NotInserted> {
        let home = self.index.home_of(hash);
        if home.may_have
            && let Some(id) = self.elsewhere(hash, key)
        {
            return Err(NotInserted::Exists(id));
        }
        let room = self.room().ok_or(NotInserted::Full)?;
        let vacancy = self.index.vacancy(home).ok_or(NotInserted::Full)?;
        Ok(Seat { room, vacancy })
    }

    /// Makes the entry in the place that was found for it; nothing else was done with the table in between. If a
    /// flow makes room, it is shown to `gone` as it was: what counted it (live flows of its target, users of its
    /// link-layer headers) must let it go.
    #[inline(always)]
    pub fn take(
        &mut self,
        Seat { room, vacancy }: Seat,
        key: &FlowKey,
        new: NewEntry,
        gone: impl FnOnce(EntryId, &Entry),
    ) -> (EntryId, &Entry) {
        let number = match room {
            Room::Unused(number) => {
                self.header.at_mut(0).changing.fresh = number + 1;
                self.prefetch_new(AHEAD);
                number
            }
            Room::Free(number) => {
                self.free.take(&mut self.header.at_mut(0).changing.free);
                self.prefetch_new(AHEAD);
                number
            }
            Room::Ended(number) => {
                gone(EntryId(number), self.entries.at(number));
                self.leave_bucket(number);
                self.ended.pop(&mut self.header.at_mut(0).changing.ended);
                number
            }
            Room::HalfOpen(number) => {
                gone(EntryId(number), self.entries.at(number));
                self.leave_bucket(number);
                self.half_open.pop(&mut self.header.at_mut(0).changing.half_open);
                number
            }
        };
        self.index.fill(&vacancy, number);
        (EntryId(number), self.begin(number, Some(key), new, vacancy.whereabouts()))
    }

    /// Ends the flow and begins a new one with the same key in its entry, under a new cookie (F-10, F-11).
    /// Does nothing to an entry that holds no flow.
    pub fn renew(&mut self, id: EntryId, new: NewEntry) {
        if self.entry(id).state() != FlowState::Free {
            self.leave_queue(id.0);
            self.begin(id.0, None, new, self.whereabouts(id.0));
        }
    }

    /// Moves a flow to another state, and with it into or out of the queues of those that may be evicted.
    /// [`FlowState::Free`] is not given this way, nor left: see [`remove`](Table::remove) and
    /// [`insert`](Table::insert). Acknowledgements are forgotten where the state changes.
    pub fn set_state(&mut self, id: EntryId, state: FlowState) {
        if state != FlowState::Free && self.entry(id).state() != FlowState::Free {
            self.shift(id.0, state);
        }
    }

    /// Forgets a flow. Does nothing to an entry that holds none.
    pub fn remove(&mut self, id: EntryId) {
        let EntryId(number) = id;
        if self.entry(id).state() != FlowState::Free {
            self.leave_index(number);
            self.shift(number, FlowState::Free);
            // No look-up that is under way shall take it for the flow's.
            self.entries.at_mut(number).set_key(&FlowKey::NONE);
            self.free.give(&mut self.header.at_mut(0).changing.free, number);
        }
    }

    /// Asks for the bucket that [`remove`](Table::remove) will change. The entry's own line should be there.
    #[inline(always)]
    pub fn prefetch_remove(&self, id: EntryId) {
        self.index.prefetch(self.seed.flow(self.entry(id).key()));
    }

    /// Asks for the line of the entry that a new flow will have: the next one's at 0, the one's after
    /// that at 1. [`insert`](Table::insert) does so for those that come right after it; this is for the first
    /// ones of a burst.
    #[inline(always)]
    pub fn prefetch_new(&self, ahead: u32) {
        let header = &self.header.at(0).changing;
        let fresh = header.fresh.saturating_add(ahead);
        if fresh < self.capacity() {
            self.entries.prefetch(fresh);
        } else if let Some(number) = self.free.peek(header.free, ahead) {
            self.entries.prefetch(number);
        }
    }

    /// Where flows have to make room, asks for what so many of them will need, which are not the next ones to go: their
    /// buckets, of some more the entries that name these, and of more yet the places that name those. To be called
    /// for as many new flows as are made, before them or after.
    #[inline(always)]
    pub fn look_ahead(&self, flows: u32) {
        let header = &self.header.at(0).changing;
        if header.counts[FlowState::Free.index()] > 0 {
            return;
        }
        let (queue, ends) = match self.ended.first(header.ended) {
            Some(_) => (&self.ended, header.ended),
            None => (&self.half_open, header.half_open),
        };
        for ahead in (PLACE_AHEAD..PLACE_AHEAD + flows).step_by(16) {
            queue.prefetch(ends, ahead);
        }
        queue.show(ends, BUCKET_AHEAD, flows, |number| {
            let entry = self.entries.at(number);
            self.index.prefetch_at(entry.whereabouts(), || self.seed.flow(entry.key()));
        });
        queue.show(ends, ENTRY_AHEAD, flows, |number| self.entries.prefetch(number));
    }

    /// How many entries are in this state.
    #[inline]
    #[must_use]
    pub fn count(&self, state: FlowState) -> u32 {
        self.header.at(0).changing.counts[state.index()]
    }

    /// How many flows have an entry, remembered ones among them.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u32 {
        self.capacity() - self.count(FlowState::Free)
    }

    /// Whether no flow has an entry.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many flows can have one.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.entries.len() - 1
    }

    /// What pages the table lies in.
    #[must_use]
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    /// What memory the table takes, its last page counted whole.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a new flow would find an entry, be it that of one which makes room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.room().is_some()
    }

    /// Shows so many half-open flows, the oldest first, which makes room first.
    pub fn oldest_half_open(&self, flows: u32, mut show: impl FnMut(EntryId, &Entry)) {
        let ends = self.header.at(0).changing.half_open;
        self.half_open.show_oldest(ends, flows, |number| show(EntryId(number), self.entries.at(number)));
    }

    /// The entry that the next new flow will have.
    #[inline(always)]
    fn room(&self) -> Option<Room> {
        let header = &self.header.at(0).changing;
        if header.counts[FlowState::Free.index()] == 0 {
            let ended = self.ended.first(header.ended).map(Room::Ended);
            return ended.or_else(|| self.half_open.first(header.half_open).map(Room::HalfOpen));
        }
        if header.fresh < self.capacity() {
            return Some(Room::Unused(header.fresh));
        }
        self.free.peek(header.free, 0).map(Room::Free)
    }

    /// Takes the slot of an entry that is in a queue out of the index, without the flow's hash.
    #[inline(always)]
    fn leave_bucket(&mut self, number: u32) {
        if !self.index.remove_at(self.entries.at(number).whereabouts(), number) {
            self.leave_index_elsewhere(number);
        }
    }

    /// Its slot was moved meanwhile.
    #[cold]
    #[inline(never)]
    fn leave_index_elsewhere(&mut self, number: u32) {
        self.leave_index(number);
    }

    /// Where the slot of the entry is, nearly always.
    fn whereabouts(&self, number: u32) -> u32 {
        self.index.whereabouts(self.seed.flow(self.entries.at(number).key()))
    }

    #[inline(always)]
    fn leave_index(&mut self, number: u32) {
        let hash = self.seed.flow(self.entries.at(number).key());
        self.index.remove(hash, number);
    }

    #[inline]
    fn leave_queue(&mut self, number: u32) {
        let entry = self.entries.at(number);
        let header = &mut self.header.at_mut(0).changing;
        let (queue, ends) = match entry.state() {
            FlowState::HalfOpen => (&mut self.half_open, &mut header.half_open),
            FlowState::Closed | FlowState::Expired | FlowState::Owing => (&mut self.ended, &mut header.ended),
            FlowState::Free | FlowState::Established | FlowState::Other => return,
        };
        queue.remove(ends, entry.place());
    }

    /// Starts a flow, which has another key or the same, in an entry that is in no queue.
    #[inline(always)]
    fn begin(&mut self, number: u32, key: Option<&FlowKey>, mut new: NewEntry, whereabouts: u32) -> &Entry {
        if new.state == FlowState::Free {
            new.state = FlowState::Other;
        }
        let place = self.enter_queue(number, new.state);
        let entry = self.entries.at_mut(number);
        let counts = &mut self.header.at_mut(0).changing.counts;
        counts[entry.state().index()] -= 1;
        counts[new.state.index()] += 1;
        // Before what is beside it is written, as a load that meets half a store waits for it.
        let generation = self.cookies.next_generation(entry.cookie_generation);
        entry.begin(generation, &new, place, whereabouts);
        if let Some(key) = key {
            // Last, as it is what makes the entry the flow's for whoever takes over from a writer that died here.
            compiler_fence(Ordering::SeqCst);
            entry.set_key(key);
        }
        entry
    }

    /// Takes an entry out of its state's queue and puts it into that of the new one.
    #[inline]
    fn shift(&mut self, number: u32, state: FlowState) {
        if self.entries.at(number).state() != state {
            self.leave_queue(number);
            self.enter(number, state);
        }
    }

    /// Gives a state to an entry that is in no queue.
    fn enter(&mut self, number: u32, state: FlowState) {
        let place = self.enter_queue(number, state);
        let whereabouts = match state {
            FlowState::HalfOpen | FlowState::Closed | FlowState::Expired | FlowState::Owing => {
                self.whereabouts(number)
            }
            FlowState::Free | FlowState::Established | FlowState::Other => 0,
        };
        let entry = self.entries.at_mut(number);
        let counts = &mut self.header.at_mut(0).changing.counts;
        counts[entry.state().index()] -= 1;
        counts[state.index()] += 1;
        entry.change_state(state, place, whereabouts);
    }

    /// Puts an entry, which is in none, into the queue of a state, if there is one; returns its place.
    #[inline(always)]
    fn enter_queue(&mut self, number: u32, state: FlowState) -> u32 {
        let header = &mut self.header.at_mut(0).changing;
        let (queue, ends) = match state {
            FlowState::HalfOpen => (&mut self.half_open, &mut header.half_open),
            FlowState::Closed | FlowState::Expired | FlowState::Owing => (&mut self.ended, &mut header.ended),
            FlowState::Free | FlowState::Established | FlowState::Other => return 0,
        };
        queue.push(ends, &mut self.entries, number)
    }
}

/// How many new flows ahead of the next one the entries are asked for.
const AHEAD: u32 = 8;

/// The same of flows that go, of their buckets, and of their places in the queue.
const BUCKET_AHEAD: u32 = 16;
const ENTRY_AHEAD: u32 = 96;
const PLACE_AHEAD: u32 = 192;

/// The place for a new flow.
#[derive(Clone, Copy)]
pub struct Seat {
    room: Room,
    vacancy: Vacancy,
}

/// Where a new flow's entry comes from.
#[derive(Clone, Copy)]
enum Room {
    /// Never used.
    Unused(u32),
    /// The first of the ring.
    Free(u32),
    /// The oldest flow that has ended.
    Ended(u32),
    /// The oldest half-open flow.
    HalfOpen(u32),
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("identity", &self.header.at(0).identity)
            .field("len", &self.len())
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
