//! Faults inside the daemon, as the control core sees and tells them ([docs/faults.md](../../../docs/faults.md)).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::Core;
use crate::control::duration::milliseconds;
use crate::control::events::{Event, What};
use crate::control::heartbeat::Beat;

/// After a worker's panic was told the daemon goes on for so long, for those who listen to hear of it.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How often the ports' links are looked at.
const PORTS_EVERY: Duration = Duration::from_secs(1);

/// The ports' links, as they were at the last look.
#[derive(Default)]
pub(super) struct PortLinks {
    looked: Option<Instant>,
    up: HashMap<String, bool>,
    changes: u64,
}

impl Core {
    /// Looks at the ports' links, and tells those that have come up or gone down.
    pub(super) fn look_after_ports(&self, now: Instant) {
        let mut links = self.port_links.borrow_mut();
        if links.looked.is_some_and(|looked| now.saturating_duration_since(looked) < PORTS_EVERY) {
            return;
        }
        links.looked = Some(now);
        for port in (self.ports)() {
            let (name, up) = (port.port_name, port.link_up);
            let before = links.up.insert(name.clone(), up);
            // Of a port that has been up from the start there is nothing to say.
            if before.unwrap_or(true) == up {
                continue;
            }
            links.changes += 1;
            if up {
                tracing::info!(name: "port_up", port = name, "a port's link is up");
                self.tell(Event::now(What::PortUp { port: name }));
            } else {
                tracing::error!(name: "port_down", port = name, "a port's link is down, or its device is gone: nothing passes by it");
                self.tell(Event::now(What::PortDown { port: name }));
            }
        }
    }

    /// How often a port's link came up or went down.
    pub(super) fn port_changes(&self) -> u64 {
        self.port_links.borrow().changes
    }

    /// A worker that has ended by a panic.
    fn panicked_worker(&self) -> Option<u8> {
        let inner = self.inner.borrow();
        inner.workers.links().iter().find(|link| link.heart().has_panicked()).map(|link| link.id.0)
    }

    /// Looks whether every worker goes round, and tells what is news. A sentence, if the daemon has to end.
    pub(super) fn look_after_workers(&self, now: Instant) -> Option<String> {
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
                Beat::Panicked => {
                    tracing::error!(name: "worker_panicked", worker, "a worker ended by a panic: the daemon ends, so that it is started anew");
                    What::WorkerPanicked { worker }
                }
            }));
        }
        // A control core that starts anew meanwhile finds it so, though it was told by the one before.
        let panicked = self.panicked_worker();
        if let (Some(worker), None) = (panicked, self.ends.get()) {
            self.ends.set(Some((now + LAST_WORDS, worker)));
        }
        let (at, worker) = self.ends.get()?;
        (at <= now)
            .then(|| format!("worker {worker} ended by a panic; the daemon ends, so that it is started anew"))
    }
}

#[cfg(any(debug_assertions, feature = "faults"))]
impl Core {
    /// Puts a fault in, for tests.
    pub(super) fn put_one(&self, fault: crate::control::socket::methods::put_fault::Fault) {
        use crate::control::socket::methods::put_fault::Fault;
        use crate::control::wall;
        use crate::datapath::messages::PutFault;
        match fault {
            Fault::ControlPanic => {
                let _changing = self.inner.borrow_mut();
                panic!("a fault that was put in: the control core");
            }
            Fault::TaskPanic => {
                tokio::task::spawn_local(async { panic!("a fault that was put in: a task") });
            }
            Fault::ConversationPanic => panic!("a fault that was put in: a conversation"),
            Fault::WorkerPanic { worker } => {
                self.inner.borrow_mut().workers.put_fault(worker, PutFault::Panic)
            }
            Fault::WorkerStall { worker, milliseconds } => {
                let stall = PutFault::Stall(Duration::from_millis(milliseconds));
                self.inner.borrow_mut().workers.put_fault(worker, stall);
            }
            Fault::FileThreadPanic => {
                tokio::task::spawn_blocking(|| panic!("a fault that was put in: a thread for files"));
            }
            Fault::FlowLogPanic => {
                crate::control::flow_log::PANICS.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            Fault::WallClock { milliseconds } => wall::jump::by(milliseconds),
        }
    }
}
