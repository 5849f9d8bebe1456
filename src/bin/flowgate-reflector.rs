//! `flowgate-reflector`: a stand-in for an appliance behind a gateway (see [`flowgate::reflector`]).

#![forbid(unsafe_code)]

use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use flowgate::cli::print_if_asked;
use flowgate::reflector::behaviour::{Behaviour, Health};
use flowgate::reflector::{self, Options};
use tracing_subscriber::EnvFilter;

/// Stands in for an appliance behind a Gateway Load Balancer: takes GENEVE packets at UDP port
/// 6081, says what in them is not as it should be, sends them back, and answers health checks.
///
/// Without options it is a good appliance. The options under "Misbehaviour" make it fail in the
/// ways that appliances do, from the start; each can also be switched while it runs, by a line on
/// the control socket:
///
///   echo '{"drop":true}' | nc -NU /run/reflector.sock
///   echo '{"health":"silent","drop":true}' | nc -NU /run/reflector.sock
///   echo '{"counters":{}}' | nc -NU /run/reflector.sock
///
/// It needs raw sockets: run it as root or with CAP_NET_RAW. What it finds amiss it logs to
/// standard error, each kind at its first, second, fourth, eighth … time; RUST_LOG sets the level.
#[derive(Parser, Debug)]
#[command(name = "flowgate-reflector", version, max_term_width = 100, verbatim_doc_comment)]
struct Arguments {
    /// Take packets at this address only [default: every address of the machine]
    #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED, hide_default_value = true)]
    address: Ipv4Addr,

    /// Answer TCP and HTTP health checks on this port; 0: on none
    #[arg(long, value_name = "PORT", default_value_t = 80)]
    health_port: u16,

    /// Make a control socket here
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,

    /// Health checks: answer, refuse (nobody listens), silent (connection attempts are swallowed), or an HTTP code
    #[arg(long, value_name = "HOW", default_value = "answer", help_heading = "Misbehaviour")]
    health: Health,

    #[command(flatten, next_help_heading = "Misbehaviour")]
    behaviour: Behaviour,
}

fn main() -> ExitCode {
    match print_if_asked(std::env::args_os().skip(1), Arguments::command, "1") {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowgate-reflector: {error}");
            return ExitCode::FAILURE;
        }
    }
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();

    let options = Options {
        address: arguments.address,
        health_port: (arguments.health_port != 0).then_some(arguments.health_port),
        control: arguments.control,
        behaviour: arguments.behaviour,
        health: arguments.health,
    };
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(reflector::run(options)).map_err(|error| error.to_string()));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flowgate-reflector: {error}");
            ExitCode::FAILURE
        }
    }
}
