//! In-band evidence, as the control core sees to it: what the workers count of each target is
//! looked at with every look into the rings where the group has `flowgate.inband.silence_ms`, and with
//! every sweep elsewhere, for the view alone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{Core, Inner};
use crate::control::duration::milliseconds;
use crate::control::events::{Event, What};
use crate::control::health::TargetKey;
use crate::control::health::damping::Verdict;
use crate::control::inband::{Passed, Silence};
use crate::control::slots::Slot;
use crate::control::socket::views::InBandView;
use crate::control::workers::Workers;
use crate::id::TargetId;

/// What is known of the targets' silence, by the slot that each holds.
#[derive(Default)]
pub(super) struct InBand {
    silences: HashMap<TargetId, (u16, Silence)>,
    /// Those that are checked for being silent, and after how long.
    watched: Vec<(TargetKey, Slot, Duration)>,
}

impl InBand {
    /// Takes the counts of `slot`'s holder; what was known of an earlier one is forgotten.
    fn note(&mut self, slot: Slot, workers: &Workers, now: Instant) -> &mut Silence {
        let passed = passed(slot, workers);
        let fresh = || (slot.generation, Silence::new(passed));
        let known = self.silences.entry(slot.id).or_insert_with(fresh);
        if known.0 != slot.generation {
            *known = fresh();
        }
        known.1.note(passed, now);
        &mut known.1
    }
}

fn passed(slot: Slot, workers: &Workers) -> Passed {
    // What came back first: a packet that comes back meanwhile is then seen late, and never before
    // it was sent.
    let from = workers.sum(|all| &all.target(slot.id).packets_back);
    let to = workers.sum(|all| &all.target(slot.id).packets_out);
    Passed { to, from }
}

impl Core {
    /// Looks at the targets that are watched, and has those checked whose silence calls for it.
    pub(super) fn watch_inband(&self, now: Instant) {
        for what in self.inner.borrow_mut().silent_targets(now) {
            self.tell(Event::now(what));
        }
    }
}

impl Inner {
    /// Whom to watch from now on: called whenever targets, slots or settings may be others.
    pub(super) fn follow_inband(&mut self) {
        let mut watched = Vec::new();
        for group in self.state.target_groups() {
            let Some(limit) = group.settings().inband_silence else { continue };
            for address in group.targets.keys() {
                let key = TargetKey::new(group.name.as_str(), *address);
                if let Some(slot) = self.slots.get(&key) {
                    watched.push((key, slot, limit));
                }
            }
        }
        self.inband.watched = watched;
        let Inner { inband, slots, .. } = self;
        inband.silences.retain(|id, _| slots.holder(*id).is_some());
    }

    /// Looks at every target, for the view.
    pub(super) fn sweep_inband(&mut self, now: Instant) {
        let Inner { inband, slots, workers, .. } = self;
        for (_, slot) in slots.iter() {
            inband.note(slot, workers, now);
        }
    }

    /// The watched targets that are checked now for being silent. Only one that is healthy is: of any
    /// other a check in its turn is soon enough, as no flow goes there for its sake.
    fn silent_targets(&mut self, now: Instant) -> Vec<What> {
        let Inner { inband, workers, health, .. } = self;
        let mut silent = Vec::new();
        let watched = std::mem::take(&mut inband.watched);
        for (key, slot, limit) in &watched {
            let (slot, limit) = (*slot, *limit);
            let silence = inband.note(slot, workers, now);
            let healthy = || health.verdict(key) == Some(Verdict::Healthy);
            let failing = || health.view(key).is_some_and(|view| view.failures > 0);
            if silence.lasted(now) >= limit
                && healthy()
                && silence.calls_for_check(limit, failing, now)
                && health.check_now(key).is_ok()
            {
                silent.push((key.clone(), milliseconds(silence.lasted(now))));
            }
        }
        inband.watched = watched;
        silent.into_iter().map(|(key, silent_for_ms)| self.silent_target(&key, silent_for_ms)).collect()
    }

    /// Logs that a target is silent; gives what subscribers are told.
    fn silent_target(&self, key: &TargetKey, silent_for_ms: u64) -> What {
        tracing::info!(
            name: "target_silent", load_balancer = self.balancer_of(&key.group), target_group = %key.group,
            target = %key.address, silent_for_ms, generation = self.state.generation(),
            "a target returns nothing of what it is sent, and is checked out of turn"
        );
        What::TargetSilent { target_group: key.group.to_string(), target: key.address, silent_for_ms }
    }

    /// For how long `key` has returned nothing of what it was sent, by the last look.
    pub(super) fn inband_silence(&self, key: &TargetKey, now: Instant) -> Duration {
        let slot = self.slots.get(key);
        let known = slot.and_then(|slot| {
            let known = self.inband.silences.get(&slot.id)?;
            (known.0 == slot.generation).then(|| known.1.lasted(now))
        });
        known.unwrap_or_default()
    }

    /// How `key` stands by the traffic itself.
    pub(super) fn inband_view(&self, key: &TargetKey) -> Option<InBandView> {
        let slot = self.slots.get(key)?;
        let passed = passed(slot, &self.workers);
        let known =
            self.inband.silences.get(&slot.id).filter(|(generation, _)| *generation == slot.generation);
        let mut silence = known.map_or_else(|| Silence::new(passed), |(_, silence)| *silence);
        let now = Instant::now();
        silence.note(passed, now);
        Some(InBandView {
            packets_to_target: passed.to,
            packets_from_target: passed.from,
            silent_for_ms: milliseconds(silence.lasted(now)),
        })
    }
}
