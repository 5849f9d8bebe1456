//! The way out to an appliance and back: O-1, O-4, F-1, F-2, W-1 to W-7, C-1.

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::messages::ToWorker;
use flowgate::io::memory::MemoryBuf;

use crate::harness::*;

// W-1, W-2
#[test]
fn a_client_packet_goes_to_its_target_with_exactly_these_headers() {
    let mut bench = Bench::new(1);
    let syn = client(4000, SYN);
    let (port, frame) = bench.one(LEFT, &syn.frame());
    assert_eq!(port, UNDER);
    let ip = syn.ip();
    let mut expected = vec![2, 0, 0, 0, 1, 0]; // target 0
    expected.extend(GATEWAY_MAC);
    expected.extend([0x08, 0x00]);
    let total = (ip.len() + 68) as u16;
    let mut outer = vec![0x45, 0x00];
    outer.extend(total.to_be_bytes());
    outer.extend([0x00, 0x00, 0x40, 0x00, 255, 17, 0, 0]);
    outer.extend(TUNNEL.octets());
    outer.extend(target_address(0).octets());
    let sum = checksum(&[&outer]);
    outer[10..12].copy_from_slice(&sum.to_be_bytes());
    expected.extend(outer);
    expected.extend(&frame[34..36]); // the source port, looked at below
    expected.extend(6081u16.to_be_bytes());
    expected.extend((total - 20).to_be_bytes());
    expected.extend([0, 0]); // no UDP checksum
    expected.extend([0x08, 0x00, 0x08, 0x00, 0, 0, 0, 0]); // version 0, 8 words, IPv4, VNI 0
    expected.extend([0x01, 0x08, 1, 2]);
    expected.extend(ENDPOINT_ID.to_be_bytes());
    expected.extend([0x01, 0x08, 2, 2]);
    expected.extend(ATTACHMENT_ID.to_be_bytes());
    expected.extend([0x01, 0x08, 3, 1]);
    expected.extend(&frame[78..82]); // the cookie
    expected.extend(ip);
    assert_eq!(frame, expected);
    assert!(source_port(&frame) >= 49152, "W-3");
    bench.assert_settled();
}

// W-4, W-6, O-4
#[test]
fn what_the_target_returns_leaves_by_the_other_port_as_it_came() {
    for six in [false, true] {
        let mut bench = Bench::new(3);
        let mut syn = client(4000, SYN);
        if six {
            syn = syn.over_ipv6();
        }
        let (_, out) = bench.one(LEFT, &syn.frame());
        let (port, back) = bench.one(UNDER, &answer(&out, None));
        assert_eq!((port, back), (RIGHT, syn.frame()));

        let syn_ack = syn.clone().reversed();
        let (_, out_again) = bench.one(RIGHT, &Segment { flags: SYN | ACK, ..syn_ack.clone() }.frame());
        assert_eq!(cookie(&out), cookie(&out_again), "F-2, F-11");
        assert_eq!(source_port(&out), source_port(&out_again), "W-3");
        assert_eq!(bench.target_of(&out), bench.target_of(&out_again), "F-2");
        let (port, back) = bench.one(UNDER, &answer(&out_again, None));
        assert_eq!((port, back), (LEFT, Segment { flags: SYN | ACK, ..syn_ack }.frame()));
        bench.assert_settled();
    }
}

// W-6
#[test]
fn the_inner_packet_is_delivered_as_the_appliance_returned_it() {
    let mut bench = Bench::new(1);
    let segment = client(4000, SYN);
    let (_, out) = bench.one(LEFT, &segment.frame());
    assert_eq!(inner(&out), segment.ip(), "TTL is not lowered on a wire");
    let lowered = Segment { ttl: 63, ..segment };
    let (_, back) = bench.one(UNDER, &answer(&out, Some(&lowered.ip())));
    assert_eq!(back, lowered.frame());
}

// O-4
#[test]
fn vlan_tags_and_link_addresses_come_back_for_each_direction() {
    let mut bench = Bench::new(1);
    let syn = Segment { vlans: vec![0x6123, 0x0042], ..client(4000, SYN) };
    let (_, out) = bench.one(LEFT, &syn.frame());
    assert_eq!(inner(&out), syn.ip());
    let (_, back) = bench.one(UNDER, &answer(&out, None));
    assert_eq!(back, syn.frame());
    // The way back may have other addresses and tags: another router answers.
    let reply = Segment {
        flags: SYN | ACK,
        vlans: vec![0x0099],
        macs: ([2, 9, 9, 9, 9, 9], [2, 8, 8, 8, 8, 8]),
        ..syn.clone().reversed()
    };
    let (_, out) = bench.one(RIGHT, &reply.frame());
    let (port, back) = bench.one(UNDER, &answer(&out, None));
    assert_eq!((port, back), (LEFT, reply.frame()));
    // And they may change within a flow.
    let moved = Segment { flags: ACK, macs: ([2, 7, 7, 7, 7, 7], SERVER_MAC), ..syn };
    let (_, out) = bench.one(LEFT, &moved.frame());
    let (_, back) = bench.one(UNDER, &answer(&out, None));
    assert_eq!(back, moved.frame());
}

// O-4
#[test]
fn what_is_not_ip_or_stays_on_its_link_crosses_untouched() {
    let mut bench = Bench::new(1);
    let mut arp = [[0xff; 6], CLIENT_MAC].concat();
    arp.extend([0x08, 0x06]);
    arp.extend([7; 46]);
    let mut tagged_arp = [[0xff; 6], CLIENT_MAC].concat();
    tagged_arp.extend([0x81, 0x00, 0x00, 0x05, 0x08, 0x06]);
    tagged_arp.extend([7; 42]);
    let ospf_like = Segment { dst: "224.0.0.5".parse().unwrap(), ..client(1, 0).udp() };
    let mut solicitation = client(0, 0).udp().over_ipv6();
    solicitation.dst = "ff02::1:ff00:20".parse().unwrap();
    // A neighbour advertisement between global addresses is told by its ICMPv6 type and its hop limit.
    let mut advertisement = Segment { protocol: 17, ..client(0, 0).over_ipv6() }.frame();
    advertisement[14 + 6] = 58;
    advertisement[14 + 7] = 255;
    advertisement[14 + 40] = 136;
    let between = |src: &str, dst: &str, segment: Segment| {
        Segment { src: src.parse().unwrap(), dst: dst.parse().unwrap(), ..segment }.frame()
    };
    let router_to_router = between("fe80::1", "fe80::2", client(1, ACK).over_ipv6());
    let without_dhcp = between("169.254.1.1", "169.254.1.2", client(1, ACK));
    let frames = [
        arp,
        tagged_arp,
        ospf_like.frame(),
        solicitation.frame(),
        advertisement,
        router_to_router,
        without_dhcp,
    ];
    for (n, frame) in frames.iter().enumerate() {
        assert_eq!(bench.put(LEFT, frame), [(RIGHT, frame.clone())], "frame {n}");
        assert_eq!(bench.put(RIGHT, frame), [(LEFT, frame.clone())], "frame {n}");
    }
    assert_eq!(bench.outcome(Outcome::Crossed), 14);
    bench.assert_settled();
}

// O-4
#[test]
fn nobody_reaches_a_server_past_the_appliance_by_a_link_local_address() {
    for fast_path in [true, false] {
        for workers in [1, 4] {
            let mut bench = Bench::with(2, workers, 1024);
            if !fast_path {
                bench.workers.iter_mut().for_each(|worker| worker.without_fast_path());
            }
            let (four, six) = (client(7, 0).udp(), client(7, 0).udp().over_ipv6());
            let from = |src: &str, segment: &Segment| {
                Segment { src: src.parse().unwrap(), ..segment.clone() }.frame()
            };
            // Neighbour discovery that a router has passed on, and what seems to be listener discovery.
            let discovery = |icmp_type, hop_limit| {
                let mut frame = Segment { protocol: 17, ..six.clone() }.frame();
                (frame[14 + 6], frame[14 + 7], frame[14 + 40]) = (58, hop_limit, icmp_type);
                frame
            };
            let forged = [
                from("169.254.1.1", &four),
                from("fe80::1", &six),
                from("::", &six),
                discovery(136, 254),
                discovery(143, 64),
            ];
            for (n, frame) in forged.iter().enumerate() {
                let (port, out) = bench.one(LEFT, frame);
                assert_eq!((port, inner(&out)), (UNDER, &frame[14..]), "{n}: it goes to a target");
                let (port, back) = bench.one(UNDER, &answer(&out, None));
                assert_eq!((port, &back), (RIGHT, frame), "{n}: and on if that lets it");
            }
            let to_link_local = Segment { dst: "169.254.169.254".parse().unwrap(), ..four };
            assert_eq!(bench.one(LEFT, &to_link_local.frame()).0, UNDER, "a server that has such an address");
            assert_eq!(bench.outcome(Outcome::Crossed), 0);
            bench.assert_settled();
        }
    }
}

// O-4
#[test]
fn nobody_makes_a_flow_of_what_stays_on_its_link_by_turning_it_round() {
    for fast_path in [true, false] {
        for workers in [1, 4] {
            let mut bench = Bench::with(2, workers, 1024);
            if !fast_path {
                bench.workers.iter_mut().for_each(|worker| worker.without_fast_path());
            }
            let between = |src: &str, dst: &str| {
                let (src, dst): (std::net::IpAddr, std::net::IpAddr) =
                    (src.parse().unwrap(), dst.parse().unwrap());
                let plain = Segment { ports: (520, 520), ..client(0, 0).udp() };
                let plain = if src.is_ipv6() { plain.over_ipv6() } else { plain };
                Segment { src, dst, ..plain }
            };
            for (station, group) in [
                ("10.1.2.3", "224.0.0.9"),
                ("0.0.0.0", "255.255.255.255"),
                ("fe80::1", "ff02::9"),
                ("2001:db8::1", "ff02::9"),
            ] {
                let turned = between(group, station);
                assert_eq!(bench.dropped(LEFT, &turned.frame()), DropReason::Martian, "{group}");
                let real = between(station, group).frame();
                for _ in 0..2 {
                    assert_eq!(bench.put(LEFT, &real), [(RIGHT, real.clone())], "{station}");
                }
            }
            assert_eq!((0..2).map(|target| bench.live_flows(target)).sum::<u64>(), 0);
            bench.assert_settled();
        }
    }
}

// O-1
#[test]
fn ipv6_needs_dualstack() {
    let mut bench = Bench::new(1);
    bench.dualstack = false;
    bench.publish();
    assert_eq!(bench.dropped(LEFT, &client(1, SYN).over_ipv6().frame()), DropReason::Ipv6NotEnabled);
    bench.one(LEFT, &client(1, SYN).frame());
}

// F-1
#[test]
fn ethernet_padding_is_not_of_the_packet() {
    let mut bench = Bench::new(1);
    let syn = client(1, SYN);
    let mut padded = syn.frame();
    padded.resize(60, 0xee);
    let (_, out) = bench.one(LEFT, &padded);
    assert_eq!(inner(&out), syn.ip());
    let mut padded_answer = answer(&out, None);
    padded_answer.extend([0xdd; 9]);
    let (_, back) = bench.one(UNDER, &padded_answer);
    assert_eq!(back, syn.frame());
}

/// A flow whose client has opened it, and the frame that its target got.
fn opened(bench: &mut Bench) -> Vec<u8> {
    bench.one(LEFT, &client(4000, SYN).frame()).1
}

/// A change made to an answer.
type Change = fn(&mut Vec<u8>);

/// Writes the outer IPv4 header checksum anew.
fn with_right_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    frame[24..26].fill(0);
    let sum = checksum(&[&frame[14..34]]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

// W-4
#[test]
fn answers_are_taken_in_every_shape_that_appliances_give_them() {
    let shapes: [(&str, Change); 6] = [
        ("TTL 1", |frame| frame[22] = 1),
        ("DF clear", |frame| frame[20] = 0),
        ("another source port", |frame| frame[34..36].copy_from_slice(&1234u16.to_be_bytes())),
        ("type of service", |frame| frame[15] = 0xb8),
        ("options in another order", |frame| {
            let cookie = frame[74..82].to_vec();
            frame.copy_within(50..74, 58);
            frame[50..58].copy_from_slice(&cookie);
        }),
        ("an unknown option that is not critical", |frame| {
            frame[42] = 10;
            let extra = [0x12, 0x34, 0x05, 1, 9, 9, 9, 9];
            frame.splice(50..50, extra);
            for at in [16, 38] {
                let len = u16::from_be_bytes([frame[at], frame[at + 1]]) + 8;
                frame[at..at + 2].copy_from_slice(&len.to_be_bytes());
            }
        }),
    ];
    for (name, shape) in shapes {
        let mut bench = Bench::new(1);
        let out = opened(&mut bench);
        let mut back = answer(&out, None);
        shape(&mut back);
        let delivered = bench.put(UNDER, &with_right_checksum(back));
        assert_eq!(delivered, [(RIGHT, client(4000, SYN).frame())], "{name}; {:?}", bench.drops());
    }
}

// W-4
#[test]
fn a_udp_checksum_may_be_right_and_must_not_be_wrong() {
    let mut bench = Bench::new(1);
    let out = opened(&mut bench);
    let mut back = answer(&out, None);
    let len = (back.len() - 34) as u16;
    let mut pseudo = back[26..34].to_vec();
    pseudo.extend([0, 17]);
    pseudo.extend(len.to_be_bytes());
    let sum = checksum(&[&pseudo, &back[34..]]);
    back[40..42].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(bench.one(UNDER, &back).0, RIGHT);
    back[41] ^= 0x40;
    assert_eq!(bench.dropped(UNDER, &back), DropReason::OuterMalformed);
}

// W-4, R-4 from an appliance: its own reset or block page in the server's stead
#[test]
fn an_appliance_may_answer_in_the_other_direction() {
    let mut bench = Bench::new(1);
    let syn = Segment { vlans: vec![5], ..client(4000, SYN) };
    let (_, out) = bench.one(LEFT, &syn.frame());
    let reset = Segment { flags: RST | ACK, seq: 0, ack: 1001, ..syn.clone().reversed() };
    let (port, back) = bench.one(UNDER, &answer(&out, Some(&reset.ip())));
    assert_eq!(port, LEFT, "back to the client, though the server has not sent anything yet");
    assert_eq!(back, reset.frame(), "with the client's link header turned round");
    // It closed the flow: ten seconds later it is gone.
    bench.pass(10_000);
    assert_eq!(bench.live_flows(0), 0);
}

// F-9, W-4
#[test]
fn what_an_appliance_closes_lasts_as_long_from_then_as_what_a_side_closes() {
    let mut bench = Bench::new(1);
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    bench.one(LEFT, &client(4000, ACK).frame());
    bench.pass(60_000);
    // A firewall that idles flows out sooner tells both ends, one after the other.
    let to_client = Segment { flags: RST, ..client(4000, RST).reversed() };
    assert_eq!(bench.one(UNDER, &answer(&out, Some(&to_client.ip()))), (LEFT, to_client.frame()));
    bench.pass(9_999);
    let to_server = client(4000, RST);
    assert_eq!(bench.one(UNDER, &answer(&out, Some(&to_server.ip()))), (RIGHT, to_server.frame()));
    bench.pass(1);
    assert_eq!(bench.live_flows(0), 0);
    assert_eq!(bench.dropped(UNDER, &answer(&out, Some(&to_server.ip()))), DropReason::CookieStale);
}

// W-5
#[test]
fn each_wrong_answer_is_dropped_under_its_own_reason() {
    let wrong: [(DropReason, Change); 9] = [
        (DropReason::NotFromTarget, |frame| frame[29] ^= 0x55),
        (DropReason::CookieStale, |frame| frame[78] ^= 0x20),
        (DropReason::GeneveVersion, |frame| frame[42] |= 0x40),
        (DropReason::GeneveCritical, |frame| frame[43] |= 0x80),
        (DropReason::GeneveCritical, |frame| frame[52] = 0x85),
        (DropReason::GeneveOptions, |frame| frame[53] = 31),
        (DropReason::GeneveOptions, |frame| frame[42] = 0x3f),
        (DropReason::InnerMalformed, |frame| {
            frame[84..86].copy_from_slice(&9000u16.to_be_bytes());
        }),
        (DropReason::InnerMismatch, |frame| frame[82 + 20] ^= 1),
    ];
    for (reason, spoil) in wrong {
        let mut bench = Bench::new(1);
        let out = opened(&mut bench);
        let mut back = answer(&out, None);
        spoil(&mut back);
        assert_eq!(bench.dropped(UNDER, &with_right_checksum(back)), reason);
        bench.assert_settled();
    }
}

// W-5
#[test]
fn an_answer_without_a_cookie_is_dropped() {
    let mut bench = Bench::new(1);
    let out = opened(&mut bench);
    let mut back = answer(&out, None);
    back[76] = 9; // the cookie's option is of a type that nobody knows
    assert_eq!(bench.dropped(UNDER, &back), DropReason::CookieMissing);
}

// W-5
#[test]
fn a_cut_answer_is_dropped_wherever_it_is_cut() {
    let mut bench = Bench::new(1);
    let out = opened(&mut bench);
    let back = answer(&out, None);
    for len in 0..back.len() {
        let out = bench.put(UNDER, &back[..len]);
        assert!(out.is_empty(), "cut to {len} bytes");
    }
    bench.assert_settled();
}

// W-5
#[test]
fn an_icmp_error_about_the_flow_goes_to_whoever_sent_what_it_quotes() {
    let mut bench = Bench::new(1);
    let syn = client(4000, SYN);
    let (_, out) = bench.one(LEFT, &syn.frame());
    let router = std::net::Ipv4Addr::new(203, 0, 113, 1);
    let error = |quoted: &[u8]| {
        // Time exceeded (11) with the IP header and 8 bytes.
        let mut icmp = vec![11, 0, 0, 0, 0, 0, 0, 0];
        icmp.extend(&quoted[..28]);
        let sum = checksum(&[&icmp]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut ip = vec![0x45, 0];
        ip.extend((20 + icmp.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 1, 0, 0]);
        ip.extend(router.octets());
        ip.extend(&quoted[12..16]);
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [ip, icmp].concat()
    };
    let about_syn = error(&syn.ip());
    let (port, back) = bench.one(UNDER, &answer(&out, Some(&about_syn)));
    assert_eq!(port, LEFT);
    assert_eq!(&back[14..], about_syn);
    assert_eq!(back[..12], [CLIENT_MAC, SERVER_MAC].concat());

    let about_another = error(&client(4001, SYN).ip());
    let wrong = answer(&out, Some(&about_another));
    assert_eq!(bench.dropped(UNDER, &wrong), DropReason::InnerMismatch);
}

// F-11
#[test]
fn the_cookie_of_an_ended_flow_is_stale_though_the_same_tuple_has_a_flow_again() {
    let mut bench = Bench::new(1);
    let first = opened(&mut bench);
    bench.one(LEFT, &client(4000, RST).frame());
    let second = opened(&mut bench); // F-9: a SYN on a closed flow starts a new one at once
    assert_ne!(cookie(&first), cookie(&second));
    assert_eq!(bench.dropped(UNDER, &answer(&first, None)), DropReason::CookieStale);
    bench.one(UNDER, &answer(&second, None));
}

// C-1
#[test]
fn what_is_not_geneve_for_us_on_the_target_side_is_told_apart() {
    let mut bench = Bench::new(1);
    let mut arp = [[0xff; 6], GATEWAY_MAC].concat();
    arp.extend([0x08, 0x06]);
    arp.extend([0; 46]);
    assert_eq!(bench.dropped(UNDER, &arp), DropReason::NotForGateway);
    assert_eq!(bench.dropped(UNDER, &client(9, SYN).frame()), DropReason::NotForGateway);
    let out = opened(&mut bench);
    assert_eq!(bench.dropped(UNDER, &out), DropReason::NotForGateway, "our own packet: not to our address");
}

// F-1: other protocols by addresses and protocol
#[test]
fn udp_flows_are_told_apart_by_their_ports() {
    let mut bench = Bench::new(1);
    let (_, a) = bench.one(LEFT, &client(1, 0).udp().frame());
    let (_, b) = bench.one(LEFT, &client(2, 0).udp().frame());
    let (_, a_again) = bench.one(LEFT, &client(1, 0).udp().frame());
    assert_ne!(cookie(&a), cookie(&b));
    assert_eq!(cookie(&a), cookie(&a_again));
    assert_eq!(bench.live_flows(0), 2);
}

// C-1
#[test]
fn what_a_full_port_does_not_take_is_counted_as_dropped() {
    let mut bench = Bench::new(1);
    bench.workers[0].ports_mut()[UNDER].room = Some(2);
    for port in 1..=5 {
        let frame = client(port, SYN).frame();
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(flowgate::io::memory::MemoryBuf::new(&frame));
    }
    bench.rounds();
    assert_eq!(bench.take().len(), 2);
    assert_eq!(bench.drops(), [(DropReason::TransmitFull, 3)]);
    assert_eq!(bench.outcome(Outcome::Forwarded), 2);
    bench.assert_settled();
}

//
#[test]
fn a_scan_counts_the_flows_that_shorter_timeouts_would_end() {
    use flowgate::datapath::messages::{FlowFilter, FromWorker};
    use flowgate::flow::Timers;
    let mut bench = Bench::new(2);
    for port in 1..=10 {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    }
    bench.pass(30_000);
    // These are as old as the others when they are counted, but half-open: no loss.
    for port in 11..=13 {
        bench.one(LEFT, &client(port, SYN).frame());
    }
    for port in 14..=20 {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    }
    bench.pass(20_000);
    let mut count = |timers: Timers| -> u64 {
        bench.tell(|| ToWorker::ScanFlows(FlowFilter { ended_by: Some(timers), ..FlowFilter::default() }));
        bench.pass(1);
        let counted = bench.told.drain(..).filter_map(|event| match event {
            FromWorker::ScanDone { matching, .. } => Some(matching),
            FromWorker::Flow(_) => panic!("only counted"),
            _ => None,
        });
        counted.sum()
    };
    let idle = |tcp_idle_ms| Timers { tcp_idle_ms, half_open_ms: 1, ..Timers::default() };
    assert_eq!([60_000, 40_000, 10_000].map(|ms| count(idle(ms))), [0, 10, 17]);
}

#[test]
fn a_scan_finds_the_flows_that_it_asks_for_and_counts_the_rest() {
    use flowgate::datapath::messages::{FlowFilter, FromWorker};
    let mut bench = Bench::new(2);
    for port in 1..=40 {
        bench.one(LEFT, &client(port, SYN).frame());
    }
    bench.tell(|| ToWorker::ScanFlows(FlowFilter { port: Some(7), limit: 10, ..FlowFilter::default() }));
    bench.pass(1);
    let found: Vec<_> = bench
        .told
        .drain(..)
        .filter_map(|told| match told {
            FromWorker::Flow(record) => Some(record.initiator),
            _ => None,
        })
        .collect();
    assert_eq!(found, [(CLIENT.parse().unwrap(), 7)]);
    bench.tell(|| ToWorker::ScanFlows(FlowFilter { limit: 3, ..FlowFilter::default() }));
    bench.pass(1);
    let flows = bench.told.iter().filter(|told| matches!(told, FromWorker::Flow(_))).count();
    let matching = bench.told.iter().find_map(|told| match told {
        FromWorker::ScanDone { matching, .. } => Some(*matching),
        _ => None,
    });
    assert_eq!((flows, matching), (3, Some(40)));
}

// W-7, W-5
#[test]
fn an_answer_is_of_the_flow_that_its_cookie_names_and_its_inner_tuple_must_be_that_flows() {
    for other in [client(4001, SYN), client(4000, SYN).udp(), client(4000, SYN).over_ipv6()] {
        let mut bench = Bench::new(1);
        let mine = client(4000, SYN);
        let out = [&mine, &other].map(|segment| bench.one(LEFT, &segment.frame()).1);
        // Both flows live, and with the same target: a look-up by the tuple would find either.
        assert_eq!(bench.dropped(UNDER, &answer(&out[0], Some(&other.ip()))), DropReason::InnerMismatch);
        assert_eq!(bench.dropped(UNDER, &answer(&out[1], Some(&mine.ip()))), DropReason::InnerMismatch);
        assert_eq!(bench.one(UNDER, &answer(&out[0], None)), (RIGHT, mine.frame()));
        assert_eq!(bench.one(UNDER, &answer(&out[1], None)), (RIGHT, other.frame()));
        bench.assert_settled();
    }
}

// O-4, W-5, F-1
#[test]
fn the_same_addresses_in_two_endpoints_never_mix() {
    let mut bench = Bench::wired(2, 1, 1, 1024);
    let syn = client(4000, SYN);
    let outs = [0, 1].map(|endpoint| {
        let (port, out) = bench.one(wire(endpoint)[0], &syn.frame());
        assert_eq!(port, UNDER);
        assert_eq!(out[54..62], (ENDPOINT_ID + u64::from(endpoint)).to_be_bytes(), "W-2: its own id");
        out
    });
    assert_ne!(cookie(&outs[0]), cookie(&outs[1]), "two flows");
    for endpoint in [0, 1] {
        let out = &outs[usize::from(endpoint)];
        assert_eq!(bench.one(UNDER, &answer(out, None)), (wire(endpoint)[1], syn.frame()));
        // The other's cookie: the tuple inside is that flow's too, and only the endpoint is not.
        let mut mixed = answer(out, None);
        mixed[78..82].copy_from_slice(&outs[1 - usize::from(endpoint)][78..82]);
        assert_eq!(bench.dropped(UNDER, &mixed), DropReason::InnerMismatch);
    }
    // Nor do their resets and closes: one endpoint's connection ends, the other's goes on.
    bench.one(wire(1)[0], &client(4000, RST).frame());
    bench.pass(10_000);
    assert_eq!(bench.live_flows(0), 1);
    assert_eq!(bench.one(LEFT, &client(4000, ACK).frame()).0, UNDER);
    bench.assert_settled();
}

// W-3
#[test]
fn flows_are_spread_over_all_source_ports_and_each_has_one_for_both_its_directions() {
    let mut bench = Bench::with(1, 1, 4096);
    let mut ports = Vec::new();
    for port in 1..=2000 {
        let (_, out) = bench.one(LEFT, &client(port, SYN).frame());
        let (_, back) = bench.one(RIGHT, &client(port, SYN | ACK).reversed().frame());
        let (_, again) = bench.one(LEFT, &client(port, ACK).frame());
        assert_eq!([source_port(&back), source_port(&again)], [source_port(&out); 2]);
        ports.push(source_port(&out));
    }
    assert!(ports.iter().all(|port| *port >= 49152));
    // 2,000 draws from 16,384: some 1,884 are distinct, and each sixteenth of the range has 125 of them,
    // give or take six times the square root of that.
    let distinct: std::collections::BTreeSet<_> = ports.iter().collect();
    assert!(distinct.len() > 1800, "{}", distinct.len());
    let mut sixteenths = [0; 16];
    ports.iter().for_each(|port| sixteenths[usize::from((port - 49152) / 1024)] += 1);
    assert!(sixteenths.iter().all(|count| (58..=192).contains(count)), "{sixteenths:?}");
}

// C-1, W-6
#[test]
fn a_frame_in_pieces_goes_the_way_of_a_whole_one_unless_it_is_too_long() {
    for fast_first in [true, false] {
        let (mut bench, mut whole) = (Bench::new(1), Bench::new(1));
        let there_and_back = |bench: &mut Bench, first: Option<usize>| {
            let put = |bench: &mut Bench, port: usize, frame: &[u8]| {
                let len = frame.len();
                let buf = first.map_or_else(
                    || MemoryBuf::new(frame),
                    |first| MemoryBuf::in_pieces(frame, first.min(len)),
                );
                bench.workers[0].ports_mut()[port].arriving.push_back(buf);
                bench.rounds();
                bench.take()
            };
            if fast_first {
                put(bench, LEFT, &client(4000, SYN).frame());
            }
            let segment = client(4000, if fast_first { ACK } else { SYN }).with_payload(&[7; 900]);
            let out = put(bench, LEFT, &segment.frame());
            let back = put(bench, UNDER, &answer(&out[0].1, None));
            (out, back)
        };
        let expected = there_and_back(&mut whole, None);
        assert_eq!((expected.0.len(), expected.1.len()), (1, 1));
        for first in [1, 14, 20, 60, 128, 500] {
            assert_eq!(there_and_back(&mut bench, Some(first)), expected, "{first} bytes in the first piece");
        }
        bench.assert_settled();
        let long = client(4000, ACK).with_payload(&[7; 2048]).frame();
        let before = bench.drops();
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::in_pieces(&long, 1000));
        bench.rounds();
        assert_eq!((before, bench.take()), (vec![], vec![]));
        assert_eq!(bench.drops(), [(DropReason::FrameSegmented, 1)]);
        bench.assert_settled();
    }
}

// W-3
#[test]
fn a_port_that_was_to_compute_the_checksum_and_does_not_has_it_done_for_it() {
    let mut bench = Bench::new(1);
    bench.udp_checksum = true;
    bench.publish();
    let syn = client(4000, SYN).frame();
    let expected = bench.one(LEFT, &syn);
    assert_ne!(expected.1[40..42], [0, 0]);
    bench.checksum_by_port = true;
    bench.publish();
    assert_eq!(bench.one(LEFT, &syn), expected);
}
