//! The flow table by itself: look-ups by hash and by cookie, and a new flow in place of an old one.
//!
//! Keys are made between the measurements, 1,024 at a time and in an order that has nothing to do with
//! their places in any table, so that they lie in the first-level cache, as the pipeline's do, and the
//! tables' lines do not. All hash within the measurement.

use std::hint::black_box;
use std::time::Duration;

use flowgate::flow::{Cookie, FlowFlags, FlowKey, FlowState, LinkId, NewEntry, Pages, Table, TableConfig};
use flowgate::id::{Millis, TargetId, WorkerId};

use super::Bench;
use crate::contenders::gateway::seed;
use crate::contenders::rte_hash::{self, RteHash};
use crate::frames::{Flow, Shuffled};
use crate::report::{Figure, Row, at_most, count};
use crate::rings::BATCH;
use crate::{Failure, cpu_time};

/// Keys that are looked up together.
pub const BURST: usize = 32;

/// What the entries begin with.
pub const NEW: NewEntry = NewEntry {
    state: FlowState::Established,
    flags: FlowFlags::empty(),
    target: TargetId(1),
    target_generation: 1,
    link: [LinkId::NONE; 2],
    now: Millis(0),
};

/// A table in which flows are found by some name.
struct Contender<N, F> {
    /// The name of the flow of a number.
    name: N,
    /// Looks a burst up; returns how many are there.
    find: F,
    order: Shuffled,
    figure: Figure,
}

impl<N, F> Contender<N, F> {
    fn take_turn<K>(&mut self, time: Duration) -> Result<(), Failure>
    where
        N: Fn(u32) -> K,
        F: FnMut(&[K]) -> usize,
    {
        let (mut spent, mut looked_up) = (Duration::ZERO, 0);
        let mut nothing = cpu_time::Nothing::measure();
        while spent < time {
            let names: Vec<K> = self.order.by_ref().take(BATCH).map(&self.name).collect();
            let (took, found) = nothing.off(|| names.chunks(BURST).map(&mut self.find).sum::<usize>());
            if found != names.len() {
                let who = &self.figure.contender;
                return Err(format!("{who} found {found} of {} flows", names.len()).into());
            }
            spent += took;
            looked_up += names.len();
        }
        self.figure.samples.push(cpu_time::each(spent, looked_up));
        Ok(())
    }
}

fn key(number: u32) -> FlowKey {
    Flow::v4(number.into()).key()
}

/// An empty table.
pub fn table(capacity: u32) -> Result<Table, Failure> {
    let config = TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Huge, seed: seed() };
    Ok(Table::new(config)?)
}

/// A table full of the first flows.
fn full_table(flows: u32) -> Result<Table, Failure> {
    let mut table = table(flows)?;
    for number in 0..flows {
        let key = key(number);
        table.insert(table.hash(&key), &key, NEW).map_err(|error| format!("flow {number}: {error:?}"))?;
    }
    Ok(table)
}

/// One that holds this many flows.
pub fn full_rte_hash<const N: usize>(
    flows: u32,
    cut: fn(&FlowKey) -> [u8; N],
) -> Result<RteHash<N>, Failure> {
    Ok(RteHash::filled(flows, (0..flows).map(|number| cut(&key(number))))?)
}

fn find_in_rte_hash<const N: usize>(table: &RteHash<N>, keys: &[[u8; N]]) -> usize {
    let mut values = [0; rte_hash::BURST];
    let hits = table.look_up(keys, &mut values);
    black_box(&values);
    hits.count_ones() as usize
}

fn find_by_hash(table: &Table, keys: &[FlowKey]) -> usize {
    let (mut hashes, mut found) = ([0; BURST], [None; BURST]);
    table.hash_and_find_burst(keys, &mut hashes, &mut found);
    black_box(&found).iter().take(keys.len()).flatten().count()
}

/// As the pipeline does with an answer: the cookie leads to the entry, whose key is compared.
fn find_by_cookie(table: &Table, names: &[(Cookie, FlowKey)]) -> usize {
    for (cookie, _) in names {
        table.prefetch_cookie(*cookie);
    }
    let is_there = |(cookie, key): &&(Cookie, FlowKey)| {
        table.by_cookie(*cookie).is_ok_and(|id| table.entry(id).key() == key)
    };
    names.iter().filter(is_there).count()
}

fn at(bench: &Bench, flows: u32) -> Result<[Row; 2], Failure> {
    bench.says(format_args!("look-up, {} flows: filling the tables", count(flows)));
    let figure = |who: &str| Figure::new(who, "ns a look-up");
    let order = || Shuffled::below(flows);
    let table = full_table(flows)?;
    let map: hashbrown::HashMap<FlowKey, u32> = (0..flows).map(|number| (key(number), number)).collect();
    let (whole, ipv4) = (full_rte_hash(flows, rte_hash::whole)?, full_rte_hash(flows, rte_hash::ipv4)?);

    let mut by_hash = Contender {
        name: key,
        find: |keys: &[FlowKey]| find_by_hash(&table, keys),
        order: order(),
        figure: figure("Flowgate by hash"),
    };
    let cookie = |number| {
        let key = key(number);
        let id = table.find(table.hash(&key), &key);
        (id.map_or(Cookie(u32::MAX), |id| table.cookie(id)), key)
    };
    let mut by_cookie = Contender {
        name: cookie,
        find: |names: &[(Cookie, FlowKey)]| find_by_cookie(&table, names),
        order: order(),
        figure: figure("Flowgate by cookie"),
    };
    let mut rte_40 = Contender {
        name: |number| rte_hash::whole(&key(number)),
        find: |keys: &[[u8; 40]]| find_in_rte_hash(&whole, keys),
        order: order(),
        figure: figure("rte_hash, the same 40-byte keys"),
    };
    let mut rte_16 = Contender {
        name: |number| rte_hash::ipv4(&key(number)),
        find: |keys: &[[u8; 16]]| find_in_rte_hash(&ipv4, keys),
        order: order(),
        figure: figure("rte_hash, 16-byte IPv4 keys"),
    };
    let mut hashbrown = Contender {
        name: key,
        find: |keys: &[FlowKey]| keys.iter().filter(|key| black_box(map.get(*key)).is_some()).count(),
        order: order(),
        figure: figure("hashbrown, the same keys, one by one"),
    };
    let testpmd = bench.yardstick(|| {
        by_hash.take_turn(bench.turn)?;
        rte_40.take_turn(bench.turn)?;
        rte_16.take_turn(bench.turn)?;
        hashbrown.take_turn(bench.turn)?;
        by_cookie.take_turn(bench.turn)
    })?;

    let mut row = Row::new("look-up", format!("look-up by hash, {} flows", count(flows)));
    let ours = by_hash.figure.best();
    row.verdicts = vec![
        at_most("of rte_hash with the same keys", ours / rte_40.figure.best(), 0.6, "×"),
        at_most("of rte_hash with IPv4 keys", ours / rte_16.figure.best(), 1.0, "×"),
    ];
    row.figures =
        vec![testpmd.clone(), rte_16.figure, rte_40.figure, hashbrown.figure, by_hash.figure.clone()];
    let mut cookie_row = Row::new("look-up", format!("look-up by cookie, {} flows", count(flows)));
    cookie_row.verdicts = vec![at_most("of the look-up by hash", by_cookie.figure.best() / ours, 0.5, "×")];
    cookie_row.figures = vec![by_hash.figure, by_cookie.figure];
    Ok([row, cookie_row])
}

/// The rows of look-ups.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for flows in bench.sizes([1 << 20, 1 << 23]) {
        rows.extend(at(bench, flows)?);
    }
    // All by hash first, then all by cookie.
    rows.sort_by_key(|row| row.title.contains("cookie"));
    Ok(rows)
}
