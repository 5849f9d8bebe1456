//! The client's side of the control socket: connect, read the hello, call a method, read events.
//!
//! Used by the verbs. Promises that whatever goes wrong comes out as one sentence that says what to
//! do, and that a daemon that does not answer is given up after [`PATIENCE`].

#![forbid(unsafe_code)]

use super::capture::{Interrupts, Ready};
use crate::control::events::Event;
use crate::control::socket::rpc::RpcError;
use crate::control::socket::views::{CaptureEnded, CaptureTotals, CapturedChunk};
use crate::control::socket::{API_MAJOR, CloseReason, Closing, Hello, Lost, PRODUCT, base64, methods};
use nix::sys::socket::{getsockopt, sockopt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an answer may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Why a command failed, as one sentence.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error("there is no socket {0}: start flowgated, or name its socket with --socket")]
    NoSocket(PathBuf),
    #[error("nobody answers at {0}: the daemon that made it is gone; start flowgated again")]
    NobodyThere(PathBuf),
    #[error("permission denied on {0}: become root, or a member of the socket's group")]
    Denied(PathBuf),
    #[error("cannot connect to {0}: {1}")]
    Connect(PathBuf, io::Error),
    #[error("the daemon has no place for another connection: end a subscriber")]
    Full,
    #[error("the daemon closed this connection to make room for another: repeat the command")]
    MadeRoom,
    #[error("what listens there is no flowgate daemon: name the daemon's socket with --socket")]
    NotFlowgate,
    #[error(
        "the daemon (version {version}) speaks version {theirs} of the protocol and this command version {ours}: use the command of the daemon's version"
    )]
    OtherProtocol { version: String, theirs: u16, ours: u16 },
    #[error("the daemon did not answer within {} s: look at its log", PATIENCE.as_secs())]
    NoAnswer,
    #[error("the daemon closed the connection: look at its log")]
    Closed,
    /// A change was asked for, and what became of it was not told.
    #[error("{0}; the change may still be made: see flowgate history before you repeat it")]
    MayBeMade(Box<CliError>),
    #[error("the connection to the daemon broke: {0}")]
    Broken(io::Error),
    #[error("the daemon's answer cannot be understood ({0}): use the command of the daemon's version")]
    Unreadable(String),
    #[error("{}", sentence(.0))]
    Refused(RpcError),
    /// What a wait was for did not come to be.
    #[error("gave up after {after}: {said}")]
    GaveUp { after: String, said: String },
    /// A target that was waited for to be gone was registered again.
    #[error("{0} drains no longer: it was registered again")]
    CameBack(Ipv4Addr),
    /// It was asked whether to go on.
    #[error("it was not done, as it was not wanted")]
    Declined,
    /// `diff` found something; that was printed.
    #[error("there are differences")]
    Differs,
    /// `audit` or `doctor` found something to be warned of; that was printed.
    #[error("there are warnings")]
    FoundWarnings,
    /// `audit` found something critical, or `doctor` a problem; that was printed.
    #[error("something critical was found")]
    FoundCritical,
    /// What the live view needs is not there.
    #[error("{0}: use --once for one frame of it as text")]
    NoTerminal(&'static str),
    /// Words of the command line that only the daemon's answer shows to be wrong.
    #[error("{0}")]
    Misnamed(String),
    #[error("--query cannot be applied to the result: {0}")]
    Query(String),
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    #[error("cannot write to {}: {error}; the {packets} packets ({bytes} bytes) there are whole", .path.display())]
    Capture { path: PathBuf, error: io::Error, packets: u64, bytes: u64 },
    /// A second signal, before the daemon had answered the first.
    #[error("interrupted before the daemon ended the capture")]
    Interrupted,
    #[error("cannot record the host in {}: {error}", .path.display())]
    Record { path: PathBuf, error: io::Error },
    #[error("cannot write man pages to {0}: {1}")]
    Pages(PathBuf, io::Error),
    /// Whoever read our output has gone; there is nobody to tell.
    #[error("the reader has gone")]
    ReaderGone,
}

impl CliError {
    /// Whether all has been said that there is to say.
    pub(super) fn is_silent(&self) -> bool {
        matches!(
            self,
            CliError::ReaderGone | CliError::Differs | CliError::FoundWarnings | CliError::FoundCritical
        )
    }

    /// The exit code, as `--help` and docs/command-line.md have them.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            CliError::ReaderGone => 0,
            CliError::Refused(_)
            | CliError::CameBack(_)
            | CliError::Misnamed(_)
            | CliError::NoTerminal(_)
            | CliError::Query(_)
            | CliError::Unreadable(_)
            | CliError::Output(_)
            | CliError::Capture { .. }
            | CliError::Interrupted
            | CliError::Record { .. }
            | CliError::Pages(..) => 1,
            CliError::NoSocket(_)
            | CliError::NobodyThere(_)
            | CliError::Denied(_)
            | CliError::Connect(..)
            | CliError::Full
            | CliError::MadeRoom
            | CliError::NotFlowgate
            | CliError::OtherProtocol { .. }
            | CliError::NoAnswer
            | CliError::Closed
            | CliError::Broken(_) => 3,
            CliError::GaveUp { .. } => 4,
            CliError::Declined => 5,
            CliError::Differs => 6,
            CliError::FoundWarnings => 7,
            CliError::FoundCritical => 8,
            CliError::MayBeMade(_) => 9,
        }
    }
}

/// A refusal in one sentence.
fn sentence(error: &RpcError) -> String {
    let mut text = format!("{} ({}", error.message, error.data.kind);
    if let Some(path) = &error.data.path {
        text.push_str(&format!(" at {path}"));
    }
    text.push(')');
    if let Some(hint) = &error.data.hint {
        text.push_str(&format!("; {hint}"));
    }
    text
}

/// A connection to the daemon.
pub(super) struct Client {
    path: PathBuf,
    version: String,
    reader: BufReader<UnixStream>,
    last_id: u64,
}

/// Anything that the daemon sends.
#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<RpcError>,
}

/// What a subscriber is sent.
#[derive(Debug, PartialEq)]
pub(super) enum Notice {
    /// Something happened.
    Event(Event),
    /// So many events were dropped.
    Lost(u64),
}

/// What who captures is sent.
#[derive(Debug, PartialEq)]
pub(super) enum CaptureNotice {
    /// Blocks of the file, and how much there is then.
    Captured {
        /// Whole blocks.
        bytes: Vec<u8>,
        /// How much there is with them.
        totals: CaptureTotals,
    },
    /// There will be no more.
    Ended(CaptureEnded),
    /// It was not the daemon, but a signal.
    Interrupted,
}

impl Client {
    /// Connects to the daemon at `path` and makes sure that it is one.
    pub(super) fn connect(path: &Path) -> Result<Self, CliError> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CliError::NoSocket(path.to_owned()),
            io::ErrorKind::ConnectionRefused => CliError::NobodyThere(path.to_owned()),
            io::ErrorKind::PermissionDenied => CliError::Denied(path.to_owned()),
            _ => CliError::Connect(path.to_owned(), error),
        })?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(CliError::Broken)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(CliError::Broken)?;
        let mut client = Client {
            path: path.to_owned(),
            version: String::new(),
            reader: BufReader::new(stream),
            last_id: 0,
        };
        let first = client.read_line()?;
        let greeting: Message = serde_json::from_str(&first).map_err(|_| CliError::NotFlowgate)?;
        match greeting.method.as_deref() {
            Some("closing") => return Err(closing(greeting.params)),
            Some("hello") => {}
            _ => return Err(CliError::NotFlowgate),
        }
        let hello: Hello = serde_json::from_value(greeting.params).map_err(|_| CliError::NotFlowgate)?;
        if hello.product != PRODUCT {
            return Err(CliError::NotFlowgate);
        }
        if hello.protocol.major != API_MAJOR {
            let theirs = hello.protocol.major;
            return Err(CliError::OtherProtocol { version: hello.version, theirs, ours: API_MAJOR });
        }
        client.version = hello.version;
        Ok(client)
    }

    /// The socket that it is connected to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon's version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The daemon's process, as far as the kernel tells: not where it is in another namespace of processes.
    pub(super) fn process(&self) -> Option<u32> {
        let credentials = getsockopt(self.reader.get_ref(), sockopt::PeerCredentials).ok()?;
        u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0)
    }

    /// Calls `method` and waits for its result.
    pub(super) fn call(&mut self, method: &str, params: &impl Serialize) -> Result<Value, CliError> {
        self.last_id += 1;
        let params = serde_json::to_value(params).map_err(|error| CliError::Unreadable(error.to_string()))?;
        let is_change = is_change(method) && params["DryRun"] != true;
        let mut request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method});
        if !params.is_null() {
            request["params"] = params;
        }
        let line = format!("{request}\n");
        self.reader.get_mut().write_all(line.as_bytes()).map_err(broken)?;
        let untold = |error: CliError| if is_change { CliError::MayBeMade(error.into()) } else { error };
        loop {
            let message = self.read().map_err(untold)?;
            if message.method.as_deref() == Some("closing") {
                return Err(untold(closing(message.params)));
            }
            if let Some(error) = message.error {
                return Err(CliError::Refused(error));
            }
            if message.id == Some(self.last_id.into()) {
                return Ok(message.result);
            }
        }
    }

    /// Waits for the next thing that a subscriber is told, however long that takes. A notification of a kind that
    /// this command does not know is passed over.
    pub(super) fn next_notice(&mut self) -> Result<Notice, CliError> {
        self.reader.get_mut().set_read_timeout(None).map_err(CliError::Broken)?;
        loop {
            let message = self.read()?;
            match message.method.as_deref() {
                Some("event") => return typed(message.params).map(Notice::Event),
                Some("lost") => return typed(message.params).map(|Lost { count }| Notice::Lost(count)),
                Some("closing") => return Err(closing(message.params)),
                _ => {}
            }
        }
    }

    /// Calls a method without parameters whose answer comes among notices.
    pub(super) fn send(&mut self, method: &str) -> Result<(), CliError> {
        self.last_id += 1;
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": self.last_id, "method": method}));
        self.reader.get_mut().write_all(line.as_bytes()).map_err(broken)
    }

    /// Waits for what comes next of a capture, or a signal: as long as it takes, unless it is `stopping`.
    pub(super) fn next_of_capture(
        &mut self,
        interrupts: &Interrupts,
        stopping: bool,
    ) -> Result<CaptureNotice, CliError> {
        loop {
            if !self.reader.buffer().contains(&b'\n') {
                let patience = stopping.then_some(PATIENCE);
                let ready =
                    interrupts.wait(self.reader.get_ref().as_fd(), patience).map_err(CliError::Broken)?;
                match ready {
                    Ready::Said => {}
                    Ready::Interrupted => return Ok(CaptureNotice::Interrupted),
                    Ready::TimedOut => return Err(CliError::NoAnswer),
                }
            }
            let message = self.read()?;
            match message.method.as_deref() {
                Some("captured") => {
                    let CapturedChunk { data, totals } = typed(message.params)?;
                    let bytes = base64::decode(&data);
                    let bytes = bytes.ok_or_else(|| CliError::Unreadable("no base64".to_owned()))?;
                    return Ok(CaptureNotice::Captured { bytes, totals });
                }
                Some("capture-ended") => return typed(message.params).map(CaptureNotice::Ended),
                Some("closing") => return Err(closing(message.params)),
                _ => {}
            }
        }
    }

    fn read(&mut self) -> Result<Message, CliError> {
        let line = self.read_line()?;
        serde_json::from_str(&line).map_err(|error| CliError::Unreadable(error.to_string()))
    }

    fn read_line(&mut self) -> Result<String, CliError> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => Ok(line),
            Ok(_) => Err(CliError::Closed),
            Err(error) => Err(broken(error)),
        }
    }
}

/// Whether a method changes the configuration.
fn is_change(method: &str) -> bool {
    methods::dispatcher().methods().any(|one| one.is_change && one.name == method)
}

/// A result as its type.
pub(super) fn typed<R: DeserializeOwned>(result: Value) -> Result<R, CliError> {
    serde_json::from_value(result).map_err(|error| CliError::Unreadable(error.to_string()))
}

fn broken(error: io::Error) -> CliError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => CliError::NoAnswer,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => CliError::Closed,
        io::ErrorKind::InvalidData => CliError::NotFlowgate,
        _ => CliError::Broken(error),
    }
}

fn closing(params: Value) -> CliError {
    match serde_json::from_value(params) {
        Ok(Closing { reason: CloseReason::Full }) => CliError::Full,
        Ok(Closing { reason: CloseReason::Idle }) => CliError::MadeRoom,
        Err(_) => CliError::Closed,
    }
}
