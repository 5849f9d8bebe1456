//! What every verb that changes something takes besides its own flags.

#![forbid(unsafe_code)]

use crate::cli::client::CliError;
use crate::control::socket::Common;
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// A verb's own flags, and those of every change.
#[derive(Debug, Args)]
pub(in crate::cli) struct Changing<F: Args> {
    #[command(flatten)]
    pub(in crate::cli) what: F,
    #[command(flatten)]
    pub(in crate::cli) how: ChangeFlags,
}

/// How a change is made.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every change")]
pub(in crate::cli) struct ChangeFlags {
    /// Say what would change and what would become of flows, and change nothing.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Do not ask, on a terminal, before flows are reset, moved or dropped.
    #[arg(long, short = 'y')]
    pub(in crate::cli) yes: bool,
    /// Make the change only if this is the configuration's generation still.
    #[arg(long, value_name = "GENERATION")]
    pub(in crate::cli) if_generation: Option<u64>,
    /// Come back when the change has come to rest: every worker goes by it, targets that were registered are
    /// healthy, those that were deregistered are gone.
    #[arg(long)]
    pub(in crate::cli) wait: bool,
    #[command(flatten)]
    pub(in crate::cli) patience: Patience,
}

impl ChangeFlags {
    /// Whether to wait: for a rehearsal there is nothing to wait for.
    pub(in crate::cli) fn is_to_wait(&self) -> bool {
        self.wait && !self.dry_run
    }

    /// The parameters of a change: its own, and those of every change.
    pub(in crate::cli) fn added_to(&self, params: &impl Serialize) -> Result<Value, CliError> {
        let common = Common { if_generation: self.if_generation, dry_run: self.dry_run };
        let json = |value: Result<Value, serde_json::Error>| {
            value.map_err(|error| CliError::Unreadable(error.to_string()))
        };
        let mut params = json(serde_json::to_value(params))?;
        if let (Value::Object(params), Value::Object(common)) =
            (&mut params, json(serde_json::to_value(common))?)
        {
            params.extend(common);
        }
        Ok(params)
    }
}

/// For how long to wait.
#[derive(Clone, Copy, Debug, Args)]
pub(in crate::cli) struct Patience {
    /// How long to wait at most, such as 30s or 5m; 10m, but for a drain, which is waited for as long as it
    /// takes.
    #[arg(long, value_parser = time, value_name = "TIME")]
    pub(in crate::cli) timeout: Option<Duration>,
}

fn time(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(time).map_err(|error| error.to_string())
}
