//! What is wrong with the node, judged in one place: `get-overview` tells it, and `flowgate top`, `flowgate status` and the
//! web page show what it tells.
//!
//! Pure: from an overview, the counts of the last minute ([`recent`]) and how the node stands to sentences. A [`Kind`] is one
//! thing that may be wrong, with how bad that is and what to do ([`kinds`]); from where on it is, [`limits`] says, by which
//! `flowgate audit`, `/readyz` and the alerts go as well. [`balancers`], [`targets`] and [`node`] each look for some.

#![forbid(unsafe_code)]

mod balancers;
#[cfg(test)]
pub(crate) mod fixture;
mod kinds;
pub mod limits;
mod node;
mod recent;
mod targets;
#[cfg(test)]
mod tests;

pub use kinds::Kind;
pub use recent::{Count, Recent};

use std::collections::HashMap;
use std::time::Duration;

use super::events::Timestamp;
use super::health::TargetKey;
use super::monitor::Readiness;
use super::socket::views::{Overview, ReadinessOverview, Trouble};

/// Targets of a group in the same trouble that are told one by one; more are told as one.
const EACH: usize = 3;

/// How the node stands, beside what an overview has.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// Whether it is to be given traffic.
    pub readiness: Readiness,
    /// For how long a change has waited for the disk; 0: none does.
    pub storing_for: Duration,
    /// Changes that could not be stored so far.
    pub not_stored: u64,
    /// Why flows will end with the daemon, though they are to be kept.
    pub tables_not_kept: Option<String>,
    /// Why the flow tables of the daemon before this one are lost, and how long ago that was.
    pub tables_lost: Option<(String, Duration)>,
}

/// Finds what is wrong again and again, and remembers since when.
#[derive(Debug, Default)]
pub struct Watch {
    recent: Recent,
    first_seen: HashMap<(Kind, String), Timestamp>,
}

impl Watch {
    /// What came in the last minute, by the overviews that were judged.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Puts into `overview` what is judged of it: what is wrong, whether the node is ready, and what came in the
    /// last minute.
    pub fn judge(&mut self, overview: &mut Overview, standing: &Standing) {
        self.recent.note(overview, standing.not_stored);
        for group in &mut overview.target_groups {
            for target in &mut group.targets {
                let key = TargetKey::new(group.name.as_str(), target.address);
                target.reset_flows_last_minute = self.recent.within(recent::MINUTE, &Count::FlowsReset(key));
            }
        }
        let conditions = standing.readiness.of_readiness();
        let missing: Vec<String> =
            conditions.into_iter().filter(|one| !one.holds).map(|one| one.words).collect();
        overview.readiness = ReadinessOverview { ready: missing.is_empty(), missing };
        let mut found = find(overview, &self.recent, standing);
        // What was found before was so since then.
        for one in found.iter_mut().filter(|one| !one.since_is_known) {
            let key = one.key();
            one.trouble.since = self.first_seen.get(&key).copied().unwrap_or(overview.at);
        }
        self.first_seen = found.iter().map(|one| (one.key(), one.trouble.since)).collect();
        overview.troubles = found.into_iter().map(|one| one.trouble).collect();
    }
}

/// All that is wrong, the worst first.
fn find(overview: &Overview, recent: &Recent, standing: &Standing) -> Vec<Found> {
    let mut finder = Finder { overview, recent, found: Vec::new() };
    balancers::look(&mut finder);
    targets::look(&mut finder);
    node::look(&mut finder, standing);
    let place = |kind: Kind| Kind::ALL.iter().position(|one| *one == kind);
    // Sorting keeps the order of equals.
    finder.found.sort_by_key(|found| (std::cmp::Reverse(found.trouble.severity), place(found.trouble.kind)));
    finder.found
}

/// A trouble, and whether its own `since` is known.
struct Found {
    trouble: Trouble,
    since_is_known: bool,
}

impl Found {
    /// What it is known by from one look to the next.
    fn key(&self) -> (Kind, String) {
        (self.trouble.kind, self.trouble.objects.first().cloned().unwrap_or_default())
    }
}

/// What there is to go by, and what was found so far.
struct Finder<'a> {
    overview: &'a Overview,
    recent: &'a Recent,
    found: Vec<Found>,
}

impl Finder<'_> {
    /// One more; its figures and its command are to be added.
    fn found(
        &mut self,
        kind: Kind,
        objects: impl IntoIterator<Item = String>,
        since: Option<Timestamp>,
        what: String,
    ) -> &mut Trouble {
        let trouble = Trouble {
            kind,
            severity: kind.severity(),
            objects: objects.into_iter().collect(),
            since: since.unwrap_or(self.overview.at),
            what,
            figures: String::new(),
            to_do: kind.to_do().to_owned(),
            command: None,
        };
        self.found.push(Found { trouble, since_is_known: since.is_some() });
        // It was pushed just now.
        let last = self.found.len() - 1;
        &mut self.found[last].trouble
    }

    /// So long before the overview.
    fn ago(&self, milliseconds: u64) -> Option<Timestamp> {
        let at = self.overview.at.unix_ms();
        Some(Timestamp::from_unix_ms(at.saturating_sub(i64::try_from(milliseconds).unwrap_or(i64::MAX))))
    }
}
