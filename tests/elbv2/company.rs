//! What AWS's tools want to find around the objects: tags, subnets, rules, limits, pages, and the longer ways to
//! say the same.

use crate::client::text;
use crate::endpoint::{BALANCER, GROUP, LISTENER, SPARE, Served};

fn named(parameter: &str, arn: &str) -> String {
    format!("&{parameter}={arn}")
}

fn tag(number: u32, key: &str, value: &str) -> String {
    format!("&Tags.member.{number}.Key={key}&Tags.member.{number}.Value={value}")
}

#[test]
fn tags_are_noted_shown_and_taken_away() {
    let served = Served::start();
    let both = format!("&ResourceArns.member.1={GROUP}&ResourceArns.member.2={LISTENER}");
    let tags = format!("{}{}", tag(1, "team", "a%20b%2Bc"), tag(2, "empty", ""));
    served.done("AddTags", &format!("{both}{tags}"));
    let shown = served.done("DescribeTags", &both);
    let of = |arn: &str| {
        format!(
            "<member><ResourceArn>{arn}</ResourceArn><Tags><member><Key>empty</Key><Value></Value></member>\
             <member><Key>team</Key><Value>a b+c</Value></member></Tags></member>"
        )
    };
    assert!(shown.contains(&of(GROUP)) && shown.contains(&of(LISTENER)), "{shown}");
    served.done("RemoveTags", &format!("{both}&TagKeys.member.1=team"));
    assert!(!served.done("DescribeTags", &both).contains("team"));
    let created = format!("&Name=new&Type=gateway{}", tag(1, "from", "the-start"));
    let balancer = text(&served.done("CreateLoadBalancer", &created), "LoadBalancerArn");
    let shown = served.done("DescribeTags", &named("ResourceArns.member.1", &balancer));
    assert_eq!((text(&shown, "Key"), text(&shown, "Value")), ("from".to_owned(), "the-start".to_owned()));
    let twice = format!("{both}{}{}", tag(1, "team", "a"), tag(2, "team", "b"));
    assert_eq!(served.refused("AddTags", &twice).1, "DuplicateTagKeys");
    let nobody = named("ResourceArns.member.1", &GROUP.replace("/fw/", "/none/"));
    assert_eq!(served.refused("DescribeTags", &nobody).1, "TargetGroupNotFound");
}

#[test]
fn subnets_are_zones_by_another_name() {
    let served = Served::start();
    let created = served.done("CreateLoadBalancer", "&Name=new&Type=gateway&Subnets.member.1=subnet-0a");
    let zone = "<AvailabilityZones><member><SubnetId>subnet-0a</SubnetId><ZoneName>a</ZoneName></member></AvailabilityZones>";
    assert!(created.contains(zone), "{created}");
    // 2026-11-29T20:47:37.007Z is when the fake's clock stands.
    assert_eq!(text(&created, "CreatedTime"), "2026-11-29T20:47:37.007Z");
    let balancer = named("LoadBalancerArn", BALANCER);
    let set = served.done(
        "SetSubnets",
        &format!("{balancer}&SubnetMappings.member.1.SubnetId=subnet-0a&IpAddressType=dualstack&Subnets="),
    );
    assert!(set.contains(zone) && set.contains("<IpAddressType>dualstack</IpAddressType>"), "{set}");
    let set = served.done("SetIpAddressType", &format!("{balancer}&IpAddressType=ipv4"));
    assert_eq!(text(&set, "IpAddressType"), "ipv4");
    for (form, expected) in [
        ("&Subnets.member.1=subnet-unknown", "SubnetNotFound"),
        ("", "ValidationError"),
        (
            "&SubnetMappings.member.1.SubnetId=subnet-0a&SubnetMappings.member.1.AllocationId=eip-1",
            "InvalidConfigurationRequest",
        ),
        ("&Subnets.member.1=subnet-0a&EnablePrefixForIpv6SourceNat=on", "InvalidConfigurationRequest"),
    ] {
        let (_, code, message) = served.refused("SetSubnets", &format!("{balancer}{form}"));
        assert_eq!(code, expected, "{form}: {message}");
    }
    for (form, expected) in [
        ("&Scheme=internal", "InvalidScheme"),
        ("&SecurityGroups.member.1=sg-1", "InvalidConfigurationRequest"),
        ("&CustomerOwnedIpv4Pool=pool", "InvalidConfigurationRequest"),
        ("&IpamPools.Ipv4IpamPoolId=pool", "InvalidConfigurationRequest"),
    ] {
        let (_, code, message) = served.refused("CreateLoadBalancer", &format!("&Name=x&Type=gateway{form}"));
        assert_eq!(code, expected, "{form}: {message}");
    }
}

#[test]
fn a_vpc_is_kept_and_one_that_is_empty_is_none() {
    let served = Served::start();
    let kept =
        served.done("CreateTargetGroup", "&Name=one&Protocol=GENEVE&Port=6081&TargetType=ip&VpcId=vpc-1");
    assert_eq!(text(&kept, "VpcId"), "vpc-1");
    let none = served.done("CreateTargetGroup", "&Name=two&Protocol=GENEVE&Port=6081&TargetType=ip&VpcId=");
    assert!(!none.contains("VpcId"), "{none}");
    let (_, code, message) = served.refused("CreateTargetGroup", "&Name=x&TargetType=instance");
    assert_eq!(code, "ValidationError");
    assert!(message.contains("targetType"), "{message}");
}

#[test]
fn a_listener_has_one_rule_and_a_node_its_limits() {
    let served = Served::start();
    let rules = served.done("DescribeRules", &named("ListenerArn", LISTENER));
    assert_eq!((text(&rules, "Priority"), text(&rules, "IsDefault")), ("default".into(), "true".into()));
    let rule = text(&rules, "RuleArn");
    assert_eq!(text(&served.done("DescribeRules", &named("RuleArns.member.1", &rule)), "RuleArn"), rule);
    let limits = served.done("DescribeAccountLimits", "&PageSize=400");
    assert!(limits.contains("<Max>1</Max><Name>listeners-per-gateway-load-balancer</Name>"), "{limits}");
}

#[test]
fn long_lists_come_a_page_at_a_time() {
    let served = Served::start();
    for name in ["a", "b", "c"] {
        served.done("CreateTargetGroup", &format!("&Name={name}"));
    }
    let (mut names, mut marker) = (Vec::new(), String::new());
    loop {
        let page = served.done("DescribeTargetGroups", &format!("&PageSize=2{marker}"));
        names.extend(
            page.split("<TargetGroupName>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()),
        );
        if !page.contains("<NextMarker>") {
            break;
        }
        marker = format!("&Marker={}", text(&page, "NextMarker").replace('+', "%2B").replace('=', "%3D"));
    }
    assert_eq!(names, ["a", "b", "c", "fw", "spare"]);
    for page_size in ["0", "401", "x", "-1"] {
        let (_, code, _) = served.refused("DescribeTargetGroups", &format!("&PageSize={page_size}"));
        assert_eq!(code, "ValidationError", "{page_size}");
    }
}

// O-1
#[test]
fn a_forward_to_one_group_is_said_in_two_ways() {
    let served = Served::start();
    served.done("DeleteListener", &named("ListenerArn", LISTENER));
    let action = "&DefaultActions.member.1.";
    let config = format!("{action}ForwardConfig.TargetGroups.member.1.TargetGroupArn={SPARE}");
    let weight = format!("{action}ForwardConfig.TargetGroups.member.1.Weight=");
    let sticky = format!("{action}ForwardConfig.TargetGroupStickinessConfig.Enabled=");
    for (form, expected) in [
        (format!("{action}Type=forward{action}TargetGroupArn={GROUP}{config}"), "InvalidLoadBalancerAction"),
        (
            format!("{action}Type=forward{config}{}", config.replace("member.1.T", "member.2.T")),
            "TooManyUniqueTargetGroupsPerLoadBalancer",
        ),
        (format!("{action}Type=forward{config}{sticky}true"), "InvalidLoadBalancerAction"),
        (format!("{action}Type=forward{config}{weight}0"), "InvalidLoadBalancerAction"),
        (format!("{action}Type=forward{config}{weight}1000"), "ValidationError"),
        (
            format!("{action}Type=redirect{action}RedirectConfig.StatusCode=HTTP_301"),
            "InvalidLoadBalancerAction",
        ),
        (format!("{action}Type=forward{config}&Port=80"), "InvalidConfigurationRequest"),
        (format!("{action}Type=forward{config}&Protocol=GENEVE"), "InvalidConfigurationRequest"),
        (format!("{action}Type=forward{config}&SslPolicy=x"), "InvalidConfigurationRequest"),
        (String::new(), "ValidationError"),
    ] {
        let (_, code, message) =
            served.refused("CreateListener", &format!("&LoadBalancerArn={BALANCER}{form}"));
        assert_eq!(code, expected, "{form}: {message}");
    }
    let long = format!("{action}Type=forward{action}Order=99999{config}{weight}7{sticky}false");
    let listener = served.done("CreateListener", &format!("&LoadBalancerArn={BALANCER}{long}"));
    let listener = text(&listener, "ListenerArn");
    let modified = served.done(
        "ModifyListener",
        &format!("&ListenerArn={listener}{action}Type=forward{action}TargetGroupArn={GROUP}"),
    );
    assert_eq!(text(&modified, "TargetGroupArn"), GROUP);
}
