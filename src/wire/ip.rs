//! What IPv4 and IPv6 have in common: the version, the place of a fragment in its datagram, the
//! protocol numbers Flowgate tells apart, and the ways in which an IP packet can be malformed.

#![forbid(unsafe_code)]

use thiserror::Error;

/// IANA protocol numbers (IPv4 `Protocol`, IPv6 `Next Header`).
pub mod protocol {
    /// IPv6 hop-by-hop options (RFC 8200 4.3).
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// IPv6 routing header (RFC 8200 4.4).
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header (RFC 8200 4.5).
    pub const FRAGMENT: u8 = 44;
    /// Encapsulating security payload (RFC 4303).
    pub const ESP: u8 = 50;
    /// Authentication header (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options (RFC 8200 4.6).
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: u8 = 136;

    /// Whether packets of this protocol have ports, or as ICMP does an identifier in their place.
    #[inline]
    #[must_use]
    pub fn has_ports(protocol: u8) -> bool {
        matches!(protocol, TCP | UDP | UDP_LITE | SCTP | ICMP | ICMPV6)
    }
}

/// Which IP a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4 (RFC 791).
    V4,
    /// IPv6 (RFC 8200).
    V6,
}

impl IpVersion {
    /// The number that stands in the header's first four bits: 4 or 6.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        }
    }
}

/// A packet's place in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// All of the datagram (also IPv6's "atomic fragment", RFC 6946).
    Whole,
    /// The first fragment: it has the transport header, more follows.
    First,
    /// A later fragment: no transport header, so no ports and no flags.
    Later,
}

/// Why bytes are not an IP packet that can be given to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum PacketError {
    /// The bytes end inside the IP header or an extension header.
    #[error("cut inside the IP header")]
    Truncated,
    /// Neither IPv4 nor IPv6; the version seen.
    #[error("IP version {0}, expected 4 or 6")]
    BadVersion(u8),
    /// IPv4 `IHL` below 5.
    #[error("IPv4 header length below 20 bytes")]
    BadHeaderLength,
    /// The IP header's length is smaller than the headers, or larger than the bytes there are.
    #[error("the IP header's length and the packet's disagree")]
    LengthMismatch,
    /// The packet ends inside the transport header, or before the end of TCP's options.
    #[error("cut inside the transport header")]
    TransportTruncated,
    /// TCP's data offset is below 5 words.
    #[error("TCP data offset below 20 bytes")]
    BadDataOffset,
    /// More IPv6 extension headers than are walked (M-6).
    #[error("more than {} IPv6 extension headers", super::ipv6::MAX_EXTENSION_HEADERS)]
    TooManyExtensionHeaders,
    /// A second IPv6 fragment header (RFC 8200 4.1 has it once): which piece of which datagram it is, two readers may
    /// see differently (M-4).
    #[error("two IPv6 fragment headers")]
    TwoFragmentHeaders,
}
