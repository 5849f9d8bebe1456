//! The moves of a game.

use super::Game;
use super::frames::{icmp_error, piece, segment, spoil};
use crate::bytes::Bytes;
use crate::harness::*;
use crate::network::*;
use crate::reading::be16;
use flowgate::datapath::capture::Bounds;
use flowgate::datapath::capture::filter::Filter;
use flowgate::datapath::counters::Outcome;
use flowgate::datapath::forwarding::{Condition, Failover, Forwarding, Policy, ResetGuards, UnknownFlow};
use flowgate::datapath::host::FromHost;
use flowgate::datapath::messages::{FlowFilter, ToWorker};
use flowgate::flow::{FlowState, Timers, Tuple};
use flowgate::id::{GatewayId, InterfaceId, TargetId};
use flowgate::io::memory::MemoryBuf;
use flowgate::wire::ethernet::MacAddr;
use std::net::IpAddr;

const CONDITIONS: [Condition; 5] =
    [Condition::Initial, Condition::Healthy, Condition::Unhealthy, Condition::Draining, Condition::Removed];
/// Idle times and delays are some seconds or minutes: a game passes over them in few moves.
const SPANS: [u32; 8] = [1, 50, 1000, 1001, 11_000, 61_000, 121_000, 400_000];
/// Frames of a burst.
const BURST: usize = 8;

impl Game {
    /// One move.
    pub fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(24) {
            0..=4 => self.arrives(bytes),
            5 => self.arrives_spoiled(bytes),
            6..=9 => self.answers(bytes),
            10 => self.answers_spoiled(bytes),
            11 => self.fragment(bytes),
            12 => self.about_a_packet(bytes),
            13 => self.burst(bytes),
            14 => self.raw(bytes),
            15 => self.condition(bytes),
            16 => self.policy(bytes),
            17 => self.network(bytes),
            18 => self.time(bytes),
            19 => self.watchers(bytes),
            20 => self.neighbour(bytes),
            21 => self.host(bytes),
            22 => self.room(bytes),
            _ => self.scan(bytes),
        }
        let out = self.bench.take();
        self.came_out(out);
    }

    /// Puts one frame in. It is answered once at most, by no longer a reset than it was itself, and by no longer an ICMP error
    /// than it and those that came to nothing before it were.
    fn put(&mut self, worker: usize, port: usize, frame: &[u8]) {
        let out = self.bench.take();
        self.came_out(out);
        let (before, held) = (self.answered(), self.held());
        let out = self.bench.put_at(worker % self.bench.workers.len(), port, frame);
        let answers = self.answered() - before;
        // With what waited for a next hop or a first fragment more may be settled at once.
        assert!(answers <= 1 + held as u64, "{answers} answers to one packet");
        match (&out[..], answers, held) {
            ([(by, answer)], 1, 0) if is_reset(answer) => {
                let longer = answer.len() > frame.len() && *by == port;
                assert!(!longer, "a reset of {} bytes for {}", answer.len(), frame.len());
            }
            ([(_, error)], 1, 0) => {
                let (error, about) = (packet_len(error), packet_len(frame));
                assert!(
                    error <= about + self.untold,
                    "an error of {error} bytes for {about} and {}",
                    self.untold
                );
                self.untold -= error.saturating_sub(about);
            }
            _ if out.is_empty() || held > 0 => self.untold += packet_len(frame),
            _ => {}
        }
        self.came_out(out);
    }

    fn answered(&self) -> u64 {
        self.bench.outcome(Outcome::Answered)
    }

    fn held(&self) -> usize {
        self.bench.workers.iter().map(|worker| worker.unsettled()).sum()
    }

    /// A side's port; wire 1's have the same conversations as wire 0's (O-4).
    fn port(&self, side: usize, which: u8) -> usize {
        let other = !self.is_routed && which & 2 != 0;
        if other { wire(1)[usize::from(side == RIGHT)] } else { side }
    }

    fn arrives(&mut self, bytes: &mut Bytes<'_>) {
        let (side, segment) = segment(bytes, self.is_routed);
        let which = bytes.byte();
        self.put(usize::from(which & 1), self.port(side, which), &segment.frame());
    }

    fn arrives_spoiled(&mut self, bytes: &mut Bytes<'_>) {
        let (side, segment) = segment(bytes, self.is_routed);
        let (which, mut frame) = (bytes.byte(), segment.frame());
        spoil(bytes, &mut frame);
        self.put(usize::from(which & 1), self.port(side, which), &frame);
    }

    fn fragment(&mut self, bytes: &mut Bytes<'_>) {
        let (side, segment) = segment(bytes, self.is_routed);
        let (which, frame) = (bytes.byte(), piece(bytes, &segment));
        self.put(usize::from(which & 1), self.port(side, which), &frame);
    }

    fn about_a_packet(&mut self, bytes: &mut Bytes<'_>) {
        let (side, segment) = segment(bytes, self.is_routed);
        let (which, frame) = (bytes.byte(), icmp_error(bytes, &segment));
        let other = if side == LEFT { RIGHT } else { LEFT };
        self.put(usize::from(which & 1), self.port(other, which), &frame);
    }

    fn raw(&mut self, bytes: &mut Bytes<'_>) {
        let port = bytes.below(3);
        let frame = bytes.some().to_vec();
        self.put(0, port, &frame);
    }

    /// A frame that a target was sent, as it comes back.
    fn returned(&self, bytes: &mut Bytes<'_>) -> Option<Vec<u8>> {
        let back = bytes.below(super::REMEMBERED);
        let sent = self.sent.iter().rev().nth(back)?;
        Some(answer(sent, None))
    }

    fn answers(&mut self, bytes: &mut Bytes<'_>) {
        let worker = bytes.byte();
        if let Some(frame) = self.returned(bytes) {
            self.put(worker.into(), UNDER, &frame);
        }
    }

    fn answers_spoiled(&mut self, bytes: &mut Bytes<'_>) {
        let worker = bytes.byte();
        let Some(mut frame) = self.returned(bytes) else { return };
        if bytes.bit() {
            // Another packet inside: the flow's other direction, an appliance's own, or a stranger's.
            let (_, segment) = segment(bytes, false);
            frame = answer(&answer(&frame, None), Some(&segment.ip()));
        }
        spoil(bytes, &mut frame);
        self.put(worker.into(), UNDER, &frame);
    }

    /// Frames that arrive together, at several ports of several workers, in one piece or two.
    fn burst(&mut self, bytes: &mut Bytes<'_>) {
        let out = self.bench.take();
        self.came_out(out);
        let (before, held, many) = (self.answered(), self.held(), bytes.below(BURST) + 1);
        let mut frames = 0;
        for _ in 0..many {
            let (what, worker) = (bytes.byte(), usize::from(bytes.byte()) % self.bench.workers.len());
            let (port, frame) = if what & 1 == 0 {
                let (side, segment) = segment(bytes, self.is_routed);
                (self.port(side, what), segment.frame())
            } else {
                let Some(frame) = self.returned(bytes) else { continue };
                (UNDER, frame)
            };
            let buf = match what & 4 {
                0 => MemoryBuf::new(&frame),
                _ => MemoryBuf::in_pieces(&frame, usize::from(bytes.byte()).min(frame.len())),
            };
            // The same again and again, as one conversation sends.
            for _ in 0..=what >> 5 {
                frames += 1;
                self.untold += packet_len(&frame);
                self.bench.workers[worker].ports_mut()[port].arriving.push_back(buf.clone());
            }
        }
        self.bench.rounds();
        let answers = self.answered() - before;
        assert!(answers <= frames + held as u64, "{answers} answers to {frames} packets");
    }

    fn condition(&mut self, bytes: &mut Bytes<'_>) {
        let (target, condition) = (bytes.below(4), bytes.of(&CONDITIONS));
        if target < self.bench.conditions.len() {
            self.bench.set_condition(u16::try_from(target).unwrap(), condition);
        } else {
            // Of a target that is not there, or of who had its slot before.
            let generation = bytes.byte().into();
            let target = TargetId(bytes.word());
            self.bench.tell(|| ToWorker::Condition { target, generation, condition, sequence: 9 });
        }
    }

    fn policy(&mut self, bytes: &mut Bytes<'_>) {
        let (on, how) = (bytes.byte(), bytes.byte());
        let rebalance = how & 1 != 0;
        self.laws.may_move |= rebalance;
        self.bench.policy = Policy {
            stickiness: [Tuple::Five, Tuple::Two, Tuple::Three, Tuple::Five][usize::from(how >> 1 & 3)],
            failover: if rebalance { Failover::Rebalance } else { Failover::NoRebalance },
            reset_on_unhealthy: on & 1 != 0,
            reset_on_deregistration: on & 2 != 0,
            reset_on_idle: on & 4 != 0,
            unknown_flow: [UnknownFlow::Drop, UnknownFlow::Adopt, UnknownFlow::Reset]
                [usize::from(how >> 3) % 3],
            syn_reselect: on & 8 != 0,
            both_ends: on & 16 != 0,
            proactive: on & 32 != 0,
            mss_clamp: on & 64 != 0,
            guards: match on & 128 {
                0 => ResetGuards::default(),
                _ => ResetGuards {
                    hold_ms: bytes.word().into(),
                    min_healthy_percent: u32::from(bytes.byte()) % 101,
                    max_per_second: bytes.byte().into(),
                },
            },
            no_flow_resets_per_second: if on & 128 == 0 { 0 } else { 20 },
        };
        if how & 128 != 0 {
            let mut span = || bytes.of(&SPANS);
            let (tcp_idle_ms, other_idle_ms) = (span(), span());
            let (closed_ms, half_open_ms) = (span(), span());
            self.bench.timers = Timers { tcp_idle_ms, other_idle_ms, closed_ms, half_open_ms };
        }
        self.bench.publish();
    }

    /// Another configuration: targets that came or went, the target side, the load balancer itself.
    fn network(&mut self, bytes: &mut Bytes<'_>) {
        let (what, which) = (bytes.byte(), bytes.byte());
        self.bench.dualstack = what & 1 == 0;
        self.bench.udp_checksum = what & 2 != 0;
        self.bench.mtu = [1600, 1568, 1300, 668][usize::from(what >> 2 & 3)];
        self.laws.mtu = self.laws.mtu.max(self.bench.mtu);
        if what & 16 != 0 {
            let targets = self.targets.max(1) + u16::from(which & 1);
            self.bench.targets = targets;
            self.bench.conditions.resize(targets.into(), Condition::Initial);
        }
        let target = usize::from(which >> 1 & 3);
        self.bench.publish_but(|forwarding: &mut Forwarding| {
            if what & 32 != 0
                && let Some(Some(target)) = forwarding.targets.get_mut(target)
            {
                // Nobody knows where it is any more.
                target.template = None;
            }
            if what & 64 != 0
                && let Some(target) = forwarding.targets.get_mut(target)
            {
                // It is gone, though flows may still be of it; or another has its slot.
                match (which & 8 != 0, target.as_mut()) {
                    (true, Some(target)) => target.generation += 1,
                    _ => *target = None,
                }
            }
            if what & 128 != 0 {
                match which >> 4 & 3 {
                    0 => forwarding.gateways[0] = None,
                    1 => forwarding.endpoints[0].gateway = Some(GatewayId(2)),
                    2 => forwarding.endpoints[0].gateway = None,
                    _ => forwarding.prepare(),
                }
            }
        });
    }

    fn time(&mut self, bytes: &mut Bytes<'_>) {
        let span = bytes.of(&SPANS);
        // With as many rounds as it takes until nobody waits whose time is over: else that comes between a question and
        // what it foresees.
        if bytes.bit() {
            self.bench.tell(|| ToWorker::AdvanceClock(span));
            self.bench.pass(0);
        } else {
            self.bench.pass(span);
        }
    }

    /// Captures, flow logs and news of flows, on and off.
    fn watchers(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.below(5) {
            0 if !self.bench.watched_from_the_start => {
                let bounds = Bounds { snap_len: 128, rate: u32::from(bytes.byte()) * 100, ring: 4096 };
                self.bench.capture_bounded(Filter::default(), bounds, false);
                self.bench.watched_from_the_start = false;
            }
            1 if !self.bench.watched_from_the_start => self.bench.watched = None,
            2 => self.bench.start_flow_log(bytes.byte().into(), 1, bytes.maybe(|bytes| bytes.of(&SPANS))),
            3 => self.bench.stop_flow_log(),
            _ => {
                let on = bytes.bit();
                self.bench.tell(|| ToWorker::TellBegun(on));
            }
        }
        // What is reported to nobody finds no room, and that is no packet's affair.
        if bytes.bit() {
            self.bench.reports();
        }
    }

    fn neighbour(&mut self, bytes: &mut Bytes<'_>) {
        let known: [(InterfaceId, &str); 8] = [
            (CLIENTS, CLIENT),
            (CLIENTS, CLIENT6),
            (SERVERS, "203.0.113.253"),
            (SERVERS, "203.0.113.254"),
            (SERVERS, "fe80::53"),
            (OTHER_CLIENTS, CLIENT),
            (OTHER_SERVERS, "203.0.113.253"),
            (UNDERLAY, "10.9.1.1"),
        ];
        let which = bytes.byte();
        for (n, (interface, address)) in known.into_iter().enumerate() {
            if which >> n & 1 == 1 {
                let address: IpAddr = address.parse().unwrap();
                let mac = bytes.maybe(|bytes| MacAddr([2, 0, 0, 0, 0, bytes.byte()]));
                self.bench.tell(|| ToWorker::Neighbour { interface, address, mac });
            }
        }
    }

    /// A frame of the host's, and what the host was given is taken, or not.
    fn host(&mut self, bytes: &mut Bytes<'_>) {
        let interface = InterfaceId(bytes.below(7).try_into().unwrap());
        let (_, segment) = segment(bytes, false);
        if bytes.bit() {
            self.bench.to_host.iter_mut().for_each(|ring| while ring.pop().is_ok() {});
        }
        let packet = MemoryBuf::new(&segment.frame());
        if self.bench.from_host.push(FromHost { interface, packet }).is_ok() {
            self.bench.rounds();
        }
    }

    /// A port that takes only so many frames.
    fn room(&mut self, bytes: &mut Bytes<'_>) {
        let (port, room) = (bytes.below(3), bytes.maybe(|bytes| bytes.below(4)));
        for worker in &mut self.bench.workers {
            worker.ports_mut()[port].room = room;
        }
    }

    fn scan(&mut self, bytes: &mut Bytes<'_>) {
        let filter = FlowFilter {
            scan: 5,
            target: bytes.maybe(|bytes| TargetId(bytes.byte().into())),
            protocol: bytes.maybe(Bytes::byte),
            port: bytes.maybe(Bytes::word),
            address: bytes.maybe(|_| CLIENT.parse().unwrap()),
            state: bytes
                .maybe(|bytes| bytes.of(&[FlowState::HalfOpen, FlowState::Established, FlowState::Expired])),
            ended_by: bytes.maybe(|_| Timers { tcp_idle_ms: 10, ..Timers::default() }),
            limit: bytes.byte().into(),
            ..FlowFilter::default()
        };
        self.bench.tell(|| ToWorker::ScanFlows(filter));
    }
}

/// Whether a frame is a TCP packet with RST.
fn is_reset(frame: &[u8]) -> bool {
    let mut at = 12;
    while matches!(crate::reading::be16(frame, at), Some(0x8100 | 0x88a8)) {
        at += 4;
    }
    let packet = frame.get(at + 2..).and_then(crate::reading::read);
    packet.is_some_and(|packet| packet.is_tcp() && packet.flags & RST != 0)
}

/// Bytes behind a frame's link header, or behind the headers of the tunnel.
fn packet_len(frame: &[u8]) -> usize {
    let is_tag = |at| matches!(be16(frame, at), Some(0x8100 | 0x88a8));
    let link = if !is_tag(12) {
        14
    } else if !is_tag(16) {
        18
    } else {
        22
    };
    let encapsulated = frame.len() >= 82 && be16(frame, 12) == Some(0x0800) && be16(frame, 36) == Some(6081);
    frame.len().saturating_sub(if encapsulated { 82 } else { link })
}
