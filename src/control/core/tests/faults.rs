//! Faults inside the daemon: what is told of them.

use super::*;
use crate::control::monitor::Source as _;

/// Looks every 20 ms of a time that the test makes, for a second; what was told in it.
fn looks(bench: &Bench, now: &mut Instant) -> Vec<What> {
    let mut heard = bench.core.events.listen();
    for _ in 0..50 {
        *now += Duration::from_millis(20);
        bench.core.look_after_workers(*now);
    }
    std::iter::from_fn(|| heard.try_recv().ok()).map(|event| event.what).collect()
}

#[test]
fn a_stuck_worker_is_told_within_a_second_and_so_is_that_it_goes_on_and_that_it_panicked() {
    within_runtime(async || {
        let bench = Bench::start();
        let mut now = Instant::now();
        bench.counters.rounds.add(1);
        bench.core.look_after_workers(now);
        assert!(bench.core.readiness().goes_round());
        assert_eq!(looks(&bench, &mut now), [What::WorkerStuck { worker: 0, silent_for_ms: 500 }]);
        assert!(!bench.core.readiness().goes_round());
        bench.counters.rounds.add(1);
        let told = looks(&bench, &mut now);
        assert_eq!(told[0], What::WorkerWentOn { worker: 0, stuck_for_ms: 1000 });
        bench.counters.panicked.set(1);
        assert_eq!(bench.core.look_after_workers(now), None, "it is told first");
        assert_eq!(looks(&bench, &mut now), []);
        let sentence = bench.core.look_after_workers(now).expect("the daemon ends");
        assert!(sentence.starts_with("worker 0 ended by a panic"), "{sentence}");
        assert!(!bench.core.readiness().goes_round());
    });
}

#[test]
fn a_control_core_that_starts_anew_before_the_end_ends_the_daemon_for_a_worker_that_has_panicked() {
    within_runtime(async || {
        let bench = Bench::start();
        let mut now = Instant::now();
        bench.counters.rounds.add(1);
        bench.counters.panicked.set(1);
        assert!(!bench.core.readiness().goes_round(), "before anybody has looked");
        assert_eq!(bench.core.look_after_workers(now), None, "it is told first");
        // The next one has the same workers, and nothing of what this one has set about.
        bench.core.ends.set(None);
        assert_eq!(looks(&bench, &mut now), [], "it was told");
        let sentence = bench.core.look_after_workers(now).expect("the daemon ends all the same");
        assert!(sentence.starts_with("worker 0 ended by a panic"), "{sentence}");
        assert!(!bench.core.readiness().goes_round());
    });
}
