//! What a capture says of packets: each point, each verdict, the filters, its bounds, and that it changes nothing.

use flowgate::datapath::capture::filter::{End, Filter, Points, Prefix, Reasons};
use flowgate::datapath::capture::record::{Point, Verdict};
use flowgate::datapath::capture::{Bounds, CapturedPacket, MAX_CAPTURES};
use flowgate::datapath::counters::{DropReason, ResetTrigger};
use flowgate::datapath::forwarding::{Condition, Policy};
use flowgate::datapath::messages::FromWorker;
use flowgate::id::{EndpointId, GatewayId};
use flowgate::io::memory::MemoryBuf;
use flowgate::wire::ip::IpVersion;

use crate::harness::*;
use crate::pieces::{fragments, from_client, noise};

/// What was captured so far, which is then forgotten.
fn captured(bench: &mut Bench) -> Vec<CapturedPacket> {
    bench.drain_captured();
    std::mem::take(&mut bench.watched.as_mut().unwrap().packets)
}

fn points(packets: &[CapturedPacket]) -> Vec<(Point, Verdict)> {
    packets.iter().map(|packet| (packet.record.point, packet.record.verdict)).collect()
}

fn resetting() -> Policy {
    Policy { reset_on_unhealthy: true, ..Policy::default() }
}

// C-1, R-1, R-8
#[test]
fn a_connection_is_seen_at_every_point_of_its_way_with_what_became_of_it() {
    let mut bench = Bench::new(4);
    bench.policy = resetting();
    bench.publish();
    bench.capture(Filter::default());

    let syn = client(1000, SYN).frame();
    let (_, outer) = bench.one(LEFT, &syn);
    let packets = captured(&mut bench);
    assert_eq!(
        points(&packets),
        [(Point::Arrived, Verdict::Forwarded), (Point::Encapsulated, Verdict::Forwarded)]
    );
    assert_eq!((&packets[0].bytes, &packets[1].bytes), (&syn, &outer), "as it came, and as it left");
    let target = bench.target_of(&outer);
    for packet in &packets {
        let record = packet.record;
        assert_eq!(record.target, Some(target_address(target).to_bits()));
        assert_eq!(record.cookie, Some(cookie(&outer)));
        assert_eq!((record.endpoint, record.gateway), (Some(EndpointId(0)), Some(GatewayId(0))));
        assert_eq!(record.length as usize, packet.bytes.len());
    }
    assert_eq!(packets[0].record.port, Some(port_id(LEFT)));
    assert_eq!(packets[1].record.port, Some(port_id(UNDER)));

    let back = answer(&outer, None);
    let (_, delivered) = bench.one(UNDER, &back);
    let packets = captured(&mut bench);
    assert_eq!(
        points(&packets),
        [(Point::Returned, Verdict::Delivered), (Point::Delivered, Verdict::Delivered)]
    );
    assert_eq!((&packets[0].bytes, &packets[1].bytes), (&back, &delivered));
    for packet in &packets {
        assert_eq!(packet.record.target, Some(target_address(target).to_bits()));
        assert_eq!(packet.record.cookie, Some(cookie(&outer)));
        assert_eq!(packet.record.gateway, Some(GatewayId(0)));
    }

    bench.set_condition(target, Condition::Unhealthy);
    let ack = client(1000, ACK).frame();
    let (_, reset) = bench.one(LEFT, &ack);
    let packets = captured(&mut bench);
    let verdict = Verdict::Reset(ResetTrigger::Unhealthy);
    assert_eq!(points(&packets), [(Point::Arrived, verdict), (Point::Reset, verdict)]);
    assert_eq!((&packets[0].bytes, &packets[1].bytes), (&ack, &reset));
    assert!(packets.iter().all(|packet| packet.record.target == Some(target_address(target).to_bits())));

    let stale = bench.dropped(UNDER, &back);
    assert_eq!(stale, DropReason::CookieStale);
    let packets = captured(&mut bench);
    let verdict = Verdict::Dropped(DropReason::CookieStale);
    assert_eq!(points(&packets), [(Point::Returned, verdict), (Point::Dropped, verdict)]);
    assert!(packets.iter().all(|packet| packet.bytes == back));
    bench.assert_watched();
}

// C-1
#[test]
fn what_the_port_does_not_take_is_captured_as_dropped_and_nothing_as_sent() {
    let mut bench = Bench::new(4);
    bench.capture(Filter::default());
    bench.workers[0].ports_mut()[UNDER].room = Some(2);
    for port in 1..=5 {
        let frame = client(port, SYN).frame();
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&frame));
    }
    bench.rounds();
    let packets = captured(&mut bench);
    let count = |point, verdict| points(&packets).iter().filter(|one| **one == (point, verdict)).count();
    assert_eq!(count(Point::Arrived, Verdict::Forwarded), 5);
    assert_eq!(count(Point::Encapsulated, Verdict::Forwarded), 2);
    assert_eq!(count(Point::Dropped, Verdict::Dropped(DropReason::TransmitFull)), 3);
    bench.assert_watched();
}

// C-1, M-4
#[test]
fn fragments_that_wait_are_captured_again_where_they_end() {
    let mut bench = Bench::new(4);
    bench.capture(Filter::default());
    let datagram = |id: u16| {
        let mut ip = Segment { fragment: 0, ..client(7, 0).udp() }.with_payload(&noise(2000)).ip();
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[10..12].fill(0);
        let sum = checksum(&[&ip[..20]]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        fragments(&ip, &[1000])
    };
    let pieces = datagram(1);
    assert!(bench.put(LEFT, &from_client(&pieces[1])).is_empty());
    assert_eq!(points(&captured(&mut bench)), [(Point::Arrived, Verdict::Waits)]);
    assert_eq!(bench.put(LEFT, &from_client(&pieces[0])).len(), 2);
    let packets = captured(&mut bench);
    assert_eq!(
        points(&packets),
        [
            (Point::Arrived, Verdict::Forwarded),
            (Point::Encapsulated, Verdict::Forwarded),
            (Point::Encapsulated, Verdict::Forwarded)
        ]
    );
    assert_eq!(packets[1].record.cookie, packets[2].record.cookie);

    let alone = from_client(&datagram(2)[1]);
    assert!(bench.put(LEFT, &alone).is_empty());
    captured(&mut bench);
    bench.pass(2000);
    let packets = captured(&mut bench);
    assert_eq!(points(&packets), [(Point::Dropped, Verdict::Dropped(DropReason::FragmentTimeout))]);
    assert_eq!(packets[0].bytes, alone);
    bench.assert_watched();
}

#[test]
fn a_packet_that_another_worker_goes_on_with_arrives_once() {
    let mut bench = Bench::with(4, 2, 1024);
    bench.capture(Filter::default());
    for port in 1..=40 {
        bench.put_at(0, LEFT, &client(port, SYN).frame());
    }
    let packets = captured(&mut bench);
    let count = |point, verdict| points(&packets).iter().filter(|one| **one == (point, verdict)).count();
    let handed = count(Point::Arrived, Verdict::HandedOff);
    assert!(handed > 5, "{handed} of 40");
    assert_eq!(handed + count(Point::Arrived, Verdict::Forwarded), 40);
    assert_eq!(count(Point::Encapsulated, Verdict::Forwarded), 40);
    assert!(packets.iter().any(|packet| packet.record.worker.0 == 1));
    bench.assert_watched();
}

/// What of some traffic a filter asks for.
fn filtered(filter: Filter) -> Vec<CapturedPacket> {
    let mut bench = Bench::wired(2, 4, 1, 1024);
    bench.capture(filter);
    for port in 1..=20 {
        let (_, outer) = bench.one(LEFT, &client(port, SYN).frame());
        bench.one(UNDER, &answer(&outer, None));
        let [other, _] = wire(1);
        bench.one(other, &client(port, SYN).frame());
        bench.dropped(LEFT, &client(1000 + port, ACK).frame());
        bench.dropped(LEFT, &client(port, SYN).frame()[..30]);
    }
    captured(&mut bench)
}

#[test]
fn a_filter_takes_what_it_names_and_nothing_else() {
    let all = filtered(Filter::default());
    assert_eq!(all.len(), 20 * (4 + 2 + 2 + 2));
    let same = |filter: Filter, wanted: &dyn Fn(&CapturedPacket) -> bool| {
        let expected: Vec<_> =
            all.iter().filter(|packet| wanted(packet)).map(|packet| &packet.bytes).collect();
        let found = filtered(filter);
        assert!(!expected.is_empty());
        assert_eq!(found.iter().map(|packet| &packet.bytes).collect::<Vec<_>>(), expected, "{filter:?}");
    };
    same(Filter { points: Points::of([Point::Dropped]), ..Filter::default() }, &|packet| {
        packet.record.point == Point::Dropped
    });
    let reason = DropReason::UnknownFlow;
    same(Filter { reasons: Some(Reasons::of([reason])), ..Filter::default() }, &|packet| {
        packet.record.verdict == Verdict::Dropped(reason)
    });
    same(Filter { endpoint: Some(EndpointId(1)), ..Filter::default() }, &|packet| {
        packet.record.endpoint == Some(EndpointId(1))
    });
    let target = all[0].record.target;
    assert!(target.is_some());
    same(Filter { target, ..Filter::default() }, &|packet| packet.record.target == target);
    // Of a flow: on both wires, in both directions, bare and encapsulated.
    let address = |address: &str| {
        let address: std::net::Ipv4Addr = address.parse().unwrap();
        Some(Prefix::new(IpVersion::V4, address.to_bits().into(), 32))
    };
    let ends =
        [End { address: address(CLIENT), port: Some(7) }, End { address: address(SERVER), port: Some(80) }];
    let flow = filtered(Filter { ends, protocol: Some(6), ..Filter::default() });
    assert_eq!(flow.len(), 4 + 2);
    let swapped = filtered(Filter { ends: [ends[1], ends[0]], ..Filter::default() });
    assert_eq!(swapped.len(), 6);
    assert_eq!(filtered(Filter { protocol: Some(17), ..Filter::default() }).len(), 0);
    assert_eq!(filtered(Filter { gateway: Some(GatewayId(3)), ..Filter::default() }).len(), 0);
}

#[test]
fn what_is_not_kept_of_a_packet_does_not_leave_the_worker() {
    let mut bench = Bench::new(4);
    bench.capture_bounded(Filter::default(), Bounds { snap_len: 60, rate: 1_000_000, ring: 1 << 16 }, true);
    let frame = client(7, SYN).with_payload(&noise(500)).frame();
    let (_, outer) = bench.one(LEFT, &frame);
    let packets = captured(&mut bench);
    assert_eq!((&packets[0].bytes[..], &packets[1].bytes[..]), (&frame[..60], &outer[..60]));
    assert_eq!(packets[1].record.length as usize, outer.len());
}

#[test]
fn a_ring_that_nobody_reads_fills_and_the_worker_goes_on() {
    let mut bench = Bench::new(4);
    bench.capture_bounded(Filter::default(), Bounds { snap_len: 60, rate: 1_000_000, ring: 4096 }, false);
    for port in 1..=1000 {
        let frame = client(port, SYN).frame();
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&frame));
    }
    bench.rounds();
    assert_eq!(bench.take().len(), 1000);
    bench.drain_captured();
    let watched = bench.watched.as_ref().unwrap();
    let captured: u64 = watched.tally.values().sum();
    assert!(captured > 30, "{captured}");
    assert_eq!(watched.ring_full() + captured, 2000);
}

#[test]
fn a_capture_ends_when_nobody_has_its_other_end_and_comes_back() {
    let mut bench = Bench::new(4);
    bench.watched_from_the_start = false;
    let over =
        |bench: &Bench| bench.told.iter().filter(|told| matches!(told, FromWorker::CaptureOver(_))).count();
    let already = usize::from(bench.watched.is_some());
    bench.watched = None;
    bench.pass(2);
    assert_eq!(over(&bench), already);
    let mut ends = Vec::new();
    for _ in 0..MAX_CAPTURES {
        bench.capture(Filter::default());
        ends.push(bench.watched.take());
    }
    bench.pass(2);
    assert_eq!(over(&bench), already, "all of them run");
    // One more has no place and is over at once.
    bench.capture(Filter::default());
    bench.pass(2);
    assert_eq!(over(&bench), already + 1);
    bench.one(LEFT, &client(7, SYN).frame());
    assert_eq!(captured(&mut bench).len(), 0);
    bench.watched = ends.pop().unwrap();
    bench.one(LEFT, &client(8, SYN).frame());
    assert_eq!(captured(&mut bench).len(), 4, "the SYNs of both, and both encapsulated");
    bench.watched = None;
    drop(ends);
    bench.pass(2);
    assert_eq!(over(&bench), already + 1 + MAX_CAPTURES);
    bench.one(LEFT, &client(9, SYN).frame());
}
