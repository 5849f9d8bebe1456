//! What happens when a target fails, is drained, or a flow idles out: F-5, F-6, F-14, T-1 to T-7, R-1 to R-8.

use flowgate::datapath::counters::{DropReason, Outcome, ResetTrigger};
use flowgate::datapath::forwarding::{Condition, Failover, UnknownFlow};
use flowgate::datapath::messages::FromWorker;
use flowgate::id::{GatewayId, TargetId};

use crate::harness::*;

/// A bench with an established flow of client port 4000, and the number of its target.
pub fn established(configure: impl FnOnce(&mut Bench)) -> (Bench, u16) {
    let mut bench = Bench::new(4);
    configure(&mut bench);
    bench.publish();
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    let target = bench.target_of(&out);
    bench.one(RIGHT, &client(4000, SYN | ACK).reversed().frame());
    bench.one(LEFT, &client(4000, ACK).frame());
    (bench, target)
}

pub fn resets(bench: &mut Bench) {
    bench.policy.reset_on_unhealthy = true;
    bench.policy.reset_on_deregistration = true;
}

fn rebalance(bench: &mut Bench) {
    bench.policy.failover = Failover::Rebalance;
}

pub fn data() -> Segment {
    client(4000, ACK | PSH).with_payload(b"data")
}

/// The reset that RFC 9293 3.10.7.1 asks for in answer to a segment with ACK.
pub fn reset_for(segment: &Segment) -> Vec<u8> {
    let reset = Segment {
        flags: RST,
        seq: segment.ack,
        ack: 0,
        payload: Vec::new(),
        ttl: 64,
        ..segment.clone().reversed()
    };
    let mut frame = Segment { seq: segment.ack, ack: 0, ..reset }.frame();
    let at = 14 + 4 * segment.vlans.len();
    if segment.src.is_ipv4() {
        frame[at + 4..at + 6].fill(0); // identification
        frame[at + 6..at + 8].copy_from_slice(&[0x40, 0]);
        frame[at + 10..at + 12].fill(0);
        let sum = checksum(&[&frame[at..at + 20]]);
        frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    // Window 0, and the checksum over it.
    let tcp = at + if segment.src.is_ipv4() { 20 } else { 40 };
    let (window, old) = ([0u8, 0], [frame[tcp + 14], frame[tcp + 15]]);
    let mut sum = u32::from(!u16::from_be_bytes([frame[tcp + 16], frame[tcp + 17]]));
    sum += u32::from(!u16::from_be_bytes(old)) + u32::from(u16::from_be_bytes(window));
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[tcp + 14..tcp + 16].copy_from_slice(&window);
    frame[tcp + 16..tcp + 18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}

// T-1, F-5, A-5's default
#[test]
fn by_default_a_flow_stays_with_its_unhealthy_target() {
    let (mut bench, target) = established(|_| {});
    bench.set_condition(target, Condition::Unhealthy);
    let (port, out) = bench.one(LEFT, &data().frame());
    assert_eq!((port, bench.target_of(&out)), (UNDER, target));
    bench.one(UNDER, &answer(&out, None)); // it may answer all the same
    assert_eq!(bench.outcome(Outcome::Answered), 0);
}

//
#[test]
fn the_next_packet_of_either_side_is_answered_with_a_reset_the_way_it_came() {
    for six in [false, true] {
        for vlans in [vec![], vec![0x2007]] {
            for from_server in [false, true] {
                let version = |segment: Segment| if six { segment.over_ipv6() } else { segment };
                let dress = |segment: Segment| version(Segment { vlans: vlans.clone(), ..segment });
                let mut bench = Bench::new(4);
                resets(&mut bench);
                bench.publish();
                let (_, out) = bench.one(LEFT, &dress(client(4000, SYN)).frame());
                let target = bench.target_of(&out);
                bench.one(LEFT, &dress(client(4000, ACK)).frame());
                bench.set_condition(target, Condition::Unhealthy);
                let (port, segment) =
                    if from_server { (RIGHT, dress(data()).reversed()) } else { (LEFT, dress(data())) };
                assert_eq!(bench.one(port, &segment.frame()), (port, reset_for(&segment)));
                assert_eq!(bench.live_flows(target), 0, "the entry goes");
                bench.assert_settled();
            }
        }
    }
}

// H-7
#[test]
fn a_condition_is_in_force_for_the_packets_of_the_round_that_finds_it() {
    let (mut bench, target) = established(resets);
    bench.send_condition(target, Condition::Unhealthy);
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    let applied = bench.told.iter().any(|told| matches!(told, FromWorker::ConditionApplied { .. }));
    assert!(applied, "the control core learns when");
}

// R-1, F-8
#[test]
fn after_the_reset_the_flow_is_new() {
    let (mut bench, target) = established(resets);
    bench.set_condition(target, Condition::Unhealthy);
    bench.one(LEFT, &data().frame());
    assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::UnknownFlow);
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    assert_ne!(bench.target_of(&out), target);
}

//
#[test]
fn a_reset_is_counted_by_load_balancer_target_and_trigger_and_told() {
    let (mut bench, target) = established(resets);
    bench.set_condition(target, Condition::Unhealthy);
    bench.one(LEFT, &data().frame());
    let trigger = ResetTrigger::Unhealthy.index();
    assert_eq!(bench.counters[0].gateway(GatewayId(0)).resets[trigger].get(), 1);
    assert_eq!(bench.counters[0].target(TargetId(target)).resets[trigger].get(), 1);
    assert_eq!(bench.outcome(Outcome::Answered), 1);
    let record = bench.told.iter().find_map(|told| match told {
        FromWorker::Reset(record) => Some(*record),
        _ => None,
    });
    let record = record.expect("the control core is told");
    assert_eq!(record.to, (CLIENT.parse().unwrap(), 4000));
    assert_eq!(record.from, (SERVER.parse().unwrap(), 80));
    assert_eq!((record.trigger, record.target), (ResetTrigger::Unhealthy, Some(TargetId(target))));
}

// R-6, F-14
#[test]
fn a_syn_is_never_reset_and_starts_anew_on_a_healthy_target() {
    for configure in [resets as fn(&mut Bench), rebalance, |_| {}] {
        for condition in [Condition::Unhealthy, Condition::Draining, Condition::Removed] {
            let (mut bench, target) = established(configure);
            let old = bench.one(LEFT, &data().frame()).1;
            bench.set_condition(target, condition);
            let (port, out) = bench.one(LEFT, &client(4000, SYN).frame());
            assert_eq!(port, UNDER);
            assert_ne!(bench.target_of(&out), target, "{condition:?}");
            assert_ne!(cookie(&out), cookie(&old), "F-11");
            assert_eq!((bench.live_flows(target), bench.outcome(Outcome::Answered)), (0, 0));
        }
    }
}

// F-14
#[test]
fn a_retransmitted_syn_stays_with_a_healthy_target() {
    let (mut bench, target) = established(resets);
    let old = bench.one(LEFT, &data().frame()).1;
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    assert_eq!((bench.target_of(&out), cookie(&out)), (target, cookie(&old)));
}

// T-2
#[test]
fn a_reset_is_for_tcp_only() {
    let mut bench = Bench::new(4);
    resets(&mut bench);
    bench.publish();
    let (_, out) = bench.one(LEFT, &client(53, 0).udp().frame());
    let target = bench.target_of(&out);
    for condition in [Condition::Unhealthy, Condition::Removed] {
        bench.set_condition(target, condition);
        let (port, out) = bench.one(LEFT, &client(53, 0).udp().frame());
        assert_eq!((port, bench.target_of(&out)), (UNDER, target));
    }
}

// T-1, T-2, T-4, T-5
#[test]
fn with_rebalance_the_next_packet_moves_the_flow_and_nothing_moves_back() {
    for udp in [false, true] {
        for condition in [Condition::Unhealthy, Condition::Removed] {
            let packet = if udp { client(4000, 0).udp() } else { data() };
            let (mut bench, _) = established(rebalance);
            if udp {
                bench.one(LEFT, &packet.frame());
            }
            let (_, out) = bench.one(LEFT, &packet.frame());
            let target = bench.target_of(&out);
            bench.set_condition(target, condition);
            if condition == Condition::Removed {
                bench.publish();
            }
            let (_, moved) = bench.one(LEFT, &packet.frame());
            let other = bench.target_of(&moved);
            assert_ne!(other, target);
            assert_eq!(cookie(&moved), cookie(&out), "the same flow");
            assert_eq!(bench.dropped(UNDER, &answer(&out, None)), DropReason::NotFromTarget);
            bench.one(UNDER, &answer(&moved, None));
            bench.set_condition(target, Condition::Healthy);
            let (_, out) = bench.one(LEFT, &packet.frame());
            assert_eq!(bench.target_of(&out), other, "T-5");
            assert_eq!(bench.outcome(Outcome::Answered), 0);
        }
    }
}

// T-3, T-4, R-2, T-7
#[test]
fn a_drained_target_keeps_its_flows_and_gets_no_new_ones() {
    for configure in [resets as fn(&mut Bench), |_| {}] {
        let (mut bench, target) = established(configure);
        bench.set_condition(target, Condition::Draining);
        bench.publish();
        let (_, out) = bench.one(LEFT, &data().frame());
        assert_eq!(bench.target_of(&out), target);
        for port in 5000..5100 {
            let (_, out) = bench.one(LEFT, &client(port, SYN).frame());
            assert_ne!(bench.target_of(&out), target);
        }
        // T-7: registered again, its flows are untouched.
        bench.set_condition(target, Condition::Initial);
        bench.publish();
        let (_, out) = bench.one(LEFT, &data().frame());
        assert_eq!(bench.target_of(&out), target);
        bench.assert_settled();
    }
}

// R-2, T-4
#[test]
fn after_the_delay_a_flow_is_reset_or_goes_on_as_the_attribute_says() {
    let (mut bench, target) = established(resets);
    bench.set_condition(target, Condition::Removed);
    bench.publish();
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    let trigger = ResetTrigger::Deregistration.index();
    assert_eq!(bench.counters[0].target(TargetId(target)).resets[trigger].get(), 1);

    let (mut bench, target) = established(|_| {});
    bench.set_condition(target, Condition::Removed);
    bench.publish();
    let (port, out) = bench.one(LEFT, &data().frame());
    assert_eq!((port, bench.target_of(&out)), (UNDER, target));
    bench.one(UNDER, &answer(&out, None));
}

// F-6, T-6
#[test]
fn with_nobody_healthy_new_flows_fail_open_and_are_not_reset_until_somebody_is() {
    let (mut bench, target) = established(resets);
    for n in 0..4 {
        bench.set_condition(n, Condition::Unhealthy);
    }
    assert_eq!(bench.one(LEFT, &data().frame()).0, LEFT, "T-6: an old flow is reset");
    let (port, out) = bench.one(LEFT, &client(4000, SYN).frame());
    assert_eq!((port, bench.target_of(&out)), (UNDER, target), "F-6: by the same hash");
    assert_eq!(bench.counters[0].gateway(GatewayId(0)).fail_open_flows.get(), 1);
    let (port, _) = bench.one(LEFT, &data().frame());
    assert_eq!(port, UNDER, "T-6: one that failed open is not");
    let other = (target + 1) % 4;
    bench.set_condition(other, Condition::Healthy);
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    assert_eq!(bench.target_of(&out), other);
}

// F-6
#[test]
fn a_flow_that_failed_open_stays_when_others_recover() {
    let mut bench = Bench::new(2);
    bench.conditions = vec![Condition::Unhealthy; 2];
    bench.publish();
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    let target = bench.target_of(&out);
    bench.one(LEFT, &data().frame());
    bench.set_condition(1 - target, Condition::Healthy);
    let (_, out) = bench.one(LEFT, &data().frame());
    assert_eq!(bench.target_of(&out), target);
}

// F-7
#[test]
fn with_nobody_registered_flows_are_rejected() {
    let mut bench = Bench::new(0);
    assert_eq!(bench.dropped(LEFT, &client(1, SYN).frame()), DropReason::NoTarget);
    assert_eq!(bench.dropped(LEFT, &client(2, 0).udp().frame()), DropReason::NoTarget);
    let counters = bench.counters[0].gateway(GatewayId(0));
    assert_eq!((counters.rejected_flows.get(), counters.rejected_flows_tcp.get()), (2, 1));
}

// R-3, F-10, A-6
#[test]
fn a_packet_of_an_idle_flow_is_reset_if_asked_for_and_dropped_if_not() {
    for aged_by_hand in [false, true] {
        let idle = |bench: &mut Bench| {
            if aged_by_hand {
                bench.pass(350_000);
                assert_eq!((0..4).map(|n| bench.live_flows(n)).sum::<u64>(), 0, "the hand has been there");
            } else {
                bench.now += 350_000;
            }
        };
        let (mut bench, target) = established(|bench| bench.policy.reset_on_idle = true);
        idle(&mut bench);
        assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
        let trigger = ResetTrigger::IdleTimeout.index();
        assert_eq!(bench.counters[0].target(TargetId(target)).resets[trigger].get(), 1);

        let (mut bench, _) = established(|_| {});
        idle(&mut bench);
        assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::ExpiredFlow);
        assert_eq!(bench.outcome(Outcome::Answered), 0);

        let (mut bench, _) = established(|bench| bench.policy.reset_on_idle = true);
        let old = bench.one(LEFT, &data().frame()).1;
        idle(&mut bench);
        let (port, new) = bench.one(LEFT, &client(4000, SYN).frame());
        assert_eq!(port, UNDER, "R-6");
        assert_ne!(cookie(&old), cookie(&new));
        assert_eq!(bench.dropped(UNDER, &answer(&old, None)), DropReason::CookieStale);
        bench.assert_settled();
    }
}

// F-9
#[test]
fn every_packet_of_either_side_restarts_the_idle_timer() {
    let (mut bench, target) = established(|_| {});
    for _ in 0..5 {
        bench.pass(349_000);
        assert_eq!(bench.one(LEFT, &data().frame()).0, UNDER);
        bench.pass(349_000);
        assert_eq!(bench.one(RIGHT, &data().reversed().frame()).0, UNDER);
    }
    assert_eq!(bench.live_flows(target), 1);
}

// R-3, F-8
#[test]
fn a_packet_of_no_flow_is_reset_by_a_6_or_by_unknown_flow() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::UnknownFlow);
    bench.policy.reset_on_idle = true;
    bench.publish();
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    bench.policy.reset_on_idle = false;
    bench.policy.unknown_flow = UnknownFlow::Reset;
    bench.publish();
    assert_eq!(bench.one(RIGHT, &data().reversed().frame()), (RIGHT, reset_for(&data().reversed())));
    let resets = &bench.counters[0].gateway(GatewayId(0)).resets;
    assert_eq!(resets[ResetTrigger::NoFlow.index()].get(), 2);
}

//
#[test]
fn what_must_not_be_answered_is_not() {
    let strict = |bench: &mut Bench| {
        resets(bench);
        bench.policy.reset_on_idle = true;
    };
    let (mut bench, target) = established(strict);
    bench.set_condition(target, Condition::Unhealthy);

    let reset = Segment { flags: RST, ..data() };
    assert_eq!(
        bench.dropped(LEFT, &Segment { ports: (9, 9), ..reset.clone() }.frame()),
        DropReason::UnknownFlow
    );
    let later_fragment = Segment { fragment: 0x0001, ..data() };
    assert_eq!(bench.dropped(LEFT, &later_fragment.frame()), DropReason::FragmentInHeader);
    let mut cut = data().frame();
    cut.truncate(14 + 20 + 12);
    cut[16..18].copy_from_slice(&32u16.to_be_bytes());
    assert_eq!(bench.dropped(LEFT, &cut), DropReason::TransportMalformed);
    let mut bad_checksum = data().frame();
    bad_checksum[24] ^= 0xff;
    assert_eq!(bench.dropped(LEFT, &bad_checksum), DropReason::NotAnswerable);
    let multicast = Segment { dst: "239.1.2.3".parse().unwrap(), ..data() };
    assert_eq!(bench.dropped(LEFT, &multicast.frame()), DropReason::NotAnswerable);
    let from_multicast = Segment { src: "239.1.2.3".parse().unwrap(), ..data() };
    assert_eq!(bench.dropped(LEFT, &from_multicast.frame()), DropReason::Martian);
    let group_frame = Segment { macs: (CLIENT_MAC, [0xff; 6]), ..data() };
    assert_eq!(bench.dropped(LEFT, &group_frame.frame()), DropReason::NotAnswerable);
    assert_eq!(
        bench.live_flows(target),
        1,
        "what could not be answered leaves the entry for its next packet"
    );
    assert_eq!(bench.outcome(Outcome::Answered), 0);

    // The flow's own reset goes to the target and closes the flow.
    assert_eq!(bench.one(LEFT, &reset.frame()).0, UNDER);
    bench.assert_settled();
}

//
#[test]
fn a_first_fragment_is_answered() {
    let (mut bench, target) = established(resets);
    bench.set_condition(target, Condition::Unhealthy);
    let first = Segment { fragment: 0x2000, ..data() };
    assert_eq!(bench.one(LEFT, &first.frame()), (LEFT, reset_for(&data())));
}

// T-6, A-4, A-5
#[test]
fn a_flow_that_failed_open_and_was_moved_is_reset_like_any_other() {
    let mut bench = Bench::new(2);
    rebalance(&mut bench);
    bench.conditions = vec![Condition::Unhealthy; 2];
    bench.publish();
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    let other = 1 - bench.target_of(&out);
    bench.set_condition(other, Condition::Healthy);
    let (_, moved) = bench.one(LEFT, &data().frame());
    assert_eq!(bench.target_of(&moved), other);
    bench.set_condition(other, Condition::Unhealthy);
    bench.policy.failover = Failover::NoRebalance;
    resets(&mut bench);
    bench.publish();
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
}
