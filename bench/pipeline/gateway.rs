//! A gateway of one worker with ten targets over ring ports, and the flows and frames that are put
//! through it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowgate::datapath::capture::filter::Filter;
use flowgate::datapath::capture::{Bounds, Capture, Captured, RING};
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::worker::{Worker, WorkerParts};
use flowgate::flow::{HashSeed, Pages, Table, TableConfig};
use flowgate::id::WorkerId;
use flowgate::io::clock::Clock;
use flowgate::io::{BURST, PacketBuf};
use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::{self, ethertype};
use flowgate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate};

pub use super::one_wire::{CLIENTS, SERVERS, TARGETS, mixed};
use super::one_wire::{ENDPOINT, TIMERS, answer_templates, forwarding, target_address};
use super::ring::{RingBuf, RingPort};

/// Targets behind the gateway.
const TEN: u16 = 10;

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;

/// Packets put in together; their buffers fit into L2, where a NIC's lie in L3.
const BATCH: usize = 16 * BURST;

/// Bytes of the inner packet: IPv4 and TCP headers and 6 bytes, which fill Ethernet's shortest frame.
const INNER_LEN: u16 = 46;
const FRAME_LEN: usize = ethernet::HEADER_LEN + INNER_LEN as usize;

/// A connection, named by a number: 56 random bits of its tuple follow from it, so that no two of some
/// millions are equal.
#[derive(Clone, Copy)]
pub struct Flow(pub u64);

impl Flow {
    /// A segment of its client, as it arrives at the wire.
    pub fn client_segment(self, buf: &mut RingBuf, flags: u8) {
        let frame = buf.renew(FRAME_LEN);
        let (link, ip) = frame.split_at_mut(ethernet::HEADER_LEN);
        link.copy_from_slice(&[2, 0, 0, 0, 0, 0x5e, 2, 0, 0, 0, 0, 0xc1, 8, 0]);
        self.packet(ip, flags);
    }

    fn packet(self, ip: &mut [u8], flags: u8) {
        let [a, b, c, d, e, f, g, _] = mixed(self.0).to_be_bytes();
        let len = INNER_LEN.to_be_bytes();
        ip[..12].copy_from_slice(&[0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, 6, 0, 0]);
        ip[12..20].copy_from_slice(&[10, a, b, c, 198, 51, d, e]);
        let checksum = Sum::ZERO.bytes(&ip[..20]).checksum();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip[20..40].copy_from_slice(&[
            f, g, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0,
        ]);
        ip[40..].fill(0xab);
    }
}

/// A flow that the gateway knows, and under which cookie at which target.
#[derive(Clone, Copy)]
pub struct Known {
    pub flow: Flow,
    cookie: u32,
    target: u16,
}

pub struct Gateway {
    worker: Worker<RingPort>,
    clock: Clock,
    ahead: u32,
    /// Free buffers.
    pool: Vec<RingBuf>,
    /// Headers of the targets' answers.
    answers: Vec<OuterTemplate>,
    control: rtrb::Producer<ToWorker>,
    _events: rtrb::Consumer<FromWorker>,
}

impl Gateway {
    /// With room for so many flows, and none in it.
    pub fn new(capacity: u32) -> Gateway {
        let seed = HashSeed::from_secret(b"bench");
        let config =
            TableConfig { capacity, worker: WorkerId(0), workers: 1, pages: Pages::Huge, seed: seed.clone() };
        let (mut control, inbox) = rtrb::RingBuffer::new(8);
        let (told, events) = rtrb::RingBuffer::new(4096);
        control.push(ToWorker::Forwarding(Arc::new(forwarding(&seed, 1, TEN)))).expect("room");
        let port = || RingPort {
            arriving: std::collections::VecDeque::with_capacity(BATCH),
            sent: Vec::with_capacity(BATCH),
        };
        let worker = Worker::new(WorkerParts::alone(
            (0..3).map(|_| port()).collect(),
            Table::new(config).expect("a table"),
            seed,
            (inbox, told),
        ));
        Gateway {
            worker,
            clock: Clock::start(),
            ahead: 0,
            pool: (0..BATCH).map(|_| RingBuf::new()).collect(),
            answers: answer_templates(TEN),
            control,
            _events: events,
        }
    }

    /// With room for so many flows, and the first `flows` of them established.
    pub fn with_established(capacity: u32, flows: u32) -> (Gateway, Vec<Known>) {
        let mut gateway = Gateway::new(capacity);
        let numbers = || (0..u64::from(flows)).map(Flow);
        let mut known = Vec::new();
        let mut opened = numbers();
        gateway.play(
            (CLIENTS, TARGETS),
            flows as usize,
            |buf| opened.next().into_iter().for_each(|flow| flow.client_segment(buf, SYN)),
            |frame| known.push(noted(Flow(known.len() as u64), frame)),
        );
        let mut went_on = numbers();
        gateway.play(
            (CLIENTS, TARGETS),
            flows as usize,
            |buf| went_on.next().into_iter().for_each(|flow| flow.client_segment(buf, ACK)),
            |_| (),
        );
        assert_eq!(gateway.flows(), flows);
        (gateway, known)
    }

    /// The packet with which a target answers, as it arrives.
    pub fn answer(answers: &[OuterTemplate], buf: &mut RingBuf, known: &Known) {
        let frame = buf.renew(OUTER_LEN + usize::from(INNER_LEN));
        let fields = OuterFields {
            inner_len: INNER_LEN,
            protocol: ethertype::IPV4,
            source_port: 0xc000,
            endpoint_id: ENDPOINT.0,
            attachment_id: ENDPOINT.1,
            cookie: known.cookie,
        };
        if let Some((headers, inner)) = frame.split_first_chunk_mut() {
            answers[usize::from(known.target)].write(headers, &fields);
            known.flow.packet(inner, ACK);
        }
    }

    /// What [`Gateway::answer`] needs.
    pub fn answers(&self) -> Vec<OuterTemplate> {
        self.answers.clone()
    }

    /// Has it capture what `filter` asks for; nothing is over the rate.
    pub fn capture(&mut self, filter: Filter, snap_len: usize) -> Captured {
        let bounds = Bounds { snap_len, rate: u32::MAX, ring: RING };
        let (capture, captured) = Capture::new(filter, bounds, 3, self.clock.clone());
        self.control.push(ToWorker::Capture(capture)).expect("room");
        self.round();
        captured
    }

    /// Entries of the flow table in use.
    pub fn flows(&self) -> u32 {
        self.worker.flows().table.len()
    }

    /// Puts `packets` packets, made by `make`, into one port and gives what came out of the other to
    /// `seen`; all of them must. Returns the time that the worker's rounds took, without that of making
    /// and looking.
    pub fn play(
        &mut self,
        (into, out_of): (usize, usize),
        packets: usize,
        mut make: impl FnMut(&mut RingBuf),
        mut seen: impl FnMut(&[u8]),
    ) -> Duration {
        let mut spent = Duration::ZERO;
        let mut left = packets;
        while left > 0 {
            let count = left.min(BATCH);
            for mut buf in self.pool.drain(..count) {
                make(&mut buf);
                self.worker.ports_mut()[into].arriving.push_back(buf);
            }
            let start = Instant::now();
            for _ in 0..count.div_ceil(BURST) {
                self.round();
            }
            spent += start.elapsed();
            let sent = &mut self.worker.ports_mut()[out_of].sent;
            assert_eq!(sent.len(), count, "packets were lost");
            sent.iter().for_each(|buf| seen(buf.bytes()));
            self.pool.append(sent);
            left -= count;
        }
        spent
    }

    /// A round as `Worker::run` has it.
    fn round(&mut self) {
        let now = self.clock.now().plus(self.ahead);
        black_box(self.worker.round(now, self.clock.cycles()));
    }

    /// Lets all half-open flows end and the ageing hand take them away, until `kept` flows are left.
    pub fn end_half_open(&mut self, kept: u32) {
        self.ahead = self.ahead.wrapping_add(TIMERS.half_open_ms + 1);
        while self.flows() > kept {
            self.round();
        }
        assert_eq!(self.flows(), kept);
    }
}

/// What an encapsulated frame says of its flow.
fn noted(flow: Flow, frame: &[u8]) -> Known {
    let word = |at: usize| {
        let bytes = frame.get(at..).and_then(|rest| rest.first_chunk()).expect("outer headers");
        u32::from_be_bytes(*bytes)
    };
    let target = u16::try_from(word(30) - target_address(0).to_bits()).expect("a target");
    Known { flow, cookie: word(OUTER_LEN - 4), target }
}
