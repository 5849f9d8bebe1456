//! What was found, item by item.

use super::kinds::{Area, Kind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is thought of it, the better before the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is well.
    Ok,
    /// It cannot be told from here.
    CannotTell,
    /// It could be better.
    Advice,
    /// It will hurt, or may.
    Warning,
    /// It does not work.
    Problem,
}

impl Verdict {
    /// Every verdict, the worse before the better.
    pub const ALL: [Verdict; 5] =
        [Verdict::Problem, Verdict::Warning, Verdict::Advice, Verdict::CannotTell, Verdict::Ok];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::CannotTell => "cannot tell",
            Verdict::Advice => "advice",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Item {
    /// Which, as docs/bare-metal.md lists them.
    pub id: String,
    /// What it is listed under.
    pub area: Area,
    /// What it is about: a port, a core, an interface; none: the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What is thought of it.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// Why it matters.
    pub why: String,
    /// The command that mends it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Where there is more of it.
    pub documented: String,
}

/// All that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Report {
    /// The host's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Whether a daemon answered.
    pub daemon_answers: bool,
    /// The worst of the verdicts.
    pub worst: Verdict,
    /// In the order of docs/bare-metal.md.
    pub items: Vec<Item>,
}

/// The list that the checks write to.
#[derive(Debug, Default)]
pub(super) struct Items(Vec<Item>);

impl Items {
    /// It is well.
    pub fn ok(&mut self, kind: Kind, object: Object<'_>, found: impl Into<String>) {
        self.add(kind, object, Verdict::Ok, found.into(), None);
    }

    /// It cannot be told; with what is missing.
    pub fn cannot_tell(&mut self, kind: Kind, object: Object<'_>, found: impl Into<String>) {
        self.add(kind, object, Verdict::CannotTell, found.into(), None);
    }

    /// It is not well, and this mends it.
    pub fn mend(
        &mut self,
        kind: Kind,
        object: Object<'_>,
        verdict: Verdict,
        found: impl Into<String>,
        command: impl Into<String>,
    ) {
        self.add(kind, object, verdict, found.into(), Some(command.into()));
    }

    /// It is not well, and no one command mends it: what was found says what does.
    pub fn not_well(&mut self, kind: Kind, object: Object<'_>, verdict: Verdict, found: impl Into<String>) {
        self.add(kind, object, verdict, found.into(), None);
    }

    fn add(
        &mut self,
        kind: Kind,
        object: Object<'_>,
        verdict: Verdict,
        found: String,
        command: Option<String>,
    ) {
        self.0.push(Item {
            id: kind.id().to_owned(),
            area: kind.area(),
            object: object.map(str::to_owned),
            verdict,
            found,
            why: kind.why().to_owned(),
            command,
            documented: format!("docs/bare-metal.md#{}", kind.id()),
        });
    }

    /// The list, its commands with `scripts/setup` where it is on this host.
    pub fn into_vec(mut self, setup: &str) -> Vec<Item> {
        for command in self.0.iter_mut().filter_map(|item| item.command.as_mut()) {
            *command = command.replace("scripts/setup", setup);
        }
        self.0
    }
}

/// What an item is about; none: the host.
pub(super) type Object<'a> = Option<&'a str>;
