//! [`Packet`]: what the data path must know of one IP packet, read once from its headers and then kept
//! in registers and one cache line. The flow key, the decision and the reset are made from it.

#![forbid(unsafe_code)]

use super::icmp::{self, IcmpClass};
pub use super::ip::{Fragment, IpVersion, PacketError, protocol};
use super::ipv4::Ipv4Header;
use super::ipv6::{self, Ipv6Header};
use super::load::{be16, be32};
use super::tcp::{self, TcpFlags};

/// What a packet's transport is to the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// TCP, with its ports and flags.
    Tcp,
    /// UDP, UDP-Lite or SCTP, with ports.
    Datagram,
    /// An ICMP or ICMPv6 echo, its identifier in both ports.
    IcmpEcho,
    /// An ICMP or ICMPv6 error; [`icmp::quoted`] gives the packet that it is about (M-5).
    IcmpError,
    /// ICMPv6 router or neighbour discovery.
    NeighbourDiscovery,
    /// No ports: another protocol, another ICMP message, or a later fragment of anything.
    Other,
}

/// One IP packet's headers, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address; IPv4 in the low 32 bits.
    pub src: u128,
    /// Destination address; IPv4 in the low 32 bits.
    pub dst: u128,
    /// Bytes of the packet by its IP header: 20–65,575. A frame may be longer (padding). [`Packet::parse`]
    /// has proved that they are there; after [`Packet::parse_quoted`] they may not be.
    pub total_len: u32,
    /// Offset of the transport header from the start of the IP header.
    pub header_len: u16,
    /// Source port of TCP, UDP, UDP-Lite and SCTP, identifier of an ICMP echo; else 0.
    pub src_port: u16,
    /// Destination port of TCP, UDP, UDP-Lite and SCTP, identifier of an ICMP echo; else 0.
    pub dst_port: u16,
    /// Protocol, after IPv6's extension headers.
    pub protocol: u8,
    /// Which IP.
    pub version: IpVersion,
    /// Place in its datagram.
    pub fragment: Fragment,
    /// What its transport is to the data path.
    pub kind: Kind,
    /// TCP's control bits; empty if it is not TCP, or is quoted without them.
    pub tcp_flags: TcpFlags,
}

/// How much of a packet must be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All that its IP header says.
    Whole,
    /// The first 8 bytes after the IP header (RFC 792), as an ICMP error quotes it.
    Quoted,
}

impl Packet {
    /// Reads the IPv4 or IPv6 packet at the start of `ip`; bytes past the length that its header
    /// says are padding. A packet whose transport header is cut is an error, so every [`Kind::Tcp`] has a whole
    /// TCP header. Checksums are not judged.
    #[inline]
    pub fn parse(ip: &[u8]) -> Result<Packet, PacketError> {
        parse(ip, Extent::Whole)
    }

    /// Reads a packet as an ICMP error quotes it: cut after 8 bytes of its transport header or later, and
    /// with a length that says more (or, from some old senders, other) than what is there.
    pub fn parse_quoted(ip: &[u8]) -> Result<Packet, PacketError> {
        parse(ip, Extent::Quoted)
    }

    /// Traffic that never crosses a router, which a transparent wire leaves untouched: link-local
    /// addresses, link-local multicast, limited broadcast, IPv6's unspecified source (duplicate address
    /// detection) and neighbour discovery.
    #[inline]
    pub fn is_link_scope(&self) -> bool {
        match self.version {
            IpVersion::V4 => {
                let (src, dst) = (low32(self.src), low32(self.dst));
                dst >> 8 == 0x00e0_0000
                    || dst == u32::MAX
                    || dst >> 16 == LINK_LOCAL_V4
                    || src >> 16 == LINK_LOCAL_V4
            }
            IpVersion::V6 => {
                let (src, dst) = (top16(self.src), top16(self.dst));
                // RFC 4291 2.7: ff, four flags, scope 1 (interface) or 2 (link).
                matches!(dst & 0xff0f, 0xff01 | 0xff02)
                    || dst & 0xffc0 == LINK_LOCAL_V6
                    || src & 0xffc0 == LINK_LOCAL_V6
                    || self.src == 0
                    || self.kind == Kind::NeighbourDiscovery
            }
        }
    }

    /// Whether source or destination is a multicast or the limited broadcast address. A subnet's own
    /// broadcast address cannot be told from a host's; its frames are group addressed
    /// ([`is_group_addressed`](super::ethernet::is_group_addressed)).
    #[inline]
    pub fn is_multicast_or_broadcast(&self) -> bool {
        [self.src, self.dst].into_iter().any(|address| match self.version {
            IpVersion::V4 => low32(address) >> 28 == 0xe || low32(address) == u32::MAX,
            IpVersion::V6 => address >> 120 == 0xff,
        })
    }
}

/// 169.254.0.0/16 (RFC 3927).
const LINK_LOCAL_V4: u32 = 0xa9fe;
/// fe80::/10 (RFC 4291 2.5.6).
const LINK_LOCAL_V6: u16 = 0xfe80;

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "an IPv4 address is in the low 32 bits")]
const fn low32(address: u128) -> u32 {
    address as u32
}

#[inline]
const fn top16(address: u128) -> u16 {
    (address >> 112) as u16
}

#[inline(always)]
fn parse(ip: &[u8], extent: Extent) -> Result<Packet, PacketError> {
    match ip.first().map(|first| first >> 4) {
        Some(4) => parse_v4(ip, extent),
        Some(6) => parse_v6(ip, extent),
        Some(other) => Err(PacketError::BadVersion(other)),
        None => Err(PacketError::Truncated),
    }
}

#[inline(always)]
fn parse_v4(ip: &[u8], extent: Extent) -> Result<Packet, PacketError> {
    let header = Ipv4Header::parse(ip)?;
    let header_len = u16::from(header.header_len);
    let ip = match extent {
        Extent::Whole if header.total_len < header_len => return Err(PacketError::LengthMismatch),
        Extent::Whole => ip.get(..usize::from(header.total_len)).ok_or(PacketError::LengthMismatch)?,
        Extent::Quoted => ip,
    };
    let packet = Packet {
        src: u128::from(header.src),
        dst: u128::from(header.dst),
        total_len: u32::from(header.total_len),
        header_len,
        src_port: 0,
        dst_port: 0,
        protocol: header.protocol,
        version: IpVersion::V4,
        fragment: header.fragment,
        kind: Kind::Other,
        tcp_flags: TcpFlags::empty(),
    };
    with_transport(packet, ip, extent)
}

#[inline(always)]
fn parse_v6(ip: &[u8], extent: Extent) -> Result<Packet, PacketError> {
    let header = Ipv6Header::parse(ip)?;
    let total_len = ipv6::HEADER_LEN + usize::from(header.payload_len);
    let ip = match extent {
        Extent::Whole => ip.get(..total_len).ok_or(PacketError::LengthMismatch)?,
        Extent::Quoted => ip,
    };
    let transport = ipv6::walk(ip, header.next_header)?;
    let packet = Packet {
        src: header.src,
        dst: header.dst,
        total_len: 40 + u32::from(header.payload_len),
        header_len: transport.offset,
        src_port: 0,
        dst_port: 0,
        protocol: transport.protocol,
        version: IpVersion::V6,
        fragment: transport.fragment,
        kind: Kind::Other,
        tcp_flags: TcpFlags::empty(),
    };
    with_transport(packet, ip, extent)
}

/// Adds what the transport header says. `ip` ends where the packet does.
#[inline(always)]
fn with_transport(mut packet: Packet, ip: &[u8], extent: Extent) -> Result<Packet, PacketError> {
    if packet.fragment == Fragment::Later {
        return Ok(packet);
    }
    let at = usize::from(packet.header_len);
    let needed = match (packet.protocol, extent) {
        (protocol::TCP, Extent::Whole) => tcp::HEADER_LEN,
        // SCTP's common header is ports, verification tag and checksum (RFC 9260 3.1).
        (protocol::SCTP, Extent::Whole) => 12,
        (protocol::TCP | protocol::SCTP | protocol::UDP | protocol::UDP_LITE, _) => 8,
        (protocol::ICMP, _) if packet.version == IpVersion::V4 => return with_icmp(packet, ip),
        (protocol::ICMPV6, _) if packet.version == IpVersion::V6 => return with_icmp(packet, ip),
        _ => return Ok(packet),
    };
    let transport =
        ip.get(at..).filter(|rest| rest.len() >= needed).ok_or(PacketError::TransportTruncated)?;
    let ports = be32(transport, 0).ok_or(PacketError::TransportTruncated)?;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the word")]
    {
        packet.src_port = (ports >> 16) as u16;
        packet.dst_port = ports as u16;
    }
    packet.kind = Kind::Datagram;
    if packet.protocol == protocol::TCP {
        packet.kind = Kind::Tcp;
        if let Some(offset_and_flags) = be16(transport, 12) {
            let [offset, flags] = offset_and_flags.to_be_bytes();
            packet.tcp_flags = TcpFlags::from_bits_retain(flags);
            let data_offset = usize::from(offset >> 4) * 4;
            if extent == Extent::Whole {
                if data_offset < tcp::HEADER_LEN {
                    return Err(PacketError::BadDataOffset);
                }
                if data_offset > transport.len() {
                    return Err(PacketError::TransportTruncated);
                }
            }
        }
    }
    Ok(packet)
}

/// The rarer packets: ICMP and ICMPv6.
fn with_icmp(mut packet: Packet, ip: &[u8]) -> Result<Packet, PacketError> {
    let at = usize::from(packet.header_len);
    let icmp_type = *ip.get(at).ok_or(PacketError::TransportTruncated)?;
    packet.kind = match icmp::classify(packet.version, icmp_type) {
        IcmpClass::Error => Kind::IcmpError,
        IcmpClass::Echo => Kind::IcmpEcho,
        IcmpClass::NeighbourDiscovery => Kind::NeighbourDiscovery,
        IcmpClass::Other => Kind::Other,
    };
    if packet.kind != Kind::Other && ip.len() < at + icmp::HEADER_LEN {
        return Err(PacketError::TransportTruncated);
    }
    if packet.kind == Kind::IcmpEcho {
        let identifier = be16(ip, at + 4).ok_or(PacketError::TransportTruncated)?;
        packet.src_port = identifier;
        packet.dst_port = identifier;
    }
    Ok(packet)
}

#[cfg(test)]
mod tests;
