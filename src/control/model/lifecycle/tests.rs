//! How objects come and go, rule by rule.

use super::*;
use crate::control::model::Change;
use crate::control::model::fixture::{pairs, state};

fn name(text: &str) -> Name {
    text.to_owned().try_into().expect("a name")
}

fn balancer(text: &str) -> Change {
    Change::CreateLoadBalancer {
        name: name(text),
        ip_address_type: IpAddressType::Ipv4,
        placement: Placement::everywhere(),
        tags: Vec::new(),
        now_unix_ms: 1_700_000_000_000,
    }
}

fn listener(load_balancer: &str, target_group: &str) -> Change {
    let (load_balancer, target_group) = (load_balancer.to_owned(), target_group.to_owned());
    Change::CreateListener { load_balancer, target_group, tags: Vec::new() }
}

fn group(text: &str, protocol: &str) -> Change {
    let health_check =
        HealthCheckChange { protocol: Some(protocol.to_owned()), ..HealthCheckChange::default() };
    Change::CreateTargetGroup { name: name(text), health_check, vpc_id: None, tags: Vec::new() }
}

fn delete_balancer(reference: &str) -> Change {
    Change::DeleteLoadBalancer { load_balancer: reference.to_owned() }
}

fn delete_group(reference: &str) -> Change {
    Change::DeleteTargetGroup { target_group: reference.to_owned() }
}

fn protect(flag: &str) -> Change {
    Change::ModifyLoadBalancerAttributes {
        load_balancer: "gw".to_owned(),
        attributes: pairs(&[("deletion_protection.enabled", flag)]),
    }
}

/// The state after an accepted change, and what became of the object.
fn accept(state: &State, change: &Change) -> (State, Option<ObjectChange>) {
    match state.apply(change).expect("accepted") {
        (next, Outcome::Object { change, .. }) => (next, Some(change)),
        (next, _) => (next, None),
    }
}

fn refuse(state: &State, change: &Change) -> (ErrorCode, String) {
    let error = state.apply(change).expect_err("refused");
    (error.code, error.message)
}

#[test]
fn o1_a_load_balancer_is_created_without_a_listener_and_given_one() {
    let (next, change) = accept(&state(), &balancer("second"));
    assert_eq!((change, next.generation()), (Some(ObjectChange::Created), 1));
    let created = next.load_balancer("second").expect("there");
    assert!(created.listener.is_none() && created.listener_arn().is_none());
    assert_eq!(next.target_group_of(created), None);
    assert_eq!(next.listener_settings(created), None);
    assert_eq!(next.load_balancer_of_listener("second").expect_err("none").code, ErrorCode::ListenerNotFound);
    assert_eq!(State::from_stored(&next.to_document()), Ok(next.clone()), "it survives being stored");

    let (next, change) = accept(&next, &listener("second", "spare"));
    assert_eq!(change, Some(ObjectChange::Created));
    let (balancer, listener) = next.load_balancer_of_listener("second").expect("there");
    assert_eq!(listener.target_group.as_str(), "spare");
    assert_eq!(next.load_balancer_using(&name("spare")), Some(balancer));
    assert_eq!(State::from_stored(&next.to_document()), Ok(next.clone()));
}

#[test]
fn what_an_object_is_created_with_is_kept_and_is_part_of_what_was_asked_for() {
    let zone = |name: &str| name.to_owned().try_into().expect("a zone");
    let subnet = |id: &str, name: &str| (id.to_owned().try_into().expect("an id"), Some(zone(name)));
    let subnets = |given| Placement::of_subnets(given).expect("allowed");
    let create = |places: &Placement, tags: &[(&str, &str)], now_unix_ms| Change::CreateLoadBalancer {
        name: name("second"),
        ip_address_type: IpAddressType::Ipv4,
        placement: places.clone(),
        tags: pairs(tags),
        now_unix_ms,
    };
    let places = subnets(vec![subnet("subnet-2", "b"), subnet("subnet-1", "a")]);
    let (next, _) = accept(&state(), &create(&places, &[("k", "v")], 5));
    let created = next.load_balancer("second").expect("there");
    assert_eq!((created.created_unix_ms, &created.placement), (Some(5), &places));
    assert_eq!(created.tags.iter().collect::<Vec<_>>(), [("k", "v")]);
    let (same, change) = accept(&next, &create(&places, &[("k", "v")], 6));
    assert_eq!((change, &same), (Some(ObjectChange::Unchanged), &next), "later is no other setting");
    for other in [create(&Placement::everywhere(), &[("k", "v")], 5), create(&places, &[("k", "w")], 5)] {
        assert_eq!(refuse(&next, &other).0, ErrorCode::DuplicateLoadBalancerName);
    }

    let group = |vpc_id: Option<&str>, tags| Change::CreateTargetGroup {
        name: name("web"),
        health_check: HealthCheckChange::default(),
        vpc_id: vpc_id.map(|id| id.to_owned().try_into().expect("an id")),
        tags: pairs(tags),
    };
    let (next, _) = accept(&next, &group(Some("vpc-1"), &[("k", "v")]));
    let created = next.target_group("web").expect("there");
    assert_eq!(created.vpc_id.as_ref().map(ForeignId::as_str), Some("vpc-1"));
    assert_eq!(accept(&next, &group(Some("vpc-1"), &[("k", "v")])).1, Some(ObjectChange::Unchanged));
    for other in [group(None, &[("k", "v")]), group(Some("vpc-1"), &[])] {
        assert_eq!(refuse(&next, &other).0, ErrorCode::DuplicateTargetGroupName);
    }

    let listener = |tags| Change::CreateListener {
        load_balancer: "second".to_owned(),
        target_group: "web".to_owned(),
        tags: pairs(tags),
    };
    let (next, _) = accept(&next, &listener(&[("k", "v")]));
    assert_eq!(accept(&next, &listener(&[("k", "v")])).1, Some(ObjectChange::Unchanged));
    assert_eq!(refuse(&next, &listener(&[])).0, ErrorCode::TooManyListeners);
    assert_eq!(State::from_stored(&next.to_document()), Ok(next));
}

#[test]
fn bad_tags_create_nothing() {
    let twice = pairs(&[("k", "1"), ("k", "2")]);
    let (lb, tg) = (name("second"), name("web"));
    for change in [
        Change::CreateLoadBalancer {
            name: lb,
            ip_address_type: IpAddressType::Ipv4,
            placement: Placement::everywhere(),
            tags: twice.clone(),
            now_unix_ms: 0,
        },
        Change::CreateTargetGroup {
            name: tg,
            health_check: HealthCheckChange::default(),
            vpc_id: None,
            tags: twice.clone(),
        },
        Change::CreateListener { load_balancer: "gw".to_owned(), target_group: "fw".to_owned(), tags: twice },
    ] {
        assert_eq!(refuse(&state(), &change).0, ErrorCode::DuplicateTagKeys, "{change:?}");
    }
}

// O-2
#[test]
fn a_new_name_does_not_begin_or_end_with_a_hyphen_nor_as_awss_own_do() {
    for text in ["-gw", "gw-", "-"] {
        for change in [balancer(text), group(text, "TCP")] {
            let error = state().apply(&change).expect_err(text);
            assert_eq!((error.code, error.path.as_deref()), (ErrorCode::ValidationError, Some("name")));
        }
    }
    assert_eq!(refuse(&state(), &balancer("internal-gw")).0, ErrorCode::ValidationError);
    accept(&state(), &group("internal-gw", "TCP"));
    accept(&state(), &balancer("g-w"));
}

// O-1
#[test]
fn zones_and_the_type_of_addresses_can_be_changed() {
    let zones = |names: &[&str]| {
        Placement::of_zones(names.iter().map(|name| (*name).to_owned().try_into().expect("a zone")))
    };
    let set = |placement: Placement, ip_address_type| Change::SetSubnets {
        load_balancer: "gw".to_owned(),
        placement,
        ip_address_type,
    };
    let (next, change) = accept(&state(), &set(zones(&["a"]), None));
    assert_eq!((change, next.generation()), (Some(ObjectChange::Modified), 1));
    let (same, change) = accept(&next, &set(zones(&["a"]), Some(IpAddressType::Ipv4)));
    assert_eq!((change, &same), (Some(ObjectChange::Unchanged), &next));
    let (next, _) = accept(&next, &set(zones(&["b"]), Some(IpAddressType::Dualstack)));
    let balancer = next.load_balancer("gw").expect("there");
    assert_eq!((&balancer.placement, balancer.ip_address_type), (&zones(&["b"]), IpAddressType::Dualstack));
    assert_eq!(balancer.listener, state().load_balancer("gw").expect("there").listener, "nothing else");

    let ip = |to| Change::SetIpAddressType { load_balancer: "gw".to_owned(), ip_address_type: to };
    assert_eq!(accept(&next, &ip(IpAddressType::Dualstack)).1, Some(ObjectChange::Unchanged));
    let (next, change) = accept(&next, &ip(IpAddressType::Ipv4));
    assert_eq!(change, Some(ObjectChange::Modified));
    assert_eq!(next.load_balancer("gw").expect("there").ip_address_type, IpAddressType::Ipv4);
    let nobody =
        Change::SetIpAddressType { load_balancer: "nobody".to_owned(), ip_address_type: IpAddressType::Ipv4 };
    assert_eq!(refuse(&next, &nobody).0, ErrorCode::LoadBalancerNotFound);
}

#[test]
fn what_is_there_as_asked_for_is_no_change_and_otherwise_a_duplicate() {
    let (next, _) = accept(&state(), &balancer("second"));
    let (next, _) = accept(&next, &group("web", "HTTPS"));
    let (next, _) = accept(&next, &listener("second", "web"));
    for again in [balancer("second"), group("web", "HTTPS"), listener("second", "web")] {
        let (same, change) = accept(&next, &again);
        assert_eq!((change, &same), (Some(ObjectChange::Unchanged), &next), "{again:?}");
    }
    let dualstack = Change::CreateLoadBalancer {
        name: name("second"),
        ip_address_type: IpAddressType::Dualstack,
        placement: Placement::everywhere(),
        tags: Vec::new(),
        now_unix_ms: 1_700_000_000_000,
    };
    assert_eq!(
        refuse(&next, &dualstack),
        (
            ErrorCode::DuplicateLoadBalancerName,
            "A load balancer with the same name 'second' exists, but with different settings".to_owned()
        )
    );
    assert_eq!(
        refuse(&next, &group("web", "TCP")),
        (
            ErrorCode::DuplicateTargetGroupName,
            "A target group with the same name 'web' exists, but with different settings".to_owned()
        )
    );
}

#[test]
fn o1_o2_there_is_one_listener_and_a_group_serves_one_load_balancer() {
    assert_eq!(
        refuse(&state(), &listener("gw", "spare")),
        (ErrorCode::TooManyListeners, "Load balancer 'gw' has a listener already; it can have 1".to_owned())
    );
    let (next, _) = accept(&state(), &balancer("second"));
    let expected = (
        ErrorCode::TargetGroupAssociationLimit,
        "the target group 'fw' is used by the load balancer 'gw' already".to_owned(),
    );
    assert_eq!(refuse(&next, &listener("second", "fw")), expected);
    let (next, _) = accept(&next, &listener("second", "spare"));
    let to_fw = Change::ModifyListener { listener: "second".to_owned(), target_group: "fw".to_owned() };
    assert_eq!(refuse(&next, &to_fw), expected);
    // What it forwards to already is no other's, and no change.
    let to_spare = Change::ModifyListener { listener: "second".to_owned(), target_group: "spare".to_owned() };
    assert_eq!(accept(&next, &to_spare).1, Some(ObjectChange::Unchanged));
    let (next, _) = accept(&next, &group("third", "TCP"));
    let to_third = Change::ModifyListener { listener: "second".to_owned(), target_group: "third".to_owned() };
    let (next, change) = accept(&next, &to_third);
    assert_eq!(change, Some(ObjectChange::Modified));
    assert_eq!(next.load_balancer_using(&name("spare")), None);
    let absent = listener("second", "absent");
    let error = next.apply(&absent).expect_err("no such group");
    assert_eq!((error.code, error.path.as_deref()), (ErrorCode::TargetGroupNotFound, Some("target_group")));
}

#[test]
fn a7_a_listener_that_comes_to_a_sticky_group_idles_out_after_350_s_and_keeps_what_was_set() {
    let idle = Change::ModifyListenerAttributes {
        listener: "gw".to_owned(),
        attributes: pairs(&[("tcp.idle_timeout.seconds", "600")]),
    };
    let sticky = Change::ModifyTargetGroupAttributes {
        target_group: "spare".to_owned(),
        attributes: pairs(&[("stickiness.enabled", "true")]),
    };
    let (next, _) = accept(&state(), &idle);
    let (next, _) = accept(&next, &sticky);
    let forward = |target_group: &str| {
        let (listener, target_group) = ("gw".to_owned(), target_group.to_owned());
        Change::ModifyListener { listener, target_group }
    };
    let idle_of = |state: &State| {
        let balancer = state.load_balancer("gw").expect("there");
        state.listener_settings(balancer).expect("it has a listener").tcp_idle_timeout.as_secs()
    };
    let (next, _) = accept(&next, &forward("spare"));
    assert_eq!(idle_of(&next), 350);
    let (next, _) = accept(&next, &forward("fw"));
    assert_eq!(idle_of(&next), 600);
}

#[test]
fn a9_a_protected_load_balancer_is_not_deleted_until_it_is_protected_no_more() {
    let (protected, _) = accept(&state(), &protect("true"));
    let arn = protected.load_balancer("gw").expect("there").arn();
    for reference in ["gw", &arn] {
        let (code, message) = refuse(&protected, &delete_balancer(reference));
        assert_eq!(code, ErrorCode::OperationNotPermitted);
        assert_eq!(
            message,
            format!("Load balancer '{arn}' cannot be deleted because deletion protection is enabled")
        );
    }
    let (free, _) = accept(&protected, &protect("false"));
    let (next, change) = accept(&free, &delete_balancer(&arn));
    assert_eq!(change, Some(ObjectChange::Deleted));
    assert!(next.load_balancer("gw").is_err());
    // Its listener went with it, and the group is free for another.
    assert_eq!(next.load_balancer_using(&name("fw")), None);
    let (next, _) = accept(&next, &balancer("other"));
    accept(&next, &listener("other", "fw"));
    // A-9 is of the load balancer: its listener may go.
    accept(&protected, &Change::DeleteListener { listener: "gw".to_owned() });
}

#[test]
fn a_group_that_a_listener_uses_is_not_deleted_until_none_does() {
    let arn = state().target_group("fw").expect("there").arn();
    assert_eq!(
        refuse(&state(), &delete_group("fw")),
        (
            ErrorCode::ResourceInUse,
            format!("Target group '{arn}' is currently in use by a listener or a rule")
        )
    );
    let drain = Change::DeregisterTargets {
        target_group: "fw".to_owned(),
        targets: vec![[10, 0, 0, 1].into()],
        now_unix_ms: 1,
    };
    let (next, _) = accept(&state(), &drain);
    let (next, _) = accept(&next, &Change::DeleteListener { listener: "gw".to_owned() });
    let (next, change) = accept(&next, &delete_group(&arn));
    assert_eq!(change, Some(ObjectChange::Deleted));
    assert_eq!(next.drains().count(), 0);
    assert!(next.load_balancer("gw").is_ok());
}

#[test]
fn what_is_gone_is_deleted_again_by_its_arn_and_a_name_of_nobody_is_refused() {
    let balancer_arn = state().load_balancer("gw").expect("there").arn();
    let group_arn = state().target_group("spare").expect("there").arn();
    let (next, _) = accept(&state(), &delete_balancer("gw"));
    let (next, _) = accept(&next, &delete_group("spare"));
    for again in [delete_balancer(&balancer_arn), delete_group(&group_arn)] {
        let (same, change) = accept(&next, &again);
        assert_eq!((change, &same), (Some(ObjectChange::Unchanged), &next));
    }
    assert_eq!(refuse(&next, &delete_balancer("gw")).0, ErrorCode::LoadBalancerNotFound);
    assert_eq!(refuse(&next, &delete_group("spare")).0, ErrorCode::TargetGroupNotFound);
    let no_listener = Change::DeleteListener { listener: "gw".to_owned() };
    assert_eq!(refuse(&next, &no_listener).0, ErrorCode::ListenerNotFound);
}

#[test]
fn o5_an_object_made_again_under_an_old_name_is_not_the_one_before() {
    let (before, _) = accept(&state(), &balancer("second"));
    let old = before.load_balancer("second").expect("there").arn();
    let (gone, _) = accept(&before, &delete_balancer("second"));
    let (again, _) = accept(&gone, &balancer("second"));
    assert_ne!(again.load_balancer("second").expect("there").arn(), old);
    assert!(again.load_balancer(&old).is_err());
}

#[test]
fn h1_a_changed_check_keeps_what_is_not_given_and_is_refused_as_a_whole() {
    let change = |health_check| Change::ModifyTargetGroup { target_group: "fw".to_owned(), health_check };
    let https = HealthCheckChange {
        protocol: Some("HTTPS".to_owned()),
        path: Some("/up".to_owned()),
        port: Some("8443".to_owned()),
        ..HealthCheckChange::default()
    };
    let (next, changed) = accept(&state(), &change(https.clone()));
    assert_eq!(changed, Some(ObjectChange::Modified));
    let check = next.target_group("fw").expect("there").settings().health_check;
    assert_eq!((check.probe.protocol(), check.port, check.interval.as_secs()), ("HTTPS", 8443, 10));
    assert_eq!(accept(&next, &change(https)).1, Some(ObjectChange::Unchanged));
    let bad = HealthCheckChange {
        port: Some("1".to_owned()),
        interval_seconds: Some(4),
        ..HealthCheckChange::default()
    };
    let error = next.apply(&change(bad)).expect_err("refused");
    assert_eq!(error.path.as_deref(), Some("health_check.interval_seconds"));
    // H-1: a timeout above the interval, of which only one is given.
    let slow = HealthCheckChange { timeout_seconds: Some(11), ..HealthCheckChange::default() };
    assert_eq!(
        refuse(&next, &change(slow)).1,
        "Health check timeout '11' must be smaller than or equal to the interval '10'"
    );
}

#[test]
fn o1_a_node_has_no_more_load_balancers_than_workers_can_count_by() {
    let mut full = state();
    for n in 1..MAX_LOAD_BALANCERS {
        full = accept(&full, &balancer(&format!("gw-{n}"))).0;
    }
    let (code, message) = refuse(&full, &balancer("more"));
    assert_eq!(code, ErrorCode::TooManyLoadBalancers);
    assert_eq!(message, "This node has 256 load balancers already, and can have no more");
    let (less, _) = accept(&full, &delete_balancer("gw-1"));
    accept(&less, &balancer("more"));
}

#[test]
fn o2_a_node_has_3000_target_groups_and_no_more() {
    let mut full = state();
    for n in 2..MAX_TARGET_GROUPS {
        full = accept(&full, &group(&format!("fw-{n}"), "TCP")).0;
    }
    assert_eq!(full.target_groups().count(), 3000);
    assert_eq!(refuse(&full, &group("more", "TCP")).0, ErrorCode::TooManyTargetGroups);
}
