//! The routes of a routed endpoint: an immutable longest-prefix table (O-4).
//!
//! Prefixes that nest are cut into ranges that do not overlap, so a look-up is one binary search over
//! starts of ranges that lie side by side: 17 steps for 100,000 routes. The control core makes a table
//! from the configuration, `leaving` asks it for every packet that leaves by a routed endpoint.

use std::net::IpAddr;
use std::sync::Arc;

use crate::id::InterfaceId;
use crate::wire::packet::IpVersion;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The interface that it leaves by.
    pub interface: InterfaceId,
    /// The router that it is given to, of the packet's own IP version; `None`: the destination is on the
    /// interface's link.
    pub via: Option<IpAddr>,
}

/// One route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The prefix's address; bits beyond `length` do not count.
    pub prefix: IpAddr,
    /// Bits of the prefix: 0 to 32 or 128; more counts as that.
    pub length: u8,
    /// Where what is inside goes.
    pub hop: Hop,
}

/// The routes of an endpoint. A clone shares them: they go from one forwarding state to the next as they are.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

/// Ranges that do not overlap: range `n` begins at `starts[n]`, ends before the next and leads to `hops[n]`.
#[derive(Clone, Debug, Default)]
struct Ranges<A> {
    starts: Arc<[A]>,
    hops: Arc<[Option<Hop>]>,
}

impl Routes {
    /// A table of these routes. Of two with the same prefix the later one counts.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Routes {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for Route { prefix, length, hop } in routes {
            match prefix {
                IpAddr::V4(prefix) => {
                    let inside = u32::MAX.checked_shr(length.into()).unwrap_or(0);
                    v4.push((prefix.to_bits() & !inside, prefix.to_bits() | inside, hop));
                }
                IpAddr::V6(prefix) => {
                    let inside = u128::MAX.checked_shr(length.into()).unwrap_or(0);
                    v6.push((prefix.to_bits() & !inside, prefix.to_bits() | inside, hop));
                }
            }
        }
        Routes { v4: Ranges::new(v4), v6: Ranges::new(v6) }
    }

    /// Where a packet to `destination` goes; IPv4 in the low 32 bits. `None`: there is no route.
    #[inline]
    pub fn find(&self, version: IpVersion, destination: u128) -> Option<Hop> {
        #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address is in the low 32 bits")]
        match version {
            IpVersion::V4 => self.v4.find(destination as u32),
            IpVersion::V6 => self.v6.find(destination),
        }
    }
}

impl<A: Address> Ranges<A> {
    /// Cuts prefixes, given by their first and last addresses, into ranges.
    fn new(mut prefixes: Vec<(A, A, Hop)>) -> Ranges<A> {
        // An outer prefix comes before those inside it; of equal ones the later stays last and so wins.
        prefixes.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut ranges = vec![(A::default(), None)];
        // The prefixes that the address at hand is in, innermost last.
        let mut open: Vec<(A, Hop)> = Vec::new();
        for (first, last, hop) in prefixes {
            close(&mut open, &mut ranges, |end| end < first);
            begin(&mut ranges, first, Some(hop));
            open.push((last, hop));
        }
        close(&mut open, &mut ranges, |_| true);
        let (starts, hops): (Vec<A>, Vec<Option<Hop>>) = ranges.into_iter().unzip();
        Ranges { starts: starts.into(), hops: hops.into() }
    }

    #[inline]
    fn find(&self, address: A) -> Option<Hop> {
        let after = self.starts.partition_point(|start| *start <= address);
        *self.hops.get(after.checked_sub(1)?)?
    }
}

/// From `start` on everything leads to `hop`, until told otherwise.
fn begin<A: Address>(ranges: &mut Vec<(A, Option<Hop>)>, start: A, hop: Option<Hop>) {
    ranges.pop_if(|range| range.0 == start);
    if ranges.last().is_none_or(|range| range.1 != hop) {
        ranges.push((start, hop));
    }
}

/// Ends the innermost prefixes as long as their last addresses are `over`: what follows each leads where
/// the prefix around it does.
fn close<A: Address>(open: &mut Vec<(A, Hop)>, ranges: &mut Vec<(A, Option<Hop>)>, over: impl Fn(A) -> bool) {
    while let Some((end, _)) = open.pop_if(|(end, _)| over(*end)) {
        if let Some(next) = end.next() {
            begin(ranges, next, open.last().map(|(_, hop)| *hop));
        }
    }
}

/// An address as a number.
trait Address: Copy + Ord + Default {
    /// The next one; `None` after the last.
    fn next(self) -> Option<Self>;
}

impl Address for u32 {
    fn next(self) -> Option<u32> {
        self.checked_add(1)
    }
}

impl Address for u128 {
    fn next(self) -> Option<u128> {
        self.checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn hop(interface: u16) -> Hop {
        Hop { interface: InterfaceId(interface), via: None }
    }

    fn route(prefix: &str, length: u8, interface: u16) -> Route {
        Route { prefix: prefix.parse().unwrap(), length, hop: hop(interface) }
    }

    fn found(routes: &Routes, address: &str) -> Option<u16> {
        let hop = match address.parse().unwrap() {
            IpAddr::V4(address) => routes.find(IpVersion::V4, address.to_bits().into()),
            IpAddr::V6(address) => routes.find(IpVersion::V6, address.to_bits()),
        };
        hop.map(|hop| hop.interface.0)
    }

    // O-4
    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let mut all = [
            route("0.0.0.0", 0, 1),
            route("10.0.0.0", 8, 2),
            route("10.1.0.0", 16, 3),
            route("10.1.2.3", 32, 4),
            route("255.255.255.255", 32, 5),
            route("2001:db8::", 32, 6),
            route("2001:db8:0:1::", 64, 7),
        ];
        for _ in 0..2 {
            let routes = Routes::new(all);
            for (address, interface) in [
                ("9.255.255.255", 1),
                ("10.0.255.255", 2),
                ("10.1.0.0", 3),
                ("10.1.2.2", 3),
                ("10.1.2.3", 4),
                ("10.1.2.4", 3),
                ("10.1.255.255", 3),
                ("10.2.0.0", 2),
                ("11.0.0.0", 1),
                ("255.255.255.254", 1),
                ("255.255.255.255", 5),
                ("2001:db8::1", 6),
                ("2001:db8:0:1:ffff::", 7),
            ] {
                assert_eq!(found(&routes, address), Some(interface), "{address}");
            }
            assert_eq!(found(&routes, "2001:db9::"), None, "no default route for IPv6");
            assert_eq!(found(&routes, "::1"), None);
            all.reverse();
        }
    }

    #[test]
    fn of_two_routes_to_one_prefix_the_later_counts_and_none_lead_nowhere() {
        let routes = Routes::new([route("10.1.1.0", 8, 1), route("10.0.0.0", 8, 2)]);
        assert_eq!(found(&routes, "10.9.9.9"), Some(2));
        assert_eq!(found(&Routes::default(), "10.9.9.9"), None);
        assert_eq!(found(&Routes::new([]), "10.9.9.9"), None);
    }

    /// The longest of the prefixes that an address is in, the last of equal ones, by looking at all.
    fn by_looking_at_all(routes: &[Route], address: IpAddr) -> Option<Hop> {
        let inside = |route: &&Route| match (route.prefix, address) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                (0..route.length.min(32)).all(|bit| (prefix.to_bits() ^ address.to_bits()) << bit >> 31 == 0)
            }
            (IpAddr::V6(prefix), IpAddr::V6(address)) => (0..route.length.min(128))
                .all(|bit| (prefix.to_bits() ^ address.to_bits()) << bit >> 127 == 0),
            _ => false,
        };
        routes.iter().filter(inside).max_by_key(|route| route.length).map(|route| route.hop)
    }

    prop_compose! {
        /// Prefixes in few bits, so that they nest and touch.
        fn any_route()(v6: bool, top: u8, low: u8, length in 0u8..=128, interface in 0u16..5) -> Route {
            let v4 = Ipv4Addr::new(top & 0x81, 0, 0, low);
            let v6_prefix = Ipv6Addr::from_bits(u128::from(v4.to_bits()) << 96 | u128::from(low));
            let prefix = if v6 { v6_prefix.into() } else { v4.into() };
            Route { prefix, length: if v6 { length } else { length % 33 }, hop: hop(interface) }
        }
    }

    proptest! {
        // O-4
        #[test]
        fn a_table_finds_what_looking_at_all_routes_finds(
            routes in prop::collection::vec(any_route(), 0..24),
            others: (u32, u128),
        ) {
            let table = Routes::new(routes.iter().copied());
            let v4 = |bits| IpAddr::from(Ipv4Addr::from_bits(bits));
            let v6 = |bits| IpAddr::from(Ipv6Addr::from_bits(bits));
            let mut addresses = vec![v4(others.0), v6(others.1)];
            for Route { prefix, length, .. } in &routes {
                // The ends of the prefix, and the addresses beside them.
                match prefix {
                    IpAddr::V4(prefix) => {
                        let first = prefix.to_bits();
                        let last = first | u32::MAX.checked_shr((*length).into()).unwrap_or(0);
                        addresses.extend([first.wrapping_sub(1), first, last, last.wrapping_add(1)].map(v4));
                    }
                    IpAddr::V6(prefix) => {
                        let first = prefix.to_bits();
                        let last = first | u128::MAX.checked_shr((*length).into()).unwrap_or(0);
                        addresses.extend([first.wrapping_sub(1), first, last, last.wrapping_add(1)].map(v6));
                    }
                }
            }
            for address in addresses {
                let found = match address {
                    IpAddr::V4(address) => table.find(IpVersion::V4, address.to_bits().into()),
                    IpAddr::V6(address) => table.find(IpVersion::V6, address.to_bits()),
                };
                prop_assert_eq!(found, by_looking_at_all(&routes, address), "{}", address);
            }
        }
    }
}
