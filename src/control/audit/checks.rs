//! How soon a dead target is noticed, and whether a live one is taken for dead.

use std::time::Duration;

use super::facts::{Facts, GroupFacts, TargetFacts};
use super::kinds::{Kind, with_command};
use super::summary::worst_detection_time;
use crate::control::duration::milliseconds;
use crate::control::explain::words::set;
use crate::control::health::HealthState;
use crate::control::model::Probe;
use crate::control::socket::views::{Finding, Severity};

/// Slower than this, users notice before the gateway does.
const SLOW_DETECTION: Duration = Duration::from_secs(10);

/// An answer that takes this part of the timeout is too close to it: what is twice as busy is taken for dead.
const TOO_CLOSE: u32 = 2;

/// Answers before their times say anything.
const ANSWERS_THAT_TELL: u64 = 10;

pub(super) fn look(_: &Facts, group: &GroupFacts, found: &mut Vec<Finding>) {
    if group.balancer.is_none() {
        return; // It is not checked.
    }
    let check = &group.settings.health_check;
    let worst = worst_detection_time(check);
    if worst > SLOW_DETECTION {
        let what = format!(
            "A dead target is noticed after {} (interval × unhealthy threshold), at worst after {}.",
            shown(check.detection_time()),
            shown(worst)
        );
        let command =
            set(&group.name, "flowgate.health_check.interval_ms=1000 flowgate.health_check.timeout_ms=500");
        found.push(with_command(Kind::DetectionSlow.found(&group.name, what), command));
    }
    found.extend(shoots_busy(group));
    if check.unhealthy_threshold == 1 {
        let what = "The unhealthy threshold is 1.";
        let command = format!(
            "flowgate modify-target-group --target-group {} --unhealthy-threshold-count 2",
            group.name
        );
        found.push(with_command(Kind::ThresholdOne.found(&group.name, what), command));
    }
    if check.probe == Probe::Tcp {
        let what = format!("Targets are checked by opening a TCP connection to port {}.", check.port);
        let command = format!(
            "flowgate modify-target-group --target-group {} --health-check-protocol HTTP --health-check-path /",
            group.name
        );
        found.push(with_command(Kind::ConnectOnly.found(&group.name, what), command));
    }
    match group.settings.inband_silence {
        None if group.resets() => {
            let what = "flowgate.inband.silence_ms is 0.";
            let command = set(&group.name, "flowgate.inband.silence_ms=500");
            found.push(with_command(Kind::SilenceUnwatched.found(&group.name, what), command));
        }
        Some(silence) if silence >= check.detection_time() => {
            let what = format!(
                "flowgate.inband.silence_ms is {}, and the checks notice a death within {}.",
                silence.as_millis(),
                shown(check.detection_time())
            );
            // The least that there is, or a quarter of what the checks take.
            let sooner = (check.detection_time() / 4).max(Duration::from_millis(50)).as_millis();
            let command = set(&group.name, &format!("flowgate.inband.silence_ms={sooner}"));
            found.push(with_command(Kind::SilenceTooLate.found(&group.name, what), command));
        }
        _ => {}
    }
}

/// A target whose answers come close to the timeout.
fn shoots_busy(group: &GroupFacts) -> Option<Finding> {
    let check = &group.settings.health_check;
    let told = |target: &&TargetFacts| {
        target.state == HealthState::Healthy && target.answers.count >= ANSWERS_THAT_TELL
    };
    let slowest = group.in_scope().filter(told).max_by_key(|target| target.answers.slowest)?;
    let took = slowest.answers.slowest;
    if took * TOO_CLOSE < check.timeout {
        return None;
    }
    let what = format!(
        "Target {} took {} for an answer lately ({} as a rule), and {} is the timeout; {} such failures in a row take it out.",
        slowest.address,
        shown(took),
        shown(slowest.answers.usual),
        shown(check.timeout),
        check.unhealthy_threshold
    );
    // Four times what was seen.
    let timeout = milliseconds(took * 4).clamp(20, 120_000);
    let interval = timeout.max(milliseconds(check.interval));
    let command = set(
        &group.name,
        &format!("flowgate.health_check.interval_ms={interval} flowgate.health_check.timeout_ms={timeout}"),
    );
    let finding = with_command(Kind::ShootsBusy.found(&group.name, what), command);
    // Where nothing is reset or moved, new flows alone go elsewhere for a while.
    let harmless = !group.settings.reset_on_unhealthy && !moves(group);
    Some(if harmless { Finding { severity: Severity::Warning, ..finding } } else { finding })
}

fn moves(group: &GroupFacts) -> bool {
    group.settings.failover == crate::control::model::Failover::Rebalance
}

/// A time as people write it.
pub(super) fn shown(time: Duration) -> String {
    match time {
        time if time >= Duration::from_secs(1) => {
            let tenths = time.as_millis() / 100;
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        time if time >= Duration::from_millis(10) => format!("{} ms", time.as_millis()),
        time => format!("{:.1} ms", time.as_secs_f64() * 1e3),
    }
}
