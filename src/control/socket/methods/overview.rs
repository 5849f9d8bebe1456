//! `get-overview`: the whole node at a moment, in one answer.

#![forbid(unsafe_code)]

use super::node::Window;
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::views::Overview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "get-overview",
        "Tells how the whole node stands at a moment: load balancers, target groups, targets, endpoints, ports, workers and sums.",
        get_overview,
    );
}

/// What is asked of the overview.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct GetOverview {
    /// The workers' longest bursts are those of so many seconds; 10 where nothing is given.
    #[serde(default)]
    pub window_seconds: Window,
}

fn get_overview(call: &Call<'_>, asked: GetOverview) -> Result<Overview, RpcError> {
    Ok(call.service.overview(asked.window_seconds.get()))
}
