//! What the memory promises, over pages of its own and over a file's.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn lanes_are_compared_exactly_by_either_way(lanes: [u16; 12], wanted: u16) {
        // Neighbouring values, where a borrow or carry from lane to lane would show.
        let near = |lane: u16| [wanted, wanted ^ 1, wanted ^ 0x8000, lane][usize::from(lane & 3)];
        let lanes = lanes.map(near);
        let expected = (0..12).filter(|i| lanes[*i] == wanted).fold(0, |bits, i| bits | 1 << i);
        prop_assert_eq!(equal_lanes_portable(&lanes, wanted), expected);
        prop_assert_eq!(equal_lanes(&lanes, wanted) & 0xfff, expected);
    }
}

proptest! {
    #[test]
    fn numbers_are_compared_exactly(numbers: [u32; 10], wanted: u32) {
        // Each differs from the wanted one by a bit, or does not, or by as many as come.
        let near = |number: u32| [wanted, wanted ^ 1 << (number >> 27), wanted ^ 1 << 15, number][number as usize & 3];
        for (numbers, wanted) in [(numbers.map(near), wanted), ([0; 10], 0), ([1; 10], 0)] {
            let expected = (0..10).filter(|i| numbers[*i] == wanted).fold(0, |bits, i| bits | 1 << i);
            prop_assert_eq!(equal_numbers(&numbers, wanted) & 0x3ff, expected);
        }
    }
}

proptest! {
    #[test]
    fn any_number_leads_to_a_value_in_proportion(len in 1..2000_u32, x: u32) {
        let mut carver = Carver::map(len as usize * 8, Pages::Small).unwrap();
        let mut numbers = carver.carve::<u64>(len).unwrap();
        for i in 0..len {
            *numbers.at_mut(i) = u64::from(i);
        }
        let expected = u128::from(x) * u128::from(len) / (1 << 32);
        prop_assert_eq!(u128::from(*numbers.view().at_scaled(x)), expected);
        prop_assert_eq!(u64::from(scale(x, len)), *numbers.view().at_scaled(x));
        prop_assert_eq!(*numbers.view().at_scaled(u32::MAX), u64::from(len) - 1);
    }
}

// SAFETY: a number.
unsafe impl Plain for u64 {}

#[test]
fn slices_are_zeroed_aligned_apart_and_outlive_the_carver() {
    let (mut numbers, mut entries) = {
        let mut carver = Carver::map(3 * 8 + 63 + 2 * 64, Pages::Small).unwrap();
        assert_eq!(carver.kind(), PageKind::Small);
        (carver.carve::<u64>(3).unwrap(), carver.carve::<Entry>(2).unwrap())
    };
    assert_eq!(std::ptr::from_ref(entries.at(0)).align_offset(64), 0);
    for i in 0..3 {
        assert_eq!(*numbers.at(i), 0);
        *numbers.at_mut(i) = u64::MAX;
    }
    assert_eq!(entries.at(0).last_seen.0, 0, "not written through the other slice");
    entries.at_mut(1).last_seen.0 = 5;
    assert_eq!((*numbers.at(2), entries.at(1).last_seen.0), (u64::MAX, 5));
}

#[test]
fn an_index_out_of_range_is_the_last_value() {
    let mut carver = Carver::map(4 * 8, Pages::Small).unwrap();
    let mut numbers = carver.carve::<u64>(4).unwrap();
    *numbers.at_mut(u32::MAX) = 9;
    assert_eq!((*numbers.at(3), *numbers.at(4), *numbers.at(2)), (9, 9, 0));
    numbers.prefetch(u32::MAX);
    assert_eq!(numbers.len(), 4);
}

#[test]
fn more_than_there_is_and_nothing_at_all_are_not_given() {
    let mut carver = Carver::map(4096, Pages::Small).unwrap();
    assert!(carver.carve::<u64>(0).is_none());
    assert!(carver.carve::<Entry>(u32::MAX).is_none());
    assert!(carver.carve::<u64>(512).is_some());
    assert!(carver.carve::<u64>(1).is_none());
}

#[test]
fn huge_pages_or_not_a_large_region_is_had_and_can_be_filled() {
    let mut carver = Carver::map(8 << 20, Pages::Huge).unwrap();
    let mut numbers = carver.carve::<u64>(1 << 20).unwrap();
    for i in 0..numbers.len() {
        *numbers.at_mut(i) = u64::from(i);
    }
    assert_eq!(*numbers.at(777_777), 777_777);
    assert!(carver.len() >= 8 << 20 && carver.len() <= 10 << 20);
}

#[test]
fn more_than_the_machine_has_is_an_error() {
    assert!(Carver::map(usize::MAX / 2, Pages::Huge).is_err());
    assert!(Carver::map(usize::MAX, Pages::Huge).is_err());
}
