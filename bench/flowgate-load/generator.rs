//! The threads that touch packets: one plays all sides, or a second one takes the appliances off its hands. They
//! share nothing but the orders; what each measures is added up by the main thread.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use flowgate::io::affinity;
use flowgate::io::clock::Clock;
use flowgate::io::dpdk::{Eal, Queue, WorkerThread};

use super::appliance::Appliances;
use super::attack::shots::{Crowd, Shots};
use super::devices::{Devices, Refusal, Sides};
use super::engine::{Engine, EngineParts, Load, Ports, Reports};
use super::frames::Frames;
use super::measure::Nanoseconds;
use super::names::Naming;
use super::options::Options;
use super::orders::{Orders, Phase};
use super::port::{PoolSource, Port};

/// Rounds without a packet after which a thread sleeps, if it may.
const IDLE_ROUNDS: u32 = 64;

/// A thread that is to be.
pub struct Thread {
    sides: Sides<Queue>,
    core: Option<u16>,
    /// Others play the ends.
    is_alone: bool,
}

/// Who plays which side: a second core is the appliances'. The first thread plays an end, if one is played.
pub fn plan(options: &Options, sides: Sides<Queue>) -> Vec<Thread> {
    let own = usize::from(options.own_gateway);
    let (first, second) = (options.cores.get(own).copied(), options.cores.get(own + 1).copied());
    let is_alone = sides.clients.is_none() && sides.servers.is_none();
    match (second, sides) {
        (Some(second), Sides { clients, servers, targets: Some(targets) }) if !is_alone => vec![
            Thread { sides: Sides { clients, servers, targets: None }, core: first, is_alone },
            Thread {
                sides: Sides { clients: None, servers: None, targets: Some(targets) },
                core: Some(second),
                is_alone,
            },
        ],
        (_, sides) => vec![Thread { sides, core: first, is_alone }],
    }
}

impl Thread {
    /// Starts it on its core.
    pub fn start(
        self,
        options: &Options,
        devices: &Devices,
        clock: &Clock,
        orders: &Arc<Orders>,
        (reports, crowd): (Reports, Arc<Crowd>),
    ) -> Result<JoinHandle<()>, Refusal> {
        let naming = Naming::new(options.seed, options.ipv6);
        let Sides { clients, servers, targets } = self.sides;
        let (addresses, behaviour) = (&options.targets.0, options.behaviour());
        let seats = if targets.is_some() { options.flows } else { 0 };
        let engine = Engine::new(EngineParts {
            load: Load {
                flows: options.flows,
                new_flows: options.new_flows,
                syn_flood: options.syn_flood,
                attack_rate: (!options.attack.0.is_empty()).then_some(options.attack_rate.0),
                ways: options.ways(),
                sizes: options.size.order.clone(),
            },
            orders: Arc::clone(orders),
            frames: Frames::new(naming, &options.size.lengths),
            source: PoolSource::new(devices.pool.clone()),
            nanoseconds: Nanoseconds::of(clock),
            ports: Ports {
                clients: clients.map(Port::new),
                servers: servers.map(Port::new),
                targets: targets.map(Port::new),
            },
            appliances: Appliances::new(addresses, behaviour, self.is_alone, seats, options.seed),
            reports,
            targets: addresses.len(),
            shots: Shots::new(options.seed, crowd),
            now: clock.cycles(),
        });
        let (eal, clock, orders) = (devices.eal.clone(), clock.clone(), Arc::clone(orders));
        let (sleep, core) = (options.sleep.map(Duration::from_micros), self.core);
        let (ready, begun) = channel();
        let thread = std::thread::Builder::new().name("generator".to_owned()).spawn(move || {
            if let Some(_registered) = settle(core, &eal, &ready) {
                run(engine, &clock, sleep, &orders);
            }
        })?;
        begun.recv()??;
        Ok(thread)
    }
}

/// Pins the calling thread and makes it known to DPDK, and says whether that went well.
fn settle(core: Option<u16>, eal: &Eal, ready: &Sender<Result<(), String>>) -> Option<WorkerThread> {
    let pinned = core.map_or(Ok(()), affinity::pin_to).map_err(|error| error.to_string());
    let registered = pinned.and_then(|()| WorkerThread::register(eal).map_err(|error| error.to_string()));
    let (registered, said) = match registered {
        Ok(registered) => (Some(registered), Ok(())),
        Err(error) => (None, Err(error)),
    };
    // Whoever waits for it is there until it has come.
    ready.send(said).ok();
    registered
}

/// Rounds until the end of the load.
fn run(mut engine: Engine<Queue, PoolSource>, clock: &Clock, sleep: Option<Duration>, orders: &Orders) {
    let mut idle = 0;
    while orders.phase() != Phase::Stop {
        idle = if engine.round(clock.cycles()) > 0 { 0 } else { idle + 1 };
        if let Some(pause) = sleep
            && idle > IDLE_ROUNDS
        {
            std::thread::sleep(pause);
        }
    }
}
