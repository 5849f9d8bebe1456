//! Flags that name load balancers, listeners and target groups, and set their attributes.

#![forbid(unsafe_code)]

use crate::cli::shorthand::{self, Listed};
use crate::control::socket::methods::attributes::{
    Attribute, DescribeListenerAttributes, DescribeLoadBalancerAttributes, DescribeTargetGroupAttributes,
    ModifyListenerAttributes, ModifyLoadBalancerAttributes, ModifyTargetGroupAttributes,
};
use crate::control::socket::methods::balancers::{DescribeListeners, DescribeLoadBalancers};
use crate::control::socket::methods::groups::DescribeTargetGroups;
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct LoadBalancersFlags {
    /// These, by name.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    names: Vec<String>,
    /// These, by ARN.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    load_balancer_arns: Vec<String>,
}

impl LoadBalancersFlags {
    pub(in crate::cli) fn params(self) -> DescribeLoadBalancers {
        DescribeLoadBalancers {
            load_balancer_arns: self.load_balancer_arns,
            names: self.names,
            ..DescribeLoadBalancers::default()
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListenersFlags {
    /// Of this load balancer.
    #[arg(long, visible_alias = "load-balancer-arn", value_name = "NAME|ARN")]
    load_balancer: Option<String>,
    /// These, by ARN or by their load balancer's name.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    listener_arns: Vec<String>,
}

impl ListenersFlags {
    pub(in crate::cli) fn params(self) -> DescribeListeners {
        DescribeListeners {
            load_balancer_arn: self.load_balancer,
            listener_arns: self.listener_arns,
            ..DescribeListeners::default()
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetGroupsFlags {
    /// Of this load balancer.
    #[arg(long, visible_alias = "load-balancer-arn", value_name = "NAME|ARN")]
    load_balancer: Option<String>,
    /// These, by name.
    #[arg(long, num_args = 1.., value_name = "NAME")]
    names: Vec<String>,
    /// These, by ARN.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    target_group_arns: Vec<String>,
}

impl TargetGroupsFlags {
    pub(in crate::cli) fn params(self) -> DescribeTargetGroups {
        DescribeTargetGroups {
            load_balancer_arn: self.load_balancer,
            target_group_arns: self.target_group_arns,
            names: self.names,
            ..DescribeTargetGroups::default()
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LoadBalancerFlag {
    /// The load balancer.
    #[arg(long, visible_alias = "load-balancer-arn", value_name = "NAME|ARN")]
    pub(in crate::cli) load_balancer: String,
}

impl LoadBalancerFlag {
    pub(in crate::cli) fn params(self) -> DescribeLoadBalancerAttributes {
        DescribeLoadBalancerAttributes { load_balancer_arn: self.load_balancer }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ListenerFlag {
    /// The listener, or the load balancer whose listener it is.
    #[arg(long, visible_alias = "listener-arn", value_name = "NAME|ARN")]
    pub(in crate::cli) listener: String,
}

impl ListenerFlag {
    pub(in crate::cli) fn params(self) -> DescribeListenerAttributes {
        DescribeListenerAttributes { listener_arn: self.listener }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetGroupFlag {
    /// The target group.
    #[arg(long, visible_alias = "target-group-arn", value_name = "NAME|ARN")]
    pub(in crate::cli) target_group: String,
}

impl TargetGroupFlag {
    pub(in crate::cli) fn params(self) -> DescribeTargetGroupAttributes {
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
pub(in crate::cli) struct ModifyLoadBalancerFlags {
    #[command(flatten)]
    object: LoadBalancerFlag,
    #[command(flatten)]
    to_set: AttributesFlag,
}

impl ModifyLoadBalancerFlags {
    pub(in crate::cli) fn params(self) -> ModifyLoadBalancerAttributes {
        let attributes = shorthand::all(self.to_set.attributes);
        ModifyLoadBalancerAttributes { load_balancer_arn: self.object.load_balancer, attributes }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ModifyListenerFlags {
    #[command(flatten)]
    object: ListenerFlag,
    #[command(flatten)]
    to_set: AttributesFlag,
}

impl ModifyListenerFlags {
    pub(in crate::cli) fn params(self) -> ModifyListenerAttributes {
        let attributes = shorthand::all(self.to_set.attributes);
        ModifyListenerAttributes { listener_arn: self.object.listener, attributes }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ModifyTargetGroupFlags {
    #[command(flatten)]
    object: TargetGroupFlag,
    #[command(flatten)]
    to_set: AttributesFlag,
}

impl ModifyTargetGroupFlags {
    pub(in crate::cli) fn params(self) -> ModifyTargetGroupAttributes {
        let attributes = shorthand::all(self.to_set.attributes);
        ModifyTargetGroupAttributes { target_group_arn: self.object.target_group, attributes }
    }
}
