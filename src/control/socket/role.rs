//! Who is at the other end of a connection, and what that lets it do.
//!
//! The kernel says who connected (`SO_PEERCRED`, `SO_PEERGROUPS`), as of the moment of connecting; a
//! peer cannot say it of itself. Root, the daemon's own user and members of the socket's group are
//! admins; whoever else the socket's mode lets in only looks.

#![forbid(unsafe_code)]

use super::rpc::RpcError;
use crate::io::peer::supplementary_groups;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use tokio::net::UnixStream;

/// What a peer may do, and the least that a method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Looks at everything and changes nothing.
    ReadOnly,
    /// Does everything.
    Admin,
}

/// The process at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its number; none if it is in another namespace of processes.
    pub pid: Option<i32>,
    /// What it may do.
    pub role: Role,
}

/// Who is an admin, besides root.
#[derive(Clone, Copy, Debug)]
pub struct Admins {
    /// The daemon's own user.
    pub uid: u32,
    /// The socket's group.
    pub gid: u32,
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

impl Admins {
    /// The process that has connected by `stream`.
    ///
    /// # Errors
    /// When the kernel does not tell; such a peer is not served.
    pub(super) fn peer(&self, stream: &UnixStream) -> io::Result<Peer> {
        let told = stream.peer_cred()?;
        let mut groups = supplementary_groups(stream)?;
        groups.push(told.gid());
        Ok(Peer { uid: told.uid(), pid: told.pid(), role: self.role(told.uid(), &groups) })
    }

    fn role(&self, uid: u32, groups: &[u32]) -> Role {
        let is_admin = uid == 0 || uid == self.uid || groups.contains(&self.gid);
        if is_admin { Role::Admin } else { Role::ReadOnly }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_the_daemons_user_and_the_sockets_group_are_admins_and_nobody_else() {
        let admins = Admins { uid: 70, gid: 80 };
        for (uid, groups, role) in [
            (0, &[7][..], Role::Admin),
            (70, &[7], Role::Admin),
            (5, &[80], Role::Admin),
            (5, &[7, 9, 80], Role::Admin),
            (5, &[7, 70, 0], Role::ReadOnly),
            (80, &[5], Role::ReadOnly),
            (5, &[], Role::ReadOnly),
        ] {
            assert_eq!(admins.role(uid, groups), role, "uid {uid}, groups {groups:?}");
        }
    }
}
