//! A question about a packet that has not come, and a worker's answer (`flowgate explain`).
//!
//! An [`Enquiry`] is made by the control core, goes to every worker through the worker's ring, is filled in
//! there and comes back: so nothing is made or freed on a worker. Whoever owns the packet's flow answers; the
//! others leave it empty. What is said holds for the moment of the answer, and asking changes nothing: no
//! entry, no timer, no counter, no allowance. `judging.rs` answers.

use super::arrival::Arrival;
use super::counters::{DropReason, IcmpAnswer, ResetTrigger};
use super::decide::account::Reasons;
use super::decide::{FlowFacts, Forgot, Verdict};
use super::fragments::{Datagram, First};
use super::messages::FlowRecord;
use crate::balance::{Choice, Row};
use crate::flow::{Cookie, Direction};
use crate::id::{EndpointId, InterfaceId, PortId, TargetId, WorkerId};
use crate::io::memory::MemoryBuf;

/// What is asked.
#[derive(Clone, Debug)]
pub enum Question {
    /// What would become of this frame if it came in now.
    Frame {
        /// By this port.
        port: PortId,
        /// The frame. A reset or an ICMP error that would answer it is written over it.
        frame: MemoryBuf,
        /// Of a later fragment: what the first of its datagram said, where whoever asks knows it.
        first: Option<First>,
    },
    /// Which flow has this cookie.
    Cookie(Cookie),
}

/// A question and the place for its answer.
#[derive(Clone, Debug)]
pub struct Enquiry {
    /// Tells it from others that are under way.
    pub number: u64,
    /// What is asked.
    pub question: Question,
    /// What this worker says to it; none if it is for another to say.
    pub answer: Option<Answered>,
}

/// What a worker says.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a worker fills it in place: a box would be an allocation")]
pub enum Answered {
    /// This would become of the packet.
    Judged(Judgement),
    /// It is a later fragment, of which the first of its datagram has said this: to be asked again with it.
    Follows(First),
    /// This flow has the cookie.
    Flow(FlowRecord),
    /// No flow has the cookie.
    NoFlow,
}

/// What would become of a packet, and why.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// Who says so.
    pub worker: WorkerId,
    /// The packet as a client's or a server's; none if it is no packet of a flow, or an appliance's.
    pub arrival: Option<Arrival>,
    /// The packet's datagram, if it is a fragment.
    pub datagram: Option<Datagram>,
    /// How its flow was looked for.
    pub by: By,
    /// The flow's entry.
    pub flow: Option<FlowSeen>,
    /// What surrounds it.
    pub around: Option<AroundSeen>,
    /// What was decided.
    pub verdict: Option<Verdict>,
    /// What led to that.
    pub reasons: Reasons,
    /// Where the hash leads, whether or not it is asked.
    pub choice: Option<ChoiceSeen>,
    /// What becomes of it in the end.
    pub ending: Ending,
}

/// How a packet's flow is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// It is not looked for.
    Nothing,
    /// By its own tuple.
    Tuple,
    /// By what an ICMP error quotes (M-5).
    Quoted,
    /// By the cookie of an answer (W-7).
    Cookie,
    /// By the cookie of an answer to a packet that was sent without state (F-12).
    Stateless,
}

/// A flow's entry as it was found.
#[derive(Clone, Copy, Debug)]
pub struct FlowSeen {
    /// As an operator sees it.
    pub record: FlowRecord,
    /// As decisions see it.
    pub facts: FlowFacts,
    /// Which way its first packet went.
    pub initiator: Direction,
}

/// What surrounds the flows of a load balancer on this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AroundSeen {
    /// Some target that new flows may go to is healthy.
    pub any_healthy: bool,
    /// So many of a hundred are.
    pub healthy_percent: u8,
    /// There is leave for a reset.
    pub may_reset: bool,
    /// Why a connection may be known to nobody though it is alive, if one may (F-8, F-12).
    pub forgot: Option<Forgot>,
}

/// What the hash says (F-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceSeen {
    /// The row of the table that the key leads to.
    pub number: u16,
    /// That row.
    pub row: Row,
    /// What comes of it as the targets are now.
    pub choice: Choice,
}

/// What becomes of a packet in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It goes to a target, as a whole or in so many pieces.
    Forwarded {
        /// The target.
        target: TargetId,
        /// Under this state.
        under: Under,
        /// From this outer UDP port (W-3).
        source_port: u16,
        /// One, or more if it has to be split (M-2).
        pieces: usize,
    },
    /// It is answered with a reset, which is in the question's frame.
    Reset {
        /// For this reason.
        trigger: ResetTrigger,
        /// The flow's target.
        target: Option<TargetId>,
    },
    /// It is answered with an ICMP error.
    Error(IcmpAnswer),
    /// It comes from an appliance and leaves by its endpoint.
    Delivered {
        /// The appliance.
        target: TargetId,
        /// Where.
        exit: ExitSeen,
    },
    /// It crosses the wire, to this port.
    Crosses(PortId),
    /// It is the host's, at this interface.
    Host(InterfaceId),
    /// A later fragment: it waits for its first (M-4).
    WaitsForFirst,
    /// It is dropped.
    Dropped(DropReason),
}

/// Under what state a packet goes to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// A flow that goes on.
    Flow,
    /// A flow that goes on there from now on, as its target is out.
    Moved,
    /// A new flow.
    NewFlow,
    /// None: the table is full (F-12).
    Stateless,
}

/// Where an answer leaves its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitSeen {
    /// By this port of a wire.
    Port(PortId),
    /// By this interface, by the routes of a routed endpoint.
    Interface {
        /// The endpoint.
        endpoint: EndpointId,
        /// The interface's port.
        port: PortId,
        /// In so many pieces.
        pieces: usize,
        /// Once the next hop's link-layer address is known.
        waits: bool,
    },
}
