//! Whatever has an ARN and tags of its own, found by that ARN or by its name.

use super::error::{ErrorCode, ModelError};
use super::objects::{Listener, LoadBalancer, State, TargetGroup};
use super::registry::ObjectKind;
use super::tags::Tags;

/// An object that can be tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A load balancer.
    LoadBalancer(&'a LoadBalancer),
    /// A listener, with its load balancer.
    Listener(&'a LoadBalancer, &'a Listener),
    /// A target group.
    TargetGroup(&'a TargetGroup),
}

impl State {
    /// The object of this ARN, or the load balancer or target group of this name.
    ///
    /// # Errors
    /// `LoadBalancerNotFound`, `ListenerNotFound`, `TargetGroupNotFound` or `RuleNotFound`, by what the
    /// ARN says it is; `ValidationError` for what is no ARN and for a name that nothing has, or both a
    /// load balancer and a target group.
    pub fn resource(&self, reference: &str) -> Result<Resource<'_>, ModelError> {
        if !reference.contains(':') {
            return self.named(reference);
        }
        match reference.rsplit(':').next().and_then(|resource| resource.split('/').next()) {
            Some("loadbalancer") => self.load_balancer(reference).map(Resource::LoadBalancer),
            Some("listener") => self
                .load_balancer_of_listener(reference)
                .map(|(balancer, listener)| Resource::Listener(balancer, listener)),
            Some("targetgroup") => self.target_group(reference).map(Resource::TargetGroup),
            // A rule is its listener's, and is tagged by tagging that.
            Some("listener-rule") => {
                let message = format!("Rule '{reference}' has no tags of its own");
                Err(ModelError::new(ErrorCode::RuleNotFound, message))
            }
            _ => Err(ModelError::invalid(format!(
                "'{reference}' is not the ARN of a load balancer, listener or target group"
            ))),
        }
    }

    fn named(&self, name: &str) -> Result<Resource<'_>, ModelError> {
        match (self.load_balancer(name), self.target_group(name)) {
            (Ok(balancer), Err(_)) => Ok(Resource::LoadBalancer(balancer)),
            (Err(_), Ok(group)) => Ok(Resource::TargetGroup(group)),
            (Ok(_), Ok(_)) => Err(ModelError::invalid(format!(
                "'{name}' is both a load balancer and a target group; give the ARN of the one that is meant"
            ))),
            (Err(_), Err(_)) => {
                Err(ModelError::invalid(format!("No load balancer and no target group is called '{name}'")))
            }
        }
    }
}

impl<'a> Resource<'a> {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> ObjectKind {
        match self {
            Resource::LoadBalancer(_) => ObjectKind::LoadBalancer,
            Resource::Listener(..) => ObjectKind::Listener,
            Resource::TargetGroup(_) => ObjectKind::TargetGroup,
        }
    }

    /// Its ARN (O-5).
    #[must_use]
    pub fn arn(&self) -> String {
        match self {
            Resource::LoadBalancer(balancer) => balancer.arn(),
            Resource::Listener(balancer, _) => balancer.listener_arn().unwrap_or_default(),
            Resource::TargetGroup(group) => group.arn(),
        }
    }

    /// Its tags.
    #[must_use]
    pub fn tags(&self) -> &'a Tags {
        match self {
            Resource::LoadBalancer(balancer) => &balancer.tags,
            Resource::Listener(_, listener) => &listener.tags,
            Resource::TargetGroup(group) => &group.tags,
        }
    }
}
