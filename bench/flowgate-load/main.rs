//! A generator of load for a gateway, without other software: it plays the clients, the servers and the appliances
//! at the other ends of the gateway's ports, and says what was lost, what came back wrong, and how long it took.
//!
//! One thread ([`engine`]) does all that touches packets: the two ends ([`ends`]) keep TCP flows open through the
//! gateway and send data both ways, the appliances ([`appliance`]) send back what comes in GENEVE. The main thread
//! leads it ([`conductor`]) by a few atomics and adds up what it measured ([`measure`]). Which flow a packet belongs
//! to is in its addresses ([`names`]), when it was made in its payload ([`frames`]).

#![forbid(unsafe_code)]

mod appliance;
mod conductor;
mod config;
mod devices;
mod ends;
mod engine;
mod flows;
mod frames;
mod measure;
mod names;
mod neighbour;
mod options;
mod orders;
mod own_gateway;
mod plot;
mod port;
mod report;
mod search;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Parser;
use flowgate::flow::Pages;
use flowgate::io::affinity;
use flowgate::io::clock::Clock;
use flowgate::io::dpdk::{Queue, WorkerThread};
use signal_hook::consts::SIGINT;

use appliance::Appliances;
use conductor::Conductor;
use devices::{Devices, Refusal, Sides};
use engine::{Engine, EngineParts, Load, Ports, Reports};
use frames::Frames;
use measure::Nanoseconds;
use names::Naming;
use options::Options;
use orders::{Orders, Phase};
use own_gateway::{OwnGateway, Running};
use port::{PoolSource, Port};
use report::Outcome;

/// Rounds without a packet after which the generator sleeps, if it may.
const IDLE_ROUNDS: u32 = 64;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(refusal) => {
            eprintln!("flowgate-load: {refusal}");
            ExitCode::from(2)
        }
    }
}

/// Whether all went well.
fn run(options: &Options) -> Result<bool, Refusal> {
    if let Some(moment) =
        options.die.iter().chain(&options.recover).find(|m| m.target >= options.targets.0.len())
    {
        return Err(format!("there is no target {}", moment.target + 1).into());
    }
    if let (true, Some(dir)) = (options.write_config, &options.dir) {
        config::write(options, dir)?;
        return Ok(true);
    }
    let clock = Clock::start();
    let (devices, sides, gateway) = if options.own_gateway {
        let (devices, sides, theirs) = Devices::crossed(options)?;
        let gateway = start_gateway(options, &devices, &clock, theirs)?;
        (devices, sides, Some(gateway))
    } else {
        let (devices, sides) = Devices::start(options)?;
        (devices, sides, None)
    };
    let outcome = lead(options, &devices, sides, &clock, gateway)?;
    show(options, &outcome)?;
    Ok(outcome.total.counts.violations() == 0 && outcome.total.counts.loss() <= options.max_loss)
}

fn start_gateway(
    options: &Options,
    devices: &Devices,
    clock: &Clock,
    ports: Vec<Queue>,
) -> Result<Running, Refusal> {
    let gateway = OwnGateway {
        eal: &devices.eal,
        clock,
        ports,
        targets: &options.targets.0,
        flows: options.flows.saturating_mul(2).clamp(1024, 1 << 24),
        core: options.cores.first().copied(),
        pages: if options.no_huge { Pages::Small } else { Pages::Huge },
        sleep: options.sleep.map(Duration::from_micros),
    };
    gateway.start()
}

/// Starts the generator's thread and leads it through the load.
fn lead(
    options: &Options,
    devices: &Devices,
    sides: Sides<Queue>,
    clock: &Clock,
    gateway: Option<Running>,
) -> Result<Outcome, Refusal> {
    // The first Ctrl-C ends the load, with its summary; the second one the process.
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&interrupted))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))?;
    let orders = Arc::new(Orders::new(options.rate.unwrap_or(u64::MAX), options.targets.0.len()));
    let gateway = std::cell::RefCell::new(gateway);
    let on_death = Box::new(|target, dies: bool| match gateway.borrow_mut().as_mut() {
        Some(gateway) => gateway.set_health(target, !dies),
        None => Ok(()),
    });
    let listen = Box::new(|| gateway.borrow_mut().iter_mut().for_each(Running::listen));
    let (mut conductor, reports) =
        Conductor::new(options, Arc::clone(&orders), interrupted, on_death, listen);
    let generator = start_generator(options, devices, sides, clock, &orders, reports)?;
    let outcome = (|| {
        conductor.wait_for_checks()?;
        conductor.open()?;
        let outcome = match options.find_rate {
            Some(most_lost) => conductor.find_rate(most_lost)?,
            None => conductor.run(options.duration)?,
        };
        conductor.close()?;
        Ok(outcome)
    })();
    drop(conductor);
    orders.set_phase(Phase::Stop);
    if generator.join().is_err() {
        return Err("the generator's thread ended by a panic".into());
    }
    let work = gateway.borrow().as_ref().map(Running::work);
    outcome.map(|outcome| Outcome { gateway: work, ..outcome })
}

/// The generator's thread, on its core.
fn start_generator(
    options: &Options,
    devices: &Devices,
    sides: Sides<Queue>,
    clock: &Clock,
    orders: &Arc<Orders>,
    reports: Reports,
) -> Result<std::thread::JoinHandle<()>, Refusal> {
    let naming = Naming::new(options.seed, options.ipv6);
    let is_alone = sides.clients.is_none() && sides.servers.is_none();
    let mut engine = Engine::new(EngineParts {
        load: Load {
            flows: options.flows,
            new_flows: options.new_flows,
            syn_flood: options.syn_flood,
            ways: options.ways(),
            sizes: options.size.order.clone(),
        },
        orders: Arc::clone(orders),
        frames: Frames::new(naming, &options.size.lengths),
        source: PoolSource::new(devices.pool.clone()),
        nanoseconds: Nanoseconds::of(clock),
        ports: Ports {
            clients: sides.clients.map(Port::new),
            servers: sides.servers.map(Port::new),
            targets: sides.targets.map(Port::new),
        },
        appliances: Appliances::new(
            &options.targets.0,
            options.behaviour(),
            is_alone,
            options.flows,
            options.seed,
        ),
        reports,
        targets: options.targets.0.len(),
        now: clock.cycles(),
    });
    let core = if options.own_gateway { options.cores.get(1) } else { options.cores.first() }.copied();
    let (eal, clock, orders) = (devices.eal.clone(), clock.clone(), Arc::clone(orders));
    let sleep = options.sleep.map(Duration::from_micros);
    let (ready, begun) = std::sync::mpsc::channel::<Result<(), String>>();
    let thread = std::thread::Builder::new().name("generator".to_owned()).spawn(move || {
        let registered = core
            .map_or(Ok(()), |core| affinity::pin_to(core).map_err(|error| error.to_string()))
            .and_then(|()| WorkerThread::register(&eal).map_err(|error| error.to_string()));
        let registered = match registered {
            Ok(registered) => registered,
            // Whoever waits for it gives the reason.
            Err(error) => return ready.send(Err(error)).unwrap_or(()),
        };
        ready.send(Ok(())).ok();
        let mut idle = 0;
        while orders.phase() != Phase::Stop {
            idle = if engine.round(clock.cycles()) > 0 { 0 } else { idle + 1 };
            if let Some(pause) = sleep
                && idle > IDLE_ROUNDS
            {
                std::thread::sleep(pause);
            }
        }
        drop(engine);
        drop(registered);
    })?;
    begun.recv()??;
    Ok(thread)
}

fn show(options: &Options, outcome: &Outcome) -> Result<(), Refusal> {
    let text = report::summary(options, outcome);
    let json = || serde_json::to_string_pretty(&report::json(options, outcome));
    match &options.json {
        Some(path) if path.as_os_str() == "-" => {
            eprint!("\n{text}");
            println!("{}", json()?);
        }
        Some(path) => {
            print!("\n{text}");
            std::fs::write(path, json()? + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        None => print!("\n{text}"),
    }
    if let Some(path) = &options.plot {
        let svg = plot::draw(&outcome.series);
        std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
