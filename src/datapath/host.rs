//! The way between a worker and the host's network stack, for ports that the kernel does not see.
//!
//! Addresses, ARP, neighbour discovery, ping and routing protocols are the kernel's. What arrives for it
//! goes, without its VLAN tags and with the interface named, into a ring from which a thread of the control
//! core feeds the interface's tap; what the kernel sends comes by another ring to worker 0. Both are
//! bounded and nobody waits: what finds no room is dropped and counted.

use rtrb::{Consumer, Producer};

use super::counters::{DropReason, Outcome};
use super::forwarding::Forwarding;
use super::interfaces::{Interface, VlanTags};
use super::outbound::Fate;
use super::pipeline::Pipeline;
use crate::id::InterfaceId;
use crate::io::{BURST, PacketBuf};
use crate::wire::ethernet::{ADDRESSES_LEN, HEADER_LEN, Link, VLAN_TAG_LEN};

/// A frame for the host's network stack.
#[derive(Debug)]
pub struct ToHost<B> {
    /// Where it came in.
    pub interface: InterfaceId,
    /// The frame, without VLAN tags.
    pub packet: B,
}

/// A frame that the host's network stack sends.
#[derive(Debug)]
pub struct FromHost<B> {
    /// Where it is to leave.
    pub interface: InterfaceId,
    /// The frame, without VLAN tags.
    pub packet: B,
}

/// A worker's ends of the rings.
#[derive(Debug)]
pub struct HostPort<B> {
    /// Frames for the host; `None` where every port is shared with the kernel.
    pub to: Option<Producer<ToHost<B>>>,
    /// Frames of the host; worker 0 alone has it.
    pub from: Option<Consumer<FromHost<B>>>,
    /// The most frames that were seen to wait in each since that was last asked.
    most: [usize; 2],
}

impl<B> HostPort<B> {
    /// These ends.
    pub fn new(to: Option<Producer<ToHost<B>>>, from: Option<Consumer<FromHost<B>>>) -> HostPort<B> {
        HostPort { to, from, most: [0; 2] }
    }

    /// No way to the host: every port is shared with the kernel.
    pub fn none() -> HostPort<B> {
        HostPort::new(None, None)
    }

    /// Frames that fit into the ring to the host and into that from it; 0 if there is none.
    pub fn capacities(&self) -> [usize; 2] {
        let to = self.to.as_ref().map_or(0, |ring| ring.buffer().capacity());
        [to, self.from.as_ref().map_or(0, |ring| ring.buffer().capacity())]
    }

    /// Of each of the two the frames that wait now, and the most that did since this was last asked.
    pub fn fills(&mut self) -> [(usize, usize); 2] {
        let [most_to, most_from] = std::mem::take(&mut self.most);
        [(self.waiting_to(), most_to), (self.from.as_ref().map_or(0, Consumer::slots), most_from)]
    }

    fn waiting_to(&self) -> usize {
        self.to.as_ref().map_or(0, |ring| ring.buffer().capacity() - ring.slots())
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// Gives a frame that came in by an interface to the host, unless the kernel has seen it itself.
    #[cold]
    pub fn to_host(&mut self, forwarding: &Forwarding, id: InterfaceId, mut packet: B) {
        let Some(interface) = forwarding.interface(id) else {
            return self.counters.dropped(DropReason::NotForGateway);
        };
        if interface.host_shares {
            return self.counters.ended(Outcome::Host);
        }
        if let Err(reason) = strip_tags(interface, &mut packet) {
            return self.counters.dropped(reason);
        }
        match self.host.to.as_mut().map(|ring| ring.push(ToHost { interface: id, packet })) {
            Some(Ok(())) => {
                self.host.most[0] = self.host.most[0].max(self.host.waiting_to());
                self.counters.ended(Outcome::Host);
            }
            Some(Err(_)) | None => self.counters.dropped(DropReason::HostFull),
        }
    }

    /// Sends a burst of the host's frames; the caller flushes. Returns how many they were.
    pub fn from_host(&mut self, forwarding: &Forwarding) -> usize {
        let mut taken = 0;
        while taken < BURST {
            let Some(ring) = &mut self.host.from else { break };
            let Ok(frame) = ring.pop() else { break };
            self.host.most[1] = self.host.most[1].max(ring.slots() + 1);
            taken += 1;
            self.counters.received.add(1);
            let port = forwarding.interface(frame.interface).map(|interface| interface.port);
            self.watch_from(forwarding, port, &frame.packet, true);
            self.send_for_host(forwarding, frame);
        }
        self.watch_end(forwarding);
        taken
    }

    fn send_for_host(&mut self, forwarding: &Forwarding, FromHost { interface, mut packet }: FromHost<B>) {
        let Some(interface) = forwarding.interface(interface) else {
            return self.counters.dropped(DropReason::PortUnused);
        };
        match put_tags(interface, &mut packet) {
            Ok(()) => self.outbound.send(interface.port, packet, Fate::FromHost, &self.counters),
            Err(reason) => self.counters.dropped(reason),
        }
    }
}

/// Takes the tags of an interface off a frame. A frame that has others is not that interface's: the
/// target side has no VLANs.
fn strip_tags<B: PacketBuf>(interface: &Interface, packet: &mut B) -> Result<(), DropReason> {
    let link = Link::parse(packet.bytes()).map_err(|_| DropReason::FrameTruncated)?;
    if VlanTags::of(packet.bytes(), &link) != interface.tags {
        return Err(DropReason::VlanUnknown);
    }
    let tags_len = usize::from(link.vlan_tags) * VLAN_TAG_LEN;
    if tags_len > 0 {
        packet.bytes_mut().copy_within(..ADDRESSES_LEN, tags_len);
        packet.trim_front(tags_len);
    }
    Ok(())
}

/// Puts the tags of an interface into a frame that has none.
fn put_tags<B: PacketBuf>(interface: &Interface, packet: &mut B) -> Result<(), DropReason> {
    if packet.bytes().len() < HEADER_LEN {
        return Err(DropReason::FrameTruncated);
    }
    let tags = interface.tags.bytes();
    if tags.is_empty() {
        return Ok(());
    }
    let frame = packet.prepend(tags.len()).ok_or(DropReason::NoHeadroom)?;
    frame.copy_within(tags.len()..tags.len() + ADDRESSES_LEN, 0);
    frame.iter_mut().skip(ADDRESSES_LEN).zip(&tags).for_each(|(to, byte)| *to = *byte);
    Ok(())
}
