//! What targets have counted, and whose it is.
//!
//! Workers count by slot, and their counters of a slot go on from holder to holder. A [`Tally`] is what a slot has
//! counted; a [`Ledger`] keeps whose it was: a target group's, a load balancer's, a zone's. When a slot goes to
//! another owner, because its target has left, changed its zone, or its group went to another load balancer, what was
//! counted until then stays with the owner before. So an owner's counters never fall, however targets come and go, and
//! one that begins begins at nothing.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::{AddAssign, Sub};

use super::workers::Workers;
use crate::datapath::counters::{Counter, ResetTrigger, Suppressed, WorkerCounters};
use crate::id::TargetId;

/// What was counted of packets and flows; figures that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Flows that began.
    pub new_flows: u64,
    /// Packets sent to the target.
    pub packets_out: u64,
    /// Bytes of inner packets sent to it.
    pub bytes_out: u64,
    /// Packets that it returned.
    pub packets_back: u64,
    /// Bytes of inner packets that it returned.
    pub bytes_back: u64,
    /// Flows that were moved away from it.
    pub moved_away: u64,
    /// Resets sent for its flows, by trigger.
    pub resets: [u64; ResetTrigger::COUNT],
    /// Live flows that were ended by a reset, however many of their ends were told.
    pub reset_flows: u64,
    /// Packets whose reset was held back, by reason.
    pub suppressed: [u64; Suppressed::COUNT],
}

impl Tally {
    /// All that the workers have counted for a slot, whoever held it.
    pub fn of_slot(workers: &Workers, id: TargetId) -> Tally {
        let mut tally = Tally::default();
        for link in workers.links() {
            tally += Tally::of_worker(&link.counters, id);
        }
        tally
    }

    /// What one worker has counted for a slot.
    pub fn of_worker(all: &WorkerCounters, id: TargetId) -> Tally {
        let (counters, troubles) = (all.target(id), all.troubles(id));
        Tally {
            new_flows: counters.new_flows.get(),
            packets_out: counters.packets_out.get(),
            bytes_out: counters.bytes_out.get(),
            packets_back: counters.packets_back.get(),
            bytes_back: counters.bytes_back.get(),
            moved_away: counters.moved_away.get(),
            resets: counters.resets.each_ref().map(Counter::get),
            reset_flows: troubles.reset_flows.get(),
            suppressed: troubles.suppressed.each_ref().map(Counter::get),
        }
    }

    /// What one worker has counted for all of the first `slots` slots.
    pub fn of_all(all: &WorkerCounters, slots: usize) -> Tally {
        let ids = (0..slots).filter_map(|id| u16::try_from(id).ok()).map(TargetId);
        ids.fold(Tally::default(), |mut tally, id| {
            tally += Tally::of_worker(all, id);
            tally
        })
    }

    /// Packets both ways.
    pub fn packets(&self) -> u64 {
        self.packets_out.wrapping_add(self.packets_back)
    }

    /// Bytes both ways.
    pub fn bytes(&self) -> u64 {
        self.bytes_out.wrapping_add(self.bytes_back)
    }

    /// Resets of all triggers.
    pub fn all_resets(&self) -> u64 {
        self.resets.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Each figure of the one with that of the other.
    fn with(self, other: Tally, of: impl Fn(u64, u64) -> u64) -> Tally {
        Tally {
            new_flows: of(self.new_flows, other.new_flows),
            packets_out: of(self.packets_out, other.packets_out),
            bytes_out: of(self.bytes_out, other.bytes_out),
            packets_back: of(self.packets_back, other.packets_back),
            bytes_back: of(self.bytes_back, other.bytes_back),
            moved_away: of(self.moved_away, other.moved_away),
            resets: std::array::from_fn(|trigger| of(self.resets[trigger], other.resets[trigger])),
            reset_flows: of(self.reset_flows, other.reset_flows),
            suppressed: std::array::from_fn(|why| of(self.suppressed[why], other.suppressed[why])),
        }
    }
}

impl Sub for Tally {
    type Output = Tally;

    fn sub(self, before: Tally) -> Tally {
        self.with(before, u64::wrapping_sub)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        *self = self.with(more, u64::wrapping_add);
    }
}

/// Whose the counts of slots are, and were.
#[derive(Debug)]
pub struct Ledger<K> {
    /// What was counted for owners by slots that are no more theirs.
    closed: HashMap<K, Tally>,
    /// Whose each slot is, and what it had counted when it became theirs.
    open: HashMap<TargetId, (K, Tally)>,
}

impl<K> Default for Ledger<K> {
    fn default() -> Self {
        Ledger { closed: HashMap::new(), open: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> Ledger<K> {
    /// From now on the slot counts for `owner`; `raw` says what it has counted in all, and is asked only if that
    /// is news.
    pub fn assign(&mut self, id: TargetId, owner: &K, raw: impl FnOnce() -> Tally) {
        if self.open.get(&id).is_some_and(|(known, _)| known == owner) {
            return;
        }
        let raw = raw();
        self.close(id, raw);
        self.open.insert(id, (owner.clone(), raw));
    }

    /// The slot counts for nobody any more; it has counted `raw` in all.
    pub fn close(&mut self, id: TargetId, raw: Tally) {
        if let Some((owner, before)) = self.open.remove(&id) {
            *self.closed.entry(owner).or_default() += raw - before;
        }
    }

    /// Whose the slot is, and how much of the `raw` that it has counted in all.
    pub fn of_slot(&self, id: TargetId, raw: Tally) -> Option<(&K, Tally)> {
        self.open.get(&id).map(|(owner, before)| (owner, raw - *before))
    }

    /// What the slot had counted when it became its owner's.
    pub fn before(&self, id: TargetId) -> Tally {
        self.open.get(&id).map(|(_, before)| *before).unwrap_or_default()
    }

    /// What was counted for an owner by slots that are no more its own.
    pub fn closed(&self, owner: &K) -> Tally {
        self.closed.get(owner).copied().unwrap_or_default()
    }

    /// Every owner that slots were once of.
    pub fn owners_before(&self) -> impl Iterator<Item = &K> {
        self.closed.keys()
    }

    /// Forgets what was counted for owners that there are no more.
    pub fn keep(&mut self, exists: impl Fn(&K) -> bool) {
        self.closed.retain(|owner, _| exists(owner));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flows(new_flows: u64) -> Tally {
        Tally { new_flows, ..Tally::default() }
    }

    /// All that counts for an owner, of slots that have counted so much.
    fn total(ledger: &Ledger<u8>, owner: u8, raw: &[u64]) -> u64 {
        let mut sum = ledger.closed(&owner);
        for (id, raw) in (0..).map(TargetId).zip(raw) {
            if let Some((&whose, tally)) = ledger.of_slot(id, flows(*raw))
                && whose == owner
            {
                sum += tally;
            }
        }
        sum.new_flows
    }

    #[test]
    fn a_slots_next_owner_begins_at_nothing_and_the_one_before_keeps_what_was_counted() {
        let mut ledger = Ledger::default();
        let slot = TargetId(0);
        ledger.assign(slot, &1, || flows(0));
        assert_eq!(total(&ledger, 1, &[7]), 7);
        ledger.assign(slot, &1, || panic!("that is no news"));
        ledger.assign(slot, &2, || flows(7));
        assert_eq!((total(&ledger, 1, &[9]), total(&ledger, 2, &[9])), (7, 2));
        ledger.close(slot, flows(9));
        ledger.assign(slot, &1, || flows(9));
        assert_eq!((total(&ledger, 1, &[10]), total(&ledger, 2, &[10])), (8, 2));
        ledger.keep(|owner| *owner == 1);
        assert_eq!((total(&ledger, 1, &[10]), total(&ledger, 2, &[10])), (8, 0));
    }

    proptest! {
        // C-1
        #[test]
        fn whatever_goes_to_whom_nothing_is_lost_and_nobodys_count_falls(
            steps in prop::collection::vec((0_u16..4, prop::option::of(0_u8..3), 0_u64..100), 1..60),
        ) {
            let mut ledger = Ledger::default();
            let (mut raw, mut before, mut unowned) = ([0_u64; 4], [0_u64; 3], 0);
            for (slot, owner, counted) in steps {
                let id = TargetId(slot);
                let place = usize::from(slot);
                match owner {
                    Some(owner) => ledger.assign(id, &owner, || flows(raw[place])),
                    None => ledger.close(id, flows(raw[place])),
                }
                raw[place] += counted;
                unowned += if owner.is_none() { counted } else { 0 };
                let now = [0, 1, 2].map(|owner| total(&ledger, owner, &raw));
                prop_assert!(now.iter().zip(&before).all(|(now, before)| now >= before));
                prop_assert_eq!(now.iter().sum::<u64>() + unowned, raw.iter().sum::<u64>());
                before = now;
            }
        }
    }
}
