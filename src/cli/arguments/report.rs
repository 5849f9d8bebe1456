//! Flags of `report`.

#![forbid(unsafe_code)]

use crate::control::failover::Cause;
use crate::control::socket::methods::failovers::DescribeFailovers;
use clap::Args;
use std::net::Ipv4Addr;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReportFlags {
    /// The failover of this number, moment by moment; all at a glance if none is given.
    #[arg(value_name = "ID")]
    pub(in crate::cli) id: Option<u64>,
    /// The newest one, moment by moment.
    #[arg(long, conflicts_with = "id")]
    pub(in crate::cli) last: bool,
    /// Of this target group.
    #[arg(long, visible_alias = "target-group-arn", value_name = "NAME|ARN")]
    target_group: Option<String>,
    /// Of this target.
    #[arg(long, value_name = "ADDRESS")]
    target: Option<Ipv4Addr>,
    /// Only drains (deregistration), or only targets that failed (unhealthy).
    #[arg(long, value_name = "CAUSE", value_parser = cause)]
    cause: Option<Cause>,
}

fn cause(text: &str) -> Result<Cause, String> {
    match text {
        "unhealthy" => Ok(Cause::Unhealthy),
        "deregistration" => Ok(Cause::Deregistration),
        other => Err(format!("'{other}' must be one of [unhealthy, deregistration]")),
    }
}

impl ReportFlags {
    pub(in crate::cli) fn params(&self) -> DescribeFailovers {
        DescribeFailovers {
            id: self.id,
            target_group_arn: self.target_group.clone(),
            target: self.target,
            cause: self.cause,
            ..DescribeFailovers::default()
        }
    }
}
