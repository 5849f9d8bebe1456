//! The node's flow tables over a restart: where they lie, and whether those that a daemon before this one has left are
//! taken over.
//!
//! In a folder of a memory file system there is a file for each worker's table and one, `node`, that says what they
//! are: of which version, boot and user, for how many workers, under which secret, and what the numbers of endpoints and
//! ports stand for ([`identity`]); it also has what the control core hands on ([`resume`](super::resume)). Where there are
//! reserved huge pages to be had as files the tables lie there instead, and `node` says where.
//!
//! What is found is taken over as a whole, entries that are torn or refer to nothing left out, or not at all; then new ones
//! are made and, for some time, TCP packets of no flow begin one (F-8). What belongs to somebody else is
//! left alone: the tables are in memory of the process then, and end with it. Each outcome is one sentence.

mod identity;
mod open;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

pub use identity::{LENGTH as NODE_FILE_BYTES, boot};
pub use open::Looked;
use thiserror::Error;

use super::node;
use super::resume::{Resume, SharedKeeper};
use crate::flow::{HashSeed, KeptLinks, Pages, Table, TableError};
use crate::id::{Millis, PortId, TargetId, WorkerId};
use crate::io::clock::Clock;
use crate::io::owner::Owner;
use crate::io::shelf::{Shelf, ShelfError};

/// What tables a node has.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The operator's word.
    pub settings: &'a node::Tables,
    /// The state directory, after which the folders are named.
    pub state_directory: &'a Path,
    /// How many workers there are.
    pub workers: u8,
    /// Flows that each of them can hold.
    pub capacity: u32,
    /// What pages to ask for.
    pub pages: Pages,
    /// Whose the tables are: the user that the daemon will be.
    pub owner: Owner,
    /// The endpoints' names, by their numbers.
    pub endpoints: Vec<String>,
    /// The ports' names, by their numbers.
    pub ports: Vec<String>,
}

/// Why the daemon does not start.
#[derive(Debug, Error)]
pub enum TablesError {
    /// Another daemon has the folder.
    #[error("the flow tables' folder {}", .0)]
    InUse(ShelfError),
    /// No table can be had at all.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The system has no random numbers.
    #[error("no seed for the flow tables: {0}")]
    Seed(std::io::Error),
}

/// What came of the tables of the daemon before this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There were none.
    First,
    /// They were taken over.
    TakenOver,
    /// They were not, for this reason, and are gone.
    Lost(String),
    /// They are not kept: the operator has said so.
    Off,
    /// They cannot be kept, for this reason.
    NotKept(String),
}

/// What came of it, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// What it was.
    pub outcome: Outcome,
    /// Flows that go on, remembered ones among them.
    pub kept: u64,
    /// Entries that were torn by a crash.
    pub torn: u64,
    /// Flows of endpoints and targets that there are no more.
    pub refused: u64,
    /// How long it took to look at all of them.
    pub took: Duration,
    /// The last round of any worker before.
    pub last_round: Option<Millis>,
    /// Until when TCP packets of no flow begin one.
    pub adopt_until: Option<Millis>,
    /// Why those that were there could not be taken over, where new ones cannot be kept either.
    pub lost: Option<String>,
}

/// The tables of a node.
pub struct NodeTables {
    /// The workers', in their order.
    pub workers: Vec<OfWorker>,
    /// The workers' clock, which goes on where the one before it ended.
    pub clock: Clock,
    /// What the control core is to go on with, and where it hands on.
    pub keeper: SharedKeeper,
    /// Targets that are unhealthy, and since when.
    pub unhealthy: Vec<(TargetId, Millis)>,
    /// What came of it.
    pub restart: Restart,
    /// Whether each port is the one that had its number before.
    same_ports: Vec<bool>,
    /// Theirs as long as the daemon lives.
    shelves: Vec<Shelf>,
}

/// One worker's.
pub struct OfWorker {
    /// Its flows.
    pub table: Table,
    /// What they refer to; `None` where they are not kept.
    pub links: Option<KeptLinks>,
}

impl NodeTables {
    /// Takes over what is there, or makes new ones.
    ///
    /// # Errors
    /// If another daemon has them, or there is no memory.
    pub fn open(plan: &Plan<'_>) -> Result<NodeTables, TablesError> {
        NodeTables::look(plan)?.make(plan)
    }

    /// The first half of [`open`](NodeTables::open), which takes over what can be and makes nothing: it asks for no memory, and so
    /// may run beside whoever does.
    ///
    /// # Errors
    /// If another daemon has them.
    pub fn look(plan: &Plan<'_>) -> Result<Looked, TablesError> {
        open::look(plan)
    }

    /// Where they are kept.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.shelves.iter().map(Shelf::path)
    }

    /// Those of them that were another user's until now.
    pub fn given(&self) -> impl Iterator<Item = &Path> {
        self.shelves.iter().filter(|shelf| shelf.was_given()).map(Shelf::path)
    }

    /// Whether a port is the one that had its number before.
    pub fn is_same_port(&self, port: PortId) -> bool {
        self.same_ports.get(port.index()).copied().unwrap_or(false)
    }
}

impl Restart {
    /// Nothing was found, or could be used.
    pub fn nothing(outcome: Outcome) -> Restart {
        let (last_round, adopt_until, lost) = (None, None, None);
        Restart { outcome, kept: 0, torn: 0, refused: 0, took: Duration::ZERO, last_round, adopt_until, lost }
    }

    /// Why tables that there were are gone, if they are.
    pub fn why_lost(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Lost(why) => Some(why),
            Outcome::First | Outcome::TakenOver | Outcome::Off | Outcome::NotKept(_) => self.lost.as_deref(),
        }
    }

    /// What came of it, in a word for programs.
    pub fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::First => "first",
            Outcome::TakenOver => "taken_over",
            Outcome::Lost(_) => "lost",
            Outcome::Off => "off",
            Outcome::NotKept(_) => "not_kept",
        }
    }

    /// What came of it, in a sentence.
    pub fn sentence(&self) -> String {
        match &self.outcome {
            Outcome::First => "no flow tables were found: they begin empty".to_owned(),
            Outcome::TakenOver => {
                let Restart { kept, torn, refused, .. } = self;
                format!(
                    "the flow tables of the daemon before this one were taken over: {kept} flows go on, {torn} \
                     entries were torn, {refused} flows were of endpoints or targets that there are no more"
                )
            }
            Outcome::Lost(why) => {
                format!("the flow tables of the daemon before this one could not be taken over: {why}")
            }
            Outcome::Off => "flow tables are not kept: tables.keep is false".to_owned(),
            Outcome::NotKept(why) => {
                let not_kept = format!("flow tables are not kept, and flows will end with the daemon: {why}");
                match &self.lost {
                    Some(lost) => format!("{not_kept}; those of the daemon before this one are lost: {lost}"),
                    None => not_kept,
                }
            }
        }
    }
}

/// Where the tables are that a worker's number stands for.
fn file_name(worker: WorkerId) -> String {
    format!("worker-{}", worker.0)
}

/// A new secret for the tables' hash.
fn new_seed() -> Result<HashSeed, TablesError> {
    HashSeed::from_os().map_err(TablesError::Seed)
}

/// Targets that were found unhealthy, and when by the workers' clock.
fn unhealthy(resume: &Resume, now: Millis, boot_ms: u64) -> Vec<(TargetId, Millis)> {
    let slots = (0..=u16::MAX).zip(&resume.slots);
    let known = slots.filter_map(|(id, slot)| Some((id, slot.holder.as_ref()?.health.as_ref()?)));
    known
        .filter(|(_, health)| !health.healthy)
        .map(|(id, health)| {
            let age = u32::try_from(boot_ms.saturating_sub(health.since_boot_ms)).unwrap_or(u32::MAX);
            // Longer than any guard asks for is as good as for ever.
            (TargetId(id), Millis(now.0.wrapping_sub(age.min(LONG_MS))))
        })
        .collect()
}

/// More than the longest hold of a reset, and less than the clock can tell apart.
const LONG_MS: u32 = 2 * 3_600_000;
