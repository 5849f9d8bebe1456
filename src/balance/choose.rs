//! The worker's side: a new flow's target from a group's table and what is known of health. No
//! allocation, no lock; one row is read unless both of its choices are out.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::score::{Member, Score};
use crate::flow::prefetch;
use crate::id::TargetId;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Who has it.
    pub first: TargetId,
    /// Who would have it without the first; the first again if there is no other.
    pub second: TargetId,
}

/// A target group's table and members, as of one moment.
#[derive(Clone, Debug)]
pub struct TargetMap {
    /// [`ROWS`](super::ROWS) rows, or none if no member has a weight.
    pub rows: Arc<[Row]>,
    /// Everyone in it.
    pub members: Arc<[Member]>,
    /// The same as a set: a bit for each [`TargetId`].
    present: Arc<[u64]>,
}

/// Where a new flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// To this target.
    pub target: TargetId,
    /// Although it is not healthy, as none is (F-6).
    pub fail_open: bool,
}

impl TargetMap {
    /// A table with these rows and members.
    pub(super) fn new(rows: Arc<[Row]>, members: Arc<[Member]>) -> TargetMap {
        let words = members.iter().map(|member| member.target().index() / 64 + 1).max().unwrap_or(0);
        let mut present = vec![0; words];
        for member in &*members {
            let id = member.target().index();
            present[id / 64] |= 1 << (id % 64);
        }
        TargetMap { rows, members, present: present.into() }
    }

    /// Whether a target is a member.
    #[inline]
    pub fn has(&self, target: TargetId) -> bool {
        let id = target.index();
        self.present.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 != 0)
    }

    /// Asks for the row that [`choose`](TargetMap::choose) will read.
    #[inline(always)]
    pub fn prefetch(&self, choice_hash: u64) {
        if let Some(row) = self.rows.get(usize::from(row_number(choice_hash))) {
            prefetch(row);
        }
    }

    /// The row that [`choose`](TargetMap::choose) reads, and its number. `None` if no member has a weight.
    pub fn row(&self, choice_hash: u64) -> Option<(u16, Row)> {
        let number = row_number(choice_hash);
        Some((number, *self.rows.get(usize::from(number))?))
    }

    /// See [`choose`].
    #[inline(always)]
    pub fn choose(&self, choice_hash: u64, is_healthy: impl Fn(TargetId) -> bool) -> Option<Choice> {
        choose(&self.rows, &self.members, choice_hash, is_healthy)
    }
}

/// The target of a flow with this [choice hash](crate::flow::HashSeed::choice): the one that a table of the
/// healthy members alone would name (F-4); the row's first choice if none is healthy (F-6); `None` if the
/// group is empty (F-7).
///
/// If neither of the row's two is healthy all members are scored for this row, a few nanoseconds each.
#[inline(always)]
pub fn choose(
    rows: &[Row],
    members: &[Member],
    choice_hash: u64,
    is_healthy: impl Fn(TargetId) -> bool,
) -> Option<Choice> {
    let number = row_number(choice_hash);
    let row = rows.get(usize::from(number))?;
    let healthy = |target| Choice { target, fail_open: false };
    if is_healthy(row.first) {
        return Some(healthy(row.first));
    }
    if is_healthy(row.second) {
        return Some(healthy(row.second));
    }
    let best = best_of(members, number, is_healthy);
    Some(best.map_or(Choice { target: row.first, fail_open: true }, healthy))
}

/// The row's favourite among the healthy members.
#[cold]
fn best_of(members: &[Member], row: u16, is_healthy: impl Fn(TargetId) -> bool) -> Option<TargetId> {
    let mut best = Score::NONE;
    for member in members {
        if is_healthy(member.target())
            && let Some(score) = member.score_below(row, best)
        {
            best = score;
        }
    }
    best.target()
}

#[inline]
fn row_number(choice_hash: u64) -> u16 {
    (choice_hash >> 48) as u16
}
