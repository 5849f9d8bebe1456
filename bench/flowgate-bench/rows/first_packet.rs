//! First packets of flows into a table of 1 M that is half full: choose, insert, encapsulate. Some thousands
//! at a time, which are ended again, unmeasured. All entries were in use before, so that an insertion finds
//! its entry in memory and not in untouched pages.

use std::time::Duration;

use flowgate::io::dpdk::Mbuf;

use super::Bench;
use super::packets::{ONLY, in_hashbrown, in_rte_hash, open_all, swapped, swapping};
use crate::contenders::gateway::{Gateway, Shape};
use crate::contenders::swap::{Flows, Swap, tuple_of};
use crate::frames::{ACK, Flow};
use crate::report::{Figure, Row, at_most, count};
use crate::stand::{Stand, fill};
use crate::{Failure, cpu_time};

/// New flows that are put in before they are ended again: an eighth of those that stay.
const PART: u32 = 8;

/// Numbers of flows that are in no table yet.
pub const STRANGERS: u64 = 1 << 32;

/// First packets of `count` flows from `first` on through a swapping program; its CPU time.
pub fn strangers<F: Flows>(
    stand: &mut Stand<Swap<F>>,
    first: u64,
    count: usize,
) -> Result<Duration, Failure> {
    let (mut opened, mut expected) = (first.., first..);
    stand.play(
        (ONLY, ONLY),
        count,
        |packet: &mut Mbuf| {
            let flow = Flow::v4(opened.next().ok_or("no more flows")?);
            fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))
        },
        |frame| swapped(Flow::v4(expected.next().ok_or("no more flows")?), frame),
    )
}

/// Removes those flows again.
fn forget<F: Flows>(stand: &mut Stand<Swap<F>>, first: u64, count: usize) -> Result<(), Failure> {
    let mut frame = [0; 64];
    for flow in (first..).take(count).map(Flow::v4) {
        flow.client_segment(&mut frame[..flow.frame_len()], ACK);
        if !stand.forwarder.flows.forget(&tuple_of(&frame)) {
            return Err(format!("{flow:?} was not added to the table").into());
        }
    }
    Ok(())
}

/// Plays parts of `count` packets until they have taken `time`; nanoseconds a packet.
fn in_parts(
    time: Duration,
    count: usize,
    mut play: impl FnMut() -> Result<Duration, Failure>,
) -> Result<f64, Failure> {
    let (mut spent, mut packets) = (Duration::ZERO, 0);
    while spent < time {
        spent += play()?;
        packets += count;
    }
    Ok(cpu_time::each(spent, packets))
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let capacity = bench.size(1 << 20);
    let (kept, part) = (capacity / 2, (capacity / 2 / PART) as usize);
    bench.says(format_args!("first packets, table of {}: filling half of it", count(capacity)));
    let mut gateway = Gateway::new(&bench.rings, Shape { flows: kept, ..Shape::full(capacity) })?;
    let mut new = STRANGERS..;
    gateway.first_packets((capacity - kept) as usize, &mut new)?;
    gateway.end_half_open(kept)?;

    let mut rte_hash = swapping(bench, in_rte_hash(capacity)?)?;
    open_all(&mut rte_hash, kept)?;
    let mut hashbrown = swapping(bench, in_hashbrown(capacity))?;
    open_all(&mut hashbrown, kept)?;

    let figure = |who: &str| Figure::new(who, "ns a packet");
    let (mut ours, mut of_rte_hash, mut of_hashbrown) = (
        figure("Flowgate"),
        figure("the swap in this process and rte_hash, 16-byte keys"),
        figure("the swap in this process and hashbrown, 16-byte keys"),
    );
    let (mut next_rte, mut next_hashbrown) = (STRANGERS, STRANGERS);
    let testpmd = bench.yardstick(|| {
        of_rte_hash.samples.push(in_parts(bench.turn, part, || {
            let took = strangers(&mut rte_hash, next_rte, part)?;
            forget(&mut rte_hash, next_rte, part)?;
            next_rte += part as u64;
            Ok(took)
        })?);
        of_hashbrown.samples.push(in_parts(bench.turn, part, || {
            let took = strangers(&mut hashbrown, next_hashbrown, part)?;
            forget(&mut hashbrown, next_hashbrown, part)?;
            next_hashbrown += part as u64;
            Ok(took)
        })?);
        ours.samples.push(in_parts(bench.turn, part, || {
            let took = gateway.first_packets(part, &mut new)?;
            gateway.end_half_open(kept)?;
            Ok(took)
        })?);
        Ok(())
    })?;
    let mut row =
        Row::new("first-packet", format!("first packet of a flow, table of {} half full", count(capacity)));
    row.verdicts.push(at_most("a packet", ours.best() / testpmd.best(), 8.0, "Y"));
    row.figures = vec![testpmd, of_rte_hash, of_hashbrown, ours];
    Ok(vec![row])
}
