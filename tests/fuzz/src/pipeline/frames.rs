//! The frames of a game: conversations between few ends, so that packets meet, with whatever is wrong in some of them.

use crate::bytes::Bytes;
use crate::harness::*;
use crate::network::{LEFT_MAC, RIGHT_MAC};

/// Bytes of an Ethernet header.
const LINK: usize = 14;
/// Where an answer has what an appliance may get wrong: lengths, options, cookie, the front of the inner packet.
const OUTER: usize = 82;

/// Lengths of payloads: none, some, all that goes through, just too much, and far too much.
const PAYLOADS: [usize; 8] = [0, 0, 1, 100, 1000, 1472, 1500, 3000];

/// A packet of one of few conversations, and the side that sends it.
pub fn segment(bytes: &mut Bytes<'_>, is_routed: bool) -> (usize, Segment) {
    let (who, flags, how) = (bytes.byte(), bytes.byte(), bytes.byte());
    let side = if who & 1 == 0 { LEFT } else { RIGHT };
    let mut segment = client(1 + u16::from(who >> 1 & 7), flags);
    segment.ports.1 = 80 + u16::from(who >> 4 & 1);
    if how & 1 != 0 {
        segment = segment.udp();
    }
    if how & 2 != 0 {
        segment = segment.over_ipv6();
    }
    if how & 4 != 0 {
        segment.vlans = vec![u16::from(how >> 4) + 1; usize::from(how >> 3 & 1) + 1];
    }
    if how & 128 != 0 {
        (segment.seq, segment.ack, segment.ttl) = (bytes.double(), bytes.double(), bytes.byte());
        segment.fragment = if bytes.bit() { 0 } else { 0x4000 };
    }
    segment.payload = vec![0x5a; PAYLOADS[usize::from(how >> 4 & 7)]];
    if side == RIGHT {
        segment = segment.reversed();
    }
    if is_routed {
        // As the hosts of the routed network address their router; endpoint 1 has other tags.
        let other = segment.vlans.len() > 1;
        (segment.macs, segment.vlans) = match (side, other) {
            (LEFT, false) => ((CLIENT_MAC, LEFT_MAC), vec![100]),
            (LEFT, true) => (([2, 0, 0, 0, 1, 0xc1], LEFT_MAC), vec![200]),
            (_, false) => (([2, 0, 0, 0, 0, 0x53], RIGHT_MAC), vec![]),
            (_, true) => (([2, 0, 0, 0, 1, 0x53], RIGHT_MAC), vec![7, 300]),
        };
    }
    (side, segment)
}

/// What is wrong with a frame: bytes changed near places that matter, cut, or grown.
pub fn spoil(bytes: &mut Bytes<'_>, frame: &mut Vec<u8>) {
    for _ in 0..bytes.below(4) {
        let (at, how) = (usize::from(bytes.byte()), bytes.byte());
        if let Some(byte) = frame.get_mut(at) {
            *byte ^= how;
        }
    }
    match bytes.below(8) {
        0 => frame.truncate(frame.len().saturating_sub(bytes.byte().into())),
        1 => frame.resize(frame.len() + usize::from(bytes.byte()), 0xee),
        2 => mend_checksum(frame, LINK),
        3 => {
            mend_checksum(frame, OUTER);
            mend_checksum(frame, LINK);
        }
        _ => {}
    }
}

/// Puts the right checksum into an IPv4 header, if there is one.
fn mend_checksum(frame: &mut [u8], at: usize) {
    let Some(length) = frame.get(at).map(|first| usize::from(first & 15) * 4) else { return };
    if length < 20 || frame[at] >> 4 != 4 {
        return;
    }
    if let Some(header) = frame.get_mut(at..at + length) {
        header[10..12].fill(0);
        let sum = checksum(&[header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// One piece of a datagram that is larger than its link: where it begins and how long it is says the game.
pub fn piece(bytes: &mut Bytes<'_>, segment: &Segment) -> Vec<u8> {
    let ip = segment.ip();
    let (units, length) = (usize::from(bytes.byte()), usize::from(bytes.byte()) * 8);
    let more = bytes.bit();
    let mut frame = segment.frame();
    let at = frame.len() - ip.len();
    if ip[0] >> 4 == 4 {
        let data = &ip[20..];
        let from = (units * 8).min(data.len());
        let data = &data[from..(from + length).min(data.len())];
        frame.truncate(at + 20);
        frame.extend(data);
        let total = u16::try_from(20 + data.len()).unwrap();
        let place = u16::try_from(units).unwrap() | if more { 0x2000 } else { 0 };
        frame[at + 2..at + 4].copy_from_slice(&total.to_be_bytes());
        frame[at + 6..at + 8].copy_from_slice(&place.to_be_bytes());
        mend_checksum(&mut frame, at);
    } else {
        let data = &ip[40..];
        let from = (units * 8).min(data.len());
        let data = data[from..(from + length).min(data.len())].to_vec();
        let place = u16::try_from(units * 8).unwrap() | u16::from(more);
        let protocol = std::mem::replace(&mut frame[at + 6], 44);
        frame.truncate(at + 40);
        frame.extend([protocol, 0]);
        frame.extend(place.to_be_bytes());
        frame.extend([0, 0, 0, 9]);
        frame.extend(&data);
        let total = u16::try_from(8 + data.len()).unwrap();
        frame[at + 4..at + 6].copy_from_slice(&total.to_be_bytes());
    }
    frame
}

/// An ICMP error about a packet of a conversation, to who sent that.
pub fn icmp_error(bytes: &mut Bytes<'_>, segment: &Segment) -> Vec<u8> {
    let about = segment.ip();
    let quoted = &about[..about.len().min(usize::from(bytes.byte()))];
    let mut carrier = segment.clone().reversed().udp();
    carrier.payload = quoted.to_vec();
    let mut frame = carrier.frame();
    let at = frame.len() - carrier.ip().len();
    let (protocol_at, protocol, message, kinds) =
        if frame[at] >> 4 == 4 { (at + 9, 1, at + 20, [3, 11]) } else { (at + 6, 58, at + 40, [1, 2]) };
    frame[protocol_at] = protocol;
    let kind = [bytes.of(&kinds), bytes.byte() % 16, 0, 0, 0, 0, 5, 0];
    frame[message..message + 8].copy_from_slice(&kind);
    mend_checksum(&mut frame, at);
    frame
}
