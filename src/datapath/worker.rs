//! A worker: the loop that runs one core.
//!
//! One round takes the control core's messages, a burst from every port and from every other worker,
//! and does a bounded step of ageing, and of a walk or a scan if there is one (F-13). It knows neither DPDK nor
//! the clock: [`Worker::round`] is given the time, so tests play whole histories through it.

mod flow_log;
mod resume;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer};

use super::ages::Ages;
use super::capture::{Departing, Watch};
use super::counters::{MAX_GATEWAYS, MAX_TARGETS, WorkerCounters};
use super::enquiry::Enquiry;
use super::fast_path::{AnswerLane, Lane};
use super::flow_log::FlowLog;
use super::flows::Flows;
use super::forwarding::{Conditions, Forwarding};
use super::fragments::Fragments;
use super::host::HostPort;
use super::icmp_errors::Allowance;
pub use super::idle::Idle;
use super::idle::Rest;
use super::links::LinkTable;
use super::load::{LargestBursts, PacketRing, STATES};
#[cfg(any(debug_assertions, feature = "faults"))]
use super::messages::PutFault;
use super::messages::{FlowFilter, FlowRecord, FromWorker, ToWorker};
use super::neighbours::{NEIGHBOURS, Neighbours, NextHop};
use super::outbound::{Handoff, Outbound, Stage};
use super::pipeline::Pipeline;
use super::rates::Rates;
use super::sweep::Sweep;
use super::waiting::Waiting;
use crate::flow::{Entry, FlowFlags, FlowState, HashSeed, Table, Timers, expiry};
use crate::id::{Millis, PortId, WorkerId};
use crate::io::BURST;
use crate::io::clock::Clock;
use crate::io::isa::Isa;
use crate::io::{BoxedBurst, Burst, PortQueue};

pub use crate::flow::LINKS;
pub use resume::Resumed;

/// Messages taken from the control core in one round at most: each may miss the caches some times, and a
/// thousand targets may fail at once.
const MESSAGES_A_ROUND: usize = 16;

/// Entries the ageing hand looks at in one round at most: two cache lines' worth of waiting.
const AGE_STEPS_A_ROUND: u32 = 32;

/// The ageing hand passes the whole table once in about so many milliseconds, as a power of two.
const AGE_SWEEP_MS_LOG2: u32 = 14;

/// Entries a scan looks at in one round, and so the most it can send.
const SCAN_STEPS_A_ROUND: u32 = 32;

/// A worker that went no round for so many milliseconds was stopped. The longest round that was ever measured took some
/// hundredths of that, and no timer is shorter.
const PAUSE_MS: u32 = 500;

/// Room in the ring that a scan leaves for events.
const SCAN_LEAVES: usize = 256;

/// What a worker is made of.
pub struct WorkerParts<Q: PortQueue> {
    /// Its number.
    pub id: WorkerId,
    /// How many workers there are.
    pub workers: u8,
    /// Its queue of every port, by [`PortId`].
    pub ports: Vec<Q>,
    /// Its flow table, empty.
    pub table: Table,
    /// Keys the choice of targets (F-4).
    pub choice_seed: HashSeed,
    /// Keys the table of link-layer headers.
    pub link_seed: HashSeed,
    /// Its ends of the rings between workers.
    pub handoff: Handoff<Q::Buf>,
    /// Its ends of the rings to and from the host's network stack.
    pub host: HostPort<Q::Buf>,
    /// Messages of the control core.
    pub inbox: Consumer<ToWorker>,
    /// Messages to the control core.
    pub events: Producer<FromWorker>,
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
}

impl<Q: PortQueue> WorkerParts<Q> {
    /// The only worker there is, without a host's network stack: one of a test, or of a measurement.
    pub fn alone(
        ports: Vec<Q>,
        table: Table,
        seed: HashSeed,
        (inbox, events): (Consumer<ToWorker>, Producer<FromWorker>),
    ) -> Self {
        WorkerParts {
            id: WorkerId(0),
            workers: 1,
            ports,
            table,
            choice_seed: seed.clone(),
            link_seed: seed,
            handoff: Handoff::mesh(1).remove(0),
            host: HostPort::none(),
            inbox,
            events,
            counters: Arc::default(),
        }
    }
}

/// One worker.
pub struct Worker<Q: PortQueue> {
    pipeline: Pipeline<Q::Buf>,
    ports: Vec<Q>,
    forwarding: Arc<Forwarding>,
    /// Where packets are received. There but while it is in use.
    received: Option<BoxedBurst<Q::Buf>>,
    inbox: Consumer<ToWorker>,
    /// A forwarding state that is out of use and waits for room in the ring.
    retired: Option<(Arc<Forwarding>, u64)>,
    /// A form that is filled in and waits for room in the ring.
    enquiry: Option<Box<Enquiry>>,
    scan: Option<Scan>,
    /// How old the flows are.
    ages: Ages,
    /// How large its bursts are.
    largest: LargestBursts,
    /// A flow log that is over and waits for room in the ring.
    over: Option<Box<FlowLog>>,
    /// The control core had messages for this round.
    told: bool,
    /// Entries that the ageing hand is due to look at.
    age_due: u32,
    aged_at: Millis,
    /// How far the worker's time is ahead of the clock: it was set forward (tests of timers), or back by pauses.
    clock_ahead: u32,
    /// When the last round was, by the clock.
    round_at: Option<Millis>,
}

struct Scan {
    filter: FlowFilter,
    next: u32,
    sent: u32,
    matching: u64,
}

impl<Q: PortQueue> Worker<Q> {
    /// A worker that knows of no forwarding state yet: until it gets one it drops what arrives.
    pub fn new(parts: WorkerParts<Q>) -> Worker<Q> {
        let ports = parts.ports.len();
        let ages = Ages::new(parts.table.capacity());
        let [to_host, from_host] = parts.host.capacities();
        for (ring, capacity) in
            PacketRing::ALL.into_iter().zip([parts.handoff.capacity(), to_host, from_host])
        {
            parts.counters.ring(ring).capacity.set(capacity as u64);
        }
        Worker {
            pipeline: Pipeline {
                worker: parts.id,
                workers: parts.workers,
                flows: Flows::new(parts.table, LinkTable::new(LINKS, parts.link_seed.clone())),
                conditions: Conditions::new(MAX_TARGETS, MAX_GATEWAYS),
                rates: Rates::new(MAX_GATEWAYS, parts.workers),
                sweep: Sweep::default(),
                outbound: Outbound::new(ports),
                handoff: parts.handoff,
                fragments: Fragments::default(),
                host: parts.host,
                neighbours: Neighbours::new(NEIGHBOURS, parts.link_seed.clone()),
                waiting: Waiting::new(parts.link_seed.clone()),
                allowance: Allowance::new(parts.link_seed.clone()),
                counters: parts.counters,
                events: parts.events,
                choice_seed: parts.choice_seed,
                isa: Isa::best(),
                lanes: Some(Box::new([Lane::EMPTY; BURST])),
                answer_lanes: Some(Box::new([AnswerLane::EMPTY; BURST])),
                fast_path: true,
                tells_begun: false,
                watching: false,
                watch: Some(Box::new(Watch::new(ports))),
                now: Millis(0),
                now_cycles: 0,
            },
            ports: parts.ports,
            forwarding: Arc::new(Forwarding::default()),
            received: Some(BoxedBurst::default()),
            inbox: parts.inbox,
            retired: None,
            enquiry: None,
            scan: None,
            ages,
            largest: LargestBursts::default(),
            over: None,
            told: false,
            age_due: 0,
            aged_at: Millis(0),
            clock_ahead: 0,
            round_at: None,
        }
    }

    /// Rounds until `stop`.
    pub fn run(&mut self, clock: &Clock, idle: Idle, stop: &AtomicBool) {
        let mut rest = Rest::new(idle);
        let mut began = clock.cycles();
        while !stop.load(Ordering::Relaxed) {
            let (handled, ended) = self.counted_round(clock, clock.at(began), began);
            began = ended;
            if handled > 0 {
                rest.busy();
            } else if !self.has_work()
                && let Some(pause) = rest.empty()
            {
                std::thread::sleep(pause);
                began = clock.cycles();
                self.pipeline.counters.slept_cycles.add(began.wrapping_sub(ended));
            }
        }
        self.end_flow_log();
        self.pipeline.outbound.unposted.post_all(&self.pipeline.counters);
        self.pipeline.give_up_waiting();
        self.pipeline.fragments.give_up(&self.pipeline.counters);
    }

    /// One round and what is counted of it; `began` is when the one before ended. Returns how many packets it
    /// handled, and when it ended.
    #[inline]
    pub fn counted_round(&mut self, clock: &Clock, now: Millis, began: u64) -> (usize, u64) {
        self.leave_out_pause(now);
        let handled = self.round(now, began);
        let ended = clock.cycles();
        let took = ended.wrapping_sub(began);
        self.pipeline.flows.table.note_round(self.pipeline.now, handled > 0);
        let counters = &self.pipeline.counters;
        counters.rounds.add(1);
        if handled > 0 {
            counters.busy_rounds.add(1);
            counters.busy_cycles.add(took);
        }
        if handled > 0 || self.told {
            counters.longest_rounds.note(self.pipeline.now, took, ended);
        }
        (handled, ended)
    }

    /// Whether there is something to be done round by round, without a packet.
    fn has_work(&self) -> bool {
        self.told
            || self.scan.is_some()
            || self.enquiry.is_some()
            || self.ends_flow_log()
            || self.pipeline.sweep.is_on()
            || self.pipeline.outbound.unposted.is_any()
            || self.age_due > 0
    }

    /// One round; returns how many packets it handled.
    pub fn round(&mut self, now: Millis, now_cycles: u64) -> usize {
        self.pipeline.now = now.plus(self.clock_ahead);
        self.pipeline.now_cycles = now_cycles;
        self.pipeline.outbound.begin_round(now_cycles);
        if let Some(log) = &mut self.pipeline.flows.log {
            log.note_time(self.pipeline.now, now_cycles);
        }
        self.take_messages();
        let mut handled = 0;
        let Some(mut burst) = self.received.take() else { return handled };
        for number in 0..self.ports.len() {
            if let Some(port) = self.ports.get_mut(number) {
                port.receive(&mut burst);
            }
            self.pipeline.counters.bursts.count(burst.len());
            #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 65,536 ports")]
            let port = PortId(number as u16);
            handled += self.process(port, &mut burst, false);
        }
        // As many runs as the others can have made of one round of theirs.
        for _ in 0..self.ports.len() * usize::from(self.pipeline.workers - 1) {
            let mut stages = ArrayVec::new();
            let Some(port) = self.pipeline.handoff.take(&mut burst, &mut stages) else { break };
            self.pipeline.counters.handed_in.add(burst.len() as u64);
            handled += if stages.is_empty() {
                self.process(port, &mut burst, true)
            } else {
                self.process_staged(port, &mut burst, &stages)
            };
        }
        self.received = Some(burst);
        self.pipeline.fragments.expire(self.pipeline.now, &self.pipeline.counters);
        if self.pipeline.is_watched() {
            self.pipeline.tell_lost(&self.forwarding);
        }
        let from_host = self.pipeline.from_host(&self.forwarding);
        self.flush();
        self.pipeline.end_waiting(&self.forwarding);
        self.pipeline.sweep(&self.forwarding, &mut self.ports);
        self.flush();
        let (handled, end) = (handled + from_host, self.forwarding.targets.len());
        let Pipeline { outbound, counters, .. } = &mut self.pipeline;
        outbound.end_round(handled > BURST / 2, end, counters);
        self.age();
        self.scan();
        if self.has_flow_log() {
            self.tend_flow_log();
        }
        handled
    }

    /// A worker that went no round for long was stopped, with its process or its machine: no packet had a chance then, and the
    /// time counts for no flow.
    #[inline]
    fn leave_out_pause(&mut self, now: Millis) {
        let before = self.round_at.replace(now);
        if let Some(before) = before
            && now.since(before) >= PAUSE_MS
        {
            self.note_pause(now.since(before));
        }
    }

    #[cold]
    fn note_pause(&mut self, ms: u32) {
        self.clock_ahead = self.clock_ahead.wrapping_sub(ms);
        // Whoever takes the table over is to leave it out, too.
        self.pipeline.flows.table.note_pause(ms);
        self.pipeline.counters.pauses.add(1);
        self.pipeline.counters.paused_ms.add(u64::from(ms));
    }

    #[inline]
    fn flush(&mut self) {
        if !self.pipeline.outbound.has_queued() {
            return;
        }
        if self.pipeline.is_watched() {
            self.flush_watched();
        } else {
            self.pipeline.outbound.flush(&mut self.ports, &self.pipeline.counters);
        }
    }

    #[cold]
    fn flush_watched(&mut self) {
        let Pipeline { outbound, counters, watch: Some(watch), worker, now, .. } = &mut self.pipeline else {
            return;
        };
        let seen = &mut Departing { watch, forwarding: &self.forwarding, worker: *worker, now: *now };
        outbound.flush_seen(&mut self.ports, counters, seen);
    }

    /// Its counters.
    pub fn counters(&self) -> Arc<WorkerCounters> {
        Arc::clone(&self.pipeline.counters)
    }

    /// The flow table's figures, for tests.
    pub fn flows(&self) -> &Flows {
        &self.pipeline.flows
    }

    /// Turns the fast path off, so that every packet goes the general way: for tests and benches that hold one
    /// against the other.
    pub fn without_fast_path(&mut self) {
        self.pipeline.fast_path = false;
    }

    /// Has the stages run with other instructions than the best: for tests that hold one against the other.
    pub fn with_instructions(&mut self, isa: Isa) {
        self.pipeline.isa = isa;
    }

    /// Packets that came in and are not settled yet, as they wait for a next hop or for the first fragment of
    /// their datagram (C-1), for tests.
    pub fn unsettled(&self) -> usize {
        self.pipeline.waiting.unsettled() + self.pipeline.fragments.held()
    }

    /// The ports, for tests that put packets in and take them out.
    pub fn ports_mut(&mut self) -> &mut [Q] {
        &mut self.ports
    }

    /// Fragments and ICMP errors that another worker handed over.
    #[cold]
    fn process_staged(&mut self, port: PortId, burst: &mut Burst<Q::Buf>, stages: &[Stage]) -> usize {
        let handled = burst.len();
        for (packet, stage) in burst.drain(..).zip(stages) {
            self.pipeline.watch_from(&self.forwarding, Some(port), &packet, false);
            self.pipeline.follow(&self.forwarding, port, packet, Some(*stage));
        }
        self.pipeline.watch_end(&self.forwarding);
        self.flush();
        handled
    }

    #[inline]
    fn process(&mut self, port: PortId, burst: &mut BoxedBurst<Q::Buf>, steered: bool) -> usize {
        let handled = burst.len();
        if handled > 0 {
            self.process_some(port, burst, steered);
        }
        handled
    }

    #[inline(never)]
    fn process_some(&mut self, port: PortId, burst: &mut BoxedBurst<Q::Buf>, steered: bool) {
        // Asked once, for both.
        if self.pipeline.is_watched() {
            self.pipeline.process_watched(&self.forwarding, port, burst, steered);
            return self.flush();
        }
        let Worker { pipeline, ports, forwarding, .. } = self;
        pipeline.process(forwarding, port, burst, steered);
        if pipeline.outbound.has_queued() {
            pipeline.outbound.flush(ports, &pipeline.counters);
        }
    }

    fn take_messages(&mut self) {
        if self.take_each_message() {
            self.pipeline.sweep.begin(&self.forwarding);
        }
    }

    /// Whether one of them may be what silent flows are to be told of.
    fn take_each_message(&mut self) -> bool {
        let mut changed = false;
        self.told = false;
        if let Some((retired, at_cycles)) = self.retired.take() {
            self.retire(retired, at_cycles);
        }
        if let Some(enquiry) = self.enquiry.take() {
            self.give_back(enquiry);
        }
        for _ in 0..MESSAGES_A_ROUND {
            // The one before must be on its way back before another can take its place.
            if self.retired.is_some() || self.enquiry.is_some() {
                break;
            }
            let Ok(message) = self.inbox.pop() else { break };
            self.told = true;
            match message {
                ToWorker::Forwarding(forwarding) => {
                    changed = true;
                    self.pipeline.conditions.install(&forwarding, self.pipeline.now);
                    self.pipeline.goes_by(forwarding.configuration);
                    let before = std::mem::replace(&mut self.forwarding, forwarding);
                    self.retire(before, self.pipeline.now_cycles);
                }
                ToWorker::Condition { target, generation, condition, sequence } => {
                    changed = true;
                    let Pipeline { conditions, now, .. } = &mut self.pipeline;
                    conditions.set(&self.forwarding, target, generation, condition, *now);
                    let applied = FromWorker::ConditionApplied {
                        worker: self.pipeline.worker,
                        sequence,
                        at_cycles: self.pipeline.now_cycles,
                    };
                    if self.pipeline.events.push(applied).is_err() {
                        self.pipeline.counters.events_lost.add(1);
                    }
                }
                ToWorker::Neighbour { interface, address, mac } => {
                    self.pipeline.learn(&self.forwarding, NextHop::new(interface, address), mac);
                    self.flush();
                }
                ToWorker::Capture(capture) => {
                    if let Err(refused) = self.pipeline.begin_capture(capture)
                        && self.pipeline.events.push(FromWorker::CaptureOver(refused)).is_err()
                    {
                        self.pipeline.counters.events_lost.add(1);
                    }
                }
                ToWorker::ScanFlows(filter) => {
                    self.scan = Some(Scan { filter, next: 0, sent: 0, matching: 0 })
                }
                ToWorker::TellBegun(wanted) => self.pipeline.tells_begun = wanted,
                ToWorker::Enquire(mut enquiry) => {
                    self.pipeline.answer_enquiry(&self.forwarding, &mut enquiry);
                    self.give_back(enquiry);
                }
                ToWorker::StartFlowLog(log) => self.start_flow_log(log),
                ToWorker::StopFlowLog => self.stop_flow_log(),
                ToWorker::AdvanceClock(ms) => {
                    self.clock_ahead = self.clock_ahead.wrapping_add(ms);
                    self.pipeline.now = self.pipeline.now.plus(ms);
                }
                #[cfg(any(debug_assertions, feature = "faults"))]
                ToWorker::Fault(PutFault::Stall(time)) => std::thread::sleep(time),
                #[cfg(any(debug_assertions, feature = "faults"))]
                ToWorker::Fault(PutFault::Panic) => panic!("a fault that was put in: a worker"),
            }
        }
        changed
    }

    /// Sends a forwarding state back to be freed where it was made; keeps it if the ring is full.
    fn retire(&mut self, forwarding: Arc<Forwarding>, at_cycles: u64) {
        let retired = FromWorker::Retired { forwarding, at_cycles };
        if let Err(rtrb::PushError::Full(FromWorker::Retired { forwarding, at_cycles })) =
            self.pipeline.events.push(retired)
        {
            self.retired = Some((forwarding, at_cycles));
        }
    }

    /// Sends a form back to where it was made; keeps it if the ring is full.
    #[cold]
    fn give_back(&mut self, enquiry: Box<Enquiry>) {
        if let Err(rtrb::PushError::Full(FromWorker::Enquiry(kept))) =
            self.pipeline.events.push(FromWorker::Enquiry(enquiry))
        {
            self.enquiry = Some(kept);
        }
    }

    /// The ageing hand: so many entries a millisecond that it passes the whole table in about 16 s,
    /// a bounded number a round.
    #[inline]
    fn age(&mut self) {
        let now = self.pipeline.now;
        self.pipeline.conditions.age(now);
        self.pipeline.rates.age(now);
        let elapsed = now.since(self.aged_at);
        if elapsed > 0 {
            let capacity = self.pipeline.flows.table.capacity();
            let rate = (capacity >> AGE_SWEEP_MS_LOG2).max(1);
            self.age_due = self.age_due.saturating_add(elapsed.saturating_mul(rate)).min(capacity);
            self.aged_at = now;
            self.count_states();
            self.show_fills();
            if self.pipeline.is_watched() {
                self.pipeline.end_captures();
            }
            let Pipeline { flows, counters, .. } = &self.pipeline;
            self.ages.walk(&flows.table, now, elapsed, counters);
        }
        let steps = self.age_due.min(AGE_STEPS_A_ROUND);
        if steps > 0 {
            self.age_due -= steps;
            self.pipeline.flows.age(steps, now, &self.forwarding, &self.pipeline.counters);
        }
    }

    /// Shows how many entries of the flow table are in which state.
    fn count_states(&self) {
        let Pipeline { flows, counters, .. } = &self.pipeline;
        for (shown, state) in counters.flow_states.iter().zip(STATES) {
            shown.set(u64::from(flows.table.count(state)));
        }
    }

    /// Shows how large bursts are, and how full the rings from other workers and to and from the host.
    fn show_fills(&mut self) {
        let Pipeline { handoff, host, counters, now, .. } = &mut self.pipeline;
        self.largest.look(*now, &counters.bursts, &counters.largest_bursts);
        let [to_host, from_host] = host.fills();
        for (ring, (waiting, most)) in PacketRing::ALL.into_iter().zip([handoff.fill(), to_host, from_host]) {
            counters.ring(ring).note(*now, waiting, most);
        }
    }

    /// A step of the scan that the control core asked for, if there is room for what it may find.
    #[inline]
    fn scan(&mut self) {
        if self.scan.is_some() && self.pipeline.events.slots() >= SCAN_LEAVES + SCAN_STEPS_A_ROUND as usize {
            self.scan_step();
        }
    }

    #[cold]
    fn scan_step(&mut self) {
        let Some(scan) = &mut self.scan else { return };
        let Pipeline { flows, events, worker, now, .. } = &mut self.pipeline;
        let next = flows.table.scan(scan.next, SCAN_STEPS_A_ROUND, |id, entry| {
            if !matches(&scan.filter, &self.forwarding, *now, entry) {
                return;
            }
            scan.matching += 1;
            if scan.sent < scan.filter.limit {
                let found = record(*worker, *now, entry, flows.table.cookie(id).0, &self.forwarding);
                let record = FlowRecord { scan: scan.filter.scan, ..found };
                // The caller has seen to it that there is room.
                if events.push(FromWorker::Flow(record)).is_ok() {
                    scan.sent += 1;
                }
            }
        });
        match next {
            Some(next) => scan.next = next,
            None => {
                let (scan, matching) = (scan.filter.scan, scan.matching);
                if events.push(FromWorker::ScanDone { worker: *worker, scan, matching }).is_ok() {
                    self.scan = None;
                }
            }
        }
    }
}

/// Whether a flow is what a filter asks for.
fn matches(filter: &FlowFilter, forwarding: &Forwarding, now: Millis, entry: &Entry) -> bool {
    fn is<T: PartialEq>(wanted: Option<T>, found: T) -> bool {
        wanted.is_none_or(|wanted| wanted == found)
    }
    let key = entry.key();
    let ends = [entry.initiator(), entry.initiator().reverse()].map(|way| key.source_socket(way));
    is(filter.target, entry.target)
        && filter.gateway.is_none_or(|wanted| {
            forwarding.gateway_of(key.endpoint()).is_some_and(|(gateway, _)| gateway == wanted)
        })
        && is(filter.endpoint, key.endpoint())
        && is(filter.protocol, key.protocol())
        && filter.address.is_none_or(|address| ends.iter().any(|end| end.ip() == address))
        && filter.port.is_none_or(|port| ends.iter().any(|end| end.port() == port))
        && is(filter.state, entry.state())
        && filter.ended_by.is_none_or(|timers| {
            let over = |timers: &Timers| expiry(entry.state(), entry.last_seen, now, timers).is_some();
            matches!(entry.state(), FlowState::Established | FlowState::Other)
                && !over(&forwarding.timers(key.endpoint()))
                && over(&timers)
        })
}

/// A flow as an operator sees it.
pub(super) fn record(
    worker: WorkerId,
    now: Millis,
    entry: &Entry,
    cookie: u32,
    forwarding: &Forwarding,
) -> FlowRecord {
    let end = |way| -> (IpAddr, u16) {
        let socket = entry.key().source_socket(way);
        (socket.ip(), socket.port())
    };
    let timers = forwarding.timers(entry.key().endpoint());
    let lifetime = match entry.state() {
        FlowState::Free | FlowState::Expired => 0,
        FlowState::HalfOpen => timers.half_open_ms,
        FlowState::Established | FlowState::Owing => timers.tcp_idle_ms,
        FlowState::Closed => timers.closed_ms,
        FlowState::Other => timers.other_idle_ms,
    };
    FlowRecord {
        scan: 0,
        worker,
        endpoint: entry.key().endpoint(),
        protocol: entry.key().protocol(),
        initiator: end(entry.initiator()),
        responder: end(entry.initiator().reverse()),
        target: entry.target,
        target_generation: entry.target_generation,
        state: entry.state(),
        cookie,
        fail_open: entry.flags.contains(FlowFlags::FAIL_OPEN),
        expires_in_ms: lifetime.saturating_sub(now.since(entry.last_seen)),
        last_seen: entry.last_seen,
        now,
    }
}
