//! What all methods that change the configuration have in common.

use crate::client::Client;
use crate::fake::Daemon;
use flowgate::control::socket::methods;
use serde_json::{Value, json};
use std::time::Duration;

/// Proper parameters for each change, on the stand-in's objects.
pub fn example(method: &str) -> Value {
    let gateway_to = |group: &str| json!([{"Type": "forward", "TargetGroupArn": group}]);
    match method {
        "create-load-balancer" => json!({"Name": "branch"}),
        "delete-load-balancer" => json!({"LoadBalancerArn": "gw"}),
        "create-listener" => json!({"LoadBalancerArn": "gw", "DefaultActions": gateway_to("spare")}),
        "modify-listener" => json!({"ListenerArn": "gw", "DefaultActions": gateway_to("spare")}),
        "delete-listener" => json!({"ListenerArn": "gw"}),
        "create-target-group" => json!({"Name": "web", "Protocol": "GENEVE", "Port": 6081}),
        "modify-target-group" => json!({"TargetGroupArn": "fw", "HealthCheckIntervalSeconds": 10}),
        "delete-target-group" => json!({"TargetGroupArn": "spare"}),
        "register-targets" => json!({"TargetGroupArn": "spare", "Targets": [{"Id": "10.0.0.7"}]}),
        "deregister-targets" => json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.1"}]}),
        "modify-load-balancer-attributes" => json!({"LoadBalancerArn": "gw",
            "Attributes": [{"Key": "deletion_protection.enabled", "Value": "true"}]}),
        "modify-listener-attributes" => json!({"ListenerArn": "gw",
            "Attributes": [{"Key": "tcp.idle_timeout.seconds", "Value": "400"}]}),
        "modify-target-group-attributes" => json!({"TargetGroupArn": "fw",
            "Attributes": [{"Key": "deregistration_delay.timeout_seconds", "Value": "7"}]}),
        "set-subnets" => json!({"LoadBalancerArn": "gw", "AvailabilityZones": ["b"]}),
        "set-ip-address-type" => json!({"LoadBalancerArn": "gw", "IpAddressType": "dualstack"}),
        "add-tags" => json!({"ResourceArns": ["gw"], "Tags": [{"Key": "Owner", "Value": "net"}]}),
        "apply" => json!({"Document": {"version": 1}}),
        // To the seed, which the example's own change is one ahead of.
        "rollback" => json!({"Generation": 0}),
        // Whoever adds a change need not add it here, but may.
        _ => json!({}),
    }
}

fn with_generation(mut params: Value, generation: u64) -> Value {
    params["IfGeneration"] = generation.into();
    params
}

#[test]
fn every_change_can_be_made_for_one_generation_and_is_refused_at_another() {
    let mut made = 0;
    for change in methods::dispatcher().methods().filter(|method| method.is_change) {
        let daemon = Daemon::start();
        let mut client = Client::connect(&daemon.path());
        let params = example(change.name);
        if params == json!({}) {
            continue;
        }
        // One change, by anybody, and what was looked at before is of yesterday.
        let weight = json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.2", "Weight": 9}]});
        assert_eq!(client.call("register-targets", weight).unwrap()["Generation"], 1);
        let before = client.call("describe-target-groups", json!({})).unwrap();
        for wrong in [0, 2, u64::MAX] {
            let error = client.call(change.name, with_generation(params.clone(), wrong)).unwrap_err();
            assert_eq!(error["data"]["kind"], "GenerationConflict", "{}: {error}", change.name);
            assert_eq!(error["data"]["path"], "IfGeneration", "{}", change.name);
            assert!(error["data"]["hint"].as_str().unwrap().ends_with("IfGeneration 1"), "{error}");
            assert_eq!(client.call("describe-target-groups", json!({})).unwrap(), before, "{}", change.name);
        }
        let outcome = client.call(change.name, with_generation(params, 1));
        // A second listener is refused for what it is, once the generation is right.
        if change.name == "create-listener" {
            assert_eq!(outcome.unwrap_err()["data"]["kind"], "TooManyListeners");
        } else {
            assert_eq!(outcome.unwrap()["Generation"], 2, "{}", change.name);
        }
        made += 1;
    }
    assert!(made >= 13, "{made} changes were tried");
}

#[test]
fn of_many_who_change_the_same_generation_exactly_one_does() {
    let daemon = Daemon::start();
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(&daemon.path())).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": "register-targets", "params": {
            "TargetGroupArn": "fw", "IfGeneration": 0,
            "Targets": [{"Id": "10.0.0.1", "Weight": number + 2}]}});
        client.send(format!("{line}\n").as_bytes());
    }
    let answers: Vec<Value> = clients.iter_mut().map(Client::read).collect();
    let made = answers.iter().filter(|answer| answer["result"]["Generation"] == 1).count();
    let refused =
        answers.iter().filter(|answer| answer["error"]["data"]["kind"] == "GenerationConflict").count();
    assert_eq!((made, refused), (1, 19));
}

#[test]
fn what_only_reads_has_no_generation_to_be_made_for() {
    let daemon = Daemon::start();
    let error =
        Client::connect(&daemon.path()).call("describe-ports", json!({"IfGeneration": 0})).unwrap_err();
    assert_eq!(error["data"]["path"], "IfGeneration");
    assert_eq!(error["data"]["kind"], "ValidationError");
}

/// Long enough for a line to be read by the daemon and to wait.
const MEANWHILE: Duration = Duration::from_millis(200);

#[test]
fn a_change_whose_asker_has_gone_before_its_turn_is_not_made() {
    let daemon = Daemon::start();
    let mut stays = Client::connect(&daemon.path());
    let delete = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "delete-listener", "params": {"ListenerArn": "gw"}});
    // Alone, in a row of two, in a batch: nothing of it is made.
    for lines in [
        format!("{}\n", delete(1)),
        format!("{}\n{}\n", delete(1), delete(2)),
        format!("{}\n", json!([delete(1), delete(2)])),
    ] {
        let held = daemon.hold_changes();
        let mut goes = Client::connect(&daemon.path());
        goes.send(lines.as_bytes());
        std::thread::sleep(MEANWHILE);
        drop(goes);
        drop(held);
        // Its turn comes after whoever asked before it.
        let error = stays.call("delete-load-balancer", json!({"LoadBalancerArn": "gw", "IfGeneration": 1}));
        assert_eq!(error.unwrap_err()["data"]["kind"], "GenerationConflict", "{lines}");
    }
    assert_eq!(stays.call("delete-listener", json!({"ListenerArn": "gw"})).unwrap()["Generation"], 1);
}

#[test]
fn whoever_only_says_no_more_has_its_change_made_and_answered() {
    let daemon = Daemon::start();
    let held = daemon.hold_changes();
    let mut client = Client::connect(&daemon.path());
    client.send(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"delete-listener\", \"params\": {\"ListenerArn\": \"gw\"}}\n");
    client.stream().shutdown(std::net::Shutdown::Write).unwrap();
    // Longer than it takes to be looked for.
    std::thread::sleep(3 * MEANWHILE);
    drop(held);
    assert_eq!(client.read()["result"]["Generation"], 1);
}
