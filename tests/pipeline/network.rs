//! What the ports of a bench are for: a wire between two of them, or routed endpoints.
//!
//! The routed network, whose endpoint 1 has the same addresses as endpoint 0 on other VLANs (O-4):
//!
//! ```text
//!            LEFT, 192.0.2.0/24, 2001:db8::/64          RIGHT, 203.0.113.0/24, 2001:db8:f::/64
//!   endpoint 0   VLAN 100         ┐                    ┌  untagged       .253 ── 198.51.100.0/24
//!                VLAN 101 (guests)┘      gateway       │                 .254 ── everything else
//!   endpoint 1   VLAN 200                              └  VLAN 7, 300    the same
//! ```

use flowgate::datapath::forwarding::{Endpoint, EndpointKind, PortRole};
use flowgate::datapath::interfaces::{Interface, VlanTags};
use flowgate::datapath::routes::{Hop, Route, Routes};
use flowgate::id::{EndpointId, GatewayId, InterfaceId};
use flowgate::wire::ethernet::MacAddr;

use crate::harness::*;

/// The gateway's link-layer addresses.
pub const LEFT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x61];
pub const RIGHT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x62];

/// The target side, endpoint 0's clients, guests and servers, endpoint 1's clients and servers.
pub const UNDERLAY: InterfaceId = InterfaceId(0);
pub const CLIENTS: InterfaceId = InterfaceId(1);
pub const GUESTS: InterfaceId = InterfaceId(2);
pub const SERVERS: InterfaceId = InterfaceId(3);
pub const OTHER_CLIENTS: InterfaceId = InterfaceId(4);
pub const OTHER_SERVERS: InterfaceId = InterfaceId(5);

/// The id of endpoint 1; endpoint 0 has the harness's.
pub const OTHER_ENDPOINT_ID: u64 = 0x99;

#[derive(Clone)]
pub struct Network {
    pub ports: Vec<PortRole>,
    pub interfaces: Vec<Interface>,
    pub endpoints: Vec<Endpoint>,
}

impl Network {
    /// So many wires, each an endpoint of the one load balancer, and the target side.
    pub fn wires(count: u16) -> Network {
        let mut ports = vec![PortRole::Underlay; 1 + 2 * usize::from(count)];
        for n in 0..count {
            let [left, right] = wire(n);
            for (port, peer) in [(left, right), (right, left)] {
                ports[port] = PortRole::Wire { endpoint: EndpointId(n), peer: port_id(peer) };
            }
        }
        let endpoints = (0..count).map(|n| endpoint(ENDPOINT_ID + u64::from(n), EndpointKind::Wire));
        Network { ports, interfaces: Vec::new(), endpoints: endpoints.collect() }
    }

    /// The network drawn above.
    pub fn routed() -> Network {
        let left = ["192.0.2.1", "2001:db8::1", "fe80::1"];
        let right = ["203.0.113.1", "2001:db8:f::1", "fe80::1"];
        let interfaces = vec![
            interface(UNDER, &[], GATEWAY_MAC, None, &[&TUNNEL.to_string()]),
            interface(LEFT, &[100], LEFT_MAC, Some(0), &left),
            interface(LEFT, &[101], LEFT_MAC, Some(0), &["100.64.0.1"]),
            interface(RIGHT, &[], RIGHT_MAC, Some(0), &right),
            interface(LEFT, &[200], LEFT_MAC, Some(1), &left),
            interface(RIGHT, &[7, 300], RIGHT_MAC, Some(1), &right),
        ];
        let port = |number: usize| {
            let here = (0..).map(InterfaceId).zip(&interfaces).filter(|(_, one)| one.port == port_id(number));
            let mut here: Vec<_> = here.map(|(id, one)| (one.tags, id)).collect();
            here.sort();
            PortRole::Routed(here.into())
        };
        Network {
            ports: vec![port(LEFT), port(RIGHT), PortRole::Underlay],
            endpoints: vec![
                endpoint(ENDPOINT_ID, routes(CLIENTS, SERVERS, Some(GUESTS))),
                endpoint(OTHER_ENDPOINT_ID, routes(OTHER_CLIENTS, OTHER_SERVERS, None)),
            ],
            interfaces,
        }
    }
}

fn endpoint(id: u64, kind: EndpointKind) -> Endpoint {
    Endpoint { id, attachment_id: ATTACHMENT_ID, gateway: Some(GatewayId(0)), kind }
}

fn interface(port: usize, tags: &[u16], mac: [u8; 6], endpoint: Option<u16>, locals: &[&str]) -> Interface {
    Interface {
        port: port_id(port),
        tags: VlanTags::new(tags).unwrap(),
        mac: MacAddr(mac),
        mtu: 1500,
        endpoint: endpoint.map(EndpointId),
        host_shares: false,
        locals: locals.iter().map(|address| address.parse().unwrap()).collect(),
    }
}

fn routes(clients: InterfaceId, servers: InterfaceId, guests: Option<InterfaceId>) -> EndpointKind {
    let route = |prefix: &str, length, interface, via: Option<&str>| Route {
        prefix: prefix.parse().unwrap(),
        length,
        hop: Hop { interface, via: via.map(|via| via.parse().unwrap()) },
    };
    let mut all = vec![
        route("192.0.2.0", 24, clients, None),
        route("2001:db8::", 64, clients, None),
        route("203.0.113.0", 24, servers, None),
        route("2001:db8:f::", 64, servers, None),
        route("0.0.0.0", 0, servers, Some("203.0.113.254")),
        route("198.51.100.0", 24, servers, Some("203.0.113.253")),
        route("2001:db8:1::", 48, servers, Some("fe80::53")),
    ];
    all.extend(guests.map(|guests| route("100.64.0.0", 10, guests, None)));
    EndpointKind::Routed(Routes::new(all))
}
