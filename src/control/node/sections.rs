//! The sections of the node's configuration, as types. What one value may be by itself is in its
//! type here; what values say of each other is in `checks.rs`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::addresses::LinkName;
use super::interfaces::{Interface, Route};
use super::values::{Device, EndpointKind, InterfaceAddress, MacAddress, WireId};
use crate::control::model::Name;

/// `[socket]`: where the daemon listens for the command line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Socket {
    /// The Unix socket's path.
    #[serde(default = "Socket::default_path")]
    pub path: PathBuf,
    /// The group whose members may change things by it, as root and the daemon's own user may; without one the
    /// daemon's own.
    pub group: Option<String>,
    /// Who may connect. Whoever does and is no admin looks at everything and changes nothing.
    #[serde(default)]
    pub mode: SocketMode,
}

/// Who may connect to the socket, as the permissions of its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SocketMode {
    /// The daemon's own user, and root.
    #[serde(rename = "0600")]
    Owner,
    /// Members of its group too.
    #[default]
    #[serde(rename = "0660")]
    Group,
    /// Everybody on the machine.
    #[serde(rename = "0666")]
    Everybody,
}

impl SocketMode {
    /// The permissions.
    pub fn bits(self) -> u32 {
        match self {
            SocketMode::Owner => 0o600,
            SocketMode::Group => 0o660,
            SocketMode::Everybody => 0o666,
        }
    }
}

/// `[eal]`: DPDK's environment.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Eal {
    /// Whether packet memory is in huge pages.
    #[serde(default)]
    pub hugepages: HugePages,
    /// Memory for DPDK in MiB; as much as the ports and workers need where it is left out.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub memory_mb: Option<u32>,
    /// Tells the DPDK processes of one machine apart.
    #[serde(default = "Eal::default_file_prefix")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,64}$"))]
    pub file_prefix: String,
    /// More arguments for `rte_eal_init`, other than those that this file has keys for.
    #[serde(default)]
    pub args: Vec<String>,
}

/// Whether packet memory is in huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    /// If the machine has any to spare.
    #[default]
    Auto,
    /// Never.
    Never,
    /// Always: the daemon does not start without.
    Always,
}

/// `[workers]`: the cores that forward.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Workers {
    /// One worker on each of these cores. A node with ports has at least one.
    #[serde(default)]
    pub cores: Vec<u16>,
    /// The cores of everything else; every core that is no worker's where it is left out.
    #[serde(default)]
    pub control_cores: Vec<u16>,
    /// Flows that each worker can hold, rounded up to a power of two.
    #[serde(default = "Workers::default_flows")]
    #[schemars(range(min = 1024, max = 16_777_216))]
    pub flows: u32,
    /// What a worker without packets does.
    #[serde(default)]
    pub idle: WorkerIdle,
    /// With `idle = "sleep"`: how long a worker sleeps at most, in microseconds. Its naps begin at 2 and double until
    /// then; a packet that finds it asleep waits for the rest of one.
    #[serde(default = "Workers::default_sleep_us")]
    #[schemars(range(min = 1, max = 1000))]
    pub sleep_us: u32,
}

/// What a worker without packets does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerIdle {
    /// Polls on: the least delay, a whole core.
    #[default]
    Poll,
    /// Sleeps, longer and longer as nothing comes, and polls again from the first packet on: for machines whose
    /// cores have other things to do too.
    Sleep,
}

/// `[[ports]]`: a port that DPDK opens. `PortId` is its position in the list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Port {
    /// What the rest of this file calls it.
    pub name: Name,
    /// A PCI address, or a virtual device with its arguments.
    pub device: Device,
    /// The largest IP packet that it carries, in bytes. On the target side give it 68 more than the clients' links
    /// have, and at least 1348, so that IPv6 always fits.
    #[serde(default = "Port::default_mtu")]
    #[schemars(range(min = 576, max = 9600))]
    pub mtu: u16,
    /// Receive descriptors of each queue.
    #[serde(default = "Port::default_descriptors")]
    #[schemars(range(min = 64, max = 32_768))]
    pub rx_descriptors: u16,
    /// Transmit descriptors of each queue.
    #[serde(default = "Port::default_descriptors")]
    #[schemars(range(min = 64, max = 32_768))]
    pub tx_descriptors: u16,
}

/// `[underlay]`: the network that the targets are on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Underlay {
    /// The port that leads there.
    pub port: Name,
    /// Our address there and the length of its network's prefix: the source of every tunnel.
    pub address: InterfaceAddress,
    /// The next hop to targets outside of that prefix.
    pub gateway: Option<Ipv4Addr>,
    /// What the kernel calls its side: the network device where the kernel keeps it below the port, else a
    /// tap that the daemon makes, `fg-` and the port's name where nothing is given.
    pub host_interface: Option<LinkName>,
    /// Whether the outer UDP checksum is computed; 0 is sent if not (W-3).
    #[serde(default)]
    pub udp_checksum: bool,
}

/// `[[neighbours]]`: a neighbour that is not asked for by ARP or neighbour discovery. It wins over what
/// the kernel finds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Neighbour {
    /// The interface that it is on, by its name (`lan.100`); none: the underlay's.
    pub interface: Option<String>,
    /// Its address.
    pub address: IpAddr,
    /// Its link-layer address.
    pub mac: MacAddress,
}

/// `[[endpoints]]`: where client traffic enters and leaves (O-4). `EndpointId` is its position in
/// the list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Endpoint {
    /// What people call it.
    pub name: Name,
    /// Its id in GENEVE, unique on the node (W-2, type 1).
    pub id: WireId,
    /// Its attachment id in GENEVE (W-2, type 2).
    #[serde(default)]
    pub attachment_id: WireId,
    /// How packets leave it.
    pub kind: EndpointKind,
    /// For a `wire`: the pair of ports.
    #[serde(default)]
    pub ports: Vec<Name>,
    /// For a `routed` endpoint: where it is on networks.
    #[serde(default)]
    pub interfaces: Vec<Interface>,
    /// For a `routed` endpoint: the ways to networks beyond those of its interfaces.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// The load balancer that its traffic goes to.
    pub load_balancer: Name,
}

/// `[log]`: what the daemon says of itself, on standard error.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Log {
    /// The least severe level that is written. `flowgate log-level` changes it while the daemon runs.
    #[serde(default)]
    pub level: LogLevel,
    /// How a line looks.
    #[serde(default)]
    pub format: LogFormat,
}

/// A log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What did not work.
    Error,
    /// What may not work.
    Warn,
    /// What happened.
    #[default]
    Info,
    /// Why it happened.
    Debug,
    /// Everything.
    Trace,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people on a terminal, else for programs.
    #[default]
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Socket {
    fn default_path() -> PathBuf {
        PathBuf::from("/run/flowgate/flowgated.sock")
    }
}

impl Eal {
    fn default_file_prefix() -> String {
        "flowgate".to_owned()
    }
}

impl Default for Workers {
    fn default() -> Workers {
        Workers {
            cores: Vec::new(),
            control_cores: Vec::new(),
            flows: Workers::default_flows(),
            idle: WorkerIdle::default(),
            sleep_us: Workers::default_sleep_us(),
        }
    }
}

impl Workers {
    fn default_flows() -> u32 {
        1 << 20
    }

    fn default_sleep_us() -> u32 {
        50
    }

    /// Flows that each worker can hold: a power of two.
    #[must_use]
    pub fn flow_capacity(&self) -> u32 {
        self.flows.next_power_of_two()
    }

    /// How long a worker without packets sleeps at most; `None` if it polls on.
    #[must_use]
    pub fn idle_sleep(&self) -> Option<Duration> {
        match self.idle {
            WorkerIdle::Poll => None,
            WorkerIdle::Sleep => Some(Duration::from_micros(u64::from(self.sleep_us))),
        }
    }
}

impl Port {
    fn default_mtu() -> u16 {
        1500
    }

    fn default_descriptors() -> u16 {
        1024
    }
}

impl Underlay {
    /// Whom a packet to `target` is handed to: the target itself inside our prefix, the gateway
    /// outside of it; `None` if there is no gateway.
    #[must_use]
    pub fn next_hop(&self, target: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.address.contains(target) { Some(target) } else { self.gateway }
    }
}

impl Default for Socket {
    fn default() -> Socket {
        Socket { path: Socket::default_path(), group: None, mode: SocketMode::default() }
    }
}

impl Default for Eal {
    fn default() -> Eal {
        Eal {
            hugepages: HugePages::default(),
            memory_mb: None,
            file_prefix: Eal::default_file_prefix(),
            args: Vec::new(),
        }
    }
}

impl LogLevel {
    /// The level as it is written in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}
