//! Scans of the flow tables, whose askers may be gone before the workers are done.

use super::*;
use crate::control::explain::{Asked, Packets};
use crate::control::socket::views::FlowQuery;
use crate::datapath::messages::FlowRecord;
use crate::flow::FlowState;
use crate::id::{EndpointId, Millis};

/// The number of the scan that the worker was asked for.
fn asked(bench: &mut Bench) -> u32 {
    while let Ok(message) = bench.inbox.pop() {
        if let ToWorker::ScanFlows(filter) = message {
            return filter.scan;
        }
    }
    panic!("no scan was asked for");
}

fn flow(scan: u32, port: u16) -> FromWorker {
    let end = |last| std::net::IpAddr::from([198, 51, 100, last]);
    FromWorker::Flow(FlowRecord {
        scan,
        worker: WorkerId(0),
        endpoint: EndpointId(0),
        protocol: 6,
        initiator: (end(1), port),
        responder: (end(2), 443),
        target: TargetId(0),
        target_generation: 0,
        state: FlowState::Established,
        cookie: 0,
        fail_open: false,
        expires_in_ms: 1000,
        last_seen: Millis(0),
        now: Millis(0),
    })
}

#[test]
fn what_a_scan_finds_that_nobody_waits_for_any_more_is_not_told_to_the_next() {
    within_runtime(async || {
        let mut bench = Bench::start();
        let core = Rc::clone(&bench.core);
        // Whoever asks is shown out while the worker looks.
        let patience = Duration::from_millis(1);
        assert!(tokio::time::timeout(patience, core.flows(FlowQuery::default())).await.is_err());
        let abandoned = asked(&mut bench);
        let mut second = core.flows(FlowQuery::default());
        assert!(tokio::time::timeout(patience, &mut second).await.is_err(), "it waits for the worker");
        let wanted = asked(&mut bench);
        let done = |scan, matching| FromWorker::ScanDone { worker: WorkerId(0), scan, matching };
        for message in [flow(abandoned, 1), done(abandoned, 7), flow(wanted, 2), done(wanted, 1)] {
            bench.says.push(message).unwrap();
        }
        core.hear_workers();
        let page = second.await.unwrap();
        let ports: Vec<_> = page.flows.iter().map(|flow| flow.source_port).collect();
        assert_eq!((ports, page.matching), (vec![Some(2)], 1));
    });
}

#[test]
fn questions_to_a_stuck_worker_wait_in_its_ring_alone_and_are_refused_when_that_is_full() {
    within_runtime(async || {
        let bench = Bench::start();
        let core = Rc::clone(&bench.core);
        let waiting = |core: &Core| core.inner.borrow().workers.links()[0].to_worker();
        let patience = Duration::from_millis(1);
        let mut refused = None;
        // It takes nothing out.
        for _ in 0..2 * RING {
            if let Ok(answer) = tokio::time::timeout(patience, core.flows(FlowQuery::default())).await {
                refused = Some(answer);
                break;
            }
        }
        assert!(refused.unwrap().is_err_and(|why| why.0.contains("stuck")));
        assert_eq!(waiting(&core), (RING, 0), "what others are told is not kept waiting longer");
        let packets = Packets::OfCookie { cookie: 0, flags: 0, from_responder: false };
        let asked = Asked { packets, port: None, endpoint: None };
        let why = core.explain_packets(asked).await.unwrap_err();
        assert!(why.to_string().contains("stuck"), "{why}");
        assert_eq!(waiting(&core), (RING, 0));
    });
}
