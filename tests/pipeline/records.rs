//! What failover records are made of, as the workers tell it: flows ended by a reset, resets held back, the last
//! packet that a target returned, flows that begin, and since when a configuration is gone by.

use flowgate::datapath::counters::Suppressed;
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::messages::{BegunRecord, FromWorker, ToWorker};
use flowgate::id::{EndpointId, TargetId};

use crate::failover::{data, established, resets};
use crate::harness::*;
use crate::proactive::{connect, proactive};

fn reset_flows(bench: &Bench, target: u16) -> u64 {
    bench.counters.iter().map(|all| all.troubles(TargetId(target)).reset_flows.get()).sum()
}

fn last_back(bench: &Bench, target: u16) -> u64 {
    bench.counters.iter().map(|all| all.target(TargetId(target)).last_back.get()).max().unwrap()
}

//
#[test]
fn a_flow_that_a_reset_ends_is_counted_once_at_its_target_and_no_other_is() {
    let (mut bench, target) = established(|bench| {
        resets(bench);
        bench.policy.both_ends = true;
        bench.policy.reset_on_idle = true;
    });
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(reset_flows(&bench, target), 0);
    assert_eq!(bench.one(LEFT, &data().frame()).0, LEFT);
    // The other end is told too, of the same flow.
    assert_eq!(bench.one(RIGHT, &data().reversed().frame()).0, RIGHT);
    assert_eq!(reset_flows(&bench, target), 1);
    // Of no flow.
    assert_eq!(bench.one(LEFT, &client(4999, ACK).frame()).0, LEFT);
    let all: u64 = (0..4).map(|target| reset_flows(&bench, target)).sum();
    assert_eq!(all, 1);
    bench.assert_settled();
}

//
#[test]
fn a_flow_of_a_target_that_is_removed_is_counted_when_it_is_reset() {
    let (mut bench, target) = established(resets);
    bench.set_condition(target, Condition::Removed);
    bench.one(LEFT, &data().frame());
    assert_eq!(reset_flows(&bench, target), 1);
}

//
#[test]
fn a_flow_both_of_whose_ends_are_told_unasked_is_one() {
    let mut bench = Bench::new(4);
    proactive(&mut bench);
    bench.publish();
    let target = connect(&mut bench, 4000);
    bench.set_condition(target, Condition::Unhealthy);
    bench.pass(50);
    assert_eq!(bench.take().len(), 2);
    assert_eq!(reset_flows(&bench, target), 1);
}

//
#[test]
fn a_reset_that_is_held_back_is_counted_at_its_target() {
    let (mut bench, target) = established(|bench| {
        resets(bench);
        bench.policy.guards.hold_ms = 500;
    });
    bench.set_condition(target, Condition::Unhealthy);
    bench.one(LEFT, &data().frame());
    let held =
        |target: u16| bench.counters[0].troubles(TargetId(target)).suppressed[Suppressed::Hold.index()].get();
    assert_eq!((held(target), held(3 - target), reset_flows(&bench, target)), (1, 0, 0));
}

//
#[test]
fn the_last_packet_that_a_target_returned_is_stamped_with_its_round() {
    let mut bench = Bench::new(4);
    bench.publish();
    let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
    let target = bench.target_of(&out);
    assert_eq!(last_back(&bench, target), 0, "it was sent something, and has returned nothing");
    for ms in [7, 13] {
        bench.now += ms;
        assert_eq!(bench.one(UNDER, &answer(&out, None)).0, RIGHT);
        assert_eq!(last_back(&bench, target), u64::from(bench.now));
    }
    // What is dropped was not returned.
    bench.now += 1;
    let mut stale = answer(&out, None);
    let cookie = stale.len() - inner(&stale).len() - 4;
    stale[cookie] ^= 1;
    bench.dropped(UNDER, &stale);
    assert_eq!(last_back(&bench, target), u64::from(bench.now) - 1);
}

#[test]
fn flows_that_begin_are_told_while_it_is_asked_for_tcp_alone() {
    for fast in [true, false] {
        let mut bench = Bench::new(4);
        bench.publish();
        if !fast {
            bench.workers.iter_mut().for_each(|worker| worker.without_fast_path());
        }
        bench.one(LEFT, &client(3999, SYN).frame());
        bench.tell(|| ToWorker::TellBegun(true));
        bench.told.clear();
        bench.now += 5;
        let (_, out) = bench.one(LEFT, &client(4000, SYN).frame());
        let target = TargetId(bench.target_of(&out));
        bench.one(LEFT, &client(4001, 0).udp().frame());
        bench.one(LEFT, &client(4000, ACK).frame());
        let begun = FromWorker::Begun(BegunRecord {
            endpoint: EndpointId(0),
            initiator: (CLIENT.parse().unwrap(), 4000),
            responder: (SERVER.parse().unwrap(), client(0, 0).ports.1),
            target,
            at_cycles: bench.now.into(),
        });
        assert_eq!(format!("{:?}", bench.told), format!("{:?}", [begun]), "fast: {fast}");
        bench.tell(|| ToWorker::TellBegun(false));
        bench.told.clear();
        bench.one(LEFT, &client(4002, SYN).frame());
        assert!(bench.told.is_empty());
    }
}

// H-7
#[test]
fn since_when_a_configuration_is_gone_by_is_told_and_the_same_one_again_changes_nothing() {
    let mut bench = Bench::new(1);
    for (configuration, now, expected) in [(5, 10, 10), (5, 20, 10), (6, 30, 30)] {
        bench.now = now;
        bench.publish_but(|forwarding| forwarding.configuration = configuration);
        let counters = &bench.counters[0];
        assert_eq!(
            (counters.configuration.get(), counters.configuration_since.get()),
            (configuration, expected)
        );
    }
}
