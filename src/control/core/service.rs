//! The control core as the socket sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::{MutexGuard, broadcast};

use super::scan::{Found, Scan};
use super::{Core, Inner, Stored, lock};
use crate::control::events::{Event, Timestamp};
use crate::control::failover::FailoverList;
use crate::control::health::{CheckTotals, HealthState, ReasonCode, StateReason, TargetKey};
use crate::control::model::{Change, ChangeRecord, ForeignId, State, TargetGroup, Zone};
use crate::control::slots::Slot;
use crate::control::socket::views::{
    CounterScope, CounterSet, Counters, EndpointView, FlowPage, FlowQuery, FlowRecord, FlowState,
    HistoryEntry, Overview, PortView, Preview, Protocol, WorkerView,
};
use crate::control::socket::{
    Applied, ChangeError, Drafted, Service, TargetStatus, Turn, Unavailable, Waiting,
};
use crate::control::store::Version;
use crate::datapath::counters::{
    Counter, DropReason, IcmpAnswer, Outcome, ResetTrigger, Suppressed, WorkerCounters,
};
use crate::datapath::messages::{self, FlowFilter};
use crate::flow;
use crate::id::{EndpointId, GatewayId, TargetId};

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

    fn history(&self) -> Vec<HistoryEntry> {
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
        lock(&self.inner.borrow().store).history().into_iter().map(entry).collect()
    }

    fn earlier(&self, generation: u64) -> Result<Option<State>, Unavailable> {
        let inner = self.inner.borrow();
        lock(&inner.store).earlier(generation).map_err(|error| Unavailable(error.to_string()))
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

    fn counters(&self) -> Counters {
        let mut sets = self.inner.borrow().counter_sets();
        sets.extend((self.ports)().into_iter().map(|port| CounterSet {
            scope: CounterScope::Port,
            name: port.port_name,
            counters: named([
                ("ReceivedPackets", port.received),
                ("SentPackets", port.sent),
                ("MissedPackets", port.missed),
            ]),
            drops: BTreeMap::new(),
        }));
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

    fn overview(&self, window: Duration) -> Overview {
        self.overview_now(window)
    }

    fn ports(&self) -> Vec<PortView> {
        (self.ports)()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        // Else a target's state that whoever asks sees already would be told to it as news.
        self.hear_health();
        self.events.subscribe()
    }

    fn advance_clock(&self, milliseconds: u32) {
        let mut inner = self.inner.borrow_mut();
        inner.ahead += Duration::from_millis(u64::from(milliseconds));
        inner.workers.advance_clock(milliseconds);
    }
}

impl Core {
    pub(super) fn uptime_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
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

    fn flow_view(&self, record: &messages::FlowRecord) -> FlowRecord {
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

    fn counter_sets(&self) -> Vec<CounterSet> {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let set =
            |scope, name: String, counters| CounterSet { scope, name, counters, drops: BTreeMap::new() };
        let mut sets = vec![CounterSet {
            drops: DropReason::ALL
                .iter()
                .map(|reason| (reason.name().to_owned(), sum(&|all| &all.drops[reason.index()])))
                .collect(),
            ..set(CounterScope::Node, String::new(), packets(sum))
        }];
        // H-7: from the decision to the last worker that goes by it, at worst.
        let slowest = self.workers.slowest_condition().as_micros();
        let slowest = u64::try_from(slowest).unwrap_or(u64::MAX);
        sets[0].counters.insert("SlowestConditionMicroseconds".to_owned(), slowest);
        for link in self.workers.links() {
            let one = |of: &dyn Fn(&WorkerCounters) -> &Counter| of(&link.counters).get();
            let mut counters = packets(one);
            // F-13: the longest that a worker took over what one round brought.
            let longest = self.workers.clock().duration_of(link.counters.longest_rounds.ever().cycles);
            let longest = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
            counters.insert("LongestRoundNanoseconds".to_owned(), longest);
            sets.push(CounterSet {
                drops: DropReason::ALL
                    .iter()
                    .map(|reason| (reason.name().to_owned(), link.counters.drops[reason.index()].get()))
                    .collect(),
                ..set(CounterScope::Worker, link.id.0.to_string(), counters)
            });
        }
        for balancer in self.state.load_balancers() {
            let Some(id) = self.compiler.gateway_id(&balancer.name) else { continue };
            let group = self.state.target_group_of(balancer);
            let mut counters = group.map(|group| self.group_counters(group)).unwrap_or_default();
            counters.extend(self.gateway_counters(id));
            sets.push(set(CounterScope::LoadBalancer, balancer.name.to_string(), counters));
        }
        for group in self.state.target_groups() {
            sets.push(set(CounterScope::TargetGroup, group.name.to_string(), self.group_counters(group)));
        }
        for (key, slot) in self.slots.iter() {
            let name = format!("{}/{}", key.group, key.address);
            sets.push(set(CounterScope::Target, name, self.target_counters(key, slot)));
        }
        sets
    }

    fn gateway_counters(&self, id: GatewayId) -> BTreeMap<String, u64> {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let resets = |trigger: ResetTrigger| sum(&|all| &all.gateway(id).resets[trigger.index()]);
        let mut counters = named([
            ("RejectedFlowCount", sum(&|all| &all.gateway(id).rejected_flows)),
            ("RejectedFlowCount_TCP", sum(&|all| &all.gateway(id).rejected_flows_tcp)),
            ("FailOpenFlowCount", sum(&|all| &all.gateway(id).fail_open_flows)),
            ("StatelessPackets", sum(&|all| &all.gateway(id).stateless_packets)),
            ("TCP_ELB_Reset_Count", ResetTrigger::ALL.iter().map(|trigger| resets(*trigger)).sum()),
        ]);
        counters.extend(ResetTrigger::ALL.iter().map(|trigger| (reset_name(*trigger), resets(*trigger))));
        //
        let held = |why: &Suppressed| sum(&|all| &all.gateway(id).suppressed[why.index()]);
        counters.insert("SuppressedResetCount".to_owned(), Suppressed::ALL.iter().map(held).sum());
        let name = |why: &Suppressed| format!("SuppressedResetCount_{}", why.name());
        counters.extend(Suppressed::ALL.iter().map(|why| (name(why), held(why))));
        counters
    }

    /// All that was ever counted for a slot, whoever held it.
    pub(super) fn slot_counters(&self, id: TargetId) -> BTreeMap<String, u64> {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let resets = |trigger: ResetTrigger| sum(&|all| &all.target(id).resets[trigger.index()]);
        let out = (sum(&|all| &all.target(id).packets_out), sum(&|all| &all.target(id).bytes_out));
        let back = (sum(&|all| &all.target(id).packets_back), sum(&|all| &all.target(id).bytes_back));
        let mut counters = named([
            ("NewFlowCount", sum(&|all| &all.target(id).new_flows)),
            ("ProcessedPackets", out.0 + back.0),
            ("ProcessedBytes", out.1 + back.1),
            ("PacketsToTarget", out.0),
            ("BytesToTarget", out.1),
            ("PacketsFromTarget", back.0),
            ("BytesFromTarget", back.1),
            ("MovedFlowCount", sum(&|all| &all.target(id).moved_away)),
            ("TCP_ELB_Reset_Count", ResetTrigger::ALL.iter().map(|trigger| resets(*trigger)).sum()),
        ]);
        counters.extend(ResetTrigger::ALL.iter().map(|trigger| (reset_name(*trigger), resets(*trigger))));
        counters
    }

    fn target_counters(&self, key: &TargetKey, Slot { id, .. }: Slot) -> BTreeMap<String, u64> {
        let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| self.workers.sum(of);
        let mut counters = self.departed.of_holder(id, self.slot_counters(id));
        counters.extend(named([
            ("ActiveFlowCount", sum(&|all| &all.target(id).active_flows)),
            ("ActiveFlowCount_TCP", sum(&|all| &all.target(id).active_tcp_flows)),
        ]));
        counters.extend(self.health.view(key).map(|view| checks(view.checks)).unwrap_or_default());
        counters
    }

    /// A group's counters: the sums of its targets', those that are gone too, and how many are healthy.
    fn group_counters(&self, group: &TargetGroup) -> BTreeMap<String, u64> {
        let mut counters = self.departed.of_group(group.name.as_str());
        for (key, slot) in self.slots.iter().filter(|(key, _)| &*key.group == group.name.as_str()) {
            for (name, value) in self.target_counters(key, slot) {
                *counters.entry(name).or_default() += value;
            }
            let state = self.health.view(key).map(|view| view.state);
            for (name, counted) in
                [("HealthyHostCount", HealthState::Healthy), ("UnHealthyHostCount", HealthState::Unhealthy)]
            {
                *counters.entry(name.to_owned()).or_default() += u64::from(state == Some(counted));
            }
        }
        counters
    }
}

/// The packet counters of the node or of one worker.
fn packets(of: impl Fn(&dyn Fn(&WorkerCounters) -> &Counter) -> u64) -> BTreeMap<String, u64> {
    let ended = |outcome: Outcome| of(&|all| &all.outcomes[outcome.index()]);
    let mut counters = named([
        ("ReceivedPackets", of(&|all| &all.received)),
        ("ForwardedPackets", ended(Outcome::Forwarded)),
        ("DeliveredPackets", ended(Outcome::Delivered)),
        ("AnsweredPackets", ended(Outcome::Answered)),
        ("CrossedPackets", ended(Outcome::Crossed)),
        ("HostPackets", ended(Outcome::Host)),
        ("FromHostPackets", ended(Outcome::FromHost)),
        ("DroppedPackets", DropReason::ALL.iter().map(|reason| of(&|all| &all.drops[reason.index()])).sum()),
        ("SentFragments", of(&|all| &all.fragments_sent)),
        ("LoweredMssPackets", of(&|all| &all.mss_lowered)),
        ("HeldFragments", of(&|all| &all.fragments_held)),
        ("WaitingFragments", of(&|all| &all.fragments_waiting)),
        ("IcmpErrorsOfFlows", of(&|all| &all.errors_of_flows)),
        ("IcmpErrorsOfNoFlow", of(&|all| &all.errors_of_no_flow)),
        ("HandedOffPackets", of(&|all| &all.handed_off)),
        ("HandedInPackets", of(&|all| &all.handed_in)),
        ("LookUpsByHash", of(&|all| &all.lookups_by_hash)),
        ("LookUpsByCookie", of(&|all| &all.lookups_by_cookie)),
        ("LookUpsStateless", of(&|all| &all.lookups_stateless)),
        ("FlowEntries", of(&|all| &all.flow_entries)),
        ("ExpiredFlowCount", of(&|all| &all.flows_expired)),
        ("EvictedFlowCount", of(&|all| &all.flows_evicted)),
        ("UnsentResets", of(&|all| &all.resets_unsent)),
        ("LostEvents", of(&|all| &all.events_lost)),
        ("Neighbours", of(&|all| &all.neighbours)),
        ("NeighboursRefused", of(&|all| &all.neighbours_refused)),
        ("Rounds", of(&|all| &all.rounds)),
        ("BusyRounds", of(&|all| &all.busy_rounds)),
        ("BusyCycles", of(&|all| &all.busy_cycles)),
        ("SleptCycles", of(&|all| &all.slept_cycles)),
    ]);
    counters.extend(IcmpAnswer::ALL.iter().map(|answer| {
        let name = format!("AnsweredPackets_{}", answer.name());
        (name, of(&|all| &all.icmp_answers[answer.index()]))
    }));
    counters
}

/// The counters of a target's checks.
fn checks(totals: CheckTotals) -> BTreeMap<String, u64> {
    named([
        ("HealthCheckCount", totals.made),
        ("HealthCheckCount_OutOfTurn", totals.out_of_turn),
        ("FailedHealthCheckCount_Timeout", totals.timeouts),
        ("FailedHealthCheckCount_ResponseCodeMismatch", totals.mismatches),
        ("FailedHealthCheckCount_FailedHealthChecks", totals.failures),
        ("FailedHealthCheckCount_InternalError", totals.internal_errors),
    ])
}

fn named<const N: usize>(counters: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn reset_name(trigger: ResetTrigger) -> String {
    format!("TCP_ELB_Reset_Count_{}", trigger.name())
}

pub(super) fn told(reason: Option<StateReason>) -> (Option<ReasonCode>, String) {
    reason.map_or((None, String::new()), |reason| (Some(reason.code), reason.description))
}
