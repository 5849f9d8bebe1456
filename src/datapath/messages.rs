//! What the control core and a worker say to each other, over two single-producer
//! single-consumer rings a worker. These are the only ways between them.

use std::net::IpAddr;
use std::sync::Arc;

use super::capture::Capture;
use super::counters::ResetTrigger;
use super::enquiry::Enquiry;
use super::flow_log::FlowLog;
use super::forwarding::{Condition, Forwarding};
use crate::flow::{FlowState, Timers};
use crate::id::{EndpointId, GatewayId, InterfaceId, Millis, TargetId, WorkerId};
use crate::wire::ethernet::MacAddr;

/// Messages to a worker. A worker that polls takes them within a round of its loop.
#[derive(Debug)]
pub enum ToWorker {
    /// Use this from now on, and send the one before back.
    Forwarding(Arc<Forwarding>),
    /// A target's condition changed; answered by [`FromWorker::ConditionApplied`].
    Condition {
        /// The target.
        target: TargetId,
        /// Which holder of that slot is meant.
        generation: u16,
        /// Its condition from now on.
        condition: Condition,
        /// Comes back in the answer, so that the two can be matched.
        sequence: u64,
    },
    /// A neighbour's link-layer address is known, is another, or is not known any more.
    Neighbour {
        /// The interface whose link it is on.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
        /// Its link-layer address; `None`: it does not answer any more.
        mac: Option<MacAddr>,
    },
    /// Capture packets, until the control core drops the capture's other end.
    Capture(Box<Capture>),
    /// Walk the flow table, a few entries a round, and send what matches.
    ScanFlows(FlowFilter),
    /// Tell of new TCP flows, or no longer ([`FromWorker::Begun`]).
    TellBegun(bool),
    /// Say what would become of a packet; the form comes back by [`FromWorker::Enquiry`].
    Enquire(Box<Enquiry>),
    /// Log flows from now on.
    StartFlowLog(Box<FlowLog>),
    /// Tell of the flows that go on, a few entries a round, and give the log back.
    StopFlowLog,
    /// Set the worker's clock forward by so many milliseconds (tests of timers only).
    AdvanceClock(u32),
    /// Be faulty, for tests of what becomes of it.
    #[cfg(any(debug_assertions, feature = "faults"))]
    Fault(PutFault),
}

/// A fault that is put into a worker on purpose.
#[cfg(any(debug_assertions, feature = "faults"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutFault {
    /// It panics.
    Panic,
    /// It goes no round for so long.
    Stall(std::time::Duration),
}

/// Messages from a worker. If the ring is full, events are counted as lost; a retired forwarding
/// state, a form and a scan wait for room in the worker.
#[derive(Debug)]
pub enum FromWorker {
    /// This forwarding state is not used by the worker any more: from here on every packet is treated by the one that was
    /// sent after it.
    Retired {
        /// What it went by.
        forwarding: Arc<Forwarding>,
        /// Since when it does no more, in cycles of the workers' clock.
        at_cycles: u64,
    },
    /// From here on every packet is treated by the new condition (H-7).
    ConditionApplied {
        /// Who.
        worker: WorkerId,
        /// The message's sequence.
        sequence: u64,
        /// When, in cycles of the workers' clock.
        at_cycles: u64,
    },
    /// A reset was sent.
    Reset(ResetRecord),
    /// A packet waits for this neighbour's link-layer address, or is dropped for want of it; told once a
    /// second at most. Answered by [`ToWorker::Neighbour`], to every worker.
    Resolve {
        /// The interface whose link it is on.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
    },
    /// A TCP flow began, and this was asked for.
    Begun(BegunRecord),
    /// A flow that a scan found.
    Flow(FlowRecord),
    /// This capture is over and is to be freed.
    CaptureOver(Box<Capture>),
    /// What the worker says to a question, or that it is not for it to say.
    Enquiry(Box<Enquiry>),
    /// The scan is over.
    ScanDone {
        /// Who.
        worker: WorkerId,
        /// Which scan.
        scan: u32,
        /// Flows that matched, those beyond the limit too.
        matching: u64,
    },
    /// The flow log is over, and this is what it was done with.
    FlowLogOver(Box<FlowLog>),
}

/// One reset that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetRecord {
    /// What made the gateway send it.
    pub trigger: ResetTrigger,
    /// The load balancer.
    pub gateway: GatewayId,
    /// The flow's target; `None` for a packet of no flow.
    pub target: Option<TargetId>,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Who was told: the sender of the packet that was answered, or the end that was told unasked.
    pub to: (IpAddr, u16),
    /// The other end of its connection.
    pub from: (IpAddr, u16),
    /// When, in cycles of the workers' clock.
    pub at_cycles: u64,
}

/// A TCP flow that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRecord {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The side that sent the first packet.
    pub initiator: (IpAddr, u16),
    /// The other side.
    pub responder: (IpAddr, u16),
    /// The target that it was given to.
    pub target: TargetId,
    /// When, in cycles of the workers' clock.
    pub at_cycles: u64,
}

/// Which flows a scan is to send. A field that is `None` matches all.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowFilter {
    /// Which scan this is; told back with all that it finds.
    pub scan: u32,
    /// Flows with this target.
    pub target: Option<TargetId>,
    /// Flows of this load balancer.
    pub gateway: Option<GatewayId>,
    /// Flows of this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Flows of this IP protocol.
    pub protocol: Option<u8>,
    /// Flows one of whose ends has this address.
    pub address: Option<IpAddr>,
    /// Flows one of whose ends has this port.
    pub port: Option<u16>,
    /// Flows in this state.
    pub state: Option<FlowState>,
    /// Flows that live under the timers that hold and would have ended under these.
    pub ended_by: Option<Timers>,
    /// Send at most so many; the rest is only counted.
    pub limit: u32,
}

/// A flow, as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The scan that found it.
    pub scan: u32,
    /// The worker that owns it.
    pub worker: WorkerId,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The IP protocol.
    pub protocol: u8,
    /// The side that sent the first packet.
    pub initiator: (IpAddr, u16),
    /// The other side.
    pub responder: (IpAddr, u16),
    /// Its target.
    pub target: TargetId,
    /// Which holder of that slot.
    pub target_generation: u16,
    /// Its state.
    pub state: FlowState,
    /// Its cookie on the wire.
    pub cookie: u32,
    /// Whether it was made while no target was healthy (F-6).
    pub fail_open: bool,
    /// How long until it idles out, in milliseconds, if no packet comes.
    pub expires_in_ms: u32,
    /// The last packet of either side, on the workers' clock.
    pub last_seen: Millis,
    /// The workers' clock when this was written.
    pub now: Millis,
}
