//! The flow log.

#![forbid(unsafe_code)]

use crate::control::events::Timestamp;
use crate::control::flow_log::OneIn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a flow log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowLogState {
    /// There is none.
    #[default]
    Off,
    /// Its memory is being made.
    Starting,
    /// Workers count, and report.
    On,
    /// What workers have counted is being written.
    Stopping,
}

/// The flow log that is on, or the last one that was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowLogView {
    /// How far it is.
    pub state: FlowLogState,
    /// The file, or `ipfix:` and the collector; none: there was no log since the daemon started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// One flow in so many is told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_one_in: Option<OneIn>,
    /// A flow that goes on is told of so often; none: not before it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interim_seconds: Option<u64>,
    /// Records that were written.
    pub written: u64,
    /// Records that were lost, as they came faster than they could be written.
    pub lost: u64,
    /// Records that the disk or the network did not take.
    pub failed: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
