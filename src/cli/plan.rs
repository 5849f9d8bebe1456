//! What a change would do: shown for `--dry-run` and `diff`, and asked about on a terminal before flows are reset,
//! moved or dropped by it.

#![forbid(unsafe_code)]

use super::client::CliError;
use super::table::{Look, number, text};
use crate::control::socket::views::{Fate, FlowEffect, Plan};
use std::io::{self, BufRead, IsTerminal, Write};

/// Whether there is somebody to ask.
pub(super) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether flows would end, or go another way, by `plan`.
pub(super) fn is_felt(plan: &Plan) -> bool {
    plan.effects.iter().any(|effect| effect.fate != Fate::Drained || effect.then.is_some())
}

/// Asks whether what `plan` says is to be.
pub(super) fn ask(plan: &Plan, look: &Look) -> Result<(), CliError> {
    let mut terminal = io::stderr().lock();
    let asked = write!(terminal, "{}\nGo on? [y/N] ", shown(plan, look)).and_then(|()| terminal.flush());
    asked.map_err(CliError::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|_| CliError::Declined)?;
    match answer.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::Declined),
    }
}

/// The differences, and below them what would become of flows.
pub(super) fn shown(plan: &Plan, look: &Look) -> String {
    if plan.differences.is_empty() {
        return "Nothing would change.\n".to_owned();
    }
    let mut shown = sentences(&plan.differences);
    if !plan.effects.is_empty() {
        let rows = plan.effects.iter().map(|effect| {
            [text(&effect.target_group), text(effect.target), number(effect.flows), text(fate(effect))]
        });
        let table = look.table(["TARGET GROUP", "TARGET", "FLOWS", "WOULD BE"], rows.collect());
        shown.push_str(&format!("\n{table}"));
    }
    shown
}

/// A sentence a line.
pub(super) fn sentences(differences: &[String]) -> String {
    differences.iter().map(|sentence| format!("{sentence}.\n")).collect()
}

fn fate(effect: &FlowEffect) -> String {
    match effect.then {
        Some(then) => format!("{}, then {}", word(effect.fate), word(then)),
        None => word(effect.fate).to_owned(),
    }
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Drained => "drained",
        Fate::Reset => "reset",
        Fate::Moved => "moved to another target",
        Fate::Dropped => "dropped",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use jiff::tz::TimeZone;
    use std::net::Ipv4Addr;

    fn effect(fate: Fate, then: Option<Fate>) -> FlowEffect {
        let target = Ipv4Addr::new(10, 0, 0, 1);
        FlowEffect { target_group: "fw".to_owned(), target, flows: 125, fate, then }
    }

    #[test]
    fn a_plan_is_its_sentences_and_what_becomes_of_flows() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let effects = vec![effect(Fate::Drained, Some(Fate::Reset)), effect(Fate::Moved, None)];
        let plan = Plan::new(vec!["One is so".to_owned(), "Two is so".to_owned()], effects, 7);
        let expected = "\
One is so.
Two is so.

TARGET GROUP  TARGET    FLOWS  WOULD BE
fw            10.0.0.1    125  drained, then reset
fw            10.0.0.1    125  moved to another target
";
        assert_eq!(shown(&plan, &look), expected);
        assert_eq!(shown(&Plan::new(vec![], vec![], 7), &look), "Nothing would change.\n");
    }

    #[test]
    fn what_only_drains_is_not_felt() {
        let felt = |effect| is_felt(&Plan::new(vec!["x".to_owned()], vec![effect], 7));
        assert!(!felt(effect(Fate::Drained, None)));
        assert!(felt(effect(Fate::Drained, Some(Fate::Moved))));
        for fate in [Fate::Reset, Fate::Moved, Fate::Dropped] {
            assert!(felt(effect(fate, None)));
        }
    }
}
