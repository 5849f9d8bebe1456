//! What is wrong with a node, and whether it is ready for traffic.

#![forbid(unsafe_code)]

use super::Severity;
use crate::control::events::Timestamp;
use crate::control::troubles::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is wrong now, or that is going on and ought to be known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Trouble {
    /// What kind it is, as docs/troubles.md lists them.
    pub kind: Kind,
    /// `critical`: traffic is refused, reset, lost or without its guards now. `warning`: it may come to that, or somebody has to
    /// look. `notice`: it goes on, as somebody wanted.
    pub severity: Severity,
    /// Whom it concerns: a load balancer, a target group, a target (`GROUP/ADDRESS`), `worker N`, `port NAME`,
    /// `endpoint NAME`, the reason of a drop; of the node as a whole none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Since when, or since when this daemon has seen it.
    pub since: Timestamp,
    /// What is so, in a sentence that stays the same for as long as it is.
    pub what: String,
    /// How much of it there is at this moment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub figures: String,
    /// What to do about it.
    pub to_do: String,
    /// The command that shows more of it, or that changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl Trouble {
    /// The whole of it in one line; `since` is when, or for how long, in the reader's words.
    pub fn line(&self, since: &str) -> String {
        let figures = if self.figures.is_empty() { String::new() } else { format!(", {}", self.figures) };
        format!("{}; {since}{figures}", self.what)
    }

    /// Whether it concerns this object.
    pub fn concerns(&self, object: &str) -> bool {
        self.objects.iter().any(|one| one == object)
    }
}

/// Whether the node is to be given traffic, as `/readyz` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ReadinessOverview {
    /// Whether it is.
    pub ready: bool,
    /// If not, why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}
