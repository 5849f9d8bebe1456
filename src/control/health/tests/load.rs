//! A fleet's load of checks over real sockets, on one thread (H-8).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::spawn;
use std::time::Duration;

use tokio::time::sleep;

use super::scripted::settings;
use crate::control::health::check::SocketChecker;
use crate::control::health::{CheckSpec, Duty, HealthEngine, HealthState, TargetKey};
use crate::control::model::{HealthCheckSettings, Matcher, Probe};

const TARGETS: u16 = 1_000;

/// Target `n`, each with an address of its own in 127.0.0.0/8.
fn target(n: u16) -> TargetKey {
    let [high, low] = n.to_be_bytes();
    TargetKey::new("fleet", Ipv4Addr::new(127, 1, high, low))
}

/// Checks the fleet by `probe`, of which every target is served by `serve`.
async fn fleet_is_checked_in_time(probe: Probe, serve: fn(TcpStream)) {
    // One listener on every address; it serves until the process ends.
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || listener.incoming().flatten().for_each(serve));

    let kind = probe.protocol();
    let settings = Arc::new(HealthCheckSettings { probe, port, ..settings() });
    let spec = |n| CheckSpec { key: target(n), settings: Arc::clone(&settings), duty: Duty::Check };
    let (mut engine, _events) = HealthEngine::new(SocketChecker::default());
    engine.update((0..TARGETS).map(spec));

    // Another process on the machine may hold up any second; what the engine can do shows in the best.
    let mut best = Duration::MAX;
    for _ in 0..10 {
        sleep(settings.interval).await;
        let views: Vec<_> = (0..TARGETS).map(|n| engine.view(&target(n)).unwrap()).collect();
        if views.iter().any(|view| view.state != HealthState::Healthy) {
            continue;
        }
        let delays = views.iter().filter_map(|view| Some(view.last_check.as_ref()?.delay));
        best = best.min(delays.max().unwrap_or(Duration::MAX));
        if best <= settings.interval / 10 {
            break;
        }
    }
    println!("{kind}: the latest of a second's {TARGETS} checks was {best:?} late");
    assert!(best <= settings.interval / 10, "{best:?} late");
}

#[tokio::test]
async fn a_thousand_targets_at_one_second_are_checked_in_time_h8() {
    fleet_is_checked_in_time(Probe::Tcp, drop).await;
}

#[tokio::test]
async fn a_thousand_targets_at_one_second_are_checked_over_http_in_time_h8() {
    let probe = Probe::Http { path: "/".to_owned(), matcher: Matcher::default() };
    fleet_is_checked_in_time(probe, |mut stream| {
        let mut request = [0; 512];
        // The request is one segment; a check that has gone already shows in the target's state.
        if stream.read(&mut request).is_ok_and(|length| request[..length].ends_with(b"\r\n\r\n")) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
        }
    })
    .await;
}
