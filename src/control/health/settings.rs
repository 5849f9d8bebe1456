//! The settings of a group's health check (H-1, H-2), as the model gives them.

use std::time::Duration;

use super::matcher::Matcher;

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
