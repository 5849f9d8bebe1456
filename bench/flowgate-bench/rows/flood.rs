//! A SYN flood into a table that is full, while established flows go on. What is timed is batches of nothing
//! but SYNs of flows that nobody knows; every fourth batch is half flood and half packets of established flows,
//! in turn, all of which must come out under their cookie at their target.
//!
//! Full of established flows, none of which may go: the flood is forwarded without state. Half of it
//! half-open: each SYN takes the place of the oldest half-open flow (F-12).

use std::time::Duration;

use flowgate::io::dpdk::Mbuf;

use super::Bench;
use super::first_packet::{STRANGERS, strangers};
use super::packets::{in_hashbrown, in_rte_hash, open_all, swapping};
use crate::contenders::gateway::{Gateway, Shape, check_encapsulated, check_inner, noted};
use crate::contenders::swap::{Flows, Swap};
use crate::frames::{ACK, Flow, SYN, Shuffled};
use crate::report::{Figure, Row, at_most, count};
use crate::rings::BATCH;
use crate::stand::{CLIENTS, Stand, TARGETS, fill};
use crate::{Failure, cpu_time};

/// How many batches are all flood before one is not.
const PURE: u32 = 3;

/// A gateway under attack.
struct Flooded {
    gateway: Gateway,
    established: Shuffled,
    strangers: std::ops::RangeFrom<u64>,
    /// Packets of established flows that went through.
    went_on: u64,
    flood: Figure,
    mixed: Figure,
}

impl Flooded {
    fn new(bench: &Bench, capacity: u32, established: u32, flood: &str) -> Result<Flooded, Failure> {
        let mut gateway = Gateway::new(&bench.rings, Shape { flows: established, ..Shape::full(capacity) })?;
        let mut strangers = STRANGERS..;
        let room = (capacity - established) as usize;
        gateway.first_packets(room, &mut strangers)?;
        let mixed =
            Figure::new(format!("{flood}, every second packet of an established flow"), "ns a packet");
        Ok(Flooded {
            gateway,
            established: Shuffled::below(established),
            strangers,
            went_on: 0,
            flood: Figure::new(flood, "ns a packet"),
            mixed,
        })
    }

    fn take_turn(&mut self, time: Duration) -> Result<(), Failure> {
        let (mut flood, mut mixed, mut batches) = (Duration::ZERO, Duration::ZERO, 0);
        while flood < time {
            for _ in 0..PURE {
                flood += self.gateway.first_packets(BATCH, &mut self.strangers)?;
            }
            mixed += self.mixed_batch()?;
            batches += 1;
        }
        self.flood.samples.push(cpu_time::each(flood, batches * PURE as usize * BATCH));
        self.mixed.samples.push(cpu_time::each(mixed, batches * BATCH));
        let (held, room) =
            (self.gateway.flows(), self.gateway.stand.forwarder.worker.flows().table.capacity());
        if held == room { Ok(()) } else { Err(format!("{held} flows are in a table of {room}").into()) }
    }

    /// Packets of the flood and of established flows in turn.
    fn mixed_batch(&mut self) -> Result<Duration, Failure> {
        let known = &self.gateway.known;
        let flows = |established: &mut Shuffled, strangers: &mut std::ops::RangeFrom<u64>, place: usize| {
            let number =
                if place.is_multiple_of(2) { strangers.next() } else { established.next().map(u64::from) };
            number.map(Flow::v4).ok_or("no more flows")
        };
        let (mut established, mut strangers) = (self.established.clone(), self.strangers.clone());
        let (mut made, mut seen) = (0, 0);
        let took = self.gateway.stand.play(
            (CLIENTS, TARGETS),
            BATCH,
            |packet: &mut Mbuf| {
                let flow = flows(&mut established, &mut strangers, made)?;
                let flags = if made.is_multiple_of(2) { SYN } else { ACK };
                made += 1;
                fill(packet, flow.frame_len(), |frame| flow.client_segment(frame, flags))
            },
            |frame| {
                let flow = flows(&mut self.established, &mut self.strangers, seen)?;
                seen += 1;
                if seen % 2 == 1 {
                    noted(frame)?;
                    return check_inner(flow, SYN, frame);
                }
                self.went_on += 1;
                let number = usize::try_from(flow.number)?;
                check_encapsulated(flow, *known.get(number).ok_or("an unknown flow")?, frame)
            },
        )?;
        Ok(took)
    }
}

/// Nothing but flood through a swapping program, for so long; nanoseconds a packet.
fn flood<F: Flows>(time: Duration, stand: &mut Stand<Swap<F>>, next: &mut u64) -> Result<f64, Failure> {
    let (mut spent, mut packets) = (Duration::ZERO, 0);
    while spent < time {
        spent += strangers(stand, *next, BATCH)?;
        *next += BATCH as u64;
        packets += BATCH;
    }
    Ok(cpu_time::each(spent, packets))
}

/// The row.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let capacity = bench.size(1 << 20);
    bench.says(format_args!("SYN flood, table of {}: filling it", count(capacity)));
    let mut full = Flooded::new(bench, capacity, capacity, "Flowgate, full of established flows")?;
    let mut half = Flooded::new(bench, capacity, capacity / 2, "Flowgate, half of it half-open")?;
    let mut rte_hash = swapping(bench, in_rte_hash(capacity)?)?;
    open_all(&mut rte_hash, capacity)?;
    // It takes some more than it was made for; these find no room at last.
    let mut next = STRANGERS;
    while rte_hash.forwarder.flows.refused == 0 {
        strangers(&mut rte_hash, next, BATCH)?;
        next += BATCH as u64;
    }
    let mut hashbrown = swapping(bench, in_hashbrown(capacity))?;
    open_all(&mut hashbrown, capacity)?;

    let mut of_rte_hash = Figure::new("the swap in this process and rte_hash, full", "ns a packet");
    let mut of_hashbrown = Figure::new("the swap in this process and hashbrown, full", "ns a packet");
    let testpmd = bench.yardstick(|| {
        of_rte_hash.samples.push(flood(bench.turn, &mut rte_hash, &mut next)?);
        of_hashbrown.samples.push(flood(bench.turn, &mut hashbrown, &mut next)?);
        full.take_turn(bench.turn)?;
        half.take_turn(bench.turn)
    })?;

    let mut row = Row::new("flood", format!("SYN flood into a full table of {}", count(capacity)));
    for flooded in [&full, &half] {
        let ratio = flooded.flood.best() / testpmd.best();
        row.verdicts.push(at_most(format!("a flood packet, {}", flooded.flood.contender), ratio, 8.0, "Y"));
    }
    row.notes.push(format!(
        "{} packets of established flows came in between; none was lost, and each went to its target under its cookie.",
        full.went_on + half.went_on
    ));
    row.figures = vec![testpmd, of_rte_hash, of_hashbrown, full.flood, full.mixed, half.flood, half.mixed];
    Ok(vec![row])
}
