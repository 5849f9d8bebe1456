//! Watches the control core for whoever opens the page: reads what is counted every second into the history,
//! numbers what happens, and feeds the streams of events.
//!
//! One [`Recorder`] runs beside the endpoint, on the control core's thread. A page costs a question a second and a
//! stream; that many look at once costs the answer to the question once for a quarter of a second.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::history::{FINE_STEP, History, HistoryView, Reading, Span};
use super::streams::Feed;
use super::timeline::{Place, Timeline};
use crate::control::events::{Event, EventKind, Timestamp};
use crate::control::failover::FailoverList;
use crate::control::socket::Service;
use crate::control::socket::methods::failovers::Failovers;
use crate::control::socket::views::{Overview, Traffic};

/// How long an overview is good for whoever asks next.
const FRESH: Duration = Duration::from_millis(250);
/// The most that is put into a stream at once. What waits in it is bounded by so many of these.
const PIECE: usize = 8 << 10;
/// How often a stream says that it lives: the page takes it for dead after twice as long and a bit.
const BEAT: Duration = Duration::from_secs(5);
/// Failovers on record that the page is told of: `flowgate report` has them all.
const FAILOVERS: usize = 20;
/// Of the longest bursts those of so much of the time just past are shown.
const LONGEST_BURSTS: Duration = Duration::from_secs(60);
/// After how long a browser comes back by itself, and the mark that the stream is open.
const GREETING: &str = "retry: 1000\n\n";

/// What is watched.
pub trait Watched {
    /// The present time.
    fn now(&self) -> Timestamp;

    /// The node now.
    fn overview(&self) -> Overview;

    /// The failovers on record.
    fn failovers(&self) -> FailoverList;

    /// The events from now on.
    fn events(&self) -> Receiver<Event>;
}

impl<S: Service> Watched for S {
    fn now(&self) -> Timestamp {
        Service::now(self)
    }

    fn overview(&self) -> Overview {
        Service::overview(self, LONGEST_BURSTS)
    }

    fn failovers(&self) -> FailoverList {
        Service::failovers(self)
    }

    fn events(&self) -> Receiver<Event> {
        Service::events(self)
    }
}

/// What the page shows of the past.
pub struct Recorder {
    watched: Rc<dyn Watched>,
    timeline: RefCell<Timeline>,
    history: RefCell<History>,
    told: Notify,
    overview: Answer,
    failovers: Answer,
}

/// An answer that is good for whoever asks soon after.
#[derive(Default)]
struct Answer(RefCell<Option<(Instant, Bytes)>>);

impl Answer {
    /// What was answered a moment ago, or what is made now.
    fn of(&self, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        let now = Instant::now();
        if let Some((at, bytes)) = &*self.0.borrow()
            && now - *at < FRESH
        {
            return bytes.clone();
        }
        let bytes = Bytes::from(make());
        self.0.replace(Some((now, bytes.clone())));
        bytes
    }

    fn forget(&self) {
        self.0.take();
    }
}

impl Recorder {
    /// Of a daemon that starts now.
    pub fn new(watched: Rc<dyn Watched>) -> Rc<Recorder> {
        let timeline = RefCell::new(Timeline::new(watched.now()));
        Rc::new(Recorder {
            watched,
            timeline,
            history: RefCell::default(),
            told: Notify::new(),
            overview: Answer::default(),
            failovers: Answer::default(),
        })
    }

    /// Watches until the future is dropped.
    pub async fn run(&self) {
        let mut events = self.watched.events();
        let mut readings = interval(FINE_STEP);
        readings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        loop {
            tokio::select! {
                biased;
                event = events.recv() => {
                    if !self.take(event) {
                        return;
                    }
                    self.take_ready(&mut events);
                    self.told.notify_waiters();
                }
                now = readings.tick() => {
                    self.read(now - last);
                    last = now;
                }
            }
        }
    }

    fn take(&self, event: Result<Event, RecvError>) -> bool {
        match event {
            Ok(event) => self.note(event),
            Err(RecvError::Lagged(count)) => self.lose(count),
            Err(RecvError::Closed) => return false,
        }
        true
    }

    fn note(&self, event: Event) {
        // Who is told of it asks, and is to find it.
        if event.what.kind() == EventKind::Failovers {
            self.failovers.forget();
        }
        self.timeline.borrow_mut().take(event);
    }

    fn lose(&self, count: u64) {
        self.failovers.forget();
        self.timeline.borrow_mut().lose(count, self.watched.now());
    }

    /// Takes what else is there, so that streams are woken once for it.
    fn take_ready(&self, events: &mut Receiver<Event>) {
        /// Then others have a turn.
        const MOST: usize = 1024;
        for _ in 0..MOST {
            match events.try_recv() {
                Ok(event) => self.note(event),
                Err(TryRecvError::Lagged(count)) => self.lose(count),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    fn read(&self, passed: Duration) {
        let overview = self.watched.overview();
        let (node, targets) = readings(&overview);
        let targets = targets.iter().map(|(name, reading)| (name.as_str(), *reading));
        self.history.borrow_mut().note(overview.at, passed, node, targets);
    }

    /// The node now, as JSON; or a moment ago, if somebody asked then.
    pub fn overview(&self) -> Bytes {
        self.overview.of(|| json(&self.watched.overview()))
    }

    /// The history of the node or of a target by `GROUP/ADDRESS`, as JSON; none if it has none.
    pub fn history(&self, target: Option<&str>, span: Span) -> Option<Vec<u8>> {
        let view: HistoryView = self.history.borrow().view(target, span)?;
        Some(json(&view))
    }

    /// The last failovers on record, as JSON; or those of a moment ago, if somebody asked then and none began or ended since.
    pub fn failovers(&self) -> Bytes {
        self.failovers.of(|| self.last_failovers())
    }

    fn last_failovers(&self) -> Vec<u8> {
        let FailoverList { mut failovers, not_recorded, not_stored } = self.watched.failovers();
        let more = failovers.len() > FAILOVERS;
        failovers.truncate(FAILOVERS);
        let next_marker = failovers.last().filter(|_| more).map(|record| record.id.to_string());
        json(&Failovers { failovers, not_recorded, not_stored, next_marker })
    }

    /// The last hour's events, as JSON.
    pub fn timeline(&self) -> Vec<u8> {
        json(&self.timeline.borrow().view(self.watched.now()))
    }

    /// Has a stream of its own told what comes after `place`, or after now, until its reader is gone.
    pub fn follow(self: &Rc<Self>, feed: Feed, place: Option<Place>) {
        let place = place.unwrap_or_else(|| self.timeline.borrow().end());
        let recorder = Rc::clone(self);
        tokio::task::spawn_local(async move { recorder.feed(feed, place).await });
    }

    async fn feed(&self, feed: Feed, mut place: Place) {
        let mut said = feed.send(Bytes::from_static(GREETING.as_bytes())).await;
        while said.is_ok() {
            // Asked for before the look, so that nothing is missed between the two.
            let told = self.told.notified();
            let news = self.timeline.borrow().after(place, PIECE);
            said = match news {
                Some(news) => {
                    place = news.place;
                    feed.send(news.bytes).await
                }
                None => tokio::select! {
                    () = told => Ok(()),
                    () = sleep(BEAT) => feed.send(Bytes::from_static(b"event: beat\ndata: {}\n\n")).await,
                    () = feed.closed() => return,
                },
            };
        }
    }
}

/// What an answer derives its JSON from cannot fail.
fn json(view: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(view).unwrap_or_default()
}

/// What is counted, of the node and by target.
fn readings(overview: &Overview) -> (Reading, Vec<(String, Reading)>) {
    let mut node =
        Reading { flows: overview.totals.flows, resets: overview.totals.resets.all(), ..Reading::default() };
    let mut targets = Vec::new();
    for group in &overview.target_groups {
        let all = reading(group.flows, &group.traffic);
        node.opened = node.opened.wrapping_add(all.opened);
        node.packets_to = node.packets_to.wrapping_add(all.packets_to);
        node.packets_from = node.packets_from.wrapping_add(all.packets_from);
        node.bytes = node.bytes.wrapping_add(all.bytes);
        for target in &group.targets {
            let reading = Reading { state: Some(target.state), ..reading(target.flows, &target.traffic) };
            targets.push((format!("{}/{}", group.name, target.address), reading));
        }
    }
    (node, targets)
}

fn reading(flows: u64, traffic: &Traffic) -> Reading {
    Reading {
        flows,
        opened: traffic.new_flows,
        packets_to: traffic.packets_to_target,
        packets_from: traffic.packets_from_target,
        bytes: traffic.bytes_to_target.wrapping_add(traffic.bytes_from_target),
        resets: traffic.resets.all(),
        state: None,
    }
}

#[cfg(test)]
mod tests;
