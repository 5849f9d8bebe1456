//! How the targets of a group stand, and what their checks came to.

use std::fmt;

use crate::control::core::Measures;
use crate::control::health::{CheckTotals, HealthState};
use crate::control::monitor::metrics::family::{Family, Series};
use crate::control::monitor::metrics::snapshot::OfGroup;

const GROUP: &[&str] = &["load_balancer", "target_group"];

fn labels(one: &OfGroup) -> [&str; 2] {
    [&one.balancer, &one.name]
}

/// Targets by state.
pub fn by_state(labels: &[&str], measures: &Measures, out: &mut Series<'_>) -> fmt::Result {
    let mut labels = labels.to_vec();
    labels.push("");
    for state in HealthState::ALL {
        *labels.last_mut().ok_or(fmt::Error)? = state.as_str();
        out.gauge(&labels, measures.in_state(state))?;
    }
    Ok(())
}

/// Checks by result, with the words of the reason codes.
pub fn by_result(labels: &[&str], checks: &CheckTotals, out: &mut Series<'_>) -> fmt::Result {
    let mut labels = labels.to_vec();
    labels.push("");
    for (result, count) in [
        ("success", checks.successes()),
        ("timeout", checks.timeouts),
        ("response_code_mismatch", checks.mismatches),
        ("failed", checks.failures),
        ("internal_error", checks.internal_errors),
    ] {
        *labels.last_mut().ok_or(fmt::Error)? = result;
        out.counter(&labels, count)?;
    }
    Ok(())
}

pub const FAMILIES: &[Family] = &[
    Family::gauge(
        "flowgate_target_group_targets",
        &["load_balancer", "target_group", "state"],
        "Targets of the group, by state of health",
        |snapshot, out| snapshot.groups.iter().try_for_each(|one| by_state(&labels(one), &one.measures, out)),
    )
    .cloudwatch(&["HealthyHostCount", "UnHealthyHostCount"]),
    Family::counter(
        "flowgate_target_group_health_changes",
        &["load_balancer", "target_group", "state"],
        "How often a target of the group came to be in the state",
        |snapshot, out| {
            snapshot.groups.iter().try_for_each(|one| {
                let [balancer, group] = labels(one);
                HealthState::ALL.iter().try_for_each(|state| {
                    out.counter(&[balancer, group, state.as_str()], one.health_changes[state.index()])
                })
            })
        },
    ),
    Family::counter(
        "flowgate_target_group_health_checks",
        &["load_balancer", "target_group", "result"],
        "Health checks of the group's targets that have ended, by result",
        |snapshot, out| {
            snapshot.groups.iter().try_for_each(|one| by_result(&labels(one), &one.checks.totals, out))
        },
    ),
    Family::counter(
        "flowgate_target_group_health_checks_out_of_turn",
        GROUP,
        "Health checks made at once because a target returned nothing",
        |snapshot, out| {
            snapshot
                .groups
                .iter()
                .try_for_each(|one| out.counter(&labels(one), one.checks.totals.out_of_turn))
        },
    ),
    Family::histogram(
        "flowgate_target_group_health_check_duration_seconds",
        GROUP,
        "From the begin of a health check to its result, whatever that was",
        |snapshot, out| {
            snapshot.groups.iter().try_for_each(|one| out.histogram(&labels(one), &one.checks.latency))
        },
    ),
    Family::histogram(
        "flowgate_target_group_health_check_delay_seconds",
        GROUP,
        "How much later than its schedule a health check began",
        |snapshot, out| {
            snapshot.groups.iter().try_for_each(|one| out.histogram(&labels(one), &one.checks.delay))
        },
    ),
    Family::gauge(
        "flowgate_target_group_detection_seconds",
        GROUP,
        "Interval times unhealthy threshold, by the group's settings: within what time a dead target is noticed whose checks fail at once, as one's that refuses them",
        |snapshot, out| {
            snapshot.groups.iter().try_for_each(|one| out.gauge(&labels(one), one.detection.as_secs_f64()))
        },
    ),
    Family::gauge(
        "flowgate_target_group_worst_detection_seconds",
        GROUP,
        "Interval times unhealthy threshold, and a timeout: within what time a dead target is noticed at worst, as one that is silent is, whose checks time out",
        |snapshot, out| {
            let mut each = snapshot.groups.iter();
            each.try_for_each(|one| out.gauge(&labels(one), one.worst_detection.as_secs_f64()))
        },
    ),
    Family::gauge(
        "flowgate_target_group_health_check_interval_seconds",
        GROUP,
        "From the begin of one health check of a target to that of the next, by the group's settings",
        |snapshot, out| {
            snapshot.groups.iter().try_for_each(|one| out.gauge(&labels(one), one.interval.as_secs_f64()))
        },
    ),
];
