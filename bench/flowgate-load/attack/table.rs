//! What came of attacks, as a table for people (Markdown) and as JSON.

use serde_json::{Value, json};

use super::rounds::{Rounds, Row};
use crate::measure::{Interval, Latency, Played};
use crate::options::Options;
use crate::report::{grouped, microseconds, per_second, rounded};

const HEAD: &str = "\
| attack | packets/s | counted as | lost | not taken | p50 µs | p99 µs | p99.9 µs | max µs |
|---|---|---|---|---|---|---|---|---|
";

/// The quantiles that are shown.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// The table. What has an arrow is without the attack, and with it.
pub fn table(options: &Options, rows: &[Row]) -> String {
    let mut text = format!(
        "{} established flows{}, {} packets a second, {}; {} rounds of {:.1} s without each attack and with it, in turn\n\n{HEAD}",
        grouped(options.flows.into()),
        if options.ipv6 > 0.0 {
            format!(", {:.0} % of them and of the attack over IPv6", options.ipv6 * 100.0)
        } else {
            String::new()
        },
        options.rate.map_or("as many as can be".to_owned(), grouped),
        options.size.name,
        options.rounds,
        options.duration.as_secs_f64(),
    );
    for row in rows {
        text += &line(row);
    }
    text
}

fn line(row: &Row) -> String {
    let counts = &row.with.total.counts;
    let rate = match &row.deeds {
        Some(deeds) => format!("{} clients", grouped(deeds.connections)),
        None => grouped(rounded(per_second(counts.attack_sent, row.with.lasted.as_secs_f64()))),
    };
    let both = |of: &dyn Fn(&Rounds) -> String| format!("{} → {}", of(&row.without), of(&row.with));
    let lost = both(&|rounds| grouped(Played::ALL.lost(&rounds.total.counts)));
    let left_out = both(&|rounds| grouped(rounds.total.counts.left_out.iter().sum()));
    let mut line = format!("| {} | {rate} | {} | {lost} | {left_out} |", row.kind.name(), counted(row));
    for share in QUANTILES {
        line += &format!(" {} |", both(&|rounds| shown(whole(&rounds.total).quantile(share))));
    }
    line + &format!(" {} |\n", both(&|rounds| shown(whole(&rounds.total).max())))
}

fn whole(total: &Interval) -> Latency {
    Interval::both_ways(&total.latencies.whole)
}

fn shown(nanoseconds: u64) -> String {
    let microseconds = microseconds(nanoseconds);
    if microseconds < 100.0 { format!("{microseconds:.1}") } else { format!("{microseconds:.0}") }
}

/// What the gateway counted the attack as, and what came of it besides.
fn counted(row: &Row) -> String {
    let counts = &row.with.total.counts;
    let mut parts: Vec<String> = Vec::new();
    let mut ends = row.with.of_attack();
    ends.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    parts.extend(ends.iter().map(|(name, count)| format!("`{name}` {}", grouped(*count))));
    let other = |name: &str| row.with.counted.others.get(name).copied().unwrap_or(0);
    for (name, said) in [("EvictedFlowCount", "flows pushed out"), ("StatelessPackets", "without state")] {
        if other(name) > 0 {
            parts.push(format!("{} {said}", grouped(other(name))));
        }
    }
    if let Some(each) = counts.attack_answer_bytes.checked_div(counts.attack_answers) {
        parts.push(format!("{} answers of {each} bytes", grouped(counts.attack_answers)));
    }
    if counts.attack_refused > 0 {
        parts.push(format!("{} more that the port did not take", grouped(counts.attack_refused)));
    }
    if let Some(deeds) = &row.deeds {
        let at = |share: usize| {
            deeds.honest.get((deeds.honest.len() * share / 100).min(deeds.honest.len().saturating_sub(1)))
        };
        let shown = |at: Option<&std::time::Duration>| {
            at.map_or("-".to_owned(), |took| format!("{:.1} ms", took.as_secs_f64() * 1e3))
        };
        parts.push(format!(
            "{} thrown out; {} honest requests answered, half within {}, all within {}",
            grouped(deeds.ended),
            grouped(deeds.honest.len() as u64),
            shown(at(50)),
            shown(deeds.honest.last()),
        ));
    }
    if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
}

/// The same for programs, with all complaints.
pub fn json(options: &Options, rows: &[Row], complaints: &[String]) -> Value {
    let rounds = |rounds: &Rounds| {
        let counts = &rounds.total.counts;
        let whole = whole(&rounds.total);
        json!({
            "seconds": rounds.lasted.as_secs_f64(),
            "sent": counts.sent.iter().sum::<u64>(), "arrived": counts.arrived.iter().sum::<u64>(),
            "lost": Played::ALL.lost(counts), "not_taken": counts.left_out.iter().sum::<u64>(),
            "resets": counts.resets.iter().sum::<u64>(), "violations": counts.violations(),
            "latency_ns": {
                "p50": whole.quantile(0.5), "p99": whole.quantile(0.99), "p999": whole.quantile(0.999),
                "max": whole.max(),
            },
            "attack": {
                "sent": counts.attack_sent, "bytes": counts.attack_bytes, "not_taken": counts.attack_refused,
                "at_appliance": counts.attack_at_appliance, "arrived": counts.attack_arrived,
                "answers": counts.attack_answers, "answer_bytes": counts.attack_answer_bytes,
            },
            "counted": rounds.of_attack().into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "counters": rounds.counted.others, "flows": rounds.counted.flows,
            "received": rounds.counted.received, "busy_cycles": rounds.counted.busy_cycles,
        })
    };
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let deeds = row.deeds.as_ref().map(|deeds| {
                let micros = |at: Option<&std::time::Duration>| at.map(std::time::Duration::as_micros);
                json!({
                    "connections": deeds.connections, "thrown_out": deeds.ended,
                    "honest": deeds.honest.len(), "unanswered": deeds.unanswered,
                    "honest_us": {
                        "p50": micros(deeds.honest.get(deeds.honest.len() / 2)), "max": micros(deeds.honest.last()),
                    },
                })
            });
            json!({
                "attack": row.kind.name(), "without": rounds(&row.without), "with": rounds(&row.with), "clients": deeds,
            })
        })
        .collect();
    json!({"flows": options.flows, "rate": options.rate, "rounds": options.rounds, "attacks": rows, "complaints": complaints})
}
