//! From an appliance back to the wire: the stages of a burst of answers.

use super::super::flows::{Flows, is_live};
use super::super::forwarding::{Forwarding, PortRole};
use super::super::outbound::Fate;
use super::super::pipeline::Pipeline;
use super::{Course, FRONT_LEN, TURNS, key_of_v6};
use crate::flow::{Cookie, Direction, FlowKey, Table};
use crate::id::PortId;
use crate::io::isa::{Isa, Stage};
use crate::io::{BURST, PacketBuf};
use crate::wire::geneve::outer::OUTER_LEN;
use crate::wire::geneve::plain::Plain as PlainAnswer;
use crate::wire::plain::Plain;

/// What is known of one answer of a burst, from stage to stage.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLane {
    /// What its headers say, if it was read plainly; else the cookie alone.
    pub answer: PlainAnswer,
    /// Which way it goes through the stages; it is never a follower.
    pub course: Course,
    /// Where it leaves, once it is ready.
    pub leaves_by: PortId,
    /// What it is then.
    pub fate: Fate,
}

/// The lanes of a burst of answers.
pub type AnswerLanes = Box<[AnswerLane; BURST]>;

impl AnswerLane {
    /// What no packet was read into.
    pub const EMPTY: AnswerLane = AnswerLane {
        answer: PlainAnswer::NONE,
        course: Course::Unread,
        leaves_by: PortId(0),
        fate: Fate::Piece,
    };
}

/// First stage of answers: reads them plainly and asks for their flows' entries; returns whether there are any
/// that are not plain, which are [`Course::Unread`].
pub fn read_answers<B: PacketBuf>(
    isa: Isa,
    table: &Table,
    ours: u32,
    burst: &[B],
    lanes: &mut [AnswerLane],
) -> bool {
    isa.run(ReadAnswers { table, ours, burst, lanes })
}

struct ReadAnswers<'a, B> {
    table: &'a Table,
    ours: u32,
    burst: &'a [B],
    lanes: &'a mut [AnswerLane],
}

impl<B: PacketBuf> Stage for ReadAnswers<'_, B> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let ReadAnswers { table, ours, burst, lanes } = self;
        let mut unread = false;
        for (packet, lane) in burst.iter().zip(lanes) {
            match PlainAnswer::read(packet.bytes(), ours).filter(|_| packet.is_contiguous()) {
                Some(answer) => {
                    table.prefetch_cookie(Cookie(answer.cookie));
                    (lane.answer, lane.course) = (answer, Course::Plain);
                }
                None => {
                    lane.course = Course::Unread;
                    unread = true;
                }
            }
        }
        unread
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// Second stage of answers: makes packets ready to leave their wires, in place and from the front, until one
    /// needs more than that; returns how many.
    pub(in super::super) fn express_back(
        &self,
        forwarding: &Forwarding,
        packets: &mut [B],
        answers: &mut [AnswerLane],
    ) -> usize {
        self.isa.run(ExpressBack { flows: &self.flows, forwarding, packets, answers })
    }
}

struct ExpressBack<'a, B> {
    flows: &'a Flows,
    forwarding: &'a Forwarding,
    packets: &'a mut [B],
    answers: &'a mut [AnswerLane],
}

impl<B: PacketBuf> Stage for ExpressBack<'_, B> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let ExpressBack { flows, forwarding, packets, answers } = self;
        let (targets, endpoints, ports) = (&*forwarding.targets, &*forwarding.endpoints, &*forwarding.ports);
        let mut ready = 0;
        for (packet, lane) in packets.iter_mut().zip(answers) {
            let answer = &lane.answer;
            let Ok(id) = flows.table.by_cookie(Cookie(answer.cookie)) else { break };
            let entry = flows.table.entry(id);
            let (key, target_id) = (entry.key(), entry.target);
            let Some(Some(target)) = targets.get(target_id.index()) else { break };
            let Some(endpoint) = endpoints.get(key.endpoint().index()) else { break };
            if lane.course != Course::Plain
                || !is_live(entry)
                || target.generation != entry.target_generation
                || target.address != answer.source
                || endpoint.id != answer.endpoint_id
            {
                break;
            }
            let Some(inner) = packet.bytes().get(OUTER_LEN..answer.end as usize) else { break };
            let read = if key.version() == 4 { inner_of_v4(key, inner) } else { inner_of_v6(key, inner) };
            let Some((direction, total_len)) = read else { break };
            let link = entry.link[direction.index()];
            let Some((came_by, header)) = flows.links.plain(link) else { break };
            let Some(PortRole::Wire { peer, .. }) = ports.get(came_by.index()) else { break };
            let Some(front) = packet.replace_front(FRONT_LEN, total_len.into()) else { break };
            header.write(front);
            (lane.leaves_by, lane.fate) =
                (*peer, Fate::Delivered { target: target_id, bytes: total_len.into() });
            ready += 1;
        }
        ready
    }
}

/// Direction and length of a plain inner packet of this flow that turns nothing.
#[inline(always)]
fn inner_of_v4(of: &FlowKey, ip: &[u8]) -> Option<(Direction, u16)> {
    let Plain { src, dst, ports, protocol, total_len, tcp_flags } = Plain::<u32>::read(ip)?;
    let (key, direction) = FlowKey::of_v4(of.endpoint(), protocol, src, dst, ports);
    (key == *of && !tcp_flags.intersects(TURNS)).then_some((direction, total_len))
}

/// The same of IPv6. Out of line, as the compiler would else make one way of the two, and both slower.
#[inline(never)]
fn inner_of_v6(of: &FlowKey, ip: &[u8]) -> Option<(Direction, u16)> {
    let plain = Plain::<u128>::read(ip)?;
    let (key, direction) = key_of_v6(of.endpoint(), &plain);
    (key == *of && !plain.tcp_flags.intersects(TURNS)).then_some((direction, plain.total_len))
}
