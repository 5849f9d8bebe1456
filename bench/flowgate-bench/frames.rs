//! The flows of every row, and their frames: 64 bytes with the CRC for IPv4, 78 for IPv6, the shortest
//! that a TCP packet has there.

use flowgate::flow::FlowKey;
use flowgate::id::EndpointId;
use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::{self, ethertype};
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate};

use crate::one_wire::{ENDPOINT, mixed};

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;
pub const FIN: u8 = 0x11;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xc1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x5e];

/// First byte of the IPv4 addresses of clients and of servers.
const CLIENT_NET: u8 = 10;
pub const SERVER_NET: u8 = 198;

const TCP: u8 = 6;
const HTTPS: u16 = 443;

/// Bytes of an IPv4 packet that fills Ethernet's shortest frame, and of IPv6 and TCP headers.
const V4_LEN: usize = 46;
const V6_LEN: usize = 60;

/// The longest frame that is made here: an answer with IPv6 inside.
pub const LONGEST: usize = OUTER_LEN + V6_LEN;

/// The numbers below a power of two, for ever, in an order that has nothing to do with theirs.
#[derive(Clone, Debug)]
pub struct Shuffled {
    count: u32,
    half: u32,
    at: u32,
}

impl Shuffled {
    /// Of the numbers below `count`, which is a power of two.
    pub fn below(count: u32) -> Shuffled {
        assert!(count.is_power_of_two(), "{count} is no power of two");
        Shuffled { count, half: count.trailing_zeros().div_ceil(2), at: 0 }
    }
}

impl Iterator for Shuffled {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let mask = self.count - 1;
        // Each step is a bijection of so many bits.
        let mut x = self.at;
        for odd in [0x9e37_79b1u32, 0x85eb_ca77, 0xc2b2_ae3d] {
            x = x.wrapping_mul(odd).wrapping_add(odd >> 7) & mask;
            x ^= x >> self.half.max(1);
        }
        self.at = (self.at + 1) & mask;
        Some(x)
    }
}

/// Which version of IP a row's flows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V4,
    V6,
}

/// A connection, named by a number: 56 random bits of its tuple follow from it, so that no two of some
/// millions are equal.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub number: u64,
    pub version: Version,
}

impl Flow {
    pub fn v4(number: u64) -> Flow {
        Flow { number, version: Version::V4 }
    }

    fn ip_len(self) -> usize {
        match self.version {
            Version::V4 => V4_LEN,
            Version::V6 => V6_LEN,
        }
    }

    /// Bytes of a frame of its client or server, without the CRC.
    pub fn frame_len(self) -> usize {
        ethernet::HEADER_LEN + self.ip_len()
    }

    /// Bytes of the packet with which a target answers.
    pub fn answer_len(self) -> usize {
        OUTER_LEN + self.ip_len()
    }

    /// Writes a segment of its client, as it arrives at the wire's client side (and as it leaves at the
    /// server side: a wire keeps the link header).
    pub fn client_segment(self, frame: &mut [u8], flags: u8) {
        self.link(frame, &SERVER_MAC, &CLIENT_MAC);
        self.client_packet(&mut frame[ethernet::HEADER_LEN..], flags);
    }

    /// Writes a segment of its server, as it arrives at the wire's server side.
    pub fn server_segment(self, frame: &mut [u8], flags: u8) {
        self.link(frame, &CLIENT_MAC, &SERVER_MAC);
        let ip = &mut frame[ethernet::HEADER_LEN..];
        self.client_packet(ip, flags);
        let (addresses, length) = match self.version {
            Version::V4 => (12, 4),
            Version::V6 => (8, 16),
        };
        let (source, destination) = ip[addresses..].split_at_mut(length);
        source.swap_with_slice(&mut destination[..length]);
        let ports = addresses + 2 * length;
        let (source, destination) = ip[ports..].split_at_mut(2);
        source.swap_with_slice(&mut destination[..2]);
    }

    /// Writes the packet with which its target answers, holding the client's segment, as it arrives at
    /// the gateway.
    pub fn answer(self, frame: &mut [u8], template: &OuterTemplate, cookie: u32) {
        let fields = OuterFields {
            inner_len: u16::try_from(self.ip_len()).unwrap_or(0),
            protocol: match self.version {
                Version::V4 => ethertype::IPV4,
                Version::V6 => ethertype::IPV6,
            },
            source_port: 0xc000,
            endpoint_id: ENDPOINT.0,
            attachment_id: ENDPOINT.1,
            cookie,
        };
        if let Some((headers, inner)) = frame.split_first_chunk_mut() {
            template.write(headers, &fields);
            self.client_packet(inner, ACK);
        }
    }

    fn link(self, frame: &mut [u8], to: &[u8; 6], from: &[u8; 6]) {
        frame[..6].copy_from_slice(to);
        frame[6..12].copy_from_slice(from);
        let kind = match self.version {
            Version::V4 => ethertype::IPV4,
            Version::V6 => ethertype::IPV6,
        };
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
    }

    /// The client's address and port, the server's address; all zero-extended.
    fn ends(self) -> (u128, u16, u128) {
        let [a, b, c, d, e, f, g, _] = mixed(self.number).to_be_bytes();
        let port = u16::from_be_bytes([f, g]);
        match self.version {
            Version::V4 => {
                let client = u32::from_be_bytes([CLIENT_NET, a, b, c]);
                let server = u32::from_be_bytes([SERVER_NET, 51, d, e]);
                (client.into(), port, server.into())
            }
            Version::V6 => {
                let net = 0x2001_0db8_u128 << 96;
                let client = net | u128::from(u32::from_be_bytes([0, a, b, c])) << 64 | 1;
                let server = net | 0x5e << 80 | u128::from(u16::from_be_bytes([d, e]));
                (client, port, server)
            }
        }
    }

    /// Its key, as the pipeline makes it.
    pub fn key(self) -> FlowKey {
        let (client, port, server) = self.ends();
        let version = match self.version {
            Version::V4 => 4,
            Version::V6 => 6,
        };
        FlowKey::new(EndpointId(0), version, TCP, client, server, port, HTTPS).0
    }

    /// Writes the client's IP packet.
    pub fn client_packet(self, ip: &mut [u8], flags: u8) {
        let (client, port, server) = self.ends();
        let tcp = match self.version {
            Version::V4 => {
                ip[..12].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, TCP, 0, 0]);
                ip[12..16].copy_from_slice(&client.to_be_bytes()[12..]);
                ip[16..20].copy_from_slice(&server.to_be_bytes()[12..]);
                let checksum = Sum::ZERO.bytes(&ip[..20]).checksum();
                ip[10..12].copy_from_slice(&checksum.to_be_bytes());
                20
            }
            Version::V6 => {
                ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, TCP, 64]);
                ip[8..24].copy_from_slice(&client.to_be_bytes());
                ip[24..40].copy_from_slice(&server.to_be_bytes());
                40
            }
        };
        ip[tcp..tcp + 2].copy_from_slice(&port.to_be_bytes());
        ip[tcp + 2..tcp + 4].copy_from_slice(&HTTPS.to_be_bytes());
        ip[tcp + 4..tcp + 20].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        ip[tcp + 20..].fill(0xab);
    }
}
