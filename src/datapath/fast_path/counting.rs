//! Counting a burst's packets by flow, while flow logs are on: from what the stages left in the lanes, once packets are
//! ready, so that the stages themselves know nothing of it.

use super::super::flow_log::FlowLog;
use super::{AnswerLane, Lane};
use crate::flow::{Direction, Entry, Table};
use crate::io::PacketBuf;
use crate::wire::ethernet;

/// Asks for the lines in which a burst's packets will be counted, before they are made ready: at many flows that leaves
/// memory the time to answer.
#[cold]
#[inline(never)]
pub fn prefetch_lanes(log: &FlowLog, lanes: &[Lane]) {
    lanes.iter().filter_map(|lane| lane.guess.entry()).for_each(|id| log.prefetch(id));
}

/// Counts packets that were made ready for their flows' targets. Those that begin a flow were counted with that, and
/// have no guess.
#[cold]
#[inline(never)]
pub fn count_lanes(log: &mut FlowLog, lanes: &[Lane]) {
    for (id, lane) in lanes.iter().filter_map(|lane| Some((lane.guess.entry()?, lane))) {
        log.count_out(id, lane.direction, lane.total_len);
    }
}

/// Counts answers that were made ready to leave their wires, which therefore begin with a link header without tags.
#[cold]
#[inline(never)]
pub fn count_answers<B: PacketBuf>(log: &mut FlowLog, table: &Table, packets: &[B], lanes: &[AnswerLane]) {
    let of_flows = || {
        packets
            .iter()
            .zip(lanes)
            .filter_map(|(packet, lane)| Some((table.by_cookie(lane.cookie).ok()?, packet, lane)))
    };
    // All lines are asked for first; when the burst is read would gain nothing here.
    of_flows().for_each(|(id, ..)| log.prefetch(id));
    for (id, packet, lane) in of_flows() {
        log.count_back(id, direction_of(table.entry(id), packet.bytes()), lane.way.note.bytes);
    }
}

/// Which way a plain packet of this flow goes.
fn direction_of(entry: &Entry, frame: &[u8]) -> Direction {
    let key = entry.key();
    let ip = frame.get(ethernet::HEADER_LEN..).unwrap_or_default();
    match (key.version(), ip.get(12..24), ip.get(8..24)) {
        (4, Some([a, b, c, d, e, f, g, h, p, q, r, s]), _) => {
            let addresses = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            key.way_of_v4(addresses, u32::from_be_bytes([*p, *q, *r, *s])).0
        }
        (6, _, Some(source)) => {
            let low = key.source(Direction::LowToHigh).0.to_be_bytes();
            // Between two ports of one host the ports tell.
            let high = key.source(Direction::HighToLow).0.to_be_bytes();
            let by_port = || ip.get(40..42) == Some(&key.source(Direction::LowToHigh).1.to_be_bytes()[..]);
            if source == low && (low != high || by_port()) {
                Direction::LowToHigh
            } else {
                Direction::HighToLow
            }
        }
        _ => Direction::LowToHigh,
    }
}
