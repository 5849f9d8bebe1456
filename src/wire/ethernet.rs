//! Ethernet II and up to two VLAN tags (802.1Q 0x8100, 802.1ad 0x88A8). [`Link`] says where a frame's
//! payload starts and what it is; the pipeline asks it first of every frame. [`MacAddr`] is for
//! configuration and templates, not for the hot path.

#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::load::be16;

/// EtherTypes that Flowgate tells apart.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86DD;
    /// An 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88A8;
}

/// Bytes of an Ethernet header without tags.
pub const HEADER_LEN: usize = 14;
/// Bytes of the two addresses, which any tags come after.
pub const ADDRESSES_LEN: usize = 12;
/// Bytes of one VLAN tag.
pub const VLAN_TAG_LEN: usize = 4;
/// Tags that are looked through. A third one is left as the frame's EtherType, so the frame counts as
/// not IP.
pub const MAX_VLAN_TAGS: u8 = 2;

/// The frame ends inside its link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cut inside the Ethernet header")]
pub struct Truncated;

/// Where a frame's payload starts and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes before the payload: 14, 18 or 22.
    pub header_len: u8,
    /// EtherType of the payload, after the tags.
    pub ethertype: u16,
    /// VLAN tags passed over: 0, 1 or 2.
    pub vlan_tags: u8,
}

impl Link {
    /// Reads a frame's link header. The payload may still be empty.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Link, Truncated> {
        let header = frame.first_chunk::<HEADER_LEN>().ok_or(Truncated)?;
        let ethertype = u16::from_be_bytes([header[12], header[13]]);
        if ethertype == ethertype::IPV4 || ethertype == ethertype::IPV6 {
            return Ok(Link { header_len: 14, ethertype, vlan_tags: 0 });
        }
        Link::parse_tagged(frame, ethertype)
    }

    /// The rarer frames: tagged, or not IP.
    fn parse_tagged(frame: &[u8], mut ethertype: u16) -> Result<Link, Truncated> {
        let mut header_len: u8 = 14;
        let mut vlan_tags = 0;
        while vlan_tags < MAX_VLAN_TAGS && matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN) {
            ethertype = be16(frame, usize::from(header_len) + 2).ok_or(Truncated)?;
            header_len += 4;
            vlan_tags += 1;
        }
        Ok(Link { header_len, ethertype, vlan_tags })
    }
}

/// Exchanges a frame's destination and source addresses: the answer goes back the way the packet
/// came. A frame too short to have both stays as it is.
#[inline]
pub fn swap_addresses(frame: &mut [u8]) {
    let Some(addresses) = frame.first_chunk_mut::<12>() else { return };
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *addresses;
    let front = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let back = u32::from_be_bytes([i, j, k, l]);
    let new_front = (front << 48) | (u64::from(back) << 16) | (front >> 48);
    #[expect(clippy::cast_possible_truncation, reason = "the middle four bytes of the eight")]
    let new_back = (front >> 16) as u32;
    if let Some(out) = addresses.first_chunk_mut::<8>() {
        *out = new_front.to_be_bytes();
    }
    if let Some(out) = addresses.last_chunk_mut::<4>() {
        *out = new_back.to_be_bytes();
    }
}

/// Whether the frame is addressed to a group (multicast or broadcast): such a frame's packet is never
/// answered with a reset, even if its IP destination looks like a host's.
#[inline]
pub fn is_group_addressed(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 != 0)
}

/// A link-layer address.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Everybody on the link.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Multicast or broadcast.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is no link-layer address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a link-layer address, expected six pairs of hexadecimal digits as in 02:00:00:00:00:01"
)]
pub struct BadMacAddr(pub String);

impl FromStr for MacAddr {
    type Err = BadMacAddr;

    fn from_str(text: &str) -> Result<MacAddr, BadMacAddr> {
        let refused = || BadMacAddr(text.to_owned());
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or_else(refused)?;
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(refused());
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| refused())?;
        }
        if parts.next().is_some() { Err(refused()) } else { Ok(MacAddr(octets)) }
    }
}

impl TryFrom<String> for MacAddr {
    type Error = BadMacAddr;

    fn try_from(text: String) -> Result<MacAddr, BadMacAddr> {
        text.parse()
    }
}

impl From<MacAddr> for String {
    fn from(address: MacAddr) -> String {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(types: &[u16]) -> Vec<u8> {
        let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1];
        for (nth, ethertype) in types.iter().enumerate() {
            if nth > 0 {
                frame.extend([0x20, 0x64]);
            }
            frame.extend(ethertype.to_be_bytes());
        }
        frame
    }

    // O-4
    #[test]
    fn tags_of_both_kinds_are_passed_over() {
        let parsed = |types: &[u16]| Link::parse(&frame(types)).unwrap();
        let link = |header_len, ethertype, vlan_tags| Link { header_len, ethertype, vlan_tags };
        assert_eq!(parsed(&[0x0800]), link(14, 0x0800, 0));
        assert_eq!(parsed(&[0x0806]), link(14, 0x0806, 0));
        assert_eq!(parsed(&[0x8100, 0x86dd]), link(18, 0x86dd, 1));
        assert_eq!(parsed(&[0x88a8, 0x8100, 0x0800]), link(22, 0x0800, 2));
    }

    // O-4
    #[test]
    fn a_third_tag_is_left_so_that_the_frame_counts_as_not_ip() {
        let link = Link::parse(&frame(&[0x8100, 0x8100, 0x8100, 0x0800])).unwrap();
        assert_eq!(link, Link { header_len: 22, ethertype: 0x8100, vlan_tags: 2 });
    }

    #[test]
    fn a_frame_cut_anywhere_in_its_link_header_is_refused() {
        for types in [&[0x0800][..], &[0x8100, 0x0800], &[0x88a8, 0x8100, 0x86dd]] {
            let whole = frame(types);
            for len in 0..whole.len() {
                assert_eq!(Link::parse(&whole[..len]), Err(Truncated), "{types:x?} cut to {len}");
            }
            assert_eq!(usize::from(Link::parse(&whole).unwrap().header_len), whole.len());
        }
    }

    //
    #[test]
    fn group_addresses_are_told_from_a_hosts() {
        assert!(is_group_addressed(&[0xff; 14]) && is_group_addressed(&[0x01, 0, 0x5e, 0, 0, 1]));
        assert!(!is_group_addressed(&frame(&[0x0800])) && !is_group_addressed(&[]));
        assert!(MacAddr::BROADCAST.is_group() && !MacAddr([2, 0, 0, 0, 0, 1]).is_group());
    }

    #[test]
    fn an_address_is_read_only_from_six_pairs_of_digits() {
        assert_eq!("02:00:00:0A:b0:ff".parse(), Ok(MacAddr([2, 0, 0, 0x0a, 0xb0, 0xff])));
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "2:0:0:0:0:1",
            "02:00:00:00:00:0g",
            "+2:00:00:00:00:01",
        ] {
            assert_eq!(wrong.parse::<MacAddr>(), Err(BadMacAddr(wrong.to_owned())));
        }
    }

    proptest! {
        //
        #[test]
        fn swapping_exchanges_the_addresses_and_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut swapped = bytes.clone();
            swap_addresses(&mut swapped);
            let expected = match bytes.len() {
                ..12 => bytes.clone(),
                _ => [&bytes[6..12], &bytes[..6], &bytes[12..]].concat(),
            };
            prop_assert_eq!(swapped, expected);
        }

        #[test]
        fn an_address_survives_text_and_json(octets: [u8; 6]) {
            let address = MacAddr(octets);
            prop_assert_eq!(address.to_string().parse::<MacAddr>(), Ok(address));
            let json = serde_json::to_string(&address).unwrap();
            prop_assert_eq!(&json, &format!("\"{address}\""));
            prop_assert_eq!(serde_json::from_str::<MacAddr>(&json).unwrap(), address);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(link) = Link::parse(&bytes) {
                prop_assert!(usize::from(link.header_len) <= bytes.len());
                prop_assert_eq!(link.header_len, 14 + 4 * link.vlan_tags);
            }
        }
    }
}
