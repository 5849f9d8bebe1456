//! Faults that are put into a daemon on purpose, for tests of what it does then. Debug builds have them, and release builds
//! with the feature `faults`; in either only a daemon that was started for tests.

#![forbid(unsafe_code)]

use super::node::Nothing;
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "Fault", rename_all = "kebab-case", rename_all_fields = "PascalCase")]
pub enum Fault {
    /// The control core panics in the midst of a change of what it keeps.
    ControlPanic,
    /// A task of the control core's panics.
    TaskPanic,
    /// What is said on this connection panics, and nothing else.
    ConversationPanic,
    /// A worker panics.
    WorkerPanic {
        /// Its number.
        worker: usize,
    },
    /// A worker goes no round for a time.
    WorkerStall {
        /// Its number.
        worker: usize,
        /// For how long.
        milliseconds: u64,
    },
    /// A thread panics that reads or writes files for the control core.
    FileThreadPanic,
    /// The thread that writes the flow log panics.
    FlowLogPanic,
    /// The time of day is so much ahead of the system's clock, or behind it.
    WallClock {
        /// By how much.
        milliseconds: i64,
    },
}

pub(super) fn register(table: &mut Dispatcher) {
    table.admin_method(
        "debug-put-fault",
        "Puts a fault into the daemon, for tests of what it does then.",
        put,
    );
}

fn put(call: &Call<'_>, fault: Fault) -> Result<Nothing, RpcError> {
    call.service.put_fault(fault);
    Ok(Nothing {})
}
