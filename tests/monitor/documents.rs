//! The rules and the dashboard that operators are given.

use flowgate::control::monitor::metrics::{FAMILIES, Kind};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitoring")
}

fn promtool(words: &[&str]) {
    let output = Command::new("promtool").args(words).current_dir(folder()).output();
    let output = output.expect("scripts/setup-packages installs promtool");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "promtool {words:?}: {}{}", said[0], said[1]);
}

#[test]
fn promtool_takes_the_rules_and_their_tests_pass() {
    promtool(&["check", "rules", "flowgate.rules.yml"]);
    promtool(&["test", "rules", "flowgate.rules.test.yml"]);
}

/// The names of series in a text, but for those that the rules record.
fn names(text: &str) -> HashSet<String> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c| !of_name(c));
    words.filter(|word| word.starts_with("flowgate_")).map(str::to_owned).collect()
}

#[test]
fn rules_and_dashboard_speak_of_series_that_there_are() {
    let mut served = HashSet::new();
    for family in FAMILIES.iter().flat_map(|(_, families)| families.iter()) {
        let name = family.name();
        if family.kind() == Kind::Histogram {
            served.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
        }
        served.insert(name);
    }
    for file in ["flowgate.rules.yml", "flowgate.rules.test.yml", "grafana-dashboard.json"] {
        let text = std::fs::read_to_string(folder().join(file)).unwrap();
        let used = names(&text);
        let unknown: Vec<_> = used.difference(&served).collect();
        assert!(!used.is_empty() && unknown.is_empty(), "{file}: {unknown:?}");
    }
}

/// The parts of a text that begin behind `key`, each with the rest of its first line: its name.
fn parts<'a>(text: &'a str, key: &str) -> Vec<(&'a str, &'a str)> {
    let parts = text.split(key).skip(1);
    parts.map(|part| (part.lines().next().unwrap_or_default(), part)).collect()
}

/// The names of the alerts that there are.
fn alerts(rules: &str) -> BTreeSet<&str> {
    let names: BTreeSet<&str> = parts(rules, "- alert: ").into_iter().map(|(name, _)| name).collect();
    assert!(names.len() > 20);
    names
}

#[test]
fn every_alert_was_seen_to_fire() {
    let rules = std::fs::read_to_string(folder().join("flowgate.rules.yml")).unwrap();
    let tests = std::fs::read_to_string(folder().join("flowgate.rules.test.yml")).unwrap();
    // A case without an alert that is expected says that none fires.
    let fires = |(_, case): &(&str, &str)| case.split("- eval_time").next().unwrap().contains("exp_labels");
    let cases = parts(&tests, "alertname: ");
    let seen: BTreeSet<&str> = cases.into_iter().filter(fires).map(|(name, _)| name).collect();
    let unseen: Vec<_> = alerts(&rules).difference(&seen).copied().collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}

#[test]
fn what_to_do_is_said_of_every_alert_and_of_no_other() {
    let rules = std::fs::read_to_string(folder().join("flowgate.rules.yml")).unwrap();
    let document = std::fs::read_to_string(folder().join("../monitoring.md")).unwrap();
    let (_, table) = document.split_once("| if this fires | look at |").expect("a table of alerts");
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let firing =
        rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    assert_eq!(firing.collect::<BTreeSet<_>>(), alerts(&rules));
}

#[test]
fn every_alert_says_how_bad_it_is_and_what_is_the_matter() {
    let text = std::fs::read_to_string(folder().join("flowgate.rules.yml")).unwrap();
    for (name, alert) in parts(&text, "- alert: ") {
        assert!(name.starts_with("Flowgate"), "{name}");
        let severity = alert.split("severity: ").nth(1).and_then(|rest| rest.lines().next());
        assert!(severity.is_some_and(|word| ["critical", "warning", "info"].contains(&word)), "{name}");
        assert!(alert.contains("summary: \""), "{name}");
    }
}
