//! The kernel's part in the network, and the way to the targets.

use super::super::facts::Facts;
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::{IDLE, NO_CONFIGURATION, listed};
use crate::control::neighbours::Reachability;
use crate::control::netlink::Link;
use crate::control::node::{EndpointKind, NodeConfig, Port};
use crate::control::survey::{self, is_shared};
use crate::wire::geneve::UDP_PORT;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// What GENEVE takes: outer IPv4, UDP, GENEVE and its options.
const ENCAPSULATION: u16 = 68;

/// Targets that are named one by one, at most.
const NAMED: usize = 20;

/// The configuration, where the kernel's links are known as well; says what is missing.
fn known<'a>(facts: &'a Facts, kind: Kind, items: &mut Items) -> Option<&'a NodeConfig> {
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

pub(in super::super) fn mtu_device(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::MtuDevice, items) else { return };
    for port in &config.ports {
        let object = Some(port.name.as_str());
        let told = facts.daemon.port(&port.name).map(|told| u32::from(told.mtu));
        let device = port.device.argument("iface");
        let link = device.and_then(|device| facts.network.link(device));
        // What a frame passes below: the device, and what it lies on.
        let mut below = Vec::new();
        let mut next = link;
        while let Some(link) = next.filter(|link| below.iter().all(|known: &&Link| known.index != link.index))
        {
            below.push(link);
            next = link.lower.and_then(|lower| facts.network.link_of(lower));
        }
        // Of a veth the link below is its other end, which may be of another namespace and have any number.
        if link.is_some_and(|link| link.kind.as_deref() == Some("veth")) {
            below.truncate(1);
        }
        let wanted = u32::from(port.mtu);
        match (below.iter().find(|link| link.mtu < wanted), told) {
            (Some(link), _) => {
                let found =
                    format!("{} has {}, and the port is configured with {wanted}", link.name, link.mtu);
                let command = format!("ip link set {} mtu {wanted}", link.name);
                items.mend(Kind::MtuDevice, object, Verdict::Problem, found, command);
            }
            (None, Some(told)) if told < wanted => {
                let found = format!("the daemon has {told}, and the configuration {wanted} now");
                items.mend(Kind::MtuDevice, object, Verdict::Warning, found, "systemctl restart flowgate");
            }
            (None, Some(told)) => items.ok(Kind::MtuDevice, object, format!("{told}")),
            (None, None) if link.is_some() => items.ok(
                Kind::MtuDevice,
                object,
                format!("the device carries the {wanted} that are configured"),
            ),
            (None, None) => {
                items.cannot_tell(Kind::MtuDevice, object, format!("the daemon sets {wanted} at its start"))
            }
        }
    }
}

pub(in super::super) fn mtu_target_side(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::MtuTargetSide, None, NO_CONFIGURATION);
    };
    let Some(name) = config.underlay.as_ref().map(|underlay| &underlay.port) else {
        return items.cannot_tell(Kind::MtuTargetSide, None, IDLE);
    };
    let Some(port) = config.ports.iter().find(|port| port.name == *name) else { return };
    let device = port.device.argument("iface").and_then(|device| facts.network.link(device));
    let interfaces = config.interfaces();
    let host = interfaces.first().and_then(|underlay| facts.network.link(&underlay.host_interface));
    let told = facts.daemon.port(name).map_or(port.mtu, |told| told.mtu);
    let has = [device, host]
        .into_iter()
        .flatten()
        .map(|link| u16::try_from(link.mtu).unwrap_or(u16::MAX))
        .fold(told, u16::min);
    let largest =
        config.ports.iter().filter(|other| other.name != *name).map(|other| other.mtu).max().unwrap_or(0);
    let object = Some(name.as_str());
    let wanted = largest.saturating_add(ENCAPSULATION);
    let found = format!("{has} bytes towards the targets, {largest} on the other side: {wanted} are needed");
    if has >= wanted {
        return items.ok(
            Kind::MtuTargetSide,
            object,
            format!("{found}. Switches and appliances must carry them too"),
        );
    }
    /// The least IPv6 packet that every link must carry, with its encapsulation.
    const LEAST: u16 = 1280 + ENCAPSULATION;
    let verdict = if has < LEAST { Verdict::Problem } else { Verdict::Warning };
    let found = format!(
        "{found}. Write mtu = {wanted} to the port {name}, and give the way to the targets as much; or lower the MSS of SYNs (flowgate.tcp.mss_clamp)"
    );
    match device.filter(|link| link.mtu < u32::from(wanted)) {
        Some(link) => items.mend(
            Kind::MtuTargetSide,
            object,
            verdict,
            found,
            format!("ip link set {} mtu {wanted}", link.name),
        ),
        None => items.not_well(Kind::MtuTargetSide, object, verdict, found),
    }
}

pub(in super::super) fn check_route(facts: &Facts, items: &mut Items) {
    let Some(config) = known(facts, Kind::CheckRoute, items) else { return };
    let interfaces = config.interfaces();
    let Some(underlay) = interfaces.first() else { return };
    let device = &underlay.host_interface;
    if facts.network.link(device).is_none() {
        return items.cannot_tell(
            Kind::CheckRoute,
            None,
            format!("{device} is made by the daemon, and not there yet"),
        );
    }
    let targets: Vec<Ipv4Addr> = facts.gateway.targets().collect();
    if targets.is_empty() {
        return items.cannot_tell(Kind::CheckRoute, None, "no target is known");
    }
    let leaves = |target: &Ipv4Addr| facts.network.route_to(*target).map(|route| route.interface.clone());
    let wrong: Vec<_> = targets.iter().filter(|target| leaves(target).as_ref() != Some(device)).collect();
    for target in wrong.iter().take(NAMED) {
        let object = target.to_string();
        let found = match leaves(target) {
            Some(other) => format!("its health checks leave by {other}, its traffic by {device}"),
            None => "the kernel has no route for its health checks".to_owned(),
        };
        let command = match config.underlay.as_ref().and_then(|underlay| underlay.next_hop(**target)) {
            Some(hop) if hop != **target => format!("ip route add {target}/32 via {hop} dev {device}"),
            _ => format!("ip route add {target}/32 dev {device}"),
        };
        items.mend(Kind::CheckRoute, Some(&object), Verdict::Warning, found, command);
    }
    if wrong.is_empty() {
        items.ok(
            Kind::CheckRoute,
            None,
            format!("checks and traffic of all {} targets leave by {device}", targets.len()),
        );
    } else if wrong.len() > NAMED {
        items.not_well(Kind::CheckRoute, None, Verdict::Warning, format!("and {} more", wrong.len() - NAMED));
    }
}

pub(in super::super) fn neighbours(facts: &Facts, items: &mut Items) {
    let Some(config) = facts.gateway.node() else {
        return items.cannot_tell(Kind::Neighbours, None, NO_CONFIGURATION);
    };
    let Some(underlay) = &config.underlay else {
        return items.cannot_tell(Kind::Neighbours, None, IDLE);
    };
    let told = facts.daemon.answering().map(|answers| &answers.next_hops);
    let mut targets: BTreeSet<Ipv4Addr> = facts.gateway.targets().collect();
    targets.extend(told.into_iter().flatten().map(|hop| hop.target));
    if targets.is_empty() {
        return items.cannot_tell(Kind::Neighbours, None, "no target is known");
    }
    let interfaces = config.interfaces();
    let device = interfaces.first().map(|underlay| underlay.host_interface.as_str()).unwrap_or_default();
    let (mut well, mut unknown, mut dead) = (0, Vec::new(), Vec::new());
    for target in &targets {
        let by_daemon = told.into_iter().flatten().find(|hop| hop.target == *target);
        let hop = underlay.next_hop(*target);
        let is_given = |hop: Ipv4Addr| {
            config.neighbours.iter().any(|given| {
                given.address == hop
                    && given.interface.as_ref().is_none_or(|name| name == &interfaces[0].name)
            })
        };
        let by_kernel = |hop: Ipv4Addr| {
            facts
                .network
                .neighbours
                .iter()
                .find(|(on, known, _)| on == device && *known == hop)
                .map(|(.., state)| *state)
        };
        match (by_daemon, hop) {
            (Some(told), _) if told.hop.mac.is_some() => well += 1,
            (_, None) => dead.push((
                *target,
                "there is no way to it: it is outside of the underlay's network, which has no gateway"
                    .to_owned(),
            )),
            (Some(told), Some(hop)) => match told.hop.state.as_str() {
                "unknown" => unknown.push(*target),
                state => dead.push((*target, format!("its next hop {hop} does not resolve ({state})"))),
            },
            (None, Some(hop)) if is_given(hop) => well += 1,
            (None, Some(hop)) => match by_kernel(hop) {
                None => unknown.push(*target),
                Some(state @ (Reachability::Failed | Reachability::Incomplete)) => {
                    dead.push((
                        *target,
                        format!(
                            "its next hop {hop} does not resolve ({})",
                            format!("{state:?}").to_lowercase()
                        ),
                    ));
                }
                Some(_) => well += 1,
            },
        }
    }
    for (target, found) in dead.iter().take(NAMED) {
        let object = target.to_string();
        match underlay.next_hop(*target) {
            Some(hop) => {
                let command =
                    format!("ip neighbour flush to {hop} dev {device}; ping -c 3 -I {device} {hop}");
                items.mend(Kind::Neighbours, Some(&object), Verdict::Problem, found.as_str(), command);
            }
            None => items.not_well(Kind::Neighbours, Some(&object), Verdict::Problem, found.as_str()),
        }
    }
    if dead.len() > NAMED {
        items.not_well(Kind::Neighbours, None, Verdict::Problem, format!("and {} more", dead.len() - NAMED));
    }
    if !unknown.is_empty() {
        let found = format!("nobody has asked yet for {}", listed(unknown.iter().take(NAMED)));
        items.cannot_tell(Kind::Neighbours, None, found);
    }
    if dead.is_empty() && unknown.is_empty() {
        items.ok(Kind::Neighbours, None, format!("the next hops of all {well} targets are known"));
    }
    // A router's networks have neighbours of their own, which only traffic asks for.
    let failed: Vec<_> = facts
        .network
        .neighbours
        .iter()
        .filter(|(on, _, state)| {
            *state == Reachability::Failed
                && interfaces.iter().skip(1).any(|known| known.host_interface == *on)
        })
        .map(|(on, address, _)| format!("{address} on {on}"))
        .collect();
    let routers: BTreeSet<String> = config
        .endpoints
        .iter()
        .flat_map(|endpoint| &endpoint.routes)
        .filter_map(|route| route.via)
        .map(|via| via.to_string())
        .collect();
    let dead_routers: Vec<_> = failed
        .iter()
        .filter(|failed| routers.iter().any(|via| failed.split(' ').next() == Some(via)))
        .collect();
    if !dead_routers.is_empty() {
        items.not_well(
            Kind::Neighbours,
            None,
            Verdict::Problem,
            format!("a router does not resolve: {}", listed(dead_routers)),
        );
    }
}

/// Whether any interface is shared with the kernel at all.
pub(super) fn shares_any(facts: &Facts, config: &NodeConfig) -> bool {
    config.interfaces().iter().any(|interface| is_shared(interface, &facts.network.links))
}
