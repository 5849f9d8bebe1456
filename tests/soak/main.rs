//! Soak: real traffic through a real daemon in the laboratory of `tests/e2e`, faults by chance, and what must hold looked at
//! throughout (`judge`). `scripts/soak` runs it for hours; without more it takes half a minute.
//!
//! `FLOWGATE_SOAK_SECONDS`, `FLOWGATE_SOAK_SEED` and `FLOWGATE_SOAK_OUT` (a folder for the report) are what the script sets,
//! and `FLOWGATE_SOAK_ROUND_MS` the longest time that a round of a worker may take.

mod chance;
mod faults;
mod figures;
mod judge;
#[path = "../e2e/lab/mod.rs"]
#[expect(dead_code, reason = "the rest of it serves the end-to-end tests")]
mod lab;
mod report;
mod soak;
mod traffic;
mod witness;

use std::path::PathBuf;
use std::time::Duration;

use soak::{Soak, Wanted};

/// How long it takes where nothing else is said.
const SECONDS: f64 = 30.0;
/// A round of a worker is far shorter (`docs/performance.md`); but here its CPU is also everybody else's. What it waited for a
/// CPU is left out; a machine that is a guest may be put off without a word.
const ROUND_MS: f64 = 250.0;

fn number(variable: &str) -> Option<f64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

// C-1, F-2, F-4, F-5, F-8, F-11, F-13, R-1, R-2, R-3, R-8, R-9, R-10, T-1, T-4, W-6
#[test]
fn everything_holds_under_traffic_and_faults() {
    let seed = std::env::var("FLOWGATE_SOAK_SEED").ok().map_or_else(
        || u64::try_from(lab::now().as_micros()).expect("a time fits"),
        |text| text.parse().expect("FLOWGATE_SOAK_SEED is a whole number"),
    );
    let wanted = Wanted {
        lasts: Duration::from_secs_f64(number("FLOWGATE_SOAK_SECONDS").unwrap_or(SECONDS)),
        seed,
        longest_round: Duration::from_secs_f64(number("FLOWGATE_SOAK_ROUND_MS").unwrap_or(ROUND_MS) / 1000.0),
    };
    eprintln!("soak: {:.0?}, seed {seed}", wanted.lasts);
    let outcome = Soak::start(wanted.clone()).run();
    let folder = std::env::var_os("FLOWGATE_SOAK_OUT")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak"), PathBuf::from);
    report::write(&folder, &wanted, &outcome).expect("the report's folder is writable");
    eprintln!("soak: the report is in {}", folder.display());
    let told: Vec<&str> = outcome.violations.iter().map(|broken| broken.what.as_str()).collect();
    assert!(told.is_empty(), "{} violations, seed {seed}: {told:#?}", told.len());
    assert!(outcome.flows.packets > 0 && outcome.rests > 0, "nothing went through: {outcome:?}");
}
