//! The list: what is wrong, load balancers, targets, drains, workers and events, one below the other, with the
//! height shared among them.

#![forbid(unsafe_code)]

use super::share::{Claim, shares};
use super::table::{Cell, Column, cut, lines};
use super::{Means, trouble};
use crate::cli::events;
use crate::cli::table::float;
use crate::cli::top::model::{Model, Pane};
use crate::cli::top::reading::TrafficRates;
use crate::cli::top::rows::{Row, Sort};
use crate::cli::workers::{longest, rounded};
use crate::control::health::HealthState;
use crate::control::shown::{scaled, span};
use crate::control::socket::views::TargetOverview;
use crate::control::troubles::Kind;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// A part of the list.
struct Part {
    /// Which one, if its operator can be in it.
    pane: Option<Pane>,
    /// What stays when it is scrolled.
    heading: Option<Line<'static>>,
    lines: Vec<Line<'static>>,
    /// Lines it has at least, if it has so many, its heading not counted.
    least: usize,
    /// The line that must be seen.
    at: usize,
}

/// All parts in `height` lines.
pub(super) fn body(model: &Model, means: &Means<'_>, width: usize, height: usize) -> Vec<Line<'static>> {
    let most = match height {
        0..9 => 1,
        9..13 => 2,
        13..21 => 4,
        _ => 8,
    };
    let wrong = trouble(model, means, width, most);
    let wrong = Part { pane: None, heading: None, least: wrong.len(), lines: wrong, at: 0 };
    let parts = [
        wrong,
        balancers(model, means, width),
        targets(model, means, width),
        drains(model, means, width),
        workers(model, means, width),
        happened(model, means, width),
    ];
    let claims = parts.each_ref().map(|part| Claim {
        lines: part.lines.len(),
        least: part.least,
        heading: usize::from(part.heading.is_some()),
        is_here: part.pane == Some(model.pane),
    });
    let shares = shares(&claims, height);
    let mut body = Vec::new();
    for (part, share) in parts.into_iter().zip(shares) {
        if share == 0 {
            continue;
        }
        let is_here = part.pane == Some(model.pane);
        if let Some(heading) = part.heading {
            let heading = if is_here { heading } else { heading.style(means.palette.faint) };
            body.push(heading);
        }
        // Page by page: a line that was moved by one would move all others on a slow line too.
        let first = if part.lines.len() <= share { 0 } else { part.at / share * share };
        let first = first.min(part.lines.len() - share);
        body.extend(part.lines.into_iter().skip(first).take(share));
    }
    body
}

fn balancers(model: &Model, means: &Means<'_>, width: usize) -> Part {
    let palette = means.palette;
    let mut rows = Vec::new();
    for balancer in model.reading.iter().flat_map(|reading| &reading.overview.load_balancers) {
        let reading = model.reading.as_ref();
        let group = reading.and_then(|reading| {
            reading
                .overview
                .target_groups
                .iter()
                .find(|group| Some(&group.name) == balancer.target_group.as_ref())
        });
        let rates = group.and_then(|group| reading?.rates.as_ref()?.groups.get(&group.name));
        let rate =
            |of: fn(&TrafficRates) -> f64| rates.map_or_else(|| "-".to_owned(), |rates| scaled(of(rates)));
        let targets = group.map(|group| group.targets.as_slice()).unwrap_or_default();
        let registered = targets.iter().filter(|target| target.checks.is_some() && target.drain.is_none());
        let healthy = targets.iter().filter(|target| target.state == HealthState::Healthy).count();
        let (all, plain) = (registered.count(), Style::new());
        let style = if healthy < all || all == 0 { palette.bad } else { palette.good };
        let name = match &balancer.target_group {
            Some(group) => format!("{} -> {group}", balancer.name),
            None => balancer.name.clone(),
        };
        rows.push([
            (name, plain),
            (format!("{healthy}/{all}"), style),
            (balancer.flows.to_string(), plain),
            (rate(|rates| rates.new_flows), plain),
            (rate(|rates| rates.packets()), plain),
            (rate(|rates| rates.bytes()), plain),
            (balancer.resets.all().to_string(), plain),
            (group.map(|group| span(group.worst_detection_time_ms)).unwrap_or_default(), plain),
        ]);
    }
    let columns = [
        Column::text("LOAD BALANCER", 14, 0),
        Column::number("HEALTHY", 7, 0),
        Column::number("FLOWS", 7, 1),
        Column::number("NEW/S", 6, 3),
        Column::number("PKT/S", 6, 4),
        Column::number("BYTES/S", 7, 5),
        Column::number("RESETS", 7, 2),
        Column::text("DEATH SEEN IN", 6, 6),
    ];
    part(Pane::Balancers, model, columns, rows, width, palette.heading, 3)
}

fn targets(model: &Model, means: &Means<'_>, width: usize) -> Part {
    let palette = means.palette;
    let rows = model.rows();
    let selected = model.selected_target().map(|(place, _)| place);
    let several = model.reading.as_ref().is_some_and(|reading| reading.overview.target_groups.len() > 1);
    let mark = |sort: Sort, heading: &'static str, marked: &'static str| {
        if model.sort == sort { marked } else { heading }
    };
    let columns = [
        Column::text(" ", 1, 0),
        Column::text(if several { "TARGET GROUP/TARGET" } else { "TARGET" }, 13, 0),
        Column::text("STATE", 11, 0),
        Column::number("SINCE", 7, 2),
        Column::number(mark(Sort::Flows, "FLOWS", "FLOWS*"), 7, 0),
        Column::number(mark(Sort::NewFlows, "NEW/S", "NEW/S*"), 6, 4),
        Column::number(mark(Sort::Packets, "PKT/S", "PKT/S*"), 6, 1),
        Column::number(mark(Sort::Bytes, "BYTES/S", "BYTES/S*"), 7, 3),
        Column::number(mark(Sort::Resets, "RESETS", "RESETS*"), 7, 1),
        Column::text("ZONE", 4, 8),
        Column::number("WEIGHT", 6, 9),
        Column::text("WHY", 3, 7),
    ];
    let now = model.now();
    let cells: Vec<[Cell; 12]> = rows
        .iter()
        .map(|row| {
            let (target, plain) = (row.target, Style::new());
            let since = target.since.zip(now).map(|(since, now)| span(now.since(since) / 1000 * 1000));
            let rate = |of: fn(&TrafficRates) -> f64| {
                row.rates.as_ref().map_or_else(|| "-".to_owned(), |rates| scaled(of(rates)))
            };
            let resets = target.traffic.resets.all();
            [
                (sign(row).to_owned(), palette.state(target.state)),
                (if several { row.key.to_string() } else { row.key.address.to_string() }, plain),
                (target.state.to_string(), palette.state(target.state)),
                (since.unwrap_or_else(|| "-".to_owned()), plain),
                (target.flows.to_string(), plain),
                (rate(|rates| rates.new_flows), plain),
                (rate(|rates| rates.packets()), plain),
                (rate(|rates| rates.bytes()), plain),
                (resets.to_string(), if target.reset_flows_last_minute > 0 { palette.bad } else { plain }),
                (target.zone.clone().unwrap_or_else(|| "all".to_owned()), plain),
                (target.weight.to_string(), plain),
                (why(row), palette.faint),
            ]
        })
        .collect();
    let (heading, mut lines) = lines(columns, cells, width, palette.heading);
    let heading = if model.filter.is_empty() && model.sort == Sort::Trouble && !model.descending {
        heading
    } else {
        noted(heading, model, rows.len(), width, palette.heading)
    };
    if lines.is_empty() {
        let said = if model.filter.is_empty() { "there are no targets" } else { "no target is like that" };
        lines.push(Line::from(Span::styled(said, palette.faint)));
    }
    if let Some(line) =
        selected.and_then(|place| lines.get_mut(place)).filter(|_| model.pane == Pane::Targets)
    {
        // The whole row, whatever its cells look like.
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        *line = Line::from(Span::styled(format!("{text:<width$}"), palette.selected));
    }
    Part { pane: Some(Pane::Targets), heading: Some(heading), lines, least: 4, at: selected.unwrap_or(0) }
}

/// The heading with the filter and the order behind it, if there is room.
fn noted(heading: Line<'static>, model: &Model, shown: usize, width: usize, style: Style) -> Line<'static> {
    let mut notes = Vec::new();
    if !model.filter.is_empty() {
        notes.push(format!("{shown} with '{}'", model.filter));
    }
    if model.sort != Sort::Trouble || model.descending {
        let way = if model.descending == model.sort.is_larger_first() { "" } else { ", turned" };
        notes.push(format!("by {}{way}", model.sort.word()));
    }
    let note = format!("  [{}]", notes.join(", "));
    let text: String = heading.spans.iter().map(|span| span.content.as_ref()).collect();
    let text = text.trim_end();
    let room = width.saturating_sub(note.chars().count());
    Line::from(Span::styled(format!("{}{note}", cut(text, room)), style))
}

/// A target's state as one sign, for where there is no colour.
fn sign(row: &Row<'_>) -> &'static str {
    match row.target.state {
        HealthState::Unhealthy | HealthState::Unavailable => "!",
        HealthState::Draining => "~",
        HealthState::Initial => "?",
        HealthState::Healthy if !row.troubles.is_empty() => "!",
        HealthState::Healthy | HealthState::Unused => " ",
    }
}

/// What there is to say of a target beside its state.
fn why(row: &Row<'_>) -> String {
    let target = row.target;
    if row.troubles.contains(&Kind::TargetUnreachable) {
        format!("neighbour {}", target.neighbour.state)
    } else if row.troubles.contains(&Kind::TargetSilent) {
        format!("silent for {}", span(target.silent_for_ms))
    } else if target.description.is_empty() {
        target.reason.map(|reason| reason.to_string()).unwrap_or_default()
    } else {
        target.description.clone()
    }
}

fn drains(model: &Model, means: &Means<'_>, width: usize) -> Part {
    let mut rows = Vec::new();
    for (group, target) in model.reading.iter().flat_map(|reading| reading.targets()) {
        if let Some(now) = model.now().filter(|_| target.drain.is_some()) {
            let who = format!("{}/{}", group.name, target.address);
            rows.push(drain_line(&who, target, now, width));
        }
    }
    let heading = (!rows.is_empty()).then(|| Line::from(Span::styled("DRAINS", means.palette.heading)));
    Part { pane: None, heading, least: rows.len().min(2), lines: rows, at: 0 }
}

/// A drain's clock with how far it is: `[=====>    ] fw/10.0.0.1: 125 flows left, 4m 12s left`.
pub(super) fn drain_line(
    who: &str,
    target: &TargetOverview,
    now: crate::control::events::Timestamp,
    width: usize,
) -> Line<'static> {
    let Some(drain) = target.drain else { return Line::default() };
    let (whole, left) = (drain.ends.since(drain.started), drain.ends.since(now));
    let part = if whole == 0 { 1.0 } else { 1.0 - float(left.min(whole)) / float(whole) };
    let flows = if target.flows == 1 { "1 flow".to_owned() } else { format!("{} flows", target.flows) };
    let said = format!("{who}: {flows} left, {} left", span(left.div_ceil(1000) * 1000));
    Line::from(cut(&format!("{} {said}", bar(part, 20.min(width / 3))), width))
}

/// How far something is, in so many columns.
fn bar(part: f64, width: usize) -> String {
    let inside = width.saturating_sub(2);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the width")]
    let done = (part.clamp(0.0, 1.0) * float(inside as u64)) as usize;
    let tip = if done < inside { ">" } else { "" };
    format!("[{}{tip}{}]", "=".repeat(done), " ".repeat(inside.saturating_sub(done + tip.len())))
}

fn workers(model: &Model, means: &Means<'_>, width: usize) -> Part {
    let palette = means.palette;
    let reading = model.reading.as_ref();
    let mut rows = Vec::new();
    for worker in reading.iter().flat_map(|reading| &reading.overview.workers) {
        let rates = reading.and_then(|reading| reading.rates.as_ref());
        let glance =
            rates.and_then(|rates| rates.workers.iter().find(|glance| glance.worker == worker.worker));
        let plain = Style::new();
        let full = 100.0 * float(worker.flows) / float(worker.capacity.max(1));
        let troubles = reading.map(|reading| reading.troubles_of(&format!("worker {}", worker.worker)));
        let style = |kind: Kind| {
            let is_so = troubles.is_some_and(|troubles| troubles.contains(&kind));
            if is_so { palette.bad } else { plain }
        };
        let idle = glance.map(|glance| glance.idle_percent);
        rows.push([
            (worker.worker.to_string(), plain),
            (worker.core.to_string(), plain),
            (glance.map_or_else(|| "-".to_owned(), |glance| scaled(glance.packets_per_second)), plain),
            (rounded(glance.and_then(|glance| glance.cycles_per_packet), 0), plain),
            (rounded(glance.and_then(|glance| glance.burst_fill), 1), plain),
            (rounded(idle, 0), style(Kind::WorkerBusy)),
            (format!("{full:.1}"), style(Kind::TableFilling)),
            (worker.flows.to_string(), plain),
            (longest(worker.load.longest_burst.as_ref()), plain),
        ]);
    }
    let columns = [
        Column::number("WORKER", 6, 0),
        Column::number("CORE", 4, 5),
        Column::number("PKT/S", 6, 0),
        Column::number("CYCLES/P", 8, 1),
        Column::number("BURST", 5, 3),
        Column::number("IDLE %", 6, 0),
        Column::number("TABLE %", 7, 2),
        Column::number("ENTRIES", 7, 6),
        Column::text("LONGEST BURST", 8, 4),
    ];
    part(Pane::Workers, model, columns, rows, width, palette.heading, 2)
}

fn happened(model: &Model, means: &Means<'_>, width: usize) -> Part {
    let palette = means.palette;
    let line = |event| Line::from(cut(&events::line(event, means.look), width));
    let mut lines: Vec<Line<'static>> = model.events_of(None).map(line).collect();
    if lines.is_empty() {
        lines.push(Line::from(Span::styled("nothing since this view was opened", palette.faint)));
    }
    if let Some(why) = &model.deaf {
        let said = cut(&format!("no events come: {why}"), width);
        lines.insert(0, Line::from(Span::styled(said, palette.warning)));
    }
    let lost = if model.lost > 0 {
        format!("  ({} not told, as they came too fast)", model.lost)
    } else {
        String::new()
    };
    let heading = Line::from(Span::styled(cut(&format!("EVENTS{lost}"), width), palette.heading));
    Part { pane: Some(Pane::Events), heading: Some(heading), lines, least: 2, at: model.scrolled }
}

fn part<const N: usize>(
    pane: Pane,
    model: &Model,
    columns: [Column; N],
    rows: Vec<[Cell; N]>,
    width: usize,
    style: Style,
    least: usize,
) -> Part {
    let (heading, lines) = lines(columns, rows, width, style);
    let at = if model.pane == pane { model.scrolled } else { 0 };
    Part { pane: Some(pane), heading: Some(heading), lines, least, at }
}
