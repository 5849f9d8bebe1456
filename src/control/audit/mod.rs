//! The review that an operator should make before turning resets on, made by the program (`flowgate audit`).
//!
//! [`Facts`] are gathered from the control core once; all else is a function of them. A [`Kind`] is one thing that may
//! be found, with how much it matters and why ([`kinds`]); each of [`failover`], [`timers`], [`checks`], [`standing`]
//! and [`room`] looks for some. `docs/audit.md` lists every kind, and a test holds it to that.

#![forbid(unsafe_code)]

pub mod checks;
mod facts;
pub mod failover;
pub mod kinds;
pub mod room;
pub mod standing;
mod summary;
#[cfg(test)]
mod tests;
pub mod timers;

pub use facts::{BalancerFacts, Entrance, Facts, GroupFacts, NodeFigures, TargetFacts, WorkerFacts};
pub use kinds::Kind;
pub use summary::worst_detection_time;

use super::events::Timestamp;
use super::socket::views::{Audit, Finding};

/// What is found of these facts; of one target group alone, if it is named, and of what all have in common.
pub fn audit(facts: &Facts, group: Option<&str>, at: Timestamp) -> Audit {
    let of_interest = |one: &&GroupFacts| group.is_none_or(|group| one.name == group);
    let mut findings = Vec::new();
    for group in facts.groups.iter().filter(of_interest) {
        for look in [failover::look, timers::look, checks::look, standing::look, room::look_at_group] {
            look(facts, group, &mut findings);
        }
    }
    if group.is_none() {
        room::look_at_node(facts, &mut findings);
    }
    // Of one severity in the order in which they were found: by group, and by what belongs together.
    findings.sort_by_key(|finding: &Finding| std::cmp::Reverse(finding.severity));
    Audit {
        generation: facts.generation,
        at,
        worst: findings.iter().map(|finding| finding.severity).max(),
        findings,
        target_groups: facts.groups.iter().filter(of_interest).map(summary::of_group).collect(),
    }
}
