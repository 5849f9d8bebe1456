//! The drain clocks: when does each deregistered target's delay elapse (A-1, T-3, T-4). The control
//! core sets a clock at every deregistration and whenever a group's delay is changed, waits until
//! [`DrainClocks::next`], and ends what is [`DrainClocks::due`]. A clock is there until it is removed: also while the end
//! of its drain is being stored.
//!
//! Pure: times are given in, in milliseconds of the Unix epoch, so that a clock set before a restart
//! of the daemon runs on after it.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Milliseconds since the Unix epoch.
pub type UnixMillis = u64;

/// The deadline of each key that drains; setting, removing and asking cost O(log n).
#[derive(Clone, Debug)]
pub struct DrainClocks<K> {
    deadlines: HashMap<K, UnixMillis>,
    order: BTreeSet<(UnixMillis, K)>,
}

impl<K> Default for DrainClocks<K> {
    fn default() -> Self {
        Self { deadlines: HashMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> DrainClocks<K> {
    /// `key`'s delay elapses at `deadline`. A clock that runs already is set anew: with a changed
    /// delay its deadline moves, and may be past by that.
    pub fn set(&mut self, key: K, deadline: UnixMillis) {
        self.remove(&key);
        self.order.insert((deadline, key.clone()));
        self.deadlines.insert(key, deadline);
    }

    /// `key` drains no more (it was registered again, or its group is gone); whether it did.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some(deadline) = self.deadlines.remove(key) else { return false };
        self.order.remove(&(deadline, key.clone()))
    }

    /// When `key`'s delay elapses, if it drains.
    pub fn deadline(&self, key: &K) -> Option<UnixMillis> {
        self.deadlines.get(key).copied()
    }

    /// When the first delay of all elapses.
    pub fn next(&self) -> Option<UnixMillis> {
        self.order.first().map(|&(deadline, _)| deadline)
    }

    /// The keys whose delay has elapsed at `now`, those first whose deadline came first.
    pub fn due(&self, now: UnixMillis) -> Vec<K> {
        self.order.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, key)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_drain_ends_when_its_delay_has_elapsed_and_not_before_t3() {
        let mut clocks = DrainClocks::default();
        clocks.set("late", 302_000);
        clocks.set("early", 301_000);
        assert_eq!(clocks.next(), Some(301_000));
        assert_eq!(clocks.due(300_999), [""; 0]);
        assert_eq!(clocks.due(301_000), ["early"]);
        assert_eq!(
            (clocks.next(), clocks.deadline(&"early")),
            (Some(301_000), Some(301_000)),
            "until it is ended"
        );
        assert!(clocks.remove(&"early"));
        assert_eq!(clocks.next(), Some(302_000));
        assert_eq!(clocks.due(u64::MAX), ["late"]);
    }

    #[test]
    fn a_delay_of_zero_is_over_at_once_a1() {
        let mut clocks = DrainClocks::default();
        clocks.set("target", 1_000);
        assert_eq!(clocks.due(1_000), ["target"]);
    }

    #[test]
    fn a_changed_delay_moves_the_deadline_both_ways_a1() {
        let mut clocks = DrainClocks::default();
        clocks.set("target", 301_000);
        clocks.set("target", 3_601_000);
        assert_eq!((clocks.deadline(&"target"), clocks.next()), (Some(3_601_000), Some(3_601_000)));
        assert_eq!(clocks.due(301_000), [""; 0]);
        clocks.set("target", 11_000);
        assert_eq!(clocks.due(301_000), ["target"]);
        assert_eq!(clocks.next(), Some(11_000));
    }

    #[test]
    fn a_target_registered_again_drains_no_more_t7() {
        let mut clocks = DrainClocks::default();
        clocks.set("target", 11_000);
        assert!(clocks.remove(&"target"));
        assert!(!clocks.remove(&"target"));
        assert_eq!((clocks.next(), clocks.due(u64::MAX)), (None, vec![]));
    }

    proptest! {
        /// Against a plain list of (key, deadline).
        // T-3, T-4
        #[test]
        fn clocks_agree_with_a_plain_list(
            steps in prop::collection::vec((0_u8..4, 0_u8..6, 0_u64..40), 0..60),
        ) {
            let mut clocks = DrainClocks::default();
            let mut list: Vec<(u8, u64)> = Vec::new();
            for (step, key, time) in steps {
                match step {
                    0 | 1 => {
                        clocks.set(key, time);
                        list.retain(|&(other, _)| other != key);
                        list.push((key, time));
                    }
                    2 => {
                        let there = list.iter().any(|&(other, _)| other == key);
                        prop_assert_eq!(clocks.remove(&key), there);
                        list.retain(|&(other, _)| other != key);
                    }
                    _ => {
                        let mut due: Vec<_> = list.iter().filter(|entry| entry.1 <= time).copied().collect();
                        due.sort_by_key(|&(key, deadline)| (deadline, key));
                        let due: Vec<u8> = due.into_iter().map(|(key, _)| key).collect();
                        prop_assert_eq!(clocks.due(time), due);
                    }
                }
                prop_assert_eq!(clocks.next(), list.iter().map(|entry| entry.1).min());
            }
        }
    }
}
