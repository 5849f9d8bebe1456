//! IP packets, read a second time by nothing that the gateway uses.

/// What a packet says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub six: bool,
    pub src: u128,
    pub dst: u128,
    /// Bytes of the packet by its own account; all of them are there.
    pub total: usize,
    /// Where the transport header begins, or would.
    pub transport: usize,
    pub protocol: u8,
    /// Where in its datagram it begins, in bytes, and whether more follows; none of a whole datagram.
    pub fragment: Option<(usize, bool)>,
    /// Ports, or the identifier of an echo twice.
    pub ports: (u16, u16),
    /// TCP's control bits.
    pub flags: u8,
    /// An ICMP error, and what it quotes begins here.
    pub quotes: Option<usize>,
}

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const LONGEST_CHAIN: usize = 8;

impl Reading {
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|(offset, _)| offset > 0)
    }

    pub fn is_tcp(&self) -> bool {
        self.protocol == TCP && !self.is_later_fragment()
    }

    /// Whether an address of it is that of a group, or of nobody.
    pub fn is_for_many(&self) -> bool {
        [self.src, self.dst].into_iter().any(|address| {
            address == 0
                || if self.six {
                    address >> 120 == 0xff
                } else {
                    (0xe000_0000..0xf000_0000).contains(&address) || address == 0xffff_ffff
                }
        })
    }
}

pub fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

pub fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(be16(bytes, at)?) << 16 | u32::from(be16(bytes, at + 2)?))
}

fn address(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// RFC 1071, the plain way.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let sum: u64 =
        bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum();
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// Whether the checksum of the TCP segment in a packet is right.
pub fn tcp_checksum_is_right(ip: &[u8], reading: &Reading) -> bool {
    let segment = &ip[reading.transport..reading.total];
    let length = u32::try_from(segment.len()).unwrap().to_be_bytes();
    let ends = if reading.six { &ip[8..40] } else { &ip[12..20] };
    checksum(&[ends, &length, &[0, 0, 0, TCP], segment]) == 0
}

/// Reads the packet at the start of `ip`; nothing if it is cut or contradicts itself.
pub fn read(ip: &[u8]) -> Option<Reading> {
    let mut reading = match ip.first()? >> 4 {
        4 => four(ip)?,
        6 => six(ip)?,
        _ => return None,
    };
    if reading.is_later_fragment() {
        return Some(reading);
    }
    let transport = ip.get(reading.transport..reading.total)?;
    let ports = (be16(transport, 0).unwrap_or(0), be16(transport, 2).unwrap_or(0));
    match (reading.protocol, reading.six) {
        (TCP, _) => {
            let header = usize::from(*transport.get(12)? >> 4) * 4;
            if header < 20 || transport.len() < header {
                return None;
            }
            (reading.ports, reading.flags) = (ports, transport[13]);
        }
        (UDP | 136, _) if transport.len() >= 8 => reading.ports = ports,
        (132, _) if transport.len() >= 12 => reading.ports = ports,
        (UDP | 136 | 132, _) => return None,
        (1, false) => icmp(&mut reading, transport, &[3, 4, 5, 11, 12], &[0, 8], &[])?,
        (58, true) => {
            // What discovers neighbours or listeners on this very link has a whole header; from elsewhere it is just ICMP.
            let of_link: &[u8] = match ip[7] {
                255 => &[133, 134, 135, 136, 137],
                1 => &[130, 131, 132, 143],
                _ => &[],
            };
            icmp(&mut reading, transport, &[1, 2, 3, 4], &[128, 129], of_link)?;
        }
        _ => {}
    }
    Some(reading)
}

/// Reads ICMP, whose messages of these types are errors, echoes, and others that have a whole header.
fn icmp(reading: &mut Reading, message: &[u8], errors: &[u8], echoes: &[u8], whole: &[u8]) -> Option<()> {
    let kind = message.first()?;
    if [errors, echoes, whole].concat().contains(kind) && message.len() < 8 {
        return None;
    }
    if errors.contains(kind) {
        reading.quotes = Some(reading.transport + 8);
    }
    if echoes.contains(kind) {
        let identifier = be16(message, 4)?;
        reading.ports = (identifier, identifier);
    }
    Some(())
}

fn four(ip: &[u8]) -> Option<Reading> {
    let header = usize::from(ip[0] & 15) * 4;
    let total = usize::from(be16(ip, 2)?);
    if header < 20 || total < header || ip.len() < total {
        return None;
    }
    let place = be16(ip, 6)?;
    let (offset, more) = (usize::from(place & 0x1fff) * 8, place & 0x2000 != 0);
    Some(Reading {
        six: false,
        src: address(&ip[12..16]),
        dst: address(&ip[16..20]),
        total,
        transport: header,
        protocol: ip[9],
        fragment: (offset > 0 || more).then_some((offset, more)),
        ports: (0, 0),
        flags: 0,
        quotes: None,
    })
}

fn six(ip: &[u8]) -> Option<Reading> {
    let total = 40 + usize::from(be16(ip, 4)?);
    if ip.len() < total {
        return None;
    }
    let packet = &ip[..total];
    let (mut protocol, mut at, mut fragment) = (packet[6], 40, None);
    let (mut walked, mut fragment_headers) = (0, 0);
    while [0, 43, 44, 51, 60].contains(&protocol) {
        walked += 1;
        if walked > LONGEST_CHAIN {
            return None;
        }
        let units = usize::from(*packet.get(at + 1)?);
        let length = match protocol {
            44 => 8,
            51 => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        let header = packet.get(at..at + length)?;
        let is_fragment = protocol == 44;
        protocol = header[0];
        at += length;
        if is_fragment {
            fragment_headers += 1;
            if fragment_headers > 1 {
                return None;
            }
            let place = be16(header, 2)?;
            let (offset, more) = (usize::from(place & 0xfff8), place & 1 == 1);
            if offset > 0 || more {
                fragment = Some((offset, more));
            }
            if offset > 0 {
                break;
            }
        }
    }
    Some(Reading {
        six: true,
        src: address(&packet[8..24]),
        dst: address(&packet[24..40]),
        total,
        transport: at,
        protocol,
        fragment,
        ports: (0, 0),
        flags: 0,
        quotes: None,
    })
}
