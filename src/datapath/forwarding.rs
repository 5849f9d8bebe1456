//! The forwarding state: everything a worker must know of the configuration, immutable.
//!
//! The control core compiles it, hands one `Arc` of it to each worker through the worker's ring and
//! gets that `Arc` back when the worker has taken the next one; so it is freed where it was made.
//! The only thing that changes under a live `Forwarding` is the targets' [`Condition`], which each
//! worker keeps in a [`Conditions`] of its own and which small messages update. Whatever can be worked out
//! beforehand is, so that no burst waits for a worker that takes a new one over.

use std::sync::Arc;

pub use super::conditions::{Conditions, Standing};
use super::interfaces::{Interface, PortInterfaces};
use super::routes::Routes;
use super::steering::{Steering, any_source_port};
use crate::balance::TargetMap;
use crate::flow::{Timers, Tuple};
use crate::id::{EndpointId, GatewayId, InterfaceId, PortId, TargetId, WorkerId};
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
    pub conditions: Standing,
    /// The side where the targets are.
    pub underlay: Underlay,
}

impl Forwarding {
    /// Works out beforehand what workers would have to count when they take this over. Called by the control
    /// core on what it is about to publish.
    pub fn prepare(&mut self) {
        self.conditions.count(&self.gateways);
    }

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
    /// so many resets in answer to packets of no live flow may be sent in a second, over all workers; 0: any
    /// number.
    pub no_flow_resets_per_second: u32,
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
            no_flow_resets_per_second: NO_FLOW_RESETS_PER_SECOND,
            mss_clamp: false,
        }
    }
}

impl Policy {
    /// Whether packets of no live flow are answered with resets.
    #[inline]
    pub fn answers_no_flow(&self) -> bool {
        self.reset_on_idle || self.unknown_flow == UnknownFlow::Reset
    }
}

/// What anybody who can send a packet may provoke in a second at most, unless an operator says otherwise: as many as a
/// worker sends ICMP errors, and at 40 to 60 bytes each less than half a Mbit/s at whoever the senders were forged to be.
pub const NO_FLOW_RESETS_PER_SECOND: u32 = 1000;

/// guards against a false positive. All zero: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetGuards {
    /// An unhealthy target must have been so for so many milliseconds.
    pub hold_ms: u32,
    /// So many of a hundred targets must be healthy.
    pub min_healthy_percent: u32,
    /// So many resets of flows may be sent in a second, over all workers; 0: any number.
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
    /// Whether the port computes it.
    pub checksum_by_port: bool,
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
