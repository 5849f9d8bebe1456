//! GENEVE (RFC 8926) as appliances of AWS's Gateway Load Balancer speak it: 8 bytes of header and 32
//! bytes of options in a fixed order (W-1, W-2). [`parse`] reads what an appliance returned,
//! [`outer`] builds what it is sent. An answer that has our options in our order, as it should
//! (W-4), is read with a few wide compares; any other that RFC 8926 allows takes a slower walk.

#![forbid(unsafe_code)]

use thiserror::Error;

use super::ethernet::ethertype;
use super::load::{be16, be32, be64};

pub mod outer;
pub mod plain;

/// The UDP port of GENEVE (RFC 8926 3.3), the only one a target group may have (O-2).
pub const UDP_PORT: u16 = 6081;
/// Bytes of the header without options.
pub const HEADER_LEN: usize = 8;
/// Bytes of our three options with their headers.
pub const OPTIONS_LEN: usize = 32;
/// Bytes of GENEVE as we send it: header and options.
pub const LEN: usize = HEADER_LEN + OPTIONS_LEN;
/// Bytes by which the outer headers lengthen a packet: IPv4 20, UDP 8, GENEVE 40 (W-1).
pub const OVERHEAD: usize = 68;
/// The longest inner packet that an outer IPv4 header can carry.
pub const MAX_INNER_LEN: usize = 65_535 - OVERHEAD;

/// The option class that IANA assigned to Amazon (W-2).
pub const OPTION_CLASS: u16 = 0x0108;
/// Option type of the endpoint id, 8 bytes.
pub const ENDPOINT_ID: u8 = 1;
/// Option type of the attachment id, 8 bytes.
pub const ATTACHMENT_ID: u8 = 2;
/// Option type of the flow cookie, 4 bytes.
pub const FLOW_COOKIE: u8 = 3;

/// Version 0 and options of 8 words, no flags: the header's first two bytes as we send them.
const VERSION_AND_LENGTH: u16 = 0x0800;
const FLAG_CONTROL: u8 = 0x80;
/// An option type's top bit: who does not know the option must drop the packet (RFC 8926 3.5).
const CRITICAL: u8 = 0x80;

/// An option's four header bytes, its data `words` 32-bit words long.
const fn option_header(option_type: u8, words: u8) -> u32 {
    (OPTION_CLASS as u32) << 16 | (option_type as u32) << 8 | words as u32
}
const ENDPOINT_ID_HEADER: u32 = option_header(ENDPOINT_ID, 2);
const ATTACHMENT_ID_HEADER: u32 = option_header(ATTACHMENT_ID, 2);
const FLOW_COOKIE_HEADER: u32 = option_header(FLOW_COOKIE, 1);

/// GENEVE as we send it, but for the cookie at its end: the same for all packets of an endpoint and one IP version.
/// A line of its own, so that one of two is found by a shift.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub struct Head([u8; HEAD_LEN]);

const HEAD_LEN: usize = LEN - 4;

impl Head {
    /// Of an endpoint's packets with this EtherType, 0x0800 or 0x86DD.
    #[inline]
    pub fn new(protocol: u16, endpoint_id: u64, attachment_id: u64) -> Head {
        let mut bytes = [0; HEAD_LEN];
        let words = [
            u32::from(VERSION_AND_LENGTH) << 16 | u32::from(protocol),
            0, // VNI
            ENDPOINT_ID_HEADER,
            high_half(endpoint_id),
            low_half(endpoint_id),
            ATTACHMENT_ID_HEADER,
            high_half(attachment_id),
            low_half(attachment_id),
            FLOW_COOKIE_HEADER,
        ];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        Head(bytes)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the half that is wanted")]
const fn low_half(id: u64) -> u32 {
    id as u32
}

const fn high_half(id: u64) -> u32 {
    low_half(id >> 32)
}

/// What a GENEVE packet with our options says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The flow's cookie.
    pub cookie: u32,
    /// The endpoint's 64-bit id (O-4).
    pub endpoint_id: u64,
    /// The attachment's 64-bit id (O-4).
    pub attachment_id: u64,
    /// Offset of the inner packet from the start of the GENEVE header: 40 unless there are more options.
    pub inner_offset: u16,
    /// EtherType of the inner packet: IPv4 or IPv6. The inner packet's own version is not compared here.
    pub protocol: u16,
}

/// Why a GENEVE packet is dropped (W-5), each with its own counter.
///
/// There is none for the VNI: we send 0 and find the flow by its cookie, so any VNI in an answer is
/// accepted; it decides nothing here, and refusing it would only lose packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum GeneveError {
    /// The bytes end inside the 8 bytes of the header.
    #[error("cut inside the GENEVE header")]
    Truncated,
    /// A version other than 0; the version seen.
    #[error("GENEVE version {0}, expected 0")]
    WrongVersion(u8),
    /// The control bit: a message to the tunnel's end, not a packet (RFC 8926 3.4). We speak no control
    /// protocol.
    #[error("a GENEVE control packet")]
    Control,
    /// The inner packet is neither IPv4 nor IPv6; the EtherType seen.
    #[error("GENEVE protocol {0:#06x}, expected 0x0800 or 0x86dd")]
    WrongProtocol(u16),
    /// The bytes end inside the options.
    #[error("cut inside the GENEVE options")]
    OptionsTruncated,
    /// An option's length reaches past the end of the options, into the inner packet.
    #[error("a GENEVE option reaches past the options' end")]
    OptionsOverlapping,
    /// One of our options is not as long as it has to be.
    #[error("GENEVE option type {0} has a wrong length")]
    BadOptionLength(u8),
    /// One of our options is there twice, so that it is not sure which one counts.
    #[error("GENEVE option type {0} is there twice")]
    DuplicateOption(u8),
    /// A critical option that we do not know: its class and type.
    #[error("unknown critical GENEVE option, class {class:#06x}, type {option_type:#04x}")]
    CriticalOptionUnknown {
        /// The option's class.
        class: u16,
        /// The option's type, with its critical bit.
        option_type: u8,
    },
    /// No endpoint id.
    #[error("no endpoint id in the GENEVE options")]
    MissingEndpointId,
    /// No attachment id.
    #[error("no attachment id in the GENEVE options")]
    MissingAttachmentId,
    /// No flow cookie.
    #[error("no flow cookie in the GENEVE options")]
    MissingCookie,
}

/// Reads the GENEVE packet in a UDP payload. The inner packet may be empty; its own parser says so.
#[inline]
pub fn parse(udp_payload: &[u8]) -> Result<Received, GeneveError> {
    if let Some(header) = udp_payload.first_chunk::<LEN>()
        && has_canonical_options(header)
        && let Some(protocol @ (ethertype::IPV4 | ethertype::IPV6)) = be16(header, 2)
        && let (Some(endpoint_id), Some(attachment_id), Some(cookie)) =
            (be64(header, 12), be64(header, 24), be32(header, 36))
    {
        return Ok(Received { cookie, endpoint_id, attachment_id, inner_offset: 40, protocol });
    }
    parse_any_order(udp_payload)
}

/// Whether the packet has version 0, no flags, and exactly the options that W-2 asks for in their order.
/// [`parse`] accepts more (W-4).
#[inline]
pub fn has_canonical_options(udp_payload: &[u8]) -> bool {
    be16(udp_payload, 0) == Some(VERSION_AND_LENGTH)
        && be32(udp_payload, 8) == Some(ENDPOINT_ID_HEADER)
        && be32(udp_payload, 20) == Some(ATTACHMENT_ID_HEADER)
        && be32(udp_payload, 32) == Some(FLOW_COOKIE_HEADER)
}

/// RFC 8926 3.4 and 3.5 in full: other orders, other options, reserved bits ignored. Also names the
/// fault of what the fast way refused.
#[cold]
fn parse_any_order(udp_payload: &[u8]) -> Result<Received, GeneveError> {
    let header = udp_payload.first_chunk::<HEADER_LEN>().ok_or(GeneveError::Truncated)?;
    let version = header[0] >> 6;
    if version != 0 {
        return Err(GeneveError::WrongVersion(version));
    }
    if header[1] & FLAG_CONTROL != 0 {
        return Err(GeneveError::Control);
    }
    let protocol = u16::from_be_bytes([header[2], header[3]]);
    if !matches!(protocol, ethertype::IPV4 | ethertype::IPV6) {
        return Err(GeneveError::WrongProtocol(protocol));
    }
    let inner_offset = 8 + u16::from(header[0] & 0x3f) * 4;
    let mut options =
        udp_payload.get(HEADER_LEN..usize::from(inner_offset)).ok_or(GeneveError::OptionsTruncated)?;

    let mut endpoint_id = None;
    let mut attachment_id = None;
    let mut cookie = None;
    // Every turn takes at least the four bytes of an option header: at most 63 turns.
    while let Some((option, rest)) = options.split_first_chunk::<4>() {
        let class = u16::from_be_bytes([option[0], option[1]]);
        let option_type = option[2];
        // Three reserved bits, then the data's length in words.
        let len = usize::from(option[3] & 0x1f) * 4;
        let (data, rest) = rest.split_at_checked(len).ok_or(GeneveError::OptionsOverlapping)?;
        options = rest;
        match (class, option_type) {
            (OPTION_CLASS, ENDPOINT_ID) => set_once(&mut endpoint_id, option_type, data, u64::from_be_bytes)?,
            (OPTION_CLASS, ATTACHMENT_ID) => {
                set_once(&mut attachment_id, option_type, data, u64::from_be_bytes)?;
            }
            (OPTION_CLASS, FLOW_COOKIE) => set_once(&mut cookie, option_type, data, u32::from_be_bytes)?,
            _ if option_type & CRITICAL != 0 => {
                return Err(GeneveError::CriticalOptionUnknown { class, option_type });
            }
            _ => {}
        }
    }
    Ok(Received {
        cookie: cookie.ok_or(GeneveError::MissingCookie)?,
        endpoint_id: endpoint_id.ok_or(GeneveError::MissingEndpointId)?,
        attachment_id: attachment_id.ok_or(GeneveError::MissingAttachmentId)?,
        inner_offset,
        protocol,
    })
}

/// Takes an option's value, whose data must be exactly `N` bytes and there only once.
fn set_once<T, const N: usize>(
    value: &mut Option<T>,
    option_type: u8,
    data: &[u8],
    read: fn([u8; N]) -> T,
) -> Result<(), GeneveError> {
    let data = <[u8; N]>::try_from(data).map_err(|_| GeneveError::BadOptionLength(option_type))?;
    if value.replace(read(data)).is_some() {
        return Err(GeneveError::DuplicateOption(option_type));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
