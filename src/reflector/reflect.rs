//! What becomes of one packet: a pure function over its bytes. By default the answer of W-4: outer
//! addresses swapped, everything else as it came.

#![forbid(unsafe_code)]

use super::behaviour::Behaviour;
use super::judge::Seen;
use crate::datapath::reset::write_reset;
use crate::wire::checksum::{Sum, update_u16};
use crate::wire::geneve::outer::{self, fill_udp_checksum_of_packet};
use crate::wire::geneve::{ATTACHMENT_ID, ENDPOINT_ID, FLOW_COOKIE, HEADER_LEN, OPTION_CLASS, Received};
use crate::wire::ip::IpVersion;
use crate::wire::packet::Kind;

/// Bytes that an answer may be longer than its packet: the extra option.
pub const GROWTH: usize = 8;

/// An option of class 0xFF01, one of those for experiments (RFC 8926 7), type 1, not critical, one word of data.
const EXTRA_OPTION: [u8; GROWTH] = [0xff, 0x01, 0x01, 0x01, 0xf1, 0x06, 0xaa, 0x7e];

/// What is to be done with the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send this many bytes: the packet, sent back.
    Reflected(usize),
    /// Send this many bytes: a reset to the inner packet's sender.
    Reset(usize),
    /// Send nothing.
    Dropped(Why),
}

/// Why nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was told to.
    Told,
    /// It was told to reset, and the segment is one of those that are not answered.
    NoResetDue,
    /// The inner packet's last hop was this one.
    OutOfHops,
    /// The answer would be longer than IPv4 can say, or than the buffer.
    TooLong,
}

/// Makes the answer, in place, to the packet at the start of `buffer`, which [`judge`](super::judge::judge) let pass as
/// `seen`. The buffer must have [`GROWTH`] bytes beyond the packet for an extra option.
pub fn reflect(buffer: &mut [u8], seen: &Seen, behaviour: &Behaviour) -> Outcome {
    if behaviour.drop {
        return Outcome::Dropped(Why::Told);
    }
    let mut end = seen.end();
    let Some(inner) = buffer.get_mut(seen.inner_start()..end) else { return Outcome::Dropped(Why::TooLong) };
    let is_reset = behaviour.reset && seen.inner.kind == Kind::Tcp;
    if is_reset {
        match write_reset(inner, &seen.inner) {
            Ok(len) => end = seen.inner_start() + len,
            Err(_) => return Outcome::Dropped(Why::NoResetDue),
        }
    } else if behaviour.ttl_decrement && !take_one_hop(inner, seen.inner.version) {
        return Outcome::Dropped(Why::OutOfHops);
    }
    if behaviour.wrong_cookie || behaviour.reverse_options || behaviour.extra_option {
        match rewrite_options(buffer, seen, end, behaviour) {
            Some(new_end) => end = new_end,
            None => return Outcome::Dropped(Why::TooLong),
        }
    }
    if swap_outer(buffer, seen, end, behaviour).is_none() {
        return Outcome::Dropped(Why::TooLong);
    }
    if is_reset { Outcome::Reset(end) } else { Outcome::Reflected(end) }
}

/// Lowers the inner packet's TTL or hop limit; `false` if it was the last.
fn take_one_hop(inner: &mut [u8], version: IpVersion) -> bool {
    match (version, inner) {
        (IpVersion::V4, [_, _, _, _, _, _, _, _, ttl, protocol, high, low, ..]) if *ttl > 1 => {
            let old = u16::from_be_bytes([*ttl, *protocol]);
            *ttl -= 1;
            let new = u16::from_be_bytes([*ttl, *protocol]);
            [*high, *low] = update_u16(u16::from_be_bytes([*high, *low]), old, new).to_be_bytes();
            true
        }
        (IpVersion::V6, [_, _, _, _, _, _, _, hop_limit, ..]) if *hop_limit > 1 => {
            *hop_limit -= 1;
            true
        }
        _ => false,
    }
}

/// Writes our three options anew as the behaviour wants them, moves the inner packet behind them, and
/// returns the new end.
fn rewrite_options(buffer: &mut [u8], seen: &Seen, end: usize, behaviour: &Behaviour) -> Option<usize> {
    let Received { endpoint_id, attachment_id, mut cookie, .. } = seen.geneve;
    if behaviour.wrong_cookie {
        // Every bit changed: whatever the cookie's fields are, each is another.
        cookie = !cookie;
    }
    let [class_high, class_low] = OPTION_CLASS.to_be_bytes();
    let mut endpoint = [class_high, class_low, ENDPOINT_ID, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    endpoint[4..].copy_from_slice(&endpoint_id.to_be_bytes());
    let mut attachment = [class_high, class_low, ATTACHMENT_ID, 2, 0, 0, 0, 0, 0, 0, 0, 0];
    attachment[4..].copy_from_slice(&attachment_id.to_be_bytes());
    let mut flow_cookie = [class_high, class_low, FLOW_COOKIE, 1, 0, 0, 0, 0];
    flow_cookie[4..].copy_from_slice(&cookie.to_be_bytes());

    let mut options: [&[u8]; 4] = [&[], &endpoint, &attachment, &flow_cookie];
    if behaviour.reverse_options {
        options.reverse();
        options.rotate_right(1);
    }
    if behaviour.extra_option {
        options[0] = &EXTRA_OPTION;
    }
    let options_len: usize = options.iter().map(|option| option.len()).sum();
    let start = seen.geneve_start() + HEADER_LEN;
    let inner_start = start + options_len;
    let new_end = inner_start + (end - seen.inner_start());
    if new_end > buffer.len() {
        return None;
    }
    buffer.copy_within(seen.inner_start()..end, inner_start);
    let mut at = start;
    for option in options {
        buffer.get_mut(at..at + option.len())?.copy_from_slice(option);
        at += option.len();
    }
    *buffer.get_mut(seen.geneve_start())? = u8::try_from(options_len / 4).ok()?;
    Some(new_end)
}

/// Addresses swapped, lengths and checksums right, TTL anew: the outer headers of an answer.
fn swap_outer(buffer: &mut [u8], seen: &Seen, end: usize, behaviour: &Behaviour) -> Option<()> {
    let udp_start = seen.geneve_start() - 8;
    let packet = buffer.get_mut(..end)?;
    let (header, udp) = packet.split_at_mut_checked(udp_start)?;
    header.get_mut(2..4)?.copy_from_slice(&u16::try_from(end).ok()?.to_be_bytes());
    *header.get_mut(8)? = outer::TTL;
    header.get_mut(12..16)?.copy_from_slice(&seen.outer.dst_ip.to_be_bytes());
    header.get_mut(16..20)?.copy_from_slice(&seen.outer.src_ip.to_be_bytes());
    header.get_mut(10..12)?.fill(0);
    let checksum = Sum::ZERO.bytes(header).checksum();
    header.get_mut(10..12)?.copy_from_slice(&checksum.to_be_bytes());

    if behaviour.source_port != 0 {
        udp.get_mut(0..2)?.copy_from_slice(&behaviour.source_port.to_be_bytes());
    }
    udp.get_mut(4..6)?.copy_from_slice(&u16::try_from(end - udp_start).ok()?.to_be_bytes());
    udp.get_mut(6..8)?.fill(0);
    if behaviour.udp_checksum {
        fill_udp_checksum_of_packet(packet);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::judge::tests::{sent, tcp_v4};
    use super::super::judge::{deviations, judge};
    use super::*;
    use crate::wire::sample;

    /// What is sent in answer to `ip`.
    fn answer(ip: &[u8], behaviour: Behaviour) -> (Outcome, Vec<u8>) {
        let seen = judge(ip).unwrap();
        let mut buffer = ip.to_vec();
        buffer.extend([0xcc; GROWTH]);
        let outcome = reflect(&mut buffer, &seen, &behaviour);
        match outcome {
            Outcome::Reflected(len) | Outcome::Reset(len) => buffer.truncate(len),
            Outcome::Dropped(_) => buffer.clear(),
        }
        (outcome, buffer)
    }

    fn with(change: impl FnOnce(&mut Behaviour)) -> Behaviour {
        let mut behaviour = Behaviour::default();
        change(&mut behaviour);
        behaviour
    }

    // W-4
    #[test]
    fn an_answer_is_the_packet_with_its_outer_addresses_swapped() {
        let ip = sent(&tcp_v4(0x10));
        let (outcome, back) = answer(&ip, Behaviour::default());
        assert_eq!(outcome, Outcome::Reflected(ip.len()));
        let mut expected = ip;
        expected[12..20].copy_from_slice(&[10, 1, 0, 9, 10, 1, 0, 1]);
        assert_eq!(back, expected, "a swap does not change the header's sum either");
    }

    // W-4: what an answer may differ in, and that the gateway's own parser finds it in order.
    #[test]
    fn each_misbehaviour_changes_what_it_says_and_nothing_else() {
        let ip = sent(&tcp_v4(0x10));
        let plain = judge(&answer(&ip, Behaviour::default()).1).unwrap();

        let (_, back) = answer(&ip, with(|b| b.wrong_cookie = true));
        let seen = judge(&back).unwrap();
        assert_eq!(seen.geneve, Received { cookie: !0x3132_3334, ..plain.geneve });
        assert!(deviations(&back, &seen).is_empty());

        let (_, back) = answer(&ip, with(|b| b.source_port = 4242));
        assert_eq!(judge(&back).unwrap().outer.src_port, 4242);

        let (_, back) = answer(&ip, with(|b| b.reverse_options = true));
        let reversed = [&[1, 8, 3, 1][..], &[1, 8, 2, 2], &[1, 8, 1, 2]];
        assert_eq!([&back[36..40], &back[44..48], &back[56..60]], reversed);
        assert_eq!(judge(&back).unwrap(), plain);

        let (_, back) = answer(&ip, with(|b| b.extra_option = true));
        assert_eq!(back.len(), ip.len() + 8);
        assert_eq!(back[36..44], EXTRA_OPTION);
        assert_eq!(back[76..], ip[68..]);
        let seen = judge(&back).unwrap();
        assert_eq!(seen.geneve, Received { inner_offset: 48, ..plain.geneve });

        let (_, back) = answer(&ip, with(|b| b.udp_checksum = true));
        assert!(sample::transport_checksum_is_right(&back));
        assert!(judge(&back).unwrap().outer.has_udp_checksum);
    }

    // W-4: the other direction inside, in the same GENEVE header.
    #[test]
    fn a_reset_of_its_own_goes_to_the_inner_packets_sender() {
        let ip = sent(&tcp_v4(0x10));
        let (outcome, back) = answer(&ip, with(|b| b.reset = true));
        assert_eq!(outcome, Outcome::Reset(68 + 40));
        assert_eq!(back[28..68], ip[28..68]);
        let inner = judge(&back).unwrap().inner;
        assert_eq!((inner.src, inner.dst), (0xc000_0207, 0x0a00_0001));
        assert_eq!((inner.src_port, inner.dst_port, inner.tcp_flags.bits()), (80, 4000, 0x04));
        assert!(deviations(&back, &judge(&back).unwrap()).is_empty());

        assert_eq!(
            answer(&sent(&tcp_v4(0x04)), with(|b| b.reset = true)).0,
            Outcome::Dropped(Why::NoResetDue)
        );
        let udp = sample::ipv4([1; 4], [2; 4], 17, &sample::udp((1, 2), b"x"));
        assert!(matches!(answer(&sent(&udp), with(|b| b.reset = true)).0, Outcome::Reflected(_)));
    }

    // W-6: the appliance may lower the TTL.
    #[test]
    fn a_hop_is_taken_and_the_last_one_is_not_survived() {
        let behaviour = with(|b| b.ttl_decrement = true);
        let (_, back) = answer(&sent(&tcp_v4(0x10)), behaviour);
        assert_eq!(back[76], 60);
        assert_eq!(sample::naive_checksum(&back[68..88]), 0);

        let v6 = |hop_limit| {
            let mut inner = sample::ipv6([1; 16], [2; 16], 17, &sample::udp((1, 2), b"x"));
            inner[7] = hop_limit;
            answer(&sent(&inner), behaviour)
        };
        assert_eq!(v6(2).1[68 + 7], 1);
        assert_eq!(v6(1).0, Outcome::Dropped(Why::OutOfHops));
    }

    #[test]
    fn a_dead_appliance_answers_nothing() {
        assert_eq!(answer(&sent(&tcp_v4(0x10)), with(|b| b.drop = true)).0, Outcome::Dropped(Why::Told));
    }

    proptest! {
        #[test]
        fn any_packet_that_passes_under_any_behaviour_gives_an_intact_answer(
            mutations in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
            flags: [bool; 6],
            source_port: u16,
        ) {
            let mut ip = sent(&tcp_v4(0x18));
            for (at, value) in mutations {
                let at = 20 + at.index(ip.len() - 20);
                ip[at] = value;
            }
            let Ok(seen) = judge(&ip) else { return Ok(()) };
            let [reset, ttl_decrement, wrong_cookie, reverse_options, extra_option, udp_checksum] = flags;
            let behaviour = Behaviour {
                drop: false, reset, ttl_decrement, wrong_cookie, reverse_options, extra_option, udp_checksum, source_port,
            };
            if let (Outcome::Reflected(_) | Outcome::Reset(_), back) = answer(&ip, behaviour) {
                let back = judge(&back).unwrap();
                prop_assert_eq!((back.outer.src_ip, back.outer.dst_ip), (seen.outer.dst_ip, seen.outer.src_ip));
                prop_assert_eq!(back.outer.dst_port, 6081);
                prop_assert_eq!(back.geneve.endpoint_id, seen.geneve.endpoint_id);
                prop_assert_eq!(back.geneve.cookie == seen.geneve.cookie, !wrong_cookie);
                prop_assert_eq!(back.outer.has_udp_checksum, udp_checksum);
            }
        }
    }
}
