//! Flags of the verbs about what runs: flows, counters, workers, events.

#![forbid(unsafe_code)]

use crate::control::events::EventKind;
use crate::control::socket::methods::node::{AdvanceClock, DescribeWorkers, GetCounters, Window};
use crate::control::socket::methods::subscribe::Subscribe;
use crate::control::socket::views::{CounterScope, FlowLimit, FlowQuery, FlowState, Protocol};
use clap::Args;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct GlanceFlags {
    /// Over how long to look, such as 500ms or 10s; at most 60s.
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME")]
    pub(in crate::cli) interval: Duration,
}

/// A time from a tenth of a second to a minute.
fn interval(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let time = Duration::try_from(time).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(Window::MAX);
    if allowed.contains(&time) { Ok(time) } else { Err("it must be 100ms to 60s".to_owned()) }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TopFlags {
    /// How often to read, such as 500ms or 10s; 100ms to 60s.
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME")]
    pub(in crate::cli) interval: Duration,
    /// Print one frame as text and end: all targets, with the rates of one interval.
    #[arg(long)]
    pub(in crate::cli) once: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WorkersFlags {
    /// Show the longest burst of so many seconds, up to 60.
    #[arg(long, default_value = "10", value_parser = window, value_name = "SECONDS")]
    window: Window,
}

fn window(text: &str) -> Result<Window, String> {
    text.parse::<u64>().map_err(|error| error.to_string())?.try_into()
}

impl WorkersFlags {
    pub(in crate::cli) fn params(&self) -> DescribeWorkers {
        DescribeWorkers { window_seconds: self.window }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct FlowsFlags {
    /// Of this target group.
    #[arg(long, visible_alias = "target-group-arn", value_name = "NAME|ARN")]
    target_group: Option<String>,
    /// Through this target.
    #[arg(long, value_name = "ADDRESS")]
    target: Option<Ipv4Addr>,
    /// Of this endpoint.
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Of this protocol: its name or number.
    #[arg(long)]
    protocol: Option<Protocol>,
    /// With this address on either side.
    #[arg(long)]
    address: Option<IpAddr>,
    /// With this port on either side.
    #[arg(long)]
    port: Option<u16>,
    /// In this state.
    #[arg(long, value_enum)]
    state: Option<FlowState>,
    /// No more than so many, up to 10000.
    #[arg(long, default_value = "100", value_parser = flow_limit)]
    limit: FlowLimit,
}

fn flow_limit(text: &str) -> Result<FlowLimit, String> {
    text.parse::<u64>().map_err(|error| error.to_string())?.try_into()
}

impl FlowsFlags {
    pub(in crate::cli) fn params(self) -> FlowQuery {
        FlowQuery {
            target_group_arn: self.target_group,
            target: self.target,
            endpoint: self.endpoint,
            protocol: self.protocol,
            address: self.address,
            port: self.port,
            state: self.state,
            limit: self.limit,
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CountersFlags {
    /// Of this kind of object.
    #[arg(long, value_enum)]
    scope: Option<CounterScope>,
    /// Of the objects of this name.
    #[arg(long)]
    name: Option<String>,
    /// Show counters that are 0 too.
    #[arg(long)]
    pub(in crate::cli) all: bool,
}

impl CountersFlags {
    pub(in crate::cli) fn params(self) -> GetCounters {
        GetCounters { scope: self.scope, name: self.name }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SubscribeFlags {
    /// Only events of these kinds.
    #[arg(long, num_args = 1.., value_enum, value_name = "KIND")]
    events: Vec<EventKind>,
    /// End when the daemon ends the connection, instead of subscribing again as soon as it is back.
    #[arg(long)]
    no_reconnect: bool,
}

impl SubscribeFlags {
    pub(in crate::cli) fn params(&self) -> Subscribe {
        Subscribe { events: self.events.clone() }
    }

    pub(in crate::cli) fn tries_again(&self) -> bool {
        !self.no_reconnect
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct AdvanceFlags {
    /// How far.
    milliseconds: u32,
}

impl AdvanceFlags {
    pub(in crate::cli) fn params(&self) -> AdvanceClock {
        AdvanceClock { milliseconds: self.milliseconds }
    }
}
