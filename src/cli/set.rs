//! `flowgate set NAME key=value…`: attributes of a target group, of a load balancer or of its listener, whichever the keys
//! are of.

#![forbid(unsafe_code)]

use super::arguments::{ChangeFlags, SetFlags};
use super::client::{CliError, typed};
use super::{Session, objects};
use crate::control::model::{ObjectKind, registry};
use crate::control::nearest::nearest;
use crate::control::socket::methods::attributes::{
    Attribute, ModifyListenerAttributes, ModifyLoadBalancerAttributes, ModifyTargetGroupAttributes,
};
use crate::control::socket::methods::balancers::{DescribeLoadBalancers, LoadBalancers};
use crate::control::socket::methods::groups::{DescribeTargetGroups, TargetGroups};

pub(super) fn run(session: &mut Session, flags: SetFlags, how: &ChangeFlags) -> Result<(), CliError> {
    let SetFlags { name, attributes } = flags;
    let kinds = kinds_of(session, &name)?;
    match kind_of(&kinds, &attributes).map_err(CliError::Misnamed)? {
        ObjectKind::TargetGroup => {
            let params = ModifyTargetGroupAttributes { target_group_arn: name, attributes };
            session.change("modify-target-group-attributes", &params, how, objects::attributes)
        }
        ObjectKind::LoadBalancer => {
            let params = ModifyLoadBalancerAttributes { load_balancer_arn: name, attributes };
            session.change("modify-load-balancer-attributes", &params, how, objects::attributes)
        }
        ObjectKind::Listener => {
            let params = ModifyListenerAttributes { listener_arn: name, attributes };
            session.change("modify-listener-attributes", &params, how, objects::attributes)
        }
    }
}

/// What `name` may be of: a target group comes first, a load balancer's name serves for its listener too.
fn kinds_of(session: &mut Session, name: &str) -> Result<Vec<ObjectKind>, CliError> {
    let groups = session.client.call("describe-target-groups", &DescribeTargetGroups::default())?;
    let groups = typed::<TargetGroups>(groups)?.target_groups;
    let balancers = session.client.call("describe-load-balancers", &DescribeLoadBalancers::default())?;
    let balancers = typed::<LoadBalancers>(balancers)?.load_balancers;
    let mut kinds = Vec::new();
    if groups.iter().any(|group| name == group.target_group_name || name == group.target_group_arn) {
        kinds.push(ObjectKind::TargetGroup);
    }
    if balancers.iter().any(|one| name == one.load_balancer_name || name == one.load_balancer_arn) {
        kinds.extend([ObjectKind::LoadBalancer, ObjectKind::Listener]);
    }
    if name.contains(":listener/") {
        kinds.push(ObjectKind::Listener);
    }
    if kinds.is_empty() {
        let groups = groups.iter().map(|group| group.target_group_name.as_str());
        let balancers = balancers.iter().map(|balancer| balancer.load_balancer_name.as_str());
        let meant = nearest(name, groups.chain(balancers));
        let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        let said = format!("there is no target group and no load balancer '{name}'{meant}");
        return Err(CliError::Misnamed(said));
    }
    Ok(kinds)
}

/// The first of `kinds` that has all the keys.
fn kind_of(kinds: &[ObjectKind], attributes: &[Attribute]) -> Result<ObjectKind, String> {
    let has = |kind: ObjectKind, key: &str| registry::find(kind, key).is_ok();
    let has_all = |kind: &ObjectKind| attributes.iter().all(|attribute| has(*kind, &attribute.key));
    if let Some(kind) = kinds.iter().copied().find(has_all) {
        return Ok(kind);
    }
    let unknown = |attribute: &&Attribute| !kinds.iter().any(|kind| has(*kind, &attribute.key));
    let Some(Attribute { key, .. }) = attributes.iter().find(unknown) else {
        return Err(
            "some keys are the load balancer's and some its listener's: set them one after the other"
                .to_owned(),
        );
    };
    let known = || kinds.iter().flat_map(|kind| registry::of(*kind)).map(|attribute| attribute.key);
    Err(match nearest(key, known()) {
        Some(meant) => format!("there is no attribute '{key}'; did you mean {meant}?"),
        None => {
            let known: Vec<&str> = known().collect();
            format!("there is no attribute '{key}'; there are {}", known.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ObjectKind::{Listener, LoadBalancer, TargetGroup};

    fn of(kinds: &[ObjectKind], keys: &[&str]) -> Result<ObjectKind, String> {
        let attribute = |key: &&str| Attribute { key: (*key).to_owned(), value: "1".to_owned() };
        kind_of(kinds, &keys.iter().map(attribute).collect::<Vec<_>>())
    }

    #[test]
    fn the_keys_say_whose_attributes_they_are() {
        let all = [TargetGroup, LoadBalancer, Listener];
        assert_eq!(of(&all, &["stickiness.enabled", "stickiness.type"]), Ok(TargetGroup));
        assert_eq!(of(&all, &["deletion_protection.enabled"]), Ok(LoadBalancer));
        assert_eq!(of(&all, &["tcp.idle_timeout.seconds"]), Ok(Listener));
        let said = of(&all, &["deletion_protection.enabled", "tcp.idle_timeout.seconds"]).unwrap_err();
        assert!(said.contains("one after the other"), "{said}");
    }

    #[test]
    fn an_unknown_key_names_the_nearest_of_the_object() {
        let said = of(&[LoadBalancer, Listener], &["tcp.idle_timeout.secs"]).unwrap_err();
        assert_eq!(
            said,
            "there is no attribute 'tcp.idle_timeout.secs'; did you mean tcp.idle_timeout.seconds?"
        );
        let said = of(&[LoadBalancer, Listener], &["colour"]).unwrap_err();
        assert!(said.contains("there are ") && !said.contains("stickiness"), "{said}");
    }
}
