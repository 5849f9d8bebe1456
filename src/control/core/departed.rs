//! What was counted for targets that this node does not know any more. A group's counters go on from it, so
//! that they never fall; and a slot's next holder begins at nothing, though the workers' counters of the slot go on.

use std::collections::{BTreeMap, HashMap};

use crate::control::health::TargetKey;
use crate::id::TargetId;

/// Counters by name.
type Counts = BTreeMap<String, u64>;

/// The accounts of targets that are gone.
#[derive(Default)]
pub(super) struct Departed {
    /// By target group.
    groups: HashMap<String, Counts>,
    /// What a slot had counted when its last holder left.
    before: HashMap<TargetId, Counts>,
}

impl Departed {
    /// Of what a slot has counted in all, what is its present holder's.
    pub(super) fn of_holder(&self, id: TargetId, mut raw: Counts) -> Counts {
        if let Some(before) = self.before.get(&id) {
            for (name, value) in &mut raw {
                *value = value.wrapping_sub(before.get(name).copied().unwrap_or(0));
            }
        }
        raw
    }

    /// What a slot had counted when its last holder left, if it had one.
    pub(super) fn all_before(&self, id: TargetId) -> Option<&Counts> {
        self.before.get(&id)
    }

    /// What a slot had counted under this name when its present holder came.
    pub(super) fn before(&self, id: TargetId, name: &str) -> u64 {
        self.before.get(&id).and_then(|before| before.get(name)).copied().unwrap_or(0)
    }

    /// A target leaves its slot, which has counted `raw` in all.
    pub(super) fn leave(&mut self, key: &TargetKey, id: TargetId, raw: Counts) {
        for (name, value) in &raw {
            let before = self.before(id, name);
            let account = self.groups.entry(key.group.to_string()).or_default();
            *account.entry(name.clone()).or_default() += value.wrapping_sub(before);
        }
        self.before.insert(id, raw);
    }

    /// What a group's targets counted that are gone.
    pub(super) fn of_group(&self, group: &str) -> Counts {
        self.groups.get(group).cloned().unwrap_or_default()
    }

    /// Forgets the groups that there are no more.
    pub(super) fn keep_groups(&mut self, exists: impl Fn(&str) -> bool) {
        self.groups.retain(|group, _| exists(group));
    }
}
