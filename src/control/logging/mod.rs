//! What the daemon says of itself: one line an event, on standard error, for people or as JSON.
//!
//! The lines are `tracing`'s, made wherever something happens, each with a name of its own by which programs find it
//! and with the ids of what it is about; `docs/logging.md` lists them all. Here they are filtered ([`Filter`]), held
//! to a bounded number a second for each place that makes them ([`limit`]), written out ([`line`]), and, once the
//! daemon runs, handed to a thread that writes them ([`writer`]), so that a reader of standard error that has stopped
//! holds nobody up. [`LogControl`] changes the filter while the daemon runs. Workers make none.

#![forbid(unsafe_code)]

mod control;
mod filter;
mod layer;
mod limit;
mod line;
#[cfg(test)]
pub(crate) mod paper;
#[cfg(test)]
mod tests;
mod writer;

pub use control::{LogControl, LogLevelView, MAX_REVERT, Revert};
pub use filter::{BadFilter, Filter};
pub use line::Look;

use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use layer::Lines;
use limit::Limit;
use writer::Writer;

/// Has this process's log lines written to standard error from here on.
///
/// # Errors
/// If the process has a log already.
pub fn start(look: Look, filter: Filter) -> Result<LogControl, String> {
    let (targets, handle) = reload::Layer::new(filter.targets());
    let (limit, writer) = (Arc::new(Limit::default()), Arc::new(Writer::to_stderr()));
    let lines = Lines::new(look, Arc::clone(&limit), Arc::clone(&writer));
    Registry::default().with(targets).with(lines).try_init().map_err(|error| error.to_string())?;
    let apply = move |filter: &Filter| {
        // It is there as long as the process is.
        handle.reload(filter.targets()).ok();
    };
    Ok(LogControl::new(filter, Box::new(apply), limit, writer))
}
