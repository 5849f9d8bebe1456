//! What Terraform sends, and what it compares: the requests of version 5.100.0 of its AWS provider, as they were recorded
//! (`tests/clients/test_terraform.py` has what was asked for). After each `apply` it reads everything back; what is not as it
//! was asked for it would change again, for ever.

use crate::client::{Answer, text};
use crate::endpoint::Served;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// A provider, and the ARNs that it was given.
struct Terraform {
    served: Served,
    arns: Vec<(&'static str, String)>,
}

impl Terraform {
    /// The answer to an action; `{name}` stands for an ARN.
    fn sends(&self, action: &str, form: &str) -> Answer {
        let mut form = format!("Action={action}{form}&Version=2015-12-01");
        for (name, arn) in &self.arns {
            let arn = utf8_percent_encode(arn, NON_ALPHANUMERIC).to_string();
            form = form.replace(&format!("{{{name}}}"), &arn);
        }
        let mut client = self.served.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1:6080\r\nUser-Agent: APN/1.0 HashiCorp/1.0 Terraform/1.11.4\r\n\
             Content-Length: {}\r\nAmz-Sdk-Invocation-Id: c41118ca-f53e-46d7-bfc9-f1f28729147e\r\n\
             Amz-Sdk-Request: attempt=1; max=25\r\nAuthorization: AWS4-HMAC-SHA256 Credential=any/20261130/eu-central-1/\
             elasticloadbalancing/aws4_request, SignedHeaders=host, Signature=0\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nX-Amz-Date: 20261130T205422Z\r\n\
             Accept-Encoding: gzip\r\n\r\n{form}",
            form.len()
        ));
        client.answer().unwrap()
    }

    fn done(&self, action: &str, form: &str) -> String {
        let answer = self.sends(action, form);
        assert_eq!(answer.status, 200, "{action}{form}: {}", answer.body);
        answer.body
    }

    /// That an action is answered so that the provider reads that there is no such object.
    fn finds_none(&self, action: &str, form: &str, code: &str) {
        assert_eq!(self.sends(action, form).refusal().1, code, "{action}{form}");
    }

    /// Makes an object; its ARN is called `name` from then on.
    fn makes(&mut self, name: &'static str, action: &str, form: &str) {
        let arn = text(&self.done(action, form), &format!("{name}Arn"));
        self.arns.push((name, arn));
    }

    /// Reads an object with its attributes and tags, as the provider does after each change.
    fn reads(&self, kind: &str) -> Read {
        let (all, one) = (format!("Describe{kind}s"), format!("&{kind}Arns.member.1={{{kind}}}"));
        Read {
            object: self.done(&all, &one),
            attributes: self.done(&format!("Describe{kind}Attributes"), &format!("&{kind}Arn={{{kind}}}")),
            tags: self.done("DescribeTags", &format!("&ResourceArns.member.1={{{kind}}}")),
        }
    }
}

/// An object as the provider has it.
struct Read {
    object: String,
    attributes: String,
    tags: String,
}

impl Read {
    #[track_caller]
    fn has(&self, members: &[(&str, &str)]) {
        for (name, value) in members {
            assert_eq!(text(&self.object, name), *value, "{name} in {}", self.object);
        }
    }

    #[track_caller]
    fn has_attributes(&self, pairs: &[(&str, &str)]) {
        for (key, value) in pairs {
            let pair = format!("<Key>{key}</Key><Value>{value}</Value>");
            assert!(self.attributes.contains(&pair), "{pair} in {}", self.attributes);
        }
    }

    #[track_caller]
    fn has_tags(&self, pairs: &[(&str, &str)]) {
        let told = pairs.iter().map(|(key, value)| format!("<Key>{key}</Key><Value>{value}</Value>"));
        assert!(told.clone().all(|pair| self.tags.contains(&pair)), "{pairs:?} in {}", self.tags);
        assert_eq!(self.tags.matches("<Key>").count(), pairs.len(), "{}", self.tags);
    }
}

/// Attributes as parameters.
fn attributes(pairs: &[(&str, &str)]) -> String {
    let pair = |(n, (key, value)): (usize, &(&str, &str))| {
        format!("&Attributes.member.{n}.Key={key}&Attributes.member.{n}.Value={value}")
    };
    (1..).zip(pairs).map(pair).collect()
}

const BY: &str = "&Tags.member.1.Key=by&Tags.member.1.Value=terraform";

/// `terraform apply` on a node that has nothing of it.
fn created() -> Terraform {
    let mut terraform = Terraform { served: Served::start(), arns: Vec::new() };
    terraform.finds_none("DescribeTargetGroups", "&Names.member.1=edge", "TargetGroupNotFound");
    terraform.finds_none("DescribeLoadBalancers", "&Names.member.1=edge", "LoadBalancerNotFound");
    terraform.makes(
        "TargetGroup",
        "CreateTargetGroup",
        &format!(
            "&HealthCheckEnabled=true&HealthCheckIntervalSeconds=20&HealthCheckPath=%2Fhealthz&HealthCheckPort=traffic-port\
             &HealthCheckProtocol=HTTP&HealthCheckTimeoutSeconds=5&HealthyThresholdCount=2&Matcher.HttpCode=200-299\
             &Name=edge&Port=6081&Protocol=GENEVE{BY}&Tags.member.2.Key=team&Tags.member.2.Value=perimeter&TargetType=ip\
             &UnhealthyThresholdCount=2&VpcId=vpc-0123"
        ),
    );
    terraform.makes(
        "LoadBalancer",
        "CreateLoadBalancer",
        &format!("&IpAddressType=ipv4&Name=edge&SubnetMappings.member.1.SubnetId=subnet-0a{BY}&Type=gateway"),
    );
    let first = attributes(&[
        ("stickiness.enabled", "true"),
        ("stickiness.type", "source_ip_dest_ip"),
        ("target_failover.on_deregistration", "rebalance"),
        ("target_failover.on_unhealthy", "rebalance"),
        ("deregistration_delay.timeout_seconds", "0"),
    ]);
    terraform.done("ModifyTargetGroupAttributes", &format!("{first}&TargetGroupArn={{TargetGroup}}"));
    let cross_zone = attributes(&[
        ("load_balancing.cross_zone.enabled", "true"),
        ("deletion_protection.enabled", "false"),
    ]);
    terraform.done("ModifyLoadBalancerAttributes", &format!("{cross_zone}&LoadBalancerArn={{LoadBalancer}}"));
    terraform.makes(
        "Listener",
        "CreateListener",
        &format!(
            "&DefaultActions.member.1.Order=1&DefaultActions.member.1.TargetGroupArn={{TargetGroup}}\
             &DefaultActions.member.1.Type=forward&LoadBalancerArn={{LoadBalancer}}{BY}"
        ),
    );
    for address in ["192.0.2.11", "192.0.2.12"] {
        terraform.done("RegisterTargets", &target(address));
    }
    terraform
}

fn target(address: &str) -> String {
    format!(
        "&TargetGroupArn={{TargetGroup}}&Targets.member.1.AvailabilityZone=a&Targets.member.1.Id={address}\
         &Targets.member.1.Port=6081"
    )
}

#[test]
fn what_terraform_made_is_what_it_asked_for() {
    let terraform = created();
    let group = terraform.reads("TargetGroup");
    group.has(&[
        ("HealthCheckEnabled", "true"),
        ("HealthCheckIntervalSeconds", "20"),
        ("HealthCheckPath", "/healthz"),
        ("HealthCheckPort", "traffic-port"),
        ("HealthCheckProtocol", "HTTP"),
        ("HealthCheckTimeoutSeconds", "5"),
        ("HealthyThresholdCount", "2"),
        ("UnhealthyThresholdCount", "2"),
        ("HttpCode", "200-299"),
        ("TargetGroupName", "edge"),
        ("Port", "6081"),
        ("Protocol", "GENEVE"),
        ("TargetType", "ip"),
        ("VpcId", "vpc-0123"),
        ("IpAddressType", "ipv4"),
    ]);
    group.has_attributes(&[
        ("deregistration_delay.timeout_seconds", "0"),
        ("stickiness.enabled", "true"),
        ("stickiness.type", "source_ip_dest_ip"),
        ("target_failover.on_deregistration", "rebalance"),
        ("target_failover.on_unhealthy", "rebalance"),
    ]);
    group.has_tags(&[("by", "terraform"), ("team", "perimeter")]);
    let balancer = terraform.reads("LoadBalancer");
    balancer.has(&[
        ("LoadBalancerName", "edge"),
        ("Type", "gateway"),
        ("IpAddressType", "ipv4"),
        ("SubnetId", "subnet-0a"),
        ("Code", "active"),
    ]);
    balancer.has_attributes(&[
        ("load_balancing.cross_zone.enabled", "true"),
        ("deletion_protection.enabled", "false"),
    ]);
    balancer.has_tags(&[("by", "terraform")]);
    let listener = terraform.reads("Listener");
    listener.has(&[("LoadBalancerArn", &terraform.arns[1].1), ("TargetGroupArn", &terraform.arns[0].1)]);
    listener.has_attributes(&[("tcp.idle_timeout.seconds", "350")]);
    listener.has_tags(&[("by", "terraform")]);
    for address in ["192.0.2.11", "192.0.2.12"] {
        let health = terraform.done("DescribeTargetHealth", &target(address));
        assert_eq!((text(&health, "Id"), text(&health, "State")), (address.to_owned(), "initial".to_owned()));
    }
}

#[test]
fn what_terraform_changes_is_changed() {
    let terraform = created();
    terraform.done("DeregisterTargets", &target("192.0.2.11"));
    terraform.done(
        "AddTags",
        "&ResourceArns.member.1={LoadBalancer}&Tags.member.1.Key=form&Tags.member.1.Value=2",
    );
    terraform.done("RemoveTags", "&ResourceArns.member.1={LoadBalancer}&TagKeys.member.1=by");
    // It asks for what other load balancers have, too, and takes out what it is told is not recognized.
    let logs = ("access_logs.s3.enabled", "false");
    let cross_zone = ("load_balancing.cross_zone.enabled", "false");
    let modify = |pairs: &[(&str, &str)]| {
        let form = format!("{}&LoadBalancerArn={{LoadBalancer}}", attributes(pairs));
        terraform.sends("ModifyLoadBalancerAttributes", &form)
    };
    let (status, code, message) = modify(&[logs, cross_zone]).refusal();
    assert_eq!((status, code.as_str()), (400, "ValidationError"));
    assert!(
        message.contains("attribute key &apos;access_logs.s3.enabled&apos; is not recognized"),
        "{message}"
    );
    assert_eq!(modify(&[cross_zone]).status, 200);
    terraform.done(
        "ModifyTargetGroup",
        "&HealthCheckEnabled=true&HealthCheckIntervalSeconds=10&HealthCheckPath=%2Fready&HealthCheckPort=8080\
         &HealthCheckProtocol=HTTP&HealthCheckTimeoutSeconds=5&HealthyThresholdCount=2&Matcher.HttpCode=200%2C301-302\
         &TargetGroupArn={TargetGroup}&UnhealthyThresholdCount=3",
    );
    let second = [
        ("stickiness.enabled", "false"),
        ("stickiness.type", "source_ip_dest_ip"),
        ("target_failover.on_deregistration", "no_rebalance"),
        ("target_failover.on_unhealthy", "no_rebalance"),
        ("deregistration_delay.timeout_seconds", "120"),
    ];
    terraform.done(
        "ModifyTargetGroupAttributes",
        &format!("{}&TargetGroupArn={{TargetGroup}}", attributes(&second)),
    );
    terraform.done(
        "SetSubnets",
        "&LoadBalancerArn={LoadBalancer}&SubnetMappings.member.1.SubnetId=subnet-0b&SubnetMappings.member.2.SubnetId=subnet-0a",
    );
    terraform.done("SetIpAddressType", "&IpAddressType=dualstack&LoadBalancerArn={LoadBalancer}");
    terraform.done(
        "ModifyListener",
        "&DefaultActions.member.1.ForwardConfig.TargetGroups.member.1.TargetGroupArn={TargetGroup}\
         &DefaultActions.member.1.ForwardConfig.TargetGroups.member.1.Weight=1&DefaultActions.member.1.Order=1\
         &DefaultActions.member.1.Type=forward&ListenerArn={Listener}",
    );
    terraform.done(
        "ModifyListenerAttributes",
        &format!("{}&ListenerArn={{Listener}}", attributes(&[("tcp.idle_timeout.seconds", "400")])),
    );

    let group = terraform.reads("TargetGroup");
    group.has(&[
        ("HealthCheckIntervalSeconds", "10"),
        ("HealthCheckPath", "/ready"),
        ("HealthCheckPort", "8080"),
        ("HttpCode", "200,301-302"),
        ("UnhealthyThresholdCount", "3"),
    ]);
    group.has_attributes(&second);
    let balancer = terraform.reads("LoadBalancer");
    balancer.has(&[("IpAddressType", "dualstack")]);
    for subnet in ["subnet-0a", "subnet-0b"] {
        assert!(balancer.object.contains(&format!("<SubnetId>{subnet}</SubnetId>")), "{}", balancer.object);
    }
    balancer.has_attributes(&[cross_zone]);
    balancer.has_tags(&[("form", "2")]);
    let listener = terraform.reads("Listener");
    // The weight that the provider takes for granted.
    listener.has(&[("Weight", "1"), ("TargetGroupArn", &terraform.arns[0].1)]);
    listener.has_attributes(&[("tcp.idle_timeout.seconds", "400")]);
    let gone = terraform.done("DescribeTargetHealth", &target("192.0.2.11"));
    assert_eq!(text(&gone, "Reason"), "Target.DeregistrationInProgress");
}

#[test]
fn what_terraform_destroys_is_gone() {
    let terraform = created();
    let in_use = terraform.sends("DeleteTargetGroup", "&TargetGroupArn={TargetGroup}").refusal();
    // The words by which it knows that it is to try again.
    assert_eq!(in_use.1, "ResourceInUse");
    assert!(in_use.2.contains("is currently in use by a listener or a rule"), "{}", in_use.2);
    terraform.done("DeleteListener", "&ListenerArn={Listener}");
    for address in ["192.0.2.11", "192.0.2.12"] {
        terraform.done("DeregisterTargets", &target(address));
    }
    terraform.done("DeleteLoadBalancer", "&LoadBalancerArn={LoadBalancer}");
    // It asks EC2 then, by another version of another API, and goes on when that says no.
    let mut client = terraform.served.connect();
    let ec2 = client.post(
        "Action=DescribeNetworkInterfaces&Filter.1.Name=attachment.instance-owner-id&Version=2016-11-15",
    );
    assert_eq!((ec2.status, ec2.refusal().1.as_str()), (400, "InvalidAction"));
    terraform.done("DeleteTargetGroup", "&TargetGroupArn={TargetGroup}");
    for (kind, code) in [
        ("LoadBalancer", "LoadBalancerNotFound"),
        ("TargetGroup", "TargetGroupNotFound"),
        ("Listener", "ListenerNotFound"),
    ] {
        terraform.finds_none(&format!("Describe{kind}s"), &format!("&{kind}Arns.member.1={{{kind}}}"), code);
    }
}
