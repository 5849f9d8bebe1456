//! From an appliance back to the wire: the stages of a burst of answers.

use super::super::flows::{Flows, is_live};
use super::super::forwarding::{Forwarding, PortRole};
use super::super::outbound::{Delivery, Note};
use super::super::pipeline::Pipeline;
use super::{Course, FRONT_LEN, TURNS, key_of_v6};
use crate::flow::{Cookie, Direction, FlowKey, Table};
use crate::id::{PortId, TargetId};
use crate::io::isa::{Isa, Stage};
use crate::io::{BURST, PacketBuf};
use crate::wire::geneve::outer::OUTER_LEN;
use crate::wire::geneve::plain::Plain as PlainAnswer;
use crate::wire::packet::protocol;
use crate::wire::plain::Plain;

/// What is known of one answer of a burst, from stage to stage.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLane {
    /// The flow's cookie.
    pub cookie: Cookie,
    /// Which way it goes through the stages; it is never a follower.
    pub course: Course,
    /// Where it leaves, once it is ready.
    pub way: Delivery,
}

/// The lanes of a burst of answers.
pub type AnswerLanes = Box<[AnswerLane; BURST]>;

impl AnswerLane {
    /// What no packet was read into.
    pub const EMPTY: AnswerLane = AnswerLane {
        cookie: Cookie(0),
        course: Course::Unread,
        way: Delivery { port: PortId(0), note: Note { target: TargetId(0), bytes: 0 } },
    };
}

impl AsRef<Delivery> for AnswerLane {
    fn as_ref(&self) -> &Delivery {
        &self.way
    }
}

/// First stage of answers: asks for their flows' entries and reads them plainly; returns whether there are any
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
        // Where the cookie stands in a plain answer is read of any frame: at worst a line is asked for in vain. In a loop
        // of its own, so short that many lines are on their way at once.
        for packet in burst {
            packet.prefetch();
            if let Some(answer) = PlainAnswer::of(packet.bytes()) {
                table.prefetch_cookie(Cookie(answer.cookie()));
            }
        }
        let mut unread = false;
        for (packet, lane) in burst.iter().zip(lanes) {
            let frame = packet.bytes();
            match PlainAnswer::of(frame) {
                Some(answer) if packet.is_contiguous() && answer.is_answer(ours, frame.len()) => {
                    lane.cookie = Cookie(answer.cookie());
                    lane.course = Course::Plain;
                }
                _ => {
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

/// The kinds of flows whose packets are held against their keys at once.
const TCP_V4: u16 = 4 << 8 | protocol::TCP as u16;
const UDP_V4: u16 = 4 << 8 | protocol::UDP as u16;

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
            if lane.course != Course::Plain {
                break;
            }
            let Ok(id) = flows.table.by_cookie(lane.cookie) else { break };
            let entry = flows.table.entry(id);
            if !is_live(entry) {
                break;
            }
            let (key, target_id) = (entry.key(), entry.target);
            let frame = packet.bytes();
            let Some(answer) = PlainAnswer::of(frame) else { break };
            let inner = match key.kind() {
                TCP_V4 => answer.inner_v4(protocol::TCP),
                UDP_V4 => answer.inner_v4(protocol::UDP),
                _ => None,
            };
            let (direction, of_it, len) = match inner {
                Some(inner) if !inner.tcp_flags.intersects(TURNS) => {
                    let (direction, of_it) = key.way_of_v4(inner.addresses, inner.ports);
                    (direction, of_it, inner.len)
                }
                Some(_) => break,
                None => inner_of_v6(key, frame, answer.end()),
            };
            // What hangs on the direction comes first, as it takes the longest.
            let header = flows.links.plain(entry.link[direction.index()]);
            let Some(PortRole::Wire { peer, .. }) = ports.get(header.port().index()) else { break };
            let Some(Some(target)) = targets.get(target_id.index()) else { break };
            let Some(endpoint) = endpoints.get(key.endpoint().index()) else { break };
            if target.generation != entry.target_generation
                || target.address != answer.source()
                || endpoint.id != answer.endpoint_id()
                || !of_it
            {
                break;
            }
            let Some(front) = packet.replace_front(FRONT_LEN, len.into()) else { break };
            header.write(front);
            lane.way = Delivery { port: *peer, note: Note { target: target_id, bytes: len.into() } };
            ready += 1;
        }
        ready
    }
}

/// Which way a plain inner IPv6 packet goes, whether it is of this flow and turns nothing, and its length. Out of line,
/// as the compiler would else make one way of the two, and both slower.
#[inline(never)]
fn inner_of_v6(of: &FlowKey, frame: &[u8], end: usize) -> (Direction, bool, u16) {
    let Some(plain) = frame.get(OUTER_LEN..end).and_then(Plain::<u128>::read) else {
        return (Direction::LowToHigh, false, 0);
    };
    let (key, direction) = key_of_v6(of.endpoint(), &plain);
    (direction, key == *of && !plain.tcp_flags.intersects(TURNS), plain.total_len)
}
