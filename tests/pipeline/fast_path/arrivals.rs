//! What a client or a server may send: mostly plain packets of few flows, and beside them whatever the
//! general way alone can read.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::harness::*;
use crate::pieces::*;

/// One packet.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub talk: Talk,
    pub flags: u8,
    pub length: Length,
    pub dress: Dress,
    pub oddity: Oddity,
    /// It comes in at the other end of the wire.
    pub turned: bool,
}

/// A flow, out of so few that they meet again and again.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    pub six: bool,
    pub protocol: u8,
    pub client: u8,
    pub port: u16,
}

/// How long it is.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    Payload(usize),
    /// So many bytes more than fit the target side.
    Around(i16),
}

/// The frame around it.
#[derive(Clone, Copy, Debug)]
pub struct Dress {
    pub vlans: usize,
    /// Which of the stations of its side it is from.
    pub station: u8,
    pub padding: usize,
}

/// What is not plain about it.
#[derive(Clone, Debug)]
pub enum Oddity {
    None,
    /// IPv4 options of so many words, or as many IPv6 extension headers.
    Options(usize),
    /// A fragment of it, the first or the last.
    Piece(bool),
    /// One of its addresses never leaves the link.
    LinkScope(usize),
    /// Its source is its destination, its ports too if so.
    SameEnds(bool),
    /// The frame is cut.
    Cut(Index),
    /// Its IP header says so many bytes more.
    Longer(i16),
    /// A byte of its headers is another.
    Byte(usize, u8),
    DataOffset(u8),
    Ethertype(u16),
    /// It is an ICMP error instead, from whom it would go to, about what comes the other way.
    Error(usize),
}

impl Arrival {
    /// A plain one of this flow. Its 12 bytes make a UDP packet long enough to be read plainly.
    pub fn plain(talk: Talk, flags: u8) -> Arrival {
        let dress = Dress { vlans: 0, station: 0, padding: 18 };
        Arrival { talk, flags, length: Length::Payload(12), dress, oddity: Oddity::None, turned: false }
    }

    /// The frame, where so many bytes of IP packet fit the target side.
    pub fn frame(&self, from_client: bool, room: usize) -> Vec<u8> {
        let from_client = from_client != self.turned;
        let headers = if self.talk.six { 40 } else { 20 } + if self.talk.protocol == 6 { 20 } else { 8 };
        let payload = match self.length {
            Length::Payload(payload) => payload,
            Length::Around(more) => room.saturating_add_signed(more.into()).saturating_sub(headers),
        };
        let ip = self.ip(from_client, payload);
        let (mut src, mut dst) = (CLIENT_MAC, SERVER_MAC);
        (src[4], dst[4]) = (self.dress.station, self.dress.station);
        if !from_client {
            (src, dst) = (dst, src);
        }
        let mut frame = [dst, src].concat();
        for _ in 0..self.dress.vlans {
            frame.extend([0x81, 0x00, 0, 9]);
        }
        let ethertype = match self.oddity {
            Oddity::Ethertype(other) => other,
            _ if self.talk.six => 0x86dd,
            _ => 0x0800,
        };
        frame.extend(ethertype.to_be_bytes());
        frame.extend(ip);
        frame.resize(frame.len() + self.dress.padding, 0xaa);
        match &self.oddity {
            Oddity::Cut(at) => frame.truncate(at.index(frame.len())),
            Oddity::Byte(at, byte) => set(&mut frame, *at, &[*byte]),
            _ => {}
        }
        frame
    }

    fn ip(&self, from_client: bool, payload: usize) -> Vec<u8> {
        let Talk { six, .. } = self.talk;
        let mut ip = self.talk.ip(from_client, self.flags, payload);
        let (addresses, width) = if six { (8, 16) } else { (12, 4) };
        let transport = addresses + 2 * width;
        match self.oddity {
            Oddity::Options(words) if six => (0..words).fold(ip, |ip, _| with_extension(&ip)),
            Oddity::Options(words) => with_options(&ip, &vec![1; 4 * words]),
            Oddity::Piece(first) => {
                let cut = if ip.len() > transport + 24 { 24 } else { 8 };
                fragments(&ip, &[cut]).swap_remove(usize::from(!first))
            }
            Oddity::LinkScope(which) => {
                let (source, address) = link_scope(six, which);
                set(&mut ip, addresses + if source { 0 } else { width }, &address);
                ip
            }
            Oddity::SameEnds(ports) => {
                ip.copy_within(addresses..addresses + width, addresses + width);
                if ports {
                    ip.copy_within(transport..transport + 2, transport + 2);
                }
                ip
            }
            Oddity::Longer(more) => {
                let at = if six { 4 } else { 2 };
                let len = u16::from_be_bytes([ip[at], ip[at + 1]]).wrapping_add_signed(more);
                set(&mut ip, at, &len.to_be_bytes());
                ip
            }
            Oddity::DataOffset(words) => {
                set(&mut ip, transport + 12, &[words << 4]);
                ip
            }
            Oddity::Error(quoted) => {
                let about = self.talk.ip(!from_client, ACK, payload);
                let router = if six { "2001:db8:ffff::1" } else { "203.0.113.1" };
                error_from(router, &about, transport + quoted, if six { [1, 0] } else { [3, 1] })
            }
            _ => ip,
        }
    }
}

impl Talk {
    pub fn ip(&self, from_client: bool, flags: u8, payload: usize) -> Vec<u8> {
        let Talk { six, protocol, client: number, port } = *self;
        let address = |address: String| -> IpAddr { address.parse().unwrap() };
        let (src, dst) = if six {
            (address(format!("2001:db8::{}", 10 + number)), address(SERVER6.to_owned()))
        } else {
            (address(format!("192.0.2.{}", 10 + number)), address(SERVER.to_owned()))
        };
        let payload = vec![0x5a; payload];
        let segment = Segment { src, dst, ..client(port, flags) };
        let segment = if from_client { segment } else { segment.reversed() };
        if protocol == 6 && flags & SYN != 0 {
            // With an MSS that fits no target side here (M-3).
            let mut ip = segment.with_payload(&[&MSS[..], &payload].concat()).ip();
            set(&mut ip, if six { 52 } else { 32 }, &[0x60]);
            return ip;
        }
        let segment = segment.with_payload(&payload);
        if protocol == 6 {
            return segment.ip();
        }
        let mut ip = segment.udp().ip();
        let (at, transport) = if six { (6, 40) } else { (9, 20) };
        set(&mut ip, at, &[protocol]);
        if matches!(protocol, 1 | 58) {
            // An echo and its answer.
            let [ask, reply] = if six { [128, 129] } else { [8, 0] };
            set(&mut ip, transport, &[if from_client { ask } else { reply }, 0, 0, 0, 7, port as u8]);
        }
        ip
    }
}

/// The option of an MSS of 8,960.
const MSS: [u8; 4] = [2, 4, 0x23, 0];

/// Writes into a packet, as far as it goes.
pub fn set(packet: &mut [u8], at: usize, bytes: &[u8]) {
    packet.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
}

/// An IPv6 packet with a destination options header more.
fn with_extension(ip: &[u8]) -> Vec<u8> {
    let mut packet = [&ip[..40], &[ip[6], 0, 1, 4, 0, 0, 0, 0], &ip[40..]].concat();
    packet[6] = 60;
    let len = (packet.len() - 40) as u16;
    set(&mut packet, 4, &len.to_be_bytes());
    packet
}

/// Whether it is the source, and the address.
fn link_scope(six: bool, which: usize) -> (bool, Vec<u8>) {
    let four =
        [(false, [224, 0, 0, 5]), (false, [255; 4]), (false, [169, 254, 1, 1]), (true, [169, 254, 1, 1])];
    let (source, address) = four[which % 4];
    if !six {
        return (source, address.to_vec());
    }
    let six = [(false, "ff02::5"), (false, "fe80::1"), (true, "fe80::1"), (true, "::")];
    let (source, address) = six[which % 4];
    (source, address.parse::<std::net::Ipv6Addr>().unwrap().octets().to_vec())
}

pub fn talk() -> impl Strategy<Value = Talk> {
    let protocol = prop_oneof![10 => Just(6u8), 6 => Just(17), 1 => select(vec![136u8, 132, 1, 47])];
    (any::<bool>(), protocol, 0u8..2, 1001u16..1004).prop_map(|(six, protocol, client, port)| Talk {
        six,
        protocol: if six && protocol == 1 { 58 } else { protocol },
        client,
        port,
    })
}

fn flags() -> impl Strategy<Value = u8> {
    prop_oneof![
        30 => select(vec![ACK, ACK | PSH]),
        4 => Just(SYN),
        1 => Just(SYN | ACK),
        1 => Just(FIN | ACK),
        1 => select(vec![RST, RST | ACK]),
        1 => any::<u8>(),
    ]
}

fn oddity() -> impl Strategy<Value = Oddity> {
    prop_oneof![
        2 => (1usize..4).prop_map(Oddity::Options),
        2 => any::<bool>().prop_map(Oddity::Piece),
        2 => (0usize..4).prop_map(Oddity::LinkScope),
        2 => any::<bool>().prop_map(Oddity::SameEnds),
        1 => any::<Index>().prop_map(Oddity::Cut),
        1 => (-30i16..30).prop_map(Oddity::Longer),
        2 => (0usize..74, any::<u8>()).prop_map(|(at, byte)| Oddity::Byte(at, byte)),
        1 => (0u8..16).prop_map(Oddity::DataOffset),
        1 => select(vec![0x0806u16, 0x0800, 0x86dd]).prop_map(Oddity::Ethertype),
        2 => (8usize..40).prop_map(Oddity::Error),
    ]
}

fn arrival(talk: impl Strategy<Value = Talk>) -> impl Strategy<Value = Arrival> {
    let length = prop_oneof![
        12 => (0usize..40).prop_map(Length::Payload),
        1 => (-2i16..3).prop_map(Length::Around),
    ];
    let dress = (
        prop_oneof![50 => Just(0usize), 1 => 1usize..3],
        prop_oneof![50 => Just(0u8), 1 => 1u8..3],
        prop_oneof![6 => Just(18usize), 2 => Just(0), 1 => 0usize..40],
    );
    let dress = dress.prop_map(|(vlans, station, padding)| Dress { vlans, station, padding });
    let oddity = prop_oneof![16 => Just(Oddity::None), 1 => oddity()];
    let turned = prop::bool::weighted(0.02);
    (talk, flags(), length, dress, oddity, turned).prop_map(|(talk, flags, length, dress, oddity, turned)| {
        Arrival { talk, flags, length, dress, oddity, turned }
    })
}

/// A burst: of many flows, or of one that may begin, end and begin again in it.
pub fn burst() -> impl Strategy<Value = Vec<Arrival>> {
    let of_one = talk().prop_flat_map(|talk| prop::collection::vec(arrival(Just(talk)), 1..=32));
    prop_oneof![3 => prop::collection::vec(arrival(talk()), 1..=32), 1 => of_one]
}
