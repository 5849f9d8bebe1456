//! The node's configuration: the TOML file that says which cores, ports, endpoints and neighbours
//! this machine has. What is balanced onto what is not in it (`control::model`).
//!
//! `flowgated` reads it once, before EAL starts. Whatever is wrong with it is refused here, in one
//! sentence with the file, the place in it, what was seen and what was expected.

#![forbid(unsafe_code)]

// First, as what it reads strings by is a macro for the modules below it.
#[macro_use]
mod values;
mod addresses;
mod checks;
mod elbv2;
mod error;
mod flow_log;
mod interfaces;
mod monitor;
mod privileges;
mod routing;
mod sections;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

pub use addresses::{HostAddress, LinkName, Prefix};
pub use elbv2::{Elbv2, Elbv2Tls};
pub use error::ConfigError;
pub use flow_log::FlowLog;
pub use interfaces::{Interface, NodeInterface, NodeRoute, Route};
pub use monitor::Monitor;
pub use privileges::{Privileges, Seccomp};
pub use sections::{
    Eal, Endpoint, HugePages, Log, LogFormat, LogLevel, Neighbour, Port, Socket, SocketMode, Underlay,
    WorkerIdle, Workers,
};
pub use tables::Tables;
pub use values::{Device, EndpointKind, HashSeed, InterfaceAddress, MacAddress, WireId};

use super::fault_path;
use super::model::{ForeignId, Name, Zone};

/// A node's configuration, checked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(title = "Flowgate node")]
pub struct NodeConfig {
    /// The zone that this node is in. Without one it gives flows to the targets of every zone.
    pub zone: Option<Zone>,
    /// The zones that subnets stand for, by what AWS's tools call these. With this table load balancers
    /// can be created in these subnets and no other; without it in any, and they serve every zone.
    #[serde(default)]
    pub subnets: BTreeMap<ForeignId, Zone>,
    /// Where what must survive a restart is kept.
    #[serde(default = "default_state_directory")]
    pub state_directory: PathBuf,
    /// The objects document that seeds an empty state directory. A relative path, here and in the
    /// other keys, is relative to the folder that the daemon was started in.
    pub objects: Option<PathBuf>,
    /// The secret that flows are spread under, as 64 hexadecimal digits. The nodes of a fleet
    /// have the same. Without it and without `hash_seed_file`, one is made at the first start and
    /// kept in the state directory.
    pub hash_seed: Option<HashSeed>,
    /// A file that holds the hash seed.
    pub hash_seed_file: Option<PathBuf>,
    /// The control socket.
    #[serde(default)]
    pub socket: Socket,
    /// The elbv2 endpoint; without this section there is none.
    pub elbv2: Option<Elbv2>,
    /// The monitoring endpoint.
    #[serde(default)]
    pub monitor: Monitor,
    /// What is left to the daemon once it has started.
    #[serde(default)]
    pub privileges: Privileges,
    /// DPDK's environment.
    #[serde(default)]
    pub eal: Eal,
    /// The cores that forward.
    #[serde(default)]
    pub workers: Workers,
    /// The workers' flow tables over a restart.
    #[serde(default)]
    pub tables: Tables,
    /// The ports, each opened by DPDK. A node without ports, cores, underlay and endpoints is idle: the daemon runs
    /// and answers, and touches no port.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// The network that the targets are on; a node with ports has one.
    pub underlay: Option<Underlay>,
    /// Neighbours that are not asked for by ARP or neighbour discovery.
    #[serde(default)]
    pub neighbours: Vec<Neighbour>,
    /// Where client traffic enters and leaves (O-4).
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// What the daemon says of itself.
    #[serde(default)]
    pub log: Log,
    /// Records of flows.
    #[serde(default)]
    pub flow_log: FlowLog,
}

fn default_state_directory() -> PathBuf {
    PathBuf::from("/var/lib/flowgate")
}

impl NodeConfig {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// The first fault, with the file's name.
    pub fn load(path: &Path) -> Result<NodeConfig, ConfigError> {
        std::fs::read_to_string(path)
            .map_err(|error| ConfigError::new(None, format!("cannot be read: {error}")))
            .and_then(|text| NodeConfig::parse(&text))
            .map_err(|error| error.in_file(path))
    }

    /// Whether the node has no part of a data path: it is not set up yet.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.workers.cores.is_empty()
            && self.ports.is_empty()
            && self.underlay.is_none()
            && self.endpoints.is_empty()
    }

    /// Whether a port is the one that leads to the targets.
    #[must_use]
    pub fn is_underlay(&self, port: &Name) -> bool {
        self.underlay.as_ref().is_some_and(|underlay| underlay.port == *port)
    }

    /// Reads and checks the text of a configuration.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(text: &str) -> Result<NodeConfig, ConfigError> {
        let at_line = |error: &toml::de::Error, path| {
            let line = |start| 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
            // A message of toml's may run over several lines; a refusal is one sentence.
            let message = error.message().trim_end().replace('\n', ", ");
            ConfigError::new(
                path,
                match error.span() {
                    Some(span) => format!("{message} (line {})", line(span.start)),
                    None => message,
                },
            )
        };
        let deserializer = toml::Deserializer::parse(text).map_err(|error| at_line(&error, None))?;
        let config: NodeConfig = serde_path_to_error::deserialize(deserializer)
            .map_err(|error| at_line(error.inner(), fault_path::of(error.path())))?;
        config.check()?;
        Ok(config)
    }
}

/// The JSON Schema of the node's configuration.
#[must_use]
pub fn node_schema() -> Schema {
    schemars::schema_for!(NodeConfig)
}
