//! How a report looks: area by area, one line for what is well, and below what is not its reason and what mends it.

use super::items::{Item, Report, Verdict};
use super::kinds::Area;
use crate::cli::table::Look;
use ratatui::crossterm::style::Color;

/// The report for people; `brief`: only what is not well.
pub(super) fn report(report: &Report, look: &Look, brief: bool) -> String {
    let is_well = |item: &Item| item.verdict <= Verdict::CannotTell;
    let mut shown = String::new();
    for area in Area::ALL {
        let of_area = report.items.iter().filter(|item| item.area == area);
        let items: Vec<&Item> = of_area.filter(|item| !brief || !is_well(item)).collect();
        if items.is_empty() {
            continue;
        }
        shown += &format!("{}\n", look.heading(area.name()));
        for one in merged(&items) {
            shown += &item(&one, look, !is_well(&one));
        }
        shown.push('\n');
    }
    shown + &look.paragraph("", &summary(report))
}

/// The items, with what is the same of several objects in one, and what cannot be told for the same reason.
fn merged(items: &[&Item]) -> Vec<Item> {
    let mut merged: Vec<Item> = Vec::new();
    for item in items {
        let is_alike = |other: &&mut Item| {
            (other.verdict, &other.found, &other.command) == (item.verdict, &item.found, &item.command)
                && (other.id == item.id || item.verdict == Verdict::CannotTell && other.object == item.object)
        };
        match merged.iter_mut().find(is_alike) {
            Some(first) if first.id == item.id => {
                let objects = [first.object.take(), item.object.clone()].into_iter().flatten();
                first.object = Some(objects.collect::<Vec<_>>().join(", "));
            }
            Some(first) => first.id = format!("{}, {}", first.id, item.id),
            None => merged.push((*item).clone()),
        }
    }
    merged
}

/// One item; with its reason and what mends it, if `whole`.
fn item(item: &Item, look: &Look, whole: bool) -> String {
    let Item { id, object, verdict, found, why, command, documented, .. } = item;
    let about = object.as_ref().map(|object| format!("{object}: ")).unwrap_or_default();
    let head = look.tinted(&format!("{verdict:<13}"), colour(*verdict));
    let mut shown = look.paragraph_beside(&format!("  {head}"), 15, &format!("{about}{found} [{id}]"));
    if whole {
        shown += &look.paragraph("    why it matters: ", why);
        if let Some(command) = command {
            shown += &look.paragraph("    to mend it: ", command);
        }
        shown += &look.paragraph("    more of it: ", documented);
    }
    shown
}

fn colour(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Ok => Color::Green,
        Verdict::CannotTell => Color::DarkGrey,
        Verdict::Advice => Color::Cyan,
        Verdict::Warning => Color::Yellow,
        Verdict::Problem => Color::Red,
    }
}

fn summary(report: &Report) -> String {
    let counts = Verdict::ALL
        .map(|verdict| (verdict, report.items.iter().filter(|item| item.verdict == verdict).count()));
    let words = counts.into_iter().map(|(verdict, count)| match (verdict, count) {
        (Verdict::Problem, 1) => "1 problem".to_owned(),
        (Verdict::Problem, _) => format!("{count} problems"),
        (Verdict::Warning, _) => format!("{count} to be warned of"),
        (Verdict::Advice, _) => format!("{count} of advice"),
        (Verdict::CannotTell, _) => format!("{count} that cannot be told"),
        (Verdict::Ok, _) => format!("{count} well"),
    });
    let daemon = if report.daemon_answers { "beside the daemon" } else { "without a daemon" };
    format!("{}; looked at {daemon}.", words.collect::<Vec<_>>().join(", "))
}
