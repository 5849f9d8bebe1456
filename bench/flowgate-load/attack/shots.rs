//! The packets of attacks from the clients' side, one after the other.

use std::sync::Arc;

use flowgate::flow::{FlowKey, HashSeed};
use flowgate::id::EndpointId;
use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet;
use flowgate::wire::ipv4;
use flowgate::wire::packet::protocol;
use flowgate::wire::tcp::TcpFlags;

use super::mould::{End, MORE, Mould, WHOLE};
use super::{ATTACKER_BITS, ATTACKERS, Kind, mark};
use crate::flows::Flows;
use crate::frames::{Frames, Segment};
use crate::names::{Name, SERVER_BITS, SERVER_PORT, SERVERS, Way, mixed};

/// Bytes of the IP packets that are too large: more than the target side of `--write-config` takes, of 1,600 bytes with
/// 68 of them for the tunnel, and not more than a buffer of 2,048 holds.
const TOO_LARGE: usize = 1560;
/// Bytes of a fragment's payload.
const PIECE: usize = 24;
/// Bytes of an ICMP error that quotes an IPv4 header and eight bytes more.
const QUOTE_LEN: usize = ipv4::HEADER_LEN + 8 + ipv4::HEADER_LEN + 8;

/// A packet that is to be written.
#[derive(Clone, Copy, Debug)]
pub enum Shot {
    /// From the mould of this number.
    Moulded { mould: usize, from: End, to: End },
    /// A segment of a live flow.
    Segment { name: Name, segment: Segment },
    /// An ICMP error about a packet that a live flow's server has sent.
    Quote { name: Name, from: u32, kind: [u8; 2] },
}

/// The numbers of the moulds.
const SYN: usize = 0;
const ACK: usize = 1;
const DATAGRAM: usize = 2;
const LARGE: usize = 3;
const FIRST: usize = 4;
const LATER: usize = 5;
const TINY: usize = 6;
const IN_HEADER: usize = 7;
const OVER_THE_END: usize = 8;

/// Makes packets.
pub struct Shots {
    moulds: Vec<Mould>,
    /// Sources and ports of flows that crowd one place under a seed of the attacker's.
    crowd: Arc<[End]>,
    random: u64,
    count: u64,
    last: (End, End),
}

impl Shots {
    pub fn new(seed: u64, crowd: Arc<[End]>) -> Shots {
        let tcp = |flags: TcpFlags| {
            let mut header = [0; 20];
            header[4..8].copy_from_slice(&0x1234_5678_u32.to_be_bytes());
            header[12] = 0x50;
            header[13] = flags.bits();
            header[14..16].copy_from_slice(&0xfaf0_u16.to_be_bytes());
            header
        };
        let udp = |len: usize| {
            let mut datagram = vec![0x61; len];
            #[expect(clippy::cast_possible_truncation, reason = "short")]
            datagram[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            datagram[6..8].fill(0);
            datagram
        };
        let syn = tcp(TcpFlags::SYN);
        let moulds = vec![
            Mould::new(protocol::TCP, WHOLE, &syn, Some(16)),
            Mould::new(protocol::TCP, WHOLE, &tcp(TcpFlags::ACK), Some(16)),
            Mould::new(protocol::UDP, WHOLE, &udp(18), Some(6)),
            Mould::new(protocol::UDP, WHOLE, &udp(TOO_LARGE - ipv4::HEADER_LEN), Some(6)),
            Mould::new(protocol::UDP, MORE, &udp(PIECE), None),
            Mould::new(protocol::UDP, MORE | 3, &[0x62; PIECE], None),
            Mould::new(protocol::TCP, MORE, &syn[..8], None),
            Mould::new(protocol::TCP, 1, &[0x63; PIECE], None),
            Mould::new(protocol::UDP, 0x1fff, &[0x64; PIECE], None),
        ];
        Shots { moulds, crowd, random: mixed(seed), count: 0, last: ((0, 0), (0, 0)) }
    }

    /// The next packet of an attack; `None` if it has none now.
    pub fn next(&mut self, kind: Kind, flows: &Flows, frames: &Frames) -> Option<Shot> {
        self.random = mixed(self.random);
        let (from, to) = ends(self.random);
        let turn = self.count;
        self.count += 1;
        let moulded = |mould| Some(Shot::Moulded { mould, from, to });
        match kind {
            Kind::SynFlood => moulded(SYN),
            Kind::HalfHandshakes if turn.is_multiple_of(2) => {
                self.last = (from, to);
                moulded(SYN)
            }
            Kind::HalfHandshakes => {
                let (from, to) = self.last;
                Some(Shot::Moulded { mould: ACK, from, to })
            }
            Kind::UdpFlood => moulded(DATAGRAM),
            Kind::HashFlood => {
                let at = usize::try_from(turn).unwrap_or(0).checked_rem(self.crowd.len())?;
                Some(Shot::Moulded { mould: DATAGRAM, from: self.crowd[at], to: CROWDED })
            }
            Kind::NoFlow => moulded(ACK),
            Kind::Oversized => moulded(LARGE),
            Kind::FirstFragments => moulded(FIRST),
            Kind::LaterFragments => moulded(LATER),
            Kind::BrokenFragments => moulded(match turn % 3 {
                0 => TINY,
                1 => IN_HEADER,
                _ => OVER_THE_END,
            }),
            Kind::ForgedEnds => {
                let name = self.live(flows, frames)?;
                let flags =
                    if turn.is_multiple_of(2) { TcpFlags::RST } else { TcpFlags::FIN | TcpFlags::ACK };
                let [a, b, c, d, ..] = self.random.to_be_bytes();
                let seq = u32::from_be_bytes([a, b, c, d]);
                Some(Shot::Segment { name, segment: Segment { seq, ack: !seq, flags, stamp: 0 } })
            }
            Kind::ForgedErrors => {
                let name = self.live(flows, frames)?;
                // Unreachable, the host or the port; time exceeded.
                let kind = [[3, 1], [3, 3], [11, 0]][usize::try_from(turn % 3).unwrap_or(0)];
                Some(Shot::Quote { name, from: from.0, kind })
            }
            Kind::Cookies | Kind::ForgedAnswers | Kind::SlowSocket | Kind::SlowElbv2 | Kind::SlowMonitor => {
                None
            }
        }
    }

    /// A flow that is there and has IPv4.
    fn live(&mut self, flows: &Flows, frames: &Frames) -> Option<Name> {
        let count = flows.halves.len();
        (0..16).find_map(|_| {
            self.random = mixed(self.random);
            let slot = u32::try_from(usize::try_from(self.random >> 1).ok()?.checked_rem(count)?).ok()?;
            (!frames.is_v6(slot)).then(|| flows.name(slot))
        })
    }

    /// Bytes in the buffer of a packet.
    pub fn len(&self, shot: Shot, frames: &Frames) -> usize {
        match shot {
            Shot::Moulded { mould, .. } => self.moulds[mould].len(),
            Shot::Segment { name, .. } => frames.control_len(name, Way::Up),
            Shot::Quote { .. } => ethernet::HEADER_LEN + QUOTE_LEN,
        }
    }

    /// Writes a packet into `out`, which has its length.
    pub fn write(&self, shot: Shot, frames: &Frames, out: &mut [u8]) {
        match shot {
            Shot::Moulded { mould, from, to } => self.moulds[mould].write(out, from, to),
            Shot::Segment { name, segment } => {
                frames.write_control(out, name, Way::Up, segment);
                mark(&mut out[ethernet::HEADER_LEN..]);
            }
            Shot::Quote { name, from, kind } => write_quote(out, (name, from, kind), frames),
        }
    }

    /// The bytes of a segment to a tuple that no flow has, from the IP header on.
    pub fn of_no_flow(&mut self) -> Vec<u8> {
        self.random = mixed(self.random);
        let (from, to) = ends(self.random);
        let mould = &self.moulds[ACK];
        let mut frame = vec![0; mould.len()];
        mould.write(&mut frame, from, to);
        frame.truncate(ethernet::HEADER_LEN + 40);
        frame.split_off(ethernet::HEADER_LEN)
    }
}

/// Source and destination by a random number.
fn ends(random: u64) -> (End, End) {
    let [a, b, c, d, e, f, g, _] = random.to_be_bytes();
    let from = ATTACKERS | u32::from_be_bytes([0, a, b, c]) & ((1 << ATTACKER_BITS) - 1);
    let to = SERVERS | u32::from_be_bytes([0, 0, f, g]) & ((1 << SERVER_BITS) - 1);
    ((from, 1024 | u16::from_be_bytes([d, e])), (to, SERVER_PORT))
}

/// Where the datagrams of a hash flood go.
const CROWDED: End = (SERVERS | 1, SERVER_PORT);

/// `count` sources whose flows to [`CROWDED`] would all have both of their places within a thirtieth of a flow table, under a
/// seed that the attacker has drawn: a place is the hash's lower half, scaled, and the other one's distance from its mirror
/// image a product of the tag above that (`src/flow/index.rs`).
pub fn crowd(count: u32) -> std::io::Result<Arc<[End]>> {
    let count = count.next_power_of_two().clamp(64, 8192);
    let seed = HashSeed::from_os()?;
    let mut crowd = Vec::new();
    let mut random = 1;
    while crowd.len() < count as usize {
        random = mixed(random);
        let (from, _) = ends(random);
        let (client, server) = (from.0.into(), CROWDED.0.into());
        let (key, _) = FlowKey::new(EndpointId(0), 4, protocol::UDP, client, server, from.1, CROWDED.1);
        let [_, _, t, u, a, b, c, d] = seed.flow(&key).to_be_bytes();
        let place = u32::from_be_bytes([a, b, c, d]);
        let mirror = (u32::from_be_bytes([0, 0, t, u]) | 1).wrapping_mul(0x9e37_79b9);
        if place >> (u32::BITS - 6) == 0 && mirror >> (u32::BITS - 5) == 0 {
            crowd.push(from);
        }
    }
    Ok(crowd.into())
}

/// An ICMP error from `from` to a live flow's server, about what that server has sent to its client.
fn write_quote(out: &mut [u8], (name, from, [kind, code]): (Name, u32, [u8; 2]), frames: &Frames) {
    // The quoted packet is the server's, written whole and cut.
    let mut quoted = vec![0; frames.control_len(name, Way::Down)];
    frames.write_control(
        &mut quoted,
        name,
        Way::Down,
        Segment { flags: TcpFlags::ACK, ..Segment::default() },
    );
    let quoted = &quoted[ethernet::HEADER_LEN..ethernet::HEADER_LEN + ipv4::HEADER_LEN + 8];
    out[..6].copy_from_slice(&crate::frames::SERVER_MAC);
    out[6..12].copy_from_slice(&crate::frames::CLIENT_MAC);
    out[12..14].copy_from_slice(&[8, 0]);
    let (ip, icmp) = out[ethernet::HEADER_LEN..].split_at_mut(ipv4::HEADER_LEN);
    #[expect(clippy::cast_possible_truncation, reason = "56")]
    let total = QUOTE_LEN as u16;
    ip[..2].copy_from_slice(&[0x45, 0]);
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[4..12].copy_from_slice(&[0, 0, 0, 0, 64, protocol::ICMP, 0, 0]);
    ip[12..16].copy_from_slice(&from.to_be_bytes());
    // To the sender of what it quotes.
    ip[16..20].copy_from_slice(&quoted[12..16]);
    let sum = Sum::ZERO.bytes(ip).checksum();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    mark(ip);
    icmp[..8].copy_from_slice(&[kind, code, 0, 0, 0, 0, 0, 0]);
    icmp[8..].copy_from_slice(quoted);
    let sum = Sum::ZERO.bytes(icmp).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use flowgate::wire::checksum;

    use super::super::{Side, Trace, trace};
    use super::*;
    use crate::names::Naming;
    use clap::ValueEnum;

    fn frames() -> Frames {
        Frames::new(Naming::new(7, 0.3), &[64])
    }

    fn written(kind: Kind, count: usize) -> Vec<Vec<u8>> {
        let (frames, flows) = (frames(), Flows::new(100));
        let mut shots = Shots::new(3, crowd(64).expect("random numbers"));
        let one = |shots: &mut Shots| {
            let shot = shots.next(kind, &flows, &frames).expect("there are flows");
            let mut frame = vec![0; shots.len(shot, &frames)];
            shots.write(shot, &frames, &mut frame);
            frame
        };
        (0..count).map(|_| one(&mut shots)).collect()
    }

    #[test]
    fn every_packet_is_marked_and_its_checksums_are_right() {
        for &kind in Kind::value_variants().iter().filter(|kind| kind.side() == Side::Clients) {
            for frame in written(kind, 30) {
                let ip = &frame[ethernet::HEADER_LEN..];
                assert_eq!(trace(ip), Some(Trace::Attack), "{kind:?}");
                assert!(ipv4::header_checksum_ok(ip), "{kind:?}");
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                let is_whole = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff == 0;
                let payload = &ip[ipv4::HEADER_LEN..total];
                let address = |at: usize| u32::from_be_bytes([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
                #[expect(clippy::cast_possible_truncation, reason = "a frame's length")]
                let len = payload.len() as u16;
                let pseudo = checksum::pseudo_v4(address(12), address(16), ip[9], len);
                let sum = if ip[9] == protocol::ICMP { Sum::ZERO } else { pseudo };
                assert!(!is_whole || sum.bytes(payload).is_right(), "{kind:?}");
            }
        }
    }

    #[test]
    fn what_is_to_be_of_flows_of_its_own_is_and_what_is_forged_is_of_a_live_one() {
        let tuple = |frame: &[u8]| (frame[26..34].to_vec(), frame[34..38].to_vec());
        for (kind, distinct) in [(Kind::SynFlood, 500), (Kind::UdpFlood, 500), (Kind::HalfHandshakes, 250)] {
            let tuples: std::collections::HashSet<_> =
                written(kind, 500).iter().map(|frame| tuple(frame)).collect();
            assert_eq!(tuples.len(), distinct, "{kind:?}");
        }
        let frames = frames();
        for frame in written(Kind::ForgedEnds, 50) {
            let seen = frames.read(&frame).expect("of a flow of ours");
            assert!(seen.name.slot < 100 && seen.flags.intersects(TcpFlags::RST | TcpFlags::FIN));
        }
    }

    #[test]
    fn a_crowd_has_both_of_its_places_in_a_small_part_of_the_table_under_its_own_seed_alone() {
        let crowd = crowd(100).expect("random numbers");
        assert_eq!(crowd.len(), 128);
        let distinct: std::collections::HashSet<_> = crowd.iter().collect();
        assert_eq!(distinct.len(), 128);
        let other = HashSeed::from_secret(b"another seed, of sixteen bytes or more");
        let top = |end: &End| {
            let key = FlowKey::new(EndpointId(0), 4, 17, end.0.into(), CROWDED.0.into(), end.1, CROWDED.1).0;
            other.flow(&key) >> 26 & 63
        };
        let places: std::collections::HashSet<_> = crowd.iter().map(top).collect();
        assert!(places.len() > 30, "spread over 64 places: {}", places.len());
    }
}
