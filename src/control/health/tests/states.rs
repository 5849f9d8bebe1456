//! How a target's state follows its checks: H-3 to H-7, R-12.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::scripted::{Bench, Manner, checked, checked_by, key, settings, spec};
use crate::control::health::damping::Verdict;
use crate::control::health::{CannotCheck, Duty, HealthState, ReasonCode, Unused};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn a_new_target_is_initial_until_enough_checks_have_succeeded_h4_h5() {
    let (mut bench, target) = (Bench::new(), key(1));
    bench.engine.update([checked(&target)]);
    let registered = bench.event();
    assert_eq!((registered.from, registered.to), (HealthState::Unused, HealthState::Initial));
    let progress = |code| (HealthState::Initial, Some(code));
    assert_eq!(bench.stands(&target), progress(ReasonCode::RegistrationInProgress));

    // From the start of the first check, not from its end.
    bench.script.set(&target, Manner::Silent);
    while bench.script.take_begun().is_empty() {
        assert_eq!(bench.stands(&target), progress(ReasonCode::RegistrationInProgress));
        sleep(ms(1)).await;
    }
    assert_eq!(bench.script.ended(), 0);
    assert_eq!(bench.stands(&target), progress(ReasonCode::InitialHealthChecking));

    bench.script.set(&target, Manner::Answers);
    bench.pass(2).await;
    assert_eq!(bench.stands(&target), progress(ReasonCode::InitialHealthChecking));
    assert_eq!(bench.events(), []);
    bench.pass(1).await;
    assert_eq!(bench.stands(&target), (HealthState::Healthy, None));
    let event = bench.event();
    assert_eq!((event.from, event.to), (HealthState::Initial, HealthState::Healthy));
    assert_eq!((event.reason, event.checks_in_row, event.first_failure_at), (None, 3, None));
    assert_eq!(bench.view(&target).since, event.at);
}

#[tokio::test(start_paused = true)]
async fn a_new_target_that_fails_its_first_checks_is_unhealthy_h4() {
    let (mut bench, target) = (Bench::new(), key(1));
    bench.script.set(&target, Manner::Refuses);
    bench.engine.update([checked(&target)]);
    bench.pass(2).await;
    let events = bench.events();
    assert_eq!(
        events.iter().map(|event| event.to).collect::<Vec<_>>(),
        [HealthState::Initial, HealthState::Unhealthy]
    );
    let reason = events[1].reason.clone().unwrap();
    assert_eq!(reason.code, ReasonCode::FailedHealthChecks);
    assert_eq!(reason.description, "Health checks failed: refused");
}

#[tokio::test(start_paused = true)]
async fn a_death_is_decided_within_interval_times_threshold_and_told_at_once_h7() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    // The death falls anywhere between two checks.
    for step in 0..20 {
        sleep(ms(50 * step)).await;
        let death = Instant::now().into_std();
        bench.script.set(&target, Manner::Refuses);
        let event = loop {
            if let Some(event) = bench.events().pop() {
                break event;
            }
            sleep(ms(1)).await;
        };
        assert_eq!(event.to, HealthState::Unhealthy);
        let detection = event.at.monotonic - death;
        assert!(detection <= settings().detection_time() + ms(1), "{detection:?}");
        // The event was in the channel in the millisecond of the decision.
        assert!(Instant::now().into_std() - event.at.monotonic <= ms(1));
        let began = event.first_failure_at.unwrap().monotonic;
        assert!(began >= death && began - death <= settings().interval + ms(1));
        assert_eq!((event.at.monotonic - began).as_millis(), 1000);
        assert_eq!(event.checks_in_row, 2);

        bench.script.set(&target, Manner::Answers);
        bench.pass(3).await;
        assert_eq!(bench.event().to, HealthState::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_death_takes_one_timeout_more_h7() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Silent);
    bench.pass(2).await;
    assert_eq!(bench.stands(&target), (HealthState::Healthy, None));
    sleep(settings().timeout + ms(2)).await;
    assert_eq!(bench.stands(&target), (HealthState::Unhealthy, Some(ReasonCode::Timeout)));
    let event = bench.event();
    let decided = event.at.monotonic - event.first_failure_at.unwrap().monotonic;
    assert!((1400..=1402).contains(&decided.as_millis()), "{decided:?}");
}

#[tokio::test(start_paused = true)]
async fn sub_second_settings_find_a_death_in_their_own_time_h2() {
    let (mut bench, target) = (Bench::new(), key(1));
    bench.engine.update([checked_by(&target, |settings| {
        (settings.interval, settings.timeout) = (ms(10), ms(10));
        (settings.healthy_threshold, settings.unhealthy_threshold) = (1, 1);
    })]);
    sleep(ms(11)).await;
    assert_eq!(bench.stands(&target).0, HealthState::Healthy);
    bench.script.set(&target, Manner::Refuses);
    sleep(ms(11)).await;
    assert_eq!(bench.events().pop().unwrap().to, HealthState::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn one_success_clears_the_failures_and_one_failure_the_successes_h9() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    for manner in [Manner::Refuses, Manner::Answers, Manner::Refuses, Manner::Answers] {
        bench.script.set(&target, manner);
        bench.pass(1).await;
    }
    assert_eq!((bench.events(), bench.stands(&target).0), (vec![], HealthState::Healthy));
    let view = bench.view(&target);
    assert_eq!((view.successes, view.failures), (1, 0));
    // The time of the first failure is that of the row that decided, not of one that was cleared.
    let row_begins = Instant::now().into_std();
    bench.script.set(&target, Manner::Refuses);
    bench.pass(2).await;
    assert!(bench.event().first_failure_at.unwrap().monotonic > row_begins);
    for manner in [Manner::Answers, Manner::Answers, Manner::Refuses, Manner::Answers, Manner::Answers] {
        bench.script.set(&target, manner);
        bench.pass(1).await;
    }
    assert_eq!((bench.events(), bench.stands(&target).0), (vec![], HealthState::Unhealthy));
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_target_is_checked_on_and_tells_what_it_did_last_h3_h5() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Refuses);
    bench.pass(2).await;
    let decided = bench.event().at;
    assert_eq!(bench.stands(&target), (HealthState::Unhealthy, Some(ReasonCode::FailedHealthChecks)));
    bench.script.set(&target, Manner::Silent);
    bench.pass(2).await;
    let view = bench.view(&target);
    assert_eq!(view.reason.unwrap().description, "Request timed out: silent");
    assert_eq!((view.since, bench.events()), (decided, vec![]));
    let last = view.last_check.unwrap();
    assert_eq!(last.failure.unwrap().code, ReasonCode::Timeout);
    assert!((400..=402).contains(&last.latency.as_millis()), "{:?}", last.latency);
    // A success or two do not yet take the reason away.
    bench.script.set(&target, Manner::Answers);
    bench.pass(2).await;
    assert_eq!(bench.stands(&target), (HealthState::Unhealthy, Some(ReasonCode::Timeout)));
    bench.pass(1).await;
    assert_eq!(bench.stands(&target), (HealthState::Healthy, None));
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_this_node_makes_a_target_unavailable_and_keeps_the_verdict_h4() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::NoSocket);
    bench.pass(1).await;
    assert_eq!(bench.stands(&target), (HealthState::Healthy, None));
    bench.pass(1).await;
    let view = bench.view(&target);
    assert_eq!((view.state, view.verdict), (HealthState::Unavailable, Verdict::Healthy));
    let description = "Health checks failed due to an internal error: no socket";
    assert_eq!(view.reason.unwrap().description, description);
    assert_eq!(bench.engine.verdict(&target), Some(Verdict::Healthy));
    assert_eq!(bench.event().to, HealthState::Unavailable);

    bench.script.set(&target, Manner::Refuses);
    bench.pass(1).await;
    let event = bench.event();
    assert_eq!((event.from, event.to), (HealthState::Unavailable, HealthState::Healthy));
    bench.pass(1).await;
    assert_eq!(bench.event().to, HealthState::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn unused_and_draining_targets_are_not_checked_h6() {
    let mut bench = Bench::new();
    let duties = [
        (Duty::Unused(Unused::Group), HealthState::Unused, ReasonCode::NotInUse),
        (Duty::Unused(Unused::Zone), HealthState::Unused, ReasonCode::NotInUse),
        (Duty::Unused(Unused::Address), HealthState::Unused, ReasonCode::IpUnusable),
        (Duty::Drain, HealthState::Draining, ReasonCode::DeregistrationInProgress),
    ];
    let keys: Vec<_> = (1..).map(key).take(duties.len()).collect();
    bench.engine.update(keys.iter().zip(duties).map(|(key, (duty, ..))| spec(key, duty)));
    bench.pass(5).await;
    assert_eq!(bench.script.take_begun(), []);
    for (key, (duty, state, code)) in keys.iter().zip(duties) {
        assert_eq!(bench.stands(key), (state, Some(code)), "{duty:?}");
        let refused = Err(CannotCheck::NotChecked(key.clone()));
        assert_eq!(bench.engine.check_now(key), refused, "{duty:?}");
    }
    let described = |index: usize| bench.view(&keys[index]).reason.unwrap().description;
    assert_ne!(described(0), described(1), "group and zone share a code, and not a sentence");
}

#[tokio::test(start_paused = true)]
async fn checks_of_a_target_are_one_interval_apart_and_never_overlap_h3() {
    let (bench, target) = (&mut Bench::new(), key(1));
    bench.script.set(&target, Manner::Silent);
    bench.engine.update([checked_by(&target, |settings| settings.timeout = settings.interval)]);
    bench.pass(10).await;
    let begun = bench.script.take_begun();
    assert!((9..=10).contains(&begun.len()), "{}", begun.len());
    for pair in begun.windows(2) {
        let apart = (pair[1].at - pair[0].at).as_millis();
        // A timeout of a whole interval ends one tick of the timer after the next check is due.
        assert!((1000..=1001).contains(&apart), "{apart} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_checks_of_many_targets_make_no_burst_h3() {
    let mut bench = Bench::new();
    let keys = || (0..4).flat_map(|group| (1..=250).map(move |last| (group, key(last))));
    bench.engine.update(keys().map(|(group, mut key)| {
        key.group = format!("group-{group}").into();
        checked(&key)
    }));
    bench.pass(3).await;
    let begin = bench.script.take_begun();
    assert!((2_900..=3_000).contains(&begin.len()), "{}", begin.len());
    // 10 a window of 10 ms is the mean; 30 is six standard deviations above it.
    for window in begin.windows(31) {
        let span = window[30].at - window[0].at;
        assert!(span >= ms(10), "31 checks within {span:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_is_checked_at_once_out_of_turn_r12() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    // Right after a regular check, the longest time before the next.
    while bench.script.take_begun().is_empty() {
        sleep(ms(1)).await;
    }
    let regular = Instant::now();
    sleep(ms(50)).await;
    bench.script.set(&target, Manner::Refuses);
    for _ in 0..3 {
        bench.engine.check_now(&target).unwrap();
    }
    sleep(ms(1)).await;
    assert_eq!(bench.script.take_begun().len(), 1, "three requests are one check");
    assert_eq!(bench.view(&target).checks.out_of_turn, 1);
    assert_eq!(bench.view(&target).failures, 1, "its result counts");
    bench.engine.check_now(&target).unwrap();
    sleep(ms(1)).await;
    assert_eq!(bench.event().to, HealthState::Unhealthy);
    bench.script.take_begun();
    // The regular check keeps its place.
    sleep_until(regular + ms(1001)).await;
    let begun = bench.script.take_begun();
    assert_eq!(begun.len(), 1);
    let apart = (begun[0].at - regular.into_std()).as_millis();
    assert!((998..=1001).contains(&apart), "{apart} ms");
    let unknown = key(9);
    assert_eq!(bench.engine.check_now(&unknown), Err(CannotCheck::NotRegistered(unknown)));
}

#[tokio::test(start_paused = true)]
async fn a_check_asked_for_during_another_begins_after_it_r12() {
    let target = key(1);
    let bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Silent);
    while bench.script.take_begun().is_empty() {
        sleep(ms(1)).await;
    }
    // What runs may have asked before the evidence came; a check that begins later is owed.
    bench.engine.check_now(&target).unwrap();
    sleep(ms(300)).await;
    assert_eq!(bench.script.take_begun(), []);
    sleep(ms(200)).await;
    assert_eq!(bench.script.take_begun().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn checks_are_counted_by_how_they_ended_and_no_state_forgets_them_h5() {
    let (mut bench, target) = (Bench::new(), key(1));
    bench.engine.update([checked(&target)]);
    let manners = [(Manner::Answers, 5), (Manner::Refuses, 4), (Manner::Silent, 3), (Manner::NoSocket, 2)];
    for (manner, checks) in manners {
        bench.script.set(&target, manner);
        bench.pass(checks).await;
    }
    let checks = bench.view(&target).checks;
    assert_eq!((checks.failures, checks.timeouts, checks.internal_errors), (4, 3, 2));
    assert_eq!((checks.made, checks.out_of_turn, checks.mismatches), (14, 0, 0));
    bench.engine.update([spec(&target, Duty::Drain)]);
    bench.engine.update([checked(&target)]);
    assert_eq!(bench.view(&target).checks, checks);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_failed_while_the_process_was_stopped_says_nothing_and_is_made_again_h4() {
    let (mut bench, target) = (Bench::new(), key(1));
    bench.engine.update([checked(&target)]);
    bench.pass(3).await;
    assert_eq!(bench.events().len(), 2);
    for (stopped, failures) in [(Duration::from_secs(5), 0), (Duration::ZERO, 1)] {
        bench.script.set(&target, Manner::Silent);
        bench.script.take_begun();
        while bench.script.take_begun().is_empty() {
            bench.engine.beat();
            sleep(ms(2)).await;
        }
        bench.script.set(&target, Manner::Answers);
        // Nobody runs meanwhile; and then as ever, until the check has ended.
        tokio::time::advance(stopped).await;
        let ended = bench.script.ended();
        while bench.script.ended() == ended {
            sleep(ms(2)).await;
            bench.engine.beat();
        }
        sleep(ms(2)).await;
        assert_eq!(bench.view(&target).failures, failures, "stopped for {stopped:?}");
        assert_eq!((bench.engine.discarded(), bench.events()), (1, Vec::new()));
    }
}
