//! From what the operator configured to what workers forward by: [`Compiler::compile`] turns the
//! objects, the node's own configuration and the verdicts of health checks into a [`Forwarding`].
//!
//! The compiler keeps the choice tables between two compilations, as a changed target costs little in
//! a table that is there and much in one that is built anew (F-4). Tables and routes that did not change are
//! shared with the state before, so that a neighbour's new address costs neither time nor memory for them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use super::health::damping::Verdict;

use super::health::{Duty, NodeScope, TargetKey};
use super::host::HostCounters;
use super::model::{
    self, ForeignId, IpAddressType, LoadBalancer, Name, Registration, State, Target, TargetGroup, Zone,
};
use super::neighbours::Hop;
use super::node::{HostAddress, NodeRoute};
use super::slots::{Slot, Slots};
use crate::balance::{Builder, TargetMap};
use crate::datapath::counters::MAX_GATEWAYS;
use crate::datapath::forwarding::{
    self, Condition, Endpoint, EndpointKind, Forwarding, Gateway, Policy, PortRole, Underlay,
};
use crate::datapath::interfaces::Interface;
use crate::datapath::routes::{self, Routes};
use crate::flow::{HashSeed, Timers, Tuple};
use crate::id::{GatewayId, InterfaceId, TargetId};
use crate::wire::ethernet::MacAddr;
use crate::wire::geneve::outer::OuterTemplate;

/// What the compiler must know of the node; it does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// What decides which targets are in scope.
    pub scope: NodeScope,
    /// The zones that subnets stand for; workers and compiler have no use for them.
    pub subnets: BTreeMap<ForeignId, Zone>,
    /// What each port is for, by [`PortId`](crate::id::PortId).
    pub ports: Vec<PortRole>,
    /// By [`EndpointId`](crate::id::EndpointId).
    pub endpoints: Vec<EndpointFacts>,
    /// By [`InterfaceId`].
    pub interfaces: Vec<InterfaceFacts>,
    /// The target side.
    pub underlay: Underlay,
    /// The link-layer address of the target side's port.
    pub underlay_mac: MacAddr,
    /// The target side's prefix and router; an idle node has none.
    pub routes: Option<super::node::Underlay>,
}

/// An interface of the node.
#[derive(Clone, Debug)]
pub struct InterfaceFacts {
    /// What people call it.
    pub name: String,
    /// The name of its port.
    pub port_name: Name,
    /// What workers must know of it; its `locals` are kept by [`Compiler::set_locals`].
    pub forwarding: Interface,
    /// Our addresses on it by the node's configuration.
    pub addresses: Vec<HostAddress>,
    /// The kernel's name for its side.
    pub host_interface: String,
    /// What passed between it and the host; `None` where the kernel sees the port by itself.
    pub host: Option<Arc<HostCounters>>,
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
    /// The names of its ports.
    pub port_names: Vec<Name>,
    /// Its routes, if it is `routed`; a `wire` has none.
    pub routes: Option<Vec<NodeRoute>>,
}

/// A group's members, as its table has them.
type Members = Vec<(TargetId, Ipv4Addr, u16)>;

/// Tables of a state that is about to come, to be built by another thread: with many targets they take milliseconds
/// each. The compiler goes on with the present ones meanwhile.
#[must_use = "the builders must come back"]
pub struct Ahead {
    groups: Vec<(Name, Builder, Members)>,
}

impl Ahead {
    /// Builds them.
    pub fn build(&mut self) {
        for (_, builder, members) in &mut self.groups {
            builder.update(members);
            // The builder keeps it for whoever asks next.
            drop(builder.map());
        }
    }
}

/// Makes forwarding states.
pub struct Compiler {
    node: NodeFacts,
    choice_seed: HashSeed,
    builders: BTreeMap<Name, Builder>,
    /// The present tables of groups whose builders are away, at work for the state after this one.
    away: BTreeMap<Name, TargetMap>,
    /// Tables are being built for the next state.
    ahead: bool,
    /// Load balancers by [`GatewayId`]: a load balancer keeps its number.
    gateways: Vec<Name>,
    /// How packets leave each endpoint.
    kinds: Vec<EndpointKind>,
    /// The routers of all routes.
    routers: HashSet<Hop>,
}

impl Compiler {
    /// A compiler for a node. `choice_seed` is the same on every node of a site (F-4).
    pub fn new(node: NodeFacts, choice_seed: HashSeed) -> Compiler {
        let kinds = node.endpoints.iter().map(EndpointFacts::kind).collect();
        let routes = node.endpoints.iter().filter_map(|endpoint| endpoint.routes.as_ref()).flatten();
        let routers = routes
            .filter_map(|route| Some(Hop { interface: interface_id(route.interface), address: route.via? }));
        let routers = routers.collect();
        Compiler {
            node,
            choice_seed,
            builders: BTreeMap::new(),
            away: BTreeMap::new(),
            ahead: false,
            gateways: Vec::new(),
            kinds,
            routers,
        }
    }

    /// One that has built nothing yet, for the same node as it is now.
    #[must_use]
    pub fn anew(&self) -> Compiler {
        let mut anew = Compiler::new(self.node.clone(), self.choice_seed.clone());
        anew.gateways.clone_from(&self.gateways);
        anew
    }

    /// The node's facts.
    pub fn node(&self) -> &NodeFacts {
        &self.node
    }

    /// The kernel's addresses on an interface are these, beside those configured. True if that is news.
    pub fn set_locals(&mut self, interface: InterfaceId, kernel: &[IpAddr]) -> bool {
        let Some(facts) = self.node.interfaces.get_mut(interface.index()) else { return false };
        let configured = facts.addresses.iter().map(|own| own.address);
        let mut all: Vec<IpAddr> = configured.collect();
        all.extend(kernel);
        let mut seen = HashSet::new();
        // The configured ones first: the gateway speaks with the first that it may use.
        all.retain(|address| seen.insert(*address));
        let locals = all.into_iter().collect();
        if facts.forwarding.locals == locals {
            return false;
        }
        facts.forwarding.locals = locals;
        true
    }

    /// Whom a packet to a target is handed to; `None` if there is no way to it.
    pub fn next_hop(&self, target: Ipv4Addr) -> Option<Hop> {
        let address = self.node.routes.as_ref()?.next_hop(target)?.into();
        Some(Hop { interface: self.node.underlay.interface, address })
    }

    /// The neighbours that are needed all the time: the targets' next hops, and the routers of routes.
    pub fn next_hops(&self, state: &State, slots: &Slots) -> HashSet<Hop> {
        let registered = state.target_groups().flat_map(|group| group.targets.keys().copied());
        let held = slots.iter().map(|(key, _)| key.address);
        let hops = registered.chain(held).filter_map(|target| self.next_hop(target));
        hops.chain(self.routers.iter().copied()).collect()
    }

    /// Load balancers have these numbers, under which workers that live have counted.
    pub fn resume(&mut self, gateways: &[Name]) {
        self.gateways = gateways.iter().take(MAX_GATEWAYS).cloned().collect();
    }

    /// The load balancers that have numbers, in the order of these.
    pub fn numbered(&self) -> &[Name] {
        &self.gateways
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

    /// The forwarding state for these objects, verdicts and link-layer addresses. Targets get their slots
    /// here; a target for which there is none is left out.
    pub fn compile(
        &mut self,
        state: &State,
        slots: &mut Slots,
        verdict: impl Fn(&TargetKey) -> Verdict,
        mac: impl Fn(&Hop) -> Option<MacAddr>,
    ) -> Forwarding {
        self.builders.retain(|name, _| state.target_group(name.as_str()).is_ok());
        for balancer in state.load_balancers() {
            self.number(&balancer.name, state);
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
                let balancer = state.load_balancer(name.as_str()).ok()?;
                self.gateway(state, balancer, slots)
            })
            .collect();

        let gateway_of = self.gateways_of_groups(state);
        let mut targets: Vec<Option<forwarding::Target>> = vec![None; slots.len()];
        let mut conditions = vec![Condition::Removed; slots.len()];
        for (key, slot) in slots.iter() {
            let group = state.target_group(&key.group).ok();
            let target = group.and_then(|group| group.targets.get(&key.address));
            let gateway = gateway_of.get(&*key.group).copied();
            targets[slot.id.index()] = Some(self.target(key, slot, gateway, &mac));
            conditions[slot.id.index()] = condition(target, || verdict(key));
        }

        Forwarding {
            configuration: state.generation(),
            ports: self.node.ports.as_slice().into(),
            interfaces: self.node.interfaces.iter().map(|facts| facts.forwarding.clone()).collect(),
            endpoints: self
                .node
                .endpoints
                .iter()
                .zip(&self.kinds)
                .map(|(endpoint, kind)| self.endpoint(state, endpoint, kind))
                .collect(),
            gateways,
            targets: targets.into(),
            conditions: conditions.into(),
            underlay: self.node.underlay.clone(),
        }
    }

    /// The tables that `next` needs and the present state has not. Until they come back the compiler can be asked for
    /// states of the present objects only.
    pub fn begin_ahead(&mut self, next: &State, slots: &mut Slots) -> Ahead {
        let mut groups = Vec::new();
        for balancer in next.load_balancers() {
            let Some(group) = next.target_group_of(balancer) else { continue };
            for address in group.targets.keys() {
                slots.hold(&TargetKey::new(group.name.as_str(), *address));
            }
            let members = self.members(balancer, group, slots);
            let builder = self.builders.get(&group.name);
            if builder.is_some_and(|builder| builder.has(&members)) {
                continue;
            }
            let builder = match self.builders.remove(&group.name) {
                Some(builder) => {
                    self.away.insert(group.name.clone(), builder.map());
                    builder
                }
                None => Builder::new(self.choice_seed.clone()),
            };
            groups.push((group.name.clone(), builder, members));
        }
        self.ahead = true;
        Ahead { groups }
    }

    /// The builders are back; none if they are lost: then tables are built where they are needed.
    pub fn end_ahead(&mut self, ahead: Option<Ahead>) {
        self.ahead = false;
        self.away.clear();
        let groups = ahead.into_iter().flat_map(|ahead| ahead.groups);
        self.builders.extend(groups.map(|(name, builder, _)| (name, builder)));
    }

    /// Whether tables are being built for the next state.
    pub fn is_ahead(&self) -> bool {
        self.ahead
    }

    /// The targets of a group that new flows of a load balancer may go to.
    fn members(&self, balancer: &LoadBalancer, group: &TargetGroup, slots: &Slots) -> Members {
        let members = group.targets.iter().filter_map(|(address, target)| {
            let duty = self.node.scope.duty(Some(balancer), *address, target);
            let slot = slots.get(&TargetKey::new(group.name.as_str(), *address))?;
            (duty == Duty::Check).then_some((slot.id, *address, target.weight.get()))
        });
        members.collect()
    }

    fn endpoint(&self, state: &State, endpoint: &EndpointFacts, kind: &EndpointKind) -> Endpoint {
        let gateway = state
            .load_balancer(endpoint.load_balancer.as_str())
            .ok()
            .and_then(|balancer| self.gateway_id(&balancer.name));
        Endpoint { id: endpoint.id, attachment_id: endpoint.attachment_id, gateway, kind: kind.clone() }
    }

    /// The number of the load balancer that uses each target group. Looked up once for all: a group has up to
    /// 1,000 targets, and a node 256 load balancers to look through.
    fn gateways_of_groups<'a>(&self, state: &'a State) -> HashMap<&'a str, GatewayId> {
        let used = state.load_balancers().filter_map(|balancer| {
            let group = state.target_group_of(balancer)?;
            Some((group.name.as_str(), self.gateway_id(&balancer.name)?))
        });
        used.collect()
    }

    /// Sees to it that a load balancer has a number. One that was deleted keeps its own, with what was
    /// counted under it, until there are no others left.
    fn number(&mut self, name: &Name, state: &State) {
        if self.gateways.contains(name) {
            return;
        }
        if self.gateways.len() < MAX_GATEWAYS {
            self.gateways.push(name.clone());
        } else if let Some(deleted) =
            self.gateways.iter_mut().find(|known| state.load_balancer(known.as_str()).is_err())
        {
            *deleted = name.clone();
        }
    }

    /// What workers know of a load balancer; nothing of one without a listener.
    fn gateway(&mut self, state: &State, balancer: &LoadBalancer, slots: &Slots) -> Option<Gateway> {
        let group = state.target_group_of(balancer)?;
        let listener = state.listener_settings(balancer)?;
        let settings = group.settings();
        let map = match self.away.get(&group.name) {
            Some(present) => present.clone(),
            None => {
                let members = self.members(balancer, group, slots);
                let new = || Builder::new(self.choice_seed.clone());
                let builder = self.builders.entry(group.name.clone()).or_insert_with(new);
                builder.update(&members);
                builder.map()
            }
        };
        Some(Gateway {
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
                no_flow_resets_per_second: listener.no_flow_resets_per_second,
                mss_clamp: listener.mss_clamp,
            },
            map,
        })
    }

    fn target(
        &self,
        key: &TargetKey,
        slot: Slot,
        gateway: Option<GatewayId>,
        mac: &impl Fn(&Hop) -> Option<MacAddr>,
    ) -> forwarding::Target {
        let mac = self.next_hop(key.address).and_then(|hop| mac(&hop));
        let underlay = Ipv4Addr::from_bits(self.node.underlay.address);
        forwarding::Target {
            generation: slot.generation,
            address: key.address.to_bits(),
            gateway,
            template: mac.map(|mac| OuterTemplate::new(self.node.underlay_mac, mac, underlay, key.address)),
        }
    }
}

impl EndpointFacts {
    /// How packets leave it.
    fn kind(&self) -> EndpointKind {
        let Some(routes) = &self.routes else { return EndpointKind::Wire };
        EndpointKind::Routed(Routes::new(routes.iter().map(|route| routes::Route {
            prefix: route.prefix.network,
            length: route.prefix.length,
            hop: routes::Hop { interface: interface_id(route.interface), via: route.via },
        })))
    }
}

/// The id of an interface by its position; the node's configuration has fewer than there are ids.
fn interface_id(position: usize) -> InterfaceId {
    InterfaceId(u16::try_from(position).unwrap_or(u16::MAX))
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

fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
