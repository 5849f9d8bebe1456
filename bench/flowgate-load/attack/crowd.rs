//! Slow and greedy clients of a control side: some say nothing, some drip a byte now and then, some ask for large answers
//! and never read, some talk nonsense. Whoever is thrown out comes again.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Kind;
use super::counted::Gateway;
use crate::devices::Refusal;

/// How many there are at a time: four times as many as have a place.
const CLIENTS: usize = 256;
/// How often each does something.
const PACE: Duration = Duration::from_millis(20);
/// How often somebody honest asks something meanwhile.
const HONEST_PACE: Duration = Duration::from_millis(50);
/// How long that may take, with asking again.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a gateway's control side is.
#[derive(Clone, Debug)]
pub struct Doors {
    pub socket: PathBuf,
    pub elbv2: SocketAddr,
    pub monitor: SocketAddr,
}

/// What a crowd did, and how long honest requests took meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Connections that were made.
    pub connections: u64,
    /// Of these, those that the gateway ended.
    pub ended: u64,
    /// How long honest requests took, sorted.
    pub honest: Vec<Duration>,
    /// Honest requests that had no answer.
    pub unanswered: u64,
}

impl Deeds {
    pub fn add(&mut self, other: Deeds) {
        self.connections += other.connections;
        self.ended += other.ended;
        self.unanswered += other.unanswered;
        self.honest.extend(other.honest);
        self.honest.sort_unstable();
    }
}

/// A crowd that is at it.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    bad: JoinHandle<Deeds>,
    honest: JoinHandle<Deeds>,
}

impl Crowd {
    pub fn start(kind: Kind, doors: &Doors) -> Result<Crowd, Refusal> {
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |name: &str, work: fn(Kind, &Doors, &AtomicBool) -> Deeds| {
            let (doors, stop) = (doors.clone(), Arc::clone(&stop));
            std::thread::Builder::new().name(name.to_owned()).spawn(move || work(kind, &doors, &stop))
        };
        let (bad, honest) = (spawn("crowd", misbehave)?, spawn("honest", behave)?);
        Ok(Crowd { stop, bad, honest })
    }

    pub fn end(self) -> Result<Deeds, Refusal> {
        self.stop.store(true, Ordering::Relaxed);
        let mut deeds = self.bad.join().map_err(|_| "the crowd ended by a panic")?;
        deeds.add(self.honest.join().map_err(|_| "the honest client ended by a panic")?);
        Ok(deeds)
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn connect(kind: Kind, doors: &Doors, blocks: bool) -> std::io::Result<Box<dyn Stream>> {
    let patience = blocks.then_some(PATIENCE);
    let address = match kind {
        Kind::SlowElbv2 => doors.elbv2,
        Kind::SlowMonitor => doors.monitor,
        _ => {
            let stream = UnixStream::connect(&doors.socket)?;
            stream.set_nonblocking(!blocks)?;
            stream.set_read_timeout(patience)?;
            return Ok(Box::new(stream));
        }
    };
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nonblocking(!blocks)?;
    stream.set_read_timeout(patience)?;
    Ok(Box::new(stream))
}

/// How a client behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Silent,
    Dripping,
    Deaf,
    Raving,
}

const MANNERS: [Manner; 4] = [Manner::Silent, Manner::Dripping, Manner::Deaf, Manner::Raving];

/// What a client of each manner says first, and what it goes on with.
fn words(kind: Kind, manner: Manner) -> [Vec<u8>; 2] {
    let form = "Action=DescribeTargetHealth&Version=2015-12-01&TargetGroupArn=load";
    let post = |body: &str, len: usize| {
        format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {len}\r\n\r\n{body}"
        )
        .into_bytes()
    };
    let get = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_vec();
    match (manner, kind) {
        (Manner::Silent, _) => [Vec::new(), Vec::new()],
        (Manner::Dripping, Kind::SlowElbv2) => [post("Action=", 100_000), b"x".to_vec()],
        (Manner::Dripping, Kind::SlowMonitor) => [b"GET /metrics HTTP/1.1\r\nX: ".to_vec(), b"x".to_vec()],
        (Manner::Dripping, _) => [b"{\"jsonrpc\":\"2.0\",\"id\":1,".to_vec(), b" ".to_vec()],
        (Manner::Deaf, Kind::SlowElbv2) => [post(form, form.len()).repeat(20), post(form, form.len())],
        (Manner::Deaf, Kind::SlowMonitor) => [get.repeat(20), get],
        (Manner::Deaf, _) => {
            let request = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#;
            let batch = format!("[{}]\n", vec![request; 50].join(","));
            [batch.clone().into_bytes(), batch.into_bytes()]
        }
        (Manner::Raving, _) => [b"\x16\x03\x01[[[[{\"a\":\r\n\xff\xfe".repeat(200), vec![b'['; 4096]],
    }
}

fn misbehave(kind: Kind, doors: &Doors, stop: &AtomicBool) -> Deeds {
    let mut deeds = Deeds::default();
    let mut clients: Vec<Option<Box<dyn Stream>>> = (0..CLIENTS).map(|_| None).collect();
    let words = MANNERS.map(|manner| words(kind, manner));
    while !stop.load(Ordering::Relaxed) {
        for (number, client) in clients.iter_mut().enumerate() {
            let manner = number % MANNERS.len();
            let is_gone = match client {
                None => {
                    *client = connect(kind, doors, false).ok();
                    deeds.connections += u64::from(client.is_some());
                    client.as_mut().is_some_and(|stream| is_refused(stream.write(&words[manner][0])))
                }
                Some(stream) => {
                    let more = &words[manner][1];
                    let said = !more.is_empty() && is_refused(stream.write(more));
                    // The deaf never read.
                    let mut heard = || match stream.read(&mut [0; 4096]) {
                        Ok(0) => true,
                        Ok(_) => false,
                        Err(error) => error.kind() != ErrorKind::WouldBlock,
                    };
                    said || MANNERS[manner] != Manner::Deaf && heard()
                }
            };
            if is_gone {
                *client = None;
                deeds.ended += 1;
            }
        }
        std::thread::sleep(PACE);
    }
    deeds
}

fn is_refused(written: std::io::Result<usize>) -> bool {
    written.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
}

/// Somebody who asks what any operator asks, each time on a connection of its own.
fn behave(kind: Kind, doors: &Doors, stop: &AtomicBool) -> Deeds {
    let mut deeds = Deeds::default();
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        // Whom a crowd pushed out before it was heard asks again, as people do.
        while !once(kind, doors) && begun.elapsed() < PATIENCE {}
        let answered = begun.elapsed() < PATIENCE;
        if answered {
            deeds.honest.push(begun.elapsed());
        } else {
            deeds.unanswered += 1;
        }
        std::thread::sleep(HONEST_PACE);
    }
    deeds.honest.sort_unstable();
    deeds
}

/// Asks once; whether there was an answer.
fn once(kind: Kind, doors: &Doors) -> bool {
    match kind {
        Kind::SlowElbv2 => {
            let body = "Action=DescribeLoadBalancers&Version=2015-12-01";
            let head = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n", body.len());
            let kind_of_body = "Content-Type: application/x-www-form-urlencoded\r\n";
            ask(kind, doors, &format!("{head}{kind_of_body}Connection: close\r\n\r\n{body}"))
        }
        Kind::SlowMonitor => {
            ask(kind, doors, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        }
        _ => Gateway { socket: doors.socket.clone() }.call("describe-load-balancers", &json!({})).is_ok(),
    }
}

/// Whether a request has an answer that says 200.
fn ask(kind: Kind, doors: &Doors, request: &str) -> bool {
    let answer = || -> std::io::Result<Vec<u8>> {
        let mut stream = connect(kind, doors, true)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    answer().is_ok_and(|answer| answer.starts_with(b"HTTP/1.1 200"))
}
