//! How flows begin, are spread, and end; and a full table: F-3, F-4, F-8, F-9, F-12, F-13.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flowgate::datapath::counters::{Counter, DropReason, Outcome};
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::worker::Idle;
use flowgate::flow::Tuple;
use flowgate::id::{GatewayId, TargetId};
use flowgate::io::BURST;
use flowgate::io::clock::Clock;
use flowgate::io::memory::MemoryBuf;

use crate::harness::*;

fn live(bench: &Bench) -> u64 {
    (0..bench.targets).map(|n| bench.live_flows(n)).sum()
}

// F-4
#[test]
fn a_failing_target_moves_only_its_own_share_of_new_flows_and_they_come_back() {
    let mut bench = Bench::with(5, 1, 4096);
    let map = |bench: &mut Bench| -> Vec<u16> {
        (0..500)
            .map(|port| {
                let (_, out) = bench.one(LEFT, &client(1000 + port, SYN).frame());
                bench.one(LEFT, &client(1000 + port, RST).frame());
                bench.target_of(&out)
            })
            .collect()
    };
    let before = map(&mut bench);
    bench.set_condition(2, Condition::Unhealthy);
    let during = map(&mut bench);
    for (before, during) in before.iter().zip(&during) {
        assert_ne!(*during, 2);
        assert!(*before == 2 || before == during, "a flow of a healthy target moved");
    }
    assert!(before.contains(&2));
    bench.set_condition(2, Condition::Healthy);
    assert_eq!(map(&mut bench), before, "down and up is the same map again");
}

// F-9
#[test]
fn flows_leave_by_their_own_timers() {
    let mut bench = Bench::new(1);
    bench.one(LEFT, &client(1, SYN).frame()); // half open
    bench.one(LEFT, &client(2, SYN).frame());
    bench.one(LEFT, &client(2, ACK).frame()); // established
    bench.one(LEFT, &client(3, SYN).frame());
    bench.one(LEFT, &client(3, FIN | ACK).frame());
    bench.one(RIGHT, &client(3, FIN | ACK).reversed().frame()); // closed by both
    bench.one(LEFT, &client(4, 0).udp().frame());
    let mut left = Vec::new();
    // The hand passes the few entries there are within a few milliseconds.
    for at in [9_999, 10_100, 59_999, 60_100, 119_999, 120_100, 349_999, 350_100] {
        bench.pass(1_000_000 + at - bench.now);
        left.push(live(&bench));
    }
    assert_eq!(left, [4, 3, 3, 2, 2, 1, 1, 0]);
    assert_eq!(bench.counters[0].flows_expired.get(), 4);
}

// F-9
#[test]
fn a_syn_ack_leaves_a_flow_half_open_and_any_packet_without_syn_does_not() {
    for (closer, from_server) in [(ACK, false), (ACK, true)] {
        let mut bench = Bench::new(1);
        bench.one(LEFT, &client(1, SYN).frame());
        bench.one(RIGHT, &client(1, SYN | ACK).reversed().frame());
        let segment = client(1, closer);
        if from_server {
            bench.one(RIGHT, &segment.reversed().frame());
        } else {
            bench.one(LEFT, &segment.frame());
        }
        bench.pass(60_000);
        assert_eq!(live(&bench), 1);
    }
    let mut bench = Bench::new(1);
    bench.one(LEFT, &client(1, SYN).frame());
    bench.one(RIGHT, &client(1, SYN | ACK).reversed().frame());
    bench.pass(60_000);
    assert_eq!(live(&bench), 0);
}

/// A bench whose table holds only established flows, none of which can make room.
fn full() -> Bench {
    let mut bench = Bench::with(3, 1, 64);
    for port in 1..=64 {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    }
    assert_eq!(live(&bench), 64);
    bench
}

// F-12
#[test]
fn a_syn_flood_does_not_push_out_established_flows() {
    let mut bench = Bench::with(3, 1, 64);
    for port in 1..=40 {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    }
    for port in 10_000..12_000 {
        assert_eq!(bench.one(LEFT, &client(port, SYN).frame()).0, UNDER);
    }
    assert_eq!(live(&bench), 64);
    assert_eq!(bench.counters[0].flows_evicted.get(), 2000 - 24);
    for port in 1..=40 {
        bench.one(LEFT, &client(port, ACK | PSH).frame());
    }
    assert_eq!(bench.drops(), []);
    bench.assert_settled();
}

// F-12
#[test]
fn a_full_table_forwards_without_state_and_delivers_the_answers() {
    for six in [false, true] {
        let version = |segment: Segment| if six { segment.over_ipv6() } else { segment };
        let mut bench = full();
        let syn = version(Segment { vlans: vec![3], ..client(9000, SYN) });
        let (_, out) = bench.one(LEFT, &syn.frame());
        let target = bench.target_of(&out);
        assert_eq!(bench.one(UNDER, &answer(&out, None)), (RIGHT, syn.frame()));
        let syn_ack = Segment { flags: SYN | ACK, ..syn.clone().reversed() };
        let (_, out) = bench.one(RIGHT, &syn_ack.frame());
        assert_eq!(bench.target_of(&out), target, "both directions by the same hash");
        assert_eq!(bench.one(UNDER, &answer(&out, None)), (LEFT, syn_ack.frame()));
        // The other direction inside: an appliance's own answer.
        let reset = Segment { flags: RST | ACK, ..syn_ack.clone() };
        let (_, out) = bench.one(LEFT, &Segment { flags: ACK, ..syn.clone() }.frame());
        assert_eq!(bench.one(UNDER, &answer(&out, Some(&reset.ip()))), (LEFT, reset.frame()));
        // Its cookie is good for its own flow and from its own target only.
        let mut stranger = answer(&out, None);
        let ports = if six { 82 + 40 } else { 82 + 20 };
        stranger[ports + 1] ^= 1;
        assert_eq!(bench.dropped(UNDER, &stranger), DropReason::CookieStale);
        assert_eq!(bench.counters[0].gateway(GatewayId(0)).stateless_packets.get(), 3);
        assert_eq!(live(&bench), 64);
        bench.assert_settled();
    }
}

// F-12, W-5
#[test]
fn no_bit_of_a_cookie_without_state_can_be_turned() {
    for workers in [1, 2, 4] {
        let mut bench = Bench::with(1, workers, 1);
        // Two headers in use, and then a flow too many at every worker.
        for port in 1..=40 {
            bench.one(LEFT, &client(port, SYN).frame());
            bench.one(RIGHT, &client(port, ACK).reversed().frame());
        }
        let (_, out) = bench.one(LEFT, &client(9000, SYN).frame());
        assert_ne!(cookie(&out) >> 31, 0, "it says that there is no state");
        for bit in 0..32 {
            let mut forged = answer(&out, None);
            forged[78 + bit / 8] ^= 1 << (bit % 8);
            bench.dropped(UNDER, &forged);
        }
        assert_eq!(bench.one(UNDER, &answer(&out, None)).0, RIGHT);
        bench.assert_settled();
    }
}

// F-12
#[test]
fn a_connection_that_began_without_state_goes_on_when_there_is_room_again() {
    let mut bench = full();
    let (_, out) = bench.one(LEFT, &client(9000, SYN).frame());
    let target = bench.target_of(&out);
    bench.one(LEFT, &client(1, RST).frame());
    let (_, out) = bench.one(LEFT, &client(9000, ACK).frame());
    assert_eq!(bench.target_of(&out), target);
    assert_eq!(live(&bench), 64, "the closed flow has made room for it");
    let (_, again) = bench.one(LEFT, &client(9000, ACK).frame());
    assert_eq!(cookie(&again), cookie(&out));
}

// F-13
#[test]
fn a_round_looks_at_a_bounded_number_of_entries() {
    let mut bench = Bench::with(1, 1, 4096);
    for port in 1..=4096 {
        bench.one(LEFT, &client(port, SYN).frame());
    }
    bench.now += 60_000;
    bench.workers[0].round(flowgate::id::Millis(bench.now), 0);
    let after_one = live(&bench);
    assert!((4096 - 32..4096).contains(&after_one), "one round ended {} flows", 4096 - after_one);
    bench.pass(1);
    bench.pass(1);
    assert_eq!(live(&bench), 0);
}

//
#[test]
fn a_target_counts_what_went_to_it_and_what_came_back() {
    let mut bench = Bench::new(1);
    let segment = client(1, SYN).with_payload(b"fast open");
    let (_, out) = bench.one(LEFT, &segment.frame());
    bench.one(UNDER, &answer(&out, None));
    let counters = bench.counters[0].target(TargetId(0));
    let bytes = segment.ip().len() as u64;
    assert_eq!((counters.packets_out.get(), counters.bytes_out.get()), (1, bytes));
    assert_eq!((counters.packets_back.get(), counters.bytes_back.get()), (1, bytes));
    assert_eq!((counters.new_flows.get(), counters.active_tcp_flows.get()), (1, 1));
    assert_eq!(bench.outcome(Outcome::Delivered), 1);
}

// F-3
#[test]
fn stickiness_chooses_the_target_and_every_five_tuple_is_a_flow_of_its_own_all_the_same() {
    for (stickiness, targets_of_ports, tcp_goes_with_udp) in
        [(Tuple::Five, 8, false), (Tuple::Three, 1, false), (Tuple::Two, 1, true)]
    {
        let mut bench = Bench::new(8);
        bench.policy.stickiness = stickiness;
        bench.publish();
        let mut cookies = BTreeSet::new();
        let mut alike = true;
        for host in 1..=20 {
            let mut targets = [BTreeSet::new(), BTreeSet::new()];
            for port in 1000..1020 {
                for (udp, targets) in targets.iter_mut().enumerate() {
                    let segment = Segment { src: Ipv4Addr::new(192, 0, 2, host).into(), ..client(port, SYN) };
                    let segment = if udp == 1 { segment.udp() } else { segment };
                    let (_, out) = bench.one(LEFT, &segment.frame());
                    targets.insert(bench.target_of(&out));
                    cookies.insert(cookie(&out));
                    // F-2
                    let (_, back) =
                        bench.one(RIGHT, &Segment { flags: SYN | ACK, ..segment.reversed() }.frame());
                    assert_eq!(
                        (bench.target_of(&back), cookie(&back)),
                        (bench.target_of(&out), cookie(&out))
                    );
                }
            }
            assert!(targets.iter().all(|targets| targets.len() <= targets_of_ports), "{stickiness:?}");
            if targets_of_ports > 1 {
                assert!(targets.iter().all(|targets| targets.len() > 1), "{stickiness:?}");
            }
            alike &= targets[0] == targets[1];
        }
        assert_eq!(alike, tcp_goes_with_udp, "{stickiness:?}");
        assert_eq!((cookies.len() as u64, live(&bench)), (800, 800), "{stickiness:?}");
    }
}

// F-13, R-10, F-9, F-12
#[test]
fn a_burst_leaves_in_its_round_whatever_else_is_on_and_all_that_is_bounded() {
    use flowgate::datapath::messages::{FlowFilter, ToWorker};
    let mut bench = Bench::with(2, 1, 4096);
    bench.policy.reset_on_unhealthy = true;
    bench.policy.proactive = true;
    bench.publish();
    // A full table, half of it established, half of it half-open.
    for port in 1..=2048 {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
        bench.one(LEFT, &client(10_000 + port, SYN).frame());
    }
    assert_eq!(live(&bench), 4096);
    // All at once: a target fails and its silent flows are to be told, the half-open flows are over, a
    // scan is asked for, and a burst of new flows arrives that must push out others.
    let expired = |bench: &Bench| bench.counters[0].flows_expired.get();
    bench.send_condition(0, Condition::Unhealthy);
    bench.push(|| ToWorker::ScanFlows(FlowFilter { limit: u32::MAX, ..FlowFilter::default() }));
    for port in 1..=BURST as u16 {
        let frame = MemoryBuf::new(&client(20_000 + port, SYN).frame());
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(frame);
    }
    let (expired_before, evicted_before) = (expired(&bench), bench.counters[0].flows_evicted.get());
    bench.now += 60_000;
    let handled = bench.workers[0].round(flowgate::id::Millis(bench.now), 0);
    assert_eq!(handled, BURST);
    let out = bench.take();
    let to_targets = out.iter().filter(|(port, _)| *port == UNDER).count();
    assert_eq!(to_targets, BURST, "the whole burst is out after one round");
    assert!(out.len() - to_targets <= BURST, "{} resets unasked in one round", out.len() - to_targets);
    assert_eq!(bench.counters[0].flows_evicted.get() - evicted_before, BURST as u64, "one for each");
    assert!(expired(&bench) - expired_before <= 32, "{} flows aged", expired(&bench) - expired_before);
    // And it all comes to its end, a bounded piece a round.
    for _ in 0..4096 / 16 {
        bench.workers[0].round(flowgate::id::Millis(bench.now), 0);
        let out = bench.take();
        assert!(out.len() <= BURST, "{} packets in a round that got none", out.len());
    }
    assert_eq!(bench.live_flows(0), 0, "all are told or over");
    bench.assert_settled();
}

// F-13
#[test]
fn the_longest_busy_round_is_measured() {
    let mut bench = Bench::new(1);
    for port in 1..=3 * BURST as u16 {
        let frame = MemoryBuf::new(&client(port, SYN).frame());
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(frame);
    }
    let (stop, counters) = (AtomicBool::new(false), Arc::clone(&bench.counters[0]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while counters.busy_rounds.get() < 3 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        bench.workers[0].run(&Clock::start(), Idle::Poll, &stop);
    });
    assert_eq!(counters.busy_rounds.get(), 3, "a burst a round");
    let (longest, sum) = (counters.longest_rounds.ever().cycles, counters.busy_cycles.get());
    assert!(longest > 0 && longest <= sum && sum <= 3 * longest, "{longest} of {sum}");
}

#[test]
fn an_idle_worker_rests_if_it_may_and_only_then() {
    for (idle, rests) in [(Idle::Poll, false), (Idle::Sleep(Duration::from_micros(200)), true)] {
        let mut bench = Bench::new(1);
        let frame = MemoryBuf::new(&client(1, SYN).frame());
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(frame);
        let (stop, counters) = (AtomicBool::new(false), Arc::clone(&bench.counters[0]));
        let before = counters.rounds.get();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while counters.rounds.get() < before + 500 {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
            });
            bench.workers[0].run(&Clock::start(), idle, &stop);
        });
        assert_eq!(counters.busy_rounds.get(), 1);
        assert_eq!(counters.slept_cycles.get() > 0, rests);
        assert_eq!((counters.bursts.all(), counters.bursts.by_class()[0]), (1, 1));
        bench.pass(10);
        assert_eq!(counters.flow_states.iter().map(Counter::get).sum::<u64>(), 1);
    }
}

/// As many SYNs as push every half-open flow of [`crowded`] out.
fn flood(bench: &mut Bench, ports: std::ops::Range<u16>) {
    for port in ports {
        assert_eq!(bench.one(LEFT, &client(port, SYN).frame()).0, UNDER);
    }
}

/// A table of 64 with 32 established flows, and the rest full of a flood's.
fn crowded(fast_path: bool) -> Bench {
    let mut bench = Bench::with(3, 1, 64);
    if !fast_path {
        bench.workers[0].without_fast_path();
    }
    for port in 1..=32 {
        bench.one(LEFT, &client(port, SYN).frame());
        bench.one(LEFT, &client(port, ACK).frame());
    }
    flood(&mut bench, 10_000..10_032);
    assert_eq!((live(&bench), bench.counters[0].flows_evicted.get()), (64, 0));
    bench
}

// F-12, F-9
#[test]
fn a_handshake_that_is_slower_than_a_syn_flood_comes_about_all_the_same() {
    for fast_path in [true, false] {
        let mut bench = crowded(fast_path);
        let (_, out) = bench.one(LEFT, &client(9000, SYN).frame());
        let target = bench.target_of(&out);
        flood(&mut bench, 20_000..20_032);
        // What the appliance still had of it is lost, as a flow's cookie is its own (F-11); the SYN is sent again.
        assert_eq!(bench.dropped(UNDER, &answer(&out, None)), DropReason::CookieStale);
        bench.one(LEFT, &client(9000, SYN).frame());
        flood(&mut bench, 20_100..20_132);
        let syn_ack = client(9000, SYN | ACK).reversed();
        let (_, out) = bench.one(RIGHT, &syn_ack.frame());
        assert_eq!(bench.target_of(&out), target);
        assert_eq!(bench.one(UNDER, &answer(&out, None)), (LEFT, syn_ack.frame()));
        flood(&mut bench, 20_200..20_232);
        let (_, out) = bench.one(LEFT, &client(9000, ACK).frame());
        assert_eq!(bench.target_of(&out), target);
        // The next packet makes it a flow that no flood pushes out.
        let (_, out) = bench.one(LEFT, &client(9000, ACK | PSH).frame());
        flood(&mut bench, 20_300..20_400);
        let (_, again) = bench.one(LEFT, &client(9000, ACK | PSH).frame());
        assert_eq!(cookie(&again), cookie(&out));
        bench.assert_settled();
    }
}

// F-12, F-8
#[test]
fn when_the_flood_is_over_a_packet_of_no_flow_is_dropped_again() {
    let mut bench = crowded(true);
    assert_eq!(
        bench.dropped(LEFT, &client(9000, ACK).frame()),
        DropReason::UnknownFlow,
        "nobody has made room"
    );
    flood(&mut bench, 20_000..20_001);
    bench.now += 59_999;
    bench.one(LEFT, &client(9000, ACK).frame());
    // That has pushed another out.
    bench.now += 60_000;
    assert_eq!(bench.dropped(LEFT, &client(9001, ACK).frame()), DropReason::UnknownFlow);
    bench.assert_settled();
}

// F-12
#[test]
fn packets_of_no_flow_in_a_syn_flood_push_out_no_more_than_syns_do() {
    for flags in [ACK, SYN | ACK, FIN | ACK, RST] {
        let mut bench = crowded(true);
        let goes_on = |port| cookie(&bench.one(LEFT, &client(port, ACK).frame()).1);
        let cookies: Vec<u32> = (1..=32).map(goes_on).collect();
        flood(&mut bench, 20_000..20_001);
        for port in 30_000..31_000 {
            assert_eq!(bench.one(LEFT, &client(port, flags).frame()).0, UNDER);
        }
        let stateless = bench.counters[0].gateway(GatewayId(0)).stateless_packets.get();
        assert_eq!((live(&bench), stateless), (64, 0));
        for port in 1..=32 {
            let (_, out) = bench.one(LEFT, &client(port, ACK | PSH).frame());
            assert_eq!(cookie(&out), cookies[usize::from(port) - 1], "it is the flow that it was");
        }
        let (_, out) = bench.one(LEFT, &client(9000, SYN).frame());
        assert_eq!(cookie(&out) >> 31, 0, "a new flow has an entry");
        assert_eq!(bench.drops(), []);
    }
}

// F-12, W-5
#[test]
fn a_cookie_without_state_is_good_for_an_idle_timeout_after_the_last_that_was_given() {
    let mut bench = full();
    let (_, out) = bench.one(LEFT, &client(9000, SYN).frame());
    assert_ne!(cookie(&out) >> 31, 0);
    bench.now += 349_999;
    assert_eq!(bench.one(UNDER, &answer(&out, None)).0, RIGHT);
    bench.now += 1;
    assert_eq!(bench.dropped(UNDER, &answer(&out, None)), DropReason::CookieStale);
}

// F-12, W-5
#[test]
fn no_guess_of_a_cookie_without_state_is_right_while_nothing_was_sent_without_state() {
    // What would be right after an overflow, and is given away by what one was.
    let mut bench = full();
    let (_, right) = bench.one(LEFT, &client(9000, SYN).frame());
    let mut bench = Bench::with(3, 1, 64);
    bench.one(LEFT, &client(1, SYN).frame());
    let guesses = (0..1 << 14).map(|check| cookie(&right) & !0x3fff | check);
    for guess in guesses {
        let mut forged = answer(&right, None);
        forged[78..82].copy_from_slice(&guess.to_be_bytes());
        bench.workers[0].ports_mut()[UNDER].arriving.push_back(MemoryBuf::new(&forged));
        bench.rounds();
    }
    assert_eq!(bench.take(), []);
    assert_eq!(bench.drops(), [(DropReason::CookieStale, 1 << 14)]);
    bench.assert_settled();
}

// F-9
#[test]
fn a_forged_reset_shortens_no_flow_whose_ends_go_on() {
    for proactive in [false, true] {
        let mut bench = Bench::new(3);
        bench.policy.proactive = proactive;
        bench.publish();
        bench.one(LEFT, &client(1, SYN).frame());
        bench.one(RIGHT, &client(1, SYN | ACK).reversed().frame());
        let (_, out) = bench.one(LEFT, &client(1, ACK).frame());
        for (port, forged, own) in [
            (LEFT, client(1, RST), client(1, ACK | PSH)),
            (RIGHT, client(1, RST | ACK).reversed(), client(1, ACK | PSH).reversed()),
        ] {
            let (_, reset) = bench.one(port, &forged.frame());
            let (_, on) = bench.one(port, &own.frame());
            assert_eq!(cookie(&on), cookie(&out));
            bench.pass(349_000);
            assert_eq!(live(&bench), 1, "it is as it was");
            // The appliance returned the forged one late. Where acknowledgements are kept there is no place to know it by.
            if !proactive {
                bench.one(UNDER, &answer(&reset, None));
            }
            bench.one(port, &own.frame());
        }
        bench.pass(349_000);
        let (_, on) = bench.one(RIGHT, &client(1, ACK).reversed().frame());
        assert_eq!(cookie(&on), cookie(&out));
        bench.assert_settled();
    }
}

// F-9
#[test]
fn a_reset_flow_leaves_soon_though_the_other_end_was_still_sending() {
    let mut bench = Bench::new(3);
    bench.one(LEFT, &client(1, SYN).frame());
    bench.one(RIGHT, &client(1, SYN | ACK).reversed().frame());
    bench.one(LEFT, &client(1, ACK).frame());
    bench.one(LEFT, &client(1, RST).frame());
    for _ in 0..3 {
        let (_, out) = bench.one(RIGHT, &client(1, ACK | PSH).reversed().frame());
        bench.one(UNDER, &answer(&out, None));
    }
    let (_, out) = bench.one(RIGHT, &client(1, FIN | ACK).reversed().frame());
    bench.one(UNDER, &answer(&out, None));
    bench.pass(10_100);
    assert_eq!(live(&bench), 0);
}

/// A flow of which both sides were seen, each at its end of the wire.
fn answered(bench: &mut Bench, port: u16) {
    bench.one(LEFT, &client(port, SYN).frame());
    bench.one(RIGHT, &client(port, SYN | ACK).reversed().frame());
    bench.one(LEFT, &client(port, ACK).frame());
}

/// A flow that a forger behind one end of the wire has made, with packets of both addresses or of one.
fn forged(bench: &mut Bench, port: u16) {
    bench.one(LEFT, &client(port, SYN).frame());
    let second = if port.is_multiple_of(2) { client(port, ACK) } else { client(port, ACK).reversed() };
    bench.one(LEFT, &second.frame());
}

// F-12, F-9
#[test]
fn flows_that_were_never_answered_and_are_silent_make_room_when_all_are_established() {
    for fast_path in [true, false] {
        let mut bench = Bench::with(3, 1, 64);
        if !fast_path {
            bench.workers[0].without_fast_path();
        }
        (1..=16).for_each(|port| answered(&mut bench, port));
        (100..148).for_each(|port| forged(&mut bench, port));
        let (_, before) = bench.one(LEFT, &client(110, ACK).frame());
        let is_stateless = |out: &[u8]| cookie(out) >> 31 == 1;
        bench.now += 29_999;
        // One way only, as is allowed, and in use.
        for port in 100..104 {
            bench.one(LEFT, &client(port, ACK).frame());
        }
        // More than once round the table, after which it is not looked at again before one may go.
        for port in 9000..9020 {
            let (_, out) = bench.one(LEFT, &client(port, SYN).frame());
            assert!(is_stateless(&out), "nobody has been silent for long enough");
        }
        bench.now += 1;
        // Some are looked at for each that comes, so that it takes a few to come to them.
        let mut kept = 0;
        for port in 9100..9200 {
            let (_, out) = bench.one(LEFT, &client(port, SYN).frame());
            if !is_stateless(&out) {
                kept += 1;
                bench.one(RIGHT, &client(port, SYN | ACK).reversed().frame());
                bench.one(LEFT, &client(port, ACK).frame());
            }
        }
        assert_eq!(kept, 44, "all that were forged and silent");
        assert_eq!(bench.counters[0].flows_evicted.get(), 44);
        for port in (1..=16).chain(100..104) {
            let (_, out) = bench.one(LEFT, &client(port, ACK | PSH).frame());
            assert!(!is_stateless(&out), "{port}");
        }
        // A true one that was among them goes on, to the same target.
        let (_, out) = bench.one(LEFT, &client(110, ACK).frame());
        assert_eq!(live(&bench), 64);
        assert!(is_stateless(&out));
        assert_eq!(bench.target_of(&out), bench.target_of(&before));
        assert_eq!(bench.drops(), []);
        bench.assert_settled();
    }
}

// F-12, O-4
#[test]
fn half_open_flows_let_go_of_the_headers_that_there_is_room_for() {
    for fast_path in [true, false] {
        let mut bench = Bench::with(3, 1, 65_536);
        if !fast_path {
            bench.workers[0].without_fast_path();
        }
        bench.foresees = false;
        (1..=8).for_each(|port| answered(&mut bench, port));
        let (_, half_open) = bench.one(LEFT, &client(9, SYN).frame());
        let from = |station: u32| {
            let [.., a, b, c] = station.to_be_bytes();
            Segment {
                macs: ([2, 1, 0, a, b, c], SERVER_MAC),
                ..client(10_000 + (station % 50_000) as u16, SYN)
            }
        };
        // More stations than there is room for.
        for station in 0..40_000 {
            assert_eq!(bench.one(LEFT, &from(station).frame()).0, UNDER, "station {station}");
        }
        assert_eq!(bench.drops(), [], "nobody is dropped for want of room (link_table_full)");
        // The flow of the oldest that alone held its header has gone, and no other for nothing.
        let (_, out) = bench.one(LEFT, &client(9, ACK).frame());
        assert_eq!(cookie(&out), cookie(&half_open));
        let gone = 40_000 - 32_766;
        assert_eq!(bench.counters[0].flows_evicted.get(), gone);
        // A half-open one's own SYN comes again by another way: it is not the one that goes for its header.
        let (_, oldest) = bench.one(LEFT, &from(gone as u32).frame());
        let again = Segment { macs: ([2, 9, 9, 9, 9, 8], SERVER_MAC), ..from(gone as u32) };
        for _ in 0..2 {
            assert_eq!(cookie(&bench.one(LEFT, &again.frame()).1), cookie(&oldest));
            assert_eq!(bench.counters[0].flows_evicted.get(), gone + 1);
        }
        let moved = Segment { macs: ([2, 9, 9, 9, 9, 9], SERVER_MAC), ..client(1, ACK) };
        let (_, out) = bench.one(LEFT, &moved.frame());
        let back = Segment { macs: moved.macs, ..client(1, ACK) };
        assert_eq!(bench.one(UNDER, &answer(&out, None)), (RIGHT, back.frame()));
        for port in 1..=8 {
            let (_, out) = bench.one(RIGHT, &client(port, ACK | PSH).reversed().frame());
            bench.one(UNDER, &answer(&out, None));
        }
        bench.assert_settled();
    }
}

// O-4
#[test]
fn a_station_of_many_headers_pushes_out_no_half_open_flow_for_nothing() {
    let mut bench = Bench::with(3, 1, 65_536);
    bench.foresees = false;
    let from = |station: u32| {
        let [.., a, b, c] = station.to_be_bytes();
        let port = 10_000 + (station % 50_000) as u16;
        Segment { macs: ([2, 0, 0, a, b, c], SERVER_MAC), ..client(port, 0).udp() }
    };
    (1..=40).for_each(|port| drop(bench.one(LEFT, &client(port, SYN).frame())));
    let full = (0..33_000).filter(|station| bench.put(LEFT, &from(*station).frame()).is_empty()).count();
    assert_eq!(bench.drops(), [(DropReason::LinkTableFull, full as u64)]);
    assert!(full > 200);
    assert_eq!(bench.counters[0].flows_evicted.get(), 0);
    assert_eq!(
        bench.dropped(LEFT, &client(9000, ACK).frame()),
        DropReason::UnknownFlow,
        "nor is there a gap"
    );
}

// C-1, F-2: RFC 1122 3.2.1.3, RFC 4291 2.7
#[test]
fn nothing_on_a_wire_comes_from_a_group_or_from_everybody() {
    let mut bench = Bench::new(1);
    for source in ["224.0.1.1", "239.255.255.255", "255.255.255.255", "ff02::1", "ff0e::1"] {
        let src: std::net::IpAddr = source.parse().unwrap();
        let segment = if src.is_ipv6() { client(1, SYN).over_ipv6() } else { client(1, SYN) };
        let frame = Segment { src, ..segment }.frame();
        assert_eq!(bench.dropped(LEFT, &frame), DropReason::Martian, "{source}");
    }
    assert_eq!(live(&bench), 0);
    bench.assert_settled();
}

// F-9
#[test]
fn a_reset_that_the_appliance_made_is_believed_though_segments_are_still_on_their_way() {
    let mut bench = Bench::new(3);
    answered(&mut bench, 1);
    let (_, out) = bench.one(LEFT, &client(1, ACK | PSH).frame());
    for segment in [client(1, RST | ACK), client(1, RST | ACK).reversed()] {
        bench.one(UNDER, &answer(&out, Some(&segment.ip())));
    }
    bench.one(LEFT, &client(1, ACK | PSH).frame());
    bench.one(RIGHT, &client(1, ACK | PSH).reversed().frame());
    bench.pass(10_100);
    assert_eq!(live(&bench), 0);
}

// F-12: no time is kept so long that it would seem to lie ahead (the clock wraps after 49.7 days).
#[test]
fn what_made_room_or_went_without_state_a_clock_s_round_ago_opens_nothing() {
    let mut squeezed = crowded(true);
    flood(&mut squeezed, 20_000..20_001);
    let mut overflown = full();
    let (_, out) = overflown.one(LEFT, &client(9000, SYN).frame());
    for bench in [&mut squeezed, &mut overflown] {
        for _ in 0..50 {
            bench.now = bench.now.wrapping_add(85_899_346);
            bench.rounds();
        }
    }
    assert_eq!(squeezed.dropped(LEFT, &client(9000, ACK).frame()), DropReason::UnknownFlow);
    assert_eq!(overflown.dropped(UNDER, &answer(&out, None)), DropReason::CookieStale);
}
