//! Sizes (M-1 to M-3): what does not fit the target side is split or its sender is told, and SYNs are lowered.
//! What must come out is put together here from the RFCs, by nothing that the gateway uses.

use std::net::IpAddr;

use flowgate::datapath::counters::{DropReason, IcmpAnswer, Outcome};
use flowgate::id::{GatewayId, TargetId};
use flowgate::io::memory::MemoryBuf;

use crate::harness::*;
use crate::pieces::*;

/// A UDP packet of so many bytes of IP, from the client.
fn sized(six: bool, len: usize) -> Segment {
    let udp = client(4000, 0).udp();
    if six { udp.over_ipv6().with_payload(&noise(len - 48)) } else { udp.with_payload(&noise(len - 28)) }
}

fn may_be_split(segment: Segment) -> Segment {
    Segment { fragment: 0, ..segment }
}

fn answers(bench: &Bench, answer: IcmpAnswer) -> u64 {
    bench.counters.iter().map(|all| all.icmp_answers[answer.index()].get()).sum()
}

/// The error that a sender must get about its packet, byte for byte but for the checksum: RFC 792 and RFC
/// 1191, RFC 4443 3.2.
fn error_about(segment: &Segment, mtu: u32) -> Vec<u8> {
    let ip = segment.ip();
    let mut frame = [segment.macs.0, segment.macs.1].concat();
    for vlan in &segment.vlans {
        frame.extend([0x81, 0x00]);
        frame.extend(vlan.to_be_bytes());
    }
    let (mut header, kind, most) = match (segment.src, segment.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend([0x08, 0x00]);
            let total = (28 + ip.len().min(548)) as u16;
            let mut header = vec![0x45, 0xc0];
            header.extend(total.to_be_bytes());
            header.extend([0, 0, 0x40, 0, 64, 1, 0, 0]);
            header.extend(dst.octets());
            header.extend(src.octets());
            let sum = checksum(&[&header]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            (header, [3, 4], 548)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend([0x86, 0xdd]);
            let mut header = vec![0x60, 0, 0, 0];
            header.extend(((8 + ip.len().min(1232)) as u16).to_be_bytes());
            header.extend([58, 64]);
            header.extend(dst.octets());
            header.extend(src.octets());
            (header, [2, 0], 1232)
        }
        _ => panic!("addresses of two versions"),
    };
    header.extend(kind);
    header.extend([0, 0]);
    header.extend(mtu.to_be_bytes());
    header.extend(&ip[..ip.len().min(most)]);
    icmp_checksum(&mut header);
    [frame, header].concat()
}

// M-1, M-2
#[test]
fn the_sender_of_what_does_not_fit_is_told_the_size_that_does_back_the_way_it_came() {
    for (six, side, vlans) in
        [(false, LEFT, vec![]), (true, LEFT, vec![]), (false, RIGHT, vec![42]), (true, RIGHT, vec![7, 42])]
    {
        let mut bench = Bench::new(1);
        let of = |len| {
            let segment = Segment { vlans: vlans.clone(), ..sized(six, len) };
            if side == LEFT { segment } else { segment.reversed() }
        };
        assert_eq!(bench.one(side, &of(1532).frame()).0, UNDER, "1,600 less 68 fits");
        let (port, told) = bench.one(side, &of(1533).frame());
        assert_eq!(port, side);
        assert_eq!(told, error_about(&of(1533), 1532), "six: {six}");
        let kind = if six { IcmpAnswer::PacketTooBig } else { IcmpAnswer::FragmentationNeeded };
        assert_eq!((answers(&bench, kind), bench.outcome(Outcome::Answered)), (1, 1));
        bench.assert_settled();
    }
}

// M-2
#[test]
fn errors_are_rate_limited_and_the_rest_is_dropped_and_named() {
    let mut bench = Bench::new(1);
    let from = |network: u16| {
        let [a, b] = network.to_be_bytes();
        Segment { src: std::net::IpAddr::from([10, a, b, 1]), ..sized(false, 1600) }.frame()
    };
    let told = |bench: &mut Bench, networks: &mut dyn Iterator<Item = u16>| {
        for network in networks {
            bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&from(network)));
        }
        bench.rounds();
        bench.take().len()
    };
    // A flood under the address of one network is reflected at that to a degree.
    assert_eq!(told(&mut bench, &mut std::iter::repeat_n(1000, 70)), 20);
    assert_eq!(told(&mut bench, &mut (0..150)), 80, "and takes little from the others");
    assert_eq!(bench.drops(), [(DropReason::TooBigForTarget, 50 + 70)]);
    bench.now += 10;
    assert_eq!(told(&mut bench, &mut (0..50)), 10, "a thousand a second");
    bench.assert_settled();
}

// M-2: RFC 1122 3.2.2, RFC 4443 2.4.
#[test]
fn nobody_is_told_about_what_must_not_be_answered() {
    let mut bench = Bench::new(1);
    let big = |segment: Segment| segment.with_payload(&noise(1600));
    let multicast = big(Segment { dst: "239.1.2.3".parse().unwrap(), ..client(1, 0).udp() });
    let six = big(Segment { dst: "ff0e::5".parse().unwrap(), ..client(1, 0).udp().over_ipv6() });
    let group_frame = big(Segment { macs: (CLIENT_MAC, [0xff; 6]), ..client(1, 0).udp() });
    let nobody = big(Segment { src: "0.0.0.0".parse().unwrap(), ..client(1, 0).udp() });
    for segment in [multicast, six, group_frame, nobody] {
        assert_eq!(bench.dropped(LEFT, &segment.frame()), DropReason::TooBigForTarget, "{segment:?}");
    }
    let mut spoiled = big(client(1, 0).udp()).frame();
    spoiled[24] ^= 1;
    assert_eq!(bench.dropped(LEFT, &spoiled), DropReason::TooBigForTarget);
    let quoted = sized(false, 1600).ip();
    let error = error_from(SERVER, &quoted, 1600 - 28, [3, 1]);
    assert_eq!(bench.dropped(RIGHT, &from_server(&error)), DropReason::TooBigForTarget);
    let error = error_from(SERVER6, &sized(true, 1600).ip(), 1600 - 48, [1, 4]);
    assert_eq!(bench.dropped(RIGHT, &from_server(&error)), DropReason::TooBigForTarget);
    // A fragment that must not be fragmented further: the first is answered, later ones are not.
    let first = Segment { fragment: 0x6000, ..big(client(2, 0).udp()) };
    assert_eq!(bench.one(LEFT, &first.frame()).0, LEFT);
    let later = Segment { fragment: 0x4100, ..big(client(2, 0).udp()) };
    assert_eq!(bench.dropped(LEFT, &later.frame()), DropReason::UnknownFlow, "the first has begun no flow");
    bench.one(LEFT, &Segment { fragment: 0x6000, ..client(3, 0).udp() }.frame());
    let later = Segment { fragment: 0x4100, ..big(client(3, 0).udp()) };
    assert_eq!(bench.dropped(LEFT, &later.frame()), DropReason::TooBigForTarget);
    bench.assert_settled();
}

/// New flows, flows that made room, packets sent without state, entries in use.
fn counted(bench: &Bench) -> [u64; 4] {
    let all = &bench.counters[0];
    let new = (0..3).map(|id| all.target(TargetId(id)).new_flows.get()).sum();
    let stateless = all.gateway(GatewayId(0)).stateless_packets.get();
    [new, all.flows_evicted.get(), stateless, all.flow_entries.get()]
}

// F-8, F-12, M-2
#[test]
fn what_cannot_go_on_begins_no_flow_and_takes_nobodys_room() {
    for entries in [40, 64] {
        let mut bench = Bench::with(3, 1, 64);
        // Half of them half-open, which make room for others once there is none.
        let flows: Vec<_> = (1..=entries as u16 / 2)
            .flat_map(|port| [client(port, SYN).frame(), client(port, 0).udp().frame()])
            .collect();
        let cookies = |bench: &mut Bench| -> Vec<u32> {
            flows.iter().map(|frame| cookie(&bench.one(LEFT, frame).1)).collect()
        };
        let before = cookies(&mut bench);
        assert_eq!(counted(&bench), [entries, 0, 0, entries]);
        for port in 5000..5200 {
            let udp = |six, len| Segment { ports: (port, 80), ..sized(six, len) };
            let syn = client(port, SYN).with_payload(&noise(1600));
            for segment in [udp(false, 1533), udp(true, 1533), syn] {
                bench.put(LEFT, &segment.frame());
                bench.put(RIGHT, &segment.reversed().frame());
            }
        }
        assert!(answers(&bench, IcmpAnswer::FragmentationNeeded) > 0);
        assert!(answers(&bench, IcmpAnswer::PacketTooBig) > 0);
        assert_eq!(counted(&bench), [entries, 0, 0, entries]);
        // Nor where there is no telling its sender.
        bench.mtu = 1300;
        bench.publish();
        assert_eq!(bench.dropped(LEFT, &sized(true, 1280).frame()), DropReason::TooBigForTarget);
        assert_eq!(cookies(&mut bench), before, "all of them live on");
        assert_eq!(counted(&bench), [entries, 0, 0, entries]);
        // What may go on in pieces does begin one.
        assert!(bench.put(LEFT, &may_be_split(sized(false, 1533)).frame()).len() > 1);
        assert_eq!(counted(&bench)[0], entries + 1);
        bench.assert_settled();
    }
}

// F-9, F-14, M-2
#[test]
fn a_syn_that_cannot_go_on_ends_no_flow() {
    let mut bench = Bench::new(1);
    let flow = |flags| client(4000, flags);
    for segment in [flow(SYN), flow(SYN | ACK).reversed(), flow(ACK), flow(RST)] {
        let side = if segment.ports.0 == 4000 { LEFT } else { RIGHT };
        bench.one(side, &segment.frame());
    }
    let closed = counted(&bench);
    let syn = flow(SYN).with_payload(&noise(1600));
    assert_eq!(bench.one(LEFT, &syn.frame()).1, error_about(&syn, 1532));
    assert_eq!(counted(&bench), closed);
    // Its end shows that the reset was forged, and the flow is as it was.
    bench.one(LEFT, &flow(ACK).frame());
    bench.pass(20_000);
    bench.one(LEFT, &flow(ACK).frame());
    assert_eq!(counted(&bench), closed);
    bench.assert_settled();
}

// M-2: RFC 8200 5., RFC 8201 4.
#[test]
fn an_ipv6_sender_is_never_told_less_than_1280() {
    let mut bench = Bench::new(1);
    bench.mtu = 1300;
    bench.publish();
    let (port, told) = bench.one(LEFT, &sized(true, 1281).frame());
    assert_eq!((port, told), (LEFT, error_about(&sized(true, 1281), 1280)));
    // It cannot be told anything that would help.
    assert_eq!(bench.dropped(LEFT, &sized(true, 1280).frame()), DropReason::TooBigForTarget);
    assert_eq!(bench.one(LEFT, &sized(true, 1232).frame()).0, UNDER);
}

// M-1, M-2
#[test]
fn an_ipv4_packet_that_may_be_is_split_and_its_pieces_go_under_its_flows_cookie() {
    for (mtu, len, expected) in
        [(1500u16, 8500, 7), (1500, 1433, 2), (576, 8500, 18), (1600, 1533, 2), (9000, 8500, 1)]
    {
        let mut bench = Bench::new(1);
        bench.mtu = mtu;
        bench.publish();
        let packet = may_be_split(sized(false, len));
        let out = bench.put(LEFT, &packet.frame());
        assert_eq!(out.len(), expected, "{len} bytes at {mtu}");
        let frames: Vec<_> =
            out.iter().map(|(port, frame)| (*port, cookie(frame), source_port(frame))).collect();
        assert!(frames.iter().all(|one| *one == frames[0] && one.0 == UNDER), "{frames:?}");
        assert!(out.iter().all(|(_, frame)| frame.len() <= usize::from(mtu) + 14));
        let pieces: Vec<_> = out.iter().map(|(_, frame)| inner(frame).to_vec()).collect();
        assert_eq!(reassembled(&pieces), packet.ip());
        assert_eq!(bench.outcome(Outcome::Forwarded), 1, "C-1: one packet came in");
        let counters = &bench.counters[0];
        assert_eq!(counters.fragments_sent.get(), expected as u64 - 1);
        assert_eq!(counters.target(TargetId(0)).packets_out.get(), 1);
        assert_eq!(counters.target(TargetId(0)).bytes_out.get(), len as u64);
        // W-4, W-5, W-6: the appliance returns the pieces, in any order.
        for (_, frame) in out.iter().rev() {
            let (port, delivered) = bench.one(UNDER, &answer(frame, None));
            assert_eq!((port, &delivered[14..]), (RIGHT, inner(frame)));
        }
        bench.assert_settled();
    }
}

// M-2, C-1
#[test]
fn a_burst_of_the_largest_packets_is_split_whole_and_counted_exactly() {
    let packet = may_be_split(sized(false, 8500)).frame();
    for room in [None, Some(0), Some(6), Some(7), Some(33), Some(100)] {
        let mut bench = Bench::new(1);
        bench.mtu = 1500;
        bench.publish();
        bench.workers[0].ports_mut()[UNDER].room = room;
        for _ in 0..32 {
            bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&packet));
        }
        bench.workers[0].round(flowgate::id::Millis(bench.now), 0);
        let sent = bench.take().len();
        assert_eq!(sent, room.unwrap_or(32 * 7).min(32 * 7));
        assert_eq!(
            bench.outcome(Outcome::Forwarded),
            sent as u64 / 7,
            "as many as left with all their pieces"
        );
        bench.assert_settled();
    }
}

// M-2, C-1
#[test]
fn a_packet_that_would_be_split_while_no_buffer_is_left_is_dropped_and_counted_and_its_flow_goes_on() {
    let mut bench = Bench::new(1);
    bench.mtu = 1500;
    bench.publish();
    bench.foresees = false;
    let (small, large) = (sized(false, 100).frame(), may_be_split(sized(false, 8500)).frame());
    let before = bench.put(LEFT, &small);
    for _ in 0..3 {
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::last_of_its_pool(&large));
    }
    bench.rounds();
    assert_eq!(bench.take(), []);
    assert_eq!(bench.drops(), [(DropReason::NoBuffer, 3)]);
    // What needs no other buffer goes its way meanwhile.
    bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::last_of_its_pool(&small));
    bench.rounds();
    assert_eq!(bench.take().len(), 1);
    // There are some again.
    let out = bench.put(LEFT, &large);
    assert_eq!((out.len(), cookie(&out[0].1)), (7, cookie(&before[0].1)));
    bench.assert_settled();
}

// M-2, M-4, M-6
#[test]
fn options_and_the_place_of_a_packet_that_is_a_fragment_already_are_kept() {
    let mut bench = Bench::new(1);
    bench.mtu = 576;
    bench.publish();
    // A router alert, which is copied, and a timestamp, which is not.
    let options = [148, 4, 0, 0, 68, 8, 5, 0, 0, 0, 0, 0];
    let whole = with_options(&may_be_split(sized(false, 2028)).ip(), &options);
    let halves = fragments(&whole, &[1024]);
    let mut pieces = Vec::new();
    for half in &halves {
        let out = bench.put(LEFT, &from_client(half));
        assert!(out.len() > 1);
        pieces.extend(out.iter().map(|(_, frame)| inner(frame).to_vec()));
    }
    assert_eq!(pieces[0][20..32], options);
    assert_eq!(pieces[1][20..24], options[..4]);
    assert_eq!(pieces[1][0], 0x46, "and nothing else");
    assert_eq!(reassembled(&pieces), whole);
}

/// A SYN that offers a segment size, by an option at an even or odd place.
fn syn_with_mss(six: bool, flags: u8, mss: u16, odd: bool) -> Vec<u8> {
    let syn = client(4000, flags);
    let mut ip = if six { syn.over_ipv6().ip() } else { syn.ip() };
    let at = if six { 40 } else { 20 };
    let [high, low] = mss.to_be_bytes();
    ip.extend(if odd { [1, 2, 4, high, low, 1, 1, 0] } else { [2, 4, high, low, 1, 3, 3, 7] });
    ip[at + 12] = 7 << 4;
    if six {
        ip[4..6].copy_from_slice(&28u16.to_be_bytes());
    } else {
        ip[2..4].copy_from_slice(&48u16.to_be_bytes());
        ip[10..12].fill(0);
        let sum = checksum(&[&ip[..20]]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    ip[at + 16..at + 18].fill(0);
    let sum = checksum(&[&pseudo(&ip, 6), &ip[at..]]);
    ip[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    ip
}

// M-3
#[test]
fn with_the_clamp_on_the_mss_of_syns_is_what_fits_in_both_directions() {
    for (six, fitting) in [(false, 1600 - 68 - 40), (true, 1600 - 68 - 60)] {
        for odd in [false, true] {
            for flags in [SYN, SYN | ACK] {
                let mut bench = Bench::new(1);
                bench.policy.mss_clamp = true;
                bench.policy.unknown_flow = flowgate::datapath::forwarding::UnknownFlow::Adopt;
                bench.publish();
                for (offered, sent_on) in
                    [(9000, fitting), (fitting + 1, fitting), (fitting, fitting), (536, 536)]
                {
                    let ip = syn_with_mss(six, flags, offered, odd);
                    let (_, out) = bench.one(LEFT, &from_client(&ip));
                    assert_eq!(inner(&out), syn_with_mss(six, flags, sent_on, odd), "checksum and all");
                }
                assert_eq!(bench.counters[0].mss_lowered.get(), 2);
            }
        }
    }
}

// M-3
#[test]
fn with_the_clamp_off_as_it_is_by_default_nothing_is_changed_and_with_it_on_only_syns_are() {
    let mut bench = Bench::new(1);
    let ip = syn_with_mss(false, SYN, 9000, false);
    assert_eq!(inner(&bench.one(LEFT, &from_client(&ip)).1), ip);
    bench.policy.mss_clamp = true;
    bench.publish();
    let no_syn = syn_with_mss(false, ACK, 9000, false);
    assert_eq!(inner(&bench.one(LEFT, &from_client(&no_syn)).1), no_syn);
    let bare = client(4000, SYN).ip();
    assert_eq!(inner(&bench.one(LEFT, &from_client(&bare)).1), bare, "RFC 9293 3.7.1: its end assumes 536");
}
