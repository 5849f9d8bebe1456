//! What becomes of a packet: sections 4 to 6 of the rules, as pure functions.
//!
//! [`decide`] is asked for every packet that a client or a server sent. In go the facts of the
//! packet, the flow's entry if there is one, the condition of its target and the attributes; out
//! come a [`Verdict`] and nothing else. The pipeline carries verdicts out and decides nothing itself. Whoever wants
//! to know why asks [`decide_telling`], which is the same function with an ear for its steps.
//!
//! "SYN" in the rules is an attempt to open a connection: SYN without ACK and without RST. A SYN-ACK
//! never opens a flow and is answered like any other packet.

pub mod account;
pub mod later_fragment;
mod terms;

use account::{Account, Reason};
pub use terms::{Debts, Ends, Facts, FlowFacts, Forgot, Surroundings, Then, Update, Verdict};

use super::counters::{DropReason, ResetTrigger, Suppressed};
use super::forwarding::{Condition, Failover, UnknownFlow};
use super::rates::Drawn;
use crate::flow::{Ended, FlowState, expiry};
use crate::wire::tcp::TcpFlags;

/// What to do with a packet that a client or a server sent.
#[inline]
pub fn decide(packet: &Facts, flow: Option<&FlowFacts>, around: &Surroundings<'_>) -> Verdict {
    decide_telling(packet, flow, around, &mut ())
}

/// The same, and what led to it.
#[inline]
pub fn decide_telling(
    packet: &Facts,
    flow: Option<&FlowFacts>,
    around: &Surroundings<'_>,
    account: &mut impl Account,
) -> Verdict {
    let verdict = unguarded(packet, flow, around, account);
    match verdict {
        Verdict::Reset(trigger, _) => {
            let held = guarded(trigger, packet, flow, around);
            if let Some(Verdict::Held(why, _)) = held {
                account.note(Reason::Guarded(why));
            }
            held.unwrap_or(verdict)
        }
        _ => verdict,
    }
}

/// The same without R-11.
#[inline]
fn unguarded(
    packet: &Facts,
    flow: Option<&FlowFacts>,
    around: &Surroundings<'_>,
    account: &mut impl Account,
) -> Verdict {
    let Some(flow) = flow else {
        account.note(Reason::NoFlow);
        return without_flow(packet, around, account);
    };
    if flow.state == FlowState::Expired {
        return expired(packet, around, account);
    }
    match expiry(flow.state, flow.last_seen, around.now, around.timers) {
        None if flow.state == FlowState::Owing => owing(packet, flow, around, account),
        None => live(packet, flow, around, account),
        Some(Ended::TcpIdle) => expired(packet, around, account),
        // A flow that closed, never got past its SYN, was reset long ago, or is of another protocol is
        // not remembered.
        Some(ended @ (Ended::Closed | Ended::HalfOpen | Ended::OtherIdle | Ended::Owing)) => {
            account.note(Reason::Over(ended));
            without_flow(packet, around, account)
        }
    }
}

/// F-8: the first packet of a flow, or one that belongs to none.
#[inline]
fn without_flow(packet: &Facts, around: &Surroundings<'_>, account: &mut impl Account) -> Verdict {
    let adopted = around.policy.unknown_flow == UnknownFlow::Adopt && !packet.resets();
    if !packet.tcp || packet.opens() || adopted || around.forgot.is_some() {
        account.note(match packet {
            packet if !packet.tcp => Reason::BeginsOther,
            packet if packet.opens() => Reason::BeginsTcp,
            _ if adopted => Reason::Adopted,
            _ => match around.forgot {
                Some(Forgot::Restart) => Reason::Restarted,
                Some(Forgot::Eviction) => Reason::Evicted,
                Some(Forgot::Overflow) | None => Reason::Overflowed,
            },
        });
        let begins = !packet.tcp || packet.opens() || adopted;
        match around.forgot {
            Some(Forgot::Eviction) if !begins => Verdict::Rejoin,
            _ => Verdict::New(Debts::NONE),
        }
    } else {
        of_no_flow(packet, around, Then::Forget, account)
    }
}

/// F-8, R-3: a TCP packet that opens nothing and is of no flow.
fn of_no_flow(packet: &Facts, around: &Surroundings<'_>, then: Then, account: &mut impl Account) -> Verdict {
    let policy = around.policy;
    if packet.resets() {
        account.note(Reason::ResetOfNoFlow);
        Verdict::Drop(DropReason::UnknownFlow, then)
    } else if policy.answers_no_flow() {
        let asked_for = policy.unknown_flow == UnknownFlow::Reset;
        account.note(if asked_for { Reason::UnknownFlowReset } else { Reason::UnknownFlowResetOnIdle });
        Verdict::Reset(ResetTrigger::NoFlow, then)
    } else {
        account.note(Reason::UnknownFlowDropped);
        Verdict::Drop(DropReason::UnknownFlow, then)
    }
}

/// F-10: a packet of a TCP flow that idled out.
#[inline]
fn expired(packet: &Facts, around: &Surroundings<'_>, account: &mut impl Account) -> Verdict {
    account.note(Reason::IdledOut);
    if packet.opens() {
        account.note(Reason::SynOnIdledOut);
        Verdict::New(Debts::NONE)
    } else if around.policy.reset_on_idle && !packet.resets() {
        account.note(Reason::IdledOutReset);
        Verdict::Reset(ResetTrigger::IdleTimeout, after_reset(packet, Debts::NONE, around))
    } else {
        account.note(if packet.resets() { Reason::IdledOutByReset } else { Reason::IdledOutDropped });
        Verdict::Drop(DropReason::ExpiredFlow, Then::Forget)
    }
}

/// a packet of a TCP flow that the gateway has ended by a reset.
fn owing(packet: &Facts, flow: &FlowFacts, around: &Surroundings<'_>, account: &mut impl Account) -> Verdict {
    account.note(Reason::Owing);
    let left = flow.debts.without(packet.direction);
    if packet.opens() {
        account.note(Reason::SynOnOwing);
        return Verdict::New(left); // R-6; its sender has nothing left of the old connection.
    }
    if !flow.debts.to(packet.direction) {
        // This end was told. It is never adopted: it is known that the connection is over.
        account.note(Reason::WasTold);
        return of_no_flow(packet, around, Then::Keep(flow.debts), account);
    }
    let then = Then::remember(left, Then::Keep);
    if packet.resets() {
        account.note(Reason::EndedItself);
        Verdict::Drop(DropReason::UnknownFlow, then) // It has ended the connection itself.
    } else {
        account.note(Reason::IsTold);
        Verdict::Reset(ResetTrigger::BothEnds, then)
    }
}

/// what becomes of a flow one of whose packets is answered with a reset.
#[inline]
fn after_reset(packet: &Facts, debts: Debts, around: &Surroundings<'_>) -> Then {
    let left = debts.without(packet.direction);
    let left = if around.policy.both_ends { left.and(packet.direction.reverse()) } else { left };
    Then::remember(left, Then::Owe)
}

/// A packet of a live flow.
#[inline]
fn live(packet: &Facts, flow: &FlowFacts, around: &Surroundings<'_>, account: &mut impl Account) -> Verdict {
    account.note(Reason::Live);
    if packet.opens() {
        return syn_on_live(packet, flow, around, account);
    }
    if packet.tcp
        && flow.debts.to(packet.direction)
        && !packet.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
    {
        // the flow is new, this packet is of the connection before it: a challenge ACK (RFC 5961 4)
        // to the new connection's SYN, say.
        account.note(Reason::OfTheOneBefore);
        return Verdict::Reset(ResetTrigger::BothEnds, Then::Keep(flow.debts.without(packet.direction)));
    }
    let out = matches!(flow.condition, Condition::Unhealthy | Condition::Removed);
    if out && around.policy.failover == Failover::Rebalance {
        if around.any_healthy {
            // It wins over a reset. With nobody healthy the flow stays until somebody is (T-6).
            account.note(Reason::Moves(flow.condition));
            return Verdict::Move(update(packet, flow)); // T-1, T-2, T-4
        }
        account.note(Reason::NobodyToMoveTo);
    }
    match reset_due(flow, around, account) {
        // T-1, T-4
        Some(trigger) if packet.tcp && !packet.resets() => {
            Verdict::Reset(trigger, after_reset(packet, flow.debts, around))
        }
        due => {
            if due.is_some() {
                account.note(if packet.tcp { Reason::IsReset } else { Reason::NotTcp });
            }
            Verdict::Stay(update(packet, flow)) // T-1 to T-4, T-7, F-5
        }
    }
}

/// whether a TCP flow is to be reset for its target's sake.
#[inline]
fn reset_due(
    flow: &FlowFacts,
    around: &Surroundings<'_>,
    account: &mut impl Account,
) -> Option<ResetTrigger> {
    let policy = around.policy;
    let (trigger, on) = match flow.condition {
        Condition::Initial | Condition::Healthy | Condition::Draining => {
            account.note(Reason::TargetIsIn(flow.condition));
            return None; // T-3, T-5, T-7, F-5
        }
        Condition::Unhealthy => (ResetTrigger::Unhealthy, policy.reset_on_unhealthy),
        Condition::Removed => (ResetTrigger::Deregistration, policy.reset_on_deregistration),
    };
    if !on {
        account.note(Reason::ResetsOff(flow.condition));
        return None;
    }
    // A reset must have somewhere to go: not a flow that was made while nobody was healthy (T-6).
    let spared = flow.fail_open && !around.any_healthy;
    let due = policy.failover == Failover::NoRebalance && !spared;
    account.note(match policy.failover {
        _ if due => Reason::ResetDue(flow.condition),
        Failover::Rebalance => Reason::MovingWins,
        Failover::NoRebalance => Reason::Spared,
    });
    due.then_some(trigger)
}

/// whether a reset is held back, and why.
#[inline]
fn held(trigger: ResetTrigger, unhealthy_for: u32, around: &Surroundings<'_>) -> Option<Suppressed> {
    let guards = &around.policy.guards;
    if trigger == ResetTrigger::Unhealthy {
        if unhealthy_for < guards.hold_ms {
            return Some(Suppressed::Hold);
        }
        if u32::from(around.healthy_percent) < guards.min_healthy_percent {
            return Some(Suppressed::MinHealthy);
        }
    }
    match Drawn::by(trigger) {
        Drawn::OfFlow => (!around.may_reset).then_some(Suppressed::Rate),
        Drawn::OfNone => (!around.may_reset_no_flow).then_some(Suppressed::NoFlowRate),
    }
}

/// What becomes of a packet whose reset is held back: while its flow lives it goes on, as it does
/// with resets off.
#[cold]
fn guarded(
    trigger: ResetTrigger,
    packet: &Facts,
    flow: Option<&FlowFacts>,
    around: &Surroundings<'_>,
) -> Option<Verdict> {
    let why = held(trigger, flow.map_or(0, |flow| flow.unhealthy_for), around)?;
    let lives = matches!(trigger, ResetTrigger::Unhealthy | ResetTrigger::Deregistration);
    Some(Verdict::Held(why, flow.filter(|_| lives).map(|flow| update(packet, flow))))
}

/// Whether the ends of a silent flow are told without having asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// Nobody is told.
    No,
    /// A guard holds it back for now.
    Held(Suppressed),
    /// Both ends are told.
    Tell,
}

/// whether a flow's ends are to be told that its target is out, though they are silent. On top of what
/// a reset in answer asks for, somebody must be healthy: a client that is told comes back at once.
pub fn unasked(flow: &FlowFacts, around: &Surroundings<'_>) -> Unasked {
    let may = around.policy.proactive
        && around.any_healthy
        && flow.state == FlowState::Established
        && expiry(flow.state, flow.last_seen, around.now, around.timers).is_none();
    match reset_due(flow, around, &mut ()).filter(|_| may) {
        None => Unasked::No,
        Some(trigger) => held(trigger, flow.unhealthy_for, around).map_or(Unasked::Tell, Unasked::Held),
    }
}

/// A SYN on a live flow: a retransmission, or the port used again (F-9, F-14, R-6).
#[inline]
fn syn_on_live(
    packet: &Facts,
    flow: &FlowFacts,
    around: &Surroundings<'_>,
    account: &mut impl Account,
) -> Verdict {
    // The SYN's sender has nothing left of a connection before it.
    let new = Verdict::New(flow.debts.without(packet.direction));
    if flow.state == FlowState::Closed {
        account.note(Reason::SynOnClosed);
        return new; // F-9
    }
    let policy = around.policy;
    let reset = match flow.condition {
        Condition::Healthy => false,
        Condition::Initial | Condition::Draining => {
            return if policy.syn_reselect && around.any_healthy {
                account.note(Reason::SynReselects);
                new // F-14
            } else {
                account.note(if policy.syn_reselect { Reason::SynHasNowhere } else { Reason::SynStays });
                Verdict::Stay(update(packet, flow))
            };
        }
        Condition::Unhealthy => policy.reset_on_unhealthy,
        Condition::Removed => policy.reset_on_deregistration,
    };
    let leaves = policy.syn_reselect || reset || policy.failover == Failover::Rebalance;
    if flow.condition == Condition::Healthy || !leaves {
        account.note(Reason::SynStays);
        return Verdict::Stay(update(packet, flow));
    }
    // With nobody healthy a new flow fails open (F-6). That is better than what a flow has that its
    // next packet would reset, and no better than what one has that failed open already.
    let next_would_reset = reset && !flow.fail_open && policy.failover == Failover::NoRebalance;
    if around.any_healthy || next_would_reset || flow.condition == Condition::Removed {
        account.note(Reason::SynReselects);
        new // F-14, R-6
    } else {
        account.note(Reason::SynHasNowhere);
        Verdict::Stay(update(packet, flow))
    }
}

/// What the flow is after this packet (F-9).
#[inline]
fn update(packet: &Facts, flow: &FlowFacts) -> Update {
    let fail_open = flow.fail_open && flow.condition != Condition::Healthy;
    if !packet.tcp {
        let FlowFacts { state, fins, resets, debts, .. } = *flow;
        return Update { state, fins, resets, fail_open, debts };
    }
    let debts = debts(packet, flow.debts);
    if packet.opens() {
        // The tuple is used again: what the connection before it closed is open again.
        return Update { state: flow.state, fins: Ends::NONE, resets: flow.resets, fail_open, debts };
    }
    Update { fail_open, debts, ..close(flow.state, (flow.fins, flow.resets), packet) }
}

/// What a flow owes after a packet of it was sent on. An owed end's SYN, SYN-ACK or reset shows that
/// it has nothing left of the old connection. Anything but a SYN or a reset of the other end shows that the
/// new one stands: then whatever the owed end sends is of the new one.
#[inline]
fn debts(packet: &Facts, debts: Debts) -> Debts {
    if packet.opens() || packet.resets() || debts.to(packet.direction) {
        debts.without(packet.direction)
    } else {
        Debts::NONE
    }
}

/// State, FINs and resets after a packet that is no opening SYN. Also used for what an appliance returns, so
/// that its own resets close the flow.
///
/// A reset closes the flow, though nobody has looked whether its sequence number is right: who forges one that is wrong
/// leaves the connection as it was. Its supposed sender then goes on, which shows it, and the flow is established again.
/// The other end's packets show nothing: they were on their way.
#[inline]
pub fn close(state: FlowState, (fins, resets): (Ends, Ends), packet: &Facts) -> Update {
    let fins = fins.with(packet.direction, fins.of(packet.direction) || packet.flags.contains(TcpFlags::FIN));
    let before = if state == FlowState::Closed { resets } else { Ends::NONE };
    let (state, resets) = if fins.both() {
        (FlowState::Closed, Ends::NONE)
    } else if packet.resets() {
        (FlowState::Closed, before.with(packet.direction, true))
    } else if packet.flags.contains(TcpFlags::SYN) {
        (state, before)
    } else if before.of(packet.direction) {
        let left = before.with(packet.direction, false);
        (if left == Ends::NONE { FlowState::Established } else { FlowState::Closed }, left)
    } else if state == FlowState::HalfOpen {
        (FlowState::Established, Ends::NONE)
    } else {
        (state, before)
    };
    Update { state, fins, resets, fail_open: false, debts: Debts::NONE }
}

/// What a packet makes of a handshake's flow that it [rejoins](Verdict::Rejoin): it does not establish it, as it would if
/// it were the second one.
#[inline]
pub fn rejoined_state(packet: &Facts) -> Update {
    let update = first_state(packet);
    let state = if update.state == FlowState::Established { FlowState::HalfOpen } else { update.state };
    Update { state, ..update }
}

/// What a flow's first packet makes of it. A TCP packet that opens nothing (it is adopted, F-8, F-12) counts
/// as it would in a flow that was there: a reset closes, and only a packet without SYN establishes, so that
/// what nobody answered can make room.
#[inline]
pub fn first_state(packet: &Facts) -> Update {
    let state = if packet.tcp { FlowState::HalfOpen } else { FlowState::Other };
    if !packet.tcp || packet.opens() {
        return Update { state, fins: Ends::NONE, resets: Ends::NONE, fail_open: false, debts: Debts::NONE };
    }
    // Of a connection that was never seen a reset is the end.
    Update { resets: Ends::NONE, ..close(state, (Ends::NONE, Ends::NONE), packet) }
}

#[cfg(test)]
mod tests;
