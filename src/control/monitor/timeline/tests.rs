//! What a timeline keeps, joins, and tells to whoever was away.

use super::*;
use crate::control::events::ResetTrigger;
use crate::control::health::HealthState;
use std::net::Ipv4Addr;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

fn resets(ms: i64, target: u8, count: u64) -> Event {
    let what = What::FlowsReset {
        load_balancer: "gw".to_owned(),
        target_group: "fw".to_owned(),
        target: Some(Ipv4Addr::new(192, 0, 2, target)),
        trigger: ResetTrigger::Unhealthy,
        count,
    };
    Event { at: at(ms), what }
}

fn health(ms: i64) -> Event {
    let what = What::TargetHealthChanged {
        target_group: "fw".to_owned(),
        target: Ipv4Addr::new(192, 0, 2, 1),
        from: HealthState::Healthy,
        to: HealthState::Unhealthy,
        reason: None,
        description: String::new(),
    };
    Event { at: at(ms), what }
}

fn change(ms: i64, generation: u64) -> Event {
    Event { at: at(ms), what: What::ConfigChanged { generation } }
}

fn counts(view: &TimelineView) -> Vec<u64> {
    let count = |entry: &Entry| match &entry.event {
        Happened::Event(Event { what: What::FlowsReset { count, .. }, .. }) => Some(*count),
        _ => None,
    };
    view.entries.iter().filter_map(count).collect()
}

fn text(news: &News) -> &str {
    std::str::from_utf8(&news.bytes).unwrap()
}

#[test]
fn resets_that_go_on_are_one_entry_a_target() {
    let mut timeline = Timeline::new(at(0));
    for (ms, target) in [(0, 1), (250, 2), (500, 1), (750, 2), (5750, 2), (20_000, 1)] {
        timeline.take(resets(ms, target, 3));
    }
    let view = timeline.view(at(20_000));
    assert_eq!(counts(&view), [6, 9, 3]);
    assert_eq!((view.entries[1].until, view.entries[1].number), (at(5750), 5));
}

#[test]
fn what_goes_on_for_long_is_told_by_the_minute() {
    let mut timeline = Timeline::new(at(0));
    (0..600).for_each(|tenth| timeline.take(resets(tenth * 250, 1, 1)));
    let counts = counts(&timeline.view(at(150_000)));
    assert_eq!(counts.iter().sum::<u64>(), 600);
    assert_eq!(counts.len(), 3);
}

#[test]
fn a_flood_of_resets_pushes_no_change_of_health_out() {
    let mut timeline = Timeline::new(at(0));
    timeline.take(health(0));
    for n in 0..20_000 {
        timeline.take(resets(n, u8::try_from(n % 200).unwrap(), 1));
    }
    let view = timeline.view(at(20_000));
    assert_eq!(view.entries[0].number, 1);
    assert!(
        view.entries.len() <= KEPT + 1 && view.forgotten > 0,
        "{} {}",
        view.entries.len(),
        view.forgotten
    );
}

#[test]
fn what_is_older_than_an_hour_is_not_shown() {
    let mut timeline = Timeline::new(at(0));
    timeline.take(health(0));
    timeline.take(health(1000));
    assert_eq!(timeline.view(at(HOUR_MS + 1)).entries.len(), 1);
    assert_eq!(timeline.view(at(HOUR_MS + 1001)).entries.len(), 0);
}

#[test]
fn a_reader_has_each_event_once_and_in_order() {
    let mut timeline = Timeline::new(at(7));
    assert_eq!(timeline.after(timeline.end(), 1 << 20), None);
    let mut place = timeline.end();
    let mut read = String::new();
    for n in 0..50 {
        timeline.take(change(0, n));
        if n % 7 == 0 {
            while let Some(news) = timeline.after(place, 300) {
                place = news.place;
                read.push_str(text(&news));
            }
        }
    }
    let ids: Vec<&str> = read.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let expected: Vec<String> = (1..=50).map(|n| format!("7-{n}")).collect();
    assert_eq!(ids, expected);
    assert!(!read.contains("gap"));
}

#[test]
fn a_reader_that_was_away_for_long_is_told_how_much_it_missed() {
    let mut timeline = Timeline::new(at(7));
    let place = timeline.end();
    (0..60_000).for_each(|n| timeline.take(change(0, n)));
    assert!(timeline.journal_bytes <= JOURNAL_BYTES);
    let kept = timeline.journal.len() as u64;
    assert!(kept > 10_000, "a second of ten thousand events: {kept}");
    let news = timeline.after(place, 1 << 10).unwrap();
    let missed = 60_000 - kept;
    assert!(
        text(&news)
            .starts_with(&format!("event: gap\ndata: {{\"Missed\":{missed}}}\n\nid: 7-{}\n", missed + 1))
    );
    assert!(news.bytes.len() <= 1 << 10);
    assert!(!text(&timeline.after(news.place, 1 << 10).unwrap()).contains("gap"), "told once");
}

#[test]
fn a_reader_of_another_daemon_is_told_and_gets_what_there_is() {
    let mut timeline = Timeline::new(at(7));
    let elsewhere = [Place { boot: 6, event: 3 }, Place { boot: 7, event: 3 }];
    for place in elsewhere {
        let news = timeline.after(place, 1 << 10).unwrap();
        assert_eq!(text(&news), "event: gap\ndata: {\"Restarted\":true}\n\n");
        assert_eq!(news.place, timeline.end());
    }
    timeline.take(change(0, 1));
    let news = timeline.after(elsewhere[0], 1 << 10).unwrap();
    assert!(text(&news).contains("Restarted") && text(&news).contains("id: 7-1\n"), "{}", text(&news));
}

#[test]
fn events_that_came_too_fast_are_told_in_both() {
    let mut timeline = Timeline::new(at(7));
    let place = timeline.end();
    timeline.lose(12, at(5));
    let news = timeline.after(place, 1 << 10).unwrap();
    assert!(text(&news).contains(r#""Event":"EventsLost","Count":12"#), "{}", text(&news));
    let view = serde_json::to_value(timeline.view(at(5))).unwrap();
    assert_eq!(
        (&view["Entries"][0]["Event"], &view["Entries"][0]["Count"]),
        (&"EventsLost".into(), &12.into())
    );
}

#[test]
fn a_name_with_line_breaks_makes_no_event_of_its_own() {
    let mut timeline = Timeline::new(at(7));
    let place = timeline.end();
    let what = What::DrainEnded {
        target_group: "fw\n\nevent: gap\ndata: {}\r\n\r\n".to_owned(),
        target: Ipv4Addr::LOCALHOST,
        flows_left: 0,
    };
    timeline.take(Event { at: at(0), what });
    let news = timeline.after(place, 1 << 20).unwrap();
    assert_eq!(text(&news).matches("\n\n").count(), 1);
    assert_eq!(text(&news).lines().count(), 4);
}

#[test]
fn places_are_read_as_they_are_written() {
    let place = Place { boot: 1_795_985_257_007, event: 12 };
    assert_eq!(place.to_string(), "1795985257007-12");
    assert_eq!(Place::parse("1795985257007-12"), Some(place));
    for bad in ["", "-", "1", "1-", "-1", "a-1", "1-2-3", "1--2", "99999999999999999999-1"] {
        assert_eq!(Place::parse(bad), None, "{bad}");
    }
}

#[test]
fn single_resets_are_a_sample_and_those_beyond_it_are_not_forgotten() {
    let mut timeline = Timeline::new(at(0));
    for port in 0..u16::try_from(KEPT_SAMPLES).unwrap() + 10 {
        let what = What::TcpReset {
            endpoint: "lan".to_owned(),
            target_group: "fw".to_owned(),
            target: None,
            trigger: ResetTrigger::Unhealthy,
            sent_to: Ipv4Addr::LOCALHOST.into(),
            sent_to_port: port,
            peer: Ipv4Addr::LOCALHOST.into(),
            peer_port: 443,
        };
        timeline.take(Event { at: at(port.into()), what });
    }
    let view = timeline.view(at(1000));
    assert_eq!((view.entries.len(), view.forgotten), (KEPT_SAMPLES, 0));
}
