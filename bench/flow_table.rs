//! The flow table beside two others: `hashbrown`, the hash map of Rust's own library, in a loop, and DPDK's
//! `rte_hash` with its bulk look-up. The same flows in the same random order, hashing included, in bursts
//! of 32, each turn's time that of this thread on the CPU. All contenders of a size live side by side and
//! take turns, so that what else the machine does meets them alike; what counts is the ratio. Keys are
//! laid out between the measurements, 1,024 at a time, so that they lie in the cache, as the pipeline's do.
//!
//! ```text
//! cargo bench --bench flow_table                     everything, some minutes
//! cargo bench --bench flow_table -- look-up 1M       one row at one size
//! cargo bench --bench flow_table -- change 1M
//! ```
//!
//! `rte_hash` wants huge pages to be at its best: `sysctl vm.nr_hugepages=1400`. Without them the flow
//! table asks for transparent ones, and `rte_hash` has to do with small ones, which the names say.

use std::time::Duration;

use flowgate::flow::{FlowKey, HashSeed};
use flowgate::id::EndpointId;
use nix::time::{ClockId, clock_gettime};

#[path = "flow_table/contenders.rs"]
mod contenders;
#[cfg(feature = "dpdk")]
#[path = "flow_table/rte_hash.rs"]
mod rte_hash;
#[path = "flow_table/trace.rs"]
mod trace;

use trace::Trace;

const BURST: usize = 32;
const SIZES: [(&str, u32); 4] = [("1K", 1 << 10), ("64K", 1 << 16), ("1M", 1 << 20), ("8M", 1 << 23)];
const ROUNDS: usize = 15;
/// Bursts whose keys are laid out at once.
const BATCH: usize = 32;
/// Batches in a turn: 2^19 look-ups, some 20 ms.
const TURN: usize = 512;

/// SplitMix64: quick, and no relation of any hash measured here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % n
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// IPv4 TCP flows of random clients to a few servers, each once.
fn keys(n: u32, from: u32) -> Vec<FlowKey> {
    let mut random = Random(u64::from(from));
    (from..from + n)
        .map(|i| {
            let r = random.next().to_le_bytes();
            // The number is in address and port, so that no two are equal; the rest is random.
            let client = u128::from(u32::from_le_bytes([r[0], r[1], 0, 0]) << 16 | i >> 11);
            let server = 0xc0a8_0000 + u128::from(r[2]);
            let port = 1024 + u16::try_from(i & 0x7ff).unwrap_or(0) * 16 + u16::from(r[3] & 15);
            FlowKey::new(EndpointId(1), 4, 6, client, server, port, 443).0
        })
        .collect()
}

/// Goes round and round the items, a batch at a time, whose copy lies in the cache.
struct Bursts<T> {
    items: Vec<T>,
    at: usize,
    batch: Vec<T>,
}

impl<T: Copy> Bursts<T> {
    fn of(items: Vec<T>) -> Self {
        Bursts { items, at: 0, batch: Vec::new() }
    }

    fn prepare(&mut self) {
        self.batch.clear();
        while self.batch.len() < BATCH * BURST {
            let more = &self.items[self.at..self.items.len().min(self.at + BURST)];
            self.batch.extend_from_slice(more);
            self.at = (self.at + BURST) % self.items.len();
        }
    }

    fn of_batch(&self) -> impl Iterator<Item = &[T]> {
        self.batch.chunks_exact(BURST)
    }
}

/// One of those who take turns.
trait Contender {
    fn name(&self) -> String;

    /// What is not in the measure: laying out the next batch's keys.
    fn prepare(&mut self);

    /// The batch; panics if one of its keys does not get what it should.
    fn run(&mut self);
}

fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock that every Linux has"))
}

/// Lets all take turns and prints what an item costs each: the best round and the middle one.
fn compare(title: &str, size: &str, contenders: &mut [Box<dyn Contender>]) {
    let mut times = vec![Vec::new(); contenders.len()];
    for round in 0..=ROUNDS {
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            let mut spent = Duration::ZERO;
            for _ in 0..TURN {
                contender.prepare();
                let start = cpu_time();
                contender.run();
                spent += cpu_time().saturating_sub(start);
            }
            // The first round warms up.
            if round > 0 {
                times.push(spent.as_secs_f64() * 1e9 / (TURN * BATCH * BURST) as f64);
            }
        }
    }
    println!(
        "\n{title}, {size} flows: ns, best and median of {ROUNDS} rounds; the best as a ratio to the first"
    );
    let mut first = None;
    for (contender, times) in contenders.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[ROUNDS / 2]);
        let ratio = best / *first.get_or_insert(best);
        println!("  {:<50} {best:7.1} {median:7.1} {ratio:6.2}", contender.name());
    }
}

fn look_up(size: &str, n: u32) {
    let inserted = keys(n, 0);
    let mut wanted = inserted.clone();
    Random(7).shuffle(&mut wanted);
    let mut contenders = contenders::look_up(&inserted, &wanted);
    #[cfg(feature = "dpdk")]
    contenders.extend(rte_hash::look_up(&inserted, &wanted));
    compare("look-up", size, &mut contenders);
}

/// Half of a burst's work takes flows out at random, the other half puts new ones in, at a table that holds
/// `n` and has room for an eighth more.
fn change(size: &str, n: u32) {
    let live = keys(n, 0);
    let trace = || Trace::new(live.clone(), keys(n / 2, n));
    let mut contenders = contenders::change(trace);
    #[cfg(feature = "dpdk")]
    contenders.extend(rte_hash::change(trace));
    compare("delete + insert", size, &mut contenders);
}

fn hash() {
    let seed = HashSeed::from_secret(b"bench");
    let mut contenders: [Box<dyn Contender>; 1] = [Box::new(contenders::Hash::new(seed, keys(1 << 10, 0)))];
    compare("hash", "1K", &mut contenders);
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_wanted = |group: &[&str], name: &str| {
        let mut of_group = wanted.iter().filter(|w| group.contains(&w.as_str())).peekable();
        of_group.peek().is_none() || of_group.any(|w| w == name)
    };
    let rows = ["hash", "look-up", "change"];
    let sizes = SIZES.map(|(name, _)| name);
    if is_wanted(&rows, "hash") {
        hash();
    }
    for (name, n) in SIZES.into_iter().filter(|(name, _)| is_wanted(&sizes, name)) {
        if is_wanted(&rows, "look-up") {
            look_up(name, n);
        }
        if is_wanted(&rows, "change") {
            change(name, n);
        }
    }
}
