//! The flow table beside two others: `hashbrown`, the hash map of Rust's own library, in a loop, and
//! DPDK's `rte_hash` with its bulk look-up. The same 40-byte keys, the same random order, the same run; times are of
//! a burst of 32, hashing included.
//!
//! ```text
//! cargo bench --bench flow_table                         everything, a few minutes
//! cargo bench --bench flow_table -- 'look-up/.*/1 M'     one size
//! ```
//!
//! `rte_hash` wants huge pages to be at its best: `sysctl vm.nr_hugepages=1024`. Without them the flow
//! table asks for transparent ones, and `rte_hash` has to do with small ones, which the names of the
//! benches say.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use flowgate::flow::{
    Cookie, FlowFlags, FlowKey, FlowState, HashSeed, LinkId, NewEntry, PageKind, Pages, Table, TableConfig,
};
use flowgate::id::{EndpointId, Millis, TargetId, WorkerId};

#[cfg(feature = "dpdk")]
#[path = "flow_table/rte_hash.rs"]
mod rte_hash;

const BURST: usize = 32;
const SIZES: [(&str, u32); 4] = [("1 K", 1 << 10), ("64 K", 1 << 16), ("1 M", 1 << 20), ("8 M", 1 << 23)];

/// SplitMix64: quick, and no relation of any hash measured here.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let other = usize::try_from(self.next()).unwrap_or(0) % (i + 1);
            items.swap(i, other);
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

fn table(capacity: u32) -> Table {
    let seed = HashSeed::from_secret(b"bench");
    Table::new(TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Huge, seed })
        .expect("a table")
}

fn pages(kind: PageKind) -> &'static str {
    match kind {
        PageKind::Reserved1G => "1 GiB pages",
        PageKind::Reserved2M => "2 MiB pages",
        PageKind::Transparent => "transparent huge pages",
        PageKind::Small => "small pages",
    }
}

const NEW: NewEntry = NewEntry {
    state: FlowState::Established,
    flags: FlowFlags::empty(),
    target: TargetId(1),
    target_generation: 1,
    link: [LinkId::NONE; 2],
    now: Millis(0),
};

fn insert(table: &mut Table, key: &FlowKey) {
    black_box(table.insert(table.hash(key), key, NEW).is_ok());
}

/// Goes round and round the items, a burst at a time.
struct Bursts<'a, T> {
    items: &'a [T],
    at: usize,
}

impl<'a, T> Bursts<'a, T> {
    fn of(items: &'a [T]) -> Self {
        Bursts { items, at: 0 }
    }

    fn next(&mut self) -> &'a [T] {
        if self.at + BURST > self.items.len() {
            self.at = 0;
        }
        self.at += BURST;
        &self.items[self.at - BURST..self.at]
    }
}

fn look_up(c: &mut Criterion) {
    let mut group = c.benchmark_group("look-up");
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, n) in SIZES {
        let inserted = keys(n, 0);
        let mut wanted = inserted.clone();
        Random(7).shuffle(&mut wanted);

        {
            let mut table = table(n);
            inserted.iter().for_each(|key| insert(&mut table, key));
            assert_eq!(table.len(), n);
            let kind = pages(table.pages());
            let mut bursts = Bursts::of(&wanted);
            group.bench_function(BenchmarkId::new(format!("flowgate by hash, {kind}"), name), |b| {
                let (mut hashes, mut found) = ([0; BURST], [None; BURST]);
                b.iter(|| {
                    let keys = bursts.next();
                    for (hash, key) in hashes.iter_mut().zip(keys) {
                        *hash = table.hash(key);
                    }
                    table.find_burst(&hashes, keys, &mut found);
                    assert!(found.iter().all(Option::is_some));
                });
            });

            let mut cookies: Vec<(Cookie, FlowKey)> = wanted
                .iter()
                .map(|key| (table.cookie(table.find(table.hash(key), key).expect("inserted")), *key))
                .collect();
            Random(8).shuffle(&mut cookies);
            let mut bursts = Bursts::of(&cookies);
            group.bench_function(BenchmarkId::new(format!("flowgate by cookie, {kind}"), name), |b| {
                b.iter(|| {
                    let burst = bursts.next();
                    for (cookie, _) in burst {
                        table.prefetch_cookie(*cookie);
                    }
                    for (cookie, key) in burst {
                        let entry = table.by_cookie(*cookie).map(|id| table.entry(id));
                        assert!(entry.is_ok_and(|entry| entry.key() == key));
                    }
                });
            });
        }

        {
            let map: hashbrown::HashMap<FlowKey, u32> = inserted.iter().copied().zip(0..).collect();
            let mut bursts = Bursts::of(&wanted);
            group.bench_function(BenchmarkId::new("hashbrown", name), |b| {
                b.iter(|| {
                    for key in bursts.next() {
                        assert!(black_box(map.get(key)).is_some());
                    }
                });
            });
        }

        #[cfg(feature = "dpdk")]
        rte_hash::look_up(&mut group, name, &inserted, &wanted);
    }
    group.finish();
}

/// A burst of new flows, in a table of the flows' number that fills to 31/32 and is emptied, untimed,
/// each time round; and a new flow for an old one in a table that stays full.
fn change(c: &mut Criterion) {
    let mut group = c.benchmark_group("change");
    group.throughput(Throughput::Elements(BURST as u64));
    for (name, n) in SIZES.into_iter().take(3) {
        let fresh = keys(n - n / 32, 0);
        let mut table = table(n);
        group.bench_function(BenchmarkId::new("flowgate insert", name), |b| {
            b.iter_custom(|bursts| {
                let mut spent = Duration::ZERO;
                let mut left = usize::try_from(bursts).unwrap_or(usize::MAX).saturating_mul(BURST);
                while left > 0 {
                    let now = left.min(fresh.len());
                    let start = Instant::now();
                    for burst in fresh[..now].chunks(BURST) {
                        for key in burst {
                            table.prefetch_index(table.hash(key));
                        }
                        burst.iter().for_each(|key| insert(&mut table, key));
                    }
                    spent += start.elapsed();
                    for key in &fresh[..now] {
                        if let Some(id) = table.find(table.hash(key), key) {
                            table.remove(id);
                        }
                    }
                    left -= now;
                }
                spent
            });
        });

        let old = keys(n, 0);
        let mut both = old.clone();
        both.extend(keys(n, n));
        old.iter().for_each(|key| insert(&mut table, key));
        let (mut out, mut into) = (0, old.len());
        group.bench_function(BenchmarkId::new("flowgate remove and insert", name), |b| {
            b.iter(|| {
                for at in [out, into] {
                    for key in &both[at..at + BURST] {
                        table.prefetch_index(table.hash(key));
                    }
                }
                for key in &both[out..out + BURST] {
                    if let Some(id) = table.find(table.hash(key), key) {
                        table.remove(id);
                    }
                }
                both[into..into + BURST].iter().for_each(|key| insert(&mut table, key));
                (out, into) = ((out + BURST) % both.len(), (into + BURST) % both.len());
            });
        });
    }
    group.finish();
}

fn hash(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash");
    group.throughput(Throughput::Elements(BURST as u64));
    let keys = keys(1 << 10, 0);
    let seed = HashSeed::from_secret(b"bench");
    let mut bursts = Bursts::of(&keys);
    group.bench_function("a burst of keys", |b| {
        b.iter(|| {
            for key in bursts.next() {
                black_box(seed.flow(key));
            }
        });
    });
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = hash, look_up, change }
criterion_main!(benches);
