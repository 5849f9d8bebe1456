//! `describe-load-balancers`, `describe-listeners`.

#![forbid(unsafe_code)]

use super::fault;
use crate::control::model::{IpAddressType, LoadBalancer, State};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-load-balancers",
        "Lists load balancers: all of them, or those named.",
        describe_load_balancers,
    );
    table.method(
        "describe-listeners",
        "Lists listeners with the target group that each forwards to: all of them, those of one load balancer, or those named.",
        describe_listeners,
    );
}

/// Which load balancers are asked for; none named: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeLoadBalancers {
    /// Their ARNs or names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_arns: Vec<String>,
    /// Their names or ARNs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Load balancers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancers {
    /// By name, or in the order in which they were asked for.
    pub load_balancers: Vec<LoadBalancerDescription>,
}

/// A load balancer (O-1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancerDescription {
    /// Its ARN.
    pub load_balancer_arn: String,
    /// Its name.
    pub load_balancer_name: String,
    /// `gateway`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Whether it serves.
    pub state: LoadBalancerState,
    /// What may travel inside GENEVE.
    pub ip_address_type: IpAddressType,
    /// The zones it serves; empty for every zone.
    pub availability_zones: Vec<AvailabilityZone>,
}

/// Whether a load balancer serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancerState {
    /// `active`.
    pub code: String,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AvailabilityZone {
    /// Its name.
    pub zone_name: String,
}

fn describe_load_balancers(call: &Call<'_>, asked: DescribeLoadBalancers) -> Result<LoadBalancers, RpcError> {
    let state = call.service.state();
    let named = [("LoadBalancerArns", asked.load_balancer_arns), ("Names", asked.names)];
    let mut load_balancers = Vec::new();
    for (parameter, references) in &named {
        for (index, reference) in references.iter().enumerate() {
            let balancer = state
                .load_balancer(reference)
                .map_err(|error| fault::of_model(error, &format!("{parameter}[{index}]"), &state))?;
            load_balancers.push(LoadBalancerDescription::of(balancer));
        }
    }
    if named.iter().all(|(_, references)| references.is_empty()) {
        load_balancers = state.load_balancers().map(LoadBalancerDescription::of).collect();
    }
    Ok(LoadBalancers { load_balancers })
}

impl LoadBalancerDescription {
    fn of(balancer: &LoadBalancer) -> Self {
        LoadBalancerDescription {
            load_balancer_arn: balancer.arn(),
            load_balancer_name: balancer.name.to_string(),
            kind: "gateway".to_owned(),
            state: LoadBalancerState { code: "active".to_owned() },
            ip_address_type: balancer.ip_address_type,
            availability_zones: balancer
                .zones
                .iter()
                .map(|zone| AvailabilityZone { zone_name: zone.to_string() })
                .collect(),
        }
    }
}

/// Which listeners are asked for; nothing given: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeListeners {
    /// Of this load balancer: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_arn: Option<String>,
    /// These: by ARN, or by the name or ARN of the load balancer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listener_arns: Vec<String>,
}

/// Listeners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Listeners {
    /// By the name of their load balancers, or in the order in which they were asked for.
    pub listeners: Vec<ListenerDescription>,
}

/// A listener: no port, no protocol (O-1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ListenerDescription {
    /// Its ARN.
    pub listener_arn: String,
    /// Its load balancer's ARN.
    pub load_balancer_arn: String,
    /// The one action: to forward.
    pub default_actions: Vec<Action>,
}

/// What a listener does with a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Action {
    /// `forward`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The target group's ARN.
    pub target_group_arn: String,
}

fn describe_listeners(call: &Call<'_>, asked: DescribeListeners) -> Result<Listeners, RpcError> {
    let state = call.service.state();
    let mut listeners = Vec::new();
    if let Some(reference) = &asked.load_balancer_arn {
        let balancer = state
            .load_balancer(reference)
            .map_err(|error| fault::of_model(error, "LoadBalancerArn", &state))?;
        listeners.push(ListenerDescription::of(&state, balancer));
    }
    for (index, reference) in asked.listener_arns.iter().enumerate() {
        let balancer = state
            .load_balancer_of_listener(reference)
            .map_err(|error| fault::of_model(error, &format!("ListenerArns[{index}]"), &state))?;
        listeners.push(ListenerDescription::of(&state, balancer));
    }
    if asked.load_balancer_arn.is_none() && asked.listener_arns.is_empty() {
        listeners =
            state.load_balancers().map(|balancer| ListenerDescription::of(&state, balancer)).collect();
    }
    Ok(Listeners { listeners })
}

impl ListenerDescription {
    fn of(state: &State, balancer: &LoadBalancer) -> Self {
        let target_group_arn = state.target_group_of(balancer).arn();
        ListenerDescription {
            listener_arn: balancer.listener_arn(),
            load_balancer_arn: balancer.arn(),
            default_actions: vec![Action { kind: "forward".to_owned(), target_group_arn }],
        }
    }
}
