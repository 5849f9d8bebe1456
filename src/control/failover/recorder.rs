//! Makes the records. Pure: what happened goes in with its time and with what is counted by then, records come out.
//! The control core feeds it (`core/failovers.rs`).
//!
//! A record begins with the decision, and each of the target's counters is read then and from then on whenever
//! something happens to the target and with every look: their differences are its numbers. A target has at most one record of
//! each [`Cause`] open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use super::record::{
    AppliedBy, Cause, CheckSeen, DrainSeen, EndReason, Ending, Failover, FlowsTouched, Mark, Policy,
    ResetsSent, Standing,
};
use super::returns::{End, Lookout, Sample, note};
use crate::control::events::Timestamp;
use crate::control::health::{Course, HealthState, LastCheck, Moment, StateReason, TargetKey};
use crate::datapath::counters::{ResetTrigger, Suppressed};
use crate::id::EndpointId;

/// Records that are open at most: of a fleet that fails as a whole the first ones tell what there is to tell.
pub const MAX_OPEN: usize = 256;

/// How long a recovered target's clients are watched for coming back.
const AFTERMATH: Duration = Duration::from_secs(5);

/// How long flows that go on though their target is gone are watched.
const PATIENCE: Duration = Duration::from_mins(10);

/// How long after a reset, or after the decision, clients are looked out for.
const LOOKOUT: Duration = Duration::from_secs(30);

/// What is counted of a target by now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Live flows.
    pub active: u64,
    /// Of these, TCP.
    pub active_tcp: u64,
    /// Flows that were ever given to it.
    pub begun: u64,
    /// Flows that were moved away from it.
    pub moved: u64,
    /// Flows that a reset ended.
    pub reset_flows: u64,
    /// Resets, by trigger.
    pub resets: [u64; ResetTrigger::COUNT],
    /// Packets whose reset was held back, by reason.
    pub suppressed: [u64; Suppressed::COUNT],
    /// When it returned a packet last.
    pub last_returned: Option<Instant>,
    /// Messages of workers that were lost, of any target's.
    pub messages_lost: u64,
}

/// What is known when a record begins.
#[derive(Debug)]
pub struct Beginning {
    /// The target.
    pub key: TargetKey,
    /// The load balancer that uses its group.
    pub load_balancer: Option<String>,
    /// What the group does about it.
    pub policy: Policy,
    /// How the group stands.
    pub group: Standing,
    /// When it was decided.
    pub decided: Moment,
}

/// What makes a worker go by a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppliedWith {
    /// The message of this number.
    Sequence(u64),
    /// The configuration of this generation.
    Generation(u64),
}

/// What the recorder has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A record began.
    Started(Box<Failover>),
    /// A record ended.
    Ended(Box<Failover>),
}

/// A record that goes on.
#[derive(Debug)]
struct Open {
    record: Failover,
    decided: Moment,
    began: Counts,
    applied_with: Option<AppliedWith>,
    sample: Sample,
    /// The last packet returned that came before any reset.
    returned_at_decision: Option<Instant>,
    last_reset: Option<Instant>,
    /// When the drain was over.
    drained: Option<Instant>,
    /// When it ends, and why.
    closes: Option<(Instant, EndReason)>,
    /// The flows that were left when the target recovered: those since then are of another story.
    frozen: Option<Counts>,
}

/// Makes records of what the control core hears.
#[derive(Debug, Default)]
pub struct Recorder {
    open: BTreeMap<(TargetKey, Cause), Open>,
    lookout: Lookout,
    next_id: u64,
    not_recorded: u64,
    news: Vec<News>,
    changed: bool,
}

impl Recorder {
    /// A recorder whose first record has this number.
    pub fn new(next_id: u64) -> Recorder {
        Recorder { next_id, ..Recorder::default() }
    }

    /// The number that the next record will have.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// The records that are open, the newest first.
    pub fn open(&self) -> Vec<&Failover> {
        let mut open: Vec<&Failover> = self.open.values().map(|open| &open.record).collect();
        open.sort_by_key(|record| std::cmp::Reverse(record.id));
        open
    }

    /// The number of this target's record that is open; of two that of the later one.
    pub fn open_of(&self, key: &TargetKey) -> Option<u64> {
        if self.open.is_empty() {
            return None;
        }
        let of = |cause| self.open.get(&(key.clone(), cause)).map(|open| open.record.id);
        of(Cause::Unhealthy).max(of(Cause::Deregistration))
    }

    /// The records that have ended and were not told of yet ([`Recorder::take_news`]).
    pub fn just_ended(&self) -> impl Iterator<Item = &Failover> {
        self.news.iter().filter_map(|news| match news {
            News::Started(_) => None,
            News::Ended(record) => Some(&**record),
        })
    }

    /// Failovers that were not recorded, as too many were under way.
    pub fn not_recorded(&self) -> u64 {
        self.not_recorded
    }

    /// Whether there is room for a record of this target, once those of it that are open have ended.
    pub fn has_room_for(&self, key: &TargetKey) -> bool {
        let has = |cause| self.open.contains_key(&(key.clone(), cause));
        self.open.len() < MAX_OPEN || has(Cause::Unhealthy) || has(Cause::Deregistration)
    }

    /// What there is to tell, in order, and whether any record is other than when this was last asked.
    pub fn take_news(&mut self) -> (Vec<News>, bool) {
        (std::mem::take(&mut self.news), std::mem::take(&mut self.changed))
    }

    /// Whether any record is open.
    pub fn is_recording(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether some record is to be told of connections that begin.
    pub fn looks_out(&self, now: Instant) -> bool {
        self.open.values().any(|open| open.looks_out(now))
    }

    /// A target was found unhealthy, by these checks; workers are told by the message `sequence`.
    pub fn failed(
        &mut self,
        beginning: Beginning,
        (reason, course): (Option<StateReason>, Option<&Course>),
        sequence: Option<u64>,
        counts: Counts,
    ) {
        let now = beginning.decided.monotonic;
        let id = (beginning.key.clone(), Cause::Unhealthy);
        if let Some(before) = self.open.get(&id) {
            if before.closes.is_none() {
                return; // It was unavailable meanwhile.
            }
            self.end(&id, EndReason::FailedAgain, counts, now);
        }
        let Some(open) = self.begin(id.clone(), beginning, counts) else { return };
        if let Some(StateReason { code, description }) = reason {
            (open.record.reason, open.record.description) = (Some(code), description);
        }
        if let Some(course) = course {
            let seen = |check: &LastCheck| open.decided_at(check);
            let last_good = course.last_good.as_ref().map(seen);
            open.record.failed_checks = course.failures.iter().map(seen).collect();
            open.record.last_good_check = last_good;
        }
        open.applied_with = sequence.map(AppliedWith::Sequence);
        self.started(&id, now);
    }

    /// A target was deregistered, and its flows have until `ends`.
    pub fn drains(&mut self, beginning: Beginning, ends: Timestamp, counts: Counts) {
        let now = beginning.decided.monotonic;
        self.leaves(&beginning.key, EndReason::Deregistered, counts, now);
        let id = (beginning.key.clone(), Cause::Deregistration);
        if self.open.contains_key(&id) {
            self.end(&id, EndReason::RegisteredAgain, counts, now);
        }
        let Some(open) = self.begin(id.clone(), beginning, counts) else { return };
        open.record.drain = Some(DrainSeen { ends, ended: None, flows_then: None });
        self.started(&id, now);
    }

    /// A drain is over: its delay has elapsed or its group is gone, by the configuration of this generation.
    pub fn drained(&mut self, key: &TargetKey, generation: u64, counts: Counts, now: Instant) {
        let Some(open) = self.open.get_mut(&(key.clone(), Cause::Deregistration)) else { return };
        let ended = open.mark(now);
        if let Some(drain) = open.record.drain.as_mut().filter(|drain| drain.ended.is_none()) {
            (drain.ended, drain.flows_then) = (Some(ended), Some(counts.active));
            open.applied_with = Some(AppliedWith::Generation(generation));
            open.drained = Some(now);
            open.closes = Some((now + PATIENCE, EndReason::FlowsLeft));
        }
        open.read(counts, now);
        self.changed = true;
    }

    /// A target's state is another one now.
    pub fn changed(&mut self, key: &TargetKey, to: HealthState, counts: Counts, at: Moment) {
        match to {
            HealthState::Healthy => self.recovered(key, counts, at.monotonic),
            // Told with the change that made it so.
            HealthState::Draining | HealthState::Unavailable | HealthState::Unhealthy => {}
            HealthState::Unused => self.leaves(key, EndReason::NotInUse, counts, at.monotonic),
            HealthState::Initial => self.leaves(key, EndReason::RegisteredAgain, counts, at.monotonic),
        }
    }

    fn recovered(&mut self, key: &TargetKey, counts: Counts, now: Instant) {
        let Some(open) = self.open.get_mut(&(key.clone(), Cause::Unhealthy)) else { return };
        if open.closes.is_none() {
            open.record.recovered = Some(open.mark(now));
            open.read(counts, now);
            open.frozen = Some(counts);
            open.closes = Some((now + AFTERMATH, EndReason::Recovered));
            self.changed = true;
        }
    }

    /// An unhealthy target is not one any more, but not as it recovered.
    fn leaves(&mut self, key: &TargetKey, why: EndReason, counts: Counts, now: Instant) {
        let id = (key.clone(), Cause::Unhealthy);
        let Some(open) = self.open.get(&id) else { return };
        let why = open.closes.map_or(why, |(_, why)| why);
        self.end(&id, why, counts, now);
    }

    /// A deregistered target was registered again.
    pub fn registered_again(&mut self, key: &TargetKey, counts: Counts, now: Instant) {
        let id = (key.clone(), Cause::Deregistration);
        if let Some(open) = self.open.get_mut(&id) {
            let mark = open.mark(now);
            open.record.recovered = Some(mark);
            if let Some(drain) = open.record.drain.as_mut().filter(|drain| drain.ended.is_none()) {
                (drain.ended, drain.flows_then) = (Some(mark), Some(counts.active));
            }
            self.end(&id, EndReason::RegisteredAgain, counts, now);
        }
    }

    /// A worker goes by the message `sequence`.
    pub fn applied(&mut self, sequence: u64, worker: u8, at: Instant) {
        let with = AppliedWith::Sequence(sequence);
        let Some(open) = self.open.values_mut().find(|open| open.applied_with == Some(with)) else { return };
        open.apply(worker, at);
        self.changed = true;
    }

    /// A worker goes by the configuration of this generation since `at`, or by a later one.
    pub fn configured(&mut self, generation: u64, worker: u8, at: Instant) {
        for open in self.open.values_mut() {
            if matches!(open.applied_with, Some(AppliedWith::Generation(wanted)) if wanted <= generation)
                && open.record.applied.iter().all(|applied| applied.worker != worker)
            {
                open.apply(worker, at);
                self.changed = true;
            }
        }
    }

    /// Whether some record waits for workers to go by a configuration.
    pub fn awaits_configuration(&self, workers: usize) -> bool {
        let awaits = |open: &Open| {
            matches!(open.applied_with, Some(AppliedWith::Generation(_)))
                && open.record.applied.len() < workers
        };
        self.open.values().any(awaits)
    }

    /// A flow of a target was reset, for this trigger. `counts` is asked when this is a record's first.
    pub fn reset(
        &mut self,
        key: &TargetKey,
        trigger: ResetTrigger,
        (endpoint, ends): (EndpointId, (End, End)),
        at: Instant,
        counts: impl FnOnce() -> Counts,
    ) {
        let Recorder { open, lookout, changed, .. } = self;
        let id =
            Cause::of(trigger).iter().map(|cause| (key.clone(), *cause)).find(|id| open.contains_key(id));
        let Some(open) = id.and_then(|id| open.get_mut(&id)) else { return };
        let at = open.not_before(at);
        let mark = open.mark(at);
        let resets = &mut open.record.resets;
        let before = |known: Option<Mark>| {
            known.is_none_or(|known| mark.after_decision_microseconds < known.after_decision_microseconds)
        };
        let is_first = resets.first.is_none();
        if before(resets.first) {
            resets.first = Some(mark);
        }
        if resets.last.is_none_or(|last| mark.after_decision_microseconds > last.after_decision_microseconds)
        {
            resets.last = Some(mark);
            open.last_reset = Some(at);
        }
        if is_first {
            let counts = counts();
            open.note_returned(counts.last_returned.filter(|returned| *returned <= at));
        }
        lookout.reset((open.record.id, &mut open.sample), endpoint, ends, at);
        *changed = true;
    }

    /// A connection began, and went to `target`.
    pub fn begun(&mut self, endpoint: EndpointId, from: IpAddr, to: End, target: Ipv4Addr, at: Instant) {
        let Some((record, took)) = self.lookout.begun(endpoint, from, to, at) else { return };
        if let Some(open) = self.open.values_mut().find(|open| open.record.id == record) {
            note(&mut open.sample, target, took);
            self.changed = true;
        }
    }

    /// A target that is no longer of its group has no flow left, and is forgotten.
    pub fn gone(&mut self, key: &TargetKey, counts: Counts, now: Instant) {
        for cause in [Cause::Unhealthy, Cause::Deregistration] {
            let id = (key.clone(), cause);
            if self.open.contains_key(&id) {
                self.end(&id, EndReason::Gone, counts, now);
            }
        }
    }

    /// Reads the counters of every target that has an open record, and ends those whose time has come.
    pub fn look(&mut self, counts: impl Fn(&TargetKey) -> Counts, now: Instant) {
        let mut due = Vec::new();
        for (id, open) in &mut self.open {
            let counted = counts(&id.0);
            self.changed |= open.read(counted, now);
            if let Some((_, why)) = open.closes.filter(|(at, _)| *at <= now) {
                due.push((id.clone(), why, counted));
            }
        }
        for (id, why, counted) in due {
            self.end(&id, why, counted, now);
        }
    }

    /// Ends every record, as the daemon ends.
    pub fn interrupt(&mut self, counts: impl Fn(&TargetKey) -> Counts, now: Instant) {
        let ids: Vec<_> = self.open.keys().cloned().collect();
        for id in ids {
            let counted = counts(&id.0);
            self.end(&id, EndReason::Interrupted, counted, now);
        }
    }

    fn begin(&mut self, id: (TargetKey, Cause), beginning: Beginning, counts: Counts) -> Option<&mut Open> {
        if self.open.len() >= MAX_OPEN {
            self.not_recorded += 1;
            return None;
        }
        let open = Open::new(self.next_id, id.1, beginning, counts);
        self.next_id += 1;
        match self.open.entry(id) {
            Entry::Vacant(place) => Some(place.insert(open)),
            Entry::Occupied(place) => {
                let place = place.into_mut();
                *place = open;
                Some(place)
            }
        }
    }

    /// Tells of a record that was begun just now.
    fn started(&mut self, id: &(TargetKey, Cause), now: Instant) {
        if let Some(open) = self.open.get_mut(id) {
            open.read(open.began, now);
            self.news.push(News::Started(Box::new(open.record.clone())));
        }
        self.changed = true;
    }

    fn end(&mut self, id: &(TargetKey, Cause), why: EndReason, counts: Counts, now: Instant) {
        let Some(mut open) = self.open.remove(id) else { return };
        open.read(counts, now);
        self.lookout.forget(&open.sample);
        open.record.ended = Some(Ending { at: open.mark(now), why });
        self.news.push(News::Ended(Box::new(open.record)));
        self.changed = true;
    }
}

impl Cause {
    /// Which records resets of this trigger are of, the likelier first.
    fn of(trigger: ResetTrigger) -> &'static [Cause] {
        match trigger {
            ResetTrigger::Unhealthy => &[Cause::Unhealthy],
            ResetTrigger::Deregistration => &[Cause::Deregistration],
            ResetTrigger::BothEnds | ResetTrigger::Proactive => &[Cause::Unhealthy, Cause::Deregistration],
            // These are for the flow's own sake, whatever its target does.
            ResetTrigger::IdleTimeout | ResetTrigger::NoFlow => &[],
        }
    }
}

impl Open {
    fn new(id: u64, cause: Cause, beginning: Beginning, counts: Counts) -> Open {
        let Beginning { key, load_balancer, policy, group, decided } = beginning;
        let at = Timestamp::from(decided.wall);
        let record = Failover {
            id,
            cause,
            load_balancer,
            target_group: key.group.to_string(),
            target: key.address,
            policy,
            group,
            decided: at,
            reason: None,
            description: String::new(),
            last_good_check: None,
            failed_checks: Vec::new(),
            last_returned: None,
            applied: Vec::new(),
            drain: None,
            flows: FlowsTouched::default(),
            resets: ResetsSent::default(),
            suppressed: BTreeMap::new(),
            clients: None,
            messages_lost: 0,
            durations: super::record::Durations::default(),
            emptied: None,
            recovered: None,
            as_of: Mark { at, after_decision_microseconds: 0 },
            ended: None,
        };
        let returned = counts.last_returned;
        Open {
            record,
            decided,
            began: counts,
            applied_with: None,
            sample: Sample::default(),
            returned_at_decision: returned,
            last_reset: None,
            drained: None,
            closes: None,
            frozen: None,
        }
    }

    fn looks_out(&self, now: Instant) -> bool {
        let since = match (&self.record.drain, self.last_reset) {
            (_, Some(last)) => Some(last),
            (None, None) => Some(self.decided.monotonic),
            // Nobody is reset while it drains.
            (Some(_), None) => self.drained,
        };
        self.record.policy.reset && since.is_some_and(|since| now.saturating_duration_since(since) < LOOKOUT)
    }

    /// A moment, as the record tells it.
    fn mark(&self, at: Instant) -> Mark {
        let Moment { wall, monotonic } = self.decided;
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        match at.checked_duration_since(monotonic) {
            Some(after) => Mark {
                at: wall.checked_add(after).unwrap_or(wall).into(),
                after_decision_microseconds: micros(after),
            },
            None => {
                let before = monotonic.duration_since(at);
                Mark {
                    at: wall.checked_sub(before).unwrap_or(wall).into(),
                    after_decision_microseconds: -micros(before),
                }
            }
        }
    }

    fn decided_at(&self, check: &LastCheck) -> CheckSeen {
        let (reason, description) = check
            .failure
            .as_ref()
            .map_or((None, String::new()), |failure| (Some(failure.code), failure.description.clone()));
        CheckSeen {
            began: self.mark(check.started.monotonic),
            took_microseconds: u64::try_from(check.latency.as_micros()).unwrap_or(u64::MAX),
            reason,
            description,
        }
    }

    /// A worker's time is that of the begin of its round, into which the decision may have come.
    fn not_before(&self, at: Instant) -> Instant {
        at.max(self.decided.monotonic)
    }

    fn apply(&mut self, worker: u8, at: Instant) {
        let at = self.mark(self.not_before(at));
        self.record.applied.push(AppliedBy { worker, at });
        self.record.applied.sort_by_key(|applied| applied.worker);
        self.record.measure();
    }

    fn note_returned(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.returned_at_decision = Some(self.returned_at_decision.map_or(at, |known| known.max(at)));
        }
    }

    /// Takes what is counted by now. Whether anything is other than it was.
    fn read(&mut self, now: Counts, at: Instant) -> bool {
        let before = self.record.clone();
        let began = &self.began;
        let grown = |of: fn(&Counts) -> u64| of(&now).saturating_sub(of(began));
        let flows = self.frozen.unwrap_or(now);
        let begun = flows.begun.saturating_sub(began.begun);
        let (moved, reset) = (grown(|all| all.moved), grown(|all| all.reset_flows));
        let all = began.active + begun;
        self.record.flows = FlowsTouched {
            at_decision: began.active,
            tcp_at_decision: began.active_tcp,
            begun,
            moved,
            reset,
            ended: all.saturating_sub(moved + reset + flows.active),
            left: flows.active,
        };
        let causes = |trigger: ResetTrigger| Cause::of(trigger).contains(&self.record.cause);
        let counted = ResetTrigger::ALL.iter().copied().filter(|trigger| causes(*trigger)).map(|trigger| {
            let place = trigger.index();
            let count = now.resets[place].saturating_sub(began.resets[place]);
            (crate::control::events::ResetTrigger::from(trigger).to_string(), count)
        });
        let by_trigger: BTreeMap<String, u64> = counted.filter(|(_, count)| *count > 0).collect();
        self.record.resets.total = by_trigger.values().sum();
        self.record.resets.by_trigger = by_trigger;
        let held = Suppressed::ALL.iter().map(|why| {
            let place = why.index();
            (why.name().to_owned(), now.suppressed[place].saturating_sub(began.suppressed[place]))
        });
        self.record.suppressed = held.filter(|(_, count)| *count > 0).collect();
        self.record.messages_lost = grown(|all| all.messages_lost);
        // What a target returns after the first reset says nothing of how long its clients waited for that.
        if self.record.resets.first.is_none() && self.frozen.is_none() {
            self.note_returned(now.last_returned);
        }
        self.record.last_returned = self.returned_at_decision.map(|returned| self.mark(returned));
        if self.record.emptied.is_none() && flows.active == 0 && all > 0 {
            self.record.emptied = Some(self.mark(at));
        }
        self.record.clients = self.sample.told();
        self.record.measure();
        let changed = Failover { as_of: before.as_of, ..self.record.clone() } != before;
        self.record.as_of = self.mark(at);
        changed
    }
}

#[cfg(test)]
mod tests;
