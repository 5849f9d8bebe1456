//! What the daemon logs: the filter that holds, and another for a while.

#![forbid(unsafe_code)]

use super::node::Nothing;
use crate::control::logging::{LogLevelView, MAX_REVERT, Revert};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(super) fn register(table: &mut Dispatcher) {
    table.admin_method(
        "set-log-level",
        "Has the daemon log more or less, for a while, until it is reverted, or until it is restarted.",
        set_log_level,
    );
    table.method("describe-log-level", "Tells what the daemon logs.", describe_log_level);
}

/// What to log.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct SetLogLevel {
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), and levels of parts of the program
    /// (`flowgate::control::health=debug`), with commas between them; none: what is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// After so many seconds what is configured holds again; none: when it is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<HoldSeconds>,
}

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
pub struct HoldSeconds(#[schemars(range(min = 1, max = MAX_SECONDS))] u64);

const MAX_SECONDS: u64 = MAX_REVERT.as_secs();

impl TryFrom<u64> for HoldSeconds {
    type Error = String;

    fn try_from(seconds: u64) -> Result<HoldSeconds, String> {
        let allowed = (1..=MAX_SECONDS).contains(&seconds);
        allowed.then_some(HoldSeconds(seconds)).ok_or_else(|| {
            format!("the time '{seconds}' must be between '1-{MAX_SECONDS}' seconds inclusive")
        })
    }
}

impl From<HoldSeconds> for u64 {
    fn from(seconds: HoldSeconds) -> u64 {
        seconds.0
    }
}

fn set_log_level(call: &Call<'_>, asked: SetLogLevel) -> Result<LogLevelView, RpcError> {
    let log = call.service.log();
    let Some(filter) = asked.filter else {
        let view = log.revert();
        let (by, filter) = (call.session.author(), &view.filter);
        tracing::info!(name: "log_level_changed", by, filter, "what is logged was changed");
        return Ok(view);
    };
    let revert =
        asked.seconds.map_or(Revert::OnDemand, |seconds| Revert::After(Duration::from_secs(seconds.into())));
    let view = log
        .set(&filter, revert)
        .map_err(|error| RpcError::refused("ValidationError", error.to_string()).at("Filter"))?;
    let (by, filter, seconds) = (call.session.author(), &view.filter, asked.seconds.map(u64::from));
    tracing::info!(name: "log_level_changed", by, filter, seconds, "what is logged was changed");
    Ok(view)
}

fn describe_log_level(call: &Call<'_>, Nothing {}: Nothing) -> Result<LogLevelView, RpcError> {
    Ok(call.service.log().view())
}
