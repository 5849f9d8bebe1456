//! The interfaces of routed endpoints and of the underlay (O-4): where each is, what the kernel calls
//! its side of it, and the endpoint's routes.
//!
//! An interface is one port and the VLAN tags of its frames. The kernel answers ARP, neighbour
//! discovery and ping for its addresses, on its *host interface*: the network device itself where the
//! kernel keeps it below the port (`net_af_packet`), a tap of the daemon's elsewhere.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::Deserialize;

use super::addresses::{HostAddress, LinkName, Prefix};
use super::{NodeConfig, Port};
use crate::control::model::Name;
use crate::id::EndpointId;

/// `[[endpoints.interfaces]]`: where a routed endpoint is on a network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Interface {
    /// The port that it is on. Several interfaces share a port by their VLANs.
    pub port: Name,
    /// The VLAN tags of its frames, the outer one first: none, one (802.1Q) or two (QinQ).
    #[serde(default)]
    #[schemars(length(max = 2), inner(range(min = 1, max = 4094)))]
    pub vlans: Vec<u16>,
    /// Our addresses there. Their networks are reached directly.
    pub addresses: Vec<HostAddress>,
    /// What the kernel calls its side: the network device where the kernel keeps it below the port, else a
    /// tap that the daemon makes, `fg-` and the interface's name where nothing is given.
    pub host_interface: Option<LinkName>,
}

/// `[[endpoints.routes]]`: where a routed endpoint's packets to a network go. The longest prefix wins;
/// the networks of the interfaces' addresses are routes too.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Route {
    /// The network.
    pub prefix: Prefix,
    /// The router to it; none: each address of the network is a neighbour.
    pub via: Option<IpAddr>,
    /// The interface by its name: its port's, and its VLANs' behind dots (`lan`, `lan.100`, `lan.100.7`).
    /// With `via` it may be left out: it is the one whose network `via` is on.
    pub interface: Option<String>,
}

/// An interface with everything that follows from the rest of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInterface {
    /// What people call it: its port's name, and its VLANs behind dots.
    pub name: String,
    /// The position of its port in `ports`.
    pub port: usize,
    /// Its VLAN tags, the outer one first.
    pub vlans: Vec<u16>,
    /// Our addresses.
    pub addresses: Vec<HostAddress>,
    /// What the kernel calls its side.
    pub host_interface: String,
    /// Whether the kernel keeps the device below the port, and so sees the port's frames by itself.
    pub kept_by_kernel: bool,
    /// Its endpoint; none: it is the underlay's.
    pub endpoint: Option<EndpointId>,
}

/// A route with its interface found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRoute {
    /// The network.
    pub prefix: Prefix,
    /// The router; none: each address of the network is a neighbour.
    pub via: Option<IpAddr>,
    /// The position of the interface in [`NodeConfig::interfaces`].
    pub interface: usize,
}

/// `lan`, `lan.100`, `lan.100.7`. A port's name has no dots.
pub(super) fn interface_name(port: &Name, vlans: &[u16]) -> String {
    vlans.iter().fold(port.to_string(), |name, vlan| format!("{name}.{vlan}"))
}

impl Interface {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> String {
        interface_name(&self.port, &self.vlans)
    }
}

impl Port {
    /// The device that the kernel keeps below the port, whose frames it sees as well as we do.
    #[must_use]
    pub fn kept_device(&self) -> Option<&str> {
        let device = self.device.name();
        self.device.argument("iface").filter(|_| device.starts_with("net_af_packet"))
    }

    /// The host interface of an interface on this port for which none is given.
    pub(super) fn default_host_interface(&self, vlans: &[u16]) -> String {
        match self.kept_device() {
            Some(device) if vlans.is_empty() => device.to_owned(),
            _ => format!("fg-{}", interface_name(&self.name, vlans)),
        }
    }
}

impl NodeConfig {
    /// The node's interfaces: the underlay's, then each routed endpoint's, in the order of the file; of an idle node
    /// none. `InterfaceId` is the position.
    #[must_use]
    pub fn interfaces(&self) -> Vec<NodeInterface> {
        let Some(underlay) = &self.underlay else { return Vec::new() };
        let address = HostAddress {
            address: underlay.address.address.into(),
            prefix_length: underlay.address.prefix_length,
        };
        let given = underlay.host_interface.as_ref();
        let mut interfaces = vec![self.interface(&underlay.port, &[], &[address], given, None)];
        for (endpoint, id) in self.endpoints.iter().zip((0..).map(EndpointId)) {
            interfaces.extend(endpoint.interfaces.iter().map(|interface| {
                let Interface { port, vlans, addresses, host_interface } = interface;
                self.interface(port, vlans, addresses, host_interface.as_ref(), Some(id))
            }));
        }
        interfaces
    }

    /// The IPv4 addresses that the node itself has: no target can be there, as the kernel would answer a
    /// check of it by itself (`Target.IpUnusable`, H-5).
    #[must_use]
    pub fn own_addresses(&self) -> BTreeSet<Ipv4Addr> {
        let all = self.interfaces().into_iter().flat_map(|interface| interface.addresses);
        all.filter_map(|own| match own.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
        .collect()
    }

    fn interface(
        &self,
        port: &Name,
        vlans: &[u16],
        addresses: &[HostAddress],
        host_interface: Option<&LinkName>,
        endpoint: Option<EndpointId>,
    ) -> NodeInterface {
        // `check` has seen to it that there is such a port.
        let place = self.ports.iter().position(|known| known.name == *port).unwrap_or_default();
        let known = &self.ports[place];
        NodeInterface {
            name: interface_name(port, vlans),
            port: place,
            vlans: vlans.to_vec(),
            addresses: addresses.to_vec(),
            host_interface: host_interface
                .map_or_else(|| known.default_host_interface(vlans), ToString::to_string),
            kept_by_kernel: known.kept_device().is_some(),
            endpoint,
        }
    }

    /// The routes of an endpoint: the networks of its interfaces' addresses, then those of the file.
    #[must_use]
    pub fn routes(&self, endpoint: EndpointId) -> Vec<NodeRoute> {
        let interfaces = self.interfaces();
        let own = || interfaces.iter().enumerate().filter(|(_, known)| known.endpoint == Some(endpoint));
        let connected = own().flat_map(|(place, known)| {
            let networks = known.addresses.iter().map(HostAddress::network);
            networks.map(move |prefix| NodeRoute { prefix, via: None, interface: place })
        });
        let mut routes: Vec<NodeRoute> = connected.collect();
        // Two addresses of one network make it one route.
        routes.dedup();
        let configured = self.endpoints.get(endpoint.index()).map_or(&[][..], |known| &known.routes);
        routes.extend(configured.iter().filter_map(|route| {
            let (place, _) = own().find(|(_, known)| match (&route.interface, route.via) {
                (Some(name), _) => known.name == *name,
                (None, Some(via)) => known.reaches(via),
                (None, None) => false,
            })?;
            Some(NodeRoute { prefix: route.prefix, via: route.via, interface: place })
        }));
        routes
    }
}

impl NodeInterface {
    /// Whether an address is on a network of the interface's.
    #[must_use]
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.network().contains(address))
    }
}
