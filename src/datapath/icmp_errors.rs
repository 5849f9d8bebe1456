//! Answering a packet with an ICMP error of the gateway's own (M-2, W-6): the packet's own buffer becomes
//! the error about it and goes back the way the packet came. How many a worker sends is bounded by its
//! [`Allowance`]; an error is a courtesy, and a flood of what causes it must not become a flood of errors
//! (RFC 1812 4.3.2.8, RFC 4443 2.4 f).

use crate::id::Millis;
use crate::io::PacketBuf;
use crate::wire::ethernet;
use crate::wire::icmp::error::{self, ErrorRefused, IcmpError};
use crate::wire::packet::Packet;

/// Errors a worker sends in a second at most: a hundred new paths a second learn their MTU at ten lost
/// packets each, and at 576 bytes each it is less than 5 Mbit/s.
const ERRORS_A_SECOND: u32 = 1000;

/// Errors a worker sends at once: as many as a burst from each of some ports.
const ERRORS_AT_ONCE: u32 = 100;

/// A token bucket: how many errors a worker may send now.
#[derive(Debug)]
pub struct Allowance {
    /// In thousandths, so that a millisecond's share is whole.
    millitokens: u32,
    filled_at: Millis,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { millitokens: ERRORS_AT_ONCE * 1000, filled_at: Millis(0) }
    }
}

impl Allowance {
    /// Whether [`take`](Allowance::take) would give leave.
    pub fn allows(&self, now: Millis) -> bool {
        self.filled(now) >= 1000
    }

    fn filled(&self, now: Millis) -> u32 {
        let gained = now.since(self.filled_at).saturating_mul(ERRORS_A_SECOND);
        self.millitokens.saturating_add(gained).min(ERRORS_AT_ONCE * 1000)
    }

    /// Takes leave to send one error; false if there is none.
    pub fn take(&mut self, now: Millis) -> bool {
        self.millitokens = self.filled(now);
        self.filled_at = now;
        let Some(left) = self.millitokens.checked_sub(1000) else { return false };
        self.millitokens = left;
        true
    }

    /// Gives leave back: the error was not sent.
    pub fn give_back(&mut self) {
        self.millitokens = self.millitokens.saturating_add(1000);
    }
}

/// Why a packet was not turned into an error about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoError {
    /// Such a packet must not be answered with one.
    Refused,
    /// The buffer has no room for the headers in front.
    NoHeadroom,
}

impl From<ErrorRefused> for NoError {
    fn from(_: ErrorRefused) -> NoError {
        NoError::Refused
    }
}

/// Turns the frame, whose IP packet begins after `link_len` bytes and is `packet`, into the ICMP error about
/// it, to its sender, link addresses swapped and tags kept. `source` is the address that it comes from, of
/// the packet's own IP version; a wire has none of its own and uses the packet's destination. A refused
/// frame stays as it was.
#[cold]
pub fn become_error<B: PacketBuf>(
    frame: &mut B,
    link_len: usize,
    packet: &Packet,
    error: IcmpError,
    source: u128,
) -> Result<(), NoError> {
    if ethernet::is_group_addressed(frame.bytes()) {
        return Err(NoError::Refused);
    }
    error::judge(frame.bytes().get(link_len..).ok_or(NoError::Refused)?, packet)?;
    let headers_len = error::headers_len(packet.version);
    frame.prepend(headers_len).ok_or(NoError::NoHeadroom)?;
    frame.truncate(headers_len + link_len + error::quoted_len(packet));
    let bytes = frame.bytes_mut();
    if bytes.len() < headers_len + link_len {
        return Err(NoError::Refused);
    }
    bytes.copy_within(headers_len..headers_len + link_len, 0);
    ethernet::swap_addresses(bytes);
    error::write_headers(bytes.get_mut(link_len..).unwrap_or_default(), error, source, packet);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::memory::MemoryBuf;
    use crate::wire::sample;

    #[test]
    fn a_flood_gets_a_hundred_errors_at_once_and_then_one_a_millisecond() {
        let mut allowance = Allowance::default();
        let mut taken = |at| (0..10_000).filter(|_| allowance.take(Millis(at))).count();
        assert_eq!(taken(5_000), 100);
        assert_eq!(taken(5_000), 0);
        assert_eq!(taken(5_001), 1);
        assert_eq!(taken(5_051), 50);
        assert_eq!(taken(1_000_000), 100, "no more than a bucketful however long it rested");
        assert_eq!(taken(999_000), 0, "a clock that seems to go back gives nothing");
    }

    #[test]
    fn the_error_goes_back_under_the_packets_own_link_header_turned_round() {
        let ip = sample::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 17, &sample::udp((1, 2), &[9; 900]));
        let mut tagged = [[0x02, 0, 0, 0, 0, 2], [0x02, 0, 0, 0, 0, 1]].concat();
        tagged.extend([0x81, 0x00, 0x60, 0x2a, 0x08, 0x00]);
        let mut frame = MemoryBuf::new(&[&tagged[..], &ip, &[0xee; 7]].concat());
        let packet = Packet::parse(&ip).unwrap();
        become_error(&mut frame, 18, &packet, IcmpError::TimeExceeded, 0x0a00_0001).unwrap();
        let bytes = frame.bytes();
        assert_eq!(bytes[..12], [[0x02, 0, 0, 0, 0, 1], [0x02, 0, 0, 0, 0, 2]].concat());
        assert_eq!(bytes[12..18], tagged[12..]);
        assert_eq!(bytes.len(), 18 + 576);
        assert_eq!(bytes[18 + 12..18 + 20], [10, 0, 0, 1, 192, 0, 2, 1]);
        assert_eq!(bytes[18 + 28..], ip[..548]);
    }

    #[test]
    fn a_frame_to_a_group_is_refused_and_stays_as_it_was() {
        let ip = sample::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 17, &sample::udp((1, 2), &[9; 900]));
        let link = [0x01, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1, 8, 0];
        let frame = MemoryBuf::new(&[&link[..], &ip].concat());
        let mut same = frame.clone();
        let packet = Packet::parse(&ip).unwrap();
        let refused = become_error(&mut same, 14, &packet, IcmpError::TimeExceeded, 1);
        assert_eq!((refused, same), (Err(NoError::Refused), frame));
    }
}
