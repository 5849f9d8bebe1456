//! The binary `flowgate` on all objects at once, and asking before flows feel a change.

use crate::command_line::{command, printed, refused, shown};
use crate::fake::Daemon;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Output, Stdio};

fn generation(daemon: &Daemon) -> u64 {
    printed(daemon, &["rpc", "export", "--query", "Generation"]).trim().parse().unwrap()
}

#[test]
fn what_is_exported_is_applied_without_a_change_and_differs_in_nothing() {
    let daemon = Daemon::start();
    let file = daemon.folder().join("objects.json");
    std::fs::write(&file, printed(&daemon, &["export"])).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(shown(&daemon, &["diff", "--file", file]), "Nothing would change.\n");
    let applied = shown(&daemon, &["apply", "--file", file]);
    assert_eq!(applied, "Nothing changed; the configuration's generation is 0.\n");
}

#[test]
fn a_document_is_compared_rehearsed_and_applied_in_words() {
    let daemon = Daemon::start();
    let mut document: Value = serde_json::from_str(&printed(&daemon, &["export"])).unwrap();
    document["target_groups"][0]["targets"][0]["weight"] = json!(7);
    document["target_groups"][0]["targets"].as_array_mut().unwrap().remove(1);
    let file = daemon.folder().join("objects.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let file = file.to_str().unwrap();

    let output = command(&daemon.path(), &["diff", "--file", file]).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "there are differences");
    assert!(output.stderr.is_empty());
    let words = String::from_utf8(output.stdout).unwrap();
    assert!(words.contains("target 10.0.0.1 changes: weight from 1 to 7.\n"), "{words}");
    assert!(words.contains("target 10.0.0.2 is deregistered and drains.\n"), "{words}");
    assert!(words.contains("fw            10.0.0.2    125  drained\n"), "{words}");
    assert_eq!(shown(&daemon, &["apply", "--file", file, "--dry-run"]), words);
    assert_eq!(generation(&daemon), 0, "nothing was changed by looking");

    let applied = shown(&daemon, &["apply", "--file", file]);
    assert!(
        applied.contains("weight from 1 to 7.\n") && applied.ends_with("generation is 1.\n"),
        "{applied}"
    );

    // From standard input too.
    let mut applying = command(&daemon.path(), &["apply", "--file", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    applying.stdin.take().unwrap().write_all(document.to_string().as_bytes()).unwrap();
    let Output { status, stdout, .. } = applying.wait_with_output().unwrap();
    assert!(status.success());
    assert!(String::from_utf8(stdout).unwrap().starts_with("Nothing changed"));
}

#[test]
fn a_document_that_cannot_be_is_refused_whole_with_the_place_of_its_fault() {
    let daemon = Daemon::start();
    let file = daemon.folder().join("objects.json");
    let apply = |text: &str| {
        std::fs::write(&file, text).unwrap();
        refused(&daemon.path(), &["apply", "--file", file.to_str().unwrap()])
    };
    let (code, said) = apply(r#"{"version": 1, "target_groups": [{"name": "a"}, {"name": "b", "port": 1}]}"#);
    assert_eq!(code, 1);
    assert!(said.contains("at Document.target_groups[1].port"), "{said}");
    let (code, said) = apply("{");
    assert_eq!(code, 1);
    assert!(said.contains("objects.json cannot be read: EOF"), "{said}");
    assert_eq!(generation(&daemon), 0);
}

#[test]
fn any_change_is_rehearsed_and_nothing_is_made() {
    let daemon = Daemon::start();
    let plan = shown(&daemon, &["drain", "10.0.0.1", "--dry-run"]);
    assert!(plan.starts_with("Target group 'fw': target 10.0.0.1 is deregistered and drains.\n"), "{plan}");
    assert!(plan.contains("125  drained"), "{plan}");
    let waiting = shown(&daemon, &["drain", "10.0.0.1", "--dry-run", "--wait"]);
    assert_eq!(waiting, plan, "there is nothing to wait for");
    let json = printed(&daemon, &["set", "fw", "stickiness.enabled=true", "--dry-run", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["Generation"], json["Differences"].as_array().unwrap().len()), (&json!(0), 1));
    let (code, _) = refused(&daemon.path(), &["set", "fw", "stickiness.enabled=maybe", "--dry-run"]);
    assert_eq!(code, 1, "what would be refused is refused");
    assert_eq!(generation(&daemon), 0);
}

#[test]
fn an_earlier_state_is_found_and_gone_back_to() {
    let daemon = Daemon::start();
    shown(&daemon, &["set", "fw", "stickiness.enabled=true"]);
    shown(&daemon, &["register-targets", "--target-group", "fw", "--targets", "10.0.0.9"]);
    let history = shown(&daemon, &["history"]);
    let generations: Vec<&str> =
        history.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(generations[..2], ["2", "1"], "{history}");
    assert!(history.contains("2 (now)") && history.contains("10.0.0.9 is registered"), "{history}");
    let plan = shown(&daemon, &["rollback", "1", "--dry-run"]);
    assert!(plan.contains("target 10.0.0.9 is deregistered and drains.\n"), "{plan}");
    let rolled = shown(&daemon, &["rollback", "0"]);
    assert!(rolled.contains("'stickiness.enabled' changes from 'true' to 'false'"), "{rolled}");
    let (code, said) = refused(&daemon.path(), &["rollback", "77"]);
    assert_eq!(code, 1);
    assert!(said.contains("Generation 77 is not in the history"), "{said}");
}
