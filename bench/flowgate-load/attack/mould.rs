//! Frames of an attack that differ in addresses and ports alone, written from a mould with right checksums.

use flowgate::wire::checksum::{self, Sum};
use flowgate::wire::ethernet::{self, ethertype};
use flowgate::wire::ipv4;

use super::MARK;

/// An address and a port.
pub type End = (u32, u16);

/// Bytes of Ethernet's shortest frame without its check sequence.
const SHORTEST: usize = 60;

/// Don't fragment, in an IPv4 header's flags.
pub const WHOLE: u16 = 0x4000;
/// More fragments.
pub const MORE: u16 = 0x2000;

/// One kind of frame.
pub struct Mould {
    bytes: Vec<u8>,
    /// Over the constant part of the IPv4 header.
    ip_sum: Sum,
    /// Where the transport checksum is in the frame, if it has one, and the sum over the constant part.
    transport: Option<(usize, Sum)>,
}

impl Mould {
    /// An IPv4 packet with this payload, the first four bytes of which are the ports. `fragment` are its flags and offset,
    /// `checksum` is where in the payload the transport checksum is.
    pub fn new(protocol: u8, fragment: u16, payload: &[u8], checksum: Option<usize>) -> Mould {
        let start = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
        let end = start + payload.len();
        let mut bytes = vec![0; end.max(SHORTEST)];
        bytes[..6].copy_from_slice(&crate::frames::SERVER_MAC);
        bytes[6..12].copy_from_slice(&crate::frames::CLIENT_MAC);
        bytes[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "at most a frame's length")]
        let (total, len) = ((end - ethernet::HEADER_LEN) as u16, payload.len() as u16);
        let ip = &mut bytes[ethernet::HEADER_LEN..start];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&MARK.to_be_bytes());
        ip[6..8].copy_from_slice(&fragment.to_be_bytes());
        ip[8..10].copy_from_slice(&[64, protocol]);
        let ip_sum = Sum::ZERO.bytes(ip);
        bytes[start..end].copy_from_slice(payload);
        bytes[start..start + 4].fill(0);
        let sum = checksum::pseudo_v4(0, 0, protocol, len).bytes(&bytes[start..end]);
        Mould { bytes, ip_sum, transport: checksum.map(|at| (start + at, sum)) }
    }

    /// Bytes in the buffer of such a frame.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a frame into `out`, which has the mould's length.
    pub fn write(&self, out: &mut [u8], from: End, to: End) {
        out.copy_from_slice(&self.bytes);
        let ip = ethernet::HEADER_LEN;
        let sum = self.ip_sum.u32(from.0).u32(to.0).checksum();
        out[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
        out[ip + 12..ip + 16].copy_from_slice(&from.0.to_be_bytes());
        out[ip + 16..ip + 20].copy_from_slice(&to.0.to_be_bytes());
        out[ip + 20..ip + 22].copy_from_slice(&from.1.to_be_bytes());
        out[ip + 22..ip + 24].copy_from_slice(&to.1.to_be_bytes());
        if let Some((at, sum)) = self.transport {
            let sum = sum.u32(from.0).u32(to.0).u16(from.1).u16(to.1);
            out[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
        }
    }
}
