//! What names a flow (F-1): endpoint, IP version, protocol, and both ends' addresses and ports, in an
//! order that does not depend on which end sent the packet, so that both directions have one key
//! (F-2). Built once a packet by the pipeline; compared and hashed as five 64-bit words.
#![forbid(unsafe_code)]

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::id::EndpointId;

/// Which way a packet of a flow goes: the flow's ends are ordered by (address, port), and a packet
/// goes from one to the other. Says nothing of who is the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the lower end to the higher (also if both ends are equal).
    LowToHigh = 0,
    /// From the higher end to the lower.
    HighToLow = 1,
}

impl Direction {
    /// 0 or 1, to index what is kept per direction.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The other way.
    #[inline]
    #[must_use]
    pub fn reverse(self) -> Direction {
        match self {
            Direction::LowToHigh => Direction::HighToLow,
            Direction::HighToLow => Direction::LowToHigh,
        }
    }
}

/// A flow's name, 40 bytes without padding. Equal for both directions of a flow.
///
/// Word 4 is, from its lowest bits up, low port 16, high port 16, endpoint 16, protocol 8, IP version 8. Of IPv4
/// word 0 has both addresses, the lower end's in its upper half, and words 1–3 are 0; of IPv6 words 0–1 are the
/// lower end's address, 2–3 the higher's (least significant half first).
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FlowKey {
    words: [u64; 5],
}

const HIGH_PORT_SHIFT: u32 = 16;
const ENDPOINT_SHIFT: u32 = 32;
const PROTOCOL_SHIFT: u32 = 48;
const VERSION_SHIFT: u32 = 56;

impl FlowKey {
    /// No packet's: its lower end is the higher. What an entry without a flow has.
    pub const NONE: FlowKey = FlowKey { words: [u64::MAX, u64::MAX, 0, 0, u64::MAX] };

    /// The key of a packet's flow, and which way along it the packet goes.
    ///
    /// `version` is 4 or 6, `protocol` the IP protocol number of the upper layer, an IPv4 address is
    /// zero-extended. Protocols without ports give 0 for both; ICMP echo gives its identifier as both.
    #[inline]
    #[must_use]
    pub fn new(
        endpoint: EndpointId,
        version: u8,
        protocol: u8,
        src: u128,
        dst: u128,
        src_port: u16,
        dst_port: u16,
    ) -> (FlowKey, Direction) {
        let (low, high, direction) = if (src, src_port) <= (dst, dst_port) {
            ((src, src_port), (dst, dst_port), Direction::LowToHigh)
        } else {
            ((dst, dst_port), (src, src_port), Direction::HighToLow)
        };
        let rest = u64::from(low.1)
            | u64::from(high.1) << HIGH_PORT_SHIFT
            | u64::from(endpoint.0) << ENDPOINT_SHIFT
            | u64::from(protocol) << PROTOCOL_SHIFT
            | u64::from(version) << VERSION_SHIFT;
        let words = match version {
            4 => [low_half(low.0) << 32 | low_half(high.0), 0, 0, 0, rest],
            _ => [low_half(low.0), high_half(low.0), low_half(high.0), high_half(high.0), rest],
        };
        (FlowKey { words }, direction)
    }

    /// The same of an IPv4 packet; `ports` has the source's in its upper half.
    #[inline(always)]
    #[must_use]
    pub fn of_v4(endpoint: EndpointId, protocol: u8, src: u32, dst: u32, ports: u32) -> (FlowKey, Direction) {
        V4Flows::of(endpoint, protocol).between(src, dst, ports).unwrap_or_else(|| {
            let [src_port, dst_port] = [ports >> 16, ports].map(|port| field16(port.into(), 0));
            FlowKey::new(endpoint, 4, protocol, src.into(), dst.into(), src_port, dst_port)
        })
    }

    /// IP version in the upper half, IP protocol in the lower.
    #[inline(always)]
    #[must_use]
    pub fn kind(&self) -> u16 {
        field16(self.words[4], PROTOCOL_SHIFT)
    }

    /// Which way a packet with these addresses and ports goes in this flow, of the packet's [`kind`](FlowKey::kind)
    /// and IPv4; the second says whether it is of it. By fewer steps than it takes to make a key: nothing is put in
    /// order. Without a branch, as nobody knows beforehand which way a flow's next packet goes. In both pairs the
    /// source's is the upper half. Between two ports of one address only one of the ways is found.
    #[inline(always)]
    #[must_use]
    pub fn way_of_v4(&self, addresses: u64, ports: u32) -> (Direction, bool) {
        let [low_to_high, .., rest] = self.words;
        #[expect(clippy::cast_possible_truncation, reason = "the ports are its lower half")]
        let high_to_low_ports = rest as u32;
        let (direction, of_flow) = if addresses == low_to_high {
            (Direction::LowToHigh, (low_to_high, high_to_low_ports.rotate_left(16)))
        } else {
            (Direction::HighToLow, (low_to_high.rotate_left(32), high_to_low_ports))
        };
        (direction, (addresses ^ of_flow.0) | u64::from(ports ^ of_flow.1) == 0)
    }

    /// Whether a packet can have it: of a version, its lower end the lower one, and nothing where nothing belongs.
    pub(super) fn may_be(&self) -> bool {
        let [_, b, c, d, _] = self.words;
        let narrow = self.version() == 6 || self.version() == 4 && b | c | d == 0;
        narrow && self.low() <= self.high()
    }

    /// The key as the five words described at the type.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[u64; 5] {
        &self.words
    }

    /// The endpoint the flow belongs to.
    #[inline]
    #[must_use]
    pub fn endpoint(&self) -> EndpointId {
        EndpointId(field16(self.words[4], ENDPOINT_SHIFT))
    }

    /// The IP protocol number.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> u8 {
        field8(self.words[4], PROTOCOL_SHIFT)
    }

    /// 4 or 6.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        field8(self.words[4], VERSION_SHIFT)
    }

    /// Address and port of the end that packets of this direction come from.
    #[inline]
    #[must_use]
    pub fn source(&self, direction: Direction) -> (u128, u16) {
        match direction {
            Direction::LowToHigh => self.low(),
            Direction::HighToLow => self.high(),
        }
    }

    /// Address and port of the end that packets of this direction go to.
    #[inline]
    #[must_use]
    pub fn destination(&self, direction: Direction) -> (u128, u16) {
        self.source(direction.reverse())
    }

    /// [`source`](FlowKey::source) for people.
    #[must_use]
    pub fn source_socket(&self, direction: Direction) -> SocketAddr {
        let (address, port) = self.source(direction);
        SocketAddr::new(self.ip(address), port)
    }

    /// [`destination`](FlowKey::destination) for people.
    #[must_use]
    pub fn destination_socket(&self, direction: Direction) -> SocketAddr {
        self.source_socket(direction.reverse())
    }

    /// The addresses of an IPv4 flow, the lower end's first.
    #[inline(always)]
    #[must_use]
    pub fn v4(&self) -> Option<[u32; 2]> {
        (self.version() == 4).then(|| [(self.words[0] >> 32) as u32, low_word(self.words[0])])
    }

    fn low(&self) -> (u128, u16) {
        let address = match self.version() {
            4 => u128::from(self.words[0] >> 32),
            _ => join(self.words[0], self.words[1]),
        };
        (address, field16(self.words[4], 0))
    }

    fn high(&self) -> (u128, u16) {
        let address = match self.version() {
            4 => u128::from(self.words[0] & 0xffff_ffff),
            _ => join(self.words[2], self.words[3]),
        };
        (address, field16(self.words[4], HIGH_PORT_SHIFT))
    }

    fn ip(&self, address: u128) -> IpAddr {
        match (self.version(), u32::try_from(address)) {
            (4, Ok(address)) => IpAddr::V4(Ipv4Addr::from_bits(address)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(address)),
        }
    }
}

#[cfg(test)]
impl FlowKey {
    /// A key of these words, which no packet may have.
    pub(super) fn tear_to(words: [u64; 5]) -> FlowKey {
        FlowKey { words }
    }

    /// Half of it is another's.
    pub(super) fn tear(&mut self) {
        self.words[0] ^= 0x0101;
    }
}

/// What the IPv4 flows of an endpoint and a protocol have in common: word 4 of their keys without the ports.
#[derive(Clone, Copy, Debug)]
pub struct V4Flows(u64);

impl V4Flows {
    /// The flows of this endpoint and protocol.
    #[inline]
    #[must_use]
    pub fn of(endpoint: EndpointId, protocol: u8) -> V4Flows {
        let (endpoint, protocol) = (u64::from(endpoint.0), u64::from(protocol));
        V4Flows(endpoint << ENDPOINT_SHIFT | protocol << PROTOCOL_SHIFT | 4 << VERSION_SHIFT)
    }

    /// As [`FlowKey::of_v4`]; `None` if both ends have one address, which no two hosts' packets have.
    #[inline(always)]
    #[must_use]
    pub fn between(self, src: u32, dst: u32, ports: u32) -> Option<(FlowKey, Direction)> {
        let there = u64::from(src) << 32 | u64::from(dst);
        let back = there.rotate_left(32);
        if there == back {
            return None;
        }
        let (addresses, ports, direction) = if there < back {
            (there, ports.rotate_left(16), Direction::LowToHigh)
        } else {
            (back, ports, Direction::HighToLow)
        };
        Some((FlowKey { words: [addresses, 0, 0, 0, u64::from(ports) | self.0] }, direction))
    }
}

/// All five words at once: a hit has them all equal, so leaving early saves nothing and costs
/// branches.
impl PartialEq for FlowKey {
    #[inline]
    fn eq(&self, other: &FlowKey) -> bool {
        let (a, b) = (&self.words, &other.words);
        (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]) == 0
    }
}

impl Eq for FlowKey {}

impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = Direction::LowToHigh;
        write!(
            f,
            "endpoint {} protocol {} {} <-> {}",
            self.endpoint().0,
            self.protocol(),
            self.source_socket(way),
            self.destination_socket(way)
        )
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the half that is wanted")]
const fn low_half(address: u128) -> u64 {
    address as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the half that is wanted")]
const fn low_word(words: u64) -> u32 {
    words as u32
}

const fn high_half(address: u128) -> u64 {
    (address >> 64) as u64
}

const fn join(low: u64, high: u64) -> u128 {
    low as u128 | (high as u128) << 64
}

#[expect(clippy::cast_possible_truncation, reason = "the field's own 16 bits")]
const fn field16(word: u64, shift: u32) -> u16 {
    (word >> shift) as u16
}

#[expect(clippy::cast_possible_truncation, reason = "the field's own 8 bits")]
const fn field8(word: u64, shift: u32) -> u8 {
    (word >> shift) as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_addresses_of_an_ipv4_flow_are_told_in_order() {
        for (src, dst) in [(1, 0xe000_0005), (0xe000_0005, 1)] {
            let (key, _) = FlowKey::new(EndpointId(0), 4, 17, src, dst, 5, 6);
            assert_eq!(key.v4(), Some([1, 0xe000_0005]));
        }
        let (key, _) = FlowKey::new(EndpointId(0), 6, 17, 1, 2, 5, 6);
        assert_eq!(key.v4(), None);
    }

    proptest! {
        #[test]
        fn f_2_both_directions_have_one_key_and_give_their_own_ends_back(
            endpoint: u16, protocol: u8, six: bool, a: u128, b: u128, pa: u16, pb: u16,
        ) {
            let (version, mask) = if six { (6, u128::MAX) } else { (4, u128::from(u32::MAX)) };
            let (a, b) = (a & mask, b & mask);
            let (there, way) = FlowKey::new(EndpointId(endpoint), version, protocol, a, b, pa, pb);
            let (back, way_back) = FlowKey::new(EndpointId(endpoint), version, protocol, b, a, pb, pa);
            prop_assert_eq!(there, back);
            if (a, pa) != (b, pb) {
                prop_assert_eq!(way_back, way.reverse());
            }
            prop_assert_eq!(there.source(way), (a, pa));
            prop_assert_eq!(there.destination(way), (b, pb));
            prop_assert_eq!(there.endpoint(), EndpointId(endpoint));
            prop_assert_eq!(there.protocol(), protocol);
            prop_assert_eq!(there.version(), version);
            if let (false, Ok(a), Ok(b)) = (six, u32::try_from(a), u32::try_from(b)) {
                let ports = u32::from(pa) << 16 | u32::from(pb);
                let same = FlowKey::of_v4(EndpointId(endpoint), protocol, a, b, ports);
                prop_assert_eq!(same, (there, way));
            }
        }

        /// Of few addresses and ports, so that many are equal.
        #[test]
        fn a_packet_is_of_the_flow_whose_key_it_has_and_goes_that_way(
            flow: (bool, u8, u8, u8, u8, u8), packet: (bool, u8, u8, u8, u8, u8), six in prop::bool::weighted(0.1),
        ) {
            let parts = |(tcp, a, b, pa, pb, _): (bool, u8, u8, u8, u8, u8)| {
                let ends = [a, b].map(|n| u32::from(n % 2) << 31 | u32::from(n / 2 % 2));
                let ports = [pa, pb].map(|n| u32::from(n % 2) << 15 | u32::from(n / 2 % 2));
                (if tcp { 6 } else { 17 }, ends, ports[0] << 16 | ports[1])
            };
            let key = |parts: (u8, [u32; 2], u32)| FlowKey::of_v4(EndpointId(7), parts.0, parts.1[0], parts.1[1], parts.2);
            let (of, packet) = (parts(flow), parts(packet));
            let (mut of, _) = key(of);
            if six {
                of.words[4] = of.words[4] & !(0xff << VERSION_SHIFT) | 6 << VERSION_SHIFT;
            }
            let addresses = u64::from(packet.1[0]) << 32 | u64::from(packet.1[1]);
            let (way, is_of) = of.way_of_v4(addresses, packet.2);
            let (wanted, wanted_way) = key(packet);
            let one_address = packet.1[0] == packet.1[1] && wanted_way == Direction::HighToLow;
            prop_assert_eq!(is_of && of.kind() == wanted.kind(), of == wanted && !one_address);
            if of == wanted {
                prop_assert_eq!(way == wanted_way, !one_address);
            }
        }

        /// Swapping only the ports is another flow (10.0.0.1:5 → 10.0.0.2:6 is not :6 → :5), unless
        /// they are equal.
        // F-1
        #[test]
        fn ports_stay_with_their_addresses(a: u32, b: u32, pa: u16, pb: u16) {
            let new = |pa, pb| FlowKey::new(EndpointId(0), 4, 6, a.into(), b.into(), pa, pb).0;
            prop_assert_eq!(new(pa, pb) == new(pb, pa), pa == pb || a == b);
        }
    }

    #[test]
    fn f_1_every_part_of_the_tuple_tells_flows_apart() {
        let base = || (EndpointId(1), 4, 6, 0x0a00_0001_u128, 0x0a00_0002_u128, 1024, 443);
        let key =
            |t: (EndpointId, u8, u8, u128, u128, u16, u16)| FlowKey::new(t.0, t.1, t.2, t.3, t.4, t.5, t.6).0;
        let mut others = Vec::new();
        for part in 0..7 {
            let mut t = base();
            match part {
                0 => t.0 = EndpointId(2),
                1 => t.1 = 6,
                2 => t.2 = 17,
                3 => t.3 += 4,
                4 => t.4 += 4,
                5 => t.5 += 1,
                _ => t.6 += 1,
            }
            others.push(key(t));
        }
        others.push(key(base()));
        for (i, a) in others.iter().enumerate() {
            for (j, b) in others.iter().enumerate() {
                assert_eq!(a == b, i == j, "{a:?} against {b:?}");
            }
        }
    }

    #[test]
    fn equal_ends_go_low_to_high() {
        let (_, way) = FlowKey::new(EndpointId(0), 4, 1, 7, 7, 9, 9);
        assert_eq!(way, Direction::LowToHigh);
    }

    #[test]
    fn a_host_that_talks_to_itself_has_a_key_but_no_short_way_to_it() {
        for (src, dst) in [(1_u16, 2_u16), (2, 1), (5, 5)] {
            let ports = u32::from(src) << 16 | u32::from(dst);
            assert!(V4Flows::of(EndpointId(3), 17).between(7, 7, ports).is_none());
            let key = FlowKey::of_v4(EndpointId(3), 17, 7, 7, ports);
            assert_eq!(key, FlowKey::new(EndpointId(3), 4, 17, 7, 7, src, dst));
        }
    }

    #[test]
    fn is_40_bytes_and_prints_addresses() {
        assert_eq!(size_of::<FlowKey>(), 40);
        let (key, way) = FlowKey::new(EndpointId(3), 4, 6, 0xc0a8_0002, 0x0a00_0001, 1024, 443);
        assert_eq!(key.source_socket(way).to_string(), "192.168.0.2:1024");
        assert_eq!(format!("{key:?}"), "endpoint 3 protocol 6 10.0.0.1:443 <-> 192.168.0.2:1024");
    }
}
