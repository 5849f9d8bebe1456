//! The objects as a whole, told as one change: what a document says is what there is from then on, or
//! nothing has changed. `change` calls it.
//!
//! What is there under the same name stays itself and becomes as described. What is new is created, and
//! what is not described is deleted, by the rules of single changes: a protected load balancer stays, the
//! idle timeout of sticky flows stays, and a target leaves by a drain (T-3), as its flows have done
//! nothing to be dropped for. Only a group that goes takes its targets along at once, as its deletion does.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::attributes::AttributeSet;
use super::change::{Outcome, check_idle_timeout};
use super::difference::difference;
use super::document::ObjectsDocument;
use super::error::{ErrorCode, ModelError};
use super::lifecycle::check_new_name;
use super::name::Name;
use super::objects::{LoadBalancer, Registration, State, Target, TargetGroup};
use super::registry::{ObjectKind, TCP_IDLE_TIMEOUT};
use super::settings;

impl State {
    /// Becomes what an operator's document describes. Paths of refusals are those of the document.
    pub(super) fn apply_document(
        &mut self,
        document: &serde_json::Value,
        now_unix_ms: u64,
    ) -> Result<Outcome, ModelError> {
        let document = ObjectsDocument::from_json(document)?;
        let wanted = document.clone().read_beside(self)?;
        let at = |kind, name: &Name| {
            let place = document.place_of(kind, name);
            move |error: ModelError| error.under(&place)
        };
        let balancers = wanted.load_balancers().map(|balancer| (ObjectKind::LoadBalancer, &balancer.name));
        let groups = wanted.target_groups().map(|group| (ObjectKind::TargetGroup, &group.name));
        for (kind, name) in balancers.chain(groups) {
            let is_known = match kind {
                ObjectKind::TargetGroup => self.target_groups.contains_key(name),
                ObjectKind::LoadBalancer | ObjectKind::Listener => self.load_balancers.contains_key(name),
            };
            if !is_known {
                check_new_name(kind, name).map_err(at(kind, name))?;
            }
        }
        for group in wanted.target_groups() {
            let known = self.target_groups.get(&group.name).map(|group| &group.attributes);
            let default = AttributeSet::new(ObjectKind::TargetGroup);
            let before = known.unwrap_or(&default);
            group.attributes.check_in_place_of(before).map_err(at(ObjectKind::TargetGroup, &group.name))?;
        }
        for balancer in wanted.load_balancers() {
            let Some(listener) = &balancer.listener else { continue };
            let known = self.load_balancers.get(&balancer.name).and_then(|known| known.listener.as_ref());
            let default = AttributeSet::new(ObjectKind::Listener);
            // The default is what sticky flows go by: two changes in the right order would bring it.
            let is_default = listener.attributes.get(&TCP_IDLE_TIMEOUT) == TCP_IDLE_TIMEOUT.default;
            let before = known.filter(|_| !is_default).map_or(&default, |known| &known.attributes);
            let sticky = settings::stickiness(&wanted.target_groups[&listener.target_group].attributes);
            check_idle_timeout(before, &listener.attributes, sticky)
                .map_err(at(ObjectKind::Listener, &balancer.name))?;
        }
        self.become_as(&wanted, now_unix_ms)
    }

    /// Becomes what `wanted` is, but for targets, which leave by a drain, and for the generation. What
    /// attributes say of each other is not looked at.
    pub(super) fn become_as(&mut self, wanted: &State, now_unix_ms: u64) -> Result<Outcome, ModelError> {
        self.check_protection(wanted)?;
        let groups = wanted.target_groups.iter().map(|(name, wanted)| {
            let known = self.target_groups.get(name);
            let group = drained(known.map(AsRef::as_ref), wanted, now_unix_ms);
            // One that stays as it is stays shared with the states before.
            let shared = known.filter(|known| ***known == group).cloned();
            (name.clone(), shared.unwrap_or_else(|| Arc::new(group)))
        });
        let balancers = wanted.load_balancers.iter().map(|(name, wanted)| {
            // When it was created is not for a document to say.
            let known = self.load_balancers.get(name).filter(|known| known.id == wanted.id);
            let created =
                known.map_or(wanted.created_unix_ms.or(Some(now_unix_ms)), |known| known.created_unix_ms);
            (name.clone(), Arc::new(LoadBalancer { created_unix_ms: created, ..(**wanted).clone() }))
        });
        let next = State {
            generation: self.generation,
            target_groups: groups.collect(),
            load_balancers: balancers.collect(),
        };
        for name in next.target_groups.keys() {
            // With those that drain there may be too many.
            next.check_target_counts(name).map_err(|error| error.under("target_groups"))?;
        }
        let differences = difference(self, &next);
        if !differences.is_empty() {
            *self = next;
        }
        Ok(Outcome::Whole { differences })
    }

    /// a load balancer that is protected is not taken away, nor replaced by another.
    fn check_protection(&self, wanted: &State) -> Result<(), ModelError> {
        let stays = |name: &Name, id| wanted.load_balancers.get(name).is_some_and(|wanted| wanted.id == id);
        match self
            .load_balancers()
            .find(|balancer| balancer.settings().deletion_protection && !stays(&balancer.name, balancer.id))
        {
            None => Ok(()),
            Some(balancer) => {
                let message = format!(
                    "Load balancer '{}' cannot be deleted because deletion protection is enabled",
                    balancer.arn()
                );
                Err(ModelError::new(ErrorCode::OperationNotPermitted, message).under("load_balancers"))
            }
        }
    }
}

/// The group `wanted`, of which `known` is what there is: who is not registered there any more drains.
fn drained(known: Option<&TargetGroup>, wanted: &TargetGroup, now_unix_ms: u64) -> TargetGroup {
    let registered = wanted.targets.iter().filter(|(_, target)| target.is_registered());
    let mut targets: BTreeMap<Ipv4Addr, Target> =
        registered.map(|(address, target)| (*address, target.clone())).collect();
    for (address, target) in known.into_iter().flat_map(|known| &known.targets) {
        targets.entry(*address).or_insert_with(|| match target.registration {
            // A drain under way keeps its clock.
            Registration::Draining { .. } => target.clone(),
            Registration::Registered => Target {
                registration: Registration::Draining { since_unix_ms: now_unix_ms },
                ..target.clone()
            },
        });
    }
    TargetGroup { targets, ..wanted.clone() }
}
