//! Whatever comes on a connection to the elbv2 endpoint.
//!
//! Promises: what is answered is whole, is AWS's XML, and is never the daemon's own fault; there are no more answers
//! than a second, strict reading of the bytes finds requests, so that nothing before or behind the endpoint can see
//! another request in them; and what was only refused has changed nothing.

use crate::daemon::{World, is_sound};
use flowgate::control::elbv2::{Limits, converse};
use flowgate::control::socket::Service;
use quick_xml::Reader;
use quick_xml::events::Event;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LONGEST: usize = 8192;
/// Turns of every task within which an answer goes on: nothing waits for anything but another task.
const TURNS: u32 = 50;

pub fn run(bytes: &[u8]) {
    if bytes.len() > LONGEST {
        return;
    }
    let answers = answers(bytes);
    let most = requests(bytes);
    assert!(
        answers.len() <= most,
        "{} answers to {most} requests in {:?}: {answers:?}",
        answers.len(),
        String::from_utf8_lossy(bytes)
    );
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

/// The answers of an endpoint, just started, to `bytes`.
pub fn answers(bytes: &[u8]) -> Vec<Answer> {
    World::with(|world| {
        let fake = world.fresh();
        let received = world.block_on(async {
            let (mut client, server) = tokio::io::duplex(1 << 20);
            let service: Rc<dyn Service> = Rc::clone(&fake) as Rc<dyn Service>;
            let peer = SocketAddr::from(([127, 0, 0, 1], 9));
            let methods = Rc::clone(&world.methods);
            let task = tokio::task::spawn_local(converse(server, peer, service, methods, Limits::default()));
            // Whoever is refused early may find the way closed.
            client.write_all(bytes).await.ok();
            let mut received = Vec::new();
            // A client that goes gets no answer: it goes when nothing more comes, though everybody had his turn.
            let mut silent = 0;
            while silent < TURNS {
                let before = received.len();
                tokio::select! {
                    biased;
                    read = client.read_buf(&mut received) => if read.unwrap() == 0 { break },
                    () = tokio::task::yield_now() => {}
                }
                silent = if received.len() == before { silent + 1 } else { 0 };
            }
            client.shutdown().await.ok();
            client.read_to_end(&mut received).await.unwrap();
            task.await.unwrap();
            received
        });
        let answers = taken_apart(&received);
        answers.iter().for_each(is_answer);
        let state = fake.state();
        is_sound(&state, &world.seed);
        if !answers.iter().any(|answer| answer.status == 200) {
            assert_eq!(state, world.seed, "a refusal that changed something");
        }
        answers
    })
}

/// The answers in what was received, all of it theirs.
fn taken_apart(mut received: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !received.is_empty() {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head) = response.parse(received).unwrap() else {
            panic!("half an answer: {:?}", String::from_utf8_lossy(received))
        };
        let status = response.code.unwrap();
        let length = response.headers.iter().find(|header| header.name == "content-length");
        let length = length.map_or(0, |header| std::str::from_utf8(header.value).unwrap().parse().unwrap());
        let body = received.get(head..head + length).expect("an answer that ends early");
        received = &received[head + length..];
        // An interim answer asks for the body.
        if status != 100 {
            answers.push(Answer { status, body: String::from_utf8(body.to_vec()).unwrap() });
        }
    }
    answers
}

fn is_answer(answer: &Answer) {
    assert!(answer.status == 200 || (400..500).contains(&answer.status), "{answer:?}");
    let root = root_of(&answer.body);
    assert_eq!(root == "ErrorResponse", answer.status != 200, "{answer:?}");
    assert!(root.ends_with("Response") && answer.body.contains("<RequestId>"), "{answer:?}");
}

/// The name of the root of a document, which must be one.
fn root_of(xml: &str) -> String {
    let mut reader = Reader::from_str(xml);
    let (mut root, mut depth, mut roots) = (String::new(), 0, 0);
    let mut begun = |name: &str, depth: usize| {
        if depth == 0 {
            roots += 1;
            root = name.to_owned();
        }
    };
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error} in {xml}")) {
            Event::Start(start) => {
                begun(start.name().as_ref(), depth);
                depth += 1;
            }
            Event::Empty(element) => begun(element.name().as_ref(), depth),
            Event::End(_) => depth -= 1,
            Event::Text(text) => assert!(depth > 0, "text beside the root: {text:?}"),
            Event::GeneralRef(_) => assert!(depth > 0),
            Event::Eof => break,
            other => panic!("{other:?} in {xml}"),
        }
    }
    assert_eq!((depth, roots), (0, 1), "{xml}");
    root
}

/// The most requests that a strict reader finds: each has one plain Content-Length, or none and no body, and what is
/// not like that is the last.
fn requests(mut bytes: &[u8]) -> usize {
    let mut found = 0;
    loop {
        // As RFC 9112, section 2.2, lets a server.
        while let Some(rest) = bytes.strip_prefix(b"\r\n").or_else(|| bytes.strip_prefix(b"\n")) {
            bytes = rest;
        }
        if bytes.is_empty() {
            return found;
        }
        found += 1;
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(head)) = request.parse(bytes) else { return found };
        let of = |name: &str| -> Vec<&[u8]> {
            let named = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
            named.map(|header| header.value).collect()
        };
        let length = match of("content-length")[..] {
            [] => 0,
            [digits] if digits.iter().all(u8::is_ascii_digit) => {
                match std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<usize>().ok()) {
                    Some(length) => length,
                    None => return found,
                }
            }
            _ => return found,
        };
        if !of("transfer-encoding").is_empty() || request.version != Some(1) {
            return found;
        }
        match bytes.get(head + length..) {
            Some(rest) => bytes = rest,
            None => return found,
        }
    }
}
