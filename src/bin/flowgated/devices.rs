//! DPDK, its packets and its ports, as the node's configuration wants them.

use std::io;

use flowgate::control::host::HOST_RING;
use flowgate::control::monitor::metrics::Buffers;
use flowgate::control::node::{self, HugePages, NodeConfig};
use flowgate::control::socket::views::PortView;
use flowgate::datapath::fragments::HELD;
use flowgate::datapath::outbound::{HANDOFF_RING, SPILL};
use flowgate::datapath::waiting;
use flowgate::id::QueueId;
use flowgate::io::BURST;
use flowgate::io::dpdk::{Eal, Mempool, MempoolConfig, Offloads, Port, PortConfig, Queue};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::hugepages;

use super::Refusal;
use super::host::{HOST_PACKETS, may_need_taps};

/// Bytes before a frame in its buffer: room for the headers that are put in front.
const HEADROOM: u16 = 128;

/// Ethernet header, two VLAN tags and checksum.
const FRAME_OVERHEAD: u16 = 14 + 8 + 4;

/// Packets that a worker's thread keeps at hand.
pub const POOL_CACHE: u32 = 256;

/// What DPDK needs besides packets: its own tables, rings of virtual devices.
const EAL_MEMORY_MB: u32 = 64;

/// The running packet I/O.
pub struct Devices {
    /// The ports, in the order of the configuration.
    pub ports: Vec<Port>,
    /// Their names.
    names: Vec<String>,
    /// What each worker receives into, and how many packets each of them has.
    pools: Vec<Mempool>,
    packets: u32,
    /// What the frames of the host's network stack are put into; `None` if it sees every port by itself.
    pub host_pool: Option<Mempool>,
    pub eal: Eal,
}

impl Devices {
    /// Starts DPDK and the ports, with a queue of each port for each worker.
    pub fn start(config: &NodeConfig) -> Result<Devices, Refusal> {
        let data_room = config.ports.iter().map(data_room).max().unwrap_or(0);
        let packets = pool_size(config);
        let eal_config = EalConfig {
            cores: all_cores(config)?,
            hugepages: match config.eal.hugepages {
                HugePages::Auto => Hugepages::Auto,
                HugePages::Always => Hugepages::Always,
                HugePages::Never => Hugepages::Never,
            },
            memory_mb: config.eal.memory_mb.unwrap_or_else(|| memory_mb(config, packets, data_room)),
            file_prefix: config.eal.file_prefix.clone(),
            devices: config.ports.iter().map(|port| port.device.to_string()).collect(),
            extra: config.eal.args.clone(),
        };
        let arguments = eal_config.arguments(&hugepages::Hugepages::of_this_machine()?)?;
        tracing::debug!(name: "dpdk_starts", ?arguments, "DPDK starts");
        let eal = Eal::start(&arguments)?;
        tracing::info!(name: "dpdk_started", version = Eal::version(), hugepages = eal.has_hugepages(), "DPDK has started");

        let mut pools = Vec::new();
        for worker in 0..config.workers.cores.len() {
            pools.push(Mempool::new(
                &eal,
                &MempoolConfig {
                    name: format!("flowgate-{worker}"),
                    count: packets,
                    data_room,
                    cache: POOL_CACHE,
                    socket: None,
                },
            )?);
        }
        let host_pool = if may_need_taps(config) {
            Some(Mempool::new(
                &eal,
                &MempoolConfig {
                    name: "flowgate-host".to_owned(),
                    count: HOST_PACKETS,
                    data_room,
                    cache: POOL_CACHE,
                    socket: None,
                },
            )?)
        } else {
            None
        };
        let mut ports = Vec::new();
        for port in &config.ports {
            let is_underlay = port.name == config.underlay.port;
            let opened = Port::open_with(
                &eal,
                &PortConfig {
                    device: port.device.to_string(),
                    mtu: Some(port.mtu),
                    promiscuous: !is_underlay,
                    rx_ring: port.rx_descriptors,
                    tx_ring: port.tx_descriptors,
                },
                &pools,
                Offloads { udp_checksum: is_underlay && config.underlay.udp_checksum },
            )?;
            tracing::info!(
                name: "port_opened", port = %port.name, device = opened.device(), driver = opened.driver(), mtu = opened.mtu(),
                queues = opened.queues(), rss = opened.rss().is_some(),
                udp_checksum = opened.offloads().udp_checksum, "a port is open"
            );
            ports.push(opened);
        }
        let names = config.ports.iter().map(|port| port.name.to_string()).collect();
        Ok(Devices { ports, names, pools, packets, host_pool, eal })
    }

    /// Bytes of a page that a worker's packets lie in; 0 if DPDK does not tell.
    pub fn page_size(&self, worker: u16) -> u64 {
        self.pools.get(usize::from(worker)).map_or(0, Mempool::page_size)
    }

    /// Each worker's packet buffers.
    pub fn buffers(&self) -> Vec<Buffers> {
        let all = u64::from(self.packets);
        self.pools.iter().map(|pool| Buffers { in_use: u64::from(pool.in_use()), all }).collect()
    }

    /// A worker's queue of every port.
    pub fn queues(&self, worker: u16) -> Result<Vec<Queue>, Refusal> {
        self.ports
            .iter()
            .map(|port| {
                port.queue(QueueId(worker)).ok_or_else(|| {
                    format!("port '{}' has no queue {worker} for worker {worker}", port.device()).into()
                })
            })
            .collect()
    }

    /// The ports as they are shown.
    pub fn views(&self) -> Vec<PortView> {
        self.ports
            .iter()
            .zip(&self.names)
            .map(|(port, name)| {
                let stats = port.stats().unwrap_or_default();
                PortView {
                    port_name: name.clone(),
                    device: port.device().to_owned(),
                    driver: port.driver().to_owned(),
                    mac: flowgate::wire::ethernet::MacAddr(port.mac()).to_string(),
                    mtu: port.mtu(),
                    link_up: port.link().is_ok_and(|link| link.up),
                    queues: u16::try_from(port.queues()).unwrap_or(u16::MAX),
                    received: stats.rx_packets,
                    received_bytes: stats.rx_bytes,
                    sent: stats.tx_packets,
                    sent_bytes: stats.tx_bytes,
                    missed: stats.rx_missed + stats.rx_no_buffer,
                    no_buffer: stats.rx_no_buffer,
                    receive_errors: stats.rx_errors,
                    send_errors: stats.tx_errors,
                }
            })
            .collect()
    }
}

/// Whether the kernel sees what arrives at a port of this driver as well as we do.
pub fn host_shares(driver: &str) -> bool {
    driver.contains("af_packet")
}

/// Bytes of a buffer that takes the port's longest frame.
fn data_room(port: &node::Port) -> u16 {
    const LEAST: u16 = 2048;
    (port.mtu + FRAME_OVERHEAD).max(LEAST) + HEADROOM
}

/// Packets in each worker's pool: all its descriptors full both ways, a burst of each port in hand, what
/// that may be split into, fragments that wait for their first, what waits for neighbours, what it has given
/// to other workers and to the host, and the cache.
fn pool_size(config: &NodeConfig) -> u32 {
    let descriptors: u32 =
        config.ports.iter().map(|port| u32::from(port.rx_descriptors) + u32::from(port.tx_descriptors)).sum();
    let other_workers = config.workers.cores.len().saturating_sub(1);
    let waiting = SPILL + HELD + waiting::PACKETS + other_workers * HANDOFF_RING + HOST_RING;
    let in_hand = 2 * BURST * config.ports.len() + waiting;
    let packets =
        descriptors.saturating_add(u32::try_from(in_hand).unwrap_or(u32::MAX)).saturating_add(2 * POOL_CACHE);
    // One less than a power of two is what DPDK's rings waste least with.
    packets.checked_next_power_of_two().unwrap_or(u32::MAX) - 1
}

fn memory_mb(config: &NodeConfig, packets: u32, data_room: u16) -> u32 {
    /// What a packet takes besides its data: its mbuf and the pool's own header.
    const PACKET_OVERHEAD: u64 = 256;
    let workers = config.workers.cores.len() as u64;
    let of_host = if may_need_taps(config) { u64::from(HOST_PACKETS) } else { 0 };
    let bytes = (workers * u64::from(packets) + of_host) * (u64::from(data_room) + PACKET_OVERHEAD);
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX) + EAL_MEMORY_MB
}

/// The workers' cores, and the control core's, or any, to which EAL's own threads are confined.
fn all_cores(config: &NodeConfig) -> io::Result<Vec<u16>> {
    let mut cores = config.workers.cores.clone();
    cores.extend(control_cores(config)?);
    cores.sort_unstable();
    cores.dedup();
    Ok(cores)
}

/// The cores of everything that is not a worker: those configured, else all that are allowed and no
/// worker's, else all.
pub fn control_cores(config: &NodeConfig) -> io::Result<Vec<u16>> {
    if !config.workers.control_cores.is_empty() {
        return Ok(config.workers.control_cores.clone());
    }
    let allowed = flowgate::io::affinity::allowed_cpus()?;
    let free: Vec<u16> = allowed.iter().copied().filter(|cpu| !config.workers.cores.contains(cpu)).collect();
    Ok(if free.is_empty() { allowed } else { free })
}
