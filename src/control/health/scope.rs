//! Which targets are this node's business, and so what the engine is to do about each (H-6): the
//! model's state in, the engine's list out. Pure; called after every accepted change, and by whoever
//! must agree with the engine about the targets in scope of a flow (F-4).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::engine::{CheckSpec, Duty, Unused};
use super::state::TargetKey;
use crate::control::model::{LoadBalancer, State, Target, Zone};

/// What of this node decides which targets it gives traffic to.
#[derive(Clone, Debug, Default)]
pub struct NodeScope {
    /// The node's zone; without one it serves every zone.
    pub zone: Option<Zone>,
    /// The addresses that the node itself sends and answers from, which cannot be targets.
    pub own_addresses: BTreeSet<Ipv4Addr>,
}

impl NodeScope {
    /// Every target of `state`, under its group's name, for [`HealthEngine::update`].
    ///
    /// [`HealthEngine::update`]: super::HealthEngine::update
    pub fn checks(&self, state: &State) -> Vec<CheckSpec> {
        let mut specs = Vec::new();
        for group in state.target_groups() {
            let load_balancer = state.load_balancer_using(&group.name);
            let name: Arc<str> = group.name.as_str().into();
            let settings = Arc::new(group.settings().health_check);
            specs.extend(group.targets.iter().map(|(&address, target)| CheckSpec {
                key: TargetKey::new(Arc::clone(&name), address),
                settings: Arc::clone(&settings),
                duty: self.duty(load_balancer, address, target),
            }));
        }
        specs
    }

    /// What is to be done about the target at `address` of a group that `load_balancer` uses. A
    /// target that drains does so wherever it is: its flows are still there.
    pub fn duty(&self, load_balancer: Option<&LoadBalancer>, address: Ipv4Addr, target: &Target) -> Duty {
        if !target.is_registered() {
            return Duty::Drain;
        }
        if self.own_addresses.contains(&address) {
            return Duty::Unused(Unused::Address);
        }
        match load_balancer {
            None => Duty::Unused(Unused::Group),
            Some(load_balancer) if self.reaches(load_balancer, target.zone.as_ref()) => Duty::Check,
            Some(_) => Duty::Unused(Unused::Zone),
        }
    }

    /// A zone must be enabled for the load balancer, also with cross-zone on; and without cross-zone
    /// it must be the node's (A-8). A target or a node without a zone is of every zone.
    fn reaches(&self, load_balancer: &LoadBalancer, target: Option<&Zone>) -> bool {
        let Some(target) = target else { return true };
        let enabled = load_balancer.placement.serves(target);
        let near = self.zone.as_ref().is_none_or(|node| node == target);
        enabled && (near || load_balancer.settings().cross_zone)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn zone(name: &str) -> Option<Zone> {
        Some(name.to_owned().try_into().unwrap())
    }

    /// A group in use with targets of zones a, b and none, and a group that nobody uses.
    fn state(load_balancer: &str) -> State {
        State::from_document(&format!(
            r#"{{ "version": 1,
            "load_balancers": [
                {{ "name": "gateway", {load_balancer} "listener": {{ "target_group": "used" }} }}
            ],
            "target_groups": [
                {{ "name": "used",
                   "health_check": {{ "protocol": "HTTP", "port": "traffic-port" }},
                   "attributes": {{ "flowgate.health_check.interval_ms": 200, "flowgate.health_check.timeout_ms": 100 }},
                   "targets": [
                    {{ "address": "10.0.0.1", "zone": "a" }},
                    {{ "address": "10.0.0.2", "zone": "b" }},
                    {{ "address": "10.0.0.3" }}
                ] }},
                {{ "name": "idle", "targets": [{{ "address": "10.0.0.9", "zone": "a" }}] }}
            ] }}"#
        ))
        .unwrap()
    }

    const CROSS_ZONE: &str = r#""attributes": { "load_balancing.cross_zone.enabled": true },"#;
    const ZONE_A_CROSS: &str =
        r#""zones": ["a"], "attributes": { "load_balancing.cross_zone.enabled": true },"#;

    // A-8
    #[test]
    fn a_target_is_checked_where_its_group_and_its_zone_are_in_use_h6() {
        use Duty::Check;
        const FAR: Duty = Duty::Unused(Unused::Zone);
        const IDLE: Duty = Duty::Unused(Unused::Group);
        // Of the idle group, then of the used one: in zone a, in zone b, of every zone.
        for (node, load_balancer, duties) in [
            (zone("a"), "", [IDLE, Check, FAR, Check]),
            (zone("b"), "", [IDLE, FAR, Check, Check]),
            (zone("c"), "", [IDLE, FAR, FAR, Check]),
            (None, "", [IDLE, Check, Check, Check]),
            (zone("a"), CROSS_ZONE, [IDLE, Check, Check, Check]),
            (zone("a"), ZONE_A_CROSS, [IDLE, Check, FAR, Check]),
            (None, ZONE_A_CROSS, [IDLE, Check, FAR, Check]),
        ] {
            let scope = NodeScope { zone: node.clone(), ..NodeScope::default() };
            let specs = scope.checks(&state(load_balancer));
            let seen: Vec<_> = specs.iter().map(|spec| spec.duty).collect();
            assert_eq!(seen, duties, "node {node:?}, {load_balancer:?}");
        }
    }

    #[test]
    fn an_address_of_the_nodes_own_cannot_be_a_target_h5() {
        let own = Ipv4Addr::new(10, 0, 0, 1);
        let scope = NodeScope { zone: None, own_addresses: [own].into() };
        let specs = scope.checks(&state(""));
        let refused: Vec<_> =
            specs.iter().filter(|spec| spec.duty == Duty::Unused(Unused::Address)).collect();
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].key, TargetKey::new("used", own));
    }

    #[test]
    fn a_target_that_drains_is_not_checked_wherever_it_is_t3() {
        let state = state("");
        let group = state.target_group("used").unwrap();
        let load_balancer = state.load_balancer("gateway").unwrap();
        let scope = NodeScope { zone: zone("c"), ..NodeScope::default() };
        let (&address, target) = group.targets.first_key_value().unwrap();
        let mut target = target.clone();
        target.registration = crate::control::model::Registration::Draining { since_unix_ms: 1 };
        for load_balancer in [Some(load_balancer), None] {
            assert_eq!(scope.duty(load_balancer, address, &target), Duty::Drain);
        }
    }

    #[test]
    fn the_settings_are_those_of_the_group_with_its_milliseconds_h2() {
        let specs = NodeScope::default().checks(&state(""));
        let of = |group: &str| &specs.iter().find(|spec| &*spec.key.group == group).unwrap().settings;
        let used = of("used");
        assert_eq!(
            (used.port, used.interval, used.timeout),
            (6081, Duration::from_millis(200), Duration::from_millis(100))
        );
        assert_eq!((of("idle").port, of("idle").interval), (80, Duration::from_secs(10)));
    }
}
