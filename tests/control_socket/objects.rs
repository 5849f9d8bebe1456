//! What AWS's tools say of objects and read back: tags, subnets, VPCs, rules, limits, pages.

use crate::client::Client;
use crate::fake::Daemon;
use serde_json::{Value, json};

fn daemon() -> (Daemon, Client) {
    let daemon = Daemon::start();
    let client = Client::connect(&daemon.path());
    (daemon, client)
}

fn refused(client: &mut Client, method: &str, params: &Value) -> (String, String) {
    let error = client.call(method, params.clone()).expect_err(method);
    let text = |name: &str| error["data"][name].as_str().unwrap_or_default().to_owned();
    (text("kind"), text("path"))
}

fn is(kind: &str, path: &str) -> (String, String) {
    (kind.to_owned(), path.to_owned())
}

#[test]
fn tags_are_noted_on_what_is_created_and_on_what_is_there() {
    let (_daemon, mut client) = daemon();
    let owner = json!([{"Key": "Owner", "Value": "net"}]);
    let made = client.call("create-load-balancer", json!({"Name": "branch", "Tags": owner})).unwrap();
    let balancer = made["LoadBalancers"][0]["LoadBalancerArn"].clone();
    let made = client.call("create-target-group", json!({"Name": "web", "Tags": owner})).unwrap();
    let group = made["TargetGroups"][0]["TargetGroupArn"].clone();
    let actions = json!([{"Type": "forward", "TargetGroupArn": "web"}]);
    let params = json!({"LoadBalancerArn": "branch", "DefaultActions": actions, "Tags": owner});
    let made = client.call("create-listener", params).unwrap();
    let listener = made["Listeners"][0]["ListenerArn"].clone();
    let all = json!({"ResourceArns": [balancer, listener, group]});
    let told = client.call("describe-tags", all.clone()).unwrap();
    for (index, arn) in all["ResourceArns"].as_array().unwrap().iter().enumerate() {
        assert_eq!(told["TagDescriptions"][index], json!({"ResourceArn": arn, "Tags": owner}));
    }

    let add =
        json!({"ResourceArns": [listener], "Tags": [{"Key": "Stage"}, {"Key": "Owner", "Value": "ops"}]});
    assert_eq!(client.call("add-tags", add.clone()).unwrap()["Generation"], 4);
    assert_eq!(client.call("add-tags", add).unwrap()["Generation"], 4, "nothing new");
    let remove = json!({"ResourceArns": [listener, balancer], "TagKeys": ["Owner", "Nothing"]});
    assert_eq!(client.call("remove-tags", remove).unwrap()["Generation"], 5);
    let told = client.call("describe-tags", all).unwrap();
    let tags: Vec<&Value> = (0..3).map(|index| &told["TagDescriptions"][index]["Tags"]).collect();
    assert_eq!(tags, [&json!([]), &json!([{"Key": "Stage", "Value": ""}]), &owner]);
}

#[test]
fn tags_that_cannot_be_are_refused_at_their_parameter() {
    let (_daemon, mut client) = daemon();
    let many: Vec<Value> = (0..51).map(|n| json!({"Key": format!("k{n}")})).collect();
    let twice = json!([{"Key": "k"}, {"Key": "k"}]);
    let gone = "arn:aws:elasticloadbalancing:xx-local-1:000000000000:targetgroup/fw/0000000000000000";
    for (method, params, expected) in [
        ("add-tags", json!({"ResourceArns": ["gw"], "Tags": many}), is("TooManyTags", "Tags")),
        ("add-tags", json!({"ResourceArns": ["gw"], "Tags": twice}), is("DuplicateTagKeys", "Tags.k")),
        ("add-tags", json!({"ResourceArns": ["gw"], "Tags": []}), is("ValidationError", "Tags")),
        (
            "add-tags",
            json!({"ResourceArns": [], "Tags": [{"Key": "k"}]}),
            is("ValidationError", "ResourceArns"),
        ),
        (
            "add-tags",
            json!({"ResourceArns": ["gw", gone], "Tags": [{"Key": "k"}]}),
            is("TargetGroupNotFound", "ResourceArns[1]"),
        ),
        ("remove-tags", json!({"ResourceArns": ["gw"], "TagKeys": []}), is("ValidationError", "TagKeys")),
        ("describe-tags", json!({"ResourceArns": []}), is("ValidationError", "ResourceArns")),
        ("describe-tags", json!({"ResourceArns": vec!["gw"; 21]}), is("ValidationError", "ResourceArns")),
        ("describe-tags", json!({"ResourceArns": [gone]}), is("TargetGroupNotFound", "ResourceArns[0]")),
        ("create-load-balancer", json!({"Name": "x", "Tags": twice}), is("DuplicateTagKeys", "Tags.k")),
        ("create-target-group", json!({"Name": "x", "Tags": many}), is("TooManyTags", "Tags")),
    ] {
        assert_eq!(refused(&mut client, method, &params), expected, "{method} {params}");
    }
    assert_eq!(
        client.call("describe-tags", json!({"ResourceArns": vec!["gw"; 20]})).unwrap()["TagDescriptions"][19]
            ["Tags"],
        json!([])
    );
}

// O-1
#[test]
fn a_load_balancer_is_created_in_subnets_and_says_when() {
    for how in [
        json!({"Subnets": ["subnet-0b", "subnet-0a"]}),
        json!({"SubnetMappings": [{"SubnetId": "subnet-0a"}, {"SubnetId": "subnet-0b"}]}),
    ] {
        let (_daemon, mut client) = daemon();
        let mut params = how;
        params["Name"] = "one".into();
        let made = client.call("create-load-balancer", params.clone()).unwrap();
        let made = &made["LoadBalancers"][0];
        let zones = json!([
            {"ZoneName": "a", "SubnetId": "subnet-0a"}, {"ZoneName": "b", "SubnetId": "subnet-0b"}
        ]);
        assert_eq!(made["AvailabilityZones"], zones);
        assert_eq!(made["CreatedTime"]["Rfc3339"], "2026-11-29T20:47:37.007Z");
        assert_eq!(made["VpcId"], Value::Null);
        // A retry, later.
        client.call("debug-advance-clock", json!({"Milliseconds": 1000})).unwrap();
        assert_eq!(&client.call("create-load-balancer", params).unwrap()["LoadBalancers"][0], made);
    }
    let seeded = daemon().1.call("describe-load-balancers", json!({})).unwrap();
    assert_eq!(seeded["LoadBalancers"][0]["CreatedTime"], Value::Null);
}

#[test]
fn a_vpc_is_kept_and_shown_by_the_group_and_by_who_forwards_to_it() {
    let (_daemon, mut client) = daemon();
    let made = client.call("create-target-group", json!({"Name": "web", "VpcId": "vpc-1"})).unwrap();
    assert_eq!(made["TargetGroups"][0]["VpcId"], "vpc-1");
    let actions = json!([{"Type": "forward", "TargetGroupArn": "web"}]);
    client.call("modify-listener", json!({"ListenerArn": "gw", "DefaultActions": actions})).unwrap();
    let balancers = client.call("describe-load-balancers", json!({})).unwrap();
    assert_eq!(balancers["LoadBalancers"][0]["VpcId"], "vpc-1");
    let other = json!({"Name": "web", "VpcId": "vpc-2"});
    assert_eq!(refused(&mut client, "create-target-group", &other), is("DuplicateTargetGroupName", "Name"));
}

#[test]
fn zones_are_set_by_subnet_by_mapping_or_by_name() {
    let (_daemon, mut client) = daemon();
    for (params, zones, generation) in [
        (json!({"Subnets": ["subnet-0b"]}), json!([{"ZoneName": "b", "SubnetId": "subnet-0b"}]), 1),
        (
            json!({"SubnetMappings": [{"SubnetId": "subnet-0b"}]}),
            json!([{"ZoneName": "b", "SubnetId": "subnet-0b"}]),
            1,
        ),
        (json!({"AvailabilityZones": ["c", "b"]}), json!([{"ZoneName": "b"}, {"ZoneName": "c"}]), 2),
        (json!({"AvailabilityZones": ["all"], "IpAddressType": "dualstack"}), json!([]), 3),
    ] {
        let mut params = params;
        params["LoadBalancerArn"] = "gw".into();
        let set = client.call("set-subnets", params.clone()).unwrap();
        assert_eq!((&set["AvailabilityZones"], &set["Generation"]), (&zones, &json!(generation)), "{params}");
        let told = client.call("describe-load-balancers", json!({})).unwrap();
        assert_eq!(told["LoadBalancers"][0]["AvailabilityZones"], zones);
        assert_eq!(told["LoadBalancers"][0]["IpAddressType"], set["IpAddressType"]);
    }
    let ipv4 = json!({"LoadBalancerArn": "gw", "IpAddressType": "ipv4"});
    let set = client.call("set-ip-address-type", ipv4.clone()).unwrap();
    assert_eq!(set, json!({"IpAddressType": "ipv4", "Generation": 4}));
    assert_eq!(client.call("set-ip-address-type", ipv4).unwrap()["Generation"], 4);

    for (params, expected) in [
        (json!({}), is("ValidationError", "Subnets")),
        (json!({"Subnets": ["subnet-9"]}), is("SubnetNotFound", "Subnets[0]")),
        (json!({"Subnets": ["subnet-0a"], "AvailabilityZones": ["a"]}), is("ValidationError", "Subnets")),
        (json!({"Subnets": ["subnet-0a"], "AvailabilityZones": ["all"]}), is("ValidationError", "Subnets")),
        (json!({"AvailabilityZones": ["a", "all"]}), is("ValidationError", "AvailabilityZones[1]")),
        (json!({"Subnets": ["subnet-0b", "subnet-1b"]}), is("InvalidConfigurationRequest", "Subnets[1]")),
        (
            json!({"SubnetMappings": [{"SubnetId": "subnet-0b"}, {"SubnetId": "subnet-1b"}]}),
            is("InvalidConfigurationRequest", "SubnetMappings[1]"),
        ),
        (
            json!({"SubnetMappings": [{"SubnetId": "subnet-0b", "AllocationId": "eipalloc-1"}]}),
            is("InvalidConfigurationRequest", "SubnetMappings[0].AllocationId"),
        ),
    ] {
        let mut params = params;
        params["LoadBalancerArn"] = "gw".into();
        assert_eq!(refused(&mut client, "set-subnets", &params), expected, "{params}");
    }
    let nobody = json!({"LoadBalancerArn": "nobody", "Subnets": ["subnet-0a"]});
    assert_eq!(refused(&mut client, "set-subnets", &nobody), is("LoadBalancerNotFound", "LoadBalancerArn"));
}

// O-1
#[test]
fn what_a_gateway_does_not_have_is_refused_under_the_code_of_aws() {
    let (_daemon, mut client) = daemon();
    client.call("create-load-balancer", json!({"Name": "branch"})).unwrap();
    let forward = |group: &str| json!({"Type": "forward", "TargetGroupArn": group});
    let config = |groups: &[&str]| {
        let tuples: Vec<Value> = groups.iter().map(|group| json!({"TargetGroupArn": group})).collect();
        json!({"Type": "forward", "ForwardConfig": {"TargetGroups": tuples}})
    };
    let weighing = |weight: u16| json!({"Type": "forward", "ForwardConfig": {"TargetGroups": [{"TargetGroupArn": "spare", "Weight": weight}]}});
    let both = json!({"Type": "forward", "TargetGroupArn": "fw",
        "ForwardConfig": {"TargetGroups": [{"TargetGroupArn": "spare"}]}});
    let listener = |actions: Value| json!({"LoadBalancerArn": "branch", "DefaultActions": actions});
    let with = |mut params: Value, name: &str, value: Value| {
        params[name] = value;
        params
    };
    let at = "DefaultActions[0]";
    for (method, params, expected) in [
        ("create-load-balancer", json!({"Name": "x", "Scheme": "internal"}), is("InvalidScheme", "Scheme")),
        (
            "create-load-balancer",
            json!({"Name": "x", "SecurityGroups": ["sg-1"]}),
            is("InvalidConfigurationRequest", "SecurityGroups"),
        ),
        ("create-load-balancer", json!({"Name": "x-"}), is("ValidationError", "Name")),
        (
            "create-target-group",
            json!({"Name": "x", "IpAddressType": "ipv6"}),
            is("ValidationError", "IpAddressType"),
        ),
        (
            "create-listener",
            listener(json!([forward("fw"), forward("spare")])),
            is("TooManyActions", "DefaultActions"),
        ),
        (
            "create-listener",
            listener(json!([config(&["fw", "spare"])])),
            is("TooManyUniqueTargetGroupsPerLoadBalancer", &format!("{at}.ForwardConfig.TargetGroups")),
        ),
        (
            "create-listener",
            listener(json!([both])),
            is("InvalidLoadBalancerAction", &format!("{at}.ForwardConfig.TargetGroups[0].TargetGroupArn")),
        ),
        (
            "create-listener",
            listener(json!([weighing(0)])),
            is("InvalidLoadBalancerAction", &format!("{at}.ForwardConfig.TargetGroups[0].Weight")),
        ),
        (
            "create-listener",
            listener(json!([weighing(1000)])),
            is("ValidationError", &format!("{at}.ForwardConfig.TargetGroups[0].Weight")),
        ),
        (
            "create-listener",
            listener(json!([config(&[])])),
            is("ValidationError", &format!("{at}.TargetGroupArn")),
        ),
        (
            "create-listener",
            with(listener(json!([forward("spare")])), "Port", json!(6081)),
            is("InvalidConfigurationRequest", "Port"),
        ),
        (
            "create-listener",
            with(listener(json!([forward("spare")])), "Protocol", json!("GENEVE")),
            is("InvalidConfigurationRequest", "Protocol"),
        ),
        (
            "modify-listener",
            json!({"ListenerArn": "gw", "Port": 80}),
            is("InvalidConfigurationRequest", "Port"),
        ),
        ("modify-listener", json!({"ListenerArn": "nobody"}), is("ListenerNotFound", "ListenerArn")),
    ] {
        assert_eq!(refused(&mut client, method, &params), expected, "{method} {params}");
    }
    let made = client.call("create-listener", listener(json!([config(&["spare"])]))).unwrap();
    let action = &made["Listeners"][0]["DefaultActions"][0];
    assert!(action["TargetGroupArn"].as_str().unwrap().contains("targetgroup/spare/"), "{action}");
    let tuple = json!({"TargetGroupArn": action["TargetGroupArn"], "Weight": 1});
    assert_eq!(action["ForwardConfig"]["TargetGroups"], json!([tuple]));
    // What a describe call shows is taken back, and to ask for nothing is no change.
    let again = json!({"ListenerArn": "branch", "DefaultActions": [action]});
    assert_eq!(client.call("modify-listener", again).unwrap()["Generation"], 2);
    let nothing = client.call("modify-listener", json!({"ListenerArn": "branch"})).unwrap();
    assert_eq!((&nothing["Generation"], &nothing["Listeners"]), (&json!(2), &made["Listeners"]));
}

// O-5
#[test]
fn a_listener_has_its_default_rule() {
    let (_daemon, mut client) = daemon();
    let all = client.call("describe-rules", json!({})).unwrap();
    let rule = &all["Rules"][0];
    let listener = client.call("describe-listeners", json!({})).unwrap();
    let listener = &listener["Listeners"][0];
    assert_eq!((&rule["Priority"], &rule["IsDefault"]), (&json!("default"), &json!(true)));
    assert_eq!((&rule["Conditions"], &rule["Actions"]), (&json!([]), &listener["DefaultActions"]));
    let arn = rule["RuleArn"].as_str().unwrap();
    let of_listener = listener["ListenerArn"].as_str().unwrap().replace(":listener/", ":listener-rule/");
    assert_eq!(arn.rsplit_once('/').unwrap().0, of_listener);
    for named in [
        json!({"ListenerArn": "gw"}),
        json!({"RuleArns": [arn]}),
        json!({"ListenerArn": listener["ListenerArn"], "RuleArns": [arn]}),
    ] {
        assert_eq!(client.call("describe-rules", named.clone()).unwrap(), all, "{named}");
    }
    let gone = format!("{of_listener}/0000000000000000");
    let params = json!({"RuleArns": [arn, gone]});
    assert_eq!(refused(&mut client, "describe-rules", &params), is("RuleNotFound", "RuleArns[1]"));
    let params = json!({"ListenerArn": "nobody"});
    assert_eq!(refused(&mut client, "describe-rules", &params), is("ListenerNotFound", "ListenerArn"));
}

#[test]
fn long_lists_come_by_the_page_whatever_comes_and_goes_meanwhile() {
    let (_daemon, mut client) = daemon();
    for name in ["aa", "b", "h", "z"] {
        client.call("create-load-balancer", json!({"Name": name})).unwrap();
    }
    let names = |result: &Value| -> Vec<String> {
        let list = result["LoadBalancers"].as_array().unwrap();
        list.iter().map(|one| one["LoadBalancerName"].as_str().unwrap().to_owned()).collect()
    };
    let first = client.call("describe-load-balancers", json!({"PageSize": 2})).unwrap();
    assert_eq!(names(&first), ["aa", "b"]);
    client.call("delete-load-balancer", json!({"LoadBalancerArn": "b"})).unwrap();
    client.call("create-load-balancer", json!({"Name": "a"})).unwrap();
    let next = json!({"PageSize": 2, "Marker": first["NextMarker"]});
    let second = client.call("describe-load-balancers", next).unwrap();
    assert_eq!(names(&second), ["gw", "h"]);
    let next = json!({"PageSize": 2, "Marker": second["NextMarker"]});
    let third = client.call("describe-load-balancers", next).unwrap();
    assert_eq!((names(&third), &third["NextMarker"]), (vec!["z".to_owned()], &Value::Null));

    let asked = json!({"Names": ["z", "gw", "z"], "PageSize": 1});
    let first = client.call("describe-load-balancers", asked).unwrap();
    let asked = json!({"Names": ["z", "gw", "z"], "PageSize": 1, "Marker": first["NextMarker"]});
    let second = client.call("describe-load-balancers", asked).unwrap();
    assert_eq!((names(&first), names(&second)), (vec!["z".to_owned()], vec!["gw".to_owned()]));
    assert_eq!(second["NextMarker"], Value::Null);

    for (method, list, last) in [
        ("describe-target-groups", "TargetGroups", "spare"),
        ("describe-account-limits", "Limits", "targets-per-availability-zone-per-gateway-load-balancer"),
        ("describe-listeners", "Listeners", "gw"),
        ("describe-rules", "Rules", "gw"),
    ] {
        let all = client.call(method, json!({})).unwrap();
        let (mut found, mut marker) = (Vec::new(), Value::Null);
        loop {
            let mut params = json!({"PageSize": 1});
            if marker.is_string() {
                params["Marker"] = marker;
            }
            let page = client.call(method, params).unwrap();
            assert_eq!(page[list].as_array().unwrap().len(), 1, "{method}");
            found.push(page[list][0].clone());
            marker = page["NextMarker"].clone();
            if marker.is_null() {
                break;
            }
        }
        assert_eq!(all[list], json!(found), "{method}");
        let after = client.call(method, json!({"Marker": last})).unwrap();
        assert_eq!(after[list], json!([]), "{method}");
        for size in [0, 401] {
            let params = json!({"PageSize": size});
            assert_eq!(refused(&mut client, method, &params), is("ValidationError", "PageSize"));
        }
    }
}
