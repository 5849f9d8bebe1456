//! A scan of the workers' flow tables, as far as it has come.

use tokio::sync::oneshot;

use crate::datapath::messages::FlowRecord;

/// What a scan has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The flows, up to the limit.
    pub flows: Vec<FlowRecord>,
    /// How many matched.
    pub matching: u64,
}

/// A scan that is under way.
pub(super) struct Scan {
    /// What workers call it by. One that nobody waits for any more may still be heard of after the next began.
    number: u32,
    found: Found,
    limit: usize,
    workers_left: usize,
    done: Option<oneshot::Sender<Found>>,
}

impl Scan {
    /// A scan by so many workers for so many flows at most; the receiver gets what it finds.
    pub(super) fn new(number: u32, workers: usize, limit: usize) -> (Scan, oneshot::Receiver<Found>) {
        let (done, receiver) = oneshot::channel();
        (Scan { number, found: Found::default(), limit, workers_left: workers, done: Some(done) }, receiver)
    }

    /// A worker found a flow.
    pub(super) fn found(&mut self, record: FlowRecord) {
        if record.scan == self.number && self.found.flows.len() < self.limit {
            self.found.flows.push(record);
        }
    }

    /// A worker has been through its table for the scan `number`.
    pub(super) fn worker_done(&mut self, number: u32, matching: u64) {
        if number != self.number {
            return;
        }
        self.found.matching += matching;
        self.workers_left = self.workers_left.saturating_sub(1);
        if self.workers_left == 0
            && let Some(done) = self.done.take()
        {
            // Nobody waits any more if it took too long; that is told where it is noticed.
            done.send(std::mem::take(&mut self.found)).ok();
        }
    }
}
