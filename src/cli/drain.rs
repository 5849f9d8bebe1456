//! `flowgate drain`: takes a target out of service by its address alone, and waits until it may be switched off.

#![forbid(unsafe_code)]

use super::arguments::{ChangeFlags, DrainFlags};
use super::client::{CliError, typed};
use super::output::print;
use super::wait::{self, DrainEnd};
use super::{Session, targets};
use crate::control::nearest::nearest;
use crate::control::socket::methods::groups::{DescribeTargetGroups, TargetGroups};
use crate::control::socket::methods::health::{DescribeTargetHealth, GroupHealth};
use crate::control::socket::methods::registration::{DeregisterTargets, TargetName};
use std::net::Ipv4Addr;

pub(super) fn run(session: &mut Session, flags: DrainFlags, how: &ChangeFlags) -> Result<(), CliError> {
    let group = match flags.target_group {
        Some(group) => group,
        None => group_of(session, flags.target)?,
    };
    let params = DeregisterTargets {
        target_group_arn: group.clone(),
        targets: vec![TargetName { id: flags.target, port: None }],
    };
    session.change("deregister-targets", &params, how, targets::registrations)?;
    if !how.is_to_wait() {
        return Ok(());
    }
    let (targets, limit) = ([flags.target], how.patience.timeout);
    let left = wait::for_drained(&mut session.client, &group, &targets, DrainEnd::Empty, limit)?;
    if session.output.is_for_people() {
        print(&drained(flags.target, left))?;
    }
    Ok(())
}

/// What there is to say at the end of a drain.
pub(super) fn drained(target: Ipv4Addr, flows_left: u64) -> String {
    match flows_left {
        0 => format!("{target} is drained: it has no flows left.\n"),
        1 => format!("{target} is drained: its delay has elapsed, and 1 flow was left.\n"),
        left => format!("{target} is drained: its delay has elapsed, and {left} flows were left.\n"),
    }
}

/// The one group that has `target`.
fn group_of(session: &mut Session, target: Ipv4Addr) -> Result<String, CliError> {
    let all = session.client.call("describe-target-groups", &DescribeTargetGroups::default())?;
    let (mut groups, mut known) = (Vec::new(), Vec::new());
    for group in typed::<TargetGroups>(all)?.target_groups {
        let params = DescribeTargetHealth { target_group_arn: group.target_group_name, targets: Vec::new() };
        let health: GroupHealth = typed(session.client.call("describe-target-health", &params)?)?;
        if health.target_health_descriptions.iter().any(|one| one.target.id == target) {
            groups.push(health.target_group_name);
        }
        known.extend(health.target_health_descriptions.iter().map(|one| one.target.id.to_string()));
    }
    match groups.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let meant = nearest(&target.to_string(), known.iter().map(String::as_str));
            let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            Err(CliError::Misnamed(format!("no target group has the target {target}{meant}")))
        }
        several => Err(CliError::Misnamed(format!(
            "{target} is a target of {}: say which with --target-group",
            several.join(" and of ")
        ))),
    }
}
