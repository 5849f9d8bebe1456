//! When a flow ends for want of packets (F-9, F-10). Asked by the table's ageing hand for the entries
//! it passes, and by `datapath::decide` for the entry of the packet in its hand, so that a flow ends
//! on time even if the hand has not come by yet.
#![forbid(unsafe_code)]

use super::entry::FlowState;
use crate::id::Millis;

/// How long a silent flow is kept, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Established TCP.
    pub tcp_idle_ms: u32,
    /// Every other protocol.
    pub other_idle_ms: u32,
    /// TCP after both FINs or a RST (F-9).
    pub closed_ms: u32,
    /// TCP of which only SYNs from one side were seen (F-9).
    pub half_open_ms: u32,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { tcp_idle_ms: 350_000, other_idle_ms: 120_000, closed_ms: 10_000, half_open_ms: 60_000 }
    }
}

/// Why a flow is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Established TCP was silent for its idle time. It is remembered as [`FlowState::Expired`].
    TcpIdle,
    /// Another protocol was silent for its idle time.
    OtherIdle,
    /// TCP was closed, and the time for stragglers is over.
    Closed,
    /// TCP was never answered.
    HalfOpen,
    /// TCP was reset at one end, and the other end was silent ever since.
    Owing,
}

/// How a flow last seen at `last_seen` has ended by `now`, or `None` if it goes on.
///
/// The time itself belongs to silence: a timer of 350 s ends a flow whose last packet is exactly
/// 350 s old. An expired flow ends no further: it is remembered without regard to time, so that the
/// clock may wrap meanwhile.
#[inline]
#[must_use]
pub fn expiry(state: FlowState, last_seen: Millis, now: Millis, timers: &Timers) -> Option<Ended> {
    let (limit, ended) = match state {
        FlowState::Free | FlowState::Expired => return None,
        FlowState::HalfOpen => (timers.half_open_ms, Ended::HalfOpen),
        FlowState::Established => (timers.tcp_idle_ms, Ended::TcpIdle),
        FlowState::Closed => (timers.closed_ms, Ended::Closed),
        FlowState::Other => (timers.other_idle_ms, Ended::OtherIdle),
        FlowState::Owing => (timers.tcp_idle_ms, Ended::Owing),
    };
    (now.since(last_seen) >= limit).then_some(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_9_each_state_ends_by_its_own_timer_and_not_a_millisecond_before() {
        let timers = Timers { tcp_idle_ms: 400, other_idle_ms: 300, closed_ms: 100, half_open_ms: 200 };
        let cases = [
            (FlowState::Established, 400, Ended::TcpIdle),
            (FlowState::Other, 300, Ended::OtherIdle),
            (FlowState::Closed, 100, Ended::Closed),
            (FlowState::HalfOpen, 200, Ended::HalfOpen),
            (FlowState::Owing, 400, Ended::Owing),
        ];
        for start in [Millis(0), Millis(u32::MAX - 50)] {
            for (state, limit, ended) in cases {
                assert_eq!(expiry(state, start, start.plus(limit - 1), &timers), None, "{state:?}");
                assert_eq!(expiry(state, start, start.plus(limit), &timers), Some(ended), "{state:?}");
            }
        }
    }

    #[test]
    fn f_10_an_expired_flow_has_no_timer() {
        let now = Millis(u32::MAX / 2);
        assert_eq!(expiry(FlowState::Expired, Millis(0), now, &Timers::default()), None);
        assert_eq!(expiry(FlowState::Free, Millis(0), now, &Timers::default()), None);
    }

    // F-9
    #[test]
    fn a_packet_stamped_after_now_does_not_end_its_flow() {
        let timers = Timers { closed_ms: 1, ..Timers::default() };
        assert_eq!(expiry(FlowState::Closed, Millis(5), Millis(3), &timers), None);
    }

    #[test]
    fn defaults_are_the_documented_ones() {
        let t = Timers::default();
        assert_eq!((t.tcp_idle_ms, t.other_idle_ms), (350_000, 120_000), "A-7, A-10");
        assert_eq!((t.closed_ms, t.half_open_ms), (10_000, 60_000), "F-9");
    }
}
