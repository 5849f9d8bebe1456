//! A soak: a laboratory with traffic in it, faults by chance, and everything that is looked at meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::faults::{Fault, Undo, attributes, choose};
use crate::figures::{self, values};
use crate::judge::flows::{Flows, REMEMBERED, TCP};
use crate::judge::history::History;
use crate::judge::memory::{self, Life, Slope};
use crate::judge::resets::{self, Resets};
use crate::judge::restarts::{self, Tables};
use crate::judge::{At, Law, Violation, accounting, bursts, monotonic};
use crate::lab::gateway::{Attributes, TARGET_GROUP, workers};
use crate::lab::rpc::moment;
use crate::lab::{Lab, now, wait_for};
use crate::traffic::Traffic;
use crate::witness::{SETTLED, Witness};

/// Appliances.
const APPLIANCES: u8 = 3;
/// Between two looks at everything.
const TICK: Duration = Duration::from_millis(250);
/// Between two times at which all traffic pauses.
const BETWEEN_RESTS: Duration = Duration::from_secs(20);
/// How long counts may take to agree once traffic pauses.
const TO_REST: Duration = Duration::from_secs(8);
/// What was done, told beside a violation.
const TOLD: usize = 12;
/// Resets that the daemon told of are kept, so many.
const KEPT: usize = 2000;
/// The daemon's lives are so long in the middle, at least.
const SHORTEST_LIFE: Duration = Duration::from_secs(20);
/// How long a daemon that has taken flow tables over lives at least: three in a row that were killed sooner would have the next
/// one leave the tables (docs/restart.md), which is no fault.
const SETTLED_LIFE: Duration = Duration::from_secs(22);
/// Violations of one law within such a time have one cause, likely.
const ALIKE: Duration = Duration::from_secs(5);
/// So many violations are enough.
const MOST: usize = 40;

/// What is asked of a soak.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub lasts: Duration,
    pub seed: u64,
    pub longest_round: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub lasted: Duration,
    pub faults: BTreeMap<Fault, u64>,
    pub violations: Vec<Violation>,
    pub traffic: Vec<(&'static str, u64)>,
    pub slopes: Vec<Slope>,
    pub lives: u64,
    pub rests: u64,
    pub scrapes: u64,
    pub series: usize,
    pub longest_round: Duration,
    pub most_buffers: (u64, u64),
    pub received: u64,
    pub taken_over: u64,
    pub torn: u64,
    pub flows: Flows,
    pub resets: Resets,
    /// Frames that the captures missed.
    pub missed: Option<u64>,
}

pub struct Soak {
    pub lab: Lab,
    pub chance: Chance,
    pub history: History,
    /// Appliances that something is wrong with, those that are not registered, links that are down.
    pub troubled: Vec<usize>,
    pub away: Vec<usize>,
    pub links_down: Vec<&'static str>,
    pub captures: usize,
    pub flow_log: bool,
    /// Flows that were at work before the daemon ended, and whether their tables were damaged then.
    flows_before: BTreeSet<String>,
    pub damaged: bool,
    /// Whether this daemon can be made to panic.
    pub can_panic: bool,
    wanted: Wanted,
    traffic: Traffic,
    witness: Option<Witness>,
    pending: Vec<(Instant, Undo)>,
    journal: Vec<(At, String)>,
    begun: Instant,
    life: Life,
    life_begun: (Instant, At),
    /// Of this life: counters as they were last scraped, buffers in use at the first rest, resets that arrived, and events
    /// that were taken.
    counters: BTreeMap<String, f64>,
    buffers: Option<u64>,
    resets_of_life: u64,
    events: usize,
    /// Its longest round of a worker, and how long its threads have waited for a CPU, when that was last looked at.
    longest_of_life: Duration,
    waited: Duration,
    /// Resets that the daemon told of, the newest last.
    told_of: Vec<Value>,
    /// Targets that were deregistered, and have not begun to count anew since.
    pub may_begin_anew: Vec<Ipv4Addr>,
    outcome: Outcome,
}

impl Soak {
    /// Builds the laboratory and starts everything.
    pub fn start(wanted: Wanted) -> Soak {
        let mut chance = Chance::new(wanted.seed);
        let mut lab = Lab::new(APPLIANCES);
        lab.keep_tables(workers());
        lab.start_all(Attributes::default());
        let witness = Witness::start(&lab);
        let mut history = History::default();
        for appliance in &lab.appliances {
            history.state(appliance.address, "healthy", now());
        }
        let targets = lab.appliances.iter().map(|appliance| appliance.address).collect();
        let (group, listener) = attributes(&mut chance);
        let traffic_chance = &mut chance.fork();
        let mut soak = Soak {
            traffic: Traffic::start(&lab, traffic_chance),
            lab,
            chance,
            history,
            troubled: Vec::new(),
            away: Vec::new(),
            links_down: Vec::new(),
            captures: 0,
            flow_log: false,
            flows_before: BTreeSet::new(),
            damaged: false,
            can_panic: false,
            wanted,
            witness: Some(witness),
            pending: Vec::new(),
            journal: Vec::new(),
            begun: Instant::now(),
            life: Life::default(),
            life_begun: (Instant::now(), now()),
            counters: BTreeMap::new(),
            buffers: None,
            resets_of_life: 0,
            events: 0,
            longest_of_life: Duration::ZERO,
            waited: Duration::ZERO,
            told_of: Vec::new(),
            may_begin_anew: Vec::new(),
            outcome: Outcome { flows: Flows { targets, ..Flows::default() }, lives: 1, ..Outcome::default() },
        };
        let methods = soak.ask("rpc.discover", json!({}))["methods"].take();
        let mut methods = methods.as_array().into_iter().flatten();
        soak.can_panic = methods.any(|method| method["name"] == "debug-put-fault");
        soak.set(&group, &listener);
        soak
    }

    /// Lets it run, and takes everything down.
    pub fn run(mut self) -> Outcome {
        let end = self.begun + self.wanted.lasts;
        let (mut next_fault, mut next_rest) =
            (Instant::now() + Duration::from_secs(2), self.begun + BETWEEN_RESTS / 4);
        let mut next_end = self.begun + self.life_time();
        let mut ticks: u32 = 0;
        while Instant::now() < end && self.outcome.violations.len() < MOST {
            if Instant::now() >= next_fault {
                let fault = if Instant::now() >= next_end {
                    next_end = Instant::now() + self.life_time().max(SETTLED_LIFE);
                    self.chance.of(&[Fault::Restart, Fault::Kill, Fault::Kill, Fault::Damage])
                } else {
                    choose(&mut self.chance)
                };
                self.carefully("a fault", |soak| soak.inflict(fault));
                next_fault = Instant::now() + Duration::from_millis(self.chance.between(300, 3000));
            }
            self.undo_what_is_due(Instant::now());
            self.carefully("a look", |soak| soak.look(ticks.is_multiple_of(4)));
            if Instant::now() >= next_rest {
                self.carefully("a rest", Soak::rest);
                next_rest = Instant::now() + BETWEEN_RESTS;
            }
            ticks += 1;
            thread::sleep(TICK);
        }
        // All well again, and one more rest.
        self.undo_what_is_due(Instant::now() + Duration::from_secs(3600));
        thread::sleep(Duration::from_secs(1));
        self.carefully("the last rest", Soak::rest);
        self.carefully("the last look", |soak| {
            thread::sleep(SETTLED + TICK);
            soak.look(true);
        });
        self.carefully("the end of the daemon", |soak| {
            soak.end_of_life();
            soak.lab.stop_gateway();
        });
        self.over()
    }

    /// The daemon has told of a panic, and read its own debug information for that.
    pub fn panic_is_told(&mut self) {
        let age = self.life_begun.0.elapsed();
        self.life.told_panic.get_or_insert(age);
    }

    /// How long the daemon may live until it is stopped or killed: some ten lives in a soak, as a leak shows in a long one.
    fn life_time(&mut self) -> Duration {
        let middle = (self.wanted.lasts / 10).max(SHORTEST_LIFE);
        let percent = u32::try_from(self.chance.between(50, 150)).expect("it is small");
        middle * percent / 100
    }

    fn over(mut self) -> Outcome {
        self.outcome.lasted = self.begun.elapsed();
        self.outcome.traffic = self.traffic.tally().figures().to_vec();
        self.outcome.missed = self.witness.take().and_then(Witness::end);
        if let Err(what) = self.traffic.end() {
            self.outcome.violations.push(Violation { law: Law::Alive, at: now(), what, before: Vec::new() });
        }
        self.outcome
    }

    /// Does something that may find the daemon dead, or deaf.
    fn carefully(&mut self, doing: &str, work: impl FnOnce(&mut Soak)) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(self))) else { return };
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        self.broken(Law::Alive, format!("{doing} came to nothing: {}", said.unwrap_or_default()));
        let dead = match &mut self.lab.gateway {
            Some(gateway) => gateway.process.ended().is_some(),
            None => true,
        };
        if dead {
            self.history.went_down(now());
            self.lab.gateway = None;
            if let Err(_told) = catch_unwind(AssertUnwindSafe(|| self.begin_life())) {
                self.wanted.lasts = Duration::ZERO;
            }
        }
    }

    /// A fault is done, and counted.
    pub fn did(&mut self, fault: Fault, what: String) {
        *self.outcome.faults.entry(fault).or_default() += 1;
        self.note(what);
    }

    /// Something is done.
    pub fn note(&mut self, what: String) {
        self.journal.push((now(), what));
    }

    pub fn later(&mut self, after: Duration, undo: Undo, troubled: Option<usize>) {
        self.troubled.extend(troubled);
        self.pending.push((Instant::now() + after, undo));
    }

    fn undo_what_is_due(&mut self, by: Instant) {
        let (due, waiting) = std::mem::take(&mut self.pending).into_iter().partition(|(when, _)| *when <= by);
        self.pending = waiting;
        for (_, undo) in due {
            self.carefully("an end of a fault", |soak| soak.undo(undo));
        }
    }

    /// Asks the daemon for something that it must do.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        match self.lab.gateway().rpc.call(method, params.clone()) {
            Ok(result) => result,
            Err(refused) => {
                self.broken(Law::Alive, format!("{method} {params} is refused: {refused}"));
                Value::Null
            }
        }
    }

    fn broken(&mut self, law: Law, what: String) {
        let at = now();
        let told = |(when, what): &(At, String)| {
            format!("{:.1} s before: {what}", at.saturating_sub(*when).as_secs_f64())
        };
        let before: Vec<String> =
            self.journal.iter().skip(self.journal.len().saturating_sub(TOLD)).map(told).collect();
        // Of the same at once the first is told in full.
        let again =
            self.outcome.violations.last().is_some_and(|last| last.law == law && last.at + ALIKE > at);
        eprintln!(
            "VIOLATION after {:.1} s (seed {}): {what}",
            self.begun.elapsed().as_secs_f64(),
            self.wanted.seed
        );
        let before = if again { Vec::new() } else { before };
        before.iter().for_each(|line| eprintln!("    {line}"));
        self.outcome.violations.push(Violation { law, at, what, before });
    }

    fn hold(&mut self, law: Law, verdict: Result<(), String>) {
        if let Err(what) = verdict {
            self.broken(law, what);
        }
    }

    /// Everything that can be seen at any time.
    fn look(&mut self, scrapes: bool) {
        self.hear();
        self.witness();
        let Some(gateway) = &mut self.lab.gateway else { return };
        if let Some(status) = gateway.process.ended() {
            panic!("flowgated ended with {status}");
        }
        self.life.samples.push((self.life_begun.0.elapsed(), gateway.resident()));
        let wrong = std::mem::take(&mut *self.traffic.tally().wrong.lock().expect("nobody panics with it"));
        wrong.into_iter().for_each(|what| self.broken(Law::Content, what));
        if scrapes {
            self.scrape();
        }
    }

    /// The daemon's events since the last time.
    pub fn hear(&mut self) {
        let events = self.lab.gateway().events.all();
        for event in &events[self.events.min(events.len())..] {
            let target = event["Target"].as_str().and_then(|text| text.parse().ok());
            match (event["Event"].as_str(), target) {
                (Some("TargetHealthChanged"), Some(target)) => {
                    self.history.state(target, event["To"].as_str().unwrap_or_default(), moment(event));
                }
                (Some("DrainEnded"), Some(target)) => {
                    let away = self.away.iter().any(|n| self.lab.appliances[*n].address == target);
                    if away {
                        self.history.state(target, "gone", moment(event));
                    }
                }
                (Some("TcpReset"), _) => self.told_of.push(event.clone()),
                _ => {}
            }
        }
        let old = self.told_of.len().saturating_sub(KEPT);
        self.told_of.drain(..old);
        self.events = events.len();
    }

    fn witness(&mut self) {
        let Some(witness) = &mut self.witness else { return };
        let (packets, made) = (witness.packets(now()), witness.resets(now()));
        let mut wrong = Vec::new();
        for packet in packets {
            if let Err(what) = self.outcome.flows.saw(&packet, &self.history) {
                wrong.push((Law::OneTarget, what));
            }
        }
        for reset in made {
            if reset.at >= self.life_begun.1 {
                self.resets_of_life += 1;
            }
            let flow = self.outcome.flows.at(reset.at, TCP, reset.from, reset.to).copied();
            if let Err(what) = self.outcome.resets.saw(&reset, flow.as_ref(), &self.history) {
                let (to, port) = (json!(reset.to.ip()), json!(reset.to.port()));
                let its = |event: &&Value| event["SentTo"] == to && event["SentToPort"] == port;
                let event = self.told_of.iter().rev().find(its);
                let said = event.map_or_else(|| "nothing of it".to_owned(), Value::to_string);
                wrong.push((Law::Resets, format!("{what}; the daemon tells {said}")));
            }
        }
        wrong.into_iter().take(MOST / 4).for_each(|(law, what)| self.broken(law, what));
    }

    fn scrape(&mut self) {
        let scraped = match figures::scrape(&self.lab) {
            Ok(scraped) => scraped,
            Err(error) => return self.broken(Law::Alive, format!("/metrics cannot be had: {error}")),
        };
        let counters = monotonic::counters(&scraped);
        for fallen in monotonic::fallen(&self.counters, &counters, &self.may_begin_anew) {
            self.broken(Law::Monotonic, fallen);
        }
        // What it lost while it was away is not all that it loses: the rest is when it comes back.
        let away: Vec<_> = self.away.iter().map(|n| self.lab.appliances[*n].address).collect();
        let back: Vec<_> =
            self.may_begin_anew.iter().copied().filter(|target| !away.contains(target)).collect();
        for target in monotonic::begun_anew(&self.counters, &counters, &back) {
            // Once for each time that it was deregistered.
            let place = self.may_begin_anew.iter().position(|other| *other == target);
            place.map(|place| self.may_begin_anew.remove(place));
        }
        self.outcome.series = self.outcome.series.max(counters.len());
        self.outcome.scrapes += 1;
        self.counters = counters;
        let longest =
            values(&scraped, "flowgate_worker_longest_round_ever_seconds").into_iter().fold(0.0, f64::max);
        let longest = Duration::from_secs_f64(longest);
        let waited = self.lab.gateway().waited_for_a_cpu();
        // It was since the last scrape of this life.
        let meanwhile = waited.saturating_sub(std::mem::replace(&mut self.waited, waited));
        if longest > self.longest_of_life {
            self.hold(Law::Bursts, bursts::judge(longest, meanwhile, self.wanted.longest_round));
            self.longest_of_life = longest;
        }
        self.outcome.longest_round = self.outcome.longest_round.max(longest);
    }

    /// Traffic pauses, and the counts must agree.
    fn rest(&mut self) {
        self.traffic.rest();
        let begun = Instant::now();
        let sums = loop {
            let before = figures::sums(&self.lab);
            thread::sleep(Duration::from_millis(40));
            let sums = figures::sums(&self.lab);
            // Health checks and neighbours cross the target side all the time: there is a moment between two.
            if sums == before && sums.agree() || begun.elapsed() > TO_REST {
                break sums;
            }
        };
        self.hold(Law::Accounting, sums.judge());
        let scraped = figures::scrape(&self.lab).unwrap_or_default();
        let sum = |name: &str| -> u64 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a number of buffers"
            )]
            values(&scraped, name).into_iter().map(|value| value as u64).sum()
        };
        let in_use = sum("flowgate_worker_packet_buffers_in_use");
        let of = sum("flowgate_worker_packet_buffers");
        match self.buffers {
            None => self.buffers = Some(in_use),
            Some(at_first) => self.hold(Law::Buffers, accounting::buffers(at_first, in_use, of)),
        }
        if in_use >= self.outcome.most_buffers.0 {
            self.outcome.most_buffers = (in_use, of);
        }
        self.are_resets_counted();
        self.outcome.rests += 1;
        self.traffic.go_on();
        self.history.forget(now().saturating_sub(REMEMBERED * 2));
        self.outcome.flows.forget(now());
        self.outcome.resets.forget(now());
        let told = self.journal.len().saturating_sub(TOLD);
        self.journal.drain(..told);
    }

    fn are_resets_counted(&mut self) {
        let counted = figures::resets(&self.lab);
        self.hold(Law::Resets, resets::counted(self.resets_of_life, counted));
    }

    /// The daemon is about to end: what there is to say of its life.
    pub fn end_of_life(&mut self) {
        self.hear();
        self.are_resets_counted();
        self.outcome.received += figures::sums(&self.lab).received;
        self.flows_before = figures::flows(&self.lab, true);
        let life = std::mem::take(&mut self.life);
        if let Some(slope) = life.slope() {
            self.hold(Law::Memory, memory::judge(&slope));
            self.outcome.slopes.push(slope);
        }
        // They have ended with it.
        self.flow_log = false;
        self.pending.retain(|(_, undo)| !matches!(undo, Undo::EndFlowLog));
    }

    /// The daemon is started, and another life begins.
    pub fn begin_life(&mut self) {
        self.lab.start_gateway();
        let at = now();
        self.history.came_up(at);
        self.life_begun = (Instant::now(), at);
        (self.counters, self.buffers, self.resets_of_life, self.events) = (BTreeMap::new(), None, 0, 0);
        (self.longest_of_life, self.waited) = (Duration::ZERO, Duration::ZERO);
        self.may_begin_anew.clear();
        self.outcome.lives += 1;
        self.note("the daemon is there again".to_owned());
        self.look_at_tables();
        self.ask_for_states();
    }

    /// What the daemon says of the flows of the one before.
    fn look_at_tables(&mut self) {
        let told = self.ask("describe-workers", json!({}))["FlowTables"].take();
        let number = |key: &str| told[key].as_u64().unwrap_or_default();
        let word = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        let found = Tables {
            outcome: word("Outcome"),
            flows: number("Flows"),
            refused: number("Refused"),
            torn: number("Torn"),
            adopts: number("AdoptSeconds"),
            why: word("Message"),
        };
        let damaged = std::mem::take(&mut self.damaged);
        if damaged || found.torn > 0 {
            self.history.lost_flows(Duration::from_secs(found.adopts));
        }
        self.outcome.taken_over += found.flows;
        self.outcome.torn += found.torn;
        let (before, now) = (std::mem::take(&mut self.flows_before), figures::flows(&self.lab, false));
        let missing: Vec<&String> = before.difference(&now).collect();
        self.hold(Law::Restarts, restarts::judge(&found, before.len(), &missing, damaged));
    }

    /// The control core has fallen, and is waited for.
    pub fn listen_again(&mut self) {
        let rpc = self.lab.gateway().rpc.clone();
        let asked = json!({"TargetGroupArn": TARGET_GROUP});
        wait_for("the control core to be there again", Duration::from_secs(20), || {
            catch_unwind(|| rpc.call("describe-target-health", asked.clone())).ok()?.ok()
        });
        let gateway = self.lab.gateway.as_mut().expect("it runs");
        gateway.events = rpc.subscribe();
        // A new control core counts anew what it had added up; resets are of the whole life still to be seen.
        (self.counters, self.events, self.resets_of_life) = (BTreeMap::new(), 0, 0);
        self.life_begun.1 = now();
        self.history.hears_again(now());
        // A flow log goes on, unless it was about to begin.
        if self.ask("describe-flow-log", json!({}))["State"] == "off" {
            self.flow_log = false;
            self.pending.retain(|(_, undo)| !matches!(undo, Undo::EndFlowLog));
        }
        self.note("the control core is there again".to_owned());
        self.ask_for_states();
    }

    /// What the daemon found before anybody heard.
    fn ask_for_states(&mut self) {
        // What it tells meanwhile is newer.
        let before = now();
        let health = self.ask("describe-target-health", json!({"TargetGroupArn": TARGET_GROUP}));
        for described in health["TargetHealthDescriptions"].as_array().into_iter().flatten() {
            let target = described["Target"]["Id"].as_str().and_then(|text| text.parse().ok());
            if let (Some(target), Some(state)) = (target, described["TargetHealth"]["State"].as_str()) {
                self.history.state(target, state, before);
            }
        }
    }
}
