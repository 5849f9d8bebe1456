//! Where the view has what it shows from: a thread that reads the daemon's overview again and again and carries
//! orders out, one that hears its events, one that reads keys, one that waits for signals. Each says what it has
//! in a [`Message`]; what is lost of the daemon is tried again until it is back.

#![forbid(unsafe_code)]

use super::keys::Key;
use super::model::Order;
use crate::cli::client::{CliError, Client, Notice, typed};
use crate::control::events::Event;
use crate::control::failover::Failover;
use crate::control::health::TargetKey;
use crate::control::socket::methods::failovers::{DescribeFailovers, Failovers};
use crate::control::socket::methods::overview::GetOverview;
use crate::control::socket::methods::page::PageSize;
use crate::control::socket::methods::registration::{DeregisterTargets, TargetName};
use crate::control::socket::methods::subscribe::Subscribe;
use crate::control::socket::views::{Overview, Plan};
use nix::sys::signal::{SigSet, Signal};
use ratatui::crossterm::event::{self, Event as TerminalEvent};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// What the view is told.
pub(super) enum Message {
    /// How the daemon stands.
    Read(Box<Overview>),
    /// It cannot be asked, for this reason.
    Down(String),
    Event(Event),
    /// So many events were not told.
    Lost(u64),
    /// There will be no events for now, for this reason.
    NoEvents(String),
    /// What a drain would do, or why not.
    Planned(TargetKey, Result<Plan, String>),
    /// The latest failovers of a target, the newest first.
    Failovers(TargetKey, Vec<Failover>),
    /// What became of a drain.
    Drained(TargetKey, Result<(), String>),
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// Somebody wants an end, or there is no terminal to read keys from any more.
    Ended,
}

/// Messages that wait: when the terminal is slow, events wait here, and then at the daemon, which counts those that
/// it cannot keep.
const WAITING: usize = 4096;
/// After this the daemon is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// So many failovers of a target are shown.
const FAILOVERS: i64 = 3;
/// Reading takes at most this part of the time.
const SHARE: u32 = 5;

/// Starts the threads. What they say, and where orders go.
pub(super) fn start(client: Client, interval: Duration) -> (Receiver<Message>, Sender<Order>) {
    let (messages, inbox) = sync_channel(WAITING);
    let (orders, taken) = channel();
    let path = client.path().to_owned();
    // Before any thread is there, so that all of them leave the signals to the one that waits for them.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    let blocked = signals.thread_block().is_ok();
    let run = |work: Box<dyn FnOnce(SyncSender<Message>) + Send>| {
        let messages = messages.clone();
        thread::spawn(move || work(messages));
    };
    run(Box::new({
        let path = path.clone();
        move |messages| {
            Reader { client: Some(client), path, interval, watched: None, messages }.run(&taken);
        }
    }));
    run(Box::new(move |messages| hear(&path, &messages)));
    run(Box::new(|messages| read_keys(&messages)));
    if blocked {
        run(Box::new(move |messages| {
            // Whichever it is, and also if none can be waited for.
            signals.wait().ok();
            messages.send(Message::Ended).ok();
        }));
    }
    (inbox, orders)
}

/// Reads the overview and carries orders out.
struct Reader {
    client: Option<Client>,
    path: PathBuf,
    interval: Duration,
    /// The target whose failovers are read too.
    watched: Option<TargetKey>,
    messages: SyncSender<Message>,
}

/// Nobody is there to be told any more.
struct Gone;

impl Reader {
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let began = Instant::now();
            let pause = match self.ask("get-overview", &json!(GetOverview::default())).and_then(typed) {
                Ok(overview) => {
                    if self.tell(Message::Read(Box::new(overview))).is_err() || self.tell_failovers().is_err()
                    {
                        return;
                    }
                    self.interval.max(began.elapsed() * SHARE).saturating_sub(began.elapsed())
                }
                Err(error) => {
                    if self.tell(Message::Down(error.to_string())).is_err() {
                        return;
                    }
                    RETRY
                }
            };
            if self.obey(orders, Instant::now() + pause).is_err() {
                return;
            }
        }
    }

    fn tell(&self, message: Message) -> Result<(), Gone> {
        self.messages.send(message).map_err(|_| Gone)
    }

    /// Tells the failovers of the target that is looked at. Where there are none to be had, the target is shown
    /// without; a daemon that is gone is told of with the next reading.
    fn tell_failovers(&mut self) -> Result<(), Gone> {
        let Some(key) = self.watched.clone() else { return Ok(()) };
        let params = DescribeFailovers {
            target_group_arn: Some(key.group.to_string()),
            target: Some(key.address),
            page_size: PageSize::try_from(FAILOVERS).ok(),
            ..DescribeFailovers::default()
        };
        match self.ask("describe-failovers", &json!(params)).and_then(typed::<Failovers>) {
            Ok(found) => self.tell(Message::Failovers(key, found.failovers)),
            Err(_) => Ok(()),
        }
    }

    /// Carries orders out until it is time to read again.
    fn obey(&mut self, orders: &Receiver<Order>, until: Instant) -> Result<(), Gone> {
        loop {
            match orders.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Order::Interval(ms)) => {
                    self.interval = Duration::from_millis(ms);
                    return Ok(());
                }
                Ok(Order::Watch(watched)) => {
                    self.watched = watched;
                    self.tell_failovers()?;
                }
                Ok(Order::Plan(key)) => {
                    let plan = self.deregister(&key, &json!({"DryRun": true})).and_then(typed);
                    self.tell(Message::Planned(key, plan.map_err(|error| error.to_string())))?;
                }
                Ok(Order::Drain(key, generation)) => {
                    let done = self.deregister(&key, &json!({"IfGeneration": generation}));
                    self.tell(Message::Drained(key, done.map(|_| ()).map_err(|error| error.to_string())))?;
                    return Ok(());
                }
                Ok(Order::Refresh | Order::Quit) | Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Gone),
            }
        }
    }

    fn deregister(&mut self, key: &TargetKey, how: &Value) -> Result<Value, CliError> {
        let targets = vec![TargetName { id: key.address, port: None }];
        let mut params = json!(DeregisterTargets { target_group_arn: key.group.to_string(), targets });
        if let (Value::Object(params), Value::Object(how)) = (&mut params, how.clone()) {
            params.extend(how);
        }
        self.ask("deregister-targets", &params)
    }

    /// Asks the daemon, on a new connection if there is none.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, CliError> {
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(Client::connect(&self.path)?),
        };
        let outcome = client.call(method, params);
        if outcome.as_ref().is_err_and(|error| !matches!(error, CliError::Refused(_))) {
            self.client = None;
        }
        outcome
    }
}

/// Passes the daemon's events on.
fn hear(path: &std::path::Path, messages: &SyncSender<Message>) {
    loop {
        if let Err(Ended::Daemon(error)) = listen(path, messages) {
            if messages.send(Message::NoEvents(error.to_string())).is_err() {
                return;
            }
        } else {
            return;
        }
        thread::sleep(RETRY);
    }
}

/// Why no more events come.
enum Ended {
    Daemon(CliError),
    View,
}

impl From<CliError> for Ended {
    fn from(error: CliError) -> Ended {
        Ended::Daemon(error)
    }
}

fn listen(path: &std::path::Path, messages: &SyncSender<Message>) -> Result<(), Ended> {
    let mut client = Client::connect(path)?;
    client.call("subscribe", &Subscribe::default())?;
    loop {
        let message = match client.next_notice()? {
            Notice::Event(event) => Message::Event(event),
            Notice::Lost(count) => Message::Lost(count),
        };
        messages.send(message).map_err(|_| Ended::View)?;
    }
}

fn read_keys(messages: &SyncSender<Message>) {
    loop {
        let message = match event::read() {
            Ok(TerminalEvent::Key(event)) => match Key::of(event) {
                Some(key) => Message::Key(key),
                None => continue,
            },
            Ok(TerminalEvent::Resize(..)) => Message::Resized,
            Ok(_) => continue,
            Err(_) => Message::Ended,
        };
        let is_end = matches!(message, Message::Ended);
        if messages.send(message).is_err() || is_end {
            return;
        }
    }
}
