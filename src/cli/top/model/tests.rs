//! What readings, events and keys make of the view.

use super::*;
use crate::cli::top::fixture::{self, died, one_reset, overview, resets, well};
use crate::control::socket::views::Trouble;
use crate::control::socket::views::{Fate, FlowEffect, Preview};
use crate::control::troubles::Kind;

fn key(group: &str, last: u8) -> TargetKey {
    TargetKey::new(group, std::net::Ipv4Addr::new(10, 0, 0, last))
}

/// A view that has read so often.
fn model(readings: u64) -> Model {
    let mut model = Model::new(1000);
    (1..=readings).for_each(|reading| model.read(overview(reading)));
    model
}

fn listed(model: &Model) -> Vec<String> {
    model.rows().iter().map(|row| row.key.to_string()).collect()
}

fn typed(model: &mut Model, text: &str) {
    text.chars().for_each(|sign| assert_eq!(model.press(Key::Char(sign)), None));
}

#[test]
fn two_readings_make_rates_and_one_makes_none() {
    let one = model(1);
    assert!(one.reading.as_ref().unwrap().rates.is_none());
    let two = model(2);
    let reading = two.reading.as_ref().unwrap();
    let rates = reading.rates_of(&key("firewalls", 1)).unwrap();
    assert_eq!((rates.packets_to, rates.packets_from, rates.new_flows), (12_000.0, 12_000.0, 3.0));
    assert_eq!((rates.bytes_to, rates.resets), (6_000_000.0, 0.0));
    assert_eq!(reading.rates_of(&key("firewalls", 2)).unwrap().resets, 50.0);
    let totals = reading.rates.as_ref().unwrap().totals;
    assert_eq!((totals.received, totals.resets, totals.new_flows), (5_000_000.0, 50.0, 15.0));
    assert_eq!(totals.packets, 2.0 * (12_000.0 + 3000.0 + 800.0) + 1250.0);
}

#[test]
fn a_daemon_that_was_started_anew_makes_no_rates_with_the_one_before() {
    let mut model = model(5);
    model.read(overview(1));
    assert!(model.reading.as_ref().unwrap().rates.is_none());
    model.read(overview(2));
    assert!(model.reading.as_ref().unwrap().rates.is_some());
}

/// A target that was registered anew counts anew: its group then has less than before, too.
#[test]
fn a_count_that_fell_makes_no_rate() {
    let mut model = model(2);
    let mut anew = overview(3);
    let group = anew.target_groups.iter_mut().find(|group| group.name == "firewalls").unwrap();
    group.traffic.packets_to_target = 1000;
    group.targets[0].traffic.packets_to_target = 5;
    model.read(anew);
    let reading = model.reading.as_ref().unwrap();
    assert_eq!(reading.rates_of(&key("firewalls", 1)).unwrap().packets_to, 0.0);
    assert_eq!(reading.rates.as_ref().unwrap().groups["firewalls"].packets_to, 0.0);
}

#[test]
fn what_is_wrong_comes_first_and_keys_choose_another_order() {
    let mut model = model(2);
    let by_trouble = [
        "firewalls/10.0.0.2",
        "firewalls/10.0.0.3",
        "spare/10.0.0.20",
        "firewalls/10.0.0.1",
        "firewalls/10.0.0.10",
    ];
    assert_eq!(listed(&model), by_trouble);
    typed(&mut model, "s");
    assert_eq!(listed(&model)[0], "firewalls/10.0.0.1", "by address");
    typed(&mut model, "s");
    assert_eq!(model.sort, Sort::Flows);
    assert_eq!(listed(&model)[0], "firewalls/10.0.0.1", "the most flows first");
    typed(&mut model, "S");
    assert_eq!(listed(&model)[0], "spare/10.0.0.20", "turned");
    typed(&mut model, "ssss");
    assert_eq!((model.sort, listed(&model)[0].as_str()), (Sort::Resets, "firewalls/10.0.0.2"));
    typed(&mut model, "s");
    assert_eq!(listed(&model), by_trouble);
}

#[test]
fn a_filter_shows_the_targets_that_have_every_word_of_it() {
    let mut model = model(2);
    for (filter, expected) in [
        ("unhealthy", vec!["firewalls/10.0.0.2"]),
        ("spare", vec!["spare/10.0.0.20"]),
        ("FIREWALLS timed out", vec!["firewalls/10.0.0.2"]),
        ("10.0.0.1", vec!["firewalls/10.0.0.1", "firewalls/10.0.0.10"]),
        ("no such", vec![]),
    ] {
        typed(&mut model, "/");
        assert_eq!(model.place, Place::Filter);
        typed(&mut model, filter);
        assert_eq!(model.press(Key::Enter), None);
        assert_eq!(
            (listed(&model), &model.place),
            (expected.iter().map(ToString::to_string).collect(), &Place::List)
        );
        model.press(Key::Escape);
        assert_eq!(listed(&model).len(), 5);
    }
    // Keys that mean something in the list are letters here, and it does not grow without end.
    typed(&mut model, "/q d s?");
    assert_eq!(model.filter, "q d s?");
    (0..1000).for_each(|_| typed(&mut model, "x"));
    assert_eq!(model.filter.chars().count(), FILTER);
    (0..1000).for_each(|_| assert_eq!(model.press(Key::Backspace), None));
    assert_eq!((model.filter.as_str(), &model.place), ("", &Place::Filter));
}

#[test]
fn a_target_stays_selected_wherever_it_goes_in_the_list() {
    let mut model = model(2);
    model.press(Key::Down);
    let drains = key("firewalls", 3);
    assert_eq!(model.selected_target(), Some((1, drains.clone())));
    typed(&mut model, "s");
    assert_eq!(model.selected_target(), Some((2, drains.clone())));
    model.press(Key::End);
    model.press(Key::Down);
    assert_eq!(model.selected_target(), Some((4, key("spare", 20))));
    model.press(Key::Home);
    model.press(Key::Up);
    assert_eq!(model.selected_target(), Some((0, key("firewalls", 1))));
    // One that is gone is selected no more, and nobody else in its place without being asked.
    let mut without = overview(3);
    without.target_groups[0].targets.remove(0);
    model.read(without);
    assert_eq!(model.selected_target().unwrap().0, 0);
}

#[test]
fn a_target_is_opened_and_left_and_told_when_it_is_gone() {
    let mut model = model(2);
    model.press(Key::Enter);
    let dead = key("firewalls", 2);
    assert_eq!(model.place, Place::Target(dead.clone()));
    model.press(Key::Escape);
    assert_eq!(model.place, Place::List);
    model.press(Key::Enter);
    let mut without = overview(3);
    without.target_groups[0].targets.remove(1);
    model.read(without);
    assert_eq!((&model.place, model.said.as_deref()), (&Place::List, Some("firewalls/10.0.0.2 is gone")));
}

fn plan(flows: u64, generation: u64) -> Plan {
    let effect = FlowEffect {
        target_group: "firewalls".to_owned(),
        target: Some([10, 0, 0, 2].into()),
        flows,
        at_most: false,
        held_by: None,
        fate: Fate::Drained,
        then: Some(Fate::Reset),
    };
    Plan::new(
        vec!["Target 10.0.0.2 is deregistered and drains".to_owned()],
        Preview { flows: vec![effect], ..Preview::default() },
        generation,
    )
}

#[test]
fn a_drain_is_asked_about_with_what_its_flows_would_feel_and_made_of_the_state_that_was_asked_about() {
    let mut model = model(2);
    let dead = key("firewalls", 2);
    let ask = |model: &mut Model| {
        assert_eq!(model.press(Key::Char('d')), Some(Order::Plan(dead.clone())));
        // What is typed before the question is there answers nothing.
        assert_eq!(model.press(Key::Char('y')), None);
        model.planned(&dead, Ok(plan(125, 12)));
        assert_eq!(model.place, Place::Confirm(dead.clone(), Box::new(plan(125, 12))));
    };
    for no in [Key::Char('n'), Key::Enter, Key::Escape, Key::Char(' ')] {
        ask(&mut model);
        assert_eq!(model.press(no), None, "{no:?}");
        assert_eq!((&model.place, model.said.as_deref()), (&Place::List, Some("nothing was done")));
    }
    ask(&mut model);
    assert_eq!(model.press(Key::Char('y')), Some(Order::Drain(dead.clone(), 12)));
    model.drained(&dead, Err("the configuration has generation 13".to_owned()));
    assert_eq!(model.said.as_deref(), Some("the configuration has generation 13"));
    // It is refused to whoever may only look; and one that drains already is not asked about.
    assert!(matches!(model.press(Key::Char('d')), Some(Order::Plan(_))));
    model.planned(&dead, Err("for the role admin".to_owned()));
    assert_eq!((&model.place, model.said.as_deref()), (&Place::List, Some("for the role admin")));
    assert!(matches!(model.press(Key::Char('d')), Some(Order::Plan(_))));
    model.planned(&dead, Ok(Plan::new(vec![], Preview::default(), 12)));
    assert_eq!(model.said.as_deref(), Some("firewalls/10.0.0.2 drains already"));
    // An answer that comes after its operator went elsewhere opens nothing.
    assert!(matches!(model.press(Key::Char('d')), Some(Order::Plan(_))));
    model.press(Key::Escape);
    model.planned(&dead, Ok(plan(125, 12)));
    assert_eq!(model.place, Place::List);
}

#[test]
fn a_view_that_stands_still_shows_the_latest_when_it_goes_on() {
    let mut model = model(2);
    typed(&mut model, "p");
    model.read(overview(3));
    model.read(overview(4));
    model.hear(died(4));
    let shown = |model: &Model| model.reading.as_ref().unwrap().overview.node.uptime_ms;
    assert_eq!(shown(&model), overview(2).node.uptime_ms);
    assert_eq!(model.paused.as_ref().unwrap().events, 1);
    typed(&mut model, "p");
    assert_eq!(shown(&model), overview(4).node.uptime_ms);
    assert_eq!(
        model.reading.as_ref().unwrap().rates_of(&key("firewalls", 2)).unwrap().resets,
        50.0,
        "of one second"
    );
}

//
#[test]
fn resets_that_follow_each_other_are_one_line_and_single_ones_are_shown_on_demand() {
    let mut model = model(1);
    model.hear(died(1));
    (2..100).for_each(|reading| {
        model.hear(resets(2, 10, reading));
        model.hear(one_reset(reading));
    });
    let told = |model: &Model| model.events_of(None).count();
    // Single resets stand between the sums.
    assert_eq!(told(&model), 99);
    let mut model = Model::new(1000);
    model.read(overview(1));
    (2..100).for_each(|reading| model.hear(resets(2, 10, reading)));
    model.hear(resets(3, 1, 100));
    model.hear(one_reset(100));
    let counts: Vec<u64> = model
        .events_of(None)
        .filter_map(|event| match event.what {
            What::FlowsReset { count, .. } => Some(count),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [1, 980]);
    assert_eq!(told(&model), 2);
    typed(&mut model, "e");
    assert_eq!(told(&model), 3);
    let of = |last| model.events_of(Some(&key("firewalls", last))).count();
    assert_eq!((of(2), of(3), of(1)), (2, 1, 0));
}

#[test]
fn events_without_end_are_kept_in_bounds_the_newest_of_them() {
    let mut model = model(1);
    (0..10_000).for_each(|number| model.hear(died(number)));
    assert_eq!(model.events.len(), EVENTS);
    assert_eq!(model.events_of(None).next().unwrap().at, fixture::at(9999));
}

#[test]
fn it_is_ended_from_everywhere_and_read_as_often_as_is_wished() {
    let mut model = model(2);
    for places in ["", "?", "/"] {
        typed(&mut model, places);
        assert_eq!(model.press(Key::Interrupt), Some(Order::Quit));
        model.press(Key::Escape);
    }
    assert_eq!(model.press(Key::Char('q')), Some(Order::Quit));
    assert_eq!(model.press(Key::Char('+')), Some(Order::Interval(2000)));
    for expected in [1000, 500, 250, 250] {
        assert_eq!(model.press(Key::Char('-')), Some(Order::Interval(expected)));
    }
    assert_eq!(model.press(Key::Char('r')), Some(Order::Refresh));
}

#[test]
fn what_is_wrong_is_what_the_daemon_says_is_and_a_target_in_trouble_comes_before_others() {
    let model = model(2);
    let reading = model.reading.as_ref().unwrap();
    assert_eq!(
        reading.wrong().map(|one| one.kind).collect::<Vec<_>>(),
        [Kind::TargetUnhealthy],
        "a drain is not"
    );
    assert_eq!(reading.troubles_of("firewalls/10.0.0.2"), [Kind::TargetUnhealthy]);
    assert_eq!(reading.troubles_of("firewalls/10.0.0.3"), [Kind::DrainReset; 0]);
    // Of a healthy target that the daemon says nothing of nothing is wrong, whatever it counts.
    let silent = |troubles: Vec<Trouble>| {
        let mut overview = well(2);
        overview.target_groups[0].targets[3].silent_for_ms = 99_000;
        overview.troubles = troubles;
        let mut model = Model::new(1000);
        model.read(overview);
        listed(&model).iter().position(|one| one == "firewalls/10.0.0.10")
    };
    assert_eq!(silent(Vec::new()), Some(4));
    let mut trouble = reading.overview.troubles[0].clone();
    (trouble.kind, trouble.objects) = (Kind::TargetSilent, vec!["firewalls/10.0.0.10".to_owned()]);
    assert_eq!(silent(vec![trouble]), Some(0));
}
