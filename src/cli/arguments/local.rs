//! Flags of the verbs that need no daemon.

#![forbid(unsafe_code)]

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct CompletionsFlags {
    /// For which shell.
    #[arg(value_enum)]
    pub(in crate::cli) shell: Shell,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ManFlags {
    /// Write a page for the command and one for each verb into this folder, such as /usr/local/share/man/man1.
    #[arg(long, value_name = "FOLDER")]
    pub(in crate::cli) dir: Option<PathBuf>,
}
