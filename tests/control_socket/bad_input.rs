//! Any bytes on the socket: a JSON-RPC error and the connection stays usable; a line over 1 MiB: an error and
//! the connection is closed.

use crate::client::Client;
use crate::fake::Daemon;
use flowgate::control::socket::MAX_LINE;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const PROBE: &str = r#"{"jsonrpc":"2.0","id":"probe","method":"describe-ports"}"#;

/// Whether the connection still answers a proper request.
fn assert_usable(client: &mut Client) {
    let answer = client.ask(PROBE);
    assert_eq!(answer["id"], "probe");
    assert_eq!(answer["result"]["Ports"][0]["PortName"], "left");
}

#[test]
fn each_kind_of_garbage_gets_its_error_and_the_connection_stays_usable() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}1{}}}"#,
        "[".repeat(9999),
        "]".repeat(9999)
    );
    for (line, code, kind) in [
        ("", -32700, "ParseError"),
        ("   ", -32700, "ParseError"),
        ("hello?", -32700, "ParseError"),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"describe-ports\"", -32700, "ParseError"),
        ("GET / HTTP/1.1\r", -32700, "ParseError"),
        (deep.as_str(), -32700, "ParseError"),
        ("[]", -32600, "InvalidRequest"),
        ("7", -32600, "InvalidRequest"),
        (r#"{"id":1,"method":"describe-ports"}"#, -32600, "InvalidRequest"),
        (r#"{"jsonrpc":"2.0","id":[],"method":"describe-ports"}"#, -32600, "InvalidRequest"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"no-such-method"}"#, -32601, "InvalidAction"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"debug-advance"}"#, -32601, "InvalidAction"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"describe-ports","params":[1]}"#, -32602, "ValidationError"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"describe-ports","params":{"X":1}}"#, -32602, "ValidationError"),
    ] {
        let answer = client.ask(line);
        let shown: String = line.chars().take(80).collect();
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!(answer["error"]["data"]["kind"], kind, "{shown}");
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty(), "{shown}");
        assert!(answer.get("result").is_none(), "{shown}");
        assert_usable(&mut client);
    }
    client.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n");
    let answer = client.read();
    assert_eq!((answer["error"]["code"].as_i64(), &answer["id"]), (Some(-32700), &Value::Null));
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("not UTF-8"));
    assert_usable(&mut client);
}

#[test]
fn wrong_parameters_are_told_with_their_place_and_what_was_expected() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    for (method, params, path, expected) in [
        ("describe-target-health", json!({}), "params", "missing field `TargetGroupArn`"),
        ("describe-target-health", json!({"TargetGroupArn": 7}), "TargetGroupArn", "expected a string"),
        (
            "describe-target-health",
            json!({"targetGroupArn": "fw"}),
            "targetGroupArn",
            "expected `TargetGroupArn`",
        ),
        (
            "register-targets",
            json!({"TargetGroupArn": "fw", "Targets": {}}),
            "Targets",
            "expected a sequence",
        ),
        (
            "register-targets",
            json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.1"}, {"Id": "10.0.0.2", "Weight": "x"}]}),
            "Targets[1].Weight",
            "expected u16",
        ),
        (
            "register-targets",
            json!({"TargetGroupArn": "fw", "Targets": [{"Id": "::1"}]}),
            "Targets[0].Id",
            "IPv4",
        ),
        (
            "register-targets",
            json!({"TargetGroupArn": "fw", "Targets": []}),
            "Targets",
            "At least one target",
        ),
        (
            "modify-listener-attributes",
            json!({"ListenerArn": "gw", "Attributes": [{"Key": "tcp.idle_timeout.seconds", "Value": 60}]}),
            "Attributes[0].Value",
            "expected a string",
        ),
        ("describe-flows", json!({"Limit": 0}), "Limit", "must be between '1-10000' inclusive"),
        ("describe-flows", json!({"Port": 65536}), "Port", "must be between '0-65535' inclusive"),
        (
            "describe-flows",
            json!({"State": "dead"}),
            "State",
            "'dead' must be one of [half-open, established",
        ),
        ("describe-flows", json!({"Protocol": "tcpp"}), "Protocol", "must be one of [icmp, tcp"),
        ("subscribe", json!({"Events": ["healht"]}), "Events[0]", "'healht' must be one of [health"),
    ] {
        let error = client.call(method, params.clone()).unwrap_err();
        let message = error["message"].as_str().unwrap();
        assert_eq!(error["data"]["path"], path, "{method} {params}: {error}");
        assert!(message.contains(expected), "{method} {params}: {message}");
        assert_eq!(error["data"]["kind"], "ValidationError", "{method} {params}");
        assert_usable(&mut client);
    }
}

#[test]
fn a_notification_is_carried_out_and_never_answered() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    client.send(br#"{"jsonrpc":"2.0","method":"no-such-method"}"#);
    client.send(b"\n");
    client.send(br#"{"jsonrpc":"2.0","method":"register-targets","params":{"TargetGroupArn":"nobody"}}"#);
    client.send(b"\n");
    client.send(
        br#"{"jsonrpc":"2.0","method":"register-targets","params":{"TargetGroupArn":"spare","Targets":[{"Id":"10.0.0.7"}]}}"#,
    );
    client.send(b"\n");
    assert_usable(&mut client);
    let health = client.call("describe-target-health", json!({"TargetGroupArn": "spare"})).unwrap();
    assert_eq!(health["TargetHealthDescriptions"][0]["Target"]["Id"], "10.0.0.7");
}

#[test]
fn a_line_over_1_mib_gets_an_error_and_the_end() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    // The longest line is taken: it is no JSON, but it is a line.
    let mut longest = vec![b'x'; MAX_LINE];
    longest.push(b'\n');
    client.send(&longest);
    assert_eq!(client.read()["error"]["code"], -32700);
    assert_usable(&mut client);
    // One byte more, and no newline yet: the answer does not wait for one.
    client.send(&vec![b'x'; MAX_LINE + 1]);
    let answer = client.read();
    assert_eq!(answer["error"]["data"]["kind"], "LineTooLong");
    assert_eq!(answer["id"], Value::Null);
    assert!(client.ends());
    // Nobody else is bothered.
    assert_usable(&mut Client::connect(&daemon.path()));
}

// O-3
#[test]
fn a_thousand_targets_fit_in_one_line_and_many_lines_in_one_write() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let targets: Vec<_> =
        (0..1000).map(|n| json!({"Id": format!("10.1.{}.{}", n / 250, n % 250 + 1)})).collect();
    let answer =
        client.call("register-targets", json!({"TargetGroupArn": "spare", "Targets": targets})).unwrap();
    assert_eq!(answer["Changed"].as_array().unwrap().len(), 1000);
    let lines: String = (0..500)
        .map(|id| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "describe-workers"})))
        .collect();
    client.send(lines.as_bytes());
    for id in 0..500 {
        assert_eq!(client.read()["id"], id, "answers come in the order of their requests");
    }
}

#[test]
fn whatever_bytes_come_every_line_gets_one_answer_and_the_connection_stays_usable() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    // Proper requests with a byte changed reach deeper than noise.
    let nearly = (0..PROBE.len(), any::<u8>()).prop_map(|(at, byte)| {
        let mut line = PROBE.as_bytes().to_vec();
        line[at] = byte;
        line
    });
    let words = proptest::collection::vec(
        prop_oneof![
            Just("{"),
            Just("}"),
            Just("["),
            Just("]"),
            Just(":"),
            Just(","),
            Just("\"jsonrpc\""),
            Just("\"2.0\""),
            Just("\"id\""),
            Just("1"),
            Just("null"),
            Just("\"method\""),
            Just("\"subscribe\""),
            Just("\"params\""),
            Just("\"describe-flows\""),
            Just("\"\\ud800\""),
            Just("1e999"),
            Just("-"),
        ],
        0..20,
    )
    .prop_map(|words| words.concat().into_bytes());
    let line = prop_oneof![noise, nearly, words].prop_map(|mut line| {
        line.retain(|&byte| byte != b'\n');
        line.push(b'\n');
        line
    });
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() });
    let client = std::cell::RefCell::new(&mut client);
    runner
        .run(&line, |line| {
            let mut client = client.borrow_mut();
            client.send(&line);
            client.send(PROBE.as_bytes());
            client.send(b"\n");
            let mut answer = client.read();
            // A notification gets none, so the first answer may be the probe's; a changed byte of the probe
            // may leave it a proper request.
            if answer["id"] != "probe" || answer.get("error").is_some() || is_request(&line) {
                answer = client.read();
            }
            prop_assert_eq!(&answer["id"], "probe");
            prop_assert!(answer.get("result").is_some());
            Ok(())
        })
        .unwrap();
}

/// Whether `line` is itself a request with the probe's id.
fn is_request(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|value| value["id"] == "probe")
}
