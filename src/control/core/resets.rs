//! Resets, as they are told: some with their flow at once, all of them summed up.

use std::collections::HashMap;

use super::Inner;
use crate::control::events::{self, Event, What};
use crate::control::wall;
use crate::datapath::counters::ResetTrigger;
use crate::datapath::messages::ResetRecord;
use crate::id::{GatewayId, TargetId};

/// Resets told with their flow in one look into the rings; the others are in the sums.
const SAMPLE: usize = 32;

/// Resets that were heard of and are not yet told.
#[derive(Default)]
pub(super) struct Resets {
    sample: Vec<ResetRecord>,
    /// What was told of each kind, by target and trigger; of packets of no flow by load balancer.
    told: HashMap<(Option<GatewayId>, Option<TargetId>, usize), u64>,
}

impl Resets {
    /// Takes a record of a worker.
    pub(super) fn note(&mut self, record: ResetRecord) {
        if self.sample.len() < SAMPLE {
            self.sample.push(record);
        }
    }
}

impl Inner {
    /// The resets that are told with their flow.
    pub(super) fn sampled_resets(&mut self) -> Vec<Event> {
        let sample = std::mem::take(&mut self.resets.sample);
        let clock = self.workers.clock();
        let now = (wall::now(), clock.cycles());
        let at = |cycles| now.0 - clock.duration_of(now.1.saturating_sub(cycles));
        sample
            .iter()
            .map(|record| Event { at: at(record.at_cycles).into(), what: self.told_reset(record) })
            .collect()
    }

    fn told_reset(&self, record: &ResetRecord) -> What {
        let endpoint = self.compiler.node().endpoints.get(record.endpoint.index());
        What::TcpReset {
            endpoint: endpoint.map(|endpoint| endpoint.name.to_string()).unwrap_or_default(),
            target_group: self.group_name(record.gateway),
            target: record.target.and_then(|id| self.slots.holder(id)).map(|key| key.address),
            trigger: record.trigger.into(),
            sent_to: record.to.0,
            sent_to_port: record.to.1,
            peer: record.from.0,
            peer_port: record.from.1,
        }
    }

    /// How many resets were sent since this was last asked, by load balancer, target and trigger. Read
    /// from the counters, so that none is missed however many there are. Only a packet of no flow
    /// has no target.
    pub(super) fn summed_resets(&mut self) -> Vec<What> {
        let mut sums = Vec::new();
        for trigger in ResetTrigger::ALL.iter().copied().filter(|trigger| *trigger != ResetTrigger::NoFlow) {
            for (key, slot) in self.slots.iter() {
                if let Some(gateway) = self.gateway_of_group(&key.group) {
                    let count = self.workers.sum(|all| &all.target(slot.id).resets[trigger.index()]);
                    sums.push((gateway, Some((slot.id, key.address)), trigger, count));
                }
            }
        }
        for gateway in (0..self.compiler.gateways()).map(GatewayId) {
            let trigger = ResetTrigger::NoFlow;
            let count = self.workers.sum(|all| &all.gateway(gateway).resets[trigger.index()]);
            sums.push((gateway, None, trigger, count));
        }
        let mut told = Vec::new();
        for (gateway, target, trigger, count) in sums {
            // A target's history goes with it to another load balancer.
            let of_no_flow = target.is_none().then_some(gateway);
            let kind = (of_no_flow, target.map(|(id, _)| id), trigger.index());
            let before = self.resets.told.insert(kind, count).unwrap_or(0);
            if count > before {
                told.push(What::FlowsReset {
                    load_balancer: self.gateway_name(gateway),
                    target_group: self.group_name(gateway),
                    target: target.map(|(_, address)| address),
                    trigger: trigger.into(),
                    count: count - before,
                });
            }
        }
        told
    }

    fn gateway_name(&self, gateway: GatewayId) -> String {
        self.compiler.gateway_name(gateway).map(ToString::to_string).unwrap_or_default()
    }

    /// The load balancer that a group serves.
    pub(super) fn gateway_of_group(&self, group: &str) -> Option<GatewayId> {
        let group = self.state.target_group(group).ok()?;
        self.compiler.gateway_id(&self.state.load_balancer_using(&group.name)?.name)
    }

    fn group_name(&self, gateway: GatewayId) -> String {
        self.compiler
            .gateway_name(gateway)
            .and_then(|name| self.state.load_balancer(name.as_str()).ok())
            .and_then(|balancer| balancer.listener.as_ref())
            .map(|listener| listener.target_group.to_string())
            .unwrap_or_default()
    }
}

impl From<ResetTrigger> for events::ResetTrigger {
    fn from(trigger: ResetTrigger) -> events::ResetTrigger {
        match trigger {
            ResetTrigger::Unhealthy => events::ResetTrigger::Unhealthy,
            ResetTrigger::Deregistration => events::ResetTrigger::Deregistration,
            ResetTrigger::IdleTimeout => events::ResetTrigger::IdleTimeout,
            ResetTrigger::NoFlow => events::ResetTrigger::NoFlow,
            ResetTrigger::BothEnds => events::ResetTrigger::BothEnds,
            ResetTrigger::Proactive => events::ResetTrigger::Proactive,
        }
    }
}
