//! What would become of flows, told beforehand; and that it is what the workers are told afterwards.

use super::*;
use crate::control::health::check::Outcome as Check;
use crate::control::socket::views::Fate::{self, Drained, Dropped, Moved, Reset};

const FIRST: [u8; 4] = [192, 0, 2, 1];
const SECOND: [u8; 4] = [192, 0, 2, 2];

/// A core whose first target has 5 flows, 3 of them TCP, and whose second has 7, all TCP.
fn busy() -> Bench {
    let bench = Bench::start();
    for (address, flows, tcp) in [(FIRST, 5, 3), (SECOND, 7, 7)] {
        let counters = bench.counters.target(bench.slot(address).unwrap());
        counters.active_flows.add(flows);
        counters.active_tcp_flows.add(tcp);
    }
    bench
}

/// What `change` would do: the target's last byte, its flows, and what becomes of them.
fn effects(bench: &Bench, change: &Change) -> Vec<(u8, u64, Fate, Option<Fate>)> {
    let before = bench.core.state();
    let (next, _) = before.apply(change).unwrap();
    let effects = bench.core.preview(&next);
    assert_eq!(bench.core.state(), before, "it is only asked");
    effects.iter().map(|one| (one.target.octets()[3], one.flows, one.fate, one.then)).collect()
}

fn attributes(given: &[(&str, &str)]) -> Change {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Change::ModifyTargetGroupAttributes {
        target_group: "fw".to_owned(),
        attributes: given.iter().map(own).collect(),
    }
}

fn deregister(address: [u8; 4]) -> Change {
    let now_unix_ms = u64::try_from(Timestamp::now().unix_ms()).unwrap();
    Change::DeregisterTargets { target_group: "fw".to_owned(), targets: vec![address.into()], now_unix_ms }
}

fn document(text: &str) -> Change {
    Change::ApplyDocument { document: serde_json::from_str(text).unwrap(), now_unix_ms: 1 }
}

const REBALANCE: [(&str, &str); 2] =
    [("target_failover.on_unhealthy", "rebalance"), ("target_failover.on_deregistration", "rebalance")];
const RESETS: [(&str, &str); 2] =
    [("send_tcp_reset.on_unhealthy.enabled", "true"), ("send_tcp_reset.on_deregistration.enabled", "true")];

// T-3, T-4
#[test]
fn a_drain_is_told_with_what_comes_after_it() {
    within_runtime(async || {
        let bench = busy();
        assert_eq!(effects(&bench, &delay("7")), [], "that moves nobody");
        assert_eq!(effects(&bench, &deregister(FIRST)), [(1, 5, Drained, None)]);
        for (mode, then) in [(REBALANCE, Moved), (RESETS, Reset)] {
            let bench = busy();
            bench.core.change(&attributes(&mode), None).unwrap();
            assert_eq!(effects(&bench, &deregister(FIRST)), [(1, 5, Drained, Some(then))]);
            bench.core.change(&deregister(FIRST), None).unwrap();
            assert_eq!(effects(&bench, &deregister(FIRST)), [], "it drains already");
        }
    });
}

// T-4, R-2
#[test]
fn a_drain_that_a_change_ends_at_once_is_told_as_what_comes_after_it() {
    within_runtime(async || {
        let bench = busy();
        bench.core.change(&attributes(&RESETS), None).unwrap();
        bench.core.change(&deregister(FIRST), None).unwrap();
        assert_eq!(effects(&bench, &delay("99")), [], "it drains on");
        assert_eq!(effects(&bench, &delay("0")), [(1, 3, Reset, None)]);
        bench.core.change(&delay("0"), None).unwrap();
        assert_eq!(effects(&bench, &deregister(SECOND)), [(2, 7, Reset, None)]);
        let bench = busy();
        bench.core.change(&deregister(FIRST), None).unwrap();
        assert_eq!(effects(&bench, &delay("0")), [], "its flows go on to it");
    });
}

// T-1, R-1
#[test]
fn what_an_attribute_would_do_to_the_flows_of_an_unhealthy_target_is_told() {
    within_runtime(async || {
        let bench = busy();
        let key = TargetKey::new("fw", FIRST.into());
        let failure = || {
            use crate::control::health::{ReasonCode, StateReason};
            Check::Failure(StateReason::plain(ReasonCode::Timeout))
        };
        for _ in 0..2 {
            bench.core.inner.borrow_mut().health.pretend(&key, failure());
        }
        assert_eq!(effects(&bench, &attributes(&REBALANCE)), [(1, 5, Moved, None)]);
        assert_eq!(effects(&bench, &attributes(&RESETS)), [(1, 3, Reset, None)], "TCP flows alone");
        assert_eq!(effects(&bench, &attributes(&RESETS[1..])), [], "for what is deregistered alone");
    });
}

#[test]
fn flows_that_would_be_left_without_a_listener_are_told() {
    within_runtime(async || {
        let bench = busy();
        let both = [(1, 5, Dropped, None), (2, 7, Dropped, None)];
        assert_eq!(effects(&bench, &Change::DeleteListener { listener: "gw".to_owned() }), both);
        assert_eq!(effects(&bench, &document(r#"{ "version": 1 }"#)), both);
    });
}

// T-4, R-2: a group that goes takes its targets along without a drain.
#[test]
fn a_listeners_move_to_another_group_is_told_by_the_new_groups_rules() {
    within_runtime(async || {
        let bench = busy();
        let moved = |more: &str, attributes: &str| {
            document(&format!(
                r#"{{ "version": 1, "load_balancers": [{{ "name": "gw", "listener": {{ "target_group": "new" }} }}],
                      "target_groups": [{more} {{ "name": "new", "attributes": {{ {attributes} }} }}] }}"#
            ))
        };
        let old = r#"{ "name": "fw", "targets": [{ "address": "192.0.2.1" }, { "address": "192.0.2.2" }] },"#;
        let resets = r#""send_tcp_reset.on_deregistration.enabled": true"#;
        assert_eq!(effects(&bench, &moved(old, resets)), [], "flows stay with their targets (F-5)");
        assert_eq!(effects(&bench, &moved("", "")), [], "they go on to a target that is gone");
        assert_eq!(effects(&bench, &moved("", resets)), [(1, 3, Reset, None), (2, 7, Reset, None)]);
    });
}

#[test]
fn a_change_is_in_the_history_with_who_made_it_and_the_end_of_a_drain_is_not() {
    within_runtime(async || {
        let bench = Bench::start();
        let apply = |change: &Change, by| bench.core.apply_by(change, by).unwrap().generation;
        assert_eq!(apply(&delay("0"), Some("root")), 1);
        assert_eq!(apply(&deregister(FIRST), None), 2);
        bench.core.end_drains();
        assert_eq!(bench.core.state().generation(), 3, "the drain has ended");
        assert_eq!(apply(&delay("5"), Some("root")), 4);
        let history = bench.core.history();
        let told: Vec<_> = history
            .iter()
            .map(|entry| (entry.generation, entry.by.as_deref(), entry.what.join("; ")))
            .collect();
        let delay = "Target group 'fw': 'deregistration_delay.timeout_seconds' changes from";
        assert_eq!(
            told,
            [
                (4, Some("root"), format!("{delay} '0' to '5'")),
                (2, None, "Target group 'fw': target 192.0.2.1 is deregistered and drains".to_owned()),
                (1, Some("root"), format!("{delay} '100' to '0'")),
            ]
        );
        assert!(history[0].current && history[0].at.is_some());
        let earlier = bench.core.earlier(1).unwrap().expect("kept");
        let restore = Change::Restore { state: Box::new(earlier), now_unix_ms: 1 };
        apply(&restore, None);
        assert_eq!(bench.slot(FIRST).map(|_| ()), Some(()), "the target is back");
        assert!(bench.core.earlier(3).unwrap().is_none(), "no change of an operator's");
    });
}
