//! What a scrape says, and that Prometheus's own tools take it.

use crate::served::{Served, get};
use flowgate::control::monitor::metrics::{FAMILIES, Family, Kind};
use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn all() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().flat_map(|(_, families)| families.iter())
}

/// The samples of a text: name, labels as they are written, value.
fn samples(text: &str) -> Vec<(&str, &str, f64)> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let (name, labels) = series
                .split_once('{')
                .map_or((series, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
            (name, labels, value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

/// Labels in one order, and bounds of classes as one number: `1` of the text format is `1.0` of OpenMetrics.
fn sorted(labels: &str) -> Vec<String> {
    let labels = labels.split("\",").filter(|label| !label.is_empty());
    let mut labels: Vec<String> = labels
        .map(|label| match label.trim_end_matches('"').strip_prefix("le=\"") {
            Some(bound) => format!("le={}", bound.parse::<f64>().unwrap_or_else(|_| panic!("{label}"))),
            None => label.trim_end_matches('"').to_owned(),
        })
        .collect();
    labels.sort();
    labels
}

#[test]
fn every_family_is_served_with_the_labels_that_it_says() {
    let served = Served::start();
    let answer = served.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(
        answer.head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
        "{}",
        answer.head
    );
    let samples = samples(&answer.body);
    let series: HashSet<_> = samples.iter().map(|(name, labels, _)| (*name, *labels)).collect();
    assert_eq!(series.len(), samples.len(), "no series comes twice");
    for family in all() {
        let name = family.name();
        let of_kind = if family.kind() == Kind::Histogram { format!("{name}_count") } else { name.clone() };
        let own: Vec<_> = samples.iter().filter(|(name, _, _)| *name == of_kind).collect();
        assert!(!own.is_empty(), "no {of_kind}");
        for (_, labels, value) in own {
            let keys: Vec<_> = labels
                .split("\",")
                .filter_map(|label| Some(label.split_once('=')?.0.trim_start_matches(',')))
                .collect();
            assert_eq!(keys, family.labels(), "{name}");
            assert!(value.is_finite() && *value >= 0.0, "{name}{{{labels}}} {value}");
        }
    }
    let value = |series: &str| {
        let line = answer.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series}")).parse::<f64>().unwrap()
    };
    assert_eq!(value("flowgate_ready"), 1.0);
    let target = r#"{load_balancer="inspection",target_group="firewalls",availability_zone="eu-central-1a",target="10.100.0.2""#;
    assert_eq!(
        value(&format!("flowgate_target_processed_bytes_total{target},direction=\"from_target\"}}")),
        2_697_000_000.0
    );
    assert_eq!(value(&format!("flowgate_target_health_state{target},state=\"healthy\",reason=\"\"}}")), 1.0);
    // Of the failover record of the same target.
    let last = format!("{target},cause=\"unhealthy\"");
    for (series, expected) in [
        ("id{}", 44.0),
        ("timestamp_seconds{}", 1_795_985_257.007),
        ("open{}", 1.0),
        ("flows{,outcome=\"reset\"}", 114.0),
        ("flows{,outcome=\"moved\"}", 3.0),
        ("flows{,outcome=\"ended\"}", 2.0),
        ("flows{,outcome=\"left\"}", 2.0),
        ("tcp_resets{}", 228.0),
        ("phase_seconds{,phase=\"first_failure_to_decision\"}", 0.1003),
        ("phase_seconds{,phase=\"decision_to_applied\"}", 0.000_018),
        ("phase_seconds{,phase=\"first_to_last_reset\"}", 2.982_75),
    ] {
        let series = format!("flowgate_target_failover_{}", series.replacen('{', &last, 1));
        assert_eq!(value(&series), expected, "{series}");
    }
    assert!(!answer.body.contains("decision_to_recovery"), "a phase that is not over has no series");
    assert_eq!(value(r#"flowgate_worker_burst_packets_bucket{worker="0",le="1"}"#), 1.0);
    assert_eq!(value(r#"flowgate_worker_burst_packets_bucket{worker="0",le="63"}"#), 1.0);
    assert_eq!(value(r#"flowgate_worker_burst_packets_bucket{worker="0",le="+Inf"}"#), 2.0);
    assert_eq!(value(r#"flowgate_worker_active_flows{worker="1"}"#), 4.0);
    assert_eq!(value(r#"flowgate_worker_ring_packets{worker="0",ring="handed_in"}"#), 3.0);
    assert_eq!(value(r#"flowgate_worker_ring_peak_packets{worker="1",ring="to_host"}"#), 700.0);
    assert_eq!(value(r#"flowgate_worker_ring_capacity_packets{worker="1",ring="from_host"}"#), 1024.0);
    assert_eq!(value(r#"flowgate_worker_largest_burst_packets{worker="0"}"#), 64.0);
    assert_eq!(value(r#"flowgate_worker_peak_packets_per_second{worker="1"}"#), 4500.0);
}

#[test]
fn openmetrics_says_the_same_and_ends_as_it_has_to() {
    let served = Served::start();
    let text = served.get("/metrics").body;
    let answer = served.ask(&get("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n"));
    assert!(
        answer.head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{}",
        answer.head
    );
    assert!(answer.body.ends_with("# EOF\n"), "{:?}", answer.body.lines().last());
    let by_series = |text: &str| -> HashMap<String, f64> {
        let of_each = samples(text).into_iter();
        of_each.map(|(name, labels, value)| (format!("{name}{:?}", sorted(labels)), value)).collect()
    };
    for text in [&text, &answer.body] {
        let last_of_each =
            samples(text).iter().filter(|(_, labels, _)| labels.contains("le=\"+Inf\"")).count();
        let histograms = samples(text).iter().filter(|(name, _, _)| name.ends_with("_count")).count();
        assert!(last_of_each > 0 && last_of_each == histograms, "every histogram has its last class, once");
    }
    let (of_text, of_open) = (by_series(&text), by_series(&answer.body));
    let only = |these: &HashMap<String, f64>, others: &HashMap<String, f64>| -> Vec<String> {
        these.keys().filter(|series| !others.contains_key(*series)).cloned().collect()
    };
    assert_eq!((only(&of_text, &of_open), only(&of_open, &of_text)), (vec![], vec![]));
    // The endpoint's own scrapes are one more.
    let differ: Vec<_> =
        of_text.iter().filter(|(series, value)| of_open.get(*series) != Some(value)).collect();
    assert!(
        differ.iter().all(|(series, _)| series.starts_with("flowgate_monitor_scrapes_total")),
        "{differ:?}"
    );
}

#[test]
fn promtool_has_nothing_to_say_against_a_scrape() {
    let served = Served::start();
    let text = served.get("/metrics").body;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("scripts/setup-packages installs promtool");
    promtool.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = promtool.wait_with_output().expect("it ends");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
