//! What a port's device is and can.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a port's device is and can.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct PortCapabilities {
    /// The version of its firmware, in its driver's words; none: it does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// The NUMA node that it is on; none: it has none, or does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u16>,
    /// Its link's speed in megabits a second; none: it does not tell, or the link is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbps: Option<u32>,
    /// Whether its link sends and receives at once.
    pub full_duplex: bool,
    /// Queues that it has at most, in each direction.
    pub max_queues: u16,
    /// How it can spread packets over queues.
    pub rss: RssCapabilities,
}

/// How a device can spread packets over queues (receive-side scaling), and what it does of that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct RssCapabilities {
    /// It spreads packets now. With one queue there is nothing to spread.
    pub in_use: bool,
    /// Under a symmetric key, so that both directions of a flow come to one queue.
    pub symmetric: bool,
    /// Bytes of the key that it takes; 0: none.
    pub key_length: u8,
    /// Entries of its indirection table; 0: it has none.
    pub table_size: u16,
    /// It can hash over addresses.
    pub addresses: bool,
    /// It can hash over the ports of TCP.
    pub tcp_ports: bool,
    /// It can hash over the ports of UDP.
    pub udp_ports: bool,
    /// Each packet comes with its hash, which the worker then need not compute.
    pub delivered: bool,
}
