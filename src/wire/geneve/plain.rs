//! An appliance's answer as nearly all of them are: untagged, outer IPv4 without options, whole, no UDP
//! checksum, our three options in our order. [`Plain::read`] judges all of that with one bounds check and
//! wide compares, and refuses every other, right or wrong, which [`outer::parse`] and [`super::parse`] then
//! read with care.

#![forbid(unsafe_code)]

use super::super::checksum;
use super::super::ethernet::ethertype;
use super::super::ip::protocol;
use super::super::ipv4::{self, FRAGMENT_OFFSET, MORE_FRAGMENTS};
use super::super::load::{field16, field32, field64};
use super::outer::{self, OUTER_LEN};
use super::{ATTACHMENT_ID_HEADER, ENDPOINT_ID_HEADER, FLOW_COOKIE_HEADER, UDP_PORT, VERSION_AND_LENGTH};

/// What the headers of a plain answer say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Who sent it.
    pub source: u32,
    /// The flow's cookie.
    pub cookie: u32,
    /// The endpoint's 64-bit id (O-4).
    pub endpoint_id: u64,
    /// Where the outer packet, and so the inner one, ends in the frame. It begins at [`OUTER_LEN`].
    pub end: u32,
}

const IP: usize = outer::IP;
const UDP: usize = outer::UDP;
const GENEVE: usize = outer::GENEVE;
const OPTIONS: usize = outer::OPTIONS;

impl Plain {
    /// No answer.
    pub const NONE: Plain = Plain { source: 0, cookie: 0, endpoint_id: 0, end: 0 };

    /// Reads a frame from the target side. `None`: it is not a plain answer to `ours`.
    #[inline(always)]
    pub fn read(frame: &[u8], ours: u32) -> Option<Plain> {
        let headers = frame.first_chunk::<OUTER_LEN>()?;
        #[expect(clippy::cast_possible_truncation, reason = "14 and 20")]
        const LENS: (u32, u32) = (IP as u32, ipv4::HEADER_LEN as u32);
        // EtherType; version, header length and place in the datagram, and with them the total length.
        let front = field64::<IP, _>(headers);
        const FIXED: u64 = 0xff << 56 | (MORE_FRAGMENTS | FRAGMENT_OFFSET) as u64;
        let total_len = (front >> 32) as u32 & 0xffff;
        if field16::<12, _>(headers) != ethertype::IPV4 || front & FIXED != 0x45 << 56 {
            return None;
        }
        // Time to live and protocol, then whom it is for.
        if headers[IP + 8] == 0
            || headers[IP + 9] != protocol::UDP
            || field32::<{ IP + 16 }, _>(headers) != ours
        {
            return None;
        }
        // Destination port, length, no checksum; the source's port is its own affair.
        let udp = field64::<UDP, _>(headers) & 0xffff_ffff_ffff;
        let udp_len = u64::from(total_len.wrapping_sub(LENS.1));
        let end = LENS.0 + total_len;
        if udp != u64::from(UDP_PORT) << 32 | udp_len << 16 || (end as usize) < OUTER_LEN {
            return None;
        }
        if end as usize > frame.len() || field32::<OPTIONS, _>(headers) != ENDPOINT_ID_HEADER {
            return None;
        }
        if field32::<{ OPTIONS + 12 }, _>(headers) != ATTACHMENT_ID_HEADER
            || field32::<{ OPTIONS + 24 }, _>(headers) != FLOW_COOKIE_HEADER
        {
            return None;
        }
        const GENEVE_OF: [u32; 2] = [
            (VERSION_AND_LENGTH as u32) << 16 | ethertype::IPV4 as u32,
            (VERSION_AND_LENGTH as u32) << 16 | ethertype::IPV6 as u32,
        ];
        let geneve = field32::<GENEVE, _>(headers);
        if geneve != GENEVE_OF[0] && geneve != GENEVE_OF[1] {
            return None;
        }
        let (_, header) = headers.first_chunk::<UDP>()?.split_last_chunk::<{ ipv4::HEADER_LEN }>()?;
        if !checksum::header_is_right(header) {
            return None;
        }
        Some(Plain {
            source: field32::<{ IP + 12 }, _>(headers),
            cookie: field32::<{ OPTIONS + 28 }, _>(headers),
            endpoint_id: field64::<{ OPTIONS + 4 }, _>(headers),
            end,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::super::super::ethernet::{Link, MacAddr};
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

    /// What the careful readers say, in the terms of the plain one.
    fn carefully(frame: &[u8]) -> Option<Plain> {
        let link = Link::parse(frame).ok().filter(|link| link.ethertype == ethertype::IPV4)?;
        let ip = frame.get(usize::from(link.header_len)..)?;
        let outer = outer::parse(ip).ok().filter(|outer| outer.dst_ip == OURS)?;
        let geneve = super::super::parse(outer.payload(ip)).ok()?;
        let end = u16::from(link.header_len) + outer.udp_payload_offset + outer.udp_payload_len;
        Some(Plain {
            source: outer.src_ip,
            cookie: geneve.cookie,
            endpoint_id: geneve.endpoint_id,
            end: end.into(),
        })
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
            let (plain, careful) = (Plain::read(&frame, OURS), carefully(&frame));
            prop_assert!(plain.is_none() || plain == careful, "{:?} and {:?}", plain, careful);
            if change.is_none() && cut.is_none() {
                prop_assert!(plain.is_some());
            }
        }
    }

    #[test]
    fn an_answer_to_another_is_none() {
        assert!(Plain::read(&answer(40, 0, (0x0800, 1)), OURS).is_some());
        assert!(Plain::read(&answer(40, 0, (0x0800, 1)), OURS + 1).is_none());
    }
}
