//! Whether the ports' devices are there, and are DPDK's to have.

use super::super::facts::{Companion, Facts, PciDevice};
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::{IDLE, NO_CONFIGURATION, listed};
use crate::control::node::{Device, Port};
use std::net::IpAddr;

/// The ports that are cards, each with what the bus says of it; nothing of one that is not there.
fn cards(facts: &Facts) -> Vec<(&Port, &str, &PciDevice)> {
    let known = facts
        .gateway
        .pci_ports()
        .filter_map(|(port, address)| Some((port, address, facts.pci.get(address)?)));
    known.collect()
}

/// Whether any port is a card that vfio hands out, or should.
fn needs_vfio(facts: &Facts) -> bool {
    facts
        .gateway
        .pci_ports()
        .any(|(_, address)| facts.pci.get(address).is_none_or(|card| !card.is_mellanox()))
}

/// Says that there is nothing to look at, where no port is a card.
fn has_none(facts: &Facts, kind: Kind, items: &mut Items) -> bool {
    if facts.gateway.node().is_none() {
        items.cannot_tell(kind, None, NO_CONFIGURATION);
        return true;
    }
    let none = facts.gateway.pci_ports().next().is_none();
    if none {
        items.ok(kind, None, "no port is a card on the PCI bus");
    }
    none
}

pub(in super::super) fn device(facts: &Facts, items: &mut Items) {
    if facts.gateway.node().is_none() {
        return items.cannot_tell(Kind::Device, None, NO_CONFIGURATION);
    }
    if facts.gateway.ports().is_empty() {
        return items.cannot_tell(Kind::Device, None, IDLE);
    }
    for port in facts.gateway.ports() {
        let name = Some(port.name.as_str());
        match &port.device {
            Device::Pci(address) => match facts.pci.get(address) {
                Some(card) => {
                    items.ok(Kind::Device, name, format!("{address} is there, a device {}", card.id))
                }
                None => items.mend(
                    Kind::Device,
                    name,
                    Verdict::Problem,
                    format!("there is no PCI device {address}; cards are at {}", listed(facts.pci.keys())),
                    "lspci -D -d ::0200",
                ),
            },
            Device::Virtual(_) => match port.device.argument("iface") {
                None => items.ok(Kind::Device, name, format!("DPDK makes {}", port.device.name())),
                Some(_) if !facts.network.is_known => {
                    items.cannot_tell(Kind::Device, name, "the kernel's interfaces are not known");
                }
                Some(iface) if facts.network.link(iface).is_some() => {
                    items.ok(Kind::Device, name, format!("the kernel's interface {iface} is there"));
                }
                Some(iface) => {
                    let found = format!("the kernel has no interface {iface}");
                    items.mend(Kind::Device, name, Verdict::Problem, found, "ip -brief link");
                }
            },
        }
    }
}

pub(in super::super) fn driver(facts: &Facts, items: &mut Items) {
    if has_none(facts, Kind::Driver, items) {
        return;
    }
    for (port, address, card) in cards(facts) {
        let name = Some(port.name.as_str());
        let bind = format!("scripts/setup --bind {address} --yes");
        let in_use: Vec<_> = card
            .interfaces
            .iter()
            .filter(|name| facts.network.link(name).is_some_and(|link| link.addresses.iter().any(is_global)))
            .collect();
        match card.driver.as_deref() {
            Some("mlx5_core") if facts.vfio.has_verbs => {
                items.ok(Kind::Driver, name, "mlx5_core: DPDK shares the card with the kernel");
            }
            Some("mlx5_core") => items.mend(
                Kind::Driver,
                name,
                Verdict::Problem,
                "mlx5_core, but /dev/infiniband has no uverbs, by which DPDK reaches the card",
                "modprobe -a mlx5_ib ib_uverbs",
            ),
            Some("vfio-pci") if card.is_mellanox() => items.mend(
                Kind::Driver,
                name,
                Verdict::Problem,
                format!("{address} is bound to vfio-pci, and DPDK reaches a card of Mellanox by its own driver alone"),
                format!("driverctl unset-override {address}"),
            ),
            Some("vfio-pci") => items.ok(Kind::Driver, name, format!("{address} is bound to vfio-pci")),
            Some(driver) if card.is_handed_out() => {
                let found = format!("{address} is bound to {driver}, which lets the card write anywhere");
                items.mend(Kind::Driver, name, Verdict::Advice, found, bind);
            }
            Some(driver) if !in_use.is_empty() => {
                let found = format!(
                    "{address} is the kernel's ({driver}), and its interface {} has addresses: see that you are not connected by it",
                    listed(in_use)
                );
                // Without this it is refused.
                let bind = format!("scripts/setup --bind {address} --force --yes");
                items.mend(Kind::Driver, name, Verdict::Problem, found, bind);
            }
            Some(driver) => {
                items.mend(Kind::Driver, name, Verdict::Problem, format!("{address} is the kernel's ({driver})"), bind);
            }
            None => items.mend(Kind::Driver, name, Verdict::Problem, format!("{address} has no driver"), bind),
        }
    }
    missing(facts, Kind::Driver, items);
}

/// Whether anybody reaches the host by it: each link has addresses of its own.
fn is_global(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

/// Says that nothing can be told of cards that are not there.
fn missing(facts: &Facts, kind: Kind, items: &mut Items) {
    for (port, address) in facts.gateway.pci_ports().filter(|(_, address)| !facts.pci.contains_key(*address))
    {
        items.cannot_tell(kind, Some(port.name.as_str()), format!("there is no PCI device {address}"));
    }
}

pub(in super::super) fn boot(facts: &Facts, items: &mut Items) {
    if has_none(facts, Kind::DriverBoot, items) {
        return;
    }
    for (port, address, card) in cards(facts) {
        let name = Some(port.name.as_str());
        if card.is_mellanox() {
            items.ok(Kind::DriverBoot, name, "the kernel binds it to its own driver by itself");
        } else if let Some(by) = card.kept_by {
            items.ok(Kind::DriverBoot, name, format!("{by} binds {address} at boot"));
        } else {
            items.mend(
                Kind::DriverBoot,
                name,
                Verdict::Advice,
                format!("nothing was found that binds {address} again at the next boot"),
                format!("scripts/setup --bind {address} --yes"),
            );
        }
    }
    missing(facts, Kind::DriverBoot, items);
}

pub(in super::super) fn vfio(facts: &Facts, items: &mut Items) {
    if facts.gateway.node().is_some() && !needs_vfio(facts) {
        return items.ok(Kind::Vfio, None, "no port needs it");
    }
    // Without a configuration it is advice: who knows what the ports will be.
    let verdict = if facts.gateway.node().is_some() { Verdict::Problem } else { Verdict::Advice };
    let files = facts.vfio.files.as_deref().unwrap_or_default();
    if !facts.vfio.is_loaded {
        items.mend(Kind::Vfio, None, verdict, "the driver vfio-pci is not there", "modprobe vfio-pci");
    } else if !files.iter().any(|file| file == "vfio") {
        items.mend(
            Kind::Vfio,
            None,
            verdict,
            "vfio-pci is there, and /dev/vfio/vfio is not",
            "modprobe vfio",
        );
    } else {
        items.ok(Kind::Vfio, None, "vfio-pci and /dev/vfio/vfio are there");
    }
}

pub(in super::super) fn iommu(facts: &Facts, items: &mut Items) {
    let groups = facts.vfio.groups;
    if groups > 0 {
        let by = facts.cores.switches.iter().find(|switch| switch.contains("iommu"));
        let by = by.map(|switch| format!(", by {switch} on the kernel's command line")).unwrap_or_default();
        return items.ok(Kind::Iommu, None, format!("it is on: {groups} groups{by}"));
    }
    if facts.gateway.node().is_some() && !needs_vfio(facts) {
        return items.ok(Kind::Iommu, None, "it is off, and no port needs it");
    }
    let advice = if facts.cores.is_virtual {
        "give the virtual machine a virtual IOMMU"
    } else {
        "turn VT-d or AMD-Vi on in the firmware, and put intel_iommu=on iommu=pt on the kernel's command line"
    };
    if facts.vfio.without_iommu == Some(true) {
        let found = format!("it is off, and vfio hands out cards without it (noiommu): {advice}");
        items.not_well(Kind::Iommu, None, Verdict::Warning, found);
    } else {
        let verdict = if facts.gateway.node().is_some() { Verdict::Problem } else { Verdict::Advice };
        let found = format!(
            "it is off, so that vfio hands out no card: {advice}; or do without it, which the command sets"
        );
        items.mend(Kind::Iommu, None, verdict, found, "scripts/setup --noiommu --yes");
    }
}

pub(in super::super) fn group(facts: &Facts, items: &mut Items) {
    if has_none(facts, Kind::IommuGroup, items) {
        return;
    }
    let ports: Vec<&str> = facts.gateway.pci_ports().map(|(_, address)| address).collect();
    for (port, address, card) in cards(facts) {
        let name = Some(port.name.as_str());
        let Some(group) = &card.group else {
            items.cannot_tell(Kind::IommuGroup, name, "it is in no group, as the IOMMU is off");
            continue;
        };
        let is_kernels = |other: &&Companion| {
            let handed_out = other.driver.as_deref().is_none_or(|driver| driver == "vfio-pci");
            !handed_out && !ports.contains(&other.address.as_str())
        };
        let others: Vec<&Companion> = card.companions.iter().filter(is_kernels).collect();
        if others.is_empty() || card.is_mellanox() {
            items.ok(Kind::IommuGroup, name, format!("group {group} has no device of the kernel's besides"));
            continue;
        }
        let words =
            listed(others.iter().map(|other| {
                format!("{} ({})", other.address, other.driver.as_deref().unwrap_or("no driver"))
            }));
        let found = format!("{address} is in group {group} with {words}, which the kernel has");
        if others.iter().all(|other| other.is_network) {
            let binds: Vec<_> = others.iter().map(|other| format!("--bind {}", other.address)).collect();
            let command = format!("scripts/setup {} --yes", binds.join(" "));
            items.mend(Kind::IommuGroup, name, Verdict::Problem, found, command);
        } else {
            let found = format!("{found}: put the card into another slot");
            items.not_well(Kind::IommuGroup, name, Verdict::Problem, found);
        }
    }
    missing(facts, Kind::IommuGroup, items);
}
