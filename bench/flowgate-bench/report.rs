//! What comes out: rows of figures with their verdicts, as JSON and as Markdown.

use serde::Serialize;

use crate::series::Series;

/// What one contender gave in a row.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    pub contender: String,
    pub unit: &'static str,
    pub samples: Series,
}

impl Figure {
    pub fn new(contender: impl Into<String>, unit: &'static str) -> Figure {
        Figure { contender: contender.into(), unit, samples: Series::default() }
    }

    pub fn best(&self) -> f64 {
        self.samples.best()
    }
}

/// What a bar says of what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// What is compared with what.
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
}

/// A number of flows as people write it.
pub fn count(flows: u32) -> String {
    match flows.trailing_zeros() {
        20.. => format!("{} M", flows >> 20),
        10.. => format!("{} K", flows >> 10),
        _ => flows.to_string(),
    }
}

impl Row {
    /// Whether it meets all its bars.
    pub fn meets(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.meets)
    }
}

/// The rows for people.
pub fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        text += &format!("\n### {}\n\n| | best | median | worst |\n|---|---|---|---|\n", row.title);
        for Figure { contender, unit, samples } in &row.figures {
            let (best, median, worst) = (samples.best(), samples.median(), samples.worst());
            text += &format!("| {contender}, {unit} | {best:.1} | {median:.1} | {worst:.1} |\n");
        }
        for verdict in &row.verdicts {
            let Verdict { of, measured, limit, unit, meets, at_most } = verdict;
            let bar = if *at_most { "at most" } else { "at least" };
            let verdict = if *meets { "meets" } else { "misses" };
            text += &format!("\n{of}: {measured:.2} {unit}, {bar} {limit} {unit}: **{verdict}**\n");
        }
        for note in &row.notes {
            text += &format!("\n{note}\n");
        }
    }
    text
}
