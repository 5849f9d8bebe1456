//! Looking up: by hash in three stages over a burst, and by cookie.
#![forbid(unsafe_code)]

use super::{EntryId, Table};
use crate::flow::cookie::{Cookie, CookieLayout, OwnCookies};
use crate::flow::entry::{Entry, FlowState};
use crate::flow::index::{Homes, NO_ENTRY};
use crate::flow::key::FlowKey;
use crate::flow::memory::View;

/// A look-up that has begun. Eight bytes, to be kept beside the packet from stage to stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probe {
    hash: u64,
}

/// Which entry is probably the flow's, by what its bucket says.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    number: u32,
}

impl Guess {
    /// No entry: what nothing has been looked up by.
    pub const NONE: Guess = Guess { number: NO_ENTRY };

    /// This entry, whatever the bucket said.
    #[inline]
    #[must_use]
    pub fn of(id: EntryId) -> Guess {
        Guess { number: id.0 }
    }

    /// Whether it is this entry.
    #[inline]
    #[must_use]
    pub fn is(&self, id: EntryId) -> bool {
        self.number == id.0
    }

    /// That entry, once it is known to be the flow's; `None` if there is none.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> Option<EntryId> {
        self.is_some().then_some(EntryId(self.number))
    }

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

impl OwnCookies {
    /// The cookie of the flow in this entry of the table.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, id: EntryId, entry: &Entry) -> Cookie {
        self.cookie(entry.cookie_generation, id.0)
    }
}

impl Probe {
    /// Of no flow.
    pub const NONE: Probe = Probe { hash: 0 };

    /// The flow's hash.
    #[inline(always)]
    #[must_use]
    pub fn hash(self) -> u64 {
        self.hash
    }
}

/// The first two stages of look-ups, with all that they need by value: a loop keeps it in registers, whatever it writes.
#[derive(Clone, Copy)]
pub struct Starts<'a> {
    homes: Homes<'a>,
    entries: View<'a, Entry>,
}

impl Starts<'_> {
    /// See [`Table::start`].
    #[inline(always)]
    pub fn start(self, hash: u64) -> Probe {
        self.homes.prefetch(hash);
        Probe { hash }
    }

    /// As [`Table::guess`]. If it is none, and `may_be_away` was called, then [`Table::guess_away`] may know better.
    #[inline(always)]
    pub fn guess_at_home(self, Probe { hash }: Probe, may_be_away: impl FnOnce()) -> Guess {
        let number = self.homes.guess(hash, may_be_away);
        self.entries.prefetch(number);
        Guess { number }
    }
}

/// A cookie that is not that of a live or remembered flow of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleCookie;

/// Look-ups that overlap in [`Table::find_burst`]: as many lines as a core has on the way at once, and
/// twice that.
const STAGE: usize = 32;

impl Table {
    /// The hash that the other calls take with a key.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        self.seed.flow(key)
    }

    /// The same of a key that is known to be of IPv4.
    #[inline(always)]
    #[must_use]
    pub fn hash_of_v4(&self, key: &FlowKey) -> u64 {
        self.seed.flow_of_v4(key)
    }

    /// What begins many look-ups.
    #[inline(always)]
    #[must_use]
    pub fn starts(&self) -> Starts<'_> {
        Starts { homes: self.index.homes(), entries: self.entries.view() }
    }

    /// First stage of a look-up: asks for the bucket's line.
    #[inline(always)]
    pub fn start(&self, hash: u64) -> Probe {
        self.starts().start(hash)
    }

    /// Second stage: reads the bucket and asks for the line of the entry that is probably the flow's.
    #[inline(always)]
    pub fn guess(&self, probe: Probe) -> Guess {
        self.starts().guess_at_home(probe, || self.prefetch_away(probe))
    }

    /// Asks for what [`guess_away`](Table::guess_away) reads.
    #[cold]
    pub fn prefetch_away(&self, Probe { hash }: Probe) {
        self.index.prefetch_other(hash);
    }

    /// The guess for a flow that is not at home, by its other bucket.
    #[inline(never)]
    pub fn guess_away(&self, Probe { hash }: Probe) -> Guess {
        let number = self.index.guess_away(hash);
        self.entries.prefetch(number);
        Guess { number }
    }

    /// Third stage: the flow's entry as it is now, whatever was inserted or removed since the stages
    /// before.
    #[inline(always)]
    #[must_use]
    pub fn confirm(&self, probe: Probe, guess: Guess, key: &FlowKey) -> Option<EntryId> {
        let Guess { number } = guess;
        let is_it = self.entries.at(number).key() == key;
        if is_it { Some(EntryId(number)) } else { self.elsewhere(probe.hash, key) }
    }

    /// As [`confirm`](Table::confirm), with the entry to be changed as by [`entry_mut`](Table::entry_mut);
    /// but a flow that the guess was wrong about is not looked for.
    #[inline(always)]
    pub fn guessed_mut(&mut self, Guess { number }: Guess, key: &FlowKey) -> Option<(EntryId, &mut Entry)> {
        let entry = self.entries.at_mut(number);
        if entry.key() == key { Some((EntryId(number), entry)) } else { None }
    }

    /// What makes cookies of entries, without the table.
    #[inline(always)]
    #[must_use]
    pub fn own_cookies(&self) -> OwnCookies {
        self.own_cookies
    }

    /// The entry of a flow that the first guess was wrong about: two flows of one bucket with one tag, or a
    /// flow away from home, or no flow.
    #[inline(never)]
    pub(super) fn elsewhere(&self, hash: u64, key: &FlowKey) -> Option<EntryId> {
        self.index.find(hash, |number| self.entries.at(number).key() == key).map(EntryId)
    }

    /// The flow's entry. `hash` is that of `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, hash: u64, key: &FlowKey) -> Option<EntryId> {
        let probe = Probe { hash };
        self.confirm(probe, self.guess(probe), key)
    }

    /// [`find`](Table::find) for many keys, with their waits for memory overlapped. Looks up as many as the
    /// shortest of the three slices has.
    #[inline]
    pub fn find_burst(&self, hashes: &[u64], keys: &[FlowKey], found: &mut [Option<EntryId>]) {
        let hashes = hashes.chunks(STAGE);
        for ((hashes, keys), found) in hashes.zip(keys.chunks(STAGE)).zip(found.chunks_mut(STAGE)) {
            for hash in hashes {
                self.start(*hash);
            }
            self.find_started(hashes, keys, found);
        }
    }

    /// As [`find_burst`](Table::find_burst), and hashes the keys itself, each while the buckets of those
    /// before are on the way. What they are is left in `hashes`, for insertions that may follow.
    #[inline]
    pub fn hash_and_find_burst(&self, keys: &[FlowKey], hashes: &mut [u64], found: &mut [Option<EntryId>]) {
        let hashes = hashes.chunks_mut(STAGE);
        for ((hashes, keys), found) in hashes.zip(keys.chunks(STAGE)).zip(found.chunks_mut(STAGE)) {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
                self.start(*hash);
            }
            self.find_started(hashes, keys, found);
        }
    }

    /// The second and the third stage of no more than [`STAGE`] look-ups.
    #[inline(always)]
    fn find_started(&self, hashes: &[u64], keys: &[FlowKey], found: &mut [Option<EntryId>]) {
        let mut numbers = [NO_ENTRY; STAGE];
        for (number, hash) in numbers.iter_mut().zip(hashes) {
            *number = self.guess(Probe { hash: *hash }).number;
        }
        for (((found, key), hash), number) in found.iter_mut().zip(keys).zip(hashes).zip(numbers) {
            *found = self.confirm(Probe { hash: *hash }, Guess { number }, key);
        }
    }

    /// The entry.
    #[inline(always)]
    #[must_use]
    pub fn entry(&self, id: EntryId) -> &Entry {
        self.entries.at(id.0)
    }

    /// The entry, to change what is public in it. To be changed in place and never replaced as a whole.
    #[inline(always)]
    pub fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        self.entries.at_mut(id.0)
    }

    /// The flow's cookie, the same until it is removed or renewed (F-11).
    #[inline(always)]
    #[must_use]
    pub fn cookie(&self, id: EntryId) -> Cookie {
        self.own_cookies.of(id, self.entry(id))
    }

    /// How this node's cookies are laid out.
    #[inline]
    #[must_use]
    pub fn cookies(&self) -> &CookieLayout {
        &self.cookies
    }

    /// Asks for the entry's line of a cookie.
    #[inline(always)]
    pub fn prefetch_cookie(&self, cookie: Cookie) {
        self.entries.prefetch(self.own_cookies.entry(cookie));
    }

    /// The entry of the flow that has this cookie, without a hash (W-7). The caller compares the key with the
    /// packet's.
    ///
    /// # Errors
    /// If no flow of this table has it: stale, another worker's, stateless, or made up.
    #[inline(always)]
    pub fn by_cookie(&self, cookie: Cookie) -> Result<EntryId, StaleCookie> {
        let number = self.own_cookies.entry(cookie);
        let entry = self.entries.at(number);
        let is_it =
            self.own_cookies.is_of(cookie, entry.cookie_generation) && entry.state() != FlowState::Free;
        if is_it { Ok(EntryId(number)) } else { Err(StaleCookie) }
    }
}
