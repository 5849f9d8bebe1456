//! Flags of `doctor`.

#![forbid(unsafe_code)]

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorFlags {
    /// The node's configuration.
    #[arg(long, value_name = "FILE", default_value = "/etc/flowgate/node.toml")]
    pub(in crate::cli) config: PathBuf,
    /// Look at a recorded host in place of this one: a folder or a file that --record made.
    #[arg(long, value_name = "RECORD")]
    pub(in crate::cli) root: Option<PathBuf>,
    /// Record what is read, to be sent with a report of a fault: into one file if it ends in .txt, else into a new folder.
    /// It has addresses, names and tags, and no secrets.
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) record: Option<PathBuf>,
    /// Also send each target a ping as long as the target side carries, and a short one: what lies between must carry both.
    #[arg(long, conflicts_with = "root")]
    pub(in crate::cli) probe: bool,
    /// Show only what is not well.
    #[arg(long)]
    pub(in crate::cli) brief: bool,
}
