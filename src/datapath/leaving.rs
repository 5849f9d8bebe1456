//! Leaving by a routed endpoint (O-4): route, next hop, link header, port.
//!
//! What an appliance returns is looked up in the endpoint's own routes, by its destination. If the next
//! hop's link-layer address is not known the packet waits while the kernel finds it (`waiting`). What
//! cannot leave is told to its sender by ICMP, within bounds (RFC 1812 5.2.7), back through the same
//! routes. The pipeline calls [`leave`](Pipeline::leave) for answers, and [`learn`](Pipeline::learn) when
//! the control core knows more of a neighbour.

use arrayvec::ArrayVec;

use super::counters::DropReason;
use super::forwarding::{EndpointKind, Forwarding};
use super::interfaces::{Interface, speaker};
use super::links::MAX_HEADER;
use super::messages::FromWorker;
use super::neighbours::NextHop;
use super::outbound::Fate;
use super::pipeline::Pipeline;
use super::sizes::{answer_of, cut};
use super::waiting::Waiter;
use crate::flow::{Direction, EntryId};
use crate::id::{EndpointId, InterfaceId, PortId};
use crate::io::PacketBuf;
use crate::wire::ethernet::{self, Link, MacAddr, ethertype};
use crate::wire::icmp::error::{self, IcmpError, Unreachable};
use crate::wire::ip::IpVersion;
use crate::wire::packet::{self, Packet};
use crate::wire::split::{NotSplit, Split};

/// What goes in front of an IP packet.
pub type LinkHeader = ArrayVec<u8, MAX_HEADER>;

/// Where an IP packet leaves.
#[derive(Clone, Copy, Debug)]
pub struct Exit<'a> {
    /// The interface.
    pub interface: &'a Interface,
    /// Whom it is given to there.
    pub next: NextHop,
    /// The link-layer address of that; `None` while it is not known.
    pub mac: Option<MacAddr>,
}

impl<B: PacketBuf> Pipeline<B> {
    /// Where a packet to `destination` leaves an endpoint. `None`: there is no route, or the endpoint is
    /// a wire.
    #[inline]
    pub fn toward<'a>(
        &self,
        forwarding: &'a Forwarding,
        endpoint: EndpointId,
        version: IpVersion,
        destination: u128,
    ) -> Option<Exit<'a>> {
        let EndpointKind::Routed(routes) = &forwarding.endpoint(endpoint)?.kind else { return None };
        let hop = routes.find(version, destination)?;
        let interface = forwarding.interface(hop.interface)?;
        let next = match hop.via {
            Some(via) => NextHop::new(hop.interface, via),
            None => NextHop { interface: hop.interface, version, address: destination },
        };
        Some(Exit { interface, next, mac: self.neighbours.get(&next) })
    }

    /// What goes in front of a packet of the gateway's own to the end of a flow that sends in direction
    /// `end`, and the port that it leaves by: on a wire that end's own header turned round, else the
    /// route's. `None` if the way to that end is not known.
    pub fn header_to(
        &self,
        forwarding: &Forwarding,
        id: EntryId,
        end: Direction,
    ) -> Option<(PortId, LinkHeader)> {
        let entry = self.flows.table.entry(id);
        if let Some((port, header)) = self.flows.links.get(entry.link[end.index()]) {
            let mut turned: LinkHeader = header.iter().copied().collect();
            ethernet::swap_addresses(&mut turned);
            return Some((port, turned));
        }
        let key = entry.key();
        let version = if key.version() == 4 { IpVersion::V4 } else { IpVersion::V6 };
        let exit = self.toward(forwarding, key.endpoint(), version, key.source(end).0)?;
        Some((exit.interface.port, link_header(exit.interface, exit.mac?, version)))
    }

    /// Sends a packet out of a routed endpoint. `packet` begins with an IP header that was parsed and ends
    /// where the IP packet does.
    pub fn leave(&mut self, forwarding: &Forwarding, packet: B, endpoint: EndpointId, fate: Fate) {
        let Some((version, destination)) = packet::destination(packet.bytes()) else {
            return self.counters.dropped(DropReason::InnerMalformed);
        };
        let Some(exit) = self.toward(forwarding, endpoint, version, destination) else {
            let error = IcmpError::Unreachable(Unreachable::NoRoute);
            return self.tell_sender(forwarding, packet, endpoint, error, DropReason::NoRoute);
        };
        if packet.bytes().len() > usize::from(exit.interface.mtu) {
            return self.too_big_for_link(forwarding, packet, endpoint, &exit, fate);
        }
        self.send_or_wait(packet, &exit, fate);
    }

    /// A packet larger than the MTU of the interface that it leaves by: split if its sender allows it, else
    /// its sender is told (M-2).
    #[cold]
    fn too_big_for_link(
        &mut self,
        forwarding: &Forwarding,
        packet: B,
        endpoint: EndpointId,
        exit: &Exit<'_>,
        fate: Fate,
    ) {
        let mtu = exit.interface.mtu;
        let planned = match packet::destination(packet.bytes()) {
            Some((IpVersion::V4, _)) => Split::plan(packet.bytes(), usize::from(mtu)),
            _ => Err(NotSplit::DontFragment),
        };
        let reason = DropReason::TooBigForLink;
        match planned {
            Ok(split) => match cut(packet, 0, &split) {
                Ok(pieces) => {
                    // The packet is counted with its last piece: when that has left, all have.
                    let last = pieces.len() - 1;
                    for (number, piece) in pieces.into_iter().enumerate() {
                        self.send_or_wait(piece, exit, if number == last { fate } else { Fate::Piece });
                    }
                }
                Err(reason) => self.counters.dropped(reason),
            },
            Err(NotSplit::DontFragment) => {
                self.tell_sender(forwarding, packet, endpoint, IcmpError::TooBig { mtu }, reason);
            }
            Err(NotSplit::Malformed | NotSplit::NoRoom) => self.counters.dropped(reason),
        }
    }

    #[inline]
    fn send_or_wait(&mut self, packet: B, exit: &Exit<'_>, fate: Fate) {
        match exit.mac {
            Some(mac) => self.put_on_link(exit.interface, mac, packet, fate),
            None => self.wait(exit.next, packet, fate),
        }
    }

    #[inline]
    fn put_on_link(&mut self, interface: &Interface, mac: MacAddr, mut packet: B, fate: Fate) {
        let Some((version, _)) = packet::destination(packet.bytes()) else {
            return self.counters.dropped(DropReason::InnerMalformed);
        };
        let header_len = interface.header_len();
        let front = packet.prepend(header_len).and_then(|frame| frame.get_mut(..header_len));
        let Some(front) = front else {
            return fate.count_unsent(DropReason::NoHeadroom, &self.counters);
        };
        write_link_header(front, interface, mac, version);
        self.outbound.send(interface.port, packet, fate, &self.counters);
    }

    /// Lets a packet wait for its next hop's link-layer address, and asks for that.
    #[cold]
    fn wait(&mut self, next: NextHop, packet: B, fate: Fate) {
        let held = self.waiting.hold(next, Waiter { packet, fate }, self.now);
        if held.ask {
            let resolve = FromWorker::Resolve { interface: next.interface, address: next.ip() };
            if self.events.push(resolve).is_err() {
                self.counters.events_lost.add(1);
            }
        }
        if !held.waits {
            fate.count_unsent(DropReason::WaitFull, &self.counters);
        }
    }

    /// A neighbour's link-layer address is known, is another, or (`None`) is not known any more. Who
    /// waited for it leaves, in order, or is told that it is in vain. At most
    /// [`PACKETS_A_HOP`](super::waiting::PACKETS_A_HOP) packets are put out: the caller flushes.
    pub fn learn(&mut self, forwarding: &Forwarding, next: NextHop, mac: Option<MacAddr>) {
        match mac {
            Some(mac) if !self.neighbours.set(next, mac) => self.counters.neighbours_refused.add(1),
            Some(_) => {}
            None => self.neighbours.remove(&next),
        }
        self.counters.neighbours.set(self.neighbours.len() as u64);
        for waiter in self.waiting.release(&next, mac.is_some()) {
            self.watch_from(forwarding, None, &waiter.packet, false);
            match (mac, forwarding.interface(next.interface)) {
                (Some(mac), Some(interface)) => {
                    self.put_on_link(interface, mac, waiter.packet, waiter.fate);
                }
                _ => self.undeliverable(forwarding, &next, waiter),
            }
        }
        self.watch_end(forwarding);
    }

    /// Ends the waiting of those whose time is over, a bounded number at a time; the caller flushes.
    /// Returns whether there were any.
    #[inline]
    pub fn end_waiting(&mut self, forwarding: &Forwarding) -> bool {
        let Some((next, waiters)) = self.waiting.overdue(self.now) else { return false };
        for waiter in waiters {
            self.watch_from(forwarding, None, &waiter.packet, false);
            self.undeliverable(forwarding, &next, waiter);
        }
        self.watch_end(forwarding);
        true
    }

    /// Nobody answers for the next hop of a packet.
    #[cold]
    fn undeliverable(&mut self, forwarding: &Forwarding, next: &NextHop, waiter: Waiter<B>) {
        let reason = DropReason::NeighbourUnknown;
        let endpoint = forwarding.interface(next.interface).and_then(|interface| interface.endpoint);
        match endpoint {
            // Of a packet in pieces the last one counts.
            Some(endpoint) if waiter.fate.settles() => {
                let error = IcmpError::Unreachable(Unreachable::Host);
                self.tell_sender(forwarding, waiter.packet, endpoint, error, reason);
            }
            Some(_) | None => waiter.fate.count_unsent(reason, &self.counters),
        }
    }

    /// Drops whoever waits, as the worker stops (C-1).
    pub fn give_up_waiting(&mut self) {
        for fate in self.waiting.give_up() {
            fate.count_unsent(DropReason::NeighbourUnknown, &self.counters);
        }
    }

    /// Turns a packet that begins with its IP header into an ICMP error about it, and sends that to its
    /// sender by the endpoint's routes. If none may be sent (there is no way to the sender either, the
    /// packet must not be answered, or too many were sent) it is dropped for `reason`. An error is never
    /// answered with an error, so this ends.
    #[cold]
    fn tell_sender(
        &mut self,
        forwarding: &Forwarding,
        mut packet: B,
        endpoint: EndpointId,
        error: IcmpError,
        reason: DropReason,
    ) {
        let dropped = |pipeline: &Pipeline<B>| pipeline.counters.dropped(reason);
        let Ok(about) = Packet::parse(packet.bytes()) else { return dropped(self) };
        let Some(exit) = self.toward(forwarding, endpoint, about.version, about.src) else {
            return dropped(self);
        };
        if error::judge(packet.bytes(), &about).is_err() || !self.allowance.take(&about, self.now) {
            return dropped(self);
        }
        let headers_len = error::headers_len(about.version);
        if packet.prepend(headers_len).is_none() {
            self.allowance.give_back(&about);
            return self.counters.dropped(DropReason::NoHeadroom);
        }
        packet.truncate(headers_len + error::quoted_len(&about));
        let source = exit.interface.locals.first(about.version).unwrap_or(about.dst);
        error::write_headers(packet.bytes_mut(), error, source, &about);
        self.send_or_wait(packet, &exit, Fate::Error(answer_of(error, about.version)));
    }

    /// Answers a frame at a routed endpoint whose packet's time to live is over (W-6), back under its own
    /// link header turned round.
    #[cold]
    pub fn time_exceeded(&mut self, forwarding: &Forwarding, port: PortId, id: InterfaceId, frame: B) {
        let parsed = Link::parse(frame.bytes()).ok().and_then(|link| {
            let link_len = usize::from(link.header_len);
            Some((link_len, Packet::parse(frame.bytes().get(link_len..)?).ok()?))
        });
        let Some((link_len, packet)) = parsed else {
            return self.counters.dropped(DropReason::TtlExceeded);
        };
        let source = speaker(forwarding, Some(id), &packet);
        let error = IcmpError::TimeExceeded;
        self.tell(frame, (port, link_len), &packet, error, source, DropReason::TtlExceeded);
    }
}

/// The link header of an IP packet to `mac` on an interface.
fn link_header(interface: &Interface, mac: MacAddr, version: IpVersion) -> LinkHeader {
    let mut header: LinkHeader = std::iter::repeat_n(0, interface.header_len()).collect();
    write_link_header(&mut header, interface, mac, version);
    header
}

/// Writes it to `front`, which is [`Interface::header_len`] bytes long.
#[inline]
fn write_link_header(front: &mut [u8], interface: &Interface, mac: MacAddr, version: IpVersion) {
    let Some((addresses, rest)) = front.split_first_chunk_mut::<12>() else { return };
    let (to, from) = addresses.split_at_mut(6);
    to.copy_from_slice(&mac.0);
    from.copy_from_slice(&interface.mac.0);
    let Some((tags, protocol)) = rest.split_last_chunk_mut::<2>() else { return };
    tags.iter_mut().zip(interface.tags.bytes()).for_each(|(to, byte)| *to = byte);
    *protocol = match version {
        IpVersion::V4 => ethertype::IPV4.to_be_bytes(),
        IpVersion::V6 => ethertype::IPV6.to_be_bytes(),
    };
}
