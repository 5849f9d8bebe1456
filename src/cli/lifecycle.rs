//! The verbs that create, change and delete objects: their flags, and what is printed after.

#![forbid(unsafe_code)]

use super::arguments::{ListenerFlag, LoadBalancerFlag, SubnetsFlags, TagsFlag, TargetGroupFlag};
use super::objects;
use super::shorthand::{self, Listed};
use super::table::Look;
use crate::control::model::{ForeignId, IpAddressType, Name, Zone};
use crate::control::socket::methods::actions::Action;
use crate::control::socket::methods::balancers::{
    ChangedListeners, ChangedLoadBalancers, CreateListener, CreateLoadBalancer, DeleteListener,
    DeleteLoadBalancer, Done, Listeners, LoadBalancers, ModifyListener,
};
use crate::control::socket::methods::groups::{
    ChangedTargetGroups, CodeMatcher, CreateTargetGroup, DeleteTargetGroup, ModifyTargetGroup, TargetGroups,
};
use clap::Args;

fn name(text: &str) -> Result<Name, String> {
    Name::try_from(text.to_owned())
}

fn zone(text: &str) -> Result<Zone, String> {
    Zone::try_from(text.to_owned())
}

#[derive(Debug, Args)]
pub(super) struct CreateLoadBalancerFlags {
    /// Its name.
    #[arg(long, value_parser = name)]
    name: Name,
    /// `gateway`, if it is given.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// `ipv4`, or `dualstack` to let IPv6 through too.
    #[arg(long, value_name = "TYPE", default_value = "ipv4", value_parser = shorthand::word::<IpAddressType>)]
    ip_address_type: IpAddressType,
    /// The zones that it serves; every zone if none is given.
    #[arg(long, num_args = 1.., value_name = "ZONE", value_parser = zone)]
    availability_zones: Vec<Zone>,
    #[command(flatten)]
    subnets: SubnetsFlags,
    #[command(flatten)]
    tags: TagsFlag,
    /// Not for a gateway: refused by the daemon.
    #[arg(long, hide = true)]
    scheme: Option<String>,
    /// Not for a gateway: refused by the daemon.
    #[arg(long, hide = true, num_args = 1..)]
    security_groups: Vec<String>,
}

impl CreateLoadBalancerFlags {
    pub(super) fn params(self) -> CreateLoadBalancer {
        CreateLoadBalancer {
            name: self.name,
            kind: self.kind,
            ip_address_type: self.ip_address_type,
            availability_zones: self.availability_zones,
            subnets: self.subnets.subnets,
            subnet_mappings: shorthand::all(self.subnets.subnet_mappings),
            tags: self.tags.all(),
            scheme: self.scheme,
            security_groups: self.security_groups,
        }
    }
}

impl LoadBalancerFlag {
    pub(super) fn deletion(self) -> DeleteLoadBalancer {
        DeleteLoadBalancer { load_balancer_arn: self.load_balancer }
    }
}

impl ListenerFlag {
    pub(super) fn deletion(self) -> DeleteListener {
        DeleteListener { listener_arn: self.listener }
    }
}

impl TargetGroupFlag {
    pub(super) fn deletion(self) -> DeleteTargetGroup {
        DeleteTargetGroup { target_group_arn: self.target_group }
    }
}

#[derive(Debug, Args)]
struct ActionFlag {
    /// What it does: to forward to a target group.
    #[arg(long, num_args = 1.., required = true, value_parser = shorthand::actions::<Action>,
          value_name = "Type=forward,TargetGroupArn=NAME|ARN")]
    default_actions: Vec<Listed<Action>>,
}

/// What other load balancers' listeners serve: not for a gateway's.
#[derive(Debug, Args)]
struct ServedFlags {
    /// Refused by the daemon.
    #[arg(long, hide = true)]
    protocol: Option<String>,
    /// Refused by the daemon.
    #[arg(long, hide = true)]
    port: Option<u16>,
}

#[derive(Debug, Args)]
pub(super) struct CreateListenerFlags {
    #[command(flatten)]
    balancer: LoadBalancerFlag,
    #[command(flatten)]
    actions: ActionFlag,
    #[command(flatten)]
    tags: TagsFlag,
    #[command(flatten)]
    served: ServedFlags,
}

impl CreateListenerFlags {
    pub(super) fn params(self) -> CreateListener {
        let default_actions = shorthand::all(self.actions.default_actions);
        CreateListener {
            load_balancer_arn: self.balancer.load_balancer,
            default_actions,
            tags: self.tags.all(),
            protocol: self.served.protocol,
            port: self.served.port,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ModifyDefaultActionFlags {
    #[command(flatten)]
    listener: ListenerFlag,
    #[command(flatten)]
    actions: ActionFlag,
    #[command(flatten)]
    served: ServedFlags,
}

impl ModifyDefaultActionFlags {
    pub(super) fn params(self) -> ModifyListener {
        ModifyListener {
            listener_arn: self.listener.listener,
            default_actions: shorthand::all(self.actions.default_actions),
            protocol: self.served.protocol,
            port: self.served.port,
        }
    }
}

/// How targets are checked; what is not given has its default, or stays.
#[derive(Debug, Args)]
struct HealthCheckFlags {
    /// TCP, HTTP or HTTPS.
    #[arg(long, value_name = "PROTOCOL")]
    health_check_protocol: Option<String>,
    /// A port, or `traffic-port`.
    #[arg(long, value_name = "PORT")]
    health_check_port: Option<String>,
    /// With HTTP and HTTPS: what is asked for.
    #[arg(long, value_name = "PATH")]
    health_check_path: Option<String>,
    /// A gateway's targets are always checked; this says so.
    #[arg(long)]
    health_check_enabled: bool,
    /// Refused by the daemon.
    #[arg(long, hide = true, conflicts_with = "health_check_enabled")]
    no_health_check_enabled: bool,
    /// Between two checks of a target.
    #[arg(long, value_name = "SECONDS")]
    health_check_interval_seconds: Option<u32>,
    /// How long an answer may take.
    #[arg(long, value_name = "SECONDS")]
    health_check_timeout_seconds: Option<u32>,
    /// Successes in a row that make a target healthy.
    #[arg(long, value_name = "COUNT")]
    healthy_threshold_count: Option<u8>,
    /// Failures in a row that make a target unhealthy.
    #[arg(long, value_name = "COUNT")]
    unhealthy_threshold_count: Option<u8>,
    /// With HTTP and HTTPS: the answers that count as success.
    #[arg(long, value_name = "HttpCode=CODES", value_parser = shorthand::matcher::<CodeMatcher>)]
    matcher: Option<CodeMatcher>,
}

impl HealthCheckFlags {
    fn enabled(&self) -> Option<bool> {
        (self.health_check_enabled || self.no_health_check_enabled).then_some(self.health_check_enabled)
    }
}

#[derive(Debug, Args)]
pub(super) struct CreateTargetGroupFlags {
    /// Its name.
    #[arg(long, value_parser = name)]
    name: Name,
    /// `GENEVE`, if it is given.
    #[arg(long)]
    protocol: Option<String>,
    /// 6081, if it is given.
    #[arg(long)]
    port: Option<u16>,
    /// `ip`, if it is given.
    #[arg(long, value_name = "TYPE")]
    target_type: Option<String>,
    /// `ipv4`, if it is given.
    #[arg(long, value_name = "TYPE")]
    ip_address_type: Option<String>,
    /// What AWS's tools call its network; kept and shown.
    #[arg(long, value_name = "VPC", value_parser = shorthand::word::<ForeignId>)]
    vpc_id: Option<ForeignId>,
    #[command(flatten)]
    tags: TagsFlag,
    #[command(flatten)]
    check: HealthCheckFlags,
}

impl CreateTargetGroupFlags {
    pub(super) fn params(self) -> CreateTargetGroup {
        let check = self.check;
        let health_check_enabled = check.enabled();
        CreateTargetGroup {
            name: self.name,
            protocol: self.protocol,
            port: self.port,
            target_type: self.target_type,
            ip_address_type: self.ip_address_type,
            vpc_id: self.vpc_id,
            tags: self.tags.all(),
            health_check_protocol: check.health_check_protocol,
            health_check_port: check.health_check_port,
            health_check_enabled,
            health_check_path: check.health_check_path,
            health_check_interval_seconds: check.health_check_interval_seconds,
            health_check_timeout_seconds: check.health_check_timeout_seconds,
            healthy_threshold_count: check.healthy_threshold_count,
            unhealthy_threshold_count: check.unhealthy_threshold_count,
            matcher: check.matcher,
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ModifyHealthCheckFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    #[command(flatten)]
    check: HealthCheckFlags,
}

impl ModifyHealthCheckFlags {
    pub(super) fn params(self) -> ModifyTargetGroup {
        let check = self.check;
        let health_check_enabled = check.enabled();
        ModifyTargetGroup {
            target_group_arn: self.group.target_group,
            health_check_protocol: check.health_check_protocol,
            health_check_port: check.health_check_port,
            health_check_enabled,
            health_check_path: check.health_check_path,
            health_check_interval_seconds: check.health_check_interval_seconds,
            health_check_timeout_seconds: check.health_check_timeout_seconds,
            healthy_threshold_count: check.healthy_threshold_count,
            unhealthy_threshold_count: check.unhealthy_threshold_count,
            matcher: check.matcher,
        }
    }
}

pub(super) fn load_balancers(result: &ChangedLoadBalancers, look: &Look) -> String {
    let shown = objects::load_balancers(
        &LoadBalancers { load_balancers: result.load_balancers.clone(), next_marker: None },
        look,
    );
    format!("{shown}\n{}", generation(result.generation))
}

pub(super) fn listeners(result: &ChangedListeners, look: &Look) -> String {
    let shown =
        objects::listeners(&Listeners { listeners: result.listeners.clone(), next_marker: None }, look);
    format!("{shown}\n{}", generation(result.generation))
}

pub(super) fn target_groups(result: &ChangedTargetGroups, look: &Look) -> String {
    let shown = objects::target_groups(
        &TargetGroups { target_groups: result.target_groups.clone(), next_marker: None },
        look,
    );
    format!("{shown}\n{}", generation(result.generation))
}

pub(super) fn done(result: &Done, _: &Look) -> String {
    generation(result.generation)
}

fn generation(generation: u64) -> String {
    format!("The configuration's generation is {generation}.\n")
}
