//! Rings that are full, and workers that were stopped: what is lost is counted, and what is not goes on in order.

use std::time::Duration;

use flowgate::datapath::counters::{DropReason, Outcome};
use flowgate::datapath::forwarding::Condition;
use flowgate::datapath::messages::{FromWorker, ToWorker};
use flowgate::datapath::outbound::HANDOFF_RING;
use flowgate::id::{Millis, TargetId};
use flowgate::io::clock::Clock;
use flowgate::io::memory::MemoryBuf;

use crate::harness::*;

// C-1, F-2
#[test]
fn a_worker_that_stands_still_costs_the_packets_that_find_no_room_on_their_way_to_it() {
    let mut bench = Bench::with(3, 2, 8192);
    bench.foresees = false;
    for port in 1..=4000 {
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&client(port, SYN).frame()));
    }
    let now = bench.now;
    while bench.workers[0].round(Millis(now), u64::from(now)) > 0 {}
    let (own, handed) = (bench.outcome(Outcome::Forwarded), bench.counters[0].handed_off.get());
    let lost = bench.drops();
    let [(DropReason::HandoffFull, lost)] = lost[..] else { panic!("{lost:?}") };
    assert_eq!(own + handed + lost, 4000, "C-1");
    assert_eq!(handed, HANDOFF_RING as u64, "as many as the ring holds wait for it");
    assert!(own > 1500 && lost > 500, "{own} of its own, {lost} lost");
    // It goes on, and with it what waited.
    bench.rounds();
    assert_eq!(bench.outcome(Outcome::Forwarded), own + handed);
    bench.take();
    bench.assert_settled();
}

// H-7
#[test]
fn a_control_core_that_reads_nothing_loses_events_and_no_forwarding_state() {
    let mut bench = Bench::new(1);
    let now = bench.now;
    let round = |bench: &mut Bench| while bench.workers[0].round(Millis(now), u64::from(now)) > 0 {};
    let healthy = |sequence| ToWorker::Condition {
        target: TargetId(0),
        generation: 0,
        condition: Condition::Healthy,
        sequence,
    };
    let told = 5000;
    for sequence in 0..told {
        bench.control[0].push(healthy(sequence)).unwrap();
        round(&mut bench);
    }
    let lost = bench.counters[0].events_lost.get();
    assert_eq!(lost, told - 4096, "what the ring has no room for");
    let configuration = |bench: &Bench| bench.counters[0].configuration.get();
    let (first, second) = (7, 8);
    for number in [first, second] {
        let forwarding = flowgate::datapath::forwarding::Forwarding {
            configuration: number,
            ..flowgate::datapath::forwarding::Forwarding::default()
        };
        bench.control[0].push(ToWorker::Forwarding(forwarding.into())).unwrap();
    }
    round(&mut bench);
    assert_eq!(configuration(&bench), first, "the next one waits until the one before is on its way back");
    assert!(bench.events[0].pop().is_ok());
    round(&mut bench);
    assert_eq!(configuration(&bench), second);
    assert!(bench.events[0].pop().is_ok());
    round(&mut bench);
    let events = std::iter::from_fn(|| bench.events[0].pop().ok());
    let retired = events.filter(|event| matches!(event, FromWorker::Retired { .. })).count();
    assert_eq!(retired, 2, "they are freed where they were made");
    assert_eq!(bench.counters[0].events_lost.get(), lost);
}

// F-8
#[test]
fn a_worker_that_was_stopped_grows_its_flows_no_older_for_it_and_counts_the_time() {
    let mut bench = Bench::new(1);
    let (_, before) = bench.one(LEFT, &client(1, SYN).frame());
    let mut clock = Clock::start();
    // To where the bench's own time is.
    clock.advance(bench.now);
    let worker = &mut bench.workers[0];
    let (_, mut began) = worker.counted_round(&clock, clock.now(), clock.cycles());
    for idle_ms in [600, 3_000_000, 40_000] {
        clock.advance(idle_ms);
        (_, began) = worker.counted_round(&clock, clock.at(began), began);
    }
    let paused = Duration::from_millis(bench.counters[0].paused_ms.get());
    assert_eq!(bench.counters[0].pauses.get(), 3);
    assert!(
        paused >= Duration::from_millis(3_040_600) && paused < Duration::from_millis(3_041_000),
        "{paused:?}"
    );
    worker_goes_on(&mut bench, &clock, began, &before);
}

/// The flow is still there: its next packet has its cookie.
fn worker_goes_on(bench: &mut Bench, clock: &Clock, began: u64, before: &[u8]) {
    bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&client(1, ACK).frame()));
    bench.workers[0].counted_round(clock, clock.at(began), began);
    let out = bench.take();
    assert_eq!(cookie(&out[0].1), cookie(before));
    bench.assert_settled();
}
