//! Measures Flowgate beside what could be used instead, row by row of one table; see [`arguments`].
//!
//! One thread, on a CPU of its own, is the bench and all contenders of this process in turn (`stand.rs`); testpmd
//! forwards on that CPU too, while the thread sleeps. What each row measures, and what it leaves out, is said
//! in its own file under `rows/`.

use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use clap::Parser;
use flowgate::io::affinity;

mod arguments;
mod contenders;
mod cpu_time;
mod frames;
mod report;
mod rings;
mod rows;
mod series;
mod stand;

use arguments::{Arguments, RowName};
use contenders::testpmd::Testpmd;
use rings::Rings;
use rows::Bench;

/// Why a measurement came to nothing, in a sentence.
pub type Failure = Box<dyn Error>;

/// Numbers of flows in the plot.
const FLOWS: [u32; 8] = [1, 1 << 6, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 23];

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let cpus = affinity::allowed_cpus()?;
    let (Some(first), Some(last)) = (cpus.first().copied(), cpus.last().copied()) else {
        return Err("there is no CPU to run on".into());
    };
    let rings = Rc::new(Rings::start(&cpus, arguments.pool, 1600)?);
    affinity::pin_to(last)?;
    let testpmd = Testpmd::start(first, last, rings.eal.has_hugepages())?;
    let mut bench = Bench {
        rings,
        testpmd,
        rounds: arguments.rounds.unwrap_or(if arguments.short { 1 } else { 5 }),
        turn: Duration::from_millis(arguments.turn.unwrap_or(if arguments.short { 20 } else { 200 }).into()),
        flows: match (arguments.flows.is_empty(), arguments.short) {
            (false, _) => arguments.flows.clone(),
            (true, false) => FLOWS.to_vec(),
            (true, true) => FLOWS[..4].to_vec(),
        },
    };
    let mut rows = Vec::new();
    if arguments.wants(RowName::Packets) {
        let (mut measured, _) = rows::packets::run(&mut bench)?;
        rows.append(&mut measured);
    }
    print!("{}", report::markdown(&rows));
    let missed = rows.iter().filter(|row| !row.meets()).count();
    if arguments.strict && missed > 0 {
        return Err(format!("{missed} rows miss their bar").into());
    }
    Ok(())
}
