//! A record as a JSON line.

use std::net::{IpAddr, Ipv4Addr};

use serde::Serialize;

use super::record::Record;
use crate::control::events::Timestamp;
use crate::control::socket::views::Protocol;

/// What a record looks like.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Line<'a> {
    time: String,
    record: &'static str,
    reason: &'static str,
    endpoint: &'a str,
    load_balancer: &'a str,
    target_group: &'a str,
    #[serde(skip_serializing_if = "Ipv4Addr::is_unspecified")]
    target: Ipv4Addr,
    protocol: Protocol,
    source: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_port: Option<u16>,
    destination: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    destination_port: Option<u16>,
    first: String,
    last: String,
    whole: bool,
    forward_packets: u64,
    forward_bytes: u64,
    reverse_packets: u64,
    reverse_bytes: u64,
    returned_forward_packets: u64,
    returned_forward_bytes: u64,
    returned_reverse_packets: u64,
    returned_reverse_bytes: u64,
    cookie: String,
}

/// What the line looks like that tells of lost records.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LostLine {
    time: String,
    record: &'static str,
    records: u64,
    packets: u64,
    bytes: u64,
}

/// Adds a record's line to `to`.
pub fn write(record: &Record<'_>, to: &mut Vec<u8>) {
    let has_ports = record.has_ports();
    let line = Line {
        time: Timestamp::from(record.at).to_string(),
        record: "flow",
        reason: record.reason.as_str(),
        endpoint: record.endpoint,
        load_balancer: &record.target.load_balancer,
        target_group: &record.target.target_group,
        target: record.target.target,
        protocol: Protocol(record.protocol),
        source: record.source.ip(),
        source_port: has_ports.then_some(record.source.port()),
        destination: record.destination.ip(),
        destination_port: has_ports.then_some(record.destination.port()),
        first: Timestamp::from(record.first).to_string(),
        last: Timestamp::from(record.last).to_string(),
        whole: record.is_whole,
        forward_packets: record.forward.packets,
        forward_bytes: record.forward.bytes,
        reverse_packets: record.reverse.packets,
        reverse_bytes: record.reverse.bytes,
        returned_forward_packets: record.returned_forward.packets,
        returned_forward_bytes: record.returned_forward.bytes,
        returned_reverse_packets: record.returned_reverse.packets,
        returned_reverse_bytes: record.returned_reverse.bytes,
        cookie: format!("{:08x}", record.cookie),
    };
    put(&line, to);
}

/// Adds the line of `records` that were lost, and of the packets and bytes that they were about.
pub fn write_lost(at: Timestamp, (records, packets, bytes): (u64, u64, u64), to: &mut Vec<u8>) {
    put(&LostLine { time: at.to_string(), record: "lost", records, packets, bytes }, to);
}

fn put(line: &impl Serialize, to: &mut Vec<u8>) {
    let before = to.len();
    // Numbers and strings always become JSON; if one day they did not, half a line would be worse than none.
    match serde_json::to_writer(&mut *to, line) {
        Ok(()) => to.push(b'\n'),
        Err(_) => to.truncate(before),
    }
}
