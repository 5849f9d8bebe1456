//! What the socket needs of the control core: one small trait.
//!
//! The control core implements it, the methods call it, tests put something of their own behind
//! it. Everything is called on the control core's own thread. Nothing here may wait, but for what is [`Waiting`]: it asks the
//! workers, or has another thread wait for the disk.

#![forbid(unsafe_code)]

use super::methods::flow_log::StartFlowLog;
use super::views::{
    CaptureQuery, Counters, EndpointView, Explanation, FlowLogView, FlowPage, FlowQuery, FlowTablesView,
    HistoryEntry, InBandView, NextHopView, Overview, PortView, Preview, WorkerView,
};
use crate::control::audit::NodeFigures;
use crate::control::capture::CaptureStream;
use crate::control::events::{Event, Timestamp};
use crate::control::explain::{Asked, NotExplained};
use crate::control::failover::FailoverList;
use crate::control::health::{HealthState, ReasonCode};
use crate::control::logging::LogControl;
use crate::control::model::{Change, ForeignId, ModelError, Outcome, State, TargetGroup, Zone};
use crate::control::telling::EventCounts;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;
use tokio::sync::broadcast::Receiver;

/// The control core, as the socket sees it.
pub trait Service {
    /// The present time. A daemon whose clock was advanced says the advanced time.
    fn now(&self) -> Timestamp;

    /// The same in milliseconds since 1970, as changes and drains have it.
    fn now_unix_ms(&self) -> u64 {
        u64::try_from(self.now().unix_ms()).unwrap_or(0)
    }

    /// The objects as they are.
    fn state(&self) -> State;

    /// Waits until nobody else changes the objects. As long as the turn is held they are as they are, so that
    /// what is worked out from them can be made of them.
    fn turn(&self) -> Waiting<'_, Turn> {
        Box::pin(std::future::ready(Turn::default()))
    }

    /// Makes what was worked out in this turn: it is on disk, and on its way to the workers, when this comes
    /// back. It is made also if nobody waits for that any more.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    fn make(&self, turn: Turn, drafted: Drafted) -> Waiting<'_, Result<(), ChangeError>> {
        let by = drafted.by.as_deref();
        let made = drafted.changes.iter().try_for_each(|change| self.apply_by(change, by).map(drop));
        drop(turn);
        Box::pin(std::future::ready(made))
    }

    /// Makes `change`: it is on disk, and on its way to the workers, when this returns. Whoever calls this waits for
    /// the disk; the socket works changes out on a copy and has them made by [`Service::make`].
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    fn apply(&self, change: &Change) -> Result<Applied, ChangeError> {
        self.apply_by(change, None)
    }

    /// Makes `change` on behalf of `by`, who is told in the history.
    ///
    /// # Errors
    /// As [`Service::apply`].
    fn apply_by(&self, change: &Change, by: Option<&str>) -> Result<Applied, ChangeError>;

    /// The states that can be gone back to: the present one first, and then the later before the earlier. To be asked for
    /// in a [`Service::turn`], so that nobody else waits for the same files.
    fn history(&self) -> Waiting<'_, Vec<HistoryEntry>>;

    /// The state of the history that has this generation; none if there is none. As [`Service::history`].
    ///
    /// # Errors
    /// If it cannot be read.
    fn earlier(&self, generation: u64) -> Waiting<'_, Result<Option<State>, Unavailable>>;

    /// What would become of live flows and of targets' states if `next` were the objects, where it is other
    /// than what becomes of them as things are. The workers may be asked for it.
    fn preview<'a>(&'a self, next: &'a State) -> Waiting<'a, Preview>;

    /// The zones that subnets stand for, by the node's configuration.
    fn subnets(&self) -> BTreeMap<ForeignId, Zone>;

    /// How every target of `group` stands: those registered, and those that are gone but still
    /// have flows (T-4), by address.
    fn targets(&self, group: &TargetGroup) -> Vec<TargetStatus>;

    /// The flows that `query` asks for. Its target group is by name.
    fn flows(&self, query: FlowQuery) -> Waiting<'_, Result<FlowPage, Unavailable>>;

    /// What would become of packets, and why.
    fn explain(&self, asked: Asked) -> Waiting<'_, Result<Vec<Explanation>, NotExplained>>;

    /// What an audit must know of the node beyond objects and targets.
    fn figures(&self) -> NodeFigures;

    /// Every counter, summed over the workers where that makes sense.
    fn counters(&self) -> Counters;

    /// What became of the flows of targets that were lost.
    fn failovers(&self) -> FailoverList;

    /// This node's endpoints.
    fn endpoints(&self) -> Vec<EndpointView>;

    /// This node's workers; of the longest bursts, those of so much of the time just past.
    fn workers(&self, window: Duration) -> Vec<WorkerView>;

    /// What came of the flow tables of the daemon before this one.
    fn flow_tables(&self) -> FlowTablesView;

    /// All of it at this moment; of the longest bursts, those of so much of the time just past.
    fn overview(&self, window: Duration) -> Overview;

    /// This node's ports.
    fn ports(&self) -> Vec<PortView>;

    /// Has the workers capture packets. The capture ends when the stream is dropped.
    ///
    /// # Errors
    /// [`CaptureError`]; nothing is captured then.
    fn capture(&self, query: &CaptureQuery) -> Result<CaptureStream, CaptureError>;

    /// The events from now on.
    fn events(&self) -> Receiver<Event>;

    /// Since when the daemon runs.
    fn started(&self) -> Timestamp;

    /// How many events of each kind the daemon has told since then.
    fn events_so_far(&self) -> EventCounts;

    /// What the daemon logs.
    fn log(&self) -> LogControl;

    /// How the flow log stands.
    fn flow_log(&self) -> FlowLogView;

    /// Starts a flow log. Where its records go is given.
    ///
    /// # Errors
    /// [`FlowLogRefused`].
    fn start_flow_log<'a>(
        &'a self,
        asked: &'a StartFlowLog,
    ) -> Waiting<'a, Result<FlowLogView, FlowLogRefused>>;

    /// Has the flow log end.
    ///
    /// # Errors
    /// If there is none.
    fn stop_flow_log(&self) -> Result<FlowLogView, FlowLogRefused>;

    /// Lets the data path's and the drain clock's time jump ahead. Asked only of a daemon that was
    /// started for tests.
    fn advance_clock(&self, milliseconds: u32);

    /// Puts a fault into the daemon, which nothing but a control core has. Asked only of a daemon that was started for tests.
    #[cfg(any(debug_assertions, feature = "faults"))]
    fn put_fault(&self, _fault: super::methods::put_fault::Fault) {}
}

/// The right to change the objects: one has it at a time, who asked first comes first.
#[derive(Debug, Default)]
pub struct Turn {
    /// Where nothing takes its time, nothing needs to be held off.
    _held: Option<OwnedMutexGuard<()>>,
}

impl Turn {
    /// The turn of whoever has locked this.
    #[must_use]
    pub fn of(held: OwnedMutexGuard<()>) -> Turn {
        Turn { _held: Some(held) }
    }
}

/// Changes that were worked out together, and are made together or not at all.
#[derive(Clone, Debug)]
pub struct Drafted {
    /// The objects as they will be.
    pub next: State,
    /// What leads there.
    pub changes: Vec<Change>,
    /// What became of what by each.
    pub outcomes: Vec<Outcome>,
    /// Whose changes they are, if that is known.
    pub by: Option<String>,
}

/// A future of the control core's own thread.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A change that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The state's generation, this change included.
    pub generation: u64,
    /// What became of what.
    pub outcome: Outcome,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeError {
    /// It breaks a rule.
    #[error(transparent)]
    Refused(#[from] ModelError),
    /// It is sound, but the state file could not be written.
    #[error("the change could not be written to disk and was not made: {0}")]
    NotStored(String),
}

/// Why there is no capture.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CaptureError {
    /// As many run as may.
    #[error("{0} captures run, and no more may")]
    TooMany(usize),
    /// A condition names what this node does not have.
    #[error("there is no '{name}' here that packets could be of")]
    Unknown {
        /// The parameter.
        parameter: &'static str,
        /// What it says.
        name: String,
    },
}

/// Why a flow log is not started, or not stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowLogRefused {
    /// One is on, to there.
    #[error("a flow log to {0} is on: there is one at a time")]
    OnAlready(String),
    /// There is none to be stopped.
    #[error("no flow log is on")]
    NotOn,
    /// What it should write to cannot be opened.
    #[error("the flow log cannot be started: {0}")]
    NotOpened(String),
}

/// The workers, or the disk, did not answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// How a target stands.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetStatus {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its zone; none: it serves every zone.
    pub zone: Option<String>,
    /// Its weight.
    pub weight: u16,
    /// Its state (H-4).
    pub state: HealthState,
    /// Why (H-5); none for `healthy`.
    pub reason: Option<ReasonCode>,
    /// What was seen; empty where there is nothing to say.
    pub description: String,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// How much of its delay is left, if it drains (T-3).
    pub drain_left: Option<Duration>,
    /// Whom its packets are handed to.
    pub neighbour: NextHopView,
    /// Its live flows.
    pub flows: u64,
    /// Of these, how many its sudden death would end: all TCP flows that would be reset or left hanging,
    /// none where the group rebalances.
    pub would_die: u64,
    /// How it stands by the traffic itself; none for a target that holds no slot.
    pub in_band: Option<InBandView>,
}
