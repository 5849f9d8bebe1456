//! What a document may say, and how each fault is told: its code, its path, and a sentence with what
//! was seen and what was expected.

use serde_json::{Value, json};

use super::*;
use crate::control::model::fixture;
use crate::control::model::objects::Registration;

/// The fixture with the value at `pointer` replaced, or put there.
fn edited(pointer: &str, value: Value) -> String {
    let mut document: Value = serde_json::from_str(fixture::DOCUMENT).expect("the fixture");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match document.pointer_mut(parent).expect("the parent") {
        Value::Object(object) => {
            object.insert(key.to_owned(), value);
        }
        Value::Array(array) => array.push(value),
        other => panic!("{other} has no parts"),
    }
    document.to_string()
}

fn refusal(document: &str) -> ModelError {
    State::from_document(document).expect_err(document)
}

/// Code, path and message of the refusal that replacing one value leads to.
type Fault = (&'static str, Value, ErrorCode, &'static str, &'static str);

fn assert_faults(faults: &[Fault]) {
    for (pointer, value, code, path, message) in faults {
        let error = refusal(&edited(pointer, value.clone()));
        let seen = (error.code, error.path.as_deref(), error.message.as_str());
        // serde_json adds the line and column, which are those of the edited text.
        let message_seen = seen.2.split(" at line ").next().expect("split gives one at least");
        assert_eq!((seen.0, seen.1, message_seen), (*code, Some(*path), *message), "{pointer} = {value}");
    }
}

#[test]
fn the_fixture_is_read_as_it_says() {
    let state = fixture::state();
    let balancer = state.load_balancer("gw").expect("there");
    assert_eq!(balancer.ip_address_type, IpAddressType::Ipv4, "O-1");
    assert_eq!(balancer.listener.as_ref().expect("a listener").target_group.as_str(), "fw");
    let targets: Vec<_> =
        state.target_group_of(balancer).expect("it has a listener").targets.iter().collect();
    let told = targets.iter().map(|(address, target)| {
        (address.to_string(), target.zone.as_ref().map(Zone::as_str), target.weight.get())
    });
    let expected = [("10.0.0.1".to_owned(), Some("a"), 1), ("10.0.0.2".to_owned(), None, 3)];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(state.generation(), 0);
}

#[test]
fn o1_o2_objects_that_cannot_be_are_refused() {
    use ErrorCode::{
        DuplicateLoadBalancerName, DuplicateTargetGroupName, TargetGroupAssociationLimit,
        TargetGroupNotFound, UnsupportedProtocol, ValidationError,
    };
    assert_faults(&[
        (
            "/load_balancers/0/listener/target_group",
            json!("nowhere"),
            TargetGroupNotFound,
            "load_balancers[0].listener.target_group",
            "there is no target group 'nowhere' in this document",
        ),
        (
            "/load_balancers/-",
            json!({ "name": "gw2", "listener": { "target_group": "fw" } }),
            TargetGroupAssociationLimit,
            "load_balancers[1].listener.target_group",
            "the target group 'fw' is used by the load balancer 'gw' already",
        ),
        (
            "/load_balancers/-",
            json!({ "name": "gw", "listener": { "target_group": "spare" } }),
            DuplicateLoadBalancerName,
            "load_balancers[1].name",
            "another load balancer is called 'gw' already",
        ),
        (
            "/target_groups/-",
            json!({ "name": "fw" }),
            DuplicateTargetGroupName,
            "target_groups[2].name",
            "another target group is called 'fw' already",
        ),
        (
            "/load_balancers/-",
            json!({ "name": "gw2", "listener": {} }),
            ValidationError,
            "load_balancers[1].listener",
            "missing field `target_group`",
        ),
        (
            "/load_balancers/0/ip_address_type",
            json!("ipv6"),
            ValidationError,
            "load_balancers[0].ip_address_type",
            "unknown variant `ipv6`, expected `ipv4` or `dualstack`",
        ),
        (
            "/target_groups/1/protocol",
            json!("TCP"),
            UnsupportedProtocol,
            "target_groups[1].protocol",
            "'TCP' must be 'GENEVE'",
        ),
        (
            "/target_groups/1/port",
            json!(6082),
            ValidationError,
            "target_groups[1].port",
            "'6082' must be '6081'",
        ),
        (
            "/target_groups/1/name",
            json!("fw_2"),
            ValidationError,
            "target_groups[1].name",
            "the name 'fw_2' must be 1 to 32 letters, digits and hyphens",
        ),
        (
            "/load_balancers/0/zones",
            json!(["a", "all"]),
            ValidationError,
            "load_balancers[0].zones[1]",
            "'all' means every zone and cannot be the name of one",
        ),
        (
            "/target_groups/0/id",
            json!("1"),
            ValidationError,
            "target_groups[0].id",
            "the id '1' must be 16 hexadecimal digits in lower case",
        ),
    ]);
}

#[test]
fn o3_targets_that_cannot_be_are_refused() {
    use ErrorCode::{InvalidTarget, ValidationError};
    let at = "/target_groups/0/targets/-";
    let path = "target_groups[0].targets[2].address";
    assert_faults(&[
        (
            at,
            json!({ "address": "10.0.0.1", "weight": 2 }),
            InvalidTarget,
            path,
            "the address '10.0.0.1' is in this group already",
        ),
        (
            at,
            json!({ "address": "239.1.1.1" }),
            InvalidTarget,
            path,
            "The address '239.1.1.1' is a multicast address and cannot be a target",
        ),
        (
            at,
            json!({ "address": "0.0.0.0" }),
            InvalidTarget,
            path,
            "The address '0.0.0.0' is not set and cannot be a target",
        ),
        (
            at,
            json!({ "address": "127.0.0.1" }),
            InvalidTarget,
            path,
            "The address '127.0.0.1' is a loopback address and cannot be a target",
        ),
        (
            at,
            json!({ "address": "255.255.255.255" }),
            InvalidTarget,
            path,
            "The address '255.255.255.255' is the broadcast address and cannot be a target",
        ),
        (
            at,
            json!({ "address": "2001:db8::1" }),
            ValidationError,
            path,
            "'2001:db8::1' must be an IPv4 address such as 192.0.2.1",
        ),
        (
            "/target_groups/0/targets/-",
            json!({ "address": "10.0.0.9", "weight": 0 }),
            ValidationError,
            "target_groups[0].targets[2].weight",
            "the weight 0 must be between 1 and 1000",
        ),
        (
            "/target_groups/0/targets/-",
            json!({ "address": "10.0.0.9", "weight": 1001 }),
            ValidationError,
            "target_groups[0].targets[2].weight",
            "the weight 1001 must be between 1 and 1000",
        ),
    ]);
}

#[test]
fn o3_more_targets_than_there_is_room_for_are_refused() {
    // Groups of the most targets that one can have, but for the last, which has `rest`.
    let document = |full: usize, rest: usize| {
        let sizes = vec![4096; full].into_iter().chain([rest]);
        let group = |(position, size): (usize, usize)| {
            let address = |n: usize| format!("10.{position}.{}.{}", n / 256, n % 256);
            let targets: Vec<_> = (0..size).map(|n| json!({ "address": address(n) })).collect();
            json!({ "name": format!("g{position}"), "targets": targets })
        };
        json!({ "version": 1, "target_groups": sizes.enumerate().map(group).collect::<Vec<_>>() }).to_string()
    };
    State::from_document(&document(1, 4096)).expect("as many as there is room for");
    for (document, path, message) in [
        (
            document(0, 4097),
            "target_groups[0].targets",
            "Target group 'g0' would have 4097 targets; it can have 4096",
        ),
        (document(2, 1), "target_groups[2].targets", "This node would have 8193 targets; it can have 8192"),
    ] {
        let error = State::from_document(&document).expect_err("too many");
        assert_eq!(error.code, ErrorCode::TooManyTargets);
        assert_eq!((error.path.as_deref(), error.message.as_str()), (Some(path), message));
    }
}

#[test]
fn h1_health_checks_that_cannot_be_are_refused() {
    use ErrorCode::{UnsupportedProtocol, ValidationError};
    let at = "/target_groups/1/health_check";
    assert_faults(&[
        (
            at,
            json!({ "protocol": "UDP" }),
            UnsupportedProtocol,
            "target_groups[1].health_check.protocol",
            "'UDP' must be one of [TCP, HTTP, HTTPS]",
        ),
        (
            at,
            json!({ "protocol": "https" }),
            ValidationError,
            "target_groups[1].health_check.protocol",
            "'https' must be one of [TCP, HTTP, HTTPS]",
        ),
        (
            at,
            json!({ "port": 0 }),
            ValidationError,
            "target_groups[1].health_check.port",
            "'0' must be a port from 1 to 65535 or 'traffic-port'",
        ),
        (
            at,
            json!({ "port": "65536" }),
            ValidationError,
            "target_groups[1].health_check.port",
            "'65536' must be a port from 1 to 65535 or 'traffic-port'",
        ),
        (
            at,
            json!({ "port": "http" }),
            ValidationError,
            "target_groups[1].health_check.port",
            "'http' must be a port from 1 to 65535 or 'traffic-port'",
        ),
        (
            at,
            json!({ "path": "/" }),
            ValidationError,
            "target_groups[1].health_check.path",
            "a path is for the protocols HTTP and HTTPS, and this check is TCP",
        ),
        (
            at,
            json!({ "matcher": "200" }),
            ValidationError,
            "target_groups[1].health_check.matcher",
            "a matcher is for the protocols HTTP and HTTPS, and this check is TCP",
        ),
        (
            at,
            json!({ "protocol": "HTTP", "path": "/a b" }),
            ValidationError,
            "target_groups[1].health_check.path",
            "'/a b' must start with '/' and be 1 to 1024 visible ASCII characters",
        ),
        (
            at,
            json!({ "protocol": "HTTP", "matcher": "200-404" }),
            ValidationError,
            "target_groups[1].health_check.matcher",
            "'200-404' must be codes from 200 to 399, or ranges of them, such as '200,301-302'",
        ),
        (
            at,
            json!({ "interval_seconds": 4 }),
            ValidationError,
            "target_groups[1].health_check.interval_seconds",
            "'interval_seconds' value '4' must be between '5-300' inclusive",
        ),
        (
            at,
            json!({ "interval_seconds": 301 }),
            ValidationError,
            "target_groups[1].health_check.interval_seconds",
            "'interval_seconds' value '301' must be between '5-300' inclusive",
        ),
        (
            at,
            json!({ "timeout_seconds": 1 }),
            ValidationError,
            "target_groups[1].health_check.timeout_seconds",
            "'timeout_seconds' value '1' must be between '2-120' inclusive",
        ),
        (
            at,
            json!({ "interval_seconds": 300, "timeout_seconds": 121 }),
            ValidationError,
            "target_groups[1].health_check.timeout_seconds",
            "'timeout_seconds' value '121' must be between '2-120' inclusive",
        ),
        (
            at,
            json!({ "unhealthy_threshold": 11 }),
            ValidationError,
            "target_groups[1].health_check.unhealthy_threshold",
            "'unhealthy_threshold' value '11' must be between '2-10' inclusive",
        ),
    ]);
}

#[test]
fn h1_both_ends_of_every_range_are_accepted() {
    let longest = format!("/{}", "p".repeat(1023));
    for check in [
        json!({ "interval_seconds": 5, "timeout_seconds": 2, "healthy_threshold": 2, "unhealthy_threshold": 2 }),
        json!({ "interval_seconds": 300, "timeout_seconds": 120, "healthy_threshold": 10, "unhealthy_threshold": 10 }),
        json!({ "protocol": "HTTP", "port": 1, "path": "/", "matcher": "200" }),
        json!({ "protocol": "HTTPS", "port": "traffic-port", "path": "/", "matcher": "200" }),
        json!({ "protocol": "HTTP", "port": 65535, "path": longest, "matcher": "200-399" }),
        json!({ "port": "traffic-port" }),
        json!({ "port": "8080" }),
    ] {
        let document = edited("/target_groups/1/health_check", check);
        State::from_document(&document).expect(&document);
    }
    let too_long = json!({ "protocol": "HTTP", "path": format!("{longest}p") });
    refusal(&edited("/target_groups/1/health_check", too_long));
}

#[test]
fn a11_attributes_are_refused_in_the_words_of_aws_and_at_their_key() {
    use ErrorCode::ValidationError;
    assert_faults(&[
        (
            "/load_balancers/0/listener/attributes",
            json!({ "tcp.idle_timeout.seconds": 59 }),
            ValidationError,
            "load_balancers[0].listener.attributes.\"tcp.idle_timeout.seconds\"",
            "'tcp.idle_timeout.seconds' value '59' must be between '60-6000' inclusive",
        ),
        (
            "/target_groups/0/attributes",
            json!({ "deregistration_delay.timeout_seconds": "-1" }),
            ValidationError,
            "target_groups[0].attributes.\"deregistration_delay.timeout_seconds\"",
            "'deregistration_delay.timeout_seconds' value '-1' must be between '0-3600' inclusive",
        ),
        (
            "/target_groups/0/attributes",
            json!({ "stickiness.enabled": "yes" }),
            ValidationError,
            "target_groups[0].attributes.\"stickiness.enabled\"",
            "'yes' must be one of [true, false]",
        ),
        (
            "/load_balancers/0/attributes",
            json!({ "access_logs.s3.enabled": true }),
            ValidationError,
            "load_balancers[0].attributes.\"access_logs.s3.enabled\"",
            "Load balancer attribute key 'access_logs.s3.enabled' is not recognized",
        ),
        (
            "/target_groups/0/attributes",
            json!({ "stickiness.enabled": null }),
            ValidationError,
            "target_groups[0].attributes.\"stickiness.enabled\"",
            "invalid type: null, expected a string, a whole number or a truth value",
        ),
        (
            "/target_groups/0/attributes",
            json!({ "target_failover.on_unhealthy": "rebalance" }),
            ValidationError,
            "target_groups[0].attributes",
            "Target group attribute keys 'target_failover.on_unhealthy' and \
             'target_failover.on_deregistration' must both be set to the same value for this target group",
        ),
        (
            "/target_groups/0/attributes",
            json!({ "stickiness.enabled": true, "send_tcp_reset.on_unhealthy.enabled": true }),
            ValidationError,
            "target_groups[0].attributes",
            "Target group attribute 'send_tcp_reset.on_unhealthy.enabled' cannot be 'true' while \
             'stickiness.enabled' is 'true'",
        ),
    ]);
    let twice = r#"{ "version": 1, "target_groups": [ { "name": "fw", "attributes": {
        "stickiness.enabled": true, "stickiness.enabled": false } } ] }"#;
    assert_eq!(
        refusal(twice).to_string(),
        "target_groups[0].attributes.\"stickiness.enabled\": \
         Target group attribute key 'stickiness.enabled' is given twice"
    );
}

#[test]
fn a7_a_document_cannot_set_the_idle_timeout_of_a_sticky_group() {
    let mut document: Value = serde_json::from_str(fixture::DOCUMENT).expect("the fixture");
    document["target_groups"][0]["attributes"] = json!({ "stickiness.enabled": true });
    document["load_balancers"][0]["listener"]["attributes"] = json!({ "tcp.idle_timeout.seconds": 600 });
    let error = refusal(&document.to_string());
    assert_eq!(error.path.as_deref(), Some("load_balancers[0].listener.attributes"));
    document["load_balancers"][0]["listener"]["attributes"] = json!({ "tcp.idle_timeout.seconds": 350 });
    State::from_document(&document.to_string()).expect("350 is what sticky flows have");
}

#[test]
fn what_is_no_objects_document_is_refused_where_it_is_at_fault() {
    let cases = [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("[]", "invalid length 0, expected an object at line 1 column 2"),
        ("{}", "missing field `version` at line 1 column 2"),
        ("{\"version\": 1} x", "trailing characters at line 1 column 16"),
        ("{\"version\": 2, \"regions\": []}", "version: version 2 of the format is not known here, only 1"),
        (
            "{\"version\": 1, \"taget_groups\": []}",
            "taget_groups: unknown field `taget_groups`, expected one of `version`, `checksum`, `generation`, `last_change`, \
             `load_balancers`, `target_groups` at line 1 column 29",
        ),
        (
            "{\"version\": 1, \"target_groups\": {}}",
            "target_groups: invalid type: map, expected a sequence at line 1 column 32",
        ),
        (
            "{\"version\": 1, \"target_groups\": [ { \"name\": \"fw\", \"weight\": 3 } ]}",
            "target_groups[0].weight: unknown field `weight`, expected one of `name`, `id`, `protocol`, \
             `port`, `vpc_id`, `tags`, `health_check`, `attributes`, `targets` at line 1 column 58",
        ),
        (
            "{\"version\": 1, \"target_groups\": [ { \"name\": 7 } ]}",
            "target_groups[0].name: invalid type: integer `7`, expected a string at line 1 column 45",
        ),
    ];
    for (document, expected) in cases {
        assert_eq!(refusal(document).to_string(), expected, "{document}");
    }
}

#[test]
fn o5_ids_that_are_left_out_are_the_same_on_every_node_and_ids_given_are_kept() {
    let (one, other) = (fixture::state(), fixture::state());
    assert_eq!(one, other);
    let document = edited("/target_groups/0/id", json!("0123456789abcdef"));
    let state = State::from_document(&document).expect("valid");
    let arn = state.target_group("fw").expect("there").arn();
    assert!(arn.ends_with(":targetgroup/fw/0123456789abcdef"), "{arn}");
}

#[test]
fn the_order_in_a_document_makes_no_difference() {
    let mut document: Value = serde_json::from_str(fixture::DOCUMENT).expect("the fixture");
    for list in ["/target_groups/0/targets", "/target_groups"] {
        document.pointer_mut(list).and_then(Value::as_array_mut).expect("a list").reverse();
    }
    let state = State::from_document(&document.to_string()).expect("valid");
    assert_eq!(state.to_document(), fixture::state().to_document());
}

#[test]
fn what_is_stored_is_what_is_read_back() {
    let full = r#"{
        "version": 1, "generation": 41,
        "load_balancers": [ {
            "name": "gw", "id": "00000000000000a1", "ip_address_type": "dualstack",
            "subnets": [ { "id": "subnet-1", "zone": "a" }, { "id": "subnet-2", "zone": "b" } ],
            "created_unix_ms": 1699000000000, "tags": { "Owner": "net" },
            "attributes": { "load_balancing.cross_zone.enabled": true },
            "listener": { "id": "00000000000000a2", "target_group": "fw", "tags": { "Stage": "" },
                          "attributes": { "flowgate.tcp.unknown_flow": "reset" } }
        } ],
        "target_groups": [ {
            "name": "fw", "id": "00000000000000a3", "vpc_id": "vpc-1", "tags": { "a b": "c" },
            "health_check": { "protocol": "HTTPS", "port": "traffic-port", "path": "/up?full", "matcher": "200,301-302",
                              "interval_seconds": 20, "timeout_seconds": 6,
                              "healthy_threshold": 3, "unhealthy_threshold": 4 },
            "attributes": { "deregistration_delay.timeout_seconds": 60 },
            "targets": [ { "address": "10.0.0.1", "zone": "b", "weight": 9,
                           "draining_since_unix_ms": 1700000000000 } ]
        } ]
    }"#;
    let state = State::from_stored(full).expect("valid");
    assert_eq!(state.generation(), 41);
    let drain = state.drains().next().expect("one drains");
    assert_eq!(drain.ends_unix_ms(), 1_700_000_060_000);
    let group = drain.target_group;
    let draining = Registration::Draining { since_unix_ms: 1_700_000_000_000 };
    assert_eq!(group.targets[&drain.address].registration, draining);
    // Nothing that the text says is lost on the way through the types.
    let written: Value = serde_json::from_str(&state.to_document()).expect("JSON");
    let mut expected: Value = serde_json::from_str(full).expect("JSON");
    expected["target_groups"][0]["protocol"] = json!("GENEVE");
    expected["target_groups"][0]["port"] = json!(6081);
    expected["load_balancers"][0]["attributes"]["load_balancing.cross_zone.enabled"] = json!("true");
    expected["target_groups"][0]["attributes"]["deregistration_delay.timeout_seconds"] = json!("60");
    assert_eq!(written, expected);
    assert_eq!(State::from_stored(&state.to_document()), Ok(state));
}

#[test]
fn what_an_older_daemon_stored_is_read_and_says_no_more_than_it_did() {
    // As version 0.1.0 wrote it.
    let stored = r#"{
  "version": 1,
  "generation": 7,
  "load_balancers": [
    {
      "name": "-gw-",
      "id": "00000000000000a1",
      "ip_address_type": "ipv4",
      "zones": [
        "a"
      ],
      "listener": {
        "id": "00000000000000a2",
        "target_group": "fw"
      }
    }
  ],
  "target_groups": [
    {
      "name": "fw",
      "id": "00000000000000a3",
      "protocol": "GENEVE",
      "port": 6081,
      "health_check": {
        "protocol": "TCP",
        "port": 80,
        "interval_seconds": 10,
        "timeout_seconds": 5,
        "healthy_threshold": 5,
        "unhealthy_threshold": 2
      },
      "targets": []
    }
  ]
}
"#;
    let state = State::from_stored(stored).expect("read");
    let balancer = state.load_balancer("-gw-").expect("there");
    assert_eq!(balancer.created_unix_ms, None);
    assert!(balancer.tags.is_empty() && balancer.placement.places().len() == 1);
    assert_eq!(state.target_group("fw").expect("there").vpc_id, None);
    let written: Value = serde_json::from_str(&state.to_document()).expect("JSON");
    assert_eq!(
        written["load_balancers"],
        serde_json::from_str::<Value>(stored).expect("JSON")["load_balancers"]
    );
    assert_eq!(State::from_stored(&state.to_document()), Ok(state));
}

#[test]
fn tags_subnets_and_vpcs_that_cannot_be_are_refused() {
    use ErrorCode::{DuplicateTagKeys, InvalidConfigurationRequest, TooManyTags, ValidationError};
    let many: serde_json::Map<String, Value> = (0..51).map(|n| (format!("k{n}"), json!("v"))).collect();
    let subnets = "/load_balancers/0/subnets";
    assert_faults(&[
        (
            "/load_balancers/0/tags",
            json!({ "aws:owner": "x" }),
            ValidationError,
            "load_balancers[0].tags.\"aws:owner\"",
            "The tag key 'aws:owner' cannot begin with 'aws:'",
        ),
        (
            "/load_balancers/0/listener/tags",
            json!({ "k": 1 }),
            ValidationError,
            "load_balancers[0].listener.tags.k",
            "invalid type: integer `1`, expected a string",
        ),
        (
            "/target_groups/1/tags",
            Value::Object(many),
            TooManyTags,
            "target_groups[1].tags",
            "A resource would have 51 tags; it can have 50",
        ),
        (
            "/target_groups/1/vpc_id",
            json!("vpc 1"),
            ValidationError,
            "target_groups[1].vpc_id",
            "the id 'vpc 1' must be 1 to 128 letters, digits and '._:/-'",
        ),
        (
            subnets,
            json!([{ "id": "s1", "zone": "a" }, { "id": "s2", "zone": "a" }]),
            InvalidConfigurationRequest,
            "load_balancers[0].subnets[1]",
            "A load balancer cannot be attached to multiple subnets in the same Availability Zone",
        ),
    ]);
    let both = r#"{ "version": 1, "load_balancers": [ { "name": "gw", "zones": ["a"], "subnets": [{ "id": "s" }] } ] }"#;
    assert_eq!(refusal(both).path.as_deref(), Some("load_balancers[0].subnets"));
    let twice = r#"{ "version": 1, "target_groups": [ { "name": "fw", "tags": { "a": "1", "a": "1" } } ] }"#;
    let error = refusal(twice);
    assert_eq!((error.code, error.path.as_deref()), (DuplicateTagKeys, Some("target_groups[0].tags.a")));
}

#[test]
fn a5_a_stored_contradiction_does_not_keep_the_state_from_being_read() {
    let document = edited(
        "/target_groups/0/attributes",
        json!({
            "send_tcp_reset.on_unhealthy.enabled": true,
            "target_failover.on_unhealthy": "rebalance",
            "target_failover.on_deregistration": "rebalance"
        }),
    );
    refusal(&document);
    let stored = document.replacen('{', "{\"generation\": 3,", 1);
    let state = State::from_stored(&stored).expect("a stored one is read");
    assert!(!state.target_group("fw").expect("there").settings().reset_on_unhealthy);
}

#[test]
fn a_stored_document_without_its_generation_is_none_of_ours() {
    let error = State::from_stored(fixture::DOCUMENT).expect_err("no generation");
    assert_eq!(error.to_string(), "generation: the generation is missing");
}
