//! The flow log, as the control core sees to it: begun, handed to the workers, ended, and how it stands.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Instant;

use super::{Core, Inner};
use crate::control::events::{Event, Timestamp, What};
use crate::control::flow_log::{
    self, Destination, Made, MadeBy, Names, Opened, Options, Shared, TargetNames, Threads, WorkerFacts,
};
use crate::control::socket::FlowLogRefused;
use crate::control::socket::methods::flow_log::StartFlowLog;
use crate::control::socket::views::{FlowLogState, FlowLogView};
use crate::datapath::counters::{Counter, WorkerCounters};
use crate::datapath::flow_log::FlowLog;
use crate::flow::HashSeed;

/// What flow logs need beside the control core's own parts.
pub struct FlowLogParts {
    /// Where files of records are.
    pub folder: PathBuf,
    /// Chooses the flows that are told of, alike on all nodes of a site.
    pub seed: HashSeed,
    /// Whoever ends the process waits for these.
    pub threads: Threads,
    /// The log to begin with.
    pub from_start: Option<Options>,
}

/// The log there is, and what is known of the one before.
pub struct FlowLogs {
    parts: FlowLogParts,
    running: Option<Running>,
    last: FlowLogView,
    /// What was told of lost and of failed records.
    told: (u64, u64),
}

struct Running {
    options: Options,
    began: Timestamp,
    phase: FlowLogState,
    made: Receiver<Made>,
    back: Sender<Box<FlowLog>>,
    shared: Arc<Shared>,
    /// What was lost before it.
    lost_before: u64,
}

impl FlowLogs {
    /// None is on yet.
    pub fn new(parts: FlowLogParts) -> FlowLogs {
        FlowLogs { parts, running: None, last: FlowLogView::default(), told: (0, 0) }
    }

    /// A worker's log is over.
    pub(super) fn given_back(&mut self, log: Box<FlowLog>) {
        // If the thread has ended, what it would have done is done here.
        if let Some(running) = &self.running {
            running.back.send(log).ok();
        }
    }
}

impl Core {
    /// Begins the log that the configuration has, if it has one.
    pub(super) fn start_configured_flow_log(&self) {
        let mut inner = self.inner.borrow_mut();
        let Some(options) = inner.flow_logs.parts.from_start.take() else { return };
        let opened = flow_log::open(&options).map_err(FlowLogRefused::NotOpened);
        if let Err(error) = opened.and_then(|opened| inner.start_flow_log(options, opened)) {
            tracing::error!(name: "flow_log_not_started", %error, "a flow log could not be started");
        }
    }

    /// Begins the log that is asked for. What it writes to is opened by a thread that may wait for the disk; another
    /// log that is asked for meanwhile waits for that.
    pub(super) async fn begin_flow_log(&self, asked: &StartFlowLog) -> Result<FlowLogView, FlowLogRefused> {
        let turn = Arc::clone(&self.opening_flow_log).lock_owned().await;
        let options = {
            let inner = self.inner.borrow();
            let options = asked.options(|name| inner.flow_log_path(name)).ok_or(FlowLogRefused::NotOn)?;
            inner.has_no_flow_log()?;
            options
        };
        let (opened, _turn) = match options.to {
            Destination::File { .. } => {
                let own = options.clone();
                // The thread has the turn: it may be there yet when whoever asked is gone.
                let opened = tokio::task::spawn_blocking(move || (flow_log::open(&own), turn)).await;
                opened.map_err(|error| FlowLogRefused::NotOpened(error.to_string()))?
            }
            // A thread that waits for the disk may make no socket; and nobody waits for a socket of UDP.
            Destination::Ipfix { .. } => (flow_log::open(&options), turn),
        };
        self.inner.borrow_mut().start_flow_log(options, opened.map_err(FlowLogRefused::NotOpened)?)
    }

    /// Tells of records that were lost since this was last done.
    pub(super) fn tell_lost_records(&self) {
        let told = self.inner.borrow_mut().newly_lost_records();
        if let Some((lost, failed)) = told {
            tracing::warn!(name: "flow_records_lost", lost, failed, "records of flows were lost");
            self.tell(Event::now(What::FlowRecordsLost { lost, failed }));
        }
    }
}

impl Inner {
    /// Where a file of this name is.
    pub(super) fn flow_log_path(&self, name: &str) -> PathBuf {
        self.flow_logs.parts.folder.join(name)
    }

    fn has_no_flow_log(&self) -> Result<(), FlowLogRefused> {
        let running = self.flow_logs.running.as_ref();
        running.map_or(Ok(()), |running| Err(FlowLogRefused::OnAlready(running.options.to.to_string())))
    }

    /// Begins a log that writes to what is open.
    fn start_flow_log(&mut self, options: Options, opened: Opened) -> Result<FlowLogView, FlowLogRefused> {
        self.has_no_flow_log()?;
        let facts = |link: &crate::control::workers::WorkerLink| WorkerFacts {
            capacity: link.capacity,
            counters: Arc::clone(&link.counters),
        };
        let workers: Vec<WorkerFacts> = self.workers.links().iter().map(facts).collect();
        let parts = &self.flow_logs.parts;
        let clock = self.workers.clock().clone();
        let MadeBy { made, back, shared } =
            flow_log::start(&options, opened, parts.seed.clone(), workers, clock, &parts.threads)
                .map_err(FlowLogRefused::NotOpened)?;
        tracing::info!(
            name: "flow_log_started", to = %options.to, one_in = options.one_in.get(), interim = ?options.interim,
            "a flow log starts"
        );
        let lost_before = self.lost_records();
        self.flow_logs.told = (0, 0);
        let (began, phase) = (Timestamp::now(), FlowLogState::Starting);
        self.flow_logs.running = Some(Running { options, began, phase, made, back, shared, lost_before });
        self.name_flow_log();
        Ok(self.flow_log_view())
    }

    /// Has the log end. What workers have counted by then is in it.
    pub(super) fn stop_flow_log(&mut self) -> Result<FlowLogView, FlowLogRefused> {
        let Some(running) = &mut self.flow_logs.running else { return Err(FlowLogRefused::NotOn) };
        if running.phase == FlowLogState::On {
            self.workers.stop_flow_log();
        }
        running.phase = FlowLogState::Stopping;
        Ok(self.flow_log_view())
    }

    /// How it stands.
    pub(super) fn flow_log_view(&self) -> FlowLogView {
        let Some(running) = &self.flow_logs.running else { return self.flow_logs.last.clone() };
        let progress = running.shared.progress();
        FlowLogView {
            state: running.phase,
            to: Some(running.options.to.to_string()),
            since: Some(running.began),
            sample_one_in: Some(running.options.one_in),
            interim_seconds: running.options.interim.map(|time| time.as_secs()),
            written: progress.written,
            lost: self.lost_records().wrapping_sub(running.lost_before),
            failed: progress.failed,
            error: progress.error,
        }
    }

    /// To be called with every look into the workers' rings.
    pub(super) fn tend_flow_log(&mut self) {
        let Some(running) = &mut self.flow_logs.running else { return };
        if running.phase != FlowLogState::On {
            match running.made.try_recv() {
                Ok(Ok(logs)) if running.phase == FlowLogState::Starting => {
                    running.phase = FlowLogState::On;
                    self.workers.start_flow_log(logs);
                }
                // It is stopped before it began: nobody has it, and so its thread ends.
                Ok(Ok(logs)) => drop(logs),
                Ok(Err(error)) => {
                    tracing::error!(name: "flow_log_not_started", error, "a flow log could not be started");
                    return self.end_flow_log(Some(error));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
            }
        }
        if self.flow_logs.running.as_ref().is_some_and(|running| running.shared.progress().is_over) {
            if self.flow_logs.running.as_ref().is_some_and(|running| running.phase == FlowLogState::On) {
                // Its thread has panicked: nobody reads what workers report.
                tracing::error!(name: "flow_log_broken_off", "the thread that writes the flow log panicked: the log is over");
                self.workers.stop_flow_log();
            }
            self.end_flow_log(None);
        }
    }

    fn end_flow_log(&mut self, error: Option<String>) {
        let view = self.flow_log_view();
        self.flow_logs.last = FlowLogView { state: FlowLogState::Off, error: error.or(view.error), ..view };
        self.flow_logs.running = None;
        let FlowLogView { to, written, lost, failed, .. } = &self.flow_logs.last;
        tracing::info!(name: "flow_log_over", to, written, lost, failed, "a flow log is over");
    }

    /// Gives the log the names of what there is now.
    pub(super) fn name_flow_log(&mut self) {
        let Some(running) = &self.flow_logs.running else { return };
        let endpoints =
            self.compiler.node().endpoints.iter().map(|endpoint| endpoint.name.to_string()).collect();
        let targets = self.slots.iter().map(|(key, slot)| {
            let names = TargetNames {
                load_balancer: self.balancer_of(&key.group),
                target_group: key.group.to_string(),
                target: key.address,
            };
            ((slot.id, slot.generation), names)
        });
        let names: Names = running.shared.names().next(endpoints, targets, Instant::now());
        running.shared.set_names(names);
    }

    fn lost_records(&self) -> u64 {
        self.workers.sum(|all: &WorkerCounters| -> &Counter { &all.flow_reports_lost })
    }

    /// What was lost since this was last asked: by workers without room, and by the disk or the network.
    fn newly_lost_records(&mut self) -> Option<(u64, u64)> {
        let FlowLogView { lost, failed, .. } = self.flow_log_view();
        let told = std::mem::replace(&mut self.flow_logs.told, (lost, failed));
        let new = (lost.saturating_sub(told.0), failed.saturating_sub(told.1));
        (new != (0, 0)).then_some(new)
    }
}
