//! The binary `flowgate` with what AWS's tools know of objects: tags, subnets, rules, limits; and lists a page at a
//! time.

use crate::command_line::{printed, refused, shown};
use crate::fake::Daemon;
use serde_json::Value;

#[test]
fn tags_are_given_listed_and_taken_away() {
    let daemon = Daemon::start();
    let created = [
        "create-target-group",
        "--name",
        "web",
        "--tags",
        "Key=team,Value=net",
        "Key=env",
        "--vpc-id",
        "vpc-1",
    ];
    shown(&daemon, &created);
    shown(
        &daemon,
        &["add-tags", "--resource-arns", "gw", "web", "--tags", r#"[{"Key":"env","Value":"prod"}]"#],
    );
    let tags = || shown(&daemon, &["describe-tags", "--resource-arns", "gw", "web"]);
    let rows = |table: &str| -> Vec<String> {
        table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(
        rows(&tags()),
        ["load balancer gw env prod", "target group web env prod", "target group web team net"]
    );
    shown(&daemon, &["remove-tags", "--resource-arns", "web", "--tag-keys", "team"]);
    assert_eq!(rows(&tags()), ["load balancer gw env prod", "target group web env prod"]);
    let vpc =
        ["describe-target-groups", "--names", "web", "--query", "TargetGroups[0].VpcId", "--output", "text"];
    assert_eq!(printed(&daemon, &vpc), "vpc-1\n");
    let (code, said) = refused(&daemon.path(), &["add-tags", "--resource-arns", "gww", "--tags", "Key=a"]);
    assert_eq!(code, 1, "{said}");
}

#[test]
fn subnets_rules_and_limits_are_told() {
    let daemon = Daemon::start();
    let set = [
        "set-subnets",
        "--load-balancer-arn",
        "gw",
        "--availability-zones",
        "a",
        "--ip-address-type",
        "dualstack",
    ];
    assert!(shown(&daemon, &set).starts_with("It serves a and lets dualstack through.\n"));
    let set = ["set-ip-address-type", "--load-balancer", "gw", "--ip-address-type", "ipv4"];
    assert!(shown(&daemon, &set).starts_with("It lets ipv4 through.\n"));
    assert_eq!(refused(&daemon.path(), &[&set[..4], &["ipv6"]].concat()).0, 2);
    let rules = shown(&daemon, &["describe-rules", "--listener", "gw"]);
    assert_eq!(rules, "LISTENER OF  PRIORITY  ACTION   TARGET GROUP\ngw           default   forward  fw\n");
    let limits = shown(&daemon, &["describe-account-limits"]);
    assert!(limits.lines().any(|line| line.starts_with("geneve-target-groups ")), "{limits}");
}

#[test]
fn a_list_is_had_whole_by_pages_or_as_much_of_it_as_is_asked_for() {
    let daemon = Daemon::start();
    for name in ["a", "b", "c"] {
        shown(&daemon, &["create-target-group", "--name", name]);
    }
    let names = |more: &[&str]| -> (Vec<String>, Option<String>) {
        let arguments = [&["describe-target-groups", "--json"], more].concat();
        let result: Value = serde_json::from_str(&printed(&daemon, &arguments)).unwrap();
        assert!(result.get("NextMarker").is_none());
        let groups = result["TargetGroups"].as_array().unwrap();
        let names = groups.iter().map(|group| group["TargetGroupName"].as_str().unwrap().to_owned());
        (names.collect(), result["NextToken"].as_str().map(str::to_owned))
    };
    let whole = names(&[]);
    assert_eq!(whole, (vec!["a".into(), "b".into(), "c".into(), "fw".into(), "spare".into()], None));
    assert_eq!(names(&["--page-size", "2"]), whole);
    let (first, token) = names(&["--max-items", "3", "--page-size", "2"]);
    assert_eq!(first, ["a", "b", "c"]);
    let (rest, end) = names(&["--starting-token", &token.unwrap()]);
    assert_eq!((rest, end), (vec!["fw".to_owned(), "spare".to_owned()], None));
    let table = shown(&daemon, &["describe-target-groups", "--max-items", "1"]);
    assert!(table.contains("\nThere are more: --starting-token "), "{table}");
    assert_eq!(refused(&daemon.path(), &["describe-target-groups", "--page-size", "401"]).0, 2);
}

#[test]
fn a_request_in_json_is_what_its_flags_are_and_options_of_aws_make_no_difference() {
    let daemon = Daemon::start();
    let json = r#"{"TargetGroupArn": "spare", "Targets": [{"Id": "10.0.0.9", "Weight": 7}]}"#;
    let file = daemon.folder().join("request.json");
    std::fs::write(&file, json).unwrap();
    let of_file = format!("file://{}", file.display());
    for (given, address) in [(json.replace('9', "8"), "10.0.0.8"), (of_file, "10.0.0.9")] {
        let made =
            ["--region", "eu-west-1", "register-targets", "--cli-input-json", &given, "--no-cli-pager"];
        shown(&daemon, &made);
        let targets = shown(&daemon, &["describe-target-health", "--target-group", "spare"]);
        assert!(targets.contains(address), "{targets}");
    }
    let create = r#"{"Name": "web", "HealthCheckProtocol": "HTTP", "HealthCheckPath": "/-up", "Matcher": {"HttpCode": "200,301"}}"#;
    shown(&daemon, &["create-target-group", "--cli-input-json", create, "--health-check-path", "/other"]);
    let query = "TargetGroups[0].[HealthCheckPath,Matcher.HttpCode]";
    let list = [
        "describe-target-groups",
        "--cli-input-json",
        r#"{"Names": ["web"]}"#,
        "--query",
        query,
        "--output",
        "text",
    ];
    assert_eq!(printed(&daemon, &list), "/other\t200,301\n");
    let url = ["targets", "--endpoint-url", "http://127.0.0.1:6083"];
    let (code, said) = refused(&daemon.path(), &url);
    assert!(code == 2 && said.contains("the elbv2 endpoint is for aws itself"), "{said}");
    let (code, said) = refused(&daemon.path(), &["targets", "--cli-input-json", "["]);
    assert!(code == 2 && said.contains("--cli-input-json is not JSON"), "{said}");
    let reserved = ["describe-capacity-reservation", "--load-balancer-arn"];
    let all = printed(
        &daemon,
        &[&reserved[..], &["gw", "--query", "CapacityReservationState", "--output", "json"]].concat(),
    );
    assert_eq!(all, "[]\n");
    assert_eq!(refused(&daemon.path(), &[&reserved[..], &["gww"]].concat()).0, 1);
}
