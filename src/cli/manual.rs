//! The command line as it is defined: read, and shown as completions and man pages.

#![forbid(unsafe_code)]

use super::arguments::{Arguments, CompletionsFlags, ManFlags};
use super::client::CliError;
use super::output::print;
use super::{complete, input};
use crate::control::nearest::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser};
use std::ffi::OsString;
use std::path::Path;

/// The name of the binary.
pub(super) const NAME: &str = "flowgate";

/// The whole command line, as it is defined.
pub fn command() -> Command {
    Arguments::command()
}

/// The words of a command line as what they ask for, or what is wrong with them. Instead of a verb that there is not,
/// the fault names the one that was meant, where clap would name all that begin alike; the list of them, in which clap
/// has hidden ones too, it leaves to `--help`.
pub(super) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let words = input::expanded(words.into_iter().collect(), &command())
        .map_err(|said| command().error(ErrorKind::ValueValidation, said))?;
    Arguments::try_parse_from(words).map_err(|mut fault| {
        fault.remove(ContextKind::ValidSubcommand);
        let Some(ContextValue::String(given)) = fault.get(ContextKind::InvalidSubcommand) else {
            return fault;
        };
        let Some(ContextValue::Strings(alike)) = fault.get(ContextKind::SuggestedSubcommand) else {
            return fault;
        };
        let meant = nearest(given, alike.iter().map(String::as_str)).map(str::to_owned);
        fault.remove(ContextKind::SuggestedSubcommand);
        if let Some(meant) = meant {
            fault.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
        }
        fault
    })
}

pub(super) fn completions(flags: &CompletionsFlags) -> Result<(), CliError> {
    complete::script(&flags.shell.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(words: &str) -> String {
        let words = std::iter::once("flowgate").chain(words.split_whitespace()).map(OsString::from);
        read(words).err().map(|fault| fault.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_verb_that_was_meant_is_named_and_no_other() {
        for (given, meant) in [
            ("describe-load-balancer", "'describe-load-balancers'"),
            ("describe-listner", "'describe-listeners'"),
            ("target", "'targets'"),
            ("wait target-inservice", "'target-in-service'"),
        ] {
            let said = fault(given);
            assert!(said.contains(&format!("similar subcommand exists: {meant}\n")), "{said}");
        }
        assert!(!fault("xyzzy").contains("similar"), "{}", fault("xyzzy"));
        assert_eq!(fault("--json"), "", "without a verb it says how the daemon stands");
    }
}
