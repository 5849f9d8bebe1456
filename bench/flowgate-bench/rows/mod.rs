//! The rows of the table, by what they need: each measures its contenders turn by turn and says what that
//! means for the bar.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Failure;
use crate::contenders::testpmd::Testpmd;
use crate::report::Figure;
use crate::rings::Rings;

pub mod changes;
pub mod first_packet;
pub mod flood;
pub mod insert_delete;
pub mod longest;
pub mod look_up;
pub mod memory;
pub mod packets;
pub mod scrape;
pub mod workers;

/// What all rows share.
pub struct Bench {
    pub rings: Arc<Rings>,
    pub testpmd: RefCell<Testpmd>,
    /// The CPUs that there are.
    pub cpus: Vec<u16>,
    /// Where the bench is: the last of them.
    pub cpu: u16,
    /// How often the contenders take turns.
    pub rounds: u32,
    /// CPU time of each turn.
    pub turn: Duration,
    /// Numbers of flows of [`packets`], powers of two.
    pub flows: Vec<u32>,
    /// How long [`longest`] goes on.
    pub longest: Duration,
    /// Everything is small: it is not to be known how fast it is.
    pub short: bool,
}

impl Bench {
    /// Progress, for who waits.
    pub fn says(&self, what: fmt::Arguments<'_>) {
        eprintln!("{what}");
    }

    /// A row's numbers of flows; in short, one small one.
    pub fn sizes<const N: usize>(&self, sizes: [u32; N]) -> Vec<u32> {
        if self.short { vec![1 << 14] } else { sizes.to_vec() }
    }

    /// A row's number of flows.
    pub fn size(&self, flows: u32) -> u32 {
        if self.short { flows.min(1 << 14) } else { flows }
    }

    /// So many rounds: testpmd's turn, then the others' in `turns`. What testpmd took.
    pub fn yardstick(&self, mut turns: impl FnMut() -> Result<(), Failure>) -> Result<Figure, Failure> {
        let mut testpmd = Figure::new("testpmd", "ns a packet");
        for round in 1..=self.rounds {
            testpmd.samples.push(self.testpmd.borrow_mut().measure(self.turn)?);
            turns()?;
            if round == self.rounds || round.is_multiple_of(4) {
                self.says(format_args!("  round {round} of {}", self.rounds));
            }
        }
        Ok(testpmd)
    }
}
