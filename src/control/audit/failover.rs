//! What becomes of flows when their target fails or leaves, and what contradicts what.

use super::facts::{Facts, GroupFacts, TargetFacts};
use super::kinds::{Kind, with_command};
use super::summary::percent;
use crate::control::explain::words::{NO_REBALANCE, set, set_reset};
use crate::control::model::registry::{self, Value};
use crate::control::model::{AttributeSet, Failover, Stickiness};
use crate::control::socket::views::Finding;

/// A group with fewer flows than this says nothing of how they are shared out.
const FLOWS_THAT_TELL: u64 = 200;

/// So many times its weight's share is more than chance: ten equal targets are within 2 % (F-4), few clients with
/// stickiness far from that.
const TOO_LARGE_A_SHARE: f64 = 1.5;

/// Longer than this nobody waits for the resets of one target: most clients have given up by themselves.
const PATIENCE_SECONDS: u64 = 10;

pub(super) fn look(_: &Facts, group: &GroupFacts, found: &mut Vec<Finding>) {
    contradictions(group, found);
    if group.balancer.is_none() {
        return; // It carries nothing; `group-unused` says so.
    }
    endings(group, found);
    resets(group, found);
    guards(group, found);
    found.extend(largest_share(group));
}

fn flag(attributes: &AttributeSet, attribute: &'static registry::Attribute) -> bool {
    attributes.get(attribute) == Value::Flag(true)
}

/// Attributes that are on and have no effect.
fn contradictions(group: &GroupFacts, found: &mut Vec<Finding>) {
    let (settings, attributes) = (&group.settings, &group.attributes);
    let rival = match (settings.stickiness, settings.failover) {
        (Stickiness::ThreeTuple | Stickiness::TwoTuple, _) => "stickiness.enabled is true",
        (_, Failover::Rebalance) => "target_failover is rebalance",
        _ => "",
    };
    for (attribute, holds) in [
        (&registry::RESET_ON_UNHEALTHY, settings.reset_on_unhealthy),
        (&registry::RESET_ON_DEREGISTRATION, settings.reset_on_deregistration),
    ] {
        if flag(attributes, attribute) && !holds {
            let what = format!("{} is true and has no effect, as {rival}.", attribute.key);
            let command = set(&group.name, &format!("{}=false", attribute.key));
            found.push(with_command(Kind::OverruledReset.found(&group.name, what), command));
        }
    }
    if !group.resets() {
        let given: Vec<String> = [
            &registry::RESET_BOTH_ENDS,
            &registry::RESET_PROACTIVE,
            &registry::RESET_HOLD_MS,
            &registry::RESET_MIN_HEALTHY_PERCENT,
        ]
        .into_iter()
        .filter(|attribute| attributes.get(attribute) != attribute.default)
        // R-9 is of the resets on idle timeout too.
        .filter(|attribute| {
            attribute.key != registry::RESET_BOTH_ENDS.key
                || !group.balancer.as_ref().is_some_and(|of| of.listener.reset_on_idle_timeout)
        })
        .map(|attribute| format!("{} is {}", attribute.key, attributes.get(attribute)))
        .collect();
        if !given.is_empty() {
            let what = format!("No send_tcp_reset.* of the group is on, and {}.", given.join(", "));
            let command = match settings.failover {
                Failover::NoRebalance if settings.stickiness == Stickiness::FiveTuple => {
                    set(&group.name, "send_tcp_reset.on_unhealthy.enabled=true")
                }
                _ => set(&group.name, "flowgate.reset.both_ends=false flowgate.reset.proactive=false"),
            };
            found.push(with_command(Kind::ResetOptionsIdle.found(&group.name, what), command));
        }
    }
}

/// What flows of a dead or departed target meet.
fn endings(group: &GroupFacts, found: &mut Vec<Finding>) {
    let settings = &group.settings;
    if settings.failover == Failover::Rebalance {
        let what =
            "target_failover is rebalance: the next packet of a flow whose target is out goes to another.";
        let command = set(&group.name, NO_REBALANCE);
        found.push(with_command(Kind::MovesConnections.found(&group.name, what), command));
        return;
    }
    let would_end = group.targets.iter().map(|target| target.would_end).max().unwrap_or(0);
    let with = |key: &str| set_reset(&group.name, settings, key);
    if !settings.reset_on_unhealthy {
        let what = format!(
            "target_failover is no_rebalance and send_tcp_reset.on_unhealthy.enabled is false; the death of one target would leave up to {would_end} live TCP flows hanging now."
        );
        let command = with("send_tcp_reset.on_unhealthy.enabled");
        found.push(with_command(Kind::LeftHanging.found(&group.name, what), command));
    }
    if !settings.reset_on_deregistration {
        let what = format!(
            "send_tcp_reset.on_deregistration.enabled is false; the deregistration delay is {} s.",
            settings.deregistration_delay.as_secs()
        );
        let command = with("send_tcp_reset.on_deregistration.enabled");
        found.push(with_command(Kind::DrainLeftHanging.found(&group.name, what), command));
    } else if settings.deregistration_delay.is_zero() {
        let what =
            "deregistration_delay.timeout_seconds is 0 and send_tcp_reset.on_deregistration.enabled is true.";
        let command = set(&group.name, "deregistration_delay.timeout_seconds=300");
        found.push(with_command(Kind::DelayZero.found(&group.name, what), command));
    }
    if let Some(balancer) = group.balancer.as_ref().filter(|of| !of.listener.syn_reselect)
        && !settings.reset_on_unhealthy
    {
        let what = "flowgate.tcp.syn_reselect is false, and so is send_tcp_reset.on_unhealthy.enabled.";
        let command = set(&balancer.name, "flowgate.tcp.syn_reselect=true");
        found.push(with_command(Kind::SynStaysOnDead.found(&group.name, what), command));
    }
}

/// Who is told, where resets are on.
fn resets(group: &GroupFacts, found: &mut Vec<Finding>) {
    let settings = &group.settings;
    if !group.resets() {
        return;
    }
    for (off, kind, key) in [
        (!settings.reset_both_ends, Kind::OneEndTold, "flowgate.reset.both_ends"),
        (!settings.reset_proactive, Kind::SilentNotTold, "flowgate.reset.proactive"),
    ] {
        if off {
            let command = set(&group.name, &format!("{key}=true"));
            found.push(with_command(kind.found(&group.name, format!("{key} is false.")), command));
        }
    }
}

/// What holds resets back that are a mistake, and what holds back too much.
fn guards(group: &GroupFacts, found: &mut Vec<Finding>) {
    let settings = &group.settings;
    let guards = &settings.reset_guards;
    if !settings.reset_on_unhealthy {
        return;
    }
    let in_scope = u32::try_from(group.in_scope().count()).unwrap_or(u32::MAX);
    let mut off = |kind: Kind, key: &str, value: u32| {
        let what = format!("{key} is 0: there is no such guard.");
        let command = set(&group.name, &format!("{key}={value}"));
        found.push(with_command(kind.found(&group.name, what), command));
    };
    if guards.min_healthy_percent == 0 && in_scope > 1 {
        // Half of them, or what one target's death leaves where that is less.
        let left = 100 * (in_scope - 1) / in_scope;
        off(Kind::NoMinHealthy, "flowgate.reset.min_healthy_percent", left.min(50));
    }
    if guards.hold_ms == 0 {
        off(Kind::NoHold, "flowgate.reset.hold_ms", 500);
    }
    if guards.max_per_second == 0 {
        off(Kind::NoRateLimit, "flowgate.reset.max_per_second", 10_000);
    }
    if guards.max_per_second > 0
        && let Some(most) = group.targets.iter().max_by_key(|target| target.would_end)
    {
        let seconds = most.would_end / u64::from(guards.max_per_second);
        if seconds > PATIENCE_SECONDS {
            let what = format!(
                "flowgate.reset.max_per_second is {}: the {} TCP flows of target {} would take {seconds} s to reset.",
                guards.max_per_second, most.would_end, most.address
            );
            let enough = most.would_end.div_ceil(PATIENCE_SECONDS);
            let command = set(&group.name, &format!("flowgate.reset.max_per_second={enough}"));
            found.push(with_command(Kind::RateTooLow.found(&group.name, what), command));
        }
    }
    // In whole percent, rounded down, as the workers reckon.
    let left = (100 * in_scope.saturating_sub(1)).checked_div(in_scope).unwrap_or(0);
    if in_scope > 0 && guards.min_healthy_percent > left {
        let what = format!(
            "flowgate.reset.min_healthy_percent is {}, and {in_scope} targets in scope leave {left} % when one of them is out.",
            guards.min_healthy_percent
        );
        let command = set(&group.name, &format!("flowgate.reset.min_healthy_percent={left}"));
        found.push(with_command(Kind::GuardNeverOpens.found(&group.name, what), command));
    }
    if let Some(balancer) = &group.balancer {
        let idle = balancer.listener.tcp_idle_timeout;
        if u128::from(guards.hold_ms) >= idle.as_millis() {
            let what = format!(
                "flowgate.reset.hold_ms is {}, and flows idle out after {} s.",
                guards.hold_ms,
                idle.as_secs()
            );
            let command = set(&group.name, "flowgate.reset.hold_ms=500");
            found.push(with_command(Kind::HoldPastIdle.found(&group.name, what), command));
        }
    }
}

/// A target that carries more than its weight.
fn largest_share(group: &GroupFacts) -> Option<Finding> {
    let flows = group.flows();
    let weights: u64 = group.in_scope().map(|target| u64::from(target.weight)).sum();
    let largest: &TargetFacts = group.in_scope().max_by_key(|target| target.flows)?;
    if flows < FLOWS_THAT_TELL || weights == 0 || group.in_scope().count() < 2 {
        return None;
    }
    let (share, due) = (percent(largest.flows, flows), percent(u64::from(largest.weight), weights));
    if share < due * TOO_LARGE_A_SHARE {
        return None;
    }
    let (why, command) = match group.settings.stickiness {
        Stickiness::FiveTuple => (
            "Flows keep their target for life, so that a target which came later, or was out, has few.",
            None,
        ),
        _ => (
            "Stickiness gives all flows of a pair of addresses to one target: few pairs are shared out badly.",
            Some(set(&group.name, "stickiness.enabled=false")),
        ),
    };
    let what = format!(
        "Target {} carries {} of {flows} live flows, {share} %, and its weight's share is {due} %. {why}",
        largest.address, largest.flows
    );
    Some(Finding { command, ..Kind::LargestShare.found(group.target_name(largest), what) })
}
