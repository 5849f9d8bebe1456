//! From what the operator configured to what workers forward by: [`Compiler::compile`] turns the
//! objects, the node's own configuration and the verdicts of health checks into a [`Forwarding`].
//!
//! The compiler keeps the choice tables between two compilations, as a changed target costs little in
//! a table that is there and much in one that is built anew (F-4).

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::health::damping::Verdict;

use super::health::{Duty, NodeScope, TargetKey};
use super::model::{self, IpAddressType, LoadBalancer, Name, Registration, State, Target};
use super::slots::{Slot, Slots};
use crate::balance::Builder;
use crate::datapath::counters::MAX_GATEWAYS;
use crate::datapath::forwarding::{
    self, Condition, Endpoint, EndpointKind, Forwarding, Gateway, Policy, PortRole, Underlay,
};
use crate::datapath::interfaces::Interface;
use crate::flow::{HashSeed, Timers, Tuple};
use crate::id::GatewayId;
use crate::wire::ethernet::MacAddr;
use crate::wire::geneve::outer::OuterTemplate;

/// What the compiler must know of the node; it does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// What decides which targets are in scope.
    pub scope: NodeScope,
    /// What each port is for, by [`PortId`](crate::id::PortId).
    pub ports: Vec<PortRole>,
    /// By [`EndpointId`](crate::id::EndpointId).
    pub endpoints: Vec<EndpointFacts>,
    /// By [`InterfaceId`](crate::id::InterfaceId).
    pub interfaces: Vec<Interface>,
    /// The target side.
    pub underlay: Underlay,
    /// The link-layer address of the target side's port.
    pub underlay_mac: MacAddr,
    /// The target side's prefix and router.
    pub routes: super::node::Underlay,
    /// Known link-layer addresses.
    pub neighbours: HashMap<Ipv4Addr, MacAddr>,
}

/// An endpoint of the node.
#[derive(Clone, Debug)]
pub struct EndpointFacts {
    /// Its name.
    pub name: Name,
    /// Its id in GENEVE.
    pub id: u64,
    /// Its attachment id in GENEVE.
    pub attachment_id: u64,
    /// The load balancer behind it.
    pub load_balancer: Name,
    /// The names of its two ports.
    pub port_names: Vec<Name>,
    /// How packets leave it.
    pub kind: EndpointKind,
}

/// Makes forwarding states.
pub struct Compiler {
    node: NodeFacts,
    choice_seed: HashSeed,
    builders: BTreeMap<Name, Builder>,
    /// Load balancers by [`GatewayId`]: a load balancer keeps its number.
    gateways: Vec<Name>,
}

impl Compiler {
    /// A compiler for a node. `choice_seed` is the same on every node of a site (F-4).
    pub fn new(node: NodeFacts, choice_seed: HashSeed) -> Compiler {
        Compiler { node, choice_seed, builders: BTreeMap::new(), gateways: Vec::new() }
    }

    /// The node's facts.
    pub fn node(&self) -> &NodeFacts {
        &self.node
    }

    /// How many numbers were given to load balancers.
    pub fn gateways(&self) -> u16 {
        u16::try_from(self.gateways.len()).unwrap_or(u16::MAX)
    }

    /// The load balancer that has this number.
    pub fn gateway_name(&self, id: GatewayId) -> Option<&Name> {
        self.gateways.get(id.index())
    }

    /// The number of a load balancer.
    pub fn gateway_id(&self, name: &Name) -> Option<GatewayId> {
        let place = self.gateways.iter().position(|known| known == name)?;
        u16::try_from(place).ok().map(GatewayId)
    }

    /// The forwarding state for these objects and verdicts. Targets get their slots here; a target
    /// for which there is none is left out.
    pub fn compile(
        &mut self,
        state: &State,
        slots: &mut Slots,
        verdict: impl Fn(&TargetKey) -> Verdict,
    ) -> Forwarding {
        for balancer in state.load_balancers() {
            if !self.gateways.contains(&balancer.name) && self.gateways.len() < MAX_GATEWAYS {
                self.gateways.push(balancer.name.clone());
            }
        }
        for group in state.target_groups() {
            for address in group.targets.keys() {
                slots.hold(&TargetKey::new(group.name.as_str(), *address));
            }
        }
        let gateways = self
            .gateways
            .clone()
            .iter()
            .map(|name| {
                state.load_balancer(name.as_str()).ok().map(|balancer| self.gateway(state, balancer, slots))
            })
            .collect();

        let mut targets: Vec<Option<forwarding::Target>> = vec![None; slots.len()];
        let mut conditions = vec![Condition::Removed; slots.len()];
        for (key, slot) in slots.iter() {
            let group = state.target_group(&key.group).ok();
            let target = group.and_then(|group| group.targets.get(&key.address));
            let gateway = group
                .and_then(|group| state.load_balancer_using(&group.name))
                .and_then(|balancer| self.gateway_id(&balancer.name));
            targets[slot.id.index()] = Some(self.target(key, slot, gateway));
            conditions[slot.id.index()] = condition(target, || verdict(key));
        }

        Forwarding {
            configuration: state.generation(),
            ports: self.node.ports.as_slice().into(),
            interfaces: self.node.interfaces.as_slice().into(),
            endpoints: self.node.endpoints.iter().map(|endpoint| self.endpoint(state, endpoint)).collect(),
            gateways,
            targets: targets.into(),
            conditions: conditions.into(),
            underlay: self.node.underlay.clone(),
        }
    }

    fn endpoint(&self, state: &State, endpoint: &EndpointFacts) -> Endpoint {
        let gateway = state
            .load_balancer(endpoint.load_balancer.as_str())
            .ok()
            .and_then(|balancer| self.gateway_id(&balancer.name));
        Endpoint {
            id: endpoint.id,
            attachment_id: endpoint.attachment_id,
            gateway,
            kind: endpoint.kind.clone(),
        }
    }

    fn gateway(&mut self, state: &State, balancer: &LoadBalancer, slots: &Slots) -> Gateway {
        let group = state.target_group_of(balancer);
        let listener = state.listener_settings(balancer);
        let settings = group.settings();
        let members = group.targets.iter().filter_map(|(address, target)| {
            let duty = self.node.scope.duty(Some(balancer), *address, target);
            let slot = slots.get(&TargetKey::new(group.name.as_str(), *address))?;
            (duty == Duty::Check).then_some((slot, *address, target.weight.get()))
        });
        let members: Vec<(Slot, Ipv4Addr, u16)> = members.collect();
        let builder =
            self.builders.entry(group.name.clone()).or_insert_with(|| Builder::new(self.choice_seed.clone()));
        follow(builder, &members);
        Gateway {
            dualstack: balancer.ip_address_type == IpAddressType::Dualstack,
            timers: Timers {
                tcp_idle_ms: millis(listener.tcp_idle_timeout),
                other_idle_ms: millis(listener.udp_idle_timeout),
                closed_ms: millis(listener.tcp_closed_timeout),
                half_open_ms: millis(listener.tcp_half_open_timeout),
            },
            policy: Policy {
                stickiness: match settings.stickiness {
                    model::Stickiness::FiveTuple => Tuple::Five,
                    model::Stickiness::ThreeTuple => Tuple::Three,
                    model::Stickiness::TwoTuple => Tuple::Two,
                },
                failover: settings.failover,
                reset_on_unhealthy: settings.reset_on_unhealthy,
                reset_on_deregistration: settings.reset_on_deregistration,
                reset_on_idle: listener.reset_on_idle_timeout,
                unknown_flow: listener.unknown_flow,
                syn_reselect: listener.syn_reselect,
                both_ends: settings.reset_both_ends,
                proactive: settings.reset_proactive,
                guards: settings.reset_guards,
                mss_clamp: listener.mss_clamp,
            },
            map: builder.map(),
        }
    }

    fn target(&self, key: &TargetKey, slot: Slot, gateway: Option<GatewayId>) -> forwarding::Target {
        let next_hop = self.node.routes.next_hop(key.address);
        let mac = next_hop.and_then(|hop| self.node.neighbours.get(&hop)).copied();
        let underlay = Ipv4Addr::from_bits(self.node.underlay.address);
        forwarding::Target {
            generation: slot.generation,
            address: key.address.to_bits(),
            gateway,
            template: mac.map(|mac| OuterTemplate::new(self.node.underlay_mac, mac, underlay, key.address)),
        }
    }
}

/// The condition of a target that holds a slot: as it is registered, and as its checks say.
pub fn condition(target: Option<&Target>, verdict: impl FnOnce() -> Verdict) -> Condition {
    match target.map(|target| target.registration) {
        None => Condition::Removed,
        Some(Registration::Draining { .. }) => Condition::Draining,
        Some(Registration::Registered) => match verdict() {
            Verdict::Initial => Condition::Initial,
            Verdict::Healthy => Condition::Healthy,
            Verdict::Unhealthy => Condition::Unhealthy,
        },
    }
}

/// Brings a table to these members, touching only what changed.
fn follow(builder: &mut Builder, members: &[(Slot, Ipv4Addr, u16)]) {
    let wanted: HashMap<_, _> =
        members.iter().map(|(slot, address, weight)| (slot.id, (*address, *weight))).collect();
    let known: HashMap<_, _> = builder
        .members()
        .iter()
        .map(|member| (member.target(), (member.address(), member.weight())))
        .collect();
    for (target, (address, _)) in &known {
        if wanted.get(target).is_none_or(|(wanted, _)| wanted != address) {
            builder.remove(*target);
        }
    }
    for (slot, address, weight) in members {
        match known.get(&slot.id) {
            Some((known, old)) if known == address => {
                if old != weight {
                    builder.reweight(slot.id, *weight);
                }
            }
            _ => builder.add(slot.id, *address, *weight),
        }
    }
}

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
