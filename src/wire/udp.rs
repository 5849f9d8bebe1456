//! The UDP header (RFC 768), as the outer header of GENEVE needs it.

#![forbid(unsafe_code)]

use super::load::field16;

/// Bytes of a UDP header.
pub const HEADER_LEN: usize = 8;

/// A datagram's header, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Header and payload in bytes, as the sender says.
    pub len: u16,
    /// Checksum field; 0 means none was computed.
    pub checksum: u16,
}

impl UdpHeader {
    /// Reads the header at the start of `datagram`; `None` if it is cut. `len` is not judged.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Option<UdpHeader> {
        let header = datagram.first_chunk::<HEADER_LEN>()?;
        Some(UdpHeader {
            src_port: field16::<0, _>(header),
            dst_port: field16::<2, _>(header),
            len: field16::<4, _>(header),
            checksum: field16::<6, _>(header),
        })
    }
}
