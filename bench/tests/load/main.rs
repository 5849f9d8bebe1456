//! `flowgate-load` as a user runs it: against a daemon over `net_memif`, and by itself. What must hold is asserted,
//! times are not, as machines that run tests have few cores and other things to do: nobody polls, there are no
//! hugepages, and the rate is a low one.
//!
//! Needs root, for a network namespace of its own, and `flowgated` built beside `flowgate-load`.

mod attacks;
mod gateway;
mod gone;
#[path = "../../../tests/service/threads.rs"]
mod threads;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use gateway::{GENTLE, Gateway, LOAD, said_by, summary};

/// Up and down together.
fn sum(of: &Value) -> u64 {
    ["up", "down"].iter().map(|way| of[way].as_u64().expect("a number")).sum()
}

/// Nothing lost, nothing wrong, all that was asked for sent.
pub fn assert_sound(summary: &Value) {
    let said = serde_json::to_string_pretty(summary).expect("JSON");
    assert_eq!(summary["violations"]["sum"], 0, "{said}");
    for lost in ["lost_to_appliance", "lost_from_appliance", "swallowed", "late", "resets"] {
        assert_eq!(sum(&summary[lost]), 0, "{lost}: {said}");
    }
    assert!(sum(&summary["sent"]) > 3000, "{said}");
    assert_eq!(sum(&summary["arrived"]), sum(&summary["sent"]), "{said}");
    for way in ["client_to_server_ns", "server_to_client_ns"] {
        assert_eq!(summary["latency"][way]["count"].as_u64().map(|count| count > 1500), Some(true), "{said}");
    }
}

#[test]
fn a_daemon_over_memif_carries_a_load_and_tells_flows_of_a_dead_target() {
    let gateway = Gateway::start(&[]);

    // IMIX in both directions and both IP versions, and flows that come and go.
    let plot = gateway.path("plot.svg");
    let load = ["--rate", "3000", "--duration", "2", "--size", "imix", "--ipv6", "0.3", "--new-flows", "50"];
    let (status, seen) =
        gateway.summary_of(&[&load[..], &["--plot", plot.to_str().expect("a plain path")]].concat());
    assert_sound(&seen);
    assert!(status.success(), "{status}");
    assert!(seen["closed"].as_u64() > Some(70), "{}", seen["closed"]);
    assert_eq!(std::fs::read_to_string(plot).map(|svg| svg.starts_with("<svg")).ok(), Some(true));

    // A flood that fills the flow table of 1,024 several times over: no established flow may suffer. The appliances
    // are a thread of their own.
    let load = ["--rate", "3000", "--duration", "2", "--syn-flood", "2000", "--cores", "0,1"];
    let (status, seen) = gateway.summary_of(&load);
    assert_sound(&seen);
    assert!(status.success(), "{status}");
    assert!(seen["flood"]["arrived"].as_u64() > Some(2000), "{}", seen["flood"]);

    // A target dies: its flows are reset, open anew at another target, and no other flow moves. What was sent to it
    // until the checks knew is lost, and the exit code says so.
    let (status, seen) = gateway.summary_of(&["--rate", "3000", "--duration", "5", "--die", "2@1"]);
    assert_eq!(status.code(), Some(1), "loss has an exit code");
    assert_eq!(seen["violations"]["sum"], 0, "{seen}");
    assert!(sum(&seen["resets"]) > 50, "{seen}");
    assert!(sum(&seen["swallowed"]) > 0, "{seen}");
    let series = seen["series"].as_array().expect("points");
    let late = series.iter().filter(|point| point["second"].as_f64() > Some(4.5));
    for point in late.clone() {
        assert_eq!(sum(&point["resets"]), 0, "all flows have found another target: {point}");
    }
    assert!(late.count() > 0);
}

#[test]
fn a_gateway_of_its_own_shows_a_load_without_a_daemon() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("summary.json");
    let mut command = Command::new(LOAD);
    command.args(["--self", "--rate", "3000", "--duration", "2", "--new-flows", "50", "--json"]).arg(&file);
    command.args(GENTLE);
    let (status, said) = said_by(command);
    assert_sound(&summary(&file, &said));
    assert!(status.success(), "{said}");
    assert!(said.contains("violations: none"), "{said}");
}

/// The tables of `docs/load-testing.md` that say how many cores 100 Gbit/s take.
#[test]
fn the_plan_in_the_documentation_is_what_its_script_reckons() {
    const BEGIN: &str = "<!-- cores: ";
    const END: &str = "<!-- cores: end -->";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let document = root.join("docs/load-testing.md");
    let text = std::fs::read_to_string(&document).expect("the documentation");
    let mut made = String::new();
    let mut tables = 0;
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (numbers, after) = after.split_once(" -->\n").expect("the comment ends");
        let (_, after) = after.split_once(END).expect("the table ends");
        let script = root.join("scripts/pktgen/cores-per-100g");
        let table = Command::new(script).args(numbers.split(' ')).output().expect("bash and awk");
        assert!(table.status.success(), "{numbers}");
        let table = String::from_utf8(table.stdout).expect("text");
        made += &format!("{before}{BEGIN}{numbers} -->\n{table}{END}");
        tables += 1;
        rest = after;
    }
    made += rest;
    assert_eq!(tables, 2);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&document, &made).expect("writable");
    } else {
        assert_eq!(made, text, "UPDATE_DOCS=1 cargo test -p flowgate-bench --test load plan");
    }
}
