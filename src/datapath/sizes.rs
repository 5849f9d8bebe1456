//! Packets and the target side's MTU (M-1 to M-3): what fits with 68 bytes around it, what becomes of what
//! does not, and how both ends of a TCP connection are told in advance.
//!
//! An IPv4 packet that may be fragmented is, before it is encapsulated, and its pieces go on like one packet.
//! Any other's sender is told which size goes on, by ICMP, and sends that from then on. IPv6 never goes below
//! 1,280 bytes: where the target side has no room for that much, such packets are dropped, and
//! telling their senders would change nothing.

use arrayvec::ArrayVec;

use super::arrival::Arrival;
use super::counters::{DropReason, IcmpAnswer, WorkerCounters};
use super::forwarding::{Forwarding, Target};
use super::icmp_errors::{NoError, become_error, judge};
use super::interfaces::speaker;
use super::outbound::Fate;
use super::pipeline::Pipeline;
use crate::flow::Cookie;
use crate::id::{PortId, TargetId};
use crate::io::{BURST, PacketBuf};
use crate::wire::geneve::OVERHEAD;
use crate::wire::icmp::error::IcmpError;
use crate::wire::packet::{IpVersion, Packet, protocol};
use crate::wire::split::{NotSplit, Split};
use crate::wire::tcp::mss;
use crate::wire::{ipv4, ipv6, tcp};

/// Pieces that a packet is cut into at most: a packet of 9,000 bytes for IPv6's minimum MTU makes a quarter.
const MAX_PIECES: usize = BURST + 1;

/// Bytes of an inner packet that fit the target side (M-1).
#[inline]
pub fn room(mtu: u16) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "68")]
    const AROUND: u16 = OVERHEAD as u16;
    mtu.saturating_sub(AROUND)
}

/// The length of an inner packet that fits with its encapsulation; `None` if it does not (M-2).
#[inline]
pub fn fits(inner_len: u32, mtu: u16) -> Option<u16> {
    u16::try_from(inner_len).ok().filter(|&len| len <= room(mtu))
}

/// Lowers the MSS that a SYN or SYN-ACK offers to what fits the target side without IP options or extension
/// headers (M-3).
#[cold]
pub fn clamp_mss<B: PacketBuf>(packet: &mut B, arrival: &Arrival, mtu: u16, counters: &WorkerCounters) {
    if arrival.packet.protocol != protocol::TCP {
        return;
    }
    let ip_len = match arrival.packet.version {
        IpVersion::V4 => ipv4::HEADER_LEN,
        IpVersion::V6 => ipv6::HEADER_LEN,
    };
    #[expect(clippy::cast_possible_truncation, reason = "40 or 60")]
    let headers = (ip_len + tcp::HEADER_LEN) as u16;
    let start = usize::from(arrival.link_len) + usize::from(arrival.packet.header_len);
    let end = usize::from(arrival.link_len) + arrival.packet.total_len as usize;
    let segment = packet.bytes_mut().get_mut(start..end).unwrap_or_default();
    if mss::clamp(segment, room(mtu).saturating_sub(headers)) {
        counters.mss_lowered.add(1);
    }
}

impl<B: PacketBuf> Pipeline<B> {
    /// A packet that does not fit the target side: split if its sender allows it, else its sender is told. Returns
    /// whether it was sent on.
    #[cold]
    pub(super) fn too_big(
        &mut self,
        forwarding: &Forwarding,
        packet: B,
        arrival: &Arrival,
        (target_id, target): (TargetId, &Target),
        cookie: Cookie,
    ) -> bool {
        match plan_of(&packet, arrival, forwarding.underlay.mtu) {
            Ok(split) => {
                let sent = self.send_pieces(forwarding, packet, arrival, (target_id, target), cookie, &split);
                if let Err(reason) = sent {
                    self.counters.dropped(reason);
                }
                sent.is_ok()
            }
            Err(why) => {
                self.cannot_go_on(forwarding, packet, arrival, why);
                false
            }
        }
    }

    /// A packet that does not fit the target side and may not be split.
    #[cold]
    pub(super) fn cannot_go_on(
        &mut self,
        forwarding: &Forwarding,
        packet: B,
        arrival: &Arrival,
        why: NotSplit,
    ) {
        match why {
            NotSplit::DontFragment => {
                let error = IcmpError::TooBig { mtu: room(forwarding.underlay.mtu) };
                let source = speaker(forwarding, arrival.interface, &arrival.packet);
                let way_back = (arrival.port, usize::from(arrival.link_len));
                self.tell(packet, way_back, &arrival.packet, error, source, DropReason::TooBigForTarget);
            }
            NotSplit::Malformed => self.counters.dropped(DropReason::IpMalformed),
            NotSplit::NoRoom => self.counters.dropped(DropReason::TooBigForTarget),
        }
    }

    /// Sends a packet's pieces to the target under the flow's cookie and source port. If one
    /// cannot be made none is sent; if one cannot be sealed the packet counts as dropped.
    fn send_pieces(
        &mut self,
        forwarding: &Forwarding,
        packet: B,
        arrival: &Arrival,
        (target_id, target): (TargetId, &Target),
        cookie: Cookie,
        split: &Split,
    ) -> Result<(), DropReason> {
        let link_len = usize::from(arrival.link_len);
        let pieces = cut(packet, link_len, split)?;
        let last = pieces.len() - 1;
        for (number, mut piece) in pieces.into_iter().enumerate() {
            let inner_len = piece.bytes().len().saturating_sub(link_len);
            let inner_len = u16::try_from(inner_len).map_err(|_| DropReason::TooBigForTarget)?;
            self.seal(forwarding, &mut piece, inner_len, arrival, target, cookie)?;
            let fate = if number == last {
                Fate::Forwarded { target: target_id, bytes: arrival.packet.total_len }
            } else {
                Fate::Piece
            };
            self.outbound.send(forwarding.underlay.port, piece, fate, &self.counters);
        }
        Ok(())
    }

    /// Answers a frame, whose packet `about` begins after `link_len` bytes, with an ICMP error by the port that
    /// it came in by; where there must be none, or there were too many lately, it is dropped for the reason
    /// that is given.
    #[cold]
    pub(super) fn tell(
        &mut self,
        mut frame: B,
        (port, link_len): (PortId, usize),
        about: &Packet,
        error: IcmpError,
        source: u128,
        otherwise: DropReason,
    ) {
        if judge(frame.bytes(), link_len, about).is_err() || !self.allowance.take(about, self.now) {
            return self.counters.dropped(otherwise);
        }
        match become_error(&mut frame, link_len, about, error, source) {
            Ok(()) => {
                let fate = Fate::Error(answer_of(error, about.version));
                self.outbound.send(port, frame, fate, &self.counters);
            }
            Err(refused) => {
                self.allowance.give_back(about);
                self.counters.dropped(match refused {
                    NoError::Refused => otherwise,
                    NoError::NoHeadroom => DropReason::NoHeadroom,
                });
            }
        }
    }
}

/// Whether a packet can go to the target side, whole or in pieces. One that cannot begins no flow: it would take the room of
/// one that can, and its sender tries again with less (M-2).
#[inline]
pub(super) fn can_go_on<B: PacketBuf>(packet: &B, arrival: &Arrival, mtu: u16) -> Result<(), NotSplit> {
    match fits(arrival.packet.total_len, mtu) {
        Some(_) => Ok(()),
        None => plan_of(packet, arrival, mtu).map(|_| ()),
    }
}

/// How a packet that is too large for the target side goes on in pieces, if it may.
#[cold]
pub(super) fn plan_of<B: PacketBuf>(packet: &B, arrival: &Arrival, mtu: u16) -> Result<Split, NotSplit> {
    let start = usize::from(arrival.link_len);
    let ip = packet.bytes().get(start..start + arrival.packet.total_len as usize).unwrap_or_default();
    plan(ip, &arrival.packet, room(mtu))
}

fn plan(ip: &[u8], packet: &Packet, room: u16) -> Result<Split, NotSplit> {
    match packet.version {
        IpVersion::V4 => Split::plan(ip, usize::from(room)),
        // Its sender will not go below, whatever it is told.
        IpVersion::V6 if packet.total_len <= u32::from(ipv6::MINIMUM_MTU) => Err(NotSplit::NoRoom),
        IpVersion::V6 => Err(NotSplit::DontFragment),
    }
}

/// The pieces of an IPv4 packet that begins after `link_len` bytes of its frame, in order, each under the
/// same link header: all of them, or none.
pub(super) fn cut<B: PacketBuf>(
    mut packet: B,
    link_len: usize,
    split: &Split,
) -> Result<ArrayVec<B, MAX_PIECES>, DropReason> {
    let mut later = ArrayVec::<B, MAX_PIECES>::new();
    for number in 1..split.pieces() {
        let piece = split.piece(number);
        let payload = packet.bytes().get(link_len..).and_then(|ip| ip.get(piece.payload));
        let payload = payload.ok_or(DropReason::IpMalformed)?;
        let mut made = packet.another().ok_or(DropReason::NoBuffer)?;
        let frame = made.append(link_len + piece.header_len + payload.len()).ok_or(DropReason::NoBuffer)?;
        let ip = frame.get_mut(link_len..).unwrap_or_default();
        split.write_header(number, ip);
        if let Some(place) = ip.get_mut(piece.header_len..) {
            place.copy_from_slice(payload);
        }
        later.try_push(made).map_err(|_| DropReason::NoBuffer)?;
    }
    let first = split.piece(0);
    packet.truncate(link_len + first.header_len + first.payload.len());
    split.write_header(0, packet.bytes_mut().get_mut(link_len..).unwrap_or_default());
    later.try_insert(0, packet).map_err(|_| DropReason::NoBuffer)?;
    Ok(later)
}

/// Under which name an error is counted.
pub(super) fn answer_of(error: IcmpError, version: IpVersion) -> IcmpAnswer {
    match (error, version) {
        (IcmpError::TooBig { .. }, IpVersion::V4) => IcmpAnswer::FragmentationNeeded,
        (IcmpError::TooBig { .. }, IpVersion::V6) => IcmpAnswer::PacketTooBig,
        (IcmpError::TimeExceeded, _) => IcmpAnswer::TimeExceeded,
        (IcmpError::Unreachable(_), _) => IcmpAnswer::Unreachable,
    }
}
