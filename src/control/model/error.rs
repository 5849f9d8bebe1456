//! Why a change or a document was refused: a code as AWS has it, a sentence, and where in the
//! request or document the fault is.

use std::fmt;

use crate::control::{fault_path, one_line};

/// The kind of a refusal, by AWS's own names, so that clients can tell them apart as they are used
/// to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// A value, a key or a combination of them that is not allowed.
    ValidationError,
    /// No load balancer of that name or ARN.
    LoadBalancerNotFound,
    /// No listener of that ARN.
    ListenerNotFound,
    /// No target group of that name or ARN.
    TargetGroupNotFound,
    /// Two load balancers of one name.
    DuplicateLoadBalancerName,
    /// Two target groups of one name.
    DuplicateTargetGroupName,
    /// No rule of that ARN.
    RuleNotFound,
    /// A subnet that the configuration does not name.
    SubnetNotFound,
    /// Settings that do not go together, or not with a gateway.
    InvalidConfigurationRequest,
    /// A tag key that one request gives twice.
    DuplicateTagKeys,
    /// More tags than an object can have.
    TooManyTags,
    /// A target group that two load balancers would use (O-2).
    TargetGroupAssociationLimit,
    /// An address that cannot be a target.
    InvalidTarget,
    /// More targets than a group or the node can hold.
    TooManyTargets,
    /// More load balancers than the node can hold.
    TooManyLoadBalancers,
    /// A second listener of one load balancer (O-1).
    TooManyListeners,
    /// More target groups than the node can hold.
    TooManyTargetGroups,
    /// The deletion of a load balancer that is protected.
    OperationNotPermitted,
    /// The deletion of a target group that a listener uses.
    ResourceInUse,
    /// A protocol that target groups or health checks do not speak.
    UnsupportedProtocol,
}

impl ErrorCode {
    /// The code as it stands on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::ValidationError => "ValidationError",
            ErrorCode::LoadBalancerNotFound => "LoadBalancerNotFound",
            ErrorCode::ListenerNotFound => "ListenerNotFound",
            ErrorCode::TargetGroupNotFound => "TargetGroupNotFound",
            ErrorCode::DuplicateLoadBalancerName => "DuplicateLoadBalancerName",
            ErrorCode::DuplicateTargetGroupName => "DuplicateTargetGroupName",
            ErrorCode::RuleNotFound => "RuleNotFound",
            ErrorCode::SubnetNotFound => "SubnetNotFound",
            ErrorCode::InvalidConfigurationRequest => "InvalidConfigurationRequest",
            ErrorCode::DuplicateTagKeys => "DuplicateTagKeys",
            ErrorCode::TooManyTags => "TooManyTags",
            ErrorCode::TargetGroupAssociationLimit => "TargetGroupAssociationLimit",
            ErrorCode::InvalidTarget => "InvalidTarget",
            ErrorCode::TooManyTargets => "TooManyTargets",
            ErrorCode::TooManyLoadBalancers => "TooManyLoadBalancers",
            ErrorCode::TooManyListeners => "TooManyListeners",
            ErrorCode::TooManyTargetGroups => "TooManyTargetGroups",
            ErrorCode::OperationNotPermitted => "OperationNotPermitted",
            ErrorCode::ResourceInUse => "ResourceInUse",
            ErrorCode::UnsupportedProtocol => "UnsupportedProtocol",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal. Displays as `path: message`, or as the message alone where there is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ModelError {
    /// What kind of refusal.
    pub code: ErrorCode,
    /// One sentence: the value seen and what was expected. For the faults that AWS has too, AWS's
    /// own text.
    pub message: String,
    /// Where the fault is, such as `target_groups[1].attributes."tcp.idle_timeout.seconds"`.
    pub path: Option<String>,
    /// Of a document whose format is none that this program knows: its version.
    pub unknown_version: Option<u64>,
}

impl ModelError {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> ModelError {
        ModelError { code, message: message.into(), path: None, unknown_version: None }
    }

    pub(super) fn invalid(message: impl Into<String>) -> ModelError {
        ModelError::new(ErrorCode::ValidationError, message)
    }

    /// The same refusal, seen from one level further out: its path is now below `outer`.
    #[must_use]
    pub(super) fn under(mut self, outer: &str) -> ModelError {
        self.path = Some(match self.path {
            Some(inner) => fault_path::join(outer, &inner),
            None => outer.to_owned(),
        });
        self
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        one_line::write(f, &self.message)
    }
}
