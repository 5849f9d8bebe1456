//! The 82 bytes as W-1 and W-2 have them, and what is accepted of an answer.

use proptest::prelude::*;

use super::super::super::sample;
use super::super::{MAX_INNER_LEN, Received};
use super::*;

fn template() -> OuterTemplate {
    OuterTemplate::new(
        MacAddr([2, 0, 0, 0, 0, 1]),
        MacAddr([2, 0, 0, 0, 0, 9]),
        Ipv4Addr::new(10, 1, 0, 1),
        Ipv4Addr::new(10, 1, 0, 9),
    )
}

fn fields(inner_len: usize) -> OuterFields {
    OuterFields {
        inner_len: u16::try_from(inner_len).unwrap(),
        protocol: ethertype::IPV4,
        source_port: 0xc123,
        endpoint_id: 0x1112_1314_1516_1718,
        attachment_id: 0x2122_2324_2526_2728,
        cookie: 0x3132_3334,
    }
}

fn encapsulated(inner: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xee; OUTER_LEN];
    template().write(frame.first_chunk_mut().unwrap(), &fields(inner.len()));
    frame.extend(inner);
    frame
}

// W-1, W-2, W-3
#[test]
fn the_outer_headers_are_these_82_bytes() {
    #[rustfmt::skip]
    let expected = [
        // Ethernet
        2, 0, 0, 0, 0, 9,  2, 0, 0, 0, 0, 1,  0x08, 0x00,
        // IPv4: 68 + 100 bytes, DF, TTL 255, UDP; the checksum computed by hand:
        // 4500 + 00a8 + 4000 + ff11 + 0a01 + 0001 + 0a01 + 0009 = 198c5 -> 98c6 -> ~ = 6739
        0x45, 0, 0x00, 0xa8,  0, 0, 0x40, 0,  255, 17, 0x67, 0x39,  10, 1, 0, 1,  10, 1, 0, 9,
        // UDP: 148 bytes, no checksum
        0xc1, 0x23, 0x17, 0xc1,  0x00, 0x94, 0, 0,
        // GENEVE
        0x08, 0, 0x08, 0x00,  0, 0, 0, 0,
        0x01, 0x08, 1, 2,  0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
        0x01, 0x08, 2, 2,  0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
        0x01, 0x08, 3, 1,  0x31, 0x32, 0x33, 0x34,
    ];
    assert_eq!(encapsulated(&[0; 100])[..OUTER_LEN], expected);
    assert_eq!(expected.len(), 82);
}

/// An answer's IP packet: what was sent, addresses swapped.
fn answer(udp_checksum: bool) -> Vec<u8> {
    let mut frame = encapsulated(b"an inner packet");
    if udp_checksum {
        fill_udp_checksum(&mut frame);
    }
    let mut ip = frame.split_off(IP);
    let (src, dst) = ip[12..20].split_at_mut(4);
    src.swap_with_slice(dst);
    ip
}

fn with_header_checksum(mut ip: Vec<u8>) -> Vec<u8> {
    let header_len = usize::from(ip[0] & 0x0f) * 4;
    ip[10..12].fill(0);
    let checksum = sample::naive_checksum(&ip[..header_len]);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip
}

fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut ip = answer(false);
    ip[at..at + bytes.len()].copy_from_slice(bytes);
    with_header_checksum(ip)
}

fn expected() -> OuterReceived {
    OuterReceived {
        src_ip: 0x0a01_0009,
        dst_ip: 0x0a01_0001,
        src_port: 0xc123,
        dst_port: 6081,
        udp_payload_offset: 28,
        udp_payload_len: 40 + 15,
        has_udp_checksum: false,
    }
}

// W-4
#[test]
fn an_answer_is_accepted_with_or_without_a_right_udp_checksum() {
    assert_eq!(parse(&answer(false)), Ok(expected()));
    assert_eq!(parse(&answer(true)), Ok(OuterReceived { has_udp_checksum: true, ..expected() }));
    assert!(sample::transport_checksum_is_right(&answer(true)));
    let answer = answer(false);
    assert_eq!(&expected().payload(&answer)[40..], b"an inner packet");
}

// W-4
#[test]
fn ttl_df_the_source_port_options_and_padding_are_the_appliances_business() {
    assert_eq!(parse(&changed(8, &[1])), Ok(expected()));
    assert_eq!(parse(&changed(6, &[0, 0])), Ok(expected()));
    assert_eq!(parse(&changed(20, &[0, 80])), Ok(OuterReceived { src_port: 80, ..expected() }));
    let mut padded = answer(false);
    padded.extend([0; 9]);
    assert_eq!(parse(&padded), Ok(expected()));

    let plain = answer(false);
    let optioned = sample::ipv4_with([10, 1, 0, 9], [10, 1, 0, 1], 17, 0, &[1; 8], &plain[20..]);
    assert_eq!(parse(&optioned), Ok(OuterReceived { udp_payload_offset: 36, ..expected() }));
}

// W-5
#[test]
fn every_fault_of_the_outer_headers_has_its_own_name() {
    assert_eq!(parse(&changed(0, &[0x65])), Err(OuterError::NotGeneve));
    assert_eq!(parse(&changed(9, &[6])), Err(OuterError::NotGeneve));
    assert_eq!(parse(&changed(22, &[0x17, 0xc0])), Err(OuterError::NotGeneve));
    assert_eq!(parse(&changed(8, &[0])), Err(OuterError::TtlZero));
    assert_eq!(parse(&changed(6, &[0x20, 0])), Err(OuterError::Fragment));
    assert_eq!(parse(&changed(24, &[0, 7])), Err(OuterError::BadUdpLength));
    assert_eq!(parse(&changed(24, &[0, 64])), Err(OuterError::BadUdpLength));
    assert_eq!(parse(&changed(2, &[0xff, 0xff])), Err(OuterError::Ip(PacketError::LengthMismatch)));
    assert_eq!(parse(&changed(2, &[0, 19])), Err(OuterError::Ip(PacketError::LengthMismatch)));
    assert_eq!(parse(&changed(2, &[0, 24])), Err(OuterError::Ip(PacketError::TransportTruncated)));
    assert_eq!(parse(&answer(false)[..19]), Err(OuterError::Ip(PacketError::Truncated)));
    let mut bad = answer(false);
    bad[10] ^= 1;
    assert_eq!(parse(&bad), Err(OuterError::BadHeaderChecksum));
    let mut bad = answer(true);
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(parse(&bad), Err(OuterError::BadUdpChecksum));
}

#[test]
fn the_first_fragment_of_somebody_elses_datagram_is_not_ours_to_refuse() {
    let mut ip = changed(6, &[0x20, 0]);
    ip[22..24].copy_from_slice(&53u16.to_be_bytes());
    assert_eq!(parse(&ip), Err(OuterError::NotGeneve));
}

#[test]
fn a_later_fragment_has_no_port_by_which_it_could_be_ours() {
    assert_eq!(parse(&changed(6, &[0x00, 1])), Err(OuterError::NotGeneve));
}

proptest! {
    // W-1, W-3, W-4
    #[test]
    fn what_is_written_is_read_back(
        macs: ([u8; 6], [u8; 6]),
        ips: (u32, u32),
        port: u16,
        ids: (u64, u64, u32),
        is_v6: bool,
        inner in prop::collection::vec(any::<u8>(), 0..300),
        checksum: bool,
    ) {
        let template = OuterTemplate::new(MacAddr(macs.0), MacAddr(macs.1), ips.0.into(), ips.1.into());
        let protocol = if is_v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        let mut frame = vec![0xee; OUTER_LEN];
        template.write(frame.first_chunk_mut().unwrap(), &OuterFields {
            inner_len: inner.len().try_into().unwrap(),
            protocol,
            source_port: port,
            endpoint_id: ids.0,
            attachment_id: ids.1,
            cookie: ids.2,
        });
        frame.extend(&inner);
        if checksum {
            fill_udp_checksum(&mut frame);
            prop_assert!(sample::transport_checksum_is_right(&frame[14..]));
        }
        prop_assert_eq!((&frame[..6], &frame[6..12]), (&macs.1[..], &macs.0[..]));
        prop_assert_eq!(sample::naive_checksum(&frame[14..34]), 0);
        let outer = parse(&frame[14..]).unwrap();
        prop_assert_eq!((outer.src_ip, outer.dst_ip, outer.src_port), (ips.0, ips.1, port));
        let payload = outer.payload(&frame[14..]);
        let (endpoint_id, attachment_id, cookie) = ids;
        prop_assert_eq!(
            super::super::parse(payload),
            Ok(Received { cookie, endpoint_id, attachment_id, inner_offset: 40, protocol })
        );
        prop_assert!(super::super::has_canonical_options(payload));
        prop_assert_eq!(&payload[40..], &inner);
    }

    // The header's sum is added to incrementally: every length must give the checksum of the whole.
    // W-1
    #[test]
    fn the_header_checksum_is_right_for_every_length(ips: (u32, u32), inner_len in 0..=MAX_INNER_LEN) {
        let template = OuterTemplate::new(MacAddr::default(), MacAddr::default(), ips.0.into(), ips.1.into());
        let mut out = [0; OUTER_LEN];
        template.write(&mut out, &fields(inner_len));
        prop_assert_eq!(sample::naive_checksum(&out[14..34]), 0);
        prop_assert_eq!(usize::from(u16::from_be_bytes([out[16], out[17]])), inner_len + 68);
    }

    // W-5
    #[test]
    fn no_bytes_panic(
        random in prop::collection::vec(any::<u8>(), 0..120),
        mutations in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        cut in 0usize..100,
    ) {
        let mut ip = answer(true);
        for (at, value) in mutations {
            let at = at.index(ip.len());
            ip[at] = value;
        }
        ip.truncate(ip.len() - cut.min(ip.len()));
        for mut bytes in [random, ip] {
            if let Ok(outer) = parse(&bytes) {
                prop_assert_eq!(outer.payload(&bytes).len(), usize::from(outer.udp_payload_len));
            }
            fill_udp_checksum(&mut bytes);
        }
    }
}
