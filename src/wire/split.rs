//! Splitting an IPv4 packet into fragments (M-2, RFC 791 3.2): which bytes go into which piece, and each
//! piece's header. A [`Split`] is planned once a packet and holds all that must be known of its header, so
//! that the packet's own buffer can become the first piece while the others are written elsewhere.

#![forbid(unsafe_code)]

use std::ops::Range;

use thiserror::Error;

use super::checksum::Sum;
use super::ip::PacketError;
use super::ipv4::{self, DONT_FRAGMENT, FRAGMENT_OFFSET, Ipv4Header, MORE_FRAGMENTS};
use super::load::be16;

/// Bytes of the longest IPv4 header.
const LONGEST_HEADER: usize = 60;

/// An option type's top bit: the option is copied into every fragment (RFC 791 3.1).
const COPIED: u8 = 0x80;

/// Fragments begin at multiples of so many bytes.
const UNIT: usize = 8;

/// Why a packet is not split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotSplit {
    /// Its sender forbids it.
    #[error("its sender forbids it")]
    DontFragment,
    /// Its header is cut, contradicts itself, or its checksum is wrong: a piece with a right one would
    /// hide that.
    #[error("its header is wrong")]
    Malformed,
    /// Not even eight bytes beside the header fit.
    #[error("no room for a piece")]
    NoRoom,
}

impl From<PacketError> for NotSplit {
    fn from(_: PacketError) -> NotSplit {
        NotSplit::Malformed
    }
}

/// How a packet is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    first: Header,
    later: Header,
    /// The packet's payload in bytes.
    payload_len: usize,
    /// Bytes of payload in the first piece and in each that follows; multiples of 8.
    first_step: usize,
    later_step: usize,
    /// Flags and offset of the packet, which may be a fragment itself.
    flags: u16,
}

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of its header.
    pub header_len: usize,
    /// The bytes of the packet, from its IP header on, that are its payload.
    pub payload: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    bytes: [u8; LONGEST_HEADER],
    len: usize,
}

impl Header {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Split {
    /// Plans the split of the IPv4 packet at the start of `ip` into packets of at most `most` bytes.
    #[cold]
    pub fn plan(ip: &[u8], most: usize) -> Result<Split, NotSplit> {
        let header = Ipv4Header::parse(ip)?;
        let header_len = usize::from(header.header_len);
        let flags = be16(ip, 6).ok_or(NotSplit::Malformed)?;
        if flags & DONT_FRAGMENT != 0 {
            return Err(NotSplit::DontFragment);
        }
        let payload_len = usize::from(header.total_len).checked_sub(header_len).ok_or(NotSplit::Malformed)?;
        let last_unit = usize::from(flags & FRAGMENT_OFFSET) + payload_len / UNIT;
        if ip.len() < header_len + payload_len
            || last_unit > usize::from(FRAGMENT_OFFSET)
            || !ipv4::header_checksum_ok(ip)
        {
            return Err(NotSplit::Malformed);
        }
        let mut first = Header { bytes: [0; LONGEST_HEADER], len: header_len };
        for (to, from) in first.bytes.iter_mut().zip(ip.iter().take(header_len)) {
            *to = *from;
        }
        let later = later_header(first.bytes())?;
        let step = |header: &Header| {
            let step = most.saturating_sub(header.len) & !(UNIT - 1);
            if step == 0 { Err(NotSplit::NoRoom) } else { Ok(step) }
        };
        Ok(Split { first_step: step(&first)?, later_step: step(&later)?, first, later, payload_len, flags })
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        1 + self.payload_len.saturating_sub(self.first_step).div_ceil(self.later_step)
    }

    /// The piece of this number, from 0.
    pub fn piece(&self, number: usize) -> Piece {
        let (start, step, header) = match number.checked_sub(1) {
            None => (0, self.first_step, &self.first),
            Some(later) => (self.first_step + later * self.later_step, self.later_step, &self.later),
        };
        let start = start.min(self.payload_len);
        let end = (start + step).min(self.payload_len);
        Piece { header_len: header.len, payload: self.first.len + start..self.first.len + end }
    }

    /// Writes that piece's header at the start of `out`: identification, addresses and protocol are the
    /// packet's, length, place, flags, options and checksum the piece's own. Nothing if there is no room.
    pub fn write_header(&self, number: usize, out: &mut [u8]) {
        let piece = self.piece(number);
        let header = if number == 0 { &self.first } else { &self.later };
        let Some(out) = out.get_mut(..header.len) else { return };
        out.copy_from_slice(header.bytes());
        let more = if number + 1 < self.pieces() { MORE_FRAGMENTS } else { self.flags & MORE_FRAGMENTS };
        let units = (piece.payload.start - self.first.len) / UNIT;
        #[expect(clippy::cast_possible_truncation, reason = "parts of a packet whose end `plan` has judged")]
        let (units, total_len) = (units as u16, (header.len + piece.payload.len()) as u16);
        let kept = self.flags & !MORE_FRAGMENTS;
        for (at, field) in [(2, total_len), (6, kept.wrapping_add(units) | more), (10, 0)] {
            put(out, at, field);
        }
        let checksum = Sum::ZERO.bytes(out).checksum();
        put(out, 10, checksum);
    }
}

fn put(header: &mut [u8], at: usize, field: u16) {
    if let Some(bytes) = header.get_mut(at..at + 2) {
        bytes.copy_from_slice(&field.to_be_bytes());
    }
}

/// The header of all pieces but the first: of the options only those whose copied flag is set.
fn later_header(first: &[u8]) -> Result<Header, NotSplit> {
    let mut header = Header { bytes: [0; LONGEST_HEADER], len: ipv4::HEADER_LEN };
    for (to, from) in header.bytes.iter_mut().zip(first.iter().take(ipv4::HEADER_LEN)) {
        *to = *from;
    }
    let mut options = first.get(ipv4::HEADER_LEN..).unwrap_or_default();
    while let Some((&kind, rest)) = options.split_first() {
        // End of options, no operation, and those with a length (RFC 791 3.1).
        let len = match kind {
            0 => break,
            1 => 1,
            _ => rest.first().map_or(0, |len| usize::from(*len)),
        };
        if len == 0 || (kind > 1 && len < 2) {
            return Err(NotSplit::Malformed);
        }
        let (option, behind) = options.split_at_checked(len).ok_or(NotSplit::Malformed)?;
        if kind & COPIED != 0 {
            let room = header.bytes.get_mut(header.len..header.len + len).ok_or(NotSplit::Malformed)?;
            room.copy_from_slice(option);
            header.len += len;
        }
        options = behind;
    }
    // Padded with ends of options to a whole number of words.
    header.len = header.len.next_multiple_of(4);
    #[expect(clippy::cast_possible_truncation, reason = "at most 15")]
    let words = (header.len / 4) as u8;
    if let Some(version_and_len) = header.bytes.first_mut() {
        *version_and_len = 0x40 | words;
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{self, naive_checksum};
    use super::*;

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [198, 51, 100, 2];

    /// The pieces as packets.
    fn pieces(ip: &[u8], most: usize) -> Vec<Vec<u8>> {
        let split = Split::plan(ip, most).unwrap();
        (0..split.pieces())
            .map(|number| {
                let piece = split.piece(number);
                let mut packet = vec![0; piece.header_len];
                split.write_header(number, &mut packet);
                packet.extend(&ip[piece.payload]);
                packet
            })
            .collect()
    }

    fn offset(packet: &[u8]) -> usize {
        usize::from(u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff) * 8
    }

    fn more(packet: &[u8]) -> bool {
        packet[6] & 0x20 != 0
    }

    /// RFC 791 3.2's reassembly as it is written, of whole datagrams or of a stretch of one: the payload and
    /// where it begins.
    fn reassembled(pieces: &[Vec<u8>]) -> (usize, Vec<u8>, bool) {
        let first = pieces.iter().map(|piece| offset(piece)).min().unwrap();
        let mut buffer = vec![None; 70_000];
        let mut end = 0;
        let mut goes_on = true;
        for piece in pieces {
            let header_len = usize::from(piece[0] & 15) * 4;
            for (n, byte) in piece[header_len..].iter().enumerate() {
                assert_eq!(buffer[offset(piece) + n].replace(*byte), None, "pieces overlap");
            }
            end = end.max(offset(piece) + piece.len() - header_len);
            goes_on &= more(piece);
        }
        (first, buffer[first..end].iter().map(|byte| byte.expect("no gap")).collect(), goes_on)
    }

    // M-2: the example of RFC 791's appendix A, a datagram of 452 data octets and a network of 280.
    #[test]
    fn the_example_of_rfc_791_appendix_a_comes_out() {
        let ip =
            sample::ipv4_with(A, B, 6, 0, &[], &(0..452u32).map(|n| n.to_le_bytes()[0]).collect::<Vec<_>>());
        let parts = pieces(&ip, 280);
        let shape: Vec<_> = parts.iter().map(|part| (part.len(), offset(part), more(part))).collect();
        assert_eq!(shape, [(276, 0, true), (216, 256, false)]);
    }

    // M-2
    #[test]
    fn options_go_into_later_pieces_by_their_copied_flag() {
        // A loose source route (copied), a timestamp (not), no operation, a router alert (copied).
        let options = [131, 7, 4, 9, 9, 9, 9, 68, 8, 5, 0, 0, 0, 0, 0, 1, 148, 4, 0, 0];
        let ip = sample::ipv4_with(A, B, 17, 0, &options, &[7; 300]);
        let parts = pieces(&ip, 120);
        assert_eq!(parts[0][20..40], options);
        for part in &parts[1..] {
            assert_eq!(part[0], 0x48, "eight words");
            assert_eq!(part[20..32], [131, 7, 4, 9, 9, 9, 9, 148, 4, 0, 0, 0]);
        }
        assert_eq!(reassembled(&parts), (0, vec![7; 300], false));
    }

    // M-2
    #[test]
    fn what_cannot_be_split_is_not() {
        let plan = |flags, options: &[u8], len, most| {
            Split::plan(&sample::ipv4_with(A, B, 17, flags, options, &vec![0; len]), most).map(|_| ())
        };
        assert_eq!(plan(0, &[], 100, 60), Ok(()));
        assert_eq!(plan(0x4000, &[], 100, 60), Err(NotSplit::DontFragment));
        assert_eq!(plan(0, &[], 100, 27), Err(NotSplit::NoRoom));
        assert_eq!(plan(0x1ff0, &[], 128, 60), Err(NotSplit::Malformed), "beyond the largest datagram");
        for options in [[131, 1, 0, 0], [131, 0, 0, 0], [131, 9, 0, 0], [1, 1, 1, 131]] {
            assert_eq!(plan(0, &options, 100, 60), Err(NotSplit::Malformed), "{options:?}");
        }
        let mut wrong = sample::ipv4_with(A, B, 17, 0, &[], &[0; 100]);
        wrong[10] ^= 1;
        assert_eq!(Split::plan(&wrong, 60), Err(NotSplit::Malformed));
        assert_eq!(Split::plan(&wrong[..19], 60), Err(NotSplit::Malformed));
        let whole = sample::ipv4_with(A, B, 17, 0, &[], &[0; 100]);
        assert_eq!(Split::plan(&whole[..119], 60), Err(NotSplit::Malformed), "cut");
    }

    proptest! {
        // M-2
        #[test]
        fn pieces_fit_and_reassemble_to_what_was_split(
            payload in prop::collection::vec(any::<u8>(), 0..3000),
            words in 0usize..11,
            most in 68usize..1600,
            units in 0u16..0x1e00,
            going_on: bool,
        ) {
            let payload = if going_on { &payload[..payload.len() / 8 * 8] } else { &payload[..] };
            let flags = units | if going_on { 0x2000 } else { 0 };
            // The first half of the options is copied, the second not.
            let options: Vec<u8> = (0..words).flat_map(|n| [if n < words / 2 { 0x94 } else { 0x14 }, 4, 0, 0]).collect();
            let ip = sample::ipv4_with(A, B, 17, flags, &options, payload);
            let parts = pieces(&ip, most);
            for part in &parts {
                prop_assert!(part.len() <= most);
                prop_assert_eq!(naive_checksum(&part[..usize::from(part[0] & 15) * 4]), 0);
                prop_assert_eq!(usize::from(u16::from_be_bytes([part[2], part[3]])), part.len());
                prop_assert_eq!(&part[4..6], &ip[4..6]);
                prop_assert_eq!((&part[8..10], &part[12..20]), (&ip[8..10], &ip[12..20]));
            }
            prop_assert!(parts[..parts.len() - 1].iter().all(|part| more(part)));
            if !payload.is_empty() {
                prop_assert_eq!(reassembled(&parts), (usize::from(units) * 8, payload.to_vec(), going_on));
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), most in 0usize..200) {
            if let Ok(split) = Split::plan(&bytes, most) {
                prop_assert!(split.pieces() <= 120);
            }
        }
    }
}
