//! Flow logs: one record of a flow when it ends, and of one that goes on for long every so often.
//!
//! Workers count and report (`datapath::flow_log`), each into a ring of its own. The rings are read by one thread of
//! ours ([`writer`]), which puts names to numbers ([`names`]), makes [records](record::Record) of reports, and writes
//! them as JSON lines to a [file](file) or as IPFIX to a [collector](ipfix). A slow disk or a deaf collector holds up
//! that thread alone: what finds no room in a ring is lost, counted by the worker, and told in the log itself. The
//! thread also maps and frees the memory that workers count in, as neither they nor the control core should.
//!
//! The control core starts and stops all this (`core/flow_log.rs`). What it looks like from outside is in
//! docs/flow-logs.md.

#![forbid(unsafe_code)]

mod file;
mod ipfix;
mod json;
mod names;
mod options;
mod record;
mod writer;

pub use names::{Names, TargetNames};
pub use options::{Destination, FileName, KeepFiles, OneIn, Options, RotateMb};
pub use record::{Reason, Record};
#[cfg(any(debug_assertions, feature = "faults"))]
pub use writer::PANICS;
pub use writer::{Made, MadeBy, Opened, Progress, Shared, Threads, WorkerFacts, open, start};
