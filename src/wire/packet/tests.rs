//! What [`Packet`] makes of whole, cut, quoted and random packets.

use std::hint::black_box;

use proptest::prelude::*;

use super::super::sample;
use super::*;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 7];
const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const SERVER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    sample::ipv4(CLIENT, SERVER, protocol, payload)
}

fn v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    sample::ipv6(CLIENT6, SERVER6, protocol, payload)
}

// F-1, M-6
#[test]
fn tcp_over_ipv4_with_options_is_read() {
    let segment = sample::tcp((4000, 443), 7, 8, 0x18, &[1; 12], b"hello");
    let mut bytes = sample::ipv4_with(CLIENT, SERVER, 6, 0x4000, &[1; 8], &segment);
    bytes.extend([0xaa; 30]); // padding
    assert_eq!(
        Packet::parse(&bytes),
        Ok(Packet {
            src: 0x0a00_0001,
            dst: 0xc000_0207,
            total_len: 28 + 32 + 5,
            header_len: 28,
            src_port: 4000,
            dst_port: 443,
            protocol: 6,
            version: IpVersion::V4,
            fragment: Fragment::Whole,
            kind: Kind::Tcp,
            tcp_flags: TcpFlags::PSH | TcpFlags::ACK,
        })
    );
}

// F-1, M-6
#[test]
fn tcp_over_ipv6_behind_an_extension_header_is_read() {
    let mut payload = vec![6, 0, 1, 4, 0, 0, 0, 0];
    payload.extend(sample::tcp((4000, 443), 7, 8, 0x02, &[], &[]));
    let packet = Packet::parse(&v6(60, &payload)).unwrap();
    assert_eq!(
        packet,
        Packet {
            src: u128::from_be_bytes(CLIENT6),
            dst: u128::from_be_bytes(SERVER6),
            total_len: 68,
            header_len: 48,
            src_port: 4000,
            dst_port: 443,
            protocol: 6,
            version: IpVersion::V6,
            fragment: Fragment::Whole,
            kind: Kind::Tcp,
            tcp_flags: TcpFlags::SYN,
        }
    );
}

// F-1
#[test]
fn ports_are_read_of_the_four_protocols_that_have_them() {
    for (protocol, header) in [(17u8, 8), (136, 8), (132, 12), (6, 20)] {
        let mut transport = sample::tcp((1111, 2222), 0, 0, 0x10, &[], &[]);
        transport.truncate(header);
        for bytes in [v4(protocol, &transport), v6(protocol, &transport)] {
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!((packet.src_port, packet.dst_port), (1111, 2222), "protocol {protocol}");
            assert_eq!(packet.kind, if protocol == 6 { Kind::Tcp } else { Kind::Datagram });
        }
        transport.truncate(header - 1);
        for bytes in [v4(protocol, &transport), v6(protocol, &transport)] {
            assert_eq!(Packet::parse(&bytes), Err(PacketError::TransportTruncated), "protocol {protocol}");
        }
    }
    let gre = Packet::parse(&v4(47, &[0; 40])).unwrap();
    assert_eq!((gre.src_port, gre.dst_port, gre.kind), (0, 0, Kind::Other));
}

// F-1
#[test]
fn an_echo_has_its_identifier_in_both_ports() {
    for (bytes, kind) in [
        (v4(1, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::IcmpEcho),
        (v4(1, &[0, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::IcmpEcho),
        (v6(58, &[128, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::IcmpEcho),
        (v6(58, &[129, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::IcmpEcho),
        (v4(1, &[13, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::Other),
        // ICMP of the other IP version is just a protocol.
        (v6(1, &[8, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::Other),
        (v4(58, &[128, 0, 0, 0, 0x12, 0x34, 0, 1]), Kind::Other),
    ] {
        let packet = Packet::parse(&bytes).unwrap();
        let identifier = if kind == Kind::IcmpEcho { 0x1234 } else { 0 };
        assert_eq!((packet.kind, packet.src_port, packet.dst_port), (kind, identifier, identifier));
    }
    assert_eq!(Packet::parse(&v4(1, &[8, 0, 0, 0, 0x12])), Err(PacketError::TransportTruncated));
}

// a packet with a cut TCP header never becomes a `Packet` that a reset could answer.
#[test]
fn a_cut_tcp_header_is_an_error_of_its_own() {
    for wrap in [v4, v6] {
        let segment = sample::tcp((1, 2), 3, 4, 0x10, &[1; 20], &[]);
        for len in 0..40 {
            assert_eq!(
                Packet::parse(&wrap(6, &segment[..len])),
                Err(PacketError::TransportTruncated),
                "{len}"
            );
        }
        assert!(Packet::parse(&wrap(6, &segment)).is_ok());
        let mut impossible = segment;
        impossible[12] = 0x40;
        assert_eq!(Packet::parse(&wrap(6, &impossible)), Err(PacketError::BadDataOffset));
    }
}

// the header must end before the packet does, not before the frame does.
#[test]
fn padding_does_not_lengthen_a_cut_tcp_header() {
    let mut bytes = v4(6, &sample::tcp((1, 2), 3, 4, 0x10, &[], &[])[..16]);
    bytes.extend([0; 24]);
    assert_eq!(Packet::parse(&bytes), Err(PacketError::TransportTruncated));
}

//
#[test]
fn a_later_fragment_has_neither_ports_nor_flags() {
    let bytes = sample::ipv4_with(CLIENT, SERVER, 6, 0x00b9, &[], &[0xff; 8]);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!((packet.fragment, packet.kind, packet.protocol), (Fragment::Later, Kind::Other, 6));
    assert_eq!((packet.src_port, packet.dst_port, packet.tcp_flags), (0, 0, TcpFlags::empty()));

    let packet = Packet::parse(&v6(44, &[17, 0, 0x05, 0xa8, 0, 0, 0, 7, 0xff])).unwrap();
    assert_eq!((packet.fragment, packet.kind, packet.protocol), (Fragment::Later, Kind::Other, 17));
}

//
#[test]
fn lengths_that_disagree_are_told_apart_from_a_cut_header() {
    let whole = v4(17, &sample::udp((1, 2), b"abc"));
    assert_eq!(Packet::parse(&whole[..30]), Err(PacketError::LengthMismatch));
    assert_eq!(Packet::parse(&whole[..19]), Err(PacketError::Truncated));
    let mut short = whole;
    short[2..4].copy_from_slice(&19u16.to_be_bytes());
    assert_eq!(Packet::parse(&short), Err(PacketError::LengthMismatch));
    let whole = v6(17, &sample::udp((1, 2), b"abc"));
    assert_eq!(Packet::parse(&whole[..50]), Err(PacketError::LengthMismatch));
    assert_eq!(Packet::parse(&whole[..39]), Err(PacketError::Truncated));
    assert_eq!(Packet::parse(&[0x50; 64]), Err(PacketError::BadVersion(5)));
    assert_eq!(Packet::parse(&[]), Err(PacketError::Truncated));
}

// M-5
#[test]
fn a_packet_quoted_after_eight_bytes_of_its_transport_is_read() {
    let original = v4(6, &sample::tcp((4000, 443), 7, 8, 0x10, &[], &[0; 1000]));
    let mut error = vec![3, 4, 0, 0, 0, 0, 0x05, 0xdc];
    error.extend(&original[..28]);
    let bytes = v4(1, &error);
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.kind, Kind::IcmpError);
    let quoted = Packet::parse_quoted(icmp::quoted(&bytes, &packet).unwrap()).unwrap();
    assert_eq!((quoted.src_port, quoted.dst_port, quoted.kind), (4000, 443, Kind::Tcp));
    assert_eq!((quoted.total_len, quoted.tcp_flags), (1040, TcpFlags::empty()));
    assert_eq!(Packet::parse_quoted(&original[..27]), Err(PacketError::TransportTruncated));

    let original = v6(17, &sample::udp((5000, 53), &[0; 500]));
    let mut error = vec![2, 0, 0, 0, 0, 0, 0x05, 0xdc];
    error.extend(&original[..200]);
    let bytes = v6(58, &error);
    let packet = Packet::parse(&bytes).unwrap();
    let quoted = Packet::parse_quoted(icmp::quoted(&bytes, &packet).unwrap()).unwrap();
    assert_eq!((quoted.src_port, quoted.dst_port, quoted.kind), (5000, 53, Kind::Datagram));
}

// M-5
#[test]
fn only_an_icmp_error_quotes_a_packet() {
    let echo = v4(1, &[8, 0, 0, 0, 0, 1, 0, 1, 0x45]);
    assert_eq!(icmp::quoted(&echo, &Packet::parse(&echo).unwrap()), None);
    for icmp_type in 0..=255u8 {
        let class = |bytes: &[u8]| Packet::parse(bytes).unwrap().kind == Kind::IcmpError;
        assert_eq!(
            class(&v4(1, &[icmp_type; 8])),
            matches!(icmp_type, 3 | 4 | 5 | 11 | 12),
            "v4 {icmp_type}"
        );
        assert_eq!(class(&v6(58, &[icmp_type; 8])), matches!(icmp_type, 1..=4), "v6 {icmp_type}");
    }
}

// O-4
#[test]
fn link_scope_is_what_never_crosses_a_router() {
    let local = |src, dst| {
        Packet::parse(&sample::ipv4(src, dst, 17, &sample::udp((1, 2), &[]))).unwrap().is_link_scope()
    };
    assert!(local(CLIENT, [224, 0, 0, 251]) && local(CLIENT, [255; 4]));
    assert!(local([169, 254, 1, 1], SERVER) && local(CLIENT, [169, 254, 255, 1]));
    assert!(!local(CLIENT, SERVER) && !local(CLIENT, [224, 0, 1, 1]) && !local(CLIENT, [169, 253, 1, 1]));

    let local = |src: &str, dst: &str, icmp_type: u8| {
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut bytes = sample::ipv6(octets(src), octets(dst), 58, &[icmp_type; 8]);
        bytes[7] = 255;
        Packet::parse(&bytes).unwrap().is_link_scope()
    };
    assert!(local("fe80::1", "2001:db8::2", 128) && local("2001:db8::1", "febf::2", 128));
    assert!(local("2001:db8::1", "ff02::5", 128) && local("2001:db8::1", "ff12::5", 128));
    assert!(local("2001:db8::1", "ff01::5", 128) && local("::", "2001:db8::2", 128));
    assert!(!local("2001:db8::1", "2001:db8::2", 128) && !local("2001:db8::1", "ff05::2", 128));
    assert!(!local("fec0::1", "2001:db8::2", 128));
    for icmp_type in 128..=140 {
        let discovery = (133..=137).contains(&icmp_type);
        assert_eq!(local("2001:db8::1", "2001:db8::2", icmp_type), discovery, "type {icmp_type}");
    }
}

// O-4
#[test]
fn within_a_link_is_what_its_stations_say_to_each_other() {
    let within = |src, dst| {
        Packet::parse(&sample::ipv4(src, dst, 17, &sample::udp((1, 2), &[]))).unwrap().is_within_link()
    };
    assert!(within(CLIENT, [224, 0, 0, 251]) && within(CLIENT, [255; 4]) && within([0; 4], [255; 4]));
    assert!(within([169, 254, 1, 1], [169, 254, 1, 2]) && within([169, 254, 1, 1], [224, 0, 0, 251]));
    assert!(!within([169, 254, 1, 1], SERVER) && !within(CLIENT, [169, 254, 255, 1]));
    assert!(!within([0; 4], SERVER) && !within(CLIENT, SERVER) && !within(CLIENT, [224, 0, 1, 1]));

    let within = |src: &str, dst: &str, icmp_type: u8, hop_limit: u8| {
        let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let mut bytes = sample::ipv6(octets(src), octets(dst), 58, &[icmp_type; 8]);
        bytes[7] = hop_limit;
        Packet::parse(&bytes).unwrap().is_within_link()
    };
    assert!(within("fe80::1", "febf::2", 128, 64) && within("2001:db8::1", "ff02::5", 128, 64));
    assert!(within("::", "ff02::1:ff00:1", 135, 255) && within("2001:db8::1", "ff12::5", 128, 64));
    assert!(!within("fe80::1", "2001:db8::2", 128, 255) && !within("2001:db8::1", "fe80::2", 128, 255));
    assert!(!within("::", "2001:db8::2", 128, 255) && !within("2001:db8::1", "ff05::2", 128, 255));
    for icmp_type in 128..=144 {
        for hop_limit in [0, 1, 2, 64, 254, 255] {
            let neighbours = (133..=137).contains(&icmp_type) && hop_limit == 255;
            let listeners = matches!(icmp_type, 130..=132 | 143) && hop_limit == 1;
            let within = within("2001:db8::1", "2001:db8::2", icmp_type, hop_limit);
            assert_eq!(within, neighbours || listeners, "type {icmp_type}, hop limit {hop_limit}");
        }
    }
    // A group's members report to the group itself, whatever its scope (RFC 2710 5).
    assert!(within("fe80::1", "ff0e::1", 131, 1) && !within("fe80::1", "ff0e::1", 128, 1));
}

//
#[test]
fn multicast_and_broadcast_are_seen_on_either_side() {
    let group = |src, dst| {
        let bytes = sample::ipv4(src, dst, 17, &sample::udp((1, 2), &[]));
        Packet::parse(&bytes).unwrap().is_multicast_or_broadcast()
    };
    assert!(group(CLIENT, [239, 1, 2, 3]) && group([224, 0, 0, 1], SERVER));
    assert!(group(CLIENT, [255; 4]) && group([255; 4], SERVER));
    assert!(!group(CLIENT, SERVER) && !group([223, 255, 255, 255], [240, 0, 0, 1]));
    let mut multicast = SERVER6;
    multicast[0] = 0xff;
    for (src, dst, expected) in
        [(CLIENT6, multicast, true), (multicast, SERVER6, true), (CLIENT6, SERVER6, false)]
    {
        let bytes = sample::ipv6(src, dst, 17, &sample::udp((1, 2), &[]));
        assert_eq!(Packet::parse(&bytes).unwrap().is_multicast_or_broadcast(), expected);
    }
}

#[test]
fn a_packets_facts_fit_one_cache_line() {
    assert_eq!(size_of::<Packet>(), 48);
}

/// Bytes that begin like IP often enough for the deeper branches to be reached.
fn nearly_a_packet() -> impl Strategy<Value = Vec<u8>> {
    let transport = prop::collection::vec(any::<u8>(), 0..120);
    let protocol = prop::sample::select(vec![0u8, 1, 6, 17, 43, 44, 51, 58, 60, 132, 136, 50]);
    (
        any::<bool>(),
        protocol,
        any::<u16>(),
        transport,
        prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
        0usize..40,
    )
        .prop_map(|(is_v4, protocol, flags, transport, mutations, cut)| {
            let mut bytes = if is_v4 {
                sample::ipv4_with(CLIENT, SERVER, protocol, flags & 0x6007, &[], &transport)
            } else {
                v6(protocol, &transport)
            };
            for (at, value) in mutations {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if cut < 20 {
                bytes.truncate(bytes.len() - cut);
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    // M-6, R-5
    #[test]
    fn no_bytes_panic_and_what_is_accepted_lies_inside(bytes in nearly_a_packet()) {
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.total_len as usize <= bytes.len());
            prop_assert!(u32::from(packet.header_len) <= packet.total_len);
            prop_assert_eq!(packet.kind == Kind::Tcp, packet.protocol == 6 && packet.fragment != Fragment::Later);
            if packet.kind == Kind::Tcp {
                prop_assert!(u32::from(packet.header_len) + 20 <= packet.total_len);
            }
            // What is read of the whole is read of the quotation too.
            prop_assert_eq!(Packet::parse_quoted(&bytes), Ok(packet));
            if let Some(quoted) = icmp::quoted(&bytes, &packet) {
                prop_assert!(quoted.len() < bytes.len());
                black_box(Packet::parse_quoted(quoted)).ok();
            }
        }
        black_box(Packet::parse_quoted(&bytes)).ok();
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(Packet::parse(&bytes).is_err() || Packet::parse_quoted(&bytes).is_ok());
    }
}
