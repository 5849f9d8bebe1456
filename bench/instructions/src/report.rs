//! Runs the programs of a folder under callgrind and prints what each way takes.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::gateway::{WAYS, Way};

/// What counting may take of a way, as a part of its instructions.
const COUNTING: f64 = 0.03;

/// What a capture that is off may change: 0.1 %, to that digit. As few instructions as that the compiler moves around for
/// reasons of its own.
const CAPTURES_OFF: f64 = 0.0015;

/// Instructions a packet, of one way.
struct Measured {
    whole: f64,
    /// Without counters; without these and notes; without captures.
    uncounted: f64,
    unnoted: f64,
    uncaptured: f64,
}

/// Instructions a packet that `program` takes on `way`.
fn instructions(folder: &Path, program: &str, way: &Way) -> Result<f64, String> {
    let out = folder.join(format!("{program}.{}.callgrind", way.name));
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--toggle-collect=*measured_rounds*"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    let output = command.arg(folder.join(program)).args(["play", way.name]).output();
    let output = output.map_err(|error| format!("valgrind does not start: {error}"))?;
    let told = || String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("{program} on {}: {}", way.name, told()));
    }
    let packets: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| told())?;
    let text = std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).ok_or_else(told)?;
    let all: f64 = summary.trim().parse().map_err(|_| format!("callgrind says '{summary}'"))?;
    // A compiler that puts the rounds elsewhere must not make everything free.
    if all < packets {
        return Err(format!("{program} on {}: {all} instructions of {packets} packets", way.name));
    }
    Ok(all / packets)
}

fn measure(folder: &Path, way: &Way) -> Result<Measured, String> {
    let of = |program| instructions(folder, program, way);
    Ok(Measured {
        whole: of("whole")?,
        uncounted: of("without-counters")?,
        unnoted: of("without-notes")?,
        uncaptured: of("without-captures")?,
    })
}

/// Measures the ways, prints a table of them, and fails if one misses a bar.
pub fn print(folder: &Path, short: bool) -> ExitCode {
    let ways = if short { &WAYS[..2] } else { WAYS };
    println!("| instructions a packet | all | counters | with notes | a capture that is off |");
    println!("|---|---|---|---|---|");
    let mut missed = Vec::new();
    for way in ways {
        let measured = match measure(folder, way) {
            Ok(measured) => measured,
            Err(words) => {
                eprintln!("{words}");
                return ExitCode::FAILURE;
            }
        };
        let Measured { whole, uncounted, unnoted, uncaptured } = measured;
        let parts = [whole - uncounted, whole - unnoted, whole - uncaptured].map(|part| (part, part / whole));
        let [counters, notes, captures] = parts.map(|(n, part)| format!("{n:.2}, {:.2} %", part * 100.0));
        println!("| {} | {whole:.2} | {counters} | {notes} | {captures} |", way.words);
        if !way.is_judged() {
            continue;
        }
        let [counters, _, captures] = parts.map(|(_, part)| part * 100.0);
        if counters >= COUNTING * 100.0 {
            missed.push(format!("{}: counting takes {counters:.2} %", way.words));
        }
        if captures.abs() > CAPTURES_OFF * 100.0 {
            missed.push(format!("{}: captures that are off take {captures:+.2} %", way.words));
        }
    }
    println!();
    if missed.is_empty() {
        println!(
            "At full bursts counting takes less than {} % of each way, and a capture that is off changes no more than 0.1 %.",
            COUNTING * 100.0
        );
        return ExitCode::SUCCESS;
    }
    missed.iter().for_each(|words| println!("{words}"));
    ExitCode::FAILURE
}
