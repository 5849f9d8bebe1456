//! The reflector on a real wire: every frame that its kernel sends, seen from the other end of a veth pair
//! whose end has no UDP socket and no address of the gateway's, so nothing but the bytes speaks.
//!
//! The test's thread is one network namespace, the reflector's process another; both and the veth pair go
//! when they end. Needs root, as scripts/test has it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use flowgate::wire::ethernet::MacAddr;
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{bind, recv, send, setsockopt, socket};
use nix::sys::time::TimeVal;

#[path = "../src/wire/sample.rs"]
#[expect(dead_code, reason = "the unit tests use the rest of it")]
mod sample;

const GATEWAY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const APPLIANCE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const APPLIANCE: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);
/// How long a frame may take that must come, and how long one is waited for that must not.
const SOON: Duration = Duration::from_secs(10);
const LONG_ENOUGH: Duration = Duration::from_millis(200);

fn run(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(status.success(), "{command}: {status}");
}

/// A gateway's end of the wire, and the reflector at the other.
struct Lab {
    wire: OwnedFd,
    reflector: Child,
    control: BufReader<UnixStream>,
    _folder: tempfile::TempDir,
}

impl Lab {
    fn start(flags: &[&str]) -> Lab {
        unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace; these tests need root");
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("control.sock");
        // The veth's other end is given to the process when it has its namespace; it waits for that.
        let script = "until ip link show theirs >/dev/null 2>&1; do sleep 0.01; done; \
             ip link set theirs address 02:00:00:00:00:09 up; ip address add 10.1.0.9/24 dev theirs; \
             ip neighbour add 10.1.0.1 lladdr 02:00:00:00:00:01 dev theirs; exec \"$@\"";
        let reflector = Command::new("unshare")
            .args(["--net", "sh", "-ec", script, "sh", env!("CARGO_BIN_EXE_flowgate-reflector")])
            .args(["--health-port", "8080", "--control"])
            .arg(&control)
            .args(flags)
            .spawn()
            .unwrap();
        let pid = reflector.id();
        // `unshare` has its own namespace when the two links differ.
        run(&format!(
            "until [ $(readlink /proc/{pid}/ns/net) != $(readlink /proc/$$/ns/net) ]; do sleep 0.01; done; \
             ip link add ours type veth peer name theirs netns {pid}; \
             ip address add 10.1.0.2/24 dev ours; ip link set ours up; \
             ip neighbour add 10.1.0.9 lladdr 02:00:00:00:00:09 dev ours"
        ));
        let deadline = Instant::now() + SOON;
        let control = loop {
            match UnixStream::connect(&control) {
                Ok(stream) => break BufReader::new(stream),
                Err(error) => assert!(Instant::now() < deadline, "no control socket: {error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        Lab { wire: packet_socket("ours"), reflector, control, _folder: folder }
    }

    /// Sends a line to the control socket and returns the line that answers it.
    fn tell(&mut self, line: &str) -> serde_json::Value {
        writeln!(self.control.get_mut(), "{line}").unwrap();
        let mut answer = String::new();
        self.control.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    fn counters(&mut self) -> serde_json::Value {
        self.tell(r#"{"counters":{}}"#)["counters"].take()
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(send(self.wire.as_raw_fd(), frame, MsgFlags::empty()).unwrap(), frame.len());
    }

    /// The next IPv4 frame that the reflector's kernel sends, whatever it is, within a time.
    fn next(&self, within: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + within;
        let mut frame = [0; 4096];
        loop {
            let left = deadline.checked_duration_since(Instant::now())?;
            let left = TimeVal::new(0, i64::from(left.subsec_micros().clamp(1, 100_000)));
            setsockopt(&self.wire, ReceiveTimeout, &left).unwrap();
            match recv(self.wire.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                Ok(len) if frame[6..12] == APPLIANCE_MAC.0 && frame[12..14] == [0x08, 0x00] => {
                    return Some(frame[..len].to_vec());
                }
                Ok(_) | Err(nix::errno::Errno::EAGAIN) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.reflector.kill().unwrap();
        self.reflector.wait().unwrap();
    }
}

/// A socket that sends and takes whole frames.
fn packet_socket(interface: &str) -> OwnedFd {
    let family = AddressFamily::Packet;
    let fd = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll).unwrap();
    let address = nix::ifaddrs::getifaddrs()
        .unwrap()
        .filter(|found| found.interface_name == interface)
        .find_map(|found| found.address?.as_link_addr().copied())
        .unwrap();
    bind(fd.as_raw_fd(), &address).unwrap();
    fd
}

/// A frame as the gateway sends it.
fn encapsulated(inner: &[u8]) -> Vec<u8> {
    let template = OuterTemplate::new(GATEWAY_MAC, APPLIANCE_MAC, Ipv4Addr::new(10, 1, 0, 1), APPLIANCE);
    let mut frame = vec![0; OUTER_LEN];
    let fields = OuterFields {
        inner_len: inner.len().try_into().unwrap(),
        protocol: 0x0800,
        source_port: 50_123,
        endpoint_id: 0x1112_1314_1516_1718,
        attachment_id: 0x2122_2324_2526_2728,
        cookie: 0x3132_3334,
    };
    template.write(frame.first_chunk_mut().unwrap(), &fields);
    frame.extend(inner);
    frame
}

fn tcp(flags: u8) -> Vec<u8> {
    sample::ipv4([10, 0, 0, 1], [192, 0, 2, 7], 6, &sample::tcp((4000, 80), 7, 8, flags, &[], b"data"))
}

// W-4, W-6
#[test]
fn the_answer_on_the_wire_has_the_addresses_swapped_and_all_else_as_it_came() {
    let mut lab = Lab::start(&[]);
    let sent = encapsulated(&tcp(0x18));
    lab.send(&sent);
    let back = lab.next(SOON).expect("an answer");
    assert_eq!((&back[..6], &back[6..12]), (&GATEWAY_MAC.0[..], &APPLIANCE_MAC.0[..]));
    assert_eq!(back[26..34], [10, 1, 0, 9, 10, 1, 0, 1]);
    assert_eq!(sample::naive_checksum(&back[14..34]), 0);
    assert_eq!(back[22], 255);
    // From the UDP header on nothing differs: ports, lengths, GENEVE, options, the inner packet.
    assert_eq!(back[34..], sent[34..]);
    assert_eq!(lab.next(LONG_ENOUGH), None, "one answer, and no ICMP error from the kernel");
    let counters = lab.counters();
    assert_eq!((&counters["received"], &counters["reflected"]), (&1.into(), &1.into()));
    assert_eq!(counters["remarks"], serde_json::json!({}));
}

#[test]
fn it_is_told_to_fail_and_to_stop_failing_while_it_runs() {
    let mut lab = Lab::start(&["--drop"]);
    lab.send(&encapsulated(&tcp(0x18)));
    assert_eq!(lab.next(LONG_ENOUGH), None, "a dead appliance answers nothing");

    lab.tell(r#"{"drop":false,"wrong_cookie":true,"source_port":4242,"udp_checksum":true}"#);
    lab.send(&encapsulated(&tcp(0x18)));
    let back = lab.next(SOON).expect("an answer");
    assert_eq!(back[78..82], (!0x3132_3334u32).to_be_bytes());
    assert_eq!(back[34..36], 4242u16.to_be_bytes());
    assert!(sample::transport_checksum_is_right(&back[14..]));

    lab.tell(r#"{"wrong_cookie":false,"source_port":0,"udp_checksum":false,"reset":true}"#);
    lab.send(&encapsulated(&tcp(0x18)));
    let back = lab.next(SOON).expect("an answer");
    assert_eq!(back[36..82][14..], encapsulated(&tcp(0x18))[36..82][14..], "the same options");
    let inner = &back[82..];
    assert_eq!((inner.len(), &inner[12..20]), (40, &[192, 0, 2, 7, 10, 0, 0, 1][..]));
    assert_eq!((inner[33], &inner[24..28]), (0x04, &8u32.to_be_bytes()[..]));

    assert!(lab.tell(r#"{"dorp":true}"#)["error"].as_str().unwrap().contains("unknown field `dorp`"));
    let counters = lab.counters();
    assert_eq!([&counters["dropped"], &counters["reflected"], &counters["resets"]], [1, 1, 1]);
}

// W-1, W-2, W-3: what the gateway under test sends wrongly has a name here.
#[test]
fn it_names_what_is_wrong_with_what_it_is_sent() {
    let mut lab = Lab::start(&[]);
    let mut frame = encapsulated(&tcp(0x18));
    frame[22] = 64;
    frame[24..26].fill(0);
    let checksum = sample::naive_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    lab.send(&frame);
    assert!(lab.next(SOON).is_some(), "a deviation is sent back all the same");
    let mut frame = encapsulated(&tcp(0x18));
    frame[42] = 0x48;
    lab.send(&frame);
    assert_eq!(lab.next(LONG_ENOUGH), None);
    let counters = lab.counters();
    assert_eq!(counters["remarks"], serde_json::json!({"outer_ttl": 1, "geneve_version": 1}));
    assert_eq!(counters["dropped"], 1);
}

/// What a check with HTTP gets: the status line, or why there is none.
fn check(patience: Duration) -> Result<String, std::io::ErrorKind> {
    let address = (APPLIANCE, 8080).into();
    let mut stream = TcpStream::connect_timeout(&address, patience).map_err(|error| error.kind())?;
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: 10.1.0.9\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.kind())?;
    Ok(answer.lines().next().unwrap_or_default().trim_end().to_owned())
}

#[test]
fn health_checks_are_answered_refused_or_swallowed_as_it_is_told() {
    use std::io::ErrorKind;
    let mut lab = Lab::start(&[]);
    assert_eq!(check(SOON).unwrap(), "HTTP/1.1 200");
    lab.tell(r#"{"health":{"code":503}}"#);
    assert_eq!(check(SOON).unwrap(), "HTTP/1.1 503");
    lab.tell(r#"{"health":"refuse"}"#);
    until(|| check(SOON) == Err(ErrorKind::ConnectionRefused));
    lab.tell(r#"{"health":"silent"}"#);
    until(|| check(LONG_ENOUGH) == Err(ErrorKind::TimedOut));
    lab.tell(r#"{"health":"answer"}"#);
    until(|| check(SOON).as_deref() == Ok("HTTP/1.1 200"));
    assert!(lab.counters()["health_checks"].as_u64().unwrap() >= 3);
}

/// Waits until something is so: the health listener changes a moment after the answer on the control socket.
fn until(mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !so() {
        assert!(Instant::now() < deadline, "not so in {SOON:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
