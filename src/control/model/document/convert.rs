//! From the parts of a document to the objects that they describe, by every rule, and back.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::attributes::AttributeEntries;
use super::health_check::HealthCheckDocument;
use super::tags::TagEntries;
use super::{
    ListenerDocument, LoadBalancerDocument, Source, SubnetDocument, TargetDocument, TargetGroupDocument,
    geneve,
};
use crate::control::model::GENEVE_PORT;
use crate::control::model::attributes::AttributeSet;
use crate::control::model::change::check_idle_timeout;
use crate::control::model::error::{ErrorCode, ModelError};
use crate::control::model::lifecycle::check_new_name;
use crate::control::model::name::{Name, ObjectId, Zone};
use crate::control::model::objects::{Listener, LoadBalancer, Registration, State, Target, TargetGroup};
use crate::control::model::placement::Placement;
use crate::control::model::registry::ObjectKind;
use crate::control::model::settings;
use crate::control::model::targets::check_address;

impl LoadBalancerDocument {
    /// `state` holds every target group, and the load balancers before this one.
    pub(super) fn read(self, source: Source, state: &State) -> Result<LoadBalancer, ModelError> {
        let name = self.name;
        if source == Source::Seed {
            check_new_name(ObjectKind::LoadBalancer, &name)?;
        }
        if state.load_balancers.contains_key(&name) {
            let message = format!("another load balancer is called '{name}' already");
            return Err(ModelError::new(ErrorCode::DuplicateLoadBalancerName, message).under("name"));
        }
        let listener = self.listener.map(|listener| listener.read(&name, source, state));
        let listener = listener.transpose().map_err(|error| error.under("listener"))?;
        Ok(LoadBalancer {
            id: self.id.unwrap_or_else(|| ObjectId::derive("loadbalancer", &name, 0)),
            ip_address_type: self.ip_address_type,
            placement: placement(self.zones, self.subnets)?,
            created_unix_ms: self.created_unix_ms,
            tags: self.tags.read()?,
            attributes: self.attributes.read(ObjectKind::LoadBalancer, source)?,
            listener,
            name,
        })
    }

    pub(super) fn write(balancer: &LoadBalancer) -> LoadBalancerDocument {
        let places = || balancer.placement.places().iter();
        let zones = places().filter(|place| place.subnet.is_none());
        let subnets = places();
        LoadBalancerDocument {
            name: balancer.name.clone(),
            id: Some(balancer.id),
            ip_address_type: balancer.ip_address_type,
            zones: zones.filter_map(|place| place.zone.clone()).collect(),
            subnets: subnets
                .filter_map(|place| {
                    Some(SubnetDocument { id: place.subnet.clone()?, zone: place.zone.clone() })
                })
                .collect(),
            created_unix_ms: balancer.created_unix_ms,
            tags: TagEntries::write(&balancer.tags),
            attributes: AttributeEntries::write(&balancer.attributes),
            listener: balancer.listener.as_ref().map(|listener| ListenerDocument {
                id: Some(listener.id),
                target_group: listener.target_group.clone(),
                tags: TagEntries::write(&listener.tags),
                attributes: AttributeEntries::write(&listener.attributes),
            }),
        }
    }
}

impl ListenerDocument {
    pub(super) fn read(self, balancer: &Name, source: Source, state: &State) -> Result<Listener, ModelError> {
        let at_group = |code, message| ModelError::new(code, message).under("target_group");
        let name = self.target_group;
        let Some(group) = state.target_groups.get(&name) else {
            let message = format!("there is no target group '{name}' in this document");
            return Err(at_group(ErrorCode::TargetGroupNotFound, message));
        };
        if let Some(other) = state.load_balancer_using(&name) {
            let message =
                format!("the target group '{name}' is used by the load balancer '{}' already", other.name);
            return Err(at_group(ErrorCode::TargetGroupAssociationLimit, message));
        }
        let attributes = self.attributes.read(ObjectKind::Listener, source)?;
        if source == Source::Seed {
            let defaults = AttributeSet::new(ObjectKind::Listener);
            let stickiness = settings::stickiness(&group.attributes);
            check_idle_timeout(&defaults, &attributes, stickiness)?;
        }
        Ok(Listener {
            id: self.id.unwrap_or_else(|| ObjectId::derive("listener", balancer, 0)),
            target_group: name,
            tags: self.tags.read()?,
            attributes,
        })
    }
}

fn placement(zones: Vec<Zone>, subnets: Vec<SubnetDocument>) -> Result<Placement, ModelError> {
    if subnets.is_empty() {
        return Ok(Placement::of_zones(zones));
    }
    if !zones.is_empty() {
        let message = "zones are given already; a load balancer has zones or subnets, not both";
        return Err(ModelError::invalid(message).under("subnets"));
    }
    Placement::of_subnets(subnets.into_iter().map(|subnet| (subnet.id, subnet.zone)).collect())
        .map_err(|error| error.under("subnets"))
}

impl TargetGroupDocument {
    pub(super) fn read(self, source: Source) -> Result<TargetGroup, ModelError> {
        let name = self.name;
        if source == Source::Seed {
            check_new_name(ObjectKind::TargetGroup, &name)?;
        }
        if self.protocol != "GENEVE" {
            let message = format!("'{}' must be 'GENEVE'", self.protocol);
            return Err(ModelError::new(ErrorCode::UnsupportedProtocol, message).under("protocol"));
        }
        if self.port != GENEVE_PORT {
            let message = format!("'{}' must be '{}'", self.port, GENEVE_PORT);
            return Err(ModelError::invalid(message).under("port"));
        }
        let health_check = self.health_check.read().map_err(|error| error.under("health_check"))?;
        let attributes = self.attributes.read(ObjectKind::TargetGroup, source)?;
        health_check.agrees_with(&attributes)?;
        let mut targets = BTreeMap::new();
        for (position, document) in self.targets.into_iter().enumerate() {
            let at = format!("targets[{position}]");
            let address = document.address;
            check_address(address).map_err(|error| error.under(&at))?;
            if targets.insert(address, document.read()).is_some() {
                // To register twice is to register once (O-3), but a document that lists an
                // address twice may give it two weights, and only its author knows which is meant.
                let message = format!("the address '{address}' is in this group already");
                let error = ModelError::new(ErrorCode::InvalidTarget, message);
                return Err(error.under("address").under(&at));
            }
        }
        let id = self.id.unwrap_or_else(|| ObjectId::derive("targetgroup", &name, 0));
        let tags = self.tags.read()?;
        Ok(TargetGroup { name, id, vpc_id: self.vpc_id, tags, health_check, attributes, targets })
    }

    pub(super) fn write(group: &TargetGroup) -> TargetGroupDocument {
        TargetGroupDocument {
            name: group.name.clone(),
            id: Some(group.id),
            protocol: geneve(),
            port: GENEVE_PORT,
            vpc_id: group.vpc_id.clone(),
            tags: TagEntries::write(&group.tags),
            health_check: HealthCheckDocument::write(&group.health_check),
            attributes: AttributeEntries::write(&group.attributes),
            targets: group.targets.iter().map(TargetDocument::write).collect(),
        }
    }
}

impl TargetDocument {
    pub(super) fn read(self) -> Target {
        let registration = match self.draining_since_unix_ms {
            None => Registration::Registered,
            Some(since_unix_ms) => Registration::Draining { since_unix_ms },
        };
        Target { zone: self.zone, weight: self.weight, registration }
    }

    pub(super) fn write((address, target): (&Ipv4Addr, &Target)) -> TargetDocument {
        TargetDocument {
            address: *address,
            zone: target.zone.clone(),
            weight: target.weight,
            draining_since_unix_ms: match target.registration {
                Registration::Registered => None,
                Registration::Draining { since_unix_ms } => Some(since_unix_ms),
            },
        }
    }
}
