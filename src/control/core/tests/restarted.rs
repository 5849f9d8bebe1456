//! What is told of the flow tables of the daemon before this one.

use super::*;
use crate::control::panics::Panic;
use crate::control::tables::Outcome;
use crate::control::troubles::Kind;
use crate::datapath::messages::FromWorker;
use crate::id::Millis;

/// What a control core tells once its worker forwards, and not before, and once.
fn told(bench: &mut Bench) -> Vec<What> {
    let mut heard = bench.core.events.listen();
    let core = Rc::clone(&bench.core);
    let mut news = || -> Vec<What> {
        core.hear_workers();
        std::iter::from_fn(|| heard.try_recv().ok()).map(|event| event.what).collect()
    };
    assert_eq!(news(), [], "nobody forwards");
    let forwarding = bench.published().expect("the first one");
    let at_cycles = bench.core.inner.borrow().workers.clock().cycles();
    bench.says.push(FromWorker::Retired { forwarding, at_cycles }).unwrap();
    let first = news();
    assert_eq!(news(), [], "it is told once");
    first
}

fn troubles(bench: &Bench) -> Vec<Kind> {
    let overview = bench.core.overview(Duration::ZERO);
    overview
        .troubles
        .iter()
        .map(|one| one.kind)
        .filter(|kind| [Kind::TablesLost, Kind::TablesNotKept].contains(kind))
        .collect()
}

#[test]
fn tables_that_were_taken_over_are_told_with_the_gap() {
    within_runtime(async || {
        let mut bench = Bench::restarted(Keeper::shared(), |clock| Restart {
            kept: 26,
            torn: 1,
            refused: 2,
            last_round: Some(Millis(clock.now().0.wrapping_sub(214))),
            ..Restart::nothing(Outcome::TakenOver)
        });
        let [What::FlowTablesTakenOver { flows: 26, torn: 1, refused: 2, gap_ms }] = told(&mut bench)[..]
        else {
            panic!("nothing of it")
        };
        assert!((214..10_000).contains(&gap_ms), "{gap_ms}");
        assert_eq!(bench.core.flow_tables().gap_milliseconds, Some(gap_ms));
        assert_eq!(troubles(&bench), []);
    });
}

// F-8
#[test]
fn tables_that_are_lost_or_not_kept_are_told_and_are_in_the_overview() {
    within_runtime(async || {
        let lost = What::FlowTablesLost { why: "worker-1 is missing".to_owned(), adopt_seconds: 350 };
        let mut bench = Bench::restarted(Keeper::shared(), |clock| Restart {
            adopt_until: Some(clock.now().plus(350_000)),
            ..Restart::nothing(Outcome::Lost("worker-1 is missing".to_owned()))
        });
        assert_eq!(told(&mut bench), [lost]);
        assert_eq!(troubles(&bench), [Kind::TablesLost]);

        let not_kept = || Restart::nothing(Outcome::NotKept("no room".to_owned()));
        let mut bench = Bench::restarted(Keeper::shared(), |_| not_kept());
        assert_eq!(told(&mut bench), [], "it stays so, and so is in the overview alone");
        assert_eq!(troubles(&bench), [Kind::TablesNotKept]);
        let why = "of another layout".to_owned();
        let mut bench =
            Bench::restarted(Keeper::shared(), |_| Restart { lost: Some(why.clone()), ..not_kept() });
        assert_eq!(told(&mut bench), [What::FlowTablesLost { why, adopt_seconds: 0 }]);
        assert_eq!(troubles(&bench), [Kind::TablesLost, Kind::TablesNotKept]);
        let view = bench.core.flow_tables();
        assert!(view.outcome == "not_kept" && view.lost, "{view:?}");

        let mut bench = Bench::start();
        assert_eq!(told(&mut bench), [], "there were none");
        assert_eq!(troubles(&bench), []);
    });
}

#[test]
fn tables_that_were_lost_long_ago_are_no_trouble_again_after_a_panic() {
    within_runtime(async || {
        let lost = || Restart::nothing(Outcome::Lost("worker-1 is missing".to_owned()));
        let after_a_panic = |first: Life| {
            let said = || "a test".to_owned();
            first.next(Panic { thread: said(), what: said(), place: said(), calls: None })
        };
        let bench = Bench::of_life(after_a_panic(Life::first()), Keeper::shared(), |_| lost());
        assert_eq!(troubles(&bench), [Kind::TablesLost]);
        let mut long_ago = Life::first();
        long_ago.since.0 -= Duration::from_secs(601);
        let bench = Bench::of_life(after_a_panic(long_ago), Keeper::shared(), |_| lost());
        assert_eq!(troubles(&bench), []);
    });
}
