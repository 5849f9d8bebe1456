//! `--wait` and `flowgate wait`: looks again and again until what was asked for is so, with a bar that says how
//! far it is.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::{Patience, WaitFor};
use super::client::{CliError, Client, typed};
use super::output::print;
use super::progress::Progress;
use crate::control::duration::milliseconds;
use crate::control::health::{HealthState, ReasonCode};
use crate::control::shown::span;
use crate::control::socket::methods::balancers::{DescribeLoadBalancers, LoadBalancers};
use crate::control::socket::methods::groups::TargetGroups;
use crate::control::socket::methods::health::{DescribeTargetHealth, GroupHealth, TargetHealthDescription};
use crate::control::socket::methods::node::{DescribeWorkers, Workers};
use crate::control::socket::methods::registration::TargetName;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// How long is waited where nothing else is said: as long as AWS's waiters do.
const PATIENCE: Duration = Duration::from_mins(10);
/// The first look is repeated after this, as a change reaches the workers within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Later looks are this far apart: often enough for a bar that moves.
const LAST_PAUSE: Duration = Duration::from_millis(250);

/// What one look found.
pub(super) enum Look<T> {
    /// It is so.
    Done(T),
    /// It is not so yet.
    NotYet {
        /// How far it is.
        done: u64,
        /// Of how much.
        all: u64,
        /// What is still waited for, in words.
        said: String,
    },
}

/// Looks until it is done, or for as long as `limit` says.
pub(super) fn until<T>(
    client: &mut Client,
    limit: Option<Duration>,
    mut look: impl FnMut(&mut Client) -> Result<Look<T>, CliError>,
) -> Result<T, CliError> {
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut bar = Progress::default();
    loop {
        let said = match look(client)? {
            Look::Done(found) => return Ok(found),
            Look::NotYet { done, all, said } => {
                bar.show(done, all, said.clone());
                said
            }
        };
        if let Some(limit) = limit.filter(|limit| began.elapsed() >= *limit) {
            let limit = milliseconds(limit);
            return Err(CliError::GaveUp { after: span(limit), said });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

impl Patience {
    /// The longest wait, where there is one unless something else is said.
    fn limit(self) -> Option<Duration> {
        Some(self.timeout.unwrap_or(PATIENCE))
    }
}

/// Waits until every worker goes by the configuration of `generation`.
pub(super) fn for_workers(client: &mut Client, generation: u64, patience: Patience) -> Result<(), CliError> {
    until(client, patience.limit(), |client| {
        let workers: Workers = typed(client.call("describe-workers", &DescribeWorkers::default())?)?;
        let all = workers.workers.len() as u64;
        let done = workers.workers.iter().filter(|worker| worker.generation >= generation).count() as u64;
        if done == all {
            return Ok(Look::Done(()));
        }
        Ok(Look::NotYet { done, all, said: format!("{done} of {all} workers go by the change") })
    })
}

/// Waits until `targets` of `group` are healthy; none named: all that it has, and at least one.
pub(super) fn for_healthy(
    client: &mut Client,
    group: &str,
    targets: &[Ipv4Addr],
    patience: Patience,
) -> Result<Vec<Ipv4Addr>, CliError> {
    until(client, patience.limit(), |client| {
        let found = health_of(client, group, targets)?;
        let (healthy, others): (Vec<_>, Vec<_>) =
            found.iter().partition(|target| target.target_health.state == HealthState::Healthy);
        if others.is_empty() && !healthy.is_empty() {
            return Ok(Look::Done(found.iter().map(|target| target.target.id).collect()));
        }
        let said = match others.first() {
            Some(target) => format!("{} of {} healthy; {}", healthy.len(), found.len(), state_of(target)),
            None => format!("{group} has no targets"),
        };
        Ok(Look::NotYet { done: healthy.len() as u64, all: found.len() as u64, said })
    })
}

/// `10.0.0.1 is initial (Elb.RegistrationInProgress)`.
fn state_of(target: &TargetHealthDescription) -> String {
    let reason = target.target_health.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{} is {}{reason}", target.target.id, target.target_health.state)
}

/// When a drain is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DrainEnd {
    /// When the target has no flows left, or the delay has elapsed: it may be switched off.
    Empty,
    /// When the delay has elapsed: the target is gone.
    Gone,
}

/// Waits until `targets` of `group` are drained. The flows that they still have.
pub(super) fn for_drained(
    client: &mut Client,
    group: &str,
    targets: &[Ipv4Addr],
    end: DrainEnd,
    limit: Option<Duration>,
) -> Result<u64, CliError> {
    let (mut longest, mut began) = (0, false);
    until(client, limit, |client| {
        let found = health_of(client, group, targets)?;
        match found.iter().find(|target| !is_leaving(target)) {
            Some(target) if began => return Err(CliError::CameBack(target.target.id)),
            Some(target) => return Ok(Look::NotYet { done: 0, all: 1, said: state_of(target) }),
            None => began = true,
        }
        let flows = found.iter().map(|target| target.flows).sum();
        let drains = |target: &&TargetHealthDescription| {
            target.target_health.state == HealthState::Draining && (end == DrainEnd::Gone || target.flows > 0)
        };
        let draining: Vec<_> = found.iter().filter(drains).collect();
        if draining.is_empty() {
            return Ok(Look::Done(flows));
        }
        let left = draining.iter().filter_map(|target| target.drain_ends_in_ms).max().unwrap_or(0);
        longest = longest.max(left);
        let who = match draining.as_slice() {
            [one] => format!("{} drains", one.target.id),
            several => format!("{} targets drain", several.len()),
        };
        let said = format!("{who}: {flows} flows left, {}s left", left.div_ceil(1000));
        Ok(Look::NotYet { done: longest - left, all: longest, said })
    })
}

/// How every target of every group stands.
pub(super) type Standing = BTreeMap<String, BTreeMap<Ipv4Addr, HealthState>>;

/// How every target stands now.
pub(super) fn standing(client: &mut Client) -> Result<Standing, CliError> {
    let groups: TargetGroups = typed(client.call("describe-target-groups", &Value::Null)?)?;
    let names = groups.target_groups.into_iter().map(|group| group.target_group_name);
    names
        .map(|group| {
            let health = health_of(client, &group, &[])?;
            let states = health.into_iter().map(|target| (target.target.id, target.target_health.state));
            Ok((group, states.collect()))
        })
        .collect()
}

/// Waits until the targets that a change brought are healthy and those that it sent away are gone, wherever they
/// are: those that check in or drain now, and did not so `before` it.
pub(super) fn for_targets_since(
    client: &mut Client,
    before: &Standing,
    patience: Patience,
) -> Result<(), CliError> {
    for (group, states) in standing(client)? {
        let was = |id: &Ipv4Addr| before.get(&group).and_then(|states| states.get(id)).copied();
        let newly = |state: HealthState| -> Vec<Ipv4Addr> {
            let now = states.iter().filter(|(id, now)| **now == state && was(id) != Some(state));
            now.map(|(id, _)| *id).collect()
        };
        let (came, went) = (newly(HealthState::Initial), newly(HealthState::Draining));
        // No target named would ask for all of the group.
        if !came.is_empty() {
            for_healthy(client, &group, &came, patience)?;
        }
        if !went.is_empty() {
            for_drained(client, &group, &went, DrainEnd::Gone, patience.timeout)?;
        }
    }
    Ok(())
}

/// Whether `target` was deregistered.
fn is_leaving(target: &TargetHealthDescription) -> bool {
    target.target_health.state == HealthState::Draining
        || target.target_health.reason == Some(ReasonCode::NotRegistered)
}

fn health_of(
    client: &mut Client,
    group: &str,
    targets: &[Ipv4Addr],
) -> Result<Vec<TargetHealthDescription>, CliError> {
    let targets = targets.iter().map(|id| TargetName { id: *id, port: None }).collect();
    let params = DescribeTargetHealth { target_group_arn: group.to_owned(), targets };
    let health: GroupHealth = typed(client.call("describe-target-health", &params)?)?;
    Ok(health.target_health_descriptions)
}

/// `flowgate wait`: AWS's waiters, each by what it waits for.
pub(super) fn run(session: &mut Session, what: WaitFor) -> Result<(), CliError> {
    let client = &mut session.client;
    let said = match what {
        WaitFor::TargetInService(flags) => {
            let (group, targets, patience) = flags.parts();
            let targets = for_healthy(client, &group, &targets, patience)?;
            format!("In service: {}.\n", list(&targets))
        }
        WaitFor::TargetDeregistered(flags) => {
            let (group, named, patience) = flags.parts();
            let targets = if named.is_empty() { draining(client, &group)? } else { named };
            // No target named would ask for all of the group.
            if !targets.is_empty() {
                for_drained(client, &group, &targets, DrainEnd::Gone, patience.timeout)?;
            }
            format!("Deregistered: {}.\n", list(&targets))
        }
        WaitFor::LoadBalancerExists(flags) | WaitFor::LoadBalancerAvailable(flags) => {
            let (names, patience) = flags.parts();
            for_load_balancers(client, &names, patience, Wanted::Active)?;
            format!("Active: {}.\n", list(&names))
        }
        WaitFor::LoadBalancersDeleted(flags) => {
            let (names, patience) = flags.parts();
            for_load_balancers(client, &names, patience, Wanted::Deleted)?;
            format!("Deleted: {}.\n", list(&names))
        }
    };
    if session.output.is_for_people() { print(&said) } else { Ok(()) }
}

/// The targets of `group` that drain.
fn draining(client: &mut Client, group: &str) -> Result<Vec<Ipv4Addr>, CliError> {
    let all = health_of(client, group, &[])?.into_iter();
    let draining = all.filter(|target| target.target_health.state == HealthState::Draining);
    Ok(draining.map(|target| target.target.id).collect())
}

/// What load balancers are waited for to be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Active,
    Deleted,
}

/// Waits until each of `names` is as `wanted`; one after the other, as AWS's answer about several fails with the
/// first that is not there.
fn for_load_balancers(
    client: &mut Client,
    names: &[String],
    patience: Patience,
    wanted: Wanted,
) -> Result<(), CliError> {
    until(client, patience.limit(), |client| {
        for (done, name) in names.iter().enumerate() {
            let params =
                DescribeLoadBalancers { names: vec![name.clone()], ..DescribeLoadBalancers::default() };
            let state = match client.call("describe-load-balancers", &params) {
                Ok(found) => typed::<LoadBalancers>(found)?.load_balancers.pop().map(|one| one.state.code),
                Err(CliError::Refused(error)) if error.data.kind == "LoadBalancerNotFound" => None,
                Err(error) => return Err(error),
            };
            let is_so = match wanted {
                Wanted::Active => state.as_deref() == Some("active"),
                Wanted::Deleted => state.is_none(),
            };
            if !is_so {
                let said = match state {
                    Some(state) => format!("load balancer '{name}' is {state}"),
                    None => format!("there is no load balancer '{name}'"),
                };
                return Ok(Look::NotYet { done: done as u64, all: names.len() as u64, said });
            }
        }
        Ok(Look::Done(()))
    })
}

fn list(names: &[impl ToString]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
