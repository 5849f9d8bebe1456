//! The fast path: the packet that nearly every packet is.
//!
//! A whole TCP or UDP packet without options in its IP header, no SYN, FIN or reset, of a flow that is
//! established, owes nothing and whose target is in, at a wire: such a packet changes nothing but the time at which
//! its flow was last seen, and what becomes of it needs no [`decide`](super::decide::decide). Here it is read
//! plainly ([`Plain`]), held against its flow's entry, and sent, in both directions. Everything else, and
//! whatever is in doubt, is left to the general way, which would do with these packets exactly the same: the
//! tests of `tests/pipeline` run both against each other. The [`pipeline`](super::pipeline) calls
//! [`Wire::read`], [`Pipeline::express`] and [`Pipeline::express_back`] and knows nothing else of this.

use super::arrival::Arrival;
use super::counters::DropReason;
use super::decide::{Debts, Facts};
use super::flows::{FirstPacket, NoRoom};
use super::forwarding::{Condition, Forwarding, Gateway, PortRole, Underlay};
use super::outbound::Fate;
use super::pipeline::Pipeline;
use super::sizes::room;
use crate::balance::Choice;
use crate::flow::{Cookie, Direction, FlowFlags, FlowKey, FlowState, Guess, LinkId, Probe, Table};
use crate::id::{EndpointId, GatewayId, PortId};
use crate::io::{BURST, PacketBuf};
use crate::wire::ethernet::{self, ethertype};
use crate::wire::geneve::Head;
use crate::wire::geneve::outer::OUTER_LEN;
use crate::wire::geneve::plain::Plain as PlainAnswer;
use crate::wire::packet::{Fragment, IpVersion, Kind, Packet, protocol};
use crate::wire::plain::Plain;
use crate::wire::tcp::TcpFlags;

#[expect(clippy::cast_possible_truncation, reason = "14 and 82")]
const LINK_LEN: u32 = ethernet::HEADER_LEN as u32;
#[expect(clippy::cast_possible_truncation, reason = "14 and 82")]
const FRONT_LEN: u32 = OUTER_LEN as u32;

/// Control bits that change a flow, or may.
const TURNS: TcpFlags = TcpFlags::SYN.union(TcpFlags::FIN).union(TcpFlags::RST);

/// Marks of a flow whose packets are not all alike.
const MARKS: FlowFlags = FlowFlags::FAIL_OPEN.union(FlowFlags::OWED_LOW).union(FlowFlags::OWED_HIGH);

/// What is known of one packet of a burst, from stage to stage.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Its flow.
    pub key: FlowKey,
    /// The look-up of its flow after the first stage.
    pub probe: Probe,
    /// And after the second.
    pub guess: Guess,
    /// Which way it goes through the stages.
    pub course: Course,
    /// Bytes of its IP packet.
    total_len: u32,
    /// Its way, in the terms of `key`.
    direction: Direction,
    /// Its control bits; empty for UDP.
    tcp_flags: TcpFlags,
    /// The state that its flow is in while nothing happens but packets.
    steady: FlowState,
    /// It was read with care.
    careful: bool,
}

/// Which way a packet goes through the stages of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// It was read plainly.
    Plain,
    /// It was read with care.
    Careful,
    /// It follows another packet (M-4, M-5).
    Follower,
    /// It is no packet of a flow.
    Unread,
    /// It is another worker's.
    Others,
}

/// The lanes of a burst.
pub type Lanes = Box<[Lane; BURST]>;

impl Lane {
    /// What no packet was read into.
    pub const EMPTY: Lane = Lane {
        key: FlowKey::NONE,
        probe: Probe::NONE,
        guess: Guess::NONE,
        course: Course::Unread,
        total_len: 0,
        direction: Direction::LowToHigh,
        tcp_flags: TcpFlags::empty(),
        steady: FlowState::Other,
        careful: false,
    };

    /// Nothing was read yet.
    pub fn forget(&mut self) {
        (self.course, self.careful, self.probe) = (Course::Unread, false, Probe::NONE);
    }

    /// Whether it was read plainly, and is this worker's.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.course == Course::Plain
    }

    /// What decides over it.
    #[inline]
    fn facts(&self) -> Facts {
        let tcp = self.key.protocol() == protocol::TCP;
        Facts { tcp, flags: self.tcp_flags, direction: self.direction }
    }

    /// Whether one of its addresses may be of those that never cross a router: multicast and above, 169.254.0.0/16,
    /// fe80::/9, the unspecified address.
    #[inline]
    fn may_be_link_scope(&self) -> bool {
        let four = self.key.version() == 4;
        [Direction::LowToHigh, Direction::HighToLow].into_iter().any(|way| {
            let (address, _) = self.key.source(way);
            if four {
                address >= 0xe000_0000 || address >> 16 == 0xa9fe
            } else {
                address >> 120 == 0xff || address >> 119 == 0xfe80 >> 7 || address == 0
            }
        })
    }

    /// Whether it was read with care, whosever it is.
    pub fn was_careful(&self) -> bool {
        self.careful
    }

    /// Notes the flow of a packet that was read with care, and begins to look it up.
    pub fn read_with_care(&mut self, table: &Table, arrival: &Arrival) {
        self.key = arrival.key;
        self.start(table);
        (self.course, self.careful) = (Course::Careful, true);
    }

    #[inline(always)]
    fn note<Address>(&mut self, plain: &Plain<Address>) {
        self.course = Course::Plain;
        (self.total_len, self.tcp_flags) = (plain.total_len.into(), plain.tcp_flags);
        self.steady = match plain.protocol {
            protocol::TCP => FlowState::Established,
            _ => FlowState::Other,
        };
    }

    /// First stage of the flow's look-up.
    #[inline(always)]
    fn start(&mut self, table: &Table) {
        self.probe = table.start(table.hash(&self.key));
    }
}

/// Second stage of the look-ups of a burst.
#[inline(never)]
pub fn guess_entries(table: &Table, lanes: &mut [Lane]) {
    for lane in lanes {
        lane.guess = table.guess(lane.probe);
    }
}

/// What all packets of a burst from one port of a wire have in common.
#[derive(Clone, Copy)]
pub struct Wire<'a> {
    port: PortId,
    endpoint_id: EndpointId,
    gateway_id: GatewayId,
    gateway: &'a Gateway,
    underlay: &'a Underlay,
    /// When a flow of UDP has been silent for too long, and one of TCP.
    idle_ms: [u32; 2],
    /// GENEVE's part of the outer headers for IPv4 and for IPv6.
    heads: [Head; 2],
    /// The longest packet that fits the target side; 0, and so none, where every packet needs more than
    /// encapsulation.
    longest: u32,
}

impl<'a> Wire<'a> {
    /// `None` if the port is not a wire's, or the wire's load balancer is not there.
    #[inline]
    pub fn of(forwarding: &'a Forwarding, port: PortId) -> Option<Wire<'a>> {
        let PortRole::Wire { endpoint, .. } = forwarding.ports.get(port.index())? else { return None };
        let (gateway_id, gateway) = forwarding.gateway_of(*endpoint)?;
        let underlay = &forwarding.underlay;
        let more = underlay.udp_checksum || gateway.policy.proactive;
        let named = forwarding.endpoint(*endpoint)?;
        let head = |protocol| Head::new(protocol, named.id, named.attachment_id);
        Some(Wire {
            port,
            endpoint_id: *endpoint,
            gateway_id,
            gateway,
            underlay,
            idle_ms: [gateway.timers.other_idle_ms, gateway.timers.tcp_idle_ms],
            heads: [head(ethertype::IPV4), head(ethertype::IPV6)],
            longest: if more { 0 } else { room(underlay.mtu).into() },
        })
    }

    /// First stage: reads a burst plainly and begins the look-ups of its flows. What is not plain, or is for
    /// [`read_arrival`](super::arrival::read_arrival) to judge, is [`Course::Unread`]; returns whether there is
    /// any.
    #[inline(never)]
    pub fn read_burst<B: PacketBuf>(&self, table: &Table, burst: &[B], lanes: &mut [Lane]) -> bool {
        let mut unread = false;
        for (packet, lane) in burst.iter().zip(lanes) {
            if !self.read(table, packet, lane) {
                lane.forget();
                unread = true;
            }
        }
        unread
    }

    /// Reads a frame plainly into `lane` and begins to look its flow up. False: it is not plain, and what is in
    /// `lane` means nothing.
    #[inline(always)]
    fn read<B: PacketBuf>(&self, table: &Table, packet: &B, lane: &mut Lane) -> bool {
        if !packet.is_contiguous() {
            return false;
        }
        let Some((link, ip)) = packet.bytes().split_first_chunk::<{ ethernet::HEADER_LEN }>() else {
            return false;
        };
        const IPV4: [u8; 2] = ethertype::IPV4.to_be_bytes();
        const IPV6: [u8; 2] = ethertype::IPV6.to_be_bytes();
        match [link[12], link[13]] {
            IPV4 => self.read_v4(table, ip, lane),
            IPV6 if self.gateway.dualstack => self.read_v6(table, ip, lane),
            _ => false,
        }
    }

    #[inline(always)]
    fn read_v4(&self, table: &Table, ip: &[u8], lane: &mut Lane) -> bool {
        let Some(plain) = Plain::<u32>::read(ip) else { return false };
        let Plain { src, dst, ports, protocol, .. } = plain;
        (lane.key, lane.direction) = FlowKey::of_v4(self.endpoint_id, protocol, src, dst, ports);
        lane.note(&plain);
        lane.start(table);
        true
    }

    #[inline(never)]
    fn read_v6(&self, table: &Table, ip: &[u8], lane: &mut Lane) -> bool {
        let Some(plain) = Plain::<u128>::read(ip) else { return false };
        (lane.key, lane.direction) = key_of_v6(self.endpoint_id, &plain);
        lane.note(&plain);
        lane.start(table);
        true
    }

    /// GENEVE's part of the outer headers of this packet.
    #[inline(always)]
    fn head(&self, lane: &Lane) -> &Head {
        // 4 or 6.
        &self.heads[usize::from(lane.key.version() >> 1 & 1)]
    }

    /// A packet that was read plainly, as the general way has it.
    pub fn arrival(&self, lane: &Lane) -> Arrival {
        let (src, src_port) = lane.key.source(lane.direction);
        let (dst, dst_port) = lane.key.destination(lane.direction);
        let (version, header_len, ethertype) = match lane.key.version() {
            4 => (IpVersion::V4, 20, ethertype::IPV4),
            _ => (IpVersion::V6, 40, ethertype::IPV6),
        };
        let protocol = lane.key.protocol();
        Arrival {
            packet: Packet {
                src,
                dst,
                total_len: lane.total_len,
                header_len,
                src_port,
                dst_port,
                protocol,
                version,
                fragment: Fragment::Whole,
                kind: if protocol == protocol::TCP { Kind::Tcp } else { Kind::Datagram },
                tcp_flags: lane.tcp_flags,
            },
            key: lane.key,
            hash: lane.probe.hash(),
            direction: lane.direction,
            port: self.port,
            endpoint: self.endpoint_id,
            interface: None,
            gateway: self.gateway_id,
            ethertype,
            #[expect(clippy::cast_possible_truncation, reason = "14")]
            link_len: ethernet::HEADER_LEN as u8,
        }
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// Third stage: makes packets ready for their flows' targets, in place and from the front, until one needs
    /// more than that; returns how many. What they are is noted in the port's queue, which then
    /// [takes](super::outbound::Outbound::take_noted) them.
    #[inline(never)]
    pub(super) fn express(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        packets: &mut [B],
        lanes: &[Lane],
    ) -> usize {
        let Pipeline { flows, conditions, outbound, now, worker, .. } = self;
        let fates = outbound.free_fates(wire.underlay.port);
        let cookies = flows.table.cookie_maker();
        let (now, worker, targets) = (*now, *worker, &*forwarding.targets);
        let mut ready = 0;
        for ((packet, lane), fate) in packets.iter_mut().zip(lanes).zip(fates) {
            let Some((id, entry)) = flows.table.guessed_mut(lane.guess, &lane.key) else { break };
            // A packet stamped after now is in doubt.
            let silent_for = now.0.wrapping_sub(entry.last_seen.0);
            if !lane.is_plain()
                || !entry.is_in(lane.steady)
                || entry.flags.intersects(MARKS)
                || lane.tcp_flags.intersects(TURNS)
                || silent_for >= wire.idle_ms[usize::from(lane.steady == FlowState::Established)]
                || lane.total_len > wire.longest
                || !conditions.is_in(entry.target)
            {
                break;
            }
            let target_id = entry.target;
            let Some(Some(target)) = targets.get(target_id.index()) else { break };
            let Some(template) = &target.template else { break };
            let Some(header) = packet.bytes().first_chunk() else { break };
            let link = entry.link[lane.direction.index()];
            if target.generation != entry.target_generation || !flows.links.is_plain(link, wire.port, header)
            {
                break;
            }
            let Some(front) = packet.replace_front(LINK_LEN, lane.total_len) else { break };
            let source_port = wire.underlay.source_port(template, worker, lane.probe.hash());
            template.write_before(
                wire.head(lane),
                front,
                (lane.total_len, source_port, cookies.cookie(id, entry).0),
            );
            entry.last_seen = now;
            *fate = Fate::Forwarded { target: target_id, bytes: lane.total_len };
            ready += 1;
        }
        ready
    }

    /// Begins the flow of a packet that was read plainly and has none, and sends it to the flow's target (F-4,
    /// F-8); if more than that is to be done with it, or another thing, gives it back untouched.
    #[inline(never)]
    pub(super) fn begin(
        &mut self,
        forwarding: &Forwarding,
        wire: &Wire<'_>,
        mut packet: B,
        lane: &Lane,
    ) -> Option<B> {
        let policy = &wire.gateway.policy;
        let facts = lane.facts();
        let begins = if facts.tcp { facts.opens() && !policy.mss_clamp } else { true };
        if !begins || lane.total_len > wire.longest || lane.may_be_link_scope() {
            return Some(packet);
        }
        let choice_hash = self.choice_seed.choice(&lane.key, policy.stickiness);
        let healthy = |target| self.conditions.of(target) == Condition::Healthy;
        let Some(Choice { target: target_id, fail_open: false }) =
            wire.gateway.map.choose(choice_hash, healthy)
        else {
            return Some(packet);
        };
        let Some(Some(target)) = forwarding.targets.get(target_id.index()) else { return Some(packet) };
        let Some(template) = &target.template else { return Some(packet) };
        let Some(header) = packet.bytes().first_chunk() else { return Some(packet) };
        let Some(link) = self.flows.links.intern_plain(wire.port, header) else { return Some(packet) };
        let first = FirstPacket { key: &lane.key, hash: lane.probe.hash(), facts };
        let debts = (false, Debts::NONE);
        let whose = (target_id, target.generation);
        let cookie = match self.flows.begin(&first, whose, link, debts, self.now, &self.counters) {
            Ok(id) => self.flows.table.cookie(id),
            Err(NoRoom) => {
                self.counters.gateway(wire.gateway_id).stateless_packets.add(1);
                self.flows.stateless_cookie(self.worker, first.hash, lane.direction, link) // F-12
            }
        };
        let Some(front) = packet.replace_front(LINK_LEN, lane.total_len) else {
            self.counters.dropped(DropReason::NoHeadroom);
            return None;
        };
        let source_port = wire.underlay.source_port(template, self.worker, first.hash);
        template.write_before(wire.head(lane), front, (lane.total_len, source_port, cookie.0));
        let fate = Fate::Forwarded { target: target_id, bytes: lane.total_len };
        self.outbound.send(wire.underlay.port, packet, fate, &self.counters);
        None
    }

    /// Sends a packet that an appliance returned out of its wire, if nothing but that is to be done with it;
    /// else gives it back untouched.
    #[inline(always)]
    pub(super) fn express_back(
        &mut self,
        forwarding: &Forwarding,
        mut packet: B,
        answer: &PlainAnswer,
    ) -> Option<B> {
        let Some(id) = self.flows.live_by_cookie(Cookie(answer.cookie)) else { return Some(packet) };
        let entry = self.flows.table.entry(id);
        let (key, target_id) = (entry.key(), entry.target);
        let from_target = forwarding
            .target(target_id, entry.target_generation)
            .is_some_and(|target| target.address == answer.source);
        let of_endpoint =
            forwarding.endpoint(key.endpoint()).is_some_and(|endpoint| endpoint.id == answer.endpoint_id);
        let inner = packet.bytes().get(OUTER_LEN..usize::from(answer.end)).unwrap_or_default();
        let Some((inner_key, direction, total_len, flags)) = inner_flow(key.endpoint(), inner) else {
            return Some(packet);
        };
        let link = entry.link[direction.index()];
        if !(from_target && of_endpoint && inner_key == *key)
            || flags.intersects(TURNS)
            || link == LinkId::NONE
        {
            return Some(packet);
        }
        let Some((came_by, header)) = self.flows.links.plain(link) else { return Some(packet) };
        let Some(PortRole::Wire { peer, .. }) = forwarding.ports.get(came_by.index()) else {
            return Some(packet);
        };
        let Some(front) = packet.replace_front(FRONT_LEN, total_len.into()) else { return Some(packet) };
        *front = header;
        let fate = Fate::Delivered { target: target_id, bytes: total_len.into() };
        self.outbound.send(*peer, packet, fate, &self.counters);
        None
    }
}

/// Flow, direction, length and control bits of a plain inner packet.
#[inline(always)]
fn inner_flow(endpoint: EndpointId, ip: &[u8]) -> Option<(FlowKey, Direction, u16, TcpFlags)> {
    if ip.first()? >> 4 == 4 {
        let Plain { src, dst, ports, protocol, total_len, tcp_flags } = Plain::<u32>::read(ip)?;
        let (key, direction) = FlowKey::of_v4(endpoint, protocol, src, dst, ports);
        return Some((key, direction, total_len, tcp_flags));
    }
    let plain = Plain::<u128>::read(ip)?;
    let (key, direction) = key_of_v6(endpoint, &plain);
    Some((key, direction, plain.total_len, plain.tcp_flags))
}

#[inline(always)]
fn key_of_v6(endpoint: EndpointId, plain: &Plain<u128>) -> (FlowKey, Direction) {
    let Plain { src, dst, ports, protocol, .. } = *plain;
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let (src_port, dst_port) = ((ports >> 16) as u16, ports as u16);
    FlowKey::new(endpoint, 6, protocol, src, dst, src_port, dst_port)
}
