//! An endpoint in service, on a thread of its own, and a client's request.

use crate::client::{Answer, Client};
use crate::sample;
use flowgate::control::http::Limits;
use flowgate::control::monitor::metrics::Snapshot;
use flowgate::control::monitor::{Behind, Endpoint, Readiness, Source, serve};
use flowgate::control::node::Monitor;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
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
}

impl Source for Node {
    fn readiness(&self) -> Readiness {
        self.readiness.lock().unwrap().clone()
    }

    fn snapshot(&self) -> Snapshot {
        sample::snapshot(2, self.targets)
    }
}

impl Node {
    fn sound(targets: u16) -> Node {
        let silent_for = vec![Duration::from_millis(1)];
        let readiness = Readiness { silent_for, generation: 3, ..Readiness::default() };
        Node { readiness: Arc::new(Mutex::new(readiness)), targets }
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
                let behind = Behind { source: Rc::new(behind_it) };
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
