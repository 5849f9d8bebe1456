//! What is answered to whom.

use crate::served::{Served, get};
use flowgate::control::http::Limits;
use flowgate::control::monitor::Endpoint;
use flowgate::control::node::Monitor;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

#[test]
fn a_node_says_by_a_status_code_whether_it_is_to_be_given_traffic() {
    let served = Served::start();
    for path in ["/healthz", "/readyz"] {
        let answer = served.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.head.to_ascii_lowercase().contains("cache-control: no-store"), "{}", answer.head);
    }
    let is_taken_out = |told: u8| {
        let text = served.get("/metrics").body;
        assert!(text.lines().any(|line| line == format!("flowgate_taken_out {told}")), "{text}");
    };
    is_taken_out(0);
    served.node.readiness.lock().unwrap().taken_out = Some("drained by an operator".to_owned());
    is_taken_out(1);
    let answer = served.get("/readyz");
    assert_eq!(answer.status, 503);
    assert!(answer.body.starts_with("not ready\n"), "{}", answer.body);
    assert!(answer.body.contains("\nno  service: drained by an operator\n"), "{}", answer.body);
    assert_eq!(served.get("/healthz").status, 200);
    served.node.readiness.lock().unwrap().silent_for = vec![Duration::from_secs(60)];
    assert_eq!(served.get("/healthz").status, 503);
}

#[test]
fn health_checks_as_balancers_make_them_are_answered() {
    let served = Served::start();
    // HTTP/1.0 without a Host, as HAProxy makes it; HEAD; a query that nobody here needs.
    assert_eq!(served.ask("GET /readyz HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(served.get("/readyz?from=router").status, 200);
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.write_all(b"HEAD /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\n"), "a head and no body: {text}");
}

#[test]
fn what_is_not_for_reading_or_is_nowhere_is_refused_with_its_reason() {
    let served = Served::start();
    for (request, status, words) in [
        (get("/", "").replace("GET", "POST"), 405, "GET and HEAD"),
        (get("/metrics", "").replace("GET", "DELETE"), 405, "GET and HEAD"),
        (get("/nothing", ""), 404, "/, /metrics, /healthz and /readyz"),
        (get("/readyz/", ""), 404, "nothing at this path"),
        (get("http://localhost/readyz", ""), 400, "as for a proxy"),
        (get("/readyz", "Host: localhost\r\n"), 400, "more than one Host"),
        (get("/readyz", "Content-Length: 3\r\n") + "abc", 400, "no body"),
        (get("/readyz", "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400, "no body"),
    ] {
        let answer = served.ask(&request);
        assert_eq!(answer.status, status, "{request}: {}", answer.body);
        assert!(
            answer.body.contains(words) && answer.body.lines().count() == 1,
            "{request}: {}",
            answer.body
        );
    }
}

#[test]
fn a_page_of_another_origin_gets_nothing_by_whatever_name_it_asks() {
    let served = Served::start();
    let by_name = |name: &str| format!("GET /readyz HTTP/1.1\r\nHost: {name}\r\n\r\n");
    // DNS rebinding: the browser believes that the page's own host is here.
    for name in ["evil.example", "evil.example:6082", "10.0.0.1:6082", ""] {
        assert_eq!(served.ask(&by_name(name)).status, 403, "{name}");
    }
    for name in ["localhost", "127.0.0.1:6082", "[::1]:6082"] {
        assert_eq!(served.ask(&by_name(name)).status, 200, "{name}");
    }
    // What a page of another origin has its browser fetch; a link that somebody follows is no fetch.
    let says = |site, mode| get("/readyz", &format!("Sec-Fetch-Site: {site}\r\nSec-Fetch-Mode: {mode}\r\n"));
    assert_eq!(served.ask(&says("cross-site", "no-cors")).status, 403);
    assert_eq!(served.ask(&says("same-site", "cors")).status, 403);
    assert_eq!(served.ask(&says("same-origin", "cors")).status, 200);
    assert_eq!(served.ask(&says("none", "navigate")).status, 200);
    assert_eq!(served.ask(&says("cross-site", "navigate")).status, 200);
}

#[test]
fn it_listens_where_it_is_told_to_and_a_port_that_is_taken_is_refused_only_if_it_was_asked_for() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused =
        Endpoint::bind(&Monitor { address: Some(address), ..Monitor::default() }).err().expect("taken");
    let expected = format!("the monitoring endpoint cannot listen on {address}: Address already in use");
    assert!(refused.to_string().starts_with(&expected), "{refused}");
    assert!(
        Endpoint::bind(&Monitor { enabled: false, address: Some(address), ..Monitor::default() })
            .unwrap()
            .is_none()
    );
    // The usual port, taken by whoever it is, is no reason not to start.
    let _taken = TcpListener::bind(Monitor::DEFAULT);
    assert!(Endpoint::bind(&Monitor::default()).unwrap().is_none());
    let served = Served::start_with("[::1]:0", Limits::default());
    assert_eq!(served.get("/readyz").status, 200);
}
