//! A generator of load for a gateway, without other software: it plays the clients, the servers and the appliances
//! at the other ends of the gateway's ports, and says what was lost, what came back wrong, and how long it took.
//!
//! One thread or two ([`generator`], [`engine`]) do all that touches packets: the ends ([`ends`]) keep TCP flows open
//! through the gateway and send data both ways, the appliances ([`appliance`]) send back what comes in GENEVE. The main
//! thread leads them ([`conductor`]) by a few atomics and adds up what it measured ([`measure`]). Which flow a packet belongs
//! to is in its addresses ([`names`]), when it was made in its payload ([`frames`]).

#![forbid(unsafe_code)]

mod appliance;
mod attack;
mod conductor;
mod config;
mod devices;
mod ends;
mod engine;
mod flows;
mod frames;
mod generator;
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
use flowgate::io::clock::Clock;
use flowgate::io::dpdk::Queue;
use signal_hook::consts::SIGINT;

use attack::rounds::{self, Row};
use attack::{Kind, shots, table};
use conductor::Conductor;
use devices::{Devices, Refusal, Sides};
use measure::Played;
use options::{AttackRate, Options};
use orders::{Orders, Phase};
use own_gateway::{OwnGateway, Running};
use report::Outcome;

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
    if !options.attack.0.is_empty() && options.played() != Played::ALL {
        return Err("attacks need clients, servers and appliances to be played here".into());
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
    let outcome = match lead(options, &devices, sides, &clock, gateway)? {
        Led::Load(outcome) => outcome,
        Led::Attacks(rows) => return show_attacks(options, &rows),
    };
    show(options, &outcome)?;
    Ok(outcome.total.counts.violations() == 0
        && options.played().loss(&outcome.total.counts) <= options.max_loss)
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

/// What the generator was led through.
enum Led {
    Load(Box<Outcome>),
    Attacks(Vec<Row>),
}

/// Starts the generator's threads and leads them through the load.
fn lead(
    options: &Options,
    devices: &Devices,
    sides: Sides<Queue>,
    clock: &Clock,
    gateway: Option<Running>,
) -> Result<Led, Refusal> {
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
    let plan = generator::plan(options, sides);
    let (mut conductor, reports) =
        Conductor::new(options, plan.len(), Arc::clone(&orders), interrupted, on_death, listen);
    let attacks = &options.attack.0;
    // Of the version that most flows have.
    let crowd = if attacks.contains(&Kind::HashFlood) {
        shots::crowd(options.flows, options.ipv6 > 0.5)?
    } else {
        Arc::default()
    };
    let threads = plan.into_iter().zip(reports);
    let threads = threads.map(|(thread, reports)| {
        thread.start(options, devices, clock, &orders, (reports, Arc::clone(&crowd)))
    });
    let threads = threads.collect::<Result<Vec<_>, _>>()?;
    let outcome = (|| {
        conductor.wait_for_checks()?;
        conductor.open()?;
        let outcome = match options.find_rate {
            _ if !attacks.is_empty() => Led::Attacks(rounds::lead(options, &mut conductor, &orders)?),
            Some(most_lost) => Led::Load(Box::new(conductor.find_rate(most_lost)?)),
            None => Led::Load(Box::new(conductor.run(options.duration)?)),
        };
        conductor.close()?;
        Ok(outcome)
    })();
    drop(conductor);
    orders.set_phase(Phase::Stop);
    for thread in threads {
        if thread.join().is_err() {
            return Err("the generator's thread ended by a panic".into());
        }
    }
    let work = gateway.borrow().as_ref().map(Running::work);
    outcome.map(|led| match led {
        Led::Load(outcome) => Led::Load(Box::new(Outcome { gateway: work, ..*outcome })),
        Led::Attacks(rows) => Led::Attacks(rows),
    })
}

/// Whether all attacks went by as they should.
fn show_attacks(options: &Options, rows: &[Row]) -> Result<bool, Refusal> {
    let bears = options.attack_rate != AttackRate::MAX;
    let complaints: Vec<String> = rows.iter().flat_map(|row| row.complaints(bears)).collect();
    let text = table::table(options, rows);
    let json = || serde_json::to_string_pretty(&table::json(options, rows, &complaints));
    match &options.json {
        Some(path) if path.as_os_str() == "-" => println!("{}", json()?),
        Some(path) => {
            print!("{text}");
            std::fs::write(path, json()? + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        None => print!("{text}"),
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    Ok(complaints.is_empty())
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
