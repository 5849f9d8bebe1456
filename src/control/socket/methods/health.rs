//! `describe-target-health` (H-4, H-5, H-7).

#![forbid(unsafe_code)]

use super::registration::TargetName;
use super::{fault, groups};
use crate::control::duration::milliseconds;
use crate::control::events::Timestamp;
use crate::control::health::{HealthState, ReasonCode};
use crate::control::model::{GENEVE_PORT, TargetGroup};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::service::{Service, TargetStatus};
use crate::control::socket::views::{InBandView, NextHopView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-target-health",
        "Tells how the targets of a group stand: state, reason, since when, live flows, how many of these their death would end, and what the traffic itself says.",
        describe_target_health,
    );
}

/// Whose health is asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeTargetHealth {
    /// The target group's ARN or name.
    pub target_group_arn: String,
    /// These targets; none named: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetName>,
}

/// How the targets of a group stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct GroupHealth {
    /// The target group's name.
    pub target_group_name: String,
    /// Interval × unhealthy threshold, in milliseconds (H-7).
    pub detection_time_ms: u64,
    /// By address, or in the order in which they were asked for.
    pub target_health_descriptions: Vec<TargetHealthDescription>,
}

/// How a target stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetHealthDescription {
    /// Which.
    pub target: TargetIdentity,
    /// The port that is checked.
    pub health_check_port: String,
    /// Its state and why.
    pub target_health: TargetHealth,
    /// Since when it is in this state; none for a target that is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// While it drains: after how many milliseconds the drain ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_ends_in_ms: Option<u64>,
    /// Whom its packets are handed to, and whether that one's link-layer address is known; none for a target
    /// that is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbour: Option<NextHopView>,
    /// Its live flows.
    pub flows: u64,
    /// Of these, how many its sudden death would end: all TCP flows that would be reset or left hanging, none where the group rebalances.
    pub would_die: u64,
    /// How it stands by the traffic itself, whatever its checks say; none for a target that is not
    /// registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_band: Option<InBandView>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetIdentity {
    /// Its address.
    pub id: Ipv4Addr,
    /// 6081.
    pub port: u16,
    /// Its zone, or `all`.
    pub availability_zone: String,
    /// Its share of new flows relative to the other targets.
    pub weight: u16,
}

/// A state and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetHealth {
    /// H-4.
    pub state: HealthState,
    /// H-5; none for `healthy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonCode>,
    /// What was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

fn describe_target_health(call: &Call<'_>, asked: DescribeTargetHealth) -> Result<GroupHealth, RpcError> {
    let state = call.service.state();
    let group = state
        .target_group(&asked.target_group_arn)
        .map_err(|error| fault::of_model(error, "TargetGroupArn", &state))?;
    let mut health = GroupHealth::of(call.service, group);
    if !asked.targets.is_empty() {
        let all = std::mem::take(&mut health.target_health_descriptions);
        let find = |name: TargetName| {
            let known = all.iter().find(|known| known.target.id == name.id).cloned();
            known.unwrap_or_else(|| TargetHealthDescription::not_registered(group, name.id))
        };
        health.target_health_descriptions = asked.targets.into_iter().map(find).collect();
    }
    Ok(health)
}

impl GroupHealth {
    /// How every target of `group` stands.
    pub(super) fn of(service: &dyn Service, group: &TargetGroup) -> Self {
        let describe = |status| TargetHealthDescription::of(group, status);
        GroupHealth {
            target_group_name: group.name.to_string(),
            detection_time_ms: groups::detection_time_ms(group),
            target_health_descriptions: service.targets(group).into_iter().map(describe).collect(),
        }
    }
}

impl TargetHealthDescription {
    fn of(group: &TargetGroup, status: TargetStatus) -> Self {
        TargetHealthDescription {
            target: TargetIdentity {
                id: status.address,
                port: GENEVE_PORT,
                availability_zone: status.zone.unwrap_or_else(|| "all".to_owned()),
                weight: status.weight,
            },
            health_check_port: group.health_check.port.to_string(),
            target_health: TargetHealth {
                state: status.state,
                reason: status.reason,
                description: status.description,
            },
            since: Some(status.since),
            drain_ends_in_ms: status.drain_left.map(milliseconds),
            neighbour: Some(status.neighbour),
            flows: status.flows,
            would_die: status.would_die,
            in_band: status.in_band,
        }
    }

    /// As AWS answers for a target that it does not know.
    fn not_registered(group: &TargetGroup, id: Ipv4Addr) -> Self {
        TargetHealthDescription {
            target: TargetIdentity { id, port: GENEVE_PORT, availability_zone: "all".to_owned(), weight: 1 },
            health_check_port: group.health_check.port.to_string(),
            target_health: TargetHealth {
                state: HealthState::Unused,
                reason: Some(ReasonCode::NotRegistered),
                description: ReasonCode::NotRegistered.sentence().to_owned(),
            },
            since: None,
            drain_ends_in_ms: None,
            neighbour: None,
            flows: 0,
            would_die: 0,
            in_band: None,
        }
    }
}
