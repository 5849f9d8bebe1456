//! The outer headers of a packet to and from an appliance. [`OuterTemplate`] holds what all packets of a
//! target begin with and [`Head`] what all packets of an endpoint go on with, so that the 82 bytes are a
//! handful of wide stores; [`parse`] judges what came back up to the UDP payload.

#![forbid(unsafe_code)]

use std::net::Ipv4Addr;

use thiserror::Error;

use super::super::checksum::{self, Sum};
use super::super::ethernet::{self, MacAddr, ethertype};
use super::super::ip::{Fragment, PacketError, protocol};
use super::super::ipv4::{self, Ipv4Header};
use super::super::toeplitz;
use super::super::udp::{self, UdpHeader};
use super::{Head, OVERHEAD, UDP_PORT};

/// Bytes before the inner packet: Ethernet 14, IPv4 20, UDP 8, GENEVE 40.
pub const OUTER_LEN: usize = ethernet::HEADER_LEN + OVERHEAD;

/// Time to live of outer headers (W-1).
pub const TTL: u8 = 255;

// Offsets from the start of the frame.
pub(super) const IP: usize = ethernet::HEADER_LEN;
pub(super) const UDP: usize = IP + ipv4::HEADER_LEN;
pub(super) const GENEVE: usize = UDP + udp::HEADER_LEN;
pub(super) const OPTIONS: usize = GENEVE + super::HEADER_LEN;

/// What differs from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterFields {
    /// Bytes of the inner packet, at most [`MAX_INNER_LEN`](super::MAX_INNER_LEN), which the caller has seen to (M-1).
    pub inner_len: u16,
    /// EtherType of the inner packet: 0x0800 or 0x86DD.
    pub protocol: u16,
    /// UDP source port, one for the flow's life (W-3).
    pub source_port: u16,
    /// The endpoint's 64-bit id.
    pub endpoint_id: u64,
    /// The attachment's 64-bit id.
    pub attachment_id: u64,
    /// The flow's cookie (F-11).
    pub cookie: u32,
}

/// The outer headers of one target's packets, up to GENEVE.
#[derive(Clone, Debug)]
pub struct OuterTemplate {
    /// Ethernet, IPv4 and UDP. Lengths, IPv4 checksum and source port are 0.
    front: [u8; GENEVE],
    /// Checksum of the IPv4 header of a packet with nothing inside, from which that of any other is a subtraction.
    checksum: u16,
    answer_hash: u32,
}

/// The IPv4 header's first eight bytes, without the total length. Identification 0: an atomic datagram has
/// no use for one (RFC 6864 4.1).
const IPV4_FRONT: u64 = 0x4500 << 48 | ipv4::DONT_FRAGMENT as u64;
/// The next four, without the checksum.
const IPV4_MIDDLE: u32 = (TTL as u32) << 24 | (protocol::UDP as u32) << 16;

impl OuterTemplate {
    /// The headers from our address on the target's side to the target, by way of `dst_mac`.
    pub fn new(src_mac: MacAddr, dst_mac: MacAddr, src_ip: Ipv4Addr, dst_ip: Ipv4Addr) -> OuterTemplate {
        let (from, to) = (src_ip.to_bits(), dst_ip.to_bits());
        let mut front = [0; GENEVE];
        put(&mut front, 0, &dst_mac.0);
        put(&mut front, 6, &src_mac.0);
        put(&mut front, ethernet::ADDRESSES_LEN, &ethertype::IPV4.to_be_bytes());
        put(&mut front, IP, &IPV4_FRONT.to_be_bytes());
        put(&mut front, IP + 8, &IPV4_MIDDLE.to_be_bytes());
        put(&mut front, IP + 12, &from.to_be_bytes());
        put(&mut front, IP + 16, &to.to_be_bytes());
        put(&mut front, UDP + 2, &UDP_PORT.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "68")]
        let checksum = checksum::with_word(Sum::ZERO.bytes(&front[IP..UDP]).checksum(), OVERHEAD as u16);
        OuterTemplate { front, checksum, answer_hash: toeplitz::hash_ipv4_udp(to, from, 0, UDP_PORT) }
    }

    /// What a network card hashes of the target's answers besides their UDP source port, under the symmetric
    /// key ([`toeplitz`]).
    #[inline]
    pub fn answer_hash(&self) -> u32 {
        self.answer_hash
    }

    /// Writes the outer headers at a frame's front (W-1, W-2), UDP checksum 0. For a right one call
    /// [`fill_udp_checksum`] afterwards on the whole frame.
    #[inline]
    pub fn write(&self, out: &mut [u8; OUTER_LEN], fields: &OuterFields) {
        let head = Head::new(fields.protocol, fields.endpoint_id, fields.attachment_id);
        self.write_before(&head, out, (fields.inner_len.into(), fields.source_port, fields.cookie));
    }

    /// The same with GENEVE's part ready made: length of the inner packet, UDP source port, cookie.
    #[inline(always)]
    pub fn write_before(
        &self,
        Head(head): &Head,
        out: &mut [u8; OUTER_LEN],
        (inner_len, source_port, cookie): (u32, u16, u32),
    ) {
        // With what goes before it, the packet is no longer than an IPv4 packet can be, as the caller has seen.
        #[expect(clippy::cast_possible_truncation, reason = "68 and 48; 16 bits of a length")]
        let [inner_len, ip_len, udp_len] =
            [0, OVERHEAD, OVERHEAD - ipv4::HEADER_LEN].map(|added| (inner_len + added as u32) as u16);
        let checksum = checksum::with_word(self.checksum, inner_len);
        // Wide copies, then what differs from packet to packet over them.
        put(out, 0, &self.front);
        put(out, IP + 2, &ip_len.to_be_bytes());
        put(out, IP + 10, &checksum.to_be_bytes());
        put(out, UDP, &source_port.to_be_bytes());
        put(out, UDP + 4, &udp_len.to_be_bytes());
        put(out, GENEVE, head);
        put(out, OUTER_LEN - 4, &cookie.to_be_bytes());
    }
}

/// Stores a field; every call has constant bounds, which are checked when compiled.
#[inline(always)]
fn put<const N: usize>(out: &mut [u8], at: usize, field: &[u8; N]) {
    if let Some(to) = out.get_mut(at..at + N) {
        to.copy_from_slice(field);
    }
}

/// Computes the UDP checksum of an encapsulated frame, as [`OuterTemplate::write`] began it (W-3, on demand): one
/// pass over all of its payload.
pub fn fill_udp_checksum(frame: &mut [u8]) {
    fill_udp_checksum_of_packet(frame.get_mut(IP..).unwrap_or_default());
}

/// Like [`fill_udp_checksum`], of the IPv4 packet at the start of `ip`. Bytes after the datagram (padding) do not
/// count. A packet that is shorter than it says is left as it is.
pub fn fill_udp_checksum_of_packet(ip: &mut [u8]) {
    let Ok(header) = Ipv4Header::parse(ip) else { return };
    let udp = usize::from(header.header_len);
    let Some(UdpHeader { len, .. }) = ip.get(udp..).and_then(UdpHeader::parse) else { return };
    let Some(datagram) = ip.get_mut(udp..udp + usize::from(len)) else { return };
    let Some(field) = datagram.get_mut(6..8) else { return };
    field.fill(0);
    let sum = checksum::pseudo_v4(header.src, header.dst, protocol::UDP, len).bytes(datagram);
    if let Some(field) = datagram.get_mut(6..8) {
        field.copy_from_slice(&sum.udp_checksum().to_be_bytes());
    }
}

/// The outer headers of a packet that came to our GENEVE port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterReceived {
    /// Who sent it.
    pub src_ip: u32,
    /// Our address.
    pub dst_ip: u32,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port, always 6081.
    pub dst_port: u16,
    /// Offset of the UDP payload from the start of the IP header.
    pub udp_payload_offset: u16,
    /// Bytes of the UDP payload; all of them are there.
    pub udp_payload_len: u16,
    /// Whether the sender computed a UDP checksum (it was right).
    pub has_udp_checksum: bool,
}

impl OuterReceived {
    /// The UDP payload within the packet that was parsed: the GENEVE header and all after it.
    #[inline]
    pub fn payload<'a>(&self, ip: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.udp_payload_offset);
        ip.get(start..start + usize::from(self.udp_payload_len)).unwrap_or_default()
    }
}

/// Why a packet is no intact GENEVE datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum OuterError {
    /// Not IPv4, or not UDP to port 6081: none of ours, the host may have it.
    #[error("not a UDP datagram to port 6081")]
    NotGeneve,
    /// The IPv4 header is malformed.
    #[error(transparent)]
    Ip(#[from] PacketError),
    /// The IPv4 header checksum is wrong.
    #[error("wrong IPv4 header checksum")]
    BadHeaderChecksum,
    /// A time to live of 0 on arrival.
    #[error("time to live 0")]
    TtlZero,
    /// The first fragment of a datagram to our port: outer packets have DF set and are never in fragments (W-1).
    #[error("a fragment of an outer packet")]
    Fragment,
    /// The UDP length is below 8 or more than the packet has.
    #[error("the UDP length and the packet's disagree")]
    BadUdpLength,
    /// There is a UDP checksum and it is wrong.
    #[error("wrong UDP checksum")]
    BadUdpChecksum,
}

/// Judges the outer headers of a packet that may be an appliance's answer (W-4, W-5): any TTL from 1 up, DF
/// set or clear, IPv4 options, any source port, UDP checksum 0 or right.
#[inline]
pub fn parse(ip: &[u8]) -> Result<OuterReceived, OuterError> {
    if ip.first().is_none_or(|first| first >> 4 != 4) {
        return Err(OuterError::NotGeneve);
    }
    let header = Ipv4Header::parse(ip)?;
    if header.protocol != protocol::UDP {
        return Err(OuterError::NotGeneve);
    }
    let udp_start = usize::from(header.header_len);
    let packet = ip.get(..usize::from(header.total_len)).ok_or(PacketError::LengthMismatch)?;
    let datagram = packet.get(udp_start..).ok_or(PacketError::LengthMismatch)?;
    match header.fragment {
        Fragment::Whole => {}
        // A later fragment has no port: it may as well be of the host's own traffic, and a datagram of ours whose
        // first fragment is refused here is lost anyway.
        Fragment::Later => return Err(OuterError::NotGeneve),
        Fragment::First if UdpHeader::parse(datagram).is_some_and(|udp| udp.dst_port != UDP_PORT) => {
            return Err(OuterError::NotGeneve);
        }
        Fragment::First => return Err(OuterError::Fragment),
    }
    let udp = UdpHeader::parse(datagram).ok_or(PacketError::TransportTruncated)?;
    if udp.dst_port != UDP_PORT {
        return Err(OuterError::NotGeneve);
    }
    if !ipv4::header_checksum_ok(packet) {
        return Err(OuterError::BadHeaderChecksum);
    }
    if header.ttl == 0 {
        return Err(OuterError::TtlZero);
    }
    let Some(payload_len) = usize::from(udp.len).checked_sub(udp::HEADER_LEN) else {
        return Err(OuterError::BadUdpLength);
    };
    let datagram = datagram.get(..usize::from(udp.len)).ok_or(OuterError::BadUdpLength)?;
    if udp.checksum != 0
        && !checksum::pseudo_v4(header.src, header.dst, protocol::UDP, udp.len).bytes(datagram).is_right()
    {
        return Err(OuterError::BadUdpChecksum);
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 60 + 8, and the UDP length less 8")]
    Ok(OuterReceived {
        src_ip: header.src,
        dst_ip: header.dst,
        src_port: udp.src_port,
        dst_port: udp.dst_port,
        udp_payload_offset: (udp_start + udp::HEADER_LEN) as u16,
        udp_payload_len: payload_len as u16,
        has_udp_checksum: udp.checksum != 0,
    })
}

#[cfg(test)]
mod tests;
