//! Workers, and how busy they are.
//!
//! Figures that only grow are given as they are: two readings some time apart make a rate, and no reader
//! disturbs another. `docs/tuning.md` says what each means and what to do about it.

#![forbid(unsafe_code)]

use crate::control::events::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A worker core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct WorkerView {
    /// Its number, from 0.
    pub worker: u8,
    /// The core it runs on.
    pub core: u32,
    /// Its live flows, and those that it remembers.
    pub flows: u64,
    /// How many flows its table holds at most.
    pub capacity: u64,
    /// The configuration it goes by.
    pub generation: u64,
    /// Milliseconds since it last said that it lives.
    pub heartbeat_age_ms: u64,
    /// What its memory lies in.
    pub memory: WorkerMemory,
    /// How busy it is.
    pub load: WorkerLoad,
}

/// What pages a worker's memory lies in: `1 GiB`, `2 MiB`, `transparent` (of 2 MiB where the kernel finds some)
/// or `4 KiB`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct WorkerMemory {
    /// Its packets.
    pub packets: String,
    /// Its flow table.
    pub flow_table: String,
}

/// How busy a worker is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct WorkerLoad {
    /// The workers' clock when this was read, in cycles.
    pub cycles: u64,
    /// Cycles of that clock in a second.
    pub cycles_per_second: u64,
    /// Cycles spent on rounds in which there were packets.
    pub busy_cycles: u64,
    /// Cycles spent asleep for want of packets.
    pub slept_cycles: u64,
    /// Packets that it received.
    pub received: u64,
    /// Packets that it gave to the worker that owns their flow.
    pub handed_out: u64,
    /// Packets that it was given so.
    pub handed_in: u64,
    /// Bursts that its ports gave, by how many packets were in them.
    pub bursts: Vec<BurstClass>,
    /// How flows were looked up.
    pub look_ups: LookUps,
    /// Entries of its flow table by state.
    pub flow_states: FlowStates,
    /// The burst that took longest of those of the time asked for; none if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_burst: Option<LongestBurst>,
    /// The burst that took longest since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_burst_ever: Option<LongestBurst>,
}

/// Bursts of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BurstClass {
    /// So many packets at least, and fewer than the next class; the last class are full bursts.
    pub from: u32,
    /// How many there were.
    pub count: u64,
}

/// How flows were looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LookUps {
    /// By the hash of a packet's addresses and ports.
    pub by_hash: u64,
    /// By the cookie that an appliance sent back.
    pub by_cookie: u64,
    /// Answers to packets that were forwarded without state, as the table was full (F-12).
    pub stateless: u64,
}

/// Entries of a flow table by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowStates {
    /// TCP of which only SYNs of one side were seen.
    pub half_open: u64,
    /// TCP that goes on.
    pub established: u64,
    /// Live flows of other protocols.
    pub other: u64,
    /// TCP that has ended and is kept for a moment.
    pub closed: u64,
    /// TCP that idled out and is remembered.
    pub expired: u64,
    /// TCP that was reset and is remembered for an end that may have to be told.
    pub owing: u64,
}

/// A burst that took longest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LongestBurst {
    /// How long it took: receiving it, all that was done with it, and what else its round brought.
    pub microseconds: f64,
    /// When it ended.
    pub at: Timestamp,
}
