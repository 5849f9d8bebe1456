//! DPDK, its packets and its ports, as the node's configuration wants them.

use std::io;

use flowgate::control::monitor::metrics::Buffers;
use flowgate::control::netlink::Links;
use flowgate::control::node::{self, HugePages, NodeConfig};
use flowgate::control::sizing::{self, HOST_PACKETS, POOL_CACHE, may_need_taps};
use flowgate::control::socket::views::{PortCapabilities, PortView, RssCapabilities};
use flowgate::id::QueueId;
use flowgate::io::dpdk::{
    Eal, InFlight, Link, Mempool, MempoolConfig, Offloads, Port, PortConfig, Prefault, Queue,
};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::{affinity, hugepages};

use super::{Refusal, peers};

/// The running packet I/O.
pub struct Devices {
    /// The ports, in the order of the configuration.
    pub ports: Vec<Port>,
    /// Their names.
    names: Vec<String>,
    /// The kernel's interface that each is, if it is one.
    interfaces: Vec<Option<String>>,
    /// What each worker receives into, and how many packets each of them has.
    pools: Vec<Mempool>,
    packets: u32,
    /// What the frames of the host's network stack are put into; `None` if it sees every port by itself.
    pub host_pool: Option<Mempool>,
    /// DPDK; an idle node does without.
    pub eal: Option<Eal>,
    /// So that the end of a process that is killed does not wait for the ports.
    _sockets: Option<InFlight>,
}

impl Devices {
    /// Those of an idle node: no port is touched and DPDK not started.
    pub fn none() -> Devices {
        Devices {
            ports: Vec::new(),
            names: Vec::new(),
            interfaces: Vec::new(),
            pools: Vec::new(),
            packets: 0,
            host_pool: None,
            eal: None,
            _sockets: None,
        }
    }

    /// DPDK, for a thread that is to know it.
    pub fn eal(&self) -> Result<Eal, Refusal> {
        self.eal.clone().ok_or_else(|| "DPDK is not started".into())
    }

    /// Starts DPDK and the ports, with a queue of each port for each worker.
    pub fn start(config: &NodeConfig) -> Result<Devices, Refusal> {
        let data_room = sizing::data_room(config);
        let packets = sizing::pool_size(config);
        let eal_config = EalConfig {
            cores: all_cores(config)?,
            hugepages: match config.eal.hugepages {
                HugePages::Auto => Hugepages::Auto,
                HugePages::Always => Hugepages::Always,
                HugePages::Never => Hugepages::Never,
            },
            memory_mb: sizing::packet_memory_mb(config),
            file_prefix: config.eal.file_prefix.clone(),
            devices: config.ports.iter().map(|port| port.device.to_string()).collect(),
            extra: config.eal.args.clone(),
        };
        let arguments = eal_config.arguments(&hugepages::Hugepages::of_this_machine()?)?;
        tracing::debug!(name: "dpdk_starts", ?arguments, "DPDK starts");
        peers::remove_left_sockets(config.ports.iter().map(|port| &port.device));
        let without_huge = arguments.iter().any(|argument| argument == "--no-huge");
        let prefault = without_huge.then(|| Prefault::begin(sizing::packet_bytes(config)));
        let eal = Eal::start(&arguments)?;
        // DPDK leaves it any core but the first, a worker's too.
        let its_own = eal.on_its_own_thread(nix::unistd::gettid)?;
        affinity::confine(its_own, &control_cores(config)?)?;
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
        drop(prefault);
        let mut ports = Vec::new();
        for port in &config.ports {
            let is_underlay = config.is_underlay(&port.name);
            let checksum = config.underlay.as_ref().is_some_and(|underlay| underlay.udp_checksum);
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
                Offloads { udp_checksum: is_underlay && checksum },
            )?;
            tracing::info!(
                name: "port_opened", port = %port.name, device = opened.device(), driver = opened.driver(), mtu = opened.mtu(),
                queues = opened.queues(), rss = opened.rss().is_some(),
                udp_checksum = opened.offloads().udp_checksum, "a port is open"
            );
            ports.push(opened);
        }
        let names = config.ports.iter().map(|port| port.name.to_string()).collect();
        let interface = |port: &node::Port| port.device.argument("iface").map(str::to_owned);
        let interfaces = config.ports.iter().map(interface).collect();
        let sockets = InFlight::packet_sockets().unwrap_or_else(|error| {
            tracing::debug!(name: "sockets_not_held", %error, "if the daemon is killed its end waits for its packet sockets");
            None
        });
        Ok(Devices { ports, names, interfaces, pools, packets, host_pool, eal: Some(eal), _sockets: sockets })
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
            .zip(self.names.iter().zip(&self.interfaces))
            .map(|(port, (name, interface))| {
                let stats = port.stats().unwrap_or_default();
                let link = port.link().ok();
                PortView {
                    port_name: name.clone(),
                    device: port.device().to_owned(),
                    driver: port.driver().to_owned(),
                    mac: flowgate::wire::ethernet::MacAddr(port.mac()).to_string(),
                    mtu: port.mtu(),
                    link_up: link.is_some_and(|link| link.up)
                        || interface.as_deref().is_some_and(has_carrier),
                    queues: u16::try_from(port.queues()).unwrap_or(u16::MAX),
                    capabilities: capabilities(port, link),
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

/// Whether the kernel says that an interface has a carrier: DPDK's drivers go by its operational state, which is late by up to a
/// second. Asked only of one that is said to be down.
fn has_carrier(interface: &str) -> bool {
    Links::open().and_then(|mut links| links.has_carrier(interface)).unwrap_or(false)
}

/// What a port's device is and can.
fn capabilities(port: &Port, link: Option<Link>) -> PortCapabilities {
    let (can, rss) = (port.capabilities(), port.rss());
    PortCapabilities {
        firmware: can.firmware.clone(),
        numa_node: port.socket(),
        speed_mbps: link.and_then(|link| link.speed_mbps),
        full_duplex: link.is_some_and(|link| link.full_duplex),
        max_queues: can.max_queues,
        rss: RssCapabilities {
            in_use: rss.is_some(),
            // A device that takes no key has one of its own.
            symmetric: rss.is_some_and(|rss| !rss.key.is_empty()),
            key_length: can.hash_key_length,
            table_size: can.table_size,
            addresses: can.hashes_addresses,
            tcp_ports: can.hashes_tcp,
            udp_ports: can.hashes_udp,
            delivered: rss.is_some_and(|rss| rss.delivered),
        },
    }
}

/// Whether the kernel sees what arrives at a port of this driver as well as we do.
pub fn host_shares(driver: &str) -> bool {
    driver.contains("af_packet")
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
    let allowed = affinity::allowed_cpus()?;
    let free: Vec<u16> = allowed.iter().copied().filter(|cpu| !config.workers.cores.contains(cpu)).collect();
    Ok(if free.is_empty() { allowed } else { free })
}
