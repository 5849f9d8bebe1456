//! Packets through two crossed DPDK ports: their bytes, their order, and that the pool is full again
//! when all is dropped. EAL starts once a process, so there is one test in this file.
#![cfg(feature = "dpdk")]

use flowgate::id::QueueId;
use flowgate::io::dpdk::{
    Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig, PortError, WorkerThread, crossed_ports,
};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{BURST, Burst, PacketBuf, PortQueue, affinity, hugepages};

const POOL: u32 = 1023;

fn frame(number: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| number.wrapping_mul(31).wrapping_add(at.to_le_bytes()[0])).collect()
}

fn burst_of(pool: &Mempool, frames: impl IntoIterator<Item = Vec<u8>>) -> Burst<Mbuf> {
    frames.into_iter().map(|frame| pool.packet(&frame).expect("the pool has packets")).collect()
}

fn lengths(packet: &Mbuf) -> (usize, usize) {
    (packet.bytes().len(), packet.total_len())
}

/// Headroom, growth, trimming: the bytes seen and both of the mbuf's lengths follow.
fn a_packet_keeps_its_lengths(pool: &Mempool) {
    let mut packet = pool.packet(&frame(1, 100)).expect("a packet");
    assert_eq!(packet.rss_hash(), None);
    packet.set_rss_hash(0xdead_beef);
    assert_eq!(packet.rss_hash(), Some(0xdead_beef));

    assert_eq!(packet.prepend(68).map(|whole| whole.len()), Some(168));
    packet.bytes_mut()[..68].fill(0xee);
    assert_eq!(lengths(&packet), (168, 168));
    assert_eq!(packet.bytes()[68..], frame(1, 100));
    assert!(packet.prepend(61).is_none(), "128 bytes of headroom less 68");
    assert_eq!(lengths(&packet), (168, 168));
    assert!(packet.prepend(usize::MAX).is_none());
    assert!(packet.prepend(65_536 + 8).is_none(), "no wrap at 16 bits");
    assert!(packet.prepend(60).is_some(), "to the last byte of headroom");

    packet.trim_front(128);
    assert_eq!(packet.bytes(), frame(1, 100));
    packet.truncate(101);
    assert_eq!(lengths(&packet), (100, 100));
    packet.truncate(40);
    assert_eq!(packet.bytes(), &frame(1, 100)[..40]);
    assert_eq!(lengths(&packet), (40, 40));

    let tailroom = pool.frame_room() - 40;
    assert!(packet.append(tailroom + 1).is_none());
    assert_eq!(packet.append(tailroom).map(|whole| whole.len()), Some(pool.frame_room()));
    assert_eq!(packet.bytes()[..40], frame(1, 100)[..40]);

    packet.trim_front(usize::MAX);
    assert_eq!(lengths(&packet), (0, 0));
    assert!(packet.is_contiguous());
    assert!(pool.packet(&vec![0; pool.frame_room()]).is_some());
    assert!(pool.packet(&vec![0; pool.frame_room() + 1]).is_none());
}

#[test]
fn packets_cross_whole_and_in_order_and_the_pool_is_full_again() {
    let config = EalConfig {
        cores: affinity::allowed_cpus().expect("affinity"),
        hugepages: Hugepages::Never,
        memory_mb: 64,
        file_prefix: format!("flowgate-ring-{}", std::process::id()),
        devices: Vec::new(),
        extra: Vec::new(),
    };
    let args = config.arguments(&hugepages::Hugepages::default()).expect("arguments");
    let before = affinity::allowed_cpus().expect("affinity");
    let eal = Eal::start(&args).expect("EAL starts without hugepages");
    assert_eq!(affinity::allowed_cpus().expect("affinity"), before, "EAL's pinning is undone");
    assert!(Eal::version().starts_with("DPDK 2"), "{}", Eal::version());
    let again = Eal::start(&args).expect_err("once a process").to_string();
    assert!(again.contains("restart the process"), "{again}");

    let pool = Mempool::new(
        &eal,
        &MempoolConfig {
            name: "packets".to_owned(),
            count: POOL,
            data_room: 2048 + 128,
            cache: 64,
            socket: None,
        },
    )
    .expect("64 MiB hold a thousand packets");
    assert_eq!((pool.available(), pool.in_use(), pool.frame_room()), (POOL, 0, 2048));

    a_packet_keeps_its_lengths(&pool);
    assert_eq!(pool.in_use(), 0, "dropped packets are back");

    let names = crossed_ports(&eal, "t", 2, 64).expect("two ports");
    let open = |name: &str, queues: usize| {
        let config =
            PortConfig { device: name.to_owned(), mtu: None, promiscuous: true, rx_ring: 256, tx_ring: 256 };
        Port::open(&eal, &config, &vec![pool.clone(); queues])
    };
    let [a, b] = [open(&names[0], 2).expect("port"), open(&names[1], 2).expect("port")];
    assert_eq!((a.driver(), a.queues(), a.mtu(), a.rss()), ("net_ring", 2, 1500, None));
    assert!(a.link().expect("state").up);
    assert!(matches!(open(&names[0], 2), Err(PortError::InUse { .. })));

    // A queue is with one worker at a time.
    let mut a0 = a.queue(QueueId(0)).expect("free");
    assert!(a.queue(QueueId(0)).is_none());
    assert!(a.queue(QueueId(2)).is_none());
    drop(a0);
    a0 = a.queue(QueueId(0)).expect("given back");
    let mut a1 = a.queue(QueueId(1)).expect("free");
    let mut b0 = b.queue(QueueId(0)).expect("free");
    let mut b1 = b.queue(QueueId(1)).expect("free");

    // A worker's thread at one end, this one at the other; queue 1 of b has the second worker.
    let (mut out, mut got) = (burst_of(&pool, (0..32).map(|n| frame(n, 64 + usize::from(n)))), Burst::new());
    assert_eq!(a0.transmit(&mut out), 32);
    assert!(out.is_empty());
    assert_eq!(pool.in_use(), 32);
    b1.receive(&mut got);
    assert!(got.is_empty(), "queues do not mix");
    got = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _known = WorkerThread::register(&eal).expect("room for a thread");
            b0.receive(&mut got);
            for (number, packet) in (0..32).zip(&got) {
                assert_eq!(packet.bytes(), frame(number, 64 + usize::from(number)));
                assert!(packet.is_contiguous());
            }
            // Half of them are freed here, half where they came from.
            drop(got.drain(..16));
            got
        });
        worker.join().expect("worker")
    });
    assert_eq!(got.len(), 16);
    assert_eq!(pool.in_use(), 16);
    assert_eq!(b1.transmit(&mut got), 16);
    a1.receive(&mut got);
    assert_eq!(got.first().map(|packet| packet.bytes().to_vec()), Some(frame(16, 80)));
    a1.discard(&mut got);
    assert!(got.is_empty());
    assert_eq!(pool.in_use(), 0);

    // A ring of 64 holds 63: what does not fit stays with the sender, in order.
    let mut out = burst_of(&pool, (0..32).map(|n| frame(n, 60)));
    assert_eq!(a0.transmit(&mut out), 32);
    let mut out = burst_of(&pool, (32..64).map(|n| frame(n, 60)));
    assert_eq!(a0.transmit(&mut out), 31);
    assert_eq!(out.iter().map(|packet| packet.bytes().to_vec()).collect::<Vec<_>>(), [frame(63, 60)]);
    assert_eq!(a0.transmit(&mut out), 0);
    assert_eq!(out.len(), 1);
    drop(out);

    // A burst that holds some already is filled up and no further.
    let holding = |held: usize| burst_of(&pool, (100..).take(held).map(|n| frame(n, 60)));
    let mut got = holding(BURST - 12);
    b0.receive(&mut got);
    assert_eq!(got.len(), BURST);
    assert_eq!(got[BURST - 13].bytes(), frame(151, 60));
    assert_eq!(got[BURST - 12].bytes(), frame(0, 60));
    assert_eq!(got[BURST - 1].bytes(), frame(11, 60));
    drop(got);
    let mut got = holding(BURST - 32);
    b0.receive(&mut got);
    assert_eq!(got[BURST - 32].bytes(), frame(12, 60));
    let seen = a.stats().expect("counters");
    assert_eq!((seen.tx_packets, seen.rx_packets), (32 + 63, 16));
    let seen = b.stats().expect("counters");
    assert_eq!((seen.tx_packets, seen.rx_packets), (16, 32 + 12 + 32));

    // Packets out: the pool runs dry, says so, and a port may go while they are held.
    let mut held = Vec::new();
    while let Some(packet) = pool.allocate() {
        held.push(packet);
    }
    let mut burst = Burst::new();
    assert!(!pool.allocate_burst(&mut burst, 1) && burst.is_empty());
    assert!(pool.packet(b"x").is_none());
    // The last 19 sent are in the ring still, and the worker's 16 in its cache for the next worker.
    assert_eq!(held.len() + got.len() + 19 + 16, POOL as usize);
    assert_eq!(pool.available(), 16);
    held.clear();
    assert!(pool.allocate_burst(&mut burst, BURST));
    assert!(!pool.allocate_burst(&mut burst, 1), "no room in the burst");
    assert_eq!(burst.len(), BURST);
    drop(burst);

    // Whatever order they go in: the queue of a port that is dropped still works, then takes it along.
    drop((a, b, a1));
    got.clear();
    b0.receive(&mut got);
    assert_eq!(got.len(), 19);
    assert_eq!(got[18].bytes(), frame(62, 60));
    drop(eal);
    drop((a0, b0, b1));
    got.clear();
    assert_eq!((pool.available(), pool.in_use()), (POOL, 0), "no packet was lost");
}
