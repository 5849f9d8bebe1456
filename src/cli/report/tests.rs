use super::*;
use crate::control::events::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// 2026-11-29T20:47:37.007Z.
const DECIDED: i64 = 1_795_985_257_007;

fn mark(after_us: i64) -> Value {
    json!({"At": Timestamp::from_unix_ms(DECIDED + after_us.div_euclid(1000)), "AfterDecisionMicroseconds": after_us})
}

fn failover() -> Value {
    let failed = |after_us| json!({"Began": mark(after_us), "TookMicroseconds": 140, "Reason": "Target.FailedHealthChecks", "Description": "Health checks failed: refused"});
    json!({
        "Id": 3, "Cause": "unhealthy", "LoadBalancer": "gw", "TargetGroup": "fw", "Target": "10.0.0.1",
        "Policy": {"Failover": "no_rebalance", "Reset": true, "BothEnds": true, "HoldMs": 20, "DetectionTimeMs": 200},
        "Group": {"Registered": 2, "Healthy": 1},
        "Decided": Timestamp::from_unix_ms(DECIDED),
        "Reason": "Target.FailedHealthChecks", "Description": "Health checks failed: refused",
        "LastGoodCheck": {"Began": mark(-200_300), "TookMicroseconds": 410},
        "FailedChecks": [failed(-100_300), failed(-300)],
        "LastReturned": mark(-163_000),
        "Applied": [{"Worker": 0, "At": mark(18)}],
        "Flows": {"AtDecision": 120, "TcpAtDecision": 118, "Begun": 1, "Moved": 0, "Reset": 117, "Ended": 2, "Left": 2},
        "Resets": {"Total": 230, "ByTrigger": {"unhealthy": 117, "both-ends": 113}, "First": mark(21_500), "Last": mark(3_004_250)},
        "Suppressed": {"hold": 9},
        "Clients": {"Watched": 117, "CameBack": 116, "ByTarget": {"10.0.0.2": 116}, "FastestMicroseconds": 310, "SlowestMicroseconds": 1_020_000},
        "DurationsMicroseconds": {
            "FirstFailureToDecision": 100_300, "DecisionToApplied": 18, "DecisionToFirstReset": 21_500,
            "FirstFailureToFirstReset": 121_800, "LastReturnedToFirstReset": 184_500, "FirstToLastReset": 2_982_750,
            "DecisionToRecovery": 65_000_000
        },
        "Recovered": mark(65_000_000), "AsOf": mark(70_000_000),
        "Ended": {"At": mark(70_000_000), "Why": "recovered"}
    })
}

fn read(record: Value) -> Failover {
    serde_json::from_value(record).unwrap()
}

fn look() -> Look {
    Look::plain(Timestamp::from_unix_ms(DECIDED + 80_000), TimeZone::UTC)
}

#[test]
fn the_phases_of_a_drain_go_from_its_end() {
    let mut record = failover();
    record["Cause"] = json!("deregistration");
    let named: Vec<String> = phases(&read(record)).into_iter().map(|(what, _)| what).collect();
    assert_eq!(named[1..3], ["end of the drain to the last worker", "end of the drain to first reset"]);
}

#[test]
fn a_failover_is_a_timeline_with_its_phases_and_sums() {
    let shown = whole(&read(failover()), &look());
    for line in [
        "Failover 3: fw/10.0.0.1 turned unhealthy, 2026-11-29 20:47:37.007 +00:00",
        "balancer  gw",
        "policy    its TCP flows are reset, both ends are told, not before 20 ms",
        "checks    interval × unhealthy threshold is 200 ms",
        "reason    Target.FailedHealthChecks: Health checks failed: refused",
        "20:47:36.806  -200.3 ms  last good check, answered in 0.410 ms",
        "20:47:36.844  -163.0 ms  the target returned its last packet",
        "20:47:36.906  -100.3 ms  check failed after 0.140 ms: Target.FailedHealthChecks",
        "20:47:37.007          0  decided: unhealthy; 120 flows on it, 118 TCP, 1 of 2 targets healthy",
        "20:47:37.007  +0.018 ms  worker 0 goes by it",
        "20:47:37.028   +21.5 ms  first reset",
        "20:47:40.011   +3.004 s  last reset",
        "20:48:42.007     +1m 5s  the target is back",
        "20:48:47.007    +1m 10s  the record ends: the target recovered",
        "decision to the last worker  0.018 ms",
        "last returned packet to first reset  184.5 ms",
        "flows      of 120 and 1 that began since: 117 reset, 0 moved, 2 ended otherwise, 2 left",
        "resets     230 sent (113 both-ends, 117 unhealthy)",
        "held back  packets whose reset was held back: 9 hold",
        "           reset: 116 to 10.0.0.2",
    ] {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(shown.lines().any(|shown| words(shown) == words(line)), "no line {line:?} in\n{shown}");
    }
    let at: Vec<_> =
        timeline(&read(failover())).iter().map(|(mark, _)| mark.after_decision_microseconds).collect();
    assert!(at.is_sorted(), "{at:?}");
}

#[test]
fn what_is_not_known_is_not_told() {
    let mut record = failover();
    let object = record.as_object_mut().unwrap();
    for part in [
        "LastGoodCheck",
        "FailedChecks",
        "LastReturned",
        "Applied",
        "Suppressed",
        "Clients",
        "Recovered",
        "Ended",
        "Reason",
        "Description",
    ] {
        object.remove(part);
    }
    record["Cause"] = json!("deregistration");
    record["Policy"] = json!({"Failover": "rebalance", "Reset": false, "DetectionTimeMs": 200});
    record["Drain"] = json!({"Ends": Timestamp::from_unix_ms(DECIDED + 300_000)});
    record["Resets"] = json!({"Total": 0});
    record["DurationsMicroseconds"] = json!({});
    let expected = "\
Failover 3: fw/10.0.0.1 was deregistered, 2026-11-29 20:47:37.007 +00:00

balancer  gw
policy    its flows move to healthy targets when the delay is over

TIME          AFTER  WHAT HAPPENED
20:47:37.007      0  deregistered, drains; 120 flows on it, 118 TCP, 1 of 2 targets healthy

flows  of 120 and 1 that began since: 117 reset, 0 moved, 2 ended otherwise, 2 left
end    it goes on
";
    assert_eq!(whole(&read(record), &look()), expected);
}

#[test]
fn at_a_glance_each_is_a_row_and_what_is_missing_is_said() {
    let found = |failovers, not_recorded, not_stored: Option<&str>| Failovers {
        failovers,
        not_recorded,
        not_stored: not_stored.map(str::to_owned),
        next_marker: None,
    };
    let open = Failover { ended: None, ..read(failover()) };
    let shown = glance(&found(vec![open], 4, Some("no room")), &look());
    assert!(shown.contains("goes on") && shown.contains("21.5 ms"), "{shown}");
    assert!(shown.contains("4 more were not recorded") && shown.contains("not on disk: no room"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    assert_eq!(glance(&found(Vec::new(), 0, None), &look()), "There has been no failover yet.\n");
}

#[test]
fn a_time_is_as_exact_as_it_is_short() {
    for (microseconds, expected) in [
        (0, "0.000 ms"),
        (18, "0.018 ms"),
        (9_999, "9.999 ms"),
        (10_000, "10.0 ms"),
        (999_999, "999.9 ms"),
        (1_000_000, "1.000 s"),
        (59_999_999, "59.999 s"),
        (60_000_000, "1m 0s"),
    ] {
        assert_eq!(long(microseconds), expected, "{microseconds}");
    }
}
