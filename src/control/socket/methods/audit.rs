//! `audit`: what an operator should look at before the next target fails.

#![forbid(unsafe_code)]

use super::fault;
use crate::control::audit::{Facts, audit};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::views::Audit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "audit",
        "Reviews settings, targets and figures: what contradicts what, what the loss of each target would end, what is missing.",
        review,
    );
}

/// What is reviewed; nothing given: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ReviewOf {
    /// This target group, by name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group_arn: Option<String>,
}

fn review(call: &Call<'_>, asked: ReviewOf) -> Result<Audit, RpcError> {
    let group = match asked.target_group_arn {
        None => None,
        Some(reference) => {
            let state = call.service.state();
            let group = state.target_group(&reference);
            let group = group.map_err(|error| fault::of_model(error, "TargetGroupArn", &state))?;
            Some(group.name.to_string())
        }
    };
    Ok(audit(&Facts::gather(call.service), group.as_deref(), call.service.now()))
}
