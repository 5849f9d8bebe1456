//! Flags of the verbs about logs: the daemon's own, and flows'.

#![forbid(unsafe_code)]

use crate::control::flow_log::{FileName, KeepFiles, OneIn, RotateMb};
use crate::control::socket::methods::flow_log::{InterimSeconds, StartFlowLog};
use crate::control::socket::methods::log_level::{HoldSeconds, SetLogLevel};
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct LogLevelFlags {
    /// A level (off, error, warn, info, debug, trace), or levels of parts of the program too:
    /// info,flowgate::control::health=debug.
    #[arg(conflicts_with = "revert")]
    filter: Option<String>,
    /// For so long, such as 10m; until it is reverted or the daemon is restarted if nothing is said.
    #[arg(long = "for", value_name = "TIME", value_parser = time, requires = "filter")]
    hold: Option<HoldSeconds>,
    /// Go back to what is configured.
    #[arg(long)]
    revert: bool,
}

/// A time in whole seconds.
fn time(text: &str) -> Result<HoldSeconds, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let time = Duration::try_from(time).map_err(|error| error.to_string())?;
    time.as_secs().try_into()
}

impl LogLevelFlags {
    /// The change that is asked for; none: only to look.
    pub(in crate::cli) fn params(&self) -> Option<SetLogLevel> {
        let change = || SetLogLevel { filter: self.filter.clone(), seconds: self.hold };
        (self.filter.is_some() || self.revert).then(change)
    }
}

/// What to do with the flow log.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum FlowLogVerb {
    /// Have a record written of every flow that ends.
    Start(StartFlags),
    /// End the flow log, with a record of every flow that goes on.
    Stop,
    /// Tell how the flow log stands.
    Show,
}

#[derive(Debug, Args)]
#[group(id = "destination", required = true, multiple = false, args = ["file", "ipfix"])]
pub(in crate::cli) struct StartFlags {
    /// Write JSON lines to a file of this name in the daemon's folder of flow logs.
    #[arg(long, value_name = "NAME", value_parser = file_name)]
    file: Option<FileName>,
    /// Send IPFIX to this collector.
    #[arg(long, value_name = "ADDRESS:PORT")]
    ipfix: Option<SocketAddr>,
    /// Tell of one flow in so many.
    #[arg(long, value_name = "N", default_value = "1", value_parser = number::<OneIn>)]
    sample: OneIn,
    /// Tell of a flow that goes on every so many seconds; 0: not before it ends.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = number::<InterimSeconds>)]
    interim: InterimSeconds,
    /// Set the file aside when it is of so many MB.
    #[arg(long, value_name = "MB", default_value = "100", value_parser = number::<RotateMb>)]
    rotate_mb: RotateMb,
    /// Keep so many files that were set aside.
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<KeepFiles>)]
    keep: KeepFiles,
    /// The observation domain of IPFIX.
    #[arg(long, value_name = "N", default_value = "1")]
    domain: u32,
}

fn file_name(text: &str) -> Result<FileName, String> {
    text.to_owned().try_into()
}

fn number<T: TryFrom<u64, Error = String>>(text: &str) -> Result<T, String> {
    text.parse::<u64>().map_err(|error| error.to_string())?.try_into()
}

impl StartFlags {
    pub(in crate::cli) fn params(self) -> StartFlowLog {
        StartFlowLog {
            file: self.file,
            ipfix: self.ipfix,
            sample_one_in: self.sample,
            interim_seconds: self.interim,
            rotate_mb: self.rotate_mb,
            keep: self.keep,
            domain: self.domain,
        }
    }
}
