//! The checks, by area. Each is a function of the [`Facts`](super::facts::Facts) and says something of its item, whatever
//! it finds.

pub(super) mod cards;
pub(super) mod cores;
pub(super) mod gateway;
pub(super) mod links;
pub(super) mod memory;
pub(super) mod network;
pub(super) mod permissions;
pub(super) mod targets;

/// `a`, `a and b`, `a, b and c`.
fn listed<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    match all.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
    }
}

/// What follows from ports, where there are none.
const IDLE: &str = "the node is idle: it has no ports yet";

/// What follows from a configuration, where there is none.
const NO_CONFIGURATION: &str = "there is no configuration to go by";
