//! Flags of the short forms for daily work.

#![forbid(unsafe_code)]

use crate::control::socket::methods::attributes::Attribute;
use clap::Args;
use std::net::Ipv4Addr;

#[derive(Debug, Args)]
pub(in crate::cli) struct DrainFlags {
    /// The target's address.
    pub(in crate::cli) target: Ipv4Addr,
    /// Of which target group; needed only if it is in several.
    #[arg(long, visible_alias = "target-group-arn", value_name = "NAME|ARN")]
    pub(in crate::cli) target_group: Option<String>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SetFlags {
    /// The name or ARN of a target group or a load balancer.
    pub(in crate::cli) name: String,
    /// What to set, all or none; others keep their values.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = attribute)]
    pub(in crate::cli) attributes: Vec<Attribute>,
}

fn attribute(text: &str) -> Result<Attribute, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => {
            Ok(Attribute { key: key.to_owned(), value: value.to_owned() })
        }
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RpcFlags {
    /// The method's name.
    pub(in crate::cli) method: String,
    /// Its parameters, a JSON object; `-` reads them from standard input.
    #[arg(value_name = "JSON")]
    pub(in crate::cli) params: Option<String>,
}
