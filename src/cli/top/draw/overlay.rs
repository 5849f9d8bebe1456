//! What is shown in the list's place for a while: the question before a drain, and the keys.

#![forbid(unsafe_code)]

use super::Means;
use super::table::wrapped;
use crate::cli::plan;
use crate::control::health::TargetKey;
use crate::control::socket::views::Plan;
use ratatui::text::{Line, Span};

pub(super) fn planning(key: &TargetKey, means: &Means<'_>) -> Vec<Line<'static>> {
    vec![Line::from(Span::styled(format!("Asking what a drain of {key} would do …"), means.palette.faint))]
}

/// The question.
pub(super) fn confirm(key: &TargetKey, plan: &Plan, means: &Means<'_>, width: usize) -> Vec<Line<'static>> {
    let palette = means.palette;
    let mut lines = vec![Line::from(Span::styled(format!("Drain {key}?"), palette.heading)), Line::default()];
    let mut say = |said: String, style| {
        lines.extend(wrapped(&said, width).into_iter().map(|text| Line::from(Span::styled(text, style))));
    };
    for difference in &plan.differences {
        say(format!("{difference}."), ratatui::style::Style::new());
    }
    for effect in &plan.effects {
        let who = match effect.target {
            Some(target) => format!("{}/{target}", effect.target_group),
            None => format!("all of {}", effect.target_group),
        };
        let most = if effect.at_most { "up to " } else { "" };
        let flows = if effect.flows == 1 { "1 flow" } else { &format!("{} flows", effect.flows) };
        let style = if plan::is_felt(plan) { palette.bad } else { palette.heading };
        say(format!("{who}: {most}{flows} would be {}.", plan::fate(effect)), style);
    }
    for one in &plan.health {
        say(format!("{}/{} would at once be {}.", one.target_group, one.target, one.to), palette.bad);
    }
    if plan.effects.is_empty() {
        say("It has no flows that would feel it.".to_owned(), palette.heading);
    }
    lines
}

pub(super) fn help(means: &Means<'_>) -> Vec<Line<'static>> {
    const KEYS: [(&str, &str); 14] = [
        ("up down, j k", "go through the targets; page up and down, home and end too"),
        ("enter", "open the target: checks, traffic, flows, resets, what happened to it"),
        ("d", "drain the target; what its flows would feel is asked about first"),
        ("/", "show only targets that have these words: fw, unhealthy, 10.0.0.2"),
        ("s  S", "order by trouble, address, flows, new flows, packets, bytes, resets; turn it"),
        ("tab", "go to load balancers, workers, events: the part has the room that is left"),
        ("e", "show single resets among the events, or only their sums"),
        ("p, space", "stand still, and go on"),
        ("r", "read anew now"),
        ("+  -", "read less or more often"),
        ("esc", "back; in the list: show all targets"),
        ("?", "this"),
        ("q, ctrl-c", "end"),
        ("", "!! is bad, ! may become so, ~ drains, ? is being checked for the first time"),
    ];
    KEYS.iter()
        .map(|(keys, what)| {
            let keys = Span::styled(format!("{keys:<14}"), means.palette.heading);
            Line::from(vec![keys, Span::raw(*what)])
        })
        .collect()
}
