//! Answers that an attacker on the target side makes up: GENEVE to the gateway, like that of an appliance but for
//! what is wrong with it.

use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet;
use flowgate::wire::geneve::outer::OUTER_LEN;
use flowgate::wire::tcp::TcpFlags;

use super::{Kind, mark};
use crate::frames::{Frames, Segment};
use crate::names::{Name, Way};

// Where in a frame things are.
const IP: usize = ethernet::HEADER_LEN;
const UDP: usize = IP + 20;
const GENEVE: usize = UDP + 8;
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
    let own = &mut own[ethernet::HEADER_LEN..ethernet::HEADER_LEN + 40];
    mark(own);
    let mut frame = front.to_vec();
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
