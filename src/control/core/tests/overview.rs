//! The overview: everything of one moment, and counts that never fall.

use super::*;
use crate::control::health::check::Outcome as Check;
use crate::control::health::{ReasonCode, StateReason};
use crate::control::socket::views::{Overview, TargetOverview};
use crate::control::troubles::Kind;
use crate::datapath::counters::{DropReason, Outcome, ResetTrigger};
use crate::id::GatewayId;

fn look(bench: &Bench) -> Overview {
    bench.core.overview(Duration::from_secs(10))
}

fn target(overview: &Overview, address: [u8; 4]) -> &TargetOverview {
    let group = overview.target_groups.iter().find(|group| group.name == "fw").unwrap();
    group.targets.iter().find(|target| target.address.octets() == address).unwrap()
}

// R-8, H-5, H-7, C-1
#[test]
fn an_overview_has_what_every_other_method_says_of_the_same_moment() {
    within_runtime(async || {
        let bench = Bench::start();
        let slot = bench.slot([192, 0, 2, 1]).unwrap();
        let counted = bench.counters.target(slot);
        counted.active_flows.add(5);
        counted.active_tcp_flows.add(3);
        counted.new_flows.add(9);
        counted.moved_away.add(2);
        counted.packets_out.add(100);
        counted.bytes_out.add(10_000);
        counted.packets_back.add(90);
        counted.bytes_back.add(9000);
        counted.resets[ResetTrigger::Unhealthy.index()].add(4);
        counted.resets[ResetTrigger::BothEnds.index()].add(1);
        let gateway = bench.counters.gateway(GatewayId(0));
        gateway.resets[ResetTrigger::Unhealthy.index()].add(4);
        gateway.resets[ResetTrigger::BothEnds.index()].add(1);
        gateway.resets[ResetTrigger::NoFlow.index()].add(6);
        gateway.suppressed[0].add(7);
        gateway.rejected_flows.add(8);
        bench.counters.received.add(300);
        bench.counters.outcomes[Outcome::Forwarded.index()].add(100);
        bench.counters.drops[DropReason::NoTarget.index()].add(8);
        bench.counters.drops[DropReason::CookieStale.index()].add(2);

        let overview = look(&bench);
        let one = target(&overview, [192, 0, 2, 1]);
        assert_eq!((one.flows, one.would_die, one.weight), (5, 3, 1));
        assert_eq!((one.traffic.new_flows, one.traffic.moved_flows), (9, 2));
        assert_eq!((one.traffic.packets_to_target, one.traffic.bytes_to_target), (100, 10_000));
        assert_eq!((one.traffic.packets_from_target, one.traffic.bytes_from_target), (90, 9000));
        assert_eq!((one.traffic.resets.unhealthy, one.traffic.resets.both_ends), (4, 1));
        assert_eq!(target(&overview, [192, 0, 2, 2]).traffic, Default::default());

        let group = &overview.target_groups[0];
        assert_eq!((group.flows, group.load_balancer.as_deref()), (5, Some("gw")));
        assert_eq!(group.traffic, one.traffic);
        assert_eq!((group.health_check.as_str(), group.detection_time_ms), ("TCP 80", 20_000));
        assert_eq!(group.deregistration_delay_ms, 100_000);
        let balancer = &overview.load_balancers[0];
        assert_eq!((balancer.flows, balancer.rejected_flows), (5, 8));
        assert_eq!((balancer.resets.all(), balancer.held_resets.hold), (11, 7));
        let totals = &overview.totals;
        assert_eq!((totals.flows, totals.received, totals.forwarded, totals.dropped), (5, 300, 100, 10));
        assert_eq!(totals.drops, [("cookie_stale".to_owned(), 2), ("no_target".to_owned(), 8)].into());
        assert_eq!(totals.resets, balancer.resets);

        // The same facts by the methods that tell them one by one.
        let state = bench.core.state();
        for status in bench.core.targets(state.target_group("fw").unwrap()) {
            let shown = target(&overview, status.address.octets());
            assert_eq!((shown.state, shown.reason), (status.state, status.reason));
            assert_eq!((shown.flows, shown.would_die), (status.flows, status.would_die));
            assert_eq!((&shown.description, shown.since), (&status.description, Some(status.since)));
            assert_eq!((&shown.neighbour, &shown.zone), (&status.neighbour, &status.zone));
        }
        let counters = bench.core.counters();
        let set = |scope, name: &str| {
            counters.sets.iter().find(|set| set.scope == scope && set.name == name).unwrap().counters.clone()
        };
        let (of_target, of_group) =
            (set(CounterScope::Target, "fw/192.0.2.1"), set(CounterScope::TargetGroup, "fw"));
        assert_eq!(of_target["TCP_ELB_Reset_Count"], one.traffic.resets.all());
        assert_eq!(of_group["BytesToTarget"], group.traffic.bytes_to_target);
        assert_eq!(set(CounterScope::LoadBalancer, "gw")["TCP_ELB_Reset_Count"], balancer.resets.all());
        assert_eq!(overview.workers.len(), bench.core.workers(Duration::from_secs(10)).len());
    });
}

// T-3, T-4
#[test]
fn a_drain_has_its_clock_and_a_target_that_is_gone_is_shown_while_it_has_flows() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let slot = bench.slot([192, 0, 2, 1]).unwrap();
        bench.counters.target(slot).active_flows.add(2);
        bench.counters.target(slot).packets_out.add(50);
        bench.deregister([192, 0, 2, 1]);
        bench.published();
        let overview = look(&bench);
        let drain = target(&overview, [192, 0, 2, 1]).drain.unwrap();
        assert_eq!(drain.ends.since(drain.started), 100_000);
        assert!(target(&overview, [192, 0, 2, 2]).drain.is_none());

        bench.core.advance_clock(100_000);
        bench.end_drains().await;
        bench.published();
        let overview = look(&bench);
        assert!(overview.at >= drain.ends, "the advanced clock is the one that is told");
        let gone = target(&overview, [192, 0, 2, 1]);
        assert_eq!(gone.reason, Some(crate::control::health::ReasonCode::NotRegistered));
        assert_eq!((gone.flows, gone.since, gone.drain), (2, None, None));

        bench.counters.target(slot).active_flows.sub(2);
        bench.core.sweep();
        bench.published();
        let overview = look(&bench);
        assert_eq!(overview.target_groups[0].targets.len(), 1);
        assert_eq!(overview.target_groups[0].traffic.packets_to_target, 50, "counts never fall");
    });
}

#[test]
fn the_next_holder_of_a_slot_begins_at_nothing() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.core.inner.borrow_mut().slots = crate::control::slots::Slots::with_capacity(2);
        bench.core.inner.borrow_mut().publish();
        bench.published();
        let slot = bench.slot([192, 0, 2, 1]).unwrap();
        bench.counters.target(slot).packets_out.add(50);
        bench.counters.target(slot).resets[ResetTrigger::Deregistration.index()].add(5);
        bench.deregister([192, 0, 2, 1]);
        bench.core.advance_clock(100_000);
        bench.end_drains().await;
        bench.published();
        bench.core.sweep();
        let targets = vec![crate::control::model::TargetDescription {
            address: [192, 0, 2, 3].into(),
            zone: None,
            weight: None,
        }];
        let register = Change::RegisterTargets { target_group: "fw".to_owned(), targets };
        bench.core.change(&register, None).unwrap();
        assert_eq!(bench.slot([192, 0, 2, 3]), Some(slot));
        bench.counters.target(slot).packets_out.add(7);
        let overview = look(&bench);
        let traffic = target(&overview, [192, 0, 2, 3]).traffic;
        assert_eq!((traffic.packets_to_target, traffic.resets.all()), (7, 0));
        let group = overview.target_groups[0].traffic;
        assert_eq!((group.packets_to_target, group.resets.deregistration), (57, 5));
    });
}

// H-5, R-8
#[test]
fn an_overview_says_what_is_wrong_since_when_and_whether_the_node_is_ready() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let kinds = |overview: &Overview| overview.troubles.iter().map(|one| one.kind).collect::<Vec<_>>();
        bench.published();
        let overview = look(&bench);
        assert!(overview.readiness.ready, "{:?}", overview.readiness);
        assert_eq!(kinds(&overview), [Kind::TargetUnreachable], "the second target's way is not known");

        let slot = bench.slot([192, 0, 2, 1]).unwrap();
        bench.counters.target(slot).active_flows.add(3);
        bench.counters.troubles(slot).reset_flows.add(2);
        bench.counters.target(slot).resets[ResetTrigger::Unhealthy.index()].add(3);
        bench.counters.gateway(GatewayId(0)).resets[ResetTrigger::NoFlow.index()].add(9);
        let reason = StateReason::plain(ReasonCode::Timeout);
        let failure = Check::Failure(reason);
        bench
            .core
            .inner
            .borrow()
            .health
            .pretend(&TargetKey::new("fw", [192, 0, 2, 1].into()), Check::Success);
        for _ in 0..2 {
            bench
                .core
                .inner
                .borrow()
                .health
                .pretend(&TargetKey::new("fw", [192, 0, 2, 1].into()), failure.clone());
        }
        bench.core.hear_health();
        {
            let mut inner = bench.core.inner.borrow_mut();
            inner.storing_since = Instant::now().checked_sub(Duration::from_secs(6));
            inner.not_stored += 1;
        }
        std::fs::write(bench.folder.path().join("not-ready"), "standby").unwrap();
        bench.core.not_ready_file.taken_out().await;
        let overview = look(&bench);
        for kind in [
            Kind::StoreWaits,
            Kind::ChangesNotStored,
            Kind::TargetUnhealthy,
            Kind::TakenOut,
            Kind::NoFlowResets,
        ] {
            assert!(kinds(&overview).contains(&kind), "{kind} is not among {:?}", kinds(&overview));
        }
        assert_eq!(overview.readiness.missing.len(), 1);
        assert!(overview.readiness.missing[0].starts_with("standby ("));
        let one = target(&overview, [192, 0, 2, 1]);
        assert_eq!(
            (one.traffic.reset_flows, one.reset_flows_last_minute, one.open_failover),
            (2, 2, Some(1))
        );
        let of = |kind| overview.troubles.iter().find(|one| one.kind == kind).unwrap();
        assert_eq!(of(Kind::TargetUnhealthy).command.as_deref(), Some("flowgate report 1"));
        assert_eq!(of(Kind::TargetUnhealthy).since, one.since.unwrap());
        let waits = overview.at.since(of(Kind::StoreWaits).since);
        assert!((6000..9000).contains(&waits), "{waits}");
        // What was known before is since then.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let later = look(&bench);
        let since = |overview: &Overview| {
            overview.troubles.iter().find(|one| one.kind == Kind::TakenOut).unwrap().since
        };
        assert_eq!(since(&later), since(&overview));
        assert!(later.at > overview.at);
    });
}

#[test]
fn what_is_wrong_is_looked_for_every_second_though_nobody_asks() {
    within_runtime(async || {
        let bench = Bench::start();
        assert_eq!(bench.core.watched.get(), None);
        bench.core.watch_troubles();
        let first = bench.core.watched.get();
        bench.core.watch_troubles();
        assert_eq!(bench.core.watched.get(), first, "it was looked for a moment ago");
        bench.core.watched.set(first.and_then(|first| first.checked_sub(Duration::from_secs(1))));
        bench.core.watch_troubles();
        assert!(bench.core.watched.get() > first);
    });
}

/// Nobody is kept waiting by it: what it takes grows with the targets, and not with their square.
#[test]
fn an_overview_of_thousands_of_targets_takes_as_much_longer_as_there_are_more() {
    within_runtime(async || {
        let bench = Bench::start();
        let target = |number: u32| crate::control::model::TargetDescription {
            address: Ipv4Addr::from(0x0a00_0000 + number),
            zone: None,
            weight: None,
        };
        let of = |first: u32, last: u32| {
            let targets = (first..last).map(target).collect();
            let change = Change::RegisterTargets { target_group: "fw".to_owned(), targets };
            bench.core.change(&change, None).unwrap();
            let once = || {
                let began = Instant::now();
                let overview = look(&bench);
                let json = serde_json::to_string(&overview).unwrap();
                (began.elapsed(), overview.target_groups[0].targets.len(), json.len())
            };
            (0..5).map(|_| once()).min().unwrap()
        };
        let (few, many) = (of(1, 500), of(500, 4000));
        println!("{few:?}, {many:?} (time, targets, bytes of JSON)");
        assert_eq!((few.1, many.1), (501, 4001));
        assert!(many.0 < 24 * few.0, "{few:?}, {many:?}");
    });
}
