//! `describe-target-groups`.

#![forbid(unsafe_code)]

use super::fault;
use crate::control::model::{GENEVE_PORT, State, TargetGroup};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-target-groups",
        "Lists target groups with their health checks and detection times: all of them, that of one load balancer, or those named.",
        describe_target_groups,
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
}

/// Target groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetGroups {
    /// By name, or in the order in which they were asked for.
    pub target_groups: Vec<TargetGroupDescription>,
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
#[serde(rename_all = "PascalCase")]
pub struct CodeMatcher {
    /// A list of codes and ranges, such as `200,301-302`.
    pub http_code: String,
}

fn describe_target_groups(call: &Call<'_>, asked: DescribeTargetGroups) -> Result<TargetGroups, RpcError> {
    let state = call.service.state();
    let mut target_groups = Vec::new();
    if let Some(reference) = &asked.load_balancer_arn {
        let balancer = state
            .load_balancer(reference)
            .map_err(|error| fault::of_model(error, "LoadBalancerArn", &state))?;
        target_groups.push(TargetGroupDescription::of(&state, state.target_group_of(balancer)));
    }
    for (parameter, references) in [("TargetGroupArns", &asked.target_group_arns), ("Names", &asked.names)] {
        for (index, reference) in references.iter().enumerate() {
            let group = state
                .target_group(reference)
                .map_err(|error| fault::of_model(error, &format!("{parameter}[{index}]"), &state))?;
            target_groups.push(TargetGroupDescription::of(&state, group));
        }
    }
    let named = !asked.target_group_arns.is_empty() || !asked.names.is_empty();
    if asked.load_balancer_arn.is_none() && !named {
        target_groups =
            state.target_groups().map(|group| TargetGroupDescription::of(&state, group)).collect();
    }
    Ok(TargetGroups { target_groups })
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
            target_type: "ip".to_owned(),
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

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
