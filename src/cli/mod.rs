//! `flowgate`, the operator's command line: a verb a method of the control socket, with the flags of
//! AWS's command line.
//!
//! Called by `src/bin/flowgate.rs` alone. Prints a table that fits 100 columns, or with `--json` the
//! result as it came. A failure is one sentence on standard error and exit code 1; a command line that
//! cannot be read, 2. A reader that goes away (`| head`) ends it quietly.

#![forbid(unsafe_code)]

mod arguments;
mod client;
mod events;
mod lifecycle;
mod nearest;
mod objects;
mod output;
mod shorthand;
mod table;
mod targets;
mod traffic;
mod workers;

use arguments::{Arguments, Verb};
use clap::Parser;
use client::{CliError, Client};
use output::{Format, Output};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;
use table::Look;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match Session::open(&arguments).and_then(|mut session| run(&mut session, arguments.verb)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(CliError::ReaderGone) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error closed there is nobody to tell; the exit code remains.
            writeln!(io::stderr(), "flowgate: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

/// The connection to the daemon, and how to print what it says.
struct Session {
    client: Client,
    output: Output,
}

impl Session {
    fn open(arguments: &Arguments) -> Result<Self, CliError> {
        let client = Client::connect(&arguments.socket)?;
        let format = if arguments.json { Some(Format::Json) } else { arguments.output };
        Ok(Session { client, output: Output::new(format, arguments.query.clone()) })
    }

    /// Calls `method` and prints what it answered: as `render` shows it, or as was asked for.
    fn show<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        render: impl FnOnce(&R, &Look) -> String,
    ) -> Result<(), CliError> {
        let result = self.client.call(method, params)?;
        self.output.emit(result, render)
    }
}

fn run(session: &mut Session, verb: Verb) -> Result<(), CliError> {
    match verb {
        Verb::DescribeLoadBalancers(flags) => {
            session.show("describe-load-balancers", &flags.params(), objects::load_balancers)
        }
        Verb::DescribeListeners(flags) => {
            session.show("describe-listeners", &flags.params(), objects::listeners)
        }
        Verb::DescribeTargetGroups(flags) => {
            session.show("describe-target-groups", &flags.params(), objects::target_groups)
        }
        Verb::CreateLoadBalancer(flags) => {
            session.show("create-load-balancer", &flags.params(), lifecycle::load_balancers)
        }
        Verb::DeleteLoadBalancer(flags) => {
            session.show("delete-load-balancer", &flags.deletion(), lifecycle::done)
        }
        Verb::CreateListener(flags) => session.show("create-listener", &flags.params(), lifecycle::listeners),
        Verb::ModifyListener(flags) => session.show("modify-listener", &flags.params(), lifecycle::listeners),
        Verb::DeleteListener(flags) => session.show("delete-listener", &flags.deletion(), lifecycle::done),
        Verb::CreateTargetGroup(flags) => {
            session.show("create-target-group", &flags.params(), lifecycle::target_groups)
        }
        Verb::ModifyTargetGroup(flags) => {
            session.show("modify-target-group", &flags.params(), lifecycle::target_groups)
        }
        Verb::DeleteTargetGroup(flags) => {
            session.show("delete-target-group", &flags.deletion(), lifecycle::done)
        }
        Verb::DescribeLoadBalancerAttributes(flags) => {
            session.show("describe-load-balancer-attributes", &flags.params(), objects::attributes)
        }
        Verb::ModifyLoadBalancerAttributes(flags) => {
            session.show("modify-load-balancer-attributes", &flags.params(), objects::attributes)
        }
        Verb::DescribeListenerAttributes(flags) => {
            session.show("describe-listener-attributes", &flags.params(), objects::attributes)
        }
        Verb::ModifyListenerAttributes(flags) => {
            session.show("modify-listener-attributes", &flags.params(), objects::attributes)
        }
        Verb::DescribeTargetGroupAttributes(flags) => {
            session.show("describe-target-group-attributes", &flags.params(), objects::attributes)
        }
        Verb::ModifyTargetGroupAttributes(flags) => {
            session.show("modify-target-group-attributes", &flags.params(), objects::attributes)
        }
        Verb::RegisterTargets(flags) => {
            session.show("register-targets", &flags.params(), targets::registrations)
        }
        Verb::DeregisterTargets(flags) => {
            session.show("deregister-targets", &flags.params(), targets::registrations)
        }
        Verb::DescribeTargetHealth(flags) => {
            session.show("describe-target-health", &flags.params(), targets::health)
        }
        Verb::Targets(flags) => targets::glance(session, flags.target_group),
        Verb::DescribeFlows(flags) => session.show("describe-flows", &flags.params(), traffic::flows),
        Verb::GetCounters(flags) => {
            let zeros = flags.all;
            session.show("get-counters", &flags.params(), |counters, look| {
                traffic::counters(counters, zeros, look)
            })
        }
        Verb::DescribeEndpoints => session.show("describe-endpoints", &Value::Null, traffic::endpoints),
        Verb::DescribeWorkers(flags) => session.show("describe-workers", &flags.params(), workers::all),
        Verb::Workers(flags) => workers::glance(session, flags.interval),
        Verb::DescribePorts => session.show("describe-ports", &Value::Null, traffic::ports),
        Verb::Subscribe(flags) => events::follow(session, &flags.params()),
        Verb::DebugAdvanceClock(flags) => {
            session.show("debug-advance-clock", &flags.params(), traffic::clock)
        }
    }
}
