//! Memory a flow: by how much the process grows, in ordinary and in huge pages, when a table is made and
//! filled. For Flowgate it is the whole worker, its flow table, counters, link-layer headers and all; of the
//! others the table alone, which has the keys and a pointer or a number each, and no state of the flow.
//! Packet buffers and ports are not counted: they do not depend on the flows.

use std::fs;

use super::Bench;
use super::look_up::full_rte_hash;
use crate::Failure;
use crate::contenders::gateway::{Gateway, Shape};
use crate::contenders::rte_hash;
use crate::frames::Flow;
use crate::report::{Figure, Row, at_most, count};
use crate::stand::PORTS;

/// Bytes that the process has, in pages of all sizes.
fn resident() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    Ok((kib("VmRSS:") + kib("HugetlbPages:")) * 1024)
}

/// By how many bytes a flow the process grows when `make` makes something for so many flows.
fn growth<T>(flows: u32, make: impl FnOnce() -> Result<T, Failure>) -> Result<f64, Failure> {
    let before = resident()?;
    let made = make()?;
    let after = resident()?;
    drop(made);
    Ok(after.saturating_sub(before) as f64 / f64::from(flows))
}

fn at(bench: &Bench, flows: u32) -> Result<Row, Failure> {
    bench.says(format_args!("memory, {} flows", count(flows)));
    let mut row = Row::new("memory", format!("memory per flow, {} flows", count(flows)));
    let mut figure = |who: &str, bytes: f64| {
        let mut figure = Figure::new(who, "bytes a flow");
        figure.samples.push(bytes);
        row.figures.push(figure);
    };
    let ends = bench.rings.ends(PORTS, 1)?;
    let ours = growth(flows, || {
        let mut gateway = Gateway::between(&bench.rings, ends, Shape { flows: 0, ..Shape::full(flows) })?;
        // So that the bench keeps nothing by number of flows itself.
        gateway.first_packets(flows as usize, &mut (0..))?;
        Ok(gateway)
    })?;
    figure("rte_hash, 16-byte IPv4 keys", growth(flows, || full_rte_hash(flows, rte_hash::ipv4))?);
    figure("rte_hash, the same 40-byte keys", growth(flows, || full_rte_hash(flows, rte_hash::whole))?);
    let fill = || {
        let keys = (0..u64::from(flows)).map(|number| (Flow::v4(number).key(), 1));
        let mut map = hashbrown::HashMap::<_, u32>::with_capacity(flows as usize);
        map.extend(keys);
        Ok(map)
    };
    figure("hashbrown, the same keys", growth(flows, fill)?);
    figure("Flowgate, the whole worker", ours);
    row.verdicts.push(at_most("a flow", ours, 96.0, "bytes"));
    Ok(row)
}

/// The rows.
pub fn run(bench: &Bench) -> Result<Vec<Row>, Failure> {
    bench.sizes([1 << 20, 1 << 23]).into_iter().map(|flows| at(bench, flows)).collect()
}
