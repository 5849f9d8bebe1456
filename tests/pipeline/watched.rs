//! A capture of everything, held against the counters (C-1): what it says of the packets is what was counted of them.
//!
//! With `FLOWGATE_WATCHED` in the environment every bench of these tests has one, so that all that they put through
//! the pipeline is held against it, and nothing may come out otherwise for being watched.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use flowgate::datapath::capture::filter::Filter;
use flowgate::datapath::capture::record::{Point, Record, Verdict};
use flowgate::datapath::capture::{Bounds, Capture, Captured, CapturedPacket};
use flowgate::datapath::counters::{DropReason, Outcome, ResetTrigger};
use flowgate::datapath::messages::ToWorker;
use flowgate::id::GatewayId;
use flowgate::io::clock::Clock;

use crate::harness::*;

/// How many records there are of a point and a verdict.
pub type Tally = BTreeMap<(&'static str, String), u64>;

/// What a capture of everything has come to.
#[derive(Default)]
pub struct Watched {
    workers: Vec<Captured>,
    pub tally: Tally,
    pub packets: Vec<CapturedPacket>,
    /// Keep the packets, not their number alone.
    keep: bool,
}

fn clock() -> Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::start).clone()
}

/// Whether every bench is watched.
pub fn is_on() -> bool {
    std::env::var_os("FLOWGATE_WATCHED").is_some()
}

fn key(record: &Record) -> (&'static str, String) {
    (record.point.name(), format!("{:?}", record.verdict))
}

impl Watched {
    /// Packets that found no room.
    pub fn ring_full(&self) -> u64 {
        self.workers
            .iter()
            .flat_map(|worker| worker.counts().iter())
            .map(|counts| counts.ring_full.get())
            .sum()
    }

    fn drain(&mut self) {
        for worker in &mut self.workers {
            while let Some(packet) = worker.take_next() {
                *self.tally.entry(key(&packet.record)).or_default() += 1;
                if self.keep {
                    self.packets.push(packet);
                }
            }
        }
    }
}

impl Bench {
    /// Has every worker capture what `filter` asks for, from here on; the packets are kept.
    pub fn capture(&mut self, filter: Filter) {
        self.watched_from_the_start = false;
        self.capture_bounded(filter, Bounds { snap_len: 16_384, rate: 100_000_000, ring: 1 << 20 }, true);
    }

    pub fn capture_bounded(&mut self, filter: Filter, bounds: Bounds, keep: bool) {
        let ports = self.network.ports.len();
        let mut ends = Vec::new();
        for _ in &self.workers {
            ends.push(Capture::new(filter, bounds, ports, clock()));
        }
        let (captures, workers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let mut captures = captures.into_iter();
        self.push_each(|| captures.next().map(ToWorker::Capture).unwrap());
        self.watched = Some(Watched { workers, keep, ..Watched::default() });
        self.rounds();
    }

    /// Has every worker capture everything from its beginning, which is held against the counters in the end.
    pub fn watch_all(&mut self) {
        let bounds = Bounds { snap_len: 256, rate: 100_000_000, ring: 1 << 18 };
        self.capture_bounded(Filter::default(), bounds, false);
        self.watched_from_the_start = true;
    }

    /// Takes what was captured meanwhile.
    pub fn drain_captured(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.drain();
        }
    }

    /// Holds a capture of all that this bench ever did against the counters.
    pub fn assert_watched(&mut self) {
        self.drain_captured();
        let Some(watched) = &self.watched else { return };
        if watched.ring_full() > 0 {
            // A flood that nobody read in between.
            return;
        }
        let sum = |wanted: &dyn Fn(&str, &str) -> bool| -> u64 {
            let of = watched.tally.iter().filter(|((point, verdict), _)| wanted(point, verdict));
            of.map(|(_, count)| *count).sum()
        };
        let at = |point: Point, verdict: Verdict| {
            let wanted = format!("{verdict:?}");
            sum(&|here, what| here == point.name() && what == wanted)
        };
        let tally = &watched.tally;
        let received: u64 = self.counters.iter().map(|all| all.received.get()).sum();
        assert_eq!(sum(&|point, _| point == "arrived" || point == "returned"), received, "{tally:?}");
        let forwarded = at(Point::Encapsulated, Verdict::Forwarded);
        assert_eq!(forwarded, self.outcome(Outcome::Forwarded), "{tally:?}");
        assert_eq!(at(Point::Delivered, Verdict::Delivered), self.outcome(Outcome::Delivered), "{tally:?}");
        assert_eq!(at(Point::Other, Verdict::Crossed), self.outcome(Outcome::Crossed), "{tally:?}");
        assert_eq!(at(Point::Other, Verdict::FromHost), self.outcome(Outcome::FromHost), "{tally:?}");
        assert_eq!(sum(&|_, what| what == "Host"), self.outcome(Outcome::Host), "{tally:?}");
        let pieces: u64 = self.counters.iter().map(|all| all.fragments_sent.get()).sum();
        assert_eq!(sum(&|_, what| what == "Piece"), pieces, "{tally:?}");
        for reason in DropReason::ALL {
            let counted: u64 = self.counters.iter().map(|all| all.drops[reason.index()].get()).sum();
            assert_eq!(at(Point::Dropped, Verdict::Dropped(*reason)), counted, "{reason:?}: {tally:?}");
        }
        //
        for trigger in ResetTrigger::ALL {
            let of = |all: &flowgate::datapath::counters::WorkerCounters| {
                all.gateway(GatewayId(0)).resets[trigger.index()].get()
            };
            let counted: u64 = self.counters.iter().map(|all| of(all)).sum();
            assert_eq!(at(Point::Reset, Verdict::Reset(*trigger)), counted, "{trigger:?}: {tally:?}");
        }
        let errors = sum(&|point, what| point == "other" && what.starts_with("Answered"));
        let resets = sum(&|point, what| point == "reset" && what != "Reset(Proactive)");
        assert_eq!(errors + resets, self.outcome(Outcome::Answered), "{tally:?}");
    }
}

/// A bench that was watched from the start is held against its counters at its end.
impl Drop for Bench {
    fn drop(&mut self) {
        if self.watched_from_the_start && !std::thread::panicking() {
            self.assert_watched();
        }
    }
}
