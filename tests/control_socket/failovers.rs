//! `describe-failovers`: which records are told, and a page at a time.

use crate::client::Client;
use crate::fake::{Daemon, records};
use serde_json::{Value, json};

fn ids(result: &Value) -> Vec<u64> {
    let failovers = result["Failovers"].as_array().unwrap();
    failovers.iter().map(|record| record["Id"].as_u64().unwrap()).collect()
}

#[test]
fn records_are_told_by_what_is_asked_for_the_newest_first() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    for (params, expected) in [
        (json!({}), vec![7, 5, 2]),
        (json!({"Id": 5}), vec![5]),
        (json!({"TargetGroupArn": "fw"}), vec![7, 5]),
        (json!({"TargetGroupArn": "old"}), vec![2]),
        (json!({"TargetGroupArn": "spare"}), vec![]),
        (json!({"Target": "10.0.0.1"}), vec![5, 2]),
        (json!({"Cause": "unhealthy"}), vec![7]),
        (json!({"Cause": "deregistration", "TargetGroupArn": "fw"}), vec![5]),
    ] {
        let result = client.call("describe-failovers", params.clone()).unwrap();
        assert_eq!(ids(&result), expected, "{params}");
    }
    let whole = client.call("describe-failovers", json!({"Id": 7})).unwrap();
    assert_eq!(whole["Failovers"][0], serde_json::to_value(&records()[0]).unwrap());
    for (params, kind) in [
        (json!({"Id": 3}), "FailoverNotFound"),
        (json!({"TargetGroupArn": "nobody"}), "TargetGroupNotFound"),
        (json!({"Marker": "x"}), "ValidationError"),
        (json!({"Cause": "boredom"}), "ValidationError"),
        (json!({"PageSize": 0}), "ValidationError"),
    ] {
        let error = client.call("describe-failovers", params.clone()).unwrap_err();
        assert_eq!(error["data"]["kind"], kind, "{params}: {error}");
    }
}

#[test]
fn pages_together_are_the_list_also_when_a_marker_is_no_more() {
    let daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    let mut page = |params| client.call("describe-failovers", params).unwrap();
    let first = page(json!({"PageSize": 2}));
    assert_eq!((ids(&first), &first["NextMarker"]), (vec![7, 5], &json!("5")));
    let second = page(json!({"PageSize": 2, "Marker": "5"}));
    assert_eq!((ids(&second), second.get("NextMarker")), (vec![2], None));
    // That record has made room for newer ones meanwhile.
    assert_eq!(ids(&page(json!({"Marker": "3"}))), [2]);
}
