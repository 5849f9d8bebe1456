//! The slots that targets have on this node: each registered target holds one, and so does a
//! target that was deregistered until its last flow has ended (T-4). The number of the slot is the
//! [`TargetId`] that flow entries carry.

use std::collections::{HashMap, VecDeque};

use super::health::TargetKey;
use crate::datapath::counters::MAX_TARGETS;
use crate::id::TargetId;

/// A target's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its number.
    pub id: TargetId,
    /// Which holder of the slot this is: flow entries of an earlier one are told apart by it.
    pub generation: u16,
}

/// Who holds which slot.
#[derive(Debug)]
pub struct Slots {
    by_key: HashMap<TargetKey, Slot>,
    holders: Vec<Option<TargetKey>>,
    generations: Vec<u16>,
    /// Slots that were held and are free again, longest free first.
    free: VecDeque<TargetId>,
    capacity: usize,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::with_capacity(MAX_TARGETS)
    }
}

impl Slots {
    /// So many slots, at most [`MAX_TARGETS`].
    pub fn with_capacity(capacity: usize) -> Slots {
        Slots {
            by_key: HashMap::new(),
            holders: Vec::new(),
            generations: Vec::new(),
            free: VecDeque::new(),
            capacity: capacity.min(MAX_TARGETS),
        }
    }

    /// The target's slot: the one it has, or a new one. `None` when every slot is held.
    pub fn hold(&mut self, key: &TargetKey) -> Option<Slot> {
        if let Some(slot) = self.by_key.get(key) {
            return Some(*slot);
        }
        let id = if self.holders.len() < self.capacity {
            let id = TargetId(u16::try_from(self.holders.len()).ok()?);
            self.holders.push(None);
            self.generations.push(0);
            id
        } else {
            self.free.pop_front()?
        };
        let generation = self.generations[id.index()];
        self.holders[id.index()] = Some(key.clone());
        let slot = Slot { id, generation };
        self.by_key.insert(key.clone(), slot);
        Some(slot)
    }

    /// The target's slot, if it has one.
    pub fn get(&self, key: &TargetKey) -> Option<Slot> {
        self.by_key.get(key).copied()
    }

    /// Who holds a slot.
    pub fn holder(&self, id: TargetId) -> Option<&TargetKey> {
        self.holders.get(id.index())?.as_ref()
    }

    /// Gives a target's slot back: its last flow has ended.
    pub fn release(&mut self, key: &TargetKey) {
        if let Some(slot) = self.by_key.remove(key) {
            self.holders[slot.id.index()] = None;
            let generation = &mut self.generations[slot.id.index()];
            *generation = generation.wrapping_add(1);
            self.free.push_back(slot.id);
        }
    }

    /// Every target that holds a slot.
    pub fn iter(&self) -> impl Iterator<Item = (&TargetKey, Slot)> {
        self.by_key.iter().map(|(key, slot)| (key, *slot))
    }

    /// One more than the highest slot ever held.
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// Whether no slot was ever held.
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn key(n: u8) -> TargetKey {
        TargetKey::new("group", Ipv4Addr::new(10, 0, 0, n))
    }

    // T-4
    #[test]
    fn a_target_keeps_its_slot_until_it_is_released_and_the_next_holder_is_told_apart() {
        let mut slots = Slots::with_capacity(2);
        let a = slots.hold(&key(1)).unwrap();
        let b = slots.hold(&key(2)).unwrap();
        assert_ne!(a.id, b.id);
        assert_eq!(slots.hold(&key(1)), Some(a));
        assert_eq!(slots.hold(&key(3)), None);
        slots.release(&key(1));
        assert_eq!(slots.holder(a.id), None);
        let c = slots.hold(&key(3)).unwrap();
        assert_eq!(c.id, a.id);
        assert_ne!(c.generation, a.generation);
        assert_eq!(slots.holder(c.id), Some(&key(3)));
    }
}
