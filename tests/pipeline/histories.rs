//! Random histories, put to the whole pipeline and to the model (`model.rs`), which must agree on every
//! packet: sections 4 to 6 of the rules. A history that they disagree on is shrunk and printed as a script.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use flowgate::datapath::counters::{DropReason, ResetTrigger};
use flowgate::datapath::forwarding::{Condition, Failover, Policy, ResetGuards, UnknownFlow};
use flowgate::flow::{Timers, Tuple};
use flowgate::id::GatewayId;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::harness::*;
use crate::model::{Attributes, Fate, Health, Model, Packet, Side, Times, Trigger};

const TARGETS: u16 = 3;

/// What a history's numbered conversations are. Numbers 0 and 1 differ in the client's port alone.
fn segment(conversation: usize, from: Side, flags: u8) -> Segment {
    let segment = match conversation {
        0 => client(4000, flags),
        1 => client(4001, flags),
        2 => client(4000, flags).udp(),
        _ => client(4000, flags).over_ipv6(),
    };
    match from {
        Side::Client => segment,
        Side::Server => segment.reversed(),
    }
}
const CONVERSATIONS: usize = 4;

/// Which conversations a stickiness does not tell apart (F-3).
fn sticky(stickiness: Tuple, conversation: usize) -> usize {
    match stickiness {
        Tuple::Five => conversation,
        Tuple::Three => [0, 0, 1, 2][conversation],
        Tuple::Two => [0, 0, 0, 1][conversation],
    }
}

#[derive(Clone)]
enum Step {
    Packet {
        conversation: usize,
        from: Side,
        flags: u8,
    },
    /// An appliance returns a packet of the conversation that it was sent, this many before the last; or
    /// in its stead one of its own.
    Answer {
        conversation: usize,
        before: usize,
        own: Option<(Side, u8)>,
    },
    Becomes {
        target: u16,
        health: Health,
    },
    Set(Attributes),
    /// Time passes; `hand`: and the ageing hand goes round.
    Wait {
        ms: u32,
        hand: bool,
    },
}

fn flag_names(flags: u8) -> String {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set: Vec<_> = (0..8).filter(|bit| flags & 1 << bit != 0).map(|bit| names[bit]).collect();
    if set.is_empty() { "no flags".to_owned() } else { set.join("|") }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Packet { conversation: 2, from, .. } => write!(f, "{from:?} sends UDP"),
            Step::Packet { conversation, from, flags } => {
                write!(f, "{from:?} sends TCP {conversation}, {}", flag_names(*flags))
            }
            Step::Answer { conversation, before, own: None } => {
                write!(f, "the packet of {conversation} that was sent {before} before the last comes back")
            }
            Step::Answer { conversation, before, own: Some((side, flags)) } => write!(
                f,
                "in the {side:?}'s name, to the packet of {conversation} that was sent {before} before the \
                 last, comes {}",
                flag_names(*flags)
            ),
            Step::Becomes { target, health } => write!(f, "target {target} becomes {health:?}"),
            Step::Set(attributes) => write!(f, "{attributes:?}"),
            Step::Wait { ms, hand } => {
                write!(f, "{ms} ms pass{}", if *hand { ", and the hand goes round" } else { "" })
            }
        }
    }
}

#[derive(Clone)]
struct History {
    stickiness: Tuple,
    idle_seconds: u32,
    /// The attributes that it begins with.
    first: Attributes,
    steps: Vec<Step>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "stickiness {:?}, TCP idles out after {} s, {:?}",
            self.stickiness, self.idle_seconds, self.first
        )?;
        self.steps.iter().enumerate().try_for_each(|(number, step)| writeln!(f, "{number:4}  {step:?}"))
    }
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let resets = any::<(bool, bool)>();
    let guards = (prop::sample::select(vec![0, 0, 400]), prop::sample::select(vec![0, 0, 34, 60]));
    let own = (any::<bool>(), any::<bool>(), guards);
    (prop::bool::weighted(0.3), resets, prop::bool::weighted(0.3), prop::bool::weighted(0.1), own).prop_map(
        |(rebalance, (unhealthy, deregistered), idle, unknown, (syn_reselect, both_ends, guards))| {
            Attributes {
                rebalance,
                reset_unhealthy: unhealthy,
                reset_deregistered: deregistered,
                reset_idle: idle,
                reset_unknown: unknown,
                syn_reselect,
                both_ends,
                hold: guards.0,
                min_healthy_percent: guards.1,
            }
        },
    )
}

fn histories() -> impl Strategy<Value = History> {
    // One conversation more often than the others, so that much happens to it.
    let conversation = || prop_oneof![Just(0), 0..CONVERSATIONS];
    let side = || prop::sample::select(vec![Side::Client, Side::Server]);
    let usual = [SYN, SYN, SYN, SYN | ACK, ACK, PSH | ACK, PSH | ACK, PSH | ACK, FIN | ACK, RST];
    let flags = move || prop_oneof![19 => prop::sample::select(usual.to_vec()), 1 => any::<u8>()];
    let health = prop::sample::select(vec![
        Health::Initial,
        Health::Healthy,
        Health::Healthy,
        Health::Healthy,
        Health::Unhealthy,
        Health::Unhealthy,
        Health::Unhealthy,
        Health::Draining,
        Health::Removed,
        Health::Removed,
    ]);
    // Each timer, and a millisecond less.
    let waits = [1, 500, 9_999, 10_000, 59_999, 60_000, 119_999, 120_000, 349_999, 350_000];
    let step = prop_oneof![
        24 => (conversation(), side(), flags())
            .prop_map(|(conversation, from, flags)| Step::Packet { conversation, from, flags }),
        4 => (conversation(), 0usize..4, prop::option::of((side(), flags())))
            .prop_map(|(conversation, before, own)| Step::Answer { conversation, before, own }),
        6 => (0..TARGETS, health).prop_map(|(target, health)| Step::Becomes { target, health }),
        1 => attributes().prop_map(Step::Set),
        2 => (prop::sample::select(waits.to_vec()), any::<bool>())
            .prop_map(|(ms, hand)| Step::Wait { ms, hand }),
    ];
    let stickiness = prop::sample::select(vec![Tuple::Five, Tuple::Five, Tuple::Three, Tuple::Two]);
    let idle = prop::sample::select(vec![60, 350]);
    (stickiness, idle, attributes(), prop::collection::vec(step, 1..120)).prop_map(
        |(stickiness, idle_seconds, first, steps)| History { stickiness, idle_seconds, first, steps },
    )
}

/// What the gateway did with a packet of a client or a server.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Forwarded { target: usize, cookie: u32 },
    Reset(Trigger),
    Dropped(DropReason),
}

/// A packet that a target was sent.
struct Sent {
    packet: Packet,
    frame: Vec<u8>,
    target: usize,
}

/// The gateway and the model, side by side.
struct Both<'a> {
    bench: Bench,
    model: Model,
    stickiness: Tuple,
    sent: BTreeMap<usize, Vec<Sent>>,
    /// The cookie of each conversation's last flow.
    cookies: BTreeMap<usize, u32>,
    /// How often each kind of fate was seen.
    tally: &'a RefCell<BTreeMap<String, u64>>,
}

impl Both<'_> {
    fn packet(&self, conversation: usize, from: Side, flags: u8) -> Packet {
        Packet {
            conversation,
            sticky: sticky(self.stickiness, conversation),
            from,
            tcp: conversation != 2,
            syn: flags & SYN != 0,
            ack: flags & ACK != 0,
            fin: flags & FIN != 0,
            rst: flags & RST != 0,
        }
    }

    fn resets(&self) -> [u64; 5] {
        let triggers = [
            ResetTrigger::Unhealthy,
            ResetTrigger::Deregistration,
            ResetTrigger::IdleTimeout,
            ResetTrigger::NoFlow,
            ResetTrigger::BothEnds,
        ];
        triggers.map(|trigger| self.bench.counters[0].gateway(GatewayId(0)).resets[trigger.index()].get())
    }

    /// Resets held back so far.
    fn suppressed(&self) -> u64 {
        self.bench.counters[0].gateway(GatewayId(0)).suppressed.iter().map(|counter| counter.get()).sum()
    }

    /// Gives the gateway a packet; what becomes of it, and the frame that comes out.
    fn give(&mut self, packet: &Packet, flags: u8) -> (Seen, Vec<u8>) {
        let port = if packet.from == Side::Client { LEFT } else { RIGHT };
        let frame = segment(packet.conversation, packet.from, flags).frame();
        let (drops, resets) = (self.bench.drops(), self.resets());
        let out = self.bench.put(port, &frame);
        let seen = match out.as_slice() {
            [(UNDER, frame)] => {
                Seen::Forwarded { target: usize::from(self.bench.target_of(frame)), cookie: cookie(frame) }
            }
            [(by, _)] => {
                assert_eq!(*by, port, "R-1: back the way it came");
                let counted = (0..5).filter(|&n| self.resets()[n] != resets[n]).collect::<Vec<_>>();
                let triggers = [
                    Trigger::Unhealthy,
                    Trigger::Deregistration,
                    Trigger::Idle,
                    Trigger::NoFlow,
                    Trigger::BothEnds,
                ];
                assert_eq!(counted.len(), 1, "R-8: counted once, by its trigger");
                Seen::Reset(triggers[counted[0]])
            }
            [] => {
                let new = self.bench.drops().into_iter().find(|drop| !drops.contains(drop));
                Seen::Dropped(new.expect("C-1: a drop is counted").0)
            }
            _ => panic!("one packet in, {} out", out.len()),
        };
        (seen, out.into_iter().next().map(|(_, frame)| frame).unwrap_or_default())
    }

    fn send(&mut self, packet: Packet, flags: u8) -> Result<(), String> {
        let fate = self.model.packet(&packet);
        let held_back = self.suppressed();
        let (seen, frame) = self.give(&packet, flags);
        if (self.suppressed() - held_back == 1) != matches!(fate, Fate::HeldBack(_)) {
            return Err(format!("{fate:?}, and {} suppressed", self.suppressed() - held_back));
        }
        let kind = format!("{fate:?}");
        let kind = kind.split('(').next().unwrap_or_default().to_owned();
        let kind = if let Fate::Reset(trigger) = fate { format!("{kind} {trigger:?}") } else { kind };
        *self.tally.borrow_mut().entry(kind).or_default() += 1;

        let conversation = packet.conversation;
        let old = self.cookies.get(&conversation).copied();
        let as_expected = match (&fate, &seen) {
            (Fate::Begins(among), Seen::Forwarded { target, cookie }) => {
                // F-11: no other live flow has it, and it is not the one that the tuple had before.
                among.contains(target) && self.cookies.values().all(|other| other != cookie)
            }
            (Fate::GoesOn(to) | Fate::HeldBack(to), Seen::Forwarded { target, cookie }) => {
                to == target && old == Some(*cookie)
            }
            (Fate::Moves(among), Seen::Forwarded { target, cookie }) => {
                among.contains(target) && old == Some(*cookie)
            }
            (Fate::Reset(expected), Seen::Reset(trigger)) => expected == trigger,
            (Fate::DroppedUnknown, Seen::Dropped(DropReason::UnknownFlow))
            | (Fate::DroppedExpired, Seen::Dropped(DropReason::ExpiredFlow))
            | (Fate::Rejected, Seen::Dropped(DropReason::NoTarget)) => true,
            _ => false,
        };
        if !as_expected {
            return Err(format!("the model says {fate:?}, the gateway did {seen:?}; cookie before: {old:?}"));
        }
        if let Seen::Forwarded { target, cookie } = seen {
            if matches!(fate, Fate::Begins(_) | Fate::Moves(_)) {
                self.model.went_to(&packet, target);
            }
            self.cookies.insert(conversation, cookie);
            self.sent.entry(conversation).or_default().push(Sent { packet, frame, target });
        }
        Ok(())
    }

    /// F-11, W-4, W-5: an answer is delivered if its flow is the one that it was sent for, and its target
    /// is the flow's.
    fn answer(&mut self, conversation: usize, before: usize, own: Option<(Side, u8)>) -> Result<(), String> {
        // Whether the hand has been at a flow whose time is over is nobody's business.
        if self.model.may_linger(conversation) {
            return Ok(());
        }
        let Some(sent) = self.sent.get(&conversation).and_then(|all| all.iter().rev().nth(before)) else {
            return Ok(());
        };
        let (inside, inner) = match own {
            None => (sent.packet, inner(&sent.frame).to_vec()),
            Some((side, flags)) => {
                (self.packet(conversation, side, flags), segment(conversation, side, flags).ip())
            }
        };
        let back = answer(&sent.frame, Some(&inner));
        let expected = match self.model.target_of(conversation) {
            Some(_) if self.cookies[&conversation] != cookie(&sent.frame) => Err(DropReason::CookieStale),
            Some(target) if target != sent.target => Err(DropReason::NotFromTarget),
            Some(_) => Ok(if inside.from == Side::Client { RIGHT } else { LEFT }),
            None => Err(DropReason::CookieStale),
        };
        let drops = self.bench.drops();
        let out = self.bench.put(UNDER, &back);
        let seen = match out.as_slice() {
            [(port, _)] => Ok(*port),
            _ => Err(self.bench.drops().into_iter().find(|drop| !drops.contains(drop)).expect("C-1").0),
        };
        if seen != expected {
            return Err(format!("expected {expected:?}, seen {seen:?} (a port or a drop)"));
        }
        let kind = if seen.is_ok() { "an answer delivered".to_owned() } else { format!("{seen:?}") };
        *self.tally.borrow_mut().entry(kind).or_default() += 1;
        if seen.is_ok() {
            self.model.returned(&inside);
        }
        Ok(())
    }

    fn becomes(&mut self, target: u16, health: Health) {
        let condition = match health {
            Health::Initial => Condition::Initial,
            Health::Healthy => Condition::Healthy,
            Health::Unhealthy => Condition::Unhealthy,
            Health::Draining => Condition::Draining,
            Health::Removed => Condition::Removed,
        };
        let was = std::mem::replace(&mut self.model.health[usize::from(target)], health);
        if was != health {
            self.model.since[usize::from(target)] = self.model.now;
        }
        self.bench.set_condition(target, condition);
        if was.registered() != health.registered() {
            self.bench.publish();
        }
    }

    fn set(&mut self, attributes: Attributes) {
        self.model.attributes = attributes;
        self.bench.policy = Policy {
            stickiness: self.stickiness,
            failover: if attributes.rebalance { Failover::Rebalance } else { Failover::NoRebalance },
            reset_on_unhealthy: attributes.reset_unhealthy,
            reset_on_deregistration: attributes.reset_deregistered,
            reset_on_idle: attributes.reset_idle,
            unknown_flow: if attributes.reset_unknown { UnknownFlow::Reset } else { UnknownFlow::Drop },
            syn_reselect: attributes.syn_reselect,
            both_ends: attributes.both_ends,
            guards: ResetGuards {
                hold_ms: attributes.hold,
                min_healthy_percent: attributes.min_healthy_percent as u32,
                max_per_second: 0,
            },
            ..Policy::default()
        };
        self.bench.publish();
    }

    fn wait(&mut self, ms: u32, hand: bool) {
        self.model.now += ms;
        if hand {
            self.bench.pass(ms);
        } else {
            self.bench.now += ms;
        }
    }

    /// Each target's live flows are those that the model has there, once the hand has been at all whose
    /// time is over.
    fn compare_counts(&self) -> Result<(), String> {
        if (0..CONVERSATIONS).any(|conversation| self.model.may_linger(conversation)) {
            return Ok(());
        }
        for target in 0..TARGETS {
            let (model, gateway) =
                (self.model.live_flows(usize::from(target)), self.bench.live_flows(target));
            if model as u64 != gateway {
                return Err(format!(
                    "target {target} has {model} flows in the model, {gateway} in the gateway"
                ));
            }
        }
        Ok(())
    }
}

/// Plays a history to both; where they disagree, says at which step and on what.
fn play(history: &History, tally: &RefCell<BTreeMap<String, u64>>) -> Result<(), String> {
    let mut bench = Bench::with(TARGETS, 1, 64);
    bench.timers = Timers { tcp_idle_ms: history.idle_seconds * 1000, ..Timers::default() };
    let times =
        Times { established: history.idle_seconds * 1000, half_open: 60_000, closed: 10_000, other: 120_000 };
    let model = Model::new(usize::from(TARGETS), times, bench.now);
    let (sent, cookies) = (BTreeMap::new(), BTreeMap::new());
    let mut both = Both { bench, model, stickiness: history.stickiness, sent, cookies, tally };
    both.set(history.first);
    for (number, step) in history.steps.iter().enumerate() {
        let agreed = match *step {
            Step::Packet { conversation, from, flags } => {
                both.send(both.packet(conversation, from, flags), flags)
            }
            Step::Answer { conversation, before, own } => both.answer(conversation, before, own),
            Step::Becomes { target, health } => {
                both.becomes(target, health);
                Ok(())
            }
            Step::Set(attributes) => {
                both.set(attributes);
                Ok(())
            }
            Step::Wait { ms, hand } => {
                both.wait(ms, hand);
                Ok(())
            }
        };
        agreed
            .and_then(|()| both.compare_counts())
            .map_err(|why| format!("step {number}, {step:?}: {why}"))?;
        both.bench.assert_settled();
    }
    Ok(())
}

// F-2, F-3, F-5 to F-11, F-14, T-1 to T-7, R-1 to, W-4, W-5, C-1
#[test]
fn every_history_goes_as_the_model_says() {
    let tally = RefCell::default();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let result = runner.run(&histories(), |history| play(&history, &tally).map_err(TestCaseError::fail));
    if let Err(disagreement) = result {
        panic!("{disagreement}");
    }
    // The histories have been everywhere, or the test says less than it seems to.
    let tally = tally.into_inner();
    let kinds = [
        "Begins",
        "GoesOn",
        "Moves",
        "Reset Unhealthy",
        "Reset Deregistration",
        "Reset Idle",
        "Reset NoFlow",
        "Reset BothEnds",
        "HeldBack",
        "DroppedUnknown",
        "DroppedExpired",
        "Rejected",
        "an answer delivered",
        "Err(CookieStale)",
        "Err(NotFromTarget)",
    ];
    for kind in kinds {
        assert!(tally.contains_key(kind), "no {kind} in {tally:?}");
    }
}
