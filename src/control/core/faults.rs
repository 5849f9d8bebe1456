//! Faults inside the daemon, as the control core sees and tells them ([docs/faults.md](../../../docs/faults.md)).

use std::time::Instant;

use super::Core;
use crate::control::duration::milliseconds;
use crate::control::events::{Event, What};
use crate::control::heartbeat::Beat;

impl Core {
    /// Whether every worker has gone a round within the last half a second, as far as this thread could look: for the service
    /// manager's watchdog, which is to be fed only then.
    pub fn workers_alive(&self) -> bool {
        self.inner.borrow().workers.links().iter().all(|link| link.heart().is_alive())
    }

    /// Looks whether every worker goes round, and tells what is news.
    pub(super) fn look_after_workers(&self, now: Instant) {
        let news = self.inner.borrow_mut().workers.look_after(now);
        for (worker, beat) in news {
            let worker = worker.0;
            self.tell(Event::now(match beat {
                Beat::Stuck(silent) => {
                    let silent_for_ms = milliseconds(silent);
                    tracing::error!(name: "worker_stuck", worker, silent_for_ms, "a worker is stuck: what it receives stands still");
                    What::WorkerStuck { worker, silent_for_ms }
                }
                Beat::WentOn(stuck) => {
                    let stuck_for_ms = milliseconds(stuck);
                    tracing::warn!(name: "worker_went_on", worker, stuck_for_ms, "a worker that was stuck goes on");
                    What::WorkerWentOn { worker, stuck_for_ms }
                }
                Beat::Panicked => What::WorkerPanicked { worker },
            }));
        }
    }
}
