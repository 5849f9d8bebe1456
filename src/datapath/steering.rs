//! The choice of a flow's outer UDP source port (W-3), so that an appliance's answer, which keeps the
//! ports and swaps the addresses, arrives at the worker that owns the flow.
//!
//! A NIC with RSS hashes the answer and looks its queue up in an indirection table (RETA). Each worker has
//! the queue of its own number; [`Steering`] knows which entries of the table lead there and which ports
//! lead to an entry. Made once at start from what the port tells of itself; asked by the pipeline for
//! every packet to a target. Where there is no such table, any port does: an answer that arrives
//! elsewhere is handed over by its cookie.

use crate::id::{QueueId, WorkerId};
use crate::wire::toeplitz::{FIRST_SOURCE_PORT, SOURCE_PORTS, SourcePorts};

/// Which source ports bring answers to which worker.
#[derive(Clone, Debug)]
pub struct Steering {
    ports: SourcePorts,
    /// The entries of the indirection table that name a worker's queue, by [`WorkerId`]; none is empty.
    entries: Box<[Box<[u16]>]>,
}

impl Steering {
    /// For a port whose device hashes addresses and UDP ports under the symmetric key and picks the queue
    /// in `reta` by the hash's low bits. `None` if that leaves no choice (one worker) or no way: a table
    /// of a size that no card has, or a worker to whose queue no entry leads.
    pub fn new(reta: &[QueueId], workers: u8) -> Option<Steering> {
        if workers < 2 {
            return None;
        }
        let ports = SourcePorts::new(u16::try_from(reta.len()).ok()?)?;
        let entries_of = |worker: u8| -> Box<[u16]> {
            (0..)
                .zip(reta)
                .filter(|(_, queue)| queue.0 == u16::from(worker))
                .map(|(entry, _)| entry)
                .collect()
        };
        let entries: Box<[Box<[u16]>]> = (0..workers).map(entries_of).collect();
        entries.iter().all(|entries| !entries.is_empty()).then_some(Steering { ports, entries })
    }

    /// The port of a flow: a function of the flow's hash, its owner and its target, and so one for as
    /// long as the flow is with that target, and the same for both directions. `tunnel_hash` is the
    /// target's [`OuterTemplate::answer_hash`](crate::wire::geneve::outer::OuterTemplate::answer_hash).
    #[inline]
    pub fn source_port(&self, tunnel_hash: u32, owner: WorkerId, flow_hash: u64) -> u16 {
        let entries = self.entries.get(owner.index()).map_or(&[][..], |entries| entries);
        // The hash's top 16 bits chose the owner; these two parts are others.
        let place = (((flow_hash >> 8 & 0xffff) * entries.len() as u64) >> 16) as usize;
        #[expect(clippy::cast_possible_truncation, reason = "the ports of an entry are far fewer than 2¹⁶")]
        let salt = (flow_hash >> 24) as u32;
        match entries.get(place) {
            Some(&entry) => self.ports.pick_beside(tunnel_hash, entry, salt),
            None => any_source_port(flow_hash),
        }
    }
}

/// A port for a flow whose answers may arrive anywhere: 14 bits of its hash.
#[inline]
pub fn any_source_port(flow_hash: u64) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "masked to 14 bits")]
    let spread = (flow_hash >> 24) as u16 & (SOURCE_PORTS - 1);
    FIRST_SOURCE_PORT | spread
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_possible_truncation, reason = "test tables are small")]

    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::ethernet::MacAddr;
    use crate::wire::geneve::outer::OuterTemplate;
    use crate::wire::toeplitz::{SYMMETRIC_KEY_40, hash};

    /// Entries dealt out to the queues in turn, as drivers do.
    fn dealt(size: u16, queues: u16) -> Vec<QueueId> {
        (0..size).map(|entry| QueueId(entry % queues)).collect()
    }

    fn answer_hash(ours: u32, target: u32) -> u32 {
        let [ours, target] = [ours, target].map(Ipv4Addr::from_bits);
        OuterTemplate::new(MacAddr::default(), MacAddr::default(), ours, target).answer_hash()
    }

    /// The queue that a card gives a target's answer to: the plain algorithm over the answer's bytes.
    fn queue_of_answer(reta: &[QueueId], ours: u32, target: u32, port: u16) -> QueueId {
        let mut input = [target.to_be_bytes(), ours.to_be_bytes()].concat();
        input.extend([port.to_be_bytes(), 6081u16.to_be_bytes()].concat());
        reta[hash(&SYMMETRIC_KEY_40, &input) as usize % reta.len()]
    }

    proptest! {
        // W-3
        #[test]
        fn an_answer_arrives_at_the_owner_whatever_the_table(
            ours: u32, target: u32, flow: u64, workers in 2u8..=32, bits in 6u32..=11, dealing: u64,
        ) {
            let mut reta = dealt(1 << bits, u16::from(workers));
            // Not only the drivers' own order: swap some of the entries.
            for n in 0..reta.len() {
                let other = (dealing.rotate_left(n as u32 % 64) % reta.len() as u64) as usize;
                reta.swap(n, other);
            }
            let steering = Steering::new(&reta, workers).unwrap();
            for worker in 0..workers {
                let port = steering.source_port(answer_hash(ours, target), WorkerId(worker), flow);
                prop_assert!(port >= 49_152);
                prop_assert_eq!(queue_of_answer(&reta, ours, target, port), QueueId(u16::from(worker)));
            }
        }
    }

    // W-3
    #[test]
    fn a_workers_flows_spread_over_all_ports_that_lead_to_it() {
        let reta = dealt(128, 4);
        let steering = Steering::new(&reta, 4).unwrap();
        let (ours, target) = (0x0a09_0001, 0x0a09_0101);
        let tunnel = answer_hash(ours, target);
        for worker in 0..4 {
            let ports: HashSet<u16> = (0..200_000u64)
                .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .map(|flow| steering.source_port(tunnel, WorkerId(worker), flow))
                .collect();
            assert_eq!(ports.len(), usize::from(SOURCE_PORTS / 4), "worker {worker}");
        }
    }

    #[test]
    fn without_a_choice_or_a_way_there_is_no_steering() {
        assert!(Steering::new(&dealt(128, 2), 2).is_some());
        assert!(Steering::new(&dealt(128, 1), 1).is_none(), "one worker");
        assert!(Steering::new(&[], 2).is_none(), "a device that does not tell");
        assert!(Steering::new(&dealt(100, 2), 2).is_none(), "no power of two");
        assert!(Steering::new(&dealt(128, 2), 3).is_none(), "nothing leads to the third");
    }

    // W-3
    #[test]
    fn any_port_is_one_of_the_dynamic_range() {
        assert_eq!(any_source_port(0), 49_152);
        assert_eq!(any_source_port(u64::MAX), 65_535);
    }
}
