//! The control core: one thread that owns the objects, hears of health, runs the drain clocks, and
//! tells workers and subscribers.
//!
//! Every accepted change takes the same way: the next state is computed (`model`), stored (`store`) by a thread that may
//! wait for the disk, and only then taken over: drains, health checks, forwarding state. Changes come one after the
//! other; everything else goes on meanwhile. A change of a target's health
//! takes the short way: one small message to each worker, at once (H-7). What the kernel says of neighbours
//! and addresses comes in by `core/network.rs`. The socket reaches all this
//! as a [`Service`](super::socket::Service), in `core/service.rs`.

mod accounts;
mod capture;
mod changes;
mod counters;
mod drains;
mod endpoints;
mod explain;
mod failovers;
mod faults;
mod figures;
mod flow_log;
mod hand_on;
mod inband;
mod load;
mod monitor;
mod network;
mod overview;
mod preview;
mod resets;
mod restarted;
mod scan;
mod service;
mod standing;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::capture::Names;
use super::compile::{Compiler, condition};
use super::events::{Event, ResetTrigger, Timestamp, What};
use super::health::damping::Verdict;
use super::health::{HealthEngine, HealthEvent, Moment, TargetKey};
use super::histogram::{DISK_BOUNDS, Histogram};
use super::kept::Kept;
use super::logging::LogControl;
use super::model::{MAX_TARGETS, State};
use super::monitor::NotReadyFile;
use super::monitor::metrics::Buffers;
use super::neighbours::Hop;
use super::netlink::News;
use super::panics::Panic;
use super::resume::{self, SharedKeeper};
use super::slots::Slots;
use super::store::Store;
use super::tables::Restart;
use super::telling::{Teller, Told};
use super::troubles::Watch;
use super::whole::Whole;
use super::workers::Workers;
use crate::datapath::messages::FromWorker;
use accounts::Accounts;
pub use accounts::Measures;
use changes::lock;
pub use drains::Drains;
use explain::Enquiries;
use failovers::Failovers;
use faults::PortLinks;
pub use flow_log::{FlowLogParts, FlowLogs};
use hand_on::HandOn;
use inband::InBand;
use network::Network;
pub use network::NetworkParts;
use resets::Resets;
use restarted::Restarted;
use scan::Scan;

/// How often the workers' rings are looked into.
const POLL: Duration = Duration::from_millis(2);

/// How often targets whose last flow has ended are looked for, and resets are summed up.
const SWEEP: Duration = Duration::from_millis(250);

/// Events kept for a subscriber that is slow. One change may drain every target of the node, which is told at
/// once: who reads as fast as it can loses none of it.
const EVENT_QUEUE: usize = 2 * MAX_TARGETS;

/// What a port is and counts, asked of whoever owns it.
pub type PortViews = Box<dyn Fn() -> Vec<super::socket::views::PortView>>;

/// How many packet buffers each worker has, asked of whoever owns them.
pub type BufferViews = Box<dyn Fn() -> Vec<Buffers>>;

/// What the control core is made of.
pub struct CoreParts {
    /// The objects.
    pub state: State,
    /// Where they are kept.
    pub store: Arc<Mutex<Store>>,
    /// Makes forwarding states.
    pub compiler: Kept<Compiler>,
    /// Checks targets.
    pub health: HealthEngine,
    /// What the checks say.
    pub health_events: mpsc::UnboundedReceiver<HealthEvent>,
    /// The workers.
    pub workers: Kept<Workers>,
    /// Neighbours, and the way to ask for them.
    pub network: NetworkParts,
    /// The ports.
    pub ports: PortViews,
    /// The packet buffers.
    pub buffers: BufferViews,
    /// The log.
    pub log: LogControl,
    /// What the control core before this one has handed on, if there was one and its flow tables live; and where this one
    /// hands it on.
    pub keeper: SharedKeeper,
    /// The flow logs.
    pub flow_logs: Kept<FlowLogs>,
    /// The clocks of drains.
    pub drains: Kept<Drains>,
    /// What came of the flow tables of the daemon before this one.
    pub restart: Restart,
    /// Which control core of this process this is.
    pub life: Life,
    /// The file that takes the node out of service while it is there.
    pub not_ready_file: Rc<NotReadyFile>,
}

/// A control core's place among those that this process had.
#[derive(Clone, Debug)]
pub struct Life {
    /// How many there were before it, each of which ended by a panic.
    pub number: u32,
    /// When the first was started, by two clocks.
    pub since: (Instant, Timestamp),
    /// What ended the one before, and when.
    pub last_panic: Option<(Panic, Timestamp)>,
    /// How many events they told.
    pub told: Arc<Told>,
}

impl Life {
    /// The first one's, now.
    pub fn first() -> Life {
        Life { number: 0, since: (Instant::now(), Timestamp::now()), last_panic: None, told: Arc::default() }
    }

    /// That of the one after it, which ended by this.
    pub fn next(&self, panic: Panic) -> Life {
        Life {
            number: self.number + 1,
            since: self.since,
            last_panic: Some((panic, Timestamp::now())),
            told: Arc::clone(&self.told),
        }
    }
}

/// The control core. It lives on one thread; its methods borrow what is inside for as long as they run
/// and never across a wait.
pub struct Core {
    inner: Whole<Inner>,
    health_events: RefCell<mpsc::UnboundedReceiver<HealthEvent>>,
    events: Teller,
    life: Life,
    /// When the daemon ends for a worker that has panicked, and which.
    ends: Cell<Option<(Instant, u8)>>,
    port_links: RefCell<PortLinks>,
    ports: PortViews,
    buffers: BufferViews,
    log: LogControl,
    not_ready_file: Rc<NotReadyFile>,
    watch: RefCell<Watch>,
    /// When what is wrong was last looked for.
    watched: Cell<Option<Instant>>,
    /// Only one scan of the flow tables runs at a time.
    scanning: tokio::sync::Mutex<()>,
    /// Only one flow log is opened at a time. The thread that opens it holds this, whoever still waits for it.
    opening_flow_log: Arc<tokio::sync::Mutex<()>>,
    /// And only one thread at a time reads what was stored.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// The objects are changed by one at a time, from the state that a change is worked out from until it is stored.
    changing: Arc<tokio::sync::Mutex<()>>,
    /// Held once more by the task that ends drains, if there is one.
    ending_drains: Rc<()>,
    /// Itself, for what goes on when nobody waits for it any more.
    me: Weak<Core>,
}

struct Inner {
    state: State,
    /// Whoever has the turn has it; it is locked by the thread that writes, so that a disk which hangs holds up
    /// whoever waits for a turn and nothing else.
    store: Arc<Mutex<Store>>,
    compiler: Kept<Compiler>,
    slots: Slots,
    health: HealthEngine,
    drains: Kept<Drains>,
    workers: Kept<Workers>,
    network: Network,
    resets: Resets,
    accounts: Accounts,
    inband: InBand,
    failovers: Failovers,
    /// What the ids in captures stand for.
    capture_names: Rc<RefCell<Names>>,
    /// Held once more by each capture that runs.
    capture_slots: Rc<()>,
    hand_on: HandOn,
    flow_logs: Kept<FlowLogs>,
    restarted: Restarted,
    scan: Option<Scan>,
    enquiries: Enquiries,
    /// Scans so far.
    scans: u32,
    /// How far the clock was set forward (tests of timers).
    ahead: Duration,
    /// How long it took to store each change, and how many could not be stored.
    stored: Histogram,
    not_stored: u64,
    /// Since when the one that is under way is being stored.
    storing_since: Option<Instant>,
}

impl Core {
    /// Takes over the objects: checks begin and the workers get their forwarding state. Called within
    /// a `tokio` runtime.
    pub fn start(mut parts: CoreParts) -> Rc<Core> {
        let events = Teller::new(EVENT_QUEUE, Arc::clone(&parts.life.told));
        let mut slots = Slots::default();
        if let Some(before) = resume::lock(&parts.keeper).last() {
            slots = Slots::resumed(before);
            parts.compiler.resume(&before.gateways);
            parts.health.resume(before.health());
        }
        let failovers = Failovers::new(&lock(&parts.store));
        let core = Rc::new_cyclic(|me| Core {
            inner: Whole::new(Inner {
                state: parts.state,
                store: parts.store,
                compiler: parts.compiler,
                slots,
                health: parts.health,
                drains: parts.drains,
                workers: parts.workers,
                network: Network::new(parts.network),
                resets: Resets::default(),
                accounts: Accounts::default(),
                inband: InBand::default(),
                failovers,
                capture_names: Rc::default(),
                capture_slots: Rc::new(()),
                hand_on: HandOn::new(parts.keeper),
                flow_logs: parts.flow_logs,
                restarted: Restarted::new(parts.restart, parts.life.number == 0, parts.life.since.0),
                scan: None,
                enquiries: Enquiries::of_life(parts.life.number),
                scans: parts.life.number << 16,
                ahead: Duration::ZERO,
                stored: Histogram::new(DISK_BOUNDS),
                not_stored: 0,
                storing_since: None,
            }),
            health_events: RefCell::new(parts.health_events),
            events,
            life: parts.life,
            ends: Cell::new(None),
            port_links: RefCell::default(),
            ports: parts.ports,
            buffers: parts.buffers,
            log: parts.log,
            not_ready_file: parts.not_ready_file,
            watch: RefCell::default(),
            watched: Cell::new(None),
            scanning: tokio::sync::Mutex::new(()),
            opening_flow_log: Arc::default(),
            reading: Arc::default(),
            changing: Arc::default(),
            ending_drains: Rc::new(()),
            me: Weak::clone(me),
        });
        {
            let mut inner = core.inner.borrow_mut();
            if core.life.number > 0 {
                // The one before may have had them tell.
                inner.workers.tell_begun(false);
            }
            inner.take_over();
        }
        core.start_configured_flow_log();
        core
    }

    /// Runs until the future is dropped, or the daemon has to end: why, as a sentence.
    pub async fn run(&self, mut kernel: mpsc::UnboundedReceiver<News>) -> String {
        let mut poll = interval(POLL);
        let mut sweep = interval(SWEEP);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let service = self.watch_service();
        tokio::pin!(service);
        loop {
            tokio::select! {
                biased;
                Some(event) = self.next_health_event() => self.health_changed(event),
                Some(news) = kernel.recv() => self.inner.borrow_mut().hear_kernel(news),
                _ = poll.tick() => {
                    self.inner.borrow().health.beat();
                    self.hear_workers();
                    if let Some(fault) = self.look_after_workers(Instant::now()) {
                        return fault;
                    }
                    self.follow_failovers();
                    self.watch_inband(Instant::now());
                    drop(self.end_drains());
                    let mut inner = self.inner.borrow_mut();
                    inner.follow_network();
                    inner.hand_on_health();
                }
                _ = sweep.tick() => {
                    self.sweep();
                    self.watch_troubles();
                }
                () = &mut service => {}
            }
        }
    }

    /// Whether nothing in it may be half changed, as a panic came in the midst.
    pub fn is_whole(&self) -> bool {
        self.inner.is_whole()
    }

    async fn next_health_event(&self) -> Option<HealthEvent> {
        poll_fn(|context| self.health_events.borrow_mut().poll_recv(context)).await
    }

    /// Takes what the checks have said and nobody has been told yet, though it can be seen.
    fn hear_health(&self) {
        loop {
            let event = self.health_events.borrow_mut().try_recv();
            let Ok(event) = event else { return };
            self.health_changed(event);
        }
    }

    /// A target's health changed: every worker is told at once (H-7), then the subscribers.
    fn health_changed(&self, event: HealthEvent) {
        let mut inner = self.inner.borrow_mut();
        let counts = inner.counts(&event.key);
        inner.accounts.health_changed(&event.key.group, event.to);
        let sequence = inner.tell_condition(&event.key);
        inner.record_health(&event, counts, sequence);
        inner.hand_on.health_changed();
        let (reason, description) =
            event.reason.map_or((None, String::new()), |reason| (Some(reason.code), reason.description));
        tracing::info!(
            name: "target_health_changed", load_balancer = inner.balancer_of(&event.key.group),
            target_group = %event.key.group, target = %event.key.address, from = event.from.as_str(),
            to = event.to.as_str(), reason = reason.map(|reason| reason.as_str()), description,
            flows = inner.flows_of(&event.key), failover = inner.open_failover(&event.key), generation = inner.state.generation(),
            "a target's health changed"
        );
        self.tell(Event {
            at: event.at.wall.into(),
            what: What::TargetHealthChanged {
                target_group: event.key.group.to_string(),
                target: event.key.address,
                from: event.from,
                to: event.to,
                reason,
                description,
            },
        });
    }

    /// Takes what the workers sent.
    fn hear_workers(&self) {
        let mut inner = self.inner.borrow_mut();
        let Inner { workers, network, resets, failovers, scan, enquiries, flow_logs, .. } = &mut *inner;
        workers.poll(|message| match message {
            FromWorker::Reset(record) => {
                failovers.hear_reset(&record);
                resets.note(record);
            }
            FromWorker::Begun(record) => failovers.hear_begun(record),
            FromWorker::ConditionApplied { worker, sequence, at_cycles } => {
                failovers.hear_applied(sequence, worker.0, at_cycles);
            }
            FromWorker::Flow(record) => {
                if let Some(scan) = scan {
                    scan.found(record);
                }
            }
            FromWorker::ScanDone { scan: number, matching, .. } => {
                if let Some(scan) = scan {
                    scan.worker_done(number, matching);
                }
            }
            FromWorker::Enquiry(form) => enquiries.came_back(*form),
            FromWorker::FlowLogOver(log) => flow_logs.given_back(log),
            FromWorker::Resolve { interface, address } => network.worker_asks(interface, address),
            // `Workers::poll` keeps these to itself.
            FromWorker::Retired { .. } | FromWorker::CaptureOver(_) => {}
        });
        if let Some(news) = inner.news_of_restart() {
            self.tell(Event::now(news));
        }
        inner.tend_flow_log();
        for event in inner.sampled_resets() {
            self.tell(event);
        }
    }

    /// Sums up resets, and gives back the slots of targets that are gone and have no flow left, live or remembered.
    fn sweep(&self) {
        self.log.tend(Instant::now());
        self.tell_lost_records();
        self.look_after_ports(Instant::now());
        let mut inner = self.inner.borrow_mut();
        let now = Instant::now();
        inner.hand_on_time();
        inner.sweep_inband(now);
        inner.note_peaks(now);
        inner.sweep_failovers();
        for what in inner.summed_resets() {
            if let What::FlowsReset { load_balancer, target_group, target, trigger, count } = &what {
                // A flow that had idled out is reset for its own sake.
                let failover = target
                    .filter(|_| *trigger != ResetTrigger::IdleTimeout)
                    .and_then(|target| inner.open_failover(&TargetKey::new(target_group.as_str(), target)));
                tracing::info!(
                    name: "flows_reset", load_balancer, target_group,
                    target = target.map(|target| target.to_string()), trigger = trigger.as_str(), count,
                    failover, generation = inner.state.generation(), "resets were sent"
                );
            }
            self.tell(Event::now(what));
        }
        if inner.release_slots() {
            inner.publish();
        }
    }

    /// Tells the subscribers.
    fn tell(&self, event: Event) {
        self.events.tell(event);
    }
}

impl Inner {
    /// The time by which drains run: the system's, and what it was set forward by.
    fn now(&self) -> Moment {
        let Moment { wall, monotonic } = Moment::now();
        Moment { wall: wall + self.ahead, monotonic: monotonic + self.ahead }
    }

    /// The same by the wall's clock.
    fn unix_ms(&self) -> u64 {
        u64::try_from(Timestamp::from(self.now().wall).unix_ms()).unwrap_or(0)
    }

    /// Makes everything follow `state`.
    fn take_over(&mut self) {
        self.follow_drains();
        self.follow_health();
        self.publish();
    }

    fn follow_drains(&mut self) {
        let now = self.now();
        self.drains.follow(self.state.drains(), now);
    }

    fn follow_health(&mut self) {
        let specs = self.compiler.node().scope.checks(&self.state);
        self.health.update(specs);
    }

    /// Compiles the forwarding state and gives it to the workers.
    fn publish(&mut self) {
        self.network.name(self.compiler.next_hops(&self.state, &self.slots));
        self.carry_out();
        let (health, network) = (&self.health, &self.network);
        let verdict = |key: &TargetKey| health.verdict(key).unwrap_or(Verdict::Initial);
        let mac = |hop: &Hop| network.mac(hop);
        let forwarding = self.compiler.compile(&self.state, &mut self.slots, verdict, mac);
        // Before an entry has a number that nobody would know after a crash.
        self.hand_on();
        self.workers.publish(forwarding);
        self.follow_accounts();
        if Rc::strong_count(&self.capture_slots) > 1 {
            self.follow_names();
        }
        self.name_flow_log();
        self.follow_inband();
        self.network.published();
    }

    /// Tells the workers a target's condition; the number of the message.
    fn tell_condition(&mut self, key: &TargetKey) -> Option<u64> {
        let slot = self.slots.get(key)?;
        let group = self.state.target_group(&key.group).ok();
        let target = group.and_then(|group| group.targets.get(&key.address));
        let condition = condition(target, || self.health.verdict(key).unwrap_or(Verdict::Initial));
        Some(self.workers.set_condition(slot, condition))
    }

    /// Gives back the slots of targets that are no longer of their group and have no flow (T-4). True if
    /// there were any.
    fn release_slots(&mut self) -> bool {
        // Targets of a state that is about to come are in none yet.
        if self.compiler.is_ahead() {
            return false;
        }
        // A worker that does not go by this state yet may still begin a flow with a target that is gone.
        let generation = self.state.generation();
        if self.workers.links().iter().any(|link| link.counters.configuration.get() != generation) {
            return false;
        }
        let known: HashSet<TargetKey> = self
            .state
            .target_groups()
            .flat_map(|group| {
                group.targets.keys().map(|address| TargetKey::new(group.name.as_str(), *address))
            })
            .collect();
        let gone: Vec<TargetKey> = self
            .slots
            .iter()
            .filter(|(key, slot)| {
                // Resets that are still owed are counted by target as well.
                let owing = || self.workers.sum(|counters| &counters.target(slot.id).owing_flows);
                !known.contains(key) && self.workers.flows_of(slot.id) == 0 && owing() == 0
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            self.record_gone(key);
            if let Some(slot) = self.slots.get(key) {
                self.close_account(slot);
            }
            self.slots.release(key);
        }
        !gone.is_empty()
    }

    /// Live flows of a target.
    fn flows_of(&self, key: &TargetKey) -> u64 {
        self.slots.get(key).map_or(0, |slot| self.workers.flows_of(slot.id))
    }

    /// The name of the load balancer that a target group serves; empty if it serves none.
    fn balancer_of(&self, group: &str) -> String {
        let group = self.state.target_group(group).ok();
        let balancer = group.and_then(|group| self.state.load_balancer_using(&group.name));
        balancer.map(|balancer| balancer.name.to_string()).unwrap_or_default()
    }
}
