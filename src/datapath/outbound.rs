//! What leaves a worker: packets to ports, and packets to the workers that own them.
//!
//! A packet is counted when the port has taken it. What a port does not take at once is dropped and
//! counted: waiting for it would hold up every other packet.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer};

use super::counters::{DropReason, IcmpAnswer, Outcome, ResetTrigger, WorkerCounters};
use super::fragments::{First, HELD};
use super::unposted::Unposted;
use crate::id::{GatewayId, PortId, TargetId, WorkerId};
use crate::io::{BURST, BoxedBurst, Burst, PacketBuf, PortQueue};

/// Packets that fit into the ring from one worker to another.
pub const HANDOFF_RING: usize = 1024;

/// Packets that a burst may make beyond one for one, in all: by splitting (M-2), a burst of 8,500-byte packets
/// makes 384 for an MTU of 1,500, and by first fragments that others waited for (M-4), of which there are
/// no more than that.
pub const SPILL: usize = HELD;

/// What a packet that is about to be sent is, and so what is counted when it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Goes to an appliance.
    Forwarded {
        /// The appliance.
        target: TargetId,
        /// Bytes of the inner packet.
        bytes: u32,
    },
    /// Leaves by its endpoint.
    Delivered {
        /// The appliance that returned it.
        target: TargetId,
        /// Bytes of the inner packet.
        bytes: u32,
    },
    /// Is a fragment that the gateway made of a packet too large for where it goes (M-2). The last one of a
    /// packet has the fate of the whole instead: a port takes packets in order, so when the last has left, all
    /// have, and the packet that came in is counted once.
    Piece,
    /// Crosses a wire untouched.
    Crossed,
    /// Is an ICMP error of the gateway's own (M-2, W-6).
    Error(IcmpAnswer),
    /// Comes from the host's network stack.
    FromHost,
    /// Is a reset.
    Answered {
        /// What made us send it.
        trigger: ResetTrigger,
        /// The load balancer.
        gateway: GatewayId,
        /// The flow's target, if there was a flow.
        target: Option<TargetId>,
    },
    /// Is a reset that no packet which came in has become. It has no outcome: C-1 is of packets
    /// that came in.
    Told {
        /// The load balancer.
        gateway: GatewayId,
        /// The flow's target.
        target: TargetId,
    },
}

impl Fate {
    /// Counts a packet that has left; [`count_sent`] has the two kinds that nearly all are of.
    #[cold]
    fn count(self, counters: &WorkerCounters) {
        match self {
            Fate::Forwarded { .. } | Fate::Delivered { .. } => {}
            Fate::Piece => counters.fragments_sent.add(1),
            Fate::Crossed => counters.ended(Outcome::Crossed),
            Fate::Error(answer) => {
                counters.ended(Outcome::Answered);
                counters.icmp_answers[answer.index()].add(1);
            }
            Fate::FromHost => counters.ended(Outcome::FromHost),
            Fate::Answered { trigger, gateway, target } => {
                counters.ended(Outcome::Answered);
                counters.gateway(gateway).resets[trigger.index()].add(1);
                if let Some(target) = target {
                    counters.target(target).resets[trigger.index()].add(1);
                }
            }
            Fate::Told { gateway, target } => {
                let trigger = ResetTrigger::Proactive.index();
                counters.gateway(gateway).resets[trigger].add(1);
                counters.target(target).resets[trigger].add(1);
            }
        }
    }

    /// Whether a packet that came in is settled with it (C-1).
    pub(super) fn settles(self) -> bool {
        !matches!(self, Fate::Piece | Fate::Told { .. })
    }

    /// Counts a packet that does not leave: the port did not take it, say.
    #[cold]
    pub(super) fn count_unsent(self, reason: DropReason, counters: &WorkerCounters) {
        match self {
            Fate::Told { .. } => counters.resets_unsent.add(1),
            // No packet that came in: the last piece is.
            Fate::Piece => {}
            _ => counters.dropped(reason),
        }
    }
}

/// Counts packets that have left, at so many cycles. The two outcomes that nearly all have are added up first.
#[inline]
fn count_sent(fates: &[Fate], at_cycles: u64, counters: &WorkerCounters, unposted: &mut Unposted) {
    let (mut delivered, mut others) = (0, 0);
    for fate in fates {
        match *fate {
            Fate::Forwarded { target, bytes } => unposted.sent(target, bytes),
            Fate::Delivered { target, bytes } => {
                delivered += 1;
                unposted.came_back(target, bytes, at_cycles);
            }
            other => {
                others += 1;
                other.count(counters);
            }
        }
    }
    counters.outcomes[Outcome::Forwarded.index()].add(fates.len() as u64 - delivered - others);
    counters.outcomes[Outcome::Delivered.index()].add(delivered);
}

/// Packets waiting for the end of the burst, for one port.
struct TransmitQueue<B> {
    packets: BoxedBurst<B>,
    /// By the packets' places.
    fates: [Fate; BURST],
    /// The port did not take all that it was last given: it gets no more of this burst, so that what it
    /// takes of a burst is the front of it.
    full: bool,
}

impl<B> TransmitQueue<B> {
    /// Gives the packet back if there is no room.
    #[inline]
    fn push(&mut self, packet: B, fate: Fate) -> Result<(), B> {
        let Some(place) = self.fates.get_mut(self.packets.len()) else { return Err(packet) };
        *place = fate;
        self.packets.push(packet);
        Ok(())
    }
}

/// Packets waiting for the end of the burst, by port.
pub struct Outbound<B> {
    queues: Box<[TransmitQueue<B>]>,
    /// Whether any of them has packets: between bursts none has.
    queued: bool,
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
        let queue =
            |_| TransmitQueue { packets: BoxedBurst::default(), fates: [Fate::Piece; BURST], full: false };
        let queues = (0..ports).map(queue).collect();
        Outbound {
            queues,
            queued: false,
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

    /// Where the fates of the packets that a port will be given next are noted, in order, as far as there is
    /// room.
    #[inline]
    pub fn free_fates(&mut self, port: PortId) -> &mut [Fate] {
        let Some(queue) = self.queues.get_mut(port.index()) else { return &mut [] };
        queue.fates.get_mut(queue.packets.len()..).unwrap_or_default()
    }

    /// Takes the first `count` packets of a burst, whose fates were noted. A whole burst stays where it is: the queue and the
    /// caller exchange theirs.
    #[inline]
    pub fn take_noted(&mut self, port: PortId, burst: &mut BoxedBurst<B>, count: usize) {
        let Some(queue) = self.queues.get_mut(port.index()) else { return };
        self.queued = true;
        if queue.packets.is_empty() && count == burst.len() {
            std::mem::swap(&mut queue.packets, burst);
        } else {
            queue.packets.extend(burst.drain(..count));
        }
    }

    /// The same of one packet.
    pub fn take_noted_one(&mut self, port: PortId, packet: B) {
        if let Some(queue) = self.queues.get_mut(port.index()) {
            self.queued = true;
            queue.packets.push(packet);
        }
    }

    /// Takes a packet for a port. A burst makes at most a burst of packets for a port, and where it makes
    /// more they wait behind it, up to [`SPILL`]; were there no room, the packet would be dropped as the port
    /// would drop it.
    #[inline]
    pub fn send(&mut self, port: PortId, packet: B, fate: Fate, counters: &WorkerCounters) {
        let Some(queue) = self.queues.get_mut(port.index()) else {
            return fate.count_unsent(DropReason::PortUnused, counters);
        };
        self.queued = true;
        if let Err(packet) = queue.push(packet, fate) {
            self.spill(port, packet, fate, counters);
        }
    }

    /// Takes the first `count` packets of a burst, whose ports and fates `ways` has in order. A burst that is all for
    /// one port stays as it is.
    #[inline]
    pub fn send_from_front(
        &mut self,
        burst: &mut BoxedBurst<B>,
        count: usize,
        ways: impl Iterator<Item = (PortId, Fate)> + Clone,
        counters: &WorkerCounters,
    ) {
        if count == burst.len()
            && let Some((port, _)) = ways.clone().next()
            && let Some(queue) = self.queues.get_mut(port.index())
            && queue.packets.is_empty()
        {
            let mut all_alike = true;
            for (place, (leaves_by, fate)) in queue.fates.iter_mut().zip(ways.clone()) {
                *place = fate;
                all_alike &= leaves_by == port;
            }
            if all_alike {
                self.queued = true;
                return std::mem::swap(&mut queue.packets, burst);
            }
        }
        for (packet, (port, fate)) in burst.drain(..count).zip(ways) {
            self.send(port, packet, fate, counters);
        }
    }

    #[cold]
    fn spill(&mut self, port: PortId, packet: B, fate: Fate, counters: &WorkerCounters) {
        if self.spilled.len() < SPILL {
            self.spilled.push_back((port, packet, fate));
        } else {
            fate.count_unsent(DropReason::TransmitFull, counters);
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
    pub fn flush_seen<Q: PortQueue<Buf = B>>(
        &mut self,
        ports: &mut [Q],
        counters: &WorkerCounters,
        seen: &mut impl Departures<B>,
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
        Some((queue.packets.get(place)?, *queue.fates.get(place)?))
    }

    /// How many packets found their port's queue full.
    pub fn spilled(&self) -> usize {
        self.spilled.len()
    }

    /// The last of them.
    pub fn last_spilled(&self) -> Option<(&B, Fate)> {
        self.spilled.back().map(|(_, packet, fate)| (packet, *fate))
    }

    fn flush_queues<Q: PortQueue<Buf = B>>(
        &mut self,
        ports: &mut [Q],
        counters: &WorkerCounters,
        seen: &mut impl Departures<B>,
    ) {
        self.queued = false;
        for (number, (queue, port)) in self.queues.iter_mut().zip(ports).enumerate() {
            if queue.packets.is_empty() {
                continue;
            }
            let count = queue.packets.len();
            #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 65,536 ports")]
            let id = PortId(number as u16);
            seen.leaving(id, &queue.packets, queue.fates.get(..count).unwrap_or_default());
            let sent = port.transmit(&mut queue.packets);
            seen.left(sent);
            queue.full = sent < count;
            let fates = queue.fates.get(..count).unwrap_or_default();
            let (left, stayed) = fates.split_at_checked(sent).unwrap_or((fates, &[]));
            count_sent(left, self.round_began, counters, &mut self.unposted);
            for fate in stayed {
                fate.count_unsent(DropReason::TransmitFull, counters);
            }
            queue.packets.clear();
        }
    }

    #[cold]
    fn flush_spilled<Q: PortQueue<Buf = B>>(
        &mut self,
        ports: &mut [Q],
        counters: &WorkerCounters,
        seen: &mut impl Departures<B>,
    ) {
        while !self.spilled.is_empty() {
            // At least one fits, as the queues are empty.
            while let Some((port, packet, fate)) = self.spilled.pop_front() {
                match self.queues.get_mut(port.index()) {
                    Some(queue) if queue.full => {
                        seen.refused(port, &packet, fate);
                        fate.count_unsent(DropReason::TransmitFull, counters);
                    }
                    Some(queue) => {
                        if let Err(packet) = queue.push(packet, fate) {
                            self.spilled.push_front((port, packet, fate));
                            break;
                        }
                    }
                    None => fate.count_unsent(DropReason::PortUnused, counters),
                }
            }
            self.flush_queues(ports, counters, seen);
        }
    }
}

/// Who looks at packets as they leave.
pub trait Departures<B> {
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
mod tests {
    use super::*;
    use crate::io::memory::MemoryBuf;

    // F-2
    #[test]
    fn no_worker_that_hands_over_ever_so_much_starves_the_others() {
        let counters = WorkerCounters::default();
        let mut ends = Handoff::mesh(3);
        for sender in [0, 1] {
            for _ in 0..3 * BURST {
                let packet = MemoryBuf::new(&[sender]);
                ends[usize::from(sender)].give(WorkerId(2), PortId(0), packet, &counters);
            }
        }
        let mut senders = Vec::new();
        let (mut burst, mut stages) = (Burst::new(), ArrayVec::new());
        while ends[2].take(&mut burst, &mut stages).is_some() {
            senders.push(burst[0].bytes()[0]);
            assert!(burst.iter().all(|packet| packet.bytes() == burst[0].bytes()));
            burst.clear();
        }
        assert_eq!(senders, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn the_fullest_ring_tells_how_full_it_is_and_was() {
        let counters = WorkerCounters::default();
        let mut ends = Handoff::mesh(3);
        let give = |ends: &mut [Handoff<MemoryBuf>], sender: usize, count| {
            for _ in 0..count {
                ends[sender].give(WorkerId(2), PortId(0), MemoryBuf::new(&[0]), &counters);
            }
        };
        assert_eq!((ends[2].capacity(), ends[2].fill()), (HANDOFF_RING, (0, 0)));
        give(&mut ends, 0, 100);
        give(&mut ends, 1, 70);
        assert_eq!(ends[2].fill(), (100, 0), "none was taken yet");
        let (mut burst, mut stages) = (Burst::new(), ArrayVec::new());
        while ends[2].take(&mut burst, &mut stages).is_some() {
            burst.clear();
        }
        assert_eq!(ends[2].fill(), (0, 100));
        give(&mut ends, 1, HANDOFF_RING + 9);
        assert_eq!(ends[2].fill(), (HANDOFF_RING, 0));
        assert_eq!(counters.drops[DropReason::HandoffFull.index()].get(), 9);
        assert_eq!(Handoff::<MemoryBuf>::mesh(1)[0].capacity(), 0);
    }
}
