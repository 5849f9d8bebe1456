//! Health: is each target fit to be given traffic, and why not (rules H-1 to H-9).
//!
//! The control core owns one [`HealthEngine`] and tells it, after every accepted change, the whole
//! list of targets ([`NodeScope::checks`], [`HealthEngine::update`]). Each checked target has a task
//! of its own that opens one connection per interval at the target's own phase ([`schedule`]), says
//! what it saw ([`check`]), and has its results counted in a row ([`damping`]). A change of state
//! leaves on a channel as a [`HealthEvent`] in the same poll as the result that made it.
//!
//! It promises: an unchanged target is not disturbed by a change of others (H-9), one check of a
//! target at a time, no burst (H-3), and that a fault of this node (no sockets left, a source
//! address that is not ours) is never held against a target.
//!
//! It is made for a current-thread `tokio` runtime: a check task and `update` never run at once.
//! A new kind of check is a variant of the model's [`Probe`] and a file in [`check`].
//!
//! [`Probe`]: super::model::Probe
#![forbid(unsafe_code)]

pub mod check;
mod course;
pub mod damping;
mod engine;
mod latency;
mod pulse;
pub mod schedule;
mod scope;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod totals;

pub use course::Course;
pub use engine::{CannotCheck, CheckSpec, Duty, Foreseen, HealthEngine, Unused};
pub use latency::AnswerTimes;
pub use scope::NodeScope;
pub use state::{
    CheckTotals, HealthEvent, HealthState, LastCheck, Moment, ReasonCode, StateReason, TargetHealthView,
    TargetKey,
};
pub use totals::GroupChecks;
