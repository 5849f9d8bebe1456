//! Tables of what runs: flows, counters, endpoints, workers, ports.

#![forbid(unsafe_code)]

use super::table::{Look, number, optional, span, text};
use crate::control::socket::methods::node::{Clock, Endpoints, Ports, Workers};
use crate::control::socket::views::{CounterSet, Counters, FlowPage};

pub(super) fn flows(page: &FlowPage, look: &Look) -> String {
    let rows = page.flows.iter().map(|flow| {
        [
            text(flow.protocol),
            text(side(&flow.source, flow.source_port)),
            text(side(&flow.destination, flow.destination_port)),
            text(flow.target),
            text(flow.state),
            number(span(flow.idle_ms)),
            number(span(flow.expires_in_ms)),
            text(&flow.endpoint),
        ]
    });
    let headings = ["PROTO", "FROM", "TO", "TARGET", "STATE", "IDLE", "EXPIRES", "ENDPOINT"];
    let table = look.table(headings, rows.collect());
    let (shown, matching, total) = (page.flows.len(), page.matching, page.total);
    format!("{table}\n{shown} of {matching} matching flows shown; the node has {total}.\n")
}

/// One side of a flow: `10.0.0.1:443`, `[2001:db8::1]:443`, or the address alone.
fn side(address: &std::net::IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => std::net::SocketAddr::new(*address, port).to_string(),
        None => address.to_string(),
    }
}

pub(super) fn counters(counters: &Counters, zeros: bool, look: &Look) -> String {
    let mut rows = Vec::new();
    for set in &counters.sets {
        let drops = set.drops.iter().map(|(reason, count)| (format!("dropped: {reason}"), *count));
        let all = set.counters.iter().map(|(name, count)| (name.clone(), *count)).chain(drops);
        rows.extend(
            all.filter(|(_, count)| zeros || *count > 0)
                .map(|(name, count)| [text(set.scope), text(of_what(set)), text(name), number(count)]),
        );
    }
    let table = look.table(["SCOPE", "NAME", "COUNTER", "VALUE"], rows);
    let (at, up) = (look.date_and_time(counters.at), span(counters.uptime_ms));
    format!("{table}\nRead at {at}; the daemon has been up for {up}.\n")
}

fn of_what(set: &CounterSet) -> &str {
    if set.name.is_empty() { "-" } else { &set.name }
}

pub(super) fn endpoints(result: &Endpoints, look: &Look) -> String {
    let rows = result.endpoints.iter().map(|endpoint| {
        [
            text(&endpoint.endpoint_name),
            text(&endpoint.kind),
            text(endpoint.ports.join(" ")),
            optional(endpoint.load_balancer.as_ref()),
            number(endpoint.flows),
            text(&endpoint.endpoint_id),
            text(&endpoint.attachment_id),
        ]
    });
    let headings = ["ENDPOINT", "KIND", "PORTS", "LOAD BALANCER", "FLOWS", "ENDPOINT ID", "ATTACHMENT ID"];
    look.table(headings, rows.collect())
}

pub(super) fn workers(result: &Workers, look: &Look) -> String {
    let rows = result.workers.iter().map(|worker| {
        [
            number(worker.worker),
            number(worker.core),
            number(worker.flows),
            number(worker.capacity),
            number(worker.generation),
            number(span(worker.heartbeat_age_ms)),
        ]
    });
    look.table(["WORKER", "CORE", "FLOWS", "CAPACITY", "GENERATION", "HEARTBEAT"], rows.collect())
}

pub(super) fn ports(result: &Ports, look: &Look) -> String {
    let rows = result.ports.iter().map(|port| {
        [
            text(&port.port_name),
            text(if port.link_up { "up" } else { "down" }),
            text(&port.driver),
            text(&port.device),
            text(&port.mac),
            number(port.mtu),
            number(port.queues),
            number(port.received),
            number(port.sent),
            number(port.missed),
        ]
    });
    let headings = ["PORT", "LINK", "DRIVER", "DEVICE", "MAC", "MTU", "QUEUES", "RECEIVED", "SENT", "MISSED"];
    look.table(headings, rows.collect())
}

pub(super) fn clock(result: &Clock, look: &Look) -> String {
    format!("The daemon's time is {}.\n", look.date_and_time(result.now))
}
