//! The device that shares an interface with the kernel: frames as long as GENEVE needs and with their
//! VLAN tags, both ways, against a packet socket of the kernel; the MTU and the link are the kernel's.
//! The test runs itself again in a network namespace of its own, which goes with the process; EAL
//! starts once in that one.
#![cfg(feature = "dpdk")]

use std::env;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use flowgate::id::QueueId;
use flowgate::io::dpdk::{Eal, Mempool, MempoolConfig, Port, PortConfig, PortError, Queue};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{Burst, PacketBuf, PortQueue, affinity, hugepages};

const INSIDE: &str = "FLOWGATE_TEST_INSIDE";
const PATIENCE: Duration = Duration::from_secs(5);

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("ip runs");
    assert!(status.success(), "ip {args}");
}

/// A kernel socket that sends and receives whole frames on `interface`.
struct Socket(OwnedFd);

impl Socket {
    fn on(interface: &str) -> Socket {
        let name = std::ffi::CString::new(interface).expect("a name");
        let protocol = 0x0003u16.to_be();
        // SAFETY: a C string; no pointers; `address` is filled and of the length given.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(protocol));
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = u16::try_from(libc::AF_PACKET).expect("small");
            address.sll_protocol = protocol;
            address.sll_ifindex = i32::try_from(index).expect("small");
            let len = u32::try_from(size_of_val(&address)).expect("small");
            assert_eq!(libc::bind(fd, (&raw const address).cast(), len), 0, "{}", io::Error::last_os_error());
            Socket(socket)
        }
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: the slice's own pointer and length.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(usize::try_from(sent).ok(), Some(frame.len()), "{}", io::Error::last_os_error());
    }

    /// The next frame of `EtherType` 0x88b5 (for experiments), within `PATIENCE`.
    fn receive(&self) -> Vec<u8> {
        let deadline = Instant::now() + PATIENCE;
        let mut frame = vec![0; 4096];
        while Instant::now() < deadline {
            // SAFETY: the buffer's own pointer and length.
            let len = unsafe { libc::recv(self.0.as_raw_fd(), frame.as_mut_ptr().cast(), frame.len(), 0) };
            match usize::try_from(len) {
                Ok(len) if frame[12..14] == EXPERIMENT => return frame[..len].to_vec(),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no frame came");
    }
}

const EXPERIMENT: [u8; 2] = [0x88, 0xb5];

/// A frame from one of our own addresses; `tag`: under VLAN 42.
fn frame(len: usize, tag: bool) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if tag {
        frame.extend([0x81, 0x00, 0x00, 0x2a]);
    }
    frame.extend(EXPERIMENT);
    let pattern = (frame.len()..len).map(|at| (at * 3).to_le_bytes()[0]);
    frame.extend(pattern);
    frame
}

/// The next frame for experiments (the kernel sends some of its own), within `PATIENCE`.
fn next(queue: &mut Queue) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    let mut burst = Burst::new();
    while Instant::now() < deadline {
        queue.receive(&mut burst);
        for packet in burst.drain(..) {
            assert!(packet.is_contiguous());
            let bytes = packet.bytes();
            if bytes[12..14] == EXPERIMENT || bytes[16..18] == EXPERIMENT {
                return bytes.to_vec();
            }
        }
    }
    panic!("no frame came");
}

fn inside() {
    ip("link add fg0 type veth peer name fg1");
    ip("link set fg0 mtu 1600 up");
    ip("link set fg1 mtu 1600 up");
    let config = EalConfig {
        cores: affinity::allowed_cpus().expect("affinity"),
        hugepages: Hugepages::Never,
        memory_mb: 64,
        file_prefix: format!("flowgate-af-{}", std::process::id()),
        devices: vec!["net_af_packet0,iface=fg0,framecnt=512,blocksz=65536,framesz=2048,qpairs=1".to_owned()],
        extra: Vec::new(),
    };
    let args = config.arguments(&hugepages::Hugepages::default()).expect("arguments");
    let eal = Eal::start(&args).expect("EAL starts without hugepages");
    let pool =
        MempoolConfig { name: "p".to_owned(), count: 2047, data_room: 2048 + 128, cache: 64, socket: None };
    let pool = Mempool::new(&eal, &pool).expect("pool");
    let config = PortConfig {
        device: config.devices[0].clone(),
        mtu: Some(1568),
        promiscuous: true,
        rx_ring: 512,
        tx_ring: 512,
    };
    let port = Port::open(&eal, &config, std::slice::from_ref(&pool)).expect("port");
    assert_eq!(port.mtu(), 1568, "the interface has 1,600, whatever DPDK believes");
    let mac = std::fs::read_to_string("/sys/class/net/fg0/address").unwrap_or_default();
    let ours = port.mac().map(|byte| format!("{byte:02x}")).join(":");
    if !mac.is_empty() {
        assert_eq!(ours, mac.trim());
    }
    port.wait_until_up(PATIENCE).expect("both ends are up");

    let (kernel, mut queue) = (Socket::on("fg1"), port.queue(QueueId(0)).expect("free"));
    for len in [60, 1514, 1614] {
        kernel.send(&frame(len, false));
        assert_eq!(next(&mut queue), frame(len, false));
        let mut burst: Burst<_> = pool.packet(&frame(len, false)).into_iter().collect();
        assert_eq!(queue.transmit(&mut burst), 1);
        assert_eq!(kernel.receive(), frame(len, false));
    }
    // The kernel takes a frame's VLAN tag off and hands it over apart; it must be back in its place.
    kernel.send(&frame(200, true));
    assert_eq!(next(&mut queue), frame(200, true));
    assert_eq!(pool.in_use(), 0);

    // The peer goes down: the device believes in its link, the kernel does not.
    // The kernel tells the other end of a veth a moment later.
    ip("link set fg1 down");
    let deadline = Instant::now() + PATIENCE;
    while port.link().expect("readable").up {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for the carrier to go");
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = port.wait_until_up(Duration::from_millis(100)).expect_err("no carrier");
    assert!(matches!(error, PortError::LinkDown { .. }), "{error}");
    ip("link set fg1 up");
    port.wait_until_up(PATIENCE).expect("the carrier is back");
}

#[test]
fn long_and_tagged_frames_pass_between_dpdk_and_the_kernel() {
    if env::var_os(INSIDE).is_some() {
        return inside();
    }
    let this = env::current_exe().expect("this test");
    let output = Command::new("unshare")
        .arg("--net")
        .arg(this)
        .args(["--exact", "long_and_tagged_frames_pass_between_dpdk_and_the_kernel", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
}
