//! R-4 as bytes and R-5 as a list, over IPv4 and IPv6.

use proptest::prelude::*;

use super::*;
use crate::wire::sample;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 7];
const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const SERVER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

fn answer(mut ip: Vec<u8>) -> Result<Vec<u8>, ResetRefused> {
    let packet = Packet::parse(&ip).unwrap();
    let before = ip.clone();
    match write_reset(&mut ip, &packet) {
        Ok(len) => {
            assert_eq!(ip[len..], before[len..], "bytes after the reset are not touched");
            ip.truncate(len);
            Ok(ip)
        }
        Err(refused) => {
            assert_eq!(ip, before, "a refused packet stays as it was");
            Err(refused)
        }
    }
}

/// Sequence number, acknowledgement number and flags of a TCP header at the end of a reset.
fn numbers(reset: &[u8]) -> (u32, u32, u8) {
    let tcp = &reset[reset.len() - 20..];
    let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
    (word(4), word(8), tcp[13])
}

//
#[test]
fn a_segment_with_ack_is_answered_at_its_acknowledgement_number() {
    let segment = sample::tcp((40_000, 443), 1000, 0xdead_beef, PSH | ACK, &[1; 12], &[0; 100]);
    #[rustfmt::skip]
    let expected = [
        0x45, 0, 0, 40,  0, 0, 0x40, 0,  64, 6, 0x6e, 0xc8,  192, 0, 2, 7,  10, 0, 0, 1,
        0x01, 0xbb, 0x9c, 0x40,  0xde, 0xad, 0xbe, 0xef,  0, 0, 0, 0,  0x50, 0x04, 0, 0,  0xa8, 0x3f, 0, 0,
    ];
    assert_eq!(answer(sample::ipv4(CLIENT, SERVER, 6, &segment)).unwrap(), expected);
}

//
#[test]
fn ipv6_is_answered_like_ipv4() {
    let segment = sample::tcp((40_000, 443), 1000, 0xdead_beef, PSH | ACK, &[1; 12], &[0; 100]);
    let reset = answer(sample::ipv6(CLIENT6, SERVER6, 6, &segment)).unwrap();
    let mut expected = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
    expected.extend(SERVER6);
    expected.extend(CLIENT6);
    expected.extend([0x01, 0xbb, 0x9c, 0x40, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0x50, 0x04, 0, 0]);
    assert_eq!(reset[..56], expected);
    assert_eq!(reset[58..], [0, 0]);
    assert!(sample::transport_checksum_is_right(&reset));
}

//
#[test]
fn a_segment_without_ack_is_acknowledged_syn_and_fin_counted() {
    let cases: [(u8, &[u8], u32); 5] =
        [(SYN, &[], 1), (SYN, b"fast open", 10), (FIN, &[], 1), (FIN | SYN, b"xyz", 5), (PSH, b"data", 4)];
    for (flags, payload, len) in cases {
        let segment = sample::tcp((1, 2), u32::MAX, 77, flags, &[1; 8], payload);
        for ip in [sample::ipv4(CLIENT, SERVER, 6, &segment), sample::ipv6(CLIENT6, SERVER6, 6, &segment)] {
            let reset = answer(ip).unwrap();
            assert_eq!(numbers(&reset), (0, len - 1, RST | ACK), "flags {flags:#x}, across the wrap");
            assert!(sample::transport_checksum_is_right(&reset));
        }
    }
}

// SYN and FIN do not matter where the sequence number is the one acknowledged.
#[test]
fn an_acknowledging_syn_or_fin_is_answered_at_its_acknowledgement_number() {
    for flags in [SYN | ACK, FIN | ACK, FIN | PSH | ACK, 0xe0 | ACK] {
        let segment = sample::tcp((1, 2), 5, 6, flags, &[], b"data");
        assert_eq!(numbers(&answer(sample::ipv4(CLIENT, SERVER, 6, &segment)).unwrap()), (6, 0, RST));
    }
}

//
#[test]
fn padding_is_not_counted_as_payload() {
    let mut ip = sample::ipv4(CLIENT, SERVER, 6, &sample::tcp((1, 2), 100, 0, SYN, &[], &[]));
    ip.extend([0; 6]);
    assert_eq!(numbers(&answer(ip).unwrap()), (0, 101, RST | ACK));
}

// R-4, M-6
#[test]
fn ip_options_and_extension_headers_are_not_sent_back() {
    let segment = sample::tcp((1, 2), 100, 7, ACK, &[1; 40], b"data");
    let reset = answer(sample::ipv4_with(CLIENT, SERVER, 6, 0, &[1; 40], &segment)).unwrap();
    assert_eq!((reset.len(), reset[0], numbers(&reset)), (40, 0x45, (7, 0, RST)));
    assert_eq!(sample::naive_checksum(&reset[..20]), 0);

    let mut payload = vec![60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    payload.extend(segment);
    let reset = answer(sample::ipv6(CLIENT6, SERVER6, 0, &payload)).unwrap();
    assert_eq!((reset.len(), reset[6], numbers(&reset)), (60, 6, (7, 0, RST)));
    assert!(sample::transport_checksum_is_right(&reset));
}

//
#[test]
fn a_reset_is_never_answered_not_even_our_own() {
    for flags in [RST, RST | ACK, RST | SYN] {
        let segment = sample::tcp((1, 2), 5, 6, flags, &[], &[]);
        assert_eq!(answer(sample::ipv4(CLIENT, SERVER, 6, &segment)), Err(ResetRefused::IsReset));
        assert_eq!(answer(sample::ipv6(CLIENT6, SERVER6, 6, &segment)), Err(ResetRefused::IsReset));
    }
    let segment = sample::tcp((1, 2), 5, 6, ACK, &[], &[]);
    let reset = answer(sample::ipv4(CLIENT, SERVER, 6, &segment)).unwrap();
    assert_eq!(answer(reset), Err(ResetRefused::IsReset));
}

//
#[test]
fn a_first_fragment_is_answered_and_a_later_one_is_not() {
    let segment = sample::tcp((1, 2), 5, 6, ACK, &[], &[0; 12]);
    let first = sample::ipv4_with(CLIENT, SERVER, 6, 0x2000, &[], &segment);
    assert_eq!(numbers(&answer(first).unwrap()), (6, 0, RST));
    let later = sample::ipv4_with(CLIENT, SERVER, 6, 0x0004, &[], &segment);
    assert_eq!(answer(later), Err(ResetRefused::LaterFragment));
    let mut payload = vec![6, 0, 0, 0x20, 0, 0, 0, 9];
    payload.extend(segment);
    assert_eq!(answer(sample::ipv6(CLIENT6, SERVER6, 44, &payload)), Err(ResetRefused::LaterFragment));
}

// `Packet::parse` refuses a cut TCP header; a packet read as a quotation is refused here.
#[test]
fn a_cut_tcp_header_is_not_answered() {
    let segment = sample::tcp((1, 2), 5, 6, ACK, &[1; 20], &[]);
    for len in 8..40 {
        for mut ip in [
            sample::ipv4(CLIENT, SERVER, 6, &segment[..len]),
            sample::ipv6(CLIENT6, SERVER6, 6, &segment[..len]),
        ] {
            assert!(Packet::parse(&ip).is_err());
            let packet = Packet::parse_quoted(&ip).unwrap();
            assert_eq!(write_reset(&mut ip, &packet), Err(ResetRefused::HeaderCut), "cut to {len}");
        }
    }
}

//
#[test]
fn a_wrong_ipv4_header_checksum_is_not_answered() {
    let mut ip = sample::ipv4(CLIENT, SERVER, 6, &sample::tcp((1, 2), 5, 6, ACK, &[], &[]));
    ip[8] -= 1;
    assert_eq!(answer(ip), Err(ResetRefused::BadHeaderChecksum));
}

//
#[test]
fn only_one_hosts_addresses_are_answered() {
    let segment = sample::tcp((1, 2), 5, 6, ACK, &[], &[]);
    for other in [[224, 0, 0, 5], [239, 255, 0, 1], [255; 4], [0; 4]] {
        assert_eq!(answer(sample::ipv4(other, SERVER, 6, &segment)), Err(ResetRefused::NotUnicast));
        assert_eq!(answer(sample::ipv4(CLIENT, other, 6, &segment)), Err(ResetRefused::NotUnicast));
    }
    for other in [[0xff; 16], [0; 16]] {
        assert_eq!(answer(sample::ipv6(other, SERVER6, 6, &segment)), Err(ResetRefused::NotUnicast));
        assert_eq!(answer(sample::ipv6(CLIENT6, other, 6, &segment)), Err(ResetRefused::NotUnicast));
    }
}

//
#[test]
fn only_tcp_is_answered() {
    let udp = sample::ipv4(CLIENT, SERVER, 17, &sample::udp((1, 2), &[0; 20]));
    assert_eq!(answer(udp), Err(ResetRefused::NotTcp));
}

proptest! {
    //
    #[test]
    fn every_reset_is_a_right_packet_with_the_ways_swapped(
        is_v6: bool,
        src: u32,
        dst: u32,
        ports: (u16, u16),
        (seq, ack, flags) in any::<(u32, u32, u8)>(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (flags, len) = (flags & !RST, u32::try_from(payload.len()).unwrap());
        let segment = sample::tcp(ports, seq, ack, flags, &[], &payload);
        // Addresses of hosts: the top bits cleared or set away from zero, multicast and broadcast.
        let (src, dst) = (src & 0x7fff_ffff | 0x0100_0000, dst & 0x7fff_ffff | 0x0100_0000);
        let ip = if is_v6 {
            let wide = |low: u32| (0x2001_0db8 << 96 | u128::from(low)).to_be_bytes();
            sample::ipv6(wide(src), wide(dst), 6, &segment)
        } else {
            sample::ipv4(src.to_be_bytes(), dst.to_be_bytes(), 6, &segment)
        };
        let asked = Packet::parse(&ip).unwrap();
        let reset = answer(ip).unwrap();
        let answered = Packet::parse(&reset).unwrap();
        prop_assert_eq!((answered.src, answered.dst), (asked.dst, asked.src));
        prop_assert_eq!((answered.src_port, answered.dst_port), (ports.1, ports.0));
        prop_assert_eq!(answered.total_len as usize, reset.len());
        prop_assert!(sample::transport_checksum_is_right(&reset));
        prop_assert!(is_v6 || sample::naive_checksum(&reset[..20]) == 0);
        prop_assert_eq!(&reset[reset.len() - 6..reset.len() - 4], &[0, 0], "window 0");
        let counted = len + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let expected = if flags & ACK != 0 { (ack, 0, RST) } else { (0, seq.wrapping_add(counted), RST | ACK) };
        prop_assert_eq!(numbers(&reset), expected);
    }

    // The packet's facts need not be of these bytes: still no panic, and a refused packet is untouched.
    //
    #[test]
    fn no_bytes_panic(
        random in prop::collection::vec(any::<u8>(), 0..100),
        mutations in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        cut in 0usize..70,
    ) {
        let mut ip = sample::ipv4(CLIENT, SERVER, 6, &sample::tcp((1, 2), 5, 6, ACK, &[1; 8], &[]));
        let packet = Packet::parse(&ip).unwrap();
        for (at, value) in mutations {
            let at = at.index(ip.len());
            ip[at] = value;
        }
        ip.truncate(ip.len() - cut.min(ip.len()));
        for bytes in [random, ip] {
            for packet in [Some(packet), Packet::parse(&bytes).ok(), Packet::parse_quoted(&bytes).ok()] {
                let Some(packet) = packet else { continue };
                let mut written = bytes.clone();
                match write_reset(&mut written, &packet) {
                    Ok(len) => prop_assert!(len <= bytes.len()),
                    Err(_) => prop_assert_eq!(&written, &bytes),
                }
            }
        }
    }
}
