//! What [`decide`](super::decide) is told, and what it answers.

use crate::datapath::counters::{DropReason, ResetTrigger, Suppressed};
use crate::datapath::forwarding::{Condition, Policy};
use crate::flow::{Direction, FlowState, Timers};
use crate::id::Millis;
use crate::wire::tcp::TcpFlags;

/// The facts of a packet that decide over it.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Whether it is TCP.
    pub tcp: bool,
    /// Its TCP flags; empty if it is not TCP.
    pub flags: TcpFlags,
    /// Which way it goes, in the terms of its flow's key.
    pub direction: Direction,
}

impl Facts {
    /// Whether it is an attempt to open a TCP connection.
    #[inline]
    pub fn opens(&self) -> bool {
        self.tcp
            && self.flags.contains(TcpFlags::SYN)
            && !self.flags.intersects(TcpFlags::ACK | TcpFlags::RST)
    }

    #[inline]
    pub(super) fn resets(&self) -> bool {
        self.flags.contains(TcpFlags::RST)
    }
}

/// What the flow's entry says.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts {
    /// The entry's state.
    pub state: FlowState,
    /// The last packet of either side.
    pub last_seen: Millis,
    /// Which directions have sent a FIN.
    pub fins: Ends,
    /// Which directions' resets have closed it, and were the last of theirs.
    pub resets: Ends,
    /// Whether it was made while no target was healthy (F-6), and no packet of it has found its target
    /// healthy since.
    pub fail_open: bool,
    /// Which of its ends are owed a reset.
    pub debts: Debts,
    /// The condition of its target.
    pub condition: Condition,
    /// For how many milliseconds its target has been unhealthy, if it is.
    pub unhealthy_for: u32,
}

/// Which directions of a flow have done something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The direction [`Direction::LowToHigh`].
    pub low: bool,
    /// The direction [`Direction::HighToLow`].
    pub high: bool,
}

impl Ends {
    /// Neither has.
    pub const NONE: Ends = Ends { low: false, high: false };

    /// Whether both have.
    #[inline]
    pub fn both(self) -> bool {
        self.low && self.high
    }

    /// The same, but for this direction, which has or has not.
    #[inline]
    #[must_use]
    pub fn with(self, sender: Direction, has: bool) -> Ends {
        match sender {
            Direction::LowToHigh => Ends { low: has, ..self },
            Direction::HighToLow => Ends { high: has, ..self },
        }
    }

    /// Whether this direction has.
    #[inline]
    pub fn of(self, sender: Direction) -> bool {
        match sender {
            Direction::LowToHigh => self.low,
            Direction::HighToLow => self.high,
        }
    }
}

/// Which ends of a flow are owed a reset: those that were not told that the gateway ended their
/// connection, or that were told without having asked. Each end by the direction that it
/// sends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debts {
    /// The sender of [`Direction::LowToHigh`].
    pub low: bool,
    /// The sender of [`Direction::HighToLow`].
    pub high: bool,
}

impl Debts {
    /// Nobody is owed anything.
    pub const NONE: Debts = Debts { low: false, high: false };
    /// Both ends are.
    pub const BOTH: Debts = Debts { low: true, high: true };

    /// Whether the sender of this direction is owed a reset.
    #[inline]
    pub fn to(self, sender: Direction) -> bool {
        match sender {
            Direction::LowToHigh => self.low,
            Direction::HighToLow => self.high,
        }
    }

    /// These, and one to the sender of this direction.
    #[inline]
    #[must_use]
    pub fn and(self, sender: Direction) -> Debts {
        match sender {
            Direction::LowToHigh => Debts { low: true, ..self },
            Direction::HighToLow => Debts { high: true, ..self },
        }
    }

    /// These, without what the sender of this direction was owed.
    #[inline]
    #[must_use]
    pub fn without(self, sender: Direction) -> Debts {
        match sender {
            Direction::LowToHigh => Debts { low: false, ..self },
            Direction::HighToLow => Debts { high: false, ..self },
        }
    }
}

/// What surrounds the flow.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The attributes.
    pub policy: &'a Policy,
    /// How long flows are kept.
    pub timers: &'a Timers,
    /// Whether some target that new flows may go to is healthy.
    pub any_healthy: bool,
    /// How many of a hundred of these targets are healthy.
    pub healthy_percent: u8,
    /// Whether `max_per_second` leaves room for a reset of a flow now.
    pub may_reset: bool,
    /// Whether `no_flow_max_per_second` leaves room for one of a packet that is of no live flow.
    pub may_reset_no_flow: bool,
    /// Why a connection may be known to nobody though it is alive, if one may.
    pub forgot: Option<Forgot>,
    /// The time.
    pub now: Millis,
}

/// Why a connection that is alive may be known to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgot {
    /// The table turned flows away lately (F-12).
    Overflow,
    /// A half-open flow has made room for another lately (F-12): its handshake may go on.
    Eviction,
    /// The daemon started lately and could not take over the table of the one before it (F-8).
    Restart,
}

/// What the entry is to become when its packet is sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its state from now on.
    pub state: FlowState,
    /// Its FINs from now on.
    pub fins: Ends,
    /// The resets that have closed it, from now on.
    pub resets: Ends,
    /// Its fail-open mark from now on.
    pub fail_open: bool,
    /// What it owes from now on.
    pub debts: Debts,
}

/// What becomes of the entry, if there is one, when its packet is not sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It goes.
    Forget,
    /// It stays as it is, but for what it owes.
    Keep(Debts),
    /// The flow ends here, and is remembered for what it owes.
    Owe(Debts),
}

impl Then {
    /// An ended flow is worth its entry as long as it owes something.
    pub(super) fn remember(debts: Debts, then: fn(Debts) -> Then) -> Then {
        if debts == Debts::NONE { Then::Forget } else { then(debts) }
    }
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it to its flow's target.
    Stay(Update),
    /// Choose a healthy target for its flow, then send it there (`rebalance`).
    Move(Update),
    /// Choose a target and make an entry, which owes this; the old entry, if there is one, goes.
    New(Debts),
    /// Choose a target and make an entry, as the packet's handshake had one that had to make room (F-12). The entry
    /// is a half-open one until the next packet, so that a packet which was forged takes no more room than a SYN.
    Rejoin,
    /// Answer it with a reset.
    Reset(ResetTrigger, Then),
    /// A reset was due and is held back: send it to its flow's target; if there is none, drop
    /// it and leave the entry as it is.
    Held(Suppressed, Option<Update>),
    /// Drop it.
    Drop(DropReason, Then),
}
