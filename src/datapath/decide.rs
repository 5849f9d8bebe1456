//! What becomes of a packet: sections 4 to 6 of the rules, as pure functions.
//!
//! [`decide`] is asked for every packet that a client or a server sent. In go the facts of the
//! packet, the flow's entry if there is one, the condition of its target and the attributes; out
//! come a [`Verdict`] and nothing else. The pipeline carries verdicts out and decides nothing itself.
//!
//! "SYN" in the rules is an attempt to open a connection: SYN without ACK and without RST. A SYN-ACK
//! never opens a flow and is answered like any other packet.

use super::counters::{DropReason, ResetTrigger};
use super::forwarding::{Condition, Failover, Policy, UnknownFlow};
use crate::flow::{Direction, Ended, FlowState, Timers, expiry};
use crate::id::Millis;
use crate::wire::tcp::TcpFlags;

/// The facts of a packet that decide over it.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Whether it is TCP.
    pub tcp: bool,
    /// Its TCP flags; empty if it is not TCP.
    pub flags: TcpFlags,
    /// Which way it goes, in the terms of its flow's key.
    pub direction: Direction,
}

impl Facts {
    /// Whether it is an attempt to open a TCP connection.
    #[inline]
    pub fn opens(&self) -> bool {
        self.tcp
            && self.flags.contains(TcpFlags::SYN)
            && !self.flags.intersects(TcpFlags::ACK | TcpFlags::RST)
    }

    #[inline]
    fn resets(&self) -> bool {
        self.flags.contains(TcpFlags::RST)
    }
}

/// What the flow's entry says.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts {
    /// The entry's state.
    pub state: FlowState,
    /// The last packet of either side.
    pub last_seen: Millis,
    /// Which directions have sent a FIN.
    pub fins: Fins,
    /// Whether it was made while no target was healthy (F-6), and no packet of it has found its target
    /// healthy since.
    pub fail_open: bool,
    /// The condition of its target.
    pub condition: Condition,
}

/// Which directions of a flow have sent a FIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fins {
    /// The direction [`Direction::LowToHigh`].
    pub low: bool,
    /// The direction [`Direction::HighToLow`].
    pub high: bool,
}

/// What surrounds the flow.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The attributes.
    pub policy: &'a Policy,
    /// How long flows are kept.
    pub timers: &'a Timers,
    /// Whether some target that new flows may go to is healthy.
    pub any_healthy: bool,
    /// Whether the table turned away flows lately, so that a connection may be known to nobody
    /// though it is alive (F-12).
    pub overflowed: bool,
    /// The time.
    pub now: Millis,
}

/// What the entry is to become when its packet is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its state from now on.
    pub state: FlowState,
    /// Its FINs from now on.
    pub fins: Fins,
    /// Its fail-open mark from now on.
    pub fail_open: bool,
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to its flow's target.
    Stay(Update),
    /// Choose a healthy target for its flow, then send it there (`rebalance`).
    Move(Update),
    /// Choose a target and make an entry; the old entry, if there is one, goes.
    New,
    /// Answer it with a reset; the entry, if there is one, goes.
    Reset(ResetTrigger),
    /// Drop it; the entry, if there is one, has had its last packet and goes.
    Drop(DropReason),
}

/// What to do with a packet that a client or a server sent.
#[inline]
pub fn decide(packet: &Facts, flow: Option<&FlowFacts>, around: &Surroundings<'_>) -> Verdict {
    let Some(flow) = flow else { return without_flow(packet, around) };
    if flow.state == FlowState::Expired {
        return expired(packet, around);
    }
    match expiry(flow.state, flow.last_seen, around.now, around.timers) {
        None => live(packet, flow, around),
        Some(Ended::TcpIdle) => expired(packet, around),
        // A flow that closed, never got past its SYN, or is of another protocol is not remembered.
        Some(Ended::Closed | Ended::HalfOpen | Ended::OtherIdle) => without_flow(packet, around),
    }
}

/// F-8: the first packet of a flow, or one that belongs to none.
#[inline]
fn without_flow(packet: &Facts, around: &Surroundings<'_>) -> Verdict {
    let policy = around.policy;
    let adopted = policy.unknown_flow == UnknownFlow::Adopt && !packet.resets();
    if !packet.tcp || packet.opens() || adopted || around.overflowed {
        Verdict::New
    } else if packet.resets() {
        Verdict::Drop(DropReason::UnknownFlow)
    } else if policy.unknown_flow == UnknownFlow::Reset || policy.reset_on_idle {
        Verdict::Reset(ResetTrigger::NoFlow)
    } else {
        Verdict::Drop(DropReason::UnknownFlow)
    }
}

/// F-10: a packet of a TCP flow that idled out.
#[inline]
fn expired(packet: &Facts, around: &Surroundings<'_>) -> Verdict {
    if packet.opens() {
        Verdict::New
    } else if around.policy.reset_on_idle && !packet.resets() {
        Verdict::Reset(ResetTrigger::IdleTimeout)
    } else {
        Verdict::Drop(DropReason::ExpiredFlow)
    }
}

/// A packet of a live flow.
#[inline]
fn live(packet: &Facts, flow: &FlowFacts, around: &Surroundings<'_>) -> Verdict {
    if packet.opens() {
        return syn_on_live(packet, flow, around);
    }
    let stay = Verdict::Stay(update(packet, flow));
    let policy = around.policy;
    let reset = match flow.condition {
        Condition::Initial | Condition::Healthy | Condition::Draining => return stay, // T-3, T-5, T-7, F-5
        Condition::Unhealthy => policy.reset_on_unhealthy.then_some(ResetTrigger::Unhealthy),
        Condition::Removed => policy.reset_on_deregistration.then_some(ResetTrigger::Deregistration),
    };
    if policy.failover == Failover::Rebalance {
        // It wins over a reset. With nobody healthy the flow stays until somebody is (T-6).
        return if around.any_healthy { Verdict::Move(update(packet, flow)) } else { stay };
    }
    // A reset must have somewhere to go: not a flow that was made while nobody was healthy (T-6).
    let may_be_reset = packet.tcp && !packet.resets() && (!flow.fail_open || around.any_healthy);
    match reset {
        Some(trigger) if may_be_reset => Verdict::Reset(trigger), // T-1, T-4
        _ => stay,                                                // T-1, T-2, T-4
    }
}

/// A SYN on a live flow: a retransmission, or the port used again (F-9, F-14, R-6).
#[inline]
fn syn_on_live(packet: &Facts, flow: &FlowFacts, around: &Surroundings<'_>) -> Verdict {
    if flow.state == FlowState::Closed {
        return Verdict::New; // F-9
    }
    let policy = around.policy;
    let reset = match flow.condition {
        Condition::Healthy => false,
        Condition::Initial | Condition::Draining => {
            return if policy.syn_reselect && around.any_healthy {
                Verdict::New // F-14
            } else {
                Verdict::Stay(update(packet, flow))
            };
        }
        Condition::Unhealthy => policy.reset_on_unhealthy,
        Condition::Removed => policy.reset_on_deregistration,
    };
    let leaves = policy.syn_reselect || reset || policy.failover == Failover::Rebalance;
    if flow.condition == Condition::Healthy || !leaves {
        return Verdict::Stay(update(packet, flow));
    }
    // With nobody healthy a new flow fails open (F-6). That is better than what a flow has that its
    // next packet would reset, and no better than what one has that failed open already.
    let next_would_reset = reset && !flow.fail_open && policy.failover == Failover::NoRebalance;
    if around.any_healthy || next_would_reset || flow.condition == Condition::Removed {
        Verdict::New // F-14, R-6
    } else {
        Verdict::Stay(update(packet, flow))
    }
}

/// What the flow is after this packet (F-9).
#[inline]
fn update(packet: &Facts, flow: &FlowFacts) -> Update {
    let fail_open = flow.fail_open && flow.condition != Condition::Healthy;
    if !packet.tcp {
        return Update { state: flow.state, fins: flow.fins, fail_open };
    }
    if packet.opens() {
        // The tuple is used again: what the connection before it closed is open again.
        return Update { state: flow.state, fins: Fins::default(), fail_open };
    }
    Update { fail_open, ..close(flow.state, flow.fins, packet) }
}

/// State and FINs after a packet that is no opening SYN. Also used for what an appliance returns, so
/// that its own resets close the flow.
#[inline]
pub fn close(state: FlowState, fins: Fins, packet: &Facts) -> Update {
    let fin = packet.flags.contains(TcpFlags::FIN);
    let fins = match packet.direction {
        Direction::LowToHigh => Fins { low: fins.low || fin, high: fins.high },
        Direction::HighToLow => Fins { low: fins.low, high: fins.high || fin },
    };
    let state = if packet.resets() || (fins.low && fins.high) {
        FlowState::Closed
    } else if state == FlowState::HalfOpen && !packet.flags.contains(TcpFlags::SYN) {
        FlowState::Established
    } else {
        state
    };
    Update { state, fins, fail_open: false }
}

/// The state that a flow's first packet gives it.
#[inline]
pub fn first_state(packet: &Facts) -> FlowState {
    if !packet.tcp {
        FlowState::Other
    } else if packet.opens() {
        FlowState::HalfOpen
    } else {
        FlowState::Established
    }
}

#[cfg(test)]
mod tests;
