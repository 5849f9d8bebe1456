//! The web page, what it asks for, and its streams of events.

use crate::served::{LIMITS, Served, get};
use flowgate::control::events::{Event, What};
use flowgate::control::http::Limits;
use flowgate::control::monitor::MAX_STREAMS;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of events, as a browser reads it.
struct Stream {
    reader: BufReader<TcpStream>,
    status: u16,
    head: String,
}

#[derive(Debug, Default, PartialEq)]
struct Told {
    kind: String,
    id: String,
    data: Value,
}

impl Stream {
    fn open(served: &Served, path: &str, more: &str) -> Stream {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(get(path, more).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        }
        Stream { reader, status: head[9..12].parse().unwrap(), head: head.to_ascii_lowercase() }
    }

    /// The next event that is no beat. Of the body's chunks only the content is looked at.
    fn next(&mut self) -> Told {
        let mut told = Told::default();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.reader.read_line(&mut line).unwrap(), 0, "the stream ended");
            let text = line.trim_end();
            if let Some(kind) = text.strip_prefix("event: ") {
                kind.clone_into(&mut told.kind);
            } else if let Some(id) = text.strip_prefix("id: ") {
                id.clone_into(&mut told.id);
            } else if let Some(data) = text.strip_prefix("data: ") {
                told.data = serde_json::from_str(data).unwrap();
            } else if text.is_empty() && !told.kind.is_empty() {
                if told.kind != "beat" {
                    return told;
                }
                told = Told::default();
            }
        }
    }

    /// The number of the next event.
    fn generation(&mut self) -> u64 {
        self.next().data["Generation"].as_u64().expect("a change")
    }
}

fn json(served: &Served, path: &str) -> Value {
    let answer = served.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    assert!(answer.head.to_ascii_lowercase().contains("content-type: application/json"), "{}", answer.head);
    serde_json::from_str(&answer.body).unwrap()
}

/// `count` events from the number `from` on.
fn happen(served: &Served, from: u64, count: u64) {
    for generation in from..from + count {
        served.node.events.send(Event::now(What::ConfigChanged { generation })).unwrap();
    }
}

/// Waits until the recorder listens, which it does a moment after the endpoint does.
fn listening() -> Served {
    listening_with(Limits::default())
}

fn listening_with(limits: Limits) -> Served {
    let served = Served::start_with("127.0.0.1:0", limits);
    let begun = Instant::now();
    while served.node.events.receiver_count() == 0 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    served
}

#[test]
fn the_page_and_its_parts_are_served_with_a_policy_that_lets_nothing_else_in() {
    let served = Served::start();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/main.js", "text/javascript; charset=utf-8"),
        ("/page/base.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ] {
        let answer = served.get(path);
        let head = answer.head.to_ascii_lowercase();
        assert_eq!(answer.status, 200, "{path}");
        assert!(head.contains(&format!("content-type: {kind}\r\n")), "{head}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self'; "), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(!answer.body.is_empty());
    }
    assert_eq!(served.get("/page/nothing.js").status, 404);
}

#[test]
fn what_the_page_asks_for_is_json() {
    let served = listening();
    assert_eq!(json(&served, "/api/overview")["TargetGroups"][0]["Targets"][0]["Flows"], 7);
    let begun = Instant::now();
    while served.get("/api/history").status == 404 {
        assert!(begun.elapsed() < PATIENCE, "a reading is taken every second");
        std::thread::sleep(Duration::from_millis(20));
    }
    let history = json(&served, "/api/history?span=fine&target=fw%2F192.0.2.1");
    assert_eq!((&history["StepMs"], &history["Flows"][0]), (&1000.into(), &7.into()));
    assert_eq!(history["State"][0], "healthy");
    assert_eq!(json(&served, "/api/history?span=coarse")["StepMs"], 10_000);
    assert_eq!(served.get("/api/history?target=fw%2F192.0.2.9").status, 404);
    assert_eq!(served.get("/api/history?span=year").status, 400);
    assert_eq!(json(&served, "/api/failovers")["NotRecorded"], 3);
    happen(&served, 1, 1);
    let mut stream = Stream::open(&served, "/events?after=0-0", "");
    assert_eq!(stream.next().kind, "gap");
    let told = stream.next();
    let timeline = json(&served, "/api/timeline");
    assert_eq!(timeline["Entries"][0]["Generation"], 1);
    assert_eq!(timeline["LastEventId"], told.id);
}

#[test]
fn a_reader_that_comes_back_has_every_event_once() {
    let served = listening();
    let place = json(&served, "/api/timeline")["LastEventId"].as_str().unwrap().to_owned();
    // What happens between the page's question and its stream.
    happen(&served, 1, 3);
    let mut stream = Stream::open(&served, &format!("/events?after={place}"), "");
    assert_eq!(stream.status, 200);
    assert!(stream.head.contains("content-type: text/event-stream"), "{}", stream.head);
    assert_eq!([stream.generation(), stream.generation()], [1, 2]);
    let last = stream.next();
    assert_eq!((last.kind.as_str(), &last.data["Event"]), ("happened", &"ConfigChanged".into()));
    drop(stream);
    happen(&served, 4, 2);
    // A browser says both: what the page said when it came, and the last event that it has.
    let back = format!("Last-Event-ID: {}\r\n", last.id);
    let mut stream = Stream::open(&served, &format!("/events?after={place}"), &back);
    happen(&served, 6, 1);
    assert_eq!([4, 5, 6], [(); 3].map(|()| stream.generation()));
}

#[test]
fn a_reader_of_a_daemon_that_is_no_more_is_told() {
    let served = listening();
    let mut stream = Stream::open(&served, "/events", "Last-Event-ID: 12345-6\r\n");
    let told = stream.next();
    assert_eq!((told.kind.as_str(), &told.data["Restarted"]), ("gap", &true.into()));
    happen(&served, 1, 1);
    assert_eq!(stream.generation(), 1);
    assert_eq!(served.get("/events?after=nonsense").status, 400);
}

#[test]
fn a_thousand_streams_are_refused_but_for_some_and_the_page_is_served_all_the_while() {
    let served = listening();
    let mut streams: Vec<Stream> = (0..MAX_STREAMS).map(|_| Stream::open(&served, "/events", "")).collect();
    for _ in MAX_STREAMS..1000 {
        let refused = Stream::open(&served, "/events", "");
        assert_eq!(refused.status, 503);
        assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    }
    assert_eq!(served.get("/").status, 200);
    happen(&served, 1, 1);
    assert!(streams.iter_mut().all(|stream| stream.status == 200 && stream.generation() == 1));
    drop(streams.pop());
    let begun = Instant::now();
    while Stream::open(&served, "/events", "").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "a place is free when its reader is gone");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reader_that_keeps_up_loses_nothing_of_ten_thousand_events_a_second() {
    const SECONDS: u64 = 3;
    const A_TENTH: u64 = 1000;
    let served = listening();
    let mut stream = Stream::open(&served, "/events", "");
    let events = served.node.events.clone();
    let source = std::thread::spawn(move || {
        let begun = Instant::now();
        for tenth in 0..SECONDS * 10 {
            for n in 0..A_TENTH {
                let generation = tenth * A_TENTH + n;
                events.send(Event::now(What::ConfigChanged { generation })).unwrap();
            }
            let due = begun + Duration::from_millis(100 * (tenth + 1));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    });
    for expected in 0..SECONDS * 10 * A_TENTH {
        let told = stream.next();
        assert_eq!((told.kind.as_str(), told.data["Generation"].as_u64()), ("happened", Some(expected)));
    }
    source.join().unwrap();
}

#[test]
fn a_reader_that_never_reads_is_let_go_and_nobody_else_waits_for_it() {
    let served = listening_with(LIMITS);
    let mut deaf = Stream::open(&served, "/events", "");
    let mut other = Stream::open(&served, "/events", "");
    let begun = Instant::now();
    let mut told = 0;
    while begun.elapsed() < LIMITS.silence * 3 {
        happen(&served, told, 500);
        for expected in told..told + 500 {
            assert_eq!(other.generation(), expected);
        }
        told += 500;
        assert_eq!(served.get("/readyz").status, 200);
    }
    let mut rest = Vec::new();
    let end = deaf.reader.read_to_end(&mut rest);
    let ended_early = rest.len() < usize::try_from(told).unwrap() * 100;
    assert!(end.is_err() || ended_early, "{end:?}: it had {} bytes of {told} events", rest.len());
}
