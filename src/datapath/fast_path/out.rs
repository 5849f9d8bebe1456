//! From a client or a server to an appliance: the packets of flows that go on.

use super::super::forwarding::Forwarding;
use super::super::outbound::Note;
use super::super::pipeline::Pipeline;
use super::super::steering::any_source_port;
use super::{LINK_LEN, Lane, MARKS, TURNS, Wire};
use crate::io::PacketBuf;
use crate::io::isa::Stage;
use crate::wire::geneve::outer::OuterTemplate;

impl<B: PacketBuf> Pipeline<B> {
    /// Third stage: makes packets ready for their flows' targets, in place and from the front, until one needs
    /// more than that; returns how many. They are noted in the port's queue, behind `before` others, which
    /// then [takes](super::outbound::Outbound::take_noted) them.
    pub(in super::super) fn express(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        packets: &mut [B],
        lanes: &[Lane],
        before: usize,
    ) -> usize {
        let (isa, worker) = (self.isa, self.worker);
        // Which of the two is known before a packet is looked at.
        match &wire.underlay.steering {
            None => {
                let port_of = |_: &OuterTemplate, hash| any_source_port(hash);
                isa.run(Express { pipeline: self, forwarding, wire, packets, lanes, before, port_of })
            }
            Some(steering) => {
                let port_of = |to: &OuterTemplate, hash| steering.source_port(to.answer_hash(), worker, hash);
                isa.run(Express { pipeline: self, forwarding, wire, packets, lanes, before, port_of })
            }
        }
    }
}

struct Express<'a, B, P> {
    pipeline: &'a mut Pipeline<B>,
    forwarding: &'a Forwarding,
    wire: &'a Wire<'a>,
    packets: &'a mut [B],
    lanes: &'a [Lane],
    before: usize,
    /// The outer source port of a packet to a target, by its flow's hash.
    port_of: P,
}

impl<B: PacketBuf, P: Fn(&OuterTemplate, u64) -> u16> Stage for Express<'_, B, P> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Express { pipeline, forwarding, wire, packets, lanes, before, port_of } = self;
        let Pipeline { flows, conditions, outbound, now, .. } = pipeline;
        let notes = outbound.free_notes(wire.underlay.port).iter_mut().skip(before);
        let cookies = flows.table.own_cookies();
        let (now, targets) = (*now, &*forwarding.targets);
        let mut ready = 0;
        for ((packet, lane), note) in packets.iter_mut().zip(lanes).zip(notes) {
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
            if !cfg!(without = "notes") {
                *note = Note { target: target_id, bytes: lane.total_len };
            }
            ready += 1;
        }
        ready
    }
}
