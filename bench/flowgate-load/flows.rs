//! One end's side of every flow: TCP as far as a load needs it. A connection opens by three segments and ends
//! by FINs; what is lost of these is sent again after a second, what is lost of the data is not, as it is to
//! be counted.

use super::frames::Seen;
use super::names::{Name, Way};

/// Where a flow is in its life, at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Closed,
    /// The client has sent a SYN, or the server a SYN-ACK.
    Opening,
    Established,
    /// The client has sent a FIN.
    Closing,
}

/// A flow at one end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Half {
    pub epoch: u32,
    pub state: State,
    /// The next sequence number to be sent.
    pub send: u32,
    /// The next one expected.
    pub expect: u32,
}

/// What a data segment's sequence number says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Next,
    /// Something before it is missing.
    AfterGap,
    /// It came after a later one.
    TooLate,
}

impl Half {
    /// Takes a segment that occupies so many sequence numbers.
    pub fn advance(&mut self, seq: u32, len: u32) -> Order {
        let ahead = seq.wrapping_sub(self.expect).cast_signed();
        if ahead < 0 {
            return Order::TooLate;
        }
        self.expect = seq.wrapping_add(len);
        if ahead == 0 { Order::Next } else { Order::AfterGap }
    }
}

/// How an arrived segment stands to the flow of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Of the flow that is there.
    Current,
    /// Of the next flow: the other end has begun it.
    Next,
    /// Of the flow before.
    Past,
    /// Of none that was ever opened.
    Never,
}

/// One end's flows.
#[derive(Debug)]
pub struct Flows {
    pub halves: Vec<Half>,
    /// How many are in each state.
    by_state: [u32; 4],
    /// Whose turn it is.
    cursor: usize,
}

/// Slots that one search for an established flow looks at: most are, once the flows are open.
const LOOKED_AT: usize = 16;

impl Flows {
    pub fn new(count: u32) -> Flows {
        let halves = vec![Half::default(); usize::try_from(count).unwrap_or(0)];
        Flows { halves, by_state: [count, 0, 0, 0], cursor: 0 }
    }

    /// How many are in a state.
    pub fn count(&self, state: State) -> u32 {
        self.by_state[state as usize]
    }

    /// The flow of an arrived segment, and how it stands to it.
    pub fn find(&mut self, seen: &Seen) -> (Standing, Option<&mut Half>) {
        let Some(half) = self.halves.get_mut(seen.name.slot as usize) else { return (Standing::Never, None) };
        let now = Name { slot: seen.name.slot, epoch: half.epoch };
        let standing = if seen.name == now {
            Standing::Current
        } else if seen.name == now.next() {
            Standing::Next
        } else if seen.name.next() == now {
            Standing::Past
        } else {
            Standing::Never
        };
        (standing, Some(half))
    }

    /// The next established flow, in turn; `None` if there is none nearby.
    pub fn next_established(&mut self) -> Option<u32> {
        for _ in 0..LOOKED_AT {
            let slot = self.cursor;
            self.cursor = if slot + 1 < self.halves.len() { slot + 1 } else { 0 };
            if self.halves.get(slot)?.state == State::Established {
                return u32::try_from(slot).ok();
            }
        }
        None
    }

    /// Moves a flow from one state to another, and counts.
    pub fn set_state(&mut self, slot: u32, state: State) {
        let Some(half) = self.halves.get_mut(slot as usize) else { return };
        self.by_state[half.state as usize] -= 1;
        self.by_state[state as usize] += 1;
        half.state = state;
    }

    /// The name of a slot's flow.
    pub fn name(&self, slot: u32) -> Name {
        Name { slot, epoch: self.halves.get(slot as usize).map_or(0, |half| half.epoch) }
    }

    /// Begins the flow `name` at the end that sends `way`.
    pub fn begin(&mut self, name: Name, way: Way) {
        self.set_state(name.slot, State::Opening);
        if let Some(half) = self.halves.get_mut(name.slot as usize) {
            half.epoch = name.epoch;
            half.send = name.first_seq(way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_told_from_sequence_numbers_across_the_wrap() {
        let mut half = Half { expect: u32::MAX - 5, ..Half::default() };
        assert_eq!(half.advance(u32::MAX - 5, 6), Order::Next);
        assert_eq!(half.advance(0, 6), Order::Next);
        assert_eq!(half.advance(12, 6), Order::AfterGap);
        assert_eq!(half.advance(6, 6), Order::TooLate);
        assert_eq!(half.advance(18, 6), Order::Next);
    }

    #[test]
    fn flows_take_turns_and_those_that_are_not_established_have_none() {
        let mut flows = Flows::new(5);
        for slot in [1, 4] {
            flows.set_state(slot, State::Established);
        }
        let turns: Vec<_> = (0..4).map(|_| flows.next_established()).collect();
        assert_eq!(turns, [Some(1), Some(4), Some(1), Some(4)]);
        assert_eq!(flows.count(State::Established), 2);
        flows.set_state(1, State::Closing);
        flows.set_state(4, State::Closed);
        assert_eq!((flows.count(State::Closed), flows.next_established()), (4, None));
    }
}
