//! What a scrape costs: of one target and of a thousand, by two workers and by sixteen. Taking the snapshot is the control
//! core's part and is in it as far as it can be without a daemon: the counters are read here as there.

#[path = "../tests/monitor/sample.rs"]
mod sample;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flowgate::control::monitor::metrics::{Format, write};

fn scrape(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scrape");
    group.sample_size(20);
    for (workers, targets) in [(2, 1), (2, 1000), (16, 1000)] {
        for format in [Format::Text, Format::OpenMetrics] {
            let name = format!("{format:?}, {workers} workers");
            let snapshot = sample::snapshot(workers, targets);
            group.bench_function(BenchmarkId::new(name, targets), |bencher| {
                bencher.iter_batched(
                    || snapshot.clone(),
                    |snapshot| write(snapshot, format).map(|text| text.len()),
                    criterion::BatchSize::LargeInput,
                );
            });
        }
    }
    group.finish();
}

criterion_group!(benches, scrape);
criterion_main!(benches);
