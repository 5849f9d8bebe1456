//! What is kept of a flow: one cache line. Made and queued by the table; read and written by
//! `datapath` through the accessors here, which cannot break what the table relies on.
#![forbid(unsafe_code)]

use std::sync::atomic::{Ordering, compiler_fence};

use bitflags::bitflags;

use super::key::{Direction, FlowKey};
use super::table::NewEntry;
use super::timers::{Ended, Timers, expiry};
use crate::id::{Millis, TargetId};

/// Where a flow is in its life (F-9, F-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FlowState {
    /// No flow: the entry is free.
    Free = 0,
    /// TCP of which only SYNs from one side were seen.
    HalfOpen = 1,
    /// TCP that goes on.
    Established = 2,
    /// TCP that both FINs or a RST have closed.
    Closed = 3,
    /// TCP that was silent for its idle time: no live flow, but remembered until its next packet or
    /// until its room is needed.
    Expired = 4,
    /// A live flow of another protocol.
    Other = 5,
    /// TCP that the gateway itself has ended by a reset: no live flow, but remembered for the end that
    /// was not told yet, until that end's next packet, for an idle timeout, or until its room is needed
    ///
    Owing = 6,
}

impl FlowState {
    /// Each that an entry in use may have.
    pub const IN_USE: [FlowState; 6] = [
        FlowState::HalfOpen,
        FlowState::Established,
        FlowState::Closed,
        FlowState::Expired,
        FlowState::Other,
        FlowState::Owing,
    ];
}

/// How many states there are.
pub(super) const STATES: usize = 7;

impl FlowState {
    /// The state as an index into an array of [`STATES`].
    #[inline]
    pub(super) fn index(self) -> usize {
        self as usize
    }

    #[inline]
    fn from_byte(byte: u8) -> FlowState {
        match byte {
            1 => FlowState::HalfOpen,
            2 => FlowState::Established,
            3 => FlowState::Closed,
            4 => FlowState::Expired,
            5 => FlowState::Other,
            6 => FlowState::Owing,
            _ => FlowState::Free,
        }
    }
}

/// Number of an interned link-layer header (addresses and tags that packets of one direction arrive
/// with). The pipeline gives the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LinkId(pub u16);

impl LinkId {
    /// Not seen yet.
    pub const NONE: LinkId = LinkId(0);
}

bitflags! {
    /// What else is known of a flow. "Low" and "high" are the ends as [`Direction`] orders them.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct FlowFlags: u8 {
        /// The low end has sent its FIN.
        const FIN_LOW = 1;
        /// The high end has sent its FIN.
        const FIN_HIGH = 1 << 1;
        /// The high end sent the first packet.
        const INITIATOR_HIGH = 1 << 2;
        /// Chosen while no target was healthy (F-6).
        const FAIL_OPEN = 1 << 3;
        /// The low end's last acknowledgement is known.
        const ACK_LOW = 1 << 4;
        /// The high end's last acknowledgement is known.
        const ACK_HIGH = 1 << 5;
        /// Of a closed flow: a reset of the low end has closed it, and that end has sent nothing else since. No closed flow has
        /// an acknowledgement, so that the bit is free.
        const RST_LOW = 1 << 4;
        /// The same of the high end.
        const RST_HIGH = 1 << 5;
        /// The low end's next packet is to be answered with a reset.
        const OWED_LOW = 1 << 6;
        /// The high end's next packet is to be answered with a reset.
        const OWED_HIGH = 1 << 7;
    }
}

impl FlowFlags {
    /// The flag that says that the sender of this direction has sent its FIN.
    #[inline]
    #[must_use]
    pub fn fin(sender: Direction) -> FlowFlags {
        match sender {
            Direction::LowToHigh => FlowFlags::FIN_LOW,
            Direction::HighToLow => FlowFlags::FIN_HIGH,
        }
    }

    #[inline]
    fn ack(sender: Direction) -> FlowFlags {
        match sender {
            Direction::LowToHigh => FlowFlags::ACK_LOW,
            Direction::HighToLow => FlowFlags::ACK_HIGH,
        }
    }
}

/// In the place of an acknowledgement that is not known: see [`Entry::disown_resets`]. No place in a queue or the index.
const DISOWNED: u32 = u32::MAX;

/// A flow, 64 bytes.
///
/// What may be changed freely is public; key, state and cookie generation change only through the
/// table. Eight bytes have two uses: the place in one of the table's queues and that in the index while the
/// flow is half-open, closed, expired or owing, and the last acknowledgement of either end while it is
/// established, as no state needs both. Plain numbers throughout, so that any bytes are a valid
/// entry.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Entry {
    key: FlowKey,
    /// When its last packet was seen.
    pub last_seen: Millis,
    /// Where it goes.
    pub target: TargetId,
    /// Which life of the target's slot is meant: a registration that came later is another.
    pub target_generation: u16,
    place_or_acks: [u32; 2],
    /// The link-layer header of each direction, by [`Direction::index`].
    pub link: [LinkId; 2],
    pub(super) cookie_generation: u16,
    state: u8,
    /// What else is known.
    pub flags: FlowFlags,
}

const _: () = assert!(size_of::<Entry>() == 64 && align_of::<Entry>() == 64);

impl Entry {
    /// The flow's name.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Where the flow is in its life.
    #[inline]
    #[must_use]
    pub fn state(&self) -> FlowState {
        FlowState::from_byte(self.state)
    }

    /// Whether it is in this state.
    #[inline(always)]
    #[must_use]
    pub fn is_in(&self, state: FlowState) -> bool {
        self.state == state as u8
    }

    /// How the flow has ended by `now`, whether or not the ageing hand has noticed.
    #[inline]
    #[must_use]
    pub fn expiry(&self, now: Millis, timers: &Timers) -> Option<Ended> {
        expiry(self.state(), self.last_seen, now, timers)
    }

    /// Which direction the flow's first packet went.
    #[inline]
    #[must_use]
    pub fn initiator(&self) -> Direction {
        if self.flags.contains(FlowFlags::INITIATOR_HIGH) {
            Direction::HighToLow
        } else {
            Direction::LowToHigh
        }
    }

    /// Keeps the acknowledgement number of a segment sent in this direction; writes only what is new.
    /// Established flows only; in any other state nothing happens.
    #[inline]
    pub fn note_ack(&mut self, sender: Direction, ack: u32) {
        if self.last_ack(sender) != Some(ack) && self.state() == FlowState::Established {
            self.place_or_acks[sender.index()] = ack;
            self.flags.insert(FlowFlags::ack(sender));
        }
    }

    /// Forgets the acknowledgement numbers of both ends: they are of a connection that is over.
    #[inline]
    pub fn forget_acks(&mut self) {
        self.flags.remove(FlowFlags::ACK_LOW | FlowFlags::ACK_HIGH);
    }

    /// The last acknowledgement number sent in this direction: what a reset to that sender must have
    /// as its sequence number. `None` if none was seen since the flow was established.
    #[inline]
    #[must_use]
    pub fn last_ack(&self, sender: Direction) -> Option<u32> {
        let known = self.state() == FlowState::Established && self.flags.contains(FlowFlags::ack(sender));
        known.then_some(self.place_or_acks[sender.index()])
    }

    /// The place in the queue the entry is in.
    #[inline]
    pub(super) fn place(&self) -> u32 {
        self.place_or_acks[0]
    }

    /// See [`place`](Entry::place). The entry is in a state of which there is a queue.
    #[inline]
    pub(super) fn set_place(&mut self, place: u32) {
        self.place_or_acks[0] = place;
    }

    /// Where in the index the entry's slot is, in the index's own terms: nearly always, as that may move a slot without
    /// a look at the entry. Known of an entry in a queue.
    #[inline(always)]
    pub(super) fn whereabouts(&self) -> u32 {
        self.place_or_acks[1]
    }

    /// Changes the state. The caller has taken the entry out of its queue, and says its place in that of the new
    /// state and its slot's whereabouts; what the eight shared bytes meant in the old state is gone.
    #[inline]
    pub(super) fn change_state(&mut self, state: FlowState, place: u32, whereabouts: u32) {
        // In this order, so that no place is taken for an acknowledgement by whoever takes over from a writer that died
        // here.
        self.flags.remove(FlowFlags::ACK_LOW | FlowFlags::ACK_HIGH);
        compiler_fence(Ordering::SeqCst);
        self.place_or_acks = [place, whereabouts];
        self.state = state as u8;
    }

    /// The same place in the queue of its state by another number, in the table of another process.
    pub(super) fn queued_again(&mut self, place: u32, whereabouts: u32) {
        self.place_or_acks = [place, whereabouts];
    }

    /// Of an established flow: a reset had closed it that was not its supposed sender's. The word is of an acknowledgement's
    /// place, and lost once one is noted there.
    #[inline]
    pub fn disown_resets(&mut self) {
        if self.is_in(FlowState::Established) {
            for (place, flag) in self.place_or_acks.iter_mut().zip([FlowFlags::ACK_LOW, FlowFlags::ACK_HIGH])
            {
                if !self.flags.contains(flag) {
                    *place = DISOWNED;
                }
            }
        }
    }

    /// Whether a reset that goes this way was disowned since the flow was established.
    #[inline]
    #[must_use]
    pub fn has_disowned(&self, sender: Direction) -> bool {
        self.is_in(FlowState::Established)
            && !self.flags.contains(FlowFlags::ack(sender))
            && self.place_or_acks[sender.index()] == DISOWNED
    }

    /// Makes it that of a new flow, under the next generation.
    #[inline(always)]
    pub(super) fn begin(&mut self, generation: u16, new: &NewEntry, place: u32, whereabouts: u32) {
        self.last_seen = new.now;
        self.target = new.target;
        self.target_generation = new.target_generation;
        self.link = new.link;
        self.flags = new.flags;
        self.cookie_generation = generation;
        self.change_state(new.state, place, whereabouts);
    }

    /// Whether it may be a flow's entry by what it says itself.
    pub(super) fn says_nothing_impossible(&self) -> bool {
        let acks = FlowFlags::ACK_LOW | FlowFlags::ACK_HIGH;
        self.state() != FlowState::Free
            && self.key.may_be()
            && (self.is_in(FlowState::Established)
                || self.is_in(FlowState::Closed)
                || !self.flags.intersects(acks))
    }

    /// Makes it free, whatever it was; the generation is that of its last flow.
    pub(super) fn free_torn(&mut self, generation: u16) {
        self.state = FlowState::Free as u8;
        self.key = FlowKey::NONE;
        self.cookie_generation = generation;
        self.flags = FlowFlags::empty();
        self.place_or_acks = [0; 2];
        self.link = [LinkId::NONE; 2];
    }

    #[inline]
    pub(super) fn set_key(&mut self, key: &FlowKey) {
        self.key = *key;
    }

    /// What is given to whom an evicted flow is reported.
    pub(super) fn copy(&self) -> Entry {
        Entry {
            key: self.key,
            last_seen: self.last_seen,
            target: self.target,
            target_generation: self.target_generation,
            place_or_acks: [0; 2],
            link: self.link,
            cookie_generation: self.cookie_generation,
            state: self.state,
            flags: self.flags,
        }
    }
}

#[cfg(test)]
impl Entry {
    /// Any byte for its state, without what goes with a change of it.
    pub(super) fn tear_state(&mut self, state: u8) {
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::EndpointId;

    fn entry(state: FlowState) -> Entry {
        Entry {
            key: FlowKey::new(EndpointId(0), 4, 6, 1, 2, 3, 4).0,
            last_seen: Millis(0),
            target: TargetId(0),
            target_generation: 0,
            place_or_acks: [7, 9],
            link: [LinkId::NONE; 2],
            cookie_generation: 0,
            state: state as u8,
            flags: FlowFlags::empty(),
        }
    }

    #[test]
    fn every_state_survives_its_byte_and_unknown_bytes_are_free() {
        for byte in 0..=u8::MAX {
            let state = FlowState::from_byte(byte);
            assert_eq!(state as u8, if byte < 7 { byte } else { 0 });
            assert!(state.index() < STATES);
        }
    }

    #[test]
    fn acknowledgements_are_known_of_established_flows_only() {
        let low = Direction::LowToHigh;
        let mut half_open = entry(FlowState::HalfOpen);
        half_open.note_ack(low, 5);
        assert_eq!(half_open.last_ack(low), None);
        assert_eq!(half_open.place(), 7, "the place is not written over");

        let mut established = entry(FlowState::HalfOpen);
        established.change_state(FlowState::Established, 0, 9);
        assert_eq!(established.last_ack(low), None, "an old place is no acknowledgement");
        established.note_ack(low, 5);
        assert_eq!(established.last_ack(low), Some(5));
        assert_eq!(established.last_ack(low.reverse()), None);

        established.note_ack(low, 6);
        assert_eq!(established.last_ack(low), Some(6), "the last one counts");
        established.forget_acks();
        assert_eq!(established.last_ack(low), None, "the port was used again");
        established.note_ack(low, 6);

        established.change_state(FlowState::Expired, 7, 9);
        established.change_state(FlowState::Established, 0, 9);
        assert_eq!(established.last_ack(low), None, "forgotten with the state that it was of");
    }

    #[test]
    fn the_initiator_is_the_end_that_the_flag_names() {
        let mut entry = entry(FlowState::Other);
        assert_eq!(entry.initiator(), Direction::LowToHigh);
        entry.flags.insert(FlowFlags::INITIATOR_HIGH);
        assert_eq!(entry.initiator(), Direction::HighToLow);
    }
}
