//! The packets of attacks from the clients' side, one after the other.

use std::sync::Arc;

use flowgate::flow::{FlowKey, HashSeed};
use flowgate::id::EndpointId;
use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::{self, ethertype};
use flowgate::wire::packet::protocol;
use flowgate::wire::tcp::{self, TcpFlags};
use flowgate::wire::{ipv4, ipv6};

use super::mould::{End, MORE, Mould, WHOLE};
use super::{ATTACKER_BITS, ATTACKERS, ATTACKERS_V6, Kind, mark};
use crate::flows::Flows;
use crate::frames::{Frames, Segment};
use crate::names::{Name, SERVER_BITS, SERVER_PORT, SERVERS, SERVERS_V6, Way, mixed};

/// Bytes of the IP packets that are too large: more than the target side of `--write-config` takes, of 1,600 bytes with
/// 68 of them for the tunnel, and not more than a buffer of 2,048 holds.
const TOO_LARGE: usize = 1560;
/// Bytes of a fragment's payload.
const PIECE: usize = 24;
/// Bytes of an ICMP error's own header, and of what it quotes behind an IP header.
const AROUND: usize = 8;

fn ip_header_len(is_v6: bool) -> usize {
    if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN }
}

/// Bytes of an ICMP error that quotes an IP header and eight bytes more.
fn quote_len(is_v6: bool) -> usize {
    2 * (ip_header_len(is_v6) + AROUND)
}

/// A packet that is to be written.
#[derive(Clone, Copy, Debug)]
pub enum Shot {
    /// From the mould of this number, of IPv6 or IPv4.
    Moulded { is_v6: bool, mould: usize, from: End, to: End },
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

/// Sources and ports of flows that crowd one place under a seed of the attacker's.
#[derive(Clone, Debug, Default)]
pub struct Crowd {
    is_v6: bool,
    ends: Vec<End>,
}

/// Makes packets, of IPv6 as often as the load's flows have it.
pub struct Shots {
    /// IPv4's and IPv6's.
    moulds: [Vec<Mould>; 2],
    crowd: Arc<Crowd>,
    random: u64,
    count: u64,
    last: (bool, End, End),
}

impl Shots {
    pub fn new(seed: u64, crowd: Arc<Crowd>) -> Shots {
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
        let moulds = [false, true].map(|is_v6| {
            let mould = |protocol, fragment, payload: &[u8], checksum| {
                Mould::new(is_v6, protocol, fragment, payload, checksum)
            };
            vec![
                mould(protocol::TCP, WHOLE, &syn, Some(16)),
                mould(protocol::TCP, WHOLE, &tcp(TcpFlags::ACK), Some(16)),
                mould(protocol::UDP, WHOLE, &udp(18), Some(6)),
                mould(protocol::UDP, WHOLE, &udp(TOO_LARGE - ip_header_len(is_v6)), Some(6)),
                mould(protocol::UDP, MORE, &udp(PIECE), None),
                mould(protocol::UDP, MORE | 3, &[0x62; PIECE], None),
                mould(protocol::TCP, MORE, &syn[..8], None),
                mould(protocol::TCP, 1, &[0x63; PIECE], None),
                mould(protocol::UDP, 0x1fff, &[0x64; PIECE], None),
            ]
        });
        Shots { moulds, crowd, random: mixed(seed), count: 0, last: (false, (0, 0), (0, 0)) }
    }

    /// The next packet of an attack; `None` if it has none now.
    pub fn next(&mut self, kind: Kind, flows: &Flows, frames: &Frames) -> Option<Shot> {
        self.random = mixed(self.random);
        let (from, to) = ends(self.random);
        let is_v6 = is_v6(self.random, frames);
        let turn = self.count;
        self.count += 1;
        let moulded = |mould| Some(Shot::Moulded { is_v6, mould, from, to });
        match kind {
            Kind::SynFlood => moulded(SYN),
            Kind::HalfHandshakes if turn.is_multiple_of(2) => {
                self.last = (is_v6, from, to);
                moulded(SYN)
            }
            Kind::HalfHandshakes => {
                let (is_v6, from, to) = self.last;
                Some(Shot::Moulded { is_v6, mould: ACK, from, to })
            }
            Kind::UdpFlood => moulded(DATAGRAM),
            Kind::HashFlood => {
                let Crowd { is_v6, ends } = &*self.crowd;
                let at = usize::try_from(turn).unwrap_or(0).checked_rem(ends.len())?;
                Some(Shot::Moulded { is_v6: *is_v6, mould: DATAGRAM, from: ends[at], to: CROWDED })
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
                let name = self.live(flows)?;
                let flags =
                    if turn.is_multiple_of(2) { TcpFlags::RST } else { TcpFlags::FIN | TcpFlags::ACK };
                let [a, b, c, d, ..] = self.random.to_be_bytes();
                let seq = u32::from_be_bytes([a, b, c, d]);
                Some(Shot::Segment { name, segment: Segment { seq, ack: !seq, flags, stamp: 0 } })
            }
            Kind::ForgedErrors => {
                let name = self.live(flows)?;
                // Unreachable, the host or the port; time exceeded.
                let kinds = if frames.is_v6(name.slot) {
                    [[1, 3], [1, 4], [3, 0]]
                } else {
                    [[3, 1], [3, 3], [11, 0]]
                };
                let kind = kinds[usize::try_from(turn % 3).unwrap_or(0)];
                Some(Shot::Quote { name, from: from.0, kind })
            }
            Kind::Cookies | Kind::ForgedAnswers | Kind::SlowSocket | Kind::SlowElbv2 | Kind::SlowMonitor => {
                None
            }
        }
    }

    /// A flow that is there.
    fn live(&mut self, flows: &Flows) -> Option<Name> {
        self.random = mixed(self.random);
        let slot = usize::try_from(self.random >> 1).ok()?.checked_rem(flows.halves.len())?;
        Some(flows.name(u32::try_from(slot).ok()?))
    }

    /// Bytes in the buffer of a packet.
    pub fn len(&self, shot: Shot, frames: &Frames) -> usize {
        match shot {
            Shot::Moulded { is_v6, mould, .. } => self.moulds[usize::from(is_v6)][mould].len(),
            Shot::Segment { name, .. } => frames.control_len(name, Way::Up),
            Shot::Quote { name, .. } => ethernet::HEADER_LEN + quote_len(frames.is_v6(name.slot)),
        }
    }

    /// Writes a packet into `out`, which has its length.
    pub fn write(&self, shot: Shot, frames: &Frames, out: &mut [u8]) {
        match shot {
            Shot::Moulded { is_v6, mould, from, to } => {
                self.moulds[usize::from(is_v6)][mould].write(out, from, to);
            }
            Shot::Segment { name, segment } => {
                frames.write_control(out, name, Way::Up, segment);
                mark(&mut out[ethernet::HEADER_LEN..]);
            }
            Shot::Quote { name, from, kind } => write_quote(out, (name, from, kind), frames),
        }
    }

    /// The bytes of a segment to a tuple that no flow has, from the IP header on.
    pub fn of_no_flow(&mut self, frames: &Frames) -> Vec<u8> {
        self.random = mixed(self.random);
        let (from, to) = ends(self.random);
        let is_v6 = is_v6(self.random, frames);
        let mould = &self.moulds[usize::from(is_v6)][ACK];
        let mut frame = vec![0; mould.len()];
        mould.write(&mut frame, from, to);
        frame.truncate(ethernet::HEADER_LEN + ip_header_len(is_v6) + tcp::HEADER_LEN);
        frame.split_off(ethernet::HEADER_LEN)
    }
}

/// Whether the packet of a random number has IPv6: as many as of the load's flows.
fn is_v6(random: u64, frames: &Frames) -> bool {
    let [.., a, b, c, d] = random.to_be_bytes();
    frames.is_v6(u32::from_be_bytes([a, b, c, d]))
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
pub fn crowd(count: u32, is_v6: bool) -> std::io::Result<Arc<Crowd>> {
    let count = count.next_power_of_two().clamp(64, 8192);
    let seed = HashSeed::from_os()?;
    let mut crowd = Vec::new();
    let mut random = 1;
    while crowd.len() < count as usize {
        random = mixed(random);
        let (from, _) = ends(random);
        let [_, _, t, u, a, b, c, d] = seed.flow(&crowded(is_v6, from)).to_be_bytes();
        let place = u32::from_be_bytes([a, b, c, d]);
        let mirror = (u32::from_be_bytes([0, 0, t, u]) | 1).wrapping_mul(0x9e37_79b9);
        if place >> (u32::BITS - 6) == 0 && mirror >> (u32::BITS - 5) == 0 {
            crowd.push(from);
        }
    }
    Ok(Crowd { is_v6, ends: crowd }.into())
}

/// The flow from a source to [`CROWDED`].
fn crowded(is_v6: bool, from: End) -> FlowKey {
    let (clients, servers) = if is_v6 { (ATTACKERS_V6, SERVERS_V6) } else { (0, 0) };
    let (client, server) = (clients | u128::from(from.0), servers | u128::from(CROWDED.0));
    let version = if is_v6 { 6 } else { 4 };
    FlowKey::new(EndpointId(0), version, protocol::UDP, client, server, from.1, CROWDED.1).0
}

/// An ICMP error from `from` to a live flow's server, about what that server has sent to its client.
fn write_quote(out: &mut [u8], (name, from, [kind, code]): (Name, u32, [u8; 2]), frames: &Frames) {
    let is_v6 = frames.is_v6(name.slot);
    let ip_len = ip_header_len(is_v6);
    // The quoted packet is the server's, written whole and cut.
    let mut quoted = vec![0; frames.control_len(name, Way::Down)];
    frames.write_control(
        &mut quoted,
        name,
        Way::Down,
        Segment { flags: TcpFlags::ACK, ..Segment::default() },
    );
    let quoted = &quoted[ethernet::HEADER_LEN..ethernet::HEADER_LEN + ip_len + AROUND];
    out[..6].copy_from_slice(&crate::frames::SERVER_MAC);
    out[6..12].copy_from_slice(&crate::frames::CLIENT_MAC);
    let ethertype = if is_v6 { ethertype::IPV6 } else { ethertype::IPV4 };
    out[12..14].copy_from_slice(&ethertype.to_be_bytes());
    let (ip, icmp) = out[ethernet::HEADER_LEN..].split_at_mut(ip_len);
    icmp[..8].copy_from_slice(&[kind, code, 0, 0, 0, 0, 0, 0]);
    icmp[8..].copy_from_slice(quoted);
    #[expect(clippy::cast_possible_truncation, reason = "56 or 96")]
    let (total, len) = (quote_len(is_v6) as u16, icmp.len() as u16);
    // To the sender of what it quotes.
    let mut sum = Sum::ZERO;
    if is_v6 {
        ip[..4].copy_from_slice(&[0x60, 0, 0, 0]);
        ip[4..6].copy_from_slice(&len.to_be_bytes());
        ip[6..8].copy_from_slice(&[protocol::ICMPV6, 64]);
        ip[8..24].copy_from_slice(&(ATTACKERS_V6 | u128::from(from)).to_be_bytes());
        ip[24..40].copy_from_slice(&quoted[8..24]);
        sum = sum.bytes(&ip[8..40]).u16(len).u16(protocol::ICMPV6.into());
    } else {
        ip[..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..12].copy_from_slice(&[0, 0, 0, 0, 64, protocol::ICMP, 0, 0]);
        ip[12..16].copy_from_slice(&from.to_be_bytes());
        ip[16..20].copy_from_slice(&quoted[12..16]);
        let sum = Sum::ZERO.bytes(ip).checksum();
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    mark(ip);
    let sum = sum.bytes(icmp).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use flowgate::wire::packet::{Packet, protocol};

    use super::super::{Side, Trace, trace};
    use super::*;
    use crate::names::Naming;
    use clap::ValueEnum;

    fn written(kind: Kind, count: usize, v6_share: f64) -> Vec<Vec<u8>> {
        let (frames, flows) = (Frames::new(Naming::new(7, v6_share), &[64]), Flows::new(100));
        let mut shots = Shots::new(3, crowd(64, v6_share > 0.5).expect("random numbers"));
        let one = |shots: &mut Shots| {
            let shot = shots.next(kind, &flows, &frames).expect("there are flows");
            let mut frame = vec![0; shots.len(shot, &frames)];
            shots.write(shot, &frames, &mut frame);
            frame
        };
        (0..count).map(|_| one(&mut shots)).collect()
    }

    #[test]
    fn every_packet_is_marked_and_its_checksums_are_right_and_it_has_the_version_asked_for() {
        for &kind in Kind::value_variants().iter().filter(|kind| kind.side() == Side::Clients) {
            for is_v6 in [false, true] {
                for frame in written(kind, 30, f64::from(u8::from(is_v6))) {
                    let ip = &frame[ethernet::HEADER_LEN..];
                    assert_eq!(frame[12..14], if is_v6 { [0x86, 0xdd] } else { [8, 0] }, "{kind:?}");
                    assert_eq!(trace(ip), Some(Trace::Attack), "{kind:?}");
                    assert!(is_v6 || ipv4::header_checksum_ok(ip), "{kind:?}");
                    let is_whole = if is_v6 { ip[6] != 44 } else { ip[6] & 0x3f == 0 && ip[7] == 0 };
                    if !is_whole {
                        continue;
                    }
                    let packet = Packet::parse(ip).expect("a whole packet");
                    let payload = &ip[usize::from(packet.header_len)..packet.total_len as usize];
                    #[expect(clippy::cast_possible_truncation, reason = "a frame's length")]
                    let len = payload.len() as u16;
                    let pseudo =
                        Sum::ZERO.u128(packet.src).u128(packet.dst).u16(packet.protocol.into()).u16(len);
                    let sum = if packet.protocol == protocol::ICMP { Sum::ZERO } else { pseudo };
                    assert!(sum.bytes(payload).is_right(), "{kind:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_to_be_of_flows_of_its_own_is_and_what_is_forged_is_of_a_live_one() {
        for (share, addresses, ports) in [(0.0, 26..34, 34..38), (1.0, 22..54, 54..58)] {
            for (kind, distinct) in
                [(Kind::SynFlood, 500), (Kind::UdpFlood, 500), (Kind::HalfHandshakes, 250)]
            {
                let tuple =
                    |frame: &Vec<u8>| (frame[addresses.clone()].to_vec(), frame[ports.clone()].to_vec());
                let tuples: std::collections::HashSet<_> =
                    written(kind, 500, share).iter().map(tuple).collect();
                assert_eq!(tuples.len(), distinct, "{kind:?}");
            }
            let frames = Frames::new(Naming::new(7, share), &[64]);
            for frame in written(Kind::ForgedEnds, 50, share) {
                let seen = frames.read(&frame).expect("of a flow of ours");
                assert!(seen.name.slot < 100 && seen.flags.intersects(TcpFlags::RST | TcpFlags::FIN));
            }
            for frame in written(Kind::ForgedErrors, 50, share) {
                let ip = &frame[ethernet::HEADER_LEN..];
                let error = Packet::parse(ip).expect("a whole packet");
                let quoted = flowgate::wire::icmp::quoted(ip, &error).expect("an error");
                assert_eq!(Packet::parse_quoted(quoted).expect("a header").src, error.dst);
            }
        }
        // Both versions, where the load has both.
        let v6 = written(Kind::SynFlood, 1000, 0.3).iter().filter(|frame| frame[12] == 0x86).count();
        assert!((200..400).contains(&v6), "{v6} of 1,000");
    }

    #[test]
    fn a_crowd_has_both_of_its_places_in_a_small_part_of_the_table_under_its_own_seed_alone() {
        for is_v6 in [false, true] {
            let crowd = crowd(100, is_v6).expect("random numbers");
            assert_eq!(crowd.ends.len(), 128);
            let distinct: std::collections::HashSet<_> = crowd.ends.iter().collect();
            assert_eq!(distinct.len(), 128);
            let other = HashSeed::from_secret(b"another seed, of sixteen bytes or more");
            let top = |end: &End| other.flow(&crowded(is_v6, *end)) >> 26 & 63;
            let places: std::collections::HashSet<_> = crowd.ends.iter().map(top).collect();
            assert!(places.len() > 30, "spread over 64 places: {}", places.len());
        }
    }
}
