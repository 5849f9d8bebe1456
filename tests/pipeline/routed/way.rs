//! In by an interface, out by a route: O-4, W-6, F-12, R-7.

use flowgate::datapath::counters::DropReason;
use flowgate::datapath::forwarding::Condition;
use flowgate::flow::{Cookie, DecodedCookie};
use flowgate::id::GatewayId;

use super::*;
use crate::failover::reset_for;
use crate::proactive::proactive;

fn version(segment: Segment, six: bool) -> Segment {
    if six { segment.over_ipv6() } else { segment }
}

/// The endpoint id in an encapsulated frame.
fn endpoint_id(frame: &[u8]) -> u64 {
    u64::from_be_bytes(frame[54..62].try_into().unwrap())
}

// O-4, W-6, F-2
#[test]
fn packets_cross_both_ways_by_route_and_with_a_lowered_ttl_whatever_the_workers() {
    for (workers, six) in [1, 2, 4].into_iter().flat_map(|workers| [(workers, false), (workers, true)]) {
        let mut bench = router(workers);
        for number in 1..40 {
            let at = |turn: u16| usize::from((number + turn) % u16::from(workers));
            let syn = version(client(number, SYN), six);
            let mut out = bench.put_at(at(0), LEFT, &from_client(&syn));
            let (port, frame) = out.remove(0);
            assert_eq!((port, out.len()), (UNDER, 0));
            assert_eq!((inner(&frame), endpoint_id(&frame)), (&lowered(&syn)[..], ENDPOINT_ID));
            let back = bench.put_at(at(1), UNDER, &answer(&frame, None));
            assert_eq!(back, [(RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &lowered(&syn)))]);

            let reply = Segment { flags: SYN | ACK, ttl: 60, ..syn.clone().reversed() };
            let mut out = bench.put_at(at(2), RIGHT, &from_server(&reply));
            let (port, again) = out.remove(0);
            assert_eq!((port, out.len()), (UNDER, 0));
            assert_eq!(inner(&again), lowered(&reply));
            assert_eq!(cookie(&again), cookie(&frame), "F-2, F-11");
            let back = bench.put_at(at(3), UNDER, &answer(&again, None));
            assert_eq!(back, [(LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &lowered(&reply)))]);
        }
        assert_eq!(bench.drops(), []);
        bench.assert_settled();
    }
}

// O-4
#[test]
fn the_longest_prefix_decides_and_an_on_link_destination_is_its_own_next_hop() {
    let mut bench = router(1);
    for (destination, port, link) in [
        ("198.51.100.20", RIGHT, (NEAR_ROUTER, RIGHT_MAC, NO_TAG)),
        ("198.51.101.20", RIGHT, (FAR_ROUTER, RIGHT_MAC, NO_TAG)),
        ("8.8.8.8", RIGHT, (FAR_ROUTER, RIGHT_MAC, NO_TAG)),
        ("203.0.113.254", RIGHT, (FAR_ROUTER, RIGHT_MAC, NO_TAG)),
        ("100.64.0.9", LEFT, (GUEST_MAC, LEFT_MAC, VLAN_101)),
        // Back to the interface that it came by: allowed.
        (CLIENT, LEFT, (CLIENT_MAC, LEFT_MAC, VLAN_100)),
    ] {
        let segment = Segment {
            src: "192.0.2.77".parse().unwrap(),
            dst: destination.parse().unwrap(),
            ..client(4000, SYN)
        };
        let (_, out) = bench.one(LEFT, &from_client(&segment));
        let back = bench.one(UNDER, &answer(&out, None));
        assert_eq!(back, (port, framed(link.0, link.1, link.2, &lowered(&segment))), "{destination}");
    }
    bench.assert_settled();
}

// W-6
#[test]
fn what_the_appliance_returns_leaves_as_it_came_back() {
    let mut bench = router(1);
    let syn = client(4000, SYN);
    let (_, out) = bench.one(LEFT, &from_client(&syn));
    // An appliance that is a router too.
    let twice = Segment { ttl: 62, ..syn };
    let (_, back) = bench.one(UNDER, &answer(&out, Some(&twice.ip())));
    assert_eq!(back, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &twice.ip()));
    let last = Segment { ttl: 1, ..twice };
    let (_, back) = bench.one(UNDER, &answer(&out, Some(&last.ip())));
    assert_eq!(back, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &last.ip()), "the next router judges it");
}

// W-4, O-4
#[test]
fn an_answer_goes_to_a_side_that_was_never_seen() {
    let mut bench = router(1);
    let syn = client(4000, SYN);
    let (_, out) = bench.one(LEFT, &from_client(&syn));
    // The appliance answers in the server's stead; no packet of the server's has come yet.
    let reset = Segment { flags: RST | ACK, ..syn.reversed() };
    let (port, back) = bench.one(UNDER, &answer(&out, Some(&reset.ip())));
    assert_eq!((port, back), (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &reset.ip())));
    bench.assert_settled();
}

// O-4
#[test]
fn what_comes_in_the_wrong_vlan_or_for_another_station_is_dropped() {
    let mut bench = router(1);
    let ip = client(4000, SYN).ip();
    for tags in [NO_TAG, &[0x81, 0x00, 0x00, 102], &[0x81, 0x00, 0x00, 0], VLAN_7_300] {
        let frame = framed(LEFT_MAC, CLIENT_MAC, tags, &ip);
        assert_eq!(bench.dropped(LEFT, &frame), DropReason::VlanUnknown, "{tags:x?}");
    }
    assert_eq!(
        bench.dropped(RIGHT, &framed(RIGHT_MAC, NEAR_ROUTER, VLAN_100, &ip)),
        DropReason::VlanUnknown,
        "a VLAN of another port"
    );
    for mac in [RIGHT_MAC, NEAR_ROUTER, [2, 0, 0, 0, 0, 0x60]] {
        assert_eq!(bench.dropped(LEFT, &framed(mac, CLIENT_MAC, VLAN_100, &ip)), DropReason::NotOurMac);
    }
    // Priority, drop mark and a tag that names no VLAN do not matter; nor does which protocol tags it.
    for (port, to, tags) in [
        (LEFT, LEFT_MAC, &[0x81, 0x00, 0xf0, 100][..]),
        (LEFT, LEFT_MAC, &[0x88, 0xa8, 0x00, 100]),
        (RIGHT, RIGHT_MAC, &[0x81, 0x00, 0xe0, 0]),
        (RIGHT, RIGHT_MAC, &[0x81, 0x00, 0x00, 7, 0x81, 0x00, 0x01, 0x2c]),
    ] {
        assert_eq!(bench.one(port, &framed(to, CLIENT_MAC, tags, &ip)).0, UNDER, "{tags:x?}");
    }
    bench.assert_settled();
}

#[test]
fn addresses_that_no_router_forwards_are_dropped() {
    let mut bench = router(1);
    for (src, dst) in [
        ("127.0.0.1", SERVER),
        (CLIENT, "127.0.0.1"),
        ("0.0.0.0", SERVER),
        ("240.0.0.1", SERVER),
        ("224.0.0.77", SERVER),
        (CLIENT, "239.1.2.3"),
        ("::1", SERVER6),
        (CLIENT6, "::1"),
        ("ff0e::1", SERVER6),
        (CLIENT6, "ff0e::1"),
    ] {
        let segment = Segment { src: src.parse().unwrap(), dst: dst.parse().unwrap(), ..client(4000, SYN) };
        assert_eq!(bench.dropped(LEFT, &from_client(&segment)), DropReason::Martian, "{src} {dst}");
    }
}

// O-4
#[test]
fn two_endpoints_with_the_same_addresses_never_mix() {
    for workers in [1, 2, 4] {
        let mut bench = router(workers);
        let syn = client(4000, SYN);
        let (_, out) = bench.one(LEFT, &from_client(&syn));
        let (_, other) = bench.one(LEFT, &framed(LEFT_MAC, OTHER_CLIENT, VLAN_200, &syn.ip()));
        assert_ne!(cookie(&out), cookie(&other), "two flows");
        assert_eq!((endpoint_id(&out), endpoint_id(&other)), (ENDPOINT_ID, OTHER_ENDPOINT_ID));
        let back = bench.one(UNDER, &answer(&other, None));
        assert_eq!(back, (RIGHT, framed(OTHER_ROUTER, RIGHT_MAC, VLAN_7_300, &lowered(&syn))));
        let back = bench.one(UNDER, &answer(&out, None));
        assert_eq!(back, (RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &lowered(&syn))));

        let reply = Segment { flags: SYN | ACK, ..syn.reversed() };
        let (_, again) = bench.one(RIGHT, &framed(RIGHT_MAC, OTHER_ROUTER, VLAN_7_300, &reply.ip()));
        assert_eq!(cookie(&again), cookie(&other));
        let back = bench.one(UNDER, &answer(&again, None));
        assert_eq!(back, (LEFT, framed(OTHER_CLIENT, LEFT_MAC, VLAN_200, &lowered(&reply))));
        bench.assert_settled();
    }
}

//
#[test]
fn a_reset_goes_back_to_its_sender_with_its_tags() {
    for six in [false, true] {
        let mut bench = router(1);
        bench.policy.reset_on_unhealthy = true;
        bench.publish();
        let syn = version(client(4000, SYN), six);
        let (_, out) = bench.one(LEFT, &from_client(&syn));
        let target = bench.target_of(&out);
        bench.set_condition(target, Condition::Unhealthy);
        let segment = Segment { flags: ACK, ttl: 9, ..syn };
        let reset = &reset_for(&segment)[14..];
        let back = bench.one(LEFT, &from_client(&segment));
        assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, reset)));
        bench.assert_settled();
    }
}

// R-10, O-4
#[test]
fn silent_ends_are_told_by_the_routes_to_them() {
    for (six, server_known) in [(false, true), (true, true), (false, false)] {
        let mut bench = router(1);
        proactive(&mut bench);
        bench.publish();
        let syn = version(client(4000, SYN), six);
        let (_, out) = bench.one(LEFT, &from_client(&syn));
        let reply = Segment { flags: SYN | ACK, seq: 1999, ack: 1001, ..syn.clone().reversed() };
        bench.one(RIGHT, &from_server(&reply));
        let last = Segment { flags: ACK, seq: 1001, ack: 2000, ..syn };
        bench.one(LEFT, &from_client(&last));
        if !server_known {
            tell(&mut bench, SERVERS, "203.0.113.253", None);
        }
        let target = bench.target_of(&out);
        bench.set_condition(target, Condition::Unhealthy);
        let to_client = framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &reset_for(&last)[14..]);
        let to_server = framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &reset_for(&reply)[14..]);
        let mut expected = vec![(LEFT, to_client)];
        expected.extend(server_known.then_some((RIGHT, to_server)));
        assert_eq!(bench.take(), expected);
        bench.assert_settled();
    }
}

// F-12, O-4
#[test]
fn a_full_table_forwards_without_state_and_the_answers_find_their_endpoint() {
    for six in [false, true] {
        let mut bench = router_with(1, 64);
        for port in 1..=64 {
            bench.one(LEFT, &from_client(&client(port, SYN)));
            bench.one(LEFT, &from_client(&client(port, ACK)));
        }
        let syn = version(client(9000, SYN), six);
        let (_, out) = bench.one(LEFT, &from_client(&syn));
        assert_eq!(inner(&out), lowered(&syn));
        let back = bench.one(UNDER, &answer(&out, None));
        assert_eq!(back, (RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &lowered(&syn))));
        let reply = Segment { flags: SYN | ACK, ..syn.clone().reversed() };
        let (_, again) = bench.one(RIGHT, &from_server(&reply));
        assert_eq!(bench.target_of(&again), bench.target_of(&out));
        let back = bench.one(UNDER, &answer(&again, None));
        assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &lowered(&reply))));
        // The other direction inside, as an appliance that refuses a connection answers.
        let back = bench.one(UNDER, &answer(&out, Some(&reply.ip())));
        assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &reply.ip())));
        // A cookie of one endpoint is good for no flow of another that has the same addresses.
        if !six {
            let (_, other) = bench.one(LEFT, &framed(LEFT_MAC, OTHER_CLIENT, VLAN_200, &syn.ip()));
            let back = bench.one(UNDER, &answer(&other, None));
            assert_eq!(back, (RIGHT, framed(OTHER_ROUTER, RIGHT_MAC, VLAN_7_300, &lowered(&syn))));
        }
        // Whoever else sends: the senders of a link share what a cookie names.
        let named = |bench: &Bench, out: &[u8]| match bench.workers[0]
            .flows()
            .table
            .cookies()
            .decode(Cookie(cookie(out)))
        {
            DecodedCookie::Stateless { link, .. } => link,
            DecodedCookie::Flow { .. } => panic!("a flow's cookie"),
        };
        let shared = named(&bench, &out);
        for n in 0..200 {
            let stranger = [2, 0, 0, 0, 9, n];
            let frame = framed(LEFT_MAC, stranger, VLAN_100, &client(10_000 + u16::from(n), SYN).ip());
            let (_, out) = bench.one(LEFT, &frame);
            assert_eq!(named(&bench, &out), shared);
            assert_eq!(bench.one(UNDER, &answer(&out, None)).0, RIGHT);
        }
        let stateless = bench.counters[0].gateway(GatewayId(0)).stateless_packets.get();
        assert_eq!(stateless, if six { 202 } else { 203 });
        assert_eq!(bench.drops(), []);
        bench.assert_settled();
    }
}

// O-4
#[test]
fn a_flow_may_change_the_interface_that_it_comes_in_by() {
    let mut bench = router(1);
    let syn = client(4000, SYN);
    let (_, out) = bench.one(LEFT, &from_client(&syn));
    // The same client's packets by way of the guests' VLAN: the same endpoint, so the same flow.
    let ack = Segment { flags: ACK, ..syn.clone() };
    let (_, moved) = bench.one(LEFT, &framed(LEFT_MAC, GUEST_MAC, VLAN_101, &ack.ip()));
    assert_eq!(cookie(&moved), cookie(&out));
    // What goes to the client goes by the route, whichever way the client's packets come.
    let reply = Segment { flags: SYN | ACK, ..syn.reversed() };
    let (_, again) = bench.one(RIGHT, &from_server(&reply));
    let back = bench.one(UNDER, &answer(&again, None));
    assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &lowered(&reply))));
}

// O-4
#[test]
fn ethernet_padding_is_taken_off() {
    let mut bench = router(1);
    let syn = client(4000, SYN);
    let mut padded = from_client(&syn);
    padded.resize(64, 0xee);
    let (_, out) = bench.one(LEFT, &padded);
    assert_eq!(inner(&out), lowered(&syn));
    let mut padded = answer(&out, None);
    padded.extend([0xdd; 9]);
    let (_, back) = bench.one(UNDER, &padded);
    assert_eq!(back, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &lowered(&syn)));
}
