//! `[elbv2]`: where the daemon serves AWS's API, and to whom.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ConfigError, NodeConfig};

/// `[elbv2]`: where the daemon serves AWS's API, and to whom. An empty section serves this machine alone.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Elbv2 {
    /// The address and TCP port. Without `credentials` a loopback address.
    #[serde(default = "Elbv2::default_address")]
    #[schemars(with = "String")]
    pub address: SocketAddr,
    /// The keys that requests have to be signed with: a file in the form of AWS's shared credentials file, which only
    /// its owner and group can read. Read again when it changes. Without it, every program of this machine may change
    /// everything.
    pub credentials: Option<PathBuf>,
    /// TLS; without it plain HTTP is served.
    pub tls: Option<Elbv2Tls>,
}

/// `[elbv2.tls]`: TLS in front of the endpoint. Read again when the files change.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Elbv2Tls {
    /// The certificate and those that it was made with, in PEM, its own first.
    pub certificate: PathBuf,
    /// The certificate's private key, in PEM.
    pub key: PathBuf,
}

impl Elbv2 {
    fn default_address() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 6080))
    }
}

impl NodeConfig {
    pub(super) fn check_elbv2(&self) -> Result<(), ConfigError> {
        match &self.elbv2 {
            Some(Elbv2 { address, credentials: None, .. }) if !address.ip().is_loopback() => {
                let message = format!(
                    "{address} is reached by others than this machine, and there are no elbv2.credentials to know \
                     them by; give some, or a loopback address"
                );
                Err(ConfigError::at("elbv2.address", message))
            }
            _ => Ok(()),
        }
    }
}
