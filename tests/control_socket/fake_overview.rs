//! The fake's overview: its own objects and targets, and traffic of a second more with each reading.

use super::Fake;
use flowgate::control::audit::worst_detection_time;
use flowgate::control::events::Timestamp;
use flowgate::control::health::HealthState;
use flowgate::control::model::{Failover, TargetGroup};
use flowgate::control::monitor::Readiness;
use flowgate::control::socket::views::{
    ChecksOverview, DrainOverview, EndpointOverview, HeldResets, LastCheckOverview, LoadBalancerOverview,
    NodeOverview, Overview, ReadinessOverview, ResetCounts, TargetGroupOverview, TargetOverview, Totals,
    Traffic,
};
use flowgate::control::socket::{Service, TargetStatus};
use flowgate::control::troubles::Standing;
use std::time::Duration;

/// What a reading finds more of than the one before: 10 packets of each flow's, and some resets.
fn traffic(flows: u64, readings: u64, resets: u64) -> Traffic {
    let packets = flows * 10 * readings;
    Traffic {
        new_flows: flows + readings * 5,
        moved_flows: 0,
        packets_to_target: packets,
        bytes_to_target: packets * 500,
        packets_from_target: packets,
        bytes_from_target: packets * 500,
        reset_flows: resets,
        resets: ResetCounts { unhealthy: resets, ..ResetCounts::default() },
    }
}

impl Fake {
    pub(super) fn overview_now(&self, window: Duration) -> Overview {
        let workers = self.workers(window);
        let readings = self.readings.get();
        let state = self.state();
        let target_groups: Vec<TargetGroupOverview> =
            state.target_groups().map(|group| self.group_overview(group, readings)).collect();
        let endpoints = self.endpoints().into_iter().map(|endpoint| EndpointOverview {
            name: endpoint.endpoint_name,
            kind: endpoint.kind,
            ports: endpoint.ports,
            load_balancer: endpoint.load_balancer,
            flows: endpoint.flows,
        });
        let flows = target_groups.iter().map(|group| group.flows).sum();
        let resets = ResetCounts { unhealthy: 7, ..ResetCounts::default() };
        let balancers = state.load_balancers().map(|balancer| LoadBalancerOverview {
            name: balancer.name.to_string(),
            target_group: balancer.listener.as_ref().map(|listener| listener.target_group.to_string()),
            flows,
            rejected_flows: 0,
            fail_open_flows: 0,
            stateless_packets: 0,
            resets,
            held_resets: HeldResets { hold: 2, ..HeldResets::default() },
        });
        let mut overview = Overview {
            at: self.now(),
            node: NodeOverview {
                product: "flowgate".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                generation: state.generation(),
                uptime_ms: 3_600_000 + 1000 * readings,
                is_replaced: false,
            },
            readiness: ReadinessOverview::default(),
            troubles: Vec::new(),
            load_balancers: balancers.collect(),
            endpoints: endpoints.collect(),
            ports: self.ports(),
            workers,
            totals: Totals {
                flows,
                received: 7500 * readings,
                forwarded: 3750 * readings,
                delivered: 3750 * readings,
                answered: 7,
                dropped: 2,
                drops: [("cookie_stale".to_owned(), 2)].into(),
                resets,
                lost_events: 0,
            },
            target_groups,
        };
        let readiness = Readiness { silent_for: vec![Duration::ZERO], ..Readiness::default() };
        self.watch.borrow_mut().judge(&mut overview, &Standing { readiness, ..Standing::default() });
        overview
    }

    fn group_overview(&self, group: &TargetGroup, readings: u64) -> TargetGroupOverview {
        let settings = group.settings();
        let target = |status| self.target_overview(group, status, readings);
        let targets: Vec<TargetOverview> = self.targets(group).into_iter().map(target).collect();
        let mut traffic = Traffic::default();
        targets.iter().for_each(|target| traffic += target.traffic);
        let using = self.state().load_balancer_using(&group.name).map(|using| using.name.to_string());
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
        TargetGroupOverview {
            name: group.name.to_string(),
            load_balancer: using,
            health_check: "HTTP 8080 /up".to_owned(),
            health_check_interval_ms: ms(settings.health_check.interval),
            unhealthy_threshold_count: u32::from(settings.health_check.unhealthy_threshold),
            detection_time_ms: ms(settings.health_check.detection_time()),
            worst_detection_time_ms: ms(worst_detection_time(&settings.health_check)),
            deregistration_delay_ms: ms(settings.deregistration_delay),
            rebalances: settings.failover == Failover::Rebalance,
            resets_on_unhealthy: settings.reset_on_unhealthy,
            resets_on_deregistration: settings.reset_on_deregistration,
            flows: targets.iter().map(|target| target.flows).sum(),
            traffic,
            targets,
        }
    }

    fn target_overview(&self, group: &TargetGroup, status: TargetStatus, readings: u64) -> TargetOverview {
        let unhealthy = status.state == HealthState::Unhealthy;
        let at = |unix_ms: u64| Timestamp::from_unix_ms(i64::try_from(unix_ms).unwrap());
        let drain = group.drain_of(status.address);
        TargetOverview {
            address: status.address,
            zone: status.zone,
            weight: status.weight,
            state: status.state,
            reason: status.reason,
            since: Some(status.since),
            drain: drain.map(|drain| DrainOverview {
                started: at(drain.since_unix_ms),
                ends: at(drain.ends_unix_ms()),
            }),
            checks: Some(ChecksOverview {
                made: 100,
                failed: if unhealthy { 12 } else { 0 },
                out_of_turn: 0,
                successes_in_row: if unhealthy { 0 } else { 100 },
                failures_in_row: if unhealthy { 12 } else { 0 },
                last: Some(LastCheckOverview {
                    at: status.since,
                    latency_ms: 1.25,
                    failure: unhealthy.then(|| status.description.clone()),
                }),
            }),
            description: status.description,
            neighbour: status.neighbour,
            flows: status.flows,
            would_die: status.would_die,
            silent_for_ms: status.in_band.map_or(0, |view| view.silent_for_ms),
            traffic: traffic(status.flows, readings, if unhealthy { 7 } else { 0 }),
            reset_flows_last_minute: 0,
            open_failover: unhealthy.then_some(1),
        }
    }
}
