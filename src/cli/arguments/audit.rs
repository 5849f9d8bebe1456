//! Flags of `audit`.

#![forbid(unsafe_code)]

use crate::control::socket::methods::audit::ReviewOf;
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct AuditFlags {
    /// Of this target group alone.
    #[arg(long, visible_alias = "target-group-arn", value_name = "NAME|ARN")]
    target_group: Option<String>,
}

impl AuditFlags {
    pub(in crate::cli) fn params(self) -> ReviewOf {
        ReviewOf { target_group_arn: self.target_group }
    }
}
