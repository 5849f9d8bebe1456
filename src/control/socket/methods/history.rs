//! `history`, `rollback`: the states before this one.

#![forbid(unsafe_code)]

use super::fault;
use super::node::Nothing;
use super::whole::{self, Differences};
use crate::control::model::Change;
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::{INTERNAL_ERROR, RpcError};
use crate::control::socket::views::HistoryEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Generations that a hint lists at most.
const LISTED: usize = 20;

pub(super) fn register(table: &mut Dispatcher) {
    table.waiting_method(
        "history",
        "Lists the states that the objects were in and the changes that led to them, the newest first.",
        history,
    );
    table.waiting_change("rollback", "Makes the objects those of an earlier state, as one change.", rollback);
}

/// The states that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct History {
    /// The present one first.
    pub history: Vec<HistoryEntry>,
    /// The configuration's number: above that of the present state's change if drains have ended since.
    pub generation: u64,
}

/// Which state to go back to.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Rollback {
    /// Its generation, as `history` tells it; the one before the present by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

async fn history(call: &Call<'_>, Nothing {}: Nothing) -> Result<History, RpcError> {
    let _turn = call.service.turn().await;
    Ok(History { history: call.service.history().await, generation: call.service.state().generation() })
}

async fn rollback(call: &Call<'_>, asked: Rollback) -> Result<Differences, RpcError> {
    let history = call.service.history().await;
    let earlier = history.iter().find(|entry| !entry.current);
    let Some(generation) = asked.generation.or(earlier.map(|entry| entry.generation)) else {
        return Err(RpcError::refused("GenerationNotFound", "There is no earlier state").at("Generation"));
    };
    let unreadable = |error: &dyn std::fmt::Display| {
        RpcError::new(INTERNAL_ERROR, "InternalFailure", format!("generation {generation}: {error}"))
            .at("Generation")
            .hint("go back to another generation")
    };
    let state = call.service.earlier(generation).await.map_err(|error| unreadable(&error))?;
    let is_present = || history.iter().any(|entry| entry.current && entry.generation == generation);
    let Some(state) = state.or_else(|| is_present().then(|| call.service.state())) else {
        let message = format!("Generation {generation} is not in the history");
        return Err(RpcError::refused("GenerationNotFound", message).at("Generation").hint(kept(&history)));
    };
    let now_unix_ms = call.service.now_unix_ms();
    whole::make(call, &Change::Restore { state: Box::new(state), now_unix_ms })
        .map_err(|error| fault::of_change(error, "Generation", &call.service.state()))
}

/// The generations that are kept, the newest first.
fn kept(entries: &[HistoryEntry]) -> String {
    let known: Vec<String> = entries.iter().take(LISTED).map(|entry| entry.generation.to_string()).collect();
    let more = if entries.len() > LISTED { " and older ones" } else { "" };
    format!("the generations are {}{more}", known.join(", "))
}
