//! The failover report against what the kernels at both ends saw, and against what was done to the appliance.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::gateway::{Attributes, CHECK_INTERVAL, UNHEALTHY_THRESHOLD};
use crate::lab::traffic::{Connection, PATIENCE, kill_under_load, must_be_reset};
use crate::lab::{Family, Lab, PAUSE, wait_for};

const ON_UNHEALTHY: Attributes<'_> =
    Attributes { target_group: &[("send_tcp_reset.on_unhealthy.enabled", "true")], listener: &[] };

/// What the times that two threads of this machine tell of one thing may differ by.
const SOON: Duration = PAUSE;

const CONNECTIONS: usize = 24;

impl Lab {
    /// The failover records, the newest first.
    fn failovers(&self) -> Vec<Value> {
        let result = self.gateway().rpc.must("describe-failovers", json!({}));
        result["Failovers"].as_array().expect("a list").clone()
    }

    /// The one record there is.
    fn failover(&self) -> Value {
        let [one] = &self.failovers()[..] else { panic!("not one record: {:?}", self.failovers()) };
        one.clone()
    }

    /// So many connections, on which the client alone speaks.
    fn connections(&self) -> Vec<Connection> {
        (0..CONNECTIONS).map(|_| self.connect(Family::V4)).collect()
    }
}

fn millis(mark: &Value) -> Duration {
    Duration::from_millis(mark["At"]["UnixMs"].as_u64().unwrap_or_else(|| panic!("no time in {mark}")))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

// H-5, H-7
#[test]
fn the_report_of_a_dead_appliance_says_what_the_kernels_saw() {
    let mut lab = Lab::started(2, ON_UNHEALTHY);
    let connections = lab.connections();
    let dead = lab.appliance_of(&connections[0]);
    let through_dead = connections.iter().filter(|one| lab.appliance_of(one) == dead).count();
    let reflector = lab.take_reflector(dead);
    let (killed, broken) = kill_under_load(&lab, connections, reflector);
    assert_eq!(broken.len(), through_dead, "who was on it was told, and nobody else");
    let first_broken = broken.iter().map(|one| one.at).min().expect("some were");
    let record = wait_for("everybody to be seen to come back", PATIENCE, || {
        let record = lab.failover();
        let counted = number(&record["Resets"]["Total"]) == lab.counted("TCP_ELB_Reset_Count");
        let none_left = record["Flows"]["Left"] == 0;
        (record["Clients"]["CameBack"] == through_dead && counted && none_left).then_some(record)
    });

    let (survivor, address) = (1 - dead, lab.appliances[dead].address.to_string());
    assert_eq!((&record["Cause"], &record["Target"]), (&json!("unhealthy"), &json!(address)));
    assert_eq!(record["Group"], json!({"Registered": 2, "Healthy": 1}));
    let flows = &record["Flows"];
    let expected = json!({
        "AtDecision": through_dead, "TcpAtDecision": through_dead, "Begun": 0, "Moved": 0,
        "Reset": through_dead, "Ended": 0, "Left": 0
    });
    assert_eq!(*flows, expected);
    assert_eq!(record["Resets"]["ByTrigger"], json!({"unhealthy": through_dead}));
    let by_target = &record["Clients"]["ByTarget"];
    assert_eq!(*by_target, json!({lab.appliances[survivor].address.to_string(): through_dead}));
    assert!(broken.iter().all(|one| lab.appliance_of(&one.again) == survivor));

    // When: against the clock of whoever killed it and of who was told.
    let decided = Duration::from_millis(number(&record["Decided"]["UnixMs"]));
    let promised = CHECK_INTERVAL * (UNHEALTHY_THRESHOLD + 1);
    assert!(decided > killed && decided < killed + promised + SOON, "decided {:?} after", decided - killed);
    let returned = millis(&record["LastReturned"]);
    assert!(
        returned < killed + SOON && returned + SOON > killed,
        "returned last at {returned:?}, killed {killed:?}"
    );
    let first = millis(&record["Resets"]["First"]);
    assert!(
        first <= first_broken && first_broken < first + SOON,
        "{first:?}, and broken at {first_broken:?}"
    );
    let (good, failed) =
        (millis(&record["LastGoodCheck"]["Began"]), record["FailedChecks"].as_array().expect("a list"));
    assert_eq!(u32::try_from(failed.len()), Ok(UNHEALTHY_THRESHOLD));
    // A check that began between the two may still have been answered.
    assert!(
        good < killed + SOON && failed.iter().all(|check| millis(&check["Began"]) + SOON > killed),
        "{record}"
    );
    assert_eq!(failed[1]["Reason"], "Target.FailedHealthChecks");
    let workers = lab.gateway().rpc.must("describe-workers", json!({}))["Workers"].as_array().unwrap().len();
    assert_eq!(record["Applied"].as_array().expect("a list").len(), workers);
    let took = &record["DurationsMicroseconds"];
    assert!(u128::from(number(&took["DecisionToApplied"])) < PAUSE.as_micros(), "{took}");
    let silent = number(&took["LastReturnedToFirstReset"]);
    // A check interval at least. All speak all the time.
    let most = (promised + 2 * PAUSE).as_micros();
    assert!(silent > 90_000 && u128::from(silent) < most, "{silent} µs");

    // It recovers, and so the record ends; it is told, and is there after a restart.
    lab.start_reflector(dead, &[]);
    lab.wait_for_state(dead, "healthy");
    let told = |kind: &'static str| lab.gateway().events.wait_for(kind, |event| event["Event"] == kind);
    assert_eq!(
        (&told("FailoverStarted")["Id"], &told("FailoverStarted")["Flows"]),
        (&record["Id"], &json!(through_dead))
    );
    let ended = told("FailoverEnded");
    assert_eq!((&ended["Why"], &ended["FlowsReset"]), (&json!("recovered"), &json!(through_dead)));
    let whole = lab.failover();
    assert_eq!(whole["Ended"]["Why"], "recovered");
    lab.restart_gateway();
    assert_eq!(lab.failover(), whole);
}

// T-1, A-4
#[test]
fn the_report_of_a_group_that_rebalances_tells_of_flows_that_moved() {
    let rebalance = Attributes {
        target_group: &[
            ("target_failover.on_deregistration", "rebalance"),
            ("target_failover.on_unhealthy", "rebalance"),
        ],
        listener: &[],
    };
    let mut lab = Lab::started(2, rebalance);
    let mut connections = lab.connections();
    let dead = lab.appliance_of(&connections[0]);
    let through_dead = connections.iter().filter(|one| lab.appliance_of(one) == dead).count();
    lab.kill_reflector(dead);
    lab.wait_for_state(dead, "unhealthy");
    connections.iter_mut().for_each(Connection::must_work);
    let record = wait_for("the flows to be seen to have moved", PATIENCE, || {
        let record = lab.failover();
        record.get("Emptied").is_some().then_some(record)
    });
    assert_eq!((&record["Flows"]["Moved"], &record["Flows"]["Left"]), (&json!(through_dead), &json!(0)));
    assert_eq!((&record["Resets"]["Total"], record.get("Clients")), (&json!(0), None));
}

// T-3, R-2
#[test]
fn the_report_of_a_drain_tells_what_was_left_of_it_and_was_reset() {
    let attributes = Attributes {
        target_group: &[
            ("send_tcp_reset.on_deregistration.enabled", "true"),
            ("deregistration_delay.timeout_seconds", "1"),
        ],
        listener: &[],
    };
    let lab = Lab::started(2, attributes);
    let mut connections = lab.connections();
    let leaving = lab.appliance_of(&connections[0]);
    connections.retain(|one| lab.appliance_of(one) == leaving);
    let all = connections.len();
    lab.deregister(leaving);
    // One ends by itself while there is time.
    let done = connections.pop().expect("the first one at least");
    drop(done);
    lab.gateway().events.wait_for("the drain ends", |event| event["Event"] == "DrainEnded");
    for connection in &mut connections {
        connection.client.write_all(b"still here").expect("the kernel takes it");
        must_be_reset(&mut connection.client);
    }
    let left = connections.len();
    let record = wait_for("the record of the drain", PATIENCE, || {
        let record = lab.failover();
        (record["Flows"]["Reset"] == left).then_some(record)
    });
    assert_eq!((&record["Cause"], &record["Flows"]["AtDecision"]), (&json!("deregistration"), &json!(all)));
    // The delay counts from the request, the record from when that was stored.
    let over = number(&record["Drain"]["Ended"]["AfterDecisionMicroseconds"]);
    assert!((500_000..3_000_000).contains(&over), "{over}");
    // From the end of the drain: from its beginning it would be a second.
    assert!(number(&record["DurationsMicroseconds"]["DecisionToFirstReset"]) < 900_000, "{record}");
}

#[test]
fn a_failover_that_the_daemon_does_not_live_to_see_the_end_of_is_told_as_interrupted() {
    let mut lab = Lab::started(2, ON_UNHEALTHY);
    lab.kill_reflector(0);
    lab.wait_for_state(0, "unhealthy");
    // In the background, soon.
    let stored = lab.path("state").join("failovers.json");
    wait_for("the record to be stored", PATIENCE, || {
        std::fs::read_to_string(&stored)
            .is_ok_and(|text| text.contains("Unhealthy") || text.contains("unhealthy"))
            .then_some(())
    });
    lab.kill_gateway();
    lab.start_gateway();
    let record = lab.failover();
    assert_eq!(record["Ended"]["Why"], "interrupted");
    // Its numbers go on from there: a later one is another.
    lab.wait_for_state(1, "healthy");
    lab.kill_reflector(1);
    lab.wait_for_state(1, "unhealthy");
    let ids: Vec<u64> = lab.failovers().iter().map(|record| number(&record["Id"])).collect();
    assert_eq!(ids, [2, 1]);
}
