//! The control core: objects, health, drain clocks, the socket, explanations, audits.
#![forbid(unsafe_code)]

pub mod audit;
mod bounded;
pub mod capture;
pub mod compile;
pub mod core;
pub mod drain;
pub(crate) mod duration;
pub mod elbv2;
pub mod events;
pub mod explain;
pub mod failover;
mod fault_path;
pub mod flow_log;
pub mod health;
pub mod heartbeat;
pub mod histogram;
pub mod host;
pub mod http;
pub mod inband;
pub mod logging;
pub mod model;
pub mod monitor;
pub(crate) mod nearest;
pub mod neighbours;
pub mod netlink;
pub mod node;
mod one_line;
pub mod peaks;
pub mod resume;
pub mod sizing;
pub mod slots;
pub mod socket;
pub mod store;
pub mod survey;
pub mod tally;
pub mod workers;
