//! The fast path: the packet that nearly every packet is.
//!
//! A whole TCP or UDP packet without options in its IP header, no SYN, FIN or reset, of a flow that is
//! established, owes nothing and whose target is in, at a wire: such a packet changes nothing but the time at which
//! its flow was last seen, and what becomes of it needs no [`decide`](super::decide::decide). Here it is read
//! plainly ([`Plain`]), held against its flow's entry, and sent, in both directions. Everything else, and
//! whatever is in doubt, is left to the general way, which would do with these packets exactly the same: the
//! tests of `tests/pipeline` run both against each other. First packets have a short way of their own too.
//!
//! The [`pipeline`](super::pipeline) reads a burst ([`Wire::read_burst`], [`read_answers`]), looks its flows up
//! ([`guess_entries`]), and has made ready, from the front, what needs no more (`express`, `begin`, `express_back`).

mod back;
mod begin;
mod counting;
mod lanes;
mod out;

pub use back::{AnswerLane, AnswerLanes, read_answers};
pub(super) use counting::{count_answers, count_lanes, prefetch_lanes};
pub use lanes::{Lane, Lanes, Wire, guess_entries};

use crate::flow::{Direction, FlowFlags, FlowKey};
use crate::id::EndpointId;
use crate::wire::ethernet;
use crate::wire::geneve::outer::OUTER_LEN;
use crate::wire::plain::Plain;
use crate::wire::tcp::TcpFlags;

#[expect(clippy::cast_possible_truncation, reason = "14 and 82")]
const LINK_LEN: u32 = ethernet::HEADER_LEN as u32;
#[expect(clippy::cast_possible_truncation, reason = "14 and 82")]
const FRONT_LEN: u32 = OUTER_LEN as u32;

/// Control bits that change a flow, or may.
const TURNS: TcpFlags = TcpFlags::SYN.union(TcpFlags::FIN).union(TcpFlags::RST);

/// Marks of a flow whose packets are not all alike.
const MARKS: FlowFlags = FlowFlags::FAIL_OPEN.union(FlowFlags::OWED_LOW).union(FlowFlags::OWED_HIGH);

/// Which way a packet goes through the stages of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It was read plainly.
    Plain,
    /// It was read with care.
    Careful,
    /// It follows another packet (M-4, M-5).
    Follower,
    /// It is no packet of a flow.
    Unread,
    /// It is another worker's.
    Others,
}

#[inline(always)]
fn key_of_v6(endpoint: EndpointId, plain: &Plain<u128>) -> (FlowKey, Direction) {
    let Plain { src, dst, ports, protocol, .. } = *plain;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let (src_port, dst_port) = ((ports >> 16) as u16, ports as u16);
    FlowKey::new(endpoint, 6, protocol, src, dst, src_port, dst_port)
}
