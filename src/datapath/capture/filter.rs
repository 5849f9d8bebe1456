//! Which packets a capture is for. What an operator names is turned into numbers by the control core; all that is
//! given must hold.

use super::super::counters::DropReason;
use super::record::{Point, Record, Verdict};
use super::{Seen, Tuple};
use crate::id::{EndpointId, GatewayId};
use crate::wire::ip::IpVersion;

/// Which packets are captured. The default asks for all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter {
    /// At these points of their way.
    pub points: Points,
    /// Dropped for one of these reasons; such a packet is asked for where it came in, too.
    pub reasons: Option<Reasons>,
    /// Of a flow with these two ends, in either direction.
    pub ends: [End; 2],
    /// Of this IP protocol.
    pub protocol: Option<u8>,
    /// To, from or of the flows of a target with this address.
    pub target: Option<u32>,
    /// Of this load balancer.
    pub gateway: Option<GatewayId>,
    /// Of this endpoint.
    pub endpoint: Option<EndpointId>,
}

/// A set of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Points(u8);

impl Points {
    /// These.
    pub fn of(points: impl IntoIterator<Item = Point>) -> Points {
        Points(points.into_iter().fold(0, |set, point| set | 1 << point.index()))
    }

    fn has(self, point: Point) -> bool {
        self.0 & 1 << point.index() != 0
    }
}

impl Default for Points {
    fn default() -> Points {
        Points(u8::MAX)
    }
}

/// A set of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons(u64);

const _: () = assert!(DropReason::COUNT <= 64, "a bit for each");

impl Reasons {
    /// These.
    pub fn of(reasons: impl IntoIterator<Item = DropReason>) -> Reasons {
        Reasons(reasons.into_iter().fold(0, |set, reason| set | 1 << reason.index()))
    }

    fn has(self, reason: DropReason) -> bool {
        self.0 & 1 << reason.index() != 0
    }
}

/// One end of a flow. What is not given is any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Its address.
    pub address: Option<Prefix>,
    /// Its port.
    pub port: Option<u16>,
}

impl End {
    fn is_any(self) -> bool {
        self == End::default()
    }

    fn is(self, version: IpVersion, (address, port): (u128, u16)) -> bool {
        self.address.is_none_or(|prefix| prefix.has(version, address))
            && self.port.is_none_or(|wanted| wanted == port)
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    version: IpVersion,
    network: u128,
    /// Bits that may differ.
    free: u32,
}

impl Prefix {
    /// The addresses of which the first `length` bits are those of `address`, an IPv4 address in the low 32 bits.
    pub fn new(version: IpVersion, address: u128, length: u8) -> Prefix {
        let bits = match version {
            IpVersion::V4 => 32,
            IpVersion::V6 => 128,
        };
        Prefix { version, network: address, free: bits - u32::from(length).min(bits) }
    }

    fn has(self, version: IpVersion, address: u128) -> bool {
        let differs = address ^ self.network;
        self.version == version && differs.checked_shr(self.free).unwrap_or(0) == 0
    }
}

impl Filter {
    /// Whether a packet may be asked for, by what is known before it was handled.
    pub fn may_match(&self, seen: &Seen) -> bool {
        let of_endpoint = self.endpoint.is_none() || self.endpoint == seen.endpoint;
        let ends_matter = self.protocol.is_some() || self.ends.iter().any(|end| !end.is_any());
        // An ICMP error is of its own ends, and of the flow that it quotes (M-5).
        let of_tuple =
            !ends_matter || [seen.tuple, seen.quoted].iter().flatten().any(|tuple| self.is_of(tuple));
        of_endpoint && of_tuple
    }

    /// Whether a packet is asked for.
    pub fn matches(&self, record: &Record, seen: &Seen) -> bool {
        let of_reason = self.reasons.is_none_or(|reasons| match record.verdict {
            Verdict::Dropped(reason) => reasons.has(reason),
            _ => false,
        });
        self.points.has(record.point)
            && of_reason
            && (self.target.is_none() || self.target == record.target)
            && (self.gateway.is_none() || self.gateway == record.gateway)
            && self.may_match(seen)
    }

    fn is_of(&self, tuple: &Tuple) -> bool {
        let [one, other] = self.ends;
        let of_ends = |from, to| one.is(tuple.version, from) && other.is(tuple.version, to);
        self.protocol.is_none_or(|protocol| protocol == tuple.protocol)
            && (of_ends(tuple.source, tuple.destination) || of_ends(tuple.destination, tuple.source))
    }
}
