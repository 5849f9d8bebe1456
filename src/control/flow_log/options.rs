//! What an operator may say of a flow log, by the node's configuration and by the control socket alike.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::bounded::bounded_number;

/// A flow log, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where records go.
    pub to: Destination,
    /// One flow in so many is told of.
    pub one_in: OneIn,
    /// A flow that goes on is told of so often; none: not before it ends.
    pub interim: Option<Duration>,
}

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file of JSON lines.
    File {
        /// The file that is written to.
        path: PathBuf,
        /// It is set aside when it is this long.
        rotate_bytes: u64,
        /// So many that were set aside are kept.
        keep: KeepFiles,
    },
    /// IPFIX over UDP.
    Ipfix {
        /// The collector.
        collector: SocketAddr,
        /// The observation domain that records are of.
        domain: u32,
    },
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::File { path, .. } => path.display().fmt(f),
            Destination::Ipfix { collector, .. } => write!(f, "ipfix:{collector}"),
        }
    }
}

/// A file's name without a folder: 1 to 64 of letters, digits, `.`, `_` and `-`, of which the first is no `.`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(#[schemars(regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$"))] String);

impl TryFrom<String> for FileName {
    type Error = String;

    fn try_from(name: String) -> Result<FileName, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let sound = (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.');
        if sound {
            return Ok(FileName(name));
        }
        Err(format!(
            "'{}' must be a file's name without a folder: 1 to 64 of letters, digits, '.', '_' and '-', and no '.' first",
            name.chars().take(80).collect::<String>().escape_debug()
        ))
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> String {
        name.0
    }
}

impl FileName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

bounded_number! {
    /// Of so many flows one is told of.
    OneIn(1..=1_000_000, 1, "the sampling")
}
bounded_number! {
    /// Megabytes (of a million bytes) after which a file is set aside.
    RotateMb(1..=100_000, 100, "the size of a file in MB")
}
bounded_number! {
    /// Files that were set aside and are kept.
    KeepFiles(0..=1000, 10, "the number of files kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_leads_nowhere_else() {
        for name in ["flows.jsonl", "a", "_x-1", &"a".repeat(64)] {
            assert!(FileName::try_from(name.to_owned()).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "/etc/passwd", "a\0b", "ä", "a b", &"a".repeat(65)] {
            assert!(FileName::try_from(name.to_owned()).is_err(), "{name}");
        }
    }

    #[test]
    fn numbers_are_held_to_their_bounds() {
        assert!(OneIn::try_from(0).is_err() && OneIn::try_from(1_000_001).is_err());
        assert_eq!(
            RotateMb::try_from(0).unwrap_err(),
            "the size of a file in MB '0' must be between '1-100000' inclusive"
        );
        assert_eq!(KeepFiles::try_from(0).map(KeepFiles::get), Ok(0));
    }
}
