//! What a soak has to say in the end: a document for programs and one for people.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::figures::machine;
use crate::judge::Law;
use crate::soak::{Outcome, Wanted};

const MIB: f64 = 1048576.0;

/// Both documents, in a folder: `report.json` and `report.md`.
pub fn write(folder: &Path, wanted: &Wanted, outcome: &Outcome) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let document = document(wanted, outcome);
    std::fs::write(folder.join("report.json"), format!("{document:#}\n"))?;
    std::fs::write(folder.join("report.md"), text(&document))
}

fn document(wanted: &Wanted, outcome: &Outcome) -> Value {
    let violations: Vec<Value> = outcome
        .violations
        .iter()
        .map(|broken| {
            json!({
                "Law": format!("{:?}", broken.law),
                "UnixMs": u64::try_from(broken.at.as_millis()).unwrap_or(u64::MAX),
                "What": broken.what,
                "Before": broken.before,
            })
        })
        .collect();
    let steepest = outcome.slopes.iter().map(|slope| slope.grown / MIB).fold(f64::MIN, f64::max);
    let highest = outcome.slopes.iter().map(|slope| slope.highest).max();
    let laws: Vec<Value> = Law::ALL
        .into_iter()
        .map(|law| {
            let broken = outcome.violations.iter().filter(|broken| broken.law == law).count();
            json!({"Law": format!("{law:?}"), "Sentence": law.sentence(), "Violations": broken})
        })
        .collect();
    let faults = outcome.faults.iter().map(|(fault, count)| (format!("{fault:?}"), json!(count)));
    let traffic = outcome.traffic.iter().map(|(name, count)| ((*name).to_owned(), json!(count)));
    let rules = outcome.resets.by_rule.iter().map(|(rule, count)| ((*rule).to_owned(), json!(count)));
    json!({
        "Seed": wanted.seed,
        "Seconds": rounded(outcome.lasted.as_secs_f64()),
        "Machine": machine(),
        "Laws": laws,
        "Violations": violations,
        "Faults": faults.collect::<serde_json::Map<_, _>>(),
        "Traffic": traffic.collect::<serde_json::Map<_, _>>(),
        "Lives": outcome.lives,
        "FlowsTakenOver": outcome.taken_over,
        "EntriesTorn": outcome.torn,
        "Rests": outcome.rests,
        "PacketsReceived": outcome.received,
        "Scrapes": outcome.scrapes,
        "CounterSeries": outcome.series,
        "FlowsSeen": outcome.flows.begun,
        "PacketsSeenOnTheirWayToAppliances": outcome.flows.packets,
        "PacketsThatMovedTheirFlow": outcome.flows.moved,
        "FramesMissedByTheCaptures": outcome.missed,
        "ResetsOfTheGateway": outcome.resets.count(),
        "ResetsByRule": rules.collect::<serde_json::Map<_, _>>(),
        "LongestRoundMs": rounded(outcome.longest_round.as_secs_f64() * 1000.0),
        "LongestRoundAllowedMs": rounded(wanted.longest_round.as_secs_f64() * 1000.0),
        "MostBuffersInUseAtRest": outcome.most_buffers.0,
        "Buffers": outcome.most_buffers.1,
        "SlopesMeasured": outcome.slopes.len(),
        "LargestGrowthInOneLifeMiB": (!outcome.slopes.is_empty()).then_some(rounded(steepest)),
        "HighestResidentMiB": highest.map(|bytes| bytes >> 20),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The document as Markdown.
fn text(document: &Value) -> String {
    let mut text = String::new();
    let machine = &document["Machine"];
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let of = |key: &str| word(&machine[key]);
    // Writing to a string cannot fail.
    let mut line = |words: std::fmt::Arguments<'_>| {
        text.write_fmt(words).ok();
        text.push('\n');
    };
    line(format_args!(
        "Seed {}, {} seconds, commit {} ({} build); {} CPUs ({}), {}, {}.\n",
        document["Seed"],
        document["Seconds"],
        of("Commit"),
        of("Build"),
        of("Cpus"),
        of("Cpu"),
        of("Memory"),
        of("Kernel")
    ));
    line(format_args!("| what must hold | violations |\n|---|---:|"));
    for law in document["Laws"].as_array().into_iter().flatten() {
        line(format_args!("| {} | {} |", word(&law["Sentence"]), law["Violations"]));
    }
    line(format_args!("\n| figure | |\n|---|---:|"));
    for (name, value) in document.as_object().into_iter().flatten() {
        if value.is_number() && !["Seed", "Seconds"].contains(&name.as_str()) {
            line(format_args!("| {} | {value} |", spaced(name)));
        }
    }
    for (title, key) in
        [("fault", "Faults"), ("traffic", "Traffic"), ("resets explained by rule", "ResetsByRule")]
    {
        line(format_args!("\n| {title} | times |\n|---|---:|"));
        for (name, value) in document[key].as_object().into_iter().flatten() {
            line(format_args!("| {name} | {value} |"));
        }
    }
    for broken in document["Violations"].as_array().into_iter().flatten() {
        line(format_args!("\n- **{}**", word(&broken["What"])));
        for before in broken["Before"].as_array().into_iter().flatten() {
            line(format_args!("  - {}", word(before)));
        }
    }
    text
}

/// `LongestRoundMs` as people write it.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    let mut before_was_small = false;
    for letter in name.chars() {
        if letter.is_uppercase() && before_was_small {
            words.push(' ');
            words.extend(letter.to_lowercase());
        } else {
            words.push(letter);
        }
        before_was_small = letter.is_lowercase();
    }
    words.replace(" mi b", " MiB")
}
