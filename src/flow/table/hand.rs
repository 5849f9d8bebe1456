//! Going over the entries a few at a time: the ageing hand, and the scan for whoever wants to see all.
#![forbid(unsafe_code)]

use arrayvec::ArrayVec;

use super::header::Changing;
use super::{EntryId, Table};
use crate::flow::entry::{Entry, FlowState};
use crate::flow::timers::{Ended, Timers};
use crate::id::Millis;

/// How many entries ahead of the hand are asked for.
const AHEAD: u32 = 8;

/// Entries that are looked at before those of them that are over are ended: the buckets of these, each
/// somewhere else, are on the way meanwhile.
const STRIDE: u32 = 16;

impl Table {
    /// Moves the ageing hand over `steps` entries and ends those whose time is over: established TCP becomes
    /// [`FlowState::Expired`], the rest is removed. `ended` is shown each as it was before.
    ///
    /// The hand must come round at least every 24 days, half of what [`Millis`] can tell apart.
    pub fn age(
        &mut self,
        steps: u32,
        now: Millis,
        timers: impl Fn(&Entry) -> Timers,
        mut ended: impl FnMut(EntryId, &Entry, Ended),
    ) {
        let Changing { fresh, hand, .. } = self.header.at(0).changing;
        let mut left = steps.min(fresh);
        let mut at = hand;
        while left > 0 {
            let mut over = ArrayVec::<(u32, Ended), { STRIDE as usize }>::new();
            for _ in 0..left.min(STRIDE) {
                let number = if at < fresh { at } else { 0 };
                (at, left) = (number + 1, left - 1);
                self.entries.prefetch(number + AHEAD);
                let entry = self.entries.at(number);
                if matches!(entry.state(), FlowState::Free | FlowState::Expired) {
                    continue;
                }
                if let Some(reason) = entry.expiry(now, &timers(entry)) {
                    if reason != Ended::TcpIdle {
                        self.prefetch_remove(EntryId(number));
                    }
                    // As many as the stride is long.
                    over.try_push((number, reason)).ok();
                }
            }
            for (number, reason) in over {
                ended(EntryId(number), self.entries.at(number), reason);
                match reason {
                    Ended::TcpIdle => self.shift(number, FlowState::Expired),
                    Ended::OtherIdle | Ended::Closed | Ended::HalfOpen | Ended::Owing => {
                        self.remove(EntryId(number));
                    }
                }
            }
        }
        self.header.at_mut(0).changing.hand = at;
    }

    /// Shows `steps` entries from number `from` on, those that hold a flow, and returns where to go on;
    /// `None` at the end. Flows that come or go between two calls may be missed.
    pub fn scan(&self, from: u32, steps: u32, mut show: impl FnMut(EntryId, &Entry)) -> Option<u32> {
        let fresh = self.header.at(0).changing.fresh;
        let end = from.saturating_add(steps).min(fresh);
        for number in from..end {
            let entry = self.entries.at(number);
            if entry.state() != FlowState::Free {
                show(EntryId(number), entry);
            }
        }
        (end < fresh).then_some(end)
    }
}
