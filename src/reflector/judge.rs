//! What arrives, held against W-1 and W-2. A [`Fault`] keeps a packet from being sent back; a
//! [`Deviation`] is only remarked on, as the packet can be understood all the same.

#![forbid(unsafe_code)]

use arrayvec::ArrayVec;
use thiserror::Error;

use crate::wire::geneve::outer::{self, OuterError, OuterReceived};
use crate::wire::geneve::{self, GeneveError, Received};
use crate::wire::ip::IpVersion;
use crate::wire::ipv4::{self, DONT_FRAGMENT};
use crate::wire::packet::{Packet, PacketError};
use crate::wire::{ethernet::ethertype, toeplitz::FIRST_SOURCE_PORT};

/// Why a packet cannot be sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The outer IPv4 or UDP header.
    #[error("outer headers: {0}")]
    Outer(#[from] OuterError),
    /// The GENEVE header or its options.
    #[error("{0}")]
    Geneve(#[from] GeneveError),
    /// The inner packet.
    #[error("inner packet: {0}")]
    Inner(#[from] PacketError),
    /// The inner packet is of the other IP version.
    #[error("GENEVE protocol {protocol:#06x}, but the inner packet is {version:?}")]
    VersionMismatch {
        /// The EtherType in the GENEVE header.
        protocol: u16,
        /// The inner packet's version.
        version: IpVersion,
    },
}

impl Fault {
    /// The counter's name.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Outer(_) => "outer_malformed",
            Fault::Geneve(error) => match error {
                GeneveError::Truncated => "geneve_truncated",
                GeneveError::WrongVersion(_) => "geneve_version",
                GeneveError::Control => "geneve_control",
                GeneveError::WrongProtocol(_) => "geneve_protocol",
                GeneveError::OptionsTruncated => "options_truncated",
                GeneveError::OptionsOverlapping => "options_overlapping",
                GeneveError::BadOptionLength(_) => "option_length",
                GeneveError::DuplicateOption(_) => "option_duplicate",
                GeneveError::CriticalOptionUnknown { .. } => "option_critical_unknown",
                GeneveError::MissingEndpointId => "endpoint_id_missing",
                GeneveError::MissingAttachmentId => "attachment_id_missing",
                GeneveError::MissingCookie => "cookie_missing",
            },
            Fault::Inner(_) => "inner_malformed",
            Fault::VersionMismatch { .. } => "inner_version",
        }
    }
}

/// What is not as W-1, W-2 or W-3 has it, in a packet that is sent back all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Deviation {
    /// W-1: an outer IPv4 header of 20 bytes.
    #[error("outer IPv4 header of {0} bytes, W-1 has 20")]
    OuterOptions(usize),
    /// W-1: DF set.
    #[error("outer DF is clear, W-1 has it set")]
    DfClear,
    /// W-1: TTL 255. Every router between the gateway and here takes one.
    #[error("outer TTL {0}, W-1 sends 255 (a router on the way takes one)")]
    Ttl(u8),
    /// W-3: source port from 49152 up.
    #[error("UDP source port {0}, W-3 has 49152-65535")]
    SourcePort(u16),
    /// W-1: VNI 0 and reserved byte 0.
    #[error("VNI and reserved byte {0:#010x}, W-1 has 0")]
    Vni(u32),
    /// W-2: three options in their order, no other, no flags.
    #[error("GENEVE flags or options other than W-2's three in their order")]
    Options,
    /// W-1: the inner packet and no more.
    #[error("{0} bytes after the inner packet")]
    Trailing(usize),
}

impl Deviation {
    /// The counter's name.
    pub fn name(&self) -> &'static str {
        match self {
            Deviation::OuterOptions(_) => "outer_options",
            Deviation::DfClear => "outer_df_clear",
            Deviation::Ttl(_) => "outer_ttl",
            Deviation::SourcePort(_) => "udp_source_port",
            Deviation::Vni(_) => "geneve_vni",
            Deviation::Options => "geneve_options",
            Deviation::Trailing(_) => "trailing_bytes",
        }
    }
}

/// A packet that can be sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The outer headers.
    pub outer: OuterReceived,
    /// The GENEVE header and options.
    pub geneve: Received,
    /// The inner packet.
    pub inner: Packet,
}

impl Seen {
    /// Offset of the GENEVE header from the start of the outer IP header.
    pub fn geneve_start(&self) -> usize {
        usize::from(self.outer.udp_payload_offset)
    }

    /// Offset of the inner packet from the start of the outer IP header.
    pub fn inner_start(&self) -> usize {
        self.geneve_start() + usize::from(self.geneve.inner_offset)
    }

    /// Offset of the end of the UDP payload from the start of the outer IP header.
    pub fn end(&self) -> usize {
        self.geneve_start() + usize::from(self.outer.udp_payload_len)
    }
}

/// Reads a packet from its outer IPv4 header on.
pub fn judge(ip: &[u8]) -> Result<Seen, Fault> {
    let outer = outer::parse(ip)?;
    let payload = outer.payload(ip);
    let geneve = geneve::parse(payload)?;
    let inner = Packet::parse(payload.get(usize::from(geneve.inner_offset)..).unwrap_or_default())?;
    let expected = match inner.version {
        IpVersion::V4 => ethertype::IPV4,
        IpVersion::V6 => ethertype::IPV6,
    };
    if geneve.protocol != expected {
        return Err(Fault::VersionMismatch { protocol: geneve.protocol, version: inner.version });
    }
    Ok(Seen { outer, geneve, inner })
}

/// What is not as W-1 to W-3 have it in a packet that [`judge`] let pass.
pub fn deviations(ip: &[u8], seen: &Seen) -> ArrayVec<Deviation, 7> {
    let mut found = ArrayVec::new();
    let header_len = seen.geneve_start() - 8;
    if header_len != ipv4::HEADER_LEN {
        found.push(Deviation::OuterOptions(header_len));
    }
    if let Some(&[high, low, ttl]) = ip.get(6..9) {
        if u16::from_be_bytes([high, low]) & DONT_FRAGMENT == 0 {
            found.push(Deviation::DfClear);
        }
        if ttl != outer::TTL {
            found.push(Deviation::Ttl(ttl));
        }
    }
    if seen.outer.src_port < FIRST_SOURCE_PORT {
        found.push(Deviation::SourcePort(seen.outer.src_port));
    }
    let payload = seen.outer.payload(ip);
    if let Some(vni) =
        payload.get(4..8).and_then(|rest| rest.first_chunk()).map(|rest| u32::from_be_bytes(*rest))
        && vni != 0
    {
        found.push(Deviation::Vni(vni));
    }
    if !geneve::has_canonical_options(payload) {
        found.push(Deviation::Options);
    }
    let inner_len = usize::try_from(seen.inner.total_len).unwrap_or(usize::MAX);
    match (seen.end() - seen.inner_start()).checked_sub(inner_len) {
        None | Some(0) => {}
        Some(trailing) => found.push(Deviation::Trailing(trailing)),
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::wire::ethernet::MacAddr;
    use crate::wire::geneve::outer::{OUTER_LEN, OuterFields, OuterTemplate};
    use crate::wire::sample;

    /// A packet as a gateway sends it, from its outer IPv4 header on.
    pub fn sent(inner: &[u8]) -> Vec<u8> {
        let template = OuterTemplate::new(
            MacAddr::default(),
            MacAddr::default(),
            Ipv4Addr::new(10, 1, 0, 1),
            Ipv4Addr::new(10, 1, 0, 9),
        );
        let mut frame = vec![0; OUTER_LEN];
        let fields = OuterFields {
            inner_len: inner.len().try_into().unwrap(),
            protocol: if inner[0] >> 4 == 4 { 0x0800 } else { 0x86dd },
            source_port: 50_000,
            endpoint_id: 0x1112_1314_1516_1718,
            attachment_id: 0x2122_2324_2526_2728,
            cookie: 0x3132_3334,
        };
        template.write(frame.first_chunk_mut().unwrap(), &fields);
        frame.extend(inner);
        frame.split_off(14)
    }

    /// An inner packet of TCP.
    pub fn tcp_v4(flags: u8) -> Vec<u8> {
        sample::ipv4([10, 0, 0, 1], [192, 0, 2, 7], 6, &sample::tcp((4000, 80), 7, 8, flags, &[], b"data"))
    }

    fn remarks(ip: &[u8]) -> Vec<&'static str> {
        deviations(ip, &judge(ip).unwrap()).iter().map(Deviation::name).collect()
    }

    /// The packet with bytes at an offset replaced, outer header checksum right.
    fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut ip = sent(&tcp_v4(0x10));
        ip[at..at + bytes.len()].copy_from_slice(bytes);
        ip[10..12].fill(0);
        let checksum = sample::naive_checksum(&ip[..20]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip
    }

    // W-1, W-2, W-3
    #[test]
    fn what_the_gateway_sends_is_without_fault() {
        assert!(remarks(&sent(&tcp_v4(0x10))).is_empty());
        let v6 = sample::ipv6([1; 16], [2; 16], 17, &sample::udp((1, 2), b"x"));
        assert!(remarks(&sent(&v6)).is_empty());
    }

    // W-1, W-2, W-3
    #[test]
    fn every_deviation_is_named() {
        assert_eq!(remarks(&changed(6, &[0])), ["outer_df_clear"]);
        assert_eq!(remarks(&changed(8, &[64])), ["outer_ttl"]);
        assert_eq!(remarks(&changed(20, &[0x10, 0])), ["udp_source_port"]);
        assert_eq!(remarks(&changed(32, &[0, 0, 1])), ["geneve_vni"]);
        assert_eq!(remarks(&changed(29, &[0x40])), ["geneve_options"]);
        let mut inner = tcp_v4(0x10);
        inner.extend([0; 3]);
        assert_eq!(remarks(&sent(&inner)), ["trailing_bytes"]);
        let plain = sent(&tcp_v4(0x10));
        let optioned = sample::ipv4_with([10, 1, 0, 1], [10, 1, 0, 9], 17, 0x4000, &[1; 4], &plain[20..]);
        assert_eq!(remarks(&optioned), ["outer_options", "outer_ttl"]);
    }

    #[test]
    fn every_fault_is_named() {
        let name = |ip: &[u8]| judge(ip).unwrap_err().name();
        assert_eq!(name(&changed(24, &[0, 1])), "outer_malformed");
        assert_eq!(name(&changed(28, &[0x48])), "geneve_version");
        assert_eq!(name(&changed(30, &[0x65, 0x58])), "geneve_protocol");
        assert_eq!(name(&changed(30, &[0x86, 0xdd])), "inner_version");
        assert_eq!(name(&changed(68, &[0x44])), "inner_malformed");
        assert_eq!(name(&changed(62, &[9])), "cookie_missing");
        assert_eq!(name(&sent(&tcp_v4(0x10)[..30])), "inner_malformed");
    }
}
