//! What a table is made by, what a flow starts with, and why there is none.
#![forbid(unsafe_code)]

use thiserror::Error;

use super::{EntryId, MAX_CAPACITY};
use crate::flow::cookie::CookieSpace;
use crate::flow::entry::{Entry, FlowFlags, FlowState, LinkId};
use crate::flow::hash::HashSeed;
use crate::flow::pages::Pages;
use crate::id::{Millis, TargetId, WorkerId};

/// What a table is made by.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// How many flows it holds; fixed from then on. From 1 to 2^27.
    pub capacity: u32,
    /// Whose table it is.
    pub worker: WorkerId,
    /// How many workers this node has, each with a table of the same capacity.
    pub workers: u8,
    /// What pages to ask for.
    pub pages: Pages,
    /// The secret its hash is keyed by: the same for all workers.
    pub seed: HashSeed,
}

/// Why there is no table.
#[derive(Debug, Error)]
pub enum TableError {
    /// The capacity cannot be.
    #[error("a flow table of {0} entries: must be between 1 and {MAX_CAPACITY}")]
    Capacity(u32),
    /// Cookies would not fit.
    #[error(transparent)]
    Cookie(#[from] CookieSpace),
    /// The kernel has no memory.
    #[error("no memory for a flow table of {capacity} entries ({bytes} bytes): {source}")]
    Memory {
        /// The capacity asked for.
        capacity: u32,
        /// What that takes.
        bytes: usize,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// What a new flow starts with.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry {
    /// [`FlowState::HalfOpen`], [`FlowState::Established`] or [`FlowState::Closed`] (a flow adopted without
    /// its SYN), or [`FlowState::Other`].
    pub state: FlowState,
    /// What is known of it.
    pub flags: FlowFlags,
    /// Where it goes.
    pub target: TargetId,
    /// Which life of the target's slot.
    pub target_generation: u16,
    /// Link-layer headers by direction.
    pub link: [LinkId; 2],
    /// The time of its first packet.
    pub now: Millis,
}

/// A flow that now has an entry.
#[derive(Debug)]
pub struct Inserted {
    /// Its entry.
    pub id: EntryId,
    /// The flow that made room for it, as it was: what counted it (live flows of its target, users of
    /// its link-layer headers) must let it go.
    pub evicted: Option<Entry>,
}

/// Why a flow has no new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInserted {
    /// It has one already: this.
    Exists(EntryId),
    /// Every entry holds a flow that must not be pushed out (F-12). Nothing was evicted.
    Full,
}
