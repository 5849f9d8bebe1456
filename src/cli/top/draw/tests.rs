//! What is on the screen.

use super::*;
use crate::cli::top::fixture::{died, overview, resets, well};
use crate::cli::top::keys::Key;
use crate::cli::top::model::Pane;
use crate::control::socket::views::{Fate, FlowEffect, Plan, Preview, TargetOverview};
use crate::control::troubles::fixture::{bare, judged};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A view that has read so often, and heard of the failover.
fn model(readings: u64) -> Model {
    let mut model = Model::new(1000);
    (1..=readings).for_each(|reading| model.read(overview(reading)));
    model.hear(died(1));
    model.hear(resets(2, 50, 2));
    model
}

fn means(look: &Look) -> Means<'_> {
    Means { palette: Palette::new(false), look }
}

fn look() -> Look {
    Look::plain(crate::control::events::Timestamp::from_unix_ms(0), TimeZone::UTC)
}

/// The screen of such a terminal, its lines without the blanks at their ends.
fn drawn(model: &Model, width: u16, height: u16) -> String {
    let look = look();
    let means = means(&look);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen(model, &means, frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |row: u16| -> String {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(|row| line(row) + "\n").collect()
}

// H-5, R-8, T-3
#[test]
fn a_terminal_of_80x24_shows_all_of_a_failover() {
    let expected = "\
flowgate 0.1.0  20:47:39 +00:00  up 3d 4h  generation 12  every 1s
1705 flows  15 new/s  32.9k packets/s  16.4M bytes/s  50 resets/s  0 dropped/s
!! firewalls/10.0.0.2 is unhealthy (Request timed out): its flows are reset; for
   1m 2s, 125 flows left, 25 flows reset in the last minute
LOAD BALANCER           HEALTHY   FLOWS  NEW/S  PKT/S BYTES/S  RESETS
inspection -> firewalls     2/3    1705     12  32.9k   16.4M      50
  TARGET GROUP/TARGET STATE         SINCE   FLOWS  NEW/S  PKT/S BYTES/S  RESETS
! firewalls/10.0.0.2  unhealthy     1m 2s     125      3  1.25k    625k      50
~ firewalls/10.0.0.3  draining      1m 2s     300      3  6.00k   3.00M       0
? spare/10.0.0.20     initial       1m 2s       0      3      0       0       0
  firewalls/10.0.0.1  healthy       1m 2s    1200      3  24.0k   12.0M       0
  firewalls/10.0.0.10 healthy       1m 2s      80      3  1.60k    800k       0
DRAINS
[======>           ] firewalls/10.0.0.3: 300 flows left, 3m 18s left
WORKER CORE  PKT/S CYCLES/P BURST IDLE % TABLE % ENTRIES LONGEST BURST
     0    1  2.50M      200     -     75     0.2    1700 -
     1    2  2.50M      200     -     75     0.2    1700 -
EVENTS
20:47:39.007  resets  firewalls/10.0.0.2 50 TCP resets sent (unhealthy) by insp…
20:47:38.007  health  firewalls/10.0.0.2 healthy -> unhealthy (Target.Timeout: …



q quit  ? help  enter open  d drain  / filter  s sort  p pause  tab next part
";
    assert_eq!(drawn(&model(2), 80, 24), expected);
}

#[test]
fn a_wide_terminal_has_every_column() {
    let screen = drawn(&model(2), 120, 40);
    for said in [
        "!! firewalls/10.0.0.2 is unhealthy (Request timed out): its flows are reset; for 1m 2s, 125 flows left, 25 flows reset",
        "RESETS ZONE WEIGHT WHY",
        "      50 all       2 Request timed out",
        "     0 a         1",
        "RESETS DEATH SEEN IN",
        "firewalls/10.0.0.2 50 TCP resets sent (unhealthy) by inspection",
    ] {
        assert!(screen.contains(said), "{said:?}:\n{screen}");
    }
    assert_eq!(screen.lines().count(), 40);
}

#[test]
fn a_small_terminal_has_what_is_wrong_and_the_targets() {
    let expected = "\
flowgate 0.1.0  20:47:39 +00:00  up…
1705 flows  15 new/s
!! firewalls/10.0.0.2 is unhealthy …
  TARGET GROUP/TARGET STATE
! firewalls/10.0.0.2  unhealthy
~ firewalls/10.0.0.3  draining
? spare/10.0.0.20     initial
q quit  ? help  enter open  d drain
";
    assert_eq!(drawn(&model(2), 36, 8), expected);
    assert_eq!(drawn(&model(2), 10, 3), "2/5 in\n1 wrong\n50 rst/s\n");
    assert_eq!(drawn(&model(2), 3, 1), "2/5\n");
    let mut well_again = Model::new(1000);
    well_again.read(well(1));
    assert_eq!(drawn(&well_again, 10, 3), "3/5 in\nall well\n0 rst/s\n");
    assert_eq!(drawn(&Model::new(1000), 10, 2), "no answer\n\n");
    // What may come to be wrong is not said to be wrong; beside something that is, it is not counted.
    let mut warned = Model::new(1000);
    let mut overview = well(1);
    overview.target_groups[0].targets[0].silent_for_ms = 12_500;
    let mut sent = overview.clone();
    sent.node.uptime_ms += 1000;
    sent.target_groups[0].targets[0].traffic.packets_to_target += 1;
    warned.read(judged([overview.clone(), sent.clone()]));
    assert_eq!(drawn(&warned, 10, 3), "3/5 in\n1 warning\n0 rst/s\n");
    sent.workers[1].flows = sent.workers[1].capacity;
    warned.read(judged([overview.clone(), sent.clone()]));
    assert_eq!(drawn(&warned, 10, 3), "3/5 in\n2 warnings\n0 rst/s\n");
    sent.ports[0].link_up = false;
    warned.read(judged([overview, sent]));
    assert_eq!(drawn(&warned, 10, 3), "3/5 in\n1 wrong\n0 rst/s\n");
}

#[test]
fn no_size_and_no_state_is_too_much() {
    let key = crate::control::health::TargetKey::new("firewalls", [10, 0, 0, 2].into());
    let mut crowd = overview(2);
    let one = crowd.target_groups[0].targets[1].clone();
    crowd.target_groups[0].targets =
        (0..=255).map(|last| TargetOverview { address: [10, 0, 1, last].into(), ..one.clone() }).collect();
    let mut crowded = model(1);
    crowded.read(crowd);
    let views = [Model::new(1000), model(1), model(2), crowded];
    let places = [
        Place::List,
        Place::Filter,
        Place::Target(key.clone()),
        Place::Planning(key.clone()),
        Place::Confirm(key, Box::new(Plan::new(vec!["It drains".to_owned()], Preview::default(), 1))),
        Place::Help,
    ];
    for mut view in views {
        for place in places.clone() {
            view.place = place;
            for pane in [Pane::Targets, Pane::Balancers, Pane::Workers, Pane::Events] {
                view.pane = pane;
                view.scrolled = 1000;
                for (width, height) in [
                    (0, 0),
                    (1, 1),
                    (10, 3),
                    (3, 40),
                    (36, 8),
                    (37, 9),
                    (50, 12),
                    (80, 24),
                    (300, 1),
                    (300, 90),
                ] {
                    let screen = drawn(&view, width, height);
                    assert_eq!(screen.lines().count(), usize::from(height));
                }
            }
        }
    }
}

#[test]
fn the_part_that_is_chosen_has_the_room_and_is_scrolled() {
    let mut view = model(2);
    view.interval_ms = 1000;
    (0..100).for_each(|reading| {
        view.hear(died(reading));
        view.hear(resets(2, 1, reading));
    });
    view.press(Key::Tab);
    view.press(Key::Tab);
    view.press(Key::Tab);
    assert_eq!(view.pane, Pane::Events);
    let events = |screen: &str| screen.lines().filter(|line| line.contains(" health ")).count();
    let top = drawn(&view, 100, 40);
    assert!(events(&top) > 5 && top.contains("20:49:16.007"), "the newest first:\n{top}");
    view.press(Key::End);
    let bottom = drawn(&view, 100, 40);
    assert!(bottom.contains("20:47:37.007") && !bottom.contains("20:49:16.007"), "{bottom}");
    view.press(Key::Home);
    assert_eq!(drawn(&view, 100, 40), top);
}

#[test]
fn the_selected_target_is_on_the_screen_wherever_it_is_in_the_list() {
    let mut crowd = overview(2);
    let one = crowd.target_groups[0].targets[0].clone();
    crowd.target_groups[0].targets =
        (0..=255).map(|last| TargetOverview { address: [10, 0, 1, last].into(), ..one.clone() }).collect();
    let mut view = Model::new(1000);
    view.read(crowd);
    for _ in 0..300 {
        let (_, key) = view.selected_target().unwrap();
        assert!(drawn(&view, 80, 24).contains(&format!("{key} ")), "{key}");
        view.press(Key::Down);
    }
}

#[test]
fn a_target_in_full_says_why() {
    let mut view = model(2);
    view.press(Key::Enter);
    let expected = "\
flowgate 0.1.0  20:47:39 +00:00  up 3d 4h  generation 12  every 1s
1705 flows  15 new/s  32.9k packets/s  16.4M bytes/s  50 resets/s  0 dropped/s
firewalls/10.0.0.2 of inspection
state      unhealthy since 20:46:37.007 (1m 2s ago)
reason     Target.Timeout: Request timed out
checks     HTTP 8080 /up every 5s; unhealthy after 2 failures in a row: its
           death is seen within 12s at worst
           100 made, 12 failed, 1 out of turn; 12 failed in a row; the last at
           20:47:36.507 took 1.2 ms: failed
traffic    it was sent packets and has returned none for 1.5s
           to it: 1.25k packets/s, 625k bytes/s, 2500 packets in all
           from it: 0 packets/s, 0 bytes/s, 0 packets in all
flows      125 live, 3 new/s, 131 in all; if it dies 100 TCP flows are reset
resets     25 flows reset (25 in the last minute), 50 resets sent: unhealthy 50
place      every zone, weight 2; by 10.0.0.2 at 02:00:00:00:00:11 (reachable)

WHAT HAPPENED TO IT
20:47:39.007 resets firewalls/10.0.0.2 50 TCP resets sent
              (unhealthy) by inspection
20:47:38.007 health firewalls/10.0.0.2 healthy -> unhealthy
              (Target.Timeout: Request timed out)


esc back  d drain  p pause  q quit
";
    assert_eq!(drawn(&view, 80, 24), expected);
    let to_do = "to do      See to the appliance: what the checks saw is behind its name.\n           [flowgate report 7]\n";
    assert!(drawn(&view, 80, 30).contains(to_do), "{}", drawn(&view, 80, 30));
}

#[test]
fn a_targets_failovers_are_told_and_every_phase_of_the_newest() {
    let mut view = model(2);
    view.press(Key::Enter);
    let mark = serde_json::json!({"At": crate::cli::top::fixture::at(1), "AfterDecisionMicroseconds": 0});
    let record = serde_json::json!({
        "Id": 7, "Cause": "unhealthy", "TargetGroup": "firewalls", "Target": "10.0.0.2",
        "Policy": {"Failover": "no_rebalance", "Reset": true, "DetectionTimeMs": 10_000},
        "Group": {"Registered": 3, "Healthy": 2}, "Decided": crate::cli::top::fixture::at(1),
        "Flows": {"AtDecision": 125, "TcpAtDecision": 100, "Begun": 0, "Moved": 1, "Reset": 96, "Ended": 8, "Left": 20},
        "Resets": {"Total": 180}, "AsOf": mark,
        "DurationsMicroseconds": {
            "FirstFailureToDecision": 200_300, "DecisionToApplied": 18, "DecisionToFirstReset": 12_045,
            "FirstFailureToFirstReset": 212_345, "LastReturnedToFirstReset": 251_700, "FirstToLastReset": 1_070
        }
    });
    let mut earlier = record.clone();
    earlier["Id"] = 5.into();
    earlier["Flows"]["Begun"] = 2.into();
    earlier["DurationsMicroseconds"]["DecisionToRecovery"] = 3_000_000.into();
    earlier["Ended"] = serde_json::json!({"At": earlier["AsOf"], "Why": "recovered"});
    let key = view.watched().unwrap().clone();
    view.failovers =
        Some((key, [record, earlier].map(|record| serde_json::from_value(record).unwrap()).to_vec()));
    // Where there is no room for the phases, what happened is still there.
    let screen = drawn(&view, 80, 24);
    assert!(screen.contains("first reset 212.3 ms") && !screen.contains("\nphases "), "{screen}");
    let screen = drawn(&view, 80, 30);
    assert!(screen.contains("WHAT HAPPENED TO IT"), "{screen}");
    let expected = "\
failover   7 at 20:47:38.007, unhealthy: of 125 flows 96 reset, 1 moved, 8 ended
           otherwise, 20 left; 180 resets sent; it goes on
phases     first failed check to decision 200.3 ms, decision to the last worker
           0.018 ms, decision to first reset 12.0 ms, first failed check to
           first reset 212.3 ms, last returned packet to first reset 251.7 ms,
           first reset to last reset 1.070 ms
failover   5 at 20:47:38.007, unhealthy: of 125 flows and 2 that began since 96
           reset, 1 moved, 8 ended otherwise, 20 left; 180 resets sent; first
           reset 212.3 ms after the first failed check; back after 3.000 s
";
    assert!(screen.contains(expected), "{screen}");
    // Those of another target are not this one's.
    view.press(Key::Escape);
    view.press(Key::Down);
    view.press(Key::Enter);
    assert!(!drawn(&view, 80, 24).contains("failover "), "{}", drawn(&view, 80, 24));
}

// T-3
#[test]
fn the_question_before_a_drain_says_how_many_flows_and_what_becomes_of_them() {
    let mut view = model(2);
    let target: std::net::Ipv4Addr = [10, 0, 0, 2].into();
    let (fate, then) = (Fate::Drained, Some(Fate::Reset));
    let effect = FlowEffect {
        target_group: "firewalls".to_owned(),
        target: Some(target),
        flows: 125,
        at_most: false,
        fate,
        then,
        held_by: None,
    };
    let plan = Plan::new(
        vec!["Target 10.0.0.2 of 'firewalls' is deregistered and drains".to_owned()],
        Preview { flows: vec![effect], ..Preview::default() },
        12,
    );
    let key = crate::control::health::TargetKey::new("firewalls", target);
    view.place = Place::Confirm(key, Box::new(plan));
    let screen = drawn(&view, 80, 24);
    for said in [
        "Drain firewalls/10.0.0.2?",
        "Target 10.0.0.2 of 'firewalls' is deregistered and drains.",
        "firewalls/10.0.0.2: 125 flows would be drained, then reset.",
        "y drain it  any other key: leave it",
    ] {
        assert!(screen.contains(said), "{said:?}:\n{screen}");
    }
    assert_eq!(drawn(&view, 10, 3), "drain? y/n\n10.0.0.2\n\n", "it is not answered unseen");
}

#[test]
fn the_daemons_silence_and_a_standstill_are_in_the_first_line() {
    let mut view = model(2);
    let first = |view: &Model| drawn(view, 80, 24).lines().next().unwrap().to_owned();
    view.link = Link::Slow(7300);
    assert!(first(&view).starts_with("NO ANSWER FOR 7s  flowgate 0.1.0"), "{}", first(&view));
    view.link = Link::Down("nobody answers at /run/x: start flowgated again".to_owned());
    assert_eq!(first(&view), "NO DAEMON  nobody answers at /run/x: start flowgated again; trying again");
    assert_eq!(drawn(&view, 10, 3), "NO DAEMON\n\n\n");
    view.link = Link::Up;
    assert!(first(&view).starts_with("flowgate 0.1.0"), "{}", first(&view));
    view.reading.as_mut().unwrap().overview.readiness.ready = false;
    assert!(first(&view).starts_with("NOT READY  flowgate 0.1.0"), "{}", first(&view));
    view.press(Key::Char('p'));
    view.hear(died(3));
    assert!(first(&view).starts_with("STANDS STILL (1 events since)"), "{}", first(&view));
}

#[test]
fn what_is_wrong_takes_a_part_of_the_screen_and_says_how_much_more_there_is() {
    let mut bad = bare(2);
    bad.ports[0].link_up = false;
    bad.workers[0].heartbeat_age_ms = 5000;
    bad.workers[1].heartbeat_age_ms = 5000;
    let mut view = model(1);
    view.read(judged([bad]));
    let screen = drawn(&view, 80, 12);
    let second = screen.lines().nth(3).unwrap_or_default();
    assert!(
        second.starts_with("!! Worker 1 on core 2 goes no") && second.ends_with("… (+2 more)"),
        "{screen}"
    );
    let screen = drawn(&view, 80, 30);
    assert!(screen.contains("!! The link of port left is down; for 0s\n"), "{screen}");
}

#[test]
fn one_frame_as_text_has_every_target_however_many_there_are() {
    let mut crowd = overview(2);
    let one = crowd.target_groups[0].targets[0].clone();
    crowd.target_groups[0].targets =
        (0..=255).map(|last| TargetOverview { address: [10, 0, 1, last].into(), ..one.clone() }).collect();
    let mut view = Model::new(1000);
    view.read(crowd);
    let look = look();
    let text = whole(&view, &means(&look), 100);
    assert_eq!(text.matches("firewalls/10.0.1.").count(), 256);
    assert!(text.lines().all(|line| line.chars().count() <= 100 && line == line.trim_end()), "{text}");
}
