//! What it costs the control core to build a target group's table and to change one target in it, and a
//! worker to choose.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use flowgate::balance::Builder;
use flowgate::flow::HashSeed;
use flowgate::id::TargetId;

fn target(n: u16) -> (TargetId, Ipv4Addr, u16) {
    (TargetId(n), Ipv4Addr::from_bits(0x0a00_0000 + u32::from(n)), 10)
}

fn group_of(targets: u16) -> Builder {
    let mut builder = Builder::new(HashSeed::from_secret(b"bench"));
    builder.add_all(&(0..targets).map(target).collect::<Vec<_>>());
    builder
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("balance");
    for targets in [10, 100, 1000] {
        group.bench_function(BenchmarkId::new("build", targets), |b| {
            b.iter_with_large_drop(|| group_of(targets).map());
        });
        let mut builder = group_of(targets);
        group.bench_function(BenchmarkId::new("remove and add one", targets), |b| {
            b.iter(|| {
                builder.remove(TargetId(5));
                builder.add_all(&[target(5)]);
            });
        });
        let mut weight = 10;
        group.bench_function(BenchmarkId::new("reweight one", targets), |b| {
            b.iter(|| {
                weight = 15 - weight;
                builder.reweight(TargetId(5), weight);
            });
        });
        let changing = RefCell::new(builder);
        group.bench_function(BenchmarkId::new("copy for workers", targets), |b| {
            // Only what has changed is copied.
            let change = || {
                let mut builder = changing.borrow_mut();
                builder.reweight(TargetId(5), 6);
                builder.reweight(TargetId(5), 5);
            };
            b.iter_batched(change, |()| changing.borrow().map(), BatchSize::PerIteration);
        });
        let builder = changing.into_inner();
        let map = builder.map();
        let mut hash = 0_u64;
        let mut next = move || {
            hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
            hash
        };
        group.bench_function(BenchmarkId::new("choose, all healthy", targets), |b| {
            b.iter_batched(&mut next, |hash| black_box(map.choose(hash, |_| true)), BatchSize::SmallInput);
        });
        let half = |target: TargetId| target.0.is_multiple_of(2);
        group.bench_function(BenchmarkId::new("choose, half healthy", targets), |b| {
            b.iter_batched(&mut next, |hash| black_box(map.choose(hash, half)), BatchSize::SmallInput);
        });
    }
    group.finish();
}

fn quick() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! { name = benches; config = quick(); targets = build }
criterion_main!(benches);
