//! The flow tables that a daemon has left in memory files, and whatever has become of these.
//!
//! Promises: nothing that is in the files brings the next daemon down or holds it up. Its tables are sound whatever it found:
//! every flow is found under its key and its cookie and no two have one cookie (F-11), counts are right, and a full table is
//! one that holds as many flows as it has entries (F-12). What was not touched lives on. A flow is of a target and an
//! endpoint that there are; what is wrong is told in one line; and the daemon after the next takes over all that was taken over.

use crate::bytes::Bytes;
use crate::text::is_one_line;
use flowgate::control::node;
use flowgate::control::resume::{self, Doubled, Holder, Keeper, KnownHealth, Resume, SlotRecord};
use flowgate::control::tables::{NODE_FILE_BYTES, NodeTables, Outcome, Plan};
use flowgate::flow::{
    Entry, FilePages, FlowFlags, FlowKey, FlowState, HashSeed, InFile, Inserted, Keep, KeptLinks, LINKS,
    LinkId, NewEntry, Pages, Table, TableConfig, Timers,
};
use flowgate::id::{EndpointId, Millis, PortId, TargetId, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAKING: u64 = 77;
const TARGETS: u8 = 10;
/// A line of the cache, which entries and buckets are.
const LINE: u64 = 64;
/// What the file `node` begins with: what the tables are.
const IDENTITY_ROOM: usize = 512 << 10;
/// A moment.
const MOMENT_ROOM: usize = 256;
/// Whose the targets' numbers are.
const DATA_ROOM: usize = 8 << 20;

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    // A whole node takes ten times as long.
    if bytes.below(4) == 0 { a_node(bytes) } else { a_table(bytes) }
}

fn key(n: u8) -> FlowKey {
    let (client, server) = (0xc000_0200 + u128::from(n), 0xc633_6401);
    FlowKey::new(EndpointId(u16::from(n % 2)), 4, 6, client, server, 1024 + u16::from(n), 443).0
}

fn new(n: u8, state: FlowState) -> NewEntry {
    NewEntry {
        state,
        flags: FlowFlags::empty(),
        target: TargetId((n % TARGETS).into()),
        target_generation: 3,
        link: [LinkId::NONE; 2],
        now: Millis(n.into()),
    }
}

/// A daemon's work on a table: what it leaves is in order.
fn fill(table: &mut Table, bytes: &mut Bytes<'_>) {
    for n in 0..bytes.byte() % 64 {
        let state = bytes.of(&FlowState::IN_USE);
        let Ok(Inserted { id, .. }) = table.insert(table.hash(&key(n)), &key(n), new(n, FlowState::HalfOpen))
        else {
            continue;
        };
        table.set_state(id, state);
        if bytes.below(8) == 0 {
            table.remove(id);
        }
    }
    table.note_round(Millis(bytes.word().into()), bytes.bit());
}

/// What becomes of the lines of a file: those that were changed are returned.
fn spoil(file: &File, length: u64, bytes: &mut Bytes<'_>) -> BTreeSet<u64> {
    let mut changed = BTreeSet::new();
    for _ in 0..bytes.below(6) {
        let at = u64::from(bytes.word()) % length;
        let line = |at: u64| at / LINE * LINE;
        let mut whole = [0; 64];
        match bytes.below(5) {
            // A few bytes are others.
            0 | 1 => {
                let some = bytes.some();
                let some = &some[..some.len().min(usize::try_from(length - at).unwrap_or(0))];
                file.write_all_at(some, at).unwrap();
                changed.extend((line(at)..at + some.len() as u64).step_by(whole.len()));
            }
            // A bit is another.
            2 => {
                let mut byte = [0];
                file.read_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 1 << bytes.below(8)], at).unwrap();
                changed.insert(line(at));
            }
            // A line is lost.
            3 => {
                file.write_all_at(&whole, line(at)).unwrap();
                changed.insert(line(at));
            }
            // A line is where another was.
            _ => {
                let from = line(u64::from(bytes.word()) % length);
                file.read_at(&mut whole, from).unwrap();
                file.write_all_at(&whole, line(at)).unwrap();
                changed.insert(line(at));
            }
        }
    }
    changed
}

/// One table, and what is in its file.
fn a_table(mut bytes: Bytes<'_>) {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let capacity = u32::from(bytes.byte() % 48) + 1;
    let seed = HashSeed::from_secret(b"fuzzing");
    let config = TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Small, seed };
    let whole = config.file_bytes(FilePages::Small).unwrap() as u64;
    file.set_len(whole).unwrap();
    let place = InFile { file: &file, pages: FilePages::Small, making: MAKING };
    let mut before = Table::create_in(&config, &place).unwrap();
    fill(&mut before, &mut bytes);
    let known = known(&before);
    let mut links = before.kept_links().unwrap();
    let kept: Vec<u16> = (1..=bytes.byte() % 4).map(u16::from).collect();
    drop(before);
    // Link-layer headers come last, but for what fills the last page: those that are looked for are written afterwards.
    let changed = spoil(&file, whole - u64::from(LINKS) * 32, &mut bytes);
    for number in &kept {
        links.set(LinkId(*number), 1, PortId(number % 3), &[7; 18]);
    }
    drop(links);
    let refused = bytes.maybe(|bytes| TargetId((bytes.byte() % TARGETS).into()));

    let Ok(mut table) = Table::find_in(&config, &place) else {
        assert!(!changed.is_empty(), "a table that nobody touched is found");
        return;
    };
    let keep = |entry: &Entry| if Some(entry.target) == refused { Keep::No } else { Keep::Yes };
    let came = table.take_over(keep);
    assert_eq!(came.kept, table.len());
    assert!(came.kept + came.torn + came.refused <= capacity);
    is_sound(&table);
    if changed.is_empty() {
        let stay = known.iter().filter(|(_, flow)| Some(flow.1) != refused).collect::<Vec<_>>();
        assert_eq!(self::known(&table).iter().collect::<Vec<_>>(), stay, "nothing was touched");
        assert_eq!(came.torn, 0);
    }
    table.each(|_, entry| assert!(Some(entry.target) != refused, "it was said no to"));
    shows_links(&table.kept_links().unwrap(), &kept);
    let flows = self::known(&table);
    drop(table);

    let mut next = Table::find_in(&config, &place).unwrap();
    let came = next.take_over(|_| Keep::Yes);
    assert_eq!((came.kept as usize, came.torn, came.refused), (flows.len(), 0, 0), "it was taken over once");
    assert_eq!(self::known(&next), flows);
    works(next);
}

/// What is known of each flow, by its key.
fn known(table: &Table) -> BTreeMap<[u64; 5], (FlowState, TargetId, Millis, u64)> {
    let mut flows = BTreeMap::new();
    table.each(|id, entry| {
        let flow = (entry.state(), entry.target, entry.last_seen, u64::from(table.cookie(id).0));
        assert!(flows.insert(*entry.key().words(), flow).is_none(), "two entries are one flow");
    });
    flows
}

fn shows_links(links: &KeptLinks, kept: &[u16]) {
    for number in kept {
        assert_eq!(links.get(LinkId(*number)), Some((1, PortId(number % 3), &[7; 18][..])));
    }
}

fn is_sound(table: &Table) {
    let mut counts = [0; 16];
    let mut cookies = Vec::new();
    let mut flows = 0;
    table.each(|id, entry| {
        assert_eq!(table.find(table.hash(entry.key()), entry.key()), Some(id), "found under its key");
        let cookie = table.cookie(id);
        assert_eq!(table.by_cookie(cookie), Ok(id), "F-11");
        cookies.push(cookie.0);
        counts[entry.state() as usize] += 1;
        flows += 1;
    });
    assert_eq!(table.len(), flows);
    for state in FlowState::IN_USE {
        assert_eq!(table.count(state), counts[state as usize], "{state:?}");
    }
    assert_eq!(table.count(FlowState::Free), table.capacity() - flows);
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), flows as usize, "F-11: two flows with one cookie");
}

/// Fills the table, lets the hand go round, and takes every flow away.
fn works(mut table: Table) {
    let capacity = table.capacity();
    let live = |table: &Table| table.count(FlowState::Established) + table.count(FlowState::Other);
    for n in 100..=u8::MAX {
        let before = live(&table);
        match table.insert(table.hash(&key(n)), &key(n), new(n, FlowState::Established)) {
            Ok(_) => assert_eq!(live(&table), before + 1),
            Err(_) => assert!(
                table.find(table.hash(&key(n)), &key(n)).is_some() || live(&table) == capacity,
                "F-12: only live flows make nobody room"
            ),
        }
    }
    assert_eq!(live(&table), capacity, "F-12");
    is_sound(&table);
    let timers = |_: &_| Timers { tcp_idle_ms: 100, other_idle_ms: 70, closed_ms: 20, half_open_ms: 40 };
    table.age(capacity, Millis(1 << 20), timers, |_, _, _| {});
    is_sound(&table);
    let mut ids = Vec::new();
    table.each(|id, _| ids.push(id));
    ids.into_iter().for_each(|id| table.remove(id));
    assert!(table.is_empty());
    is_sound(&table);
}

/// A whole node, and what is in all of its files.
fn a_node(mut bytes: Bytes<'_>) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory = Some(folder.path().join("tables"));
    let settings = node::Tables { directory, ..node::Tables::default() };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut plan = Plan {
        settings: &settings,
        state_directory: folder.path(),
        owner: flowgate::io::owner::Owner::present(),
        workers: 2,
        capacity: 32,
        pages: Pages::Small,
        endpoints: names(&["office", "lab"]),
        ports: names(&["left", "right"]),
    };
    let mut before = NodeTables::open(&plan).unwrap();
    assert_eq!(before.restart.outcome, Outcome::First);
    for worker in &mut before.workers {
        fill(&mut worker.table, &mut bytes);
    }
    hand_on(&before, bytes.byte());
    drop(before);
    if bytes.below(4) == 0 {
        plan.endpoints.swap(0, 1);
    }
    let path = |name: &str| folder.path().join("tables").join(name);
    for _ in 0..=bytes.below(3) {
        spoil_node(&path(bytes.of(&["node", "node", "worker-0", "worker-1"])), &mut bytes);
    }

    let tables = NodeTables::open(&plan).unwrap();
    is_one_line(&tables.restart.sentence());
    let lost = tables.restart.outcome != Outcome::TakenOver;
    let kept = is_sound_node(&plan, &tables, lost);
    let adopts = tables.restart.adopt_until.map_or(0, |until| until.since(tables.clock.now()));
    assert!(adopts <= 350_000, "{adopts} ms");
    // It stays.
    resume::lock(&tables.keeper).note_settled().unwrap();
    drop(tables);
    let next = NodeTables::open(&plan).unwrap();
    assert_eq!(next.restart.outcome, Outcome::TakenOver, "{:?}", next.restart);
    assert_eq!((next.restart.kept, next.restart.torn, next.restart.refused), (kept, 0, 0));
    is_sound_node(&plan, &next, false);
    next.workers.into_iter().for_each(|worker| works(worker.table));
}

/// Whose the targets' numbers are: the last is nobody's.
fn hand_on(tables: &NodeTables, healthy: u8) {
    let slot = |n: u8| SlotRecord {
        generation: 3,
        holder: (n < TARGETS - 1).then(|| Holder {
            group: "fw".to_owned(),
            address: [192, 0, 2, n].into(),
            health: (n < 8).then(|| KnownHealth {
                healthy: healthy >> n & 1 == 1,
                since_boot_ms: resume::boot_ms(),
                reason: None,
            }),
        }),
    };
    let slots = (0..TARGETS).map(slot).collect();
    let last = Resume { slots, free: vec![(TARGETS - 1).into()], gateways: Vec::new() };
    resume::lock(&tables.keeper).keep(last).unwrap();
}

/// A file of a node is another: other bytes, another length, or none; or what it says is another, and whole.
fn spoil_node(path: &Path, bytes: &mut Bytes<'_>) {
    let Ok(file) = File::options().read(true).write(true).open(path) else { return };
    let length = file.metadata().unwrap().len();
    if length == 0 {
        return;
    }
    let start = bytes.of(&[
        (0, IDENTITY_ROOM),
        (Doubled::size(IDENTITY_ROOM), MOMENT_ROOM),
        (Doubled::size(IDENTITY_ROOM) + Doubled::size(MOMENT_ROOM), DATA_ROOM),
        (NODE_FILE_BYTES - Doubled::size(MOMENT_ROOM), MOMENT_ROOM),
    ]);
    match bytes.below(8) {
        0 => file.set_len(bytes.of(&[0, 1, length - 1, length + 1])).unwrap(),
        1 => fs::remove_file(path).unwrap(),
        // The first of two places of `node`, or what a table begins with.
        2 if length == NODE_FILE_BYTES => {
            let second = (48 + start.1) as u64 * u64::from(bytes.bit());
            file.write_all_at(bytes.some(), start.0 + second).unwrap();
        }
        3..=5 if length == NODE_FILE_BYTES => {
            let (mut place, data) = Doubled::open(file, start.0, start.1).unwrap();
            let mut data = data.unwrap_or_default();
            for _ in 0..=bytes.below(4) {
                let at = usize::from(bytes.word()) % (data.len() + 1);
                let some = bytes.some();
                match bytes.bit() {
                    true => data.iter_mut().skip(at).zip(some).for_each(|(byte, other)| *byte = *other),
                    false => drop(data.splice(at..at, some.iter().copied())),
                }
            }
            data.truncate(start.1);
            place.write(&data).unwrap();
        }
        _ => drop(spoil(&file, length.min(8192), bytes)),
    }
}

/// All flows of a node.
fn is_sound_node(plan: &Plan<'_>, tables: &NodeTables, empty: bool) -> u64 {
    assert_eq!(tables.workers.len(), 2);
    let keeper: std::sync::MutexGuard<'_, Keeper> = resume::lock(&tables.keeper);
    let last = keeper.last().cloned().unwrap_or_default();
    assert!(last.is_sound());
    let mut kept = 0;
    for worker in &tables.workers {
        is_sound(&worker.table);
        assert!(worker.links.is_some() && (!empty || worker.table.is_empty()));
        kept += u64::from(worker.table.len());
        worker.table.each(|_, entry| {
            let slot = last.slots.get(entry.target.index()).filter(|slot| slot.holder.is_some());
            assert_eq!(slot.map(|slot| slot.generation), Some(entry.target_generation), "T-4");
            assert!(entry.key().endpoint().index() < plan.endpoints.len());
        });
    }
    if !empty {
        assert_eq!(kept, tables.restart.kept);
    }
    kept
}
