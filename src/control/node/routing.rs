//! What the interfaces and routes of a node's configuration say of each other, and static neighbours.

use std::collections::HashMap;
use std::net::IpAddr;

use super::addresses::{LinkName, Prefix};
use super::interfaces::{NodeInterface, Route};
use super::{ConfigError, Endpoint, EndpointKind, NodeConfig};
use crate::control::model::Name;

/// Interfaces that one node can have: each costs a device of the kernel's, where it is a tap.
const MAX_INTERFACES: usize = 4096;
/// Routes that one endpoint can have: what a table of ranges takes in without thinking about it.
const MAX_ROUTES: usize = 65_536;
/// Neighbours that can be given: as many as a worker remembers.
const MAX_NEIGHBOURS: usize = 65_536;

impl NodeConfig {
    /// Whose each port is: a wire takes a port whole, interfaces share one by their VLANs.
    pub(super) fn check_interfaces(&self) -> Result<(), ConfigError> {
        let total: usize = self.endpoints.iter().map(|endpoint| endpoint.interfaces.len()).sum();
        if total >= MAX_INTERFACES {
            let message = format!("they have {total} interfaces; a node has at most {}", MAX_INTERFACES - 1);
            return Err(ConfigError::at("endpoints", message));
        }
        let wires = self.endpoints.iter().filter(|endpoint| endpoint.kind == EndpointKind::Wire);
        let wire_of: HashMap<&Name, &Name> =
            wires.flat_map(|wire| wire.ports.iter().map(|port| (port, &wire.name))).collect();
        let mut owner_of: HashMap<String, &Name> = HashMap::new();
        for (position, endpoint) in self.endpoints.iter().enumerate() {
            let at = |key: &str| format!("endpoints[{position}].{key}");
            match endpoint.kind {
                EndpointKind::Wire => no_wire_has(endpoint, &at)?,
                EndpointKind::Routed if !endpoint.ports.is_empty() => {
                    let message = "a routed endpoint has interfaces in the place of ports";
                    return Err(ConfigError::at(at("ports"), message));
                }
                EndpointKind::Routed if endpoint.interfaces.is_empty() => {
                    let message = "there are none; a routed endpoint has one or more";
                    return Err(ConfigError::at(at("interfaces"), message));
                }
                EndpointKind::Routed => {}
            }
            for (index, interface) in endpoint.interfaces.iter().enumerate() {
                let at = |key: &str| format!("endpoints[{position}].interfaces[{index}]{key}");
                let port = &interface.port;
                self.check_port_exists(&at(".port"), port)?;
                if self.is_underlay(port) {
                    let message = format!("'{port}' is the underlay's port and cannot be an endpoint's too");
                    return Err(ConfigError::at(at(".port"), message));
                }
                if let Some(wire) = wire_of.get(port) {
                    let message = format!("'{port}' is a port of the wire '{wire}', which takes it whole");
                    return Err(ConfigError::at(at(".port"), message));
                }
                check_vlans(&interface.vlans).map_err(|message| ConfigError::at(at(".vlans"), message))?;
                let name = interface.name();
                if let Some(owner) = owner_of.insert(name.clone(), &endpoint.name) {
                    let message = format!("'{name}' is an interface of the endpoint '{owner}' already");
                    return Err(ConfigError::at(at(""), message));
                }
                if interface.addresses.is_empty() {
                    let message =
                        "there are none; without an address of its own an interface can ask for no neighbour";
                    return Err(ConfigError::at(at(".addresses"), message));
                }
            }
            check_addresses(endpoint, position)?;
        }
        self.check_host_interfaces()
    }

    /// That the kernel can have every host interface under its name, and each once.
    fn check_host_interfaces(&self) -> Result<(), ConfigError> {
        let mut places = vec!["underlay".to_owned()];
        for (position, endpoint) in self.endpoints.iter().enumerate() {
            let interfaces = 0..endpoint.interfaces.len();
            places.extend(interfaces.map(|index| format!("endpoints[{position}].interfaces[{index}]")));
        }
        let mut seen: HashMap<String, String> = HashMap::new();
        for (interface, place) in self.interfaces().into_iter().zip(places) {
            let at = format!("{place}.host_interface");
            let (name, host) = (interface.name, interface.host_interface);
            let kept = self.ports[interface.port].kept_device().filter(|_| interface.vlans.is_empty());
            if let Some(device) = kept.filter(|device| *device != host) {
                let message =
                    format!("'{host}' must be '{device}', which the kernel keeps below the port of '{name}'");
                return Err(ConfigError::at(at, message));
            }
            if host.parse::<LinkName>().is_err() {
                let message = format!(
                    "it must be given: '{host}' has {} characters, and the kernel takes {}",
                    host.len(),
                    LinkName::MAX
                );
                return Err(ConfigError::at(at, message));
            }
            if let Some(other) = seen.insert(host.clone(), name) {
                let message = format!("'{host}' is the host interface of '{other}' already");
                return Err(ConfigError::at(at, message));
            }
        }
        Ok(())
    }

    pub(super) fn check_routes(&self) -> Result<(), ConfigError> {
        let interfaces = self.interfaces();
        for (position, endpoint) in self.endpoints.iter().enumerate() {
            if endpoint.routes.len() > MAX_ROUTES {
                let message =
                    format!("there are {}; there must be at most {MAX_ROUTES}", endpoint.routes.len());
                return Err(ConfigError::at(format!("endpoints[{position}].routes"), message));
            }
            let own = interfaces
                .iter()
                .filter(|known| known.endpoint.is_some_and(|id| id.index() == position))
                .collect::<Vec<_>>();
            let mut seen: HashMap<Prefix, String> = HashMap::new();
            for interface in &own {
                let networks = interface.addresses.iter().map(|address| address.network());
                seen.extend(
                    networks.map(|network| (network, format!("the network of '{}'", interface.name))),
                );
            }
            for (index, route) in endpoint.routes.iter().enumerate() {
                let at = |key: &str| format!("endpoints[{position}].routes[{index}]{key}");
                if let Some(what) = seen.insert(route.prefix, "another route's prefix".to_owned()) {
                    let message = format!("{} is {what} already", route.prefix);
                    return Err(ConfigError::at(at(".prefix"), message));
                }
                check_route(route, &own).map_err(|(key, message)| ConfigError::at(at(key), message))?;
            }
        }
        Ok(())
    }

    pub(super) fn check_neighbours(&self) -> Result<(), ConfigError> {
        if self.neighbours.len() > MAX_NEIGHBOURS {
            let message =
                format!("there are {}; there must be at most {MAX_NEIGHBOURS}", self.neighbours.len());
            return Err(ConfigError::at("neighbours", message));
        }
        let interfaces = self.interfaces();
        let mut seen = HashMap::new();
        for (position, neighbour) in self.neighbours.iter().enumerate() {
            let at = |key: &str| format!("neighbours[{position}].{key}");
            let address = neighbour.address;
            let (place, interface) = match &neighbour.interface {
                None => (0, &interfaces[0]),
                Some(name) => {
                    interfaces.iter().enumerate().find(|(_, known)| known.name == *name).ok_or_else(|| {
                        ConfigError::at(at("interface"), no_interface(name, interfaces.iter()))
                    })?
                }
            };
            if seen.insert((place, address), position).is_some() {
                let message = format!("another neighbour has the address '{address}' already");
                return Err(ConfigError::at(at("address"), message));
            }
            let network = if interface.endpoint.is_none() {
                format!("the underlay's network, {}", list(&interface.addresses))
            } else {
                format!("a network of '{}', {}", interface.name, list(&interface.addresses))
            };
            on_link(interface, address).map_err(|why| {
                ConfigError::at(
                    at("address"),
                    format!("'{address}' {why}; it must be another station on {network}"),
                )
            })?;
        }
        Ok(())
    }
}

/// A wire has neither interfaces nor routes.
fn no_wire_has(endpoint: &Endpoint, at: &dyn Fn(&str) -> String) -> Result<(), ConfigError> {
    for (key, given) in
        [("interfaces", !endpoint.interfaces.is_empty()), ("routes", !endpoint.routes.is_empty())]
    {
        if given {
            let message = format!("a wire has no {key}: what comes in on one port leaves by the other");
            return Err(ConfigError::at(at(key), message));
        }
    }
    Ok(())
}

fn check_vlans(vlans: &[u16]) -> Result<(), String> {
    if vlans.len() > 2 {
        return Err(format!("there are {}; a frame has at most 2 tags", vlans.len()));
    }
    match vlans.iter().find(|vlan| !(1..=4094).contains(*vlan)) {
        Some(vlan) => Err(format!("{vlan} must be between 1 and 4094")),
        None => Ok(()),
    }
}

/// That no address is an endpoint's twice, and no network is on two of its interfaces.
fn check_addresses(endpoint: &Endpoint, position: usize) -> Result<(), ConfigError> {
    let mut owner_of = HashMap::new();
    let mut addresses = HashMap::new();
    for (index, interface) in endpoint.interfaces.iter().enumerate() {
        for (nth, address) in interface.addresses.iter().enumerate() {
            let at = format!("endpoints[{position}].interfaces[{index}].addresses[{nth}]");
            let name = interface.name();
            if let Some(other) = addresses.insert(address.address, name.clone()) {
                let message = format!("'{}' is an address of '{other}' already", address.address);
                return Err(ConfigError::at(at, message));
            }
            match owner_of.insert(address.network(), name.clone()) {
                Some(other) if other != name => {
                    let message = format!("the network {} is on '{other}' already", address.network());
                    return Err(ConfigError::at(at, message));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A route of an endpoint that has these interfaces; the refusal says of which key it is.
fn check_route(route: &Route, own: &[&NodeInterface]) -> Result<(), (&'static str, String)> {
    let named = match &route.interface {
        None => None,
        Some(name) => {
            let found = own.iter().find(|known| known.name == *name);
            Some(found.ok_or_else(|| (".interface", no_interface(name, own.iter().copied())))?)
        }
    };
    let Some(via) = route.via else {
        return match named {
            Some(_) => Ok(()),
            None => Err(("", "it leads nowhere; give it via or interface".to_owned())),
        };
    };
    if via.is_ipv4() != route.prefix.network.is_ipv4() {
        return Err((".via", format!("'{via}' is of another family than {}", route.prefix)));
    }
    let link_local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
    match named {
        // Every interface has a link-local network of its own.
        Some(_) if link_local => Ok(()),
        None if link_local => {
            Err((".interface", format!("it must be given, as every interface may have a neighbour '{via}'")))
        }
        Some(interface) => on_link(interface, via).map_err(|why| {
            let own = list(&interface.addresses);
            (
                ".via",
                format!(
                    "'{via}' {why}; it must be another station on a network of '{}', {own}",
                    interface.name
                ),
            )
        }),
        None => match own.iter().find(|known| known.reaches(via)) {
            Some(interface) => on_link(interface, via).map_err(|why| {
                (".via", format!("'{via}' {why}; it must be another station on a network of the endpoint"))
            }),
            None => {
                let own: Vec<_> =
                    own.iter().flat_map(|known| &known.addresses).map(ToString::to_string).collect();
                Err((
                    ".via",
                    format!("'{via}' is on no network of the endpoint; there are [{}]", own.join(", ")),
                ))
            }
        },
    }
}

/// That `address` may be a neighbour on `interface`; why not, if not.
fn on_link(interface: &NodeInterface, address: IpAddr) -> Result<(), &'static str> {
    if interface.addresses.iter().any(|own| own.address == address) {
        return Err("is our own address");
    }
    if interface.reaches(address) { Ok(()) } else { Err("is not on that network") }
}

fn no_interface<'a>(name: &str, known: impl Iterator<Item = &'a NodeInterface>) -> String {
    let known: Vec<_> = known.map(|interface| interface.name.as_str()).collect();
    format!("there is no interface '{name}'; there are [{}]", known.join(", "))
}

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
