//! [`Packet`]: what the data path must know of one IP packet, read once from its headers and then kept
//! in registers and one cache line. The flow key, the decision and the reset are made from it.

#![forbid(unsafe_code)]

use super::icmp::{self, IcmpClass};
pub use super::ip::{Fragment, IpVersion, PacketError, protocol};
use super::ipv4::Ipv4Header;
use super::ipv6::{self, Ipv6Header};
use super::load::{be16, be32, be64, field16};
use super::tcp::{self, TcpFlags};
use super::ttl;
use super::udp;

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
    /// ICMPv6 that was sent on this very link and is for it: router or neighbour discovery whose hop limit shows that no
    /// router has passed it on (RFC 4861: it is 255), or multicast listener discovery that none will (RFC 3810 5: it is 1).
    LinkDiscovery,
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

    /// Traffic of stations of one link among themselves, which a transparent wire leaves untouched: to link-local
    /// multicast or limited broadcast, between two link-local addresses, neighbour and listener discovery. A packet of
    /// which only one address is link-local is not: whoever forges that one would have the other end reached past
    /// the appliance.
    #[inline]
    pub fn is_within_link(&self) -> bool {
        match self.version {
            IpVersion::V4 => {
                let (src, dst) = (low32(self.src), low32(self.dst));
                dst >> 8 == 0x00e0_0000
                    || dst == u32::MAX
                    || dst >> 16 == LINK_LOCAL_V4 && src >> 16 == LINK_LOCAL_V4
            }
            IpVersion::V6 => {
                let (src, dst) = (top16(self.src), top16(self.dst));
                is_link_multicast(dst)
                    || dst & 0xffc0 == LINK_LOCAL_V6 && src & 0xffc0 == LINK_LOCAL_V6
                    || self.kind == Kind::LinkDiscovery
            }
        }
    }

    /// Whether its source is a group's or the limited broadcast address, which no station's packets have (RFC 1122 3.2.1.3,
    /// RFC 4291 2.7). A flow of one would be taken for that of packets *to* the group.
    #[inline]
    pub fn is_from_group(&self) -> bool {
        match self.version {
            IpVersion::V4 => low32(self.src) >> 28 == 0xe || low32(self.src) == u32::MAX,
            IpVersion::V6 => self.src >> 120 == 0xff,
        }
    }

    /// Traffic that no router passes on: what is [within the link](Packet::is_within_link), and all else with a link-local
    /// address or IPv6's unspecified source.
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
                is_link_multicast(dst)
                    || dst & 0xffc0 == LINK_LOCAL_V6
                    || src & 0xffc0 == LINK_LOCAL_V6
                    || self.src == 0
                    || self.kind == Kind::LinkDiscovery
            }
        }
    }

    /// Whether the protocol is one of IPv6's extension headers: in a [`Fragment::Later`], whose first fragment
    /// alone knows the transport protocol.
    #[inline]
    pub fn names_extension_header(&self) -> bool {
        self.version == IpVersion::V6 && ipv6::is_extension(self.protocol)
    }

    /// Addresses that no router forwards from or to (RFC 1812 5.3.7, RFC 4291 2.5.2 and 2.5.3): loopback,
    /// an unspecified source or destination, a multicast or class E source, a class E destination.
    #[inline]
    pub fn is_martian(&self) -> bool {
        match self.version {
            IpVersion::V4 => {
                let (src, dst) = (low32(self.src) >> 24, low32(self.dst) >> 24);
                matches!(src, 0 | 127 | 224..) || matches!(dst, 0 | 127 | 240..)
            }
            IpVersion::V6 => self.src <= 1 || self.dst <= 1 || self.src >> 120 == 0xff,
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

/// The version and destination of the IP packet at the start of `ip`, IPv4 in the low 32 bits. `None` if the
/// fixed header is cut or of another version; nothing else is judged.
#[inline]
pub fn destination(ip: &[u8]) -> Option<(IpVersion, u128)> {
    match ip.first()? >> 4 {
        4 => Some((IpVersion::V4, u128::from(be32(ip, 16)?))),
        6 => Some((IpVersion::V6, u128::from(be64(ip, 24)?) << 64 | u128::from(be64(ip, 32)?))),
        _ => None,
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

/// Whether an IPv6 address with these first bits is of a group that is on one link (RFC 4291 2.7: ff, four flags,
/// scope 1, interface, or 2, link).
#[inline]
const fn is_link_multicast(top: u16) -> bool {
    matches!(top & 0xff0f, 0xff01 | 0xff02)
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
    let Transport { src_port, dst_port, kind, tcp_flags } = match header.fragment {
        Fragment::Later => Transport::NONE,
        Fragment::Whole | Fragment::First => {
            Transport::read(ip, header_len, IpVersion::V4, header.protocol, extent)?
        }
    };
    Ok(Packet {
        src: u128::from(header.src),
        dst: u128::from(header.dst),
        total_len: u32::from(header.total_len),
        header_len,
        src_port,
        dst_port,
        protocol: header.protocol,
        version: IpVersion::V4,
        fragment: header.fragment,
        kind,
        tcp_flags,
    })
}

#[inline(always)]
fn parse_v6(ip: &[u8], extent: Extent) -> Result<Packet, PacketError> {
    let header = Ipv6Header::parse(ip)?;
    let total_len = ipv6::HEADER_LEN + usize::from(header.payload_len);
    let ip = match extent {
        Extent::Whole => ip.get(..total_len).ok_or(PacketError::LengthMismatch)?,
        Extent::Quoted => ip,
    };
    let ipv6::Transport { protocol, offset, fragment } = ipv6::walk(ip, header.next_header)?;
    let Transport { src_port, dst_port, kind, tcp_flags } = match fragment {
        Fragment::Later => Transport::NONE,
        Fragment::Whole | Fragment::First => Transport::read(ip, offset, IpVersion::V6, protocol, extent)?,
    };
    Ok(Packet {
        src: header.src,
        dst: header.dst,
        total_len: 40 + u32::from(header.payload_len),
        header_len: offset,
        src_port,
        dst_port,
        protocol,
        version: IpVersion::V6,
        fragment,
        kind,
        tcp_flags,
    })
}

/// What the transport header says. Small enough for registers: a [`Packet`] that was built in parts would
/// be copied, and its parts' narrow stores stall the copy's wide loads.
struct Transport {
    src_port: u16,
    dst_port: u16,
    kind: Kind,
    tcp_flags: TcpFlags,
}

impl Transport {
    /// No ports, no flags.
    const NONE: Transport = Transport::of(Kind::Other);

    const fn of(kind: Kind) -> Transport {
        Transport { src_port: 0, dst_port: 0, kind, tcp_flags: TcpFlags::empty() }
    }

    /// Reads the transport header at `at`. `ip` ends where the packet does.
    #[inline(always)]
    fn read(
        ip: &[u8],
        at: u16,
        version: IpVersion,
        protocol: u8,
        extent: Extent,
    ) -> Result<Transport, PacketError> {
        let transport = ip.get(usize::from(at)..).ok_or(PacketError::TransportTruncated)?;
        match (protocol, version) {
            (protocol::TCP, _) => Transport::read_tcp(transport, extent),
            (protocol::UDP | protocol::UDP_LITE, _) => Transport::read_ports(transport, udp::HEADER_LEN),
            (protocol::SCTP, _) => match extent {
                Extent::Whole => Transport::read_ports(transport, SCTP_HEADER_LEN),
                Extent::Quoted => Transport::read_ports(transport, QUOTED_LEN),
            },
            (protocol::ICMP, IpVersion::V4) | (protocol::ICMPV6, IpVersion::V6) => {
                Transport::read_icmp(transport, version, ip)
            }
            _ => Ok(Transport::NONE),
        }
    }

    #[inline(always)]
    fn read_tcp(transport: &[u8], extent: Extent) -> Result<Transport, PacketError> {
        let Some(header) = transport.first_chunk::<{ tcp::HEADER_LEN }>() else {
            return match extent {
                Extent::Whole => Err(PacketError::TransportTruncated),
                Extent::Quoted => Transport::read_quoted_tcp(transport),
            };
        };
        let data_offset = usize::from(header[12] >> 4) * 4;
        if extent == Extent::Whole {
            if data_offset < tcp::HEADER_LEN {
                return Err(PacketError::BadDataOffset);
            }
            if data_offset > transport.len() {
                return Err(PacketError::TransportTruncated);
            }
        }
        Ok(Transport {
            src_port: field16::<0, _>(header),
            dst_port: field16::<2, _>(header),
            kind: Kind::Tcp,
            tcp_flags: TcpFlags::from_bits_retain(header[13]),
        })
    }

    /// A TCP header cut by the router that quotes it, perhaps before its flags.
    fn read_quoted_tcp(transport: &[u8]) -> Result<Transport, PacketError> {
        let ports = Transport::read_ports(transport, QUOTED_LEN)?;
        let tcp_flags =
            transport.get(13).map_or(TcpFlags::empty(), |flags| TcpFlags::from_bits_retain(*flags));
        Ok(Transport { kind: Kind::Tcp, tcp_flags, ..ports })
    }

    /// Ports at the start of a header of which `needed` bytes must be there.
    #[inline(always)]
    fn read_ports(transport: &[u8], needed: usize) -> Result<Transport, PacketError> {
        match (be16(transport, 0), be16(transport, 2)) {
            (Some(src_port), Some(dst_port)) if transport.len() >= needed => {
                Ok(Transport { src_port, dst_port, ..Transport::of(Kind::Datagram) })
            }
            _ => Err(PacketError::TransportTruncated),
        }
    }

    /// The rarer packets: ICMP and ICMPv6.
    fn read_icmp(transport: &[u8], version: IpVersion, ip: &[u8]) -> Result<Transport, PacketError> {
        let hop_limit = || ttl::get(ip, version);
        let icmp_type = *transport.first().ok_or(PacketError::TransportTruncated)?;
        let kind = match icmp::classify(version, icmp_type) {
            IcmpClass::Other => return Ok(Transport::NONE),
            IcmpClass::Error => Kind::IcmpError,
            IcmpClass::Echo => Kind::IcmpEcho,
            IcmpClass::NeighbourDiscovery if hop_limit() == 255 => Kind::LinkDiscovery,
            IcmpClass::ListenerDiscovery if hop_limit() == 1 => Kind::LinkDiscovery,
            IcmpClass::NeighbourDiscovery | IcmpClass::ListenerDiscovery => return Ok(Transport::NONE),
        };
        let header =
            transport.first_chunk::<{ icmp::HEADER_LEN }>().ok_or(PacketError::TransportTruncated)?;
        let identifier = if kind == Kind::IcmpEcho { field16::<4, _>(header) } else { 0 };
        Ok(Transport { src_port: identifier, dst_port: identifier, ..Transport::of(kind) })
    }
}

/// Ports, verification tag and checksum (RFC 9260 3.1).
const SCTP_HEADER_LEN: usize = 12;
/// What an ICMP error quotes of a transport header at least (RFC 792).
const QUOTED_LEN: usize = 8;

#[cfg(test)]
mod tests;
