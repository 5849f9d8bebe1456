//! `subscribe`: a snapshot, then events in their order, and a count of those that a slow reader lost.

use crate::client::Client;
use crate::fake::{Daemon, QUEUE};
use flowgate::control::events::{Event, Timestamp, What};
use flowgate::control::health::{HealthState, ReasonCode};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

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

/// Ten thousand events a second, evenly, for three seconds.
#[test]
fn a_reader_that_keeps_up_loses_nothing_at_ten_thousand_events_a_second() {
    const EACH: u64 = 100;
    const APART: Duration = Duration::from_millis(10);
    const TIMES: u64 = 300;
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    client.call("subscribe", json!({})).unwrap();
    let reader = std::thread::spawn(move || {
        for generation in 0..EACH * TIMES {
            let event = client.read();
            assert_eq!(event["method"], "event", "{event}");
            assert_eq!(event["params"]["Generation"], generation);
        }
        Instant::now()
    });
    let began = Instant::now();
    for round in 0..TIMES {
        daemon.happen((round * EACH..(round + 1) * EACH).map(config).collect());
        let next = began + APART * u32::try_from(round + 1).unwrap();
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let sent = Instant::now();
    let behind = reader.join().unwrap().saturating_duration_since(sent);
    println!("{} events in {:?}, the last read {behind:?} after it happened", EACH * TIMES, sent - began);
    // It has fallen behind by no more than others on this machine may have kept it from reading.
    assert!(behind < Duration::from_secs(10), "{behind:?}");
}

/// How fast events get through at most: as many as the daemon keeps are there before the first is read.
#[test]
fn all_that_the_daemon_keeps_is_read_in_much_less_time_than_it_may_take_to_happen() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    client.call("subscribe", json!({})).unwrap();
    let all = QUEUE as u64;
    let mut once = || {
        let began = Instant::now();
        daemon.happen((0..all).map(config).collect());
        for generation in 0..all {
            assert_eq!(client.read()["params"]["Generation"], generation);
        }
        began.elapsed()
    };
    // The quickest of three: others have this machine's cores, too.
    let took = (0..3).map(|_| once()).min().expect("three");
    println!("{all} events in {took:?}");
    // At ten thousand a second.
    assert!(took < Duration::from_micros(100 * all), "{took:?}");
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
