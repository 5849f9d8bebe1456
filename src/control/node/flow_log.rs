//! `[flow_log]`: where records of flows go.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConfigError, NodeConfig};
use crate::control::flow_log::{FileName, KeepFiles, OneIn, Options, RotateMb};
use crate::control::socket::methods::flow_log::{InterimSeconds, StartFlowLog};
use crate::control::store::FLOW_LOGS;

/// `[flow_log]`: where records of flows go. With `file` or `ipfix` a flow log is on from the start; without either one
/// is started by `flowgate flow-log start`, which has values of its own for all but `directory`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct FlowLog {
    /// The folder that files of records are in; `flow-logs` in the state directory where nothing is given.
    pub directory: Option<PathBuf>,
    /// The file to write JSON lines to, in that folder.
    pub file: Option<FileName>,
    /// The IPFIX collector to send to: its address and UDP port.
    #[schemars(with = "Option<String>")]
    pub ipfix: Option<SocketAddr>,
    /// Of so many flows one is told of; the same flows on all nodes that share a hash seed.
    #[serde(default)]
    pub sample_one_in: OneIn,
    /// A flow that goes on has a record every so many seconds; 0: none before it ends.
    #[serde(default)]
    pub interim_seconds: InterimSeconds,
    /// The file is set aside when it is of so many MB.
    #[serde(default)]
    pub rotate_mb: RotateMb,
    /// So many files that were set aside are kept.
    #[serde(default)]
    pub keep: KeepFiles,
    /// The observation domain of IPFIX; 1 where nothing is given.
    pub domain: Option<u32>,
}

impl FlowLog {
    /// The folder that files of records are in.
    #[must_use]
    pub fn folder(&self, state_directory: &Path) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| state_directory.join(FLOW_LOGS))
    }

    /// The log to begin with, if there is one.
    #[must_use]
    pub fn options(&self, state_directory: &Path) -> Option<Options> {
        let FlowLog { sample_one_in, interim_seconds, rotate_mb, keep, .. } = *self;
        let (file, ipfix, domain) = (self.file.clone(), self.ipfix, self.domain.unwrap_or(1));
        let asked = StartFlowLog { file, ipfix, sample_one_in, interim_seconds, rotate_mb, keep, domain };
        asked.options(|name| self.folder(state_directory).join(name))
    }
}

impl NodeConfig {
    pub(super) fn check_flow_log(&self) -> Result<(), ConfigError> {
        if self.flow_log.file.is_some() && self.flow_log.ipfix.is_some() {
            let message = "records go to a file or to an IPFIX collector, not to both".to_owned();
            return Err(ConfigError::at("flow_log.ipfix", message));
        }
        Ok(())
    }
}
