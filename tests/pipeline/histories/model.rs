//! Sections 4 to 6 of the rules once more, as plainly as they can be said: a map of flows and a list of
//! ifs. It shares no code with the gateway and says what must become of a packet; `both.rs` asks the
//! gateway too and compares.
//!
//! Of the choice of a target it knows only what F-4 promises of any consistent hash: who may be chosen,
//! and that a tuple that once went to a target goes there again as long as it may and nobody came whom it
//! was not weighed against then. Of the owner of a flow (F-2) it knows what it is told: each has one.

use std::collections::{BTreeMap, BTreeSet};

pub type Target = usize;
pub type Worker = usize;

/// F-1: what tells flows apart. Addresses are the same in all that a history has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub endpoint: u16,
    pub version: u8,
    pub protocol: u8,
    /// The client's port, or the identifier of an echo; 0 where there is none.
    pub port: u16,
}

impl Name {
    fn tcp(&self) -> bool {
        self.protocol == 6
    }
}

/// how much of the tuple chooses the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stickiness {
    Five,
    Three,
    Two,
}

/// F-8
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    Drop,
    Adopt,
    Reset,
}

/// What an operator may set, F-8, F-9, F-14, R-9 to R-11. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub stickiness: Stickiness,
    pub rebalance: bool,
    pub reset_unhealthy: bool,
    pub reset_deregistered: bool,
    pub reset_idle: bool,
    pub unknown: Unknown,
    pub syn_reselect: bool,
    pub established: u32,
    pub half_open: u32,
    pub closed: u32,
    pub other: u32,
    pub both_ends: bool,
    pub proactive: bool,
    pub hold: u32,
    pub min_healthy_percent: u32,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            stickiness: Stickiness::Five,
            rebalance: false,
            reset_unhealthy: false,
            reset_deregistered: false,
            reset_idle: false,
            unknown: Unknown::Drop,
            syn_reselect: true,
            established: 350_000,
            half_open: 60_000,
            closed: 10_000,
            other: 120_000,
            both_ends: false,
            proactive: false,
            hold: 0,
            min_healthy_percent: 0,
        }
    }
}

/// Section 3 and T-3, T-4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Initial,
    Healthy,
    Unhealthy,
    Draining,
    Removed,
}

impl Health {
    pub fn registered(self) -> bool {
        !matches!(self, Health::Draining | Health::Removed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Client,
    Server,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// which sides are still to be told that their connection was reset.
type Owed = BTreeSet<Side>;

fn without(owed: &Owed, side: Side) -> Owed {
    owed.iter().copied().filter(|owed| *owed != side).collect()
}

/// A packet of the client's or of the server's. Its TCP flags are false where it is not TCP.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub flow: Name,
    pub from: Side,
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
    /// whether its headers can be believed enough to answer it.
    pub answerable: bool,
}

impl Packet {
    /// "SYN" in the rules: an attempt to open a connection.
    fn opens(&self) -> bool {
        self.flow.tcp() && self.syn && !self.ack && !self.rst
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    Unhealthy,
    Deregistration,
    Idle,
    NoFlow,
    BothEnds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    UnknownFlow,
    ExpiredFlow,
    /// F-7
    NoTarget,
    ///
    NotAnswerable,
}

/// What must become of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It starts a flow, under a cookie that no flow has, with one of these targets; if anybody is named
    /// one of these flows makes room for it.
    Begins {
        among: BTreeSet<Target>,
        evicts: BTreeSet<Name>,
    },
    /// F-12: it goes to one of these targets and nobody remembers it.
    WithoutState(BTreeSet<Target>),
    /// It is of a flow and goes to this target under the flow's cookie.
    GoesOn(Target),
    /// The same, though its flow was to be reset: a guard holds that back.
    HeldBack(Target),
    /// It is of a flow, which moves to one of these targets and keeps its cookie.
    Moves(BTreeSet<Target>),
    Reset(Trigger),
    Dropped(Why),
}

/// What must become of a packet that a target returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It is delivered to this side.
    To(Side),
    Stale,
    NotFromTarget,
}

/// A packet that a target was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub flow: Name,
    pub target: Target,
    pub cookie: u32,
    /// F-12: who might have been chosen, and by what, if it went without state.
    without_state: Option<(Stickiness, BTreeSet<Target>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    HalfOpen,
    Established,
    Closed,
    Other,
    /// F-10: TCP that idled out.
    Expired,
    /// TCP that was reset, when a side was still to be told.
    Owing,
}

/// What becomes of what is known of a flow, whose packet met its fate.
enum After {
    /// Its packet counts (F-9).
    Counts,
    /// Nothing is known any more; what begins in its place owes this.
    Begins(Owed),
    Forgotten,
    /// As it was, but for what it owes.
    Owes(Owed),
    /// It is over, and owes this.
    EndsOwing(Owed),
}

#[derive(Clone, Debug)]
pub struct Flow {
    pub target: Target,
    pub cookie: u32,
    pub phase: Phase,
    pub fin_of_client: bool,
    pub fin_of_server: bool,
    /// Whose resets have closed it, and were their last packets.
    reset_by: BTreeSet<Side>,
    /// A reset had closed it, and its supposed sender went on: what comes back of that reset is nothing new. Forgotten when
    /// the numbers are known.
    disowned: bool,
    /// Its last packet, or its close.
    pub last: u32,
    /// Made while nobody was healthy (F-6), and no packet of it has found its target healthy since.
    pub failed_open: bool,
    pub begun_by: Side,
    pub owed: Owed,
    /// who has sent packets, and whether a segment told what each expects next.
    heard: BTreeSet<Side>,
    numbers_known: bool,
    /// The step in which it came into its phase: who makes room first (F-12).
    since: u64,
}

impl Flow {
    pub fn is_live(&self) -> bool {
        !matches!(self.phase, Phase::Expired | Phase::Owing)
    }
}

/// A mistake made on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// T-2: takes every protocol for one that can be reset.
    ResetsAll,
    /// F-10: forgets a TCP flow that idled out.
    ForgetsExpired,
    /// F-12: lets the youngest make room.
    EvictsYoungest,
    /// resets a SYN like any packet.
    ResetsSyns,
    /// F-1: takes two endpoints for one.
    MixesEndpoints,
}

/// A choice that was made: among whom, and who it was.
type Chosen = (BTreeSet<Target>, Target);
/// What has its choice in common (F-3).
type Sticky = (Stickiness, u8, u8, u16);

pub struct Model {
    pub now: u32,
    pub attributes: Attributes,
    pub health: Vec<Health>,
    /// Since when each target has the health that it has.
    since: Vec<u32>,
    pub flaw: Option<Flaw>,
    /// What the gateway's tables hold. A flow whose time is over is in it until it is swept out.
    pub flows: BTreeMap<Name, Flow>,
    owners: BTreeMap<Name, Worker>,
    /// Flows that a worker has room for.
    capacity: usize,
    /// F-12: when each worker last had no room for a flow.
    turned_away: BTreeMap<Worker, u32>,
    /// F-12: when each worker last sent a packet without state.
    without_state: BTreeMap<Worker, u32>,
    /// F-12: when a half-open flow of each worker last made room.
    pushed_out: BTreeMap<Worker, u32>,
    /// The flow that is about to begin is that of a handshake which had one.
    rejoins: bool,
    chosen: BTreeMap<Sticky, Vec<Chosen>>,
    /// What the flow that is about to begin takes over of the one before it.
    inherited: Owed,
    step: u64,
}

impl Model {
    pub fn new(targets: usize, capacity: usize, owners: BTreeMap<Name, Worker>, now: u32) -> Model {
        Model {
            now,
            attributes: Attributes::default(),
            health: vec![Health::Healthy; targets],
            since: vec![now; targets],
            flaw: None,
            flows: BTreeMap::new(),
            owners,
            capacity,
            turned_away: BTreeMap::new(),
            without_state: BTreeMap::new(),
            pushed_out: BTreeMap::new(),
            rejoins: false,
            chosen: BTreeMap::new(),
            inherited: Owed::new(),
            step: 0,
        }
    }

    /// The next step of the history begins.
    pub fn next_step(&mut self) {
        self.step += 1;
    }

    pub fn becomes(&mut self, target: Target, health: Health) {
        if self.health[target] != health {
            (self.health[target], self.since[target]) = (health, self.now);
        }
    }

    fn targets_that_are(&self, so: impl Fn(Health) -> bool) -> BTreeSet<Target> {
        (0..self.health.len()).filter(|&target| so(self.health[target])).collect()
    }

    fn somebody_is_healthy(&self) -> bool {
        self.health.contains(&Health::Healthy)
    }

    /// Whether a flow's time is over (F-9).
    fn over(&self, flow: &Flow) -> bool {
        let limit = match flow.phase {
            Phase::HalfOpen => self.attributes.half_open,
            Phase::Established | Phase::Owing => self.attributes.established,
            Phase::Closed => self.attributes.closed,
            Phase::Other => self.attributes.other,
            Phase::Expired => return false,
        };
        self.now.wrapping_sub(flow.last) >= limit
    }

    /// Flows that are over and of which the gateway may know no more, or as of an expired one, at any time
    /// from now on.
    pub fn lingering(&self) -> BTreeSet<Name> {
        self.flows.iter().filter(|(_, flow)| self.over(flow)).map(|(name, _)| *name).collect()
    }

    /// A lingering flow was swept out of its table (F-9), or is remembered as expired (F-10).
    pub fn swept(&mut self, name: &Name) {
        let Some(flow) = self.flows.get_mut(name) else { return };
        if flow.phase == Phase::Established {
            (flow.phase, flow.since) = (Phase::Expired, self.step);
        } else {
            self.flows.remove(name);
        }
    }

    /// A flow made room for another.
    pub fn evicted(&mut self, name: &Name) {
        if self.flows.remove(name).is_some_and(|flow| flow.phase == Phase::HalfOpen) {
            self.pushed_out.insert(self.owners[name], self.now);
        }
    }

    /// F-12: whether a packet of no flow that opens nothing may be of a handshake whose flow made room, and is no more.
    fn may_rejoin(&self, packet: &Packet) -> bool {
        let within = |when: &BTreeMap<Worker, u32>, time: u32| {
            when.get(&self.owners[&packet.flow]).is_some_and(|at| self.now.wrapping_sub(*at) < time)
        };
        packet.flow.tcp()
            && !packet.opens()
            && !within(&self.turned_away, self.attributes.established)
            && (self.attributes.unknown != Unknown::Adopt || packet.rst)
            && within(&self.pushed_out, self.attributes.half_open)
    }

    /// F-9, F-10: what time has made of a flow.
    fn known(&self, name: &Name) -> Option<Flow> {
        let flow = self.flows.get(name)?.clone();
        if !self.over(&flow) {
            return Some(flow);
        }
        let remembered = flow.phase == Phase::Established && self.flaw != Some(Flaw::ForgetsExpired);
        remembered.then_some(Flow { phase: Phase::Expired, ..flow })
    }

    /// What must become of a packet. If it goes to a target, [`Model::went_to`] is to be told next where.
    pub fn packet(&mut self, packet: &Packet) -> Fate {
        let packet = &Packet { flow: self.told_apart(packet.flow), ..*packet };
        let (fate, after) = self.fate(packet);
        if matches!(fate, Fate::Reset(_)) && !packet.answerable {
            return Fate::Dropped(Why::NotAnswerable); // it changes nothing
        }
        self.inherited = Owed::new();
        self.rejoins = self.known(&packet.flow).is_none() && self.may_rejoin(packet);
        match after {
            After::Counts => self.counts(packet),
            After::Forgotten => drop(self.flows.remove(&packet.flow)),
            After::Begins(owed) => {
                self.flows.remove(&packet.flow);
                self.inherited = owed;
            }
            After::Owes(owed) => {
                self.flows.entry(packet.flow).and_modify(|flow| flow.owed = owed);
            }
            After::EndsOwing(owed) => self.ends_owing(&packet.flow, owed),
        }
        let owner = self.owners[&packet.flow];
        match &fate {
            Fate::WithoutState(_) => {
                self.turned_away.insert(owner, self.now);
                self.without_state.insert(owner, self.now);
            }
            // Of those that a worker would keep, it has room for no more.
            Fate::Begins { evicts, .. }
                if evicts.iter().any(|name| self.is_unanswered(&self.flows[name])) =>
            {
                self.turned_away.insert(owner, self.now);
            }
            _ => {}
        }
        fate
    }

    fn told_apart(&self, name: Name) -> Name {
        if self.flaw == Some(Flaw::MixesEndpoints) { Name { endpoint: 0, ..name } } else { name }
    }

    fn fate(&self, packet: &Packet) -> (Fate, After) {
        match self.known(&packet.flow) {
            None => self.of_no_flow(packet),
            Some(flow) if flow.phase == Phase::Expired => self.of_expired_flow(packet),
            Some(flow) if flow.phase == Phase::Owing => self.of_flow_that_owes(packet, &flow.owed),
            Some(flow) => self.of_live_flow(packet, &flow),
        }
    }

    // F-8
    fn of_no_flow(&self, packet: &Packet) -> (Fate, After) {
        if !packet.flow.tcp() || packet.opens() {
            return self.begins(packet, Owed::new());
        }
        // F-12: its connection may have begun when there was no room for it, and be alive.
        if let Some(&at) = self.turned_away.get(&self.owners[&packet.flow])
            && self.now.wrapping_sub(at) < self.attributes.established
        {
            return self.begins(packet, Owed::new());
        }
        if self.attributes.unknown == Unknown::Adopt && !packet.rst {
            return self.begins(packet, Owed::new());
        }
        if self.may_rejoin(packet) {
            return self.begins(packet, Owed::new());
        }
        (self.refused(packet), After::Forgotten)
    }

    /// F-8, R-3: a TCP packet that opens nothing, is of no flow and shall make none.
    fn refused(&self, packet: &Packet) -> Fate {
        let resets = self.attributes.reset_idle || self.attributes.unknown == Unknown::Reset;
        //
        if resets && !packet.rst { Fate::Reset(Trigger::NoFlow) } else { Fate::Dropped(Why::UnknownFlow) }
    }

    // F-10
    fn of_expired_flow(&self, packet: &Packet) -> (Fate, After) {
        if packet.opens() && !(self.flaw == Some(Flaw::ResetsSyns) && self.attributes.reset_idle) {
            return self.begins(packet, Owed::new());
        }
        //
        if self.attributes.reset_idle && !packet.rst {
            return (Fate::Reset(Trigger::Idle), self.after_reset(packet, &Owed::new()));
        }
        (Fate::Dropped(Why::ExpiredFlow), After::Forgotten)
    }

    //
    fn of_flow_that_owes(&self, packet: &Packet, owed: &Owed) -> (Fate, After) {
        if packet.opens() {
            // Of the side that opens a connection nothing is left of an old one.
            return self.begins(packet, without(owed, packet.from));
        }
        if !owed.contains(&packet.from) {
            // This side was told, so its packet is of no flow; the other is to be told all the same.
            return (self.refused(packet), After::Owes(owed.clone()));
        }
        let left = without(owed, packet.from);
        let after = if left.is_empty() { After::Forgotten } else { After::Owes(left) };
        let told = if packet.rst { Fate::Dropped(Why::UnknownFlow) } else { Fate::Reset(Trigger::BothEnds) };
        (told, after)
    }

    /// what is left of a flow after a reset to a packet's sender, which ends it.
    fn after_reset(&self, packet: &Packet, owed: &Owed) -> After {
        let mut left = without(owed, packet.from);
        if self.attributes.both_ends {
            left.insert(packet.from.other());
        }
        if left.is_empty() { After::Forgotten } else { After::EndsOwing(left) }
    }

    fn of_live_flow(&self, packet: &Packet, flow: &Flow) -> (Fate, After) {
        let health = self.health[flow.target];
        let stays = (Fate::GoesOn(flow.target), After::Counts);
        let out_of_service = matches!(health, Health::Unhealthy | Health::Removed);
        let trigger = self.trigger(flow);
        let spared = self.is_spared(flow);
        if packet.opens() {
            let anew = || self.begins(packet, without(&flow.owed, packet.from));
            if flow.phase == Phase::Closed {
                return anew(); // F-9
            }
            if health == Health::Healthy {
                return stays; // F-14
            }
            // F-14; R-6: what would be reset starts anew; what would move does too.
            let leaves = self.attributes.syn_reselect
                || trigger.is_some()
                || (self.attributes.rebalance && out_of_service);
            if !leaves {
                return stays;
            }
            if self.somebody_is_healthy() {
                return anew();
            }
            // With nobody healthy it can only fail open. It does if its flow's next packet would be reset
            // otherwise, or if its target has left for good; else it has nothing to gain.
            let next_is_reset = trigger.is_some() && !spared && !self.attributes.rebalance;
            if next_is_reset || health == Health::Removed {
                return anew();
            }
            return stays;
        }
        if packet.flow.tcp() && flow.owed.contains(&packet.from) && !packet.syn && !packet.rst {
            // it is of the connection before; this one goes on.
            return (Fate::Reset(Trigger::BothEnds), After::Owes(without(&flow.owed, packet.from)));
        }
        if !out_of_service {
            return stays; // F-5, T-3, T-5, T-7
        }
        if self.attributes.rebalance {
            // T-1, T-2, T-4; with nobody healthy it stays (T-6). It wins over a reset.
            if !self.somebody_is_healthy() {
                return stays;
            }
            return (Fate::Moves(self.candidates(&packet.flow)), After::Counts);
        }
        let can_be_reset = packet.flow.tcp() || self.flaw == Some(Flaw::ResetsAll);
        match trigger {
            // T-2: only TCP; R-5: no reset is answered with a reset; T-6.
            Some(trigger) if can_be_reset && !packet.rst && !spared => {
                if self.is_held_back(flow) {
                    return (Fate::HeldBack(flow.target), After::Counts);
                }
                (Fate::Reset(trigger), self.after_reset(packet, &flow.owed))
            }
            _ => stays,
        }
    }

    //
    fn trigger(&self, flow: &Flow) -> Option<Trigger> {
        match self.health[flow.target] {
            Health::Unhealthy if self.attributes.reset_unhealthy => Some(Trigger::Unhealthy),
            Health::Removed if self.attributes.reset_deregistered => Some(Trigger::Deregistration),
            _ => None,
        }
    }

    // T-6
    fn is_spared(&self, flow: &Flow) -> bool {
        flow.failed_open && !self.somebody_is_healthy()
    }

    //
    fn is_held_back(&self, flow: &Flow) -> bool {
        if self.health[flow.target] != Health::Unhealthy {
            return false;
        }
        let healthy = self.targets_that_are(|health| health == Health::Healthy).len();
        let members = self.targets_that_are(Health::registered).len();
        self.now.wrapping_sub(self.since[flow.target]) < self.attributes.hold
            || healthy * 100 < self.attributes.min_healthy_percent as usize * members
    }

    /// a flow is over and remembered for what it owes, from now on.
    fn ends_owing(&mut self, name: &Name, owed: Owed) {
        let (now, step) = (self.now, self.step);
        self.flows.entry(*name).and_modify(|flow| {
            (flow.phase, flow.owed, flow.last, flow.since) = (Phase::Owing, owed, now, step);
        });
    }

    /// who is told now without having asked, as a flow's target is out and somebody else is healthy.
    pub fn tells(&mut self) -> BTreeSet<(Name, Side)> {
        let mut told = BTreeSet::new();
        if !self.attributes.proactive || self.attributes.rebalance || !self.somebody_is_healthy() {
            return told;
        }
        for (name, flow) in &self.flows {
            let silent = flow.phase == Phase::Established && flow.numbers_known && !self.over(flow);
            if silent && self.trigger(flow).is_some() && !self.is_held_back(flow) {
                told.extend(flow.heard.iter().map(|side| (*name, *side)));
            }
        }
        for (name, _) in &told {
            self.ends_owing(name, Owed::from([Side::Client, Side::Server]));
        }
        told
    }

    // F-9
    fn counts(&mut self, packet: &Packet) {
        let (now, step, health, proactive) = (self.now, self.step, &self.health, self.attributes.proactive);
        let Some(flow) = self.flows.get_mut(&packet.flow) else { return };
        flow.last = now;
        flow.failed_open &= health[flow.target] != Health::Healthy;
        if packet.opens() {
            // The port is used again: no side has closed this connection.
            (flow.fin_of_client, flow.fin_of_server) = (false, false);
        } else {
            pass(flow, packet, step);
        }
        if packet.flow.tcp() {
            // a SYN or a reset says of its sender that nothing is left of the connection before, and all else
            // of a side that is owed nothing says that the new one stands.
            let of_sender = packet.opens() || packet.rst || flow.owed.contains(&packet.from);
            flow.owed = if of_sender { without(&flow.owed, packet.from) } else { Owed::new() };
        }
        note(flow, packet, proactive);
    }

    // F-4, F-6, F-7, F-12
    fn begins(&self, packet: &Packet, owed: Owed) -> (Fate, After) {
        let among = self.candidates(&packet.flow);
        if among.is_empty() {
            return (Fate::Dropped(Why::NoTarget), After::Forgotten);
        }
        let owner = self.owners[&packet.flow];
        // What there was of this flow before goes first.
        let neighbours: Vec<(&Name, &Flow)> = self
            .flows
            .iter()
            .filter(|(name, _)| **name != packet.flow && self.owners[*name] == owner)
            .collect();
        if neighbours.len() < self.capacity {
            return (Fate::Begins { among, evicts: BTreeSet::new() }, After::Begins(owed));
        }
        for phases in [&[Phase::Closed, Phase::Expired, Phase::Owing][..], &[Phase::HalfOpen]] {
            let those = || neighbours.iter().filter(|(_, flow)| phases.contains(&flow.phase));
            let since = those().map(|(_, flow)| flow.since);
            let first = if self.flaw == Some(Flaw::EvictsYoungest) { since.max() } else { since.min() };
            if let Some(first) = first {
                let evicts = those().filter(|(_, flow)| flow.since == first).map(|(name, _)| **name);
                return (Fate::Begins { among, evicts: evicts.collect() }, After::Begins(owed));
            }
        }
        // Tables of a history are so small that each flow in them is looked at.
        let unanswered = neighbours.iter().filter(|(_, flow)| self.is_unanswered(flow));
        let evicts: BTreeSet<Name> = unanswered.map(|(name, _)| **name).collect();
        if !evicts.is_empty() {
            return (Fate::Begins { among, evicts }, After::Begins(owed));
        }
        (Fate::WithoutState(among), After::Forgotten)
    }

    /// F-12: of a connection of which one side was never heard, and the other is silent.
    fn is_unanswered(&self, flow: &Flow) -> bool {
        flow.phase == Phase::Established
            && flow.heard.len() == 1
            && self.now.wrapping_sub(flow.last) >= 30_000
    }

    /// Among whom a target is chosen.
    fn eligible(&self) -> BTreeSet<Target> {
        if self.somebody_is_healthy() {
            self.targets_that_are(|health| health == Health::Healthy)
        } else {
            self.targets_that_are(Health::registered)
        }
    }

    // F-3
    fn sticky(&self, flow: &Name) -> Sticky {
        let Name { version, protocol, port, .. } = *flow;
        match self.attributes.stickiness {
            Stickiness::Five => (Stickiness::Five, version, protocol, port),
            Stickiness::Three => (Stickiness::Three, version, protocol, 0),
            Stickiness::Two => (Stickiness::Two, version, 0, 0),
        }
    }

    /// Who may be chosen, by what was chosen before. If the tuple's favourite among many may be chosen
    /// still, it is the favourite among fewer; and among more it is that one or one who was not there.
    fn candidates(&self, flow: &Name) -> BTreeSet<Target> {
        let eligible = self.eligible();
        let mut candidates = eligible.clone();
        for (among, favourite) in self.chosen.get(&self.sticky(flow)).into_iter().flatten() {
            if eligible.contains(favourite) {
                candidates.retain(|target| target == favourite || !among.contains(target));
            }
        }
        candidates
    }

    /// Where a packet went, and under which cookie.
    pub fn went_to(&mut self, packet: &Packet, fate: &Fate, target: Target, cookie: u32) -> Sent {
        let packet = &Packet { flow: self.told_apart(packet.flow), ..*packet };
        let name = packet.flow;
        if !matches!(fate, Fate::GoesOn(_) | Fate::HeldBack(_)) {
            let chosen = (self.eligible(), target);
            self.chosen.entry(self.sticky(&name)).or_default().push(chosen);
        }
        let mut without_state = None;
        match fate {
            Fate::WithoutState(_) => without_state = Some((self.attributes.stickiness, self.eligible())),
            Fate::Moves(_) => {
                if let Some(flow) = self.flows.get_mut(&name) {
                    (flow.target, flow.failed_open) = (target, false);
                }
            }
            Fate::Begins { .. } => {
                let mut flow = Flow {
                    target,
                    cookie,
                    phase: if name.tcp() { Phase::HalfOpen } else { Phase::Other },
                    fin_of_client: false,
                    fin_of_server: false,
                    reset_by: BTreeSet::new(),
                    disowned: false,
                    last: self.now,
                    failed_open: !self.somebody_is_healthy(),
                    begun_by: packet.from,
                    owed: std::mem::take(&mut self.inherited),
                    heard: BTreeSet::new(),
                    numbers_known: false,
                    since: self.step,
                };
                if !packet.opens() {
                    pass(&mut flow, packet, self.step);
                    // Of a connection that was never seen a reset is the end.
                    flow.reset_by.clear();
                }
                if self.rejoins && flow.phase == Phase::Established {
                    // It costs who forges it no less room than a SYN.
                    flow.phase = Phase::HalfOpen;
                }
                note(&mut flow, packet, self.attributes.proactive);
                self.flows.insert(name, flow);
            }
            Fate::GoesOn(_) | Fate::HeldBack(_) | Fate::Reset(_) | Fate::Dropped(_) => {}
        }
        Sent { flow: name, target, cookie, without_state }
    }

    /// F-11, F-12, W-4, W-5: what may become of a packet that comes back in answer to `sent`, `inside` of
    /// it a packet of its flow; more than one thing where that is nobody's business.
    pub fn returns(&self, sent: &Sent, inside: &Packet) -> Vec<Returned> {
        let delivered = Returned::To(inside.from.other());
        if let Some((stickiness, eligible)) = &sent.without_state {
            // F-12: none was sent lately, so that this may be a guess.
            let lately = self.without_state.get(&self.owners[&sent.flow]);
            if lately.is_none_or(|at| self.now.wrapping_sub(*at) >= self.attributes.established) {
                return vec![Returned::Stale];
            }
            // By the hash as it is now.
            let the_same = *stickiness == self.attributes.stickiness && *eligible == self.eligible();
            return if the_same { vec![delivered] } else { vec![delivered, Returned::NotFromTarget] };
        }
        match self.flows.get(&sent.flow) {
            Some(flow) if flow.cookie == sent.cookie && flow.is_live() => {
                let right = if flow.target == sent.target { delivered } else { Returned::NotFromTarget };
                // Whether its flow, whose time is over, was swept out already.
                if self.over(flow) { vec![right, Returned::Stale] } else { vec![right] }
            }
            _ => vec![Returned::Stale],
        }
    }

    /// A packet that was returned, or that its target sent of its own, was delivered (W-4): a FIN or a reset
    /// in it counts, and nothing else does.
    pub fn delivered(&mut self, sent: &Sent, inside: &Packet) {
        if sent.without_state.is_some() || !inside.flow.tcp() || !(inside.fin || inside.rst) {
            return;
        }
        let (now, step) = (self.now, self.step);
        let over = self.flows.get(&sent.flow).is_none_or(|flow| self.over(flow));
        if let Some(flow) = self.flows.get_mut(&sent.flow)
            && !over
        {
            let before = flow.phase;
            let known = match inside.rst {
                true => flow.reset_by.contains(&inside.from) || flow.disowned && before == Phase::Established,
                // It may have been sent before the reset.
                false => before == Phase::Closed,
            };
            if known {
                return;
            }
            pass(flow, inside, step);
            if inside.rst {
                flow.reset_by.clear(); // The target's own.
            }
            if flow.phase == Phase::Closed && before != Phase::Closed {
                flow.last = now; // F-9: so long after its close
            }
        }
    }
}

/// F-9: what a packet that opens nothing makes of its flow.
fn pass(flow: &mut Flow, packet: &Packet, step: u64) {
    if !packet.flow.tcp() {
        return;
    }
    match packet.from {
        Side::Client => flow.fin_of_client |= packet.fin,
        Side::Server => flow.fin_of_server |= packet.fin,
    }
    let before = flow.phase;
    let mut disowned = false;
    if flow.fin_of_client && flow.fin_of_server {
        flow.phase = Phase::Closed;
        flow.reset_by.clear();
    } else if packet.rst {
        flow.phase = Phase::Closed;
        flow.reset_by.insert(packet.from);
    } else if flow.phase == Phase::Closed && !packet.syn && flow.reset_by.remove(&packet.from) {
        // Somebody else sent the reset.
        if flow.reset_by.is_empty() {
            flow.phase = Phase::Established;
            disowned = true;
        }
    } else if flow.phase == Phase::HalfOpen && !packet.syn {
        flow.phase = Phase::Established;
    }
    if flow.phase != before {
        flow.since = step;
        flow.numbers_known = false;
        flow.disowned = disowned;
    }
}

/// what a packet says of how its side and the other can be told unasked.
fn note(flow: &mut Flow, packet: &Packet, proactive: bool) {
    flow.heard.insert(packet.from);
    if !proactive {
        return;
    }
    if packet.opens() {
        flow.numbers_known = false;
    } else if packet.ack && flow.phase == Phase::Established {
        flow.numbers_known = true;
        flow.disowned = false;
    }
}
