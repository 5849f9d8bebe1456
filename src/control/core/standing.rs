//! How the node stands: whether it is ready, and what is wrong (`control/troubles`).

use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use super::Core;
use crate::control::socket::views::Overview;
use crate::control::troubles::Standing;

/// How often what is wrong is looked for where nobody asks: since when it is so is known to so much.
const LOOK: Duration = Duration::from_secs(1);

/// Of the longest bursts of an overview that nobody reads.
const NO_TIME: Duration = Duration::ZERO;

impl Core {
    /// Puts into an overview what is wrong.
    pub(super) fn with_troubles(&self, mut overview: Overview) -> Overview {
        let standing = {
            let inner = self.inner.borrow();
            Standing {
                readiness: inner.readiness(self.not_ready_file.known()),
                storing_for: inner.storing_since.map(|since| since.elapsed()).unwrap_or_default(),
                not_stored: inner.not_stored,
                tables_not_kept: inner.restarted.not_kept(),
                tables_lost: inner.restarted.lost(),
            }
        };
        self.watch.borrow_mut().judge(&mut overview, &standing);
        self.watched.set(Some(Instant::now()));
        overview
    }

    /// Looks for what is wrong, if nobody has for a while.
    pub(super) fn watch_troubles(&self) {
        if self.watched.get().is_none_or(|last| last.elapsed() >= LOOK) {
            self.overview_now(NO_TIME);
        }
    }

    /// Looks again and again for the file that takes the node out of service.
    pub(super) async fn watch_service(&self) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.not_ready_file.taken_out().await;
        }
    }
}
