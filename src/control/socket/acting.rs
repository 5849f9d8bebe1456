//! The control core as one request for a change sees it: on whose behalf it is made, and whether it is
//! meant or only rehearsed.
//!
//! The dispatcher puts this between a method and the control core, so that every method that changes
//! something can be rehearsed (`DryRun`) without knowing of it, and none can forget who asked.

#![forbid(unsafe_code)]

use super::service::{Applied, ChangeError, Service, TargetStatus, Unavailable, Waiting};
use super::views::{
    Counters, EndpointView, FlowPage, FlowQuery, HistoryEntry, Overview, Plan, PortView, Preview, WorkerView,
};
use crate::control::events::{Event, Timestamp};
use crate::control::failover::FailoverList;
use crate::control::model::{Change, ForeignId, State, TargetGroup, Zone, difference};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;

/// The control core, for one request.
pub(super) struct Acting<'a> {
    service: &'a dyn Service,
    by: Option<String>,
    /// The objects as the changes rehearsed so far would have them; none: changes are meant.
    rehearsed: Option<RefCell<State>>,
}

impl<'a> Acting<'a> {
    /// Changes are made, and known to be made by `by`.
    pub(super) fn for_real(service: &'a dyn Service, by: String) -> Self {
        Acting { service, by: Some(by), rehearsed: None }
    }

    /// Changes are carried out on a copy of the objects, and nowhere else.
    pub(super) fn rehearsing(service: &'a dyn Service) -> Self {
        Acting { service, by: None, rehearsed: Some(RefCell::new(service.state())) }
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
        let Some(rehearsed) = &self.rehearsed else {
            return self.service.apply_by(change, by.or(self.by.as_deref()));
        };
        let (next, outcome) = rehearsed.borrow().apply(change)?;
        let generation = next.generation();
        rehearsed.replace(next);
        Ok(Applied { generation, outcome })
    }

    fn state(&self) -> State {
        match &self.rehearsed {
            Some(rehearsed) => rehearsed.borrow().clone(),
            None => self.service.state(),
        }
    }

    fn now(&self) -> Timestamp {
        self.service.now()
    }

    fn history(&self) -> Vec<HistoryEntry> {
        self.service.history()
    }

    fn earlier(&self, generation: u64) -> Result<Option<State>, Unavailable> {
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

    fn overview(&self, window: Duration) -> Overview {
        self.service.overview(window)
    }

    fn ports(&self) -> Vec<PortView> {
        self.service.ports()
    }

    fn events(&self) -> Receiver<Event> {
        self.service.events()
    }

    fn advance_clock(&self, milliseconds: u32) {
        self.service.advance_clock(milliseconds);
    }
}
