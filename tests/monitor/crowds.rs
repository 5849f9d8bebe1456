//! Many at once, and those who never end: bounded, and nobody else notices.

use crate::client::Client;
use crate::served::{LIMITS, Served, get};
use flowgate::control::http::Limits;
use std::time::{Duration, Instant};

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
