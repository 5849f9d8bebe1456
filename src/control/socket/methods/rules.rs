//! `describe-rules`: a gateway's listener has one rule, the default one, which does what the listener does.

#![forbid(unsafe_code)]

use super::actions::Action;
use super::balancers::name_of;
use super::fault;
use super::page::{Order, PageSize, page};
use crate::control::model::{LoadBalancer, State};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-rules",
        "Lists the rules of listeners, which have one each: all of them, that of one listener, or those named.",
        describe_rules,
    );
}

/// Which rules are asked for; nothing given: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeRules {
    /// Of this listener: its ARN, or the name or ARN of its load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_arn: Option<String>,
    /// These: their ARNs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rule_arns: Vec<String>,
    /// Those after the page before, whose `NextMarker` this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// So many at most; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<PageSize>,
}

/// Rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Rules {
    /// By the name of their load balancers, or in the order in which they were asked for.
    pub rules: Vec<Rule>,
    /// The `Marker` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
}

/// The rule of a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Rule {
    /// Its ARN.
    pub rule_arn: String,
    /// `default`.
    pub priority: String,
    /// None: it is for every flow.
    pub conditions: Vec<Condition>,
    /// What the listener does.
    pub actions: Vec<Action>,
    /// `true`.
    pub is_default: bool,
}

/// What a rule asks of a flow. A gateway's rule asks nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Condition {
    /// What is looked at.
    pub field: String,
}

fn describe_rules(call: &Call<'_>, asked: DescribeRules) -> Result<Rules, RpcError> {
    let state = call.service.state();
    let mut named = Vec::new();
    if let Some(reference) = &asked.listener_arn {
        let found = state.load_balancer_of_listener(reference);
        named.push(found.map_err(|error| fault::of_model(error, "ListenerArn", &state))?.0);
    }
    for (index, arn) in asked.rule_arns.iter().enumerate() {
        let found = state.load_balancer_of_rule(arn);
        named.push(found.map_err(|error| fault::of_model(error, &format!("RuleArns[{index}]"), &state))?);
    }
    let all = asked.listener_arn.is_none() && asked.rule_arns.is_empty();
    let (balancers, order) = if all {
        (state.load_balancers().filter(|balancer| balancer.listener.is_some()).collect(), Order::ByKey)
    } else {
        (named, Order::AsAsked)
    };
    let (balancers, next_marker) = page(balancers, name_of, order, asked.marker.as_deref(), asked.page_size)?;
    Ok(Rules { rules: balancers.into_iter().filter_map(|one| Rule::of(&state, one)).collect(), next_marker })
}

impl Rule {
    /// That of `balancer`'s listener, if it has one.
    fn of(state: &State, balancer: &LoadBalancer) -> Option<Rule> {
        Some(Rule {
            rule_arn: balancer.rule_arn()?,
            priority: "default".to_owned(),
            conditions: Vec::new(),
            actions: vec![Action::shown(state.target_group_of(balancer)?.arn())],
            is_default: true,
        })
    }
}
