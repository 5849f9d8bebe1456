//! Whose what the daemon makes is: the user that it will be once it has started.
#![forbid(unsafe_code)]

use nix::unistd::{Gid, Uid, getegid, geteuid};

/// A user and its own group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// Its own group.
    pub gid: u32,
}

impl Owner {
    /// Who we are now.
    #[must_use]
    pub fn present() -> Owner {
        Owner { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    /// As the kernel wants it.
    #[must_use]
    pub fn ids(self) -> (Option<Uid>, Option<Gid>) {
        (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))
    }
}
