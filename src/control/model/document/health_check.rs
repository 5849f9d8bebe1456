//! A target group's health check in the objects document (H-1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::model::error::ModelError;
use crate::control::model::health_check::{HealthCheck, HealthCheckChange, HealthCheckPort};

/// A target group's health check; what is left out has its default.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(rename = "HealthCheck")]
pub(super) struct HealthCheckDocument {
    /// `TCP` (the default), `HTTP` or `HTTPS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["TCP", "HTTP", "HTTPS"]))]
    protocol: Option<String>,
    /// A port number, or `traffic-port` for 6081; 80 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<PortDocument>,
    /// With HTTP and HTTPS: what is asked for; `/` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[!-~]*$"))]
    path: Option<String>,
    /// With HTTP and HTTPS: the codes that count as success, such as `200,301-302`; `200-399` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[23]\d\d(-[23]\d\d)?(,[23]\d\d(-[23]\d\d)?)*$"))]
    matcher: Option<String>,
    /// Between two checks of one target; 10 by default, not below the timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 300))]
    interval_seconds: Option<u32>,
    /// How long an answer may take; 5 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 120))]
    timeout_seconds: Option<u32>,
    /// Successes in a row that make a target healthy; 5 by default, 1 only with
    /// `flowgate.health_check.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    healthy_threshold: Option<u8>,
    /// Failures in a row that make a target unhealthy; 2 by default, 1 only with
    /// `flowgate.health_check.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    unhealthy_threshold: Option<u8>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a port from 1 to 65535 or \"traffic-port\"")]
#[schemars(rename = "HealthCheckPort")]
enum PortDocument {
    Number(#[schemars(range(min = 1))] u16),
    Word(#[schemars(regex(pattern = r"^(traffic-port|[0-9]{1,5})$"))] String),
}

impl HealthCheckDocument {
    pub(super) fn read(self) -> Result<HealthCheck, ModelError> {
        HealthCheck::default().modified(HealthCheckChange {
            protocol: self.protocol,
            port: self.port.map(|port| match port {
                PortDocument::Number(number) => number.to_string(),
                PortDocument::Word(word) => word,
            }),
            path: self.path,
            matcher: self.matcher,
            interval_seconds: self.interval_seconds,
            timeout_seconds: self.timeout_seconds,
            healthy_threshold: self.healthy_threshold,
            unhealthy_threshold: self.unhealthy_threshold,
        })
    }

    pub(super) fn write(check: &HealthCheck) -> HealthCheckDocument {
        let question = check.probe.question();
        HealthCheckDocument {
            protocol: Some(check.probe.protocol().to_owned()),
            port: Some(match check.port {
                HealthCheckPort::Port(port) => PortDocument::Number(port),
                HealthCheckPort::TrafficPort => PortDocument::Word(HealthCheckPort::TRAFFIC_PORT.to_owned()),
            }),
            path: question.map(|(path, _)| path.to_owned()),
            matcher: question.map(|(_, matcher)| matcher.to_string()),
            interval_seconds: Some(check.interval_seconds),
            timeout_seconds: Some(check.timeout_seconds),
            healthy_threshold: Some(check.healthy_threshold),
            unhealthy_threshold: Some(check.unhealthy_threshold),
        }
    }
}
