//! What F-4, F-6 and F-7 promise, of builder and choice together.

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

/// A group of targets, numbered and addressed by `n`, with these weights.
fn group(seed: HashSeed, weights: impl IntoIterator<Item = (u16, u16)>) -> Builder {
    let mut builder = Builder::new(seed);
    for (n, weight) in weights {
        builder.add(TargetId(n), address(n), weight);
    }
    builder
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
    builder.remove(TargetId(7));
    let without = builder.map();
    for (old, new) in before.rows.iter().zip(without.rows.iter()) {
        let heir = if old.first == TargetId(7) { old.second } else { old.first };
        assert_eq!(new.first, heir);
    }
    builder.add(TargetId(7), address(7), 1);
    assert_eq!(builder.map().rows, before.rows);
}

#[test]
fn f_4_a_new_weight_moves_rows_from_or_to_that_target_only() {
    let mut builder = group(seed(3), (0..10).map(|n| (n, 10)));
    for (weight, grows) in [(5, false), (40, true), (0, false), (10, true)] {
        let before = builder.map();
        builder.reweight(TargetId(4), weight);
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
    drained.reweight(TargetId(2), 0);
    let without = group(seed(4), equal(6).filter(|(n, _)| *n != 2)).map();
    assert_eq!(drained.map().rows, without.rows);
    let map = drained.map();
    let only_drained = |target| target == TargetId(2);
    assert!((0..ROWS).all(|row| map.choose(hash_of_row(row), only_drained).unwrap().fail_open));
}

#[test]
fn f_4_the_map_depends_on_addresses_not_on_ids() {
    let mut builder = Builder::new(seed(5));
    for n in 0..8 {
        builder.add(TargetId(100 - n), address(n), 1);
    }
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
    builder.add(TargetId(1), address(1), 1);
    let map = builder.map();
    assert!(map.rows.iter().all(|row| (row.first, row.second) == (TargetId(1), TargetId(1))));
    assert_eq!(map.choose(7, |_| true), Some(Choice { target: TargetId(1), fail_open: false }));
    assert_eq!(map.choose(7, |_| false), Some(Choice { target: TargetId(1), fail_open: true }));
    builder.remove(TargetId(1));
    assert_eq!(builder.map().choose(7, |_| true), None);
}

// F-4, O-3
#[test]
fn a_target_added_again_is_replaced_by_id_and_by_address() {
    let mut builder = group(seed(1), equal(4));
    builder.add(TargetId(2), address(9), 3);
    builder.add(TargetId(7), address(1), 2);
    let mut expected = Builder::new(seed(1));
    for (id, place, weight) in [(0, 0, 1), (3, 3, 1), (2, 9, 3), (7, 1, 2)] {
        expected.add(TargetId(id), address(place), weight);
    }
    assert_eq!(builder.members(), expected.members());
    assert_eq!(builder.map().rows, expected.map().rows);
}

#[derive(Clone, Debug)]
enum Change {
    Add(u16, u16),
    Remove(u16),
    Reweight(u16, u16),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let weight = || prop_oneof![1 => Just(0_u16), 3 => 1..5_u16, 1 => any::<u16>()];
    let change = prop_oneof![
        3 => (0..12_u16, weight()).prop_map(|(n, weight)| Change::Add(n, weight)),
        1 => (0..12_u16).prop_map(Change::Remove),
        2 => (0..12_u16, weight()).prop_map(|(n, weight)| Change::Reweight(n, weight)),
    ];
    proptest::collection::vec(change, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// However a group came to be what it is, its table is that of its members, in any order.
    #[test]
    fn f_4_changes_one_by_one_end_in_the_table_that_is_built_at_once(
        changes in changes(), by: proptest::sample::Index,
    ) {
        let mut builder = Builder::new(seed(1));
        for change in changes {
            match change {
                Change::Add(n, weight) => builder.add(TargetId(n), address(n), weight),
                Change::Remove(n) => builder.remove(TargetId(n)),
                Change::Reweight(n, weight) => builder.reweight(TargetId(n), weight),
            }
        }
        let mut list: Vec<_> = builder.members().iter().map(|m| (m.target().0, m.weight())).collect();
        if !list.is_empty() {
            let by = by.index(list.len());
            list.rotate_left(by);
        }
        prop_assert_eq!(builder.map().rows, group(seed(1), list).map().rows);
    }

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
    let changes: [fn(&mut Builder); 3] = [
        |builder| builder.add(TargetId(9), address(9), 1),
        |builder| builder.reweight(TargetId(9), 7),
        |builder| builder.remove(TargetId(9)),
    ];
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

/// The table as F-4 says it, every row asking every target.
fn by_definition(members: &[Member]) -> Vec<(TargetId, TargetId)> {
    let of_row = |row: u16| {
        let scored = members
            .iter()
            .filter_map(|member| Some((member.score_below(row, score::Score::NONE)?, member.target())));
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap());
        let first = scored[0].1;
        (first, scored.get(1).map_or(first, |second| second.1))
    };
    (0..=u16::MAX).map(of_row).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    // Rows look at the targets that draw well for them only, and at all of them where that is too few.
    #[test]
    fn f_4_targets_added_together_have_the_rows_that_each_row_would_give_them(
        weights in proptest::collection::vec(prop_oneof![4 => 1..4_u16, 1 => Just(0), 1 => any::<u16>()], 1..60),
        cut in any::<proptest::sample::Index>(),
        replaced in any::<proptest::sample::Index>(),
    ) {
        let all: Vec<_> = (0..).zip(&weights).map(|(n, weight)| (TargetId(n), address(n), *weight)).collect();
        let (early, late) = all.split_at(cut.index(all.len()));
        let mut builder = Builder::new(seed(7));
        builder.add_all(early);
        builder.add_all(late);
        // One that comes again under its old address, and its number to another.
        let again = replaced.index(all.len());
        builder.add_all(&[(TargetId(900), all[again].1, 2), (TargetId(900), address(900), 5), (TargetId(901), all[again].1, 3)]);
        let rows: Vec<_> = builder.map().rows.iter().map(|row| (row.first, row.second)).collect();
        prop_assert!(rows == by_definition(builder.members()));
        prop_assert_eq!(builder.members().len(), all.len() + 1);
    }
}

#[test]
fn f_4_a_thousand_targets_at_once_are_what_one_after_the_other_are() {
    let targets: Vec<_> = (0..1000).map(|n| (TargetId(n), address(n), 1 + n % 3)).collect();
    let mut builder = Builder::new(seed(3));
    builder.add_all(&targets);
    assert_eq!(
        builder.map().rows,
        group(seed(3), targets.iter().map(|(id, _, weight)| (id.0, *weight))).map().rows
    );
}
