//! The failover report: of every target that turned unhealthy or was deregistered, how it came to that, what was
//! done about its flows, when, and how it ended.
//!
//! [`Recorder`] makes the records (`record.rs` has their shape) of what the control core hears; `returns.rs` looks
//! out for clients that come back; [`Kept`] holds the records that have ended, and is what is stored. Nothing here has a
//! clock, a socket or a file: `core/failovers.rs` brings these together.
#![forbid(unsafe_code)]

mod kept;
mod newest;
mod record;
mod recorder;
mod returns;

pub use kept::{FailoverList, Kept, MAX_KEPT, NotReadable};
pub use newest::{MAX_TARGETS, newest_of_each};
pub use record::{
    AppliedBy, Cause, CheckSeen, ClientsBack, DrainSeen, Durations, EndReason, Ending, Failover,
    FlowsTouched, Mark, Policy, ResetsSent, Standing,
};
pub use recorder::{Beginning, Counts, MAX_OPEN, News, Recorder};
pub use returns::{End, SAMPLE};
