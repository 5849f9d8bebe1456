//! The thread that takes packets and sends them back.
//!
//! An answer leaves by the port that its packet named as destination (6081) to that same port, from an
//! address of ours: no UDP socket can send that to a gateway whose source port was another, so both ways
//! go through one raw socket, which also shows the outer IPv4 header as it came. A UDP socket
//! is bound beside it and takes nothing: without it the kernel would answer every packet with an ICMP "port
//! unreachable".

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::judge::{deviations, judge};
use super::reflect::{GROWTH, Outcome, Why, reflect};
use super::{ReflectorError, Shared};
use crate::wire::geneve::UDP_PORT;

/// The longest IPv4 packet, and what an answer may be longer.
const BUFFER_LEN: usize = 65_535 + GROWTH;

/// Bytes of packets that may wait in the socket: some 10 ms of 10 Gbit/s.
const RECEIVE_BUFFER: usize = 16 << 20;

// Classic BPF: class, size and mode of an instruction (linux/bpf_common.h).
const LOAD_X_IP_HEADER_LEN: u16 = 0xb1;
const LOAD_HALF_AT_X: u16 = 0x48;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// Starts the thread. What it returns resolves when the socket fails; otherwise the thread lives as long as
/// the process.
pub(super) fn start(
    address: Ipv4Addr,
    shared: Arc<Shared>,
) -> Result<oneshot::Receiver<io::Error>, ReflectorError> {
    let here = SocketAddrV4::new(address, UDP_PORT);
    let bind = |error| ReflectorError::Bind { address, error };
    let guard = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).map_err(bind)?;
    guard.bind(&here.into()).map_err(bind)?;
    guard.attach_filter(&take_nothing()).map_err(bind)?;

    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).map_err(ReflectorError::RawSocket)?;
    raw.attach_filter(&take_geneve()).map_err(ReflectorError::Packets)?;
    raw.bind(&SocketAddrV4::new(address, 0).into()).map_err(bind)?;
    raw.set_header_included_v4(true).map_err(ReflectorError::Packets)?;
    if let Err(error) = setsockopt(&raw, RcvBufForce, &RECEIVE_BUFFER) {
        info!(%error, "a receive buffer of the usual size has to do");
    }

    let (failed, failure) = oneshot::channel();
    let run = move || {
        let error = receive(&raw, &shared);
        drop(guard);
        // Nobody waits any more when the process is about to end.
        failed.send(error).ok();
    };
    std::thread::Builder::new().name("packets".into()).spawn(run).map_err(ReflectorError::Packets)?;
    Ok(failure)
}

/// A filter that lets a socket take no packet.
pub(super) fn take_nothing() -> [SockFilter; 1] {
    [SockFilter::new(RETURN, 0, 0, 0)]
}

/// A filter that takes the packets to the GENEVE port, seen from the IPv4 header on.
fn take_geneve() -> [SockFilter; 5] {
    [
        SockFilter::new(LOAD_X_IP_HEADER_LEN, 0, 0, 0),
        SockFilter::new(LOAD_HALF_AT_X, 0, 0, 2),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(UDP_PORT)),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// Takes packets until the socket fails, and returns how.
fn receive(socket: &Socket, shared: &Shared) -> io::Error {
    let mut buffer = vec![0; BUFFER_LEN];
    let mut reader = socket;
    loop {
        match reader.read(&mut buffer[..BUFFER_LEN - GROWTH]) {
            Ok(len) => answer(socket, &mut buffer, len, shared),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error,
        }
    }
}

/// Judges one packet, makes its answer and sends it.
fn answer(socket: &Socket, buffer: &mut [u8], len: usize, shared: &Shared) {
    let counters = &shared.counters;
    counters.received.fetch_add(1, Relaxed);
    counters.received_bytes.fetch_add(len as u64, Relaxed);
    let ip = &buffer[..len];
    let seen = match judge(ip) {
        Ok(seen) => seen,
        Err(fault) => {
            counters.dropped.fetch_add(1, Relaxed);
            return remark(shared, fault.name(), &fault);
        }
    };
    for deviation in deviations(ip, &seen) {
        remark(shared, deviation.name(), &deviation);
    }
    let behaviour = *shared.behaviour();
    let (len, counter) = match reflect(buffer, &seen, &behaviour) {
        Outcome::Reflected(len) => (len, &counters.reflected),
        Outcome::Reset(len) => (len, &counters.resets),
        Outcome::Dropped(why) => {
            counters.dropped.fetch_add(1, Relaxed);
            return match why {
                Why::Told => {}
                Why::NoResetDue => {
                    remark(shared, "no_reset_due", &"a segment that is not answered with a reset")
                }
                Why::OutOfHops => remark(shared, "out_of_hops", &"the inner packet's last hop was this one"),
                Why::TooLong => remark(shared, "too_long", &"the answer would be too long"),
            };
        }
    };
    let gateway = SocketAddrV4::new(seen.outer.src_ip.into(), 0);
    match socket.send_to(&buffer[..len], &gateway.into()) {
        Ok(_) => {
            counter.fetch_add(1, Relaxed);
        }
        Err(error) => {
            counters.send_failed.fetch_add(1, Relaxed);
            remark(shared, "send_failed", &format_args!("{len} bytes to {}: {error}", gateway.ip()));
        }
    }
}

/// Counts a remark, and logs it at the first time, the second, the fourth, and so on: a fault of
/// every packet is worth a line, not a line a packet.
fn remark(shared: &Shared, name: &'static str, what: &dyn Display) {
    let times = shared.counters.remark(name);
    if times.is_power_of_two() {
        warn!(remark = name, times, "{what}");
    }
}
