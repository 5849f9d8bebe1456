//! What becomes of the objects when a whole document takes their place.

use serde_json::{Value, json};

use super::*;
use crate::control::model::fixture::{DOCUMENT, pairs, state};
use crate::control::model::{Change, MAX_TARGET_GROUPS, TargetChange};

const NOW: u64 = 1_700_000_000_000;
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const THIRD: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn apply(state: &State, document: Value) -> Result<(State, Outcome), ModelError> {
    state.apply(&Change::ApplyDocument { document, now_unix_ms: NOW })
}

fn accept(state: &State, document: Value) -> (State, Vec<String>) {
    let (next, outcome) = apply(state, document).expect("accepted");
    let Outcome::Whole { differences } = outcome else { panic!("{outcome:?} is no whole") };
    assert_eq!(next.generation(), state.generation() + u64::from(!differences.is_empty()));
    assert_eq!(State::from_stored(&next.to_document()).expect("it can be stored"), next);
    (next, differences.iter().map(ToString::to_string).collect())
}

fn refuse(state: &State, document: Value) -> (ErrorCode, Option<String>, String) {
    let error = apply(state, document).expect_err("refused");
    (error.code, error.path, error.message)
}

/// The fixture with the value at `pointer` replaced, or put there.
fn edited(state: &State, pointer: &str, value: Value) -> Value {
    let mut document = exported(state);
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    match document.pointer_mut(parent).expect("the parent") {
        Value::Object(object) => drop(object.insert(key.to_owned(), value)),
        Value::Array(array) => array.push(value),
        other => panic!("{other} has no parts"),
    }
    document
}

fn exported(state: &State) -> Value {
    serde_json::to_value(state.export()).expect("JSON")
}

fn targets(state: &State) -> Vec<(Ipv4Addr, Registration)> {
    let group = state.target_group("fw").expect("the group");
    group.targets.iter().map(|(address, target)| (*address, target.registration)).collect()
}

fn changed(state: &State, change: Change) -> State {
    state.apply(&change).expect("accepted").0
}

fn group_attributes(attributes: &[(&str, &str)]) -> Change {
    Change::ModifyTargetGroupAttributes { target_group: "fw".to_owned(), attributes: pairs(attributes) }
}

const DRAINS: Registration = Registration::Draining { since_unix_ms: NOW };
const DRAINED_BEFORE: Registration = Registration::Draining { since_unix_ms: 5 };

/// The fixture's state with its first target draining since 5.
fn draining() -> State {
    let change =
        Change::DeregisterTargets { target_group: "fw".to_owned(), targets: vec![FIRST], now_unix_ms: 5 };
    changed(&state(), change)
}

#[test]
fn what_is_exported_is_no_change_and_neither_is_the_document_that_seeded() {
    let (next, told) = accept(&state(), exported(&state()));
    assert_eq!((next, told), (state(), Vec::new()));
    let seed: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    assert_eq!(accept(&state(), seed.clone()).1, [""; 0]);
    // Ids that a document leaves out are those that there are, also if they are of a later creation.
    let again = changed(&state(), Change::DeleteTargetGroup { target_group: "spare".to_owned() });
    let again = accept(&again, seed.clone()).0;
    let (spare, first) = (again.target_group("spare").expect("new").arn(), state());
    assert_ne!(spare, first.target_group("spare").expect("there").arn(), "O-5");
    assert_eq!(accept(&again, seed).1, [""; 0]);
}

#[test]
fn an_export_says_what_is_wanted_and_not_what_is_under_way() {
    let text = serde_json::to_string(&draining().export()).expect("JSON");
    assert!(!text.contains("generation") && !text.contains("draining"), "{text}");
    assert!(text.starts_with(r#"{"version":1,"load_balancers":[{"name":"gw","id":""#), "{text}");
    let seeded = State::from_document(&text).expect("it is a seed too");
    assert_eq!(
        seeded.load_balancer("gw").expect("there").arn(),
        state().load_balancer("gw").expect("there").arn()
    );
    let (next, told) = accept(&draining(), exported(&draining()));
    assert_eq!((targets(&next), told.len()), (targets(&draining()), 0), "the drain goes on");
}

// O-2
#[test]
fn what_a_document_creates_is_named_as_single_changes_may_name_it() {
    let named = |list: &str, name: &str| edited(&state(), &format!("/{list}/-"), json!({ "name": name }));
    for (list, name, fault) in [
        ("load_balancers", "-gw", "Load balancer name '-gw' cannot begin or end with a hyphen"),
        ("load_balancers", "internal-gw", "Load balancer name 'internal-gw' cannot begin with 'internal-'"),
        ("target_groups", "fw-", "Target group name 'fw-' cannot begin or end with a hyphen"),
    ] {
        let (code, path, message) = refuse(&state(), named(list, name));
        assert_eq!((code, message.as_str()), (ErrorCode::ValidationError, fault));
        let place = exported(&state())[list].as_array().expect("a list").len();
        assert_eq!(path, Some(format!("{list}[{place}].name")));
        let seed = json!({ "version": 1, list: [{ "name": name }] });
        let refused = State::from_document(&seed.to_string()).expect_err("nor may a seed");
        assert_eq!(refused.to_string(), format!("{list}[0].name: {fault}"));
    }
    accept(&state(), named("target_groups", "internal-fw"));
    // What an older version stored stays, and can be exported and applied.
    let old =
        State::from_stored(r#"{ "version": 1, "generation": 3, "target_groups": [{ "name": "fw-" }] }"#);
    let old = old.expect("it was a name once");
    assert_eq!(accept(&old, exported(&old)).1, [""; 0]);
}

#[test]
fn a_document_has_no_more_target_groups_than_single_changes_may_make() {
    let groups = |count| -> Value { (0..count).map(|n| json!({ "name": format!("fw-{n}") })).collect() };
    let of = |count| json!({ "version": 1, "target_groups": groups(count) });
    let (code, path, _) = refuse(&state(), of(MAX_TARGET_GROUPS + 1));
    assert_eq!((code, path.as_deref()), (ErrorCode::TooManyTargetGroups, Some("target_groups[3000]")));
    let unprotected = Change::DeleteLoadBalancer { load_balancer: "gw".to_owned() };
    accept(&changed(&state(), unprotected), of(MAX_TARGET_GROUPS));
}

// T-3, T-7
#[test]
fn a_target_that_is_left_out_drains_and_one_that_comes_back_is_registered_again() {
    let only_third = json!([{ "address": "10.0.0.3" }]);
    let (next, told) = accept(&draining(), edited(&draining(), "/target_groups/0/targets", only_third));
    let registered = Registration::Registered;
    assert_eq!(targets(&next), [(FIRST, DRAINED_BEFORE), (SECOND, DRAINS), (THIRD, registered)]);
    assert_eq!(
        told,
        [
            "Target group 'fw': target 10.0.0.2 is deregistered and drains",
            "Target group 'fw': target 10.0.0.3 is registered"
        ]
    );
    let (_, outcome) = next
        .apply(&Change::ApplyDocument { document: exported(&state()), now_unix_ms: NOW + 1 })
        .expect("accepted");
    let became: Vec<_> = outcome.targets().map(|(_, address, change)| (address, change)).collect();
    assert_eq!(
        became,
        [
            (FIRST, TargetChange::Reregistered),
            (SECOND, TargetChange::Reregistered),
            (THIRD, TargetChange::Draining)
        ]
    );
}

#[test]
fn a_target_that_a_document_calls_draining_is_one_that_it_leaves_out() {
    let list = json!([
        { "address": "10.0.0.1", "draining_since_unix_ms": 99 },
        { "address": "10.0.0.2", "draining_since_unix_ms": 99 },
        { "address": "10.0.0.3", "draining_since_unix_ms": 99 }
    ]);
    let next = accept(&draining(), edited(&draining(), "/target_groups/0/targets", list)).0;
    assert_eq!(targets(&next), [(FIRST, DRAINED_BEFORE), (SECOND, DRAINS)]);
}

#[test]
fn a11_a_fault_anywhere_and_nothing_is_changed() {
    let bad = edited(&state(), "/target_groups/1/health_check/interval_seconds", json!(1));
    let mut bad = bad;
    bad["target_groups"][0]["targets"] = json!([]);
    let (code, path, _) = refuse(&state(), bad);
    assert_eq!(code, ErrorCode::ValidationError);
    assert_eq!(path.as_deref(), Some("target_groups[1].health_check.interval_seconds"));
    let (_, path, message) = refuse(&state(), json!({ "version": 2, "newer": [] }));
    assert_eq!(path.as_deref(), Some("version"), "the version before what the newer one has");
    assert_eq!(message, "version 2 of the format is not known here, only 1");
    let (_, path, message) = refuse(&state(), edited(&state(), "/load_balancers/0/listner", json!({})));
    assert_eq!(path.as_deref(), Some("load_balancers[0].listner"));
    assert!(message.starts_with("unknown field `listner`"), "{message}");
}

// A-9
#[test]
fn a_protected_load_balancer_is_neither_left_out_nor_replaced() {
    let attributes = pairs(&[("deletion_protection.enabled", "true")]);
    let load_balancer = "gw".to_owned();
    let protected = changed(&state(), Change::ModifyLoadBalancerAttributes { load_balancer, attributes });
    let arn = protected.load_balancer("gw").expect("there").arn();
    let expected = (
        ErrorCode::OperationNotPermitted,
        Some("load_balancers".to_owned()),
        format!("Load balancer '{arn}' cannot be deleted because deletion protection is enabled"),
    );
    assert_eq!(refuse(&protected, edited(&protected, "/load_balancers", json!([]))), expected);
    let replaced = edited(&protected, "/load_balancers/0/id", json!("00000000000000ff"));
    assert_eq!(refuse(&protected, replaced), expected);
    // Nor does the document that would take the protection away as well.
    assert_eq!(refuse(&protected, json!({ "version": 1 })), expected);
    let free = accept(&protected, edited(&protected, "/load_balancers/0/attributes", json!({}))).0;
    assert_eq!(accept(&free, json!({ "version": 1 })).1.len(), 3);
}

// A-7
#[test]
fn an_idle_timeout_that_stickiness_met_stays_and_does_not_change() {
    let listener = "gw".to_owned();
    let idle = pairs(&[("tcp.idle_timeout.seconds", "500")]);
    let before = changed(&state(), Change::ModifyListenerAttributes { listener, attributes: idle });
    let sticky = changed(&before, group_attributes(&[("stickiness.enabled", "true")]));
    assert_eq!(accept(&sticky, exported(&sticky)).1, [""; 0]);
    let pointer = "/load_balancers/0/listener/attributes";
    let other = edited(&sticky, pointer, json!({ "tcp.idle_timeout.seconds": "501" }));
    let (code, path, message) = refuse(&sticky, other);
    assert_eq!(code, ErrorCode::ValidationError);
    assert_eq!(path.as_deref(), Some("load_balancers[0].listener.attributes"));
    assert!(message.contains("cannot be changed to '501' while 'stickiness.enabled' is 'true'"), "{message}");
    let default = accept(&sticky, edited(&sticky, pointer, json!({}))).1;
    assert_eq!(default.len(), 1, "back to what sticky flows go by anyway");
    // What held once can be gone back to.
    let plain = changed(&sticky, group_attributes(&[("stickiness.enabled", "false")]));
    let restore = Change::Restore { state: Box::new(sticky.clone()), now_unix_ms: NOW };
    let (restored, _) = plain.apply(&restore).expect("accepted");
    assert_eq!(difference(&restored, &sticky), []);
}

#[test]
fn a4_a5_a_document_cannot_bring_what_a_change_cannot() {
    let group = |attributes: Value| edited(&state(), "/target_groups/0/attributes", attributes);
    let at = Some("target_groups[0].attributes".to_owned());
    let (code, path, message) =
        refuse(&state(), group(json!({ "target_failover.on_unhealthy": "rebalance" })));
    assert_eq!((code, path), (ErrorCode::ValidationError, at.clone()));
    assert!(message.contains("must both be set to the same value"), "{message}");
    let both = json!({ "send_tcp_reset.on_unhealthy.enabled": true, "stickiness.enabled": true });
    let (code, path, message) = refuse(&state(), group(both));
    assert_eq!((code, path), (ErrorCode::ValidationError, at));
    assert!(message.ends_with("cannot be 'true' while 'stickiness.enabled' is 'true'"), "{message}");
    // One that was stored long ago stays, and stands in nobody's way.
    let entries = pairs(&[("send_tcp_reset.on_unhealthy.enabled", "true"), ("stickiness.enabled", "true")]);
    let mut old = state();
    let name = Name::try_from("fw".to_owned()).expect("a name");
    let attributes = AttributeSet::stored(ObjectKind::TargetGroup, &entries).expect("read as it is");
    let group = TargetGroup { attributes, ..(*old.target_groups[&name]).clone() };
    old.target_groups.insert(name, Arc::new(group));
    let (next, told) = accept(
        &old,
        edited(&old, "/target_groups/0/attributes/deregistration_delay.timeout_seconds", json!(7)),
    );
    assert_eq!(told.len(), 1, "{told:?}");
    // A default that is written out is no difference, and so no fault either.
    let written = json!({ "target_failover.on_unhealthy": "no_rebalance" });
    assert!(accept(&next, edited(&state(), "/target_groups/0/attributes", written)).1.len() > 1);
}

#[test]
fn o2_two_load_balancers_may_swap_their_groups_at_once() {
    let two = edited(
        &state(),
        "/load_balancers/-",
        json!({ "name": "other", "listener": { "target_group": "spare" } }),
    );
    let both = accept(&state(), two).0;
    let mut swapped = exported(&both);
    swapped["load_balancers"][0]["listener"]["target_group"] = json!("spare");
    swapped["load_balancers"][1]["listener"]["target_group"] = json!("fw");
    assert_eq!(
        accept(&both, swapped).1,
        [
            "Listener of load balancer 'gw': 'target_group' changes from 'fw' to 'spare'",
            "Listener of load balancer 'other': 'target_group' changes from 'spare' to 'fw'"
        ]
    );
}

#[test]
fn o3_those_that_drain_count_among_a_groups_targets() {
    use crate::control::model::MAX_TARGETS_PER_GROUP;
    let list = |first: u32| {
        let many = (first..)
            .take(MAX_TARGETS_PER_GROUP)
            .map(|n| json!({ "address": Ipv4Addr::from(0x0a00_0000 + n) }));
        Value::Array(many.collect())
    };
    let full = accept(
        &State::default(),
        json!({ "version": 1, "target_groups": [{ "name": "g", "targets": list(1) }] }),
    )
    .0;
    let (code, path, message) = refuse(&full, edited(&full, "/target_groups/0/targets", list(2)));
    assert_eq!((code, path.as_deref()), (ErrorCode::TooManyTargets, Some("target_groups")));
    assert_eq!(message, "Target group 'g' would have 4097 targets; it can have 4096");
}

#[test]
fn a_restored_state_registers_who_was_registered_then_under_the_arn_of_then() {
    let then = draining();
    let deleted = changed(&then, Change::DeleteListener { listener: "gw".to_owned() });
    let deleted = changed(&deleted, Change::DeleteTargetGroup { target_group: "fw".to_owned() });
    let (next, outcome) = deleted
        .apply(&Change::Restore { state: Box::new(then.clone()), now_unix_ms: NOW })
        .expect("accepted");
    assert!(outcome.is_change());
    assert_eq!(next.generation(), deleted.generation() + 1);
    assert_eq!(next.target_group("fw").expect("back").arn(), then.target_group("fw").expect("there").arn());
    // Whose drain was under way then has been gone for long.
    assert_eq!(targets(&next), [(SECOND, Registration::Registered)]);
}
