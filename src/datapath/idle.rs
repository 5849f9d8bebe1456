//! What a worker does when nothing arrives.
//!
//! It polls, which takes a whole core; or, where it is told to, it rests. It rests not before some rounds
//! have been empty, and then a moment only; from one rest to the next twice as long, up to the longest that the
//! operator allows. The first packet brings it back to polling at once. So a busy worker never sleeps,
//! the gaps of light traffic cost little, and a packet that finds it asleep waits for one rest at most.

use std::time::Duration;

/// Rounds without a packet after which a worker that may rest does: some microseconds.
const EMPTY_ROUNDS_BEFORE_REST: u32 = 64;

/// The first rest. The kernel takes longer than this to put a thread to sleep and wake it.
const FIRST_REST: Duration = Duration::from_micros(2);

/// What a worker does when nothing arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// It polls on: the least latency, a whole core.
    Poll,
    /// It rests after some empty rounds, ever longer, but no longer than this.
    Sleep(Duration),
}

/// How idle a worker is.
#[derive(Debug)]
pub(super) struct Rest {
    idle: Idle,
    empty_rounds: u32,
    next: Duration,
}

impl Rest {
    pub(super) fn new(idle: Idle) -> Rest {
        Rest { idle, empty_rounds: 0, next: FIRST_REST }
    }

    /// A round had something to do.
    #[inline]
    pub(super) fn busy(&mut self) {
        self.empty_rounds = 0;
    }

    /// A round had nothing to do: how long to rest now, if at all.
    #[inline]
    pub(super) fn empty(&mut self) -> Option<Duration> {
        let Idle::Sleep(longest) = self.idle else { return None };
        if self.empty_rounds < EMPTY_ROUNDS_BEFORE_REST {
            self.empty_rounds += 1;
            self.next = FIRST_REST;
            return None;
        }
        let rest = self.next.min(longest);
        self.next = rest.saturating_mul(2);
        Some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_micros(50);

    fn rests(rest: &mut Rest, rounds: u32) -> Vec<u128> {
        (0..rounds).filter_map(|_| rest.empty()).map(|rest| rest.as_micros()).collect()
    }

    #[test]
    fn rests_grow_up_to_the_longest_and_a_packet_ends_them_at_once() {
        let mut rest = Rest::new(Idle::Sleep(LONGEST));
        assert_eq!(rests(&mut rest, EMPTY_ROUNDS_BEFORE_REST), []);
        assert_eq!(rests(&mut rest, 7), [2, 4, 8, 16, 32, 50, 50]);
        rest.busy();
        assert_eq!(rests(&mut rest, EMPTY_ROUNDS_BEFORE_REST), [], "it polls again");
        assert_eq!(rests(&mut rest, 2), [2, 4], "and begins anew");
        let mut short = Rest::new(Idle::Sleep(Duration::from_micros(1)));
        assert_eq!(rests(&mut short, EMPTY_ROUNDS_BEFORE_REST + 2), [1, 1]);
    }

    #[test]
    fn one_that_is_busy_now_and_then_or_is_to_poll_never_rests() {
        let mut rest = Rest::new(Idle::Sleep(LONGEST));
        for _ in 0..1000 {
            assert_eq!(rests(&mut rest, EMPTY_ROUNDS_BEFORE_REST), []);
            rest.busy();
        }
        assert_eq!(rests(&mut Rest::new(Idle::Poll), 10_000), []);
    }
}
