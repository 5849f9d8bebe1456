//! Next hops whose link-layer address is not known, is learnt, changes and goes (O-4, C-1).

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::waiting;
use flowgate::datapath::worker::Idle;
use flowgate::io::clock::Clock;
use proptest::prelude::*;

use super::*;

/// A packet of the client's that is long enough to be told of.
fn sent(port: u16) -> Segment {
    client(port, SYN).with_payload(&[7; 16])
}

/// The client's packets, encapsulated, as the target returns them.
fn answers(bench: &mut Bench, ports: impl IntoIterator<Item = u16>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for port in ports {
        for (_, frame) in bench.put(LEFT, &from_client(&sent(port))) {
            out.push(answer(&frame, None));
        }
    }
    out
}

fn toward_server(mac: [u8; 6], port: u16) -> (usize, Vec<u8>) {
    (RIGHT, framed(mac, RIGHT_MAC, NO_TAG, &lowered(&sent(port))))
}

fn near_router() -> (InterfaceId, std::net::IpAddr) {
    (SERVERS, "203.0.113.253".parse().unwrap())
}

// C-1
#[test]
fn packets_wait_for_an_unknown_next_hop_and_leave_in_order_when_it_is_known() {
    for workers in [1, 2, 4] {
        let mut bench = lonely(workers, 1024);
        for (_, back) in (0..).zip(answers(&mut bench, 1..=6)) {
            assert!(bench.put(UNDER, &back).is_empty());
        }
        let told: BTreeSet<_> = asked(&mut bench).into_iter().collect();
        assert_eq!(told, [near_router()].into(), "the route's router is asked for, not the server");
        assert_eq!(bench.outcome(Outcome::Delivered), 0, "who waits is not settled");

        tell(&mut bench, SERVERS, "203.0.113.253", Some(NEAR_ROUTER));
        let out = bench.take();
        let mut expected: Vec<_> = (1..=6).map(|port| toward_server(NEAR_ROUTER, port)).collect();
        if workers == 1 {
            assert_eq!(out, expected, "in the order in which they came");
        }
        let mut sorted = out;
        sorted.sort();
        expected.sort();
        assert_eq!(sorted, expected);
        assert_eq!(bench.outcome(Outcome::Delivered), 6);
        bench.assert_settled();

        let back = answers(&mut bench, [7]).remove(0);
        assert_eq!(bench.put(UNDER, &back), [toward_server(NEAR_ROUTER, 7)], "nobody waits any more");
        assert_eq!(asked(&mut bench), []);
    }
}

// C-1
#[test]
fn who_waits_in_vain_is_dropped_after_a_second_and_its_sender_told() {
    let mut bench = lonely(1, 1024);
    tell(&mut bench, CLIENTS, CLIENT, Some(CLIENT_MAC));
    let back = answers(&mut bench, [1, 2]);
    for back in &back {
        assert!(bench.put(UNDER, back).is_empty());
    }
    bench.pass(waiting::PATIENCE_MS - 1);
    assert_eq!(bench.take(), []);
    assert_eq!(asked(&mut bench), [near_router()]);
    bench.pass(1);
    let error = |port| {
        let error = host_unreachable("192.0.2.1", &lowered(&sent(port)));
        (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &error))
    };
    assert_eq!(bench.take(), [error(1), error(2)]);
    assert_eq!(bench.outcome(Outcome::Answered), 2);
    bench.assert_settled();

    assert!(bench.put(UNDER, &back[0]).is_empty());
    assert_eq!(asked(&mut bench), [near_router()], "asked for anew");
}

// C-1
#[test]
fn with_no_neighbour_known_at_all_a_packet_and_the_error_about_it_come_to_an_end() {
    let mut bench = lonely(1, 1024);
    let back = answers(&mut bench, [1]).remove(0);
    assert!(bench.put(UNDER, &back).is_empty());
    bench.pass(waiting::PATIENCE_MS);
    // The error waits for the client's address now.
    assert_eq!(asked(&mut bench), [near_router(), (CLIENTS, CLIENT.parse().unwrap())]);
    assert_eq!(bench.drops(), []);
    bench.pass(waiting::PATIENCE_MS);
    assert_eq!(bench.drops(), [(DropReason::NeighbourUnknown, 1)]);
    bench.assert_settled();
}

#[test]
fn a_next_hop_that_the_kernel_gives_up_is_given_up_at_once_and_not_asked_for_again_too_soon() {
    let mut bench = lonely(1, 1024);
    tell(&mut bench, CLIENTS, CLIENT, Some(CLIENT_MAC));
    let back = answers(&mut bench, [1]).remove(0);
    assert!(bench.put(UNDER, &back).is_empty());
    tell(&mut bench, SERVERS, "203.0.113.253", None);
    assert_eq!(bench.take().len(), 1, "the sender is told");
    bench.assert_settled();
    assert_eq!(asked(&mut bench).len(), 1);
    bench.pass(500);
    assert!(bench.put(UNDER, &back).is_empty());
    assert_eq!(asked(&mut bench), []);
}

// C-1
#[test]
fn one_silent_host_keeps_so_many_packets_and_no_more() {
    let mut bench = lonely(1, 1024);
    let back = answers(&mut bench, 1..=20);
    for back in &back {
        assert!(bench.put(UNDER, back).is_empty());
    }
    let room = waiting::PACKETS_A_HOP as u64;
    assert_eq!(bench.drops(), [(DropReason::WaitFull, 20 - room)]);
    tell(&mut bench, SERVERS, "203.0.113.253", Some(NEAR_ROUTER));
    assert_eq!(bench.take().len() as u64, room);
    bench.assert_settled();
}

// C-1, F-13
#[test]
fn a_storm_of_unknown_next_hops_is_bounded_and_every_packet_counted() {
    let mut bench = router_with(1, 65_536);
    let mut known = Vec::new();
    for n in 0..4000u32 {
        // A scan of the guests' network, which is on the link.
        let dst = std::net::Ipv4Addr::from_bits(0x6440_1000 + n).into();
        let probe = Segment { dst, ..client(4000, SYN) };
        let (_, out) = bench.one(LEFT, &from_client(&probe));
        known.push(answer(&out, None));
    }
    for back in &known {
        assert!(bench.put(UNDER, back).is_empty());
    }
    let told = asked(&mut bench);
    let distinct: BTreeSet<_> = told.iter().collect();
    assert_eq!((told.len(), distinct.len()), (waiting::HOPS, waiting::HOPS), "each asked for once");
    let dropped = known.len() - waiting::PACKETS;
    assert_eq!(bench.drops(), [(DropReason::WaitFull, dropped as u64)]);

    // Whose neighbours are known goes on as ever.
    let back = answers(&mut bench, [1]).remove(0);
    assert_eq!(bench.put(UNDER, &back), [toward_server(NEAR_ROUTER, 1)]);
    bench.pass(waiting::PATIENCE_MS);
    bench.pass(0); // a round ends one next hop's waiting at most
    assert_eq!(bench.take().len(), 20, "of the errors about the rest so many may go to one network at once");
    bench.assert_settled();
    assert!(bench.put(UNDER, &known[0]).is_empty());
    assert_eq!(asked(&mut bench).len(), 1, "and there is room again");
}

#[test]
fn a_changed_link_layer_address_is_followed_and_one_that_is_gone_is_asked_for() {
    let mut bench = router(2);
    let back = answers(&mut bench, [1]).remove(0);
    assert_eq!(bench.put(UNDER, &back), [toward_server(NEAR_ROUTER, 1)]);
    tell(&mut bench, SERVERS, "203.0.113.253", Some([2, 7, 7, 7, 7, 7]));
    assert_eq!(bench.put(UNDER, &back), [toward_server([2, 7, 7, 7, 7, 7], 1)]);
    // The same address on another interface is somebody else's (O-4).
    tell(&mut bench, OTHER_SERVERS, "203.0.113.253", Some([2, 6, 6, 6, 6, 6]));
    assert_eq!(bench.put(UNDER, &back), [toward_server([2, 7, 7, 7, 7, 7], 1)]);
    tell(&mut bench, SERVERS, "203.0.113.253", None);
    assert!(bench.put(UNDER, &back).is_empty());
    assert_eq!(asked(&mut bench), [near_router()]);
    tell(&mut bench, SERVERS, "203.0.113.253", Some(NEAR_ROUTER));
    assert_eq!(bench.take(), [toward_server(NEAR_ROUTER, 1)]);
    bench.assert_settled();
}

// C-1
#[test]
fn a_worker_that_stops_counts_those_who_wait() {
    let mut bench = lonely(1, 1024);
    for back in answers(&mut bench, 1..=3) {
        assert!(bench.put(UNDER, &back).is_empty());
    }
    // Nobody captures from a worker that stops.
    bench.watched_from_the_start = false;
    bench.workers[0].run(&Clock::start(), Idle::Poll, &AtomicBool::new(true));
    assert_eq!(bench.drops(), [(DropReason::NeighbourUnknown, 3)]);
    bench.assert_settled();
}

// C-1
#[test]
fn a_port_that_takes_no_more_drops_who_waited_and_counts_them() {
    let mut bench = lonely(1, 1024);
    for back in answers(&mut bench, 1..=5) {
        assert!(bench.put(UNDER, &back).is_empty());
    }
    bench.workers[0].ports_mut()[RIGHT].room = Some(2);
    tell(&mut bench, SERVERS, "203.0.113.253", Some(NEAR_ROUTER));
    assert_eq!(bench.take().len(), 2);
    assert_eq!(bench.drops(), [(DropReason::TransmitFull, 3)]);
    bench.assert_settled();
}

#[derive(Clone, Debug)]
enum Step {
    /// A connection's packet to a host on the servers' or the guests' link, and back from its target.
    Packet {
        port: u16,
        host: u8,
        guests: bool,
        ttl: u8,
    },
    /// A neighbour is known, or not any more.
    Neighbour {
        host: u8,
        guests: bool,
        known: bool,
    },
    Pass(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u16..9, 0u8..6, any::<bool>(), 0u8..5)
            .prop_map(|(port, host, guests, ttl)| Step::Packet { port, host, guests, ttl }),
        2 => (0u8..6, any::<bool>(), any::<bool>())
            .prop_map(|(host, guests, known)| Step::Neighbour { host, guests, known }),
        1 => (0u32..700).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    // C-1
    #[test]
    fn whatever_neighbours_come_and_go_every_packet_ends_once_and_never_at_a_wrong_station(
        steps in steps(), workers in 1u8..3, client_known: bool,
    ) {
        let mut bench = lonely(workers, 256);
        if client_known {
            tell(&mut bench, CLIENTS, CLIENT, Some(CLIENT_MAC));
        }
        let link = |guests: bool| if guests { "100.64.7" } else { "203.0.113" };
        let address = |guests: bool, host: u8| format!("{}.{}", link(guests), 10 + host);
        let mac = |guests: bool, host: u8| [2, 0, 0, 5, u8::from(guests), host];
        let mut out = Vec::new();
        for step in steps {
            match step {
                Step::Packet { port, host, guests, ttl } => {
                    let dst = address(guests, host).parse().unwrap();
                    let segment = Segment { dst, ttl, ..client(port, SYN) };
                    for (at, frame) in bench.put(LEFT, &from_client(&segment)) {
                        if at == UNDER {
                            prop_assert_eq!(inner(&frame), &lowered(&segment)[..]);
                            out.extend(bench.put(UNDER, &answer(&frame, None)));
                        }
                    }
                }
                Step::Neighbour { host, guests, known } => {
                    let interface = if guests { GUESTS } else { SERVERS };
                    tell(&mut bench, interface, &address(guests, host), known.then(|| mac(guests, host)));
                }
                Step::Pass(ms) => bench.pass(ms),
            }
            out.extend(bench.take());
        }
        // What waits ends within a second, the error about it within another.
        bench.pass(waiting::PATIENCE_MS);
        bench.pass(waiting::PATIENCE_MS);
        out.extend(bench.take());
        bench.assert_settled();
        for (port, frame) in out {
            let (tags, ip) = frame[12..].split_at(if port == LEFT { 4 } else { 0 });
            let (ip, station) = (&ip[2..], &frame[..6]);
            let host = ip[19].wrapping_sub(10);
            match ip[16..19] {
                [100, 64, 7] => prop_assert_eq!((port, tags, station), (LEFT, VLAN_101, &mac(true, host)[..])),
                [203, 0, 113] => prop_assert_eq!((port, tags, station), (RIGHT, NO_TAG, &mac(false, host)[..])),
                // Errors to the client.
                _ => prop_assert_eq!((port, tags, station, ip[9]), (LEFT, VLAN_100, &CLIENT_MAC[..], 1)),
            }
        }
    }
}
