//! The packets of a burst between the stages, and the stages that read them and look their flows up.

use super::super::arrival::Arrival;
use super::super::forwarding::{Forwarding, Gateway, PortRole, Underlay};
use super::super::sizes::room;
use super::{Course, key_of_v6};
use crate::flow::{Direction, FlowKey, FlowState, Guess, Probe, Starts, Table, V4Flows};
use crate::id::{EndpointId, GatewayId, PortId};
use crate::io::isa::{Isa, Stage};
use crate::io::{BURST, PacketBuf};
use crate::wire::ethernet::{self, ethertype};
use crate::wire::geneve::Head;
use crate::wire::ipv4;
use crate::wire::packet::{Fragment, IpVersion, Kind, Packet, protocol};
use crate::wire::plain::Plain;
use crate::wire::tcp::{self, TcpFlags};

/// What is known of one packet of a burst, from stage to stage.
///
/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Lane {
    /// Its flow.
    pub key: FlowKey,
    /// The look-up of its flow after the first stage.
    pub probe: Probe,
    /// And after the second.
    pub guess: Guess,
    /// Bytes of its IP packet.
    pub(super) total_len: u32,
    /// Which way it goes through the stages.
    pub course: Course,
    /// The state that its flow is in while nothing happens but packets; [`FlowState::Free`], and so none, where this
    /// one is not to be sent as it is.
    pub(super) steady: FlowState,
    /// Its control bits; empty for UDP.
    pub(super) tcp_flags: TcpFlags,
    /// It was read with care. Of a packet that is plain and this worker's it means nothing.
    pub(super) careful: bool,
    /// Its way, in the terms of `key`.
    pub(super) direction: Direction,
}

/// The lanes of a burst.
pub type Lanes = Box<[Lane; BURST]>;

impl Lane {
    /// What no packet was read into.
    pub const EMPTY: Lane = Lane {
        key: FlowKey::NONE,
        probe: Probe::NONE,
        guess: Guess::NONE,
        total_len: 0,
        course: Course::Unread,
        steady: FlowState::Free,
        tcp_flags: TcpFlags::empty(),
        direction: Direction::LowToHigh,
        careful: false,
    };

    /// Nothing was read yet.
    pub fn forget(&mut self) {
        (self.course, self.careful, self.probe) = (Course::Unread, false, Probe::NONE);
        self.steady = FlowState::Free;
    }

    /// Whether it was read plainly, and is this worker's.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.course == Course::Plain
    }

    /// Whether one of its addresses may be of those that never cross a router: multicast and above, 169.254.0.0/16,
    /// fe80::/9, the unspecified address.
    #[inline(always)]
    pub fn may_be_link_scope(&self) -> bool {
        if let Some([low, high]) = self.key.v4() {
            return high >= 0xe000_0000 || low >> 16 == 0xa9fe || high >> 16 == 0xa9fe;
        }
        [Direction::LowToHigh, Direction::HighToLow].into_iter().any(|way| {
            let (address, _) = self.key.source(way);
            address >> 120 == 0xff || address >> 119 == 0xfe80 >> 7 || address == 0
        })
    }

    /// Whether its flow is looked up here.
    pub fn has_flow(&self) -> bool {
        matches!(self.course, Course::Plain | Course::Careful)
    }

    /// Whether it was read with care, whosever it is.
    pub fn was_careful(&self) -> bool {
        self.careful
    }

    /// Another worker is to have it.
    pub fn hand_off(&mut self) {
        (self.careful, self.course) = (self.course == Course::Careful, Course::Others);
        self.steady = FlowState::Free;
    }

    /// Notes the flow of a packet that was read with care, and begins to look it up.
    pub fn read_with_care(&mut self, table: &Table, arrival: &Arrival) {
        self.key = arrival.key;
        self.start(table);
        (self.course, self.careful) = (Course::Careful, true);
    }

    #[inline(always)]
    fn note<Address>(&mut self, plain: &Plain<Address>, longest: u32) {
        (self.total_len, self.tcp_flags) = (plain.total_len.into(), plain.tcp_flags);
        self.course = Course::Plain;
        self.steady = match plain.protocol {
            _ if self.total_len > longest => FlowState::Free,
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
pub fn guess_entries(isa: Isa, table: &Table, lanes: &mut [Lane]) {
    isa.run(GuessEntries { table, lanes });
}

struct GuessEntries<'a> {
    table: &'a Table,
    lanes: &'a mut [Lane],
}

impl Stage for GuessEntries<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let GuessEntries { table, lanes } = self;
        let (starts, mut away) = (table.starts(), Away(0));
        for (place, lane) in lanes.iter_mut().enumerate() {
            let probe = lane.probe;
            lane.guess = starts.guess_at_home(probe, || away.note(table, probe, place));
        }
        // The other buckets have come in the meantime.
        for place in away {
            if let Some(lane) = lanes.get_mut(place)
                && !lane.guess.is_some()
            {
                lane.guess = table.guess_away(lane.probe);
            }
        }
    }
}

/// Places of the lanes whose flows may be away from home, bit by bit: few.
struct Away(u64);

const _: () = assert!(BURST <= u64::BITS as usize);

impl Away {
    /// Out of line, so that the loop is no longer for what seldom is.
    #[cold]
    #[inline(never)]
    fn note(&mut self, table: &Table, probe: Probe, place: usize) {
        table.prefetch_away(probe);
        self.0 |= 1 << place;
    }
}

impl Iterator for Away {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let place = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (place < u64::BITS as usize).then_some(place)
    }
}

/// Bytes of the shortest frame with a TCP packet over IPv4.
const SHORTEST: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::HEADER_LEN;

/// More than any state's number.
const STEADY: usize = 8;

/// What all packets of a burst from one port of a wire have in common.
#[derive(Clone, Copy)]
pub struct Wire<'a> {
    pub(super) port: PortId,
    pub(super) endpoint_id: EndpointId,
    /// Its flows of TCP over IPv4.
    tcp_v4: V4Flows,
    pub(super) gateway_id: GatewayId,
    pub(super) gateway: &'a Gateway,
    pub(super) underlay: &'a Underlay,
    /// When a flow has been silent for too long, by the state that it is in while packets go on.
    pub(super) idle_ms: [u32; STEADY],
    /// GENEVE's part of the outer headers for IPv4 and for IPv6.
    pub(super) heads: [Head; 2],
    /// The longest packet that fits the target side; 0, and so none, where every packet needs more than
    /// encapsulation.
    pub(super) longest: u32,
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
        let mut idle_ms = [0; STEADY];
        idle_ms[FlowState::Established as usize] = gateway.timers.tcp_idle_ms;
        idle_ms[FlowState::Other as usize] = gateway.timers.other_idle_ms;
        Some(Wire {
            port,
            endpoint_id: *endpoint,
            tcp_v4: V4Flows::of(*endpoint, protocol::TCP),
            gateway_id,
            gateway,
            underlay,
            idle_ms,
            heads: [head(ethertype::IPV4), head(ethertype::IPV6)],
            longest: if more { 0 } else { room(underlay.mtu).into() },
        })
    }

    /// First stage: reads a burst plainly and begins the look-ups of its flows. What is not plain, or is for
    /// [`read_arrival`](super::arrival::read_arrival) to judge, is [`Course::Unread`]; returns whether there is
    /// any.
    pub fn read_burst<B: PacketBuf>(&self, isa: Isa, table: &Table, burst: &[B], lanes: &mut [Lane]) -> bool {
        isa.run(Read { wire: self, table, burst, lanes })
    }

    /// Reads a frame plainly into `lane` and begins to look its flow up. False: it is not plain, and what is in
    /// `lane` means nothing. In line is what nearly every packet is.
    #[inline(always)]
    fn read<B: PacketBuf>(&self, (table, starts): (&Table, Starts<'_>), packet: &B, lane: &mut Lane) -> bool {
        let frame = packet.bytes();
        if packet.is_contiguous()
            && frame.len() >= SHORTEST
            && let Some((link, ip)) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>()
            && [link[12], link[13]] == ethertype::IPV4.to_be_bytes()
            && let Some(plain) = Plain::<u32>::read_tcp(ip)
            && u32::from(plain.total_len) <= self.longest
            && let Some(named) = self.tcp_v4.between(plain.src, plain.dst, plain.ports)
        {
            (lane.key, lane.direction) = named;
            (lane.course, lane.steady) = (Course::Plain, FlowState::Established);
            (lane.total_len, lane.tcp_flags) = (plain.total_len.into(), plain.tcp_flags);
            lane.probe = starts.start(table.hash_of_v4(&lane.key));
            return true;
        }
        self.read_other(table, packet, lane)
    }

    #[inline(never)]
    fn read_other<B: PacketBuf>(&self, table: &Table, packet: &B, lane: &mut Lane) -> bool {
        if !packet.is_contiguous() {
            return false;
        }
        let Some((link, ip)) = packet.bytes().split_first_chunk::<{ ethernet::HEADER_LEN }>() else {
            return false;
        };
        match u16::from_be_bytes([link[12], link[13]]) {
            ethertype::IPV4 => {
                let Some(plain) = Plain::<u32>::read(ip) else { return false };
                let Plain { src, dst, ports, protocol, .. } = plain;
                (lane.key, lane.direction) = FlowKey::of_v4(self.endpoint_id, protocol, src, dst, ports);
                lane.note(&plain, self.longest);
            }
            ethertype::IPV6 if self.gateway.dualstack => {
                let Some(plain) = Plain::<u128>::read(ip) else { return false };
                (lane.key, lane.direction) = key_of_v6(self.endpoint_id, &plain);
                lane.note(&plain, self.longest);
            }
            _ => return false,
        }
        lane.start(table);
        true
    }

    /// GENEVE's part of the outer headers of this packet.
    #[inline(always)]
    pub(super) fn head(&self, lane: &Lane) -> &Head {
        // 4 or 6.
        &self.heads[usize::from(lane.key.version() >> 1 & 1)]
    }

    /// Whether a packet that was read plainly is of no flow, whatever its ports: it stays within its link, or comes from a
    /// group, and [`read_arrival`](super::super::arrival::read_arrival) says what becomes of it.
    #[inline]
    pub fn is_of_no_flow(&self, lane: &Lane) -> bool {
        lane.may_be_link_scope() && {
            let packet = self.arrival(lane).packet;
            packet.is_within_link() || packet.is_from_group()
        }
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

struct Read<'a, B> {
    wire: &'a Wire<'a>,
    table: &'a Table,
    burst: &'a [B],
    lanes: &'a mut [Lane],
}

impl<B: PacketBuf> Stage for Read<'_, B> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Read { wire, table, burst, lanes } = self;
        let (starts, mut unread) = (table.starts(), false);
        for (packet, lane) in burst.iter().zip(lanes) {
            if !wire.read((table, starts), packet, lane) {
                lane.forget();
                unread = true;
            }
        }
        unread
    }
}
