//! What would become of flows, told beforehand; and that it is what the workers are told afterwards.

use super::*;
use crate::control::health::check::Outcome as Check;
use crate::control::health::{HealthState, ReasonCode, StateReason};
use crate::control::model::HealthCheckChange;
use crate::control::socket::views::Fate::{self, Drained, Dropped, Held, Moved, Reset, TimedOut};
use crate::control::socket::views::{FlowEffect, HeldBy, Preview};
use crate::datapath::messages::FlowFilter;

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

/// What `change` would do.
async fn preview(bench: &Bench, change: &Change) -> Preview {
    let before = bench.core.state();
    let (next, _) = before.apply(change).unwrap();
    let preview = bench.core.preview(&next).await;
    assert_eq!(bench.core.state(), before, "it is only asked");
    preview
}

/// The target's last byte, or 0 for all targets.
fn last_byte(effect: &FlowEffect) -> u8 {
    effect.target.map_or(0, |target| target.octets()[3])
}

/// What `change` would do: the target's last byte, its flows, and what becomes of them.
async fn effects(bench: &Bench, change: &Change) -> Vec<(u8, u64, Fate, Option<Fate>)> {
    let flows = preview(bench, change).await.flows;
    flows.iter().map(|one| (last_byte(one), one.flows, one.fate, one.then)).collect()
}

/// The same, with what holds the flows back; what comes after is left out.
async fn guarded(bench: &Bench, change: &Change) -> Vec<(u8, u64, Fate, Option<HeldBy>)> {
    let flows = preview(bench, change).await.flows;
    flows.iter().map(|one| (last_byte(one), one.flows, one.fate, one.held_by)).collect()
}

/// Checks of a target end with these results: `s`uccess or `f`ailure.
fn checked(bench: &Bench, address: [u8; 4], results: &str) {
    let key = TargetKey::new("fw", address.into());
    for result in results.chars() {
        let outcome = match result {
            's' => Check::Success,
            _ => Check::Failure(StateReason::plain(ReasonCode::Timeout)),
        };
        bench.core.inner.borrow_mut().health.pretend(&key, outcome);
    }
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
        assert_eq!(effects(&bench, &delay("7")).await, [], "that moves nobody");
        assert_eq!(effects(&bench, &deregister(FIRST)).await, [(1, 5, Drained, None)]);
        for (mode, then) in [(REBALANCE, Moved), (RESETS, Reset)] {
            let bench = busy();
            bench.core.change(&attributes(&mode), None).unwrap();
            assert_eq!(effects(&bench, &deregister(FIRST)).await, [(1, 5, Drained, Some(then))]);
            bench.core.change(&deregister(FIRST), None).unwrap();
            assert_eq!(effects(&bench, &deregister(FIRST)).await, [], "it drains already");
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
        assert_eq!(effects(&bench, &delay("99")).await, [], "it drains on");
        assert_eq!(effects(&bench, &delay("0")).await, [(1, 3, Reset, None)]);
        bench.core.change(&delay("0"), None).unwrap();
        assert_eq!(effects(&bench, &deregister(SECOND)).await, [(2, 7, Reset, None)]);
        let bench = busy();
        bench.core.change(&deregister(FIRST), None).unwrap();
        assert_eq!(effects(&bench, &delay("0")).await, [], "its flows go on to it");
    });
}

// T-1, R-1
#[test]
fn what_an_attribute_would_do_to_the_flows_of_an_unhealthy_target_is_told() {
    within_runtime(async || {
        let bench = busy();
        checked(&bench, FIRST, "ff");
        checked(&bench, SECOND, "sssss");
        assert_eq!(effects(&bench, &attributes(&REBALANCE)).await, [(1, 5, Moved, None)]);
        assert_eq!(effects(&bench, &attributes(&RESETS)).await, [(1, 3, Reset, None)], "TCP flows alone");
        assert_eq!(effects(&bench, &attributes(&RESETS[1..])).await, [], "for what is deregistered alone");
    });
}

// T-6
#[test]
fn flows_that_have_nowhere_to_move_to_are_told_as_held_back() {
    within_runtime(async || {
        let bench = busy();
        checked(&bench, FIRST, "ff");
        let nobody = [(1, 5, Held, Some(HeldBy::NobodyHealthy))];
        assert_eq!(guarded(&bench, &attributes(&REBALANCE)).await, nobody);
        assert_eq!(effects(&bench, &attributes(&REBALANCE)).await, [(1, 5, Held, Some(Moved))]);
        checked(&bench, SECOND, "sssss");
        assert_eq!(guarded(&bench, &attributes(&REBALANCE)).await, [(1, 5, Moved, None)]);
    });
}

// T-6: flows that were made while nobody was healthy are spared.
#[test]
fn with_nobody_healthy_the_number_of_resets_is_a_bound() {
    within_runtime(async || {
        let bench = busy();
        checked(&bench, FIRST, "ff");
        let told = async || preview(&bench, &attributes(&RESETS)).await.flows;
        assert!(told().await[0].at_most);
        checked(&bench, SECOND, "sssss");
        assert!(!told().await[0].at_most);
    });
}

// R-11
#[test]
fn what_a_guard_would_hold_back_is_told_with_the_guard() {
    within_runtime(async || {
        let bench = busy();
        checked(&bench, FIRST, "ff");
        checked(&bench, SECOND, "sssss");
        let with = |key, value| attributes(&[RESETS[0], RESETS[1], (key, value)]);
        for (key, value, told) in [
            ("flowgate.reset.hold_ms", "60000", (Held, Some(HeldBy::Hold))),
            ("flowgate.reset.min_healthy_percent", "51", (Held, Some(HeldBy::MinHealthy))),
            ("flowgate.reset.min_healthy_percent", "50", (Reset, None)),
            ("flowgate.reset.max_per_second", "2", (Reset, Some(HeldBy::Rate))),
            ("flowgate.reset.max_per_second", "3", (Reset, None)),
        ] {
            let found = guarded(&bench, &with(key, value)).await;
            assert_eq!(found, [(1, 3, told.0, told.1)], "{key}={value}");
        }
        // A guard that is put up, and taken away, changes what becomes of the same flows.
        bench.core.change(&attributes(&RESETS), None).unwrap();
        let hold = attributes(&[("flowgate.reset.hold_ms", "60000")]);
        assert_eq!(effects(&bench, &hold).await, [(1, 3, Held, Some(Reset))]);
        bench.core.change(&hold, None).unwrap();
        assert_eq!(
            effects(&bench, &attributes(&[("flowgate.reset.hold_ms", "0")])).await,
            [(1, 3, Reset, None)]
        );
        bench.core.advance_clock(60_000);
        assert_eq!(effects(&bench, &attributes(&[("flowgate.reset.hold_ms", "0")])).await, [], "it is over");
    });
}

// H-9, R-1
#[test]
fn thresholds_by_which_a_target_is_out_at_once_are_told_with_its_flows() {
    within_runtime(async || {
        let bench = busy();
        bench.core.change(&attributes(&RESETS), None).unwrap();
        checked(&bench, FIRST, "sssss");
        checked(&bench, SECOND, "sssss");
        let unhealthy_after = |count: u8| Change::ModifyTargetGroup {
            target_group: "fw".to_owned(),
            health_check: HealthCheckChange { unhealthy_threshold: Some(count), ..Default::default() },
        };
        bench.core.change(&unhealthy_after(5), None).unwrap();
        checked(&bench, FIRST, "fff");
        let told = preview(&bench, &unhealthy_after(3)).await;
        let states: Vec<_> = told.health.iter().map(|one| (one.target, one.from, one.to)).collect();
        assert_eq!(states, [(FIRST.into(), HealthState::Healthy, HealthState::Unhealthy)]);
        assert_eq!(effects(&bench, &unhealthy_after(3)).await, [(1, 3, Reset, None)]);
        let other = preview(&bench, &unhealthy_after(4)).await;
        assert_eq!((other.flows, other.health), (vec![], vec![]));
        // It is what becomes of it.
        bench.core.change(&unhealthy_after(3), None).unwrap();
        let verdict = bench.core.inner.borrow().health.verdict(&TargetKey::new("fw", FIRST.into()));
        assert_eq!(verdict, Some(Verdict::Unhealthy));
    });
}

fn idle(key: &str, seconds: &str) -> Change {
    Change::ModifyListenerAttributes {
        listener: "gw".to_owned(),
        attributes: vec![(key.to_owned(), seconds.to_owned())],
    }
}

/// What the worker was asked to count last.
fn asked_to_count(bench: &mut Bench) -> Option<FlowFilter> {
    let mut asked = None;
    while let Ok(message) = bench.inbox.pop() {
        if let ToWorker::ScanFlows(filter) = message {
            asked = Some(filter);
        }
    }
    asked
}

// A-7, A-10
#[test]
fn flows_that_a_shorter_idle_timeout_ends_are_counted_by_the_workers() {
    within_runtime(async || {
        let mut bench = busy();
        let core = Rc::clone(&bench.core);
        for longer in [idle("tcp.idle_timeout.seconds", "350"), idle("tcp.idle_timeout.seconds", "6000")] {
            assert_eq!(effects(&bench, &longer).await, []);
            assert!(asked_to_count(&mut bench).is_none(), "there is nothing to count");
        }
        let (next, _) = core.state().apply(&idle("tcp.idle_timeout.seconds", "60")).unwrap();
        let mut told = core.preview(&next);
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut told).await.is_err(), "it waits");
        let filter = asked_to_count(&mut bench).expect("a count");
        let timers = filter.ended_by.expect("timers");
        assert_eq!((timers.tcp_idle_ms, timers.other_idle_ms, filter.limit), (60_000, 120_000, 0));
        let done = FromWorker::ScanDone { worker: WorkerId(0), scan: filter.scan, matching: 4 };
        bench.says.push(done).unwrap();
        core.hear_workers();
        let flows = told.await.flows;
        let expected = FlowEffect {
            target_group: "fw".to_owned(),
            target: None,
            flows: 4,
            at_most: false,
            fate: TimedOut,
            then: None,
            held_by: None,
        };
        assert_eq!(flows, [expected]);
    });
}

// A-7, A-10
#[test]
fn workers_that_do_not_count_in_time_leave_a_bound() {
    within_runtime(async || {
        let bench = busy();
        tokio::time::pause();
        let bounds = [("tcp.idle_timeout.seconds", "60", 10), ("udp.idle_timeout.seconds", "60", 2)];
        for (key, seconds, flows) in bounds {
            let told = preview(&bench, &idle(key, seconds)).await.flows;
            let told: Vec<_> = told.iter().map(|one| (one.fate, one.flows, one.at_most)).collect();
            assert_eq!(told, [(TimedOut, flows, true)], "{key}");
        }
    });
}

#[test]
fn flows_that_would_be_left_without_a_listener_are_told() {
    within_runtime(async || {
        let bench = busy();
        let both = [(1, 5, Dropped, None), (2, 7, Dropped, None)];
        assert_eq!(effects(&bench, &Change::DeleteListener { listener: "gw".to_owned() }).await, both);
        assert_eq!(effects(&bench, &document(r#"{ "version": 1 }"#)).await, both);
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
        assert_eq!(effects(&bench, &moved(old, resets)).await, [], "flows stay with their targets (F-5)");
        assert_eq!(effects(&bench, &moved("", "")).await, [], "they go on to a target that is gone");
        assert_eq!(effects(&bench, &moved("", resets)).await, [(1, 3, Reset, None), (2, 7, Reset, None)]);
    });
}

#[test]
fn a_change_is_in_the_history_with_who_made_it_and_the_end_of_a_drain_is_not() {
    within_runtime(async || {
        let bench = Bench::start();
        let apply = |change: &Change, by| bench.core.apply_by(change, by).unwrap().generation;
        assert_eq!(apply(&delay("0"), Some("root")), 1);
        assert_eq!(apply(&deregister(FIRST), None), 2);
        bench.end_drains().await;
        assert_eq!(bench.core.state().generation(), 3, "the drain has ended");
        assert_eq!(apply(&delay("5"), Some("root")), 4);
        let history = bench.core.history().await;
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
        let earlier = bench.core.earlier(1).await.unwrap().expect("kept");
        let restore = Change::Restore { state: Box::new(earlier), now_unix_ms: 1 };
        apply(&restore, None);
        assert_eq!(bench.slot(FIRST).map(|_| ()), Some(()), "the target is back");
        assert!(bench.core.earlier(3).await.unwrap().is_none(), "no change of an operator's");
    });
}
