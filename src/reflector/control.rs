//! The control socket: a line of JSON in, a line of JSON out.
//!
//! ```text
//! {"drop":true}                      {"behaviour":{"drop":true,…},"health":"answer"}
//! {"health":{"code":503}}            {"behaviour":{…},"health":{"code":503}}
//! {"counters":{}}                    {"behaviour":{…},"health":"answer","counters":{"received":…}}
//! {"dorp":true}                      {"error":"unknown field `dorp`, expected …"}
//! ```

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tracing::{info, warn};

use super::behaviour::{Behaviour, Change, Health};
use super::counters::Snapshot;
use super::{ReflectorError, Shared};

/// The longest line that is read.
const MAX_LINE: u64 = 64 << 10;

/// The socket, and its file as long as it lives.
pub(super) struct Server {
    listener: UnixListener,
    path: PathBuf,
    state: Arc<State>,
}

struct State {
    shared: Arc<Shared>,
    health: watch::Sender<Health>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Done {
        behaviour: Behaviour,
        health: Health,
        #[serde(skip_serializing_if = "Option::is_none")]
        counters: Option<Snapshot>,
    },
    Refused {
        error: String,
    },
}

impl Server {
    pub(super) fn bind(
        path: &Path,
        shared: Arc<Shared>,
        health: watch::Sender<Health>,
    ) -> Result<Server, ReflectorError> {
        let control = |error| ReflectorError::Control { path: path.to_owned(), error };
        remove_if_abandoned(path).map_err(control)?;
        let listener = UnixListener::bind(path).map_err(control)?;
        let server = Server { listener, path: path.to_owned(), state: Arc::new(State { shared, health }) };
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o660)).map_err(control)?;
        Ok(server)
    }

    pub(super) async fn run(self) -> Infallible {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let state = Arc::clone(&self.state);
                    tokio::spawn(async move {
                        // Whoever went away does not want the answer.
                        converse(stream, &state).await.ok();
                    });
                }
                Err(error) => {
                    warn!(%error, "a control connection was not accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is gone already: so much the better.
        std::fs::remove_file(&self.path).ok();
    }
}

/// Removes the socket of a reflector that is not there any more; one that is there keeps it, and binding
/// fails.
fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Answers lines until the other side closes, or writes one that is too long.
async fn converse(stream: UnixStream, state: &State) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let len = (&mut stream).take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if len == 0 {
            return Ok(());
        }
        let too_long = len as u64 == MAX_LINE && line.last() != Some(&b'\n');
        let answer = if too_long {
            Answer::Refused { error: format!("a line of more than {MAX_LINE} bytes") }
        } else {
            state.carry_out(&line)
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        stream.write_all(&text).await?;
        if too_long {
            return Ok(());
        }
    }
}

impl State {
    fn carry_out(&self, line: &[u8]) -> Answer {
        let change = match str::from_utf8(line).map_err(|error| error.to_string()).and_then(Change::parse) {
            Ok(change) => change,
            Err(error) => return Answer::Refused { error },
        };
        let behaviour = {
            let mut behaviour = self.shared.behaviour();
            *behaviour = change.apply(*behaviour);
            *behaviour
        };
        if let Some(health) = change.health() {
            self.health.send_replace(health);
        }
        if !change.asks_for_counters() {
            info!(line = %String::from_utf8_lossy(line).trim_end(), "told");
        }
        let counters = change.asks_for_counters().then(|| self.shared.counters.snapshot());
        Answer::Done { behaviour, health: *self.health.borrow(), counters }
    }
}
