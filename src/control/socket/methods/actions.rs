//! What a listener does with a flow, as AWS says it: one action, to forward to one target group (O-1).

#![forbid(unsafe_code)]

use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What every listener does.
const FORWARD: &str = "forward";
/// The share of the one target group, which gets all: what clients that compare (Terraform) take for granted.
const WHOLE: u16 = 1;
/// The heaviest that AWS has.
const MAX_WEIGHT: u16 = 999;

/// What a listener does with a flow. The target group is named once or twice, in either way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Action {
    /// `forward`.
    #[serde(rename = "Type")]
    pub kind: String,
    /// The target group's ARN; in requests its name too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group_arn: Option<String>,
    /// Makes no difference where there is one action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u16>,
    /// The target group in AWS's longer form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_config: Option<ForwardConfig>,
}

/// Where an action forwards to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ForwardConfig {
    /// One target group.
    pub target_groups: Vec<TargetGroupTuple>,
}

/// A target group of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct TargetGroupTuple {
    /// Its ARN; in requests its name too.
    pub target_group_arn: String,
    /// 1 to 999. Makes no difference where there is one target group, and is shown as 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
}

impl Action {
    /// To forward to the target group of this ARN or name.
    #[must_use]
    pub fn forward(target_group: String) -> Action {
        Action {
            kind: FORWARD.to_owned(),
            target_group_arn: Some(target_group),
            order: None,
            forward_config: None,
        }
    }

    /// The same as it is shown: with the target group in both ways.
    pub(super) fn shown(target_group_arn: String) -> Action {
        let tuple = TargetGroupTuple { target_group_arn: target_group_arn.clone(), weight: Some(WHOLE) };
        let forward_config = Some(ForwardConfig { target_groups: vec![tuple] });
        Action { forward_config, ..Action::forward(target_group_arn) }
    }

    /// The ARN or name of the target group, whichever way it is given.
    #[must_use]
    pub fn target_group(&self) -> Option<&str> {
        let of_config =
            || Some(self.forward_config.as_ref()?.target_groups.first()?.target_group_arn.as_str());
        self.target_group_arn.as_deref().or_else(of_config)
    }
}

/// The target group of the one action that a listener can have.
pub(super) fn target_of(actions: &[Action]) -> Result<String, RpcError> {
    const AT: &str = "DefaultActions[0]";
    let [action] = actions else {
        let message = format!("exactly one action must be given, not {}", actions.len());
        return Err(if actions.is_empty() {
            RpcError::invalid_params("DefaultActions", message)
        } else {
            RpcError::refused("TooManyActions", message).at("DefaultActions")
        });
    };
    if action.kind != FORWARD {
        let message = format!("the type '{}' must be '{FORWARD}'", action.kind);
        return Err(RpcError::refused("InvalidLoadBalancerAction", message).at(format!("{AT}.Type")));
    }
    let in_config = action.forward_config.as_ref().map_or(&[][..], |config| &config.target_groups);
    if in_config.len() > 1 {
        let message =
            format!("a gateway's listener forwards to one target group, not to {}", in_config.len());
        return Err(RpcError::refused("TooManyUniqueTargetGroupsPerLoadBalancer", message)
            .at(format!("{AT}.ForwardConfig.TargetGroups")));
    }
    match in_config.first().and_then(|tuple| tuple.weight) {
        Some(0) => {
            let message = "with weight 0 the one target group would get no flow: it gets all of them";
            return Err(RpcError::refused("InvalidLoadBalancerAction", message)
                .at(format!("{AT}.ForwardConfig.TargetGroups[0].Weight")));
        }
        Some(weight) if weight > MAX_WEIGHT => {
            let message = format!("'Weight' value '{weight}' must be between '1-{MAX_WEIGHT}' inclusive");
            return Err(RpcError::invalid_params(
                format!("{AT}.ForwardConfig.TargetGroups[0].Weight"),
                message,
            ));
        }
        _ => {}
    }
    match (&action.target_group_arn, in_config.first()) {
        (Some(one), Some(other)) if *one != other.target_group_arn => {
            let message = "ForwardConfig and TargetGroupArn must name the same target group";
            Err(RpcError::refused("InvalidLoadBalancerAction", message)
                .at(format!("{AT}.ForwardConfig.TargetGroups[0].TargetGroupArn")))
        }
        (Some(one), _) => Ok(one.clone()),
        (None, Some(one)) => Ok(one.target_group_arn.clone()),
        (None, None) => {
            let message = "the ARN or name of a target group must be given";
            Err(RpcError::invalid_params(format!("{AT}.TargetGroupArn"), message))
        }
    }
}
