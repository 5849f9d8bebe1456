//! What is wrong, in words, the worst first.
//!
//! Pure: from a reading and the resets of the last minute to sentences. What is listed here comes first on the
//! screen, so only what somebody should act upon is.

#![forbid(unsafe_code)]

use super::reading::{BalancerRates, Reading, RecentResets};
use super::rows::is_silent;
use crate::cli::table::span;
use crate::cli::workers::scaled;
use crate::control::health::{HealthState, TargetKey};
use crate::control::socket::views::{LoadBalancerOverview, ResetCounts, TargetGroupOverview, TargetOverview};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Traffic is refused, reset or lost.
    Bad,
    /// It may come to that.
    Warning,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) severity: Severity,
    pub(super) said: String,
}

/// Targets that are named one by one; those beyond are counted.
const NAMED: usize = 3;
/// A worker that was last seen so long ago stands still, in milliseconds.
const STILL_MS: u64 = 1000;
/// A flow table this full is about to turn flows away, in percent.
const TABLE_FULL: f64 = 90.0;
/// A worker with less idle time than this has no room for a burst of traffic, in percent.
const NO_IDLE: f64 = 5.0;

/// All that is wrong, the worst first.
pub(super) fn find(reading: &Reading, recent: &RecentResets) -> Vec<Trouble> {
    let mut found = Found::default();
    balancers(reading, &mut found);
    targets(reading, recent, &mut found);
    let of_no_flow = recent.of(None).no_flow;
    if of_no_flow > 0 {
        found.warn(format!("{of_no_flow} packets of no known flow were reset in the last minute"));
    }
    workers(reading, &mut found);
    packets(reading, &mut found);
    // Sorting keeps the order of equals.
    found.0.sort_by_key(|trouble| trouble.severity);
    found.0
}

#[derive(Default)]
struct Found(Vec<Trouble>);

impl Found {
    fn bad(&mut self, said: String) {
        self.0.push(Trouble { severity: Severity::Bad, said });
    }

    fn warn(&mut self, said: String) {
        self.0.push(Trouble { severity: Severity::Warning, said });
    }
}

fn balancers(reading: &Reading, found: &mut Found) {
    for balancer in &reading.overview.load_balancers {
        let rates = reading.rates.as_ref().and_then(|rates| rates.balancers.get(&balancer.name));
        let rates = rates.copied().unwrap_or_default();
        let name = &balancer.name;
        let group = |group: &&TargetGroupOverview| Some(&group.name) == balancer.target_group.as_ref();
        match reading.overview.target_groups.iter().find(group) {
            None => found.bad(format!("{name} has no listener: its traffic is dropped")),
            Some(group) => standing(balancer, group, rates, found),
        }
        if rates.stateless > 0.0 {
            let rate = scaled(rates.stateless);
            found.bad(format!("{name} forwards {rate} packets/s without state: the flow tables are full"));
        }
        if rates.held_resets > 0.0 {
            let held = balancer.held_resets;
            let guards = [
                (held.hold, "hold_ms"),
                (held.min_healthy, "min_healthy_percent"),
                (held.rate, "max_per_second"),
            ];
            let guards: Vec<&str> =
                guards.iter().filter(|(count, _)| *count > 0).map(|(_, name)| *name).collect();
            let rate = scaled(rates.held_resets);
            found.warn(format!("{name} holds {rate} resets/s back by its guards ({})", guards.join(", ")));
        }
    }
}

/// A load balancer whose group has nobody to give flows to.
fn standing(
    balancer: &LoadBalancerOverview,
    group: &TargetGroupOverview,
    rates: BalancerRates,
    found: &mut Found,
) {
    let count = |state: HealthState| group.targets.iter().filter(|target| target.state == state).count();
    let registered =
        group.targets.iter().filter(|target| target.checks.is_some() && target.drain.is_none()).count();
    let (name, group_name) = (&balancer.name, &group.name);
    if registered == 0 {
        let refused = if rates.rejected > 0.0 {
            format!(", {} flows/s", scaled(rates.rejected))
        } else {
            String::new()
        };
        found.bad(format!("{name} refuses new flows{refused}: {group_name} has no target"));
    } else if count(HealthState::Healthy) == 0 && count(HealthState::Unhealthy) > 0 {
        let many = if registered == 1 {
            "the one target".to_owned()
        } else {
            format!("none of {registered} targets")
        };
        let is = if registered == 1 { "is unhealthy" } else { "is healthy" };
        found.bad(format!("{group_name}: {many} {is}; {name} gives new flows to any of them (fail open)"));
    }
}

fn targets(reading: &Reading, recent: &RecentResets, found: &mut Found) {
    let now = reading.overview.at;
    let named = |group: &TargetGroupOverview, target: &TargetOverview| {
        TargetKey::new(group.name.as_str(), target.address)
    };
    let mut unhealthy: Vec<_> =
        reading.targets().filter(|(_, target)| target.state == HealthState::Unhealthy).collect();
    // Those who went last are the news.
    unhealthy.sort_by_key(|(_, target)| std::cmp::Reverse(target.since));
    for (group, target) in unhealthy.iter().take(NAMED) {
        let key = named(group, target);
        let since = target.since.map(|since| format!(" for {}", span(now.since(since)))).unwrap_or_default();
        let why =
            if target.description.is_empty() { String::new() } else { format!(": {}", target.description) };
        let resets = recent.of(Some(&key)).all();
        let flows = match (group.rebalances, group.resets_on_unhealthy) {
            (true, _) => format!("its {} flows move at their next packet", target.flows),
            (false, true) => format!("{} flows left, {resets} reset in the last minute", target.flows),
            (false, false) => format!("its {} flows stay with it", target.flows),
        };
        let flows = if target.flows == 0 && resets == 0 { "no flows".to_owned() } else { flows };
        found.bad(format!("{key} is unhealthy{since}, {flows}{why}"));
    }
    if unhealthy.len() > NAMED {
        found.bad(format!("{} more targets are unhealthy", unhealthy.len() - NAMED));
    }
    let mut silent = Vec::new();
    let mut unreachable = Vec::new();
    for (group, target) in reading.targets() {
        let key = named(group, target);
        let used = !matches!(target.state, HealthState::Unused | HealthState::Unhealthy);
        if used && target.neighbour.mac.is_none() {
            unreachable.push(format!(
                "{key}: packets to it are dropped, its neighbour is {}",
                target.neighbour.state
            ));
        } else if is_silent(target) {
            let silent_for = span(target.silent_for_ms);
            silent.push(format!("{key} passes its checks, but has returned no packet for {silent_for}"));
        } else if target.state == HealthState::Unavailable {
            found.warn(format!("{key} cannot be checked: {}", target.description));
        }
        let after_drain = recent.of(Some(&key)).deregistration;
        if after_drain > 0 {
            found.warn(format!(
                "{key}: {after_drain} resets were sent in the last minute, as its drain is over"
            ));
        }
    }
    few(unreachable, "targets cannot be reached", |said| found.bad(said));
    few(silent, "healthy targets are silent", |said| found.warn(said));
}

/// The first of many sentences, and how many more there are.
fn few(sentences: Vec<String>, what: &str, mut tell: impl FnMut(String)) {
    let more = sentences.len().saturating_sub(NAMED);
    sentences.into_iter().take(NAMED).for_each(&mut tell);
    if more > 0 {
        tell(format!("{more} more {what}"));
    }
}

fn workers(reading: &Reading, found: &mut Found) {
    let generation = reading.overview.node.generation;
    for worker in &reading.overview.workers {
        let number = worker.worker;
        if worker.heartbeat_age_ms >= STILL_MS {
            found.bad(format!("worker {number} has stood still for {}", span(worker.heartbeat_age_ms)));
        } else if worker.generation < generation {
            found.warn(format!("worker {number} goes by generation {} still", worker.generation));
        }
    }
    for glance in reading.rates.iter().flat_map(|rates| &rates.workers) {
        if glance.table_percent >= TABLE_FULL {
            found
                .warn(format!("worker {}'s flow table is {:.0} % full", glance.worker, glance.table_percent));
        }
        if glance.idle_percent < NO_IDLE {
            found.warn(format!(
                "worker {} is busy {:.0} % of the time",
                glance.worker,
                100.0 - glance.idle_percent
            ));
        }
    }
}

fn packets(reading: &Reading, found: &mut Found) {
    for port in reading.overview.ports.iter().filter(|port| !port.link_up) {
        found.bad(format!("port {}: its link is down", port.port_name));
    }
    let Some(rates) = &reading.rates else { return };
    let mut missed: Vec<_> = rates.missed.iter().filter(|(_, rate)| **rate > 0.0).collect();
    missed.sort_by(|one, other| other.1.total_cmp(one.1));
    for (port, rate) in missed {
        found.bad(format!(
            "port {port} loses {} packets/s: the workers do not take them fast enough",
            scaled(*rate)
        ));
    }
    if rates.totals.dropped > 0.0 {
        let reasons: Vec<String> = rates
            .drops
            .iter()
            .take(NAMED)
            .map(|(reason, rate)| format!("{reason} {}", scaled(*rate)))
            .collect();
        let more = if rates.drops.len() > NAMED { ", …" } else { "" };
        found.warn(format!(
            "{} packets/s are dropped: {}{more}",
            scaled(rates.totals.dropped),
            reasons.join(", ")
        ));
    }
}

/// The triggers of resets with their counts: `unhealthy 312, both-ends 4`.
pub(super) fn by_trigger(resets: &ResetCounts) -> String {
    let told = resets.by_trigger().into_iter().filter(|(_, count)| *count > 0);
    told.map(|(trigger, count)| format!("{trigger} {count}")).collect::<Vec<_>>().join(", ")
}
