//! What a change would do, told before it is made.

#![forbid(unsafe_code)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// What a change would do: the answer to every change with `DryRun`, and to `diff`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Plan {
    /// What would be other than it is, each in one sentence; empty: nothing would.
    pub differences: Vec<String>,
    /// The live flows that would be reset by their next packet.
    pub flows_reset: u64,
    /// The live flows that their next packet would move to another target.
    pub flows_moved: u64,
    /// The live flows whose packets would be dropped from then on.
    pub flows_dropped: u64,
    /// The live flows whose targets would drain.
    pub flows_drained: u64,
    /// The same flows by their targets.
    pub effects: Vec<FlowEffect>,
    /// The configuration's present number, for `IfGeneration`.
    pub generation: u64,
}

/// What would become of a target's flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowEffect {
    /// The name of the target's group.
    pub target_group: String,
    /// The target's address.
    pub target: Ipv4Addr,
    /// Its live flows; where they would be reset, the TCP flows among them.
    pub flows: u64,
    /// What would become of them.
    pub fate: Fate,
    /// What becomes of those that the drain leaves over; none: they go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Fate>,
}

/// What can become of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// They go on for the deregistration delay (T-3).
    Drained,
    /// The next packet of each is answered with a reset.
    Reset,
    /// The next packet of each goes to a healthy target (T-1, T-4).
    Moved,
    /// Their packets are dropped: there is no listener any more.
    Dropped,
}

impl Plan {
    /// A plan with its sums.
    pub fn new(differences: Vec<String>, effects: Vec<FlowEffect>, generation: u64) -> Plan {
        let sum = |fate| effects.iter().filter(|effect| effect.fate == fate).map(|effect| effect.flows).sum();
        Plan {
            differences,
            flows_reset: sum(Fate::Reset),
            flows_moved: sum(Fate::Moved),
            flows_dropped: sum(Fate::Dropped),
            flows_drained: sum(Fate::Drained),
            effects,
            generation,
        }
    }
}
