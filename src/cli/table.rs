//! How tables, times and numbers look.
//!
//! Columns side by side without rules, so that `awk` and `grep` like them too. A table is as wide as the terminal,
//! or 100 columns where there is none, and breaks lines between words; where not even its words fit side by
//! side, each row is a list of its own. Colour is for terminals only.

#![forbid(unsafe_code)]

use crate::control::events::Timestamp;
use crate::control::health::HealthState;
use crate::control::shown::span;
use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use jiff::tz::TimeZone;
use ratatui::crossterm::style::{self, Stylize as _};
use std::fmt::Display;

/// The width of a table that is not on a terminal, in columns.
const PLAIN_WIDTH: u16 = 100;

/// What tables are made for.
pub(super) struct Look {
    width: u16,
    colour: bool,
    zone: TimeZone,
    now: Timestamp,
}

impl Look {
    /// For standard output as it is, now and here.
    pub(super) fn new(terminal: bool) -> Self {
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let of_terminal = if terminal { terminal_size::terminal_size_of(std::io::stdout()) } else { None };
        let width = of_terminal.map_or(PLAIN_WIDTH, |(width, _)| width.0);
        Look { width, colour, zone: TimeZone::system(), now: Timestamp::now() }
    }

    /// For a file, at a time and place of the test's choice.
    #[cfg(test)]
    pub(super) fn plain(now: Timestamp, zone: TimeZone) -> Self {
        Look { width: PLAIN_WIDTH, colour: false, zone, now }
    }

    /// How wide tables are, in columns.
    pub(super) fn width(&self) -> u16 {
        self.width
    }

    /// Whether there is colour.
    pub(super) fn has_colour(&self) -> bool {
        self.colour
    }

    /// A table with these headings and rows, and a newline at its end.
    pub(super) fn table<const N: usize>(&self, headings: [&str; N], rows: Vec<[Cell; N]>) -> String {
        self.table_of(&headings, rows.into_iter().map(Vec::from).collect())
    }

    /// The same where the columns are not known beforehand; no headings: none are shown.
    pub(super) fn table_of(&self, headings: &[&str], rows: Vec<Vec<Cell>>) -> String {
        /// Blanks between columns: two, and one where it is tight.
        const GAPS: [u16; 2] = [2, 1];
        let words = longest_words(headings, &rows);
        let needed = |gap: u16| words.iter().map(|word| u32::from(word + gap)).sum::<u32>() - u32::from(gap);
        match GAPS.into_iter().find(|gap| words.is_empty() || needed(*gap) <= u32::from(self.width)) {
            Some(gap) => self.columns(headings, rows, gap, &words),
            None if headings.is_empty() => self.columns(headings, rows, GAPS[0], &[]),
            None => {
                let lists = rows.into_iter().map(|row| {
                    let left = |cell: Cell| cell.set_alignment(CellAlignment::Left);
                    let lines =
                        headings.iter().zip(row).map(|(heading, cell)| vec![text(heading), left(cell)]);
                    self.columns(&[], lines.collect(), GAPS[0], &[])
                });
                lists.collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Columns with so many blanks between them, each at least as wide as is said.
    fn columns(&self, headings: &[&str], rows: Vec<Vec<Cell>>, gap: u16, widths: &[u16]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        // The blanks after the last column are trimmed.
        table.set_width(self.width.saturating_add(gap));
        if self.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        if !headings.is_empty() {
            table.set_header(headings);
        }
        table.add_rows(rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, gap));
            if let Some(width) = widths.get(index) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width + gap)));
            }
        }
        let mut text = table.trim_fmt();
        text.push('\n');
        text
    }

    /// A heading: bold on a terminal.
    pub(super) fn heading(&self, text: &str) -> String {
        if self.colour { text.bold().to_string() } else { text.to_owned() }
    }

    /// A word in a colour, on a terminal.
    pub(super) fn tinted(&self, text: &str, colour: style::Color) -> String {
        if self.colour { text.with(colour).to_string() } else { text.to_owned() }
    }

    /// A sentence or more after a head such as `1. `, broken between words to the width; lines that follow begin
    /// under the first word. With a newline at its end.
    pub(super) fn paragraph(&self, head: &str, text: &str) -> String {
        self.paragraph_beside(head, head.chars().count(), text)
    }

    /// The same after a head of so many columns, which may have colour.
    pub(super) fn paragraph_beside(&self, head: &str, indent: usize, text: &str) -> String {
        let (mut lines, mut room) = (head.to_owned(), usize::from(self.width));
        let (whole, mut first) = (room, true);
        room = room.saturating_sub(indent);
        for word in text.split_whitespace() {
            let needed = word.chars().count() + usize::from(!first);
            if needed > room && !first {
                lines.push('\n');
                lines.extend(std::iter::repeat_n(' ', indent));
                room = whole.saturating_sub(indent);
                first = true;
            }
            if !first {
                lines.push(' ');
            }
            lines.push_str(word);
            room = room.saturating_sub(word.chars().count() + usize::from(!first));
            first = false;
        }
        lines.push('\n');
        lines
    }

    /// A target's state, coloured by how much it wants to be seen.
    pub(super) fn state(&self, state: HealthState) -> Cell {
        let cell = Cell::new(state.as_str());
        match state {
            HealthState::Healthy => cell.fg(Color::Green),
            HealthState::Unhealthy | HealthState::Unavailable => cell.fg(Color::Red),
            HealthState::Initial | HealthState::Draining => cell.fg(Color::Yellow),
            HealthState::Unused => cell.fg(Color::DarkGrey),
        }
    }

    /// How long ago `time` was: `4m 12s`.
    pub(super) fn ago(&self, time: Timestamp) -> String {
        span(self.now.since(time))
    }

    /// `time` in the local zone, with its date: `2026-11-29 21:47:37.123`.
    pub(super) fn date_and_time(&self, time: Timestamp) -> String {
        self.local(time, "%Y-%m-%d %H:%M:%S%.3f")
    }

    /// The same with how far the zone is from UTC, in which the log is: `2026-11-29 21:47:37.123 +01:00`.
    pub(super) fn moment(&self, time: Timestamp) -> String {
        self.local(time, "%Y-%m-%d %H:%M:%S%.3f %:z")
    }

    /// `time` in the local zone, as short as it can be told: of the last day `21:47:37.123`, before that
    /// `2026-11-29 21:47`.
    pub(super) fn since(&self, time: Timestamp) -> String {
        self.since_at(time, self.now)
    }

    /// The same when it is `now`, by the daemon's clock.
    pub(super) fn since_at(&self, time: Timestamp, now: Timestamp) -> String {
        const DAY_MS: u64 = 86_400_000;
        if now.since(time) < DAY_MS { self.time(time) } else { self.local(time, "%Y-%m-%d %H:%M") }
    }

    /// `time` in the local zone: `21:47:37.123`.
    pub(super) fn time(&self, time: Timestamp) -> String {
        self.local(time, "%H:%M:%S%.3f")
    }

    /// A time in nanoseconds since 1970 in the local zone: `21:47:37.123456789`.
    pub(super) fn nanoseconds(&self, unix_ns: u64) -> String {
        match jiff::Timestamp::from_nanosecond(unix_ns.into()) {
            Ok(time) => time.to_zoned_datetime(self.zone.clone()).strftime("%H:%M:%S%.9f").to_string(),
            // Beyond the year 9999.
            Err(_) => unix_ns.to_string(),
        }
    }

    /// How far the local zone is from UTC at `time`: `+01:00`.
    pub(super) fn zone(&self, time: Timestamp) -> String {
        self.local(time, "%:z")
    }

    /// `time` in the local zone, to the second, with how far that is from UTC: `21:47:37 +01:00`.
    pub(super) fn clock(&self, time: Timestamp) -> String {
        self.local(time, "%H:%M:%S %:z")
    }

    fn local(&self, time: Timestamp, format: &str) -> String {
        match jiff::Timestamp::from_millisecond(time.unix_ms()) {
            Ok(time) => time.to_zoned_datetime(self.zone.clone()).strftime(format).to_string(),
            // No time of ours is outside of what can be written; see `Timestamp::from_unix_ms`.
            Err(_) => time.to_string(),
        }
    }
}

/// How long the longest word of each column is.
fn longest_words(headings: &[&str], rows: &[Vec<Cell>]) -> Vec<u16> {
    let length = |word: &str| u16::try_from(word.chars().count()).unwrap_or(u16::MAX / 64);
    let longest = |text: &str| text.split_whitespace().map(length).max().unwrap_or(0);
    let mut words: Vec<u16> = headings.iter().map(|heading| longest(heading)).collect();
    for row in rows {
        words.resize(words.len().max(row.len()), 0);
        for (word, cell) in words.iter_mut().zip(row) {
            *word = longest(&cell.content()).max(*word);
        }
    }
    words
}

/// Text in a cell.
pub(super) fn text(content: impl Display) -> Cell {
    Cell::new(content.to_string())
}

/// A number in a cell, at its right edge.
pub(super) fn number(content: impl Display) -> Cell {
    text(content).set_alignment(CellAlignment::Right)
}

/// A count to reckon with.
#[expect(clippy::cast_precision_loss, reason = "shown in three digits")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

/// What there may not be, in a cell.
pub(super) fn optional(content: Option<impl Display>) -> Cell {
    content.map_or_else(|| text("-"), text)
}

/// A number of milliseconds as an operator sets it: `150 ms`, `20 s`.
pub(super) fn setting(ms: u64) -> String {
    if ms.is_multiple_of(1000) { format!("{} s", ms / 1000) } else { format!("{ms} ms") }
}

/// The last part of an ARN's path that is a name: `…:targetgroup/fw/0123…` is `fw`.
pub(super) fn name_of(arn: &str) -> &str {
    let path = arn.rsplit(':').next().unwrap_or(arn);
    let mut parts = path.split('/');
    match parts.next() {
        Some("loadbalancer" | "listener" | "listener-rule") => parts.nth(1).unwrap_or(arn),
        Some("targetgroup") => parts.next().unwrap_or(arn),
        _ => arn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_broken_between_words_and_hangs_under_its_head() {
        let look = Look { width: 12, ..Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC) };
        assert_eq!(look.paragraph("1. ", "one two three"), "1. one two\n   three\n");
        assert_eq!(look.paragraph("1. ", "nine-long to"), "1. nine-long\n   to\n");
        assert_eq!(look.paragraph("1. ", "longer-than-the-line x"), "1. longer-than-the-line\n   x\n");
        assert_eq!(look.paragraph("", ""), "\n");
    }

    #[test]
    fn times_are_local_and_to_the_millisecond() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let look = Look::plain(Timestamp::from_unix_ms(1_795_985_317_007), zone);
        let time = Timestamp::from_unix_ms(1_795_985_257_007);
        assert_eq!(look.time(time), "22:47:37.007");
        assert_eq!(look.date_and_time(time), "2026-11-29 22:47:37.007");
        assert_eq!(look.moment(time), "2026-11-29 22:47:37.007 +02:00");
        assert_eq!(look.clock(time), "22:47:37 +02:00");
        assert_eq!(look.ago(time), "1m 0s");
        assert_eq!(look.since(time), "22:47:37.007");
        assert_eq!(look.since(Timestamp::from_unix_ms(1_795_898_917_007)), "2026-11-28 22:48");
        assert_eq!(
            look.since_at(time, Timestamp::from_unix_ms(1_795_985_257_007 + 86_400_000)),
            "2026-11-29 22:47"
        );
    }

    #[test]
    fn an_arn_has_a_name_in_it() {
        let prefix = "arn:aws:elasticloadbalancing:xx-local-1:000000000000";
        assert_eq!(name_of(&format!("{prefix}:loadbalancer/gwy/gw/1")), "gw");
        assert_eq!(name_of(&format!("{prefix}:listener/gwy/gw/1/2")), "gw");
        assert_eq!(name_of(&format!("{prefix}:targetgroup/fw/1")), "fw");
        assert_eq!(name_of("other"), "other");
    }

    #[test]
    fn states_are_coloured_on_a_terminal_and_only_there() {
        let mut look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let table = |look: &Look| look.table(["STATE"], vec![[look.state(HealthState::Unhealthy)]]);
        assert_eq!(table(&look), "STATE\nunhealthy\n");
        look.colour = true;
        assert!(table(&look).contains("\u{1b}["), "{:?}", table(&look));
    }

    /// A table for a terminal of so many columns.
    fn of_width(width: u16, headings: &[&str], row: &[&str]) -> String {
        let look = Look { width, ..Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC) };
        look.table_of(headings, vec![row.iter().map(text).collect()])
    }

    #[test]
    fn no_word_is_broken_however_narrow_the_terminal_is() {
        let (headings, row) = (["PORT", "FULL %", "MAC"], ["left", "7", "0a:d2:fd:5b:7f:26"]);
        assert_eq!(of_width(31, &headings, &row), "PORT  FULL %  MAC\nleft  7       0a:d2:fd:5b:7f:26\n");
        assert_eq!(
            of_width(29, &headings, &row),
            "PORT  FULL  MAC\n      %\nleft  7     0a:d2:fd:5b:7f:26\n"
        );
        assert_eq!(of_width(27, &headings, &row), "PORT FULL MAC\n     %\nleft 7    0a:d2:fd:5b:7f:26\n");
        assert_eq!(of_width(26, &headings, &row), "PORT    left\nFULL %  7\nMAC     0a:d2:fd:5b:7f:26\n");
    }

    #[test]
    fn a_long_cell_is_broken_so_that_the_table_fits_100_columns() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let row = [text("10.0.0.1"), text("word ".repeat(60)), number(5)];
        let table = look.table(["TARGET", "DESCRIPTION", "FLOWS"], vec![row]);
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
        assert_eq!(table.matches("word").count(), 60);
        assert!(!table.contains('\u{1b}'), "no colour in a file");
    }
}
