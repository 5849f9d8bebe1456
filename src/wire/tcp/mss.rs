//! Lowering the maximum segment size that a SYN offers (M-3), so that what the other end sends fits
//! the target side with its encapsulation. In place, checksum and all; nothing else of the segment changes.

#![forbid(unsafe_code)]

use super::HEADER_LEN;
use crate::wire::checksum::update_u16;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
/// Kind, length and the size (RFC 9293 3.2).
const MSS_LEN: usize = 4;
/// Offset of the checksum in the TCP header.
const CHECKSUM: usize = 16;

/// Lowers the MSS options of the TCP header at the start of `segment` to at most `most`; whether any was
/// changed. A header without the option is left alone (its end assumes 536, or 1,220 in IPv6, RFC 9293
/// 3.7.1), and so is one whose options are malformed: the other end will judge it.
pub fn clamp(segment: &mut [u8], most: u16) -> bool {
    let Some(data_offset) = segment.get(12).map(|byte| usize::from(byte >> 4) * 4) else { return false };
    let Some(header) = segment.get_mut(..data_offset).filter(|header| header.len() >= HEADER_LEN) else {
        return false;
    };
    if !well_formed(header.get(HEADER_LEN..).unwrap_or_default()) {
        return false;
    }
    let mut at = HEADER_LEN;
    let mut changed = false;
    while let Some(&kind) = header.get(at) {
        match kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => at += 1,
            _ => {
                if kind == MAXIMUM_SEGMENT_SIZE {
                    changed |= lower(header, at + 2, most);
                }
                at += usize::from(header.get(at + 1).copied().unwrap_or(0)).max(2);
            }
        }
    }
    changed
}

/// Whether every option ends inside the header and an MSS has its one length.
fn well_formed(mut options: &[u8]) -> bool {
    while let Some((&kind, rest)) = options.split_first() {
        match kind {
            END_OF_OPTIONS => return true,
            NO_OPERATION => options = rest,
            _ => {
                let len = rest.first().map_or(0, |len| usize::from(*len));
                if len < 2 || (kind == MAXIMUM_SEGMENT_SIZE && len != MSS_LEN) {
                    return false;
                }
                let Some(behind) = options.get(len..) else { return false };
                options = behind;
            }
        }
    }
    true
}

/// Lowers the size at `at`, which may be odd: the checksum's words then have its bytes the other way round.
fn lower(header: &mut [u8], at: usize, most: u16) -> bool {
    let word = |header: &[u8], at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let (Some(size), Some(checksum)) = (word(header, at), word(header, CHECKSUM)) else { return false };
    if size <= most {
        return false;
    }
    let checksum = match at % 2 {
        0 => update_u16(checksum, size, most),
        _ => update_u16(checksum, size.swap_bytes(), most.swap_bytes()),
    };
    for (place, value) in [(at, most), (CHECKSUM, checksum)] {
        if let Some(field) = header.get_mut(place..place + 2) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::sample;

    const A: [u8; 4] = [192, 0, 2, 1];
    const B: [u8; 4] = [198, 51, 100, 2];

    /// An IPv4 packet with a SYN that has these options, padded with zeros, and a right checksum.
    fn syn(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut segment = sample::tcp((1, 2), 3, 4, 0x02, &options, payload);
        let mut summed = [A, B].concat();
        summed.extend([0, 6]);
        summed.extend(u16::try_from(segment.len()).unwrap().to_be_bytes());
        summed.extend(&segment);
        let sum = sample::naive_checksum(&summed);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        sample::ipv4(A, B, 6, &segment)
    }

    /// What clamping to 1,000 makes of these options; the checksum must have stayed right.
    fn clamped(options: &[u8]) -> (bool, Vec<u8>) {
        let mut ip = syn(options, b"data");
        let changed = clamp(&mut ip[20..], 1000);
        assert!(sample::transport_checksum_is_right(&ip), "{options:?}");
        (changed, ip[40..40 + options.len()].to_vec())
    }

    // M-3
    #[test]
    fn only_a_larger_size_is_lowered() {
        assert_eq!(clamped(&[2, 4, 5, 180]), (true, vec![2, 4, 3, 232]));
        assert_eq!(clamped(&[2, 4, 3, 233]), (true, vec![2, 4, 3, 232]));
        assert_eq!(clamped(&[2, 4, 3, 232]), (false, vec![2, 4, 3, 232]));
        assert_eq!(clamped(&[2, 4, 0, 0]), (false, vec![2, 4, 0, 0]));
    }

    // M-3
    #[test]
    fn the_option_is_found_wherever_it_stands_at_odd_places_too() {
        assert_eq!(clamped(&[1, 2, 4, 5, 180, 1]), (true, vec![1, 2, 4, 3, 232, 1]));
        assert_eq!(clamped(&[4, 2, 8, 10, 9, 9, 9, 9, 9, 9, 9, 9, 2, 4, 255, 255]).1[12..], [2, 4, 3, 232]);
        assert_eq!(clamped(&[3, 3, 7, 2, 4, 5, 180]).1[3..], [2, 4, 3, 232]);
        // Twice, as nobody sends it: whichever the other end believes is low.
        assert_eq!(clamped(&[2, 4, 5, 180, 1, 2, 4, 6, 0]).1, [2, 4, 3, 232, 1, 2, 4, 3, 232]);
    }

    // M-3
    #[test]
    fn absent_or_malformed_options_are_left_alone() {
        let wrong: [&[u8]; 8] = [
            &[],
            &[1, 1, 1, 1],
            &[0, 2, 4, 5, 180],
            &[2, 3, 5, 180],
            &[2, 6, 5, 180, 5, 180],
            &[2, 4, 5, 180, 9, 0],
            &[2, 4, 5, 180, 9, 40],
            &[8, 12, 2, 4, 5, 180],
        ];
        for options in wrong {
            assert_eq!(clamped(options), (false, options.to_vec()));
        }
        let mut cut = syn(&[2, 4, 5, 180], &[]);
        assert!(!clamp(&mut cut[20..43], 1000), "the header says more than there is");
        assert!(!clamp(&mut [], 1000));
    }

    proptest! {
        #[test]
        fn whatever_the_options_the_checksum_stays_right_and_only_sizes_change(
            options in prop::collection::vec(any::<u8>(), 0..40), most: u16, payload in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let before = syn(&options, &payload);
            let mut after = before.clone();
            let changed = clamp(&mut after[20..], most);
            prop_assert!(sample::transport_checksum_is_right(&after));
            prop_assert_eq!(changed, before != after);
            prop_assert_eq!(&before[..36], &after[..36]);
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..80), most: u16) {
            clamp(&mut bytes, most);
        }
    }
}
