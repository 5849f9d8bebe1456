//! What is logged, for tests to read.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, reload};

use super::layer::Lines;
use super::limit::Limit;
use super::writer::Writer;
use super::{Filter, LogControl, Look};

/// Where lines go.
#[derive(Clone, Default)]
pub(super) struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Paper {
    pub(super) fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Listeners that never go. While there is one alone, a place that makes lines asks at its first line whether that
/// thread listens, and goes by the answer for good: a test without a listener that came there first would silence
/// it for all others.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(Registry::default())));

/// What `act` logs, with the control of the log in its hand.
pub(super) fn logged(look: Look, filter: &str, act: impl FnOnce(&LogControl)) -> Vec<String> {
    LazyLock::force(&OTHERS);
    let paper = Paper::default();
    let filter = Filter::read(filter, &Filter::of(tracing::level_filters::LevelFilter::INFO)).unwrap();
    let (targets, handle) = reload::Layer::new(filter.targets());
    let (limit, writer) = (Arc::new(Limit::default()), Arc::new(Writer::to(Box::new(paper.clone()))));
    let lines = Lines::new(look, Arc::clone(&limit), Arc::clone(&writer));
    let apply = move |filter: &Filter| handle.reload(filter.targets()).unwrap();
    let control = LogControl::new(filter, Box::new(apply), limit, writer);
    tracing::subscriber::with_default(Registry::default().with(targets).with(lines), || act(&control));
    paper.lines()
}

/// What `act` logs on this thread under names that begin with `event`, as JSON has it.
pub(crate) fn events(event: &str, act: impl FnOnce()) -> Vec<Value> {
    let lines = logged(Look::Json, "info", |_| act());
    let read = |line: &String| serde_json::from_str(line).expect("a line is JSON");
    lines
        .iter()
        .map(read)
        .filter(|line: &Value| line["event"].as_str().is_some_and(|name| name.starts_with(event)))
        .collect()
}
