//! Many at once, and those who never end: bounded, and nobody else notices.

use crate::client::Client;
use crate::served::{LIMITS, Served, get};
use flowgate::control::http::Limits;
use flowgate::control::monitor::metrics::HELD;
use std::time::{Duration, Instant};

/// Scrapers that never read.
const CROWD: usize = 20;

#[test]
fn a_thousand_connections_that_say_nothing_lock_nobody_out() {
    let served = Served::start_with("127.0.0.1:0", Limits { connections: 8, ..Limits::default() });
    let mut silent: Vec<Client> = (0..1000).map(|_| served.connect()).collect();
    assert_eq!(served.get("/readyz").status, 200);
    assert!(silent.iter_mut().take(900).all(Client::ends));
}

#[test]
fn a_request_that_comes_a_byte_at_a_time_ends_when_patience_does() {
    let served = Served::start_with("127.0.0.1:0", LIMITS);
    let mut slow = served.connect();
    let begun = Instant::now();
    let request = get("/readyz", &"X: y\r\n".repeat(100));
    for byte in request.bytes() {
        slow.send([byte]);
        assert_eq!(served.get("/readyz").status, 200);
        std::thread::sleep(Duration::from_millis(20));
        if begun.elapsed() > 2 * LIMITS.patience {
            break;
        }
    }
    assert_ne!(slow.answer().map(|answer| answer.status), Some(200));
}

#[test]
fn scrapers_that_never_read_give_way_to_those_who_do() {
    // Three megabytes an answer: more than any socket's buffers hold. Time alone ends nobody while the test lasts.
    let limits = Limits { silence: Duration::from_secs(600), ..Limits::default() };
    let served = Served::with_targets(1000, "127.0.0.1:0", limits);
    let mut deaf: Vec<Client> = (0..CROWD)
        .map(|_| {
            let mut client = served.connect();
            client.send(get("/metrics", ""));
            client
        })
        .collect();
    let answer = served.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() > 2_000_000, "{} bytes", answer.body.len());
    let start = Instant::now();
    // Whichever they are: requests that come at once may overtake each other.
    while deaf.len() > HELD {
        deaf.retain(|client| !client.is_reset());
        assert!(start.elapsed() < Duration::from_secs(180), "all of them are still served");
        assert_eq!(served.get("/readyz").status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(deaf);
    let text = served.get("/metrics").body;
    let given_up =
        text.lines().find_map(|line| line.strip_prefix("flowgate_monitor_scrapes_given_up_total "));
    let given_up: usize = given_up.expect("they are counted").parse().unwrap();
    assert!(given_up >= CROWD - HELD, "{given_up} of {CROWD} were given up, as {HELD} are held at most");
}

#[test]
fn a_scraper_that_never_reads_is_ended_when_patience_is() {
    let served = Served::with_targets(1000, "127.0.0.1:0", LIMITS);
    let mut deaf = served.connect();
    deaf.send(get("/metrics", ""));
    let start = Instant::now();
    while !deaf.is_reset() {
        assert!(start.elapsed() < Duration::from_secs(60), "it is still served");
        assert_eq!(served.get("/readyz").status, 200);
        std::thread::sleep(Duration::from_millis(50));
    }
}
