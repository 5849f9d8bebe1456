//! What happened, as the control core tells it: to subscribers of the socket, and to whoever else
//! listens.
//!
//! The control core makes an [`Event`] at the moment of the fact and sends it into a bounded
//! broadcast channel; nobody who is slow to take it holds the core up. Times are wall-clock, to the
//! millisecond.

#![forbid(unsafe_code)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{SystemTime, UNIX_EPOCH};

use super::failover::{Cause, EndReason};
use super::health::{HealthState, ReasonCode};
use super::wall;

/// A moment of wall-clock time: milliseconds since 1970 in UTC. In JSON both as that number
/// (`UnixMs`) and as RFC 3339 (`Rfc3339`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(into = "TimestampJson", from = "TimestampJson")]
#[schemars(with = "TimestampJson")]
pub struct Timestamp(i64);

/// A moment, for programs and for people.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
#[schemars(rename = "Timestamp")]
struct TimestampJson {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    unix_ms: i64,
    /// The same in UTC, as RFC 3339 has it, to the millisecond.
    rfc3339: String,
}

impl Timestamp {
    /// Now, by the system's clock.
    pub fn now() -> Self {
        wall::now().into()
    }

    /// The moment `ms` milliseconds after 1970-01-01T00:00:00Z; beyond the years that RFC 3339 can
    /// write (0 to 9999) the nearest that it can, but for the last two days.
    pub fn from_unix_ms(ms: i64) -> Self {
        const FIRST: i64 = -62_167_219_200_000;
        const LAST: i64 = 253_402_128_000_000;
        Timestamp(ms.clamp(FIRST, LAST))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub fn unix_ms(self) -> i64 {
        self.0
    }

    /// Milliseconds from `earlier` to `self`; 0 if `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let ms = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        };
        Timestamp::from_unix_ms(ms)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC: `2026-11-29T20:47:37.123Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{moment:.3}")
    }
}

impl From<Timestamp> for TimestampJson {
    fn from(time: Timestamp) -> Self {
        TimestampJson { unix_ms: time.0, rfc3339: time.to_string() }
    }
}

impl From<TimestampJson> for Timestamp {
    fn from(json: TimestampJson) -> Self {
        Timestamp::from_unix_ms(json.unix_ms)
    }
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

impl Event {
    /// `what`, happening now.
    pub fn now(what: What) -> Self {
        Event { at: Timestamp::now(), what }
    }
}

/// What can happen. Objects are named as the operator named them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "Event", rename_all_fields = "PascalCase")]
pub enum What {
    /// A target's state changed (H-4).
    TargetHealthChanged {
        /// The target group's name.
        target_group: String,
        /// The target's address.
        target: Ipv4Addr,
        /// The state before.
        from: HealthState,
        /// The state from now on.
        to: HealthState,
        /// Why (H-5); none for `healthy`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<ReasonCode>,
        /// What was seen.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
    },
    /// A healthy target returned nothing of what it was sent, for as long as its group's
    /// `flowgate.inband.silence_ms`, and is checked out of turn (R-12).
    TargetSilent {
        /// The target group's name.
        target_group: String,
        /// The target's address.
        target: Ipv4Addr,
        /// For how long it has been silent by now.
        silent_for_ms: u64,
    },
    /// Resets were sent since the last event of this kind for the same target and trigger (R-8).
    FlowsReset {
        /// The load balancer's name.
        load_balancer: String,
        /// The target group's name.
        target_group: String,
        /// The target whose flows they were; none for packets of no flow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Ipv4Addr>,
        /// Why.
        trigger: ResetTrigger,
        /// How many.
        count: u64,
    },
    /// One reset, told with its flow; of many at once only a sample is told.
    TcpReset {
        /// The endpoint's name.
        endpoint: String,
        /// The target group's name.
        target_group: String,
        /// The target whose flow it was; none for a packet of no flow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<Ipv4Addr>,
        /// Why.
        trigger: ResetTrigger,
        /// Who has the reset: whoever sent the packet that was answered, or, of `proactive`, the end that was
        /// told unasked.
        sent_to: IpAddr,
        /// That side's TCP port.
        sent_to_port: u16,
        /// The other side.
        peer: IpAddr,
        /// The other side's TCP port.
        peer_port: u16,
    },
    /// A target was deregistered and its flows have until `ends` (T-3).
    DrainStarted {
        /// The target group's name.
        target_group: String,
        /// The target's address.
        target: Ipv4Addr,
        /// Its live flows.
        flows: u64,
        /// When the delay is over.
        ends: Timestamp,
    },
    /// A drain's delay is over, the target came back, or its group was deleted (T-4, T-7).
    DrainEnded {
        /// The target group's name.
        target_group: String,
        /// The target's address.
        target: Ipv4Addr,
        /// Its flows that are still live.
        flows_left: u64,
    },
    /// A target was lost to its flows, and a record of what becomes of them has begun.
    FailoverStarted {
        /// The record's number.
        id: u64,
        /// Whether the target is unhealthy or deregistered.
        cause: Cause,
        /// The target group's name.
        target_group: String,
        /// The target's address.
        target: Ipv4Addr,
        /// Its live flows.
        flows: u64,
    },
    /// The record has ended.
    FailoverEnded {
        /// The record's number.
        id: u64,
        /// What it began with.
        cause: Cause,
        /// The target group's name.
        target_group: String,
        /// The target's address.
        target: Ipv4Addr,
        /// Why it has ended.
        why: EndReason,
        /// The live flows that it began with.
        flows: u64,
        /// Flows that were ended by a reset.
        flows_reset: u64,
        /// Flows that were given to another target.
        flows_moved: u64,
        /// Flows that are still on the target.
        flows_left: u64,
    },
    /// A port's link went down, or its device is gone: nothing passes by it.
    PortDown {
        /// The port's name.
        port: String,
    },
    /// A port's link is up again.
    PortUp {
        /// The port's name.
        port: String,
    },
    /// A worker has gone no round for half a second: what it receives stands still, and then is lost.
    WorkerStuck {
        /// Its number.
        worker: u8,
        /// For how long by now.
        silent_for_ms: u64,
    },
    /// A worker that was stuck goes round again.
    WorkerWentOn {
        /// Its number.
        worker: u8,
        /// For how long it was stuck.
        stuck_for_ms: u64,
    },
    /// A worker has ended by a panic, and the daemon ends for it, so that another takes its place.
    WorkerPanicked {
        /// Its number.
        worker: u8,
    },
    /// The flow tables of the daemon before this one were taken over, and every worker forwards.
    FlowTablesTakenOver {
        /// Flows that go on.
        flows: u64,
        /// Entries that a crash has torn.
        torn: u64,
        /// Flows of endpoints or targets that there are no more.
        refused: u64,
        /// For how long nothing was forwarded.
        gap_ms: u64,
    },
    /// They could not be taken over: the flows are lost.
    FlowTablesLost {
        /// Why, in a sentence.
        why: String,
        /// For how long TCP packets of no flow begin one (F-8).
        adopt_seconds: u64,
    },
    /// A change was accepted, is on disk and is on its way to the workers.
    ConfigChanged {
        /// The configuration's number from now on.
        generation: u64,
    },
    /// Records of the flow log were lost since the last event of this kind.
    FlowRecordsLost {
        /// As they came faster than they could be written.
        lost: u64,
        /// As the disk or the network did not take them.
        failed: u64,
    },
}

/// What made a reset (R-1 to R-3, R-9, R-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResetTrigger {
    /// R-1: the flow's target is unhealthy.
    Unhealthy,
    /// R-2: the flow's target is deregistered and its delay is over.
    Deregistration,
    /// R-3: the flow was idle for too long.
    IdleTimeout,
    /// R-3: no such flow is known.
    NoFlow,
    /// R-9: the flow was reset before, and this end was not told, or sent all the same.
    BothEnds,
    /// R-10: the flow's target is unhealthy or gone, and its ends were told unasked.
    Proactive,
}

impl ResetTrigger {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ResetTrigger::Unhealthy => "unhealthy",
            ResetTrigger::Deregistration => "deregistration",
            ResetTrigger::IdleTimeout => "idle-timeout",
            ResetTrigger::NoFlow => "no-flow",
            ResetTrigger::BothEnds => "both-ends",
            ResetTrigger::Proactive => "proactive",
        }
    }
}

impl fmt::Display for ResetTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kinds of event that a subscriber may choose among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Target health changes, and silent targets.
    Health,
    /// Resets, summed and sampled.
    Resets,
    /// Drains that start and end.
    Drains,
    /// Records of failovers that begin and end.
    Failovers,
    /// Changes of the configuration.
    Config,
    /// Records that the flow log lost.
    FlowLog,
    /// Faults in the daemon and under it: workers that are stuck or end, ports without a link, flow tables over a restart.
    Faults,
}

impl EventKind {
    /// How many kinds there are.
    pub const KINDS: usize = EventKind::Faults as usize + 1;
}

impl What {
    /// The kind to subscribe to for events such as this.
    pub fn kind(&self) -> EventKind {
        match self {
            What::TargetHealthChanged { .. } | What::TargetSilent { .. } => EventKind::Health,
            What::FlowsReset { .. } | What::TcpReset { .. } => EventKind::Resets,
            What::DrainStarted { .. } | What::DrainEnded { .. } => EventKind::Drains,
            What::FailoverStarted { .. } | What::FailoverEnded { .. } => EventKind::Failovers,
            What::ConfigChanged { .. } => EventKind::Config,
            What::FlowRecordsLost { .. } => EventKind::FlowLog,
            What::WorkerStuck { .. }
            | What::WorkerWentOn { .. }
            | What::WorkerPanicked { .. }
            | What::FlowTablesTakenOver { .. }
            | What::FlowTablesLost { .. }
            | What::PortDown { .. }
            | What::PortUp { .. } => EventKind::Faults,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_to_the_millisecond_both_ways() {
        let time = Timestamp::from_unix_ms(1_795_985_257_007);
        let json = serde_json::to_string(&time).unwrap();
        // `date -u -d @1795985257` says Sun Nov 29 20:47:37 UTC 2026.
        assert_eq!(json, r#"{"UnixMs":1795985257007,"Rfc3339":"2026-11-29T20:47:37.007Z"}"#);
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), time);
    }

    #[test]
    fn times_beyond_what_can_be_written_are_the_nearest_that_can() {
        assert_eq!(Timestamp::from_unix_ms(i64::MAX).to_string(), "9999-12-30T00:00:00.000Z");
        assert_eq!(Timestamp::from_unix_ms(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn an_event_is_one_flat_object_with_its_kind_and_time() {
        let event = Event {
            at: Timestamp::from_unix_ms(0),
            what: What::FlowsReset {
                load_balancer: "gw".into(),
                target_group: "fw".into(),
                target: Some(Ipv4Addr::new(10, 0, 0, 1)),
                trigger: ResetTrigger::Unhealthy,
                count: 3,
            },
        };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "At": {"UnixMs": 0, "Rfc3339": "1970-01-01T00:00:00.000Z"}, "Event": "FlowsReset",
                "LoadBalancer": "gw", "TargetGroup": "fw", "Target": "10.0.0.1", "Trigger": "unhealthy", "Count": 3
            })
        );
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
}
