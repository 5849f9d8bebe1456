//! Which connection a packet belongs to, told by its addresses and ports alone.
//!
//! A connection is a slot and an epoch: slot 7 opens, ends, and opens again as the next epoch. A keyed
//! permutation of these 48 bits gives the client's address (22 bits), its port (14) and the server's
//! address (12), each as good as drawn by itself, which RSS needs: a symmetric hash puts `ip + i` with
//! `port + i` on one queue. Its inverse gives slot and epoch back, so that a million flows are told apart
//! without a look-up, and a packet of a connection that was never opened is known at once.

use flowgate::wire::packet::{IpVersion, Packet};

/// Bits of a slot, and of an epoch.
const HALF_BITS: u32 = 24;
const HALF: u32 = (1 << HALF_BITS) - 1;

/// Slots that there can be.
pub const MAX_FLOWS: u32 = HALF;

/// The epochs of SYN-flood packets, each a connection of its own that nobody keeps.
const FLOOD: u32 = 1 << (HALF_BITS - 1);

/// 10.0.0.0/10: the clients.
const CLIENTS: u32 = 0x0a00_0000;
const CLIENT_BITS: u32 = 22;
/// 198.18.0.0/20: the servers, in the network set aside for benchmarks (RFC 2544).
pub const SERVERS: u32 = 0xc612_0000;
pub const SERVER_BITS: u32 = 12;
/// A client's ports are 32768–49151.
const CLIENT_PORTS: u16 = 0x8000;
const PORT_BITS: u32 = 14;
/// Every server's port.
pub const SERVER_PORT: u16 = 443;

/// IPv6: 2001:db8:c::/96 and 2001:db8:5::/96 before the 32 bits that IPv4 has.
pub const CLIENTS_V6: u128 = 0x2001_0db8_000c << 80;
pub const SERVERS_V6: u128 = 0x2001_0db8_0005 << 80;

/// From client to server, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

impl Way {
    pub const BOTH: [Way; 2] = [Way::Up, Way::Down];

    pub fn index(self) -> usize {
        self as usize
    }
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    pub slot: u32,
    pub epoch: u32,
}

impl Name {
    /// The `n`th packet of a SYN flood.
    pub fn of_flood(n: u64) -> Name {
        let [.., a, b, c, d, e, f] = n.to_be_bytes();
        Name {
            slot: u32::from_be_bytes([0, d, e, f]),
            epoch: FLOOD | u32::from_be_bytes([0, a, b, c]) & (FLOOD - 1),
        }
    }

    pub fn is_flood(self) -> bool {
        self.epoch & FLOOD != 0
    }

    /// What its slot opens as when this one has ended.
    pub fn next(self) -> Name {
        Name { slot: self.slot, epoch: (self.epoch + 1) & (FLOOD - 1) }
    }

    /// The first sequence number of one end: any number that both ends know.
    pub fn first_seq(self, way: Way) -> u32 {
        let mixed = (self.slot ^ self.epoch.rotate_left(13)).wrapping_mul(0x9e37_79b1);
        if way == Way::Up { mixed } else { !mixed }
    }
}

/// Addresses and ports of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    pub v6: bool,
    /// The whole address, or the last 32 bits of an IPv6 one.
    pub client: u32,
    pub server: u32,
    pub client_port: u16,
}

/// The permutation, and who has IPv6.
#[derive(Clone, Debug)]
pub struct Naming {
    keys: [u32; 4],
    /// Of 2³² equally spread slot numbers, how many have IPv6.
    v6_below: u64,
}

impl Naming {
    /// `v6_share` from 0 to 1. The same seed gives the same connections.
    pub fn new(seed: u64, v6_share: f64) -> Naming {
        let mut state = seed;
        let keys = [(); 4].map(|()| {
            state = mixed(state);
            let [.., a, b, c] = state.to_be_bytes();
            u32::from_be_bytes([0, a, b, c])
        });
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=2³²")]
        let v6_below = (v6_share.clamp(0.0, 1.0) * 4_294_967_296.0) as u64;
        Naming { keys, v6_below }
    }

    pub fn is_v6(&self, slot: u32) -> bool {
        // Multiples of the golden ratio lie as evenly as can be.
        u64::from(slot.wrapping_mul(0x9e37_79b1)) < self.v6_below
    }

    pub fn tuple(&self, name: Name) -> Tuple {
        let (mut left, mut right) = (name.slot & HALF, name.epoch & HALF);
        for key in self.keys {
            (left, right) = (right, left ^ round(right, key));
        }
        let bits = u64::from(left) << HALF_BITS | u64::from(right);
        let take = |from: u32, count: u32| {
            let [.., a, b, c, d] = (bits >> from & ((1 << count) - 1)).to_be_bytes();
            u32::from_be_bytes([a, b, c, d])
        };
        let [_, _, high, low] = take(SERVER_BITS, PORT_BITS).to_be_bytes();
        Tuple {
            v6: self.is_v6(name.slot),
            client: CLIENTS | take(SERVER_BITS + PORT_BITS, CLIENT_BITS),
            server: SERVERS | take(0, SERVER_BITS),
            client_port: CLIENT_PORTS | u16::from_be_bytes([high, low]),
        }
    }

    /// Whose packet this is; `None` if its addresses or ports are none of ours.
    pub fn name(&self, packet: &Packet) -> Option<(Name, Way)> {
        let way = if packet.dst_port == SERVER_PORT { Way::Up } else { Way::Down };
        let (client, server, port, server_port) = match way {
            Way::Up => (packet.src, packet.dst, packet.src_port, packet.dst_port),
            Way::Down => (packet.dst, packet.src, packet.dst_port, packet.src_port),
        };
        let v6 = packet.version == IpVersion::V6;
        let (clients, servers) = if v6 { (CLIENTS_V6, SERVERS_V6) } else { (0, 0) };
        let client = u32::try_from(client ^ clients).ok()? ^ CLIENTS;
        let server = u32::try_from(server ^ servers).ok()? ^ SERVERS;
        let port = port ^ CLIENT_PORTS;
        let fits = client >> CLIENT_BITS == 0 && server >> SERVER_BITS == 0 && port >> PORT_BITS == 0;
        if !fits || server_port != SERVER_PORT {
            return None;
        }
        let bits = (u64::from(client) << PORT_BITS | u64::from(port)) << SERVER_BITS | u64::from(server);
        let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
        let (mut left, mut right) = (u32::from_be_bytes([0, a, b, c]), u32::from_be_bytes([0, d, e, f]));
        for key in self.keys.into_iter().rev() {
            (left, right) = (right ^ round(left, key), left);
        }
        (self.is_v6(left) == v6).then_some((Name { slot: left, epoch: right }, way))
    }
}

/// A round of the permutation: the top 24 bits of a product.
fn round(half: u32, key: u32) -> u32 {
    let product = u64::from(half ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [a, b, c, ..] = product.to_be_bytes();
    u32::from_be_bytes([0, a, b, c])
}

/// SplitMix64: the next of a row of random numbers.
pub fn mixed(state: u64) -> u64 {
    let x = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use flowgate::wire::packet::{Fragment, Kind, protocol};
    use flowgate::wire::tcp::TcpFlags;

    use super::*;

    fn packet(tuple: Tuple, way: Way) -> Packet {
        let (clients, servers) = if tuple.v6 { (CLIENTS_V6, SERVERS_V6) } else { (0, 0) };
        let client = (clients | u128::from(tuple.client), tuple.client_port);
        let server = (servers | u128::from(tuple.server), SERVER_PORT);
        let (from, to) = if way == Way::Up { (client, server) } else { (server, client) };
        Packet {
            src: from.0,
            dst: to.0,
            total_len: 40,
            header_len: 20,
            src_port: from.1,
            dst_port: to.1,
            protocol: protocol::TCP,
            version: if tuple.v6 { IpVersion::V6 } else { IpVersion::V4 },
            fragment: Fragment::Whole,
            kind: Kind::Tcp,
            tcp_flags: TcpFlags::ACK,
        }
    }

    #[test]
    fn a_packets_addresses_give_its_connection_back_in_both_directions() {
        let naming = Naming::new(3, 0.4);
        for n in 0..20_000u32 {
            let name = Name { slot: n * 7 % 1_000_003, epoch: n % 4_000_000 };
            for way in Way::BOTH {
                let seen = naming.name(&packet(naming.tuple(name), way));
                assert_eq!(seen, Some((name, way)));
            }
        }
        let flood = Name::of_flood(0x1234_5678_9abc);
        assert!(flood.is_flood());
        assert_eq!(naming.name(&packet(naming.tuple(flood), Way::Up)), Some((flood, Way::Up)));
    }

    #[test]
    fn no_two_connections_share_a_tuple_and_the_addresses_do_not_follow_the_ports() {
        let naming = Naming::new(1, 0.0);
        let tuples: Vec<Tuple> =
            (0..50_000).map(|slot| naming.tuple(Name { slot, epoch: slot % 3 })).collect();
        let distinct: HashSet<_> = tuples.iter().map(|t| (t.client, t.server, t.client_port)).collect();
        assert_eq!(distinct.len(), tuples.len());
        // Were the port a function of the address, its lowest bit would be.
        let equal = tuples.iter().filter(|t| t.client & 1 == u32::from(t.client_port) & 1).count();
        assert!((24_000..26_000).contains(&equal), "{equal} of 50,000");
    }

    #[test]
    fn the_share_of_ipv6_is_the_one_asked_for() {
        let naming = Naming::new(1, 0.25);
        let v6 = (0..100_000).filter(|&slot| naming.is_v6(slot)).count();
        assert!((24_900..25_100).contains(&v6), "{v6}");
        assert!((0..1000).all(|slot| Naming::new(1, 1.0).is_v6(slot)));
        assert!(!(0..1000).any(|slot| Naming::new(1, 0.0).is_v6(slot)));
    }

    #[test]
    fn a_strangers_packet_has_no_name() {
        let naming = Naming::new(1, 0.0);
        let good = packet(naming.tuple(Name { slot: 1, epoch: 1 }), Way::Up);
        for strange in [
            Packet { src: 0x0b00_0001, ..good },
            Packet { dst: 0xc612_1000, ..good },
            Packet { src_port: 1024, ..good },
            Packet { dst_port: 80, ..good },
            Packet { version: IpVersion::V6, ..good },
        ] {
            assert_eq!(naming.name(&strange), None, "{strange:?}");
        }
    }
}
