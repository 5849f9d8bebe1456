//! The whole node at a moment, for whoever draws it. One pass over the objects and the workers' counters; it
//! waits for nobody, and costs a worker nothing but the reading of its counters.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::service::told;
use super::{Core, Inner};
use crate::control::audit::worst_detection_time;
use crate::control::compile::EndpointFacts;
use crate::control::drain::UnixMillis;
use crate::control::duration::milliseconds;
use crate::control::events::Timestamp;
use crate::control::health::{HealthState, ReasonCode, StateReason, TargetHealthView, TargetKey};
use crate::control::model::{Failover, HealthCheckSettings, LoadBalancer, Registration, Target, TargetGroup};
use crate::control::slots::Slot;
use crate::control::socket::PRODUCT;
use crate::control::socket::views::{
    ChecksOverview, DrainOverview, EndpointOverview, HeldResets, LastCheckOverview, LoadBalancerOverview,
    NodeOverview, Overview, ReadinessOverview, ResetCounts, TargetGroupOverview, TargetOverview, Totals,
    Traffic,
};
use crate::control::tally::Tally;
use crate::datapath::counters::{Counter, DropReason, Outcome, ResetTrigger, Suppressed, WorkerCounters};
use crate::id::{EndpointId, GatewayId, TargetId};

/// Targets that left their group and have flows left, by the group.
type Gone<'a> = HashMap<&'a str, Vec<(&'a TargetKey, u64)>>;

impl Core {
    /// The node as it is; of the longest bursts, those of so much of the time just past.
    pub(super) fn overview_now(&self, window: Duration) -> Overview {
        self.with_troubles(self.bare_overview(window))
    }

    fn bare_overview(&self, window: Duration) -> Overview {
        let ports = (self.ports)();
        let inner = self.inner.borrow();
        let gone = inner.gone();
        let group = |group| inner.group_overview(group, &gone);
        let target_groups: Vec<TargetGroupOverview> = inner.state.target_groups().map(group).collect();
        let flows_of: HashMap<&str, u64> =
            target_groups.iter().map(|group| (group.name.as_str(), group.flows)).collect();
        let balancer = |balancer| inner.balancer_overview(balancer, &flows_of);
        let endpoints = inner.compiler.node().endpoints.iter().zip((0..).map(EndpointId));
        Overview {
            at: timestamp(inner.unix_ms()),
            node: NodeOverview {
                product: PRODUCT.to_owned(),
                version: env!("FLOWGATE_VERSION").to_owned(),
                generation: inner.state.generation(),
                uptime_ms: self.uptime_ms(),
                is_replaced: is_replaced(),
            },
            readiness: ReadinessOverview::default(),
            troubles: Vec::new(),
            load_balancers: inner.state.load_balancers().map(balancer).collect(),
            endpoints: endpoints.map(|(endpoint, id)| inner.endpoint_overview(endpoint, id)).collect(),
            ports,
            workers: inner.worker_views(window),
            totals: inner.totals(),
            target_groups,
        }
    }
}

/// Whether the program that runs is no longer the file that it was started from.
fn is_replaced() -> bool {
    std::fs::read_link("/proc/self/exe")
        .is_ok_and(|program| program.to_string_lossy().ends_with(" (deleted)"))
}

impl Inner {
    fn gone(&self) -> Gone<'_> {
        let mut gone = Gone::new();
        for (key, slot) in self.slots.iter() {
            let group = self.state.target_group(&key.group).ok();
            if group.is_none_or(|group| group.targets.contains_key(&key.address)) {
                continue;
            }
            let flows = self.workers.flows_of(slot.id);
            if flows > 0 {
                gone.entry(&key.group).or_default().push((key, flows));
            }
        }
        gone
    }

    fn balancer_overview(
        &self,
        balancer: &LoadBalancer,
        flows_of: &HashMap<&str, u64>,
    ) -> LoadBalancerOverview {
        let group = self.state.target_group_of(balancer).map(|group| group.name.as_str());
        let id = self.compiler.gateway_id(&balancer.name);
        let sum = |of: &dyn Fn(&WorkerCounters, GatewayId) -> &Counter| {
            id.map_or(0, |id| self.workers.sum(|all| of(all, id)))
        };
        let held = |why: Suppressed| sum(&|all, id| &all.gateway(id).suppressed[why.index()]);
        LoadBalancerOverview {
            name: balancer.name.to_string(),
            target_group: group.map(str::to_owned),
            flows: group.and_then(|group| flows_of.get(group)).copied().unwrap_or(0),
            rejected_flows: sum(&|all, id| &all.gateway(id).rejected_flows),
            fail_open_flows: sum(&|all, id| &all.gateway(id).fail_open_flows),
            stateless_packets: sum(&|all, id| &all.gateway(id).stateless_packets),
            resets: id.map(|id| self.resets_of_gateway(id)).unwrap_or_default(),
            held_resets: HeldResets {
                hold: held(Suppressed::Hold),
                min_healthy: held(Suppressed::MinHealthy),
                rate: held(Suppressed::Rate),
                no_flow_rate: held(Suppressed::NoFlowRate),
            },
        }
    }

    fn resets_of_gateway(&self, id: GatewayId) -> ResetCounts {
        reset_counts(|trigger| self.workers.sum(|all| &all.gateway(id).resets[trigger.index()]))
    }

    fn group_overview(&self, group: &TargetGroup, gone: &Gone<'_>) -> TargetGroupOverview {
        let (name, settings) = (group.name.as_str(), group.settings());
        let dies = settings.failover == Failover::NoRebalance;
        let drain = |key: &TargetKey, target: &Target| match target.registration {
            Registration::Registered => None,
            Registration::Draining { since_unix_ms } => {
                let stated = since_unix_ms.saturating_add(milliseconds(settings.deregistration_delay));
                let ends = self.drains.ends(key, self.now()).unwrap_or_else(|| timestamp(stated));
                Some(DrainOverview { started: timestamp(since_unix_ms), ends })
            }
        };
        let mut targets: Vec<TargetOverview> = group
            .targets
            .iter()
            .filter_map(|(address, target)| {
                let key = TargetKey::new(name, *address);
                let view = self.health.view(&key)?;
                let (reason, description) = told(view.reason.clone());
                Some(TargetOverview {
                    zone: target.zone.as_ref().map(ToString::to_string),
                    weight: target.weight.get(),
                    state: view.state,
                    reason,
                    description,
                    since: Some(view.since.wall.into()),
                    drain: drain(&key, target),
                    checks: Some(checks(&view)),
                    ..self.bare_target(name, *address, dies)
                })
            })
            .collect();
        targets.extend(gone.get(name).into_iter().flatten().map(|(key, flows)| {
            let reason = StateReason::plain(ReasonCode::NotRegistered);
            TargetOverview {
                flows: *flows,
                reason: Some(reason.code),
                description: reason.description,
                ..self.bare_target(name, key.address, dies)
            }
        }));
        targets.sort_by_key(|target| target.address);
        let mut all = traffic(self.accounts.closed_of_group(name));
        targets.iter().for_each(|target| all += target.traffic);
        let check = &settings.health_check;
        TargetGroupOverview {
            name: name.to_owned(),
            load_balancer: self.state.load_balancer_using(&group.name).map(|using| using.name.to_string()),
            health_check: question(check),
            health_check_interval_ms: milliseconds(check.interval),
            unhealthy_threshold_count: u32::from(check.unhealthy_threshold),
            detection_time_ms: milliseconds(check.detection_time()),
            worst_detection_time_ms: milliseconds(worst_detection_time(check)),
            deregistration_delay_ms: milliseconds(settings.deregistration_delay),
            rebalances: settings.failover == Failover::Rebalance,
            resets_on_unhealthy: settings.reset_on_unhealthy,
            resets_on_deregistration: settings.reset_on_deregistration,
            flows: targets.iter().map(|target| target.flows).sum(),
            traffic: all,
            targets,
        }
    }

    /// What is known of a target by its slot alone. `dies`: its group's flows end with their target.
    fn bare_target(&self, group: &str, address: Ipv4Addr, dies: bool) -> TargetOverview {
        let key = TargetKey::new(group, address);
        let slot = self.slots.get(&key);
        let sum = |of: &dyn Fn(&WorkerCounters, TargetId) -> &Counter| {
            slot.map_or(0, |slot| self.workers.sum(|all| of(all, slot.id)))
        };
        let tcp_flows = sum(&|all, id| &all.target(id).active_tcp_flows);
        TargetOverview {
            address,
            zone: None,
            weight: 0,
            state: HealthState::Unused,
            reason: None,
            description: String::new(),
            since: None,
            drain: None,
            checks: None,
            neighbour: self.next_hop_view(address),
            flows: sum(&|all, id| &all.target(id).active_flows),
            would_die: if dies { tcp_flows } else { 0 },
            silent_for_ms: self.inband_view(&key).map_or(0, |view| view.silent_for_ms),
            traffic: slot.map(|slot| self.traffic_of(slot)).unwrap_or_default(),
            reset_flows_last_minute: 0,
            open_failover: self.open_failover(&key),
        }
    }

    /// What went through a slot since its present holder has it.
    fn traffic_of(&self, Slot { id, .. }: Slot) -> Traffic {
        traffic(Tally::of_slot(&self.workers, id) - self.accounts.before(id))
    }

    fn endpoint_overview(&self, endpoint: &EndpointFacts, id: EndpointId) -> EndpointOverview {
        let balancer = self.state.load_balancer(endpoint.load_balancer.as_str()).ok();
        EndpointOverview {
            name: endpoint.name.to_string(),
            kind: if endpoint.routes.is_some() { "routed" } else { "wire" }.to_owned(),
            ports: endpoint.port_names.iter().map(ToString::to_string).collect(),
            load_balancer: balancer.map(|balancer| balancer.name.to_string()),
            flows: self.workers.sum(|counters| counters.endpoint_flows(id)),
        }
    }

    fn totals(&self) -> Totals {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let ended = |outcome: Outcome| sum(&|all| &all.outcomes[outcome.index()]);
        let dropped =
            |reason: &DropReason| (reason.name().to_owned(), sum(&|all| &all.drops[reason.index()]));
        let drops: BTreeMap<String, u64> =
            DropReason::ALL.iter().map(dropped).filter(|(_, count)| *count > 0).collect();
        let gateways = || (0..self.compiler.gateways()).map(GatewayId);
        Totals {
            flows: self.live_flows(),
            received: sum(&|all| &all.received),
            forwarded: ended(Outcome::Forwarded),
            delivered: ended(Outcome::Delivered),
            answered: ended(Outcome::Answered),
            dropped: drops.values().sum(),
            drops,
            resets: reset_counts(|trigger| {
                let of = |id: GatewayId| sum(&|all| &all.gateway(id).resets[trigger.index()]);
                gateways().map(of).sum()
            }),
            lost_events: sum(&|all| &all.events_lost),
        }
    }
}

fn reset_counts(of: impl Fn(ResetTrigger) -> u64) -> ResetCounts {
    ResetCounts {
        unhealthy: of(ResetTrigger::Unhealthy),
        deregistration: of(ResetTrigger::Deregistration),
        idle_timeout: of(ResetTrigger::IdleTimeout),
        no_flow: of(ResetTrigger::NoFlow),
        both_ends: of(ResetTrigger::BothEnds),
        proactive: of(ResetTrigger::Proactive),
    }
}

fn traffic(tally: Tally) -> Traffic {
    Traffic {
        new_flows: tally.new_flows,
        moved_flows: tally.moved_away,
        packets_to_target: tally.packets_out,
        bytes_to_target: tally.bytes_out,
        packets_from_target: tally.packets_back,
        bytes_from_target: tally.bytes_back,
        reset_flows: tally.reset_flows,
        resets: reset_counts(|trigger| tally.resets[trigger.index()]),
    }
}

fn checks(view: &TargetHealthView) -> ChecksOverview {
    let totals = view.checks;
    ChecksOverview {
        made: totals.made,
        failed: totals.timeouts + totals.mismatches + totals.failures,
        out_of_turn: totals.out_of_turn,
        successes_in_row: view.successes,
        failures_in_row: view.failures,
        last: view.last_check.as_ref().map(|last| LastCheckOverview {
            at: last.started.wall.into(),
            // To a microsecond.
            latency_ms: (last.latency.as_secs_f64() * 1e6).round() / 1e3,
            failure: last.failure.as_ref().map(|failure| failure.description.clone()),
        }),
    }
}

/// What a check asks: `TCP 80`, `HTTP 8080 /up`.
fn question(check: &HealthCheckSettings) -> String {
    let path = check.probe.question().map(|(path, _)| format!(" {path}")).unwrap_or_default();
    format!("{} {}{path}", check.probe.protocol(), check.port)
}

fn timestamp(unix_ms: UnixMillis) -> Timestamp {
    Timestamp::from_unix_ms(i64::try_from(unix_ms).unwrap_or(i64::MAX))
}
