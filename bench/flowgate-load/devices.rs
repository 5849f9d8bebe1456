//! DPDK for the generator: the ports' other ends, and a pool of packets.

use std::path::Path;
use std::time::Duration;

use flowgate::id::QueueId;
use flowgate::io::affinity;
use flowgate::io::dpdk::{Eal, Mempool, MempoolConfig, Port, PortConfig, Queue, crossed_ports};
use flowgate::io::eal_config::{EalConfig, Hugepages};
use flowgate::io::hugepages;
use flowgate::wire::ethernet::MacAddr;

use super::appliance::DELAYED;
use super::frames::{CLIENT_MAC, SERVER_MAC};
use super::options::{Kind, Options};

/// Bytes of a packet's buffer: headroom, and the longest frame within a tunnel.
const DATA_ROOM: u16 = 2048 + 128;
/// What a packet takes at most: without hugepages each has a page of its own.
const PACKET_MEMORY: usize = 4096;
/// Descriptors a queue: a gateway that is not scheduled for a while finds what came meanwhile.
const RING: u16 = 4096;
const RING_LOG2: u32 = RING.ilog2();
/// How long the gateway may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Packets that each thread keeps at hand.
const CACHE: u32 = 256;

/// Why there are no devices, as one sentence.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// The sides that this process plays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides<T> {
    pub clients: Option<T>,
    pub servers: Option<T>,
    pub targets: Option<T>,
}

impl<T> Sides<T> {
    fn each(self) -> [Option<T>; 3] {
        [self.clients, self.servers, self.targets]
    }
}

/// The names of the sockets that a daemon and the generator share.
pub const SOCKETS: [&str; 3] = ["clients.sock", "servers.sock", "targets.sock"];

/// The device of the daemon, or of the generator, on a socket.
///
/// Those of the daemon's that clients and servers are joined to have the addresses that these send to, as a router's must; a
/// wire's are of no account.
pub fn device(kind: Kind, is_daemon: bool, number: usize, dir: &Path) -> String {
    let socket = dir.join(SOCKETS[number]);
    let socket = socket.display();
    match (kind, is_daemon) {
        (Kind::Memif, _) => {
            let role = if is_daemon { "server" } else { "client" };
            let mac = match [SERVER_MAC, CLIENT_MAC].get(number) {
                Some(mac) if is_daemon => format!(",mac={}", MacAddr(*mac)),
                _ => String::new(),
            };
            format!(
                "net_memif{number},role={role},id=0,socket-abstract=no,socket={socket},rsize={RING_LOG2}{mac}"
            )
        }
        (Kind::Vhost, true) => format!("net_vhost{number},iface={socket},queues=1"),
        (Kind::Vhost, false) => format!("net_virtio_user{number},path={socket},queues=1,queue_size=1024"),
    }
}

/// Running DPDK.
pub struct Devices {
    pub eal: Eal,
    pub pool: Mempool,
    /// Keep the devices open.
    _ports: Vec<Port>,
}

/// Starts DPDK with `devices` virtual or real ones; none for rings within the process.
pub fn start(options: &Options, devices: &[String]) -> Result<(Eal, Mempool), Refusal> {
    // Rings and hands full both ways, and what appliances keep.
    let delayed = if options.appliance_delay > 0 { DELAYED } else { 0 };
    let packets = (7 * usize::from(RING) + delayed).next_power_of_two() - 1;
    let bytes = packets * PACKET_MEMORY;
    // A virtio-user device shows its other end all of this process's memory: in few files, as the protocol has
    // room for eight, and in hugepages, as other memory has none.
    let is_shared = devices.iter().any(|device| device.contains("virtio_user"));
    let mut extra = options.eal.clone();
    extra.extend(is_shared.then(|| "--single-file-segments".to_owned()));
    let hugepages = match (options.no_huge, is_shared) {
        (true, true) => return Err("virtio-user needs hugepages: leave out --no-huge".into()),
        (true, false) => Hugepages::Never,
        (false, true) => Hugepages::Always,
        (false, false) => Hugepages::Auto,
    };
    let config = EalConfig {
        cores: affinity::allowed_cpus()?,
        hugepages,
        memory_mb: u32::try_from(bytes >> 20)? + 64,
        file_prefix: format!("flowgate-load-{}", std::process::id()),
        devices: devices.to_vec(),
        extra,
    };
    let eal = Eal::start(&config.arguments(&hugepages::Hugepages::of_this_machine()?)?)?;
    let pool = Mempool::new(
        &eal,
        &MempoolConfig {
            name: "load".to_owned(),
            count: u32::try_from(packets)?,
            data_room: DATA_ROOM,
            cache: CACHE,
            socket: None,
        },
    )?;
    Ok((eal, pool))
}

fn open(eal: &Eal, pool: &Mempool, device: &str) -> Result<(Port, Queue), Refusal> {
    let config =
        PortConfig { device: device.to_owned(), mtu: None, promiscuous: true, rx_ring: RING, tx_ring: RING };
    let port = Port::open(eal, &config, std::slice::from_ref(pool))?;
    let queue = port.queue(QueueId(0)).ok_or("the port has no queue")?;
    Ok((port, queue))
}

impl Devices {
    /// Opens the ports of the sides that are played, and waits until the gateway is at their other ends.
    pub fn start(options: &Options) -> Result<(Devices, Sides<Queue>), Refusal> {
        let sides = match &options.dir {
            Some(dir) => {
                let device = |number| Some(device(options.devices, false, number, dir));
                Sides { clients: device(0), servers: device(1), targets: device(2) }
            }
            None => Sides {
                clients: options.clients.clone(),
                servers: options.servers.clone(),
                targets: options.appliances.clone(),
            },
        };
        let names: Vec<String> = sides.clone().each().into_iter().flatten().collect();
        let (eal, pool) = start(options, &names)?;
        let mut ports = Vec::new();
        let mut queues = Vec::new();
        for side in sides.each() {
            let Some(name) = side else {
                queues.push(None);
                continue;
            };
            let (port, queue) = open(&eal, &pool, &name)?;
            ports.push(port);
            queues.push(Some(queue));
        }
        for port in &ports {
            port.wait_until_up(PATIENCE).map_err(|error| format!("{error}: is the gateway running?"))?;
        }
        let mut queues = queues.into_iter();
        let mut next = || queues.next().flatten();
        let sides = Sides { clients: next(), servers: next(), targets: next() };
        Ok((Devices { eal, pool, _ports: ports }, sides))
    }

    /// Two sets of three ports, joined by rings: the generator's, and a gateway's.
    pub fn crossed(options: &Options) -> Result<(Devices, Sides<Queue>, Vec<Queue>), Refusal> {
        let (eal, pool) = start(options, &[])?;
        let (mut ports, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for name in ["clients", "servers", "targets"] {
            let [a, b] = crossed_ports(&eal, name, 1, u32::from(RING))?;
            for (name, queues) in [(a, &mut ours), (b, &mut theirs)] {
                let (port, queue) = open(&eal, &pool, &name)?;
                ports.push(port);
                queues.push(queue);
            }
        }
        let mut ours = ours.into_iter();
        let sides = Sides { clients: ours.next(), servers: ours.next(), targets: ours.next() };
        Ok((Devices { eal, pool, _ports: ports }, sides, theirs))
    }
}
