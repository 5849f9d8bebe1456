//! The control core's side: builds a target group's table and keeps it up to date, one target at a time.
//! Beside each choice it keeps the score, so that adding a target costs a row at most one score, and taking one away
//! or changing its weight a full look only at the rows that the target is in.
#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::net::Ipv4Addr;

use super::ROWS;
use super::choose::{Row, TargetMap};
use super::score::{Member, Score};
use crate::flow::HashSeed;
use crate::id::TargetId;

/// So many targets of a group are expected to draw well enough for a row to be looked at by it. Fewer than two of
/// 16 do in two of a million cases, so that a table's rows look at all targets next to never; more would only
/// cost. Unit tests have it low, so that both ways are taken.
const CLOSE: f64 = if cfg!(test) { 2.0 } else { 16.0 };

/// A row with the scores of its choices.
#[derive(Clone, Copy)]
struct ScoredRow {
    first: (Score, TargetId),
    second: (Score, TargetId),
}

impl ScoredRow {
    const EMPTY: ScoredRow =
        ScoredRow { first: (Score::NONE, TargetId(0)), second: (Score::NONE, TargetId(0)) };

    fn has(&self, target: TargetId) -> bool {
        let is_it = |choice: (Score, TargetId)| choice.1 == target && !choice.0.is_none();
        is_it(self.first) || is_it(self.second)
    }

    /// Lets a member that is not in the row have its place in it.
    fn consider(&mut self, number: u16, member: &Member) {
        let Some(score) = member.score_below(number, self.second.0) else { return };
        let newcomer = (score, member.target());
        if score < self.first.0 {
            self.second = self.first;
            self.first = newcomer;
        } else {
            self.second = newcomer;
        }
    }
}

/// A target group's members and their table.
pub struct Builder {
    seed: HashSeed,
    members: Vec<Member>,
    rows: Box<[ScoredRow]>,
    /// The table for workers, once it was asked for and as long as nothing changes: to make it takes a pass
    /// over all rows, and it is asked for whenever anything changes on the node.
    made: OnceCell<TargetMap>,
}

impl Builder {
    /// A group without members. Nodes that must agree have the same seed.
    #[must_use]
    pub fn new(seed: HashSeed) -> Builder {
        Builder {
            seed,
            members: Vec::new(),
            rows: vec![ScoredRow::EMPTY; ROWS].into_boxed_slice(),
            made: OnceCell::new(),
        }
    }

    /// Adds a target. One that has the same id or address is replaced. With weight 0 it is a member
    /// that has no rows.
    pub fn add(&mut self, target: TargetId, address: Ipv4Addr, weight: u16) {
        self.add_all(&[(target, address, weight)]);
    }

    /// Adds targets, as [`Builder::add`] would one after the other.
    ///
    /// A row looks at the few that draw well for it, not at all of them: a score has the density of an exponential
    /// distribution, so that of a group's targets [`CLOSE`] are expected within `CLOSE / Σ weight`, and a row whose
    /// two best are both within that has no better. The rows that are not so lucky look at all newcomers.
    pub fn add_all(&mut self, targets: &[(TargetId, Ipv4Addr, u16)]) {
        self.made.take();
        let mut newcomers: Vec<Member> = Vec::with_capacity(targets.len());
        for &(target, address, weight) in targets {
            let same = |m: &Member| m.target() == target || m.address() == address;
            newcomers.retain(|member| !same(member));
            while let Some(member) = self.members.iter().find(|m| same(m)) {
                self.remove(member.target());
            }
            newcomers.push(Member::new(&self.seed, target, address, weight));
        }
        let all = self.members.iter().chain(&newcomers);
        let limit = CLOSE / all.map(|member| f64::from(member.weight())).sum::<f64>();
        for member in &newcomers {
            for number in member.rows_within(limit) {
                self.rows[usize::from(number)].consider(number, member);
            }
        }
        for (number, row) in numbered(&mut self.rows).filter(|(_, row)| row.second.0.is_above(limit)) {
            for member in &newcomers {
                if !row.has(member.target()) {
                    row.consider(number, member);
                }
            }
        }
        self.members.append(&mut newcomers);
    }

    /// Takes a target away: its rows go to their second choices. Does nothing if it is no member.
    pub fn remove(&mut self, target: TargetId) {
        self.made.take();
        self.members.retain(|member| member.target() != target);
        for (number, row) in numbered(&mut self.rows) {
            if row.has(target) {
                *row = best_two(&self.members, number);
            }
        }
    }

    /// Changes a target's weight. Does nothing if it is no member.
    pub fn reweight(&mut self, target: TargetId, weight: u16) {
        let Some(place) = self.members.iter().position(|member| member.target() == target) else { return };
        self.made.take();
        let before = self.members[place].weight();
        self.members[place].set_weight(weight);
        for (number, row) in numbered(&mut self.rows) {
            if row.has(target) {
                *row = best_two(&self.members, number);
            } else if weight > before {
                row.consider(number, &self.members[place]);
            }
        }
    }

    /// The members, in the order in which they were added.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The table as it is now, for workers. Between two changes it is the same one, shared.
    #[must_use]
    pub fn map(&self) -> TargetMap {
        self.made.get_or_init(|| self.make()).clone()
    }

    fn make(&self) -> TargetMap {
        let choices = |row: &ScoredRow| {
            let first = row.first.1;
            Row { first, second: if row.second.0.is_none() { first } else { row.second.1 } }
        };
        let nobody = self.members.iter().all(|member| member.weight() == 0);
        let rows = if nobody { [].into() } else { self.rows.iter().map(choices).collect() };
        TargetMap::new(rows, self.members.as_slice().into())
    }
}

fn numbered(rows: &mut [ScoredRow]) -> impl Iterator<Item = (u16, &mut ScoredRow)> {
    (0..=u16::MAX).zip(rows)
}

fn best_two(members: &[Member], number: u16) -> ScoredRow {
    let mut row = ScoredRow::EMPTY;
    for member in members {
        row.consider(number, member);
    }
    row
}
