//! What each change does, rule by rule.

use super::*;
use crate::control::model::fixture::{pairs, state};
use crate::control::model::{ErrorCode, MAX_TARGETS_PER_GROUP, Target};

const NOW: u64 = 1_700_000_000_000;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THIRD: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn plain(address: Ipv4Addr) -> TargetDescription {
    TargetDescription { address, zone: None, weight: None }
}

fn register(targets: Vec<TargetDescription>) -> Change {
    Change::RegisterTargets { target_group: "fw".to_owned(), targets }
}

fn deregister(address: Ipv4Addr, now_unix_ms: u64) -> Change {
    Change::DeregisterTargets { target_group: "fw".to_owned(), targets: vec![address], now_unix_ms }
}

fn finish(address: Ipv4Addr, since_unix_ms: u64) -> Change {
    Change::FinishDraining { target_group: "fw".to_owned(), address, since_unix_ms }
}

fn group_attributes(attributes: &[(&str, &str)]) -> Change {
    let target_group = "fw".to_owned();
    Change::ModifyTargetGroupAttributes { target_group, attributes: pairs(attributes) }
}

fn listener_attributes(attributes: &[(&str, &str)]) -> Change {
    Change::ModifyListenerAttributes { listener: "gw".to_owned(), attributes: pairs(attributes) }
}

/// The state after an accepted change, and what became of the targets.
fn accept(state: &State, change: &Change) -> (State, Vec<(Ipv4Addr, TargetChange)>) {
    match state.apply(change).expect("accepted") {
        (next, Outcome::Targets { changed, .. }) => (next, changed),
        (next, _) => (next, Vec::new()),
    }
}

fn refuse(state: &State, change: &Change) -> ModelError {
    state.apply(change).expect_err("refused")
}

fn target(state: &State, address: Ipv4Addr) -> Target {
    state.target_group("fw").expect("the group").targets[&address].clone()
}

#[test]
fn a_generation_names_one_state() {
    let state = state();
    let to_its_default = group_attributes(&[("deregistration_delay.timeout_seconds", "300")]);
    let (next, outcome) = state.apply(&to_its_default).expect("accepted");
    assert!(!outcome.is_change());
    assert_eq!(next, state);
}

#[test]
fn o3_registering_an_address_twice_is_one_registration() {
    let (once, changed) = accept(&state(), &register(vec![plain(THIRD), plain(THIRD)]));
    assert_eq!(changed, [(THIRD, TargetChange::Registered)]);
    assert_eq!(once.target_group("fw").expect("the group").targets.len(), 3);
    let (twice, changed) = accept(&once, &register(vec![plain(THIRD)]));
    assert_eq!(changed, []);
    assert_eq!(twice, once, "and the generation is the same");
}

#[test]
fn o3_a_registered_target_takes_the_zone_and_weight_given_and_keeps_what_is_not() {
    let weight = Weight::try_from(7).expect("in range");
    let heavier = TargetDescription { weight: Some(weight), ..plain(FIRST) };
    let everywhere = TargetDescription { zone: Some(None), ..plain(FIRST) };
    let before = target(&state(), FIRST);
    assert!(before.zone.is_some());
    let (next, changed) = accept(&state(), &register(vec![heavier]));
    assert_eq!(changed, [(FIRST, TargetChange::Updated)]);
    assert_eq!(target(&next, FIRST), Target { weight, ..before.clone() });
    let (next, _) = accept(&next, &register(vec![everywhere]));
    assert_eq!(target(&next, FIRST), Target { weight, zone: None, ..before });
}

#[test]
fn o3_deregistering_what_is_not_registered_succeeds_and_changes_nothing() {
    let (next, changed) = accept(&state(), &deregister(THIRD, NOW));
    assert_eq!(changed, []);
    assert_eq!(next, state());
}

#[test]
fn t3_a_deregistered_target_drains_from_the_first_request_on() {
    let (draining, changed) = accept(&state(), &deregister(FIRST, NOW));
    assert_eq!(changed, [(FIRST, TargetChange::Draining)]);
    let (again, changed) = accept(&draining, &deregister(FIRST, NOW + 1000));
    assert_eq!(changed, [], "a second request does not start the clock anew");
    let drains: Vec<_> = again.drains().collect();
    assert_eq!(drains.len(), 1);
    assert_eq!((drains[0].address, drains[0].since_unix_ms), (FIRST, NOW));
    assert_eq!(drains[0].ends_unix_ms(), NOW + 300_000, "A-1");
}

#[test]
fn a1_a_delay_that_is_changed_holds_for_the_drains_under_way() {
    let (next, _) = accept(&state(), &deregister(FIRST, NOW));
    let delay = group_attributes(&[("deregistration_delay.timeout_seconds", "0")]);
    let (next, _) = accept(&next, &delay);
    assert_eq!(next.drains().next().expect("still draining").ends_unix_ms(), NOW);
}

#[test]
fn t4_the_end_of_its_drain_takes_the_target_out_of_the_group() {
    let (next, _) = accept(&state(), &deregister(FIRST, NOW));
    let (next, changed) = accept(&next, &finish(FIRST, NOW));
    assert_eq!(changed, [(FIRST, TargetChange::Removed)]);
    assert!(!next.target_group("fw").expect("the group").targets.contains_key(&FIRST));
}

#[test]
fn t7_a_draining_target_that_is_registered_again_keeps_zone_and_weight() {
    let before = target(&state(), FIRST);
    let (next, _) = accept(&state(), &deregister(FIRST, NOW));
    let (next, changed) = accept(&next, &register(vec![plain(FIRST)]));
    assert_eq!(changed, [(FIRST, TargetChange::Reregistered)]);
    assert_eq!(target(&next, FIRST), before);
    assert_eq!(next.drains().count(), 0);
}

#[test]
fn t7_the_end_of_a_drain_that_was_called_off_removes_nothing() {
    let (drained, _) = accept(&state(), &deregister(FIRST, NOW));
    let (again, _) = accept(&drained, &register(vec![plain(FIRST)]));
    let (next, changed) = accept(&again, &finish(FIRST, NOW));
    assert_eq!(changed, []);
    // Nor does it end the drain that was started after that.
    let (next, _) = accept(&next, &deregister(FIRST, NOW + 5));
    let (next, changed) = accept(&next, &finish(FIRST, NOW));
    assert_eq!(changed, []);
    assert_eq!(next.drains().count(), 1);
}

#[test]
fn a7_the_idle_timeout_cannot_be_changed_while_the_group_is_sticky() {
    let idle = |seconds| listener_attributes(&[("tcp.idle_timeout.seconds", seconds)]);
    let (set, _) = accept(&state(), &idle("600"));
    let (sticky, _) = accept(&set, &group_attributes(&[("stickiness.enabled", "true")]));
    let error = refuse(&sticky, &idle("700"));
    assert_eq!(error.code, ErrorCode::ValidationError);
    assert_eq!(
        error.message,
        "Listener attribute 'tcp.idle_timeout.seconds' cannot be changed to '700' while \
             'stickiness.enabled' is 'true' for its target group; sticky flows use '350'"
    );
    accept(&sticky, &idle("600"));
    let other = listener_attributes(&[("send_tcp_reset.on_idle_timeout.enabled", "true")]);
    let (next, _) = accept(&sticky, &other);
    let balancer = next.load_balancer("gw").expect("the balancer");
    assert_eq!(next.listener_settings(balancer).expect("a listener").tcp_idle_timeout.as_secs(), 350);
    // What was set comes back with the 5-tuple.
    let (next, _) = accept(&next, &group_attributes(&[("stickiness.enabled", "false")]));
    let balancer = next.load_balancer("gw").expect("the balancer");
    assert_eq!(next.listener_settings(balancer).expect("a listener").tcp_idle_timeout.as_secs(), 600);
}

#[test]
fn h2_a_threshold_of_1_keeps_its_milliseconds() {
    let document = r#"{ "version": 1, "target_groups": [ { "name": "fw",
        "health_check": { "unhealthy_threshold": 1 },
        "attributes": { "flowgate.health_check.interval_ms": 50, "flowgate.health_check.timeout_ms": 50 }
    } ] }"#;
    let state = State::from_document(document).expect("allowed by H-2");
    let off = [("flowgate.health_check.interval_ms", "0"), ("flowgate.health_check.timeout_ms", "0")];
    let error = refuse(&state, &group_attributes(&off));
    assert_eq!(error.path.as_deref(), Some("health_check.unhealthy_threshold"));
    accept(&state, &group_attributes(&off[..1]));
}

#[test]
fn a11_a_change_that_is_refused_at_its_last_target_registers_none() {
    let before = state();
    let error = refuse(&before, &register(vec![plain(THIRD), plain(Ipv4Addr::BROADCAST)]));
    assert_eq!(error.code, ErrorCode::InvalidTarget);
    assert_eq!(error.path.as_deref(), Some("targets[1].address"));
    assert_eq!(before, state());
}

#[test]
fn objects_are_found_by_name_and_by_arn() {
    let state = state();
    let group = state.target_group("fw").expect("by name");
    let balancer = state.load_balancer("gw").expect("by name");
    assert_eq!(state.target_group(&group.arn()), Ok(group));
    assert_eq!(state.load_balancer(&balancer.arn()), Ok(balancer));
    let listener = balancer.listener.as_ref().expect("a listener");
    for reference in ["gw", &balancer.arn(), &balancer.listener_arn().expect("a listener")] {
        assert_eq!(state.load_balancer_of_listener(reference), Ok((balancer, listener)), "{reference}");
    }
    // The same name and another id is another object.
    let foreign = group.arn().replace(&group.id.to_string(), "0123456789abcdef");
    assert!(state.target_group(&foreign).is_err());
    assert!(state.target_group(&balancer.arn()).is_err());
}

#[test]
fn an_object_that_is_not_there_is_named_in_the_refusal() {
    let attributes = || pairs(&[("stickiness.enabled", "true")]);
    let absent = || "absent".to_owned();
    let cases = [
        (
            Change::ModifyTargetGroupAttributes { target_group: absent(), attributes: attributes() },
            ErrorCode::TargetGroupNotFound,
            "Target group 'absent' not found",
        ),
        (
            Change::ModifyListenerAttributes { listener: absent(), attributes: attributes() },
            ErrorCode::ListenerNotFound,
            "Listener 'absent' not found",
        ),
        (
            Change::ModifyLoadBalancerAttributes { load_balancer: absent(), attributes: attributes() },
            ErrorCode::LoadBalancerNotFound,
            "Load balancer 'absent' not found",
        ),
        (
            Change::RegisterTargets { target_group: absent(), targets: vec![plain(THIRD)] },
            ErrorCode::TargetGroupNotFound,
            "Target group 'absent' not found",
        ),
    ];
    for (change, code, message) in cases {
        let error = refuse(&state(), &change);
        assert_eq!((error.code, error.message.as_str()), (code, message));
    }
}

#[test]
fn a_request_that_asks_for_nothing_is_refused() {
    assert_eq!(refuse(&state(), &register(Vec::new())).message, "At least one target must be given");
    let nothing = group_attributes(&[]);
    assert_eq!(refuse(&state(), &nothing).message, "At least one attribute must be given");
}

// A-11
#[test]
fn an_outcome_lists_what_is_other_than_it_was() {
    let changes =
        group_attributes(&[("stickiness.enabled", "false"), ("stickiness.type", "source_ip_dest_ip")]);
    let (next, outcome) = state().apply(&changes).expect("accepted");
    assert_eq!(
        outcome,
        Outcome::Attributes {
            kind: ObjectKind::TargetGroup,
            name: state().target_group("fw").expect("the group").name.clone(),
            changed: vec![("stickiness.type", Value::Choice("source_ip_dest_ip"))],
        }
    );
    assert_eq!(next.generation(), 1);
}

#[test]
fn o3_a_group_holds_a_thousand_targets_and_refuses_more_than_it_has_room_for() {
    let addresses = |count: usize| -> Vec<_> {
        let first = Ipv4Addr::new(10, 1, 0, 0).to_bits();
        (first..).take(count).map(|bits| plain(Ipv4Addr::from_bits(bits))).collect()
    };
    let (next, changed) = accept(&state(), &register(addresses(1000)));
    assert_eq!(changed.len(), 1000);
    assert_eq!(next.target_group("fw").expect("the group").targets.len(), 1002);
    accept(&state(), &register(addresses(MAX_TARGETS_PER_GROUP - 2)));
    let error = refuse(&state(), &register(addresses(MAX_TARGETS_PER_GROUP - 1)));
    assert_eq!(error.code, ErrorCode::TooManyTargets);
    assert_eq!(error.message, "Target group 'fw' would have 4097 targets; it can have 4096");
}

#[test]
fn a_change_to_one_group_leaves_the_others_shared() {
    let before = state();
    let (after, _) = accept(&before, &deregister(SECOND, NOW));
    let spare = |state: &State| Arc::as_ptr(&state.target_groups["spare"]);
    assert_eq!(spare(&before), spare(&after));
}
