//! Flags about where a load balancer serves, and what may travel through it; and about rules.

#![forbid(unsafe_code)]

use super::objects::LoadBalancerFlag;
use crate::cli::shorthand::{self, Listed};
use crate::control::model::{ForeignId, IpAddressType};
use crate::control::socket::methods::rules::DescribeRules;
use crate::control::socket::methods::subnets::{SetIpAddressType, SetSubnets, SubnetMapping};
use clap::Args;

/// Subnets, for AWS's tools.
#[derive(Debug, Args)]
pub(in crate::cli) struct SubnetsFlags {
    /// Instead of zones: the subnets that AWS's tools know them by.
    #[arg(long, num_args = 1.., value_name = "SUBNET", value_parser = shorthand::word::<ForeignId>)]
    pub(in crate::cli) subnets: Vec<ForeignId>,
    /// The same in the longer form.
    #[arg(long, num_args = 1.., value_name = "SubnetId=SUBNET",
          value_parser = shorthand::structures::<SubnetMapping>)]
    pub(in crate::cli) subnet_mappings: Vec<Listed<SubnetMapping>>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SetSubnetsFlags {
    #[command(flatten)]
    balancer: LoadBalancerFlag,
    #[command(flatten)]
    subnets: SubnetsFlags,
    /// The zones that it serves, or `all`.
    #[arg(long, num_args = 1.., value_name = "ZONE")]
    availability_zones: Vec<String>,
    /// `ipv4`, or `dualstack` to let IPv6 through too; as it was if it is not given.
    #[arg(long, value_name = "TYPE", value_parser = shorthand::word::<IpAddressType>)]
    ip_address_type: Option<IpAddressType>,
}

impl SetSubnetsFlags {
    pub(in crate::cli) fn params(self) -> SetSubnets {
        SetSubnets {
            load_balancer_arn: self.balancer.load_balancer,
            subnets: self.subnets.subnets,
            subnet_mappings: shorthand::all(self.subnets.subnet_mappings),
            availability_zones: self.availability_zones,
            ip_address_type: self.ip_address_type,
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SetIpAddressTypeFlags {
    #[command(flatten)]
    balancer: LoadBalancerFlag,
    /// `ipv4`, or `dualstack` to let IPv6 through too.
    #[arg(long, value_name = "TYPE", value_parser = shorthand::word::<IpAddressType>)]
    ip_address_type: IpAddressType,
}

impl SetIpAddressTypeFlags {
    pub(in crate::cli) fn params(self) -> SetIpAddressType {
        SetIpAddressType {
            load_balancer_arn: self.balancer.load_balancer,
            ip_address_type: self.ip_address_type,
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RulesFlags {
    /// Of this listener, or of the load balancer whose listener it is.
    #[arg(long, visible_alias = "listener-arn", value_name = "NAME|ARN")]
    listener: Option<String>,
    /// These, by ARN.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    rule_arns: Vec<String>,
}

impl RulesFlags {
    pub(in crate::cli) fn params(self) -> DescribeRules {
        DescribeRules { listener_arn: self.listener, rule_arns: self.rule_arns, ..DescribeRules::default() }
    }
}
