//! `subscribe`: how things stand, and then what happens.

#![forbid(unsafe_code)]

use super::health::GroupHealth;
use crate::control::events::{EventKind, Timestamp};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::telling::EventCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "subscribe",
        "Answers with how every target stands, and sends what happens from then on as notifications.",
        subscribe,
    );
}

/// What to send.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Subscribe {
    /// Events of these kinds; none named: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventKind>,
}

/// How things stand at the moment from which on events are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Snapshot {
    /// That moment.
    pub at: Timestamp,
    /// The configuration's number.
    pub generation: u64,
    /// Since when the daemon runs. Of another moment it is another daemon.
    pub started: Timestamp,
    /// How many events of each kind it has told since then, whoever heard them.
    pub events_so_far: EventCounts,
    /// Every target group, by name.
    pub target_groups: Vec<GroupHealth>,
}

fn subscribe(call: &Call<'_>, asked: Subscribe) -> Result<Snapshot, RpcError> {
    let wanted = if asked.events.is_empty() { None } else { Some(asked.events) };
    // Nothing else runs on this thread before the snapshot is taken: no event is in both, none in neither.
    call.session.subscribe(call.service.events(), wanted)?;
    let state = call.service.state();
    Ok(Snapshot {
        at: call.service.now(),
        generation: state.generation(),
        started: call.service.started(),
        events_so_far: call.service.events_so_far(),
        target_groups: state.target_groups().map(|group| GroupHealth::of(call.service, group)).collect(),
    })
}
