//! The HTTP check (H-1): one `GET` over HTTP/1.1 on a new connection; the final answer's code
//! decides. Only the head is read, at most [`MAX_HEAD`] bytes of it, and the connection is closed
//! then, whatever follows. Interim answers (1xx) are read past, as RFC 9110 section 15.2 asks.
//!
//! The question, the reading of the answer and the verdict are the same over TLS; `https` calls
//! them with its own stream.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::connect::{Deadline, connect};
use crate::control::health::state::{ReasonCode, StateReason};
use crate::control::model::Matcher;

/// The most bytes that are read of an answer before its head must have ended; interim answers count.
pub(super) const MAX_HEAD: usize = 16 * 1024;

/// The most header fields. Servers allow about 100 in requests; answers have a dozen.
const MAX_FIELDS: usize = 128;

/// How much of an answer that is not what it should be is shown.
pub(super) const SHOWN: usize = 32;

/// The port that `Host` need not name over plain HTTP (RFC 9110, 4.2.1).
const DEFAULT_PORT: u16 = 80;

const USER_AGENT: &str = concat!("flowgate-health/", env!("CARGO_PKG_VERSION"));

/// `Ok` if a final answer came by the deadline, and its code is one that `matcher` has.
pub(super) async fn check(
    target: SocketAddrV4,
    source: Option<Ipv4Addr>,
    path: &str,
    matcher: &Matcher,
    deadline: Deadline,
) -> Result<(), StateReason> {
    let mut stream = connect(target, source, deadline).await?;
    let code = ask(&mut stream, &request(target, DEFAULT_PORT, path), deadline).await?;
    judge(code, matcher)
}

/// `Ok` if `matcher` has `code`.
pub(super) fn judge(code: u16, matcher: &Matcher) -> Result<(), StateReason> {
    if matcher.matches(code) {
        return Ok(());
    }
    let seen = format!("[{code}], expected {matcher}");
    Err(StateReason::seen(ReasonCode::ResponseCodeMismatch, seen))
}

/// Sends `request` and reads the answer's code.
pub(super) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    request: &str,
    deadline: Deadline,
) -> Result<u16, StateReason> {
    // A target may answer without reading, and reset (H-3): a failed write is told only if no answer
    // is there. The request fits in a new socket's buffer, so the write waits for nobody.
    let sent = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await
    };
    let sent = deadline.bound(sent, || "request not sent".to_owned()).await?;
    final_code(stream, deadline).await.map_err(|failure| match failure {
        ReadFailure::Reason(reason) => reason,
        ReadFailure::Broken { what, received } => {
            let request = sent.err().map(|error| format!("; request: {error}")).unwrap_or_default();
            failed(format!(
                "{what} before the answer's head was complete ({received} bytes received){request}"
            ))
        }
    })
}

/// RFC 9112 section 3. The port is left out of `Host` where it is the scheme's own (RFC 9110, 7.2).
pub(super) fn request(target: SocketAddrV4, default_port: u16, path: &str) -> String {
    let host = if target.port() == default_port { target.ip().to_string() } else { target.to_string() };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

pub(super) fn failed(what: impl fmt::Display) -> StateReason {
    StateReason::seen(ReasonCode::FailedHealthChecks, what)
}

/// Why there is no code.
enum ReadFailure {
    /// Told already.
    Reason(StateReason),
    /// The connection ended after `received` bytes.
    Broken { what: String, received: usize },
}

/// The code of the first answer that is not an interim one.
async fn final_code(stream: &mut (impl AsyncRead + Unpin), deadline: Deadline) -> Result<u16, ReadFailure> {
    let mut head = Vec::new();
    let mut received = 0;
    loop {
        let mut room = (&mut *stream).take(u64::try_from(MAX_HEAD - received).unwrap_or(0));
        let missing = || match received {
            0 => "connected, but no answer".to_owned(),
            bytes => format!("answer's head not complete ({bytes} bytes received)"),
        };
        let read = deadline.bound(room.read_buf(&mut head), missing).await.map_err(ReadFailure::Reason)?;
        match read {
            Ok(0) => return Err(ReadFailure::Broken { what: "connection closed".to_owned(), received }),
            Ok(bytes) => received += bytes,
            // TLS that ends without its own goodbye: a close all the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ReadFailure::Broken { what: "connection closed".to_owned(), received });
            }
            Err(error) => return Err(ReadFailure::Broken { what: error.to_string(), received }),
        }
        if let Some(code) = take_final_code(&mut head).map_err(ReadFailure::Reason)? {
            return Ok(code);
        }
        if received >= MAX_HEAD {
            let long = failed(format!("answer's head is longer than {MAX_HEAD} bytes"));
            return Err(ReadFailure::Reason(long));
        }
    }
}

/// The final code in `head`, if its answer's head is complete; interim answers are taken out of it.
fn take_final_code(head: &mut Vec<u8>) -> Result<Option<u16>, StateReason> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut answer = httparse::Response::new(&mut fields);
        let parsed = answer.parse(head).map_err(|error| {
            let begin = head.get(..SHOWN).unwrap_or(head).escape_ascii();
            failed(format!("answer is not HTTP/1: {error}; it begins \"{begin}\""))
        })?;
        match (parsed, answer.code) {
            (httparse::Status::Partial, _) | (_, None) => return Ok(None),
            // 101 ends HTTP on the connection: nothing final can follow.
            (httparse::Status::Complete(length), Some(100 | 102..=199)) => drop(head.drain(..length)),
            (httparse::Status::Complete(_), Some(code)) => return Ok(Some(code)),
        }
    }
}

#[cfg(test)]
mod tests;
