//! The slots that targets have on this node: each registered target holds one, and so does a
//! target that was deregistered until its last flow has ended (T-4). The number of the slot is the
//! [`TargetId`] that flow entries carry.

use std::collections::{HashMap, HashSet, VecDeque};

use super::health::TargetKey;
use super::resume::{Holder, Resume, SlotRecord};
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

    /// The slots as they were when they were handed on, of which flow entries speak.
    pub fn resumed(resume: &Resume) -> Slots {
        let mut slots = Slots::default();
        for (number, record) in (0..=u16::MAX).zip(&resume.slots).take(slots.capacity) {
            let id = TargetId(number);
            let key = record.holder.as_ref().map(Holder::key);
            if let Some(key) = &key {
                slots.by_key.insert(key.clone(), Slot { id, generation: record.generation });
            }
            slots.holders.push(key);
            slots.generations.push(record.generation);
        }
        let is_free = |id: &TargetId| slots.holders.get(id.index()).is_some_and(Option::is_none);
        let in_order = resume.free.iter().map(|number| TargetId(*number)).filter(is_free);
        let rest = (0..=u16::MAX).zip(&slots.holders).map(|(number, _)| TargetId(number)).filter(is_free);
        let mut seen = HashSet::new();
        slots.free = in_order.chain(rest).filter(|id| seen.insert(*id)).collect();
        slots
    }

    /// The slots and those that are free, to be handed on. Of the targets' health it says nothing.
    pub fn records(&self) -> (Vec<SlotRecord>, Vec<u16>) {
        let record = |(key, generation): (&Option<TargetKey>, &u16)| SlotRecord {
            generation: *generation,
            holder: key.as_ref().map(|key| Holder {
                group: key.group.to_string(),
                address: key.address,
                health: None,
            }),
        };
        let slots = self.holders.iter().zip(&self.generations).map(record).collect();
        (slots, self.free.iter().map(|id| id.0).collect())
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

    #[test]
    fn whoever_takes_over_has_the_same_slots_and_gives_out_the_same_next_ones() {
        let mut slots = Slots::default();
        for n in 1..=6 {
            slots.hold(&key(n)).unwrap();
        }
        for n in [5, 2] {
            slots.release(&key(n));
        }
        let (records, free) = slots.records();
        assert_eq!(free, [4, 1]);
        let resume = Resume { slots: records, free, ..Resume::default() };
        assert!(resume.is_sound());
        let mut again = Slots::resumed(&resume);
        assert_eq!(again.len(), 6);
        for n in 1..=6 {
            assert_eq!(again.get(&key(n)), slots.get(&key(n)));
        }
        again.capacity = 6;
        slots.capacity = 6;
        for n in 7..=9 {
            assert_eq!(again.hold(&key(n)), slots.hold(&key(n)));
        }
        assert_eq!(again.get(&key(7)).unwrap().generation, 1, "its second holder");
    }

    #[test]
    fn free_slots_that_nobody_lists_are_found() {
        let mut slots = Slots::default();
        for n in 1..=3 {
            slots.hold(&key(n)).unwrap();
        }
        slots.release(&key(2));
        let (records, _) = slots.records();
        let mut again = Slots::resumed(&Resume { slots: records, free: vec![0, 7], ..Resume::default() });
        again.capacity = 3;
        assert_eq!(again.hold(&key(4)).unwrap().id, TargetId(1));
        assert_eq!(again.hold(&key(5)), None);
    }
}
