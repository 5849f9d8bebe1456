//! A control core that takes over from one that is gone.

use std::sync::Arc;

use super::*;
use crate::control::health::HealthState;
use crate::control::health::check::Outcome;
use crate::control::resume;

fn key(last: u8) -> TargetKey {
    TargetKey::new("fw", [192, 0, 2, last].into())
}

/// Has a check of a target end well so often that it is healthy.
fn make_healthy(bench: &Bench, last: u8) {
    for _ in 0..5 {
        bench.core.inner.borrow().health.pretend(&key(last), Outcome::Success);
    }
    bench.core.hear_health();
}

#[test]
fn numbers_and_health_go_on_where_a_control_core_takes_over() {
    within_runtime(async || {
        let keeper = Keeper::shared();
        let mut before = Bench::resumed(Arc::clone(&keeper));
        make_healthy(&before, 2);
        let knows = || !resume::lock(&keeper).last().unwrap().health().is_empty();
        let began = Instant::now();
        while !knows() && began.elapsed() < Duration::from_secs(5) {
            tokio::time::sleep(POLL).await;
            before.core.inner.borrow_mut().hand_on_health();
        }
        let slots = [1, 2].map(|last| before.slot([192, 0, 2, last]).unwrap());
        let known = resume::lock(&keeper).last().unwrap().health();
        assert_eq!(known.keys().collect::<Vec<_>>(), [&key(2)]);
        let first = before.published().unwrap();
        drop(before);

        let mut after = Bench::resumed(keeper);
        assert_eq!([1, 2].map(|last| after.slot([192, 0, 2, last]).unwrap()), slots);
        let forwarding = after.published().unwrap();
        // H-9
        assert_eq!(forwarding.conditions[slots[0].index()], Condition::Initial);
        assert_eq!(forwarding.conditions[slots[1].index()], Condition::Healthy);
        let generation = |forwarding: &Forwarding, slot: TargetId| {
            forwarding.targets[slot.index()].as_ref().unwrap().generation
        };
        assert_eq!(generation(&forwarding, slots[1]), generation(&first, slots[1]));
        let view = after.core.inner.borrow().health.view(&key(2)).unwrap();
        assert_eq!((view.state, view.checks.made), (HealthState::Healthy, 0));
        let event = after.core.health_events.borrow_mut().try_recv().unwrap();
        assert_eq!((event.key, event.to), (key(1), HealthState::Initial), "nothing is told of the other");
        assert!(after.core.health_events.borrow_mut().try_recv().is_err());
    });
}

// T-4
#[test]
fn a_target_that_is_no_longer_configured_is_known_until_its_flows_have_ended() {
    within_runtime(async || {
        let keeper = Keeper::shared();
        let before = Bench::resumed(Arc::clone(&keeper));
        let slot = before.slot([192, 0, 2, 2]).unwrap();
        drop(before);
        let mut last = resume::lock(&keeper).last().unwrap().clone();
        let holder = last.slots[slot.index()].holder.as_mut().unwrap();
        holder.address = [192, 0, 2, 77].into();
        resume::lock(&keeper).keep(last).unwrap();

        let mut after = Bench::resumed(keeper);
        after.counters.target(slot).active_flows.add(1);
        let forwarding = after.published().unwrap();
        assert_eq!(after.slot([192, 0, 2, 77]), Some(slot));
        assert_eq!(forwarding.conditions[slot.index()], Condition::Removed);
        assert_ne!(after.slot([192, 0, 2, 2]), Some(slot), "its flows are another's");
        after.core.sweep();
        assert_eq!(after.slot([192, 0, 2, 77]), Some(slot));
        after.counters.target(slot).active_flows.sub(1);
        after.core.sweep();
        assert_eq!(after.slot([192, 0, 2, 77]), None);
    });
}

#[test]
fn no_worker_hears_of_a_slot_before_it_is_handed_on() {
    within_runtime(async || {
        let keeper = Keeper::shared();
        let mut bench = Bench::resumed(Arc::clone(&keeper));
        let held = |keeper: &SharedKeeper| {
            let keeper = resume::lock(keeper);
            keeper.last().unwrap().slots.iter().filter(|slot| slot.holder.is_some()).count()
        };
        assert_eq!(held(&keeper), 2);
        let new = crate::control::model::TargetDescription {
            address: [192, 0, 2, 3].into(),
            zone: None,
            weight: None,
        };
        bench.published().unwrap();
        let change = Change::RegisterTargets { target_group: "fw".to_owned(), targets: vec![new] };
        bench.core.change(&change, None).unwrap();
        assert_eq!(held(&keeper), 3);
        assert!(bench.published().unwrap().targets.len() >= 3);
    });
}
