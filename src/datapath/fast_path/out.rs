//! From a client or a server to an appliance: the packets of flows that go on, and those that begin one.

use super::super::counters::DropReason;
use super::super::decide::Debts;
use super::super::flows::{FirstPacket, NoRoom};
use super::super::forwarding::{Condition, Forwarding};
use super::super::outbound::Fate;
use super::super::pipeline::Pipeline;
use super::super::steering::any_source_port;
use super::{LINK_LEN, Lane, MARKS, TURNS, Wire};
use crate::balance::Choice;
use crate::io::PacketBuf;
use crate::io::isa::Stage;
use crate::wire::geneve::outer::OuterTemplate;

impl<B: PacketBuf> Pipeline<B> {
    /// Third stage: makes packets ready for their flows' targets, in place and from the front, until one needs
    /// more than that; returns how many. What they are is noted in the port's queue, which then
    /// [takes](super::outbound::Outbound::take_noted) them.
    pub(in super::super) fn express(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        packets: &mut [B],
        lanes: &[Lane],
    ) -> usize {
        let (isa, worker) = (self.isa, self.worker);
        // Which of the two is known before a packet is looked at.
        match &wire.underlay.steering {
            None => {
                let port_of = |_: &OuterTemplate, hash| any_source_port(hash);
                isa.run(Express { pipeline: self, forwarding, wire, packets, lanes, port_of })
            }
            Some(steering) => {
                let port_of = |to: &OuterTemplate, hash| steering.source_port(to.answer_hash(), worker, hash);
                isa.run(Express { pipeline: self, forwarding, wire, packets, lanes, port_of })
            }
        }
    }

    /// Begins the flow of a packet that was read plainly and has none, and sends it to the flow's target (F-4,
    /// F-8); if more than that is to be done with it, or another thing, gives it back untouched.
    #[inline(never)]
    pub(in super::super) fn begin(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        mut packet: B,
        lane: &Lane,
    ) -> Option<B> {
        let policy = &wire.gateway.policy;
        let facts = lane.facts();
        let begins = if facts.tcp { facts.opens() && !policy.mss_clamp } else { true };
        if !begins || lane.total_len > wire.longest || lane.may_be_link_scope() {
            return Some(packet);
        }
        let choice_hash = self.choice_seed.choice(&lane.key, policy.stickiness);
        let healthy = |target| self.conditions.of(target) == Condition::Healthy;
        let Some(Choice { target: target_id, fail_open: false }) =
            wire.gateway.map.choose(choice_hash, healthy)
        else {
            return Some(packet);
        };
        let Some(Some(target)) = forwarding.targets.get(target_id.index()) else { return Some(packet) };
        let Some(template) = &target.template else { return Some(packet) };
        let Some(header) = packet.bytes().first_chunk() else { return Some(packet) };
        let Some(link) = self.flows.links.intern_plain(wire.port, header) else { return Some(packet) };
        let first = FirstPacket { key: &lane.key, hash: lane.probe.hash(), facts };
        let debts = (false, Debts::NONE);
        let whose = (target_id, target.generation);
        let cookie = match self.flows.begin(&first, whose, link, debts, self.now, &self.counters) {
            Ok(id) => self.flows.table.cookie(id),
            Err(NoRoom) => {
                self.counters.gateway(wire.gateway_id).stateless_packets.add(1);
                self.flows.stateless_cookie(self.worker, first.hash, lane.direction, link) // F-12
            }
        };
        let Some(front) = packet.replace_front(LINK_LEN, lane.total_len) else {
            self.counters.dropped(DropReason::NoHeadroom);
            return None;
        };
        let source_port = wire.underlay.source_port(template, self.worker, first.hash);
        template.write_before(wire.head(lane), front, (lane.total_len, source_port, cookie.0));
        let fate = Fate::Forwarded { target: target_id, bytes: lane.total_len };
        self.outbound.send(wire.underlay.port, packet, fate, &self.counters);
        None
    }
}

struct Express<'a, B, P> {
    pipeline: &'a mut Pipeline<B>,
    forwarding: &'a Forwarding,
    wire: &'a Wire<'a>,
    packets: &'a mut [B],
    lanes: &'a [Lane],
    /// The outer source port of a packet to a target, by its flow's hash.
    port_of: P,
}

impl<B: PacketBuf, P: Fn(&OuterTemplate, u64) -> u16> Stage for Express<'_, B, P> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Express { pipeline, forwarding, wire, packets, lanes, port_of } = self;
        let Pipeline { flows, conditions, outbound, now, .. } = pipeline;
        let fates = outbound.free_fates(wire.underlay.port);
        let cookies = flows.table.own_cookies();
        let (now, targets) = (*now, &*forwarding.targets);
        let mut ready = 0;
        for ((packet, lane), fate) in packets.iter_mut().zip(lanes).zip(fates) {
            let Some((id, entry)) = flows.table.guessed_mut(lane.guess, &lane.key) else { break };
            // A packet stamped after now is in doubt.
            let silent_for = now.0.wrapping_sub(entry.last_seen.0);
            if !entry.is_in(lane.steady)
                || entry.flags.intersects(MARKS)
                || lane.tcp_flags.intersects(TURNS)
                || silent_for >= wire.idle_ms[lane.steady as usize]
                || !conditions.is_in(entry.target)
            {
                break;
            }
            let target_id = entry.target;
            let Some(Some(target)) = targets.get(target_id.index()) else { break };
            let Some(template) = &target.template else { break };
            let Some(header) = packet.bytes().first_chunk() else { break };
            let link = entry.link[lane.direction.index()];
            if target.generation != entry.target_generation || !flows.links.is_plain(link, wire.port, header)
            {
                break;
            }
            let Some(front) = packet.replace_front(LINK_LEN, lane.total_len) else { break };
            let source_port = port_of(template, lane.probe.hash());
            template.write_before(
                wire.head(lane),
                front,
                (lane.total_len, source_port, cookies.of(id, entry).0),
            );
            entry.last_seen = now;
            *fate = Fate::Forwarded { target: target_id, bytes: lane.total_len };
            ready += 1;
        }
        ready
    }
}
