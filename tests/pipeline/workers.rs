//! More than one worker: each flow has one owner, whichever worker its packets arrive at (F-2).

use std::sync::Arc;

use flowgate::datapath::counters::DropReason;
use flowgate::datapath::load::PacketRing;
use flowgate::datapath::outbound::HANDOFF_RING;
use flowgate::datapath::steering::Steering;
use flowgate::id::{Millis, QueueId};
use flowgate::io::BURST;
use flowgate::io::memory::MemoryBuf;
use flowgate::wire::toeplitz;

use crate::harness::*;

// F-2, W-4
#[test]
fn a_flow_has_one_owner_whichever_worker_gets_its_packets() {
    for workers in [2, 4] {
        let mut bench = Bench::with(3, workers, 1024);
        let mut owners = vec![0; usize::from(workers)];
        for port in 1..200 {
            let syn = client(port, SYN);
            let mut cookies = Vec::new();
            for at in 0..usize::from(workers) {
                let out = bench.put_at(at, LEFT, &syn.frame());
                cookies.push(cookie(&out[0].1));
                let back = bench.put_at((at + 1) % usize::from(workers), UNDER, &answer(&out[0].1, None));
                assert_eq!(back, [(RIGHT, syn.frame())]);
                let reply = Segment { flags: SYN | ACK, ..syn.clone().reversed() };
                let out = bench.put_at((at + 1) % usize::from(workers), RIGHT, &reply.frame());
                cookies.push(cookie(&out[0].1));
            }
            cookies.dedup();
            assert_eq!(cookies.len(), 1, "F-11");
        }
        for (worker, owned) in owners.iter_mut().enumerate() {
            *owned = bench.counters[worker].flow_entries.get();
        }
        assert_eq!(owners.iter().sum::<u64>(), 199);
        let fair = 199 / u64::from(workers);
        assert!(owners.iter().all(|owned| *owned > fair / 2), "spread over the workers: {owners:?}");
        assert_eq!(bench.drops(), []);
        bench.assert_settled();
    }
}

// W-3, F-2
#[test]
fn an_answer_arrives_at_the_owner_where_the_card_spreads_by_the_symmetric_key() {
    let reta: Vec<QueueId> = (0..128).map(|entry| QueueId(entry % 4)).collect();
    let mut bench = Bench::with(3, 4, 1024);
    bench.steering = Steering::new(&reta, 4).map(Arc::new);
    assert!(bench.steering.is_some());
    bench.publish();
    for port in 1..200 {
        let syn = client(port, SYN);
        let out = bench.put(LEFT, &syn.frame()).remove(0).1;
        let reply = bench.put(RIGHT, &Segment { flags: SYN | ACK, ..syn.clone().reversed() }.frame());
        assert_eq!(source_port(&reply[0].1), source_port(&out), "the same in both directions");

        let back = answer(&out, None);
        // The card hashes source, destination and ports as they stand in the packet.
        let hash = toeplitz::hash(&toeplitz::SYMMETRIC_KEY_40, &back[26..38]);
        let queue = reta[hash as usize % reta.len()];
        let handed = handed_off(&bench);
        assert_eq!(bench.put_at(usize::from(queue.0), UNDER, &back), [(RIGHT, syn.frame())]);
        assert_eq!(handed_off(&bench), handed, "no other worker was needed");
    }
    assert!(bench.counters.iter().all(|counters| counters.flow_entries.get() > 20), "all four own flows");
    bench.assert_settled();
}

fn handed_off(bench: &Bench) -> u64 {
    bench.counters.iter().map(|counters| counters.handed_off.get()).sum()
}

#[test]
fn how_full_the_rings_between_workers_are_is_shown_and_was() {
    let mut bench = Bench::with(3, 2, 1024);
    let fill = |bench: &Bench, worker: usize| {
        let fill = bench.counters[worker].ring(PacketRing::HandedIn);
        (fill.waiting.get(), fill.most.within(Millis(bench.now), 60_000))
    };
    assert_eq!(bench.counters[1].ring(PacketRing::HandedIn).capacity.get(), HANDOFF_RING as u64);
    bench.now += 1;
    // All come to worker 0, and worker 1 has no turn meanwhile.
    for port in 1..=640 {
        bench.workers[0].ports_mut()[LEFT].arriving.push_back(MemoryBuf::new(&client(port, SYN).frame()));
    }
    for _ in 0..10 {
        bench.workers[0].round(Millis(bench.now), 0);
    }
    let handed = handed_off(&bench);
    assert!(handed > 3 * BURST as u64, "{handed}");
    // It takes a burst for each of its ports in a round.
    bench.workers[1].round(Millis(bench.now), 0);
    assert_eq!(fill(&bench, 1), (handed - 3 * BURST as u64, handed));
    bench.pass(1);
    assert_eq!(fill(&bench, 1), (0, handed), "of the last minute");
    assert_eq!(fill(&bench, 0), (0, 0));
    bench.pass(70_000);
    assert_eq!(fill(&bench, 1), (0, 0));
}

// W-5
#[test]
fn the_cookie_of_a_worker_that_there_is_not_is_stale() {
    let mut bench = Bench::with(1, 3, 1024);
    let (_, out) = bench.one(LEFT, &client(1, SYN).frame());
    let mut back = answer(&out, None);
    // Three workers have two bits for their number, at the top below the bit for "without state".
    back[78] |= 0x60;
    assert_eq!(bench.dropped(UNDER, &back), DropReason::CookieStale);
    bench.assert_settled();
}
