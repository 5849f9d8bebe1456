//! Completions and man pages, made of the definitions of the verbs and flags themselves.

#![forbid(unsafe_code)]

use super::arguments::{Arguments, CompletionsFlags, ManFlags};
use super::client::CliError;
use super::output::print;
use clap::{Command, CommandFactory};
use std::path::Path;

/// The name of the binary.
const NAME: &str = "flowgate";

/// The whole command line, as it is defined.
pub fn command() -> Command {
    Arguments::command()
}

pub(super) fn completions(flags: &CompletionsFlags) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut command(), NAME, &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn man(flags: &ManFlags) -> Result<(), CliError> {
    match &flags.dir {
        None => print(&page(command())?),
        Some(folder) => pages(folder),
    }
}

fn page(command: Command) -> Result<String, CliError> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(CliError::Output)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// A page for the command and one for each verb: `flowgate.1`, `flowgate-targets.1`.
fn pages(folder: &Path) -> Result<(), CliError> {
    let write = || {
        std::fs::create_dir_all(folder)?;
        clap_mangen::generate_to(command().disable_help_subcommand(true), folder)
    };
    write().map_err(|error| CliError::Pages(folder.to_owned(), error))
}
