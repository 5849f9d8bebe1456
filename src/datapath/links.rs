//! The link-layer headers in use on `wire` endpoints, each kept once.
//!
//! A packet goes to its appliance without its Ethernet header and must leave by the endpoint's other
//! port with the addresses and VLAN tags that its sender gave it (O-4). A flow entry has no room for
//! two such headers, but a wire joins few stations: so each distinct pair (port, header) is kept once
//! here and a flow holds its 16-bit [`LinkId`] for each direction. A packet whose header is the one
//! its flow already knows, which is nearly every packet, costs one comparison.
//!
//! A header is counted by the flows that hold it and its slot is given away only when none does,
//! oldest first. A slot's generation lets an answer without state (F-12) find out that its header is
//! gone. All memory is taken at the start; every operation touches a bounded number of slots on
//! average, as the chains of a hash table under load one are short.

pub use crate::flow::MAX_HEADER;
use crate::flow::{HashSeed, KeptLinks, LinkId};
use crate::id::PortId;
use crate::wire::ethernet::HEADER_LEN;

mod kept;

/// End of a chain or list. Slot 0 is never used, as `LinkId(0)` means "none".
const NIL: u16 = 0;

/// Chains looked through at most, so that crafted addresses cannot make a look-up long.
const MAX_CHAIN: usize = 32;

#[derive(Clone, Copy, Default)]
struct Slot {
    header: [u8; MAX_HEADER],
    len: u8,
    generation: u8,
    port: PortId,
    /// Next in the hash chain.
    next: u16,
    /// Neighbours in the list of slots that no flow holds.
    idle_next: u16,
    idle_previous: u16,
    in_use: bool,
    flows: u32,
}

/// A header without tags and its port in two words, so that two are compared at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain([u64; 2]);

impl Plain {
    /// No header: no port has such a number.
    const NONE: Plain = Plain([u64::MAX; 2]);

    #[inline(always)]
    fn new(port: PortId, header: &[u8; HEADER_LEN]) -> Plain {
        let [front, back] = [header.first_chunk(), header.last_chunk()]
            .map(|word| word.map_or(0, |word: &[u8; 8]| u64::from_le_bytes(*word)));
        // The last six bytes: the two before them are in the first word.
        Plain([front, back >> 16 | u64::from(port.0) << 48])
    }

    /// One of [`RECENT`] places.
    #[inline(always)]
    fn place(self) -> usize {
        let Plain([front, back]) = self;
        // The last bytes of both addresses and the port tell stations apart mostly.
        let mixed = front >> 40 ^ back >> 24 ^ back >> 48;
        #[expect(clippy::cast_possible_truncation, reason = "a place among few is taken of it")]
        let place = mixed as usize % RECENT;
        place
    }

    /// The port that packets with this header arrive by.
    #[inline(always)]
    pub fn port(self) -> PortId {
        let Plain([_, back]) = self;
        PortId((back >> 48) as u16)
    }

    /// Puts the header into its place by two stores that overlap. Were it put together elsewhere first, the copy would
    /// have to wait until both stores are done.
    #[inline(always)]
    pub fn write(self, header: &mut [u8; HEADER_LEN]) {
        let Plain([front, back]) = self;
        if let Some(place) = header.last_chunk_mut() {
            *place = (back << 16 | front >> 48).to_le_bytes();
        }
        if let Some(place) = header.first_chunk_mut() {
            *place = front.to_le_bytes();
        }
    }
}

/// Headers without tags that are found without a look-up; a power of two.
const RECENT: usize = 16;

/// The table of headers of one worker.
pub struct LinkTable {
    slots: Box<[Slot]>,
    /// The slots' headers once more, where they have no tags and are in use.
    plain: Box<[Plain; 1 << 16]>,
    /// Headers without tags that were interned lately, by [`Plain::place`].
    recent: [LinkId; RECENT],
    heads: Box<[u16]>,
    seed: HashSeed,
    /// Oldest and newest slot that no flow holds.
    idle_first: u16,
    idle_last: u16,
    /// Where the headers are written down for whoever takes over.
    kept: Option<KeptLinks>,
}

impl LinkTable {
    /// Room for `capacity` distinct headers (1 to 65,535), hashed under `seed`.
    pub fn new(capacity: u16, seed: HashSeed) -> LinkTable {
        let count = usize::from(capacity.max(1)) + 1;
        let mut table = LinkTable {
            slots: vec![Slot::default(); count].into(),
            plain: vec![Plain::NONE; 1 << 16].try_into().unwrap_or_else(|_| Box::new([Plain::NONE; 1 << 16])),
            recent: [LinkId::NONE; RECENT],
            heads: vec![NIL; count.next_power_of_two()].into(),
            seed,
            idle_first: NIL,
            idle_last: NIL,
            kept: None,
        };
        for slot in 1..=capacity.max(1) {
            table.idle_push(slot);
        }
        table
    }

    /// Whether `id` is this very header on this port.
    #[inline]
    pub fn is(&self, id: LinkId, port: PortId, header: &[u8]) -> bool {
        let Some(slot) = self.slots.get(usize::from(id.0)) else { return false };
        slot.in_use
            && slot.port == port
            && slot.header.get(..usize::from(slot.len)).is_some_and(|kept| kept == header)
    }

    /// The port that packets with this header arrive by, and the header.
    #[inline]
    pub fn get(&self, id: LinkId) -> Option<(PortId, &[u8])> {
        let slot = self.slots.get(usize::from(id.0)).filter(|slot| slot.in_use)?;
        Some((slot.port, slot.header.get(..usize::from(slot.len))?))
    }

    /// Whether `id` is this very header, without tags, on this port.
    #[inline(always)]
    pub fn is_plain(&self, id: LinkId, port: PortId, header: &[u8; HEADER_LEN]) -> bool {
        self.plain[usize::from(id.0)] == Plain::new(port, header)
    }

    /// As [`get`](LinkTable::get), if the header is one without tags. Else its port is one that there is not.
    #[inline(always)]
    pub fn plain(&self, id: LinkId) -> Plain {
        self.plain[usize::from(id.0)]
    }

    /// As [`intern`](LinkTable::intern), of a header without tags. What stations share a port is few, so one of
    /// the last ones is nearly always it.
    #[inline(always)]
    pub fn intern_plain(&mut self, port: PortId, header: &[u8; HEADER_LEN]) -> Option<LinkId> {
        let plain = Plain::new(port, header);
        let last = &mut self.recent[plain.place()];
        if self.plain[usize::from(last.0)] == plain {
            return Some(*last);
        }
        let id = self.intern(port, header)?;
        self.recent[plain.place()] = id;
        Some(id)
    }

    /// The generation of the slot: changes each time the slot is given to another header.
    #[inline]
    pub fn generation(&self, id: LinkId) -> u8 {
        self.slots.get(usize::from(id.0)).map_or(0, |slot| slot.generation)
    }

    /// The id of a header, kept from now on if it was not before. `None` when the table is full of
    /// headers that flows hold, or the header is longer than [`MAX_HEADER`].
    pub fn intern(&mut self, port: PortId, header: &[u8]) -> Option<LinkId> {
        let len = u8::try_from(header.len()).ok().filter(|&len| usize::from(len) <= MAX_HEADER)?;
        let bucket = self.bucket(port, header);
        let mut at = *self.heads.get(bucket)?;
        let mut looked = 0;
        while at != NIL && looked < MAX_CHAIN {
            if self.is(LinkId(at), port, header) {
                return Some(LinkId(at));
            }
            at = self.slots.get(usize::from(at))?.next;
            looked += 1;
        }
        if looked == MAX_CHAIN {
            return None;
        }
        let fresh = self.idle_first;
        if fresh == NIL {
            return None;
        }
        self.forget(fresh);
        let first = *self.heads.get(bucket)?;
        let slot = self.slots.get_mut(usize::from(fresh))?;
        slot.header.get_mut(..header.len())?.copy_from_slice(header);
        slot.len = len;
        slot.port = port;
        slot.generation = slot.generation.wrapping_add(1);
        slot.in_use = true;
        slot.next = first;
        if let Some(kept) = &mut self.kept {
            kept.set(LinkId(fresh), slot.generation, port, header);
        }
        *self.heads.get_mut(bucket)? = fresh;
        if let (Ok(header), Some(plain)) = (header.try_into(), self.plain.get_mut(usize::from(fresh))) {
            *plain = Plain::new(port, header);
        }
        // No flow holds it yet: it is the youngest of the idle ones.
        self.idle_remove(fresh);
        self.idle_push(fresh);
        Some(LinkId(fresh))
    }

    /// Whether flows hold all the headers that there is room for.
    pub fn is_full(&self) -> bool {
        self.idle_first == NIL
    }

    /// Whether one flow alone holds the header.
    pub fn is_held_once(&self, id: LinkId) -> bool {
        self.slots.get(usize::from(id.0)).is_some_and(|slot| slot.in_use && slot.flows == 1)
    }

    /// A flow holds the header from now on.
    #[inline]
    pub fn hold(&mut self, id: LinkId) {
        self.hold_for(id, 1);
    }

    /// As many flows hold the header from now on.
    #[inline]
    pub fn hold_for(&mut self, id: LinkId, flows: u32) {
        let Some(slot) = self.slots.get_mut(usize::from(id.0)).filter(|slot| slot.in_use) else { return };
        let before = slot.flows;
        slot.flows = before.saturating_add(flows);
        if before == 0 && flows > 0 {
            self.idle_remove(id.0);
        }
    }

    /// A flow that held the header does not any more.
    #[inline]
    pub fn release(&mut self, id: LinkId) {
        self.release_for(id, 1);
    }

    /// As many flows that held the header do not any more.
    #[inline]
    pub fn release_for(&mut self, id: LinkId, flows: u32) {
        let Some(slot) = self.slots.get_mut(usize::from(id.0)).filter(|slot| slot.in_use) else { return };
        let before = slot.flows;
        slot.flows = before.saturating_sub(flows);
        if before > 0 && slot.flows == 0 {
            self.idle_push(id.0);
        }
    }

    fn bucket(&self, port: PortId, header: &[u8]) -> usize {
        let word = |n: usize| {
            let mut word = [0; 8];
            let bytes = header.get(n * 8..).unwrap_or_default();
            let len = bytes.len().min(8);
            word[..len].copy_from_slice(&bytes[..len]);
            u64::from_le_bytes(word)
        };
        let hash = self.seed.pair(self.seed.pair(word(0), word(1)), word(2) ^ u64::from(port.0) << 48);
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of buckets")]
        let bucket = hash as usize & (self.heads.len() - 1);
        bucket
    }

    fn slot_mut(&mut self, id: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(id))
    }

    /// Takes a slot that no flow holds out of its hash chain.
    fn forget(&mut self, id: u16) {
        let Some(&slot) = self.slots.get(usize::from(id)).filter(|slot| slot.in_use) else { return };
        let bucket = self.bucket(slot.port, slot.header.get(..usize::from(slot.len)).unwrap_or_default());
        let Some(head) = self.heads.get_mut(bucket) else { return };
        let mut at = *head;
        if at == id {
            *head = slot.next;
        }
        while at != NIL {
            let Some(before) = self.slot_mut(at) else { break };
            if before.next == id {
                before.next = slot.next;
                break;
            }
            at = before.next;
        }
        if let Some(slot) = self.slot_mut(id) {
            slot.in_use = false;
        }
        if let Some(plain) = self.plain.get_mut(usize::from(id)) {
            *plain = Plain::NONE;
        }
    }

    /// Makes a slot the youngest of those that no flow holds.
    fn idle_push(&mut self, id: u16) {
        let last = std::mem::replace(&mut self.idle_last, id);
        if let Some(slot) = self.slot_mut(id) {
            slot.idle_previous = last;
            slot.idle_next = NIL;
        }
        match self.slot_mut(last) {
            Some(previous) if last != NIL => previous.idle_next = id,
            _ => self.idle_first = id,
        }
    }

    /// Takes a slot out of the list of those that no flow holds.
    fn idle_remove(&mut self, id: u16) {
        let Some(&slot) = self.slots.get(usize::from(id)) else { return };
        match self.slot_mut(slot.idle_previous) {
            Some(previous) if slot.idle_previous != NIL => previous.idle_next = slot.idle_next,
            _ => self.idle_first = slot.idle_next,
        }
        match self.slot_mut(slot.idle_next) {
            Some(next) if slot.idle_next != NIL => next.idle_previous = slot.idle_previous,
            _ => self.idle_last = slot.idle_previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(capacity: u16) -> LinkTable {
        LinkTable::new(capacity, HashSeed::from_secret(b"a secret of sixteen"))
    }

    fn header(n: u8) -> [u8; 14] {
        [2, 0, 0, 0, 0, n, 2, 0, 0, 0, 1, n, 8, 0]
    }

    // O-4
    #[test]
    fn the_same_header_on_the_same_port_is_kept_once() {
        let mut links = links(8);
        let a = links.intern(PortId(0), &header(1)).unwrap();
        assert_eq!(links.intern(PortId(0), &header(1)), Some(a));
        let other_port = links.intern(PortId(1), &header(1)).unwrap();
        assert_ne!(a, other_port);
        assert!(links.is(a, PortId(0), &header(1)));
        assert!(!links.is(a, PortId(1), &header(1)));
        assert_eq!(links.get(other_port), Some((PortId(1), &header(1)[..])));
    }

    // O-4
    #[test]
    fn a_header_that_a_flow_holds_is_never_given_away() {
        let mut links = links(4);
        let held = links.intern(PortId(0), &header(1)).unwrap();
        links.hold(held);
        for n in 2..100 {
            assert!(links.intern(PortId(0), &header(n)).is_some());
        }
        assert!(links.is(held, PortId(0), &header(1)));
        links.release(held);
        let generation = links.generation(held);
        for n in 100..120 {
            links.intern(PortId(0), &header(n)).unwrap();
        }
        assert!(!links.is(held, PortId(0), &header(1)));
        assert_ne!(links.generation(held), generation);
    }

    // O-4, F-13
    #[test]
    fn a_table_full_of_held_headers_takes_no_other() {
        let mut links = links(3);
        for n in 1..=3 {
            let id = links.intern(PortId(0), &header(n)).unwrap();
            links.hold(id);
        }
        assert_eq!(links.intern(PortId(0), &header(9)), None);
        let again = links.intern(PortId(0), &header(2)).unwrap();
        links.release(again);
        assert!(links.intern(PortId(0), &header(9)).is_some());
    }

    #[test]
    fn no_link_is_none() {
        let mut links = links(3);
        assert_eq!(links.get(LinkId::default()), None);
        assert!(!links.is(LinkId::default(), PortId(0), &[]));
        links.hold(LinkId(0));
        links.release(LinkId(77));
        assert_eq!(links.intern(PortId(0), &[0; MAX_HEADER + 1]), None);
    }

    proptest::proptest! {
        // O-4
        #[test]
        fn it_agrees_with_a_map(steps in proptest::collection::vec((0u8..3, 0u8..12), 1..300)) {
            let mut links = links(8);
            let mut held: Vec<(LinkId, u8)> = Vec::new();
            for (what, n) in steps {
                match what {
                    0 | 1 => {
                        let distinct: std::collections::HashSet<_> = held.iter().map(|h| h.1).collect();
                        match links.intern(PortId(0), &header(n)) {
                            Some(id) => { links.hold(id); held.push((id, n)); }
                            None => proptest::prop_assert!(distinct.len() == 8 && !distinct.contains(&n)),
                        }
                    }
                    _ => if !held.is_empty() {
                        let (id, _) = held.swap_remove(usize::from(n) % held.len());
                        links.release(id);
                    },
                }
                for (id, n) in &held {
                    proptest::prop_assert!(links.is(*id, PortId(0), &header(*n)));
                }
            }
        }
    }
}
