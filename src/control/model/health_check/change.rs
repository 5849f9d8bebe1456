//! What of a health check is to be another (H-1): read by a document that describes a group, by the
//! creation of a group and by a change of one, so that each has the same rules and the same words.

use std::ops::RangeInclusive;

use super::{HealthCheck, HealthCheckPort, Probe};
use crate::control::model::error::{ErrorCode, ModelError};
use crate::control::model::matcher::Matcher;

const PATH_LENGTH: RangeInclusive<usize> = 1..=1024;
const TIMEOUT_SECONDS: RangeInclusive<u32> = 2..=120;
const INTERVAL_SECONDS: RangeInclusive<u32> = 5..=300;

/// What is given of a health check, as it was written; what is not keeps its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCheckChange {
    /// `TCP`, `HTTP` or `HTTPS`.
    pub protocol: Option<String>,
    /// A port's number, or `traffic-port`.
    pub port: Option<String>,
    /// With HTTP and HTTPS: what is asked for.
    pub path: Option<String>,
    /// With HTTP and HTTPS: the codes that count as success.
    pub matcher: Option<String>,
    /// Between two checks of a target.
    pub interval_seconds: Option<u32>,
    /// How long an answer may take.
    pub timeout_seconds: Option<u32>,
    /// Successes in a row that make a target healthy.
    pub healthy_threshold: Option<u8>,
    /// Failures in a row that make a target unhealthy.
    pub unhealthy_threshold: Option<u8>,
}

impl HealthCheck {
    /// The check after `change`, as far as its own rules go; whether it agrees with the group's
    /// attributes is for [`HealthCheck::agrees_with`].
    ///
    /// # Errors
    /// The refusal, with the name of the field that is at fault as its path.
    pub(in crate::control::model) fn modified(
        &self,
        change: HealthCheckChange,
    ) -> Result<HealthCheck, ModelError> {
        Ok(HealthCheck {
            probe: self.probe.modified(change.protocol.as_deref(), change.path, change.matcher)?,
            port: change.port.map_or(Ok(self.port), |text| read_port(&text))?,
            interval_seconds: within(
                "interval_seconds",
                change.interval_seconds.unwrap_or(self.interval_seconds),
                &INTERVAL_SECONDS,
            )?,
            timeout_seconds: within(
                "timeout_seconds",
                change.timeout_seconds.unwrap_or(self.timeout_seconds),
                &TIMEOUT_SECONDS,
            )?,
            // Their range depends on the attributes: `HealthCheck::agrees_with`.
            healthy_threshold: change.healthy_threshold.unwrap_or(self.healthy_threshold),
            unhealthy_threshold: change.unhealthy_threshold.unwrap_or(self.unhealthy_threshold),
        })
    }
}

impl Probe {
    /// From HTTP to HTTPS and back, path and matcher are kept; TCP has neither.
    fn modified(
        &self,
        protocol: Option<&str>,
        path: Option<String>,
        matcher: Option<String>,
    ) -> Result<Probe, ModelError> {
        let protocol = protocol.unwrap_or(self.protocol());
        match protocol {
            "TCP" => {
                for (key, given) in [("path", path.is_some()), ("matcher", matcher.is_some())] {
                    if given {
                        let message =
                            format!("a {key} is for the protocols HTTP and HTTPS, and this check is TCP");
                        return Err(ModelError::invalid(message).under(key));
                    }
                }
                Ok(Probe::Tcp)
            }
            "HTTP" | "HTTPS" => {
                let before = self.question();
                let path = match path {
                    Some(path) => checked_path(path)?,
                    None => before.map_or_else(|| "/".to_owned(), |(path, _)| path.to_owned()),
                };
                let matcher = match matcher {
                    Some(text) => read_matcher(&text)?,
                    None => before.map(|(_, matcher)| matcher.clone()).unwrap_or_default(),
                };
                Ok(if protocol == "HTTP" {
                    Probe::Http { path, matcher }
                } else {
                    Probe::Https { path, matcher }
                })
            }
            // AWS's target groups know these too; its health checks do not.
            "UDP" | "TCP_UDP" | "TLS" | "GENEVE" => Err(ModelError::new(
                ErrorCode::UnsupportedProtocol,
                format!("'{protocol}' must be one of [TCP, HTTP, HTTPS]"),
            )
            .under("protocol")),
            other => {
                Err(ModelError::invalid(format!("'{other}' must be one of [TCP, HTTP, HTTPS]"))
                    .under("protocol"))
            }
        }
    }
}

/// The path is written into a request line: a space or a line break would end it.
fn checked_path(path: String) -> Result<String, ModelError> {
    let visible = path.bytes().all(|byte| byte.is_ascii_graphic());
    if PATH_LENGTH.contains(&path.len()) && path.starts_with('/') && visible {
        return Ok(path);
    }
    let message = format!("'{path}' must start with '/' and be 1 to 1024 visible ASCII characters");
    Err(ModelError::invalid(message).under("path"))
}

fn read_matcher(text: &str) -> Result<Matcher, ModelError> {
    Matcher::parse(text).ok_or_else(|| {
        ModelError::invalid(format!(
            "'{text}' must be codes from 200 to 399, or ranges of them, such as '200,301-302'"
        ))
        .under("matcher")
    })
}

fn read_port(text: &str) -> Result<HealthCheckPort, ModelError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn given(protocol: &str) -> HealthCheckChange {
        HealthCheckChange { protocol: Some(protocol.to_owned()), ..HealthCheckChange::default() }
    }

    #[test]
    fn h1_from_http_to_https_and_back_the_question_stays_and_tcp_forgets_it() {
        let http = HealthCheckChange {
            path: Some("/up".to_owned()),
            matcher: Some("204".to_owned()),
            ..given("HTTP")
        };
        let http = HealthCheck::default().modified(http).expect("allowed");
        let https = http.modified(given("HTTPS")).expect("allowed");
        let question = |check: &HealthCheck| {
            check.probe.question().map(|(path, matcher)| (path.to_owned(), matcher.to_string()))
        };
        assert_eq!((https.probe.protocol(), question(&https)), ("HTTPS", Some(("/up".into(), "204".into()))));
        assert_eq!(https.modified(given("HTTP")), Ok(http));
        let tcp = https.modified(given("TCP")).expect("allowed");
        assert_eq!(tcp.probe, Probe::Tcp);
        let again = tcp.modified(given("HTTPS")).expect("allowed");
        assert_eq!(question(&again), Some(("/".into(), "200-399".into())));
    }

    #[test]
    fn h1_what_is_not_given_keeps_its_value() {
        let check = HealthCheck {
            port: HealthCheckPort::TrafficPort,
            interval_seconds: 30,
            timeout_seconds: 7,
            healthy_threshold: 3,
            unhealthy_threshold: 4,
            ..HealthCheck::default()
        };
        assert_eq!(check.modified(HealthCheckChange::default()), Ok(check.clone()));
        let slower = HealthCheckChange { interval_seconds: Some(60), ..HealthCheckChange::default() };
        assert_eq!(check.modified(slower), Ok(HealthCheck { interval_seconds: 60, ..check }));
    }

    #[test]
    fn h1_a_path_alone_is_refused_for_a_check_that_is_tcp_already() {
        let path = HealthCheckChange { path: Some("/".to_owned()), ..HealthCheckChange::default() };
        let error = HealthCheck::default().modified(path).expect_err("TCP asks nothing");
        assert_eq!(error.path.as_deref(), Some("path"));
        assert_eq!(error.message, "a path is for the protocols HTTP and HTTPS, and this check is TCP");
    }
}
