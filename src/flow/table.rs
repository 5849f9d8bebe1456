//! The flow table of one worker.
//!
//! # Layout
//!
//! ```text
//! header (2 lines)   identity, list ends, counts, ageing hand
//! index              buckets of 64 bytes: ten 16-bit tags, ten 32-bit entry numbers    (index.rs)
//! slab               entries of 64 bytes, by number                                    (entry.rs)
//! ```
//!
//! All of it is one mapping (memory.rs) of a size fixed by the capacity: 64 bytes an entry and 8 to 16 of
//! index; 2^20 flows take 72 MiB, 2^23 take 576. Everything refers by number, nothing by address, and the
//! header says what it is, so that the same bytes could be a file that a restarted daemon takes over.
//!
//! # Cost
//!
//! A hit by hash reads two lines that depend on each other, bucket and entry; one hit in twenty (at full
//! load; fewer below) reads a second bucket. A miss reads one bucket, or two. A burst's lines are asked for
//! stage by stage ([`start`](Table::start), [`guess`](Table::guess), [`confirm`](Table::confirm);
//! [`find_burst`](Table::find_burst) is the three in a row), so that their waits overlap. A hit by
//! cookie reads the entry's line alone. An insertion fills a slot of the bucket that the look-up before it
//! has already fetched; if both of its buckets are full it looks at 60 more at most. Nothing is ever
//! resized, rehashed or scanned at once (F-13): the ageing hand looks at as many entries as it is told.
//!
//! # When it is full
//!
//! Three lists run through the entries: free ones, half-open flows, and those that have ended (closed,
//! expired, or reset and owing), each oldest first. A new flow takes a free entry; if there is none, the
//! oldest that has ended makes room, then the oldest half-open one (F-12), in constant time, and the caller is told which. Established
//! flows and live flows of other protocols are in none of the lists and are never pushed out, however many SYNs
//! arrive. If every entry holds such a flow the answer is [`NotInserted::Full`], and the caller
//! forwards without state. Entries are given out in the order in which they became free, so that an entry
//! rests as long as it can before its cookie's generation moves on (F-11).
#![forbid(unsafe_code)]

use std::fmt;

use thiserror::Error;

use super::cookie::{Cookie, CookieLayout, CookieSpace, DecodedCookie};
use super::entry::{Entry, FlowFlags, FlowState, LinkId, STATES};
use super::hash::HashSeed;
use super::index::{self, Bucket, Index};
use super::key::FlowKey;
use super::list::List;
use super::memory::{Carver, Mapped, PageKind, Pages};
use super::timers::{Ended, Timers};
use crate::id::{Millis, TargetId, WorkerId};

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

/// A look-up that has begun: which bucket, and what to look for in it. Eight bytes, to be kept beside the
/// packet from stage to stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe(index::Probe);

/// A look-up whose bucket has been read: which entry is probably the flow's. Twelve bytes.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    probe: index::Probe,
    number: u32,
}

impl Guess {
    /// No entry: what nothing has been looked up by.
    pub const NONE: Guess = Guess { probe: index::Probe::NONE, number: NO_ENTRY };

    /// Whether the bucket names an entry that may be the flow's. If not, the flow is most probably new.
    #[inline]
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.number != NO_ENTRY
    }
}

impl Default for Guess {
    fn default() -> Guess {
        Guess::NONE
    }
}

/// Beyond every entry's number.
const NO_ENTRY: u32 = u32::MAX;

/// What a new flow starts with.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry {
    /// [`FlowState::HalfOpen`], [`FlowState::Established`] or [`FlowState::Closed`] (a flow adopted without
    /// its SYN), or [`FlowState::Other`].
    pub state: FlowState,
    /// What is known of it.
    pub flags: FlowFlags,
    /// Where it goes.
    pub target: TargetId,
    /// Which life of the target's slot.
    pub target_generation: u16,
    /// Link-layer headers by direction.
    pub link: [LinkId; 2],
    /// The time of its first packet.
    pub now: Millis,
}

/// A flow that now has an entry.
#[derive(Debug)]
pub struct Inserted {
    /// Its entry.
    pub id: EntryId,
    /// The flow that made room for it, as it was: what counted it (live flows of its target, users of
    /// its link-layer headers) must let it go.
    pub evicted: Option<Entry>,
}

/// Why a flow has no new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInserted {
    /// It has one already: this.
    Exists(EntryId),
    /// Every entry holds a flow that must not be pushed out (F-12). Nothing was evicted.
    Full,
}

/// A cookie that is not that of a live or remembered flow of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleCookie;

/// What a table is made by.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// How many flows it holds; fixed from then on. From 1 to 2^27.
    pub capacity: u32,
    /// Whose table it is.
    pub worker: WorkerId,
    /// How many workers this node has, each with a table of the same capacity.
    pub workers: u8,
    /// What pages to ask for.
    pub pages: Pages,
    /// The secret its hash is keyed by: the same for all workers.
    pub seed: HashSeed,
}

/// Why there is no table.
#[derive(Debug, Error)]
pub enum TableError {
    /// The capacity cannot be.
    #[error("a flow table of {0} entries: must be between 1 and {MAX_CAPACITY}")]
    Capacity(u32),
    /// Cookies would not fit.
    #[error(transparent)]
    Cookie(#[from] CookieSpace),
    /// The kernel has no memory.
    #[error("no memory for a flow table of {capacity} entries ({bytes} bytes): {source}")]
    Memory {
        /// The capacity asked for.
        capacity: u32,
        /// What that takes.
        bytes: usize,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// What one worker with one generation of four bits leaves for entry numbers.
const MAX_CAPACITY: u32 = 1 << 27;

/// "flowgate" in ASCII.
const MAGIC: u64 = u64::from_be_bytes(*b"flowgate");
/// Changes with anything in the layout of header, index or entries.
const LAYOUT: u32 = 2;

/// Says what a region holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Identity {
    magic: u64,
    seed_id: u64,
    layout: u32,
    capacity: u32,
    buckets: u32,
    worker: u16,
    workers: u16,
}

/// All that changes beside index and entries.
#[repr(C, align(64))]
pub(super) struct Header {
    identity: Identity,
    free: List,
    half_open: List,
    ended: List,
    /// Entries below this number have been used; those from it on are free and in no list.
    fresh: u32,
    hand: u32,
    counts: [u32; STATES],
}

/// Look-ups that overlap in [`Table::find_burst`]: as many lines as a core has on the way at once, and
/// twice that.
const STAGE: usize = 32;

/// See the module.
pub struct Table {
    header: Mapped<Header>,
    index: Index,
    entries: Mapped<Entry>,
    seed: HashSeed,
    cookies: CookieLayout,
    worker: WorkerId,
    pages: PageKind,
}

impl Table {
    /// Maps and touches the table's memory. To be called on the core that will use it, so that it comes from
    /// that core's memory; it is the only call that may take long.
    ///
    /// # Errors
    /// If the capacity is out of range, cookies would have too few bits, or memory is short.
    pub fn new(config: TableConfig) -> Result<Table, TableError> {
        let TableConfig { capacity, worker, workers, pages, seed } = config;
        let buckets = match Index::buckets_for(capacity) {
            Some(buckets) if (1..=MAX_CAPACITY).contains(&capacity) => buckets,
            _ => return Err(TableError::Capacity(capacity)),
        };
        let cookies = CookieLayout::new(u32::from(workers), capacity)?;
        let lines = (size_of::<Header>() / 64) as u64 + u64::from(buckets) + u64::from(capacity);
        let bytes = usize::try_from(lines * 64).unwrap_or(usize::MAX);
        let memory = |source| TableError::Memory { capacity, bytes, source };
        let mut carver = Carver::map(bytes, pages).map_err(memory)?;
        let short = || memory(std::io::ErrorKind::OutOfMemory.into());
        let mut header = carver.carve::<Header>(1).ok_or_else(short)?;
        let index = Index::new(carver.carve::<Bucket>(buckets).ok_or_else(short)?);
        let entries = carver.carve::<Entry>(capacity).ok_or_else(short)?;
        let header_now = header.at_mut(0);
        header_now.identity = Identity {
            magic: MAGIC,
            seed_id: seed.id(),
            layout: LAYOUT,
            capacity,
            buckets,
            worker: u16::from(worker.0),
            workers: u16::from(workers),
        };
        header_now.counts[FlowState::Free.index()] = capacity;
        Ok(Table { header, index, entries, seed, cookies, worker, pages: carver.kind() })
    }

    /// The hash that the other calls take with a key.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        self.seed.flow(key)
    }

    /// First stage of a look-up: asks for the bucket's line.
    #[inline(always)]
    pub fn start(&self, hash: u64) -> Probe {
        Probe(self.index.start(hash))
    }

    /// Second stage: reads the bucket and asks for the line of the entry that is probably the flow's.
    #[inline(always)]
    pub fn guess(&self, Probe(probe): Probe) -> Guess {
        let number = self.index.guess(probe).unwrap_or(NO_ENTRY);
        if number != NO_ENTRY {
            self.entries.prefetch(number);
        }
        Guess { probe, number }
    }

    /// Third stage: the flow's entry, as [`find`](Table::find) would give it. Between the stages nothing
    /// may have been inserted or removed that the answer depends on; where a burst brings several packets of
    /// a new flow, [`insert`](Table::insert) says so.
    #[inline(always)]
    #[must_use]
    pub fn confirm(&self, guess: Guess, key: &FlowKey) -> Option<EntryId> {
        let Guess { probe, number } = guess;
        if number != NO_ENTRY && self.entries.at(number).key() == key {
            return Some(EntryId(number));
        }
        self.elsewhere(probe, key)
    }

    /// The entry of a flow that the first guess was wrong about: two flows of one bucket with one tag, or a
    /// flow away from home, or no flow.
    #[inline(never)]
    fn elsewhere(&self, probe: index::Probe, key: &FlowKey) -> Option<EntryId> {
        self.index.find(probe, |number| self.entries.at(number).key() == key).map(EntryId)
    }

    /// [`start`](Table::start), for who keeps the hash.
    #[inline(always)]
    pub fn prefetch_index(&self, hash: u64) {
        self.start(hash);
    }

    /// [`guess`](Table::guess), for who keeps the hash.
    #[inline(always)]
    pub fn prefetch_entry(&self, hash: u64) {
        self.guess(Probe(self.index.probe(hash)));
    }

    /// Asks for the line of the entry that a new flow will have: the next one's at 0, the one's after
    /// that at 1, as far as is known.
    #[inline]
    pub fn prefetch_new(&self, ahead: u32) {
        match self.room() {
            Some(Room::Unused(number)) => self.entries.prefetch(number.saturating_add(ahead)),
            Some(Room::Free(number) | Room::Evict(number)) => self.entries.prefetch(number),
            None => {}
        }
    }

    /// Asks for the bucket that [`remove`](Table::remove) will change. The entry's own line should be there.
    #[inline]
    pub fn prefetch_remove(&self, id: EntryId) {
        self.index.start(self.seed.flow(self.entry(id).key()));
    }

    /// The flow's entry. `hash` is that of `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, hash: u64, key: &FlowKey) -> Option<EntryId> {
        self.confirm(self.guess(Probe(self.index.probe(hash))), key)
    }

    /// [`find`](Table::find) for many keys, with their waits for memory overlapped. Looks up as many as the
    /// shortest of the three slices has.
    pub fn find_burst(&self, hashes: &[u64], keys: &[FlowKey], found: &mut [Option<EntryId>]) {
        let mut probes = [Probe::default(); STAGE];
        let mut guesses = [Guess::NONE; STAGE];
        let hashes = hashes.chunks(STAGE);
        for ((hashes, keys), found) in hashes.zip(keys.chunks(STAGE)).zip(found.chunks_mut(STAGE)) {
            for (probe, hash) in probes.iter_mut().zip(hashes) {
                *probe = self.start(*hash);
            }
            for (guess, probe) in guesses.iter_mut().zip(&probes).take(hashes.len()) {
                *guess = self.guess(*probe);
            }
            for ((found, key), guess) in found.iter_mut().zip(keys).zip(&guesses).take(hashes.len()) {
                *found = self.confirm(*guess, key);
            }
        }
    }

    /// The entry.
    #[inline]
    #[must_use]
    pub fn entry(&self, id: EntryId) -> &Entry {
        self.entries.at(id.0)
    }

    /// The entry, to change what is public in it. To be changed in place and never replaced as a whole.
    #[inline]
    pub fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        self.entries.at_mut(id.0)
    }

    /// Makes an entry for a flow that has none, if need be in the place of one that may go (F-12).
    ///
    /// # Errors
    /// [`NotInserted`]; no flow was lost.
    pub fn insert(&mut self, hash: u64, key: &FlowKey, new: NewEntry) -> Result<Inserted, NotInserted> {
        if let Some(id) = self.find(hash, key) {
            return Err(NotInserted::Exists(id));
        }
        let room = self.room().ok_or(NotInserted::Full)?;
        let vacancy = self.index.vacancy(self.index.probe(hash)).ok_or(NotInserted::Full)?;
        let (number, evicted) = match room {
            Room::Unused(number) => {
                self.header.at_mut(0).fresh = number + 1;
                (number, None)
            }
            Room::Free(number) => {
                self.header.at_mut(0).free.remove(&mut self.entries, number);
                (number, None)
            }
            Room::Evict(number) => {
                let evicted = self.entries.at(number).copy();
                self.remove(EntryId(number));
                self.header.at_mut(0).free.remove(&mut self.entries, number);
                (number, Some(evicted))
            }
        };
        self.index.fill(&vacancy, number);
        self.entries.at_mut(number).set_key(key);
        self.begin(number, new);
        // The next new flow's entry has rested, and is not in the cache.
        if let Some(Room::Free(next) | Room::Evict(next)) = self.room() {
            self.entries.prefetch(next);
        }
        Ok(Inserted { id: EntryId(number), evicted })
    }

    /// Ends the flow and begins a new one with the same key in its entry, under a new cookie (F-10, F-11).
    /// Does nothing to an entry that holds no flow.
    pub fn renew(&mut self, id: EntryId, new: NewEntry) {
        if self.entry(id).state() != FlowState::Free {
            self.shift(id.0, FlowState::Free);
            self.header.at_mut(0).free.remove(&mut self.entries, id.0);
            self.begin(id.0, new);
        }
    }

    /// Moves a flow to another state, and with it into or out of the lists of those that may be evicted.
    /// [`FlowState::Free`] is not given this way, nor left: see [`remove`](Table::remove) and
    /// [`insert`](Table::insert). Acknowledgements are forgotten where the state changes.
    pub fn set_state(&mut self, id: EntryId, state: FlowState) {
        if state != FlowState::Free && self.entry(id).state() != FlowState::Free {
            self.shift(id.0, state);
        }
    }

    /// Forgets a flow. Does nothing to an entry that holds none.
    pub fn remove(&mut self, id: EntryId) {
        let entry = self.entries.at(id.0);
        if entry.state() != FlowState::Free {
            let probe = self.index.probe(self.seed.flow(entry.key()));
            self.index.remove(probe, id.0);
            self.shift(id.0, FlowState::Free);
        }
    }

    /// The flow's cookie, the same until it is removed or renewed (F-11).
    #[inline]
    #[must_use]
    pub fn cookie(&self, id: EntryId) -> Cookie {
        self.cookies.flow(self.worker, self.entry(id).cookie_generation, id.0)
    }

    /// How this node's cookies are laid out.
    #[inline]
    #[must_use]
    pub fn cookies(&self) -> &CookieLayout {
        &self.cookies
    }

    /// Asks for the entry's line of a cookie.
    #[inline]
    pub fn prefetch_cookie(&self, cookie: Cookie) {
        if let DecodedCookie::Flow { entry, .. } = self.cookies.decode(cookie) {
            self.entries.prefetch(entry);
        }
    }

    /// The entry of the flow that has this cookie, without a hash (W-7). The caller compares the key with the
    /// packet's.
    ///
    /// # Errors
    /// If no flow of this table has it: stale, another worker's, stateless, or made up.
    #[inline]
    pub fn by_cookie(&self, cookie: Cookie) -> Result<EntryId, StaleCookie> {
        let DecodedCookie::Flow { worker, generation, entry: number } = self.cookies.decode(cookie) else {
            return Err(StaleCookie);
        };
        let entry = self.entries.at(number);
        let is_it = worker == self.worker
            && number < self.entries.len()
            && entry.cookie_generation == generation
            && entry.state() != FlowState::Free;
        if is_it { Ok(EntryId(number)) } else { Err(StaleCookie) }
    }

    /// Moves the ageing hand over `steps` entries and ends those whose time is over: established TCP becomes
    /// [`FlowState::Expired`], the rest is removed. `ended` is shown each as it was before.
    ///
    /// The hand must come round at least every 24 days, half of what [`Millis`] can tell apart.
    pub fn age(
        &mut self,
        steps: u32,
        now: Millis,
        timers: impl Fn(&Entry) -> Timers,
        mut ended: impl FnMut(&Entry, Ended),
    ) {
        let Header { fresh, mut hand, .. } = *self.header.at(0);
        for _ in 0..steps.min(fresh) {
            let number = if hand < fresh { hand } else { 0 };
            hand = number + 1;
            self.entries.prefetch(number + AGE_AHEAD);
            let entry = self.entries.at(number);
            if matches!(entry.state(), FlowState::Free | FlowState::Expired) {
                continue;
            }
            let Some(reason) = entry.expiry(now, &timers(entry)) else { continue };
            ended(entry, reason);
            match reason {
                Ended::TcpIdle => self.shift(number, FlowState::Expired),
                Ended::OtherIdle | Ended::Closed | Ended::HalfOpen | Ended::Owing => {
                    self.remove(EntryId(number));
                }
            }
        }
        self.header.at_mut(0).hand = hand;
    }

    /// Shows `steps` entries from number `from` on, those that hold a flow, and returns where to go on;
    /// `None` at the end. Flows that come or go between two calls may be missed.
    pub fn scan(&self, from: u32, steps: u32, mut show: impl FnMut(EntryId, &Entry)) -> Option<u32> {
        let fresh = self.header.at(0).fresh;
        let end = from.saturating_add(steps).min(fresh);
        for number in from..end {
            let entry = self.entries.at(number);
            if entry.state() != FlowState::Free {
                show(EntryId(number), entry);
            }
        }
        (end < fresh).then_some(end)
    }

    /// How many entries are in this state.
    #[inline]
    #[must_use]
    pub fn count(&self, state: FlowState) -> u32 {
        self.header.at(0).counts[state.index()]
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
        self.entries.len()
    }

    /// What pages the table lies in.
    #[must_use]
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    /// The entry that the next new flow will have.
    #[inline]
    fn room(&self) -> Option<Room> {
        let header = self.header.at(0);
        if header.fresh < self.capacity() {
            return Some(Room::Unused(header.fresh));
        }
        let oldest = || header.ended.first().or(header.half_open.first());
        header.free.first().map(Room::Free).or_else(|| oldest().map(Room::Evict))
    }

    /// Starts a flow in an entry that is free and in no list.
    #[inline]
    fn begin(&mut self, number: u32, new: NewEntry) {
        let entry = self.entries.at_mut(number);
        entry.last_seen = new.now;
        entry.target = new.target;
        entry.target_generation = new.target_generation;
        entry.link = new.link;
        entry.flags = new.flags;
        entry.cookie_generation = self.cookies.next_generation(entry.cookie_generation);
        let state = if new.state == FlowState::Free { FlowState::Other } else { new.state };
        self.enter(number, FlowState::Free, state);
    }

    /// Takes an entry out of its state's list and puts it into that of the new one.
    #[inline]
    fn shift(&mut self, number: u32, state: FlowState) {
        let before = self.entries.at(number).state();
        if before == state {
            return;
        }
        if let Some(list) = self.header.at_mut(0).list(before) {
            list.remove(&mut self.entries, number);
        }
        self.enter(number, before, state);
    }

    #[inline]
    fn enter(&mut self, number: u32, before: FlowState, state: FlowState) {
        let header = self.header.at_mut(0);
        header.counts[before.index()] -= 1;
        header.counts[state.index()] += 1;
        self.entries.at_mut(number).change_state(state);
        if let Some(list) = header.list(state) {
            list.push_last(&mut self.entries, number);
        }
    }
}

/// How many entries ahead of the hand are asked for.
const AGE_AHEAD: u32 = 4;

/// Where a new flow's entry comes from.
enum Room {
    /// Never used.
    Unused(u32),
    /// The first of the free list.
    Free(u32),
    /// A flow that may go.
    Evict(u32),
}

impl Header {
    /// The list that entries in this state are in.
    #[inline]
    fn list(&mut self, state: FlowState) -> Option<&mut List> {
        match state {
            FlowState::Free => Some(&mut self.free),
            FlowState::HalfOpen => Some(&mut self.half_open),
            FlowState::Closed | FlowState::Expired | FlowState::Owing => Some(&mut self.ended),
            FlowState::Established | FlowState::Other => None,
        }
    }
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
