//! Load balancers and their listeners: described, created, changed and deleted (O-1, O-5, A-9).

#![forbid(unsafe_code)]

use super::actions::{Action, target_of};
use super::fault;
use super::page::{Order, PageSize, page};
use super::subnets::{self, SubnetMapping};
use super::tags::{Tag, pairs};
use crate::control::events::Timestamp;
use crate::control::model::{Change, ForeignId, IpAddressType, LoadBalancer, Name, Placement, State, Zone};
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
    /// Those after the page before, whose `NextMarker` this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// So many at most; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<PageSize>,
}

/// Load balancers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancers {
    /// By name, or in the order in which they were asked for.
    pub load_balancers: Vec<LoadBalancerDescription>,
    /// The `Marker` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
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
    /// The VPC of the target group that it forwards to, if that was created with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_id: Option<String>,
    /// When it was created; not known of one that the node was seeded with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Timestamp>,
}

/// Whether a load balancer serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LoadBalancerState {
    /// `active`.
    pub code: String,
}

/// A zone that a load balancer serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AvailabilityZone {
    /// Its name; `all` for a subnet that stands for no zone in particular.
    pub zone_name: String,
    /// The subnet that stands for it, if the load balancer was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
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
    /// Instead of zones, the subnets that AWS's tools know them by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<ForeignId>,
    /// The same in AWS's longer form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subnet_mappings: Vec<SubnetMapping>,
    /// What is noted on it: up to 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
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
    for (parameter, kind, given) in [
        ("Scheme", "InvalidScheme", asked.scheme.is_some()),
        ("SecurityGroups", "InvalidConfigurationRequest", !asked.security_groups.is_empty()),
    ] {
        if given {
            let message = format!("{parameter} is not supported for load balancers with type 'gateway'");
            return Err(RpcError::refused(kind, message).at(parameter));
        }
    }
    let placement =
        subnets::placement(call.service, asked.subnets, asked.subnet_mappings, asked.availability_zones)?;
    let change = Change::CreateLoadBalancer {
        name: asked.name.clone(),
        ip_address_type: asked.ip_address_type,
        placement: placement.unwrap_or_default(),
        tags: pairs(asked.tags),
        now_unix_ms: call.service.now_unix_ms(),
    };
    let generation = changed(call, &change, "Name")?;
    let state = call.service.state();
    let created = state.load_balancer(asked.name.as_str());
    let load_balancers = created.map(|balancer| LoadBalancerDescription::of(&state, balancer));
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
    let mut found = Vec::new();
    for (parameter, references) in &named {
        for (index, reference) in references.iter().enumerate() {
            let balancer = state
                .load_balancer(reference)
                .map_err(|error| fault::of_model(error, &format!("{parameter}[{index}]"), &state))?;
            found.push(balancer);
        }
    }
    let all = named.iter().all(|(_, references)| references.is_empty());
    let (found, order) =
        if all { (state.load_balancers().collect(), Order::ByKey) } else { (found, Order::AsAsked) };
    let (page, next_marker) = page(found, name_of, order, asked.marker.as_deref(), asked.page_size)?;
    let load_balancers =
        page.into_iter().map(|balancer| LoadBalancerDescription::of(&state, balancer)).collect();
    Ok(LoadBalancers { load_balancers, next_marker })
}

/// By what lists of load balancers are ordered and paged.
pub(super) fn name_of<'a>(balancer: &'a &LoadBalancer) -> &'a str {
    balancer.name.as_str()
}

impl LoadBalancerDescription {
    fn of(state: &State, balancer: &LoadBalancer) -> Self {
        let group = state.target_group_of(balancer);
        let moment = |unix_ms| Timestamp::from_unix_ms(i64::try_from(unix_ms).unwrap_or(i64::MAX));
        LoadBalancerDescription {
            load_balancer_arn: balancer.arn(),
            load_balancer_name: balancer.name.to_string(),
            kind: "gateway".to_owned(),
            state: LoadBalancerState { code: "active".to_owned() },
            ip_address_type: balancer.ip_address_type,
            availability_zones: AvailabilityZone::of(&balancer.placement),
            vpc_id: group.and_then(|group| group.vpc_id.as_ref()).map(ToString::to_string),
            created_time: balancer.created_unix_ms.map(moment),
        }
    }
}

impl AvailabilityZone {
    /// Those of `placement`.
    pub(super) fn of(placement: &Placement) -> Vec<AvailabilityZone> {
        let zones = placement.places().iter().map(|place| AvailabilityZone {
            zone_name: place.zone.as_ref().map_or(Zone::ALL, Zone::as_str).to_owned(),
            subnet_id: place.subnet.as_ref().map(ToString::to_string),
        });
        zones.collect()
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
    /// Those after the page before, whose `NextMarker` this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// So many at most; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<PageSize>,
}

/// Listeners.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Listeners {
    /// By the name of their load balancers, or in the order in which they were asked for.
    pub listeners: Vec<ListenerDescription>,
    /// The `Marker` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
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

fn describe_listeners(call: &Call<'_>, asked: DescribeListeners) -> Result<Listeners, RpcError> {
    let state = call.service.state();
    let mut found = Vec::new();
    if let Some(reference) = &asked.load_balancer_arn {
        let balancer = state
            .load_balancer(reference)
            .map_err(|error| fault::of_model(error, "LoadBalancerArn", &state))?;
        found.extend(balancer.listener.is_some().then_some(balancer));
    }
    for (index, reference) in asked.listener_arns.iter().enumerate() {
        let (balancer, _) = state
            .load_balancer_of_listener(reference)
            .map_err(|error| fault::of_model(error, &format!("ListenerArns[{index}]"), &state))?;
        found.push(balancer);
    }
    let all = asked.load_balancer_arn.is_none() && asked.listener_arns.is_empty();
    let (found, order) = if all {
        (state.load_balancers().filter(|balancer| balancer.listener.is_some()).collect(), Order::ByKey)
    } else {
        (found, Order::AsAsked)
    };
    let (page, next_marker) = page(found, name_of, order, asked.marker.as_deref(), asked.page_size)?;
    let listeners =
        page.into_iter().filter_map(|balancer| ListenerDescription::of(&state, balancer)).collect();
    Ok(Listeners { listeners, next_marker })
}

impl ListenerDescription {
    /// That of `balancer`, if it has one.
    fn of(state: &State, balancer: &LoadBalancer) -> Option<Self> {
        let target_group_arn = state.target_group_of(balancer)?.arn();
        Some(ListenerDescription {
            listener_arn: balancer.listener_arn()?,
            load_balancer_arn: balancer.arn(),
            default_actions: vec![Action::shown(target_group_arn)],
        })
    }
}

/// A listener to create.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CreateListener {
    /// The ARN or name of the load balancer.
    pub load_balancer_arn: String,
    /// One action: to forward to a target group, by ARN or name.
    pub default_actions: Vec<Action>,
    /// What is noted on it: up to 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// A listener and what it is to do from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ModifyListener {
    /// Its ARN, or the name or ARN of its load balancer.
    pub listener_arn: String,
    /// One action: to forward to a target group, by ARN or name. What it forwards to stays if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_actions: Vec<Action>,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Not for a gateway: refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
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
    let CreateListener { load_balancer_arn, default_actions, tags, protocol, port } = asked;
    no_protocol_and_port(protocol.is_some(), port.is_some())?;
    let target_group = target_of(&default_actions)?;
    let change =
        Change::CreateListener { load_balancer: load_balancer_arn.clone(), target_group, tags: pairs(tags) };
    let generation = changed(call, &change, "LoadBalancerArn")?;
    Ok(ChangedListeners { listeners: listener_of(call, &load_balancer_arn), generation })
}

fn modify_listener(call: &Call<'_>, asked: ModifyListener) -> Result<ChangedListeners, RpcError> {
    let ModifyListener { listener_arn, default_actions, protocol, port } = asked;
    no_protocol_and_port(protocol.is_some(), port.is_some())?;
    let target_group = if default_actions.is_empty() {
        let state = call.service.state();
        let found = state.load_balancer_of_listener(&listener_arn);
        let (_, listener) = found.map_err(|error| fault::of_model(error, "ListenerArn", &state))?;
        listener.target_group.to_string()
    } else {
        target_of(&default_actions)?
    };
    let change = Change::ModifyListener { listener: listener_arn.clone(), target_group };
    let generation = changed(call, &change, "ListenerArn")?;
    Ok(ChangedListeners { listeners: listener_of(call, &listener_arn), generation })
}

/// O-1: in the words of AWS.
fn no_protocol_and_port(protocol: bool, port: bool) -> Result<(), RpcError> {
    for (parameter, what, given) in [("Protocol", "protocol", protocol), ("Port", "port", port)] {
        if given {
            let message = format!("You can't specify a {what} for a Gateway Load Balancer");
            return Err(RpcError::refused("InvalidConfigurationRequest", message).at(parameter));
        }
    }
    Ok(())
}

fn delete_listener(call: &Call<'_>, asked: DeleteListener) -> Result<Done, RpcError> {
    let change = Change::DeleteListener { listener: asked.listener_arn };
    Ok(Done { generation: changed(call, &change, "ListenerArn")? })
}

fn listener_of(call: &Call<'_>, reference: &str) -> Vec<ListenerDescription> {
    let state = call.service.state();
    let found = state.load_balancer_of_listener(reference).ok();
    found.and_then(|(balancer, _)| ListenerDescription::of(&state, balancer)).into_iter().collect()
}
