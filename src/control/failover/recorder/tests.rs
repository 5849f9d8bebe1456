//! Whole failovers through the recorder, at times of the tests' choice.

use std::time::SystemTime;

use super::*;
use crate::control::failover::record::Durations;
use crate::control::health::ReasonCode;

const EDGE: EndpointId = EndpointId(0);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SERVER: End = (IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 443);

/// A recorder and a clock that begins a minute after the machine's.
struct Bench {
    recorder: Recorder,
    start: Moment,
}

fn key(last: u8) -> TargetKey {
    TargetKey::new("fw", Ipv4Addr::new(10, 0, 0, last))
}

fn client(port: u16) -> End {
    (Ipv4Addr::new(192, 0, 2, 1).into(), port)
}

/// So many TCP flows and none of another protocol.
fn flows(active: u64) -> Counts {
    Counts { active, active_tcp: active, begun: 100, ..Counts::default() }
}

fn resets(trigger: ResetTrigger, count: u64) -> [u64; ResetTrigger::COUNT] {
    let mut resets = [0; ResetTrigger::COUNT];
    resets[trigger.index()] = count;
    resets
}

impl Bench {
    fn new() -> Bench {
        let minute = Duration::from_secs(60);
        let start = Moment { wall: SystemTime::now() + minute, monotonic: Instant::now() + minute };
        Bench { recorder: Recorder::new(1), start }
    }

    /// So many microseconds after the start.
    fn at(&self, us: u64) -> Instant {
        self.start.monotonic + Duration::from_micros(us)
    }

    fn moment(&self, us: u64) -> Moment {
        let later = Duration::from_micros(us);
        Moment { wall: self.start.wall + later, monotonic: self.start.monotonic + later }
    }

    fn check(&self, us: u64, failure: Option<ReasonCode>) -> LastCheck {
        LastCheck {
            started: self.moment(us),
            latency: Duration::from_micros(400),
            delay: Duration::ZERO,
            failure: failure.map(StateReason::plain),
        }
    }

    fn beginning(&self, last: u8, us: u64) -> Beginning {
        Beginning {
            key: key(last),
            load_balancer: Some("gw".to_owned()),
            policy: Policy { reset: true, ..Policy::default() },
            group: Standing { registered: 2, healthy: 1 },
            decided: self.moment(us),
        }
    }

    /// Target `last` fails, decided at so many microseconds.
    fn fail(&mut self, last: u8, us: u64, counts: Counts) {
        let reason = Some(StateReason::plain(ReasonCode::Timeout));
        let beginning = self.beginning(last, us);
        self.recorder.failed(beginning, (reason, None), Some(u64::from(last)), counts);
    }

    fn drain(&mut self, last: u8, us: u64, counts: Counts) {
        let ends = Timestamp::from_unix_ms(7);
        let beginning = self.beginning(last, us);
        self.recorder.drains(beginning, ends, counts);
    }

    fn look(&mut self, us: u64, counts: Counts) {
        let at = self.at(us);
        self.recorder.look(|_| counts, at);
    }

    fn one_open(&self) -> Failover {
        let open = self.recorder.open();
        let [one] = open[..] else { panic!("{} records are open", open.len()) };
        one.clone()
    }

    fn ended(&mut self) -> Vec<Failover> {
        let (news, _) = self.recorder.take_news();
        let ended = news.into_iter().filter_map(|news| match news {
            News::Ended(record) => Some(*record),
            News::Started(_) => None,
        });
        ended.collect()
    }

    fn reset(&mut self, last: u8, port: u16, us: u64, counts: Counts) {
        let (key, at) = (key(last), self.at(us));
        let what = (EDGE, (client(port), SERVER));
        self.recorder.reset(&key, ResetTrigger::Unhealthy, what, at, || counts);
    }
}

fn after(mark: Option<Mark>) -> Option<i64> {
    mark.map(|mark| mark.after_decision_microseconds)
}

// R-8, H-5, H-7
#[test]
fn a_failover_is_told_moment_by_moment_and_its_flows_are_all_accounted_for() {
    let mut bench = Bench::new();
    let course = Course {
        last_good: Some(bench.check(700_000, None)),
        failures: vec![
            bench.check(800_000, Some(ReasonCode::FailedHealthChecks)),
            bench.check(900_000, Some(ReasonCode::Timeout)),
        ],
    };
    let before = Counts { last_returned: Some(bench.at(780_000)), ..flows(50) };
    let reason = Some(StateReason::plain(ReasonCode::Timeout));
    let beginning = bench.beginning(1, 1_000_000);
    bench.recorder.failed(beginning, (reason, Some(&course)), Some(9), before);
    assert!(bench.recorder.looks_out(bench.at(1_000_001)));
    let (news, changed) = bench.recorder.take_news();
    assert!(changed && matches!(&news[..], [News::Started(record)] if record.flows.at_decision == 50));

    // The round in which worker 0 heard of it had begun just before.
    bench.recorder.applied(9, 0, bench.at(999_998));
    bench.recorder.applied(9, 1, bench.at(1_000_020));
    bench.recorder.applied(8, 1, bench.at(1_000_030));
    bench.reset(1, 4000, 1_002_000, Counts { last_returned: Some(bench.at(785_000)), ..before });
    bench.reset(1, 4001, 1_500_000, before);
    // A client comes back, another does not.
    bench.recorder.begun(EDGE, client(0).0, SERVER, OTHER, bench.at(1_002_700));
    bench.look(
        2_000_000,
        Counts {
            active: 0,
            active_tcp: 0,
            begun: 101,
            moved: 3,
            reset_flows: 40,
            resets: resets(ResetTrigger::Unhealthy, 41),
            suppressed: [5, 0, 0, 0],
            // What it returns late says nothing of how long clients waited for the first reset.
            last_returned: Some(bench.at(1_600_000)),
            messages_lost: 2,
        },
    );
    let record = bench.one_open();
    assert_eq!(
        record.flows,
        FlowsTouched {
            at_decision: 50,
            tcp_at_decision: 50,
            begun: 1,
            moved: 3,
            reset: 40,
            ended: 8,
            left: 0
        }
    );
    assert_eq!((record.resets.total, record.resets.by_trigger["unhealthy"]), (41, 41));
    assert_eq!((record.suppressed["hold"], record.suppressed.len(), record.messages_lost), (5, 1, 2));
    assert_eq!(after(record.last_good_check.as_ref().map(|check| check.began)), Some(-300_000));
    assert_eq!(after(record.last_returned), Some(-215_000));
    let applied: Vec<_> =
        record.applied.iter().map(|by| (by.worker, by.at.after_decision_microseconds)).collect();
    assert_eq!(applied, [(0, 0), (1, 20)]);
    assert_eq!((after(record.resets.first), after(record.resets.last)), (Some(2_000), Some(500_000)));
    assert_eq!(after(record.emptied), Some(1_000_000));
    assert_eq!(
        record.durations,
        Durations {
            first_failure_to_decision: Some(200_000),
            decision_to_applied: Some(20),
            decision_to_first_reset: Some(2_000),
            first_failure_to_first_reset: Some(202_000),
            last_returned_to_first_reset: Some(217_000),
            first_to_last_reset: Some(498_000),
            decision_to_recovery: None,
        }
    );
    let back = record.clients.expect("two were watched");
    assert_eq!((back.watched, back.came_back, back.by_target[&OTHER]), (2, 1, 1));
    assert_eq!((back.fastest_microseconds, back.slowest_microseconds), (Some(700), Some(700)));

    // It recovers; its record goes on for its clients' sake, and what flows do then is not of it.
    let recovered = bench.moment(3_000_000);
    let counts = Counts {
        reset_flows: 40,
        resets: resets(ResetTrigger::Unhealthy, 41),
        begun: 101,
        moved: 3,
        ..Counts::default()
    };
    bench.recorder.changed(&key(1), HealthState::Healthy, counts, recovered);
    bench.recorder.begun(EDGE, client(0).0, SERVER, OTHER, bench.at(3_500_000));
    bench.look(7_999_999, Counts { active: 70, begun: 171, ..counts });
    assert!(bench.ended().is_empty());
    bench.look(8_000_000, Counts { active: 70, begun: 171, ..counts });
    let [record] = &bench.ended()[..] else { panic!("it ends") };
    assert_eq!((record.flows.begun, record.flows.left, record.flows.ended), (1, 0, 8));
    assert_eq!(record.clients.as_ref().map(|back| back.came_back), Some(2));
    assert_eq!(
        (after(record.recovered), record.durations.decision_to_recovery),
        (Some(2_000_000), Some(2_000_000))
    );
    assert_eq!(record.ended.map(|ended| ended.why), Some(EndReason::Recovered));
    assert!(!bench.recorder.is_recording() && !bench.recorder.looks_out(bench.at(8_000_000)));
}

// T-5
#[test]
fn a_second_failure_soon_after_the_first_has_a_record_of_its_own() {
    let mut bench = Bench::new();
    bench.fail(1, 0, flows(10));
    let recovered = bench.moment(1_000);
    bench.recorder.changed(&key(1), HealthState::Healthy, flows(10), recovered);
    bench.fail(1, 2_000, flows(4));
    let [first] = &bench.ended()[..] else { panic!("the first ends") };
    assert_eq!((first.id, first.ended.map(|ended| ended.why)), (1, Some(EndReason::FailedAgain)));
    let second = bench.one_open();
    assert_eq!((second.id, second.flows.at_decision), (2, 4));
    // A target that cannot be checked for a while is not unhealthy twice.
    bench.recorder.changed(&key(1), HealthState::Unavailable, flows(4), bench.moment(3_000));
    bench.fail(1, 4_000, flows(3));
    assert_eq!(bench.one_open().id, 2);
}

#[test]
fn several_at_once_are_told_apart() {
    let mut bench = Bench::new();
    bench.fail(1, 0, flows(10));
    bench.fail(2, 0, flows(20));
    bench.reset(2, 4000, 5_000, flows(20));
    bench.recorder.applied(1, 0, bench.at(10));
    let first_resets: Vec<_> =
        bench.recorder.open().iter().map(|one| (one.target, after(one.resets.first))).collect();
    assert_eq!(first_resets, [(key(2).address, Some(5_000)), (key(1).address, None)]);
    let applied: Vec<_> = bench.recorder.open().iter().map(|one| one.applied.len()).collect();
    assert_eq!(applied, [0, 1]);
}

// T-3, T-4, R-2
#[test]
fn a_drain_goes_on_after_its_delay_until_the_last_flow_is_gone() {
    let mut bench = Bench::new();
    bench.drain(1, 0, flows(10));
    assert!(!bench.recorder.looks_out(bench.at(1)), "nobody is reset while it drains");
    bench.look(1_000_000, flows(6));
    assert_eq!(bench.one_open().flows.ended, 4);
    bench.recorder.drained(&key(1), 5, flows(6), bench.at(2_000_000));
    assert!(bench.recorder.awaits_configuration(1));
    bench.recorder.configured(4, 0, bench.at(1_000_000));
    assert!(bench.recorder.awaits_configuration(1), "that was the one before");
    bench.recorder.configured(5, 0, bench.at(2_000_100));
    assert!(!bench.recorder.awaits_configuration(1));
    let looks_out = |bench: &Bench, us| bench.recorder.looks_out(bench.at(us));
    assert!(looks_out(&bench, 31_999_999) && !looks_out(&bench, 32_000_000), "for 30 s if nobody is reset");
    let (at, of) = (bench.at(2_003_000), (EDGE, (client(1), SERVER)));
    bench.recorder.reset(&key(1), ResetTrigger::Deregistration, of, at, || flows(6));
    assert!(looks_out(&bench, 32_000_000) && !looks_out(&bench, 32_003_000), "and for 30 s after a reset");
    let end = Counts { reset_flows: 6, resets: resets(ResetTrigger::Deregistration, 6), ..flows(0) };
    bench.recorder.gone(&key(1), end, bench.at(4_000_000));
    let [record] = &bench.ended()[..] else { panic!("it ends") };
    assert_eq!(record.ended.map(|ended| ended.why), Some(EndReason::Gone));
    let drain = record.drain.expect("it was one");
    assert_eq!((after(drain.ended), drain.flows_then), (Some(2_000_000), Some(6)));
    assert_eq!((record.flows.ended, record.flows.reset, record.flows.left), (4, 6, 0));
    let took = record.durations;
    assert_eq!((took.decision_to_applied, took.decision_to_first_reset), (Some(100), Some(3_000)));
}

// T-4
#[test]
fn flows_that_go_on_though_their_target_is_gone_are_not_watched_for_ever() {
    let mut bench = Bench::new();
    bench.drain(1, 0, flows(10));
    bench.recorder.drained(&key(1), 5, flows(6), bench.at(0));
    bench.look(599_999_999, flows(6));
    assert!(bench.ended().is_empty());
    bench.look(600_000_000, flows(6));
    let [record] = &bench.ended()[..] else { panic!("it ends") };
    assert_eq!((record.ended.map(|ended| ended.why), record.flows.left), (Some(EndReason::FlowsLeft), 6));
}

// T-7
#[test]
fn a_target_that_comes_back_while_it_drains_ends_the_record() {
    let mut bench = Bench::new();
    bench.drain(1, 0, flows(10));
    bench.recorder.registered_again(&key(1), flows(9), bench.at(500));
    let [record] = &bench.ended()[..] else { panic!("it ends") };
    assert_eq!(record.ended.map(|ended| ended.why), Some(EndReason::RegisteredAgain));
    assert_eq!((record.flows.left, record.durations.decision_to_recovery), (9, Some(500)));
}

#[test]
fn an_unhealthy_target_that_is_removed_ends_its_record() {
    let mut bench = Bench::new();
    bench.fail(1, 0, flows(10));
    bench.fail(2, 0, flows(10));
    bench.drain(1, 1_000, flows(10));
    let gone = bench.moment(2_000);
    bench.recorder.changed(&key(2), HealthState::Unused, flows(10), gone);
    let why: Vec<_> = bench.ended().iter().map(|record| (record.target, record.ended.unwrap().why)).collect();
    assert_eq!(why, [(key(1).address, EndReason::Deregistered), (key(2).address, EndReason::NotInUse)]);
    assert_eq!(bench.one_open().cause, Cause::Deregistration);
}

#[test]
fn a_daemon_that_ends_ends_every_record() {
    let mut bench = Bench::new();
    bench.fail(1, 0, flows(10));
    bench.drain(2, 0, flows(10));
    let at = bench.at(9);
    bench.recorder.interrupt(|_| flows(7), at);
    let ended = bench.ended();
    assert!(
        ended
            .iter()
            .all(|record| record.ended.unwrap().why == EndReason::Interrupted && record.flows.left == 7)
    );
    assert_eq!(ended.len(), 2);
}

#[test]
fn of_a_fleet_that_fails_as_a_whole_the_first_are_recorded_and_the_others_counted() {
    let mut bench = Bench::new();
    for target in 0..300_u16 {
        let [high, low] = target.to_be_bytes();
        let mut beginning = bench.beginning(0, 0);
        beginning.key = TargetKey::new("fw", Ipv4Addr::new(10, 1, high, low));
        bench.recorder.failed(beginning, (None, None), None, flows(1));
    }
    assert_eq!((bench.recorder.open().len(), bench.recorder.not_recorded()), (MAX_OPEN, 44));
    assert_eq!(bench.recorder.next_id(), 257, "no number is skipped");
    let key = |last| TargetKey::new("fw", Ipv4Addr::new(10, 1, 0, last));
    assert!(!bench.recorder.has_room_for(&TargetKey::new("fw", Ipv4Addr::new(10, 1, 1, 0))));
    assert!(bench.recorder.has_room_for(&key(255)), "it gives up its own room");
    // A target that fails and then leaves: the record of its failure ends.
    let at = bench.at(1);
    bench.recorder.gone(&key(0), flows(0), at);
    assert!(bench.recorder.has_room_for(&TargetKey::new("fw", Ipv4Addr::new(10, 1, 1, 0))));
}

//
#[test]
fn resets_for_the_flows_own_sake_are_of_no_failover() {
    let mut bench = Bench::new();
    bench.fail(1, 0, flows(10));
    for trigger in [ResetTrigger::IdleTimeout, ResetTrigger::NoFlow, ResetTrigger::Deregistration] {
        let (at, what) = (bench.at(5), (EDGE, (client(1), SERVER)));
        bench.recorder.reset(&key(1), trigger, what, at, || flows(10));
    }
    bench.look(10, Counts { resets: resets(ResetTrigger::IdleTimeout, 3), ..flows(10) });
    let record = bench.one_open();
    assert_eq!((record.resets, record.clients), (ResetsSent::default(), None));
}

#[test]
fn a_look_that_finds_nothing_new_changes_nothing() {
    let mut bench = Bench::new();
    bench.fail(1, 0, flows(10));
    bench.look(1, flows(10));
    bench.recorder.take_news();
    bench.look(2, flows(10));
    assert!(!bench.recorder.take_news().1, "nothing is to be stored");
    bench.look(3, flows(9));
    assert!(bench.recorder.take_news().1);
}
