//! What the table promises, told one by one, and its whole behaviour against an obvious model.

use proptest::prelude::*;

use super::*;
use crate::flow::entry::STATES;
use crate::flow::{Cookie, Direction, Ended, FlowFlags, LinkId, Pages, Timers};
use crate::id::{EndpointId, Millis, TargetId, WorkerId};

mod killed;
mod model;
mod takeover;

fn table(capacity: u32) -> Table {
    table_of(capacity, 0, 1)
}

fn table_of(capacity: u32, worker: u8, workers: u8) -> Table {
    let seed = HashSeed::from_secret(b"a secret for the tests");
    Table::new(TableConfig { capacity, worker: WorkerId(worker), workers, pages: Pages::Small, seed })
        .unwrap()
}

/// Keys told apart by a number.
fn key(n: u32) -> FlowKey {
    FlowKey::new(EndpointId(1), 4, 6, (0x0a00_0000 + n).into(), 0xc0a8_0001, 40_000, 443).0
}

fn new(state: FlowState) -> NewEntry {
    NewEntry {
        state,
        flags: FlowFlags::empty(),
        target: TargetId(1),
        target_generation: 0,
        link: [LinkId::NONE; 2],
        now: Millis(0),
    }
}

fn insert(table: &mut Table, n: u32, state: FlowState) -> Result<Inserted, NotInserted> {
    let key = key(n);
    table.insert(table.hash(&key), &key, new(state))
}

fn find(table: &Table, n: u32) -> Option<EntryId> {
    let key = key(n);
    table.find(table.hash(&key), &key)
}

fn age_all(table: &mut Table, now: Millis) -> Vec<(FlowKey, Ended)> {
    let mut over = Vec::new();
    let timers = |_: &Entry| Timers::default();
    table.age(table.capacity(), now, timers, |_, entry, reason| over.push((*entry.key(), reason)));
    table.audit();
    over
}

impl Table {
    /// Checks everything that must hold between two calls: counts, queues, index and entries agree.
    pub(super) fn audit(&self) {
        let mut counts = [0; STATES];
        for number in 0..self.capacity() {
            let entry = self.entries.at(number);
            counts[entry.state().index()] += 1;
            if entry.state() != FlowState::Free {
                let found = self.find(self.seed.flow(entry.key()), entry.key());
                assert_eq!(found, Some(EntryId(number)), "an entry is found by its own key");
            }
        }
        assert_eq!(counts, self.header.at(0).changing.counts);
        assert_eq!(self.index.audit(), self.len(), "the index names entries in use, each once");
        assert_eq!(self.entries.at(u32::MAX).key(), &FlowKey::NONE, "what is no entry names no flow");
        let header = &self.header.at(0).changing;
        let unused = self.capacity() - header.fresh;
        assert_eq!(header.free.len() + unused, self.count(FlowState::Free));
        let half_open = self.half_open.audit(header.half_open, &self.entries);
        assert_eq!(half_open, self.count(FlowState::HalfOpen));
        let ended = [FlowState::Closed, FlowState::Expired, FlowState::Owing];
        let ended = ended.into_iter().map(|state| self.count(state)).sum::<u32>();
        assert_eq!(self.ended.audit(header.ended, &self.entries), ended);
    }
}

#[test]
fn f_2_a_flow_is_found_by_either_direction() {
    let mut table = table(8);
    let (there, _) = FlowKey::new(EndpointId(0), 6, 17, 1, 2, 30, 40);
    let (back, _) = FlowKey::new(EndpointId(0), 6, 17, 2, 1, 40, 30);
    let inserted = table.insert(table.hash(&there), &there, new(FlowState::Other)).unwrap();
    assert_eq!(table.find(table.hash(&back), &back), Some(inserted.id));
}

#[test]
fn f_11_a_flow_made_anew_has_another_cookie_and_the_old_one_is_stale() {
    let mut table = table(1);
    let first = insert(&mut table, 1, FlowState::Established).unwrap().id;
    let old = table.cookie(first);
    assert_eq!(table.by_cookie(old), Ok(first));
    table.remove(first);
    assert_eq!(table.by_cookie(old), Err(StaleCookie), "of no flow");
    let second = insert(&mut table, 1, FlowState::Established).unwrap().id;
    assert_eq!(second, first, "there is one entry only");
    assert_eq!(table.by_cookie(old), Err(StaleCookie), "of an earlier flow");
    assert_eq!(table.by_cookie(table.cookie(second)), Ok(second));
    let before = table.cookie(second);
    table.renew(second, new(FlowState::HalfOpen));
    assert_eq!(table.by_cookie(before), Err(StaleCookie), "of the flow that was renewed");
    assert_eq!(find(&table, 1), Some(second));
}

#[test]
fn f_11_other_workers_and_stateless_and_impossible_cookies_are_stale() {
    let mut mine = table_of(100, 1, 4);
    let mut theirs = table_of(100, 2, 4);
    let id = insert(&mut mine, 1, FlowState::Other).unwrap().id;
    let other = insert(&mut theirs, 1, FlowState::Other).unwrap().id;
    assert_ne!(mine.cookie(id), theirs.cookie(other), "no two flows of a node share a cookie");
    assert_eq!(mine.by_cookie(theirs.cookie(other)), Err(StaleCookie));
    let stateless = mine.cookies().stateless(WorkerId(1), Direction::LowToHigh, LinkId(3), 77);
    assert_eq!(mine.by_cookie(stateless), Err(StaleCookie));
    // Entry 127 of 100: seven bits hold it.
    let beyond = mine.cookies().flow(WorkerId(1), 1, 127);
    mine.prefetch_cookie(beyond);
    assert_eq!(mine.by_cookie(beyond), Err(StaleCookie));
}

#[test]
fn f_12_closed_and_expired_flows_make_room_oldest_first_and_then_half_open_ones() {
    let mut table = table(6);
    let states = [
        FlowState::HalfOpen,
        FlowState::Established,
        FlowState::Other,
        FlowState::Established,
        FlowState::Established,
        FlowState::HalfOpen,
    ];
    for (n, state) in (0..).zip(states) {
        assert!(insert(&mut table, n, state).unwrap().evicted.is_none());
    }
    // The later entry ends first: what counts is since when.
    table.set_state(find(&table, 4).unwrap(), FlowState::Closed);
    table.set_state(find(&table, 3).unwrap(), FlowState::Expired);
    for (newcomer, (goes, was)) in (10..).zip([
        (4, FlowState::Closed),
        (3, FlowState::Expired),
        (0, FlowState::HalfOpen),
        (5, FlowState::HalfOpen),
    ]) {
        let evicted = insert(&mut table, newcomer, FlowState::Established).unwrap().evicted.unwrap();
        assert_eq!((*evicted.key(), evicted.state()), (key(goes), was));
        assert_eq!(find(&table, goes), None);
        table.audit();
    }
    assert_eq!(insert(&mut table, 20, FlowState::Established).unwrap_err(), NotInserted::Full);
    assert!([1, 2, 10, 11, 12, 13].into_iter().all(|n| find(&table, n).is_some()));
}

#[test]
fn f_12_a_syn_flood_pushes_out_only_its_own() {
    let mut table = table(64);
    for n in 0..48 {
        insert(&mut table, n, if n % 2 == 0 { FlowState::Established } else { FlowState::Other }).unwrap();
    }
    for n in 1000..11_000 {
        let inserted = insert(&mut table, n, FlowState::HalfOpen).unwrap();
        assert!(inserted.evicted.is_none_or(|gone| gone.state() == FlowState::HalfOpen));
    }
    table.audit();
    assert_eq!(table.len(), 64);
    assert!((0..48).all(|n| find(&table, n).is_some()));
}

// F-12
#[test]
fn a_flow_whose_slot_was_moved_makes_room_too() {
    let mut table = table(64);
    for n in 0..64 {
        let id = insert(&mut table, n, FlowState::HalfOpen).unwrap().id;
        let entry = table.entries.at_mut(id.number());
        entry.change_state(FlowState::HalfOpen, entry.place(), entry.whereabouts() + n % 2);
    }
    for n in 0..64 {
        let evicted = insert(&mut table, 100 + n, FlowState::HalfOpen).unwrap().evicted.unwrap();
        assert_eq!(*evicted.key(), key(n));
        table.audit();
    }
}

// F-12
#[test]
fn flows_away_from_home_make_room_and_are_counted_there_no_more() {
    let mut table = table(4096);
    for n in 0..30_000 {
        insert(&mut table, n, FlowState::HalfOpen).unwrap();
        if n % 1000 == 0 {
            table.audit();
        }
    }
    let away = |n: u32| {
        let id = find(&table, n).unwrap();
        table.entry(id).whereabouts() != table.whereabouts(id.number())
    };
    assert!((30_000 - 4096..30_000).any(away), "or nothing was tested");
}

// F-1
#[test]
fn a_flow_that_has_an_entry_gets_no_second_one() {
    let mut table = table(8);
    let id = insert(&mut table, 1, FlowState::HalfOpen).unwrap().id;
    assert_eq!(insert(&mut table, 1, FlowState::HalfOpen).unwrap_err(), NotInserted::Exists(id));
    assert_eq!(table.len(), 1);
}

#[test]
fn f_9_the_hand_ends_each_flow_by_its_own_timer() {
    let mut table = table(8);
    let states = [FlowState::HalfOpen, FlowState::Established, FlowState::Other, FlowState::Established];
    for (n, state) in (0..).zip(states) {
        insert(&mut table, n, state).unwrap();
    }
    table.set_state(find(&table, 3).unwrap(), FlowState::Closed);
    assert_eq!(age_all(&mut table, Millis(9_999)), []);
    assert_eq!(age_all(&mut table, Millis(10_000)), [(key(3), Ended::Closed)]);
    assert_eq!(age_all(&mut table, Millis(60_000)), [(key(0), Ended::HalfOpen)]);
    assert_eq!(age_all(&mut table, Millis(120_000)), [(key(2), Ended::OtherIdle)]);
    assert_eq!(age_all(&mut table, Millis(350_000)), [(key(1), Ended::TcpIdle)]);
    assert_eq!(table.len(), 1, "an expired TCP flow alone is remembered");
}

#[test]
fn f_10_an_expired_flow_is_remembered_across_the_wrap_of_the_clock() {
    let mut table = table(2);
    let id = insert(&mut table, 1, FlowState::Established).unwrap().id;
    let mut now = Millis(400_000);
    assert_eq!(age_all(&mut table, now), [(key(1), Ended::TcpIdle)]);
    for _ in 0..5 {
        now = now.plus(u32::MAX / 4);
        assert_eq!(age_all(&mut table, now), [], "it ends once only");
        assert_eq!(table.entry(id).state(), FlowState::Expired);
        assert_eq!(find(&table, 1), Some(id));
    }
    insert(&mut table, 2, FlowState::Established).unwrap();
    let evicted = insert(&mut table, 3, FlowState::Established).unwrap().evicted.unwrap();
    assert_eq!(*evicted.key(), key(1), "until its room is needed");
}

#[test]
fn f_13_the_hand_looks_at_no_more_entries_than_it_is_told_and_misses_none() {
    let mut table = table(100);
    for n in 0..100 {
        insert(&mut table, n, FlowState::Other).unwrap();
    }
    let asked = std::cell::Cell::new(0);
    let mut over = 0;
    for _ in 0..10 {
        asked.set(0);
        let timers = |_: &Entry| {
            asked.set(asked.get() + 1);
            Timers::default()
        };
        table.age(10, Millis(120_000), timers, |_, _, _| over += 1);
        assert_eq!(asked.get(), 10);
    }
    assert_eq!((over, table.len()), (100, 0));
}

#[test]
fn a_scan_in_steps_shows_every_flow_once() {
    let mut table = table(50);
    for n in 0..30 {
        insert(&mut table, n, FlowState::Other).unwrap();
    }
    for n in (0..30).step_by(3) {
        table.remove(find(&table, n).unwrap());
    }
    let mut seen = Vec::new();
    let mut from = Some(0);
    while let Some(at) = from {
        from = table.scan(at, 7, |_, entry| seen.push(*entry.key()));
    }
    let expected: Vec<_> = (0..30).filter(|n| n % 3 != 0).map(key).collect();
    assert_eq!(seen, expected);
    assert_eq!(table.scan(u32::MAX, u32::MAX, |_, _| panic!("nothing there")), None);
}

// F-11
#[test]
fn a_free_entry_rests_until_all_others_have_been_used() {
    let mut table = table(16);
    let first = insert(&mut table, 0, FlowState::Other).unwrap().id;
    table.remove(first);
    for n in 1..16 {
        let id = insert(&mut table, n, FlowState::Other).unwrap().id;
        assert_ne!(id, first);
        table.remove(id);
    }
    assert_eq!(insert(&mut table, 99, FlowState::Other).unwrap().id, first);
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut table = table(4);
    let id = insert(&mut table, 1, FlowState::Other).unwrap().id;
    table.set_state(id, FlowState::Free);
    assert_eq!(table.entry(id).state(), FlowState::Other);
    table.remove(id);
    table.remove(id);
    table.set_state(id, FlowState::Established);
    table.renew(id, new(FlowState::Other));
    assert_eq!(table.len(), 0);
    table.audit();
    insert(&mut table, 2, FlowState::Free).unwrap();
    assert_eq!(table.count(FlowState::Other), 1);
    table.audit();
}

#[test]
fn a_burst_is_looked_up_as_its_keys_are_one_by_one() {
    let mut table = table(256);
    for n in (0..256).step_by(2) {
        insert(&mut table, n, FlowState::Other).unwrap();
    }
    for len in [0, 1, 31, 32, 33, 100] {
        let keys: Vec<_> = (0..len).map(key).collect();
        let hashes: Vec<_> = keys.iter().map(|key| table.hash(key)).collect();
        let mut found = vec![None; keys.len()];
        table.find_burst(&hashes, &keys, &mut found);
        let (mut own_hashes, mut own_found) = (vec![0; keys.len()], vec![None; keys.len()]);
        table.hash_and_find_burst(&keys, &mut own_hashes, &mut own_found);
        assert_eq!((own_hashes, &own_found), (hashes, &found));
        let one_by_one: Vec<_> = (0..len).map(|n| find(&table, n)).collect();
        assert_eq!(found, one_by_one);
    }
}

#[test]
fn a_flow_away_from_home_is_guessed_by_its_other_bucket() {
    let mut table = table(20_000);
    let ids: Vec<_> = (0..20_000).map(|n| insert(&mut table, n, FlowState::Other).unwrap().id).collect();
    let mut away = 0;
    for (n, id) in (0..).zip(ids) {
        let probe = table.start(table.hash(&key(n)));
        let mut may_be_away = false;
        if !table.starts().guess_at_home(probe, || may_be_away = true).is_some() {
            assert!(may_be_away, "the table has the flow");
            assert!(table.guess_away(probe).is(id));
            away += 1;
        }
    }
    assert!((10..200).contains(&away), "{away} of 20,000");
    let probe = table.start(table.hash(&key(20_000)));
    assert!(!table.guess(probe).is_some() && !table.guess_away(probe).is_some());
}

#[test]
fn a_look_up_under_way_knows_what_has_come_and_gone_meanwhile() {
    let mut table = table(8);
    let (gone, comes) = (key(1), key(2));
    let id = insert(&mut table, 1, FlowState::Other).unwrap().id;
    let probes = [gone, comes].map(|key| table.start(table.hash(&key)));
    let guesses = probes.map(|probe| table.guess(probe));
    assert_eq!(guesses.map(|guess| guess.is_some()), [true, false]);
    table.remove(id);
    let new = insert(&mut table, 2, FlowState::Other).unwrap().id;
    assert_eq!(table.confirm(probes[0], guesses[0], &gone), None, "its entry is free");
    assert_eq!(table.confirm(probes[1], guesses[1], &comes), Some(new));
    for n in 10..17 {
        insert(&mut table, n, FlowState::Other).unwrap();
    }
    assert_eq!(table.len(), 8, "its entry is another flow's");
    assert_eq!(table.confirm(probes[0], guesses[0], &gone), None);
}

proptest! {
    /// One flow in eight has a hash of a few that all go to one bucket, so that tags collide and flows
    /// go astray; the other flows fill what is left.
    #[test]
    fn the_stages_find_what_is_there_and_nothing_else(
        capacity in 20..200_u32, crowd in 1..4_u64, absent in 1..50_u32, gone in 0..8_u32,
    ) {
        let mut table = table(capacity);
        let hash_of = |table: &Table, n: u32| {
            let crowded = ((u64::from(n) % crowd) << 40) | 5 << 32 | 3;
            if n.is_multiple_of(8) { crowded } else { table.hash(&key(n)) }
        };
        let mut expected = std::collections::HashMap::new();
        for n in 0..capacity {
            if let Ok(inserted) = table.insert(hash_of(&table, n), &key(n), new(FlowState::Other)) {
                expected.insert(n, inserted.id);
            }
        }
        // Not by `remove`, which knows the true hashes only.
        let leaving = (0..capacity).filter(|n| n % 8 == gone && gone != 0).collect::<Vec<_>>();
        for n in leaving {
            if let Some(id) = expected.remove(&n) {
                table.remove(id);
            }
        }
        let numbers: Vec<_> = (0..capacity + absent).collect();
        let keys: Vec<_> = numbers.iter().map(|n| key(*n)).collect();
        let hashes: Vec<_> = numbers.iter().map(|n| hash_of(&table, *n)).collect();
        let mut burst = vec![None; keys.len()];
        table.find_burst(&hashes, &keys, &mut burst);
        for (n, found) in numbers.into_iter().zip(burst) {
            let hash = hash_of(&table, n);
            let probe = table.start(hash);
            let guess = table.guess(probe);
            let wanted = expected.get(&n).copied();
            prop_assert_eq!(table.confirm(probe, guess, &key(n)), wanted);
            prop_assert_eq!(table.find(hash, &key(n)), wanted);
            prop_assert_eq!(found, wanted);
        }
        prop_assert_eq!(table.confirm(Probe::NONE, Guess::NONE, &key(capacity + absent)), None);
    }
}

/// The worker keeps no more of a flow than the table does: link-layer headers are shared, and all else that
/// it has is of a fixed number.
#[test]
fn a_flow_takes_no_more_than_96_bytes_with_all_that_leads_to_it() {
    let seed = HashSeed::from_secret(b"x");
    for capacity in [1000, 1 << 10, (1 << 10) + 1, 100_000, 1 << 20, (1 << 20) + 1, 3_000_000] {
        for pages in [Pages::Small, Pages::Huge] {
            let (worker, seed) = (WorkerId(0), seed.clone());
            let table = Table::new(TableConfig { capacity, worker, workers: 1, pages, seed }).unwrap();
            // What a huge page, or the room to begin at the start of one, leaves unused at the end is once.
            let spare = if pages == Pages::Huge { 2 << 20 } else { 0 };
            let limit = 96 * capacity as usize + spare;
            assert!(table.bytes() <= limit, "{capacity} flows take {} bytes in {pages:?}", table.bytes());
            assert!(table.bytes() >= 80 * capacity as usize, "it says what it takes");
        }
    }
}

#[test]
fn a_table_that_cannot_be_is_refused_with_the_reason() {
    let seed = HashSeed::from_secret(b"x");
    let make = |capacity, workers| {
        let worker = WorkerId(0);
        let config = TableConfig { capacity, worker, workers, pages: Pages::Small, seed: seed.clone() };
        Table::new(config).unwrap_err().to_string()
    };
    assert_eq!(make(0, 1), "a flow table of 0 entries: must be between 1 and 134217728");
    assert!(make(u32::MAX, 1).starts_with("a flow table of 4294967295 entries"));
    assert!(make(1 << 23, 32).contains("use fewer workers or smaller tables"));
}
