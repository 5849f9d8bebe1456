//! Targets that fall silent: who is checked for it, and what is shown.

use super::*;
use crate::control::logging::paper::events;

fn silence_ms(ms: &str) -> Change {
    let attribute = ("flowgate.inband.silence_ms".to_owned(), ms.to_owned());
    Change::ModifyTargetGroupAttributes { target_group: "fw".to_owned(), attributes: vec![attribute] }
}

impl Bench {
    /// Lets as many checks of `address` succeed as make it healthy.
    pub(super) fn heal(&self, address: [u8; 4]) {
        let key = TargetKey::new("fw", address.into());
        let inner = self.core.inner.borrow();
        for _ in 0..5 {
            inner.health.pretend(&key, crate::control::health::check::Outcome::Success);
        }
    }

    /// How `address` stands by the traffic itself, and how many of its checks were out of turn.
    fn inband(&self, address: [u8; 4]) -> (crate::control::socket::views::InBandView, u64) {
        let state = self.core.state();
        let statuses = self.core.targets(state.target_group("fw").unwrap());
        let status = statuses.into_iter().find(|status| status.address.octets() == address).unwrap();
        let key = TargetKey::new("fw", address.into());
        let checks = self.core.inner.borrow().health.view(&key).unwrap().checks;
        (status.in_band.unwrap(), checks.out_of_turn)
    }
}

//
#[test]
fn a_healthy_target_that_falls_silent_is_checked_out_of_turn_and_another_is_not() {
    within_runtime(async || {
        let bench = Bench::start();
        let (silent, talks) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        bench.core.change(&silence_ms("100"), None).unwrap();
        let mut events = bench.core.events();
        let mut told = || {
            let event = std::iter::from_fn(|| events.try_recv().ok())
                .find(|event| matches!(event.what, What::TargetSilent { .. }));
            event.map(|event| event.what)
        };
        let of = |address| bench.counters.target(bench.slot(address).unwrap());
        let began = Instant::now();
        let look = |ms: u64| {
            of(silent).packets_out.add(1);
            of(talks).packets_out.add(1);
            of(talks).packets_back.add(1);
            bench.core.watch_inband(began + Duration::from_millis(ms));
        };
        // Nobody is healthy: nobody is checked for the sake of new flows that it is not given.
        look(0);
        look(150);
        assert_eq!(told(), None);
        bench.heal(silent);
        bench.heal(talks);
        of(silent).packets_back.add(1);
        look(200);
        look(202);
        look(300);
        assert_eq!(told(), None, "not for as long as it takes");
        look(302);
        let expected =
            What::TargetSilent { target_group: "fw".to_owned(), target: silent.into(), silent_for_ms: 100 };
        assert_eq!(told(), Some(expected));
        look(304);
        look(400);
        assert_eq!(told(), None, "once a period");
        look(402);
        assert!(told().is_some());
        // A changed configuration is not an answer of the target's.
        bench.core.change(&delay("7"), None).unwrap();
        look(502);
        assert!(told().is_some());
        bench.core.change(&silence_ms("0"), None).unwrap();
        look(1000);
        assert_eq!(told(), None, "off");
    });
}

//
#[test]
fn the_line_of_a_silent_target_has_its_load_balancer_and_the_configuration() {
    let act = || {
        within_runtime(async || {
            let bench = Bench::start();
            bench.core.change(&silence_ms("100"), None).unwrap();
            bench.heal([192, 0, 2, 1]);
            let began = Instant::now();
            for ms in [0, 200, 400] {
                bench.counters.target(bench.slot([192, 0, 2, 1]).unwrap()).packets_out.add(1);
                bench.core.watch_inband(began + Duration::from_millis(ms));
            }
        });
    };
    let [line] = &events("target_silent", act)[..] else { panic!("one line") };
    let ids = ["load_balancer", "target_group", "target"].map(|id| line[id].as_str().unwrap());
    assert_eq!(ids, ["gw", "fw", "192.0.2.1"]);
    let numbers = ["silent_for_ms", "generation"].map(|id| line[id].as_u64().unwrap());
    assert_eq!(numbers, [200, 1]);
}

//
#[test]
fn what_the_traffic_says_of_a_target_is_shown_also_where_nobody_is_checked_for_it() {
    within_runtime(async || {
        let bench = Bench::start();
        let target = [192, 0, 2, 1];
        let counters = bench.counters.target(bench.slot(target).unwrap());
        bench.core.sweep();
        counters.packets_out.add(3);
        counters.packets_back.add(2);
        bench.core.sweep();
        let (view, _) = bench.inband(target);
        assert_eq!((view.packets_to_target, view.packets_from_target, view.silent_for_ms), (3, 2, 0));
        counters.packets_out.add(1);
        bench.core.sweep();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let (view, out_of_turn) = bench.inband(target);
        assert_eq!((view.packets_to_target, view.packets_from_target), (4, 2));
        assert!((30..5_000).contains(&view.silent_for_ms), "{view:?}");
        assert_eq!(out_of_turn, 0);
        counters.packets_back.add(1);
        assert_eq!(bench.inband(target).0.silent_for_ms, 0, "also between two sweeps");
    });
}

//
#[test]
fn an_audit_is_told_which_of_the_silent_are_sent_packets_now() {
    within_runtime(async || {
        let bench = Bench::start();
        let address = [192, 0, 2, 1];
        let counters = bench.counters.target(bench.slot(address).unwrap());
        let look = async || {
            tokio::time::sleep(Duration::from_millis(5)).await;
            bench.core.sweep();
            bench.core.overview_now(Duration::ZERO);
            bench.core.figures().sent_to
        };
        bench.core.sweep();
        counters.packets_out.add(1);
        bench.core.sweep();
        look().await;
        assert!(look().await.is_empty(), "it returns nothing, and is sent nothing any more");
        counters.packets_out.add(1);
        assert_eq!(look().await, [("fw".to_owned(), address.into())].into());
    });
}
