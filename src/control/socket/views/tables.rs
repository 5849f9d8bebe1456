//! What came of the flow tables at the start.

#![forbid(unsafe_code)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of the flow tables that the daemon before this one has left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowTablesView {
    /// `taken_over`; `first` where there were none; `lost` where they could not be taken over; `off` and `not_kept` where
    /// they are not kept, as the configuration says so or as it is not possible.
    pub outcome: String,
    /// The same in a sentence, with the reason.
    pub message: String,
    /// Whether a daemon that comes after this one will find them.
    pub kept: bool,
    /// Whether those of the daemon before this one are lost, with their flows. They may be so where `outcome` is `not_kept`, too.
    #[serde(default)]
    pub lost: bool,
    /// Flows that were taken over, remembered ones among them.
    pub flows: u64,
    /// Entries that a crash had torn, and that were dropped.
    pub torn: u64,
    /// Flows of endpoints or targets that there were no more.
    pub refused: u64,
    /// How long it took to look at all of them.
    pub took_milliseconds: u64,
    /// How long nothing was forwarded: from the last round of the workers before to the first of these. None as long as
    /// it is not over, or if there were no workers before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_milliseconds: Option<u64>,
    /// For how long yet TCP packets of no flow begin one, as flows were lost by the start (F-8).
    pub adopt_seconds: u64,
}
