//! Workers: what they are, and how busy they are at a glance.
//!
//! The glance is the difference of two readings some time apart. What each column means and what to do
//! about it is in `docs/tuning.md`.

#![forbid(unsafe_code)]

use super::Session;
use super::client::{CliError, typed};
use super::table::{Look, float, number, text};
use crate::control::shown::{scaled, span};
use crate::control::socket::methods::node::{DescribeWorkers, Window, Workers};
use crate::control::socket::views::{BurstClass, LongestBurst, WorkerLoad, WorkerView};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// The workers as they are configured.
pub(super) fn all(result: &Workers, look: &Look) -> String {
    let rows = result.workers.iter().map(|worker| {
        [
            number(worker.worker),
            number(worker.core),
            number(worker.flows),
            number(worker.capacity),
            number(worker.generation),
            number(span(worker.heartbeat_age_ms)),
            text(&worker.memory.packets),
            text(&worker.memory.flow_table),
            number(longest(worker.load.longest_burst.as_ref())),
        ]
    });
    let headings = [
        "WORKER",
        "CORE",
        "FLOWS",
        "CAPACITY",
        "GENERATION",
        "HEARTBEAT",
        "PACKETS IN",
        "FLOWS IN",
        "LONGEST",
    ];
    let mut shown = look.table(headings, rows.collect());
    let tables = &result.flow_tables;
    if tables.message.is_empty() {
        // An older daemon's answer.
        return shown;
    }
    let mut told = sentence(&tables.message);
    if let Some(ms) = tables.gap_milliseconds {
        told.push_str(&format!(" Nothing was forwarded for {ms} ms."));
    }
    if tables.adopt_seconds > 0 {
        let seconds = tables.adopt_seconds;
        told.push_str(&format!(" For {seconds} s yet, TCP packets of no flow begin one."));
    }
    shown.push('\n');
    shown.push_str(&look.paragraph("", &told));
    shown
}

/// Begun as sentences are, and ended.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str())
}

/// Shows how busy the workers were for `interval` from now on.
pub(super) fn glance(session: &mut Session, interval: Duration) -> Result<(), CliError> {
    let seconds = interval.as_secs() + u64::from(interval.subsec_nanos() > 0);
    let asked = DescribeWorkers { window_seconds: Window::try_from(seconds).unwrap_or_default() };
    let before: Workers = typed(session.client.call("describe-workers", &asked)?)?;
    std::thread::sleep(interval);
    let after: Workers = typed(session.client.call("describe-workers", &asked)?)?;
    let glances = before.workers.iter().zip(&after.workers).map(|(before, after)| Glance::of(before, after));
    let glances: Vec<Glance> = glances.collect();
    let json = serde_json::to_value(&glances).map_err(|error| CliError::Unreadable(error.to_string()))?;
    session.output.emit(json, |_: &Value, look| shown(&glances, look))
}

/// One worker between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Glance {
    pub(super) worker: u8,
    core: u32,
    pub(super) packets_per_second: f64,
    /// None where there were no packets.
    pub(super) cycles_per_packet: Option<f64>,
    /// Packets in a burst, on average.
    pub(super) burst_fill: Option<f64>,
    /// Of a hundred bursts, how many were full.
    full_percent: Option<f64>,
    pub(super) idle_percent: f64,
    slept_percent: f64,
    handed_out_per_second: f64,
    handed_in_per_second: f64,
    by_hash_per_second: f64,
    by_cookie_per_second: f64,
    stateless_per_second: f64,
    /// Of a hundred places in the flow table, how many are taken.
    pub(super) table_percent: f64,
    longest_burst: Option<LongestBurst>,
}

impl Glance {
    pub(super) fn of(before: &WorkerView, after: &WorkerView) -> Glance {
        let (old, new) = (&before.load, &after.load);
        let grown = |of: fn(&WorkerLoad) -> u64| float(of(new).wrapping_sub(of(old)));
        let cycles = grown(|load| load.cycles).max(1.0);
        let second = cycles / float(new.cycles_per_second.max(1));
        let per_second = |of: fn(&WorkerLoad) -> u64| grown(of) / second;
        let of_cycles = |of: fn(&WorkerLoad) -> u64| 100.0 * grown(of) / cycles;
        let handled = grown(|load| load.received.wrapping_add(load.handed_in));
        let bursts = grown(|load| load.bursts.iter().map(|class| class.count).sum());
        let full = grown(|load| load.bursts.last().map_or(0, |class: &BurstClass| class.count));
        let of = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        Glance {
            worker: after.worker,
            core: after.core,
            packets_per_second: handled / second,
            cycles_per_packet: of(grown(|load| load.busy_cycles), handled),
            burst_fill: of(grown(|load| load.received), bursts),
            full_percent: of(100.0 * full, bursts),
            idle_percent: (100.0 - of_cycles(|load| load.busy_cycles)).max(0.0),
            slept_percent: of_cycles(|load| load.slept_cycles),
            handed_out_per_second: per_second(|load| load.handed_out),
            handed_in_per_second: per_second(|load| load.handed_in),
            by_hash_per_second: per_second(|load| load.look_ups.by_hash),
            by_cookie_per_second: per_second(|load| load.look_ups.by_cookie),
            stateless_per_second: per_second(|load| load.look_ups.stateless),
            table_percent: of(100.0 * float(after.flows), float(after.capacity)).unwrap_or(0.0),
            longest_burst: new.longest_burst,
        }
    }
}

fn shown(glances: &[Glance], look: &Look) -> String {
    let rows = glances.iter().map(|glance| {
        [
            number(glance.worker),
            number(glance.core),
            number(scaled(glance.packets_per_second)),
            number(rounded(glance.cycles_per_packet, 0)),
            number(rounded(glance.burst_fill, 1)),
            number(rounded(glance.full_percent, 0)),
            number(rounded(Some(glance.idle_percent), 1)),
            number(scaled(glance.handed_out_per_second)),
            number(scaled(glance.handed_in_per_second)),
            number(rounded(Some(glance.table_percent), 1)),
            number(longest(glance.longest_burst.as_ref())),
        ]
    });
    let headings = [
        "WORKER",
        "CORE",
        "PACKETS/S",
        "CYCLES/P",
        "BURST",
        "FULL %",
        "IDLE %",
        "OUT/S",
        "IN/S",
        "TABLE %",
        "LONGEST",
    ];
    let table = look.table(headings, rows.collect());
    let sum = |of: fn(&Glance) -> f64| glances.iter().map(of).sum::<f64>();
    let (hash, cookie, stateless) = (
        sum(|glance| glance.by_hash_per_second),
        sum(|glance| glance.by_cookie_per_second),
        sum(|glance| glance.stateless_per_second),
    );
    let look_ups = [hash, cookie, stateless].map(scaled);
    let [hash, cookie, stateless] = look_ups;
    format!("{table}\nLook-ups a second: {hash} by hash, {cookie} by cookie, {stateless} without state.\n")
}

pub(super) fn longest(burst: Option<&LongestBurst>) -> String {
    burst.map_or_else(|| "-".to_owned(), |burst| format!("{:.1} µs", burst.microseconds))
}

pub(super) fn rounded(number: Option<f64>, digits: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use crate::control::socket::views::{LookUps, WorkerMemory};
    use jiff::tz::TimeZone;

    fn view(readings: u64) -> WorkerView {
        let class = |from, count| BurstClass { from, count: count * readings };
        WorkerView {
            worker: 0,
            core: 3,
            flows: 524_288,
            capacity: 1_048_576,
            generation: 1,
            heartbeat_age_ms: 1,
            memory: WorkerMemory { packets: "2 MiB".to_owned(), flow_table: "1 GiB".to_owned() },
            load: WorkerLoad {
                // Half a second at 2 GHz.
                cycles: u64::MAX / 2 + readings * 1_000_000_000,
                cycles_per_second: 2_000_000_000,
                busy_cycles: readings * 250_000_000,
                slept_cycles: readings * 500_000_000,
                received: readings * 1_000_000,
                handed_out: readings * 50,
                handed_in: readings * 250_000,
                bursts: vec![class(1, 10_000), class(16, 20_000), class(32, 10_000)],
                look_ups: LookUps {
                    by_hash: readings * 700_000,
                    by_cookie: readings * 550_000,
                    stateless: 0,
                },
                longest_burst: Some(LongestBurst { microseconds: 17.25, at: Timestamp::from_unix_ms(0) }),
                ..WorkerLoad::default()
            },
        }
    }

    #[test]
    fn two_readings_make_a_line_that_says_it_all() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let expected = "\
WORKER  CORE  PACKETS/S  CYCLES/P  BURST  FULL %  IDLE %  OUT/S  IN/S  TABLE %  LONGEST
     0     3      2.50M       200   25.0      25    75.0    100  500k     50.0  17.2 µs

Look-ups a second: 1.40M by hash, 1.10M by cookie, 0 without state.
";
        assert_eq!(shown(&[Glance::of(&view(1), &view(2))], &look), expected);
    }

    #[test]
    fn an_idle_worker_has_no_figures_of_packets() {
        let (before, mut after) = (view(1), view(1));
        after.load.cycles += 1_000_000_000;
        let glance = Glance::of(&before, &after);
        assert_eq!((glance.cycles_per_packet, glance.burst_fill, glance.full_percent), (None, None, None));
        assert!((glance.idle_percent - 100.0).abs() < 1e-9 && glance.packets_per_second < 1e-9);
        // Two readings at one moment are no rate.
        assert!(Glance::of(&before, &before).packets_per_second < 1e-9);
    }
}
