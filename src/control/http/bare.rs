//! Answers without a word, held back.
//!
//! To bytes that are no request hyper answers by itself, with a status and nothing else, and no handler hears of it.
//! [`Bare`] stands between hyper and the stream and keeps such an answer to itself, so that the server can give one
//! that says why. hyper writes it alone: it reads the next request's head when all before is written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::visit::Visit;

/// A stream that holds hyper's own answers back.
pub struct Bare<S> {
    stream: S,
    visit: Rc<Visit>,
    held: Option<StatusCode>,
}

impl<S> Bare<S> {
    /// The stream of `visit`.
    pub fn new(stream: S, visit: Rc<Visit>) -> Self {
        Bare { stream, visit, held: None }
    }

    /// The status of the answer that was held back; none if none was.
    pub fn held(&self) -> Option<StatusCode> {
        self.held
    }

    /// The stream itself, to which no more is held back.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// The status, if `bytes` are an answer of hyper's own. A stream that is meant to last may carry any bytes, and
    /// hyper has nothing to say in it.
    fn own_status(&self, bytes: &[u8]) -> Option<StatusCode> {
        let head = bytes.strip_suffix(b"\r\n\r\n").filter(|_| !self.visit.is_to_stay())?;
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?;
        let status = StatusCode::from_bytes(status.as_bytes()).ok()?;
        let is_own = |line: &str| {
            line == "content-length: 0" || line.starts_with("date: ") || line.starts_with("connection: ")
        };
        (status.is_client_error() && lines.all(is_own)).then_some(status)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bare<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bare<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.own_status(bytes) {
            None => Pin::new(&mut self.stream).poll_write(context, bytes),
            held => {
                self.held = held;
                Poll::Ready(Ok(bytes.len()))
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [one] => self.poll_write(context, one),
            _ => Pin::new(&mut self.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.held {
            // There is an answer to come.
            Some(_) => Poll::Ready(Ok(())),
            None => Pin::new(&mut self.stream).poll_shutdown(context),
        }
    }
}
