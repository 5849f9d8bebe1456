//! A worker's table of neighbours: which link-layer address the next hop of a packet has.
//!
//! The kernel resolves neighbours and the control core tells every worker what it learns
//! (`ToWorker::Neighbour`); a look-up is a hash and, as the table is never more than half full, nearly always
//! one cache line. All memory is taken at the start. The hash is keyed, so nobody on a link can choose
//! addresses that make look-ups long.

use std::net::IpAddr;

use crate::flow::HashSeed;
use crate::id::InterfaceId;
use crate::wire::ethernet::MacAddr;
use crate::wire::packet::IpVersion;

/// Neighbours that a worker knows at most, over all interfaces: as many as a /16 has on one link.
pub const NEIGHBOURS: usize = 65_536;

/// Slots looked at for one neighbour at most.
const MAX_PROBE: usize = 64;

/// A next hop: an address on the link of an interface. The same address on two interfaces is two of them
/// (O-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The interface.
    pub interface: InterfaceId,
    /// Which IP the address is of.
    pub version: IpVersion,
    /// The address; IPv4 in the low 32 bits.
    pub address: u128,
}

impl NextHop {
    /// The next hop of this address.
    #[inline]
    pub fn new(interface: InterfaceId, address: IpAddr) -> NextHop {
        let (version, address) = match address {
            IpAddr::V4(address) => (IpVersion::V4, u128::from(address.to_bits())),
            IpAddr::V6(address) => (IpVersion::V6, address.to_bits()),
        };
        NextHop { interface, version, address }
    }

    /// The address as the control core has it.
    pub fn ip(&self) -> IpAddr {
        #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address is in the low 32 bits")]
        match self.version {
            IpVersion::V4 => IpAddr::V4((self.address as u32).into()),
            IpVersion::V6 => IpAddr::V6(self.address.into()),
        }
    }

    /// A hash that nobody outside can foretell.
    #[inline]
    pub fn hash(&self, seed: &HashSeed) -> u64 {
        let [high, low] = halves(self.address);
        let version = u64::from(self.version == IpVersion::V6);
        // Multiplied, so that the interface changes bits that no address can change back.
        let place = (u64::from(self.interface.0) << 1 | version).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        seed.pair(seed.pair(high, place), low)
    }
}

/// 32 bytes, half a cache line: the address in two halves, as a `u128` would be aligned to 16.
#[derive(Clone, Copy)]
struct Slot {
    address: [u64; 2],
    interface: InterfaceId,
    version: IpVersion,
    mac: MacAddr,
}

const _: () = assert!(size_of::<Option<Slot>>() == 32);

impl Slot {
    fn new(hop: NextHop, mac: MacAddr) -> Slot {
        let NextHop { interface, version, address } = hop;
        Slot { address: halves(address), interface, version, mac }
    }

    #[inline]
    fn is(&self, hop: &NextHop) -> bool {
        self.address == halves(hop.address) && self.interface == hop.interface && self.version == hop.version
    }

    fn hop(&self) -> NextHop {
        let [high, low] = self.address.map(u128::from);
        NextHop { interface: self.interface, version: self.version, address: high << 64 | low }
    }
}

/// An address's halves, the high one first.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "one half after the other")]
fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

/// The table.
pub struct Neighbours {
    slots: Box<[Option<Slot>]>,
    seed: HashSeed,
    len: usize,
}

impl Neighbours {
    /// Room for `capacity` neighbours (at least one), hashed under `seed`.
    pub fn new(capacity: usize, seed: HashSeed) -> Neighbours {
        let count = (capacity.max(1) * 2).next_power_of_two();
        Neighbours { slots: vec![None; count].into(), seed, len: 0 }
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The link-layer address of a next hop, if it is known.
    #[inline]
    pub fn get(&self, hop: &NextHop) -> Option<MacAddr> {
        let mut at = self.home(hop);
        for _ in 0..MAX_PROBE {
            match self.slots.get(at)? {
                Some(slot) if slot.is(hop) => return Some(slot.mac),
                Some(_) => at = self.after(at),
                None => return None,
            }
        }
        None
    }

    /// Notes a neighbour's link-layer address, in place of the one before. False if there is no room.
    pub fn set(&mut self, hop: NextHop, mac: MacAddr) -> bool {
        let mut at = self.home(&hop);
        for _ in 0..MAX_PROBE {
            let full = self.len >= self.slots.len() / 2;
            let after = self.after(at);
            match self.slots.get_mut(at) {
                Some(Some(slot)) if slot.is(&hop) => {
                    slot.mac = mac;
                    return true;
                }
                Some(empty @ None) if !full => {
                    *empty = Some(Slot::new(hop, mac));
                    self.len += 1;
                    return true;
                }
                Some(Some(_)) => at = after,
                Some(None) | None => return false,
            }
        }
        false
    }

    /// Forgets a neighbour.
    pub fn remove(&mut self, hop: &NextHop) {
        let mut at = self.home(hop);
        for _ in 0..MAX_PROBE {
            match self.slots.get(at) {
                Some(Some(slot)) if slot.is(hop) => return self.clear(at),
                Some(Some(_)) => at = self.after(at),
                Some(None) | None => return,
            }
        }
    }

    /// Empties a slot and moves what lies behind it up, so that no look-up ends too early.
    fn clear(&mut self, mut gap: usize) {
        self.len -= 1;
        let mut at = self.after(gap);
        // The table is half empty, so a run ends soon.
        while let Some(Some(slot)) = self.slots.get(at).copied() {
            let mask = self.slots.len() - 1;
            let from_home = at.wrapping_sub(self.home(&slot.hop())) & mask;
            let from_gap = at.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                if let Some(free) = self.slots.get_mut(gap) {
                    *free = Some(slot);
                }
                gap = at;
            }
            at = self.after(at);
        }
        if let Some(free) = self.slots.get_mut(gap) {
            *free = None;
        }
    }

    #[inline]
    fn home(&self, hop: &NextHop) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of slots")]
        let hash = hop.hash(&self.seed) as usize;
        hash & (self.slots.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn table(capacity: usize) -> Neighbours {
        Neighbours::new(capacity, HashSeed::from_secret(b"a secret of sixteen"))
    }

    fn hop(interface: u16, address: &str) -> NextHop {
        NextHop::new(InterfaceId(interface), address.parse().unwrap())
    }

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, n])
    }

    // O-4
    #[test]
    fn an_address_on_two_interfaces_is_two_neighbours_and_so_it_is_in_two_versions() {
        let mut table = table(16);
        let hops = [hop(0, "10.0.0.1"), hop(1, "10.0.0.1"), hop(0, "::10.0.0.1")];
        for (n, hop) in (0..).zip(hops) {
            assert_eq!(table.get(&hop), None);
            assert!(table.set(hop, mac(n)));
        }
        for (n, hop) in (0..).zip(hops) {
            assert_eq!(table.get(&hop), Some(mac(n)));
            assert_eq!(NextHop::new(hop.interface, hop.ip()), hop);
        }
    }

    #[test]
    fn a_full_table_takes_no_more_but_follows_those_it_knows() {
        let mut table = table(4);
        let hops: Vec<NextHop> = (0..20).map(|n| hop(n, "10.0.0.1")).collect();
        let taken: Vec<&NextHop> = hops.iter().filter(|hop| table.set(**hop, mac(1))).collect();
        assert_eq!((taken.len(), table.len()), (4, 4));
        assert!(table.set(*taken[0], mac(2)), "another link-layer address of a known one");
        assert_eq!(table.get(taken[0]), Some(mac(2)));
        table.remove(taken[1]);
        assert!(table.set(hops[19], mac(3)));
        assert_eq!(table.get(&hops[19]), Some(mac(3)));
    }

    #[test]
    fn as_many_as_promised_find_room() {
        let mut table = table(NEIGHBOURS);
        for n in 0..NEIGHBOURS as u128 {
            let hop = NextHop { interface: InterfaceId(1), version: IpVersion::V6, address: n };
            assert!(table.set(hop, mac(1)), "number {n}");
        }
        assert_eq!(table.len(), NEIGHBOURS);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_map(
            steps in prop::collection::vec((0u8..4, 0u16..3, 0u32..24, any::<u8>()), 1..400),
        ) {
            let mut table = table(16);
            let mut map: HashMap<NextHop, MacAddr> = HashMap::new();
            for (what, interface, address, n) in steps {
                let hop = NextHop::new(InterfaceId(interface), IpAddr::V4(address.into()));
                if what == 0 {
                    table.remove(&hop);
                    map.remove(&hop);
                } else if table.set(hop, mac(n)) {
                    map.insert(hop, mac(n));
                } else {
                    prop_assert!(map.len() == 16 && !map.contains_key(&hop));
                }
                prop_assert_eq!(table.len(), map.len());
                for (hop, mac) in &map {
                    prop_assert_eq!(table.get(hop), Some(*mac));
                }
                prop_assert_eq!(table.get(&hop), map.get(&hop).copied());
            }
        }
    }
}
