//! What the control core shows of what runs: flows, counters, endpoints, workers, ports. The shapes
//! are those of the socket's JSON, so that there is one of each.
//!
//! Filled in by the [`super::service::Service`], sent by the methods, read by the command line.

#![forbid(unsafe_code)]

mod audit;
mod capture;
mod device;
mod explanation;
mod flow_log;
mod history;
mod load;
mod network;
mod overview;
mod plan;
mod standing;
mod tables;
mod troubles;

pub use audit::{Audit, Finding, GroupAudit, Severity, TargetAudit};
pub use capture::{
    AddressRange, CaptureBytes, CaptureEnd, CaptureEnded, CapturePoint, CaptureQuery, CaptureRate,
    CaptureStarted, CaptureTotals, CapturedChunk, SnapLen,
};
pub use device::{PortCapabilities, RssCapabilities};
pub use explanation::{
    ChoiceView, ChosenView, ExplainedOutcome, ExplainedStep, Explanation, PacketView, ResetView,
};
pub use flow_log::{FlowLogState, FlowLogView};
pub use history::HistoryEntry;
pub use load::{BurstClass, FlowStates, LongestBurst, LookUps, WorkerLoad, WorkerMemory, WorkerView};
pub use network::{HostInterfaceView, InterfaceView, NeighbourView, NextHopView, RouteView};
pub use overview::{
    ChecksOverview, DrainOverview, EndpointOverview, HeldResets, LastCheckOverview, LoadBalancerOverview,
    NodeOverview, Overview, ResetCounts, TargetGroupOverview, TargetOverview, Totals, Traffic,
};
pub use plan::{Fate, FlowEffect, HealthEffect, HeldBy, Plan, Preview};
pub use tables::FlowTablesView;
pub use troubles::{ReadinessOverview, Trouble};

use crate::control::events::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A target by the traffic itself, beside what its checks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct InBandView {
    /// Packets sent to it.
    pub packets_to_target: u64,
    /// Packets that it returned and that were delivered.
    pub packets_from_target: u64,
    /// For how long it has been sent packets and has returned none, in milliseconds; 0 where it has
    /// returned one since, or was sent none. From the first packet that a look sees sent after the last
    /// one returned; looks are 2 ms apart where the group has `flowgate.inband.silence_ms`, and 250 ms
    /// elsewhere.
    pub silent_for_ms: u64,
}

/// Which flows are asked for. Every condition that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct FlowQuery {
    /// Flows of this target group: its name or ARN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group_arn: Option<String>,
    /// Flows on the target of this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Ipv4Addr>,
    /// Flows of the endpoint of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Flows of this protocol: `tcp`, `udp`, `icmp` and the like, or its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Flows with this address on either side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Flows with this port on either side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Flows in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FlowState>,
    /// No more than this many.
    #[serde(default)]
    pub limit: FlowLimit,
}

/// A number of flows to list: 1 to 10,000, and 100 if none is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
pub struct FlowLimit(#[schemars(range(min = 1, max = 10_000))] usize);

impl FlowLimit {
    /// The most flows that one answer lists.
    pub const MAX: usize = 10_000;

    /// The number.
    pub fn get(self) -> usize {
        self.0
    }
}

impl Default for FlowLimit {
    fn default() -> Self {
        FlowLimit(100)
    }
}

impl TryFrom<u64> for FlowLimit {
    type Error = String;

    fn try_from(limit: u64) -> Result<Self, String> {
        usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=FlowLimit::MAX).contains(limit))
            .map(FlowLimit)
            .ok_or_else(|| format!("the limit '{limit}' must be between '1-{}' inclusive", FlowLimit::MAX))
    }
}

impl From<FlowLimit> for u64 {
    fn from(limit: FlowLimit) -> u64 {
        limit.0 as u64
    }
}

/// An IP protocol: in JSON its name where it has one here, else its number as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Protocol(pub u8);

/// IANA's numbers of the protocols that people call by name.
const PROTOCOLS: [(u8, &str); 8] = [
    (1, "icmp"),
    (6, "tcp"),
    (17, "udp"),
    (47, "gre"),
    (50, "esp"),
    (58, "icmpv6"),
    (132, "sctp"),
    (136, "udplite"),
];

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl std::str::FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((number, _)) = PROTOCOLS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
            return Ok(Protocol(*number));
        }
        text.parse().map(Protocol).map_err(|_| {
            let names: Vec<&str> = PROTOCOLS.iter().map(|(_, name)| *name).collect();
            format!("the protocol '{text}' must be one of [{}] or a number from 0 to 255", names.join(", "))
        })
    }
}

impl TryFrom<String> for Protocol {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Protocol> for String {
    fn from(protocol: Protocol) -> String {
        protocol.to_string()
    }
}

/// Where a flow stands (F-9, F-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FlowState {
    /// TCP: only SYNs, from one side.
    HalfOpen,
    /// TCP: both sides are heard, or traffic of another protocol.
    Established,
    /// TCP: both FINs or a RST were seen.
    Closed,
    /// TCP: idle for too long, remembered for its next packet.
    Expired,
    /// TCP: ended by a reset, remembered for an end that may have to be told.
    Owing,
}

impl fmt::Display for FlowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlowState::HalfOpen => "half-open",
            FlowState::Established => "established",
            FlowState::Closed => "closed",
            FlowState::Expired => "expired",
            FlowState::Owing => "owing",
        })
    }
}

/// A flow as a worker's table has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowRecord {
    /// The endpoint's name.
    pub endpoint: String,
    /// The IP protocol.
    pub protocol: Protocol,
    /// The side that sent the first packet.
    pub source: IpAddr,
    /// Its port, or the identifier of an ICMP echo; none for other protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The other side.
    pub destination: IpAddr,
    /// The other side's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// The target group's name.
    pub target_group: String,
    /// The target that the flow goes through.
    pub target: Ipv4Addr,
    /// Where the flow stands.
    pub state: FlowState,
    /// Milliseconds since its last packet.
    pub idle_ms: u64,
    /// Milliseconds until it idles out, if it stays silent; 0 once it has.
    pub expires_in_ms: u64,
    /// The cookie in its GENEVE header (F-11), eight hexadecimal digits.
    pub cookie: String,
    /// The worker that owns it.
    pub worker: u8,
}

/// Flows found, and how much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct FlowPage {
    /// The flows, no more than asked for.
    pub flows: Vec<FlowRecord>,
    /// How many there are that match, listed or not.
    pub matching: u64,
    /// How many flows the node has in all.
    pub total: u64,
}

/// The node's counters at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Counters {
    /// When they were read.
    pub at: Timestamp,
    /// Milliseconds since the daemon started, when all of them were 0.
    pub uptime_ms: u64,
    /// One set for the node and one for each object that is counted by.
    pub sets: Vec<CounterSet>,
}

/// The counters of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct CounterSet {
    /// What kind of object.
    pub scope: CounterScope,
    /// Which: a name, a zone, an address, a worker's number. A target is `GROUP/ADDRESS`; the node has the empty name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Counters and gauges by name: those of CloudWatch by CloudWatch's (`NewFlowCount`), ours in the same manner.
    pub counters: BTreeMap<String, u64>,
    /// Packets dropped, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
}

/// The kinds of object that are counted by.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum CounterScope {
    /// The whole node.
    Node,
    /// A load balancer.
    LoadBalancer,
    /// A target group.
    TargetGroup,
    /// A zone.
    AvailabilityZone,
    /// A target.
    Target,
    /// A worker core.
    Worker,
    /// A port.
    Port,
}

impl fmt::Display for CounterScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CounterScope::Node => "node",
            CounterScope::LoadBalancer => "load-balancer",
            CounterScope::TargetGroup => "target-group",
            CounterScope::AvailabilityZone => "availability-zone",
            CounterScope::Target => "target",
            CounterScope::Worker => "worker",
            CounterScope::Port => "port",
        })
    }
}

/// An endpoint of this node (O-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct EndpointView {
    /// Its name in the node's configuration.
    pub endpoint_name: String,
    /// `wire` or `routed`.
    pub kind: String,
    /// The 64-bit id that GENEVE carries, 16 hexadecimal digits.
    pub endpoint_id: String,
    /// The 64-bit attachment id, 16 hexadecimal digits.
    pub attachment_id: String,
    /// The names of its ports.
    pub ports: Vec<String>,
    /// The interfaces of a routed endpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceView>,
    /// The routes of a routed endpoint: its interfaces' networks, then those configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteView>,
    /// The name of the load balancer it leads to; none: its traffic is dropped, and counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<String>,
    /// Its live flows.
    pub flows: u64,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PortView {
    /// Its name in the node's configuration.
    pub port_name: String,
    /// The device, as the packet library calls it.
    pub device: String,
    /// The device's driver.
    pub driver: String,
    /// Its link-layer address.
    pub mac: String,
    /// The largest packet it takes, in bytes, without its Ethernet header.
    pub mtu: u16,
    /// Whether its link is up.
    pub link_up: bool,
    /// Queues in each direction.
    pub queues: u16,
    /// What its device is and can.
    #[serde(default)]
    pub capabilities: PortCapabilities,
    /// Packets received.
    pub received: u64,
    /// Bytes of the frames received.
    #[serde(default)]
    pub received_bytes: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of the frames sent.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Packets that the device dropped for want of room before a worker saw them.
    pub missed: u64,
    /// Of these, those for which there was no buffer.
    #[serde(default)]
    pub no_buffer: u64,
    /// Frames that came in damaged.
    #[serde(default)]
    pub receive_errors: u64,
    /// Packets that the device took and could not send.
    #[serde(default)]
    pub send_errors: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_go_by_name_or_number() {
        for (text, number) in [("tcp", 6), ("TCP", 6), ("58", 58), ("0", 0), ("255", 255)] {
            assert_eq!(text.parse::<Protocol>().unwrap(), Protocol(number));
        }
        assert_eq!(Protocol(6).to_string(), "tcp");
        assert_eq!(Protocol(89).to_string(), "89");
        for bad in ["", "256", "-1", "tcpp"] {
            assert!(bad.parse::<Protocol>().unwrap_err().contains("must be one of [icmp, tcp"), "{bad}");
        }
    }

    #[test]
    fn a_limit_is_1_to_10000() {
        let query = |limit: &str| serde_json::from_str::<FlowQuery>(&format!("{{\"Limit\":{limit}}}"));
        assert_eq!(query("1").unwrap().limit.get(), 1);
        assert_eq!(query("10000").unwrap().limit.get(), 10_000);
        for bad in ["0", "10001", "-1", "1.5", "\"9\""] {
            assert!(query(bad).is_err(), "{bad}");
        }
        assert_eq!(serde_json::from_str::<FlowQuery>("{}").unwrap().limit.get(), 100);
    }
}
