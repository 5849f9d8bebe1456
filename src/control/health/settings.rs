//! The settings of a group's health check (H-1, H-2), in types that cannot hold what a check could
//! not carry out. The ranges that AWS sets (seconds, 2–10) are the model's to ask for; here stands
//! only what the engine itself needs.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use super::damping::Thresholds;
use super::matcher::Matcher;

/// The shortest interval and timeout (H-2). Below it the runtime's timer, which counts whole
/// milliseconds, would be a large part of the interval.
pub const MIN_TIME: Duration = Duration::from_millis(10);

/// The longest path, in characters (H-1).
pub const MAX_PATH: usize = 1024;

/// How the targets of a group are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheckSettings {
    /// What is asked of the target.
    pub kind: CheckKind,
    /// The port asked; `traffic-port` is resolved by the caller.
    pub port: NonZeroU16,
    /// How often, and how long an answer may take.
    pub timing: Timing,
    /// How many results in a row decide.
    pub thresholds: Thresholds,
}

impl HealthCheckSettings {
    /// `interval × unhealthy threshold` (H-7), which is told wherever the settings are shown. A
    /// target that refuses is found out at the latest then; one that is silent, at the latest one
    /// timeout later.
    pub fn detection_time(&self) -> Duration {
        self.timing.interval.saturating_mul(self.thresholds.unhealthy.get())
    }

    /// Whether `other` asks the target the same question, so that results under both may be
    /// counted in one row (H-9).
    pub fn asks_the_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.port == other.port
    }
}

impl Default for HealthCheckSettings {
    /// AWS's: TCP to port 80 every 10 s within 5 s, healthy after 5, unhealthy after 2.
    fn default() -> Self {
        Self {
            kind: CheckKind::Tcp,
            port: NonZeroU16::MIN.saturating_add(79),
            timing: Timing { interval: Duration::from_secs(10), timeout: Duration::from_secs(5) },
            thresholds: Thresholds::default(),
        }
    }
}

/// The kinds of check and what each needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// A connection is made: healthy.
    Tcp,
    /// `GET path` is answered by a code that the matcher has.
    Http {
        /// What is asked for.
        path: CheckPath,
        /// Which codes are good.
        matcher: Matcher,
    },
}

/// Interval and timeout: [`MIN_TIME`] ≤ timeout ≤ interval, so that two checks of a target never
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    interval: Duration,
    timeout: Duration,
}

impl Timing {
    /// A check every `interval`, which fails if it has no answer within `timeout`.
    pub fn new(interval: Duration, timeout: Duration) -> Result<Self, SettingsError> {
        if interval < MIN_TIME || timeout < MIN_TIME {
            return Err(SettingsError::TooShort { seen: interval.min(timeout) });
        }
        if timeout > interval {
            return Err(SettingsError::TimeoutAboveInterval { timeout, interval });
        }
        Ok(Self { interval, timeout })
    }

    /// From the begin of one check to the begin of the next.
    pub fn interval(self) -> Duration {
        self.interval
    }

    /// From the begin of a check to its failure for want of an answer.
    pub fn timeout(self) -> Duration {
        self.timeout
    }
}

/// A path as it may stand in a request line: `/…`, 1 to [`MAX_PATH`] visible ASCII characters. No
/// space and no line end, so that nobody can write a request of his own through it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CheckPath(String);

impl CheckPath {
    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for CheckPath {
    fn default() -> Self {
        Self("/".to_owned())
    }
}

impl fmt::Display for CheckPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CheckPath {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let fits = (1..=MAX_PATH).contains(&text.len());
        if fits && text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(SettingsError::Path(text.to_owned()))
        }
    }
}

/// Settings that no check can carry out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// Interval or timeout below [`MIN_TIME`].
    #[error("health check interval and timeout must be 10 ms or more, not {seen:?}")]
    TooShort {
        /// The shorter of the two.
        seen: Duration,
    },
    /// A check would still run when the next is due.
    #[error(
        "health check timeout '{timeout:?}' must be smaller than or equal to the interval '{interval:?}'"
    )]
    TimeoutAboveInterval {
        /// As given.
        timeout: Duration,
        /// As given.
        interval: Duration,
    },
    /// Not a [`CheckPath`].
    #[error("health check path {0:?} must begin with '/' and be of 1-1024 visible ASCII characters")]
    Path(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_defaults_are_those_of_rule_h1() {
        let settings = HealthCheckSettings::default();
        assert_eq!((&settings.kind, settings.port.get()), (&CheckKind::Tcp, 80));
        assert_eq!((settings.timing.interval(), settings.timing.timeout()), (ms(10_000), ms(5_000)));
        assert_eq!((settings.thresholds.healthy.get(), settings.thresholds.unhealthy.get()), (5, 2));
        assert_eq!(CheckPath::default().as_str(), "/");
    }

    #[test]
    fn detection_time_is_interval_times_unhealthy_threshold_h7() {
        let mut settings = HealthCheckSettings::default();
        assert_eq!(settings.detection_time(), ms(20_000));
        settings.timing = Timing::new(ms(50), ms(50)).unwrap();
        settings.thresholds = Thresholds::new(1, 3).unwrap();
        assert_eq!(settings.detection_time(), ms(150));
    }

    #[test]
    fn an_interval_goes_down_to_10_ms_and_never_below_the_timeout_h2() {
        assert!(Timing::new(ms(10), ms(10)).is_ok());
        assert_eq!(Timing::new(ms(9), ms(9)), Err(SettingsError::TooShort { seen: ms(9) }));
        assert_eq!(Timing::new(ms(20), ms(0)), Err(SettingsError::TooShort { seen: ms(0) }));
        assert_eq!(
            Timing::new(ms(20), ms(21)),
            Err(SettingsError::TimeoutAboveInterval { timeout: ms(21), interval: ms(20) })
        );
    }

    #[test]
    fn a_path_cannot_carry_a_request_of_its_own_h1() {
        for good in ["/", "/health?deep=1", &format!("/{}", "a".repeat(MAX_PATH - 1))] {
            assert_eq!(good.parse::<CheckPath>().unwrap().as_str(), good);
        }
        for bad in ["", "health", "/a b", "/a\r\nX: y", "/ü", &format!("/{}", "a".repeat(MAX_PATH))] {
            assert_eq!(bad.parse::<CheckPath>(), Err(SettingsError::Path(bad.to_owned())));
        }
    }
}
