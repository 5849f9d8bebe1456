//! What the rest of the daemon must know of the node, from its configuration and the devices that were
//! found.

use std::collections::HashMap;
use std::sync::Arc;

use flowgate::control::compile::{EndpointFacts, InterfaceFacts, NodeFacts};
use flowgate::control::health::NodeScope;
use flowgate::control::model::Name;
use flowgate::control::neighbours::Hop;
use flowgate::control::node::{EndpointKind, NodeConfig};
use flowgate::datapath::forwarding::{PortRole, Underlay};
use flowgate::datapath::interfaces::{PortInterfaces, VlanTags};
use flowgate::datapath::steering::Steering;
use flowgate::id::{EndpointId, InterfaceId, PortId};
use flowgate::io::dpdk::Port;
use flowgate::wire::ethernet::MacAddr;

use super::devices::Devices;

/// What the compiler must know.
pub fn node_facts(config: &NodeConfig, devices: &Devices, interfaces: Vec<InterfaceFacts>) -> NodeFacts {
    let place = |name: &Name| {
        let place = config.ports.iter().position(|port| port.name == *name);
        place.and_then(|place| u16::try_from(place).ok()).map(PortId)
    };
    let mut roles = vec![PortRole::Unused; config.ports.len()];
    for (endpoint, id) in config.endpoints.iter().zip((0..).map(EndpointId)) {
        if let [a, b] = endpoint.ports.as_slice()
            && let (Some(a), Some(b)) = (place(a), place(b))
        {
            roles[a.index()] = PortRole::Wire { endpoint: id, peer: b };
            roles[b.index()] = PortRole::Wire { endpoint: id, peer: a };
        }
    }
    for (port, own) in by_port(&interfaces) {
        roles[port.index()] = PortRole::Routed(own);
    }
    let target_side = config.underlay.as_ref().and_then(|underlay| {
        let id = place(&underlay.port)?;
        Some((underlay, id, devices.ports.get(id.index())?))
    });
    if let Some((_, id, _)) = target_side {
        roles[id.index()] = PortRole::Underlay;
    }
    NodeFacts {
        subnets: config.subnets.clone(),
        scope: NodeScope { zone: config.zone.clone(), own_addresses: config.own_addresses() },
        ports: roles,
        endpoints: endpoints(config),
        underlay: target_side.map_or_else(Underlay::default, |(underlay, id, port)| Underlay {
            port: id,
            address: underlay.address.address.to_bits(),
            mtu: port.mtu(),
            udp_checksum: underlay.udp_checksum,
            checksum_by_port: port.offloads().udp_checksum,
            // `NodeConfig::interfaces` has it first.
            interface: InterfaceId(0),
            steering: steering(config, port).map(Arc::new),
        }),
        interfaces,
        underlay_mac: target_side.map_or_else(MacAddr::default, |(_, _, port)| MacAddr(port.mac())),
        routes: config.underlay.clone(),
    }
}

fn endpoints(config: &NodeConfig) -> Vec<EndpointFacts> {
    let facts = config.endpoints.iter().zip((0..).map(EndpointId)).map(|(endpoint, id)| {
        let mut port_names = endpoint.ports.clone();
        port_names.extend(endpoint.interfaces.iter().map(|interface| interface.port.clone()));
        let mut seen = std::collections::HashSet::new();
        port_names.retain(|name| seen.insert(name.clone()));
        EndpointFacts {
            name: endpoint.name.clone(),
            id: endpoint.id.0,
            attachment_id: endpoint.attachment_id.0,
            load_balancer: endpoint.load_balancer.clone(),
            port_names,
            routes: (endpoint.kind == EndpointKind::Routed).then(|| config.routes(id)),
        }
    });
    facts.collect()
}

/// The interfaces of routed endpoints on each port, sorted by their tags.
fn by_port(interfaces: &[InterfaceFacts]) -> HashMap<PortId, PortInterfaces> {
    let mut by_port: HashMap<PortId, Vec<(VlanTags, InterfaceId)>> = HashMap::new();
    for (facts, id) in interfaces.iter().zip((0..).map(InterfaceId)) {
        if facts.forwarding.endpoint.is_some() {
            by_port.entry(facts.forwarding.port).or_default().push((facts.forwarding.tags, id));
        }
    }
    let sorted = by_port.into_iter().map(|(port, mut own)| {
        own.sort_unstable();
        (port, own.into())
    });
    sorted.collect()
}

/// The neighbours that the configuration gives.
pub fn static_neighbours(config: &NodeConfig) -> HashMap<Hop, MacAddr> {
    let interfaces = config.interfaces();
    let given = config.neighbours.iter().filter_map(|neighbour| {
        let place = match &neighbour.interface {
            None => 0,
            Some(name) => interfaces.iter().position(|known| known.name == *name)?,
        };
        let interface = InterfaceId(u16::try_from(place).ok()?);
        Some((Hop { interface, address: neighbour.address }, MacAddr(neighbour.mac.0)))
    });
    given.collect()
}

/// Which source ports bring answers to which worker, where the target side's port spreads packets in a way
/// that can be foretold (W-3).
fn steering(config: &NodeConfig, port: &Port) -> Option<Steering> {
    let workers = u8::try_from(config.workers.cores.len()).ok()?;
    let foretold = port.rss().filter(|rss| rss.ports && !rss.key.is_empty());
    let steering = foretold.and_then(|rss| Steering::new(&rss.table, workers));
    if workers > 1 {
        tracing::info!(
            name: "answers_steered", steered = steering.is_some(),
            "whether answers arrive at the worker that owns their flow"
        );
    }
    steering
}
