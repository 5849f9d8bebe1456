//! Changing what is logged while the daemon runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::{BadFilter, Filter};
use super::limit::Limit;
use super::writer::Writer;
use crate::control::events::Timestamp;
use crate::control::wall;

/// The longest that a filter may hold before the configured one comes back: a week.
pub const MAX_REVERT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// When the configured filter comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revert {
    /// When it is asked for.
    OnDemand,
    /// After so long.
    After(Duration),
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct LogLevelView {
    /// The filter that holds: a level, and levels of parts of the program.
    pub filter: String,
    /// The filter of the configuration, which holds after a restart.
    pub configured: String,
    /// When the configured filter comes back by itself; none: when it is asked for, or it is the one that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts_at: Option<Timestamp>,
}

type Apply = Box<dyn Fn(&Filter) + Send>;

/// The process's log, shared by whoever has a part in it.
#[derive(Clone)]
pub struct LogControl {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    limit: Arc<Limit>,
    writer: Arc<Writer>,
}

struct State {
    configured: Filter,
    current: Filter,
    reverts: Option<Instant>,
    apply: Apply,
}

impl LogControl {
    pub(super) fn new(
        configured: Filter,
        apply: Apply,
        limit: Arc<Limit>,
        writer: Arc<Writer>,
    ) -> LogControl {
        let state = State { current: configured.clone(), configured, reverts: None, apply };
        LogControl { shared: Arc::new(Shared { state: Mutex::new(state), limit, writer }) }
    }

    /// One that no log line is held to: for tests of what uses it.
    #[must_use]
    pub fn detached(configured: Filter) -> LogControl {
        let writer = Arc::new(Writer::to(Box::new(std::io::sink())));
        LogControl::new(configured, Box::new(|_| ()), Arc::default(), writer)
    }

    /// Has a thread write the lines from here on; called when the calling thread is confined to the CPUs that are not
    /// the workers'.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start_thread(&self) -> std::io::Result<()> {
        self.shared.writer.start_thread()
    }

    /// Waits until the lines so far are written, for a second at most.
    pub fn flush(&self) {
        self.shared.writer.flush();
    }

    /// Lines that were lost since the process began.
    #[must_use]
    pub fn lines_lost(&self) -> u64 {
        self.shared.writer.lost()
    }

    /// What holds.
    #[must_use]
    pub fn view(&self) -> LogLevelView {
        self.with(|state| state.view())
    }

    /// Has another filter hold until it is reverted.
    ///
    /// # Errors
    /// If the text is no filter; nothing has changed then.
    pub fn set(&self, text: &str, revert: Revert) -> Result<LogLevelView, BadFilter> {
        self.with(|state| {
            let filter = Filter::read(text, &state.configured)?;
            let after = match revert {
                Revert::OnDemand => None,
                Revert::After(time) => Some(time.min(MAX_REVERT)),
            };
            state.hold(filter);
            state.reverts = after.map(|after| Instant::now() + after);
            Ok(state.view())
        })
    }

    /// Has the configured filter hold again.
    pub fn revert(&self) -> LogLevelView {
        self.with(|state| {
            state.hold(state.configured.clone());
            state.reverts = None;
            state.view()
        })
    }

    /// Has another filter be the configured one. It holds at once, unless somebody has another one hold for a time.
    pub fn configure(&self, filter: Filter) {
        self.with(|state| {
            if state.current == state.configured {
                state.hold(filter.clone());
            }
            state.configured = filter;
        });
    }

    /// To be called some times a second: reverts what is due, and tells of lines that were not written.
    pub fn tend(&self, now: Instant) {
        let due = self.with(|state| state.reverts.is_some_and(|at| at <= now));
        if due {
            let filter = self.revert().filter;
            tracing::info!(name: "log_level_reverted", filter, "the log's configured level holds again");
        }
        for suppressed in self.shared.limit.suppressed(now) {
            let (of, module, lines) = (suppressed.name, suppressed.module, suppressed.lines);
            tracing::warn!(name: "lines_suppressed", of, of_module = module, lines, "log lines of one kind were too many");
        }
        let lines = self.shared.writer.take_lost();
        if lines > 0 {
            tracing::warn!(name: "lines_lost", lines, "log lines were lost, as nobody read standard error");
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn hold(&mut self, filter: Filter) {
        (self.apply)(&filter);
        self.current = filter;
    }

    fn view(&self) -> LogLevelView {
        LogLevelView {
            filter: self.current.to_string(),
            configured: self.configured.to_string(),
            // By the clock that people see now, which may have jumped since.
            reverts_at: self
                .reverts
                .map(|at| (wall::now() + at.saturating_duration_since(Instant::now())).into()),
        }
    }
}
