//! However a group came to be what it is, its table is the one that F-4 defines for its members.

use super::*;

/// The table as F-4 says it, every row asking every target.
fn by_definition(members: &[Member]) -> Vec<Row> {
    let of_row = |row: u16| {
        let scored = members
            .iter()
            .filter_map(|member| Some((member.score_below(row, score::Score::NONE)?, member.target())));
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap());
        let first = scored.first()?.1;
        Some(Row { first, second: scored.get(1).map_or(first, |second| second.1) })
    };
    (0..=u16::MAX).filter_map(of_row).collect()
}

/// The list with some targets as told: another weight, gone, another address, under another id.
#[derive(Clone, Debug)]
enum Change {
    Set(u16, u16),
    Remove(u16),
    Readdress(u16, u16),
    Renumber(u16),
    /// Two targets that change places in the list, and their ids.
    Swap(u16, u16),
    ReweightAll(u16),
    RemoveAbove(u16),
}

fn changed(mut list: Vec<Target>, change: &Change) -> Vec<Target> {
    let place =
        |list: &[Target], n: u16| list.iter().position(|(.., address, _)| *address == self::address(n));
    match *change {
        Change::Set(n, weight) => match place(&list, n) {
            Some(place) => list[place].2 = weight,
            None => {
                list.retain(|(id, ..)| *id != TargetId(n));
                list.push(target(n, weight));
            }
        },
        Change::Remove(n) => list.retain(|(_, address, _)| *address != self::address(n)),
        Change::Readdress(n, by) => {
            if let Some(place) = place(&list, n) {
                list[place].1 = address(1000 + 100 * by + n);
            }
        }
        Change::Renumber(n) => {
            if let Some(place) = place(&list, n)
                && list.iter().all(|(id, ..)| *id != TargetId(500 + n))
            {
                list[place].0 = TargetId(500 + n);
            }
        }
        Change::Swap(one, other) => {
            if let (Some(one), Some(other)) = (place(&list, one), place(&list, other)) {
                let ids = (list[one].0, list[other].0);
                (list[one].0, list[other].0) = (ids.1, ids.0);
                list.swap(one, other);
            }
        }
        Change::ReweightAll(by) => list.iter_mut().for_each(|target| target.2 = target.2.wrapping_mul(by)),
        Change::RemoveAbove(n) => list.retain(|(_, address, _)| *address < self::address(n)),
    }
    list
}

fn weight() -> impl Strategy<Value = u16> {
    prop_oneof![1 => Just(0_u16), 6 => 1..5_u16, 1 => any::<u16>()]
}

fn change() -> impl Strategy<Value = Change> {
    let n = || 0..60_u16;
    prop_oneof![
        6 => (n(), weight()).prop_map(|(n, weight)| Change::Set(n, weight)),
        3 => n().prop_map(Change::Remove),
        2 => (n(), 0..3_u16).prop_map(|(n, by)| Change::Readdress(n, by)),
        2 => n().prop_map(Change::Renumber),
        1 => (n(), n()).prop_map(|(one, other)| Change::Swap(one, other)),
        1 => (0..4_u16).prop_map(Change::ReweightAll),
        1 => n().prop_map(Change::RemoveAbove),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn f_4_a_list_of_targets_has_one_table_whatever_list_it_took_the_place_of(
        weights in proptest::collection::vec(weight(), 0..50),
        updates in proptest::collection::vec(proptest::collection::vec(change(), 1..12), 1..4),
    ) {
        let mut builder = group(seed(7), (0..).zip(weights));
        prop_assert_eq!(&*builder.map().rows, by_definition(builder.members()));
        for changes in updates {
            let list = changes.iter().fold(list(&builder), changed);
            builder.update(&list);
            prop_assert_eq!(&super::list(&builder), &list);
            prop_assert!(*builder.map().rows == by_definition(builder.members()));
        }
    }
}

// F-4
#[test]
fn few_of_many_targets_and_many_of_them_change_as_if_they_had_always_been_so() {
    let all: Vec<_> = (0..200).map(|n| target(n, 1 + n % 3)).collect();
    let mut builder = Builder::new(seed(3));
    // From one to all of them: those that change a few rows, and those for which the table is built anew.
    for few in [1, 8, 24, 200] {
        let without = &all[few..];
        let other: Vec<_> = all
            .iter()
            .map(|&(id, at, weight)| (id, at, weight + u16::from(usize::from(id.0) < few)))
            .collect();
        for list in [without, &all, &other, &all] {
            builder.update(list);
            let mut fresh = Builder::new(seed(3));
            fresh.update(list);
            assert!(builder.map().rows == fresh.map().rows, "{few} of 200 to {}", list.len());
        }
    }
    assert!(*builder.map().rows == by_definition(builder.members()));
}

// F-4: one that weighs as much as all others is no reason to ask everybody for every row, nor to forget anybody.
#[test]
fn a_heavy_target_leaves_the_second_choices_right() {
    for heavy in [60_000, 300] {
        let mut builder = group(seed(5), (0..40).map(|n| (n, if n == 17 { heavy } else { 1 })));
        assert!(*builder.map().rows == by_definition(builder.members()));
        set(&mut builder, 3, 2);
        assert!(*builder.map().rows == by_definition(builder.members()));
    }
}
