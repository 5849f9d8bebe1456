//! The control core as the monitoring endpoint sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::accounts::OfTarget;
use super::load::{page_kind, page_size};
use super::{Core, Inner};
use crate::control::audit::worst_detection_time;
use crate::control::events::Timestamp;
use crate::control::health::{HealthState, ReasonCode, TargetKey};
use crate::control::monitor::metrics::{
    self, Buffers, OfBalancer, OfEndpoint, OfFailover, OfGroup, OfMonitor, OfRing, OfWorker, OfZone, Snapshot,
};
use crate::control::monitor::{Readiness, Source};
use crate::control::panics;
use crate::control::workers::WorkerLink;
use crate::datapath::counters::{Counter, ResetTrigger, Suppressed, WorkerCounters};
use crate::datapath::load::PacketRing;
use crate::id::{EndpointId, GatewayId};

/// The time of which the longest round is shown: the last minute, to which they are kept.
const LONGEST_OF: Duration = Duration::from_secs(60);

impl Source for Core {
    fn readiness(&self) -> Readiness {
        self.inner.borrow().readiness(self.not_ready_file.known())
    }

    fn snapshot(&self) -> Snapshot {
        let (ports, buffers) = ((self.ports)(), (self.buffers)());
        let (since, at) = self.life.since;
        let (started, uptime) = (seconds(at.unix_ms()), since.elapsed());
        let snapshot = self.inner.borrow().snapshot(&buffers);
        let (control_starts, log_lines_lost) = (self.life.number, self.log.lines_lost());
        let port_changes = self.port_changes();
        Snapshot {
            port_changes,
            started,
            uptime,
            ports,
            control_starts,
            log_lines_lost,
            panics: panics::counts(),
            ..snapshot
        }
    }
}

/// Milliseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit into 53 bits for 285,000 years")]
fn seconds(unix_ms: i64) -> f64 {
    unix_ms as f64 / 1000.0
}

impl Inner {
    /// Whether the node has no data path: a daemon that has one has a worker at least.
    pub(super) fn is_idle(&self) -> bool {
        self.workers.links().is_empty()
    }

    /// How the node stands, if it is taken out for this reason.
    pub(super) fn readiness(&self, taken_out: Option<String>) -> Readiness {
        let generation = self.state.generation();
        Readiness {
            silent_for: self.workers.links().iter().map(WorkerLink::silent_for).collect(),
            panicked: self.workers.panicked(),
            generation,
            behind: self.workers.behind(generation),
            is_idle: self.is_idle(),
            taken_out,
        }
    }

    fn snapshot(&self, buffers: &[Buffers]) -> Snapshot {
        let readiness = self.readiness(None);
        let all = self.accounted();
        let balancers = self.state.load_balancers().filter_map(|balancer| {
            let id = self.compiler.gateway_id(&balancer.name)?;
            let (name, measures) = all.balancers.get_key_value(balancer.name.as_str())?;
            Some(OfBalancer { name: Arc::clone(name), measures: *measures, ..self.of_balancer(id) })
        });
        let mut zones: Vec<OfZone> = all
            .zones
            .iter()
            .map(|((balancer, zone), measures)| OfZone {
                balancer: Arc::clone(balancer),
                zone: Arc::clone(zone),
                measures: *measures,
            })
            .collect();
        zones.sort_by(|a, b| (&a.balancer, &a.zone).cmp(&(&b.balancer, &b.zone)));
        let groups = self.state.target_groups().filter_map(|group| {
            let (name, measures) = all.groups.get_key_value(group.name.as_str())?;
            let balancer = self.state.load_balancer_using(&group.name);
            let check = group.settings().health_check;
            Some(OfGroup {
                balancer: balancer.map_or_else(|| Arc::from(""), |balancer| balancer.name.as_str().into()),
                name: Arc::clone(name),
                measures: *measures,
                checks: self.health.group_checks(name),
                health_changes: self.accounts.health_changes(name),
                detection: check.detection_time(),
                worst_detection: worst_detection_time(&check),
                interval: check.interval,
            })
        });
        Snapshot {
            started: 0.0,
            uptime: Duration::ZERO,
            control_starts: 0,
            panics: panics::Counts::default(),
            log_lines_lost: 0,
            checks_discarded: self.health.discarded(),
            port_changes: 0,
            generation: readiness.generation,
            is_healthy: readiness.is_healthy(),
            is_ready: readiness.is_ready(),
            is_taken_out: readiness.taken_out.is_some(),
            cycles_per_second: self.workers.clock().cycles_per_second(),
            stored: self.stored.clone(),
            not_stored: self.not_stored,
            storing_for: self.storing_since.map(|since| since.elapsed()).unwrap_or_default(),
            conditions: self.workers.conditions().clone(),
            failovers: self.failover_figures(),
            peak: all.node.peak,
            flow_tables: self.flow_tables(),
            workers: self
                .workers
                .links()
                .iter()
                .enumerate()
                .map(|(number, link)| self.of_worker(link, buffers.get(number).copied().unwrap_or_default()))
                .collect(),
            slots: self.slots.len(),
            ports: Vec::new(),
            endpoints: self.of_endpoints(),
            balancers: balancers.collect(),
            zones,
            groups: groups.collect(),
            targets: all.targets.iter().map(|target| self.of_target(target)).collect(),
            last_failovers: self.of_failovers(&all.targets),
            monitor: OfMonitor::default(),
        }
    }

    fn of_balancer(&self, id: GatewayId) -> OfBalancer {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        OfBalancer {
            name: Arc::from(""),
            measures: super::Measures::default(),
            rejected: [
                sum(&|all| &all.gateway(id).rejected_flows),
                sum(&|all| &all.gateway(id).rejected_flows_tcp),
            ],
            fail_open: sum(&|all| &all.gateway(id).fail_open_flows),
            stateless: sum(&|all| &all.gateway(id).stateless_packets),
            resets: std::array::from_fn(|n| {
                sum(&|all| &all.gateway(id).resets[ResetTrigger::ALL[n].index()])
            }),
            suppressed: std::array::from_fn(|n| {
                sum(&|all| &all.gateway(id).suppressed[Suppressed::ALL[n].index()])
            }),
        }
    }

    fn of_endpoints(&self) -> Vec<OfEndpoint> {
        let endpoints = self.compiler.node().endpoints.iter().zip((0..).map(EndpointId));
        let of_each = endpoints.map(|(endpoint, id)| {
            let balancer = self.state.load_balancer(endpoint.load_balancer.as_str()).ok();
            OfEndpoint {
                name: endpoint.name.to_string(),
                balancer: balancer.map(|balancer| balancer.name.to_string()).unwrap_or_default(),
                flows: self.workers.sum(|counters| counters.endpoint_flows(id)),
            }
        });
        of_each.collect()
    }

    fn of_failovers(&self, targets: &[OfTarget]) -> Vec<OfFailover> {
        let newest = self.newest_failovers().into_iter();
        let of_each = newest.map(|record| {
            let key = TargetKey::new(record.target_group.as_str(), record.target);
            // Under the labels that its other series have, as long as it has any.
            let target = targets.binary_search_by(|target| target.key.cmp(&key)).ok().map(|at| &targets[at]);
            let balancer = target.and_then(|target| target.balancer.clone());
            let recorded = record.load_balancer.as_deref().unwrap_or_default();
            OfFailover {
                balancer: balancer.unwrap_or_else(|| recorded.into()),
                group: key.group,
                zone: target.and_then(|target| target.zone.clone()).unwrap_or_else(|| Arc::from("")),
                address: record.target.to_string(),
                cause: record.cause,
                id: record.id,
                decided: seconds(record.decided.unix_ms()),
                is_open: record.ended.is_none(),
                flows: record.flows,
                resets: record.resets.total,
                durations: record.durations,
            }
        });
        of_each.collect()
    }

    fn of_worker(&self, link: &WorkerLink, buffers: Buffers) -> OfWorker {
        let clock = self.workers.clock();
        let longest = [self.longest_within(link, LONGEST_OF), link.counters.longest_rounds.ever()];
        let (ring, before) = link.to_worker();
        OfWorker {
            worker: link.id.0.to_string(),
            core: link.core.to_string(),
            packet_memory: page_size(link.packet_pages),
            table_memory: page_kind(link.table_pages),
            capacity: link.capacity,
            counters: Arc::clone(&link.counters),
            silent_for: link.silent_for(),
            stalls: link.heart().stalls(),
            longest: longest.map(|round| clock.duration_of(round.cycles)),
            to_worker: [ring, before],
            from_worker: link.from_worker(),
            buffers,
            peak: self.peak_of_worker(link.id),
            largest_burst: self.in_minute(&link.counters.largest_bursts),
            rings: self.rings_of(link),
        }
    }

    fn rings_of(&self, link: &WorkerLink) -> Vec<OfRing> {
        let there = |ring: &PacketRing| link.counters.ring(*ring).capacity.get() > 0;
        let of_each = PacketRing::ALL.into_iter().filter(there).map(|ring| {
            let fill = link.counters.ring(ring);
            let [capacity, waiting] = [&fill.capacity, &fill.waiting].map(Counter::get);
            OfRing { ring: ring.name(), capacity, waiting, most: self.in_minute(&fill.most) }
        });
        of_each.collect()
    }

    fn of_target(&self, target: &OfTarget) -> metrics::OfTarget {
        let OfTarget { key, balancer, zone, measures, health } = target;
        let none = || Arc::from("");
        let group = self.state.target_group(&key.group).ok();
        let registered = group.and_then(|group| group.targets.get(&key.address));
        let drain_ends = self.drains.ends(key, self.now());
        let silent_for = self.inband_silence(key, Instant::now());
        metrics::OfTarget {
            balancer: balancer.clone().unwrap_or_else(none),
            group: Arc::clone(&key.group),
            zone: zone.clone().unwrap_or_else(none),
            address: key.address.to_string(),
            measures: *measures,
            state: health.as_ref().map_or(HealthState::Unused, |view| view.state),
            reason: match health {
                Some(view) => view.reason.as_ref().map(|reason| reason.code),
                None => Some(ReasonCode::NotRegistered),
            },
            // To the millisecond, as every other view has it.
            since: health.as_ref().map_or(0.0, |view| seconds(Timestamp::from(view.since.wall).unix_ms())),
            weight: registered.map_or(0, |target| target.weight.get()),
            checks: health.as_ref().map(|view| view.checks).unwrap_or_default(),
            last_check: health.as_ref().and_then(|view| Some(view.last_check.as_ref()?.latency)),
            drain_ends: drain_ends.map(|at| seconds(at.unix_ms())),
            at_risk: group.map_or(0, |group| self.would_die(group, key)),
            silent_for,
        }
    }
}
