#![expect(clippy::cast_possible_truncation, reason = "test numbers are small")]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::flow::HashSeed;
use crate::wire::sample;

const FIRST: First = First { protocol: 17, src_port: 4000, dst_port: 53 };

struct Desk {
    fragments: Fragments<u32>,
    counters: WorkerCounters,
    now: Millis,
}

impl Desk {
    fn new() -> Desk {
        Desk { fragments: Fragments::default(), counters: WorkerCounters::default(), now: Millis(5_000) }
    }

    fn hold(&mut self, id: u32, packet: u32) {
        let (hash, datagram) = named(id);
        self.fragments.hold(hash, &datagram, (PortId(3), packet), self.now, &self.counters);
    }

    /// What a first fragment releases.
    fn first(&mut self, id: u32) -> Vec<u32> {
        let (hash, datagram) = named(id);
        let mut released = self.fragments.first(hash, &datagram, FIRST, self.now, &self.counters);
        std::iter::from_fn(|| self.fragments.take(&mut released, &self.counters))
            .map(|(_, packet)| packet)
            .collect()
    }

    fn later(&mut self, id: u32) -> Option<First> {
        let (hash, datagram) = named(id);
        self.fragments.later(hash, &datagram, self.now)
    }

    fn pass(&mut self, ms: u32) {
        self.now = self.now.plus(ms);
        for _ in 0..WAITING / EXPIRE_STEPS {
            self.fragments.expire(self.now, &self.counters);
        }
    }

    fn held(&self) -> usize {
        let held = self.fragments.held.iter().filter(|held| held.packet.is_some()).count();
        assert_eq!(self.counters.fragments_waiting.get(), held as u64);
        held
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.counters.drops[reason.index()].get()
    }
}

/// A datagram of its own for each number, and the hash that the flow table would give it.
fn named(id: u32) -> (u64, Datagram) {
    let packet = sample::ipv6([1; 16], [2; 16], 44, &[17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
    let datagram = Datagram::of(EndpointId(0), &Packet::parse(&packet).unwrap(), id);
    (HashSeed::from_secret(b"the tests' own secret").flow(&datagram.key), datagram)
}

// M-4
#[test]
fn later_fragments_wait_for_their_first_and_go_on_in_the_order_in_which_they_came() {
    let mut desk = Desk::new();
    assert_eq!(desk.later(1), None);
    for packet in [30, 10, 20] {
        desk.hold(1, packet);
    }
    desk.hold(2, 99);
    assert_eq!(desk.held(), 4);
    assert_eq!(desk.first(1), [30, 10, 20]);
    assert_eq!(desk.later(1), Some(FIRST));
    assert_eq!(desk.later(2), None);
    assert_eq!(desk.held(), 1);
}

// M-4
#[test]
fn a_datagram_is_named_by_endpoint_addresses_identification_and_in_ipv4_its_protocol() {
    let four = |src: [u8; 4], dst, protocol, endpoint, id| {
        let packet = sample::ipv4_with(src, dst, protocol, 0x0001, &[], &[0; 16]);
        Datagram::of(EndpointId(endpoint), &Packet::parse(&packet).unwrap(), id)
    };
    let (a, b) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let one = four(a, b, 17, 0, 7);
    assert_eq!(one, four(a, b, 17, 0, 7));
    let others = [four(b, a, 17, 0, 7), four(a, b, 6, 0, 7), four(a, b, 17, 1, 7), four(a, b, 17, 0, 8)];
    for other in others {
        assert_ne!(one, other);
    }
    assert_ne!(four(a, b, 17, 0, 0), four(b, a, 17, 0, 0), "both halves of the identification alike");
    let six = |next, id| {
        let packet =
            sample::ipv6([1; 16], [2; 16], 44, &[&[next, 0, 0, 8, 0, 0, 0, 0][..], &[0; 8]].concat());
        Datagram::of(EndpointId(0), &Packet::parse(&packet).unwrap(), id)
    };
    assert_eq!(six(17, 0x0001_0002), six(60, 0x0001_0002), "RFC 8200 4.5: not by what it names next");
    assert_ne!(six(17, 0x0001_0002), six(17, 0x0002_0001));
}

// M-4
#[test]
fn what_waits_too_long_is_dropped_and_a_first_is_known_no_longer_either() {
    let mut desk = Desk::new();
    desk.hold(1, 10);
    desk.first(2);
    desk.pass(PATIENCE_MS);
    assert_eq!((desk.later(2), desk.held()), (Some(FIRST), 1));
    desk.hold(1, 11);
    desk.pass(1);
    assert_eq!(desk.held(), 0, "the newer one waited for the same first");
    assert_eq!(desk.drops(DropReason::FragmentTimeout), 2);
    assert_eq!(desk.later(2), Some(FIRST), "each fragment keeps its datagram known");
    desk.now = desk.now.plus(PATIENCE_MS + 1);
    assert_eq!(desk.later(2), None, "also before the hand has come by");
    assert_eq!(desk.first(1), [0; 0]);
}

// M-4
#[test]
fn a_flood_without_firsts_pushes_out_only_its_like_oldest_first() {
    let mut desk = Desk::new();
    assert_eq!(desk.first(1), [0; 0]);
    for id in 0..100_000 {
        desk.hold(1000 + id, id);
    }
    assert_eq!(desk.held(), WAITING);
    assert_eq!(desk.drops(DropReason::FragmentFull), 100_000 - WAITING as u64);
    assert_eq!(desk.later(1), Some(FIRST), "a datagram whose first is known is not harmed");
    assert_eq!(desk.first(1000 + 99_999), [99_999], "nor is one that waits but a moment");
    desk.pass(PATIENCE_MS + 1);
    assert_eq!(desk.held(), 0);
}

// M-4
#[test]
fn one_datagram_keeps_no_more_waiting_than_the_longest_needs_and_all_no_more_than_there_is_room() {
    let mut desk = Desk::new();
    for packet in 0..60 {
        desk.hold(1, packet);
    }
    assert_eq!(desk.drops(DropReason::FragmentFull), 60 - u64::from(HELD_OF_ONE));
    assert_eq!(desk.first(1), (0..u32::from(HELD_OF_ONE)).collect::<Vec<_>>());
    for id in 0..20 {
        for packet in 0..40 {
            desk.hold(100 + id, packet);
        }
    }
    assert!(desk.held() <= HELD);
    assert_eq!(desk.first(119).len(), 40, "the newest has all that it was given");
    assert_eq!(desk.first(100), [0; 0], "the oldest made room");
}

// M-4
#[test]
fn a_flood_of_firsts_is_bounded_too() {
    let mut desk = Desk::new();
    for id in 0..50_000 {
        desk.first(id);
    }
    assert_eq!(desk.later(0), None);
    assert_eq!(desk.later(49_999), Some(FIRST));
    desk.hold(60_000, 1);
    assert_eq!(desk.first(60_000), [1]);
}

#[test]
fn a_chain_that_somebody_knew_to_make_stays_short_and_pushes_out_its_own() {
    let mut desk = Desk::new();
    let others: Vec<u32> = (0..100).collect();
    for id in &others {
        assert!(desk.first(*id).is_empty());
    }
    let same = |id| (7, named(id).1);
    for id in 1000..3000 {
        let (hash, datagram) = same(id);
        if id % 2 == 0 {
            let mut released = desk.fragments.first(hash, &datagram, FIRST, desk.now, &desk.counters);
            while desk.fragments.take(&mut released, &desk.counters).is_some() {}
        } else {
            desk.fragments.hold(hash, &datagram, (PortId(3), id), desk.now, &desk.counters);
        }
        let mut chain = Vec::new();
        let mut at = desk.fragments.heads[usize::from(desk.fragments.bucket(hash))];
        while let Some(record) = desk.fragments.records.get(usize::from(at)) {
            chain.push(at);
            at = record.next;
        }
        assert!(chain.len() <= CHAIN + 1, "one of the others may be there");
    }
    let known = |id| desk.fragments.seen(7, &same(id).1, desk.now).is_some();
    assert!((2970..3000).step_by(2).all(known), "the youngest are known");
    assert!(!known(2900));
    let held = (1000..3000).filter(|id| id % 2 == 1).count() as u64;
    assert_eq!(desk.drops(DropReason::FragmentFull), held - desk.held() as u64, "what goes is counted");
    for id in others {
        assert_eq!(desk.later(id), Some(FIRST), "{id}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against an obvious model without limits of room: few datagrams, few packets.
    #[test]
    fn nothing_is_lost_or_released_twice(
        steps in prop::collection::vec((0u32..6, 0u8..8, 0u32..400), 1..200),
    ) {
        let mut desk = Desk::new();
        let mut waiting: BTreeMap<u32, (Millis, Vec<u32>)> = BTreeMap::new();
        let mut known: BTreeMap<u32, Millis> = BTreeMap::new();
        for (number, (id, what, ms)) in steps.into_iter().enumerate() {
            let number = number as u32;
            desk.pass(ms);
            let now = desk.now;
            waiting.retain(|_, (since, _)| now.since(*since) <= PATIENCE_MS);
            known.retain(|_, at| now.since(*at) <= PATIENCE_MS);
            if what == 0 {
                let expected = waiting.remove(&id).map_or(Vec::new(), |(_, packets)| packets);
                prop_assert_eq!(desk.first(id), expected);
                known.insert(id, now);
            } else if let Some(at) = known.get_mut(&id) {
                prop_assert_eq!(desk.later(id), Some(FIRST));
                *at = now;
            } else {
                prop_assert_eq!(desk.later(id), None);
                desk.hold(id, number);
                let (_, packets) = waiting.entry(id).or_insert((now, Vec::new()));
                if packets.len() < usize::from(HELD_OF_ONE) {
                    packets.push(number);
                }
            }
            let held: usize = waiting.values().map(|(_, packets)| packets.len()).sum();
            prop_assert_eq!(desk.held(), held);
        }
        desk.pass(2 * PATIENCE_MS);
        prop_assert_eq!(desk.held(), 0);
        let settled = desk.fragments.known.count + desk.fragments.waiting.count;
        prop_assert_eq!(settled, 0, "every record is free again");
    }
}
