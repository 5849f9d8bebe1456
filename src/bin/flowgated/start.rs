//! Starting and stopping.
//!
//! What can be refused is refused in the order of how much it would leave behind: the configuration, the
//! lock of the state directory, the socket, the kernel's UDP port, DPDK, memory. Only then is anything
//! stored.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use flowgate::control::compile::{Compiler, EndpointFacts, NodeFacts};
use flowgate::control::core::{Core, CoreParts};
use flowgate::control::health::check::SocketChecker;
use flowgate::control::health::{HealthEngine, NodeScope};

use flowgate::control::node::{HugePages, NodeConfig};
use flowgate::control::socket::{ControlListener, Limits, methods, serve};
use flowgate::control::store::Store;
use flowgate::control::workers::{FROM_WORKER_RING, TO_WORKER_RING, WorkerLink, Workers};
use flowgate::datapath::counters::WorkerCounters;
use flowgate::datapath::forwarding::{EndpointKind, PortRole, Underlay};
use flowgate::datapath::host::HostPort;
use flowgate::datapath::interfaces::{Interface, VlanTags};
use flowgate::datapath::outbound::Handoff;
use flowgate::datapath::steering::Steering;
use flowgate::datapath::worker::{Idle, Worker, WorkerParts};
use flowgate::flow::{HashSeed, PageKind, Pages, Table, TableConfig};
use flowgate::id::{EndpointId, InterfaceId, PortId, WorkerId};
use flowgate::io::affinity;
use flowgate::io::clock::Clock;
use flowgate::io::dpdk::{Port, Queue, WorkerThread};
use flowgate::wire::ethernet::MacAddr;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::Refusal;
use super::devices::{self, Devices};
use super::guard::Guard;

/// Runs the daemon until it is told to stop.
pub fn run(config: &NodeConfig, debug_clock: bool) -> Result<(), Refusal> {
    let store = Store::open(&config.state_directory)?;
    let state = store.load(config.objects.as_deref())?;
    config.agrees_with(&state)?;
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = ControlListener::bind(&config.socket.path, config.socket.group.as_deref())?;
    let _guard = Guard::new(config.underlay.address.address)?;

    let devices = Rc::new(Devices::start(config)?);
    let clock = Clock::start();
    let seed = HashSeed::from_secret(&store.hash_seed(config)?.0);
    let facts = node_facts(config, &devices);
    let (links, workers) = build_workers(config, &devices, &seed)?;
    store.save(&state)?;

    let stop = Arc::new(AtomicBool::new(false));
    let threads = Threads::start(config, &devices, &clock, workers, &stop)?;
    affinity::confine_to(&devices::control_cores(config)?)?;
    let ran = runtime.block_on(tokio::task::LocalSet::new().run_until(async {
        let (health, health_events) = HealthEngine::new(SocketChecker::default());
        let views = Rc::clone(&devices);
        let core = Core::start(CoreParts {
            state,
            store,
            compiler: Compiler::new(facts, seed),
            health,
            workers: Workers::new(links, clock),
            ports: Box::new(move || views.views()),
        });
        let methods = Rc::new(if debug_clock { methods::debug_dispatcher() } else { methods::dispatcher() });
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tracing::info!(socket = %config.socket.path.display(), "flowgated is ready");
        tokio::select! {
            served = serve(listener, Rc::clone(&core) as _, methods, Limits::default()) => served?,
            () = core.run(health_events) => {}
            _ = terminate.recv() => tracing::info!("stopping: SIGTERM"),
            _ = interrupt.recv() => tracing::info!("stopping: SIGINT"),
        }
        Ok(())
    }));
    threads.join();
    ran
}

/// Takes as many file descriptors as the system allows: each health check under way and each connection
/// to the socket has one.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, allowed)| setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of file descriptors could not be raised");
    }
}

/// What the compiler must know of the node.
fn node_facts(config: &NodeConfig, devices: &Devices) -> NodeFacts {
    let place = |name: &flowgate::control::model::Name| {
        let place = config.ports.iter().position(|port| port.name == *name);
        place.and_then(|place| u16::try_from(place).ok()).map(PortId)
    };
    let mut roles = vec![PortRole::Unused; config.ports.len()];
    for (endpoint, id) in config.endpoints.iter().zip((0..).map(EndpointId)) {
        if let [a, b] = endpoint.ports.as_slice()
            && let (Some(a), Some(b)) = (place(a), place(b))
        {
            roles[a.index()] = PortRole::Wire { endpoint: id, peer: b };
            roles[b.index()] = PortRole::Wire { endpoint: id, peer: a };
        }
    }
    let underlay_port = place(&config.underlay.port).unwrap_or_default();
    roles[underlay_port.index()] = PortRole::Underlay;
    let port = &devices.ports[underlay_port.index()];
    let of_underlay = config.neighbours.iter().filter(|neighbour| neighbour.interface.is_none());
    let neighbours: HashMap<Ipv4Addr, MacAddr> = of_underlay
        .filter_map(|neighbour| match neighbour.address {
            IpAddr::V4(address) => Some((address, MacAddr(neighbour.mac.0))),
            IpAddr::V6(_) => None,
        })
        .collect();
    NodeFacts {
        scope: NodeScope {
            zone: config.zone.clone(),
            own_addresses: [config.underlay.address.address].into(),
        },
        ports: roles,
        endpoints: config
            .endpoints
            .iter()
            .map(|endpoint| EndpointFacts {
                name: endpoint.name.clone(),
                id: endpoint.id.0,
                attachment_id: endpoint.attachment_id.0,
                load_balancer: endpoint.load_balancer.clone(),
                port_names: endpoint.ports.clone(),
                kind: EndpointKind::Wire,
            })
            .collect(),
        underlay: Underlay {
            port: underlay_port,
            address: config.underlay.address.address.to_bits(),
            mtu: port.mtu(),
            udp_checksum: config.underlay.udp_checksum,
            interface: InterfaceId(0),
            steering: steering(config, port).map(Arc::new),
        },
        interfaces: vec![Interface {
            port: underlay_port,
            tags: VlanTags::UNTAGGED,
            mac: MacAddr(port.mac()),
            mtu: port.mtu(),
            endpoint: None,
            host_shares: devices::host_shares(port.driver()),
            locals: [IpAddr::V4(config.underlay.address.address)].into_iter().collect(),
        }],
        underlay_mac: MacAddr(port.mac()),
        routes: config.underlay.clone(),
        neighbours,
    }
}

/// Which source ports bring answers to which worker, where the target side's port spreads packets in a way
/// that can be foretold (W-3).
fn steering(config: &NodeConfig, port: &Port) -> Option<Steering> {
    let workers = u8::try_from(config.workers.cores.len()).ok()?;
    let foretold = port.rss().filter(|rss| rss.ports && !rss.key.is_empty());
    let steering = foretold.and_then(|rss| Steering::new(&rss.table, workers));
    if workers > 1 {
        tracing::info!(steered = steering.is_some(), "answers arrive at the worker that owns their flow");
    }
    steering
}

/// The workers, not yet running, and the control core's ends of their rings.
fn build_workers(
    config: &NodeConfig,
    devices: &Devices,
    seed: &HashSeed,
) -> Result<(Vec<WorkerLink>, Vec<Worker<Queue>>), Refusal> {
    let count = u8::try_from(config.workers.cores.len())?;
    let pages = if config.eal.hugepages == HugePages::Never { Pages::Small } else { Pages::Huge };
    // The tables' own hash need not be the same on other nodes, nor known to anybody.
    let (table_seed, link_seed) = (HashSeed::from_os()?, HashSeed::from_os()?);
    let (mut links, mut workers) = (Vec::new(), Vec::new());
    let ends = (0..count).map(WorkerId).zip(Handoff::mesh(count)).zip(&config.workers.cores);
    for ((id, handoff), core) in ends {
        let table = Table::new(TableConfig {
            capacity: config.workers.flow_capacity(),
            worker: id,
            workers: count,
            pages,
            seed: table_seed.clone(),
        })?;
        let (to_worker, inbox) = rtrb::RingBuffer::new(TO_WORKER_RING);
        let (events, from_worker) = rtrb::RingBuffer::new(FROM_WORKER_RING);
        let counters = Arc::new(WorkerCounters::default());
        let capacity = table.capacity();
        tracing::info!(
            worker = id.0,
            core,
            flows = capacity,
            memory = pages_name(table.pages()),
            "flow table"
        );
        links.push(WorkerLink::new(id, *core, capacity, Arc::clone(&counters), to_worker, from_worker));
        workers.push(Worker::new(WorkerParts {
            id,
            workers: count,
            ports: devices.queues(u16::from(id.0))?,
            table,
            choice_seed: seed.clone(),
            link_seed: link_seed.clone(),
            handoff,
            host: HostPort::none(),
            inbox,
            events,
            counters,
        }));
    }
    Ok((links, workers))
}

/// What a table lies in, for people.
fn pages_name(pages: PageKind) -> &'static str {
    match pages {
        PageKind::Reserved1G => "hugepages of 1 GiB",
        PageKind::Reserved2M => "hugepages of 2 MiB",
        PageKind::Transparent => "transparent hugepages",
        PageKind::Small => "ordinary pages",
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
        let (ready, started) = std::sync::mpsc::channel::<Result<(), String>>();
        for (number, (mut worker, core)) in workers.into_iter().zip(&config.workers.cores).enumerate() {
            let (eal, clock, stop) = (devices.eal.clone(), clock.clone(), Arc::clone(stop));
            let (ready, core) = (ready.clone(), *core);
            let run = move || {
                let begun = affinity::pin_to(core)
                    .map_err(|error| error.to_string())
                    .and_then(|()| WorkerThread::register(&eal).map_err(|error| error.to_string()));
                let registered = match begun {
                    Ok(registered) => registered,
                    Err(error) => {
                        // Whoever waits for it gives the reason.
                        ready.send(Err(error)).ok();
                        return;
                    }
                };
                ready.send(Ok(())).ok();
                worker.run(&clock, idle, &stop);
                drop(worker);
                drop(registered);
            };
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            threads.handles.push(thread.spawn(run)?);
        }
        drop(ready);
        for _ in 0..threads.handles.len() {
            if let Ok(Err(error)) = started.recv() {
                threads.join();
                return Err(error.into());
            }
        }
        Ok(threads)
    }

    /// Stops the workers and waits for them.
    fn join(self) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in self.handles {
            if handle.join().is_err() {
                tracing::error!("a worker ended by a panic");
            }
        }
    }
}
