//! One check of one target: a connection, a question, an answer, all within the timeout (H-3). A
//! file per kind; what they share stands in `connect`. The engine calls them through [`Checker`], so
//! that its own tests need no sockets.

mod connect;
mod http;
mod https;
mod metered;
#[cfg(test)]
mod peer;
mod tcp;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use super::state::{Moment, StateReason};
use crate::control::model::{HealthCheckSettings, Probe};
use connect::Deadline;

/// What one check found, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// What was found.
    pub outcome: Outcome,
    /// When it began.
    pub started: Moment,
    /// From its begin to its outcome; at most the timeout and what the runtime was late.
    pub latency: Duration,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is one of a healthy target.
    Success,
    /// It is not, or there is none. A reason of [`InternalError`] says that this node could not ask.
    ///
    /// [`InternalError`]: super::ReasonCode::InternalError
    Failure(StateReason),
}

/// Whoever can make a check.
pub trait Checker: Send + Sync + 'static {
    /// Checks `target` once, as `settings` say. Ends by the timeout, whatever the target does;
    /// dropped before, it closes its connection.
    fn check(
        &self,
        target: SocketAddrV4,
        settings: &HealthCheckSettings,
    ) -> impl Future<Output = CheckResult> + Send;
}

/// Checks over the kernel's sockets.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketChecker {
    /// The address checks come from; `None` leaves it to the kernel's routes.
    pub source: Option<Ipv4Addr>,
}

impl Checker for SocketChecker {
    async fn check(&self, target: SocketAddrV4, settings: &HealthCheckSettings) -> CheckResult {
        let started = Moment::now();
        let deadline = Deadline::after(settings.timeout);
        let answer = match &settings.probe {
            Probe::Tcp => tcp::check(target, self.source, deadline).await,
            Probe::Http { path, matcher } => http::check(target, self.source, path, matcher, deadline).await,
            Probe::Https { path, matcher } => {
                https::check(target, self.source, path, matcher, deadline).await
            }
        };
        let outcome = match answer {
            Ok(()) => Outcome::Success,
            Err(reason) => Outcome::Failure(reason),
        };
        let latency = Moment::now().monotonic.saturating_duration_since(started.monotonic);
        CheckResult { outcome, started, latency }
    }
}
