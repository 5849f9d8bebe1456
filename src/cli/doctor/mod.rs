//! `flowgate doctor`: what is well with this host and what is not, item by item, each with what mends it.
//!
//! A [`Host`] reads this machine or a record of another; [`Facts`] are read from it once; each item of the table in
//! [`kinds`] has a function of the facts that says something of it ([`checks`]). It works before the daemon runs, from
//! what the kernel tells, and beside it, from what the daemon tells of its devices. `docs/bare-metal.md` lists every item,
//! and a test holds it to that.

#![forbid(unsafe_code)]

mod checks;
mod facts;
mod host;
mod items;
mod kinds;
pub mod record;
mod show;

pub use facts::Facts;
pub use host::{Entry, Host};
pub use items::{Item, Report, Verdict};
pub use kinds::{Area, Kind};

use super::arguments::DoctorFlags;
use super::client::CliError;
use super::output::Output;
use items::Items;
use std::path::Path;

/// Looks at the host and prints what was found, or records what was read.
pub(super) fn run(output: &Output, socket: &Path, flags: &DoctorFlags) -> Result<(), CliError> {
    let host = match &flags.root {
        None if flags.probe => Host::live().probing(),
        None => Host::live(),
        Some(path) => Host::open(path).map_err(CliError::Misnamed)?,
    };
    // By its full path, so that a record says of which it is.
    let config = std::path::absolute(&flags.config).unwrap_or_else(|_| flags.config.clone());
    let report = examine(&host, &config, socket);
    if let Some(path) = &flags.record {
        record::write(&host.seen(), path).map_err(|error| CliError::Record { path: path.clone(), error })?;
    }
    let worst = report.worst;
    let result = serde_json::to_value(report).map_err(|error| CliError::Unreadable(error.to_string()))?;
    output.emit(result, |report, look| show::report(report, look, flags.brief))?;
    match worst {
        Verdict::Problem => Err(CliError::FoundCritical),
        Verdict::Warning => Err(CliError::FoundWarnings),
        Verdict::Advice | Verdict::CannotTell | Verdict::Ok => Ok(()),
    }
}

/// What is found of a host: of its configuration at `config`, and of the daemon at `socket` or where the configuration
/// says.
#[must_use]
pub fn examine(host: &Host, config: &Path, socket: &Path) -> Report {
    let facts = Facts::read(host, config, socket);
    let mut items = Items::default();
    for kind in Kind::ALL {
        kind.look(&facts, &mut items);
    }
    let items = items.into_vec(&facts.setup);
    Report {
        daemon_answers: facts.daemon.answering().is_some(),
        host: facts.host,
        worst: items.iter().map(|item| item.verdict).max().unwrap_or(Verdict::Ok),
        items,
    }
}
