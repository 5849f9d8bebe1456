//! Answering a packet with an ICMP error of the gateway's own (M-2, W-6): the packet's own buffer becomes
//! the error about it and goes back the way the packet came. How many a worker sends is bounded by its
//! [`Allowance`]; an error is a courtesy, and a flood of what causes it must not become a flood of errors
//! (RFC 1812 4.3.2.8, RFC 4443 2.4 f).
//!
//! Nor may it become a larger one. An error is no longer than its packet, unless that is so short that its sender would not
//! know it again; then packets from the same prefix that are told nothing pay for what it is longer. So a lone short packet
//! is not answered, and one that is sent again is: what goes to the prefixes that share a place is never more bytes than came
//! from them.

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

/// What the senders of one prefix may be told.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    errors: Bucket,
    /// Bytes of their packets that were told nothing as the error about each would have been longer than it, less what errors
    /// were longer since: fewer than such a packet and the headers of an error have.
    untold: u16,
}

impl Prefix {
    const FRESH: Prefix = Prefix { errors: Bucket::full(TO_ONE_AT_ONCE), untold: 0 };

    /// What is left of the bytes when an error about a packet is paid for. `None`: it would be longer than all of them.
    fn paid(self, about: &Packet) -> Option<u16> {
        self.untold.checked_sub(error::excess(about))
    }

    fn keep(&mut self, bytes: u32) {
        self.untold = self.untold.saturating_add(u16::try_from(bytes).unwrap_or(u16::MAX));
    }
}

/// How many errors a worker may send now, and to whom.
#[derive(Debug)]
pub struct Allowance {
    all: Bucket,
    /// By the hash of the prefix that they go to.
    each: Box<[Prefix; PREFIXES]>,
    seed: HashSeed,
}

impl Allowance {
    /// All that may be; prefixes are hashed under `seed`.
    pub fn new(seed: HashSeed) -> Allowance {
        Allowance { all: Bucket::full(ERRORS_AT_ONCE), each: Box::new([Prefix::FRESH; PREFIXES]), seed }
    }

    /// Whether [`take`](Allowance::take) would give leave.
    pub fn allows(&self, about: &Packet, now: Millis) -> bool {
        let one = self.each[self.place(about)];
        self.all.filled(TO_ALL, now) >= 1000
            && one.errors.filled(TO_ONE, now) >= 1000
            && one.paid(about).is_some()
    }

    /// Takes leave to send one error to the sender of a packet that may be told of it; false if there is none.
    pub fn take(&mut self, about: &Packet, now: Millis) -> bool {
        let place = self.place(about);
        let (all, one) = (&mut self.all, &mut self.each[place]);
        let Some(untold) = one.paid(about) else {
            one.keep(about.total_len);
            return false;
        };
        all.fill(TO_ALL, now);
        one.errors.fill(TO_ONE, now);
        let left = (all.millitokens.checked_sub(1000), one.errors.millitokens.checked_sub(1000));
        let (Some(of_all), Some(of_one)) = left else { return false };
        (all.millitokens, one.errors.millitokens, one.untold) = (of_all, of_one, untold);
        true
    }

    /// Gives leave back: the error was not sent.
    pub fn give_back(&mut self, about: &Packet) {
        let place = self.place(about);
        let one = &mut self.each[place];
        one.keep(error::excess(about).into());
        for bucket in [&mut self.all, &mut one.errors] {
            bucket.millitokens = bucket.millitokens.saturating_add(1000);
        }
    }

    /// The place of a sender's prefix: what one network has as a rule, of which its hosts can forge each other's.
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

/// Whether the sender of the packet in a frame, which begins after `link_len` bytes, may be told of it.
pub fn judge(frame: &[u8], link_len: usize, packet: &Packet) -> Result<(), NoError> {
    if ethernet::is_group_addressed(frame) {
        return Err(NoError::Refused);
    }
    Ok(error::judge(frame.get(link_len..).ok_or(NoError::Refused)?, packet)?)
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
    judge(frame.bytes(), link_len, packet)?;
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
        let bytes = sample::ipv4([10, a, b, host], [198, 51, 100, 2], 17, &sample::udp((1, 2), &[0; 28]));
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
        let six = sample::ipv6([1; 16], [2; 16], 17, &sample::udp((1, 2), &[0; 48]));
        assert!(allowance.take(&Packet::parse(&six).unwrap(), Millis(7)));
        // And the bytes that another packet has paid.
        let short = sized(true, 48);
        assert!(!allowance.take(&short, Millis(7)));
        for _ in 0..3 {
            assert!(allowance.take(&short, Millis(7)));
            allowance.give_back(&short);
        }
    }

    /// A packet of so many bytes.
    fn sized(six: bool, len: usize) -> Packet {
        let udp = |headers| sample::udp((1, 2), &vec![0; len - headers]);
        let bytes = if six {
            sample::ipv6([0x20; 16], [0x21; 16], 17, &udp(48))
        } else {
            sample::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 17, &udp(28))
        };
        Packet::parse(&bytes).unwrap()
    }

    // M-2
    #[test]
    fn a_lone_packet_that_is_shorter_than_the_error_about_it_is_told_nothing_and_one_that_is_sent_again_is() {
        for (six, len, answered) in [
            (false, 56, [true; 6]),
            (false, 55, [false, true, true, true, true, true]),
            (false, 28, [false, true, false, true, false, true]),
            (true, 96, [true; 6]),
            // What IPv6's traceroute sends, and a SYN of Linux's.
            (true, 80, [false, true, true, true, true, true]),
            (true, 48, [false, true, false, true, false, true]),
        ] {
            let (mut allowance, about) = (allowance(), sized(six, len));
            let told = [(); 6].map(|()| {
                let foreseen = allowance.allows(&about, Millis(7));
                assert_eq!(allowance.take(&about, Millis(7)), foreseen);
                foreseen
            });
            assert_eq!(told, answered, "{len}");
            assert!(allowance.take(&sized(six, 1000), Millis(7)), "what is long enough needs nobody's");
        }
    }

    // M-2
    #[test]
    fn of_short_packets_and_long_ones_no_more_bytes_come_back_than_went_there() {
        for six in [false, true] {
            let headers = if six { 48 } else { 28 };
            let (mut allowance, mut there, mut back) = (allowance(), 0, 0);
            for number in 0..10_000u32 {
                let long = number.wrapping_mul(2_654_435_761) >> 24;
                let about = sized(six, headers + long as usize % 64);
                there += about.total_len;
                // Now and then a frame has no room for the error.
                let taken = allowance.take(&about, Millis(number * 11));
                if taken && number % 7 == 0 {
                    allowance.give_back(&about);
                } else if taken {
                    back += about.total_len + u32::from(error::excess(&about));
                }
                assert!(back <= there, "{back} bytes for {there}");
            }
            assert!(back > there / 2, "{back} bytes for {there}");
        }
    }

    // M-2
    #[test]
    fn what_there_is_no_leave_for_pays_for_nothing_later() {
        let (mut allowance, short) = (allowance(), sized(true, 48));
        while allowance.take(&sized(true, 96), Millis(7)) {}
        for _ in 0..100 {
            assert!(!allowance.take(&short, Millis(7)));
        }
        let told = (0..20).filter(|_| allowance.take(&short, Millis(60_007))).count();
        assert_eq!(told, 10, "the first by what was kept, and then each second one");
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
