//! `describe-account-limits`: how much of each kind this node can hold.

#![forbid(unsafe_code)]

use super::page::{Order, PageSize, page};
use crate::control::model::{
    MAX_LOAD_BALANCERS, MAX_TAGS, MAX_TARGET_GROUPS, MAX_TARGETS, MAX_TARGETS_PER_GROUP,
};
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) fn register(table: &mut Dispatcher) {
    table.method(
        "describe-account-limits",
        "Tells how many load balancers, target groups, targets and tags this node can hold.",
        describe_account_limits,
    );
}

/// Which limits are asked for: all, or a page of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct DescribeAccountLimits {
    /// Those after the page before, whose `NextMarker` this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
    /// So many at most; all if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<PageSize>,
}

/// Limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct AccountLimits {
    /// By name.
    pub limits: Vec<Limit>,
    /// The `Marker` of the next page, if there are more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_marker: Option<String>,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Limit {
    /// AWS's name for it; ours begin with `flowgate.`.
    pub name: String,
    /// The number, as text.
    pub max: String,
}

/// By name.
const LIMITS: [(&str, usize); 9] = [
    ("flowgate.tags-per-resource", MAX_TAGS),
    ("flowgate.targets", MAX_TARGETS),
    ("flowgate.targets-per-target-group", MAX_TARGETS_PER_GROUP),
    ("gateway-load-balancers", MAX_LOAD_BALANCERS),
    ("gateway-load-balancers-per-vpc", MAX_LOAD_BALANCERS),
    ("geneve-target-groups", MAX_TARGET_GROUPS),
    // O-1
    ("listeners-per-gateway-load-balancer", 1),
    ("target-groups", MAX_TARGET_GROUPS),
    ("targets-per-availability-zone-per-gateway-load-balancer", MAX_TARGETS_PER_GROUP),
];

fn describe_account_limits(_: &Call<'_>, asked: DescribeAccountLimits) -> Result<AccountLimits, RpcError> {
    let (limits, next_marker) =
        page(LIMITS, |limit| limit.0, Order::ByKey, asked.marker.as_deref(), asked.page_size)?;
    let limit = |(name, max): (&str, usize)| Limit { name: name.to_owned(), max: max.to_string() };
    Ok(AccountLimits { limits: limits.into_iter().map(limit).collect(), next_marker })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_in_the_order_of_their_names() {
        assert!(LIMITS.is_sorted_by_key(|limit| limit.0), "pages go by it");
    }
}
