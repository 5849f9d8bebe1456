//! A snapshot of a node as large as is wished, with a figure other than 0 wherever there is one.

use flowgate::control::core::Measures;
use flowgate::control::failover::{Cause, Durations, FlowsTouched, MAX_TARGETS};
use flowgate::control::health::{CheckTotals, GroupChecks, HealthState, ReasonCode};
use flowgate::control::histogram::{DISK_BOUNDS, FOLLOW_BOUNDS, Histogram};
use flowgate::control::monitor::metrics::{
    Buffers, OfBalancer, OfEndpoint, OfFailover, OfGroup, OfMonitor, OfRing, OfTarget, OfWorker, OfZone,
    Snapshot,
};
use flowgate::control::panics::Counts;
use flowgate::control::peaks::Traffic;
use flowgate::control::socket::views::{FlowTablesView, PortCapabilities, PortView};
use flowgate::control::tally::Tally;
use flowgate::datapath::counters::{DropReason, Outcome, WorkerCounters};
use flowgate::id::TargetId;
use std::sync::Arc;
use std::time::Duration;

/// A node with so many workers, and so many targets in one group.
pub fn snapshot(workers: u8, targets: u16) -> Snapshot {
    let mut took = Histogram::new(DISK_BOUNDS);
    took.observe(Duration::from_millis(3));
    let mut conditions = Histogram::new(FOLLOW_BOUNDS);
    conditions.observe(Duration::from_micros(40));
    let group = |balancer: &str| OfGroup {
        balancer: balancer.into(),
        name: "firewalls".into(),
        measures: measures(9),
        checks: checks(),
        health_changes: [3, 2, 1, 0, 0, 0],
        detection: Duration::from_millis(200),
        worst_detection: Duration::from_millis(250),
        interval: Duration::from_millis(100),
    };
    Snapshot {
        started: 1_795_985_257.007,
        uptime: Duration::from_secs(86_400),
        control_starts: 1,
        panics: Counts { control: 1, conversations: 2, others: 3 },
        log_lines_lost: 4,
        checks_discarded: 5,
        port_changes: 6,
        generation: 7,
        is_healthy: true,
        is_ready: true,
        is_taken_out: false,
        cycles_per_second: 2_600_000_000,
        stored: took,
        not_stored: 1,
        storing_for: Duration::from_millis(1_500),
        conditions,
        failovers: [42, 1, 0],
        peak: Traffic { bytes: 12_500_000, packets: 9_000 },
        flow_tables: FlowTablesView {
            outcome: "taken_over".to_owned(),
            kept: true,
            flows: 12_000,
            torn: 1,
            refused: 2,
            gap_milliseconds: Some(170),
            ..FlowTablesView::default()
        },
        workers: (0..workers).map(|number| worker(number, targets)).collect(),
        slots: targets.into(),
        ports: ["left", "right", "under"].map(port).into(),
        endpoints: vec![
            OfEndpoint { name: "edge".to_owned(), balancer: "inspection".to_owned(), flows: 12 },
            OfEndpoint { name: "nowhere".to_owned(), balancer: String::new(), flows: 0 },
        ],
        balancers: vec![OfBalancer {
            name: "inspection".into(),
            measures: measures(9),
            rejected: [5, 4],
            fail_open: 6,
            stateless: 7,
            resets: [1, 2, 3, 4, 5, 6],
            suppressed: [1, 2, 3, 4],
        }],
        zones: ["eu-central-1a", "eu-central-1b"]
            .map(|zone| OfZone { balancer: "inspection".into(), zone: zone.into(), measures: measures(5) })
            .into(),
        groups: vec![group("inspection")],
        targets: (0..targets).map(target).collect(),
        last_failovers: (0..targets).take(MAX_TARGETS).map(failover).collect(),
        monitor: OfMonitor { streams: 2, streams_refused: 1, scrapes: 10, scrapes_given_up: 1 },
    }
}

fn measures(seed: u64) -> Measures {
    Measures {
        tally: Tally {
            new_flows: 1_000 * seed,
            packets_out: 1_000_000 * seed,
            bytes_out: 900_000_000 * seed,
            packets_back: 999_000 * seed,
            bytes_back: 899_000_000 * seed,
            moved_away: seed,
            resets: [seed, 0, 1, 0, 2, 3],
            reset_flows: seed,
            suppressed: [1, 0, seed, 0],
        },
        active: 12 * seed,
        active_tcp: 10 * seed,
        owing: seed % 3,
        states: [0, 1, 0, 0, 0, 0],
        peak: Traffic { bytes: 125_000 * seed, packets: 100 * seed },
    }
}

fn checks() -> GroupChecks {
    let mut checks = GroupChecks { totals: totals(), ..GroupChecks::default() };
    for ms in [1, 2, 4, 300] {
        checks.latency.observe(Duration::from_millis(ms));
        checks.delay.observe(Duration::from_micros(ms));
    }
    checks
}

fn totals() -> CheckTotals {
    CheckTotals { made: 100, out_of_turn: 3, timeouts: 4, mismatches: 5, failures: 6, internal_errors: 7 }
}

fn worker(number: u8, targets: u16) -> OfWorker {
    let counters = WorkerCounters::default();
    counters.received.add(1000 + u64::from(number));
    counters.outcomes[Outcome::Forwarded.index()].add(990);
    counters.drops[DropReason::TransmitFull.index()].add(10);
    counters.bursts.count(64);
    counters.bursts.count(1);
    counters.busy_cycles.add(1_000_000_000);
    for id in (0..targets).map(TargetId) {
        counters.target(id).new_flows.add(u64::from(id.0));
        counters.target(id).active_flows.add(1);
    }
    OfWorker {
        worker: number.to_string(),
        core: (number + 1).to_string(),
        packet_memory: "2 MiB".to_owned(),
        table_memory: "2 MiB",
        capacity: 1 << 20,
        counters: Arc::new(counters),
        silent_for: Duration::from_micros(300),
        stalls: 1,
        longest: [Duration::from_micros(80), Duration::from_micros(900)],
        to_worker: [1, 0],
        from_worker: 2,
        buffers: Buffers { in_use: 2_000, all: 16_383 },
        peak: Traffic { bytes: 6_250_000, packets: 4_500 },
        largest_burst: 64,
        rings: ["handed_in", "to_host", "from_host"]
            .map(|ring| OfRing { ring, capacity: 1024, waiting: 3, most: 700 })
            .into(),
    }
}

fn port(name: &str) -> PortView {
    PortView {
        port_name: name.to_owned(),
        device: format!("net_af_packet_{name}"),
        driver: "net_af_packet".to_owned(),
        mac: "02:00:00:00:00:01".to_owned(),
        mtu: 1500,
        link_up: true,
        queues: 2,
        capabilities: PortCapabilities::default(),
        received: 1_000_000,
        received_bytes: 900_000_000,
        sent: 999_000,
        sent_bytes: 899_000_000,
        missed: 12,
        no_buffer: 2,
        receive_errors: 1,
        send_errors: 3,
    }
}

fn target(number: u16) -> OfTarget {
    let [high, low] = number.to_be_bytes();
    let (state, reason) = match number % 4 {
        0 => (HealthState::Unhealthy, Some(ReasonCode::Timeout)),
        1 => (HealthState::Draining, Some(ReasonCode::DeregistrationInProgress)),
        _ => (HealthState::Healthy, None),
    };
    OfTarget {
        balancer: "inspection".into(),
        group: "firewalls".into(),
        zone: if number.is_multiple_of(2) { "eu-central-1a" } else { "eu-central-1b" }.into(),
        address: format!("10.100.{high}.{low}"),
        measures: measures(u64::from(number) + 1),
        state,
        reason,
        since: 1_795_985_300.5,
        weight: 1,
        checks: totals(),
        last_check: Some(Duration::from_micros(1234)),
        drain_ends: (state == HealthState::Draining).then_some(1_795_985_600.0),
        at_risk: 10,
        silent_for: Duration::from_millis(u64::from(number % 3) * 100),
    }
}

/// The last failover of that target.
fn failover(number: u16) -> OfFailover {
    let OfTarget { balancer, group, zone, address, .. } = target(number);
    OfFailover {
        balancer,
        group,
        zone,
        address,
        cause: if number.is_multiple_of(3) { Cause::Deregistration } else { Cause::Unhealthy },
        id: 42 + u64::from(number),
        decided: 1_795_985_257.007,
        is_open: number.is_multiple_of(2),
        flows: FlowsTouched {
            at_decision: 120,
            tcp_at_decision: 118,
            begun: 1,
            moved: 3,
            reset: 114,
            ended: 2,
            left: 2,
        },
        resets: 228,
        durations: Durations {
            first_failure_to_decision: Some(100_300),
            decision_to_applied: Some(18),
            decision_to_first_reset: Some(21_500),
            first_failure_to_first_reset: Some(121_800),
            last_returned_to_first_reset: Some(184_500),
            first_to_last_reset: Some(2_982_750),
            decision_to_recovery: None,
        },
    }
}
