//! A line a packet: when, where, between whom, how long, and what became of it.

#![forbid(unsafe_code)]

use super::blocks::{Block, Packet, blocks};
use crate::cli::Session;
use crate::cli::client::CliError;
use crate::cli::table::Look;
use crate::control::socket::views::Protocol;
use crate::wire::ethernet::Link;
use crate::wire::geneve::{self, outer};
use crate::wire::packet::{self, IpVersion, Kind};
use crate::wire::tcp::TcpFlags;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What is known of the file's interfaces.
#[derive(Default)]
pub(super) struct Lines {
    interfaces: Vec<(String, bool)>,
}

/// A packet for people.
struct Told {
    source: String,
    destination: String,
    protocol: String,
    /// Of TCP: `SYN ACK`.
    flags: Option<String>,
}

impl Lines {
    /// Prints the packets of these blocks.
    pub(super) fn print(&mut self, bytes: &[u8], session: &Session) -> Result<(), CliError> {
        for block in blocks(bytes) {
            match block {
                Block::Interface { name, is_ethernet } => {
                    self.interfaces.push((name.to_owned(), is_ethernet))
                }
                Block::Packet(packet) => {
                    let shown = |look: &Look| self.line(&packet, look);
                    session.output.emit_line(|| self.object(&packet), shown)?;
                }
                Block::Other => {}
            }
        }
        Ok(())
    }

    fn interface(&self, packet: &Packet<'_>) -> (&str, bool) {
        self.interfaces.get(packet.interface).map_or(("?", true), |(name, ethernet)| (name, *ethernet))
    }

    fn line(&self, packet: &Packet<'_>, look: &Look) -> String {
        let (interface, is_ethernet) = self.interface(packet);
        let way = if packet.is_inbound { "in " } else { "out" };
        let between = match told(packet.bytes, is_ethernet) {
            Some(Told { source, destination, protocol, flags }) => {
                let flags = flags.map(|flags| format!(" [{flags}]")).unwrap_or_default();
                format!("{source} > {destination} {protocol}{flags}")
            }
            None => "no IP".to_owned(),
        };
        let (time, length, comment) = (look.nanoseconds(packet.unix_ns), packet.length, packet.comment);
        format!("{time} {interface} {way} {between}, {length} bytes: {comment}\n")
    }

    fn object(&self, packet: &Packet<'_>) -> Value {
        let (interface, is_ethernet) = self.interface(packet);
        let told = told(packet.bytes, is_ethernet);
        json!({
            "UnixNs": packet.unix_ns,
            "Interface": interface,
            "Inbound": packet.is_inbound,
            "Length": packet.length,
            "Source": told.as_ref().map(|told| &told.source),
            "Destination": told.as_ref().map(|told| &told.destination),
            "Protocol": told.as_ref().map(|told| &told.protocol),
            "Flags": told.as_ref().and_then(|told| told.flags.as_ref()),
            "Comment": packet.comment,
        })
    }
}

/// Between whom a packet is; of an encapsulated one, the inner packet.
fn told(bytes: &[u8], is_ethernet: bool) -> Option<Told> {
    let ip = if is_ethernet { bytes.get(usize::from(Link::parse(bytes).ok()?.header_len)..)? } else { bytes };
    let inner = || {
        let payload = outer::parse(ip).ok()?.payload(ip);
        payload.get(usize::from(geneve::parse(payload).ok()?.inner_offset)..)
    };
    let ip = inner().unwrap_or(ip);
    // A packet of which only the beginning was kept is read like one that is quoted.
    let packet = packet::Packet::parse(ip).or_else(|_| packet::Packet::parse_quoted(ip)).ok()?;
    let end = |address: u128, port: u16| {
        let address = match packet.version {
            IpVersion::V4 => {
                let [.., a, b, c, d] = address.to_be_bytes();
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            IpVersion::V6 => IpAddr::V6(Ipv6Addr::from_bits(address)),
        };
        match packet.kind {
            Kind::Tcp | Kind::Datagram => SocketAddr::new(address, port).to_string(),
            _ => address.to_string(),
        }
    };
    Some(Told {
        source: end(packet.src, packet.src_port),
        destination: end(packet.dst, packet.dst_port),
        protocol: Protocol(packet.protocol).to_string(),
        flags: (packet.kind == Kind::Tcp).then(|| flags(packet.tcp_flags)),
    })
}

fn flags(flags: TcpFlags) -> String {
    let names: Vec<&str> = flags.iter_names().map(|(name, _)| name).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use crate::wire::sample;
    use jiff::tz::TimeZone;

    #[test]
    fn a_line_says_when_where_between_whom_and_what_became_of_it() {
        let look = Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC);
        let lines = Lines { interfaces: vec![("lan0".to_owned(), true), ("waiting".to_owned(), false)] };
        let ip = sample::ipv4([192, 0, 2, 1], [198, 51, 100, 2], 17, &sample::udp((1000, 53), &[9; 20]));
        let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &ip].concat();
        let packet = |interface, bytes| Packet {
            interface,
            unix_ns: 1_795_985_257_007_000_009,
            is_inbound: interface == 0,
            length: 62,
            bytes,
            comment: "arrived, forwarded",
        };
        let between = "192.0.2.1:1000 > 198.51.100.2:53 udp, 62 bytes: arrived, forwarded\n";
        assert_eq!(lines.line(&packet(0, &frame), &look), format!("20:47:37.007000009 lan0 in  {between}"));
        assert_eq!(lines.line(&packet(1, &ip), &look), format!("20:47:37.007000009 waiting out {between}"));
        // Cut after its ports, and before anything can be read.
        assert_eq!(
            lines.line(&packet(0, &frame[..42]), &look),
            format!("20:47:37.007000009 lan0 in  {between}")
        );
        let nothing = "20:47:37.007000009 lan0 in  no IP, 62 bytes: arrived, forwarded\n";
        assert_eq!(lines.line(&packet(0, &frame[..20]), &look), nothing);
        assert_eq!(lines.object(&packet(0, &frame))["Source"], "192.0.2.1:1000");
    }
}
