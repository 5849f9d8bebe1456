//! The TCP reset, byte for byte: written in place over the packet that it answers, or for an end that
//! has sent nothing; and the cases in which there must be none. Whether a reset is due is `decide`'s matter; swapping the link-layer
//! addresses, the frame's length and its way back are the pipeline's.

#![forbid(unsafe_code)]

use thiserror::Error;

use crate::flow::{Direction, FlowKey};
use crate::wire::checksum::{self, Sum};
use crate::wire::ip::protocol;
use crate::wire::ipv4;
use crate::wire::ipv6;
use crate::wire::packet::{Fragment, IpVersion, Kind, Packet};
use crate::wire::tcp::{self, Seq, TcpFlags, TcpHeader};

/// Time to live or hop limit of a reset.
const TTL: u8 = 64;

/// Bytes of a reset inside IPv4.
pub const V4_LEN: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;
/// Bytes of a reset inside IPv6.
pub const V6_LEN: usize = ipv6::HEADER_LEN + tcp::HEADER_LEN;

/// Why a packet is not answered with a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum ResetRefused {
    /// Not TCP.
    #[error("not TCP")]
    NotTcp,
    /// It is a reset itself.
    #[error("a reset is not answered with a reset")]
    IsReset,
    /// A fragment that is not the first has no TCP header.
    #[error("a later fragment")]
    LaterFragment,
    /// The TCP header is cut, or its data offset is impossible.
    #[error("the TCP header is cut")]
    HeaderCut,
    /// The IPv4 header checksum is wrong, so no address in it is to be believed.
    #[error("wrong IPv4 header checksum")]
    BadHeaderChecksum,
    /// The source or destination is multicast, broadcast or unspecified.
    #[error("an address that is not one host's")]
    NotUnicast,
}

/// Turns the packet at the start of `ip`, from which `packet` was parsed, into the reset that answers it, and
/// returns the reset's length: 40 bytes for IPv4, 60 for IPv6. The caller cuts the frame to it. A refused
/// packet is left as it was.
#[inline]
pub fn write_reset(ip: &mut [u8], packet: &Packet) -> Result<usize, ResetRefused> {
    let segment = judge(ip, packet)?;
    let header = segment.header;
    let ends =
        Ends { src: packet.dst, dst: packet.src, src_port: header.dst_port, dst_port: header.src_port };
    let answer = Answer::to(&segment);
    match packet.version {
        IpVersion::V4 => write_v4(ip, &ends, &answer),
        IpVersion::V6 => write_v6(ip, &ends, &answer),
    }
    .ok_or(ResetRefused::HeaderCut)
}

/// Writes at the start of `ip` the reset that tells the end of a flow which sends in direction `told`, as if
/// its peer had sent it, and returns its length: [`V4_LEN`] or [`V6_LEN`], for which there must be
/// room. `seq` is the last acknowledgement number which that end sent.
///
/// RFC 5961 3.2:
///
/// > If the RST bit is set and the sequence number exactly matches the next expected sequence number
/// > (RCV.NXT), then TCP MUST reset the connection.
pub fn write_unasked(ip: &mut [u8], key: &FlowKey, told: Direction, seq: Seq) -> Result<usize, ResetRefused> {
    let ((src, src_port), (dst, dst_port)) = (key.destination(told), key.source(told));
    let ends = Ends { src, dst, src_port, dst_port };
    let answer = Answer { seq, ack: Seq(0), flags: TcpFlags::RST };
    match key.version() {
        4 if ends.are_hosts(|address| address >> 28 == 0xe || address == u128::from(u32::MAX)) => {
            write_v4(ip, &ends, &answer).ok_or(ResetRefused::HeaderCut)
        }
        6 if ends.are_hosts(|address| address >> 120 == 0xff) => {
            write_v6(ip, &ends, &answer).ok_or(ResetRefused::HeaderCut)
        }
        _ => Err(ResetRefused::NotUnicast),
    }
}

/// A segment that may be answered.
struct Segment {
    header: TcpHeader,
    /// Payload in bytes; of a first fragment, the part that is in it.
    payload_len: u32,
}

/// Refuses R-5's cases.
#[inline]
fn judge(ip: &[u8], packet: &Packet) -> Result<Segment, ResetRefused> {
    if packet.fragment == Fragment::Later {
        return Err(ResetRefused::LaterFragment);
    }
    if packet.kind != Kind::Tcp {
        return Err(ResetRefused::NotTcp);
    }
    if packet.is_multicast_or_broadcast() || packet.src == 0 || packet.dst == 0 {
        return Err(ResetRefused::NotUnicast);
    }
    if packet.version == IpVersion::V4 && !ipv4::header_checksum_ok(ip) {
        return Err(ResetRefused::BadHeaderChecksum);
    }
    let total_len = usize::try_from(packet.total_len).map_err(|_| ResetRefused::HeaderCut)?;
    let segment = ip.get(usize::from(packet.header_len)..total_len).ok_or(ResetRefused::HeaderCut)?;
    let header = TcpHeader::parse(segment).map_err(|_| ResetRefused::HeaderCut)?;
    if header.flags.contains(TcpFlags::RST) {
        return Err(ResetRefused::IsReset);
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than `total_len`, which is a u32")]
    let payload_len = (segment.len() - usize::from(header.data_offset)) as u32;
    Ok(Segment { header, payload_len })
}

/// Where a reset comes from, by its header, and where it goes to.
struct Ends {
    src: u128,
    dst: u128,
    src_port: u16,
    dst_port: u16,
}

impl Ends {
    /// Whether both addresses are some host's.
    fn are_hosts(&self, is_group: impl Fn(u128) -> bool) -> bool {
        [self.src, self.dst].into_iter().all(|address| address != 0 && !is_group(address))
    }
}

/// The numbers and flags of a reset.
struct Answer {
    seq: Seq,
    ack: Seq,
    flags: TcpFlags,
}

impl Answer {
    /// RFC 9293 3.10.7.1:
    ///
    /// > If the ACK bit is off, sequence number zero is used,
    /// > `<SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>`.
    /// > If the ACK bit is on, `<SEQ=SEG.ACK><CTL=RST>`.
    #[inline]
    fn to(segment: &Segment) -> Answer {
        let Segment { header, payload_len } = segment;
        if header.flags.contains(TcpFlags::ACK) {
            return Answer { seq: header.ack, ack: Seq(0), flags: TcpFlags::RST };
        }
        // SYN and FIN take a sequence number each (RFC 9293 3.4).
        let syn = u32::from(header.flags.contains(TcpFlags::SYN));
        let fin = u32::from(header.flags.contains(TcpFlags::FIN));
        let ack = header.seq.plus(*payload_len).plus(syn).plus(fin);
        Answer { seq: Seq(0), ack, flags: TcpFlags::RST | TcpFlags::ACK }
    }
}

#[inline]
fn write_v4(ip: &mut [u8], ends: &Ends, answer: &Answer) -> Option<usize> {
    let (ip_header, segment) = ip
        .first_chunk_mut::<V4_LEN>()
        .and_then(|reset| reset.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>())?;
    #[expect(clippy::cast_possible_truncation, reason = "IPv4 addresses are in the low 32 bits")]
    let (src, dst) = (ends.src as u32, ends.dst as u32);

    // Identification 0: with DF set nobody needs one (RFC 6864 4.1).
    // Version 4, five words, no differentiated service; total length 40.
    const FIRST: u32 = 0x4500_0028;
    const SECOND: u32 = ipv4::DONT_FRAGMENT as u32;
    let third = u32::from_be_bytes([TTL, protocol::TCP, 0, 0]);
    let sum = Sum::ZERO.u32(FIRST).u32(SECOND).u32(third).u32(src).u32(dst);
    let third = third | u32::from(sum.checksum());
    for (to, word) in ip_header.as_chunks_mut::<4>().0.iter_mut().zip([FIRST, SECOND, third, src, dst]) {
        *to = word.to_be_bytes();
    }
    write_segment(segment, ends, answer, checksum::pseudo_v4(src, dst, protocol::TCP, 20));
    Some(V4_LEN)
}

#[inline]
fn write_v6(ip: &mut [u8], ends: &Ends, answer: &Answer) -> Option<usize> {
    let (ip_header, segment) = ip
        .first_chunk_mut::<V6_LEN>()
        .and_then(|reset| reset.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>())?;
    let (src, dst) = (ends.src, ends.dst);
    // Traffic class and flow label 0; payload length 20, next header TCP.
    const FIRST: u64 =
        0x6000_0000_0000_0000 | (tcp::HEADER_LEN as u64) << 16 | (protocol::TCP as u64) << 8 | TTL as u64;
    let (front, addresses) = ip_header.as_chunks_mut::<8>().0.split_at_mut(1);
    if let [front] = front {
        *front = FIRST.to_be_bytes();
    }
    for (to, half) in addresses.iter_mut().zip([src >> 64, src, dst >> 64, dst]) {
        #[expect(clippy::cast_possible_truncation, reason = "the address's halves, one by one")]
        {
            *to = (half as u64).to_be_bytes();
        }
    }
    write_segment(segment, ends, answer, checksum::pseudo_v6(src, dst, protocol::TCP, 20));
    Some(V6_LEN)
}

/// Writes the 20 bytes of the TCP header: no options, window 0.
#[inline]
fn write_segment(segment: &mut [u8], ends: &Ends, answer: &Answer, pseudo: Sum) {
    let ports = u32::from(ends.src_port) << 16 | u32::from(ends.dst_port);
    // Data offset of 5 words, the flags, window 0.
    let offset_and_flags = 0x5000_0000 | u32::from(answer.flags.bits()) << 16;
    let sum = pseudo.u32(ports).u32(answer.seq.0).u32(answer.ack.0).u32(offset_and_flags);
    let checksum = u32::from(sum.checksum()) << 16;
    let words = [ports, answer.seq.0, answer.ack.0, offset_and_flags, checksum];
    for (to, word) in segment.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
