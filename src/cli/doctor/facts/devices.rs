//! The ports' devices: cards on the PCI bus, and what the kernel says of interfaces that it keeps.

use super::super::host::Host;
use super::machine::lines_of;
use super::{Gateway, Network};
use std::collections::BTreeMap;
use std::process::Command;

const PCI: &str = "/sys/bus/pci/devices";

/// The class of network controllers, its first byte.
const NETWORK_CLASS: &str = "0x02";

/// A device on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciDevice {
    /// Maker and model: `8086:1592`.
    pub id: String,
    /// Its driver; none: it has none.
    pub driver: Option<String>,
    /// Its NUMA node; none: it has none, or the firmware does not say.
    pub node: Option<u16>,
    /// Its IOMMU group.
    pub group: Option<String>,
    /// The other devices of the group. Bridges are no matter.
    pub companions: Vec<Companion>,
    /// The kernel's interfaces on it.
    pub interfaces: Vec<String>,
    /// Its lanes and their speed, in GT/s, now and at most.
    pub lanes: Option<(Lanes, Lanes)>,
    /// What binds it to its driver at each boot: driverctl, or the unit of `scripts/setup`.
    pub kept_by: Option<&'static str>,
}

/// A device of the same IOMMU group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// Where it is.
    pub address: String,
    /// Its driver.
    pub driver: Option<String>,
    /// It is a network card, and so no disk that the host lives on.
    pub is_network: bool,
}

/// Lanes of PCI Express.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Lanes {
    /// How many.
    pub width: u16,
    /// Gigatransfers a second of each, in tenths.
    pub speed: u32,
}

impl Eq for Lanes {}

impl PciDevice {
    /// Whether it is of Mellanox, whose driver DPDK shares with the kernel.
    pub fn is_mellanox(&self) -> bool {
        self.id.starts_with("15b3:")
    }

    /// Whether it is of Intel's E800 series, which loads a package at its start.
    pub fn is_e800(&self) -> bool {
        const MODELS: [&str; 10] =
            ["1591", "1592", "1593", "1599", "159a", "159b", "188a", "188b", "1891", "1888"];
        self.id.strip_prefix("8086:").is_some_and(|model| MODELS.contains(&model))
    }

    /// Whether a driver of its hands it to programs such as DPDK.
    pub fn is_handed_out(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| HANDING_OUT.contains(&driver))
    }
}

/// Drivers that hand a device to a program.
const HANDING_OUT: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

/// Cards, and the ports' devices whatever they are.
pub(super) fn pci(host: &Host, gateway: &Gateway) -> BTreeMap<String, PciDevice> {
    let ports: Vec<&str> = gateway.pci_ports().map(|(_, address)| address).collect();
    let mut devices = BTreeMap::new();
    for address in host.names(PCI).unwrap_or_default() {
        let at = |file: &str| format!("{PCI}/{address}/{file}");
        let class = host.line(&at("class")).unwrap_or_default();
        if class.starts_with(NETWORK_CLASS) || ports.contains(&address.as_str()) {
            devices.insert(address.clone(), device(host, &address));
        }
    }
    devices
}

fn device(host: &Host, address: &str) -> PciDevice {
    let at = |file: &str| format!("{PCI}/{address}/{file}");
    let id = |file: &str| {
        host.line(&at(file)).map(|id| id.trim_start_matches("0x").to_owned()).unwrap_or_default()
    };
    let group = host.link(&at("iommu_group"));
    let mut companions = Vec::new();
    if let Some(group) = &group {
        let members = host.names(&format!("/sys/kernel/iommu_groups/{group}/devices")).unwrap_or_default();
        for member in members.into_iter().filter(|member| member != address) {
            let class = host.line(&format!("{PCI}/{member}/class")).unwrap_or_default();
            // PCI bridges may stay the kernel's.
            if !class.starts_with("0x0604") {
                let driver = host.link(&format!("{PCI}/{member}/driver"));
                let is_network = class.starts_with(NETWORK_CLASS);
                companions.push(Companion { address: member, driver, is_network });
            }
        }
    }
    let lanes = |when: &str| {
        let width = host.number(&at(&format!("{when}_link_width")))?;
        let speed = host.line(&at(&format!("{when}_link_speed")))?;
        let (whole, tenths) =
            speed.split_whitespace().next()?.split_once('.').unwrap_or((speed.split(' ').next()?, "0"));
        Some(Lanes { width, speed: whole.parse::<u32>().ok()? * 10 + tenths.parse::<u32>().ok()? })
    };
    PciDevice {
        id: format!("{}:{}", id("vendor"), id("device")),
        driver: host.link(&at("driver")),
        node: host.number::<i32>(&at("numa_node")).and_then(|node| u16::try_from(node).ok()),
        companions,
        group,
        interfaces: host.names(&at("net")).unwrap_or_default(),
        lanes: lanes("current").zip(lanes("max")),
        kept_by: kept_by(host, address),
    }
}

/// What binds a card at each boot.
fn kept_by(host: &Host, address: &str) -> Option<&'static str> {
    const UNIT: &str = "flowgate-bind.service";
    const UNITS: &str = "/etc/systemd/system";
    if host.text(&format!("/etc/driverctl.d/{address}")).is_some() {
        return Some("driverctl");
    }
    let lines = host.reduced(&format!("{UNITS}/{UNIT}"), |text| lines_of(text, &["ExecStart="]))?;
    host.link(&format!("{UNITS}/multi-user.target.wants/{UNIT}"))?;
    let binds = |line: &str| line.split_whitespace().skip(1).eq(["-b", "vfio-pci", address]);
    lines.lines().any(binds).then_some(UNIT)
}

/// What handing out devices needs of the kernel.
#[derive(Debug, Default)]
pub struct Vfio {
    /// The driver vfio-pci is there.
    pub is_loaded: bool,
    /// Its devices, `/dev/vfio/…`; none: there is no such folder.
    pub files: Option<Vec<String>>,
    /// It hands out devices without an IOMMU; none: the switch is not there.
    pub without_iommu: Option<bool>,
    /// How many IOMMU groups there are.
    pub groups: usize,
    /// The verbs of RDMA, which Mellanox's driver for DPDK goes by, are there.
    pub has_verbs: bool,
    /// The package that the E800 series loads is there.
    pub has_ddp_package: bool,
}

impl Vfio {
    pub(super) fn read(host: &Host) -> Vfio {
        let is_there = |path: &str| host.names(path).is_some();
        let packages = ["/lib/firmware/updates/intel/ice/ddp", "/lib/firmware/intel/ice/ddp"];
        let is_package = |name: &String| name.starts_with("ice") && name.contains(".pkg");
        let groups = host.names("/sys/kernel/iommu_groups").unwrap_or_default();
        // Without an IOMMU vfio makes groups of its own, and names them so.
        let is_real = |group: &&String| {
            host.line(&format!("/sys/kernel/iommu_groups/{group}/name"))
                .is_none_or(|name| name != "vfio-noiommu")
        };
        Vfio {
            is_loaded: is_there("/sys/bus/pci/drivers/vfio-pci"),
            files: host.names("/dev/vfio"),
            without_iommu: host
                .line("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode")
                .map(|switch| switch == "Y" || switch == "1"),
            groups: groups.iter().filter(is_real).count(),
            has_verbs: host
                .names("/dev/infiniband")
                .is_some_and(|names| names.iter().any(|name| name.starts_with("uverbs"))),
            has_ddp_package: packages
                .iter()
                .any(|folder| host.names(folder).is_some_and(|names| names.iter().any(is_package))),
        }
    }
}

/// What ethtool says of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ethtool {
    /// Its firmware's version.
    pub firmware: Option<String>,
    /// Bytes of the key that it hashes with.
    pub key_length: Option<usize>,
    /// Queues that it has at most.
    pub max_queues: Option<u16>,
}

/// Asks ethtool of every interface that a port is on.
pub(super) fn ethtool(
    host: &Host,
    gateway: &Gateway,
    pci: &BTreeMap<String, PciDevice>,
    network: &Network,
) -> BTreeMap<String, Ethtool> {
    let on_cards = gateway
        .pci_ports()
        .filter_map(|(_, address)| pci.get(address))
        .flat_map(|device| device.interfaces.iter());
    let kept = gateway.ports().iter().filter_map(|port| port.device.argument("iface").map(str::to_owned));
    let names: Vec<String> = on_cards.cloned().chain(kept).collect();
    // Only of what the kernel has: a name is a word of ethtool's command line.
    let known = names.into_iter().filter(|name| network.links.iter().any(|link| link.name == *name));
    known.map(|name| (name.clone(), of_interface(host, &name))).collect()
}

fn of_interface(host: &Host, name: &str) -> Ethtool {
    let ask = |flag: &str, as_name: &str, reduce: fn(&str) -> String| {
        host.answer(&format!("ethtool/{name}/{as_name}"), || {
            let output = Command::new("ethtool").args([flag, name]).output().ok()?;
            output.status.success().then(|| reduce(&String::from_utf8_lossy(&output.stdout)))
        })
    };
    let driver = ask("-i", "driver", |text| lines_of(text, &["driver:", "firmware-version:"]));
    let value = |key: &str| {
        let line = driver.as_ref()?.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty() && value != "N/A")
    };
    let key = ask("-x", "rss-key-bytes", key_bytes);
    let channels = ask("-l", "most-queues", most_queues);
    Ethtool {
        firmware: value("firmware-version"),
        key_length: key.and_then(|bytes| bytes.trim().parse().ok()).filter(|bytes| *bytes > 0),
        max_queues: channels.and_then(|queues| queues.trim().parse().ok()).filter(|queues| *queues > 0),
    }
}

/// How long the key is that `ethtool -x` shows: the key itself is a secret of the kernel's.
fn key_bytes(text: &str) -> String {
    let key =
        text.lines().skip_while(|line| !line.starts_with("RSS hash key")).nth(1).unwrap_or_default().trim();
    let bytes = key.split(':').filter(|byte| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok()).count();
    bytes.to_string()
}

/// The most queues that `ethtool -l` shows, of those that receive.
fn most_queues(text: &str) -> String {
    let most = text.split("Current hardware settings").next().unwrap_or_default();
    let numbers = most.lines().filter_map(|line| {
        let (kind, number) = line.split_once(':')?;
        ["RX", "Combined"].contains(&kind.trim()).then(|| number.trim().parse::<u16>().ok())?
    });
    numbers.max().unwrap_or(0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_kernels_key_only_its_length_is_kept() {
        let text = "RX flow hash indirection table for eth1 with 4 RX ring(s):\n    0:      0     1     2     3\n\
                    RSS hash key:\n01:23:45:67:89:ab:cd:ef:01:23\nRSS hash function:\n    toeplitz: on\n";
        assert_eq!(key_bytes(text), "10");
        assert_eq!(key_bytes("RSS hash key:\nOperation not supported\n"), "0");
    }

    #[test]
    fn the_most_queues_are_those_that_can_be_set_not_those_that_are() {
        let text = "Channel parameters for eth1:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\t1\nCombined:\t63\n\
                    Current hardware settings:\nRX:\t\tn/a\nCombined:\t64\n";
        assert_eq!(most_queues(text), "63");
        assert_eq!(most_queues(""), "0");
    }
}
