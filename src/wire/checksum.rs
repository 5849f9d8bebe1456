//! The Internet checksum (RFC 1071): sums over bytes and pseudo headers, and the incremental update of
//! RFC 1624. Used for IPv4, TCP, UDP and ICMP headers that Flowgate writes or must believe.

#![forbid(unsafe_code)]

/// A running ones' complement sum of big-endian 16-bit words, with room for carries. Every part that
/// is added must start at an even offset of what is summed, so only the last may have an odd length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Nothing added yet.
    pub const ZERO: Sum = Sum(0);

    /// Adds bytes; an odd last byte is padded with zero (RFC 1071 1.).
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        // The sum does not depend on byte order but for one swap at its end (RFC 1071 2.B), so the words
        // are summed as they lie. Two 32-bit halves in 64-bit accumulators need no carry handling
        // below 2^32 words, and the compiler makes vector instructions of the loop.
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = 0u64;
        for word in words {
            let word = u64::from_ne_bytes(*word);
            sum += (word & 0xffff_ffff) + (word >> 32);
        }
        let mut tail = [0; 8];
        for (to, from) in tail.iter_mut().zip(rest) {
            *to = *from;
        }
        let tail = u64::from_ne_bytes(tail);
        sum += (tail & 0xffff_ffff) + (tail >> 32);
        self.u16(u16::from_be(fold(sum)))
    }

    /// Adds one word.
    #[inline]
    #[must_use]
    pub const fn u16(self, word: u16) -> Sum {
        Sum(self.0 + word as u64)
    }

    /// Adds two words.
    #[inline]
    #[must_use]
    pub const fn u32(self, words: u32) -> Sum {
        Sum(self.0 + (words >> 16) as u64 + (words & 0xffff) as u64)
    }

    /// Adds eight words.
    #[inline]
    #[must_use]
    pub const fn u128(self, words: u128) -> Sum {
        // 2^32 leaves 1 when divided by 2^16 - 1, so 32-bit parts add up like words do.
        const LOW: u128 = 0xffff_ffff;
        let parts = (words >> 96) + ((words >> 64) & LOW) + ((words >> 32) & LOW) + (words & LOW);
        #[expect(clippy::cast_possible_truncation, reason = "a sum of four 32-bit numbers")]
        Sum(self.0 + parts as u64)
    }

    /// The sum folded to 16 bits: 0xFFFF over anything with a right checksum in it.
    #[inline]
    pub const fn fold(self) -> u16 {
        fold(self.0)
    }

    /// The checksum field's value: the folded sum's complement.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !fold(self.0)
    }

    /// Like [`checksum`](Sum::checksum), as UDP sends it: 0 there means "none" and is sent as 0xFFFF (RFC 768).
    #[inline]
    pub const fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            other => other,
        }
    }

    /// Whether what was summed, its checksum field included, is intact.
    #[inline]
    pub const fn is_right(self) -> bool {
        self.fold() == 0xffff
    }
}

/// Folds carries back in until 16 bits are left.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    #[expect(clippy::cast_possible_truncation, reason = "three folds leave no carry of 33 bits")]
    {
        sum as u16
    }
}

/// IPv4's pseudo header of TCP and UDP (RFC 9293 3.1); `len` is header and payload in bytes.
#[inline]
pub const fn pseudo_v4(src: u32, dst: u32, protocol: u8, len: u16) -> Sum {
    Sum::ZERO.u32(src).u32(dst).u16(protocol as u16).u16(len)
}

/// IPv6's pseudo header of TCP, UDP and ICMPv6 (RFC 8200 8.1); `len` is header and payload in bytes.
#[inline]
pub const fn pseudo_v6(src: u128, dst: u128, protocol: u8, len: u32) -> Sum {
    Sum::ZERO.u128(src).u128(dst).u16(protocol as u16).u32(len)
}

/// The checksum after one word under it changed from `old` to `new` (RFC 1624 equation 3).
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO.u16(!checksum).u16(!old).u16(new).checksum()
}

/// The checksum after two words under it changed from `old` to `new` (RFC 1624 equation 3).
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Sum::ZERO.u16(!checksum).u32(!old).u32(new).checksum()
}
