//! Which path is answered by what.

use std::rc::Rc;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::Behind;
use super::answer::{self, AnswerBody};
use super::metrics::{OfMonitor, Scrapes, Snapshot};
use super::page;
use super::ready::{self, Readiness};
use super::streams::Streams;
use crate::control::http::Visit;

/// What answers, and what it needs.
pub struct Routes {
    behind: Behind,
    /// The answers without an end. Whoever answers with one opens it here, with the connection's visit.
    streams: Streams,
    scrapes: Scrapes,
}

impl Routes {
    /// Routes to what is `behind`.
    pub fn new(behind: Behind) -> Routes {
        Routes { behind, streams: Streams::default(), scrapes: Scrapes::default() }
    }

    /// The answer to a request that may be served. Of HEAD the server leaves the body out.
    pub async fn answer(&self, request: &Request<Incoming>, visit: &Rc<Visit>) -> Response<AnswerBody> {
        let uri = request.uri();
        match uri.path() {
            "/metrics" => {
                let readiness = self.readiness().await;
                self.scrapes.answer(request.headers(), visit, || self.snapshot(&readiness)).await
            }
            "/healthz" => ready::health(&self.behind.source.readiness()),
            "/readyz" => ready::readiness(&self.readiness().await),
            path => page::asset(path)
                .or_else(|| page::data(uri, request.headers(), &self.behind.recorder, &self.streams, visit))
                .unwrap_or_else(|| {
                    answer::refusal(
                        StatusCode::NOT_FOUND,
                        "There is nothing at this path. There are /, /metrics, /healthz and /readyz.",
                    )
                }),
        }
    }

    async fn readiness(&self) -> Readiness {
        let file = self.behind.not_ready_file.taken_out().await;
        let readiness = self.behind.source.readiness();
        Readiness { taken_out: file.or(readiness.taken_out), ..readiness }
    }

    fn snapshot(&self, readiness: &Readiness) -> Snapshot {
        let (scrapes, scrapes_given_up) = self.scrapes.counts();
        let (streams, streams_refused) = (self.streams.count(), self.streams.refused());
        let monitor = OfMonitor { streams, streams_refused, scrapes, scrapes_given_up };
        let (is_ready, is_taken_out) = (readiness.is_ready(), readiness.taken_out.is_some());
        Snapshot { monitor, is_ready, is_taken_out, ..self.behind.source.snapshot() }
    }
}
