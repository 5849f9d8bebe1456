//! Kernel sockets at both ends of the wire: what real clients and servers do.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::netns::Netns;
use super::process::Process;
use super::{Family, Lab, Side, now};

/// Longer than anything here should ever take: what a test gives up after.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// An established TCP connection and both its ends.
pub struct Connection {
    pub client: TcpStream,
    pub server: TcpStream,
    /// Kept, so that the server's port stays open for the client's next attempt.
    pub listener: TcpListener,
}

impl Connection {
    /// A connection of two sockets, which from now on give up reading and writing after
    /// [`PATIENCE`].
    pub fn new(client: TcpStream, server: TcpStream, listener: TcpListener) -> Self {
        for end in [&client, &server] {
            end.set_nodelay(true).expect("a TCP socket has this option");
            end.set_read_timeout(Some(PATIENCE)).expect("not zero");
            end.set_write_timeout(Some(PATIENCE)).expect("not zero");
        }
        Self { client, server, listener }
    }

    /// One end's socket.
    pub fn end(&mut self, side: Side) -> &mut TcpStream {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// The address of one end.
    pub fn address(&self, side: Side) -> SocketAddr {
        match side {
            Side::Client => self.client.local_addr(),
            Side::Server => self.server.local_addr(),
        }
        .expect("a socket has an address")
    }

    /// Lets everything be acknowledged: a delayed acknowledgement (40 to 200 ms) that is still to
    /// come would be its sender's next packet, and be told instead of the one that a test sends.
    pub fn settle(&self) {
        thread::sleep(Duration::from_millis(300));
    }

    /// Sends a word from each end to the other and checks that it arrives.
    pub fn must_work(&mut self) {
        for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
            self.end(from)
                .write_all(b"are you there?")
                .unwrap_or_else(|e| panic!("{from:?} cannot send: {e}"));
            let mut word = [0; 14];
            self.end(to)
                .read_exact(&mut word)
                .unwrap_or_else(|e| panic!("{to:?} hears nothing of {from:?}: {e}"));
            assert_eq!(&word, b"are you there?");
        }
    }
}

impl Lab {
    /// A listening socket of the server's, on a port of the kernel's choice.
    pub fn listen(&self, family: Family) -> TcpListener {
        self.server.run(|| TcpListener::bind((family.server(), 0))).expect("the server can listen")
    }

    /// Connects the client to `listener` and returns both ends.
    pub fn connect_to(&self, listener: TcpListener) -> Connection {
        let address = listener.local_addr().expect("it listens somewhere");
        let client = self
            .client
            .run(|| TcpStream::connect_timeout(&address, PATIENCE))
            .unwrap_or_else(|error| panic!("the client cannot connect to {address}: {error}"));
        let (server, _) = listener.accept().expect("the client has connected");
        Connection::new(client, server, listener)
    }

    /// Connects the client to `to` from an address and port of the test's choice.
    pub fn connect_from(&self, from: SocketAddr, to: SocketAddr) -> TcpStream {
        self.connect_in(&self.client, from, to)
    }

    /// The same for another machine than the client.
    pub fn connect_in(&self, host: &Netns, from: SocketAddr, to: SocketAddr) -> TcpStream {
        let family = if from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        host.run(|| {
            let fd =
                socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("the kernel has TCP");
            setsockopt(&fd, sockopt::ReuseAddr, &true).expect("a socket has this option");
            // What limits a blocking connect.
            let patience = TimeVal::new(PATIENCE.as_secs().try_into().expect("it is short"), 0);
            setsockopt(&fd, sockopt::SendTimeout, &patience).expect("a socket has this option");
            bind(fd.as_raw_fd(), &SockaddrStorage::from(from))
                .unwrap_or_else(|e| panic!("cannot bind {from}: {e}"));
            connect(fd.as_raw_fd(), &SockaddrStorage::from(to))
                .unwrap_or_else(|e| panic!("cannot connect {from} to {to}: {e}"));
            TcpStream::from(fd)
        })
    }

    /// Makes both ends forget an IPv4 connection without a packet on the wire, as a machine does that
    /// loses its power, and returns the server's listener.
    pub fn forget(&self, connection: Connection) -> TcpListener {
        let blackholes = [(&self.client, Family::V4.server()), (&self.server, Family::V4.client())];
        for (host, peer) in blackholes {
            host.ip(&format!("route add blackhole {peer}/32"));
        }
        let Connection { client, server, listener } = connection;
        for end in [client, server] {
            // Closed with a reset, which the route swallows, so that nothing lingers.
            let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            setsockopt(&end, sockopt::Linger, &at_once).expect("a socket has this option");
        }
        for (host, peer) in blackholes {
            host.ip(&format!("route del blackhole {peer}/32"));
        }
        listener
    }

    /// A new connection to a new port.
    pub fn connect(&self, family: Family) -> Connection {
        self.connect_to(self.listen(family))
    }
}

/// Sends `bytes` pseudo-random bytes from each end to the other at the same time and compares every
/// one that arrives.
pub fn exchange(connection: &mut Connection, bytes: usize) {
    let there = noise(1, bytes);
    let back = noise(2, bytes);
    let Connection { client, server, .. } = connection;
    thread::scope(|scope| {
        for (socket, mine, theirs) in [(&*client, &there, &back), (&*server, &back, &there)] {
            scope.spawn(|| (&*socket).write_all(mine).expect("everything is sent"));
            scope.spawn(|| {
                let mut got = vec![0; theirs.len()];
                (&*socket).read_exact(&mut got).expect("everything arrives");
                if let Some(at) = (0..got.len()).find(|&at| got[at] != theirs[at]) {
                    panic!("byte {at} of {} arrived as {:#04x}, not {:#04x}", got.len(), got[at], theirs[at]);
                }
            });
        }
    });
}

/// `length` bytes that repeat nowhere near, from a xorshift generator.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Reads until the socket ends with an error and returns it; bytes that still arrive are read past.
/// The end of the stream, or silence until the socket's timeout, fails the test.
pub fn error_of(socket: &mut TcpStream) -> io::Error {
    let mut room = [0; 4096];
    loop {
        match socket.read(&mut room) {
            Ok(0) => panic!("the stream ended in peace where an error was expected"),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the socket was silent where an error was expected: {error}")
            }
            Err(error) => return error,
        }
    }
}

/// The socket must end with `ECONNRESET`.
pub fn must_be_reset(socket: &mut TcpStream) {
    let error = error_of(socket);
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

/// Whether the socket neither hears nor fails for `long`.
pub fn is_silent(socket: &mut TcpStream, long: Duration) -> bool {
    socket.set_read_timeout(Some(long)).expect("not zero");
    let heard = socket.read(&mut [0; 1]);
    socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    matches!(heard, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

/// A UDP socket of the client's and one of the server's, each connected to the other.
pub fn udp_pair(lab: &Lab, family: Family) -> (UdpSocket, UdpSocket) {
    let client =
        lab.client.run(|| UdpSocket::bind((family.client(), 0))).expect("the client has this address");
    let server =
        lab.server.run(|| UdpSocket::bind((family.server(), 0))).expect("the server has this address");
    client.connect(server.local_addr().expect("bound")).expect("there is a route");
    server.connect(client.local_addr().expect("bound")).expect("there is a route");
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
    }
    (client, server)
}

/// Sends a datagram and checks that it arrives whole.
pub fn datagram_must_cross(from: &UdpSocket, to: &UdpSocket, datagram: &[u8]) {
    from.send(datagram).expect("the kernel takes it");
    let mut room = vec![0; 65536];
    let length =
        to.recv(&mut room).unwrap_or_else(|e| panic!("a datagram of {} bytes is lost: {e}", datagram.len()));
    assert!(
        room[..length] == *datagram,
        "a datagram of {} bytes arrived changed ({length} bytes)",
        datagram.len()
    );
}

/// Pings from the client to the server `count` times and returns how many were answered.
pub fn ping(lab: &Lab, family: Family, count: u32, payload: u32) -> u32 {
    let words = format!("-n -q -c {count} -i 0.02 -W 2 -s {payload} {}", family.server());
    let output =
        lab.client.command("ping").args(words.split_whitespace()).output().expect("ping is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let answered =
        text.lines().find(|line| line.contains("received")).and_then(|line| line.split(", ").nth(1));
    answered.and_then(|part| part.split(' ').next()?.parse().ok()).unwrap_or_else(|| {
        panic!("ping says nothing of answers: {text}{}", String::from_utf8_lossy(&output.stderr))
    })
}

/// A connection that was broken, when, and the one that its client made at once in its place.
pub struct Broken {
    pub at: Duration,
    pub again: Connection,
    /// The server's end of the broken one.
    pub server: TcpStream,
}

/// Speaks on all connections, kills an appliance's reflector meanwhile, and says when that was and which of them broke.
pub fn kill_under_load(
    lab: &Lab,
    connections: Vec<Connection>,
    reflector: Process,
) -> (Duration, Vec<Broken>) {
    std::thread::scope(|scope| {
        let speakers: Vec<_> =
            connections.into_iter().map(|one| scope.spawn(move || speak_until_broken(lab, one))).collect();
        std::thread::sleep(Duration::from_millis(300));
        let killed = now();
        reflector.kill();
        let broken = speakers.into_iter().filter_map(|speaker| speaker.join().expect("it ends")).collect();
        (killed, broken)
    })
}

/// Speaks on a connection every few milliseconds until that is refused, and connects anew at once; nothing if it goes
/// on to work.
fn speak_until_broken(lab: &Lab, mut connection: Connection) -> Option<Broken> {
    connection.client.set_nonblocking(true).expect("a socket has this option");
    let end = now() + Duration::from_secs(2);
    while now() < end {
        let written = connection.client.write(b"are you there?");
        let read = connection.client.read(&mut [0; 16]);
        for error in [written.err(), read.err()].into_iter().flatten() {
            match error.kind() {
                ErrorKind::WouldBlock => {}
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                    let Connection { listener, server, .. } = connection;
                    return Some(Broken { at: now(), again: lab.connect_to(listener), server });
                }
                other => panic!("{other}: {error}"),
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}
