//! The other side of a check in tests: real kernel sockets on loopback that answer, refuse, or say
//! nothing.

use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use tokio::net::TcpSocket;
use tokio::time::timeout;

const ANY_PORT: &str = "127.0.0.1:0";

/// A target that takes one connection, in a thread of its own.
pub(super) struct Peer {
    pub(super) address: SocketAddrV4,
    thread: JoinHandle<()>,
}

impl Peer {
    /// Takes one connection and does `answer` with it.
    pub(super) fn serve(answer: impl FnOnce(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(ANY_PORT).unwrap();
        let address = v4(listener.local_addr().unwrap());
        let thread = spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // A check that never closes fails its test, and does not hang it.
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
            answer(stream);
        });
        Self { address, thread }
    }

    /// Waits until `answer` is done; what it asserted fails the test.
    pub(super) fn end(self) {
        self.thread.join().unwrap();
    }
}

/// An address where nobody listens.
pub(super) fn nobody() -> SocketAddrV4 {
    v4(TcpListener::bind(ANY_PORT).unwrap().local_addr().unwrap())
}

/// A listener whose backlog is full: the kernel drops every further SYN, as a dead host does.
pub(super) struct Full {
    pub(super) address: SocketAddrV4,
    _listener: tokio::net::TcpListener,
    _waiting: Vec<tokio::net::TcpStream>,
}

pub(super) async fn full() -> Full {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(ANY_PORT.parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = v4(listener.local_addr().unwrap());
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(100), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(stream.unwrap());
    }
    Full { address, _listener: listener, _waiting: waiting }
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} was bound to IPv4"),
    }
}
