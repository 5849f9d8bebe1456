//! Where a fragment belongs (M-4): the datagram's identification and the piece's place in it, for both
//! versions of IP. Read again from the packet when it is a fragment, so that [`Packet`](super::packet::Packet)
//! need not carry for every packet what one in thousands has.

#![forbid(unsafe_code)]

use super::ip::{IpVersion, protocol};
use super::ipv4::{FRAGMENT_OFFSET, MORE_FRAGMENTS};
use super::ipv6;
use super::load::{be16, be32};
use super::packet::Packet;

/// The largest datagram's payload that a fragment may belong to (RFC 791 3.2, RFC 8200 4.5).
const LARGEST: u32 = 65_535;

/// A fragment's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The datagram's identification; IPv4's has 16 bits.
    pub id: u32,
    /// Where the piece begins in the datagram's payload, in bytes.
    pub offset: u32,
    /// Bytes of the piece.
    pub len: u32,
    /// Whether pieces follow.
    pub more: bool,
}

impl Place {
    /// Where the packet at the start of `ip`, from which `packet` was parsed, belongs. `None` if it is
    /// no fragment.
    #[cold]
    pub fn of(ip: &[u8], packet: &Packet) -> Option<Place> {
        let whole = packet.total_len;
        match packet.version {
            IpVersion::V4 => {
                let flags = be16(ip, 6)?;
                let offset = u32::from(flags & FRAGMENT_OFFSET) * 8;
                let more = flags & MORE_FRAGMENTS != 0;
                let len = whole.checked_sub(u32::from(packet.header_len))?;
                (more || offset > 0).then_some(Place { id: be16(ip, 4)?.into(), offset, len, more })
            }
            IpVersion::V6 => {
                let at = ipv6::fragment_header(ip)?;
                let offset_and_more = be16(ip, at + 2)?;
                let offset = u32::from(offset_and_more & 0xfff8);
                let more = offset_and_more & 1 != 0;
                let len = whole.checked_sub(u32::try_from(at + ipv6::FRAGMENT_HEADER_LEN).ok()?)?;
                (more || offset > 0).then_some(Place { id: be32(ip, at + 4)?, offset, len, more })
            }
        }
    }

    /// Whether such a piece can be part of any datagram: all but the last are whole 8-byte units, and none
    /// ends past the largest datagram's end.
    pub fn is_possible(&self) -> bool {
        (!self.more || self.len.is_multiple_of(8)) && self.offset + self.len <= LARGEST
    }

    /// Whether a later fragment of a TCP segment begins inside the fixed TCP header, and so could replace
    /// the flags that its first fragment was let through with (RFC 1858 3.2, RFC 3128): only offset 8 can,
    /// as a first fragment without a whole header is refused.
    pub fn overwrites_tcp_header(&self, protocol: u8) -> bool {
        protocol == protocol::TCP && self.offset == 8
    }
}

/// Whether the IP header at the start of `ip` is that of a first fragment, whatever is wrong with the rest: a
/// first fragment that ends before its transport header does hides that from whoever filters (RFC 1858 3.,
/// RFC 7112).
#[cold]
pub fn is_first(ip: &[u8]) -> bool {
    match ip.first().map(|first| first >> 4) {
        Some(4) => {
            be16(ip, 6).is_some_and(|flags| flags & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == MORE_FRAGMENTS)
        }
        Some(6) => ipv6::fragment_header(ip)
            .and_then(|at| be16(ip, at + 2))
            .is_some_and(|offset_and_more| offset_and_more & 0xfff9 == 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample;
    use super::*;

    fn place(ip: &[u8]) -> Option<Place> {
        Place::of(ip, &Packet::parse(ip).unwrap())
    }

    fn six(extensions: &[u8], first: u8, offset_and_more: u16, payload: &[u8]) -> Vec<u8> {
        let mut chain = extensions.to_vec();
        chain.extend([17, 0]);
        chain.extend(offset_and_more.to_be_bytes());
        chain.extend(0xdead_beef_u32.to_be_bytes());
        chain.extend(payload);
        sample::ipv6([1; 16], [2; 16], first, &chain)
    }

    // M-4
    #[test]
    fn a_fragments_place_is_read_in_both_versions() {
        let four = |flags| place(&sample::ipv4_with([1; 4], [2; 4], 17, flags, &[1; 4], &[0; 24]));
        let at = |id, offset, more| Some(Place { id, offset, len: 24, more });
        assert_eq!(four(0x4000), None);
        assert_eq!(four(0x2000), at(0x1234, 0, true));
        assert_eq!(four(0x20b9), at(0x1234, 1480, true));
        assert_eq!(four(0x1fff), at(0x1234, 65_528, false));
        let options = [44, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(place(&six(&[], 44, 0x0001, &[0; 24])), at(0xdead_beef, 0, true));
        assert_eq!(place(&six(&options, 0, 0x05a8, &[0; 24])), at(0xdead_beef, 1448, false));
        assert_eq!(place(&six(&options, 60, 0x05a9, &[0; 24])), at(0xdead_beef, 1448, true));
        assert_eq!(place(&six(&[], 44, 0x0000, &[0; 24])), None, "RFC 6946: atomic, so whole");
        assert_eq!(place(&sample::ipv6([1; 16], [2; 16], 17, &[0; 24])), None);
    }

    #[test]
    fn a_first_fragment_is_told_from_its_ip_header_alone() {
        let four = |flags| is_first(&sample::ipv4_with([1; 4], [2; 4], 6, flags, &[], &[0; 8]));
        assert!(four(0x2000) && !four(0x4000) && !four(0x2001) && !four(0x0001));
        assert!(is_first(&six(&[], 44, 1, &[])) && !is_first(&six(&[], 44, 9, &[])));
        assert!(!is_first(&six(&[], 44, 0, &[])) && !is_first(&sample::ipv6([1; 16], [2; 16], 6, &[])));
    }

    #[test]
    fn impossible_places_are_told() {
        let of = |offset, len, more| Place { id: 1, offset, len, more }.is_possible();
        assert!(of(0, 8, true) && of(8, 3, false) && of(65_528, 7, false));
        assert!(!of(0, 9, true) && !of(65_528, 8, false) && !of(65_000, 800, true));
    }

    #[test]
    fn only_tcp_at_offset_8_could_change_flags_that_were_judged() {
        let at = |offset| Place { id: 1, offset, len: 16, more: false };
        assert!(at(8).overwrites_tcp_header(6));
        assert!(!at(16).overwrites_tcp_header(6) && !at(8).overwrites_tcp_header(17));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), six: bool) {
            let ip = if six { sample::ipv6([1; 16], [2; 16], 44, &bytes) } else { bytes };
            if let Ok(packet) = Packet::parse(&ip) && let Some(place) = Place::of(&ip, &packet) {
                place.is_possible();
            }
        }
    }
}
