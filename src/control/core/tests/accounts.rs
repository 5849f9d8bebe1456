//! What is counted by load balancer, zone, target group and target, whatever becomes of these; and what a scrape has.

use super::*;
use crate::control::health::HealthState;
use crate::control::model::TargetDescription;
use crate::control::monitor::{Source, metrics::Snapshot};

impl Bench {
    /// The counters of an object.
    fn counted(&self, scope: CounterScope, name: &str) -> std::collections::BTreeMap<String, u64> {
        let sets = self.core.counters().sets;
        let set = sets.into_iter().find(|set| set.scope == scope && set.name == name);
        set.map(|set| set.counters).unwrap_or_default()
    }

    fn register(&self, address: [u8; 4], zone: &str) {
        let target = TargetDescription {
            address: address.into(),
            zone: Some(Some(zone.to_owned().try_into().unwrap())),
            weight: None,
        };
        let change = Change::RegisterTargets { target_group: "fw".to_owned(), targets: vec![target] };
        self.core.change(&change, None).unwrap();
    }

    /// Lets the target be sent so many packets of 100 bytes.
    fn send(&self, address: [u8; 4], packets: u64) {
        let counters = self.counters.target(self.slot(address).unwrap());
        counters.packets_out.add(packets);
        counters.bytes_out.add(100 * packets);
    }

    fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }
}

#[test]
fn a_zone_keeps_what_was_counted_in_it_when_a_target_goes_to_another_or_for_good() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let (first, second) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let packets = |bench: &Bench, scope, name: &str| {
            bench.counted(scope, name).get("PacketsToTarget").copied().unwrap_or(0)
        };
        bench.send(first, 5);
        assert_eq!(packets(&bench, CounterScope::AvailabilityZone, "a"), 0, "it was of no zone then");
        bench.register(first, "a");
        bench.register(second, "b");
        bench.send(first, 10);
        bench.send(second, 1);
        let zones =
            |bench: &Bench| ["a", "b"].map(|zone| packets(bench, CounterScope::AvailabilityZone, zone));
        assert_eq!(zones(&bench), [10, 1]);
        bench.register(first, "b");
        bench.send(first, 100);
        assert_eq!(zones(&bench), [10, 101]);
        let whole = |bench: &Bench| {
            [(CounterScope::LoadBalancer, "gw"), (CounterScope::TargetGroup, "fw")]
                .map(|(scope, name)| packets(bench, scope, name))
        };
        assert_eq!(whole(&bench), [116, 116]);
        // Gone for good, with its slot.
        bench.deregister(first);
        bench.core.advance_clock(100_000);
        bench.end_drains().await;
        bench.published();
        bench.core.sweep();
        assert_eq!(bench.slot(first), None);
        assert_eq!((zones(&bench), whole(&bench)), ([10, 101], [116, 116]));
        assert_eq!(bench.counted(CounterScope::Target, "fw/192.0.2.1"), [].into());
        // And back, in whatever slot that is.
        bench.register(first, "a");
        assert_eq!(packets(&bench, CounterScope::Target, "fw/192.0.2.1"), 0);
        bench.send(first, 1000);
        assert_eq!((zones(&bench), whole(&bench)), ([1010, 101], [1116, 1116]));
        let snapshot = bench.snapshot();
        let of_zone: Vec<_> = snapshot
            .zones
            .iter()
            .map(|of| (&*of.balancer, &*of.zone, of.measures.tally.packets_out))
            .collect();
        assert_eq!(of_zone, [("gw", "a", 1010), ("gw", "b", 101)]);
    });
}

#[test]
fn a_load_balancer_keeps_what_was_counted_for_it_when_its_listener_forwards_to_another_group() {
    within_runtime(async || {
        let bench = Bench::start();
        bench.send([192, 0, 2, 1], 7);
        let whole = OBJECTS
            .replace(
                "\"listener\": { \"target_group\": \"fw\" }",
                "\"listener\": { \"target_group\": \"other\" }",
            )
            .replace(
                "\"target_groups\": [{",
                r#""target_groups": [{ "name": "other", "targets": [{ "address": "192.0.2.3" }] }, {"#,
            );
        let document = serde_json::from_str(&whole).unwrap();
        let apply = Change::ApplyDocument { document, now_unix_ms: bench.core.inner.borrow().unix_ms() };
        bench.core.change(&apply, None).unwrap();
        let packets = |scope, name: &str| bench.counted(scope, name)["PacketsToTarget"];
        assert_eq!(packets(CounterScope::LoadBalancer, "gw"), 7);
        assert_eq!(packets(CounterScope::TargetGroup, "fw"), 7);
        assert_eq!(packets(CounterScope::TargetGroup, "other"), 0);
        let slot =
            bench.core.inner.borrow().slots.get(&TargetKey::new("other", [192, 0, 2, 3].into())).unwrap();
        bench.counters.target(slot.id).packets_out.add(2);
        assert_eq!(packets(CounterScope::LoadBalancer, "gw"), 9);
    });
}

#[test]
fn peaks_are_the_highest_mean_of_ten_seconds() {
    within_runtime(async || {
        let bench = Bench::start();
        let (target, start) = ([192, 0, 2, 1], Instant::now());
        let end_window = |seconds| {
            bench.core.inner.borrow_mut().note_peaks(start + Duration::from_secs(seconds));
        };
        bench.send(target, 1_000_000);
        end_window(60);
        bench.send(target, 500);
        end_window(70);
        bench.send(target, 50);
        end_window(75);
        end_window(80);
        for (scope, name) in [
            (CounterScope::LoadBalancer, "gw"),
            (CounterScope::TargetGroup, "fw"),
            (CounterScope::Target, "fw/192.0.2.1"),
        ] {
            let counters = bench.counted(scope, name);
            let peaks = ["PeakPacketsPerSecond", "PeakBytesPerSecond"].map(|peak| counters[peak]);
            assert_eq!(peaks, [50, 5000], "{name}");
        }
        let snapshot = bench.snapshot();
        assert_eq!((snapshot.peak.packets, snapshot.workers[0].peak.packets), (50, 50));
    });
}

#[test]
fn a_scrape_has_every_target_and_how_it_stands() {
    within_runtime(async || {
        let bench = Bench::start();
        let (first, second) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        bench.heal(first);
        bench.core.hear_health();
        bench.deregister(second);
        let flows = &bench.counters.target(bench.slot(first).unwrap());
        flows.active_flows.add(3);
        flows.active_tcp_flows.add(2);
        let snapshot = bench.snapshot();
        let settings = &snapshot.groups[0];
        let times = [settings.interval, settings.detection, settings.worst_detection];
        let seconds = times.map(|time| time.as_secs());
        assert_eq!(seconds, [10, 20, 25], "H-1's interval, two of them, and its timeout beside them");
        let [healthy, draining] = &snapshot.targets[..] else { panic!("{:?}", snapshot.targets) };
        assert_eq!(
            (healthy.state, healthy.reason, &*healthy.address),
            (HealthState::Healthy, None, "192.0.2.1")
        );
        assert_eq!((&*healthy.balancer, &*healthy.group, &*healthy.zone), ("gw", "fw", ""));
        assert_eq!((healthy.measures.active, healthy.at_risk, healthy.weight), (3, 2, 1));
        assert_eq!(draining.state, HealthState::Draining);
        let left = draining.drain_ends.unwrap() - draining.since;
        assert!((90.0..101.0).contains(&left), "{left}");
        assert_eq!((healthy.drain_ends, draining.measures.in_state(HealthState::Draining)), (None, 1));
        let [group] = &snapshot.groups[..] else { panic!("{:?}", snapshot.groups) };
        assert_eq!(group.health_changes[HealthState::Healthy.index()], 1);
        assert_eq!(group.measures.states, [0, 1, 0, 0, 1, 0]);
        assert_eq!((snapshot.stored.count(), snapshot.not_stored), (1, 0), "the deregistration");
        assert!(!snapshot.is_ready, "the worker goes by no configuration yet");
        // A change that cannot be stored.
        std::fs::remove_dir_all(bench.folder.path().join("state")).unwrap();
        bench.core.change(&delay("7"), None).unwrap_err();
        assert_eq!(bench.snapshot().not_stored, 1);
    });
}

#[test]
fn a_node_is_ready_once_every_worker_goes_round_by_the_present_configuration() {
    within_runtime(async || {
        let mut bench = Bench::start();
        bench.core.change(&delay("7"), None).unwrap();
        assert!(!bench.core.readiness().is_ready());
        bench.published().expect("the forwarding state");
        bench.counters.rounds.add(1);
        assert!(bench.core.readiness().is_ready(), "{:?}", bench.core.readiness());
        bench.core.change(&delay("8"), None).unwrap();
        assert!(bench.core.readiness().is_ready(), "it is about to follow");
        assert_eq!(bench.core.readiness().behind.len(), 1);
    });
}
