//! Telling silent flows that their target is out (R-10, `flowgate.reset.proactive`).
//!
//! When a target's condition changes, or the forwarding state does, or a hold is over, the worker
//! looks whether a target with flows is out, and if so walks its flow table once: a few targets, a few entries
//! and a few resets a round, so that no packet waits (F-13).
//! Whose ends are told is decided flow by flow ([`unasked`]), by what holds when the walk comes by; so
//! targets may fail, recover and be registered anew in its midst. What a guard holds back, or a port does not
//! give a packet for, is looked at again in a later walk.
//!
//! An end is told from the last acknowledgement that it sent: the sequence number which it expects next,
//! if it has acknowledged all that it got. As it may not have, and as nobody repeats a reset that is lost,
//! the flow is remembered: whichever end sends all the same is answered.

use arrayvec::ArrayVec;

use super::counters::{ResetTrigger, Suppressed, WorkerCounters};
use super::decide::{Debts, Unasked, unasked};
use super::flow_log::Why;
use super::flows::Cause;
use super::forwarding::{Condition, Conditions, Forwarding};
use super::outbound::Fate;
use super::pipeline::Pipeline;
use super::rates::Drawn;
use super::reset::{V6_LEN, write_unasked};
use crate::flow::{Direction, EntryId, FlowKey, FlowState};
use crate::id::{Millis, TargetId};
use crate::io::{PacketBuf, PortQueue};
use crate::wire::ethernet;
use crate::wire::packet::protocol;
use crate::wire::tcp::Seq;

/// Entries looked at in one round at most.
const STEPS_A_ROUND: u32 = 32;

/// Targets looked at in one round at most, to find out whether a walk is due.
const TARGETS_A_ROUND: usize = 64;

/// Flows told in one round at most: with two resets each, a burst.
const FLOWS_A_ROUND: usize = 16;

/// How long after a walk that left something undone the next one begins, in milliseconds.
const AGAIN_AFTER_MS: u32 = 10;

/// Where the walk is.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Whether some load balancer has silent flows told.
    armed: bool,
    /// The target that is looked at next, while it is found out whether a walk is due.
    looking: Option<usize>,
    /// A target whose flows are to be told was found.
    due: bool,
    /// The entry to look at next, while a walk is on.
    next: Option<u32>,
    /// Something changed since the walk began: another is due.
    changed: bool,
    /// This walk left something undone.
    undone: bool,
    /// When to see whether another walk is due, whatever changes.
    again_at: Option<Millis>,
}

impl Sweep {
    /// Whether a walk is on, or it is being found out whether one is due.
    pub fn is_on(&self) -> bool {
        self.next.is_some() || self.looking.is_some()
    }

    /// Something changed: finds out, from here on, whether flows of some target have to be told.
    #[cold]
    pub fn begin(&mut self, forwarding: &Forwarding) {
        self.again_at = None;
        self.due = false;
        self.armed = forwarding.conditions.tells_silent(&forwarding.gateways);
        self.looking = self.armed.then_some(0);
        if !self.armed {
            self.next = None;
        }
    }

    /// Looks at some targets. When all were looked at, a walk begins if flows of one have to be told now, and
    /// when they will have to be is noted.
    fn look(
        &mut self,
        from: usize,
        forwarding: &Forwarding,
        conditions: &Conditions,
        counters: &WorkerCounters,
        now: Millis,
    ) {
        let all = forwarding.targets.len();
        let to = all.min(from + TARGETS_A_ROUND);
        for id in (from..to).filter_map(|place| u16::try_from(place).ok()).map(TargetId) {
            let condition = conditions.of(id);
            let out = matches!(condition, Condition::Unhealthy | Condition::Removed);
            let Some(Some(target)) = forwarding.targets.get(id.index()).filter(|_| out) else { continue };
            if counters.target(id).active_tcp_flows.get() == 0 {
                continue;
            }
            let gateway = target.gateway.and_then(|id| forwarding.gateway(id));
            let hold = gateway.map_or(0, |gateway| gateway.policy.guards.hold_ms);
            let held = hold.saturating_sub(conditions.unhealthy_for(id, now));
            if condition == Condition::Unhealthy && held > 0 {
                self.look_again(now, held);
            } else {
                self.due = true;
            }
        }
        self.looking = (to < all).then_some(to);
        if self.looking.is_none() {
            self.changed |= self.due && self.next.is_some();
            self.next = self.next.or(self.due.then_some(0));
        }
    }

    /// Looks again in so many milliseconds at the latest.
    fn look_again(&mut self, now: Millis, ms: u32) {
        let sooner = self.again_at.is_none_or(|at| at.since(now) > ms);
        if sooner {
            self.again_at = Some(now.plus(ms));
        }
    }

    /// The walk has come to the table's end.
    fn end(&mut self, now: Millis) {
        self.next = std::mem::take(&mut self.changed).then_some(0);
        if std::mem::take(&mut self.undone) {
            self.look_again(now, AGAIN_AFTER_MS);
        }
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// What there is to do of it in this round. The caller flushes what it leaves to be sent.
    #[inline]
    pub(super) fn sweep<Q: PortQueue<Buf = B>>(&mut self, forwarding: &Forwarding, ports: &mut [Q]) {
        if self.sweep.armed {
            self.sweep_step(forwarding, ports);
        }
    }

    #[cold]
    fn sweep_step<Q: PortQueue<Buf = B>>(&mut self, forwarding: &Forwarding, ports: &mut [Q]) {
        if self.sweep.again_at.is_some_and(|at| at == self.now || self.now.since(at) > 0) {
            self.sweep.begin(forwarding);
        }
        if let Some(from) = self.sweep.looking {
            self.sweep.look(from, forwarding, &self.conditions, &self.counters, self.now);
        }
        let Some(from) = self.sweep.next else { return };
        let mut flows: ArrayVec<EntryId, FLOWS_A_ROUND> = ArrayVec::new();
        let mut left_over = None;
        let next = self.flows.table.scan(from, STEPS_A_ROUND, |id, entry| {
            let silent = entry.state() == FlowState::Established
                && matches!(self.conditions.of(entry.target), Condition::Unhealthy | Condition::Removed);
            if silent && left_over.is_none() && flows.try_push(id).is_err() {
                left_over = Some(id.number());
            }
        });
        for id in flows {
            if !self.tell_unasked(forwarding, ports, id) {
                self.sweep.undone = true;
            }
        }
        match left_over.or(next) {
            Some(next) => self.sweep.next = Some(next),
            None => self.sweep.end(self.now),
        }
    }

    /// Tells both ends of a flow, if they are to be told. False if that is to be tried again.
    fn tell_unasked<Q: PortQueue<Buf = B>>(
        &mut self,
        forwarding: &Forwarding,
        ports: &mut [Q],
        id: EntryId,
    ) -> bool {
        let key = *self.flows.table.entry(id).key();
        let Some((gateway_id, gateway)) = forwarding.gateway_of(key.endpoint()) else { return true };
        if key.protocol() != protocol::TCP {
            return true;
        }
        let facts = self.flows.facts(id, forwarding, &self.conditions, self.now);
        match unasked(&facts, &self.surroundings(gateway_id, gateway, 2)) {
            // What changes the other guards' minds begins another walk.
            Unasked::Held(why) => return why != Suppressed::Rate,
            Unasked::No => return true,
            Unasked::Tell => {}
        }
        let target = self.flows.table.entry(id).target;
        let (mut told, mut short) = (0, false);
        for end in [Direction::LowToHigh, Direction::HighToLow] {
            let Some(seq) = self.flows.table.entry(id).last_ack(end) else { continue };
            let Some((port, header)) = self.header_to(forwarding, id, end) else { continue };
            let Some(empty) = ports.get_mut(port.index()).and_then(Q::allocate) else {
                short = true;
                continue;
            };
            if let Some(packet) = compose(empty, &header, &key, end, Seq(seq)) {
                let fate = Fate::Told { gateway: gateway_id, target };
                self.outbound.send(port, packet, fate, &self.counters);
                self.record(ResetTrigger::Proactive, gateway_id, Some(target), &key, end);
                told += 1;
            }
        }
        if told > 0 {
            self.counters.troubles(target).reset_flows.add(1);
            self.spend(forwarding, gateway_id, Drawn::OfFlow, told);
            let why = Why::Reset(ResetTrigger::Proactive);
            let cause = Cause { why, now: self.now, timers: &gateway.timers };
            self.flows.owe(id, Debts::BOTH, &cause, &self.counters);
        }
        // Of whom no acknowledgement is known, nobody can be told: the flow stays for.
        told > 0 || !short
    }
}

/// Makes of an empty packet the frame that tells one end, under this link header. `None` if that end must
/// not be told, or there is no room.
fn compose<B: PacketBuf>(mut packet: B, header: &[u8], key: &FlowKey, end: Direction, seq: Seq) -> Option<B> {
    let frame = packet.append(header.len() + V6_LEN)?;
    let (link, ip) = frame.split_at_mut_checked(header.len())?;
    link.copy_from_slice(header);
    // It is turned round: what that end's packets were sent to is now where the frame comes from.
    if link.get(6..).is_some_and(ethernet::is_group_addressed) {
        return None;
    }
    let len = write_unasked(ip, key, end, seq).ok()?;
    packet.truncate(header.len() + len);
    Some(packet)
}
