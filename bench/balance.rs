//! What it costs the control core to build a target group's table and to change one target in it, many or all, and
//! a worker to choose.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use flowgate::balance::Builder;
use flowgate::flow::HashSeed;
use flowgate::id::TargetId;

type Target = (TargetId, Ipv4Addr, u16);

/// This many targets, the one with this number of this weight and the others of weight 10.
fn list(targets: u16, (special, weight): (u16, u16)) -> Vec<Target> {
    let address = |n: u16| Ipv4Addr::from_bits(0x0a00_0000 + u32::from(n));
    (0..targets).map(|n| (TargetId(n), address(n), if n == special { weight } else { 10 })).collect()
}

fn group_of(targets: &[Target]) -> Builder {
    let mut builder = Builder::new(HashSeed::from_secret(b"bench"));
    builder.update(targets);
    builder
}

fn build(c: &mut Criterion) {
    let mut group = c.benchmark_group("balance");
    for targets in [10, 100, 1000] {
        let (all, heavier) = (list(targets, (5, 10)), list(targets, (5, 15)));
        let mut without = all.clone();
        without.remove(5);
        let half = all[all.len() / 2..].to_vec();
        let reweighted: Vec<Target> =
            all.iter().map(|&(target, address, _)| (target, address, 1 + target.0 % 3)).collect();
        group.bench_function(BenchmarkId::new("build", targets), |b| {
            b.iter_with_large_drop(|| group_of(&all).map());
        });
        let mut builder = group_of(&all);
        let mut there_and_back = |name: &str, other: &[Target]| {
            group.bench_function(BenchmarkId::new(name, targets), |b| {
                b.iter(|| {
                    builder.update(other);
                    builder.update(&all);
                });
            });
        };
        there_and_back("remove one and add one", &without);
        there_and_back("reweight one twice", &heavier);
        there_and_back("remove half and add half", &half);
        there_and_back("reweight all twice", &reweighted);
        let changing = RefCell::new(builder);
        group.bench_function(BenchmarkId::new("copy for workers", targets), |b| {
            // Only what has changed is copied.
            let change = || {
                let mut builder = changing.borrow_mut();
                builder.update(&heavier);
                builder.update(&all);
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
