//! What both notes of changes in the kernel need ([`super::forwarding`], [`super::grace_periods`]), by which the daemon after one
//! that was killed puts back what that one changed.

use std::path::Path;
use std::{fs, io};

pub use flowgate::control::tables::boot;

/// Removes what is there by this name, if there is anything.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
