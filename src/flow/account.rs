//! What is counted of each flow while flow logs are on: a cache line beside every entry of the table, by the entry's
//! number. The table knows nothing of it. The memory is mapped and touched by whoever switches flow logs on, never by
//! a worker.
#![forbid(unsafe_code)]

use std::io;

use super::memory::{Carver, Mapped};
use super::pages::Pages;
use super::table::EntryId;
use crate::id::Millis;

/// What was counted of one flow since its last record; the pairs are by [`Direction::index`](super::Direction::index).
/// All zeros: nothing was counted, of a flow that was there before counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Account {
    /// Bytes of the packets that were sent on to the target.
    pub bytes_out: [u64; 2],
    /// Bytes of those that the target returned.
    pub bytes_back: [u64; 2],
    /// Packets that were sent on to the target.
    pub packets_out: [u32; 2],
    /// Packets that the target returned.
    pub packets_back: [u32; 2],
    /// When the flow began. Means nothing where the flow is not [`whole`](Account::is_whole).
    pub began: Millis,
    /// When its last record was made, or counting began. Means nothing before either.
    pub told: Millis,
    /// Not 0: it has been counted since its first packet.
    whole: u8,
    /// Not 0: `told` means something.
    has_been_told: u8,
    unused: [u8; 6],
}

const _: () = assert!(size_of::<Account>() == 64);

impl Account {
    /// That of a flow which begins now.
    #[must_use]
    pub fn begun(now: Millis) -> Account {
        Account { began: now, told: now, whole: 1, has_been_told: 1, ..Account::default() }
    }

    /// Whether all of the flow was counted, from its first packet on.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.whole != 0
    }

    /// When its last record was made, or counting of it began.
    #[must_use]
    pub fn told(&self) -> Option<Millis> {
        (self.has_been_told != 0).then_some(self.told)
    }

    /// Whether anything was counted since the last record.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.packets_out == [0; 2] && self.packets_back == [0; 2]
    }

    /// Whether one of its numbers will soon be too large for its place.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.packets_out.iter().chain(&self.packets_back).any(|packets| *packets > u32::MAX / 2)
    }

    /// Begins to count anew, of a flow that goes on.
    pub fn tell(&mut self, now: Millis) {
        *self = Account {
            began: self.began,
            whole: self.whole,
            told: now,
            has_been_told: 1,
            ..Account::default()
        };
    }
}

/// The accounts of one table's flows.
pub struct Accounts(Mapped<Account>);

impl Accounts {
    /// Maps and touches them for a table of this capacity: the call that takes long. 64 bytes each.
    ///
    /// # Errors
    /// If memory is short.
    pub fn new(capacity: u32, pages: Pages) -> io::Result<Accounts> {
        let bytes = usize::try_from(u64::from(capacity) * size_of::<Account>() as u64);
        let mut carver = Carver::map(bytes.unwrap_or(usize::MAX), pages)?;
        let accounts = carver.carve(capacity.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Accounts(accounts))
    }

    /// The account of the flow in this entry.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, id: EntryId) -> &Account {
        self.0.at(id.number())
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn of_mut(&mut self, id: EntryId) -> &mut Account {
        self.0.at_mut(id.number())
    }

    /// Asks for its line.
    #[inline(always)]
    pub fn prefetch(&self, id: EntryId) {
        self.0.prefetch(id.number());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_that_was_there_before_is_not_whole_and_one_that_begins_is() {
        let mut account = Account::default();
        assert!(!account.is_whole() && account.is_idle());
        assert_eq!(account.told(), None);
        account.packets_back[1] = 1;
        assert!(!account.is_idle());
        account.tell(Millis(7));
        assert!(!account.is_whole() && account.is_idle());
        assert_eq!(account.told(), Some(Millis(7)));

        let mut begun = Account::begun(Millis(5));
        begun.packets_out[0] = u32::MAX / 2 + 1;
        assert!(begun.is_whole() && begun.is_nearly_full());
        begun.tell(Millis(9));
        assert!(begun.is_whole() && !begun.is_nearly_full());
        assert_eq!((begun.began, begun.told()), (Millis(5), Some(Millis(9))));
    }
}
