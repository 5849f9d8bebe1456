//! The rows of the table, by what they need: each measures its contenders turn by turn and says what that
//! means for the bar.

pub mod packets;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::contenders::testpmd::Testpmd;
use crate::rings::Rings;

/// What all rows share.
pub struct Bench {
    pub rings: Rc<Rings>,
    pub testpmd: Testpmd,
    /// How often the contenders take turns.
    pub rounds: u32,
    /// CPU time of each turn.
    pub turn: Duration,
    /// Numbers of flows, powers of two.
    pub flows: Vec<u32>,
}

impl Bench {
    /// Progress, for who waits.
    pub fn says(&self, what: fmt::Arguments<'_>) {
        eprintln!("{what}");
    }
}
