//! The index without a table: hashes alone.

use proptest::prelude::*;

use super::*;
use crate::flow::memory::Carver;
use crate::flow::pages::Pages;

fn index(buckets: u32) -> Index {
    let mut carver = Carver::map(buckets as usize * 64, Pages::Small).unwrap();
    Index::new(carver.carve(buckets).unwrap())
}

/// SplitMix64, so that the hashes of these tests are not made by what they test.
fn hashes() -> impl Iterator<Item = u64> {
    (1_u64..).map(|n| {
        let x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    })
}

/// Fills it with numbered hashes until no room is found, or to `limit`.
fn fill(index: &mut Index, hashes: &[u64]) -> usize {
    for (number, hash) in (0_u32..).zip(hashes) {
        match index.vacancy(index.home_of(*hash)) {
            Some(vacancy) => index.fill(&vacancy, number),
            None => return number as usize,
        }
    }
    hashes.len()
}

// F-12, F-13
#[test]
fn fills_to_its_promised_load_and_well_beyond_and_finds_everything() {
    let buckets = 4096;
    let all: Vec<_> = hashes().take(buckets as usize * SLOTS).collect();
    let mut index = index(buckets);
    let held = fill(&mut index, &all);
    assert!(held > all.len() * 92 / 100, "held {held} of {}, promised half", all.len());
    assert_eq!(index.audit() as usize, held);
    for (number, hash) in (0..).zip(&all[..held]) {
        assert_eq!(index.find(*hash, |entry| entry == number), Some(number));
    }
    for hash in &all[held..] {
        assert_eq!(index.find(*hash, |entry| entry as usize >= held), None);
    }
}

#[test]
fn at_its_promised_load_few_slots_are_away_from_home() {
    let capacity = 20_000;
    let buckets = Index::buckets_for(capacity);
    let all: Vec<_> = hashes().take(capacity as usize).collect();
    let mut index = index(buckets);
    assert_eq!(fill(&mut index, &all), all.len());
    let strays: u32 = (0..buckets).map(|b| u32::from(index.buckets.at(b).lane(COUNT_LANE))).sum();
    assert!((10..capacity / 150).contains(&strays), "{strays} of {capacity}");
}

#[test]
fn f_12_a_defeated_hash_is_told_and_harms_nothing() {
    let mut index = index(1024);
    let same = [0x1234_5678_9abc_def0; 100];
    assert_eq!(fill(&mut index, &same), 2 * SLOTS, "both buckets, and no way out of either");
    index.audit();
    for number in 0..20 {
        index.remove(same[0], number);
    }
    assert_eq!(index.audit(), 0);
    assert!(index.homes().guess(same[0], || ()) == NO_ENTRY);
}

#[test]
fn what_is_removed_is_gone_and_its_neighbours_are_not() {
    let all: Vec<_> = hashes().take(64 * 8).collect();
    let mut index = index(64);
    fill(&mut index, &all);
    for (number, hash) in (0..).zip(&all).filter(|(number, _)| number % 3 == 0) {
        index.remove(*hash, number);
    }
    index.audit();
    for (number, hash) in (0..).zip(&all) {
        assert_eq!(index.find(*hash, |entry| entry == number).is_some(), number % 3 != 0);
    }
}

// F-12
#[test]
fn a_slot_goes_without_its_hash_from_home_or_from_away() {
    let all: Vec<_> = hashes().take(64 * 9).collect();
    let mut index = index(64);
    fill(&mut index, &all);
    let mut away = 0;
    for (number, hash) in (0..).zip(&all).step_by(3) {
        let home = index.whereabouts(*hash);
        if !index.remove_at(home, number) {
            away += 1;
            assert!(index.remove_at(index.other(home, tag(*hash)), number));
        }
        assert!(!index.remove_at(home, number), "only a number is left of it");
        index.audit();
    }
    assert!(away > 0);
    for (number, hash) in (0..).zip(&all) {
        assert_eq!(index.find(*hash, |entry| entry == number).is_some(), number % 3 != 0);
    }
}

#[test]
fn an_entry_that_came_back_to_its_bucket_is_taken_out_of_its_new_slot() {
    let mut index = index(2);
    let hash = hashes().next().unwrap();
    let [first, second] = [0, 1].map(|number| {
        let vacancy = index.vacancy(index.home_of(hash)).unwrap();
        index.fill(&vacancy, number);
        vacancy.whereabouts()
    });
    assert_eq!(first, second);
    assert!(index.remove_at(first, 1) && index.remove_at(first, 0));
    index.fill(&Vacancy { bucket: first, slot: 5, tag: tag(hash), away: false }, 0);
    assert!(index.remove_at(first, 0));
    assert_eq!(index.audit(), 0);
}

#[test]
fn the_stray_count_stays_at_its_limit() {
    let mut bucket = Bucket { lanes: [0; 12], entries: [0; SLOTS] };
    bucket.set_lane(COUNT_LANE, u16::MAX - 1);
    bucket.stray_left();
    bucket.stray_left();
    bucket.stray_gone();
    assert!(bucket.has_strays());
    assert_eq!(bucket.lane(COUNT_LANE), u16::MAX);
}

proptest! {
    #[test]
    fn tags_are_compared_exactly(tags: [u16; SLOTS], wanted: u16, count: u16, marks: u16) {
        let mut bucket = Bucket { lanes: [0; 12], entries: [0; SLOTS] };
        // Neighbouring values, and the two lanes that are no tags, must not leak in.
        let near = |tag: u16| [wanted, wanted ^ 1, wanted ^ 0x8000, tag][usize::from(tag & 3)];
        let tags = tags.map(near);
        for (slot, tag) in tags.into_iter().enumerate() {
            bucket.set_lane(slot, tag);
        }
        bucket.set_lane(COUNT_LANE, near(count));
        bucket.set_lane(AWAY_LANE, near(marks));
        let found: Vec<_> = bucket.matching(wanted).collect();
        let expected: Vec<_> = (0..SLOTS).filter(|slot| tags[*slot] == wanted).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_other_bucket_is_another_and_leads_back(tag: u16, half in 1..200_u32) {
        let index = index(2 * half);
        for bucket in 0..2 * half {
            let other = index.other(bucket, tag);
            prop_assert!(other != bucket && other < 2 * half);
            prop_assert_eq!(index.other(other, tag), bucket);
        }
    }
}
