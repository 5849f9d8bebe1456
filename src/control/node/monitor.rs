//! `[monitor]`: where the daemon shows how it stands.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// `[monitor]`: where the daemon shows how it stands, by HTTP and for reading only: metrics for Prometheus, `/healthz`
/// and `/readyz` for health checks. Without this section on 127.0.0.1:6082, or nowhere if that port is taken.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Monitor {
    /// Whether there is such an endpoint.
    #[serde(default = "Monitor::default_enabled")]
    pub enabled: bool,
    /// The address and TCP port. Where it is given, the daemon does not start without it. What is shown is for whoever
    /// can reach it; on a loopback address that is this machine alone.
    #[schemars(with = "Option<String>")]
    pub address: Option<SocketAddr>,
    /// A file that takes the node out of service: while it is there, `/readyz` says that the node is not ready, and its
    /// first line why. `not-ready` in the state directory by default.
    pub not_ready_file: Option<PathBuf>,
}

impl Monitor {
    /// Where it is if the configuration does not say.
    pub const DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 6082);

    fn default_enabled() -> bool {
        true
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Monitor { enabled: true, address: None, not_ready_file: None }
    }
}
