//! Faults inside the daemon: what is told of them.

use super::*;

/// Looks every 20 ms of a time that the test makes, for a second; what was told in it.
fn looks(bench: &Bench, now: &mut Instant) -> Vec<What> {
    let mut heard = bench.core.events.subscribe();
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
        assert!(bench.core.workers_alive());
        assert_eq!(looks(&bench, &mut now), [What::WorkerStuck { worker: 0, silent_for_ms: 500 }]);
        assert!(!bench.core.workers_alive(), "the watchdog is not fed");
        bench.counters.rounds.add(1);
        let told = looks(&bench, &mut now);
        assert_eq!(told[0], What::WorkerWentOn { worker: 0, stuck_for_ms: 1000 });
        bench.counters.panicked.set(1);
        assert_eq!(bench.core.look_after_workers(now), None, "it is told first");
        assert_eq!(looks(&bench, &mut now), []);
        let sentence = bench.core.look_after_workers(now).expect("the daemon ends");
        assert!(sentence.starts_with("worker 0 ended by a panic"), "{sentence}");
        assert!(!bench.core.workers_alive());
    });
}
