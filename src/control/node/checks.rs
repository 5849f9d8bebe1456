//! What the values of a node's configuration say of each other.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::RangeInclusive;

use super::{ConfigError, Endpoint, EndpointKind, NodeConfig, Port, WorkerIdle};
use crate::control::model::{Name, State};

/// Workers that one node can have.
const MAX_WORKERS: usize = 128;
/// Ports that one node can have: DPDK's own limit, as distributions build it.
const MAX_PORTS: usize = 32;
/// Bytes in the path of a Unix socket: the kernel's `sun_path` without its final zero.
const MAX_SOCKET_PATH: usize = 107;

/// EAL arguments that would contradict what the file says elsewhere, and where it says it.
const OWN_EAL_ARGUMENTS: [(&str, &str); 17] = [
    ("-l", "workers.cores"),
    ("-c", "workers.cores"),
    ("--lcores", "workers.cores"),
    ("--main-lcore", "workers.control_cores"),
    ("-a", "ports"),
    ("-b", "ports"),
    ("--allow", "ports"),
    ("--block", "ports"),
    ("--vdev", "ports"),
    ("--no-pci", "ports"),
    ("-m", "eal.memory_mb"),
    ("--socket-mem", "eal.memory_mb"),
    ("--huge-dir", "eal.hugepages"),
    ("--no-huge", "eal.hugepages"),
    ("--in-memory", "eal.hugepages"),
    ("--file-prefix", "eal.file_prefix"),
    ("--proc-type", "eal.file_prefix"),
];

impl NodeConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.check_hash_seed()?;
        self.check_socket()?;
        self.check_elbv2()?;
        self.check_flow_log()?;
        self.check_privileges()?;
        self.check_eal()?;
        if self.is_idle() {
            return self.check_idle();
        }
        self.check_workers()?;
        self.check_ports()?;
        self.check_underlay()?;
        self.check_endpoints()?;
        self.check_interfaces()?;
        self.check_routes()?;
        self.check_neighbours()?;
        self.check_every_port_is_used()
    }

    /// That every endpoint's load balancer is one of `state`, as long as that is the operator's document
    /// as it was written: a slip is told before EAL starts. What was changed since may have been changed on
    /// purpose; an endpoint whose load balancer was deleted drops its packets, and does so after a restart. Nor
    /// is it held against a node that has none at all yet: they may be made by the socket or by AWS's API.
    ///
    /// # Errors
    /// The first endpoint that leads nowhere.
    pub fn agrees_with(&self, state: &State) -> Result<(), ConfigError> {
        if state.generation() > 0 || state.load_balancers().next().is_none() {
            return Ok(());
        }
        for (position, endpoint) in self.endpoints.iter().enumerate() {
            let name = &endpoint.load_balancer;
            if state.load_balancer(name.as_str()).is_err() {
                let known: Vec<_> = state.load_balancers().map(|balancer| balancer.name.as_str()).collect();
                return Err(ConfigError::at(
                    format!("endpoints[{position}].load_balancer"),
                    format!("there is no load balancer '{name}'; there are [{}]", known.join(", ")),
                ));
            }
        }
        Ok(())
    }

    /// What would be for a port that is not there is most likely one mistyped or left out.
    fn check_idle(&self) -> Result<(), ConfigError> {
        if self.neighbours.is_empty() {
            return Ok(());
        }
        Err(ConfigError::at("neighbours", "there are some, and no port that they could be on"))
    }

    fn check_hash_seed(&self) -> Result<(), ConfigError> {
        if self.hash_seed.is_some() && self.hash_seed_file.is_some() {
            let message = "hash_seed is given too, and only one of them can hold the seed";
            return Err(ConfigError::at("hash_seed_file", message));
        }
        Ok(())
    }

    fn check_socket(&self) -> Result<(), ConfigError> {
        let length = self.socket.path.as_os_str().len();
        if (1..=MAX_SOCKET_PATH).contains(&length) {
            return Ok(());
        }
        let message = format!("it has {length} bytes; a Unix socket's path has 1 to {MAX_SOCKET_PATH}");
        Err(ConfigError::at("socket.path", message))
    }

    fn check_eal(&self) -> Result<(), ConfigError> {
        if let Some(memory) = self.eal.memory_mb {
            within("eal.memory_mb", memory, 16..=1_048_576)?;
        }
        let prefix = &self.eal.file_prefix;
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=64).contains(&prefix.len()) || !prefix.chars().all(allowed) {
            let message = format!("'{prefix}' must be 1 to 64 letters, digits, hyphens and underscores");
            return Err(ConfigError::at("eal.file_prefix", message));
        }
        for (position, argument) in self.eal.args.iter().enumerate() {
            check_eal_argument(argument)
                .map_err(|message| ConfigError::at(format!("eal.args[{position}]"), message))?;
        }
        Ok(())
    }

    fn check_workers(&self) -> Result<(), ConfigError> {
        let workers = &self.workers;
        if workers.cores.is_empty() || workers.cores.len() > MAX_WORKERS {
            let message =
                format!("there are {} cores; there must be 1 to {MAX_WORKERS}", workers.cores.len());
            return Err(ConfigError::at("workers.cores", message));
        }
        let twice = |core: &u16| format!("core {core} is listed twice");
        unique("workers.cores", "", &workers.cores, twice)?;
        unique("workers.control_cores", "", &workers.control_cores, twice)?;
        // A worker that sleeps leaves time on its core for the control side.
        if workers.idle == WorkerIdle::Poll {
            for (position, core) in workers.control_cores.iter().enumerate() {
                if workers.cores.contains(core) {
                    return Err(ConfigError::at(
                        format!("workers.control_cores[{position}]"),
                        format!(
                            "core {core} is a worker's, which polls and leaves no time for anything else; \
                             give another core or set idle = \"sleep\""
                        ),
                    ));
                }
            }
        }
        within("workers.flows", workers.flows, 1024..=16_777_216)?;
        within("tables.adopt_seconds", self.tables.adopt_seconds, 0..=6000)?;
        within("workers.sleep_us", workers.sleep_us, 1..=1000)
    }

    fn check_ports(&self) -> Result<(), ConfigError> {
        if self.ports.is_empty() || self.ports.len() > MAX_PORTS {
            let message = format!("there are {}; there must be 1 to {MAX_PORTS}", self.ports.len());
            return Err(ConfigError::at("ports", message));
        }
        unique("ports", ".name", self.ports.iter().map(|port| &port.name), |name| {
            format!("another port is called '{name}' already")
        })?;
        unique("ports", ".device", self.ports.iter().map(|port| port.device.name()), |device| {
            format!("another port has the device '{device}' already")
        })?;
        // Two virtual devices on one kernel interface would each see what the other sends.
        let interfaces = self.ports.iter().enumerate().filter_map(|(position, port)| {
            port.device.argument("iface").map(|interface| (position, interface))
        });
        let mut seen = HashSet::new();
        for (position, interface) in interfaces {
            if !seen.insert(interface) {
                let message = format!("another port is on the interface '{interface}' already");
                return Err(ConfigError::at(format!("ports[{position}].device"), message));
            }
        }
        for (position, port) in self.ports.iter().enumerate() {
            let at = |key: &str| format!("ports[{position}].{key}");
            within(&at("mtu"), port.mtu.into(), 576..=9600)?;
            within(&at("rx_descriptors"), port.rx_descriptors.into(), 64..=32_768)?;
            within(&at("tx_descriptors"), port.tx_descriptors.into(), 64..=32_768)?;
        }
        Ok(())
    }

    fn check_underlay(&self) -> Result<(), ConfigError> {
        let Some(underlay) = &self.underlay else {
            let message = "there is none; a node with ports has a network that its targets are on";
            return Err(ConfigError::at("underlay", message));
        };
        self.check_port_exists("underlay.port", &underlay.port)?;
        let Some(gateway) = underlay.gateway else { return Ok(()) };
        let why = if gateway == underlay.address.address {
            "is our own address"
        } else if !underlay.address.contains(gateway) {
            "is not on that network"
        } else {
            return Ok(());
        };
        let message =
            format!("'{gateway}' {why}; it must be another station on the network of {}", underlay.address);
        Err(ConfigError::at("underlay.gateway", message))
    }

    fn check_endpoints(&self) -> Result<(), ConfigError> {
        if self.endpoints.is_empty() || self.endpoints.len() > usize::from(u16::MAX) {
            let message = format!("there are {}; there must be 1 to 65535", self.endpoints.len());
            return Err(ConfigError::at("endpoints", message));
        }
        unique("endpoints", ".name", self.endpoints.iter().map(|endpoint| &endpoint.name), |name| {
            format!("another endpoint is called '{name}' already")
        })?;
        unique("endpoints", ".id", self.endpoints.iter().map(|endpoint| endpoint.id), |id| {
            format!("another endpoint has the id {id} already")
        })?;
        let mut owner_of: HashMap<&Name, &Endpoint> = HashMap::new();
        let wires = self.endpoints.iter().enumerate().filter(|(_, e)| e.kind == EndpointKind::Wire);
        for (position, endpoint) in wires {
            let at = format!("endpoints[{position}].ports");
            if endpoint.ports.len() != 2 {
                let message = format!("there are {}; a wire has 2", endpoint.ports.len());
                return Err(ConfigError::at(at, message));
            }
            for (index, port) in endpoint.ports.iter().enumerate() {
                let at = format!("{at}[{index}]");
                self.check_port_exists(&at, port)?;
                if self.is_underlay(port) {
                    let message = format!("'{port}' is the underlay's port and cannot be an endpoint's too");
                    return Err(ConfigError::at(at, message));
                }
                if let Some(owner) = owner_of.insert(port, endpoint) {
                    let message = format!("'{port}' is a port of the endpoint '{}' already", owner.name);
                    return Err(ConfigError::at(at, message));
                }
            }
        }
        Ok(())
    }

    /// A port of no use is most likely a name mistyped elsewhere.
    fn check_every_port_is_used(&self) -> Result<(), ConfigError> {
        let mut used: HashSet<&Name> = self.endpoints.iter().flat_map(|e| &e.ports).collect();
        used.extend(self.endpoints.iter().flat_map(|e| &e.interfaces).map(|interface| &interface.port));
        used.extend(self.underlay.iter().map(|underlay| &underlay.port));
        match self.ports.iter().position(|Port { name, .. }| !used.contains(name)) {
            None => Ok(()),
            Some(position) => {
                let name = &self.ports[position].name;
                let message = format!("'{name}' is neither the underlay's port nor an endpoint's");
                Err(ConfigError::at(format!("ports[{position}].name"), message))
            }
        }
    }

    pub(super) fn check_port_exists(&self, at: &str, name: &Name) -> Result<(), ConfigError> {
        if self.ports.iter().any(|port| port.name == *name) {
            return Ok(());
        }
        let known: Vec<_> = self.ports.iter().map(|port| port.name.as_str()).collect();
        let message = format!("there is no port '{name}'; there are [{}]", known.join(", "));
        Err(ConfigError::at(at, message))
    }
}

fn check_eal_argument(argument: &str) -> Result<(), String> {
    let given = argument.split('=').next().unwrap_or_default();
    // A short option may have its value right behind it: -l0-3.
    let is = |own: &str| given == own || (!own.starts_with("--") && given.starts_with(own));
    let long = given.starts_with("--");
    match OWN_EAL_ARGUMENTS.iter().find(|(own, _)| is(own) && own.starts_with("--") == long) {
        None => Ok(()),
        Some((own, key)) => Err(format!("'{own}' is set by {key} and cannot be given here")),
    }
}

fn within(at: &str, value: u32, range: RangeInclusive<u32>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let message = format!("{value} must be between {} and {}", range.start(), range.end());
    Err(ConfigError::at(at, message))
}

/// That no two of `values` are the same; `list[N]key` is where the second one is.
fn unique<T: Hash + Eq + Copy>(
    list: &str,
    key: &str,
    values: impl IntoIterator<Item = T>,
    message: impl Fn(T) -> String,
) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for (position, value) in values.into_iter().enumerate() {
        if !seen.insert(value) {
            return Err(ConfigError::at(format!("{list}[{position}]{key}"), message(value)));
        }
    }
    Ok(())
}
