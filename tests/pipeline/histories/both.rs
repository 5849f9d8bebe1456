//! The gateway and the model, side by side: a history's steps are put to both, and whatever the gateway
//! does, sends, counts and remembers must be what the model says.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use flowgate::datapath::counters::{Counter, DropReason, ResetTrigger};
use flowgate::datapath::forwarding::{Condition, Failover, Policy, ResetGuards, UnknownFlow};
use flowgate::datapath::messages::{FlowFilter, FlowRecord, FromWorker, ToWorker};
use flowgate::flow::{FlowState, Timers, Tuple};
use flowgate::id::{GatewayId, TargetId};

use crate::harness::*;
use crate::histories::model::{
    Attributes, Fate, Flaw, Health, Model, Name, Packet, Phase, Returned, Sent, Side, Stickiness, Target,
    Trigger, Unknown, Why, Worker,
};
use crate::histories::packets::{self, SEQ_OF_CLIENT, SEQ_OF_SERVER, everyone, frame, label, ports_of};
use crate::histories::script::{History, Step};

/// How often each kind of fate was seen.
pub type Tally = BTreeMap<String, u64>;

/// Gateways that have played a history and can play another: to make one takes longer than to play.
#[derive(Default)]
pub struct Pool(BTreeMap<(u8, u32), Bench>);

/// Plays a history to both; where they disagree, says at which step and on what.
pub fn play(history: &History, flaw: Option<Flaw>, tally: &mut Tally) -> Result<(), String> {
    play_in(&mut Pool::default(), history, flaw, tally)
}

/// The same with a gateway of the pool, if it has one of the history's shape.
pub fn play_in(
    pool: &mut Pool,
    history: &History,
    flaw: Option<Flaw>,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut at = 0;
    let shape = (history.workers, history.capacity);
    let bench = pool.0.remove(&shape);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let bench = bench.unwrap_or_else(|| Bench::wired(2, 0, history.workers, history.capacity));
        let mut both = Both::new(bench, history, flaw, tally);
        for (number, step) in history.steps.iter().enumerate() {
            at = number;
            both.step(step)?;
        }
        at = history.steps.len();
        both.cleared()
    }));
    let why = match played {
        Ok(Ok(bench)) => {
            pool.0.insert(shape, bench);
            return Ok(());
        }
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("a panic: {}", text.unwrap_or_default())
        }
    };
    let step = history.steps.get(at).map_or_else(|| "the end".to_owned(), Step::to_string);
    Err(format!("step {at}, {step}: {why}"))
}

/// A packet that a target was sent, and the frames: as it came in, as it went out.
struct Out {
    sent: Sent,
    packet: Packet,
    arrived: Vec<u8>,
    left: Vec<u8>,
}

/// What the gateway did with a packet of a client or a server.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Forwarded { target: usize, cookie: u32 },
    Reset(Trigger),
    Dropped(DropReason),
}

struct Both<'a> {
    bench: Bench,
    model: Model,
    owners: BTreeMap<Name, Worker>,
    sent: BTreeMap<Name, Vec<Out>>,
    /// W-3: the source port of each conversation.
    source_ports: BTreeMap<Name, u16>,
    tally: &'a mut Tally,
}

const TRIGGERS: [(ResetTrigger, Trigger); 5] = [
    (ResetTrigger::Unhealthy, Trigger::Unhealthy),
    (ResetTrigger::Deregistration, Trigger::Deregistration),
    (ResetTrigger::IdleTimeout, Trigger::Idle),
    (ResetTrigger::NoFlow, Trigger::NoFlow),
    (ResetTrigger::BothEnds, Trigger::BothEnds),
];

impl<'a> Both<'a> {
    fn new(mut bench: Bench, history: &History, flaw: Option<Flaw>, tally: &'a mut Tally) -> Both<'a> {
        let History { workers, capacity, targets, .. } = *history;
        bench.targets = targets;
        bench.foresees_at_once = true;
        bench.conditions = vec![Condition::Healthy; usize::from(targets)];
        let owners = owners(workers);
        let mut model = Model::new(usize::from(targets), capacity as usize, owners.clone(), bench.now);
        model.flaw = flaw;
        let (sent, source_ports) = (BTreeMap::new(), BTreeMap::new());
        let mut both = Both { bench, model, owners, sent, source_ports, tally };
        both.set(Attributes::default());
        both
    }

    /// The gateway with all its flows gone, so that it is as good as new.
    fn cleared(mut self) -> Result<Bench, String> {
        self.set(Attributes { established: 1, half_open: 1, closed: 1, other: 1, ..Attributes::default() });
        self.bench.now = self.bench.now.wrapping_add(1000);
        self.bench.rounds();
        // What is remembered goes with its next packet (F-10).
        for name in self.scan()?.into_keys() {
            self.bench.put(ports_of(&name, Side::Client).0, &frame(&name, Side::Client, RST, false));
        }
        match self.scan()?.into_keys().next() {
            Some(left) => return Err(format!("F-10: {} is remembered after its next packet", label(&left))),
            None => self.compare_counts_with(|_| 0)?,
        }
        // F-12: so long after no flow was turned away lately.
        self.bench.now = self.bench.now.wrapping_add(Attributes::default().established);
        Ok(self.bench)
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.model.next_step();
        let unasked = self.resets_by(ResetTrigger::Proactive);
        let mut evicts = BTreeSet::new();
        match *step {
            Step::Packet { flow, from, flags, at, spoiled } => {
                let packet = packets::packet(flow, from, flags, spoiled);
                evicts = self.packet(&packet, at, frame(&flow, from, flags, spoiled))?;
            }
            Step::Return { flow, before, own, at } => self.returned(&flow, before, own, at)?,
            Step::Forge { flow, before, bits, at } => self.forged(&flow, before, bits, at)?,
            Step::Target { target, health } => self.becomes(target, health),
            Step::Set(attributes) => self.set(attributes),
            Step::Wait { ms, hand } => {
                self.bench.now = self.bench.now.wrapping_add(ms);
                self.model.now = self.bench.now;
                // A look at the table would let the hand go on. (Where a packet is handed over the hand of
                // its owner may go before it, and what tells silent flows goes after it.)
                if !hand && self.bench.workers.len() == 1 && !self.model.attributes.proactive {
                    return Ok(());
                }
            }
        }
        // The hand is at rest before the tables are looked at.
        self.bench.rounds();
        self.compare_told(unasked)?;
        self.bench.assert_settled();
        self.compare_tables(&evicts)?;
        self.compare_counts()
    }

    fn count(&mut self, kind: impl Into<String>) {
        *self.tally.entry(kind.into()).or_default() += 1;
    }

    /// A packet of a client or a server; returns who may have made room for its flow.
    fn packet(&mut self, packet: &Packet, at: Worker, arrived: Vec<u8>) -> Result<BTreeSet<Name>, String> {
        let before = self.model.flows.get(&packet.flow).map(|flow| flow.cookie);
        let others: BTreeSet<u32> = self.model.flows.values().map(|flow| flow.cookie).collect();
        let fate = self.model.packet(packet);
        let before_it = self.counts();
        let (seen, left) = self.give(packet, at, &arrived)?;
        for reason in std::mem::take(&mut self.bench.because) {
            self.count(format!("because {reason:?}"));
        }
        let counts = self.counts();
        let increased = |n: usize| counts[n].wrapping_sub(before_it[n]);
        let agree = match (&fate, &seen) {
            (Fate::Begins { among, evicts }, Seen::Forwarded { target, cookie }) => {
                // F-11: nobody else has its cookie, nor had the flow before it.
                let evicted = u64::from(!evicts.is_empty());
                among.contains(target) && !others.contains(cookie) && increased(EVICTED) == evicted
            }
            (Fate::WithoutState(among), Seen::Forwarded { target, cookie }) => {
                among.contains(target) && !others.contains(cookie) && increased(STATELESS) == 1
            }
            (Fate::GoesOn(to), Seen::Forwarded { target, cookie }) => {
                to == target && before == Some(*cookie) && increased(SUPPRESSED) == 0
            }
            (Fate::HeldBack(to), Seen::Forwarded { target, cookie }) => {
                to == target && before == Some(*cookie) && increased(SUPPRESSED) == 1
            }
            (Fate::Moves(among), Seen::Forwarded { target, cookie }) => {
                among.contains(target) && before == Some(*cookie)
            }
            (Fate::Reset(expected), Seen::Reset(trigger)) => expected == trigger,
            (Fate::Dropped(why), Seen::Dropped(reason)) => match why {
                Why::UnknownFlow => *reason == DropReason::UnknownFlow,
                Why::ExpiredFlow => *reason == DropReason::ExpiredFlow,
                Why::NoTarget => *reason == DropReason::NoTarget && increased(REJECTED) == 1,
                Why::NotAnswerable => *reason == DropReason::NotAnswerable,
            },
            _ => false,
        };
        if !agree {
            return Err(format!(
                "the model says {fate:?}, the gateway did {seen:?}; cookie before: {before:?}, counted {:?}",
                std::array::from_fn::<_, 4, _>(increased)
            ));
        }
        self.count(match &fate {
            Fate::Begins { evicts, .. } if evicts.is_empty() => "begins".to_owned(),
            Fate::Begins { .. } => "begins in another's room".to_owned(),
            Fate::WithoutState(_) => "goes without state".to_owned(),
            Fate::GoesOn(_) => "goes on".to_owned(),
            Fate::HeldBack(_) => "goes on: a reset is held back".to_owned(),
            Fate::Moves(_) => "moves".to_owned(),
            Fate::Reset(trigger) => format!("reset: {trigger:?}"),
            Fate::Dropped(why) => format!("dropped: {why:?}"),
        });
        match seen {
            Seen::Forwarded { target, cookie } => {
                // W-6 outwards: the packet as it came, without its link header.
                if inner(&left) != &arrived[14..] {
                    return Err("what is inside is not what came".to_owned());
                }
                let port = source_port(&left);
                if port < 49152 || *self.source_ports.entry(packet.flow).or_insert(port) != port {
                    return Err(format!("W-3: source port {port}"));
                }
                let sent = self.model.went_to(packet, &fate, target, cookie);
                let out = Out { sent, packet: *packet, arrived, left };
                self.sent.entry(packet.flow).or_default().push(out);
            }
            Seen::Reset(_) => reset_is_right(packet, &arrived, &left)?,
            Seen::Dropped(_) => {}
        }
        Ok(if let Fate::Begins { evicts, .. } = fate { evicts } else { BTreeSet::new() })
    }

    /// Puts a frame in; what was done with the packet, and the frame that came out.
    fn give(&mut self, packet: &Packet, at: Worker, arrived: &[u8]) -> Result<(Seen, Vec<u8>), String> {
        let (port, _) = ports_of(&packet.flow, packet.from);
        let (drops, resets) = (self.bench.drops(), self.resets());
        let mut out = self.bench.put_at(at, port, arrived);
        let Some((by, left)) = out.pop() else {
            return Ok((Seen::Dropped(self.new_drop(&drops)?), Vec::new()));
        };
        if !out.is_empty() {
            return Err(format!("one packet in, {} out", out.len() + 1));
        }
        if by == UNDER {
            let target = usize::from(self.bench.target_of(&left));
            return Ok((Seen::Forwarded { target, cookie: cookie(&left) }, left));
        }
        if by != port {
            return Err(format!("came by port {port}, left by port {by}"));
        }
        // counted once, by its trigger.
        let now = self.resets();
        let counted: Vec<_> = (0..TRIGGERS.len()).filter(|&n| now[n] == resets[n] + 1).collect();
        match counted[..] {
            [n] => Ok((Seen::Reset(TRIGGERS[n].1), left)),
            _ => Err(format!("R-8: resets were {resets:?} and are {now:?}")),
        }
    }

    fn new_drop(&self, before: &[(DropReason, u64)]) -> Result<DropReason, String> {
        let new = self.bench.drops().into_iter().find(|drop| !before.contains(drop));
        new.map(|(reason, _)| reason)
            .ok_or_else(|| "C-1: nothing came out and no drop was counted".to_owned())
    }

    fn resets(&self) -> [u64; 5] {
        TRIGGERS.map(|(trigger, _)| self.resets_by(trigger))
    }

    fn resets_by(&self, trigger: ResetTrigger) -> u64 {
        let counters = self.bench.counters.iter();
        counters.map(|all| all.gateway(GatewayId(0)).resets[trigger.index()].get()).sum()
    }

    /// [`EVICTED`], [`STATELESS`], [`REJECTED`], [`SUPPRESSED`].
    fn counts(&self) -> [u64; 4] {
        let counters = || self.bench.counters.iter();
        let gateway = || counters().map(|all| all.gateway(GatewayId(0)));
        [
            counters().map(|all| all.flows_evicted.get()).sum(),
            gateway().map(|all| all.stateless_packets.get()).sum(),
            gateway().map(|all| all.rejected_flows.get()).sum(),
            gateway().flat_map(|all| all.suppressed.iter().map(Counter::get)).sum(),
        ]
    }

    /// A packet that a target was sent comes back, or another in its stead.
    fn returned(
        &mut self,
        flow: &Name,
        before: usize,
        own: Option<(Side, u8)>,
        at: Worker,
    ) -> Result<(), String> {
        let Some(out) = self.sent.get(flow).and_then(|all| all.iter().rev().nth(before)) else {
            return Ok(());
        };
        let (inside, whole) = match own {
            None => (out.packet, out.arrived.clone()),
            Some((from, flags)) => {
                (packets::packet(*flow, from, flags, false), frame(flow, from, flags, false))
            }
        };
        let back = answer(&out.left, Some(&whole[14..]));
        let sent = out.sent.clone();
        let may = self.model.returns(&sent, &inside);
        let seen = match self.answered(at, &back)? {
            Ok((port, delivered)) => {
                // W-6: to the byte, with the link header that the other side gave it.
                if delivered != whole {
                    return Err("what was delivered is not what came back".to_owned());
                }
                if port != ports_of(flow, inside.from).1 {
                    return Err(format!("delivered by port {port}"));
                }
                Returned::To(inside.from.other())
            }
            Err(DropReason::CookieStale) => Returned::Stale,
            Err(DropReason::NotFromTarget) => Returned::NotFromTarget,
            Err(reason) => return Err(format!("dropped for {reason:?}, the model says {may:?}")),
        };
        if !may.contains(&seen) {
            return Err(format!("the model says {may:?}, the gateway did {seen:?}"));
        }
        self.count(format!("returned: {seen:?}"));
        if matches!(seen, Returned::To(_)) {
            self.model.delivered(&sent, &inside);
        }
        Ok(())
    }

    /// Puts an answer in: the port and frame that came out, or why it was dropped.
    fn answered(&mut self, at: Worker, back: &[u8]) -> Result<Result<(usize, Vec<u8>), DropReason>, String> {
        let drops = self.bench.drops();
        let mut out = self.bench.put_at(at, UNDER, back);
        match (out.pop(), out.len()) {
            (None, _) => Ok(Err(self.new_drop(&drops)?)),
            (Some(one), 0) => Ok(Ok(one)),
            (Some(_), more) => Err(format!("one answer in, {} out", more + 1)),
        }
    }

    /// W-5: an answer under another cookie is nobody's, whatever flow that cookie is of; it is dropped and
    /// changes nothing.
    fn forged(&mut self, flow: &Name, before: usize, bits: u32, at: Worker) -> Result<(), String> {
        let Some(out) = self.sent.get(flow).and_then(|all| all.iter().rev().nth(before)) else {
            return Ok(());
        };
        let mut back = answer(&out.left, None);
        let forged = out.sent.cookie ^ bits;
        back[78..82].copy_from_slice(&forged.to_be_bytes());
        // It may be one that this very flow has had, without state or with it.
        if self.sent[flow].iter().any(|out| out.sent.cookie == forged) {
            return Ok(());
        }
        match self.answered(at, &back)? {
            Ok(_) => Err(format!("delivered under the forged cookie {forged:08x}")),
            Err(DropReason::CookieStale | DropReason::NotFromTarget | DropReason::InnerMismatch) => {
                self.count("forged");
                Ok(())
            }
            Err(reason) => Err(format!("dropped for {reason:?}")),
        }
    }

    fn becomes(&mut self, target: usize, health: Health) {
        if target >= self.model.health.len() {
            return;
        }
        let condition = match health {
            Health::Initial => Condition::Initial,
            Health::Healthy => Condition::Healthy,
            Health::Unhealthy => Condition::Unhealthy,
            Health::Draining => Condition::Draining,
            Health::Removed => Condition::Removed,
        };
        let was = self.model.health[target];
        self.model.becomes(target, health);
        if was.registered() == health.registered() {
            self.bench.set_condition(target as u16, condition);
        } else {
            self.bench.conditions[target] = condition;
            self.bench.publish();
        }
    }

    fn set(&mut self, attributes: Attributes) {
        self.model.attributes = attributes;
        self.bench.policy = Policy {
            stickiness: match attributes.stickiness {
                Stickiness::Five => Tuple::Five,
                Stickiness::Three => Tuple::Three,
                Stickiness::Two => Tuple::Two,
            },
            failover: if attributes.rebalance { Failover::Rebalance } else { Failover::NoRebalance },
            reset_on_unhealthy: attributes.reset_unhealthy,
            reset_on_deregistration: attributes.reset_deregistered,
            reset_on_idle: attributes.reset_idle,
            unknown_flow: match attributes.unknown {
                Unknown::Drop => UnknownFlow::Drop,
                Unknown::Adopt => UnknownFlow::Adopt,
                Unknown::Reset => UnknownFlow::Reset,
            },
            syn_reselect: attributes.syn_reselect,
            both_ends: attributes.both_ends,
            proactive: attributes.proactive,
            guards: ResetGuards {
                hold_ms: attributes.hold,
                min_healthy_percent: attributes.min_healthy_percent,
                max_per_second: 0,
            },
            no_flow_resets_per_second: 0,
            ..Policy::default()
        };
        self.bench.timers = Timers {
            tcp_idle_ms: attributes.established,
            other_idle_ms: attributes.other,
            closed_ms: attributes.closed,
            half_open_ms: attributes.half_open,
        };
        self.bench.publish();
    }

    /// those are told unasked whom the model says, each once and each rightly, and counted.
    fn compare_told(&mut self, counted_before: u64) -> Result<(), String> {
        let told = self.model.tells();
        let mut expected: Vec<(usize, Vec<u8>)> = told
            .iter()
            .map(|(flow, side)| {
                // As if the other side answered a segment of it.
                let arrived = frame(flow, *side, ACK, false);
                let reset = bare_reset(&frame(flow, side.other(), RST, false), &arrived, flow.version);
                (ports_of(flow, *side).0, reset)
            })
            .collect();
        let mut out = self.bench.take();
        expected.sort();
        out.sort();
        let counted = self.resets_by(ResetTrigger::Proactive) - counted_before;
        if out != expected || counted != expected.len() as u64 {
            return Err(format!("R-10: told and counted {counted} {out:02x?}, the model tells {told:?}"));
        }
        if !told.is_empty() {
            self.count("told unasked");
        }
        Ok(())
    }

    /// The gateway's tables hold the flows that the model has, each as the model has it; but for those that
    /// were swept out meanwhile, and the one that made room.
    fn compare_tables(&mut self, evicts: &BTreeSet<Name>) -> Result<(), String> {
        let found = self.scan()?;
        let expired = |name: &Name| found.get(name).is_some_and(|record| record.state == FlowState::Expired);
        for name in self.model.lingering() {
            if evicts.contains(&name) && !found.contains_key(&name) {
                self.model.evicted(&name);
            } else if !found.contains_key(&name) || expired(&name) {
                self.model.swept(&name);
                self.count("swept out");
            }
        }
        let missing = |name: &&Name| !found.contains_key(*name);
        let evicted: Vec<Name> = self.model.flows.keys().filter(missing).copied().collect();
        match evicted[..] {
            [] => {}
            [one] if evicts.contains(&one) => self.model.evicted(&one),
            _ => return Err(format!("lost the flows {:?}", evicted.iter().map(label).collect::<Vec<_>>())),
        }
        for (name, record) in &found {
            let Some(flow) = self.model.flows.get(name) else {
                return Err(format!("there is no {}, and the gateway has {record:?}", label(name)));
            };
            let state = match flow.phase {
                Phase::HalfOpen => FlowState::HalfOpen,
                Phase::Established => FlowState::Established,
                Phase::Closed => FlowState::Closed,
                Phase::Other => FlowState::Other,
                Phase::Expired => FlowState::Expired,
                Phase::Owing => FlowState::Owing,
            };
            let begun_by = if record.initiator.1 == name.port && record.initiator.0 == client_of(name) {
                Side::Client
            } else {
                Side::Server
            };
            let alike = record.state == state
                && record.target == TargetId(flow.target as u16)
                && record.cookie == flow.cookie
                && record.fail_open == flow.failed_open
                && record.last_seen.0 == flow.last
                && begun_by == flow.begun_by;
            if !alike && flow.phase != Phase::Expired {
                return Err(format!("{}: the model has {flow:?}, the gateway {record:?}", label(name)));
            }
        }
        Ok(())
    }

    fn scan(&mut self) -> Result<BTreeMap<Name, FlowRecord>, String> {
        self.bench.told.clear();
        self.bench.tell(|| ToWorker::ScanFlows(FlowFilter { limit: u32::MAX, ..FlowFilter::default() }));
        let mut found = BTreeMap::new();
        let mut done = 0;
        for told in self.bench.told.drain(..) {
            match told {
                FromWorker::Flow(record) => {
                    let name = name_of(&record);
                    let owner = self.owners[&name];
                    if usize::from(record.worker.0) != owner || found.insert(name, record).is_some() {
                        return Err(format!("F-2: {} is worker {owner}'s: {record:?}", label(&name)));
                    }
                }
                FromWorker::ScanDone { .. } => done += 1,
                _ => {}
            }
        }
        if done == self.bench.workers.len() { Ok(found) } else { Err("the scan does not end".to_owned()) }
    }

    /// Each target's live flows are those that the model has there.
    fn compare_counts(&self) -> Result<(), String> {
        let flows = || self.model.flows.values().filter(|flow| flow.is_live());
        self.compare_counts_with(|target| flows().filter(|flow| flow.target == target).count() as u64)
    }

    fn compare_counts_with(&self, expected: impl Fn(Target) -> u64) -> Result<(), String> {
        for target in 0..self.bench.targets {
            let (expected, counted) = (expected(usize::from(target)), self.bench.live_flows(target));
            if expected != counted {
                return Err(format!("target {target} has {expected} flows, {counted} are counted"));
            }
        }
        Ok(())
    }
}

const EVICTED: usize = 0;
const STATELESS: usize = 1;
const REJECTED: usize = 2;
const SUPPRESSED: usize = 3;

fn client_of(name: &Name) -> std::net::IpAddr {
    if name.version == 4 { CLIENT } else { CLIENT6 }.parse().expect("an address")
}

/// Which conversation a flow of the gateway's is.
fn name_of(record: &FlowRecord) -> Name {
    let version = if record.initiator.0.is_ipv4() { 4 } else { 6 };
    let client = client_of(&Name { endpoint: 0, version, protocol: 0, port: 0 });
    let port = if record.initiator.0 == client { record.initiator.1 } else { record.responder.1 };
    Name { endpoint: record.endpoint.0, version, protocol: record.protocol, port }
}

/// F-2: which of so many workers owns each conversation, found out by trying.
fn owners(workers: u8) -> BTreeMap<Name, Worker> {
    static FOUND: Mutex<BTreeMap<u8, BTreeMap<Name, Worker>>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().expect("nobody panics with it");
    let find = || {
        let mut bench = Bench::wired(2, 1, workers, 64);
        let entries = |bench: &Bench| -> Vec<u64> {
            bench.counters.iter().map(|counters| counters.flow_entries.get()).collect()
        };
        let mut owners = BTreeMap::new();
        for name in everyone() {
            let before = entries(&bench);
            bench.put(ports_of(&name, Side::Client).0, &frame(&name, Side::Client, SYN, false));
            let owner = entries(&bench).iter().zip(&before).position(|(now, before)| now > before);
            owners.insert(name, owner.expect("a flow was made"));
        }
        owners
    };
    found.entry(workers).or_insert_with(find).clone()
}

/// A RST of ours as R-4 has it: without acknowledgement, window or identification.
fn bare_reset(rst: &[u8], answered: &[u8], version: u8) -> Vec<u8> {
    let mut reset = rst.to_vec();
    let tcp = if version == 4 { 34 } else { 54 };
    reset[tcp + 4..tcp + 8].copy_from_slice(&answered[tcp + 8..tcp + 12]);
    reset[tcp + 8..tcp + 12].fill(0);
    reset[tcp + 14..tcp + 18].fill(0);
    let (addresses, protocol_and_length) = (if version == 4 { 26..34 } else { 22..54 }, [0, 6, 0, 20]);
    let sum = checksum(&[&reset[addresses], &protocol_and_length, &reset[tcp..]]);
    reset[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
    if version == 4 {
        reset[18..20].fill(0);
        reset[24..26].fill(0);
        let sum = checksum(&[&reset[14..34]]);
        reset[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    reset
}

/// the reset's link header, ports, numbers and flags, worked out from the packet that it answers.
fn reset_is_right(packet: &Packet, arrived: &[u8], reset: &[u8]) -> Result<(), String> {
    let (at, len) = if packet.flow.version == 4 { (14 + 20, 20) } else { (14 + 40, 20) };
    let macs_turned = reset[..6] == arrived[6..12] && reset[6..12] == arrived[..6];
    let addresses = if packet.flow.version == 4 { 26..34 } else { 22..54 };
    let half = addresses.len() / 2;
    let (from, to) = (addresses.start, addresses.start + half);
    let addresses_turned = reset[from..from + half] == arrived[to..to + half]
        && reset[to..to + half] == arrived[from..from + half];
    let ports_turned =
        reset[at..at + 2] == arrived[at + 2..at + 4] && reset[at + 2..at + 4] == arrived[at..at + 2];
    let word = |at: usize| u32::from_be_bytes([reset[at], reset[at + 1], reset[at + 2], reset[at + 3]]);
    let (theirs, ours) = match packet.from {
        Side::Client => (SEQ_OF_CLIENT, SEQ_OF_SERVER),
        Side::Server => (SEQ_OF_SERVER, SEQ_OF_CLIENT),
    };
    let payload = (arrived.len() - at - 20) as u32;
    let numbers = if packet.ack {
        (ours, 0, RST)
    } else {
        (0, theirs + payload + u32::from(packet.syn) + u32::from(packet.fin), RST | ACK)
    };
    let right = reset.len() == at + len
        && macs_turned
        && addresses_turned
        && ports_turned
        && (word(at + 4), word(at + 8), reset[at + 13]) == numbers;
    if right { Ok(()) } else { Err(format!("a wrong reset: {reset:02x?}")) }
}
