//! The null device: an endless source and a sink, with RSS. It shows that a busy port gives back what
//! it takes, and what a port tells of a device that hashes. One test: EAL starts once a process.
#![cfg(feature = "dpdk")]

use std::time::Duration;

use flowgate::id::QueueId;
use flowgate::io::dpdk::{Eal, Mempool, MempoolConfig, Port, PortConfig};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{BURST, Burst, PacketBuf, PortQueue, affinity, hugepages};

const MAPPING: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

unsafe extern "C" {
    fn rte_log_get_stream() -> *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

#[test]
fn a_million_packets_go_round_in_a_pool_of_a_thousand() {
    let config = EalConfig {
        cores: affinity::allowed_cpus().expect("affinity"),
        hugepages: Hugepages::Never,
        memory_mb: 64,
        file_prefix: format!("flowgate-null-{}", std::process::id()),
        devices: vec!["net_null0,size=98,copy=1".to_owned()],
        extra: Vec::new(),
    };
    let args = config.arguments(&hugepages::Hugepages::default()).expect("arguments");
    let eal = Eal::start(&args).expect("EAL starts without hugepages");
    // DPDK's own choice goes to syslog too, which opens sockets and files that a worker may not open.
    // SAFETY: both are there as long as the program.
    assert!(unsafe { rte_log_get_stream() == stderr }, "what DPDK says later goes to standard error");
    assert!(!eal.has_hugepages());
    assert!(Eal::sleeps_are_ours(), "or DPDK's start takes 100 ms more on some machines");
    assert!(Eal::unmapping_is_ours(), "or a memif's peer that goes takes memory from under the workers");
    let (asked, unmapping) = std::sync::mpsc::channel();
    eal.wait_before_unmapping(move || asked.send(std::thread::current().id()).unwrap()).expect("told");
    let [here, there] = [0, 1].map(|_| {
        // SAFETY: new memory of nobody's.
        unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, MAPPING, -1, 0) as usize }
    });
    // SAFETY: mapped above, and used by nobody.
    let unmap = |at: usize| unsafe { libc::munmap(at as *mut libc::c_void, 4096) };
    assert_eq!(unmap(here), 0);
    unmapping.try_recv().expect_err("other threads wait for nobody");
    let its_own = move || (std::thread::current().id(), unmap(there));
    let (its_own, unmapped) = eal.on_its_own_thread(its_own).expect("done");
    assert_eq!((unmapping.try_recv(), unmapped), (Ok(its_own), 0));
    let pool = |name: &str| {
        let config = MempoolConfig {
            name: name.to_owned(),
            count: 1023,
            data_room: 2048 + 128,
            cache: 32,
            socket: None,
        };
        Mempool::new(&eal, &config).expect("memory for a thousand packets")
    };
    let pools = [pool("zero"), pool("one")];
    let config = PortConfig {
        device: config.devices[0].clone(),
        mtu: None,
        promiscuous: true,
        rx_ring: 512,
        tx_ring: 512,
    };
    let port = Port::open(&eal, &config, &pools).expect("port");
    assert_eq!((port.device(), port.driver()), ("net_null0", "net_null"));
    let link = port.wait_until_up(Duration::from_secs(1)).expect("up");
    assert_eq!((link.up, link.speed_mbps), (true, Some(10_000)));

    // F-2: the key is the symmetric one; DPDK 22.11's null device takes none and says so.
    let rss = port.rss().expect("the null device has RSS").clone();
    let expected: &[u8] = if Eal::version().starts_with("DPDK 22.") { &[] } else { &[0x6d, 0x5a].repeat(20) };
    assert_eq!(rss.key, expected);
    assert_eq!(rss.table.len(), 128);
    assert!(rss.table.iter().all(|queue| queue.index() < 2));

    let mut queue = port.queue(QueueId(1)).expect("free");
    let mut burst = Burst::new();
    let mut sum = 0;
    for _ in 0..1_000_000 / BURST {
        queue.receive(&mut burst);
        assert_eq!(burst.len(), BURST);
        for packet in &mut burst {
            packet.prefetch();
            assert!(packet.prepend(68).is_some());
            sum += packet.bytes().len();
        }
        assert_eq!(queue.transmit(&mut burst), BURST);
    }
    assert_eq!(sum, 1_000_000 * (98 + 68));
    assert_eq!((pools[0].in_use(), pools[1].in_use()), (0, 0));
    let stats = port.stats().expect("counters");
    assert_eq!((stats.rx_packets, stats.tx_packets, stats.rx_no_buffer), (1_000_000, 1_000_000, 0));

    // An empty pool: nothing comes, nothing breaks.
    let mut held = Vec::new();
    while let Some(packet) = pools[1].allocate() {
        held.push(packet);
    }
    queue.receive(&mut burst);
    assert!(burst.is_empty());
    drop(held);
    queue.receive(&mut burst);
    assert_eq!(burst.len(), BURST);
    queue.discard(&mut burst);
    assert_eq!(pools[1].in_use(), 0);
}
