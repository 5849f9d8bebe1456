//! A record: what a worker reported, in the terms of people and of clocks on walls.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use super::names::{Names, TargetNames};
use crate::control::events::ResetTrigger;
use crate::datapath::flow_log::{FlowReport, Why};

/// Why there is a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub Why);

impl Reason {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self.0 {
            Why::Fin => "fin",
            Why::Rst => "rst",
            Why::Idle => "idle",
            Why::HalfOpen => "half-open",
            Why::Reset(trigger) => match ResetTrigger::from(trigger) {
                ResetTrigger::Unhealthy => "reset-unhealthy",
                ResetTrigger::Deregistration => "reset-deregistration",
                ResetTrigger::IdleTimeout => "reset-idle-timeout",
                ResetTrigger::NoFlow => "reset-no-flow",
                ResetTrigger::BothEnds => "reset-both-ends",
                ResetTrigger::Proactive => "reset-proactive",
            },
            Why::Evicted => "evicted",
            Why::Replaced => "replaced",
            Why::Dropped => "dropped",
            Why::Moved => "moved",
            Why::GoesOn => "goes-on",
            Why::LogOver => "log-over",
        }
    }

    /// The same as IPFIX's `flowEndReason` has it.
    #[must_use]
    pub fn flow_end_reason(self) -> u8 {
        match self.0 {
            Why::Idle | Why::HalfOpen => 1,
            Why::GoesOn => 2,
            Why::Fin | Why::Rst => 3,
            Why::Reset(_) | Why::Replaced | Why::Dropped | Why::Moved | Why::LogOver => 4,
            Why::Evicted => 5,
        }
    }
}

/// Packets and bytes one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Bytes of these, by their IP headers.
    pub bytes: u64,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When it was made.
    pub at: SystemTime,
    /// Why.
    pub reason: Reason,
    /// The endpoint's name.
    pub endpoint: &'a str,
    /// The target, and what it belongs to; empty and unspecified if that is not known any more.
    pub target: &'a TargetNames,
    /// The IP protocol.
    pub protocol: u8,
    /// Who sent the first packet.
    pub source: SocketAddr,
    /// The other side.
    pub destination: SocketAddr,
    /// When the flow began, or, of one that was there before the log, when the log did.
    pub first: SystemTime,
    /// When its last packet came.
    pub last: SystemTime,
    /// Whether it was counted from its first packet on.
    pub is_whole: bool,
    /// What the source sent and was handed to the target.
    pub forward: Counted,
    /// What the destination sent and was handed to the target.
    pub reverse: Counted,
    /// Of what the source sent, what the target returned.
    pub returned_forward: Counted,
    /// Of what the destination sent, what the target returned.
    pub returned_reverse: Counted,
    /// The flow's cookie.
    pub cookie: u32,
}

/// The names of a target that nobody knows any more.
static UNKNOWN: TargetNames =
    TargetNames { load_balancer: String::new(), target_group: String::new(), target: Ipv4Addr::UNSPECIFIED };

impl<'a> Record<'a> {
    /// The record of a report that was made at `at`.
    #[must_use]
    pub fn new(report: &FlowReport, at: SystemTime, names: &'a Names) -> Record<'a> {
        let (there, back) = (report.initiator, report.initiator.reverse());
        let account = &report.account;
        let ago = |ms: u32| at.checked_sub(Duration::from_millis(ms.into())).unwrap_or(at);
        let out = |way: crate::flow::Direction| Counted {
            packets: account.packets_out[way.index()].into(),
            bytes: account.bytes_out[way.index()],
        };
        let returned = |way: crate::flow::Direction| Counted {
            packets: account.packets_back[way.index()].into(),
            bytes: account.bytes_back[way.index()],
        };
        Record {
            at,
            reason: Reason(report.why),
            endpoint: names.endpoint(report.key.endpoint()),
            target: names.target(report.target, report.target_generation).unwrap_or(&UNKNOWN),
            protocol: report.key.protocol(),
            source: report.key.source_socket(there),
            destination: report.key.source_socket(back),
            first: ago(report.began_ms_ago.max(report.last_ms_ago)),
            last: ago(report.last_ms_ago),
            is_whole: account.is_whole(),
            forward: out(there),
            reverse: out(back),
            returned_forward: returned(there),
            returned_reverse: returned(back),
            cookie: report.cookie.0,
        }
    }

    /// Whether flows of its protocol have ports, or what stands in their place.
    #[must_use]
    pub fn has_ports(&self) -> bool {
        matches!(self.protocol, 1 | 6 | 17 | 58 | 132 | 136)
    }
}
