//! The appliances: every target of the gateway, on one port. A packet comes in GENEVE and goes back with its
//! outer addresses swapped and all else as it was, cookie and options included (W-4), but for a note of when it
//! was there. An appliance can be told to lose, to delay and to die; a dead one answers no health check.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use flowgate::io::{Burst, PacketBuf, PortQueue};
use flowgate::wire::ethernet::{self, Link, ethertype};
use flowgate::wire::geneve::outer::OUTER_LEN;
use flowgate::wire::geneve::{self, outer};

use super::attack::{self, Kind, Trace, forgery};
use super::ends::Common;
use super::frames::{Mark, Seen, Unreadable, since};
use super::names::{Name, mixed};
use super::neighbour;
use super::orders::Orders;
use super::port::{Port, Source};

/// Packets that are delayed at most; more than that are swallowed.
pub const DELAYED: usize = 16_384;

/// What all appliances do to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// The share of packets that they swallow, of 2³².
    pub loses: u64,
    /// How long they keep each, in nanoseconds.
    pub delay_ns: u64,
}

/// Where a flow was seen last.
#[derive(Clone, Copy, Default)]
struct Seat {
    epoch: u32,
    cookie: u32,
    target: u16,
    is_taken: bool,
}

/// All appliances.
pub struct Appliances<B> {
    /// Sorted.
    addresses: Vec<u32>,
    behaviour: Behaviour,
    /// Others play the ends: their packets go back too.
    is_alone: bool,
    seats: Vec<Seat>,
    /// What is on its way back, and when it leaves.
    delayed: VecDeque<(u64, B)>,
    random: u64,
    /// The outer headers of an answer, as one was sent: from these an attacker makes others up.
    front: Option<[u8; OUTER_LEN]>,
}

/// A frame's outer headers.
struct Tunnel {
    target: usize,
    cookie: u32,
    /// Where the outer IP addresses are in the frame.
    addresses: usize,
    /// Where the inner packet is.
    inner: usize,
    end: usize,
    /// Whether it is to the byte what W-1 to W-3 say of a gateway's.
    is_exact: bool,
}

/// Why a frame has no tunnel that is read.
enum NotOurs {
    /// It is not for the tunnel.
    ForTheHost,
    /// It should have been.
    Bad,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Back,
    Gone,
}

impl<B: PacketBuf> Appliances<B> {
    /// Those at `addresses`, for a load of so many flows. Where they are played alone, the ends are others', and
    /// their packets go back too.
    pub fn new(
        addresses: &[Ipv4Addr],
        behaviour: Behaviour,
        is_alone: bool,
        flows: u32,
        seed: u64,
    ) -> Appliances<B> {
        Appliances {
            is_alone,
            addresses: addresses.iter().map(|address| address.to_bits()).collect(),
            behaviour,
            seats: vec![Seat::default(); flows as usize],
            delayed: VecDeque::with_capacity(if behaviour.delay_ns > 0 { DELAYED } else { 0 }),
            random: mixed(!seed),
            front: None,
        }
    }

    /// Takes what has arrived, if all of it can be answered; sends what was delayed long enough. Returns how
    /// many packets there were.
    pub fn round<Q: PortQueue<Buf = B>, S: Source<Buf = B>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        orders: &Orders,
    ) -> usize {
        while port.room() > 0 && self.delayed.front().is_some_and(|(due, _)| *due <= common.now_ns) {
            if let Some((_, packet)) = self.delayed.pop_front() {
                port.put(packet);
            }
        }
        port.flush();
        if !port.is_empty() {
            return 0;
        }
        let mut burst = Burst::new();
        port.receive(&mut burst);
        let received = burst.len();
        for mut packet in burst {
            if self.take(common, port, orders, packet.bytes_mut()) == Fate::Gone {
                continue;
            }
            if self.behaviour.delay_ns == 0 {
                port.put(packet);
            } else {
                self.delayed.push_back((common.now_ns + self.behaviour.delay_ns, packet));
            }
        }
        port.flush();
        received
    }

    /// What becomes of a frame; one that goes back is changed to.
    fn take<Q: PortQueue<Buf = B>, S: Source<Buf = B>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        orders: &Orders,
        frame: &mut [u8],
    ) -> Fate {
        let tunnel = match self.tunnel(frame) {
            Ok(tunnel) => tunnel,
            Err(NotOurs::ForTheHost) => {
                self.answer_neighbour(common, port, orders, frame);
                return Fate::Gone;
            }
            Err(NotOurs::Bad) => {
                common.interval.counts.bad_tunnel += 1;
                return Fate::Gone;
            }
        };
        common.interval.counts.bad_tunnel += u64::from(!tunnel.is_exact);
        let is_attack = attack::trace(&frame[tunnel.inner..tunnel.end]) == Some(Trace::Attack);
        common.interval.counts.attack_at_appliance += u64::from(is_attack);
        let fate = match common.frames.read_packet(&frame[tunnel.inner..tunnel.end]) {
            _ if is_attack => Fate::Back,
            Ok(seen) => self.take_ours(common, orders, &tunnel, &seen, &mut frame[tunnel.inner..tunnel.end]),
            Err(Unreadable::Stranger) if self.is_alone => {
                common.interval.counts.others += 1;
                if orders.is_dead(tunnel.target) || self.loses_this() { Fate::Gone } else { Fate::Back }
            }
            Err(Unreadable::Stranger) => {
                common.interval.counts.strangers += 1;
                Fate::Gone
            }
            Err(Unreadable::Damaged) => {
                common.interval.counts.damaged += 1;
                Fate::Gone
            }
        };
        if fate == Fate::Back {
            ethernet::swap_addresses(frame);
            let (source, destination) = frame[tunnel.addresses..tunnel.addresses + 8].split_at_mut(4);
            source.swap_with_slice(destination);
            if self.front.is_none() && tunnel.inner == OUTER_LEN {
                self.front = frame.first_chunk().copied();
            }
        }
        fate
    }

    /// Sends a made-up answer of this attack, the `turn`th; whether it could.
    pub fn forge<Q: PortQueue<Buf = B>, S: Source<Buf = B>>(
        &mut self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        (kind, turn): (Kind, u64),
        other: &[u8],
    ) -> bool {
        self.random = mixed(self.random);
        let (Some(front), Some(known)) = (self.front, self.known()) else { return false };
        let another = self.addresses.iter().copied().find(|address| *address != known.target);
        let other = (other, another.unwrap_or(!known.target));
        let frame = forgery::forge(kind, (turn, self.random), &front, known, other, &common.frames);
        port.write(&mut common.source, frame.len(), |out| out.copy_from_slice(&frame))
    }

    /// A flow that was here, by chance.
    fn known(&self) -> Option<forgery::Known> {
        let from = usize::try_from(self.random >> 1).ok()?.checked_rem(self.seats.len())?;
        let slots = (from..self.seats.len()).chain(0..from).take(64);
        slots.into_iter().find_map(|slot| {
            let Seat { epoch, cookie, target, is_taken } = self.seats[slot];
            let slot = u32::try_from(slot).ok()?;
            let target = self.addresses[usize::from(target)];
            let name = Name { slot, epoch };
            is_taken.then_some(forgery::Known { name, cookie, target })
        })
    }

    /// Reads the outer headers of a frame.
    fn tunnel(&self, frame: &[u8]) -> Result<Tunnel, NotOurs> {
        let link = Link::parse(frame).map_err(|_| NotOurs::Bad)?;
        let start = usize::from(link.header_len);
        let outer = match outer::parse(&frame[start..]) {
            Ok(outer) if link.ethertype == ethertype::IPV4 => outer,
            Err(outer::OuterError::NotGeneve) => return Err(NotOurs::ForTheHost),
            _ => return Err(NotOurs::Bad),
        };
        let target = self.addresses.binary_search(&outer.dst_ip).map_err(|_| NotOurs::Bad)?;
        let payload = start + usize::from(outer.udp_payload_offset);
        let end = payload + usize::from(outer.udp_payload_len);
        let geneve = geneve::parse(&frame[payload..end]).map_err(|_| NotOurs::Bad)?;
        Ok(Tunnel {
            target,
            cookie: geneve.cookie,
            addresses: start + 12,
            inner: payload + usize::from(geneve.inner_offset),
            end,
            is_exact: outer.src_port >= 49_152 && geneve::has_canonical_options(&frame[payload..end]),
        })
    }

    /// What becomes of a packet of our own ends, which is noted.
    fn take_ours<S>(
        &mut self,
        common: &mut Common<S>,
        orders: &Orders,
        tunnel: &Tunnel,
        seen: &Seen,
        inner: &mut [u8],
    ) -> Fate {
        let data = u64::from(seen.payload_len > 0);
        let way = seen.way.index();
        common.interval.counts.at_appliance[way] += data;
        if seen.name.is_flood() {
            common.interval.counts.flood_at_appliance += 1;
        } else {
            self.keep_seat(common, orders, seen, tunnel);
        }
        if let Some(stamp) = seen.stamp {
            common.interval.by_target[tunnel.target] += 1;
            let cycles = since(common.now, stamp);
            let nanoseconds = common.nanoseconds.of_cycles(cycles);
            common.interval.latencies.to_appliance[way].record(nanoseconds);
            Mark::of(cycles).write(inner, seen.tcp);
        }
        let counts = &mut common.interval.counts;
        if orders.is_dead(tunnel.target) || self.loses_this() || self.delayed.len() >= DELAYED {
            counts.swallowed[way] += data;
            return Fate::Gone;
        }
        counts.returned[way] += data;
        Fate::Back
    }

    fn loses_this(&mut self) -> bool {
        if self.behaviour.loses == 0 {
            return false;
        }
        self.random = mixed(self.random);
        self.random >> 32 < self.behaviour.loses
    }

    /// A flow stays at its target, under its cookie.
    fn keep_seat<S>(
        &mut self,
        common: &mut Common<S>,
        orders: &Orders,
        seen: &Seen,
        &Tunnel { target, cookie, .. }: &Tunnel,
    ) {
        let Some(seat) = self.seats.get_mut(seen.name.slot as usize) else {
            common.interval.counts.strangers += 1;
            return;
        };
        let counts = &mut common.interval.counts;
        #[expect(clippy::cast_possible_truncation, reason = "there are at most 4,096 targets")]
        let target = target as u16;
        if seat.is_taken && seat.epoch == seen.name.epoch {
            if seat.target != target {
                counts.moved += 1;
                counts.moved_off_dead += u64::from(orders.ever_died(usize::from(seat.target)));
            }
            counts.cookie_changed += u64::from(seat.cookie != cookie);
        }
        *seat = Seat { epoch: seen.name.epoch, cookie, target, is_taken: true };
    }

    /// ARP, ping and health checks of targets that are alive.
    fn answer_neighbour<Q: PortQueue<Buf = B>, S: Source<Buf = B>>(
        &self,
        common: &mut Common<S>,
        port: &mut Port<Q>,
        orders: &Orders,
        frame: &[u8],
    ) {
        let is_ours = |address: u32| {
            self.addresses.binary_search(&address).ok().map(|target| (target, orders.is_dead(target)))
        };
        let Some(answer) = neighbour::answer(frame, is_ours) else { return };
        let sent =
            port.write(&mut common.source, answer.bytes().len(), |out| out.copy_from_slice(answer.bytes()));
        if let (true, Some(target)) = (sent, answer.checked_target()) {
            common.interval.checks_by_target[target] += 1;
        }
    }
}
