//! What came of the flow tables of the daemon before this one, and how long nothing was forwarded.

use std::time::{Duration, Instant};

use super::Inner;
use crate::control::events::What;
use crate::control::socket::views::FlowTablesView;
use crate::control::tables::{Outcome, Restart};

/// What is known of it.
pub(super) struct Restarted {
    restart: Restart,
    /// From the last round of the workers before to the one from which each worker forwards.
    gap: Option<Duration>,
    /// Whether all is told: a control core that starts anew in the same process has nothing to tell.
    is_told: bool,
    /// When the daemon was started, whatever has become of control cores since.
    since: Instant,
}

impl Restarted {
    /// By a control core that tells it, or by one that starts anew in the same process, which was started then.
    pub(super) fn new(restart: Restart, tells: bool, since: Instant) -> Restarted {
        Restarted { restart, gap: None, is_told: !tells, since }
    }

    /// Why flows will end with the daemon, though the operator wants them kept.
    pub(super) fn not_kept(&self) -> Option<String> {
        match &self.restart.outcome {
            Outcome::NotKept(why) => Some(why.clone()),
            Outcome::First | Outcome::TakenOver | Outcome::Lost(_) | Outcome::Off => None,
        }
    }

    /// Why those of the daemon before could not be taken over, and how long ago it was.
    pub(super) fn lost(&self) -> Option<(String, Duration)> {
        Some((self.restart.why_lost()?.to_owned(), self.since.elapsed()))
    }
}

impl Inner {
    /// Tells what came of it, once each worker forwards.
    pub(super) fn news_of_restart(&mut self) -> Option<What> {
        let first = self.workers.first_forwarding()?;
        let now = self.workers.clock().now();
        let Restarted { restart, gap, is_told, .. } = &mut self.restarted;
        if gap.is_none()
            && let Some(last) = restart.last_round
        {
            *gap = Some(Duration::from_millis(self.workers.clock().at(first).since(last).into()));
        }
        if std::mem::replace(is_told, true) {
            return None;
        }
        if let Some(why) = restart.why_lost() {
            let adopts_for = restart.adopt_until.map_or(0, |until| until.since(now));
            let adopt_seconds = adopts_for.div_ceil(1000).into();
            return Some(What::FlowTablesLost { why: why.to_owned(), adopt_seconds });
        }
        let gap_ms = gap.map(millis)?;
        tracing::info!(
            name: "forwarding_again", gap_ms, flows = restart.kept,
            "packets are forwarded again: nobody did since the last round of the daemon before this one"
        );
        let &mut Restart { kept: flows, torn, refused, .. } = restart;
        Some(What::FlowTablesTakenOver { flows, torn, refused, gap_ms })
    }

    /// What came of them.
    pub(super) fn flow_tables(&self) -> FlowTablesView {
        let Restarted { restart, gap, .. } = &self.restarted;
        let ahead = u32::try_from(self.ahead.as_millis()).unwrap_or(u32::MAX);
        let now = self.workers.clock().now().plus(ahead);
        let adopts_for = restart.adopt_until.map_or(0, |until| until.since(now));
        FlowTablesView {
            outcome: restart.word().to_owned(),
            message: restart.sentence(),
            kept: !matches!(restart.outcome, Outcome::Off | Outcome::NotKept(_)),
            lost: restart.why_lost().is_some(),
            flows: restart.kept,
            torn: restart.torn,
            refused: restart.refused,
            took_milliseconds: millis(restart.took),
            gap_milliseconds: gap.map(millis),
            adopt_seconds: u64::from(adopts_for.div_ceil(1000)),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
