//! What comes out: rows of figures with their verdicts, as JSON and as Markdown.

use std::fmt::Write;

use serde::Serialize;

use crate::machine::Machine;
use crate::series::Series;

/// What one contender gave in a row: a sample a round, or, of what is told by its extremes, shares.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub contender: String,
    pub unit: &'static str,
    #[serde(skip_serializing_if = "Series::is_empty")]
    pub samples: Series,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
}

/// What so great a share of all does not pass.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Share {
    pub share: f64,
    pub value: f64,
}

impl Figure {
    pub fn new(contender: impl Into<String>, unit: &'static str) -> Figure {
        Figure { contender: contender.into(), unit, samples: Series::default(), shares: Vec::new() }
    }

    /// The best of the rounds.
    pub fn best(&self) -> f64 {
        self.samples.best()
    }

    /// What it is told by, with the names of each.
    fn columns(&self) -> Vec<(String, f64)> {
        let name = |share: f64| if share < 1.0 { format!("{} %", share * 100.0) } else { "all".to_owned() };
        match (self.samples.len(), self.shares.is_empty()) {
            (1, _) => vec![("measured".to_owned(), self.best())],
            (_, false) => self.shares.iter().map(|at| (name(at.share), at.value)).collect(),
            _ => vec![
                ("best".to_owned(), self.best()),
                ("median".to_owned(), self.samples.median()),
                ("worst".to_owned(), self.samples.worst()),
            ],
        }
    }
}

/// What a bar says of what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What of the row.
    pub of: String,
    pub measured: f64,
    pub limit: f64,
    /// Whether the limit is the most that may be; otherwise it is the least.
    pub at_most: bool,
    pub unit: &'static str,
    pub meets: bool,
}

/// A bar that must not be passed.
pub fn at_most(of: impl Into<String>, measured: f64, limit: f64, unit: &'static str) -> Verdict {
    Verdict { of: of.into(), measured, limit, at_most: true, unit, meets: measured <= limit }
}

/// A bar that must be reached.
pub fn at_least(of: impl Into<String>, measured: f64, limit: f64, unit: &'static str) -> Verdict {
    Verdict { of: of.into(), measured, limit, at_most: false, unit, meets: measured >= limit }
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What `--only` calls it.
    pub id: &'static str,
    pub title: String,
    pub figures: Vec<Figure>,
    pub verdicts: Vec<Verdict>,
    pub notes: Vec<String>,
}

impl Row {
    pub fn new(id: &'static str, title: impl Into<String>) -> Row {
        Row { id, title: title.into(), figures: Vec::new(), verdicts: Vec::new(), notes: Vec::new() }
    }

    /// Whether it meets all its bars.
    pub fn meets(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.meets)
    }
}

/// All of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    /// Whether everything was small, so that no figure says how fast anything is.
    pub short: bool,
    pub rounds: u32,
    /// Milliseconds of each contender's turn in a round.
    pub turn_ms: u128,
    /// Nanoseconds of a measurement of nothing at the end: about so much was taken off each batch of 1,024.
    pub nothing_ns: u128,
    pub rows: Vec<Row>,
}

impl Report {
    /// Rows that do not meet a bar.
    pub fn missed(&self) -> usize {
        self.rows.iter().filter(|row| !row.meets()).count()
    }

    /// For people.
    pub fn markdown(&self) -> String {
        let mut text = String::from("## What was measured\n\n");
        if self.short {
            text += "**The short form: small tables and short turns. These figures prove that the bench works and \
                     nothing else.**\n\n";
        }
        text += &self.machine.markdown();
        // A `String` takes whatever is written.
        writeln!(
            text,
            "\n{} rounds of {} ms a contender, in turn. Times are CPU time of the measuring thread (of testpmd: of its \
             forwarding thread); verdicts go by the best round. Off the time of each batch of 1,024, of all contenders \
             but testpmd, was taken what a measurement of nothing took at the least of the 64 times before ({} ns at the \
             end). Y is testpmd's time a packet in the same rounds.",
            self.rounds, self.turn_ms, self.nothing_ns
        )
        .ok();
        text += "\n| what | measured | bar | verdict |\n|---|---|---|---|\n";
        for row in &self.rows {
            for verdict in &row.verdicts {
                let Verdict { of, measured, limit, at_most, unit, meets } = verdict;
                let bar = if *at_most { "at most" } else { "at least" };
                let says = if *meets { "meets" } else { "**misses**" };
                let title = &row.title;
                writeln!(text, "| {title}: {of} | {measured:.2} {unit} | {bar} {limit} {unit} | {says} |")
                    .ok();
            }
        }
        self.rows.iter().for_each(|row| text += &row.markdown());
        text
    }
}

impl Row {
    fn markdown(&self) -> String {
        let columns = self.figures.first().map(Figure::columns).unwrap_or_default();
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        // The yardstick comes first, and may be of another unit.
        let unit = self.figures.last().map_or("", |figure| figure.unit);
        let mut text = format!("\n### {}\n\n| {unit} | {} |\n|---|", self.title, names.join(" | "));
        text += &"---|".repeat(names.len());
        text.push('\n');
        for figure in &self.figures {
            let decimals = if figure.unit == "µs" { 2 } else { 1 };
            let values: Vec<String> =
                figure.columns().iter().map(|(_, value)| format!("{value:.decimals$}")).collect();
            let beside = if figure.unit == unit { String::new() } else { format!(" ({})", figure.unit) };
            text += &format!("| {}{beside} | {} |\n", figure.contender, values.join(" | "));
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }
}

/// A number of flows as people write it.
pub fn count(flows: u32) -> String {
    match flows.trailing_zeros() {
        20.. => format!("{} M", flows >> 20),
        10.. => format!("{} K", flows >> 10),
        _ => flows.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: Verdict) -> Row {
        Row { verdicts: vec![verdict], ..Row::new("packets", "a packet") }
    }

    #[test]
    fn a_row_meets_its_bar_up_to_the_bar_itself() {
        assert!(row(at_most("a packet", 2.0, 2.0, "Y")).meets());
        assert!(!row(at_most("a packet", 2.01, 2.0, "Y")).meets());
        assert!(row(at_least("packets", 1.9, 1.9, "×")).meets());
        assert!(!row(at_least("packets", 1.89, 1.9, "×")).meets());
        assert!(!row(at_most("a packet", f64::NAN, 2.0, "Y")).meets(), "what was not measured meets nothing");
        assert!(Row::new("packets", "without a bar").meets());
    }

    #[test]
    fn a_miss_is_said_and_counted() {
        let mut measured = row(at_most("a packet", 3.456, 2.0, "Y"));
        let mut figure = Figure::new("testpmd", "ns a packet");
        [12.0, 11.0, 14.0].into_iter().for_each(|sample| figure.samples.push(sample));
        measured.figures.push(figure);
        let rows = vec![measured, row(at_least("packets", 1.95, 1.9, "×"))];
        let machine = Machine::default();
        let report = Report { machine, short: false, rounds: 3, turn_ms: 200, nothing_ns: 230, rows };
        assert_eq!(report.missed(), 1);
        let text = report.markdown();
        for line in [
            "| a packet: a packet | 3.46 Y | at most 2 Y | **misses** |",
            "| a packet: packets | 1.95 × | at least 1.9 × | meets |",
            "| ns a packet | best | median | worst |",
            "| testpmd | 11.0 | 12.0 | 14.0 |",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
