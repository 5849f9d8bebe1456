//! The flow table and what is in it.
//!
//! A worker's memory of the flows it carries: [`FlowKey`] names a flow whichever way its packet goes,
//! [`HashSeed`] spreads keys, [`Table`] finds an [`Entry`] by key or by [`Cookie`] and forgets entries
//! by [`Timers`]. Everything here is numbers in memory that was mapped at start: no clock, no system
//! call, no allocation once [`Table::new`] has returned, no panic on any input, and bounded work in
//! every call. One table belongs to one worker; nothing in it is shared.

mod account;
mod cookie;
mod entry;
mod free;
mod hash;
mod index;
mod kept_links;
mod key;
mod memory;
mod pages;
mod queue;
mod table;
mod timers;

pub use account::{Account, Accounts};
pub use cookie::{Cookie, CookieLayout, CookieSpace, DecodedCookie, OwnCookies};
pub use entry::{Entry, FlowFlags, FlowState, LinkId};
pub use hash::{HashSeed, Tuple};
pub use kept_links::{KeptLinks, LINKS, MAX_HEADER};
pub use key::{Direction, FlowKey, V4Flows};
pub use memory::prefetch;
pub use pages::{FilePages, PageKind, Pages};
pub use table::{
    Beat, EntryId, Guess, InFile, Inserted, Keep, LAYOUT, NewEntry, NotFound, NotInserted, NotThisTable,
    Probe, Seat, StaleCookie, Starts, Table, TableConfig, TableError, TakenOver, file_bytes,
};
pub use timers::{Ended, Timers, expiry};
