//! Failover records: what comes into them from where, and that nothing waits for them.

use std::time::Duration;

use super::*;
use crate::control::failover::{Cause, EndReason, Failover};
use crate::control::health::check::Outcome;
use crate::control::health::{HealthState, Moment, ReasonCode, StateReason};
use crate::control::logging::paper::events;
use crate::control::model::TargetDescription;
use crate::control::monitor::Source;
use crate::datapath::counters::ResetTrigger;
use crate::datapath::messages::{BegunRecord, ResetRecord};
use crate::id::{EndpointId, GatewayId};

const FIRST: [u8; 4] = [192, 0, 2, 1];
const SECOND: [u8; 4] = [192, 0, 2, 2];

impl Bench {
    /// The first target's health changed.
    fn health(&self, from: HealthState, to: HealthState) {
        self.core.health_changed(HealthEvent {
            key: TargetKey::new("fw", FIRST.into()),
            from,
            to,
            reason: (to == HealthState::Unhealthy).then(|| StateReason::plain(ReasonCode::Timeout)),
            at: Moment::now(),
            first_failure_at: None,
            checks_in_row: 2,
            course: None,
        });
    }

    /// The number of the condition that the worker was told last.
    fn told_condition(&mut self) -> u64 {
        let mut last = None;
        while let Ok(message) = self.inbox.pop() {
            if let ToWorker::Condition { sequence, .. } = message {
                last = Some(sequence);
            }
        }
        last.expect("a condition")
    }

    fn hear(&self) {
        self.core.hear_workers();
        self.core.follow_failovers();
    }

    /// Whether the worker was asked to tell of new flows, or not to, since this was last asked.
    fn wishes(&mut self) -> Vec<bool> {
        self.hear();
        let mut wishes = Vec::new();
        while let Ok(message) = self.inbox.pop() {
            if let ToWorker::TellBegun(wanted) = message {
                wishes.push(wanted);
            }
        }
        wishes
    }

    fn records(&self) -> Vec<Failover> {
        self.core.failovers().failovers
    }

    fn cycles(&self) -> u64 {
        self.core.inner.borrow().workers.clock().cycles()
    }

    /// What is stored, once what was begun to be written is.
    fn stored(&self) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("state/failovers.json")).ok()
    }

    /// Waits until a write is over.
    async fn write(&self) {
        for _ in 0..2000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.core.follow_failovers();
            if self.core.inner.borrow().failovers.is_at_rest() {
                return;
            }
        }
        panic!("the write does not end");
    }
}

fn end(last: u8, port: u16) -> (std::net::IpAddr, u16) {
    (Ipv4Addr::new(198, 51, 100, last).into(), port)
}

// R-8, H-7
#[test]
fn a_failover_is_recorded_from_the_decision_to_the_recovery() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.published();
        let (target, other) = (bench.slot(FIRST).unwrap(), bench.slot(SECOND).unwrap());
        let mut events = bench.core.events();
        let counters = Arc::clone(&bench.counters);
        let of_target = counters.target(target);
        of_target.active_flows.add(5);
        of_target.active_tcp_flows.add(4);
        of_target.packets_back.add(1);
        of_target.last_back.set(bench.cycles());
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        let sequence = bench.told_condition();
        bench.hear();
        assert!(bench.inbox.pop().is_err(), "with resets off nobody is looked out for");

        let at_cycles = bench.cycles();
        let applied = FromWorker::ConditionApplied { worker: WorkerId(0), sequence, at_cycles };
        let reset = FromWorker::Reset(ResetRecord {
            trigger: ResetTrigger::Unhealthy,
            gateway: GatewayId(0),
            target: Some(target),
            endpoint: EndpointId(0),
            to: end(1, 4000),
            from: end(2, 443),
            at_cycles,
        });
        let begun = FromWorker::Begun(BegunRecord {
            endpoint: EndpointId(0),
            initiator: end(1, 4001),
            responder: end(2, 443),
            target: other,
            at_cycles: bench.cycles(),
        });
        // As if another worker's ring had been looked into first.
        for message in [begun, applied, reset] {
            bench.says.push(message).unwrap();
        }
        of_target.active_flows.sub(1);
        of_target.active_tcp_flows.sub(1);
        of_target.resets[ResetTrigger::Unhealthy.index()].add(1);
        counters.troubles(target).reset_flows.add(1);
        counters.troubles(target).suppressed[0].add(3);
        bench.hear();
        bench.core.sweep();
        let [record] = &bench.records()[..] else { panic!("one record") };
        let flows = record.flows;
        assert_eq!((flows.at_decision, flows.tcp_at_decision, flows.reset, flows.left), (5, 4, 1, 4));
        assert_eq!((record.resets.total, record.suppressed["hold"]), (1, 3));
        assert_eq!((record.load_balancer.as_deref(), record.group.registered), (Some("gw"), 2));
        assert_eq!(record.reason, Some(ReasonCode::Timeout));
        let took = record.durations;
        for phase in
            [took.decision_to_applied, took.decision_to_first_reset, took.last_returned_to_first_reset]
        {
            assert!(phase.is_some_and(|us| us < 1_000_000), "{took:?}");
        }
        let back = record.clients.as_ref().expect("one was watched");
        assert_eq!((back.came_back, back.by_target[&Ipv4Addr::from(SECOND)]), (1, 1));

        bench.health(HealthState::Unhealthy, HealthState::Healthy);
        bench.core.end();
        let [record] = &bench.records()[..] else { panic!("one record") };
        assert!(record.recovered.is_some() && record.ended.unwrap().why == EndReason::Interrupted);
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            match event.what {
                What::FailoverStarted { id, flows, .. } => told.push((id, flows)),
                What::FailoverEnded { id, flows_reset, .. } => told.push((id, flows_reset)),
                _ => {}
            }
        }
        assert_eq!(told, [(1, 5), (1, 1)]);
    });
}

#[test]
fn the_log_has_the_number_of_a_record_when_it_begins_and_what_became_of_its_flows_when_it_ends() {
    let act = || {
        within_runtime(async || {
            let bench = Bench::start();
            bench.core.change(&delay("7"), None).unwrap();
            let target = bench.slot(FIRST).unwrap();
            bench.counters.target(target).active_flows.add(5);
            bench.health(HealthState::Healthy, HealthState::Unhealthy);
            bench.hear();
            bench.counters.target(target).active_flows.sub(2);
            bench.counters.target(target).resets[ResetTrigger::Unhealthy.index()].add(4);
            bench.counters.troubles(target).reset_flows.add(2);
            bench.core.end();
        });
    };
    let lines = events("failover", act);
    let names: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["failover_started", "failover_ended"]);
    for line in &lines {
        let ids = ["load_balancer", "target_group", "target", "cause"].map(|id| line[id].as_str().unwrap());
        assert_eq!(ids, ["gw", "fw", "192.0.2.1", "unhealthy"]);
        let numbers = ["id", "flows", "generation"].map(|id| line[id].as_u64());
        assert_eq!(numbers, [Some(1), Some(5), Some(1)]);
    }
    let became = ["flows_reset", "flows_moved", "flows_left", "resets"].map(|id| lines[1][id].as_u64());
    assert_eq!((became, &lines[1]["why"]), ([Some(2), Some(0), Some(3), Some(4)], &"interrupted".into()));
}

//
#[test]
fn the_lines_of_health_and_of_resets_name_the_record_that_they_are_of() {
    let act = || {
        within_runtime(async || {
            let mut bench = Bench::start();
            bench.published();
            bench.health(HealthState::Initial, HealthState::Healthy);
            bench.health(HealthState::Healthy, HealthState::Unhealthy);
            let slot = bench.slot(FIRST).unwrap();
            for trigger in [ResetTrigger::Unhealthy, ResetTrigger::IdleTimeout] {
                bench.counters.target(slot).resets[trigger.index()].add(1);
            }
            bench.core.sweep();
        });
    };
    let told = |lines: Vec<serde_json::Value>| {
        lines.iter().map(|line| line["failover"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!(told(events("target_health_changed", act)), [None, Some(1)]);
    assert_eq!(told(events("flows_reset", act)), [Some(1), None], "an idle flow is reset for its own sake");
}

//
#[test]
fn workers_tell_of_new_flows_only_while_a_record_looks_out_for_clients() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let attribute = ("send_tcp_reset.on_unhealthy.enabled".to_owned(), "true".to_owned());
        let change = Change::ModifyTargetGroupAttributes {
            target_group: "fw".to_owned(),
            attributes: vec![attribute],
        };
        bench.core.change(&change, None).unwrap();
        assert_eq!(bench.wishes(), [false; 0]);
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        assert_eq!((bench.wishes(), bench.wishes()), (vec![true], vec![]));
        bench.core.end();
        assert_eq!(bench.wishes(), [false]);
    });
}

// T-3, T-4
#[test]
fn a_drain_is_recorded_until_its_last_flow_is_gone() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let target = bench.slot(FIRST).unwrap();
        bench.counters.target(target).active_flows.add(2);
        bench.deregister(FIRST);
        bench.core.advance_clock(100_000);
        bench.end_drains().await;
        let generation = bench.published().unwrap().configuration;
        bench.counters.configuration_since.set(bench.cycles());
        bench.counters.configuration.set(generation);
        bench.hear();
        bench.counters.target(target).active_flows.sub(2);
        bench.core.sweep();
        bench.hear();
        let [record] = &bench.records()[..] else { panic!("one record") };
        assert_eq!(
            (record.cause, record.flows.at_decision, record.flows.ended),
            (Cause::Deregistration, 2, 2)
        );
        assert_eq!(record.drain.and_then(|drain| drain.flows_then), Some(2));
        assert_eq!((record.applied.len(), record.ended.unwrap().why), (1, EndReason::Gone));
    });
}

#[test]
fn a_fleet_that_leaves_at_once_is_looked_at_once() {
    within_runtime(async || {
        let bench = Bench::start();
        let fleet = || (101..=250).map(|n| Ipv4Addr::new(192, 0, 2, n));
        let target = |address| TargetDescription { address, zone: None, weight: None };
        let register =
            Change::RegisterTargets { target_group: "fw".to_owned(), targets: fleet().map(target).collect() };
        bench.core.change(&register, None).unwrap();
        let deregister = |targets| Change::DeregisterTargets {
            target_group: "fw".to_owned(),
            targets,
            now_unix_ms: bench.core.inner.borrow().unix_ms(),
        };
        bench.core.change(&deregister(fleet().skip(1).collect()), None).unwrap();
        let looks = || bench.core.inner.borrow().failovers.looks();
        assert_eq!((bench.records().len(), looks()), (149, 1));
        let registered = |record: &Failover| record.group.registered;
        // The first of them, and the two that were there before.
        assert!(bench.records().iter().all(|record| registered(record) == 3));
        // What is otherwise by then is looked at again: the next one has left a smaller group.
        bench.core.change(&deregister(fleet().take(1).collect()), None).unwrap();
        assert_eq!(looks(), 2);
        assert_eq!(bench.records().iter().map(registered).min(), Some(2));
    });
}

// H-7
#[test]
fn how_a_group_stands_is_looked_at_again_when_a_target_of_it_has_failed() {
    within_runtime(async || {
        let bench = Bench::start();
        let checked = |address: [u8; 4], outcome: Outcome| {
            let inner = bench.core.inner.borrow();
            (0..5).for_each(|_| inner.health.pretend(&TargetKey::new("fw", address.into()), outcome.clone()));
            drop(inner);
            bench.core.hear_health();
        };
        let timeout = || Outcome::Failure(StateReason::plain(ReasonCode::Timeout));
        checked(FIRST, Outcome::Success);
        checked(SECOND, Outcome::Success);
        checked(FIRST, timeout());
        checked(SECOND, timeout());
        let stood: Vec<u64> = bench.records().iter().rev().map(|record| record.group.healthy).collect();
        assert_eq!(stood, [1, 0], "in the order in which they failed");
    });
}

// T-3
#[test]
fn a_group_that_is_deleted_ends_the_drains_of_its_targets() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.deregister(FIRST);
        let mut events = bench.core.events();
        bench.core.change(&Change::DeleteListener { listener: "gw".to_owned() }, None).unwrap();
        bench.core.change(&Change::DeleteTargetGroup { target_group: "fw".to_owned() }, None).unwrap();
        let mut ended = Vec::new();
        while let Ok(event) = events.try_recv() {
            if let What::DrainEnded { target_group, target, .. } = event.what {
                ended.push((target_group, target.octets()));
            }
        }
        assert_eq!(ended, [("fw".to_owned(), FIRST)]);
        let [record] = &bench.records()[..] else { panic!("one record") };
        assert!(record.drain.is_some_and(|drain| drain.ended.is_some()));
    });
}

//
#[test]
fn prometheus_is_told_of_the_newest_record_under_the_labels_that_the_target_has() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let told = |bench: &Bench| {
            let mut snapshot = bench.core.snapshot();
            let one = snapshot.last_failovers.pop().expect("one is told of");
            assert!(snapshot.last_failovers.is_empty());
            (one, snapshot.targets)
        };
        let labels = [&bench.core.snapshot().targets[0]].map(|one| (one.balancer.clone(), one.zone.clone()));
        assert!(bench.core.snapshot().last_failovers.is_empty());
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        let (one, targets) = told(&bench);
        assert_eq!((&*one.group, &*one.address, one.id), ("fw", "192.0.2.1", 1));
        assert_eq!([(one.balancer, one.zone)], labels);
        assert_eq!(one.address, targets[0].address);
        let decided = bench.records()[0].decided;
        assert_eq!(format!("{:.0}", one.decided * 1000.0), decided.unix_ms().to_string());
        bench.deregister(FIRST);
        let (one, _) = told(&bench);
        assert_eq!((one.id, one.cause, one.is_open), (2, Cause::Deregistration, true), "the newest alone");
        // Nothing of the target is left, and its record is told of as it was made.
        bench.core.change(&Change::DeleteListener { listener: "gw".to_owned() }, None).unwrap();
        bench.core.change(&Change::DeleteTargetGroup { target_group: "fw".to_owned() }, None).unwrap();
        bench.published();
        bench.core.sweep();
        // Nor has its end been told of yet.
        let (one, targets) = told(&bench);
        assert!(targets.iter().all(|target| target.address != one.address));
        assert_eq!((&*one.balancer, &*one.group, &*one.zone, one.is_open), ("gw", "fw", "", false));
        bench.hear();
        assert_eq!((told(&bench).0.id, bench.records().len()), (2, 2));
    });
}

#[test]
fn a_target_that_was_never_in_and_has_no_flow_is_no_failover() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.health(HealthState::Initial, HealthState::Unhealthy);
        assert!(bench.records().is_empty());
        bench.counters.target(bench.slot(FIRST).unwrap()).active_flows.add(1);
        bench.health(HealthState::Initial, HealthState::Unhealthy);
        assert_eq!(bench.records().len(), 1, "but it is one if it has flows (F-6)");
    });
}

#[test]
fn records_are_stored_and_those_that_were_open_have_ended_after_a_restart() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        bench.core.follow_failovers();
        bench.write().await;
        assert!(bench.stored().is_some_and(|text| text.contains("\"Id\":1")));
        // The daemon is killed, and another one begins.
        let Bench { core, folder, .. } = bench;
        drop(core);
        let store = Store::open(&folder.path().join("state")).unwrap();
        let records = super::super::failovers::Failovers::new(&store);
        let (kept, next_id) = records.stored();
        let [record] = &kept[..] else { panic!("one record") };
        assert_eq!((record.id, record.ended.unwrap().why, next_id), (1, EndReason::Interrupted, 2));
    });
}

#[test]
fn a_disk_that_takes_no_record_delays_nothing_and_is_told() {
    within_runtime(async || {
        let bench = Bench::start();
        // Where the file is written before it takes its name: a folder in its place is refused as a full disk is.
        let beside = bench.folder.path().join("state/failovers.json.new");
        std::fs::create_dir_all(beside.join("in the way")).unwrap();
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        bench.core.follow_failovers();
        bench.write().await;
        let list = bench.core.failovers();
        assert!(list.not_stored.is_some() && list.failovers.len() == 1, "{list:?}");
        bench.core.change(&delay("7"), None).expect("changes are stored all the same");
        std::fs::remove_dir_all(&beside).unwrap();
        bench.core.end();
        assert!(bench.stored().is_some_and(|text| text.contains("interrupted")), "tried again at the end");
    });
}

#[test]
fn records_whose_thread_panicked_are_told_as_not_stored_and_written_again() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        bench.core.inner.borrow_mut().failovers.lose_thread();
        bench.core.follow_failovers();
        let list = bench.core.failovers();
        assert!(list.not_stored.is_some_and(|fault| fault.contains("panicked")));
        bench.core.end();
        assert!(bench.stored().is_some_and(|text| text.contains("\"Id\":1")), "tried again at the end");
    });
}

#[test]
fn a_disk_that_hangs_keeps_a_daemon_from_its_end_for_seconds_only() {
    let one_thread =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    one_thread.unwrap().block_on(tokio::task::LocalSet::new().run_until(async {
        let bench = Bench::start();
        bench.health(HealthState::Healthy, HealthState::Unhealthy);
        bench.core.follow_failovers();
        bench.write().await;
        let before = bench.stored();
        let (thaw, frozen) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || frozen.recv());
        let began = Instant::now();
        bench.core.end();
        let took = began.elapsed();
        assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
        assert_eq!(bench.stored(), before, "what would write waits");
        drop(thaw);
    }));
}

#[test]
fn a_file_that_cannot_be_read_is_put_aside_and_keeps_no_daemon_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let store = Store::open(&directory).unwrap();
    std::fs::write(directory.join("failovers.json"), "half a rec").unwrap();
    let (kept, next_id) = super::super::failovers::Failovers::new(&store).stored();
    assert!(kept.is_empty() && next_id == 1);
    let aside = std::fs::read_to_string(directory.join("failovers.json.damaged")).unwrap();
    assert_eq!(aside, "half a rec");
}
