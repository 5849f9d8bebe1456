//! What tags may be, and how they come and go.

use super::*;
use crate::control::model::Change;
use crate::control::model::fixture::{pairs, state};

fn add(resources: &[&str], tags: &[(&str, &str)]) -> Change {
    Change::AddTags { resources: owned(resources), tags: pairs(tags) }
}

fn remove(resources: &[&str], keys: &[&str]) -> Change {
    Change::RemoveTags { resources: owned(resources), keys: owned(keys) }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn accept(state: &State, change: &Change) -> (State, Vec<String>) {
    match state.apply(change).expect("accepted") {
        (next, Outcome::Tags { changed }) => (next, changed),
        (_, other) => panic!("{other:?}"),
    }
}

fn refuse(state: &State, change: &Change) -> (ErrorCode, Option<String>) {
    let error = state.apply(change).expect_err("refused");
    (error.code, error.path)
}

fn tags_of<'a>(state: &'a State, reference: &str) -> Vec<(&'a str, &'a str)> {
    state.resource(reference).expect("there").tags().iter().collect()
}

// O-5
#[test]
fn tags_are_added_to_whatever_an_arn_or_a_name_says_and_taken_away() {
    let listener = state().load_balancer("gw").expect("there").listener_arn().expect("a listener");
    let group = state().target_group("fw").expect("there").arn();
    let everything = ["gw", &listener, &group];
    let (tagged, changed) = accept(&state(), &add(&everything, &[("Owner", "net"), ("Stage", "")]));
    assert_eq!(changed, [state().load_balancer("gw").expect("there").arn(), listener.clone(), group.clone()]);
    assert_eq!(tagged.generation(), 1);
    for one in everything {
        assert_eq!(tags_of(&tagged, one), [("Owner", "net"), ("Stage", "")], "{one}");
    }
    assert_eq!(tags_of(&tagged, "spare"), []);

    let (renamed, changed) = accept(&tagged, &add(&["gw", "spare"], &[("Owner", "ops")]));
    assert_eq!(changed.len(), 2);
    assert_eq!(tags_of(&renamed, "gw"), [("Owner", "ops"), ("Stage", "")]);
    assert_eq!(tags_of(&renamed, &listener), [("Owner", "net"), ("Stage", "")]);

    let (less, changed) = accept(&renamed, &remove(&["gw", "spare", "fw"], &["Owner", "Nothing"]));
    assert_eq!(changed.len(), 3);
    assert_eq!(tags_of(&less, "gw"), [("Stage", "")]);
    let (same, changed) = accept(&less, &remove(&["gw"], &["Owner"]));
    assert_eq!((&changed[..], &same), (&[][..], &less), "it is gone already");
    assert_eq!(State::from_stored(&less.to_document()), Ok(less));
}

#[test]
fn one_bad_resource_and_none_is_tagged() {
    use ErrorCode::{
        ListenerNotFound, LoadBalancerNotFound, RuleNotFound, TargetGroupNotFound, ValidationError,
    };
    let prefix = "arn:aws:elasticloadbalancing:xx-local-1:000000000000:";
    for (resource, code) in [
        ("loadbalancer/gwy/gw/0000000000000000", LoadBalancerNotFound),
        ("listener/gwy/gw/0000000000000000/0000000000000000", ListenerNotFound),
        ("targetgroup/fw/0000000000000000", TargetGroupNotFound),
        ("listener-rule/gwy/gw/0/0/0", RuleNotFound),
        ("truststore/t/0", ValidationError),
    ] {
        let arn = format!("{prefix}{resource}");
        let at = Some("resources[1]".to_owned());
        assert_eq!(refuse(&state(), &add(&["gw", &arn], &[("a", "b")])), (code, at), "{arn}");
    }
    assert_eq!(refuse(&state(), &remove(&["nowhere"], &["a"])).0, ValidationError);
    assert_eq!(refuse(&state(), &add(&[], &[("a", "b")])).0, ValidationError);
    assert_eq!(refuse(&state(), &add(&["gw"], &[])).0, ValidationError);
    assert_eq!(refuse(&state(), &remove(&["gw"], &[])).0, ValidationError);
}

#[test]
fn a_name_of_two_objects_is_none() {
    let document =
        r#"{ "version": 1, "load_balancers": [{ "name": "fw" }], "target_groups": [{ "name": "fw" }] }"#;
    let state = State::from_document(document).expect("valid");
    let error = state.resource("fw").expect_err("two");
    assert_eq!(error.code, ErrorCode::ValidationError);
    assert!(error.message.contains("both"), "{error}");
}

#[test]
fn keys_and_values_are_those_that_aws_allows() {
    let fits = |key: &str, value: &str| state().apply(&add(&["gw"], &[(key, value)])).is_ok();
    assert!(fits(&"k".repeat(128), &"v".repeat(256)));
    assert!(fits(&"ä".repeat(128), ""), "characters, not bytes, are counted");
    assert!(fits("a b_.:/=+-@1²", "日本 ü\u{a0}"));
    assert!(fits("kaws:", "aws:"), "the prefix is a key's");
    for (key, value) in [
        ("", "v"),
        (&"k".repeat(129)[..], ""),
        ("k", &"v".repeat(257)[..]),
        ("aws:k", ""),
        ("AWS:k", ""),
        ("k*", ""),
        ("k", "v\n"),
        ("k", "<v>"),
        ("k\t", ""),
    ] {
        let error = state().apply(&add(&["gw"], &[(key, value)])).expect_err(key);
        assert_eq!(error.code, ErrorCode::ValidationError, "{key:?}");
        assert!(error.path.is_some_and(|path| path.starts_with("tags.")), "{key:?}");
    }
}

#[test]
fn a_resource_has_at_most_50_tags_and_no_key_twice() {
    let many: Vec<String> = (0..51).map(|number| format!("key{number}")).collect();
    let tags: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "")).collect();
    let (full, _) = accept(&state(), &add(&["gw"], &tags[..50]));
    assert_eq!(refuse(&full, &add(&["gw"], &tags[50..])), (ErrorCode::TooManyTags, Some("tags".to_owned())));
    accept(&full, &add(&["gw"], &[("key0", "another value")]));
    assert_eq!(refuse(&state(), &add(&["gw"], &tags)).0, ErrorCode::TooManyTags);
    let twice = add(&["gw"], &[("a", "1"), ("b", ""), ("a", "1")]);
    assert_eq!(refuse(&state(), &twice), (ErrorCode::DuplicateTagKeys, Some("tags.a".to_owned())));
}
