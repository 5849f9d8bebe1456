//! What becomes of a later fragment (M-4): one that has no transport header and follows the first
//! fragment of its datagram, whose flow it is known to belong to.

use super::account::{Account, Reason};
use super::{Facts, FlowFacts, Forgot, Surroundings, Then, Verdict, decide_telling};
use crate::datapath::counters::DropReason;
use crate::flow::Direction;
use crate::wire::tcp::TcpFlags;

/// What to do with a later fragment. It opens, closes and acknowledges nothing: it keeps its flow alive as any
/// packet does (F-9), goes where the flow goes, and is never answered with a reset. Its first fragment
/// has been judged, so where there is no live flow now it is not for this one to make it; unless the table
/// is full, when the first went on without state (F-12).
#[cold]
pub fn decide_later_fragment(
    direction: Direction,
    flow: Option<&FlowFacts>,
    around: &Surroundings<'_>,
    account: &mut impl Account,
) -> Verdict {
    account.note(Reason::LaterFragment);
    let nothing = Facts { tcp: false, flags: TcpFlags::empty(), direction };
    // The entry stays for the packet that says something.
    let drop = |reason| Verdict::Drop(reason, flow.map_or(Then::Forget, |flow| Then::Keep(flow.debts)));
    match decide_telling(&nothing, flow, around, account) {
        Verdict::New(debts) if may_be_stateless(around) && flow.is_none() => Verdict::New(debts),
        Verdict::New(_) | Verdict::Rejoin => drop(DropReason::UnknownFlow),
        Verdict::Reset(..) | Verdict::Held(_, None) => drop(DropReason::ExpiredFlow),
        Verdict::Drop(reason, _) => drop(reason),
        goes_on @ (Verdict::Stay(_) | Verdict::Move(_) | Verdict::Held(_, Some(_))) => goes_on,
    }
}

/// Whether the first fragment may have gone on without state. Where half-open flows made room, there was room.
fn may_be_stateless(around: &Surroundings<'_>) -> bool {
    matches!(around.forgot, Some(Forgot::Overflow | Forgot::Restart))
}

#[cfg(test)]
mod tests {
    use super::super::{Debts, Ends, Update};
    use super::*;
    use crate::datapath::forwarding::{Condition, Failover, Policy, ResetGuards, UnknownFlow};
    use crate::flow::{FlowState, Timers};
    use crate::id::Millis;

    fn all_resets() -> Policy {
        Policy {
            reset_on_unhealthy: true,
            reset_on_deregistration: true,
            reset_on_idle: true,
            unknown_flow: UnknownFlow::Reset,
            ..Policy::default()
        }
    }

    fn verdict(flow: Option<FlowFacts>, policy: &Policy, forgot: bool) -> Verdict {
        let timers = Timers::default();
        let around = Surroundings {
            policy,
            timers: &timers,
            any_healthy: true,
            healthy_percent: 100,
            may_reset: true,
            may_reset_no_flow: true,
            forgot: forgot.then_some(Forgot::Overflow),
            now: Millis(1_000_000),
        };
        decide_later_fragment(Direction::LowToHigh, flow.as_ref(), &around, &mut ())
    }

    fn flow(state: FlowState, condition: Condition, idle_ms: u32) -> FlowFacts {
        let last_seen = Millis(1_000_000 - idle_ms);
        FlowFacts {
            state,
            last_seen,
            fins: Ends::NONE,
            resets: Ends::NONE,
            fail_open: false,
            debts: Debts::NONE,
            condition,
            unhealthy_for: 0,
        }
    }

    /// Dropped, and the flow's entry stays as it is.
    fn dropped(reason: DropReason) -> Verdict {
        Verdict::Drop(reason, Then::Keep(Debts::NONE))
    }

    const OF_NO_FLOW: Verdict = Verdict::Drop(DropReason::UnknownFlow, Then::Forget);

    // M-4, F-9
    #[test]
    fn it_goes_on_and_changes_nothing_of_its_flow_whatever_the_state() {
        for state in [FlowState::HalfOpen, FlowState::Established, FlowState::Closed, FlowState::Other] {
            let stays =
                Update { state, fins: Ends::NONE, resets: Ends::NONE, fail_open: false, debts: Debts::NONE };
            let verdict = verdict(Some(flow(state, Condition::Healthy, 5)), &all_resets(), false);
            assert_eq!(verdict, Verdict::Stay(stays), "{state:?}");
        }
    }

    // M-4, R-5
    #[test]
    fn it_is_never_answered_with_a_reset() {
        for condition in [Condition::Unhealthy, Condition::Removed] {
            let found = flow(FlowState::Established, condition, 5);
            assert!(matches!(verdict(Some(found), &all_resets(), false), Verdict::Stay(_)), "{condition:?}");
        }
        let idle = flow(FlowState::Established, Condition::Healthy, 400_000);
        assert_eq!(verdict(Some(idle), &all_resets(), false), dropped(DropReason::ExpiredFlow));
        let remembered = flow(FlowState::Expired, Condition::Healthy, 400_000);
        assert_eq!(verdict(Some(remembered), &all_resets(), false), dropped(DropReason::ExpiredFlow));
        assert_eq!(verdict(None, &all_resets(), false), OF_NO_FLOW);
    }

    // M-4, R-9, R-11
    #[test]
    fn it_settles_no_debt_and_is_no_reset_that_was_held_back() {
        let owing = FlowFacts { debts: Debts::BOTH, ..flow(FlowState::Owing, Condition::Healthy, 5) };
        let kept = Verdict::Drop(DropReason::ExpiredFlow, Then::Keep(Debts::BOTH));
        assert_eq!(verdict(Some(owing), &all_resets(), false), kept);
        let guards = ResetGuards { max_per_second: 1, ..ResetGuards::default() };
        let guarded = Policy { guards, ..all_resets() };
        let idle = flow(FlowState::Established, Condition::Healthy, 400_000);
        assert_eq!(verdict(Some(idle), &guarded, false), dropped(DropReason::ExpiredFlow));
    }

    // M-4, F-12
    #[test]
    fn it_makes_no_flow_but_follows_a_first_that_went_on_without_state() {
        assert_eq!(verdict(None, &Policy::default(), false), OF_NO_FLOW);
        assert_eq!(verdict(None, &Policy::default(), true), Verdict::New(Debts::NONE));
        let over = flow(FlowState::Other, Condition::Healthy, 400_000);
        assert_eq!(verdict(Some(over), &Policy::default(), false), dropped(DropReason::UnknownFlow));
    }

    // M-4, T-1
    #[test]
    fn it_moves_with_its_flow() {
        let policy = Policy { failover: Failover::Rebalance, ..Policy::default() };
        let found = flow(FlowState::Established, Condition::Unhealthy, 5);
        assert!(matches!(verdict(Some(found), &policy, false), Verdict::Move(_)));
    }
}
