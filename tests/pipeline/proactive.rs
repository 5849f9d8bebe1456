//! both ends of silent flows are told that their target is out, without having sent anything.

use flowgate::datapath::counters::{DropReason, Outcome, ResetTrigger};
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::messages::FromWorker;
use flowgate::id::{GatewayId, Millis, TargetId};
use flowgate::io::PacketBuf;

use crate::failover::{established, reset_for, resets};
use crate::harness::*;

pub fn proactive(bench: &mut Bench) {
    resets(bench);
    bench.policy.proactive = true;
}

pub fn told(bench: &Bench) -> u64 {
    let trigger = ResetTrigger::Proactive.index();
    bench.counters.iter().map(|all| all.gateway(GatewayId(0)).resets[trigger].get()).sum()
}

/// Client and server open a connection from this client port, with nothing said yet.
pub fn connect(bench: &mut Bench, port: u16) -> u16 {
    let out = bench.one(LEFT, &client(port, SYN).frame()).1;
    let target = bench.target_of(&out);
    bench.one(
        RIGHT,
        &Segment { ack: 1001, seq: 1999, flags: SYN | ACK, ..client(port, 0).reversed() }.frame(),
    );
    bench.one(LEFT, &Segment { seq: 1001, ack: 2000, ..client(port, ACK) }.frame());
    target
}

/// All that came out, the client's first.
fn sorted(mut out: Vec<(usize, Vec<u8>)>) -> Vec<(usize, Vec<u8>)> {
    out.sort();
    out
}

// C-1
#[test]
fn both_ends_are_told_from_their_own_last_acknowledgements() {
    for (workers, six, vlans) in
        [(1, false, vec![]), (1, true, vec![0x2007]), (2, false, vec![7, 8]), (4, true, vec![])]
    {
        let dress = |segment: Segment| {
            let segment = Segment { vlans: vlans.clone(), ..segment };
            if six { segment.over_ipv6() } else { segment }
        };
        let mut bench = Bench::with(4, workers, 1024);
        proactive(&mut bench);
        bench.publish();
        let out = bench.one(LEFT, &dress(client(4000, SYN)).frame()).1;
        let target = bench.target_of(&out);
        bench.one(RIGHT, &dress(client(4000, SYN | ACK).reversed()).frame());
        bench.one(LEFT, &dress(client(4000, ACK)).frame());
        // 400 bytes one way, 9 the other, each acknowledged: what each end expects next.
        let request =
            dress(Segment { seq: 1001, ack: 2000, ..client(4000, ACK | PSH) }.with_payload(&[1; 400]));
        bench.one(LEFT, &request.frame());
        let response = dress(
            Segment { seq: 2000, ack: 1401, ..client(4000, ACK | PSH).reversed() }.with_payload(b"response."),
        );
        bench.one(RIGHT, &response.frame());
        let last = dress(Segment { seq: 1401, ack: 2009, ..client(4000, ACK) });
        bench.one(LEFT, &last.frame());
        let received: u64 = bench.counters.iter().map(|all| all.received.get()).sum();

        bench.set_condition(target, Condition::Unhealthy);
        let out = sorted(bench.take());
        assert_eq!(out, [(LEFT, reset_for(&last)), (RIGHT, reset_for(&response))]);
        assert_eq!((told(&bench), bench.outcome(Outcome::Answered)), (2, 0));
        let of_target = ResetTrigger::Proactive.index();
        let of_target: u64 =
            bench.counters.iter().map(|all| all.target(TargetId(target)).resets[of_target].get()).sum();
        assert_eq!((of_target, bench.live_flows(target)), (2, 0));
        let ports = bench.told.iter().filter_map(|told| match told {
            FromWorker::Reset(record) => Some((record.trigger, record.to.1, record.from.1)),
            _ => None,
        });
        let mut ports: Vec<_> = ports.collect();
        ports.sort_by_key(|(_, to, _)| *to);
        assert_eq!(ports, [(ResetTrigger::Proactive, 80, 4000), (ResetTrigger::Proactive, 4000, 80)]);
        assert_eq!(received, bench.counters.iter().map(|all| all.received.get()).sum::<u64>());
        bench.assert_settled();
    }
}

// R-10, F-13: more targets than a worker looks at in one round.
#[test]
fn the_last_of_many_targets_is_not_forgotten() {
    let mut bench = Bench::new(100);
    proactive(&mut bench);
    bench.publish();
    let last = (4000..).find(|port| connect(&mut bench, *port) > 90).unwrap();
    let target = connect(&mut bench, last);
    assert!(target > 90);
    bench.set_condition(0, Condition::Unhealthy);
    bench.take();
    let before = told(&bench);
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.take().len(), 2);
    assert_eq!(told(&bench), before + 2);
}

// off by default.
#[test]
fn by_default_nobody_is_told_unasked() {
    let (mut bench, target) = established(resets);
    for condition in [Condition::Unhealthy, Condition::Removed] {
        bench.set_condition(target, condition);
        bench.publish();
        bench.pass(1000);
        assert_eq!(bench.take(), []);
    }
    assert_eq!(bench.live_flows(target), 1);
}

//
#[test]
fn a_server_that_has_said_nothing_but_syn_ack_is_told_from_what_it_was_sent() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.set_condition(target, Condition::Unhealthy);
    let client_side = Segment { seq: 1001, ack: 2000, ..client(4000, ACK) };
    let server_side = Segment { seq: 2000, ack: 1001, ..client(4000, ACK).reversed() };
    assert_eq!(sorted(bench.take()), [(LEFT, reset_for(&client_side)), (RIGHT, reset_for(&server_side))]);
}

//
#[test]
fn a_drains_end_tells_them_and_a_drain_does_not() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.set_condition(target, Condition::Draining);
    bench.publish();
    bench.pass(1000);
    assert_eq!(bench.take(), []);
    bench.conditions[usize::from(target)] = Condition::Removed;
    bench.publish();
    assert_eq!(bench.take().len(), 2);
    assert_eq!(told(&bench), 2);
}

// a reset that was lost, or that came while data was on its way, is made good.
#[test]
fn whoever_sends_all_the_same_is_answered() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.take().len(), 2);
    for (port, segment) in [
        (LEFT, Segment { ack: 2500, ..client(4000, ACK) }),
        (RIGHT, Segment { ack: 1001, ..client(4000, ACK).reversed() }),
    ] {
        assert_eq!(bench.one(port, &segment.frame()), (port, reset_for(&segment)));
        assert_eq!(bench.dropped(port, &segment.frame()), DropReason::UnknownFlow, "once");
    }
    assert_eq!(bench.counters[0].flow_entries.get(), 0);
    bench.assert_settled();
}

//
#[test]
fn a_client_that_comes_back_from_the_same_port_is_not_disturbed() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.take().len(), 2);
    let again = connect(&mut bench, 4000);
    assert_ne!(again, target);
    assert_eq!(bench.one(RIGHT, &client(4000, ACK).reversed().frame()).0, UNDER);
    assert_eq!(bench.live_flows(again), 1);
}

// the port was used again on the same entry (F-14), so what is known of the old connection is not
// what the new one expects.
#[test]
fn acknowledgements_of_a_connection_before_are_forgotten() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.one(LEFT, &Segment { seq: 500_000, ..client(4000, SYN) }.frame());
    bench.set_condition(target, Condition::Unhealthy);
    bench.pass(1000);
    assert_eq!(bench.take(), [], "nobody can be told");
    assert_eq!(bench.live_flows(target), 1, "so the flow waits for its next packet");
    let late = client(4000, ACK | PSH).with_payload(b"late");
    assert_eq!(bench.one(LEFT, &late.frame()), (LEFT, reset_for(&late)));
}

//
#[test]
fn nobody_is_told_at_a_group_address() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let group = |flags| Segment { dst: "239.1.2.3".parse().unwrap(), ..client(4000, flags) };
    let out = bench.one(LEFT, &group(SYN).frame()).1;
    let target = bench.target_of(&out);
    bench.one(LEFT, &group(ACK).frame());
    bench.set_condition(target, Condition::Unhealthy);
    bench.pass(1000);
    assert_eq!(bench.take(), []);
}

// R-10, T-6
#[test]
fn with_nobody_healthy_they_wait_until_somebody_is() {
    let mut bench = Bench::new(2);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    for n in [1 - target, target] {
        bench.set_condition(n, Condition::Unhealthy);
    }
    bench.pass(1000);
    assert_eq!(bench.take(), []);
    bench.set_condition(1 - target, Condition::Healthy);
    assert_eq!(bench.take().len(), 2);
}

/// A bench with so many established flows, over all targets.
fn crowd(workers: u8, flows: u16) -> Bench {
    let mut bench = Bench::with(4, workers, 16_384);
    proactive(&mut bench);
    bench.publish();
    for port in 1000..1000 + flows {
        connect(&mut bench, port);
    }
    bench
}

/// One round of each worker; what each sent.
fn round(bench: &mut Bench) -> Vec<usize> {
    let now = bench.now;
    let each = bench.workers.iter_mut().map(|worker| {
        worker.round(Millis(now), u64::from(now));
        worker.ports_mut().iter_mut().map(|port| port.sent.drain(..).count()).sum()
    });
    each.collect()
}

// R-10, F-13
#[test]
fn ten_thousand_flows_are_told_a_bounded_number_a_round() {
    for workers in [1, 2, 4] {
        let mut bench = crowd(workers, 10_000);
        let doomed = bench.live_flows(2);
        let others = 10_000 - doomed;
        bench.send_condition(2, Condition::Unhealthy);
        let (mut sent, mut rounds) = (0, 0);
        while bench.live_flows(2) > 0 {
            for by_worker in round(&mut bench) {
                assert!(by_worker <= 32, "{by_worker} in one round");
                sent += by_worker as u64;
            }
            rounds += 1;
            assert!(rounds < 1000, "it does not end");
        }
        assert_eq!((sent, told(&bench)), (2 * doomed, 2 * doomed));
        assert_eq!((0..4).map(|n| bench.live_flows(n)).sum::<u64>(), others, "nobody else's");
        for _ in 0..1000 {
            assert!(round(&mut bench).iter().all(|sent| *sent == 0), "each once");
        }
        bench.assert_settled();
    }
}

// R-10, T-5
#[test]
fn a_target_that_recovers_in_the_midst_keeps_the_flows_that_were_not_told_yet() {
    let mut bench = crowd(1, 5_000);
    let before = bench.live_flows(1);
    bench.send_condition(1, Condition::Unhealthy);
    for _ in 0..60 {
        round(&mut bench);
    }
    bench.send_condition(1, Condition::Healthy);
    round(&mut bench);
    let left = bench.live_flows(1);
    assert!(0 < left && left < before, "{left} of {before}");
    bench.pass(1000);
    assert_eq!((bench.live_flows(1), told(&bench)), (left, 2 * (before - left)));
}

//
#[test]
fn targets_that_fail_in_the_midst_and_new_forwarding_states_are_seen_to() {
    let mut bench = crowd(2, 5_000);
    let doomed = bench.live_flows(0) + bench.live_flows(1) + bench.live_flows(3);
    bench.send_condition(0, Condition::Unhealthy);
    for _ in 0..30 {
        round(&mut bench);
    }
    bench.send_condition(1, Condition::Unhealthy);
    for _ in 0..30 {
        round(&mut bench);
    }
    bench.conditions[3] = Condition::Removed;
    bench.publish();
    bench.pass(0);
    bench.pass(0);
    assert_eq!(told(&bench), 2 * doomed);
    assert_eq!((bench.live_flows(0), bench.live_flows(1), bench.live_flows(3)), (0, 0, 0));

    // Turned off in the midst: that is the end of it.
    bench.send_condition(2, Condition::Unhealthy);
    bench.send_condition(0, Condition::Healthy);
    for _ in 0..30 {
        round(&mut bench);
    }
    bench.policy.proactive = false;
    bench.publish();
    let left = bench.live_flows(2);
    assert!(left > 0);
    bench.pass(1000);
    assert_eq!(bench.live_flows(2), left);
}

//
#[test]
fn turning_it_on_tells_the_flows_of_targets_that_are_out_already() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.policy.reset_on_unhealthy = false;
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.set_condition(target, Condition::Unhealthy);
    bench.pass(1000);
    assert_eq!(bench.take(), []);
    bench.policy.reset_on_unhealthy = true;
    bench.publish();
    assert_eq!(bench.take().len(), 2);
}

// the server's answers take another way (F-9), so nobody knows how to reach it from here.
#[test]
fn an_end_that_was_never_heard_is_not_told_but_answered_should_it_send() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let out = bench.one(LEFT, &client(4000, SYN).frame()).1;
    let target = bench.target_of(&out);
    bench.one(LEFT, &client(4000, ACK).frame());
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.take(), [(LEFT, reset_for(&client(4000, ACK)))]);
    let reply = client(4000, ACK).reversed();
    assert_eq!(bench.one(RIGHT, &reply.frame()), (RIGHT, reset_for(&reply)));
}

// R-10, C-1
#[test]
fn what_the_port_does_not_take_is_counted_and_made_good_by_the_next_packet() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.workers[0].ports_mut()[LEFT].room = Some(0);
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.take().len(), 1);
    assert_eq!((told(&bench), bench.counters[0].resets_unsent.get()), (1, 1));
    bench.assert_settled();
    bench.workers[0].ports_mut()[LEFT].room = None;
    let next = client(4000, ACK);
    assert_eq!(bench.one(LEFT, &next.frame()), (LEFT, reset_for(&next)));
}

//
#[test]
fn other_protocols_and_half_open_flows_are_left_alone() {
    let mut bench = Bench::new(1);
    proactive(&mut bench);
    bench.targets = 2;
    bench.conditions.push(Condition::Unhealthy);
    bench.publish();
    bench.one(LEFT, &client(53, 0).udp().frame());
    bench.one(LEFT, &client(4001, SYN).frame());
    bench.set_condition(1, Condition::Healthy);
    bench.set_condition(0, Condition::Unhealthy);
    bench.pass(1000);
    assert_eq!((bench.take(), bench.live_flows(0)), (vec![], 2));
}

/// What a port sent, read back: nothing longer than the frame that it should be.
//
#[test]
fn a_told_frame_is_no_longer_than_its_packet() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.send_condition(target, Condition::Unhealthy);
    bench.workers[0].round(Millis(bench.now), 0);
    for port in [LEFT, RIGHT] {
        assert_eq!(bench.workers[0].ports_mut()[port].sent[0].bytes().len(), 14 + 40);
    }
}
