//! A worker over such ports, the ways that are measured, and what is put through it for each.

use std::sync::Arc;

use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::worker::{Worker, WorkerParts};
use flowgate::flow::{HashSeed, Pages, Table, TableConfig};
use flowgate::id::WorkerId;
use flowgate::io::clock::Clock;
use flowgate::io::{BURST, Burst, PacketBuf};
use flowgate::wire::geneve::outer::OUTER_LEN;

use crate::frames::{ACK, Protocol, SYN};
use crate::one_wire::{CLIENTS, SERVERS, TARGETS, answer_templates, forwarding, target_address};
use crate::port::{Buf, Port};

/// Flows that are established.
const FLOWS: u64 = 1024;

/// Rounds that are measured: at 64 packets each, four times through the flows.
const ROUNDS: usize = 64;

/// What counting may take of a way, as a part of its instructions.
pub const COUNTING: f64 = 0.03;

/// And of the first packets of flows: their target's flows are counted as well, in three counters.
pub const COUNTING_FIRST: f64 = 0.04;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From clients to appliances, of flows that go on.
    Out,
    /// The same the other way.
    Back,
    /// The first packets of flows, into a table with room.
    First,
}

/// One way of packets through a worker.
pub struct Way {
    pub name: &'static str,
    /// For people.
    pub words: &'static str,
    pub kind: Kind,
    pub protocol: Protocol,
    pub targets: u16,
    /// Packets in each round.
    pub burst: usize,
    /// Packets take the fast path.
    pub fast: bool,
}

impl Way {
    /// Whether the bars are for it: what is counted once a round has no part of a packet's time where rounds are mostly
    /// empty.
    pub fn is_judged(&self) -> bool {
        self.burst == BURST
    }

    /// What counting may take of it, as a part of its instructions.
    pub fn counting(&self) -> f64 {
        if self.kind == Kind::First { COUNTING_FIRST } else { COUNTING }
    }
}

const TCP4: Protocol = Protocol { version: 4, tcp: true };
const TCP6: Protocol = Protocol { version: 6, tcp: true };
const UDP4: Protocol = Protocol { version: 4, tcp: false };
const UDP6: Protocol = Protocol { version: 6, tcp: false };

const fn way(name: &'static str, words: &'static str, kind: Kind, protocol: Protocol) -> Way {
    Way { name, words, kind, protocol, targets: 10, burst: BURST, fast: true }
}

/// All of them. The first two are those of `--short`.
pub const WAYS: &[Way] = &[
    way("out", "to the appliance", Kind::Out, TCP4),
    way("back", "back", Kind::Back, TCP4),
    Way { targets: 1000, ..way("out-1000", "to one of 1,000 appliances", Kind::Out, TCP4) },
    Way { targets: 1000, ..way("back-1000", "back from one of 1,000", Kind::Back, TCP4) },
    way("out-udp", "to the appliance, UDP", Kind::Out, UDP4),
    way("back-udp", "back, UDP", Kind::Back, UDP4),
    way("out-v6", "to the appliance, IPv6", Kind::Out, TCP6),
    way("back-v6", "back, IPv6", Kind::Back, TCP6),
    way("out-v6-udp", "to the appliance, UDP over IPv6", Kind::Out, UDP6),
    way("back-v6-udp", "back, UDP over IPv6", Kind::Back, UDP6),
    way("first", "first packet of a flow", Kind::First, TCP4),
    way("first-udp", "first packet of a flow, UDP", Kind::First, UDP4),
    Way { burst: 1, ..way("out-alone", "to the appliance, one a round", Kind::Out, TCP4) },
    Way { burst: 1, ..way("back-alone", "back, one a round", Kind::Back, TCP4) },
    Way { fast: false, ..way("out-general", "to the appliance, the general way", Kind::Out, TCP4) },
    Way { fast: false, ..way("back-general", "back, the general way", Kind::Back, TCP4) },
];

pub struct Gateway {
    worker: Worker<Port>,
    clock: Clock,
    /// What the targets' cookies and numbers are, by flow.
    known: Vec<(u32, usize)>,
    _control: rtrb::Producer<ToWorker>,
    _events: rtrb::Consumer<FromWorker>,
}

impl Gateway {
    /// With the flows of a way established.
    pub fn new(way: &Way) -> Gateway {
        let seed = HashSeed::from_secret(b"bench");
        let config = TableConfig {
            capacity: 1 << 14,
            worker: WorkerId(0),
            workers: 1,
            pages: Pages::Small,
            seed: seed.clone(),
        };
        let (mut control, inbox) = rtrb::RingBuffer::new(8);
        let (told, events) = rtrb::RingBuffer::new(4096);
        let by = Arc::new(forwarding(&seed, 1, way.targets));
        control.push(ToWorker::Forwarding(by)).expect("room");
        let mut worker = Worker::new(WorkerParts::alone(
            (0..3).map(|_| Port::default()).collect(),
            Table::new(config).expect("a table"),
            seed,
            (inbox, told),
        ));
        if !way.fast {
            worker.without_fast_path();
        }
        let clock = Clock::start();
        let mut gateway = Gateway { worker, clock, known: Vec::new(), _control: control, _events: events };
        if way.kind != Kind::First {
            gateway.establish(way);
        }
        gateway
    }

    fn establish(&mut self, way: &Way) {
        let flows: Vec<u64> = (0..FLOWS).collect();
        for flags in [SYN, ACK] {
            self.known.clear();
            for burst in flows.chunks(BURST) {
                self.put(CLIENTS, burst.iter().map(|flow| Buf::new(&way.protocol.frame(*flow, flags))));
                rounds(&mut self.worker, &self.clock, 1);
                let sent = std::mem::take(&mut self.worker.ports_mut()[TARGETS].sent);
                self.known.extend(sent.iter().flatten().map(noted));
            }
        }
        assert_eq!(self.known.len() as u64, FLOWS, "each was sent to its target");
    }

    fn put(&mut self, port: usize, packets: impl Iterator<Item = Buf>) {
        let burst: Burst<Buf> = packets.collect();
        self.worker.ports_mut()[port].arriving.push(burst);
    }

    /// Puts packets through, twice: what is measured is the second time. Returns how many they were then.
    pub fn play(mut self, way: &Way) -> usize {
        let out_of = if way.kind == Kind::Back { SERVERS } else { TARGETS };
        let answers = answer_templates(way.targets);
        let mut next = 0..;
        for measured in [false, true] {
            for _ in 0..ROUNDS {
                let flows = next.by_ref().take(way.burst);
                let packets: Vec<Buf> = flows
                    .map(|flow: u64| {
                        // In an order that has nothing to do with places in the table.
                        let known = (flow * 389 % FLOWS) as usize;
                        Buf::new(&match way.kind {
                            Kind::Out => way.protocol.frame(known as u64, ACK),
                            Kind::First => way.protocol.frame(flow, SYN),
                            Kind::Back => {
                                let (cookie, target) = self.known[known];
                                way.protocol.answer(known as u64, cookie, &answers[target])
                            }
                        })
                    })
                    .collect();
                let into = if way.kind == Kind::Back { TARGETS } else { CLIENTS };
                self.put(into, packets.into_iter());
            }
            let sent_before = self.sent(out_of);
            if measured {
                measured_rounds(&mut self.worker, &self.clock);
            } else {
                rounds(&mut self.worker, &self.clock, ROUNDS);
            }
            assert_eq!(self.sent(out_of) - sent_before, ROUNDS * way.burst, "packets were lost");
        }
        ROUNDS * way.burst
    }

    fn sent(&mut self, port: usize) -> usize {
        self.worker.ports_mut()[port].sent.iter().map(|burst| burst.len()).sum()
    }
}

/// What callgrind collects; by this name.
#[inline(never)]
fn measured_rounds(worker: &mut Worker<Port>, clock: &Clock) {
    rounds(worker, clock, ROUNDS);
}

/// Rounds as `Worker::run` has them, but that the time stands still.
#[inline(always)]
fn rounds(worker: &mut Worker<Port>, clock: &Clock, count: usize) {
    for _ in 0..count {
        std::hint::black_box(worker.counted_round(clock, flowgate::id::Millis(1000), 1 << 40));
    }
}

/// What an encapsulated frame says of its flow: cookie and target.
fn noted(packet: &Buf) -> (u32, usize) {
    let word = |at: usize| {
        let bytes = packet.bytes().get(at..).and_then(|rest| rest.first_chunk()).expect("outer headers");
        u32::from_be_bytes(*bytes)
    };
    (word(OUTER_LEN - 4), (word(30) - target_address(0).to_bits()) as usize)
}
