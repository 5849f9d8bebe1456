//! The packets that wait for one port, and what they are.

use super::super::counters::{DropReason, Outcome, WorkerCounters};
use super::super::unposted::Unposted;
use super::{Fate, Note};
use crate::io::{BURST, BoxedBurst};

/// Packets waiting for the end of the burst, for one port.
pub(super) struct TransmitQueue<B> {
    pub(super) packets: BoxedBurst<B>,
    /// So many packets from the front have no fate but a note, and all came back or none.
    pub(super) noted: usize,
    pub(super) notes_are_back: bool,
    /// By the packets' places.
    pub(super) notes: [Note; BURST],
    /// By the packets' places, behind those that were noted.
    pub(super) fates: [Fate; BURST],
    /// How many of them are [`Fate::Delivered`], and how many are neither that nor [`Fate::Forwarded`].
    delivered: u32,
    others: u32,
    /// The port did not take all that it was last given: it gets no more of this burst, so that what it
    /// takes of a burst is the front of it.
    pub(super) full: bool,
}

impl<B> Default for TransmitQueue<B> {
    fn default() -> TransmitQueue<B> {
        TransmitQueue {
            packets: BoxedBurst::default(),
            noted: 0,
            notes_are_back: false,
            notes: [Note::NONE; BURST],
            fates: [Fate::Piece; BURST],
            delivered: 0,
            others: 0,
            full: false,
        }
    }
}

impl<B> TransmitQueue<B> {
    /// Gives the packet back if there is no room.
    #[inline]
    pub(super) fn push(&mut self, packet: B, fate: Fate) -> Result<(), B> {
        let Some(place) = self.fates.get_mut(self.packets.len()) else { return Err(packet) };
        *place = fate;
        match fate {
            Fate::Forwarded { .. } => {}
            Fate::Delivered { .. } => self.delivered += 1,
            _ => self.others += 1,
        }
        self.packets.push(packet);
        Ok(())
    }

    fn fate_of_note(&self, note: Note) -> Fate {
        if self.notes_are_back { note.delivered() } else { note.forwarded() }
    }

    /// Gives each of those that were noted its fate, for who looks at packets one by one.
    #[cold]
    pub(super) fn name_noted(&mut self) {
        let noted = std::mem::take(&mut self.noted).min(BURST);
        for place in 0..noted {
            self.fates[place] = self.fate_of_note(self.notes[place]);
        }
        if self.notes_are_back {
            #[expect(clippy::cast_possible_truncation, reason = "a burst")]
            let delivered = noted as u32;
            self.delivered += delivered;
        }
    }

    /// The fate of the packet at a place.
    pub(super) fn fate(&self, place: usize) -> Option<Fate> {
        if place < self.noted {
            return Some(self.fate_of_note(*self.notes.get(place)?));
        }
        self.fates.get(place).copied()
    }

    /// Counts the packets that have left, of `count` the first `sent`, and those that have not. Of what goes to targets and
    /// comes back, which was counted by target already, only the numbers are left to be told, unless something stayed.
    #[inline]
    pub(super) fn settle(
        &mut self,
        count: usize,
        sent: usize,
        counters: &WorkerCounters,
        unposted: &mut Unposted,
    ) {
        if cfg!(without = "counters") {
            return;
        }
        if sent < count || self.others > 0 {
            self.settle_each(count, sent, counters, unposted);
        }
        let noted_back = if self.notes_are_back { self.noted as u64 } else { 0 };
        let (delivered, others) = (u64::from(self.delivered) + noted_back, u64::from(self.others));
        counters.outcomes[Outcome::Forwarded.index()].add(count as u64 - delivered - others);
        counters.outcomes[Outcome::Delivered.index()].add(delivered);
        (self.noted, self.delivered, self.others) = (0, 0, 0);
    }

    /// Counts those that are neither, and those that stayed; then all of these are among `others`.
    #[cold]
    fn settle_each(&mut self, count: usize, sent: usize, counters: &WorkerCounters, unposted: &mut Unposted) {
        // What the port took is not in the queue any more.
        self.name_noted();
        let fates = self.fates.get(..count).unwrap_or_default();
        let (left, stayed) = fates.split_at_checked(sent).unwrap_or((fates, &[]));
        left.iter().for_each(|fate| fate.count(counters));
        for fate in stayed {
            match fate {
                Fate::Forwarded { .. } => self.others += 1,
                Fate::Delivered { .. } => {
                    (self.delivered, self.others) = (self.delivered - 1, self.others + 1)
                }
                _ => {}
            }
            fate.refuse(DropReason::TransmitFull, counters, unposted);
        }
    }
}
