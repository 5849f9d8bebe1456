//! The control core's side: builds a target group's table and keeps it up to date.
//!
//! Beside each choice it keeps the score, so that a change of a few targets costs little: a row that has none of them
//! looks at the newcomers only, and of those at the ones that draw well for it; a row that has one looks at everybody.
//! Where that would be more work than to build the table anew, as it is with a change of many, it is built anew.
#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;

use super::ROWS;
use super::choose::{Row, TargetMap};
use super::score::{Member, Score};
use crate::flow::HashSeed;
use crate::id::TargetId;

/// What work costs, in scores that a member turns out to be too bad for (4 ns). Measured, with 2 to 1,000 members: a row
/// of a table that is built anew; a row that looks at everybody, beside its members; a newcomer that goes to a row.
const BUILT_ROW: usize = 24;
const LOOK: usize = 40;
const VISIT: usize = 6;

/// How many steps (see [`Builder::step`]) a newcomer's score is looked for among rows that may have no room for it. In
/// three of a thousand rows the second choice scores worse still; they look at all newcomers.
const CLOSE: f64 = 8.0;

/// A row with the scores of its choices.
#[derive(Clone, Copy)]
struct ScoredRow {
    first: Score,
    second: Score,
}

impl ScoredRow {
    const EMPTY: ScoredRow = ScoredRow { first: Score::NONE, second: Score::NONE };

    fn has_one(&self, of: impl Fn(TargetId) -> bool) -> bool {
        let is_one = |choice: Score| choice.target().is_some_and(&of);
        is_one(self.first) || is_one(self.second)
    }

    /// Lets a member have its place in the row.
    #[inline]
    fn consider(&mut self, number: u16, member: &Member) {
        self.enter(member.score_below(number, self.second));
    }

    /// Lets the one with this score, better than the second's, have its place. It may be the first already.
    #[inline]
    fn enter(&mut self, score: Option<Score>) {
        let Some(score) = score else { return };
        if score < self.first {
            self.second = self.first;
            self.first = score;
        } else if score != self.first {
            self.second = score;
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

    /// These are the members from now on, by id, address and weight; no two may have the same id or address. One with
    /// weight 0 is a member that has no rows.
    ///
    /// However many are added, taken away or weighed anew, it costs about what a table for these members costs at
    /// most, and nothing if they are the members that there are.
    pub fn update(&mut self, targets: &[(TargetId, Ipv4Addr, u16)]) {
        if self.has(targets) {
            return;
        }
        self.made.take();
        let change = self.replace_members(targets);
        let close = CLOSE * self.step();
        let affected = self.rows.iter().filter(|row| row.has_one(|target| change.is_marked(target))).count();
        let within = |place: &usize| ROWS - self.members[*place].strata_within(close);
        let visits: usize = change.gaining.iter().map(within).sum();
        if affected * (LOOK + self.members.len()) + visits * VISIT > ROWS * BUILT_ROW {
            self.build();
        } else {
            self.mend(&change, close);
        }
    }

    /// Whether these are the members already, in this order.
    #[must_use]
    pub fn has(&self, targets: &[(TargetId, Ipv4Addr, u16)]) -> bool {
        let known = self.members.iter().map(|member| (member.target(), member.address(), member.weight()));
        known.eq(targets.iter().copied())
    }

    /// Takes over a list of members, but not yet what follows for the rows.
    fn replace_members(&mut self, targets: &[(TargetId, Ipv4Addr, u16)]) -> Change {
        let mut change = Change::default();
        let former = self.members.drain(..).map(|member| (member.target(), member));
        let mut former: HashMap<TargetId, Member> = former.collect();
        for (place, &(target, address, weight)) in targets.iter().enumerate() {
            let before = former.remove(&target);
            let weight_before = before.as_ref().map_or(0, Member::weight);
            let member = match before {
                Some(mut member) if member.address() == address => {
                    member.set_weight(weight);
                    if weight != weight_before {
                        change.mark(target);
                    }
                    if weight > weight_before {
                        change.gaining.push(place);
                    }
                    member
                }
                other => {
                    if other.is_some() {
                        change.mark(target);
                    }
                    change.gaining.push(place);
                    Member::new(&self.seed, target, address, weight)
                }
            };
            self.members.push(member);
        }
        former.into_keys().for_each(|target| change.mark(target));
        change
    }

    /// The limit within which a row is expected to have one score, the heaviest member's not counted: a limit of
    /// `n` such steps is below the row's second choice in about `(1 + n) / e^n` of the rows, whatever the weights are.
    fn step(&self) -> f64 {
        let weights = || self.members.iter().map(|member| f64::from(member.weight()));
        1.0 / (weights().sum::<f64>() - weights().fold(0.0, f64::max))
    }

    /// Looks anew at the rows of targets that have changed, and lets those that have gained into the others.
    fn mend(&mut self, change: &Change, close: f64) {
        for (number, row) in numbered(&mut self.rows) {
            if row.has_one(|target| change.is_marked(target)) {
                *row = best_two(&self.members, number);
            }
        }
        let gaining: Vec<&Member> = change.gaining.iter().map(|place| &self.members[*place]).collect();
        for member in &gaining {
            for (row, _) in member.rows_of(member.strata_within(close)..ROWS) {
                self.rows[usize::from(row)].consider(row, member);
            }
        }
        for (number, row) in numbered(&mut self.rows).filter(|(_, row)| row.second.is_above(close)) {
            gaining.iter().for_each(|member| row.consider(number, member));
        }
    }

    /// Builds the table for the members.
    ///
    /// A row looks at those that draw well for it, not at all of them. The limit is raised step by step, and at each
    /// every member goes to the rows for which it scores between the limit before and this one, so that most come to a
    /// row in the order of their scores. A row whose two choices are within the limit has no better ones. When the
    /// others are so few that to look at all members costs less than another step, that is what they do.
    fn build(&mut self) {
        self.rows.fill(ScoredRow::EMPTY);
        let step = self.step();
        let mut limit = 0.0;
        let mut done = vec![ROWS; self.members.len()];
        loop {
            limit += step;
            for (member, done) in self.members.iter().zip(&mut done) {
                let within = member.strata_within(limit);
                for (row, stratum) in member.rows_of(within..*done) {
                    let scored = &mut self.rows[usize::from(row)];
                    scored.enter(member.score_of(stratum, row, scored.second));
                }
                *done = within;
            }
            let unsettled = self.rows.iter().filter(|row| row.second.is_above(limit)).count();
            if unsettled * self.members.len() <= ROWS {
                break;
            }
        }
        for (number, row) in numbered(&mut self.rows).filter(|(_, row)| row.second.is_above(limit)) {
            *row = best_two(&self.members, number);
        }
    }

    /// The members, in the order in which they were given.
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
            let first = row.first.target().unwrap_or_default();
            Row { first, second: row.second.target().unwrap_or(first) }
        };
        let nobody = self.members.iter().all(|member| member.weight() == 0);
        let rows = if nobody { [].into() } else { self.rows.iter().map(choices).collect() };
        TargetMap::new(rows, self.members.as_slice().into())
    }
}

/// What is other between two lists of members.
#[derive(Default)]
struct Change {
    /// By [`TargetId`]: those whose rows must be looked at anew, as they are gone or have another address or weight.
    marked: Vec<bool>,
    /// Places, in the new list, of members that may get rows that they did not have.
    gaining: Vec<usize>,
}

impl Change {
    fn mark(&mut self, target: TargetId) {
        let place = target.index();
        if place >= self.marked.len() {
            self.marked.resize(place + 1, false);
        }
        self.marked[place] = true;
    }

    fn is_marked(&self, target: TargetId) -> bool {
        self.marked.get(target.index()).is_some_and(|marked| *marked)
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
