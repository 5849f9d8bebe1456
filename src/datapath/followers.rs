//! Packets that follow others: a fragment follows the first of its datagram (M-4), an ICMP error the flow
//! whose packet it quotes (M-5). Their own headers do not say which flow they are of, so each is brought first
//! to the worker that can say so, and from there to the one that owns the flow:
//!
//! ```text
//!   fragment     any worker ──▶ the datagram's, by its identification ──▶ the flow's, by the first one's ports
//!   ICMP error   any worker ──▶ the quoted flow's, if it is live there; else ──▶ that of a flow of its own
//! ```
//!
//! Which workers these are is a function of the packet alone, so that nothing depends on how the card
//! spreads fragments. All of one datagram take the same two rings, so they stay in order.

use super::answer::quoted_flow;
use super::arrival::{Arrival, read_arrival};
use super::counters::DropReason;
use super::flows::is_live;
use super::forwarding::Forwarding;
use super::fragments::{Datagram, First};
use super::outbound::Stage;
use super::pipeline::Pipeline;
use crate::id::PortId;
use crate::io::PacketBuf;
use crate::wire::fragment::Place;
use crate::wire::packet::{Fragment, IpVersion, Packet, protocol};

impl<B: PacketBuf> Pipeline<B> {
    /// A fragment or an ICMP error that came in by `port`. `stage` is `None` if it came from there just now,
    /// and else says why another worker handed it over.
    #[cold]
    pub(super) fn follow(&mut self, forwarding: &Forwarding, port: PortId, packet: B, stage: Option<Stage>) {
        let Some((packet, arrival)) = self.read_again(forwarding, port, packet) else { return };
        match stage {
            Some(Stage::Resolved(first)) => self.follow_first(forwarding, packet, arrival, first),
            Some(Stage::Unquoted) => self.follow_none(forwarding, packet, arrival),
            None | Some(Stage::Owner | Stage::Datagram) => match arrival.packet.fragment {
                Fragment::Whole => self.quoting(forwarding, packet, arrival, stage),
                Fragment::First | Fragment::Later => self.fragment(forwarding, packet, arrival, stage),
            },
        }
    }

    /// Reads a packet that was read before, here or by another worker, under what holds now.
    fn read_again(&mut self, forwarding: &Forwarding, port: PortId, packet: B) -> Option<(B, Arrival)> {
        match read_arrival(forwarding, port, &packet) {
            Ok(arrival) => return Some((packet, arrival)),
            // What it is under what holds now; when it came it was a packet of a flow.
            Err(unread) => self.unread(forwarding, port, packet, unread),
        }
        None
    }

    // ---------------------------------------------------------------- fragments

    fn fragment(&mut self, forwarding: &Forwarding, packet: B, arrival: Arrival, stage: Option<Stage>) {
        let ip = packet.bytes().get(usize::from(arrival.link_len)..).unwrap_or_default();
        let Some(place) = Place::of(ip, &arrival.packet).filter(Place::is_possible) else {
            return self.counters.dropped(DropReason::IpMalformed);
        };
        if place.overwrites_tcp_header(arrival.packet.protocol) {
            return self.counters.dropped(DropReason::FragmentInHeader);
        }
        // In IPv6 later fragments may need a first that does not need itself: what it carries after an
        // extension header they do not see.
        let alone = arrival.packet.version == IpVersion::V4 || arrival.packet.fragment == Fragment::Later;
        if alone && !needs_first(&arrival.packet) {
            // Its addresses and protocol are all that names its flow (F-1).
            return self.follow_first(forwarding, packet, arrival, First::of(&arrival.packet));
        }
        let datagram = Datagram::of(arrival.endpoint, &arrival.packet, place.id);
        let hash = self.flows.table.hash(&datagram.key);
        let owner = self.owner(hash);
        if owner != self.worker && stage.is_none() {
            return self.handoff.give_at(Stage::Datagram, owner, arrival.port, packet, &self.counters);
        }
        if arrival.packet.fragment == Fragment::First {
            let first = First::of(&arrival.packet);
            let mut waited = self.fragments.first(hash, &datagram, first, self.now, &self.counters);
            self.follow_first(forwarding, packet, arrival, first);
            while let Some((port, packet)) = self.fragments.take(&mut waited, &self.counters) {
                self.watch_from(forwarding, Some(port), &packet, false);
                if let Some((packet, arrival)) = self.read_again(forwarding, port, packet) {
                    self.follow_first(forwarding, packet, arrival, first);
                }
            }
        } else if let Some(first) = self.fragments.later(hash, &datagram, self.now) {
            self.follow_first(forwarding, packet, arrival, first);
        } else {
            self.fragments.hold(hash, &datagram, (arrival.port, packet), self.now, &self.counters);
        }
    }

    /// A fragment whose flow is known: to its owner, or to its target if that is here.
    fn follow_first(&mut self, forwarding: &Forwarding, packet: B, mut arrival: Arrival, first: First) {
        let seen = &mut arrival.packet;
        (seen.protocol, seen.src_port, seen.dst_port) = (first.protocol, first.src_port, first.dst_port);
        (arrival.key, arrival.direction) = Arrival::key_of(arrival.endpoint, &arrival.packet);
        arrival.hash = self.flows.table.hash(&arrival.key);
        let owner = self.owner(arrival.hash);
        if owner == self.worker {
            let found = self.flows.table.find(arrival.hash, &arrival.key);
            self.arrival(forwarding, packet, &arrival, found);
        } else {
            self.handoff.give_at(Stage::Resolved(first), owner, arrival.port, packet, &self.counters);
        }
    }

    // ---------------------------------------------------------------- ICMP errors

    /// An ICMP error: with the flow that it quotes, if that is live. It says nothing of either end's life, so
    /// it restarts no timer, moves nothing and is never answered.
    fn quoting(&mut self, forwarding: &Forwarding, packet: B, mut arrival: Arrival, stage: Option<Stage>) {
        let ip = packet.bytes().get(usize::from(arrival.link_len)..).unwrap_or_default();
        if let Some((key, direction)) = quoted_flow(arrival.endpoint, &arrival.packet, ip) {
            let hash = self.flows.table.hash(&key);
            let owner = self.owner(hash);
            if owner != self.worker && stage.is_none() {
                return self.handoff.give(owner, arrival.port, packet, &self.counters);
            }
            let live = self.flows.table.find(hash, &key).filter(|id| {
                let entry = self.flows.table.entry(*id);
                let timers = forwarding.timers(arrival.endpoint);
                is_live(entry) && entry.expiry(self.now, &timers).is_none()
            });
            if let Some(id) = live {
                self.counters.errors_of_flows.add(1);
                (arrival.key, arrival.direction, arrival.hash) = (key, direction, hash);
                return self.send_to_flow_target(forwarding, packet, &arrival, id);
            }
        }
        self.counters.errors_of_no_flow.add(1);
        self.follow_none(forwarding, packet, arrival);
    }

    /// An ICMP error that quotes no known flow is one of its own, by addresses and protocol (F-1).
    fn follow_none(&mut self, forwarding: &Forwarding, packet: B, mut arrival: Arrival) {
        arrival.hash = self.flows.table.hash(&arrival.key);
        let owner = self.owner(arrival.hash);
        if owner == self.worker {
            let found = self.flows.table.find(arrival.hash, &arrival.key);
            self.arrival(forwarding, packet, &arrival, found);
        } else {
            self.handoff.give_at(Stage::Unquoted, owner, arrival.port, packet, &self.counters);
        }
    }
}

/// Whether only its datagram's first fragment says which flow a fragment is of: there are ports, an
/// echo's identifier, or, in IPv6, headers between it and the protocol.
#[cold]
pub fn needs_first(packet: &Packet) -> bool {
    protocol::has_ports(packet.protocol) || packet.names_extension_header()
}
