//! Target groups: described, created, changed and deleted (O-2, H-1).

#![forbid(unsafe_code)]

use super::balancers::{Done, changed};
use super::fault;
use super::page::{Order, PageSize, page};
use super::tags::{Tag, pairs};
use crate::control::duration::milliseconds;
use crate::control::model::{Change, ForeignId, GENEVE_PORT, HealthCheckChange, Name, State, TargetGroup};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-target-groups",
        "Lists target groups with their health checks and detection times: all of them, that of one load balancer, or those named.",
        describe_target_groups,
    );
    table.change("create-target-group", "Creates a target group, without targets.", create_target_group);
    table.change(
        "modify-target-group",
        "Changes how the targets of a group are checked; what is not given stays.",
        modify_target_group,
    );
    table.change(
        "delete-target-group",
        "Deletes a target group and its targets, unless a listener uses it.",
        delete_target_group,
    );
}

/// Which target groups are asked for; nothing given: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeTargetGroups {
    /// Of this load balancer: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_arn: Option<String>,
    /// These: their ARNs or names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_group_arns: Vec<String>,
    /// These: their names or ARNs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Those after the page before, whose `NextMarker` this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// So many at most; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<PageSize>,
}

/// Target groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetGroups {
    /// By name, or in the order in which they were asked for.
    pub target_groups: Vec<TargetGroupDescription>,
    /// The `Marker` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
}

/// A target group (O-2) and how its targets are checked (H-1, H-2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetGroupDescription {
    /// Its ARN.
    pub target_group_arn: String,
    /// Its name.
    pub target_group_name: String,
    /// `GENEVE`.
    pub protocol: String,
    /// 6081.
    pub port: u16,
    /// `ip`.
    pub target_type: String,
    /// `ipv4`: what its targets' addresses are.
    pub ip_address_type: String,
    /// The VPC that it was created with, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// The ARN of the load balancer that uses it, if any does.
    pub load_balancer_arns: Vec<String>,
    /// Registered targets, those that drain not among them.
    pub registered_targets: usize,
    /// `true`.
    pub health_check_enabled: bool,
    /// `TCP`, `HTTP` or `HTTPS`.
    pub health_check_protocol: String,
    /// A port, or `traffic-port`.
    pub health_check_port: String,
    /// Between two checks of a target.
    pub health_check_interval_seconds: u32,
    /// How long an answer may take.
    pub health_check_timeout_seconds: u32,
    /// Successes in a row that make a target healthy.
    pub healthy_threshold_count: u8,
    /// Failures in a row that make a target unhealthy.
    pub unhealthy_threshold_count: u8,
    /// With HTTP and HTTPS: what is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_path: Option<String>,
    /// With HTTP and HTTPS: the answers that count as success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matcher: Option<CodeMatcher>,
    /// The interval that holds, in milliseconds: the seconds, or what `flowgate.health_check.interval_ms` says instead.
    pub health_check_interval_ms: u64,
    /// The timeout that holds, in milliseconds.
    pub health_check_timeout_ms: u64,
    /// Interval × unhealthy threshold, in milliseconds (H-7).
    pub detection_time_ms: u64,
}

/// Status codes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CodeMatcher {
    /// A list of codes and ranges, such as `200,301-302`.
    pub http_code: String,
}

/// Parameters that have, beside their own members, those of a health check: serde refuses unknown members
/// only where all of them are the struct's own.
macro_rules! with_health_check {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "PascalCase", deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// `TCP`, `HTTP` or `HTTPS`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub health_check_protocol: Option<String>,
            /// A port's number, or `traffic-port`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub health_check_port: Option<String>,
            /// `true`, if it is given: a gateway's targets are always checked.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub health_check_enabled: Option<bool>,
            /// With HTTP and HTTPS: what is asked for.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub health_check_path: Option<String>,
            /// Between two checks of a target: 5 to 300.
            #[schemars(range(min = 5, max = 300))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub health_check_interval_seconds: Option<u32>,
            /// How long an answer may take: 2 to 120.
            #[schemars(range(min = 2, max = 120))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub health_check_timeout_seconds: Option<u32>,
            /// Successes in a row that make a target healthy: 2 to 10; 1 too, where it is checked in milliseconds.
            #[schemars(range(min = 1, max = 10))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub healthy_threshold_count: Option<u8>,
            /// Failures in a row that make a target unhealthy: 2 to 10; 1 too, where it is checked in milliseconds.
            #[schemars(range(min = 1, max = 10))]
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub unhealthy_threshold_count: Option<u8>,
            /// With HTTP and HTTPS: the answers that count as success.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub matcher: Option<CodeMatcher>,
        }

        impl $name {
            /// What is given of the health check.
            fn health_check(&self) -> Result<HealthCheckChange, RpcError> {
                if self.health_check_enabled == Some(false) {
                    let message = "the health checks of a gateway's targets cannot be disabled";
                    return Err(RpcError::invalid_params("HealthCheckEnabled", message));
                }
                Ok(HealthCheckChange {
                    protocol: self.health_check_protocol.clone(),
                    port: self.health_check_port.clone(),
                    path: self.health_check_path.clone(),
                    matcher: self.matcher.as_ref().map(|matcher| matcher.http_code.clone()),
                    interval_seconds: self.health_check_interval_seconds,
                    timeout_seconds: self.health_check_timeout_seconds,
                    healthy_threshold: self.healthy_threshold_count,
                    unhealthy_threshold: self.unhealthy_threshold_count,
                })
            }
        }
    };
}

with_health_check! {
    /// A target group to create. What is not given of its health check has its default.
    pub struct CreateTargetGroup {
        /// Its name, the only one of that name among target groups.
        pub name: Name,
        /// `GENEVE`, if it is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub protocol: Option<String>,
        /// 6081, if it is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub port: Option<u16>,
        /// `ip`, if it is given: targets are named by their addresses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub target_type: Option<String>,
        /// `ipv4`, if it is given: what its targets' addresses are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ip_address_type: Option<String>,
        /// The VPC that AWS's tools have it in; kept and shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub vpc_id: Option<ForeignId>,
        /// What is noted on it: up to 50.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub tags: Vec<Tag>,
    }
}

with_health_check! {
    /// A target group and how its targets are checked from now on. What is not given stays.
    pub struct ModifyTargetGroup {
        /// Its ARN or name.
        pub target_group_arn: String,
    }
}

/// The target group to delete.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DeleteTargetGroup {
    /// Its ARN or name; an ARN that is gone already is no error.
    pub target_group_arn: String,
}

/// Target groups after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChangedTargetGroups {
    /// The one that was asked for, new or as it was.
    pub target_groups: Vec<TargetGroupDescription>,
    /// The configuration's number, this change included.
    pub generation: u64,
}

/// The only type of target: an address.
const TARGET_TYPE: &str = "ip";

fn create_target_group(call: &Call<'_>, asked: CreateTargetGroup) -> Result<ChangedTargetGroups, RpcError> {
    let port = asked.port.map(|port| port.to_string());
    for (parameter, given, only) in [
        ("Protocol", &asked.protocol, "GENEVE".to_owned()),
        ("Port", &port, GENEVE_PORT.to_string()),
        ("IpAddressType", &asked.ip_address_type, "ipv4".to_owned()),
    ] {
        if let Some(given) = given.as_ref().filter(|given| **given != only) {
            let message = format!("'{given}' must be '{only}', or left out");
            return Err(RpcError::invalid_params(parameter, message));
        }
    }
    if let Some(given) = asked.target_type.as_ref().filter(|given| *given != TARGET_TYPE) {
        // As AWS says it of a word that it does not know.
        let message = format!(
            "Value '{given}' at 'targetType' failed to satisfy constraint: Member must satisfy enum value set: [{TARGET_TYPE}]"
        );
        return Err(RpcError::invalid_params("TargetType", message)
            .hint("this node knows no instances; create the target group with the target type ip and register addresses"));
    }
    let change = Change::CreateTargetGroup {
        name: asked.name.clone(),
        health_check: asked.health_check()?,
        vpc_id: asked.vpc_id.clone(),
        tags: pairs(asked.tags.clone()),
    };
    let generation = changed(call, &change, "Name")?;
    Ok(ChangedTargetGroups { target_groups: described(call, asked.name.as_str()), generation })
}

fn modify_target_group(call: &Call<'_>, asked: ModifyTargetGroup) -> Result<ChangedTargetGroups, RpcError> {
    let health_check = asked.health_check()?;
    let target_group = asked.target_group_arn;
    let change = Change::ModifyTargetGroup { target_group: target_group.clone(), health_check };
    let generation = changed(call, &change, "TargetGroupArn")?;
    Ok(ChangedTargetGroups { target_groups: described(call, &target_group), generation })
}

fn delete_target_group(call: &Call<'_>, asked: DeleteTargetGroup) -> Result<Done, RpcError> {
    let change = Change::DeleteTargetGroup { target_group: asked.target_group_arn };
    Ok(Done { generation: changed(call, &change, "TargetGroupArn")? })
}

fn described(call: &Call<'_>, reference: &str) -> Vec<TargetGroupDescription> {
    let state = call.service.state();
    state.target_group(reference).map(|group| TargetGroupDescription::of(&state, group)).into_iter().collect()
}

fn describe_target_groups(call: &Call<'_>, asked: DescribeTargetGroups) -> Result<TargetGroups, RpcError> {
    let state = call.service.state();
    let mut found = Vec::new();
    if let Some(reference) = &asked.load_balancer_arn {
        let balancer = state
            .load_balancer(reference)
            .map_err(|error| fault::of_model(error, "LoadBalancerArn", &state))?;
        found.extend(state.target_group_of(balancer));
    }
    for (parameter, references) in [("TargetGroupArns", &asked.target_group_arns), ("Names", &asked.names)] {
        for (index, reference) in references.iter().enumerate() {
            let group = state
                .target_group(reference)
                .map_err(|error| fault::of_model(error, &format!("{parameter}[{index}]"), &state))?;
            found.push(group);
        }
    }
    let named = !asked.target_group_arns.is_empty() || !asked.names.is_empty();
    let (found, order) = if asked.load_balancer_arn.is_none() && !named {
        (state.target_groups().collect(), Order::ByKey)
    } else {
        (found, Order::AsAsked)
    };
    let (page, next_marker) = page(found, name_of, order, asked.marker.as_deref(), asked.page_size)?;
    let target_groups = page.into_iter().map(|group| TargetGroupDescription::of(&state, group)).collect();
    Ok(TargetGroups { target_groups, next_marker })
}

fn name_of<'a>(group: &'a &TargetGroup) -> &'a str {
    group.name.as_str()
}

impl TargetGroupDescription {
    fn of(state: &State, group: &TargetGroup) -> Self {
        let check = &group.health_check;
        let settings = group.settings().health_check;
        let question = check.probe.question();
        TargetGroupDescription {
            target_group_arn: group.arn(),
            target_group_name: group.name.to_string(),
            protocol: "GENEVE".to_owned(),
            port: GENEVE_PORT,
            target_type: TARGET_TYPE.to_owned(),
            ip_address_type: "ipv4".to_owned(),
            vpc_id: group.vpc_id.as_ref().map(ToString::to_string),
            load_balancer_arns: state.load_balancer_using(&group.name).iter().map(|lb| lb.arn()).collect(),
            registered_targets: group.targets.values().filter(|target| target.is_registered()).count(),
            health_check_enabled: true,
            health_check_protocol: check.probe.protocol().to_owned(),
            health_check_port: check.port.to_string(),
            health_check_interval_seconds: check.interval_seconds,
            health_check_timeout_seconds: check.timeout_seconds,
            healthy_threshold_count: check.healthy_threshold,
            unhealthy_threshold_count: check.unhealthy_threshold,
            health_check_path: question.map(|(path, _)| path.to_owned()),
            matcher: question.map(|(_, matcher)| CodeMatcher { http_code: matcher.to_string() }),
            health_check_interval_ms: milliseconds(settings.interval),
            health_check_timeout_ms: milliseconds(settings.timeout),
            detection_time_ms: milliseconds(settings.detection_time()),
        }
    }
}

/// How long the death of one of `group`'s targets goes unseen (H-7), in milliseconds.
pub(super) fn detection_time_ms(group: &TargetGroup) -> u64 {
    milliseconds(group.settings().health_check.detection_time())
}
