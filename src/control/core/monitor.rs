//! The control core as the monitoring endpoint sees it.

use super::Core;
use crate::control::monitor::{Readiness, Source};
use crate::control::workers::WorkerLink;

impl Source for Core {
    fn readiness(&self) -> Readiness {
        let inner = self.inner.borrow();
        let generation = inner.state.generation();
        Readiness {
            silent_for: inner.workers.links().iter().map(WorkerLink::silent_for).collect(),
            generation,
            behind: inner.workers.behind(generation),
            taken_out: None,
        }
    }
}
