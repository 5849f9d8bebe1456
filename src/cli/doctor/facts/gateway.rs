//! The two documents: what this node is, and what is balanced onto what.

use super::super::host::{Host, Mode};
use crate::control::model::{Registration, State};
use crate::control::node::{Device, NodeConfig, Port};
use crate::control::socket::DEFAULT_PATH;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Where the daemon keeps the objects, in its state directory.
const OBJECTS: &str = "objects.json";

/// The two documents as they were found.
#[derive(Debug)]
pub struct Gateway {
    /// Where the configuration was looked for.
    pub path: PathBuf,
    /// The node's configuration, or why there is none.
    pub config: Result<NodeConfig, Missing>,
    /// The objects, and the file that they are from; or what is wrong with it. None: no file has any.
    pub objects: Option<(String, Result<Objects, String>)>,
    /// Permissions of the configuration, of the hash seed and of the state directory, where they are there.
    pub modes: Modes,
}

/// Why there is no configuration.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such file.
    NoFile,
    /// It may not be read.
    Refused,
    /// It is refused, with this sentence.
    Faulty(String),
}

/// What matters of the objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Objects {
    /// How many load balancers there are.
    pub balancers: usize,
    /// The registered targets of all groups.
    pub targets: BTreeSet<Ipv4Addr>,
}

/// Permissions.
#[derive(Debug, Default)]
pub struct Modes {
    pub(in super::super) config: Option<Mode>,
    pub(in super::super) seed: Option<(String, Mode)>,
    pub(in super::super) state: Option<Mode>,
    pub(in super::super) socket: Option<Mode>,
}

impl Gateway {
    pub(super) fn read(host: &Host, path: &Path) -> Gateway {
        let name = path.to_string_lossy();
        // A record says of which configuration it is.
        let name =
            host.answer("configuration", || Some(name.clone().into_owned())).unwrap_or(name.into_owned());
        let name = name.trim();
        let text = host.reduced(name, without_secrets);
        let config = match text {
            None if host.refused().iter().any(|(path, _)| path == name) => Err(Missing::Refused),
            None => Err(Missing::NoFile),
            Some(text) => NodeConfig::parse(&text).map_err(|error| Missing::Faulty(error.to_string())),
        };
        let mut modes = Modes { config: host.mode(name), ..Modes::default() };
        let mut objects = None;
        if let Ok(config) = &config {
            let state = config.state_directory.to_string_lossy();
            modes.state = host.mode(&state);
            let seed =
                config.hash_seed_file.clone().unwrap_or_else(|| config.state_directory.join("hash-seed"));
            let seed = seed.to_string_lossy();
            modes.seed = host.mode(&seed).map(|mode| (seed.into_owned(), mode));
            modes.socket = host.mode(&config.socket.path.to_string_lossy());
            let stored = config.state_directory.join(OBJECTS);
            let places = [Some(stored), config.objects.clone()];
            objects = places.into_iter().flatten().find_map(|place| {
                let place = place.to_string_lossy().into_owned();
                let text = host.text(&place)?;
                let read = State::from_document(&text).map_err(|error| error.to_string());
                let checked = read.and_then(|state| {
                    config.agrees_with(&state).map_err(|error| error.to_string())?;
                    Ok(Objects::of(&state))
                });
                Some((place, checked))
            });
        }
        Gateway { path: PathBuf::from(name), config, objects, modes }
    }

    /// The daemon's socket: that of the configuration, if `given` is no other than the default.
    pub(super) fn socket(&self, given: &Path) -> PathBuf {
        match &self.config {
            Ok(config) if given == Path::new(DEFAULT_PATH) => config.socket.path.clone(),
            _ => given.to_owned(),
        }
    }

    /// The configuration, if there is a sound one.
    pub fn node(&self) -> Option<&NodeConfig> {
        self.config.as_ref().ok()
    }

    /// The ports, or none.
    pub fn ports(&self) -> &[Port] {
        self.node().map_or(&[], |config| &config.ports)
    }

    /// The ports that are PCI devices, with their addresses.
    pub fn pci_ports(&self) -> impl Iterator<Item = (&Port, &str)> {
        self.ports().iter().filter_map(|port| match &port.device {
            Device::Pci(address) => Some((port, address.split(',').next().unwrap_or(address))),
            Device::Virtual(_) => None,
        })
    }

    /// The cores of workers, or none.
    pub fn worker_cores(&self) -> &[u16] {
        self.node().map_or(&[], |config| &config.workers.cores)
    }

    /// The registered targets, or none.
    pub fn targets(&self) -> impl Iterator<Item = Ipv4Addr> {
        let objects = self.objects.iter().filter_map(|(_, objects)| objects.as_ref().ok());
        objects.flat_map(|objects| objects.targets.iter().copied())
    }
}

impl Objects {
    fn of(state: &State) -> Objects {
        let targets = state.target_groups().flat_map(|group| {
            let registered =
                group.targets.iter().filter(|(_, target)| target.registration == Registration::Registered);
            registered.map(|(address, _)| *address)
        });
        Objects { balancers: state.load_balancers().count(), targets: targets.collect() }
    }
}

/// The configuration with another hash seed in the place of its own, as it may be recorded.
fn without_secrets(text: &str) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((key, _)) if key.trim().trim_matches('"') == "hash_seed" => {
            format!("{key}= \"{}\"\n", "0".repeat(64))
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hash_seed_is_gone_by_nor_recorded() {
        let seed = "7f".repeat(32);
        for line in [format!("hash_seed = \"{seed}\""), format!("  \"hash_seed\"='{seed}' # ours")] {
            let kept = without_secrets(&format!("zone = \"a\"\n{line}\n[workers]\ncores = [1]\n"));
            assert!(!kept.contains("7f7f"), "{kept}");
            assert!(kept.contains("zone = \"a\"\n") && kept.contains("cores = [1]"), "{kept}");
        }
        let file = "hash_seed_file = \"/etc/flowgate/seed\"\n";
        assert_eq!(without_secrets(file), file);
    }
}
