//! The running daemon, asked by its socket. What it answers is kept in the form that a record has.

use super::super::host::Host;
use crate::cli::client::{CliError, Client, typed};
use crate::control::model::Name;
use crate::control::socket::methods::groups::TargetGroups;
use crate::control::socket::methods::health::GroupHealth;
use crate::control::socket::methods::node::{Ports, Workers};
use crate::control::socket::views::{NextHopView, PortCapabilities};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The daemon.
#[derive(Debug)]
pub struct Daemon {
    /// Where its socket is.
    pub socket: PathBuf,
    /// What it answers, or why it does not.
    pub answers: Result<Answering, Silence>,
}

/// Why it does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Silence {
    /// It does not run, as far as can be told: there is no socket.
    pub is_down: bool,
    /// In a sentence.
    pub why: String,
}

/// What it answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Answering {
    /// Its version.
    pub version: String,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<PortFacts>,
    /// Its workers.
    #[serde(default)]
    pub workers: Vec<WorkerFacts>,
    /// Whom it hands packets to its targets to.
    #[serde(default)]
    pub next_hops: Vec<HopFacts>,
}

/// A port of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PortFacts {
    /// Its name.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// The largest IP packet.
    pub mtu: u16,
    /// Whether its link is up.
    pub link_up: bool,
    /// Its queues.
    pub queues: u16,
    /// What its device can.
    #[serde(default)]
    pub capabilities: PortCapabilities,
}

/// A worker of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct WorkerFacts {
    /// Its number.
    pub worker: u8,
    /// Its core.
    pub core: u32,
    /// What its packets lie in.
    pub packets: String,
    /// What its flow table lies in.
    pub flow_table: String,
    /// Milliseconds since it last said that it lives.
    pub heartbeat_age_ms: u64,
}

/// A target's next hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct HopFacts {
    /// The target.
    pub target: Ipv4Addr,
    /// Whom its packets are handed to.
    pub hop: NextHopView,
}

/// As it is recorded.
#[derive(Serialize, Deserialize)]
enum Recorded {
    Answers(Answering),
    Silent(Silence),
}

impl Daemon {
    pub(super) fn read(host: &Host, socket: PathBuf) -> Daemon {
        let recorded = host.answer("daemon", || {
            let recorded = match ask(&socket) {
                Ok(answers) => Recorded::Answers(answers),
                Err(error) => Recorded::Silent(Silence {
                    is_down: matches!(error, CliError::NoSocket(_)),
                    why: error.to_string(),
                }),
            };
            serde_json::to_string_pretty(&recorded).ok()
        });
        let answers = match recorded.as_deref().map(serde_json::from_str) {
            Some(Ok(Recorded::Answers(answers))) => Ok(answers),
            Some(Ok(Recorded::Silent(silence))) => Err(silence),
            Some(Err(error)) => {
                Err(Silence { is_down: false, why: format!("its answers cannot be read: {error}") })
            }
            None => Err(Silence { is_down: true, why: "nothing of it was recorded".to_owned() }),
        };
        Daemon { socket, answers }
    }

    /// What it answers, if it does.
    pub fn answering(&self) -> Option<&Answering> {
        self.answers.as_ref().ok()
    }

    /// Its process, where it answers.
    pub fn pid(&self) -> Option<u32> {
        self.answering()?.process
    }

    /// What it says of a port.
    pub fn port(&self, name: &Name) -> Option<&PortFacts> {
        self.answering()?.ports.iter().find(|port| port.name == name.as_str())
    }
}

fn ask(socket: &Path) -> Result<Answering, CliError> {
    let mut client = Client::connect(socket)?;
    let mut answers =
        Answering { version: client.version().to_owned(), process: client.process(), ..Answering::default() };
    let ports: Ports = typed(client.call("describe-ports", &Value::Null)?)?;
    answers.ports.extend(ports.ports.into_iter().map(|port| PortFacts {
        name: port.port_name,
        device: port.device,
        driver: port.driver,
        mtu: port.mtu,
        link_up: port.link_up,
        queues: port.queues,
        capabilities: port.capabilities,
    }));
    let workers: Workers = typed(client.call("describe-workers", &Value::Null)?)?;
    answers.workers.extend(workers.workers.into_iter().map(|worker| WorkerFacts {
        worker: worker.worker,
        core: worker.core,
        packets: worker.memory.packets,
        flow_table: worker.memory.flow_table,
        heartbeat_age_ms: worker.heartbeat_age_ms,
    }));
    let mut groups = json!({});
    loop {
        let part: TargetGroups = typed(client.call("describe-target-groups", &groups)?)?;
        for group in part.target_groups {
            let health =
                client.call("describe-target-health", &json!({"TargetGroupArn": group.target_group_arn}))?;
            let health: GroupHealth = typed(health)?;
            answers.next_hops.extend(
                health
                    .target_health_descriptions
                    .into_iter()
                    .filter_map(|one| Some(HopFacts { target: one.target.id, hop: one.neighbour? })),
            );
        }
        match part.next_marker {
            Some(marker) => groups = json!({"Marker": marker}),
            None => return Ok(answers),
        }
    }
}
