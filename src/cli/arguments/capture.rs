//! Flags of `capture`.

#![forbid(unsafe_code)]

use crate::control::socket::views::{
    AddressRange, CaptureBytes, CapturePoint, CaptureQuery, CaptureRate, Protocol, SnapLen,
};
use clap::Args;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct CaptureFlags {
    /// Write a pcapng file, to be opened in Wireshark; `-`: to standard output.
    #[arg(long, short, value_name = "FILE")]
    pub(in crate::cli) write: Option<PathBuf>,
    /// Print a line a packet; so it is without --write.
    #[arg(long)]
    pub(in crate::cli) print: bool,
    /// Only at these points of a packet's way.
    #[arg(long, num_args = 1.., value_enum, value_name = "POINT")]
    points: Vec<CapturePoint>,
    /// Only packets dropped for one of these reasons, as get-counters names them.
    #[arg(long, num_args = 1.., value_name = "REASON")]
    reasons: Vec<String>,
    /// Of this load balancer.
    #[arg(long, visible_alias = "load-balancer-arn", value_name = "NAME|ARN")]
    load_balancer: Option<String>,
    /// Of the load balancer that uses this target group.
    #[arg(long, visible_alias = "target-group-arn", value_name = "NAME|ARN")]
    target_group: Option<String>,
    /// To and from this target, and of its flows.
    #[arg(long, value_name = "ADDRESS")]
    target: Option<Ipv4Addr>,
    /// Of this endpoint.
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Of this protocol: its name or number.
    #[arg(long)]
    protocol: Option<Protocol>,
    /// One end has this address, or one of these.
    #[arg(long, value_name = "ADDRESS[/LENGTH]")]
    address: Option<AddressRange>,
    /// That end has this port.
    #[arg(long)]
    port: Option<u16>,
    /// The other end has this address, or one of these.
    #[arg(long, value_name = "ADDRESS[/LENGTH]")]
    peer_address: Option<AddressRange>,
    /// The other end has this port.
    #[arg(long, value_name = "PORT")]
    peer_port: Option<u16>,
    /// End with so many packets.
    #[arg(long, short, value_name = "PACKETS")]
    count: Option<u64>,
    /// End before the capture is larger: bytes, or 64K, 100M, 2G.
    #[arg(long, default_value = "1G", value_parser = size, value_name = "BYTES")]
    size: CaptureBytes,
    /// End after so long, such as 30s or 5m.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    duration: Option<u32>,
    /// Keep so many bytes of each packet; 16384, more than any has, if nothing is said.
    #[arg(long, short, default_value = "16384", hide_default_value = true, value_name = "BYTES")]
    snap_len: SnapLen,
    /// Capture at most so many packets a second of each worker; how many more there were is told.
    #[arg(long, default_value = "10000", value_name = "PACKETS")]
    rate: CaptureRate,
}

fn size(text: &str) -> Result<CaptureBytes, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is no size such as 64K, 100M or 2G"))?;
    number.saturating_mul(1 << unit).try_into()
}

fn duration(text: &str) -> Result<u32, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let time = Duration::try_from(time).map_err(|error| error.to_string())?;
    let seconds = u32::try_from(time.as_secs()).ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| "it must be a second or longer".to_owned())
}

impl CaptureFlags {
    pub(in crate::cli) fn params(&self) -> CaptureQuery {
        CaptureQuery {
            points: self.points.clone(),
            reasons: self.reasons.clone(),
            load_balancer_arn: self.load_balancer.clone(),
            target_group_arn: self.target_group.clone(),
            target: self.target,
            endpoint: self.endpoint.clone(),
            protocol: self.protocol,
            address: self.address,
            port: self.port,
            peer_address: self.peer_address,
            peer_port: self.peer_port,
            snap_len: self.snap_len,
            packets_per_second: self.rate,
            packets: self.count,
            bytes: self.size,
            seconds: self.duration,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_or_none_and_bounds() {
        for (text, expected) in [("4096", 4096), ("64K", 65_536), ("100m", 104_857_600), ("1T", 1 << 40)] {
            assert_eq!(size(text).map(CaptureBytes::get), Ok(expected));
        }
        for text in ["", "K", "1X", "-1", "2T", "99999999999999999999", "18446744073709551615T", "1", "é"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
