//! Frames of an attack that differ in addresses and ports alone, written from a mould with right checksums.

use flowgate::wire::checksum::{self, Sum};
use flowgate::wire::ethernet::{self, ethertype};
use flowgate::wire::{ipv4, ipv6};

use super::{ATTACKERS_V6, MARK};
use crate::names::SERVERS_V6;

/// An address, or the last 32 bits of an IPv6 one, and a port.
pub type End = (u32, u16);

/// Bytes of Ethernet's shortest frame without its check sequence.
const SHORTEST: usize = 60;

/// Don't fragment, in an IPv4 header's flags; IPv6's packets without a fragment header.
pub const WHOLE: u16 = 0x4000;
/// More fragments.
pub const MORE: u16 = 0x2000;

/// IPv6's fragment header (RFC 8200 4.5): its number, and its bytes.
const FRAGMENT: u8 = 44;
const FRAGMENT_LEN: usize = 8;

/// One kind of frame.
pub struct Mould {
    bytes: Vec<u8>,
    is_v6: bool,
    /// Over the constant part of the IPv4 header.
    ip_sum: Sum,
    /// Where the ports are in the frame.
    ports: usize,
    /// Where the transport checksum is in the frame, if it has one, and the sum over the constant part.
    transport: Option<(usize, Sum)>,
}

impl Mould {
    /// A packet with this payload, the first four bytes of which are the ports. `fragment` are its flags and offset as IPv4
    /// has them, `checksum` is where in the payload the transport checksum is.
    pub fn new(is_v6: bool, protocol: u8, fragment: u16, payload: &[u8], checksum: Option<usize>) -> Mould {
        let ip = ethernet::HEADER_LEN;
        let is_piece = fragment != WHOLE;
        let fragment_len = if is_v6 && is_piece { FRAGMENT_LEN } else { 0 };
        let start = ip + if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN } + fragment_len;
        let end = start + payload.len();
        let mut bytes = vec![0; end.max(SHORTEST)];
        bytes[..6].copy_from_slice(&crate::frames::SERVER_MAC);
        bytes[6..12].copy_from_slice(&crate::frames::CLIENT_MAC);
        let ethertype = if is_v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "at most a frame's length")]
        let (total, len) = ((end - ip) as u16, payload.len() as u16);
        let header = &mut bytes[ip..start];
        let mut sum = checksum::pseudo_v4(0, 0, protocol, len);
        if is_v6 {
            header[0] = 0x60;
            header[2..4].copy_from_slice(&MARK.to_be_bytes());
            header[4..6].copy_from_slice(&(total - 40).to_be_bytes());
            header[6..8].copy_from_slice(&[if is_piece { FRAGMENT } else { protocol }, 64]);
            header[8..24].copy_from_slice(&ATTACKERS_V6.to_be_bytes());
            header[24..40].copy_from_slice(&SERVERS_V6.to_be_bytes());
            if let Some(header) = header.get_mut(40..48) {
                header[0] = protocol;
                let place = fragment << 3 | u16::from(fragment & MORE != 0);
                header[2..4].copy_from_slice(&place.to_be_bytes());
                header[6..8].copy_from_slice(&MARK.to_be_bytes());
            }
            sum = sum.u128(ATTACKERS_V6).u128(SERVERS_V6);
        } else {
            header[0] = 0x45;
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[4..6].copy_from_slice(&MARK.to_be_bytes());
            header[6..8].copy_from_slice(&fragment.to_be_bytes());
            header[8..10].copy_from_slice(&[64, protocol]);
        }
        let ip_sum = Sum::ZERO.bytes(header);
        bytes[start..end].copy_from_slice(payload);
        bytes[start..start + 4].fill(0);
        let sum = sum.bytes(&bytes[start..end]);
        Mould { bytes, is_v6, ip_sum, ports: start, transport: checksum.map(|at| (start + at, sum)) }
    }

    /// Bytes in the buffer of such a frame.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a frame into `out`, which has the mould's length.
    pub fn write(&self, out: &mut [u8], from: End, to: End) {
        out.copy_from_slice(&self.bytes);
        let ip = ethernet::HEADER_LEN;
        let (source, destination) = if self.is_v6 {
            (ip + 20, ip + 36)
        } else {
            let sum = self.ip_sum.u32(from.0).u32(to.0).checksum();
            out[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
            (ip + 12, ip + 16)
        };
        out[source..source + 4].copy_from_slice(&from.0.to_be_bytes());
        out[destination..destination + 4].copy_from_slice(&to.0.to_be_bytes());
        out[self.ports..self.ports + 2].copy_from_slice(&from.1.to_be_bytes());
        out[self.ports + 2..self.ports + 4].copy_from_slice(&to.1.to_be_bytes());
        if let Some((at, sum)) = self.transport {
            let sum = sum.u32(from.0).u32(to.0).u16(from.1).u16(to.1);
            out[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
        }
    }
}
