//! The flow table, and `hashbrown` over the same flows.

use std::hint::black_box;

use flowgate::flow::{
    Cookie, FlowFlags, FlowKey, FlowState, HashSeed, LinkId, NewEntry, Pages, Table, TableConfig,
};
use flowgate::id::{Millis, TargetId, WorkerId};

use super::trace::{Change, Trace};
use super::{BURST, Bursts, Contender, Random};

const NEW: NewEntry = NewEntry {
    state: FlowState::Established,
    flags: FlowFlags::empty(),
    target: TargetId(1),
    target_generation: 1,
    link: [LinkId::NONE; 2],
    now: Millis(0),
};

fn table(capacity: u32, flows: &[FlowKey]) -> Table {
    let seed = HashSeed::from_secret(b"bench");
    let config = TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Huge, seed };
    let mut table = Table::new(config).expect("a table");
    for key in flows {
        table.insert(table.hash(key), key, NEW).expect("room");
    }
    table
}

fn size(flows: &[FlowKey]) -> u32 {
    u32::try_from(flows.len()).expect("a size of ours")
}

pub fn look_up(inserted: &[FlowKey], wanted: &[FlowKey]) -> Vec<Box<dyn Contender>> {
    let table = std::rc::Rc::new(table(size(inserted), inserted));
    let mut cookies: Vec<(Cookie, FlowKey)> = wanted
        .iter()
        .map(|key| (table.cookie(table.find(table.hash(key), key).expect("inserted")), *key))
        .collect();
    Random(8).shuffle(&mut cookies);
    let map = inserted.iter().copied().zip(0..).collect();
    vec![
        Box::new(ByHash { table: std::rc::Rc::clone(&table), keys: Bursts::of(wanted.to_vec()) }),
        Box::new(ByCookie { table, cookies: Bursts::of(cookies) }),
        Box::new(Hashbrown { map, keys: Bursts::of(wanted.to_vec()) }),
    ]
}

struct ByHash {
    table: std::rc::Rc<Table>,
    keys: Bursts<FlowKey>,
}

impl Contender for ByHash {
    fn name(&self) -> String {
        format!("flowgate by hash, {}", self.table.pages())
    }

    fn prepare(&mut self) {
        self.keys.prepare();
    }

    fn run(&mut self) {
        let (mut hashes, mut found) = ([0; BURST], [None; BURST]);
        for keys in self.keys.of_batch() {
            self.table.hash_and_find_burst(keys, &mut hashes, &mut found);
            assert!(found.iter().all(Option::is_some));
        }
    }
}

struct ByCookie {
    table: std::rc::Rc<Table>,
    cookies: Bursts<(Cookie, FlowKey)>,
}

impl Contender for ByCookie {
    fn name(&self) -> String {
        format!("flowgate by cookie, {}", self.table.pages())
    }

    fn prepare(&mut self) {
        self.cookies.prepare();
    }

    fn run(&mut self) {
        for burst in self.cookies.of_batch() {
            for (cookie, _) in burst {
                self.table.prefetch_cookie(*cookie);
            }
            for (cookie, key) in burst {
                let entry = self.table.by_cookie(*cookie).map(|id| self.table.entry(id));
                assert!(entry.is_ok_and(|entry| entry.key() == key));
            }
        }
    }
}

struct Hashbrown {
    map: hashbrown::HashMap<FlowKey, u32>,
    keys: Bursts<FlowKey>,
}

impl Contender for Hashbrown {
    fn name(&self) -> String {
        "hashbrown".into()
    }

    fn prepare(&mut self) {
        self.keys.prepare();
    }

    fn run(&mut self) {
        for keys in self.keys.of_batch() {
            for key in keys {
                assert!(black_box(self.map.get(key)).is_some());
            }
        }
    }
}

pub fn change(trace: impl Fn() -> Trace) -> Vec<Box<dyn Contender>> {
    let trace = trace();
    let n = size(trace.live());
    let table = table(n + n / 8, trace.live());
    vec![Box::new(Changing { table, trace, batch: Vec::new() })]
}

struct Changing {
    table: Table,
    trace: Trace,
    batch: Vec<Change<FlowKey>>,
}

impl Contender for Changing {
    fn name(&self) -> String {
        format!("flowgate, {}", self.table.pages())
    }

    fn prepare(&mut self) {
        self.batch = self.trace.batch(|key| *key);
    }

    fn run(&mut self) {
        let table = &mut self.table;
        let (mut hashes, mut found) = ([0; BURST], [None; BURST]);
        for Change { leave, come } in &self.batch {
            table.hash_and_find_burst(leave, &mut hashes, &mut found);
            for (hash, key) in hashes.iter_mut().zip(come) {
                *hash = table.hash(key);
                table.start(*hash);
            }
            for id in found {
                table.remove(id.expect("in the table"));
            }
            for (hash, key) in hashes.iter().zip(come) {
                table.insert(*hash, key, NEW).expect("not in the table, which has room");
            }
        }
    }
}

/// The hash alone.
pub struct Hash {
    seed: HashSeed,
    keys: Bursts<FlowKey>,
}

impl Hash {
    pub fn new(seed: HashSeed, keys: Vec<FlowKey>) -> Self {
        Hash { seed, keys: Bursts::of(keys) }
    }
}

impl Contender for Hash {
    fn name(&self) -> String {
        "a key's".into()
    }

    fn prepare(&mut self) {
        self.keys.prepare();
    }

    fn run(&mut self) {
        for keys in self.keys.of_batch() {
            for key in keys {
                black_box(self.seed.flow(key));
            }
        }
    }
}
