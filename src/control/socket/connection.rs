//! One connection, from its hello to its end.
//!
//! A task of the server's. It does one thing at a time: take a line, answer it, pass on the events that
//! came meanwhile. A peer that does not read stops its own task and nobody else's; what it misses of
//! the events is counted by the channel and told in a `lost` notification.

#![forbid(unsafe_code)]

use super::base64;
use super::batch::{self, MAX_BATCH};
use super::dispatcher::{Call, Dispatcher};
use super::framing::{Frame, Lines, MAX_LINE};
use super::role::Role;
use super::rpc::{self, INVALID_REQUEST, Id, RpcError};
use super::service::Service;
use super::session::{Delivery, Session, Subscription};
use super::views::{CaptureEnded, CapturedChunk};
use super::{API_MAJOR, API_MINOR, PRODUCT};
use crate::control::capture::{CaptureStream, Chunk};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Answers and events gathered before they are written, in bytes.
const GATHER: usize = 64 << 10;

/// How long a closing connection is tried to be told why.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How often an answer that takes its time is asked whether anybody waits for it.
const LOOK_FOR_THE_PEER: Duration = Duration::from_millis(250);

/// The first line of every connection: the parameters of the notification `hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Hello {
    /// The program that serves the socket.
    pub product: String,
    /// Its version.
    pub version: String,
    /// The version of this protocol. Additions raise the minor, anything else the major.
    pub protocol: ProtocolVersion,
    /// The configuration's number: every accepted change raises it.
    pub generation: u64,
    /// What this connection may do. A daemon that does not say so lets it do everything.
    #[serde(default = "Hello::all")]
    pub role: Role,
    /// The longest line taken, in bytes.
    pub max_line: usize,
    /// The most requests taken in one batch; 0: none, as of a daemon that does not say.
    #[serde(default)]
    pub max_batch: usize,
}

impl Hello {
    /// What every connection might do before there were roles.
    fn all() -> Role {
        Role::Admin
    }
}

/// The version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ProtocolVersion {
    /// Raised when something is removed or changes its meaning.
    pub major: u16,
    /// Raised when something is added.
    pub minor: u16,
}

/// The parameters of the notification `lost`: events that a slow reader will not see.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Lost {
    /// How many, of any kind.
    pub count: u64,
}

/// The parameters of the notification `closing`, the last line of a connection that the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Closing {
    /// Why.
    pub reason: CloseReason,
}

/// Why the daemon ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CloseReason {
    /// As many connections as there may be, and this one had been silent longest.
    Idle,
    /// As many connections as there may be, and none that makes room for this one: they subscribe, or are admins'
    /// where this one only reads.
    Full,
}

/// Runs a connection until its peer closes it or its place is needed. The server does this with each that it accepts.
pub async fn run(
    stream: UnixStream,
    session: Rc<Session>,
    service: Rc<dyn Service>,
    dispatcher: Rc<Dispatcher>,
) {
    let (read, write) = stream.into_split();
    let mut connection = Connection {
        lines: Lines::new(read),
        write,
        gathered: Vec::new(),
        written: 0,
        within_batch: false,
        subscription: None,
        capture: None,
        session,
        service,
        dispatcher,
    };
    let session = Rc::clone(&connection.session);
    let outcome = tokio::select! {
        outcome = connection.converse() => outcome,
        () = session.evicted() => {
            connection.say_why(CloseReason::Idle).await;
            return;
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(name: "socket_connection_broke", peer = session.author(), %error, "a control connection broke");
    }
}

/// Tells a peer that there is no place for it.
pub(super) async fn turn_away(mut stream: UnixStream, reason: CloseReason) {
    let line = rpc::notification("closing", &Closing { reason });
    // Whether or not it is heard, the connection ends.
    tokio::time::timeout(LAST_WORDS, stream.write_all(line.as_bytes())).await.ok();
}

struct Connection {
    lines: Lines<OwnedReadHalf>,
    write: OwnedWriteHalf,
    gathered: Vec<u8>,
    /// How much of `gathered` is written already.
    written: usize,
    /// The answers to a batch are under way: what was written last is not the end of a line.
    within_batch: bool,
    subscription: Option<Subscription>,
    capture: Option<CaptureStream>,
    session: Rc<Session>,
    service: Rc<dyn Service>,
    dispatcher: Rc<Dispatcher>,
}

enum Step {
    Frame(Frame),
    Delivery(Delivery),
    Captured(Chunk),
}

impl Connection {
    async fn converse(&mut self) -> io::Result<()> {
        self.hello();
        self.flush().await?;
        loop {
            let step = tokio::select! {
                frame = self.lines.next() => Step::Frame(frame?),
                delivery = next_delivery(&mut self.subscription) => Step::Delivery(delivery),
                chunk = next_chunk(&mut self.capture) => Step::Captured(chunk),
            };
            match step {
                Step::Frame(Frame::End) => return Ok(()),
                Step::Frame(Frame::TooLong) => {
                    let message = format!("a line of more than {MAX_LINE} bytes; the connection is closed");
                    let error = RpcError::new(INVALID_REQUEST, "LineTooLong", message)
                        .hint("divide the request into several");
                    self.gathered.extend_from_slice(rpc::refusal(&Id::Null, &error).as_bytes());
                    return self.flush().await;
                }
                Step::Frame(Frame::Line(line)) => self.answer(&line).await?,
                Step::Delivery(delivery) => self.pass_on(delivery).await?,
                Step::Captured(chunk) => self.pass_on_captured(&chunk).await?,
            }
        }
    }

    fn hello(&mut self) {
        let hello = Hello {
            product: PRODUCT.to_owned(),
            version: env!("FLOWGATE_VERSION").to_owned(),
            protocol: ProtocolVersion { major: API_MAJOR, minor: API_MINOR },
            generation: self.service.state().generation(),
            role: self.session.role(),
            max_line: MAX_LINE,
            max_batch: MAX_BATCH,
        };
        self.gathered.extend_from_slice(rpc::notification("hello", &hello).as_bytes());
    }

    /// Answers `line` and the whole lines that came with it.
    async fn answer(&mut self, line: &[u8]) -> io::Result<()> {
        self.answer_line(line).await?;
        while self.gathered.len() < GATHER {
            match self.lines.ready() {
                Some(Frame::Line(line)) => {
                    // A long row of requests must not keep health checks waiting.
                    tokio::task::yield_now().await;
                    self.answer_line(&line).await?;
                }
                _ => break,
            }
        }
        self.flush().await
    }

    async fn answer_line(&mut self, line: &[u8]) -> io::Result<()> {
        match batch::elements(line) {
            None => {
                let answer = self.answer_to(line).await?.unwrap_or_default();
                self.gathered.extend_from_slice(answer.as_bytes());
            }
            Some(Ok(elements)) => self.answer_batch(&elements).await?,
            Some(Err(error)) => {
                self.session.touch();
                self.gathered.extend_from_slice(rpc::refusal(&Id::Null, &error).as_bytes());
            }
        }
        Ok(())
    }

    /// Answers the requests of a batch in their order. What is answered is sent as it comes: all of it
    /// together may be more than should be held.
    async fn answer_batch(&mut self, requests: &[&[u8]]) -> io::Result<()> {
        for request in requests {
            if let Some(answer) = self.answer_to(request).await? {
                self.gathered.push(if self.within_batch { b',' } else { b'[' });
                self.within_batch = true;
                self.gathered.extend_from_slice(answer.trim_end().as_bytes());
            }
            if self.gathered.len() >= GATHER {
                self.flush().await?;
            }
            tokio::task::yield_now().await;
        }
        // Notifications alone are answered by nothing.
        if self.within_batch {
            self.within_batch = false;
            self.gathered.extend_from_slice(b"]\n");
        }
        Ok(())
    }

    /// The answer to `request`, unless the peer goes before it is there: then a change that waits for its turn is given
    /// up with its connection. One that is being stored has a task of its own, and is finished.
    async fn answer_to(&mut self, request: &[u8]) -> io::Result<Option<String>> {
        self.session.touch();
        let call = Call { service: &*self.service, session: &self.session };
        let answer = unless_gone(&self.write, self.dispatcher.answer(&call, request)).await?;
        if let Some(subscription) = self.session.new_subscription() {
            self.subscription = Some(subscription);
        }
        if let Some(capture) = self.session.new_capture() {
            self.capture = Some(capture);
        }
        if self.session.is_stopping()
            && let Some(capture) = &mut self.capture
        {
            capture.stop();
        }
        Ok(answer)
    }

    /// Writes `first` and the events that are waiting behind it.
    async fn pass_on(&mut self, first: Delivery) -> io::Result<()> {
        let mut delivery = Some(first);
        while let Some(next) = delivery {
            match next {
                Delivery::Event(event) => {
                    self.gathered.extend_from_slice(rpc::notification("event", &event).as_bytes());
                }
                Delivery::Lost(count) => {
                    self.gathered.extend_from_slice(rpc::notification("lost", &Lost { count }).as_bytes());
                }
                Delivery::Ended => {
                    self.subscription = None;
                    break;
                }
            }
            let more = self.gathered.len() < GATHER;
            delivery = self.subscription.as_mut().filter(|_| more).and_then(Subscription::ready);
        }
        self.flush().await
    }

    /// Writes what comes next of the capture. A peer that does not take it keeps its own task here, and what is
    /// captured meanwhile finds no room with the workers, which count it.
    async fn pass_on_captured(&mut self, chunk: &Chunk) -> io::Result<()> {
        let captured = CapturedChunk { data: base64::encode(&chunk.bytes), totals: chunk.totals };
        self.gathered.extend_from_slice(rpc::notification("captured", &captured).as_bytes());
        if let Some(reason) = chunk.end {
            let ended = CaptureEnded { reason, totals: chunk.totals };
            self.gathered.extend_from_slice(rpc::notification("capture-ended", &ended).as_bytes());
            self.capture = None;
            self.session.capture_ended();
        }
        self.flush().await
    }

    async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.gathered.len() {
            let taken = self.write.write(&self.gathered[self.written..]).await?;
            if taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += taken;
            self.session.touch();
        }
        self.gathered.clear();
        self.gathered.shrink_to(GATHER);
        self.written = 0;
        Ok(())
    }

    /// The last line of a connection whose place is needed, unless a line half written is in the way.
    async fn say_why(&mut self, reason: CloseReason) {
        if self.written == 0 && !self.within_batch {
            let line = rpc::notification("closing", &Closing { reason });
            // Whether or not it is heard, the connection ends.
            tokio::time::timeout(LAST_WORDS, self.write.write_all(line.as_bytes())).await.ok();
        }
    }
}

/// What `answer` comes to, or that the peer has closed its connection before. What need not wait is not held back by
/// that; what must is not gone on with, so that a change whose turn comes after its asker has gone is not made.
async fn unless_gone<T>(peer: &OwnedWriteHalf, answer: impl Future<Output = T>) -> io::Result<T> {
    let mut answer = pin!(answer);
    let mut looks = tokio::time::interval(LOOK_FOR_THE_PEER);
    let mut waits = false;
    poll_fn(|context| {
        // Looked at whenever there is something to go on with, too: also of a turn that comes the moment after.
        if waits && has_gone(peer.as_ref()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        waits = true;
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        while looks.poll_tick(context).is_ready() {}
        Poll::Pending
    })
    .await
}

/// Whether the peer has closed the connection altogether. One that only says no more (`shutdown`) still reads.
fn has_gone(peer: impl AsFd) -> bool {
    // Nothing is asked for, so that only what is always told is: that it has hung up.
    let mut peer = [PollFd::new(peer.as_fd(), PollFlags::empty())];
    poll(&mut peer, PollTimeout::ZERO).is_ok_and(|told| told > 0)
}

async fn next_delivery(subscription: &mut Option<Subscription>) -> Delivery {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

async fn next_chunk(capture: &mut Option<CaptureStream>) -> Chunk {
    match capture {
        Some(capture) => capture.next().await,
        None => std::future::pending().await,
    }
}
