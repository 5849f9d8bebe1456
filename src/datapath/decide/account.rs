//! What led to a verdict, step by step, for whoever asks (`flowgate explain`). Noted by the functions that
//! decide, as they decide, so that an explanation cannot say anything else than what is done. The data path
//! asks for none: it passes `()`, which notes nothing and of which the compiler leaves nothing.

use arrayvec::ArrayVec;

use crate::datapath::counters::Suppressed;
use crate::datapath::forwarding::Condition;
use crate::flow::Ended;

/// Steps that lead to a verdict, at most.
const STEPS: usize = 8;

/// A step on the way to a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The table has no entry of the packet's flow (F-8).
    NoFlow,
    /// The flow that the entry is of ended for want of packets and is not remembered (F-9).
    Over(Ended),
    /// Any packet but TCP's begins a flow (F-8).
    BeginsOther,
    /// A SYN begins a flow (F-8).
    BeginsTcp,
    /// A TCP packet of no flow is taken for the first of one (F-8).
    Adopted,
    /// The table turned flows away lately, so that this may be one of them (F-12).
    Overflowed,
    /// A half-open flow has made room lately, and this may be the next packet of its handshake (F-12).
    Evicted,
    /// It is TCP without SYN and of no flow, and the daemon could not take over its flow table lately: it begins one.
    Restarted,
    /// A reset of no flow is not answered.
    ResetOfNoFlow,
    /// A TCP packet of no flow is answered with a reset by `flowgate.tcp.unknown_flow` (F-8).
    UnknownFlowReset,
    /// The same by the reset on idle timeout.
    UnknownFlowResetOnIdle,
    /// A TCP packet of no flow is dropped (F-8).
    UnknownFlowDropped,
    /// The flow idled out and is remembered (F-10).
    IdledOut,
    /// Its SYN begins it anew (F-10, R-6).
    SynOnIdledOut,
    /// Anything else is answered with a reset.
    IdledOutReset,
    /// It is a reset itself, which is not answered.
    IdledOutByReset,
    /// The reset for it is off.
    IdledOutDropped,
    /// The gateway has reset the flow and remembers whom it still has to tell.
    Owing,
    /// A SYN begins a new flow all the same.
    SynOnOwing,
    /// This end was told already.
    WasTold,
    /// This end has ended the connection itself.
    EndedItself,
    /// This end is told now.
    IsTold,
    /// The flow is live.
    Live,
    /// It was closed, so a SYN begins a new one (F-9).
    SynOnClosed,
    /// A SYN of a flow whose target is in: the port used again, or a retransmission (F-14).
    SynStays,
    /// A SYN of a flow whose target takes no new flows begins a new one (F-14).
    SynReselects,
    /// Nobody is healthy, so a SYN has nowhere better to go (F-6).
    SynHasNowhere,
    /// The flow is new, and the packet is of the connection before it, whose end is told.
    OfTheOneBefore,
    /// The flow's target is out, and flows move.
    Moves(Condition),
    /// Flows move, but nobody is healthy (T-6).
    NobodyToMoveTo,
    /// The flow's target is in, or drains: its flows go on (F-5, T-3, T-5, T-7).
    TargetIsIn(Condition),
    /// The flow's target is out, and the resets for that are on.
    ResetDue(Condition),
    /// The flow's target is out, and the resets for that are off.
    ResetsOff(Condition),
    /// Resets are on, but moving flows wins over them.
    MovingWins,
    /// The flow was made while nobody was healthy, and still nobody is (T-6).
    Spared,
    /// A reset is due, but this is no TCP (T-2).
    NotTcp,
    /// A reset is due, but this is a reset, which goes on.
    IsReset,
    /// A guard holds the reset back.
    Guarded(Suppressed),
    /// A later fragment decides nothing: it follows its flow (M-4).
    LaterFragment,
}

/// Who is told of each step.
pub trait Account {
    /// A step was taken.
    fn note(&mut self, reason: Reason);
}

/// Nobody.
impl Account for () {
    #[inline(always)]
    fn note(&mut self, _: Reason) {}
}

/// The steps, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(ArrayVec<Reason, STEPS>);

impl Reasons {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Reason> {
        self.0.iter().copied()
    }
}

impl Account for Reasons {
    fn note(&mut self, reason: Reason) {
        // No verdict takes as many steps as there is room for.
        debug_assert!(!self.0.is_full());
        self.0.try_push(reason).ok();
    }
}
