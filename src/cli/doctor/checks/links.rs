//! What the ports' devices can: firmware, link, lanes, RSS, queues, and where they are.

use super::super::facts::{Facts, PciDevice, list};
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::{IDLE, NO_CONFIGURATION, listed};
use crate::control::node::{Device, Port};

/// The least firmware that DPDK's driver for Mellanox's cards works with, by model, as its documentation has it.
const MELLANOX_LEAST: [(&str, &str, [u32; 3]); 9] = [
    ("1013", "ConnectX-4", [12, 21, 1000]),
    ("1015", "ConnectX-4 Lx", [14, 21, 1000]),
    ("1017", "ConnectX-5", [16, 21, 1000]),
    ("1019", "ConnectX-5 Ex", [16, 21, 1000]),
    ("101b", "ConnectX-6", [20, 27, 90]),
    ("101d", "ConnectX-6 Dx", [22, 27, 90]),
    ("101f", "ConnectX-6 Lx", [26, 27, 90]),
    ("1021", "ConnectX-7", [28, 33, 2028]),
    ("a2d6", "BlueField-2", [24, 28, 1002]),
];

/// The card of a port; none: it is none, or not there.
fn card<'a>(facts: &'a Facts, port: &Port) -> Option<&'a PciDevice> {
    match &port.device {
        Device::Pci(address) => facts.pci.get(address),
        Device::Virtual(_) => None,
    }
}

/// Whether a port's card is not there: says so.
fn is_absent(facts: &Facts, port: &Port, kind: Kind, items: &mut Items) -> bool {
    match &port.device {
        Device::Pci(address) if !facts.pci.contains_key(address) => {
            items.cannot_tell(kind, Some(port.name.as_str()), format!("there is no PCI device {address}"));
            true
        }
        Device::Pci(_) | Device::Virtual(_) => false,
    }
}

/// The kernel's interfaces that a port is on.
fn interfaces<'a>(facts: &'a Facts, port: &'a Port) -> Vec<&'a str> {
    match card(facts, port) {
        Some(card) => card.interfaces.iter().map(String::as_str).collect(),
        None => port.device.argument("iface").into_iter().collect(),
    }
}

/// Whether there are ports to look at; says so where there are none.
fn has_ports(facts: &Facts, kind: Kind, items: &mut Items) -> bool {
    match facts.gateway.node() {
        None => items.cannot_tell(kind, None, NO_CONFIGURATION),
        Some(config) if config.ports.is_empty() => items.cannot_tell(kind, None, IDLE),
        Some(_) => return true,
    }
    false
}

pub(in super::super) fn firmware(facts: &Facts, items: &mut Items) {
    if !has_ports(facts, Kind::Firmware, items) {
        return;
    }
    for port in facts.gateway.ports() {
        if is_absent(facts, port, Kind::Firmware, items) {
            continue;
        }
        let name = Some(port.name.as_str());
        let Some(card) = card(facts, port) else {
            items.ok(Kind::Firmware, name, "it has none of its own");
            continue;
        };
        let told = facts.daemon.port(&port.name).and_then(|port| port.capabilities.firmware.clone());
        let of_kernel =
            || interfaces(facts, port).iter().find_map(|name| facts.ethtool.get(*name)?.firmware.clone());
        let version = told.or_else(of_kernel);
        if card.is_e800() && !facts.vfio.has_ddp_package {
            items.mend(
                Kind::Firmware,
                name,
                Verdict::Problem,
                "the card loads a package at its start, and /lib/firmware/intel/ice/ddp has none",
                "apt-get install firmware-misc-nonfree",
            );
            continue;
        }
        let Some(version) = version else {
            items.cannot_tell(
                Kind::Firmware,
                name,
                "its version is told by the daemon, or by ethtool while the kernel has the card",
            );
            continue;
        };
        let model = MELLANOX_LEAST.iter().find(|(model, ..)| card.id == format!("15b3:{model}"));
        match (model, numbers(&version)) {
            (Some((_, model, least)), Some(has)) if has < *least => {
                let [major, minor, patch] = least;
                let found =
                    format!("version {version}; DPDK wants {major}.{minor}.{patch:04} or later of a {model}");
                items.mend(Kind::Firmware, name, Verdict::Warning, found, "mlxup");
            }
            _ => items.ok(Kind::Firmware, name, format!("version {version}")),
        }
    }
}

/// `22.27.1016 (MT_0000000359)` as numbers.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split_whitespace().next()?.split('.').map(str::parse);
    let mut next = || parts.next()?.ok();
    Some([next()?, next()?, next()?])
}

pub(in super::super) fn link(facts: &Facts, items: &mut Items) {
    if !has_ports(facts, Kind::Link, items) {
        return;
    }
    for port in facts.gateway.ports() {
        let name = Some(port.name.as_str());
        if let Some(told) = facts.daemon.port(&port.name) {
            let can = &told.capabilities;
            let speed = can.speed_mbps.map(|mbps| format!(", {}", speed(mbps))).unwrap_or_default();
            if !told.link_up {
                items.not_well(
                    Kind::Link,
                    name,
                    Verdict::Problem,
                    "it is down: look at the cable, the transceiver and the other end",
                );
            } else if can.speed_mbps.is_some() && !can.full_duplex {
                let found = format!("it is up{speed}, of half duplex: have the other end negotiate");
                items.not_well(Kind::Link, name, Verdict::Warning, found);
            } else {
                items.ok(Kind::Link, name, format!("it is up{speed}"));
            }
            continue;
        }
        let of_kernel: Vec<_> =
            interfaces(facts, port).into_iter().filter_map(|name| facts.network.link(name)).collect();
        match of_kernel[..] {
            [] if matches!(port.device, Device::Virtual(_)) && port.device.argument("iface").is_none() => {
                items.ok(Kind::Link, name, "a virtual device has none");
            }
            [] => items.cannot_tell(Kind::Link, name, "the daemon tells, once it has the device"),
            [link, ..] if !link.up => {
                let command = format!("ip link set {} up", link.name);
                items.mend(Kind::Link, name, Verdict::Problem, format!("{} is down", link.name), command);
            }
            [link, ..] if !link.carrier => {
                let found = format!(
                    "{} has no carrier: look at the cable, the transceiver and the other end",
                    link.name
                );
                items.not_well(Kind::Link, name, Verdict::Problem, found);
            }
            [link, ..] => items.ok(Kind::Link, name, format!("{} is up", link.name)),
        }
    }
}

/// A speed for people.
fn speed(mbps: u32) -> String {
    if mbps.is_multiple_of(1000) { format!("{} Gbit/s", mbps / 1000) } else { format!("{mbps} Mbit/s") }
}

pub(in super::super) fn pcie(facts: &Facts, items: &mut Items) {
    if !has_ports(facts, Kind::PcieLink, items) {
        return;
    }
    for port in facts.gateway.ports() {
        if is_absent(facts, port, Kind::PcieLink, items) {
            continue;
        }
        let name = Some(port.name.as_str());
        let Some(card) = card(facts, port) else {
            items.ok(Kind::PcieLink, name, "it is not on the PCI bus");
            continue;
        };
        let gt = |tenths: u32| format!("{}.{} GT/s", tenths / 10, tenths % 10);
        match card.lanes {
            // A virtual machine's devices say 0, or nothing.
            None => items.cannot_tell(Kind::PcieLink, name, "the bus does not say"),
            Some((now, _)) if now.width == 0 => {
                items.cannot_tell(Kind::PcieLink, name, "the bus does not say")
            }
            Some((now, most)) if now.width < most.width || now.speed < most.speed => {
                let found = format!(
                    "{} lanes of {}, where the card has {} of {}: put it into another slot, or look into the firmware's settings of this one",
                    now.width,
                    gt(now.speed),
                    most.width,
                    gt(most.speed)
                );
                items.not_well(Kind::PcieLink, name, Verdict::Warning, found);
            }
            Some((now, _)) => items.ok(
                Kind::PcieLink,
                name,
                format!("{} lanes of {}, all that it has", now.width, gt(now.speed)),
            ),
        }
    }
}

pub(in super::super) fn rss(facts: &Facts, items: &mut Items) {
    if !has_ports(facts, Kind::Rss, items) {
        return;
    }
    let several = facts.gateway.worker_cores().len() > 1;
    for port in facts.gateway.ports() {
        let name = Some(port.name.as_str());
        let Some(told) = facts.daemon.port(&port.name) else {
            let known = interfaces(facts, port).iter().find_map(|name| facts.ethtool.get(*name)?.key_length);
            match known {
                _ if !several => items.ok(Kind::Rss, name, "one worker has every packet: nothing is spread"),
                _ if port.kept_device().is_some() => items.not_well(
                    Kind::Rss,
                    name,
                    Verdict::Advice,
                    "af_packet spreads packets by the kernel's hash, which is not ours: workers hand them over",
                ),
                Some(bytes) => items.ok(Kind::Rss, name, format!("it takes a key of {bytes} bytes, which can be symmetric")),
                None => items.cannot_tell(Kind::Rss, name, "the daemon tells what the device can, once it has it"),
            }
            continue;
        };
        let rss = &told.capabilities.rss;
        let over = match (rss.addresses, rss.tcp_ports && rss.udp_ports) {
            (_, true) => "addresses and ports",
            (true, false) => "addresses",
            (false, false) => "nothing",
        };
        let can = format!(
            "hashes over {over}, a key of {} bytes, a table of {} entries{}",
            rss.key_length,
            rss.table_size,
            if rss.delivered { ", the hash comes with each packet" } else { "" }
        );
        if !several {
            items.ok(Kind::Rss, name, format!("one worker has every packet; the device {can}"));
        } else if !rss.in_use {
            let found = format!(
                "the device does not spread packets ({can}): workers hand them over; see flowgate workers, OUT/S"
            );
            items.not_well(Kind::Rss, name, Verdict::Warning, found);
        } else if !rss.symmetric {
            let found = format!(
                "it spreads by a key of its own that is not symmetric ({can}): half of the packets are handed over"
            );
            items.not_well(Kind::Rss, name, Verdict::Warning, found);
        } else if !(rss.tcp_ports && rss.udp_ports) {
            let found = format!("symmetric, but {can}: what two hosts say to each other comes to one worker");
            items.not_well(Kind::Rss, name, Verdict::Advice, found);
        } else {
            items.ok(Kind::Rss, name, format!("symmetric: {can}"));
        }
    }
}

pub(in super::super) fn queues(facts: &Facts, items: &mut Items) {
    if !has_ports(facts, Kind::Queues, items) {
        return;
    }
    let workers = facts.gateway.worker_cores().len();
    for port in facts.gateway.ports() {
        let name = Some(port.name.as_str());
        if let Some(told) = facts.daemon.port(&port.name) {
            let (has, most) = (told.queues, told.capabilities.max_queues);
            let found = format!("{has} queues for {workers} workers; the device has {most} at most");
            if usize::from(has) == workers {
                items.ok(Kind::Queues, name, found);
            } else {
                let found = format!("{found}: the configuration was changed since the daemon started");
                items.mend(Kind::Queues, name, Verdict::Warning, found, "systemctl restart flowgate");
            }
            continue;
        }
        // What the devices that the kernel keeps are told by their arguments.
        let told = ["net_af_packet", "net_af_xdp"].iter().any(|kind| port.device.name().starts_with(kind));
        let argument = if port.device.name().starts_with("net_af_xdp") { "queue_count" } else { "qpairs" };
        let given = port.device.argument(argument).map_or(Some(1), |number| number.parse::<usize>().ok());
        let of_kernel = interfaces(facts, port).iter().find_map(|name| facts.ethtool.get(*name)?.max_queues);
        match (told.then_some(given).flatten(), of_kernel) {
            (Some(given), _) if given < workers => {
                let found = format!(
                    "{argument} gives it {given}, and there are {workers} workers: write {argument}={workers}"
                );
                items.not_well(Kind::Queues, name, Verdict::Problem, found);
            }
            (Some(given), _) => items.ok(Kind::Queues, name, format!("{given} for {workers} workers")),
            (None, Some(most)) if usize::from(most) < workers => {
                let found =
                    format!("the device has {most} at most, and there are {workers} workers: have fewer");
                items.not_well(Kind::Queues, name, Verdict::Problem, found);
            }
            (None, Some(most)) => {
                items.ok(Kind::Queues, name, format!("the device has {most} at most, for {workers} workers"))
            }
            (None, None) if workers == 1 => {
                items.ok(Kind::Queues, name, "every device has the one that is needed")
            }
            (None, None) => items.cannot_tell(
                Kind::Queues,
                name,
                "the daemon tells how many the device has, once it has it",
            ),
        }
    }
}

pub(in super::super) fn node(facts: &Facts, items: &mut Items) {
    if !has_ports(facts, Kind::NicNode, items) {
        return;
    }
    if facts.cores.nodes.len() < 2 {
        return items.ok(Kind::NicNode, None, "there is one NUMA node");
    }
    let workers = facts.worker_nodes();
    for port in facts.gateway.ports() {
        let name = Some(port.name.as_str());
        if is_absent(facts, port, Kind::NicNode, items) {
            continue;
        }
        let told = facts.daemon.port(&port.name).and_then(|port| port.capabilities.numa_node);
        let Some(card) = card(facts, port) else {
            items.ok(Kind::NicNode, name, "it is not on the PCI bus");
            continue;
        };
        let Some(node) = card.node.or(told) else {
            items.cannot_tell(Kind::NicNode, name, "the firmware does not say which node the card is on");
            continue;
        };
        let elsewhere: Vec<u16> = workers.keys().copied().filter(|other| *other != node).collect();
        if elsewhere.is_empty() {
            items.ok(Kind::NicNode, name, format!("the card and all workers are on node {node}"));
        } else {
            let near = facts.cores.nodes.get(&node).map(|cores| list(cores)).unwrap_or_default();
            let found = format!(
                "the card is on node {node}, and workers run on node {}: take cores of {near} for workers.cores",
                listed(elsewhere)
            );
            items.not_well(Kind::NicNode, name, Verdict::Warning, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(numbers("22.27.1016 (MT_0000000359)"), Some([22, 27, 1016]));
        assert_eq!(numbers("22.27.0090"), Some([22, 27, 90]));
        assert_eq!(numbers("4.20 0x8001784e 1.3346.0"), None);
    }
}
