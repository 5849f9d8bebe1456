//! How each target stands.

use super::groups::by_result;
use crate::control::health::HealthState;
use crate::control::monitor::metrics::family::Family;
use crate::control::monitor::metrics::snapshot::OfTarget;

const TARGET: &[&str] = &["load_balancer", "target_group", "availability_zone", "target"];

fn labels(one: &OfTarget) -> [&str; 4] {
    [&one.balancer, &one.group, &one.zone, &one.address]
}

pub const FAMILIES: &[Family] = &[
    Family::gauge("flowgate_target_healthy", TARGET, "1 if the target is healthy", |snapshot, out| {
        let mut each = snapshot.targets.iter();
        each.try_for_each(|one| out.gauge(&labels(one), u64::from(one.state == HealthState::Healthy)))
    }),
    Family::gauge(
        "flowgate_target_health_state",
        &["load_balancer", "target_group", "availability_zone", "target", "state", "reason"],
        "1 for the state that the target is in, with the reason code; a series for each target, whose labels change",
        |snapshot, out| {
            snapshot.targets.iter().try_for_each(|one| {
                let [balancer, group, zone, target] = labels(one);
                let reason = one.reason.map_or("", |reason| reason.as_str());
                out.gauge(&[balancer, group, zone, target, one.state.as_str(), reason], 1_u64)
            })
        },
    ),
    Family::gauge(
        "flowgate_target_health_since_timestamp_seconds",
        TARGET,
        "When the target came to be in its state, since 1970",
        |snapshot, out| snapshot.targets.iter().try_for_each(|one| out.gauge(&labels(one), one.since)),
    ),
    Family::counter(
        "flowgate_target_health_checks",
        &["load_balancer", "target_group", "availability_zone", "target", "result"],
        "Health checks of the target that have ended, by result",
        |snapshot, out| snapshot.targets.iter().try_for_each(|one| by_result(&labels(one), &one.checks, out)),
    ),
    Family::gauge(
        "flowgate_target_last_health_check_duration_seconds",
        TARGET,
        "From the begin of the target's last health check to its result",
        |snapshot, out| {
            let checked = snapshot.targets.iter().filter_map(|one| Some((one, one.last_check?)));
            checked.into_iter().try_for_each(|(one, took)| out.gauge(&labels(one), took.as_secs_f64()))
        },
    ),
    Family::gauge(
        "flowgate_target_silent_seconds",
        TARGET,
        "For how long the target has returned nothing of what it was sent; 0 if it has, or was sent nothing",
        |snapshot, out| {
            snapshot.targets.iter().try_for_each(|one| out.gauge(&labels(one), one.silent_for.as_secs_f64()))
        },
    ),
    Family::gauge("flowgate_target_weight", TARGET, "The target's weight", |snapshot, out| {
        snapshot.targets.iter().try_for_each(|one| out.gauge(&labels(one), u64::from(one.weight)))
    }),
    Family::gauge(
        "flowgate_target_flows_at_risk",
        TARGET,
        "Live flows that the target's sudden death would end: its TCP flows, unless they would move",
        |snapshot, out| snapshot.targets.iter().try_for_each(|one| out.gauge(&labels(one), one.at_risk)),
    ),
    Family::gauge(
        "flowgate_target_drain_end_timestamp_seconds",
        TARGET,
        "When the target's drain ends, since 1970; only while it drains",
        |snapshot, out| {
            let draining = snapshot.targets.iter().filter_map(|one| Some((one, one.drain_ends?)));
            draining.into_iter().try_for_each(|(one, ends)| out.gauge(&labels(one), ends))
        },
    ),
];
