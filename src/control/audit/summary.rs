//! What a target group does when a target fails, in figures.

use std::time::Duration;

use super::facts::GroupFacts;
use crate::control::duration::milliseconds;
use crate::control::health::AnswerTimes;
use crate::control::model::{Failover, HealthCheckSettings, Stickiness};
use crate::control::socket::views::{GroupAudit, TargetAudit};

/// The detection time at worst: death comes right after the last check that succeeded, so that an interval goes by
/// before the first that fails, and the last of them takes its whole timeout to fail.
pub fn worst_detection_time(check: &HealthCheckSettings) -> Duration {
    check.detection_time() + check.timeout
}

pub(super) fn of_group(group: &GroupFacts) -> GroupAudit {
    let (settings, flows) = (&group.settings, group.flows());
    let targets: Vec<TargetAudit> = group
        .targets
        .iter()
        .map(|target| {
            let AnswerTimes { count, usual, slowest } = target.answers;
            let ms = |time: Duration| (count > 0).then(|| tenths(time.as_secs_f64() * 1e3));
            TargetAudit {
                target: target.address,
                state: target.state,
                flows: target.flows,
                would_end: target.would_end,
                share_percent: percent(target.flows, flows),
                usual_answer_ms: ms(usual),
                slowest_answer_ms: ms(slowest),
            }
        })
        .collect();
    let listener = group.balancer.as_ref().map(|balancer| &balancer.listener);
    GroupAudit {
        target_group: group.name.clone(),
        load_balancer: group.balancer.as_ref().map(|balancer| balancer.name.clone()),
        failover: match settings.failover {
            Failover::NoRebalance => "no_rebalance",
            Failover::Rebalance => "rebalance",
        }
        .to_owned(),
        stickiness: match settings.stickiness {
            Stickiness::FiveTuple => "5-tuple",
            Stickiness::ThreeTuple => "3-tuple",
            Stickiness::TwoTuple => "2-tuple",
        }
        .to_owned(),
        reset_on_unhealthy: settings.reset_on_unhealthy,
        reset_on_deregistration: settings.reset_on_deregistration,
        reset_on_idle_timeout: listener.is_some_and(|listener| listener.reset_on_idle_timeout),
        detection_time_ms: milliseconds(settings.health_check.detection_time()),
        worst_detection_time_ms: milliseconds(worst_detection_time(&settings.health_check)),
        hold_ms: u64::from(settings.reset_guards.hold_ms),
        tcp_idle_timeout_ms: listener.map_or(0, |listener| milliseconds(listener.tcp_idle_timeout)),
        flows,
        largest_share_percent: targets.iter().map(|target| target.share_percent).fold(0.0, f64::max),
        targets,
    }
}

/// A part of a whole in percent, to a tenth; of nothing 0.
#[expect(clippy::cast_precision_loss, reason = "to a tenth of a percent")]
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { tenths(part as f64 * 100.0 / whole as f64) }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
