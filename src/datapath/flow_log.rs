//! Flow logs, as far as a worker has part in them: it counts each flow's packets and bytes ([`Accounts`]), and gives a
//! [`FlowReport`] of a flow that ends, is moved, or goes on for long, into a ring of its own, of which the reader is
//! no worker's concern. If the ring is full the report is lost and counted: nothing here waits.
//!
//! All of it is in one [`FlowLog`], which the control core makes and gives to the worker by a message, and gets back,
//! when the log is over, by another. While there is none, a burst pays for it with one look; see
//! docs/flow-logs.md for what it costs while there is one.
//!
//! A flow's numbers are those of packets that were of it: handed on to its target, or returned by it and of the flow.
//! What a port then does not take is in them, and in the drop counters too.

use std::fmt;

use rtrb::Producer;

use super::counters::{ResetTrigger, WorkerCounters};
use super::flows::is_live;
use crate::flow::{
    Account, Accounts, Cookie, Direction, Ended, Entry, EntryId, FlowFlags, FlowKey, FlowState, HashSeed,
    OwnCookies, Table,
};
use crate::id::{Millis, TargetId};

/// Entries that the walk looks at in one round at most.
const STEPS_A_ROUND: u32 = 32;

/// The walk passes the whole table once in about so many milliseconds, as a power of two.
const SWEEP_MS_LOG2: u32 = 12;

/// Why there is a report of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Both ends have sent their FIN.
    Fin,
    /// One end, or the appliance, has reset it.
    Rst,
    /// It was silent for its idle time.
    Idle,
    /// TCP that was never answered.
    HalfOpen,
    /// The gateway has reset it.
    Reset(ResetTrigger),
    /// It made room for another (F-12).
    Evicted,
    /// A packet began a new flow in its place (F-14, R-6).
    Replaced,
    /// A packet of it was dropped and nothing is left of it.
    Dropped,
    /// It goes on with another target.
    Moved,
    /// It goes on: what was counted since the report before.
    GoesOn,
    /// It goes on: the log is over.
    LogOver,
}

impl Why {
    /// Whether the flow goes on with the target that the report names.
    #[must_use]
    pub fn goes_on(self) -> bool {
        matches!(self, Why::GoesOn | Why::LogOver)
    }
}

/// What is told of one flow: what was counted since the report before, if there was one. Pairs are by
/// [`Direction::index`].
#[derive(Clone, Copy, Debug)]
pub struct FlowReport {
    /// The flow.
    pub key: FlowKey,
    /// Which way its first packet went.
    pub initiator: Direction,
    /// Its target.
    pub target: TargetId,
    /// Which holder of that slot.
    pub target_generation: u16,
    /// Its cookie on the wire.
    pub cookie: Cookie,
    /// Why there is a report.
    pub why: Why,
    /// What was counted.
    pub account: Account,
    /// How long ago it began, in milliseconds; of a flow that was there before the log, when that began.
    pub began_ms_ago: u32,
    /// How long ago its last packet came, in milliseconds.
    pub last_ms_ago: u32,
    /// When this was written, in cycles of the workers' clock.
    pub at_cycles: u64,
}

/// Which flows are told of.
#[derive(Clone, Debug)]
pub struct Sampling {
    /// The same on every node of a site, so that a flow that comes to another node is in that node's log too.
    pub seed: HashSeed,
    /// One in so many; at least 1.
    pub one_in: u32,
}

impl Sampling {
    /// Whether this flow is among them.
    fn has(&self, key: &FlowKey) -> bool {
        if self.one_in <= 1 {
            return true;
        }
        // What is left of the hash's other uses is mixed again, so that no target's flows are told of more often.
        let mixed = self.seed.flow(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (mixed * u64::from(self.one_in)) >> 32 == 0
    }
}

/// What a worker needs to log its flows.
pub struct FlowLog {
    accounts: Accounts,
    reports: Producer<FlowReport>,
    sampling: Sampling,
    /// A flow that goes on is told of so often; `None`: not before it ends.
    interim_ms: Option<u32>,
    cookies: Option<OwnCookies>,
    /// When the worker took it.
    since: Millis,
    now: Millis,
    now_cycles: u64,
    /// The entry that the walk comes to next, and how many it is due to look at.
    next: u32,
    due: u32,
    walked_at: Millis,
    /// It ends when the walk has been through the table: nothing is counted any more.
    ending: bool,
}

impl fmt::Debug for FlowLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowLog")
            .field("sampling", &self.sampling)
            .field("ending", &self.ending)
            .finish_non_exhaustive()
    }
}

impl FlowLog {
    /// A log that no worker has yet.
    #[must_use]
    pub fn new(
        accounts: Accounts,
        reports: Producer<FlowReport>,
        sampling: Sampling,
        interim_ms: Option<u32>,
    ) -> FlowLog {
        FlowLog {
            accounts,
            reports,
            sampling,
            interim_ms,
            cookies: None,
            since: Millis(0),
            now: Millis(0),
            now_cycles: 0,
            next: 0,
            due: 0,
            walked_at: Millis(0),
            ending: false,
        }
    }

    /// The worker whose table this is takes it.
    pub(super) fn begin(&mut self, table: &Table, now: Millis, now_cycles: u64) {
        self.cookies = Some(table.own_cookies());
        (self.since, self.walked_at) = (now, now);
        self.note_time(now, now_cycles);
    }

    /// Once a round.
    pub(super) fn note_time(&mut self, now: Millis, now_cycles: u64) {
        (self.now, self.now_cycles) = (now, now_cycles);
    }

    /// Begins to end: what was counted of flows that go on is told, and nothing more is counted.
    pub(super) fn begin_to_end(&mut self) {
        (self.ending, self.next) = (true, 0);
    }

    /// Whether packets are counted.
    #[inline]
    pub(super) fn is_counting(&self) -> bool {
        !self.ending
    }

    /// Asks for the line of a flow that is about to be counted.
    #[inline]
    pub(super) fn prefetch(&self, id: EntryId) {
        self.accounts.prefetch(id);
    }

    /// A flow begins in this entry.
    #[inline]
    pub(super) fn open(&mut self, id: EntryId) {
        *self.accounts.of_mut(id) = Account::begun(self.now);
    }

    /// A packet was sent on to its flow's target.
    #[inline]
    pub(super) fn count_out(&mut self, id: EntryId, direction: Direction, bytes: u32) {
        if self.is_counting() {
            let account = self.accounts.of_mut(id);
            let way = direction.index();
            account.packets_out[way] = account.packets_out[way].saturating_add(1);
            account.bytes_out[way] = account.bytes_out[way].wrapping_add(bytes.into());
        }
    }

    /// A packet was returned by its flow's target.
    #[inline]
    pub(super) fn count_back(&mut self, id: EntryId, direction: Direction, bytes: u32) {
        if self.is_counting() {
            let account = self.accounts.of_mut(id);
            let way = direction.index();
            account.packets_back[way] = account.packets_back[way].saturating_add(1);
            account.bytes_back[way] = account.bytes_back[way].wrapping_add(bytes.into());
        }
    }

    /// The flow of this entry, which is still as it was, ends here; `otherwise` unless it had ended by itself, as
    /// `ended` and the entry say. A flow that had ended before was told of then.
    pub(super) fn end(
        &mut self,
        id: EntryId,
        entry: &Entry,
        (ended, otherwise): (Option<Ended>, Why),
        counters: &WorkerCounters,
    ) {
        if is_live(entry) {
            self.tell(id, entry, why_ended(entry, ended, otherwise), counters);
            *self.accounts.of_mut(id) = Account::default();
        }
    }

    /// The flow of this entry, which is still as it was, goes on with another target.
    pub(super) fn moved(&mut self, id: EntryId, entry: &Entry, counters: &WorkerCounters) {
        self.tell(id, entry, Why::Moved, counters);
        let now = self.now;
        self.accounts.of_mut(id).tell(now);
    }

    fn tell(&mut self, id: EntryId, entry: &Entry, why: Why, counters: &WorkerCounters) {
        if !self.sampling.has(entry.key()) {
            return;
        }
        let report = self.report(id, entry, why);
        if self.reports.push(report).is_ok() {
            counters.flow_reports.add(1);
        } else {
            let Account { packets_out, bytes_out, .. } = report.account;
            counters.flow_reports_lost.add(1);
            counters.flow_report_packets_lost.add(packets_out.iter().map(|count| u64::from(*count)).sum());
            counters
                .flow_report_bytes_lost
                .add(bytes_out.iter().fold(0, |sum, bytes| sum.wrapping_add(*bytes)));
        }
    }

    fn report(&self, id: EntryId, entry: &Entry, why: Why) -> FlowReport {
        let account = *self.accounts.of(id);
        let began = if account.is_whole() { account.began } else { self.since };
        FlowReport {
            key: *entry.key(),
            initiator: entry.initiator(),
            target: entry.target,
            target_generation: entry.target_generation,
            cookie: self.cookies.map_or(Cookie(0), |cookies| cookies.of(id, entry)),
            why,
            account,
            began_ms_ago: self.now.since(began),
            last_ms_ago: self.now.since(entry.last_seen),
            at_cycles: self.now_cycles,
        }
    }

    /// A step of the walk, which tells of flows that go on. It waits for the reader, and so loses nothing. Returns
    /// whether it has been through the table and the log is over.
    pub(super) fn walk(&mut self, table: &Table, counters: &WorkerCounters) -> bool {
        let elapsed = self.now.since(self.walked_at);
        if elapsed > 0 {
            let rate = (table.capacity() >> SWEEP_MS_LOG2).max(1);
            self.due = self.due.saturating_add(elapsed.saturating_mul(rate)).min(table.capacity());
            self.walked_at = self.now;
        }
        let steps = if self.ending { STEPS_A_ROUND } else { self.due.min(STEPS_A_ROUND) };
        if steps == 0 || !self.has_room() {
            return false;
        }
        self.due = self.due.saturating_sub(steps);
        let next = table.scan(self.next, steps, |id, entry| self.look_at(id, entry, counters));
        self.next = next.unwrap_or(0);
        next.is_none() && self.ending
    }

    /// Whether there is room for what a step of the walk may find.
    pub(super) fn has_room(&self) -> bool {
        self.reports.slots() >= STEPS_A_ROUND as usize
    }

    fn look_at(&mut self, id: EntryId, entry: &Entry, counters: &WorkerCounters) {
        if !is_live(entry) {
            return;
        }
        let (now, since, interim) = (self.now, self.since, self.interim_ms);
        let account = self.accounts.of_mut(id);
        let silent_for = now.since(account.told().unwrap_or(since));
        let is_due = interim.is_some_and(|interim| silent_for >= interim) || account.is_nearly_full();
        let why = if self.ending { Why::LogOver } else { Why::GoesOn };
        if (self.ending || is_due) && !account.is_idle() {
            self.tell(id, entry, why, counters);
            self.accounts.of_mut(id).tell(now);
        }
        // Lest it seem to have begun only now, once half of what the clock can tell apart is over.
        let account = self.accounts.of_mut(id);
        if account.is_whole() && now.0.wrapping_sub(account.began.0) > u32::MAX / 4 {
            account.began = Millis(now.0.wrapping_sub(u32::MAX / 4));
        }
    }
}

/// Why a flow, which nothing has changed yet, ends.
fn why_ended(entry: &Entry, ended: Option<Ended>, otherwise: Why) -> Why {
    let both = FlowFlags::FIN_LOW | FlowFlags::FIN_HIGH;
    match (entry.state(), ended) {
        (FlowState::Closed, _) if entry.flags.contains(both) => Why::Fin,
        (FlowState::Closed, _) => Why::Rst,
        (_, Some(Ended::TcpIdle | Ended::OtherIdle)) => Why::Idle,
        (_, Some(Ended::HalfOpen)) => Why::HalfOpen,
        (_, Some(Ended::Closed | Ended::Owing) | None) => otherwise,
    }
}
