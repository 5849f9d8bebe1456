//! Answers that an attacker on the target side makes up: GENEVE to the gateway, like that of an appliance but for
//! what is wrong with it.

use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::{self, ethertype};
use flowgate::wire::geneve::outer::OUTER_LEN;
use flowgate::wire::tcp::TcpFlags;

use super::{Kind, mark};
use crate::frames::{Frames, Segment};
use crate::names::{Name, Way};

// Where in a frame things are.
const IP: usize = ethernet::HEADER_LEN;
const UDP: usize = IP + 20;
const GENEVE: usize = UDP + 8;
const PROTOCOL: usize = GENEVE + 2;
const ENDPOINT_ID: usize = GENEVE + 12;
const COOKIE_OPTION: usize = GENEVE + 32;
const COOKIE: usize = GENEVE + 36;

/// 203.0.113.66 (RFC 5737): no target's.
const STRANGER: u32 = 0xcb00_7142;

/// Ways to make an answer up.
const WAYS: u64 = 10;

/// What an attacker knows of a flow at most: its name, its cookie, and its target's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub name: Name,
    pub cookie: u32,
    pub target: u32,
}

/// A made-up answer of a kind, the `turn`th: `front` are the outer headers of a true one, `other` is a packet of no flow,
/// `random` a random number, `another` the address of another target than the flow's.
pub fn forge(
    kind: Kind,
    (turn, random): (u64, u64),
    front: &[u8; OUTER_LEN],
    known: Known,
    (other, another): (&[u8], u32),
    frames: &Frames,
) -> Vec<u8> {
    let mut own = vec![0; frames.control_len(known.name, Way::Up)];
    let segment = Segment { flags: TcpFlags::ACK, ..Segment::default() };
    frames.write_control(&mut own, known.name, Way::Up, segment);
    let own = &mut own[ethernet::HEADER_LEN..];
    let (own, _padding) = own.split_at_mut(if own[0] >> 4 == 6 { 60 } else { 40 });
    mark(own);
    let mut frame = front.to_vec();
    let is_other = kind == Kind::Cookies || turn.is_multiple_of(WAYS);
    let inside = if is_other { other } else { &*own };
    let protocol = if inside[0] >> 4 == 6 { ethertype::IPV6 } else { ethertype::IPV4 };
    frame[PROTOCOL..PROTOCOL + 2].copy_from_slice(&protocol.to_be_bytes());
    frame[IP + 12..IP + 16].copy_from_slice(&known.target.to_be_bytes());
    frame[COOKIE..].copy_from_slice(&known.cookie.to_be_bytes());
    if kind == Kind::Cookies {
        let [a, b, c, d, ..] = random.to_be_bytes();
        frame[COOKIE..].copy_from_slice(&[a, b, c, d]);
        frame.extend_from_slice(other);
        return finished(frame);
    }
    match turn % WAYS {
        0 => frame.extend_from_slice(other),
        // From another target.
        1 => {
            frame.extend_from_slice(own);
            frame[IP + 12..IP + 16].copy_from_slice(&another.to_be_bytes());
        }
        2 => {
            frame.extend_from_slice(own);
            frame[IP + 12..IP + 16].copy_from_slice(&STRANGER.to_be_bytes());
        }
        // Of another endpoint.
        3 => {
            frame.extend_from_slice(own);
            frame[ENDPOINT_ID] ^= 0x80;
        }
        // Without a cookie: two words less of options.
        4 => {
            frame.truncate(COOKIE_OPTION);
            frame[GENEVE] -= 2;
            frame.extend_from_slice(own);
        }
        // Version 1.
        5 => {
            frame.extend_from_slice(own);
            frame[GENEVE] |= 0x40;
        }
        // A critical option of which nobody has heard.
        6 => {
            frame.extend_from_slice(own);
            frame[COOKIE_OPTION + 2] = 0x80 | 0x55;
        }
        // An option that is longer than all of them.
        7 => {
            frame.extend_from_slice(own);
            frame[COOKIE_OPTION + 3] = 0x1f;
        }
        // The packet inside is cut.
        8 => frame.extend_from_slice(&own[..30]),
        _ => {
            frame.extend_from_slice(own);
            let mut frame = finished(frame);
            frame[IP + 11] ^= 1;
            return frame;
        }
    }
    finished(frame)
}

/// Writes the outer lengths and the checksum.
fn finished(mut frame: Vec<u8>) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "a short frame")]
    let (ip_len, udp_len) = ((frame.len() - IP) as u16, (frame.len() - UDP) as u16);
    frame[IP + 2..IP + 4].copy_from_slice(&ip_len.to_be_bytes());
    frame[UDP + 4..UDP + 6].copy_from_slice(&udp_len.to_be_bytes());
    frame[UDP + 6..UDP + 8].fill(0);
    frame[IP + 10..IP + 12].fill(0);
    let sum = Sum::ZERO.bytes(&frame[IP..UDP]).checksum();
    frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use flowgate::wire::ethernet::MacAddr;
    use flowgate::wire::geneve;
    use flowgate::wire::geneve::outer::{self, OuterFields, OuterTemplate};
    use flowgate::wire::packet::Packet;

    use super::*;
    use crate::names::Naming;

    const TARGET: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);

    /// What a gateway reads of a frame: from whom, the cookie, whose packet is inside; or what is wrong.
    fn read(frame: &[u8], frames: &Frames) -> Result<(u32, u32, Option<Name>), &'static str> {
        let outer = outer::parse(&frame[IP..]).map_err(|_| "outer")?;
        let payload = outer.payload(&frame[IP..]);
        let geneve = geneve::parse(payload).map_err(|_| "geneve")?;
        let inner = &payload[usize::from(geneve.inner_offset)..];
        Packet::parse(inner).map_err(|_| "inner")?;
        Ok((outer.src_ip, geneve.cookie, frames.read_packet(inner).ok().map(|seen| seen.name)))
    }

    #[test]
    fn each_way_to_make_an_answer_up_has_its_one_fault() {
        for share in [0.0, 1.0] {
            each_way(&Frames::new(Naming::new(1, share), &[64]));
        }
    }

    fn each_way(frames: &Frames) {
        let mut front = [0; OUTER_LEN];
        let fields = OuterFields {
            inner_len: 40,
            protocol: 0x0800,
            source_port: 50_000,
            endpoint_id: 0xa1,
            attachment_id: 2,
            cookie: 5,
        };
        OuterTemplate::new(MacAddr([2; 6]), MacAddr([4; 6]), TARGET, TUNNEL).write(&mut front, &fields);
        let name = Name { slot: 3, epoch: 1 };
        let known = Known { name, cookie: 77, target: TARGET.to_bits() };
        let other = crate::attack::shots::Shots::new(1, Arc::default()).of_no_flow(frames);
        let made = |kind, turn| {
            forge(kind, (turn, 0xabcd_ef01 << 32), &front, known, (&other, OTHER.to_bits()), frames)
        };
        let seen: Vec<_> = (0..WAYS).map(|turn| read(&made(Kind::ForgedAnswers, turn), frames)).collect();
        let target = TARGET.to_bits();
        assert_eq!(seen[0], Ok((target, 77, None)));
        assert_eq!(seen[1], Ok((OTHER.to_bits(), 77, Some(name))));
        assert_eq!(seen[2], Ok((STRANGER, 77, Some(name))));
        assert_eq!(seen[3], Ok((target, 77, Some(name))));
        assert_eq!(
            made(Kind::ForgedAnswers, 3)[ENDPOINT_ID..ENDPOINT_ID + 8],
            (0xa1_u64 | 1 << 63).to_be_bytes()
        );
        assert_eq!(seen[4..8], [Err("geneve"); 4]);
        assert_eq!(seen[8..], [Err("inner"), Err("outer")]);
        assert_eq!(read(&made(Kind::Cookies, 0), frames), Ok((target, 0xabcd_ef01, None)));
    }
}
