//! Packets of established flows, by the number of flows: to the appliances and back from them, beside
//! testpmd, the same swap in this process, and that swap with a flow table.

use std::time::Duration;

use flowgate::io::dpdk::Mbuf;

use super::Bench;
use crate::Failure;
use crate::contenders::gateway::{Gateway, Shape, pages_name};
use crate::contenders::rte_hash::RteHash;
use crate::contenders::swap::{Flows, InHashbrown, InRteHash, Stateless, Swap};
use crate::frames::{ACK, Flow, Shuffled, Version};
use crate::report::{Figure, Row, at_most, count};
use crate::stand::{Stand, fill};

/// Where the bars are.
const CLIENT_FEW: u32 = 1 << 10;
const MANY: u32 = 1 << 20;

/// With how many flows IPv6 is measured.
const IPV6_FLOWS: u32 = 1 << 20;

/// The one port of a swapping program.
pub const ONLY: usize = 0;

/// All contenders at one number of flows.
pub struct AtFlows {
    pub flows: u32,
    pub testpmd: Figure,
    pub swap: Figure,
    pub rte_hash: Figure,
    pub hashbrown: Figure,
    pub client: Figure,
    pub answer: Figure,
    pub ipv6: Option<Figure>,
    /// What Flowgate's table lies in.
    pages: &'static str,
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
pub fn swapped(flow: Flow, frame: &[u8]) -> Result<(), Failure> {
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
fn at(bench: &Bench, flows: u32) -> Result<AtFlows, Failure> {
    bench.says(format_args!("packets, {} flows: opening them", count(flows)));
    let time = bench.turn;
    let mut gateway = Gateway::new(&bench.rings, Shape::full(flows))?;
    let with_ipv6 = flows == bench.size(IPV6_FLOWS);
    let shape = Shape { version: Version::V6, ..Shape::full(flows) };
    let mut ipv6 = if with_ipv6 { Some(Gateway::new(&bench.rings, shape)?) } else { None };
    let mut swap = swapping(bench, Stateless)?;
    let mut rte_hash = swapping(bench, in_rte_hash(flows)?)?;
    open_all(&mut rte_hash, flows)?;
    let mut hashbrown = swapping(bench, in_hashbrown(flows))?;
    open_all(&mut hashbrown, flows)?;
    let order = || Shuffled::below(flows);
    let (mut orders, mut back, mut order_6) = ([order(), order(), order(), order()], order(), order());
    let figure = |who: &str| Figure::new(who, "ns a packet");
    let mut figures = AtFlows {
        flows,
        testpmd: figure("testpmd"),
        swap: figure("the same swap in this process"),
        rte_hash: figure("that swap and rte_hash, 16-byte keys"),
        hashbrown: figure("that swap and hashbrown, 16-byte keys"),
        client: figure("Flowgate, client → appliance"),
        answer: figure("Flowgate, appliance → client"),
        ipv6: with_ipv6.then(|| figure("Flowgate, IPv6 client → appliance")),
        pages: pages_name(gateway.pages),
    };
    figures.testpmd = bench.yardstick(|| {
        figures.swap.samples.push(swap_for(&mut swap, time, &mut orders[0])?);
        figures.rte_hash.samples.push(swap_for(&mut rte_hash, time, &mut orders[1])?);
        figures.hashbrown.samples.push(swap_for(&mut hashbrown, time, &mut orders[2])?);
        figures.client.samples.push(gateway.client_packets(time, &mut orders[3])?);
        figures.answer.samples.push(gateway.answers(time, &mut back)?);
        if let (Some(figure), Some(gateway)) = (&mut figures.ipv6, &mut ipv6) {
            figure.samples.push(gateway.client_packets(time, &mut order_6)?);
        }
        Ok(())
    })?;
    let known = [
        ("rte_hash", rte_hash.forwarder.flows.added, rte_hash.forwarder.flows.refused),
        ("hashbrown", hashbrown.forwarder.flows.added, hashbrown.forwarder.flows.refused),
    ];
    for (name, added, refused) in known {
        if (added, refused) != (u64::from(flows), 0) {
            return Err(format!("{name} has {added} flows of {flows} and had no room for {refused}").into());
        }
    }
    bench.says(format_args!("  best: {}", figures.best()));
    Ok(figures)
}

impl AtFlows {
    /// Every contender's, in the order of the rows.
    pub fn figures(&self) -> [&Figure; 6] {
        [&self.testpmd, &self.swap, &self.rte_hash, &self.hashbrown, &self.client, &self.answer]
    }

    fn best(&self) -> String {
        let each = |figure: &Figure| format!("{} {:.1}", figure.contender, figure.best());
        self.figures().into_iter().chain(&self.ipv6).map(each).collect::<Vec<_>>().join(", ")
    }

    /// The row in which `ours` stands beside the others.
    fn row(&self, title: &str, ours: &Figure, limit: Option<f64>) -> Row {
        let mut row = Row::new("packets", format!("{title}, {} flows", count(self.flows)));
        let beside = [&self.testpmd, &self.swap, &self.rte_hash, &self.hashbrown, ours];
        row.figures = beside.into_iter().cloned().collect();
        let ratio = ours.best() / self.testpmd.best();
        match limit {
            Some(limit) => row.verdicts.push(at_most("a packet", ratio, limit, "Y")),
            None => row.notes.push(format!("{ratio:.2} Y; there is no bar.")),
        }
        row.notes.push(format!("Flowgate's table lies in {}.", self.pages));
        row
    }
}

/// The rows, and the same figures by number of flows for the plot.
pub fn run(bench: &Bench) -> Result<(Vec<Row>, Vec<AtFlows>), Failure> {
    let mut curve = Vec::new();
    for flows in &bench.flows {
        curve.push(at(bench, *flows)?);
    }
    let mut rows = Vec::new();
    for at in &curve {
        let limit = match at.flows {
            CLIENT_FEW => Some(2.0),
            MANY => Some(4.0),
            _ => None,
        };
        rows.push(at.row("established packet client → appliance", &at.client, limit));
    }
    for at in &curve {
        let limit = (at.flows == MANY).then_some(3.0);
        rows.push(at.row("packet appliance → client", &at.answer, limit));
    }
    for at in &curve {
        if let Some(ipv6) = &at.ipv6 {
            let mut row = at.row("established IPv6 packet client → appliance", ipv6, None);
            row.notes.push("Frames of 78 bytes, the shortest with TCP over IPv6.".to_owned());
            rows.push(row);
        }
    }
    Ok((rows, curve))
}
