//! The kernel's part in the network.

use super::super::facts::Facts;
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::{IDLE, NO_CONFIGURATION, listed};
use crate::control::netlink::Link;
use crate::control::node::{EndpointKind, NodeConfig, Port};
use crate::control::survey::{self, is_shared};
use crate::wire::geneve::UDP_PORT;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The configuration, where the kernel's links are known as well; says what is missing.
pub(super) fn known<'a>(facts: &'a Facts, kind: Kind, items: &mut Items) -> Option<&'a NodeConfig> {
    match facts.gateway.node() {
        None => items.cannot_tell(kind, None, NO_CONFIGURATION),
        Some(config) if config.ports.is_empty() => items.cannot_tell(kind, None, IDLE),
        Some(_) if !facts.network.is_known => {
            items.cannot_tell(kind, None, "the kernel's interfaces are not known")
        }
        Some(config) => return Some(config),
    }
    None
}

/// What the daemon's own survey finds: `flowgated --check` says the same.
fn surveyed(facts: &Facts, config: &NodeConfig) -> Vec<survey::Finding> {
    survey::survey(config, &facts.network.links, &|switch| facts.network.is_on(switch))
}

pub(in super::super) fn host_interface(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::HostInterface, items) else { return };
    let findings = surveyed(facts, config);
    let of_ours = |finding: &&survey::Finding| finding.kind != survey::Kind::ForwardsV6;
    for interface in config.interfaces() {
        let object = Some(interface.name.as_str());
        let own = || findings.iter().filter(of_ours).filter(|finding| finding.interface.as_deref() == object);
        let faults: Vec<_> = own().filter(|finding| finding.is_fault).collect();
        for fault in &faults {
            match &fault.command {
                Some(command) => items.mend(
                    Kind::HostInterface,
                    object,
                    Verdict::Problem,
                    fault.text.as_str(),
                    command.as_str(),
                ),
                None => items.not_well(Kind::HostInterface, object, Verdict::Problem, fault.text.as_str()),
            }
        }
        if faults.is_empty() {
            let notes = own().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
            items.ok(Kind::HostInterface, object, notes);
        }
    }
}

/// The ports of wires that the kernel keeps, with their links.
fn kept_wires<'a>(facts: &'a Facts, config: &'a NodeConfig) -> Vec<(&'a Port, &'a Link)> {
    let wires = config.endpoints.iter().filter(|endpoint| endpoint.kind == EndpointKind::Wire);
    let names: BTreeSet<_> = wires.flat_map(|endpoint| &endpoint.ports).collect();
    let ports = config.ports.iter().filter(|port| names.contains(&port.name));
    ports.filter_map(|port| Some((port, facts.network.link(port.kept_device()?)?))).collect()
}

pub(in super::super) fn addresses(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::KernelAddresses, items) else { return };
    let mut is_well = true;
    for (port, link) in kept_wires(facts, config) {
        // A link-local one answers to its own group alone, and passes nothing on.
        let own: Vec<_> = link.addresses.iter().filter(|address| !is_link_local(address)).collect();
        if let Some(first) = own.first() {
            is_well = false;
            let prefix = if first.is_ipv4() { 32 } else { 128 };
            let found = format!("the kernel has {} on {}, which is a wire's", listed(&own), link.name);
            // The kernel takes the address away whatever its prefix only if that is named too.
            let command = format!("ip address flush dev {} to {first}/{prefix}", link.name);
            items.mend(Kind::KernelAddresses, Some(port.name.as_str()), Verdict::Warning, found, command);
        }
    }
    let Some(underlay) = &config.underlay else { return };
    let tunnel: IpAddr = underlay.address.address.into();
    let interfaces = config.interfaces();
    let ours = interfaces.first().map(|interface| interface.host_interface.as_str()).unwrap_or_default();
    for link in
        facts.network.links.iter().filter(|link| link.name != ours && link.addresses.contains(&tunnel))
    {
        is_well = false;
        let found = format!(
            "the kernel has the tunnel's address {tunnel} on {}, which is not the underlay's {ours}",
            link.name
        );
        let command = format!("ip address flush dev {} to {tunnel}/32", link.name);
        items.mend(Kind::KernelAddresses, Some(&link.name), Verdict::Problem, found, command);
    }
    if is_well {
        items.ok(Kind::KernelAddresses, None, "none is where traffic passes");
    }
}

fn is_link_local(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

pub(in super::super) fn forwarding(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::KernelForwarding, items) else { return };
    let mut is_well = true;
    for finding in surveyed(facts, config) {
        let (verdict, found) = match finding.kind {
            survey::Kind::ForwardsV6 => (Verdict::Problem, finding.text),
            // A daemon that runs has turned it off, unless somebody turned it on again.
            survey::Kind::ForwardsV4 if facts.daemon.answering().is_some() => (
                Verdict::Problem,
                "the kernel forwards IPv4, though the daemon turned that off at its start".to_owned(),
            ),
            _ => continue,
        };
        is_well = false;
        let object = finding.interface.as_deref();
        let interfaces = config.interfaces();
        let device = interfaces
            .iter()
            .find(|known| Some(known.name.as_str()) == object)
            .map(|known| known.host_interface.as_str());
        let command = finding
            .command
            .or_else(|| device.map(|device| format!("sysctl -w net.ipv4.conf.{device}.forwarding=0")));
        match command {
            Some(command) => items.mend(Kind::KernelForwarding, object, verdict, found, command),
            None => items.not_well(Kind::KernelForwarding, object, verdict, found),
        }
    }
    if is_well {
        items.ok(
            Kind::KernelForwarding,
            None,
            "the kernel forwards nothing that the gateway does, while the daemon runs",
        );
    }
}

pub(in super::super) fn bridge(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::KernelBridge, items) else { return };
    let mut is_well = true;
    for port in &config.ports {
        let link = port.kept_device().and_then(|device| facts.network.link(device));
        let Some((link, master)) = link.and_then(|link| Some((link, facts.network.link_of(link.master?)?)))
        else {
            continue;
        };
        is_well = false;
        let kind = master.kind.as_deref().unwrap_or("device");
        let found = format!("{} is a part of the kernel's {kind} {}", link.name, master.name);
        let command = format!("ip link set {} nomaster", link.name);
        items.mend(Kind::KernelBridge, Some(port.name.as_str()), Verdict::Problem, found, command);
    }
    if is_well {
        items.ok(Kind::KernelBridge, None, "no port is part of a bridge or bond of the kernel's");
    }
}

pub(in super::super) fn reverse_path(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::ReversePath, items) else { return };
    let of = |name: &str| facts.network.switch(&format!("net/ipv4/conf/{name}/rp_filter"));
    let (all, for_new) = (of("all").unwrap_or(0), of("default").unwrap_or(0));
    for interface in config.interfaces() {
        let device = &interface.host_interface;
        let object = Some(interface.name.as_str());
        let own = of(device);
        // Of both the higher counts: 0 none, 1 strict, 2 loose.
        match own.map(|own| own.max(all)) {
            None if all.max(for_new) == 1 => {
                let found =
                    format!("{device} is not there yet, and the daemon's will be strict (rp_filter = 1)");
                let command = "sysctl -w net.ipv4.conf.default.rp_filter=2".to_owned();
                items.mend(Kind::ReversePath, object, Verdict::Warning, found, command);
            }
            None => {
                let found = format!("{device} is not there yet, and will be given none that is strict");
                items.ok(Kind::ReversePath, object, found);
            }
            Some(1) => {
                let switch = device.replace('.', "/");
                let found = format!("the filter of {device} is strict (rp_filter = 1)");
                let command = format!("sysctl -w net.ipv4.conf.{switch}.rp_filter=2");
                items.mend(Kind::ReversePath, object, Verdict::Warning, found, command);
            }
            Some(2) => items.ok(Kind::ReversePath, object, format!("the filter of {device} is loose")),
            Some(_) => items.ok(Kind::ReversePath, object, format!("{device} has none")),
        }
    }
}

pub(in super::super) fn tunnel_port(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::TunnelPort, None, NO_CONFIGURATION);
    };
    let Some(underlay) = &config.underlay else {
        return items.cannot_tell(Kind::TunnelPort, None, IDLE);
    };
    let tunnel = underlay.address.address;
    let users = &facts.network.tunnel_port_users;
    let taken = users.iter().find(|address| **address == tunnel || address.is_unspecified());
    match (taken, facts.daemon.answering()) {
        (None, _) => items.ok(Kind::TunnelPort, None, format!("nobody has UDP {UDP_PORT} on {tunnel}")),
        (Some(address), Some(_)) if *address == tunnel => {
            items.ok(Kind::TunnelPort, None, format!("the daemon holds UDP {UDP_PORT} on {tunnel}"));
        }
        (Some(address), _) => {
            let found = format!("a program has UDP {UDP_PORT} on {address}");
            items.mend(
                Kind::TunnelPort,
                None,
                Verdict::Problem,
                found,
                format!("ss -ulpn 'sport = {UDP_PORT}'"),
            );
        }
    }
}

/// Whether any interface is shared with the kernel at all.
pub(super) fn shares_any(facts: &Facts, config: &NodeConfig) -> bool {
    config.interfaces().iter().any(|interface| is_shared(interface, &facts.network.links))
}
