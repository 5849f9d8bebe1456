//! A client that shares nothing with the code under test: bytes on a Unix socket, and `serde_json`.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects, and takes the hello.
    pub fn connect(path: &Path) -> Self {
        let mut client = Client::connect_rudely(path);
        assert_eq!(client.read()["method"], "hello");
        client
    }

    /// Connects, and reads nothing.
    pub fn connect_rudely(path: &Path) -> Self {
        Client::over(UnixStream::connect(path).unwrap())
    }

    /// On a connection that there is already, without reading.
    pub fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
        Client(BufReader::new(stream))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub fn stream(&self) -> &UnixStream {
        self.0.get_ref()
    }

    pub fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the daemon closed the connection after {line:?}");
        line
    }

    pub fn read(&mut self) -> Value {
        serde_json::from_str(&self.read_line()).unwrap()
    }

    /// The answer to one line.
    pub fn ask(&mut self, line: &str) -> Value {
        self.send(line.as_bytes());
        self.send(b"\n");
        self.read()
    }

    /// The result of a method, or its error.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let answer =
            self.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string());
        assert_eq!(answer["jsonrpc"], "2.0");
        assert_eq!(answer["id"], 1);
        match (answer.get("result"), answer.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (None, Some(error)) => Err(error.clone()),
            _ => panic!("neither a result nor an error, or both: {answer}"),
        }
    }

    /// Whether the daemon has closed the connection, after whatever it still sent.
    pub fn ends(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
