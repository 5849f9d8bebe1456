//! Interfaces: the places where a routed endpoint, or the target side, is on a network.
//!
//! An [`Interface`] is one port under one [`VlanTags`], with a link-layer address, an MTU and the addresses
//! that the host's kernel holds on it. Wires have none: a wire takes its whole port, whatever the tags.
//! `read_arrival` asks [`find`] of every frame at a routed port and judges by what it finds.

use std::net::IpAddr;

use arrayvec::ArrayVec;

use super::arrival::Unread;
use super::counters::DropReason;
use super::forwarding::{Forwarding, PortRole};
use crate::id::{EndpointId, InterfaceId, PortId};
use crate::wire::ethernet::{self, HEADER_LEN, Link, MacAddr, VLAN_TAG_LEN, ethertype};
use crate::wire::packet::{IpVersion, Packet};
use crate::wire::ttl;

/// The largest VLAN identifier (IEEE 802.1Q-2022 9.6: 0 is no VLAN and 4095 is reserved).
pub const MAX_VLAN: u16 = 4094;

/// The VLAN identifiers of an interface, outer first: none, one (802.1Q) or two (802.1ad).
///
/// A tag with identifier 0 carries a priority and no VLAN, so it counts as no tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct VlanTags(u32);

impl VlanTags {
    /// A frame without a tag.
    pub const UNTAGGED: VlanTags = VlanTags(0);

    /// These identifiers, outer first. `None`: more than two, or one that is not 1 to [`MAX_VLAN`].
    pub fn new(identifiers: &[u16]) -> Option<VlanTags> {
        if identifiers.len() > 2 || identifiers.iter().any(|id| *id == 0 || *id > MAX_VLAN) {
            return None;
        }
        Some(identifiers.iter().fold(VlanTags::UNTAGGED, |tags, id| tags.with(*id)))
    }

    /// One tag more, inside the others. Identifier 0 changes nothing; a third is not kept.
    #[inline]
    #[must_use]
    fn with(self, identifier: u16) -> VlanTags {
        match self.0 {
            0 => VlanTags(u32::from(identifier) << 16),
            outer if outer & 0xffff == 0 => VlanTags(outer | u32::from(identifier)),
            _ => self,
        }
    }

    /// The tags of a frame whose link header was read.
    #[inline]
    pub fn of(frame: &[u8], link: &Link) -> VlanTags {
        let tag = |number: u8| {
            let at = HEADER_LEN + usize::from(number) * VLAN_TAG_LEN;
            frame.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |tag| u16::from_be_bytes(*tag))
        };
        // The four bits above the identifier are the priority and the drop mark.
        (0..link.vlan_tags).fold(VlanTags::UNTAGGED, |tags, number| tags.with(tag(number) & 0x0fff))
    }

    /// The tags as they stand in a frame, between its addresses and its EtherType: one is 802.1Q's, of two
    /// the outer is 802.1ad's service tag. Priority 0.
    #[inline]
    pub fn bytes(self) -> ArrayVec<u8, 8> {
        let identifiers = self.identifiers();
        let mut bytes = ArrayVec::new();
        for (number, identifier) in identifiers.iter().enumerate() {
            let service = number + 1 < identifiers.len();
            let protocol = if service { ethertype::SERVICE_VLAN } else { ethertype::VLAN };
            bytes.extend(protocol.to_be_bytes());
            bytes.extend(identifier.to_be_bytes());
        }
        bytes
    }

    /// How many there are.
    #[inline]
    pub fn count(self) -> usize {
        usize::from(self.0 != 0) + usize::from(self.0 & 0xffff != 0)
    }

    /// The identifiers, outer first.
    #[inline]
    pub fn identifiers(self) -> ArrayVec<u16, 2> {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves, one by one")]
        let halves = [(self.0 >> 16) as u16, self.0 as u16];
        halves.into_iter().filter(|id| *id != 0).collect()
    }
}

/// The addresses that the kernel holds on an interface. What is sent to them is the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locals {
    v4: Box<[u32]>,
    v6: Box<[u128]>,
}

impl Locals {
    /// Whether the kernel holds this address; IPv4 in the low 32 bits.
    #[inline]
    pub fn contains(&self, version: IpVersion, address: u128) -> bool {
        match version {
            IpVersion::V4 => u32::try_from(address).is_ok_and(|address| self.v4.contains(&address)),
            IpVersion::V6 => self.v6.contains(&address),
        }
    }

    /// The address that the gateway speaks with on this interface when it must speak itself: the first
    /// that is good beyond the link.
    pub fn first(&self, version: IpVersion) -> Option<u128> {
        match version {
            IpVersion::V4 => self.v4.first().copied().map(u128::from),
            IpVersion::V6 => self.v6.iter().copied().find(|address| address >> 118 != 0xfe80 >> 6),
        }
    }
}

impl FromIterator<IpAddr> for Locals {
    /// These addresses, in this order.
    fn from_iter<T: IntoIterator<Item = IpAddr>>(addresses: T) -> Locals {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) => v4.push(address.to_bits()),
                IpAddr::V6(address) => v6.push(address.to_bits()),
            }
        }
        Locals { v4: v4.into(), v6: v6.into() }
    }
}

/// One place where the gateway is on a network.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The port.
    pub port: PortId,
    /// The tags that its frames have there.
    pub tags: VlanTags,
    /// The port's link-layer address.
    pub mac: MacAddr,
    /// The largest IP packet that leaves by it.
    pub mtu: u16,
    /// The routed endpoint; `None` for the target side.
    pub endpoint: Option<EndpointId>,
    /// Whether the kernel sees what arrives at the port as well (`net_af_packet`), so that what is the
    /// host's needs no handing over.
    pub host_shares: bool,
    /// The kernel's addresses on it.
    pub locals: Locals,
}

impl Interface {
    /// Bytes of a frame's link header there.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.tags.count() * VLAN_TAG_LEN
    }
}

/// The interfaces of a port, sorted by their tags.
pub type PortInterfaces = Box<[(VlanTags, InterfaceId)]>;

/// The interface under these tags.
#[inline]
pub fn find(interfaces: &[(VlanTags, InterfaceId)], tags: VlanTags) -> Option<InterfaceId> {
    let place = interfaces.binary_search_by_key(&tags, |(tags, _)| *tags).ok()?;
    interfaces.get(place).map(|(_, id)| *id)
}

/// The address that an ICMP error about a packet comes from: the gateway's own where it came in, or, as a
/// wire has none, the one that the packet was going to.
pub fn speaker(forwarding: &Forwarding, interface: Option<InterfaceId>, about: &Packet) -> u128 {
    interface
        .and_then(|id| forwarding.interface(id))
        .and_then(|interface| interface.locals.first(about.version))
        .unwrap_or(about.dst)
}

/// The endpoint whose packets come in by a port under this link header, and whether it is a routed one.
pub fn endpoint_at(forwarding: &Forwarding, port: PortId, header: &[u8]) -> Option<(EndpointId, bool)> {
    match forwarding.ports.get(port.index())? {
        PortRole::Wire { endpoint, .. } => Some((*endpoint, false)),
        PortRole::Routed(interfaces) => {
            let link = Link::parse(header).ok()?;
            let id = find(interfaces, VlanTags::of(header, &link))?;
            Some((forwarding.interface(id)?.endpoint?, true))
        }
        PortRole::Unused | PortRole::Underlay => None,
    }
}

/// The interface that a frame at a routed port came in by, and its endpoint. A frame to a group is the
/// host's: a router forwards none.
#[inline]
pub fn admit<'a>(
    forwarding: &'a Forwarding,
    interfaces: &[(VlanTags, InterfaceId)],
    frame: &[u8],
    link: &Link,
) -> Result<(InterfaceId, EndpointId, &'a Interface), Unread> {
    let unknown = Unread::Drop(DropReason::VlanUnknown);
    let id = find(interfaces, VlanTags::of(frame, link)).ok_or(unknown)?;
    let interface = forwarding.interface(id).ok_or(unknown)?;
    if ethernet::is_group_addressed(frame) {
        return Err(Unread::Host(id));
    }
    if frame.first_chunk() != Some(&interface.mac.0) {
        return Err(Unread::Drop(DropReason::NotOurMac));
    }
    Ok((id, interface.endpoint.ok_or(Unread::Host(id))?, interface))
}

/// Whether an IP packet that came in by an interface is one that a router sends on: not the host's, not
/// from or to an address that leads nowhere, and not at the end of its time.
#[inline]
pub fn judge(id: InterfaceId, interface: &Interface, packet: &Packet, ip: &[u8]) -> Result<(), Unread> {
    if packet.is_link_scope() || interface.locals.contains(packet.version, packet.dst) {
        return Err(Unread::Host(id));
    }
    if packet.is_martian() || packet.is_multicast_or_broadcast() {
        return Err(Unread::Drop(DropReason::Martian));
    }
    if ttl::get(ip, packet.version) <= 1 {
        return Err(Unread::TimeExceeded(id)); // W-6
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(identifiers: &[u16]) -> VlanTags {
        VlanTags::new(identifiers).unwrap()
    }

    #[test]
    fn tags_are_what_they_were_made_of() {
        for identifiers in [&[][..], &[1], &[4094], &[1, 1], &[100, 7], &[7, 100]] {
            assert_eq!(tags(identifiers).identifiers().as_slice(), identifiers);
            assert_eq!(tags(identifiers).count(), identifiers.len());
        }
        for refused in [&[0][..], &[4095], &[1, 0], &[1, 2, 3]] {
            assert_eq!(VlanTags::new(refused), None);
        }
    }

    #[test]
    fn a_frame_has_the_tags_that_its_header_has_but_for_priority_and_drop_marks() {
        for (types, expected) in [
            (&[0x0800][..], &[][..]),
            (&[0x8100, 0x0064, 0x0800], &[100]),
            (&[0x8100, 0xf064, 0x86dd], &[100]),
            (&[0x88a8, 0x0007, 0x8100, 0x6064, 0x0800], &[7, 100]),
            (&[0x8100, 0x0007, 0x8100, 0x0064, 0x0800], &[7, 100]),
            (&[0x8100, 0xe000, 0x0800], &[]),
            (&[0x88a8, 0x0007, 0x8100, 0x2000, 0x0800], &[7]),
        ] {
            let mut frame = vec![2; 12];
            types.iter().for_each(|word: &u16| frame.extend(word.to_be_bytes()));
            let link = Link::parse(&frame).unwrap();
            assert_eq!(VlanTags::of(&frame, &link), tags(expected), "{types:x?}");
        }
    }

    #[test]
    fn tags_are_written_as_the_standards_draw_them() {
        assert!(tags(&[]).bytes().is_empty());
        assert_eq!(tags(&[0x123]).bytes().as_slice(), [0x81, 0x00, 0x01, 0x23]);
        assert_eq!(tags(&[0x123, 7]).bytes().as_slice(), [0x88, 0xa8, 0x01, 0x23, 0x81, 0x00, 0x00, 7]);
    }

    // O-4
    #[test]
    fn an_interface_is_found_by_its_tags_alone() {
        let mut interfaces: Vec<(VlanTags, InterfaceId)> = [&[][..], &[5], &[5, 6], &[6], &[6, 5]]
            .into_iter()
            .map(tags)
            .zip((0..).map(InterfaceId))
            .collect();
        interfaces.sort();
        for (tags, id) in interfaces.clone() {
            assert_eq!(find(&interfaces, tags), Some(id));
        }
        assert_eq!(find(&interfaces, tags(&[7])), None);
        assert_eq!(find(&interfaces[1..], VlanTags::UNTAGGED), None);
    }

    #[test]
    fn what_the_gateway_says_itself_does_not_come_from_a_link_local_address() {
        let locals: Locals =
            ["fe80::1", "10.1.0.1", "2001:db8::1", "10.2.0.1"].iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(locals.first(IpVersion::V4), Some(0x0a01_0001));
        assert_eq!(locals.first(IpVersion::V6), Some(0x2001_0db8 << 96 | 1));
        assert!(locals.contains(IpVersion::V4, 0x0a02_0001) && !locals.contains(IpVersion::V6, 0x0a02_0001));
        assert!(locals.contains(IpVersion::V6, 0xfe80 << 112 | 1));
        assert_eq!(Locals::default().first(IpVersion::V4), None);
    }
}
