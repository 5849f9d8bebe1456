//! Fragments, made and put together again as RFC 791 3.2 and RFC 8200 4.5 say, and ICMP errors: for the
//! tests of sizes, fragments and errors. Shares nothing with the gateway.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::harness::*;

/// Bytes that repeat nowhere nearby.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32 ^ len as u32;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as u8
        })
        .collect()
}

/// The frame around an IP packet on the client's link.
pub fn from_client(ip: &[u8]) -> Vec<u8> {
    on_link((CLIENT_MAC, SERVER_MAC), ip)
}

/// The frame around an IP packet on the server's link.
pub fn from_server(ip: &[u8]) -> Vec<u8> {
    on_link((SERVER_MAC, CLIENT_MAC), ip)
}

fn on_link((src, dst): ([u8; 6], [u8; 6]), ip: &[u8]) -> Vec<u8> {
    let ethertype = if ip[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    [&dst[..], &src, &ethertype, ip].concat()
}

/// The pseudo header of an IP packet without extension headers, whose payload is all that follows.
pub fn pseudo(ip: &[u8], protocol: u8) -> Vec<u8> {
    if ip[0] >> 4 == 4 {
        let len = (ip.len() - usize::from(ip[0] & 15) * 4) as u16;
        [&ip[12..20], &[0, protocol], &len.to_be_bytes()].concat()
    } else {
        [&ip[8..40], &((ip.len() - 40) as u32).to_be_bytes(), &[0, 0, 0, protocol]].concat()
    }
}

/// Fills in the checksum of an ICMP or ICMPv6 packet whose field is zero.
pub fn icmp_checksum(ip: &mut [u8]) {
    let (at, sum) = if ip[0] >> 4 == 4 {
        (22, checksum(&[&ip[20..]]))
    } else {
        (42, checksum(&[&pseudo(ip, 58), &ip[40..]]))
    };
    ip[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// An ICMP error from `source` to the sender of `about`, of which it quotes `quoted` bytes.
pub fn error_from(source: &str, about: &[u8], quoted: usize, kind: [u8; 2]) -> Vec<u8> {
    let quote = &about[..quoted.min(about.len())];
    let mut ip = match source.parse().unwrap() {
        IpAddr::V4(source) => {
            let mut ip = vec![0x45, 0];
            ip.extend(((28 + quote.len()) as u16).to_be_bytes());
            ip.extend([0x77, 0x77, 0x40, 0, 63, 1, 0, 0]);
            ip.extend(source.octets());
            ip.extend(&about[12..16]);
            let sum = checksum(&[&ip]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            ip
        }
        IpAddr::V6(source) => {
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend(((8 + quote.len()) as u16).to_be_bytes());
            ip.extend([58, 63]);
            ip.extend(source.octets());
            ip.extend(&about[8..24]);
            ip
        }
    };
    ip.extend(kind);
    ip.extend([0, 0, 0, 0, 0x05, 0x14]);
    ip.extend(quote);
    icmp_checksum(&mut ip);
    ip
}

/// An IPv4 packet with options added.
pub fn with_options(ip: &[u8], options: &[u8]) -> Vec<u8> {
    let mut packet = [&ip[..20], options, &ip[20..]].concat();
    packet[0] = 0x45 + (options.len() / 4) as u8;
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    right_header(&mut packet);
    packet
}

fn right_header(packet: &mut [u8]) {
    let header_len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = checksum(&[&packet[..header_len]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The fragments of a packet, cut before these bytes of its payload (multiples of 8). IPv4 options go
/// into all of them, an IPv6 fragment header comes after the fixed header.
pub fn fragments(ip: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let four = ip[0] >> 4 == 4;
    let header_len = if four { usize::from(ip[0] & 15) * 4 } else { 40 };
    let payload = &ip[header_len..];
    let mut edges = vec![0];
    edges.extend(cuts);
    edges.push(payload.len());
    edges
        .windows(2)
        .map(|edge| {
            let (offset, end) = (edge[0], edge[1]);
            let more = end < payload.len();
            let mut fragment = ip[..header_len].to_vec();
            if four {
                let flags = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
                fragment[2..4].copy_from_slice(&((header_len + end - offset) as u16).to_be_bytes());
                fragment[6..8].copy_from_slice(&flags.to_be_bytes());
                right_header(&mut fragment);
            } else {
                let next = std::mem::replace(&mut fragment[6], 44);
                fragment[4..6].copy_from_slice(&((8 + end - offset) as u16).to_be_bytes());
                fragment.extend([next, 0]);
                fragment.extend((offset as u16 | u16::from(more)).to_be_bytes());
                // The identification, from what the harness has of it: the checksum of the whole packet.
                fragment.extend(0xfeed_0000_u32.to_be_bytes().map(|byte| byte ^ ip[ip.len() - 1]));
            }
            fragment.extend(&payload[offset..end]);
            fragment
        })
        .collect()
}

/// The datagram that these fragments are of, as a host puts it together. Panics on gaps, overlaps and strangers.
pub fn reassembled(fragments: &[Vec<u8>]) -> Vec<u8> {
    if fragments.len() == 1 && is_whole(&fragments[0]) {
        return fragments[0].clone();
    }
    let mut parts: BTreeMap<usize, (&[u8], bool)> = BTreeMap::new();
    let mut header = None;
    for fragment in fragments {
        let (head, offset, more, payload) = if fragment[0] >> 4 == 4 {
            let header_len = usize::from(fragment[0] & 15) * 4;
            assert_eq!(checksum(&[&fragment[..header_len]]), 0);
            assert_eq!(usize::from(u16::from_be_bytes([fragment[2], fragment[3]])), fragment.len());
            let flags = u16::from_be_bytes([fragment[6], fragment[7]]);
            let mut head = fragment[..header_len].to_vec();
            head[6..8].fill(0);
            (head, usize::from(flags & 0x1fff) * 8, flags & 0x2000 != 0, &fragment[header_len..])
        } else {
            assert_eq!(fragment[6], 44);
            let mut head = fragment[..40].to_vec();
            head[6] = fragment[40];
            let flags = u16::from_be_bytes([fragment[42], fragment[43]]);
            (head, usize::from(flags & 0xfff8), flags & 1 != 0, &fragment[48..])
        };
        if offset == 0 {
            header = Some(head);
        }
        assert!(parts.insert(offset, (payload, more)).is_none(), "two pieces for one place");
    }
    let mut ip = header.expect("a first fragment");
    let header_len = ip.len();
    let last = *parts.keys().last().unwrap();
    for (offset, (payload, more)) in parts {
        assert_eq!(ip.len() - header_len, offset, "a gap or an overlap");
        assert_eq!(more, offset != last);
        ip.extend(payload);
    }
    let len = ip.len() as u16;
    if ip[0] >> 4 == 4 {
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        right_header(&mut ip);
    } else {
        ip[4..6].copy_from_slice(&(len - 40).to_be_bytes());
    }
    ip
}

fn is_whole(ip: &[u8]) -> bool {
    if ip[0] >> 4 == 4 { u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0 } else { ip[6] != 44 }
}
