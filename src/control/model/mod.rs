//! The control side's data: load balancers, listeners, target groups and targets, their attributes,
//! and the changes that can be made to them (sections 1 and 2 of the semantics, H-1, H-2).
//!
//! No socket, no clock, no file: a `State` is a value, `State::apply` gives the next one or says
//! why not, and whoever calls it stores and publishes what it got. The control socket turns
//! requests into `Change`s; the compiler of forwarding state, the prober and the drain clock read
//! the typed settings.

#![forbid(unsafe_code)]

mod attributes;
mod change;
mod document;
mod error;
#[cfg(test)]
mod fixture;
mod health_check;
mod lifecycle;
mod matcher;
mod name;
mod objects;
#[cfg(test)]
mod properties;
pub mod registry;
mod settings;

pub use attributes::AttributeSet;
pub use change::{
    Change, MAX_TARGETS, MAX_TARGETS_PER_GROUP, ObjectChange, Outcome, TargetChange, TargetDescription,
};
pub use document::objects_schema;
pub use error::{ErrorCode, ModelError};
pub use health_check::{HealthCheck, HealthCheckChange, HealthCheckPort, HealthCheckSettings, Probe};
pub use lifecycle::{MAX_LOAD_BALANCERS, MAX_TARGET_GROUPS};
pub use matcher::Matcher;
pub use name::{Name, ObjectId, Zone};
pub use objects::{
    Drain, IpAddressType, Listener, LoadBalancer, Registration, State, Target, TargetGroup, Weight,
};
pub use registry::{Attribute, ObjectKind};
pub use settings::{
    Failover, ListenerSettings, LoadBalancerSettings, ResetGuards, Stickiness, TargetGroupSettings,
    UnknownFlow,
};

/// The UDP port of every target group (O-2).
pub const GENEVE_PORT: u16 = 6081;
