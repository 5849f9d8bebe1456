//! A client that says exactly what it is told to, byte by byte.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, received: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // Whoever is refused early may find the way closed.
        self.stream.write_all(bytes.as_ref()).ok();
    }

    /// Sends what a server that reads has to take.
    pub fn send_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn close(&self, how: Shutdown) {
        // It may be closed from the other side already.
        self.stream.shutdown(how).ok();
    }

    /// Sends a request as real clients do, and takes its answer.
    pub fn post(&mut self, form: &str) -> Answer {
        self.send(request("", form));
        self.answer().unwrap_or_else(|| panic!("no answer to {form}"))
    }

    /// The next answer; none if the connection ends first.
    pub fn answer(&mut self) -> Option<Answer> {
        let end = loop {
            match find(&self.received, b"\r\n\r\n") {
                Some(at) => break at + 4,
                None if self.more() => {}
                None => return None,
            }
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = content_length(&head);
        while self.received.len() < length {
            assert!(self.more(), "an answer that ends early");
        }
        let body = String::from_utf8(self.received.drain(..length).collect()).unwrap();
        Some(Answer { status, head, body })
    }

    /// Whether the server has given the connection up. Nothing is read for that.
    pub fn is_reset(&self) -> bool {
        self.stream.take_error().unwrap().is_some()
    }

    /// Whether nothing but an alert of TLS comes before the end.
    pub fn answer_bytes_are_tls_alert(&mut self) -> bool {
        while self.more() {}
        self.received.first().is_none_or(|kind| *kind == 21) && self.received.len() < 20
    }

    /// Whether the connection is at its end, with nothing more on it.
    pub fn ends(&mut self) -> bool {
        self.received.is_empty() && !self.more()
    }

    /// Takes some bytes more; false at the end.
    fn more(&mut self) -> bool {
        let mut bytes = [0; 65536];
        match self.stream.read(&mut bytes) {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend(&bytes[..count]);
                true
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The length of the body behind that head; an interim answer has none.
fn content_length(head: &str) -> usize {
    let lines = head.lines().map(str::to_ascii_lowercase);
    let length = lines.filter_map(|line| line.strip_prefix("content-length: ").map(str::to_owned)).next();
    length.map_or(0, |length| length.parse().unwrap())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A request as real clients make it, with more header lines.
pub fn request(more: &str, form: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:6080\r\nAccept-Encoding: identity\r\nUser-Agent: test\r\n\
         Content-Type: application/x-www-form-urlencoded; charset=utf-8\r\n{more}Content-Length: {}\r\n\r\n{form}",
        form.len()
    )
}

impl Answer {
    /// Status, code and message of a refusal.
    pub fn refusal(&self) -> (u16, String, String) {
        assert!(self.body.starts_with("<ErrorResponse xmlns="), "{}: {}", self.status, self.body);
        (self.status, text(&self.body, "Code"), text(&self.body, "Message"))
    }
}

/// What stands in the first element of that name.
pub fn text(xml: &str, element: &str) -> String {
    let begin = xml.split_once(&format!("<{element}>"));
    let inner = begin.and_then(|(_, rest)| rest.split_once(&format!("</{element}>")));
    inner.unwrap_or_else(|| panic!("no {element} in {xml}")).0.to_owned()
}
