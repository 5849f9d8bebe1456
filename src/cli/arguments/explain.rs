//! Flags of `explain`.

#![forbid(unsafe_code)]

use crate::control::explain::story::flags_from;
use crate::control::socket::methods::explain::ExplainFlow;
use crate::control::socket::views::Protocol;
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// One side of a packet: an address, with a port or without.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct End(IpAddr, Option<u16>);

#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainFlags {
    /// Where the packet comes from: ADDRESS:PORT, [ADDRESS]:PORT of IPv6, or an address alone.
    #[arg(value_parser = end, requires = "to", required_unless_present_any = ["cookie", "pcap"])]
    from: Option<End>,
    /// Where it goes, the same way.
    #[arg(value_parser = end)]
    to: Option<End>,
    /// The endpoint that it comes in by; needed where there are several.
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// The port that it comes in by; the endpoint's first if none is given.
    #[arg(long, value_name = "NAME")]
    port: Option<String>,
    /// Its protocol: a name or number; tcp if none is given.
    #[arg(long, conflicts_with_all = ["cookie", "pcap"])]
    protocol: Option<Protocol>,
    /// It is a SYN.
    #[arg(long, conflicts_with_all = ["flags", "pcap"])]
    syn: bool,
    /// Its TCP flags, a letter each, such as SA or R; A if none are given.
    #[arg(long, value_parser = letters, conflicts_with = "pcap")]
    flags: Option<String>,
    /// So many bytes of payload.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(0..=9000), conflicts_with_all = ["cookie", "pcap"])]
    payload: Option<u16>,
    /// The next packet of the flow with this cookie, instead of an address.
    #[arg(long, conflicts_with_all = ["from", "pcap"])]
    cookie: Option<String>,
    /// With --cookie: from the side that did not begin the flow.
    #[arg(long, requires = "cookie")]
    from_responder: bool,
    /// Each packet of this capture file, pcap or pcapng, as if it came in now.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(in crate::cli) pcap: Option<PathBuf>,
    /// With --pcap: no more than so many packets.
    #[arg(long, requires = "pcap", value_name = "PACKETS", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in crate::cli) limit: u32,
    /// With --pcap: every step of every packet, not a line each.
    #[arg(long, requires = "pcap")]
    pub(in crate::cli) steps: bool,
}

fn end(text: &str) -> Result<End, String> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Ok(End(socket.ip(), Some(socket.port())));
    }
    let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    address
        .parse()
        .map(|address| End(address, None))
        .map_err(|_| "expected ADDRESS:PORT, [ADDRESS]:PORT or ADDRESS".to_owned())
}

fn letters(text: &str) -> Result<String, String> {
    flags_from(text).map(|_| text.to_owned())
}

impl ExplainFlags {
    /// What is asked, but for the frames.
    pub(in crate::cli) fn params(&self) -> ExplainFlow {
        ExplainFlow {
            endpoint: self.endpoint.clone(),
            port: self.port.clone(),
            protocol: self.protocol,
            source: self.from.map(|end| end.0),
            source_port: self.from.and_then(|end| end.1),
            destination: self.to.map(|end| end.0),
            destination_port: self.to.and_then(|end| end.1),
            payload: self.payload,
            flags: if self.syn { Some("S".to_owned()) } else { self.flags.clone() },
            cookie: self.cookie.clone(),
            from_responder: self.from_responder,
            ..ExplainFlow::default()
        }
    }
}
