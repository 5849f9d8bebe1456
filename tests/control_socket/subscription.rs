//! `subscribe`: a snapshot, then events in their order, and a count of those that a slow reader lost.

use crate::client::Client;
use crate::fake::{Daemon, QUEUE};
use flowgate::control::events::{Event, Timestamp, What};
use flowgate::control::health::{HealthState, ReasonCode};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

fn config(generation: u64) -> Event {
    Event { at: Timestamp::from_unix_ms(0), what: What::ConfigChanged { generation } }
}

fn died() -> Event {
    let what = What::TargetHealthChanged {
        target_group: "fw".to_owned(),
        target: Ipv4Addr::new(10, 0, 0, 1),
        from: HealthState::Healthy,
        to: HealthState::Unhealthy,
        reason: Some(ReasonCode::Timeout),
        description: "Request timed out".to_owned(),
    };
    Event { at: Timestamp::from_unix_ms(1_795_985_257_123), what }
}

#[test]
fn a_subscription_begins_with_how_things_stand_and_goes_on_with_what_happens() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let snapshot = client.call("subscribe", json!({})).unwrap();
    assert_eq!(snapshot["Generation"], 0);
    assert_eq!(snapshot["At"]["Rfc3339"], "2026-11-29T20:47:37.007Z");
    let group = client.call("describe-target-health", json!({"TargetGroupArn": "fw"})).unwrap();
    assert_eq!(snapshot["TargetGroups"][0], group);
    daemon.happen(vec![died()]);
    assert_eq!(
        client.read(),
        json!({"jsonrpc": "2.0", "method": "event", "params": {
            "At": {"UnixMs": 1_795_985_257_123_i64, "Rfc3339": "2026-11-29T20:47:37.123Z"},
            "Event": "TargetHealthChanged", "TargetGroup": "fw", "Target": "10.0.0.1",
            "From": "healthy", "To": "unhealthy", "Reason": "Target.Timeout", "Description": "Request timed out"
        }})
    );
    // It can still be asked, and sees its own changes too, each exactly once and after the answer.
    client
        .call("deregister-targets", json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.1"}]}))
        .unwrap();
    assert_eq!(client.read()["params"]["Generation"], 1);
    client.call("describe-workers", json!({})).unwrap();
}

#[test]
fn only_the_kinds_asked_for_are_sent() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    client.call("subscribe", json!({"Events": ["health"]})).unwrap();
    daemon.happen(vec![config(1), died(), config(2)]);
    assert_eq!(client.read()["params"]["Event"], "TargetHealthChanged");
    daemon.happen(vec![config(3), died()]);
    assert_eq!(client.read()["params"]["Event"], "TargetHealthChanged");
}

#[test]
fn a_reader_that_is_too_slow_is_told_how_many_it_lost_and_gets_the_rest_in_order() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    client.call("subscribe", json!({})).unwrap();
    // More at once than the queue holds: the server's task cannot run in between.
    let sent = QUEUE as u64 * 3 + 7;
    daemon.happen((1..=sent).map(config).collect());
    let first = client.read();
    assert_eq!(first["method"], "lost");
    let lost = first["params"]["Count"].as_u64().unwrap();
    assert!(lost > 0);
    for generation in lost + 1..=sent {
        let event = client.read();
        assert_eq!(event["params"]["Generation"], generation, "none is missing that was not told as lost");
    }
}

#[test]
fn a_reader_that_keeps_up_loses_nothing_at_ten_thousand_events() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    client.call("subscribe", json!({})).unwrap();
    let total = 10_000_u64;
    let batch = QUEUE as u64 / 2;
    let mut expected = 1;
    while expected <= total {
        let last = (expected + batch - 1).min(total);
        daemon.happen((expected..=last).map(config).collect());
        for generation in expected..=last {
            assert_eq!(client.read()["params"]["Generation"], generation);
        }
        expected = last + 1;
    }
}

#[test]
fn who_did_not_subscribe_gets_no_events() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let mut subscriber = Client::connect(&daemon.path());
    subscriber.call("subscribe", json!({})).unwrap();
    daemon.happen(vec![config(1)]);
    assert_eq!(subscriber.read()["method"], Value::from("event"));
    client.call("describe-workers", json!({})).unwrap();
}
