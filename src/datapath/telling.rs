//! Telling the ends of a flow that it is over: the reset in answer to a packet, and what must
//! be noted of packets so that a silent end can be told too (R-10; `sweep.rs` does). Whether anybody is
//! to be told is `decide`'s matter; the pipeline calls this to carry it out. And what the control core hears of
//! it: each reset, and, while it wants to know who comes back, each flow that begins.

use super::arrival::Arrival;
use super::counters::{DropReason, ResetTrigger, Suppressed};
use super::decide::{Surroundings, Then};
use super::flow_log::Why;
use super::flows::Cause;
use super::forwarding::{Forwarding, Gateway};
use super::messages::{BegunRecord, FromWorker, ResetRecord};
use super::outbound::Fate;
use super::pipeline::Pipeline;
use super::rates::Drawn;
use super::reset::write_reset;
use crate::flow::{Direction, EntryId, FlowKey};
use crate::id::{GatewayId, TargetId};
use crate::io::PacketBuf;
use crate::wire::ethernet;
use crate::wire::packet::{Kind, protocol};

/// Room in the ring that news of flows leaves for other events.
const BEGUN_LEAVES: usize = 1024;

impl<B: PacketBuf> Pipeline<B> {
    /// What surrounds the flows of a load balancer now. `resets`: how many would be sent at once.
    #[inline]
    pub(super) fn surroundings<'a>(
        &self,
        id: GatewayId,
        gateway: &'a Gateway,
        resets: u64,
    ) -> Surroundings<'a> {
        let allows =
            |drawn: Drawn| self.rates.allow((id, drawn), drawn.most(&gateway.policy), resets, self.now);
        Surroundings {
            policy: &gateway.policy,
            timers: &gateway.timers,
            any_healthy: self.conditions.any_healthy(id),
            healthy_percent: self.conditions.healthy_percent(id),
            may_reset: allows(Drawn::OfFlow),
            // Asked of a bucket only where it may be drawn from.
            may_reset_no_flow: !gateway.policy.answers_no_flow() || allows(Drawn::OfNone),
            forgot: self.flows.forgot(self.now, &gateway.timers),
            now: self.now,
        }
    }

    /// Answers a packet with a reset, back the way it came. If the packet may not be
    /// answered it is dropped, and the entry stays as it is for the next one.
    #[cold]
    pub(super) fn reset(
        &mut self,
        forwarding: &Forwarding,
        mut packet: B,
        arrival: &Arrival,
        found: Option<EntryId>,
        (trigger, then): (ResetTrigger, Then),
    ) {
        let link_len = usize::from(arrival.link_len);
        if ethernet::is_group_addressed(packet.bytes()) {
            return self.counters.dropped(DropReason::NotAnswerable);
        }
        let Some(ip) = packet.bytes_mut().get_mut(link_len..) else {
            return self.counters.dropped(DropReason::NotAnswerable);
        };
        let Ok(len) = write_reset(ip, &arrival.packet) else {
            return self.counters.dropped(DropReason::NotAnswerable);
        };
        packet.truncate(link_len + len);
        ethernet::swap_addresses(packet.bytes_mut());
        // A flow that is as good as gone (closed, say) is no flow, and nobody's.
        let of_flow = found.filter(|_| trigger != ResetTrigger::NoFlow);
        let target = of_flow.map(|id| self.flows.table.entry(id).target);
        if let (ResetTrigger::Unhealthy | ResetTrigger::Deregistration, Some(target)) = (trigger, target) {
            self.counters.troubles(target).reset_flows.add(1);
        }
        self.record(trigger, arrival.gateway, target, &arrival.key, arrival.direction);
        self.spend(forwarding, arrival.gateway, Drawn::by(trigger), 1);
        if let Some(id) = found {
            let timers = forwarding.timers(arrival.endpoint);
            let cause = Cause { why: Why::Reset(trigger), now: self.now, timers: &timers };
            self.flows.after(id, then, &cause, &self.counters);
        }
        let fate = Fate::Answered { trigger, gateway: arrival.gateway, target };
        self.outbound.send(arrival.port, packet, fate, &self.counters);
    }

    /// Notes of a packet that goes on to its target what telling its sender unasked would take.
    #[inline]
    pub(super) fn note(&mut self, gateway: &Gateway, packet: &B, arrival: &Arrival, id: EntryId) {
        if gateway.policy.proactive && arrival.packet.kind == Kind::Tcp {
            self.flows.note_ack(id, arrival, packet.bytes());
        }
    }

    /// Tells the control core of a reset to the end that sends in direction `told`.
    pub(super) fn record(
        &mut self,
        trigger: ResetTrigger,
        gateway: GatewayId,
        target: Option<TargetId>,
        key: &FlowKey,
        told: Direction,
    ) {
        let (to, from) = (key.source_socket(told), key.destination_socket(told));
        let record = ResetRecord {
            trigger,
            gateway,
            target,
            endpoint: key.endpoint(),
            to: (to.ip(), to.port()),
            from: (from.ip(), from.port()),
            at_cycles: self.now_cycles,
        };
        if self.events.push(FromWorker::Reset(record)).is_err() {
            self.counters.events_lost.add(1);
        }
    }

    /// Counts a packet whose reset is held back.
    #[cold]
    pub(super) fn count_suppressed(&self, gateway: GatewayId, flow: Option<EntryId>, why: Suppressed) {
        self.counters.gateway(gateway).suppressed[why.index()].add(1);
        if let Some(id) = flow {
            let target = self.flows.table.entry(id).target;
            self.counters.troubles(target).suppressed[why.index()].add(1);
        }
    }

    /// Tells the control core of a flow that its initiator has begun in this direction, if it is TCP.
    #[cold]
    pub(super) fn tell_begun(&mut self, key: &FlowKey, initiator: Direction, target: TargetId) {
        if key.protocol() != protocol::TCP {
            return;
        }
        // A flood of new flows must not push out what there is to tell of resets.
        if self.events.slots() <= BEGUN_LEAVES {
            return self.counters.events_lost.add(1);
        }
        let (from, to) = (key.source_socket(initiator), key.destination_socket(initiator));
        let record = BegunRecord {
            endpoint: key.endpoint(),
            initiator: (from.ip(), from.port()),
            responder: (to.ip(), to.port()),
            target,
            at_cycles: self.now_cycles,
        };
        if self.events.push(FromWorker::Begun(record)).is_err() {
            self.counters.events_lost.add(1);
        }
    }

    /// Goes by the configuration of this number from now on.
    pub(super) fn goes_by(&self, configuration: u64) {
        if self.counters.configuration.get() != configuration {
            self.counters.configuration_since.set(self.now_cycles);
            self.counters.configuration.set(configuration);
        }
    }

    /// Counts resets against what the load balancer may send.
    pub(super) fn spend(&mut self, forwarding: &Forwarding, id: GatewayId, drawn: Drawn, resets: u64) {
        if let Some(gateway) = forwarding.gateway(id) {
            self.rates.spend((id, drawn), drawn.most(&gateway.policy), resets, self.now);
        }
    }
}
