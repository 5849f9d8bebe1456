//! A worker's flows: the flow table together with what must stay true beside it: the link-layer
//! headers that flows hold and the numbers of live and of remembered flows of each target.

use super::arrival::Arrival;
use super::counters::WorkerCounters;
use super::decide::{
    Debts, Ends, Facts, FlowFacts, Forgot, Then, Update, close, first_state, rejoined_state,
};
use super::flow_log::{FlowLog, Why};
use super::forwarding::{Condition, Conditions, Forwarding};
use super::interfaces::VlanTags;
use super::links::{LinkTable, MAX_HEADER};
use crate::flow::{
    Cookie, Direction, Ended, Entry, EntryId, FlowFlags, FlowKey, FlowState, LinkId, NewEntry, NotInserted,
    Table, Timers,
};
use crate::id::{Millis, PortId, TargetId, WorkerId};
use crate::wire::ethernet::{ADDRESSES_LEN, HEADER_LEN, Link};
use crate::wire::packet::{Kind, Packet, protocol};
use crate::wire::tcp::TcpFlags;

mod resumed;
mod room;

/// As long as the longest of the timeouts after an overflow or an eviction (A-7, F-9): after it that is over for every load
/// balancer.
const OVERFLOW_PAST_MS: u32 = 6_000_000;

/// The table has no room for a flow, and none can be made (F-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// What a flow is made of.
#[derive(Clone, Copy, Debug)]
pub struct FirstPacket<'a> {
    /// Its flow.
    pub key: &'a FlowKey,
    /// The hash of `key`.
    pub hash: u64,
    /// What decides over it.
    pub facts: Facts,
    /// It is not the first one of its handshake, whose flow had to make room.
    pub rejoins: bool,
}

/// What ends a flow, and when.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// Why, unless the flow has ended by itself by now.
    pub why: Why,
    /// When.
    pub now: Millis,
    /// How long its flows are kept.
    pub timers: &'a Timers,
}

impl Cause<'_> {
    fn of(&self, entry: &Entry) -> (Option<Ended>, Why) {
        (entry.expiry(self.now, self.timers), self.why)
    }
}

/// A worker's flows.
pub struct Flows {
    /// The flow table. Entries are made and ended through [`Flows`] only.
    pub table: Table,
    /// The link-layer headers in use.
    pub links: LinkTable,
    /// What is counted of each flow, while flow logs are on.
    pub log: Option<Box<FlowLog>>,
    /// When the table last turned a flow away.
    last_overflow: Option<Millis>,
    /// When a half-open flow last made room for another.
    pub(super) last_eviction: Option<Millis>,
    /// Looks for one that may go, where all are of live flows.
    unanswered: room::Walk,
    /// When a packet was last sent without state.
    last_stateless: Option<Millis>,
    /// Until when TCP packets of no flow may be of a connection that a restart lost.
    adopt_until: Option<Millis>,
}

impl Flows {
    /// Flows in an empty table.
    pub fn new(table: Table, links: LinkTable) -> Flows {
        Flows {
            table,
            links,
            log: None,
            last_overflow: None,
            last_eviction: None,
            last_stateless: None,
            unanswered: room::Walk::default(),
            adopt_until: None,
        }
    }

    /// What decides over a packet of this flow.
    #[inline]
    pub fn facts(
        &self,
        id: EntryId,
        forwarding: &Forwarding,
        conditions: &Conditions,
        now: Millis,
    ) -> FlowFacts {
        let entry = self.table.entry(id);
        let known = forwarding.target(entry.target, entry.target_generation).is_some();
        let condition = if known { conditions.of(entry.target) } else { Condition::Removed };
        FlowFacts {
            state: entry.state(),
            last_seen: entry.last_seen,
            fins: fins(entry.flags),
            resets: resets(entry),
            fail_open: entry.flags.contains(FlowFlags::FAIL_OPEN),
            debts: debts(entry.flags),
            condition,
            unhealthy_for: match condition {
                Condition::Unhealthy => conditions.unhealthy_for(entry.target, now),
                _ => 0,
            },
        }
    }

    /// The kept link-layer header of a first packet. A routed endpoint keeps none: what comes back leaves
    /// by its routes. `None`: there is no room for it.
    #[inline]
    pub fn link_of_new(
        &mut self,
        arrival: &Arrival,
        header: &[u8],
        now: Millis,
        counters: &WorkerCounters,
    ) -> Option<LinkId> {
        match arrival.interface {
            Some(_) => Some(LinkId::NONE),
            None => self.intern((arrival.port, header), None, now, counters),
        }
    }

    /// The header that a stateless cookie names (F-12): what [`link_of_new`](Flows::link_of_new) gave, or
    /// for a routed endpoint the port and tags alone, one for all senders, which say which endpoint it is.
    #[cold]
    pub fn stateless_link(&mut self, arrival: &Arrival, link: LinkId, header: &[u8]) -> Option<LinkId> {
        if arrival.interface.is_none() {
            return Some(link);
        }
        let tags = VlanTags::of(header, &Link::parse(header).ok()?).bytes();
        let mut tags_alone = [0; MAX_HEADER];
        tags_alone.get_mut(ADDRESSES_LEN..)?.iter_mut().zip(&tags).for_each(|(to, byte)| *to = *byte);
        self.links.intern(arrival.port, tags_alone.get(..HEADER_LEN + tags.len())?)
    }

    /// Makes the flow of a first packet, which the table was just seen not to have. Whoever had to make room for
    /// it is ended first.
    #[inline]
    pub fn begin(
        &mut self,
        first: &FirstPacket<'_>,
        (target, target_generation): (TargetId, u16),
        link: LinkId,
        (fail_open, debts): (bool, Debts),
        now: Millis,
        counters: &WorkerCounters,
    ) -> Result<EntryId, NoRoom> {
        let update = if first.rejoins { rejoined_state(&first.facts) } else { first_state(&first.facts) };
        let direction = first.facts.direction;
        let mut flags = FlowFlags::empty();
        flags.set(FlowFlags::FIN_LOW, update.fins.low);
        flags.set(FlowFlags::FIN_HIGH, update.fins.high);
        flags.set(FlowFlags::INITIATOR_HIGH, direction == Direction::HighToLow);
        flags.set(FlowFlags::FAIL_OPEN, fail_open);
        set_debts(&mut flags, debts);
        let mut links = [LinkId::NONE; 2];
        links[direction.index()] = link;
        let new = NewEntry { state: update.state, now, target, target_generation, link: links, flags };
        match self.seat(first.hash, first.key, now, counters) {
            Ok(seat) => {
                let Flows { table, links, log, last_eviction, .. } = self;
                let (id, _) = table.take(seat, first.key, new, |id, gone| {
                    note_evicted(last_eviction, gone, now, counters);
                    settle((links, log), (id, gone), (None, Why::Evicted), counters);
                });
                if let Some(log) = log {
                    log.open(id);
                }
                table.look_ahead(1);
                links.hold(link);
                counters.endpoint_flows(first.key.endpoint()).add(1);
                count_new(target, first.facts.tcp, counters);
                counters.flow_entries.set(u64::from(table.len()));
                Ok(id)
            }
            Err(NotInserted::Exists(id)) => Ok(id),
            Err(NotInserted::Full) => Err(NoRoom),
        }
    }

    /// Ends a flow: its entry goes. `cause` is why, unless it has ended by itself by now.
    pub fn end(&mut self, id: EntryId, cause: &Cause<'_>, counters: &WorkerCounters) {
        let Flows { table, links, log, .. } = self;
        let entry = table.entry(id);
        settle((links, log), (id, entry), cause.of(entry), counters);
        self.table.remove(id);
        counters.flow_entries.set(u64::from(self.table.len()));
    }

    /// Does with a flow's entry what a packet that is not sent on leaves of it.
    pub fn after(&mut self, id: EntryId, then: Then, cause: &Cause<'_>, counters: &WorkerCounters) {
        match then {
            Then::Forget => self.end(id, cause, counters),
            Then::Keep(debts) => set_debts(&mut self.table.entry_mut(id).flags, debts),
            Then::Owe(debts) => self.owe(id, debts, cause, counters),
        }
    }

    /// Ends a flow and remembers it for what it owes, from now on.
    pub fn owe(&mut self, id: EntryId, debts: Debts, cause: &Cause<'_>, counters: &WorkerCounters) {
        let Flows { table, links, log, .. } = self;
        let entry = table.entry(id);
        settle((links, log), (id, entry), cause.of(entry), counters);
        self.table.set_state(id, FlowState::Owing);
        let entry = self.table.entry_mut(id);
        entry.link = [LinkId::NONE; 2];
        entry.last_seen = cause.now;
        set_debts(&mut entry.flags, debts);
        counters.target(entry.target).owing_flows.add(1);
    }

    /// Notes a packet that a client or a server sent, and what it makes of its flow.
    #[inline]
    pub fn update(&mut self, id: EntryId, update: &Update, now: Millis) {
        let entry = self.table.entry_mut(id);
        if entry.last_seen != now {
            entry.last_seen = now;
        }
        self.apply(id, update);
    }

    #[inline]
    fn apply(&mut self, id: EntryId, update: &Update) {
        let entry = self.table.entry_mut(id);
        let mut flags = entry.flags;
        flags.set(FlowFlags::FIN_LOW, update.fins.low);
        flags.set(FlowFlags::FIN_HIGH, update.fins.high);
        flags.set(FlowFlags::FAIL_OPEN, update.fail_open);
        set_debts(&mut flags, update.debts);
        if flags != entry.flags {
            entry.flags = flags;
        }
        let was_closed = entry.is_in(FlowState::Closed);
        if entry.state() != update.state {
            self.table.set_state(id, update.state);
        }
        if update.state == FlowState::Established && was_closed {
            self.table.entry_mut(id).disown_resets();
        }
        if update.state == FlowState::Closed {
            let flags = &mut self.table.entry_mut(id).flags;
            flags.set(FlowFlags::RST_LOW, update.resets.low);
            flags.set(FlowFlags::RST_HIGH, update.resets.high);
        }
    }

    /// Notes how far the sender of a TCP packet has acknowledged, so that it can be told though it is
    /// silent.
    #[inline]
    pub fn note_ack(&mut self, id: EntryId, arrival: &Arrival, frame: &[u8]) {
        let tcp = usize::from(arrival.link_len) + usize::from(arrival.packet.header_len);
        let Some([seq, ack]) =
            frame.get(tcp + 4..).and_then(|numbers| numbers.as_chunks::<4>().0.first_chunk())
        else {
            return;
        };
        let entry = self.table.entry_mut(id);
        if arrival.facts().opens() {
            return entry.forget_acks(); // The port is used again.
        }
        if !arrival.packet.tcp_flags.contains(TcpFlags::ACK) {
            return;
        }
        entry.note_ack(arrival.direction, u32::from_be_bytes(*ack));
        // Of a server that has said nothing since its SYN-ACK only this is known: it expects what it is
        // sent.
        let peer = arrival.direction.reverse();
        if entry.last_ack(peer).is_none() {
            entry.note_ack(peer, u32::from_be_bytes(*seq));
        }
    }

    /// Notes a packet that an appliance returned: only a FIN or a reset changes the flow, so that an
    /// appliance that ends a connection itself ends the flow too, and so long after that as one of a side
    /// would (F-9). A flow whose time is over is not called back.
    #[inline]
    pub fn note_returned(
        &mut self,
        id: EntryId,
        inner: &Packet,
        direction: Direction,
        now: Millis,
        forwarding: &Forwarding,
    ) {
        if inner.kind != Kind::Tcp || !inner.tcp_flags.intersects(TcpFlags::FIN | TcpFlags::RST) {
            return;
        }
        let entry = self.table.entry(id);
        if entry.expiry(now, &forwarding.timers(entry.key().endpoint())).is_some() {
            return;
        }
        let (is_reset, closed_by) = (inner.tcp_flags.contains(TcpFlags::RST), resets(entry));
        // A FIN that comes back says nothing of a reset that came after it; nor does a reset anything new that has come this
        // way before, be it that its sender has gone on since.
        let known = if is_reset { closed_by.of(direction) } else { entry.is_in(FlowState::Closed) };
        if known || is_reset && entry.has_disowned(direction) {
            return;
        }
        let fail_open = entry.flags.contains(FlowFlags::FAIL_OPEN);
        let facts = Facts { tcp: true, flags: inner.tcp_flags, direction };
        let debts = debts(entry.flags);
        let update =
            Update { fail_open, debts, ..close(entry.state(), (fins(entry.flags), closed_by), &facts) };
        // A reset that did not come this way is the appliance's own, and true: nobody puts the flow back.
        let update = if is_reset { Update { resets: Ends::NONE, ..update } } else { update };
        if update.state == FlowState::Closed && entry.state() != FlowState::Closed {
            self.table.entry_mut(id).last_seen = now;
        }
        self.apply(id, &update);
    }

    /// Notes the link-layer header that a direction's packets have; nearly always it is known
    /// already. False if there is no room to note a new one.
    #[inline]
    pub fn keep_link(
        &mut self,
        id: EntryId,
        direction: Direction,
        (port, header): (PortId, &[u8]),
        now: Millis,
        counters: &WorkerCounters,
    ) -> bool {
        let known = self.table.entry(id).link[direction.index()];
        if self.links.is(known, port, header) {
            return true;
        }
        let Some(link) = self.intern((port, header), Some(id), now, counters) else { return false };
        self.links.hold(link);
        self.links.release(known);
        self.table.entry_mut(id).link[direction.index()] = link;
        true
    }

    /// Gives a flow to another target.
    pub fn move_to(&mut self, id: EntryId, target: TargetId, generation: u16, counters: &WorkerCounters) {
        if let Some(log) = &mut self.log {
            log.moved(id, self.table.entry(id), counters);
        }
        let entry = self.table.entry_mut(id);
        let from = counters.target(entry.target);
        let to = counters.target(target);
        from.active_flows.sub(1);
        from.moved_away.add(1);
        to.active_flows.add(1);
        if entry.key().protocol() == protocol::TCP {
            from.active_tcp_flows.sub(1);
            to.active_tcp_flows.add(1);
        }
        entry.target = target;
        entry.target_generation = generation;
        entry.flags.remove(FlowFlags::FAIL_OPEN);
    }

    /// The live flow that has this cookie (F-11, W-7).
    #[inline]
    pub fn live_by_cookie(&self, cookie: Cookie) -> Option<EntryId> {
        let id = self.table.by_cookie(cookie).ok()?;
        is_live(self.table.entry(id)).then_some(id)
    }

    /// Why a connection may be alive and unknown, if one may: the table turned flows away less than an idle timeout ago, so
    /// that it was forwarded without state then (F-12), a restart has lost it (F-8), or it is a handshake whose flow made room
    /// (F-12).
    #[inline]
    pub fn forgot(&self, now: Millis, timers: &Timers) -> Option<Forgot> {
        if self.last_overflow.is_some_and(|at| now.since(at) < timers.tcp_idle_ms) {
            return Some(Forgot::Overflow);
        }
        if self.adopt_until.is_some_and(|until| until.since(now) > 0) {
            return Some(Forgot::Restart);
        }
        let evicted = self.last_eviction.is_some_and(|at| now.since(at) < timers.half_open_ms);
        evicted.then_some(Forgot::Eviction)
    }

    /// Whether an answer may be to a packet that was sent without state: one was less than an idle timeout ago.
    #[inline]
    pub fn may_be_answered_stateless(&self, now: Millis, timers: &Timers) -> bool {
        self.last_stateless.is_some_and(|at| now.since(at) < timers.tcp_idle_ms)
    }

    /// The cookie of a packet that is forwarded without state: it names the header that its answer
    /// needs and the direction that header is of.
    pub fn stateless_cookie(
        &mut self,
        worker: WorkerId,
        flow_hash: u64,
        (direction, link): (Direction, LinkId),
        now: Millis,
    ) -> Cookie {
        self.last_stateless = Some(now);
        let hash = self.stateless_hash(flow_hash, link, direction);
        self.table.cookies().stateless(worker, direction, link, hash)
    }

    /// The check value of such a cookie: wrong, nearly always, for another flow, direction or header, and
    /// once the header's slot was given to another header.
    pub fn stateless_check(&self, hash: u64, link: LinkId, direction: Direction) -> u16 {
        self.table.cookies().check(self.stateless_hash(hash, link, direction))
    }

    fn stateless_hash(&self, hash: u64, link: LinkId, direction: Direction) -> u64 {
        let about = u64::from(link.0) << 16
            | u64::from(self.links.generation(link)) << 8
            | u64::from(direction == Direction::HighToLow);
        // The upper half of the product, of which every bit hangs on all that it is about.
        hash ^ about.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
    }

    /// Looks at the next `steps` entries and ends or expires those whose time is over (F-9, F-13).
    pub fn age(&mut self, steps: u32, now: Millis, forwarding: &Forwarding, counters: &WorkerCounters) {
        // Forgotten in time, lest it seem to lie ahead some weeks later.
        if self.last_overflow.is_some_and(|at| now.since(at) > OVERFLOW_PAST_MS) {
            self.last_overflow = None;
            self.table.note_overflow(None);
        }
        for last in [&mut self.last_eviction, &mut self.last_stateless] {
            *last = last.filter(|at| now.since(*at) <= OVERFLOW_PAST_MS);
        }
        self.unanswered.age(now);
        if self.adopt_until.is_some_and(|until| until.since(now) == 0) {
            self.adopt_until = None;
        }
        let Flows { table, links, log, .. } = self;
        table.age(
            steps,
            now,
            |entry| forwarding.timers(entry.key().endpoint()),
            |id, entry, ended: Ended| {
                if ended != Ended::Owing {
                    counters.flows_expired.add(1);
                }
                settle((links, log), (id, entry), (Some(ended), Why::Idle), counters);
            },
        );
        counters.flow_entries.set(u64::from(self.table.len()));
    }
}

/// Counts a new flow at its target.
#[inline(always)]
pub(super) fn count_new(target: TargetId, tcp: bool, counters: &WorkerCounters) {
    let target = counters.target(target);
    target.new_flows.add(1);
    target.active_flows.add(1);
    if tcp {
        target.active_tcp_flows.add(1);
    }
}

/// A flow makes room for another: it is counted, and when, if its handshake may yet go on (F-12).
#[inline(always)]
pub(super) fn note_evicted(last: &mut Option<Millis>, gone: &Entry, now: Millis, counters: &WorkerCounters) {
    counters.flows_evicted.add(1);
    if gone.is_in(FlowState::HalfOpen) {
        *last = Some(now);
    }
}

/// Settles the accounts of a flow that is not live any more: its headers are let go and its target has
/// a flow less. An entry that is remembered (F-10, R-9) was settled when its flow ended.
pub(super) fn settle(
    (links, log): (&mut LinkTable, &mut Option<Box<FlowLog>>),
    (id, entry): (EntryId, &Entry),
    how: (Option<Ended>, Why),
    counters: &WorkerCounters,
) {
    if let Some(log) = log {
        log.end(id, entry, how, counters);
    }
    if entry.state() == FlowState::Owing {
        counters.target(entry.target).owing_flows.sub(1);
    }
    if !is_live(entry) {
        return;
    }
    counters.endpoint_flows(entry.key().endpoint()).sub(1);
    let target = counters.target(entry.target);
    target.active_flows.sub(1);
    if entry.key().protocol() == protocol::TCP {
        target.active_tcp_flows.sub(1);
    }
    for link in entry.link {
        links.release(link);
    }
}

/// Whether an entry in use is more than a memory of a flow.
#[inline]
pub(super) fn is_live(entry: &Entry) -> bool {
    !matches!(entry.state(), FlowState::Expired | FlowState::Owing)
}

#[inline]
fn debts(flags: FlowFlags) -> Debts {
    Debts { low: flags.contains(FlowFlags::OWED_LOW), high: flags.contains(FlowFlags::OWED_HIGH) }
}

#[inline]
fn set_debts(flags: &mut FlowFlags, debts: Debts) {
    flags.set(FlowFlags::OWED_LOW, debts.low);
    flags.set(FlowFlags::OWED_HIGH, debts.high);
}

#[inline]
fn resets(entry: &Entry) -> Ends {
    let closed_by = |flag| entry.is_in(FlowState::Closed) && entry.flags.contains(flag);
    Ends { low: closed_by(FlowFlags::RST_LOW), high: closed_by(FlowFlags::RST_HIGH) }
}

#[inline]
fn fins(flags: FlowFlags) -> Ends {
    Ends { low: flags.contains(FlowFlags::FIN_LOW), high: flags.contains(FlowFlags::FIN_HIGH) }
}
