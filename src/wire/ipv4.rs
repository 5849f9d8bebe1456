//! The IPv4 header (RFC 791). Its checksum is not judged by [`Ipv4Header::parse`]: a transparent wire
//! passes what its end hosts will judge; who answers or terminates asks [`header_checksum_ok`].

#![forbid(unsafe_code)]

use super::checksum::{self, Sum};
use super::ip::{Fragment, PacketError};
use super::load::{field16, field32};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// "Don't fragment", in the word at offset 6.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments", in the word at offset 6.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The fragment offset in 8-byte units, in the word at offset 6.
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// A packet's IPv4 header, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// Bytes of the header with its options: 20–60.
    pub header_len: u8,
    /// Header and payload in bytes, as the sender says. Not judged against the bytes here.
    pub total_len: u16,
    /// Place in the datagram.
    pub fragment: Fragment,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
}

impl Ipv4Header {
    /// Reads the header at the start of `ip`, whose version the caller knows to be 4. Proves that the
    /// bytes hold all of the header; nothing is proved of `total_len`.
    #[inline]
    pub fn parse(ip: &[u8]) -> Result<Ipv4Header, PacketError> {
        let header = ip.first_chunk::<HEADER_LEN>().ok_or(PacketError::Truncated)?;
        let header_len = (header[0] & 0x0f) << 2;
        if usize::from(header_len) < HEADER_LEN {
            return Err(PacketError::BadHeaderLength);
        }
        if usize::from(header_len) > ip.len() {
            return Err(PacketError::Truncated);
        }
        let flags = field16::<6, _>(header);
        let fragment = if flags & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == 0 {
            Fragment::Whole
        } else if flags & FRAGMENT_OFFSET == 0 {
            Fragment::First
        } else {
            Fragment::Later
        };
        Ok(Ipv4Header {
            header_len,
            total_len: field16::<2, _>(header),
            fragment,
            ttl: header[8],
            protocol: header[9],
            src: field32::<12, _>(header),
            dst: field32::<16, _>(header),
        })
    }
}

/// Whether the checksum of the IPv4 header at the start of `ip`, options included, is right. A header
/// that is cut or too short is not.
#[inline]
pub fn header_checksum_ok(ip: &[u8]) -> bool {
    let Some(first) = ip.first() else { return false };
    if let (0x45, Some(header)) = (first, ip.first_chunk::<HEADER_LEN>()) {
        return checksum::header_is_right(header);
    }
    let header_len = usize::from(first & 0x0f) * 4;
    header_len >= HEADER_LEN && ip.get(..header_len).is_some_and(|header| Sum::ZERO.bytes(header).is_right())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample;
    use super::*;

    // M-4
    #[test]
    fn a_fragments_place_is_read_from_offset_and_more() {
        let place = |flags| {
            Ipv4Header::parse(&sample::ipv4_with([1; 4], [2; 4], 6, flags, &[], &[0; 20])).unwrap().fragment
        };
        assert_eq!(place(0x0000), Fragment::Whole);
        assert_eq!(place(0x4000), Fragment::Whole);
        assert_eq!(place(0x2000), Fragment::First);
        assert_eq!(place(0x2001), Fragment::Later);
        assert_eq!(place(0x0001), Fragment::Later);
    }

    #[test]
    fn a_header_must_hold_what_its_length_says() {
        let packet = sample::ipv4_with([1; 4], [2; 4], 17, 0, &[1; 40], &[]);
        for len in 0..60 {
            assert_eq!(Ipv4Header::parse(&packet[..len]), Err(PacketError::Truncated), "cut to {len}");
        }
        assert_eq!(Ipv4Header::parse(&packet).unwrap().header_len, 60);
        let mut short = packet;
        short[0] = 0x44;
        assert_eq!(Ipv4Header::parse(&short), Err(PacketError::BadHeaderLength));
        assert!(!header_checksum_ok(&short));
    }

    proptest! {
        // R-5, W-5
        #[test]
        fn one_flipped_bit_makes_the_checksum_wrong(src: [u8; 4], dst: [u8; 4], words in 0usize..11, bit: prop::sample::Index) {
            let mut packet = sample::ipv4_with(src, dst, 6, 0, &vec![1; words * 4], b"payload");
            prop_assert!(header_checksum_ok(&packet));
            let header_len = 20 + words * 4;
            // Not of the first byte: another length covers other bytes, which may add up by chance.
            let bit = 8 + bit.index(header_len * 8 - 8);
            packet[bit / 8] ^= 0x80 >> (bit % 8);
            prop_assert!(!header_checksum_ok(&packet), "bit {} flipped", bit);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = header_checksum_ok(&bytes);
            if let Ok(header) = Ipv4Header::parse(&bytes) {
                prop_assert!((20..=bytes.len()).contains(&header.header_len.into()));
            }
        }
    }
}
