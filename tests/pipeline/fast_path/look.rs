//! What can be seen of a gateway beside the frames that it sends.

use std::fmt::Debug;

use flowgate::datapath::counters::{Counter, WorkerCounters};
use flowgate::flow::{Direction, FlowKey, FlowState};
use flowgate::id::{EndpointId, GatewayId, TargetId};
use proptest::prelude::*;

use super::settings::TARGETS;
use crate::harness::Bench;

/// Says where two lists begin to differ.
pub fn compare<T: PartialEq + Debug>(what: &str, fast: &[T], general: &[T]) -> Result<(), TestCaseError> {
    let differ = fast.iter().zip(general).find(|(fast, general)| fast != general);
    if let Some((fast, general)) = differ {
        let why = format!("{what}: fast {fast:02x?}, general {general:02x?}");
        return Err(TestCaseError::fail(why));
    }
    prop_assert_eq!(fast.len(), general.len(), "{}", what);
    Ok(())
}

/// One count: its worker, its name, its place among those of its name.
type Count = (usize, &'static str, usize, u64);

/// All that is counted of packets and flows; not look-ups by hash, as what crosses a wire though it was read plainly
/// has one more.
pub fn counts(bench: &Bench) -> Vec<Count> {
    let mut counts = Vec::new();
    for (worker, all) in bench.counters.iter().enumerate() {
        let mut add = |name, counters: &[Counter]| {
            counts.extend(counters.iter().enumerate().map(|(place, one)| (worker, name, place, one.get())));
        };
        packets(all, &mut add);
        for target in (0..TARGETS).map(|n| all.target(TargetId(n))) {
            add("active_flows", std::slice::from_ref(&target.active_flows));
            add("active_tcp_flows", std::slice::from_ref(&target.active_tcp_flows));
            add("new_flows", std::slice::from_ref(&target.new_flows));
            add("packets_out", std::slice::from_ref(&target.packets_out));
            add("bytes_out", std::slice::from_ref(&target.bytes_out));
            add("packets_back", std::slice::from_ref(&target.packets_back));
            add("bytes_back", std::slice::from_ref(&target.bytes_back));
            add("owing_flows", std::slice::from_ref(&target.owing_flows));
            add("moved_away", std::slice::from_ref(&target.moved_away));
            add("last_back", std::slice::from_ref(&target.last_back));
            add("resets of a target", &target.resets);
        }
        for troubles in (0..TARGETS).map(|n| all.troubles(TargetId(n))) {
            add("reset_flows", std::slice::from_ref(&troubles.reset_flows));
            add("suppressed of a target", &troubles.suppressed);
        }
        let gateway = all.gateway(GatewayId(0));
        add("rejected_flows", std::slice::from_ref(&gateway.rejected_flows));
        add("rejected_flows_tcp", std::slice::from_ref(&gateway.rejected_flows_tcp));
        add("resets", &gateway.resets);
        add("suppressed", &gateway.suppressed);
        add("fail_open_flows", std::slice::from_ref(&gateway.fail_open_flows));
        add("stateless_packets", std::slice::from_ref(&gateway.stateless_packets));
    }
    counts
}

fn packets(all: &WorkerCounters, add: &mut impl FnMut(&'static str, &[Counter])) {
    add("received", std::slice::from_ref(&all.received));
    add("outcomes", &all.outcomes);
    add("drops", &all.drops);
    add("icmp_answers", &all.icmp_answers);
    add("flow_states", &all.flow_states);
    for (name, one) in [
        ("fragments_sent", &all.fragments_sent),
        ("mss_lowered", &all.mss_lowered),
        ("fragments_held", &all.fragments_held),
        ("fragments_waiting", &all.fragments_waiting),
        ("errors_of_flows", &all.errors_of_flows),
        ("errors_of_no_flow", &all.errors_of_no_flow),
        ("handed_off", &all.handed_off),
        ("handed_in", &all.handed_in),
        ("lookups_by_cookie", &all.lookups_by_cookie),
        ("lookups_stateless", &all.lookups_stateless),
        ("flow_entries", &all.flow_entries),
        ("flows_expired", &all.flows_expired),
        ("flows_evicted", &all.flows_evicted),
        ("resets_unsent", &all.resets_unsent),
        ("events_lost", &all.events_lost),
        ("endpoint_flows", all.endpoint_flows(EndpointId(0))),
        ("endpoint_flows of wire 1", all.endpoint_flows(EndpointId(1))),
    ] {
        add(name, std::slice::from_ref(one));
    }
}

/// A flow's entry.
#[derive(Debug, PartialEq)]
pub struct Flow {
    worker: usize,
    number: u32,
    key: FlowKey,
    state: FlowState,
    cookie: u32,
    last_seen: u32,
    target: (TargetId, u16),
    links: [u16; 2],
    flags: u8,
    acks: [Option<u32>; 2],
}

/// All flows, entry by entry.
pub fn flows(bench: &Bench) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (worker, one) in bench.workers.iter().enumerate() {
        let table = &one.flows().table;
        table.scan(0, table.capacity(), |id, entry| {
            flows.push(Flow {
                worker,
                number: id.number(),
                key: *entry.key(),
                state: entry.state(),
                cookie: table.cookie(id).0,
                last_seen: entry.last_seen.0,
                target: (entry.target, entry.target_generation),
                links: entry.link.map(|link| link.0),
                flags: entry.flags.bits(),
                acks: [Direction::LowToHigh, Direction::HighToLow].map(|way| entry.last_ack(way)),
            });
        });
    }
    flows
}
