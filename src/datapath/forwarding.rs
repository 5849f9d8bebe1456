//! The forwarding state: everything a worker must know of the configuration, immutable.
//!
//! The control core compiles it, hands one `Arc` of it to each worker through the worker's ring and
//! gets that `Arc` back when the worker has taken the next one; so it is freed where it was made.
//! The only thing that changes under a live `Forwarding` is the targets' [`Condition`], which each
//! worker keeps in a [`Conditions`] of its own and which small messages update.

use std::sync::Arc;

use super::interfaces::{Interface, PortInterfaces};
use super::routes::Routes;
use super::steering::{Steering, any_source_port};
use crate::balance::TargetMap;
use crate::flow::{Timers, Tuple};
use crate::id::{EndpointId, GatewayId, InterfaceId, Millis, PortId, TargetId, WorkerId};
use crate::wire::geneve::outer::OuterTemplate;

/// One version of the forwarding state.
#[derive(Debug, Default)]
pub struct Forwarding {
    /// The generation of the objects that this was compiled from.
    pub configuration: u64,
    /// What each port is for, by [`PortId`].
    pub ports: Box<[PortRole]>,
    /// By [`InterfaceId`].
    pub interfaces: Box<[Interface]>,
    /// By [`EndpointId`].
    pub endpoints: Box<[Endpoint]>,
    /// By [`GatewayId`]; a slot without a load balancer is `None`.
    pub gateways: Box<[Option<Gateway>]>,
    /// By [`TargetId`]. A target that was deregistered stays until its last flow has ended (T-4).
    pub targets: Box<[Option<Target>]>,
    /// The targets' conditions when this was compiled, by [`TargetId`].
    pub conditions: Box<[Condition]>,
    /// The side where the targets are.
    pub underlay: Underlay,
}

impl Forwarding {
    /// The endpoint, unless there is none with this number.
    #[inline]
    pub fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints.get(id.index())
    }

    /// The interface, unless there is none with this number.
    #[inline]
    pub fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.interfaces.get(id.index())
    }

    /// The load balancer in this slot.
    #[inline]
    pub fn gateway(&self, id: GatewayId) -> Option<&Gateway> {
        self.gateways.get(id.index())?.as_ref()
    }

    /// The load balancer behind an endpoint.
    #[inline]
    pub fn gateway_of(&self, endpoint: EndpointId) -> Option<(GatewayId, &Gateway)> {
        let id = self.endpoint(endpoint)?.gateway?;
        Some((id, self.gateway(id)?))
    }

    /// The target in this slot, provided it is still the one meant: a slot that was given to
    /// another target has another generation.
    #[inline]
    pub fn target(&self, id: TargetId, generation: u16) -> Option<&Target> {
        self.targets.get(id.index())?.as_ref().filter(|target| target.generation == generation)
    }

    /// The timers of the flows of an endpoint.
    #[inline]
    pub fn timers(&self, endpoint: EndpointId) -> Timers {
        self.gateway_of(endpoint).map_or_else(Timers::default, |(_, gateway)| gateway.timers)
    }
}

/// What a port is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PortRole {
    /// Nothing: what arrives is dropped.
    #[default]
    Unused,
    /// One end of a `wire` endpoint; what arrives leaves by `peer` in the end (O-4).
    Wire {
        /// The endpoint.
        endpoint: EndpointId,
        /// The other end.
        peer: PortId,
    },
    /// Interfaces of `routed` endpoints (O-4).
    Routed(PortInterfaces),
    /// The side where the targets are.
    Underlay,
}

/// Where client traffic enters and leaves.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The 64-bit id that GENEVE carries (W-2).
    pub id: u64,
    /// The 64-bit attachment id that GENEVE carries (W-2).
    pub attachment_id: u64,
    /// The load balancer behind it; `None` while there is none of the configured name.
    pub gateway: Option<GatewayId>,
    /// How what comes back from the appliances leaves.
    pub kind: EndpointKind,
}

/// How packets leave an endpoint (O-4).
#[derive(Clone, Debug)]
pub enum EndpointKind {
    /// By the wire's other port, with the link-layer header that their sender gave them.
    Wire,
    /// By the endpoint's own routes.
    Routed(Routes),
}

/// A load balancer with its listener and target group.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Whether IPv6 packets are taken (O-1).
    pub dualstack: bool,
    /// How long its flows are kept (A-7, A-10, F-9).
    pub timers: Timers,
    /// What is done when targets fail and flows end.
    pub policy: Policy,
    /// Chooses among the targets that new flows may go to: registered, not draining, in the node's
    /// scope (F-4).
    pub map: TargetMap,
}

/// The attributes that decide over a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How much of the tuple chooses the target (F-3).
    pub stickiness: Tuple,
    /// What becomes of a failed target's flows.
    pub failover: Failover,
    /// reset a flow whose target is unhealthy.
    pub reset_on_unhealthy: bool,
    /// reset a flow whose target was deregistered, after the delay.
    pub reset_on_deregistration: bool,
    /// reset a flow that idled out, and TCP packets of no flow.
    pub reset_on_idle: bool,
    /// F-8: what becomes of a TCP packet without SYN that belongs to no flow.
    pub unknown_flow: UnknownFlow,
    /// F-14: a SYN on a flow whose target is out starts a new flow.
    pub syn_reselect: bool,
    /// after one side was reset, the other side's next packet is reset too.
    pub both_ends: bool,
    /// both ends of silent flows are told as well.
    pub proactive: bool,
    /// what holds resets back.
    pub guards: ResetGuards,
    /// M-3: the MSS of SYNs is lowered to what fits the target side.
    pub mss_clamp: bool,
}

impl Default for Policy {
    /// AWS's defaults, and F-14.
    fn default() -> Policy {
        Policy {
            stickiness: Tuple::Five,
            failover: Failover::NoRebalance,
            reset_on_unhealthy: false,
            reset_on_deregistration: false,
            reset_on_idle: false,
            unknown_flow: UnknownFlow::Drop,
            syn_reselect: true,
            both_ends: false,
            proactive: false,
            guards: ResetGuards::default(),
            mss_clamp: false,
        }
    }
}

/// guards against a false positive. All zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetGuards {
    /// An unhealthy target must have been so for so many milliseconds.
    pub hold_ms: u32,
    /// So many of a hundred targets must be healthy.
    pub min_healthy_percent: u32,
    /// So many resets may be sent in a second, over all workers; 0: any number.
    pub max_per_second: u32,
}

/// What becomes of the flows of a target that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// They stay.
    NoRebalance,
    /// They move to a healthy target with their next packet.
    Rebalance,
}

/// What becomes of a TCP packet without SYN that belongs to no flow (F-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFlow {
    /// Dropped, unless A-6 is on.
    Drop,
    /// Taken as a new flow.
    Adopt,
    /// Answered with a reset.
    Reset,
}

/// An appliance.
#[derive(Clone, Debug)]
pub struct Target {
    /// Tells this target from one that had the slot before.
    pub generation: u16,
    /// Its IPv4 address.
    pub address: u32,
    /// The load balancer whose target it is or was; `None` if its group has none.
    pub gateway: Option<GatewayId>,
    /// The headers of a packet to it; `None` while its link-layer address is not known.
    pub template: Option<OuterTemplate>,
}

/// The side where the targets are.
#[derive(Clone, Debug, Default)]
pub struct Underlay {
    /// The port.
    pub port: PortId,
    /// The gateway's tunnel address.
    pub address: u32,
    /// The largest IP packet that the port takes.
    pub mtu: u16,
    /// Whether the outer UDP checksum is written (W-3).
    pub udp_checksum: bool,
    /// The port as an interface, by which what is not ours reaches the host.
    pub interface: InterfaceId,
    /// Which source ports bring answers to which worker; `None` where the port cannot be told (W-3).
    pub steering: Option<Arc<Steering>>,
}

impl Underlay {
    /// The outer UDP source port of a flow's packets to a target (W-3).
    #[inline]
    pub fn source_port(&self, template: &OuterTemplate, owner: WorkerId, flow_hash: u64) -> u16 {
        match &self.steering {
            Some(steering) => steering.source_port(template.answer_hash(), owner, flow_hash),
            None => any_source_port(flow_hash),
        }
    }
}

/// What a worker must know of a target's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// Registered, its first checks not yet decided: no new flows while another is healthy.
    #[default]
    Initial,
    /// Registered and healthy.
    Healthy,
    /// Deregistered, its delay running: flows go on, no new ones (T-3).
    Draining,
    /// Registered and unhealthy.
    Unhealthy,
    /// Deregistered, its delay over (T-4).
    Removed,
}

/// One worker's copy of the targets' conditions, since when the unhealthy are so, and how many
/// members of each load balancer are healthy.
#[derive(Debug)]
pub struct Conditions {
    by_target: Box<[Condition]>,
    /// Since when an unhealthy target is so; `None` for longer than any guard asks for, and for others.
    unhealthy_since: Box<[Option<Millis>]>,
    members: Box<[Members]>,
    /// The next target whose time is looked at.
    hand: usize,
}

/// How many targets new flows of a load balancer may go to.
#[derive(Clone, Copy, Debug, Default)]
struct Members {
    healthy: u16,
    /// Of a hundred, rounded down.
    healthy_percent: u8,
}

/// More than the longest hold of a reset, and far less than [`Millis`] can tell apart.
const LONG_UNHEALTHY_MS: u32 = 2 * 3_600_000;

impl Conditions {
    /// Room for so many targets and load balancers; nobody is healthy.
    pub fn new(targets: usize, gateways: usize) -> Conditions {
        Conditions {
            by_target: vec![Condition::Removed; targets].into(),
            unhealthy_since: vec![None; targets].into(),
            members: vec![Members::default(); gateways].into(),
            hand: 0,
        }
    }

    /// The condition of a target.
    #[inline]
    pub fn of(&self, target: TargetId) -> Condition {
        self.by_target.get(target.index()).copied().unwrap_or(Condition::Removed)
    }

    /// Whether the target's flows go on as they are: it is neither unhealthy nor removed.
    #[inline]
    pub fn is_in(&self, target: TargetId) -> bool {
        matches!(self.of(target), Condition::Healthy | Condition::Initial | Condition::Draining)
    }

    /// For how many milliseconds an unhealthy target has been so.
    #[inline]
    pub fn unhealthy_for(&self, target: TargetId, now: Millis) -> u32 {
        let since = self.unhealthy_since.get(target.index()).copied().flatten();
        since.map_or(u32::MAX, |since| now.since(since))
    }

    /// Whether some target that new flows of this load balancer may go to is healthy.
    #[inline]
    pub fn any_healthy(&self, gateway: GatewayId) -> bool {
        self.members.get(gateway.index()).is_some_and(|members| members.healthy > 0)
    }

    /// How many of a hundred targets that new flows of this load balancer may go to are healthy,
    /// rounded down.
    #[inline]
    pub fn healthy_percent(&self, gateway: GatewayId) -> u8 {
        self.members.get(gateway.index()).map_or(0, |members| members.healthy_percent)
    }

    /// Takes over the conditions that a new forwarding state came with.
    pub fn install(&mut self, forwarding: &Forwarding, now: Millis) {
        let known = forwarding.conditions.len().min(self.by_target.len());
        for (place, condition) in forwarding.conditions.iter().enumerate().take(known) {
            self.change(place, *condition, now);
        }
        self.by_target[known..].fill(Condition::Removed);
        for (gateway, members) in forwarding.gateways.iter().zip(self.members.iter_mut()) {
            *members =
                gateway.as_ref().map_or_else(Members::default, |gateway| count(&self.by_target, gateway));
        }
    }

    /// Sets one target's condition. A message about a target that `forwarding` does not have in
    /// that slot any more (or not yet) changes nothing.
    pub fn set(
        &mut self,
        forwarding: &Forwarding,
        id: TargetId,
        generation: u16,
        condition: Condition,
        now: Millis,
    ) {
        let Some(target) = forwarding.target(id, generation) else { return };
        self.change(id.index(), condition, now);
        let Some(gateway_id) = target.gateway else { return };
        if let (Some(gateway), Some(members)) =
            (forwarding.gateway(gateway_id), self.members.get_mut(gateway_id.index()))
        {
            *members = count(&self.by_target, gateway);
        }
    }

    /// Looks at one target, so that no time is kept for so long that it would seem to lie ahead. To be
    /// called once a round.
    #[inline]
    pub fn age(&mut self, now: Millis) {
        match self.unhealthy_since.get_mut(self.hand) {
            Some(since) => {
                if since.is_some_and(|at| now.since(at) >= LONG_UNHEALTHY_MS) {
                    *since = None;
                }
                self.hand += 1;
            }
            None => self.hand = 0,
        }
    }

    fn change(&mut self, place: usize, condition: Condition, now: Millis) {
        let (Some(before), Some(since)) =
            (self.by_target.get_mut(place), self.unhealthy_since.get_mut(place))
        else {
            return;
        };
        if *before != condition {
            *before = condition;
            *since = (condition == Condition::Unhealthy).then_some(now);
        }
    }
}

/// How many of the load balancer's members are healthy.
fn count(by_target: &[Condition], gateway: &Gateway) -> Members {
    let members = &gateway.map.members;
    let healthy = members
        .iter()
        .filter(|member| by_target.get(member.target().index()) == Some(&Condition::Healthy))
        .count();
    let percent = (healthy * 100).checked_div(members.len()).unwrap_or(0);
    Members {
        healthy: u16::try_from(healthy).unwrap_or(u16::MAX),
        healthy_percent: u8::try_from(percent).unwrap_or(100),
    }
}
