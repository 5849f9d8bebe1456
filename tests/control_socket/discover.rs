//! `rpc.discover`: an OpenRPC document that says what the daemon takes and gives, and nothing else.

use crate::client::Client;
use crate::documentation::blocks;
use crate::fake::Daemon;
use crate::schema::fault;
use flowgate::control::socket::methods;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

fn document() -> Value {
    let daemon = Daemon::start();
    Client::connect(&daemon.path()).call("rpc.discover", json!({})).unwrap()
}

fn by_name(list: &Value) -> HashMap<String, &Value> {
    let list = list.as_array().unwrap();
    list.iter().map(|entry| (entry["name"].as_str().unwrap().to_owned(), entry)).collect()
}

#[test]
fn every_method_is_described_and_no_other() {
    let document = document();
    assert_eq!(document, methods::debug_dispatcher().document());
    let described: Vec<&str> = document["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|method| method["name"].as_str().unwrap())
        .collect();
    let table = methods::debug_dispatcher();
    assert_eq!(described, table.methods().map(|method| method.name).collect::<Vec<_>>());
    assert!(described.contains(&"rpc.discover"));
    // A daemon in service has no method for tests, and does not say that it has.
    assert!(!methods::dispatcher().document().to_string().contains("debug-advance-clock"));
}

// https://spec.open-rpc.org, version 1.3.2
#[test]
fn it_keeps_the_rules_of_openrpc() {
    let document = document();
    assert_eq!(document["openrpc"], "1.3.2");
    for key in ["title", "version"] {
        assert!(document["info"][key].is_string());
    }
    let mut names = HashSet::new();
    for method in document["methods"].as_array().unwrap() {
        let name = method["name"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        assert_eq!(method["paramStructure"], "by-name");
        let params = method["params"].as_array().unwrap();
        let mut own = HashSet::new();
        assert!(params.iter().all(|param| own.insert(param["name"].as_str().unwrap())), "{name}: {params:?}");
        assert!(params.iter().all(|param| param["schema"].is_object() && param["description"].is_string()));
        let required = |param: &Value| param["required"].as_bool().unwrap();
        assert!(params.is_sorted_by_key(|param| !required(param)), "{name}: what may be left out comes last");
        assert!(method["result"]["name"].is_string() && method["result"]["schema"].is_object());
    }
    let mut seen = 0;
    references(&document, &mut |reference| {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
        seen += 1;
    });
    assert!(seen > 100, "{seen} references");
}

fn references(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref") {
                found(reference.as_str().unwrap());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn a_change_has_the_common_parameters_and_the_role_that_it_is_for() {
    let document = document();
    let described = by_name(&document["methods"]);
    for method in methods::debug_dispatcher().methods() {
        let params = by_name(&described[method.name]["params"]);
        assert_eq!(params.contains_key("IfGeneration"), method.is_change, "{}", method.name);
        assert_eq!(described[method.name]["x-role"], method.role.to_string(), "{}", method.name);
    }
}

/// What goes over the socket in every exchange of the documentation is what the document says.
#[test]
fn every_documented_exchange_is_as_it_is_described() {
    let document = document();
    let described = by_name(&document["methods"]);
    let told = by_name(&document["x-notifications"]);
    let mut results = HashSet::new();
    let mut others = HashSet::new();
    for block in blocks() {
        let daemon = Daemon::start();
        let mut client = Client::connect_rudely(&daemon.path());
        if !block.starts_with('←') {
            client.read();
        }
        let mut asked = Value::Null;
        for line in block.lines() {
            if let Some(request) = line.strip_prefix("→ ") {
                client.send(format!("{request}\n").as_bytes());
                asked = serde_json::from_str(request).unwrap_or(Value::Null);
            } else if line.starts_with('←') {
                let answer = client.read();
                if let Some(result) = answer.get("result") {
                    let method = described[asked["method"].as_str().unwrap()];
                    assert_eq!(wrong_params(&document, method, &asked["params"]), None);
                    assert_eq!(
                        fault(&document, &method["result"]["schema"], result, "result"),
                        None,
                        "{asked}"
                    );
                    results.insert(method["name"].as_str().unwrap());
                } else if let Some(error) = answer.get("error") {
                    let data = &document["components"]["schemas"]["ErrorData"];
                    assert_eq!(fault(&document, data, &error["data"], "data"), None);
                    others.insert("error".to_owned());
                } else if let Some(method) = answer["method"].as_str() {
                    assert_eq!(fault(&document, &told[method]["params"], &answer["params"], method), None);
                    others.insert(method.to_owned());
                }
            }
        }
    }
    // Every method has its exchange; the answer to one of them is the document itself.
    let missing: Vec<_> = described.keys().filter(|name| !results.contains(name.as_str())).collect();
    assert_eq!(missing, ["rpc.discover"]);
    for seen in ["error", "hello", "event"] {
        assert!(others.contains(seen), "no exchange shows {seen}");
    }
}

fn wrong_params(document: &Value, method: &Value, params: &Value) -> Option<String> {
    let known = by_name(&method["params"]);
    let given = params.as_object().cloned().unwrap_or_default();
    let unknown = given.keys().find(|name| !known.contains_key(*name)).cloned();
    let missing = known.iter().find(|(name, param)| param["required"] == true && !given.contains_key(*name));
    let wrong =
        || given.iter().find_map(|(name, value)| fault(document, &known[name]["schema"], value, name));
    unknown.or_else(|| missing.map(|(name, _)| format!("{name} is missing"))).or_else(wrong)
}
