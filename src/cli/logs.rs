//! The daemon's log and the flow log.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::{FlowLogVerb, LogLevelFlags};
use super::client::{CliError, typed};
use super::table::{Look, text};
use crate::control::logging::LogLevelView;
use crate::control::socket::views::{FlowLogState, FlowLogView};
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long to wait for a flow log to begin or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often to look.
const PAUSE: Duration = Duration::from_millis(50);

/// Shows what is logged, or changes it.
pub(super) fn level(session: &mut Session, flags: &LogLevelFlags) -> Result<(), CliError> {
    match flags.params() {
        Some(change) => session.show("set-log-level", &change, level_shown),
        None => session.show("describe-log-level", &Value::Null, level_shown),
    }
}

fn level_shown(view: &LogLevelView, look: &Look) -> String {
    let LogLevelView { filter, configured, reverts_at } = view;
    let mut rows = vec![[text("Level"), text(filter)], [text("Configured"), text(configured)]];
    if let Some(at) = reverts_at {
        rows.push([text("Reverts at"), text(look.time(*at))]);
    }
    look.table_of(&[], rows.into_iter().map(Vec::from).collect())
}

/// Starts, stops or shows the flow log. Comes back when it has begun or is over.
pub(super) fn flows(session: &mut Session, verb: FlowLogVerb) -> Result<(), CliError> {
    let result = match verb {
        FlowLogVerb::Show => session.client.call("describe-flow-log", &Value::Null)?,
        FlowLogVerb::Start(flags) => {
            let begun = session.client.call("start-flow-log", &flags.params())?;
            settled(session, begun, FlowLogState::Starting)?
        }
        FlowLogVerb::Stop => {
            let stopping = session.client.call("stop-flow-log", &Value::Null)?;
            settled(session, stopping, FlowLogState::Stopping)?
        }
    };
    session.output.emit(result, flows_shown)
}

/// Waits until the log is in another state than `passing`.
fn settled(session: &mut Session, mut view: Value, passing: FlowLogState) -> Result<Value, CliError> {
    let began = Instant::now();
    while typed::<FlowLogView>(view.clone())?.state == passing && began.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
        view = session.client.call("describe-flow-log", &Value::Null)?;
    }
    Ok(view)
}

fn flows_shown(view: &FlowLogView, look: &Look) -> String {
    let state = match view.state {
        FlowLogState::Off => "off",
        FlowLogState::Starting => "starting",
        FlowLogState::On => "on",
        FlowLogState::Stopping => "stopping",
    };
    let mut rows = vec![[text("State"), text(state)]];
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            rows.push([text(name), text(value)]);
        }
    };
    row("To", view.to.clone());
    row("Since", view.since.map(|since| look.time(since)));
    row(
        "Flows",
        view.sample_one_in.map(|one_in| match one_in.get() {
            1 => "all".to_owned(),
            some => format!("one in {some}"),
        }),
    );
    row(
        "Interim records",
        view.to.as_ref().map(|_| match view.interim_seconds {
            Some(seconds) => format!("every {seconds} s"),
            None => "none".to_owned(),
        }),
    );
    row("Written", view.to.as_ref().map(|_| view.written.to_string()));
    row("Lost", view.to.as_ref().map(|_| view.lost.to_string()));
    row("Failed", view.to.as_ref().map(|_| view.failed.to_string()));
    row("Error", view.error.clone());
    look.table_of(&[], rows.into_iter().map(Vec::from).collect())
}
