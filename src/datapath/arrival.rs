//! Reading a frame that came in by an endpoint, wire or routed.

use super::counters::DropReason;
use super::decide::Facts;
use super::flows::FirstPacket;
use super::forwarding::{Forwarding, PortRole};
use super::interfaces::{self, Interface};
use crate::flow::{Direction, FlowKey};
use crate::id::{EndpointId, GatewayId, InterfaceId, PortId};
use crate::io::PacketBuf;
use crate::wire::ethernet::{Link, ethertype};
use crate::wire::fragment;
use crate::wire::packet::{Fragment, IpVersion, Kind, Packet, PacketError};

/// Why a frame is not a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is none of our business and crosses the wire, to this port.
    Cross(PortId),
    /// It is the host's, at this interface.
    Host(InterfaceId),
    /// Its time to live ended at this interface of a routed endpoint.
    TimeExceeded(InterfaceId),
    /// It is to be dropped.
    Drop(DropReason),
}

/// What is known of a client's or a server's packet.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its IP packet.
    pub packet: Packet,
    /// Its flow.
    pub key: FlowKey,
    /// The hash of `key`; set by the pipeline.
    pub hash: u64,
    /// Its way, in the terms of `key`.
    pub direction: Direction,
    /// Where it came in.
    pub port: PortId,
    /// The endpoint of that port.
    pub endpoint: EndpointId,
    /// The interface that it came in by; `None` on a wire.
    pub interface: Option<InterfaceId>,
    /// The load balancer behind that endpoint.
    pub gateway: GatewayId,
    /// IPv4 or IPv6.
    pub ethertype: u16,
    /// Bytes of the link header.
    pub link_len: u8,
}

impl Arrival {
    /// What decides over it.
    #[inline]
    pub fn facts(&self) -> Facts {
        Facts { tcp: self.packet.kind == Kind::Tcp, flags: self.packet.tcp_flags, direction: self.direction }
    }

    /// What a flow that it begins is made of.
    pub fn first(&self) -> FirstPacket<'_> {
        FirstPacket { key: &self.key, hash: self.hash, facts: self.facts(), rejoins: false }
    }

    /// Whether its own header says which flow it is of. A fragment's may not, and an ICMP error is of the
    /// flow that it quotes (M-4, M-5).
    #[inline]
    pub fn stands_alone(&self) -> bool {
        self.packet.fragment == Fragment::Whole && self.packet.kind != Kind::IcmpError
    }

    /// Its link header.
    #[inline]
    pub fn link_header<'a, B: PacketBuf>(&self, packet: &'a B) -> &'a [u8] {
        packet.bytes().get(..usize::from(self.link_len)).unwrap_or_default()
    }

    /// The flow that a packet belongs to at an endpoint (F-1), and the packet's way in it.
    #[inline]
    pub fn key_of(endpoint: EndpointId, packet: &Packet) -> (FlowKey, Direction) {
        FlowKey::new(
            endpoint,
            packet.version.number(),
            packet.protocol,
            packet.src,
            packet.dst,
            packet.src_port,
            packet.dst_port,
        )
    }
}

/// Reads a frame that came in by `port`, one end of a wire or a port of routed endpoints.
#[inline]
pub fn read_arrival<B: PacketBuf>(
    forwarding: &Forwarding,
    port: PortId,
    packet: &B,
) -> Result<Arrival, Unread> {
    if !packet.is_contiguous() {
        return Err(Unread::Drop(DropReason::FrameSegmented));
    }
    let frame = packet.bytes();
    let link = Link::parse(frame).map_err(|_| Unread::Drop(DropReason::FrameTruncated))?;
    let (endpoint, entrance) = match forwarding.ports.get(port.index()) {
        Some(PortRole::Wire { endpoint, peer }) => (*endpoint, Entrance::Wire(*peer)),
        Some(PortRole::Routed(interfaces)) => {
            let (id, endpoint, interface) = interfaces::admit(forwarding, interfaces, frame, &link)?;
            (endpoint, Entrance::Interface(id, interface))
        }
        _ => return Err(Unread::Drop(DropReason::PortUnused)),
    };
    if link.ethertype != ethertype::IPV4 && link.ethertype != ethertype::IPV6 {
        return Err(entrance.not_ours()); // O-4
    }
    let ip = frame.get(usize::from(link.header_len)..).unwrap_or_default();
    let packet = Packet::parse(ip).map_err(|error| Unread::Drop(reason(ip, error)))?;
    if (packet.version == IpVersion::V6) != (link.ethertype == ethertype::IPV6) {
        return Err(Unread::Drop(DropReason::IpMalformed));
    }
    let interface = match entrance {
        Entrance::Wire(_) if packet.is_within_link() => return Err(entrance.not_ours()), // O-4
        Entrance::Wire(_) if packet.is_from_group() => return Err(Unread::Drop(DropReason::Martian)),
        Entrance::Wire(_) => None,
        Entrance::Interface(id, interface) => {
            interfaces::judge(id, interface, &packet, ip)?;
            Some(id)
        }
    };
    let Some((gateway_id, gateway)) = forwarding.gateway_of(endpoint) else {
        return Err(Unread::Drop(DropReason::NoLoadBalancer));
    };
    if packet.version == IpVersion::V6 && !gateway.dualstack {
        return Err(Unread::Drop(DropReason::Ipv6NotEnabled)); // O-1
    }
    let (key, direction) = Arrival::key_of(endpoint, &packet);
    Ok(Arrival {
        packet,
        key,
        hash: 0,
        direction,
        port,
        endpoint,
        interface,
        gateway: gateway_id,
        ethertype: link.ethertype,
        link_len: link.header_len,
    })
}

/// Where a frame came in.
#[derive(Clone, Copy)]
enum Entrance<'a> {
    /// A wire, whose other port this is.
    Wire(PortId),
    /// An interface of a routed endpoint.
    Interface(InterfaceId, &'a Interface),
}

impl Entrance<'_> {
    /// What becomes of a frame that is no endpoint's to look at.
    #[inline]
    fn not_ours(self) -> Unread {
        match self {
            Entrance::Wire(peer) => Unread::Cross(peer),
            Entrance::Interface(id, _) => Unread::Host(id),
        }
    }
}

/// The name under which an unreadable packet is dropped.
#[cold]
fn reason(ip: &[u8], error: PacketError) -> DropReason {
    match error {
        PacketError::TransportTruncated | PacketError::Truncated if fragment::is_first(ip) => {
            DropReason::FragmentTiny
        }
        PacketError::TransportTruncated | PacketError::BadDataOffset => DropReason::TransportMalformed,
        PacketError::Truncated
        | PacketError::BadVersion(_)
        | PacketError::BadHeaderLength
        | PacketError::LengthMismatch
        | PacketError::TooManyExtensionHeaders
        | PacketError::TwoFragmentHeaders => DropReason::IpMalformed,
    }
}
