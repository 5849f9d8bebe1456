//! Starting and stopping.
//!
//! What can be refused is refused in the order of how much it would leave behind: the configuration, the
//! lock of the state directory, the socket, the kernel's UDP port, DPDK, memory. Then what only the start needed is
//! given up (`privileges`), and only then are the objects stored.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flowgate::control::compile::Compiler;
use flowgate::control::core::{Drains, FlowLogParts, FlowLogs};
use flowgate::control::elbv2;
use flowgate::control::events::Timestamp;
use flowgate::control::flow_log;
use flowgate::control::host::HostMover;
use flowgate::control::kept::Home;
use flowgate::control::logging::LogControl;
use flowgate::control::model::{ChangeRecord, State};
use flowgate::control::monitor;
use flowgate::control::neighbours::Neighbours;
use flowgate::control::node::{NodeConfig, Socket};
use flowgate::control::resume::{self, SharedKeeper};
use flowgate::control::socket::ControlListener;
use flowgate::control::store::Store;
use flowgate::control::tables::{NodeTables, OfWorker};
use flowgate::control::workers::{FROM_WORKER_RING, TO_WORKER_RING, WorkerLink, Workers};
use flowgate::datapath::counters::WorkerCounters;
use flowgate::datapath::host::HostPort;
use flowgate::datapath::outbound::Handoff;
use flowgate::datapath::worker::{Idle, Resumed, Worker, WorkerParts};
use flowgate::flow::HashSeed;
use flowgate::id::WorkerId;
use flowgate::io::affinity;
use flowgate::io::clock::Clock;
use flowgate::io::confine::{self, ThreadKind};
use flowgate::io::dpdk::{Mbuf, Queue, WorkerThread};
use flowgate::io::owner::Owner;
use flowgate::io::tap::Tap;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Refusal;
use super::control::{Control, Signals};
use super::devices::{self, Devices};
use super::facts::{node_facts, static_neighbours};
use super::grace_periods::GracePeriods;
use super::guard::{Guard, survey};
use super::host::Host;
use super::notify::Notify;
use super::peers::PeersWait;
use super::privileges::{self, Privileges};
use super::reload::Reload;
use super::service::Told;
use super::stops::Stops;
use super::tables;

/// How long a change that is being stored may keep the daemon from its end.
const LAST_SAVE: Duration = Duration::from_secs(2);

/// And flow records that are being written, after that.
const LAST_RECORDS: Duration = Duration::from_millis(500);

/// Runs the daemon until it is told to stop.
pub fn run(config: &NodeConfig, debug_clock: bool, log: &LogControl, reload: Reload) -> Result<(), Refusal> {
    let privileges = Privileges::begin(config)?;
    for privileges::Finding { text, .. } in
        privileges::survey(config)?.into_iter().filter(|found| found.is_fault)
    {
        tracing::warn!(name: "privileges_kept", "{text}");
    }
    let notify = Notify::from_environment()?;
    let mut store = Store::open(&config.state_directory)?;
    let (state, is_seed) = store.load(config.objects.as_deref())?;
    config.agrees_with(&state)?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(|| {
            if let Err(error) = confine::enter(ThreadKind::Files) {
                tracing::error!(name: "thread_not_confined", %error, "a thread keeps rights that it does not need");
            }
        })
        .build()?;
    // From here on a signal ends the run in order: what was changed in the kernel is put back.
    let (stops, hangups) = Stops::new(&runtime)?;
    let Socket { path, group, mode } = &config.socket;
    let listener = ControlListener::bind_for(path, group.as_deref(), mode.bits(), privileges.owner())?;
    let endpoint = config.elbv2.as_ref().map(elbv2::Endpoint::bind).transpose()?;
    let monitor = monitor::Endpoint::bind(&config.monitor)?;
    let (kernel_links, findings) = survey(config)?;
    for text in findings {
        if text.is_fault {
            tracing::warn!(name: "kernel_fault", "{text}");
        } else {
            tracing::info!(name: "kernel_note", "{text}");
        }
    }
    let _guard = Guard::new(config, &kernel_links)?;

    if config.is_idle() {
        tracing::warn!(name: "idle", "the configuration has no ports: nothing is forwarded and no port is touched; `flowgate` says what to do next");
    }
    // Dropped after the devices.
    let owner = privileges.owner().unwrap_or_else(Owner::present);
    let mut grace_periods = GracePeriods::new(config, owner);
    let start = || {
        if config.is_idle() {
            return Ok(Devices::none());
        }
        // And not while memory for the tables is cleared.
        grace_periods.during(|| Devices::start(config))
    };
    let (devices, mut tables) = tables::open_beside(config, owner, start)?;
    let devices = Rc::new(devices);
    let Host { interfaces, mover, ports: host_ports, watched } = Host::start(config, &devices)?;
    let clock = tables.clock.clone();
    let seed = HashSeed::from_secret(&store.hash_seed(config)?.0);
    let facts = node_facts(config, &devices, interfaces);
    let (links, workers) = build_workers(config, &devices, &seed, &mut tables, host_ports)?;
    privileges.give_up(config, reload.path(), &devices)?;
    // An idle node is not set up yet: a document that it is given with its ports is still to seed it.
    if is_seed && !(config.is_idle() && config.objects.is_none()) {
        // What is stored already need not be again: a full disk keeps nobody from a restart.
        let now = u64::try_from(Timestamp::now().unix_ms()).unwrap_or(0);
        store.save(&state, Some(ChangeRecord::new(&State::default(), &state, now, Some("the seed"))))?;
    }

    let stop = Arc::new(AtomicBool::new(false));
    // Dropped after the workers, and before the devices. Not made sooner: who goes no round yet would be waited for in vain.
    let counters = links.iter().map(|link| Arc::clone(&link.counters)).collect();
    let peers_wait = PeersWait::for_workers(&devices, counters)?;
    let mut threads = Threads::start(config, &devices, &clock, workers, &stop)?;
    affinity::confine_to(&devices::control_cores(config)?)?;
    log.start_thread()?;
    let flow_logs = flow_log::Threads::default();
    let flow_log = FlowLogParts {
        folder: config.flow_log.folder(&config.state_directory),
        seed: seed.clone(),
        threads: flow_logs.clone(),
        from_start: config.flow_log.options(&config.state_directory),
    };
    if let Some(mover) = mover {
        threads.start_host(&devices, mover)?;
    }
    let control = Control {
        config,
        debug_clock,
        log,
        devices: Rc::clone(&devices),
        listener: Rc::new(listener),
        elbv2: endpoint,
        monitor,
        watched,
        store: Arc::new(Mutex::new(store)),
        keeper: SharedKeeper::clone(&tables.keeper),
        restart: tables.restart.clone(),
        compiler: Home::new(Compiler::new(facts, seed)),
        workers: Home::new(Workers::new(links, clock)),
        neighbours: Home::new(Neighbours::new(static_neighbours(config))),
        flow_logs: Home::new(FlowLogs::new(flow_log)),
        drains: Home::new(Drains::default()),
        told: Told { notify: &notify, reload },
    };
    let ran = control.run(&runtime, state, &mut Signals { stops, hangups });
    drop(threads);
    drop(peers_wait);
    if ran.is_ok() {
        // Whatever is in the tables, it has brought nobody down. If it cannot be written a crash is believed to have been.
        resume::lock(&tables.keeper).note_settled().ok();
    }
    // A disk that hangs keeps nobody from putting back what was changed in the kernel. A change that nobody was answered
    // yet is stored as a whole or not at all, whenever the process ends.
    let began = Instant::now();
    runtime.shutdown_timeout(LAST_SAVE);
    let unwritten = flow_logs.join(began + LAST_SAVE + LAST_RECORDS);
    if unwritten > 0 {
        tracing::warn!(name: "flow_log_given_up", "the last flow records are not written: the disk does not take them in time");
    }
    // The ports are closed as this function ends.
    grace_periods.expedite();
    ran
}

/// Takes as many file descriptors as the system allows: each health check under way and each connection
/// to the socket has one.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, allowed)| setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed));
    if let Err(error) = raised {
        tracing::warn!(name: "descriptor_limit", %error, "the limit of file descriptors could not be raised");
    }
}

/// The workers, not yet running, and the control core's ends of their rings.
fn build_workers(
    config: &NodeConfig,
    devices: &Devices,
    seed: &HashSeed,
    tables: &mut NodeTables,
    hosts: Vec<HostPort<Mbuf>>,
) -> Result<(Vec<WorkerLink>, Vec<Worker<Queue>>), Refusal> {
    let count = u8::try_from(config.workers.cores.len())?;
    // Nobody needs to know how a table hashes headers and neighbours.
    let link_seed = HashSeed::from_os()?;
    let (mut links, mut workers, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let own = std::mem::take(&mut tables.workers);
    let ends = (0..count).map(WorkerId).zip(Handoff::mesh(count)).zip(hosts).zip(&config.workers.cores);
    for ((((id, handoff), host), core), own) in ends.zip(own) {
        let OfWorker { table, links: kept_links } = own;
        let (to_worker, inbox) = rtrb::RingBuffer::new(TO_WORKER_RING);
        let (events, from_worker) = rtrb::RingBuffer::new(FROM_WORKER_RING);
        let counters = Arc::new(WorkerCounters::default());
        let (capacity, table_pages) = (table.capacity(), table.pages());
        let packet_pages = devices.page_size(u16::from(id.0));
        tracing::info!(
            name: "worker_memory",
            worker = id.0,
            core,
            flows = capacity,
            table_mib = table.bytes() >> 20,
            packets_in = page_name(packet_pages),
            flow_table_in = %table_pages,
            "a worker has its memory"
        );
        let mut link = WorkerLink::new(id, *core, capacity, Arc::clone(&counters), to_worker, from_worker);
        (link.packet_pages, link.table_pages) = (packet_pages, table_pages);
        links.push(link);
        let worker = Worker::new(WorkerParts {
            id,
            workers: count,
            ports: devices.queues(u16::from(id.0))?,
            table,
            choice_seed: seed.clone(),
            link_seed: link_seed.clone(),
            handoff,
            host,
            inbox,
            events,
            counters,
        });
        kept.push(kept_links);
        workers.push(worker);
    }
    // Side by side, as flows wait for it.
    let (tables, link_seed) = (&*tables, &link_seed);
    std::thread::scope(|scope| {
        for (worker, links) in workers.iter_mut().zip(kept) {
            // In memory of its own a table is empty, and knows nothing but that there was one before it.
            if links.is_none() && tables.restart.adopt_until.is_none() {
                continue;
            }
            scope.spawn(move || {
                worker.resume(Resumed {
                    links,
                    is_same_port: &|port| tables.is_same_port(port),
                    link_seed: link_seed.clone(),
                    unhealthy: &tables.unhealthy,
                    adopt_until: tables.restart.adopt_until,
                });
            });
        }
    });
    Ok((links, workers))
}

/// What packets lie in, for people.
fn page_name(bytes: u64) -> String {
    match bytes {
        0..=65_536 => "ordinary pages".to_owned(),
        bytes if bytes < 1 << 30 => format!("hugepages of {} MiB", bytes >> 20),
        bytes => format!("hugepages of {} GiB", bytes >> 30),
    }
}

/// The workers' threads.
struct Threads {
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts each worker on its core.
    fn start(
        config: &NodeConfig,
        devices: &Devices,
        clock: &Clock,
        workers: Vec<Worker<Queue>>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Threads, Refusal> {
        let idle = config.workers.idle_sleep().map_or(Idle::Poll, Idle::Sleep);
        let mut threads = Threads { stop: Arc::clone(stop), handles: Vec::new() };
        let (ready, started) = std::sync::mpsc::channel::<(usize, Result<std::io::Result<()>, String>)>();
        for (number, (mut worker, core)) in workers.into_iter().zip(&config.workers.cores).enumerate() {
            let (eal, clock, stop) = (devices.eal()?, clock.clone(), Arc::clone(stop));
            let (ready, core, counters) = (ready.clone(), *core, worker.counters());
            let run = move || {
                let on_time = if idle == Idle::Poll { Ok(()) } else { affinity::wake_on_time() };
                let begun = affinity::pin_to(core)
                    .map_err(|error| error.to_string())
                    .and_then(|()| WorkerThread::register(&eal).map_err(|error| error.to_string()))
                    .and_then(|registered| {
                        confine::enter(ThreadKind::Worker)
                            .map(|()| registered)
                            .map_err(|error| format!("worker {number}: {error}"))
                    });
                let registered = match begun {
                    Ok(registered) => registered,
                    Err(error) => {
                        // Whoever waits for it gives the reason.
                        ready.send((number, Err(error))).ok();
                        return;
                    }
                };
                ready.send((number, Ok(on_time))).ok();
                // It has called into C, but nothing in C calls it: nobody's frames are unwound but ours. The packets in its
                // hands go back to their pool on the way.
                if catch_unwind(AssertUnwindSafe(|| worker.run(&clock, idle, &stop))).is_err() {
                    counters.panicked.set(1);
                }
                drop(worker);
                drop(registered);
            };
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            threads.handles.push(thread.spawn(run)?);
        }
        drop(ready);
        for _ in 0..threads.handles.len() {
            match started.recv() {
                Ok((_, Err(error))) => return Err(error.into()),
                // A worker itself says nothing.
                Ok((worker, Ok(Err(error)))) => {
                    tracing::warn!(name: "worker_wakes_late", worker, %error, "a worker at rest may wake some 50 µs late");
                }
                Ok((_, Ok(Ok(())))) | Err(_) => {}
            }
        }
        Ok(threads)
    }

    /// Starts the mover of the host's frames, on the cores of the calling thread.
    fn start_host(&mut self, devices: &Devices, mut mover: HostMover<Mbuf, Tap>) -> Result<(), Refusal> {
        let (eal, stop) = (devices.eal()?, Arc::clone(&self.stop));
        let run = move || {
            // Packets are made and freed by it, which DPDK does faster for threads that it knows.
            let registered = WorkerThread::register(&eal);
            if let Err(error) = &registered {
                tracing::warn!(name: "host_thread_unknown", %error, "the host's thread is not known to DPDK");
            }
            if let Err(error) = confine::enter(ThreadKind::Host) {
                tracing::error!(name: "host_thread_ends", %error, "the host's thread cannot give up its rights, and ends");
                return;
            }
            mover.run(&stop);
            drop(mover);
            drop(registered);
        };
        self.handles.push(std::thread::Builder::new().name("host".to_owned()).spawn(run)?);
        Ok(())
    }
}

impl Drop for Threads {
    /// Stops the workers and waits for them.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                tracing::error!(name: "thread_panicked", "a thread ended by a panic");
            }
        }
    }
}
