//! What is known of a captured packet: where it was seen and what became of it. A worker writes it in front of the
//! packet's bytes, the control core reads it there.

use super::super::counters::{DropReason, IcmpAnswer, ResetTrigger, counted_enum};
use super::Seen;
use crate::id::{EndpointId, GatewayId, PortId, WorkerId};

counted_enum! {
    /// Where on its way through the gateway a packet is captured.
    Point {
        /// As it came in at an endpoint, or from the host's network stack.
        Arrived = "arrived",
        /// Encapsulated, as the port to the target took it.
        Encapsulated = "encapsulated",
        /// As it came in from the target side.
        Returned = "returned",
        /// As it left by its endpoint, after its target had returned it.
        Delivered = "delivered",
        /// Where it was dropped: as it came in, or as it would have left.
        Dropped = "dropped",
        /// A TCP reset, as it left.
        Reset = "reset",
        /// Whatever else left: ICMP errors of the gateway's own, frames that cross a wire, frames of the host.
        Other = "other",
    }
}

impl Point {
    /// Whether the packet was on its way in.
    pub fn is_inbound(self) -> bool {
        matches!(self, Point::Arrived | Point::Returned)
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes to a target.
    Forwarded,
    /// It goes on by its endpoint.
    Delivered,
    /// It is answered with a TCP reset; the packet that left is that reset.
    Reset(ResetTrigger),
    /// It is answered with an ICMP error; the packet that left is that error.
    Answered(IcmpAnswer),
    /// It crosses a wire untouched.
    Crossed,
    /// It is the host's.
    Host,
    /// It is from the host and leaves.
    FromHost,
    /// It is a fragment that the gateway made, but for the last of its packet (M-2).
    Piece,
    /// Another worker goes on with it.
    HandedOff,
    /// It waits, for the first fragment of its datagram (M-4) or for a link-layer address.
    Waits,
    /// It is dropped.
    Dropped(DropReason),
}

impl Verdict {
    fn encode(self) -> [u8; 2] {
        #[expect(clippy::cast_possible_truncation, reason = "enums of some tens")]
        let small = |index: usize| index as u8;
        match self {
            Verdict::Forwarded => [0, 0],
            Verdict::Delivered => [1, 0],
            Verdict::Reset(trigger) => [2, small(trigger.index())],
            Verdict::Answered(answer) => [3, small(answer.index())],
            Verdict::Crossed => [4, 0],
            Verdict::Host => [5, 0],
            Verdict::FromHost => [6, 0],
            Verdict::Piece => [7, 0],
            Verdict::HandedOff => [8, 0],
            Verdict::Waits => [9, 0],
            Verdict::Dropped(reason) => [10, small(reason.index())],
        }
    }

    fn decode([kind, detail]: [u8; 2]) -> Option<Verdict> {
        let detail = usize::from(detail);
        Some(match kind {
            0 => Verdict::Forwarded,
            1 => Verdict::Delivered,
            2 => Verdict::Reset(*ResetTrigger::ALL.get(detail)?),
            3 => Verdict::Answered(*IcmpAnswer::ALL.get(detail)?),
            4 => Verdict::Crossed,
            5 => Verdict::Host,
            6 => Verdict::FromHost,
            7 => Verdict::Piece,
            8 => Verdict::HandedOff,
            9 => Verdict::Waits,
            10 => Verdict::Dropped(*DropReason::ALL.get(detail)?),
            _ => return None,
        })
    }
}

/// What is known of a captured packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When, in cycles of the workers' clock.
    pub at_cycles: u64,
    /// Bytes of the frame.
    pub length: u32,
    /// Bytes of it that were kept.
    pub kept: u32,
    /// The port that it came in by, or left by. `None`: its bytes begin with the IP header, as it waited without a
    /// link header.
    pub port: Option<PortId>,
    /// The worker that captured it.
    pub worker: WorkerId,
    /// Where.
    pub point: Point,
    /// What became of it.
    pub verdict: Verdict,
    /// Its endpoint, if that is known.
    pub endpoint: Option<EndpointId>,
    /// Its load balancer, if that is known.
    pub gateway: Option<GatewayId>,
    /// The address of its flow's target, if that is known.
    pub target: Option<u32>,
    /// Its flow's cookie, if that is known.
    pub cookie: Option<u32>,
}

/// Bytes of a record in the ring.
pub const HEADER_LEN: usize = 40;

/// In place of an id that is not known; no such id is ever given out.
const NONE: u16 = u16::MAX;

const HAS_TARGET: u8 = 1;
const HAS_COOKIE: u8 = 2;

impl Record {
    /// A record of a packet of this length, to be completed.
    pub fn new(point: Point, verdict: Verdict, seen: &Seen, length: usize) -> Record {
        Record {
            at_cycles: 0,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            kept: 0,
            port: None,
            worker: WorkerId(0),
            point,
            verdict,
            endpoint: seen.endpoint,
            gateway: seen.gateway,
            target: seen.target,
            cookie: seen.cookie,
        }
    }

    /// As it stands in the ring.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let id = |id: Option<u16>| id.unwrap_or(NONE).to_le_bytes();
        let flags = if self.target.is_some() { HAS_TARGET } else { 0 }
            | if self.cookie.is_some() { HAS_COOKIE } else { 0 };
        let mut out = [0; HEADER_LEN];
        let mut rest = out.as_mut_slice();
        let mut put = |bytes: &[u8]| {
            if let Some((here, behind)) = std::mem::take(&mut rest).split_at_mut_checked(bytes.len()) {
                here.copy_from_slice(bytes);
                rest = behind;
            }
        };
        put(&self.at_cycles.to_le_bytes());
        put(&self.length.to_le_bytes());
        put(&self.kept.to_le_bytes());
        put(&self.target.unwrap_or(0).to_le_bytes());
        put(&self.cookie.unwrap_or(0).to_le_bytes());
        put(&id(self.port.map(|port| port.0)));
        put(&id(self.endpoint.map(|endpoint| endpoint.0)));
        put(&id(self.gateway.map(|gateway| gateway.0)));
        #[expect(clippy::cast_possible_truncation, reason = "seven points")]
        let point = self.point.index() as u8;
        let [kind, detail] = self.verdict.encode();
        put(&[flags, self.worker.0, point, kind, detail]);
        out
    }

    /// What [`Record::encode`] wrote; `None` if it did not write this.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Option<Record> {
        let mut rest = bytes.as_slice();
        fn word<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
            let (word, behind) = rest.split_first_chunk()?;
            *rest = behind;
            Some(*word)
        }
        let at_cycles = u64::from_le_bytes(word(&mut rest)?);
        let mut double = || word(&mut rest).map(u32::from_le_bytes);
        let (length, kept, target, cookie) = (double()?, double()?, double()?, double()?);
        let mut id = || word(&mut rest).map(u16::from_le_bytes).map(|id| (id != NONE).then_some(id));
        let (port, endpoint, gateway) = (id()?, id()?, id()?);
        let [flags, worker, point, kind, detail] = word(&mut rest)?;
        Some(Record {
            at_cycles,
            length,
            kept,
            port: port.map(PortId),
            worker: WorkerId(worker),
            point: *Point::ALL.get(usize::from(point))?,
            verdict: Verdict::decode([kind, detail])?,
            endpoint: endpoint.map(EndpointId),
            gateway: gateway.map(GatewayId),
            target: (flags & HAS_TARGET != 0).then_some(target),
            cookie: (flags & HAS_COOKIE != 0).then_some(cookie),
        })
    }
}
