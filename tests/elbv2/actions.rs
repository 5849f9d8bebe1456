//! What is asked and answered, in the API's own words.

use crate::client::text;
use crate::endpoint::{BALANCER, GROUP, LISTENER, SPARE, Served};

const FORWARD: &str = "&DefaultActions.member.1.Type=forward&DefaultActions.member.1.TargetGroupArn=";

fn named(parameter: &str, arn: &str) -> String {
    format!("&{parameter}={arn}")
}

// O-1, O-2, O-5
#[test]
fn what_there_is_is_described_as_clients_know_it() {
    let served = Served::start();
    assert!(served.done("DescribeLoadBalancers", "").contains(&format!(
        "<LoadBalancers><member><AvailabilityZones><member><ZoneName>a</ZoneName></member></AvailabilityZones>\
         <IpAddressType>ipv4</IpAddressType><LoadBalancerArn>{BALANCER}</LoadBalancerArn>\
         <LoadBalancerName>gw</LoadBalancerName><State><Code>active</Code></State><Type>gateway</Type></member>\
         </LoadBalancers>"
    )));
    let groups = served.done("DescribeTargetGroups", &named("LoadBalancerArn", BALANCER));
    for part in [
        format!("<TargetGroupArn>{GROUP}</TargetGroupArn>"),
        "<Protocol>GENEVE</Protocol>".to_owned(),
        "<Port>6081</Port>".to_owned(),
        "<HealthCheckEnabled>true</HealthCheckEnabled>".to_owned(),
        "<Matcher><HttpCode>200-399</HttpCode></Matcher>".to_owned(),
        format!("<LoadBalancerArns><member>{BALANCER}</member></LoadBalancerArns>"),
    ] {
        assert!(groups.contains(&part), "{part} in {groups}");
    }
    // What is Flowgate's own is not told to clients of AWS's API.
    assert!(!groups.contains("DetectionTimeMs") && !groups.contains("RegisteredTargets"), "{groups}");
    assert!(served.done("DescribeListeners", &named("ListenerArns.member.1", LISTENER)).contains(&format!(
        "<DefaultActions><member><ForwardConfig><TargetGroups><member><TargetGroupArn>{GROUP}</TargetGroupArn>\
         <Weight>1</Weight></member></TargetGroups></ForwardConfig><TargetGroupArn>{GROUP}</TargetGroupArn><Type>forward</Type></member>\
         </DefaultActions><ListenerArn>{LISTENER}</ListenerArn><LoadBalancerArn>{BALANCER}</LoadBalancerArn>"
    )));
}

#[test]
fn an_answer_is_xml_under_the_id_of_its_request() {
    let served = Served::start();
    let mut client = served.connect();
    let mut ids = Vec::new();
    for form in ["Action=DescribeLoadBalancers&Version=2015-12-01", "Action=Nothing&Version=2015-12-01"] {
        let answer = client.post(form);
        assert!(answer.head.contains("content-type: text/xml\r\n"), "{}", answer.head);
        let id = text(&answer.body, "RequestId");
        assert!(answer.head.contains(&format!("x-amzn-requestid: {id}\r\n")), "{}", answer.head);
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert_eq!((&id[14..15], "89ab".contains(&id[19..20])), ("4", true), "{id}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
}

// H-4, H-5, T-3
#[test]
fn targets_come_stand_and_go() {
    let served = Served::start();
    let group = named("TargetGroupArn", GROUP);
    let health = served.done("DescribeTargetHealth", &group);
    assert!(
        health.contains(
            "<member><HealthCheckPort>8080</HealthCheckPort><Target><AvailabilityZone>all</AvailabilityZone>\
         <Id>10.0.0.2</Id><Port>6081</Port></Target><TargetHealth>"
        ),
        "{health}"
    );
    assert!(health.contains("<Reason>Target.Timeout</Reason><State>unhealthy</State>"), "{health}");
    served
        .done("RegisterTargets", &format!("{group}&Targets.member.1.Id=10.0.0.9&Targets.member.1.Port=6081"));
    let one = format!("{group}&Targets.member.1.Id=10.0.0.9");
    assert_eq!(text(&served.done("DescribeTargetHealth", &one), "State"), "initial");
    let gone = format!("{group}&Targets.member.1.Id=10.0.0.9&Targets.member.1.AvailabilityZone=all");
    let empty = served.done("DeregisterTargets", &gone);
    assert!(empty.contains("<DeregisterTargetsResult/><ResponseMetadata>"), "{empty}");
    let health = served.done("DescribeTargetHealth", &one);
    assert_eq!(text(&health, "State"), "draining");
    assert_eq!(text(&health, "Reason"), "Target.DeregistrationInProgress");
    let other = format!("{group}&Targets.member.1.Id=10.0.0.77&Include.member.1=All");
    let health = served.done("DescribeTargetHealth", &other);
    assert_eq!(
        (text(&health, "State"), text(&health, "Reason")),
        ("unused".into(), "Target.NotRegistered".into())
    );
    // The port that the targets' own traffic takes is told as its number.
    served.done("ModifyTargetGroup", &format!("{group}&HealthCheckPort=traffic-port"));
    assert_eq!(text(&served.done("DescribeTargetHealth", &one), "HealthCheckPort"), "6081");
}

#[test]
fn a_load_balancer_lives_from_its_creation_to_its_end() {
    let served = Served::start();
    let group = served.done(
        "CreateTargetGroup",
        "&Name=new&Protocol=GENEVE&Port=6081&TargetType=ip&HealthCheckProtocol=HTTP&HealthCheckPath=%2Fup%3Fa%3D1\
         &HealthCheckIntervalSeconds=7&Matcher.HttpCode=200-204",
    );
    assert_eq!(text(&group, "HealthCheckPath"), "/up?a=1");
    assert_eq!(text(&group, "HealthCheckIntervalSeconds"), "7");
    let group = text(&group, "TargetGroupArn");
    let balancer = text(&served.done("CreateLoadBalancer", "&Name=new&Type=gateway"), "LoadBalancerArn");
    let create = format!("&LoadBalancerArn={balancer}{FORWARD}{group}");
    let listener = text(&served.done("CreateListener", &create), "ListenerArn");
    let (status, code, _) = served.refused("DeleteTargetGroup", &named("TargetGroupArn", &group));
    assert_eq!((status, code.as_str()), (400, "ResourceInUse"));
    served.done("ModifyListener", &format!("&ListenerArn={listener}{FORWARD}{SPARE}"));
    served.done("DeleteTargetGroup", &named("TargetGroupArn", &group));
    served.done("DeleteListener", &named("ListenerArn", &listener));
    served.done("DeleteLoadBalancer", &named("LoadBalancerArn", &balancer));
    let (status, code, message) = served.refused("DescribeLoadBalancers", "&Names.member.1=new");
    assert_eq!((status, code.as_str()), (400, "LoadBalancerNotFound"));
    assert!(message.contains("not found"), "{message}");
}

//
#[test]
fn attributes_are_set_together_or_not_at_all() {
    let served = Served::start();
    let group = named("TargetGroupArn", GROUP);
    let set =
        |key: &str, value: &str| format!("&Attributes.member.1.Key={key}&Attributes.member.1.Value={value}");
    let modified = served.done(
        "ModifyTargetGroupAttributes",
        &format!("{group}{}", set("deregistration_delay.timeout_seconds", "30")),
    );
    let thirty = "<Key>deregistration_delay.timeout_seconds</Key><Value>30</Value>";
    assert!(modified.contains(thirty), "{modified}");
    let one_alone = format!("{group}{}", set("target_failover.on_unhealthy", "rebalance"));
    assert_eq!(served.refused("ModifyTargetGroupAttributes", &one_alone).1, "ValidationError");
    let beyond = format!("{group}{}", set("deregistration_delay.timeout_seconds", "3601"));
    let (_, code, message) = served.refused("ModifyTargetGroupAttributes", &beyond);
    assert_eq!(code, "ValidationError");
    assert_eq!(
        message,
        "&apos;deregistration_delay.timeout_seconds&apos; value &apos;3601&apos; must be between \
         &apos;0-3600&apos; inclusive"
    );
    assert!(served.done("DescribeTargetGroupAttributes", &group).contains(thirty));
    let listener = named("ListenerArn", LISTENER);
    served.done("ModifyListenerAttributes", &format!("{listener}{}", set("tcp.idle_timeout.seconds", "60")));
    assert!(served.done("DescribeListenerAttributes", &listener).contains("<Value>60</Value>"));
    let balancer = named("LoadBalancerArn", BALANCER);
    let protect = format!("{balancer}{}", set("deletion_protection.enabled", "true"));
    served.done("ModifyLoadBalancerAttributes", &protect);
    assert!(served.done("DescribeLoadBalancerAttributes", &balancer).contains("<Value>true</Value>"));
    assert_eq!(served.refused("DeleteLoadBalancer", &balancer).1, "OperationNotPermitted");
}

#[test]
fn a_refusal_has_the_code_that_clients_make_an_exception_of() {
    let served = Served::start();
    let missing = GROUP.replace("/fw/", "/none/");
    for (action, form, expected) in [
        ("DescribeTargetHealth", named("TargetGroupArn", &missing), "TargetGroupNotFound"),
        ("DescribeTargetHealth", named("TargetGroupArn", "fw"), "ValidationError"),
        ("DescribeTargetHealth", named("TargetGroupArn", BALANCER), "ValidationError"),
        ("DescribeTargetHealth", String::new(), "ValidationError"),
        (
            "DescribeListeners",
            named("ListenerArns.member.1", &LISTENER.replace("bb", "be")),
            "ListenerNotFound",
        ),
        (
            "CreateLoadBalancer",
            "&Name=gw&Type=gateway&IpAddressType=dualstack".to_owned(),
            "DuplicateLoadBalancerName",
        ),
        ("CreateListener", format!("&LoadBalancerArn={BALANCER}{FORWARD}{SPARE}"), "TooManyListeners"),
        ("RegisterTargets", format!("&TargetGroupArn={GROUP}&Targets="), "ValidationError"),
        (
            "RegisterTargets",
            format!("&TargetGroupArn={GROUP}&Targets.member.1.Id=127.0.0.1"),
            "InvalidTarget",
        ),
        ("CreateTargetGroup", "&Name=a&Protocol=HTTP&Port=80".to_owned(), "ValidationError"),
        ("CreateTargetGroup", "&Name=a&IpAddressType=ipv6".to_owned(), "ValidationError"),
        ("CreateRule", String::new(), "InvalidAction"),
        ("Describe", String::new(), "InvalidAction"),
    ] {
        let (status, code, message) = served.refused(action, &form);
        assert_eq!((status, code.as_str()), (400, expected), "{action}{form}: {message}");
        assert!(!message.is_empty());
    }
}

#[test]
fn a11_a_number_out_of_range_is_told_with_its_range() {
    let served = Served::start();
    let group = format!("&TargetGroupArn={GROUP}");
    let within = |key: &str, value: &str, range: &str| {
        format!("&apos;{key}&apos; value &apos;{value}&apos; must be between &apos;{range}&apos; inclusive")
    };
    for (action, key, range, values) in [
        ("DescribeTargetGroups", "PageSize", "1-400", &["0", "401", "-1", "99999999999"][..]),
        ("ModifyTargetGroup", "HealthCheckIntervalSeconds", "5-300", &["4", "301", "-1", "4294967306"]),
        ("ModifyTargetGroup", "HealthCheckTimeoutSeconds", "2-120", &["1", "121", "-1", "4294967306"]),
        ("ModifyTargetGroup", "HealthyThresholdCount", "2-10", &["0", "11"]),
        ("ModifyTargetGroup", "UnhealthyThresholdCount", "1-10", &["-1", "256", "99999999999"]),
        ("CreateTargetGroup", "Port", "0-65535", &["65536", "-1"]),
    ] {
        let object = match action {
            "ModifyTargetGroup" => group.as_str(),
            "CreateTargetGroup" => "&Name=new",
            _ => "",
        };
        for value in values {
            let refusal = served.refused(action, &format!("{object}&{key}={value}"));
            assert_eq!(refusal, (400, "ValidationError".to_owned(), within(key, value, range)));
        }
    }
}

#[test]
fn a_capacity_is_asked_after_and_none_is_reserved() {
    let served = Served::start();
    let answer = served.done("DescribeCapacityReservation", &named("LoadBalancerArn", BALANCER));
    assert!(answer.contains("<CapacityReservationState/>"), "{answer}");
    let missing = named("LoadBalancerArn", &BALANCER.replace("/gw/", "/none/"));
    assert_eq!(served.refused("DescribeCapacityReservation", &missing).1, "LoadBalancerNotFound");
}
