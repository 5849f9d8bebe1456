//! Many connections, silent ones, slow ones: bounded, and never a lock-out.

use crate::client::Client;
use crate::fake::Daemon;
use flowgate::control::socket::Limits;
use serde_json::json;
use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_newcomer_takes_the_place_of_the_connection_that_was_silent_longest() {
    let daemon = Daemon::start_with(Limits { connections: 3, subscribers: 1 });
    let mut first = Client::connect(&daemon.path());
    let mut second = Client::connect(&daemon.path());
    let mut third = Client::connect(&daemon.path());
    // The first connected first, but spoke last.
    std::thread::sleep(Duration::from_millis(5));
    first.call("describe-workers", json!({})).unwrap();
    let mut fourth = Client::connect(&daemon.path());
    fourth.call("describe-workers", json!({})).unwrap();
    assert_eq!(second.read(), json!({"jsonrpc": "2.0", "method": "closing", "params": {"Reason": "idle"}}));
    assert!(second.ends());
    for client in [&mut first, &mut third, &mut fourth] {
        client.call("describe-workers", json!({})).unwrap();
    }
}

#[test]
fn a_thousand_idle_and_half_written_connections_keep_nobody_out() {
    let daemon = Daemon::start();
    let mut idle = Vec::new();
    for number in 0..1000 {
        let client = Client::connect_rudely(&daemon.path());
        if number % 2 == 0 {
            // A slow-loris: the line never ends. It may have been shown out already.
            use std::io::Write;
            client.stream().write_all(b"{\"jsonrpc\"").ok();
        }
        idle.push(client);
    }
    let mut client = Client::connect(&daemon.path());
    client.call("describe-workers", json!({})).unwrap();
    // Room for 64: the others were told, and closed.
    let open = idle.iter_mut().map(gone).filter(|gone| !gone).count();
    assert!(open <= 63, "{open} idle connections are open");
}

/// Whether the daemon has closed its side.
fn gone(client: &mut Client) -> bool {
    use std::io::{ErrorKind, Read};
    client.stream().set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match client.stream().read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn subscribers_are_bounded_and_never_shown_out() {
    let daemon = Daemon::start_with(Limits { connections: 2, subscribers: 1 });
    let mut subscriber = Client::connect(&daemon.path());
    subscriber.call("subscribe", json!({})).unwrap();
    // Again, on the same connection: it is still one subscriber.
    subscriber.call("subscribe", json!({"Events": ["config"]})).unwrap();
    let mut second = Client::connect(&daemon.path());
    let error = second.call("subscribe", json!({})).unwrap_err();
    assert_eq!(error["data"]["kind"], "TooManySubscribers");
    // The newcomer takes the second's place, silent or not, and not the silent subscriber's.
    let mut third = Client::connect(&daemon.path());
    assert!(second.ends());
    third.call("register-targets", json!({"TargetGroupArn": "fw", "Targets": [{"Id": "10.0.0.9"}]})).unwrap();
    assert_eq!(subscriber.read()["params"]["Event"], "ConfigChanged");
    // Once it has gone another may subscribe.
    drop(subscriber);
    let subscribed = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        third.call("subscribe", json!({})).is_ok()
    });
    assert!(subscribed, "the place of a subscriber that left is not given to another");
}

#[test]
fn a_client_that_asks_and_never_reads_holds_up_nobody() {
    let daemon = Daemon::start();
    let rude = Client::connect_rudely(&daemon.path());
    rude.stream().set_nonblocking(true).unwrap();
    // Ask for large answers until the socket takes no more.
    let line = format!(
        "{}\n",
        json!({"jsonrpc": "2.0", "id": 1, "method": "describe-flows", "params": {"Limit": 10000}})
    );
    let mut sent = 0;
    let mut stuck = 0;
    while stuck < 20 {
        use std::io::Write;
        match rude.stream().write(line.as_bytes()) {
            Ok(bytes) => (sent, stuck) = (sent + bytes, 0),
            Err(_) => {
                stuck += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        assert!(sent < 16 << 20, "the daemon reads on though its answers are not taken");
    }
    let mut client = Client::connect(&daemon.path());
    client.call("describe-flows", json!({})).unwrap();
}

#[test]
fn a_client_that_leaves_in_the_middle_is_forgotten() {
    let daemon = Daemon::start_with(Limits { connections: 2, subscribers: 1 });
    for _ in 0..50 {
        let mut client = Client::connect_rudely(&daemon.path());
        client.send(b"{\"jsonrpc\":\"2.0\",");
        client.stream().shutdown(Shutdown::Write).unwrap();
        assert!(client.ends());
    }
    Client::connect(&daemon.path()).call("describe-workers", json!({})).unwrap();
}

#[test]
fn the_socket_goes_with_the_server() {
    let mut daemon = Daemon::start();
    let mut client = Client::connect(&daemon.path());
    daemon.stop();
    assert!(client.ends());
    assert_eq!(std::fs::read_dir(daemon.folder()).unwrap().count(), 0);
}

#[test]
fn whoever_has_just_connected_has_time_to_ask() {
    let daemon = Daemon::start_with(Limits { connections: 16, subscribers: 1 });
    let stop = Arc::new(AtomicBool::new(false));
    let crowd: Vec<_> = (0..3)
        .map(|_| {
            let (path, stop) = (daemon.path(), Arc::clone(&stop));
            std::thread::spawn(move || {
                // Each keeps a hundred, and is always about to connect once more.
                let mut held = VecDeque::new();
                while !stop.load(Ordering::Relaxed) {
                    held.push_back(UnixStream::connect(&path));
                    if held.len() > 100 {
                        held.pop_front();
                    }
                }
            })
        })
        .collect();
    let outcomes: Vec<_> = (0..5)
        .map(|_| {
            let mut client = Client::connect(&daemon.path());
            // As long as it may take until an operator's command has its turn on a busy machine.
            std::thread::sleep(Duration::from_millis(30));
            std::panic::catch_unwind(AssertUnwindSafe(|| client.call("describe-ports", json!({})).is_ok()))
        })
        .collect();
    stop.store(true, Ordering::Relaxed);
    crowd.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(true))), "{outcomes:?}");
}
