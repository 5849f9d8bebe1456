//! The control core's thread: one control core after the other, of which all but the last ended by a panic.
//!
//! A panic takes the control core and what is being said to its clients; it does not take the process, whose workers forward
//! meanwhile by the state that they have. What workers and the next control core share is lent to each ([`Home`]): the ends
//! of the rings, neighbours, the clocks of drains, flow logs, and what tables and counters call targets ([`Keeper`]). The
//! objects are read from the state file. The sockets that listen stay open, so that nobody is refused meanwhile.
//!
//! A control core that panics again and again is no help to anybody: after some times within a minute the process ends,
//! and whoever watches it starts it anew.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use flowgate::control::compile::Compiler;
use flowgate::control::core::{Core, CoreParts, Drains, FlowLogs, Life, NetworkParts};
use flowgate::control::elbv2;
use flowgate::control::health::HealthEngine;
use flowgate::control::health::check::SocketChecker;
use flowgate::control::http;
use flowgate::control::kept::Home;
use flowgate::control::logging::LogControl;
use flowgate::control::model::State;
use flowgate::control::monitor;
use flowgate::control::neighbours::Neighbours;
use flowgate::control::netlink::{Watched, watch};
use flowgate::control::node::NodeConfig;
use flowgate::control::panics::{self, Panic};
use flowgate::control::resume::SharedKeeper;
use flowgate::control::socket::{ControlListener, Limits, Service, methods, serve};
use flowgate::control::store::Store;
use flowgate::control::tables::Restart;
use flowgate::control::workers::Workers;
use flowgate::datapath::counters::WorkerCounters;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::Refusal;
use super::devices::Devices;
use super::service::{Feeder, Told};
use super::stops::{Hangups, Stops};

/// Questions to the kernel that wait at most; one that finds no room is asked again later.
const QUESTIONS: usize = 4096;

/// So many control cores may panic within [`WITHIN`]; the one after them is the last.
const MOST_PANICS: usize = 5;

/// See above.
const WITHIN: Duration = Duration::from_secs(60);

/// After so long it is told that a new control core waits for the disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// What one control core after the other has.
pub struct Control<'a> {
    pub config: &'a NodeConfig,
    pub debug_clock: bool,
    pub log: &'a LogControl,
    pub devices: Rc<Devices>,
    pub listener: Rc<ControlListener>,
    pub elbv2: Option<elbv2::Endpoint>,
    pub monitor: Option<monitor::Endpoint>,
    pub watched: Vec<Watched>,
    pub store: Arc<Mutex<Store>>,
    pub keeper: SharedKeeper,
    pub restart: Restart,
    pub compiler: Home<Compiler>,
    pub workers: Home<Workers>,
    pub neighbours: Home<Neighbours>,
    pub flow_logs: Home<FlowLogs>,
    pub drains: Home<Drains>,
    pub told: Told<'a>,
}

/// What the daemon is told from outside.
pub struct Signals {
    pub stops: Stops,
    pub hangups: Hangups,
}

/// How the run of a control core ended.
enum End {
    /// The daemon is to end.
    Told,
    /// Something on its thread panicked.
    Panicked,
}

impl Control<'_> {
    /// Runs control cores until the daemon is told to end, or has to.
    pub fn run(&self, runtime: &Runtime, mut state: State, signals: &mut Signals) -> Result<(), Refusal> {
        let mut life = Life::first();
        let mut panicked = VecDeque::new();
        let mut feeder = Feeder::new(self.told.notify, self.counters());
        loop {
            let core = RefCell::new(None);
            let tasks = LocalSet::new();
            let one = self.one(&core, state, life.clone(), signals);
            let fed = while_fed(&mut feeder, tasks.run_until(one));
            let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(fed)));
            let within = runtime.enter();
            let core: Option<Rc<Core>> = core.into_inner();
            let known = core.as_ref().map(|core| Service::state(&**core));
            // Its last words, however its run ended; also if it panics over them.
            let last_words = || core.as_ref().map(|core| core.end());
            let said = catch_unwind(AssertUnwindSafe(last_words)).is_ok();
            // Tasks have what is lent, too.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop((tasks, core)))).is_ok();
            drop(within);
            match ended {
                Ok(Ok(End::Told)) => return Ok(()),
                Ok(Err(refusal)) => return Err(refusal),
                Ok(Ok(End::Panicked)) | Err(_) => {}
            }
            let panic = tell_panics().unwrap_or_else(|| Panic {
                thread: "control".to_owned(),
                what: "a panic that nobody has noted".to_owned(),
                place: String::new(),
                calls: None,
            });
            let now = Instant::now();
            panicked.retain(|at: &Instant| now.saturating_duration_since(*at) < WITHIN);
            panicked.push_back(now);
            if panicked.len() > MOST_PANICS {
                let (times, seconds) = (panicked.len(), WITHIN.as_secs());
                return Err(format!(
                    "the control core has panicked {times} times within {seconds} s, last: {panic}"
                )
                .into());
            }
            if !(said && dropped && self.is_home()) {
                return Err(format!(
                    "the control core panicked, and what the next one needs is lost: {panic}"
                )
                .into());
            }
            state = match runtime.block_on(while_fed(&mut feeder, self.stored(signals))) {
                Stored::State(stored) => *stored,
                Stored::Unread => match known {
                    Some(known) => known,
                    None => {
                        return Err(format!("the control core panicked before it was there: {panic}").into());
                    }
                },
                Stored::Stopped => return Ok(()),
            };
            life = life.next(panic);
            tracing::warn!(
                name: "control_core_anew", starts = life.number, generation = state.generation(),
                "the control core starts anew; workers went on meanwhile"
            );
        }
    }

    /// The workers' counters, before they are lent.
    fn counters(&self) -> Vec<Arc<WorkerCounters>> {
        let workers = self.workers.lend();
        let links = workers.as_ref().map_or(&[][..], |workers| workers.links());
        links.iter().map(|link| Arc::clone(&link.counters)).collect()
    }

    /// Whether everything that was lent is back.
    fn is_home(&self) -> bool {
        let Control { compiler, workers, neighbours, flow_logs, drains, .. } = self;
        let all = [
            compiler.is_home(),
            workers.is_home(),
            neighbours.is_home(),
            flow_logs.is_home(),
            drains.is_home(),
        ];
        all.iter().all(|is_home| *is_home)
    }

    /// Runs one control core.
    async fn one(
        &self,
        place: &RefCell<Option<Rc<Core>>>,
        state: State,
        life: Life,
        signals: &mut Signals,
    ) -> Result<End, Refusal> {
        let config = self.config;
        let before = panics::counts();
        let (health, health_events) = HealthEngine::new(SocketChecker::default());
        let (views, pools) = (Rc::clone(&self.devices), Rc::clone(&self.devices));
        let (questions, asked) = mpsc::channel(QUESTIONS);
        let (tell, news) = mpsc::unbounded_channel();
        tokio::task::spawn_local(watch(self.watched.clone(), asked, tell));
        let lost = || Refusal::from("what a control core needs is lent to another");
        let mut compiler = self.compiler.lend().ok_or_else(lost)?;
        if life.number > 0 {
            // What it has built may be half built.
            *compiler = compiler.anew();
        }
        let first = life.number == 0;
        let not_ready = config.monitor.not_ready_file.clone();
        let not_ready = not_ready.unwrap_or_else(|| config.state_directory.join("not-ready"));
        let not_ready_file = Rc::new(monitor::NotReadyFile::new(&not_ready));
        let core = Core::start(CoreParts {
            state,
            store: Arc::clone(&self.store),
            compiler,
            health,
            health_events,
            workers: self.workers.lend().ok_or_else(lost)?,
            network: NetworkParts { neighbours: self.neighbours.lend().ok_or_else(lost)?, questions },
            ports: Box::new(move || views.views()),
            buffers: Box::new(move || pools.buffers()),
            log: self.log.clone(),
            flow_logs: self.flow_logs.lend().ok_or_else(lost)?,
            drains: self.drains.lend().ok_or_else(lost)?,
            keeper: Arc::clone(&self.keeper),
            restart: self.restart.clone(),
            life,
            not_ready_file: Rc::clone(&not_ready_file),
        });
        place.replace(Some(Rc::clone(&core)));
        let methods =
            Rc::new(if self.debug_clock { methods::test_dispatcher() } else { methods::dispatcher() });
        let api = async {
            match &self.elbv2 {
                Some(endpoint) => {
                    let (service, methods) = (Rc::clone(&core) as _, Rc::clone(&methods));
                    elbv2::serve(endpoint.again()?, service, methods, http::Limits::default()).await
                }
                None => std::future::pending().await,
            }
        };
        let behind = monitor::Behind {
            source: Rc::clone(&core) as _,
            recorder: monitor::Recorder::new(Rc::clone(&core) as _),
            not_ready_file,
        };
        let monitored = async {
            match &self.monitor {
                Some(endpoint) => monitor::serve(endpoint.again()?, behind, http::Limits::default()).await,
                None => std::future::pending().await,
            }
        };
        if first {
            tracing::info!(
                name: "ready", socket = %config.socket.path.display(), version = env!("FLOWGATE_VERSION"),
                generation = Service::state(&*core).generation(), workers = config.workers.cores.len(),
                "flowgated is ready"
            );
        }
        tokio::select! {
            served = serve(Rc::clone(&self.listener), Rc::clone(&core) as _, Rc::clone(&methods), Limits::default()) => served?,
            served = api => served?,
            served = monitored => served?,
            () = panicked(&core, before) => return Ok(End::Panicked),
            fault = core.run(news) => return Err(fault.into()),
            () = self.told.run(&core, &mut signals.hangups) => {}
            signal = signals.stops.any() => self.stops(signal),
        }
        Ok(End::Told)
    }

    /// Tells that a signal ends the daemon.
    fn stops(&self, signal: &str) {
        self.told.notify.stopping();
        tracing::info!(name: "stopping", signal, "flowgated stops");
    }

    /// What is stored by now. A disk that hangs is waited for, as what is on it by then is not known.
    async fn stored(&self, signals: &mut Signals) -> Stored {
        let (store, seed) = (Arc::clone(&self.store), self.config.objects.clone());
        let load = move || lock(&store).load(seed.as_deref().map(Path::new));
        let mut load = tokio::task::spawn_blocking(load);
        let told = async {
            tokio::time::sleep(PATIENCE).await;
            tracing::warn!(name: "control_core_waits_for_disk", "the new control core waits for the disk; workers go on");
            std::future::pending::<()>().await;
        };
        let loaded = tokio::select! {
            loaded = &mut load => loaded,
            () = told => unreachable!("it waits for ever"),
            signal = signals.stops.any() => {
                self.stops(signal);
                return Stored::Stopped;
            }
        };
        match loaded {
            Ok(Ok((state, false))) => Stored::State(Box::new(state)),
            // Somebody took it away: what is in force says more than the seed.
            Ok(Ok((_, true))) => Stored::Unread,
            Ok(Err(error)) => {
                tracing::error!(name: "state_unread", %error, "the stored state cannot be read; the new control core goes on by the last one's");
                Stored::Unread
            }
            Err(error) => {
                tracing::error!(name: "state_unread", %error, "the stored state cannot be read; the new control core goes on by the last one's");
                Stored::Unread
            }
        }
    }
}

/// Waits for what `waited` comes to, and feeds the watchdog meanwhile.
async fn while_fed<T>(feeder: &mut Feeder<'_>, waited: impl Future<Output = T>) -> T {
    tokio::select! {
        came = waited => came,
        never = feeder.run() => match never {},
    }
}

/// What is stored.
enum Stored {
    State(Box<State>),
    Unread,
    /// The daemon was told to end.
    Stopped,
}

/// Waits until a task of the control core has panicked since `before`, which the runtime keeps to itself. A
/// conversation may have, by itself: it ends, and nothing else, if the control core is whole.
async fn panicked(core: &Rc<Core>, before: panics::Counts) {
    let mut told = before;
    // It is looked at whenever anything happens on this thread, which is some hundred times a second.
    std::future::poll_fn(|_| {
        let now = panics::counts();
        if now == told {
            return Poll::Pending;
        }
        if now.control != before.control || !core.is_whole() {
            return Poll::Ready(());
        }
        told = now;
        tell_panics();
        Poll::Pending
    })
    .await;
}

/// Logs panics that are not told yet; the last one.
fn tell_panics() -> Option<Panic> {
    let mut last = None;
    for panic in panics::untold() {
        let Panic { thread, what, place, calls } = &panic;
        tracing::error!(name: "panic", thread, what, place, calls, "a thread panicked");
        last = Some(panic);
    }
    last
}

/// A save leaves the store's fields whole at every step, so that those of a poisoned lock are.
fn lock(store: &Mutex<Store>) -> std::sync::MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}
