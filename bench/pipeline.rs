//! The whole way of a packet through a worker, ports of memory instead of a NIC's.
//!
//! What is measured: the rounds of a worker as the daemon's loop runs them, with the clock, the ageing
//! hand, the counters and the other ports' empty polls. What is not: making the frames and looking at
//! what came out, which happens between batches of 1,024 packets. A buffer is handed over by its pointer
//! and comes round again, so nothing is allocated. Each packet's tuple is its own flow's, and flows come in
//! an order that has nothing to do with their places in the table: at 1 M flows each packet finds its
//! bucket and its entry in memory, not in a cache. The frames themselves were just written by the same
//! core and lie in L2; a NIC's would come from L3.
//!
//! The last lines say what 1 M flows cost in terms of 1 K: at most 3 times as much.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use flowgate::io::BURST;

#[path = "pipeline/gateway.rs"]
mod gateway;
#[path = "pipeline/ring.rs"]
mod ring;

use gateway::{ACK, CLIENTS, Flow, Gateway, Known, SERVERS, SYN, TARGETS, mixed};
use ring::RingBuf;

const SIZES: [(&str, u32); 3] = [("1 K", 1 << 10), ("64 K", 1 << 16), ("1 M", 1 << 20)];

/// New flows that are put in before they are ended again.
const NEW_FLOWS: usize = 1 << 15;

/// Numbers of flows that are in no table yet.
const STRANGERS: u64 = 1 << 32;

/// Measures `play`, which is given a number of packets and returns what they took; returns the best
/// sample's nanoseconds per packet, if the bench was asked for at all.
fn measure(
    group: &mut BenchmarkGroup<WallTime>,
    id: BenchmarkId,
    mut play: impl FnMut(usize) -> Duration,
) -> Option<f64> {
    let mut best = None::<f64>;
    group.throughput(Throughput::Elements(BURST as u64));
    group.bench_function(id, |b| {
        b.iter_custom(|bursts| {
            let packets = usize::try_from(bursts).unwrap_or(usize::MAX / BURST) * BURST;
            let spent = play(packets);
            let each = Duration::as_secs_f64(&spent) * 1e9 / packets as f64;
            // A few packets say more of the timer than of the pipeline.
            if packets >= 1 << 14 {
                best = Some(best.map_or(each, |best| best.min(each)));
            }
            spent
        });
    });
    best
}

/// The flows for ever, in an order of its own.
fn shuffled(mut flows: Vec<Known>) -> impl Iterator<Item = Known> {
    flows.sort_by_key(|known| mixed(!known.flow.0));
    let count = flows.len();
    (0..count).cycle().map(move |n| flows[n])
}

fn established(c: &mut Criterion) -> Vec<(&'static str, &'static str, Option<f64>)> {
    let mut group = c.benchmark_group("pipeline, established");
    let mut seen = Vec::new();
    for (name, flows) in SIZES {
        let mut ready = None;
        let best = measure(&mut group, BenchmarkId::new("client to target", name), |packets| {
            let (gateway, known) = ready.get_or_insert_with(|| {
                let (gateway, known) = Gateway::with_established(flows, flows);
                (gateway, shuffled(known))
            });
            let make =
                |buf: &mut RingBuf| known.next().into_iter().for_each(|k| k.flow.from_client(buf, ACK));
            gateway.play((CLIENTS, TARGETS), packets, make, |_| ())
        });
        seen.push(("client to target", name, best));
    }
    for (name, flows) in SIZES {
        let mut ready = None;
        let best = measure(&mut group, BenchmarkId::new("target to server", name), |packets| {
            let (gateway, known, answers) = ready.get_or_insert_with(|| {
                let (gateway, known) = Gateway::with_established(flows, flows);
                let answers = gateway.answers();
                (gateway, shuffled(known), answers)
            });
            let make = |buf: &mut RingBuf| known.next().iter().for_each(|k| Gateway::answer(answers, buf, k));
            gateway.play((TARGETS, SERVERS), packets, make, |_| ())
        });
        seen.push(("target to server", name, best));
    }
    group.finish();
    seen
}

/// First packets of flows: choose, insert, encapsulate; into a table of 1 M that is half full, and
/// is so again, untimed, after each 32 K of them.
fn new_flows(c: &mut Criterion) {
    let mut group = c.benchmark_group("pipeline, new flows");
    let (mut ready, mut strangers) = (None, (STRANGERS..).map(Flow));
    measure(&mut group, BenchmarkId::new("table half full", "1 M"), |packets| {
        let gateway = ready.get_or_insert_with(|| Gateway::with_established(1 << 20, 1 << 19).0);
        let mut spent = Duration::ZERO;
        let mut left = packets;
        while left > 0 {
            let count = left.min(NEW_FLOWS);
            let syn = |buf: &mut RingBuf| strangers.next().into_iter().for_each(|f| f.from_client(buf, SYN));
            spent += gateway.play((CLIENTS, TARGETS), count, syn, |_| ());
            gateway.end_half_open(1 << 19);
            left -= count;
        }
        spent
    });
    group.finish();
}

/// SYNs of flows that nobody knows into a table without a free entry (F-12).
fn syn_flood(c: &mut Criterion) {
    let mut group = c.benchmark_group("pipeline, SYN flood");
    for (name, established) in [
        ("full of established flows: no state", 1 << 20),
        ("half of it half-open: the oldest leaves", 1 << 19),
    ] {
        let (mut ready, mut strangers) = (None, (STRANGERS..).map(Flow));
        measure(&mut group, BenchmarkId::new(name, "1 M"), |packets| {
            let mut syn =
                |buf: &mut RingBuf| strangers.next().into_iter().for_each(|f| f.from_client(buf, SYN));
            let gateway = ready.get_or_insert_with(|| {
                let (mut gateway, _) = Gateway::with_established(1 << 20, established);
                gateway.play((CLIENTS, TARGETS), (1 << 20) - established as usize, &mut syn, |_| ());
                gateway
            });
            let spent = gateway.play((CLIENTS, TARGETS), packets, &mut syn, |_| ());
            assert_eq!(gateway.flows(), 1 << 20);
            spent
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let seen = established(&mut criterion);
    new_flows(&mut criterion);
    syn_flood(&mut criterion);
    criterion.final_summary();
    for way in ["client to target", "target to server"] {
        let of = |size| seen.iter().find(|(w, name, _)| *w == way && *name == size).and_then(|found| found.2);
        if let (Some(few), Some(many)) = (of("1 K"), of("1 M")) {
            println!("{way}: {few:.1} ns a packet at 1 K flows, {many:.1} at 1 M: {:.2} times", many / few);
        }
    }
}
