//! The screen, as a function of the model and the area: nothing here remembers anything.
//!
//! What is wrong comes first and is said in words. The parts below share what height there is: each has its least,
//! and the one that its operator is in takes the rest. A screen too small for a table says in a word or two what
//! matters.

#![forbid(unsafe_code)]

mod list;
mod overlay;
mod palette;
mod share;
mod table;
mod target;
#[cfg(test)]
mod tests;

pub(super) use palette::Palette;

use super::model::{Link, Model, Place};
use crate::cli::table::Look;
use crate::control::health::HealthState;
use crate::control::shown::{scaled, span};
use crate::control::socket::views::{Severity, Trouble};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use table::{cut, wrapped};

/// Below this there is no room for a table.
const LEAST: (u16, u16) = (36, 8);

/// What drawing needs besides the model.
pub(super) struct Means<'a> {
    pub(super) palette: Palette,
    /// How times are told.
    pub(super) look: &'a Look,
}

/// Draws the whole screen.
pub(super) fn screen(model: &Model, means: &Means<'_>, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return put(tiny(model, means), area, buffer);
    }
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let foot = foot(model, means, width);
    let mut lines = head(model, means, width);
    let room = height.saturating_sub(lines.len() + 1);
    let body = match &model.place {
        Place::List | Place::Filter => list::body(model, means, width, room),
        Place::Target(key) => target::body(model, key, means, width, room),
        Place::Planning(key) => overlay::planning(key, means),
        Place::Confirm(key, plan) => overlay::confirm(key, plan, means, width),
        Place::Help => overlay::help(means),
    };
    lines.extend(body.into_iter().take(room));
    lines.resize(height - 1, Line::default());
    lines.push(foot);
    put(lines, area, buffer);
}

/// Everything there is, as lines of text: one frame of it for a script. As high as it must be.
pub(super) fn whole(model: &Model, means: &Means<'_>, width: u16) -> String {
    let columns = usize::from(width.max(LEAST.0));
    let mut lines = head(model, means, columns);
    lines.extend(list::body(model, means, columns, usize::from(u16::MAX)));
    let text = |line: &Line<'_>| -> String {
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        cut(text.trim_end(), columns)
    };
    let mut text: Vec<String> = lines.iter().map(text).collect();
    while text.last().is_some_and(String::is_empty) {
        text.pop();
    }
    text.join("\n") + "\n"
}

fn put(lines: Vec<Line<'_>>, area: Rect, buffer: &mut Buffer) {
    for (row, line) in area.rows().zip(lines) {
        buffer.set_line(row.x, row.y, &line, row.width);
    }
}

/// Two lines: who, when and how much.
fn head<'a>(model: &Model, means: &Means<'_>, width: usize) -> Vec<Line<'a>> {
    let palette = means.palette;
    let mut said = vec!["flowgate top".to_owned()];
    if let Some(reading) = &model.reading {
        let node = &reading.overview.node;
        said[0] = format!("flowgate {}", node.version);
        if !reading.overview.readiness.ready {
            said.insert(0, "NOT READY".to_owned());
        }
        // To the second: what is read by the second differs by it anyway.
        said.push(means.look.clock(reading.overview.at));
        said.push(format!("up {}", whole_seconds(node.uptime_ms)));
        said.push(format!("generation {}", node.generation));
    }
    match (&model.paused, &model.link) {
        (_, Link::Down(why)) => said = vec!["NO DAEMON".to_owned(), format!("{why}; trying again")],
        (_, Link::Slow(ms)) => said.insert(0, format!("NO ANSWER FOR {}", whole_seconds(*ms))),
        (Some(paused), _) => said.insert(0, format!("STANDS STILL ({} events since)", paused.events)),
        (None, Link::Up) => said.push(format!("every {}", span(model.interval_ms))),
    }
    let title = format!("{:<width$}", cut(&said.join("  "), width));
    let mut lines = vec![Line::from(Span::styled(title, palette.title))];
    if let Some(reading) = &model.reading {
        let totals = &reading.overview.totals;
        let rates = reading.rates.as_ref().map(|rates| rates.totals);
        let rate = |of: fn(&super::reading::TotalRates) -> f64| {
            rates.as_ref().map_or_else(|| "-".to_owned(), |rates| scaled(of(rates)))
        };
        let said = [
            format!("{} flows", totals.flows),
            format!("{} new/s", rate(|rates| rates.new_flows)),
            format!("{} packets/s", rate(|rates| rates.packets)),
            format!("{} bytes/s", rate(|rates| rates.bytes)),
            format!("{} resets/s", rate(|rates| rates.resets)),
            format!("{} dropped/s", rate(|rates| rates.dropped)),
        ];
        lines.push(Line::from(fitted(&said, width)));
    }
    lines
}

/// As many of these as fit, two blanks apart.
fn fitted(parts: &[String], width: usize) -> String {
    let mut text = String::new();
    for part in parts {
        let longer = if text.is_empty() { part.clone() } else { format!("{text}  {part}") };
        if longer.chars().count() > width {
            break;
        }
        text = longer;
    }
    text
}

/// The last line: what was said last, or what keys there are.
fn foot<'a>(model: &Model, means: &Means<'_>, width: usize) -> Line<'a> {
    let keys = |keys: &[&str]| fitted(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), width);
    let (text, style) = match (&model.place, &model.said) {
        (Place::Filter, _) => {
            (format!("show: {}_  (enter: done, esc: all)", model.filter), means.palette.heading)
        }
        (_, Some(said)) => (cut(said, width), means.palette.heading),
        (Place::List, _) => (
            keys(&[
                "q quit",
                "? help",
                "enter open",
                "d drain",
                "/ filter",
                "s sort",
                "p pause",
                "tab next part",
            ]),
            means.palette.faint,
        ),
        (Place::Target(_), _) => (keys(&["esc back", "d drain", "p pause", "q quit"]), means.palette.faint),
        (Place::Planning(_) | Place::Help, _) => (keys(&["esc back", "q quit"]), means.palette.faint),
        (Place::Confirm(..), _) => (keys(&["y drain it", "any other key: leave it"]), means.palette.heading),
    };
    Line::from(Span::styled(text, style))
}

/// What is wrong, or that nothing is. At most so many lines.
fn trouble<'a>(model: &Model, means: &Means<'_>, width: usize, most: usize) -> Vec<Line<'a>> {
    let palette = means.palette;
    let Some(reading) = &model.reading else {
        return vec![Line::from(Span::styled("The daemon has not said anything yet.", palette.faint))];
    };
    let wrong: Vec<&Trouble> = reading.wrong().collect();
    if wrong.is_empty() {
        let count =
            |state: HealthState| reading.targets().filter(|(_, target)| target.state == state).count();
        let of = |state: HealthState| {
            Some(count(state)).filter(|count| *count > 0).map(|count| format!("{count} {state}"))
        };
        let states = [HealthState::Healthy, HealthState::Initial, HealthState::Draining, HealthState::Unused];
        let states: Vec<String> = states.into_iter().filter_map(of).collect();
        let said = if states.is_empty() { "no targets".to_owned() } else { states.join(", ") };
        return vec![Line::from(Span::styled(
            cut(&format!("Nothing is wrong: {said}."), width),
            palette.good,
        ))];
    }
    let mut lines = Vec::new();
    let mut told = 0;
    for trouble in &wrong {
        let (mark, style) = match trouble.severity {
            Severity::Critical => ("!! ", palette.bad),
            Severity::Warning | Severity::Notice => (" ! ", palette.warning),
        };
        let said = trouble.line(&format!("for {}", span(reading.overview.at.since(trouble.since))));
        let mut wrapped = wrapped(&said, width.saturating_sub(mark.len()));
        // Where there is room for one line only, it is one line.
        if lines.len() + wrapped.len() > most && !wrapped.is_empty() {
            wrapped = vec![cut(&said, width.saturating_sub(mark.len()))];
        }
        if lines.len() + wrapped.len() > most {
            break;
        }
        told += 1;
        for (number, text) in wrapped.into_iter().enumerate() {
            let mark = if number == 0 { mark } else { "   " };
            lines.push(Line::from(Span::styled(format!("{mark}{text}"), style)));
        }
    }
    let more = wrong.len() - told;
    if more > 0
        && let Some(last) = lines.last_mut()
    {
        let sign = format!(" (+{more} more)");
        let text: String = last.spans.iter().map(|span| span.content.as_ref()).collect();
        let style = last.spans.first().map(|span| span.style).unwrap_or_default();
        let text = cut(&text, width.saturating_sub(sign.chars().count()));
        *last = Line::from(Span::styled(format!("{text}{sign}"), style));
    }
    lines
}

/// What matters, in a word or two a line.
fn tiny<'a>(model: &Model, means: &Means<'_>) -> Vec<Line<'a>> {
    let palette = means.palette;
    let styled = |text: String, style| Line::from(Span::styled(text, style));
    if let Link::Down(_) = model.link {
        return vec![styled("NO DAEMON".to_owned(), palette.bad)];
    }
    if let Place::Confirm(key, _) = &model.place {
        // Else it would be answered unseen.
        return vec![styled("drain? y/n".to_owned(), palette.bad), Line::from(key.address.to_string())];
    }
    let Some(reading) = &model.reading else {
        return vec![styled("no answer".to_owned(), palette.faint)];
    };
    let all = reading.targets().count();
    let healthy = reading.targets().filter(|(_, target)| target.state == HealthState::Healthy).count();
    // There is no room for both kinds: what may come to be wrong is told where nothing is.
    let of = |severity| reading.wrong().filter(|trouble| trouble.severity == severity).count();
    let wrong = match (of(Severity::Critical), of(Severity::Warning)) {
        (0, 0) => styled("all well".to_owned(), palette.good),
        (0, 1) => styled("1 warning".to_owned(), palette.warning),
        (0, warnings) => styled(format!("{warnings} warnings"), palette.warning),
        (wrong, _) => styled(format!("{wrong} wrong"), palette.bad),
    };
    let resets = reading.rates.as_ref().map_or(0.0, |rates| rates.totals.resets);
    vec![
        styled(format!("{healthy}/{all} in"), palette.heading),
        wrong,
        Line::from(format!("{} rst/s", scaled(resets))),
    ]
}

/// A span without parts of a second.
fn whole_seconds(ms: u64) -> String {
    span(ms / 1000 * 1000)
}
