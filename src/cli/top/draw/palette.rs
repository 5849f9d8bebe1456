//! How things look, with colour and without. Whatever colour says is said in words too.

#![forbid(unsafe_code)]

use crate::control::health::HealthState;
use ratatui::style::{Color, Modifier, Style};

/// Styles by what they mean.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::top) struct Palette {
    pub(super) title: Style,
    pub(super) heading: Style,
    pub(super) bad: Style,
    pub(super) warning: Style,
    pub(super) good: Style,
    pub(super) faint: Style,
    pub(super) selected: Style,
}

impl Palette {
    pub(in crate::cli::top) fn new(colour: bool) -> Palette {
        let (plain, bold) = (Style::new(), Style::new().add_modifier(Modifier::BOLD));
        let reversed = plain.add_modifier(Modifier::REVERSED);
        let coloured = |style: Style, of: Color| if colour { style.fg(of) } else { style };
        Palette {
            title: reversed,
            heading: bold,
            bad: coloured(bold, Color::Red),
            warning: coloured(plain, Color::Yellow),
            good: coloured(plain, Color::Green),
            faint: coloured(plain, Color::DarkGray),
            selected: reversed,
        }
    }

    pub(super) fn state(&self, state: HealthState) -> Style {
        match state {
            HealthState::Healthy => self.good,
            HealthState::Unhealthy | HealthState::Unavailable => self.bad,
            HealthState::Initial | HealthState::Draining => self.warning,
            HealthState::Unused => self.faint,
        }
    }
}
