//! How the targets of a group are checked (H-1, H-2): the settings as an operator gives them, and
//! the view in milliseconds that the prober works from.

mod change;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::attributes::AttributeSet;
use super::error::ModelError;
use super::matcher::Matcher;
use super::registry::{CHECK_INTERVAL_MS, CHECK_TIMEOUT_MS};

pub use change::HealthCheckChange;

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
    /// The same inside TLS 1.2 or 1.3, whatever the certificate.
    Https {
        /// As over HTTP.
        path: String,
        /// As over HTTP.
        matcher: Matcher,
    },
}

impl Probe {
    /// The protocol's name in requests and documents.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match self {
            Probe::Tcp => "TCP",
            Probe::Http { .. } => "HTTP",
            Probe::Https { .. } => "HTTPS",
        }
    }

    /// What is asked for and which codes count as success, where anything is asked at all.
    #[must_use]
    pub fn question(&self) -> Option<(&str, &Matcher)> {
        match self {
            Probe::Tcp => None,
            Probe::Http { path, matcher } | Probe::Https { path, matcher } => Some((path, matcher)),
        }
    }
}

/// The port that checks go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthCheckPort {
    /// This TCP port; 80 by default.
    Port(u16),
    /// The port of the group's traffic: 6081.
    TrafficPort,
}

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
    /// From a target's death to the decision that it is unhealthy, at most, where its checks then fail at once:
    /// `interval × unhealthy threshold` (H-7). Where they time out, a timeout more goes by.
    #[must_use]
    pub fn detection_time(&self) -> Duration {
        self.interval * u32::from(self.unhealthy_threshold)
    }
}

impl HealthCheckPort {
    /// The word for the port of the group's traffic.
    pub const TRAFFIC_PORT: &'static str = "traffic-port";

    /// The port as a number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            HealthCheckPort::Port(port) => port,
            HealthCheckPort::TrafficPort => super::GENEVE_PORT,
        }
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
                .under(key)
                .under("health_check"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for HealthCheckPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HealthCheckPort::Port(port) => write!(f, "{port}"),
            HealthCheckPort::TrafficPort => f.write_str(HealthCheckPort::TRAFFIC_PORT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::pairs;
    use super::super::registry::ObjectKind;
    use super::*;

    fn attributes(given: &[(&str, &str)]) -> AttributeSet {
        AttributeSet::new(ObjectKind::TargetGroup).modified(&pairs(given)).expect("allowed")
    }

    #[test]
    fn h1_the_defaults_are_those_of_the_rule() {
        let settings = HealthCheck::default().settings(&attributes(&[]));
        assert_eq!(
            settings,
            HealthCheckSettings {
                probe: Probe::Tcp,
                port: 80,
                interval: Duration::from_secs(10),
                timeout: Duration::from_secs(5),
                healthy_threshold: 5,
                unhealthy_threshold: 2,
            }
        );
        assert_eq!(settings.detection_time(), Duration::from_secs(20), "H-7");
    }

    #[test]
    fn h1_the_traffic_port_is_that_of_geneve() {
        assert_eq!(HealthCheckPort::TrafficPort.number(), 6081);
    }

    #[test]
    fn h2_milliseconds_take_the_place_of_seconds_each_for_itself() {
        let check = HealthCheck { unhealthy_threshold: 3, ..HealthCheck::default() };
        let both = attributes(&[
            ("flowgate.health_check.interval_ms", "50"),
            ("flowgate.health_check.timeout_ms", "20"),
        ]);
        let settings = check.settings(&both);
        assert_eq!(settings.interval, Duration::from_millis(50));
        assert_eq!(settings.timeout, Duration::from_millis(20));
        assert_eq!(settings.detection_time(), Duration::from_millis(150), "H-7");
        let timeout_alone = check.settings(&attributes(&[("flowgate.health_check.timeout_ms", "20")]));
        assert_eq!(timeout_alone.interval, Duration::from_secs(10));
        assert_eq!(timeout_alone.timeout, Duration::from_millis(20));
    }

    #[test]
    fn h1_h2_the_timeout_is_not_above_the_interval_in_whatever_unit() {
        let refusal = |check: &HealthCheck, given: &[(&str, &str)]| {
            check.agrees_with(&attributes(given)).expect_err("too long").message
        };
        let check = HealthCheck { interval_seconds: 5, timeout_seconds: 6, ..HealthCheck::default() };
        assert_eq!(
            refusal(&check, &[]),
            "Health check timeout '6' must be smaller than or equal to the interval '5'"
        );
        assert_eq!(
            refusal(&HealthCheck::default(), &[("flowgate.health_check.interval_ms", "4999")]),
            "Health check timeout '5000 ms' must be smaller than or equal to the interval '4999 ms'"
        );
        let equal = HealthCheck { interval_seconds: 5, ..HealthCheck::default() };
        assert_eq!(equal.agrees_with(&attributes(&[])), Ok(()));
    }

    #[test]
    fn h1_h2_thresholds_are_2_to_10_and_1_only_with_a_check_in_milliseconds() {
        let seconds = attributes(&[]);
        let interval = attributes(&[
            ("flowgate.health_check.interval_ms", "100"),
            ("flowgate.health_check.timeout_ms", "100"),
        ]);
        let timeout_alone = attributes(&[("flowgate.health_check.timeout_ms", "100")]);
        for threshold in 0..=12 {
            let healthy = HealthCheck { healthy_threshold: threshold, ..HealthCheck::default() };
            let unhealthy = HealthCheck { unhealthy_threshold: threshold, ..HealthCheck::default() };
            for check in [healthy, unhealthy] {
                let allowed = (2..=10).contains(&threshold);
                assert_eq!(check.agrees_with(&seconds).is_ok(), allowed, "{threshold}");
                let allowed = (1..=10).contains(&threshold);
                assert_eq!(check.agrees_with(&interval).is_ok(), allowed, "{threshold}");
                assert_eq!(check.agrees_with(&timeout_alone).is_ok(), allowed, "{threshold}");
            }
        }
        let one = HealthCheck { unhealthy_threshold: 1, ..HealthCheck::default() };
        let error = one.agrees_with(&seconds).expect_err("needs H-2");
        assert_eq!(error.path.as_deref(), Some("health_check.unhealthy_threshold"));
        assert_eq!(
            error.message,
            "'unhealthy_threshold' value '1' must be between '2-10' inclusive; \
             1 needs flowgate.health_check.interval_ms or .timeout_ms"
        );
    }
}
