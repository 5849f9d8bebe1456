//! A worker over memory ports, and what tests put through it. Frames are built here byte by byte, by
//! nothing that the gateway uses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use flowgate::balance::{Builder, TargetMap};
use flowgate::datapath::counters::{DropReason, Outcome, WorkerCounters};
use flowgate::datapath::decide::account::Reason;
use flowgate::datapath::enquiry::Enquiry;
use flowgate::datapath::flow_log::{FlowLog, FlowReport, Sampling};
use flowgate::datapath::forwarding::{Condition, Forwarding, Gateway, Policy, Target, Underlay};
use flowgate::datapath::host::{FromHost, HostPort, ToHost};
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::outbound::Handoff;
use flowgate::datapath::steering::Steering;
use flowgate::datapath::worker::{Worker, WorkerParts};
use flowgate::flow::{Accounts, HashSeed, Pages, Table, TableConfig, Timers};
use flowgate::id::{GatewayId, InterfaceId, Millis, PortId, TargetId, WorkerId};
use flowgate::io::PacketBuf;
use flowgate::io::memory::{MemoryBuf, MemoryPort};
use flowgate::wire::ethernet::MacAddr;
use flowgate::wire::geneve::outer::OuterTemplate;

use crate::foresight::question;
use crate::network::Network;
use crate::watched::{self, Watched};

/// The client's end of the wire, the server's end, the target side.
pub const LEFT: usize = 0;
pub const RIGHT: usize = 1;
pub const UNDER: usize = 2;

/// The client's and the server's end of wire `n`, which is endpoint `n`.
pub fn wire(n: u16) -> [usize; 2] {
    if n == 0 { [LEFT, RIGHT] } else { [usize::from(n) * 2 + 1, usize::from(n) * 2 + 2] }
}

pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xc1];
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x5e];
pub const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x60];
pub const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const CLIENT: &str = "192.0.2.10";
pub const SERVER: &str = "198.51.100.20";
pub const CLIENT6: &str = "2001:db8::10";
pub const SERVER6: &str = "2001:db8:1::20";
pub const ENDPOINT_ID: u64 = 0x1122_3344_5566_7788;
pub const ATTACHMENT_ID: u64 = 7;

/// Frames that fit into a ring to or from the host.
pub const HOST_RING: usize = 64;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// The address of target `n` (from 0).
pub fn target_address(n: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(Ipv4Addr::new(10, 9, 1, 0)) + u32::from(n) + 1)
}

/// A gateway of one worker, or of several, whose time the test sets.
pub struct Bench {
    pub workers: Vec<Worker<MemoryPort>>,
    pub counters: Vec<Arc<WorkerCounters>>,
    pub control: Vec<rtrb::Producer<ToWorker>>,
    pub events: Vec<rtrb::Consumer<FromWorker>>,
    pub now: u32,
    pub targets: u16,
    pub policy: Policy,
    pub timers: Timers,
    pub conditions: Vec<Condition>,
    pub dualstack: bool,
    pub steering: Option<Arc<Steering>>,
    pub udp_checksum: bool,
    pub checksum_by_port: bool,
    /// The target side's MTU.
    pub mtu: u16,
    /// What the workers report of flows, while flow logs are on.
    pub reports: Vec<rtrb::Consumer<FlowReport>>,
    /// What the workers told that was not a retired forwarding state.
    pub told: Vec<FromWorker>,
    /// Forms that came back.
    pub enquiries: Vec<Enquiry>,
    /// What was said to lead to what became of packets since it was last taken.
    pub because: Vec<Reason>,
    /// Whether each frame is asked about before it is put in (`foresight.rs`).
    pub foresees: bool,
    /// Whether it is asked in the very round in which it arrives, so that no time is between them.
    pub foresees_at_once: bool,
    /// What the ports are for: a wire, unless the test says otherwise.
    pub network: Network,
    /// The host's ends of the rings: one from each worker, and one to worker 0.
    pub to_host: Vec<rtrb::Consumer<ToHost<MemoryBuf>>>,
    pub from_host: rtrb::Producer<FromHost<MemoryBuf>>,
    /// A capture, if there is one.
    pub watched: Option<Watched>,
    pub watched_from_the_start: bool,
}

impl Bench {
    /// One worker with room for 1,024 flows, and so many healthy targets.
    pub fn new(targets: u16) -> Bench {
        Bench::with(targets, 1, 1024)
    }

    pub fn with(targets: u16, workers: u8, capacity: u32) -> Bench {
        Bench::wired(1, targets, workers, capacity)
    }

    /// The same with so many wires.
    pub fn wired(wires: u16, targets: u16, workers: u8, capacity: u32) -> Bench {
        let seed = HashSeed::from_secret(b"the tests' own secret");
        let (from_host, sent_by_host) = rtrb::RingBuffer::new(HOST_RING);
        let mut sent_by_host = Some(sent_by_host);
        let mut bench = Bench {
            workers: Vec::new(),
            counters: Vec::new(),
            control: Vec::new(),
            events: Vec::new(),
            now: 1_000_000,
            targets,
            policy: Policy::default(),
            timers: Timers::default(),
            conditions: vec![Condition::Healthy; usize::from(targets)],
            dualstack: true,
            steering: None,
            udp_checksum: false,
            checksum_by_port: false,
            mtu: 1600,
            reports: Vec::new(),
            told: Vec::new(),
            enquiries: Vec::new(),
            because: Vec::new(),
            foresees: true,
            foresees_at_once: false,
            network: Network::wires(wires),
            to_host: Vec::new(),
            from_host,
            watched: None,
            watched_from_the_start: false,
        };
        for (id, handoff) in (0..workers).map(WorkerId).zip(Handoff::mesh(workers)) {
            let (to_worker, inbox) = rtrb::RingBuffer::new(64);
            let (events, from_worker) = rtrb::RingBuffer::new(4096);
            let (for_host, to_host) = rtrb::RingBuffer::new(HOST_RING);
            bench.to_host.push(to_host);
            let counters = Arc::new(WorkerCounters::default());
            bench.workers.push(Worker::new(WorkerParts {
                id,
                workers,
                ports: (0..1 + 2 * wires).map(|_| MemoryPort::default()).collect(),
                table: Table::new(TableConfig {
                    capacity,
                    worker: id,
                    workers,
                    pages: Pages::Small,
                    seed: seed.clone(),
                })
                .unwrap(),
                choice_seed: seed.clone(),
                link_seed: seed.clone(),
                handoff,
                host: HostPort::new(Some(for_host), sent_by_host.take()),
                inbox,
                events,
                counters: Arc::clone(&counters),
            }));
            bench.counters.push(counters);
            bench.control.push(to_worker);
            bench.events.push(from_worker);
        }
        bench.publish();
        if watched::is_on() {
            bench.watch_all();
        }
        bench
    }

    /// Gives the workers what the bench's fields say.
    pub fn publish(&mut self) {
        self.publish_but(|_| {});
    }

    /// The same, but for what `change` makes of it.
    pub fn publish_but(&mut self, change: impl FnOnce(&mut Forwarding)) {
        let registered = (0..self.targets)
            .filter(|n| !matches!(self.conditions[usize::from(*n)], Condition::Draining | Condition::Removed))
            .collect();
        let map = map_of(registered);
        let targets = (0..self.targets).map(|n| {
            let mac = MacAddr([2, 0, 0, 0, 1, u8::try_from(n % 256).unwrap()]);
            Some(Target {
                generation: 0,
                address: target_address(n).to_bits(),
                gateway: Some(GatewayId(0)),
                template: Some(OuterTemplate::new(MacAddr(GATEWAY_MAC), mac, TUNNEL, target_address(n))),
            })
        });
        let mut forwarding = Forwarding {
            configuration: 1,
            ports: self.network.ports.as_slice().into(),
            interfaces: self.network.interfaces.as_slice().into(),
            endpoints: self.network.endpoints.as_slice().into(),
            gateways: [Some(Gateway {
                dualstack: self.dualstack,
                timers: self.timers,
                policy: self.policy,
                map,
            })]
            .into(),
            targets: targets.collect(),
            conditions: self.conditions.as_slice().into(),
            underlay: Underlay {
                port: port_id(UNDER),
                address: TUNNEL.to_bits(),
                mtu: self.mtu,
                udp_checksum: self.udp_checksum,
                checksum_by_port: self.checksum_by_port,
                interface: InterfaceId(0),
                steering: self.steering.clone(),
            },
        };
        change(&mut forwarding);
        let forwarding = Arc::new(forwarding);
        for control in &mut self.control {
            control.push(ToWorker::Forwarding(Arc::clone(&forwarding))).unwrap();
        }
        self.rounds();
    }

    /// Tells every worker a target's condition, as the control core does.
    pub fn set_condition(&mut self, target: u16, condition: Condition) {
        self.send_condition(target, condition);
        self.rounds();
    }

    /// Leaves a target's condition in every worker's ring, to be found at its next round.
    pub fn send_condition(&mut self, target: u16, condition: Condition) {
        self.conditions[usize::from(target)] = condition;
        for control in &mut self.control {
            let message =
                ToWorker::Condition { target: TargetId(target), generation: 0, condition, sequence: 1 };
            control.push(message).unwrap();
        }
    }

    pub fn tell(&mut self, message: impl Fn() -> ToWorker) {
        self.push(message);
        self.rounds();
    }

    /// Leaves a message in every worker's ring, to be found at its next round.
    pub fn push(&mut self, message: impl Fn() -> ToWorker) {
        for control in &mut self.control {
            control.push(message()).unwrap();
        }
    }

    /// Leaves in every worker's ring a message of its own, to be found at its next round.
    pub fn push_each(&mut self, mut message: impl FnMut() -> ToWorker) {
        for control in &mut self.control {
            control.push(message()).unwrap();
        }
    }

    /// Switches flow logs on, with room for so many reports of each worker.
    pub fn start_flow_log(&mut self, room: usize, one_in: u32, interim_ms: Option<u32>) {
        let seed = HashSeed::from_secret(b"a site's secret");
        self.reports.clear();
        for (worker, control) in self.workers.iter().zip(&mut self.control) {
            let accounts = Accounts::new(worker.flows().table.capacity(), Pages::Small).unwrap();
            let (reports, ring) = rtrb::RingBuffer::new(room);
            let log = FlowLog::new(accounts, reports, Sampling { seed: seed.clone(), one_in }, interim_ms);
            control.push(ToWorker::StartFlowLog(Box::new(log))).unwrap();
            self.reports.push(ring);
        }
        self.rounds();
    }

    /// Gives each worker its part of a flow log.
    pub fn start_with(&mut self, mut part: impl FnMut() -> Box<FlowLog>) {
        for control in &mut self.control {
            control.push(ToWorker::StartFlowLog(part())).unwrap();
        }
        self.rounds();
    }

    /// Switches flow logs off; the reports of flows that go on are among those that come next.
    pub fn stop_flow_log(&mut self) {
        self.push(|| ToWorker::StopFlowLog);
        for _ in 0..100 {
            self.rounds();
        }
    }

    /// What was reported since this was last asked, by worker.
    pub fn reports(&mut self) -> Vec<FlowReport> {
        self.reports.iter_mut().flat_map(|ring| std::iter::from_fn(|| ring.pop().ok())).collect()
    }

    /// Lets every worker go rounds until nothing moves.
    pub fn rounds(&mut self) {
        for _ in 0..4 {
            for worker in &mut self.workers {
                while worker.round(Millis(self.now), u64::from(self.now)) > 0 {}
            }
        }
        self.drain_captured();
        for events in &mut self.events {
            while let Ok(event) = events.pop() {
                match event {
                    FromWorker::Retired { .. } => {}
                    FromWorker::Enquiry(form) => self.enquiries.push(*form),
                    event => self.told.push(event),
                }
            }
        }
    }

    /// Lets time pass, and the ageing hand with it.
    pub fn pass(&mut self, ms: u32) {
        self.now = self.now.wrapping_add(ms);
        for _ in 0..64 {
            self.rounds();
        }
    }

    /// Puts a frame into a port of worker 0 and returns all that came out, with the port.
    pub fn put(&mut self, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        self.put_at(0, port, frame)
    }

    pub fn put_at(&mut self, worker: usize, port: usize, frame: &[u8]) -> Vec<(usize, Vec<u8>)> {
        if !self.foresees {
            self.workers[worker].ports_mut()[port].arriving.push_back(MemoryBuf::new(frame));
            self.rounds();
            return self.take();
        }
        if self.foresees_at_once {
            let before = self.counted();
            self.push_question(&question(port, frame, None));
            self.workers[worker].ports_mut()[port].arriving.push_back(MemoryBuf::new(frame));
            self.rounds();
            let out = self.take();
            if let Ok(foreseen) = self.said() {
                self.because.extend(foreseen.judgement.reasons.iter());
                self.compare(&foreseen, &before, port, &out);
            }
            return out;
        }
        let foreseen = self.foresee(port, frame);
        // What went out meanwhile is not of this frame.
        let mut out = self.take();
        let meanwhile = out.len();
        let before = self.counted();
        self.workers[worker].ports_mut()[port].arriving.push_back(MemoryBuf::new(frame));
        self.rounds();
        out.extend(self.take());
        self.compare(&foreseen, &before, port, &out[meanwhile..]);
        out
    }

    /// All that came out since it was last asked.
    pub fn take(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut out = Vec::new();
        for worker in &mut self.workers {
            for (number, port) in worker.ports_mut().iter_mut().enumerate() {
                out.extend(port.sent.drain(..).map(|packet| (number, packet.bytes().to_vec())));
            }
        }
        out
    }

    /// The one frame that a frame turned into.
    pub fn one(&mut self, port: usize, frame: &[u8]) -> (usize, Vec<u8>) {
        let mut out = self.put(port, frame);
        assert_eq!(out.len(), 1, "expected one frame, got {out:02x?}; drops: {:?}", self.drops());
        out.remove(0)
    }

    /// Puts a frame in that must be dropped, and says why it was.
    pub fn dropped(&mut self, port: usize, frame: &[u8]) -> DropReason {
        let before = self.drops();
        let out = self.put(port, frame);
        assert!(out.is_empty(), "expected a drop, got {out:02x?}");
        let after = self.drops();
        let mut reasons = after.iter().filter(|reason| count(&before, reason.0) != reason.1);
        let reason = reasons.next().expect("no drop was counted").0;
        assert!(reasons.next().is_none(), "more than one drop was counted");
        reason
    }

    /// What was dropped so far, by reason.
    pub fn drops(&self) -> Vec<(DropReason, u64)> {
        let sum = |reason: DropReason| self.counters.iter().map(|all| all.drops[reason.index()].get()).sum();
        DropReason::ALL.iter().map(|reason| (*reason, sum(*reason))).filter(|(_, count)| *count > 0).collect()
    }

    pub fn outcome(&self, outcome: Outcome) -> u64 {
        self.counters.iter().map(|all| all.outcomes[outcome.index()].get()).sum()
    }

    /// The target (from 0) that an encapsulated frame goes to.
    pub fn target_of(&self, frame: &[u8]) -> u16 {
        let address = Ipv4Addr::from_bits(u32::from_be_bytes(frame[30..34].try_into().unwrap()));
        (0..self.targets).find(|n| target_address(*n) == address).expect("a target's address")
    }

    pub fn live_flows(&self, target: u16) -> u64 {
        self.counters.iter().map(|all| all.target(TargetId(target)).active_flows.get()).sum()
    }

    /// Fragments that wait for their first.
    pub fn waiting(&self) -> u64 {
        self.counters.iter().map(|all| all.fragments_waiting.get()).sum()
    }

    /// C-1: at rest every packet that came in has ended in one way, or is a fragment that waits.
    pub fn assert_settled(&self) {
        let received: u64 = self.counters.iter().map(|all| all.received.get()).sum();
        let settled: u64 = self.counters.iter().map(|all| all.settled()).sum();
        assert_eq!(received, settled + self.waiting(), "drops: {:?}", self.drops());
    }
}

/// The choice table of these targets, made once for all tests of the process.
fn map_of(targets: Vec<u16>) -> TargetMap {
    static MADE: Mutex<BTreeMap<Vec<u16>, TargetMap>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    let make = || {
        let mut builder = Builder::new(HashSeed::from_secret(b"the tests' own secret"));
        builder.update(&targets.iter().map(|n| (TargetId(*n), target_address(*n), 1)).collect::<Vec<_>>());
        builder.map()
    };
    made.entry(targets.clone()).or_insert_with(make).clone()
}

fn count(drops: &[(DropReason, u64)], of: DropReason) -> u64 {
    drops.iter().find(|(reason, _)| *reason == of).map_or(0, |(_, count)| *count)
}

pub fn port_id(number: usize) -> PortId {
    PortId(u16::try_from(number).unwrap())
}

/// One packet of a conversation between the client and the server.
#[derive(Clone, Debug)]
pub struct Segment {
    pub src: IpAddr,
    pub dst: IpAddr,
    pub protocol: u8,
    pub ports: (u16, u16),
    pub flags: u8,
    pub seq: u32,
    pub ack: u32,
    pub payload: Vec<u8>,
    pub vlans: Vec<u16>,
    pub macs: ([u8; 6], [u8; 6]),
    pub ttl: u8,
    /// IPv4 flags and fragment offset.
    pub fragment: u16,
}

/// From the client, from `port` to the server's port 80.
pub fn client(port: u16, flags: u8) -> Segment {
    Segment {
        src: CLIENT.parse().unwrap(),
        dst: SERVER.parse().unwrap(),
        protocol: 6,
        ports: (port, 80),
        flags,
        seq: 1000,
        ack: 2000,
        payload: Vec::new(),
        vlans: Vec::new(),
        macs: (CLIENT_MAC, SERVER_MAC),
        ttl: 64,
        fragment: 0x4000,
    }
}

impl Segment {
    /// The other direction.
    pub fn reversed(self) -> Segment {
        Segment {
            src: self.dst,
            dst: self.src,
            ports: (self.ports.1, self.ports.0),
            seq: self.ack,
            ack: self.seq,
            macs: (self.macs.1, self.macs.0),
            ..self
        }
    }

    pub fn over_ipv6(self) -> Segment {
        let six = |address: IpAddr| -> IpAddr {
            if address == CLIENT.parse::<IpAddr>().unwrap() { CLIENT6 } else { SERVER6 }.parse().unwrap()
        };
        Segment { src: six(self.src), dst: six(self.dst), ..self }
    }

    pub fn udp(self) -> Segment {
        Segment { protocol: 17, ..self }
    }

    pub fn with_payload(self, payload: &[u8]) -> Segment {
        Segment { payload: payload.to_vec(), ..self }
    }

    /// The IP packet.
    pub fn ip(&self) -> Vec<u8> {
        let mut transport = Vec::new();
        transport.extend(self.ports.0.to_be_bytes());
        transport.extend(self.ports.1.to_be_bytes());
        let checksum_at = match self.protocol {
            6 => {
                transport.extend(self.seq.to_be_bytes());
                transport.extend(self.ack.to_be_bytes());
                transport.extend([0x50, self.flags, 0xfa, 0xf0, 0, 0, 0, 0]);
                16
            }
            17 => {
                transport.extend((8 + self.payload.len() as u16).to_be_bytes());
                transport.extend([0, 0]);
                6
            }
            _ => panic!("a protocol that the harness does not build"),
        };
        transport.extend(&self.payload);
        let len = transport.len() as u16;
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut pseudo = [src.octets(), dst.octets()].concat();
                pseudo.extend([0, self.protocol]);
                pseudo.extend(len.to_be_bytes());
                let sum = checksum(&[&pseudo, &transport]);
                transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
                let mut ip = vec![0x45, 0];
                ip.extend((20 + len).to_be_bytes());
                ip.extend([0x12, 0x34]);
                ip.extend(self.fragment.to_be_bytes());
                ip.extend([self.ttl, self.protocol, 0, 0]);
                ip.extend(src.octets());
                ip.extend(dst.octets());
                let sum = checksum(&[&ip]);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                [ip, transport].concat()
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut pseudo = [src.octets(), dst.octets()].concat();
                pseudo.extend(u32::from(len).to_be_bytes());
                pseudo.extend([0, 0, 0, self.protocol]);
                let sum = checksum(&[&pseudo, &transport]);
                transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
                let mut ip = vec![0x60, 0, 0, 0];
                ip.extend(len.to_be_bytes());
                ip.extend([self.protocol, self.ttl]);
                ip.extend(src.octets());
                ip.extend(dst.octets());
                [ip, transport].concat()
            }
            _ => panic!("addresses of two versions"),
        }
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = [self.macs.1, self.macs.0].concat();
        for vlan in &self.vlans {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        frame.extend(if self.src.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] });
        frame.extend(self.ip());
        frame
    }
}

/// RFC 1071, the plain way.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The inner packet of an encapsulated frame, whose outer headers are 82 bytes with Ethernet.
pub fn inner(frame: &[u8]) -> &[u8] {
    &frame[82..]
}

/// The cookie of an encapsulated frame.
pub fn cookie(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[78..82].try_into().unwrap())
}

/// The UDP source port of an encapsulated frame.
pub fn source_port(frame: &[u8]) -> u16 {
    u16::from_be_bytes(frame[34..36].try_into().unwrap())
}

/// What an appliance sends back (W-4): outer addresses swapped, another packet inside if given.
pub fn answer(frame: &[u8], other_inner: Option<&[u8]>) -> Vec<u8> {
    let mut back = frame.to_vec();
    for n in 0..6 {
        back.swap(n, n + 6);
    }
    for n in 26..30 {
        back.swap(n, n + 4);
    }
    if let Some(other) = other_inner {
        back.truncate(82);
        back.extend(other);
        let total = (other.len() + 68) as u16;
        back[16..18].copy_from_slice(&total.to_be_bytes());
        back[38..40].copy_from_slice(&(total - 20).to_be_bytes());
        let protocol = if other[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
        back[44..46].copy_from_slice(&protocol);
        back[24..26].fill(0);
        let sum = checksum(&[&back[14..34]]);
        back[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    back
}
