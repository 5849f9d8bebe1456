//! What is the host's goes to it without tags, and what it sends leaves with them (O-4, C-1).

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::host::FromHost;
use flowgate::datapath::load::PacketRing;
use flowgate::id::Millis;
use flowgate::io::memory::MemoryBuf;

use super::*;

fn arp(to: [u8; 6], tags: &[u8]) -> Vec<u8> {
    let mut frame = [to, CLIENT_MAC].concat();
    frame.extend(tags);
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([0xa5; 20]);
    frame
}

/// The frame without the tags after its addresses.
fn untagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    [&frame[..12], &frame[12 + tags.len()..]].concat()
}

/// An ICMP echo request.
fn ping(to: &str, ttl: u8) -> Vec<u8> {
    let segment = Segment { dst: to.parse().unwrap(), ttl, ..client(0, 0).udp() };
    let segment =
        if to.contains(':') { Segment { src: CLIENT6.parse().unwrap(), ..segment } } else { segment };
    let mut ip = segment.ip();
    let (protocol, transport) = if to.contains(':') { (6, 40) } else { (9, 20) };
    ip[protocol] = if to.contains(':') { 58 } else { 1 };
    ip[transport..transport + 8].copy_from_slice(&[
        if to.contains(':') { 128 } else { 8 },
        0,
        0,
        0,
        0,
        1,
        0,
        1,
    ]);
    if !to.contains(':') {
        ip[10..12].fill(0);
        let sum = checksum(&[&ip[..20]]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    ip
}

fn send(bench: &mut Bench, interface: InterfaceId, frame: &[u8]) {
    bench.from_host.push(FromHost { interface, packet: MemoryBuf::new(frame) }).unwrap();
    bench.rounds();
}

// O-4, C-1
#[test]
fn arp_discovery_and_what_is_for_the_gateways_own_addresses_are_the_hosts() {
    for workers in [1, 2, 4] {
        let mut bench = router(workers);
        let group = [0x33, 0x33, 0, 0, 0, 1];
        let left = |ip: &[u8]| framed(LEFT_MAC, CLIENT_MAC, VLAN_100, ip);
        let mut solicitation = ping("2001:db8::1", 255);
        solicitation[40] = 135;
        let frames = [
            arp([0xff; 6], VLAN_100),
            arp(LEFT_MAC, VLAN_100),
            left(&ping("192.0.2.1", 64)),
            left(&ping("192.0.2.1", 1)), // TTL does not matter to who has arrived
            left(&ping("2001:db8::1", 64)),
            left(&ping("fe80::1", 64)),
            left(&solicitation),
            framed(group, CLIENT_MAC, VLAN_100, &solicitation),
            // The gateway's own broadcast and multicast, whatever is inside.
            framed([0xff; 6], CLIENT_MAC, VLAN_100, &client(1, SYN).ip()),
            framed([1, 0, 0x5e, 0, 0, 5], CLIENT_MAC, VLAN_100, &ping("224.0.0.5", 1)),
            // DHCP, from nowhere to everybody.
            left(
                &Segment {
                    src: "0.0.0.0".parse().unwrap(),
                    dst: "255.255.255.255".parse().unwrap(),
                    ..client(68, 0).udp()
                }
                .ip(),
            ),
            // A later fragment to the gateway itself.
            left(&Segment { dst: "192.0.2.1".parse().unwrap(), fragment: 0x0010, ..client(1, 0).udp() }.ip()),
        ];
        for (number, frame) in frames.iter().enumerate() {
            let at = number % usize::from(workers);
            assert_eq!(bench.put_at(at, LEFT, frame), [], "frame {number}");
            assert_eq!(hosted(&mut bench), [(CLIENTS, untagged(frame, VLAN_100))], "frame {number}");
        }
        let frame = arp([0xff; 6], VLAN_7_300);
        bench.put(RIGHT, &frame);
        assert_eq!(hosted(&mut bench), [(OTHER_SERVERS, untagged(&frame, VLAN_7_300))]);
        let frame = arp([0xff; 6], NO_TAG);
        bench.put(RIGHT, &frame);
        assert_eq!(hosted(&mut bench), [(SERVERS, frame)]);
        // The address of another of the gateway's interfaces is the host's only there.
        let elsewhere = framed(LEFT_MAC, CLIENT_MAC, VLAN_101, &ping("192.0.2.1", 64));
        assert_eq!(bench.one(LEFT, &elsewhere).0, UNDER);
        assert_eq!(bench.outcome(Outcome::Host), frames.len() as u64 + 2);
        bench.assert_settled();
    }
}

// C-1
#[test]
fn what_the_host_sends_leaves_by_its_interface_with_its_tags() {
    let mut bench = router(4);
    for (interface, port, tags) in [
        (UNDERLAY, UNDER, NO_TAG),
        (CLIENTS, LEFT, VLAN_100),
        (GUESTS, LEFT, VLAN_101),
        (SERVERS, RIGHT, NO_TAG),
        (OTHER_SERVERS, RIGHT, VLAN_7_300),
    ] {
        let tagged = arp([0xff; 6], tags);
        send(&mut bench, interface, &untagged(&tagged, tags));
        assert_eq!(bench.take(), [(port, tagged)]);
    }
    assert_eq!(bench.outcome(Outcome::FromHost), 5);
    // What is no frame, or of no interface, is dropped.
    send(&mut bench, CLIENTS, &[0xff; 13]);
    send(&mut bench, InterfaceId(77), &arp([0xff; 6], NO_TAG));
    assert_eq!(bench.take(), []);
    assert_eq!(bench.drops(), [(DropReason::FrameTruncated, 1), (DropReason::PortUnused, 1)]);
    bench.assert_settled();
}

// C-1
#[test]
fn a_burst_of_the_host_leaves_whole_and_in_order() {
    let mut bench = router(1);
    let frames: Vec<Vec<u8>> =
        (0..HOST_RING as u8).map(|n| [&arp([0xff; 6], NO_TAG)[..], &[n]].concat()).collect();
    for frame in &frames {
        bench.from_host.push(FromHost { interface: SERVERS, packet: MemoryBuf::new(frame) }).unwrap();
    }
    bench.rounds();
    let expected: Vec<_> = frames.into_iter().map(|frame| (RIGHT, frame)).collect();
    assert_eq!(bench.take(), expected);
    bench.assert_settled();
    bench.pass(1);
    assert_eq!(fill(&bench, PacketRing::FromHost), [HOST_RING as u64, 0, HOST_RING as u64]);
}

/// Of worker 0's ring what fits, what waits, and the most that did in the last minute.
fn fill(bench: &Bench, ring: PacketRing) -> [u64; 3] {
    let fill = bench.counters[0].ring(ring);
    [fill.capacity.get(), fill.waiting.get(), fill.most.within(Millis(bench.now), 60_000)]
}

// C-1
#[test]
fn a_host_that_does_not_keep_up_loses_frames_and_they_are_counted() {
    let mut bench = router(1);
    let frame = arp([0xff; 6], VLAN_100);
    for _ in 0..HOST_RING + 10 {
        assert_eq!(bench.put(LEFT, &frame), []);
    }
    assert_eq!(bench.outcome(Outcome::Host), HOST_RING as u64);
    assert_eq!(bench.drops(), [(DropReason::HostFull, 10)]);
    bench.assert_settled();
    bench.pass(1);
    assert_eq!(fill(&bench, PacketRing::ToHost), [HOST_RING as u64; 3]);
    assert_eq!(hosted(&mut bench).len(), HOST_RING);
    bench.pass(1);
    assert_eq!(fill(&bench, PacketRing::ToHost), [HOST_RING as u64, 0, HOST_RING as u64]);
    bench.put(LEFT, &frame);
    assert_eq!(hosted(&mut bench).len(), 1);
}

// C-1
#[test]
fn where_the_kernel_sees_the_port_itself_nothing_is_handed_over() {
    let mut bench = router(1);
    bench.network.interfaces.iter_mut().for_each(|interface| interface.host_shares = true);
    bench.publish();
    assert_eq!(bench.put(LEFT, &arp([0xff; 6], VLAN_100)), []);
    assert_eq!(bench.put(UNDER, &arp(GATEWAY_MAC, NO_TAG)), []);
    assert_eq!(hosted(&mut bench), []);
    assert_eq!(bench.outcome(Outcome::Host), 2);
    bench.assert_settled();
}

// C-1
#[test]
fn what_is_not_geneve_on_the_target_side_is_the_hosts_too() {
    let mut bench = router(2);
    let health =
        framed(GATEWAY_MAC, CLIENT_MAC, NO_TAG, &Segment { dst: TUNNEL.into(), ..client(1, SYN | ACK) }.ip());
    for frame in [health, arp(GATEWAY_MAC, NO_TAG)] {
        assert_eq!(bench.put(UNDER, &frame), []);
        assert_eq!(hosted(&mut bench), [(UNDERLAY, frame)]);
    }
    // The target side has no VLANs: stripped of its tag the frame would be another network's.
    assert_eq!(bench.dropped(UNDER, &arp(GATEWAY_MAC, VLAN_100)), DropReason::VlanUnknown);
    assert_eq!(hosted(&mut bench), []);
    bench.assert_settled();
}
