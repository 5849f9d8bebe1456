//! Load balancers that cannot do what they are for, and endpoints without one.

use std::sync::Arc;

use super::limits::FEW_HEALTHY_PERCENT;
use super::recent::{Count, JUST_NOW, MINUTE};
use super::{Finder, Kind};
use crate::control::health::HealthState;
use crate::control::shown::{counted, scaled};
use crate::control::socket::views::{LoadBalancerOverview, TargetGroupOverview};

pub(super) fn look(finder: &mut Finder<'_>) {
    for balancer in &finder.overview.load_balancers {
        let group = |group: &&TargetGroupOverview| Some(&group.name) == balancer.target_group.as_ref();
        match finder.overview.target_groups.iter().find(group) {
            None => no_listener(balancer, finder),
            Some(group) => standing(balancer, group, finder),
        }
        traffic(balancer, finder);
    }
    for endpoint in finder.overview.endpoints.iter().filter(|endpoint| endpoint.load_balancer.is_none()) {
        let what = format!("Endpoint {} leads to no load balancer: its traffic is dropped", endpoint.name);
        let trouble = finder.found(Kind::EndpointUnused, [format!("endpoint {}", endpoint.name)], None, what);
        trouble.command = Some("flowgate describe-endpoints".to_owned());
    }
}

fn no_listener(balancer: &LoadBalancerOverview, finder: &mut Finder<'_>) {
    let name = &balancer.name;
    let what = format!("{name} has no listener: its traffic is dropped");
    finder.found(Kind::NoListener, [name.clone()], None, what).command = Some(format!(
        "flowgate create-listener --load-balancer {name} --default-actions Type=forward,TargetGroupArn=NAME"
    ));
}

/// Whether there is anybody to give flows to.
fn standing(balancer: &LoadBalancerOverview, group: &TargetGroupOverview, finder: &mut Finder<'_>) {
    let (name, group_name) = (&balancer.name, &group.name);
    let id: Arc<str> = name.as_str().into();
    let count = |state: HealthState| group.targets.iter().filter(|one| one.state == state).count() as u64;
    let registered =
        group.targets.iter().filter(|one| one.checks.is_some() && one.drain.is_none()).count() as u64;
    let in_use = registered - count(HealthState::Unused).min(registered);
    let healthy = count(HealthState::Healthy);
    let out = count(HealthState::Unhealthy) + count(HealthState::Unavailable);
    let objects = [name.clone(), group_name.clone()];
    if registered == 0 {
        let what = format!("{name} refuses new flows: {group_name} has no target");
        let refused = finder.recent.within(JUST_NOW, &Count::Refused(id));
        let trouble = finder.found(Kind::NoTarget, objects, None, what);
        if refused > 0 {
            trouble.figures = format!("{} refused in the last 10 s", counted(refused, "flow"));
        }
        trouble.command =
            Some(format!("flowgate register-targets --target-group {group_name} --targets Id=ADDRESS"));
    } else if healthy == 0 && out > 0 {
        let who = if in_use == 1 {
            format!("The one target of {group_name} is unhealthy")
        } else {
            format!("None of {in_use} targets of {group_name} is healthy")
        };
        let what = format!("{who}: {name} gives new flows to any of them (fail open)");
        let given = finder.recent.within(JUST_NOW, &Count::FailOpen(id));
        let trouble = finder.found(Kind::NobodyHealthy, objects, None, what);
        if given > 0 {
            trouble.figures = format!("{} given so in the last 10 s", counted(given, "flow"));
        }
        trouble.command = Some(describe(group_name));
    } else if out * 100 > in_use * (100 - FEW_HEALTHY_PERCENT) {
        let what = format!("Only {healthy} of {in_use} targets of {group_name} are healthy");
        finder.found(Kind::FewHealthy, objects, None, what).command = Some(describe(group_name));
    }
}

pub(super) fn describe(group: &str) -> String {
    format!("flowgate describe-target-health --target-group {group}")
}

/// What its traffic says.
fn traffic(balancer: &LoadBalancerOverview, finder: &mut Finder<'_>) {
    let (name, recent) = (&balancer.name, finder.recent);
    let id: Arc<str> = name.as_str().into();
    let stateless = recent.per_second(&Count::Stateless(Arc::clone(&id)));
    if stateless > 0.0 {
        let what = format!("{name} forwards packets without state: a flow table is full of live flows");
        let trouble = finder.found(Kind::ForwardsWithoutState, [name.clone()], None, what);
        trouble.figures = format!("{} packets/s", scaled(stateless));
        trouble.command = Some("flowgate describe-workers".to_owned());
    }
    let held = ["hold_ms", "min_healthy_percent", "max_per_second", "no_flow_max_per_second"]
        .map(|guard| (guard, recent.within(JUST_NOW, &Count::Held(Arc::clone(&id), guard))));
    let guards: Vec<&str> = held.iter().filter(|(_, count)| *count > 0).map(|(guard, _)| *guard).collect();
    if !guards.is_empty() {
        let what = format!("Resets of {name} are held back by its guards ({})", guards.join(", "));
        let count = held.iter().map(|(_, count)| count).sum();
        let trouble = finder.found(Kind::ResetsHeldBack, [name.clone()], None, what);
        trouble.figures = format!("for {} in the last 10 s", counted(count, "packet"));
        trouble.command = Some("flowgate report".to_owned());
    }
    let no_flow = recent.within(MINUTE, &Count::NoFlow(id));
    if no_flow > 0 {
        let what = format!("Packets of no known flow are answered with resets at {name}");
        finder.found(Kind::NoFlowResets, [name.clone()], None, what).figures =
            format!("{} sent in the last minute", counted(no_flow, "reset"));
    }
}
