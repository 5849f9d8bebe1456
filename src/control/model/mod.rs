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
mod declare;
mod difference;
mod document;
mod error;
#[cfg(test)]
mod fixture;
mod health_check;
mod lifecycle;
mod matcher;
mod name;
mod objects;
mod placement;
#[cfg(test)]
mod properties;
pub mod registry;
mod resource;
mod settings;
mod tags;
mod targets;

pub use attributes::AttributeSet;
pub use change::{Change, ObjectChange, Outcome, TargetChange, TargetDescription};
pub use difference::{Difference, Differs, difference};
pub use document::{ChangeRecord, ObjectsDocument, objects_schema};
pub use error::{ErrorCode, ModelError};
pub use health_check::{HealthCheck, HealthCheckChange, HealthCheckPort, HealthCheckSettings, Probe};
pub use lifecycle::{MAX_LOAD_BALANCERS, MAX_TARGET_GROUPS};
pub use matcher::Matcher;
pub use name::{ForeignId, Name, ObjectId, Zone};
pub use objects::{
    Drain, IpAddressType, Listener, LoadBalancer, Registration, State, Target, TargetGroup, Weight,
};
pub use placement::{Place, Placement};
pub use registry::{Attribute, ObjectKind};
pub use resource::Resource;
pub use settings::{
    Failover, ListenerSettings, LoadBalancerSettings, ResetGuards, Stickiness, TargetGroupSettings,
    UnknownFlow,
};
pub use tags::{MAX_TAG_KEY, MAX_TAG_VALUE, MAX_TAGS, Tags};
pub use targets::{MAX_TARGETS, MAX_TARGETS_PER_GROUP};

/// The UDP port of every target group (O-2).
pub const GENEVE_PORT: u16 = 6081;
