//! What each method answers, and how it refuses.

use crate::client::Client;
use crate::fake::{Daemon, Fake};
use flowgate::control::socket::{Call, Peer, Role, Session, Subscribers, methods};
use serde_json::{Value, json};

const GROUP_ARN: &str =
    "arn:aws:elasticloadbalancing:xx-local-1:000000000000:targetgroup/fw/00000000000000cc";

fn daemon() -> (Daemon, Client) {
    let daemon = Daemon::start();
    let client = Client::connect(&daemon.path());
    (daemon, client)
}

fn value_of(result: &Value, key: &str) -> String {
    let attributes = result["Attributes"].as_array().unwrap();
    let found = attributes.iter().find(|attribute| attribute["Key"] == key);
    found.unwrap_or_else(|| panic!("no {key}"))["Value"].as_str().unwrap().to_owned()
}

#[test]
fn the_first_line_says_who_speaks_what_and_at_which_generation() {
    let daemon = Daemon::start();
    let mut client = Client::connect_rudely(&daemon.path());
    assert_eq!(
        client.read(),
        json!({"jsonrpc": "2.0", "method": "hello", "params": {
            "Product": "flowgate", "Version": env!("CARGO_PKG_VERSION"),
            "Protocol": {"Major": 1, "Minor": 3}, "Generation": 0, "Role": "admin", "MaxLine": 1_048_576, "MaxBatch": 1000
        }})
    );
    client
        .call("deregister-targets", json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.1"}]}))
        .unwrap();
    let hello = Client::connect_rudely(&daemon.path()).read();
    assert_eq!(hello["params"]["Generation"], 1);
}

// O-5
#[test]
fn a_name_serves_wherever_an_arn_does() {
    let (_daemon, mut client) = daemon();
    for (method, params_by) in [
        ("describe-target-health", "TargetGroupArn"),
        ("describe-target-group-attributes", "TargetGroupArn"),
        ("describe-load-balancer-attributes", "LoadBalancerArn"),
        ("describe-listener-attributes", "ListenerArn"),
    ] {
        let arn = match params_by {
            "TargetGroupArn" => GROUP_ARN.to_owned(),
            "LoadBalancerArn" => client.call("describe-load-balancers", json!({})).unwrap()["LoadBalancers"]
                [0]["LoadBalancerArn"]
                .as_str()
                .unwrap()
                .to_owned(),
            _ => client.call("describe-listeners", json!({})).unwrap()["Listeners"][0]["ListenerArn"]
                .as_str()
                .unwrap()
                .to_owned(),
        };
        let name = if params_by == "TargetGroupArn" { "fw" } else { "gw" };
        let by_name = client.call(method, json!({params_by: name})).unwrap();
        assert_eq!(by_name, client.call(method, json!({params_by: arn})).unwrap(), "{method}");
    }
    let all = client.call("describe-target-groups", json!({})).unwrap();
    assert_eq!(all["TargetGroups"].as_array().unwrap().len(), 2);
    for params in
        [json!({"Names": ["fw"]}), json!({"TargetGroupArns": [GROUP_ARN]}), json!({"LoadBalancerArn": "gw"})]
    {
        let one = client.call("describe-target-groups", params).unwrap();
        assert_eq!(one["TargetGroups"], json!([all["TargetGroups"][0]]));
    }
}

#[test]
fn h7_the_detection_time_is_shown_wherever_the_check_is() {
    let (_daemon, mut client) = daemon();
    let mut seen = || {
        let groups = client.call("describe-target-groups", json!({"Names": ["fw"]})).unwrap();
        let attributes =
            client.call("describe-target-group-attributes", json!({"TargetGroupArn": "fw"})).unwrap();
        let health = client.call("describe-target-health", json!({"TargetGroupArn": "fw"})).unwrap();
        [&groups["TargetGroups"][0], &attributes, &health].map(|result| result["DetectionTimeMs"].clone())
    };
    // 5 s × 2.
    assert_eq!(seen(), [10_000, 10_000, 10_000]);
    client
        .call(
            "modify-target-group-attributes",
            json!({"TargetGroupArn": "fw", "Attributes": [
                {"Key": "flowgate.health_check.interval_ms", "Value": "100"},
                {"Key": "flowgate.health_check.timeout_ms", "Value": "50"}
            ]}),
        )
        .unwrap();
    let mut seen = || {
        let health = client.call("describe-target-health", json!({"TargetGroupArn": "fw"})).unwrap();
        health["DetectionTimeMs"].clone()
    };
    assert_eq!(seen(), 200);
}

#[test]
fn a11_a_change_is_all_or_nothing_and_says_which_key_is_at_fault() {
    let (_daemon, mut client) = daemon();
    let error = client
        .call(
            "modify-target-group-attributes",
            json!({"TargetGroupArn": "fw", "Attributes": [
                {"Key": "deregistration_delay.timeout_seconds", "Value": "10"},
                {"Key": "send_tcp_reset.on_unhealthy.enabled", "Value": "yes"}
            ]}),
        )
        .unwrap_err();
    assert_eq!(
        error,
        json!({"code": -32000, "message": "'yes' must be one of [true, false]", "data": {
            "kind": "ValidationError", "path": "Attributes.\"send_tcp_reset.on_unhealthy.enabled\""}})
    );
    let now = client.call("describe-target-group-attributes", json!({"TargetGroupArn": "fw"})).unwrap();
    assert_eq!(value_of(&now, "deregistration_delay.timeout_seconds"), "300");
    assert_eq!(now["Generation"], 0);
}

//
#[test]
fn each_kind_of_attribute_can_be_set_and_read_back() {
    let (_daemon, mut client) = daemon();
    for (number, (kind, parameter, name, key, value)) in [
        ("target-group", "TargetGroupArn", "fw", "send_tcp_reset.on_unhealthy.enabled", "true"),
        ("listener", "ListenerArn", "gw", "tcp.idle_timeout.seconds", "60"),
        ("load-balancer", "LoadBalancerArn", "gw", "load_balancing.cross_zone.enabled", "true"),
    ]
    .into_iter()
    .enumerate()
    {
        let change = json!({parameter: name, "Attributes": [{"Key": key, "Value": value}]});
        let answer = client.call(&format!("modify-{kind}-attributes"), change).unwrap();
        assert_eq!(answer["Generation"], number + 1);
        assert_eq!(value_of(&answer, key), value);
        let read = client.call(&format!("describe-{kind}-attributes"), json!({parameter: name})).unwrap();
        assert_eq!(read, answer);
    }
}

#[test]
fn o3_targets_come_and_go_and_what_did_not_change_is_not_listed() {
    let (_daemon, mut client) = daemon();
    let register = json!({"TargetGroupArn": "fw", "Targets": [
        {"Id": "10.0.0.9", "Port": 6081, "AvailabilityZone": "b", "Weight": 5}, {"Id": "10.0.0.1"}]});
    let answer = client.call("register-targets", register.clone()).unwrap();
    assert_eq!(answer, json!({"Changed": [{"Id": "10.0.0.9", "Change": "registered"}], "Generation": 1}));
    assert_eq!(client.call("register-targets", register).unwrap(), json!({"Changed": [], "Generation": 1}));

    let health = client
        .call("describe-target-health", json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.9"}]}))
        .unwrap();
    assert_eq!(
        health["TargetHealthDescriptions"][0]["Target"],
        json!({"Id": "10.0.0.9", "Port": 6081, "AvailabilityZone": "b", "Weight": 5})
    );

    let leave = json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.9"}, {"Id": "10.9.9.9"}]});
    let answer = client.call("deregister-targets", leave.clone()).unwrap();
    assert_eq!(answer, json!({"Changed": [{"Id": "10.0.0.9", "Change": "draining"}], "Generation": 2}));
    assert_eq!(client.call("deregister-targets", leave).unwrap()["Generation"], 2);
    // T-7.
    let back = json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.9"}]});
    let answer = client.call("register-targets", back).unwrap();
    assert_eq!(answer["Changed"], json!([{"Id": "10.0.0.9", "Change": "reregistered"}]));
}

// O-3
#[test]
fn targets_that_cannot_be_are_refused_with_their_place_in_the_request() {
    let (_daemon, mut client) = daemon();
    let mut refusal = |target: Value| {
        let targets = json!([{"Id": "10.0.0.8"}, target]);
        let error =
            client.call("register-targets", json!({"TargetGroupArn": "fw", "Targets": targets})).unwrap_err();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&error["data"]["kind"]), text(&error["data"]["path"]), text(&error["message"]))
    };
    let (kind, path, _) = refusal(json!({"Id": "127.0.0.1"}));
    assert_eq!((kind.as_str(), path.as_str()), ("InvalidTarget", "Targets[1].Id"));
    let (kind, path, message) = refusal(json!({"Id": "10.0.0.1", "Port": 80}));
    assert_eq!((kind.as_str(), path.as_str()), ("ValidationError", "Targets[1].Port"));
    assert_eq!(message, "the port '80' must be 6081, or left out");
    let (kind, path, _) = refusal(json!({"Id": "10.0.0.1", "AvailabilityZone": "a b"}));
    assert_eq!((kind.as_str(), path.as_str()), ("ValidationError", "Targets[1].AvailabilityZone"));
    let (kind, path, _) = refusal(json!({"Id": "10.0.0.1", "Weight": 0}));
    assert_eq!((kind.as_str(), path.as_str()), ("ValidationError", "Targets[1].Weight"));
    let (kind, path, _) = refusal(json!({"Id": "fw1"}));
    assert_eq!((kind.as_str(), path.as_str()), ("ValidationError", "Targets[1].Id"));
    let health = client.call("describe-target-health", json!({"TargetGroupArn": "fw"})).unwrap();
    assert_eq!(health["TargetHealthDescriptions"].as_array().unwrap().len(), 3, "none was registered");
}

#[test]
fn h5_target_health_has_state_reason_since_flows_and_what_would_die() {
    let (_daemon, mut client) = daemon();
    let asked = json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.2"}, {"Id": "10.7.7.7"}]});
    let health = client.call("describe-target-health", asked).unwrap();
    assert_eq!(
        health["TargetHealthDescriptions"],
        json!([
            {"Target": {"Id": "10.0.0.2", "Port": 6081, "AvailabilityZone": "all", "Weight": 1},
             "HealthCheckPort": "8080",
             "TargetHealth": {"State": "unhealthy", "Reason": "Target.Timeout", "Description": "Request timed out"},
             "Since": {"UnixMs": 1_795_985_197_007_i64, "Rfc3339": "2026-11-29T20:46:37.007Z"},
             "Neighbour": {"NextHop": "10.0.0.2", "Mac": "02:00:00:00:00:11", "State": "reachable"},
             "Flows": 125, "WouldDie": 100,
             "InBand": {"PacketsToTarget": 5000, "PacketsFromTarget": 4000, "SilentForMs": 1500},
             "Neighbour": {"NextHop": "10.0.0.2", "Mac": "02:00:00:00:00:11", "State": "reachable"}},
            {"Target": {"Id": "10.7.7.7", "Port": 6081, "AvailabilityZone": "all", "Weight": 1},
             "HealthCheckPort": "8080",
             "TargetHealth": {"State": "unused", "Reason": "Target.NotRegistered",
                              "Description": "Target is not registered to the target group"},
             "Flows": 0, "WouldDie": 0}
        ])
    );
}

#[test]
fn what_is_not_there_is_told_by_its_kind_with_what_there_is() {
    let (_daemon, mut client) = daemon();
    let mut refusal = |method: &str, params: Value| client.call(method, params).unwrap_err()["data"].clone();
    assert_eq!(
        refusal("describe-target-health", json!({"TargetGroupArn": "fww"})),
        json!({"kind": "TargetGroupNotFound", "path": "TargetGroupArn", "hint": "did you mean fw?"})
    );
    assert_eq!(
        refusal("describe-target-health", json!({"TargetGroupArn": "printers"}))["hint"],
        "the target groups are fw, spare"
    );
    assert_eq!(
        refusal("register-targets", json!({"TargetGroupArn": "fww", "Targets": [{"Id": "10.0.0.1"}]}))["path"],
        "TargetGroupArn"
    );
    assert_eq!(
        refusal("describe-load-balancers", json!({"Names": ["gw", "gv"]})),
        json!({"kind": "LoadBalancerNotFound", "path": "Names[1]", "hint": "the only load balancer is gw"})
    );
    assert_eq!(
        refusal("describe-listener-attributes", json!({"ListenerArn": "gv"}))["kind"],
        "ListenerNotFound"
    );
    assert_eq!(
        refusal("describe-flows", json!({"Endpoint": "wan"})),
        json!({"kind": "EndpointNotFound", "path": "Endpoint", "hint": "the endpoints are lan, offices"})
    );
}

#[test]
fn a9_a_protected_load_balancer_is_not_deleted_and_a_group_in_use_neither() {
    let (_daemon, mut client) = daemon();
    let protect = |flag| json!({"LoadBalancerArn": "gw", "Attributes": [{"Key": "deletion_protection.enabled", "Value": flag}]});
    client.call("modify-load-balancer-attributes", protect("true")).unwrap();
    let arn =
        client.call("describe-load-balancers", json!({})).unwrap()["LoadBalancers"][0]["LoadBalancerArn"]
            .clone();
    let error = client.call("delete-load-balancer", json!({"LoadBalancerArn": arn})).unwrap_err();
    assert_eq!(
        (error["code"].as_i64(), &error["data"]["kind"]),
        (Some(-32000), &json!("OperationNotPermitted"))
    );
    let error = client.call("delete-target-group", json!({"TargetGroupArn": "fw"})).unwrap_err();
    assert_eq!(error["data"]["kind"], "ResourceInUse");
    client.call("modify-load-balancer-attributes", protect("false")).unwrap();
    assert_eq!(
        client.call("delete-load-balancer", json!({"LoadBalancerArn": arn})).unwrap(),
        json!({"Generation": 3})
    );
    assert_eq!(client.call("describe-load-balancers", json!({})).unwrap(), json!({"LoadBalancers": []}));
    assert_eq!(client.call("describe-listeners", json!({})).unwrap(), json!({"Listeners": []}));
    // Gone is gone: by its ARN a second time, and no name of anybody.
    assert_eq!(
        client.call("delete-load-balancer", json!({"LoadBalancerArn": arn})).unwrap(),
        json!({"Generation": 3})
    );
    let error = client.call("delete-load-balancer", json!({"LoadBalancerArn": "gw"})).unwrap_err();
    assert_eq!(error["data"]["kind"], "LoadBalancerNotFound");
    assert_eq!(
        client.call("delete-target-group", json!({"TargetGroupArn": GROUP_ARN})).unwrap(),
        json!({"Generation": 4})
    );
    assert_eq!(
        client.call("describe-target-groups", json!({})).unwrap()["TargetGroups"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn o1_o2_a_gateway_is_made_from_nothing_as_with_aws() {
    let (_daemon, mut client) = daemon();
    let group = json!({"Name": "web", "Protocol": "GENEVE", "Port": 6081, "TargetType": "ip",
        "HealthCheckProtocol": "HTTPS", "HealthCheckPort": "traffic-port", "Matcher": {"HttpCode": "204"}});
    let made = client.call("create-target-group", group.clone()).unwrap();
    let described = &made["TargetGroups"][0];
    assert_eq!(
        (&described["HealthCheckProtocol"], &described["HealthCheckPort"], &described["Matcher"]["HttpCode"]),
        (&json!("HTTPS"), &json!("traffic-port"), &json!("204"))
    );
    let balancer = json!({"Name": "branch", "Type": "gateway", "AvailabilityZones": ["b"]});
    let made_balancer = client.call("create-load-balancer", balancer.clone()).unwrap();
    let arn = made_balancer["LoadBalancers"][0]["LoadBalancerArn"].clone();
    assert_eq!(made_balancer["LoadBalancers"][0]["AvailabilityZones"], json!([{"ZoneName": "b"}]));
    let listener = json!({"LoadBalancerArn": arn,
        "DefaultActions": [{"Type": "forward", "TargetGroupArn": described["TargetGroupArn"]}]});
    let made_listener = client.call("create-listener", listener.clone()).unwrap();
    assert_eq!(made_listener["Generation"], 3);
    assert_eq!(made_listener["Listeners"][0]["LoadBalancerArn"], arn);
    // Asked for again, each is as it was.
    for (method, params, made) in
        [("create-load-balancer", balancer, "LoadBalancers"), ("create-listener", listener, "Listeners")]
    {
        let again = client.call(method, params).unwrap();
        assert_eq!(again["Generation"], 3, "{method}");
        assert!(again[made][0].is_object(), "{method}");
    }
    let again = client.call("create-target-group", group).unwrap();
    assert_eq!(again["TargetGroups"][0]["TargetGroupArn"], described["TargetGroupArn"]);
}

#[test]
fn what_cannot_be_created_is_refused_at_its_parameter() {
    let (_daemon, mut client) = daemon();
    for (method, params, kind, path) in [
        ("create-load-balancer", json!({"Name": "a b"}), "ValidationError", "Name"),
        ("create-load-balancer", json!({"Name": "x", "Type": "network"}), "ValidationError", "Type"),
        ("create-load-balancer", json!({"Name": "gw"}), "DuplicateLoadBalancerName", "Name"),
        ("create-target-group", json!({"Name": "x", "Protocol": "HTTP"}), "ValidationError", "Protocol"),
        ("create-target-group", json!({"Name": "x", "Port": 80}), "ValidationError", "Port"),
        (
            "create-target-group",
            json!({"Name": "x", "TargetType": "instance"}),
            "ValidationError",
            "TargetType",
        ),
        (
            "create-target-group",
            json!({"Name": "x", "HealthCheckEnabled": false}),
            "ValidationError",
            "HealthCheckEnabled",
        ),
        (
            "create-target-group",
            json!({"Name": "x", "HealthCheckProtocol": "UDP"}),
            "UnsupportedProtocol",
            "HealthCheckProtocol",
        ),
        (
            "create-target-group",
            json!({"Name": "x", "HealthCheckPort": "0"}),
            "ValidationError",
            "HealthCheckPort",
        ),
        (
            "create-target-group",
            json!({"Name": "x", "HealthCheckPath": "/"}),
            "ValidationError",
            "HealthCheckPath",
        ),
        (
            "create-target-group",
            json!({"Name": "x", "HealthCheckProtocol": "HTTP", "Matcher": {"HttpCode": "99"}}),
            "ValidationError",
            "Matcher.HttpCode",
        ),
        ("create-target-group", json!({"Name": "fw"}), "DuplicateTargetGroupName", "Name"),
        (
            "modify-target-group",
            json!({"TargetGroupArn": "fw", "HealthCheckIntervalSeconds": 4}),
            "ValidationError",
            "HealthCheckIntervalSeconds",
        ),
        ("modify-target-group", json!({"TargetGroupArn": "nobody"}), "TargetGroupNotFound", "TargetGroupArn"),
        (
            "create-listener",
            json!({"LoadBalancerArn": "gw", "DefaultActions": []}),
            "ValidationError",
            "DefaultActions",
        ),
        (
            "create-listener",
            json!({"LoadBalancerArn": "gw", "DefaultActions": [{"Type": "redirect", "TargetGroupArn": "fw"}]}),
            "InvalidLoadBalancerAction",
            "DefaultActions[0].Type",
        ),
        (
            "create-listener",
            json!({"LoadBalancerArn": "gw", "DefaultActions": [{"Type": "forward", "TargetGroupArn": "fww"}]}),
            "TargetGroupNotFound",
            "DefaultActions[0].TargetGroupArn",
        ),
        (
            "create-listener",
            json!({"LoadBalancerArn": "gw", "DefaultActions": [{"Type": "forward", "TargetGroupArn": "spare"}]}),
            "TooManyListeners",
            "LoadBalancerArn",
        ),
    ] {
        let error = client.call(method, params.clone()).unwrap_err();
        assert_eq!(
            (&error["data"]["kind"], &error["data"]["path"]),
            (&json!(kind), &json!(path)),
            "{method} {params}"
        );
    }
    let state = client.call("describe-target-group-attributes", json!({"TargetGroupArn": "fw"})).unwrap();
    assert_eq!(state["Generation"], 0);
}

#[test]
fn flows_are_filtered_and_limited_and_the_rest_is_counted() {
    let (_daemon, mut client) = daemon();
    let mut page = |params: Value| {
        let page = client.call("describe-flows", params).unwrap();
        (
            page["Flows"].as_array().unwrap().len(),
            page["Matching"].as_u64().unwrap(),
            page["Total"].as_u64().unwrap(),
        )
    };
    assert_eq!(page(json!({})), (100, 250, 250));
    assert_eq!(page(json!({"Limit": 1})), (1, 250, 250));
    assert_eq!(page(json!({"Protocol": "udp", "Limit": 1000})), (50, 50, 250));
    assert_eq!(page(json!({"Protocol": "17", "Target": "10.0.0.1"})), (25, 25, 250));
    assert_eq!(page(json!({"Port": 40_003})), (1, 1, 250));
    // The service is asked by name, whichever was given.
    assert_eq!(page(json!({"TargetGroupArn": GROUP_ARN})), (100, 250, 250));
    assert_eq!(page(json!({"TargetGroupArn": "spare"})), (0, 0, 250));
}

#[test]
fn counters_are_chosen_by_scope_and_name() {
    let (_daemon, mut client) = daemon();
    let mut scopes = |params: Value| -> Vec<String> {
        let sets = client.call("get-counters", params).unwrap()["Sets"].clone();
        sets.as_array().unwrap().iter().map(|set| set["Scope"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(scopes(json!({})), ["node", "target-group"]);
    assert_eq!(scopes(json!({"Scope": "node"})), ["node"]);
    assert_eq!(scopes(json!({"Name": "fw"})), ["target-group"]);
    assert!(scopes(json!({"Scope": "worker"})).is_empty());
}

#[test]
fn the_clock_can_be_advanced_only_where_the_daemon_was_started_for_it() {
    let (_daemon, mut client) = daemon();
    let clock = client.call("debug-advance-clock", json!({"Milliseconds": 60_000})).unwrap();
    assert_eq!(clock["Now"]["Rfc3339"], "2026-11-29T20:48:37.007Z");
    assert!(methods::dispatcher().methods().all(|method| method.name != "debug-advance-clock"));
    assert!(methods::debug_dispatcher().methods().any(|method| method.name == "debug-advance-clock"));
}

#[test]
fn a_change_that_cannot_be_stored_is_not_made_and_says_so() {
    let fake = Fake::new();
    fake.fill_the_disk();
    let session = Session::new(Peer { uid: 0, pid: None, role: Role::Admin }, Subscribers::new(1));
    let call = Call { service: &fake, session: &session };
    let dispatcher = methods::dispatcher();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let line = json!({"jsonrpc": "2.0", "id": "x", "method": "register-targets", "params":
        {"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.9"}]}});
    let answer = runtime.block_on(dispatcher.answer(&call, line.to_string().as_bytes())).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["id"], "x");
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(answer["error"]["data"]["kind"], "InternalFailure");
    assert!(answer["error"]["message"].as_str().unwrap().contains("no space left on device"));
}

#[test]
fn every_method_has_a_schema_of_what_it_takes_and_gives() {
    let mut generator = schemars::SchemaGenerator::default();
    for method in methods::debug_dispatcher().methods() {
        let params = (method.params)(&mut generator).to_value();
        assert_eq!(params["type"], "object", "{}", method.name);
        assert_eq!(params["additionalProperties"], false, "{} takes unknown parameters", method.name);
        let result = (method.result)(&mut generator).to_value();
        assert_eq!(result["type"], "object", "{}", method.name);
        assert!(method.summary.ends_with('.') && !method.summary.contains('\n'), "{}", method.name);
    }
}
