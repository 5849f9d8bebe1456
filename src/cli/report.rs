//! `flowgate report`: failovers at a glance, and one of them moment by moment.
//!
//! What each line means is in `docs/failover-report.md`.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::{Paging, ReportFlags};
use super::client::{CliError, typed};
use super::paging;
use super::table::{Look, number, text};
use crate::control::failover::{Cause, CheckSeen, EndReason, Failover, Mark};
use crate::control::shown::span;
use crate::control::socket::methods::failovers::Failovers;
use crate::control::socket::methods::page::PageSize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Prints what was asked for.
pub(super) fn run(session: &mut Session, flags: &ReportFlags, part: &Paging) -> Result<(), CliError> {
    let mut params = flags.params();
    if flags.id.is_none() && !flags.last {
        return session.list("describe-failovers", &params, "Failovers", part, glance);
    }
    if flags.last {
        params.page_size = PageSize::try_from(1).ok();
    }
    let mut result = paging::call(
        &mut session.client,
        "describe-failovers",
        &params,
        "Failovers",
        &Paging { no_paginate: true, page_size: Some(1), ..Paging::default() },
    )?;
    if let Some(result) = result.as_object_mut() {
        result.remove("NextMarker");
    }
    let found: Failovers = typed(result.clone())?;
    if found.failovers.is_empty() {
        return Err(CliError::Misnamed("there has been no failover yet".to_owned()));
    }
    session.output.emit(result, |found: &Failovers, look| {
        found.failovers.iter().map(|record| whole(record, look)).collect::<Vec<_>>().join("\n")
    })
}

/// All of them, a line each.
fn glance(found: &Failovers, look: &Look) -> String {
    if found.failovers.is_empty() && found.not_recorded == 0 {
        return "There has been no failover yet.\n".to_owned();
    }
    // How far the times are from UTC, in which the log is: once, unless summer time came between them.
    let zones: BTreeSet<String> = found.failovers.iter().map(|record| look.zone(record.decided)).collect();
    let when = |record: &Failover| match zones.len() {
        0 | 1 => look.since(record.decided),
        _ => format!("{} {}", look.since(record.decided), look.zone(record.decided)),
    };
    let decided = match zones.first() {
        Some(zone) if zones.len() == 1 => format!("DECIDED {zone}"),
        _ => "DECIDED".to_owned(),
    };
    let rows = found.failovers.iter().map(|record| {
        let flows = &record.flows;
        [
            number(record.id),
            text(when(record)),
            text(format!("{}/{}", record.target_group, record.target)),
            text(match record.cause {
                Cause::Unhealthy => "unhealthy",
                Cause::Deregistration => "drain",
            }),
            number(flows.at_decision + flows.begun),
            number(flows.reset),
            number(flows.moved),
            number(flows.left),
            text(record.durations.decision_to_first_reset.map_or_else(|| "-".to_owned(), long)),
            text(match record.ended {
                None => "goes on".to_owned(),
                Some(ended) => shortly(ended.why).to_owned(),
            }),
        ]
    });
    let headings =
        ["ID", &decided, "TARGET", "CAUSE", "FLOWS", "RESET", "MOVED", "LEFT", "1ST RESET", "ENDED"];
    let mut shown = look.table(headings, rows.collect());
    for remark in remarks(found) {
        // Into a String nothing fails.
        writeln!(shown, "\n{remark}").ok();
    }
    shown
}

/// Why a record ended, in a word or two.
fn shortly(why: EndReason) -> &'static str {
    match why {
        EndReason::Recovered => "recovered",
        EndReason::FailedAgain => "failed again",
        EndReason::Deregistered => "deregistered",
        EndReason::RegisteredAgain => "registered again",
        EndReason::NotInUse => "not in use",
        EndReason::Gone => "gone",
        EndReason::FlowsLeft => "flows left",
        EndReason::Interrupted => "interrupted",
    }
}

fn remarks(found: &Failovers) -> Vec<String> {
    let lost = (found.not_recorded > 0).then(|| {
        format!("{} more were not recorded, as too many were under way at once.", found.not_recorded)
    });
    let unsaved = found.not_stored.as_ref().map(|fault| format!("These records are not on disk: {fault}"));
    lost.into_iter().chain(unsaved).collect()
}

/// One of them in full.
fn whole(record: &Failover, look: &Look) -> String {
    let Failover { id, target_group, target, .. } = record;
    let what = match record.cause {
        Cause::Unhealthy => "turned unhealthy",
        Cause::Deregistration => "was deregistered",
    };
    let mut shown =
        format!("Failover {id}: {target_group}/{target} {what}, {}\n", look.moment(record.decided));
    write!(shown, "\n{}", sentences(setting(record), look)).ok();
    let rows = timeline(record).into_iter().map(|(mark, said)| {
        let after = mark.after_decision_microseconds;
        let sign = if after < 0 { "-" } else { "+" };
        let after = if after == 0 { "0".to_owned() } else { format!("{sign}{}", long(after.unsigned_abs())) };
        [text(look.time(mark.at)), number(after), text(said)]
    });
    write!(shown, "\n{}", look.table(["TIME", "AFTER", "WHAT HAPPENED"], rows.collect())).ok();
    let phases = phases(record).into_iter().map(|(what, took)| vec![text(what), number(long(took))]);
    let phases: Vec<_> = phases.collect();
    if !phases.is_empty() {
        write!(shown, "\n{}", look.table_of(&["PHASE", "TOOK"], phases)).ok();
    }
    write!(shown, "\n{}", sentences(sums(record), look)).ok();
    shown
}

/// Sentences, each with what it is about, broken where the terminal ends.
fn sentences(all: Vec<(&str, String)>, look: &Look) -> String {
    look.table_of(&[], all.into_iter().map(|(about, said)| vec![text(about), text(said)]).collect())
}

/// What its group was to do, and why it had to.
fn setting(record: &Failover) -> Vec<(&'static str, String)> {
    let policy = &record.policy;
    let does = match (policy.reset, policy.failover.as_str()) {
        (true, _) => "its TCP flows are reset",
        (false, "rebalance") => "its flows move to healthy targets",
        (false, _) => "its flows stay with it",
    };
    let more = [
        policy.both_ends.then(|| "both ends are told".to_owned()),
        policy.proactive.then(|| "silent ends too".to_owned()),
        (policy.hold_ms > 0).then(|| format!("not before {} ms", policy.hold_ms)),
        (policy.min_healthy_percent > 0)
            .then(|| format!("not with less than {} % healthy", policy.min_healthy_percent)),
        (policy.max_per_second > 0).then(|| format!("at most {} a second", policy.max_per_second)),
    ];
    let more: String =
        more.into_iter().flatten().filter(|_| policy.reset).map(|more| format!(", {more}")).collect();
    let after = match record.cause {
        Cause::Unhealthy => "",
        Cause::Deregistration => " when the delay is over",
    };
    let mut all: Vec<(&'static str, String)> =
        record.load_balancer.iter().map(|balancer| ("balancer", balancer.clone())).collect();
    all.push(("policy", format!("{does}{after}{more}")));
    if record.cause == Cause::Unhealthy {
        all.push((
            "checks",
            format!(
                "interval × unhealthy threshold is {}",
                super::table::setting(record.policy.detection_time_ms)
            ),
        ));
    }
    if !record.description.is_empty() {
        let reason = record.reason.map(|reason| format!("{reason}: ")).unwrap_or_default();
        all.push(("reason", format!("{reason}{}", record.description)));
    }
    all
}

/// What happened, in the order in which it did.
fn timeline(record: &Failover) -> Vec<(Mark, String)> {
    let decided = Mark { at: record.decided, after_decision_microseconds: 0 };
    let mut all: Vec<(Mark, String)> = Vec::new();
    let mut add = |mark: Option<Mark>, said: String| all.extend(mark.map(|mark| (mark, said)));
    let good = |check: &CheckSeen| format!("last good check, answered in {}", long(check.took_microseconds));
    if let Some(check) = &record.last_good_check {
        add(Some(check.began), good(check));
    }
    for check in &record.failed_checks {
        let why = check.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        add(Some(check.began), format!("check failed after {}{why}", long(check.took_microseconds)));
    }
    let flows = &record.flows;
    let standing = format!("{} of {} targets healthy", record.group.healthy, record.group.registered);
    let on_it = format!("{} flows on it, {} TCP, {standing}", flows.at_decision, flows.tcp_at_decision);
    let decision = match record.cause {
        Cause::Unhealthy => format!("decided: unhealthy; {on_it}"),
        Cause::Deregistration => format!("deregistered, drains; {on_it}"),
    };
    add(Some(decided), decision);
    add(record.last_returned, "the target returned its last packet".to_owned());
    if let Some(drain) = &record.drain {
        let left = drain.flows_then.map(|left| format!(", {left} flows left")).unwrap_or_default();
        add(drain.ended, format!("the drain is over{left}"));
    }
    for applied in &record.applied {
        add(Some(applied.at), format!("worker {} goes by it", applied.worker));
    }
    let resets = &record.resets;
    add(resets.first, "first reset".to_owned());
    if resets.last != resets.first {
        add(resets.last, "last reset".to_owned());
    }
    add(record.emptied, "no flow is left on it".to_owned());
    add(record.recovered, "the target is back".to_owned());
    if let Some(ended) = record.ended {
        add(Some(ended.at), format!("the record ends: {}", ended.why));
    }
    all.sort_by_key(|(mark, _)| mark.after_decision_microseconds);
    all
}

/// How long each phase took that is over.
pub(super) fn phases(record: &Failover) -> Vec<(String, u64)> {
    let took = &record.durations;
    let decision = match record.cause {
        Cause::Unhealthy => "decision",
        Cause::Deregistration => "end of the drain",
    };
    let all = [
        ("first failed check to decision".to_owned(), took.first_failure_to_decision),
        (format!("{decision} to the last worker"), took.decision_to_applied),
        (format!("{decision} to first reset"), took.decision_to_first_reset),
        ("first failed check to first reset".to_owned(), took.first_failure_to_first_reset),
        ("last returned packet to first reset".to_owned(), took.last_returned_to_first_reset),
        ("first reset to last reset".to_owned(), took.first_to_last_reset),
        ("decision to recovery".to_owned(), took.decision_to_recovery),
    ];
    all.into_iter().filter_map(|(what, took)| Some((what, took?))).collect()
}

/// What became of flows and clients, in sentences.
fn sums(record: &Failover) -> Vec<(&'static str, String)> {
    let flows = &record.flows;
    let begun =
        if flows.begun > 0 { format!(" and {} that began since", flows.begun) } else { String::new() };
    let mut all = vec![(
        "flows",
        format!(
            "of {}{begun}: {} reset, {} moved, {} ended otherwise, {} left",
            flows.at_decision, flows.reset, flows.moved, flows.ended, flows.left
        ),
    )];
    let listed = |counts: &BTreeMap<String, u64>| {
        counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    };
    let resets = &record.resets;
    if resets.total > 0 {
        all.push(("resets", format!("{} sent ({})", resets.total, listed(&resets.by_trigger))));
    }
    if !record.suppressed.is_empty() {
        all.push(("held back", format!("packets whose reset was held back: {}", listed(&record.suppressed))));
    }
    if let Some(clients) = &record.clients {
        let to: Vec<String> =
            clients.by_target.iter().map(|(target, count)| format!("{count} to {target}")).collect();
        let when = match (clients.fastest_microseconds, clients.slowest_microseconds) {
            (Some(fastest), Some(slowest)) => {
                format!(", {} to {} after their reset: {}", long(fastest), long(slowest), to.join(", "))
            }
            _ => String::new(),
        };
        all.push((
            "clients",
            format!(
                "of {} reset connections that were watched {} came back{when}",
                clients.watched, clients.came_back
            ),
        ));
    }
    if record.messages_lost > 0 {
        all.push((
            "lost",
            format!(
                "{} messages of the workers: first and last reset and the clients are of the others",
                record.messages_lost
            ),
        ));
    }
    if record.ended.is_none() {
        all.push(("end", "it goes on".to_owned()));
    }
    all
}

/// How long, in words: `0.018 ms`, `112.3 ms`, `3.214 s`, `12m 5s`.
pub(super) fn long(microseconds: u64) -> String {
    let (ms, rest) = (microseconds / 1000, microseconds % 1000);
    match ms {
        0..10 => format!("{ms}.{rest:03} ms"),
        10..1000 => format!("{ms}.{} ms", rest / 100),
        1000..60_000 => format!("{}.{:03} s", ms / 1000, ms % 1000),
        _ => span(ms),
    }
}

#[cfg(test)]
mod tests;
