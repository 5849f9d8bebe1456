//! What F-4, F-6 and F-7 promise, of builder and choice together.

mod updates;

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::flow::HashSeed;
use crate::id::TargetId;

fn seed(n: u8) -> HashSeed {
    HashSeed::from_secret(&[n; 16])
}

fn address(n: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a01_0000 + u32::from(n))
}

type Target = (TargetId, Ipv4Addr, u16);

/// The target that is numbered and addressed by `n`.
fn target(n: u16, weight: u16) -> Target {
    (TargetId(n), address(n), weight)
}

/// A group of targets, numbered and addressed by `n`, with these weights.
fn group(seed: HashSeed, weights: impl IntoIterator<Item = (u16, u16)>) -> Builder {
    let mut builder = Builder::new(seed);
    builder.update(&weights.into_iter().map(|(n, weight)| target(n, weight)).collect::<Vec<_>>());
    builder
}

/// The group with one target as told here: with another weight, or, if it was none of it, added.
fn set(builder: &mut Builder, n: u16, weight: u16) {
    let mut list = list(builder);
    match list.iter_mut().find(|(id, ..)| *id == TargetId(n)) {
        Some(known) => *known = target(n, weight),
        None => list.push(target(n, weight)),
    }
    builder.update(&list);
}

fn remove(builder: &mut Builder, n: u16) {
    let mut list = list(builder);
    list.retain(|(id, ..)| *id != TargetId(n));
    builder.update(&list);
}

fn list(builder: &Builder) -> Vec<Target> {
    builder.members().iter().map(|member| (member.target(), member.address(), member.weight())).collect()
}

fn equal(n: u16) -> impl Iterator<Item = (u16, u16)> {
    (0..n).map(|n| (n, 1))
}

/// How many rows each target has.
fn shares(map: &TargetMap) -> HashMap<TargetId, u32> {
    let mut shares = HashMap::new();
    for row in map.rows.iter() {
        *shares.entry(row.first).or_default() += 1;
    }
    shares
}

fn hash_of_row(row: usize) -> u64 {
    u64::try_from(row).unwrap() << 48 | 0x1234
}

/// The largest share over the mean, averaged over seeds: one table is one draw.
fn imbalance(targets: u16, seeds: u8) -> f64 {
    let of_seed = |n| {
        let shares = shares(&group(seed(n), equal(targets)).map());
        f64::from(*shares.values().max().unwrap()) * f64::from(targets) / ROWS as f64
    };
    (0..seeds).map(of_seed).sum::<f64>() / f64::from(seeds)
}

#[test]
fn f_4_ten_equal_targets_are_balanced_within_2_percent() {
    let imbalance = imbalance(10, 10);
    assert!(imbalance < 1.02, "{imbalance}");
}

#[test]
fn f_4_a_hundred_equal_targets_are_balanced_within_10_percent() {
    let imbalance = imbalance(100, 3);
    assert!(imbalance < 1.10, "{imbalance}");
}

#[test]
fn f_4_shares_follow_weights() {
    let weights = [(1, 100), (2, 200), (3, 300), (4, 400)];
    let shares = shares(&group(seed(1), weights).map());
    for (n, weight) in weights {
        let expected = ROWS as f64 * f64::from(weight) / 1000.0;
        let seen = f64::from(shares[&TargetId(n)]);
        assert!((seen / expected - 1.0).abs() < 0.05, "target {n}: {seen} rows, {expected} expected");
    }
}

#[test]
fn f_4_a_failed_targets_rows_spread_over_all_others() {
    let map = group(seed(1), equal(10)).map();
    let mut heirs = HashMap::<_, u32>::new();
    for row in map.rows.iter().filter(|row| row.first == TargetId(3)) {
        *heirs.entry(row.second).or_default() += 1;
    }
    assert_eq!(heirs.len(), 9);
    // A ninth of a tenth of the rows each: 728, deviation 27.
    assert!(heirs.values().all(|n| (560..900).contains(n)), "{heirs:?}");
}

#[test]
fn f_4_removing_or_adding_a_target_moves_its_own_rows_only_and_a_flap_returns_to_the_same_map() {
    let mut builder = group(seed(2), equal(20));
    let before = builder.map();
    remove(&mut builder, 7);
    let without = builder.map();
    for (old, new) in before.rows.iter().zip(without.rows.iter()) {
        let heir = if old.first == TargetId(7) { old.second } else { old.first };
        assert_eq!(new.first, heir);
    }
    set(&mut builder, 7, 1);
    assert_eq!(builder.map().rows, before.rows);
}

#[test]
fn f_4_a_new_weight_moves_rows_from_or_to_that_target_only() {
    let mut builder = group(seed(3), (0..10).map(|n| (n, 10)));
    for (weight, grows) in [(5, false), (40, true), (0, false), (10, true)] {
        let before = builder.map();
        set(&mut builder, 4, weight);
        let mut moved = 0;
        for (old, new) in before.rows.iter().zip(builder.map().rows.iter()) {
            if old.first != new.first {
                let one_whose_weight_changed = if grows { new.first } else { old.first };
                assert_eq!(one_whose_weight_changed, TargetId(4));
                moved += 1;
            }
        }
        assert!(moved > ROWS / 40, "{moved}");
    }
}

#[test]
fn f_4_weight_0_is_as_good_as_removed() {
    let mut drained = group(seed(4), equal(6));
    set(&mut drained, 2, 0);
    let without = group(seed(4), equal(6).filter(|(n, _)| *n != 2)).map();
    assert_eq!(drained.map().rows, without.rows);
    let map = drained.map();
    let only_drained = |target| target == TargetId(2);
    assert!((0..ROWS).all(|row| map.choose(hash_of_row(row), only_drained).unwrap().fail_open));
}

#[test]
fn f_4_the_map_depends_on_addresses_not_on_ids() {
    let mut builder = Builder::new(seed(5));
    builder.update(&(0..8).map(|n| (TargetId(100 - n), address(n), 1)).collect::<Vec<_>>());
    let renumbered = builder.map();
    let map = group(seed(5), equal(8)).map();
    for (a, b) in map.rows.iter().zip(renumbered.rows.iter()) {
        assert_eq!((a.first.0, a.second.0), (100 - b.first.0, 100 - b.second.0));
    }
}

#[test]
fn f_4_another_seed_is_another_map() {
    let (a, b) = (group(seed(6), equal(4)).map(), group(seed(7), equal(4)).map());
    let same = a.rows.iter().zip(b.rows.iter()).filter(|(a, b)| a.first == b.first).count();
    assert!((ROWS / 5..ROWS / 3).contains(&same), "a quarter by chance: {same}");
}

/// The map as computed on one machine: another processor or library must not give another.
#[test]
fn f_4_the_map_is_the_same_on_every_machine() {
    let map = group(seed(8), [(1, 1), (2, 2), (3, 3), (4, 65_535), (5, 7)]).map();
    let digest = map.rows.iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, row| {
        let both = u64::from(row.first.0) << 16 | u64::from(row.second.0);
        (digest ^ both).wrapping_mul(0x0100_0000_01b3)
    });
    assert_eq!(digest, 11_887_353_608_453_284_183, "worked out once more outside this program");
}

#[test]
fn f_6_a_flow_with_no_healthy_target_gets_its_rows_first_choice() {
    let map = group(seed(1), equal(5)).map();
    for row in (0..ROWS).step_by(101) {
        let choice = map.choose(hash_of_row(row), |_| false).unwrap();
        assert_eq!(choice, Choice { target: map.rows[row].first, fail_open: true });
    }
}

#[test]
fn f_7_an_empty_group_has_no_target() {
    let mut builder = Builder::new(seed(1));
    assert_eq!(builder.map().choose(7, |_| true), None);
    set(&mut builder, 1, 1);
    let map = builder.map();
    assert!(map.rows.iter().all(|row| (row.first, row.second) == (TargetId(1), TargetId(1))));
    assert_eq!(map.choose(7, |_| true), Some(Choice { target: TargetId(1), fail_open: false }));
    assert_eq!(map.choose(7, |_| false), Some(Choice { target: TargetId(1), fail_open: true }));
    remove(&mut builder, 1);
    assert_eq!(builder.map().choose(7, |_| true), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// What a worker chooses while some are unhealthy is what a table of the healthy ones would say.
    #[test]
    fn f_4_a_choice_among_the_healthy_is_that_of_a_table_of_the_healthy(
        healthy in proptest::collection::hash_set(0..10_u16, 1..10),
    ) {
        let weights = || (0..10_u16).map(|n| (n, 1 + n % 3));
        let healthy: HashSet<_> = healthy.into_iter().map(TargetId).collect();
        let map = group(seed(9), weights()).map();
        let rebuilt = group(seed(9), weights().filter(|(n, _)| healthy.contains(&TargetId(*n)))).map();
        for (row, expected) in rebuilt.rows.iter().enumerate().step_by(7) {
            let choice = map.choose(hash_of_row(row), |target| healthy.contains(&target));
            prop_assert_eq!(choice, Some(Choice { target: expected.first, fail_open: false }));
        }
    }
}

// F-4
#[test]
fn a_table_is_the_same_one_until_a_member_changes() {
    let mut builder = group(seed(1), equal(5));
    let first = builder.map();
    assert!(Arc::ptr_eq(&first.rows, &builder.map().rows));
    builder.update(&list(&builder));
    assert!(Arc::ptr_eq(&first.rows, &builder.map().rows));
    let changes: [fn(&mut Builder); 3] =
        [|builder| set(builder, 9, 1), |builder| set(builder, 9, 7), |builder| remove(builder, 9)];
    for change in changes {
        let before = builder.map();
        change(&mut builder);
        let after = builder.map();
        assert!(before.rows != after.rows && before.members != after.members);
        assert!(
            (0..10).all(|n| after.has(TargetId(n)) == builder.members().iter().any(|m| m.target().0 == n))
        );
        assert!(!after.has(TargetId(640)));
    }
    assert_eq!(builder.map().rows, first.rows);
}
