//! The control socket's other end: one JSON object a line, requests and answers in order. Kept apart
//! from the command line's client, which shares its types with the daemon.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::traffic::PATIENCE;
use super::wait_for;

/// Where requests go. Every request has a connection of its own.
#[derive(Clone)]
pub struct Rpc {
    socket: PathBuf,
}

impl Rpc {
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The result of a method, or its error object.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let mut stream = connect(&self.socket).expect("the daemon listens");
        let mut answer = request(&mut stream, method, params);
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(answer["error"].take()),
        }
    }

    /// The result of a method that must succeed.
    pub fn must(&self, method: &str, params: Value) -> Value {
        self.call(method, params.clone())
            .unwrap_or_else(|error| panic!("{method} {params} was refused: {error}"))
    }

    /// Asks for something that may be the end of whoever should answer: waits until the connection is closed, or is answered.
    #[allow(dead_code, reason = "the soak's alone")]
    pub fn send(&self, method: &str, params: Value) {
        let mut stream = connect(&self.socket).expect("the daemon listens");
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string() + "\n";
        stream.write_all(line.as_bytes()).expect("the daemon reads requests");
        // The first line says hello.
        let _either = BufReader::new(stream).lines().take(2).map_while(Result::ok).count();
    }

    /// Whether anybody answers.
    pub fn answers(&self) -> bool {
        connect(&self.socket).is_ok()
    }

    /// Collects the daemon's events from now on.
    pub fn subscribe(&self) -> Events {
        let mut stream = connect(&self.socket).expect("the daemon listens");
        let answer = request(&mut stream, "subscribe", json!({}));
        assert!(answer.get("result").is_some(), "subscribe was refused: {answer}");
        stream.set_read_timeout(None).expect("a socket has this option");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&seen);
        let reader = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
        thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                let mut event: Value = serde_json::from_str(&line).expect("the daemon sends JSON");
                assert_eq!(event["method"], "event", "a slow reader would lose events: {event}");
                writer.lock().expect("no reader panics").push(event["params"].take());
            }
        });
        Events { stream, seen }
    }
}

/// What the daemon has told a subscriber.
pub struct Events {
    stream: UnixStream,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Events {
    /// Every event so far, in order.
    pub fn all(&self) -> Vec<Value> {
        self.seen.lock().expect("no writer panics").clone()
    }

    /// The first event that fits, waited for.
    pub fn wait_for(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        wait_for(&format!("the event: {what}"), PATIENCE, || self.all().into_iter().find(|event| fits(event)))
    }

    /// The moment at which `target` was found to be in `state`, since the epoch.
    pub fn state_of(&self, target: Ipv4Addr, state: &str) -> Duration {
        let event = self.wait_for(&format!("{target} is {state}"), |event| {
            event["Event"] == "TargetHealthChanged"
                && event["Target"] == json!(target)
                && event["To"] == state
        });
        moment(&event)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // The daemon may be gone already: then the stream is closed.
        let _closed = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// When an event happened, since the epoch, to the millisecond below.
pub fn moment(event: &Value) -> Duration {
    Duration::from_millis(event["At"]["UnixMs"].as_u64().unwrap_or_else(|| panic!("no time in {event}")))
}

/// A flow as `describe-flows` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub initiator: SocketAddr,
    pub responder: SocketAddr,
    pub protocol: String,
    pub target: Ipv4Addr,
    pub state: String,
    pub cookie: String,
}

/// Reads one entry of `describe-flows`.
pub fn flow_of(entry: &Value) -> Flow {
    let word = |key: &str| entry[key].as_str().unwrap_or_else(|| panic!("no {key} in {entry}")).to_owned();
    let end = |address: &str, port: &str| {
        let address: IpAddr = word(address).parse().unwrap_or_else(|_| panic!("no address in {entry}"));
        // A protocol without ports has none here either.
        let port = entry[port].as_u64().map_or(0, |port| u16::try_from(port).expect("a port has 16 bits"));
        SocketAddr::new(address, port)
    };
    Flow {
        initiator: end("Source", "SourcePort"),
        responder: end("Destination", "DestinationPort"),
        protocol: word("Protocol"),
        target: word("Target").parse().expect("a target is an IPv4 address"),
        state: word("State"),
        cookie: word("Cookie"),
    }
}

fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends a request and reads its answer, byte for byte: what comes after it stays in the socket.
fn request(stream: &mut UnixStream, method: &str, params: Value) -> Value {
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string() + "\n";
    stream.write_all(line.as_bytes()).expect("the daemon reads requests");
    loop {
        let mut line = Vec::new();
        let mut byte = [0];
        while byte[0] != b'\n' {
            std::io::Read::read_exact(stream, &mut byte)
                .unwrap_or_else(|error| panic!("no answer to {method}: {error}"));
            line.push(byte[0]);
        }
        let answer: Value = serde_json::from_slice(&line).expect("the daemon sends JSON");
        if answer["id"] == 1 {
            assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
            return answer;
        }
    }
}
