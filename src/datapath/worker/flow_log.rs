//! A worker's flow log: taken, walked a few entries a round, and given back where it was made.

use std::time::Duration;

use super::Worker;
use crate::datapath::flow_log::FlowLog;
use crate::datapath::messages::FromWorker;
use crate::datapath::pipeline::Pipeline;
use crate::io::PortQueue;

/// How long a worker that stops waits for the log's reader, in milliseconds.
const PATIENCE_MS: u32 = 1000;

impl<Q: PortQueue> Worker<Q> {
    /// Whether there is one, or one to be given back.
    #[inline]
    pub(super) fn has_flow_log(&self) -> bool {
        self.pipeline.flows.log.is_some() || self.over.is_some()
    }

    /// Whether there is one that has to be told of to its end.
    pub(super) fn ends_flow_log(&self) -> bool {
        self.over.is_some() || self.pipeline.flows.log.as_ref().is_some_and(|log| !log.is_counting())
    }

    /// Logs flows from now on. One log is on until it was asked to end: whoever asks for another meanwhile gets that
    /// back.
    #[cold]
    pub(super) fn start_flow_log(&mut self, mut log: Box<FlowLog>) {
        let Pipeline { flows, now, now_cycles, .. } = &mut self.pipeline;
        if flows.log.is_none() {
            log.begin(&flows.table, *now, *now_cycles);
            flows.log = Some(log);
        } else {
            self.over = Some(log);
        }
    }

    #[cold]
    pub(super) fn stop_flow_log(&mut self) {
        if let Some(log) = &mut self.pipeline.flows.log {
            log.begin_to_end();
        }
    }

    /// A step of the walk that tells of flows which go on; after the last one the log goes back to be freed.
    #[cold]
    pub(super) fn tend_flow_log(&mut self) {
        if let Some(over) = self.over.take()
            && let Err(rtrb::PushError::Full(FromWorker::FlowLogOver(kept))) =
                self.pipeline.events.push(FromWorker::FlowLogOver(over))
        {
            self.over = Some(kept);
        }
        let Pipeline { flows, counters, .. } = &mut self.pipeline;
        if self.over.is_none()
            && let Some(log) = &mut flows.log
            && log.walk(&flows.table, counters)
        {
            self.over = flows.log.take();
        }
    }

    /// The worker stops, and nothing waits for its core any more: what was counted is told, if the reader keeps up.
    pub(super) fn end_flow_log(&mut self) {
        let Pipeline { flows, counters, .. } = &mut self.pipeline;
        let Some(log) = &mut flows.log else { return };
        log.begin_to_end();
        let mut patience = PATIENCE_MS;
        while !log.walk(&flows.table, counters) {
            if !log.has_room() {
                if patience == 0 {
                    return;
                }
                patience -= 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
