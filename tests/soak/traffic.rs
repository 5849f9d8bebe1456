//! What clients and servers do all the time: TCP connections long and short, datagrams large and small, and pings, over
//! IPv4 and IPv6, begun from either side. Everybody checks what comes back, goes on after every failure, and pauses when he is
//! asked to.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};

use crate::chance::Chance;
use crate::lab::netns::{command_in, enter};
use crate::lab::traffic::noise;
use crate::lab::{Family, Lab, Side};

/// The port of every server.
const PORT: u16 = 7000;
/// A connection that hears nothing for so long is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// A datagram that has not come back by then is lost.
const DATAGRAM: Duration = Duration::from_millis(400);

/// What traffic did.
#[derive(Debug, Default)]
pub struct Tally {
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub finished: AtomicU64,
    pub reset: AtomicU64,
    pub stalled: AtomicU64,
    pub bytes: AtomicU64,
    pub datagrams: AtomicU64,
    pub datagrams_back: AtomicU64,
    pub pings: AtomicU64,
    pub pings_back: AtomicU64,
    /// What arrived was not what had been sent: sentences.
    pub wrong: Mutex<Vec<String>>,
}

impl Tally {
    /// Names and numbers, for a report.
    pub fn figures(&self) -> [(&'static str, u64); 10] {
        let all = [
            ("TCP connections", &self.connections),
            ("of these not established", &self.refused),
            ("ended in peace", &self.finished),
            ("reset", &self.reset),
            ("given up after silence", &self.stalled),
            ("TCP payload bytes that came back right", &self.bytes),
            ("datagrams sent", &self.datagrams),
            ("datagrams that came back right", &self.datagrams_back),
            ("pings sent", &self.pings),
            ("pings answered", &self.pings_back),
        ];
        all.map(|(name, number)| (name, number.load(Relaxed)))
    }
}

#[derive(Default)]
struct Shared {
    tally: Tally,
    rests: AtomicBool,
    ends: AtomicBool,
    /// Who is at work.
    busy: AtomicU64,
}

/// All traffic of a laboratory.
pub struct Traffic {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts the servers and those who talk to them.
    pub fn start(lab: &Lab, chance: &mut Chance) -> Traffic {
        let mut traffic = Traffic { shared: Arc::default(), threads: Vec::new() };
        for side in Side::BOTH {
            for family in Family::BOTH {
                let (here, there) = match side {
                    Side::Client => (family.client(), family.server()),
                    Side::Server => (family.server(), family.client()),
                };
                let home = lab.host(side).name().to_owned();
                // Each side serves whoever comes from the other.
                traffic.spawn(&home, move |shared| serve_tcp(here, shared));
                traffic.spawn(&home, move |shared| serve_udp(here, shared));
                let to = SocketAddr::new(there, PORT);
                for _ in 0..2 {
                    traffic.speaker(&home, chance, move |shared, chance| long(to, shared, chance));
                }
                traffic.speaker(&home, chance, move |shared, chance| short(to, shared, chance));
                traffic.speaker(&home, chance, move |shared, chance| datagrams(to, shared, chance));
                let from = home.clone();
                traffic.speaker(&home, chance, move |shared, chance| ping(&from, there, shared, chance));
            }
        }
        traffic
    }

    pub fn tally(&self) -> &Tally {
        &self.shared.tally
    }

    /// Has everybody pause, and waits until they do.
    pub fn rest(&self) {
        self.shared.rests.store(true, Relaxed);
        let begun = Instant::now();
        while self.shared.busy.load(Relaxed) > 0 && begun.elapsed() < PATIENCE * 4 {
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn go_on(&self) {
        self.shared.rests.store(false, Relaxed);
    }

    /// Ends it all.
    pub fn end(self) -> Result<(), String> {
        self.shared.ends.store(true, Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| "a thread of the traffic panicked".to_owned())?;
        }
        Ok(())
    }

    fn spawn(&mut self, home: &str, work: impl FnOnce(&Shared) + Send + 'static) {
        let (home, shared) = (home.to_owned(), Arc::clone(&self.shared));
        self.threads.push(thread::spawn(move || {
            enter(&home);
            work(&shared);
        }));
    }

    /// Somebody who speaks again and again.
    fn speaker(
        &mut self,
        home: &str,
        chance: &mut Chance,
        mut once: impl FnMut(&Shared, &mut Chance) + Send + 'static,
    ) {
        let mut chance = chance.fork();
        self.spawn(home, move |shared| {
            while !shared.ends.load(Relaxed) {
                if shared.rests.load(Relaxed) {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
                shared.busy.fetch_add(1, Relaxed);
                once(shared, &mut chance);
                shared.busy.fetch_sub(1, Relaxed);
                pause(shared, chance.between(20, 120));
            }
        });
    }
}

/// Waits, but not beyond the end.
fn pause(shared: &Shared, ms: u64) {
    let until = Instant::now() + Duration::from_millis(ms);
    while Instant::now() < until && !shared.ends.load(Relaxed) {
        thread::sleep(Duration::from_millis(ms.min(20)));
    }
}

/// Lets a long connection sit out a rest.
fn rest(shared: &Shared) {
    if shared.rests.load(Relaxed) {
        shared.busy.fetch_sub(1, Relaxed);
        while shared.rests.load(Relaxed) && !shared.ends.load(Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        shared.busy.fetch_add(1, Relaxed);
    }
}

fn connect(to: SocketAddr, shared: &Shared) -> Option<TcpStream> {
    shared.tally.connections.fetch_add(1, Relaxed);
    let stream = match TcpStream::connect_timeout(&to, PATIENCE) {
        Ok(stream) => stream,
        Err(_) => {
            shared.tally.refused.fetch_add(1, Relaxed);
            return None;
        }
    };
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("not zero");
    stream.set_nodelay(true).expect("a TCP socket has this option");
    Some(stream)
}

/// One word there and back.
fn word(stream: &mut TcpStream, seed: u64, length: usize, shared: &Shared) -> io::Result<()> {
    let sent = noise(seed, length);
    let mut back = vec![0; length];
    stream.write_all(&sent)?;
    stream.read_exact(&mut back)?;
    if back == sent {
        shared.tally.bytes.fetch_add(length as u64, Relaxed);
    } else {
        let at = (0..length).find(|at| back[*at] != sent[*at]);
        let ends = format!("{:?} to {:?}", stream.local_addr(), stream.peer_addr());
        wrong(shared, format!("byte {at:?} of {length} over TCP came back otherwise, {ends}"));
    }
    Ok(())
}

fn wrong(shared: &Shared, what: String) {
    shared.tally.wrong.lock().expect("nobody panics with it").push(what);
}

fn end_of(stream: TcpStream, ended: io::Result<()>, shared: &Shared) {
    let tally = &shared.tally;
    let Err(error) = ended else {
        tally.finished.fetch_add(1, Relaxed);
        return;
    };
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            // Given up as an application does that is killed: the kernel sends a reset.
            let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            setsockopt(&stream, sockopt::Linger, &at_once).expect("a socket has this option");
            tally.stalled.fetch_add(1, Relaxed)
        }
        _ => tally.reset.fetch_add(1, Relaxed),
    };
}

fn long(to: SocketAddr, shared: &Shared, chance: &mut Chance) {
    let Some(mut stream) = connect(to, shared) else { return };
    let until = Instant::now() + Duration::from_secs(chance.between(3, 60));
    let mut speak = || -> io::Result<()> {
        while Instant::now() < until && !shared.ends.load(Relaxed) {
            rest(shared);
            let length = usize::try_from(chance.between(1, 2000)).expect("it is small");
            word(&mut stream, chance.next(), length, shared)?;
            let silence = if chance.one_in(20) { chance.between(500, 2000) } else { chance.between(10, 90) };
            pause(shared, silence);
        }
        Ok(())
    };
    let ended = speak();
    end_of(stream, ended, shared);
}

fn short(to: SocketAddr, shared: &Shared, chance: &mut Chance) {
    let Some(mut stream) = connect(to, shared) else { return };
    let length = usize::try_from(chance.between(1, 30_000)).expect("it is small");
    let ended = word(&mut stream, chance.next(), length, shared);
    end_of(stream, ended, shared);
}

fn datagrams(to: SocketAddr, shared: &Shared, chance: &mut Chance) {
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let Ok(socket) = UdpSocket::bind((any, 0)) else { return };
    socket.connect(to).ok();
    socket.set_read_timeout(Some(DATAGRAM)).expect("not zero");
    for _ in 0..chance.between(1, 30) {
        if shared.rests.load(Relaxed) || shared.ends.load(Relaxed) {
            return;
        }
        // One in ten is more than a link takes: fragments (M-4).
        let most = if chance.one_in(10) { 6000 } else { 1400 };
        let sent = noise(chance.next(), usize::try_from(chance.between(8, most)).expect("it is small"));
        if socket.send(&sent).is_ok() {
            shared.tally.datagrams.fetch_add(1, Relaxed);
            let mut room = [0; 8192];
            // What comes late is of one that was given up before.
            while let Ok(length) = socket.recv(&mut room) {
                if room[..length.min(8)] != sent[..8] {
                    continue;
                }
                if room[..length] == sent[..] {
                    shared.tally.datagrams_back.fetch_add(1, Relaxed);
                } else {
                    wrong(
                        shared,
                        format!("a datagram of {} bytes from {to} came back otherwise", sent.len()),
                    );
                }
                break;
            }
        }
        pause(shared, chance.between(10, 60));
    }
}

fn ping(from: &str, to: IpAddr, shared: &Shared, chance: &mut Chance) {
    let size = chance.of(&[16, 56, 1000]);
    let words = format!("-n -q -c 5 -i 0.1 -W 1 -s {size} {to}");
    let output = command_in(from, "ping").args(words.split_whitespace()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let number = |before: &str| {
        let line = text.lines().find(|line| line.contains(before))?;
        let part = line.split(", ").find(|part| part.contains(before))?;
        part.split(' ').next()?.parse::<u64>().ok()
    };
    shared.tally.pings.fetch_add(number("transmitted").unwrap_or(0), Relaxed);
    shared.tally.pings_back.fetch_add(number("received").unwrap_or(0), Relaxed);
}

fn serve_tcp(here: IpAddr, shared: &Shared) {
    let listener = TcpListener::bind((here, PORT)).expect("the port is free");
    listener.set_nonblocking(true).expect("a socket has this option");
    thread::scope(|scope| {
        while !shared.ends.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    scope.spawn(move || echo(stream, shared));
                }
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    });
}

/// Gives everything back until the other end goes, or is silent for far longer than it ever is.
fn echo(mut stream: TcpStream, shared: &Shared) {
    stream.set_nonblocking(false).expect("a socket has this option");
    stream.set_read_timeout(Some(Duration::from_secs(1))).expect("not zero");
    stream.set_write_timeout(Some(PATIENCE)).expect("not zero");
    stream.set_nodelay(true).expect("a TCP socket has this option");
    let (mut room, mut heard) = ([0; 16384], Instant::now());
    while heard.elapsed() < Duration::from_secs(60) && !shared.ends.load(Relaxed) {
        match stream.read(&mut room) {
            Ok(0) => return,
            Ok(length) => {
                heard = Instant::now();
                if stream.write_all(&room[..length]).is_err() {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

fn serve_udp(here: IpAddr, shared: &Shared) {
    let socket = UdpSocket::bind((here, PORT)).expect("the port is free");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("not zero");
    let mut room = [0; 8192];
    while !shared.ends.load(Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut room) {
            // A link that is down is the datagram's loss.
            socket.send_to(&room[..length], from).ok();
        }
    }
}
