//! A gateway of one worker within this process, with a forwarding state that a daemon would have compiled:
//! a quick look at what the data path does, without its control side.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use flowgate::balance::Builder;
use flowgate::datapath::counters::WorkerCounters;
use flowgate::datapath::forwarding::{
    Condition, Endpoint, EndpointKind, Forwarding, Gateway, Policy, PortRole, Target, Underlay, UnknownFlow,
};
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::worker::{Idle, Worker, WorkerParts};
use flowgate::flow::{HashSeed, Pages, Table, TableConfig, Timers};
use flowgate::id::{EndpointId, GatewayId, PortId, TargetId, WorkerId};
use flowgate::io::affinity;
use flowgate::io::clock::Clock;
use flowgate::io::dpdk::{Eal, Queue, WorkerThread};
use flowgate::wire::ethernet::MacAddr;
use flowgate::wire::geneve::outer::OuterTemplate;

use super::devices::Refusal;
use super::neighbour::mac_of;

const TUNNEL: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const TUNNEL_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x60]);

/// The daemon's defaults (A-7, A-10, F-9).
const TIMERS: Timers =
    Timers { tcp_idle_ms: 350_000, other_idle_ms: 120_000, closed_ms: 10_000, half_open_ms: 60_000 };

/// What the gateway is to be.
pub struct OwnGateway<'a> {
    pub eal: &'a Eal,
    pub clock: &'a Clock,
    /// The clients' end, the servers' end, the target side.
    pub ports: Vec<Queue>,
    pub targets: &'a [Ipv4Addr],
    /// Flows that its table has room for.
    pub flows: u32,
    pub core: Option<u16>,
    pub pages: Pages,
    /// How long it sleeps without packets; `None`: it polls.
    pub sleep: Option<Duration>,
}

/// A gateway that runs.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    control: rtrb::Producer<ToWorker>,
    events: rtrb::Consumer<FromWorker>,
    counters: Arc<WorkerCounters>,
    sequence: u64,
    nanoseconds_per_cycle: f64,
}

impl OwnGateway<'_> {
    /// Starts it on its core.
    pub fn start(self) -> Result<Running, Refusal> {
        let seed = HashSeed::from_os()?;
        let (mut control, inbox) = rtrb::RingBuffer::new(64);
        let (told, events) = rtrb::RingBuffer::new(4096);
        control
            .push(ToWorker::Forwarding(Arc::new(forwarding(&seed, self.targets))))
            .map_err(|error| error.to_string())?;
        let counters = Arc::new(WorkerCounters::default());
        let config = TableConfig {
            capacity: self.flows,
            worker: WorkerId(0),
            workers: 1,
            pages: self.pages,
            seed: HashSeed::from_os()?,
        };
        let mut worker = Worker::new(WorkerParts {
            counters: Arc::clone(&counters),
            ..WorkerParts::alone(self.ports, Table::new(config)?, seed, (inbox, told))
        });
        let stop = Arc::new(AtomicBool::new(false));
        let idle = self.sleep.map_or(Idle::Poll, Idle::Sleep);
        let (eal, clock, told_to_stop, core) =
            (self.eal.clone(), self.clock.clone(), Arc::clone(&stop), self.core);
        let (ready, begun) = std::sync::mpsc::channel::<Result<(), String>>();
        let thread = std::thread::Builder::new().name("gateway".to_owned()).spawn(move || {
            let registered = core
                .map_or(Ok(()), |core| affinity::pin_to(core).map_err(|error| error.to_string()))
                .and_then(|()| WorkerThread::register(&eal).map_err(|error| error.to_string()));
            match registered {
                Ok(registered) => {
                    ready.send(Ok(())).ok();
                    worker.run(&clock, idle, &told_to_stop);
                    drop(worker);
                    drop(registered);
                }
                // Whoever waits for it gives the reason.
                Err(error) => {
                    ready.send(Err(error)).ok();
                }
            }
        })?;
        begun.recv()??;
        let nanoseconds_per_cycle = self.clock.nanoseconds_per_cycle();
        let thread = Some(thread);
        Ok(Running { stop, thread, control, events, counters, sequence: 0, nanoseconds_per_cycle })
    }
}

impl Running {
    /// What health checks would have found out of a target.
    pub fn set_health(&mut self, target: usize, healthy: bool) -> Result<(), Refusal> {
        let condition = if healthy { Condition::Healthy } else { Condition::Unhealthy };
        let target = TargetId(u16::try_from(target)?);
        self.sequence += 1;
        let message = ToWorker::Condition { target, generation: 0, condition, sequence: self.sequence };
        Ok(self.control.push(message).map_err(|error| error.to_string())?)
    }

    /// Takes what the worker tells, so that it always finds room. Forwarding states are freed here.
    pub fn listen(&mut self) {
        while self.events.pop().is_ok() {}
    }

    /// Packets that it has received, and nanoseconds of the rounds in which it had any.
    pub fn work(&self) -> (u64, f64) {
        #[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
        let busy = self.counters.busy_cycles.get() as f64 * self.nanoseconds_per_cycle;
        (self.counters.received.get(), busy)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("flowgate-load: the gateway ended by a panic");
        }
    }
}

fn forwarding(seed: &HashSeed, targets: &[Ipv4Addr]) -> Forwarding {
    let numbered = || targets.iter().zip((0..).map(TargetId));
    let mut builder = Builder::new(seed.clone());
    builder.update(&numbered().map(|(&address, id)| (id, address, 1)).collect::<Vec<_>>());
    let target = |address: &Ipv4Addr| {
        let mac = MacAddr(mac_of(address.to_bits()));
        Some(Target {
            generation: 0,
            address: address.to_bits(),
            gateway: Some(GatewayId(0)),
            template: Some(OuterTemplate::new(TUNNEL_MAC, mac, TUNNEL, *address)),
        })
    };
    let wire = |peer| PortRole::Wire { endpoint: EndpointId(0), peer: PortId(peer) };
    let endpoint =
        Endpoint { id: 0xa1, attachment_id: 0, gateway: Some(GatewayId(0)), kind: EndpointKind::Wire };
    // What the daemon's documents have that `--write-config` writes.
    let policy = Policy {
        reset_on_unhealthy: true,
        both_ends: true,
        unknown_flow: UnknownFlow::Reset,
        ..Policy::default()
    };
    Forwarding {
        configuration: 1,
        ports: [wire(1), wire(0), PortRole::Underlay].into(),
        interfaces: [].into(),
        endpoints: [endpoint].into(),
        gateways: [Some(Gateway { dualstack: true, timers: TIMERS, policy, map: builder.map() })].into(),
        targets: targets.iter().map(target).collect(),
        conditions: vec![Condition::Healthy; targets.len()].into(),
        underlay: Underlay { port: PortId(2), address: TUNNEL.to_bits(), mtu: 1600, ..Underlay::default() },
    }
}
