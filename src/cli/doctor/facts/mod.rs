//! What the checks go by, read once from a [`Host`].

mod daemon;
mod devices;
mod gateway;
mod machine;
mod network;
mod probe;

pub(super) use daemon::{Daemon, WorkerFacts};
pub(super) use devices::{Companion, Ethtool, PciDevice};
pub(super) use gateway::{Gateway, Missing};
pub(super) use machine::{Cores, Memory, PageSize, RoomKind};
pub(super) use network::Network;
pub(super) use probe::Answered;

use super::host::Host;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

/// Where the package has `scripts/setup`.
const PACKAGED_SETUP: &str = "/usr/share/flowgate/scripts/setup";

/// A host, its configuration and its daemon.
#[derive(Debug)]
pub struct Facts {
    /// Its name.
    pub host: Option<String>,
    pub(super) gateway: Gateway,
    pub(super) daemon: Daemon,
    pub(super) memory: Memory,
    pub(super) cores: Cores,
    /// Network cards, and the ports' devices, by their PCI address.
    pub(super) pci: BTreeMap<String, PciDevice>,
    /// What ethtool says of the interfaces that ports are on.
    pub(super) ethtool: BTreeMap<String, Ethtool>,
    pub(super) vfio: devices::Vfio,
    pub(super) network: Network,
    /// The rights of the daemon where it runs, else our own: `CapEff`.
    pub(super) capabilities: Option<u64>,
    /// Whom the daemon runs as, where it runs.
    pub(super) user: Option<u32>,
    /// What each target answered to pings, and how long the long one was; none: they were not asked for.
    pub(super) probes: Option<BTreeMap<Ipv4Addr, (u16, Answered)>>,
    /// Where `scripts/setup` is: the package's, if it is installed.
    pub(super) setup: String,
    /// What is there and could not be read.
    pub(super) refused: Vec<(String, String)>,
}

impl Facts {
    /// Reads everything: the configuration at `config` first, as what is looked for follows from it. `socket`: the
    /// daemon's, where the configuration does not say.
    #[must_use]
    pub fn read(host: &Host, config: &Path, socket: &Path) -> Facts {
        let name = host.line("/proc/sys/kernel/hostname");
        let gateway = Gateway::read(host, config);
        let daemon = Daemon::read(host, gateway.socket(socket));
        let pci = devices::pci(host, &gateway);
        let network = Network::read(host, &gateway);
        let ethtool = devices::ethtool(host, &gateway, &pci, &network);
        let memory = Memory::read(host, &gateway, daemon.pid());
        let cores = Cores::read(host, &gateway);
        let vfio = devices::Vfio::read(host);
        let (user, capabilities) = rights(host, daemon.pid());
        let user = user.filter(|_| daemon.pid().is_some());
        let probes = probe::of_targets(host, &gateway);
        let setup = host.mode(PACKAGED_SETUP).map_or("scripts/setup", |_| PACKAGED_SETUP).to_owned();
        let refused = host.refused();
        Facts {
            host: name,
            gateway,
            daemon,
            memory,
            cores,
            pci,
            ethtool,
            vfio,
            network,
            capabilities,
            user,
            probes,
            setup,
            refused,
        }
    }

    /// The NUMA nodes of the workers' cores, each with how many workers it has; empty where that is not known.
    pub(super) fn worker_nodes(&self) -> BTreeMap<u16, usize> {
        let mut nodes = BTreeMap::new();
        for core in self.gateway.worker_cores() {
            if let Some(node) = self.cores.node_of(*core) {
                *nodes.entry(node).or_default() += 1;
            }
        }
        nodes
    }
}

/// Whom a process runs as, and its rights; of ourselves if none is named.
fn rights(host: &Host, process: Option<u32>) -> (Option<u32>, Option<u64>) {
    let process = process.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let status = host
        .reduced(&format!("/proc/{process}/status"), |text| machine::lines_of(text, &["Uid:", "CapEff:"]));
    let word = |key: &str| {
        let line = status.as_ref()?.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    let user = word("Uid:").and_then(|user| user.parse().ok());
    (user, word("CapEff:").and_then(|bits| u64::from_str_radix(&bits, 16).ok()))
}

/// The numbers of a list as the kernel writes them: `0-3,8`.
pub(super) fn numbers(list: &str) -> Vec<u16> {
    let mut all = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        // A stride (`0-10/2`) is no list of the kernel's own files.
        if let (Ok(from), Ok(to)) = (from.trim().parse::<u16>(), to.trim().parse::<u16>()) {
            all.extend(from..=to);
        }
    }
    all
}

/// The same the other way: `0-3,8`.
pub(super) fn list(numbers: &[u16]) -> String {
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, to)) if to.checked_add(1) == Some(*number) => *to = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let parts =
        parts.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them_and_written_so() {
        for (text, all) in
            [("0-3,8\n", &[0, 1, 2, 3, 8][..]), ("", &[]), ("5", &[5]), ("0-1,3-4", &[0, 1, 3, 4])]
        {
            assert_eq!(numbers(text), all, "{text}");
            assert_eq!(list(all), text.trim());
        }
        assert!(numbers("(null)\n").is_empty());
    }
}
