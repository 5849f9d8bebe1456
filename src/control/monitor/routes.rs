//! Which path is answered by what.

use std::rc::Rc;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::Behind;
use super::answer::{self, AnswerBody};
use super::ready;
use super::streams::Streams;
use crate::control::http::Visit;

/// What answers, and what it needs.
pub struct Routes {
    behind: Behind,
    /// The answers without an end. Whoever answers with one opens it here, with the connection's visit.
    #[expect(dead_code, reason = "no path answers so yet")]
    streams: Streams,
}

impl Routes {
    /// Routes to what is `behind`.
    pub fn new(behind: Behind) -> Routes {
        Routes { behind, streams: Streams::default() }
    }

    /// The answer to a request that may be served. Of HEAD the server leaves the body out.
    pub async fn answer(&self, request: &Request<Incoming>, _visit: &Rc<Visit>) -> Response<AnswerBody> {
        match request.uri().path() {
            "/healthz" => ready::health(&self.behind.source.readiness()),
            "/readyz" => ready::readiness(&self.behind.source.readiness()),
            _ => answer::refusal(
                StatusCode::NOT_FOUND,
                "There is nothing at this path. There are /metrics, /healthz and /readyz.",
            ),
        }
    }
}
