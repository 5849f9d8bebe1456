//! Whatever anybody does at the control socket, packets go their way: a crowd of bad clients, and the data path's
//! counters meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::gateway::{Attributes, TARGET_GROUP};
use crate::lab::traffic::udp_pair;
use crate::lab::{Family, Lab};

/// Between two datagrams of the client's: 500 a second.
const PACE: Duration = Duration::from_millis(2);
/// For how long each kind of bad client is at it, at least.
const SPELL: Duration = Duration::from_secs(2);
/// More memory than this is never held for clients: 64 connections with a line and an answer each, and what
/// the allocator keeps.
const MEMORY: usize = 192 << 20;

/// A client's datagrams to the server, one after the other, until it is told to stop.
struct Stream {
    stop: Arc<AtomicBool>,
    sender: thread::JoinHandle<u64>,
    receiver: thread::JoinHandle<u64>,
}

impl Stream {
    fn start(lab: &Lab) -> Stream {
        let (client, server) = udp_pair(lab, Family::V4);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sender = thread::spawn(move || {
            let mut sent = 0_u64;
            let mut due = Instant::now();
            while !stopped.load(Ordering::Relaxed) {
                client.send(&sent.to_be_bytes()).expect("the kernel takes it");
                sent += 1;
                due += PACE;
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            sent
        });
        server.set_read_timeout(Some(Duration::from_secs(3))).expect("not zero");
        let receiver = thread::spawn(move || {
            let mut next = 0_u64;
            let mut word = [0; 8];
            // Until nothing has come for a while.
            while server.recv(&mut word).is_ok() {
                assert_eq!(u64::from_be_bytes(word), next, "datagrams come in their order, and all of them");
                next += 1;
            }
            next
        });
        Stream { stop, sender, receiver }
    }

    /// How many were sent, and how many came.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().expect("the sender ends");
        (sent, self.receiver.join().expect("the receiver ends"))
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).expect("the daemon listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("not zero");
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("not zero");
    stream
}

/// Writes what it can. A daemon that closes, or takes no more, is no fault of its own.
fn push(stream: &mut UnixStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}

/// What bad clients of one kind do to the socket at this path.
type Crowd = fn(&Path);

/// A thousand that connect and say nothing, or begin a line and go no further.
fn idle_and_slow(path: &Path) {
    let mut crowd = Vec::new();
    for number in 0..1000 {
        let mut stream = connect(path);
        if number % 2 == 0 {
            push(&mut stream, b"{\"jsonrpc\":\"2.0\",\"id\":1,");
        }
        crowd.push(stream);
    }
    // A byte now and then, from those that are still served.
    let until = Instant::now() + SPELL;
    while Instant::now() < until {
        for stream in crowd.iter_mut().rev().take(60) {
            push(stream, b" ");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Those that ask for large answers without end, in lines and in batches, and never read.
fn never_reading(path: &Path) {
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#;
    let batch = format!("[{}]\n", vec![request; 1000].join(","));
    let mut crowd: Vec<UnixStream> = (0..60)
        .map(|_| {
            let stream = connect(path);
            stream.set_nonblocking(true).expect("a socket has this option");
            stream
        })
        .collect();
    let until = Instant::now() + SPELL;
    while Instant::now() < until {
        for (number, stream) in crowd.iter_mut().enumerate() {
            let line = if number % 2 == 0 { batch.clone() } else { format!("{request}\n") };
            // As much as goes; half a line is as bad as any.
            push(stream, line.as_bytes());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Noise, lines without end, nesting, and batches of nonsense.
fn nonsense(path: &Path) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = |len: usize| -> Vec<u8> {
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_be_bytes()[0]
        };
        (0..len).map(|_| byte()).collect()
    };
    let nested = |open: &str| open.repeat(500_000);
    let until = Instant::now() + SPELL;
    let mut round = 0;
    while Instant::now() < until || round < 12 {
        let mut stream = connect(path);
        let line = match round % 6 {
            0 => noise(64 << 10),
            1 => vec![b'x'; 3 << 20],
            2 => nested("[").into_bytes(),
            3 => nested("{\"a\":").into_bytes(),
            4 => format!("[{}]", vec!["7"; 500_000].join(",")).into_bytes(),
            _ => format!("[{}]", vec!["[[{}],\"\\ud800\",1e999]"; 1000].join(",")).into_bytes(),
        };
        let whole = push(&mut stream, &line) && push(&mut stream, b"\n");
        // It is answered, or closed: never left to wait.
        if whole {
            let answered = stream.read(&mut [0; 1 << 16]);
            assert!(
                !matches!(&answered, Err(error) if error.kind() == ErrorKind::WouldBlock),
                "round {round}"
            );
        }
        round += 1;
    }
}

/// Those that come and go as fast as they can.
fn coming_and_going(path: &Path) {
    let until = Instant::now() + SPELL;
    while Instant::now() < until {
        for _ in 0..50 {
            // A full backlog is the kernel's to refuse.
            drop(UnixStream::connect(path));
        }
    }
}

/// The worker's counters that no client may move: what it dropped, and by which configuration it goes.
fn untouchable(lab: &Lab) -> Value {
    let rpc = &lab.gateway().rpc;
    let node = rpc.must("get-counters", json!({"Scope": "node"}));
    let workers = rpc.must("describe-workers", json!({}));
    let generations: Vec<&Value> =
        workers["Workers"].as_array().expect("a list").iter().map(|worker| &worker["Generation"]).collect();
    let flows = &node["Sets"][0]["Counters"]["EvictedFlowCount"];
    json!({"drops": node["Sets"][0]["Drops"], "generations": generations, "evicted": flows})
}

#[test]
fn no_crowd_at_the_control_socket_costs_a_packet_or_keeps_an_operator_out() {
    let lab = Lab::started(1, Attributes::default());
    let path: PathBuf = lab.path("flowgated.sock");
    let before = untouchable(&lab);
    let (memory, descriptors) = (lab.gateway().resident(), lab.gateway().descriptors());
    let events = lab.gateway().events.all().len();
    let stream = Stream::start(&lab);
    let crowds: [(&str, Crowd); 4] = [
        ("idle and slow", idle_and_slow),
        ("never reading", never_reading),
        ("nonsense", nonsense),
        ("coming and going", coming_and_going),
    ];
    for (name, crowd) in crowds {
        let path = path.clone();
        let crowd = thread::spawn(move || crowd(&path));
        while !crowd.is_finished() {
            // An operator is served meanwhile, each time on a connection of its own.
            let asked = Instant::now();
            let health =
                lab.gateway().rpc.must("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}));
            assert_eq!(health["TargetHealthDescriptions"][0]["TargetHealth"]["State"], "healthy", "{name}");
            assert!(asked.elapsed() < Duration::from_secs(5), "{name}: {:?}", asked.elapsed());
            let grown = lab.gateway().resident().saturating_sub(memory);
            assert!(grown < MEMORY, "{name}: {} MiB more", grown >> 20);
            let more = lab.gateway().descriptors().saturating_sub(descriptors);
            assert!(more <= 2 * 64, "{name}: {more} descriptors more");
            thread::sleep(Duration::from_millis(50));
        }
        crowd.join().unwrap_or_else(|_| panic!("{name}"));
        assert_eq!(untouchable(&lab), before, "{name}");
    }
    let (sent, came) = stream.end();
    assert!(sent > 1000, "{sent} were sent");
    assert_eq!(sent, came, "the crowd cost datagrams");
    // No target was taken for dead, and nobody changed anything.
    assert_eq!(lab.gateway().events.all().len(), events, "{:?}", lab.gateway().events.all());
    lab.all_counted_at_rest(); // C-1
}
