//! Flowgate: the worker that the daemon runs, over queues of crossed ports, with its flows and their
//! cookies known to the bench.

use std::sync::Arc;
use std::time::Duration;

use flowgate::datapath::counters::WorkerCounters;
use flowgate::datapath::forwarding::Forwarding;
use flowgate::datapath::host::HostPort;
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::outbound::Handoff;
use flowgate::datapath::worker::{Worker, WorkerParts};
use flowgate::flow::{HashSeed, PageKind, Pages, Table, TableConfig};
use flowgate::id::WorkerId;
use flowgate::io::clock::Clock;
use flowgate::io::dpdk::{Mbuf, Queue};
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterTemplate};

use crate::frames::{ACK, Flow, LONGEST, SYN, Shuffled, Version};
use crate::one_wire::{TIMERS, answer_templates, forwarding, target_address};
use crate::rings::{BATCH, Ends, Rings};
use crate::stand::{CLIENTS, Forwarder, PORTS, SERVERS, Stand, TARGETS, fill};
use crate::{Failure, cpu_time};

/// Targets behind the gateway, unless a row has more.
pub const FEW_TARGETS: u16 = 10;

/// Entries that the ageing hand passes in a round when it is behind.
const AGED_A_ROUND: u32 = 32;

/// What a table lies in, for people.
pub fn pages_name(pages: PageKind) -> &'static str {
    match pages {
        PageKind::Reserved1G => "hugepages of 1 GiB",
        PageKind::Reserved2M => "hugepages of 2 MiB",
        PageKind::Transparent => "transparent hugepages",
        PageKind::Small => "ordinary pages",
    }
}

/// What the worker sends to the control core and what comes from there.
const EVENTS: usize = 4096;
const MESSAGES: usize = 64;

/// The loop of a worker.
pub struct WorkerLoop {
    pub worker: Worker<Queue>,
    clock: Clock,
    /// How far the worker's time is from the clock's: it stands still while the bench is at work.
    offset: u32,
    /// The worker's time at its last round.
    last: u32,
    /// When its last round ended, or its work began again.
    began: u64,
}

impl Forwarder for WorkerLoop {
    /// As `Worker::run` has it.
    fn round(&mut self) -> usize {
        let now = self.clock.at(self.began).plus(self.offset);
        self.last = now.0;
        let (handled, ended) = self.worker.counted_round(&self.clock, now, self.began);
        self.began = ended;
        handled
    }

    fn resume(&mut self) {
        self.offset = self.last.wrapping_sub(self.clock.now().0);
        self.began = self.clock.cycles();
    }
}

impl WorkerLoop {
    /// Lets time pass for the worker, in steps that it does not take for pauses.
    pub fn advance(&mut self, ms: u32) {
        const STEP: u32 = 250;
        let mut left = ms;
        while left > 0 {
            let step = left.min(STEP);
            self.last = self.last.wrapping_add(step);
            self.resume();
            self.round();
            left -= step;
        }
    }
}

/// Under which cookie the gateway knows a flow, and at which target.
#[derive(Clone, Copy)]
pub struct Known {
    pub cookie: u32,
    pub target: u16,
}

/// What a gateway is made by.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Room in its flow table.
    pub capacity: u32,
    /// Flows 0 to `flows` are established.
    pub flows: u32,
    pub version: Version,
    pub targets: u16,
}

impl Shape {
    /// A table that is full of IPv4 flows.
    pub fn full(flows: u32) -> Shape {
        Shape { capacity: flows, flows, version: Version::V4, targets: FEW_TARGETS }
    }
}

/// A gateway of one worker.
pub struct Gateway {
    pub stand: Stand<WorkerLoop>,
    /// By the flow's number.
    pub known: Vec<Known>,
    /// Headers of the targets' answers.
    pub answers: Vec<OuterTemplate>,
    pub control: rtrb::Producer<ToWorker>,
    pub events: rtrb::Consumer<FromWorker>,
    pub pages: PageKind,
    version: Version,
}

/// Keys the tables' hash and the choice of targets.
pub fn seed() -> HashSeed {
    HashSeed::from_secret(b"flowgate-bench")
}

/// A worker, and what the control core has of it.
pub struct WorkerEnds {
    pub forwarder: WorkerLoop,
    pub control: rtrb::Producer<ToWorker>,
    pub events: rtrb::Consumer<FromWorker>,
    pub counters: Arc<WorkerCounters>,
    pub pages: PageKind,
}

/// Makes worker `id` of `workers` with a table of `capacity`, which goes by `forwarding`.
pub fn worker(
    (id, workers): (u8, u8),
    ports: Vec<Queue>,
    handoff: Handoff<Mbuf>,
    capacity: u32,
    forwarding: Arc<Forwarding>,
) -> Result<WorkerEnds, Failure> {
    let id = WorkerId(id);
    let table = Table::new(TableConfig { capacity, worker: id, workers, pages: Pages::Huge, seed: seed() })?;
    let pages = table.pages();
    let (mut control, inbox) = rtrb::RingBuffer::new(MESSAGES);
    let (told, events) = rtrb::RingBuffer::new(EVENTS);
    control.push(ToWorker::Forwarding(forwarding)).map_err(|_| "an empty ring has no room")?;
    let counters = Arc::new(WorkerCounters::default());
    let worker = Worker::new(WorkerParts {
        id,
        workers,
        ports,
        table,
        choice_seed: seed(),
        link_seed: seed(),
        handoff,
        host: HostPort::none(),
        inbox,
        events: told,
        counters: Arc::clone(&counters),
    });
    let clock = Clock::start();
    let forwarder = WorkerLoop { worker, clock, offset: 0, last: 0, began: 0 };
    Ok(WorkerEnds { forwarder, control, events, counters, pages })
}

impl Gateway {
    pub fn new(rings: &Arc<Rings>, shape: Shape) -> Result<Gateway, Failure> {
        let ends = rings.ends(PORTS, 1)?;
        Gateway::between(rings, ends, shape)
    }

    /// With these ports.
    pub fn between(rings: &Arc<Rings>, mut ends: Ends, shape: Shape) -> Result<Gateway, Failure> {
        let (inside, outside) = (ends.inside.remove(0), ends.outside.remove(0));
        let forwarding = Arc::new(forwarding(&seed(), 1, shape.targets));
        let worker = worker((0, 1), inside, Handoff::mesh(1).remove(0), shape.capacity, forwarding)?;
        let mut gateway = Gateway {
            stand: Stand::new(rings, outside, worker.forwarder),
            known: Vec::new(),
            answers: answer_templates(shape.targets),
            control: worker.control,
            events: worker.events,
            pages: worker.pages,
            version: shape.version,
        };
        gateway.establish(shape.flows)?;
        Ok(gateway)
    }

    /// Opens the next `count` flows and has them go on.
    pub fn establish(&mut self, count: u32) -> Result<(), Failure> {
        let first = self.known.len() as u64;
        let version = self.version;
        let flows = || (first..first + u64::from(count)).map(|number| Flow { number, version });
        let mut seen = Vec::with_capacity(count as usize);
        for flags in [SYN, ACK] {
            let (mut opened, mut noticed) = (flows(), flows());
            self.stand.play(
                (CLIENTS, TARGETS),
                count as usize,
                |packet: &mut Mbuf| {
                    let flow = opened.next().ok_or("no more flows")?;
                    fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, flags))
                },
                |frame| {
                    let known = noted(frame)?;
                    if flags == SYN {
                        seen.push(known);
                    }
                    check_inner(noticed.next().ok_or("no more flows")?, flags, frame)
                },
            )?;
        }
        let before = self.known.len();
        self.known.append(&mut seen);
        let held = self.flows() as usize;
        if held < before + count as usize {
            return Err(format!("{held} flows are in the table and not {}", before + count as usize).into());
        }
        Ok(())
    }

    /// SYNs of the flows that `strangers` numbers, which the gateway does not know; each must go to some
    /// appliance. Returns the CPU time.
    pub fn first_packets(
        &mut self,
        count: usize,
        strangers: &mut (impl Iterator<Item = u64> + Clone),
    ) -> Result<Duration, Failure> {
        let version = self.version;
        let mut expected = strangers.clone();
        let make = |packet: &mut Mbuf| {
            let flow = Flow { number: strangers.next().ok_or("no more strangers")?, version };
            fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, SYN))
        };
        let see = |frame: &[u8]| {
            noted(frame)?;
            check_inner(Flow { number: expected.next().ok_or("no more strangers")?, version }, SYN, frame)
        };
        self.stand.play((CLIENTS, TARGETS), count, make, see)
    }

    /// Lets all half-open flows end and the ageing hand take them away, and pass the whole table once
    /// more, so that it has nothing left to catch up on.
    pub fn end_half_open(&mut self, kept: u32) -> Result<(), Failure> {
        self.stand.forwarder.advance(TIMERS.half_open_ms + 1);
        for _ in 0..2 * self.stand.forwarder.worker.flows().table.capacity().div_ceil(AGED_A_ROUND) {
            self.stand.forwarder.round();
        }
        let left = self.flows();
        if left == kept { Ok(()) } else { Err(format!("{left} flows are left and not {kept}").into()) }
    }

    /// Entries of the flow table in use.
    pub fn flows(&self) -> u32 {
        self.stand.forwarder.worker.flows().table.len()
    }

    /// Puts packets of clients in, of the flows whose numbers `order` gives.
    pub fn put_client_packets(
        &mut self,
        count: usize,
        order: &mut impl Iterator<Item = u32>,
    ) -> Result<(), Failure> {
        let version = self.version;
        let mut make = |packet: &mut Mbuf| {
            let flow = Flow { number: order.next().ok_or("an endless order")?.into(), version };
            fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))
        };
        self.stand.put(CLIENTS, count, &mut make)
    }

    /// Takes as many out: each must be on its way to its flow's target under its flow's cookie.
    pub fn take_client_packets(
        &mut self,
        count: usize,
        order: &mut impl Iterator<Item = u32>,
    ) -> Result<(), Failure> {
        let (known, version) = (&self.known, self.version);
        let mut see = |frame: &[u8]| {
            let number = order.next().ok_or("an endless order")?;
            check_encapsulated(Flow { number: number.into(), version }, known[number as usize], frame)
        };
        let seen = self.stand.take(TARGETS, &mut see)?;
        if seen == count {
            Ok(())
        } else {
            Err(format!("{count} packets went in and {seen} came out").into())
        }
    }

    /// Packets from clients to the appliances for so long; nanoseconds a packet.
    pub fn client_packets(&mut self, time: Duration, order: &mut Shuffled) -> Result<f64, Failure> {
        let mut expected = order.clone();
        let (mut spent, mut packets) = (Duration::ZERO, 0);
        while spent < time {
            self.put_client_packets(BATCH, order)?;
            spent += self.stand.work(BATCH)?;
            self.take_client_packets(BATCH, &mut expected)?;
            packets += BATCH;
        }
        Ok(cpu_time::each(spent, packets))
    }

    /// The same packets on their way back from the appliances, to the servers.
    pub fn answers(&mut self, time: Duration, order: &mut Shuffled) -> Result<f64, Failure> {
        let (known, version, answers) = (&self.known, self.version, &self.answers);
        let mut expected = order.clone();
        let make = |packet: &mut Mbuf| {
            let number = order.next().ok_or("an endless order")?;
            let (flow, Known { cookie, target }) =
                (Flow { number: number.into(), version }, known[number as usize]);
            fill(packet, flow.answer_len(), |frame| flow.answer(frame, &answers[usize::from(target)], cookie))
        };
        let see = |frame: &[u8]| {
            let flow = Flow { number: expected.next().ok_or("an endless order")?.into(), version };
            let mut wanted = [0; LONGEST];
            let wanted = &mut wanted[..flow.frame_len()];
            flow.client_segment(wanted, ACK);
            if frame == wanted { Ok(()) } else { Err(format!("{flow:?} came out as {frame:02x?}").into()) }
        };
        self.stand.play_for(time, (TARGETS, SERVERS), make, see)
    }
}

/// What an encapsulated frame says of its flow.
pub fn noted(frame: &[u8]) -> Result<Known, Failure> {
    let word = |at: usize| {
        let bytes =
            frame.get(at..).and_then(|rest| rest.first_chunk()).ok_or("a frame without outer headers");
        bytes.map(|bytes| u32::from_be_bytes(*bytes))
    };
    let target = word(30)?.wrapping_sub(target_address(0).to_bits());
    Ok(Known { cookie: word(OUTER_LEN - 4)?, target: u16::try_from(target)? })
}

/// That the packet inside an encapsulated frame is the one that went in.
pub fn check_inner(flow: Flow, flags: u8, frame: &[u8]) -> Result<(), Failure> {
    let mut wanted = [0; LONGEST];
    let wanted = &mut wanted[..flow.answer_len() - OUTER_LEN];
    flow.client_packet(wanted, flags);
    if frame.get(OUTER_LEN..) == Some(wanted) {
        Ok(())
    } else {
        Err(format!("{flow:?} came out as {frame:02x?}").into())
    }
}

/// That a flow's packet went to its target under its cookie.
pub fn check_encapsulated(flow: Flow, known: Known, frame: &[u8]) -> Result<(), Failure> {
    let Known { cookie, target } = noted(frame)?;
    if (cookie, target) != (known.cookie, known.target) {
        return Err(format!("{flow:?} went to target {target} under cookie {cookie:#x}").into());
    }
    check_inner(flow, ACK, frame)
}
