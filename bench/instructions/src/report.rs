//! Runs the programs of a folder under callgrind and prints what each way takes.

use std::path::Path;
use std::process::{Command, ExitCode};

use crate::gateway::{COUNTING, COUNTING_FIRST, WAYS, Way};

/// The instructions that the bars are for: as a program says what it has run with.
pub const V3: &str = "x86-64-v3";

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
    /// Whether with the instructions that the bars are for.
    is_v3: bool,
}

/// Instructions a packet that `program` takes on `way`, and whether they are of x86-64-v3.
fn instructions(folder: &Path, program: &str, way: &Way) -> Result<(f64, bool), String> {
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
    let said = String::from_utf8_lossy(&output.stdout);
    let (packets, level) = said.trim().split_once(' ').ok_or_else(told)?;
    let packets: f64 = packets.parse().map_err(|_| told())?;
    let text = std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).ok_or_else(told)?;
    let all: f64 = summary.trim().parse().map_err(|_| format!("callgrind says '{summary}'"))?;
    // A compiler that puts the rounds elsewhere must not make everything free.
    if all < packets {
        return Err(format!("{program} on {}: {all} instructions of {packets} packets", way.name));
    }
    Ok((all / packets, level == V3))
}

fn measure(folder: &Path, way: &Way) -> Result<Measured, String> {
    let of = |program| instructions(folder, program, way).map(|(number, _)| number);
    let (whole, is_v3) = instructions(folder, "whole", way)?;
    Ok(Measured {
        whole,
        uncounted: of("without-counters")?,
        unnoted: of("without-notes")?,
        uncaptured: of("without-captures")?,
        is_v3,
    })
}

/// Measures the ways, prints a table of them, and fails if one misses a bar.
pub fn print(folder: &Path, short: bool) -> ExitCode {
    let ways = if short { &WAYS[..2] } else { WAYS };
    println!("| instructions a packet | all | counters | with notes | a capture that is off |");
    println!("|---|---|---|---|---|");
    let mut missed = Vec::new();
    let mut all_v3 = true;
    for way in ways {
        let measured = match measure(folder, way) {
            Ok(measured) => measured,
            Err(words) => {
                eprintln!("{words}");
                return ExitCode::FAILURE;
            }
        };
        let Measured { whole, uncounted, unnoted, uncaptured, is_v3 } = measured;
        all_v3 &= is_v3;
        let parts = [whole - uncounted, whole - unnoted, whole - uncaptured].map(|part| (part, part / whole));
        let [counters, notes, captures] = parts.map(|(n, part)| format!("{n:.2}, {:.2} %", part * 100.0));
        println!("| {} | {whole:.2} | {counters} | {notes} | {captures} |", way.words);
        if !way.is_judged() {
            continue;
        }
        let [counters, _, captures] = parts.map(|(_, part)| part * 100.0);
        if counters >= way.counting() * 100.0 {
            missed.push(format!("{}: counting takes {counters:.2} %", way.words));
        }
        if captures.abs() > CAPTURES_OFF * 100.0 {
            missed.push(format!("{}: captures that are off take {captures:+.2} %", way.words));
        }
    }
    println!();
    if !all_v3 {
        println!("The bars are for CPUs of {V3}, which this is not: they are not looked at.");
        return ExitCode::SUCCESS;
    }
    if missed.is_empty() {
        println!(
            "At full bursts counting takes less than {} % of each way ({} % of first packets), and a capture that is off changes no more than 0.1 %.",
            COUNTING * 100.0,
            COUNTING_FIRST * 100.0
        );
        return ExitCode::SUCCESS;
    }
    missed.iter().for_each(|words| println!("{words}"));
    ExitCode::FAILURE
}
