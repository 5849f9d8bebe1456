//! The TCP header (RFC 9293 3.1): what the flow's state and a reset need of it.

#![forbid(unsafe_code)]

use bitflags::bitflags;
use thiserror::Error;

use super::load::{field16, field32};

pub mod mss;

/// Bytes of a TCP header without options.
pub const HEADER_LEN: usize = 20;

bitflags! {
    /// The eight control bits of a segment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct TcpFlags: u8 {
        /// The sender has no more to send.
        const FIN = 0x01;
        /// Opens a connection.
        const SYN = 0x02;
        /// Ends the connection at once.
        const RST = 0x04;
        /// Hand to the application now.
        const PSH = 0x08;
        /// The acknowledgement number counts.
        const ACK = 0x10;
        /// The urgent pointer counts.
        const URG = 0x20;
        /// Congestion was experienced (RFC 3168).
        const ECE = 0x40;
        /// The congestion window was reduced (RFC 3168).
        const CWR = 0x80;
    }
}

/// A sequence or acknowledgement number: arithmetic modulo 2^32, order only over less than half of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `len` later.
    #[inline]
    #[must_use]
    pub const fn plus(self, len: u32) -> Seq {
        Seq(self.0.wrapping_add(len))
    }

    /// Whether `self` comes after `other` (RFC 9293 3.4: a signed comparison of the distance).
    #[inline]
    pub const fn is_after(self, other: Seq) -> bool {
        other.0.wrapping_sub(self.0).cast_signed() < 0
    }
}

/// Why bytes are no TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TcpError {
    /// Fewer than 20 bytes, or the options end past the bytes.
    #[error("cut inside the TCP header")]
    Truncated,
    /// Data offset below 5 words.
    #[error("TCP data offset below 20 bytes")]
    BadDataOffset,
}

/// A segment's header, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the segment's first byte.
    pub seq: Seq,
    /// Next byte expected, meaningful with [`TcpFlags::ACK`].
    pub ack: Seq,
    /// Bytes of the header with its options: 20–60.
    pub data_offset: u8,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window as sent, without scaling.
    pub window: u16,
}

impl TcpHeader {
    /// Reads the header at the start of `segment`, which ends where the IP packet ends.
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<TcpHeader, TcpError> {
        let header = segment.first_chunk::<HEADER_LEN>().ok_or(TcpError::Truncated)?;
        let data_offset = (header[12] >> 4) << 2;
        if data_offset < 20 {
            return Err(TcpError::BadDataOffset);
        }
        if usize::from(data_offset) > segment.len() {
            return Err(TcpError::Truncated);
        }
        Ok(TcpHeader {
            src_port: field16::<0, _>(header),
            dst_port: field16::<2, _>(header),
            seq: Seq(field32::<4, _>(header)),
            ack: Seq(field32::<8, _>(header)),
            data_offset,
            flags: TcpFlags::from_bits_retain(header[13]),
            window: field16::<14, _>(header),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample;
    use super::*;

    #[test]
    fn order_is_kept_across_the_wrap() {
        let before = Seq(u32::MAX - 1);
        assert_eq!(before.plus(3), Seq(1));
        assert!(before.plus(3).is_after(before));
        assert!(!before.is_after(before.plus(3)) && !before.is_after(before));
    }

    //
    #[test]
    fn a_header_is_cut_if_its_options_are() {
        let segment = sample::tcp((1, 2), 3, 4, 0x12, &[1; 12], b"x");
        for len in 0..32 {
            assert_eq!(TcpHeader::parse(&segment[..len]), Err(TcpError::Truncated), "cut to {len}");
        }
        assert_eq!(TcpHeader::parse(&segment[..32]).unwrap().data_offset, 32);
    }

    //
    #[test]
    fn a_data_offset_inside_the_fixed_header_is_refused() {
        let mut segment = sample::tcp((1, 2), 3, 4, 0x10, &[], &[]);
        segment[12] = 0x40;
        assert_eq!(TcpHeader::parse(&segment), Err(TcpError::BadDataOffset));
    }

    proptest! {
        #[test]
        fn fields_are_where_rfc_9293_has_them(src: u16, dst: u16, seq: u32, ack: u32, flags: u8, words in 0usize..11) {
            let header = TcpHeader::parse(&sample::tcp((src, dst), seq, ack, flags, &vec![1; words * 4], b"data")).unwrap();
            prop_assert_eq!((header.src_port, header.dst_port), (src, dst));
            prop_assert_eq!((header.seq, header.ack), (Seq(seq), Seq(ack)));
            prop_assert_eq!(header.flags.bits(), flags);
            prop_assert_eq!(usize::from(header.data_offset), 20 + words * 4);
            prop_assert_eq!(header.window, 0xfaf0);
        }
    }
}
