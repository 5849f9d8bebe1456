//! Endpoints, and what the devices under them counted.

use std::fmt;

use crate::control::monitor::metrics::family::{Family, Series};
use crate::control::monitor::metrics::snapshot::Snapshot;
use crate::control::socket::views::PortView;

fn count(snapshot: &Snapshot, out: &mut Series<'_>, of: fn(&PortView) -> u64) -> fmt::Result {
    snapshot.ports.iter().try_for_each(|port| out.counter(&[&port.port_name], of(port)))
}

const PORT: &[&str] = &["port"];

pub const FAMILIES: &[Family] = &[
    Family::gauge(
        "flowgate_endpoint_active_flows",
        &["endpoint", "load_balancer"],
        "Live flows of the endpoint; without a load balancer its traffic is dropped",
        |snapshot, out| {
            let mut each = snapshot.endpoints.iter();
            each.try_for_each(|one| out.gauge(&[&one.name, &one.balancer], one.flows))
        },
    ),
    Family::gauge(
        "flowgate_port_info",
        &["port", "device", "driver", "mac"],
        "1; what the port is",
        |snapshot, out| {
            let mut each = snapshot.ports.iter();
            each.try_for_each(|one| out.gauge(&[&one.port_name, &one.device, &one.driver, &one.mac], 1_u64))
        },
    ),
    Family::gauge("flowgate_port_up", PORT, "1 if the port's link is up", |snapshot, out| {
        snapshot.ports.iter().try_for_each(|one| out.gauge(&[&one.port_name], u64::from(one.link_up)))
    }),
    Family::gauge(
        "flowgate_port_mtu_bytes",
        PORT,
        "The largest packet that the port takes, without its Ethernet header",
        |snapshot, out| {
            snapshot.ports.iter().try_for_each(|one| out.gauge(&[&one.port_name], u64::from(one.mtu)))
        },
    ),
    Family::gauge("flowgate_port_queues", PORT, "Queues of the port in each direction", |snapshot, out| {
        snapshot.ports.iter().try_for_each(|one| out.gauge(&[&one.port_name], u64::from(one.queues)))
    }),
    Family::counter(
        "flowgate_port_received_packets",
        PORT,
        "Packets that the port received",
        |snapshot, out| count(snapshot, out, |port| port.received),
    ),
    Family::counter(
        "flowgate_port_received_bytes",
        PORT,
        "Bytes of frames that the port received",
        |snapshot, out| count(snapshot, out, |port| port.received_bytes),
    ),
    Family::counter("flowgate_port_sent_packets", PORT, "Packets that the port sent", |snapshot, out| {
        count(snapshot, out, |port| port.sent)
    }),
    Family::counter(
        "flowgate_port_sent_bytes",
        PORT,
        "Bytes of frames that the port sent",
        |snapshot, out| count(snapshot, out, |port| port.sent_bytes),
    ),
    Family::counter(
        "flowgate_port_missed_packets",
        PORT,
        "Packets that the device dropped because no worker took them in time, or for want of a buffer",
        |snapshot, out| count(snapshot, out, |port| port.missed),
    ),
    Family::counter(
        "flowgate_port_missed_for_buffers_packets",
        PORT,
        "Of the missed packets, those for which there was no buffer",
        |snapshot, out| count(snapshot, out, |port| port.no_buffer),
    ),
    Family::counter(
        "flowgate_port_receive_errors",
        PORT,
        "Frames that the device received damaged",
        |snapshot, out| count(snapshot, out, |port| port.receive_errors),
    ),
    Family::counter(
        "flowgate_port_send_errors",
        PORT,
        "Packets that the device took and could not send",
        |snapshot, out| count(snapshot, out, |port| port.send_errors),
    ),
];
