//! ICMP and ICMPv6 errors of the gateway's own (M-2, W-6): who may be told, how much of the packet is
//! quoted, and the headers in front of the quote, byte for byte. Whether an error is due and how often one
//! may be sent is the data path's matter, as are the frame and its way back; it calls [`judge`], leaves
//! [`quoted_len`] bytes of the packet, makes room for [`headers_len`] in front and calls [`write_headers`].
//!
//! An error is no longer than the packet that it is about, so that nobody can have more sent to another than they send
//! themselves: it quotes what is left of that length, not as much as fits (as RFC 1812 4.3.2.3 and RFC 4443 2.4 c would
//! have it). But it always quotes enough for the sender to know its packet by. Where that makes it longer after all,
//! [`excess`] says by how much, and the data path has that paid for.

#![forbid(unsafe_code)]

use thiserror::Error;

use super::HEADER_LEN;
use crate::wire::checksum::{Sum, pseudo_v6};
use crate::wire::ip::{Fragment, IpVersion, protocol};
use crate::wire::packet::{Kind, Packet};
use crate::wire::{ipv4, ipv6};

/// Time to live, or hop limit, of an error.
const TTL: u8 = 64;

/// Precedence "internetwork control" (RFC 1812 4.3.2.5: an error's should be 6 or 7).
const TYPE_OF_SERVICE: u8 = 0xc0;

/// RFC 1812 4.3.2.3: as much of the packet as fits without the message exceeding 576 bytes, which every
/// IPv4 host takes.
const MAX_V4: usize = 576;

/// IPv6's minimum MTU, which an error may fill and must not exceed (RFC 4443 2.4 c).
const MAX_V6: usize = ipv6::MINIMUM_MTU as usize;

/// Bytes behind its IP headers that are quoted of every packet that has them: its sender knows the socket by them (RFC 792;
/// RFC 1122 3.2.2). Linux heeds no error that quotes less.
const LEAST_BEHIND_HEADERS: usize = 8;

/// What the sender of a packet is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// The packet is larger than what goes on: "fragmentation needed" (RFC 1191), "packet too big"
    /// (RFC 4443 3.2).
    TooBig {
        /// The largest packet that goes on. IPv6's is raised to 1,280 (RFC 8201 4.: a node must not go
        /// below, whatever it is told).
        mtu: u16,
    },
    /// Its time to live ran out here (RFC 792; RFC 4443 3.3).
    TimeExceeded,
    /// It cannot be delivered (RFC 792, RFC 1812 5.2.7.1; RFC 4443 3.1).
    Unreachable(Unreachable),
}

/// Why a packet cannot be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route leads there.
    NoRoute,
    /// A route does, but the next hop or the host does not answer for its address.
    Host,
    /// It is not allowed (RFC 1812 5.2.7.1; RFC 4443 3.1).
    Prohibited,
}

/// Why a packet is not answered with an error (RFC 1122 3.2.2, RFC 1812 4.3.2.7, RFC 4443 2.4 e).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum ErrorRefused {
    /// It is an ICMP error itself.
    #[error("an ICMP error is not answered with an ICMP error")]
    IsError,
    /// It is a fragment that is not the first.
    #[error("a later fragment")]
    LaterFragment,
    /// Its IPv4 header checksum is wrong, so no address in it is to be believed.
    #[error("wrong IPv4 header checksum")]
    BadHeaderChecksum,
    /// Its source or destination is not one host's.
    #[error("an address that is not one host's")]
    NotUnicast,
}

/// Refuses what must not be answered with an error. `packet` was parsed from `ip`. That its frame was sent
/// to a group on its link is for the caller to see
/// ([`is_group_addressed`](crate::wire::ethernet::is_group_addressed)).
pub fn judge(ip: &[u8], packet: &Packet) -> Result<(), ErrorRefused> {
    if packet.fragment == Fragment::Later {
        return Err(ErrorRefused::LaterFragment);
    }
    if packet.kind == Kind::IcmpError || is_icmpv6_error(ip, packet) {
        return Err(ErrorRefused::IsError);
    }
    if packet.is_multicast_or_broadcast() || !is_one_hosts(packet.version, packet.src) || packet.dst == 0 {
        return Err(ErrorRefused::NotUnicast);
    }
    if packet.version == IpVersion::V4 && !ipv4::header_checksum_ok(ip) {
        return Err(ErrorRefused::BadHeaderChecksum);
    }
    Ok(())
}

/// RFC 4443 2.1: types 0 to 127 are errors, also those that nobody knows yet.
fn is_icmpv6_error(ip: &[u8], packet: &Packet) -> bool {
    packet.protocol == protocol::ICMPV6
        && ip.get(usize::from(packet.header_len)).is_none_or(|icmp_type| *icmp_type < 128)
}

/// RFC 1122 3.2.2: not zero, loopback, broadcast, multicast or class E; IPv6's likes of them.
fn is_one_hosts(version: IpVersion, address: u128) -> bool {
    match version {
        IpVersion::V4 => !matches!(address >> 24, 0 | 127 | 224..),
        IpVersion::V6 => address > 1 && address >> 120 != 0xff,
    }
}

/// Bytes of the headers in front of the quoted packet: IP and ICMP.
pub const fn headers_len(version: IpVersion) -> usize {
    match version {
        IpVersion::V4 => ipv4::HEADER_LEN + HEADER_LEN,
        IpVersion::V6 => ipv6::HEADER_LEN + HEADER_LEN,
    }
}

/// Bytes of the packet that are quoted, from its IP header on: as many as make the error as long as the packet is, and no
/// fewer than its sender needs.
pub fn quoted_len(packet: &Packet) -> usize {
    let headers = headers_len(packet.version);
    let most = match packet.version {
        IpVersion::V4 => MAX_V4,
        IpVersion::V6 => MAX_V6,
    } - headers;
    let total = usize::try_from(packet.total_len).unwrap_or(usize::MAX);
    let least = usize::from(packet.header_len) + LEAST_BEHIND_HEADERS;
    total.saturating_sub(headers).max(least).min(total).min(most)
}

/// Bytes by which an error is longer than the packet that it is about: none, unless that is shorter than 56 bytes (IPv4) or
/// 96 (IPv6), or has options or extension headers; at most [`headers_len`].
pub fn excess(packet: &Packet) -> u16 {
    let excess = (headers_len(packet.version) + quoted_len(packet)) as u64;
    #[expect(clippy::cast_possible_truncation, reason = "no more is quoted than there is: 48 at most")]
    let excess = excess.saturating_sub(packet.total_len.into()) as u16;
    excess
}

/// Completes an error about `packet` from `source` (an address of the packet's own version). `message` is
/// the whole IP packet that the error is: room for [`headers_len`], then the quote. Nothing is written if it
/// has not even that room.
pub fn write_headers(message: &mut [u8], error: IcmpError, source: u128, packet: &Packet) {
    match packet.version {
        IpVersion::V4 => write_v4(message, error, source, packet.src),
        IpVersion::V6 => write_v6(message, error, source, packet.src),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "IPv4 addresses; a message of at most 576 bytes")]
fn write_v4(message: &mut [u8], error: IcmpError, source: u128, destination: u128) {
    let total_len = message.len() as u32;
    let Some((header, icmp)) = message.split_first_chunk_mut::<{ ipv4::HEADER_LEN }>() else { return };
    let words = [
        0x4500_0000 | u32::from(TYPE_OF_SERVICE) << 16 | total_len,
        // Identification 0: with DF set nobody needs one (RFC 6864 4.1).
        u32::from(ipv4::DONT_FRAGMENT),
        u32::from_be_bytes([TTL, protocol::ICMP, 0, 0]),
        source as u32,
        destination as u32,
    ];
    let checksum = words.iter().fold(Sum::ZERO, |sum, word| sum.u32(*word)).checksum();
    for (place, (to, word)) in header.as_chunks_mut::<4>().0.iter_mut().zip(words).enumerate() {
        *to = (if place == 2 { word | u32::from(checksum) } else { word }).to_be_bytes();
    }
    let (icmp_type, code, rest) = match error {
        IcmpError::TooBig { mtu } => (3, 4, u32::from(mtu)),
        IcmpError::TimeExceeded => (11, 0, 0),
        IcmpError::Unreachable(Unreachable::NoRoute) => (3, 0, 0),
        IcmpError::Unreachable(Unreachable::Host) => (3, 1, 0),
        IcmpError::Unreachable(Unreachable::Prohibited) => (3, 13, 0),
    };
    write_icmp(icmp, (icmp_type, code), rest, Sum::ZERO);
}

fn write_v6(message: &mut [u8], error: IcmpError, source: u128, destination: u128) {
    let Some((header, icmp)) = message.split_first_chunk_mut::<{ ipv6::HEADER_LEN }>() else { return };
    #[expect(clippy::cast_possible_truncation, reason = "a message of at most 1,280 bytes")]
    let len = icmp.len() as u32;
    // Traffic class and flow label 0.
    let first =
        0x6000_0000_0000_0000 | u64::from(len) << 16 | u64::from(protocol::ICMPV6) << 8 | u64::from(TTL);
    for (to, byte) in header
        .iter_mut()
        .zip(first.to_be_bytes().into_iter().chain(source.to_be_bytes()).chain(destination.to_be_bytes()))
    {
        *to = byte;
    }
    let (icmp_type, code, rest) = match error {
        IcmpError::TooBig { mtu } => (2, 0, u32::from(mtu.max(ipv6::MINIMUM_MTU))),
        IcmpError::TimeExceeded => (3, 0, 0),
        IcmpError::Unreachable(Unreachable::NoRoute) => (1, 0, 0),
        IcmpError::Unreachable(Unreachable::Host) => (1, 3, 0),
        IcmpError::Unreachable(Unreachable::Prohibited) => (1, 1, 0),
    };
    write_icmp(icmp, (icmp_type, code), rest, pseudo_v6(source, destination, protocol::ICMPV6, len));
}

/// The eight bytes of ICMP, and the checksum over them and the quote. IPv4's sums nothing else (RFC 792),
/// IPv6's its pseudo header too.
fn write_icmp(icmp: &mut [u8], (icmp_type, code): (u8, u8), rest: u32, pseudo: Sum) {
    let Some((header, quote)) = icmp.split_first_chunk_mut::<HEADER_LEN>() else { return };
    let kind = u16::from_be_bytes([icmp_type, code]);
    let checksum = pseudo.u16(kind).u32(rest).bytes(quote).checksum();
    let word = u64::from(kind) << 48 | u64::from(checksum) << 32 | u64::from(rest);
    *header = word.to_be_bytes();
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::sample::{self, naive_checksum};

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [198, 51, 100, 2];
    const A6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    const B6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

    /// The error about `ip`, from `source`.
    fn written(ip: &[u8], error: IcmpError, source: u128) -> Vec<u8> {
        let packet = Packet::parse(ip).unwrap();
        let mut message = vec![0xee; headers_len(packet.version)];
        message.extend(&ip[..quoted_len(&packet)]);
        write_headers(&mut message, error, source, &packet);
        message
    }

    fn verdict(ip: &[u8]) -> Result<(), ErrorRefused> {
        judge(ip, &Packet::parse(ip).unwrap())
    }

    // M-2
    #[test]
    fn fragmentation_needed_is_what_rfc_1191_draws() {
        let about = sample::ipv4(A, B, 17, &sample::udp((1, 2), &[7; 1000]));
        let message = written(&about, IcmpError::TooBig { mtu: 1432 }, u32::from_be_bytes(B).into());
        assert_eq!(message.len(), 576);
        assert_eq!(message[..10], [0x45, 0xc0, 2, 64, 0, 0, 0x40, 0, 64, 1]);
        assert_eq!(message[12..20], [B, A].concat());
        assert_eq!(naive_checksum(&message[..20]), 0);
        assert_eq!((&message[20..22], &message[24..28]), (&[3, 4][..], &[0, 0, 0x05, 0x98][..]));
        assert_eq!(naive_checksum(&message[20..]), 0);
        assert_eq!(message[28..], about[..548]);
    }

    // M-2
    #[test]
    fn packet_too_big_is_what_rfc_4443_draws_and_never_names_less_than_1280() {
        let about = sample::ipv6(A6, B6, 17, &sample::udp((1, 2), &[7; 2000]));
        for (mtu, told) in [(1432, 1432u32), (1000, 1280), (9000, 9000)] {
            let message = written(&about, IcmpError::TooBig { mtu }, u128::from_be_bytes(B6));
            assert_eq!(message.len(), 1280);
            assert_eq!(message[..8], [0x60, 0, 0, 0, 4, 0xd8, 58, 64]);
            assert_eq!(message[8..40], [B6, A6].concat());
            assert_eq!((message[40], message[41]), (2, 0));
            assert_eq!(message[44..48], told.to_be_bytes());
            let mut summed = [B6, A6].concat();
            summed.extend([0, 0, 4, 0xd8, 0, 0, 0, 58]);
            summed.extend(&message[40..]);
            assert_eq!(naive_checksum(&summed), 0);
            assert_eq!(message[48..], about[..1232]);
        }
    }

    #[test]
    fn every_kind_has_its_type_and_code_in_both_versions() {
        use Unreachable::{Host, NoRoute, Prohibited};
        let four = sample::ipv4(A, B, 17, &sample::udp((1, 2), b"short"));
        let six = sample::ipv6(A6, B6, 17, &sample::udp((1, 2), b"short"));
        let kinds = [
            (IcmpError::TooBig { mtu: 1300 }, [3, 4], [2, 0]),
            (IcmpError::TimeExceeded, [11, 0], [3, 0]),
            (IcmpError::Unreachable(NoRoute), [3, 0], [1, 0]),
            (IcmpError::Unreachable(Host), [3, 1], [1, 3]),
            (IcmpError::Unreachable(Prohibited), [3, 13], [1, 1]),
        ];
        for (error, in_four, in_six) in kinds {
            assert_eq!(written(&four, error, 1)[20..22], in_four, "{error:?}");
            assert_eq!(written(&six, error, 1)[40..42], in_six, "{error:?}");
            assert_eq!(written(&four, error, 1)[28..], four[..28], "of a short packet as much as must be");
        }
    }

    // M-2
    #[test]
    fn an_error_is_as_long_as_its_packet_unless_its_sender_would_not_know_it_by_that() {
        let sized = |six: bool, payload: usize| {
            let udp = sample::udp((1, 2), &vec![7; payload]);
            if six { sample::ipv6(A6, B6, 17, &udp) } else { sample::ipv4(A, B, 17, &udp) }
        };
        for six in [false, true] {
            // Its IP header, and UDP's.
            let (headers, least, most) = if six { (48, 48, 1280) } else { (28, 28, 576) };
            let told = |ip: &[u8]| {
                (written(ip, IcmpError::TimeExceeded, 1).len(), excess(&Packet::parse(ip).unwrap()))
            };
            for payload in 0..1500 {
                let ip = sized(six, payload);
                let (len, excess) = told(&ip);
                let expected = ip.len().clamp(headers + least, most);
                assert_eq!(len, expected, "about {} bytes", ip.len());
                assert_eq!(usize::from(excess), expected.saturating_sub(ip.len()));
            }
            assert_eq!(told(&sized(six, headers)).1, 0);
            assert_eq!(told(&sized(six, headers - 1)).1, 1);
        }
        // A header with options is quoted with eight bytes behind it, too; a packet without as many whole.
        let options = sample::ipv4_with(A, B, 17, 0, &[1; 40], &sample::udp((1, 2), &[7; 9]));
        assert_eq!(written(&options, IcmpError::TimeExceeded, 1)[28..], options[..68]);
        assert_eq!(excess(&Packet::parse(&options).unwrap()), 28 + 68 - 77);
        let bare = sample::ipv6(A6, B6, 59, &[]);
        assert_eq!(written(&bare, IcmpError::TimeExceeded, 1)[48..], bare);
        assert_eq!(excess(&Packet::parse(&bare).unwrap()), 48);
    }

    #[test]
    fn what_the_rfcs_forbid_is_not_answered() {
        let udp = sample::udp((1, 2), b"x");
        let from = |src, dst| verdict(&sample::ipv4(src, dst, 17, &udp));
        assert_eq!(from(A, B), Ok(()));
        for src in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 5], [240, 0, 0, 1], [255; 4]] {
            assert_eq!(from(src, B), Err(ErrorRefused::NotUnicast), "{src:?}");
        }
        for dst in [[224, 0, 1, 1], [255; 4], [0; 4]] {
            assert_eq!(from(A, dst), Err(ErrorRefused::NotUnicast), "{dst:?}");
        }
        let six =
            |src: u128, dst: u128| verdict(&sample::ipv6(src.to_be_bytes(), dst.to_be_bytes(), 17, &udp));
        let (a, b) = (u128::from_be_bytes(A6), u128::from_be_bytes(B6));
        assert_eq!(six(a, b), Ok(()));
        for (src, dst) in [(0, b), (1, b), (0xff << 120, b), (a, 0xff0e << 112)] {
            assert_eq!(six(src, dst), Err(ErrorRefused::NotUnicast), "{src:x} {dst:x}");
        }
        let mut wrong = sample::ipv4(A, B, 17, &udp);
        wrong[11] ^= 1;
        assert_eq!(verdict(&wrong), Err(ErrorRefused::BadHeaderChecksum));
        assert_eq!(
            verdict(&sample::ipv4_with(A, B, 17, 0x2001, &[], &udp)),
            Err(ErrorRefused::LaterFragment)
        );
        assert_eq!(verdict(&sample::ipv4_with(A, B, 17, 0x2000, &[], &udp)), Ok(()), "a first fragment is");
        for icmp_type in [3, 4, 5, 11, 12] {
            let error = sample::ipv4(A, B, 1, &[icmp_type, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(verdict(&error), Err(ErrorRefused::IsError), "{icmp_type}");
        }
        assert_eq!(verdict(&sample::ipv4(A, B, 1, &[8, 0, 0, 0, 0, 0, 0, 0])), Ok(()));
        for icmp_type in [1, 2, 3, 4, 100, 127] {
            let error = sample::ipv6(A6, B6, 58, &[icmp_type, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(verdict(&error), Err(ErrorRefused::IsError), "{icmp_type}");
        }
        assert_eq!(verdict(&sample::ipv6(A6, B6, 58, &[128, 0, 0, 0, 0, 0, 0, 0])), Ok(()));
    }

    proptest! {
        #[test]
        fn whatever_the_packet_the_checksums_are_right(
            six: bool, len in 0usize..3000, source: u128, mtu: u16, kind in 0usize..3,
        ) {
            let udp = sample::udp((1, 2), &vec![0x5a; len]);
            let ip = if six { sample::ipv6(A6, B6, 17, &udp) } else { sample::ipv4(A, B, 17, &udp) };
            let error = [IcmpError::TooBig { mtu }, IcmpError::TimeExceeded, IcmpError::Unreachable(Unreachable::Host)][kind];
            let message = written(&ip, error, if six { source } else { source & 0xffff_ffff });
            let again = Packet::parse(&message).unwrap();
            prop_assert_eq!(again.kind, Kind::IcmpError);
            prop_assert_eq!(usize::try_from(again.total_len).unwrap(), message.len());
            if six {
                let mut summed = message[8..40].to_vec();
                summed.extend(u32::try_from(message.len() - 40).unwrap().to_be_bytes());
                summed.extend([0, 0, 0, 58]);
                summed.extend(&message[40..]);
                prop_assert_eq!(naive_checksum(&summed), 0);
            } else {
                prop_assert_eq!(naive_checksum(&message[..20]), 0);
                prop_assert_eq!(naive_checksum(&message[20..]), 0);
            }
            let quoted = super::super::quoted(&message, &again).unwrap();
            prop_assert_eq!(quoted, &ip[..quoted.len()]);
        }
    }
}
