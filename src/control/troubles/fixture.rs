//! A node for tests: two groups, a target in every state, traffic of a second more with each reading.

use super::{Standing, Watch};
use crate::control::events::Timestamp;
use crate::control::health::{HealthState, ReasonCode};
use crate::control::monitor::Readiness;
use crate::control::socket::views::{
    ChecksOverview, DrainOverview, HeldResets, LastCheckOverview, LoadBalancerOverview, NextHopView,
    NodeOverview, Overview, PortCapabilities, PortView, ReadinessOverview, ResetCounts, TargetGroupOverview,
    TargetOverview, Totals, Traffic, WorkerLoad, WorkerMemory, WorkerView,
};
use std::net::Ipv4Addr;
use std::time::Duration;

/// 2026-11-29T20:47:37.007Z, when the first reading was made.
pub(crate) const START: i64 = 1_795_985_257_007;

pub(crate) fn at(reading: u64) -> Timestamp {
    Timestamp::from_unix_ms(START + 1000 * i64::try_from(reading).unwrap())
}

fn target(last: u8, state: HealthState, flows: u64, reading: u64) -> TargetOverview {
    let reason = match state {
        HealthState::Healthy => None,
        HealthState::Unhealthy => Some(ReasonCode::Timeout),
        HealthState::Draining => Some(ReasonCode::DeregistrationInProgress),
        _ => Some(ReasonCode::InitialHealthChecking),
    };
    let unhealthy = state == HealthState::Unhealthy;
    let resets = if unhealthy { 50 * reading.saturating_sub(1) } else { 0 };
    let packets = flows * 10 * reading;
    TargetOverview {
        address: Ipv4Addr::new(10, 0, 0, last),
        zone: (last == 1).then(|| "a".to_owned()),
        weight: u16::from(last),
        state,
        reason,
        description: reason.map(|reason| reason.sentence().to_owned()).unwrap_or_default(),
        since: Some(Timestamp::from_unix_ms(START - 60_000)),
        drain: (state == HealthState::Draining).then(|| DrainOverview {
            started: Timestamp::from_unix_ms(START - 100_000),
            ends: Timestamp::from_unix_ms(START + 200_000),
        }),
        checks: Some(ChecksOverview {
            made: 100,
            failed: if unhealthy { 12 } else { 0 },
            out_of_turn: u64::from(unhealthy),
            successes_in_row: if unhealthy { 0 } else { 88 },
            failures_in_row: if unhealthy { 12 } else { 0 },
            last: Some(LastCheckOverview {
                at: Timestamp::from_unix_ms(START - 500),
                latency_ms: 1.25,
                failure: unhealthy.then(|| "Request timed out".to_owned()),
            }),
        }),
        neighbour: NextHopView {
            next_hop: Some(Ipv4Addr::new(10, 0, 0, last)),
            mac: Some("02:00:00:00:00:11".to_owned()),
            state: "reachable".to_owned(),
        },
        flows,
        would_die: flows * 4 / 5,
        silent_for_ms: if unhealthy { 1500 } else { 0 },
        traffic: Traffic {
            new_flows: flows + 3 * reading,
            moved_flows: 0,
            packets_to_target: packets,
            bytes_to_target: packets * 500,
            packets_from_target: if unhealthy { 0 } else { packets },
            bytes_from_target: if unhealthy { 0 } else { packets * 500 },
            reset_flows: resets / 2,
            resets: ResetCounts { unhealthy: resets, ..ResetCounts::default() },
        },
        reset_flows_last_minute: 0,
        open_failover: unhealthy.then_some(7),
    }
}

fn group(name: &str, user: Option<&str>, targets: Vec<TargetOverview>) -> TargetGroupOverview {
    let mut traffic = Traffic::default();
    targets.iter().for_each(|target| traffic += target.traffic);
    TargetGroupOverview {
        name: name.to_owned(),
        load_balancer: user.map(str::to_owned),
        health_check: "HTTP 8080 /up".to_owned(),
        health_check_interval_ms: 5000,
        unhealthy_threshold_count: 2,
        detection_time_ms: 10_000,
        worst_detection_time_ms: 12_000,
        deregistration_delay_ms: 300_000,
        rebalances: false,
        resets_on_unhealthy: true,
        resets_on_deregistration: true,
        flows: targets.iter().map(|target| target.flows).sum(),
        traffic,
        targets,
    }
}

fn worker(number: u8, reading: u64) -> WorkerView {
    WorkerView {
        worker: number,
        core: 1 + u32::from(number),
        flows: 1700,
        capacity: 1_048_576,
        generation: 12,
        heartbeat_age_ms: 3,
        memory: WorkerMemory { packets: "2 MiB".to_owned(), flow_table: "1 GiB".to_owned() },
        load: WorkerLoad {
            cycles: 2_000_000_000 * reading,
            cycles_per_second: 2_000_000_000,
            busy_cycles: 500_000_000 * reading,
            received: 2_500_000 * reading,
            ..WorkerLoad::default()
        },
    }
}

/// The node as the `reading`th look finds it, not judged yet.
pub(crate) fn bare(reading: u64) -> Overview {
    let targets = vec![
        target(1, HealthState::Healthy, 1200, reading),
        target(2, HealthState::Unhealthy, 125, reading),
        target(3, HealthState::Draining, 300, reading),
        target(10, HealthState::Healthy, 80, reading),
    ];
    let groups = vec![
        group("firewalls", Some("inspection"), targets),
        group("spare", None, vec![target(20, HealthState::Initial, 0, reading)]),
    ];
    let resets = groups[0].traffic.resets;
    Overview {
        at: at(reading),
        node: NodeOverview {
            product: "flowgate".to_owned(),
            version: "0.1.0".to_owned(),
            generation: 12,
            uptime_ms: 273_600_000 + 1000 * reading,
            is_replaced: false,
        },
        readiness: ReadinessOverview::default(),
        troubles: Vec::new(),
        load_balancers: vec![LoadBalancerOverview {
            name: "inspection".to_owned(),
            target_group: Some("firewalls".to_owned()),
            flows: groups[0].flows,
            rejected_flows: 0,
            fail_open_flows: 0,
            stateless_packets: 0,
            resets,
            held_resets: HeldResets::default(),
        }],
        target_groups: groups,
        endpoints: Vec::new(),
        ports: vec![PortView {
            port_name: "left".to_owned(),
            device: "0000:00:01.0".to_owned(),
            driver: "net_ice".to_owned(),
            mac: "02:00:00:00:00:01".to_owned(),
            mtu: 1500,
            link_up: true,
            queues: 2,
            capabilities: PortCapabilities::default(),
            received: 0,
            received_bytes: 0,
            sent: 0,
            sent_bytes: 0,
            missed: 0,
            no_buffer: 0,
            receive_errors: 0,
            send_errors: 0,
        }],
        workers: vec![worker(0, reading), worker(1, reading)],
        totals: Totals { flows: 1705, received: 5_000_000 * reading, resets, ..Totals::default() },
    }
}

/// The same node with nothing wrong: the unhealthy target answers, as it always did. Not judged yet.
pub(crate) fn well(reading: u64) -> Overview {
    let mut overview = bare(reading);
    let one = &mut overview.target_groups[0].targets[1];
    *one = target(2, HealthState::Healthy, 125, reading);
    overview.totals.resets = ResetCounts::default();
    overview.load_balancers[0].resets = ResetCounts::default();
    overview
}

/// How a node stands that is ready.
pub(crate) fn ready() -> Standing {
    let readiness =
        Readiness { silent_for: vec![Duration::from_millis(3); 2], generation: 12, ..Readiness::default() };
    Standing { readiness, ..Standing::default() }
}

/// The last of these overviews as it is judged after the others were.
pub(crate) fn judged(overviews: impl IntoIterator<Item = Overview>) -> Overview {
    let mut watch = Watch::default();
    let judge = |mut overview| {
        watch.judge(&mut overview, &ready());
        overview
    };
    overviews.into_iter().map(judge).last().unwrap()
}
