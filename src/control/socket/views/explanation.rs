//! What would become of a packet, and why, step by step.

#![forbid(unsafe_code)]

use super::{FlowRecord, Protocol};
use crate::control::health::HealthState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// What would become of one packet if it came in now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Explanation {
    /// The packet, as far as it could be read.
    pub packet: PacketView,
    /// What becomes of it.
    pub outcome: ExplainedOutcome,
    /// The same in one sentence.
    pub sentence: String,
    /// The target that it goes to, or comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Ipv4Addr>,
    /// If it is dropped: under which name that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_reason: Option<String>,
    /// If it is answered with a reset: that reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetView>,
    /// The load balancer behind its endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<String>,
    /// The target group that the load balancer's listener forwards to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_group: Option<String>,
    /// The entry of its flow, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowRecord>,
    /// Where the hash leads, whether or not it decides here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ChoiceView>,
    /// What led to it, in order.
    pub steps: Vec<ExplainedStep>,
    /// The worker that owns the flow, and answered.
    pub worker: u8,
}

/// A packet, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PacketView {
    /// The port that it comes in by.
    pub port: String,
    /// The endpoint of that port; none on the target side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The IP protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
    /// Its port, or an echo's identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// Where it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<IpAddr>,
    /// Its port, or an echo's identifier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// TCP's flags, such as `SA`; `.` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<String>,
    /// Bytes of the frame.
    pub length: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExplainedOutcome {
    /// It goes to a target.
    Forwarded,
    /// It comes from a target and leaves by its endpoint.
    Delivered,
    /// It is answered with a TCP reset.
    Reset,
    /// It is answered with an ICMP error.
    IcmpError,
    /// It is dropped.
    Dropped,
    /// It crosses the wire untouched.
    Crosses,
    /// It is the host's.
    Host,
    /// It waits: a later fragment for its first.
    Waits,
}

impl fmt::Display for ExplainedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExplainedOutcome::Forwarded => "forwarded",
            ExplainedOutcome::Delivered => "delivered",
            ExplainedOutcome::Reset => "reset",
            ExplainedOutcome::IcmpError => "icmp-error",
            ExplainedOutcome::Dropped => "dropped",
            ExplainedOutcome::Crosses => "crosses",
            ExplainedOutcome::Host => "host",
            ExplainedOutcome::Waits => "waits",
        })
    }
}

/// A reset that would be sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ResetView {
    /// Why.
    pub trigger: String,
    /// To whom: the sender of the packet.
    pub to: IpAddr,
    /// To which port.
    pub to_port: u16,
    /// In whose name.
    pub from: IpAddr,
    /// From which port.
    pub from_port: u16,
    /// Its sequence number. Of a packet that was given as a tuple, whose numbers are 0, it says nothing.
    pub sequence: u32,
    /// Its acknowledgement number, the same way.
    pub acknowledgement: u32,
    /// Its flags: `R` or `RA`.
    pub flags: String,
}

/// Where the hash leads (F-3, F-4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChoiceView {
    /// What of the tuple is hashed: `5-tuple`, `3-tuple` or `2-tuple`.
    pub key: String,
    /// The row of the group's table, of 65,536, that the hash leads to.
    pub row: u16,
    /// The row's first choice.
    pub first: ChosenView,
    /// Who would have the row without the first; the first again if there is no other.
    pub second: ChosenView,
    /// Whom a new flow with this key would be given to now.
    pub chosen: Ipv4Addr,
    /// Nobody is healthy, so that it would be given to the first all the same (F-6).
    pub fail_open: bool,
}

/// A target in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ChosenView {
    /// Its address.
    pub target: Ipv4Addr,
    /// Its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<HealthState>,
}

/// One step on a packet's way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct ExplainedStep {
    /// What is so.
    pub text: String,
    /// The rules that say so.
    pub rules: Vec<String>,
    /// The command that changes what decides here, if an attribute does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}
