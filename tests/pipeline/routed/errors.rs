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

        let six = Segment { ttl, ..client(4000, SYN).over_ipv6().with_payload(&[7; 99]) };
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
    let six = Segment { ttl: 1, ..client(4000, SYN).over_ipv6().with_payload(&[7; 36]) };
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
    assert_eq!(answered, 20, "as many at once as one network is told");
    assert_eq!(bench.drops(), [(DropReason::TtlExceeded, 480)]);
    bench.assert_settled();
}

// M-2, W-6
#[test]
fn errors_have_no_more_bytes_than_what_they_are_about() {
    for (six, enough) in [(false, 56), (true, 96)] {
        for payload in 0..80 {
            let mut bench = router(1);
            let segment = Segment { ttl: 1, ..client(4000, SYN) };
            let segment = if six { segment.over_ipv6() } else { segment }.with_payload(&vec![7; payload]);
            let (frame, ip) = (from_client(&segment), segment.ip());
            let ours = if six { "2001:db8::1" } else { "192.0.2.1" };
            let error = framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &time_exceeded(ours, &ip));
            let (mut there, mut back) = (0, 0);
            for number in 1..=10 {
                there += ip.len();
                for out in bench.put(LEFT, &frame) {
                    back += out.1.len() - 18;
                    assert_eq!(out, (LEFT, error.clone()));
                }
                assert!(back <= there, "{back} bytes for {there}");
                assert!(number == 1 || back > 0, "the sender of {} bytes is told at last", ip.len());
            }
            assert_eq!(back == there, ip.len() >= enough, "about {} bytes", ip.len());
            bench.assert_settled();
        }
    }
}

// M-2, O-4
#[test]
fn a_short_packet_that_no_route_leads_to_is_told_when_it_comes_again() {
    let mut bench = router(1);
    let six = Segment { dst: "2001:db9::9".parse().unwrap(), ..client(4000, SYN).over_ipv6() };
    let (_, out) = bench.one(LEFT, &from_client(&six));
    assert_eq!(bench.dropped(UNDER, &answer(&out, None)), DropReason::NoRoute);
    let (_, out) = bench.one(LEFT, &from_client(&six));
    let (port, back) = bench.one(UNDER, &answer(&out, None));
    assert_eq!((port, &back[18..]), (LEFT, &no_route("2001:db8::1", &lowered(&six))[..]));
    assert_eq!(
        back.len() - 18,
        48 + 48,
        "its header and eight bytes, which is more than one of it and less than two"
    );
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
    let six = client(4000, SYN).over_ipv6().with_payload(&[7; 36]);
    let six = Segment { dst: "2001:db9::9".parse().unwrap(), ..six };
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

/// The pieces of an IPv4 packet without options, of at most so many bytes each (RFC 791 3.2).
fn pieces(ip: &[u8], most: usize) -> Vec<Vec<u8>> {
    let step = (most - 20) / 8 * 8;
    let payloads: Vec<&[u8]> = ip[20..].chunks(step).collect();
    let header = |number: usize, payload: &[u8]| {
        let more = if number + 1 < payloads.len() { 0x2000 } else { 0 };
        let mut header = ip[..20].to_vec();
        header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(more | (number * step / 8) as u16).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    };
    payloads
        .iter()
        .enumerate()
        .map(|(number, payload)| [&header(number, payload), *payload].concat())
        .collect()
}

/// What the target returns is larger than the way out, and its sender allows that it is split.
fn large_answer(bench: &mut Bench, payload: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    for interface in &mut bench.network.interfaces {
        interface.mtu = if interface.port == port_id(RIGHT) { 576 } else { 1500 };
    }
    bench.publish();
    let segment = Segment { fragment: 0, ..client(4000, 0).udp() }.with_payload(&vec![5; payload]);
    let (_, out) = bench.one(LEFT, &from_client(&segment));
    (answer(&out, None), pieces(&lowered(&segment), 576))
}

// M-2, C-1
#[test]
fn what_may_be_split_for_the_way_out_is() {
    let mut bench = router(1);
    let (back, pieces) = large_answer(&mut bench, 1300);
    assert_eq!(pieces.len(), 3);
    let framed = |ip: &Vec<u8>| (RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, ip));
    let expected: Vec<_> = pieces.iter().map(framed).collect();
    assert_eq!(bench.put(UNDER, &back), expected);
    assert_eq!(bench.outcome(Outcome::Delivered), 1, "one packet came in");
    bench.assert_settled();

    // A port that takes no more than two of three has not delivered the packet.
    bench.workers[0].ports_mut()[RIGHT].room = Some(2);
    assert_eq!(bench.put(UNDER, &back), expected[..2]);
    assert_eq!(bench.drops(), [(DropReason::TransmitFull, 1)]);
    bench.assert_settled();
}

// M-2, C-1
#[test]
fn pieces_wait_for_their_next_hop_and_are_one_packet_all_the_same() {
    for known in [true, false] {
        let mut bench = router(1);
        tell(&mut bench, SERVERS, "203.0.113.253", None);
        let (back, pieces) = large_answer(&mut bench, 1300);
        assert!(bench.put(UNDER, &back).is_empty());
        assert_eq!(asked(&mut bench).len(), 1);
        tell(&mut bench, SERVERS, "203.0.113.253", known.then_some(NEAR_ROUTER));
        let out = bench.take();
        if known {
            let framed = |ip: &Vec<u8>| (RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, ip));
            assert_eq!(out, pieces.iter().map(framed).collect::<Vec<_>>());
            assert_eq!(bench.drops(), []);
        } else {
            assert_eq!(out, [], "there is no error about a later fragment");
            assert_eq!(bench.drops(), [(DropReason::NeighbourUnknown, 1)]);
        }
        bench.assert_settled();
    }
}

// M-2, W-6
#[test]
fn what_does_not_fit_the_target_side_is_told_from_the_interfaces_own_address() {
    let mut bench = router(1);
    let large = client(4000, SYN).with_payload(&[7; 1600]);
    let back = bench.one(LEFT, &from_client(&large));
    let error = icmp_error("192.0.2.1", [3, 4], [2, 0], 1600 - 68, &large.ip());
    assert_eq!(back, (LEFT, framed(CLIENT_MAC, LEFT_MAC, VLAN_100, &error)));
    // Pieces for the target have a lowered TTL each.
    let split = Segment { fragment: 0, ..large };
    let out = bench.put(LEFT, &from_client(&split));
    let expected = pieces(&lowered(&split), 1600 - 68);
    assert_eq!(out.iter().map(|(_, frame)| inner(frame).to_vec()).collect::<Vec<_>>(), expected);
    bench.assert_settled();
}

// M-4, W-6
#[test]
fn fragments_cross_by_route_each_with_a_lowered_ttl() {
    for workers in [1, 2, 4] {
        let mut bench = router(workers);
        let whole = Segment { fragment: 0, ..client(4000, 0).udp() }.with_payload(&[9; 900]);
        let (sent, lower) = (pieces(&whole.ip(), 400), pieces(&lowered(&whole), 400));
        for (number, (piece, expected)) in sent.iter().zip(&lower).enumerate() {
            let at = number % usize::from(workers);
            let out = bench.put_at(at, LEFT, &framed(LEFT_MAC, CLIENT_MAC, VLAN_100, piece));
            assert_eq!(out.len(), 1, "{:?}", bench.drops());
            assert_eq!(inner(&out[0].1), expected);
            let back = bench.put_at(at, UNDER, &answer(&out[0].1, None));
            assert_eq!(back, [(RIGHT, framed(NEAR_ROUTER, RIGHT_MAC, NO_TAG, expected))]);
        }
        bench.assert_settled();
    }
}
