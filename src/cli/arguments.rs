//! The command line's words: verbs and flags, and what each becomes as parameters of its method.

#![forbid(unsafe_code)]

use super::lifecycle::{
    CreateListenerFlags, CreateLoadBalancerFlags, CreateTargetGroupFlags, ModifyDefaultActionFlags,
    ModifyHealthCheckFlags,
};
use super::output::{Format, Query};
use super::shorthand::{self, Listed};
use crate::control::events::EventKind;
use crate::control::socket::DEFAULT_PATH;
use crate::control::socket::methods::attributes::{
    Attribute, DescribeListenerAttributes, DescribeLoadBalancerAttributes, DescribeTargetGroupAttributes,
    ModifyListenerAttributes, ModifyLoadBalancerAttributes, ModifyTargetGroupAttributes,
};
use crate::control::socket::methods::balancers::{DescribeListeners, DescribeLoadBalancers};
use crate::control::socket::methods::groups::DescribeTargetGroups;
use crate::control::socket::methods::health::DescribeTargetHealth;
use crate::control::socket::methods::node::{AdvanceClock, DescribeWorkers, GetCounters, Window};
use crate::control::socket::methods::registration::{
    DeregisterTargets, RegisterTargets, TargetName, TargetToRegister,
};
use crate::control::socket::methods::subscribe::Subscribe;
use crate::control::socket::views::{CounterScope, FlowLimit, FlowQuery, FlowState, Protocol};
use clap::{Args, Parser, Subcommand};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// Looks at and changes a running Flowgate gateway.
///
/// Verbs and flags are those of `aws elbv2`; a name serves wherever an ARN does.
#[derive(Debug, Parser)]
#[command(name = "flowgate", version, max_term_width = 100)]
pub(super) struct Arguments {
    /// The daemon's control socket.
    #[arg(long, global = true, env = "FLOWGATE_SOCKET", value_name = "PATH", default_value = DEFAULT_PATH)]
    pub(super) socket: PathBuf,
    /// The form of the result; a table, if nothing else is said.
    #[arg(long, global = true, value_enum, env = "FLOWGATE_OUTPUT", value_name = "FORMAT")]
    pub(super) output: Option<Format>,
    /// Short for --output json.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// What to print of the result: a JMESPath expression over its JSON.
    #[arg(long, global = true, value_parser = Query::read, value_name = "JMESPATH")]
    pub(super) query: Option<Query>,
    /// What to do.
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// The targets at a glance: state, reason, since when, live flows.
    Targets(TargetsFlags),
    /// How busy the workers are: packets a second, cycles a packet, burst fill, idle share, longest burst.
    Workers(GlanceFlags),
    /// List load balancers.
    DescribeLoadBalancers(LoadBalancersFlags),
    /// List listeners and where they forward to.
    DescribeListeners(ListenersFlags),
    /// List target groups with their health checks and detection times.
    DescribeTargetGroups(TargetGroupsFlags),
    /// Tell how the targets of a group stand, and how many flows the death of each would end.
    DescribeTargetHealth(TargetHealthFlags),
    /// Create a load balancer; it drops what comes until it has a listener.
    CreateLoadBalancer(CreateLoadBalancerFlags),
    /// Delete a load balancer and its listener, unless it is protected.
    DeleteLoadBalancer(LoadBalancerFlag),
    /// Give a load balancer its one listener.
    CreateListener(CreateListenerFlags),
    /// Have a listener forward to another target group.
    ModifyListener(ModifyDefaultActionFlags),
    /// Take a load balancer's listener away.
    DeleteListener(ListenerFlag),
    /// Create a target group, without targets.
    CreateTargetGroup(CreateTargetGroupFlags),
    /// Change how the targets of a group are checked.
    ModifyTargetGroup(ModifyHealthCheckFlags),
    /// Delete a target group and its targets, unless a listener uses it.
    DeleteTargetGroup(TargetGroupFlag),
    /// List a load balancer's attributes.
    DescribeLoadBalancerAttributes(LoadBalancerFlag),
    /// Set attributes of a load balancer.
    ModifyLoadBalancerAttributes(ModifyLoadBalancerFlags),
    /// List a listener's attributes.
    DescribeListenerAttributes(ListenerFlag),
    /// Set attributes of a listener.
    ModifyListenerAttributes(ModifyListenerFlags),
    /// List a target group's attributes and its detection time.
    DescribeTargetGroupAttributes(TargetGroupFlag),
    /// Set attributes of a target group.
    ModifyTargetGroupAttributes(ModifyTargetGroupFlags),
    /// Register targets, or change the zone or weight of registered ones.
    RegisterTargets(RegisterFlags),
    /// Deregister targets: their flows have the deregistration delay to end.
    DeregisterTargets(DeregisterFlags),
    /// List flows.
    DescribeFlows(FlowsFlags),
    /// Read counters.
    GetCounters(CountersFlags),
    /// Print what happens as it happens: health changes, resets, drains, changes.
    Subscribe(SubscribeFlags),
    /// List this node's endpoints.
    DescribeEndpoints,
    /// List this node's worker cores.
    DescribeWorkers(WorkersFlags),
    /// List this node's ports.
    DescribePorts,
    /// Let the daemon's time jump ahead; only of a daemon started for tests.
    #[command(hide = true)]
    DebugAdvanceClock(AdvanceFlags),
}

#[derive(Debug, Args)]
pub(super) struct TargetsFlags {
    /// A target group's name or ARN; all groups if none is given.
    pub(super) target_group: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct GlanceFlags {
    /// Over how long to look, such as 500ms or 10s; at most 60s.
    #[arg(long, default_value = "1s", value_parser = interval, value_name = "TIME")]
    pub(super) interval: Duration,
}

/// A time from a tenth of a second to a minute.
fn interval(text: &str) -> Result<Duration, String> {
    let time: jiff::SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let time = Duration::try_from(time).map_err(|error| error.to_string())?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(Window::MAX);
    if allowed.contains(&time) { Ok(time) } else { Err("it must be 100ms to 60s".to_owned()) }
}

#[derive(Debug, Args)]
pub(super) struct WorkersFlags {
    /// Show the longest burst of so many seconds, up to 60.
    #[arg(long, default_value = "10", value_parser = window, value_name = "SECONDS")]
    window: Window,
}

fn window(text: &str) -> Result<Window, String> {
    text.parse::<u64>().map_err(|error| error.to_string())?.try_into()
}

impl WorkersFlags {
    pub(super) fn params(&self) -> DescribeWorkers {
        DescribeWorkers { window_seconds: self.window }
    }
}

#[derive(Debug, Args)]
pub(super) struct LoadBalancersFlags {
    /// These, by name.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    names: Vec<String>,
    /// These, by ARN.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    load_balancer_arns: Vec<String>,
}

impl LoadBalancersFlags {
    pub(super) fn params(self) -> DescribeLoadBalancers {
        DescribeLoadBalancers { load_balancer_arns: self.load_balancer_arns, names: self.names }
    }
}

#[derive(Debug, Args)]
pub(super) struct ListenersFlags {
    /// Of this load balancer.
    #[arg(long, alias = "load-balancer-arn", value_name = "NAME|ARN")]
    load_balancer: Option<String>,
    /// These, by ARN or by their load balancer's name.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    listener_arns: Vec<String>,
}

impl ListenersFlags {
    pub(super) fn params(self) -> DescribeListeners {
        DescribeListeners { load_balancer_arn: self.load_balancer, listener_arns: self.listener_arns }
    }
}

#[derive(Debug, Args)]
pub(super) struct TargetGroupsFlags {
    /// Of this load balancer.
    #[arg(long, alias = "load-balancer-arn", value_name = "NAME|ARN")]
    load_balancer: Option<String>,
    /// These, by name.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    names: Vec<String>,
    /// These, by ARN.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    target_group_arns: Vec<String>,
}

impl TargetGroupsFlags {
    pub(super) fn params(self) -> DescribeTargetGroups {
        DescribeTargetGroups {
            load_balancer_arn: self.load_balancer,
            target_group_arns: self.target_group_arns,
            names: self.names,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct TargetHealthFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// These targets; all if none is given.
    #[arg(long, num_args = 1.., value_name = "Id=ADDRESS", value_parser = shorthand::targets::<TargetName>)]
    targets: Vec<Listed<TargetName>>,
}

impl TargetHealthFlags {
    pub(super) fn params(self) -> DescribeTargetHealth {
        DescribeTargetHealth {
            target_group_arn: self.group.target_group,
            targets: shorthand::all(self.targets),
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct LoadBalancerFlag {
    /// The load balancer.
    #[arg(long, alias = "load-balancer-arn", value_name = "NAME|ARN")]
    pub(super) load_balancer: String,
}

impl LoadBalancerFlag {
    pub(super) fn params(self) -> DescribeLoadBalancerAttributes {
        DescribeLoadBalancerAttributes { load_balancer_arn: self.load_balancer }
    }
}

#[derive(Debug, Args)]
pub(super) struct ListenerFlag {
    /// The listener, or the load balancer whose listener it is.
    #[arg(long, alias = "listener-arn", value_name = "NAME|ARN")]
    pub(super) listener: String,
}

impl ListenerFlag {
    pub(super) fn params(self) -> DescribeListenerAttributes {
        DescribeListenerAttributes { listener_arn: self.listener }
    }
}

#[derive(Debug, Args)]
pub(super) struct TargetGroupFlag {
    /// The target group.
    #[arg(long, alias = "target-group-arn", value_name = "NAME|ARN")]
    pub(super) target_group: String,
}

impl TargetGroupFlag {
    pub(super) fn params(self) -> DescribeTargetGroupAttributes {
        DescribeTargetGroupAttributes { target_group_arn: self.target_group }
    }
}

#[derive(Debug, Args)]
struct AttributesFlag {
    /// What to set, all or none; others keep their values.
    #[arg(long, num_args = 1.., required = true, value_name = "Key=KEY,Value=VALUE",
          value_parser = shorthand::structures::<Attribute>)]
    attributes: Vec<Listed<Attribute>>,
}

#[derive(Debug, Args)]
pub(super) struct ModifyLoadBalancerFlags {
    #[command(flatten)]
    object: LoadBalancerFlag,
    #[command(flatten)]
    to_set: AttributesFlag,
}

impl ModifyLoadBalancerFlags {
    pub(super) fn params(self) -> ModifyLoadBalancerAttributes {
        let attributes = shorthand::all(self.to_set.attributes);
        ModifyLoadBalancerAttributes { load_balancer_arn: self.object.load_balancer, attributes }
    }
}

#[derive(Debug, Args)]
pub(super) struct ModifyListenerFlags {
    #[command(flatten)]
    object: ListenerFlag,
    #[command(flatten)]
    to_set: AttributesFlag,
}

impl ModifyListenerFlags {
    pub(super) fn params(self) -> ModifyListenerAttributes {
        let attributes = shorthand::all(self.to_set.attributes);
        ModifyListenerAttributes { listener_arn: self.object.listener, attributes }
    }
}

#[derive(Debug, Args)]
pub(super) struct ModifyTargetGroupFlags {
    #[command(flatten)]
    object: TargetGroupFlag,
    #[command(flatten)]
    to_set: AttributesFlag,
}

impl ModifyTargetGroupFlags {
    pub(super) fn params(self) -> ModifyTargetGroupAttributes {
        let attributes = shorthand::all(self.to_set.attributes);
        ModifyTargetGroupAttributes { target_group_arn: self.object.target_group, attributes }
    }
}

#[derive(Debug, Args)]
pub(super) struct RegisterFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// The targets.
    #[arg(long, num_args = 1.., required = true, value_parser = shorthand::targets::<TargetToRegister>,
          value_name = "Id=ADDRESS[,AvailabilityZone=ZONE][,Weight=N]")]
    targets: Vec<Listed<TargetToRegister>>,
}

impl RegisterFlags {
    pub(super) fn params(self) -> RegisterTargets {
        RegisterTargets { target_group_arn: self.group.target_group, targets: shorthand::all(self.targets) }
    }
}

#[derive(Debug, Args)]
pub(super) struct DeregisterFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// The targets.
    #[arg(long, num_args = 1.., required = true, value_name = "Id=ADDRESS",
          value_parser = shorthand::targets::<TargetName>)]
    targets: Vec<Listed<TargetName>>,
}

impl DeregisterFlags {
    pub(super) fn params(self) -> DeregisterTargets {
        DeregisterTargets { target_group_arn: self.group.target_group, targets: shorthand::all(self.targets) }
    }
}

#[derive(Debug, Args)]
pub(super) struct FlowsFlags {
    /// Of this target group.
    #[arg(long, alias = "target-group-arn", value_name = "NAME|ARN")]
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
    pub(super) fn params(self) -> FlowQuery {
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
pub(super) struct CountersFlags {
    /// Of this kind of object.
    #[arg(long, value_enum)]
    scope: Option<CounterScope>,
    /// Of the objects of this name.
    #[arg(long)]
    name: Option<String>,
    /// Show counters that are 0 too.
    #[arg(long)]
    pub(super) all: bool,
}

impl CountersFlags {
    pub(super) fn params(self) -> GetCounters {
        GetCounters { scope: self.scope, name: self.name }
    }
}

#[derive(Debug, Args)]
pub(super) struct SubscribeFlags {
    /// Only events of these kinds.
    #[arg(long, num_args = 1.., value_enum, value_name = "KIND")]
    events: Vec<EventKind>,
}

impl SubscribeFlags {
    pub(super) fn params(self) -> Subscribe {
        Subscribe { events: self.events }
    }
}

#[derive(Debug, Args)]
pub(super) struct AdvanceFlags {
    /// How far.
    milliseconds: u32,
}

impl AdvanceFlags {
    pub(super) fn params(&self) -> AdvanceClock {
        AdvanceClock { milliseconds: self.milliseconds }
    }
}
