//! What a packet that leaves is, and what is counted of it.

use super::super::counters::{DropReason, IcmpAnswer, Outcome, ResetTrigger, WorkerCounters};
use super::super::unposted::Unposted;
use crate::id::{GatewayId, PortId, TargetId};

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

/// What is counted of a packet that goes to a target, or came back from one: all that is noted of the packets that nearly all
/// are, as a burst of them is all of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// The target.
    pub target: TargetId,
    /// Bytes of the inner packet.
    pub bytes: u32,
}

impl Note {
    pub(super) const NONE: Note = Note { target: TargetId(0), bytes: 0 };

    /// Of a packet that came back.
    pub fn delivered(self) -> Fate {
        Fate::Delivered { target: self.target, bytes: self.bytes }
    }

    pub(super) fn forwarded(self) -> Fate {
        Fate::Forwarded { target: self.target, bytes: self.bytes }
    }
}

/// Where a packet that came back from a target leaves.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The port.
    pub port: PortId,
    /// The target and the length.
    pub note: Note,
}

impl Fate {
    /// Counts a packet that is queued, if it is of the two kinds that nearly all are: then it is counted by its target,
    /// and taken off again where it is [refused](Fate::refuse).
    #[inline(always)]
    pub(super) fn count_queued(self, at_cycles: u64, unposted: &mut Unposted) {
        match self {
            Fate::Forwarded { target, bytes } => unposted.sent(target, bytes),
            Fate::Delivered { target, bytes } => unposted.came_back(target, bytes, at_cycles),
            _ => {}
        }
    }

    /// Counts a packet that was queued and does not leave.
    #[cold]
    pub(super) fn refuse(self, reason: DropReason, counters: &WorkerCounters, unposted: &mut Unposted) {
        match self {
            Fate::Forwarded { target, bytes } => unposted.not_sent(target, bytes),
            Fate::Delivered { target, bytes } => unposted.not_delivered(target, bytes),
            _ => {}
        }
        self.count_unsent(reason, counters);
    }

    /// Counts a packet that has left; the [queue](super::queue)'s `settle` has the two kinds that nearly all are of.
    #[cold]
    pub(super) fn count(self, counters: &WorkerCounters) {
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
    pub(in super::super) fn settles(self) -> bool {
        !matches!(self, Fate::Piece | Fate::Told { .. })
    }

    /// Counts a packet that does not leave and was in no queue.
    #[cold]
    pub(in super::super) fn count_unsent(self, reason: DropReason, counters: &WorkerCounters) {
        match self {
            Fate::Told { .. } => counters.resets_unsent.add(1),
            // No packet that came in: the last piece is.
            Fate::Piece => {}
            _ => counters.dropped(reason),
        }
    }
}
