//! Packets of established flows, by the number of flows: to the appliances and back from them, beside
//! testpmd, the same swap in this process, and that swap with a flow table.

use std::time::Duration;

use flowgate::io::dpdk::Mbuf;

use super::Bench;
use crate::Failure;
use crate::contenders::gateway::{Gateway, Shape};
use crate::contenders::rte_hash::RteHash;
use crate::contenders::swap::{Flows, InHashbrown, InRteHash, Stateless, Swap};
use crate::frames::{ACK, Flow, Shuffled};
use crate::report::{Figure, Row, at_most, count};
use crate::stand::{Stand, fill};

/// The one port of a swapping program.
const ONLY: usize = 0;

/// All contenders at one number of flows.
pub struct AtFlows {
    pub flows: u32,
    pub testpmd: Figure,
    pub swap: Figure,
    pub rte_hash: Figure,
    pub hashbrown: Figure,
    pub client: Figure,
    pub answer: Figure,
}

/// A swapping program with the bench around it.
pub fn swapping<F: Flows>(bench: &Bench, flows: F) -> Result<Stand<Swap<F>>, Failure> {
    let mut ends = bench.rings.ends(1, 1)?;
    let swap = Swap { ports: ends.inside.remove(0), flows };
    Ok(Stand::new(&bench.rings, ends.outside.remove(0), swap))
}

pub fn in_rte_hash(flows: u32) -> Result<InRteHash, Failure> {
    let table = RteHash::with_room_for(flows).ok_or("no memory for rte_hash")?;
    Ok(InRteHash { table, added: 0, refused: 0 })
}

pub fn in_hashbrown(flows: u32) -> InHashbrown {
    let room = flows as usize;
    InHashbrown { table: hashbrown::HashMap::with_capacity(room), room, added: 0, refused: 0 }
}

/// Packets of these flows through a swapping program, checked to have come back; nanoseconds each.
pub fn swap_for<F: Flows>(
    stand: &mut Stand<Swap<F>>,
    time: Duration,
    order: &mut (impl Iterator<Item = u32> + Clone),
) -> Result<f64, Failure> {
    let mut expected = order.clone();
    let make = |packet: &mut Mbuf| {
        let flow = Flow::v4(order.next().ok_or("an endless order")?.into());
        fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))
    };
    let see = |frame: &[u8]| swapped(Flow::v4(expected.next().ok_or("an endless order")?.into()), frame);
    stand.play_for(time, (ONLY, ONLY), make, see)
}

/// That a frame is the client's segment, turned round.
fn swapped(flow: Flow, frame: &[u8]) -> Result<(), Failure> {
    let mut wanted = [0; 64];
    let wanted = &mut wanted[..flow.frame_len()];
    flow.server_segment(wanted, ACK);
    // Swapping addresses leaves the checksum right.
    if frame == wanted { Ok(()) } else { Err(format!("{flow:?} came back as {frame:02x?}").into()) }
}

/// Puts each of the flows into a program's table.
pub fn open_all<F: Flows>(stand: &mut Stand<Swap<F>>, flows: u32) -> Result<(), Failure> {
    let (mut opened, mut expected) = (0..u64::from(flows), 0..u64::from(flows));
    stand.play(
        (ONLY, ONLY),
        flows as usize,
        |packet: &mut Mbuf| {
            let flow = Flow::v4(opened.next().ok_or("no more flows")?);
            fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, ACK))
        },
        |frame| swapped(Flow::v4(expected.next().ok_or("no more flows")?), frame),
    )?;
    Ok(())
}

/// Measures all of them with so many flows.
fn at(bench: &mut Bench, flows: u32) -> Result<AtFlows, Failure> {
    bench.says(format_args!("{} flows: opening them", count(flows)));
    let time = bench.turn;
    let mut gateway = Gateway::new(&bench.rings, Shape::full(flows))?;
    let mut swap = swapping(bench, Stateless)?;
    let mut rte_hash = swapping(bench, in_rte_hash(flows)?)?;
    open_all(&mut rte_hash, flows)?;
    let mut hashbrown = swapping(bench, in_hashbrown(flows))?;
    open_all(&mut hashbrown, flows)?;
    let order = || Shuffled::below(flows);
    let (mut orders, mut back) = ([order(), order(), order(), order()], order());
    let mut figures = AtFlows {
        flows,
        testpmd: Figure::new("testpmd", "ns a packet"),
        swap: Figure::new("the same swap, in process", "ns a packet"),
        rte_hash: Figure::new("swap + rte_hash", "ns a packet"),
        hashbrown: Figure::new("swap + hashbrown", "ns a packet"),
        client: Figure::new("Flowgate, client → appliance", "ns a packet"),
        answer: Figure::new("Flowgate, appliance → client", "ns a packet"),
    };
    for round in 0..bench.rounds {
        figures.testpmd.samples.push(bench.testpmd.measure(time)?);
        figures.swap.samples.push(swap_for(&mut swap, time, &mut orders[0])?);
        figures.rte_hash.samples.push(swap_for(&mut rte_hash, time, &mut orders[1])?);
        figures.hashbrown.samples.push(swap_for(&mut hashbrown, time, &mut orders[2])?);
        figures.client.samples.push(gateway.client_packets(time, &mut orders[3])?);
        figures.answer.samples.push(gateway.answers(time, &mut back)?);
        bench.says(format_args!("{} flows, round {}: {}", count(flows), round + 1, figures.latest()));
    }
    let known = [
        ("rte_hash", rte_hash.forwarder.flows.added, rte_hash.forwarder.flows.refused),
        ("hashbrown", hashbrown.forwarder.flows.added, hashbrown.forwarder.flows.refused),
    ];
    for (name, added, refused) in known {
        if (added, refused) != (u64::from(flows), 0) {
            return Err(format!("{name} has {added} flows of {flows} and had no room for {refused}").into());
        }
    }
    Ok(figures)
}

impl AtFlows {
    pub fn figures(&self) -> [&Figure; 6] {
        [&self.testpmd, &self.swap, &self.rte_hash, &self.hashbrown, &self.client, &self.answer]
    }

    fn latest(&self) -> String {
        self.figures().map(|figure| format!("{} {:.1}", figure.contender, figure.samples.last())).join(", ")
    }
}

/// The rows, and the same figures by number of flows for the plot.
pub fn run(bench: &mut Bench) -> Result<(Vec<Row>, Vec<AtFlows>), Failure> {
    let mut curve = Vec::new();
    for flows in bench.flows.clone() {
        curve.push(at(bench, flows)?);
    }
    let mut rows = Vec::new();
    for (title, ours, bars) in [
        ("established packet client → appliance", true, [(1 << 10, 2.0), (1 << 20, 4.0)].as_slice()),
        ("appliance → client", false, [(1 << 20, 3.0)].as_slice()),
    ] {
        for at in &curve {
            let figure = if ours { &at.client } else { &at.answer };
            let mut row = Row::new("packets", format!("{title}, {} flows", count(at.flows)));
            for beside in [&at.testpmd, &at.swap, &at.rte_hash, &at.hashbrown, figure] {
                row.figures.push(beside.clone());
            }
            if let Some((_, limit)) = bars.iter().find(|(flows, _)| *flows == at.flows) {
                row.verdicts.push(at_most(
                    "cost of a packet",
                    figure.best() / at.testpmd.best(),
                    *limit,
                    "Y",
                ));
            } else {
                row.notes.push(format!("{:.2} Y; no bar", figure.best() / at.testpmd.best()));
            }
            rows.push(row);
        }
    }
    Ok((rows, curve))
}
