//! `flowgate explain`: what would become of packets, and why.

#![forbid(unsafe_code)]

use super::Session;
use super::arguments::ExplainFlags;
use super::capture_file::{self, CapturedPacket, Layer};
use super::client::CliError;
use super::output::print;
use super::table::{Look, number, text};
use super::traffic::side;
use crate::control::socket::methods::explain::{ExplainFlow, Explanations, MAX_FRAMES};
use crate::control::socket::views::{Explanation, PacketView};
use serde_json::{Value, json};

/// Hexadecimal digits of frames in one request: a line of the socket is bounded.
const DIGITS: usize = 900_000;

pub(super) fn run(session: &mut Session, flags: &ExplainFlags) -> Result<(), CliError> {
    let Some(file) = &flags.pcap else {
        return session.show("explain-flow", &flags.params(), all_in_full);
    };
    let captured = capture_file::read(file, flags.limit).map_err(CliError::Misnamed)?;
    let mut explanations = Vec::new();
    for Request { layer, port, frames } in requests(&captured.packets) {
        let params = flags.params();
        let port = params.port.or(port);
        let params = ExplainFlow { frames, ip_only: layer == Layer::Ip, port, ..flags.params() };
        let Value::Array(more) = session.client.call("explain-flow", &params)?["Explanations"].take() else {
            return Err(CliError::Unreadable("no explanations".to_owned()));
        };
        explanations.extend(more);
    }
    let steps = flags.steps;
    session.output.emit(json!({ "Explanations": explanations }), |result: &Explanations, look: &Look| {
        if steps { all_in_full(result, look) } else { in_lines(result, look) }
    })?;
    if captured.more && session.output.is_for_people() {
        print(&format!("\nThe file has more packets than the {} shown: see --limit.\n", flags.limit))?;
    }
    Ok(())
}

/// Packets that are asked about together.
struct Request {
    layer: Layer,
    port: Option<String>,
    frames: Vec<String>,
}

/// The packets, as many of one kind and port in a row as fit one request.
fn requests(packets: &[CapturedPacket]) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut digits = 0;
    for CapturedPacket { layer, port, bytes } in packets {
        let room = digits + 2 * bytes.len() <= DIGITS;
        let fits = |last: &&mut Request| {
            last.layer == *layer && last.port == *port && last.frames.len() < MAX_FRAMES && room
        };
        match requests.last_mut().filter(fits) {
            Some(last) => last.frames.push(hex(bytes)),
            None => {
                digits = 0;
                requests.push(Request { layer: *layer, port: port.clone(), frames: vec![hex(bytes)] });
            }
        }
        digits += 2 * bytes.len();
    }
    requests
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        // Writing to a string cannot fail.
        write!(digits, "{byte:02x}").ok();
        digits
    })
}

/// A packet as a line begins with it.
fn packet(packet: &PacketView) -> String {
    let (Some(source), Some(destination)) = (packet.source, packet.destination) else {
        return format!("a frame of {} bytes", packet.length);
    };
    let protocol = packet.protocol.map(|protocol| protocol.to_string()).unwrap_or_default();
    let flags = packet.flags.as_ref().map(|flags| format!(" [{flags}]")).unwrap_or_default();
    let ends = [(source, packet.source_port), (destination, packet.destination_port)];
    let [from, to] = ends.map(|(address, port)| side(&address, port));
    format!("{protocol} {from} → {to}{flags}")
}

/// Each packet with every step.
fn all_in_full(result: &Explanations, look: &Look) -> String {
    let all: Vec<String> = result.explanations.iter().map(|told| in_full(told, look)).collect();
    all.join("\n")
}

fn in_full(told: &Explanation, look: &Look) -> String {
    let mut shown =
        format!("{}{}\n", look.paragraph("", &packet(&told.packet)), look.paragraph("", &told.sentence));
    for (place, step) in (1..).zip(&told.steps) {
        let text = format!("{} ({})", step.text, step.rules.join(", "));
        shown.push_str(&look.paragraph(&format!("{place:>2}. "), &text));
        if let Some(command) = &step.command {
            shown.push_str(&look.paragraph("    to change it: ", command));
        }
    }
    if let Some(choice) = &told.choice {
        let open = if choice.fail_open { ", though it is not healthy" } else { "" };
        let text = format!(
            "A new flow with this {} would go to {}{open} (row {}: {}, then {}).",
            choice.key, choice.chosen, choice.row, choice.first.target, choice.second.target
        );
        shown.push_str(&format!("\n{}", look.paragraph("", &text)));
    }
    shown
}

/// A line for each packet.
fn in_lines(all: &Explanations, look: &Look) -> String {
    let rows = (1..).zip(&all.explanations).map(|(place, told): (u32, _)| {
        [number(place), text(packet(&told.packet)), text(told.outcome), text(&told.sentence)]
    });
    look.table(["NO", "PACKET", "OUTCOME", "WHAT BECOMES OF IT"], rows.collect())
}
