//! What is printed and in what form: the table a verb has for people, JSON, or AWS's text; whole, or what
//! `--query` picks of it.
//!
//! Every verb prints through [`Output`], so that the three forms and the query hold for all of them.

#![forbid(unsafe_code)]

mod generic;
mod query;
mod text;

pub use query::Query;

use super::client::{CliError, typed};
use super::table::Look;
use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};

/// The forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The result as it came.
    Json,
    /// For people.
    Table,
    /// Values with tabs between them, a line a structure, as `aws --output text` has them.
    Text,
}

/// Standard output, and how to print to it.
pub(super) struct Output {
    format: Option<Format>,
    query: Option<Query>,
    pub(super) look: Look,
}

impl Output {
    /// No `format`: the verb's own.
    pub(super) fn new(format: Option<Format>, query: Option<Query>) -> Self {
        Output { format, query, look: Look::new(io::stdout().is_terminal()) }
    }

    /// The form, where a verb has a table.
    pub(super) fn format(&self) -> Format {
        self.format.unwrap_or(Format::Table)
    }

    /// Whether `render` of [`Output::emit`] would be used: sentences besides the result may be printed too.
    pub(super) fn is_for_people(&self) -> bool {
        self.format() == Format::Table && self.query.is_none()
    }

    /// Prints `result`: as `render` shows it, if that is what was asked for.
    pub(super) fn emit<R: DeserializeOwned>(
        &self,
        result: Value,
        render: impl FnOnce(&R, &Look) -> String,
    ) -> Result<(), CliError> {
        if self.is_for_people() {
            return print(&render(&typed(result)?, &self.look));
        }
        self.emit_as(&result, self.format())
    }

    /// Prints a result that has no table of its own: as JSON, unless something else was asked for.
    pub(super) fn emit_plain(&self, result: &Value) -> Result<(), CliError> {
        self.emit_as(result, self.format.unwrap_or(Format::Json))
    }

    fn emit_as(&self, result: &Value, format: Format) -> Result<(), CliError> {
        let result = &self.picked(result)?;
        print(&match format {
            Format::Json => pretty(result),
            Format::Text => text::text(result),
            Format::Table => generic::table(result, &self.look),
        })
    }

    /// Prints one of a stream of results on a line of its own: as `render` shows it, or as JSON.
    pub(super) fn emit_line(
        &self,
        result: impl FnOnce() -> Value,
        render: impl FnOnce(&Look) -> String,
    ) -> Result<(), CliError> {
        if self.is_for_people() {
            return print(&render(&self.look));
        }
        let result = self.picked(&result())?;
        match self.format() {
            Format::Text => print(&text::text(&result)),
            Format::Json | Format::Table => print(&format!("{result}\n")),
        }
    }

    fn picked(&self, result: &Value) -> Result<Value, CliError> {
        match &self.query {
            Some(query) => query.of(result).map_err(CliError::Query),
            None => Ok(result.clone()),
        }
    }
}

/// Writes `text` to standard output at once.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::ReaderGone,
        _ => CliError::Output(error),
    })
}

/// JSON for people and for `jq` alike.
fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
