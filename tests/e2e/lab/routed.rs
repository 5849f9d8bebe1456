//! A laboratory whose gateway is a router: what its kernel has of it, and its configuration.

use std::net::IpAddr;

use super::gateway::{LOAD_BALANCER, device};
use super::netns::Netns;
use super::trunk::Trunk;
use super::{
    CLIENT_MAC, ETH, Family, LEFT, Lab, MTU, RIGHT, SERVER_MAC, Side, UNDER, UNDERLAY, UNDERLAY_MTU, link,
};

/// The interfaces of the twins' ports.
pub const LEFT_TWIN: &str = "left2";
pub const RIGHT_TWIN: &str = "right2";

/// The VLANs of a trunk on the client's and on the server's side, the outer one first.
pub const VLANS: [&[u16]; 2] = [&[100], &[200, 7]];

/// How the gateway is between client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A wire between them; every port is shared with the kernel.
    Wire,
    /// A router whose ports the kernel shares (`net_af_packet`): the addresses are the kernel's own.
    Routed,
    /// A router on tagged interfaces, whose frames the kernel does not see: what is the host's goes by taps.
    Trunk,
}

impl Shape {
    pub const ROUTED: [Self; 2] = [Self::Routed, Self::Trunk];

    /// The gateway's address in the network of one side.
    pub fn router(side: Side, family: Family) -> IpAddr {
        match (side, family) {
            (Side::Client, Family::V4) => [192, 0, 2, 1].into(),
            (Side::Server, Family::V4) => [192, 0, 2, 17].into(),
            (Side::Client, Family::V6) => "2001:db8::11".parse().expect("an address"),
            (Side::Server, Family::V6) => "2001:db8::21".parse().expect("an address"),
        }
    }

    /// Gives the gateway's kernel the addresses that are its own before anything runs.
    pub(super) fn address_router(self, router: &Netns) {
        router.ip(&format!("addr add {UNDERLAY}/24 dev {UNDER}"));
        if self == Self::Routed {
            give_addresses(router, LEFT, RIGHT);
            // As a router's kernel is: the gateway has to keep it out of its way.
            router.sysctl("net/ipv4/ip_forward", "1");
        }
    }

    /// Joins a client and a server with the gateway's interfaces. The trunks live as long as they are held.
    pub(super) fn join(self, router: &Netns, client: (&Netns, &str), server: (&Netns, &str)) -> Vec<Trunk> {
        let ends = [(client, CLIENT_MAC, &VLANS[0]), (server, SERVER_MAC, &VLANS[1])];
        let mut trunks = Vec::new();
        for ((host, interface), mac, vlans) in ends {
            if self == Self::Trunk {
                trunks.push(Trunk::new((host, ETH, mac), (router, interface), MTU, vlans));
            } else {
                link((host, ETH, Some(mac)), (router, interface, None), MTU);
            }
        }
        trunks
    }

    /// Gives a client or server its addresses and, behind a router, its way out.
    pub(super) fn address_host(self, host: &Netns, side: Side) {
        let end = |family: Family| match side {
            Side::Client => family.client(),
            Side::Server => family.server(),
        };
        let (v4, v6) = (end(Family::V4), end(Family::V6));
        let (v4_length, v6_length) = if self == Self::Wire { (24, 64) } else { (28, 124) };
        host.ip(&format!("addr add {v4}/{v4_length} dev {ETH}"));
        host.ip(&format!("addr add {v6}/{v6_length} dev {ETH} nodad"));
        if self != Self::Wire {
            for family in Family::BOTH {
                host.ip(&format!("route add default via {}", Self::router(side, family)));
            }
        }
    }
}

/// The addresses of a router between client and server.
fn give_addresses(router: &Netns, left: &str, right: &str) {
    for (device, side) in [(left, Side::Client), (right, Side::Server)] {
        router.sysctl(&format!("net/ipv6/conf/{device}/disable_ipv6"), "0");
        // A router asks for its neighbours from a link-local address.
        router.sysctl(&format!("net/ipv6/conf/{device}/addr_gen_mode"), "0");
        router.ip(&format!("addr add {}/28 dev {device}", Shape::router(side, Family::V4)));
        router.ip(&format!("addr add {}/124 dev {device} nodad", Shape::router(side, Family::V6)));
    }
}

impl Lab {
    /// Adds a client and a server with the same addresses and link-layer addresses as the others, behind
    /// an endpoint of their own.
    pub fn add_twins(&mut self) {
        let name = |what: &str| format!("{}-{what}", self.router.name());
        let (client, server) = (Netns::create(name("client2")), Netns::create(name("server2")));
        self.trunks.extend(self.shape.join(&self.router, (&client, LEFT_TWIN), (&server, RIGHT_TWIN)));
        if self.shape == Shape::Routed {
            give_addresses(&self.router, LEFT_TWIN, RIGHT_TWIN);
        }
        self.shape.address_host(&client, Side::Client);
        self.shape.address_host(&server, Side::Server);
        self.twins = Some((client, server));
    }

    /// The node: a routed endpoint between two ports, another between the twins', and no neighbour given.
    pub(super) fn routed_toml(&self) -> String {
        let mut toml = self.node_head();
        toml += &format!(
            r#"
[log]
level = "debug"

[underlay]
port = "{UNDER}"
address = "{UNDERLAY}/24"
"#
        );
        let mut ports = vec![(LEFT, MTU), (RIGHT, MTU), (UNDER, UNDERLAY_MTU)];
        let mut endpoints = vec![("office", LEFT, RIGHT)];
        if self.twins.is_some() {
            ports.extend([(LEFT_TWIN, MTU), (RIGHT_TWIN, MTU)]);
            endpoints.push(("branch", LEFT_TWIN, RIGHT_TWIN));
        }
        for (n, (interface, mtu)) in ports.iter().enumerate() {
            let device = device(n, interface);
            toml += &format!("\n[[ports]]\nname = \"{interface}\"\ndevice = \"{device}\"\nmtu = {mtu}\n");
        }
        let [left_vlans, right_vlans] = if self.shape == Shape::Trunk { VLANS } else { [&[][..]; 2] };
        for (n, (name, left, right)) in endpoints.iter().enumerate() {
            toml += &format!(
                "\n[[endpoints]]\nname = \"{name}\"\nid = {}\nkind = \"routed\"\nload_balancer = \"{LOAD_BALANCER}\"\n",
                n + 1
            );
            for (port, side, vlans) in [(left, Side::Client, left_vlans), (right, Side::Server, right_vlans)]
            {
                let [v4, v6] = Family::BOTH.map(|family| Shape::router(side, family));
                toml += &format!(
                    "\n[[endpoints.interfaces]]\nport = \"{port}\"\nvlans = {vlans:?}\naddresses = [\"{v4}/28\", \"{v6}/124\"]\n"
                );
            }
        }
        toml
    }
}
