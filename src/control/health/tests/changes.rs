//! What a change of configuration does to what is known: H-9, T-7.

use std::time::Duration;

use tokio::time::sleep;

use super::scripted::{Bench, Manner, checked, checked_by, key, settings, spec};
use crate::control::health::{CheckSpec, Duty, HealthState, ReasonCode, Unused};
use crate::control::model::{HealthCheckSettings, Matcher, Probe};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[tokio::test(start_paused = true)]
async fn a_change_of_others_leaves_a_target_its_counts_its_check_and_its_place_h9() {
    let (target, other) = (key(1), key(2));
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Silent);
    while bench.script.take_begun().is_empty() {
        sleep(ms(1)).await;
    }
    let began = bench.view(&target);
    let ended = bench.script.ended();
    // Its check runs; meanwhile others come, change and go, and its own spec is given anew.
    bench.engine.update([checked(&other), checked(&target)]);
    bench.engine.update([checked_by(&other, |settings| settings.port = 81), checked(&target)]);
    bench.engine.update([checked(&target), spec(&other, Duty::Drain)]);
    bench.engine.update([checked(&target)]);
    assert_eq!(bench.view(&target), began);
    bench.events();
    sleep(settings().timeout + ms(2)).await;
    assert_eq!((bench.script.ended(), bench.view(&target).failures), (ended + 1, 1));

    let first = began.last_check.unwrap().started.monotonic;
    sleep(settings().interval).await;
    let apart = (bench.view(&target).last_check.unwrap().started.monotonic - first).as_millis();
    assert!((1999..=2001).contains(&apart), "{apart} ms: the place in the interval has moved");
    assert_eq!(bench.event().to, HealthState::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn lower_thresholds_decide_at_once_by_the_counts_there_are_h9() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Refuses);
    bench.pass(1).await;
    bench.script.take_begun();
    bench.engine.update([checked_by(&target, |settings| settings.unhealthy_threshold = 1)]);
    let event = bench.event();
    assert_eq!((event.from, event.to), (HealthState::Healthy, HealthState::Unhealthy));
    assert_eq!(event.checks_in_row, 1);
    assert_eq!(event.reason.unwrap().code, ReasonCode::FailedHealthChecks);
    assert!(event.first_failure_at.unwrap().monotonic < event.at.monotonic);
    assert_eq!(bench.script.take_begun(), [], "no check was needed for it");
}

#[tokio::test(start_paused = true)]
async fn changed_thresholds_do_not_end_the_check_that_runs_h9() {
    let target = key(1);
    let bench = &mut Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Silent);
    while bench.script.take_begun().is_empty() {
        sleep(ms(1)).await;
    }
    bench.engine.update([checked_by(&target, |settings| settings.unhealthy_threshold = 5)]);
    sleep(settings().timeout + ms(2)).await;
    assert_eq!((bench.view(&target).failures, bench.script.take_begun()), (1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn higher_thresholds_take_nothing_back_and_count_on_h9() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Refuses);
    bench.pass(1).await;
    let wider = |settings: &mut HealthCheckSettings| {
        (settings.healthy_threshold, settings.unhealthy_threshold) = (10, 3);
    };
    bench.engine.update([checked_by(&target, wider)]);
    assert_eq!((bench.stands(&target).0, bench.view(&target).failures), (HealthState::Healthy, 1));
    bench.pass(1).await;
    assert_eq!(bench.events(), []);
    bench.pass(1).await;
    assert_eq!(bench.event().to, HealthState::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn another_question_keeps_the_state_and_restarts_the_counts_h9() {
    let http = |path: &str| Probe::Http { path: path.to_owned(), matcher: Matcher::default() };
    let questions: [(&str, HealthCheckSettings); 3] = [
        ("port", HealthCheckSettings { port: 81, ..settings() }),
        ("protocol", HealthCheckSettings { probe: http("/"), ..settings() }),
        ("path", HealthCheckSettings { probe: http("/deep"), ..settings() }),
    ];
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    for (what, asked) in questions {
        bench.script.set(&target, Manner::Refuses);
        bench.pass(1).await;
        assert_eq!(bench.view(&target).failures, 1, "{what}");
        bench.engine.update([checked_by(&target, |settings| *settings = asked.clone())]);
        assert_eq!(
            (bench.stands(&target).0, bench.view(&target).failures),
            (HealthState::Healthy, 0),
            "{what}"
        );
        bench.script.take_begun();
        bench.pass(1).await;
        assert_eq!(bench.script.take_begun()[0].target.port(), asked.port, "{what}");
        assert_eq!((bench.events(), bench.stands(&target).0), (vec![], HealthState::Healthy), "{what}");
        bench.script.set(&target, Manner::Answers);
        bench.pass(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_interval_or_timeout_keeps_the_counts_h9() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Refuses);
    bench.pass(1).await;
    bench.engine.update([checked_by(&target, |settings| {
        (settings.interval, settings.timeout) = (ms(100), ms(50));
    })]);
    assert_eq!((bench.stands(&target).0, bench.view(&target).failures), (HealthState::Healthy, 1));
    sleep(ms(101)).await;
    assert_eq!(bench.event().to, HealthState::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_drains_is_not_checked_and_keeps_its_verdict_t3() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Refuses);
    bench.pass(1).await;
    let verdict = bench.engine.verdict(&target);
    bench.engine.update([spec(&target, Duty::Drain)]);
    let event = bench.event();
    assert_eq!((event.from, event.to), (HealthState::Healthy, HealthState::Draining));
    assert_eq!(event.reason.unwrap().code, ReasonCode::DeregistrationInProgress);
    bench.script.take_begun();
    bench.pass(5).await;
    assert_eq!(bench.script.take_begun(), []);
    // Settings that would decide by the one failure do not: nobody would be told.
    let strict = checked_by(&target, |settings| settings.unhealthy_threshold = 1);
    bench.engine.update([CheckSpec { duty: Duty::Drain, ..strict }]);
    assert_eq!((bench.engine.verdict(&target), bench.events()), (verdict, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_target_registered_again_or_used_again_is_initial_t7() {
    let target = key(1);
    for duty in [Duty::Drain, Duty::Unused(Unused::Group)] {
        let mut bench = Bench::healthy(&target).await;
        bench.engine.update([spec(&target, duty)]);
        let away = bench.event().to;
        bench.engine.update([checked(&target)]);
        let event = bench.event();
        assert_eq!((event.from, event.to), (away, HealthState::Initial));
        let registering = (HealthState::Initial, Some(ReasonCode::RegistrationInProgress));
        assert_eq!(bench.stands(&target), registering);
        assert_eq!(bench.view(&target).last_check, None);
        bench.pass(2).await;
        assert_eq!(bench.stands(&target).0, HealthState::Initial);
        bench.pass(1).await;
        assert_eq!(bench.event().to, HealthState::Healthy);
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_removed_is_told_once_and_checked_no_more_h5() {
    let target = key(1);
    let mut bench = Bench::healthy(&target).await;
    bench.script.set(&target, Manner::Silent);
    while bench.script.take_begun().is_empty() {
        sleep(ms(1)).await;
    }
    let ended = bench.script.ended();
    bench.engine.update([]);
    let event = bench.event();
    assert_eq!((event.from, event.to), (HealthState::Healthy, HealthState::Unused));
    assert_eq!(event.reason.unwrap().code, ReasonCode::NotRegistered);
    assert_eq!((bench.engine.view(&target), bench.engine.verdict(&target)), (None, None));
    bench.pass(5).await;
    assert_eq!((bench.script.take_begun(), bench.script.ended()), (vec![], ended));
    assert_eq!(bench.events(), []);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_dropped_ends_its_checks() {
    let target = key(1);
    let Bench { script, engine, .. } = Bench::healthy(&target).await;
    drop(engine);
    sleep(settings().interval * 3).await;
    assert_eq!(script.take_begun(), []);
}

#[tokio::test(start_paused = true)]
async fn an_address_given_twice_is_one_target_o3() {
    let (mut bench, target) = (Bench::new(), key(1));
    bench.engine.update([checked(&target), checked(&target)]);
    assert_eq!(bench.event().to, HealthState::Initial);
    bench.pass(4).await;
    let begun = bench.script.take_begun().len();
    assert!((3..=4).contains(&begun), "{begun} checks in 4 intervals");
    bench.engine.update([checked(&target), spec(&target, Duty::Drain)]);
    assert_eq!(bench.stands(&target).0, HealthState::Draining);
}
