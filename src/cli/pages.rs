//! Man page and completions of the programs besides `flowgate`, which has verbs for its own: `PROGRAM --print-man` and
//! `PROGRAM --print-completions SHELL`, from the same definition as `--help`. They are for whoever makes a package, so
//! `--help` does not speak of them, and no other option may stand beside them.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::{Command, ValueEnum as _};
use clap_complete::Shell;

/// Prints what `words`, the command line without the program's name, ask for, if that is a page or completions.
///
/// # Errors
/// When it cannot be printed.
pub fn print_if_asked(
    words: impl IntoIterator<Item = OsString>,
    command: impl FnOnce() -> Command,
    section: &str,
) -> io::Result<bool> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut printed = Vec::new();
    match words.iter().filter_map(|word| word.to_str()).collect::<Vec<_>>().as_slice() {
        ["--print-man"] => clap_mangen::Man::new(command()).section(section).render(&mut printed)?,
        ["--print-completions", shell] => {
            let shell = Shell::from_str(shell, false).map_err(io::Error::other)?;
            let mut command = command();
            let name = command.get_name().to_owned();
            clap_complete::generate(shell, &mut command, name, &mut printed);
        }
        _ => return Ok(false),
    }
    io::stdout().write_all(&printed)?;
    Ok(true)
}
