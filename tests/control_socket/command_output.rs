//! What the binary `flowgate` prints: the three forms, `--query`, and the forms in which structures are given.

use crate::command_line::{command, printed, refused, shown};
use crate::fake::Daemon;
use serde_json::{Value, json};

#[test]
fn a_result_is_had_as_a_table_as_json_and_as_the_text_of_aws() {
    let daemon = Daemon::start();
    let groups = ["describe-target-groups", "--names", "spare"];
    let with = |more: &[&str]| printed(&daemon, &[&groups[..], more].concat());
    assert!(with(&[]).starts_with("TARGET GROUP"));
    assert_eq!(with(&["--output", "table"]), with(&[]));
    let json: Value = serde_json::from_str(&with(&["--output", "json"])).unwrap();
    assert_eq!(json["TargetGroups"][0]["TargetGroupName"], "spare");
    assert_eq!(with(&["--json"]), with(&["--output", "json"]));
    let text = with(&["--output", "text"]);
    let words: Vec<&str> = text.trim_end().split('\t').collect();
    assert_eq!((words[0], *words.last().unwrap()), ("TARGETGROUPS", "2"), "{text}");
    assert!(words.contains(&"spare") && words.contains(&"True"), "{text}");
    // From the environment too; a flag is stronger.
    let by_environment = |arguments: &[&str]| {
        let output = command(&daemon.path(), arguments).env("FLOWGATE_OUTPUT", "text").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(by_environment(&groups), text);
    assert_eq!(by_environment(&[&groups[..], &["--json"]].concat()), with(&["--json"]));
}

#[test]
fn a_query_picks_from_the_json_of_a_result_in_any_form() {
    let daemon = Daemon::start();
    let health = ["describe-target-health", "--target-group", "fw", "--query"];
    let with =
        |query: &str, output: &str| shown(&daemon, &[&health[..], &[query, "--output", output]].concat());
    let unhealthy = "TargetHealthDescriptions[?TargetHealth.State != 'healthy'].Target.Id";
    assert_eq!(with(unhealthy, "text"), "10.0.0.2\t10.0.0.3\n");
    assert_eq!(with(unhealthy, "table"), "10.0.0.2\n10.0.0.3\n");
    let json: Value = serde_json::from_str(&with(unhealthy, "json")).unwrap();
    assert_eq!(json, json!(["10.0.0.2", "10.0.0.3"]));
    let pairs = "TargetHealthDescriptions[].{Target: Target.Id, Flows: Flows} | [:2]";
    assert_eq!(with(pairs, "table"), "Flows  Target\n  125  10.0.0.1\n  125  10.0.0.2\n");
    assert_eq!(shown(&daemon, &["targets", "--query", "[0].TargetGroupName", "--output", "text"]), "fw\n");
    let (code, said) = refused(&daemon.path(), &[&health[..], &["Targets["]].concat());
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("column"), "{said}");
    let (code, said) = refused(&daemon.path(), &[&health[..], &["length(DetectionTimeMs)"]].concat());
    assert_eq!(code, 1);
    assert!(said.starts_with("flowgate: --query cannot be applied to the result: "), "{said}");
}

#[test]
fn structures_are_given_in_shorthand_in_json_and_in_a_file() {
    let daemon = Daemon::start();
    let file = daemon.folder().join("targets.json");
    std::fs::write(&file, r#"[{"Id": "10.0.0.8", "Weight": 5}, {"Id": "10.0.0.9"}]"#).unwrap();
    let file = format!("file://{}", file.display());
    for (targets, expected) in [
        (vec!["Id=10.0.0.5,AvailabilityZone=a,Weight=7", "10.0.0.6"], vec!["10.0.0.5", "10.0.0.6"]),
        (vec![r#"{"Id": "10.0.0.7", "Weight": 3}"#], vec!["10.0.0.7"]),
        (vec![&file], vec!["10.0.0.8", "10.0.0.9"]),
    ] {
        let register = [&["register-targets", "--target-group", "fw", "--targets"], &targets[..]].concat();
        let table = shown(&daemon, &register);
        for id in expected {
            assert!(table.contains(&format!("{id}  registered")), "{id}: {table}");
        }
    }
    let weights = "TargetHealthDescriptions[?Target.Weight > `1`].[Target.Id, Target.Weight]";
    let weights = ["describe-target-health", "--target-group", "fw", "--output", "text", "--query", weights];
    assert_eq!(shown(&daemon, &weights), "10.0.0.3\t3\n10.0.0.5\t7\n10.0.0.7\t3\n10.0.0.8\t5\n");
    for (bad, nearest) in [("Id=10.0.0.1,Wieght=2", "Weight"), (r#"[{"id": "10.0.0.1"}]"#, "Id")] {
        let register = ["register-targets", "--target-group", "fw", "--targets", bad];
        let (code, said) = refused(&daemon.path(), &register);
        assert_eq!(code, 2);
        assert!(said.contains(&format!("did you mean {nearest}?")), "{said}");
    }
}
