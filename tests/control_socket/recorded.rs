//! The failover records of the daemon of the tests.

use flowgate::control::events::Timestamp;
use flowgate::control::failover::Failover;
use serde_json::{Value, json};

/// When the newest was decided.
const DECIDED: i64 = 1_795_985_257_007;

fn at(ms: i64) -> Value {
    json!(Timestamp::from_unix_ms(DECIDED + ms))
}

fn mark(microseconds: i64) -> Value {
    json!({"At": at(microseconds.div_euclid(1000)), "AfterDecisionMicroseconds": microseconds})
}

/// What the daemon of the tests has recorded: an appliance that died, and before that one that was drained, of a
/// group that there is and of one that was deleted since.
pub fn records() -> Vec<Failover> {
    let died = json!({
        "Id": 7, "Cause": "unhealthy", "LoadBalancer": "gw", "TargetGroup": "fw", "Target": "10.0.0.2",
        "Policy": {"Failover": "no_rebalance", "Reset": true, "DetectionTimeMs": 10000},
        "Group": {"Registered": 3, "Healthy": 2},
        "Decided": at(0), "Reason": "Target.Timeout", "Description": "Request timed out",
        "LastGoodCheck": {"Began": mark(-12_000_412), "TookMicroseconds": 412},
        "FailedChecks": [
            {"Began": mark(-7_000_301), "TookMicroseconds": 2_000_204, "Reason": "Target.Timeout", "Description": "Request timed out"},
            {"Began": mark(-2_000_290), "TookMicroseconds": 2_000_190, "Reason": "Target.Timeout", "Description": "Request timed out"}
        ],
        "LastReturned": mark(-8_110_020),
        "Applied": [{"Worker": 0, "At": mark(31)}],
        "Flows": {"AtDecision": 125, "TcpAtDecision": 100, "Begun": 0, "Moved": 0, "Reset": 96, "Ended": 9, "Left": 20},
        "Resets": {"Total": 96, "ByTrigger": {"unhealthy": 96}, "First": mark(702), "Last": mark(9_214_377)},
        "Clients": {
            "Watched": 96, "CameBack": 94, "ByTarget": {"10.0.0.1": 51, "10.0.0.3": 43},
            "FastestMicroseconds": 304, "SlowestMicroseconds": 1_013_882
        },
        "DurationsMicroseconds": {
            "FirstFailureToDecision": 7_000_301, "DecisionToApplied": 31, "DecisionToFirstReset": 702,
            "FirstFailureToFirstReset": 7_001_003, "LastReturnedToFirstReset": 8_110_722, "FirstToLastReset": 9_213_675
        },
        "AsOf": mark(30_000_000)
    });
    let drained = |id: u64, group: &str| {
        json!({
            "Id": id, "Cause": "deregistration", "TargetGroup": group, "Target": "10.0.0.1",
            "Policy": {"Failover": "no_rebalance", "Reset": false, "DetectionTimeMs": 10000},
            "Group": {"Registered": 2, "Healthy": 2}, "Decided": at(-86_400_000),
            "Drain": {"Ends": at(-86_100_000), "Ended": {"At": at(-86_100_000), "AfterDecisionMicroseconds": 300_000_000}, "FlowsThen": 0},
            "Flows": {"AtDecision": 4, "TcpAtDecision": 4, "Begun": 0, "Moved": 0, "Reset": 0, "Ended": 4, "Left": 0},
            "Resets": {"Total": 0}, "DurationsMicroseconds": {},
            "AsOf": {"At": at(-86_100_000), "AfterDecisionMicroseconds": 300_000_000},
            "Ended": {"At": {"At": at(-86_100_000), "AfterDecisionMicroseconds": 300_000_000}, "Why": "gone"}
        })
    };
    [died, drained(5, "fw"), drained(2, "old")].map(|record| serde_json::from_value(record).unwrap()).into()
}
