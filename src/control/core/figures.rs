//! What an audit must know of the node beyond objects and targets.

use super::Core;
use crate::control::audit::{Entrance, NodeFigures};
use crate::control::compile::EndpointFacts;

impl Core {
    pub(super) fn node_figures(&self) -> NodeFigures {
        let ports = (self.ports)();
        let inner = self.inner.borrow();
        let node = inner.compiler.node();
        let name = |place: usize| ports.get(place).map(|port| port.port_name.clone()).unwrap_or_default();
        let entrances = node.endpoints.iter().flat_map(|endpoint: &EndpointFacts| {
            endpoint.port_names.iter().filter_map(|own| {
                let port = ports.iter().find(|port| port.port_name == own.as_str())?;
                Some(Entrance {
                    load_balancer: endpoint.load_balancer.to_string(),
                    endpoint: endpoint.name.to_string(),
                    port: port.port_name.clone(),
                    mtu: port.mtu,
                })
            })
        });
        let answers = inner.slots.iter().filter_map(|(key, _)| {
            let view = inner.health.view(key)?;
            Some(((key.group.to_string(), key.address), view.answers))
        });
        let watch = self.watch.borrow();
        let sent_to = inner.slots.iter().filter(|(key, _)| watch.recent().is_sent_to(key));
        NodeFigures {
            zone: node.scope.zone.as_ref().map(ToString::to_string),
            target_side: name(node.underlay.port.index()),
            target_side_mtu: node.underlay.mtu,
            entrances: entrances.collect(),
            answers: answers.collect(),
            sent_to: sent_to.map(|(key, _)| (key.group.to_string(), key.address)).collect(),
        }
    }
}
