//! The drain clocks: when does each deregistered target's delay elapse (A-1, T-3, T-4). The control
//! core sets a clock at every deregistration and whenever a group's delay is changed, sleeps until
//! [`DrainClocks::next`], and takes what is [`DrainClocks::due`].
//!
//! Pure: times are given in, in milliseconds of the Unix epoch, so that a clock set before a restart
//! of the daemon runs on after it.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

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
    /// `key` began to drain at `started`, and is given `delay`. A clock that runs already is set
    /// anew: its deadline moves with a changed delay, and may be past by that.
    pub fn set(&mut self, key: K, started: UnixMillis, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let deadline = started.saturating_add(delay);
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

    /// Takes out the keys whose delay has elapsed at `now`, those first whose deadline came first.
    pub fn due(&mut self, now: UnixMillis) -> Vec<K> {
        let mut due = Vec::new();
        while let Some((deadline, key)) = self.order.pop_first() {
            if deadline > now {
                self.order.insert((deadline, key));
                break;
            }
            self.deadlines.remove(&key);
            due.push(key);
        }
        due
    }
}
