//! Flags of the verbs about targets.

#![forbid(unsafe_code)]

use super::objects::TargetGroupFlag;
use crate::cli::shorthand::{self, Listed};
use crate::control::socket::methods::health::DescribeTargetHealth;
use crate::control::socket::methods::registration::{
    DeregisterTargets, RegisterTargets, TargetName, TargetToRegister,
};
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetsFlags {
    /// A target group's name or ARN; all groups if none is given.
    pub(in crate::cli) target_group: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TargetHealthFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// These targets; all if none is given.
    #[arg(long, num_args = 1.., value_name = "Id=ADDRESS", value_parser = shorthand::targets::<TargetName>)]
    targets: Vec<Listed<TargetName>>,
    /// What other load balancers' targets have more to tell of: taken and not looked at.
    #[arg(long, hide = true, num_args = 1..)]
    include: Vec<String>,
}

impl TargetHealthFlags {
    pub(in crate::cli) fn params(self) -> DescribeTargetHealth {
        DescribeTargetHealth {
            target_group_arn: self.group.target_group,
            targets: shorthand::all(self.targets),
        }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RegisterFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// The targets.
    #[arg(long, num_args = 1.., required = true, value_parser = shorthand::targets::<TargetToRegister>,
          value_name = "Id=ADDRESS[,AvailabilityZone=ZONE][,Weight=N]")]
    targets: Vec<Listed<TargetToRegister>>,
}

impl RegisterFlags {
    pub(in crate::cli) fn params(self) -> RegisterTargets {
        RegisterTargets { target_group_arn: self.group.target_group, targets: shorthand::all(self.targets) }
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeregisterFlags {
    #[command(flatten)]
    group: TargetGroupFlag,
    /// The targets.
    #[arg(long, num_args = 1.., required = true, value_name = "Id=ADDRESS",
          value_parser = shorthand::targets::<TargetName>)]
    targets: Vec<Listed<TargetName>>,
}

impl DeregisterFlags {
    pub(in crate::cli) fn params(self) -> DeregisterTargets {
        DeregisterTargets { target_group_arn: self.group.target_group, targets: shorthand::all(self.targets) }
    }
}
