//! What stands at the head of a table's memory: what it is, so that nobody takes it for another; when its worker was last
//! at work; and all that changes beside index, entries and rings.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::flow::entry::{Entry, STATES};
use crate::flow::free::Ends;
use crate::flow::index::Bucket;
use crate::flow::kept_links::KeptLink;
use crate::flow::queue;
use crate::id::Millis;

/// "flowgate" in ASCII.
const MAGIC: u64 = u64::from_be_bytes(*b"flowgate");

/// Changes with anything in the layout of header, index, entries or rings, and with what any of them means. Whoever
/// changes it loses the flows of those who upgrade, but for those that are adopted.
pub const LAYOUT: u32 = 7;

/// Says what a table is, in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Identity {
    pub(super) magic: u64,
    pub(super) layout: u32,
    /// Bytes of an entry, a bucket, the header, and a kept header: of builds of one layout they are the same.
    pub(super) sizes: [u16; 4],
    pub(super) capacity: u32,
    pub(super) buckets: u32,
    pub(super) worker: u16,
    pub(super) workers: u16,
    /// How cookies are laid out.
    pub(super) cookie_bits: u32,
    /// Of whose making the node's tables are: all of one making have the same number.
    pub(super) making: u64,
    pub(super) seed_id: u64,
    pub(super) sum: u64,
}

/// Why a table is not what was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotThisTable {
    /// It is none, or was never made to the end.
    #[error("it is no flow table, or one that was not made to the end")]
    NoTable,
    /// Its header is damaged.
    #[error("the header of a flow table is damaged")]
    Damaged,
    /// Another version made it.
    #[error("a flow table is of layout {found}, and this version's is {LAYOUT}")]
    Layout {
        /// What it is of.
        found: u32,
    },
    /// It is of another node's configuration, or of another making.
    #[error("a flow table's {what} is {found}, and {expected} was expected")]
    Other {
        /// What differs.
        what: &'static str,
        /// What it is.
        found: u64,
        /// What it should be.
        expected: u64,
    },
}

/// One of an identity's numbers.
type Of = fn(&Identity) -> u64;

impl Identity {
    /// What this build makes, but for what its fields say.
    pub(super) fn blank() -> Identity {
        #[expect(clippy::cast_possible_truncation, reason = "none is as large as a page")]
        let sizes = [size_of::<Entry>(), size_of::<Bucket>(), size_of::<Header>(), size_of::<KeptLink>()]
            .map(|size| size as u16);
        Identity {
            magic: MAGIC,
            layout: LAYOUT,
            sizes,
            capacity: 0,
            buckets: 0,
            worker: 0,
            workers: 0,
            cookie_bits: 0,
            making: 0,
            seed_id: 0,
            sum: 0,
        }
    }

    pub(super) fn sealed(self) -> Identity {
        Identity { sum: self.checksum(), ..self }
    }

    fn checksum(&self) -> u64 {
        let [a, b, c, d] = self.sizes.map(u64::from);
        let words = [
            self.magic,
            self.layout.into(),
            a << 48 | b << 32 | c << 16 | d,
            u64::from(self.capacity) << 32 | u64::from(self.buckets),
            u64::from(self.worker) << 32 | u64::from(self.workers),
            self.cookie_bits.into(),
            self.making,
            self.seed_id,
        ];
        words.into_iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
            let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ mixed >> 29
        })
    }

    /// Whether this is what was looked for.
    pub(super) fn must_be(&self, wanted: &Identity) -> Result<(), NotThisTable> {
        if self.magic != MAGIC {
            return Err(NotThisTable::NoTable);
        }
        // The version first: another's checksum may be another.
        if self.layout != LAYOUT || self.sizes != wanted.sizes {
            return Err(NotThisTable::Layout { found: self.layout });
        }
        if self.sum != self.checksum() {
            return Err(NotThisTable::Damaged);
        }
        let numbers: [(&'static str, Of); 7] = [
            ("capacity", |identity| identity.capacity.into()),
            ("number of buckets", |identity| identity.buckets.into()),
            ("worker", |identity| identity.worker.into()),
            ("number of workers", |identity| identity.workers.into()),
            ("cookie layout", |identity| identity.cookie_bits.into()),
            ("making", |identity| identity.making),
            ("seed", |identity| identity.seed_id),
        ];
        for (what, of) in numbers {
            let (found, expected) = (of(self), of(wanted));
            if found != expected {
                return Err(NotThisTable::Other { what, found, expected });
            }
        }
        Ok(())
    }
}

/// When a table's worker was at work, in its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Beat {
    /// The last round of its loop.
    pub round: Millis,
    /// The last round that had a packet.
    pub packet: Millis,
    /// When it last turned a flow away, if `overflowed` is not 0.
    pub overflow: Millis,
    /// See `overflow`.
    pub overflowed: u32,
    /// Milliseconds in all for which it was stopped, with its process or its machine. They count for no flow: its own time is
    /// behind the clock by as much.
    pub paused: u32,
}

/// All that is not index, entries, rings and kept headers.
#[repr(C, align(64))]
pub(in crate::flow) struct Header {
    pub(super) identity: Identity,
    /// Not 0 while whoever takes the table over makes its index anew: what the index says is nothing then.
    pub(super) rebuilding: u32,
    pub(super) changing: Changing,
}

/// What changes with packets.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Changing {
    pub(super) free: Ends,
    pub(super) half_open: queue::Ends,
    pub(super) ended: queue::Ends,
    /// Entries below this number have been used; those from it on are free and not in the ring.
    pub(super) fresh: u32,
    pub(super) hand: u32,
    pub(super) counts: [u32; STATES],
    pub(super) beat: Beat,
}
