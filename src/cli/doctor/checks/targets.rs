//! The way to the targets: MTUs, routes, neighbours.

use super::super::facts::{Answered, Facts};
use super::super::items::{Items, Verdict};
use super::super::kinds::Kind;
use super::network::known;
use super::{IDLE, NO_CONFIGURATION, listed};
use crate::control::neighbours::Reachability;
use crate::control::netlink::Link;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// What GENEVE takes: outer IPv4, UDP, GENEVE and its options.
const ENCAPSULATION: u16 = 68;

/// Targets that are named one by one, at most.
const NAMED: usize = 20;

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

pub(in super::super) fn target_path(facts: &Facts, items: &mut Items) {
    let Some(probes) = &facts.probes else {
        return items.cannot_tell(
            Kind::TargetPath,
            None,
            "not tried: --probe sends each target a ping of full size",
        );
    };
    let of = |wanted: Answered| probes.iter().filter(move |(_, (_, answered))| *answered == wanted);
    for (target, (size, _)) in of(Answered::Short).take(NAMED) {
        let found =
            format!("it answers a short packet and none of {size} bytes: something on the way carries less");
        let command = format!("tracepath -n {target}");
        items.mend(Kind::TargetPath, Some(&target.to_string()), Verdict::Warning, found, command);
    }
    let silent: Vec<_> = of(Answered::Nothing).map(|(target, _)| target).take(NAMED).collect();
    if !silent.is_empty() {
        items.cannot_tell(Kind::TargetPath, None, format!("no answer to any ping from {}", listed(silent)));
    }
    if let Some(((_, (size, _)), count)) =
        of(Answered::Full).next().map(|first| (first, of(Answered::Full).count()))
    {
        items.ok(
            Kind::TargetPath,
            None,
            format!("{count} of {} targets answer packets of {size} bytes", probes.len()),
        );
    } else if probes.is_empty() {
        items.cannot_tell(Kind::TargetPath, None, "no target is known");
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
