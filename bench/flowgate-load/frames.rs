//! The frames that the ends send, written from templates, and what is read of those that arrive.
//!
//! Every frame is a TCP segment with right checksums: the sums over all that is constant are made once,
//! and a packet costs a copy and a dozen additions. A data segment begins with the time at which it was
//! made, in 48 bits; a fixed pattern fills the rest. Six bytes of payload are just what a frame of 64 bytes
//! has room for, so whatever else is measured hides in TCP's own fields: the sequence number tells order,
//! and the urgent pointer, which means nothing without its flag, how long the way to the appliance was.

use flowgate::wire::checksum::{self, Sum};
use flowgate::wire::ethernet::{self, Link, ethertype};
use flowgate::wire::packet::{Kind, Packet, protocol};
use flowgate::wire::tcp::{self, TcpFlags, TcpHeader};
use flowgate::wire::{ipv4, ipv6};

use super::names::{CLIENTS_V6, Name, Naming, SERVER_PORT, SERVERS_V6, Tuple, Way};

/// Bytes of the frame check sequence, which sizes count and buffers do not hold.
pub const FCS: u16 = 4;
/// Bytes of Ethernet's shortest frame without its check sequence.
const SHORTEST: usize = 60;
/// Bytes of the time stamp at the start of the payload.
const STAMP: usize = 6;
const STAMP_MASK: u64 = (1 << 48) - 1;

/// The longest frame that is sent, its check sequence included.
pub const LONGEST: u16 = 1518;

/// The stations at the ends of the wire: whatever a gateway does with them, it must leave them as they are.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0x0c, 1];
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0x05, 1];

/// One kind of frame: way, IP version and length.
struct Template {
    bytes: Vec<u8>,
    /// Where TCP begins.
    tcp: usize,
    payload_len: u16,
    /// Over the constant part of an IPv4 header.
    ip_sum: Sum,
    /// Over the constant part of the segment and its pseudo header.
    tcp_sum: Sum,
}

impl Template {
    fn new(way: Way, v6: bool, payload_len: u16) -> Template {
        let ip_len = if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let tcp = ethernet::HEADER_LEN + ip_len;
        let payload = tcp + tcp::HEADER_LEN;
        let end = payload + usize::from(payload_len);
        let mut bytes = vec![0; end.max(SHORTEST)];
        let (from, to) = if way == Way::Up { (CLIENT_MAC, SERVER_MAC) } else { (SERVER_MAC, CLIENT_MAC) };
        bytes[..6].copy_from_slice(&to);
        bytes[6..12].copy_from_slice(&from);
        let ethertype = if v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "at most a frame's length")]
        let (segment_len, total_len) = ((end - tcp) as u16, (end - ethernet::HEADER_LEN) as u16);
        let ip = &mut bytes[ethernet::HEADER_LEN..tcp];
        let mut tcp_sum = checksum::pseudo_v4(0, 0, protocol::TCP, segment_len);
        if v6 {
            ip[0] = 0x60;
            ip[4..6].copy_from_slice(&segment_len.to_be_bytes());
            ip[6] = protocol::TCP;
            ip[7] = 64;
            let (from, to) = if way == Way::Up { (CLIENTS_V6, SERVERS_V6) } else { (SERVERS_V6, CLIENTS_V6) };
            ip[8..24].copy_from_slice(&from.to_be_bytes());
            ip[24..40].copy_from_slice(&to.to_be_bytes());
            tcp_sum = tcp_sum.u128(from).u128(to);
        } else {
            ip[..2].copy_from_slice(&[0x45, 0]);
            ip[2..4].copy_from_slice(&total_len.to_be_bytes());
            ip[6..10].copy_from_slice(&[0x40, 0, 64, protocol::TCP]);
        }
        let ip_sum = Sum::ZERO.bytes(&bytes[ethernet::HEADER_LEN..tcp]);
        // Window.
        bytes[tcp + 14..tcp + 16].copy_from_slice(&0xfaf0u16.to_be_bytes());
        for (at, byte) in bytes[payload..end].iter_mut().enumerate().skip(STAMP) {
            *byte = pattern(at);
        }
        let tcp_sum = tcp_sum.bytes(&bytes[tcp..end]);
        Template { bytes, tcp, payload_len, ip_sum, tcp_sum }
    }

    /// Writes a frame into `out`, which has the template's length.
    fn write(&self, out: &mut [u8], tuple: Tuple, way: Way, segment: Segment) {
        out.copy_from_slice(&self.bytes);
        let client = (tuple.client, tuple.client_port);
        let server = (tuple.server, SERVER_PORT);
        let (from, to) = if way == Way::Up { (client, server) } else { (server, client) };
        let (ip, tcp) = out[ethernet::HEADER_LEN..].split_at_mut(self.tcp - ethernet::HEADER_LEN);
        if tuple.v6 {
            ip[20..24].copy_from_slice(&from.0.to_be_bytes());
            ip[36..40].copy_from_slice(&to.0.to_be_bytes());
        } else {
            ip[12..16].copy_from_slice(&from.0.to_be_bytes());
            ip[16..20].copy_from_slice(&to.0.to_be_bytes());
            let sum = self.ip_sum.u32(from.0).u32(to.0).checksum();
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        tcp[..2].copy_from_slice(&from.1.to_be_bytes());
        tcp[2..4].copy_from_slice(&to.1.to_be_bytes());
        tcp[4..8].copy_from_slice(&segment.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&segment.ack.to_be_bytes());
        // Five words of header.
        let control = 0x5000 | u16::from(segment.flags.bits());
        tcp[12..14].copy_from_slice(&control.to_be_bytes());
        let mut sum = self.tcp_sum.u32(from.0).u32(to.0).u16(from.1).u16(to.1);
        sum = sum.u32(segment.seq).u32(segment.ack).u16(control);
        if self.payload_len > 0 {
            let [_, _, stamp @ ..] = segment.stamp.to_be_bytes();
            tcp[tcp::HEADER_LEN..tcp::HEADER_LEN + STAMP].copy_from_slice(&stamp);
            sum = sum.bytes(&stamp);
        }
        tcp[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    }
}

/// What the payload has at this place; no two words nearby are alike.
fn pattern(at: usize) -> u8 {
    at.wrapping_mul(167).wrapping_add(at >> 8).to_le_bytes()[0]
}

/// What differs between the segments of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    pub seq: u32,
    pub ack: u32,
    pub flags: TcpFlags,
    /// When it was made, in cycles; only the lowest 48 bits travel.
    pub stamp: u64,
}

/// Every frame that is sent.
pub struct Frames {
    naming: Naming,
    /// Segments without payload, by way and IP version.
    control: Vec<Template>,
    /// Segments with payload, by size, way and IP version.
    data: Vec<Template>,
    /// The payload of the longest.
    pattern: Vec<u8>,
}

impl Frames {
    /// `sizes` are whole frames with their check sequence. IPv6 has no shorter segment with a time stamp than
    /// one of 84 bytes, IPv4 than 64: what is asked to be shorter is sent as that.
    pub fn new(naming: Naming, sizes: &[u16]) -> Frames {
        let kinds = || Way::BOTH.into_iter().flat_map(|way| [(way, false), (way, true)]);
        let data = sizes.iter().flat_map(|&size| {
            kinds().map(move |(way, v6)| {
                let headers = FCS + if v6 { 74 } else { 54 };
                Template::new(way, v6, size.saturating_sub(headers).max(6))
            })
        });
        Frames {
            control: kinds().map(|(way, v6)| Template::new(way, v6, 0)).collect(),
            data: data.collect(),
            pattern: (0..usize::from(LONGEST)).map(pattern).collect(),
            naming,
        }
    }

    #[cfg(test)]
    pub fn naming(&self) -> &Naming {
        &self.naming
    }

    /// Whether a slot's flows have IPv6.
    pub fn is_v6(&self, slot: u32) -> bool {
        self.naming.is_v6(slot)
    }

    fn kind(&self, way: Way, slot: u32) -> usize {
        2 * way.index() + usize::from(self.naming.is_v6(slot))
    }

    /// Bytes in the buffer of a segment without payload.
    pub fn control_len(&self, name: Name, way: Way) -> usize {
        self.control[self.kind(way, name.slot)].bytes.len()
    }

    /// Writes one.
    pub fn write_control(&self, out: &mut [u8], name: Name, way: Way, segment: Segment) {
        self.control[self.kind(way, name.slot)].write(out, self.naming.tuple(name), way, segment);
    }

    /// Bytes in the buffer of a segment of the `size`th size, and bytes of its payload.
    pub fn data_len(&self, size: usize, name: Name, way: Way) -> (usize, u16) {
        let template = &self.data[4 * size + self.kind(way, name.slot)];
        (template.bytes.len(), template.payload_len)
    }

    /// Writes one.
    pub fn write_data(&self, out: &mut [u8], size: usize, name: Name, way: Way, segment: Segment) {
        self.data[4 * size + self.kind(way, name.slot)].write(out, self.naming.tuple(name), way, segment);
    }

    /// Reads a frame that came out of the gateway.
    pub fn read(&self, frame: &[u8]) -> Result<Seen, Unreadable> {
        let link = Link::parse(frame).map_err(|_| Unreadable::Stranger)?;
        self.read_packet(&frame[usize::from(link.header_len)..])
    }

    /// Reads the IP packet in it, or within the tunnel.
    pub fn read_packet(&self, ip: &[u8]) -> Result<Seen, Unreadable> {
        let packet = Packet::parse(ip).map_err(|_| Unreadable::Stranger)?;
        if packet.kind != Kind::Tcp {
            return Err(Unreadable::Stranger);
        }
        let (name, way) = self.naming.name(&packet).ok_or(Unreadable::Stranger)?;
        let segment = &ip[usize::from(packet.header_len)..packet.total_len as usize];
        let header = TcpHeader::parse(segment).map_err(|_| Unreadable::Damaged)?;
        let payload = &segment[usize::from(header.data_offset)..];
        #[expect(clippy::cast_possible_truncation, reason = "a segment fits into 16 bits")]
        let len = segment.len() as u16;
        let pseudo = Sum::ZERO.u128(packet.src).u128(packet.dst).u16(u16::from(protocol::TCP)).u16(len);
        let intact = pseudo.bytes(segment).is_right()
            && payload.get(STAMP..).is_none_or(|rest| {
                self.pattern.get(STAMP..payload.len()).is_some_and(|pattern| pattern == rest)
            });
        if !intact {
            return Err(Unreadable::Damaged);
        }
        let stamp = payload
            .first_chunk::<STAMP>()
            .map(|&[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        let mark = u16::from_be_bytes([segment[18], segment[19]]);
        #[expect(clippy::cast_possible_truncation, reason = "a segment fits into 16 bits")]
        let payload_len = payload.len() as u16;
        Ok(Seen {
            name,
            way,
            flags: header.flags,
            seq: header.seq.0,
            ack: header.ack.0,
            payload_len,
            stamp,
            mark: Mark(mark),
            tcp: packet.header_len,
        })
    }
}

/// Why a frame is none of those that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Not of a connection of ours.
    Stranger,
    /// Of one, but a checksum is wrong or the payload is not what was sent.
    Damaged,
}

/// What an arrived segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub name: Name,
    pub way: Way,
    pub flags: TcpFlags,
    pub seq: u32,
    pub ack: u32,
    pub payload_len: u16,
    /// When it was made, if it has payload.
    pub stamp: Option<u64>,
    /// What the appliance noted.
    pub mark: Mark,
    /// Where TCP begins in the IP packet.
    pub tcp: u16,
}

/// Cycles since a stamp was made; stamps have 48 bits. 0 for one that another thread has made since this one looked at
/// the clock.
pub fn since(now: u64, stamp: u64) -> u64 {
    let passed = now.wrapping_sub(stamp) & STAMP_MASK;
    if passed > STAMP_MASK / 2 { 0 } else { passed }
}

/// How many cycles the way to the appliance took, in 16 bits: 11 of mantissa and 5 of exponent, so that it is
/// right to 0.1 %. 0: nobody noted anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u16);

impl Mark {
    const MANTISSA: u32 = 11;

    pub fn of(cycles: u64) -> Mark {
        let cycles = cycles.max(1);
        let exponent = (64 - cycles.leading_zeros()).saturating_sub(Self::MANTISSA).min(31);
        let mantissa = (cycles >> exponent).min((1 << Self::MANTISSA) - 1);
        let code = mantissa as u16 | (exponent as u16) << Self::MANTISSA;
        Mark(code)
    }

    pub fn cycles(self) -> Option<u64> {
        let mantissa = u64::from(self.0) & ((1 << Self::MANTISSA) - 1);
        (self.0 != 0).then(|| mantissa << (self.0 >> Self::MANTISSA))
    }

    /// Writes it into an IP packet's TCP header, whose urgent pointer is 0, and lets the checksum follow. The sum
    /// over both fields stays, so that a checksum around them stays right too.
    pub fn write(self, ip: &mut [u8], tcp: u16) {
        let Some(fields) = ip.get_mut(usize::from(tcp) + 16..usize::from(tcp) + 20) else { return };
        let old = u16::from_be_bytes([fields[0], fields[1]]);
        fields[..2].copy_from_slice(&checksum::update_u16(old, 0, self.0).to_be_bytes());
        fields[2..].copy_from_slice(&self.0.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        Frames::new(Naming::new(5, 0.5), &[64, 594, 1518])
    }

    fn sent(frames: &Frames, slot: u32, size: usize, way: Way) -> Vec<u8> {
        let name = Name { slot, epoch: 9 };
        let mut frame = vec![0; frames.data_len(size, name, way).0];
        let segment = Segment { seq: 77, ack: 88, flags: TcpFlags::ACK, stamp: 0xabcd_1234_5678_9abc };
        frames.write_data(&mut frame, size, name, way, segment);
        frame
    }

    #[test]
    fn what_is_written_is_read_again_and_has_right_checksums() {
        let frames = frames();
        for slot in 0..40 {
            for way in Way::BOTH {
                for size in 0..3 {
                    let frame = sent(&frames, slot, size, way);
                    let seen = frames.read(&frame).expect("intact");
                    assert_eq!((seen.name, seen.way), (Name { slot, epoch: 9 }, way));
                    assert_eq!((seen.seq, seen.ack, seen.flags), (77, 88, TcpFlags::ACK));
                    assert_eq!(seen.stamp, Some(0x1234_5678_9abc));
                    assert_eq!(since(0x7_1234_5678_9abf, 0x1234_5678_9abc), 3);
                    assert_eq!(since(0x7_1234_5678_9abb, 0x1234_5678_9abc), 0);
                    assert_eq!(seen.mark.cycles(), None);
                    if !frames.naming().is_v6(slot) {
                        assert!(ipv4::header_checksum_ok(&frame[14..]));
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_are_those_of_whole_frames_and_at_least_what_a_stamp_needs() {
        let frames = frames();
        let len = |size, slot| frames.data_len(size, Name { slot, epoch: 0 }, Way::Up).0;
        let slot = |v6| (0..100).find(|&slot| frames.naming().is_v6(slot) == v6).expect("both");
        assert_eq!([len(0, slot(false)), len(1, slot(false)), len(2, slot(false))], [60, 590, 1514]);
        assert_eq!([len(0, slot(true)), len(1, slot(true)), len(2, slot(true))], [80, 590, 1514]);
    }

    #[test]
    fn any_byte_that_was_changed_is_noticed() {
        let frames = frames();
        for size in 0..2 {
            let good = sent(&frames, 4, size, Way::Up);
            let ip = 14 + if frames.naming().is_v6(4) { 40 } else { 20 };
            for at in ip..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                assert!(frames.read(&bad).is_err(), "byte {at}");
            }
        }
        // Two words exchanged leave the checksum as it is.
        let mut bad = sent(&frames, 4, 1, Way::Up);
        bad.swap(300, 302);
        bad.swap(301, 303);
        assert_eq!(frames.read(&bad), Err(Unreadable::Damaged));
    }

    #[test]
    fn a_mark_is_right_to_a_thousandth_and_leaves_the_segment_intact() {
        let frames = frames();
        for cycles in [0, 1, 2047, 2048, 12_345, 987_654_321, 40_000_000_000] {
            let mut frame = sent(&frames, 3, 0, Way::Down);
            let tcp = frames.read(&frame).expect("intact").tcp;
            Mark::of(cycles).write(&mut frame[14..], tcp);
            let noted = frames.read(&frame).expect("still intact").mark.cycles().expect("noted");
            assert!(noted.abs_diff(cycles) <= 1.max(cycles / 1000), "{noted} for {cycles}");
        }
    }
}
