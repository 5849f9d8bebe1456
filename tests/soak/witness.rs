//! What is seen from outside the gateway: which appliance each packet is sent to, on the wire before the appliances, and
//! the resets that arrive at the ends of connections, but for those that the other end has sent itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::judge::At;
use crate::judge::flows::{Packet, TCP};
use crate::judge::resets::Reset;
use crate::lab::capture::Frame;
use crate::lab::tap::Tap;
use crate::lab::{ETH, Family, Lab, Side, TO_GATEWAY, UNDERLAY};

/// As much of a frame as has all headers in it.
const HEADERS: usize = 220;
/// TCP with RST, in either IP without extension headers.
const RESETS: &str = "(tcp and tcp[13] & 4 != 0) or (ip6[6] == 6 and ip6[53] & 4 != 0)";
/// How long a reset waits to be known from who sent it, whose tcpdump may be late on a busy machine.
pub const SETTLED: Duration = Duration::from_secs(4);
/// How long it may take from one host to the other, behind whatever waits.
const ON_THE_WAY: Duration = Duration::from_secs(10);
/// What a frame may be late by, through tcpdump: packets are taken in their order after that.
const LATE: Duration = Duration::from_secs(2);

/// A reset as a host's interface sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    at: At,
    from: SocketAddr,
    to: SocketAddr,
    seq: u32,
    /// By its sender.
    is_sent: bool,
}

/// All that watches.
pub struct Witness {
    taps: Vec<Tap>,
    packets: Receiver<Packet>,
    waiting: Vec<Packet>,
    resets: Receiver<Seen>,
    origins: Origins,
}

impl Witness {
    pub fn start(lab: &Lab) -> Witness {
        let (packet, packets) = mpsc::channel();
        let (reset, resets) = mpsc::channel();
        // Nobody listens any more when the soak is over.
        let see = move |frame: Frame| {
            if let Some(seen) = encapsulated(&frame) {
                packet.send(seen).ok();
            }
        };
        let mut taps = vec![Tap::start(&lab.underlay, TO_GATEWAY, "udp dst port 6081", HEADERS, see)];
        for side in Side::BOTH {
            let reset = reset.clone();
            let own = Family::BOTH.map(|family| match side {
                Side::Client => family.client(),
                Side::Server => family.server(),
            });
            taps.push(Tap::start(lab.host(side), ETH, RESETS, HEADERS, move |frame| {
                if let Some((inner, seq)) = frame.bytes.get(14..).and_then(packet_of) {
                    let is_sent = own.contains(&inner.from.ip());
                    reset.send(Seen { at: frame.at, from: inner.from, to: inner.to, seq, is_sent }).ok();
                }
            }));
        }
        Witness { taps, packets, waiting: Vec::new(), resets, origins: Origins::default() }
    }

    /// The packets to appliances that were seen, in the order of their times.
    pub fn packets(&mut self, now: At) -> Vec<Packet> {
        self.waiting.extend(self.packets.try_iter());
        self.waiting.sort_by_key(|packet| packet.at);
        let ripe = self.waiting.partition_point(|packet| packet.at + LATE < now);
        self.waiting.drain(..ripe).collect()
    }

    /// The resets that arrived and that no host had sent, in the order of their times.
    pub fn resets(&mut self, now: At) -> Vec<Reset> {
        self.origins.seen.extend(self.resets.try_iter());
        self.origins.settle(now)
    }

    /// Ends it; how many frames were missed, if every tcpdump says so.
    pub fn end(self) -> Option<u64> {
        self.taps.into_iter().map(Tap::end).sum()
    }
}

/// Resets at both hosts, of which those that arrive and that nobody sent are the gateway's.
#[derive(Default)]
struct Origins {
    seen: Vec<Seen>,
}

impl Origins {
    fn settle(&mut self, now: At) -> Vec<Reset> {
        let same =
            |one: &Seen, other: &Seen| (one.from, one.to, one.seq) == (other.from, other.to, other.seq);
        let (ripe, waiting): (Vec<Seen>, Vec<Seen>) =
            self.seen.iter().partition(|seen| !seen.is_sent && seen.at + SETTLED < now);
        let sent: Vec<Seen> = waiting.iter().copied().filter(|seen| seen.is_sent).collect();
        let nobodys = |seen: &&Seen| !sent.iter().any(|other| same(seen, other));
        let mut made: Vec<Reset> = ripe
            .iter()
            .filter(nobodys)
            .map(|seen| Reset { at: seen.at, from: seen.from, to: seen.to })
            .collect();
        made.sort_by_key(|reset| reset.at);
        self.seen = waiting;
        self.seen.retain(|seen| !seen.is_sent || seen.at + ON_THE_WAY > now);
        made
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A packet's ends.
struct Inner {
    protocol: u8,
    from: SocketAddr,
    to: SocketAddr,
    flags: u8,
}

/// Ends and TCP sequence number of a whole TCP or UDP packet, or an ICMP echo, perhaps cut behind its headers. Fragments and
/// whatever else is on its way are of no interest.
fn packet_of(ip: &[u8]) -> Option<(Inner, u32)> {
    let (from, to, protocol, at): (IpAddr, IpAddr, u8, usize) = match ip.first()? >> 4 {
        4 => {
            if be16(ip, 6)? & 0x3fff != 0 {
                return None;
            }
            let address = |at: usize| be32(ip, at).map(Ipv4Addr::from_bits);
            (address(12)?.into(), address(16)?.into(), *ip.get(9)?, usize::from(ip[0] & 15) * 4)
        }
        6 => {
            let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(ip.get(at..at + 16)?).ok()?));
            (address(8)?.into(), address(24)?.into(), *ip.get(6)?, 40)
        }
        _ => return None,
    };
    let (ports, flags, seq) = match protocol {
        TCP => ((be16(ip, at)?, be16(ip, at + 2)?), *ip.get(at + 13)?, be32(ip, at + 4)?),
        17 => ((be16(ip, at)?, be16(ip, at + 2)?), 0, 0),
        1 | 58 if [8, 0, 128, 129].contains(ip.get(at)?) => ((be16(ip, at + 4)?, be16(ip, at + 4)?), 0, 0),
        _ => return None,
    };
    let (from, to) = (SocketAddr::new(from, ports.0), SocketAddr::new(to, ports.1));
    Some((Inner { protocol, from, to, flags }, seq))
}

/// A packet on its way to an appliance; what appliances return is none.
fn encapsulated(frame: &Frame) -> Option<Packet> {
    let bytes = &frame.bytes;
    let (source, target) = (be32(bytes, 26)?, be32(bytes, 30)?);
    if source != UNDERLAY.to_bits() {
        return None;
    }
    let (inner, _) = packet_of(bytes.get(82..)?)?;
    let Inner { protocol, from, to, flags } = inner;
    let (target, cookie) = (Ipv4Addr::from_bits(target), be32(bytes, 78)?);
    Some(Packet { at: frame.at, target, cookie, protocol, from, to, flags })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ms: u64, is_sent: bool, seq: u32) -> Seen {
        let (from, to) = ("192.0.2.20:80".parse().unwrap(), "192.0.2.10:4000".parse().unwrap());
        Seen { at: At::from_millis(100_000 + ms), from, to, seq, is_sent }
    }

    #[test]
    fn a_reset_is_the_gateways_if_nobody_sent_it() {
        let mut origins = Origins { seen: vec![seen(50, false, 1), seen(60, false, 2), seen(0, true, 1)] };
        assert!(origins.settle(At::from_millis(103_000)).is_empty(), "its sender may still be seen");
        let made = origins.settle(At::from_millis(105_000));
        assert_eq!(made.iter().map(|reset| reset.at).collect::<Vec<_>>(), [At::from_millis(100_060)]);
        assert!(origins.settle(At::from_millis(106_000)).is_empty(), "each is told once");
    }

    #[test]
    fn an_encapsulated_packet_is_taken_apart() {
        let mut bytes = vec![0; 14];
        bytes.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 255, 17, 0, 0]);
        bytes.extend(UNDERLAY.octets());
        bytes.extend([198, 51, 100, 12]);
        bytes.resize(78, 0);
        bytes.extend([0, 0, 0, 7]);
        bytes.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 10, 192, 0, 2, 20]);
        bytes.extend([0x0f, 0xa0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        let packet = encapsulated(&Frame { at: At::ZERO, bytes: bytes.clone() }).unwrap();
        assert_eq!((packet.target, packet.cookie, packet.flags), (Ipv4Addr::new(198, 51, 100, 12), 7, 2));
        assert_eq!(
            (packet.from, packet.to),
            ("192.0.2.10:4000".parse().unwrap(), "192.0.2.20:80".parse().unwrap())
        );
        bytes[26] ^= 1;
        assert!(encapsulated(&Frame { at: At::ZERO, bytes }).is_none(), "an appliance's answer");
    }
}
