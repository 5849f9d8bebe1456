//! as a table: who is told besides the sender of the packet at hand.

use super::*;

const LOW: Debts = Debts { low: true, high: false };
const HIGH: Debts = Debts { low: false, high: true };
const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);

fn back(packet: Facts) -> Facts {
    Facts { direction: Direction::HighToLow, ..packet }
}

fn both_ends() -> Policy {
    Policy { both_ends: true, ..resets() }
}

fn proactive() -> Policy {
    Policy { proactive: true, ..resets() }
}

/// A flow that was reset a second ago and owes this.
fn owing(debts: Debts) -> FlowFacts {
    FlowFacts { state: FlowState::Owing, debts, ..flow(Unhealthy) }
}

/// A new flow after one that was reset, of which this is owed.
fn half_open(debts: Debts) -> FlowFacts {
    FlowFacts { state: FlowState::HalfOpen, debts, ..flow(Healthy) }
}

//
#[test]
fn each_reset_leaves_a_debt_to_the_end_that_was_not_told() {
    let policy = Policy { reset_on_idle: true, ..both_ends() };
    let expired = FlowFacts { state: FlowState::Expired, ..flow(Healthy) };
    let ended = [
        (flow(Unhealthy), ResetTrigger::Unhealthy),
        (flow(Removed), Deregistration),
        (expired, IdleTimeout),
        (FlowFacts { last_seen: Millis(NOW.0 - 350_000), ..flow(Healthy) }, IdleTimeout),
    ];
    for (flow, trigger) in ended {
        let found = verdict(data(), Some(flow), policy, true);
        assert_eq!(found, Verdict::Reset(trigger, Then::Owe(HIGH)));
        let found = verdict(back(data()), Some(flow), policy, true);
        assert_eq!(found, Verdict::Reset(trigger, Then::Owe(LOW)));
    }
    // A packet of no flow has no other end that anybody knows.
    assert_eq!(verdict(data(), None, policy, true), reset(NoFlow));
}

/// What becomes of each packet of a flow that was reset, by what it owes.
//
#[test]
fn a_flow_that_owes() {
    let told = DropReason::UnknownFlow;
    let table = [
        // the low end's packet, what is owed, what becomes of it
        (data(), LOW, Verdict::Reset(ResetTrigger::BothEnds, Then::Forget)),
        (data(), Debts::BOTH, Verdict::Reset(ResetTrigger::BothEnds, Then::Keep(HIGH))),
        (data(), HIGH, Verdict::Drop(told, Then::Keep(HIGH))),
        (tcp(SYN_ACK), LOW, Verdict::Reset(ResetTrigger::BothEnds, Then::Forget)),
        // It has nothing left to be told of.
        (rst(), LOW, Verdict::Drop(told, Then::Forget)),
        (rst(), Debts::BOTH, Verdict::Drop(told, Then::Keep(HIGH))),
        (rst(), HIGH, Verdict::Drop(told, Then::Keep(HIGH))),
        (syn(), LOW, Verdict::New(Debts::NONE)),
        (syn(), Debts::BOTH, Verdict::New(HIGH)),
        (syn(), HIGH, Verdict::New(HIGH)),
    ];
    for (packet, debts, expected) in table {
        // Turned off meanwhile, what is owed is owed.
        for policy in [both_ends(), defaults()] {
            assert_eq!(verdict(packet, Some(owing(debts)), policy, true), expected, "{packet:?} {debts:?}");
        }
    }
}

// R-9, F-8
#[test]
fn the_end_that_was_told_is_of_no_flow_and_is_never_adopted() {
    let keeps = Then::Keep(HIGH);
    let policy = |unknown_flow| Policy { unknown_flow, ..both_ends() };
    let found = |policy| verdict(data(), Some(owing(HIGH)), policy, true);
    assert_eq!(found(policy(UnknownFlow::Drop)), Verdict::Drop(DropReason::UnknownFlow, keeps));
    assert_eq!(found(policy(UnknownFlow::Adopt)), Verdict::Drop(DropReason::UnknownFlow, keeps));
    assert_eq!(found(policy(UnknownFlow::Reset)), Verdict::Reset(NoFlow, keeps));
    let idle = Policy { reset_on_idle: true, ..both_ends() };
    assert_eq!(found(idle), Verdict::Reset(NoFlow, keeps));
}

//
#[test]
fn a_debt_is_over_with_the_idle_timeout() {
    let since = |ms| FlowFacts { last_seen: Millis(NOW.0 - ms), ..owing(LOW) };
    let paid = Verdict::Reset(ResetTrigger::BothEnds, Then::Forget);
    assert_eq!(verdict(data(), Some(since(349_999)), both_ends(), true), paid);
    let over = verdict(data(), Some(since(350_000)), both_ends(), true);
    assert_eq!(over, dropped(DropReason::UnknownFlow));
    assert_eq!(verdict(syn(), Some(FlowFacts { debts: HIGH, ..since(350_000) }), both_ends(), true), NEW);
}

//
#[test]
fn a_new_flow_pays_the_debt_of_the_old_one_and_goes_on() {
    let challenge_ack = back(tcp(TcpFlags::ACK));
    for policy in [both_ends(), defaults()] {
        let found = verdict(challenge_ack, Some(half_open(HIGH)), policy, true);
        assert_eq!(found, Verdict::Reset(ResetTrigger::BothEnds, Then::Keep(Debts::NONE)));
    }
}

//
#[test]
fn what_shows_that_the_old_connection_is_gone_ends_the_debt() {
    let after = |packet, debts| match verdict(packet, Some(half_open(debts)), both_ends(), true) {
        Verdict::Stay(update) => update.debts,
        other => panic!("{other:?}"),
    };
    assert_eq!(after(back(tcp(SYN_ACK)), HIGH), Debts::NONE, "the owed end takes the new connection");
    assert_eq!(after(back(rst()), HIGH), Debts::NONE, "the owed end refuses it");
    assert_eq!(after(data(), HIGH), Debts::NONE, "the other end has got a SYN-ACK");
    assert_eq!(after(syn(), HIGH), HIGH, "a SYN again says nothing of it");
    assert_eq!(after(rst(), HIGH), HIGH, "nor does that the new one was given up");
    assert_eq!(after(back(syn()), HIGH), Debts::NONE, "the owed end opens one itself");
    assert_eq!(after(back(tcp(SYN_ACK)), Debts::BOTH), LOW);
}

// R-9, F-14
#[test]
fn a_syn_again_takes_the_debt_along_to_another_target() {
    let out = FlowFacts { condition: Unhealthy, ..half_open(Debts::BOTH) };
    assert_eq!(verdict(syn(), Some(out), both_ends(), true), Verdict::New(HIGH));
    let closed = FlowFacts { state: FlowState::Closed, ..half_open(HIGH) };
    assert_eq!(verdict(syn(), Some(closed), both_ends(), true), Verdict::New(HIGH));
}

// the new flow's target fails as well, before the debt of the old one is paid.
#[test]
fn a_reset_of_the_new_flow_keeps_what_the_old_one_owed() {
    let out = FlowFacts { condition: Unhealthy, ..half_open(HIGH) };
    for policy in [both_ends(), resets()] {
        let found = verdict(data(), Some(out), policy, true);
        assert_eq!(found, Verdict::Reset(ResetTrigger::Unhealthy, Then::Owe(HIGH)));
    }
}

//
#[test]
fn silent_flows_are_told_where_an_answer_would_be_a_reset() {
    let timers = Timers::default();
    let found = |policy: Policy, flow: FlowFacts, any_healthy| {
        unasked(&flow, &around(&policy, &timers, any_healthy)) == Unasked::Tell
    };
    assert!(found(proactive(), flow(Unhealthy), true));
    assert!(found(proactive(), flow(Removed), true));
    for condition in [Initial, Healthy, Draining] {
        assert!(!found(proactive(), flow(condition), true), "{condition:?}");
    }
    let unhealthy_only = Policy { reset_on_deregistration: false, ..proactive() };
    let deregistered_only = Policy { reset_on_unhealthy: false, ..proactive() };
    assert!(!found(unhealthy_only, flow(Removed), true));
    assert!(!found(deregistered_only, flow(Unhealthy), true));
    assert!(!found(resets(), flow(Unhealthy), true), "off by default");
    assert!(!found(both_ends(), flow(Unhealthy), true), "which is another matter");
    let rebalance = Policy { failover: Failover::Rebalance, ..proactive() };
    assert!(!found(rebalance, flow(Unhealthy), true), "A-5");
    assert!(!found(proactive(), flow(Unhealthy), false), "nobody could take the client's next connection");
    assert!(found(proactive(), FlowFacts { fail_open: true, ..flow(Unhealthy) }, true), "T-6");
    for state in
        [FlowState::HalfOpen, FlowState::Closed, FlowState::Expired, FlowState::Other, FlowState::Owing]
    {
        assert!(!found(proactive(), FlowFacts { state, ..flow(Unhealthy) }, true), "{state:?}");
    }
    let idle = FlowFacts { last_seen: Millis(NOW.0 - 350_000), ..flow(Unhealthy) };
    assert!(!found(proactive(), idle, true), "it has expired, though the hand has not been there");
}
