//! The kernel's network: links with addresses, neighbours, routes, switches, and who has the tunnel's port.

use super::super::host::Host;
use super::Gateway;
use crate::control::neighbours::Reachability;
use crate::control::netlink::{Link, Links};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The kernel's network.
#[derive(Debug, Default)]
pub struct Network {
    /// Its links; empty where they are not known.
    pub links: Vec<Link>,
    /// Whether the links are known.
    pub is_known: bool,
    /// Its neighbours, each with the name of its link and its state.
    pub neighbours: Vec<(String, IpAddr, Reachability)>,
    /// Its IPv4 routes.
    pub routes: Vec<Route>,
    /// Switches by their path below `/proc/sys`: `net/ipv4/conf/eth0/rp_filter`.
    switches: BTreeMap<String, String>,
    /// Addresses on which a program has UDP 6081.
    pub tunnel_port_users: Vec<Ipv4Addr>,
}

/// An IPv4 route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The interface that it leaves by.
    pub interface: String,
    /// The network and the length of its prefix.
    pub network: (Ipv4Addr, u8),
    /// The lower wins.
    pub metric: u32,
}

impl Network {
    pub(super) fn read(host: &Host, gateway: &Gateway) -> Network {
        let links = links(host);
        let mut network = Network {
            is_known: links.is_some(),
            links: links.unwrap_or_default(),
            routes: routes(host),
            tunnel_port_users: tunnel_port_users(host),
            ..Network::default()
        };
        network.neighbours = neighbours(host);
        for device in network.asked_of(gateway) {
            for switch in ["rp_filter", "forwarding"] {
                network.read_switch(host, format!("net/ipv4/conf/{device}/{switch}"));
            }
        }
        network.read_switch(host, "net/ipv4/conf/all/rp_filter".to_owned());
        network.read_switch(host, "net/ipv4/conf/default/rp_filter".to_owned());
        network.read_switch(host, "net/ipv6/conf/all/forwarding".to_owned());
        network
    }

    /// The links whose switches matter: ours, and those below ports.
    fn asked_of(&self, gateway: &Gateway) -> Vec<String> {
        let Some(config) = gateway.node() else { return Vec::new() };
        let hosts = config.interfaces().into_iter().map(|interface| interface.host_interface);
        let kept = config.ports.iter().filter_map(|port| port.kept_device().map(str::to_owned));
        let mut all: Vec<String> = hosts.chain(kept).filter(|name| self.link(name).is_some()).collect();
        all.sort();
        all.dedup();
        all
    }

    fn read_switch(&mut self, host: &Host, name: String) {
        // A dot in an interface's name is one in the path too.
        if let Some(value) = host.line(&format!("/proc/sys/{name}")) {
            self.switches.insert(name, value);
        }
    }

    /// A switch as a number; none: there is no such switch.
    pub fn switch(&self, name: &str) -> Option<u32> {
        self.switches.get(name)?.parse().ok()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.switch(name).is_some_and(|value| value != 0)
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }

    /// The link of this number.
    pub fn link_of(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.index == index)
    }

    /// The route that the kernel's packets to an address take.
    pub fn route_to(&self, address: Ipv4Addr) -> Option<&Route> {
        let fits = |route: &&Route| {
            let (network, length) = route.network;
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        };
        self.routes.iter().filter(fits).min_by_key(|route| (std::cmp::Reverse(route.network.1), route.metric))
    }
}

fn links(host: &Host) -> Option<Vec<Link>> {
    let text = host.answer("links", || {
        let links = Links::open().and_then(|mut links| links.all()).ok()?;
        let lines = links.iter().filter_map(|link| serde_json::to_string(link).ok());
        Some(lines.collect::<Vec<_>>().join("\n"))
    })?;
    Some(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Each kind of neighbour's state by the word of `ip neighbour`.
const STATES: [(Reachability, &str); 7] = [
    (Reachability::Incomplete, "incomplete"),
    (Reachability::Reachable, "reachable"),
    (Reachability::Stale, "stale"),
    (Reachability::Delay, "delay"),
    (Reachability::Probe, "probe"),
    (Reachability::Failed, "failed"),
    (Reachability::Permanent, "permanent"),
];

/// Lines of `INTERFACE ADDRESS STATE`.
fn neighbours(host: &Host) -> Vec<(String, IpAddr, Reachability)> {
    let text = host.answer("neighbours", || {
        let mut links = Links::open().ok()?;
        let names: BTreeMap<u32, String> =
            links.all().ok()?.into_iter().map(|link| (link.index, link.name)).collect();
        let lines = links.neighbours().ok()?.into_iter().filter_map(|known| {
            let (_, word) = STATES.iter().find(|(state, _)| *state == known.state)?;
            // Groups have an address that follows from theirs, and there is one for each.
            let one = !known.address.is_multicast() && !known.address.is_loopback();
            one.then(|| Some(format!("{} {} {word}", names.get(&known.link)?, known.address)))?
        });
        Some(lines.collect::<Vec<_>>().join("\n"))
    });
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, address) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let word = words.next()?;
        Some((name, address, STATES.iter().find(|(_, known)| *known == word)?.0))
    };
    text.iter().flat_map(|text| text.lines()).filter_map(line).collect()
}

/// `/proc/net/route`: numbers in hexadecimal, addresses in the host's order.
fn routes(host: &Host) -> Vec<Route> {
    let text = host.text("/proc/net/route").unwrap_or_default();
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let address =
            |word: &str| u32::from_str_radix(word, 16).ok().map(|bits| Ipv4Addr::from(bits.swap_bytes()));
        let mask = u32::from_str_radix(words.get(7)?, 16).ok()?;
        Some(Route {
            interface: (*words.first()?).to_owned(),
            network: (address(words.get(1)?)?, u8::try_from(mask.count_ones()).ok()?),
            metric: words.get(6)?.parse().ok()?,
        })
    };
    text.lines().skip(1).filter_map(route).collect()
}

/// Who has UDP 6081 by `/proc/net/udp`, of which nothing else is kept.
fn tunnel_port_users(host: &Host) -> Vec<Ipv4Addr> {
    let text = host.reduced("/proc/net/udp", |text| {
        let is_ours =
            |line: &&str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(":17C1"));
        let local = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        text.lines().filter(is_ours).map(local).collect::<Vec<_>>().join("\n")
    });
    let address = |line: &str| {
        let local = line.split_whitespace().nth(1)?.split(':').next()?;
        u32::from_str_radix(local, 16).ok().map(|bits| Ipv4Addr::from(bits.swap_bytes()))
    };
    text.iter().flat_map(|text| text.lines()).filter_map(address).collect()
}
