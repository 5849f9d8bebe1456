//! What people and programs are shown.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::{Counts, Interval, Latency, Played, share};
use super::names::Way;
use super::options::Options;

/// What came of a load.
pub struct Outcome {
    pub total: Interval,
    /// How long data was sent.
    pub lasted: Duration,
    /// What was seen over time.
    pub series: Vec<Point>,
    /// What the gateway in this process did: packets received, busy nanoseconds.
    pub gateway: Option<(u64, f64)>,
}

/// A time's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its end, in seconds from the load's beginning.
    pub at: f64,
    /// How long it was, in seconds.
    pub lasted: f64,
    pub counts: Counts,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

impl Point {
    pub fn new(interval: &Interval, at: f64, lasted: f64) -> Point {
        let whole = Interval::both_ways(&interval.latencies.whole);
        Point {
            at,
            lasted,
            counts: interval.counts.clone(),
            p50_us: microseconds(whole.quantile(0.5)),
            p99_us: microseconds(whole.quantile(0.99)),
            max_us: microseconds(whole.max()),
        }
    }

    pub fn sent_per_second(&self) -> f64 {
        per_second(self.counts.sent.iter().sum(), self.lasted)
    }

    pub fn arrived_per_second(&self) -> f64 {
        per_second(self.counts.arrived.iter().sum(), self.lasted)
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
pub fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
pub fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are not negative")]
pub fn rounded(number: f64) -> u64 {
    number.round() as u64
}

/// The head of the progress table.
pub const PROGRESS_HEAD: &str =
    "     s   flows     sent/s  arrived/s  missing  p50 us  p99 us   max us    rst";

/// A line of it; `missing` counts from the beginning, what is on its way included.
pub fn progress(point: &Point, flows: u32, missing: u64) -> String {
    format!(
        "{:>6.1} {:>7} {:>10} {:>10} {:>8} {:>7} {:>7} {:>8} {:>6}",
        point.at,
        flows,
        grouped(rounded(point.sent_per_second())),
        grouped(rounded(point.arrived_per_second())),
        missing,
        digits(point.p50_us),
        digits(point.p99_us),
        digits(point.max_us),
        point.counts.resets.iter().sum::<u64>(),
    )
}

/// A number of microseconds, to a tenth where that says something.
fn digits(microseconds: f64) -> String {
    if microseconds < 10_000.0 { format!("{microseconds:.1}") } else { format!("{microseconds:.0}") }
}

/// The quantiles that are shown, and their names.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// The summary, for people.
pub fn summary(options: &Options, outcome: &Outcome) -> String {
    let Outcome { total, lasted, gateway, .. } = outcome;
    let (counts, seconds) = (&total.counts, lasted.as_secs_f64());
    let mut text = format!(
        "{seconds:.1} s, {} flows, {}, {} targets, IPv6 {:.0} %\n\n",
        grouped(options.flows.into()),
        options.size.name,
        options.targets.0.len(),
        options.ipv6 * 100.0,
    );
    let played = options.played();
    text += &packets(played, counts);

    let rate = |what: [u64; 2]| grouped(rounded(per_second(what.iter().sum(), seconds)));
    let gigabits = per_second(counts.arrived_bytes.iter().sum(), seconds) * 8.0 / 1e9;
    text += &format!(
        "\n  {} packets a second sent, {} arrived, {gigabits:.2} Gbit/s of frames\n",
        rate(counts.sent),
        rate(counts.arrived)
    );
    text += &format!(
        "  lost {} of {} ({:.4} %); violations: {}\n",
        grouped(played.lost(counts)),
        grouped(counts.sent.iter().sum()),
        played.loss(counts) * 100.0,
        violations(counts)
    );
    text += &format!(
        "  flows opened {}, closed {}, SYNs and FINs sent again {}\n",
        grouped(counts.opened),
        grouped(counts.closed),
        grouped(counts.retried)
    );
    if counts.flood_sent > 0 {
        text += &format!(
            "  SYN flood: {} sent, {} came to an appliance, {} to a server\n",
            grouped(counts.flood_sent),
            grouped(counts.flood_at_appliance),
            grouped(counts.flood_arrived)
        );
    }
    if counts.others > 0 {
        text += &format!("  packets of others at the appliances: {}\n", grouped(counts.others));
    }
    if counts.cookie_changed > 0 {
        text += &format!("  packets under another cookie than the flow's last: {}\n", counts.cookie_changed);
    }
    if let Some((packets, busy)) = gateway
        && *packets > 0
    {
        #[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
        let each = busy / *packets as f64;
        text += &format!("  the gateway: {} packets received, {each:.0} ns each\n", grouped(*packets));
    }
    text += &shares(total);
    text += &latencies(total);
    text
}

/// What became of the packets, each way; `-` where somebody else would have to tell.
fn packets(played: Played, counts: &Counts) -> String {
    let known = |counts: [u64; 2]| counts.map(Some);
    let rows = [
        ("data packets sent", known(counts.sent)),
        ("  lost before the appliance", Way::BOTH.map(|way| played.lost_to_appliance(counts, way))),
        ("  swallowed by the appliance", counts.swallowed.map(|count| played.targets.then_some(count))),
        ("  lost behind the appliance", Way::BOTH.map(|way| played.lost_from_appliance(counts, way))),
        ("  arrived", known(counts.arrived)),
        ("  out of order", known(counts.out_of_order)),
        ("resets that came", known(counts.resets)),
    ];
    let mut text = String::new();
    for (name, counts) in rows {
        let [up, down] = counts.map(|count| count.map_or("-".to_owned(), grouped));
        text += &format!("  {name:<28} {up:>15} {down:>15}\n");
    }
    text + &format!("  {:<28} {:>15} {:>15}\n", "", "(to the server)", "(to the client)")
}

fn violations(counts: &Counts) -> String {
    if counts.violations() == 0 {
        return "none".to_owned();
    }
    let kinds = [
        (counts.out_of_order.iter().sum::<u64>(), "out of order"),
        (counts.moved - counts.moved_off_dead, "moved to another target"),
        (counts.strangers, "of no flow of ours"),
        (counts.damaged, "damaged"),
        (counts.bad_tunnel, "not as a tunnel has to be"),
    ];
    let seen = kinds.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    seen.collect::<Vec<_>>().join(", ")
}

/// How even the targets' shares are.
fn shares(total: &Interval) -> String {
    let all: u64 = total.by_target.iter().sum();
    let (Some(least), Some(most @ 1..)) = (total.by_target.iter().min(), total.by_target.iter().max()) else {
        return String::new();
    };
    format!(
        "  a target's share of the packets: {:.1} % to {:.1} %\n",
        share(*least, all) * 100.0,
        share(*most, all) * 100.0
    )
}

fn latencies(total: &Interval) -> String {
    let mut text = format!("\n  {:<24}", "latency, microseconds");
    for (name, _) in QUANTILES {
        text += &format!(" {name:>9}");
    }
    text += &format!(" {:>9}\n", "max");
    for (name, of) in legs(total) {
        text += &format!("  {name:<24}");
        if of.count() == 0 {
            text += "         -\n";
            continue;
        }
        for (_, share) in QUANTILES {
            text += &format!(" {:>9.1}", microseconds(of.quantile(share)));
        }
        text += &format!(" {:>9.1}\n", microseconds(of.max()));
    }
    text
}

/// Each latency with its name.
fn legs(total: &Interval) -> [(&'static str, &Latency); 6] {
    let Interval { latencies, .. } = total;
    [
        ("client to server", &latencies.whole[0]),
        ("  client to appliance", &latencies.to_appliance[0]),
        ("  appliance to server", &latencies.from_appliance[0]),
        ("server to client", &latencies.whole[1]),
        ("  server to appliance", &latencies.to_appliance[1]),
        ("  appliance to client", &latencies.from_appliance[1]),
    ]
}

/// The summary, for programs.
pub fn json(options: &Options, outcome: &Outcome) -> Value {
    let Outcome { total, lasted, series, gateway } = outcome;
    let (counts, seconds) = (&total.counts, lasted.as_secs_f64());
    let played = options.played();
    let known = |[up, down]: [Option<u64>; 2]| json!({"up": up, "down": down});
    let pair = |counts: [u64; 2]| known(counts.map(Some));
    let latency = |of: &Latency| {
        let mut values = serde_json::Map::new();
        for (name, share) in QUANTILES {
            values.insert(name.to_owned(), json!(of.quantile(share)));
        }
        values.insert("max".to_owned(), json!(of.max()));
        values.insert("count".to_owned(), json!(of.count()));
        Value::Object(values)
    };
    let latencies: serde_json::Map<String, Value> = legs(total)
        .into_iter()
        .map(|(name, of)| (name.trim().replace(' ', "_") + "_ns", latency(of)))
        .collect();
    let points: Vec<Value> = series
        .iter()
        .map(|point| {
            json!({
                "second": point.at, "sent_per_second": point.sent_per_second(),
                "arrived_per_second": point.arrived_per_second(), "resets": pair(point.counts.resets),
                "p50_us": point.p50_us, "p99_us": point.p99_us, "max_us": point.max_us,
            })
        })
        .collect();
    json!({
        "seconds": seconds,
        "flows": options.flows, "size": options.size.name, "targets": options.targets.0,
        "sent": pair(counts.sent), "sent_bytes": pair(counts.sent_bytes),
        "at_appliance": pair(counts.at_appliance), "swallowed": pair(counts.swallowed),
        "returned": pair(counts.returned), "arrived": pair(counts.arrived),
        "arrived_bytes": pair(counts.arrived_bytes),
        "lost_to_appliance": known(Way::BOTH.map(|way| played.lost_to_appliance(counts, way))),
        "lost_from_appliance": known(Way::BOTH.map(|way| played.lost_from_appliance(counts, way))),
        "lost": played.lost(counts), "loss": played.loss(counts),
        "sent_per_second": per_second(counts.sent.iter().sum(), seconds),
        "arrived_per_second": per_second(counts.arrived.iter().sum(), seconds),
        "resets": pair(counts.resets),
        "opened": counts.opened, "closed": counts.closed, "retried": counts.retried,
        "flood": {
            "sent": counts.flood_sent, "at_appliance": counts.flood_at_appliance, "arrived": counts.flood_arrived,
        },
        "violations": {
            "out_of_order": pair(counts.out_of_order), "moved": counts.moved,
            "moved_off_dead": counts.moved_off_dead, "strangers": counts.strangers,
            "damaged": counts.damaged, "bad_tunnel": counts.bad_tunnel, "sum": counts.violations(),
        },
        "others": counts.others, "cookie_changed": counts.cookie_changed, "late": pair(counts.late),
        "health_checks": total.checks_by_target.iter().sum::<u64>(), "stalled": counts.stalled,
        "by_target": total.by_target,
        "latency": latencies,
        "gateway": gateway.map(|(packets, busy_ns)| json!({"received": packets, "busy_ns": busy_ns})),
        "series": points,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn thousands_are_apart() {
        let numbers = [0, 999, 1000, 1_234_567];
        assert_eq!(numbers.map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_progress_table_fits_a_terminal() {
        let mut interval = Interval::new(1);
        interval.counts.sent = [9_999_999, 9_999_999];
        interval.latencies.whole[0].record(999_999_999);
        let line = progress(&Point::new(&interval, 9999.9, 1.0), 9_999_999, 99_999_999);
        assert!(line.len() <= 80, "{}", line.len());
        assert!(PROGRESS_HEAD.len() <= 80);
    }

    #[test]
    fn summary_and_json_say_what_was_lost_and_what_was_wrong() {
        let options = Options::parse_from(["flowgate-load", "--self"]);
        let mut total = Interval::new(2);
        total.counts.sent = [2000, 0];
        total.counts.at_appliance = [1990, 0];
        total.counts.returned = [1990, 0];
        total.counts.arrived = [1990, 0];
        total.counts.damaged = 3;
        total.by_target = vec![1000, 990];
        let outcome = Outcome { total, lasted: Duration::from_secs(2), series: Vec::new(), gateway: None };
        let text = summary(&options, &outcome);
        assert!(text.contains("lost 10 of 2,000 (0.5000 %); violations: 3 damaged"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let json = json(&options, &outcome);
        assert_eq!(json["lost_to_appliance"]["up"], 10);
        assert_eq!(json["violations"]["sum"], 3);
    }
}
