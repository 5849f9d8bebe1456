//! Fragments follow their first (M-4), with 1, 2 and 4 workers, whichever of them a fragment comes to.

use std::collections::BTreeMap;

use std::sync::atomic::AtomicBool;

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::worker::Idle;
use flowgate::io::clock::Clock;
use flowgate::io::memory::MemoryBuf;
use proptest::prelude::*;

use crate::harness::*;
use crate::pieces::*;

/// A UDP datagram from the client that may be fragmented, of some fragments.
fn datagram(six: bool, port: u16, id: u16, payload: usize) -> Vec<u8> {
    let udp = Segment { fragment: 0, ..client(port, 0).udp() }.with_payload(&noise(payload));
    if six {
        let mut ip = udp.over_ipv6().ip();
        // `fragments` makes the identification of the last byte.
        *ip.last_mut().unwrap() = id as u8;
        ip
    } else {
        let mut ip = udp.ip();
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        with_options(&ip, &[])
    }
}

fn held(bench: &Bench) -> u64 {
    bench.counters.iter().map(|all| all.fragments_held.get()).sum()
}

// M-4
#[test]
fn fragments_go_to_the_target_of_their_first_in_either_order() {
    for workers in [1, 2, 4] {
        for six in [false, true] {
            for reversed in [false, true] {
                let mut bench = Bench::with(8, workers, 1024);
                let mut targets = BTreeMap::new();
                for port in 1..40 {
                    let (_, whole) = bench.one(LEFT, &from_client(&datagram(six, port, 0, 100)));
                    let ip = datagram(six, port, port, 3000);
                    let mut pieces = fragments(&ip, &[1000, 2000]);
                    if reversed {
                        pieces.reverse();
                    }
                    let mut out = Vec::new();
                    for (n, piece) in pieces.iter().enumerate() {
                        let worker = (n + usize::from(port)) % usize::from(workers);
                        out.extend(bench.put_at(worker, LEFT, &from_client(piece)));
                    }
                    assert_eq!(out.len(), 3, "{workers} workers, reversed: {reversed}; {:?}", bench.drops());
                    for (port, frame) in &out {
                        assert_eq!((*port, cookie(frame)), (UNDER, cookie(&whole)));
                        assert_eq!(source_port(frame), source_port(&whole), "W-3");
                        assert_eq!(bench.target_of(frame), bench.target_of(&whole));
                    }
                    // Each as it came; the first fragment first, as nothing can go on before it.
                    let inner: Vec<_> = out.iter().map(|(_, frame)| inner(frame).to_vec()).collect();
                    let mut expected = pieces.clone();
                    if reversed {
                        expected.rotate_right(1);
                    }
                    assert_eq!(inner, expected);
                    assert_eq!(reassembled(&inner), ip);
                    targets.insert(bench.target_of(&whole), ());
                }
                assert!(targets.len() > 4, "the flows are of many targets");
                assert_eq!(held(&bench), if reversed { 2 * 39 } else { 0 });
                assert_eq!(bench.drops(), []);
                bench.assert_settled();
            }
        }
    }
}

/// A random datagram and how it is cut and sent.
#[derive(Clone, Debug)]
struct Sent {
    six: bool,
    port: u16,
    payload: usize,
    cuts: Vec<usize>,
}

fn sent() -> impl Strategy<Value = Sent> {
    (any::<bool>(), 1u16..8, 16usize..4000).prop_flat_map(|(six, port, payload)| {
        prop::collection::btree_set(1..(payload + 8) / 8, 0..6).prop_map(move |cuts| {
            let cuts = cuts.into_iter().map(|unit| unit * 8).collect();
            Sent { six, port, payload, cuts }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    // M-4
    #[test]
    fn every_datagram_comes_together_at_one_target_however_it_was_cut_and_mixed(
        workers in prop::sample::select(vec![1u8, 2, 4]),
        all in prop::collection::vec(sent(), 1..20),
        order in any::<u64>(),
        bursts in 1usize..40,
    ) {
        let mut bench = Bench::with(8, workers, 1024);
        bench.mtu = 9000;
        bench.publish();
        let mut frames = Vec::new();
        let mut expected = BTreeMap::new();
        for (id, sent) in (0u16..).zip(&all) {
            let ip = datagram(sent.six, sent.port, id, sent.payload);
            expected.insert((sent.six, id), ip.clone());
            frames.extend(fragments(&ip, &sent.cuts));
        }
        // Any order, to any worker.
        let mut state = order | 1;
        let mut random = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        for n in (1..frames.len()).rev() {
            frames.swap(n, random(n + 1));
        }
        let count = frames.len();
        let mut out = Vec::new();
        for chunk in frames.chunks(bursts) {
            for frame in chunk {
                let worker = random(usize::from(workers));
                bench.workers[worker].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&from_client(frame)));
            }
            bench.rounds();
            out.extend(bench.take());
        }
        prop_assert_eq!(out.len(), count, "{:?}", bench.drops());
        // Target, cookie and packet of each fragment, by its datagram: IPv6 or not, and identification.
        type Fragment = (u16, u32, Vec<u8>);
        let mut arrived: BTreeMap<(bool, u16), Vec<Fragment>> = BTreeMap::new();
        for (port, frame) in &out {
            prop_assert_eq!(*port, UNDER);
            let ip = inner(frame);
            let name = if ip[0] >> 4 == 4 {
                (false, u16::from_be_bytes([ip[4], ip[5]]))
            } else if ip[6] == 44 {
                (true, u16::from(ip[47]))
            } else {
                (true, u16::from(*ip.last().unwrap()))
            };
            arrived.entry(name).or_default().push((bench.target_of(frame), cookie(frame), ip.to_vec()));
        }
        for (name, ip) in expected {
            let pieces = arrived.remove(&name).expect("the datagram arrived");
            prop_assert!(pieces.iter().all(|piece| (piece.0, piece.1) == (pieces[0].0, pieces[0].1)));
            let pieces: Vec<_> = pieces.into_iter().map(|piece| piece.2).collect();
            prop_assert_eq!(reassembled(&pieces), ip);
        }
        prop_assert!(arrived.is_empty());
        prop_assert_eq!(bench.waiting(), 0);
        bench.assert_settled();
    }
}

// M-4, W-5, W-7
#[test]
fn what_an_appliance_returns_in_fragments_is_accepted_if_it_is_of_the_flow() {
    for six in [false, true] {
        let mut bench = Bench::new(1);
        let ip = datagram(six, 4000, 9, 3000);
        let pieces = fragments(&ip, &[1000, 2000]);
        let sent: Vec<_> = pieces.iter().map(|piece| bench.one(LEFT, &from_client(piece)).1).collect();
        for frame in sent.iter().rev() {
            let (port, delivered) = bench.one(UNDER, &answer(frame, None));
            assert_eq!((port, delivered), (RIGHT, from_client(inner(frame))), "W-6");
        }
        // Of another host, of another protocol, and a first fragment of other ports.
        let addresses = if six { 8..40 } else { 12..20 };
        let mut stranger = pieces[1].clone();
        stranger[addresses.end - 1] ^= 1;
        let mut other_protocol = pieces[1].clone();
        other_protocol[if six { 40 } else { 9 }] = 6;
        let mut other_ports = pieces[0].clone();
        other_ports[if six { 48 } else { 20 }] ^= 1;
        for mut wrong in [stranger, other_protocol, other_ports] {
            if !six {
                wrong = with_options(&wrong, &[]);
            }
            assert_eq!(bench.dropped(UNDER, &answer(&sent[0], Some(&wrong))), DropReason::InnerMismatch);
        }
        // The other direction's, as from a block page of the appliance's.
        let mut back = pieces[1].clone();
        let (src, dst) = (addresses.start, addresses.start + addresses.len() / 2);
        for n in 0..addresses.len() / 2 {
            back.swap(src + n, dst + n);
        }
        let (port, delivered) = bench.one(UNDER, &answer(&sent[0], Some(&back)));
        assert_eq!((port, delivered), (LEFT, from_server(&back)));
        bench.assert_settled();
    }
}

// M-4
#[test]
fn protocols_without_ports_need_no_first_fragment() {
    for workers in [1, 2, 4] {
        let mut bench = Bench::with(8, workers, 1024);
        let gre = |offset: u16, more: bool| {
            let mut ip = datagram(false, 1, 5, 500);
            ip[9] = 47;
            ip[6..8].copy_from_slice(&(offset | if more { 0x2000 } else { 0 }).to_be_bytes());
            ip.truncate(20 + 504);
            let len = ip.len() as u16;
            ip[2..4].copy_from_slice(&len.to_be_bytes());
            with_options(&ip, &[])
        };
        let (_, later) = bench.one(LEFT, &from_client(&gre(80, false)));
        let (_, first) = bench.one(LEFT, &from_client(&gre(0, true)));
        assert_eq!(cookie(&later), cookie(&first));
        assert_eq!(held(&bench), 0);
        bench.assert_settled();
    }
}

/// A TCP segment with data, cut in two.
fn segment_in_two(flags: u8) -> Vec<Vec<u8>> {
    let segment = Segment { fragment: 0, ..client(4000, flags) }.with_payload(&noise(800));
    fragments(&segment.ip(), &[400])
}

// M-4, R-5, F-9
#[test]
fn a_later_fragment_of_tcp_keeps_its_flow_and_changes_nothing_of_it() {
    let mut bench = Bench::new(2);
    bench.policy.reset_on_unhealthy = true;
    bench.policy.reset_on_idle = true;
    bench.publish();
    let (_, syn) = bench.one(LEFT, &client(4000, SYN).frame());
    bench.one(LEFT, &client(4000, ACK).frame());
    let target = bench.target_of(&syn);
    let pieces = segment_in_two(PSH | ACK);
    assert_eq!(cookie(&bench.one(LEFT, &from_client(&pieces[0])).1), cookie(&syn));
    bench.set_condition(target, Condition::Unhealthy);
    let (port, out) = bench.one(LEFT, &from_client(&pieces[1]));
    assert_eq!((port, cookie(&out)), (UNDER, cookie(&syn)), "R-5: no reset, it goes where its flow goes");
    assert_eq!(bench.outcome(Outcome::Answered), 0);
    bench.set_condition(target, Condition::Healthy);

    // It restarts the timer as every packet does: 300 s, a segment, 300 s.
    for _ in 0..3 {
        bench.pass(300_000);
        for piece in &segment_in_two(ACK) {
            assert_eq!(bench.one(LEFT, &from_client(piece)).0, UNDER);
        }
    }
    // Of an expired flow: dropped, never answered.
    let pieces = segment_in_two(ACK);
    bench.one(LEFT, &from_client(&pieces[0]));
    bench.timers.tcp_idle_ms = 100;
    bench.publish();
    bench.now += 500;
    assert_eq!(bench.dropped(LEFT, &from_client(&pieces[1])), DropReason::ExpiredFlow);
    bench.assert_settled();
}

// M-4, F-9
#[test]
fn a_later_fragment_does_not_end_half_open_and_one_of_no_flow_makes_none() {
    let mut bench = Bench::new(1);
    bench.timers.half_open_ms = 700;
    bench.publish();
    let syn = Segment { fragment: 0, ..client(4000, SYN) }.with_payload(&noise(800));
    let pieces = fragments(&syn.ip(), &[400]);
    for piece in &pieces {
        assert_eq!(bench.one(LEFT, &from_client(piece)).0, UNDER);
    }
    bench.now += 701;
    assert_eq!(bench.live_flows(0), 1);
    assert_eq!(
        bench.dropped(LEFT, &from_client(&pieces[1])),
        DropReason::UnknownFlow,
        "still half-open, and so over; its datagram is known"
    );
    bench.pass(60_000);
    assert_eq!(bench.live_flows(0), 0);
    // A first fragment that is dropped takes the rest with it.
    let pieces = segment_in_two(ACK);
    assert_eq!(bench.dropped(LEFT, &from_client(&pieces[0])), DropReason::UnknownFlow);
    assert_eq!(bench.dropped(LEFT, &from_client(&pieces[1])), DropReason::UnknownFlow);
    assert_eq!(bench.live_flows(0), 0);
    bench.assert_settled();
}

// M-4: RFC 1858, RFC 3128.
#[test]
fn fragments_that_hide_or_replace_a_transport_header_are_dropped_by_name() {
    let mut bench = Bench::new(1);
    for six in [false, true] {
        let tcp = Segment { fragment: 0, ..client(4000, SYN) }.with_payload(&noise(400));
        let ip = if six { tcp.over_ipv6().ip() } else { tcp.ip() };
        let tiny = fragments(&ip, &[8, 16]);
        assert_eq!(bench.dropped(LEFT, &from_client(&tiny[0])), DropReason::FragmentTiny);
        assert_eq!(bench.dropped(LEFT, &from_client(&tiny[1])), DropReason::FragmentInHeader);
        let fine = fragments(&ip, &[24]);
        assert_eq!(bench.one(LEFT, &from_client(&fine[0])).0, UNDER);
        let udp = datagram(six, 4000, 77, 400);
        assert_eq!(bench.one(LEFT, &from_client(&fragments(&udp, &[8])[0])).0, UNDER, "all of a UDP header");
        assert_eq!(bench.one(LEFT, &from_client(&fragments(&udp, &[8])[1])).0, UNDER);
    }
    // Impossible: not in units of eight, beyond the largest datagram.
    let mut odd = fragments(&datagram(false, 1, 2, 400), &[200])[0].clone();
    odd.pop();
    let len = odd.len() as u16;
    odd[2..4].copy_from_slice(&len.to_be_bytes());
    assert_eq!(bench.dropped(LEFT, &from_client(&with_options(&odd, &[]))), DropReason::IpMalformed);
    let mut beyond = fragments(&datagram(false, 1, 2, 400), &[200])[1].clone();
    beyond[6..8].copy_from_slice(&0x1fff_u16.to_be_bytes());
    assert_eq!(bench.dropped(LEFT, &from_client(&with_options(&beyond, &[]))), DropReason::IpMalformed);
    bench.assert_settled();
}

// M-4
#[test]
fn duplicates_and_overlaps_go_where_their_datagram_goes() {
    let mut bench = Bench::new(4);
    let ip = datagram(false, 4000, 3, 2000);
    let (one, other) = (fragments(&ip, &[800, 1600]), fragments(&ip, &[1200]));
    let cookies: Vec<_> = [&one[0], &one[1], &one[1], &one[0], &other[1], &other[0], &one[2]]
        .into_iter()
        .map(|piece| cookie(&bench.one(LEFT, &from_client(piece)).1))
        .collect();
    assert!(cookies.iter().all(|cookie| *cookie == cookies[0]));
    assert_eq!(bench.live_flows(0) + bench.live_flows(1) + bench.live_flows(2) + bench.live_flows(3), 1);
    bench.assert_settled();
}

// M-4, C-1
#[test]
fn fragments_without_a_first_are_bounded_in_number_and_time_and_harm_nobody() {
    for workers in [1, 2] {
        let mut bench = Bench::with(2, workers, 1024);
        let known = fragments(&datagram(false, 4000, 1, 2000), &[800]);
        assert_eq!(bench.one(LEFT, &from_client(&known[0])).0, UNDER);
        let stray = |id| fragments(&datagram(false, 4001, id, 2000), &[800]).remove(1);
        for id in 1000..6000 {
            let worker = usize::from(id) % usize::from(workers);
            let arriving = &mut bench.workers[worker].ports_mut()[LEFT].arriving;
            arriving.push_back(MemoryBuf::new(&from_client(&stray(id))));
            if id % 100 == 0 {
                bench.rounds(); // before the ring between the workers is full
            }
        }
        bench.rounds();
        assert_eq!(bench.take(), []);
        let full = bench.drops();
        assert_eq!(full, [(DropReason::FragmentFull, 5000 - 256 * u64::from(workers))]);
        assert_eq!(bench.one(LEFT, &from_client(&known[1])).0, UNDER, "a known datagram goes on");
        let late = fragments(&datagram(false, 4002, 9000, 2000), &[800]);
        assert_eq!(bench.put(LEFT, &from_client(&late[1])), []);
        assert_eq!(bench.put(LEFT, &from_client(&late[0])).len(), 2, "and so does one that waits a moment");
        bench.pass(1001);
        let late = bench.drops().into_iter().find(|(reason, _)| *reason == DropReason::FragmentTimeout);
        assert!(late.is_some_and(|(_, count)| count >= 255 * u64::from(workers)));
        assert_eq!(bench.live_flows(0) + bench.live_flows(1), 2);
        bench.assert_settled();
    }
}

// M-4, M-6
#[test]
fn later_fragments_that_see_only_an_extension_header_find_a_first_that_has_no_ports() {
    for workers in [1, 2, 4] {
        let mut bench = Bench::with(8, workers, 1024);
        // Destination options, all padding, and ESP behind them.
        let mut ip = datagram(true, 1, 5, 1000);
        ip[6] = 60;
        ip[40..48].copy_from_slice(&[50, 0, 1, 4, 0, 0, 0, 0]);
        let pieces = fragments(&ip, &[400, 800]);
        assert_eq!(bench.put(LEFT, &from_client(&pieces[1])), []);
        let out = bench.put(LEFT, &from_client(&pieces[0]));
        assert_eq!(out.len(), 2, "{workers} workers: {:?}", bench.drops());
        let (_, last) = bench.one(LEFT, &from_client(&pieces[2]));
        assert!(out.iter().all(|(_, frame)| cookie(frame) == cookie(&last)));
        bench.assert_settled();
    }
}

// M-4, C-1
#[test]
fn fragments_that_wait_when_a_worker_stops_are_counted() {
    let mut bench = Bench::new(1);
    let pieces = fragments(&datagram(false, 1, 5, 1000), &[400, 800]);
    for piece in &pieces[1..] {
        assert_eq!(bench.put(LEFT, &from_client(piece)), []);
    }
    // Nobody captures from a worker that stops.
    bench.watched_from_the_start = false;
    bench.workers[0].run(&Clock::start(), Idle::Poll, &AtomicBool::new(true));
    assert_eq!(bench.drops(), [(DropReason::FragmentTimeout, 2)]);
    assert_eq!(bench.counters[0].received.get(), bench.counters[0].settled());
}
