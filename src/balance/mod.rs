//! Which target a new flow goes to (F-4, F-6, F-7).
//!
//! The control core keeps a [`Builder`] for each target group and gives workers its [`TargetMap`], an
//! immutable table of 65,536 rows with each row's first and second choice. A worker asks
//! [`TargetMap::choose`] once a flow: one row read as long as one of the two is healthy. [`score`] says
//! how much a row likes a target; both sides use it, so that what a worker works out for a row whose two
//! choices have both failed is what a rebuilt table would say.

#![forbid(unsafe_code)]

mod choose;
mod rendezvous;
mod score;

pub use choose::{Choice, Row, TargetMap, choose};
pub use rendezvous::Builder;
pub use score::Member;

/// Rows of a table, numbered by the upper 16 bits of a flow's choice hash. Enough for a balance of 2 % at
/// 10 targets and 10 % at 100, and 256 KiB.
pub const ROWS: usize = 1 << 16;

#[cfg(test)]
mod tests;
