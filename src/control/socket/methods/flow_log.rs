//! Flow logs: start, stop, how it stands.

#![forbid(unsafe_code)]

use super::node::Nothing;
use crate::control::flow_log::{Destination, FileName, KeepFiles, OneIn, Options, RotateMb};
use crate::control::socket::FlowLogRefused;
use crate::control::socket::dispatcher::{Call, Dispatcher};
use crate::control::socket::rpc::RpcError;
use crate::control::socket::views::FlowLogView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) fn register(table: &mut Dispatcher) {
    table.waiting_admin_method(
        "start-flow-log",
        "Has a record written of every flow that ends, or of a sample of them, to a file or to an IPFIX collector.",
        start_flow_log,
    );
    table.admin_method(
        "stop-flow-log",
        "Ends the flow log, with a record of every flow that goes on.",
        stop_flow_log,
    );
    table.method("describe-flow-log", "Tells how the flow log stands.", describe_flow_log);
}

/// The longest that a flow that goes on may be without a record, in seconds.
const MAX_INTERIM: u64 = 86_400;

/// The flow log to start. Exactly one of `File` and `Ipfix` is given.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct StartFlowLog {
    /// A file of JSON lines, in the folder of flow logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileName>,
    /// An IPFIX collector: its address and UDP port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub ipfix: Option<SocketAddr>,
    /// Of so many flows one is told of; the same flows on all nodes of a site.
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
    /// The observation domain of IPFIX.
    #[serde(default = "one")]
    pub domain: u32,
}

impl StartFlowLog {
    /// The same in the log's own terms; `path` says where a file of that name is. `None`: records have nowhere to go.
    #[must_use]
    pub fn options(&self, path: impl FnOnce(&str) -> PathBuf) -> Option<Options> {
        let to = match (&self.file, self.ipfix) {
            (Some(name), _) => Destination::File {
                path: path(name.as_str()),
                rotate_bytes: self.rotate_mb.get() * 1_000_000,
                keep: self.keep,
            },
            (None, Some(collector)) => Destination::Ipfix { collector, domain: self.domain },
            (None, None) => return None,
        };
        let interim =
            (self.interim_seconds.get() > 0).then(|| Duration::from_secs(self.interim_seconds.get()));
        Some(Options { to, one_in: self.sample_one_in, interim })
    }
}

fn one() -> u32 {
    1
}

/// Seconds between the records of a flow that goes on; 0: there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u64", into = "u64")]
pub struct InterimSeconds(#[schemars(range(max = MAX_INTERIM))] u64);

impl InterimSeconds {
    /// The seconds.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl Default for InterimSeconds {
    fn default() -> InterimSeconds {
        InterimSeconds(60)
    }
}

impl TryFrom<u64> for InterimSeconds {
    type Error = String;

    fn try_from(seconds: u64) -> Result<InterimSeconds, String> {
        let allowed = seconds <= MAX_INTERIM;
        allowed.then_some(InterimSeconds(seconds)).ok_or_else(|| {
            format!("the interval '{seconds}' must be between '0-{MAX_INTERIM}' seconds inclusive")
        })
    }
}

impl From<InterimSeconds> for u64 {
    fn from(seconds: InterimSeconds) -> u64 {
        seconds.0
    }
}

async fn start_flow_log(call: &Call<'_>, asked: StartFlowLog) -> Result<FlowLogView, RpcError> {
    match (&asked.file, &asked.ipfix) {
        (Some(_), Some(_)) => {
            let message = "records go to a file or to an IPFIX collector, not to both";
            return Err(RpcError::refused("ValidationError", message.to_owned()).at("Ipfix"));
        }
        (None, None) => {
            let message = "neither File nor Ipfix is given: records have to go somewhere";
            return Err(RpcError::refused("ValidationError", message.to_owned()).at("File"));
        }
        _ => {}
    }
    call.service.start_flow_log(&asked).await.map_err(|refused| of_refused(&refused))
}

fn stop_flow_log(call: &Call<'_>, Nothing {}: Nothing) -> Result<FlowLogView, RpcError> {
    call.service.stop_flow_log().map_err(|refused| of_refused(&refused))
}

fn describe_flow_log(call: &Call<'_>, Nothing {}: Nothing) -> Result<FlowLogView, RpcError> {
    Ok(call.service.flow_log())
}

fn of_refused(refused: &FlowLogRefused) -> RpcError {
    let kind = match refused {
        FlowLogRefused::OnAlready(_) => "FlowLogAlreadyOn",
        FlowLogRefused::NotOn => "FlowLogNotOn",
        FlowLogRefused::NotOpened(_) => "FlowLogNotOpened",
    };
    RpcError::refused(kind, refused.to_string())
}
