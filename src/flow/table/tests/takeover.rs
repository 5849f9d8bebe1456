//! Taking a table over: all that was whole lives on, what was torn goes alone, and what is another table is none.

#![expect(clippy::cast_possible_truncation, reason = "the tests' numbers are small")]

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::*;
use crate::flow::FilePages;
use crate::flow::table::header::Identity;

const MAKING: u64 = 77;

/// A file that holds a table, or is about to.
pub(super) struct Place {
    pub(super) file: File,
    pub(super) config: TableConfig,
}

impl Place {
    pub(super) fn new(capacity: u32) -> Place {
        Place::over(tempfile::tempfile_in("/dev/shm").unwrap(), capacity)
    }

    pub(super) fn over(file: File, capacity: u32) -> Place {
        let seed = HashSeed::from_secret(b"a secret for the tests");
        let config = TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Small, seed };
        file.set_len(config.file_bytes(FilePages::Small).unwrap() as u64).unwrap();
        Place { file, config }
    }

    fn in_file(&self) -> InFile<'_> {
        InFile { file: &self.file, pages: FilePages::Small, making: MAKING }
    }

    pub(super) fn create(&self) -> Table {
        Table::create_in(&self.config, &self.in_file()).unwrap()
    }

    /// What another process finds: nothing of what this one knows.
    pub(super) fn find(&self) -> Table {
        Table::find_in(&self.config, &self.in_file()).unwrap()
    }

    fn refused(&self, config: &TableConfig, making: u64) -> String {
        let place = InFile { making, ..self.in_file() };
        Table::find_in(config, &place).unwrap_err().to_string()
    }
}

/// Every other one of so many flows in each state, and some that were and are not any more.
fn filled(place: &Place, flows: u32) -> Table {
    let mut table = place.create();
    let states = FlowState::IN_USE;
    for n in 0..flows {
        let id = insert(&mut table, n, FlowState::HalfOpen).unwrap().id;
        table.set_state(id, states[n as usize % 6]);
        let entry = table.entry_mut(id);
        (entry.last_seen, entry.target) = (Millis(n), TargetId(n as u16 % 100));
        (entry.target_generation, entry.link) = (n as u16 % 7, [LinkId(n as u16 % 5), LinkId(3)]);
        entry.note_ack(Direction::HighToLow, 1000 + n);
        if entry.is_in(FlowState::Closed) {
            entry.flags.insert(FlowFlags::RST_HIGH); // whose sender may show that it was forged
        }
        if n % 9 == 8 {
            table.remove(id);
        }
    }
    table
}

/// All that is known of a flow, without its place.
fn known(table: &Table, n: u32) -> Option<impl PartialEq + std::fmt::Debug + use<>> {
    let id = find(table, n)?;
    let entry = table.entry(id);
    let acks = [Direction::LowToHigh, Direction::HighToLow].map(|way| entry.last_ack(way));
    Some((
        (id, table.cookie(id), entry.state(), entry.last_seen, entry.flags),
        (entry.target, entry.target_generation, entry.link, acks),
    ))
}

fn take(place: &Place) -> (Table, TakenOver) {
    let mut table = place.find();
    let came = table.take_over(|_| Keep::Yes);
    table.audit();
    (table, came)
}

// F-5, F-9, F-11
#[test]
fn every_flow_lives_on_with_its_target_its_cookie_and_its_timers() {
    let place = Place::new(1000);
    let mut before = filled(&place, 900);
    before.note_round(Millis(5000), true);
    before.note_round(Millis(6000), false);
    before.note_overflow(Some(Millis(4000)));
    before.note_pause(600);
    before.note_pause(700);
    let (flows, kept) = (900, before.len());
    let known_before: Vec<_> = (0..flows).map(|n| known(&before, n)).collect();
    drop(before);
    let (mut table, came) = take(&place);
    assert_eq!(came, TakenOver { kept, torn: 0, refused: 0 });
    for n in 0..flows {
        assert_eq!(known(&table, n), known_before[n as usize], "flow {n}");
        if let Some(id) = find(&table, n) {
            assert_eq!(table.by_cookie(table.cookie(id)), Ok(id));
        }
    }
    assert_eq!((table.beat().round, table.beat().packet), (Millis(6000), Millis(5000)));
    assert_eq!((table.overflow(), table.beat().paused), (Some(Millis(4000)), 1300));
    // Silent since then, as if nothing had happened.
    let over = age_all(&mut table, Millis(350_000 + 449));
    assert!(over.contains(&(key(445), Ended::TcpIdle)), "established at 445");
    assert!(!over.iter().any(|(flow, _)| *flow == key(451)), "established at 451");
}

#[test]
fn what_is_torn_goes_alone() {
    type Tear = fn(&mut Table, u32);
    let tears: [(&str, Tear); 12] = [
        ("half of its key", |table, number| {
            let entry = table.entries.at(number);
            let mut key = *entry.key();
            key.tear();
            table.entries.at_mut(number).set_key(&key);
        }),
        ("another's key", |table, number| table.entries.at_mut(number).set_key(&key(5_000))),
        ("no key", |table, number| table.entries.at_mut(number).set_key(&FlowKey::NONE)),
        ("zeros for a key", |table, number| table.entries.at_mut(number).set_key(&FlowKey::tear_to([0; 5]))),
        ("a version that is none", |table, number| {
            table.entries.at_mut(number).set_key(&FlowKey::tear_to([1, 0, 0, 0, 5 << 56]));
        }),
        ("its ends the wrong way round", |table, number| {
            table.entries.at_mut(number).set_key(&FlowKey::tear_to([2 << 32 | 1, 0, 0, 0, 4 << 56]));
        }),
        ("a state that is none", |table, number| table.entries.at_mut(number).tear_state(9)),
        ("no state", |table, number| table.entries.at_mut(number).tear_state(0)),
        ("a generation that no cookie has", |table, number| {
            table.entries.at_mut(number).cookie_generation = u16::MAX;
        }),
        ("acknowledgements in a state that has none", |table, number| {
            table.entries.at_mut(number).tear_state(FlowState::Owing as u8);
            table.entries.at_mut(number).flags.insert(FlowFlags::ACK_LOW);
        }),
        ("no name in the index", |table, number| table.leave_index(number)),
        ("another's place in the index", |table, number| {
            table.leave_index(number);
            let other = key(7_000);
            let home = table.index.home_of(table.hash(&other));
            let vacancy = table.index.vacancy(home).unwrap();
            table.index.fill(&vacancy, number);
        }),
    ];
    // Cookies with so many entries have 15 bits for generations.
    let capacity = 40_000;
    for (what, tear) in tears {
        let place = Place::new(capacity);
        let mut before = filled(&place, 200);
        let known_before: Vec<_> = (0..200).map(|n| known(&before, n)).collect();
        let (torn, kept) = (find(&before, 103).unwrap(), before.len() - 1);
        tear(&mut before, torn.number());
        drop(before);
        let (mut table, came) = take(&place);
        let counted = u32::from(what != "no state");
        assert_eq!(came, TakenOver { kept, torn: counted, refused: 0 }, "{what}");
        for n in (0..200).filter(|n| *n != 103) {
            assert_eq!(known(&table, n), known_before[n as usize], "{what}: flow {n}");
        }
        assert_eq!(find(&table, 103), None, "{what}");
        assert_eq!(table.entry(torn).state(), FlowState::Free, "{what}");
        insert(&mut table, 103, FlowState::HalfOpen).unwrap();
        table.audit();
    }
}

#[test]
fn what_is_no_entry_is_made_anew_whatever_it_says() {
    type Spoil = fn(&mut Table);
    let spoils: [(&str, Spoil); 7] = [
        ("counts", |table| table.header.at_mut(0).changing.counts = [u32::MAX; STATES]),
        ("the hand", |table| table.header.at_mut(0).changing.hand = u32::MAX),
        ("what was used", |table| table.header.at_mut(0).changing.fresh = 3),
        ("what was used, too much", |table| table.header.at_mut(0).changing.fresh = u32::MAX),
        ("the ends of rings", |table| {
            let changing = &mut table.header.at_mut(0).changing;
            (changing.free, changing.half_open) = (free_ends(u32::MAX, 3), queue_ends(900, u32::MAX));
            changing.ended = queue_ends(u32::MAX, u32::MAX);
        }),
        ("the rings", |table| {
            table.free.spoil(7);
            table.half_open.spoil(900);
            table.ended.spoil(u32::MAX);
        }),
        ("places in queues", |table| {
            for number in 0..table.capacity() {
                let entry = table.entries.at_mut(number);
                if entry.state() != FlowState::Established {
                    entry.set_place(number ^ 5);
                }
            }
        }),
    ];
    for (what, spoil) in spoils {
        let place = Place::new(1000);
        let mut before = filled(&place, 900);
        let known_before: Vec<_> = (0..900).map(|n| known(&before, n)).collect();
        let kept = before.len();
        spoil(&mut before);
        drop(before);
        let (mut table, came) = take(&place);
        assert_eq!(came, TakenOver { kept, torn: 0, refused: 0 }, "{what}");
        for n in 0..900 {
            assert_eq!(known(&table, n), known_before[n as usize], "{what}: flow {n}");
        }
        // It can be filled to its end, which takes every free entry and everybody who may go.
        for n in 2000..4000 {
            if insert(&mut table, n, FlowState::Established).is_err() {
                break;
            }
        }
        table.audit();
        let steady = table.count(FlowState::Established) + table.count(FlowState::Other);
        assert_eq!(steady, 1000, "{what}");
    }
}

fn free_ends(first: u32, len: u32) -> crate::flow::free::Ends {
    crate::flow::free::Ends::torn(first, len)
}

fn queue_ends(first: u32, len: u32) -> crate::flow::queue::Ends {
    crate::flow::queue::Ends::torn(first, len)
}

#[test]
fn whoever_dies_while_taking_over_loses_nothing() {
    let place = Place::new(1000);
    let mut before = filled(&place, 900);
    let kept = before.len();
    // As after the first pass, with the index half made.
    before.header.at_mut(0).rebuilding = 1;
    before.index.clear();
    drop(before);
    let (_, came) = take(&place);
    assert_eq!(came, TakenOver { kept, torn: 0, refused: 0 });
    let (table, came) = take(&place);
    assert_eq!(came, TakenOver { kept, torn: 0, refused: 0 }, "and the index is whole again");
    assert_eq!(table.header.at(0).rebuilding, 0);
}

#[test]
fn what_refers_to_nothing_goes() {
    let place = Place::new(1000);
    let before = filled(&place, 900);
    let live = before.len();
    drop(before);
    let mut table = place.find();
    let came = table.take_over(|entry| if entry.target == TargetId(44) { Keep::No } else { Keep::Yes });
    table.audit();
    assert_eq!((came.kept, came.refused, came.torn), (live - came.refused, 8, 0));
    table.each(|_, entry| assert_ne!(entry.target, TargetId(44)));
}

#[test]
fn another_table_is_told_in_a_sentence_and_left_as_it_is() {
    let place = Place::new(1000);
    let before = filled(&place, 900);
    let identity = before.header.at(0).identity;
    drop(before);
    let config = || place.config.clone();
    let seed = HashSeed::from_secret(b"another secret for the tests");
    let wrong = |change: fn(&mut Identity)| {
        let mut identity = identity;
        change(&mut identity);
        identity
    };
    let write = |identity: Identity| {
        let mut table = place.find_any();
        table.header.at_mut(0).identity = identity;
    };
    let refused = |config: TableConfig| place.refused(&config, MAKING);
    assert_eq!(
        refused(TableConfig { workers: 2, ..config() }),
        "a flow table's number of workers is 1, and 2 was expected"
    );
    let told = refused(TableConfig { workers: 2, worker: WorkerId(1), ..config() });
    assert_eq!(told, "a flow table's worker is 0, and 1 was expected");
    assert!(refused(TableConfig { seed, ..config() }).starts_with("a flow table's seed is "));
    assert_eq!(place.refused(&config(), 78), "a flow table's making is 77, and 78 was expected");
    write(wrong(|identity| identity.layout = 5));
    assert_eq!(refused(config()), format!("a flow table is of layout 5, and this version's is {LAYOUT}"));
    write(wrong(|identity| identity.sizes[0] = 128));
    assert!(refused(config()).starts_with("a flow table is of layout"));
    write(wrong(|identity| identity.capacity += 1));
    assert_eq!(refused(config()), "the header of a flow table is damaged");
    write(wrong(|identity| identity.sum ^= 1));
    assert_eq!(refused(config()), "the header of a flow table is damaged");
    write(wrong(|identity| identity.magic = 0));
    assert_eq!(refused(config()), "it is no flow table, or one that was not made to the end");
    write(identity);
    let smaller = TableConfig { capacity: 999, ..config() };
    assert_eq!(refused(smaller), "a flow table's capacity is 1000, and 999 was expected");
    let (_, came) = take(&place);
    assert_eq!((came.torn, came.refused), (0, 0), "nothing was lost by all that");
}

impl Place {
    /// What is in the file, whatever it is.
    fn find_any(&self) -> Table {
        Table::map_in(&self.config, &self.in_file()).unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.file.metadata().unwrap().len() as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

/// What becomes of one line.
#[derive(Clone, Copy, Debug)]
enum Lost {
    Zeros,
    Noise(u64),
    /// As it was some time before.
    Old,
    /// Half as it was.
    HalfOld(usize),
}

fn lost() -> impl Strategy<Value = Lost> {
    prop_oneof![
        Just(Lost::Zeros),
        any::<u64>().prop_map(|noise| Lost::Noise(noise | 1)),
        Just(Lost::Old),
        (1..8_usize).prop_map(|words| Lost::HalfOld(words * 8)),
    ]
}

fn lose(place: &Place, old: &[u8], line: usize, how: Lost) {
    let mut bytes = [0; 64];
    let at = line * 64;
    match how {
        Lost::Zeros => {}
        Lost::Noise(mut noise) => {
            for byte in &mut bytes {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                *byte = noise as u8;
            }
        }
        Lost::Old => bytes.copy_from_slice(&old[at..at + 64]),
        Lost::HalfOld(cut) => {
            place.file.read_exact_at(&mut bytes, at as u64).unwrap();
            bytes[..cut].copy_from_slice(&old[at..at + cut]);
        }
    }
    place.file.write_all_at(&bytes, at as u64).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever lines are lost but the first, which says what it is: what is there afterwards holds together, and each flow
    /// whose entry and whose bucket are as they were is as it was.
    // F-5, F-9, F-11, F-13
    #[test]
    fn whatever_is_lost_the_rest_lives_on(
        half in 1..80_u32,
        lines in prop::collection::vec((any::<prop::sample::Index>(), lost()), 1..12),
        removed in prop::collection::vec(0..80_u32, 0..20),
    ) {
        let place = Place::new(100);
        let mut table = filled(&place, half);
        let old = place.bytes();
        for n in removed {
            if let Some(id) = find(&table, n) {
                table.remove(id);
            }
        }
        for n in 200..240 {
            insert(&mut table, n, if n % 2 == 0 { FlowState::HalfOpen } else { FlowState::Other }).ok();
        }
        // Where each flow's lines are.
        let buckets = crate::flow::index::Index::buckets_for(100) as usize;
        let head = size_of::<Header>() / 64;
        let mut flows = Vec::new();
        for n in 0..300 {
            if let Some(id) = find(&table, n) {
                let bucket = table.index.bucket_of(table.hash(&key(n)), id.number()).unwrap();
                let lines = [head + bucket as usize, head + buckets + id.number() as usize];
                flows.push((n, lines, known(&table, n)));
            }
        }
        drop(table);
        let last = head + buckets + 100;
        let rings = (100 + 2 * Queue::places_for(100) as usize) * 4 / 64;
        let mut gone = Vec::new();
        for (line, how) in lines {
            let line = 1 + line.index(last + rings - 1);
            lose(&place, &old, line, how);
            gone.push(line);
        }
        // The line that says whether the index is being made anew is only ever 0 or 1 there.
        place.file.write_all_at(&[0; 64], 64).unwrap();
        let (mut table, came) = take(&place);
        for (n, lines, known_before) in flows {
            if !lines.iter().any(|line| gone.contains(line)) {
                let now = known(&table, n);
                prop_assert_eq!(now, known_before, "flow {}", n);
                let id = find(&table, n).unwrap();
                prop_assert_eq!(table.by_cookie(table.cookie(id)), Ok(id));
            }
        }
        prop_assert_eq!(came.kept, table.len());
        // And it serves on.
        for n in 1000..1200 {
            insert(&mut table, n, FlowState::HalfOpen).ok();
        }
        table.audit();
    }
}
