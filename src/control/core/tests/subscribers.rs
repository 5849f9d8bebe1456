//! What subscribers are told, and what not.

use super::*;
use crate::control::health::HealthState::Unhealthy;
use crate::control::health::check::Outcome as Check;
use crate::control::health::{ReasonCode, StateReason};
use tokio::sync::broadcast::error::TryRecvError;

/// Lets the core run for a moment.
async fn run(bench: &Bench) {
    let (_tell, news) = mpsc::unbounded_channel();
    let moment = tokio::time::sleep(Duration::from_millis(20));
    tokio::select! {
        fault = bench.core.run(news) => panic!("{fault}"),
        () = moment => {}
    }
}

#[test]
fn a_state_that_a_new_subscriber_sees_already_is_not_told_to_it_as_news() {
    within_runtime(async || {
        let bench = Bench::start();
        let mut before = bench.core.events();
        let fail = || {
            let inner = bench.core.inner.borrow();
            let failure = Check::Failure(StateReason::plain(ReasonCode::Timeout));
            inner.health.pretend(&TargetKey::new("fw", [192, 0, 2, 1].into()), failure);
        };
        fail();
        fail();
        // The checks have decided, and the core has not come to hear of it.
        let mut events = bench.core.events();
        let state = bench.core.state();
        assert_eq!(bench.core.targets(state.target_group("fw").unwrap())[0].state, Unhealthy);
        run(&bench).await;
        let of = |event: Event| match event.what {
            What::TargetHealthChanged { to, .. } => Some(to),
            _ => None,
        };
        assert_eq!(std::iter::from_fn(|| events.try_recv().ok()).find_map(of), None);
        let told = std::iter::from_fn(|| before.try_recv().ok()).filter_map(of);
        assert_eq!(told.collect::<Vec<_>>(), [Unhealthy], "who was there before is told");
    });
}

// T-3
#[test]
fn who_reads_loses_nothing_of_a_change_that_drains_every_target_of_the_node() {
    within_runtime(async || {
        let bench = Bench::start();
        let mut events = bench.core.events();
        let every = (0..u32::try_from(MAX_TARGETS).unwrap()).map(|n| Ipv4Addr::from(0x0a00_0000 + n));
        let outcome = crate::control::model::Outcome::Targets {
            target_group: "fw".to_owned().try_into().unwrap(),
            changed: every.map(|address| (address, TargetChange::Draining)).collect(),
        };
        let before = bench.core.state();
        bench.core.inner.borrow_mut().announce(&before, &[outcome], &bench.core.events);
        let mut told = 0;
        let end = loop {
            match events.try_recv() {
                Ok(_) => told += 1,
                Err(end) => break end,
            }
        };
        assert_eq!((end, told), (TryRecvError::Empty, MAX_TARGETS + 1));
    });
}
