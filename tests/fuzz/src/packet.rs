//! IP packets with whatever is in them: IPv4 and IPv6, extension headers, TCP, UDP, SCTP, ICMP, fragments.
//!
//! Promises, held against a second reading that shares nothing with the gateway's: what is read is what is there, and
//! what is cut or contradicts itself is refused, whatever padding follows. The fast reading says the same as the careful
//! one. A reset is what R-4 says, never longer than what it answers, and there is none in R-5's cases. An ICMP
//! error is within its bounds, never about another error, and no longer than what it answers where its sender needs no more to
//! know it by. Pieces put together are the packet. What lowers a time to live
//! or an MSS keeps right checksums right and changes nothing else. What is refused is left as it was.

use crate::reading::{self, Reading, TCP, UDP, be16, be32, checksum, read};
use flowgate::datapath::reset::write_reset;
use flowgate::wire::fragment::{self, Place};
use flowgate::wire::icmp::{self, error};
use flowgate::wire::ip::IpVersion;
use flowgate::wire::packet::{Fragment, Kind, Packet};
use flowgate::wire::plain::Plain;
use flowgate::wire::split::Split;
use flowgate::wire::tcp::mss;
use flowgate::wire::{ipv4, ttl};

const LONGEST: usize = 4096;

pub fn run(ip: &[u8]) {
    if ip.len() > LONGEST {
        return;
    }
    // Of what a router quotes nothing is promised but that it is read or refused.
    let _quoted = Packet::parse_quoted(ip).map(|packet| icmp::quoted(ip, &packet));
    let _first = fragment::is_first(ip);
    let (parsed, reading) = (Packet::parse(ip), read(ip));
    match (&parsed, &reading) {
        (Ok(packet), Some(reading)) => {
            is_what_is_there(packet, reading);
            let exactly = &ip[..reading.total];
            assert_eq!(Packet::parse(exactly), parsed, "without its padding");
            assert_eq!(Packet::parse(&[ip, &[0x5a; 9]].concat()), parsed, "with padding");
            if reading.total > 20 {
                Packet::parse(&exactly[..reading.total - 1]).unwrap_err();
            }
            plainly(ip, packet);
            quotes(ip, packet, reading);
            a_reset(ip, packet, reading);
            an_error(ip, packet, reading);
            place(ip, packet, reading);
            lowered(ip, packet, reading);
            clamped(ip, reading);
        }
        (Err(_), None) => {
            assert!(Plain::<u32>::read(ip).is_none_or(|_| ip[0] >> 4 != 4));
            assert!(Plain::<u128>::read(ip).is_none());
        }
        differently => panic!("read differently: {differently:?}"),
    }
    for most in [28, 68, 576, 1500] {
        pieces(ip, most);
    }
}

fn is_what_is_there(packet: &Packet, reading: &Reading) {
    let version = if reading.six { IpVersion::V6 } else { IpVersion::V4 };
    assert_eq!((packet.version, packet.protocol), (version, reading.protocol));
    assert_eq!((packet.src, packet.dst), (reading.src, reading.dst));
    assert_eq!((packet.src_port, packet.dst_port), reading.ports);
    let (total, at) = (usize::try_from(packet.total_len).unwrap(), usize::from(packet.header_len));
    assert_eq!((total, at), (reading.total, reading.transport));
    assert_eq!(packet.tcp_flags.bits(), reading.flags);
    let fragment = match reading.fragment {
        None => Fragment::Whole,
        Some((0, _)) => Fragment::First,
        Some(_) => Fragment::Later,
    };
    assert_eq!(packet.fragment, fragment);
    assert_eq!(packet.kind == Kind::Tcp, reading.is_tcp());
    assert_eq!(packet.kind == Kind::IcmpError, reading.quotes.is_some());
}

fn plainly(ip: &[u8], packet: &Packet) {
    let alike = |src, dst, ports: u32, total: u16, protocol, flags| {
        let whole = (packet.src, packet.dst, packet.total_len, packet.protocol, packet.tcp_flags);
        assert_eq!((src, dst, u32::from(total), protocol, flags), whole);
        assert_eq!(ports, u32::from(packet.src_port) << 16 | u32::from(packet.dst_port));
        assert_eq!(packet.fragment, Fragment::Whole);
    };
    if let Some(plain) = Plain::<u32>::read(ip) {
        let (src, dst) = (u128::from(plain.src), u128::from(plain.dst));
        alike(src, dst, plain.ports, plain.total_len, plain.protocol, plain.tcp_flags);
    }
    if let Some(plain) = Plain::<u128>::read(ip) {
        alike(plain.src, plain.dst, plain.ports, plain.total_len, plain.protocol, plain.tcp_flags);
    }
}

fn quotes(ip: &[u8], packet: &Packet, reading: &Reading) {
    let quoted = icmp::quoted(ip, packet);
    assert_eq!(quoted, reading.quotes.map(|at| &ip[at..reading.total]));
    let Some(quoted) = quoted else { return };
    // What is quoted whole is read alike, whether it stands alone or in an error. An old sender's length may be wrong.
    if let (Ok(alone), Ok(read)) = (Packet::parse(quoted), Packet::parse_quoted(quoted)) {
        assert_eq!(alone, read);
    }
}

///
fn a_reset(ip: &[u8], packet: &Packet, reading: &Reading) {
    let mut bytes = ip.to_vec();
    let header_is_right = reading.six || checksum(&[&ip[..usize::from(ip[0] & 15) * 4]]) == 0;
    let is_reset = reading.flags & 4 != 0;
    let may = reading.is_tcp() && !is_reset && !reading.is_for_many() && header_is_right;
    let Ok(length) = write_reset(&mut bytes, packet) else {
        assert!(!may, "a reset is refused to {reading:?}");
        assert_eq!(bytes, ip, "a refused packet is another");
        return;
    };
    assert!(may, "a reset in answer to {reading:?}");
    assert!(length <= reading.total, "a reset of {length} bytes for {} bytes", reading.total);
    let reset = &bytes[..length];
    let answer = read(reset).expect("a whole packet");
    assert_eq!((answer.src, answer.dst), (reading.dst, reading.src));
    assert_eq!(answer.ports, (reading.ports.1, reading.ports.0));
    assert_eq!((answer.six, answer.total, answer.fragment), (reading.six, length, None));
    assert!(tcp_is_right(reset, &answer));
    let (asked, told) = (&ip[reading.transport..], &reset[answer.transport..]);
    let number = |bytes, at| be32(bytes, at).unwrap();
    let options = usize::from(asked[12] >> 4) * 4;
    let length = u32::try_from(reading.total - reading.transport - options).unwrap();
    let counted = length + u32::from(reading.flags >> 1 & 1) + u32::from(reading.flags & 1);
    let expected = match reading.flags & 0x10 {
        0 => (0, number(asked, 4).wrapping_add(counted), 0x14),
        _ => (number(asked, 8), 0, 0x04),
    };
    assert_eq!((number(told, 4), number(told, 8), answer.flags), expected);
    assert_eq!((told[12], be16(told, 14), be16(told, 18)), (0x50, Some(0), Some(0)), "no options, no window");
}

fn tcp_is_right(ip: &[u8], reading: &Reading) -> bool {
    let header = reading.six || checksum(&[&ip[..20]]) == 0;
    header && reading::tcp_checksum_is_right(ip, reading)
}

/// M-2
fn an_error(ip: &[u8], packet: &Packet, reading: &Reading) {
    if error::judge(ip, packet).is_err() {
        return;
    }
    assert_ne!(packet.kind, Kind::IcmpError);
    let (headers, quoted) = (error::headers_len(packet.version), error::quoted_len(packet));
    let mut message = vec![0; headers];
    message.extend(&ip[..quoted]);
    error::write_headers(&mut message, error::IcmpError::TimeExceeded, packet.dst, packet);
    let told = read(&message).expect("a whole packet");
    let most = if told.six { 1280 } else { 576 };
    // Its IP headers and eight bytes behind them, if there are as many.
    let least = headers + (reading.transport + 8).min(reading.total);
    assert_eq!(message.len(), reading.total.max(least).min(most), "about {} bytes", reading.total);
    assert_eq!(usize::from(error::excess(packet)), message.len().saturating_sub(reading.total));
    assert_eq!((told.src, told.dst, told.quotes), (packet.dst, packet.src, Some(headers)));
    let about = Packet::parse(&message).expect("a whole packet");
    error::judge(&message, &about).expect_err("an error about an error");
}

/// M-4
fn place(ip: &[u8], packet: &Packet, reading: &Reading) {
    let place = Place::of(ip, packet);
    assert_eq!(place.map(|place| (usize::try_from(place.offset).unwrap(), place.more)), reading.fragment);
    if let Some(place) = place {
        assert!(usize::try_from(place.len).unwrap() <= reading.total);
        assert_eq!(place.offset == 0, fragment::is_first(ip));
        if place.is_possible() {
            assert!(place.offset + place.len <= 65_535);
        }
    }
}

/// W-6
fn lowered(ip: &[u8], packet: &Packet, reading: &Reading) {
    let mut bytes = ip.to_vec();
    ttl::lower(&mut bytes, packet.version);
    assert_eq!(ttl::get(&bytes, packet.version), ttl::get(ip, packet.version).saturating_sub(1));
    if !reading.six {
        assert_eq!(ipv4::header_checksum_ok(&bytes), ipv4::header_checksum_ok(ip));
        bytes[10..12].copy_from_slice(&ip[10..12]);
    }
    let at = if reading.six { 7 } else { 8 };
    bytes[at] = ip[at];
    assert_eq!(bytes, ip);
}

/// M-3
fn clamped(ip: &[u8], reading: &Reading) {
    if !reading.is_tcp() {
        return;
    }
    let mut bytes = ip.to_vec();
    let changed = mss::clamp(&mut bytes[reading.transport..], 1200);
    assert_eq!(changed, bytes != ip, "says that it changed nothing, or something");
    let header = usize::from(ip[reading.transport + 12] >> 4) * 4;
    assert_eq!(bytes[..reading.transport + 16], ip[..reading.transport + 16]);
    assert_eq!(bytes[reading.transport + header..], ip[reading.transport + header..]);
    if reading::tcp_checksum_is_right(ip, reading) {
        assert!(reading::tcp_checksum_is_right(&bytes, reading));
    }
}

/// M-2: RFC 791's way of putting pieces together.
fn pieces(ip: &[u8], most: usize) {
    if ip.first().is_none_or(|first| first >> 4 != 4) {
        return;
    }
    let Ok(split) = Split::plan(ip, most) else { return };
    let whole = read_header(ip).expect("what is split has a header");
    let (mut payload, mut at) = (Vec::<u8>::new(), whole.offset);
    let count = split.pieces();
    for number in 0..count {
        let piece = split.piece(number);
        let mut bytes = vec![0; piece.header_len];
        split.write_header(number, &mut bytes);
        bytes.extend(&ip[piece.payload.clone()]);
        assert!(bytes.len() <= most.max(whole.total), "a piece of {} bytes", bytes.len());
        assert!(count == 1 || bytes.len() <= most, "a piece of {} bytes for {most}", bytes.len());
        let header = read_header(&bytes).expect("a whole header");
        assert_eq!((header.total, header.offset), (bytes.len(), at));
        assert_eq!(header.more, number + 1 < count || whole.more);
        assert_eq!(checksum(&[&bytes[..header.length]]), 0);
        assert_eq!((bytes[9], &bytes[4..6], &bytes[12..20]), (ip[9], &ip[4..6], &ip[12..20]));
        payload.extend(&bytes[header.length..]);
        at += bytes.len() - header.length;
    }
    assert_eq!(payload, ip[whole.length..whole.total], "put together it is the packet");
    assert!(ip[9] != TCP && ip[9] != UDP || payload.len() < 65_536);
}

struct Header {
    length: usize,
    total: usize,
    offset: usize,
    more: bool,
}

fn read_header(ip: &[u8]) -> Option<Header> {
    let (length, total) = (usize::from(ip[0] & 15) * 4, usize::from(be16(ip, 2)?));
    let place = be16(ip, 6)?;
    let there = length >= 20 && total >= length && ip.len() >= total;
    there.then_some(Header {
        length,
        total,
        offset: usize::from(place & 0x1fff) * 8,
        more: place & 0x2000 != 0,
    })
}
