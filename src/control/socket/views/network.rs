//! Interfaces, routes and neighbours as they are shown.

use std::net::{IpAddr, Ipv4Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An interface of a routed endpoint (O-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct InterfaceView {
    /// Its name: its port's, and its VLANs' behind dots.
    pub interface_name: String,
    /// The name of its port.
    pub port_name: String,
    /// Its VLAN tags, the outer one first.
    pub vlans: Vec<u16>,
    /// Our addresses on it, with their prefixes, as configured.
    pub addresses: Vec<String>,
    /// Its link-layer address.
    pub mac: String,
    /// The largest IP packet that leaves by it, in bytes.
    pub mtu: u16,
    /// The kernel's side of it.
    pub host_interface: HostInterfaceView,
    /// How many neighbours on it are in use or given.
    pub neighbour_count: u64,
    /// The first 1,000 of them, by address.
    pub neighbours: Vec<NeighbourView>,
}

/// The kernel's side of an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct HostInterfaceView {
    /// The kernel's name for it.
    pub name: String,
    /// `tap`: frames are handed over by a tap; `shared`: the kernel sees the port's frames by itself.
    pub kind: String,
    /// Whether it is there and up.
    pub up: bool,
    /// Frames handed over to the kernel; 0 where it is shared.
    pub to_host: u64,
    /// Frames sent for the kernel; 0 where it is shared.
    pub from_host: u64,
    /// Frames lost on either way.
    pub lost: u64,
}

/// A neighbour on an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct NeighbourView {
    /// Its address.
    pub address: IpAddr,
    /// Its link-layer address; none: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// `static`, or what the kernel says: `reachable`, `stale`, `delay`, `probe`, `permanent`, `incomplete`,
    /// `failed`; `unknown` before it has said anything.
    pub state: String,
}

/// A route of a routed endpoint (O-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct RouteView {
    /// The network.
    pub prefix: String,
    /// The router; none: each address of the network is a neighbour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<IpAddr>,
    /// The name of the interface that it leaves by.
    pub interface_name: String,
}

/// Whom a target's packets are handed to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct NextHopView {
    /// The target itself on its own network, the router of the underlay beyond; none: there is no way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<Ipv4Addr>,
    /// Its link-layer address; none: it is not known, and packets to the target are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// As a neighbour's; `no-route` where there is no next hop.
    pub state: String,
}
