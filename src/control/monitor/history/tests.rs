//! What a history keeps, sums up and forgets.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn reading(flows: u64, counted: u64) -> Reading {
    Reading {
        flows,
        opened: counted,
        packets_to: counted * 10,
        packets_from: counted * 9,
        bytes: counted * 1000,
        resets: counted,
        state: Some(HealthState::Healthy),
    }
}

fn fine(history: &History, target: Option<&str>) -> Columns {
    history.view(target, Span::Fine).unwrap().columns
}

fn coarse(history: &History, target: Option<&str>) -> Columns {
    history.view(target, Span::Coarse).unwrap().columns
}

/// A history after so many seconds in each of which everything grew by one, and one target.
fn after(seconds: u64) -> History {
    let mut history = History::default();
    for second in 0..seconds {
        let now = reading(second, second);
        history.note(Timestamp::from_unix_ms(0), SECOND, now, [("fw/a", now)]);
    }
    history
}

#[test]
fn five_minutes_are_kept_by_the_second_and_the_hour_by_ten() {
    let history = after(5000);
    for name in [None, Some("fw/a")] {
        let (fine, coarse) = (fine(&history, name), coarse(&history, name));
        assert_eq!((fine.flows.len(), coarse.flows.len()), (300, 360));
        assert_eq!(fine.flows.last().unwrap(), &Some(4999));
        assert_eq!(fine.flows[0], Some(4700));
        // The last tick that ended ten is number 5000, the reading of 4,999.
        assert_eq!(coarse.flows.last().unwrap(), &Some(4999));
        assert_eq!(coarse.flows[0], Some(1409));
        assert_eq!((fine.step_ms, coarse.step_ms), (1000, 10_000));
    }
}

#[test]
fn a_view_says_how_long_ago_its_last_samples_ended() {
    let history = after(1234);
    assert_eq!((fine(&history, None).ended_ms_ago, coarse(&history, None).ended_ms_ago), (0, 4000));
}

#[test]
fn rates_are_per_second_and_resets_are_counted() {
    let history = after(200);
    let (view, summed) = (fine(&history, Some("fw/a")), coarse(&history, Some("fw/a")));
    assert_eq!(view.packets_to_target[100], Some(10.0));
    assert_eq!(view.packets_from_target[100], Some(9.0));
    assert_eq!(view.bytes[100], Some(1000.0));
    assert_eq!(view.resets[100], Some(1));
    assert_eq!(summed.packets_to_target[5], Some(10.0));
    assert_eq!(summed.resets[5], Some(10), "ten seconds, one each");
}

#[test]
fn the_first_reading_says_nothing_of_before() {
    let mut history = History::default();
    history.note(Timestamp::from_unix_ms(0), SECOND, reading(5, 1_000_000), []);
    let view = fine(&history, None);
    assert_eq!((view.flows[0], view.packets_to_target[0]), (Some(5), Some(0.0)));
}

#[test]
fn a_reader_that_was_held_up_spreads_what_passed_and_tells_resets_once() {
    let mut history = History::default();
    let start = reading(1, 0);
    history.note(Timestamp::from_unix_ms(0), SECOND, start, []);
    history.note(Timestamp::from_unix_ms(4000), SECOND * 4, reading(1, 40), []);
    let view = fine(&history, None);
    assert_eq!(view.packets_to_target, [Some(0.0), Some(100.0), Some(100.0), Some(100.0), Some(100.0)]);
    assert_eq!(view.resets, [Some(0), Some(0), Some(0), Some(0), Some(40)]);
}

#[test]
fn a_coarse_sample_has_the_worst_state_of_its_seconds() {
    let mut history = History::default();
    for second in 0..20 {
        let state = if second == 4 { HealthState::Unhealthy } else { HealthState::Healthy };
        let now = Reading { state: Some(state), ..reading(1, second) };
        history.note(Timestamp::from_unix_ms(0), SECOND, now, [("fw/a", now)]);
    }
    let view = coarse(&history, Some("fw/a"));
    assert_eq!(view.state, [Some(HealthState::Unhealthy), Some(HealthState::Healthy)]);
}

#[test]
fn a_target_that_comes_back_has_a_gap_and_no_leap() {
    let mut history = History::default();
    let note = |history: &mut History, there: bool, counted| {
        let now = reading(1, counted);
        history.note(Timestamp::from_unix_ms(0), SECOND, now, there.then_some(("fw/a", now)));
    };
    note(&mut history, true, 0);
    for _ in 0..3 {
        note(&mut history, false, 0);
    }
    assert_eq!(fine(&history, Some("fw/a")).ended_ms_ago, 3000, "it is shown where it belongs");
    note(&mut history, true, 1000);
    note(&mut history, true, 1001);
    let view = fine(&history, Some("fw/a"));
    let packets = [Some(0.0), None, None, None, Some(0.0), Some(10.0)];
    assert_eq!(view.packets_to_target, packets);
}

#[test]
fn a_counter_that_began_anew_makes_no_leap() {
    let mut history = after(3);
    history.note(Timestamp::from_unix_ms(0), SECOND, reading(1, 1), []);
    let view = fine(&history, None);
    assert_eq!(view.packets_to_target.last().unwrap(), &Some(0.0));
}

#[test]
fn no_more_targets_have_a_history_than_there_is_room_for_and_the_present_go_before_the_gone() {
    let mut history = History::default();
    let names: Vec<String> = (0..MAX_TRACKS + 10).map(|n| format!("fw/{n}")).collect();
    let all = |names: &[String], history: &mut History| {
        let targets = names.iter().map(|name| (name.as_str(), reading(1, 1)));
        history.note(Timestamp::from_unix_ms(0), SECOND, reading(1, 1), targets);
        history.view(None, Span::Fine).unwrap().targets_left_out
    };
    assert_eq!(all(&names, &mut history), 10);
    assert_eq!(history.targets.len(), MAX_TRACKS);
    assert_eq!(all(&names, &mut history), 10, "those that have one keep it");
    // The first ten go, and the last ten take their place, a reading later.
    assert_eq!(all(&names[10..], &mut history), 10);
    assert_eq!(all(&names[10..], &mut history), 0);
    assert_eq!(history.targets.len(), MAX_TRACKS);
    assert!(history.view(Some("fw/9"), Span::Fine).is_none());
    assert!(history.view(Some("fw/1033"), Span::Fine).is_some());
}

#[test]
fn a_target_is_forgotten_an_hour_after_it_went() {
    let mut history = after(1);
    let alone = |history: &mut History| {
        history.note(Timestamp::from_unix_ms(0), SECOND, reading(1, 1), []);
        history.view(Some("fw/a"), Span::Fine).is_some()
    };
    for _ in 1..3600 {
        assert!(alone(&mut history));
    }
    assert!(!alone(&mut history));
}

#[test]
fn a_track_takes_no_more_than_was_promised() {
    let history = after(5000);
    let track = &history.targets["fw/a"];
    let held = track.fine.capacity() + track.coarse.capacity();
    assert!(held * size_of::<Sample>() <= TRACK_BYTES, "{held}");
    assert!(track.open.capacity() <= 16);
}

#[test]
fn a_clock_that_stood_still_for_a_day_costs_no_more_than_an_hour() {
    let mut history = after(10);
    history.note(Timestamp::from_unix_ms(0), SECOND * 86_400, reading(1, 1), [("fw/a", reading(1, 1))]);
    let name = Some("fw/a");
    assert_eq!((fine(&history, name).flows.len(), coarse(&history, name).flows.len()), (300, 360));
}
