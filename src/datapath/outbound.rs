//! What leaves a worker: packets to ports, and packets to the workers that own them.
//!
//! A packet is counted when the port has taken it; by its target when it is made ready, which is taken off again before
//! anybody sees it where the port does not take it. What a port does not take at once is dropped and
//! counted: waiting for it would hold up every other packet.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer};

mod fate;
mod queue;

pub use fate::{Delivery, Fate, Note};

use super::counters::{DropReason, WorkerCounters};
use super::fragments::{First, HELD};
use super::unposted::Unposted;
use crate::id::{PortId, WorkerId};
use crate::io::{BURST, BoxedBurst, Burst, PacketBuf, PortQueue};
use queue::TransmitQueue;

/// Packets that fit into the ring from one worker to another.
pub const HANDOFF_RING: usize = 1024;

/// Packets that a burst may make beyond one for one, in all: by splitting (M-2), a burst of 8,500-byte packets
/// makes 384 for an MTU of 1,500, and by first fragments that others waited for (M-4), of which there are
/// no more than that.
pub const SPILL: usize = HELD;

/// Packets waiting for the end of the burst, by port.
pub struct Outbound<B> {
    queues: Box<[TransmitQueue<B>]>,
    /// Whether any of them has packets: between bursts none has.
    queued: bool,
    /// Whether any had in this round.
    left: bool,
    /// What found its port's queue full, in order. Of fixed size.
    spilled: VecDeque<(PortId, B, Fate)>,
    /// When this round began, in cycles of the workers' clock.
    round_began: u64,
    /// What has left and is not in the targets' counters.
    pub unposted: Unposted,
}

impl<B: PacketBuf> Outbound<B> {
    /// Queues for so many ports.
    pub fn new(ports: usize) -> Outbound<B> {
        let queues = (0..ports).map(|_| TransmitQueue::default()).collect();
        Outbound {
            queues,
            queued: false,
            left: false,
            spilled: VecDeque::with_capacity(SPILL),
            round_began: 0,
            unposted: Unposted::default(),
        }
    }

    /// A round begins: what leaves in it has left at this time.
    #[inline]
    pub fn begin_round(&mut self, cycles: u64) {
        self.round_began = cycles;
    }

    /// A round is over that was given more than half a burst (`is_busy`) while there were targets below `end`.
    #[inline]
    pub fn end_round(&mut self, is_busy: bool, end: usize, counters: &WorkerCounters) {
        self.unposted.end_round(std::mem::take(&mut self.left), is_busy, end, counters);
    }

    /// Where the packets that go to targets by a port are noted next, in order, as far as there is room.
    #[inline]
    pub fn free_notes(&mut self, port: PortId) -> &mut [Note] {
        let Some(queue) = self.queues.get_mut(port.index()) else { return &mut [] };
        queue.notes.get_mut(queue.packets.len()..).unwrap_or_default()
    }

    /// Takes the first `count` packets of a burst, which were noted, and counts them by target. A whole burst stays where it
    /// is: the queue and the caller exchange theirs.
    #[inline(always)]
    pub fn take_noted(&mut self, port: PortId, burst: &mut BoxedBurst<B>, count: usize) {
        let Some(queue) = self.queues.get_mut(port.index()) else { return };
        self.queued = true;
        let begin = queue.packets.len();
        let notes = queue.notes.get(begin..begin + count).unwrap_or_default();
        self.unposted.sent_all(notes);
        if begin > 0 {
            for (fate, note) in queue.fates.iter_mut().skip(begin).zip(notes) {
                *fate = note.forwarded();
            }
            return queue.packets.extend(burst.drain(..count));
        }
        (queue.noted, queue.notes_are_back) = (count, false);
        if count == burst.len() {
            std::mem::swap(&mut queue.packets, burst);
        } else {
            queue.packets.extend(burst.drain(..count));
        }
    }

    /// The same of one packet.
    pub fn take_noted_one(&mut self, port: PortId, packet: B, counters: &WorkerCounters) {
        if let Some(queue) = self.queues.get_mut(port.index()) {
            self.queued = true;
            let place = queue.packets.len();
            let (Some(note), Some(fate)) = (queue.notes.get(place), queue.fates.get_mut(place)) else {
                // No more are made ready than there are notes.
                return counters.dropped(DropReason::TransmitFull);
            };
            self.unposted.sent(note.target, note.bytes);
            *fate = note.forwarded();
            queue.packets.push(packet);
        }
    }

    /// Takes a packet for a port. A burst makes at most a burst of packets for a port, and where it makes
    /// more they wait behind it, up to [`SPILL`]; were there no room, the packet would be dropped as the port
    /// would drop it.
    #[inline]
    pub fn send(&mut self, port: PortId, packet: B, fate: Fate, counters: &WorkerCounters) {
        fate.count_queued(self.round_began, &mut self.unposted);
        self.queue(port, packet, fate, counters);
    }

    /// The same of one that is counted.
    #[inline]
    fn queue(&mut self, port: PortId, packet: B, fate: Fate, counters: &WorkerCounters) {
        let Some(queue) = self.queues.get_mut(port.index()) else {
            return fate.refuse(DropReason::PortUnused, counters, &mut self.unposted);
        };
        self.queued = true;
        if let Err(packet) = queue.push(packet, fate) {
            self.spill(port, packet, fate, counters);
        }
    }

    /// Takes the first packets of a burst, which came back from targets and leave by these ways, in order, and counts them by
    /// target. A burst that is all for one port stays as it is.
    #[inline(always)]
    pub fn deliver_from_front(
        &mut self,
        burst: &mut BoxedBurst<B>,
        ways: &[impl AsRef<Delivery>],
        counters: &WorkerCounters,
    ) {
        let Some(first) = ways.first() else { return };
        let port = first.as_ref().port;
        if ways.len() == burst.len()
            && let Some(queue) = self.queues.get_mut(port.index())
            && queue.packets.is_empty()
        {
            let mut all_alike = true;
            for (place, way) in queue.notes.iter_mut().zip(ways) {
                let Delivery { port: leaves_by, note } = *way.as_ref();
                if !cfg!(without = "notes") {
                    *place = note;
                }
                all_alike &= leaves_by == port;
                self.unposted.came_back(note.target, note.bytes, self.round_began);
            }
            if all_alike {
                self.queued = true;
                (queue.noted, queue.notes_are_back) = (ways.len(), true);
                return std::mem::swap(&mut queue.packets, burst);
            }
        } else {
            for way in ways {
                let Delivery { note, .. } = *way.as_ref();
                self.unposted.came_back(note.target, note.bytes, self.round_began);
            }
        }
        for (packet, way) in burst.drain(..ways.len()).zip(ways) {
            let Delivery { port, note } = *way.as_ref();
            self.queue(port, packet, note.delivered(), counters);
        }
    }

    #[cold]
    fn spill(&mut self, port: PortId, packet: B, fate: Fate, counters: &WorkerCounters) {
        if self.spilled.len() < SPILL {
            self.spilled.push_back((port, packet, fate));
        } else {
            fate.refuse(DropReason::TransmitFull, counters, &mut self.unposted);
        }
    }

    /// Whether there is something to be sent.
    #[inline]
    pub fn has_queued(&self) -> bool {
        // What has spilled lies behind a full queue.
        self.queued
    }

    /// Gives every port its packets and settles their counts.
    #[inline]
    pub fn flush<Q: PortQueue<Buf = B>>(&mut self, ports: &mut [Q], counters: &WorkerCounters) {
        self.flush_seen(ports, counters, &mut ());
    }

    /// The same, while `seen` looks at what leaves.
    #[inline]
    pub fn flush_seen<Q: PortQueue<Buf = B>, S: Departures<B>>(
        &mut self,
        ports: &mut [Q],
        counters: &WorkerCounters,
        seen: &mut S,
    ) {
        self.flush_queues(ports, counters, seen);
        if !self.spilled.is_empty() {
            self.flush_spilled(ports, counters, seen);
        }
        seen.all_left();
    }

    /// How many packets wait for each port.
    pub fn lens(&self) -> impl Iterator<Item = usize> + '_ {
        self.queues.iter().map(|queue| queue.packets.len())
    }

    /// The packet that was last queued for a port.
    pub fn last_of(&self, port: usize) -> Option<(&B, Fate)> {
        let queue = self.queues.get(port)?;
        let place = queue.packets.len().checked_sub(1)?;
        Some((queue.packets.get(place)?, queue.fate(place)?))
    }

    /// How many packets found their port's queue full.
    pub fn spilled(&self) -> usize {
        self.spilled.len()
    }

    /// The last of them.
    pub fn last_spilled(&self) -> Option<(&B, Fate)> {
        self.spilled.back().map(|(_, packet, fate)| (packet, *fate))
    }

    fn flush_queues<Q: PortQueue<Buf = B>, S: Departures<B>>(
        &mut self,
        ports: &mut [Q],
        counters: &WorkerCounters,
        seen: &mut S,
    ) {
        (self.queued, self.left) = (false, true);
        for (number, (queue, port)) in self.queues.iter_mut().zip(ports).enumerate() {
            if queue.packets.is_empty() {
                continue;
            }
            let count = queue.packets.len();
            #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 65,536 ports")]
            let id = PortId(number as u16);
            if S::LOOKS {
                queue.name_noted();
                seen.leaving(id, &queue.packets, queue.fates.get(..count).unwrap_or_default());
            }
            let sent = port.transmit(&mut queue.packets);
            seen.left(sent);
            queue.full = sent < count;
            queue.settle(count, sent, counters, &mut self.unposted);
            queue.packets.clear();
        }
    }

    #[cold]
    fn flush_spilled<Q: PortQueue<Buf = B>, S: Departures<B>>(
        &mut self,
        ports: &mut [Q],
        counters: &WorkerCounters,
        seen: &mut S,
    ) {
        while !self.spilled.is_empty() {
            // At least one fits, as the queues are empty.
            while let Some((port, packet, fate)) = self.spilled.pop_front() {
                match self.queues.get_mut(port.index()) {
                    Some(queue) if queue.full => {
                        seen.refused(port, &packet, fate);
                        fate.refuse(DropReason::TransmitFull, counters, &mut self.unposted);
                    }
                    Some(queue) => {
                        if let Err(packet) = queue.push(packet, fate) {
                            self.spilled.push_front((port, packet, fate));
                            break;
                        }
                    }
                    None => fate.refuse(DropReason::PortUnused, counters, &mut self.unposted),
                }
            }
            self.flush_queues(ports, counters, seen);
        }
    }
}

/// Who looks at packets as they leave.
pub trait Departures<B> {
    /// Whether it does.
    const LOOKS: bool = true;

    /// A port is about to be given these.
    fn leaving(&mut self, port: PortId, packets: &[B], fates: &[Fate]);

    /// It took so many of them, from the front.
    fn left(&mut self, sent: usize);

    /// A port that took not all before is not given this one, which is dropped.
    fn refused(&mut self, port: PortId, packet: &B, fate: Fate);

    /// All ports were given theirs.
    fn all_left(&mut self);
}

/// Nobody: as if it were not there.
impl<B> Departures<B> for () {
    const LOOKS: bool = false;

    #[inline(always)]
    fn leaving(&mut self, _: PortId, _: &[B], _: &[Fate]) {}

    #[inline(always)]
    fn left(&mut self, _: usize) {}

    #[inline(always)]
    fn refused(&mut self, _: PortId, _: &B, _: Fate) {}

    #[inline(always)]
    fn all_left(&mut self) {}
}

/// How far a packet that one worker hands to another is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// To the worker that owns what the packet's own header names, or that the packet it quotes names (M-5).
    Owner,
    /// A fragment, to the worker that knows its datagram (M-4).
    Datagram,
    /// A fragment, to the worker that owns the flow which its first fragment named.
    Resolved(First),
    /// An ICMP error that quotes no known flow, to the worker that owns the flow of its own (M-5).
    Unquoted,
}

/// A packet on its way to the worker that owns its flow.
pub struct Handed<B> {
    /// The port that it came in by.
    pub port: PortId,
    /// The packet, as it came in.
    pub packet: B,
    /// How far it is on its way.
    pub stage: Stage,
}

/// The rings to and from the other workers. With one worker there are none, and they cost nothing.
pub struct Handoff<B> {
    /// By [`WorkerId`]; `None` in the worker's own place.
    to: Box<[Option<Producer<Handed<B>>>]>,
    from: Box<[Consumer<Handed<B>>]>,
    /// The ring that is looked into next: each has its turn, so that none that is always full starves the
    /// others.
    next: usize,
    /// The most packets that were seen to wait in one of them since that was last asked.
    most: usize,
}

impl<B> Handoff<B> {
    /// The ends that belong to each of `workers` workers.
    pub fn mesh(workers: u8) -> Vec<Handoff<B>> {
        let count = usize::from(workers);
        let mut to: Vec<Vec<Option<Producer<Handed<B>>>>> = Vec::with_capacity(count);
        let mut from: Vec<Vec<Consumer<Handed<B>>>> = (0..count).map(|_| Vec::new()).collect();
        for sender in 0..count {
            let mut ends = Vec::with_capacity(count);
            for (receiver, arriving) in from.iter_mut().enumerate() {
                ends.push((sender != receiver).then(|| {
                    let (producer, consumer) = rtrb::RingBuffer::new(HANDOFF_RING);
                    arriving.push(consumer);
                    producer
                }));
            }
            to.push(ends);
        }
        to.into_iter()
            .zip(from)
            .map(|(to, from)| Handoff { to: to.into(), from: from.into(), next: 0, most: 0 })
            .collect()
    }

    /// Gives a packet to its owner.
    #[inline]
    pub fn give(&mut self, owner: WorkerId, port: PortId, packet: B, counters: &WorkerCounters) {
        self.give_at(Stage::Owner, owner, port, packet, counters);
    }

    /// Gives a packet that is further on its way, or on another, to the worker that is next.
    #[inline]
    pub fn give_at(
        &mut self,
        stage: Stage,
        owner: WorkerId,
        port: PortId,
        packet: B,
        counters: &WorkerCounters,
    ) {
        let ring = self.to.get_mut(owner.index()).and_then(Option::as_mut);
        match ring.map(|ring| ring.push(Handed { port, packet, stage })) {
            Some(Ok(())) => counters.handed_off.add(1),
            _ => counters.dropped(DropReason::HandoffFull),
        }
    }

    /// Packets that fit into each of the rings to this worker; 0 if there is none.
    pub fn capacity(&self) -> usize {
        self.from.first().map_or(0, |ring| ring.buffer().capacity())
    }

    /// Packets that wait in the fullest ring to this worker now, and the most that did when some were taken since this
    /// was last asked.
    pub fn fill(&mut self) -> (usize, usize) {
        let waiting = self.from.iter().map(Consumer::slots).max().unwrap_or(0);
        (waiting, std::mem::take(&mut self.most))
    }

    /// Takes packets from another worker that came in by one port, at most a burst; returns that port, or
    /// `None` when nothing waits. `stages` has the packets' stages, unless all are for their owner: then it
    /// stays empty.
    pub fn take(&mut self, burst: &mut Burst<B>, stages: &mut ArrayVec<Stage, BURST>) -> Option<PortId> {
        for _ in 0..self.from.len() {
            let at = self.next;
            self.next = if at + 1 < self.from.len() { at + 1 } else { 0 };
            let Some(ring) = self.from.get_mut(at) else { continue };
            let Ok(first) = ring.peek() else { continue };
            self.most = self.most.max(ring.slots());
            let (port, plain) = (first.port, first.stage == Stage::Owner);
            let alike = |next: &Handed<B>| next.port == port && (next.stage == Stage::Owner) == plain;
            while !burst.is_full() && ring.peek().is_ok_and(alike) {
                let Ok(handed) = ring.pop() else { break };
                burst.push(handed.packet);
                if !plain {
                    stages.push(handed.stage);
                }
            }
            return Some(port);
        }
        None
    }
}

#[cfg(test)]
mod tests;
