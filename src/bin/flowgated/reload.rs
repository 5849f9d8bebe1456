//! Reading the configuration anew while the daemon runs, on SIGHUP.
//!
//! What can change at once does: the log's level. Keys, certificates and whether the node takes traffic are read anew
//! without being asked (`elbv2`, `monitor.not_ready_file`), and the objects have ways of their own. Everything else is
//! the shape of the data path, its memory and its ports, and takes a restart: what is written differently is named.
//! A file that is refused changes nothing.

use std::path::{Path, PathBuf};

use flowgate::control::logging::{Filter, LogControl};
use flowgate::control::node::NodeConfig;
use toml::{Table, Value};
use tracing::level_filters::LevelFilter;

/// What is changed at once.
const AT_ONCE: &str = "log.level";

/// The most keys that are named.
const MOST_NAMED: usize = 8;

/// The configuration as the daemon was started with it.
pub struct Reload {
    path: PathBuf,
    at_start: Table,
    log: LogControl,
    /// The command line or the environment has said what to log, and holds.
    level_is_given: bool,
}

impl Reload {
    /// For the file at `path`, which was just read and found sound.
    pub fn new(path: &Path, log: LogControl, level_is_given: bool) -> Reload {
        // If it cannot be read a second time, everything is new the next time.
        let at_start = table(path).unwrap_or_default();
        Reload { path: path.to_owned(), at_start, log, level_is_given }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file, has what can be changed hold, and says what came of it. The disk is waited for elsewhere.
    pub async fn run(&self) -> String {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            let config = NodeConfig::load(&path).map_err(|error| error.to_string())?;
            Ok::<_, String>((config, table(&path)?))
        });
        let (config, now) = match read.await {
            Ok(Ok(read)) => read,
            Ok(Err(refusal)) => {
                tracing::error!(name: "reload_refused", %refusal, "the configuration is not taken; the one from before holds");
                return format!("the configuration is not taken: {refusal}");
            }
            Err(error) => {
                tracing::error!(name: "reload_failed", %error, "the configuration could not be read");
                return "the configuration could not be read".to_owned();
            }
        };
        let mut keys = Vec::new();
        differences("", &self.at_start, &now, &mut keys);
        keys.retain(|key| key != AT_ONCE);
        self.take_level(&config);
        let waits = named(&keys);
        if keys.is_empty() {
            tracing::info!(name: "reloaded", "the configuration was read anew");
            "the configuration was read anew".to_owned()
        } else {
            tracing::warn!(name: "reload_waits", keys = %waits, "the configuration was read anew; these keys wait for a restart");
            format!("{waits} wait for a restart")
        }
    }

    fn take_level(&self, config: &NodeConfig) {
        let filter = Filter::read(config.log.level.as_str(), &Filter::of(LevelFilter::INFO));
        if let Ok(filter) = filter
            && !self.level_is_given
        {
            self.log.configure(filter);
        }
    }
}

fn table(path: &Path) -> Result<Table, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    text.parse().map_err(|error: toml::de::Error| error.message().to_owned())
}

/// The keys whose values are not the same, down to the last table.
fn differences(place: &str, before: &Table, after: &Table, found: &mut Vec<String>) {
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        match (before.get(key), after.get(key)) {
            (before, after) if before == after => {}
            (Some(Value::Table(before)), Some(Value::Table(after))) => {
                differences(&place, before, after, found)
            }
            (None, Some(Value::Table(after))) => differences(&place, &Table::new(), after, found),
            (Some(Value::Table(before)), None) => differences(&place, before, &Table::new(), found),
            _ => found.push(place),
        }
    }
}

fn named(keys: &[String]) -> String {
    let mut names: Vec<String> = keys.iter().take(MOST_NAMED).cloned().collect();
    if keys.len() > MOST_NAMED {
        names.push(format!("{} more", keys.len() - MOST_NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(before: &str, after: &str) -> Vec<String> {
        let mut found = Vec::new();
        differences("", &before.parse().unwrap(), &after.parse().unwrap(), &mut found);
        found
    }

    #[test]
    fn keys_that_differ_are_named_to_the_last_table() {
        let before = "zone = \"a\"\n[workers]\ncores = [1]\nflows = 1024\n[[ports]]\nname = \"x\"\n";
        assert!(keys(before, before).is_empty());
        let after =
            "[workers]\ncores = [1, 2]\nflows = 1024\n[[ports]]\nname = \"y\"\n[log]\nlevel = \"debug\"\n";
        assert_eq!(keys(before, after), ["log.level", "ports", "workers.cores", "zone"]);
        assert_eq!(keys(after, before), ["log.level", "ports", "workers.cores", "zone"]);
    }

    #[test]
    fn no_more_keys_are_named_than_anybody_reads() {
        let many: Vec<String> = (0..10).map(|n| format!("k{n}")).collect();
        assert_eq!(named(&many), "k0, k1, k2, k3, k4, k5, k6, k7, 2 more");
        assert_eq!(named(&many[..2]), "k0, k1");
    }
}
