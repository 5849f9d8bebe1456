//! How each target's last failover or drain went, from its record: the same figures as in `flowgate report`.

use std::fmt;

use crate::control::monitor::metrics::family::{Family, Series};
use crate::control::monitor::metrics::snapshot::{OfFailover, Snapshot};

const TARGET: &[&str] = &["load_balancer", "target_group", "availability_zone", "target", "cause"];

/// A series for each record.
fn of_each(snapshot: &Snapshot, out: &mut Series<'_>, value: impl Fn(&OfFailover) -> f64) -> fmt::Result {
    snapshot.last_failovers.iter().try_for_each(|one| {
        let cause = one.cause.to_string();
        out.gauge(&[&one.balancer, &one.group, &one.zone, &one.address, &cause], value(one))
    })
}

/// A series for each named figure of each record.
fn of_each_named(
    snapshot: &Snapshot,
    out: &mut Series<'_>,
    values: impl Fn(&OfFailover) -> Vec<(&'static str, f64)>,
) -> fmt::Result {
    snapshot.last_failovers.iter().try_for_each(|one| {
        let cause = one.cause.to_string();
        values(one).into_iter().try_for_each(|(name, value)| {
            out.gauge(&[&one.balancer, &one.group, &one.zone, &one.address, &cause, name], value)
        })
    })
}

#[expect(clippy::cast_precision_loss, reason = "below 2^53 microseconds, 285 years, or as many flows")]
fn exactly(number: u64) -> f64 {
    number as f64
}

pub const FAMILIES: &[Family] = &[
    Family::gauge(
        "flowgate_target_failover_id",
        TARGET,
        "The number of the target's newest failover or drain, which flowgate report takes; until a day after its end",
        |snapshot, out| of_each(snapshot, out, |one| exactly(one.id)),
    ),
    Family::gauge(
        "flowgate_target_failover_timestamp_seconds",
        TARGET,
        "When the target's newest failover or drain was decided, since 1970",
        |snapshot, out| of_each(snapshot, out, |one| one.decided),
    ),
    Family::gauge(
        "flowgate_target_failover_open",
        TARGET,
        "1 while the target's newest failover or drain goes on",
        |snapshot, out| of_each(snapshot, out, |one| exactly(one.is_open.into())),
    ),
    Family::gauge(
        "flowgate_target_failover_flows",
        &["load_balancer", "target_group", "availability_zone", "target", "cause", "outcome"],
        "Flows of the target in its newest failover or drain, by what became of them: reset, moved, ended otherwise, left",
        |snapshot, out| {
            of_each_named(snapshot, out, |one| {
                let flows = &one.flows;
                vec![
                    ("reset", exactly(flows.reset)),
                    ("moved", exactly(flows.moved)),
                    ("ended", exactly(flows.ended)),
                    ("left", exactly(flows.left)),
                ]
            })
        },
    ),
    Family::gauge(
        "flowgate_target_failover_tcp_resets",
        TARGET,
        "TCP resets sent in the target's newest failover or drain: more than flows where both ends are told",
        |snapshot, out| of_each(snapshot, out, |one| exactly(one.resets)),
    ),
    Family::gauge(
        "flowgate_target_failover_phase_seconds",
        &["load_balancer", "target_group", "availability_zone", "target", "cause", "phase"],
        "How long each phase of the target's newest failover or drain took; of a drain, from the end of its delay",
        |snapshot, out| {
            of_each_named(snapshot, out, |one| {
                let known = one.durations.named().into_iter().filter_map(|(name, took)| Some((name, took?)));
                known.map(|(name, took)| (name, exactly(took) / 1e6)).collect()
            })
        },
    ),
];
