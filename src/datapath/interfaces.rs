//! Interfaces: the places where a routed endpoint, or the target side, is on a network.
//!
//! An [`Interface`] is one port under one [`VlanTags`], with a link-layer address, an MTU and the addresses
//! that the host's kernel holds on it. Wires have none: a wire takes its whole port, whatever the tags.
//! `read_arrival` asks [`find`] of every frame at a routed port and judges by what it finds.

use std::net::IpAddr;

use arrayvec::ArrayVec;

use crate::id::{EndpointId, InterfaceId, PortId};
use crate::wire::ethernet::MacAddr;
use crate::wire::packet::IpVersion;

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

/// The interfaces of a port, sorted by their tags.
pub type PortInterfaces = Box<[(VlanTags, InterfaceId)]>;

/// The interface under these tags.
#[inline]
pub fn find(interfaces: &[(VlanTags, InterfaceId)], tags: VlanTags) -> Option<InterfaceId> {
    let place = interfaces.binary_search_by_key(&tags, |(tags, _)| *tags).ok()?;
    interfaces.get(place).map(|(_, id)| *id)
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
        }
        for refused in [&[0][..], &[4095], &[1, 0], &[1, 2, 3]] {
            assert_eq!(VlanTags::new(refused), None);
        }
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
