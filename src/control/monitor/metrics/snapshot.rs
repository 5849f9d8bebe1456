//! What a scrape is made of: taken on the control core in one go, so that it is of one moment, and written elsewhere.
//! Workers' own counters are read while it is written, as they are nobody else's.

use std::sync::Arc;
use std::time::Duration;

use crate::control::core::Measures;
use crate::control::failover::{Cause, Durations, FlowsTouched};
use crate::control::health::{CheckTotals, GroupChecks, HealthState, ReasonCode};
use crate::control::histogram::Histogram;
use crate::control::panics::Counts;
use crate::control::peaks::Traffic;
use crate::control::socket::views::{FlowTablesView, PortView};
use crate::datapath::counters::{ResetTrigger, Suppressed, WorkerCounters};

/// How the node stands and what it has counted.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the daemon started, in seconds since 1970.
    pub started: f64,
    /// How long it has run.
    pub uptime: Duration,
    /// Control cores that there were before this one, each of which ended by a panic.
    pub control_starts: u32,
    /// Panics of any thread.
    pub panics: Counts,
    /// Checks that failed while the process was stopped, and were made again.
    pub checks_discarded: u64,
    /// How often the link of a port came up or went down.
    pub port_changes: u64,
    /// Log lines that were lost.
    pub log_lines_lost: u64,
    /// The present configuration.
    pub generation: u64,
    /// Whether the daemon works.
    pub is_healthy: bool,
    /// Whether the node is to be given traffic.
    pub is_ready: bool,
    /// Whether somebody took the node out of service.
    pub is_taken_out: bool,
    /// Cycles of the workers' clock in a second.
    pub cycles_per_second: u64,
    /// How long it took to store a change, until it was on disk.
    pub stored: Histogram,
    /// Changes that could not be stored.
    pub not_stored: u64,
    /// How long the change that is being stored has waited for that.
    pub storing_for: Duration,
    /// How long a target's condition took from the decision to the last worker (H-7).
    pub conditions: Histogram,
    /// Records of failovers and drains: begun, open, and those that there was no room for.
    pub failovers: [u64; 3],
    /// The highest means over the whole node.
    pub peak: Traffic,
    /// What came of the flow tables of the daemon before this one.
    pub flow_tables: FlowTablesView,
    /// The workers.
    pub workers: Vec<OfWorker>,
    /// How many slots of targets were ever held: so many of each worker's counters say something.
    pub slots: usize,
    /// The ports.
    pub ports: Vec<PortView>,
    /// The endpoints.
    pub endpoints: Vec<OfEndpoint>,
    /// The load balancers.
    pub balancers: Vec<OfBalancer>,
    /// The zones of each load balancer's targets.
    pub zones: Vec<OfZone>,
    /// The target groups.
    pub groups: Vec<OfGroup>,
    /// The targets, those too that are gone and still have flows.
    pub targets: Vec<OfTarget>,
    /// The newest failover or drain of each target that has had one lately.
    pub last_failovers: Vec<OfFailover>,
    /// Of the monitoring endpoint itself.
    pub monitor: OfMonitor,
}

/// A worker.
#[derive(Clone, Debug)]
pub struct OfWorker {
    /// Its number.
    pub worker: String,
    /// The core it runs on.
    pub core: String,
    /// What its packets lie in.
    pub packet_memory: String,
    /// What its flow table lies in.
    pub table_memory: &'static str,
    /// Flows that its table holds at most.
    pub capacity: u32,
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
    /// For how long it has gone no round.
    pub silent_for: Duration,
    /// How often it was stuck.
    pub stalls: u64,
    /// The longest round of the last minute, and of all.
    pub longest: [Duration; 2],
    /// Messages in the ring to it, and before it for want of room; and in the ring from it.
    pub to_worker: [usize; 2],
    /// Messages in the ring from it.
    pub from_worker: usize,
    /// Its packet buffers.
    pub buffers: Buffers,
    /// The highest ten-second means of what it sent to targets and had from them.
    pub peak: Traffic,
    /// The least size that its largest burst of the last minute had.
    pub largest_burst: u64,
    /// The rings from other workers and to and from the host, as far as there are any.
    pub rings: Vec<OfRing>,
}

/// A ring of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfRing {
    /// Its name.
    pub ring: &'static str,
    /// Packets that fit.
    pub capacity: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// The most that waited in the last minute.
    pub most: u64,
}

/// Packet buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// Those that are out: with a port, or in a worker's hands.
    pub in_use: u64,
    /// All that there are.
    pub all: u64,
}

/// An endpoint.
#[derive(Clone, Debug)]
pub struct OfEndpoint {
    /// Its name.
    pub name: String,
    /// The load balancer behind it; empty if there is none.
    pub balancer: String,
    /// Its live flows.
    pub flows: u64,
}

/// A load balancer.
#[derive(Clone, Debug)]
pub struct OfBalancer {
    /// Its name.
    pub name: Arc<str>,
    /// What was counted at its targets.
    pub measures: Measures,
    /// Flows refused for want of a target, and of these TCP.
    pub rejected: [u64; 2],
    /// Flows given to a target though none was healthy.
    pub fail_open: u64,
    /// Packets forwarded without state.
    pub stateless: u64,
    /// Resets sent, by trigger; those of packets of no flow too.
    pub resets: [u64; ResetTrigger::COUNT],
    /// Resets held back, by reason.
    pub suppressed: [u64; Suppressed::COUNT],
}

/// A zone of a load balancer.
#[derive(Clone, Debug)]
pub struct OfZone {
    /// The load balancer.
    pub balancer: Arc<str>,
    /// The zone.
    pub zone: Arc<str>,
    /// What was counted at its targets there.
    pub measures: Measures,
}

/// A target group.
#[derive(Clone, Debug)]
pub struct OfGroup {
    /// The load balancer that uses it; empty if none does.
    pub balancer: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// What was counted at its targets.
    pub measures: Measures,
    /// What its checks came to.
    pub checks: GroupChecks,
    /// How often its targets came to be in each state.
    pub health_changes: [u64; HealthState::ALL.len()],
    /// Within what time a dead target is noticed whose checks fail at once: interval times threshold (H-7).
    pub detection: Duration,
    /// The same at worst: its checks time out.
    pub worst_detection: Duration,
    /// From one check of a target to the next (H-8).
    pub interval: Duration,
}

/// A target.
#[derive(Clone, Debug)]
pub struct OfTarget {
    /// The load balancer that uses its group; empty if none does.
    pub balancer: Arc<str>,
    /// Its group.
    pub group: Arc<str>,
    /// Its zone; empty if it has none.
    pub zone: Arc<str>,
    /// Its address.
    pub address: String,
    /// What was counted at it.
    pub measures: Measures,
    /// How it stands.
    pub state: HealthState,
    /// Why; none for a healthy one.
    pub reason: Option<ReasonCode>,
    /// Since when, in seconds since 1970.
    pub since: f64,
    /// Its weight; 0 for one that is gone.
    pub weight: u16,
    /// What its checks came to.
    pub checks: CheckTotals,
    /// How long the last one took.
    pub last_check: Option<Duration>,
    /// When its drain ends, in seconds since 1970.
    pub drain_ends: Option<f64>,
    /// Flows that its sudden death would end.
    pub at_risk: u64,
    /// For how long it has returned nothing of what it was sent.
    pub silent_for: Duration,
}

/// A target's newest failover or drain, as it is on record.
#[derive(Clone, Debug)]
pub struct OfFailover {
    /// The load balancer that uses its group, or did when it was decided; empty if none did.
    pub balancer: Arc<str>,
    /// Its group.
    pub group: Arc<str>,
    /// Its zone; empty if it has none, or is gone.
    pub zone: Arc<str>,
    /// Its address.
    pub address: String,
    /// What made its flows lose it.
    pub cause: Cause,
    /// The record's number.
    pub id: u64,
    /// When it was decided, in seconds since 1970.
    pub decided: f64,
    /// Whether it goes on.
    pub is_open: bool,
    /// What became of its flows.
    pub flows: FlowsTouched,
    /// Resets that were sent.
    pub resets: u64,
    /// How long each phase took.
    pub durations: Durations,
}

/// Of the monitoring endpoint itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfMonitor {
    /// Streams that are open.
    pub streams: usize,
    /// Streams that were refused, as there were too many.
    pub streams_refused: u64,
    /// Scrapes that were written.
    pub scrapes: u64,
    /// Of these, those that were given up for a newcomer, as their client did not read.
    pub scrapes_given_up: u64,
}
