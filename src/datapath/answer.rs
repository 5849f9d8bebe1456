//! Reading a frame that came in from the target side.

use super::arrival::{Arrival, Unread};
use super::counters::DropReason;
use super::forwarding::Forwarding;
use crate::flow::{Cookie, CookieLayout, DecodedCookie, Direction, FlowKey};
use crate::id::EndpointId;
use crate::io::PacketBuf;
use crate::wire::ethernet::{Link, ethertype};
use crate::wire::geneve::outer::{self, OuterError};
use crate::wire::geneve::{self, GeneveError};
use crate::wire::icmp;
use crate::wire::packet::{Fragment, Packet};

/// What is known of an appliance's packet before its flow is looked up.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The outer source address: the appliance's.
    pub source: u32,
    /// The endpoint that the packet names.
    pub endpoint_id: u64,
    /// The cookie as it stands in the packet.
    pub raw_cookie: Cookie,
    /// What the cookie says.
    pub cookie: DecodedCookie,
    /// Where the inner packet begins in the frame.
    pub inner_offset: u16,
    /// Where the outer packet, and so the inner one, ends in the frame at the latest.
    pub end: u16,
}

impl Answer {
    /// Whether it names this endpoint. The inner tuple does not tell, as two endpoints may have the same
    /// addresses (O-4).
    #[inline]
    pub fn is_of(&self, forwarding: &Forwarding, endpoint: EndpointId) -> bool {
        forwarding.endpoint(endpoint).is_some_and(|endpoint| endpoint.id == self.endpoint_id)
    }

    /// The inner packet's bytes.
    #[inline]
    pub fn inner_bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(usize::from(self.inner_offset)..usize::from(self.end)).unwrap_or_default()
    }

    /// The inner packet.
    #[inline]
    pub fn inner(&self, frame: &[u8]) -> Result<Packet, DropReason> {
        Packet::parse(self.inner_bytes(frame)).map_err(|_| DropReason::InnerMalformed)
    }
}

/// Reads a frame from the target side. [`Unread::Host`]: it is not GENEVE for this gateway.
#[inline]
pub fn read_answer<B: PacketBuf>(
    forwarding: &Forwarding,
    layout: &CookieLayout,
    packet: &B,
) -> Result<Answer, Unread> {
    if !packet.is_contiguous() {
        return Err(Unread::Drop(DropReason::FrameSegmented));
    }
    let frame = packet.bytes();
    let link = Link::parse(frame).map_err(|_| Unread::Drop(DropReason::FrameTruncated))?;
    if link.ethertype != ethertype::IPV4 || link.vlan_tags > 0 {
        return Err(Unread::Host(forwarding.underlay.interface));
    }
    let link_len = usize::from(link.header_len);
    let ip = frame.get(link_len..).unwrap_or_default();
    let outer = match outer::parse(ip) {
        Ok(outer) if outer.dst_ip == forwarding.underlay.address => outer,
        Ok(_) | Err(OuterError::NotGeneve) => return Err(Unread::Host(forwarding.underlay.interface)),
        Err(_) => return Err(Unread::Drop(DropReason::OuterMalformed)),
    };
    let geneve = geneve::parse(outer.payload(ip)).map_err(|error| Unread::Drop(reason(error)))?;
    let cookie = Cookie(geneve.cookie);
    // Offsets within a frame whose IPv4 length is 16 bits.
    #[expect(clippy::cast_possible_truncation, reason = "within the frame, which an mbuf counts in 16 bits")]
    let end = (link_len + usize::from(outer.udp_payload_offset) + usize::from(outer.udp_payload_len)) as u16;
    #[expect(clippy::cast_possible_truncation, reason = "below `end`")]
    let inner_offset =
        (link_len + usize::from(outer.udp_payload_offset) + usize::from(geneve.inner_offset)) as u16;
    Ok(Answer {
        source: outer.src_ip,
        endpoint_id: geneve.endpoint_id,
        raw_cookie: cookie,
        cookie: layout.decode(cookie),
        inner_offset,
        end,
    })
}

/// The name under which an answer whose GENEVE header is not as it should be is dropped (W-5).
#[cold]
fn reason(error: GeneveError) -> DropReason {
    match error {
        GeneveError::WrongVersion(_) => DropReason::GeneveVersion,
        GeneveError::Control | GeneveError::CriticalOptionUnknown { .. } => DropReason::GeneveCritical,
        GeneveError::Truncated
        | GeneveError::OptionsTruncated
        | GeneveError::OptionsOverlapping
        | GeneveError::BadOptionLength(_)
        | GeneveError::DuplicateOption(_) => DropReason::GeneveOptions,
        GeneveError::MissingEndpointId | GeneveError::MissingAttachmentId => DropReason::GeneveOptions,
        GeneveError::MissingCookie => DropReason::CookieMissing,
        GeneveError::WrongProtocol(_) => DropReason::InnerMalformed,
    }
}

/// Which way an inner packet goes in the flow of its cookie (W-5, W-7). An ICMP error is of the flow
/// that it quotes and goes to the sender of what it quotes, against that packet's direction. A later fragment
/// has no ports: it is of the flow if its addresses and protocol are (M-4).
#[inline]
pub fn direction_of(key: &FlowKey, inner: &Packet, bytes: &[u8]) -> Result<Direction, DropReason> {
    let (inner_key, direction) = Arrival::key_of(key.endpoint(), inner);
    if inner_key == *key {
        return Ok(direction);
    }
    let direction = match inner.fragment {
        Fragment::Later => fragment_direction(key, inner),
        Fragment::Whole | Fragment::First => quoted_direction(key, inner, bytes),
    };
    direction.ok_or(DropReason::InnerMismatch)
}

#[cold]
fn fragment_direction(key: &FlowKey, inner: &Packet) -> Option<Direction> {
    // An IPv6 fragment may name an extension header that only its first fragment has.
    let protocol_may_be = inner.protocol == key.protocol() || inner.names_extension_header();
    if inner.version.number() != key.version() || !protocol_may_be {
        return None;
    }
    [Direction::LowToHigh, Direction::HighToLow]
        .into_iter()
        .find(|way| (key.source(*way).0, key.destination(*way).0) == (inner.src, inner.dst))
}

#[cold]
fn quoted_direction(key: &FlowKey, inner: &Packet, bytes: &[u8]) -> Option<Direction> {
    let (quoted_key, direction) = quoted_flow(key.endpoint(), inner, bytes)?;
    (quoted_key == *key).then_some(direction)
}

/// The flow of the packet that an ICMP error quotes, and the way in it back to that packet's sender, which
/// is the error's own (M-5). `None` if it is no ICMP error, quotes nothing that can be read, or does not go to
/// the sender of what it quotes.
#[cold]
pub fn quoted_flow(endpoint: EndpointId, packet: &Packet, bytes: &[u8]) -> Option<(FlowKey, Direction)> {
    let quoted = Packet::parse_quoted(icmp::quoted(bytes, packet)?).ok()?;
    let (key, direction) = Arrival::key_of(endpoint, &quoted);
    let back = quoted.version == packet.version && quoted.src == packet.dst;
    back.then_some((key, direction.reverse()))
}
