//! Tables of what runs: flows, counters, endpoints, ports.

#![forbid(unsafe_code)]

use super::table::{Look, number, optional, text};
use crate::control::shown::span;
use crate::control::socket::methods::node::{Clock, Endpoints, Ports};
use crate::control::socket::views::{CounterSet, Counters, EndpointView, FlowPage};

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
        ]
    });
    let headings = ["PROTO", "FROM", "TO", "TARGET", "STATE", "IDLE", "EXPIRES"];
    let mut shown = String::new();
    // A table an endpoint: addresses of two endpoints may be the same and are not the same hosts (O-4), and
    // a column of endpoints would leave too little room for IPv6.
    let mut endpoints: Vec<&str> = page.flows.iter().map(|flow| flow.endpoint.as_str()).collect();
    endpoints.sort_unstable();
    endpoints.dedup();
    for endpoint in endpoints {
        let of_endpoint = page.flows.iter().zip(rows.clone()).filter(|(flow, _)| flow.endpoint == endpoint);
        let table = look.table(headings, of_endpoint.map(|(_, row)| row).collect());
        shown.push_str(&format!("Endpoint {endpoint}:\n{table}\n"));
    }
    let (listed, matching, total) = (page.flows.len(), page.matching, page.total);
    shown.push_str(&format!("{listed} of {matching} matching flows shown; the node has {total}.\n"));
    shown
}

/// One side of a flow: `10.0.0.1:443`, `[2001:db8::1]:443`, or the address alone.
pub(super) fn side(address: &std::net::IpAddr, port: Option<u16>) -> String {
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
    let mut shown = look.table(headings, rows.collect());
    for endpoint in result.endpoints.iter().filter(|endpoint| !endpoint.interfaces.is_empty()) {
        shown.push_str(&routed(endpoint, look));
    }
    shown
}

/// A routed endpoint's interfaces, routes and neighbours.
fn routed(endpoint: &EndpointView, look: &Look) -> String {
    let interfaces = endpoint.interfaces.iter().map(|interface| {
        let host = &interface.host_interface;
        let up = if host.up { "up" } else { "down" };
        [
            text(&interface.interface_name),
            text(interface.addresses.join(" ")),
            text(&interface.mac),
            number(interface.mtu),
            text(format!("{} ({}, {up})", host.name, host.kind)),
        ]
    });
    let interfaces =
        look.table(["INTERFACE", "ADDRESSES", "MAC", "MTU", "HOST INTERFACE"], interfaces.collect());
    let routes = endpoint
        .routes
        .iter()
        .map(|route| [text(&route.prefix), text(&route.interface_name), optional(route.via.as_ref())]);
    let routes = look.table(["ROUTE", "INTERFACE", "VIA"], routes.collect());
    let neighbours = endpoint.interfaces.iter().flat_map(|interface| {
        interface.neighbours.iter().map(|neighbour| {
            [
                text(neighbour.address),
                text(&interface.interface_name),
                optional(neighbour.mac.as_ref()),
                text(&neighbour.state),
            ]
        })
    });
    let neighbours = look.table(["NEIGHBOUR", "INTERFACE", "MAC", "STATE"], neighbours.collect());
    let name = &endpoint.endpoint_name;
    format!("\nEndpoint {name}:\n{interfaces}\n{routes}\n{neighbours}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::events::Timestamp;
    use jiff::tz::TimeZone;
    use serde_json::json;

    #[test]
    fn flows_go_by_endpoint_and_an_ipv6_flow_fits_on_a_line() {
        let flow = |endpoint: &str, source: &str, destination: &str| {
            json!({
                "Endpoint": endpoint, "Protocol": "tcp", "Source": source, "SourcePort": 40_000,
                "Destination": destination, "DestinationPort": 443, "TargetGroup": "fw",
                "Target": "198.51.100.111", "State": "established", "IdleMs": 1500, "ExpiresInMs": 348_500,
                "Cookie": "00000001", "Worker": 0
            })
        };
        let page: FlowPage = serde_json::from_value(json!({
            "Flows": [
                flow("wan", "2001:db8:1::10", "2001:db8:2::20"),
                flow("lan", "192.0.2.1", "203.0.113.1"),
                flow("wan", "192.0.2.1", "203.0.113.1"),
            ],
            "Matching": 3, "Total": 9
        }))
        .unwrap();
        let expected = "\
Endpoint lan:
PROTO  FROM             TO               TARGET          STATE        IDLE  EXPIRES
tcp    192.0.2.1:40000  203.0.113.1:443  198.51.100.111  established  1.5s   5m 48s

Endpoint wan:
PROTO  FROM                    TO                    TARGET          STATE        IDLE  EXPIRES
tcp    [2001:db8:1::10]:40000  [2001:db8:2::20]:443  198.51.100.111  established  1.5s   5m 48s
tcp    192.0.2.1:40000         203.0.113.1:443       198.51.100.111  established  1.5s   5m 48s

3 of 3 matching flows shown; the node has 9.
";
        assert_eq!(flows(&page, &Look::plain(Timestamp::from_unix_ms(0), TimeZone::UTC)), expected);
    }
}
