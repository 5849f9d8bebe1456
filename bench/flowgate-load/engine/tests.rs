//! Whole loads against a gateway of a few lines, which can be told what to do wrong.

use std::net::Ipv4Addr;

use flowgate::io::clock::Clock;
use flowgate::io::memory::{MemoryBuf, MemoryPort};
use flowgate::wire::ethernet::{MacAddr, ethertype};
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate};

use super::*;
use crate::appliance::Behaviour;
use crate::attack::shots::crowd;
use crate::attack::trace;
use crate::frames::Seen;
use crate::measure::{Counts, Played};
use crate::names::Naming;

const TARGETS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 3)];
const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);

struct MemorySource;

impl Source for MemorySource {
    type Buf = MemoryBuf;

    fn take(&mut self) -> Option<MemoryBuf> {
        Some(MemoryBuf::new(&[]))
    }
}

/// What a gateway does wrong, at every hundredth data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    LosesBefore,
    LosesBehind,
    Damages,
    Moves,
    Exchanges,
    AnotherFlow,
}

/// The gateway: a target by the slot's number, a cookie by slot and epoch.
struct Gateway {
    frames: Frames,
    fault: Fault,
    seen: u32,
    /// Data packets that came back.
    back: u32,
    held: Option<(bool, Vec<u8>)>,
}

impl Gateway {
    fn encapsulated(&mut self, frame: &[u8]) -> Option<MemoryBuf> {
        if trace(&frame[14..]).is_some() {
            return None;
        }
        let seen = self.frames.read(frame).expect("the ends send sound frames");
        self.seen += u32::from(seen.payload_len > 0);
        let wrong = self.seen.is_multiple_of(100) && seen.payload_len > 0;
        if wrong && self.fault == Fault::LosesBefore {
            return None;
        }
        let moves = usize::from(wrong && self.fault == Fault::Moves);
        let target = TARGETS[(seen.name.slot as usize + moves) % TARGETS.len()];
        let v6 = frame[12] == 0x86;
        let inner = &frame[14..14 + usize::from(seen.tcp) + 20 + usize::from(seen.payload_len)];
        let template = OuterTemplate::new(MacAddr([2; 6]), MacAddr([4; 6]), TUNNEL, target);
        let mut bytes = [0; OUTER_LEN];
        let fields = OuterFields {
            inner_len: inner.len().try_into().expect("short"),
            protocol: if v6 { ethertype::IPV6 } else { ethertype::IPV4 },
            source_port: 50_000,
            endpoint_id: 1,
            attachment_id: 2,
            cookie: seen.name.slot << 8 | seen.name.epoch & 0xff,
        };
        template.write(&mut bytes, &fields);
        Some(MemoryBuf::new(&[&bytes[..], inner].concat()))
    }

    /// The frame within, and whether it goes to the servers.
    fn decapsulated(&mut self, frame: &[u8]) -> Option<(bool, Vec<u8>)> {
        let mut inner = frame[OUTER_LEN..].to_vec();
        if trace(&inner).is_some() {
            return None;
        }
        let seen = self.frames.read_packet(&inner).expect("appliances change nothing");
        self.back += u32::from(seen.payload_len > 0);
        let wrong = self.back.is_multiple_of(100) && seen.payload_len > 0;
        match self.fault {
            Fault::LosesBehind if wrong => return None,
            Fault::Damages if wrong => *inner.last_mut().expect("not empty") ^= 1,
            Fault::AnotherFlow if wrong => inner = self.of_another_flow(&seen),
            _ => {}
        }
        let protocol = if inner[0] >> 4 == 6 { ethertype::IPV6 } else { ethertype::IPV4 };
        let link = [&[0; 12][..], &protocol.to_be_bytes()].concat();
        Some((seen.way == Way::Up, [link, inner].concat()))
    }

    fn of_another_flow(&self, seen: &Seen) -> Vec<u8> {
        let never = crate::names::Name { slot: seen.name.slot, epoch: seen.name.epoch + 1000 };
        let mut frame = vec![0; self.frames.data_len(0, never, seen.way).0];
        self.frames.write_data(&mut frame, 0, never, seen.way, crate::frames::Segment::default());
        frame.split_off(14)
    }

    fn forward(&mut self, engine: &mut Engine<MemoryPort, MemorySource>) {
        let Ports { clients: Some(clients), servers: Some(servers), targets: Some(targets) } =
            &mut engine.ports
        else {
            panic!("all sides are played")
        };
        for end in [&mut *clients, &mut *servers] {
            for packet in std::mem::take(&mut end.queue_mut().sent) {
                targets.queue_mut().arriving.extend(self.encapsulated(packet.bytes()));
            }
        }
        let mut back = Vec::new();
        for packet in std::mem::take(&mut targets.queue_mut().sent) {
            let Some(frame) = self.decapsulated(packet.bytes()) else { continue };
            if self.fault == Fault::Exchanges && self.back % 100 == 1 && self.held.is_none() {
                self.held = Some(frame);
                continue;
            }
            back.push(frame);
        }
        // What was held comes after whatever overtook it.
        if self.held.is_some() && self.back % 1000 >= 900 {
            back.extend(self.held.take());
        }
        for (up, frame) in back {
            let end = if up { &mut *servers } else { &mut *clients };
            end.queue_mut().arriving.push_back(MemoryBuf::new(&frame));
        }
    }
}

/// A load, played in a time of its own.
struct Play {
    engine: Engine<MemoryPort, MemorySource>,
    gateway: Gateway,
    orders: Arc<Orders>,
    empty: Producer<Box<Interval>>,
    full: Consumer<Box<Interval>>,
    total: Interval,
    cycles: u64,
    per_millisecond: u64,
}

impl Play {
    fn new(load: Load, behaviour: Behaviour, fault: Fault) -> Play {
        let naming = Naming::new(1, 0.3);
        let frames = || Frames::new(naming.clone(), &[64, 594, 1518]);
        let orders = Arc::new(Orders::new(100_000, TARGETS.len()));
        let (full_in, full) = rtrb::RingBuffer::new(4);
        let (mut empty, empty_out) = rtrb::RingBuffer::new(4);
        for _ in 0..3 {
            empty.push(Box::new(Interval::new(TARGETS.len()))).expect("room");
        }
        let clock = Clock::start();
        let nanoseconds = Nanoseconds::of(&clock);
        let per_millisecond = (0..).find(|&cycles| nanoseconds.of_cycles(cycles) >= 1_000_000);
        let per_millisecond = per_millisecond.expect("some number");
        let port = || Some(Port::new(MemoryPort::default()));
        let engine = Engine::new(EngineParts {
            appliances: Appliances::new(&TARGETS, behaviour, false, load.flows, 1),
            load,
            orders: Arc::clone(&orders),
            frames: frames(),
            source: MemorySource,
            nanoseconds,
            ports: Ports { clients: port(), servers: port(), targets: port() },
            reports: Reports { full: full_in, empty: empty_out },
            targets: TARGETS.len(),
            shots: Shots::new(1, crowd(64, false).expect("random numbers")),
            now: 0,
        });
        let gateway = Gateway { frames: frames(), fault, seen: 0, back: 0, held: None };
        let total = Interval::new(TARGETS.len());
        Play { engine, gateway, orders, empty, full, total, cycles: 0, per_millisecond }
    }

    /// So many milliseconds of a phase, ten rounds each.
    fn phase(&mut self, phase: Phase, milliseconds: u32) {
        self.orders.set_phase(phase);
        for _ in 0..milliseconds * 10 {
            self.cycles += self.per_millisecond / 10;
            self.engine.round(self.cycles);
            self.gateway.forward(&mut self.engine);
            if let Ok(interval) = self.full.pop() {
                self.total.add(&interval);
                self.empty.push(interval).expect("room");
            }
        }
    }

    /// From the first SYN to the last packet.
    fn whole(mut self) -> Play {
        self.phase(Phase::Open, 300);
        assert_eq!(self.total.ends.established, self.engine.load.flows, "all flows open");
        self.phase(Phase::Run, 400);
        self.phase(Phase::Drain, 300);
        self
    }
}

fn load() -> Load {
    Load {
        flows: 300,
        new_flows: 0,
        syn_flood: 0,
        attack_rate: None,
        ways: Way::BOTH.to_vec(),
        sizes: vec![0, 1, 0, 2],
    }
}

fn lost(counts: &Counts) -> u64 {
    Played::ALL.lost(counts)
}

fn counts_of(fault: Fault) -> Counts {
    Play::new(load(), Behaviour::default(), fault).whole().total.counts
}

#[test]
fn a_sound_gateway_loses_nothing_and_does_nothing_wrong() {
    let play = Play::new(load(), Behaviour::default(), Fault::None).whole();
    let Interval { counts, latencies, .. } = &play.total;
    // A tenth of a millisecond is ten packets of 100,000 a second.
    assert!((39_000..=40_000).contains(&counts.sent.iter().sum::<u64>()), "{counts:?}");
    assert_eq!((lost(counts), counts.violations(), counts.cookie_changed), (0, 0, 0), "{counts:?}");
    assert_eq!(counts.sent, counts.arrived);
    assert_eq!(counts.sent_bytes, counts.arrived_bytes);
    assert_eq!(latencies.whole[0].count(), counts.arrived[0]);
    assert_eq!(latencies.from_appliance[1].count(), counts.arrived[1]);
    // There and back within a round or two of 0.1 ms.
    assert!(latencies.whole[0].max() < 500_000, "{}", latencies.whole[0].max());
}

#[test]
fn what_a_gateway_loses_is_told_apart_by_where() {
    let before = counts_of(Fault::LosesBefore);
    assert!(lost(&before) > 300 && before.violations() == 0, "{before:?}");
    assert_eq!(Way::BOTH.map(|way| Played::ALL.lost_from_appliance(&before, way)), [Some(0); 2]);
    let behind = counts_of(Fault::LosesBehind);
    assert!(lost(&behind) > 300 && behind.violations() == 0, "{behind:?}");
    assert_eq!(Way::BOTH.map(|way| Played::ALL.lost_to_appliance(&behind, way)), [Some(0); 2]);
}

#[test]
fn whatever_a_gateway_does_wrong_is_a_violation_of_its_own_kind() {
    assert!(counts_of(Fault::Damages).damaged > 100);
    assert!(counts_of(Fault::Moves).moved > 100);
    assert!(counts_of(Fault::Exchanges).out_of_order.iter().sum::<u64>() > 5);
    assert!(counts_of(Fault::AnotherFlow).strangers > 100);
}

#[test]
fn flows_end_and_new_ones_take_their_place_and_in_the_end_all_are_closed() {
    let mut play = Play::new(Load { new_flows: 2000, ..load() }, Behaviour::default(), Fault::None).whole();
    let counts = &play.total.counts;
    assert!((780..=800).contains(&counts.closed), "{counts:?}");
    assert_eq!(counts.opened, counts.closed + 300, "{counts:?}");
    assert_eq!((lost(counts), counts.violations(), counts.retried), (0, 0, 0), "{counts:?}");
    play.phase(Phase::Close, 300);
    assert_eq!((play.total.ends.closed, play.total.ends.established), (300, 0));
}

#[test]
fn a_flood_goes_by_and_is_counted_apart() {
    let play = Play::new(Load { syn_flood: 50_000, ..load() }, Behaviour::default(), Fault::None).whole();
    let counts = &play.total.counts;
    assert!((19_500..=20_000).contains(&counts.flood_sent), "{counts:?}");
    assert_eq!((counts.flood_at_appliance, counts.flood_arrived), (counts.flood_sent, counts.flood_sent));
    assert_eq!((lost(counts), counts.violations()), (0, 0), "{counts:?}");
}

#[test]
fn an_attack_goes_by_in_its_rounds_and_costs_the_load_nothing() {
    let mut play = Play::new(Load { attack_rate: Some(50_000), ..load() }, Behaviour::default(), Fault::None);
    play.phase(Phase::Open, 300);
    play.phase(Phase::Run, 200);
    assert_eq!(play.total.counts.attack_sent, 0);
    for kind in [Kind::SynFlood, Kind::ForgedEnds, Kind::Cookies, Kind::SlowSocket] {
        play.orders.set_attack(Some(kind));
        play.phase(Phase::Run, 100);
    }
    play.orders.set_attack(None);
    play.phase(Phase::Drain, 300);
    let counts = &play.total.counts;
    // Half of what the clients send each 0.1 ms; what is made up on the target side came by no gateway.
    assert!((14_500..=15_000).contains(&counts.attack_sent), "{counts:?}");
    assert_eq!((lost(counts), counts.violations(), counts.left_out), (0, 0, [0, 0]), "{counts:?}");
    assert_eq!((counts.attack_refused, counts.attack_arrived), (0, 0), "{counts:?}");
    assert!(counts.sent.iter().sum::<u64>() > 59_000, "{counts:?}");
}

#[test]
fn an_appliance_loses_and_delays_as_it_is_told() {
    let loses = Behaviour { loses: 1 << 28, delay_ns: 0 };
    // A flow's SYN may be lost as well: it opens a second later.
    let mut play = Play::new(load(), loses, Fault::None);
    play.phase(Phase::Open, 3500);
    play.phase(Phase::Run, 300);
    play.phase(Phase::Drain, 300);
    let counts = &play.total.counts;
    let share = counts.swallowed.iter().sum::<u64>() as f64 / counts.sent.iter().sum::<u64>() as f64;
    assert!((0.055..0.07).contains(&share), "a sixteenth: {share}");
    assert!(counts.retried > 10);
    assert_eq!((lost(counts), counts.violations()), (0, 0), "{counts:?}");

    let delays = Behaviour { loses: 0, delay_ns: 3_000_000 };
    let play = Play::new(load(), delays, Fault::None).whole();
    assert_eq!(lost(&play.total.counts), 0);
    assert!(play.total.latencies.whole[0].quantile(0.01) >= 2_970_000);
    assert!(play.total.latencies.to_appliance[0].max() < 500_000);
}

#[test]
fn a_dead_target_swallows_its_share_and_flows_of_a_reset_open_anew() {
    let mut play = Play::new(load(), Behaviour::default(), Fault::None);
    play.phase(Phase::Open, 300);
    play.phase(Phase::Run, 200);
    play.orders.set_dead(1, true);
    play.phase(Phase::Run, 200);
    let swallowed: u64 = play.total.counts.swallowed.iter().sum();
    assert!(swallowed > 3_000, "a third of 10,000 or more: {swallowed}");
    play.orders.set_dead(1, false);
    // A reset as the gateway sends it, to the client of flow 1.
    let before = play.engine.clients.flows.name(1);
    let frames = &play.gateway.frames;
    let mut frame = vec![0; frames.control_len(before, Way::Down)];
    let flags = flowgate::wire::tcp::TcpFlags::RST;
    let segment = crate::frames::Segment { flags, ..Default::default() };
    frames.write_control(&mut frame, before, Way::Down, segment);
    let clients = play.engine.ports.clients.as_mut().expect("played");
    clients.queue_mut().arriving.push_back(MemoryBuf::new(&frame));
    play.phase(Phase::Run, 200);
    assert_eq!(play.total.counts.resets, [0, 1]);
    assert_eq!(play.engine.clients.flows.name(1), before.next());
    assert_eq!(play.engine.clients.flows.count(State::Established), 300);
}
