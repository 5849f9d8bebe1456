//! An endpoint in service, on a thread of its own, and a client's request.

use crate::client::{Answer, Client};
use crate::sample;
use flowgate::control::events::{Event, Timestamp};
use flowgate::control::failover::FailoverList;
use flowgate::control::health::HealthState;
use flowgate::control::http::Limits;
use flowgate::control::monitor::metrics::Snapshot;
use flowgate::control::monitor::{
    Behind, Endpoint, NotReadyFile, Readiness, Recorder, Source, Watched, serve,
};
use flowgate::control::node::Monitor;
use flowgate::control::socket::views::{
    NextHopView, NodeOverview, Overview, ReadinessOverview, TargetGroupOverview, TargetOverview, Totals,
    Traffic,
};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::oneshot;

/// Limits that a test can wait for.
pub const LIMITS: Limits =
    Limits { connections: 8, patience: Duration::from_millis(1500), silence: Duration::from_millis(2500) };

/// A node that stands as the test says.
#[derive(Clone)]
pub struct Node {
    pub readiness: Arc<Mutex<Readiness>>,
    /// How many targets it has.
    pub targets: u16,
    pub overview: Arc<Mutex<Overview>>,
    pub events: Sender<Event>,
}

impl Source for Node {
    fn readiness(&self) -> Readiness {
        self.readiness.lock().unwrap().clone()
    }

    fn snapshot(&self) -> Snapshot {
        sample::snapshot(2, self.targets)
    }
}

impl Watched for Node {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn overview(&self) -> Overview {
        self.overview.lock().unwrap().clone()
    }

    fn failovers(&self) -> FailoverList {
        FailoverList { not_recorded: 3, ..FailoverList::default() }
    }

    fn events(&self) -> Receiver<Event> {
        self.events.subscribe()
    }
}

impl Node {
    fn sound(targets: u16) -> Node {
        let silent_for = vec![Duration::from_millis(1)];
        let readiness = Readiness { silent_for, generation: 3, ..Readiness::default() };
        Node {
            readiness: Arc::new(Mutex::new(readiness)),
            targets,
            overview: Arc::new(Mutex::new(overview())),
            events: Sender::new(32_768),
        }
    }
}

/// A node that has a group with a target.
fn overview() -> Overview {
    let target = TargetOverview {
        address: [192, 0, 2, 1].into(),
        zone: None,
        weight: 1,
        state: HealthState::Healthy,
        reason: None,
        description: String::new(),
        since: None,
        drain: None,
        checks: None,
        neighbour: NextHopView { next_hop: None, mac: None, state: "no-route".to_owned() },
        flows: 7,
        would_die: 7,
        silent_for_ms: 0,
        traffic: Traffic::default(),
        reset_flows_last_minute: 0,
        open_failover: None,
    };
    let group = TargetGroupOverview {
        name: "fw".to_owned(),
        load_balancer: None,
        health_check: "TCP 80".to_owned(),
        health_check_interval_ms: 1000,
        unhealthy_threshold_count: 2,
        detection_time_ms: 2000,
        worst_detection_time_ms: 3000,
        deregistration_delay_ms: 0,
        rebalances: false,
        resets_on_unhealthy: true,
        resets_on_deregistration: true,
        flows: 7,
        traffic: Traffic::default(),
        targets: vec![target],
    };
    Overview {
        at: Timestamp::now(),
        node: NodeOverview {
            product: "flowgate".to_owned(),
            version: "0".to_owned(),
            generation: 3,
            uptime_ms: 1,
            is_replaced: false,
        },
        readiness: ReadinessOverview { ready: true, missing: Vec::new() },
        troubles: Vec::new(),
        load_balancers: Vec::new(),
        target_groups: vec![group],
        endpoints: Vec::new(),
        ports: Vec::new(),
        workers: Vec::new(),
        totals: Totals { flows: 7, ..Totals::default() },
    }
}

pub struct Served {
    pub address: SocketAddr,
    pub node: Node,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start() -> Self {
        Served::start_with("127.0.0.1:0", Limits::default())
    }

    pub fn start_with(address: &str, limits: Limits) -> Self {
        Served::with_targets(4, address, limits)
    }

    pub fn with_targets(targets: u16, address: &str, limits: Limits) -> Self {
        let config: Monitor = toml::from_str(&format!("address = \"{address}\"")).unwrap();
        let (ready, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let node = Node::sound(targets);
        let behind_it = node.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, async {
                let endpoint = Endpoint::bind(&config).unwrap().unwrap();
                ready.send(endpoint.address().unwrap()).unwrap();
                let recorder = Recorder::new(Rc::new(behind_it.clone()));
                let not_ready_file = Rc::new(NotReadyFile::new(Path::new("/nonexistent/not-ready")));
                let behind = Behind { source: Rc::new(behind_it), recorder, not_ready_file };
                tokio::select! {
                    ended = serve(endpoint, behind, limits) => panic!("it ended: {ended:?}"),
                    _ = stopped => {}
                }
            });
        });
        Served { address: started.recv().unwrap(), node, stop: Some(stop), thread: Some(thread) }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// The answer to a plain request.
    pub fn get(&self, path: &str) -> Answer {
        self.ask(&get(path, ""))
    }

    /// The answer to these bytes, on a connection of their own.
    pub fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.answer().unwrap_or_else(|| panic!("no answer to {request}"))
    }
}

/// A request with more header lines.
pub fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost:6082\r\n{more}\r\n")
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there is the test's failure already, or follows from it.
            thread.join().ok();
        }
    }
}
