//! What a worker knows of datagrams that come in fragments (M-4): for each, which flow its first fragment
//! named, or, when later fragments came before it, those fragments, waiting. No datagram is put together
//! here: fragments go on one by one, to where their first goes.
//!
//! All memory is taken at the start. A datagram is known for [`PATIENCE_MS`] after its last fragment, and a
//! fragment waits no longer than that for the first. Datagrams whose first is known and those that wait for
//! it have room of their own, so that a flood of fragments without a first pushes out only its like; when
//! room is needed the oldest goes. Called by the pipeline; a look-up costs a walk of a short chain
//! of a table under a secret seed, and every call is bounded.

use std::collections::VecDeque;

use super::counters::{DropReason, WorkerCounters};
use crate::flow::{Direction, FlowKey};
use crate::id::{EndpointId, Millis, PortId};
use crate::wire::packet::{IpVersion, Packet, protocol};

/// How long a datagram's fragments may be apart. They leave their sender back to back; a second is far more
/// than paths reorder by, and far less than the 15 s and more for which hosts wait (RFC 1122 3.3.2), whose
/// memory this is not.
pub const PATIENCE_MS: u32 = 1000;

/// Datagrams whose first fragment is known: at 1 Gbit/s of datagrams of two fragments each, some 50 ms' worth.
const KNOWN: usize = 4096;

/// Datagrams whose first fragment is missing.
const WAITING: usize = 256;

/// Packets that wait, in all. Each keeps a buffer of the worker's pool, which has as many more for it.
pub const HELD: usize = 512;

/// Packets of one datagram that wait: all but the first of the longest datagram at an MTU of 1,500
/// (65,515 / 1,480 bytes, less one), as some senders begin with the last.
const HELD_OF_ONE: u8 = 44;

/// Datagrams in one chain at most. Under a secret seed none of the chains of a full table is half as long; should
/// somebody know to make one all the same, the walk along it stays short, and they push out what is of their own making.
const CHAIN: usize = 32;

/// Datagrams that [`Fragments::expire`] looks at in a round at most: each frees up to 44 buffers.
const EXPIRE_STEPS: usize = 4;

/// End of a chain or list.
const NIL: u16 = u16::MAX;

/// A datagram's name: endpoint, IP version, addresses, identification and, in IPv4 only (RFC 791 3.2, RFC 8200
/// 4.5), protocol. A flow key whose ports are the halves of the identification says all of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The same for a datagram that goes the other way with the halves exchanged.
    pub key: FlowKey,
    direction: Direction,
}

impl Datagram {
    /// The datagram of the fragment `packet` with this identification.
    pub fn of(endpoint: EndpointId, packet: &Packet, id: u32) -> Datagram {
        let protocol = match packet.version {
            IpVersion::V4 => packet.protocol,
            IpVersion::V6 => protocol::FRAGMENT,
        };
        #[expect(clippy::cast_possible_truncation, reason = "the halves, one by one")]
        let (high, low) = ((id >> 16) as u16, id as u16);
        let (key, direction) =
            FlowKey::new(endpoint, packet.version.number(), protocol, packet.src, packet.dst, high, low);
        Datagram { key, direction }
    }
}

/// What a first fragment says of all fragments of its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// The protocol: a later IPv6 fragment may name an extension header instead.
    pub protocol: u8,
    /// Source port, or identifier of an ICMP echo.
    pub src_port: u16,
    /// Destination port, or identifier of an ICMP echo.
    pub dst_port: u16,
}

impl First {
    /// What `packet`, a first fragment, says.
    pub fn of(packet: &Packet) -> First {
        First { protocol: packet.protocol, src_port: packet.src_port, dst_port: packet.dst_port }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Known(First),
    /// The packets that wait, oldest and newest, and how many they are.
    Waiting {
        oldest: u16,
        newest: u16,
        count: u8,
    },
}

#[derive(Clone, Copy)]
struct Record {
    datagram: Datagram,
    state: State,
    bucket: u16,
    /// Of a known datagram its last fragment, of a waiting one its first that came.
    at: Millis,
    /// Next in the bucket's chain, or free record.
    next: u16,
    older: u16,
    newer: u16,
}

/// A list of records by age.
#[derive(Clone, Copy)]
struct Ages {
    oldest: u16,
    newest: u16,
    count: usize,
}

const EMPTY: Ages = Ages { oldest: NIL, newest: NIL, count: 0 };

/// A packet that waits for its datagram's first fragment.
struct Held<B> {
    packet: Option<(PortId, B)>,
    next: u16,
}

/// Packets that waited and may go on; taken one by one by [`Fragments::take`].
#[derive(Debug)]
#[must_use]
pub struct Released(u16);

/// A worker's datagrams in fragments.
pub struct Fragments<B> {
    records: Box<[Record]>,
    heads: Box<[u16]>,
    free: u16,
    known: Ages,
    waiting: Ages,
    held: Box<[Held<B>]>,
    held_free: u16,
    /// What was dropped while it waited, if somebody watches: has room for all that may wait.
    lost: VecDeque<Lost<B>>,
    watched: bool,
}

/// A fragment that was dropped while it waited.
#[derive(Debug)]
pub struct Lost<B> {
    /// Where it came in.
    pub port: PortId,
    /// The frame.
    pub packet: B,
    /// Why it was dropped, as it was counted.
    pub reason: DropReason,
}

impl<B> Default for Fragments<B> {
    fn default() -> Fragments<B> {
        let (key, direction) = FlowKey::new(EndpointId(0), 0, 0, 0, 0, 0, 0);
        let blank = |next| Record {
            datagram: Datagram { key, direction },
            state: State::Free,
            bucket: 0,
            at: Millis(0),
            next,
            older: NIL,
            newer: NIL,
        };
        Fragments {
            records: chain(KNOWN + WAITING).map(blank).collect(),
            heads: vec![NIL; (KNOWN + WAITING).next_power_of_two()].into(),
            free: 0,
            known: EMPTY,
            waiting: EMPTY,
            held: chain(HELD).map(|next| Held { packet: None, next }).collect(),
            held_free: 0,
            lost: VecDeque::with_capacity(HELD),
            watched: false,
        }
    }
}

/// The places after each of `count`, the last one's being none.
fn chain(count: usize) -> impl Iterator<Item = u16> {
    (1..=count).map(move |next| u16::try_from(next).ok().filter(|_| next < count).unwrap_or(NIL))
}

impl<B> Fragments<B> {
    /// How many packets wait.
    pub fn held(&self) -> usize {
        self.held.iter().filter(|held| held.packet.is_some()).count()
    }

    /// A first fragment: its datagram is known from now on, by the newest first if there are several (an
    /// identification is used again). What waited for it is released, in the order in which it came.
    pub fn first(
        &mut self,
        hash: u64,
        datagram: &Datagram,
        first: First,
        now: Millis,
        counters: &WorkerCounters,
    ) -> Released {
        let mut released = Released(NIL);
        let found = self.find(hash, datagram).or_else(|| {
            if self.known.count >= KNOWN {
                self.forget(self.known.oldest, DropReason::FragmentFull, counters);
            }
            self.shorten(hash, counters);
            self.insert(hash, datagram)
        });
        let Some(at) = found else { return released };
        if let State::Waiting { oldest, .. } = self.state(at) {
            released = Released(oldest);
            if self.known.count >= KNOWN {
                self.forget(self.known.oldest, DropReason::FragmentFull, counters);
            }
        }
        self.leave_ages(at);
        self.enter(at, State::Known(first), now);
        released
    }

    /// What the first fragment of a later one said, if it has come; nothing is noted.
    pub fn seen(&self, hash: u64, datagram: &Datagram, now: Millis) -> Option<First> {
        let at = self.find(hash, datagram)?;
        let State::Known(first) = self.state(at) else { return None };
        self.records.get(usize::from(at)).filter(|record| now.since(record.at) <= PATIENCE_MS).map(|_| first)
    }

    /// What the first fragment of a later one said, if it has come.
    pub fn later(&mut self, hash: u64, datagram: &Datagram, now: Millis) -> Option<First> {
        let at = self.find(hash, datagram)?;
        let State::Known(first) = self.state(at) else { return None };
        if self.records.get(usize::from(at)).is_none_or(|record| now.since(record.at) > PATIENCE_MS) {
            self.unlink(at);
            return None;
        }
        self.leave_ages(at);
        self.enter(at, State::Known(first), now);
        Some(first)
    }

    /// Lets a later fragment wait for its first. What there is no room for is dropped and counted.
    pub fn hold(
        &mut self,
        hash: u64,
        datagram: &Datagram,
        (port, packet): (PortId, B),
        now: Millis,
        counters: &WorkerCounters,
    ) {
        let found = self.find(hash, datagram).or_else(|| {
            if self.waiting.count >= WAITING {
                self.forget(self.waiting.oldest, DropReason::FragmentFull, counters);
            }
            self.shorten(hash, counters);
            let at = self.insert(hash, datagram)?;
            self.enter(at, State::Waiting { oldest: NIL, newest: NIL, count: 0 }, now);
            Some(at)
        });
        let Some(at) = found else { return counters.dropped(DropReason::FragmentFull) };
        // The oldest datagrams make room, but not this one.
        while self.held_free == NIL && self.waiting.oldest != at && self.waiting.oldest != NIL {
            self.forget(self.waiting.oldest, DropReason::FragmentFull, counters);
        }
        let State::Waiting { oldest, newest, count } = self.state(at) else {
            return counters.dropped(DropReason::FragmentFull);
        };
        let slot = self.held_free;
        let Some(held) = self.held.get_mut(usize::from(slot)).filter(|_| count < HELD_OF_ONE) else {
            return counters.dropped(DropReason::FragmentFull);
        };
        self.held_free = held.next;
        *held = Held { packet: Some((port, packet)), next: NIL };
        match self.held.get_mut(usize::from(newest)) {
            Some(before) => before.next = slot,
            None => debug_assert_eq!(newest, NIL),
        }
        let oldest = if count == 0 { slot } else { oldest };
        if let Some(record) = self.records.get_mut(usize::from(at)) {
            record.state = State::Waiting { oldest, newest: slot, count: count + 1 };
        }
        counters.fragments_held.add(1);
        counters.fragments_waiting.add(1);
    }

    /// The next of the released packets, and the port that it came in by.
    pub fn take(&mut self, released: &mut Released, counters: &WorkerCounters) -> Option<(PortId, B)> {
        let held = self.held.get_mut(usize::from(released.0))?;
        let packet = held.packet.take();
        let next = std::mem::replace(&mut held.next, self.held_free);
        self.held_free = std::mem::replace(&mut released.0, next);
        counters.fragments_waiting.sub(1);
        packet
    }

    /// Drops what has waited too long and forgets what is over, a bounded number a call.
    #[inline]
    pub fn expire(&mut self, now: Millis, counters: &WorkerCounters) {
        if self.waiting.count + self.known.count > 0 {
            self.expire_some(now, counters);
        }
    }

    #[cold]
    fn expire_some(&mut self, now: Millis, counters: &WorkerCounters) {
        for _ in 0..EXPIRE_STEPS {
            for oldest in [self.waiting.oldest, self.known.oldest] {
                let over = self
                    .records
                    .get(usize::from(oldest))
                    .is_some_and(|record| now.since(record.at) > PATIENCE_MS);
                if over {
                    self.forget(oldest, DropReason::FragmentTimeout, counters);
                }
            }
        }
    }

    /// Whether what is dropped while it waits is kept for [`Fragments::next_lost`].
    pub fn watch(&mut self, watched: bool) {
        self.watched = watched;
        if !watched {
            self.lost.clear();
        }
    }

    /// The next of what was dropped while it waited. Whoever watches takes all of it after each call.
    pub fn next_lost(&mut self) -> Option<Lost<B>> {
        self.lost.pop_front()
    }

    /// How many those are, by reason.
    pub fn lost_by_reason(&self) -> [u64; DropReason::COUNT] {
        let mut count = [0; DropReason::COUNT];
        self.lost.iter().for_each(|lost| count[lost.reason.index()] += 1);
        count
    }

    /// Drops all that waits, as the worker stops (C-1).
    pub fn give_up(&mut self, counters: &WorkerCounters) {
        while self.waiting.oldest != NIL {
            self.forget(self.waiting.oldest, DropReason::FragmentTimeout, counters);
        }
    }

    // ---------------------------------------------------------------- records

    fn state(&self, at: u16) -> State {
        self.records.get(usize::from(at)).map_or(State::Free, |record| record.state)
    }

    fn bucket(&self, hash: u64) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of heads")]
        let bucket = hash as u16 & (self.heads.len() - 1) as u16;
        bucket
    }

    fn find(&self, hash: u64, datagram: &Datagram) -> Option<u16> {
        let mut at = *self.heads.get(usize::from(self.bucket(hash)))?;
        while let Some(record) = self.records.get(usize::from(at)) {
            if record.datagram == *datagram {
                return Some(at);
            }
            at = record.next;
        }
        None
    }

    /// Makes room in a chain that is as long as it may be: its last record goes, which has been there for the longest.
    fn shorten(&mut self, hash: u64, counters: &WorkerCounters) {
        let mut at = self.heads.get(usize::from(self.bucket(hash))).copied().unwrap_or(NIL);
        let (mut last, mut len) = (NIL, 0);
        while let Some(record) = self.records.get(usize::from(at)) {
            (last, at) = (at, record.next);
            len += 1;
        }
        if len >= CHAIN {
            self.forget(last, DropReason::FragmentFull, counters);
        }
    }

    /// A record in its bucket's chain, in no list of ages yet.
    fn insert(&mut self, hash: u64, datagram: &Datagram) -> Option<u16> {
        let bucket = self.bucket(hash);
        let at = self.free;
        let head = self.heads.get_mut(usize::from(bucket))?;
        let record = self.records.get_mut(usize::from(at))?;
        self.free = record.next;
        record.datagram = *datagram;
        record.bucket = bucket;
        record.next = std::mem::replace(head, at);
        Some(at)
    }

    /// Puts a record that is in no list of ages at the young end of its state's.
    fn enter(&mut self, at: u16, state: State, now: Millis) {
        let ages = match state {
            State::Free => return,
            State::Known(_) => &mut self.known,
            State::Waiting { .. } => &mut self.waiting,
        };
        let before = std::mem::replace(&mut ages.newest, at);
        ages.count += 1;
        if before == NIL {
            ages.oldest = at;
        } else if let Some(before) = self.records.get_mut(usize::from(before)) {
            before.newer = at;
        }
        if let Some(record) = self.records.get_mut(usize::from(at)) {
            (record.state, record.at, record.older, record.newer) = (state, now, before, NIL);
        }
    }

    /// Takes a record out of its list of ages; its state is free until it enters another.
    fn leave_ages(&mut self, at: u16) {
        let Some(record) = self.records.get_mut(usize::from(at)) else { return };
        let (older, newer) = (record.older, record.newer);
        let ages = match std::mem::replace(&mut record.state, State::Free) {
            State::Free => return,
            State::Known(_) => &mut self.known,
            State::Waiting { .. } => &mut self.waiting,
        };
        ages.count -= 1;
        match self.records.get_mut(usize::from(older)) {
            Some(older) => older.newer = newer,
            None => ages.oldest = newer,
        }
        match self.records.get_mut(usize::from(newer)) {
            Some(newer) => newer.older = older,
            None => ages.newest = older,
        }
    }

    /// Takes a record out of its list and its chain and frees it.
    fn unlink(&mut self, at: u16) {
        self.leave_ages(at);
        let Some(&Record { bucket, next: behind, .. }) = self.records.get(usize::from(at)) else { return };
        let Some(head) = self.heads.get_mut(usize::from(bucket)) else { return };
        if *head == at {
            *head = behind;
        } else {
            let mut before = *head;
            while let Some(record) = self.records.get_mut(usize::from(before)) {
                if record.next == at {
                    record.next = behind;
                    break;
                }
                before = record.next;
            }
        }
        if let Some(record) = self.records.get_mut(usize::from(at)) {
            record.next = std::mem::replace(&mut self.free, at);
        }
    }

    /// Frees a record; what waits there is dropped.
    fn forget(&mut self, at: u16, reason: DropReason, counters: &WorkerCounters) {
        if let State::Waiting { oldest, .. } = self.state(at) {
            let mut dropped = Released(oldest);
            while let Some((port, packet)) = self.take(&mut dropped, counters) {
                counters.dropped(reason);
                if self.watched && self.lost.len() < HELD {
                    self.lost.push_back(Lost { port, packet, reason });
                }
            }
        }
        self.unlink(at);
    }
}

#[cfg(test)]
mod tests;
