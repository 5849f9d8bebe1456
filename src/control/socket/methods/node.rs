//! What runs on this node: flows, counters, endpoints, workers, ports.

#![forbid(unsafe_code)]

use super::fault;
use crate::control::events::Timestamp;
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::views::{
    CounterScope, Counters, EndpointView, FlowPage, FlowQuery, FlowTablesView, PortView, WorkerView,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub(super) fn register(table: &mut Dispatcher) {
    table.waiting_method(
        "describe-flows",
        "Lists flows that match every condition given, up to a limit.",
        describe_flows,
    );
    table.method("get-counters", "Reads the counters of the node and of its objects.", get_counters);
    table.method(
        "describe-endpoints",
        "Lists this node's endpoints and the load balancer that each leads to.",
        describe_endpoints,
    );
    table.method(
        "describe-workers",
        "Lists this node's worker cores, how full their flow tables are and how busy they are.",
        describe_workers,
    );
    table.method(
        "describe-ports",
        "Lists this node's ports with their links and packet counts.",
        describe_ports,
    );
}

pub(super) fn register_debug(table: &mut Dispatcher) {
    table.admin_method(
        "debug-advance-clock",
        "Lets the daemon's time jump ahead, for tests of timeouts; only of a daemon started for tests.",
        debug_advance_clock,
    );
}

/// No parameters.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

async fn describe_flows(call: &Call<'_>, mut asked: FlowQuery) -> Result<FlowPage, RpcError> {
    if let Some(reference) = asked.target_group_arn.take() {
        let state = call.service.state();
        let group = state
            .target_group(&reference)
            .map_err(|error| fault::of_model(error, "TargetGroupArn", &state))?;
        asked.target_group_arn = Some(group.name.to_string());
    }
    if let Some(name) = &asked.endpoint {
        let endpoints = call.service.endpoints();
        if endpoints.iter().all(|endpoint| endpoint.endpoint_name != *name) {
            let names: Vec<_> = endpoints.into_iter().map(|endpoint| endpoint.endpoint_name).collect();
            return Err(RpcError::refused("EndpointNotFound", format!("Endpoint '{name}' not found"))
                .at("Endpoint")
                .hint(format!("the endpoints are {}", names.join(", "))));
        }
    }
    call.service.flows(asked).await.map_err(|error| fault::of_workers(&error))
}

/// Which counters are asked for; nothing given: all.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct GetCounters {
    /// Of this kind of object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<CounterScope>,
    /// Of the objects of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

fn get_counters(call: &Call<'_>, asked: GetCounters) -> Result<Counters, RpcError> {
    let mut counters = call.service.counters();
    counters.sets.retain(|set| {
        asked.scope.is_none_or(|scope| set.scope == scope)
            && asked.name.as_ref().is_none_or(|name| set.name == *name)
    });
    Ok(counters)
}

/// The node's endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Endpoints {
    /// In the order of the configuration.
    pub endpoints: Vec<EndpointView>,
}

fn describe_endpoints(call: &Call<'_>, Nothing {}: Nothing) -> Result<Endpoints, RpcError> {
    Ok(Endpoints { endpoints: call.service.endpoints() })
}

/// The node's workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Workers {
    /// By number.
    pub workers: Vec<WorkerView>,
    /// What came of the flow tables of the daemon before this one.
    #[serde(default)]
    pub flow_tables: FlowTablesView,
}

/// What is asked of the workers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeWorkers {
    /// The longest burst is that of so many seconds; 10 where nothing is given.
    #[serde(default)]
    pub window_seconds: Window,
}

/// Some of the last seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
pub struct Window(#[schemars(range(min = 1, max = 60))] u64);

impl Window {
    /// How far workers look back, in seconds.
    pub const MAX: u64 = 60;

    /// The window.
    pub fn get(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl Default for Window {
    fn default() -> Window {
        Window(10)
    }
}

impl TryFrom<u64> for Window {
    type Error = String;

    fn try_from(seconds: u64) -> Result<Window, String> {
        let allowed = (1..=Window::MAX).contains(&seconds);
        allowed.then_some(Window(seconds)).ok_or_else(|| {
            format!("the window '{seconds}' must be between '1-{}' seconds inclusive", Window::MAX)
        })
    }
}

impl From<Window> for u64 {
    fn from(window: Window) -> u64 {
        window.0
    }
}

fn describe_workers(call: &Call<'_>, asked: DescribeWorkers) -> Result<Workers, RpcError> {
    let (workers, flow_tables) =
        (call.service.workers(asked.window_seconds.get()), call.service.flow_tables());
    Ok(Workers { workers, flow_tables })
}

/// The node's ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Ports {
    /// In the order of the configuration.
    pub ports: Vec<PortView>,
}

fn describe_ports(call: &Call<'_>, Nothing {}: Nothing) -> Result<Ports, RpcError> {
    Ok(Ports { ports: call.service.ports() })
}

/// How far to jump.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct AdvanceClock {
    /// By this many milliseconds.
    pub milliseconds: u32,
}

/// The daemon's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Clock {
    /// After the jump.
    pub now: Timestamp,
}

fn debug_advance_clock(call: &Call<'_>, asked: AdvanceClock) -> Result<Clock, RpcError> {
    call.service.advance_clock(asked.milliseconds);
    Ok(Clock { now: call.service.now() })
}
