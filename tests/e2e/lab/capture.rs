//! What crosses an interface, as tcpdump sees it. The packets are taken apart here and not by
//! `flowgate::wire`, so that a mistake there cannot hide itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::netns::Netns;
use super::tap::Tap;
use super::wait_for;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// A frame and the kernel's time of it, since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub at: Duration,
    pub bytes: Vec<u8>,
}

/// A TCP packet in a captured frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    pub at: Duration,
    pub source_mac: [u8; 6],
    pub destination_mac: [u8; 6],
    /// Tag control information of each VLAN tag, the outermost first.
    pub vlans: Vec<u16>,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// "Don't fragment"; IPv6 has no such bit and always means it.
    pub dont_fragment: bool,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Bytes of options.
    pub options: usize,
    /// Bytes after the header.
    pub payload: usize,
    /// Whether the IPv4 header's and TCP's checksums are right.
    pub checksums_right: bool,
}

impl Tcp {
    pub fn is(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }
}

/// A running tcpdump.
pub struct Capture {
    place: String,
    _tap: Tap,
    frames: Arc<Mutex<Vec<Frame>>>,
}

impl Capture {
    /// Captures everything that crosses `interface` in `netns`, in both directions, from the moment
    /// this returns. `filter` is one of tcpdump's, empty for all.
    pub fn start(netns: &Netns, interface: &str, filter: &str) -> Self {
        let frames = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&frames);
        let see = move |frame| seen.lock().expect("no reader panics").push(frame);
        let tap = Tap::start(netns, interface, filter, 0, see);
        Self { place: format!("{interface} of {}", netns.name()), _tap: tap, frames }
    }

    /// Every frame so far.
    pub fn frames(&self) -> Vec<Frame> {
        self.frames.lock().expect("no writer panics").clone()
    }

    /// Every TCP packet so far.
    pub fn tcp(&self) -> Vec<Tcp> {
        self.frames().iter().filter_map(parse_tcp).collect()
    }

    /// Every TCP packet with RST so far that was sent to `to`.
    pub fn resets_to(&self, to: SocketAddr) -> Vec<Tcp> {
        self.tcp().into_iter().filter(|packet| packet.is(RST) && packet.destination == to).collect()
    }

    /// The first TCP packet that fits, waited for.
    pub fn wait_for_tcp(&self, what: &str, within: Duration, fits: impl Fn(&Tcp) -> bool) -> Tcp {
        wait_for(what, within, || self.tcp().into_iter().find(|packet| fits(packet)))
    }

    /// The first frame that fits, waited for.
    pub fn wait_for_frame(&self, what: &str, within: Duration, fits: impl Fn(&[u8]) -> bool) -> Frame {
        wait_for(what, within, || self.frames().into_iter().find(|frame| fits(&frame.bytes)))
    }
}

impl fmt::Display for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags: String = "FSRPAUEC"
            .chars()
            .enumerate()
            .filter(|(bit, _)| self.flags >> bit & 1 == 1)
            .map(|(_, c)| c)
            .collect();
        let Self { at, source, destination, seq, ack, payload, .. } = self;
        write!(
            f,
            "{:.6} {source} > {destination} [{flags}] seq {seq} ack {ack} length {payload}",
            at.as_secs_f64()
        )
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if thread::panicking() {
            let packets = self.tcp();
            let last = &packets[packets.len().saturating_sub(30)..];
            eprintln!("---- the last {} TCP packets at {}", last.len(), self.place);
            last.iter().for_each(|packet| eprintln!("{packet}"));
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The one's complement sum of RFC 1071 over 16-bit words; 0xffff over data with a right checksum.
pub fn ones_sum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut sum: u32 = 0;
    for part in parts {
        for word in part.chunks(2) {
            sum += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    u16::try_from(sum).expect("it was folded")
}

/// Takes an unfragmented TCP packet apart; `None` for any other frame.
pub fn parse_tcp(frame: &Frame) -> Option<Tcp> {
    let bytes = frame.bytes.as_slice();
    let mut at = 12;
    let mut vlans = Vec::new();
    while matches!(u16_at(bytes, at)?, 0x8100 | 0x88a8) {
        vlans.push(u16_at(bytes, at + 2)?);
        at += 4;
    }
    let kind = u16_at(bytes, at)?;
    let ip = bytes.get(at + 2..)?;
    let (source, destination, ttl, dont_fragment, header_right, pseudo, segment): (
        IpAddr,
        IpAddr,
        u8,
        bool,
        bool,
        Vec<u8>,
        &[u8],
    ) = match kind {
        0x0800 if *ip.get(9)? == 6 && u16_at(ip, 6)? & 0x3fff == 0 => {
            let header = usize::from(ip[0] & 15) * 4;
            let segment = ip.get(header..usize::from(u16_at(ip, 2)?))?;
            let mut pseudo = ip[12..20].to_vec();
            pseudo.extend([0, 6]);
            pseudo.extend(u16::try_from(segment.len()).ok()?.to_be_bytes());
            (
                IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&ip[12..16]).ok()?)),
                IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&ip[16..20]).ok()?)),
                ip[8],
                ip[6] & 0x40 != 0,
                ones_sum([&ip[..header]]) == 0xffff,
                pseudo,
                segment,
            )
        }
        0x86dd if *ip.get(6)? == 6 => {
            let segment = ip.get(40..40 + usize::from(u16_at(ip, 4)?))?;
            let mut pseudo = ip[8..40].to_vec();
            pseudo.extend(u32::try_from(segment.len()).ok()?.to_be_bytes());
            pseudo.extend([0, 0, 0, 6]);
            (
                IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[8..24]).ok()?)),
                IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[24..40]).ok()?)),
                ip[7],
                true,
                true,
                pseudo,
                segment,
            )
        }
        _ => return None,
    };
    let header = usize::from(*segment.get(12)? >> 4) * 4;
    Some(Tcp {
        at: frame.at,
        source_mac: bytes.get(6..12)?.try_into().ok()?,
        destination_mac: bytes.get(0..6)?.try_into().ok()?,
        vlans,
        source: SocketAddr::new(source, u16_at(segment, 0)?),
        destination: SocketAddr::new(destination, u16_at(segment, 2)?),
        ttl,
        dont_fragment,
        seq: u32_at(segment, 4)?,
        ack: u32_at(segment, 8)?,
        flags: *segment.get(13)?,
        window: u16_at(segment, 14)?,
        options: header.checked_sub(20)?,
        payload: segment.len().checked_sub(header)?,
        checksums_right: header_right && ones_sum([pseudo.as_slice(), segment]) == 0xffff,
    })
}
