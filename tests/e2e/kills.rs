//! The daemon is killed while changes are made over its socket, again and again over one state directory:
//! what was answered is there after the restart, whole, and so is what was before it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::traffic::PATIENCE;
use crate::lab::{Lab, wait_for};

/// How often it is killed, unless the environment says otherwise (nightly).
const KILLS: u64 = 4;
const KILLS_ASKED_FOR: &str = "FLOWGATE_DAEMON_KILLS";

/// As many targets as make a state that takes a moment to write.
const TARGETS: u32 = 200;

/// Every target has this weight at `generation`.
fn weight_of(generation: u64) -> u64 {
    generation % 1000 + 1
}

/// Changes every target, once for each generation after `generation`, until the daemon is gone; each that was answered is
/// noted in `noted`. The last generation that was answered.
fn change_until_it_dies(socket: &Path, mut generation: u64, noted: &AtomicU64) -> u64 {
    let mut stream = UnixStream::connect(socket).expect("the daemon listens");
    let mut answers = BufReader::new(stream.try_clone().expect("a socket can be cloned")).lines();
    // Whatever goes wrong from here on is the daemon's death, but for an answer that is none.
    let mut answer = || answers.next().and_then(Result::ok);
    if answer().is_none() {
        return generation;
    }
    loop {
        let weight = weight_of(generation + 1);
        let address = |number| Ipv4Addr::from(0x0afa_0000_u32 + number);
        let targets: Vec<Value> =
            (1..=TARGETS).map(|number| json!({"Id": address(number), "Weight": weight})).collect();
        let params = json!({"TargetGroupArn": "spare", "Targets": targets, "IfGeneration": generation});
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": "register-targets", "params": params});
        if stream.write_all(format!("{line}\n").as_bytes()).is_err() {
            return generation;
        }
        let Some(answer) = answer() else { return generation };
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        generation += 1;
        noted.store(generation, Ordering::Relaxed);
        assert_eq!(answer["result"]["Generation"], generation, "{answer}");
    }
}

#[test]
fn whatever_was_answered_is_there_after_the_daemon_was_killed() {
    let asked = std::env::var(KILLS_ASKED_FOR).ok();
    let kills = asked.map_or(KILLS, |kills| kills.parse().expect("a number"));
    let mut lab = Lab::started(1, Attributes::default());
    let made = lab.gateway().rpc.must(
        "create-target-group",
        json!({"Name": "spare", "Protocol": "GENEVE", "Port": 6081, "HealthCheckProtocol": "TCP"}),
    );
    let mut generation = made["Generation"].as_u64().expect("a number");
    let first = generation;
    for kill in 0..kills {
        let socket = lab.path("flowgated.sock");
        let noted = Arc::new(AtomicU64::new(generation));
        let client = {
            let noted = Arc::clone(&noted);
            thread::spawn(move || change_until_it_dies(&socket, generation, &noted))
        };
        wait_for("two changes to be answered", PATIENCE, || {
            (noted.load(Ordering::Relaxed) >= generation + 2).then_some(())
        });
        // At another moment of a change each time: they take some milliseconds.
        thread::sleep(Duration::from_micros(20_000 + kill * 7_919 % 20_000));
        lab.kill_gateway();
        let answered = client.join().expect("every answer was as expected");
        lab.start_gateway();
        let rpc = &lab.gateway().rpc;
        let export = rpc.must("export", json!({}));
        let found = export["Generation"].as_u64().expect("a number");
        assert!(found == answered || found == answered + 1, "answered {answered}, found {found}");
        if found > first {
            let groups = export["Document"]["target_groups"].as_array().expect("a list");
            let group = groups.iter().find(|group| group["name"] == "spare").expect("it was never deleted");
            let targets = group["targets"].as_array().expect("a list");
            assert_eq!(targets.len(), TARGETS as usize);
            assert!(targets.iter().all(|target| target["weight"] == weight_of(found)), "half a state");
        }
        let history = rpc.must("history", json!({}));
        let kept: Vec<u64> = history["History"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry["Generation"].as_u64().expect("a number"))
            .collect();
        let expected: Vec<u64> = (0..=found).rev().take(kept.len()).collect();
        assert_eq!(kept, expected, "nothing accepted is missing, and nothing else is there");
        generation = found;
    }
    assert!(generation > first + kills, "only {generation} changes were made");
    // What was there before all this can be gone back to.
    let rpc = &lab.gateway().rpc;
    let history = rpc.must("history", json!({}));
    let oldest = history["History"].as_array().expect("a list").last().expect("one")["Generation"].clone();
    let back = rpc.must("rollback", json!({"Generation": oldest, "IfGeneration": generation}));
    assert_eq!(back["Generation"], generation + 1);
    assert_eq!(rpc.must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}))
        ["TargetHealthDescriptions"].as_array().expect("a list").len(), 1);
}
