//! The daemon is stopped or killed under traffic and started again: no flow is lost, and each is where it was.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::lab::capture::Capture;
use crate::lab::gateway::Attributes;
use crate::lab::traffic::{Connection, PATIENCE};
use crate::lab::{ETH, Family, Lab, PAUSE, Side, wait_for};

/// Connections that say nothing while the gateway is away.
const IDLE: usize = 12;

/// What the gap without forwarding may be on a machine that does many things at once. Measured are some 200 ms, see
/// docs/restart.md.
const BOUND: Duration = Duration::from_secs(10);

/// How the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Stopped,
    Killed,
}

/// Datagrams from the client to the server, one a millisecond, each with the time at which the server's kernel had it.
struct Stream {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<()>,
    heard: Capture,
    _server: UdpSocket,
}

impl Stream {
    fn start(lab: &Lab) -> Stream {
        let server =
            lab.server.run(|| UdpSocket::bind((Family::V4.server(), 0))).expect("the server can bind");
        let client =
            lab.client.run(|| UdpSocket::bind((Family::V4.client(), 0))).expect("the client can bind");
        client.connect(server.local_addr().expect("it is bound")).expect("there is a route");
        let port = server.local_addr().expect("it is bound").port();
        let heard = Capture::start(&lab.server, ETH, &format!("udp dst port {port}"));
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let sender = thread::spawn(move || {
            while !stops.load(Ordering::Relaxed) {
                // A full queue is no matter.
                client.send(b"tick").ok();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Stream { stop, sender, heard, _server: server }
    }

    /// The longest time in which nothing was heard.
    fn longest_gap(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join().expect("it sends");
        let heard = self.heard.frames();
        assert!(heard.len() > 100, "{} datagrams were heard", heard.len());
        heard.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at)).max().expect("more than one")
    }
}

/// A connection that is never silent: what the client sends comes back, word by word.
fn talk(mut connection: Connection, stop: Arc<AtomicBool>) -> JoinHandle<(u64, Connection)> {
    thread::spawn(move || {
        let mut words = 0_u64;
        // TCP waits longer each time that nothing is heard, up to twice the gap.
        for end in [&connection.client, &connection.server] {
            end.set_read_timeout(Some(4 * PATIENCE)).expect("not zero");
        }
        while !stop.load(Ordering::Relaxed) {
            let word = words.to_be_bytes();
            let mut heard = [0; 8];
            connection.client.write_all(&word).expect("the client can send");
            connection.server.read_exact(&mut heard).expect("the server hears it");
            connection.server.write_all(&heard).expect("the server can send");
            connection.client.read_exact(&mut heard).expect("the client hears it");
            assert_eq!(heard, word);
            words += 1;
        }
        (words, connection)
    })
}

/// What the gateway says of the tables that it has found.
fn tables_of(lab: &Lab) -> Value {
    lab.gateway().rpc.must("describe-workers", json!({}))["FlowTables"].clone()
}

/// Whether the switch of the kernel's is on that is turned on while ports are opened and closed.
fn are_expedited() -> bool {
    std::fs::read_to_string("/sys/kernel/rcu_expedited").is_ok_and(|value| value.trim() != "0")
}

/// The packet sockets in the gateway's network namespace.
fn packet_sockets(lab: &Lab) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{}/net/packet", lab.gateway().id()));
    table.expect("packet sockets are listed").lines().count() - 1
}

fn restarted(workers: usize, end: End) {
    let mut lab = Lab::new(3);
    lab.keep_tables(workers);
    lab.start_all(Attributes::default());
    let first = tables_of(&lab);
    assert_eq!((&first["Outcome"], &first["Kept"]), (&json!("first"), &json!(true)), "{first}");

    let mut idle: Vec<Connection> =
        (0..IDLE).map(|n| lab.connect(if n % 2 == 0 { Family::V4 } else { Family::V6 })).collect();
    idle.iter_mut().for_each(Connection::must_work);
    let busy = lab.connect(Family::V4);
    let (stream, stop) = (Stream::start(&lab), Arc::new(AtomicBool::new(false)));
    let busy_address = (busy.address(Side::Client), busy.address(Side::Server));
    let busy = talk(busy, Arc::clone(&stop));
    thread::sleep(Duration::from_millis(200));
    let known = |lab: &Lab| -> Vec<(String, _, _)> {
        let mut flows: Vec<_> = lab
            .flows()
            .into_iter()
            .filter(|flow| flow.protocol == "tcp")
            .map(|flow| (flow.cookie, flow.target, flow.initiator))
            .collect();
        flows.sort();
        flows
    };
    let before = known(&lab);
    assert_eq!(before.len(), IDLE + 1);
    let sockets = packet_sockets(&lab);
    assert!(sockets >= 3 * workers, "{sockets}");

    let began = Instant::now();
    match end {
        End::Stopped => lab.stop_gateway(),
        End::Killed => lab.kill_gateway(),
    }
    let ended = began.elapsed();
    lab.start_gateway();
    let serves = began.elapsed();
    // Other daemons of the tests turn it on, too, for as long.
    wait_for("the kernel's grace periods to be as ever", PATIENCE, || (!are_expedited()).then_some(()));
    // The end of a process waits for none of its packet sockets, and none is left.
    wait_for("the sockets of the daemon before to be gone", PATIENCE, || {
        (packet_sockets(&lab) == sockets).then_some(())
    });
    // F-5, F-11: the same flows, each on its target and under its cookie.
    assert_eq!(known(&lab), before);
    // H-9
    for n in 0..3 {
        assert_eq!(lab.state_of(n).map(|(state, _)| state).as_deref(), Some("healthy"));
    }
    idle.iter_mut().for_each(Connection::must_work);
    // So that datagrams after the gap have been seen.
    thread::sleep(PAUSE);
    stop.store(true, Ordering::Relaxed);
    let (words, mut busy) = busy.join().expect("the busy connection is alive");
    busy.must_work();
    assert_eq!((busy.address(Side::Client), busy.address(Side::Server)), busy_address);
    assert_eq!(known(&lab), before);
    let gap = stream.longest_gap();

    let tables = wait_for("the gap to be told", PATIENCE, || {
        let tables = tables_of(&lab);
        tables["GapMilliseconds"].is_u64().then_some(tables)
    });
    let told = Duration::from_millis(tables["GapMilliseconds"].as_u64().expect("a number"));
    println!(
        "{workers} workers, {end:?}: {gap:?} without a datagram, {told:?} told; ended after {ended:?}, serves after \
         {serves:?}; taken over in {} ms; {words} words",
        tables["TookMilliseconds"]
    );
    assert_eq!(tables["Outcome"], "taken_over", "{tables}");
    // A kill may come while a worker writes an entry; these are of other flows than those that are looked at.
    let torn_at_most = if end == End::Killed { workers as u64 } else { 0 };
    assert!(tables["Torn"].as_u64() <= Some(torn_at_most), "{tables}");
    assert!(tables["Flows"].as_u64() >= Some(IDLE as u64 + 2), "{tables}");
    assert!(gap < BOUND, "{gap:?}");
    // The datagrams are of one worker, and the gap is over when all forward: another may wait for a CPU meanwhile.
    let later = if workers > 1 { PAUSE } else { Duration::from_millis(100) };
    assert!(told <= gap + later, "{told:?} told, {gap:?} seen");
    // What is new goes on as ever.
    lab.connect(Family::V4).must_work();
}

// F-5, F-9, F-11
#[test]
fn every_connection_lives_on_when_the_daemon_is_stopped_and_started() {
    for workers in [1, 2] {
        restarted(workers, End::Stopped);
    }
}

// F-5, F-9, F-11
#[test]
fn every_connection_lives_on_when_the_daemon_is_killed_and_started() {
    for workers in [1, 2] {
        restarted(workers, End::Killed);
    }
}

// F-8
#[test]
fn connections_that_a_start_cannot_take_over_are_adopted() {
    let mut lab = Lab::new(2);
    lab.keep_tables(1);
    lab.start_all(Attributes::default());
    let mut connections: Vec<Connection> = (0..4).map(|_| lab.connect(Family::V4)).collect();
    connections.iter_mut().for_each(Connection::must_work);
    let targets = |lab: &Lab| -> Vec<_> {
        let mut flows: Vec<_> = lab.flows().into_iter().map(|flow| (flow.initiator, flow.target)).collect();
        flows.sort_by_key(|(initiator, _)| initiator.to_string());
        flows
    };
    let before = targets(&lab);
    let folder = lab.tables.as_ref().expect("asked for").path().join("tables");
    wait_for("what is known of both targets to be handed on", PATIENCE, || {
        let node = std::fs::read(folder.join("node")).expect("it is there");
        (String::from_utf8_lossy(&node).matches(r#""healthy":true"#).count() >= 2).then_some(())
    });
    lab.kill_gateway();
    // Another version of the tables would be told so, too.
    let table = std::fs::File::options().write(true).open(folder.join("worker-0")).expect("it is there");
    std::os::unix::fs::FileExt::write_all_at(&table, &4_u32.to_le_bytes(), 8).expect("it is writable");
    lab.start_gateway();
    let tables = tables_of(&lab);
    assert_eq!(tables["Outcome"], json!("lost"), "{tables}");
    assert!((300..=350).contains(&tables["AdoptSeconds"].as_u64().expect("a number")), "{tables}");
    let why = tables["Message"].as_str().expect("a sentence");
    assert!(why.contains("a flow table is of layout 4"), "{why}");
    assert!(lab.gateway().process.printed().contains("a flow table is of layout 4"));
    // H-9: what is known of the targets is not lost with the flows, so that nobody is adopted before all are known to be healthy.
    for target in 0..2 {
        assert_eq!(lab.state_of(target).map(|(state, _)| state).as_deref(), Some("healthy"));
    }
    let overview = lab.gateway().rpc.must("get-overview", json!({}));
    let troubles = overview["Troubles"].as_array().expect("a list");
    assert!(troubles.iter().any(|trouble| trouble["Kind"] == "tables-lost"), "{overview}");
    connections.iter_mut().for_each(Connection::must_work);
    // By the same hash, and so by the same appliance.
    assert_eq!(targets(&lab), before);
    assert_eq!(lab.dropped("unknown_flow"), 0);

    // Once only: the tables that it has made are taken over.
    lab.kill_gateway();
    lab.start_gateway();
    assert_eq!(tables_of(&lab)["Outcome"], json!("taken_over"));
    connections.iter_mut().for_each(Connection::must_work);

    // And no longer than was said: a stranger is one again.
    lab.kill_gateway();
    std::fs::write(folder.join("node"), "of somebody else").expect("it is writable");
    lab.start_gateway();
    assert_eq!(tables_of(&lab)["Outcome"], json!("lost"));
    lab.advance_clock(Duration::from_secs(351));
    let connection = &mut connections[0];
    connection.client.write_all(b"who am I?").expect("the kernel takes it");
    wait_for("a packet of no flow to be dropped", PATIENCE, || {
        (lab.dropped("unknown_flow") > 0).then_some(())
    });
}
