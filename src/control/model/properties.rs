//! Random changes, among them many bad ones, against a small obvious model: whatever is asked, the
//! state stays valid, a refusal changes nothing, and what a state says survives being stored.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture;
use super::registry::{self, ATTRIBUTES, ObjectKind, Values};
use super::{
    Change, HealthCheckChange, IpAddressType, Name, Placement, Registration, State, Tags, TargetDescription,
    Weight, Zone,
};

/// A handful of addresses, so that changes meet; the last cannot be a target.
fn address() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        20 => (1..=6_u8).prop_map(|last| Ipv4Addr::new(10, 0, 0, last)),
        1 => Just(Ipv4Addr::new(224, 0, 0, 1)),
    ]
}

/// A key that most often is one of `kind`'s, and a value that most often suits it.
fn attribute(kind: ObjectKind) -> impl Strategy<Value = (String, String)> {
    let of_kind: Vec<_> = registry::of(kind).collect();
    let table = prop_oneof![20 => prop::sample::select(of_kind), 1 => prop::sample::select(ATTRIBUTES)];
    let known = table.prop_flat_map(|attribute| {
        let value = match attribute.values {
            Values::Flag => prop::sample::select(vec!["true", "false"]).prop_map(str::to_owned).boxed(),
            Values::Choice(words) => prop::sample::select(words).prop_map(str::to_owned).boxed(),
            Values::Number { min, max } | Values::NumberOrUnset { min, max } => {
                prop_oneof![Just(0), Just(min), Just(max), Just(max + 1), min..=max]
                    .prop_map(|number| number.to_string())
                    .boxed()
            }
        };
        value.prop_map(|value| (attribute.key.to_owned(), value))
    });
    prop_oneof![40 => known, 1 => ("[a-z.]{0,12}", "[a-z0-9]{0,4}")]
}

/// The failover keys are accepted only together, which single keys would seldom be.
fn attributes(kind: ObjectKind) -> impl Strategy<Value = Vec<(String, String)>> {
    let failover = prop::sample::select(vec!["rebalance", "no_rebalance"]).prop_map(|mode| {
        fixture::pairs(&[("target_failover.on_unhealthy", mode), ("target_failover.on_deregistration", mode)])
    });
    prop_oneof![4 => vec(attribute(kind), 0..4), 1 => failover]
}

fn description() -> impl Strategy<Value = TargetDescription> {
    let zone = prop::option::of(prop::option::of("[ab]"));
    (address(), zone, prop::option::of(1..=1000_u16)).prop_map(|(address, zone, weight)| {
        let zone = zone.map(|zone| zone.map(|name| Zone::try_from(name).expect("a letter")));
        TargetDescription { address, zone, weight: weight.map(|w| Weight::try_from(w).expect("in range")) }
    })
}

/// What can be tagged: by name, or the fixture's listener by its ARN.
fn resource() -> impl Strategy<Value = String> {
    let state = fixture::state();
    let listener = state.load_balancer("gw").expect("there").listener_arn().expect("a listener");
    prop::sample::select(vec!["gw".to_owned(), "fw".to_owned(), "spare".to_owned(), listener])
}

fn change() -> impl Strategy<Value = Change> {
    let group = || prop::sample::select(vec!["fw", "spare", "nowhere"]).prop_map(str::to_owned);
    let balancer = || prop::sample::select(vec!["gw", "gw", "fw"]).prop_map(str::to_owned);
    let time = || 0..4_u64;
    let name = |text: String| Name::try_from(text).expect("a name");
    prop_oneof![
        1 => balancer().prop_map(move |text| Change::CreateLoadBalancer {
            name: name(text), ip_address_type: IpAddressType::Ipv4, placement: Placement::everywhere(),
            tags: Vec::new(), now_unix_ms: 7,
        }),
        1 => balancer().prop_map(|load_balancer| Change::DeleteLoadBalancer { load_balancer }),
        2 => (balancer(), group())
            .prop_map(|(load_balancer, target_group)| Change::CreateListener { load_balancer, target_group, tags: Vec::new() }),
        1 => (balancer(), group())
            .prop_map(|(listener, target_group)| Change::ModifyListener { listener, target_group }),
        1 => balancer().prop_map(|listener| Change::DeleteListener { listener }),
        1 => group().prop_map(move |text| Change::CreateTargetGroup {
            name: name(text), health_check: HealthCheckChange::default(), vpc_id: None, tags: Vec::new(),
        }),
        1 => group().prop_map(|target_group| Change::DeleteTargetGroup { target_group }),
        1 => (balancer(), attributes(ObjectKind::LoadBalancer))
            .prop_map(|(load_balancer, attributes)| Change::ModifyLoadBalancerAttributes { load_balancer, attributes }),
        1 => (balancer(), vec("[a-c]", 0..3), any::<bool>()).prop_map(|(load_balancer, zones, dual)| Change::SetSubnets {
            load_balancer,
            placement: Placement::of_zones(zones.into_iter().map(|zone| Zone::try_from(zone).expect("a letter"))),
            ip_address_type: Some(if dual { IpAddressType::Dualstack } else { IpAddressType::Ipv4 }),
        }),
        2 => (vec(resource(), 0..3), vec(("(aws:)?[a-c]{1,2}", "[a-c]{0,2}"), 0..4))
            .prop_map(|(resources, tags)| Change::AddTags { resources, tags }),
        1 => (vec(resource(), 0..3), vec("[a-c]{1,2}", 0..3))
            .prop_map(|(resources, keys)| Change::RemoveTags { resources, keys }),
        2 => (balancer(), attributes(ObjectKind::Listener))
            .prop_map(|(listener, attributes)| Change::ModifyListenerAttributes { listener, attributes }),
        6 => (group(), attributes(ObjectKind::TargetGroup))
            .prop_map(|(target_group, attributes)| Change::ModifyTargetGroupAttributes { target_group, attributes }),
        3 => (group(), vec(description(), 0..4))
            .prop_map(|(target_group, targets)| Change::RegisterTargets { target_group, targets }),
        3 => (group(), vec(address(), 0..4), time())
            .prop_map(|(target_group, targets, now_unix_ms)| Change::DeregisterTargets { target_group, targets, now_unix_ms }),
        3 => (group(), address(), time())
            .prop_map(|(target_group, address, since_unix_ms)| Change::FinishDraining { target_group, address, since_unix_ms }),
    ]
}

/// What is known of each target by the simplest means: `Some(time)` while it drains.
type Registrations = BTreeMap<(String, Ipv4Addr), Option<u64>>;

fn registrations(state: &State) -> Registrations {
    let of_group = |group: &super::TargetGroup| {
        let name = group.name.to_string();
        let of = |(address, target): (&Ipv4Addr, &super::Target)| {
            let since = match target.registration {
                Registration::Registered => None,
                Registration::Draining { since_unix_ms } => Some(since_unix_ms),
            };
            ((name.clone(), *address), since)
        };
        group.targets.iter().map(of).collect::<Vec<_>>()
    };
    state.target_groups().flat_map(of_group).collect()
}

/// The same change as the model understands it; it is told only of accepted ones.
fn follow(model: &mut Registrations, change: &Change) {
    match change {
        Change::RegisterTargets { target_group, targets } => {
            for target in targets {
                model.insert((target_group.clone(), target.address), None);
            }
        }
        Change::DeregisterTargets { target_group, targets, now_unix_ms } => {
            for address in targets {
                if let Some(since) = model.get_mut(&(target_group.clone(), *address)) {
                    since.get_or_insert(*now_unix_ms);
                }
            }
        }
        Change::FinishDraining { target_group, address, since_unix_ms } => {
            let key = (target_group.clone(), *address);
            if model.get(&key) == Some(&Some(*since_unix_ms)) {
                model.remove(&key);
            }
        }
        Change::DeleteTargetGroup { target_group } => {
            model.retain(|(group, _), _| group != target_group);
        }
        _ => {}
    }
}

fn is_deletion(change: &Change) -> bool {
    matches!(
        change,
        Change::DeleteLoadBalancer { .. } | Change::DeleteListener { .. } | Change::DeleteTargetGroup { .. }
    )
}

/// The rules on a state, written out anew from the text of the semantics.
fn assert_valid(state: &State) {
    for group in state.target_groups() {
        let held: BTreeMap<_, _> = group
            .attributes
            .describe()
            .map(|(attribute, value)| (attribute.key, value.to_string()))
            .collect();
        let on = |key: &str| held[key] == "true";
        let rebalance = held["target_failover.on_unhealthy"] == "rebalance";
        let reset =
            on("send_tcp_reset.on_unhealthy.enabled") || on("send_tcp_reset.on_deregistration.enabled");
        assert_eq!(held["target_failover.on_unhealthy"], held["target_failover.on_deregistration"], "A-4");
        assert!(!(reset && (rebalance || on("stickiness.enabled"))), "A-5: {held:?}");
        let delay: u64 = held["deregistration_delay.timeout_seconds"].parse().expect("A-1");
        assert!(delay <= 3600, "A-1");
        let check = group.settings().health_check;
        assert!(check.timeout <= check.interval, "H-1");
        assert!(check.timeout.as_millis() >= 10, "H-2");
        assert!(group.targets.keys().all(|address| !address.is_multicast()), "O-3");
    }
    let of_groups = state.target_groups().map(|group| &group.tags);
    let of_balancers = state.load_balancers().map(|balancer| &balancer.tags);
    for (key, _) in of_groups.chain(of_balancers).flat_map(Tags::iter) {
        assert!(!key.starts_with("aws:") && !key.is_empty());
    }
    for balancer in state.load_balancers() {
        let Some(group) = state.target_group_of(balancer) else {
            assert_eq!((balancer.listener_arn(), state.listener_settings(balancer)), (None, None), "O-1");
            continue;
        };
        assert_eq!(state.load_balancer_using(&group.name), Some(balancer), "O-2");
        let idle = state.listener_settings(balancer).expect("it has a listener").tcp_idle_timeout.as_secs();
        assert!((60..=6000).contains(&idle), "A-7");
        let sticky = group
            .attributes
            .describe()
            .any(|(attribute, value)| attribute.key == "stickiness.enabled" && value.to_string() == "true");
        assert!(!sticky || idle == 350, "A-7");
    }
}

/// An export without the attributes that it gives their default.
fn meaning(state: &State) -> serde_json::Value {
    fn without_defaults(value: &mut serde_json::Value) {
        if let Some(attributes) = value.get_mut("attributes").and_then(|value| value.as_object_mut()) {
            attributes.retain(|key, value| {
                ATTRIBUTES.iter().any(|known| known.key == key && known.default.to_string() != *value)
            });
            if attributes.is_empty() {
                value.as_object_mut().expect("it has attributes").remove("attributes");
            }
        }
        match value {
            serde_json::Value::Object(members) => members.values_mut().for_each(without_defaults),
            serde_json::Value::Array(members) => members.iter_mut().for_each(without_defaults),
            _ => {}
        }
    }
    let mut export = serde_json::to_value(state.export()).expect("JSON");
    without_defaults(&mut export);
    export
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a11_random_changes_never_make_an_invalid_state_and_a_refused_one_changes_nothing(
        changes in vec(change(), 1..40)
    ) {
        let mut state = fixture::state();
        let mut model = registrations(&state);
        for change in &changes {
            let before = state.to_document();
            match state.apply(change) {
                Err(_) => prop_assert_eq!(state.to_document(), before),
                Ok((next, outcome)) => {
                    prop_assert_eq!(state.to_document(), before, "the old state was touched");
                    assert_valid(&next);
                    follow(&mut model, change);
                    prop_assert_eq!(&registrations(&next), &model);
                    let step = u64::from(outcome.is_change());
                    prop_assert_eq!(next.generation(), state.generation() + step);
                    let stored = State::from_stored(&next.to_document());
                    prop_assert_eq!(stored.as_ref(), Ok(&next));
                    // Nothing is a change that the same change would make again, but for time.
                    match next.apply(change) {
                        Ok((again, outcome)) => {
                            prop_assert!(!outcome.is_change(), "{:?}", change);
                            prop_assert_eq!(&again, &next);
                        }
                        // By its name, what is deleted is nobody from then on.
                        Err(error) => prop_assert!(is_deletion(change), "{:?}: {}", change, error),
                    }
                    state = next;
                }
            }
        }
    }

    #[test]
    fn any_whole_can_take_the_place_of_any_other_and_then_there_is_no_difference(
        here in vec(change(), 0..20), there in vec(change(), 0..20), now in 0..9_u64
    ) {
        let reached = |changes: &[Change]| changes.iter().fold(fixture::state(), |state, change| {
            state.apply(change).map_or(state, |(next, _)| next)
        });
        let (here, there) = (reached(&here), reached(&there));
        let document = serde_json::to_value(there.export()).expect("JSON");
        let change = Change::ApplyDocument { document, now_unix_ms: now };
        let Ok((next, outcome)) = here.apply(&change) else {
            // what even a whole must not do.
            let protected = here.load_balancers().any(|balancer| balancer.settings().deletion_protection);
            let idle = there.load_balancers().any(|balancer| {
                let listener = balancer.listener.as_ref();
                listener.is_some_and(|listener| {
                    let idle = listener.attributes.get(&registry::TCP_IDLE_TIMEOUT);
                    idle != registry::TCP_IDLE_TIMEOUT.default
                })
            });
            prop_assert!(protected || idle);
            return Ok(());
        };
        assert_valid(&next);
        // What a document says is what there is: an export of it is the same.
        prop_assert_eq!(meaning(&next), meaning(&there));
        // Nobody but those that a document registers comes, and nobody is dropped from a group that stays.
        for group in here.target_groups() {
            let Ok(after) = next.target_group(group.name.as_str()) else { continue };
            prop_assert!(group.targets.keys().all(|address| after.targets.contains_key(address)), "T-3");
        }
        prop_assert_eq!(outcome.is_change(), next != here);
        let (again, outcome) = next.apply(&change).expect("it is there already");
        prop_assert!(!outcome.is_change());
        prop_assert_eq!(again, next);
    }
}
