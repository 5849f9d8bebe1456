//! Answers: their bodies, whole or without an end, and the headers that all of them have.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

/// Plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// The body of an answer.
pub struct AnswerBody(Pin<Box<dyn Body<Data = Bytes, Error = Infallible>>>);

impl AnswerBody {
    /// A body that comes from elsewhere.
    pub fn from_body(body: impl Body<Data = Bytes, Error = Infallible> + 'static) -> Self {
        AnswerBody(Box::pin(body))
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").field("size", &self.0.size_hint()).finish_non_exhaustive()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// An answer with this body.
pub fn with_body(status: StatusCode, kind: &'static str, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // What is shown is how things stand now; and nobody is to guess at its type, or to put it into a frame.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("x-frame-options", HeaderValue::from_static("DENY"));
    response
}

/// A whole answer.
pub fn whole(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Response<AnswerBody> {
    with_body(status, kind, AnswerBody::from_body(Full::new(bytes.into())))
}

/// A refusal, which is one sentence.
pub fn refusal(status: StatusCode, sentence: &str) -> Response<AnswerBody> {
    whole(status, TEXT, format!("{sentence}\n"))
}

/// A refusal of what could be answered some seconds later.
pub fn later(seconds: u16, sentence: &str) -> Response<AnswerBody> {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, sentence);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The refusal of a method that would change something.
pub fn reading_only() -> Response<AnswerBody> {
    let mut response = refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "This endpoint is for reading: it serves GET and HEAD. Changes are made by the control socket.",
    );
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}
