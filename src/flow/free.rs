//! The entries that have been used and are free, in the order in which they became free: a ring of their
//! numbers, with room for all. A list threaded through the entries would take no room, but each step along
//! it waits for an entry that has rested long and is in no cache; the ring is read front to back, so
//! that the entries of the next new flows can be asked for long before.
#![forbid(unsafe_code)]

use super::memory::Mapped;

/// Where the ring's first number is and how many it holds; all zero: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Ends {
    first: u32,
    len: u32,
}

/// See the module.
pub(super) struct FreeRing {
    numbers: Mapped<u32>,
}

impl FreeRing {
    /// A ring in memory of its own.
    pub(super) fn new(numbers: Mapped<u32>) -> FreeRing {
        FreeRing { numbers }
    }

    /// The number that is taken after `ahead` others.
    #[inline]
    pub(super) fn peek(&self, ends: Ends, ahead: u32) -> Option<u32> {
        (ahead < ends.len).then(|| *self.numbers.at(self.place(ends, ahead)))
    }

    /// Takes the number that has been here longest.
    #[inline]
    pub(super) fn take(&self, ends: &mut Ends) -> Option<u32> {
        let number = self.peek(*ends, 0)?;
        *ends = Ends { first: self.place(*ends, 1), len: ends.len - 1 };
        Some(number)
    }

    /// The numbers in it, those first that have been here longest; any numbers, if it was left half written.
    pub(super) fn in_order(&self, ends: Ends) -> Vec<u32> {
        let size = self.numbers.len();
        if ends.first >= size || ends.len > size {
            return Vec::new();
        }
        (0..ends.len).map(|ahead| *self.numbers.at(self.place(ends, ahead))).collect()
    }

    /// Adds a number, which is not in the ring.
    #[inline]
    pub(super) fn give(&mut self, ends: &mut Ends, number: u32) {
        // There are no more numbers than places.
        if ends.len < self.numbers.len() {
            *self.numbers.at_mut(self.place(*ends, ends.len)) = number;
            ends.len += 1;
        }
    }

    /// `ahead` is at most the ring's size, which is below 2^31.
    #[inline]
    fn place(&self, ends: Ends, ahead: u32) -> u32 {
        let (place, size) = (ends.first + ahead, self.numbers.len());
        if place < size { place } else { place - size }
    }
}

#[cfg(test)]
impl FreeRing {
    /// Has every place say the same.
    pub(super) fn spoil(&mut self, number: u32) {
        (0..self.numbers.len()).for_each(|place| *self.numbers.at_mut(place) = number);
    }
}

#[cfg(test)]
impl Ends {
    /// Any numbers.
    pub(super) fn torn(first: u32, len: u32) -> Ends {
        Ends { first, len }
    }

    /// How many numbers the ring holds.
    pub(super) fn len(self) -> u32 {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::super::memory::Carver;
    use super::super::pages::Pages;
    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_queue(size in 1..10_u32, ops in proptest::collection::vec(any::<bool>(), 0..100)) {
            let mut ring = FreeRing::new(Carver::map(64, Pages::Small).unwrap().carve(size).unwrap());
            let (mut ends, mut model) = (Ends::default(), VecDeque::new());
            for (number, give) in (100_u32..).zip(ops) {
                if give {
                    ring.give(&mut ends, number);
                    if model.len() < size as usize {
                        model.push_back(number);
                    }
                } else {
                    prop_assert_eq!(ring.take(&mut ends), model.pop_front());
                }
                let seen: Vec<_> = (0..size).map_while(|ahead| ring.peek(ends, ahead)).collect();
                prop_assert_eq!(seen, Vec::from(model.clone()));
                prop_assert_eq!(ring.peek(ends, size), None);
                prop_assert_eq!(ends.len() as usize, model.len());
            }
        }
    }
}
