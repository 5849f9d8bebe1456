//! Targets that do not take their part, and those that are on their way out.

use super::balancers::describe;
use super::limits::is_silent;
use super::recent::{Count, MINUTE};
use super::{EACH, Finder, Kind};
use crate::control::events::Timestamp;
use crate::control::health::{HealthState, TargetKey};
use crate::control::shown::{counted, span};
use crate::control::socket::views::{TargetGroupOverview, TargetOverview};

/// Targets of a group.
type Several<'a> = Vec<&'a TargetOverview>;

pub(super) fn look(finder: &mut Finder<'_>) {
    for group in &finder.overview.target_groups {
        let all = |is_one: &dyn Fn(&TargetOverview) -> bool| -> Several<'_> {
            group.targets.iter().filter(|target| is_one(target)).collect()
        };
        unhealthy(group, all(&|one| one.state == HealthState::Unhealthy), finder);
        unreachable(group, &all(&is_unreachable), finder);
        let recent = finder.recent;
        let is_sent_to = |one: &TargetOverview| recent.is_sent_to(&key(group, one));
        silent(group, &all(&|one| is_silent(one.state, one.silent_for_ms, is_sent_to(one))), finder);
        unavailable(group, &all(&|one| one.state == HealthState::Unavailable), finder);
        drained(group, finder);
        draining(group, &all(&|one| one.drain.is_some()), finder);
        gone(group, &all(&|one| one.checks.is_none() && one.drain.is_none() && one.flows > 0), finder);
    }
}

fn key(group: &TargetGroupOverview, target: &TargetOverview) -> TargetKey {
    TargetKey::new(group.name.as_str(), target.address)
}

fn name(group: &TargetGroupOverview, target: &TargetOverview) -> String {
    key(group, target).to_string()
}

fn names(group: &TargetGroupOverview, targets: &[&TargetOverview]) -> Vec<String> {
    targets.iter().map(|target| name(group, target)).collect()
}

fn flows(targets: &[&TargetOverview]) -> u64 {
    targets.iter().map(|target| target.flows).sum()
}

/// What a check saw, without what is said anyway and without the number of an error that has words. The web page says
/// the same of what it is told (`seenBy` in `words.js`).
pub(super) fn seen(description: &str) -> String {
    let seen = match description.strip_prefix("Health checks failed with these codes: ") {
        Some(codes) => format!("answered {codes}"),
        None => {
            let said = ["Health checks failed: ", "Request timed out: "];
            said.iter().find_map(|said| description.strip_prefix(said)).unwrap_or(description).to_owned()
        }
    };
    let seen = match seen.split_once(" (os error ") {
        Some((before, after)) => format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest)),
        None => seen,
    };
    seen.strip_suffix('.').map_or(seen.clone(), str::to_owned)
}

fn unhealthy(group: &TargetGroupOverview, mut down: Several<'_>, finder: &mut Finder<'_>) {
    // Those who went last are the news.
    down.sort_by_key(|target| std::cmp::Reverse(target.since));
    let fate = match (group.rebalances, group.resets_on_unhealthy) {
        (true, _) => "move to others",
        (false, true) => "are reset",
        (false, false) => "hang",
    };
    let figures = |targets: &[&TargetOverview]| {
        let reset: u64 = targets.iter().map(|target| target.reset_flows_last_minute).sum();
        let reset = if reset == 0 {
            String::new()
        } else {
            format!(", {} reset in the last minute", counted(reset, "flow"))
        };
        format!("{} left{reset}", counted(flows(targets), "flow"))
    };
    if down.len() <= EACH {
        for target in down {
            let key = name(group, target);
            let seen = seen(&target.description);
            let why = if seen.is_empty() { String::new() } else { format!(" ({seen})") };
            let what = format!("{key} is unhealthy{why}: its flows {fate}");
            let trouble = finder.found(Kind::TargetUnhealthy, [key], target.since, what);
            trouble.figures = figures(&[target]);
            trouble.command = Some(match target.open_failover {
                Some(id) => format!("flowgate report {id}"),
                None => describe(&group.name),
            });
        }
        return;
    }
    let of = group.targets.iter().filter(|one| one.checks.is_some() && one.drain.is_none()).count();
    let what = format!("{} of {of} targets of {} are unhealthy: their flows {fate}", down.len(), group.name);
    // The first that went.
    let since: Option<Timestamp> = down.last().and_then(|target| target.since);
    let trouble = finder.found(Kind::TargetUnhealthy, names(group, &down), since, what);
    trouble.figures = figures(&down);
    trouble.command = Some(describe(&group.name));
}

fn is_unreachable(target: &TargetOverview) -> bool {
    !matches!(target.state, HealthState::Unused | HealthState::Unhealthy) && target.neighbour.mac.is_none()
}

fn unreachable(group: &TargetGroupOverview, targets: &[&TargetOverview], finder: &mut Finder<'_>) {
    each_or_all(finder, Kind::TargetUnreachable, group, targets, |target| match target {
        Some(one) if one.neighbour.state == "no-route" => {
            (format!("{} cannot be sent anything: there is no route to it", name(group, one)), None)
        }
        Some(one) => (
            format!(
                "{} cannot be sent anything: its link-layer address is not known ({})",
                name(group, one),
                one.neighbour.state
            ),
            None,
        ),
        None => (format!("{} targets of {} cannot be sent anything", targets.len(), group.name), None),
    });
}

fn silent(group: &TargetGroupOverview, targets: &[&TargetOverview], finder: &mut Finder<'_>) {
    let at = finder.overview.at;
    let since = |silent_for: u64| {
        Some(Timestamp::from_unix_ms(
            at.unix_ms().saturating_sub(i64::try_from(silent_for).unwrap_or(i64::MAX)),
        ))
    };
    each_or_all(finder, Kind::TargetSilent, group, targets, |target| match target {
        Some(one) => (
            format!("{} passes its checks and returns nothing of what it is sent", name(group, one)),
            since(one.silent_for_ms),
        ),
        None => (
            format!(
                "{} targets of {} pass their checks and return nothing of what they are sent",
                targets.len(),
                group.name
            ),
            since(targets.iter().map(|one| one.silent_for_ms).max().unwrap_or(0)),
        ),
    });
}

fn unavailable(group: &TargetGroupOverview, targets: &[&TargetOverview], finder: &mut Finder<'_>) {
    each_or_all(finder, Kind::TargetUnavailable, group, targets, |target| match target {
        Some(one) => (format!("{} cannot be checked: {}", name(group, one), one.description), one.since),
        None => (format!("{} targets of {} cannot be checked", targets.len(), group.name), None),
    });
}

/// What a few are each told as, or what many are told as together, and since when.
fn each_or_all(
    finder: &mut Finder<'_>,
    kind: Kind,
    group: &TargetGroupOverview,
    targets: &[&TargetOverview],
    told: impl Fn(Option<&TargetOverview>) -> (String, Option<Timestamp>),
) {
    let is_few = targets.len() <= EACH;
    for these in targets.chunks(if is_few { 1 } else { targets.len() }) {
        let (what, since) = told(these.first().copied().filter(|_| is_few));
        let trouble = finder.found(kind, names(group, these), since, what);
        trouble.figures =
            format!("{} on {}", counted(flows(these), "flow"), if these.len() == 1 { "it" } else { "them" });
        trouble.command = Some(describe(&group.name));
    }
}

/// Flows that outlived a drain.
fn drained(group: &TargetGroupOverview, finder: &mut Finder<'_>) {
    for target in &group.targets {
        let resets = finder.recent.within(MINUTE, &Count::DrainResets(key(group, target)));
        if resets > 0 {
            let key = name(group, target);
            let what = format!("Flows of {key} were reset, as its drain was over");
            let trouble = finder.found(Kind::DrainReset, [key], None, what);
            trouble.figures =
                format!("{} reset in the last minute", counted(target.reset_flows_last_minute, "flow"));
            trouble.command = Some("flowgate report".to_owned());
        }
    }
}

fn draining(group: &TargetGroupOverview, targets: &[&TargetOverview], finder: &mut Finder<'_>) {
    let started = |target: &TargetOverview| target.drain.map(|drain| drain.started);
    if targets.len() > EACH {
        let what = format!("{} targets of {} drain", targets.len(), group.name);
        let since = targets.iter().filter_map(|one| started(one)).min();
        finder.found(Kind::TargetDraining, names(group, targets), since, what).figures =
            format!("{} left", counted(flows(targets), "flow"));
        return;
    }
    let now = finder.overview.at;
    for target in targets {
        let key = name(group, target);
        let left = target.drain.map_or(0, |drain| drain.ends.since(now));
        let to_go = if left > 0 { format!(", {} to go", span(left)) } else { String::new() };
        let what = format!("{key} drains");
        finder.found(Kind::TargetDraining, [key], started(target), what).figures =
            format!("{} left{to_go}", counted(target.flows, "flow"));
    }
}

fn gone(group: &TargetGroupOverview, targets: &[&TargetOverview], finder: &mut Finder<'_>) {
    each_or_all(finder, Kind::TargetGone, group, targets, |target| match target {
        Some(one) => (format!("{} is not registered any more and still has flows", name(group, one)), None),
        None => (
            format!(
                "{} targets of {} are not registered any more and still have flows",
                targets.len(),
                group.name
            ),
            None,
        ),
    });
}
