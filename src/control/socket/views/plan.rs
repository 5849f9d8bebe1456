//! What a change would do, told before it is made.

#![forbid(unsafe_code)]

use crate::control::health::HealthState;
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
    /// The live flows that would be reset or moved, but are held back for now.
    #[serde(default)]
    pub flows_held: u64,
    /// The live flows that have been silent for longer than a new idle timeout allows.
    #[serde(default)]
    pub flows_timed_out: u64,
    /// The same flows by their targets.
    pub effects: Vec<FlowEffect>,
    /// The targets whose state would be another at once, by the checks that were made already.
    #[serde(default)]
    pub health: Vec<HealthEffect>,
    /// The configuration's present number, for `IfGeneration`.
    pub generation: u64,
}

/// What would become of a target's flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowEffect {
    /// The name of the target's group.
    pub target_group: String,
    /// The target's address; none: flows of all targets of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Ipv4Addr>,
    /// Its live flows; where they would be reset, the TCP flows among them.
    pub flows: u64,
    /// Whether that is a bound: it would befall so many flows or fewer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most: bool,
    /// What would become of them.
    pub fate: Fate,
    /// What becomes of those that the drain leaves over, or that are no longer held back; none: they go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Fate>,
    /// What holds them back, or lets only some of them through at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<HeldBy>,
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
    /// They stay with their target for now, for the reason told (R-11, T-6).
    Held,
    /// They have been silent for longer than the new idle timeout allows, and end at once.
    TimedOut,
}

/// What holds flows back from being reset or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// No target is healthy, so that there is none to move to (T-6).
    NobodyHealthy,
    /// `flowgate.reset.hold_ms`: the target has not been unhealthy for so long.
    Hold,
    /// `flowgate.reset.min_healthy_percent`: too few targets are healthy.
    MinHealthy,
    /// `flowgate.reset.max_per_second`: no more than so many are reset in a second.
    Rate,
}

/// A target whose state would be another at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HealthEffect {
    /// The name of the target's group.
    pub target_group: String,
    /// The target's address.
    pub target: Ipv4Addr,
    /// Its state.
    pub from: HealthState,
    /// What its state would be.
    pub to: HealthState,
}

/// What a change would do to flows and targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Flows, where it is other than what becomes of them as things are.
    pub flows: Vec<FlowEffect>,
    /// Targets whose state would be another.
    pub health: Vec<HealthEffect>,
}

impl Plan {
    /// A plan with its sums.
    pub fn new(differences: Vec<String>, preview: Preview, generation: u64) -> Plan {
        let Preview { flows: effects, health } = preview;
        let sum = |fate| effects.iter().filter(|effect| effect.fate == fate).map(|effect| effect.flows).sum();
        Plan {
            differences,
            flows_reset: sum(Fate::Reset),
            flows_moved: sum(Fate::Moved),
            flows_dropped: sum(Fate::Dropped),
            flows_drained: sum(Fate::Drained),
            flows_held: sum(Fate::Held),
            flows_timed_out: sum(Fate::TimedOut),
            effects,
            health,
            generation,
        }
    }
}
