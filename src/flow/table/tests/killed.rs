//! A process that works on a table in a file is killed, again and again, wherever it is. What it had done by then is
//! known, as it does the same as a table here does. Whoever takes over finds every flow that it was not at work on just then.

#![expect(clippy::cast_possible_truncation, reason = "the tests' numbers are small")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::takeover::Place;
use super::*;

/// Says to the child where its files are.
const CHILD: &str = "FLOWGATE_TABLE_TEST_CHILD";

const CAPACITY: u32 = 60;

/// Steps before the child begins anew.
const STEPS: u64 = 100_000_000;

/// The same numbers wherever it is begun.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % below
    }
}

/// One thing that a worker does to a table; which one the numbers say.
fn step(table: &mut Table, numbers: &mut Numbers, at: u64) {
    let now = Millis(at as u32 / 8);
    let (n, state) = (numbers.next(3 * CAPACITY), FlowState::IN_USE[numbers.next(6) as usize]);
    let found = find(table, n);
    let made = NewEntry {
        target: TargetId(numbers.next(500) as u16),
        target_generation: numbers.next(9) as u16,
        now,
        ..new(if state == FlowState::Other { state } else { FlowState::HalfOpen })
    };
    match (numbers.next(16), found) {
        (0..=8, None) => {
            let key = key(n);
            table.insert(table.hash(&key), &key, made).ok();
        }
        (0..=3, Some(id)) => table.set_state(id, state),
        (4..=5, Some(id)) => table.entry_mut(id).note_ack(Direction::LowToHigh, at as u32),
        (6..=8, Some(id)) => table.entry_mut(id).last_seen = now,
        (9..=10, Some(id)) => table.remove(id),
        (11, Some(id)) => table.renew(id, made),
        _ => table.age(8, now, |_| Timers { tcp_idle_ms: 100, ..Timers::default() }, |_, _, _| {}),
    }
}

/// The child itself: works until it is killed, and says before each step which it is. No test of its own.
#[test]
fn works_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    let open = |name: &str| -> File {
        OpenOptions::new().read(true).write(true).open(Path::new(&folder).join(name)).unwrap()
    };
    let (table, progress) = (open("table"), open("progress"));
    let mut table = Place::over(table, CAPACITY).create();
    let mut numbers = Numbers(number(&open("seed")));
    for at in 1..STEPS {
        progress.write_all_at(&at.to_le_bytes(), 0).unwrap();
        // Several to each, or most of its time it would not be at work.
        for part in 0..PARTS {
            step(&mut table, &mut numbers, at * PARTS + part);
        }
    }
}

/// Steps between two words of how far it is.
const PARTS: u64 = 4;

fn number(file: &File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_le_bytes(bytes)
}

/// What can be seen of an entry that is not free.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    key: [u64; 5],
    state: FlowState,
    last_seen: Millis,
    acks: [Option<u32>; 2],
    target: (TargetId, u16),
    cookie_generation: u16,
    flags: FlowFlags,
}

fn seen(table: &Table, number: u32) -> Option<Seen> {
    let entry = table.entries.at(number);
    let acks = [Direction::LowToHigh, Direction::HighToLow].map(|way| entry.last_ack(way));
    (!entry.is_in(FlowState::Free)).then_some(Seen {
        key: *entry.key().words(),
        state: entry.state(),
        last_seen: entry.last_seen,
        acks,
        target: (entry.target, entry.target_generation),
        cookie_generation: entry.cookie_generation,
        flags: entry.flags,
    })
}

// F-5, F-9, F-11
#[test]
fn whoever_takes_over_from_a_process_that_was_killed_finds_all_but_what_it_was_at_work_on() {
    let (mut torn, mut at_work, mut steps) = (0, 0, 0);
    for round in 1..=40_u64 {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap()
        };
        let place = Place::over(file("table"), CAPACITY);
        let (progress, seed) = (file("progress"), file("seed"));
        progress.write_all_at(&0_u64.to_le_bytes(), 0).unwrap();
        let seed_is = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        seed.write_all_at(&seed_is.to_le_bytes(), 0).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "flow::table::tests::killed::works_until_it_is_killed"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let began = std::time::Instant::now();
        while number(&progress) < 50 * round {
            assert!(child.try_wait().unwrap().is_none(), "it works");
            assert!(began.elapsed() < Duration::from_secs(60), "it has begun to work");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();

        // What it did before the step that it was at, and after each part of that.
        let at = number(&progress);
        let mut same = table(CAPACITY);
        let mut numbers = Numbers(seed_is);
        for at in 1..at {
            (0..PARTS).for_each(|part| step(&mut same, &mut numbers, at * PARTS + part));
        }
        let mut moments: Vec<Vec<_>> = vec![(0..CAPACITY).map(|number| seen(&same, number)).collect()];
        for part in 0..PARTS {
            step(&mut same, &mut numbers, at * PARTS + part);
            moments.push((0..CAPACITY).map(|number| seen(&same, number)).collect());
        }

        let mut table = place.find();
        let came = table.take_over(|_| Keep::Yes);
        table.audit();
        for number in 0..CAPACITY {
            let now = seen(&table, number);
            let was = |moment: &Vec<Option<Seen>>| moment[number as usize] == now;
            let touched = moments.iter().any(|moment| moment[number as usize] != moments[0][number as usize]);
            at_work += u32::from(touched);
            if !touched {
                assert!(moments.iter().all(was), "round {round}, entry {number}: {now:?}");
            } else if let Some(now) = &now {
                // It may be between two of the moments, but it is one flow's.
                let mut then = moments.iter().filter_map(|moment| moment[number as usize].as_ref());
                assert!(then.any(|then| then.key == now.key), "round {round}, entry {number}: {now:?}");
            }
        }
        torn += came.torn;
        steps += at;
    }
    assert!(at_work > 0, "it was killed at work in none of {steps} steps");
    assert!(torn <= 40 * 2, "{torn} torn: more than were at work");
}
