//! What the traffic itself says of an appliance: one that is sent packets and returns none is
//! found out by its silence, long before its next checks in their turn.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::lab::gateway::Attributes;
use crate::lab::traffic::{exchange, must_be_reset};
use crate::lab::{Family, Lab};

/// A check every five seconds: with the laboratory's threshold of two, a death goes unseen for ten.
const SLOW_CHECKS: Attributes<'_> = Attributes {
    target_group: &[
        ("flowgate.health_check.interval_ms", "5000"),
        ("flowgate.health_check.timeout_ms", "1000"),
        ("send_tcp_reset.on_unhealthy.enabled", "true"),
    ],
    listener: &[],
};

#[test]
fn an_appliance_that_falls_silent_is_out_sooner_than_by_interval_times_threshold() {
    //
    let mut lab = Lab::started(2, SLOW_CHECKS);
    let mut connection = lab.connect(Family::V4);
    exchange(&mut connection, 100_000);
    connection.settle();
    let dying = lab.appliance_of(&connection);
    let (sent, returned, silent_for) = lab.inband_of(dying);
    assert!(sent > 0 && sent == returned && silent_for.is_zero(), "{sent} {returned} {silent_for:?}");

    // Off, as it is by default: the silence is shown and nothing is done about it.
    lab.kill_reflector(dying);
    let died = Instant::now();
    connection.client.write_all(b"into the void").expect("the kernel takes it");
    sleep(Duration::from_millis(700));
    let (_, _, silent_for) = lab.inband_of(dying);
    // Unwatched it is looked at every 250 ms; the first look after the death may still see an answer, and
    // then the silence begins with the next packet that the client's kernel repeats.
    let (least, most) = (Duration::from_millis(50), died.elapsed());
    assert!(least <= silent_for && silent_for <= most, "silent for {silent_for:?} of {most:?}");
    assert_eq!(lab.state_of(dying), Some(("healthy".to_owned(), None)));

    lab.set_group_attribute("flowgate.inband.silence_ms", "50");
    let on = Instant::now();
    lab.wait_for_state(dying, "unhealthy");
    let took = on.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}: two checks in their turn take five seconds at least");
    let told = lab.gateway().events.wait_for("the silence", |event| event["Event"] == "TargetSilent");
    assert_eq!(told["Target"], serde_json::json!(lab.appliances[dying].address));
    // The client's kernel repeats what it sent, and has its answer.
    must_be_reset(&mut connection.client);
    let mut again = lab.connect(Family::V4);
    exchange(&mut again, 100_000);
    assert_ne!(lab.appliance_of(&again), dying);
}

#[test]
fn an_appliance_that_drops_what_it_is_sent_and_answers_its_checks_stays_in() {
    // the evidence brings a check forward and decides nothing.
    let mut lab = Lab::started(1, SLOW_CHECKS);
    let mut connection = lab.connect(Family::V4);
    connection.must_work();
    lab.kill_reflector(0);
    lab.start_reflector(0, &["--drop"]);
    lab.set_group_attribute("flowgate.inband.silence_ms", "50");
    connection.client.write_all(b"refused by a rule").expect("the kernel takes it");
    let silent = |event: &serde_json::Value| event["Event"] == "TargetSilent";
    lab.gateway().events.wait_for("the silence", silent);
    // The client's kernel repeats it at ever longer times: one check for each.
    sleep(Duration::from_millis(1500));
    assert_eq!(lab.state_of(0), Some(("healthy".to_owned(), None)));
    let checks = lab.gateway().events.all().iter().filter(|event| silent(event)).count();
    assert!((2..=12).contains(&checks), "{checks} checks within 1.6 s");
}
