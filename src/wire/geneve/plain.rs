//! An appliance's answer as nearly all of them are: untagged, outer IPv4 without options, whole, no UDP
//! checksum, our three options in our order. [`Plain::is_answer`] judges all of that with one bounds check and
//! wide compares, and refuses every other, right or wrong, which [`outer::parse`] and [`super::parse`] then
//! read with care.

#![forbid(unsafe_code)]

use super::super::checksum;
use super::super::ethernet::ethertype;
use super::super::ip::protocol;
use super::super::ipv4::{self, FRAGMENT_OFFSET, MORE_FRAGMENTS};
use super::super::load::{field16, field32, field64};
use super::super::tcp::{self, TcpFlags};
use super::super::udp;
use super::outer::{self, OUTER_LEN};
use super::{
    ATTACHMENT_ID_HEADER, ENDPOINT_ID_HEADER, FLOW_COOKIE_HEADER, OVERHEAD, UDP_PORT, VERSION_AND_LENGTH,
};

const IP: usize = outer::IP;
const UDP: usize = outer::UDP;
const GENEVE: usize = outer::GENEVE;
const OPTIONS: usize = outer::OPTIONS;
const ETHERTYPE: usize = 12;

/// The headers of a frame, read where a plain answer has its fields: the outer ones, and as much of the inner packet
/// as an IPv4 and a TCP header are.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(&'a [u8; LEN]);

/// Bytes that a plain answer has at least. One with a UDP datagram that is shorter is read with care.
const LEN: usize = INNER + ipv4::HEADER_LEN + tcp::HEADER_LEN;
const INNER: usize = OUTER_LEN;
const TRANSPORT: usize = INNER + ipv4::HEADER_LEN;

/// The inner packet of an answer: IPv4 without options, TCP or UDP, whole, and all that is in the outer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerV4 {
    /// Source address in the upper half, destination address in the lower.
    pub addresses: u64,
    /// Source port in the upper half, destination port in the lower.
    pub ports: u32,
    /// Its bytes.
    pub len: u16,
    /// TCP's control bits; empty for UDP.
    pub tcp_flags: TcpFlags,
}

impl<'a> Plain<'a> {
    /// The headers at the front of `frame`, judged by nobody. `None`: the frame is too short for them.
    #[inline(always)]
    pub fn of(frame: &'a [u8]) -> Option<Plain<'a>> {
        frame.first_chunk().map(Plain)
    }

    /// Whether they are those of a plain answer to `ours`, in a frame of so many bytes. Fields that lie side by side
    /// are compared at once.
    #[inline(always)]
    pub fn is_answer(self, ours: u32, frame_len: usize) -> bool {
        let Plain(headers) = self;
        // EtherType, version and header length.
        const FRONT: u64 = (ethertype::IPV4 as u64) << 8 | 0x45;
        let front = field64::<ETHERTYPE, _>(headers);
        // Place in the datagram, time to live, protocol.
        const WHOLE: u32 = ((MORE_FRAGMENTS | FRAGMENT_OFFSET) as u32) << 16 | 0xff;
        let middle = field32::<{ IP + 6 }, _>(headers);
        if front >> 40 != FRONT
            || middle & WHOLE != u32::from(protocol::UDP)
            || middle & 0xff00 == 0
            || field32::<{ IP + 16 }, _>(headers) != ours
        {
            return false;
        }
        // UDP's destination port, length, no checksum, and GENEVE's version, length of options and flags. The source's
        // port is its own affair.
        let total_len = (front >> 16) & 0xffff;
        const UDP_OF_0: u64 = (UDP_PORT as u64) << 48 | VERSION_AND_LENGTH as u64;
        let udp_len = total_len.wrapping_sub(ipv4::HEADER_LEN as u64);
        if field64::<{ UDP + 2 }, _>(headers) != UDP_OF_0.wrapping_add(udp_len << 32) {
            return false;
        }
        let inner = field16::<{ GENEVE + 2 }, _>(headers);
        let Some(header) = headers.first_chunk::<UDP>().and_then(|front| front.last_chunk()) else {
            return false;
        };
        total_len >= OVERHEAD as u64
            && IP as u64 + total_len <= frame_len as u64
            && (inner == ethertype::IPV4 || inner == ethertype::IPV6)
            && field32::<OPTIONS, _>(headers) == ENDPOINT_ID_HEADER
            && field32::<{ OPTIONS + 12 }, _>(headers) == ATTACHMENT_ID_HEADER
            && field32::<{ OPTIONS + 24 }, _>(headers) == FLOW_COOKIE_HEADER
            && checksum::header_is_right(header)
    }

    /// Who sent it.
    #[inline(always)]
    pub fn source(self) -> u32 {
        field32::<{ IP + 12 }, _>(self.0)
    }

    /// The endpoint's 64-bit id (O-4).
    #[inline(always)]
    pub fn endpoint_id(self) -> u64 {
        field64::<{ OPTIONS + 4 }, _>(self.0)
    }

    /// The flow's cookie.
    #[inline(always)]
    pub fn cookie(self) -> u32 {
        field32::<{ OPTIONS + 28 }, _>(self.0)
    }

    /// The inner packet, of this protocol: TCP or UDP. `None`: it is not as [`InnerV4`] has it.
    #[inline(always)]
    pub fn inner_v4(self, protocol: u8) -> Option<InnerV4> {
        let Plain(headers) = self;
        #[expect(clippy::cast_possible_truncation, reason = "40, 28, 20 and 68")]
        const LENS: (u16, u16, u16, u16) = (
            (ipv4::HEADER_LEN + tcp::HEADER_LEN) as u16,
            (ipv4::HEADER_LEN + udp::HEADER_LEN) as u16,
            tcp::HEADER_LEN as u16,
            OVERHEAD as u16,
        );
        // Version, header length, total length and place in the datagram in one comparison.
        const FIXED: u64 = 0xffff_0000_0000 | (0xff << 56) | (MORE_FRAGMENTS | FRAGMENT_OFFSET) as u64;
        const FIXED_OF_0: u64 = 0x45 << 56;
        let len = self.total_len().wrapping_sub(LENS.3);
        if field64::<INNER, _>(headers) & FIXED != FIXED_OF_0 | u64::from(len) << 32
            || headers[INNER + 9] != protocol
        {
            return None;
        }
        let (least, options_len, tcp_flags) = match protocol {
            protocol::TCP => {
                let header_len = u16::from(headers[TRANSPORT + 12] >> 2 & 0x3c);
                (LENS.0, header_len.wrapping_sub(LENS.2), TcpFlags::from_bits_retain(headers[TRANSPORT + 13]))
            }
            protocol::UDP => (LENS.1, 0, TcpFlags::empty()),
            _ => return None,
        };
        // A TCP header that is too short is one with far too many options.
        if options_len > len.checked_sub(least)? {
            return None;
        }
        Some(InnerV4 {
            addresses: field64::<{ INNER + 12 }, _>(headers),
            ports: field32::<TRANSPORT, _>(headers),
            len,
            tcp_flags,
        })
    }

    /// Where the outer packet, and so the inner one, ends in the frame. The inner one begins at [`OUTER_LEN`].
    #[inline(always)]
    pub fn end(self) -> usize {
        IP + usize::from(self.total_len())
    }

    #[inline(always)]
    fn total_len(self) -> u16 {
        field16::<{ IP + 2 }, _>(self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::super::super::ethernet::{Link, MacAddr};
    use super::super::super::plain as packet;
    use super::super::super::sample;
    use super::super::outer::{OuterFields, OuterTemplate};
    use super::*;

    const OURS: u32 = 0x0a09_0001;

    fn answer(inner_len: u16, padding: usize, fields: (u16, u32)) -> Vec<u8> {
        let template = OuterTemplate::new(
            MacAddr([2, 0, 0, 0, 0, 1]),
            MacAddr([2, 0, 0, 0, 0, 2]),
            Ipv4Addr::new(10, 9, 1, 1),
            Ipv4Addr::from_bits(OURS),
        );
        let mut headers = [0; OUTER_LEN];
        let fields = OuterFields {
            inner_len,
            protocol: fields.0,
            source_port: 0xc123,
            endpoint_id: 0x1122_3344_5566_7788,
            attachment_id: 9,
            cookie: fields.1,
        };
        template.write(&mut headers, &fields);
        let mut frame = headers.to_vec();
        frame.resize(OUTER_LEN + usize::from(inner_len) + padding, 0x45);
        frame
    }

    /// What an answer says: who sent it, the cookie, the endpoint's id, where it ends.
    type Said = (u32, u32, u64, usize);

    fn plainly(frame: &[u8], ours: u32) -> Option<Said> {
        let answer = Plain::of(frame).filter(|answer| answer.is_answer(ours, frame.len()))?;
        Some((answer.source(), answer.cookie(), answer.endpoint_id(), answer.end()))
    }

    fn carefully(frame: &[u8]) -> Option<Said> {
        let link = Link::parse(frame).ok().filter(|link| link.ethertype == ethertype::IPV4)?;
        let ip = frame.get(usize::from(link.header_len)..)?;
        let outer = outer::parse(ip).ok().filter(|outer| outer.dst_ip == OURS)?;
        let geneve = super::super::parse(outer.payload(ip)).ok()?;
        let end =
            usize::from(link.header_len) + usize::from(outer.udp_payload_offset + outer.udp_payload_len);
        Some((outer.src_ip, geneve.cookie, geneve.endpoint_id, end))
    }

    proptest! {
        /// With any byte of the headers changed, and cut anywhere: nothing is taken that the careful readers
        /// refuse, and what is taken says the same.
        #[test]
        fn what_is_read_plainly_is_read_carefully_to_the_same(
            inner_len in 0..80_u16, padding in 0..20_usize, six: bool, cookie: u32,
            change in proptest::option::of((0..OUTER_LEN, any::<u8>())), cut in proptest::option::of(0..150_usize),
            mend: bool,
        ) {
            let mut frame = answer(inner_len, padding, (if six { 0x86dd } else { 0x0800 }, cookie));
            if let Some((at, byte)) = change {
                frame[at] = byte;
            }
            // Or nearly every change of the outer IPv4 header is one that its checksum shows.
            if mend {
                frame[IP + 10..IP + 12].fill(0);
                let sum = checksum::Sum::ZERO.bytes(&frame[IP..UDP]).checksum();
                frame[IP + 10..IP + 12].copy_from_slice(&sum.to_be_bytes());
            }
            if let Some(cut) = cut {
                frame.truncate(cut);
            }
            let (plain, careful) = (plainly(&frame, OURS), carefully(&frame));
            prop_assert!(plain.is_none() || plain == careful, "{:?} and {:?}", plain, careful);
            if change.is_none() && cut.is_none() && frame.len() >= LEN {
                prop_assert!(plain.is_some());
            }
        }

        /// With any byte of its headers changed: an inner packet is read as one that stands alone, if it ends where
        /// the outer one does.
        #[test]
        fn an_inner_packet_that_fills_the_answer_is_read_as_any_other(
            tcp: bool, payload in 20..60_u8, change in proptest::option::of((0..40_usize, any::<u8>())),
            more in prop_oneof![4 => Just(0), 1 => 1..4_usize], padding in 0..8_usize,
        ) {
            let protocol = if tcp { protocol::TCP } else { protocol::UDP };
            let transport: Vec<u8> = (0..payload).map(|n| if n == 12 { 0x50 } else { n }).collect();
            let mut inner = sample::ipv4_with([10, 0, 0, 1], [10, 0, 0, 2], protocol, 0x4000, &[], &transport);
            inner.resize(inner.len() + more, 0);
            if let Some((at, byte)) = change {
                inner[at] = byte;
            }
            let mut frame = answer(u16::try_from(inner.len()).unwrap(), padding, (0x0800, 1));
            frame[OUTER_LEN..OUTER_LEN + inner.len()].copy_from_slice(&inner);
            let alone = packet::Plain::<u32>::read(&inner)
                .filter(|alone| usize::from(alone.total_len) == inner.len() && alone.protocol == protocol)
                .map(|alone| InnerV4 {
                    addresses: u64::from(alone.src) << 32 | u64::from(alone.dst),
                    ports: alone.ports,
                    len: alone.total_len,
                    tcp_flags: alone.tcp_flags,
                });
            if change.is_none() {
                prop_assert_eq!(alone.is_some(), more == 0);
            }
            prop_assert_eq!(Plain::of(&frame).unwrap().inner_v4(protocol), alone);
        }
    }

    #[test]
    fn an_answer_to_another_is_none() {
        assert!(plainly(&answer(40, 0, (0x0800, 1)), OURS).is_some());
        for bit in 0..32 {
            assert!(plainly(&answer(40, 0, (0x0800, 1)), OURS ^ 1 << bit).is_none(), "bit {bit}");
        }
    }
}
