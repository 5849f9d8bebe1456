//! `[tables]`: where the workers' flow tables are kept over a restart.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// `[tables]`: the workers' flow tables, which lie in memory that outlives the daemon: one that is started again, be it
/// after a stop, a crash or an upgrade, takes them over, and every flow goes on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Tables {
    /// Whether they are kept. If not they end with the daemon, and its flows with them.
    #[serde(default = "Tables::default_keep")]
    pub keep: bool,
    /// The folder for them, which is made if it is not there, in a memory file system (tmpfs). In `/dev/shm`, under a name
    /// made of the state directory's, where it is left out. Tables in reserved huge pages have their own folder of
    /// the same name where such pages are mounted; where a folder is given they are there and nowhere else.
    pub directory: Option<PathBuf>,
    /// For so many seconds after a start that has found tables which it cannot take over (of another version, say, or of
    /// another number of workers), TCP packets of no flow begin one, as with `flowgate.tcp.unknown_flow = adopt`, so
    /// that connections go on. By default as long as a connection may be silent by default: one that has not
    /// been heard by then has ended. 0: not at all.
    #[serde(default = "Tables::default_adopt_seconds")]
    #[schemars(range(min = 0, max = 6000))]
    pub adopt_seconds: u32,
}

impl Tables {
    fn default_keep() -> bool {
        true
    }

    fn default_adopt_seconds() -> u32 {
        350
    }

    /// What the tables' folders are called where nothing is said: `flowgate` and the state directory's path.
    #[must_use]
    pub fn name(state_directory: &Path) -> String {
        let whole = std::fs::canonicalize(state_directory).unwrap_or_else(|_| state_directory.to_owned());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let path = whole.to_string_lossy();
        let plain: String = path.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        format!("flowgate.{}", plain.trim_matches('-'))
    }

    /// The folder of those that are not in huge pages.
    #[must_use]
    pub fn folder(&self, state_directory: &Path) -> PathBuf {
        let unsaid = || Path::new("/dev/shm").join(Tables::name(state_directory));
        self.directory.clone().unwrap_or_else(unsaid)
    }

    /// How long packets of no flow begin one after the tables were lost.
    #[must_use]
    pub fn adopt(&self) -> Duration {
        Duration::from_secs(self.adopt_seconds.into())
    }
}

impl Default for Tables {
    fn default() -> Tables {
        Tables {
            keep: Tables::default_keep(),
            directory: None,
            adopt_seconds: Tables::default_adopt_seconds(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_directory_has_a_folder_of_its_own() {
        let tables = Tables::default();
        let folder = tables.folder(Path::new("/no/such state/directory"));
        assert_eq!(folder, Path::new("/dev/shm/flowgate.no-such-state-directory"));
        let named = Tables { directory: Some("/run/tables".into()), ..tables };
        assert_eq!(named.folder(Path::new("/var/lib/flowgate")), Path::new("/run/tables"));
    }
}
