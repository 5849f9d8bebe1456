//! what holds resets back, what becomes of the packets then, and how it is counted.

use flowgate::datapath::counters::{DropReason, Outcome, ResetTrigger, Suppressed};
use flowgate::datapath::forwarding::{Condition, UnknownFlow};
use flowgate::id::GatewayId;

use crate::failover::{data, established, reset_for, resets};
use crate::harness::*;
use crate::proactive::{connect, proactive, told};

fn suppressed(bench: &Bench) -> [u64; 4] {
    let all = |why: Suppressed| -> u64 {
        bench.counters.iter().map(|all| all.gateway(GatewayId(0)).suppressed[why.index()].get()).sum()
    };
    [Suppressed::Hold, Suppressed::MinHealthy, Suppressed::Rate, Suppressed::NoFlowRate].map(all)
}

fn counted(bench: &Bench, trigger: ResetTrigger) -> u64 {
    bench.counters.iter().map(|all| all.gateway(GatewayId(0)).resets[trigger.index()].get()).sum()
}

//
#[test]
fn a_held_back_flow_goes_on_to_its_target_until_the_hold_is_over() {
    let (mut bench, target) = established(|bench| {
        resets(bench);
        bench.policy.guards.hold_ms = 500;
    });
    let before = bench.one(LEFT, &data().frame()).1;
    bench.set_condition(target, Condition::Unhealthy);
    for _ in 0..2 {
        let (port, out) = bench.one(LEFT, &data().frame());
        assert_eq!((port, bench.target_of(&out), cookie(&out)), (UNDER, target, cookie(&before)));
        bench.now += 249;
    }
    bench.now += 1;
    assert_eq!(bench.one(LEFT, &data().frame()).0, UNDER, "499 ms");
    bench.now += 1;
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    assert_eq!(suppressed(&bench), [3, 0, 0, 0]);
    bench.assert_settled();
}

// R-11, T-5
#[test]
fn a_target_that_flaps_is_never_unhealthy_for_long_enough() {
    let (mut bench, target) = established(|bench| {
        proactive(bench);
        bench.policy.guards.hold_ms = 500;
    });
    bench.one(LEFT, &data().frame());
    for _ in 0..20 {
        bench.set_condition(target, Condition::Unhealthy);
        for _ in 0..4 {
            bench.pass(100);
            assert_eq!(bench.one(LEFT, &data().frame()).0, UNDER);
        }
        bench.set_condition(target, Condition::Healthy);
        bench.pass(100);
    }
    assert_eq!((suppressed(&bench), bench.outcome(Outcome::Answered), told(&bench)), ([80, 0, 0, 0], 0, 0));
}

//
#[test]
fn a_new_forwarding_state_does_not_begin_the_hold_anew() {
    let (mut bench, target) = established(|bench| {
        resets(bench);
        bench.policy.guards.hold_ms = 500;
    });
    bench.set_condition(target, Condition::Unhealthy);
    bench.now += 300;
    bench.publish();
    bench.now += 200;
    bench.publish();
    assert_eq!(bench.one(LEFT, &data().frame()).0, LEFT);
}

// no time is kept so long that it would seem to lie ahead (the clock wraps after 49.7 days).
#[test]
fn a_target_that_was_unhealthy_for_a_month_is_not_held() {
    const DAY: u32 = 24 * 3_600_000;
    let mut bench = Bench::new(2);
    resets(&mut bench);
    bench.policy.guards.hold_ms = 3_600_000;
    bench.publish();
    for n in 0..2 {
        bench.set_condition(n, Condition::Unhealthy);
    }
    bench.now = bench.now.wrapping_add(DAY);
    for _ in 0..70 {
        bench.pass(0); // 256 rounds, each of which looks at one target of 16,384.
    }
    bench.now = bench.now.wrapping_add(29 * DAY);
    bench.rounds();
    let target = connect(&mut bench, 4000);
    bench.set_condition(1 - target, Condition::Healthy);
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    assert_eq!(suppressed(&bench), [0, 0, 0, 0]);
}

//
#[test]
fn silent_flows_are_told_when_the_hold_is_over_without_any_message() {
    for workers in [1, 2, 4] {
        let mut bench = Bench::with(4, workers, 1024);
        proactive(&mut bench);
        bench.policy.guards.hold_ms = 500;
        bench.publish();
        let targets: Vec<u16> = (4000..4020).map(|port| connect(&mut bench, port)).collect();
        let (first, second) = (0, 1);
        let of = |target| targets.iter().filter(|at| **at == target).count();
        bench.set_condition(first, Condition::Unhealthy);
        bench.pass(300);
        bench.set_condition(second, Condition::Unhealthy);
        bench.pass(199);
        assert_eq!(bench.take(), []);
        bench.pass(1);
        assert_eq!(bench.take().len(), 2 * of(first));
        bench.pass(299);
        assert_eq!(bench.take(), []);
        bench.pass(1);
        assert_eq!(bench.take().len(), 2 * of(second));
        assert_eq!(suppressed(&bench), [0, 0, 0, 0], "what only waits is not suppressed");
    }
}

//
#[test]
fn while_too_few_are_healthy_it_is_the_checks_fault_and_nobody_is_reset() {
    let (mut bench, target) = established(|bench| {
        proactive(bench);
        bench.policy.guards.min_healthy_percent = 50;
    });
    bench.one(LEFT, &data().frame());
    let others: Vec<u16> = (0..4).filter(|n| *n != target).collect();
    bench.set_condition(others[0], Condition::Unhealthy);
    bench.set_condition(others[1], Condition::Unhealthy);
    bench.set_condition(target, Condition::Unhealthy);
    assert_eq!(bench.one(LEFT, &data().frame()).0, UNDER, "25 % are healthy");
    assert_eq!((suppressed(&bench), told(&bench)), ([0, 1, 0, 0], 0));
    bench.set_condition(others[0], Condition::Healthy);
    assert_eq!(bench.take().len(), 2, "50 % are: the silent flow is told");

    // R-2 is no check's fault.
    let (mut bench, target) = established(|bench| {
        resets(bench);
        bench.policy.guards.min_healthy_percent = 100;
    });
    bench.set_condition(target, Condition::Removed);
    bench.set_condition((target + 1) % 4, Condition::Unhealthy);
    bench.publish();
    assert_eq!(bench.one(LEFT, &data().frame()).0, LEFT);
}

//
#[test]
fn so_many_resets_in_a_second_over_all_workers() {
    for workers in [1, 2, 4] {
        let mut bench = Bench::with(1, workers, 4096);
        resets(&mut bench);
        bench.policy.guards.max_per_second = 100;
        bench.targets = 2;
        bench.conditions.push(Condition::Unhealthy);
        bench.publish();
        let ports = 1000..2000;
        for port in ports.clone() {
            bench.one(LEFT, &client(port, SYN).frame());
            bench.one(LEFT, &client(port, ACK).frame());
        }
        bench.set_condition(1, Condition::Healthy);
        bench.set_condition(0, Condition::Unhealthy);
        // Every flow sends every 250 ms: a second's worth of resets in every second, evenly.
        let mut alive: Vec<u16> = ports.collect();
        for second in 1..=3 {
            let before = counted(&bench, ResetTrigger::Unhealthy);
            for ms in 0..1000 {
                bench.now += 1;
                let due: Vec<u16> =
                    alive.iter().copied().filter(|port| usize::from(*port) % 250 == ms % 250).collect();
                for port in due {
                    let (by, _) = bench.one(LEFT, &client(port, ACK).frame());
                    alive.retain(|other| by == UNDER || *other != port);
                }
            }
            let sent = counted(&bench, ResetTrigger::Unhealthy) - before;
            let slack = 2 * u64::from(workers);
            assert!((90..=100 + slack).contains(&sent), "{sent} in second {second} of {workers} workers");
        }
        let sent = counted(&bench, ResetTrigger::Unhealthy);
        assert_eq!((bench.live_flows(0), alive.len() as u64), (1000 - sent, 1000 - sent));
        let [hold, min_healthy, rate, _] = suppressed(&bench);
        assert!(hold == 0 && min_healthy == 0 && rate > 2000, "{rate} suppressed");
        bench.assert_settled();
    }
}

//
#[test]
fn silent_flows_are_told_no_faster_than_the_rate() {
    for workers in [1, 4] {
        let mut bench = Bench::with(4, workers, 4096);
        proactive(&mut bench);
        bench.policy.guards.max_per_second = 200;
        bench.publish();
        for port in 1000..1400 {
            connect(&mut bench, port);
        }
        let doomed = bench.live_flows(0);
        bench.set_condition(0, Condition::Unhealthy);
        for _ in 0..500 {
            bench.now += 1;
            bench.rounds();
        }
        let half = told(&bench);
        assert!((60..=100 + 2 * u64::from(workers)).contains(&half), "{half} in half a second");
        for _ in 0..2000 {
            bench.now += 1;
            bench.rounds();
        }
        assert_eq!((told(&bench), bench.live_flows(0)), (2 * doomed, 0), "all of them in the end");
        assert_eq!(suppressed(&bench), [0, 0, 0, 0], "what only waits is not suppressed");
        assert_eq!(bench.take().len() as u64, 2 * doomed);
    }
}

//
#[test]
fn a_suppressed_reset_of_an_idle_flow_is_a_drop_and_the_flow_is_still_remembered() {
    let (mut bench, _) = established(|bench| {
        bench.policy.reset_on_idle = true;
        bench.policy.no_flow_resets_per_second = 1;
    });
    bench.now += 350_000;
    // Two of no flow use up what there is.
    for port in [9, 10] {
        assert_eq!(bench.one(LEFT, &client(port, ACK).frame()).0, LEFT);
    }
    assert_eq!(bench.dropped(LEFT, &client(11, ACK).frame()), DropReason::ResetSuppressed);
    assert_eq!(bench.dropped(LEFT, &data().frame()), DropReason::ResetSuppressed);
    assert_eq!((suppressed(&bench), bench.counters[0].flow_entries.get()), ([0, 0, 0, 2], 1));
    bench.now += 1000;
    assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
    assert_eq!(counted(&bench, ResetTrigger::IdleTimeout), 1, "known for what it was");
    bench.assert_settled();
}

//
#[test]
fn a_debt_waits_for_the_rate() {
    let (mut bench, target) = established(|bench| {
        resets(bench);
        bench.policy.both_ends = true;
        bench.policy.guards.max_per_second = 1;
    });
    connect(&mut bench, 9);
    bench.set_condition(target, Condition::Unhealthy);
    bench.set_condition((target + 1) % 4, Condition::Unhealthy);
    bench.set_condition((target + 2) % 4, Condition::Unhealthy);
    bench.set_condition((target + 3) % 4, Condition::Unhealthy);
    bench.one(LEFT, &data().frame());
    bench.one(LEFT, &client(9, ACK).frame());
    let reply = data().reversed();
    assert_eq!(bench.dropped(RIGHT, &reply.frame()), DropReason::ResetSuppressed);
    bench.now += 1000;
    assert_eq!(bench.one(RIGHT, &reply.frame()), (RIGHT, reset_for(&reply)));
    bench.assert_settled();
}

/// One packet of no flow each from so many ports, ten in a millisecond; how many were answered.
fn flood_of_no_flow(bench: &mut Bench, ports: std::ops::Range<u16>) -> usize {
    let answered = ports.filter(|port| {
        bench.now += u32::from(port % 10 == 0);
        !bench.put(LEFT, &client(*port, ACK).frame()).is_empty()
    });
    answered.count()
}

// F-8
#[test]
fn a_flood_of_no_flow_is_answered_within_bounds_by_default_and_takes_no_reset_from_a_failover() {
    for (workers, unknown_flow) in [(1, UnknownFlow::Reset), (4, UnknownFlow::Reset), (1, UnknownFlow::Drop)]
    {
        let mut bench = Bench::with(2, workers, 1024);
        resets(&mut bench);
        bench.policy.unknown_flow = unknown_flow;
        bench.policy.reset_on_idle = unknown_flow == UnknownFlow::Drop;
        bench.policy.guards.max_per_second = 1;
        bench.publish();
        let target = connect(&mut bench, 4000);
        bench.set_condition(target, Condition::Unhealthy);
        // 500 ms.
        let answered = flood_of_no_flow(&mut bench, 10_000..15_000);
        let slack = 2 * usize::from(workers);
        assert!((490..=500 + slack).contains(&answered), "{answered} with {workers} workers");
        let held = 5000 - answered as u64;
        assert_eq!(suppressed(&bench), [0, 0, 0, held]);
        let drops: u64 =
            bench.counters.iter().map(|all| all.drops[DropReason::ResetSuppressed.index()].get()).sum();
        assert_eq!(drops, held, "what is not answered is dropped (C-1)");
        // The failover has all of its allowance.
        assert_eq!(bench.one(LEFT, &data().frame()), (LEFT, reset_for(&data())));
        assert_eq!(counted(&bench, ResetTrigger::Unhealthy), 1);
        bench.assert_settled();
    }
}

// an operator may have it otherwise.
#[test]
fn without_a_limit_every_packet_of_no_flow_is_answered() {
    let mut bench = Bench::new(2);
    bench.policy.unknown_flow = UnknownFlow::Reset;
    bench.policy.no_flow_resets_per_second = 0;
    bench.publish();
    assert_eq!(flood_of_no_flow(&mut bench, 10_000..12_000), 2000);
}
