//! Load balancers and their listeners: described, created, changed and deleted (O-1, O-5, A-9).

#![forbid(unsafe_code)]

use super::fault;
use crate::control::model::{Change, IpAddressType, LoadBalancer, Name, Placement, State, Zone};
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
    table.change(
        "create-load-balancer",
        "Creates a load balancer, which drops what its endpoints bring until it has a listener.",
        create_load_balancer,
    );
    table.change(
        "delete-load-balancer",
        "Deletes a load balancer and its listener, unless it is protected.",
        delete_load_balancer,
    );
    table.change(
        "create-listener",
        "Gives a load balancer its one listener, which forwards to a target group that no other uses.",
        create_listener,
    );
    table.change("modify-listener", "Has a listener forward to another target group.", modify_listener);
    table.change(
        "delete-listener",
        "Takes a load balancer's listener away: new flows and old ones are dropped.",
        delete_listener,
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

/// A load balancer to create.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CreateLoadBalancer {
    /// Its name, the only one of that name among load balancers.
    pub name: Name,
    /// `gateway`, if it is given.
    #[serde(rename = "Type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What may travel inside GENEVE; `ipv4` by default.
    #[serde(default)]
    pub ip_address_type: IpAddressType,
    /// The names of the zones that it serves; every zone if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub availability_zones: Vec<Zone>,
}

/// The load balancer to delete.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DeleteLoadBalancer {
    /// Its ARN or name; an ARN that is gone already is no error.
    pub load_balancer_arn: String,
}

/// Load balancers after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChangedLoadBalancers {
    /// The one that was asked for, new or as it was.
    pub load_balancers: Vec<LoadBalancerDescription>,
    /// The configuration's number, this change included.
    pub generation: u64,
}

/// A change that leaves nothing to describe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Done {
    /// The configuration's number, this change included.
    pub generation: u64,
}

fn create_load_balancer(
    call: &Call<'_>,
    asked: CreateLoadBalancer,
) -> Result<ChangedLoadBalancers, RpcError> {
    if let Some(kind) = asked.kind.filter(|kind| kind != "gateway") {
        let message = format!("the type '{kind}' must be 'gateway', or left out");
        return Err(RpcError::invalid_params("Type", message));
    }
    let change = Change::CreateLoadBalancer {
        name: asked.name.clone(),
        ip_address_type: asked.ip_address_type,
        placement: Placement::of_zones(asked.availability_zones),
        tags: Vec::new(),
        now_unix_ms: u64::try_from(call.service.now().unix_ms()).unwrap_or(0),
    };
    let generation = changed(call, &change, "Name")?;
    let state = call.service.state();
    let load_balancers = state.load_balancer(asked.name.as_str()).map(LoadBalancerDescription::of);
    Ok(ChangedLoadBalancers { load_balancers: load_balancers.into_iter().collect(), generation })
}

fn delete_load_balancer(call: &Call<'_>, asked: DeleteLoadBalancer) -> Result<Done, RpcError> {
    let change = Change::DeleteLoadBalancer { load_balancer: asked.load_balancer_arn };
    Ok(Done { generation: changed(call, &change, "LoadBalancerArn")? })
}

/// Makes `change`; the configuration's number after it.
pub(super) fn changed(call: &Call<'_>, change: &Change, parameter: &str) -> Result<u64, RpcError> {
    match call.service.apply(change) {
        Ok(applied) => Ok(applied.generation),
        Err(error) => Err(fault::of_change(error, parameter, &call.service.state())),
    }
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
                .placement
                .places()
                .iter()
                .filter_map(|place| place.zone.as_ref())
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
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
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
        listeners.extend(ListenerDescription::of(&state, balancer));
    }
    for (index, reference) in asked.listener_arns.iter().enumerate() {
        let (balancer, _) = state
            .load_balancer_of_listener(reference)
            .map_err(|error| fault::of_model(error, &format!("ListenerArns[{index}]"), &state))?;
        listeners.extend(ListenerDescription::of(&state, balancer));
    }
    if asked.load_balancer_arn.is_none() && asked.listener_arns.is_empty() {
        listeners =
            state.load_balancers().filter_map(|balancer| ListenerDescription::of(&state, balancer)).collect();
    }
    Ok(Listeners { listeners })
}

impl ListenerDescription {
    /// That of `balancer`, if it has one.
    fn of(state: &State, balancer: &LoadBalancer) -> Option<Self> {
        let target_group_arn = state.target_group_of(balancer)?.arn();
        Some(ListenerDescription {
            listener_arn: balancer.listener_arn()?,
            load_balancer_arn: balancer.arn(),
            default_actions: vec![Action { kind: FORWARD.to_owned(), target_group_arn }],
        })
    }
}

/// What every listener does.
const FORWARD: &str = "forward";

/// A listener to create.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CreateListener {
    /// The ARN or name of the load balancer.
    pub load_balancer_arn: String,
    /// One action: to forward to a target group, by ARN or name.
    pub default_actions: Vec<Action>,
}

/// A listener and what it is to do from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ModifyListener {
    /// Its ARN, or the name or ARN of its load balancer.
    pub listener_arn: String,
    /// One action: to forward to a target group, by ARN or name.
    pub default_actions: Vec<Action>,
}

/// The listener to delete.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DeleteListener {
    /// Its ARN, or the name or ARN of its load balancer.
    pub listener_arn: String,
}

/// Listeners after a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChangedListeners {
    /// The one that was asked for, new or as it was.
    pub listeners: Vec<ListenerDescription>,
    /// The configuration's number, this change included.
    pub generation: u64,
}

fn create_listener(call: &Call<'_>, asked: CreateListener) -> Result<ChangedListeners, RpcError> {
    let CreateListener { load_balancer_arn, default_actions } = asked;
    let target_group = target_of(default_actions)?;
    let change =
        Change::CreateListener { load_balancer: load_balancer_arn.clone(), target_group, tags: Vec::new() };
    let generation = changed(call, &change, "LoadBalancerArn")?;
    Ok(ChangedListeners { listeners: listener_of(call, &load_balancer_arn), generation })
}

fn modify_listener(call: &Call<'_>, asked: ModifyListener) -> Result<ChangedListeners, RpcError> {
    let ModifyListener { listener_arn, default_actions } = asked;
    let target_group = target_of(default_actions)?;
    let change = Change::ModifyListener { listener: listener_arn.clone(), target_group };
    let generation = changed(call, &change, "ListenerArn")?;
    Ok(ChangedListeners { listeners: listener_of(call, &listener_arn), generation })
}

fn delete_listener(call: &Call<'_>, asked: DeleteListener) -> Result<Done, RpcError> {
    let change = Change::DeleteListener { listener: asked.listener_arn };
    Ok(Done { generation: changed(call, &change, "ListenerArn")? })
}

/// The target group of the one action that a listener can have.
fn target_of(actions: Vec<Action>) -> Result<String, RpcError> {
    let mut actions = actions.into_iter();
    match (actions.next(), actions.next()) {
        (Some(action), None) if action.kind == FORWARD => Ok(action.target_group_arn),
        (Some(action), None) => {
            let message = format!("the type '{}' must be '{FORWARD}'", action.kind);
            Err(RpcError::invalid_params("DefaultActions[0].Type", message))
        }
        _ => Err(RpcError::invalid_params("DefaultActions", "exactly one action must be given")),
    }
}

fn listener_of(call: &Call<'_>, reference: &str) -> Vec<ListenerDescription> {
    let state = call.service.state();
    let found = state.load_balancer_of_listener(reference).ok();
    found.and_then(|(balancer, _)| ListenerDescription::of(&state, balancer)).into_iter().collect()
}
