//! `flowgate`, the operator's command line: a verb a method of the control socket, with the flags of
//! AWS's command line.
//!
//! Called by `src/bin/flowgate.rs` alone. Prints a table that fits the terminal, or the result in the form
//! that was asked for (`output`). A failure is one sentence on standard error and an exit code
//! ([`CliError::exit_code`]); a command line that cannot be read is 2. A reader that goes away (`| head`) ends it
//! quietly.

#![forbid(unsafe_code)]

mod arguments;
mod audit;
mod capture;
mod capture_file;
mod client;
mod complete;
pub mod doctor;
mod drain;
mod events;
mod explain;
mod input;
mod lifecycle;
mod logs;
mod manual;
mod objects;
mod output;
mod pages;
mod paging;
mod plan;
mod progress;
mod report;
mod rpc;
mod set;
mod shorthand;
mod status;
mod table;
mod targets;
mod top;
mod traffic;
mod wait;
mod whole;
mod workers;

pub use manual::command;
pub use output::Query;
pub use pages::print_if_asked;
pub use shorthand::members as shorthand;

use crate::control::socket::methods::limits::DescribeAccountLimits;
use crate::control::socket::views::Plan;
use arguments::{Arguments, ChangeFlags, Listing, Paging, Verb};
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
    complete::answer();
    let mut arguments = manual::read(std::env::args_os()).unwrap_or_else(|fault| fault.exit());
    // Without a verb it says how the daemon stands, and so what to do next.
    let verb = arguments.verb.take().unwrap_or(Verb::Status);
    let result = match &verb {
        Verb::Completions(flags) => manual::completions(flags),
        Verb::Man(flags) => manual::man(flags),
        Verb::Doctor(flags) => doctor::run(&output_of(&arguments), &arguments.socket, flags),
        Verb::Top(flags) => Session::open(&arguments).and_then(|session| top::run(session, flags)),
        _ => Session::open(&arguments).and_then(|mut session| run(&mut session, verb)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is_silent() {
                // With standard error closed there is nobody to tell; the exit code remains.
                writeln!(io::stderr(), "flowgate: {error}").ok();
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// How what was asked for is printed.
fn output_of(arguments: &Arguments) -> Output {
    let format = if arguments.json { Some(Format::Json) } else { arguments.output };
    Output::new(format, arguments.query.clone())
}

/// The connection to the daemon, and how to print what it says.
struct Session {
    client: Client,
    output: Output,
}

impl Session {
    fn open(arguments: &Arguments) -> Result<Self, CliError> {
        let client = Client::connect(&arguments.socket)?;
        Ok(Session { client, output: output_of(arguments) })
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

    /// The same for a method whose result has a list under `list`: all its pages, or the part that was asked
    /// for.
    fn list<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        list: &str,
        part: &Paging,
        render: impl FnOnce(&R, &Look) -> String,
    ) -> Result<(), CliError> {
        let result = paging::call(&mut self.client, method, params, list, part)?;
        let next = [("NextToken", "--starting-token"), ("NextMarker", "--marker")].into_iter();
        let next = next.filter_map(|(name, flag)| Some(format!("{flag} {}", result[name].as_str()?))).next();
        self.output.emit(result, |result, look| {
            let shown = render(result, look);
            match next {
                Some(next) => format!("{shown}\nThere are more: {next}\n"),
                None => shown,
            }
        })
    }

    /// The same for a method that changes something, which is made as `how` says.
    fn change<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        how: &ChangeFlags,
        render: impl FnOnce(&R, &Look) -> String,
    ) -> Result<(), CliError> {
        let mut params = how.added_to(params)?;
        if how.dry_run {
            let plan = self.client.call(method, &params)?;
            return self.output.emit(plan, plan::shown);
        }
        if !how.yes && plan::somebody_is_there() {
            self.confirm(method, &mut params)?;
        }
        let result = self.client.call(method, &params)?;
        let generation = result["Generation"].as_u64();
        self.output.emit(result, render)?;
        match generation {
            Some(generation) if how.is_to_wait() => {
                wait::for_workers(&mut self.client, generation, how.patience)
            }
            _ => Ok(()),
        }
    }

    /// Asks whether a change that flows would feel is wanted. What is wanted is then made of the state that
    /// was asked about, and of no other.
    fn confirm(&mut self, method: &str, params: &mut Value) -> Result<(), CliError> {
        params["DryRun"] = true.into();
        let plan: Plan = client::typed(self.client.call(method, params)?)?;
        params["DryRun"] = false.into();
        if plan::is_felt(&plan) {
            plan::ask(&plan, &self.output.look)?;
            params["IfGeneration"] = plan.generation.into();
        }
        Ok(())
    }
}

fn run(session: &mut Session, verb: Verb) -> Result<(), CliError> {
    match verb {
        Verb::DescribeLoadBalancers(Listing { what, part }) => session.list(
            "describe-load-balancers",
            &what.params(),
            "LoadBalancers",
            &part,
            objects::load_balancers,
        ),
        Verb::DescribeListeners(Listing { what, part }) => {
            session.list("describe-listeners", &what.params(), "Listeners", &part, objects::listeners)
        }
        Verb::DescribeTargetGroups(Listing { what, part }) => session.list(
            "describe-target-groups",
            &what.params(),
            "TargetGroups",
            &part,
            objects::target_groups,
        ),
        Verb::CreateLoadBalancer(flags) => session.change(
            "create-load-balancer",
            &flags.what.params(),
            &flags.how,
            lifecycle::load_balancers,
        ),
        Verb::DeleteLoadBalancer(flags) => {
            session.change("delete-load-balancer", &flags.what.deletion(), &flags.how, lifecycle::done)
        }
        Verb::CreateListener(flags) => {
            session.change("create-listener", &flags.what.params(), &flags.how, lifecycle::listeners)
        }
        Verb::ModifyListener(flags) => {
            session.change("modify-listener", &flags.what.params(), &flags.how, lifecycle::listeners)
        }
        Verb::DeleteListener(flags) => {
            session.change("delete-listener", &flags.what.deletion(), &flags.how, lifecycle::done)
        }
        Verb::CreateTargetGroup(flags) => {
            session.change("create-target-group", &flags.what.params(), &flags.how, lifecycle::target_groups)
        }
        Verb::ModifyTargetGroup(flags) => {
            session.change("modify-target-group", &flags.what.params(), &flags.how, lifecycle::target_groups)
        }
        Verb::DeleteTargetGroup(flags) => {
            session.change("delete-target-group", &flags.what.deletion(), &flags.how, lifecycle::done)
        }
        Verb::DescribeLoadBalancerAttributes(flags) => {
            session.show("describe-load-balancer-attributes", &flags.params(), objects::attributes)
        }
        Verb::ModifyLoadBalancerAttributes(flags) => session.change(
            "modify-load-balancer-attributes",
            &flags.what.params(),
            &flags.how,
            objects::attributes,
        ),
        Verb::DescribeListenerAttributes(flags) => {
            session.show("describe-listener-attributes", &flags.params(), objects::attributes)
        }
        Verb::ModifyListenerAttributes(flags) => session.change(
            "modify-listener-attributes",
            &flags.what.params(),
            &flags.how,
            objects::attributes,
        ),
        Verb::DescribeTargetGroupAttributes(flags) => {
            session.show("describe-target-group-attributes", &flags.params(), objects::attributes)
        }
        Verb::ModifyTargetGroupAttributes(flags) => session.change(
            "modify-target-group-attributes",
            &flags.what.params(),
            &flags.how,
            objects::attributes,
        ),
        Verb::RegisterTargets(flags) => targets::register(session, flags.what.params(), &flags.how),
        Verb::DeregisterTargets(flags) => targets::deregister(session, flags.what.params(), &flags.how),
        Verb::DescribeTargetHealth(flags) => {
            session.show("describe-target-health", &flags.params(), targets::health)
        }
        Verb::Drain(flags) => drain::run(session, flags.what, &flags.how),
        Verb::Export => whole::export(session),
        Verb::Apply(flags) => whole::apply(session, &flags.what, &flags.how),
        Verb::Diff(flags) => whole::diff(session, &flags),
        Verb::History => session.show("history", &Value::Null, whole::history),
        Verb::Rollback(flags) => whole::rollback(session, &flags.what, &flags.how),
        Verb::Set(flags) => set::run(session, flags.what, &flags.how),
        Verb::Wait(what) => wait::run(session, what),
        Verb::Rpc(flags) => rpc::call(session, flags),
        // Done without a daemon, or with the connection for itself.
        Verb::Completions(_) | Verb::Man(_) | Verb::Top(_) | Verb::Doctor(_) => Ok(()),
        Verb::SetSubnets(flags) => {
            session.change("set-subnets", &flags.what.params(), &flags.how, objects::subnets)
        }
        Verb::SetIpAddressType(flags) => {
            session.change("set-ip-address-type", &flags.what.params(), &flags.how, objects::ip_address_type)
        }
        Verb::DescribeRules(Listing { what, part }) => {
            session.list("describe-rules", &what.params(), "Rules", &part, objects::rules)
        }
        Verb::AddTags(flags) => session.change("add-tags", &flags.what.params(), &flags.how, lifecycle::done),
        Verb::RemoveTags(flags) => {
            session.change("remove-tags", &flags.what.params(), &flags.how, lifecycle::done)
        }
        Verb::DescribeTags(flags) => session.show("describe-tags", &flags.params(), objects::tags),
        Verb::DescribeAccountLimits(Listing { part, .. }) => {
            let params = DescribeAccountLimits::default();
            session.list("describe-account-limits", &params, "Limits", &part, objects::limits)
        }
        Verb::DescribeCapacityReservation(flags) => objects::reservation(session, flags),
        Verb::Targets(flags) => targets::glance(session, flags.target_group),
        Verb::DescribeFlows(flags) => session.show("describe-flows", &flags.params(), traffic::flows),
        Verb::GetCounters(flags) => {
            let zeros = flags.all;
            session.show("get-counters", &flags.params(), |counters, look| {
                traffic::counters(counters, zeros, look)
            })
        }
        Verb::Audit(flags) => audit::run(session, flags),
        Verb::Explain(flags) => explain::run(session, &flags),
        Verb::DescribeEndpoints => session.show("describe-endpoints", &Value::Null, traffic::endpoints),
        Verb::DescribeWorkers(flags) => session.show("describe-workers", &flags.params(), workers::all),
        Verb::Report(Listing { what, part }) => report::run(session, &what, &part),
        Verb::Workers(flags) => workers::glance(session, flags.interval),
        Verb::Status => session.show("get-overview", &Value::Null, status::shown),
        Verb::DescribePorts => session.show("describe-ports", &Value::Null, traffic::ports),
        Verb::Subscribe(flags) => events::follow(session, &flags.params(), flags.tries_again()),
        Verb::Capture(flags) => capture::run(session, &flags),
        Verb::LogLevel(flags) => logs::level(session, &flags),
        Verb::FlowLog(verb) => logs::flows(session, verb),
        Verb::DebugAdvanceClock(flags) => {
            session.show("debug-advance-clock", &flags.params(), traffic::clock)
        }
    }
}
