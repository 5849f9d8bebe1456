//! Flags of the verbs about all objects at once.

#![forbid(unsafe_code)]

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct DocumentFlags {
    /// The document, as `export` prints it; `-` reads it from standard input.
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) file: PathBuf,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RollbackFlags {
    /// The state's generation, as `history` tells it; the one before the present if none is given.
    #[arg(value_name = "GENERATION")]
    pub(in crate::cli) generation: Option<u64>,
}
