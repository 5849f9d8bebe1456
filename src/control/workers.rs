//! The control core's ends of the rings to the workers (`datapath::messages`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer};

use crate::datapath::counters::{Counter, WorkerCounters};
use crate::datapath::enquiry::Enquiry;
use crate::datapath::flow_log::FlowLog;
use crate::datapath::forwarding::{Condition, Forwarding};
use crate::datapath::messages::{FlowFilter, FromWorker, ToWorker};
use crate::flow::PageKind;
use crate::id::{TargetId, WorkerId};
use crate::io::clock::Clock;
use crate::wire::ethernet::MacAddr;

use super::heartbeat::{Beat, Heartbeat};
use super::histogram::{FOLLOW_BOUNDS, Histogram};
use super::neighbours::Hop;
use super::slots::Slot;

/// Messages that fit into the ring to a worker. What does not waits here, in order.
pub const TO_WORKER_RING: usize = 1024;

/// Messages that fit into the ring from a worker: a burst of resets and a scan's step, many times.
pub const FROM_WORKER_RING: usize = 8192;

/// One worker, as the control core sees it.
pub struct WorkerLink {
    /// Its number.
    pub id: WorkerId,
    /// The CPU core it runs on.
    pub core: u16,
    /// Flows that its table holds at most.
    pub capacity: u32,
    /// Bytes of a page that its packets lie in; 0 where nobody has said.
    pub packet_pages: u64,
    /// The pages that its flow table lies in.
    pub table_pages: PageKind,
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
    to: Producer<ToWorker>,
    from: Consumer<FromWorker>,
    backlog: VecDeque<ToWorker>,
    /// Forwarding states that it has given back.
    retired: u64,
    heart: Heartbeat,
}

impl WorkerLink {
    /// A link over these ends.
    pub fn new(
        id: WorkerId,
        core: u16,
        capacity: u32,
        counters: Arc<WorkerCounters>,
        to: Producer<ToWorker>,
        from: Consumer<FromWorker>,
    ) -> WorkerLink {
        WorkerLink {
            id,
            core,
            capacity,
            packet_pages: 0,
            table_pages: PageKind::Small,
            counters,
            to,
            from,
            backlog: VecDeque::new(),
            retired: 0,
            heart: Heartbeat::new(Instant::now()),
        }
    }

    /// For how long it has gone no round.
    pub fn silent_for(&self) -> Duration {
        self.heart.silent_for(self.counters.rounds.get())
    }

    /// Whether it goes round, and how often it was stuck.
    pub fn heart(&self) -> &Heartbeat {
        &self.heart
    }

    /// Messages on their way to the worker: those in the ring, and those that wait for room in it.
    pub fn to_worker(&self) -> (usize, usize) {
        (self.to.buffer().capacity() - self.to.slots(), self.backlog.len())
    }

    /// Messages of the worker that wait in the ring.
    pub fn from_worker(&self) -> usize {
        self.from.slots()
    }

    fn send(&mut self, message: ToWorker) {
        self.backlog.push_back(message);
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(message) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(message)) = self.to.push(message) {
                self.backlog.push_front(message);
                return;
            }
        }
    }
}

/// Messages of one kind on their way to the workers, each with its number.
#[derive(Default)]
struct Telling {
    sequence: u64,
    underway: VecDeque<Underway>,
    /// The longest that one took so far until the last worker went by it.
    slowest: Duration,
}

/// A message on its way to the workers.
struct Underway {
    sequence: u64,
    sent: u64,
    workers_left: usize,
    slowest: u64,
}

impl Telling {
    /// One more is sent to so many workers; its number.
    fn begin(&mut self, sent: u64, workers_left: usize) -> u64 {
        self.sequence += 1;
        self.underway.push_back(Underway { sequence: self.sequence, sent, workers_left, slowest: 0 });
        self.sequence
    }

    /// A worker goes by one from here on; how long that took, if it is the last of them. One that was lost on the way back (the
    /// worker counts it) is given up when a later one is complete.
    fn applied(&mut self, sequence: u64, at: u64, clock: &Clock) -> Option<Duration> {
        let place = self.underway.iter().position(|underway| underway.sequence == sequence)?;
        let underway = &mut self.underway[place];
        underway.slowest = underway.slowest.max(at.saturating_sub(underway.sent));
        underway.workers_left -= 1;
        if underway.workers_left > 0 {
            return None;
        }
        let took = clock.duration_of(underway.slowest);
        self.slowest = self.slowest.max(took);
        self.underway.drain(..=place);
        Some(took)
    }
}

/// All workers.
pub struct Workers {
    links: Vec<WorkerLink>,
    clock: Clock,
    conditions: Telling,
    forwardings: Telling,
    /// How long each condition took from the decision to the last worker (H-7).
    followed: Histogram,
    published: Instant,
    /// When each worker first went by a forwarding state, in cycles.
    first: Vec<u64>,
}

impl Workers {
    /// These workers, whose clock this is.
    pub fn new(links: Vec<WorkerLink>, clock: Clock) -> Workers {
        let (conditions, forwardings) = (Telling::default(), Telling::default());
        let (followed, published) = (Histogram::new(FOLLOW_BOUNDS), Instant::now());
        Workers { links, clock, conditions, forwardings, followed, published, first: Vec::new() }
    }

    /// The workers' clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The longest that a condition took so far from the decision to the round in which the last worker
    /// went by it (H-7).
    pub fn slowest_condition(&self) -> Duration {
        self.conditions.slowest
    }

    /// The longest that a forwarding state took so far, from when it was made to the round in which the last worker went by
    /// it.
    pub fn slowest_forwarding(&self) -> Duration {
        self.forwardings.slowest
    }

    /// When the last worker of all first went by a forwarding state, in cycles; `None` as long as one does not.
    pub fn first_forwarding(&self) -> Option<u64> {
        let all = !self.links.is_empty() && self.first.len() == self.links.len();
        self.first.iter().copied().max().filter(|_| all)
    }

    /// How long conditions took so, each of them.
    pub fn conditions(&self) -> &Histogram {
        &self.followed
    }

    /// Each of them.
    pub fn links(&self) -> &[WorkerLink] {
        &self.links
    }

    /// The workers that do not go by the configuration `generation`, and how long ago it was given to them;
    /// `None` for one that has not gone by any.
    pub fn behind(&self, generation: u64) -> Vec<(usize, Option<Duration>)> {
        let age = self.published.elapsed();
        let follows = |link: &WorkerLink| link.counters.configuration.get();
        let behind = self.links.iter().enumerate().filter(|(_, link)| follows(link) != generation);
        behind.map(|(number, link)| (number, (follows(link) > 0).then_some(age))).collect()
    }

    /// Gives every worker a forwarding state.
    pub fn publish(&mut self, mut forwarding: Forwarding) {
        forwarding.prepare();
        self.published = Instant::now();
        let forwarding = Arc::new(forwarding);
        self.forwardings.begin(self.clock.cycles(), self.links.len());
        for link in &mut self.links {
            link.send(ToWorker::Forwarding(Arc::clone(&forwarding)));
        }
    }

    /// Tells every worker a target's condition; the number under which each says that it goes by it.
    pub fn set_condition(&mut self, slot: Slot, condition: Condition) -> u64 {
        let sequence = self.conditions.begin(self.clock.cycles(), self.links.len());
        for link in &mut self.links {
            link.send(ToWorker::Condition {
                target: slot.id,
                generation: slot.generation,
                condition,
                sequence,
            });
        }
        sequence
    }

    /// Tells every worker a neighbour's link-layer address, or that it has none.
    pub fn set_neighbour(&mut self, hop: &Hop, mac: Option<MacAddr>) {
        for link in &mut self.links {
            link.send(ToWorker::Neighbour { interface: hop.interface, address: hop.address, mac });
        }
    }

    /// Sends every worker a message of its own; returns what goes with each.
    pub fn send_each<T>(&mut self, mut message: impl FnMut() -> (ToWorker, T)) -> Vec<T> {
        let send = |link: &mut WorkerLink| {
            let (message, with_it) = message();
            link.send(message);
            with_it
        };
        self.links.iter_mut().map(send).collect()
    }

    /// Whether each worker has room for a message more. What is only asked is not put behind what waits for one that is stuck:
    /// whoever may but look would make that as long as they like.
    pub fn have_room(&self) -> bool {
        self.links.iter().all(|link| link.backlog.is_empty() && link.to.slots() > 0)
    }

    /// Asks every worker for its flows.
    pub fn scan(&mut self, filter: FlowFilter) {
        for link in &mut self.links {
            link.send(ToWorker::ScanFlows(filter));
        }
    }

    /// Has every worker tell of new TCP flows, or no longer.
    pub fn tell_begun(&mut self, wanted: bool) {
        for link in &mut self.links {
            link.send(ToWorker::TellBegun(wanted));
        }
    }

    /// Puts a question to every worker.
    pub fn enquire(&mut self, question: impl Fn() -> Enquiry) {
        for link in &mut self.links {
            link.send(ToWorker::Enquire(Box::new(question())));
        }
    }

    /// Gives each worker its part of a flow log, in their order.
    pub fn start_flow_log(&mut self, logs: Vec<Box<FlowLog>>) {
        for (link, log) in self.links.iter_mut().zip(logs) {
            link.send(ToWorker::StartFlowLog(log));
        }
    }

    /// Asks every worker for its part of the flow log back.
    pub fn stop_flow_log(&mut self) {
        for link in &mut self.links {
            link.send(ToWorker::StopFlowLog);
        }
    }

    /// Sets every worker's clock forward (tests of timers).
    pub fn advance_clock(&mut self, ms: u32) {
        for link in &mut self.links {
            link.send(ToWorker::AdvanceClock(ms));
        }
    }

    /// Puts a fault into a worker, if there is one of this number (tests of faults).
    #[cfg(any(debug_assertions, feature = "faults"))]
    pub fn put_fault(&mut self, worker: usize, fault: crate::datapath::messages::PutFault) {
        if let Some(link) = self.links.get_mut(worker) {
            link.send(ToWorker::Fault(fault));
        }
    }

    /// Takes what the workers sent; retired forwarding states are freed here.
    pub fn poll(&mut self, mut take: impl FnMut(FromWorker)) {
        let (mut conditions, mut forwardings) = (Vec::new(), Vec::new());
        for link in &mut self.links {
            link.flush();
            // As much as the ring holds, lest a flood keep the caller here.
            for _ in 0..FROM_WORKER_RING {
                let Ok(message) = link.from.pop() else { break };
                match message {
                    FromWorker::Retired { forwarding, at_cycles } => {
                        drop(forwarding);
                        // Each is retired by the one that was sent after it, the first by the first.
                        link.retired += 1;
                        if link.retired == 1 {
                            self.first.push(at_cycles);
                        }
                        forwardings.push((link.retired, at_cycles));
                    }
                    FromWorker::CaptureOver(capture) => drop(capture),
                    other => {
                        if let FromWorker::ConditionApplied { sequence, at_cycles, .. } = other {
                            conditions.push((sequence, at_cycles));
                        }
                        take(other);
                    }
                }
            }
        }
        for (sequence, at) in conditions {
            if let Some(took) = self.conditions.applied(sequence, at, &self.clock) {
                self.followed.observe(took);
                tracing::debug!(name: "condition_in_force", sequence, ?took, "a condition is in force on every worker");
            }
        }
        for (sequence, at) in forwardings {
            if let Some(took) = self.forwardings.applied(sequence, at, &self.clock) {
                tracing::debug!(name: "forwarding_in_force", sequence, ?took, "a forwarding state is in force on every worker");
            }
        }
    }

    /// Looks whether every worker goes round; what is news.
    pub fn look_after(&mut self, now: Instant) -> Vec<(WorkerId, Beat)> {
        let look = |link: &mut WorkerLink| {
            let counters = &link.counters;
            let beat = link.heart.look(counters.rounds.get(), counters.panicked.get() != 0, now)?;
            Some((link.id, beat))
        };
        self.links.iter_mut().filter_map(look).collect()
    }

    /// The numbers of the workers that have ended by a panic, as they say themselves.
    pub fn panicked(&self) -> Vec<usize> {
        let panicked = self.links.iter().enumerate().filter(|(_, link)| link.counters.panicked.get() != 0);
        panicked.map(|(number, _)| number).collect()
    }

    /// The sum of a counter over the workers.
    pub fn sum(&self, of: impl Fn(&WorkerCounters) -> &Counter) -> u64 {
        self.links.iter().fold(0, |sum, link| sum.wrapping_add(of(&link.counters).get()))
    }

    /// Live flows of a target, over all workers.
    pub fn flows_of(&self, target: TargetId) -> u64 {
        self.sum(|counters| &counters.target(target).active_flows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_find_no_room_wait_in_order_and_are_seen_to_wait() {
        let (to, mut inbox) = rtrb::RingBuffer::new(4);
        let (_says, from) = rtrb::RingBuffer::new(4);
        let link = WorkerLink::new(WorkerId(0), 1, 16, Arc::default(), to, from);
        let mut workers = Workers::new(vec![link], Clock::start());
        for ms in 0..1000 {
            workers.advance_clock(ms);
        }
        assert_eq!(workers.links()[0].to_worker(), (4, 996), "four in the ring, and the rest behind it");
        assert!(!workers.have_room());
        let mut came = Vec::new();
        while workers.links()[0].to_worker() != (0, 0) {
            while let Ok(ToWorker::AdvanceClock(ms)) = inbox.pop() {
                came.push(ms);
            }
            workers.poll(|_| {});
        }
        assert!(came.into_iter().eq(0..1000));
        assert!(workers.have_room());
    }
}
