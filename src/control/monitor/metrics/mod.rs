//! `/metrics`: every counter, for Prometheus.
//!
//! A scrape is a [`Snapshot`] that the control core takes in one go, some hundred microseconds for a thousand targets,
//! and that is written on a thread of its own, so that no decision on health waits for it; and not a cycle of a
//! worker is spent. One is written at a time. Answers whose clients do not read are bounded too: of [`HELD`] the one
//! that is oldest gives way to the next.

mod families;
mod family;
mod held;
mod snapshot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Response, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;

use super::answer::{self, AnswerBody};
use crate::control::http::Visit;
pub use families::FAMILIES;
pub use family::{Family, Kind};
pub use held::HELD;
use held::Held;
pub use snapshot::{
    Buffers, OfBalancer, OfEndpoint, OfFailover, OfGroup, OfMonitor, OfRing, OfTarget, OfWorker, OfZone,
    Snapshot,
};

/// How a scrape is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own text, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The one that the client wants: OpenMetrics where it says so and does not like the other better.
    fn wanted(headers: &HeaderMap) -> Format {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best = (0, Format::Text);
        for range in accepted.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse::<f32>().ok());
            // In thousandths, as finely as it can be said.
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            let quality = (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32;
            let format = match kind {
                "application/openmetrics-text" => Format::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Format::Text,
                _ => continue,
            };
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A snapshot, as the registry collects it.
#[derive(Debug)]
struct Collected(Arc<Snapshot>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = FAMILIES.iter().flat_map(|(_, families)| families.iter());
        all.into_iter().try_for_each(|family| family.encode(&self.0, &mut encoder))
    }
}

/// Writes a snapshot.
///
/// # Errors
/// None that a snapshot can bring about: the text is written to memory.
pub fn write(snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collected(Arc::new(snapshot))));
    let mut text = String::new();
    match format {
        Format::Text => prometheus_client::encoding::prometheus_text::encode(&mut text, &registry)?,
        Format::OpenMetrics => prometheus_client::encoding::text::encode(&mut text, &registry)?,
    }
    Ok(text)
}

/// What is kept from one scrape to the next.
#[derive(Default)]
pub struct Scrapes {
    /// One is written at a time.
    writing: Mutex<()>,
    held: Held,
}

impl Scrapes {
    /// The answer to a scrape of what `take` takes, which is asked when it is this one's turn.
    pub async fn answer(
        &self,
        headers: &HeaderMap,
        visit: &Rc<Visit>,
        take: impl FnOnce() -> Snapshot,
    ) -> Response<AnswerBody> {
        let format = Format::wanted(headers);
        let turn = self.writing.lock().await;
        let snapshot = take();
        let written = tokio::task::spawn_blocking(move || write(snapshot, format)).await;
        drop(turn);
        match written {
            Ok(Ok(text)) => {
                let body = self.held.hold(Bytes::from(text), visit);
                answer::with_body(StatusCode::OK, format.content_type(), AnswerBody::from_body(body))
            }
            Ok(Err(_)) | Err(_) => {
                tracing::error!(name: "scrape_failed", "a scrape could not be written");
                answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, "The metrics could not be written.")
            }
        }
    }

    /// How many were written, and how many of these were given up.
    pub fn counts(&self) -> (u64, u64) {
        self.held.counts()
    }
}
