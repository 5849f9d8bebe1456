//! How a line looks.
//!
//! As JSON it is one object: `time`, `level`, `event` (the line's name), `message`, `module`, and the line's own
//! fields, numbers and truth values as such and all else as strings. For people it is time, level, message and then
//! the fields.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};

use crate::control::events::Timestamp;

/// The name that lines of other people's code have, which gives them none.
const FOREIGN: &str = "library";

/// Keys that every line has.
const OWN: [&str; 5] = ["time", "level", "event", "message", "module"];

/// For whom a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// For people.
    Text {
        /// Whether the reader's terminal shows colours.
        colours: bool,
    },
    /// For programs.
    Json,
}

impl Look {
    /// The line of an event, newline included.
    pub(super) fn line(self, event: &Event<'_>, of: &'static Metadata<'static>, now: SystemTime) -> String {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let time = Timestamp::from(now).to_string();
        match self {
            Look::Json => {
                let mut line = Map::new();
                let mut put = |key: &str, value: Value| line.insert(key.to_owned(), value);
                put("time", time.into());
                put("level", of.level().to_string().to_ascii_lowercase().into());
                put("event", name(of).into());
                put("message", fields.message.into());
                put("module", of.module_path().unwrap_or(of.target()).into());
                for (key, value) in fields.rest {
                    // None of our own lines has such a field.
                    let key = if OWN.contains(&key) { format!("{key}_") } else { key.to_owned() };
                    put(&key, value);
                }
                let mut text = Value::Object(line).to_string();
                text.push('\n');
                text
            }
            Look::Text { colours } => {
                let (bright, dim, end) =
                    if colours { (colour(*of.level()), "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
                let mut text =
                    format!("{dim}{time}{end} {bright}{:>5}{end} {}", of.level(), one_line(&fields.message));
                for (key, value) in fields.rest {
                    let shown = match &value {
                        Value::String(text) => shown(text),
                        other => other.to_string(),
                    };
                    // A String takes everything.
                    write!(text, " {dim}{key}={end}{shown}").ok();
                }
                text.push('\n');
                text
            }
        }
    }
}

/// What a line is called.
fn name(of: &Metadata<'static>) -> &'static str {
    // Whoever gives no name has one from `tracing`, with the file in it.
    let is_ours = of.module_path().is_some_and(|path| path.starts_with("flowgate"));
    if is_ours { of.name() } else { FOREIGN }
}

/// A value among others: in quotes where one could not tell where it ends.
fn shown(text: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"\"\\=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// A message that breaks no line and moves no cursor.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// An event's fields in their order, and its message.
#[derive(Default)]
struct Fields {
    message: String,
    rest: Vec<(&'static str, Value)>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            // Where a line of a library that uses the `log` crate came from: `module` says it.
            (name, _) if name.starts_with("log.") => {}
            (name, value) => self.rest.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}
