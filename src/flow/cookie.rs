//! The flow cookie (F-11, F-12, W-2): 32 bits that an appliance gives back with every packet and that
//! lead to the flow's entry without a look-up.
//!
//! ```text
//! bit  31   30 …                                                    0
//!      0    worker | generation            | entry number               a flow in the table
//!      1    direction | worker | link (16) | check                      a packet without state
//! ```
//!
//! Widths follow from the number of workers and the table's capacity and are the same on all workers of
//! a node. The generation changes each time the entry is given to a flow, so that the cookie of a flow
//! that is gone is not the cookie of the next one there.
#![forbid(unsafe_code)]

use thiserror::Error;

use super::entry::LinkId;
use super::key::Direction;
use crate::id::WorkerId;

/// A flow's cookie as it is on the wire (in host order).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Cookie(pub u32);

const STATELESS: u32 = 1 << 31;
/// Bits below the one that says which kind it is.
const BITS: u32 = 31;
const LINK_BITS: u32 = 16;
/// An entry keeps its generation in 16 bits.
const MAX_GENERATION_BITS: u32 = 16;
/// With fewer, an appliance that holds a packet for a while could give it back to a later flow.
const MIN_GENERATION_BITS: u32 = 4;

/// Where each field of a cookie is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieLayout {
    worker_bits: u32,
    generation_bits: u32,
    entry_bits: u32,
}

/// One table's own cookies, told from all others by as little as that takes.
#[derive(Clone, Copy, Debug)]
pub struct OwnCookies {
    entry_mask: u32,
    entry_bits: u32,
    /// What stands above the entry number in the worker's cookies, but for the generation.
    head: u32,
}

impl OwnCookies {
    /// The cookie of an entry, whose generation has its width as whatever was written into one has.
    #[inline(always)]
    pub(super) fn cookie(&self, generation: u16, entry: u32) -> Cookie {
        Cookie((self.head | u32::from(generation)) << self.entry_bits | entry)
    }

    /// The entry number, if it is a cookie of ours.
    #[inline(always)]
    pub(super) fn entry(&self, Cookie(bits): Cookie) -> u32 {
        bits & self.entry_mask
    }

    /// Whether it is ours and of this generation: not if it is without state, nor if it has bits above the
    /// worker's.
    #[inline(always)]
    pub(super) fn is_of(&self, Cookie(bits): Cookie, generation: u16) -> bool {
        bits >> self.entry_bits == self.head | u32::from(generation)
    }
}

/// What a cookie says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodedCookie {
    /// A flow in a worker's table.
    Flow {
        /// Whose table.
        worker: WorkerId,
        /// Which life of the entry.
        generation: u16,
        /// Which entry.
        entry: u32,
    },
    /// A packet that was sent without state (F-12).
    Stateless {
        /// The worker that sent it.
        worker: WorkerId,
        /// Which way along its flow the packet went.
        direction: Direction,
        /// The link-layer header it came with.
        link: LinkId,
        /// To be compared with [`CookieLayout::check`] of the returned packet's flow.
        check: u16,
    },
}

impl Cookie {
    /// Whether it is that of a packet which was sent without state (F-12).
    #[must_use]
    pub fn is_stateless(self) -> bool {
        self.0 & STATELESS != 0
    }
}

/// Too many workers and entries for the cookie's 31 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{workers} workers with {capacity} flows each need {needed} bits of the flow cookie, which has 31: \
     use fewer workers or smaller tables"
)]
pub struct CookieSpace {
    workers: u32,
    capacity: u32,
    needed: u32,
}

impl CookieLayout {
    /// The layout for `workers` tables of `capacity` entries.
    ///
    /// # Errors
    /// If fewer than four bits would be left for the generation: 16 workers with 2^23 flows each are
    /// the limit, or any other split of 2^27 flows.
    pub fn new(workers: u32, capacity: u32) -> Result<CookieLayout, CookieSpace> {
        let (worker_bits, entry_bits) = (bits_for(workers), bits_for(capacity));
        let needed = worker_bits + entry_bits + MIN_GENERATION_BITS;
        if needed > BITS || worker_bits > u8::BITS {
            return Err(CookieSpace { workers, capacity, needed });
        }
        let generation_bits = (BITS - worker_bits - entry_bits).min(MAX_GENERATION_BITS);
        Ok(CookieLayout { worker_bits, generation_bits, entry_bits })
    }

    /// The cookie of an entry of a worker's table. Fields are cut to their widths.
    #[inline]
    #[must_use]
    pub fn flow(&self, worker: WorkerId, generation: u16, entry: u32) -> Cookie {
        let worker = u32::from(worker.0) & mask(self.worker_bits);
        let generation = u32::from(generation) & mask(self.generation_bits);
        let entry = entry & mask(self.entry_bits);
        Cookie((worker << self.generation_bits | generation) << self.entry_bits | entry)
    }

    /// The cookies of one worker's flows.
    pub(super) fn own(&self, worker: WorkerId) -> OwnCookies {
        let (entry_mask, entry_bits) = (mask(self.entry_bits), self.entry_bits);
        OwnCookies { entry_mask, entry_bits, head: u32::from(worker.0) << self.generation_bits }
    }

    /// The cookie of a packet that is sent without state (F-12): it says by which worker, which way,
    /// with which link-layer header, and carries [`check`](CookieLayout::check) of the flow's hash.
    #[inline]
    #[must_use]
    pub fn stateless(&self, worker: WorkerId, direction: Direction, link: LinkId, flow_hash: u64) -> Cookie {
        let worker = u32::from(worker.0) & mask(self.worker_bits);
        let head = u32::from(direction == Direction::HighToLow) << self.worker_bits | worker;
        let body = head << LINK_BITS | u32::from(link.0);
        Cookie(STATELESS | body << self.check_bits() | u32::from(self.check(flow_hash)))
    }

    /// What a stateless cookie carries of its flow's hash: 6 to 14 bits, so that an answer of another
    /// flow, or a cookie from before a restart, is mostly seen.
    #[inline]
    #[must_use]
    pub fn check(&self, flow_hash: u64) -> u16 {
        cut16(flow_hash & u64::from(mask(self.check_bits())))
    }

    /// What a cookie says. Any 32 bits decode; nothing says yet that such a worker or entry exists.
    #[inline]
    #[must_use]
    pub fn decode(&self, cookie: Cookie) -> DecodedCookie {
        let Cookie(bits) = cookie;
        if bits & STATELESS == 0 {
            let entry = bits & mask(self.entry_bits);
            let rest = bits >> self.entry_bits;
            let generation = cut16(u64::from(rest & mask(self.generation_bits)));
            // Bits above the worker's width are kept, so that a cookie with stray bits there names no
            // worker rather than one of ours.
            let worker = worker_id(rest >> self.generation_bits);
            DecodedCookie::Flow { worker, generation, entry }
        } else {
            let check = cut16(u64::from(bits & mask(self.check_bits())));
            let rest = bits >> self.check_bits();
            let link = LinkId(cut16(u64::from(rest & mask(LINK_BITS))));
            let rest = rest >> LINK_BITS;
            let worker = worker_id(rest & mask(self.worker_bits));
            let high_to_low = rest >> self.worker_bits & 1 == 1;
            let direction = if high_to_low { Direction::HighToLow } else { Direction::LowToHigh };
            DecodedCookie::Stateless { worker, direction, link, check }
        }
    }

    /// The worker that a cookie names.
    #[inline]
    #[must_use]
    pub fn owner(&self, cookie: Cookie) -> WorkerId {
        match self.decode(cookie) {
            DecodedCookie::Flow { worker, .. } | DecodedCookie::Stateless { worker, .. } => worker,
        }
    }

    /// All that decides how cookies look, in one number.
    pub(super) fn bits(&self) -> u32 {
        self.worker_bits << 16 | self.generation_bits << 8 | self.entry_bits
    }

    /// A generation of any 16 bits, within its width.
    pub(super) fn cut_generation(&self, generation: u16) -> u16 {
        cut16(u64::from(u32::from(generation) & mask(self.generation_bits)))
    }

    /// The generation after this one, within its width.
    #[inline]
    pub(super) fn next_generation(&self, generation: u16) -> u16 {
        cut16(u64::from((u32::from(generation) + 1) & mask(self.generation_bits)))
    }

    #[inline]
    fn check_bits(&self) -> u32 {
        BITS - 1 - self.worker_bits - LINK_BITS
    }
}

/// Bits that count `n` things; none for one.
fn bits_for(n: u32) -> u32 {
    u32::BITS - n.saturating_sub(1).leading_zeros()
}

/// `bits` ones; `bits` is less than 32.
#[inline]
fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the caller has masked it to at most 16 bits")]
fn cut16(x: u64) -> u16 {
    x as u16
}

/// A number that is no worker's becomes 255, which is one only where all eight bits are in use.
#[inline]
fn worker_id(number: u32) -> WorkerId {
    WorkerId(u8::try_from(number).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layouts() -> impl Strategy<Value = (u32, u32, CookieLayout)> {
        (1..=256_u32, 1..=1_u32 << 23).prop_filter_map("fits", |(workers, capacity)| {
            CookieLayout::new(workers, capacity).ok().map(|layout| (workers, capacity, layout))
        })
    }

    proptest! {
        #[test]
        fn f_11_a_flow_cookie_gives_back_what_was_put_in(
            (workers, capacity, layout) in layouts(), worker: u8, generation: u16, entry: u32,
        ) {
            let worker = WorkerId(u8::try_from(u32::from(worker) % workers).unwrap());
            let entry = entry % capacity;
            let generation = layout.next_generation(generation);
            let cookie = layout.flow(worker, generation, entry);
            prop_assert_eq!(layout.decode(cookie), DecodedCookie::Flow { worker, generation, entry });
        }

        #[test]
        fn f_12_a_stateless_cookie_gives_back_what_was_put_in(
            (workers, _, layout) in layouts(), worker: u8, high: bool, link: u16, hash: u64,
        ) {
            let worker = WorkerId(u8::try_from(u32::from(worker) % workers).unwrap());
            let direction = if high { Direction::HighToLow } else { Direction::LowToHigh };
            let cookie = layout.stateless(worker, direction, LinkId(link), hash);
            let expected = DecodedCookie::Stateless {
                worker, direction, link: LinkId(link), check: layout.check(hash),
            };
            prop_assert_eq!(layout.decode(cookie), expected);
        }

        /// No two meanings share a cookie: what decodes to the same is the same 32 bits.
        // F-11, F-12
        #[test]
        fn any_cookie_decodes_and_encodes_back_to_itself(bits: u32) {
            let layout = CookieLayout::new(4, 1 << 20).unwrap();
            let again = match layout.decode(Cookie(bits)) {
                DecodedCookie::Flow { worker, generation, entry } if worker.0 < 4 => {
                    layout.flow(worker, generation, entry)
                }
                // Our widest layout for four workers uses 16 + 20 of the 31 bits or all of them.
                DecodedCookie::Flow { .. } => Cookie(bits),
                DecodedCookie::Stateless { worker, direction, link, check } => {
                    layout.stateless(worker, direction, link, u64::from(check))
                }
            };
            prop_assert_eq!(again, Cookie(bits));
        }
    }

    // F-11
    #[test]
    fn every_generation_of_an_entry_has_its_own_cookie() {
        let layout = CookieLayout::new(16, 1 << 23).unwrap();
        let mut generation = 0;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..16 {
            generation = layout.next_generation(generation);
            assert!(seen.insert(layout.flow(WorkerId(3), generation, 77)));
        }
        generation = layout.next_generation(generation);
        assert!(!seen.insert(layout.flow(WorkerId(3), generation, 77)), "four bits wrap after 16");
    }

    #[test]
    fn one_worker_spends_no_bits_on_itself() {
        let layout = CookieLayout::new(1, 1 << 23).unwrap();
        assert_eq!(layout, CookieLayout { worker_bits: 0, generation_bits: 8, entry_bits: 23 });
        assert_eq!(layout.check_bits(), 14);
    }

    // F-11
    #[test]
    fn too_many_flows_are_refused_with_the_numbers() {
        assert!(CookieLayout::new(16, 1 << 23).is_ok());
        let error = CookieLayout::new(17, 1 << 23).unwrap_err();
        assert!(error.to_string().starts_with("17 workers with 8388608 flows each need 32 bits"));
        assert!(CookieLayout::new(300, 8).is_err(), "a worker's number has eight bits");
    }

    // W-5
    #[test]
    fn a_cookie_with_bits_above_the_worker_names_no_worker_of_ours() {
        let layout = CookieLayout::new(1, 1024).unwrap();
        let flow = layout.flow(WorkerId(0), 5, 9);
        let stray = Cookie(flow.0 | 1 << 30);
        assert!(matches!(layout.decode(stray), DecodedCookie::Flow { worker, .. } if worker != WorkerId(0)));
    }
}
