//! Measures Flowgate beside what could be used instead, row by row of one table; see [`arguments`].
//!
//! One thread, on a CPU of its own, is the bench and all contenders of this process in turn (`stand.rs`); testpmd
//! forwards on that CPU too, while the thread sleeps. What each row measures, and what it leaves out, is said
//! in its own file under `rows/`.

use std::cell::RefCell;
use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use flowgate::io::affinity;

mod arguments;
mod contenders;
mod cpu_time;
mod disturbances;
mod frames;
mod machine;
#[path = "../one_wire.rs"]
mod one_wire;
mod plot;
mod report;
mod rings;
mod rows;
mod series;
mod stand;

use arguments::{Arguments, RowName};
use contenders::testpmd::Testpmd;
use machine::Machine;
use report::{Report, Row};
use rings::Rings;
use rows::Bench;
use rows::packets::AtFlows;

/// Why a measurement came to nothing, in a sentence.
pub type Failure = Box<dyn Error>;

/// Numbers of flows in the plot.
const FLOWS: [u32; 8] = [1, 1 << 6, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 23];
const FLOWS_IN_SHORT: [u32; 3] = [1, 1 << 10, 1 << 14];

/// Memory for `rte_hash` where there are no hugepages, in MiB: two tables of 8 M flows, or small ones.
const ORDINARY_MB: u32 = 1600;
const ORDINARY_MB_IN_SHORT: u32 = 64;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) if !arguments.strict => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("flowgate-bench: {missed} rows miss their bar");
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("flowgate-bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures what was asked for and reports it; how many rows miss their bar.
fn run(arguments: &Arguments) -> Result<usize, Failure> {
    let cpus = affinity::allowed_cpus()?;
    let (Some(first), Some(last)) = (cpus.first().copied(), cpus.last().copied()) else {
        return Err("there is no CPU to run on".into());
    };
    if let Some(folder) = &arguments.out {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let mut machine = Machine::look(cpus.len());
    let short = arguments.short;
    let ordinary = if short { ORDINARY_MB_IN_SHORT } else { ORDINARY_MB };
    let rings = Arc::new(Rings::start(&cpus, arguments.pool, ordinary, arguments.no_huge)?);
    machine.packets_in_hugepages = rings.eal.has_hugepages();
    if !machine.packets_in_hugepages {
        eprintln!("no hugepages: packets and rte_hash lie in ordinary memory, and are slower for it");
    }
    let testpmd = Testpmd::start(first, last, machine.packets_in_hugepages)?;
    affinity::pin_to(last)?;
    let or = |wanted: Option<u32>, whole: u32, in_short: u32| {
        wanted.unwrap_or(if short { in_short } else { whole })
    };
    let bench = Bench {
        rings,
        testpmd: RefCell::new(testpmd),
        cpus,
        cpu: last,
        rounds: or(arguments.rounds, 12, 2),
        turn: Duration::from_millis(or(arguments.turn, 60, 20).into()),
        flows: match (arguments.flows.is_empty(), short) {
            (false, _) => arguments.flows.clone(),
            (true, false) => FLOWS.to_vec(),
            (true, true) => FLOWS_IN_SHORT.to_vec(),
        },
        longest: Duration::from_secs(or(arguments.longest, 60, 1).into()),
        short,
    };
    let (rows, curve) = measure(&bench, arguments)?;
    let report = Report {
        machine,
        short,
        rounds: bench.rounds,
        turn_ms: bench.turn.as_millis(),
        nothing_ns: cpu_time::Nothing::measure().least().as_nanos(),
        rows,
    };
    print!("{}", report.markdown());
    if let Some(folder) = &arguments.out {
        fs::write(folder.join("report.md"), report.markdown())?;
        fs::write(folder.join("report.json"), serde_json::to_string_pretty(&report)? + "\n")?;
        let curve: Vec<_> = curve.iter().map(|at| (at.flows, at.figures().to_vec())).collect();
        if !curve.is_empty() {
            plot::draw(&folder.join("cost.svg"), &curve)?;
        }
        eprintln!("the report is in {}", folder.display());
    }
    Ok(report.missed())
}

/// The rows that were asked for, and the curve of the plot.
fn measure(bench: &Bench, arguments: &Arguments) -> Result<(Vec<Row>, Vec<AtFlows>), Failure> {
    let (mut rows, mut curve) = (Vec::new(), Vec::new());
    for row in RowName::value_variants().iter().copied() {
        if !arguments.wants(row) {
            continue;
        }
        rows.extend(match row {
            RowName::LookUp => rows::look_up::run(bench)?,
            RowName::InsertDelete => rows::insert_delete::run(bench)?,
            RowName::Packets => {
                let (rows, at) = rows::packets::run(bench)?;
                curve = at;
                rows
            }
            RowName::FirstPacket => rows::first_packet::run(bench)?,
            RowName::Flood => rows::flood::run(bench)?,
            RowName::Memory => rows::memory::run(bench)?,
            RowName::Changes => rows::changes::run(bench)?,
            RowName::LongestBurst => rows::longest::run(bench)?,
            RowName::Workers => rows::workers::run(bench)?,
            RowName::Scrape => rows::scrape::run(bench)?,
        });
    }
    Ok((rows, curve))
}
