//! ICMP (RFC 792) and ICMPv6 (RFC 4443): which messages are errors that quote a packet, which are echoes
//! with an identifier, which belong to one link only. The gateway's own errors are written by [`error`].

#![forbid(unsafe_code)]

use super::ip::IpVersion;
use super::packet::{Kind, Packet};

pub mod error;

/// Bytes before the quoted packet of an error, and of an echo before its data.
pub const HEADER_LEN: usize = 8;

/// What a message is to the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpClass {
    /// Quotes the packet it is about.
    Error,
    /// Echo request or reply: has an identifier.
    Echo,
    /// ICMPv6 router and neighbour discovery (RFC 4861): never crosses a router.
    NeighbourDiscovery,
    /// ICMPv6 multicast listener discovery (RFC 2710, RFC 3810): the same.
    ListenerDiscovery,
    /// Anything else.
    Other,
}

/// What a message of this type is.
#[inline]
pub const fn classify(version: IpVersion, icmp_type: u8) -> IcmpClass {
    match (version, icmp_type) {
        // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
        (IpVersion::V4, 3 | 4 | 5 | 11 | 12) => IcmpClass::Error,
        // Destination unreachable, packet too big, time exceeded, parameter problem.
        (IpVersion::V6, 1..=4) => IcmpClass::Error,
        (IpVersion::V4, 0 | 8) | (IpVersion::V6, 128 | 129) => IcmpClass::Echo,
        (IpVersion::V6, 130..=132 | 143) => IcmpClass::ListenerDiscovery,
        (IpVersion::V6, 133..=137) => IcmpClass::NeighbourDiscovery,
        _ => IcmpClass::Other,
    }
}

/// The packet that an ICMP error quotes, to be read with [`Packet::parse_quoted`]; `None` if `packet`,
/// which was parsed from `ip`, is no ICMP error. Extensions after the quoted bytes (RFC 4884)
/// are not cut off: only the quoted headers are of interest.
#[inline]
pub fn quoted<'a>(ip: &'a [u8], packet: &Packet) -> Option<&'a [u8]> {
    if packet.kind != Kind::IcmpError {
        return None;
    }
    ip.get(usize::from(packet.header_len) + HEADER_LEN..usize::try_from(packet.total_len).ok()?)
}
