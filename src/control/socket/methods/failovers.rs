//! `describe-failovers`: what became of the flows of targets that were lost.

#![forbid(unsafe_code)]

use super::fault;
use super::page::PageSize;
use crate::control::failover::{Cause, Failover, FailoverList};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-failovers",
        "Tells of every target that turned unhealthy or was deregistered: how it came to that, what became of its flows, and how long each phase took; the newest first.",
        describe_failovers,
    );
}

/// Which records are asked for; nothing given: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeFailovers {
    /// The one of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Those of the target group of this name or ARN; a name may be that of a group which is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group_arn: Option<String>,
    /// Those of the target of this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Ipv4Addr>,
    /// Those that began so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Those after the page before, whose `NextMarker` this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// So many at most; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<PageSize>,
}

/// Failover records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Failovers {
    /// The newest first.
    pub failovers: Vec<Failover>,
    /// Failovers since the daemon's start that were not recorded, as too many were under way at once.
    #[serde(default)]
    pub not_recorded: u64,
    /// Why the records are not on disk, if they are not: they would be lost with the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_stored: Option<String>,
    /// The `Marker` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
}

fn describe_failovers(call: &Call<'_>, asked: DescribeFailovers) -> Result<Failovers, RpcError> {
    let FailoverList { mut failovers, not_recorded, not_stored } = call.service.failovers();
    if let Some(id) = asked.id
        && failovers.iter().all(|record| record.id != id)
    {
        return Err(RpcError::refused("FailoverNotFound", format!("Failover '{id}' not found"))
            .at("Id")
            .hint(known(&failovers)));
    }
    let group = asked.target_group_arn.map(|reference| named(call, &failovers, reference)).transpose()?;
    let before = asked.marker.as_deref().map(marker).transpose()?;
    failovers.retain(|record| {
        asked.id.is_none_or(|id| record.id == id)
            && group.as_ref().is_none_or(|group| record.target_group == *group)
            && asked.target.is_none_or(|target| record.target == target)
            && asked.cause.is_none_or(|cause| record.cause == cause)
            && before.is_none_or(|before| record.id < before)
    });
    let mut next_marker = None;
    if let Some(size) = asked.page_size
        && failovers.len() > size.get()
    {
        failovers.truncate(size.get());
        next_marker = failovers.last().map(|record| record.id.to_string());
    }
    Ok(Failovers { failovers, not_recorded, not_stored, next_marker })
}

/// The name of a group that there is, or of which there are records.
fn named(call: &Call<'_>, failovers: &[Failover], reference: String) -> Result<String, RpcError> {
    let state = call.service.state();
    match state.target_group(&reference) {
        Ok(group) => Ok(group.name.to_string()),
        Err(_) if failovers.iter().any(|record| record.target_group == reference) => Ok(reference),
        Err(error) => Err(fault::of_model(error, "TargetGroupArn", &state)),
    }
}

/// A marker is the number of the last record of its page.
fn marker(marker: &str) -> Result<u64, RpcError> {
    marker.parse().map_err(|_| {
        let shown: String = marker.chars().take(64).collect();
        RpcError::invalid_params("Marker", format!("'{shown}' is not a marker of this list"))
    })
}

/// The numbers that there are, for who asked for another.
fn known(failovers: &[Failover]) -> String {
    match (failovers.first(), failovers.last()) {
        (Some(newest), Some(oldest)) => format!("those that are kept are {} to {}", oldest.id, newest.id),
        _ => "there has been none yet".to_owned(),
    }
}
