//! One target in full: why it is as it is, its checks, what the traffic says, its flows and resets, what happened
//! to it.

#![forbid(unsafe_code)]

use super::Means;
use super::list::drain_line;
use super::table::{cut, wrapped};
use crate::cli::events;
use crate::cli::report::{long, phases};
use crate::cli::top::model::Model;
use crate::cli::top::reading::TrafficRates;
use crate::control::events::{Event, Timestamp};
use crate::control::failover::Failover;
use crate::control::health::TargetKey;
use crate::control::shown::{scaled, span};
use crate::control::socket::views::{ChecksOverview, ResetCounts, TargetGroupOverview, TargetOverview};
use crate::control::troubles::Kind;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// Where what a line says begins.
const INDENT: usize = 11;
/// From so many lines on there is room for every phase of a failover, and for what happened.
const TALL: usize = 25;

pub(super) fn body(
    model: &Model,
    key: &TargetKey,
    means: &Means<'_>,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let Some((reading, (group, target))) =
        model.reading.as_ref().and_then(|reading| Some((reading, reading.target(key)?)))
    else {
        return vec![Line::from(format!("{key} is not there."))];
    };
    let (palette, now) = (means.palette, reading.overview.at);
    let used = group.load_balancer.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    let mut lines = vec![Line::from(Span::styled(cut(&format!("{key}{used}"), width), palette.heading))];
    let mut say = |what: &str, said: String, style: Style| {
        for (number, text) in wrapped(&said, width.saturating_sub(INDENT)).into_iter().enumerate() {
            let what = if number == 0 { what } else { "" };
            lines.push(Line::from(vec![Span::raw(format!("{what:<INDENT$}")), Span::styled(text, style)]));
        }
    };
    let plain = Style::new();
    let since = target.since.map(|since| {
        format!(" since {} ({} ago)", means.look.since_at(since, now), span(now.since(since) / 1000 * 1000))
    });
    say("state", format!("{}{}", target.state, since.unwrap_or_default()), palette.state(target.state));
    if let Some(reason) = target.reason {
        let seen =
            if target.description.is_empty() { String::new() } else { format!(": {}", target.description) };
        say("reason", format!("{reason}{seen}"), plain);
    }
    say("checks", question(group), plain);
    if let Some(checks) = &target.checks {
        say("", results(checks, &target.description, means), plain);
    }
    let is_silent = reading.troubles_of(&key.to_string()).contains(&Kind::TargetSilent);
    say("traffic", in_band(target), if is_silent { palette.bad } else { plain });
    let rates = reading.rates_of(key);
    let rate = |of: fn(&TrafficRates) -> f64| {
        rates.as_ref().map_or_else(|| "-".to_owned(), |rates| scaled(of(rates)))
    };
    let traffic = &target.traffic;
    for (way, packets, bytes, in_all) in [
        ("to it", rate(|rates| rates.packets_to), rate(|rates| rates.bytes_to), traffic.packets_to_target),
        (
            "from it",
            rate(|rates| rates.packets_from),
            rate(|rates| rates.bytes_from),
            traffic.packets_from_target,
        ),
    ] {
        say("", format!("{way}: {packets} packets/s, {bytes} bytes/s, {in_all} packets in all"), plain);
    }
    say("flows", flows(group, target, &rate(|rates| rates.new_flows)), plain);
    let recent = target.reset_flows_last_minute;
    let by = by_trigger(&traffic.resets);
    let by = if by.is_empty() { String::new() } else { format!(": {by}") };
    let resets = format!(
        "{} flows reset ({recent} in the last minute), {} resets sent{by}",
        traffic.reset_flows,
        traffic.resets.all()
    );
    say("resets", resets, if recent > 0 { palette.bad } else { plain });
    // Where there is no room, what happened is more.
    let of_it = reading.wrong().filter(|trouble| height >= TALL && trouble.concerns(&key.to_string()));
    for trouble in of_it {
        let command = trouble.command.as_ref().map(|command| format!(" [{command}]")).unwrap_or_default();
        say("to do", format!("{}{command}", trouble.to_do), plain);
    }
    if let Some((newest, before)) = failovers(model, key).split_first() {
        if height >= TALL {
            say("failover", failover(newest, means, now) + end(newest), plain);
            let phases = phases(newest).into_iter().map(|(what, took)| format!("{what} {}", long(took)));
            say("phases", phases.collect::<Vec<_>>().join(", "), plain);
        } else {
            say("failover", failover(newest, means, now) + &shortly(newest) + end(newest), plain);
        }
        for record in before {
            say("failover", failover(record, means, now) + &shortly(record) + end(record), plain);
        }
    }
    let zone = target.zone.as_ref().map_or_else(|| "every zone".to_owned(), |zone| format!("zone {zone}"));
    let hop = target.neighbour.next_hop.map(|hop| format!("by {hop}")).unwrap_or_default();
    let mac = target.neighbour.mac.as_deref().unwrap_or("no link-layer address");
    say(
        "place",
        format!("{zone}, weight {}; {hop} at {mac} ({})", target.weight, target.neighbour.state),
        plain,
    );
    if target.drain.is_some() {
        lines.push(drain_line("drain", target, now, width));
    }
    let room = height.saturating_sub(lines.len() + 2);
    let happened: Vec<Line<'static>> = model
        .events_of(Some(key))
        .take(room)
        .flat_map(|event| told(event, means, width))
        .take(room)
        .collect();
    lines.push(Line::default());
    lines.push(Line::from(Span::styled("WHAT HAPPENED TO IT", palette.heading)));
    if happened.is_empty() {
        lines.push(Line::from(Span::styled("nothing since this view was opened", palette.faint)));
    }
    lines.extend(happened);
    lines
}

/// The records of `key`, if they were read.
fn failovers<'a>(model: &'a Model, key: &TargetKey) -> &'a [Failover] {
    match &model.failovers {
        Some((whose, records)) if whose == key => records,
        _ => &[],
    }
}

/// What a failover came to, in a sentence; `flowgate report` has the whole of it.
fn failover(record: &Failover, means: &Means<'_>, now: Timestamp) -> String {
    let flows = &record.flows;
    let begun =
        if flows.begun > 0 { format!(" and {} that began since", flows.begun) } else { String::new() };
    format!(
        "{} at {}, {}: of {} flows{begun} {} reset, {} moved, {} ended otherwise, {} left; {} resets sent",
        record.id,
        means.look.since_at(record.decided, now),
        record.cause,
        flows.at_decision,
        flows.reset,
        flows.moved,
        flows.ended,
        flows.left,
        record.resets.total
    )
}

/// How long its most telling phases took, where there is no room for all.
fn shortly(record: &Failover) -> String {
    let (took, mut said) = (&record.durations, String::new());
    if let Some(first) = took.first_failure_to_first_reset {
        said += &format!("; first reset {} after the first failed check", long(first));
    }
    if let Some(recovery) = took.decision_to_recovery {
        said += &format!("; back after {}", long(recovery));
    }
    said
}

fn end(record: &Failover) -> &'static str {
    if record.ended.is_none() { "; it goes on" } else { "" }
}

/// An event in full, however many lines that takes.
fn told(event: &Event, means: &Means<'_>, width: usize) -> Vec<Line<'static>> {
    const BEHIND_THE_TIME: usize = 14;
    let said = events::line(event, means.look);
    if said.chars().count() <= width {
        return vec![Line::from(said)];
    }
    let lines = wrapped(&said, width.saturating_sub(BEHIND_THE_TIME)).into_iter().enumerate();
    let indent = |number: usize| if number == 0 { 0 } else { BEHIND_THE_TIME };
    lines.map(|(number, text)| Line::from(format!("{:1$}{text}", "", indent(number)))).collect()
}

fn question(group: &TargetGroupOverview) -> String {
    let (interval, threshold) = (span_ms(group.health_check_interval_ms), group.unhealthy_threshold_count);
    let worst = span_ms(group.worst_detection_time_ms);
    format!(
        "{} every {interval}; unhealthy after {threshold} failures in a row: its death is seen within {worst} at worst",
        group.health_check
    )
}

/// Shorter than a second in milliseconds.
fn span_ms(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { span(ms) }
}

fn results(checks: &ChecksOverview, seen: &str, means: &Means<'_>) -> String {
    let row = match (checks.failures_in_row, checks.successes_in_row) {
        (0, successes) => format!("{successes} passed in a row"),
        (failures, _) => format!("{failures} failed in a row"),
    };
    let last = checks.last.as_ref().map(|last| {
        let outcome = match last.failure.as_deref() {
            None => "passed",
            // As the reason says already.
            Some(failure) if failure == seen => "failed",
            Some(failure) => failure,
        };
        format!("; the last at {} took {:.1} ms: {outcome}", means.look.time(last.at), last.latency_ms)
    });
    let out_of_turn = match checks.out_of_turn {
        0 => String::new(),
        count => format!(", {count} out of turn"),
    };
    format!("{} made, {} failed{out_of_turn}; {row}{}", checks.made, checks.failed, last.unwrap_or_default())
}

/// The triggers of resets with their counts: `unhealthy 312, both-ends 4`.
fn by_trigger(resets: &ResetCounts) -> String {
    let told = resets.by_trigger().into_iter().filter(|(_, count)| *count > 0);
    told.map(|(trigger, count)| format!("{trigger} {count}")).collect::<Vec<_>>().join(", ")
}

fn in_band(target: &TargetOverview) -> String {
    match target.silent_for_ms {
        0 if target.traffic.packets_to_target == 0 => "it was sent nothing yet".to_owned(),
        0 => "it returns what it is sent".to_owned(),
        ms => format!("it was sent packets and has returned none for {}", span_ms(ms)),
    }
}

fn flows(group: &TargetGroupOverview, target: &TargetOverview, new: &str) -> String {
    let fate = match (group.rebalances, group.resets_on_unhealthy) {
        (true, _) => "if it dies they move to others".to_owned(),
        (false, true) => format!("if it dies {} TCP flows are reset", target.would_die),
        (false, false) => format!("if it dies {} TCP flows hang", target.would_die),
    };
    format!("{} live, {new} new/s, {} in all; {fate}", target.flows, target.traffic.new_flows)
}
