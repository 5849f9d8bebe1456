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
        let mut rest = rest;
        if let Some((word, behind)) = rest.split_first_chunk::<4>() {
            sum += u64::from(u32::from_ne_bytes(*word));
            rest = behind;
        }
        if let Some((word, behind)) = rest.split_first_chunk::<2>() {
            sum += u64::from(u16::from_ne_bytes(*word));
            rest = behind;
        }
        if let [last] = rest {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
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

/// The checksum of a word and of what else has this checksum.
#[inline(always)]
pub const fn with_word(checksum: u16, word: u16) -> u16 {
    // A difference in one's complement: what is borrowed goes round (RFC 1624 4).
    let (difference, borrow) = checksum.overflowing_sub(word);
    difference.wrapping_sub(borrow as u16)
}

/// Whether the checksum of an IPv4 header without options is right.
#[inline]
pub fn header_is_right(header: &[u8; 20]) -> bool {
    // As the words lie: a sum that is right reads 0xFFFF in either byte order (RFC 1071 2.B).
    let (words, last) = (header.as_chunks::<8>().0, header.last_chunk::<4>());
    let [a, b] = [words.first(), words.get(1)].map(|word| word.map_or(0, |word| u64::from_ne_bytes(*word)));
    let c = last.map_or(0, |word| u64::from(u32::from_ne_bytes(*word)));
    // Carries go round, as 2^64 leaves 1 when divided by 2^16 - 1.
    let (ab, carry) = a.overflowing_add(b);
    let (abc, more) = ab.overflowing_add(c + u64::from(carry));
    // The upper half of a sum with itself turned by half is the sum of both halves, with its carry gone round.
    let sum = abc.wrapping_add(u64::from(more));
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    sum.wrapping_add(sum.rotate_left(16)) >> 16 == 0xffff
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::naive_checksum;
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_section_3_adds_up() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::ZERO.bytes(&bytes).fold(), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_section_4_gives_zero_and_not_its_negative() {
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_ones() {
        assert_eq!(Sum::ZERO.u16(0xffff).checksum(), 0);
        assert_eq!(Sum::ZERO.u16(0xffff).udp_checksum(), 0xffff);
        assert_eq!(Sum::ZERO.u16(0x1234).udp_checksum(), !0x1234);
    }

    #[test]
    fn the_longest_packet_of_ones_does_not_overflow() {
        assert_eq!(Sum::ZERO.bytes(&[0xff; 65_536]).u128(u128::MAX).fold(), 0xffff);
    }

    proptest! {
        #[test]
        fn bytes_add_up_as_the_obvious_loop_has_it(bytes in prop::collection::vec(any::<u8>(), 0..1_700), skip in 0usize..9) {
            let bytes = bytes.get(skip..).unwrap_or_default();
            prop_assert_eq!(Sum::ZERO.bytes(bytes).checksum(), naive_checksum(bytes));
        }

        #[test]
        fn a_word_more_takes_as_much_off_the_checksum(mut header: [u8; 20], word: u16, none: bool) {
            if none {
                header = [0; 20];
            }
            header[2..4].fill(0);
            let without = naive_checksum(&header);
            for word in [word, 0, 1, u16::MAX - 1, u16::MAX, without, !without] {
                header[2..4].copy_from_slice(&word.to_be_bytes());
                prop_assert_eq!(with_word(without, word), naive_checksum(&header));
            }
        }

        #[test]
        fn the_header_of_one_checksum_is_right(mut header: [u8; 20], bit in 0u16..16, few: bool) {
            if few {
                header = header.map(|byte| if byte < 128 { 0 } else { 0xff });
            }
            header[10..12].fill(0);
            let right = naive_checksum(&header);
            let (more, less) = (right.wrapping_add(1 << bit), right.wrapping_sub(1 << bit));
            for checksum in [right, more, less, !right, 0, 0xffff] {
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                let all_zeros = header == [0; 20];
                prop_assert_eq!(header_is_right(&header), naive_checksum(&header) == 0 && !all_zeros);
            }
        }

        #[test]
        fn pseudo_headers_add_up_as_their_bytes_do(src: u128, dst: u128, protocol: u8, len: u16) {
            let mut v6 = [src.to_be_bytes(), dst.to_be_bytes()].concat();
            v6.extend([0, 0, len.to_be_bytes()[0], len.to_be_bytes()[1], 0, 0, 0, protocol]);
            prop_assert_eq!(pseudo_v6(src, dst, protocol, len.into()).checksum(), naive_checksum(&v6));

            let (src, dst) = ((src >> 96) as u32, (dst >> 96) as u32);
            let mut v4 = [src.to_be_bytes(), dst.to_be_bytes()].concat();
            v4.extend([0, protocol, len.to_be_bytes()[0], len.to_be_bytes()[1]]);
            prop_assert_eq!(pseudo_v4(src, dst, protocol, len).checksum(), naive_checksum(&v4));
        }

        #[test]
        fn an_updated_checksum_is_the_one_computed_anew(
            mut words in prop::collection::vec(1u16.., 10),
            at in 0usize..9,
            new: (u16, u16),
        ) {
            let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
            let before = naive_checksum(&bytes(&words));
            let old = words[at];
            words[at] = new.0;
            let after = naive_checksum(&bytes(&words));
            prop_assert_eq!(update_u16(before, old, words[at]), after);

            let old = u32::from(words[at]) << 16 | u32::from(words[at + 1]);
            (words[at], words[at + 1]) = new;
            let new = u32::from(new.0) << 16 | u32::from(new.1);
            prop_assert_eq!(update_u32(after, old, new), naive_checksum(&bytes(&words)));
        }
    }
}
