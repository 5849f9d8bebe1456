//! What a scrape of every series costs the control core, in both formats. Taking the snapshot is in it as far as it can be
//! without a daemon: the workers' counters are read here as there. No worker has a part in it.

#[path = "../../../tests/monitor/sample.rs"]
mod sample;

use flowgate::control::monitor::metrics::{Format, write};

use super::Bench;
use crate::Failure;
use crate::cpu_time;
use crate::report::{Figure, Row, at_most};

/// Scrapes of each format.
const SCRAPES: usize = 12;

/// What a scrape may take.
const MOST_MS: f64 = 50.0;

/// The rows.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    [2, 16].into_iter().map(|workers| at(bench, workers)).collect()
}

fn at(bench: &Bench, workers: u8) -> Result<Row, Failure> {
    let targets = if bench.short { 10 } else { 1_000 };
    bench.says(format_args!("scrape, {targets} targets, {workers} workers"));
    let mut row = Row::new("scrape", format!("scrape of {targets} targets, {workers} workers, all series"));
    let snapshot = sample::snapshot(workers, targets);
    for (name, format) in [("Prometheus's text format", Format::Text), ("OpenMetrics", Format::OpenMetrics)] {
        let mut figure = Figure::new(name, "ms");
        for _ in 0..if bench.short { 1 } else { SCRAPES } {
            let again = snapshot.clone();
            let (took, text) = cpu_time::of(|| write(again, format));
            let text = text.map_err(|error| error.to_string())?;
            // Every target's own series are there.
            let of_targets = text.matches("\nflowgate_target_active_flows{").count();
            if of_targets < usize::from(targets) {
                return Err(format!("the text has {of_targets} targets of {targets}").into());
            }
            figure.samples.push(took.as_secs_f64() * 1e3);
        }
        row.verdicts.push(at_most(name, figure.best(), MOST_MS, "ms"));
        row.figures.push(figure);
    }
    Ok(row)
}
