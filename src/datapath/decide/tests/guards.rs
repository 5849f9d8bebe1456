//! R-11 as a table: which resets are held back, why, and what becomes of the packet then.

use super::super::super::forwarding::ResetGuards;
use super::*;

fn guarded(guards: ResetGuards) -> Policy {
    Policy { guards, proactive: true, reset_on_idle: true, both_ends: true, ..resets() }
}

/// What becomes of a packet whose flow's target has been unhealthy for so long, with so many of a hundred
/// healthy.
fn ask(packet: Facts, flow: FlowFacts, guards: ResetGuards, healthy_percent: u8, may_reset: bool) -> Verdict {
    let (policy, timers) = (guarded(guards), Timers::default());
    let around = Surroundings { healthy_percent, may_reset, ..around(&policy, &timers, true) };
    decide(&packet, Some(&flow), &around)
}

fn held(verdict: Verdict) -> Option<Suppressed> {
    match verdict {
        Verdict::Held(why, Some(update)) => {
            assert_eq!((update.state, update.debts), (FlowState::Established, Debts::NONE), "it goes on");
            Some(why)
        }
        Verdict::Reset(..) => None,
        other => panic!("{other:?}"),
    }
}

//
#[test]
fn a_flow_is_not_reset_before_its_target_was_unhealthy_for_long_enough() {
    let guards = ResetGuards { hold_ms: 500, ..ResetGuards::default() };
    let since = |unhealthy_for| FlowFacts { unhealthy_for, ..flow(Unhealthy) };
    assert_eq!(held(ask(data(), since(0), guards, 50, true)), Some(Suppressed::Hold));
    assert_eq!(held(ask(data(), since(499), guards, 50, true)), Some(Suppressed::Hold));
    assert_eq!(held(ask(data(), since(500), guards, 50, true)), None);
    assert_eq!(held(ask(data(), since(u32::MAX), guards, 50, true)), None);
}

//
#[test]
fn a_flow_is_not_reset_while_too_few_targets_are_healthy() {
    let guards = ResetGuards { min_healthy_percent: 50, ..ResetGuards::default() };
    assert_eq!(held(ask(data(), flow(Unhealthy), guards, 49, true)), Some(Suppressed::MinHealthy));
    assert_eq!(held(ask(data(), flow(Unhealthy), guards, 50, true)), None);
}

//
#[test]
fn hold_and_min_healthy_are_for_the_unhealthy_alone() {
    let guards = ResetGuards { hold_ms: 500, min_healthy_percent: 100, max_per_second: 0 };
    let gone = FlowFacts { unhealthy_for: 0, ..flow(Removed) };
    assert_eq!(held(ask(data(), gone, guards, 0, true)), None);
    for state in [FlowState::Expired, FlowState::Owing] {
        let flow = FlowFacts { state, debts: Debts::BOTH, ..gone };
        assert!(matches!(ask(data(), flow, guards, 0, true), Verdict::Reset(..)), "{state:?}");
    }
}

//
#[test]
fn the_rate_holds_back_every_reset_and_what_has_no_target_is_dropped() {
    let guards = ResetGuards { max_per_second: 1, ..ResetGuards::default() };
    for condition in [Unhealthy, Removed] {
        assert_eq!(held(ask(data(), flow(condition), guards, 50, false)), Some(Suppressed::Rate));
    }
    let owing = FlowFacts { state: FlowState::Owing, debts: Debts::BOTH, ..flow(Healthy) };
    assert_eq!(ask(data(), owing, guards, 50, false), Verdict::Held(Suppressed::Rate, None));
}

//
#[test]
fn what_is_of_no_live_flow_has_a_rate_of_its_own() {
    let (policy, timers) = (guarded(ResetGuards::default()), Timers::default());
    let expired = FlowFacts { state: FlowState::Expired, ..flow(Healthy) };
    let told = FlowFacts { state: FlowState::Owing, ..flow(Healthy) };
    let owing = FlowFacts { debts: Debts::BOTH, ..told };
    let spent = Surroundings { may_reset_no_flow: false, ..around(&policy, &timers, true) };
    let others_spent = Surroundings { may_reset: false, ..around(&policy, &timers, true) };
    for (what, of_none) in [("none", None), ("expired", Some(&expired)), ("told", Some(&told))] {
        assert_eq!(decide(&data(), of_none, &spent), Verdict::Held(Suppressed::NoFlowRate, None), "{what}");
        assert!(matches!(decide(&data(), of_none, &others_spent), Verdict::Reset(..)), "{what}");
    }
    for of_flow in [owing, flow(Unhealthy)] {
        assert!(matches!(decide(&data(), Some(&of_flow), &spent), Verdict::Reset(..)));
    }
}

//
#[test]
fn what_would_not_be_reset_is_not_held_back() {
    let guards = ResetGuards { hold_ms: 500, min_healthy_percent: 100, max_per_second: 1 };
    let out = FlowFacts { unhealthy_for: 0, ..flow(Unhealthy) };
    assert!(stays(ask(data(), flow(Healthy), guards, 0, false)));
    assert!(stays(ask(rst(), out, guards, 0, false)));
    assert_eq!(ask(syn(), out, guards, 0, false), NEW);
}

//
#[test]
fn silent_flows_wait_for_every_guard() {
    let timers = Timers::default();
    let found = |guards, flow: FlowFacts, healthy_percent, may_reset| {
        let policy = guarded(guards);
        let around = Surroundings { healthy_percent, may_reset, ..around(&policy, &timers, true) };
        unasked(&flow, &around)
    };
    let guards = ResetGuards { hold_ms: 500, min_healthy_percent: 40, max_per_second: 0 };
    let early = FlowFacts { unhealthy_for: 499, ..flow(Unhealthy) };
    assert_eq!(found(guards, early, 50, true), Unasked::Held(Suppressed::Hold));
    assert_eq!(found(guards, flow(Unhealthy), 39, true), Unasked::Held(Suppressed::MinHealthy));
    assert_eq!(found(guards, flow(Unhealthy), 40, false), Unasked::Held(Suppressed::Rate));
    assert_eq!(found(guards, flow(Unhealthy), 40, true), Unasked::Tell);
    assert_eq!(found(guards, FlowFacts { unhealthy_for: 0, ..flow(Removed) }, 0, true), Unasked::Tell);
}
