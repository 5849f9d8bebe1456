//! The attributes of the three kinds of object: a describe and a modify method each.

#![forbid(unsafe_code)]

use super::{fault, groups};
use crate::control::model::{AttributeSet, Change};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-load-balancer-attributes",
        "Lists a load balancer's attributes with the values that hold.",
        describe_load_balancer_attributes,
    );
    table.change(
        "modify-load-balancer-attributes",
        "Sets attributes of a load balancer, all that are given or none.",
        modify_load_balancer_attributes,
    );
    table.method(
        "describe-listener-attributes",
        "Lists a listener's attributes with the values that hold.",
        describe_listener_attributes,
    );
    table.change(
        "modify-listener-attributes",
        "Sets attributes of a listener, all that are given or none.",
        modify_listener_attributes,
    );
    table.method(
        "describe-target-group-attributes",
        "Lists a target group's attributes with the values that hold, and its detection time.",
        describe_target_group_attributes,
    );
    table.change(
        "modify-target-group-attributes",
        "Sets attributes of a target group, all that are given or none.",
        modify_target_group_attributes,
    );
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Attribute {
    /// Its key.
    pub key: String,
    /// Its value, as text.
    pub value: String,
}

/// The load balancer whose attributes are asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeLoadBalancerAttributes {
    /// Its ARN or name.
    pub load_balancer_arn: String,
}

/// A change of a load balancer's attributes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ModifyLoadBalancerAttributes {
    /// Its ARN or name.
    pub load_balancer_arn: String,
    /// What is to be set; others keep their values.
    pub attributes: Vec<Attribute>,
}

/// The listener whose attributes are asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeListenerAttributes {
    /// Its ARN, or the name or ARN of its load balancer.
    pub listener_arn: String,
}

/// A change of a listener's attributes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ModifyListenerAttributes {
    /// Its ARN, or the name or ARN of its load balancer.
    pub listener_arn: String,
    /// What is to be set; others keep their values.
    pub attributes: Vec<Attribute>,
}

/// The target group whose attributes are asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeTargetGroupAttributes {
    /// Its ARN or name.
    pub target_group_arn: String,
}

/// A change of a target group's attributes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ModifyTargetGroupAttributes {
    /// Its ARN or name.
    pub target_group_arn: String,
    /// What is to be set; others keep their values.
    pub attributes: Vec<Attribute>,
}

/// Attributes of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Attributes {
    /// With the values that hold.
    pub attributes: Vec<Attribute>,
    /// Of a target group: interval × unhealthy threshold, in milliseconds (H-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection_time_ms: Option<u64>,
    /// The configuration's number: after a change the new one.
    pub generation: u64,
}

fn describe_load_balancer_attributes(
    call: &Call<'_>,
    asked: DescribeLoadBalancerAttributes,
) -> Result<Attributes, RpcError> {
    let state = call.service.state();
    let balancer = state
        .load_balancer(&asked.load_balancer_arn)
        .map_err(|error| fault::of_model(error, "LoadBalancerArn", &state))?;
    Ok(Attributes {
        attributes: listed(&balancer.attributes),
        detection_time_ms: None,
        generation: state.generation(),
    })
}

fn modify_load_balancer_attributes(
    call: &Call<'_>,
    asked: ModifyLoadBalancerAttributes,
) -> Result<Attributes, RpcError> {
    let ModifyLoadBalancerAttributes { load_balancer_arn, attributes } = asked;
    let change = Change::ModifyLoadBalancerAttributes {
        load_balancer: load_balancer_arn.clone(),
        attributes: pairs(attributes),
    };
    apply(call, &change, "LoadBalancerArn")?;
    describe_load_balancer_attributes(call, DescribeLoadBalancerAttributes { load_balancer_arn })
}

fn describe_listener_attributes(
    call: &Call<'_>,
    asked: DescribeListenerAttributes,
) -> Result<Attributes, RpcError> {
    let state = call.service.state();
    let (_, listener) = state
        .load_balancer_of_listener(&asked.listener_arn)
        .map_err(|error| fault::of_model(error, "ListenerArn", &state))?;
    Ok(Attributes {
        attributes: listed(&listener.attributes),
        detection_time_ms: None,
        generation: state.generation(),
    })
}

fn modify_listener_attributes(
    call: &Call<'_>,
    asked: ModifyListenerAttributes,
) -> Result<Attributes, RpcError> {
    let ModifyListenerAttributes { listener_arn, attributes } = asked;
    let change =
        Change::ModifyListenerAttributes { listener: listener_arn.clone(), attributes: pairs(attributes) };
    apply(call, &change, "ListenerArn")?;
    describe_listener_attributes(call, DescribeListenerAttributes { listener_arn })
}

fn describe_target_group_attributes(
    call: &Call<'_>,
    asked: DescribeTargetGroupAttributes,
) -> Result<Attributes, RpcError> {
    let state = call.service.state();
    let group = state
        .target_group(&asked.target_group_arn)
        .map_err(|error| fault::of_model(error, "TargetGroupArn", &state))?;
    Ok(Attributes {
        attributes: listed(&group.attributes),
        detection_time_ms: Some(groups::detection_time_ms(group)),
        generation: state.generation(),
    })
}

fn modify_target_group_attributes(
    call: &Call<'_>,
    asked: ModifyTargetGroupAttributes,
) -> Result<Attributes, RpcError> {
    let ModifyTargetGroupAttributes { target_group_arn, attributes } = asked;
    let change = Change::ModifyTargetGroupAttributes {
        target_group: target_group_arn.clone(),
        attributes: pairs(attributes),
    };
    apply(call, &change, "TargetGroupArn")?;
    describe_target_group_attributes(call, DescribeTargetGroupAttributes { target_group_arn })
}

fn apply(call: &Call<'_>, change: &Change, parameter: &str) -> Result<(), RpcError> {
    match call.service.apply(change) {
        Ok(_) => Ok(()),
        Err(error) => Err(fault::of_change(error, parameter, &call.service.state())),
    }
}

fn listed(set: &AttributeSet) -> Vec<Attribute> {
    set.describe()
        .map(|(attribute, value)| Attribute { key: attribute.key.to_owned(), value: value.to_string() })
        .collect()
}

fn pairs(attributes: Vec<Attribute>) -> Vec<(String, String)> {
    attributes.into_iter().map(|attribute| (attribute.key, attribute.value)).collect()
}
