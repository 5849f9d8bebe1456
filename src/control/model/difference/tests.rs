//! What is told of each thing that can be other.

use super::*;
use crate::control::model::Change;
use crate::control::model::fixture::{DOCUMENT, pairs, state};

fn told(old: &State, new: &State) -> Vec<String> {
    difference(old, new).iter().map(ToString::to_string).collect()
}

fn edited(edit: impl Fn(String) -> String) -> State {
    State::from_document(&edit(DOCUMENT.to_owned())).expect("valid")
}

#[test]
fn a_whole_is_told_object_by_object_with_what_is_not_by_default() {
    let (none, all) = (State::default(), state());
    assert_eq!(
        told(&none, &all),
        [
            "Load balancer 'gw' is created",
            "Listener of load balancer 'gw' is created",
            "Listener of load balancer 'gw': 'target_group' is 'fw'",
            "Target group 'fw' is created",
            "Target group 'fw': target 10.0.0.1 is registered (zone 'a')",
            "Target group 'fw': target 10.0.0.2 is registered (weight 3)",
            "Target group 'spare' is created",
        ]
    );
    assert_eq!(
        told(&all, &none),
        ["Load balancer 'gw' is deleted", "Target group 'fw' is deleted", "Target group 'spare' is deleted"]
    );
    assert_eq!(told(&all, &all), [""; 0]);
}

#[test]
fn every_setting_is_told_with_what_it_was() {
    let other = edited(|text| {
        text.replace(
            r#""listener": { "target_group": "fw" }"#,
            r#""ip_address_type": "dualstack", "zones": ["b", "a"], "attributes": { "deletion_protection.enabled": true },
               "listener": { "target_group": "spare", "attributes": { "tcp.idle_timeout.seconds": 60 } }"#,
        )
        .replace(
            r#""name": "spare""#,
            r#""name": "spare", "attributes": { "deregistration_delay.timeout_seconds": 5 },
               "health_check": { "protocol": "HTTP", "path": "/up", "matcher": "204", "port": "traffic-port",
                                 "interval_seconds": 30, "timeout_seconds": 6, "healthy_threshold": 3, "unhealthy_threshold": 4 }"#,
        )
    });
    let there = [
        "Load balancer 'gw': 'ip_address_type' changes from 'ipv4' to 'dualstack'",
        "Load balancer 'gw': 'zones' changes from 'all' to 'a, b'",
        "Load balancer 'gw': 'deletion_protection.enabled' changes from 'false' to 'true'",
        "Listener of load balancer 'gw': 'target_group' changes from 'fw' to 'spare'",
        "Listener of load balancer 'gw': 'tcp.idle_timeout.seconds' changes from '350' to '60'",
        "Target group 'spare': 'health_check.protocol' changes from 'TCP' to 'HTTP'",
        "Target group 'spare': 'health_check.path' is '/up'",
        "Target group 'spare': 'health_check.matcher' is '204'",
        "Target group 'spare': 'health_check.port' changes from '80' to 'traffic-port'",
        "Target group 'spare': 'health_check.interval_seconds' changes from '10' to '30'",
        "Target group 'spare': 'health_check.timeout_seconds' changes from '5' to '6'",
        "Target group 'spare': 'health_check.healthy_threshold' changes from '5' to '3'",
        "Target group 'spare': 'health_check.unhealthy_threshold' changes from '2' to '4'",
        "Target group 'spare': 'deregistration_delay.timeout_seconds' changes from '300' to '5'",
    ];
    assert_eq!(told(&state(), &other), there);
    let back = told(&other, &state());
    // What is asked for over HTTP is nothing over TCP.
    assert_eq!(back.len(), there.len() - 2);
    assert!(back.contains(&"Load balancer 'gw': 'zones' changes from 'a, b' to 'all'".to_owned()));
}

#[test]
fn a_target_is_told_by_what_becomes_of_it() {
    let document = |targets: &str| {
        let text =
            format!(r#"{{ "version": 1, "target_groups": [ {{ "name": "g", "targets": [{targets}] }} ] }}"#);
        State::from_document(&text).expect("valid")
    };
    let none = document("");
    let plain = document(r#"{ "address": "10.0.0.1" }"#);
    let other = document(r#"{ "address": "10.0.0.1", "weight": 5, "zone": "b" }"#);
    let drains = document(r#"{ "address": "10.0.0.1", "draining_since_unix_ms": 7 }"#);
    let later = document(r#"{ "address": "10.0.0.1", "draining_since_unix_ms": 8 }"#);
    for (old, new, expected) in [
        (&none, &plain, "is registered"),
        (&none, &other, "is registered (weight 5, zone 'b')"),
        (&none, &drains, "is draining"),
        (&plain, &other, "changes: weight from 1 to 5, zone from 'all' to 'b'"),
        (&plain, &drains, "is deregistered and drains"),
        (&plain, &none, "is removed"),
        (&drains, &none, "has drained and is removed"),
        (&drains, &other, "was draining and is registered again (weight 5, zone 'b')"),
        (&drains, &later, "changes: the start of its drain"),
    ] {
        assert_eq!(told(old, new), [format!("Target group 'g': target 10.0.0.1 {expected}")]);
    }
}

// O-5
#[test]
fn another_object_of_the_same_name_is_told() {
    let old =
        edited(|text| text.replace(r#""name": "spare""#, r#""name": "spare", "id": "00000000000000aa""#));
    let replaced = "is replaced by another of the same name, with another ARN";
    assert_eq!(told(&old, &state()), [format!("Target group 'spare' {replaced}")]);
    let other = edited(|text| {
        text.replace(
            r#""name": "gw", "listener": {"#,
            r#""name": "gw", "id": "00000000000000bb", "listener": { "id": "00000000000000cc","#,
        )
    });
    assert_eq!(
        told(&state(), &other),
        [format!("Load balancer 'gw' {replaced}"), format!("Listener of load balancer 'gw' {replaced}")]
    );
}

#[test]
fn what_is_kept_for_awss_tools_is_told_too() {
    let with = |balancer: &str, listener: &str, group: &str| {
        edited(|text| {
            text.replace(
                r#""name": "gw", "listener": { "#,
                &format!(r#""name": "gw", {balancer} "listener": {{ {listener} "#),
            )
            .replace(r#""name": "spare""#, &format!(r#""name": "spare" {group}"#))
        })
    };
    let one = with(
        r#""subnets": [{ "id": "s1", "zone": "a" }, { "id": "s2", "zone": "b" }], "created_unix_ms": 5, "tags": { "k": "v", "l": "1" },"#,
        r#""tags": { "a": "b" },"#,
        r#", "vpc_id": "vpc-1", "tags": { "x": "" }"#,
    );
    assert_eq!(
        told(&state(), &one),
        [
            "Load balancer 'gw': 'zones' changes from 'all' to 'a (s1), b (s2)'",
            "Load balancer 'gw': tag 'k' is 'v'",
            "Load balancer 'gw': tag 'l' is '1'",
            "Listener of load balancer 'gw': tag 'a' is 'b'",
            "Target group 'spare': 'vpc_id' changes from 'none' to 'vpc-1'",
            "Target group 'spare': tag 'x' is ''",
        ]
    );
    let other = with(r#""subnets": [{ "id": "s1" }], "tags": { "k": "w" },"#, "", "");
    assert_eq!(
        told(&one, &other)[..4],
        [
            "Load balancer 'gw': 'zones' changes from 'a (s1), b (s2)' to 's1'",
            "Load balancer 'gw': tag 'k' changes from 'v' to 'w'",
            "Load balancer 'gw': tag 'l' is taken away",
            "Listener of load balancer 'gw': tag 'a' is taken away",
        ]
    );
}

#[test]
fn an_attribute_that_is_given_its_default_is_no_difference() {
    let given = |state: &State, value| {
        let change = Change::ModifyTargetGroupAttributes {
            target_group: "fw".to_owned(),
            attributes: pairs(&[("deregistration_delay.timeout_seconds", value)]),
        };
        state.apply(&change).expect("accepted").0
    };
    let next = given(&given(&state(), "299"), "300");
    let attributes = |state: &State| state.target_group("fw").expect("the group").attributes.clone();
    assert_ne!(attributes(&next), attributes(&state()), "it is kept that it was given");
    assert_eq!(told(&state(), &next), [""; 0]);
}
