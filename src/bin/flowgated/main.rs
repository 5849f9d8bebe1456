//! The daemon: reads its configuration, starts everything in an order in which a refusal leaves
//! nothing behind, and runs until it is told to stop.

#![forbid(unsafe_code)]

mod devices;
mod facts;
mod guard;
mod host;
mod start;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use flowgate::control::elbv2::Endpoint;
use flowgate::control::node::{LogFormat, NodeConfig};
use flowgate::control::store;
use tracing_subscriber::EnvFilter;

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
    match run(&Arguments::parse()) {
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
            println!("{}: {}", if finding.is_fault { "warning" } else { "note" }, finding.text);
        }
        return Ok(());
    }
    log_to_stderr(&config);
    start::run(&config, arguments.debug_clock)
}

/// Logs as the configuration says; the environment variable `FLOWGATE_LOG` wins over its level.
fn log_to_stderr(config: &NodeConfig) {
    let level = config.log.level.as_str();
    let filter = EnvFilter::try_from_env("FLOWGATE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match config.log.format {
        LogFormat::Text => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => log.json().init(),
    }
}
