//! The conversations that histories are about, and their packets byte by byte. All are between the one
//! client and the one server; some differ from another in one thing alone.

use std::net::IpAddr;

use crate::harness::*;
use crate::histories::model::{Name, Packet, Side};

const fn name(endpoint: u16, version: u8, protocol: u8, port: u16) -> Name {
    Name { endpoint, version, protocol, port }
}

/// One of each kind, and the same addresses at a second endpoint.
pub const KINDS: [(&str, Name); 11] = [
    ("tcp", name(0, 4, 6, 4000)),
    ("tcp-b", name(0, 4, 6, 4001)),
    ("udp", name(0, 4, 17, 4000)),
    ("tcp6", name(0, 6, 6, 4000)),
    ("ping", name(0, 4, 1, 4000)),
    ("sctp", name(0, 4, 132, 4000)),
    ("gre", name(0, 4, 47, 0)),
    ("tcp@1", name(1, 4, 6, 4000)),
    ("udp6@1", name(1, 6, 17, 4000)),
    ("ping6", name(0, 6, 58, 4000)),
    ("udplite", name(0, 4, 136, 4000)),
];

/// Many more of TCP, for tables that are too small.
const CROWD: std::ops::Range<u16> = 5000..5020;

pub fn crowd() -> impl Iterator<Item = Name> {
    CROWD.map(|port| name(0, 4, 6, port))
}

pub fn everyone() -> Vec<Name> {
    KINDS.iter().map(|(_, name)| *name).chain(crowd()).collect()
}

/// What a script calls a conversation.
pub fn label(of: &Name) -> String {
    let kind = KINDS.iter().find(|(_, name)| name == of);
    kind.map_or_else(|| of.port.to_string(), |(label, _)| (*label).to_owned())
}

pub fn by_label(text: &str) -> Option<Name> {
    let kind = KINDS.iter().find(|(label, _)| *label == text).map(|(_, name)| *name);
    let port = || text.parse().ok().filter(|port| CROWD.contains(port));
    kind.or_else(|| port().map(|port| name(0, 4, 6, port)))
}

/// A packet's facts for the model. `spoiled`: its IPv4 header checksum is wrong.
pub fn packet(flow: Name, from: Side, flags: u8, spoiled: bool) -> Packet {
    let flags = if flow.protocol == 6 { flags } else { 0 };
    Packet {
        flow,
        from,
        syn: flags & SYN != 0,
        ack: flags & ACK != 0,
        fin: flags & FIN != 0,
        rst: flags & RST != 0,
        answerable: !(spoiled && flow.version == 4),
    }
}

/// The port that a side's packets come in by, and the one they leave by.
pub fn ports_of(flow: &Name, from: Side) -> (usize, usize) {
    let [left, right] = wire(flow.endpoint);
    match from {
        Side::Client => (left, right),
        Side::Server => (right, left),
    }
}

pub const SEQ_OF_CLIENT: u32 = 1000;
pub const SEQ_OF_SERVER: u32 = 2000;

/// The frame of a packet.
pub fn frame(flow: &Name, from: Side, flags: u8, spoiled: bool) -> Vec<u8> {
    let (src, dst) = if flow.version == 4 { (CLIENT, SERVER) } else { (CLIENT6, SERVER6) };
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    let ((src, dst), macs, (sport, dport)) = match from {
        Side::Client => ((address(src), address(dst)), [SERVER_MAC, CLIENT_MAC], (flow.port, 80)),
        Side::Server => ((address(dst), address(src)), [CLIENT_MAC, SERVER_MAC], (80, flow.port)),
    };
    let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
    let (segment, checksum_at) = match flow.protocol {
        6 => (tcp(ports, from, flags), Some(16)),
        // UDP; UDP-Lite, which has its coverage where UDP has its length.
        17 | 136 => ([&ports[..], &[0, 12, 0, 0], b"data"].concat(), Some(6)),
        132 => ([&ports[..], &[0, 0, 0, 1, 0, 0, 0, 0, 10, 0, 0, 4]].concat(), None),
        1 | 58 => {
            let request = from == Side::Client;
            let kind = match (flow.protocol, request) {
                (1, true) => 8,
                (1, false) => 0,
                (_, true) => 128,
                (_, false) => 129,
            };
            ([&[kind, 0, 0, 0][..], &flow.port.to_be_bytes(), &[0, 1], b"ping"].concat(), Some(2))
        }
        47 => (b"\0\0\x88\xb5 of no port".to_vec(), None),
        other => panic!("no packets of protocol {other} here"),
    };
    let mut frame = macs.concat();
    frame.extend(if flow.version == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    frame.extend(ip(src, dst, flow.protocol, segment, checksum_at));
    if spoiled && flow.version == 4 {
        frame[24] ^= 0xff;
    }
    frame
}

fn tcp(ports: Vec<u8>, from: Side, flags: u8) -> Vec<u8> {
    let (seq, ack) = match from {
        Side::Client => (SEQ_OF_CLIENT, SEQ_OF_SERVER),
        Side::Server => (SEQ_OF_SERVER, SEQ_OF_CLIENT),
    };
    let mut segment = [ports, seq.to_be_bytes().to_vec(), ack.to_be_bytes().to_vec()].concat();
    segment.extend([0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    if flags & PSH != 0 {
        segment.extend(b"data");
    }
    segment
}

fn ip(src: IpAddr, dst: IpAddr, protocol: u8, mut segment: Vec<u8>, checksum_at: Option<usize>) -> Vec<u8> {
    let len = segment.len() as u16;
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let addresses = [octets(src), octets(dst)].concat();
    if let Some(at) = checksum_at {
        // ICMP alone has no pseudo-header.
        let pseudo = if protocol == 1 {
            Vec::new()
        } else {
            [&addresses[..], &[0, protocol], &len.to_be_bytes()].concat()
        };
        let sum = checksum(&[&pseudo, &segment]);
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let mut header = if src.is_ipv4() {
        [&[0x45, 0][..], &(20 + len).to_be_bytes(), &[0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]].concat()
    } else {
        [&[0x60, 0, 0, 0][..], &len.to_be_bytes(), &[protocol, 64]].concat()
    };
    header.extend(addresses);
    if src.is_ipv4() {
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    [header, segment].concat()
}
