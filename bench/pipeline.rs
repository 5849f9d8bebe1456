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
use flowgate::datapath::capture::MAX_SNAP_LEN;
use flowgate::datapath::capture::filter::Filter;
use flowgate::io::BURST;

#[path = "pipeline/gateway.rs"]
mod gateway;
#[path = "one_wire.rs"]
mod one_wire;
#[path = "pipeline/ring.rs"]
mod ring;

use gateway::{ACK, CLIENTS, Flow, Gateway, Known, SERVERS, SYN, TARGETS, mixed};
use ring::RingBuf;

const SIZES: [(&str, u32); 3] = [("1 K", 1 << 10), ("64 K", 1 << 16), ("1 M", 1 << 20)];

/// New flows that are put in before they are ended again.
const NEW_FLOWS: usize = 1 << 15;

/// Numbers of flows that are in no table yet.
const STRANGERS: u64 = 1 << 32;

/// Measures `play`, which is given what `prepare` made and a number of packets and returns how long they
/// took; returns the best sample's nanoseconds per packet, if the bench was asked for at all.
fn measure<T>(
    group: &mut BenchmarkGroup<WallTime>,
    id: BenchmarkId,
    prepare: impl Fn() -> T,
    mut play: impl FnMut(&mut T, usize) -> Duration,
) -> Option<f64> {
    let (mut best, mut ready) = (None::<f64>, None);
    group.throughput(Throughput::Elements(BURST as u64));
    group.bench_function(id, |b| {
        // Not within `iter_custom`, whose own time says how many runs fit into the measurement.
        let ready = ready.get_or_insert_with(&prepare);
        b.iter_custom(|bursts| {
            let packets = usize::try_from(bursts).unwrap_or(usize::MAX / BURST) * BURST;
            let spent = play(ready, packets);
            // A few packets say more of the timer than of the pipeline.
            if packets >= 1 << 14 {
                let each = spent.as_secs_f64() * 1e9 / packets as f64;
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
        let prepare = || {
            let (gateway, known) = Gateway::with_established(flows, flows);
            (gateway, shuffled(known))
        };
        let best = measure(
            &mut group,
            BenchmarkId::new("client to target", name),
            prepare,
            |(gateway, known), n| {
                let make =
                    |buf: &mut RingBuf| known.next().iter().for_each(|k| k.flow.client_segment(buf, ACK));
                gateway.play((CLIENTS, TARGETS), n, make, |_| ())
            },
        );
        seen.push(("client to target", name, best));
    }
    for (name, flows) in SIZES {
        let prepare = || {
            let (gateway, known) = Gateway::with_established(flows, flows);
            (gateway.answers(), gateway, shuffled(known))
        };
        let best = measure(
            &mut group,
            BenchmarkId::new("target to server", name),
            prepare,
            |(answers, gateway, known), n| {
                let make =
                    |buf: &mut RingBuf| known.next().iter().for_each(|k| Gateway::answer(answers, buf, k));
                gateway.play((TARGETS, SERVERS), n, make, |_| ())
            },
        );
        seen.push(("target to server", name, best));
    }
    group.finish();
    seen
}

/// A capture is on: packets of flows that it does not ask for, all packets with 96 bytes of each, and whole.
/// What was captured is taken out of the ring untimed, as the control core takes it on another CPU core.
fn captured(c: &mut Criterion) {
    let mut group = c.benchmark_group("pipeline, captured");
    let nobody = Filter { protocol: Some(255), ..Filter::default() };
    for (name, filter, snap_len) in [
        ("none of them", nobody, 96),
        ("96 bytes", Filter::default(), 96),
        ("whole", Filter::default(), MAX_SNAP_LEN),
    ] {
        let prepare = || {
            let (mut gateway, known) = Gateway::with_established(1 << 10, 1 << 10);
            (gateway.capture(filter, snap_len), gateway, shuffled(known))
        };
        measure(&mut group, BenchmarkId::new(name, "1 K"), prepare, |(captured, gateway, known), packets| {
            let mut spent = Duration::ZERO;
            for _ in 0..packets / BURST {
                let make =
                    |buf: &mut RingBuf| known.next().iter().for_each(|k| k.flow.client_segment(buf, ACK));
                spent += gateway.play((CLIENTS, TARGETS), BURST, make, |_| ());
                while captured.take_next().is_some() {}
            }
            spent
        });
    }
    group.finish();
}

/// First packets of flows: choose, insert, encapsulate; into a table of 1 M that is half full, and
/// is so again, untimed, after each 32 K of them.
fn new_flows(c: &mut Criterion) {
    let mut group = c.benchmark_group("pipeline, new flows");
    let mut strangers = (STRANGERS..).map(Flow);
    let prepare = || Gateway::with_established(1 << 20, 1 << 19).0;
    measure(&mut group, BenchmarkId::new("table half full", "1 M"), prepare, |gateway, mut left| {
        let mut spent = Duration::ZERO;
        while left > 0 {
            let room = (1 << 19) + NEW_FLOWS - gateway.flows() as usize;
            let count = left.min(room);
            let syn =
                |buf: &mut RingBuf| strangers.next().iter().for_each(|flow| flow.client_segment(buf, SYN));
            spent += gateway.play((CLIENTS, TARGETS), count, syn, |_| ());
            if count == room {
                gateway.end_half_open(1 << 19);
            }
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
        let mut strangers = (STRANGERS..).map(Flow);
        let mut flood = move |gateway: &mut Gateway, packets| {
            let syn =
                |buf: &mut RingBuf| strangers.next().iter().for_each(|flow| flow.client_segment(buf, SYN));
            gateway.play((CLIENTS, TARGETS), packets, syn, |_| ())
        };
        let prepare = || Gateway::with_established(1 << 20, established).0;
        measure(&mut group, BenchmarkId::new(name, "1 M"), prepare, |gateway, packets| {
            let room = (1 << 20) - gateway.flows() as usize;
            flood(gateway, room);
            let spent = flood(gateway, packets);
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
    captured(&mut criterion);
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
