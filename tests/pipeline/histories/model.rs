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

/// What an operator may set, F-8, F-9, F-14. Times in milliseconds.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Server,
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
}

#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub target: Target,
    pub cookie: u32,
    pub phase: Phase,
    pub fin_of_client: bool,
    pub fin_of_server: bool,
    /// Its last packet, or its close.
    pub last: u32,
    /// Made while nobody was healthy (F-6), and no packet of it has found its target healthy since.
    pub failed_open: bool,
    pub begun_by: Side,
    /// The step in which it came into its phase: who makes room first (F-12).
    since: u64,
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
    pub flaw: Option<Flaw>,
    /// What the gateway's tables hold. A flow whose time is over is in it until it is swept out.
    pub flows: BTreeMap<Name, Flow>,
    owners: BTreeMap<Name, Worker>,
    /// Flows that a worker has room for.
    capacity: usize,
    /// F-12: when each worker last had no room for a flow.
    turned_away: BTreeMap<Worker, u32>,
    chosen: BTreeMap<Sticky, Vec<Chosen>>,
    step: u64,
}

impl Model {
    pub fn new(targets: usize, capacity: usize, owners: BTreeMap<Name, Worker>, now: u32) -> Model {
        Model {
            now,
            attributes: Attributes::default(),
            health: vec![Health::Healthy; targets],
            flaw: None,
            flows: BTreeMap::new(),
            owners,
            capacity,
            turned_away: BTreeMap::new(),
            chosen: BTreeMap::new(),
            step: 0,
        }
    }

    /// The next step of the history begins.
    pub fn next_step(&mut self) {
        self.step += 1;
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
            Phase::Established => self.attributes.established,
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
        self.flows.remove(name);
    }

    /// F-9, F-10: what time has made of a flow.
    fn known(&self, name: &Name) -> Option<Flow> {
        let flow = *self.flows.get(name)?;
        if !self.over(&flow) {
            return Some(flow);
        }
        let remembered = flow.phase == Phase::Established && self.flaw != Some(Flaw::ForgetsExpired);
        remembered.then_some(Flow { phase: Phase::Expired, ..flow })
    }

    /// What must become of a packet. If it goes to a target, [`Model::went_to`] is to be told next where.
    pub fn packet(&mut self, packet: &Packet) -> Fate {
        let packet = &Packet { flow: self.told_apart(packet.flow), ..*packet };
        let fate = self.fate(packet);
        if matches!(fate, Fate::Reset(_)) && !packet.answerable {
            return Fate::Dropped(Why::NotAnswerable); // it changes nothing
        }
        match fate {
            Fate::Reset(_) | Fate::Begins { .. } | Fate::WithoutState(_) | Fate::Dropped(_) => {
                self.flows.remove(&packet.flow);
            }
            Fate::GoesOn(_) | Fate::Moves(_) => self.goes_on(packet),
        }
        if matches!(fate, Fate::WithoutState(_)) {
            self.turned_away.insert(self.owners[&packet.flow], self.now);
        }
        fate
    }

    fn told_apart(&self, name: Name) -> Name {
        if self.flaw == Some(Flaw::MixesEndpoints) { Name { endpoint: 0, ..name } } else { name }
    }

    fn fate(&self, packet: &Packet) -> Fate {
        match self.known(&packet.flow) {
            None => self.of_no_flow(packet),
            Some(flow) if flow.phase == Phase::Expired => self.of_expired_flow(packet),
            Some(flow) => self.of_live_flow(packet, &flow),
        }
    }

    // F-8
    fn of_no_flow(&self, packet: &Packet) -> Fate {
        if !packet.flow.tcp() || packet.opens() {
            return self.begins(packet);
        }
        // F-12: its connection may have begun when there was no room for it, and be alive.
        if let Some(&at) = self.turned_away.get(&self.owners[&packet.flow])
            && self.now.wrapping_sub(at) < self.attributes.established
        {
            return self.begins(packet);
        }
        if packet.rst {
            return Fate::Dropped(Why::UnknownFlow);
        }
        if self.attributes.unknown == Unknown::Adopt {
            return self.begins(packet);
        }
        if self.attributes.reset_idle || self.attributes.unknown == Unknown::Reset {
            return Fate::Reset(Trigger::NoFlow);
        }
        Fate::Dropped(Why::UnknownFlow)
    }

    // F-10
    fn of_expired_flow(&self, packet: &Packet) -> Fate {
        if packet.opens() && !(self.flaw == Some(Flaw::ResetsSyns) && self.attributes.reset_idle) {
            return self.begins(packet);
        }
        if packet.rst {
            return Fate::Dropped(Why::ExpiredFlow);
        }
        if self.attributes.reset_idle {
            return Fate::Reset(Trigger::Idle);
        }
        Fate::Dropped(Why::ExpiredFlow)
    }

    fn of_live_flow(&self, packet: &Packet, flow: &Flow) -> Fate {
        let health = self.health[flow.target];
        let stays = Fate::GoesOn(flow.target);
        let out_of_service = matches!(health, Health::Unhealthy | Health::Removed);
        //
        let trigger = match health {
            Health::Unhealthy if self.attributes.reset_unhealthy => Some(Trigger::Unhealthy),
            Health::Removed if self.attributes.reset_deregistered => Some(Trigger::Deregistration),
            _ => None,
        };
        let spared = flow.failed_open && !self.somebody_is_healthy(); // T-6
        if packet.opens() {
            if flow.phase == Phase::Closed {
                return self.begins(packet); // F-9
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
                return self.begins(packet);
            }
            // With nobody healthy it can only fail open. It does if its flow's next packet would be reset
            // otherwise, or if its target has left for good; else it has nothing to gain.
            let next_is_reset = trigger.is_some() && !spared && !self.attributes.rebalance;
            if next_is_reset || health == Health::Removed {
                return self.begins(packet);
            }
            return stays;
        }
        if !out_of_service {
            return stays; // F-5, T-3, T-5, T-7
        }
        if self.attributes.rebalance {
            // T-1, T-2, T-4; with nobody healthy it stays (T-6). It wins over a reset.
            if !self.somebody_is_healthy() {
                return stays;
            }
            return Fate::Moves(self.candidates(&packet.flow));
        }
        let can_be_reset = packet.flow.tcp() || self.flaw == Some(Flaw::ResetsAll);
        match trigger {
            // T-2: only TCP; R-5: no reset is answered with a reset; T-6.
            Some(trigger) if can_be_reset && !packet.rst && !spared => Fate::Reset(trigger),
            _ => stays,
        }
    }

    // F-9
    fn goes_on(&mut self, packet: &Packet) {
        let healthy = |target: Target| self.health[target] == Health::Healthy;
        let Some(flow) = self.flows.get(&packet.flow) else { return };
        let mut flow =
            Flow { last: self.now, failed_open: flow.failed_open && !healthy(flow.target), ..*flow };
        if packet.opens() {
            // The port is used again: no side has closed this connection.
            (flow.fin_of_client, flow.fin_of_server) = (false, false);
        } else {
            pass(&mut flow, packet, self.step);
        }
        self.flows.insert(packet.flow, flow);
    }

    // F-4, F-6, F-7, F-12
    fn begins(&self, packet: &Packet) -> Fate {
        let among = self.candidates(&packet.flow);
        if among.is_empty() {
            return Fate::Dropped(Why::NoTarget);
        }
        let owner = self.owners[&packet.flow];
        // What there was of this flow before goes first.
        let neighbours: Vec<(&Name, &Flow)> = self
            .flows
            .iter()
            .filter(|(name, _)| **name != packet.flow && self.owners[*name] == owner)
            .collect();
        if neighbours.len() < self.capacity {
            return Fate::Begins { among, evicts: BTreeSet::new() };
        }
        for phases in [&[Phase::Closed, Phase::Expired][..], &[Phase::HalfOpen]] {
            let those = || neighbours.iter().filter(|(_, flow)| phases.contains(&flow.phase));
            let since = those().map(|(_, flow)| flow.since);
            let first = if self.flaw == Some(Flaw::EvictsYoungest) { since.max() } else { since.min() };
            if let Some(first) = first {
                let evicts = those().filter(|(_, flow)| flow.since == first).map(|(name, _)| **name);
                return Fate::Begins { among, evicts: evicts.collect() };
            }
        }
        Fate::WithoutState(among)
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
        if !matches!(fate, Fate::GoesOn(_)) {
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
                    last: self.now,
                    failed_open: !self.somebody_is_healthy(),
                    begun_by: packet.from,
                    since: self.step,
                };
                if !packet.opens() {
                    pass(&mut flow, packet, self.step);
                }
                self.flows.insert(name, flow);
            }
            Fate::GoesOn(_) | Fate::Reset(_) | Fate::Dropped(_) => {}
        }
        Sent { flow: name, target, cookie, without_state }
    }

    /// F-11, F-12, W-4, W-5: what may become of a packet that comes back in answer to `sent`, `inside` of
    /// it a packet of its flow; more than one thing where that is nobody's business.
    pub fn returns(&self, sent: &Sent, inside: &Packet) -> Vec<Returned> {
        let delivered = Returned::To(match inside.from {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        });
        if let Some((stickiness, eligible)) = &sent.without_state {
            // By the hash as it is now.
            let the_same = *stickiness == self.attributes.stickiness && *eligible == self.eligible();
            return if the_same { vec![delivered] } else { vec![delivered, Returned::NotFromTarget] };
        }
        match self.flows.get(&sent.flow) {
            Some(flow) if flow.cookie == sent.cookie && flow.phase != Phase::Expired => {
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
            pass(flow, inside, step);
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
    if packet.rst || (flow.fin_of_client && flow.fin_of_server) {
        flow.phase = Phase::Closed;
    } else if flow.phase == Phase::HalfOpen && !packet.syn {
        flow.phase = Phase::Established;
    }
    if flow.phase != before {
        flow.since = step;
    }
}
