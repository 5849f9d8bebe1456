//! A frame of a tuple: the least that reads as what was asked about.

use std::net::IpAddr;

use super::Tuple;
use crate::datapath::interfaces::VlanTags;
use crate::wire::checksum::Sum;
use crate::wire::ethernet::MacAddr;
use crate::wire::packet::protocol;

/// A station that is nobody's, for the other end of the link.
pub const SOMEBODY: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);

/// The same, for whom a frame on a wire is sent to.
const SOMEBODY_ELSE: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x02]);

/// What goes in front of an IP packet.
#[derive(Clone, Copy, Debug)]
pub struct LinkTo {
    /// Whom it is sent to; none on a wire: somebody.
    pub mac: Option<MacAddr>,
    /// The tags under which it comes in.
    pub tags: VlanTags,
}

/// The IP packet under its link header.
pub fn framed(link: &LinkTo, ip: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(22 + ip.len());
    frame.extend(link.mac.unwrap_or(SOMEBODY_ELSE).0);
    frame.extend(SOMEBODY.0);
    frame.extend(link.tags.bytes());
    frame.extend(match ip.first().map(|byte| byte >> 4) {
        Some(6) => [0x86, 0xdd],
        _ => [0x08, 0x00],
    });
    frame.extend(ip);
    frame
}

/// The IP packet of a tuple, with right IPv4 header checksum, a TTL of 64 and nothing in its payload. Of ICMP and
/// ICMPv6 it is an echo request with the source's port as its identifier. None if the addresses are of two
/// versions of IP.
pub fn packet(tuple: &Tuple) -> Option<Vec<u8>> {
    let transport = transport(tuple);
    let len = u16::try_from(transport.len()).ok()?;
    match (tuple.source.0, tuple.destination.0) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut ip = vec![0x45, 0];
            ip.extend(len.checked_add(20)?.to_be_bytes());
            // No identification, DF, TTL 64.
            ip.extend([0, 0, 0x40, 0, 64, tuple.protocol, 0, 0]);
            ip.extend(source.octets());
            ip.extend(destination.octets());
            let sum = Sum::ZERO.bytes(&ip).checksum();
            ip.splice(10..12, sum.to_be_bytes());
            ip.extend(transport);
            Some(ip)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend(len.to_be_bytes());
            ip.extend([tuple.protocol, 64]);
            ip.extend(source.octets());
            ip.extend(destination.octets());
            ip.extend(transport);
            Some(ip)
        }
        _ => None,
    }
}

/// The transport header, as far as the data path reads it, and the payload.
fn transport(tuple: &Tuple) -> Vec<u8> {
    let (from, to) = (tuple.source.1.to_be_bytes(), tuple.destination.1.to_be_bytes());
    let mut bytes = Vec::new();
    match tuple.protocol {
        protocol::TCP => {
            bytes.extend(from);
            bytes.extend(to);
            bytes.extend([0; 8]);
            bytes.extend([0x50, tuple.flags, 0xff, 0xff, 0, 0, 0, 0]);
        }
        protocol::UDP | protocol::UDP_LITE => {
            bytes.extend(from);
            bytes.extend(to);
            bytes.extend(tuple.payload.saturating_add(8).to_be_bytes());
            bytes.extend([0; 2]);
        }
        protocol::SCTP => {
            bytes.extend(from);
            bytes.extend(to);
            bytes.extend([0; 8]);
        }
        protocol::ICMP => {
            bytes.extend([8, 0, 0, 0]);
            bytes.extend(from);
            bytes.extend([0; 2]);
        }
        protocol::ICMPV6 => {
            bytes.extend([128, 0, 0, 0]);
            bytes.extend(from);
            bytes.extend([0; 2]);
        }
        _ => {}
    }
    bytes.resize(bytes.len() + usize::from(tuple.payload), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ethernet::Link;
    use crate::wire::ipv4;
    use crate::wire::packet::{IpVersion, Kind, Packet};

    fn tuple(number: u8, six: bool) -> Tuple {
        let [a, b]: [IpAddr; 2] = match six {
            false => ["192.0.2.10", "198.51.100.20"],
            true => ["2001:db8::10", "2001:db8:1::20"],
        }
        .map(|address| address.parse().unwrap());
        Tuple { protocol: number, source: (a, 40_000), destination: (b, 443), flags: 0x12, payload: 100 }
    }

    #[test]
    fn a_frame_reads_as_what_was_asked_about() {
        for six in [false, true] {
            for (number, kind, ports) in [
                (protocol::TCP, Kind::Tcp, (40_000, 443)),
                (protocol::UDP, Kind::Datagram, (40_000, 443)),
                (protocol::SCTP, Kind::Datagram, (40_000, 443)),
                (protocol::UDP_LITE, Kind::Datagram, (40_000, 443)),
                (if six { protocol::ICMPV6 } else { protocol::ICMP }, Kind::IcmpEcho, (40_000, 40_000)),
                (47, Kind::Other, (0, 0)),
            ] {
                let ip = packet(&tuple(number, six)).unwrap();
                let read = Packet::parse(&ip).unwrap();
                assert_eq!((read.kind, read.protocol), (kind, number), "{number} {six}");
                assert_eq!((read.src_port, read.dst_port), ports, "{number} {six}");
                assert_eq!(read.version == IpVersion::V6, six);
                assert_eq!(usize::try_from(read.total_len).unwrap(), ip.len());
                assert!(six || ipv4::header_checksum_ok(&ip), "R-5: it may be answered");
                assert_eq!(read.tcp_flags.bits(), if number == 6 { 0x12 } else { 0 });
            }
        }
        let mixed = Tuple { destination: ("::1".parse().unwrap(), 1), ..tuple(6, false) };
        assert_eq!(packet(&mixed), None);
    }

    #[test]
    fn a_frame_has_the_tags_and_the_address_of_where_it_comes_in() {
        let ip = packet(&tuple(6, true)).unwrap();
        let mac = MacAddr([2, 0, 0, 0, 0, 9]);
        let tags = VlanTags::new(&[7, 100]).unwrap();
        let frame = framed(&LinkTo { mac: Some(mac), tags }, &ip);
        let link = Link::parse(&frame).unwrap();
        assert_eq!((link.header_len, link.ethertype), (22, 0x86dd));
        assert_eq!(VlanTags::of(&frame, &link), tags);
        assert_eq!((&frame[..6], &frame[22..]), (&mac.0[..], &ip[..]));
    }
}
