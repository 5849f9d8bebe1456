//! What a change would do: shown for `--dry-run` and `diff`, and asked about on a terminal before flows are reset,
//! moved or dropped by it.

#![forbid(unsafe_code)]

use super::client::CliError;
use super::table::{Look, number, text};
use crate::control::socket::views::{Fate, FlowEffect, HeldBy, Plan};
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
    if !plan.health.is_empty() {
        let rows = plan.health.iter().map(|one| {
            [text(&one.target_group), text(one.target), text(one.from.as_str()), text(one.to.as_str())]
        });
        let table = look.table(["TARGET GROUP", "TARGET", "STATE", "WOULD AT ONCE BE"], rows.collect());
        shown.push_str(&format!("\n{table}"));
    }
    if !plan.effects.is_empty() {
        let rows = plan.effects.iter().map(|effect| {
            let target = effect.target.map_or("all".to_owned(), |target| target.to_string());
            [text(&effect.target_group), text(target), flows(effect), text(fate(effect))]
        });
        let table = look.table(["TARGET GROUP", "TARGET", "FLOWS", "WOULD BE"], rows.collect());
        shown.push_str(&format!("\n{table}"));
    }
    shown
}

fn flows(effect: &FlowEffect) -> comfy_table::Cell {
    if effect.at_most { number(format!("up to {}", effect.flows)) } else { number(effect.flows) }
}

/// A sentence a line.
pub(super) fn sentences(differences: &[String]) -> String {
    differences.iter().map(|sentence| format!("{sentence}.\n")).collect()
}

pub(super) fn fate(effect: &FlowEffect) -> String {
    let held = match (effect.fate, effect.held_by) {
        (Fate::Held, Some(by)) => format!("held back ({})", why(by)),
        (fate, Some(by)) => format!("{} ({})", word(fate), why(by)),
        (fate, None) => word(fate).to_owned(),
    };
    match effect.then {
        Some(then) => format!("{held}, then {}", word(then)),
        None => held,
    }
}

fn why(by: HeldBy) -> &'static str {
    match by {
        HeldBy::NobodyHealthy => "no target is healthy",
        HeldBy::Hold => "flowgate.reset.hold_ms",
        HeldBy::MinHealthy => "flowgate.reset.min_healthy_percent",
        HeldBy::Rate => "some at a time: flowgate.reset.max_per_second",
    }
}

fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Drained => "drained",
        Fate::Reset => "reset",
        Fate::Moved => "moved to another target",
        Fate::Dropped => "dropped",
        Fate::Held => "held back",
        Fate::TimedOut => "timed out: silent for too long",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use crate::control::health::HealthState;
    use crate::control::socket::views::{HealthEffect, Preview};
    use jiff::tz::TimeZone;
    use std::net::Ipv4Addr;

    fn effect(fate: Fate, then: Option<Fate>) -> FlowEffect {
        let target = Ipv4Addr::new(10, 0, 0, 1);
        let target_group = "fw".to_owned();
        FlowEffect {
            target_group,
            target: Some(target),
            flows: 125,
            at_most: false,
            fate,
            then,
            held_by: None,
        }
    }

    fn plan(differences: &[&str], flows: Vec<FlowEffect>, health: Vec<HealthEffect>) -> Plan {
        let differences = differences.iter().map(|one| (*one).to_owned()).collect();
        Plan::new(differences, Preview { flows, health }, 7)
    }

    #[test]
    fn a_plan_is_its_sentences_and_what_becomes_of_flows() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let effects = vec![effect(Fate::Drained, Some(Fate::Reset)), effect(Fate::Moved, None)];
        let plan_shown = shown(&plan(&["One is so", "Two is so"], effects, vec![]), &look);
        let expected = "\
One is so.
Two is so.

TARGET GROUP  TARGET    FLOWS  WOULD BE
fw            10.0.0.1    125  drained, then reset
fw            10.0.0.1    125  moved to another target
";
        assert_eq!(plan_shown, expected);
        assert_eq!(shown(&plan(&[], vec![], vec![]), &look), "Nothing would change.\n");
    }

    // R-11, T-6, H-9
    #[test]
    fn what_holds_flows_back_and_who_changes_at_once_is_said() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let held = |held_by, then| FlowEffect { held_by: Some(held_by), ..effect(Fate::Held, Some(then)) };
        let effects = vec![
            held(HeldBy::Hold, Fate::Reset),
            held(HeldBy::NobodyHealthy, Fate::Moved),
            FlowEffect { held_by: Some(HeldBy::Rate), ..effect(Fate::Reset, None) },
            FlowEffect { target: None, at_most: true, ..effect(Fate::TimedOut, None) },
        ];
        let target = Ipv4Addr::new(10, 0, 0, 1);
        let (from, to) = (HealthState::Healthy, HealthState::Unhealthy);
        let health = vec![HealthEffect { target_group: "fw".to_owned(), target, from, to }];
        let expected = "\
One is so.

TARGET GROUP  TARGET    STATE    WOULD AT ONCE BE
fw            10.0.0.1  healthy  unhealthy

TARGET GROUP  TARGET    FLOWS      WOULD BE
fw            10.0.0.1        125  held back
                                   (flowgate.reset.hold_ms), then
                                   reset
fw            10.0.0.1        125  held back (no target is
                                   healthy), then moved to
                                   another target
fw            10.0.0.1        125  reset (some at a time:
                                   flowgate.reset.max_per_second)
fw            all       up to 125  timed out: silent for too long
";
        assert_eq!(shown(&plan(&["One is so"], effects, health), &look), expected);
    }

    #[test]
    fn what_only_drains_is_not_felt() {
        let felt = |effect| is_felt(&plan(&["x"], vec![effect], vec![]));
        assert!(!felt(effect(Fate::Drained, None)));
        assert!(felt(effect(Fate::Drained, Some(Fate::Moved))));
        for fate in [Fate::Reset, Fate::Moved, Fate::Dropped, Fate::TimedOut] {
            assert!(felt(effect(fate, None)));
        }
        assert!(felt(effect(Fate::Held, Some(Fate::Reset))));
    }
}
