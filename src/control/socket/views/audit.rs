//! What an audit finds.

#![forbid(unsafe_code)]

use crate::control::events::Timestamp;
use crate::control::health::HealthState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv4Addr;

/// What an audit says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Audit {
    /// The configuration's number.
    pub generation: u64,
    /// When.
    pub at: Timestamp,
    /// The worst of the findings; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Severity>,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// What each target group does when a target fails.
    pub target_groups: Vec<GroupAudit>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// To be known; it may be what is wanted.
    Notice,
    /// Something will go otherwise than most would expect.
    Warning,
    /// Traffic is hurt now, or will be with the next failure.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        })
    }
}

/// One thing that an operator should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Finding {
    /// What kind of finding it is, as docs/audit.md lists them.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: a target group, a load balancer, a target (`GROUP/ADDRESS`), a worker, a port.
    pub object: String,
    /// What is so.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// The command that changes it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a target group does when a target fails, from its settings and from what is live now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct GroupAudit {
    /// Its name.
    pub target_group: String,
    /// The load balancer that uses it; none: nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<String>,
    /// `no_rebalance` or `rebalance`.
    pub failover: String,
    /// What a target is chosen by: `5-tuple`, `3-tuple` or `2-tuple`.
    pub stickiness: String,
    /// The TCP flows of an unhealthy target are reset.
    pub reset_on_unhealthy: bool,
    /// Those of a deregistered one are, after the delay.
    pub reset_on_deregistration: bool,
    /// Those that idle out are.
    pub reset_on_idle_timeout: bool,
    /// Interval × unhealthy threshold, in milliseconds (H-7).
    pub detection_time_ms: u64,
    /// The same at worst, in milliseconds: death comes right after a check that succeeded, and each check that
    /// fails takes its whole timeout.
    pub worst_detection_time_ms: u64,
    /// How much longer `flowgate.reset.hold_ms` keeps the first reset back, in milliseconds.
    pub hold_ms: u64,
    /// The idle timeout of TCP in milliseconds.
    pub tcp_idle_timeout_ms: u64,
    /// Its live flows.
    pub flows: u64,
    /// Losing this much of its flows is the worst that one target's death can do, in percent.
    pub largest_share_percent: f64,
    /// What losing each would do.
    pub targets: Vec<TargetAudit>,
}

/// What losing a target would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TargetAudit {
    /// Its address.
    pub target: Ipv4Addr,
    /// Its state.
    pub state: HealthState,
    /// Its live flows.
    pub flows: u64,
    /// Of these, how many its sudden death would end: reset where resets are on, left hanging where they are off.
    pub would_end: u64,
    /// Its share of the group's flows, in percent.
    pub share_percent: f64,
    /// What an answer to its health check takes as a rule, in milliseconds; none: it has answered none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_answer_ms: Option<f64>,
    /// The slowest answer of the last ten to twenty minutes, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_answer_ms: Option<f64>,
}
