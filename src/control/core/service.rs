//! The control core as the socket sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{MutexGuard, broadcast};
use tokio::task::JoinError;

use super::changes::{Stored, lock};
use super::scan::{Found, Scan};
use super::{Core, Inner};
use crate::control::audit::NodeFigures;
use crate::control::capture::CaptureStream;
use crate::control::duration::milliseconds;
use crate::control::events::{Event, Timestamp};
use crate::control::explain::{Asked, NotExplained};
use crate::control::failover::FailoverList;
use crate::control::health::{HealthState, ReasonCode, StateReason, TargetKey};
use crate::control::logging::LogControl;
use crate::control::model::{Change, ChangeRecord, ForeignId, State, TargetGroup, Zone};
use crate::control::slots::Slot;
use crate::control::socket::methods::flow_log::StartFlowLog;
use crate::control::socket::views::{
    CaptureQuery, Counters, EndpointView, Explanation, FlowLogView, FlowPage, FlowQuery, FlowRecord,
    FlowState, FlowTablesView, HistoryEntry, Overview, PortView, Preview, Protocol, WorkerView,
};
use crate::control::socket::{
    Applied, CaptureError, ChangeError, Drafted, FlowLogRefused, Service, TargetStatus, Turn, Unavailable,
    Waiting,
};
use crate::control::store::{Store, Version};
use crate::control::telling::EventCounts;
use crate::datapath::messages::{self, FlowFilter};
use crate::flow;
use crate::id::EndpointId;

/// What is said to who asks workers one of which has no room for a message more.
pub(super) const STUCK: &str = "a worker takes no messages, as it is stuck: flowgate workers shows which";

/// How long the workers may take to walk their tables.
const SCAN_PATIENCE: Duration = Duration::from_secs(10);

impl Service for Core {
    fn now(&self) -> Timestamp {
        let now = i64::try_from(self.inner.borrow().unix_ms()).unwrap_or(i64::MAX);
        Timestamp::from_unix_ms(now)
    }

    fn state(&self) -> State {
        self.inner.borrow().state.clone()
    }

    fn apply_by(&self, change: &Change, by: Option<&str>) -> Result<Applied, ChangeError> {
        self.change(change, by)
    }

    fn turn(&self) -> Waiting<'_, Turn> {
        Box::pin(self.turn())
    }

    fn make(&self, turn: Turn, drafted: Drafted) -> Waiting<'_, Result<(), ChangeError>> {
        let Drafted { next, outcomes, by, changes: _ } = drafted;
        let record = {
            let inner = self.inner.borrow();
            ChangeRecord::new(&inner.state, &next, inner.unix_ms(), by.as_deref())
        };
        let stored = self.store(turn, Stored { next, record: Some(record), outcomes });
        Box::pin(async move {
            let stored = stored.await.unwrap_or_else(|error| Err(error.to_string()));
            stored.map_err(ChangeError::NotStored)
        })
    }

    fn history(&self) -> Waiting<'_, Vec<HistoryEntry>> {
        let entry = |version: Version| {
            let Version { generation, change, is_current } = version;
            let at = |unix_ms| Timestamp::from_unix_ms(i64::try_from(unix_ms).unwrap_or(i64::MAX));
            HistoryEntry {
                generation,
                current: is_current,
                at: change.as_ref().map(|change| at(change.unix_ms)),
                by: change.as_ref().and_then(|change| change.by.clone()),
                what: change.map(|change| change.what).unwrap_or_default(),
            }
        };
        Box::pin(async move {
            // A panic there is told by itself, and what could not be read is not there.
            let read = self.read(Store::history).await.unwrap_or_default();
            read.into_iter().map(entry).collect()
        })
    }

    fn earlier(&self, generation: u64) -> Waiting<'_, Result<Option<State>, Unavailable>> {
        Box::pin(async move {
            let read = self.read(move |store| store.earlier(generation)).await;
            let read = read.map_err(|error| Unavailable(error.to_string()))?;
            read.map_err(|error| Unavailable(error.to_string()))
        })
    }

    fn subnets(&self) -> BTreeMap<ForeignId, Zone> {
        self.inner.borrow().compiler.node().subnets.clone()
    }

    fn preview<'a>(&'a self, next: &'a State) -> Waiting<'a, Preview> {
        Box::pin(self.foresee(next))
    }

    fn targets(&self, group: &TargetGroup) -> Vec<TargetStatus> {
        self.inner.borrow().target_statuses(group)
    }

    fn flows(&self, query: FlowQuery) -> Waiting<'_, Result<FlowPage, Unavailable>> {
        Box::pin(self.find_flows(query))
    }

    fn explain(&self, asked: Asked) -> Waiting<'_, Result<Vec<Explanation>, NotExplained>> {
        Box::pin(self.explain_packets(asked))
    }

    fn figures(&self) -> NodeFigures {
        self.node_figures()
    }

    fn counters(&self) -> Counters {
        let mut sets = self.inner.borrow().counter_sets();
        sets.extend((self.ports)().into_iter().map(super::counters::of_port));
        Counters { at: self.now(), uptime_ms: self.uptime_ms(), sets }
    }

    fn failovers(&self) -> FailoverList {
        self.inner.borrow().failover_list()
    }

    fn endpoints(&self) -> Vec<EndpointView> {
        self.inner.borrow().endpoint_views()
    }

    fn workers(&self, window: Duration) -> Vec<WorkerView> {
        self.inner.borrow().worker_views(window)
    }

    fn flow_tables(&self) -> FlowTablesView {
        self.inner.borrow().flow_tables()
    }

    fn overview(&self, window: Duration) -> Overview {
        self.overview_now(window)
    }

    fn ports(&self) -> Vec<PortView> {
        (self.ports)()
    }

    fn capture(&self, query: &CaptureQuery) -> Result<CaptureStream, CaptureError> {
        self.begin_capture(query)
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        // Else a target's state that whoever asks sees already would be told to it as news.
        self.hear_health();
        self.events.listen()
    }

    fn started(&self) -> Timestamp {
        self.life.since.1
    }

    fn events_so_far(&self) -> EventCounts {
        self.life.told.counts()
    }

    fn log(&self) -> LogControl {
        self.log.clone()
    }

    fn flow_log(&self) -> FlowLogView {
        self.inner.borrow().flow_log_view()
    }

    fn start_flow_log<'a>(
        &'a self,
        asked: &'a StartFlowLog,
    ) -> Waiting<'a, Result<FlowLogView, FlowLogRefused>> {
        Box::pin(self.begin_flow_log(asked))
    }

    fn stop_flow_log(&self) -> Result<FlowLogView, FlowLogRefused> {
        self.inner.borrow_mut().stop_flow_log()
    }

    fn advance_clock(&self, milliseconds: u32) {
        let mut inner = self.inner.borrow_mut();
        inner.ahead += Duration::from_millis(u64::from(milliseconds));
        inner.workers.advance_clock(milliseconds);
    }

    #[cfg(any(debug_assertions, feature = "faults"))]
    fn put_fault(&self, fault: crate::control::socket::methods::put_fault::Fault) {
        self.put_one(fault);
    }
}

impl Core {
    pub(super) fn uptime_ms(&self) -> u64 {
        milliseconds(self.life.since.0.elapsed())
    }

    /// What a thread of its own finds in the store. Until that has ended no other begins, also if nobody waits for it any
    /// more: clients that ask and go while the disk hangs keep one thread waiting, not as many as there can be.
    async fn read<T: Send + 'static>(
        &self,
        from: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let turn = Arc::clone(&self.reading).lock_owned().await;
        let store = Arc::clone(&self.inner.borrow().store);
        tokio::task::spawn_blocking(move || {
            let found = from(&lock(&store));
            drop(turn);
            found
        })
        .await
    }

    /// Has the workers look for flows, one such search at a time.
    async fn find_flows(&self, query: FlowQuery) -> Result<FlowPage, Unavailable> {
        // The turn first: what a name stands for may change while others are served.
        let turn = self.scanning.lock().await;
        let filter = self.inner.borrow().filter(&query);
        let found = match filter {
            Ok(filter) => self.scan(&turn, filter, SCAN_PATIENCE).await?,
            Err(NothingMatches) => Found::default(),
        };
        let inner = self.inner.borrow();
        let flows = found.flows.iter().map(|record| inner.flow_view(record)).collect();
        Ok(FlowPage { flows, matching: found.matching, total: inner.live_flows() })
    }

    /// Has the workers walk their tables.
    pub(super) async fn scan(
        &self,
        _turn: &MutexGuard<'_, ()>,
        filter: FlowFilter,
        patience: Duration,
    ) -> Result<Found, Unavailable> {
        let receiver = {
            let mut inner = self.inner.borrow_mut();
            if !inner.workers.have_room() {
                return Err(Unavailable(STUCK.to_owned()));
            }
            inner.scans = inner.scans.wrapping_add(1);
            let number = inner.scans;
            let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
            let (scan, receiver) = Scan::new(number, inner.workers.links().len(), limit);
            inner.scan = Some(scan);
            inner.workers.scan(FlowFilter { scan: number, ..filter });
            receiver
        };
        let found = tokio::time::timeout(patience, receiver).await;
        self.inner.borrow_mut().scan = None;
        found.ok().and_then(Result::ok).ok_or_else(|| {
            let seconds = patience.as_secs();
            Unavailable(format!("the workers did not go through their flows within {seconds} s"))
        })
    }
}

/// A filter that no flow can match: it names what this node does not have.
struct NothingMatches;

impl Inner {
    fn target_statuses(&self, group: &TargetGroup) -> Vec<TargetStatus> {
        let name = group.name.as_str();
        let mut statuses: Vec<TargetStatus> = group
            .targets
            .iter()
            .filter_map(|(address, target)| {
                let key = TargetKey::new(name, *address);
                let view = self.health.view(&key)?;
                let flows = self.flows_of(&key);
                let (reason, description) = told(view.reason);
                Some(TargetStatus {
                    address: *address,
                    zone: target.zone.as_ref().map(ToString::to_string),
                    weight: target.weight.get(),
                    state: view.state,
                    reason,
                    description,
                    since: view.since.wall.into(),
                    drain_left: self.drains.left(&key, self.now()),
                    neighbour: self.next_hop_view(*address),
                    flows,
                    would_die: self.would_die(group, &key),
                    in_band: self.inband_view(&key),
                })
            })
            .collect();
        // Those that are gone and still have flows (T-4).
        for (key, slot) in self.slots.iter() {
            let flows = self.workers.flows_of(slot.id);
            if &*key.group == name && !group.targets.contains_key(&key.address) && flows > 0 {
                let reason = StateReason::plain(ReasonCode::NotRegistered);
                statuses.push(TargetStatus {
                    address: key.address,
                    zone: None,
                    weight: 0,
                    state: HealthState::Unused,
                    reason: Some(reason.code),
                    description: reason.description,
                    since: Timestamp::now(),
                    drain_left: None,
                    neighbour: self.next_hop_view(key.address),
                    flows,
                    would_die: self.would_die(group, key),
                    in_band: self.inband_view(key),
                });
            }
        }
        statuses.sort_by_key(|status| status.address);
        statuses
    }

    /// Flows that the target's sudden death would end: its TCP flows, unless they would move.
    pub(super) fn would_die(&self, group: &TargetGroup, key: &TargetKey) -> u64 {
        use crate::control::model::Failover;
        match (group.settings().failover, self.slots.get(key)) {
            (Failover::NoRebalance, Some(Slot { id, .. })) => {
                self.workers.sum(|counters| &counters.target(id).active_tcp_flows)
            }
            _ => 0,
        }
    }

    pub(super) fn live_flows(&self) -> u64 {
        self.slots.iter().map(|(_, slot)| self.workers.flows_of(slot.id)).sum()
    }

    /// What the workers are to look for.
    fn filter(&self, query: &FlowQuery) -> Result<FlowFilter, NothingMatches> {
        let target = match (&query.target_group_arn, query.target) {
            (_, None) => None,
            (group, Some(address)) => {
                let of_group = |key: &TargetKey| group.as_deref().is_none_or(|group| group == &*key.group);
                let found = self.slots.iter().find(|(key, _)| key.address == address && of_group(key));
                Some(found.ok_or(NothingMatches)?.1.id)
            }
        };
        let endpoint = match &query.endpoint {
            None => None,
            Some(name) => {
                let endpoints = &self.compiler.node().endpoints;
                let place = endpoints.iter().position(|endpoint| endpoint.name.as_str() == name);
                Some(
                    place
                        .and_then(|place| u16::try_from(place).ok())
                        .map(EndpointId)
                        .ok_or(NothingMatches)?,
                )
            }
        };
        let gateway = match (&query.target_group_arn, query.target) {
            (Some(group), None) => Some(self.gateway_of_group(group).ok_or(NothingMatches)?),
            _ => None,
        };
        Ok(FlowFilter {
            scan: 0,
            target,
            gateway,
            endpoint,
            protocol: query.protocol.map(|protocol| protocol.0),
            address: query.address,
            port: query.port,
            state: query.state.map(|state| match state {
                FlowState::HalfOpen => flow::FlowState::HalfOpen,
                FlowState::Established => flow::FlowState::Established,
                FlowState::Closed => flow::FlowState::Closed,
                FlowState::Expired => flow::FlowState::Expired,
                FlowState::Owing => flow::FlowState::Owing,
            }),
            ended_by: None,
            limit: u32::try_from(query.limit.get()).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn flow_view(&self, record: &messages::FlowRecord) -> FlowRecord {
        let has_ports = matches!(record.protocol, 1 | 6 | 17 | 58 | 132 | 136);
        let holder = self.slots.holder(record.target);
        let endpoint = self.compiler.node().endpoints.get(record.endpoint.index());
        let idle = record.now.since(record.last_seen);
        FlowRecord {
            endpoint: endpoint.map(|endpoint| endpoint.name.to_string()).unwrap_or_default(),
            protocol: Protocol(record.protocol),
            source: record.initiator.0,
            source_port: has_ports.then_some(record.initiator.1),
            destination: record.responder.0,
            destination_port: has_ports.then_some(record.responder.1),
            target_group: holder.map(|key| key.group.to_string()).unwrap_or_default(),
            target: holder.map_or(std::net::Ipv4Addr::UNSPECIFIED, |key| key.address),
            state: match record.state {
                flow::FlowState::HalfOpen => FlowState::HalfOpen,
                flow::FlowState::Closed => FlowState::Closed,
                flow::FlowState::Expired => FlowState::Expired,
                flow::FlowState::Owing => FlowState::Owing,
                flow::FlowState::Established | flow::FlowState::Other | flow::FlowState::Free => {
                    FlowState::Established
                }
            },
            idle_ms: u64::from(idle),
            expires_in_ms: u64::from(record.expires_in_ms),
            cookie: format!("{:08x}", record.cookie),
            worker: record.worker.0,
        }
    }
}

pub(super) fn told(reason: Option<StateReason>) -> (Option<ReasonCode>, String) {
    reason.map_or((None, String::new()), |reason| (Some(reason.code), reason.description))
}
