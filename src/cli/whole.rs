//! All objects at once: `export`, `diff` and `apply` of a document; `history` and `rollback`.

#![forbid(unsafe_code)]

use super::arguments::{ChangeFlags, DocumentFlags, RollbackFlags};
use super::client::{CliError, typed};
use super::table::{Look, optional, text};
use super::{Session, plan, wait};
use crate::control::socket::methods::history::{History, Rollback};
use crate::control::socket::methods::whole::{Differences, Document};
use crate::control::socket::views::Plan;
use serde::Serialize;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Prints the document, to be kept in a file.
pub(super) fn export(session: &mut Session) -> Result<(), CliError> {
    let mut result = session.client.call("export", &Value::Null)?;
    session.output.emit_plain(&result["Document"].take())
}

/// Says what applying a document would change. That there are differences is an exit code of its own.
pub(super) fn diff(session: &mut Session, flags: &DocumentFlags) -> Result<(), CliError> {
    let result = session.client.call("diff", &Document { document: read(&flags.file)? })?;
    let plan: Plan = typed(result.clone())?;
    session.output.emit(result, plan::shown)?;
    if plan.differences.is_empty() { Ok(()) } else { Err(CliError::Differs) }
}

pub(super) fn apply(session: &mut Session, flags: &DocumentFlags, how: &ChangeFlags) -> Result<(), CliError> {
    change(session, "apply", &Document { document: read(&flags.file)? }, how)
}

pub(super) fn rollback(
    session: &mut Session,
    flags: &RollbackFlags,
    how: &ChangeFlags,
) -> Result<(), CliError> {
    change(session, "rollback", &Rollback { generation: flags.generation }, how)
}

/// Changes the whole, and with `--wait` comes back when the targets that came with it are healthy and those that
/// went are gone.
fn change(
    session: &mut Session,
    method: &str,
    params: &impl Serialize,
    how: &ChangeFlags,
) -> Result<(), CliError> {
    let before = how.is_to_wait().then(|| wait::standing(&mut session.client)).transpose()?;
    session.change(method, params, how, made)?;
    match before {
        Some(before) => wait::for_targets_since(&mut session.client, &before, how.patience),
        None => Ok(()),
    }
}

/// The document in a file, or on standard input.
fn read(file: &Path) -> Result<Value, CliError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        CliError::Misnamed(format!("the document in {} cannot be read: {error}", file.display()))
    };
    let mut document = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut document).map(|_| ())
    } else {
        std::fs::read_to_string(file).map(|text| document = text)
    };
    read.map_err(|error| unreadable(&error))?;
    serde_json::from_str(&document).map_err(|error| unreadable(&error))
}

fn made(result: &Differences, _: &Look) -> String {
    let generation = result.generation;
    match result.differences.as_slice() {
        [] => format!("Nothing changed; the configuration's generation is {generation}.\n"),
        made => format!("{}\nThe configuration's generation is {generation}.\n", plan::sentences(made)),
    }
}

pub(super) fn history(result: &History, look: &Look) -> String {
    let rows = result.history.iter().map(|entry| {
        let now = if entry.current { " (now)" } else { "" };
        [
            text(format!("{}{now}", entry.generation)),
            optional(entry.at.map(|at| look.date_and_time(at))),
            optional(entry.by.as_ref()),
            text(if entry.what.is_empty() { "-".to_owned() } else { entry.what.join("\n") }),
        ]
    });
    look.table(["GENERATION", "WHEN", "BY", "WHAT"], rows.collect())
}
