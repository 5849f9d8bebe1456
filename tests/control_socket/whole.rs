//! The objects as one document, and changes that are only rehearsed.

use crate::changes::example;
use crate::client::Client;
use crate::fake::Daemon;
use flowgate::control::socket::methods;
use serde_json::{Value, json};

fn connected(daemon: &Daemon) -> Client {
    Client::connect(&daemon.path())
}

#[test]
fn what_is_exported_can_be_applied_and_changes_nothing() {
    let daemon = Daemon::start();
    let mut client = connected(&daemon);
    let export = client.call("export", json!({})).unwrap();
    assert_eq!(export["Generation"], 0);
    let applied = client.call("apply", json!({ "Document": export["Document"] })).unwrap();
    assert_eq!(applied, json!({ "Differences": [], "Generation": 0 }));
}

#[test]
fn a_document_is_told_as_a_difference_and_then_made_so() {
    let daemon = Daemon::start();
    let (mut client, mut other) = (connected(&daemon), connected(&daemon));
    let mut document = client.call("export", json!({})).unwrap()["Document"].clone();
    document["target_groups"][0]["targets"][0]["weight"] = json!(9);
    document["target_groups"][0]["targets"].as_array_mut().unwrap().remove(1);
    document["target_groups"].as_array_mut().unwrap().remove(1);
    let expected = json!([
        "Target group 'fw': target 10.0.0.1 changes: weight from 1 to 9",
        "Target group 'fw': target 10.0.0.2 is deregistered and drains",
        "Target group 'spare' is deleted"
    ]);
    let diff = client.call("diff", json!({ "Document": document })).unwrap();
    assert_eq!(diff["Differences"], expected);
    assert_eq!((&diff["FlowsDrained"], &diff["Generation"]), (&json!(125), &json!(0)));
    let dry = client.call("apply", json!({ "Document": document, "DryRun": true })).unwrap();
    assert_eq!(dry, diff, "a diff is an apply that is rehearsed");
    assert_eq!(
        other.call("describe-target-groups", json!({})).unwrap()["TargetGroups"].as_array().unwrap().len(),
        2
    );
    let applied = client.call("apply", json!({ "Document": document, "IfGeneration": 0 })).unwrap();
    assert_eq!(applied, json!({ "Differences": expected, "Generation": 1 }));
    assert_eq!(other.call("export", json!({})).unwrap()["Document"], document);
    let health = other.call("describe-target-health", json!({ "TargetGroupArn": "fw" })).unwrap();
    let states: Vec<_> = health["TargetHealthDescriptions"].as_array().unwrap().iter().collect();
    assert_eq!(states[1]["TargetHealth"]["State"], "draining", "T-3");
}

//
#[test]
fn a_fault_in_a_document_is_told_where_it_is_and_nothing_changes() {
    let daemon = Daemon::start();
    let mut client = connected(&daemon);
    let whole = client.call("export", json!({})).unwrap()["Document"].clone();
    let refused = |client: &mut Client, edit: &dyn Fn(&mut Value)| {
        let mut document = whole.clone();
        edit(&mut document);
        let error = client.call("apply", json!({ "Document": document })).unwrap_err();
        assert_eq!(client.call("diff", json!({ "Document": document })).unwrap_err(), error);
        assert_eq!(client.call("export", json!({})).unwrap()["Document"], whole);
        (error["data"]["kind"].clone(), error["data"]["path"].clone())
    };
    let at = |kind: &str, path: &str| (json!(kind), json!(path));
    assert_eq!(
        refused(&mut client, &|document| document["target_groups"][0]["targets"][1]["address"] =
            json!("fw2")),
        at("ValidationError", "Document.target_groups[0].targets[1].address")
    );
    assert_eq!(
        refused(&mut client, &|document| document["load_balancers"][0]["listener"]["target_group"] =
            json!("none")),
        at("TargetGroupNotFound", "Document.load_balancers[0].listener.target_group")
    );
    assert_eq!(
        refused(&mut client, &|document| document["version"] = json!(7)),
        at("ValidationError", "Document.version")
    );
    assert_eq!(refused(&mut client, &|document| *document = json!([])), at("ValidationError", "Document"));
    let error = client.call("apply", json!({})).unwrap_err();
    assert_eq!(error["data"]["path"], "params");
}

#[test]
fn every_change_can_be_rehearsed_and_then_nothing_is_other_than_it_was() {
    let mut rehearsed = 0;
    for change in methods::dispatcher().methods().filter(|method| method.is_change) {
        let params = example(change.name);
        if params == json!({}) || change.name == "create-listener" {
            continue;
        }
        let daemon = Daemon::start();
        let mut client = connected(&daemon);
        let weight = json!({ "TargetGroupArn": "fw", "Targets": [{ "Id": "10.0.0.2", "Weight": 9 }] });
        assert_eq!(client.call("register-targets", weight).unwrap()["Generation"], 1);
        let before = client.call("export", json!({})).unwrap();
        let mut dry = params.clone();
        dry["DryRun"] = json!(true);
        let plan = client.call(change.name, dry).unwrap_or_else(|error| panic!("{}: {error}", change.name));
        assert!(!plan["Differences"].as_array().unwrap().is_empty(), "{}: {plan}", change.name);
        assert_eq!(plan["Generation"], 1, "{}", change.name);
        assert_eq!(client.call("export", json!({})).unwrap(), before, "{}", change.name);
        // Not said to be dry, it is made.
        let mut meant = params;
        meant["DryRun"] = json!(false);
        assert_eq!(client.call(change.name, meant).unwrap()["Generation"], 2, "{}", change.name);
        rehearsed += 1;
    }
    assert!(rehearsed >= 13, "{rehearsed} changes were rehearsed");
}

#[test]
fn a_change_is_taken_back_and_that_can_be_taken_back_too() {
    let daemon = Daemon::start();
    let mut client = connected(&daemon);
    let export = |client: &mut Client| client.call("export", json!({})).unwrap()["Document"].clone();
    let seed = export(&mut client);
    client
        .call("deregister-targets", json!({ "TargetGroupArn": "fw", "Targets": [{ "Id": "10.0.0.1" }] }))
        .unwrap();
    client.call("delete-target-group", json!({ "TargetGroupArn": "spare" })).unwrap();
    let history = client.call("history", json!({})).unwrap();
    let told: Vec<_> = history["History"].as_array().unwrap().iter().collect();
    assert_eq!(told.iter().map(|entry| entry["Generation"].clone()).collect::<Vec<_>>(), [2, 1, 0]);
    assert!(told[..2].iter().all(|entry| entry["By"] == "root"), "{history}");
    assert_eq!(told[0]["What"], json!(["Target group 'spare' is deleted"]));
    assert_eq!((&told[0]["Current"], told[1].get("Current")), (&json!(true), None));
    let changed = export(&mut client);
    let back = client.call("rollback", json!({ "Generation": 0 })).unwrap();
    let expected = json!([
        "Target group 'fw': target 10.0.0.1 was draining and is registered again (zone 'a')",
        "Target group 'spare' is created"
    ]);
    assert_eq!(back, json!({ "Differences": expected, "Generation": 3 }));
    assert_eq!(export(&mut client), seed);
    // With none named, to the one before.
    client.call("rollback", json!({})).unwrap();
    assert_eq!(export(&mut client), changed);
    let nothing = client.call("rollback", json!({ "Generation": 4 })).unwrap();
    assert_eq!(nothing, json!({ "Differences": [], "Generation": 4 }), "it is the present one");
    let error = client.call("rollback", json!({ "Generation": 77 })).unwrap_err();
    assert_eq!(
        (&error["data"]["kind"], &error["data"]["path"]),
        (&json!("GenerationNotFound"), &json!("Generation"))
    );
    assert_eq!(error["data"]["hint"], "the generations are 4, 3, 2, 1, 0");
}

#[test]
fn without_an_earlier_state_there_is_nothing_to_go_back_to() {
    let daemon = Daemon::start();
    let error = connected(&daemon).call("rollback", json!({})).unwrap_err();
    assert_eq!(error["data"]["kind"], "GenerationNotFound");
}

#[test]
fn a_rehearsal_refuses_what_the_change_itself_would_be_refused_for() {
    let daemon = Daemon::start();
    let mut client = connected(&daemon);
    for (method, params, kind) in [
        ("delete-target-group", json!({ "TargetGroupArn": "fw", "DryRun": true }), "ResourceInUse"),
        (
            "delete-target-group",
            json!({ "TargetGroupArn": "spare", "DryRun": true, "IfGeneration": 7 }),
            "GenerationConflict",
        ),
        ("delete-target-group", json!({ "TargetGroupArn": "spare", "DryRun": 1 }), "ValidationError"),
        ("describe-ports", json!({ "DryRun": true }), "ValidationError"),
    ] {
        let error = client.call(method, params).unwrap_err();
        assert_eq!(error["data"]["kind"], kind, "{error}");
    }
}
