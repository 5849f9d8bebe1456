//! Endpoints, interfaces and neighbours as the socket shows them.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Inner;
use crate::control::compile::{EndpointFacts, InterfaceFacts};
use crate::control::neighbours::{Hop, Reachability, Standing};
use crate::control::socket::views::{
    EndpointView, HostInterfaceView, InterfaceView, NeighbourView, NextHopView, RouteView,
};
use crate::id::{EndpointId, InterfaceId};

/// Neighbours of an interface that are shown: more are no reading, and a line of the socket is bounded.
const NEIGHBOURS_SHOWN: usize = 1000;

impl Inner {
    pub(super) fn endpoint_views(&self) -> Vec<EndpointView> {
        let endpoints = self.compiler.node().endpoints.iter().zip((0..).map(EndpointId));
        endpoints.map(|(endpoint, id)| self.endpoint_view(endpoint, id)).collect()
    }

    fn endpoint_view(&self, endpoint: &EndpointFacts, id: EndpointId) -> EndpointView {
        let interfaces = || self.compiler.node().interfaces.iter().zip((0..).map(InterfaceId));
        let own = interfaces().filter(|(facts, _)| facts.forwarding.endpoint == Some(id));
        let balancer = self.state.load_balancer(endpoint.load_balancer.as_str()).ok();
        let routes = endpoint.routes.iter().flatten().map(|route| RouteView {
            prefix: route.prefix.to_string(),
            via: route.via,
            interface_name: interfaces()
                .nth(route.interface)
                .map(|(facts, _)| facts.name.clone())
                .unwrap_or_default(),
        });
        EndpointView {
            endpoint_name: endpoint.name.to_string(),
            kind: if endpoint.routes.is_some() { "routed" } else { "wire" }.to_owned(),
            endpoint_id: format!("{:#018x}", endpoint.id),
            attachment_id: format!("{:#018x}", endpoint.attachment_id),
            ports: endpoint.port_names.iter().map(ToString::to_string).collect(),
            interfaces: own.map(|(facts, id)| self.interface_view(facts, id)).collect(),
            routes: routes.collect(),
            load_balancer: balancer.map(|balancer| balancer.name.to_string()),
            flows: self.workers.sum(|counters| counters.endpoint_flows(id)),
        }
    }

    fn interface_view(&self, facts: &InterfaceFacts, id: InterfaceId) -> InterfaceView {
        let neighbours = self.network.on(id);
        let counted = |counter: fn(&crate::control::host::HostCounters) -> &AtomicU64| {
            facts.host.as_ref().map_or(0, |host| counter(host).load(Ordering::Relaxed))
        };
        InterfaceView {
            interface_name: facts.name.clone(),
            port_name: facts.port_name.to_string(),
            vlans: facts.forwarding.tags.identifiers().to_vec(),
            addresses: facts.addresses.iter().map(ToString::to_string).collect(),
            mac: facts.forwarding.mac.to_string(),
            mtu: facts.forwarding.mtu,
            host_interface: HostInterfaceView {
                name: facts.host_interface.clone(),
                kind: if facts.host.is_some() { "tap" } else { "shared" }.to_owned(),
                up: self.network.link_up(id).unwrap_or(false),
                to_host: counted(|host| &host.to_host),
                from_host: counted(|host| &host.from_host),
                lost: counted(|host| &host.lost),
            },
            neighbour_count: neighbours.len() as u64,
            neighbours: neighbours
                .iter()
                .take(NEIGHBOURS_SHOWN)
                .map(|hop| NeighbourView {
                    address: hop.address,
                    mac: self.network.mac(hop).map(|mac| mac.to_string()),
                    state: word(self.network.standing(hop)).to_owned(),
                })
                .collect(),
        }
    }

    /// Whom a target's packets are handed to.
    pub(super) fn next_hop_view(&self, target: Ipv4Addr) -> NextHopView {
        match self.compiler.next_hop(target) {
            None => NextHopView { next_hop: None, mac: None, state: "no-route".to_owned() },
            Some(hop @ Hop { address, .. }) => NextHopView {
                next_hop: match address {
                    IpAddr::V4(address) => Some(address),
                    IpAddr::V6(_) => None,
                },
                mac: self.network.mac(&hop).map(|mac| mac.to_string()),
                state: word(self.network.standing(&hop)).to_owned(),
            },
        }
    }
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Static => "static",
        Standing::Kernel(None) => "unknown",
        Standing::Kernel(Some(Reachability::Incomplete)) => "incomplete",
        Standing::Kernel(Some(Reachability::Reachable)) => "reachable",
        Standing::Kernel(Some(Reachability::Stale)) => "stale",
        Standing::Kernel(Some(Reachability::Delay)) => "delay",
        Standing::Kernel(Some(Reachability::Probe)) => "probe",
        Standing::Kernel(Some(Reachability::Failed)) => "failed",
        Standing::Kernel(Some(Reachability::Permanent)) => "permanent",
    }
}
