//! What must hold throughout a soak, each in a file of its own with a test that shows it fail. Judges see numbers,
//! packets and what was done ([`history`]); they know nothing of the laboratory.

pub mod accounting;
pub mod bursts;
pub mod flows;
pub mod history;
pub mod memory;
pub mod monotonic;
pub mod resets;
pub mod restarts;

use std::time::Duration;

/// A moment, since the epoch.
pub type At = Duration;

/// The rules that a soak watches over, as a report names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    Accounting,
    Buffers,
    Memory,
    OneTarget,
    Resets,
    Monotonic,
    Bursts,
    Content,
    Restarts,
    Alive,
}

impl Law {
    pub const ALL: [Law; 10] = [
        Law::Accounting,
        Law::Buffers,
        Law::Memory,
        Law::OneTarget,
        Law::Resets,
        Law::Monotonic,
        Law::Bursts,
        Law::Content,
        Law::Restarts,
        Law::Alive,
    ];

    pub fn sentence(self) -> &'static str {
        match self {
            Law::Accounting => "every packet that came in is counted once by what became of it (C-1)",
            Law::Buffers => "at rest no more packet buffers are in use than before",
            Law::Memory => "resident memory is flat after warm-up",
            Law::OneTarget => {
                "a flow's packets go to one target, unless a rule moves it (F-4, F-5, F-8, F-11, T-1, T-4)"
            }
            Law::Resets => "a rule explains every reset, and each is counted (R-1 to R-10)",
            Law::Monotonic => "a counter never falls in one life of the daemon",
            Law::Bursts => "no round of a worker takes longer than the bound (F-13)",
            Law::Content => "what arrives is what was sent (W-6)",
            Law::Restarts => {
                "a daemon that is started again has the flows of the one before (F-5), or tells why not (F-8)"
            }
            Law::Alive => "the daemon runs until it is stopped, and answers",
        }
    }
}

/// A law that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    pub law: Law,
    pub at: At,
    /// In a sentence.
    pub what: String,
    /// What was done before, the newest last.
    pub before: Vec<String>,
}
