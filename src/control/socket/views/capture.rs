//! Captures: what is asked for, and what is told of them.

use super::Protocol;
use crate::control::bounded::bounded_number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// Which packets are to be captured, and how many. Every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct CaptureQuery {
    /// At these points of their way; none named: at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<CapturePoint>,
    /// Packets that were dropped for one of these reasons, by the names that the counters have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Packets of this load balancer: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_arn: Option<String>,
    /// Packets of the load balancer that uses this target group: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group_arn: Option<String>,
    /// Packets to and from the target of this address, and of its flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Ipv4Addr>,
    /// Packets of the endpoint of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Packets of this protocol: `tcp`, `udp`, `icmp` and the like, or its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Packets one end of which has this address, or one of these: `192.0.2.0/24`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<AddressRange>,
    /// Packets that end of which has this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Packets the other end of which has this address, or one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<AddressRange>,
    /// Packets the other end of which has this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_port: Option<u16>,
    /// Bytes kept of each packet.
    #[serde(default)]
    pub snap_len: SnapLen,
    /// Packets a second of each worker, at most; what is more is counted.
    #[serde(default)]
    pub packets_per_second: CaptureRate,
    /// The capture ends with so many packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// The capture ends before it is larger than so many bytes.
    #[serde(default)]
    pub bytes: CaptureBytes,
    /// The capture ends after so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
}

bounded_number! {
    /// Bytes kept of each packet: 14 to 16,384, and 16,384 if nothing is said: more than any frame has.
    SnapLen(14..=16_384, 16_384, "the length")
}
bounded_number! {
    /// Packets a second of each worker: 1 to 100,000, and 10,000 if nothing is said.
    CaptureRate(1..=100_000, 10_000, "the rate")
}
bounded_number! {
    /// Bytes of a capture: 4,096 to 1 TiB, and 1 GiB if nothing is said.
    CaptureBytes(4096..=1_099_511_627_776_u64, 1_073_741_824, "the size")
}

/// An address, or all addresses that begin like it: `192.0.2.1`, `192.0.2.0/24`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct AddressRange {
    /// One of them.
    pub address: IpAddr,
    /// How many bits they have in common.
    pub length: u8,
}

impl FromStr for AddressRange {
    type Err = String;

    fn from_str(text: &str) -> Result<AddressRange, String> {
        let wrong = || format!("'{text}' is no address and no range such as 192.0.2.0/24");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(length) => length.parse().ok().filter(|length| *length <= bits).ok_or_else(wrong)?,
            None => bits,
        };
        Ok(AddressRange { address, length })
    }
}

impl TryFrom<String> for AddressRange {
    type Error = String;

    fn try_from(text: String) -> Result<AddressRange, String> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> String {
        let whole = if range.address.is_ipv4() { 32 } else { 128 };
        if range.length == whole {
            range.address.to_string()
        } else {
            format!("{}/{}", range.address, range.length)
        }
    }
}

/// Where on its way through the gateway a packet is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CapturePoint {
    /// As it came in at an endpoint, or from the host's network stack.
    Arrived,
    /// Encapsulated, as the port to the target took it.
    Encapsulated,
    /// As it came in from the target side.
    Returned,
    /// As it left by its endpoint, after its target had returned it.
    Delivered,
    /// Where it was dropped: as it came in, or as it would have left.
    Dropped,
    /// A TCP reset, as it left.
    Reset,
    /// Whatever else left: ICMP errors of the gateway's own, frames that cross a wire, frames of the host.
    Other,
}

/// A capture has begun: its packets follow, in notifications `captured`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CaptureStarted {
    /// The workers that take part.
    pub workers: u32,
    /// Bytes kept of each packet.
    pub snap_len: SnapLen,
    /// Packets a second of each worker, at most.
    pub packets_per_second: CaptureRate,
    /// The capture ends before it is larger than so many bytes.
    pub bytes: CaptureBytes,
}

/// How much a capture has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CaptureTotals {
    /// Packets in it.
    pub packets: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Packets that were asked for and are not in it, as there were more than the rate.
    pub over_rate: u64,
    /// Packets that were asked for and are not in it, as the reader was too slow.
    pub unread: u64,
}

/// The parameters of the notification `captured`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CapturedChunk {
    /// The next bytes of a pcapng file, in base64; whole blocks of it.
    pub data: String,
    /// How much that makes.
    #[serde(flatten)]
    pub totals: CaptureTotals,
}

/// The parameters of the notification `capture-ended`, after the last `captured`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CaptureEnded {
    /// Why.
    pub reason: CaptureEnd,
    /// How much there was.
    #[serde(flatten)]
    pub totals: CaptureTotals,
}

/// Why a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureEnd {
    /// It has as many packets as were asked for.
    Packets,
    /// It would become larger than it may.
    Bytes,
    /// Its time is over.
    Seconds,
    /// `stop-capture` was called.
    Stopped,
}

impl CaptureEnd {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            CaptureEnd::Packets => "packets",
            CaptureEnd::Bytes => "bytes",
            CaptureEnd::Seconds => "seconds",
            CaptureEnd::Stopped => "stopped",
        }
    }
}

impl fmt::Display for CaptureEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CaptureEnd::Packets => "as many packets as were asked for",
            CaptureEnd::Bytes => "as large as it may be",
            CaptureEnd::Seconds => "its time is over",
            CaptureEnd::Stopped => "stopped",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_and_written_alike_and_what_is_none_is_refused() {
        for text in ["192.0.2.1", "192.0.2.0/24", "0.0.0.0/0", "2001:db8::/32", "::1"] {
            assert_eq!(String::from(text.parse::<AddressRange>().unwrap()), text);
        }
        assert_eq!("10.0.0.1/32".parse::<AddressRange>(), "10.0.0.1".parse());
        for text in ["", "192.0.2", "192.0.2.0/33", "::/129", "192.0.2.0/", "/8", "192.0.2.0/-1", "a/8"] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_with_the_bounds() {
        let error = "0".parse::<CaptureRate>().unwrap_err();
        assert_eq!(error, "the rate '0' must be between '1-100000' inclusive");
        assert!("13".parse::<SnapLen>().is_err() && "14".parse::<SnapLen>().is_ok());
        assert_eq!(CaptureBytes::default().get(), 1 << 30);
    }
}
