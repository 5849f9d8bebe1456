//! A target group's health check in the objects document (H-1).

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::model::error::{ErrorCode, ModelError};
use crate::control::model::health_check::{HealthCheck, HealthCheckPort, Probe};
use crate::control::model::matcher::Matcher;

const PATH_LENGTH: RangeInclusive<usize> = 1..=1024;
const TIMEOUT_SECONDS: RangeInclusive<u32> = 2..=120;
const INTERVAL_SECONDS: RangeInclusive<u32> = 5..=300;

/// A target group's health check; what is left out has its default.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[schemars(rename = "HealthCheck")]
pub(super) struct HealthCheckDocument {
    /// `TCP` (the default) or `HTTP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["TCP", "HTTP"]))]
    protocol: Option<String>,
    /// A port number, or `traffic-port` for 6081; 80 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<PortDocument>,
    /// With HTTP: what is asked for; `/` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[!-~]*$"))]
    path: Option<String>,
    /// With HTTP: the codes that count as success, such as `200,301-302`; `200-399` by default.
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
        let default = HealthCheck::default();
        Ok(HealthCheck {
            probe: read_probe(self.protocol.as_deref().unwrap_or("TCP"), self.path, self.matcher)?,
            port: self.port.map_or(Ok(default.port), read_port)?,
            interval_seconds: within(
                "interval_seconds",
                self.interval_seconds.unwrap_or(default.interval_seconds),
                &INTERVAL_SECONDS,
            )?,
            timeout_seconds: within(
                "timeout_seconds",
                self.timeout_seconds.unwrap_or(default.timeout_seconds),
                &TIMEOUT_SECONDS,
            )?,
            // Their range depends on the attributes: `HealthCheck::agrees_with`.
            healthy_threshold: self.healthy_threshold.unwrap_or(default.healthy_threshold),
            unhealthy_threshold: self.unhealthy_threshold.unwrap_or(default.unhealthy_threshold),
        })
    }

    pub(super) fn write(check: &HealthCheck) -> HealthCheckDocument {
        let (protocol, path, matcher) = match &check.probe {
            Probe::Tcp => ("TCP", None, None),
            Probe::Http { path, matcher } => ("HTTP", Some(path.clone()), Some(matcher.to_string())),
        };
        HealthCheckDocument {
            protocol: Some(protocol.to_owned()),
            port: Some(match check.port {
                HealthCheckPort::Port(port) => PortDocument::Number(port),
                HealthCheckPort::TrafficPort => PortDocument::Word(HealthCheckPort::TRAFFIC_PORT.to_owned()),
            }),
            path,
            matcher,
            interval_seconds: Some(check.interval_seconds),
            timeout_seconds: Some(check.timeout_seconds),
            healthy_threshold: Some(check.healthy_threshold),
            unhealthy_threshold: Some(check.unhealthy_threshold),
        }
    }
}

fn read_probe(protocol: &str, path: Option<String>, matcher: Option<String>) -> Result<Probe, ModelError> {
    match protocol {
        "TCP" => {
            for (key, given) in [("path", path.is_some()), ("matcher", matcher.is_some())] {
                if given {
                    let message = format!("a {key} is for the protocol HTTP, and this check is TCP");
                    return Err(ModelError::invalid(message).under(key));
                }
            }
            Ok(Probe::Tcp)
        }
        "HTTP" => {
            let path = path.unwrap_or_else(|| "/".to_owned());
            // The path is written into a request line: a space or a line break would end it.
            let visible = path.bytes().all(|byte| byte.is_ascii_graphic());
            if !PATH_LENGTH.contains(&path.len()) || !path.starts_with('/') || !visible {
                return Err(ModelError::invalid(format!(
                    "'{path}' must start with '/' and be 1 to 1024 visible ASCII characters"
                ))
                .under("path"));
            }
            let matcher = match matcher {
                None => Matcher::default(),
                Some(text) => Matcher::parse(&text).ok_or_else(|| {
                    ModelError::invalid(format!(
                        "'{text}' must be codes from 200 to 399, or ranges of them, such as '200,301-302'"
                    ))
                    .under("matcher")
                })?,
            };
            Ok(Probe::Http { path, matcher })
        }
        "HTTPS" => Err(ModelError::new(
            ErrorCode::UnsupportedProtocol,
            "health checks over HTTPS are not there yet; use 'TCP' or 'HTTP'",
        )
        .under("protocol")),
        other => Err(ModelError::invalid(format!("'{other}' must be one of [TCP, HTTP]")).under("protocol")),
    }
}

fn read_port(port: PortDocument) -> Result<HealthCheckPort, ModelError> {
    let text = match port {
        PortDocument::Number(number) => number.to_string(),
        PortDocument::Word(word) => word,
    };
    if text == HealthCheckPort::TRAFFIC_PORT {
        return Ok(HealthCheckPort::TrafficPort);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port > 0 => Ok(HealthCheckPort::Port(port)),
        _ => {
            let message = format!("'{text}' must be a port from 1 to 65535 or 'traffic-port'");
            Err(ModelError::invalid(message).under("port"))
        }
    }
}

fn within(key: &str, value: u32, range: &RangeInclusive<u32>) -> Result<u32, ModelError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (min, max) = (range.start(), range.end());
    let message = format!("'{key}' value '{value}' must be between '{min}-{max}' inclusive");
    Err(ModelError::invalid(message).under(key))
}
