//! Captures through DPDK: what the file holds comes in, what is sent is in the other file, byte for
//! byte; a frame longer than a pool's packet comes chained. The files are written and read here, by
//! the format's definition. One test: EAL starts once a process.
#![cfg(feature = "dpdk")]

use std::fs;
use std::path::Path;

use flowgate::id::QueueId;
use flowgate::io::dpdk::{Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{Burst, PacketBuf, PortQueue, affinity, hugepages};

/// What a pool's packet holds here: less than the longest frame of the capture.
const ROOM: u16 = 1800;

fn frame(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len).to_le_bytes()[0]).collect()
}

/// A capture of Ethernet frames: the 24 bytes of its head, then each frame behind 16 of its own.
fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (second, frame) in (1u32..).zip(frames) {
        let len = u32::try_from(frame.len()).expect("short");
        for word in [second, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    fs::write(path, file).expect("file");
}

fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).expect("file");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    // Microseconds or nanoseconds, little-endian.
    assert!([0xa1b2_c3d4, 0xa1b2_3c4d].contains(&word(0)));
    let mut frames = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let (kept, len) = (word(at + 8), word(at + 12));
        assert_eq!(kept, len);
        frames.push(file[at + 16..][..len as usize].to_vec());
        at += 16 + len as usize;
    }
    frames
}

#[test]
fn frames_of_a_capture_come_in_and_go_out_byte_for_byte() {
    let folder = tempfile::tempdir().expect("folder");
    let (from, to) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let mut frames: Vec<Vec<u8>> = [60, 61, 64, 590, 1499, 1514, 1518].map(frame).to_vec();
    frames.push(frame(4000));
    frames.push(frame(3000));
    frames.push(frame(100));
    write_capture(&from, &frames);

    let config = EalConfig {
        cores: affinity::allowed_cpus().expect("affinity"),
        hugepages: Hugepages::Never,
        memory_mb: 64,
        file_prefix: format!("flowgate-pcap-{}", std::process::id()),
        devices: vec![format!("net_pcap0,rx_pcap={},tx_pcap={}", from.display(), to.display())],
        extra: Vec::new(),
    };
    let args = config.arguments(&hugepages::Hugepages::default()).expect("arguments");
    let eal = Eal::start(&args).expect("EAL starts without hugepages");
    let pool = Mempool::new(
        &eal,
        &MempoolConfig { name: "p".to_owned(), count: 511, data_room: ROOM + 128, cache: 0, socket: None },
    )
    .expect("pool");
    let config = PortConfig {
        device: "net_pcap0".to_owned(),
        mtu: None,
        promiscuous: true,
        rx_ring: 128,
        tx_ring: 128,
    };
    let port = Port::open(&eal, &config, std::slice::from_ref(&pool)).expect("port");
    let mut queue = port.queue(QueueId(0)).expect("free");
    let mut burst = Burst::new();
    queue.receive(&mut burst);
    assert_eq!(burst.len(), frames.len());

    for (packet, frame) in burst.iter().zip(&frames) {
        assert_eq!(packet.total_len(), frame.len());
        assert_eq!(packet.is_contiguous(), frame.len() <= usize::from(ROOM));
        assert_eq!(packet.bytes(), &frame[..packet.bytes().len()]);
    }
    // 4,000 bytes in 1,800 a packet.
    let lengths = |packet: &Mbuf| (packet.segments(), packet.bytes().len(), packet.total_len());
    let long = burst.iter_mut().find(|packet| !packet.is_contiguous()).expect("one was too long");
    assert_eq!(lengths(long), (3, 1800, 4000));
    let all = u32::try_from(frames.len()).expect("few") + 3;
    assert_eq!(pool.in_use(), all);

    // It is too long for one; where it would fit, it is gathered.
    assert!(!long.make_contiguous());
    assert_eq!((lengths(long), long.frame_len()), ((3, 1800, 4000), 4000));

    // A chained packet is cut to the byte, and gives back the segments that it no longer needs.
    assert!(long.append(1).is_none());
    long.truncate(4001);
    assert_eq!(lengths(long), (3, 1800, 4000));
    long.truncate(3800);
    assert_eq!(lengths(long), (3, 1800, 3800));
    long.truncate(3600);
    assert_eq!((lengths(long), pool.in_use()), ((2, 1800, 3600), all - 1));
    long.trim_front(1000);
    assert_eq!(lengths(long), (2, 800, 2600));
    long.trim_front(2000);
    assert_eq!(lengths(long), (2, 0, 1800), "no further than what bytes() showed");
    assert!(long.prepend(800).is_some());
    assert_eq!(lengths(long), (2, 800, 2600));
    long.truncate(500);
    assert_eq!((lengths(long), pool.in_use()), ((1, 500, 500), all - 2));
    assert!(long.is_contiguous());
    assert_eq!(long.bytes(), &frames[7][1000..1500]);
    assert!(long.make_contiguous(), "it is");

    // What fits into one is gathered there, behind a full headroom.
    let other = burst.iter_mut().find(|packet| !packet.is_contiguous()).expect("another was too long");
    other.trim_front(1000);
    other.truncate(1500);
    assert_eq!(lengths(other), (2, 800, 1500));
    assert!(other.make_contiguous() && other.is_contiguous());
    assert_eq!((lengths(other), pool.in_use()), ((1, 1500, 1500), all - 3));
    assert_eq!(other.bytes(), &frames[8][1000..2500]);
    assert!(other.prepend(129).is_none() && other.prepend(128).is_some());
    other.trim_front(128);

    frames[7] = frames[7][1000..1500].to_vec();
    frames[8] = frames[8][1000..2500].to_vec();
    // What the first byte says is changed in place and seen in the file.
    for (packet, frame) in burst.iter_mut().zip(&mut frames) {
        packet.bytes_mut()[0] ^= 0xff;
        frame[0] ^= 0xff;
    }
    assert_eq!(queue.transmit(&mut burst), frames.len());
    queue.receive(&mut burst);
    assert!(burst.is_empty(), "the capture is at its end");
    assert_eq!(pool.in_use(), 0);
    drop((queue, port));
    assert_eq!(read_capture(&to), frames);
}
