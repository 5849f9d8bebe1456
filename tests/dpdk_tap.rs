//! The UDP checksum left to a device: a tap computes it, and the kernel, which drops a datagram whose
//! checksum is wrong, gives it to its socket. In a network namespace of its own; needs root. One test: EAL
//! starts once a process.
#![cfg(feature = "dpdk")]

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use flowgate::id::QueueId;
use flowgate::io::dpdk::{Eal, Mbuf, Mempool, MempoolConfig, Offloads, Port, PortConfig, Queue};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{Burst, PacketBuf, PortQueue, affinity, hugepages};
use flowgate::wire::checksum::Sum;
use nix::sched::{CloneFlags, unshare};

const INTERFACE: &str = "fgtap";
const LINK: u16 = 14;
const IP: u16 = 20;

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2");
    assert!(status.success(), "ip {arguments}");
}

/// A datagram from 192.0.2.2 to 192.0.2.1:4000, with a UDP checksum that is wrong.
fn datagram(mac: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).expect("short");
    let mut ip = vec![0x45, 0];
    ip.extend((IP + udp_len).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1]);
    let checksum = Sum::ZERO.bytes(&ip).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = [&mac[..], &[2, 0, 0, 0, 0, 2, 8, 0]].concat();
    frame.extend(ip);
    frame.extend([0xc0, 0, 0x0f, 0xa0]);
    frame.extend(udp_len.to_be_bytes());
    frame.extend([0xba, 0xad]);
    frame.extend(payload);
    frame
}

fn send(queue: &mut Queue, packet: Mbuf) {
    let mut burst: Burst<Mbuf> = [packet].into_iter().collect();
    assert_eq!(queue.transmit(&mut burst), 1);
}

// W-3
#[test]
fn a_udp_checksum_that_is_left_to_the_device_is_right() {
    unshare(CloneFlags::CLONE_NEWNET).expect("root may");
    let config = EalConfig {
        cores: affinity::allowed_cpus().expect("affinity"),
        hugepages: Hugepages::Never,
        memory_mb: 64,
        file_prefix: format!("flowgate-tap-{}", std::process::id()),
        devices: vec![format!("net_tap0,iface={INTERFACE}")],
        extra: Vec::new(),
    };
    let args = config.arguments(&hugepages::Hugepages::default()).expect("arguments");
    let eal = Eal::start(&args).expect("EAL starts without hugepages");
    let pool = Mempool::new(
        &eal,
        &MempoolConfig { name: "p".to_owned(), count: 511, data_room: 2048 + 128, cache: 0, socket: None },
    )
    .expect("pool");
    assert_eq!(pool.page_size(), 4096, "without hugepages");
    let config = PortConfig {
        device: "net_tap0".to_owned(),
        mtu: None,
        promiscuous: true,
        rx_ring: 128,
        tx_ring: 128,
    };
    let wanted = Offloads { udp_checksum: true };
    let port = Port::open_with(&eal, &config, std::slice::from_ref(&pool), wanted).expect("port");
    assert_eq!(port.offloads(), wanted);
    ip(&format!("address add 192.0.2.1/24 dev {INTERFACE}"));
    ip(&format!("link set {INTERFACE} up"));
    let socket = UdpSocket::bind("192.0.2.1:4000").expect("socket");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");

    let mut queue = port.queue(QueueId(0)).expect("free");
    let packet = |payload: &[u8]| pool.packet(&datagram(port.mac(), payload)).expect("a packet");
    // The kernel drops the first, whose checksum is wrong.
    send(&mut queue, packet(b"as it was"));
    for payload in [&b"left to the device"[..], b"odd", &[7; 1400]] {
        let mut packet = packet(payload);
        assert!(packet.offload_udp_checksum(LINK, IP));
        send(&mut queue, packet);
        let mut seen = [0; 2048];
        let len = socket.recv(&mut seen).expect("it arrives");
        assert_eq!(&seen[..len], payload);
    }
    let mut short = pool.packet(&[0; 41]).expect("a packet");
    assert!(!short.offload_udp_checksum(LINK, IP), "it has no whole UDP header");
}
