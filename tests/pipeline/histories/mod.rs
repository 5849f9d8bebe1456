//! Random histories, put to the whole pipeline and to a second, plain implementation of sections 4 to 6 of the
//! rules (`model.rs`), which must agree on every packet, every answer and every entry of the flow tables. A
//! history that they disagree on is shrunk and printed as a script.
//!
//! `FLOWGATE_HISTORIES=100000` plays so many instead of some thousands; `FLOWGATE_FIRST_HISTORY` says by
//! which number to begin.

mod both;
mod generate;
mod model;
mod packets;
mod script;
mod shrink;

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use both::{Pool, Tally, play, play_in};
use model::Flaw;
use script::History;

/// Histories that are played where nothing else is said: some seconds' worth.
const USUAL: u64 = 3000;

fn number_from(variable: &str, otherwise: u64) -> u64 {
    let Some(text) = env::var_os(variable) else { return otherwise };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{variable} is no number: {}", text.display()))
}

/// A disagreement: the history that shows it, and on what.
struct Disagreement {
    number: u64,
    history: History,
    why: String,
}

/// Plays histories by their numbers on as many threads as there are CPUs; the first disagreement that one
/// of them finds.
fn explore(numbers: std::ops::Range<u64>, flaw: Option<Flaw>) -> (Tally, Option<Disagreement>) {
    let (next, found) = (AtomicU64::new(numbers.start), AtomicBool::new(false));
    let explorer = || {
        let (mut tally, mut disagreement, mut pool) = (Tally::new(), None, Pool::default());
        while !found.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            let history = generate::history(number);
            if let Err(why) = play_in(&mut pool, &history, flaw, &mut tally) {
                found.store(true, Ordering::Relaxed);
                disagreement = Some(Disagreement { number, history, why });
            }
        }
        (tally, disagreement)
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let explorers: Vec<_> = (0..threads).map(|_| scope.spawn(explorer)).collect();
        let mut all = (Tally::new(), None);
        for each in explorers {
            let (tally, disagreement) = each.join().expect("an explorer catches panics");
            tally.into_iter().for_each(|(kind, times)| *all.0.entry(kind).or_default() += times);
            all.1 = all.1.or(disagreement);
        }
        all
    })
}

/// A failing history made short, and what to tell of it.
fn report(disagreement: &Disagreement, flaw: Option<Flaw>) -> (History, String) {
    let Disagreement { number, history, why } = disagreement;
    let fails = |history: &History| play(history, flaw, &mut Tally::new());
    if fails(history).is_ok() {
        let report =
            format!("history {number}: {why}\nonly in a gateway that played others before:\n{history}");
        return (history.clone(), report);
    }
    let short = shrink::shrink(history, |history| fails(history).is_err());
    let of_short = fails(&short).err().unwrap_or_default();
    let script: String = short.to_string().lines().map(|line| format!("        {line}\n")).collect();
    let report = format!(
        "history {number} of {} steps: {why}\n\
         of these, {} are enough: {of_short}\n\n    replay(\n        \"\n{script}        \",\n    );\n",
        history.steps.len(),
        short.steps.len(),
    );
    (short, report)
}

/// Plays a script, as a failing history is printed.
fn replay(script: &str) {
    let history = History::parse(script).unwrap_or_else(|error| panic!("{error}"));
    if let Err(why) = play(&history, None, &mut Tally::new()) {
        panic!("{why}");
    }
}

// F-1 to F-3, F-5 to F-12, F-14, T-1 to T-7, R-1 to, W-3 to W-6, O-4, C-1
#[test]
fn every_history_goes_as_the_model_says() {
    let first = number_from("FLOWGATE_FIRST_HISTORY", 0);
    let count = number_from("FLOWGATE_HISTORIES", USUAL);
    let (tally, disagreement) = explore(first..first + count, None);
    if let Some(disagreement) = disagreement {
        panic!("{}", report(&disagreement, None).1);
    }
    // The histories have been everywhere, or the test says less than it seems to.
    let kinds = [
        "begins",
        "begins in another's room",
        "dropped: ExpiredFlow",
        "dropped: NoTarget",
        "dropped: NotAnswerable",
        "dropped: UnknownFlow",
        "forged",
        "goes on",
        "goes on: a reset is held back",
        "goes without state",
        "moves",
        "reset: BothEnds",
        "reset: Deregistration",
        "reset: Idle",
        "reset: NoFlow",
        "reset: Unhealthy",
        "returned: NotFromTarget",
        "returned: Stale",
        "returned: To(Client)",
        "returned: To(Server)",
        "swept out",
        "told unasked",
    ];
    // So has every step that a decision may take, but for those of fragments and of the rate (`guards.rs`).
    let reasons = [
        "NoFlow",
        "Over(Closed)",
        "Over(HalfOpen)",
        "Over(OtherIdle)",
        "Over(Owing)",
        "BeginsOther",
        "BeginsTcp",
        "Adopted",
        "Overflowed",
        "Evicted",
        "ResetOfNoFlow",
        "UnknownFlowReset",
        "UnknownFlowResetOnIdle",
        "UnknownFlowDropped",
        "IdledOut",
        "SynOnIdledOut",
        "IdledOutReset",
        "IdledOutByReset",
        "IdledOutDropped",
        "Owing",
        "SynOnOwing",
        "WasTold",
        "EndedItself",
        "IsTold",
        "Live",
        "SynOnClosed",
        "SynStays",
        "SynReselects",
        "SynHasNowhere",
        "OfTheOneBefore",
        "Moves(Unhealthy)",
        "Moves(Removed)",
        "NobodyToMoveTo",
        "TargetIsIn(Initial)",
        "TargetIsIn(Healthy)",
        "TargetIsIn(Draining)",
        "ResetDue(Unhealthy)",
        "ResetDue(Removed)",
        "ResetsOff(Unhealthy)",
        "ResetsOff(Removed)",
        "MovingWins",
        "Spared",
        "NotTcp",
        "IsReset",
        "Guarded(Hold)",
        "Guarded(MinHealthy)",
    ];
    let reasons = reasons.map(|reason| format!("because {reason}"));
    for kind in kinds.into_iter().chain(reasons.iter().map(String::as_str)) {
        assert!(count < USUAL || tally.contains_key(kind), "no {kind} in {tally:?}");
    }
    eprintln!("{count} histories from number {first} on: {tally:#?}");
}

#[test]
fn a_mistake_in_either_is_found_and_told_by_a_short_script() {
    let flaws =
        [Flaw::ResetsAll, Flaw::ForgetsExpired, Flaw::EvictsYoungest, Flaw::ResetsSyns, Flaw::MixesEndpoints];
    for flaw in flaws {
        let (_, disagreement) = explore(0..2000, Some(flaw));
        let disagreement = disagreement.unwrap_or_else(|| panic!("{flaw:?} is not found"));
        let (short, report) = report(&disagreement, Some(flaw));
        assert!(short.steps.len() <= 8, "{flaw:?}: {report}");
        // What is printed can be pasted: it is the same history, and all is well without the mistake.
        let script = report.rsplit('"').nth(1).expect("a script in quotes");
        assert_eq!(History::parse(script).as_ref(), Ok(&short), "{flaw:?}: {report}");
        assert!(play(&short, Some(flaw), &mut Tally::new()).is_err());
        replay(script);
    }
}

#[test]
fn every_history_is_read_back_from_its_script() {
    for number in 0..500 {
        let history = generate::history(number);
        assert_eq!(History::parse(&history.to_string()), Ok(history));
    }
}
