//! Lists threaded through the entries: those that may make room for others, oldest first. Every operation touches at most three entries. Positions are entry numbers plus one, so that
//! zeroed memory is an empty list.
#![forbid(unsafe_code)]

use super::entry::Entry;
use super::memory::Mapped;

/// The ends of a list; all zero: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct List {
    first: u32,
    last: u32,
}

const NONE: u32 = 0;
const PREVIOUS: usize = 0;
const NEXT: usize = 1;

impl List {
    /// The oldest entry's number.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.first.checked_sub(1)
    }

    /// The number of the entry that is next after this one in its list.
    #[inline]
    pub(super) fn after(entries: &Mapped<Entry>, number: u32) -> Option<u32> {
        entries.at(number).links_now()[NEXT].checked_sub(1)
    }

    /// Adds an entry, which is in no list, as the newest.
    #[inline]
    pub(super) fn push_last(&mut self, entries: &mut Mapped<Entry>, number: u32) {
        let place = number + 1;
        let before = self.last;
        *entries.at_mut(number).links() = [before, NONE];
        match before.checked_sub(1) {
            Some(before) => entries.at_mut(before).links()[NEXT] = place,
            None => self.first = place,
        }
        self.last = place;
    }

    /// Takes out an entry that is in this list.
    #[inline]
    pub(super) fn remove(&mut self, entries: &mut Mapped<Entry>, number: u32) {
        let [before, after] = std::mem::take(entries.at_mut(number).links());
        match before.checked_sub(1) {
            Some(before) => entries.at_mut(before).links()[NEXT] = after,
            None => self.first = after,
        }
        match after.checked_sub(1) {
            Some(after) => entries.at_mut(after).links()[PREVIOUS] = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
impl List {
    /// How many entries it has, walked, with every backward link checked.
    pub(super) fn len(&self, entries: &Mapped<Entry>) -> u32 {
        let (mut count, mut before, mut at) = (0, NONE, self.first);
        while let Some(number) = at.checked_sub(1) {
            let links = entries.at(number).links_now();
            assert_eq!(links[PREVIOUS], before);
            (count, before, at) = (count + 1, at, links[NEXT]);
        }
        assert_eq!(self.last, before);
        count
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
        fn behaves_as_a_queue_with_removal_from_the_middle(
            ops in proptest::collection::vec((0..16_u32, any::<bool>()), 0..200),
        ) {
            let mut entries = Carver::map(16 * 64, Pages::Small).unwrap().carve::<Entry>(16).unwrap();
            let mut list = List::default();
            let mut model = VecDeque::new();
            for (number, pop) in ops {
                if pop && let Some(first) = list.first() {
                    list.remove(&mut entries, first);
                    prop_assert_eq!(model.pop_front(), Some(first));
                } else if let Some(at) = model.iter().position(|n| *n == number) {
                    list.remove(&mut entries, number);
                    model.remove(at);
                } else {
                    list.push_last(&mut entries, number);
                    model.push_back(number);
                }
                prop_assert_eq!(list.first(), model.front().copied());
                prop_assert_eq!(list.last.checked_sub(1), model.back().copied());
                prop_assert_eq!(list.len(&entries) as usize, model.len());
            }
            while let Some(first) = list.first() {
                list.remove(&mut entries, first);
                prop_assert_eq!(model.pop_front(), Some(first));
            }
            prop_assert!(model.is_empty());
            prop_assert_eq!(list, List::default());
        }
    }
}
