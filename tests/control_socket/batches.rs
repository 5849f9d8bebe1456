//! Batches: an array of requests on one line, answered by an array in their order.

use crate::client::Client;
use crate::fake::Daemon;
use crate::roles;
use flowgate::control::socket::{Limits, MAX_BATCH};
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;

fn request(id: usize, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn ask(client: &mut Client, batch: &[Value]) -> Value {
    client.ask(&Value::from(batch).to_string())
}

#[test]
fn each_request_of_a_batch_gets_its_answer_and_notifications_none() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let register = json!({"TargetGroupArn": "spare", "Targets": [{"Id": "10.0.0.7"}]});
    let answers = ask(
        &mut client,
        &[
            request(1, "describe-ports", json!({})),
            json!({"jsonrpc": "2.0", "method": "register-targets", "params": register}),
            json!({"foo": "boo"}),
            json!(7),
            request(5, "no-such-method", json!({})),
            request(6, "describe-target-health", json!({"TargetGroupArn": "spare"})),
            json!([]),
            request(8, "register-targets", json!({"TargetGroupArn": "spare"})),
        ],
    );
    let answers = answers.as_array().unwrap();
    let shown: Vec<(Value, Option<i64>)> =
        answers.iter().map(|answer| (answer["id"].clone(), answer["error"]["code"].as_i64())).collect();
    assert_eq!(
        shown,
        [
            (json!(1), None),
            (json!(null), Some(-32600)),
            (json!(null), Some(-32600)),
            (json!(5), Some(-32601)),
            (json!(6), None),
            (json!(null), Some(-32600)),
            (json!(8), Some(-32602)),
        ]
    );
    // In their order: what the second made the sixth sees.
    assert_eq!(answers[4]["result"]["TargetHealthDescriptions"][0]["Target"]["Id"], "10.0.0.7");
    assert!(answers.iter().all(|answer| answer["jsonrpc"] == "2.0"));
}

#[test]
fn a_batch_of_notifications_is_carried_out_and_answered_by_nothing() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let weight = |weight: u32| {
        let targets = json!([{"Id": "10.0.0.1", "Weight": weight}]);
        let params = json!({"TargetGroupArn": "fw", "Targets": targets});
        json!({"jsonrpc": "2.0", "method": "register-targets", "params": params})
    };
    client.send(format!("{}\n", Value::from(vec![weight(2), weight(3), weight(4)])).as_bytes());
    // The next line is of the next request.
    let snapshot = client.call("subscribe", json!({})).unwrap();
    assert_eq!(snapshot["Generation"], 3);
}

#[test]
fn what_is_wrong_with_the_whole_gets_one_error_and_nothing_is_carried_out() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let delete = request(1, "delete-listener", json!({"ListenerArn": "gw"})).to_string();
    let too_many = format!("[{delete}{}]", ",1".repeat(MAX_BATCH));
    for (line, kind) in [
        ("[]", "InvalidRequest"),
        (&format!("[{delete},]"), "ParseError"),
        (&format!("[{delete}"), "ParseError"),
        (&too_many, "BatchTooLong"),
    ] {
        let answer = client.ask(line);
        assert_eq!((&answer["error"]["data"]["kind"], &answer["id"]), (&json!(kind), &Value::Null));
    }
    assert_eq!(client.call("subscribe", json!({})).unwrap()["Generation"], 0);
}

#[test]
fn a_batch_as_long_as_may_be_is_answered_whole_and_others_are_served_meanwhile() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let batch: Vec<Value> = (0..MAX_BATCH).map(|id| request(id, "describe-workers", json!({}))).collect();
    client.send(format!("{}\n", Value::from(batch)).as_bytes());
    Client::connect(&daemon.path()).call("describe-workers", json!({})).unwrap();
    let answers = client.read();
    let ids = answers.as_array().unwrap().iter().map(|answer| answer["id"].as_u64().unwrap());
    assert!(ids.eq(0..MAX_BATCH as u64));
}

#[test]
fn events_wait_for_the_end_of_a_batch() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let change = |id: usize| {
        let targets = json!([{"Id": "10.0.0.1", "Weight": id + 1}]);
        request(id, "register-targets", json!({"TargetGroupArn": "fw", "Targets": targets}))
    };
    let mut batch = vec![request(0, "subscribe", json!({"Events": ["config"]}))];
    batch.extend((1..=500).map(change));
    assert_eq!(ask(&mut client, &batch).as_array().unwrap().len(), 501);
    for generation in 1..=500 {
        assert_eq!(client.read()["params"]["Generation"], generation);
    }
}

/// Resident memory of this process, in bytes: the daemon is a thread of it.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn answers_that_nobody_takes_are_not_gathered() {
    let daemon = Daemon::start();
    let batch: Vec<Value> =
        (0..MAX_BATCH).map(|id| request(id, "describe-flows", json!({"Limit": 10_000}))).collect();
    let line = format!("{}\n", Value::from(batch));
    let before = resident();
    // 80 MB of answers to each, were they made.
    let rude: Vec<Client> = (0..10)
        .map(|_| {
            let mut client = Client::connect_rudely(&daemon.path());
            client.send(line.as_bytes());
            client
        })
        .collect();
    // Until the daemon has done for them what it can.
    let mut seen = before;
    loop {
        std::thread::sleep(Duration::from_millis(300));
        let grown = resident().saturating_sub(before);
        assert!(grown < 100 << 20, "{} MiB are held for ten clients that do not read", grown >> 20);
        if resident() <= seen + (1 << 20) {
            break;
        }
        seen = resident();
    }
    Client::connect(&daemon.path()).call("describe-flows", json!({})).unwrap();
    drop(rude);
}

#[test]
fn whoever_is_shown_out_in_the_middle_of_an_answer_is_told_nothing_within_it() {
    let limits = Limits { connections: 1, subscribers: 0 };
    let Some(daemon) = roles::daemon(limits, 0o666) else { return };
    let batch: Vec<Value> = (0..MAX_BATCH).map(|id| request(id, "describe-ports", json!({}))).collect();
    let line = format!("{}\n", Value::from(batch));
    let mut cut_short = 0;
    for round in 0..40 {
        // Whoever only looks goes for an admin at once, in the middle of whatever it is.
        let mut client = loop {
            let mut client = Client::over(roles::connect_as_nobody(&daemon));
            // The place of the last round's admin may not be free yet.
            if client.read()["method"] == "hello" {
                break client;
            }
        };
        client.send(line.as_bytes());
        let path = daemon.path();
        let newcomer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 200));
            Client::connect(&path)
        });
        let mut text = String::new();
        // As it comes, so that there is always room for one more word.
        client.stream().read_to_string(&mut text).ok();
        newcomer.join().unwrap();
        cut_short += usize::from(!text.ends_with('\n'));
        if let Some(at) = text.find("\"closing\"") {
            let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
            assert!(
                text[start..].starts_with("{\"jsonrpc\":\"2.0\",\"method\":\"closing\""),
                "round {round}"
            );
        }
    }
    assert!(cut_short > 0, "nobody was shown out in the middle");
}
