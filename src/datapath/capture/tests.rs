use super::filter::{End, Points, Prefix, Reasons};
use super::record::Point;
use super::*;
use crate::datapath::counters::{IcmpAnswer, ResetTrigger};
use crate::id::{EndpointId, GatewayId, WorkerId};
use crate::wire::ip::IpVersion;

const BOUNDS: Bounds = Bounds { snap_len: 100, rate: 1_000_000, ring: 4096 };

fn capture(filter: Filter, bounds: Bounds) -> (Box<Capture>, Captured) {
    Capture::new(filter, bounds, 3, Clock::start())
}

fn record(point: Point, verdict: Verdict) -> Record {
    Record { port: Some(PortId(1)), ..Record::new(point, verdict, &Seen::default(), 60) }
}

fn tuple(source: (u128, u16), destination: (u128, u16)) -> Seen {
    let tuple = Tuple { version: IpVersion::V4, protocol: 6, source, destination };
    Seen { tuple: Some(tuple), ..Seen::default() }
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let verdicts = [
        Verdict::Forwarded,
        Verdict::Delivered,
        Verdict::Crossed,
        Verdict::Host,
        Verdict::FromHost,
        Verdict::Piece,
        Verdict::HandedOff,
        Verdict::Waits,
    ];
    let verdicts = verdicts
        .into_iter()
        .chain(DropReason::ALL.iter().map(|reason| Verdict::Dropped(*reason)))
        .chain(ResetTrigger::ALL.iter().map(|trigger| Verdict::Reset(*trigger)))
        .chain(IcmpAnswer::ALL.iter().map(|answer| Verdict::Answered(*answer)));
    for verdict in verdicts {
        for point in Point::ALL {
            let known = Record {
                at_cycles: u64::MAX - 7,
                length: 9000,
                kept: 128,
                port: Some(PortId(3)),
                worker: WorkerId(250),
                point: *point,
                verdict,
                endpoint: Some(EndpointId(4095)),
                gateway: Some(GatewayId(0)),
                target: Some(0),
                cookie: Some(u32::MAX),
            };
            let unknown =
                Record { port: None, endpoint: None, gateway: None, target: None, cookie: None, ..known };
            for record in [known, unknown] {
                assert_eq!(Record::decode(&record.encode()), Some(record));
            }
        }
    }
    assert_eq!(Record::decode(&[0xff; HEADER_LEN]), None);
}

#[test]
fn a_packet_longer_than_is_kept_is_cut_and_its_length_told() {
    let (mut capture, mut captured) = capture(Filter::default(), BOUNDS);
    let frame: Vec<u8> = (0..=255).collect();
    let record = Record { length: 256, ..record(Point::Arrived, Verdict::Forwarded) };
    capture.take(&record, &Seen::default(), &frame, Millis(0));
    let packet = captured.take_next().unwrap();
    assert_eq!(packet.bytes, frame[..100]);
    assert_eq!(packet.record, Record { kept: 100, ..record });
    assert_eq!(captured.take_next(), None);
}

#[test]
fn what_finds_no_room_is_counted_and_what_is_in_the_ring_stays_whole() {
    let (mut capture, mut captured) = capture(Filter::default(), BOUNDS);
    let record = record(Point::Dropped, Verdict::Dropped(DropReason::NoTarget));
    // Three times round the ring, which wraps in the midst of records.
    for turn in 0..3_u64 {
        for number in 0..100 {
            let record = Record { at_cycles: turn << 8 | number, ..record };
            capture.take(&record, &Seen::default(), &[7; 61], Millis(0));
        }
        // 4,096 bytes have room for 40 of 101.
        for number in 0..40 {
            assert_eq!(captured.next_at(), Some(turn << 8 | number));
            assert_eq!(captured.take_next().unwrap().bytes, [7; 61]);
        }
        assert_eq!(captured.take_next(), None);
        let counts = &captured.counts()[1];
        let (matched, full) = (counts.matched.get(), counts.ring_full.get());
        assert_eq!((matched, full), ((turn + 1) * 100, (turn + 1) * 60));
    }
}

#[test]
fn no_more_than_the_rate_is_captured_and_the_rest_counted() {
    let bounds = Bounds { rate: 1000, ring: RING, ..BOUNDS };
    let (mut capture, mut captured) = capture(Filter::default(), bounds);
    let mut flood = |at: u32| {
        for _ in 0..10_000 {
            capture.take(&record(Point::Arrived, Verdict::Waits), &Seen::default(), &[1], Millis(at));
        }
        std::iter::from_fn(|| captured.take_next()).count()
    };
    assert_eq!(flood(u32::MAX - 5), 100, "a tenth of a second's share at once");
    assert_eq!(flood(u32::MAX - 5), 0);
    assert_eq!(flood(4), 10, "across the wrap of the clock");
    assert_eq!(flood(60_000), 100);
    assert_eq!(captured.counts()[1].over_rate.get(), 40_000 - 210);
}

#[test]
fn a_capture_is_over_when_its_other_end_is_dropped() {
    let (capture, captured) = capture(Filter::default(), BOUNDS);
    assert!(!capture.is_over());
    drop(captured);
    assert!(capture.is_over());
}

#[test]
fn a_filter_of_a_flow_matches_both_directions_and_what_quotes_it_and_no_other() {
    let address = |address| Some(Prefix::new(IpVersion::V4, address, 32));
    let filter = Filter {
        ends: [End { address: address(1), port: Some(40) }, End { address: address(2), port: Some(443) }],
        protocol: Some(6),
        ..Filter::default()
    };
    assert!(filter.may_match(&tuple((1, 40), (2, 443))));
    assert!(filter.may_match(&tuple((2, 443), (1, 40))));
    let quoting = Seen { quoted: tuple((2, 443), (1, 40)).tuple, ..tuple((9, 0), (1, 0)) };
    assert!(filter.may_match(&quoting));
    for other in [
        tuple((1, 41), (2, 443)),
        tuple((1, 443), (2, 40)),
        tuple((1, 40), (3, 443)),
        tuple((2, 40), (1, 443)),
        Seen::default(),
    ] {
        assert!(!filter.may_match(&other), "{other:?}");
    }
}

#[test]
fn a_prefix_has_the_addresses_that_begin_like_it() {
    for (version, network, length, address, within) in [
        (IpVersion::V4, 0x0a01_0000, 16, 0x0a01_ffff, true),
        (IpVersion::V4, 0x0a01_0000, 16, 0x0a02_0000, false),
        (IpVersion::V4, 0x0a01_0203, 0, 0xffff_ffff, true),
        (IpVersion::V6, 0, 0, u128::MAX, true),
        (IpVersion::V6, 1 << 127, 1, u128::MAX, true),
        (IpVersion::V6, 1 << 127, 1, 1, false),
        (IpVersion::V6, 5, 128, 5, true),
        (IpVersion::V6, 5, 128, 4, false),
    ] {
        let filter = Filter {
            ends: [End { address: Some(Prefix::new(version, network, length)), port: None }, End::default()],
            ..Filter::default()
        };
        let tuple = Tuple { version, protocol: 17, source: (77 << 40, 1), destination: (address, 2) };
        // The other end is in no prefix but the one of all addresses.
        let seen = Seen { tuple: Some(tuple), ..Seen::default() };
        let other = length == 0;
        assert_eq!(filter.may_match(&seen), within || other, "{network:x}/{length} and {address:x}");
    }
    let v4 = Prefix::new(IpVersion::V4, 5, 0);
    let filter =
        Filter { ends: [End { address: Some(v4), port: None }, End::default()], ..Filter::default() };
    let tuple = Tuple { version: IpVersion::V6, protocol: 17, source: (5, 1), destination: (5, 2) };
    assert!(!filter.may_match(&Seen { tuple: Some(tuple), ..Seen::default() }), "IPv6 is not IPv4");
}

#[test]
fn each_condition_of_a_filter_must_hold() {
    let seen = Seen {
        endpoint: Some(EndpointId(3)),
        gateway: Some(GatewayId(2)),
        target: Some(7),
        ..tuple((1, 40), (2, 443))
    };
    let verdict = Verdict::Dropped(DropReason::UnknownFlow);
    let record = Record::new(Point::Arrived, verdict, &seen, 60);
    let all = Filter {
        points: Points::of([Point::Arrived, Point::Dropped]),
        reasons: Some(Reasons::of([DropReason::UnknownFlow, DropReason::HostFull])),
        protocol: Some(6),
        target: Some(7),
        gateway: Some(GatewayId(2)),
        endpoint: Some(EndpointId(3)),
        ..Filter::default()
    };
    assert!(all.matches(&record, &seen));
    for one_wrong in [
        Filter { points: Points::of([Point::Dropped]), ..all },
        Filter { reasons: Some(Reasons::of([DropReason::ExpiredFlow])), ..all },
        Filter { protocol: Some(17), ..all },
        Filter { target: Some(8), ..all },
        Filter { gateway: Some(GatewayId(1)), ..all },
        Filter { endpoint: Some(EndpointId(2)), ..all },
    ] {
        assert!(!one_wrong.matches(&record, &seen), "{one_wrong:?}");
    }
    let forwarded = Record { verdict: Verdict::Forwarded, ..record };
    assert!(!all.matches(&forwarded, &seen), "a reason is asked for, and it was not dropped");
}
