//! A checker without sockets, whose answers a test sets, and an engine that runs over it on the
//! runtime's paused clock.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::control::health::check::{CheckResult, Checker, Outcome};
use crate::control::health::{
    CheckSpec, Duty, HealthEngine, HealthEvent, HealthState, Moment, ReasonCode, StateReason,
    TargetHealthView, TargetKey,
};
use crate::control::model::{HealthCheckSettings, Probe};

/// How a target behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Answers at once.
    Answers,
    /// Refuses at once.
    Refuses,
    /// Says nothing until the timeout.
    Silent,
    /// This node has no socket for it.
    NoSocket,
}

/// A check that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) target: SocketAddrV4,
    pub(super) at: Instant,
}

/// Shared by the test and the engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Script(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    manners: HashMap<Ipv4Addr, Manner>,
    begun: Vec<Begun>,
    ended: usize,
}

impl Script {
    /// From now on `target` behaves so; until told, a target answers.
    pub(super) fn set(&self, target: &TargetKey, manner: Manner) {
        self.0.lock().unwrap().manners.insert(target.address, manner);
    }

    /// The checks begun since the last call.
    pub(super) fn take_begun(&self) -> Vec<Begun> {
        std::mem::take(&mut self.0.lock().unwrap().begun)
    }

    /// How many checks came to their end.
    pub(super) fn ended(&self) -> usize {
        self.0.lock().unwrap().ended
    }
}

impl Checker for Script {
    async fn check(&self, target: SocketAddrV4, settings: &HealthCheckSettings) -> CheckResult {
        let started = Moment::now();
        let manner = {
            let mut inner = self.0.lock().unwrap();
            inner.begun.push(Begun { target, at: started.monotonic });
            inner.manners.get(target.ip()).copied().unwrap_or(Manner::Answers)
        };
        let outcome = match manner {
            Manner::Answers => Outcome::Success,
            Manner::Refuses => failed(ReasonCode::FailedHealthChecks, "refused"),
            Manner::NoSocket => failed(ReasonCode::InternalError, "no socket"),
            Manner::Silent => {
                sleep(settings.timeout).await;
                failed(ReasonCode::Timeout, "silent")
            }
        };
        self.0.lock().unwrap().ended += 1;
        let latency = Moment::now().monotonic - started.monotonic;
        CheckResult { outcome, started, latency }
    }
}

fn failed(code: ReasonCode, what: &str) -> Outcome {
    Outcome::Failure(StateReason::seen(code, what))
}

/// An engine over a script, and its events.
pub(super) struct Bench {
    pub(super) script: Script,
    pub(super) engine: HealthEngine<Script>,
    events: UnboundedReceiver<HealthEvent>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let script = Script::default();
        let (engine, events) = HealthEngine::new(script.clone());
        Self { script, engine, events }
    }

    /// The events since the last call.
    pub(super) fn events(&mut self) -> Vec<HealthEvent> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    /// The only event since the last call.
    pub(super) fn event(&mut self) -> HealthEvent {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(super) fn view(&self, key: &TargetKey) -> TargetHealthView {
        self.engine.view(key).unwrap()
    }

    /// State and reason code, which most tests ask for.
    pub(super) fn stands(&self, key: &TargetKey) -> (HealthState, Option<ReasonCode>) {
        let view = self.view(key);
        (view.state, view.reason.map(|reason| reason.code))
    }

    /// Lets `intervals` of [`settings`] pass.
    pub(super) async fn pass(&self, intervals: u32) {
        sleep(settings().interval * intervals).await;
    }

    /// An engine whose only target is `key` and has just become healthy.
    pub(super) async fn healthy(key: &TargetKey) -> Self {
        let mut bench = Self::new();
        bench.engine.update([checked(key)]);
        bench.pass(u32::from(settings().healthy_threshold)).await;
        assert_eq!(bench.stands(key), (HealthState::Healthy, None));
        bench.events();
        bench.script.take_begun();
        bench
    }
}

/// A TCP check every second within 400 ms; healthy after 3, unhealthy after 2.
pub(super) fn settings() -> HealthCheckSettings {
    HealthCheckSettings {
        probe: Probe::Tcp,
        port: 80,
        interval: Duration::from_secs(1),
        timeout: Duration::from_millis(400),
        healthy_threshold: 3,
        unhealthy_threshold: 2,
    }
}

pub(super) fn key(last: u8) -> TargetKey {
    TargetKey::new("appliances", Ipv4Addr::new(10, 0, 0, last))
}

pub(super) fn spec(key: &TargetKey, duty: Duty) -> CheckSpec {
    CheckSpec { key: key.clone(), settings: Arc::new(settings()), duty }
}

pub(super) fn checked(key: &TargetKey) -> CheckSpec {
    spec(key, Duty::Check)
}

/// `key`, checked by the settings that `change` makes of [`settings`].
pub(super) fn checked_by(key: &TargetKey, change: impl FnOnce(&mut HealthCheckSettings)) -> CheckSpec {
    let mut settings = settings();
    change(&mut settings);
    CheckSpec { key: key.clone(), settings: Arc::new(settings), duty: Duty::Check }
}
