//! Packets as nearly all of them are: TCP or UDP right behind an IPv4 header without options or an IPv6
//! header without extensions, whole. [`Plain::read`] takes them apart with one bounds check and a few wide
//! loads and refuses everything else, right or wrong, which [`Packet::parse`](super::packet::Packet::parse)
//! then reads with care: what both accept they read alike.

#![forbid(unsafe_code)]

use super::ip::protocol;
use super::ipv4::{FRAGMENT_OFFSET, MORE_FRAGMENTS};
use super::load::{field16, field32, field128};
use super::tcp::TcpFlags;
use super::{ipv4, ipv6, tcp, udp};

/// What the two IP versions have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<Address> {
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Source port in the upper half, destination port in the lower.
    pub ports: u32,
    /// Bytes of the packet by its IP header; all of them are there.
    pub total_len: u16,
    /// TCP or UDP.
    pub protocol: u8,
    /// TCP's control bits; empty for UDP.
    pub tcp_flags: TcpFlags,
}

/// Bytes that must be there: an IPv4 and a TCP header. A UDP packet that is shorter lies in a frame that is
/// padded to as much, or is not plain.
const V4_LEN: usize = ipv4::HEADER_LEN + tcp::HEADER_LEN;
/// The same of IPv6.
const V6_LEN: usize = ipv6::HEADER_LEN + tcp::HEADER_LEN;

impl Plain<u32> {
    /// Reads the IPv4 packet at the start of `ip`, behind which there may be padding. `None`: it is not a
    /// plain one, or is of no kind at all.
    #[inline(always)]
    pub fn read(ip: &[u8]) -> Option<Plain<u32>> {
        Plain::<u32>::read_tcp(ip).or_else(|| Plain::<u32>::read_as(protocol::UDP, ip))
    }

    /// The same of TCP alone.
    #[inline(always)]
    pub fn read_tcp(ip: &[u8]) -> Option<Plain<u32>> {
        Plain::<u32>::read_as(protocol::TCP, ip)
    }

    #[inline(always)]
    fn read_as(protocol: u8, ip: &[u8]) -> Option<Plain<u32>> {
        let header = ip.first_chunk::<V4_LEN>()?;
        // Place in the datagram, time to live, protocol: the first and the last in one comparison.
        const FIXED: u32 = ((MORE_FRAGMENTS | FRAGMENT_OFFSET) as u32) << 16 | 0xff;
        if header[0] != 0x45 || field32::<6, _>(header) & FIXED != u32::from(protocol) {
            return None;
        }
        let total_len = field16::<2, _>(header);
        let transport = header.last_chunk::<{ tcp::HEADER_LEN }>()?;
        Some(Plain {
            src: field32::<12, _>(header),
            dst: field32::<16, _>(header),
            ports: field32::<0, _>(transport),
            total_len,
            protocol,
            tcp_flags: flags(transport, protocol, total_len, (ipv4::HEADER_LEN, ip.len()))?,
        })
    }
}

impl Plain<u128> {
    /// Reads the IPv6 packet at the start of `ip`, as [`Plain::<u32>::read`] does an IPv4 one.
    #[inline(always)]
    pub fn read(ip: &[u8]) -> Option<Plain<u128>> {
        let header = ip.first_chunk::<V6_LEN>()?;
        #[expect(clippy::cast_possible_truncation, reason = "40")]
        let total_len = field16::<4, _>(header).checked_add(ipv6::HEADER_LEN as u16)?;
        let protocol = header[6];
        let transport = header.last_chunk::<{ tcp::HEADER_LEN }>()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        Some(Plain {
            src: field128::<8, _>(header),
            dst: field128::<24, _>(header),
            ports: field32::<0, _>(transport),
            total_len,
            protocol,
            tcp_flags: flags(transport, protocol, total_len, (ipv6::HEADER_LEN, ip.len()))?,
        })
    }
}

/// The control bits of a transport header that is in order, `before` bytes into a packet of `total_len` by its own
/// account of which no more than `there` are there: enough for a TCP header without options.
#[inline(always)]
fn flags(
    transport: &[u8; tcp::HEADER_LEN],
    protocol: u8,
    total_len: u16,
    (before, there): (usize, usize),
) -> Option<TcpFlags> {
    let (least, flags) = match protocol {
        protocol::TCP => (before + tcp::HEADER_LEN, TcpFlags::from_bits_retain(transport[13])),
        protocol::UDP => (before + udp::HEADER_LEN, TcpFlags::empty()),
        _ => return None,
    };
    // What is too little is far too much after a subtraction, so that one comparison sees to both ends.
    let after = usize::from(total_len).wrapping_sub(least);
    let options_len = match protocol {
        protocol::TCP => usize::from(transport[12] >> 2 & 0x3c).wrapping_sub(tcp::HEADER_LEN),
        _ => 0,
    };
    (after <= there - least && options_len <= after).then_some(flags)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::{Fragment, Kind, Packet};
    use super::super::sample;
    use super::*;

    /// What the careful reader says of a packet, in the terms of the plain one.
    fn carefully(ip: &[u8]) -> Option<(Plain<u128>, bool)> {
        let packet = Packet::parse(ip).ok()?;
        let plain_header = match ip.first()? >> 4 {
            4 => packet.header_len == 20,
            _ => packet.header_len == 40,
        };
        let kind = matches!(packet.kind, Kind::Tcp | Kind::Datagram)
            && matches!(packet.protocol, protocol::TCP | protocol::UDP);
        Some((
            Plain {
                src: packet.src,
                dst: packet.dst,
                ports: u32::from(packet.src_port) << 16 | u32::from(packet.dst_port),
                total_len: u16::try_from(packet.total_len).ok()?,
                protocol: packet.protocol,
                tcp_flags: packet.tcp_flags,
            },
            plain_header && kind && packet.fragment == Fragment::Whole,
        ))
    }

    fn plainly(ip: &[u8]) -> Option<Plain<u128>> {
        match ip.first()? >> 4 {
            4 => Plain::<u32>::read(ip).map(|plain| Plain {
                src: plain.src.into(),
                dst: plain.dst.into(),
                ports: plain.ports,
                total_len: plain.total_len,
                protocol: plain.protocol,
                tcp_flags: plain.tcp_flags,
            }),
            _ => Plain::<u128>::read(ip),
        }
    }

    /// What is read plainly is read carefully to the same; what is plain and long enough is read plainly.
    fn held_against_each_other(ip: &[u8]) {
        let long_enough = match ip.first().map(|first| first >> 4) {
            Some(4) => ip.len() >= V4_LEN,
            _ => ip.len() >= V6_LEN,
        };
        match (plainly(ip), carefully(ip)) {
            (Some(plain), Some((careful, is_plain))) => {
                assert!(is_plain);
                assert_eq!(plain, careful);
            }
            (Some(plain), None) => panic!("{plain:?} is refused with care"),
            (None, Some((careful, is_plain))) => {
                assert!(!is_plain || !long_enough, "{careful:?} is plain");
            }
            (None, None) => {}
        }
    }

    proptest! {
        /// Over packets of every make, with any byte of their headers changed and cut anywhere.
        #[test]
        fn plain_and_careful_reading_agree(
            six: bool, protocol in prop_oneof![Just(6_u8), Just(17), any::<u8>()], options in 0..2_usize,
            payload in 0..64_u8, change in proptest::option::of((0..80_usize, any::<u8>())), cut: prop::sample::Index,
            whole: bool, flags in prop_oneof![Just(0_u16), Just(0x4000), any::<u16>()],
        ) {
            let transport: Vec<u8> = (0..20 + payload).map(|n| if n == 12 { 0x50 } else { n }).collect();
            let mut packet = if six {
                sample::ipv6([1; 16], [2; 16], protocol, &transport)
            } else {
                sample::ipv4_with([10, 0, 0, 1], [10, 0, 0, 2], protocol, flags, &[1; 4][..options * 4], &transport)
            };
            if let Some((at, byte)) = change && let Some(place) = packet.get_mut(at) {
                *place = byte;
            }
            if !whole {
                let len = cut.index(packet.len() + 1);
                packet.truncate(len);
            }
            held_against_each_other(&packet);
        }
    }

    #[test]
    fn a_plain_packet_is_taken() {
        let transport: Vec<u8> = (0..24).map(|n| if n == 12 { 0x60 } else { n }).collect();
        for protocol in [protocol::TCP, protocol::UDP] {
            assert!(plainly(&sample::ipv4_with([1; 4], [2; 4], protocol, 0x4000, &[], &transport)).is_some());
            assert!(plainly(&sample::ipv6([1; 16], [2; 16], protocol, &transport)).is_some());
        }
    }
}
