//! A control core of the test's making: the real objects and rules, and numbers at rest in place of
//! workers and health checks. Its clock stands still unless it is advanced.

#[path = "fake_overview.rs"]
mod overview;

// Beside this file, whoever includes it.
#[path = "recorded.rs"]
mod recorded;

use flowgate::control::audit::{Entrance, NodeFigures};
use flowgate::control::capture::{CaptureParts, CaptureStream, Names};
use flowgate::control::events::{Event, Timestamp, What};
use flowgate::control::explain::story::flags;
use flowgate::control::explain::{Asked, NotExplained, Packets, Tuple};
use flowgate::control::failover::FailoverList;
use flowgate::control::health::{AnswerTimes, HealthState, ReasonCode};
use flowgate::control::logging::{Filter as LogFilter, LogControl};
use flowgate::control::model::{Change, ChangeRecord, ForeignId, MAX_TARGETS, State, TargetGroup, Zone};
use flowgate::control::socket::methods::flow_log::StartFlowLog;
use flowgate::control::socket::views::{
    BurstClass, CaptureQuery, ChoiceView, ChosenView, CounterScope, CounterSet, Counters, EndpointView,
    ExplainedOutcome, ExplainedStep, Explanation, Fate, FlowEffect, FlowLogState, FlowLogView, FlowPage,
    FlowQuery, FlowRecord, FlowState, FlowStates, FlowTablesView, HistoryEntry, HostInterfaceView,
    InBandView, InterfaceView, LongestBurst, LookUps, NeighbourView, NextHopView, Overview, PacketView,
    PortCapabilities, PortView, Preview, Protocol, RouteView, WorkerLoad, WorkerMemory, WorkerView,
};
use flowgate::control::socket::{
    Applied, CaptureError, ChangeError, ControlListener, FlowLogRefused, Limits, Service, TargetStatus, Turn,
    Unavailable, Waiting, methods, serve,
};
use flowgate::control::telling::{EventCounts, Teller, Told};
use flowgate::control::troubles::Watch;
use flowgate::datapath::capture::filter::Filter;
use flowgate::datapath::capture::record::{Point, Record, Verdict};
use flowgate::datapath::capture::{Bounds, Capture, Seen};
use flowgate::datapath::counters::{DropReason, ResetTrigger};
use flowgate::id::{EndpointId, GatewayId, Millis, PortId};
use flowgate::io::clock::Clock;
use flowgate::wire::tcp::TcpFlags;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::level_filters::LevelFilter;

pub use recorded::records;

/// Events kept for readers that are behind, as many as the control core keeps.
pub const QUEUE: usize = 2 * MAX_TARGETS;

/// When the fake's clock stands: 2026-11-29T20:47:37.007Z.
const NOW: i64 = 1_795_985_257_007;

const OBJECTS: &str = r#"{
  "version": 1,
  "load_balancers": [
    {"name": "gw", "id": "00000000000000aa", "zones": ["a"],
     "listener": {"id": "00000000000000bb", "target_group": "fw"}}
  ],
  "target_groups": [
    {"name": "fw", "id": "00000000000000cc",
     "health_check": {"protocol": "HTTP", "path": "/up", "port": 8080, "interval_seconds": 5, "timeout_seconds": 2},
     "targets": [
       {"address": "10.0.0.1", "zone": "a"}, {"address": "10.0.0.2"}, {"address": "10.0.0.3", "weight": 3}
     ]},
    {"name": "spare", "id": "00000000000000dd", "targets": []}
  ]
}"#;

/// A state that was, what led to the next one, and whose change that was.
type Kept = (State, Vec<String>, Option<String>);

pub struct Fake {
    state: RefCell<State>,
    now: Cell<i64>,
    /// Every state before, with what the change that ended it did, and by whom.
    history: RefCell<Vec<Kept>>,
    disk_full: Cell<bool>,
    /// Held by whoever changes the objects.
    changing: Arc<Mutex<()>>,
    readings: Cell<u64>,
    watch: RefCell<Watch>,
    /// Held once more by each capture.
    captures: Rc<()>,
    /// The worker's ends of captures.
    capturing: RefCell<Vec<Box<Capture>>>,
    log: LogControl,
    flow_log: RefCell<FlowLogView>,
    events: Teller,
    /// Since when it runs, and what it has told.
    started: Timestamp,
    told: Arc<Told>,
}

/// What a capture of the fake has.
const CAPTURED: [(Point, Verdict); 3] = [
    (Point::Arrived, Verdict::Reset(ResetTrigger::Unhealthy)),
    (Point::Reset, Verdict::Reset(ResetTrigger::Unhealthy)),
    (Point::Dropped, Verdict::Dropped(DropReason::UnknownFlow)),
];

/// A segment from 192.0.2.1:40000 to 198.51.100.1:443 with ACK.
const FRAME: &[u8] = &[
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // Ethernet
    0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x4e, 0xcd, 192, 0, 2, 1, 198, 51, 100, 1, // IPv4
    0x9c, 0x40, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0xff, 0xff, 0x4a, 0x5c, 0, 0, // TCP
];

impl Fake {
    pub fn new() -> Self {
        Fake::with(State::from_document(OBJECTS).unwrap())
    }

    pub fn with(state: State) -> Self {
        Fake::living(state, Timestamp::from_unix_ms(NOW), Arc::default())
    }

    /// One that was started then and has told so much.
    fn living(state: State, started: Timestamp, told: Arc<Told>) -> Self {
        Fake {
            state: RefCell::new(state),
            now: Cell::new(NOW),
            history: RefCell::default(),
            disk_full: Cell::new(false),
            changing: Arc::default(),
            readings: Cell::new(0),
            watch: RefCell::default(),
            captures: Rc::new(()),
            capturing: RefCell::default(),
            log: LogControl::detached(LogFilter::of(LevelFilter::INFO)),
            flow_log: RefCell::default(),
            events: Teller::new(QUEUE, Arc::clone(&told)),
            started,
            told,
        }
    }

    pub fn fill_the_disk(&self) {
        self.disk_full.set(true);
    }

    fn flow_list() -> Vec<FlowRecord> {
        (0..250_u16)
            .map(|number| FlowRecord {
                endpoint: "lan".to_owned(),
                protocol: if number < 200 { Protocol(6) } else { Protocol(17) },
                source: Ipv4Addr::new(192, 0, 2, 1).into(),
                source_port: Some(40_000 + number),
                destination: Ipv4Addr::new(198, 51, 100, 1).into(),
                destination_port: Some(443),
                target_group: "fw".to_owned(),
                target: Ipv4Addr::new(10, 0, 0, 1 + u8::try_from(number % 2).unwrap()),
                state: FlowState::Established,
                idle_ms: 1500,
                expires_in_ms: 348_500,
                cookie: format!("{number:08x}"),
                worker: 0,
            })
            .collect()
    }
}

impl Service for Fake {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.now.get())
    }

    fn state(&self) -> State {
        self.state.borrow().clone()
    }

    fn turn(&self) -> Waiting<'_, Turn> {
        Box::pin(async { Turn::of(Arc::clone(&self.changing).lock_owned().await) })
    }

    fn history(&self) -> Waiting<'_, Vec<HistoryEntry>> {
        let past = self.history.borrow();
        let seed = (vec!["Load balancer 'gw' is created".to_owned()], Some("the seed".to_owned()));
        let changes =
            std::iter::once(seed).chain(past.iter().map(|(_, what, by)| (what.clone(), by.clone())));
        let entry = |(generation, (what, by)): (u64, (Vec<String>, Option<String>))| HistoryEntry {
            generation,
            current: generation == self.state().generation(),
            at: Some(Timestamp::from_unix_ms(NOW)),
            by,
            what,
        };
        let history = (0..).zip(changes).map(entry).collect::<Vec<_>>().into_iter().rev().collect();
        Box::pin(std::future::ready(history))
    }

    fn earlier(&self, generation: u64) -> Waiting<'_, Result<Option<State>, Unavailable>> {
        let past = self.history.borrow();
        let found = past.iter().map(|(state, ..)| state).find(|state| state.generation() == generation);
        Box::pin(std::future::ready(Ok(found.cloned())))
    }

    fn preview<'a>(&'a self, next: &'a State) -> Waiting<'a, Preview> {
        // 125 flows a target of the group that is used; those of targets which leave drain.
        let state = self.state();
        let Ok(group) = next.target_group("fw") else { return Box::pin(async { Preview::default() }) };
        let leaves =
            |address: &Ipv4Addr| !group.targets.get(address).is_some_and(|target| target.is_registered());
        let registered = state.target_group("fw").unwrap().targets.iter().filter(|(_, t)| t.is_registered());
        let effect = |target| FlowEffect {
            target_group: "fw".to_owned(),
            target: Some(target),
            flows: 125,
            at_most: false,
            fate: Fate::Drained,
            then: group.settings().reset_on_deregistration.then_some(Fate::Reset),
            held_by: None,
        };
        let flows = registered.map(|(address, _)| *address).filter(leaves).map(effect).collect();
        Box::pin(async {
            // As the workers would, it answers later.
            tokio::task::yield_now().await;
            Preview { flows, health: Vec::new() }
        })
    }

    fn apply_by(&self, change: &Change, by: Option<&str>) -> Result<Applied, ChangeError> {
        let before = self.state();
        let (next, outcome) = before.apply(change)?;
        if self.disk_full.get() {
            return Err(ChangeError::NotStored("no space left on device".to_owned()));
        }
        let generation = next.generation();
        if outcome.is_change() {
            // Whoever runs the tests is root here, so that what is told repeats.
            let me = format!("uid {}", nix::unistd::getuid());
            let by = by.map(|by| if by == me { "root" } else { by });
            let record = ChangeRecord::new(&before, &next, 0, by);
            self.history.borrow_mut().push((before, record.what, record.by));
        }
        self.state.replace(next);
        if outcome.is_change() {
            self.events.tell(Event { at: self.now(), what: What::ConfigChanged { generation } });
        }
        Ok(Applied { generation, outcome })
    }

    fn subnets(&self) -> BTreeMap<ForeignId, Zone> {
        let zone = |name: &str| Zone::try_from(name.to_owned()).unwrap();
        let subnet = |id: &str| ForeignId::try_from(id.to_owned()).unwrap();
        [(subnet("subnet-0a"), zone("a")), (subnet("subnet-0b"), zone("b")), (subnet("subnet-1b"), zone("b"))]
            .into()
    }

    fn targets(&self, group: &TargetGroup) -> Vec<TargetStatus> {
        let status = |(address, target): (&Ipv4Addr, &flowgate::control::model::Target)| {
            let (state, reason) = match (target.is_registered(), address.octets()[3]) {
                (false, _) => (HealthState::Draining, Some(ReasonCode::DeregistrationInProgress)),
                (true, 1) => (HealthState::Healthy, None),
                (true, 2) => (HealthState::Unhealthy, Some(ReasonCode::Timeout)),
                (true, _) => (HealthState::Initial, Some(ReasonCode::RegistrationInProgress)),
            };
            TargetStatus {
                address: *address,
                zone: target.zone.as_ref().map(ToString::to_string),
                weight: target.weight.get(),
                state,
                reason,
                description: reason.map(|reason| reason.sentence().to_owned()).unwrap_or_default(),
                since: Timestamp::from_unix_ms(NOW - 60_000),
                drain_left: group.drain_of(*address).map(|drain| {
                    let now = u64::try_from(self.now().unix_ms()).expect("after 1970");
                    Duration::from_millis(drain.ends_unix_ms().saturating_sub(now))
                }),
                flows: 125,
                neighbour: NextHopView {
                    next_hop: Some(*address),
                    mac: Some("02:00:00:00:00:11".to_owned()),
                    state: "reachable".to_owned(),
                },
                would_die: 100,
                in_band: Some(InBandView {
                    packets_to_target: 5000,
                    packets_from_target: 4000,
                    silent_for_ms: if state == HealthState::Unhealthy { 1500 } else { 0 },
                }),
            }
        };
        group.targets.iter().map(status).collect()
    }

    fn flows(&self, query: FlowQuery) -> Waiting<'_, Result<FlowPage, Unavailable>> {
        Box::pin(async move {
            // As a worker would, it answers later.
            tokio::task::yield_now().await;
            let all = Fake::flow_list();
            let total = all.len() as u64;
            let matching: Vec<_> = all
                .into_iter()
                .filter(|flow| query.target.is_none_or(|target| flow.target == target))
                .filter(|flow| query.protocol.is_none_or(|protocol| flow.protocol == protocol))
                .filter(|flow| {
                    query.target_group_arn.as_ref().is_none_or(|group| flow.target_group == *group)
                })
                .filter(|flow| {
                    query.port.is_none_or(|p| flow.source_port == Some(p) || flow.destination_port == Some(p))
                })
                .collect();
            let count = matching.len() as u64;
            let flows = matching.into_iter().take(query.limit.get()).collect();
            Ok(FlowPage { flows, matching: count, total })
        })
    }

    fn explain(&self, asked: Asked) -> Waiting<'_, Result<Vec<Explanation>, NotExplained>> {
        Box::pin(async move {
            // As a worker would, it answers later.
            tokio::task::yield_now().await;
            if asked.endpoint.as_deref().is_some_and(|name| name != "lan" && name != "offices") {
                return Err(NotExplained::NoEndpoint(asked.endpoint.unwrap_or_default()));
            }
            match asked.packets {
                Packets::Tuple(_) if asked.endpoint.is_none() => {
                    Err(NotExplained::WhichEndpoint("lan, offices".to_owned()))
                }
                Packets::Tuple(tuple) => Ok(vec![explanation(&tuple)]),
                Packets::OfCookie { cookie: 7, flags, .. } => {
                    let (source, destination) =
                        (([192, 0, 2, 1].into(), 40_007), ([198, 51, 100, 1].into(), 443));
                    Ok(vec![explanation(&Tuple { protocol: 6, source, destination, flags, payload: 0 })])
                }
                Packets::OfCookie { cookie, .. } if cookie >> 31 == 1 => Err(NotExplained::Stateless(cookie)),
                Packets::OfCookie { cookie, .. } => Err(NotExplained::NoFlow(cookie)),
                Packets::Frames { frames, .. } => Ok(frames.iter().map(|frame| unread(frame)).collect()),
            }
        })
    }

    fn figures(&self) -> NodeFigures {
        let times = |count, usual, slowest| AnswerTimes {
            count,
            usual: Duration::from_micros(usual),
            slowest: Duration::from_micros(slowest),
        };
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        NodeFigures {
            zone: Some("a".to_owned()),
            target_side: "under".to_owned(),
            target_side_mtu: 1500,
            entrances: ["left", "right"]
                .map(|port| Entrance {
                    load_balancer: "gw".to_owned(),
                    endpoint: "lan".to_owned(),
                    port: port.to_owned(),
                    mtu: 1500,
                })
                .into(),
            answers: [
                (("fw".to_owned(), address(1)), times(720, 1800, 2600)),
                (("fw".to_owned(), address(2)), times(300, 2100, 3000)),
            ]
            .into(),
            sent_to: BTreeSet::new(),
        }
    }

    fn counters(&self) -> Counters {
        let of = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let set =
            |scope, name: &str, counters, drops| CounterSet { scope, name: name.to_owned(), counters, drops };
        Counters {
            at: self.now(),
            uptime_ms: 3_600_000,
            sets: vec![
                set(
                    CounterScope::Node,
                    "",
                    of(&[("ActiveFlowCount", 250), ("RejectedFlowCount", 0)]),
                    of(&[("cookie_stale", 2)]),
                ),
                set(CounterScope::TargetGroup, "fw", of(&[("TCP_ELB_Reset_Count", 7)]), of(&[])),
            ],
        }
    }

    fn failovers(&self) -> FailoverList {
        FailoverList { failovers: records(), not_recorded: 0, not_stored: None }
    }

    fn endpoints(&self) -> Vec<EndpointView> {
        vec![
            EndpointView {
                endpoint_name: "lan".to_owned(),
                kind: "wire".to_owned(),
                endpoint_id: "0x0000000000000001".to_owned(),
                attachment_id: "0000000000000002".to_owned(),
                ports: vec!["left".to_owned(), "right".to_owned()],
                interfaces: vec![],
                routes: vec![],
                load_balancer: Some("gw".to_owned()),
                flows: 250,
            },
            routed_endpoint(),
        ]
    }

    fn flow_tables(&self) -> FlowTablesView {
        FlowTablesView {
            outcome: "taken_over".to_owned(),
            message: "the flow tables of the daemon before this one were taken over: 12 flows go on, 0 entries were \
                      torn, 0 flows were of endpoints or targets that there are no more"
                .to_owned(),
            kept: true,
            flows: 12,
            took_milliseconds: 3,
            gap_milliseconds: Some(170),
            ..FlowTablesView::default()
        }
    }

    fn workers(&self, window: Duration) -> Vec<WorkerView> {
        // Each reading finds a second's work done since the one before.
        let readings = self.readings.get() + 1;
        self.readings.set(readings);
        let burst = |microseconds| LongestBurst { microseconds, at: Timestamp::from_unix_ms(NOW - 1500) };
        vec![WorkerView {
            worker: 0,
            core: 1,
            flows: 250,
            capacity: 1_048_576,
            generation: self.state.borrow().generation(),
            heartbeat_age_ms: 3,
            memory: WorkerMemory { packets: "2 MiB".to_owned(), flow_table: "transparent".to_owned() },
            load: WorkerLoad {
                cycles: readings * 2_000_000_000,
                cycles_per_second: 2_000_000_000,
                busy_cycles: readings * 500_000_000,
                slept_cycles: 0,
                received: readings * 2_000_000,
                handed_out: readings * 1_000,
                handed_in: readings * 500_000,
                bursts: [(1, 10_000), (2, 0), (4, 0), (8, 0), (16, 60_000), (32, 10_000), (64, 20_000)]
                    .map(|(from, count)| BurstClass { from, count: readings * count })
                    .into(),
                look_ups: LookUps {
                    by_hash: readings * 1_500_000,
                    by_cookie: readings * 1_000_000,
                    stateless: 0,
                },
                flow_states: FlowStates {
                    half_open: 20,
                    established: 180,
                    other: 50,
                    ..FlowStates::default()
                },
                longest_burst: (window >= Duration::from_secs(2)).then(|| burst(17.5)),
                longest_burst_ever: Some(burst(17.5)),
            },
        }]
    }

    fn overview(&self, window: Duration) -> Overview {
        self.overview_now(window)
    }

    fn ports(&self) -> Vec<PortView> {
        vec![PortView {
            port_name: "left".to_owned(),
            device: "net_af_packet0".to_owned(),
            driver: "net_af_packet".to_owned(),
            mac: "02:00:00:00:00:01".to_owned(),
            mtu: 1500,
            link_up: true,
            queues: 1,
            capabilities: PortCapabilities::default(),
            received: 1000,
            sent: 900,
            missed: 0,
            received_bytes: 640,
            sent_bytes: 600,
            no_buffer: 0,
            receive_errors: 0,
            send_errors: 0,
        }]
    }

    /// One worker, which has captured a few packets already.
    fn capture(&self, query: &CaptureQuery) -> Result<CaptureStream, CaptureError> {
        if let Some(endpoint) = query.endpoint.as_ref().filter(|name| *name != "lan") {
            return Err(CaptureError::Unknown { parameter: "Endpoint", name: endpoint.clone() });
        }
        let names: Vec<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        if let Some(reason) = query.reasons.iter().find(|name| !names.contains(&name.as_str())) {
            return Err(CaptureError::Unknown { parameter: "Reasons", name: reason.clone() });
        }
        if Rc::strong_count(&self.captures) > 2 {
            return Err(CaptureError::TooMany(2));
        }
        let clock = Clock::start();
        let snap_len = usize::try_from(query.snap_len.get()).unwrap();
        let bounds = Bounds { snap_len, rate: 1000, ring: 1 << 16 };
        let (mut capture, captured) = Capture::new(Filter::default(), bounds, 1, clock.clone());
        for (point, verdict) in CAPTURED {
            let seen = Seen {
                endpoint: Some(EndpointId(0)),
                gateway: Some(GatewayId(0)),
                target: Some(0x0a00_0001),
                cookie: Some(0x2a),
                ..Seen::default()
            };
            let record = Record { port: Some(PortId(0)), ..Record::new(point, verdict, &seen, FRAME.len()) };
            capture.take(&record, &seen, FRAME, Millis(0));
        }
        self.capturing.borrow_mut().push(capture);
        let names = Names {
            endpoints: vec!["lan".to_owned()],
            gateways: vec![("gw".to_owned(), Some("fw".to_owned()))],
        };
        Ok(CaptureStream::new(CaptureParts {
            workers: vec![captured],
            ports: vec!["left".to_owned()],
            names: Rc::new(RefCell::new(names)),
            began: (0, UNIX_EPOCH + Duration::from_millis(u64::try_from(NOW).unwrap())),
            clock,
            limits: flowgate::control::capture::Limits {
                packets: query.packets,
                bytes: query.bytes.get(),
                duration: query.seconds.map(|seconds| Duration::from_secs(seconds.into())),
            },
            snap_len: u32::try_from(snap_len).unwrap(),
            filter: "all packets".to_owned(),
            slot: Rc::clone(&self.captures),
        }))
    }

    fn log(&self) -> LogControl {
        self.log.clone()
    }

    fn flow_log(&self) -> FlowLogView {
        self.flow_log.borrow().clone()
    }

    fn start_flow_log<'a>(
        &'a self,
        asked: &'a StartFlowLog,
    ) -> Waiting<'a, Result<FlowLogView, FlowLogRefused>> {
        let mut view = self.flow_log.borrow_mut();
        if view.state != FlowLogState::Off {
            let refused = FlowLogRefused::OnAlready(view.to.clone().unwrap());
            return Box::pin(std::future::ready(Err(refused)));
        }
        let options = asked.options(|name| Path::new("/var/lib/flowgate/flow-logs").join(name)).unwrap();
        *view = FlowLogView {
            state: FlowLogState::On,
            to: Some(options.to.to_string()),
            since: Some(self.now()),
            sample_one_in: Some(options.one_in),
            interim_seconds: options.interim.map(|time| time.as_secs()),
            ..FlowLogView::default()
        };
        Box::pin(std::future::ready(Ok(view.clone())))
    }

    fn stop_flow_log(&self) -> Result<FlowLogView, FlowLogRefused> {
        let mut view = self.flow_log.borrow_mut();
        if view.state == FlowLogState::Off {
            return Err(FlowLogRefused::NotOn);
        }
        view.state = FlowLogState::Off;
        Ok(view.clone())
    }

    fn events(&self) -> Receiver<Event> {
        self.events.listen()
    }

    fn started(&self) -> Timestamp {
        self.started
    }

    fn events_so_far(&self) -> EventCounts {
        self.told.counts()
    }

    fn advance_clock(&self, milliseconds: u32) {
        self.now.set(self.now.get() + i64::from(milliseconds));
        let now = u64::try_from(self.now.get()).unwrap();
        let over = |drain: &flowgate::control::model::Drain<'_>| drain.ends_unix_ms() <= now;
        let finish = |drain: flowgate::control::model::Drain<'_>| Change::FinishDraining {
            target_group: drain.target_group.name.to_string(),
            address: drain.address,
            since_unix_ms: drain.since_unix_ms,
        };
        let ended: Vec<Change> = self.state.borrow().drains().filter(over).map(finish).collect();
        for change in &ended {
            self.apply(change).unwrap();
        }
    }
}

/// What becomes of a SYN to an empty table, whatever the tuple.
fn explanation(tuple: &Tuple) -> Explanation {
    let (source, destination) = (tuple.source, tuple.destination);
    let target = Ipv4Addr::new(10, 0, 0, 1);
    let step = |text: &str, rules: &[&str], command: Option<&str>| ExplainedStep {
        text: text.to_owned(),
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        command: command.map(str::to_owned),
    };
    let chosen = |last, state| ChosenView { target: Ipv4Addr::new(10, 0, 0, last), state: Some(state) };
    Explanation {
        packet: PacketView {
            port: "left".to_owned(),
            endpoint: Some("lan".to_owned()),
            protocol: Some(Protocol(tuple.protocol)),
            source: Some(source.0),
            source_port: Some(source.1),
            destination: Some(destination.0),
            destination_port: Some(destination.1),
            flags: Some(flags(TcpFlags::from_bits_retain(tuple.flags))),
            length: 54,
        },
        outcome: ExplainedOutcome::Forwarded,
        sentence: "It goes to 10.0.0.1 (healthy), as the first packet of a new flow.".to_owned(),
        target: Some(target),
        drop_reason: None,
        reset: None,
        load_balancer: Some("gw".to_owned()),
        target_group: Some("fw".to_owned()),
        flow: None,
        choice: Some(ChoiceView {
            key: "5-tuple".to_owned(),
            row: 51_966,
            first: chosen(2, HealthState::Unhealthy),
            second: chosen(1, HealthState::Healthy),
            chosen: target,
            fail_open: false,
        }),
        steps: vec![
            step("No flow has its tuple.", &["F-1"], None),
            step("It is a SYN, which begins a flow.", &["F-8"], None),
            step(
                "The hash of its 5-tuple leads to row 51966: first 10.0.0.2 (unhealthy), second 10.0.0.1 (healthy); so it is 10.0.0.1.",
                &["F-3", "F-4"],
                Some("flowgate set fw stickiness.enabled=true"),
            ),
        ],
        worker: 0,
    }
}

/// What becomes of a frame that is too short.
fn unread(frame: &[u8]) -> Explanation {
    Explanation {
        packet: PacketView { port: "left".to_owned(), length: frame.len(), ..PacketView::default() },
        outcome: ExplainedOutcome::Dropped,
        sentence: "It is dropped.".to_owned(),
        target: None,
        drop_reason: Some("frame_truncated".to_owned()),
        reset: None,
        load_balancer: None,
        target_group: None,
        flow: None,
        choice: None,
        steps: Vec::new(),
        worker: 0,
    }
}

/// An endpoint that routes.
fn routed_endpoint() -> EndpointView {
    let neighbour = |address: &str, mac: Option<&str>, state: &str| NeighbourView {
        address: address.parse().unwrap(),
        mac: mac.map(str::to_owned),
        state: state.to_owned(),
    };
    let route = |prefix: &str, via: Option<&str>| RouteView {
        prefix: prefix.to_owned(),
        via: via.map(|via| via.parse().unwrap()),
        interface_name: "wan.100".to_owned(),
    };
    EndpointView {
        endpoint_name: "offices".to_owned(),
        kind: "routed".to_owned(),
        endpoint_id: "0x00000000000000a2".to_owned(),
        attachment_id: "0x0000000000000000".to_owned(),
        ports: vec!["wan".to_owned()],
        interfaces: vec![InterfaceView {
            interface_name: "wan.100".to_owned(),
            port_name: "wan".to_owned(),
            vlans: vec![100],
            addresses: vec!["10.1.0.1/24".to_owned()],
            mac: "02:00:00:00:00:03".to_owned(),
            mtu: 1500,
            host_interface: HostInterfaceView {
                name: "fg-wan.100".to_owned(),
                kind: "tap".to_owned(),
                up: true,
                to_host: 12,
                from_host: 11,
                lost: 0,
            },
            neighbour_count: 2,
            neighbours: vec![
                neighbour("10.1.0.9", None, "failed"),
                neighbour("10.1.0.254", Some("02:00:00:00:00:fe"), "reachable"),
            ],
        }],
        routes: vec![route("10.1.0.0/24", None), route("0.0.0.0/0", Some("10.1.0.254"))],
        load_balancer: Some("gw".to_owned()),
        flows: 0,
    }
}

/// A daemon: the fake behind a real socket, on a thread of its own.
pub struct Daemon {
    folder: TempDir,
    happen: Option<UnboundedSender<Vec<Event>>>,
    changing: Arc<Mutex<()>>,
    started: Timestamp,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    pub fn start() -> Self {
        Daemon::start_with(Limits::default())
    }

    pub fn start_with(limits: Limits) -> Self {
        Daemon::start_for(limits, None, 0o660)
    }

    /// With a socket of this group and mode.
    pub fn start_for(limits: Limits, group: Option<&'static str>, mode: u32) -> Self {
        let mut daemon = Daemon {
            folder: tempfile::tempdir().unwrap(),
            happen: None,
            changing: Arc::default(),
            started: Timestamp::from_unix_ms(NOW),
            told: Arc::default(),
            thread: None,
        };
        daemon.serve(limits, group, mode);
        daemon
    }

    /// Tells an event while nobody can hear it.
    pub fn told_unheard(&self, event: &Event) {
        Teller::new(1, Arc::clone(&self.told)).tell(event.clone());
    }

    /// Serves again after it was stopped, as a control core does that is started anew, or as another daemon.
    pub fn start_again(&mut self, is_another: bool) {
        if is_another {
            self.started = Timestamp::from_unix_ms(self.started.unix_ms() + 60_000);
            self.told = Arc::default();
        }
        self.serve(Limits::default(), None, 0o660);
    }

    fn serve(&mut self, limits: Limits, group: Option<&'static str>, mode: u32) {
        let path = self.path();
        let (happen, mut happenings) = tokio::sync::mpsc::unbounded_channel();
        let (ready, started) = mpsc::channel();
        let held = Arc::clone(&self.changing);
        let (since, told) = (self.started, Arc::clone(&self.told));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async {
                let state = State::from_document(OBJECTS).unwrap();
                let fake = Rc::new(Fake { changing: held, ..Fake::living(state, since, told) });
                let listener = ControlListener::bind(&path, group, mode).unwrap();
                ready.send(()).unwrap();
                let service: Rc<dyn Service> = Rc::clone(&fake) as Rc<dyn Service>;
                let serving = serve(listener, service, Rc::new(methods::debug_dispatcher()), limits);
                let happening = async {
                    while let Some(events) = happenings.recv().await {
                        for event in events {
                            fake.events.tell(event);
                        }
                    }
                };
                tokio::select! {
                    ended = serving => panic!("the server ended: {ended:?}"),
                    () = happening => {}
                }
            });
        });
        started.recv().unwrap();
        (self.happen, self.thread) = (Some(happen), Some(thread));
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("flowgated.sock")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lets `events` happen, all before the server runs again.
    pub fn happen(&self, events: Vec<Event>) {
        self.happen.as_ref().unwrap().send(events).unwrap();
    }

    /// Has all changes wait until this is dropped, as they wait for one that a slow disk holds up.
    pub fn hold_changes(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.changing).try_lock_owned().unwrap()
    }

    /// Ends it as the daemon ends: the future of the server is dropped.
    pub fn stop(&mut self) {
        drop(self.happen.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.happen.take());
        if let Some(thread) = self.thread.take() {
            // A panic there is the test's failure already, or follows from it.
            thread.join().ok();
        }
    }
}
