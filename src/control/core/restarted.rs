//! What came of the flow tables of the daemon before this one, and how long nothing was forwarded.

use std::time::Duration;

use super::Inner;
use crate::control::socket::views::FlowTablesView;
use crate::control::tables::{Outcome, Restart};

/// What is known of it.
pub(super) struct Restarted {
    restart: Restart,
    /// From the last round of the workers before to the one from which each worker forwards.
    gap: Option<Duration>,
    /// Whether the log is to tell it: a control core that starts anew in the same process has nothing to tell.
    tells: bool,
}

impl Restarted {
    pub(super) fn new(restart: Restart, tells: bool) -> Restarted {
        Restarted { restart, gap: None, tells }
    }
}

impl Inner {
    /// Tells the gap, once it is over.
    pub(super) fn note_gap(&mut self) {
        let Restarted { restart, gap: gap @ None, tells } = &mut self.restarted else { return };
        let (Some(last), Some(first)) = (restart.last_round, self.workers.first_forwarding()) else { return };
        let ms = self.workers.clock().at(first).since(last);
        *gap = Some(Duration::from_millis(ms.into()));
        if !*tells {
            return;
        }
        tracing::info!(
            name: "forwarding_again", gap_ms = ms, flows = restart.kept,
            "packets are forwarded again: nobody did since the last round of the daemon before this one"
        );
    }

    /// What came of them.
    pub(super) fn flow_tables(&self) -> FlowTablesView {
        let Restarted { restart, gap, .. } = &self.restarted;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let ahead = u32::try_from(self.ahead.as_millis()).unwrap_or(u32::MAX);
        let now = self.workers.clock().now().plus(ahead);
        let adopts_for = restart.adopt_until.map_or(0, |until| until.since(now));
        FlowTablesView {
            outcome: restart.word().to_owned(),
            message: restart.sentence(),
            kept: !matches!(restart.outcome, Outcome::Off | Outcome::NotKept(_)),
            flows: restart.kept,
            torn: restart.torn,
            refused: restart.refused,
            took_milliseconds: millis(restart.took),
            gap_milliseconds: gap.map(millis),
            adopt_seconds: u64::from(adopts_for.div_ceil(1000)),
        }
    }
}
