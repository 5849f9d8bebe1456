//! How the targets of a group are checked (H-1, H-2): the settings as an operator gives them, and
//! the view in milliseconds that the prober works from.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attributes::AttributeSet;
use super::error::{ErrorCode, ModelError};
use super::registry::{CHECK_INTERVAL_MS, CHECK_TIMEOUT_MS};

/// The codes that a matcher may name (H-1).
const MATCHER_CODES: RangeInclusive<u16> = 200..=399;
const PATH_LENGTH: RangeInclusive<usize> = 1..=1024;
const TIMEOUT_SECONDS: RangeInclusive<u32> = 2..=120;
const INTERVAL_SECONDS: RangeInclusive<u32> = 5..=300;
const THRESHOLD: RangeInclusive<u8> = 2..=10;
/// With a check in milliseconds one result may decide (H-2).
const THRESHOLD_WITH_MS: RangeInclusive<u8> = 1..=10;

/// A target group's health check as it was given, checked against H-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is sent and what is expected back.
    pub probe: Probe,
    /// Where it is sent.
    pub port: HealthCheckPort,
    /// Between two checks of one target, in seconds: 5–300, not below the timeout.
    pub interval_seconds: u32,
    /// How long an answer may take, in seconds: 2–120.
    pub timeout_seconds: u32,
    /// Successes in a row that make a target healthy: 2–10, or 1 with H-2.
    pub healthy_threshold: u8,
    /// Failures in a row that make a target unhealthy: 2–10, or 1 with H-2.
    pub unhealthy_threshold: u8,
}

/// What one check does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Opens a TCP connection and closes it.
    Tcp,
    /// Sends `GET path` and looks at the answer's status code.
    Http {
        /// The request target, starting with `/`: 1–1024 visible ASCII characters.
        path: String,
        /// The status codes that count as success.
        matcher: Matcher,
    },
}

/// The port that checks go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCheckPort {
    /// This TCP port; 80 by default.
    Port(u16),
    /// The port of the group's traffic: 6081.
    TrafficPort,
}

/// A list of status codes and ranges of them within 200–399, such as `200,301-302`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher(Vec<RangeInclusive<u16>>);

/// What the prober works from: H-1 with H-2 applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheckSettings {
    /// What is sent and what is expected back.
    pub probe: Probe,
    /// The TCP port that it is sent to.
    pub port: u16,
    /// Between two checks of one target.
    pub interval: Duration,
    /// How long an answer may take; at most the interval.
    pub timeout: Duration,
    /// Successes in a row that make a target healthy.
    pub healthy_threshold: u8,
    /// Failures in a row that make a target unhealthy.
    pub unhealthy_threshold: u8,
}

impl HealthCheckSettings {
    /// From a target's death to the decision that it is unhealthy: `interval × unhealthy
    /// threshold` (H-7).
    #[must_use]
    pub fn detection_time(&self) -> Duration {
        self.interval * u32::from(self.unhealthy_threshold)
    }
}

impl HealthCheckPort {
    /// The port as a number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            HealthCheckPort::Port(port) => port,
            HealthCheckPort::TrafficPort => super::GENEVE_PORT,
        }
    }
}

impl Matcher {
    /// Whether `code` counts as success.
    #[must_use]
    pub fn matches(&self, code: u16) -> bool {
        self.0.iter().any(|range| range.contains(&code))
    }

    fn parse(text: &str) -> Option<Matcher> {
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (status_code(first)?, status_code(last)?);
            if first > last {
                return None;
            }
            ranges.push(first..=last);
        }
        Some(Matcher(ranges))
    }
}

/// Three digits within the codes that a matcher may name.
fn status_code(text: &str) -> Option<u16> {
    let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|code| digits && MATCHER_CODES.contains(code))
}

impl Default for Matcher {
    fn default() -> Matcher {
        Matcher(vec![MATCHER_CODES])
    }
}

impl Default for HealthCheck {
    fn default() -> HealthCheck {
        HealthCheck {
            probe: Probe::Tcp,
            port: HealthCheckPort::Port(80),
            interval_seconds: 10,
            timeout_seconds: 5,
            healthy_threshold: 5,
            unhealthy_threshold: 2,
        }
    }
}

impl HealthCheck {
    /// The check in milliseconds, with the group's `flowgate.health_check.*` applied (H-2).
    pub(super) fn settings(&self, attributes: &AttributeSet) -> HealthCheckSettings {
        let own_or = |own_ms: u64, seconds: u32| match own_ms {
            0 => Duration::from_secs(u64::from(seconds)),
            ms => Duration::from_millis(ms),
        };
        HealthCheckSettings {
            probe: self.probe.clone(),
            port: self.port.number(),
            interval: own_or(attributes.number(&CHECK_INTERVAL_MS), self.interval_seconds),
            timeout: own_or(attributes.number(&CHECK_TIMEOUT_MS), self.timeout_seconds),
            healthy_threshold: self.healthy_threshold,
            unhealthy_threshold: self.unhealthy_threshold,
        }
    }

    /// What the check and the group's attributes say together (H-1, H-2): a timeout not above the
    /// interval, and thresholds of 1 only with a check in milliseconds.
    pub(super) fn agrees_with(&self, attributes: &AttributeSet) -> Result<(), ModelError> {
        let in_ms = attributes.number(&CHECK_INTERVAL_MS) > 0 || attributes.number(&CHECK_TIMEOUT_MS) > 0;
        let settings = self.settings(attributes);
        if settings.timeout > settings.interval {
            let (timeout, interval) = if in_ms {
                let ms = |time: Duration| format!("{} ms", time.as_millis());
                (ms(settings.timeout), ms(settings.interval))
            } else {
                (self.timeout_seconds.to_string(), self.interval_seconds.to_string())
            };
            return Err(ModelError::invalid(format!(
                "Health check timeout '{timeout}' must be smaller than or equal to the interval '{interval}'"
            )));
        }
        let allowed = if in_ms { THRESHOLD_WITH_MS } else { THRESHOLD };
        for (key, threshold) in
            [("healthy_threshold", self.healthy_threshold), ("unhealthy_threshold", self.unhealthy_threshold)]
        {
            if !allowed.contains(&threshold) {
                let unless = if threshold == 1 {
                    "; 1 needs flowgate.health_check.interval_ms or .timeout_ms"
                } else {
                    ""
                };
                return Err(ModelError::invalid(format!(
                    "'{key}' value '{threshold}' must be between '{}-{}' inclusive{unless}",
                    allowed.start(),
                    allowed.end()
                ))
                .under("health_check"));
            }
        }
        Ok(())
    }
}

/// A health check as a document writes it; what is left out has its default.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
enum PortDocument {
    Number(#[schemars(range(min = 1))] u16),
    Word(String),
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
                HealthCheckPort::TrafficPort => PortDocument::Word(TRAFFIC_PORT.to_owned()),
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

const TRAFFIC_PORT: &str = "traffic-port";

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
    let seen = match port {
        PortDocument::Word(word) if word == TRAFFIC_PORT => return Ok(HealthCheckPort::TrafficPort),
        PortDocument::Number(port) if port > 0 => return Ok(HealthCheckPort::Port(port)),
        PortDocument::Word(word) => word,
        PortDocument::Number(number) => number.to_string(),
    };
    let message = format!("'{seen}' must be a port from 1 to 65535 or 'traffic-port'");
    Err(ModelError::invalid(message).under("port"))
}

fn within(key: &str, value: u32, range: &RangeInclusive<u32>) -> Result<u32, ModelError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (min, max) = (range.start(), range.end());
    let message = format!("'{key}' value '{value}' must be between '{min}-{max}' inclusive");
    Err(ModelError::invalid(message).under(key))
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, range) in self.0.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}", range.start())?;
            if range.end() > range.start() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for HealthCheckPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HealthCheckPort::Port(port) => write!(f, "{port}"),
            HealthCheckPort::TrafficPort => f.write_str(TRAFFIC_PORT),
        }
    }
}
