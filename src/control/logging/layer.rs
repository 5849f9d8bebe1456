//! From an event of `tracing` to a line.

use std::sync::Arc;
use std::time::Instant;

use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::limit::Limit;
use super::line::Look;
use super::writer::Writer;

/// See the module.
pub struct Lines {
    look: Look,
    limit: Arc<Limit>,
    writer: Arc<Writer>,
}

impl Lines {
    /// Lines that look so, held to this limit, to this writer.
    pub fn new(look: Look, limit: Arc<Limit>, writer: Arc<Writer>) -> Lines {
        Lines { look, limit, writer }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        debug_assert!(
            !std::thread::current().name().is_some_and(|name| name.starts_with("worker-")),
            "a worker logs: {event:?}"
        );
        let of = event.metadata();
        if self.limit.admits(of, Instant::now()) {
            self.writer.write(self.look.line(event, of, crate::control::wall::now()));
        }
    }
}
