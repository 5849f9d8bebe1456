//! Targets: the glance, the full view, and what became of those registered and deregistered.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::ChangeFlags;
use super::client::{CliError, typed};
use super::output::print;
use super::table::{Look, number, optional, setting, text};
use super::wait::{self, DrainEnd};
use crate::control::health::HealthState;
use crate::control::shown::span;
use crate::control::socket::methods::groups::{DescribeTargetGroups, TargetGroups};
use crate::control::socket::methods::health::{DescribeTargetHealth, GroupHealth};
use crate::control::socket::methods::registration::{DeregisterTargets, RegisterTargets, Registrations};
use crate::control::socket::views::InBandView;
use serde_json::Value;
use std::net::Ipv4Addr;

/// Shows the targets of `group`, or of every group, one table after the other. As JSON: one list
/// of what `describe-target-health` answers.
pub(super) fn glance(session: &mut Session, group: Option<String>) -> Result<(), CliError> {
    let groups = match group {
        Some(group) => vec![group],
        None => {
            let all = session.client.call("describe-target-groups", &DescribeTargetGroups::default())?;
            let all: TargetGroups = typed(all)?;
            all.target_groups.into_iter().map(|group| group.target_group_name).collect()
        }
    };
    let mut results = Vec::new();
    for target_group_arn in groups {
        let params = DescribeTargetHealth { target_group_arn, targets: Vec::new() };
        results.push(session.client.call("describe-target-health", &params)?);
    }
    session.output.emit(Value::Array(results), |groups: &Vec<GroupHealth>, look| {
        let shown: Vec<String> = groups.iter().map(|group| glance_at(group, look)).collect();
        shown.join("\n")
    })
}

/// One group at a glance.
fn glance_at(group: &GroupHealth, look: &Look) -> String {
    let rows = group.target_health_descriptions.iter().map(|target| {
        [
            text(target.target.id),
            look.state(target.target_health.state),
            optional(target.target_health.reason),
            optional(target.since.map(|since| look.ago(since))),
            number(target.flows),
        ]
    });
    let table = look.table(["TARGET", "STATE", "REASON", "SINCE", "FLOWS"], rows.collect());
    format!("{}\n{table}", headline(group))
}

/// A group in one line.
fn headline(group: &GroupHealth) -> String {
    let targets = &group.target_health_descriptions;
    let healthy = targets.iter().filter(|target| target.target_health.state == HealthState::Healthy).count();
    format!(
        "{}: {healthy} of {} targets healthy; a dead one is detected within {}",
        group.target_group_name,
        targets.len(),
        setting(group.detection_time_ms)
    )
}

/// A group in full: the numbers, and below them what was seen of those that are not healthy.
pub(super) fn health(group: &GroupHealth, look: &Look) -> String {
    let rows = group.target_health_descriptions.iter().map(|target| {
        [
            text(target.target.id),
            text(&target.target.availability_zone),
            number(target.target.weight),
            look.state(target.target_health.state),
            optional(target.since.map(|since| look.since(since))),
            number(target.flows),
            number(target.would_die),
            number(target.in_band.map_or_else(|| "-".to_owned(), silence)),
        ]
    });
    let headings = ["TARGET", "ZONE", "WEIGHT", "STATE", "SINCE", "FLOWS", "WOULD DIE", "SILENT"];
    let mut shown = format!("{}\n{}", headline(group), look.table(headings, rows.collect()));
    let reasons: Vec<_> = group
        .target_health_descriptions
        .iter()
        .filter_map(|target| {
            let reason = target.target_health.reason?;
            Some([text(target.target.id), text(reason), text(&target.target_health.description)])
        })
        .collect();
    // Those that no packet reaches, whatever their checks say.
    let unresolved: Vec<_> = group
        .target_health_descriptions
        .iter()
        .filter_map(|target| {
            let neighbour = target.neighbour.as_ref().filter(|neighbour| neighbour.mac.is_none())?;
            Some([text(target.target.id), optional(neighbour.next_hop), text(&neighbour.state)])
        })
        .collect();
    if !unresolved.is_empty() {
        shown.push_str(&format!(
            "\n{}",
            look.table(["UNRESOLVED TARGET", "NEXT HOP", "NEIGHBOUR"], unresolved)
        ));
    }
    if !reasons.is_empty() {
        shown.push_str(&format!("\n{}", look.table(["TARGET", "REASON", "DESCRIPTION"], reasons)));
    }
    shown
}

/// For how long a target has been silent, if it is.
fn silence(in_band: InBandView) -> String {
    match in_band.silent_for_ms {
        0 => "-".to_owned(),
        ms => span(ms),
    }
}

/// Registers targets, and with `--wait` comes back when they are healthy.
pub(super) fn register(
    session: &mut Session,
    params: RegisterTargets,
    how: &ChangeFlags,
) -> Result<(), CliError> {
    session.change("register-targets", &params, how, registrations)?;
    if !how.is_to_wait() {
        return Ok(());
    }
    let targets: Vec<Ipv4Addr> = params.targets.iter().map(|target| target.id).collect();
    wait::for_healthy(&mut session.client, &params.target_group_arn, &targets, how.patience)?;
    if session.output.is_for_people() {
        let who = if targets.len() == 1 { "The target is" } else { "The targets are" };
        print(&format!("{who} healthy.\n"))?;
    }
    Ok(())
}

/// Deregisters targets, and with `--wait` comes back when they are gone.
pub(super) fn deregister(
    session: &mut Session,
    params: DeregisterTargets,
    how: &ChangeFlags,
) -> Result<(), CliError> {
    session.change("deregister-targets", &params, how, registrations)?;
    if !how.is_to_wait() || params.targets.is_empty() {
        return Ok(());
    }
    let targets: Vec<Ipv4Addr> = params.targets.iter().map(|target| target.id).collect();
    let (group, limit) = (&params.target_group_arn, how.patience.timeout);
    let left = wait::for_drained(&mut session.client, group, &targets, DrainEnd::Gone, limit)?;
    if session.output.is_for_people() {
        print(&format!("The drain has ended; {left} flows are left.\n"))?;
    }
    Ok(())
}

pub(super) fn registrations(result: &Registrations, look: &Look) -> String {
    if result.changed.is_empty() {
        return format!("Nothing changed; the configuration's generation is {}.\n", result.generation);
    }
    let rows = result.changed.iter().map(|target| [text(target.id), text(&target.change)]);
    let table = look.table(["TARGET", "CHANGE"], rows.collect());
    format!("{table}\nThe configuration's generation is {}.\n", result.generation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use jiff::tz::TimeZone;
    use serde_json::json;

    fn group() -> GroupHealth {
        let target = |id: &str, zone: &str, health: Value, flows: u64, would_die: u64| {
            json!({
                "Target": {"Id": id, "Port": 6081, "AvailabilityZone": zone, "Weight": 1},
                "HealthCheckPort": "80", "TargetHealth": health,
                "Since": {"UnixMs": 1_795_985_257_007_i64, "Rfc3339": ""}, "Flows": flows, "WouldDie": would_die,
                "InBand": {"PacketsToTarget": 9, "PacketsFromTarget": 5,
                           "SilentForMs": if flows == 0 { 12_500 } else { 0 }}
            })
        };
        serde_json::from_value(json!({
            "TargetGroupName": "fw", "DetectionTimeMs": 150,
            "TargetHealthDescriptions": [
                target("10.0.0.1", "a", json!({"State": "healthy"}), 1200, 1100),
                target("10.0.0.2", "all", json!({"State": "unhealthy", "Reason": "Target.FailedHealthChecks",
                    "Description": "Health checks failed: connection refused by 10.0.0.2:80 after 0.2 ms"}), 0, 0),
            ]
        }))
        .unwrap()
    }

    fn look() -> Look {
        Look::plain(Timestamp::from_unix_ms(1_795_985_509_007), TimeZone::UTC)
    }

    #[test]
    fn the_glance_says_who_is_in_since_when_and_with_how_many_flows() {
        let expected = "\
fw: 1 of 2 targets healthy; a dead one is detected within 150 ms
TARGET    STATE      REASON                     SINCE   FLOWS
10.0.0.1  healthy    -                          4m 12s   1200
10.0.0.2  unhealthy  Target.FailedHealthChecks  4m 12s      0
";
        assert_eq!(glance_at(&group(), &look()), expected);
    }

    #[test]
    fn the_full_view_has_numbers_first_and_then_what_was_seen() {
        let expected = "\
fw: 1 of 2 targets healthy; a dead one is detected within 150 ms
TARGET    ZONE  WEIGHT  STATE      SINCE         FLOWS  WOULD DIE  SILENT
10.0.0.1  a          1  healthy    20:47:37.007   1200       1100       -
10.0.0.2  all        1  unhealthy  20:47:37.007      0          0   12.5s

TARGET    REASON                     DESCRIPTION
10.0.0.2  Target.FailedHealthChecks  Health checks failed: connection refused by 10.0.0.2:80 after
                                     0.2 ms
";
        assert_eq!(health(&group(), &look()), expected);
    }
}
