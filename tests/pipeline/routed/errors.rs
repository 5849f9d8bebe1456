//! What cannot go on is told to its sender: time exceeded, no route, too big (W-6, M-2, C-1).

use flowgate::datapath::counters::{DropReason, Outcome};

use super::*;

// W-6
#[test]
fn the_end_of_the_time_to_live_is_told_from_the_interfaces_own_address_and_with_its_tags() {
    for ttl in [0, 1] {
        let mut bench = router(1);
        let four = Segment { ttl, ..client(4000, SYN).with_payload(&[7; 900]) };
        let about = four.ip();
        let back = bench.one(LEFT, &from_client(&four));
        let expected = framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &time_exceeded("192.0.2.1", &about));
        assert_eq!(back, (LEFT, expected));

        let six = Segment { ttl, ..client(4000, SYN).over_ipv6() };
        let back = bench.one(LEFT, &from_client(&six));
        let expected = framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &time_exceeded("2001:db8::1", &six.ip()));
        assert_eq!(back, (LEFT, expected));

        // Two tags stay two tags, and the other side's own address is told there.
        let reply = four.reversed();
        let back = bench.one(RIGHT, &framed(RIGHT_MAC, OTHER_ROUTER, VLAN_7_300, &reply.ip()));
        let error = time_exceeded("203.0.113.1", &reply.ip());
        assert_eq!(back, (RIGHT, framed(OTHER_ROUTER, RIGHT_MAC, VLAN_7_300, &error)));
        assert_eq!(bench.outcome(Outcome::Answered), 3);
        assert_eq!(bench.counters[0].flow_entries.get(), 0, "it has begun no flow");
        bench.assert_settled();
    }
}

// W-6
#[test]
fn an_interface_without_an_address_of_that_version_speaks_with_the_packets_destination() {
    let mut bench = router(1);
    let six = Segment { ttl: 1, ..client(4000, SYN).over_ipv6() };
    let (_, back) = bench.one(LEFT, &framed(LEFT_MAC, GUEST_MAC, VLAN_101, &six.ip()));
    assert_eq!(back, framed(GUEST_MAC, LEFT_MAC, VLAN_101, &time_exceeded(SERVER6, &six.ip())));
}

// W-6
#[test]
fn what_must_not_be_answered_is_dropped_when_its_time_is_over() {
    let mut bench = router(1);
    let segment = Segment { ttl: 1, ..client(4000, 0).udp().with_payload(&[0; 8]) };
    let later = Segment { fragment: 0x2001, ..segment.clone() };
    assert_eq!(bench.dropped(LEFT, &from_client(&later)), DropReason::TtlExceeded);
    let mut wrong = from_client(&segment);
    wrong[18 + 10] ^= 1;
    assert_eq!(bench.dropped(LEFT, &wrong), DropReason::TtlExceeded, "a wrong header checksum");
    let mut error = segment;
    error.payload = vec![0; 40];
    let mut icmp = error.ip();
    icmp[9] = 1;
    icmp[20..28].copy_from_slice(&[11, 0, 0, 0, 0, 0, 0, 0]);
    icmp[10..12].fill(0);
    let sum = checksum(&[&icmp[..20]]);
    icmp[10..12].copy_from_slice(&sum.to_be_bytes());
    let frame = framed(LEFT_MAC, CLIENT_MAC, VLAN_100, &icmp);
    assert_eq!(bench.dropped(LEFT, &frame), DropReason::TtlExceeded, "an ICMP error");
    bench.assert_settled();
}

// W-6
#[test]
fn a_flood_at_the_end_of_its_time_is_answered_within_bounds_and_counted_whole() {
    let mut bench = router(1);
    let frame = from_client(&Segment { ttl: 1, ..client(4000, SYN) });
    let answered: usize = (0..500).map(|_| bench.put(LEFT, &frame).len()).sum();
    assert_eq!(answered, 100);
    assert_eq!(bench.drops(), [(DropReason::TtlExceeded, 400)]);
    bench.assert_settled();
}

// W-6
#[test]
fn a_wrong_header_checksum_stays_wrong_for_its_receiver_to_see() {
    let mut bench = router(1);
    let mut frame = from_client(&client(4000, SYN));
    frame[18 + 10] ^= 0x40;
    let (_, out) = bench.one(LEFT, &frame);
    assert_ne!(checksum(&[&inner(&out)[..20]]), 0);
}

// O-4
#[test]
fn without_a_route_the_sender_is_told() {
    let mut bench = router(1);
    let six = Segment { dst: "2001:db9::9".parse().unwrap(), ..client(4000, SYN).over_ipv6() };
    let (_, out) = bench.one(LEFT, &from_client(&six));
    let back = bench.one(UNDER, &answer(&out, None));
    let error = no_route("2001:db8::1", &lowered(&six));
    assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &error)));

    // With no way back to the sender either, it is dropped.
    let lost = Segment { src: "2001:db9::8".parse().unwrap(), ..six };
    let (_, out) = bench.one(LEFT, &from_client(&lost));
    assert_eq!(bench.dropped(UNDER, &answer(&out, None)), DropReason::NoRoute);
    bench.assert_settled();
}

// M-2
#[test]
fn what_is_larger_than_the_way_out_is_told_its_mtu() {
    let mut bench = router(1);
    for interface in &mut bench.network.interfaces {
        interface.mtu = if interface.port == port_id(RIGHT) { 1300 } else { 1500 };
    }
    bench.publish();
    for (segment, six) in [(client(4000, SYN), false), (client(4000, SYN).over_ipv6(), true)] {
        let header = if six { 60 } else { 40 };
        let fits = segment.clone().with_payload(&vec![5; 1300 - header]);
        let (_, out) = bench.one(LEFT, &from_client(&fits));
        let back = bench.one(UNDER, &answer(&out, None));
        assert_eq!(back, (RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, &lowered(&fits))));

        let large = segment.with_payload(&vec![5; 1301 - header]);
        let (_, out) = bench.one(LEFT, &from_client(&large));
        let back = bench.one(UNDER, &answer(&out, None));
        let ours = if six { "2001:db8::1" } else { "192.0.2.1" };
        let error = icmp_error(ours, [3, 4], [2, 0], 1300, &lowered(&large));
        assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &error)));
    }
    assert_eq!(bench.drops(), []);
    bench.assert_settled();
}
