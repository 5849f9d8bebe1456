//! What comes from the target side: frames with GENEVE in them, or nearly.
//!
//! Promises, held against a second reading: the outer headers are accepted only if they are whole, right and ours; the
//! options are read in any order, and refused if they are cut, overlap, are there twice, or critical and unknown (W-4, W-5).
//! The fast reading accepts nothing that the careful ones refuse, and says the same. What the gateway itself would send
//! is read as what it was.

use crate::bytes::Bytes;
use crate::reading::{be16, be32, checksum, read};
use flowgate::wire::geneve::{self, GeneveError, Received, has_canonical_options, outer, plain};

const LONGEST: usize = 2048;
const LINK: usize = 14;

pub fn run(frame: &[u8]) {
    if frame.len() > LONGEST {
        return;
    }
    options(frame);
    let Some(ip) = frame.get(LINK..) else { return };
    let accepted = outer::parse(ip);
    let expected = outer_payload(ip);
    assert_eq!(accepted.map(|outer| outer.payload(ip)).ok(), expected, "{accepted:?}");
    if let Some(payload) = expected {
        options(payload);
    }
    let ours = be32(ip, 16).unwrap_or(0);
    let Some(plain) = plain::Plain::of(frame).filter(|plain| plain.is_answer(ours, frame.len())) else {
        return;
    };
    let outer = accepted.expect("the careful reading refuses what the fast one takes");
    let received = geneve::parse(outer.payload(ip)).expect("the careful reading refuses it");
    assert_eq!((plain.source(), outer.dst_ip), (outer.src_ip, ours));
    assert_eq!((plain.cookie(), plain.endpoint_id()), (received.cookie, received.endpoint_id));
    let inside = &outer.payload(ip)[usize::from(received.inner_offset)..];
    for protocol in [6, 17] {
        let Some(inner) = plain.inner_v4(protocol) else { continue };
        let careful = read(inside).expect("the careful reading refuses the inner packet");
        assert_eq!((careful.six, careful.protocol, careful.fragment), (false, protocol, None));
        assert_eq!(u128::from(inner.addresses), careful.src << 32 | careful.dst);
        assert_eq!(inner.ports, u32::from(careful.ports.0) << 16 | u32::from(careful.ports.1));
        assert_eq!((usize::from(inner.len), inner.tcp_flags.bits()), (careful.total, careful.flags));
    }
}

/// The UDP payload of a datagram to our port that is in order.
fn outer_payload(ip: &[u8]) -> Option<&[u8]> {
    let header = usize::from(*ip.first()? & 15) * 4;
    let total = usize::from(be16(ip, 2)?);
    let packet = ip.get(..total)?;
    if ip[0] >> 4 != 4 || header < 20 || packet.get(9) != Some(&17) || be16(packet, 6)? & 0x3fff != 0 {
        return None;
    }
    let datagram = packet.get(header..)?;
    let length = usize::from(be16(datagram, 4)?);
    let whole = datagram.get(..length).filter(|whole| whole.len() >= 8)?;
    let is_ours = be16(datagram, 2)? == 6081 && checksum(&[&packet[..header]]) == 0 && packet[8] > 0;
    let length = u16::try_from(length).ok()?.to_be_bytes();
    let sum = checksum(&[&packet[12..20], &[0, 17], &length, whole]);
    (is_ours && (whole[6..8] == [0, 0] || sum == 0)).then_some(&whole[8..])
}

/// RFC 8926 3.4 and 3.5, once more.
fn options(payload: &[u8]) {
    let (parsed, walked) = (geneve::parse(payload), walk(payload));
    assert_eq!(parsed.ok(), walked, "{parsed:?}");
    if let Err(GeneveError::WrongVersion(version)) = parsed {
        assert_eq!(version, payload[0] >> 6);
    }
    if has_canonical_options(payload) && payload.len() >= geneve::LEN {
        assert!(
            parsed.is_ok_and(|received| received.inner_offset == 40)
                || be16(payload, 2) == walked_type(payload)
        );
    }
}

/// The EtherType, if it is none that is carried.
fn walked_type(payload: &[u8]) -> Option<u16> {
    be16(payload, 2).filter(|kind| !matches!(kind, 0x0800 | 0x86dd))
}

fn walk(payload: &[u8]) -> Option<Received> {
    let mut header = Bytes(payload.get(..8)?);
    let (first, flags, protocol) = (header.byte(), header.byte(), header.word());
    if first & 0xc0 != 0 || flags & 0x80 != 0 || !matches!(protocol, 0x0800 | 0x86dd) {
        return None;
    }
    let end = 8 + usize::from(first & 0x3f) * 4;
    let all = payload.get(..end)?;
    let mut found: [Vec<&[u8]>; 3] = Default::default();
    let mut at = 8;
    while at < end {
        let data = all.get(at + 4..at + 4 + usize::from(all[at + 3] & 0x1f) * 4)?;
        match (be16(all, at)?, all[at + 2]) {
            (0x0108, kind @ 1..=3) => found[usize::from(kind) - 1].push(data),
            (_, kind) if kind & 0x80 != 0 => return None,
            _ => {}
        }
        at += 4 + data.len();
    }
    let [endpoint, attachment, cookie] = found.map(|all| match all[..] {
        [one] => Some(one),
        _ => None,
    });
    let (endpoint, attachment) = (endpoint?.try_into().ok()?, attachment?.try_into().ok()?);
    Some(Received {
        cookie: u32::from_be_bytes(cookie?.try_into().ok()?),
        endpoint_id: u64::from_be_bytes(endpoint),
        attachment_id: u64::from_be_bytes(attachment),
        inner_offset: u16::try_from(end).ok()?,
        protocol,
    })
}
