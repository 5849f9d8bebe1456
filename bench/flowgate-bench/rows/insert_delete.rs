//! An old flow deleted and a new one inserted, with the table's full number of flows live. Which goes is
//! drawn at random, so that neither tables' lines come in the order in which they were filled. Flowgate's
//! table has room for exactly so many; `rte_hash` has an eighth more, without which it could not hold them.

use std::time::Duration;

use flowgate::flow::{FlowKey, Guess, Probe, Table};

use super::Bench;
use super::look_up::{BURST, NEW, full_rte_hash, table};
use crate::contenders::rte_hash::{self, RteHash};
use crate::frames::{Flow, Shuffled};
use crate::report::{Figure, Row, at_most, count};
use crate::rings::BATCH;
use crate::{Failure, cpu_time};

/// Which flows are live, and which comes next.
struct Churn {
    live: Vec<u64>,
    next: u64,
    order: Shuffled,
}

impl Churn {
    fn new(flows: u32) -> Churn {
        let live = (0..u64::from(flows)).collect();
        Churn { live, next: flows.into(), order: Shuffled::below(flows) }
    }

    /// A flow that goes and the one that comes in its place.
    fn exchange(&mut self) -> (FlowKey, FlowKey) {
        let place = self.order.next().unwrap_or(0) as usize;
        let old = std::mem::replace(&mut self.live[place], self.next);
        self.next += 1;
        (Flow::v4(old).key(), Flow::v4(self.next - 1).key())
    }
}

/// A table that takes a burst of exchanges; returns how many succeeded.
struct Contender<K, F> {
    name: fn(&FlowKey) -> K,
    exchange: F,
    churn: Churn,
    figure: Figure,
}

impl<K, F: FnMut(&[(K, K)]) -> usize> Contender<K, F> {
    fn take_turn(&mut self, time: Duration) -> Result<(), Failure> {
        let (mut spent, mut exchanged) = (Duration::ZERO, 0);
        let mut nothing = cpu_time::Nothing::measure();
        while spent < time {
            let names = |(old, new): (FlowKey, FlowKey)| ((self.name)(&old), (self.name)(&new));
            let pairs: Vec<(K, K)> = (0..BATCH).map(|_| names(self.churn.exchange())).collect();
            let (took, done) = nothing.off(|| pairs.chunks(BURST).map(&mut self.exchange).sum::<usize>());
            if done != pairs.len() {
                let who = &self.figure.contender;
                return Err(format!("{who} exchanged {done} of {} flows", pairs.len()).into());
            }
            spent += took;
            exchanged += pairs.len();
        }
        self.figure.samples.push(cpu_time::each(spent, exchanged));
        Ok(())
    }
}

fn insert(table: &mut Table, hash: u64, key: &FlowKey) -> bool {
    table.insert(hash, key, NEW).is_ok()
}

fn exchange(table: &mut Table, pairs: &[(FlowKey, FlowKey)]) -> usize {
    let mut probes = [(Probe::NONE, Probe::NONE); BURST];
    for (probes, (old, new)) in probes.iter_mut().zip(pairs) {
        *probes = (table.start(table.hash(old)), table.start(table.hash(new)));
    }
    let mut guesses = [Guess::NONE; BURST];
    for (guess, (old, _)) in guesses.iter_mut().zip(probes) {
        *guess = table.guess(old);
    }
    let mut done = 0;
    for ((guess, (old_probe, new_probe)), (old, new)) in guesses.into_iter().zip(probes).zip(pairs) {
        let Some(id) = table.confirm(old_probe, guess, old) else { continue };
        table.remove(id);
        done += usize::from(insert(table, new_probe.hash(), new));
    }
    done
}

fn exchange_in_rte_hash<const N: usize>(table: &mut RteHash<N>, pairs: &[([u8; N], [u8; N])]) -> usize {
    pairs.iter().filter(|(old, new)| table.remove(old) && table.add(new, 1).is_ok()).count()
}

fn at(bench: &Bench, flows: u32) -> Result<Row, Failure> {
    bench.says(format_args!("insert and delete, {} flows: filling the tables", count(flows)));
    let figure = |who: &str| Figure::new(who, "ns for both");
    let mut ours = table(flows)?;
    let mut map = hashbrown::HashMap::with_capacity(flows as usize);
    for key in (0..u64::from(flows)).map(|number| Flow::v4(number).key()) {
        let hash = ours.hash(&key);
        insert(&mut ours, hash, &key);
        map.insert(key, 1);
    }
    let (mut whole, mut ipv4) =
        (full_rte_hash(flows, rte_hash::whole)?, full_rte_hash(flows, rte_hash::ipv4)?);
    let mut ours = Contender {
        name: |key| *key,
        exchange: move |pairs: &[(FlowKey, FlowKey)]| exchange(&mut ours, pairs),
        churn: Churn::new(flows),
        figure: figure("Flowgate"),
    };
    let mut rte_40 = Contender {
        name: rte_hash::whole,
        exchange: |pairs: &[([u8; 40], [u8; 40])]| exchange_in_rte_hash(&mut whole, pairs),
        churn: Churn::new(flows),
        figure: figure("rte_hash, the same 40-byte keys"),
    };
    let mut rte_16 = Contender {
        name: rte_hash::ipv4,
        exchange: |pairs: &[([u8; 16], [u8; 16])]| exchange_in_rte_hash(&mut ipv4, pairs),
        churn: Churn::new(flows),
        figure: figure("rte_hash, 16-byte IPv4 keys"),
    };
    let mut hashbrown = Contender {
        name: |key| *key,
        exchange: |pairs: &[(FlowKey, FlowKey)]| {
            let exchange =
                |(old, new): &&(FlowKey, FlowKey)| map.remove(old).is_some() && map.insert(*new, 1).is_none();
            pairs.iter().filter(exchange).count()
        },
        churn: Churn::new(flows),
        figure: figure("hashbrown, the same keys"),
    };
    let testpmd = bench.yardstick(|| {
        ours.take_turn(bench.turn)?;
        rte_40.take_turn(bench.turn)?;
        rte_16.take_turn(bench.turn)?;
        hashbrown.take_turn(bench.turn)
    })?;
    let mut row = Row::new("insert-delete", format!("insert and delete, {} flows", count(flows)));
    let ratio = ours.figure.best() / rte_40.figure.best();
    row.verdicts.push(at_most("of rte_hash with the same keys", ratio, 0.8, "×"));
    row.figures = vec![testpmd, rte_16.figure, rte_40.figure, hashbrown.figure, ours.figure];
    Ok(row)
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    bench.sizes([1 << 20]).into_iter().map(|flows| at(bench, flows)).collect()
}
