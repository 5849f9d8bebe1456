//! The IPv6 header and its extension headers (RFC 8200), walked up to the transport header and
//! bounded in number (M-6): a packet of nothing but extension headers costs no more than any other.

#![forbid(unsafe_code)]

use super::ip::{Fragment, PacketError, protocol};
use super::load::{be16, field16, field128};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;

/// Every link of an IPv6 path takes packets of so many bytes (RFC 8200 5.).
pub const MINIMUM_MTU: u16 = 1280;

/// Extension headers that are walked. RFC 8200 4.1 knows seven in a regular packet, destination options
/// counted twice.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// Bytes of a fragment header (RFC 8200 4.5).
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// A packet's fixed IPv6 header, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// Bytes after the fixed header, as the sender says. Not judged against the bytes here. A jumbogram
    /// (RFC 2675) says 0 and is met as an empty packet.
    pub payload_len: u16,
    /// Protocol or extension header that follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
}

impl Ipv6Header {
    /// Reads the header at the start of `ip`, whose version the caller knows to be 6.
    #[inline]
    pub fn parse(ip: &[u8]) -> Result<Ipv6Header, PacketError> {
        let header = ip.first_chunk::<HEADER_LEN>().ok_or(PacketError::Truncated)?;
        Ok(Ipv6Header {
            payload_len: field16::<4, _>(header),
            next_header: header[6],
            hop_limit: header[7],
            src: field128::<8, _>(header),
            dst: field128::<24, _>(header),
        })
    }
}

/// Where the extension headers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Protocol after the last extension header walked. In a [`Fragment::Later`] it is what the fragment
    /// header names, which may be an extension header of the first fragment.
    pub protocol: u8,
    /// Offset from the start of the IP header.
    pub offset: u16,
    /// Place in the datagram.
    pub fragment: Fragment,
}

/// Walks from the fixed header, which said `next_header`, to the transport header. `ip` ends where the
/// packet ends.
#[inline]
pub fn walk(ip: &[u8], next_header: u8) -> Result<Transport, PacketError> {
    if is_extension(next_header) {
        walk_extensions(ip, next_header)
    } else {
        Ok(Transport { protocol: next_header, offset: 40, fragment: Fragment::Whole })
    }
}

/// Whether it is an extension header that is walked, and no transport protocol.
#[inline]
pub fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AH
            | protocol::DESTINATION_OPTIONS
    )
}

fn walk_extensions(ip: &[u8], next_header: u8) -> Result<Transport, PacketError> {
    let mut at = Transport { protocol: next_header, offset: 40, fragment: Fragment::Whole };
    let mut has_fragment_header = false;
    for _ in 0..MAX_EXTENSION_HEADERS {
        let start = usize::from(at.offset);
        // Next header and, in most, the length in 8-byte units beyond the first.
        let [next, len] = be16(ip, start).ok_or(PacketError::Truncated)?.to_be_bytes();
        let header_len = extension_len(at.protocol, len);
        if start + usize::from(header_len) > ip.len() {
            return Err(PacketError::Truncated);
        }
        if at.protocol == protocol::FRAGMENT {
            if has_fragment_header {
                return Err(PacketError::TwoFragmentHeaders);
            }
            has_fragment_header = true;
            let offset_and_more = be16(ip, start + 2).ok_or(PacketError::Truncated)?;
            if offset_and_more & 0xfff8 != 0 {
                let offset = at.offset + header_len;
                return Ok(Transport { protocol: next, offset, fragment: Fragment::Later });
            }
            if offset_and_more & 1 != 0 {
                at.fragment = Fragment::First;
            }
        }
        at.protocol = next;
        // At most 40 + 8 × 2,048 bytes.
        at.offset += header_len;
        if !is_extension(next) {
            return Ok(at);
        }
    }
    Err(PacketError::TooManyExtensionHeaders)
}

/// Bytes of an extension header that says its length is `len`.
#[inline]
fn extension_len(protocol: u8, len: u8) -> u16 {
    match protocol {
        protocol::FRAGMENT => 8,
        // RFC 4302 2.2: in 4-byte units, minus two.
        protocol::AH => (u16::from(len) + 2) * 4,
        _ => (u16::from(len) + 1) * 8,
    }
}

/// Where the fragment header of the packet at the start of `ip` begins, if one comes before the transport
/// header and among the first [`MAX_EXTENSION_HEADERS`].
pub fn fragment_header(ip: &[u8]) -> Option<usize> {
    let mut protocol = *ip.get(6)?;
    let mut start = HEADER_LEN;
    for _ in 0..MAX_EXTENSION_HEADERS {
        if protocol == protocol::FRAGMENT {
            return Some(start);
        }
        if !is_extension(protocol) {
            return None;
        }
        let [next, len] = be16(ip, start)?.to_be_bytes();
        start += usize::from(extension_len(protocol, len));
        protocol = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample;
    use super::*;

    fn packet(first: u8, payload: &[u8]) -> Vec<u8> {
        sample::ipv6([1; 16], [2; 16], first, payload)
    }

    fn transport(protocol: u8, offset: u16, fragment: Fragment) -> Result<Transport, PacketError> {
        Ok(Transport { protocol, offset, fragment })
    }

    // M-6
    #[test]
    fn every_extension_header_is_walked_by_its_own_length() {
        let mut chain = vec![43, 1];
        chain.extend([0; 14]); // hop-by-hop, 16 bytes
        chain.extend([60, 0, 0, 0, 0, 0, 0, 0]); // routing
        chain.extend([51, 0, 0, 0, 0, 0, 0, 0]); // destination options
        chain.extend([44, 4]);
        chain.extend([0; 22]); // authentication, (4 + 2) × 4 bytes
        chain.extend([6, 0, 0, 0, 0, 0, 0, 7]); // fragment, atomic
        assert_eq!(walk(&packet(0, &chain), 0), transport(6, 40 + 64, Fragment::Whole));
        for len in 40..104 {
            assert_eq!(walk(&packet(0, &chain)[..len], 0), Err(PacketError::Truncated), "cut to {len}");
        }
    }

    // M-6
    #[test]
    fn the_walk_ends_at_a_later_fragment_whatever_it_names_next() {
        let later = [60, 0, 0x05, 0xa8, 0, 0, 0, 7, 0xff, 0xff];
        assert_eq!(walk(&packet(44, &later), 44), transport(60, 48, Fragment::Later));
        let first = [17, 0, 0, 1, 0, 0, 0, 7];
        assert_eq!(walk(&packet(44, &first), 44), transport(17, 48, Fragment::First));
    }

    // M-4, M-6: what the first says of the place would hide what the second says, an overlap of the TCP header among it.
    #[test]
    fn a_second_fragment_header_is_refused_whatever_the_first_says() {
        for first in [0, 1] {
            for [high, low] in [0_u16, 1, 8, 0x05a8].map(u16::to_be_bytes) {
                let chain = [44, 0, 0, first, 0, 0, 0, 7, 6, 0, high, low, 0, 0, 0, 9];
                assert_eq!(walk(&packet(44, &chain), 44), Err(PacketError::TwoFragmentHeaders));
                let apart =
                    [&[60, 0, 0, first, 0, 0, 0, 7][..], &[44, 0, 1, 4, 0, 0, 0, 0], &chain[8..]].concat();
                assert_eq!(walk(&packet(44, &apart), 44), Err(PacketError::TwoFragmentHeaders));
            }
        }
    }

    // M-6
    #[test]
    fn more_than_eight_extension_headers_are_too_many() {
        let options = |count: usize, last: u8| {
            let mut chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count);
            chain[(count - 1) * 8] = last;
            walk(&packet(60, &chain), 60)
        };
        assert_eq!(options(8, 17), transport(17, 40 + 64, Fragment::Whole));
        assert_eq!(options(9, 17), Err(PacketError::TooManyExtensionHeaders));
    }

    // M-6: what follows ESP is encrypted, and nothing follows the others.
    #[test]
    fn esp_mobility_and_no_next_header_end_the_walk() {
        for last in [50, 59, 135, 139, 140] {
            let chain = [last, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0];
            assert_eq!(walk(&packet(last, &chain), last), transport(last, 40, Fragment::Whole));
            assert_eq!(walk(&packet(0, &chain), 0), transport(last, 48, Fragment::Whole));
        }
    }

    proptest! {
        // M-6
        #[test]
        fn no_bytes_panic_and_the_walk_stays_inside(bytes in prop::collection::vec(any::<u8>(), 0..200), first in prop::sample::select(vec![0u8, 43, 44, 51, 60])) {
            let bytes = packet(first, &bytes);
            if let Ok(at) = walk(&bytes, first) {
                prop_assert!(usize::from(at.offset) <= bytes.len());
            }
        }

        #[test]
        fn fields_are_where_rfc_8200_has_them(src: [u8; 16], dst: [u8; 16], next_header: u8, len in 0usize..80) {
            let header = Ipv6Header::parse(&sample::ipv6(src, dst, next_header, &vec![0; len])).unwrap();
            prop_assert_eq!((header.src.to_be_bytes(), header.dst.to_be_bytes()), (src, dst));
            prop_assert_eq!((header.next_header, header.hop_limit), (next_header, 61));
            prop_assert_eq!(usize::from(header.payload_len), len);
        }
    }
}
