//! What a host says for itself on the targets' network: answers to ARP, ping, and health checks by TCP or HTTP.
//! So the gateway's kernel finds its targets and their health over the very port that the tunnel is on, and no
//! program need stand in for them.
//!
//! TCP without memory: every number that an answer needs is in the segment that it answers.

use std::net::Ipv4Addr;

use arrayvec::ArrayVec;
use flowgate::wire::checksum::{self, Sum};
use flowgate::wire::ethernet::{HEADER_LEN, Link, ethertype};
use flowgate::wire::ipv4::{self, Ipv4Header};
use flowgate::wire::packet::{Fragment, protocol};
use flowgate::wire::tcp::{self, TcpFlags, TcpHeader};

/// Our first sequence number, in every connection.
const FIRST_SEQ: u32 = 0x1000_0000;

const HTTP_ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Bytes of an ARP packet for IPv4 over Ethernet (RFC 826).
const ARP_LEN: usize = 28;

/// The longest ping that is answered.
const LONGEST: usize = 512;

/// A frame that goes back.
pub struct Answer {
    bytes: ArrayVec<u8, LONGEST>,
    /// The target that was asked.
    target: usize,
    health_check: bool,
}

impl Answer {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The target whose health somebody is told by this.
    pub fn checked_target(&self) -> Option<usize> {
        self.health_check.then_some(self.target)
    }
}

/// The link-layer address of the target with this address.
pub fn mac_of(address: u32) -> [u8; 6] {
    let [a, b, c, d] = address.to_be_bytes();
    [2, a ^ 0xa0, a, b, c, d]
}

/// What the target answers to a frame. `is_ours` gives a target's number and whether it is dead. A dead one's
/// machine still answers ARP, so that neighbours do not go astray, and nothing else.
pub fn answer(frame: &[u8], is_ours: impl Fn(u32) -> Option<(usize, bool)>) -> Option<Answer> {
    let link = Link::parse(frame).ok().filter(|link| usize::from(link.header_len) == HEADER_LEN)?;
    match link.ethertype {
        ethertype::ARP => answer_arp(frame, is_ours),
        ethertype::IPV4 => {
            let ip = frame.get(HEADER_LEN..)?;
            let header = Ipv4Header::parse(ip).ok()?;
            let packet = ip.get(..usize::from(header.total_len))?;
            let (target, dead) = is_ours(header.dst)?;
            if dead || header.fragment != Fragment::Whole {
                return None;
            }
            let payload = packet.get(usize::from(header.header_len)..)?;
            match header.protocol {
                protocol::ICMP => answer_ping(frame, target, &header, payload),
                protocol::TCP => answer_tcp(frame, target, &header, payload),
                _ => None,
            }
        }
        _ => None,
    }
}

fn answer_arp(frame: &[u8], is_ours: impl Fn(u32) -> Option<(usize, bool)>) -> Option<Answer> {
    let arp = frame.get(HEADER_LEN..)?.first_chunk::<ARP_LEN>()?;
    let wanted = u32::from_be_bytes([arp[24], arp[25], arp[26], arp[27]]);
    // A request of IPv4 addresses over Ethernet.
    if arp[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let (target, _) = is_ours(wanted)?;
    let mac = mac_of(wanted);
    let mut bytes = ArrayVec::new();
    let parts: [&[u8]; 8] = [
        &arp[8..14],
        &mac,
        &ethertype::ARP.to_be_bytes(),
        &[0, 1, 8, 0, 6, 4, 0, 2],
        &mac,
        &arp[24..28],
        &arp[8..18],
        &[0; 18],
    ];
    parts.iter().try_for_each(|part| bytes.try_extend_from_slice(part)).ok()?;
    Some(Answer { bytes, target, health_check: false })
}

/// Ethernet and IPv4 headers of an answer with so many bytes of payload.
fn headers(frame: &[u8], to: &Ipv4Header, protocol: u8, payload: usize) -> Option<ArrayVec<u8, LONGEST>> {
    let mut bytes = ArrayVec::new();
    let total_len = u16::try_from(ipv4::HEADER_LEN + payload).ok()?;
    let parts: [&[u8]; 8] = [
        frame.get(6..12)?,
        frame.get(..6)?,
        &ethertype::IPV4.to_be_bytes(),
        &[0x45, 0],
        &total_len.to_be_bytes(),
        &[0, 0, 0x40, 0, 64, protocol, 0, 0],
        &to.dst.to_be_bytes(),
        &to.src.to_be_bytes(),
    ];
    parts.iter().try_for_each(|part| bytes.try_extend_from_slice(part)).ok()?;
    let sum = Sum::ZERO.bytes(&bytes[HEADER_LEN..]).checksum();
    bytes[HEADER_LEN + 10..HEADER_LEN + 12].copy_from_slice(&sum.to_be_bytes());
    Some(bytes)
}

fn answer_ping(frame: &[u8], target: usize, header: &Ipv4Header, icmp: &[u8]) -> Option<Answer> {
    if icmp.len() < 8 || icmp[..2] != [8, 0] {
        return None;
    }
    let mut bytes = headers(frame, header, protocol::ICMP, icmp.len())?;
    let at = bytes.len();
    bytes.try_extend_from_slice(icmp).ok()?;
    bytes[at] = 0;
    bytes[at + 2..at + 4].fill(0);
    let sum = Sum::ZERO.bytes(&bytes[at..]).checksum();
    bytes[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    Some(Answer { bytes, target, health_check: false })
}

fn answer_tcp(frame: &[u8], target: usize, header: &Ipv4Header, segment: &[u8]) -> Option<Answer> {
    let asked = TcpHeader::parse(segment).ok()?;
    let payload = segment.len() - usize::from(asked.data_offset);
    let has = |flag| asked.flags.contains(flag);
    let (seq, flags, said): (u32, TcpFlags, &[u8]) = if has(TcpFlags::RST) {
        return None;
    } else if has(TcpFlags::SYN) {
        (FIRST_SEQ, TcpFlags::SYN | TcpFlags::ACK, &[])
    } else if payload > 0 {
        (asked.ack.0, TcpFlags::FIN | TcpFlags::ACK | TcpFlags::PSH, HTTP_ANSWER)
    } else if has(TcpFlags::FIN) && asked.ack.0 == FIRST_SEQ.wrapping_add(1) {
        // Connected, and that was all: we have sent nothing since our SYN, so we have no FIN out yet.
        (asked.ack.0, TcpFlags::FIN | TcpFlags::ACK, &[])
    } else if has(TcpFlags::FIN) {
        (asked.ack.0, TcpFlags::ACK, &[])
    } else {
        return None;
    };
    let taken = payload + usize::from(has(TcpFlags::SYN)) + usize::from(has(TcpFlags::FIN));
    let ack = asked.seq.plus(u32::try_from(taken).ok()?).0;
    let mut bytes = headers(frame, header, protocol::TCP, tcp::HEADER_LEN + said.len())?;
    let at = bytes.len();
    let parts: [&[u8]; 7] = [
        &asked.dst_port.to_be_bytes(),
        &asked.src_port.to_be_bytes(),
        &seq.to_be_bytes(),
        &ack.to_be_bytes(),
        &[0x50, flags.bits(), 0xfa, 0xf0],
        &[0; 4],
        said,
    ];
    parts.iter().try_for_each(|part| bytes.try_extend_from_slice(part)).ok()?;
    let len = u16::try_from(bytes.len() - at).ok()?;
    let sum = checksum::pseudo_v4(header.dst, header.src, protocol::TCP, len).bytes(&bytes[at..]).checksum();
    bytes[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
    Some(Answer { bytes, target, health_check: has(TcpFlags::SYN) })
}

/// The address as people write it.
pub fn mac_text(address: Ipv4Addr) -> String {
    mac_of(address.to_bits()).map(|byte| format!("{byte:02x}")).join(":")
}

/// Whether a frame is what a router's kernel says to the neighbours on a link: ARP, and IPv6 to groups. The load has neither.
pub fn is_for_the_link(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x06]) => true,
        Some([0x86, 0xdd]) => frame.get(HEADER_LEN + 24) == Some(&0xff),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY: u32 = 0xc633_6401;
    const TARGET: u32 = 0xc633_640b;

    fn ours(address: u32) -> Option<(usize, bool)> {
        match address {
            TARGET => Some((0, false)),
            0xc633_640c => Some((1, true)),
            _ => None,
        }
    }

    fn tcp_frame(to: u32, flags: TcpFlags, (seq, ack): (u32, u32), payload: &[u8]) -> Vec<u8> {
        let asked = Ipv4Header {
            header_len: 20,
            total_len: 0,
            fragment: Fragment::Whole,
            ttl: 64,
            protocol: protocol::TCP,
            src: to,
            dst: GATEWAY,
        };
        let link = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2];
        let mut frame = headers(&link, &asked, protocol::TCP, 20 + payload.len()).expect("fits").to_vec();
        frame.extend([0x9c, 0x40, 0, 80]);
        frame.extend(seq.to_be_bytes());
        frame.extend(ack.to_be_bytes());
        frame.extend([0x50, flags.bits(), 1, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        frame
    }

    fn answered(frame: &[u8]) -> Option<(TcpHeader, Vec<u8>)> {
        let answer = answer(frame, ours)?;
        let ip = &answer.bytes()[14..];
        assert!(ipv4::header_checksum_ok(ip));
        let header = Ipv4Header::parse(ip).expect("IPv4");
        assert_eq!((header.src, header.dst), (TARGET, GATEWAY));
        let segment = &ip[20..];
        let len = u16::try_from(segment.len()).expect("short");
        assert!(checksum::pseudo_v4(TARGET, GATEWAY, protocol::TCP, len).bytes(segment).is_right());
        Some((TcpHeader::parse(segment).expect("TCP"), segment[20..].to_vec()))
    }

    #[test]
    fn a_connection_is_accepted_and_closed_again() {
        let (syn_ack, _) = answered(&tcp_frame(TARGET, TcpFlags::SYN, (7, 0), &[])).expect("accepted");
        assert_eq!((syn_ack.ack.0, syn_ack.flags), (8, TcpFlags::SYN | TcpFlags::ACK));
        let next = syn_ack.seq.0 + 1;
        assert!(answered(&tcp_frame(TARGET, TcpFlags::ACK, (8, next), &[])).is_none());
        let fin = TcpFlags::FIN | TcpFlags::ACK;
        let (closed, _) = answered(&tcp_frame(TARGET, fin, (8, next), &[])).expect("closed");
        assert_eq!((closed.seq.0, closed.ack.0, closed.flags), (next, 9, fin));
        assert!(answered(&tcp_frame(TARGET, TcpFlags::RST, (8, next), &[])).is_none());
    }

    #[test]
    fn http_is_answered_with_200_and_ended() {
        let request = b"GET / HTTP/1.1\r\n\r\n";
        let next = FIRST_SEQ + 1;
        let (said, body) = answered(&tcp_frame(TARGET, TcpFlags::ACK, (8, next), request)).expect("answered");
        assert!(body.starts_with(b"HTTP/1.1 200 "));
        assert_eq!((said.seq.0, said.ack.0), (next, 26));
        assert!(said.flags.contains(TcpFlags::FIN));
        let behind = next + u32::try_from(body.len()).expect("short") + 1;
        let fin = TcpFlags::FIN | TcpFlags::ACK;
        let (last, _) = answered(&tcp_frame(TARGET, fin, (26, behind), &[])).expect("acknowledged");
        assert_eq!((last.seq.0, last.ack.0, last.flags), (behind, 27, TcpFlags::ACK), "one FIN each");
    }

    #[test]
    fn a_dead_target_and_an_address_of_nobodys_are_silent() {
        for address in [0xc633_640c, 0xc633_640d] {
            assert!(answer(&tcp_frame(address, TcpFlags::SYN, (7, 0), &[]), ours).is_none());
        }
    }

    #[test]
    fn arp_is_answered_with_the_targets_own_address() {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
        frame.extend(GATEWAY.to_be_bytes());
        frame.extend([0; 6]);
        frame.extend(TARGET.to_be_bytes());
        let said = answer(&frame, ours).expect("ours");
        let said = said.bytes();
        assert_eq!(said.len(), 60);
        assert_eq!((&said[..6], &said[6..12]), (&[2, 0, 0, 0, 0, 1][..], &mac_of(TARGET)[..]));
        assert_eq!(said[20..22], [0, 2]);
        assert_eq!((&said[22..28], &said[28..32]), (&mac_of(TARGET)[..], &TARGET.to_be_bytes()[..]));
        assert_eq!((&said[32..38], &said[38..42]), (&frame[6..12], &GATEWAY.to_be_bytes()[..]));
        frame[41] ^= 4;
        assert!(answer(&frame, ours).is_none());
    }
}
