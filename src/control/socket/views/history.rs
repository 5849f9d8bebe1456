//! The states that the objects were in.

#![forbid(unsafe_code)]

use crate::control::events::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A state that the objects were in, and the change that led to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HistoryEntry {
    /// The configuration's number of then.
    pub generation: u64,
    /// Whether it is the present state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub current: bool,
    /// When the change was made; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Who made it, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What it made different, each in one sentence; of a change that did much, its beginning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what: Vec<String>,
}
