//! DPDK in this process: packets in hugepages where there are any, and ports crossed with ports, so that
//! whatever is measured has its own end and the bench stands at the other, as the wire.

use std::sync::atomic::{AtomicU32, Ordering};

use flowgate::id::QueueId;
use flowgate::io::dpdk::{Eal, Mbuf, Mempool, MempoolConfig, Port, PortConfig, Queue, crossed_ports};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{Burst, hugepages};

use crate::Failure;

/// Packets that are on their way through a ring at once at most: one batch.
pub const BATCH: usize = 1024;

/// Twice a batch, of which one place stays empty.
const RING: u32 = 2048;

/// Packets that a thread keeps at hand, at most.
const CACHE: u32 = 512;

/// Memory that EAL begins with, in MiB: the packets and the rings. With hugepages it takes more when
/// `rte_hash` asks for it; without them it can not.
const MEMORY_MB: u32 = 64;

/// DPDK, started.
pub struct Rings {
    pub eal: Eal,
    pub pool: Mempool,
    packets: u32,
}

/// Ports and pools need names of their own.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The two ends of some ports, by port, each end with as many queues as there are workers.
pub struct Ends {
    /// By queue, then by port: what a worker is given.
    pub inside: Vec<Vec<Queue>>,
    /// By queue, then by port: where the bench stands.
    pub outside: Vec<Vec<Queue>>,
}

impl Rings {
    /// Starts DPDK, with so many packets. Without enough hugepages, or if there are to be none, it lies in
    /// ordinary memory, of which `ordinary_mb` MiB are taken besides the packets' for good.
    pub fn start(cpus: &[u16], packets: u32, ordinary_mb: u32, no_huge: bool) -> Result<Rings, Failure> {
        let machine = hugepages::Hugepages::of_this_machine()?;
        let huge = !no_huge && machine.free_mb() >= u64::from(MEMORY_MB);
        let config = EalConfig {
            cores: cpus.to_vec(),
            hugepages: if huge { Hugepages::Always } else { Hugepages::Never },
            memory_mb: if huge { MEMORY_MB } else { MEMORY_MB + ordinary_mb },
            file_prefix: format!("flowgate-bench-{}", std::process::id()),
            devices: Vec::new(),
            extra: Vec::new(),
        };
        let eal = Eal::start(&config.arguments(&machine)?)?;
        let pool = pool(&eal, packets, CACHE)?;
        Ok(Rings { eal, pool, packets })
    }

    /// The same DPDK with other packets, as many: for another thread. None of them are kept at hand by a thread:
    /// those of one that has ended would be missing.
    pub fn with_packets_of_its_own(&self) -> Result<Rings, Failure> {
        let pool = pool(&self.eal, self.packets, 0)?;
        Ok(Rings { eal: self.eal.clone(), pool, packets: self.packets })
    }

    /// Makes so many pairs of crossed ports with so many queues each.
    pub fn ends(&self, ports: usize, queues: u16) -> Result<Ends, Failure> {
        let none = || (0..queues).map(|_| Vec::new()).collect();
        let mut ends = Ends { inside: none(), outside: none() };
        for _ in 0..ports {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let names = crossed_ports(&self.eal, &format!("fg{number}"), queues, RING)?;
            for (name, by_queue) in names.iter().zip([&mut ends.inside, &mut ends.outside]) {
                let port = self.open(name, queues)?;
                for (number, of_queue) in (0..queues).zip(by_queue) {
                    of_queue.push(port.queue(QueueId(number)).ok_or("a new port has all its queues")?);
                }
            }
        }
        Ok(ends)
    }

    fn open(&self, name: &str, queues: u16) -> Result<Port, Failure> {
        let config =
            PortConfig { device: name.to_owned(), mtu: None, promiscuous: true, rx_ring: 256, tx_ring: 256 };
        Ok(Port::open(&self.eal, &config, &vec![self.pool.clone(); usize::from(queues)])?)
    }

    /// A burst of empty packets.
    pub fn empty(&self, count: usize) -> Result<Burst<Mbuf>, Failure> {
        let mut burst = Burst::new();
        if self.pool.allocate_burst(&mut burst, count) {
            Ok(burst)
        } else {
            Err("the pool has run out of packets: some were lost on the way".into())
        }
    }
}

fn pool(eal: &Eal, packets: u32, cache: u32) -> Result<Mempool, Failure> {
    let config = MempoolConfig {
        name: format!("packets{}", MADE.fetch_add(1, Ordering::Relaxed)),
        count: packets,
        data_room: 2048 + 128,
        cache,
        socket: None,
    };
    Ok(Mempool::new(eal, &config)?)
}
