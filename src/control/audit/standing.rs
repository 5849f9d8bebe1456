//! What hurts now.

use super::facts::{Facts, GroupFacts, TargetFacts};
use super::kinds::{Kind, with_command};
use crate::control::explain::words::set;
use crate::control::health::HealthState;
use crate::control::socket::views::Finding;
use crate::control::troubles::limits::is_silent;

pub(super) fn look(_: &Facts, group: &GroupFacts, found: &mut Vec<Finding>) {
    if group.balancer.is_none() {
        return;
    }
    found.extend(group.in_scope().filter_map(|target| silent(group, target)));
    let (mut in_scope, mut healthy) = (0, 0);
    let mut out = Vec::new();
    for target in group.in_scope() {
        in_scope += 1;
        match target.state {
            HealthState::Healthy => healthy += 1,
            HealthState::Unhealthy => out.push(target.address.to_string()),
            _ => {}
        }
        if !target.reachable {
            let what =
                format!("The link-layer address of the way to target {} is not known.", target.address);
            let command = format!("flowgate describe-target-health --target-group {}", group.name);
            found.push(with_command(Kind::Unreachable.found(group.target_name(target), what), command));
        }
    }
    let command = format!("flowgate describe-target-health --target-group {}", group.name);
    if in_scope > 0 && healthy == 0 {
        let what = format!("None of {in_scope} targets in scope is healthy.");
        found.push(with_command(Kind::NobodyHealthy.found(&group.name, what), command));
    } else if !out.is_empty() {
        let what = format!("Unhealthy: {} ({} of {in_scope}).", out.join(", "), out.len());
        found.push(with_command(Kind::SomeUnhealthy.found(&group.name, what), command));
    }
}

fn silent(group: &GroupFacts, target: &TargetFacts) -> Option<Finding> {
    let in_band =
        target.in_band.filter(|in_band| is_silent(target.state, in_band.silent_for_ms, target.is_sent_to))?;
    let what = format!(
        "Target {} is healthy by its checks and has returned nothing of what it was sent for {} ms; it has {} live flows.",
        target.address, in_band.silent_for_ms, target.flows
    );
    let finding = Kind::HealthyButSilent.found(group.target_name(target), what);
    let watched = group.settings.inband_silence.is_some();
    let command = match watched {
        false => set(&group.name, "flowgate.inband.silence_ms=500"),
        true => format!("flowgate drain {} --target-group {}", target.address, group.name),
    };
    Some(with_command(finding, command))
}
