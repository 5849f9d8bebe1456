//! The longest round under full load with churn: 4 M live flows, 100,000 new ones a second, as many that
//! end by FINs of both sides, ageing on; half of the packets go to the appliances and half come from there.
//!
//! Beside it the longest turn of a loop that does what testpmd does, on the same core, in turns of half a
//! second: testpmd itself does not tell its longest burst. Its packets come round by two crossed ports; a turn
//! takes a burst from each, as a round of the worker takes one of clients and one of appliances. A third loop
//! looks up one of as many flows at random in `rte_hash` for each packet as well: it goes through as much memory as
//! the worker does, and shows what the machine adds to that (a virtual machine's pages are the host's to map). Turns and rounds
//! are measured by CPU time, one by one; those during which the CPU took an interrupt or the thread lost it are left
//! out of both (`disturbances.rs`). The seconds are of the worker's own time: it stands still while the bench makes
//! frames.

use std::collections::VecDeque;
use std::time::Duration;

use flowgate::io::BURST;
use flowgate::io::PortQueue;
use flowgate::io::dpdk::{Mbuf, Queue};
use flowgate::wire::geneve::outer::OUTER_LEN;

use super::Bench;
use crate::contenders::gateway::{Gateway, Known, Shape, check_encapsulated, check_inner, noted};
use crate::contenders::swap::{AtRandom, Flows, Stateless, Swap};
use crate::disturbances::Disturbances;
use crate::frames::{ACK, FIN, Flow, SERVER_NET, SYN, Shuffled};
use crate::report::{Figure, Row, Share, at_most, count};
use crate::series::Series;
use crate::stand::{CLIENTS, Forwarder, SERVERS, TARGETS, fill};
use crate::{Failure, cpu_time};

/// So often in the worker's time a flow begins and another ends: 100,000 times a second.
const CHURN_EVERY: Duration = Duration::from_micros(10);

/// Packets of a batch at each of the two busy ports.
const HALF: usize = 512;

/// How long each loop goes on before it is the other's turn.
const TURN: Duration = Duration::from_millis(500);

/// Packets that go round in the swapping loop, as many as in testpmd.
const GOING_ROUND: usize = 256;

/// How long rounds took, to be told as quantiles.
#[derive(Default)]
struct Lengths {
    /// By 10 ns, up to a millisecond.
    by_length: Vec<u64>,
    longest: Duration,
    rounds: u64,
    /// Of all rounds, the disturbed ones too.
    total: Duration,
    /// The longest of each turn of half a second.
    by_turn: Series,
    longest_of_turn: Duration,
    /// Rounds that were left out, and the longest of them.
    disturbed: u64,
    longest_disturbed: Duration,
}

impl Lengths {
    const STEP_NS: usize = 10;
    const STEPS: usize = 100_000;

    /// Some rounds after each other, and whether the machine left them alone.
    fn note(&mut self, rounds: &[Duration], disturbed: bool) {
        self.total += rounds.iter().sum::<Duration>();
        let longest = rounds.iter().max().copied().unwrap_or_default();
        if disturbed {
            self.disturbed += rounds.len() as u64;
            self.longest_disturbed = self.longest_disturbed.max(longest);
            return;
        }
        self.by_length.resize(Self::STEPS, 0);
        for took in rounds {
            let place = usize::try_from(took.as_nanos()).unwrap_or(usize::MAX) / Self::STEP_NS;
            self.by_length[place.min(Self::STEPS - 1)] += 1;
        }
        self.longest = self.longest.max(longest);
        self.longest_of_turn = self.longest_of_turn.max(longest);
        self.rounds += rounds.len() as u64;
    }

    fn end_turn(&mut self) {
        self.by_turn.push(std::mem::take(&mut self.longest_of_turn).as_secs_f64() * 1e6);
    }

    /// Microseconds that so great a share of the rounds does not pass.
    fn quantile(&self, share: f64) -> f64 {
        let beyond = (self.rounds as f64 * (1.0 - share)).floor();
        let mut left = 0.0;
        for (place, rounds) in self.by_length.iter().enumerate().rev() {
            left += *rounds as f64;
            if left > beyond {
                return ((place + 1) * Self::STEP_NS) as f64 / 1e3;
            }
        }
        f64::NAN
    }

    /// Rounds that took longer than this.
    fn beyond(&self, limit: Duration) -> u64 {
        let place = usize::try_from(limit.as_nanos()).unwrap_or(usize::MAX) / Self::STEP_NS;
        self.by_length.iter().skip(place).sum()
    }

    fn longest(&self) -> f64 {
        self.longest.as_secs_f64() * 1e6
    }

    fn figure(&self, name: &str) -> Figure {
        let mut figure = Figure::new(name, "µs");
        figure.shares =
            [0.5, 0.99, 0.9999].map(|share| Share { share, value: self.quantile(share) }).to_vec();
        figure.shares.push(Share { share: 1.0, value: self.longest() });
        figure
    }

    fn note_for(&self, name: &str) -> String {
        format!(
            "{name}: {} rounds; the longest of half a second took {:.1} µs as a rule (the median); {} took more than \
             50 µs. {} other rounds were disturbed, the longest of them took {:.1} µs.",
            self.rounds,
            self.by_turn.median(),
            self.beyond(Duration::from_micros(50)),
            self.disturbed,
            self.longest_disturbed.as_secs_f64() * 1e6
        )
    }
}

/// A gateway whose flows come and go.
struct Churning {
    gateway: Gateway,
    /// The live flows are `oldest` and so many after it; `known` has each at its number modulo `live`.
    live: u32,
    oldest: u64,
    /// Flows whose SYN went through and whose next packet has not been sent yet.
    opened: VecDeque<u64>,
    /// The worker's time for which no new flows have come yet.
    due: Duration,
    order: Shuffled,
    opened_in_all: u64,
}

/// A batch's packets at the clients' port: these many SYNs, first packets after them, FINs, and then others.
struct Plan {
    syns: Vec<u64>,
    firsts: Vec<u64>,
    fins: Vec<u64>,
    clients: Vec<u64>,
    answers: Vec<u64>,
}

impl Plan {
    /// The clients' packets in order, with their flags.
    fn clients(&self) -> impl Iterator<Item = (u64, u8)> {
        let parts = [(&self.syns, SYN), (&self.firsts, ACK), (&self.fins, FIN), (&self.clients, ACK)];
        parts.into_iter().flat_map(|(flows, flags)| flows.iter().map(move |flow| (*flow, flags)))
    }
}

impl Churning {
    fn place(&self, number: u64) -> usize {
        usize::try_from(number % u64::from(self.live)).unwrap_or(0)
    }

    fn known(&self, number: u64) -> Known {
        self.gateway.known[self.place(number)]
    }

    /// What the next batch is made of.
    fn plan(&mut self) -> Plan {
        let new = u64::try_from(self.due.as_nanos() / CHURN_EVERY.as_nanos()).unwrap_or(0).min(BURST as u64);
        self.due -= CHURN_EVERY * u32::try_from(new).unwrap_or(0);
        let next = self.oldest + u64::from(self.live);
        let syns: Vec<u64> = (next..next + new).collect();
        let fins: Vec<u64> = (self.oldest..self.oldest + new).collect();
        let firsts: Vec<u64> = self.opened.drain(..).collect();
        // Those that end now are not picked any more, those that begin now not yet.
        self.oldest += new;
        let (oldest, live) = (self.oldest, u64::from(self.live) - new - firsts.len() as u64);
        let order = &mut self.order;
        let mut picked = |count: usize| -> Vec<u64> {
            let live = order.by_ref().map(u64::from).filter(|offset| *offset < live);
            live.take(count).map(|offset| oldest + offset).collect()
        };
        let clients = picked(HALF - syns.len() - firsts.len() - fins.len());
        let answers = picked(HALF);
        Plan { syns, firsts, fins, clients, answers }
    }

    /// A batch.
    fn batch(&mut self, lengths: &mut Lengths, machine: &mut Disturbances) -> Result<(), Failure> {
        let plan = self.plan();
        let mut clients = plan.clients();
        self.gateway.stand.put(CLIENTS, HALF, &mut |packet: &mut Mbuf| {
            let (number, flags) = clients.next().ok_or("no more packets")?;
            let flow = Flow::v4(number);
            fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, flags))
        })?;
        let mut fins = plan.fins.iter();
        self.gateway.stand.put(SERVERS, plan.fins.len(), &mut |packet: &mut Mbuf| {
            let flow = Flow::v4(*fins.next().ok_or("no more packets")?);
            fill(packet, flow.frame_len(), |frame| flow.server_segment(frame, FIN))
        })?;
        let known: Vec<Known> = plan.answers.iter().map(|number| self.known(*number)).collect();
        let mut answers = plan.answers.iter().zip(known);
        let templates = &self.gateway.answers;
        let stand = &mut self.gateway.stand;
        stand.put(TARGETS, HALF, &mut |packet: &mut Mbuf| {
            let (number, known) = answers.next().ok_or("no more packets")?;
            let flow = Flow::v4(*number);
            let template = &templates[usize::from(known.target)];
            fill(packet, flow.answer_len(), |frame| flow.answer(frame, template, known.cookie))
        })?;

        let mut rounds = Vec::with_capacity(HALF);
        let before = machine.count()?;
        stand.work_by_rounds(2 * HALF + plan.fins.len(), |took| rounds.push(took))?;
        lengths.note(&rounds, machine.count()? != before);
        self.due += rounds.iter().sum::<Duration>();
        self.check(&plan)
    }

    /// That everything came out where it should.
    fn check(&mut self, plan: &Plan) -> Result<(), Failure> {
        let expected: Vec<(u64, u8, Known)> =
            plan.clients().map(|(number, flags)| (number, flags, self.known(number))).collect();
        let (mut expected, mut servers) = (expected.into_iter(), 0);
        let mut opened = Vec::new();
        let seen = self.gateway.stand.take(TARGETS, &mut |frame: &[u8]| {
            if is_of_server(frame) {
                servers += 1;
                return Ok(());
            }
            let (number, flags, known) = expected.next().ok_or("more came out than went in")?;
            if flags == SYN {
                opened.push((number, noted(frame)?));
            }
            if flags == ACK {
                return check_encapsulated(Flow::v4(number), known, frame);
            }
            check_inner(Flow::v4(number), flags, frame)
        })?;
        let mut answers = plan.answers.iter();
        let back = self.gateway.stand.take(SERVERS, &mut |frame: &[u8]| {
            let flow = Flow::v4(*answers.next().ok_or("more came out than went in")?);
            let mut wanted = [0; 64];
            flow.client_segment(&mut wanted[..flow.frame_len()], ACK);
            if frame == &wanted[..flow.frame_len()] {
                Ok(())
            } else {
                Err("an answer came out changed".into())
            }
        })?;
        if (seen, servers, back) != (HALF + plan.fins.len(), plan.fins.len(), HALF) {
            return Err(format!("{seen} packets came out to appliances and {back} from them").into());
        }
        for (number, known) in opened {
            let place = self.place(number);
            self.gateway.known[place] = known;
            self.opened.push_back(number);
            self.opened_in_all += 1;
        }
        Ok(())
    }
}

/// Whether the packet inside is a server's: they have addresses of their own.
fn is_of_server(frame: &[u8]) -> bool {
    frame.get(OUTER_LEN + 12) == Some(&SERVER_NET)
}

/// Two crossed ports, with packets that come round for ever.
fn going_round(bench: &Bench) -> Result<Vec<Queue>, Failure> {
    let mut ends = bench.rings.ends(1, 1)?;
    let mut ports: Vec<Queue> = ends.inside.remove(0);
    ports.append(&mut ends.outside.remove(0));
    for port in &mut ports {
        for first in (0..GOING_ROUND / 2).step_by(BURST) {
            let mut burst = bench.rings.empty(BURST)?;
            for (number, packet) in (first as u64..).zip(&mut burst) {
                let flow = Flow::v4(number);
                fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))?;
            }
            port.transmit(&mut burst);
        }
    }
    Ok(ports)
}

/// A turn of a swapping loop, in pieces as long as a batch: a stall of the machine that an interrupt ends is left out
/// by it, and the longer the piece, the likelier.
fn swap_for_a_turn<F: Flows>(
    swap: &mut Swap<F>,
    piece: Duration,
    lengths: &mut Lengths,
    machine: &mut Disturbances,
) -> Result<(), Failure> {
    let until = lengths.total + TURN;
    let mut rounds = Vec::with_capacity(HALF);
    while lengths.total < until {
        rounds.clear();
        let disturbed = machine.count()?;
        let begun = cpu_time::now();
        let mut before = begun;
        while before.saturating_sub(begun) < piece && rounds.len() < rounds.capacity() {
            swap.round();
            let after = cpu_time::now();
            rounds.push(after.saturating_sub(before));
            before = after;
        }
        lengths.note(&rounds, machine.count()? != disturbed);
    }
    lengths.end_turn();
    Ok(())
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let live = bench.size(1 << 22);
    // Flows that have ended stay for ten seconds: a million of them. The rest is room.
    let shape = Shape { flows: live, ..Shape::full(2 * live) };
    bench.says(format_args!("longest burst, {} flows: opening them", count(live)));
    let mut churning = Churning {
        gateway: Gateway::new(&bench.rings, shape)?,
        live,
        oldest: 0,
        opened: VecDeque::new(),
        due: Duration::ZERO,
        order: Shuffled::below(live),
        opened_in_all: 0,
    };
    let mut swap = Swap { ports: going_round(bench)?, flows: Stateless };
    let mut at_random = Swap { ports: Vec::new(), flows: AtRandom::among(live)? };
    let [mut ours, mut theirs, mut fetching] = std::array::from_fn(|_| Lengths::default());
    let mut machine = Disturbances::of(bench.cpu)?;
    let (mut batches, mut seconds) = (0, 0);
    while ours.total < bench.longest {
        let until = ours.total + TURN;
        while ours.total < until {
            churning.batch(&mut ours, &mut machine)?;
            batches += 1;
        }
        ours.end_turn();
        let piece = ours.total / batches;
        swap_for_a_turn(&mut swap, piece, &mut theirs, &mut machine)?;
        // The same packets for both.
        std::mem::swap(&mut swap.ports, &mut at_random.ports);
        swap_for_a_turn(&mut at_random, piece, &mut fetching, &mut machine)?;
        std::mem::swap(&mut swap.ports, &mut at_random.ports);
        if ours.total.as_secs() / 10 > seconds {
            seconds = ours.total.as_secs() / 10;
            let [longest, swapping, fetching] = [&ours, &theirs, &fetching].map(Lengths::longest);
            bench.says(format_args!(
                "  {:.0} s: longest {longest:.1} µs, swapping {swapping:.1} µs, swapping and fetching {fetching:.1} µs",
                ours.total.as_secs_f64()
            ));
        }
    }
    let title = format!(
        "longest round in {:.0} s of full load, {} flows, 100 K new ones a second",
        ours.total.as_secs_f64(),
        count(live)
    );
    let mut row = Row::new("longest-burst", title);
    let at_random =
        format!("that swap and rte_hash, {} flows, one at random looked up for each packet", count(live));
    for (name, lengths) in [
        ("the swap in this process, as testpmd does it", &theirs),
        (&at_random, &fetching),
        ("Flowgate", &ours),
    ] {
        row.figures.push(lengths.figure(name));
        row.notes.push(lengths.note_for(name));
    }
    let beyond = ours.longest() - theirs.longest();
    row.verdicts.push(at_most("beyond the same loop swapping", beyond, 50.0, "µs"));
    let as_a_rule = ours.by_turn.median() - theirs.by_turn.median();
    row.verdicts.push(at_most("beyond it as a rule, the longest of each half second", as_a_rule, 50.0, "µs"));
    row.notes.push(format!(
        "{} flows were opened and as many ended; every packet came out where it should. testpmd does not tell its \
         longest burst: the loop beside is its equal in this process.",
        churning.opened_in_all
    ));
    Ok(vec![row])
}
