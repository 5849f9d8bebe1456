//! The fast path held against the general way: whatever is put to two gateways, one of which sends every
//! packet the general way, both send the same frames in the same order, count the same (C-1), remember the
//! same flows and tell the same.

mod answers;
mod arrivals;
mod look;
mod settings;

use std::cell::Cell;

use flowgate::datapath::counters::DropReason;
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::messages::ToWorker;
use flowgate::id::TargetId;
use flowgate::io::PacketBuf;
use flowgate::io::isa::Isa;
use flowgate::io::memory::MemoryBuf;
use proptest::prelude::*;
use proptest::sample::select;

use self::answers::Answer;
use self::arrivals::{Arrival, Talk};
use self::look::{compare, counts, flows};
use self::settings::{Setting, TARGETS};
use crate::harness::*;

/// Frames that were sent to appliances and may still be answered.
const REMEMBERED: usize = 96;

/// What is put to both.
#[derive(Clone, Debug)]
enum Step {
    /// A burst at one end of a wire, which waits for the next step, or for which ports have no more room than
    /// this.
    Arrivals {
        place: Place,
        wire: u16,
        right: bool,
        burst: Vec<Arrival>,
    },
    Answers {
        place: Place,
        burst: Vec<Answer>,
    },
    /// Of a target, or of all.
    Condition(Option<u16>, Condition),
    Setting(Box<Setting>),
    Pass(u32),
}

/// Where and how a burst comes in.
#[derive(Clone, Copy, Debug)]
struct Place {
    worker: usize,
    /// It waits for what the next step brings.
    waits: bool,
    /// Every port takes so many frames only.
    room: Option<usize>,
    /// So many bytes of each frame are in its first piece, and the rest in another.
    pieces: Option<usize>,
}

impl Place {
    fn buffer(&self, frame: &[u8]) -> MemoryBuf {
        match self.pieces {
            Some(first) if first < frame.len() => MemoryBuf::in_pieces(frame, first),
            _ => MemoryBuf::new(frame),
        }
    }
}

/// A history.
#[derive(Clone, Debug)]
struct Case {
    /// The fast path's stages are those for any CPU, and not those for this one.
    portable: bool,
    workers: u8,
    capacity: u32,
    /// The control core wants to hear of flows that begin.
    tells_begun: bool,
    /// The workers' clock at its begin.
    now: u32,
    setting: Option<Box<Setting>>,
    /// Flow logs are on, from the start and to the end.
    logged: bool,
    steps: Vec<Step>,
}

/// Packets for targets and from targets, and how many of them took the fast path.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    forwarded: [u64; 2],
    delivered: [u64; 2],
}

struct Both {
    fast: Bench,
    general: Bench,
    setting: Setting,
    sent: Vec<Vec<u8>>,
    tally: Tally,
    reported: u64,
}

impl Both {
    fn new(case: &Case) -> Both {
        let [mut fast, mut general] = [(); 2].map(|()| Bench::wired(2, TARGETS, case.workers, case.capacity));
        general.workers.iter_mut().for_each(|worker| worker.without_fast_path());
        if case.portable {
            fast.workers.iter_mut().for_each(|worker| worker.with_instructions(Isa::PORTABLE));
        }
        (fast.now, general.now) = (case.now, case.now);
        let setting = case.setting.as_deref().cloned().unwrap_or_else(Setting::first);
        let mut both =
            Both { fast, general, setting, sent: Vec::new(), tally: Tally::default(), reported: 0 };
        both.publish();
        both.each(|bench| bench.tell(|| ToWorker::TellBegun(case.tells_begun)));
        if case.logged {
            both.each(|bench| bench.start_flow_log(4096, 1, Some(250)));
        }
        both
    }

    fn each(&mut self, act: impl Fn(&mut Bench)) {
        act(&mut self.fast);
        act(&mut self.general);
    }

    fn publish(&mut self) {
        let setting = self.setting.clone();
        self.each(|bench| setting.publish(bench));
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Arrivals { place, wire: number, right, burst } => {
                let port = wire(*number)[usize::from(*right)];
                let room = usize::from(self.setting.mtu.saturating_sub(68));
                let frames: Vec<_> = burst.iter().map(|arrival| arrival.frame(!right, room)).collect();
                self.put(place, port, &frames);
            }
            Step::Answers { place, burst } => {
                let frames: Vec<_> = burst.iter().filter_map(|answer| answer.frame(&self.sent)).collect();
                self.put(place, UNDER, &frames);
            }
            Step::Condition(target, condition) => {
                for target in target.map_or(0..TARGETS, |one| one..one + 1) {
                    self.set_condition(target, *condition);
                }
            }
            Step::Setting(setting) => {
                self.setting = (**setting).clone();
                self.publish();
            }
            Step::Pass(ms) => self.each(|bench| {
                bench.now = bench.now.wrapping_add(*ms);
                bench.rounds();
            }),
        }
        self.compare()
    }

    fn set_condition(&mut self, target: u16, condition: Condition) {
        let generation = self.setting.slots[usize::from(target)].generation;
        self.each(|bench| {
            bench.conditions[usize::from(target)] = condition;
            let target = TargetId(target);
            bench.tell(|| ToWorker::Condition { target, generation, condition, sequence: 1 });
        });
    }

    fn put(&mut self, place: &Place, port: usize, frames: &[Vec<u8>]) {
        self.each(|bench| {
            let worker = place.worker % bench.workers.len();
            let arriving = &mut bench.workers[worker].ports_mut()[port].arriving;
            arriving.extend(frames.iter().map(|frame| place.buffer(frame)));
            if place.waits {
                return;
            }
            let limit = |bench: &mut Bench, room| {
                let ports = bench.workers.iter_mut().flat_map(|worker| worker.ports_mut());
                ports.for_each(|port| port.room = room);
            };
            limit(bench, place.room);
            bench.rounds();
            limit(bench, None);
        });
    }

    fn compare(&mut self) -> Result<(), TestCaseError> {
        let [fast, general] = [&mut self.fast, &mut self.general].map(left);
        self.tally.count(&fast);
        let taken = general.iter().filter(|(_, _, frame)| frame.front_replaced).count();
        prop_assert_eq!(taken, 0, "the general way took the fast path");
        let [fast, general] = [fast, general].map(|out| {
            let bytes = |(worker, port, frame): (_, _, MemoryBuf)| (worker, port, frame.bytes().to_vec());
            out.into_iter().map(bytes).collect::<Vec<_>>()
        });
        compare("frames", &fast, &general)?;
        compare("counters", &counts(&self.fast), &counts(&self.general))?;
        compare("flows", &flows(&self.fast), &flows(&self.general))?;
        let reported = [&mut self.fast, &mut self.general].map(Bench::reports);
        self.reported += reported[0].len() as u64;
        let [fast_reports, reports] =
            reported.map(|reports| reports.iter().map(|report| format!("{report:?}")).collect::<Vec<_>>());
        compare("reports of flows", &fast_reports, &reports)?;
        let [fast_told, told] =
            [&mut self.fast, &mut self.general].map(|bench| format!("{:?}", std::mem::take(&mut bench.told)));
        prop_assert_eq!(fast_told, told, "what was told");
        self.sent.extend(
            fast.into_iter().filter(|(_, port, frame)| *port == UNDER && frame.len() > 90).map(|out| out.2),
        );
        self.sent.drain(..self.sent.len().saturating_sub(REMEMBERED));
        Ok(())
    }

    /// What waited for its first fragment is given up, and every packet has had one end.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.step(&Step::Pass(0))?;
        self.step(&Step::Pass(1001))?;
        self.each(Bench::stop_flow_log);
        self.compare()?;
        self.each(|bench| bench.assert_settled());
        Ok(())
    }
}

/// All that came out, by worker and port, in order.
fn left(bench: &mut Bench) -> Vec<(usize, usize, MemoryBuf)> {
    let mut out = Vec::new();
    for (number, worker) in bench.workers.iter_mut().enumerate() {
        for (port, queue) in worker.ports_mut().iter_mut().enumerate() {
            out.extend(queue.sent.drain(..).map(|frame| (number, port, frame)));
        }
    }
    out
}

impl Tally {
    fn count(&mut self, out: &[(usize, usize, MemoryBuf)]) {
        for (_, port, frame) in out {
            let [all, fast] = if *port == UNDER { &mut self.forwarded } else { &mut self.delivered };
            *all += 1;
            *fast += u64::from(frame.front_replaced);
        }
    }

    fn and(self, other: Tally) -> Tally {
        let sum = |a: [u64; 2], b: [u64; 2]| [a[0] + b[0], a[1] + b[1]];
        Tally {
            forwarded: sum(self.forwarded, other.forwarded),
            delivered: sum(self.delivered, other.delivered),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let place = || {
        let room = prop_oneof![15 => Just(None), 1 => (0usize..40).prop_map(Some)];
        let pieces = prop::option::weighted(0.06, 14usize..140);
        (0usize..4, prop::bool::weighted(0.25), room, pieces)
            .prop_map(|(worker, waits, room, pieces)| Place { worker, waits, room, pieces })
    };
    let wire = || prop_oneof![6 => Just(0u16), 1 => Just(1u16)];
    let condition = select(vec![
        Condition::Initial,
        Condition::Healthy,
        Condition::Healthy,
        Condition::Unhealthy,
        Condition::Draining,
        Condition::Removed,
    ]);
    // A packet that waits for this is the first to find its flow's time over, at the very millisecond or before.
    let timers = Setting::first().timers;
    let ends = [timers.tcp_idle_ms, timers.other_idle_ms, timers.closed_ms, timers.half_open_ms];
    let exact = (select(ends.to_vec()), 0u32..2).prop_map(|(ms, less)| ms - less);
    prop_oneof![
        12 => (place(), wire(), any::<bool>(), arrivals::burst())
            .prop_map(|(place, wire, right, burst)| Step::Arrivals { place, wire, right, burst }),
        6 => (place(), answers::burst()).prop_map(|(place, burst)| Step::Answers { place, burst }),
        2 => (prop::option::weighted(0.7, 0..TARGETS), condition).prop_map(|(target, condition)| Step::Condition(target, condition)),
        1 => settings::setting().prop_map(|setting| Step::Setting(Box::new(setting))),
        3 => prop_oneof![2 => 0u32..20, 2 => 0u32..500, 2 => exact, 1 => Just(1001u32)].prop_map(Step::Pass),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let setting = prop::option::weighted(0.3, settings::setting().prop_map(Box::new));
    let workers = prop_oneof![2 => Just(1u8), 1 => Just(2u8), 1 => Just(4u8)];
    let now = prop_oneof![1 => Just(2_000_000u32), 1 => Just(u32::MAX - 300)];
    let capacity = select(vec![8u32, 16, 64, 64]);
    (any::<[bool; 3]>(), workers, capacity, now, setting, prop::collection::vec(step(), 1..64)).prop_map(
        |([portable, tells_begun, logged], workers, capacity, now, setting, steps)| Case {
            portable,
            workers,
            capacity,
            tells_begun,
            now,
            setting,
            logged,
            steps,
        },
    )
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { forwarded: [0; 2], delivered: [0; 2] }) };
    static REPORTED: Cell<u64> = const { Cell::new(0) };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    // A name of its own, as the test below looks at what all cases had in common.
    fn both_ways_are_one(case in case()) {
        let mut both = Both::new(&case);
        for step in &case.steps {
            both.step(step)?;
        }
        both.settle()?;
        TALLY.set(TALLY.get().and(both.tally));
        REPORTED.set(REPORTED.get() + both.reported);
    }
}

// C-1, F-1, F-9, F-11, F-12, W-1, W-3 to W-7, O-4, M-1, T-1 to T-7
#[test]
fn whatever_comes_the_fast_path_does_what_the_general_way_does() {
    both_ways_are_one();
    assert!(REPORTED.get() > 192, "{} reports of flows", REPORTED.get());
    let Tally { forwarded: [out, fast_out], delivered: [back, fast_back] } = TALLY.get();
    // About a quarter and a third: nearly all that is plain, but most of what is put in is not.
    assert!(fast_out * 8 > out, "{fast_out} of {out} packets to targets took the fast path");
    assert!(fast_back * 8 > back, "{fast_back} of {back} packets from targets took the fast path");
}

/// How many frames of this burst, with what else it brings, took the fast path.
fn taken(both: &mut Both, right: bool, burst: Vec<Arrival>) -> usize {
    let before = both.tally.forwarded[1];
    let place = Place { worker: 0, waits: false, room: None, pieces: None };
    both.step(&Step::Arrivals { place, wire: 0, right, burst }).unwrap();
    (both.tally.forwarded[1] - before) as usize
}

// C-1, F-2: whose flow it would be makes no difference, as it is of none.
#[test]
fn what_comes_from_a_group_is_dropped_by_the_worker_that_received_it_both_ways() {
    let (setting, logged, steps) = (None, false, Vec::new());
    let case = Case {
        portable: false,
        workers: 4,
        capacity: 64,
        tells_begun: false,
        now: 5,
        setting,
        logged,
        steps,
    };
    let mut both = Both::new(&case);
    for port in 1001..1033 {
        let mut packet = Arrival::plain(Talk { six: false, protocol: 6, client: 1, port }, ACK);
        // The first of its source address.
        packet.oddity = arrivals::Oddity::Byte(26, 225);
        assert_eq!(taken(&mut both, false, vec![packet]), 0);
    }
    let dropped: Vec<u64> =
        both.fast.counters.iter().map(|all| all.drops[DropReason::Martian.index()].get()).collect();
    assert_eq!(dropped, [32, 0, 0, 0]);
}

// F-9, W-4
#[test]
fn every_plain_packet_of_a_flow_that_goes_on_takes_the_fast_path_both_ways() {
    for (workers, portable) in [(1, false), (1, true), (2, false), (2, true)] {
        for (six, protocol) in [(false, 6u8), (false, 17), (true, 6), (true, 17)] {
            let (setting, logged, steps) = (None, true, Vec::new());
            let case =
                Case { portable, workers, capacity: 64, tells_begun: false, now: 5, setting, logged, steps };
            let mut both = Both::new(&case);
            let talk = Talk { six, protocol, client: 0, port: 1001 };
            let packet = |flags| Arrival::plain(talk, flags);
            assert_eq!(taken(&mut both, false, vec![packet(SYN)]), 1, "the first");
            // The server's first has a link header that its flow does not know yet, the client's next establishes.
            assert_eq!(taken(&mut both, true, vec![packet(SYN | ACK)]), 0);
            assert_eq!(taken(&mut both, false, vec![packet(ACK)]), usize::from(protocol == 17));
            for right in [false, true] {
                assert_eq!(taken(&mut both, right, vec![packet(ACK); 32]), 32);
                both.step(&Step::Pass(299)).unwrap();
            }
            // One that needs more is no hindrance to those after it.
            let mut burst = vec![packet(ACK); 32];
            burst[7].oddity = arrivals::Oddity::Options(1);
            assert_eq!(taken(&mut both, false, burst), 31);

            let before = both.tally.delivered;
            let place = Place { worker: 1, waits: false, room: None, pieces: None };
            both.step(&Step::Answers { place, burst: vec![Answer::LAST; 32] }).unwrap();
            let after = both.tally.delivered;
            assert_eq!((after[0] - before[0], after[1] - before[1]), (32, 32));
            both.settle().unwrap();
            let looked_up =
                |bench: &Bench| -> u64 { bench.counters.iter().map(|all| all.lookups_by_hash.get()).sum() };
            assert_eq!(looked_up(&both.fast), looked_up(&both.general));
        }
    }
}
