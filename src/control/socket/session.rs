//! What the daemon keeps for one connection, and its share of what all connections have together.
//!
//! Made by the server for each connection, shown to methods through [`super::dispatcher::Call`]. Promises that the number of
//! subscribers is bounded, so that among full connection slots there is always one that may be closed
//! for a newcomer.

#![forbid(unsafe_code)]

use super::role::{Peer, Role};
use super::rpc::RpcError;
use crate::control::capture::CaptureStream;
use crate::control::events::{Event, EventKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;

/// How much the socket gives away at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. One more takes the place of the one that has been silent longest.
    pub connections: usize,
    /// Connections that may subscribe to events, fewer than `connections`; half of them, rounded up, may be of
    /// peers that only read.
    pub subscribers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 64, subscribers: 32 }
    }
}

/// One connection's state.
pub struct Session {
    peer: Peer,
    /// Whom the peer acts for, if it is not for itself.
    principal: Option<String>,
    subscribers: Rc<Subscribers>,
    subscribed: Cell<bool>,
    new_subscription: RefCell<Option<Subscription>>,
    capturing: Cell<bool>,
    new_capture: RefCell<Option<CaptureStream>>,
    /// The capture is to be stopped.
    stopping: Cell<bool>,
    active: Cell<Instant>,
    evicted: Notify,
}

/// The number of subscribers, shared by the sessions of a server.
#[derive(Debug)]
pub struct Subscribers {
    limit: usize,
    now: Cell<usize>,
    /// Of these, peers that only read.
    read_only: Cell<usize>,
}

impl Subscribers {
    /// A count that stops at `limit`.
    pub fn new(limit: usize) -> Rc<Self> {
        Rc::new(Subscribers { limit, now: Cell::new(0), read_only: Cell::new(0) })
    }
}

impl Subscribers {
    fn add(&self, role: Role) -> Result<(), RpcError> {
        let full = |limit: usize, who: &str| {
            let message = format!("{limit} {who} are subscribed, and no more may be");
            RpcError::refused("TooManySubscribers", message).hint("end one of the subscribers")
        };
        if self.now.get() >= self.limit {
            return Err(full(self.limit, "connections"));
        }
        if role == Role::ReadOnly {
            // Else whoever may only look could keep every admin from looking.
            let limit = self.limit.div_ceil(2);
            if self.read_only.get() >= limit {
                return Err(full(limit, "connections that only read"));
            }
            self.read_only.set(self.read_only.get() + 1);
        }
        self.now.set(self.now.get() + 1);
        Ok(())
    }

    fn remove(&self, role: Role) {
        if role == Role::ReadOnly {
            self.read_only.set(self.read_only.get() - 1);
        }
        self.now.set(self.now.get() - 1);
    }
}

/// A stream of events on its way to one connection.
pub struct Subscription {
    events: Receiver<Event>,
    wanted: Option<Vec<EventKind>>,
}

/// What a subscription gave.
#[derive(Debug, PartialEq)]
pub enum Delivery {
    /// An event that was asked for.
    Event(Event),
    /// The reader was slower than the events: so many were dropped, of whatever kind.
    Lost(u64),
    /// No more will come.
    Ended,
}

impl Session {
    /// A session that has just connected.
    pub fn new(peer: Peer, subscribers: Rc<Subscribers>) -> Self {
        Session {
            peer,
            principal: None,
            subscribers,
            subscribed: Cell::new(false),
            new_subscription: RefCell::new(None),
            capturing: Cell::new(false),
            new_capture: RefCell::new(None),
            stopping: Cell::new(false),
            active: Cell::new(Instant::now()),
            evicted: Notify::new(),
        }
    }

    /// Sends this connection, after the answer in hand, the events of the kinds `wanted` (all, if
    /// none is named) out of `events`. A second subscription takes the place of the first.
    ///
    /// # Errors
    /// When as many connections as may subscribe already do.
    pub fn subscribe(&self, events: Receiver<Event>, wanted: Option<Vec<EventKind>>) -> Result<(), RpcError> {
        self.be_subscriber()?;
        self.new_subscription.replace(Some(Subscription { events, wanted }));
        Ok(())
    }

    /// Sends this connection, after the answer in hand, what `capture` gives. Like who subscribes, who captures is
    /// not shown out for being silent.
    ///
    /// # Errors
    /// When as many connections as may subscribe already do.
    pub fn begin_capture(&self, capture: CaptureStream) -> Result<(), RpcError> {
        self.be_subscriber()?;
        self.capturing.set(true);
        self.stopping.set(false);
        self.new_capture.replace(Some(capture));
        Ok(())
    }

    /// Whether a capture is under way.
    pub fn is_capturing(&self) -> bool {
        self.capturing.get()
    }

    /// Has the connection's task stop the capture. False: there is none.
    pub fn stop_capture(&self) -> bool {
        self.stopping.set(self.is_capturing());
        self.is_capturing()
    }

    /// The capture begun since the last call, for the connection's task to deliver.
    pub fn new_capture(&self) -> Option<CaptureStream> {
        self.new_capture.take()
    }

    /// Whether the capture is to be stopped, since this was last asked.
    pub fn is_stopping(&self) -> bool {
        self.stopping.take()
    }

    /// The capture has ended and was told so.
    pub fn capture_ended(&self) {
        self.capturing.set(false);
    }

    fn be_subscriber(&self) -> Result<(), RpcError> {
        if !self.subscribed.get() {
            self.subscribers.add(self.role())?;
            self.subscribed.set(true);
        }
        Ok(())
    }

    /// Who has connected.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// The same session, of a peer that acts for `principal`.
    #[must_use]
    pub fn on_behalf_of(mut self, principal: String) -> Self {
        self.principal = Some(principal);
        self
    }

    /// Who is behind what is asked here, as the history tells it.
    pub fn author(&self) -> String {
        match (&self.principal, self.peer.uid) {
            (Some(principal), _) => principal.clone(),
            (None, 0) => "root".to_owned(),
            (None, uid) => format!("uid {uid}"),
        }
    }

    /// What the peer may do.
    pub fn role(&self) -> Role {
        self.peer.role
    }

    /// Whether this connection has subscribed.
    pub fn is_subscribed(&self) -> bool {
        self.subscribed.get()
    }

    /// The subscription made since the last call, for the connection's task to deliver.
    pub fn new_subscription(&self) -> Option<Subscription> {
        self.new_subscription.take()
    }

    /// Notes that the peer did something: asked, or took an answer.
    pub fn touch(&self) {
        self.active.set(Instant::now());
    }

    /// When the peer last did something.
    pub fn active(&self) -> Instant {
        self.active.get()
    }

    /// Asks the connection's task to end.
    pub fn evict(&self) {
        self.evicted.notify_one();
    }

    /// Waits until somebody calls [`Session::evict`].
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_subscribed() {
            self.subscribers.remove(self.role());
        }
    }
}

impl Subscription {
    /// The next event that was asked for. Safe to give up at any await.
    pub async fn next(&mut self) -> Delivery {
        loop {
            match self.events.recv().await {
                Ok(event) if self.wants(&event) => return Delivery::Event(event),
                Ok(_) => {}
                Err(RecvError::Lagged(lost)) => return Delivery::Lost(lost),
                Err(RecvError::Closed) => return Delivery::Ended,
            }
        }
    }

    /// The next event that was asked for and is here already.
    pub fn ready(&mut self) -> Option<Delivery> {
        loop {
            match self.events.try_recv() {
                Ok(event) if self.wants(&event) => return Some(Delivery::Event(event)),
                Ok(_) => {}
                Err(TryRecvError::Lagged(lost)) => return Some(Delivery::Lost(lost)),
                Err(TryRecvError::Closed) => return Some(Delivery::Ended),
                Err(TryRecvError::Empty) => return None,
            }
        }
    }

    fn wants(&self, event: &Event) -> bool {
        self.wanted.as_ref().is_none_or(|kinds| kinds.contains(&event.what.kind()))
    }
}
