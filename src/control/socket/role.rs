//! Who may do what.

#![forbid(unsafe_code)]

use super::rpc::RpcError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a peer may do, and the least that a method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Looks at everything and changes nothing.
    ReadOnly,
    /// Does everything.
    Admin,
}

impl Role {
    /// Whether a peer of this role may call the method `name`, which is for `least`.
    ///
    /// # Errors
    /// When it may not.
    pub(super) fn check(self, least: Role, name: &str) -> Result<(), RpcError> {
        if self >= least {
            return Ok(());
        }
        let message = format!("{name} is for the role {least}, and this connection has {self}");
        Err(RpcError::refused("AccessDenied", message)
            .at("method")
            .hint("connect as root, as the daemon's own user, or as a member of the socket's group"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::ReadOnly => "read-only",
            Role::Admin => "admin",
        })
    }
}
