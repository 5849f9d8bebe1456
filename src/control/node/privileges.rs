//! `[privileges]`: what is left to the daemon once it has started.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, NodeConfig};

/// Bytes in the name of a user: what `useradd` takes.
const MAX_USER: usize = 32;

/// `[privileges]`: what is left to the daemon once it has started.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Privileges {
    /// The user that a daemon started as root becomes. Where nothing is given `flowgate`, if there is such a user;
    /// `root` stays root, without root's capabilities.
    pub user: Option<String>,
    /// What happens at a call of the kernel that a thread has no business making.
    #[serde(default)]
    pub seccomp: Seccomp,
}

/// What happens at a call of the kernel that a thread has no business making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Seccomp {
    /// The daemon is killed by SIGSYS, and the kernel's audit says by which call.
    #[default]
    Enforce,
    /// The call is done, and the kernel's audit says so: to find out what a host needs.
    Log,
    /// Nothing.
    Off,
}

impl Privileges {
    /// The user that is taken where none is given and there is such a one.
    pub const DEFAULT_USER: &str = "flowgate";
}

impl NodeConfig {
    pub(super) fn check_privileges(&self) -> Result<(), ConfigError> {
        match &self.privileges.user {
            Some(user) if user.is_empty() || user.len() > MAX_USER || user.contains([':', '/', '\0']) => {
                let message = format!(
                    "'{user}' must be the name of a user, of 1 to {MAX_USER} bytes without ':' and '/'"
                );
                Err(ConfigError::at("privileges.user", message))
            }
            _ => Ok(()),
        }
    }
}
