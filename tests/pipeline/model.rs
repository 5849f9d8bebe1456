//! Sections 4 to 6 of the rules once more, as plainly as they can be said: a map of flows and a list of
//! ifs. It shares no code with the gateway and says what becomes of a packet; `histories.rs` asks both
//! and compares.
//!
//! Of the choice of a target it knows only what F-4 promises of any consistent hash: who may be chosen,
//! and that a tuple that once went to a target goes there again as long as it may and nobody came whom it
//! was not weighed against then.

use std::collections::{BTreeMap, BTreeSet};

/// A conversation between the client and the server, by its number in the history.
pub type Conversation = usize;

/// How long a silent flow lasts, in milliseconds (F-9).
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub established: u32,
    pub half_open: u32,
    pub closed: u32,
    pub other: u32,
}

/// F-8, F-14, R-9, R-11.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    pub rebalance: bool,
    pub reset_unhealthy: bool,
    pub reset_deregistered: bool,
    pub reset_idle: bool,
    pub reset_unknown: bool,
    pub syn_reselect: bool,
    pub both_ends: bool,
    pub hold: u32,
    pub min_healthy_percent: usize,
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

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// A packet of the client's or of the server's.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub conversation: Conversation,
    /// What else has its choice: all that this stickiness does not tell apart from it (F-3).
    pub sticky: usize,
    pub from: Side,
    pub tcp: bool,
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
}

impl Packet {
    /// "SYN" in the rules: an attempt to open a connection.
    fn opens(&self) -> bool {
        self.tcp && self.syn && !self.ack && !self.rst
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Unhealthy,
    Deregistration,
    Idle,
    NoFlow,
    BothEnds,
}

/// What must become of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It starts a flow, with a cookie that no flow has; with one of these targets.
    Begins(BTreeSet<usize>),
    /// It is of a flow and goes to this target under the flow's cookie.
    GoesOn(usize),
    /// The same, though its flow was to be reset: a guard holds that back.
    HeldBack(usize),
    /// It is of a flow, which moves to one of these targets and keeps its cookie.
    Moves(BTreeSet<usize>),
    Reset(Trigger),
    DroppedUnknown,
    DroppedExpired,
    /// F-7
    Rejected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    HalfOpen,
    Established,
    Closed,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    target: usize,
    phase: Phase,
    fin_of_client: bool,
    fin_of_server: bool,
    last: u32,
    /// Made while nobody was healthy (F-6), and no packet of it has found its target healthy since.
    failed_open: bool,
    /// who is to be told that the connection before this one was reset.
    owed: Option<Side>,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Live(Flow),
    /// F-10: a TCP flow that idled out.
    Expired,
    /// a TCP flow that was reset at this time at one side, when the other was still to be told.
    Owing(Side, u32),
}

/// A choice that was made: among whom, and who it was.
type Chosen = (BTreeSet<usize>, usize);

pub struct Model {
    pub now: u32,
    pub times: Times,
    pub attributes: Attributes,
    pub health: Vec<Health>,
    /// Since when each target has the health that it has.
    pub since: Vec<u32>,
    flows: BTreeMap<Conversation, Known>,
    /// What the flow that is about to begin takes over of the one before it.
    inherited: Option<Side>,
    /// By what tells choices apart.
    chosen: BTreeMap<usize, Vec<Chosen>>,
}

impl Model {
    pub fn new(targets: usize, times: Times, now: u32) -> Model {
        Model {
            now,
            times,
            attributes: Attributes { syn_reselect: true, ..Attributes::default() },
            health: vec![Health::Healthy; targets],
            since: vec![now; targets],
            flows: BTreeMap::new(),
            inherited: None,
            chosen: BTreeMap::new(),
        }
    }

    fn targets_that_are(&self, so: impl Fn(Health) -> bool) -> BTreeSet<usize> {
        (0..self.health.len()).filter(|&target| so(self.health[target])).collect()
    }

    fn somebody_is_healthy(&self) -> bool {
        self.health.contains(&Health::Healthy)
    }

    /// Whether a flow's time is over.
    fn over(&self, flow: &Flow) -> bool {
        let limit = match flow.phase {
            Phase::HalfOpen => self.times.half_open,
            Phase::Established => self.times.established,
            Phase::Closed => self.times.closed,
            Phase::Other => self.times.other,
        };
        self.now - flow.last >= limit
    }

    /// F-9, F-10: what time has made of a conversation's flow.
    fn known(&self, conversation: Conversation) -> Option<Known> {
        match self.flows.get(&conversation).copied() {
            Some(Known::Live(flow)) if self.over(&flow) => {
                (flow.phase == Phase::Established).then_some(Known::Expired)
            }
            Some(Known::Owing(_, at)) if self.now - at >= self.times.established => None,
            known => known,
        }
    }

    /// The target of a conversation's live flow.
    pub fn target_of(&self, conversation: Conversation) -> Option<usize> {
        match self.known(conversation) {
            Some(Known::Live(flow)) => Some(flow.target),
            _ => None,
        }
    }

    /// Live flows of a target.
    pub fn live_flows(&self, target: usize) -> usize {
        self.flows.keys().filter(|&&conversation| self.target_of(conversation) == Some(target)).count()
    }

    /// Whether a conversation's flow ended without its table having to know of it yet.
    pub fn may_linger(&self, conversation: Conversation) -> bool {
        matches!(self.flows.get(&conversation), Some(Known::Live(flow)) if self.over(flow))
    }

    /// What must become of a packet. If it begins or moves a flow, [`Model::went_to`] is to be told next
    /// where that went.
    pub fn packet(&mut self, packet: &Packet) -> Fate {
        self.inherited = None;
        match self.known(packet.conversation) {
            None => self.of_no_flow(packet),
            Some(Known::Expired) => self.of_expired_flow(packet),
            Some(Known::Owing(owed, _)) => self.of_flow_that_owes(packet, owed),
            Some(Known::Live(flow)) => self.of_live_flow(packet, flow),
        }
    }

    // F-8
    fn of_no_flow(&mut self, packet: &Packet) -> Fate {
        self.flows.remove(&packet.conversation);
        if !packet.tcp || packet.opens() {
            return self.begin(packet);
        }
        if packet.rst {
            return Fate::DroppedUnknown;
        }
        if self.attributes.reset_idle || self.attributes.reset_unknown {
            return Fate::Reset(Trigger::NoFlow);
        }
        Fate::DroppedUnknown
    }

    // F-10
    fn of_expired_flow(&mut self, packet: &Packet) -> Fate {
        self.flows.remove(&packet.conversation);
        if packet.opens() {
            return self.begin(packet);
        }
        if packet.rst {
            return Fate::DroppedExpired;
        }
        if self.attributes.reset_idle {
            self.remember_the_other(packet);
            return Fate::Reset(Trigger::Idle);
        }
        Fate::DroppedExpired
    }

    //
    fn of_flow_that_owes(&mut self, packet: &Packet, owed: Side) -> Fate {
        if packet.opens() {
            let fate = self.begin(packet);
            // Of the side that opens a connection nothing is left of an old one.
            self.inherited = (owed != packet.from).then_some(owed);
            return fate;
        }
        if packet.from != owed {
            // This side was told, so the packet is of no flow; the other side is to be told all the same.
            let kept = self.flows.get(&packet.conversation).copied();
            let fate = self.of_no_flow(packet);
            self.flows.extend(kept.map(|kept| (packet.conversation, kept)));
            return fate;
        }
        self.flows.remove(&packet.conversation);
        if packet.rst { Fate::DroppedUnknown } else { Fate::Reset(Trigger::BothEnds) }
    }

    /// after a reset to a packet's sender.
    fn remember_the_other(&mut self, packet: &Packet) {
        self.flows.remove(&packet.conversation);
        if self.attributes.both_ends {
            let owing = Known::Owing(packet.from.other(), self.now);
            self.flows.insert(packet.conversation, owing);
        }
    }

    //
    fn is_held_back(&self, target: usize) -> bool {
        let healthy = self.targets_that_are(|health| health == Health::Healthy).len();
        let members = self.targets_that_are(Health::registered).len();
        self.health[target] == Health::Unhealthy
            && (self.now - self.since[target] < self.attributes.hold
                || healthy * 100 < self.attributes.min_healthy_percent * members)
    }

    fn of_live_flow(&mut self, packet: &Packet, flow: Flow) -> Fate {
        let out_of_service = matches!(self.health[flow.target], Health::Unhealthy | Health::Removed);
        //
        let trigger = match self.health[flow.target] {
            Health::Unhealthy if self.attributes.reset_unhealthy => Some(Trigger::Unhealthy),
            Health::Removed if self.attributes.reset_deregistered => Some(Trigger::Deregistration),
            _ => None,
        };
        let spared = flow.failed_open && !self.somebody_is_healthy(); // T-6
        if packet.opens() {
            let inherited = flow.owed.filter(|owed| *owed != packet.from);
            if flow.phase == Phase::Closed {
                self.inherited = inherited;
                return self.begin(packet); // F-9
            }
            if self.health[flow.target] == Health::Healthy {
                return self.go_on(packet, flow); // F-14
            }
            // F-14; R-6: what would be reset starts anew; what would move does too.
            let leaves = self.attributes.syn_reselect
                || trigger.is_some()
                || (self.attributes.rebalance && out_of_service);
            if !leaves {
                return self.go_on(packet, flow);
            }
            if self.somebody_is_healthy() {
                self.inherited = inherited;
                return self.begin(packet);
            }
            // With nobody healthy it can only fail open. It does if its flow's next packet would be reset
            // otherwise, or if its target has left for good; else it has nothing to gain.
            let next_is_reset = trigger.is_some() && !spared && !self.attributes.rebalance;
            if next_is_reset || self.health[flow.target] == Health::Removed {
                self.inherited = inherited;
                return self.begin(packet);
            }
            return self.go_on(packet, flow);
        }
        if flow.owed == Some(packet.from) && !packet.syn && !packet.rst {
            // it is of the connection before; this one goes on.
            self.flows.insert(packet.conversation, Known::Live(Flow { owed: None, ..flow }));
            return Fate::Reset(Trigger::BothEnds);
        }
        if !out_of_service {
            return self.go_on(packet, flow); // F-5, T-3, T-7
        }
        if self.attributes.rebalance {
            // T-1, T-2, T-4; with nobody healthy it stays (T-6). It wins over a reset.
            if !self.somebody_is_healthy() {
                return self.go_on(packet, flow);
            }
            self.go_on(packet, flow);
            return Fate::Moves(self.candidates(packet.sticky));
        }
        match trigger {
            // T-2: only TCP; R-5: no reset is answered with a reset; T-6.
            Some(trigger) if packet.tcp && !packet.rst && !spared => {
                if self.is_held_back(flow.target) {
                    self.go_on(packet, flow);
                    return Fate::HeldBack(flow.target);
                }
                self.remember_the_other(packet);
                if let (None, Some(owed)) = (self.flows.get(&packet.conversation), flow.owed)
                    && owed != packet.from
                {
                    // It was owed for the connection before.
                    self.flows.insert(packet.conversation, Known::Owing(owed, self.now));
                }
                Fate::Reset(trigger)
            }
            _ => self.go_on(packet, flow),
        }
    }

    // F-9
    fn go_on(&mut self, packet: &Packet, mut flow: Flow) -> Fate {
        flow.last = self.now;
        if self.health[flow.target] == Health::Healthy {
            flow.failed_open = false;
        }
        let of_old = flow.owed == Some(packet.from);
        if of_old || (packet.tcp && !packet.opens() && !packet.rst) {
            // this shows that nothing is left of the connection before, or that the new one stands.
            flow.owed = None;
        }
        if packet.opens() {
            // The port is used again: no side has closed this connection.
            (flow.fin_of_client, flow.fin_of_server) = (false, false);
        } else if packet.tcp {
            pass(&mut flow, packet);
        }
        self.flows.insert(packet.conversation, Known::Live(flow));
        Fate::GoesOn(flow.target)
    }

    // F-4, F-6, F-7
    fn begin(&mut self, packet: &Packet) -> Fate {
        self.flows.remove(&packet.conversation);
        let candidates = self.candidates(packet.sticky);
        if candidates.is_empty() { Fate::Rejected } else { Fate::Begins(candidates) }
    }

    /// Among whom a target is chosen.
    fn eligible(&self) -> BTreeSet<usize> {
        if self.somebody_is_healthy() {
            self.targets_that_are(|health| health == Health::Healthy)
        } else {
            self.targets_that_are(Health::registered)
        }
    }

    /// Who may be chosen, by what was chosen before. If the tuple's favourite among many may be chosen
    /// still, it is the favourite among fewer; and among more it is that one or one who was not there.
    fn candidates(&self, sticky: usize) -> BTreeSet<usize> {
        let eligible = self.eligible();
        let mut candidates = eligible.clone();
        for (among, favourite) in self.chosen.get(&sticky).into_iter().flatten() {
            if eligible.contains(favourite) {
                candidates.retain(|target| target == favourite || !among.contains(target));
            }
        }
        candidates
    }

    /// Where a packet that began or moved a flow went.
    pub fn went_to(&mut self, packet: &Packet, target: usize) {
        let chosen = (self.eligible(), target);
        self.chosen.entry(packet.sticky).or_default().push(chosen);
        let moved = match self.flows.get(&packet.conversation) {
            Some(Known::Live(flow)) => Flow { target, failed_open: false, ..*flow },
            _ => Flow {
                target,
                phase: match packet {
                    Packet { tcp: false, .. } => Phase::Other,
                    _ => Phase::HalfOpen,
                },
                fin_of_client: false,
                fin_of_server: false,
                last: self.now,
                failed_open: !self.somebody_is_healthy(),
                owed: self.inherited.take(),
            },
        };
        self.flows.insert(packet.conversation, Known::Live(moved));
    }

    /// A packet that the flow's target returned or sent of its own (W-4): a FIN or a reset in it counts.
    pub fn returned(&mut self, packet: &Packet) {
        if let Some(Known::Live(flow)) = self.flows.get_mut(&packet.conversation)
            && packet.tcp
            && (packet.fin || packet.rst)
        {
            pass(flow, packet);
        }
    }
}

/// F-9: what a packet that opens nothing makes of its TCP flow.
fn pass(flow: &mut Flow, packet: &Packet) {
    match packet.from {
        Side::Client => flow.fin_of_client |= packet.fin,
        Side::Server => flow.fin_of_server |= packet.fin,
    }
    if packet.rst || (flow.fin_of_client && flow.fin_of_server) {
        flow.phase = Phase::Closed;
    } else if flow.phase == Phase::HalfOpen && !packet.syn {
        flow.phase = Phase::Established;
    }
}
