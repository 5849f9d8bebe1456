//! A gateway of one worker and many load balancers, under full load.

use std::collections::VecDeque;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flowgate::balance::{Builder, TargetMap};
use flowgate::datapath::forwarding::{
    Condition, Endpoint, EndpointKind, Forwarding, Gateway as LoadBalancer, Policy, PortRole, Target,
    Underlay,
};
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::worker::{Worker, WorkerParts};
use flowgate::flow::{HashSeed, Pages, Table, TableConfig, Timers};
use flowgate::id::{EndpointId, GatewayId, PortId, TargetId, WorkerId};
use flowgate::io::BURST;
use flowgate::io::clock::Clock;
use flowgate::wire::checksum::Sum;
use flowgate::wire::ethernet::{self, MacAddr};
use flowgate::wire::geneve::outer::OuterTemplate;

use super::ring::{RingBuf, RingPort};

const LOAD_BALANCERS: usize = 256;

const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const GATEWAY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x60]);
const INNER_LEN: u16 = 46;
const FRAME_LEN: usize = ethernet::HEADER_LEN + INNER_LEN as usize;
const ACK: u8 = 0x10;

const TCP_IDLE_MS: u32 = 1 << 30;

/// A configuration.
pub struct Shape {
    pub name: &'static str,
    /// Targets of the first load balancers; the last number stands for all the others but where it is 1,000:
    /// then they have one each. One number: there is one load balancer.
    pub groups: &'static [u16],
    /// Whether silent flows are told.
    pub proactive: bool,
}

pub struct Gateway {
    worker: Worker<RingPort>,
    clock: Clock,
    ahead: u32,
    maps: Vec<TargetMap>,
    targets: Vec<Target>,
    proactive: bool,
    pool: Vec<RingBuf>,
    flows: u64,
    next: u64,
    control: rtrb::Producer<ToWorker>,
    events: rtrb::Consumer<FromWorker>,
}

impl Gateway {
    /// With a million flows through its first load balancer.
    pub fn new(shape: &Shape, flows: u32) -> Gateway {
        let seed = HashSeed::from_secret(b"bench");
        let (mut maps, mut targets) = (Vec::new(), Vec::new());
        let count = if shape.groups.len() == 1 { 1 } else { LOAD_BALANCERS };
        for gateway in 0..count {
            let rest = shape.groups.last().copied().filter(|rest| *rest < 1000).unwrap_or(1);
            let members = shape.groups.get(gateway).copied().unwrap_or(rest);
            let mut builder = Builder::new(seed.clone());
            let mut own = Vec::new();
            for _ in 0..members {
                let n = u16::try_from(targets.len()).expect("16,384 targets at most");
                own.push((TargetId(n), address(n), 1));
                targets.push(target(n, u16::try_from(gateway).expect("256")));
            }
            builder.update(&own);
            maps.push(builder.map());
        }
        let config = TableConfig {
            capacity: flows,
            worker: WorkerId(0),
            workers: 1,
            pages: Pages::Huge,
            seed: seed.clone(),
        };
        let (control, inbox) = rtrb::RingBuffer::new(1024);
        let (told, events) = rtrb::RingBuffer::new(8192);
        let port = || RingPort { arriving: VecDeque::with_capacity(BURST), sent: Vec::with_capacity(BURST) };
        let worker = Worker::new(WorkerParts::alone(
            (0..3).map(|_| port()).collect(),
            Table::new(config).expect("a table"),
            seed,
            (inbox, told),
        ));
        let mut gateway = Gateway {
            worker,
            clock: Clock::start(),
            ahead: 0,
            maps,
            targets,
            proactive: shape.proactive,
            // As many as a NIC's ring has: their lines come from L3.
            pool: (0..1024).map(|_| RingBuf::new()).collect(),
            flows: u64::from(flows),
            next: 0,
            control,
            events,
        };
        let first = gateway.forwarding(None);
        gateway.tell(vec![first]);
        for flags in [0x02, ACK] {
            for _ in 0..flows as usize / BURST {
                gateway.round(flags);
            }
        }
        assert_eq!(gateway.worker.flows().table.len(), flows);
        gateway
    }

    /// A forwarding state like the one in force, in memory of its own; the first load balancer's targets in
    /// this condition.
    pub fn forwarding(&mut self, first: Option<Condition>) -> ToWorker {
        let mut conditions = vec![Condition::Healthy; self.targets.len()];
        conditions.iter_mut().take(1000).for_each(|condition| *condition = first.unwrap_or(*condition));
        let wire = |peer| PortRole::Wire { endpoint: EndpointId(0), peer: PortId(peer) };
        let gateways = self.maps.iter().map(|map| {
            Some(LoadBalancer {
                dualstack: true,
                timers: Timers {
                    tcp_idle_ms: TCP_IDLE_MS,
                    other_idle_ms: 120_000,
                    closed_ms: 10_000,
                    half_open_ms: 60_000,
                },
                policy: Policy { proactive: self.proactive, ..Policy::default() },
                map: map.clone(),
            })
        });
        let mut forwarding = Forwarding {
            configuration: 1,
            ports: [wire(1), wire(0), PortRole::Underlay].into(),
            interfaces: [].into(),
            endpoints: [Endpoint {
                id: 0x1122_3344_5566_7788,
                attachment_id: 7,
                gateway: Some(GatewayId(0)),
                kind: EndpointKind::Wire,
            }]
            .into(),
            gateways: gateways.collect(),
            targets: self.targets.iter().cloned().map(Some).collect(),
            conditions: conditions.into(),
            underlay: Underlay {
                port: PortId(2),
                address: TUNNEL.to_bits(),
                mtu: 1600,
                ..Underlay::default()
            },
        };
        forwarding.prepare();
        ToWorker::Forwarding(Arc::new(forwarding))
    }

    /// Leaves messages in the worker's ring.
    pub fn tell(&mut self, messages: Vec<ToWorker>) {
        for message in messages {
            assert!(self.control.push(message).is_ok(), "the ring has room");
        }
    }

    /// Takes what the worker has to say.
    pub fn hear(&mut self) {
        while self.events.pop().is_ok() {}
    }

    /// So many rounds, each with a full burst, and how long each took.
    pub fn rounds(&mut self, count: usize) -> Vec<Duration> {
        (0..count).map(|_| self.round(ACK)).collect()
    }

    fn round(&mut self, flags: u8) -> Duration {
        let burst = self.pool.len() - BURST;
        for mut buf in self.pool.drain(burst..) {
            // An odd step goes through all flows, and never to a neighbour in the table.
            let flow = self.next.wrapping_mul(0x9e37_79b1) % self.flows;
            self.next += 1;
            segment(&mut buf, flow, flags);
            self.worker.ports_mut()[0].arriving.push_back(buf);
        }
        let start = self.clock.cycles();
        let now = self.clock.now().plus(self.ahead);
        black_box(self.worker.round(now, start));
        let took = self.clock.cycles() - start;
        for port in self.worker.ports_mut() {
            // To the far end: the buffer taken next is the one that was used longest ago.
            self.pool.splice(0..0, port.sent.drain(..));
        }
        assert_eq!(self.pool.len(), 1024, "every packet went through");
        self.clock.duration_of(took)
    }

    /// Lets all flows end at once, and takes the round without packets that 99 of a hundred stay below, of those
    /// in which the ageing hand ends as many as it may, in microseconds.
    pub fn all_end(&mut self) -> f64 {
        self.ahead = TCP_IDLE_MS + 1;
        let mut times = Vec::new();
        while self.worker.flows().table.count(flowgate::flow::FlowState::Established) > 0 {
            let start = self.clock.cycles();
            let now = self.clock.now().plus(self.ahead);
            black_box(self.worker.round(now, start));
            times.push(self.clock.duration_of(self.clock.cycles() - start));
            self.ahead += 1;
        }
        times.sort_unstable();
        times[times.len() * 99 / 100].as_secs_f64() * 1e6
    }
}

fn address(n: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a09_0101 + u32::from(n))
}

fn target(n: u16, gateway: u16) -> Target {
    let [high, low] = n.to_be_bytes();
    let mac = MacAddr([2, 0, 0, 1, high, low]);
    Target {
        generation: 0,
        address: address(n).to_bits(),
        gateway: Some(GatewayId(gateway)),
        template: Some(OuterTemplate::new(GATEWAY_MAC, mac, TUNNEL, address(n))),
    }
}

/// SplitMix64's output function.
fn mixed(n: u64) -> u64 {
    let x = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A segment of a flow's client, as it arrives at the wire.
fn segment(buf: &mut RingBuf, flow: u64, flags: u8) {
    let frame = buf.renew(FRAME_LEN);
    let (link, ip) = frame.split_at_mut(ethernet::HEADER_LEN);
    link.copy_from_slice(&[2, 0, 0, 0, 0, 0x5e, 2, 0, 0, 0, 0, 0xc1, 8, 0]);
    let [a, b, c, d, e, f, g, _] = mixed(flow).to_be_bytes();
    let len = INNER_LEN.to_be_bytes();
    ip[..12].copy_from_slice(&[0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, 6, 0, 0]);
    ip[12..20].copy_from_slice(&[10, a, b, c, 198, 51, d, e]);
    let checksum = Sum::ZERO.bytes(&ip[..20]).checksum();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip[20..40]
        .copy_from_slice(&[f, g, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
    ip[40..].fill(0xab);
}
