//! The control core as one request for a change sees it: a copy of the objects, on which its changes are worked
//! out.
//!
//! The dispatcher puts this between a method and the control core. What a change comes to is then made, and stored,
//! as one, or only told (`DryRun`): the method does not know which. So the disk is waited for where nothing is
//! held, every change can be rehearsed, and none can forget who asked.

#![forbid(unsafe_code)]

use super::methods::flow_log::StartFlowLog;
use super::service::{
    Applied, CaptureError, ChangeError, Drafted, FlowLogRefused, Service, TargetStatus, Turn, Unavailable,
    Waiting,
};
use super::views::{
    CaptureQuery, Counters, EndpointView, Explanation, FlowLogView, FlowPage, FlowQuery, FlowTablesView,
    HistoryEntry, Overview, Plan, PortView, Preview, WorkerView,
};
use crate::control::audit::NodeFigures;
use crate::control::capture::CaptureStream;
use crate::control::events::{Event, Timestamp};
use crate::control::explain::{Asked, NotExplained};
use crate::control::failover::FailoverList;
use crate::control::logging::LogControl;
use crate::control::model::{Change, ForeignId, State, TargetGroup, Zone, difference};
use crate::control::telling::EventCounts;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;

/// The control core, for one request.
pub(super) struct Acting<'a> {
    service: &'a dyn Service,
    /// What the changes so far come to.
    draft: RefCell<Drafted>,
}

impl<'a> Acting<'a> {
    /// A copy of the objects as they are, for changes by `by`.
    pub(super) fn new(service: &'a dyn Service, by: String) -> Self {
        let draft =
            Drafted { next: service.state(), changes: Vec::new(), outcomes: Vec::new(), by: Some(by) };
        Acting { service, draft: RefCell::new(draft) }
    }

    /// Makes the changes of the objects themselves, in the turn in which the copy was made.
    ///
    /// # Errors
    /// If they cannot be stored; nothing has changed then.
    pub(super) async fn make(self, turn: Turn) -> Result<(), ChangeError> {
        let Acting { service, draft } = self;
        let draft = draft.into_inner();
        if draft.changes.is_empty() { Ok(()) } else { service.make(turn, draft).await }
    }

    /// What the changes so far would do, were they meant.
    pub(super) async fn plan(&self) -> Plan {
        let (now, next) = (self.service.state(), self.state());
        let differences = difference(&now, &next).iter().map(ToString::to_string).collect();
        Plan::new(differences, self.service.preview(&next).await, now.generation())
    }
}

impl Service for Acting<'_> {
    fn apply_by(&self, change: &Change, by: Option<&str>) -> Result<Applied, ChangeError> {
        let mut draft = self.draft.borrow_mut();
        let (next, outcome) = draft.next.apply(change)?;
        let generation = next.generation();
        if outcome.is_change() {
            draft.next = next;
            draft.changes.push(change.clone());
            draft.outcomes.push(outcome.clone());
            draft.by = by.map(str::to_owned).or_else(|| draft.by.take());
        }
        Ok(Applied { generation, outcome })
    }

    fn state(&self) -> State {
        self.draft.borrow().next.clone()
    }

    fn now(&self) -> Timestamp {
        self.service.now()
    }

    fn history(&self) -> Waiting<'_, Vec<HistoryEntry>> {
        self.service.history()
    }

    fn earlier(&self, generation: u64) -> Waiting<'_, Result<Option<State>, Unavailable>> {
        self.service.earlier(generation)
    }

    fn preview<'b>(&'b self, next: &'b State) -> Waiting<'b, Preview> {
        self.service.preview(next)
    }

    fn subnets(&self) -> BTreeMap<ForeignId, Zone> {
        self.service.subnets()
    }

    fn targets(&self, group: &TargetGroup) -> Vec<TargetStatus> {
        self.service.targets(group)
    }

    fn flows(&self, query: FlowQuery) -> Waiting<'_, Result<FlowPage, Unavailable>> {
        self.service.flows(query)
    }

    fn explain(&self, asked: Asked) -> Waiting<'_, Result<Vec<Explanation>, NotExplained>> {
        self.service.explain(asked)
    }

    fn figures(&self) -> NodeFigures {
        self.service.figures()
    }

    fn counters(&self) -> Counters {
        self.service.counters()
    }

    fn failovers(&self) -> FailoverList {
        self.service.failovers()
    }

    fn endpoints(&self) -> Vec<EndpointView> {
        self.service.endpoints()
    }

    fn workers(&self, window: Duration) -> Vec<WorkerView> {
        self.service.workers(window)
    }

    fn flow_tables(&self) -> FlowTablesView {
        self.service.flow_tables()
    }

    fn overview(&self, window: Duration) -> Overview {
        self.service.overview(window)
    }

    fn ports(&self) -> Vec<PortView> {
        self.service.ports()
    }

    fn capture(&self, query: &CaptureQuery) -> Result<CaptureStream, CaptureError> {
        self.service.capture(query)
    }

    fn events(&self) -> Receiver<Event> {
        self.service.events()
    }

    fn started(&self) -> Timestamp {
        self.service.started()
    }

    fn events_so_far(&self) -> EventCounts {
        self.service.events_so_far()
    }

    fn log(&self) -> LogControl {
        self.service.log()
    }

    fn flow_log(&self) -> FlowLogView {
        self.service.flow_log()
    }

    fn start_flow_log<'b>(
        &'b self,
        asked: &'b StartFlowLog,
    ) -> Waiting<'b, Result<FlowLogView, FlowLogRefused>> {
        self.service.start_flow_log(asked)
    }

    fn stop_flow_log(&self) -> Result<FlowLogView, FlowLogRefused> {
        self.service.stop_flow_log()
    }

    fn advance_clock(&self, milliseconds: u32) {
        self.service.advance_clock(milliseconds);
    }

    #[cfg(any(debug_assertions, feature = "faults"))]
    fn put_fault(&self, fault: super::methods::put_fault::Fault) {
        self.service.put_fault(fault);
    }
}
