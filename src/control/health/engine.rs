//! The engine: which targets there are, and a task for each that is checked. The control core owns
//! it, calls `update` with the whole list after every change, and reads the events.
//!
//! A check's result, its count and the event are one step of the target's task: nothing waits
//! between a result and the channel. What does not change in an `update` is not touched: neither the
//! counts nor the running check nor its place in the interval (H-9).

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::check::{Checker, Outcome, SocketChecker};
use super::damping::{Thresholds, Verdict};
use super::pulse::Pulse;
use super::schedule::Schedule;
use super::state::{HealthEvent, HealthState, Moment, ReasonCode, StateReason, TargetHealthView, TargetKey};
use super::target::{Target, Turn};
use super::totals::GroupChecks;
use crate::control::model::HealthCheckSettings;
use crate::control::resume::KnownHealth;

/// One target and what the engine is to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckSpec {
    /// The target; its address is the one that is checked.
    pub key: TargetKey,
    /// How it is checked; one `Arc` serves a whole group.
    pub settings: Arc<HealthCheckSettings>,
    /// Whether it is.
    pub duty: Duty,
}

/// What is to be done about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Duty {
    /// It is registered and may be given traffic here.
    Check,
    /// It is registered and is given none (H-6).
    Unused(Unused),
    /// It is deregistered, and its delay has not elapsed.
    Drain,
}

/// Why a registered target is given no traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unused {
    /// No listener forwards to its group.
    Group,
    /// Its zone is not the node's, and cross-zone is off.
    Zone,
    /// Its address is one that cannot be a target's, such as the node's own.
    Address,
}

impl Unused {
    /// As it is told (H-5), in AWS's words.
    pub(super) fn reason(self) -> StateReason {
        match self {
            Self::Group => StateReason::plain(ReasonCode::NotInUse),
            Self::Zone => StateReason {
                code: ReasonCode::NotInUse,
                description: "Target is in an Availability Zone that is not enabled for the load balancer"
                    .to_owned(),
            },
            Self::Address => StateReason::plain(ReasonCode::IpUnusable),
        }
    }
}

/// How a target would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreseen {
    /// What checks would have decided of it.
    pub verdict: Verdict,
    /// How it would be shown.
    pub state: HealthState,
}

/// Why a target cannot be checked out of turn.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CannotCheck {
    /// No such target.
    #[error("target {0} is not registered")]
    NotRegistered(TargetKey),
    /// It is unused or draining.
    #[error("target {0} is not being checked")]
    NotChecked(TargetKey),
}

/// The health of all targets of this node. Dropped, it ends every check.
#[derive(Debug)]
pub struct HealthEngine<C = SocketChecker> {
    checker: Arc<C>,
    events: Events,
    /// Where every target's grid of checks is laid from.
    anchor: Instant,
    targets: HashMap<TargetKey, Watched>,
    groups: HashMap<Arc<str>, OfGroup>,
    pulse: Arc<Pulse>,
    /// What was known of targets before this engine, until the first update.
    known: HashMap<TargetKey, KnownHealth>,
}

type OfGroup = Arc<Mutex<GroupChecks>>;

/// A target and its task, if it is checked.
#[derive(Debug)]
struct Watched {
    spec: CheckSpec,
    target: Shared,
    task: Option<Task>,
}

type Shared = Arc<Mutex<Target>>;

/// A running task; dropped, it is ended, and its connection closed with it.
#[derive(Debug)]
struct Task {
    handle: JoinHandle<()>,
    /// Room for one request: those made before it is taken are the same one.
    out_of_turn: mpsc::Sender<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl<C: Checker> HealthEngine<C> {
    /// An engine without targets, and where its events come out. The channel is unbounded, as a
    /// change of state must not be lost or wait; damping and the interval bound how many there are.
    pub fn new(checker: C) -> (Self, mpsc::UnboundedReceiver<HealthEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let events = Events { to: events, sent: Arc::default() };
        let (anchor, targets, groups) = (Instant::now(), HashMap::new(), HashMap::new());
        let (known, pulse) = (HashMap::new(), Arc::new(Pulse::new(anchor.into_std())));
        (Self { checker: Arc::new(checker), events, anchor, targets, groups, known, pulse }, receiver)
    }

    /// This was known of targets a moment ago, before the daemon or its control core started anew: those of them that the
    /// first update has are not unknown (H-9). Nobody is told, as nothing has changed.
    pub fn resume(&mut self, known: HashMap<TargetKey, KnownHealth>) {
        self.known = known;
    }

    /// `specs` are all the targets there are from now on (of two with one key, the later counts).
    /// Called within a `tokio` runtime, where the checks will run.
    ///
    /// A target whose spec is as before is not touched. Other thresholds are held against its counts
    /// and may change its state at once; another interval or timeout keeps the counts; another
    /// question (protocol, port, path, matcher) keeps the state and restarts the counts. Its duty
    /// back to [`Duty::Check`] makes it `initial` (T-7).
    pub fn update(&mut self, specs: impl IntoIterator<Item = CheckSpec>) {
        let now = Moment::now();
        let mut before = std::mem::take(&mut self.targets);
        let mut resumed = std::mem::take(&mut self.known);
        for spec in specs {
            let known = self.targets.remove(&spec.key).or_else(|| before.remove(&spec.key));
            let watched = match known {
                Some(watched) => self.changed(watched, spec, now),
                None => {
                    let known = resumed.remove(&spec.key);
                    self.registered(spec, known, now)
                }
            };
            self.targets.insert(watched.spec.key.clone(), watched);
        }
        for watched in before.into_values() {
            // The task goes first: nothing of the target is heard after its last event.
            drop(watched.task);
            let target = lock(&watched.target);
            self.send(target.deregistered(now));
        }
    }

    /// How `key` stands; `None` if it is not registered.
    pub fn view(&self, key: &TargetKey) -> Option<TargetHealthView> {
        self.targets.get(key).map(|watched| lock(&watched.target).view())
    }

    /// What checks decided of `key`, for whoever builds what the data path goes by; `None` if it is
    /// not registered.
    pub fn verdict(&self, key: &TargetKey) -> Option<Verdict> {
        self.targets.get(key).map(|watched| lock(&watched.target).verdict())
    }

    /// What checks decided of `key`, for a control core that takes over; `None` if they have not.
    pub fn known(&self, key: &TargetKey) -> Option<KnownHealth> {
        self.targets.get(key).and_then(|watched| lock(&watched.target).known())
    }

    /// How many events there were so far. While that is the same, no target stands otherwise than it did.
    pub fn events_sent(&self) -> u64 {
        self.events.sent.load(Ordering::Relaxed)
    }

    /// How the target of `spec` would stand if `spec` were part of an update: nothing is changed.
    pub fn foresee(&self, spec: &CheckSpec) -> Foreseen {
        let now = Moment::now();
        let Some(watched) = self.targets.get(&spec.key) else {
            let (target, _) =
                Target::register(spec.key.clone(), spec.duty, Thresholds::of(&spec.settings), now);
            return Foreseen { verdict: target.verdict(), state: target.state() };
        };
        let target = lock(&watched.target);
        if watched.spec == *spec {
            return Foreseen { verdict: target.verdict(), state: target.state() };
        }
        let mut target = target.clone();
        // Nobody is told: it is only asked.
        follow(&mut target, &watched.spec, spec, now);
        Foreseen { verdict: target.verdict(), state: target.state() }
    }

    /// To be called some hundred times a second: what passes without it is taken for a pause of the process, and a check that
    /// fails in one is made again.
    pub fn beat(&self) {
        self.pulse.beat(Moment::now().monotonic);
    }

    /// Checks that failed in a pause, and were made again.
    pub fn discarded(&self) -> u64 {
        self.pulse.discarded()
    }

    /// What the checks of a group have come to so far.
    pub fn group_checks(&self, group: &str) -> GroupChecks {
        self.groups.get(group).map(|checks| lock(checks).clone()).unwrap_or_default()
    }

    /// Forgets what the checks came to of groups that there are no more.
    pub fn keep_groups(&mut self, exists: impl Fn(&str) -> bool) {
        self.groups.retain(|group, _| exists(group));
    }

    /// Checks `key` at once, out of turn; the result counts as any other. One check begins
    /// after this call, however often it is called meanwhile; the regular ones keep their places.
    pub fn check_now(&self, key: &TargetKey) -> Result<(), CannotCheck> {
        let watched = self.targets.get(key).ok_or_else(|| CannotCheck::NotRegistered(key.clone()))?;
        let task = watched.task.as_ref().ok_or_else(|| CannotCheck::NotChecked(key.clone()))?;
        match task.out_of_turn.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => Ok(()),
            Err(TrySendError::Closed(())) => Err(CannotCheck::NotChecked(key.clone())),
        }
    }

    /// Counts `outcome` as if a check of `key` had just ended with it, for tests of whoever owns an
    /// engine over real sockets.
    #[cfg(test)]
    pub(in crate::control) fn pretend(&self, key: &TargetKey, outcome: super::check::Outcome) {
        let now = Moment::now();
        let result = super::check::CheckResult { outcome, started: now, latency: std::time::Duration::ZERO };
        let turn = Turn::Regular { delay: std::time::Duration::ZERO };
        self.send(lock(&self.targets[key].target).end_check(result, turn, now));
    }

    fn registered(&mut self, spec: CheckSpec, known: Option<KnownHealth>, now: Moment) -> Watched {
        let thresholds = Thresholds::of(&spec.settings);
        let target = match known.filter(|_| spec.duty == Duty::Check) {
            Some(known) => {
                let decided = (known.verdict(), known.reason());
                Target::resumed(spec.key.clone(), thresholds, decided, now.ago(known.age()))
            }
            None => {
                let (target, event) = Target::register(spec.key.clone(), spec.duty, thresholds, now);
                self.send(event);
                target
            }
        };
        let target = Arc::new(Mutex::new(target));
        let task = self.task(&spec, &target, now);
        Watched { spec, target, task }
    }

    fn changed(&mut self, watched: Watched, spec: CheckSpec, now: Moment) -> Watched {
        let Watched { spec: before, target, task } = watched;
        let (old, new) = (&before.settings, &spec.settings);
        let same_task = before.duty == spec.duty
            && same_question(old, new)
            && (old.interval, old.timeout) == (new.interval, new.timeout);
        for event in follow(&mut lock(&target), &before, &spec, now) {
            self.send(event);
        }
        let task = if same_task {
            task
        } else {
            drop(task);
            self.task(&spec, &target, now)
        };
        Watched { spec, target, task }
    }

    fn task(&mut self, spec: &CheckSpec, target: &Shared, now: Moment) -> Option<Task> {
        if spec.duty != Duty::Check {
            return None;
        }
        let group = Arc::clone(self.groups.entry(Arc::clone(&spec.key.group)).or_default());
        let interval = spec.settings.interval;
        let (out_of_turn, requests) = mpsc::channel(1);
        let watch = Watch {
            checker: Arc::clone(&self.checker),
            events: self.events.clone(),
            address: SocketAddrV4::new(spec.key.address, spec.settings.port),
            settings: Arc::clone(&spec.settings),
            target: Arc::clone(target),
            group,
            pulse: Arc::clone(&self.pulse),
            schedule: Schedule::new(&spec.key, self.anchor.into_std(), interval, now.monotonic),
            requests,
        };
        Some(Task { handle: tokio::spawn(watch.run()), out_of_turn })
    }

    fn send(&self, event: Option<HealthEvent>) {
        self.events.send(event);
    }
}

/// Has a target go by another spec; its events, in order.
fn follow(
    target: &mut Target,
    before: &CheckSpec,
    spec: &CheckSpec,
    now: Moment,
) -> [Option<HealthEvent>; 2] {
    let (old, new) = (&before.settings, &spec.settings);
    let thresholds = Thresholds::of(new);
    if before.duty != spec.duty {
        return [target.assign(spec.duty, thresholds, now), None];
    }
    if spec.duty != Duty::Check {
        return [None, None];
    }
    let restarted = if same_question(old, new) { None } else { target.restart_counts(now) };
    let held_against =
        if Thresholds::of(old) == thresholds { None } else { target.set_thresholds(thresholds, now) };
    [restarted, held_against]
}

/// Whether a target is asked the same by both, at the same port.
fn same_question(old: &HealthCheckSettings, new: &HealthCheckSettings) -> bool {
    old.probe == new.probe && old.port == new.port
}

/// Where events go, and how many did.
#[derive(Clone, Debug)]
struct Events {
    to: mpsc::UnboundedSender<HealthEvent>,
    sent: Arc<AtomicU64>,
}

impl Events {
    fn send(&self, event: Option<HealthEvent>) {
        if let Some(event) = event {
            self.sent.fetch_add(1, Ordering::Relaxed);
            // Nobody listens only while the control core ends, and then nobody needs the event.
            self.to.send(event).ok();
        }
    }
}

/// What is behind a lock is set field after field without a step that can panic, so that that of a
/// poisoned one is whole.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a target's task goes by.
struct Watch<C> {
    checker: Arc<C>,
    events: Events,
    address: SocketAddrV4,
    settings: Arc<HealthCheckSettings>,
    target: Shared,
    group: OfGroup,
    pulse: Arc<Pulse>,
    schedule: Schedule,
    requests: mpsc::Receiver<()>,
}

impl<C: Checker> Watch<C> {
    async fn run(mut self) {
        loop {
            let turn = self.turn().await;
            lock(&self.target).begin_check();
            let result = loop {
                let result = self.checker.check(self.address, &self.settings).await;
                let now = Moment::now().monotonic;
                if result.outcome == Outcome::Success
                    || !self.pulse.paused_since(result.started.monotonic, now)
                {
                    break result;
                }
                // It had no chance while the process was stopped, and is made again.
                self.pulse.discard();
            };
            let delay = match turn {
                Turn::Regular { delay } => Some(delay),
                Turn::Asked => None,
            };
            lock(&self.group).count(&result.outcome, result.latency, delay);
            let event = lock(&self.target).end_check(result, turn, Moment::now());
            self.events.send(event);
        }
    }

    /// Waits until a check is to be made.
    async fn turn(&mut self) -> Turn {
        let due = Instant::from_std(self.schedule.due());
        tokio::select! {
            () = sleep_until(due) => {
                let now = Instant::now();
                self.schedule.advance(now.into_std());
                Turn::Regular { delay: now.saturating_duration_since(due) }
            }
            Some(()) = self.requests.recv() => Turn::Asked,
        }
    }
}
