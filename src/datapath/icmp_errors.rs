//! Answering a packet with an ICMP error of the gateway's own (M-2, W-6): the packet's own buffer becomes
//! the error about it and goes back the way the packet came. How many a worker sends is bounded by its
//! [`Allowance`]; an error is a courtesy, and a flood of what causes it must not become a flood of errors
//! (RFC 1812 4.3.2.8, RFC 4443 2.4 f).

use crate::flow::HashSeed;
use crate::id::Millis;
use crate::io::PacketBuf;
use crate::wire::ethernet;
use crate::wire::icmp::error::{self, ErrorRefused, IcmpError};
use crate::wire::ip::IpVersion;
use crate::wire::packet::Packet;

/// Errors a worker sends in a second at most: a hundred new paths a second learn their MTU at ten lost
/// packets each, and at 576 bytes each it is less than 5 Mbit/s.
const ERRORS_A_SECOND: u32 = 1000;

/// Errors a worker sends at once: as many as a burst from each of some ports.
const ERRORS_AT_ONCE: u32 = 100;

/// Of these, errors to the senders of one prefix in a second, and at once: whoever has packets come in under the address of
/// another makes this much of it at that one, and leaves the rest to others.
const TO_ONE_A_SECOND: u32 = 100;
const TO_ONE_AT_ONCE: u32 = 20;

/// Prefixes that are told apart; where there are more, some share. A power of two.
const PREFIXES: usize = 1024;

/// A token bucket. Empty, and that long ago, is full.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// In thousandths, so that a millisecond's share is whole.
    millitokens: u32,
    filled_at: Millis,
}

impl Bucket {
    const fn full(at_once: u32) -> Bucket {
        Bucket { millitokens: at_once * 1000, filled_at: Millis(0) }
    }

    fn filled(&self, (a_second, at_once): (u32, u32), now: Millis) -> u32 {
        let gained = now.since(self.filled_at).saturating_mul(a_second);
        self.millitokens.saturating_add(gained).min(at_once * 1000)
    }

    fn fill(&mut self, rate: (u32, u32), now: Millis) {
        *self = Bucket { millitokens: self.filled(rate, now), filled_at: now };
    }
}

const TO_ALL: (u32, u32) = (ERRORS_A_SECOND, ERRORS_AT_ONCE);
const TO_ONE: (u32, u32) = (TO_ONE_A_SECOND, TO_ONE_AT_ONCE);

/// How many errors a worker may send now, and to whom.
#[derive(Debug)]
pub struct Allowance {
    all: Bucket,
    /// By the hash of the prefix that they go to.
    each: Box<[Bucket; PREFIXES]>,
    seed: HashSeed,
}

impl Allowance {
    /// All that may be; prefixes are hashed under `seed`.
    pub fn new(seed: HashSeed) -> Allowance {
        Allowance {
            all: Bucket::full(ERRORS_AT_ONCE),
            each: Box::new([Bucket::full(TO_ONE_AT_ONCE); PREFIXES]),
            seed,
        }
    }

    /// Whether [`take`](Allowance::take) would give leave.
    pub fn allows(&self, about: &Packet, now: Millis) -> bool {
        let one = self.each[self.place(about)];
        self.all.filled(TO_ALL, now) >= 1000 && one.filled(TO_ONE, now) >= 1000
    }

    /// Takes leave to send one error to the sender of a packet; false if there is none.
    pub fn take(&mut self, about: &Packet, now: Millis) -> bool {
        let place = self.place(about);
        let (all, one) = (&mut self.all, &mut self.each[place]);
        all.fill(TO_ALL, now);
        one.fill(TO_ONE, now);
        let left = (all.millitokens.checked_sub(1000), one.millitokens.checked_sub(1000));
        let (Some(of_all), Some(of_one)) = left else { return false };
        (all.millitokens, one.millitokens) = (of_all, of_one);
        true
    }

    /// Gives leave back: the error was not sent.
    pub fn give_back(&mut self, about: &Packet) {
        let place = self.place(about);
        for bucket in [&mut self.all, &mut self.each[place]] {
            bucket.millitokens = bucket.millitokens.saturating_add(1000);
        }
    }

    /// The bucket of a sender's prefix: what one network has as a rule, of which its hosts can forge each other's.
    fn place(&self, about: &Packet) -> usize {
        let prefix = match about.version {
            IpVersion::V4 => about.src >> 8,
            IpVersion::V6 => about.src >> 64,
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the prefix has 64 bits at most, and a place is taken of the hash"
        )]
        let place = self.seed.pair(prefix as u64, about.version.number().into()) as usize % PREFIXES;
        place
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

    fn allowance() -> Allowance {
        Allowance::new(HashSeed::from_secret(b"a secret of sixteen"))
    }

    fn from(network: u16, host: u8) -> Packet {
        let [a, b] = network.to_be_bytes();
        let bytes = sample::ipv4([10, a, b, host], [198, 51, 100, 2], 17, &sample::udp((1, 2), &[]));
        Packet::parse(&bytes).unwrap()
    }

    #[test]
    fn a_flood_gets_a_hundred_errors_at_once_and_then_one_a_millisecond() {
        let mut allowance = allowance();
        let mut network = 0;
        let mut taken = |at| {
            let takes = |_: &u32| {
                network += 1;
                allowance.take(&from(network, 1), Millis(at))
            };
            (0..2000).filter(takes).count()
        };
        assert_eq!(taken(5_000), 100);
        assert_eq!(taken(5_000), 0);
        assert_eq!(taken(5_001), 1);
        assert_eq!(taken(5_051), 50);
        assert_eq!(taken(1_000_000), 100, "no more than a bucketful however long it rested");
        assert_eq!(taken(999_000), 0, "a clock that seems to go back gives nothing");
    }

    #[test]
    fn one_network_gets_twenty_at_once_and_one_in_ten_milliseconds_and_leaves_the_rest_to_others() {
        let mut allowance = allowance();
        let mut taken = |network, at| {
            (0..1000u32).filter(|n| allowance.take(&from(network, n.to_le_bytes()[0]), Millis(at))).count()
        };
        assert_eq!(taken(1, 5_000), 20, "whichever of its hosts");
        assert_eq!(taken(2, 5_000), 20);
        assert_eq!(taken(1, 5_009), 0);
        assert_eq!(taken(1, 5_010), 1);
        assert_eq!(taken(1, 6_010), 20, "no more than a bucketful");
        let mut held = 0;
        for ms in 0..1000 {
            held += taken(1, 10_000 + ms);
        }
        assert!((119..=120).contains(&held), "{held} in a second");
        for ms in 0..1000 {
            assert!(allowance.allows(&from(3, 1), Millis(10_000 + ms)));
        }
    }

    #[test]
    fn what_was_not_sent_is_given_back_to_both() {
        let mut allowance = allowance();
        for _ in 0..1000 {
            assert!(allowance.take(&from(1, 1), Millis(7)));
            allowance.give_back(&from(1, 1));
        }
        let six = sample::ipv6([1; 16], [2; 16], 17, &sample::udp((1, 2), &[]));
        assert!(allowance.take(&Packet::parse(&six).unwrap(), Millis(7)));
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
