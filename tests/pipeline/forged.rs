//! Answers that nobody was asked for: GENEVE with made-up cookies, endpoints and insides, as fast as they
//! come. They are counted and dropped; they deliver nothing, reset nothing, push nobody out and change no flow.

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::messages::{FlowFilter, FlowRecord, FromWorker, ToWorker};
use flowgate::io::BURST;
use flowgate::io::memory::MemoryBuf;
use proptest::prelude::*;

use crate::garbage::{Spoil, chained, spoil, spoils};
use crate::harness::*;

/// All that the tables hold, in their order.
fn tables(bench: &mut Bench) -> Vec<FlowRecord> {
    bench.told.clear();
    bench.tell(|| ToWorker::ScanFlows(FlowFilter { limit: u32::MAX, ..FlowFilter::default() }));
    for _ in 0..4 {
        bench.rounds();
    }
    let records = bench.told.drain(..).filter_map(|told| match told {
        FromWorker::Flow(record) => Some(record),
        _ => None,
    });
    records.collect()
}

/// A gateway whose tables are full of every kind of flow, and what its targets were sent.
fn full(workers: u8) -> (Bench, Vec<Vec<u8>>) {
    let mut bench = Bench::with(3, workers, 64);
    bench.policy.reset_on_unhealthy = true;
    bench.policy.reset_on_idle = true;
    bench.publish();
    let mut sent = Vec::new();
    for port in 1..=u16::from(workers) * 80 {
        let all: &[u8] = match port % 4 {
            0 => &[SYN],
            1 => &[SYN, ACK],
            2 => &[SYN, ACK, RST],
            _ => &[SYN, ACK, FIN | ACK],
        };
        for flags in all {
            let out = bench.put(LEFT, &client(port, *flags).frame());
            sent.extend(out.into_iter().map(|(_, frame)| frame));
        }
    }
    (bench, sent)
}

/// Puts answers in, a burst at a time; nothing comes out and all are counted.
fn nothing_comes_of(bench: &mut Bench, answers: impl Iterator<Item = Vec<u8>>) {
    let answers: Vec<_> = answers.collect();
    let before = tables(bench);
    let counted = |bench: &Bench| -> [u64; 4] {
        let counters = bench.counters.iter();
        let drops: u64 = bench.drops().iter().map(|(_, count)| count).sum();
        let [evicted, expired] = counters.fold([0, 0], |[evicted, expired], all| {
            [evicted + all.flows_evicted.get(), expired + all.flows_expired.get()]
        });
        [drops, bench.outcome(Outcome::Answered) + bench.outcome(Outcome::Delivered), evicted, expired]
    };
    let [drops, answered, evicted, expired] = counted(bench);
    for (number, burst) in answers.chunks(BURST).enumerate() {
        let worker = number % bench.workers.len();
        let arriving = &mut bench.workers[worker].ports_mut()[UNDER].arriving;
        arriving.extend(burst.iter().map(|frame| MemoryBuf::new(frame)));
        bench.rounds();
    }
    assert_eq!(bench.take(), []);
    assert_eq!(counted(bench), [drops + answers.len() as u64, answered, evicted, expired]);
    assert_eq!(tables(bench), before, "no flow is other than it was");
    bench.assert_settled();
}

// W-5, F-11, F-12, R-1, R-3, C-1
#[test]
fn random_cookies_at_full_rate_deliver_reset_and_evict_nothing() {
    for workers in [1, 2] {
        let (mut bench, sent) = full(workers);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let forged = (0..20_000).map(|n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut back = answer(&sent[n % sent.len()], None);
            let cookie = (random >> 32) as u32;
            back[78..82].copy_from_slice(&cookie.to_be_bytes());
            back
        });
        // A guess of 32 bits in 20,000 that names a flow, and this one, would be one in 200,000 at most.
        nothing_comes_of(&mut bench, forged);
        assert!(
            bench.drops().iter().any(|(reason, count)| *reason == DropReason::CookieStale && *count > 9000)
        );
    }
}

// W-5, F-11, C-1
#[test]
fn every_cookie_of_another_flow_and_every_turned_bit_is_as_good_as_none() {
    for workers in [1, 2] {
        let (mut bench, sent) = full(workers);
        // Only of those that live: what is gone has a stale cookie already, and may not be turned into one
        // that lives by chance.
        let live: Vec<u32> = tables(&mut bench).iter().map(|flow| flow.cookie).collect();
        let frames: Vec<_> = sent.iter().filter(|frame| live.contains(&cookie(frame))).collect();
        let mine = frames[0];
        let others = live.iter().filter(|other| **other != cookie(mine)).map(|other| {
            let mut back = answer(mine, None);
            back[78..82].copy_from_slice(&other.to_be_bytes());
            back
        });
        let turned = frames.iter().take(20).flat_map(|frame| {
            (0..32).map(|bit| {
                let mut back = answer(frame, None);
                back[78 + bit / 8] ^= 1 << (bit % 8);
                back
            })
        });
        let all: Vec<_> = others.chain(turned).collect();
        nothing_comes_of(&mut bench, all.into_iter());
    }
}

/// Where lengths stand in an answer: outer IP, UDP, an option, inner IPv4, inner IPv6.
const LENGTHS: [usize; 5] = [16, 38, 52, 84, 86];

/// Spoils an answer. Turned round twice it goes the way it went.
fn spoil_answer(back: Vec<u8>, how: &Spoil) -> Vec<u8> {
    match how {
        Spoil::Chain(chain) if back.len() > 82 => answer(&answer(&back, None), Some(&chained(chain))),
        _ => spoil(back, how),
    }
}

/// Writes the outer header's checksum anew, so that what comes after it is looked at.
fn with_right_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    if frame.len() >= 34 {
        frame[24..26].fill(0);
        let sum = checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // W-5, M-6, C-1
    #[test]
    fn whatever_is_wrong_with_an_answer_it_is_delivered_whole_or_counted_and_dropped(
        six: bool, udp: bool, spoils in prop::collection::vec(spoils(&LENGTHS, 50), 1..4), right_checksum: bool,
    ) {
        let mut bench = Bench::new(1);
        let segment = client(1, SYN).with_payload(b"twelve bytes");
        let segment = if udp { segment.udp() } else { segment };
        let segment = if six { segment.over_ipv6() } else { segment };
        let (_, sent) = bench.one(LEFT, &segment.frame());
        let mut back = answer(&sent, None);
        for how in &spoils {
            back = spoil_answer(back, how);
        }
        if right_checksum {
            back = with_right_checksum(back);
        }
        let out = bench.put(UNDER, &back);
        bench.assert_settled();
        prop_assert!(out.len() <= 1);
        for (port, frame) in out {
            // What is delivered is of the flow: to one of its ends, the flow's link header in front.
            prop_assert!(port == LEFT || port == RIGHT);
            let macs = if port == RIGHT { [SERVER_MAC, CLIENT_MAC] } else { [CLIENT_MAC, SERVER_MAC] };
            prop_assert_eq!(&frame[..12], &macs.concat()[..]);
            prop_assert!(back.windows(frame.len() - 14).any(|window| window == &frame[14..]), "byte for byte");
        }
        // And the flow is still there for its next packet.
        prop_assert_eq!(bench.live_flows(0), 1);
        let next = Segment { flags: ACK, ..segment };
        prop_assert_eq!(bench.one(LEFT, &next.frame()).0, UNDER);
    }

    // M-5, M-6, W-5, C-1
    #[test]
    fn an_icmp_error_that_quotes_nonsense_is_delivered_to_its_flows_end_or_dropped(
        quoted in prop::collection::vec(any::<u8>(), 0..80), nearly: bool, cut in 0usize..40,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        kind in prop::sample::select(vec![3u8, 4, 5, 11, 12]), by_wire: bool,
    ) {
        let mut bench = Bench::new(1);
        let syn = client(1, SYN);
        let (_, sent) = bench.one(LEFT, &syn.frame());
        let mut quoted = if nearly { syn.ip() } else { quoted };
        for (at, byte) in changes {
            if !quoted.is_empty() {
                let at = at.index(quoted.len());
                quoted[at] = byte;
            }
        }
        quoted.truncate(quoted.len().saturating_sub(cut));
        let mut icmp = [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
        let sum = checksum(&[&icmp]);
        icmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let error = ipv4_of(1, [203, 0, 113, 1], [192, 0, 2, 10], &icmp);
        let out = if by_wire {
            let frame = [&CLIENT_MAC[..], &SERVER_MAC, &[8, 0], &error].concat();
            bench.put(RIGHT, &frame)
        } else {
            bench.put(UNDER, &answer(&sent, Some(&error)))
        };
        bench.assert_settled();
        prop_assert!(out.len() <= 1);
        for (port, _) in &out {
            // From an appliance it may go to the sender of what it quotes; from a side to a target.
            prop_assert_eq!(*port, if by_wire { UNDER } else { LEFT });
        }
        prop_assert!(bench.live_flows(0) >= 1);
        prop_assert_eq!(bench.one(LEFT, &client(1, ACK).frame()).0, UNDER);
    }
}

/// An IPv4 packet of this protocol.
fn ipv4_of(protocol: u8, src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let mut ip =
        [&[0x45, 0][..], &total.to_be_bytes(), &[0, 7, 0, 0, 64, protocol, 0, 0], &src, &dst].concat();
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [ip, payload.to_vec()].concat()
}
