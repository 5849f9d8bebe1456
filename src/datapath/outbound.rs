//! What leaves a worker: packets to ports, and packets to the workers that own them.
//!
//! A packet is counted when the port has taken it. What a port does not take at once is dropped and
//! counted: waiting for it would hold up every other packet.

use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer};

use super::counters::{DropReason, Outcome, ResetTrigger, WorkerCounters};
use crate::id::{GatewayId, PortId, TargetId, WorkerId};
use crate::io::{BURST, Burst, PacketBuf, PortQueue};

/// Packets that fit into the ring from one worker to another.
pub const HANDOFF_RING: usize = 1024;

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
    /// Crosses a wire untouched.
    Crossed,
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
    /// Counts a packet that has left.
    fn count(self, counters: &WorkerCounters) {
        match self {
            Fate::Forwarded { target, bytes } => {
                counters.ended(Outcome::Forwarded);
                let target = counters.target(target);
                target.packets_out.add(1);
                target.bytes_out.add(u64::from(bytes));
            }
            Fate::Delivered { target, bytes } => {
                counters.ended(Outcome::Delivered);
                let target = counters.target(target);
                target.packets_back.add(1);
                target.bytes_back.add(u64::from(bytes));
            }
            Fate::Crossed => counters.ended(Outcome::Crossed),
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

    /// Counts a packet that the port did not take.
    #[cold]
    fn count_unsent(self, counters: &WorkerCounters) {
        match self {
            Fate::Told { .. } => counters.resets_unsent.add(1),
            _ => counters.dropped(DropReason::TransmitFull),
        }
    }
}

/// Packets waiting for the end of the burst, for one port.
struct TransmitQueue<B> {
    packets: Burst<B>,
    fates: ArrayVec<Fate, BURST>,
}

/// Packets waiting for the end of the burst, by port.
pub struct Outbound<B> {
    queues: Box<[TransmitQueue<B>]>,
}

impl<B: PacketBuf> Outbound<B> {
    /// Queues for so many ports.
    pub fn new(ports: usize) -> Outbound<B> {
        let queue = |_| TransmitQueue { packets: Burst::new(), fates: ArrayVec::new() };
        Outbound { queues: (0..ports).map(queue).collect() }
    }

    /// Takes a packet for a port. A burst makes at most a burst of packets for a port, so there is
    /// room; were there none, the packet would be dropped as the port would drop it.
    #[inline]
    pub fn send(&mut self, port: PortId, packet: B, fate: Fate, counters: &WorkerCounters) {
        let Some(queue) = self.queues.get_mut(port.index()) else {
            return counters.dropped(DropReason::PortUnused);
        };
        if queue.packets.try_push(packet).is_err() || queue.fates.try_push(fate).is_err() {
            fate.count_unsent(counters);
        }
    }

    /// Gives every port its packets and settles their counts.
    pub fn flush<Q: PortQueue<Buf = B>>(&mut self, ports: &mut [Q], counters: &WorkerCounters) {
        for (queue, port) in self.queues.iter_mut().zip(ports) {
            if queue.packets.is_empty() {
                continue;
            }
            let sent = port.transmit(&mut queue.packets);
            for (place, fate) in queue.fates.drain(..).enumerate() {
                if place < sent {
                    fate.count(counters);
                } else {
                    fate.count_unsent(counters);
                }
            }
            queue.packets.clear();
        }
    }
}

/// A packet on its way to the worker that owns its flow.
pub struct Handed<B> {
    /// The port that it came in by.
    pub port: PortId,
    /// The packet, as it came in.
    pub packet: B,
}

/// The rings to and from the other workers. With one worker there are none, and they cost nothing.
pub struct Handoff<B> {
    /// By [`WorkerId`]; `None` in the worker's own place.
    to: Box<[Option<Producer<Handed<B>>>]>,
    from: Box<[Consumer<Handed<B>>]>,
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
        to.into_iter().zip(from).map(|(to, from)| Handoff { to: to.into(), from: from.into() }).collect()
    }

    /// Gives a packet to its owner.
    #[inline]
    pub fn give(&mut self, owner: WorkerId, port: PortId, packet: B, counters: &WorkerCounters) {
        let ring = self.to.get_mut(owner.index()).and_then(Option::as_mut);
        match ring.map(|ring| ring.push(Handed { port, packet })) {
            Some(Ok(())) => counters.handed_off.add(1),
            _ => counters.dropped(DropReason::HandoffFull),
        }
    }

    /// Takes packets from the other workers that came in by one port, at most a burst; returns that
    /// port, or `None` when nothing waits.
    pub fn take(&mut self, burst: &mut Burst<B>) -> Option<PortId> {
        for ring in &mut self.from {
            let Ok(first) = ring.peek() else { continue };
            let port = first.port;
            while !burst.is_full() && ring.peek().is_ok_and(|next| next.port == port) {
                if let Ok(handed) = ring.pop() {
                    burst.push(handed.packet);
                }
            }
            return Some(port);
        }
        None
    }
}
