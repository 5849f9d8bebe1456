//! R-4's own test: the resets that we write, given to a real kernel's sockets, which must believe
//! them at once, with no challenge ACK (RFC 5961) first.
//!
//! A veth pair in a network namespace of the test's thread: one end has the kernel's address, at the
//! other the test reads and writes whole frames and plays the server. Needs root, as scripts/test has it.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use flowgate::datapath::reset::{V6_LEN, write_reset, write_unasked};
use flowgate::flow::FlowKey;
use flowgate::id::EndpointId;
use flowgate::wire::ethernet;
use flowgate::wire::packet::{Kind, Packet};
use flowgate::wire::tcp::{Seq, TcpFlags, TcpHeader};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{bind, recv, send, setsockopt, socket};
use nix::sys::time::TimeVal;

#[path = "../src/wire/sample.rs"]
#[expect(dead_code, reason = "the unit tests use the rest of it")]
mod sample;

const SERVER4: &str = "10.9.0.2";
const SERVER6: &str = "fd09::2";
const PATIENCE: Duration = Duration::from_secs(10);

/// The wire's far end.
struct Wire(OwnedFd);

impl Wire {
    fn lay() -> Wire {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace; these tests need root");
        let script = "ip link set lo up; ip link add kernel type veth peer name wire; \
             ip address add 10.9.0.1/24 dev kernel; ip address add fd09::1/64 dev kernel nodad; \
             ip link set wire up; ip link set kernel up; \
             ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev kernel; \
             ip neighbour add fd09::2 lladdr 02:00:00:00:00:02 dev kernel";
        assert!(Command::new("sh").args(["-ec", script]).status().unwrap().success());
        let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
            .unwrap();
        let address = nix::ifaddrs::getifaddrs()
            .unwrap()
            .filter(|found| found.interface_name == "wire")
            .find_map(|found| found.address?.as_link_addr().copied())
            .unwrap();
        bind(fd.as_raw_fd(), &address).unwrap();
        let patience = TimeVal::new(i64::try_from(PATIENCE.as_secs()).unwrap(), 0);
        setsockopt(&fd, ReceiveTimeout, &patience).unwrap();
        Wire(fd)
    }

    /// The next TCP frame from the kernel with all of these flags.
    fn next(&self, flags: TcpFlags) -> Vec<u8> {
        let mut frame = [0; 4096];
        loop {
            let len = recv(self.0.as_raw_fd(), &mut frame, MsgFlags::empty()).expect("a frame in time");
            if frame[6..12] == [2, 0, 0, 0, 0, 2] {
                continue; // our own
            }
            if let Ok(packet) = Packet::parse(&frame[14..len])
                && packet.kind == Kind::Tcp
                && packet.tcp_flags.contains(flags)
            {
                return frame[..len].to_vec();
            }
        }
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(send(self.0.as_raw_fd(), frame, MsgFlags::empty()).unwrap(), frame.len());
    }

    /// Sends the reset that answers a frame.
    fn reset(&self, mut frame: Vec<u8>) {
        let packet = Packet::parse(&frame[14..]).unwrap();
        let len = write_reset(&mut frame[14..], &packet).unwrap();
        ethernet::swap_addresses(&mut frame);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        self.send(&frame[..14 + len]);
    }

    /// Sends the sender of a frame the reset that nobody asked for: at this distance from what the frame
    /// acknowledges.
    fn tell(&self, heard: &[u8], off: u32) {
        let packet = Packet::parse(&heard[14..]).unwrap();
        let header = TcpHeader::parse(&heard[14 + usize::from(packet.header_len)..]).unwrap();
        let (version, ports) = (heard[14] >> 4, (packet.src_port, packet.dst_port));
        let (key, sender) = FlowKey::new(EndpointId(0), version, 6, packet.src, packet.dst, ports.0, ports.1);
        let mut frame = heard[..14].to_vec();
        ethernet::swap_addresses(&mut frame);
        frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        let mut ip = [0; V6_LEN];
        let len = write_unasked(&mut ip, &key, sender, Seq(header.ack.0.wrapping_add(off))).unwrap();
        self.send(&[frame, ip[..len].to_vec()].concat());
    }

    /// Accepts the connection that a SYN asks for, as a server's kernel would.
    fn accept(&self, syn: &[u8]) {
        let ip = &syn[14..];
        let packet = Packet::parse(ip).unwrap();
        let header = TcpHeader::parse(&ip[usize::from(packet.header_len)..]).unwrap();
        let ports = (packet.dst_port, packet.src_port);
        let mut segment = sample::tcp(ports, 9_000_000, header.seq.plus(1).0, 0x12, &[], &[]);
        let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
        let (client, server) = addresses.split_at(addresses.len() / 2);
        let pseudo = [server, client, &[0, 6, 0, 20]].concat();
        let checksum = sample::naive_checksum(&[&pseudo[..], &segment].concat());
        segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        let answer = if ip[0] >> 4 == 4 {
            sample::ipv4(server.try_into().unwrap(), client.try_into().unwrap(), 6, &segment)
        } else {
            sample::ipv6(server.try_into().unwrap(), client.try_into().unwrap(), 6, &segment)
        };
        let mut frame = syn[..14].to_vec();
        ethernet::swap_addresses(&mut frame);
        frame.extend(answer);
        self.send(&frame);
    }

    /// A connection of the kernel's to us, established.
    fn establish(&self, server: &str) -> TcpStream {
        let server = SocketAddr::new(server.parse::<IpAddr>().unwrap(), 80);
        let connecting = std::thread::spawn(move || TcpStream::connect_timeout(&server, PATIENCE));
        self.accept(&self.next(TcpFlags::SYN));
        let stream = connecting.join().unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

/// How many challenge ACKs this namespace's kernel has sent.
fn challenge_acks() -> u64 {
    let netstat = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let lines: Vec<&str> = netstat.lines().filter(|line| line.starts_with("TcpExt:")).collect();
    let at = lines[0].split(' ').position(|name| name == "TCPChallengeACK").unwrap();
    lines[1].split(' ').nth(at).unwrap().parse().unwrap()
}

//
#[test]
fn a_kernel_whose_data_is_answered_with_our_reset_returns_econnreset_at_once() {
    let wire = Wire::lay();
    for server in [SERVER4, SERVER6] {
        let mut stream = wire.establish(server);
        stream.write_all(b"are you there?").unwrap();
        wire.reset(wire.next(TcpFlags::PSH | TcpFlags::ACK));
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{server}");
        assert_eq!(challenge_acks(), 0, "{server}");
    }
}

//
#[test]
fn a_kernel_whose_fin_is_answered_with_our_reset_returns_econnreset_at_once() {
    let wire = Wire::lay();
    for server in [SERVER4, SERVER6] {
        let mut stream = wire.establish(server);
        stream.shutdown(Shutdown::Write).unwrap();
        wire.reset(wire.next(TcpFlags::FIN));
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{server}");
        assert_eq!(challenge_acks(), 0, "{server}");
    }
}

// without ACK the reset acknowledges the SYN, or the kernel would not believe it.
#[test]
fn a_kernel_whose_syn_is_answered_with_our_reset_returns_econnrefused_at_once() {
    let wire = Wire::lay();
    for server in [SERVER4, SERVER6] {
        let address = SocketAddr::new(server.parse::<IpAddr>().unwrap(), 80);
        let connecting = std::thread::spawn(move || TcpStream::connect_timeout(&address, PATIENCE));
        wire.reset(wire.next(TcpFlags::SYN));
        let error = connecting.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{server}");
    }
}

//
#[test]
fn a_silent_kernel_that_is_told_at_its_last_acknowledgement_returns_econnreset_at_once() {
    let wire = Wire::lay();
    for server in [SERVER4, SERVER6] {
        let mut stream = wire.establish(server);
        let handshake = wire.next(TcpFlags::ACK);
        wire.tell(&handshake, 0);
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{server}");
        assert_eq!(challenge_acks(), 0, "{server}");
    }
}

// why an end that was told is answered should it send all the same.
#[test]
fn a_kernel_that_is_told_at_another_number_asks_back_and_believes_the_answer() {
    let wire = Wire::lay();
    for server in [SERVER4, SERVER6] {
        let mut stream = wire.establish(server);
        let handshake = wire.next(TcpFlags::ACK);
        wire.tell(&handshake, 100);
        let challenge = wire.next(TcpFlags::ACK);
        assert_eq!(challenge_acks(), if server == SERVER4 { 1 } else { 2 });
        wire.reset(challenge);
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{server}");
    }
}
