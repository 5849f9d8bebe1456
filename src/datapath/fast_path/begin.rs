//! From a client or a server to an appliance: the packets that begin a flow.

use super::super::conditions::Conditions;
use super::super::forwarding::{Condition, Forwarding, Target};
use super::super::opening::Opening;
use super::super::outbound::Note;
use super::super::pipeline::Pipeline;
use super::{LINK_LEN, Lane, Wire};
use crate::balance::Choice;
use crate::flow::{Direction, FlowFlags, FlowState, LinkId, NewEntry, NotInserted};
use crate::id::{Millis, TargetId};
use crate::io::isa::Stage;
use crate::io::{BURST, PacketBuf};
use crate::wire::packet::protocol;
use crate::wire::tcp::TcpFlags;

impl<B: PacketBuf> Pipeline<B> {
    /// Begins the flows of packets that were read plainly and have none, and makes them ready for the flows' targets
    /// (F-4, F-8), in place and from the front, until one needs more or another thing; returns how many. What they
    /// are is noted as by `express`.
    pub(in super::super) fn begin(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        packets: &mut [B],
        lanes: &[Lane],
        before: usize,
    ) -> usize {
        self.isa.run(Begin { pipeline: self, forwarding, wire, packets, lanes, before })
    }

    /// Tells the control core of the flows that were begun here: those of these lanes, which are noted behind so
    /// many others.
    #[cold]
    pub(in super::super) fn tell_begun_run(&mut self, wire: &Wire<'_>, lanes: &[Lane], before: usize) {
        for (place, lane) in lanes.iter().enumerate() {
            let note = self.outbound.free_notes(wire.underlay.port).get(before + place).copied();
            if let Some(Note { target, .. }) = note {
                self.tell_begun(&lane.key, lane.direction, target);
            }
        }
    }
}

struct Begin<'a, B> {
    pipeline: &'a mut Pipeline<B>,
    forwarding: &'a Forwarding,
    wire: &'a Wire<'a>,
    packets: &'a mut [B],
    lanes: &'a [Lane],
    before: usize,
}

/// Whether a packet begins a flow if it is of none, by what it says.
#[inline(always)]
fn begins(wire: &Wire<'_>, lane: &Lane) -> bool {
    let begins = if lane.key.protocol() == protocol::TCP {
        let bits = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        lane.tcp_flags & bits == TcpFlags::SYN && !wire.gateway.policy.mss_clamp
    } else {
        true
    };
    begins && lane.is_plain() && lane.total_len <= wire.longest && !lane.may_be_link_scope()
}

impl Lane {
    /// The flow that begins with the packet (F-8, F-9).
    #[inline(always)]
    fn new_entry(&self, target: &Target, id: TargetId, link: LinkId, now: Millis) -> NewEntry {
        let high = self.direction == Direction::HighToLow;
        NewEntry {
            state: if self.key.protocol() == protocol::TCP { FlowState::HalfOpen } else { FlowState::Other },
            flags: if high { FlowFlags::INITIATOR_HIGH } else { FlowFlags::empty() },
            target: id,
            target_generation: target.generation,
            link: if high { [LinkId::NONE, link] } else { [link, LinkId::NONE] },
            now,
        }
    }
}

impl Wire<'_> {
    /// The healthy target that a new flow with this choice hash goes to, if there is one (F-4).
    #[inline(always)]
    fn choose(&self, choice_hash: u64, conditions: &Conditions) -> Option<TargetId> {
        let healthy = |target| conditions.of(target) == Condition::Healthy;
        match self.gateway.map.choose(choice_hash, healthy) {
            Some(Choice { target, fail_open: false }) => Some(target),
            _ => None,
        }
    }
}

impl<B: PacketBuf> Stage for Begin<'_, B> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Begin { pipeline, forwarding, wire, packets, lanes, before } = self;
        let Pipeline { flows, conditions, outbound, now, worker, counters, choice_seed, .. } = pipeline;
        // All rows are asked for first.
        let (mut hashes, mut count) = ([0; BURST], 0);
        for (lane, hash) in lanes.iter().zip(&mut hashes) {
            if lane.guess.is_some() || !begins(wire, lane) {
                break;
            }
            *hash = choice_seed.choice(&lane.key, wire.gateway.policy.stickiness);
            wire.gateway.map.prefetch(*hash);
            count += 1;
        }
        flows.table.look_ahead(count);
        let cookies = flows.table.own_cookies();
        let notes = outbound.free_notes(wire.underlay.port).iter_mut().skip(before);
        let mut opening = Opening::new(flows, counters, wire.endpoint_id, count);
        let (mut ready, mut without_state) = (0, 0);
        let packets = packets.iter_mut().zip(lanes).take(count as usize);
        for (((packet, lane), choice_hash), note) in packets.zip(hashes).zip(notes) {
            let Some(target_id) = wire.choose(choice_hash, conditions) else { break };
            let Some(Some(target)) = forwarding.targets.get(target_id.index()) else { break };
            let Some(template) = &target.template else { break };
            let Some(header) = packet.bytes().first_chunk() else { break };
            let Some(link) = opening.link(wire.port, header) else { break };
            let hash = lane.probe.hash();
            let seat = match opening.seat(hash, &lane.key, *now) {
                Ok(seat) => Some(seat),
                Err(NotInserted::Full) => None,
                // It began with a packet before this one.
                Err(NotInserted::Exists(_)) => break,
            };
            let Some(front) = packet.replace_front(LINK_LEN, lane.total_len) else { break };
            let cookie = match seat {
                Some(seat) => {
                    let new = lane.new_entry(target, target_id, link, *now);
                    let (id, entry) = opening.take(seat, &lane.key, new);
                    let cookie = cookies.of(id, entry);
                    opening.count_first(id, lane.direction, lane.total_len);
                    cookie
                }
                None => {
                    without_state += 1;
                    opening.stateless_cookie(*worker, hash, lane.direction, *now) // F-12
                }
            };
            let source_port = wire.underlay.source_port(template, *worker, hash);
            template.write_before(wire.head(lane), front, (lane.total_len, source_port, cookie.0));
            if !cfg!(without = "notes") {
                *note = Note { target: target_id, bytes: lane.total_len };
            }
            ready += 1;
        }
        drop(opening);
        if without_state > 0 {
            counters.gateway(wire.gateway_id).stateless_packets.add(without_state);
        }
        ready
    }
}
