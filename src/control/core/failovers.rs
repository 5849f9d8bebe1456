//! Failover records, as the control core makes, tells and keeps them (`control/failover`).
//!
//! What happens to a target comes here from where it happens: the verdict of its checks, a drain, a reset, a worker
//! that goes by a decision. Nothing waits for a record: the file is written in the background, and when
//! that fails it is told, and tried again later.

mod news;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use super::{Core, Inner};
use crate::control::duration::milliseconds;
use crate::control::events::Timestamp;
use crate::control::failover::{
    Beginning, Cause, Counts, Failover, FailoverList, Kept, News, NotReadable, Policy, Recorder, Standing,
    newest_of_each,
};
use crate::control::health::damping::Verdict;
use crate::control::health::{HealthEvent, HealthState, Moment, TargetKey};
use crate::control::model::{Failover as Mode, TargetGroup};
use crate::control::store::{RecordFile, Store, StoreError};
use crate::control::telling::Teller;
use crate::control::workers::Workers;
use crate::datapath::counters::{Counter, WorkerCounters};
use crate::datapath::messages::{BegunRecord, ResetRecord};
use crate::id::TargetId;

/// How soon after the last one the file is written again: when a record began or ended, and when only numbers are
/// other.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(10);
/// And after one that failed.
const AGAIN: Duration = Duration::from_secs(30);

/// How long a daemon that ends waits for its last writes.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// Why a write failed whose thread is gone without a word.
const THREAD_GONE: &str = "the thread that wrote them panicked";

/// Why they were given up then.
const DISK_HANGS: &str = "the disk does not answer";

/// The records, and what workers said since the last look.
pub(super) struct Failovers {
    recorder: Recorder,
    kept: Kept,
    writer: Writer,
    heard: Heard,
    /// Whether the workers tell of connections that begin.
    looking_out: bool,
    standings: Standings,
}

/// How groups stand, for as long as none of their targets stands otherwise: thousands that leave or fail at once are
/// looked at once and not once for each of them.
#[derive(Default)]
struct Standings {
    /// The configuration, and how many events of health there had been.
    as_of: Option<(u64, u64)>,
    of: HashMap<String, Standing>,
    /// How often a group was looked at.
    #[cfg(test)]
    looks: usize,
}

/// What workers said.
#[derive(Default)]
struct Heard {
    applied: Vec<(u64, u8, u64)>,
    resets: Vec<ResetRecord>,
    begun: Vec<BegunRecord>,
}

impl Failovers {
    /// With the records that are stored. What cannot be read is told and put aside: it keeps no daemon from its
    /// start.
    pub(super) fn new(store: &Store) -> Failovers {
        let file = store.failovers();
        let kept = match file.read() {
            Ok(Some(text)) => Kept::read(&text).unwrap_or_else(|fault| {
                put_aside(&file, &fault);
                Kept::default()
            }),
            Ok(None) => Kept::default(),
            Err(error) => {
                tracing::warn!(name: "failover_records_unread", %error, "the failover records of before cannot be read");
                Kept::default()
            }
        };
        Failovers {
            recorder: Recorder::new(kept.next_id()),
            kept,
            writer: Writer::new(file),
            heard: Heard::default(),
            looking_out: false,
            standings: Standings::default(),
        }
    }

    /// How often the targets of a group were looked at, for tests.
    #[cfg(test)]
    pub(super) fn looks(&self) -> usize {
        self.standings.looks
    }

    /// What was stored, and the next record's number, for tests.
    #[cfg(test)]
    pub(super) fn stored(&self) -> (Vec<Failover>, u64) {
        (self.kept.iter().cloned().collect(), self.recorder.next_id())
    }

    /// As if the thread that writes had panicked, for tests.
    #[cfg(test)]
    pub(super) fn lose_thread(&mut self) {
        self.writer.under_way = Some(channel().1);
    }

    /// Whether nothing is being written, for tests.
    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        self.writer.under_way.is_none()
    }

    /// Every record, the newest first.
    fn records(&self) -> Vec<&Failover> {
        let open = self.recorder.open().into_iter();
        let mut records: Vec<&Failover> =
            open.chain(self.recorder.just_ended()).chain(self.kept.iter()).collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.id));
        records
    }

    fn is_recording(&self) -> bool {
        self.recorder.is_recording()
    }

    /// A worker goes by a condition.
    pub(super) fn hear_applied(&mut self, sequence: u64, worker: u8, at_cycles: u64) {
        if self.is_recording() {
            self.heard.applied.push((sequence, worker, at_cycles));
        }
    }

    /// A reset was sent.
    pub(super) fn hear_reset(&mut self, record: &ResetRecord) {
        if self.is_recording() {
            self.heard.resets.push(*record);
        }
    }

    /// A connection began.
    pub(super) fn hear_begun(&mut self, record: BegunRecord) {
        self.heard.begun.push(record);
    }
}

fn put_aside(file: &RecordFile, fault: &NotReadable) {
    let path = file.path();
    match file.put_aside() {
        Ok(aside) => {
            let (path, aside) = (path.display(), aside.display());
            tracing::warn!(
                name: "failover_records_put_aside", %path, %fault, %aside,
                "the failover records begin anew, and the file of before is kept"
            );
        }
        Err(error) => {
            let path = path.display();
            tracing::warn!(name: "failover_records_damaged", %path, %fault, %error, "the failover records begin anew");
        }
    }
}

impl Core {
    /// Takes what the workers said that records are made of, and has them tell what records need.
    pub(super) fn follow_failovers(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.hear_failovers();
        inner.look_out();
        inner.tell_failovers(&self.events);
    }

    /// Ends the records that are open, and stores them. The daemon ends.
    pub fn end(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.hand_on();
        inner.hand_on_time();
        inner.hear_failovers();
        let now = Instant::now();
        let Inner { failovers, slots, workers, accounts, .. } = &mut *inner;
        failovers.recorder.interrupt(|key| counts(key, slots, workers, accounts), now);
        inner.tell_failovers(&self.events);
        let Failovers { recorder, kept, writer, .. } = &mut inner.failovers;
        writer.end(|| kept.text(&recorder.open(), recorder.next_id()));
    }
}

impl Inner {
    /// A target's health changed. `before` was counted before the workers were told, by the message `sequence`.
    pub(super) fn record_health(&mut self, event: &HealthEvent, before: Counts, sequence: Option<u64>) {
        if event.to != HealthState::Unhealthy {
            return self.failovers.recorder.changed(&event.key, event.to, before, event.at);
        }
        // One that was never in and has no flow has lost nobody anything.
        let was_in = matches!(event.from, HealthState::Healthy | HealthState::Unavailable);
        if was_in || before.active > 0 {
            let beginning = self.beginning(&event.key, Cause::Unhealthy, event.at);
            let found = (event.reason.clone(), event.course.as_deref());
            self.failovers.recorder.failed(beginning, found, sequence, before);
        }
    }

    /// A target was deregistered.
    pub(super) fn record_drain(&mut self, key: &TargetKey, ends: Timestamp) {
        let (beginning, counts) =
            (self.beginning(key, Cause::Deregistration, Moment::now()), self.counts(key));
        self.failovers.recorder.drains(beginning, ends, counts);
    }

    /// A target's drain is over.
    pub(super) fn record_drained(&mut self, key: &TargetKey, registered_again: bool) {
        let (counts, now) = (self.counts(key), Instant::now());
        if registered_again {
            self.failovers.recorder.registered_again(key, counts, now);
        } else {
            self.failovers.recorder.drained(key, self.state.generation(), counts, now);
        }
    }

    /// A target that is gone has no flow left, and its slot is given back after this.
    pub(super) fn record_gone(&mut self, key: &TargetKey) {
        let counts = self.counts(key);
        self.failovers.recorder.gone(key, counts, Instant::now());
    }

    /// Reads what is counted of the targets that have a record, and has the records stored.
    pub(super) fn sweep_failovers(&mut self) {
        let now = Instant::now();
        let Inner { failovers, slots, workers, accounts, .. } = self;
        failovers.recorder.look(|key| counts(key, slots, workers, accounts), now);
    }

    /// How many records were begun since there are records, how many of them are open, and how many failovers had
    /// none, for want of room.
    pub(super) fn failover_figures(&self) -> [u64; 3] {
        let recorder = &self.failovers.recorder;
        [recorder.next_id().saturating_sub(1), recorder.open().len() as u64, recorder.not_recorded()]
    }

    /// The number of a target's record that is open.
    pub(super) fn open_failover(&self, key: &TargetKey) -> Option<u64> {
        self.failovers.recorder.open_of(key)
    }

    /// Every record, the newest first.
    pub(super) fn failover_list(&self) -> FailoverList {
        let Failovers { recorder, writer, .. } = &self.failovers;
        let failovers = self.failovers.records().into_iter().cloned().collect();
        FailoverList { failovers, not_recorded: recorder.not_recorded(), not_stored: writer.fault.clone() }
    }

    /// Of each target the newest record, for as long as it is told of; the newest first.
    pub(super) fn newest_failovers(&self) -> Vec<&Failover> {
        newest_of_each(self.failovers.records(), Timestamp::now())
    }

    /// What is counted of a target by now.
    pub(super) fn counts(&self, key: &TargetKey) -> Counts {
        counts(key, &self.slots, &self.workers, &self.accounts)
    }

    fn beginning(&mut self, key: &TargetKey, cause: Cause, decided: Moment) -> Beginning {
        let standing =
            if self.failovers.recorder.has_room_for(key) { self.standing_of(&key.group) } else { None };
        let group = self.state.target_group(&key.group).ok();
        let load_balancer = group.and_then(|group| self.state.load_balancer_using(&group.name));
        Beginning {
            key: key.clone(),
            load_balancer: load_balancer.map(|balancer| balancer.name.to_string()),
            policy: group.map(|group| policy(group, cause)).unwrap_or_default(),
            group: standing.unwrap_or_default(),
            decided,
        }
    }

    /// How a group stands now.
    fn standing_of(&mut self, name: &str) -> Option<Standing> {
        let as_of = Some((self.state.generation(), self.health.events_sent()));
        let known = &mut self.failovers.standings;
        if known.as_of != as_of {
            (known.as_of, known.of) = (as_of, HashMap::new());
        }
        if let Some(standing) = known.of.get(name) {
            return Some(*standing);
        }
        let standing = self.standing(self.state.target_group(name).ok()?);
        let known = &mut self.failovers.standings;
        known.of.insert(name.to_owned(), standing);
        #[cfg(test)]
        {
            known.looks += 1;
        }
        Some(standing)
    }

    fn standing(&self, group: &TargetGroup) -> Standing {
        let registered = group.targets.iter().filter(|(_, target)| target.is_registered());
        let name: Arc<str> = Arc::from(group.name.as_str());
        let verdict = |address: &Ipv4Addr| self.health.verdict(&TargetKey::new(Arc::clone(&name), *address));
        registered.fold(Standing::default(), |Standing { registered, healthy }, (address, _)| Standing {
            registered: registered + 1,
            healthy: healthy + u64::from(verdict(address) == Some(Verdict::Healthy)),
        })
    }

    /// Takes what the workers said since this was last asked.
    fn hear_failovers(&mut self) {
        let Inner { failovers, slots, workers, accounts, .. } = self;
        let Failovers { recorder, heard, .. } = failovers;
        let instant = Instants::of(workers);
        for (sequence, worker, at) in heard.applied.drain(..) {
            recorder.applied(sequence, worker, instant.at(at));
        }
        for record in heard.resets.drain(..) {
            let Some(key) = record.target.and_then(|id| slots.holder(id)) else { continue };
            let what = (record.endpoint, (record.to, record.from));
            let counts = || counts(key, slots, workers, accounts);
            recorder.reset(key, record.trigger, what, instant.at(record.at_cycles), counts);
        }
        // After the resets of every worker: who comes back may be told of by another one than who was reset.
        for record in heard.begun.drain(..) {
            let Some(key) = slots.holder(record.target) else { continue };
            let (from, at) = (record.initiator.0, instant.at(record.at_cycles));
            recorder.begun(record.endpoint, from, record.responder, key.address, at);
        }
        if recorder.awaits_configuration(workers.links().len()) {
            for link in workers.links() {
                let generation = link.counters.configuration.get();
                let since = instant.at(link.counters.configuration_since.get());
                recorder.configured(generation, link.id.0, since);
            }
        }
    }

    /// Has the workers tell of connections that begin while some record looks out for them.
    fn look_out(&mut self) {
        let wanted = self.failovers.recorder.looks_out(Instant::now());
        if wanted != self.failovers.looking_out {
            self.failovers.looking_out = wanted;
            self.workers.tell_begun(wanted);
        }
    }

    /// Tells of records that began or ended, and stores them.
    fn tell_failovers(&mut self, events: &Teller) {
        let generation = self.state.generation();
        let Failovers { recorder, kept, writer, .. } = &mut self.failovers;
        let (news, changed) = recorder.take_news();
        let urgent = !news.is_empty();
        for news in news {
            news::log(&news, generation);
            events.tell(news::told(&news));
            if let News::Ended(record) = news {
                kept.keep(*record);
            }
        }
        writer.note(changed, urgent);
        writer.follow(|| kept.text(&recorder.open(), recorder.next_id()), Instant::now());
    }
}

fn policy(group: &TargetGroup, cause: Cause) -> Policy {
    let settings = group.settings();
    let guards = settings.reset_guards;
    let detection = settings.health_check.detection_time();
    Policy {
        failover: match settings.failover {
            Mode::NoRebalance => "no_rebalance".to_owned(),
            Mode::Rebalance => "rebalance".to_owned(),
        },
        reset: match cause {
            Cause::Unhealthy => settings.reset_on_unhealthy,
            Cause::Deregistration => settings.reset_on_deregistration,
        },
        both_ends: settings.reset_both_ends,
        proactive: settings.reset_proactive,
        hold_ms: guards.hold_ms,
        min_healthy_percent: guards.min_healthy_percent,
        max_per_second: guards.max_per_second,
        detection_time_ms: milliseconds(detection),
    }
}

fn counts(key: &TargetKey, slots: &super::Slots, workers: &Workers, accounts: &super::Accounts) -> Counts {
    let messages_lost = workers.sum(|all| &all.events_lost);
    let Some(slot) = slots.get(key) else { return Counts { messages_lost, ..Counts::default() } };
    let id = slot.id;
    let sum = |of: &dyn Fn(&WorkerCounters) -> &Counter| workers.sum(of);
    Counts {
        active: sum(&|all| &all.target(id).active_flows),
        active_tcp: sum(&|all| &all.target(id).active_tcp_flows),
        begun: sum(&|all| &all.target(id).new_flows),
        moved: sum(&|all| &all.target(id).moved_away),
        reset_flows: sum(&|all| &all.troubles(id).reset_flows),
        resets: std::array::from_fn(|trigger| sum(&|all| &all.target(id).resets[trigger])),
        suppressed: std::array::from_fn(|why| sum(&|all| &all.troubles(id).suppressed[why])),
        last_returned: last_returned(id, workers, accounts),
        messages_lost,
    }
}

/// When a slot's holder returned a packet last.
fn last_returned(id: TargetId, workers: &Workers, accounts: &super::Accounts) -> Option<Instant> {
    // The stamp of a holder that has returned nothing is the one of the holder before.
    let returned = workers.sum(|all| &all.target(id).packets_back);
    if returned == accounts.before(id).packets_back {
        return None;
    }
    let last = workers.links().iter().map(|link| link.counters.target(id).last_back.get()).max()?;
    (last > 0).then(|| Instants::of(workers).at(last))
}

/// From the workers' clock to the control core's.
struct Instants<'a> {
    workers: &'a Workers,
    now: (Instant, u64),
}

impl<'a> Instants<'a> {
    fn of(workers: &'a Workers) -> Instants<'a> {
        Instants { workers, now: (Instant::now(), workers.clock().cycles()) }
    }

    fn at(&self, cycles: u64) -> Instant {
        let ago = self.workers.clock().duration_of(self.now.1.saturating_sub(cycles));
        self.now.0.checked_sub(ago).unwrap_or(self.now.0)
    }
}

/// Writes the file, in the background.
struct Writer {
    file: RecordFile,
    /// A write that is under way.
    under_way: Option<Receiver<Result<(), StoreError>>>,
    /// What is stored is not what there is, and from when on it is to be written.
    due: Option<Instant>,
    last: Option<Instant>,
    /// Why the last write failed.
    fault: Option<String>,
}

impl Writer {
    fn new(file: RecordFile) -> Writer {
        Writer { file, under_way: None, due: None, last: None, fault: None }
    }

    /// Something is other than what was written.
    fn note(&mut self, changed: bool, urgent: bool) {
        if !changed && !urgent {
            return;
        }
        let wait = if self.fault.is_some() {
            AGAIN
        } else if urgent {
            SOON
        } else {
            LATER
        };
        let due = self.last.map_or_else(Instant::now, |last| last + wait);
        self.due = Some(self.due.map_or(due, |known| known.min(due)));
    }

    /// Begins a write that is due, and hears of one that has ended.
    fn follow(&mut self, text: impl FnOnce() -> String, now: Instant) {
        if let Some(result) = &self.under_way {
            match result.try_recv() {
                Ok(written) => self.ended(written.map_err(|error| error.to_string())),
                Err(TryRecvError::Empty) => return,
                // The thread has panicked.
                Err(TryRecvError::Disconnected) => self.ended(Err(THREAD_GONE.to_owned())),
            }
        }
        if self.due.is_some_and(|due| due <= now) {
            (self.due, self.last) = (None, Some(now));
            self.under_way = Some(self.begin(text()));
        }
    }

    fn ended(&mut self, written: Result<(), String>) {
        self.under_way = None;
        match written {
            Ok(()) => {
                if self.fault.take().is_some() {
                    tracing::info!(name: "failover_records_stored_again", "failover records are stored again");
                }
            }
            Err(fault) => {
                if self.fault.is_none() {
                    tracing::warn!(name: "failover_records_not_stored", %fault, "failover records cannot be stored; they are kept in memory, and tried again");
                }
                self.fault = Some(fault);
                self.due = self.last.map(|last| last + AGAIN);
            }
        }
    }

    /// Begins to write. Nobody waits for it any more if the daemon ends.
    fn begin(&self, text: String) -> Receiver<Result<(), StoreError>> {
        let (done, result) = channel();
        let file = self.file.clone();
        tokio::task::spawn_blocking(move || done.send(file.write(&text)).ok());
        result
    }

    /// Writes what is not written, and waits for it, but not for a disk that hangs.
    fn end(&mut self, text: impl FnOnce() -> String) {
        let until = Instant::now() + LAST_WRITE;
        if let Some(result) = self.under_way.take() {
            match result.recv_timeout(LAST_WRITE) {
                Ok(written) => self.ended(written.map_err(|error| error.to_string())),
                // Two must not write at once.
                Err(_) => return tell_last_lost(&DISK_HANGS),
            }
        }
        if self.due.is_none() {
            return;
        }
        match self.begin(text()).recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tell_last_lost(&error),
            Err(_) => tell_last_lost(&DISK_HANGS),
        }
    }
}

fn tell_last_lost(error: &dyn std::fmt::Display) {
    tracing::warn!(name: "last_failover_records_not_stored", %error, "the last failover records could not be stored");
}
