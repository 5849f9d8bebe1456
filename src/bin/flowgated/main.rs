//! The daemon: reads its configuration, starts everything in an order in which a refusal leaves
//! nothing behind, and runs until it is told to stop.

#![forbid(unsafe_code)]

mod control;
mod devices;
mod facts;
mod forwarding;
mod grace_periods;
mod guard;
mod host;
mod notes;
mod notify;
mod peers;
mod privileges;
mod reload;
mod service;
mod start;
mod stops;
mod tables;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use flowgate::cli::print_if_asked;
use flowgate::control::elbv2::Endpoint;
use flowgate::control::logging::{self, Filter, LogControl, Look};
use flowgate::control::node::{LogFormat, NodeConfig};
use flowgate::control::panics;
use flowgate::control::store;
use tracing::level_filters::LevelFilter;

/// Flowgate, a Gateway Load Balancer for bare metal: spreads flows over appliances behind GENEVE and
/// ends the flows of a dead appliance with a TCP reset.
#[derive(Debug, Parser)]
#[command(name = "flowgated", version = env!("FLOWGATE_VERSION"), after_help = "Documentation: docs/configuration.md. The command line \
    for a running daemon is `flowgate`.")]
struct Arguments {
    /// The node's configuration, a TOML file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Only say whether the configuration, and the objects that the daemon would start with, are sound, and what
    /// the kernel has to do with the interfaces.
    #[arg(long)]
    check: bool,

    /// What to log, in place of the configuration's level: a level, or levels of parts of the program too.
    #[arg(long, env = "FLOWGATE_LOG", value_name = "FILTER")]
    log_level: Option<String>,

    /// How a log line looks, in place of the configuration's.
    #[arg(long, env = "FLOWGATE_LOG_FORMAT", value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// Let the control socket set the clock forward. For tests of timers.
    #[arg(long, hide = true)]
    debug_clock: bool,

    /// Arguments for DPDK's EAL, after those that the configuration makes.
    #[arg(last = true, value_name = "EAL ARGUMENTS")]
    eal: Vec<String>,
}

/// A refusal, as one sentence.
type Refusal = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let ran = match print_if_asked(std::env::args_os().skip(1), Arguments::command, "8") {
        Ok(false) => run(&Arguments::parse()),
        Ok(true) => Ok(()),
        Err(error) => Err(error.into()),
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("flowgated: {refusal}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Refusal> {
    let mut config = NodeConfig::load(&arguments.config)?;
    config.eal.args.extend(arguments.eal.iter().cloned());
    if arguments.check {
        let state = store::read_state(&config.state_directory, config.objects.as_deref())?;
        config.agrees_with(&state)?;
        config.elbv2.as_ref().map(Endpoint::check).transpose()?;
        let (_, findings) = guard::survey(&config)?;
        let rights = privileges::survey(&config)?;
        println!(
            "{} is sound: {} ports, {} endpoints, {} workers, {} load balancers, {} target groups",
            arguments.config.display(),
            config.ports.len(),
            config.endpoints.len(),
            config.workers.cores.len(),
            state.load_balancers().count(),
            state.target_groups().count(),
        );
        for finding in findings {
            println!("{}: {}", if finding.is_fault { "warning" } else { "note" }, finding);
        }
        for finding in rights {
            println!("{}: {}", if finding.is_fault { "warning" } else { "note" }, finding.text);
        }
        return Ok(());
    }
    let log = log_to_stderr(&config, arguments)?;
    panics::note_from_here();
    let level_is_given = arguments.log_level.as_deref().is_some_and(|text| !text.trim().is_empty());
    let reload = reload::Reload::new(&arguments.config, log.clone(), level_is_given);
    let ran = start::run(&config, arguments.debug_clock, &log, reload);
    // The refusal, if there is one, comes last.
    log.flush();
    ran
}

/// Logs as the command line says, or the environment, or else the configuration.
fn log_to_stderr(config: &NodeConfig, arguments: &Arguments) -> Result<LogControl, Refusal> {
    let configured = Filter::read(config.log.level.as_str(), &Filter::of(LevelFilter::INFO))?;
    let filter = match arguments.log_level.as_deref().map(str::trim) {
        None | Some("") => configured,
        Some(text) => Filter::read(text, &configured).map_err(|error| format!("--log-level: {error}"))?,
    };
    let on_terminal = std::io::stderr().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let text = Look::Text { colours: on_terminal && !no_colour };
    let look = match arguments.log_format.unwrap_or(config.log.format) {
        LogFormat::Text => text,
        LogFormat::Auto if on_terminal => text,
        LogFormat::Auto | LogFormat::Json => Look::Json,
    };
    Ok(logging::start(look, filter)?)
}
