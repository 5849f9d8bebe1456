//! What `flowgate wait` waits for: the waiters of `aws elbv2`.

#![forbid(unsafe_code)]

use super::Patience;
use super::objects::TargetGroupFlag;
use crate::cli::shorthand::{self, Listed};
use crate::control::socket::methods::registration::TargetName;
use clap::{Args, Subcommand};
use std::net::Ipv4Addr;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum WaitFor {
    /// Until targets are healthy.
    TargetInService(TargetsToWaitFor),
    /// Until targets are deregistered and their drains have ended.
    TargetDeregistered(TargetsToWaitFor),
    /// Until load balancers are there.
    LoadBalancerExists(LoadBalancersToWaitFor),
    /// Until load balancers are active.
    LoadBalancerAvailable(LoadBalancersToWaitFor),
    /// Until load balancers are gone.
    LoadBalancersDeleted(LoadBalancersToWaitFor),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetsToWaitFor {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// These targets; all of the group if none is given.
    #[arg(long, num_args = 1.., value_name = "Id=ADDRESS", value_parser = shorthand::targets::<TargetName>)]
    targets: Vec<Listed<TargetName>>,
    #[command(flatten)]
    patience: Patience,
}

impl TargetsToWaitFor {
    /// The group, the targets, and how long.
    pub(in crate::cli) fn parts(self) -> (String, Vec<Ipv4Addr>, Patience) {
        let targets = shorthand::all(self.targets).into_iter().map(|target| target.id);
        (self.group.target_group, targets.collect(), self.patience)
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LoadBalancersToWaitFor {
    /// These, by name.
    #[arg(long, num_args = 1.., value_name = "NAME", required_unless_present = "load_balancer_arns")]
    names: Vec<String>,
    /// These, by ARN.
    #[arg(long, num_args = 1.., value_name = "ARN")]
    load_balancer_arns: Vec<String>,
    #[command(flatten)]
    patience: Patience,
}

impl LoadBalancersToWaitFor {
    /// The load balancers, and how long.
    pub(in crate::cli) fn parts(self) -> (Vec<String>, Patience) {
        ([self.names, self.load_balancer_arns].concat(), self.patience)
    }
}
