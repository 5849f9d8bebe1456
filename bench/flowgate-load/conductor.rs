//! A load from its beginning to its end, as the main thread leads it: flows open, data flows, what is on its way
//! arrives, flows close. Adds up what the generator's thread measures meanwhile and shows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer};

use super::devices::Refusal;
use super::engine::Reports;
use super::measure::{INTERVALS_A_SECOND, Interval};
use super::options::{Moment, Options};
use super::orders::{Orders, Phase};
use super::report::{self, Outcome, Point};
use super::search::{self, Trial};

/// How long nothing may get on before a phase is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Nothing arrives any more when nothing has for so many intervals.
const QUIET: u32 = 3;
/// How long a trial of a search takes.
const TRIAL: Duration = Duration::from_secs(3);
/// Points that a plot has at most, nearly.
const POINTS: u32 = 240;
/// Intervals that go round.
const IN_FLIGHT: usize = 8;

/// What the world around does when a target dies (`true`) or lives again.
pub type OnDeath<'a> = dyn FnMut(usize, bool) -> Result<(), Refusal> + 'a;

/// The main thread's ends of the rings to one of the generator's.
struct Stream {
    full: Consumer<Box<Interval>>,
    empty: Producer<Box<Interval>>,
}

impl Stream {
    /// Both ends of fresh rings.
    fn new(targets: usize) -> (Stream, Reports) {
        let (full_in, full) = rtrb::RingBuffer::new(IN_FLIGHT);
        let (mut empty, empty_out) = rtrb::RingBuffer::new(IN_FLIGHT);
        for _ in 1..IN_FLIGHT {
            // There is room for as many.
            empty.push(Box::new(Interval::new(targets))).ok();
        }
        (Stream { full, empty }, Reports { full: full_in, empty: empty_out })
    }
}

/// What the generator's threads are led by.
pub struct Conductor<'a> {
    options: &'a Options,
    orders: Arc<Orders>,
    /// Somebody wants it to end.
    interrupted: Arc<AtomicBool>,
    /// The first is that of the thread that plays an end.
    streams: Vec<Stream>,
    on_death: Box<OnDeath<'a>>,
    /// Called now and then.
    listen: Box<dyn FnMut() + 'a>,
}

impl<'a> Conductor<'a> {
    pub fn new(
        options: &'a Options,
        threads: usize,
        orders: Arc<Orders>,
        interrupted: Arc<AtomicBool>,
        on_death: Box<OnDeath<'a>>,
        listen: Box<dyn FnMut() + 'a>,
    ) -> (Conductor<'a>, Vec<Reports>) {
        let targets = options.targets.0.len();
        let (streams, reports) = (0..threads).map(|_| Stream::new(targets)).unzip();
        (Conductor { options, orders, interrupted, streams, on_death, listen }, reports)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Waits for the first thread's next interval and gives it to `look`, with what the others have brought since.
    fn next<T>(&mut self, look: impl FnOnce(&Interval) -> T) -> Result<T, Refusal> {
        let begun = Instant::now();
        let [first, others @ ..] = self.streams.as_mut_slice() else {
            return Err("there is no thread".into());
        };
        loop {
            (self.listen)();
            if let Ok(mut interval) = first.full.pop() {
                for stream in others {
                    while let Ok(more) = stream.full.pop() {
                        interval.add(&more);
                        stream.empty.push(more)?;
                    }
                }
                let seen = look(&interval);
                first.empty.push(interval)?;
                return Ok(seen);
            }
            if begun.elapsed() > PATIENCE {
                return Err("the generator's thread has stopped".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the gateway has asked every target for its health, and then for a while: flows that open while
    /// it still thinks them dead may be reset when it finds that they live.
    pub fn wait_for_checks(&mut self) -> Result<(), Refusal> {
        let plays_targets = self.options.dir.is_some() || self.options.appliances.is_some();
        if !plays_targets {
            return Ok(());
        }
        let (begun, mut asked) = (Instant::now(), Interval::new(self.options.targets.0.len()));
        while asked.checks_by_target.contains(&0) {
            if begun.elapsed() > PATIENCE {
                let silent = asked.checks_by_target.iter().filter(|&&checks| checks == 0).count();
                eprintln!("nobody has asked {silent} of the targets for their health: going on without");
                return Ok(());
            }
            self.next(|interval| asked.add(interval))?;
        }
        let settled = Instant::now();
        while settled.elapsed() < self.options.settle {
            self.next(|_| ())?;
        }
        Ok(())
    }

    /// Opens all flows.
    pub fn open(&mut self) -> Result<(), Refusal> {
        if self.options.dir.is_none() && !self.options.own_gateway && self.options.clients.is_none() {
            // Whoever plays the clients opens them.
            return Ok(());
        }
        self.orders.set_phase(Phase::Open);
        let (begun, mut got_on, mut most) = (Instant::now(), Instant::now(), 0);
        let flows = self.options.flows;
        loop {
            let (open, retried) =
                self.next(|interval| (interval.ends.established, interval.counts.retried))?;
            if open == flows {
                eprintln!("{flows} flows opened in {:.1} s", begun.elapsed().as_secs_f64());
                return Ok(());
            }
            if self.is_interrupted() {
                return Err("interrupted".into());
            }
            if open > most {
                (most, got_on) = (open, Instant::now());
            }
            if got_on.elapsed() > PATIENCE {
                return Err(format!(
                    "only {open} of {flows} flows could be opened, {retried} SYNs were sent again in the last tenth of \
                     a second: does the gateway forward, are its targets ours, is its table large enough?"
                )
                .into());
            }
        }
    }

    /// Lets data flow for so long, shows how it goes, and waits for what is on its way.
    pub fn run(&mut self, duration: Duration) -> Result<Outcome, Refusal> {
        let targets = self.options.targets.0.len();
        let (mut total, mut second, mut piece) =
            (Interval::new(targets), Interval::new(targets), Interval::new(targets));
        let piece_intervals = (rounded_up(duration) * INTERVALS_A_SECOND / POINTS).max(1);
        let (mut series, mut moments) = (Vec::new(), self.moments());
        let (mut in_second, mut in_piece) = (0, 0);
        let (mut second_begun, mut piece_begun) = (0.0, 0.0);
        let is_shown = self.options.attack.0.is_empty();
        if is_shown {
            eprintln!("{}", report::PROGRESS_HEAD);
        }
        self.orders.set_phase(Phase::Run);
        let begun = Instant::now();
        while begun.elapsed() < duration && !self.is_interrupted() {
            moments.retain(|&(at, target, dies)| {
                let due = begun.elapsed() >= at;
                if due {
                    self.let_die(target, dies);
                }
                !due
            });
            self.next(|interval| {
                total.add(interval);
                second.add(interval);
                piece.add(interval);
            })?;
            let at = begun.elapsed().as_secs_f64();
            (in_second, in_piece) = (in_second + 1, in_piece + 1);
            if in_piece == piece_intervals {
                series.push(Point::new(&piece, at, at - piece_begun));
                piece.clear();
                (in_piece, piece_begun) = (0, at);
            }
            if in_second == INTERVALS_A_SECOND {
                let point = Point::new(&second, at, at - second_begun);
                let missing = self.options.played().lost(&total.counts);
                if is_shown {
                    eprintln!("{}", report::progress(&point, second.ends.established, missing));
                }
                second.clear();
                (in_second, second_begun) = (0, at);
            }
        }
        let lasted = begun.elapsed();
        self.orders.set_phase(Phase::Drain);
        self.drain(&mut total)?;
        Ok(Outcome { total, lasted, series, gateway: None })
    }

    /// Searches for the highest rate at which no more than `most_lost` is lost, and goes on at it for the duration.
    pub fn find_rate(&mut self, most_lost: f64) -> Result<Outcome, Refusal> {
        let best = search::highest(most_lost, |asked| -> Result<Trial, Refusal> {
            if self.is_interrupted() {
                return Err("interrupted".into());
            }
            self.orders.set_rate(asked);
            let outcome = self.run(TRIAL)?;
            let sent = outcome.total.counts.sent.iter().sum();
            let sent = report::per_second(sent, outcome.lasted.as_secs_f64());
            let trial = Trial { asked, sent, loss: self.options.played().loss(&outcome.total.counts) };
            let verdict = if trial.holds(most_lost) { "holds" } else { "does not hold" };
            eprintln!("       {sent:.0} packets a second: {:.4} % lost, {verdict}\n", trial.loss * 100.0);
            Ok(trial)
        })?;
        let best = best.ok_or("more was lost at every rate that was tried")?;
        eprintln!("the highest rate that holds: {:.0} packets a second", best.sent);
        self.orders.set_rate(best.asked);
        self.run(self.options.duration)
    }

    /// What is to happen to targets, and when: the target, and whether it dies.
    fn moments(&self) -> Vec<(Duration, usize, bool)> {
        let all = |moments: &[Moment], dies| {
            moments.iter().map(|moment| (moment.at, moment.target, dies)).collect::<Vec<_>>()
        };
        [all(&self.options.die, true), all(&self.options.recover, false)].concat()
    }

    fn let_die(&mut self, target: usize, dies: bool) {
        self.orders.set_dead(target, dies);
        let address = self.options.targets.0[target];
        eprintln!("       target {} ({address}) {}", target + 1, if dies { "dies" } else { "lives again" });
        if let Err(error) = (self.on_death)(target, dies) {
            eprintln!("       the gateway could not be told: {error}");
        }
    }

    /// Waits until nothing arrives any more.
    fn drain(&mut self, total: &mut Interval) -> Result<(), Refusal> {
        let (begun, mut quiet) = (Instant::now(), 0);
        while quiet < QUIET && begun.elapsed() < PATIENCE {
            let moved = self.next(|interval| {
                total.add(interval);
                let counts = &interval.counts;
                let data = counts.arrived.iter().chain(&counts.sent).sum::<u64>();
                data + counts.attack_sent + counts.attack_at_appliance + counts.attack_arrived
            })?;
            quiet = if moved == 0 { quiet + 1 } else { 0 };
        }
        Ok(())
    }

    /// Closes all flows, so that the gateway is as it was; those that hang stay.
    pub fn close(&mut self) -> Result<(), Refusal> {
        self.orders.set_phase(Phase::Close);
        let (mut got_on, mut most) = (Instant::now(), 0);
        while got_on.elapsed() < Duration::from_secs(2) {
            let closed = self.next(|interval| interval.ends.closed)?;
            if closed == self.options.flows {
                break;
            }
            if closed > most {
                (most, got_on) = (closed, Instant::now());
            }
        }
        Ok(())
    }
}

fn rounded_up(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs() + 1).unwrap_or(u32::MAX / INTERVALS_A_SECOND)
}
